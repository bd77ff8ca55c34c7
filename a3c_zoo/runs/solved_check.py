"""The solved check: episodes on fresh seeds, in parts that are played side by side.

Each part loads the policy anew and has seeds of its own. So the episodes, and their mean, do not depend on how many
processes play, or on which of them plays a part.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from a3c_zoo.errors import WorkerError, ZooError
from a3c_zoo.records import Evaluation, Snapshot
from a3c_zoo.runs.episodes import PlayedEpisodes
from a3c_zoo.runs.evaluation import EvaluationTask, PlayedTask, play_task
from a3c_zoo.runs.evaluation_pool import EvaluationPool
from a3c_zoo.runs.evaluation_process import EvaluationError
from a3c_zoo.runs.signals import StopEvaluationError
from a3c_zoo.seeds import CHECK_EVALUATIONS, SEED_CHECK, seed_for
from a3c_zoo.store.checkpoints import PolicyState, write_checkpoint

#: A check has so many parts. Smaller ones would wait more for their longest episodes, and act for few games at a time.
PARTS = 4
#: This process plays for so long, in seconds, before it starts others: short episodes end sooner than processes start.
ALONE_S = 1.0


class _TakesLongError(Exception):
    """A part takes longer than this process should play alone."""


class SolvedCheck:
    """Plays the solved checks of a run.

    Args:
        task: the check that is repeated; its checkpoint is written anew each time.
        processes: how many may play side by side; 0 for none but this one.
        on_step: called while a check is played; may raise StopEvaluationError.
    """

    def __init__(self, task: EvaluationTask, processes: int, on_step: Callable[[int], None]) -> None:
        self._task = task
        self._processes = processes
        self._on_step = on_step

    def play(self, snapshot: Snapshot, steps: int, number: int) -> Evaluation:
        """Plays the check of this number with the current parameters, after `steps` agent steps of the run.

        Raises:
            StopEvaluationError: `on_step` raised it.
            ZooError: the environment or the network cannot be used.
            WorkerError: any other failure, also of a process.
        """
        file = self._task.checkpoint
        write_checkpoint(file, (snapshot.acting or snapshot.state)(), PolicyState(steps))
        try:
            return self._played(parts_of(self._task, number))
        finally:
            with suppress(OSError):  # on a read-only disk; a resume deletes it
                file.unlink()

    def _played(self, parts: Sequence[EvaluationTask]) -> Evaluation:
        start_s = time.monotonic()
        try:
            is_safe = self._processes == 0 or is_of_the_zoo(self._task)
            played = self._play_alone(parts) if is_safe else []
            played += self._play_side_by_side(parts[len(played) :])
        except EvaluationError as fault:
            if fault.is_users:
                raise ZooError(str(fault)) from None
            raise WorkerError(f"the solved check failed: {fault}\n\n{fault.trace}".rstrip()) from None
        episodes = [episode for part in played for episode in part.by_mode["sampled"].episodes]
        seconds = time.monotonic() - start_s
        return PlayedEpisodes(episodes, False, seconds, self._task.entry.agents).evaluation()

    def _play_alone(self, parts: Sequence[EvaluationTask]) -> list[PlayedTask]:
        """Plays parts in this process: those that end within `ALONE_S`, or all if no other process would help."""
        deadline_s = time.monotonic() + ALONE_S
        played: list[PlayedTask] = []

        def on_step(episodes: int) -> None:
            self._on_step(episodes)
            if min(self._processes, len(parts) - len(played)) > 1 and time.monotonic() > deadline_s:
                raise _TakesLongError

        for part in parts:
            try:
                on_step(0)
                played.append(play_task(part, on_step))
            except _TakesLongError:
                break
            except StopEvaluationError:
                raise
            except Exception as error:
                raise EvaluationError.of(error) from error
        return played

    def _play_side_by_side(self, parts: Sequence[EvaluationTask]) -> list[PlayedTask]:
        """Plays parts in processes; returns them in their order."""
        played: dict[int, PlayedTask] = {}
        size = min(self._processes, len(parts))
        with EvaluationPool("a3c-zoo solved check", size) as pool:
            for number, result in pool.play(dict(enumerate(parts)), on_look=lambda: self._on_step(0)):
                if isinstance(result, EvaluationError):
                    raise result
                played[number] = result
        return [played[number] for number in range(len(parts))]


def is_of_the_zoo(task: EvaluationTask) -> bool:
    """Whether all code of the environments is a3c-zoo's. That of others may crash or hang: processes are watched."""
    factory = task.entry.factory or ""
    return factory.startswith("a3c_zoo_envs.") and not task.config.env.wrappers


def parts_of(task: EvaluationTask, number: int) -> list[EvaluationTask]:
    """Splits a check into `PARTS`, each with its share of environments and episodes; into fewer if there are too few.

    Args:
        number: of the check; it selects the seeds, with the number of the part.
    """
    run = task.config.run
    parts = list[EvaluationTask]()
    num_parts = min(PARTS, task.num_envs, task.episodes)
    for part in range(num_parts):
        seed = seed_for(run.seed, SEED_CHECK, number, part)
        config = replace(task.config, run=run.model_copy(update={"seed": seed}))
        episodes, num_envs = (n // num_parts + (part < n % num_parts) for n in (task.episodes, task.num_envs))
        whole = replace(task, config=config, number=CHECK_EVALUATIONS, modes=("sampled",))
        parts.append(replace(whole, episodes=episodes, num_envs=num_envs))
    return parts
