"""Cores and memory as the limits of a container allow: texts of the kernel's files, and folders that hold them."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from a3c_zoo import hardware
from a3c_zoo.hardware import cgroup_folders, cores_of_quota, left_in_cgroup

#: A container with cgroups of version 1, as /proc/self/cgroup shows it.
VERSION_1 = """\
5:cpuset:/
4:memory:/docker/abc
3:cpu,cpuacct:/docker/abc
1:name=systemd:/docker/abc
0::/
"""
VERSION_2 = "0::/user.slice/session.scope\n"


@pytest.mark.parametrize(
    ("text", "controller", "folders"),
    [
        (VERSION_2, "cpu", ["user.slice/session.scope", "user.slice", "."]),
        (VERSION_2, "memory", ["user.slice/session.scope", "user.slice", "."]),
        ("0::/\n", "cpu", ["."]),
        ("0::/../../other\n", "cpu", ["."]),  # of another container
        (VERSION_1, "cpu", ["cpu/docker/abc", "cpu/docker", "cpu", "."]),
        (VERSION_1, "memory", ["memory/docker/abc", "memory/docker", "memory", "."]),
        ("1:name=a:b:/c\n0::/d:e\n", "cpu", ["d:e", "."]),
        ("", "cpu", []),
    ],
)
def test_the_groups_of_a_process_and_those_around_them(text: str, controller: str, folders: list[str]) -> None:
    assert [str(folder) for folder in cgroup_folders(text, controller)] == folders


@pytest.mark.parametrize(
    ("text", "cores"),
    [
        ("max 100000\n", None),
        ("-1\n 100000\n", None),  # the two files of version 1
        ("200000 100000\n", 2),
        ("250000\n 100000\n", 3),  # rounded up
        ("50000 100000\n", 1),
        ("1000 1000000\n", 1),
    ],
)
def test_cores_of_a_quota(text: str, cores: int | None) -> None:
    assert cores_of_quota(text) == cores


def test_what_a_group_may_still_take() -> None:
    """The limit is 8 GB and 7 GB are used. Files (2 + 0.5 GB) and the kernel (0.1 GB) use a part only as a cache."""
    stat = "anon 4200000000\nfile 2500000000\ninactive_file 2000000000\nactive_file 500000000\n"
    stat += "slab_reclaimable 100000000\n"
    assert left_in_cgroup("8000000000\n", "7000000000\n", stat) == 3_600_000_000
    assert left_in_cgroup("max\n", "7000000000\n", stat) is None
    assert left_in_cgroup("8000000000\n", "8000004096\n", "inactive_file 0\n") == 0


def test_what_a_group_of_version_1_may_still_take() -> None:
    """Caches include those of the groups below. A limit larger than any machine's memory is no limit."""
    stat = "inactive_file 1\nactive_file 2\ntotal_inactive_file 30\ntotal_active_file 400\n"
    assert left_in_cgroup("5000\n", "2000\n", stat) == 3430
    assert left_in_cgroup("9223372036854771712\n", "2000\n", stat) == 9223372036854771712 - 2000 + 430


class Container:
    """A folder with files as the kernel has them, on a machine of 16 cores with 10 GB of free memory."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path, read_text = path, Path.read_text

        def read(file: Path, encoding: str | None = None) -> str:
            return read_text(path / "self" if file == Path("/proc/self/cgroup") else file, encoding)

        monkeypatch.setattr(Path, "read_text", read)
        monkeypatch.setattr(hardware, "CGROUPS", path)
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)))
        monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=10**10))

    def write(self, name: str, text: str) -> None:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@pytest.fixture
def container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Container:
    return Container(tmp_path, monkeypatch)


def test_without_limits_there_is_what_the_machine_has(container: Container) -> None:
    assert (hardware.available_cores(), hardware.available_memory()) == (16, 10**10)  # no cgroups at all
    container.write("self", VERSION_2)
    assert (hardware.available_cores(), hardware.available_memory()) == (16, 10**10)


def test_the_least_of_nested_limits_counts(container: Container) -> None:
    container.write("self", VERSION_2)
    container.write("user.slice/session.scope/cpu.max", "max 100000\n")
    container.write("user.slice/cpu.max", "350000 100000\n")
    assert hardware.available_cores() == 4
    container.write("user.slice/session.scope/cpu.max", "150000 100000\n")
    assert hardware.available_cores() == 2
    container.write("user.slice/session.scope/cpu.max", "9900000 100000\n")
    assert hardware.available_cores() == 4
    for folder, limit in (("user.slice/session.scope", "9000"), ("user.slice", "6000")):
        for name, text in (("max", limit), ("current", "2500"), ("stat", "inactive_file 70\n")):
            container.write(f"{folder}/memory.{name}", text)
    assert hardware.available_memory() == 3570


def test_limits_of_version_1(container: Container) -> None:
    container.write("self", VERSION_1)
    container.write("cpu/docker/abc/cpu.cfs_quota_us", "-1\n")
    container.write("cpu/docker/abc/cpu.cfs_period_us", "100000\n")
    container.write("cpu/cpu.cfs_quota_us", "120000\n")  # inside of a container, its own group is the root
    container.write("cpu/cpu.cfs_period_us", "100000\n")
    assert hardware.available_cores() == 2
    for name, text in (("limit_in_bytes", "5000"), ("usage_in_bytes", "2000"), ("stat", "total_active_file 7\n")):
        container.write(f"memory/memory.{name}", text)
    assert hardware.available_memory() == 3007


def test_a_container_without_its_own_list_of_groups(container: Container) -> None:
    container.write("cpu.max", "100000 100000\n")
    assert hardware.available_cores() == 1


def test_free_cores(container: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others keep 4 of 16 cores busy. The group may use 4, and has used 0.75 s of them in 0.25 s: 3 cores."""

    def busy(seconds: float, percpu: bool) -> list[float]:
        container.write("cpu.stat", "usage_usec 5750000\nuser_usec 1\n")
        return [100.0] * 4 + [0.0] * 12

    monkeypatch.setattr("psutil.cpu_percent", busy)
    assert hardware.free_cores(0.25) == 12
    container.write("cpu.max", "400000 100000\n")
    container.write("cpu.stat", "usage_usec 5000000\nuser_usec 1\n")
    assert hardware.free_cores(0.25) == 1
