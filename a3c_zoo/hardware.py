"""The processor, memory and display that a run has; in a container, as far as its limits allow."""

from __future__ import annotations

import functools
import math
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from a3c_zoo.system import IS_WINDOWS, usable_cores

#: Where the cgroups are mounted: version 2 itself, and a folder for each controller of version 1.
CGROUPS = Path("/sys/fs/cgroup")


@functools.cache
def _cpu_info() -> dict[str, str]:
    """The first processor's lines of /proc/cpuinfo; empty if there is no such file."""
    try:
        return parse_cpu_info(Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    except OSError:
        return {}


def parse_cpu_info(text: str) -> dict[str, str]:
    """Returns the keys and values of the first processor in the text of /proc/cpuinfo.

    torch can ask for the same, but is not imported here.
    """
    pairs = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def cpu_model() -> str:
    """The name of the processor."""
    return _cpu_info().get("model name") or platform.processor()


def machine() -> dict[str, Any]:
    """This machine, as `meta.json` has it under `host`."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cpu": cpu_model(),
        "cores": available_cores(),
        "bfloat16": has_fast_bfloat16(),
    }


def cpu_flags() -> frozenset[str]:
    """What the processor can do, in the kernel's words, such as `amx_bf16`."""
    return frozenset(_cpu_info().get("flags", "").split())


def has_fast_bfloat16() -> bool:
    """Whether networks are faster in bfloat16: with AMX, and with AVX512-BF16 on AMD's processors, as far as measured.

    On Intel's processors with AVX512-BF16 alone float32 was faster (docs/explanation/experiments-precision.md).
    """
    is_amd = _cpu_info().get("vendor_id") == "AuthenticAMD"
    return "amx_bf16" in cpu_flags() or (is_amd and "avx512_bf16" in cpu_flags())


def cgroup_folders(text: str, controller: str) -> list[PurePosixPath]:
    """Returns the folders below `CGROUPS` with the limits that hold for this process: of its group and those around it.

    Args:
        text: of /proc/self/cgroup, lines `number:controllers:path`; a group of version 2 has no controllers.
        controller: "cpu" or "memory".
    """
    folders = []
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        mount = PurePosixPath(controller if controllers else "")
        # A container may see the path as the host does; then only its own root is there. ".." is outside of it.
        group = PurePosixPath(path.lstrip("/")) if ".." not in path else PurePosixPath()
        folders += [mount / folder for folder in (group, *group.parents)]
    return list(dict.fromkeys(folders))


def cores_of_quota(text: str) -> int | None:
    """Returns the cores that a quota of CPU time allows, rounded up; None without a quota.

    Args:
        text: quota and period in microseconds, as in `cpu.max` of version 2. No quota is "max", in version 1 -1.
    """
    quota, period = text.split()
    return None if quota in ("max", "-1") else max(1, math.ceil(int(quota) / int(period)))


def left_in_cgroup(limit: str, current: str, stat: str) -> int | None:
    """Returns the bytes that a cgroup may still take; None without a limit. Its caches make room and do not count.

    Args:
        limit, current, stat: the texts of `memory.max`, `memory.current` and `memory.stat` of version 2, or of
            `memory.limit_in_bytes`, `memory.usage_in_bytes` and `memory.stat` of version 1, where names with "total_"
            include the groups below.
    """
    if limit.strip() == "max":
        return None
    numbers = dict(line.split() for line in stat.splitlines())
    names = ("active_file", "inactive_file", "slab_reclaimable")
    cached = sum(int(numbers.get(f"total_{name}", numbers.get(name, 0))) for name in names)
    return max(0, int(limit) - int(current) + cached)


def _cgroup_texts(controller: str, *names: str) -> Iterator[list[str]]:
    """The texts of these files, from each group of this process that has them all."""
    try:
        text = Path("/proc/self/cgroup").read_text(encoding="utf-8")
    except OSError:
        text = "0::/"
    for folder in cgroup_folders(text, controller):
        try:
            yield [(CGROUPS / folder / f"{controller}.{name}").read_text(encoding="ascii") for name in names]
        except OSError:
            continue


def available_cores() -> int:
    """Processor cores that this process may use: its affinity, or less if a cgroup has a quota of CPU time."""
    cores = len(usable_cores())
    texts = [*_cgroup_texts("cpu", "max"), *_cgroup_texts("cpu", "cfs_quota_us", "cfs_period_us")]
    quotas = [cores_of_quota(" ".join(contents)) for contents in texts]
    return min([cores, *(quota for quota in quotas if quota is not None)])


def free_cores(seconds: float) -> float:
    """The part of `available_cores` that no program has used while this process slept for so many seconds."""
    import psutil

    before = [*_cgroup_texts("cpu", "max", "stat")]
    busy = psutil.cpu_percent(seconds, percpu=True)
    free: list[float] = [sum(1 - busy[core] / 100 for core in usable_cores() if core < len(busy))]
    for (limit, earlier), (_, later) in zip(before, _cgroup_texts("cpu", "max", "stat"), strict=False):
        if (quota := cores_of_quota(limit)) is not None:
            used = [
                int(dict(line.split() for line in stat.splitlines())["usage_usec"])
                for stat in (earlier, later)
            ]
            free.append(quota - (used[1] - used[0]) / 1e6 / seconds)
    return max(0.0, min(free))


def giga(number: int) -> str:
    """A number of bytes for a message."""
    return f"{number / 1e9:,.1f} GB"


def available_memory() -> int:
    """Bytes that programs can still have without swapping, in a container no more than its limits leave."""
    import psutil

    texts = [*_cgroup_texts("memory", "max", "current", "stat")]
    texts += _cgroup_texts("memory", "limit_in_bytes", "usage_in_bytes", "stat")
    left = [left_in_cgroup(*contents) for contents in texts]
    return min([int(psutil.virtual_memory().available), *(limit for limit in left if limit is not None)])


#: Open files of a run without workers, the same with room for an evaluator, and of each worker. 24 and 4 were measured.
LEAST_FILES = 24
FILES = 40
FILES_OF_A_WORKER = 4
#: Memory of a worker process, without its environments and what it shares with others, in bytes. 25 MB were measured.
WORKER_BYTES = 25_000_000


def workers_for_files(files: int, others: int) -> int:
    """How many workers a run can have with so many open files, of which it needs `others` for other things."""
    return max(0, files - others) // FILES_OF_A_WORKER


#: Drivers of SDL that draw in memory.
UNSEEN = ("dummy", "offscreen")


def has_display() -> bool:
    """Whether a window can be shown."""
    if driver := os.environ.get("SDL_VIDEODRIVER"):
        return driver not in UNSEEN
    return sys.platform == "darwin" or IS_WINDOWS or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
