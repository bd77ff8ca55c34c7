"""A solved check is the same whatever number of processes plays it, and leaves nothing behind when it is cut short."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import a3c_zoo
from a3c_zoo.cli.summary import summary
from a3c_zoo.errors import WorkerError, ZooError
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.records import Evaluation, Snapshot
from a3c_zoo.runs import evaluation_pool, solved_check
from a3c_zoo.runs.evaluation import EvaluationTask
from a3c_zoo.runs.signals import StopEvaluationError
from a3c_zoo.runs.solved_check import SolvedCheck, is_of_the_zoo, parts_of
from a3c_zoo.seeds import CHECK_EVALUATIONS
from a3c_zoo.store.checkpoints import load_policy_state
from a3c_zoo.store.run import Run
from tests.toys_runs import toy_installed


def made(run: Path, episodes: int, num_envs: int, **env_keys: Any) -> tuple[EvaluationTask, Snapshot]:
    """The check of a finished run, and its last parameters."""
    registry, directory = get_registry(), Run(run)
    config = directory.config(registry)
    config = replace(config, env=config.env.model_copy(update=env_keys))
    network = registry.network(config.network.name) if config.network else None
    entry, load = registry.env(config.env_name), registry.agent(config.agent_name).load
    task = EvaluationTask(entry, network, config, load, directory.checked_file, CHECK_EVALUATIONS, episodes, num_envs)
    return task, Snapshot(lambda: load_policy_state(directory).agent)


def play(
    made: tuple[EvaluationTask, Snapshot],
    processes: int,
    number: int = 0,
    on_step: Callable[[int], None] = lambda n: None,
) -> Evaluation:
    task, snapshot = made
    try:
        return SolvedCheck(task, processes, on_step).play(snapshot, 1000, number)
    finally:
        assert not task.checkpoint.exists()
        assert multiprocessing.active_children() == []


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory: pytest.TempPathFactory) -> tuple[EvaluationTask, Snapshot]:
    outcome = a3c_zoo.train("cartpole", seed=3, steps=2000, serial=True, runs_dir=tmp_path_factory.mktemp("runs"))
    return made(outcome.run, episodes=22, num_envs=5)


@pytest.fixture
def toy(tmp_path: Path) -> Iterator[Path]:
    with toy_installed(tmp_path / "toy"):
        yield a3c_zoo.train("toy", agent="random", steps=100, serial=True, runs_dir=tmp_path).run


def test_parts_share_episodes_and_environments_and_have_seeds_of_their_own(
    cartpole: tuple[EvaluationTask, Snapshot],
) -> None:
    task, _ = cartpole
    parts = parts_of(task, number=0)
    assert [(part.episodes, part.num_envs) for part in parts] == [(6, 2), (6, 1), (5, 1), (5, 1)]
    assert [part.episodes for part in parts_of(replace(task, num_envs=1), 0)] == [22]
    assert [part.num_envs for part in parts_of(replace(task, episodes=2), 0)] == [3, 2]
    assert {part.modes for part in parts} == {("sampled",)}
    seeds = [part.config.run.seed for number in range(3) for part in parts_of(task, number)]
    assert len(set(seeds)) == 12
    assert task.config.run.seed not in seeds


def test_the_result_does_not_depend_on_the_number_of_processes(
    cartpole: tuple[EvaluationTask, Snapshot], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alone, partly alone, and by one to three other processes."""
    alone = replace(play(cartpole, 0), seconds=0)
    assert alone.episodes == 22
    assert not alone.deterministic
    assert alone.min_return < alone.max_return
    assert replace(play(cartpole, 3), seconds=0) == alone
    monkeypatch.setattr(solved_check, "ALONE_S", 0.0)
    for processes in (2, 3):
        assert replace(play(cartpole, processes), seconds=0) == alone
    assert replace(play(cartpole, 2, number=1), seconds=0) != alone


def test_short_checks_start_no_process(
    cartpole: tuple[EvaluationTask, Snapshot], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(solved_check, "ALONE_S", 60.0)
    monkeypatch.delattr(evaluation_pool, "EvaluationProcess")
    monkeypatch.setattr(SolvedCheck, "_play_side_by_side", lambda self, parts: [] if not parts else 1 / 0)
    assert play(cartpole, 2).episodes == 22


def test_a_signal_ends_a_check_that_others_play(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solved_check, "ALONE_S", 0.0)
    calls = []

    def on_step(episodes: int) -> None:
        calls.append(len(multiprocessing.active_children()))
        if calls[-1] == 2:
            raise StopEvaluationError

    with pytest.raises(StopEvaluationError):
        play(made(toy, 100, 20, evaluation_step_s=60.0), 2, on_step=on_step)
    assert max(calls) == 2


def test_environments_of_others_are_played_in_processes_that_are_watched(
    toy: Path, cartpole: tuple[EvaluationTask, Snapshot], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash or a hang of theirs ends no run."""
    monkeypatch.setattr(SolvedCheck, "_play_alone", lambda self, parts: 1 / 0)
    assert play(made(toy, 5, 2), 1).episodes == 5
    task, _ = cartpole
    wrapped = task.config.env.model_copy(update={"wrappers": ("gymnasium.wrappers:TimeLimit",)})
    assert is_of_the_zoo(task)
    assert not is_of_the_zoo(replace(task, config=replace(task.config, env=wrapped)))
    with pytest.raises(WorkerError, match=r"the solved check failed: .*was ended by signal SIGKILL"):
        play(made(toy, 100, 20, evaluation_fault="kill"), 2)


def test_one_part_is_not_begun_twice(
    cartpole: tuple[EvaluationTask, Snapshot], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process of its own would not be sooner than this one."""
    monkeypatch.setattr(solved_check, "ALONE_S", 0.0)
    monkeypatch.delattr(evaluation_pool, "EvaluationProcess")
    monkeypatch.setattr(SolvedCheck, "_play_side_by_side", lambda self, parts: [] if not parts else 1 / 0)
    task, snapshot = cartpole
    assert play((replace(task, num_envs=1, episodes=3), snapshot), 2).episodes == 3


def test_an_evaluation_is_told_of_the_policy_that_it_played(tmp_path: Path) -> None:
    overrides = {"run.evaluation_episodes": 5, "run.checkpoint_every_steps": 1000, "run.keep_checkpoints": None}
    options: dict[str, Any] = {"serial": True, "runs_dir": tmp_path, "overrides": overrides}
    checked = a3c_zoo.train("cartpole", stop_return=15, steps=50_000, **options)
    assert checked.reason == "stop-return"
    assert checked.evaluation_step == checked.steps
    assert " over 5 episodes" in repr(a3c_zoo.load_agent(checked.run))
    assert summary(checked).splitlines()[3].endswith(", sampled actions")
    on = a3c_zoo.train(resume=checked.run, stop_return=1e6, steps=checked.steps + 2000)
    assert (on.evaluation, on.evaluation_step) == (checked.evaluation, checked.steps)
    assert on.last_evaluation is None
    assert " at the end of training" in repr(a3c_zoo.load_agent(on.run))
    assert summary(on).splitlines()[3].endswith(f", sampled actions, at step {checked.steps:,}")


def test_a_file_that_cannot_be_deleted_loses_no_check(toy: Path) -> None:
    """As on a disk that has become read-only."""
    task, snapshot = made(toy, 3, 1)

    def on_step(episodes: int) -> None:
        if task.checkpoint.is_file() and episodes:
            task.checkpoint.unlink()
            task.checkpoint.mkdir()

    assert SolvedCheck(task, 0, on_step).play(snapshot, 1000, 0).episodes == 3
    assert task.checkpoint.is_dir()


def test_a_fault_in_this_process_is_told_alike(toy: Path) -> None:
    with pytest.raises(WorkerError, match=r"the solved check failed: .*the toy broke"):
        play(made(toy, 100, 20, evaluation_fault="raise"), 1)


@pytest.mark.parametrize("alone_s", [60.0, 0.0])
def test_what_the_user_can_mend_is_one_line(alone_s: float, toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process or in another."""
    monkeypatch.setattr(solved_check, "ALONE_S", alone_s)
    with pytest.raises(ZooError) as caught:
        play(made(toy, 100, 20, evaluation_fault="factory-zoo"), 2)
    assert (type(caught.value), str(caught.value)) == (ZooError, "the toy cannot be made")


@pytest.mark.parametrize(("fault", "message"), [("raise", "the toy broke"), ("kill", "was ended by signal SIGKILL")])
def test_a_fault_in_a_process_is_told(fault: str, message: str, toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solved_check, "ALONE_S", 0.0)
    with pytest.raises(WorkerError, match=f"the solved check failed: .*{message}"):
        play(made(toy, 100, 20, evaluation_fault=fault), 2)
