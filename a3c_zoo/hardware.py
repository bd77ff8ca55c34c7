"""What this machine's processor is and can do."""

from __future__ import annotations

import functools
import platform
from pathlib import Path


@functools.cache
def _cpu_info() -> dict[str, str]:
    """The first processor's lines of /proc/cpuinfo; empty where there is none."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def cpu_model() -> str:
    """Its name, as it says itself."""
    return _cpu_info().get("model name") or platform.processor()


def has_fast_bfloat16() -> bool:
    """Whether it multiplies bfloat16 in hardware (AMX or AVX512-BF16); without, bfloat16 is slower than float32."""
    return bool({"avx512_bf16", "amx_bf16"} & set(_cpu_info().get("flags", "").split()))
