"""Every checkpoint of every run plays the same evaluation: after training, on the zoo's environments, raw returns.

Each checkpoint plays the same episodes with sampled and with greedy actions, on seeds that no training and no other
evaluation uses. The results are kept in the run's evaluations.json. Child processes play, one per core.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Final

from a3c_zoo.errors import RunDirectoryError, ZooError
from a3c_zoo.hardware import available_cores
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.seeds import COMPARED_EVALUATIONS
from a3c_zoo.store.checkpoint_evaluations import CheckpointEvaluation, keep_evaluations, kept_evaluations
from a3c_zoo.store.checkpoints import checkpoint_file, checkpoint_steps
from a3c_zoo.store.directory import RunDirectory

if TYPE_CHECKING:
    from a3c_zoo.runs.evaluation import EvaluationTask
    from a3c_zoo.runs.evaluation_process import EvaluationProcess

    #: Runs with the tasks that they lack: agent steps → task.
    _Waiting = deque[tuple[Path, dict[int, EvaluationTask]]]

#: Checkpoints of a run that are evaluated, at equal parts of its budget; the last one is its end.
CHECKPOINTS: Final = 10
DEFAULT_EPISODES: Final = 20
#: The most environments side by side. Their frames lie in memory.
MAX_ENVS: Final = 32
#: How often the parent checks whether a process hangs, in seconds.
CHECK_EVERY_S: Final = 0.5


def chosen_steps(known: Sequence[int]) -> list[int]:
    """Chooses the checkpoints to evaluate, those nearest to ten equal parts of the last. known: all steps, rising."""
    targets = [known[-1] * part / CHECKPOINTS for part in range(1, CHECKPOINTS + 1)]
    return sorted({min(known, key=lambda step: abs(step - target)) for target in targets})


def missing_tasks(run: Path, episodes: int) -> dict[int, EvaluationTask]:
    """Agent steps → task, for the checkpoints of a run that have not played this number of episodes.

    Raises:
        ZooError: the run has no checkpoint, or its configuration cannot be read.
    """
    directory = RunDirectory(run, is_trusted=True)  # its configuration is the planned one
    known = [step for step in checkpoint_steps(directory) if step]  # the first one has learned nothing
    if not known:
        raise RunDirectoryError("it has no checkpoint")
    done = {each.steps for each in kept_evaluations(run, episodes)}
    missing = [step for step in chosen_steps(known) if step not in done]
    if not missing:
        return {}
    task = task_of(directory, episodes)
    return {step: replace(task, checkpoint=checkpoint_file(directory, str(step))) for step in missing}


def task_of(directory: RunDirectory, episodes: int) -> EvaluationTask:
    """The evaluation of a run's last checkpoint. Raises ZooError as `missing_tasks`."""
    from a3c_zoo.runs.evaluation import EvaluationTask  # torch: reading needs none

    registry = get_registry()
    config = directory.config(registry)
    return EvaluationTask(
        entry=registry.env(config.env_name),
        network=registry.network(config.network.name) if config.network else None,
        config=config,
        load=registry.agent(config.agent_name).load,
        checkpoint=checkpoint_file(directory, "final"),
        number=COMPARED_EVALUATIONS,
        episodes=episodes,
        num_envs=min(episodes, MAX_ENVS),
        modes=("sampled", "greedy"),
    )


def evaluate_runs(
    runs: Sequence[Path],
    episodes: int,
    on_played: Callable[[int, int], None],
    processes: int | None = None,
    give_sign: Callable[[], None] = lambda: None,
) -> dict[Path, str]:
    """Plays all checkpoints that have not been played. Returns run → reason for each run that failed.

    A fault ends the evaluation of its run only: an error of the environment, a process that dies, or one that makes no
    step for `run.worker_timeout_s`.

    Args:
        on_played: called with the number of checkpoints that were played, and of all.
        processes: how many play side by side; by default one per core.
        give_sign: called several times a second.

    Raises:
        KeyboardInterrupt: results until then are kept.
    """
    from a3c_zoo.runs.evaluation_process import EvaluationProcess

    faults: dict[Path, str] = {}
    waiting = _waiting(runs, episodes, faults)
    total, numbers = sum(len(tasks) for _, tasks in waiting), itertools.count()

    def count() -> None:
        on_played(next(numbers), total)

    if total:
        count()
    waiting = _in_parts(waiting, processes or available_cores())
    children = [
        EvaluationProcess("a3c-zoo evaluation", is_silent=True)
        for _ in range(min(processes or available_cores(), len(waiting)))
    ]
    players = [_play(child, waiting, faults, count) for child in children]
    try:
        while busy := [connection for player in players if (connection := next(player, None)) is not None]:
            wait(busy, CHECK_EVERY_S)
            give_sign()
    finally:
        for child in children:
            child.stop()
    return faults


def _waiting(runs: Sequence[Path], episodes: int, faults: dict[Path, str]) -> _Waiting:
    """The runs with tasks. A run without checkpoints, or with a damaged configuration, goes to `faults`."""
    waiting: _Waiting = deque()
    for run in runs:
        try:
            if tasks := missing_tasks(run, episodes):
                waiting.append((run, tasks))
        except ZooError as error:
            faults[run] = str(error)
    return waiting


def _in_parts(waiting: _Waiting, processes: int) -> _Waiting:
    """The same tasks. If there are fewer runs than processes, each run's tasks are split, so that all can play."""
    parts = processes // max(len(waiting), 1)
    if parts < 2:
        return waiting
    split: _Waiting = deque()
    for run, tasks in waiting:
        steps = [list(tasks)[part::parts] for part in range(parts)]
        split.extend((run, {step: tasks[step] for step in part}) for part in steps if part)
    return split


def _play(
    child: EvaluationProcess, waiting: _Waiting, faults: dict[Path, str], count: Callable[[], None]
) -> Iterator[Connection]:
    """Lets a process play one run after the other. Yields its connection whenever there is nothing to do but wait."""
    from a3c_zoo.runs.evaluation_process import EvaluationError

    while waiting:
        run, tasks = waiting.popleft()
        try:
            for step, task in tasks.items():
                child.begin(task)
                while (played := child.result()) is None:
                    yield child.connection
                if (at_s := played.training_s) is None:
                    raise RunDirectoryError(f"{task.checkpoint.name} does not say when in training it was made")
                found = [CheckpointEvaluation(step, at_s, played.by_mode[mode].evaluation()) for mode in task.modes]
                keep_evaluations(run, task.episodes, found, task.config.run.seed)
                count()
        except (EvaluationError, ZooError) as fault:
            faults[run] = f"its evaluation failed: {fault}"
