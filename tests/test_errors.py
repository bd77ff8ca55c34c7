"""Errors of others in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from a3c_zoo.errors import MOST_OF_MESSAGE, MOST_OF_TRACE, bounded, one_line, trace_of, type_and_message
from a3c_zoo.testing import plugin_distribution
from tests.toys_runs import Running

MAZE = """
import gymnasium
from a3c_zoo import EnvEntry, hookimpl

@hookimpl
def zoo_envs():
    return [EnvEntry("maze", env_id="asserting_maze:Maze-v0")]

class Maze(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        assert action > 5, "no way"

gymnasium.register("Maze-v0", Maze)
"""


def error_of(statement: str) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one depends on the statement
        exec(statement)
    return caught.value


def test_an_assertion_quotes_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "asserting_maze.py").write_text(
        "def step(action):\n    assert 0 <= action < 4\n\ndef reset(seed):\n    assert seed > 0, 'no seed'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    step = error_of("import asserting_maze; asserting_maze.step(7)")
    assert type_and_message(step) == "AssertionError (assert 0 <= action < 4)"
    assert one_line(step) == "AssertionError (assert 0 <= action < 4) (in asserting_maze.py, line 2)"
    reset = error_of("import asserting_maze; asserting_maze.reset(0)")
    assert type_and_message(reset) == "AssertionError: no seed (assert seed > 0, 'no seed')"


@pytest.mark.parametrize(
    ("statement", "line"),
    [
        ("raise AssertionError('by hand')", "AssertionError: by hand"),  # and no source
        ("raise ValueError('a\\n  b')", "ValueError: a b"),
    ],
)
def test_other_errors_are_as_they_are(statement: str, line: str) -> None:
    assert type_and_message(error_of(statement)) == line


@pytest.mark.parametrize("runner", ["--serial", "--workers=1"])
def test_an_environment_that_asserts(runner: str, tmp_path: Path) -> None:
    path = plugin_distribution(tmp_path / "maze", "asserting-maze", MAZE)
    with Running("train", "maze", runner, "--name", "x", folder=tmp_path, path=path) as running:
        assert running.exit_status() == 1
    outcome = json.loads((tmp_path / "runs/x/outcome.json").read_text())
    who = "" if runner == "--serial" else "worker 0 failed: "
    assert outcome["detail"] == f'{who}AssertionError: no way (assert action > 5, "no way")'


def test_a_long_message_is_cut_in_the_middle() -> None:
    assert bounded("123456789", 9) == "123456789"
    assert bounded("1234567890", 8) == "1234 … (2 letters) … 7890"
    message = type_and_message(ValueError("x" * 1_000_000))
    assert len(message) < MOST_OF_MESSAGE + 100
    assert message.startswith("ValueError: xxx")
    try:
        raise ValueError("x" * 1_000_000)
    except ValueError as error:
        trace = trace_of(error)
    assert len(trace) < MOST_OF_TRACE + 100
    assert trace.startswith("Traceback")


def test_a_message_that_cannot_be_made_is_no_second_error() -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise KeyError("no text")

    assert type_and_message(MuteError()) == "MuteError: its message cannot be made, KeyError"
    assert "Mute" in trace_of(MuteError())
