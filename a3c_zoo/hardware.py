"""What this machine has: its processor, memory and display."""

from __future__ import annotations

import functools
import os
import platform
import sys
from pathlib import Path


@functools.cache
def _cpu_info() -> dict[str, str]:
    """The first processor's lines of /proc/cpuinfo; empty where there is none."""
    try:
        return parse_cpu_info(Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    except OSError:
        return {}


def parse_cpu_info(text: str) -> dict[str, str]:
    """What /proc/cpuinfo says of the first processor."""
    pairs = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def cpu_model() -> str:
    """Its name, as it says itself."""
    return _cpu_info().get("model name") or platform.processor()


def available_cores() -> int:
    """Processor cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def has_fast_bfloat16() -> bool:
    """Whether it multiplies bfloat16 in hardware (AMX or AVX512-BF16); without, bfloat16 is slower than float32."""
    return bool({"avx512_bf16", "amx_bf16"} & set(_cpu_info().get("flags", "").split()))


def available_memory() -> int:
    """Bytes that programs can still have without swapping; in a container, no more than its limit leaves."""
    import psutil

    available, folder = int(psutil.virtual_memory().available), Path("/sys/fs/cgroup")
    try:
        texts = [(folder / f"memory.{name}").read_text(encoding="ascii") for name in ("max", "current", "stat")]
    except OSError:
        return available
    left = left_in_container(*texts)
    return available if left is None else min(available, left)


def left_in_container(limit: str, current: str, stat: str) -> int | None:
    """Bytes that a cgroup may still take: its limit less what it holds; what is only cached makes room.

    Args:
        limit, current, stat: what memory.max, memory.current and memory.stat say.

    Returns:
        None where there is no limit.
    """
    if limit.strip() == "max":
        return None
    statistics = dict(line.split() for line in stat.splitlines())
    cached = sum(int(statistics.get(name, 0)) for name in ("active_file", "inactive_file", "slab_reclaimable"))
    return max(0, int(limit) - int(current) + cached)


def has_display() -> bool:
    """Whether somebody would see a window."""
    if driver := os.environ.get("SDL_VIDEODRIVER"):
        return driver not in ("dummy", "offscreen")
    return sys.platform in ("win32", "darwin") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
