"""An environment is looked at before a run begins, in a process that may hang or end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import psutil
import pytest

from a3c_zoo.plugins.loading import Selection
from a3c_zoo.plugins.registry import load_registry
from tests.toys_runs import environ
from tests.waits import LIMIT_S, wait_until

#: This process has torch, beside which it does not fork; a new one has not.
LOOK = """
import json, os, sys, time
from a3c_zoo import first_look
first_look.LIMIT_S, first_look.PATIENCE_S = 1.0, 0.1
pids = []
def read():
    {body}
try:
    print(json.dumps(["read", first_look.first_look("the maze", read)]))
except Exception as error:
    print(json.dumps(["raised", str(error)]))
"""


def looked(body: str) -> tuple[list[Any], str]:
    """What a look ends with, and what the user is told."""
    script = textwrap.dedent(LOOK).format(body=body)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environ(), timeout=LIMIT_S
    )
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a fork")
@pytest.mark.parametrize(
    ("body", "seen"),
    [
        ("return 'image'", ["read", "image"]),
        ("return ''", ["read", ""]),
        ("raise ValueError('no level')", ["raised", "no level"]),
        ("os._exit(3)", ["read", None]),
        ("os.kill(os.getpid(), 11)", ["read", None]),
        ("sys.exit(5)", ["read", None]),
        ("sys.stdout = sys.stderr = None; return ''", ["read", ""]),
        ("os.closerange(3, 60)", ["read", None]),
    ],
)
def test_what_a_look_ends_with(body: str, seen: list[Any]) -> None:
    assert looked(body) == (seen, "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a fork")
def test_a_look_that_hangs_says_so_and_ends() -> None:
    seen, told = looked("time.sleep(600)")
    assert seen == ["read", None]
    assert told == "the maze was not made within 0.1 s; it may take 1.0 s …\n"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel ends the process, on Linux")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_look_ends_with_its_parent(tmp_path: Path, number: int) -> None:
    file = tmp_path / "pid"
    body = f"open({str(file)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    script = textwrap.dedent(LOOK).replace("1.0, 0.1", "600.0, 600.0").format(body=body)
    parent = subprocess.Popen([sys.executable, "-c", script], env=environ())
    try:
        wait_until(lambda: file.exists() and file.read_text() != "")
        parent.send_signal(number)
        parent.wait(LIMIT_S)
    finally:
        parent.kill()
    looking = int(file.read_text())
    wait_until(lambda: not psutil.pid_exists(looking))


class Counted(gymnasium.Env[Any, Any]):
    """Counts how often it is made; games often end their program when they are closed."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space: Any = gymnasium.spaces.Discrete(2)
    made = 0

    def __init__(self, force: bool = False, **_: Any) -> None:
        type(self).made += 1
        if force:
            self.action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def close(self) -> None:
        raise SystemExit


def test_a_registered_environment_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = load_registry(Selection(allowed=frozenset()))
    monkeypatch.setattr(Counted, "made", 0)
    gymnasium.register("Counted-v0", Counted)
    try:
        for _ in range(3):
            entry = registry.env("gym:Counted-v0")
            assert entry.variant == ""
            assert registry.with_arguments(entry, {"force": True}).variant == "continuous"
        assert Counted.made == 2
        del gymnasium.registry["Counted-v0"]
        gymnasium.register("Counted-v0", lambda **_: Counted(force=True))
        assert registry.env("gym:Counted-v0").variant == "continuous"
    finally:
        del gymnasium.registry["Counted-v0"]


def test_an_environment_of_a_module_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = load_registry(Selection(allowed=frozenset()))
    monkeypatch.setattr(Counted, "made", 0)
    for _ in range(3):
        entry = registry.env(f"python:{__name__}:Counted")
        assert entry.variant == ""
        assert registry.with_arguments(entry, {"force": True}).variant == "continuous"
    assert Counted.made <= 2  # 0 if another test has looked at it
