"""`a3c-zoo list runs` and its filters."""

from __future__ import annotations

import json
import math
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from a3c_zoo.cures import upgrade
from a3c_zoo.records import Outcome, Reason
from a3c_zoo.store.directory import RunDirectory
from a3c_zoo.store.run import moment_of
from a3c_zoo.store.trained import find_policy
from tests.test_run_directory import CONFIG, META
from tests.toys_runs import command_line

Captured = pytest.CaptureFixture[str]
NOW = datetime.now().astimezone()


def make(name: str, *, env: str, agent: str, seed: int, started: datetime, end: tuple[Reason, bool] | None) -> None:
    about = {"env": env, "agent": agent, "seed": seed, "started": f"{started:%Y-%m-%dT%H:%M:%S%z}"}
    directory = RunDirectory.create(Path("runs"), CONFIG, {**META, **about}, name)
    directory.unlock()
    if end is not None:
        reason, solved = end
        figures: tuple[Any, ...] = (5, 4, 3, 1.0, 0.4, 0.1, 2.0, 3.5, 5.0, 481.0, None)
        directory.write_outcome(Outcome(directory.path, solved, reason, "", *figures))


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    now = datetime.now().astimezone()  # of this test: the suite may take longer than a filter looks back
    make("old", env="cartpole", agent="a3c", seed=1, started=now - timedelta(days=9), end=("solved", True))
    make("new", env="cartpole", agent="sb3-a2c", seed=1, started=now - timedelta(hours=1), end=("steps", False))
    make("pong", env="pong", agent="a3c", seed=2, started=now - timedelta(days=2), end=("interrupted", False))
    make("died", env="pong", agent="a3c", seed=3, started=now - timedelta(minutes=5), end=None)
    make("bad", env="pong", agent="a3c", seed=4, started=now, end=("steps", False))
    Path("runs/bad/meta.json").write_text("{")


def test_a_name_of_wide_letters_keeps_the_columns(capsys: Captured) -> None:
    make("迷路迷路迷路", env="gym:迷路-v0", agent="a3c", seed=1, started=NOW - timedelta(days=9), end=("steps", False))
    assert command_line("list", "runs", "--agent", "a3c") == 0
    lines = capsys.readouterr().out.splitlines()
    places = {cell_len(line[: line.index(" a3c ")]) for line in lines if " a3c " in line}
    assert len(places) == 1


def test_a_run_of_a_newer_version_needs_that_version(capsys: Captured) -> None:
    Path("runs/old/meta.json").write_text('{"format": 2, "environment": "cartpole"}')
    assert command_line("list", "runs") == 0
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if line.startswith("old ")]
    assert line.split()[-2:] == ["newer", "-"]
    assert lines[-1] == f"newer: only a newer a3c-zoo can read the run. To get it: {upgrade()}"
    assert command_line("list", "runs", "--status", "newer", "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["name"], row["status"], row["env"]) == ("old", "newer", "?")


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ([], ["bad", "old", "pong", "new", "died"]),
        (["--env", "cartpole"], ["old", "new"]),
        (["--agent", "a3c"], ["old", "pong", "died"]),
        (["--seed", "1"], ["old", "new"]),
        (["--seed", "1", "--seed", "2", "--env", "cartpole", "--env", "none"], ["old", "new"]),
        (["--seed", "1", "--agent", "a3c"], ["old"]),
        (["--solved"], ["old"]),
        (["--unsolved"], ["pong", "new"]),
        (["--status", "steps"], ["new"]),
        (["--status", "died"], ["died"]),
        (["--status", "damaged"], ["bad"]),
        (["--since", "7d"], ["pong", "new", "died"]),
        (["--since", "2h"], ["new", "died"]),
        (["--since", "30m"], ["died"]),
        (["--since", f"{NOW - timedelta(days=3):%Y-%m-%d}"], ["pong", "new", "died"]),
        (["--since", "2999-01-01"], []),
        (["--env", "gym:none"], []),
    ],
)
def test_runs_are_chosen(filters: list[str], names: list[str], capsys: Captured) -> None:
    assert command_line("list", "runs", "--json", *filters) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == names
    keys = ["name", "env", "agent", "seed", "status", "steps", "mean_return_100", "solved", "started", "path"]
    assert all(list(row) == keys for row in rows)


def test_the_order_is_that_of_the_moments(capsys: Captured) -> None:
    """The night in which clocks are put back from 3 to 2."""
    for name, hour in (("second", 1), ("first", 2)):
        there = timezone(timedelta(hours=hour))
        started = datetime(2026, 10, 25, 2, 10 * hour, tzinfo=there)
        make(name, env="night", agent="a3c", seed=1, started=started, end=("solved", True))
    assert command_line("list", "runs", "--json", "--env", "night") == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)] == ["first", "second"]
    assert find_policy("night", None, Path("runs"), trust=False).path == Path("runs/second")
    assert moment_of("then") == moment_of("") == -math.inf


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["envs", "--seed", "1"], "--seed selects runs; leave it out, or: a3c-zoo list runs"),
        (["plugins", "--unsolved"], "--unsolved selects runs"),
        (["plugins", "--solved"], "--solved selects runs"),
        (["runs", "--since", "yesterday"], "'yesterday' is no time; write 30m, 2h, 7d or a date such as 2026-01-31"),
        (["runs", "--since", f"{'9' * 20}d"], "is no time"),
        (["runs", "--status", "sovled"], "'sovled' is not one of 'running', 'died', 'damaged', 'newer', 'pulled',"),
    ],
)
def test_filters_that_cannot_be(arguments: list[str], message: str, capsys: Captured) -> None:
    assert command_line("list", *arguments) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_no_run_is_no_error(capsys: Captured) -> None:
    assert command_line("list", "runs", "--seed", 99) == 0
    assert capsys.readouterr() == ("", "No runs.\n")
