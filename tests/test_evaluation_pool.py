"""Evaluation tasks that real processes play side by side."""

from __future__ import annotations

import multiprocessing
import time
from dataclasses import replace
from pathlib import Path

import pytest

import a3c_zoo
from a3c_zoo.runs.evaluate_checkpoints import task_of
from a3c_zoo.runs.evaluation import EvaluationTask, PlayedTask
from a3c_zoo.runs.evaluation_pool import EvaluationPool
from a3c_zoo.runs.evaluation_process import EvaluationError
from a3c_zoo.store.run import Run
from tests.waits import LIMIT_S


def nothing() -> None:
    pass


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> EvaluationTask:
    outcome = a3c_zoo.train(
        "cartpole", agent="random", steps=100, serial=True, runs_dir=tmp_path_factory.mktemp("runs")
    )
    return task_of(Run(outcome.run, is_trusted=True), episodes=2)


def test_all_tasks_end_and_a_fault_is_of_its_own_task(task: EvaluationTask) -> None:
    damaged = replace(task, checkpoint=Path("there is none"))
    tasks = {"one": task, "two": damaged, "three": task, "four": task}
    with EvaluationPool("a3c-zoo test", 2) as pool:
        played = dict(pool.play(tasks, nothing))
        assert len(multiprocessing.active_children()) == 2
    assert multiprocessing.active_children() == []
    assert played.keys() == tasks.keys()
    assert isinstance(played["two"], EvaluationError)
    for name in ("one", "three", "four"):
        result = played[name]
        assert isinstance(result, PlayedTask)
        assert [*result.by_mode] == ["sampled", "greedy"]
        assert len(result.by_mode["sampled"].episodes) == 2


def test_a_key_that_is_no_longer_wanted_is_left_out(task: EvaluationTask) -> None:
    """It is asked when a process is free: the first task has ended then."""
    done: list[int] = []
    with EvaluationPool("a3c-zoo test", 1) as pool:
        for key, _ in pool.play(
            dict.fromkeys(range(4), task), nothing, is_wanted=lambda key: key not in (1, 2) or not done
        ):
            done.append(key)
    assert done == [0, 3]


def test_no_task_needs_no_process() -> None:
    with EvaluationPool("a3c-zoo test", 0) as pool:
        assert [*pool.play({}, nothing)] == []


def test_what_a_look_raises_ends_the_processes(task: EvaluationTask) -> None:
    endless = replace(task, episodes=10**9)
    end_s = time.monotonic() + LIMIT_S

    def stop_when_it_plays() -> None:
        assert time.monotonic() < end_s
        if len(multiprocessing.active_children()) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), EvaluationPool("a3c-zoo test", 2) as pool:
        list(pool.play({1: endless, 2: endless}, stop_when_it_plays))
    assert multiprocessing.active_children() == []
