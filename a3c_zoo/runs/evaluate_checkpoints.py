"""Every checkpoint of every run plays the same evaluation: after training, on the zoo's environments, raw returns.

Each checkpoint plays the same episodes with sampled and with greedy actions, on seeds that no training and no other
evaluation uses. The results are kept in the run's evaluations.json. Child processes play, one per core.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from a3c_zoo.config.sets import env_of
from a3c_zoo.errors import RunDirectoryError, ZooError
from a3c_zoo.hardware import available_cores
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.seeds import COMPARED_EVALUATIONS
from a3c_zoo.store.checkpoint_evaluations import CheckpointEvaluation, keep_evaluations, kept_evaluations
from a3c_zoo.store.checkpoints import checkpoint_file, checkpoint_steps
from a3c_zoo.store.run import Run

if TYPE_CHECKING:
    from a3c_zoo.runs.evaluation import EvaluationTask, PlayedTask
    from a3c_zoo.runs.evaluation_process import EvaluationError

#: Checkpoints of a run that are evaluated, at equal parts of its budget; the last one is its end.
CHECKPOINTS: Final = 10
DEFAULT_EPISODES: Final = 20
#: The most environments side by side. Their frames lie in memory.
MAX_ENVS: Final = 32


def chosen_steps(known: Sequence[int], is_by_time: bool = False) -> list[int]:
    """Chooses the checkpoints to evaluate: those nearest to ten equal parts of the run, or all if there are no more.

    Args:
        known: all steps, rising. is_by_time: whether the checkpoints lie at equal seconds, in which a run makes
            different numbers of steps; else the parts are those of the last step.
    """
    if len(known) <= CHECKPOINTS:
        return list(known)
    if is_by_time:
        return [known[-(-len(known) * part // CHECKPOINTS) - 1] for part in range(1, CHECKPOINTS + 1)]
    targets = [known[-1] * part / CHECKPOINTS for part in range(1, CHECKPOINTS + 1)]
    return sorted({min(known, key=lambda step: abs(step - target)) for target in targets})


def missing_tasks(run: Path, episodes: int) -> dict[int, EvaluationTask]:
    """Agent steps → task, for the checkpoints of a run that have not played this number of episodes.

    Raises:
        ZooError: the run has no checkpoint, and was not evaluated to its end; or its configuration cannot be read.
    """
    directory = Run(run, is_trusted=True)  # its configuration is the planned one
    known = [step for step in checkpoint_steps(directory) if step]  # the first one has learned nothing
    done = {evaluation.steps for evaluation in kept_evaluations(run, episodes)}
    if not known:
        if directory.outcome is not None and directory.outcome.steps in done:  # nothing is left to play
            return {}
        raise RunDirectoryError("it has no checkpoint to evaluate")
    is_by_time = directory.settings.get("run.time_limit_s") is not None
    missing = [step for step in chosen_steps(known, is_by_time) if step not in done]
    if not missing:
        return {}
    task = task_of(directory, episodes)
    return {step: replace(task, checkpoint=checkpoint_file(directory, str(step))) for step in missing}


def task_of(directory: Run, episodes: int) -> EvaluationTask:
    """The evaluation of a run's last checkpoint. Raises ZooError as `missing_tasks`."""
    from a3c_zoo.runs.evaluation import EvaluationTask  # torch: reading needs none

    registry = get_registry()
    config = directory.config(registry)
    return EvaluationTask(
        entry=env_of(registry, config),
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
    from a3c_zoo.runs.evaluation_pool import EvaluationPool  # torch: planning needs none

    faults: dict[Path, str] = {}
    tasks = _missing_tasks_of_all(runs, episodes, faults)
    played = 0
    if tasks:
        on_played(played, len(tasks))
    size = min(processes or available_cores(), len(tasks))
    with EvaluationPool("a3c-zoo evaluation", size, is_silent=True) as pool:
        for (run, step), result in pool.play(tasks, give_sign, is_wanted=lambda key: key[0] not in faults):
            try:
                _keep(run, step, tasks[run, step], result)
                played += 1
                on_played(played, len(tasks))
            except ZooError as fault:
                faults[run] = f"its evaluation failed: {fault}"
    return faults


def _missing_tasks_of_all(
    runs: Sequence[Path], episodes: int, faults: dict[Path, str]
) -> dict[tuple[Path, int], EvaluationTask]:
    """Run and agent steps → task. A run without checkpoints, or with a damaged configuration, goes to `faults`."""
    tasks: dict[tuple[Path, int], EvaluationTask] = {}
    for run in runs:
        try:
            tasks |= {(run, step): task for step, task in missing_tasks(run, episodes).items()}
        except ZooError as error:
            faults[run] = str(error)
    return tasks


def _keep(run: Path, step: int, task: EvaluationTask, result: PlayedTask | EvaluationError) -> None:
    """Keeps what a checkpoint has played. Raises RunDirectoryError if it has played nothing, or cannot be kept."""
    from a3c_zoo.runs.evaluation_process import EvaluationError

    if isinstance(result, EvaluationError):
        raise RunDirectoryError(str(result)) from result
    if result.training_s is None:
        raise RunDirectoryError(f"{task.checkpoint.name} does not say when in training it was made")
    evaluations = [
        CheckpointEvaluation(step, result.training_s, result.by_mode[mode].evaluation())
        for mode in task.modes
    ]
    keep_evaluations(run, task.episodes, evaluations, task.config.run.seed)
