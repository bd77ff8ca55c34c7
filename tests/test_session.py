"""What a run decides: when to look, when it is solved, when it ends; and that its figures agree."""

from __future__ import annotations

import errno
import json
import os
import statistics
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import a3c_zoo
from a3c_zoo.errors import PluginError, RunDirectoryError
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.records import Outcome, Progress, Report
from a3c_zoo.runs.session import Session
from a3c_zoo.seeds import CHECK_EVALUATIONS, SEED_CHECK, SEED_ENV, SEED_EVALUATION, seed_for
from a3c_zoo.store.checkpoints import checkpoint_steps, read_policy, write_checkpoint
from a3c_zoo.store.directory import RunDirectory
from a3c_zoo.store.run import Run
from a3c_zoo.testing import plugin_distribution
from tests.toys_env import MADE, NUM_ENVS
from tests.toys_runs import Listener, checkpoint, episodes, signal_self, toy_installed
from tests.waits import LIMIT_S

HOOKS = """
import json
from a3c_zoo import hookimpl

heard = []

@hookimpl
def zoo_run_start(run):
    heard.append(("start", (run.path / "config.yml").exists()))

@hookimpl
def zoo_episode(episode):
    heard.append(("episode", episode.step))

@hookimpl
def zoo_should_stop(progress):
    if progress.steps > 2000:
        return "seen enough"

@hookimpl
def zoo_run_end(run, outcome):
    heard.append(("end", json.loads((run.path / "outcome.json").read_text())["reason"] == outcome.reason))

def boom():
    raise ValueError("boom")
"""
#: A run of CartPole keeps no checkpoint for a tenth of its budget.
NO_BUDGET = {"run.steps": None, "optimizer.schedule_steps": 250_000}


@pytest.fixture
def _toy(tmp_path: Path) -> Iterator[None]:
    with toy_installed(tmp_path / "toy"):
        yield


def train(folder: Path, **options: Any) -> tuple[Outcome, Listener]:
    listener = Listener()
    return a3c_zoo.train("toy", serial=True, runs_dir=folder, observer=listener, **options), listener


@pytest.mark.usefixtures("_toy")
def test_solved_only_when_the_evaluation_agrees(tmp_path: Path) -> None:
    outcome, listener = train(tmp_path, overrides={"env.evaluation_step_s": 0.01})
    assert (outcome.solved, outcome.reason) == (True, "solved")
    assert outcome.evaluation is not None
    assert outcome.mean_return_100 == outcome.evaluation.mean_return == 1.0
    assert len(listener.messages) == 1
    assert json.loads((outcome.run / "outcome.json").read_text())["evaluation"]["episodes"] == 100
    assert outcome.evaluation.seconds > 0.1
    assert 0 <= outcome.evaluation_s - outcome.evaluation.seconds < 10  # the making of its policy, and writes


@pytest.mark.usefixtures("_toy")
def test_a_check_counts_as_evaluation_with_the_making_of_its_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = read_policy

    def slowly(path: Path) -> Any:
        time.sleep(0.15)
        return read(path)

    monkeypatch.setattr("a3c_zoo.runs.evaluation.read_policy", slowly)
    outcome, _ = train(tmp_path)
    assert outcome.reason == "solved"
    assert outcome.evaluation_s >= 0.5


@pytest.mark.usefixtures("_toy")
def test_the_window_alone_solves_nothing(tmp_path: Path) -> None:
    """Training returns are 1, evaluations 0.9: it goes on, for at least 100 more episodes before each check."""
    overrides = {"env.evaluation_reward": 0.9, "agent.n_steps": 5}
    outcome, listener = train(tmp_path, steps=1000, overrides=overrides)
    assert (outcome.solved, outcome.reason) == (False, "steps")
    assert outcome.evaluation is not None
    assert outcome.mean_return_100 == 1.0
    assert outcome.evaluation.mean_return == pytest.approx(0.9)
    checks = [text for text in listener.messages if "playing 100 on fresh seeds" in text]
    verdicts = [text for text in listener.messages if text == "their mean is 0.9: training goes on"]
    assert len(checks) == len(verdicts) == checkpoint(outcome.run)["session"]["evaluations"]
    # Two workers with two environments, an ignored step after each episode of one: 10 or 12 episodes at a time.
    assert outcome.episodes // 120 <= len(checks) <= outcome.episodes // 100
    training = {seed for num_envs, seed in MADE if num_envs == NUM_ENVS}
    played = [seed for num_envs, seed in MADE if num_envs == 5]
    assert training == {seed_for(0, SEED_ENV, rank) for rank in range(2)}
    # Four parts for each check, each with a tree of seeds of its own.
    roots = [seed_for(0, SEED_CHECK, number, part) for number in range(len(checks)) for part in range(4)]
    assert played == [seed_for(root, SEED_EVALUATION, CHECK_EVALUATIONS) for root in roots]
    assert not training & set(played)


@pytest.mark.usefixtures("_toy")
def test_a_return_that_was_asked_for_is_held_to_the_same(tmp_path: Path) -> None:
    outcome, _ = train(tmp_path / "a", stop_return=0.5, overrides={"env.evaluation_reward": 0.6})
    assert (outcome.solved, outcome.reason) == (False, "stop-return")  # 0.6 is short of the threshold
    outcome, _ = train(tmp_path / "b", stop_return=0.5, overrides={"env.evaluation_reward": 0.4}, steps=300)
    assert (outcome.solved, outcome.reason) == (False, "steps")
    outcome, _ = train(tmp_path / "c", stop_return=1.5, steps=300)
    assert (outcome.solved, outcome.reason, outcome.evaluation) == (False, "steps", None)


@pytest.mark.usefixtures("_toy")
def test_a_resume_that_has_nothing_to_do_keeps_the_evaluation(tmp_path: Path) -> None:
    outcome, _ = train(tmp_path)
    config = outcome.run / "config.yml"
    config.write_text(config.read_text().replace("  steps: null\n", "  steps: 1\n"))
    resumed = a3c_zoo.train(resume=outcome.run)
    assert (resumed.reason, resumed.steps) == ("steps", outcome.steps)
    assert resumed.evaluation == outcome.evaluation is not None


@pytest.mark.usefixtures("_toy")
def test_while_a_resumed_run_lives_it_has_no_outcome(tmp_path: Path) -> None:
    """Else one that is killed would seem to have ended as the session before it did."""

    class Looking(Listener):
        def progress(self, progress: Progress) -> None:
            assert not (outcome.run / "outcome.json").exists()

    outcome, _ = train(tmp_path, stop_return=2.0, steps=100)
    assert (outcome.run / "outcome.json").exists()
    assert a3c_zoo.train(resume=outcome.run, steps=200, observer=Looking()).steps >= 200
    assert json.loads((outcome.run / "outcome.json").read_text())["steps"] >= 200


@pytest.mark.usefixtures("_toy")
def test_numpys_numbers_make_no_checkpoint_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A third party's agent may report them, and a checkpoint holds none."""
    record = Session.record

    def with_numpys_numbers(self: Session, reports: Sequence[Report]) -> None:
        def of(report: Report) -> Report:
            played: Any = [e._replace(episode_return=np.float64(e.episode_return)) for e in report.episodes]
            steps: Any = np.int64(report.steps)
            return replace(report, steps=steps, updates=steps, episodes=played)

        record(self, [of(report) for report in reports])

    monkeypatch.setattr(Session, "record", with_numpys_numbers)
    outcome, _ = train(tmp_path, stop_return=2.0, steps=100)
    assert checkpoint(outcome.run)["session"]["steps"] == outcome.steps


@pytest.mark.usefixtures("_toy")
def test_rows_are_on_the_disk_before_the_checkpoint_that_counts_on_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(Path(os.readlink(f"/proc/self/fd/{file}")).name))
    outcome, _ = train(tmp_path, stop_return=2.0, steps=100)
    files = [name for name in synced if "." in name]  # folders are synced, too
    rows, best, saved = files[-4:-1]
    assert rows == "monitor.csv"
    assert best.startswith(".best.pt.")
    assert saved.startswith(f".step-{outcome.steps:012}.pt.")


@pytest.mark.usefixtures("_toy")
def test_an_interrupted_evaluation_is_played_first_after_the_resume(tmp_path: Path) -> None:

    class Stopping(Listener):
        def message(self, text: str) -> None:
            threading.Timer(0.2, signal_self).start()

    overrides = {"env.evaluation_step_s": 0.05}
    outcome = a3c_zoo.train("toy", serial=True, overrides=overrides, runs_dir=tmp_path, observer=Stopping())
    assert (outcome.reason, outcome.detail, outcome.evaluation) == ("interrupted", "Ctrl-C", None)
    resumed = a3c_zoo.train(resume=outcome.run)
    assert resumed.reason == "solved"
    assert (resumed.steps, resumed.episodes) == (outcome.steps, outcome.episodes)


@pytest.mark.usefixtures("_toy")
def test_an_evaluation_that_the_disk_refuses_is_put_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By 100 episodes; then it is played."""
    tried: list[Path] = []

    def write(path: Path, *content: Any) -> None:
        tried.append(path)
        if len(tried) == 1:
            raise RunDirectoryError("no room") from OSError(errno.ENOSPC, "No space left on device")
        write_checkpoint(path, *content)

    monkeypatch.setattr("a3c_zoo.runs.solved_check.write_checkpoint", write)
    outcome, listener = train(tmp_path)
    assert listener.messages.count("the evaluation is put off: no room") == 1
    assert outcome.reason == "solved"
    assert 200 <= outcome.episodes < 300
    assert checkpoint(outcome.run)["session"]["evaluations"] == 1


@pytest.fixture
def _stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of a run stands still while its outcome is made."""
    finish = Session.finish

    def finish_in_no_time(session: Session, reason: Any, detail: str) -> Outcome:
        now_s = time.monotonic()
        with monkeypatch.context() as patch:
            stopped = SimpleNamespace(**vars(time) | {"monotonic": lambda: now_s})
            patch.setattr("a3c_zoo.runs.resources.time", stopped)
            return finish(session, reason, detail)

    monkeypatch.setattr(Session, "finish", finish_in_no_time)


@pytest.mark.usefixtures("_toy", "_stopped_clock")
@pytest.mark.parametrize(
    ("options", "reason", "detail"),
    [
        ({"episodes": 30}, "episodes", "30 episodes done"),
        ({"steps": 100}, "steps", "100 steps done"),
        ({"time_limit_s": 0.3}, "time-limit", "0.3 s are over"),
    ],
)
def test_budgets(options: dict[str, Any], reason: str, detail: str, tmp_path: Path) -> None:
    outcome, _ = train(tmp_path, stop_return=2.0, **options)
    assert (outcome.reason, outcome.detail, outcome.solved) == (reason, detail, False)
    if reason == "time-limit":
        assert 0.3 <= outcome.training_s < 50
    parts = outcome.training_s + outcome.evaluation_s + outcome.checkpoint_s + outcome.startup_s
    assert parts <= outcome.total_s < parts + 1  # in the rest, environments are closed
    assert outcome.steps_per_s == pytest.approx(outcome.steps / outcome.training_s)


@pytest.mark.parametrize("number", range(2))
def test_parallel_counters_are_exact(number: int, tmp_path: Path) -> None:
    """Steps are reached with less than one more rollout of every worker, and every file says the same."""
    overrides = {"env.num_envs": 4, "agent.n_steps": 32, "agent.update_samples": 32}
    outcome = a3c_zoo.train("cartpole", seed=number, steps=5000, overrides=overrides, runs_dir=tmp_path)
    saved = checkpoint(outcome.run)
    counters, session, rows = saved["agent"]["counters"], saved["session"], episodes(outcome.run)
    assert 5000 <= outcome.steps < 5000 + 2 * 32 * 4
    assert outcome.steps == session["steps"] == int(counters[:, 0].sum())
    assert outcome.updates == session["updates"] == int(counters[:, 1].sum())
    assert outcome.episodes == session["episodes"] == len(rows)
    assert int(counters[:, 2].sum()) * 4 >= outcome.steps  # ticks count the ignored steps too
    assert {row["worker"] for row in rows} == {0, 1}
    assert all(row["r"] == row["l"] for row in rows)
    unfinished = sum(int(worker["collector"]["lengths"].sum()) for worker in saved["agent"]["workers"])
    assert sum(row["l"] for row in rows) + unfinished == outcome.steps
    assert all(0 < row["step"] <= outcome.steps and 0 <= row["t"] <= outcome.training_s for row in rows)
    assert outcome.mean_return_100 == pytest.approx(statistics.fmean(row["r"] for row in rows[-100:]))


def test_checkpoints_come_in_time_and_at_the_end(tmp_path: Path) -> None:
    counts: list[int] = []

    def look(progress: Any) -> None:
        counts.append(len(list(tmp_path.glob("*/checkpoints/step-*.pt"))))
        if counts[-1] >= 3 > max(counts[:-1], default=0):
            signal_self()

    options: dict[str, Any] = {"time_limit_s": LIMIT_S, "stop_return": 1e6, "runs_dir": tmp_path}
    outcome = a3c_zoo.train("cartpole", overrides={"run.checkpoint_every_s": 0.3}, observer=Listener(look), **options)
    assert outcome.reason == "interrupted"
    steps = checkpoint_steps(RunDirectory(outcome.run))
    assert min(steps) == 0  # the first is written when training begins
    assert 4 <= len(steps) <= outcome.training_s / 0.3 + 2
    assert max(steps) == outcome.steps


def test_older_checkpoints_are_deleted_for_lack_of_room_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed: list[Path] = []

    def write(path: Path, *content: Any) -> None:
        if int(path.stem.removeprefix("step-")) > 6000:
            failed.append(path)
            if len(failed) == 1:  # a second signal would end it at once
                signal_self()
            raise RunDirectoryError("no checkpoint") from OSError(errno.EIO, "Input/output error")
        write_checkpoint(path, *content)

    monkeypatch.setattr("a3c_zoo.runs.session.write_checkpoint", write)
    overrides = {"run.checkpoint_every_steps": 1000, **NO_BUDGET}
    with pytest.raises(RunDirectoryError, match="no checkpoint"):
        a3c_zoo.train("cartpole", serial=True, stop_return=1e6, runs_dir=tmp_path, name="x", overrides=overrides)
    assert len(list(tmp_path.glob("x/checkpoints/step-*.pt"))) == 5  # as many as are kept
    assert len(failed) >= 2  # one while it trains, one at its end


@pytest.mark.parametrize(
    ("number", "keep", "makes_room"),
    [(errno.ENOSPC, 5, True), (errno.EDQUOT, 5, True), (errno.ENOSPC, None, False), (errno.EFBIG, 5, False)],
    ids=["space", "quota", "all-are-kept", "file-size"],
)
def test_older_checkpoints_make_room_for_a_new_one(
    number: int, keep: int | None, makes_room: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk has room for four. It refuses one while the run trains, and the one at its end."""
    stopped: list[Path] = []

    def there() -> list[int]:
        return checkpoint_steps(RunDirectory(tmp_path / "x"))

    def write(path: Path, *content: Any) -> None:
        if not (is_full := len(there()) == 4):
            write_checkpoint(path, *content)
        if len(there()) == 4 and int(path.stem.removeprefix("step-")) > 6000 and not stopped:
            stopped.append(path)
            signal_self()
        if is_full:
            raise RunDirectoryError("no checkpoint") from OSError(number, os.strerror(number))

    monkeypatch.setattr("a3c_zoo.runs.session.write_checkpoint", write)
    overrides = {"run.checkpoint_every_steps": 1000, "run.keep_checkpoints": keep, **NO_BUDGET}
    options: dict[str, Any] = {"serial": True, "stop_return": 1e6, "runs_dir": tmp_path, "name": "x"}
    if makes_room:
        outcome = a3c_zoo.train("cartpole", overrides=overrides, **options)
        assert outcome.reason == "interrupted"
        before, last = there()  # the newest of four stays until the last one is written
        assert before > 6000
        assert last == outcome.steps
    else:
        with pytest.raises(RunDirectoryError, match="no checkpoint"):
            a3c_zoo.train("cartpole", overrides=overrides, **options)
        assert [step // 1000 for step in there()] == [0, 1, 2, 3]


@pytest.mark.parametrize("agent", ["a3c", "sb3-a2c", "random"])
def test_checkpoints_come_at_fixed_steps(agent: str, tmp_path: Path) -> None:
    """Each with less than one more rollout of every worker, whatever the agent's speed."""
    overrides = {"run.checkpoint_every_steps": 1000, "env.num_envs": 4}
    outcome = a3c_zoo.train("cartpole", agent=agent, steps=3500, overrides=overrides, runs_dir=tmp_path)
    steps = checkpoint_steps(RunDirectory(outcome.run))
    assert steps.pop(0) == 0
    assert steps[-1] == outcome.steps
    assert len(steps) == 4
    rollout = 2 * 4 * 5 if agent == "a3c" else 4 * 5 if agent == "sb3-a2c" else 4 * 32
    assert all(0 <= found - due < rollout for found, due in zip(steps, (1000, 2000, 3000, 3500), strict=True))


@pytest.mark.usefixtures("_toy")
def test_a_run_that_does_not_stop_when_solved_plays_no_evaluation(tmp_path: Path) -> None:
    outcome, listener = train(tmp_path, steps=1000, overrides={"run.stop_when_solved": False})
    assert (outcome.reason, outcome.solved, outcome.evaluation, outcome.evaluation_s) == ("steps", False, None, 0)
    assert outcome.mean_return_100 == 1.0
    assert listener.messages == []
    assert all(num_envs != 20 for num_envs, _ in MADE)


def hooked(folder: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> list[tuple[str, Any]]:
    monkeypatch.syspath_prepend(plugin_distribution(folder, "hooks-plugin", source))
    monkeypatch.delitem(sys.modules, "hooks_plugin", raising=False)
    get_registry.cache_clear()
    get_registry()
    heard: list[tuple[str, Any]] = sys.modules["hooks_plugin"].heard
    return heard


@pytest.fixture
def _fresh_registry() -> Iterator[None]:
    yield
    get_registry.cache_clear()


@pytest.mark.usefixtures("_fresh_registry")
def test_plugins_hear_of_the_run_and_can_end_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = hooked(tmp_path / "plugin", monkeypatch, HOOKS)
    outcome = a3c_zoo.train("cartpole", serial=True, runs_dir=tmp_path, time_limit_s=LIMIT_S)
    assert (outcome.reason, outcome.detail) == ("plugin", "seen enough")
    assert heard[0] == ("start", True)
    assert heard[-1] == ("end", True)
    assert [step for name, step in heard if name == "episode"] == [row["step"] for row in episodes(outcome.run)]


@pytest.mark.usefixtures("_fresh_registry")
@pytest.mark.parametrize("hook", ["zoo_run_start", "zoo_should_stop", "zoo_run_end"])
def test_a_plugin_that_fails_in_a_run(hook: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first_line = {
        "zoo_run_start": 'heard.append(("start",',
        "zoo_should_stop": 'return "seen',
        "zoo_run_end": 'heard.append(("end",',
    }[hook]
    hooked(tmp_path / "plugin", monkeypatch, HOOKS.replace(first_line, f"boom(); {first_line}"))
    with pytest.raises(PluginError) as raised:
        a3c_zoo.train("cartpole", serial=True, time_limit_s=LIMIT_S, name="x", runs_dir=tmp_path)
    assert str(raised.value) == f"plugin 'hooks-plugin' (hooks-plugin 1.0) failed in {hook}: ValueError: boom"
    directory = Run(tmp_path / "x")
    if hook == "zoo_run_start":  # the run never began
        assert not directory.path.exists()
        return
    outcome = directory.outcome
    assert outcome is not None
    assert (outcome.reason == "error") == (hook != "zoo_run_end")
    assert not directory.is_running()
    assert outcome.steps > 2000
    assert any((tmp_path / "x/checkpoints").iterdir())


def test_a_run_that_nobody_watches_from_a_thread_of_its_own(tmp_path: Path) -> None:
    """Where no signals arrive."""
    outcomes: list[Any] = []
    thread = threading.Thread(
        target=lambda: outcomes.append(a3c_zoo.train("cartpole", steps=1500, runs_dir=tmp_path)), daemon=True
    )
    thread.start()
    thread.join(LIMIT_S)
    assert outcomes[0].reason == "steps"


def test_two_runs_side_by_side_in_threads(tmp_path: Path) -> None:
    outcomes: list[Any] = []
    threads = [
        threading.Thread(
            target=lambda seed=seed: outcomes.append(
                a3c_zoo.train("cartpole", steps=1500, seed=seed, workers=1, runs_dir=tmp_path)
            ),
            daemon=True,
        )
        for seed in (1, 2)
    ]
    start_s = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert time.monotonic() - start_s < LIMIT_S
    assert [outcome.reason for outcome in outcomes] == ["steps"] * 2
    assert len({outcome.run for outcome in outcomes}) == 2
