"""The evaluator beside training: when it plays, what is kept of it, and the best policy so far.

It plays copies of the parameters on seeds of its own, and keeps to a share of the cores: after an evaluation of c CPU
seconds the next one starts c / (share · cores) seconds after it, or later. A fault ends an evaluation, not training.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial

from a3c_zoo.errors import RunDirectoryError
from a3c_zoo.files import open_file, shown
from a3c_zoo.hardware import available_cores
from a3c_zoo.processes.faults import Allowance
from a3c_zoo.records import EvaluatorResult, Snapshot
from a3c_zoo.runs.evaluation import MODES, EvaluationTask, PlayedTask, play_task
from a3c_zoo.runs.evaluation_process import EvaluationError, EvaluationProcess
from a3c_zoo.runs.full_disk import may_pass
from a3c_zoo.runs.resources import Clock
from a3c_zoo.runs.setup import RunSetup
from a3c_zoo.runs.signals import StopEvaluationError
from a3c_zoo.seeds import EVALUATOR_EVALUATIONS
from a3c_zoo.store.checkpoints import (
    EvaluatorState,
    PolicyState,
    RunState,
    read_policy,
    read_state,
    write_checkpoint,
)
from a3c_zoo.store.directory import RunDirectory
from a3c_zoo.store.evaluation_files import HEADER, EvaluationRows
from a3c_zoo.store.films import keep_film
from a3c_zoo.store.rows import ROWS_RETRY_S
from a3c_zoo.store.run_files import EVALUATOR_LOG


class EvaluationInTurn:
    """Plays in this process while training waits, for the serial runner. The time counts as evaluation.

    Args:
        on_step: as in `evaluate_policy`. If it raises StopEvaluationError, there is no result.
    """

    def __init__(self, clock: Clock, on_step: Callable[[int], None]) -> None:
        self._clock = clock
        self._on_step = on_step
        self._played: PlayedTask | None = None

    def begin(self, task: EvaluationTask) -> None:
        """Plays the whole task. Raises EvaluationError for any error of the environment or the network."""
        self._played = None
        try:
            with self._clock.during("evaluation"):
                self._played = play_task(task, self._on_step)
        except StopEvaluationError:
            return
        except Exception as error:
            raise EvaluationError.of(error) from error

    def result(self) -> PlayedTask | None:
        """What `begin` played; None if it was stopped."""
        return self._played

    def stop(self) -> None:
        """Nothing lives on."""


class Evaluator:
    """Decides when to evaluate, and records what was played.

    Args:
        player: plays the same task again and again; the task's checkpoint is written anew each time.
        saved: `state()` of an earlier session, to go on from; None for a run that begins.
        on_event: as `RunContext.event`; it is told of faults.

    Attributes:
        result: the newest, None before the first. fault: why the evaluator has ended, None while it has not.
        kept: what `checkpoints/best.pt` says about its policy; None if there is none. It may be of an earlier session.
    """

    def __init__(
        self,
        directory: RunDirectory,
        setup: RunSetup,
        player: EvaluationProcess | EvaluationInTurn,
        saved: EvaluatorState | None,
        on_event: Callable[..., None],
    ) -> None:
        self._directory = directory
        self._player = player
        self._run = setup.config.run
        self._on_event, self._allowance = on_event, Allowance(self._run.worker_restarts)
        episodes = self._run.evaluator_episodes
        self._task = EvaluationTask.of(setup, directory.evaluated_file, EVALUATOR_EVALUATIONS, episodes)
        self._file = EvaluationRows(directory.home, saved.position if saved else None)
        self._file.tell = partial(on_event, "file_replaced")
        self._state = saved or EvaluatorState(number=0, at_step=0, at_s=0.0, position=0)
        self.kept: PolicyState | None = None
        # A best policy from before a resume may be newer than the checkpoint.
        if (path := directory.best_file).exists():
            self.kept = read_state(path, PolicyState)
        self._evaluated: tuple[int, float] | None = None  # steps and seconds of what is being evaluated
        self._run_state: RunState | None = None  # when its parameters were copied
        self._played: PlayedTask | None = None  # of it, until the disk takes the best policy
        self._started_s = self._not_before_s = self._next_try_s = 0.0
        self._is_stopped = False
        self._film_fault: str | None = None  # of the newest film
        self.result: EvaluatorResult | None = None
        self.fault: str | None = None

    def look(
        self, snapshot: Snapshot, steps: int, training_s: float, run_state: Callable[[], RunState]
    ) -> EvaluatorResult | None:
        """Begins an evaluation that is due, or takes in one that has ended. Returns `result` if it is new.

        Args:
            run_state: returns where the run stands. It is called when an evaluation begins.

        Raises:
            RunDirectoryError: the disk refuses a file. A later call tries again.
        """
        if self._is_stopped or time.monotonic() < self._next_try_s:
            return None
        try:
            if self._evaluated is None and self._is_due(steps, training_s):
                self._run_state = run_state()
                self._begin(snapshot, steps, training_s)
            if self._evaluated is None:
                return None
            self._played = self._played or self._player.result()
            if self._played is None:
                return None
            self._take(self._played, *self._evaluated)
        except EvaluationError as fault:
            self._fail(fault)
            return None
        except RunDirectoryError as fault:
            self._next_try_s = time.monotonic() + ROWS_RETRY_S
            if not may_pass(fault):
                self._evaluated = self._played = None
            raise
        return self.result

    @property
    def is_playing(self) -> bool:
        """Whether an evaluation has begun whose result nobody has taken."""
        return self._evaluated is not None

    def _is_due(self, steps: int, training_s: float) -> bool:
        every_s = self._run.evaluation_every_s
        every_steps = self._run.evaluation_every_steps
        return time.monotonic() >= self._not_before_s and bool(
            (every_steps and steps // every_steps > self._state.at_step // every_steps)
            or (every_s and training_s // every_s > self._state.at_s // every_s)
        )

    def _begin(self, snapshot: Snapshot, steps: int, training_s: float) -> None:
        write_checkpoint(self._task.checkpoint, (snapshot.acting or snapshot.state)(), PolicyState(steps))
        self._evaluated = (steps, training_s)
        self._started_s = time.monotonic()
        number = self._state.number
        every = self._run.film_every
        if every and number % every == 0:
            film = self._directory.filmed_file
        else:
            film = None
        self._task = replace(self._task, number=EVALUATOR_EVALUATIONS + number, film=film)
        self._player.begin(self._task)

    def _take(self, played: PlayedTask, step: int, at_s: float) -> None:
        rows = [
            f"{step},{at_s:.6f},{mode},{round(e.episode_return, 6)},{e.length}\n"
            for mode in MODES
            for e in played.by_mode[mode].episodes
        ]
        greedy, sampled = (
            statistics.fmean(e.episode_return for e in played.by_mode[mode].episodes) for mode in MODES
        )
        if self.kept is None or self.kept.best_return is None or sampled > self.kept.best_return:
            run = self._run_state
            agent = read_policy(self._task.checkpoint).agent
            seconds = run.seconds if run else {}
            returns = [episode.episode_return for episode in played.by_mode["sampled"].episodes]
            deviation = statistics.pstdev(returns)
            best = PolicyState(
                step, seconds, greedy, sampled, run, return_episodes=len(returns), return_deviation=deviation
            )
            write_checkpoint(self._directory.best_file, agent, best)
            self.kept = best
        self._evaluated = self._played = None
        self._file.append(("" if self._file.position else HEADER).encode() + "".join(rows).encode())
        self._state = EvaluatorState(self._state.number + 1, step, at_s, self._file.position)
        self._not_before_s = self._started_s + played.cpu_s / (
            self._run.evaluation_cpu_share * available_cores()
        )
        if self._task.film:
            self._keep_film(step, played.film_fault)
        assert self.kept.best_return is not None
        self.result = EvaluatorResult(step, greedy, sampled, self.kept.best_return, self.kept.steps)

    def _keep_film(self, step: int, fault: str | None) -> None:
        """Keeps a film, or tells of the first of several that are lost. fault: why there is none."""
        try:
            if fault is None:
                keep_film(self._directory, step)
        except OSError as error:
            fault = f"{shown(self._directory.films)}: {error.strerror}"
        if fault is not None and self._film_fault is None:
            self._on_event("film_lost", f"training goes on, but a film is lost: {fault}", error=fault)
        self._film_fault = fault

    def _fail(self, fault: EvaluationError) -> None:
        """The next evaluation has a new process, unless the fault is the user's, or there were too many."""
        log = self._directory.home / EVALUATOR_LOG
        allowance = self._allowance
        self._evaluated = self._played = None
        told = f"{datetime.now().astimezone():%Y-%m-%dT%H:%M:%S%z} {fault}\n{fault.trace}"
        with suppress(OSError), open_file(log, "ab") as file:
            file.write(told.encode(errors="backslashreplace"))
        facts = {"fault": str(fault), "trace": fault.trace}
        if not fault.is_users and allowance.take():
            place = f"a new one takes its place ({allowance.used} of {allowance.most} in an hour)"
            self._on_event("evaluator_replaced", f"the evaluator has failed: {fault}; {place}", **facts)
            return
        self.fault = str(fault)
        self.stop()
        self._on_event(
            "evaluator_failed", f"the evaluator has failed, training goes on: {fault} (see {log})", **facts
        )

    def stop(self) -> None:
        """Ends the evaluator. What is being played is lost."""
        if not self._is_stopped:
            self._is_stopped = True
            self._player.stop()
            for path in (self._task.checkpoint, self._directory.filmed_file):
                with suppress(OSError):  # on a read-only disk; a resume deletes them
                    path.unlink()

    def state(self) -> EvaluatorState:
        """For a checkpoint; writes the rows to the disk itself before (see `RowFile.sync`)."""
        self._file.sync()
        return replace(self._state, position=self._file.position)

    def close(self) -> None:
        """Ends the evaluator and closes its file."""
        try:
            self.stop()
        finally:
            self._file.close()
