"""Going on from any checkpoint; how many there are; gradients and parameters that are not finite."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import numpy as np
import pytest
import torch

import a3c_zoo
from a3c_zoo import hardware
from a3c_zoo.agents import a3c, with_workers
from a3c_zoo.agents.context import AgentState
from a3c_zoo.agents.worker import Applier
from a3c_zoo.config.sets import resolve_config
from a3c_zoo.errors import DivergedError, RunDirectoryError, ZooError
from a3c_zoo.learning import objective
from a3c_zoo.learning.counters import EPISODES, STEPS, UPDATES
from a3c_zoo.learning.model import SavedModel
from a3c_zoo.learning.reward_statistics import RewardStatistics
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.records import Episode, Outcome, Progress, Report
from a3c_zoo.runs import api
from a3c_zoo.runs.progress import RunProgress, Stopping
from a3c_zoo.runs.session import Session
from a3c_zoo.runs.setup import RunSetup, SilentObserver, Watch
from a3c_zoo.runs.signals import StopRequest
from a3c_zoo.runs.solved_check import SolvedCheck
from a3c_zoo.store import rewind as going_on
from a3c_zoo.store.checkpoints import checkpoint_steps, prune_checkpoints, step_file
from a3c_zoo.store.directory import RunDirectory
from a3c_zoo.store.run import Run, list_runs
from a3c_zoo.store.run_records import read_runs
from a3c_zoo.store.trained import find_policy
from tests.test_files import plant
from tests.toys import ToyVectorEnv
from tests.toys_runs import Listener, checkpoint, episodes, scalars, signal_self, toy_installed, write_content

OVERRIDES = {"run.checkpoint_every_steps": 100, "run.keep_checkpoints": None, "run.stop_when_solved": False}
EVALUATED = {**OVERRIDES, "run.evaluation_every_steps": 150, "env.evaluation_by_seed": True}


@pytest.fixture(autouse=True)
def _toy(tmp_path: Path) -> Iterator[None]:
    with toy_installed(tmp_path / "toy"):
        yield


def train(folder: Path, **options: Any) -> Outcome:
    settings: dict[str, Any] = {"serial": True, "runs_dir": folder, "overrides": OVERRIDES} | options
    return a3c_zoo.train("toy", **settings)


def events(run: Path) -> list[str]:
    path = run / "events.jsonl"
    return [json.loads(line)["kind"] for line in path.read_text().splitlines()] if path.exists() else []


def assert_figures_agree(outcome: Outcome) -> None:
    """monitor.csv, TensorBoard, the checkpoint's counts and the workers' counters."""
    saved, rows = checkpoint(outcome.run), episodes(outcome.run)
    assert outcome.steps == saved["session"]["steps"]
    assert outcome.episodes == saved["session"]["episodes"] == len(rows)
    assert max(row["step"] for row in rows) <= outcome.steps
    told = [step for step, _ in scalars(outcome.run)["speed/steps_per_s"]]
    assert told == sorted(set(told))
    if "counters" in saved["agent"]:
        counters = saved["agent"]["counters"].sum(dim=0)
        figures = outcome.steps, outcome.updates, outcome.episodes
        assert tuple(int(counters[column]) for column in (STEPS, UPDATES, EPISODES)) == figures


@pytest.mark.parametrize("agent", ["a3c", "a3c-grad", "random"])
def test_going_on_from_a_step(agent: str, tmp_path: Path) -> None:
    run = train(tmp_path, agent=agent, steps=600).run
    directory = RunDirectory(run)
    steps, rows = checkpoint_steps(directory), episodes(run)
    chosen = steps[2]
    resumed = a3c_zoo.train(resume=run, checkpoint=chosen, steps=800)
    assert_figures_agree(resumed)
    aside = directory.checkpoints / "set-aside-1"
    assert {path.name for path in aside.glob("*.pt")} == {f"step-{step:012d}.pt" for step in steps[3:]}
    lines = (aside / "monitor.csv").read_text().splitlines()
    assert len(lines) == len(rows) + 2
    kept = [row for row in rows if row["step"] <= chosen]
    assert episodes(run)[: len(kept)] == kept
    assert json.loads((aside / "outcome.json").read_text())["steps"] == steps[-1]
    assert events(run) == ["set_aside"]
    assert [record.path for record in read_runs([tmp_path], strict=False)[0]] == [run]  # what is aside is no run
    again = a3c_zoo.train(resume=run, checkpoint=str(chosen), steps=300)  # nothing is overwritten
    assert {path.name for path in directory.checkpoints.glob("set-aside-*")} == {"set-aside-1", "set-aside-2"}
    assert_figures_agree(again)


@pytest.mark.parametrize("agent", ["a3c", "a3c-data", "sb3-a2c"])
def test_going_on_from_the_best(agent: str, tmp_path: Path) -> None:
    run = train(tmp_path, agent=agent, steps=900, overrides=EVALUATED).run
    best = checkpoint(run, "best")
    resumed = a3c_zoo.train(resume=run, checkpoint="best", steps=1200)
    assert resumed.steps >= 1200
    assert_figures_agree(resumed)
    assert checkpoint(run, "best")["session"]["sampled_return"] >= best["session"]["sampled_return"]
    steps = checkpoint_steps(RunDirectory(run))
    assert best["session"]["steps"] in steps  # from now on any resume goes on from here
    evaluated = [int(line.split(",")[0]) for line in (run / "evaluations.csv").read_text().splitlines()[1:]]
    assert evaluated == sorted(evaluated)
    if "model" in best["agent"]:
        first = checkpoint(run, str(best["session"]["steps"]))["agent"]
        assert torch.equal(first["model"]["parameters"], best["agent"]["model"]["parameters"])
        assert not first["optimizer"]["exp_avg"].any()


@pytest.mark.parametrize(
    ("first", "then", "line"),
    [
        ({}, {"steps": 10}, r"--steps 10: the run has 2\d\d steps already, .* from its start; give a larger --steps$"),
        ({}, {"episodes": 3}, r"--episodes 3: the run has \d+ episodes already"),
        (
            {"time_limit_s": 0.001},
            {"steps": 10**6},
            r"--time-limit 0\.001s, as before: the run has [\d.]+ s of trai",
        ),
    ],
)
def test_a_limit_that_is_over_before_the_resume(
    first: dict[str, Any], then: dict[str, Any], line: str, tmp_path: Path
) -> None:
    run = train(tmp_path, **{"steps": 200} | first).run
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    with pytest.raises(ZooError, match=line):
        a3c_zoo.train(resume=run, **then)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("given", [{}, {"workers": 3}])
def test_a_run_that_has_spent_its_budget_has_nothing_to_go_on_with(given: dict[str, Any], tmp_path: Path) -> None:
    outcome = train(tmp_path, steps=1500, stop_return=None, overrides={"run.stop_when_solved": False})
    files = [path for path in outcome.run.rglob("*") if path.is_file()]
    before = {path: path.read_bytes() for path in files}
    line = rf"^--steps 1500, as before: the run has {outcome.steps:,} steps already, .*; give a larger --steps$"
    with pytest.raises(ZooError, match=line):
        a3c_zoo.train(resume=outcome.run, **given)
    assert {path: path.read_bytes() for path in outcome.run.rglob("*") if path.is_file()} == before


def test_a_resume_up_to_the_same_budget_ends_at_once(tmp_path: Path) -> None:
    """So an engine can begin a job again. A run that was killed after its last checkpoint tells its end."""
    first = train(tmp_path, steps=200)
    again = a3c_zoo.train(resume=first.run, steps=200)
    assert (again.reason, again.steps) == ("steps", first.steps)
    (first.run / "outcome.json").unlink()
    again = a3c_zoo.train(resume=first.run)
    assert (again.reason, again.steps) == ("steps", first.steps)


def test_closing_environments_is_no_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ToyVectorEnv, "close", lambda self: time.sleep(0.3))
    outcome = train(tmp_path, steps=100)
    parts_s = (outcome.startup_s, outcome.training_s, outcome.evaluation_s, outcome.checkpoint_s)
    assert outcome.total_s - sum(parts_s) >= 0.3


def test_evaluations_are_kept_while_a_run_has_none(tmp_path: Path) -> None:
    run = train(tmp_path, steps=600, overrides=EVALUATED).run
    config, rows = run / "config.yml", (run / "evaluations.csv").read_text()
    text = config.read_text()
    config.write_text(text.replace("evaluation_every_steps: 150", "evaluation_every_steps: null"))
    a3c_zoo.train(resume=run, steps=900)
    assert (run / "evaluations.csv").read_text() == rows
    config.write_text(text)
    a3c_zoo.train(resume=run, steps=1200)
    assert (run / "evaluations.csv").read_text().startswith(rows)
    assert len((run / "evaluations.csv").read_text()) > len(rows)


def test_the_best_does_not_replace_a_full_checkpoint(tmp_path: Path) -> None:
    run = train(tmp_path, steps=900, overrides=EVALUATED).run
    checkpoints = RunDirectory(run).checkpoints
    best = step_file(RunDirectory(run), checkpoint(run, "best")["session"]["steps"])
    for number in (1, 2):  # the first time makes sure that there is one at the step of the best
        full = best.read_bytes() if number == 2 else b""
        a3c_zoo.train(resume=run, checkpoint="best", steps=900)
    assert (checkpoints / "set-aside-2" / best.name).read_bytes() == full


def test_a_run_that_goes_on_is_not_reused(tmp_path: Path) -> None:
    run = train(tmp_path, steps=600).run
    timing = run / "timing.json"
    timing.write_text("{}")
    a3c_zoo.train(resume=run, checkpoint=checkpoint_steps(RunDirectory(run))[2])
    assert not timing.exists()
    assert (run / "checkpoints/set-aside-1/timing.json").read_text() == "{}"
    timing.write_text("{}")
    a3c_zoo.train(resume=run, steps=700)
    assert not timing.exists()


def test_a_state_that_could_not_be_read_ends_the_run_at_its_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ToyVectorEnv, "get_state", lambda env: {"seen": frozenset([1])})
    with pytest.raises(RunDirectoryError, match=r"0\.pt is not written, .*env.seen is of type frozenset"):
        train(tmp_path, steps=600)
    assert list(tmp_path.glob("toy-*")) == []  # nothing was trained, so nothing is lost


def test_a_checkpoint_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ZooError, match=r"--checkpoint chooses where a run goes on: .* --resume RUN"):
        train(tmp_path, checkpoint=5)
    run = train(tmp_path, steps=1).run
    for which in ("7", "x", -1):
        with pytest.raises(RunDirectoryError, match=f"has no checkpoint '{which}'; it has: final, best, 0, "):
            a3c_zoo.train(resume=run, checkpoint=which)
    assert events(run) == []


@pytest.fixture(scope="module")
def short_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("short")
    with toy_installed(folder / "toy"):
        return train(folder, steps=300).run


COPIED_NOT = [
    ("link", r"cannot be copied: it is a link, and links are not followed\. Put a plain file in its place first"),
    ("fifo", r"cannot be copied: it is no regular file\. Put a plain file in its place first"),
    ("huge", r"cannot be copied: it is larger than 1,024 MiB\. Put a plain file in its place first"),
]
CONTINUED_NOT = [("fifo", "it is no regular file"), ("link", "links are not followed")]


@pytest.mark.parametrize(
    ("name", "kind", "reason"),
    [
        *(("monitor.csv", *each) for each in [*CONTINUED_NOT, COPIED_NOT[-1]]),
        *((name, *each) for name in ("outcome.json", "evaluations.json") for each in COPIED_NOT),
    ],
)
def test_nothing_moves_if_rows_cannot_be_copied_or_continued(
    name: str, kind: str, reason: str, short_run: Path, tmp_path: Path
) -> None:
    """A resume from an earlier checkpoint copies them first. Found by `make fuzz`: a terabyte was copied."""
    run = Path(shutil.copytree(short_run, tmp_path / "run"))
    if kind == "huge":
        with (run / name).open("ab") as file:
            file.truncate((1 << 40) + 1)  # sparse: it takes no room
    else:
        (run / name).unlink(missing_ok=True)
        plant(run / name, kind)
    before = checkpoint_steps(RunDirectory(run))
    with pytest.raises(RunDirectoryError, match=rf"{name}.* {reason}"):
        a3c_zoo.train(resume=run, checkpoint=0)
    assert checkpoint_steps(RunDirectory(run)) == before
    assert not list(run.glob("checkpoints/set-aside-*"))


@pytest.mark.parametrize("kind", ["link", "hard links", "fifo", "folder"])
def test_what_stands_in_place_of_rows_can_be_moved_away(kind: str, short_run: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(short_run, tmp_path / "run"))
    if kind == "hard links":
        os.link(run / "monitor.csv", tmp_path / "other")
    else:
        (run / "monitor.csv").unlink()
        plant(run / "monitor.csv", kind)
    with pytest.raises(RunDirectoryError, match=r"cannot \w+ .*/monitor\.csv: .*\. Move .*/monitor\.csv away$"):
        a3c_zoo.train(resume=run, steps=600)
    (run / "monitor.csv").rename(tmp_path / "away")
    assert a3c_zoo.train(resume=run, steps=600).reason == "steps"


def as_by_others(path: Path, kind: str) -> None:
    """Changes a table of a run as its user, or another program, may have done."""
    if kind == "gone":
        path.unlink()
    elif kind == "cut":
        os.truncate(path, path.stat().st_size // 2)
    elif kind == "zeros":
        path.write_bytes(bytes(100_000))
    elif kind == "a note":
        path.write_bytes(path.read_bytes().replace(b"\n", b"\n\na note\n", 3))
    else:
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))


@pytest.mark.parametrize("kind", ["gone", "cut", "zeros", "a note", "line ends"])
@pytest.mark.parametrize("name", ["monitor.csv", "evaluations.csv"])
def test_a_run_goes_on_without_rows(name: str, kind: str, tmp_path: Path) -> None:
    """Training needs no row: the checkpoints are good. What is known of the rows stays, and is said."""
    run = train(tmp_path, steps=300, overrides=EVALUATED).run
    other_rows = {each: (run / each).read_bytes() for each in ("monitor.csv", "evaluations.csv") if each != name}
    as_by_others(run / name, kind)
    changed = (run / name).read_bytes() if kind != "gone" else b""
    outcome = a3c_zoo.train(resume=run, steps=600)
    assert outcome.reason == "steps"
    assert events(run) == ["rows_lost"]
    assert all((run / each).read_bytes().startswith(rows) for each, rows in other_rows.items())
    rows = (run / name).read_bytes()
    if kind in ("cut", "line ends"):  # whole lines are known
        known = changed[: changed.rfind(b"\n") + 1]
        assert rows.startswith(known)
    if kind != "gone":
        assert (run / f"{name}.replaced-1").read_bytes() == changed
    if name == "evaluations.csv":
        assert rows.startswith(b"step,seconds,mode,return,length")
    else:
        assert rows.splitlines()[1] == b"r,l,t,step,worker"
    assert checkpoint(run)["session"]["monitor_position"] == (run / "monitor.csv").stat().st_size
    assert a3c_zoo.train(resume=run, steps=700).steps >= 700
    assert events(run) == ["rows_lost"]


def test_a_live_run_goes_on_though_its_evaluations_are_damaged(tmp_path: Path) -> None:
    """Somebody has written a line into the table: the copy of it in evaluations.npz can wait."""

    class Editor(Listener):
        def progress(self, progress: Progress) -> None:
            path = tmp_path / "run" / "evaluations.csv"
            if path.exists() and not path.with_name("evaluations.csv.replaced-1").exists():
                head, _, rows = path.read_text().partition("\n")
                path.write_text(f"{head}\na note\n{rows}")

    overrides = {**EVALUATED, "run.disk_patience_s": 1}
    outcome = train(tmp_path, steps=1500, overrides=overrides, observer=Editor(), name="run")
    assert outcome.reason == "steps"
    assert "file_replaced" in events(outcome.run)
    assert "disk_full" not in events(outcome.run)


@pytest.mark.parametrize("serial", [True, False])
def test_a_live_run_notices_that_its_monitor_was_replaced(serial: bool, tmp_path: Path) -> None:
    """As an editor saves a file: it writes another, and renames it."""

    class Editor(Listener):
        def progress(self, progress: Progress) -> None:
            path = tmp_path / "run" / "monitor.csv"
            if progress.steps > 200 and not path.with_name("monitor.csv.replaced-1").exists():
                path.with_name("saved").write_bytes(path.read_bytes()[:100])
                path.with_name("saved").replace(path)

    editor = Editor()
    outcome = train(tmp_path, steps=1000, observer=editor, serial=serial, name="run")
    assert len(episodes(outcome.run)) == outcome.episodes
    assert events(outcome.run).count("file_replaced") >= 1
    assert any("monitor.csv is written anew" in line for line in editor.messages)
    resumed = a3c_zoo.train(resume=outcome.run, steps=1200)
    assert_figures_agree(resumed)


def test_a_monitor_over_the_limit_of_tables_is_copied(
    short_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of many million episodes: the limit is for files that take no room of their own."""
    run = Path(shutil.copytree(short_run, tmp_path / "run"))
    rows = (run / "monitor.csv").read_bytes()
    monkeypatch.setattr(going_on, "MAX_TABLE", len(rows) - 1)
    assert a3c_zoo.train(resume=run, checkpoint=0, steps=50).reason == "steps"
    assert (run / "checkpoints/set-aside-1/monitor.csv").read_bytes() == rows


def test_files_and_folders_in_place_of_each_other(tmp_path: Path) -> None:
    """Found by `make fuzz`."""
    run = train(tmp_path, steps=100).run
    (run / "checkpoints/.evaluated.pt").mkdir()
    with pytest.raises(RunDirectoryError, match=r"cannot delete .*/\.evaluated\.pt: Is a directory"):
        a3c_zoo.train(resume=run, steps=150)
    for name in ("checkpoints", "tensorboard"):
        (run / name).rename(tmp_path / name)
        plant(run / name, "fifo")
        with pytest.raises(RunDirectoryError, match=rf"/{name} is damaged: it is no folder"):
            a3c_zoo.train(resume=run, steps=150)
        (run / name).unlink()
        (tmp_path / name).rename(run / name)


def test_the_first_checkpoint_is_one_to_resume(tmp_path: Path) -> None:
    run = train(tmp_path, steps=300, workers=2, serial=False).run
    assert checkpoint_steps(RunDirectory(run))[0] == 0
    assert_figures_agree(a3c_zoo.train(resume=run, checkpoint=0, steps=300))


def test_what_a_killed_session_left_is_removed(tmp_path: Path) -> None:
    run = train(tmp_path, steps=100).run
    ending = "0123456789abcdef.tmp"
    left = [run / f".outcome.json.{ending}", run / f"checkpoints/.step-000000000200.pt.{ending}"]
    left.append(run / "checkpoints/.evaluated.pt")
    for path in left:
        path.write_bytes(b"half")
    a3c_zoo.train(resume=run, steps=150)
    assert not any(path.exists() for path in left)


@pytest.mark.parametrize(
    ("keep", "budget", "kept"),
    [
        (None, None, list(range(0, 1001, 20))),
        (3, None, [960, 980, 1000]),
        (1, None, [1000]),
        (2, 1000, [*range(0, 1000, 100), 980, 1000]),
        (2, 4000, [0, 400, 800, 980, 1000]),
    ],
)
def test_how_many_are_kept(keep: int | None, budget: int | None, kept: list[int], tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    directory.checkpoints.mkdir()
    directory.best_file.touch()
    for step in range(0, 1001, 20):
        step_file(directory, step).touch()
    prune_checkpoints(directory, keep, budget)
    assert checkpoint_steps(directory) == kept
    assert directory.best_file.exists()


def test_a_run_keeps_few(tmp_path: Path) -> None:
    overrides = {"run.checkpoint_every_steps": 50, "run.keep_checkpoints": 2, "run.stop_when_solved": False}
    steps = checkpoint_steps(RunDirectory(train(tmp_path, steps=1000, overrides=overrides).run))
    assert len(steps) == 12
    assert [10 * step // 1000 for step in steps[:10]] == list(range(10))


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        ({}, None),
        ({"steps": 20_000}, 20_000),
        ({"episodes": 200}, 20_000),
        ({"time_limit_s": 100.0}, 12_500),
        ({"steps": 40_000, "episodes": 200}, 20_000),
        ({"steps": 20_000, "episodes": 200, "time_limit_s": 100.0}, 12_500),
    ],
)
def test_the_steps_of_a_run_are_those_until_its_first_budget_is_spent(
    budget: dict[str, Any], expected: float | None
) -> None:
    """5,000 steps and 50 episodes took 40 s: at 100 s the run will have 12,500 steps."""
    registry = get_registry()
    config = resolve_config(registry, registry.env("toy"), registry.agent("a3c"))
    config = replace(config, run=config.run.model_copy(update=budget))
    setup = RunSetup.of(registry, config, serial=True)
    watch = Watch(SilentObserver(), StopRequest(), setup.run_hooks())
    progress, check = RunProgress(watch.clock, None), cast(SolvedCheck, None)
    stopping = Stopping(setup, watch, progress, check, None)
    assert stopping.expected_steps() is None  # nothing is known before the first step
    watch.clock.seconds["training"] = 40.0
    progress.add([Report(steps=5000)], [Episode(1.0, 100, step=0, time_s=0.0, worker=0)] * 50)
    assert stopping.expected_steps() == expected


# Divergence


def poisoned(monkeypatch: pytest.MonkeyPatch, when: set[int] | None) -> None:
    """Makes gradients NaN: those with these numbers, or all."""
    differentiate, count = objective.differentiate, 0

    def poison(network: Any, *arguments: Any) -> dict[str, float]:
        nonlocal count
        metrics = differentiate(network, *arguments)
        if when is None or count in when:
            next(network.parameters()).grad.view(-1)[0] = math.nan
            metrics["loss_total"] = math.nan
        count += 1
        return metrics

    monkeypatch.setattr(a3c, "differentiate", poison)


def test_a_gradient_that_is_not_finite_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    poisoned(monkeypatch, {0, 1, 2, 7, *range(10, 109)})  # 99 in a row at most
    outcome = train(tmp_path, steps=6000, overrides={"run.stop_when_solved": False})
    saved = checkpoint(outcome.run)["agent"]
    assert saved["model"]["parameters"].isfinite().all()
    assert outcome.reason == "steps"
    assert int(saved["optimizer"]["step"]) == outcome.updates
    assert scalars(outcome.run)["train/skipped_updates"][-1][1] == 103
    told = events(outcome.run)  # the first, and each time that the number has doubled
    assert set(told) == {"gradients_skipped"}
    assert 4 <= len(told) <= 7
    assert all(math.isfinite(value) for _, value in scalars(outcome.run)["train/loss_total"])


def test_a_run_that_diverges_keeps_its_good_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = train(tmp_path, steps=300, overrides=OVERRIDES | {"run.checkpoint_every_steps": 1000}).run
    before = checkpoint_steps(RunDirectory(run))
    poisoned(monkeypatch, None)
    named = f"--hyperparams {run}/config.yml --init-from {run} --runs-dir {tmp_path} -o optimizer.learning_rate="
    with pytest.raises(DivergedError, match=named):
        a3c_zoo.train(resume=run, steps=100_000)
    steps = checkpoint_steps(RunDirectory(run))
    assert set(before) <= set(steps)
    assert checkpoint(run, str(steps[-1]))["agent"]["model"]["parameters"].isfinite().all()


def test_a_run_that_diverges_says_what_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = train(tmp_path, steps=300, overrides=OVERRIDES).run
    poisoned(monkeypatch, None)
    take_in = Session._take_in

    def take_in_or_fail(self: Session, reports: Any) -> None:
        if sys._getframe(1).f_code.co_name == "rescue":
            raise RunDirectoryError("the disk is full")
        take_in(self, reports)

    monkeypatch.setattr(Session, "_take_in", take_in_or_fail)
    with pytest.raises(DivergedError, match=f"--init-from {run}") as raised:
        a3c_zoo.train(resume=run, steps=100_000)
    assert raised.value.__notes__ == ["(and the last reports of the workers are lost: the disk is full)"]


def test_parameters_that_are_not_finite_are_neither_written_nor_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = train(tmp_path, steps=300)
    apply = Applier.apply

    def ruin(self: Any, *arguments: Any) -> dict[str, float]:
        metrics = apply(self, *arguments)
        self._member.context.parameters[0] = math.inf
        return metrics

    monkeypatch.setattr(Applier, "apply", ruin)
    with pytest.raises(DivergedError, match=rf"model.parameters has numbers.* --init-from {outcome.run} "):
        a3c_zoo.train(resume=outcome.run, steps=1000)
    content = checkpoint(outcome.run)
    content["agent"]["model"]["parameters"][3] = math.nan
    write_content(step_file(RunDirectory(outcome.run), outcome.steps), content)
    for read in (a3c_zoo.load_agent, api.evaluate):
        with pytest.raises(RunDirectoryError, match=r"agent\.model\.parameters has numbers that are not"):
            read(outcome.run)


def test_a_solved_run_that_goes_on_stays_solved(tmp_path: Path) -> None:
    kept = {"run.keep_checkpoints": None, "run.checkpoint_every_steps": 100}
    solved = train(tmp_path, overrides=kept)
    assert (solved.reason, solved.solved_step) == ("solved", solved.steps)
    assert Run(solved.run).outcome == solved
    budget = solved.steps + 500
    went_on = a3c_zoo.train(resume=solved.run, steps=budget)  # no check comes: it trains until its budget is spent
    assert (went_on.reason, went_on.solved, went_on.solved_step) == ("steps", True, solved.steps)
    assert went_on.steps >= budget
    assert events(solved.run) == ["solved_before"]
    listener = Listener(lambda progress: signal_self())
    stopped = a3c_zoo.train(resume=solved.run, steps=budget + 500, observer=listener)
    assert (stopped.reason, stopped.solved_step) == ("interrupted", solved.steps)
    assert find_policy("toy", None, tmp_path, trust=False).path == solved.run
    (solved.run / "outcome.json").unlink()  # as after a kill
    (listed,) = list_runs(tmp_path)
    assert (listed.status, listed.solved) == ("died", True)
    assert a3c_zoo.train(resume=solved.run, steps=went_on.steps + 1000).solved_step == solved.steps
    earlier = a3c_zoo.train(resume=solved.run, checkpoint=checkpoint_steps(RunDirectory(solved.run))[0], steps=50)
    assert (earlier.steps < solved.steps, earlier.solved, earlier.solved_step) == (True, False, None)
    assert not (solved.run / "solved.json").exists()
    assert len(list(solved.run.glob("checkpoints/set-aside-*/solved.json"))) == 1


def test_a_run_that_an_older_version_has_solved_stays_solved(tmp_path: Path) -> None:
    solved = train(tmp_path, overrides={})
    content = json.loads((solved.run / "outcome.json").read_text())
    del content["solved_step"]
    (solved.run / "outcome.json").write_text(json.dumps(content))
    assert a3c_zoo.train(resume=solved.run, steps=solved.steps + 100).solved_step == solved.steps


# ----------------------------------------------------------------------------------------------------------------------
# Another number of workers


@pytest.mark.parametrize("agent", ["a3c", "a3c-grad", "a3c-data"])
@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 1)])
def test_going_on_with_another_number_of_workers(agent: str, before: int, after: int, tmp_path: Path) -> None:
    """Nothing is lost or counted twice, and the run then has that number."""
    first = train(tmp_path, agent=agent, steps=400, workers=before)
    saved = checkpoint(first.run)["agent"]
    outcome = train_on(first.run, steps=800, workers=after)
    assert outcome.steps >= 800 > first.steps
    assert_figures_agree(outcome)
    state = checkpoint(outcome.run)["agent"]
    has_learner = agent != "a3c"
    assert len(state["counters"]) == len(state["workers"]) == after + has_learner
    assert len(saved["counters"]) == before + has_learner
    assert state["optimizer"]["step"] == outcome.updates > first.updates
    assert f"workers: {after}" in (first.run / "config.yml").read_text()
    assert "workers_changed" in events(first.run)


@pytest.mark.parametrize(("workers", "serial", "is_told"), [(4, False, False), (5, False, True), (5, True, False)])
def test_going_on_with_far_more_workers(workers: int, serial: bool, is_told: bool, tmp_path: Path) -> None:
    """A learning rate for one worker is doubted for more than four, unless they take turns."""
    run = train(tmp_path, agent="a3c", steps=200, workers=1, serial=serial).run
    train_on(run, steps=400, workers=workers)
    assert ("many_workers" in events(run)) == is_told
    text = "the run has a learning rate for 1 worker, 0.0007. It may be too high for 5: if the return does not rise, "
    assert (f"{text}go on with fewer --workers" in (run / "events.jsonl").read_text()) == is_told


@pytest.mark.parametrize(
    ("agent", "shared", "which", "stay"),
    [
        ("a3c", True, "final", True),
        ("a3c", False, "final", False),
        ("a3c-data", False, "final", True),  # the learner alone has them
        ("a3c", True, "best", False),  # this checkpoint has none
    ],
)
def test_the_line_about_moments_is_true(agent: str, shared: bool, which: str, stay: bool, tmp_path: Path) -> None:
    overrides = {"optimizer.shared_statistics": shared, "run.checkpoint_every_steps": 400}
    run = train(tmp_path, agent=agent, steps=1500, workers=2, overrides=overrides).run
    train_on(run, checkpoint=which, steps=1600, workers=1)
    lines = (run / "events.jsonl").read_text().splitlines()
    (line,) = (line for line in lines if "workers_changed" in line)
    assert "1 worker in place of 2: " in line
    assert ("moments, statistics and counts stay," in line) == stay
    assert ("moments begin anew" in line) != stay


def test_what_goes_on_with_another_number_of_workers() -> None:
    """All counts and statistics become the first worker's; parameters and moments stay. Worked out by hand."""
    rewards = RewardStatistics.zeros(2, 1)
    RewardStatistics(rewards).update(0, np.array([[1.0], [3.0]]))  # mean 2, squares 1 + 1
    RewardStatistics(rewards).update(1, np.array([[5.0]]))
    model = SavedModel({}, [], torch.tensor([7.0]), None, {})
    saved = AgentState(
        model,
        resumes=1,
        optimizer={"step": torch.tensor(9.0)},
        counters=torch.tensor([[10, 2, 30, 4, 0], [11, 3, 31, 5, 1]]),
        workers=[{}, {}],
        reward_statistics=rewards,
    )
    result = saved.shared_out(3)
    assert result.counters.tolist() == [[21, 5, 61, 9, 1], [0] * 5, [0] * 5]
    assert result.workers == []
    assert result.reward_statistics is not None
    assert len(result.reward_statistics) == 3
    assert RewardStatistics(result.reward_statistics).total().tolist() == [3, 3, 8]  # 4 + 0 + 4 around 3
    assert (result.model.parameters, result.optimizer) == (model.parameters, saved.optimizer)


@pytest.mark.parametrize("serial", [False, True])
def test_too_many_workers_leave_a_run_as_it_was(serial: bool, tmp_path: Path) -> None:
    run = train(tmp_path, agent="a3c", steps=200, workers=1, serial=serial).run
    before = (run / "config.yml").read_bytes()
    steps = checkpoint_steps(RunDirectory(run))
    with (
        patch.object(hardware, "available_memory", lambda: 5 * hardware.WORKER_BYTES),
        pytest.raises(ZooError, match=r"run\.workers: 6 — .* enough for 5 workers"),
    ):
        train_on(run, steps=400, workers=6, checkpoint=steps[0])
    assert (run / "config.yml").read_bytes() == before
    assert checkpoint_steps(RunDirectory(run)) == steps
    assert not list(run.glob("checkpoints/set-aside-*"))
    assert train_on(run, steps=400, workers=2).steps >= 400


def train_on(run: Path, **options: Any) -> Outcome:
    return a3c_zoo.train(resume=run, runs_dir=run.parent, **options)


@pytest.mark.parametrize("fault", [ZooError("no memory for the workers"), KeyboardInterrupt()])
def test_a_start_that_fails_changes_nothing_of_how_the_run_ended(fault: BaseException, tmp_path: Path) -> None:
    run = train(tmp_path, steps=200).run
    outcome_file = run / "outcome.json"
    before = outcome_file.read_bytes()
    config = (run / "config.yml").read_bytes()
    with patch.object(a3c, "run_a3c", side_effect=fault), suppress(ZooError, KeyboardInterrupt):
        a3c_zoo.train(resume=run, steps=400)
    assert outcome_file.read_bytes() == before
    assert (run / "config.yml").read_bytes() == config
    assert a3c_zoo.train(resume=run, steps=400).steps == 400


def test_a_failure_after_the_start_is_how_the_run_ended(tmp_path: Path) -> None:
    run = train(tmp_path, steps=200).run
    with patch.object(a3c.A3CWorker, "work", side_effect=ZooError("a fault")), suppress(ZooError):
        a3c_zoo.train(resume=run, steps=400)
    assert json.loads((run / "outcome.json").read_text())["reason"] == "error"


def test_a_start_that_fails_at_an_earlier_checkpoint_ends_the_run_there(tmp_path: Path) -> None:
    run = train(tmp_path, steps=200).run
    earlier = checkpoint_steps(RunDirectory(run))[0]
    with patch.object(a3c, "run_a3c", side_effect=ZooError("a fault")), suppress(ZooError):
        a3c_zoo.train(resume=run, steps=400, checkpoint=earlier)
    content = json.loads((run / "outcome.json").read_text())
    assert (content["reason"], content["steps"]) == ("error", earlier)


@pytest.mark.parametrize("way", ["killed", "failed", "earlier"])
def test_a_start_that_fails_leaves_the_configuration(way: str, tmp_path: Path) -> None:
    """The agent refuses workers for which there is no memory, once it knows the spaces."""
    run = train(tmp_path, steps=200, workers=1).run
    outcome = json.loads((run / "outcome.json").read_text())
    options: dict[str, Any] = {}
    if way == "killed":
        (run / "outcome.json").unlink()
    elif way == "failed":
        (run / "outcome.json").write_text(json.dumps(outcome | {"reason": "error"}))
    else:
        options = {"checkpoint": checkpoint_steps(RunDirectory(run))[0]}
    config = (run / "config.yml").read_bytes()
    with (
        patch.object(with_workers, "check_memory", side_effect=ZooError("no memory")),
        pytest.raises(ZooError, match="no memory"),
    ):
        train_on(run, steps=400, workers=2, **options)
    assert (run / "config.yml").read_bytes() == config
    train_on(run, steps=400, workers=2)
    assert b"workers: 2" in (run / "config.yml").read_bytes()
