"""A short run of the properties of `tests/fuzz`, always with the same cases; and what their watch sees."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.store.checkpoint_bytes import read_content
from a3c_zoo.testing import plugin_distribution
from tests.fuzz.disk import BrokenDisk
from tests.fuzz.properties import GIVEN, Properties, as_test
from tests.fuzz.sandbox import Sandbox, sandbox
from tests.fuzz.structure import Edit, change_tokens
from tests.fuzz.values import lines
from tests.fuzz.watch import Finding

#: Cases of all properties together. `make fuzz` has ten times as many.
CASES = 240

MISBEHAVING = """
import os
import sys
import time

import click

from a3c_zoo import CommandEntry, hookimpl
from a3c_zoo.errors import ZooError


@click.command()
@click.argument("how")
@click.argument("path", required=False)
def command(how, path):
    match how:
        case "raise":
            raise RuntimeError("an internal error")
        case "loop":
            while True:
                pass
        case "wait":
            time.sleep(600)
        case "status":
            sys.exit(7)
        case "write":
            open(path, "w").close()
        case "remove":
            os.remove(path)
        case "import":
            import evil_module
        case "start":
            os.system("true")
        case "escape":
            print("\\x1b[2J")
        case "blank":
            print("one\\xa0blank")
        case "lines":
            print("Error: one", "two", sep="\\n", file=sys.stderr)
            sys.exit(2)
        case "silence":
            sys.exit(2)
        case "allocate":
            bytearray(1 << 36)
        case "hold":
            b"x" * (1100 << 20)
        case "read":
            open(path).read()
        case "error":
            raise ZooError("a line with its cure")


@hookimpl
def zoo_commands():
    return [CommandEntry("misbehave", f"{__name__}:command", "do something wrong")]
"""


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    root = tmp_path_factory.mktemp("fuzz")
    plugin = plugin_distribution(root / "plugin", "misbehaving", MISBEHAVING)
    with sandbox(root / "box") as made, pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(plugin)
        get_registry.cache_clear()
        yield made


@pytest.mark.parametrize("name", GIVEN)
def test_a_property_holds(name: str, box: Sandbox) -> None:
    properties = Properties(box)
    as_test(properties, name, round(CASES * GIVEN[name][0]))()
    assert sum(properties.cases.values()) >= 10


@pytest.mark.parametrize(
    ("how", "finding"),
    [
        ("raise", "a traceback"),
        ("loop", "over 0.5 s"),
        ("wait", "over 0.5 s"),
        ("status", "exit status 7"),
        ("write", "open .*/victim"),
        ("remove", r"os\.remove .*/victim"),
        ("import", "imports evil_module"),
        ("start", r"os\.system b'true'"),
        ("escape", "a terminal would obey"),
        ("lines", "2 lines for one error"),
        ("silence", "no line with the error"),
        ("allocate", "a traceback"),
        ("hold", r"took 1,\d\d\d MiB of memory"),
        ("read", "read victim through a link"),
    ],
)
def test_the_watch_sees(how: str, finding: str, box: Sandbox) -> None:
    box.fresh()
    victim = box.outside / "victim"
    try:
        with pytest.raises(Finding, match=finding):
            box.run("misbehave", how, victim, limit_s=0.5 if "over 0.5 s" in finding else 5.0, may_read=False)
    finally:
        victim.write_text("precious")


def test_the_watch_lets_pass(box: Sandbox) -> None:
    box.fresh()
    assert box.run("misbehave", "write", "file", writable=(box.here,)).status == 0
    assert box.run("misbehave", "error").err == "Error: a line with its cure\n"
    assert box.run("misbehave", "read", box.outside / "victim").status == 0
    assert box.run("misbehave", "nothing", may_read=False).status == 0
    assert box.run("misbehave", "blank").out == "one\xa0blank\n"


@pytest.mark.parametrize(
    ("what", "number", "lasts", "refused"),
    [
        ("write", 1, False, "new"),
        ("write", 2, False, "text"),
        ("write", 1, True, "new"),
        ("rename", 1, False, "new"),
        ("fsync", 1, False, r"\[Errno 5\]"),
        ("write", 3, False, ""),
        ("rename", 2, True, ""),
    ],
)
def test_a_disk_fails_at_the_nth_operation(
    what: str, number: int, lasts: bool, refused: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    disk = BrokenDisk(tmp_path, what, number, "EIO", lasts)
    outside = tmp_path.with_name("outside.txt")

    def write_and_rename() -> None:
        outside.write_text("no file of this disk")
        with open("new", "wb", buffering=0) as raw:
            raw.write(b"x")
            os.fsync(raw.fileno())
        os.replace("new", "old")
        with open("text", "w") as text:
            text.write("y")

    with disk.mounted():
        if not refused:
            write_and_rename()
        else:
            with pytest.raises(OSError, match=refused) as raised:
                write_and_rename()
            assert raised.value.errno == errno.EIO
    assert bool(disk.refused) == bool(refused)


def test_tokens_of_a_checkpoint_change_and_its_digest_fits(box: Sandbox) -> None:
    box.fresh(box.mine)
    path = max((box.mine / "checkpoints").glob("step-*.pt"))
    whole = path.read_bytes()
    steps = Edit((2, 0), "replace", 0, 12_345)
    change_tokens(path, box.outside, [steps], "content", True, 0)
    assert read_content(path)["session"]["steps"] == 12_345
    path.write_bytes(whole)
    change_tokens(path, box.outside, [steps], "content", False, 0)
    with pytest.raises(ValueError, match="SHA-256"):
        read_content(path)
    path.write_bytes(whole)
    change_tokens(path, box.outside, [Edit((1,), "nest", 3, None)], "content", True, 0)
    with pytest.raises(RecursionError):
        read_content(path)


def test_no_command_trains_without_end() -> None:
    """Every drawn line of `train` ends with a budget; `compare` and `tune` train only after a question."""

    @settings(max_examples=1000, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(lines())
    def check(line: list[str]) -> None:
        assert "--yes" not in line
        if line[:1] == ["train"]:
            assert line[-3:] in (["--steps", "1", "--quiet"], ["--steps", "700", "--quiet"])

    check()
