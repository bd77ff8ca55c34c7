"""One process plays evaluation tasks of different runs; faults of all kinds leave the parent and later tasks alone."""

from __future__ import annotations

import errno
import multiprocessing
import time
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing import forkserver
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import a3c_zoo
from a3c_zoo.plugins.entries import EnvEntry
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.runs.evaluation import EvaluationTask, PlayedTask
from a3c_zoo.runs.evaluation_process import EvaluationError, EvaluationProcess
from a3c_zoo.seeds import COMPARED_EVALUATIONS, SEED_EVALUATION, seed_for
from a3c_zoo.store.run import Run
from tests.toys import ToyVectorEnv
from tests.toys_env import reward_of
from tests.toys_runs import toy_installed
from tests.waits import LIMIT_S


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[EvaluationTask]]:
    """Two tasks: checkpoints of two runs, of which one has seed 1 and the other seed 2."""
    folder = tmp_path_factory.mktemp("runs")
    with toy_installed(folder / "toy"):
        runs = [
            a3c_zoo.train("toy", agent="random", seed=seed, steps=100, serial=True, runs_dir=folder).run
            for seed in (1, 2)
        ]
        yield [task_of(run) for run in runs]


def task_of(run: Path) -> EvaluationTask:
    registry, directory = get_registry(), Run(run)
    config = directory.config(registry)
    config = replace(config, env=config.env.model_copy(update={"evaluation_by_seed": True}))
    file = max(directory.checkpoints.glob("step-*.pt"))
    load = registry.agent("random").load
    return EvaluationTask(registry.env("toy"), None, config, load, file, COMPARED_EVALUATIONS, 5, 4)


def with_env(task: EvaluationTask, timeout_s: float = 60.0, **keys: Any) -> EvaluationTask:
    env, run = (
        task.config.env.model_copy(update=keys),
        task.config.run.model_copy(update={"worker_timeout_s": timeout_s}),
    )
    return replace(task, config=replace(task.config, env=env, run=run))


@pytest.fixture
def process() -> Iterator[EvaluationProcess]:
    process = EvaluationProcess("a3c-zoo evaluation")
    yield process
    process.stop()
    assert multiprocessing.active_children() == []


def played(process: EvaluationProcess, task: EvaluationTask) -> PlayedTask:
    """Plays a task, and waits for its end as long as its own limit allows."""
    process.begin(task)
    while (result := process.result()) is None:
        wait([process.connection], 0.1)
    return result


def pid_of(process: EvaluationProcess) -> int | None:
    (child,) = [each for each in multiprocessing.active_children() if each.name == "a3c-zoo evaluation"]
    return child.pid


class Luck(ToyVectorEnv):
    """Episodes of one step, whose rewards are drawn from NumPy's global generator."""

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict]:
        observation, rewards, terminated, truncated, info = super().step(actions)
        return observation, np.random.random(len(rewards)), terminated, truncated, info


def make_luck(num_envs: int, seed: int, **options: Any) -> Luck:
    return Luck(num_envs, scripts=[[([0.0], "terminated")]])


def test_an_evaluation_draws_the_same_global_random_numbers_each_time(
    process: EvaluationProcess, tasks: list[EvaluationTask]
) -> None:
    """Both modes play the same numbers; another evaluation plays others."""
    task = replace(tasks[0], entry=EnvEntry("luck", f"{__name__}:make_luck"))
    first, other, again = (
        [[each.episode_return for each in mode.episodes] for mode in found.by_mode.values()]
        for found in (played(process, replace(task, number=number)) for number in (7, 8, 7))
    )
    assert first == again
    assert first[0] == first[1]
    assert set(first[0]).isdisjoint(other[0])


def test_one_process_plays_checkpoints_of_several_runs(process: EvaluationProcess, tasks: list[EvaluationTask]) -> None:
    pids = set()
    for seed, task in ((1, tasks[0]), (2, tasks[1]), (1, replace(tasks[0], modes=("sampled",)))):
        result = played(process, task)
        reward = reward_of(seed_for(seed, SEED_EVALUATION, COMPARED_EVALUATIONS))
        assert tuple(result.by_mode) == task.modes
        for mode in task.modes:
            figures = result.by_mode[mode].evaluation()
            assert (figures.episodes, figures.deterministic) == (5, mode == "greedy")
            assert figures.mean_return == pytest.approx(reward)
            assert 0 < figures.seconds < LIMIT_S
        assert result.training_s is not None
        assert result.training_s > 0
        pids.add(pid_of(process))
    assert len(pids) == 1


@pytest.mark.parametrize(
    ("fault", "limit_s", "line", "survives"),
    [
        ("raise", LIMIT_S, "RuntimeError: the toy broke (in toys.py, line ", True),
        ("kill", LIMIT_S, "it was ended by signal SIGKILL (out of memory?)", False),
        ("sleep", 2.0, "it has made no step for 2 s: does its environment hang? (limit: run.worker_timeout_s)", False),
        ("hold", 2.0, "it has made no step for 2 s: does its environment hang? (limit: run.worker_timeout_s)", False),
    ],
)
def test_after_a_fault_the_next_task_is_played(
    fault: str, limit_s: float, line: str, survives: bool, process: EvaluationProcess, tasks: list[EvaluationTask]
) -> None:
    played(process, tasks[0])
    before = pid_of(process)
    with pytest.raises(EvaluationError) as raised:
        played(process, with_env(tasks[0], limit_s, evaluation_fault=fault))
    assert str(raised.value).startswith(line)
    assert ("Traceback (most recent call last)" in raised.value.trace) == survives
    assert len(played(process, tasks[1]).by_mode["greedy"].episodes) == 5
    assert (pid_of(process) == before) == survives


def test_what_cannot_be_sent_is_a_fault_of_the_user(process: EvaluationProcess, tasks: list[EvaluationTask]) -> None:
    with pytest.raises(EvaluationError, match=r"cannot be sent to a process: Can't pickle .*lambda") as raised:
        process.begin(replace(tasks[0], entry=EnvEntry("x", kwargs={"reward": lambda: 1})))
    assert raised.value.is_users
    played(process, tasks[0])


def test_a_fork_server_that_cannot_be_started_is_a_fault_that_may_pass(
    process: EvaluationProcess, tasks: list[EvaluationTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        full.setattr(forkserver, "ensure_running", refuse)
        with pytest.raises(EvaluationError, match=r"it cannot be started: .*Too many open files") as raised:
            process.begin(tasks[0])
    assert not raised.value.is_users
    assert process._at_exit is None
    played(process, tasks[0])


def refuse() -> None:
    raise OSError(errno.EMFILE, "Too many open files")


def test_a_checkpoint_that_cannot_be_read_is_a_fault(
    process: EvaluationProcess, tasks: list[EvaluationTask], tmp_path: Path
) -> None:
    damaged = tmp_path / "damaged.pt"
    damaged.write_bytes(b"no checkpoint")
    with pytest.raises(EvaluationError, match=r"^checkpoint .*damaged\.pt cannot be read"):
        played(process, replace(tasks[0], checkpoint=damaged))


def test_the_parent_waits_on_several_and_stops_them_at_once(tasks: list[EvaluationTask]) -> None:
    slow, fast = EvaluationProcess("slow"), EvaluationProcess("fast")
    try:
        slow.begin(with_env(tasks[0], evaluation_fault="hold"))
        fast.begin(tasks[1])
        assert wait([slow.connection, fast.connection], LIMIT_S) == [fast.connection]
        assert fast.result() is not None
        assert slow.result() is None
    finally:
        start_s = time.monotonic()
        slow.stop()
        fast.stop()
    assert time.monotonic() - start_s < 60.0  # 1 s for a process that does not look, on an idle machine
    assert multiprocessing.active_children() == []


def test_a_silent_process_prints_nothing_and_the_first_task_pays_for_its_start(
    tasks: list[EvaluationTask], capfd: pytest.CaptureFixture[str]
) -> None:
    """It pays, so that the evaluator keeps to its share of the cores. A spawned process imports torch: over 1 s."""
    config = tasks[0].config  # spawn: a fork server would have the output of the moment when it started
    config = replace(config, run=config.run.model_copy(update={"start_method": "spawn"}))
    entry = replace(tasks[0].entry, factory="tests.test_evaluation_process:make_printing")
    loud = replace(tasks[0], entry=entry, config=config)
    for is_silent in (False, True):
        process = EvaluationProcess("a3c-zoo evaluation", is_silent)
        try:
            first, second = played(process, loud).cpu_s, played(process, loud).cpu_s
            assert 0 <= second < 0.5 * first
        finally:
            process.stop()
        out, _ = capfd.readouterr()
        assert ("hello from the factory" in out) == (not is_silent)


def make_printing(num_envs: int, seed: int, **options: Any) -> Any:
    from tests.toys_env import make

    print("hello from the factory", flush=True)
    return make(num_envs, seed, **options)
