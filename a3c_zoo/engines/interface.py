"""The interface of engines, and the job that each one runs.

A job has a resolved configuration, and ends as a finished run directory.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from a3c_zoo.config.sets import names_set
from a3c_zoo.config.train_command import TrainCommand
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.runs.evaluate_checkpoints import evaluate_runs
from a3c_zoo.store.directory import describe_host

#: The most bytes of environment and method in a run's name: a method's name can be all its settings.
LONGEST_STEM: Final = 100


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """One training.

    Attributes:
        command: what the training is given: environment, agent, seed, budget, set and single values.
        workers: of the training; they take a core each.
        runs_dir: the folder that the run directory `name` comes to lie in.
        resumes: the run directory is there; the training goes on from its newest checkpoint, up to the job's budget.
    """

    command: TrainCommand
    workers: int
    runs_dir: Path
    name: str
    resumes: bool = False

    @property
    def path(self) -> Path:
        """The run directory."""
        return self.runs_dir / self.name

    @property
    def hyperparams_file(self) -> Path | None:
        """The file that the command names, which another machine does not have; None for a set, or without one."""
        text = self.command.hyperparams
        if text is None or self.resumes or names_set(get_registry(), text):
            return None
        return Path(text)

    def with_hyperparams_file(self, path: Path) -> Self:
        """The same training, with its `hyperparams_file` at another path."""
        return replace(self, command=replace(self.command, hyperparams=str(path)))

    def __str__(self) -> str:
        return f"{self.command.agent} on {self.command.env}, seed {self.command.seed}"

    def arguments(self, runs_dir: Path) -> list[str]:
        """All arguments of `a3c-zoo`, for a machine where the folder of runs has this path."""
        if self.resumes:
            words = [*self.command.limits(), "--resume", str(runs_dir / self.name)]
        else:
            words = [*self.command.words(), "--name", self.name]
        return ["train", *words, "--quiet", "--runs-dir", str(runs_dir)]


@dataclass(frozen=True, slots=True)
class JobProgress:
    """How far a training is: agent steps, training seconds, mean return of its last 100 episodes."""

    steps: int
    training_s: float
    mean_return: float


class Engine(ABC):
    """Runs jobs. It is a context manager; its end closes it."""

    @property
    @abstractmethod
    def slots(self) -> int:
        """How many trainings can run at once, 1 or more."""

    @abstractmethod
    def train(self, job: TrainingJob, tell: Callable[[JobProgress | None], None]) -> str | None:
        """Runs a training to its end. With several slots, threads call it side by side.

        Args:
            tell: is called about once a second, with None before the first episode has ended.

        Returns:
            Why the run has no figures; None if its finished directory lies at `job.path`, with its timing.json.

        Raises:
            KeyboardInterrupt: in the main thread, on Ctrl-C; the run has saved its state and stopped.
        """

    def evaluate(
        self,
        runs: Sequence[Path],
        episodes: int,
        on_played: Callable[[int, int], None],
        give_sign: Callable[[], None],
    ) -> dict[Path, str]:
        """Lets the checkpoints of runs play, and keeps the results in each run's evaluations.json.

        By default they play on this machine, with a process per core.

        Args:
            runs: run directories. episodes: how many each of ten checkpoints plays in both modes.
            on_played: called with the number of checkpoints that were played, and of all.
            give_sign: called several times a second.

        Returns:
            Run → reason, for each run that failed.
        """
        return evaluate_runs(runs, episodes, on_played, give_sign=give_sign)

    def host(self) -> Mapping[str, Any] | None:
        """The machines that train, as `meta.json` has them (`host` and `versions`); None: they equal this machine."""
        return None

    def notes(self) -> Sequence[str]:
        """What a report says of the machines, a sentence each, such as which of them got no job."""
        return ()

    @abstractmethod
    def stop(self) -> None:
        """Ends all jobs in order, and refuses new ones. Called from another thread than `train`, which then returns."""

    def close(self) -> None:  # noqa: B027
        """Ends what the engine has started."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def new_run_name(env: str, method: str, seed: int) -> str:
    """A name for a run's directory. With its microseconds, another comparison does not choose it in the same second."""
    stem = re.sub(r"[^\w.+=@-]", "_", f"{env}-{method}")
    short = stem.encode()[:LONGEST_STEM].decode(errors="ignore")
    return f"{short}-s{seed}-{datetime.now():%Y%m%d-%H%M%S-%f}"


def machine_and_versions() -> dict[str, Any]:
    """This machine and its versions of software, as `meta.json` has them; see `Engine.host`."""
    return describe_host()
