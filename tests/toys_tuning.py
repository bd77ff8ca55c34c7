"""An engine that trains and evaluates in the process that asks, one job after the other: no job imports torch again.

`--plugin tests/toys_tuning.py --engine inline`. Each training adds a line to `trained.txt` of the current folder. With
`--engine-option ends_after=N` the whole process kills itself in its training number N, half-way.
"""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

from pydantic import Field

from a3c_zoo import EngineEntry, hookimpl
from a3c_zoo.cli.main import cli
from a3c_zoo.config import EngineConfig
from a3c_zoo.engines import Engine, JobProgress, TrainingJob
from a3c_zoo.errors import ZooError, first_line
from a3c_zoo.runs.evaluate_checkpoints import missing_tasks
from a3c_zoo.runs.evaluation import play_task
from a3c_zoo.store.checkpoint_evaluations import CheckpointEvaluation, keep_evaluations

#: Agent steps of a whole run, and its rungs: 160 is one rollout of cartpole's a3c.
STEPS, RUNGS = 1440, [160, 480, 1440]
SPACE = "search:\n  agent.gamma: {uniform: [0.9, 0.99]}\n  optimizer.learning_rate: {log: [1e-4, 1e-2]}\n"


class InlineConfig(EngineConfig):
    """Its settings."""

    ends_after: int = Field(0, description="trainings until the process kills itself; 0: never")
    stops_in: int = Field(0, description="the training in which the user presses Ctrl-C; 0: none")
    faults: bool = Field(False, description="whether no training can be made")


class Inline(Engine):
    """The engine."""

    slots = 1

    def __init__(self, settings: InlineConfig | None = None) -> None:
        self._settings, self._count = settings or InlineConfig(), 0

    def train(self, job: TrainingJob, tell: Callable[[JobProgress | None], None]) -> str | None:
        with Path("trained.txt").open("a") as file:
            file.write(f"{job.name} {job.command.steps} {'resumes' if job.resumes else 'begins'}\n")
        self._count += 1
        if self._count == self._settings.stops_in:
            raise KeyboardInterrupt
        words = job.arguments(job.runs_dir)
        if self._settings.faults:
            words += ["-o", "agent.n_steps=0"]
        is_last = self._count == self._settings.ends_after
        if is_last:  # half of it, or one rollout
            words += ["--steps", str((job.command.steps or 0) // 2)]
        try:
            with redirect_stdout(io.StringIO()):
                cli.main(words if job.resumes else [*words, "--serial"], prog_name="a3c-zoo", standalone_mode=False)
        except ZooError as error:
            return first_line(error)
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)
        return None

    def evaluate(self, runs, episodes, on_played, give_sign):
        # In this process, which takes less time.
        for run in runs:
            for step, task in missing_tasks(run, episodes).items():
                played = play_task(task, lambda count: None)
                found = [
                    CheckpointEvaluation(step, played.training_s or 0.0, played.by_mode[mode].evaluation())
                    for mode in task.modes
                ]
                keep_evaluations(run, episodes, found, task.config.run.seed)
        return {}

    def stop(self) -> None:
        pass


@hookimpl
def zoo_engines() -> list[EngineEntry]:
    return [EngineEntry("inline", f"{__name__}:Inline", f"{__name__}:InlineConfig", "in this process")]
