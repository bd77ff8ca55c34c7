"""A short run of the properties of `tests/fuzz`, always with the same cases; and what their watch sees."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.testing import plugin_distribution
from tests.fuzz.properties import GIVEN, Properties, as_test
from tests.fuzz.sandbox import Sandbox, sandbox
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
        case "lines":
            print("Error: one", "two", sep="\\n", file=sys.stderr)
            sys.exit(2)
        case "silence":
            sys.exit(2)
        case "allocate":
            bytearray(1 << 36)
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
    assert sum(properties.cases.values()) >= 20


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
    ],
)
def test_the_watch_sees(how: str, finding: str, box: Sandbox) -> None:
    box.fresh()
    victim = box.outside / "victim"
    try:
        with pytest.raises(Finding, match=finding):
            box.run("misbehave", how, victim, limit_s=0.5)
    finally:
        victim.write_text("precious")


def test_the_watch_lets_pass(box: Sandbox) -> None:
    box.fresh()
    assert box.run("misbehave", "write", "file", writable=(box.here,)).status == 0
    assert box.run("misbehave", "error").err == "Error: a line with its cure\n"
