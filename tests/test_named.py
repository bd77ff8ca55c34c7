"""What a name means to `play`, `evaluate` and `load_agent`. Of runs only their names and outcomes are read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from a3c_zoo.errors import ZooError
from a3c_zoo.runs.named import find_policy
from tests.toys_runs import command_line

KEPT = Path(__file__).parent / "data" / "runs" / "cartpole-a3c-s1"


def make_run(path: Path, started: str, solved: bool = True, agent: str = "a3c") -> None:
    shutil.copytree(KEPT, path)
    for file, values in {"meta.json": {"started": started, "agent": agent}, "outcome.json": {"solved": solved}}.items():
        (path / file).write_text(json.dumps(json.loads((path / file).read_text()) | values))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    make_run(folder / "b-older", "2026-01-01T10:00:00+0000")
    make_run(folder / "a-newer", "2026-01-01T11:00:00+0000")
    make_run(folder / "unsolved", "2026-01-01T12:00:00+0000", solved=False)
    make_run(folder / "textbook", "2026-01-01T09:00:00+0000", agent="nstep")
    return folder


def found(name: str, runs: Path, agent: str | None = None) -> Path:
    return find_policy(name, agent, runs, trust=False).path


def test_an_environment_means_its_newest_solved_run(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert found("cartpole", runs) == runs / "a-newer"
    assert capsys.readouterr().err == f"cartpole: {runs / 'a-newer'}, the newest run that solved it\n"
    assert found("cartpole", runs, "nstep") == runs / "textbook"


def test_a_run_goes_before_an_environment(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(runs / "cartpole", "2026-01-01T08:00:00+0000", solved=False)
    assert found("cartpole", runs) == runs / "cartpole"
    assert capsys.readouterr().err == ""
    with pytest.raises(ZooError, match="'cartpole' is a run, which has one agent: leave out --agent"):
        found("cartpole", runs, "a3c")


@pytest.mark.parametrize(
    ("name", "agent", "message"),
    [
        ("pong", None, "has solved 'pong': a3c-zoo train pong. Or name a run: a3c-zoo list runs"),
        ("cartpole", "a3c-grad", "has solved 'cartpole' --agent a3c-grad: a3c-zoo train cartpole --agent a3c-grad"),
        ("gym:Nothing-v0", None, "has solved 'gym:Nothing-v0'"),
        ("cartpool", None, "no run 'cartpool' here or in "),
    ],
)
def test_a_name_without_a_run(name: str, agent: str | None, message: str, runs: Path) -> None:
    with pytest.raises(ZooError, match=message) as raised:
        found(name, runs, agent)
    assert "\n" not in str(raised.value)


def test_the_command_line(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line("evaluate", "pong", "--runs-dir", runs) == 2
    assert command_line("evaluate", "cartpole", "--agent", "nstep", "--runs-dir", runs) == 2  # it has no checkpoint
    text = capsys.readouterr().err
    assert f"cartpole: {runs / 'textbook'}, the newest run that solved it" in text
    assert "run textbook has no checkpoint" in text
