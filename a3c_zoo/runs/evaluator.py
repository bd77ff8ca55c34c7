"""The evaluator beside training: when it plays, what is kept of it, and the best policy so far.

It acts with copies of the parameters, on seeds of its own, and keeps to a share of the cores: an evaluation that took
c CPU seconds is followed by none until c / (share · cores) seconds after its start. A fault ends it, not training.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from a3c_zoo.hardware import available_cores
from a3c_zoo.records import EvaluatorResult, Snapshot
from a3c_zoo.runs.checkpoints import best_file, read_checkpoint, write_checkpoint
from a3c_zoo.runs.directory import disk_errors
from a3c_zoo.runs.evaluation import MODES, EvaluationTask, PlayedTask, StopEvaluationError, play_task
from a3c_zoo.runs.evaluation_process import EvaluationFault, EvaluationProcess
from a3c_zoo.runs.recorder import Table
from a3c_zoo.seeds import EVALUATOR_EVALUATIONS

if TYPE_CHECKING:
    from pathlib import Path

    from a3c_zoo.config import RunConfig
    from a3c_zoo.runs.clock import Clock
    from a3c_zoo.runs.directory import RunDirectory

HEADER = "step,seconds,mode,return,length\n"


def copy_file(directory: RunDirectory) -> Path:
    """Where the policy lies that is being evaluated."""
    return directory.checkpoints / ".evaluated.pt"


class EvaluationInTurn:
    """Plays in this process while training waits, for the serial runner. The time counts as evaluation.

    Args:
        on_step: as `play_all` has it; may raise StopEvaluationError, upon which there is no result.
    """

    def __init__(self, clock: Clock, on_step: Callable[[int], None]) -> None:
        self._clock, self._on_step = clock, on_step
        self._played: PlayedTask | None = None

    def begin(self, task: EvaluationTask) -> None:
        """Plays it all. Raises EvaluationFault for any error of the environment or the network."""
        self._played = None
        try:
            with self._clock.during("evaluation"):
                self._played = replace(play_task(task, self._on_step), cpu_s=0.0)  # training waits: no share is taken
        except StopEvaluationError:
            return
        except Exception as error:
            raise EvaluationFault.of(error) from error

    def result(self) -> PlayedTask | None:
        """What `begin` played; None where it was stopped."""
        return self._played

    def stop(self) -> None:
        """Nothing lives on."""


class Evaluator:
    """Decides when to evaluate, and records what was played.

    Args:
        task: the evaluation to repeat, with the number of the first. player: plays it.
        saved: what `state_dict` returned, to go on from.

    Attributes:
        result: the newest, None before the first. fault: why it has come to an end, None while it has not.
    """

    def __init__(
        self,
        directory: RunDirectory,
        task: EvaluationTask,
        player: EvaluationProcess | EvaluationInTurn,
        saved: Mapping[str, Any] | None,
    ) -> None:
        self._directory, self._task, self._player = directory, task, player
        self._run: RunConfig = task.config.run
        self._number: int = saved["number"] if saved else 0
        self._at_step: int = saved["at_step"] if saved else 0
        self._at_s: float = saved["at_s"] if saved else 0.0
        self._table = Table(directory.path / "evaluations.csv", saved["position"] if saved else None)
        self._best: tuple[float, int] | None = None
        if (path := best_file(directory)).exists():  # of a run that is resumed; it may be younger than its checkpoint
            best = read_checkpoint(path)["session"]
            self._best = best["sampled_return"], best["steps"]
        self._evaluated: tuple[int, float] | None = None  # steps and seconds of what is being evaluated
        self._started_s = self._not_before_s = 0.0
        self._is_stopped = False
        self.result: EvaluatorResult | None = None
        self.fault: str | None = None

    def look(self, snapshot: Snapshot, steps: int, training_s: float) -> bool:
        """Begins an evaluation that is due, or takes in one that has ended. Returns whether `result` is new."""
        if self._is_stopped:
            return False
        try:
            if self._evaluated is None and self._is_due(steps, training_s):
                self._begin(snapshot, steps, training_s)
            if self._evaluated is None or (played := self._player.result()) is None:
                return False
        except EvaluationFault as fault:
            self._give_up(fault)
            return False
        self._take(played, *self._evaluated)
        return True

    def _is_due(self, steps: int, training_s: float) -> bool:
        every_s, every_steps = self._run.evaluation_every_s, self._run.evaluation_every_steps
        return time.monotonic() >= self._not_before_s and bool(
            (every_steps and steps // every_steps > self._at_step // every_steps)
            or (every_s and training_s // every_s > self._at_s // every_s)
        )

    def _begin(self, snapshot: Snapshot, steps: int, training_s: float) -> None:
        agent_state = (snapshot.acting or snapshot.state)()
        write_checkpoint(copy_file(self._directory), {"agent": agent_state, "session": {"steps": steps}})
        self._evaluated, self._started_s = (steps, training_s), time.monotonic()
        self._player.begin(replace(self._task, number=EVALUATOR_EVALUATIONS + self._number))

    def _take(self, played: PlayedTask, step: int, at_s: float) -> None:
        self._evaluated = None
        rows = [
            f"{step},{at_s:.6f},{mode},{round(e.episode_return, 6)},{e.length}\n"
            for mode in MODES
            for e in played.episodes[mode]
        ]
        greedy, sampled = (statistics.fmean(e.episode_return for e in played.episodes[mode]) for mode in MODES)
        if self._best is None or sampled > self._best[0]:
            content = read_checkpoint(copy_file(self._directory))
            content["session"] |= {"greedy_return": greedy, "sampled_return": sampled}
            write_checkpoint(best_file(self._directory), content)
            self._best = sampled, step
        self._table.append("".join(rows) if self._table.position else HEADER + "".join(rows))
        self._number, self._at_step, self._at_s = self._number + 1, step, at_s
        self._not_before_s = self._started_s + played.cpu_s / (self._run.evaluation_cpu_share * available_cores())
        self.result = EvaluatorResult(step, greedy, sampled, *self._best)

    def _give_up(self, fault: EvaluationFault) -> None:
        self.fault = str(fault)
        self.stop()
        log = self._directory.path / "evaluator.log"
        with disk_errors(log, "write"), log.open("a", encoding="utf-8") as file:
            file.write(f"{datetime.now().astimezone():%Y-%m-%dT%H:%M:%S%z} {fault}\n{fault.trace}")

    def stop(self) -> None:
        """Ends it; what is being played is lost."""
        if not self._is_stopped:
            self._is_stopped = True
            self._player.stop()
            copy_file(self._directory).unlink(missing_ok=True)

    def sync(self) -> None:
        """Its rows to the disk itself; see `Table.sync`."""
        self._table.sync()

    def close(self) -> None:
        """Ends it, and closes its file."""
        try:
            self.stop()
        finally:
            self._table.close()

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {
            "number": self._number,
            "at_step": self._at_step,
            "at_s": self._at_s,
            "position": self._table.position,
        }
