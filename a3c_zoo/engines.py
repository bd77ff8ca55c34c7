"""What runs jobs: the interface of engines. A plugin offers one as `EngineEntry`, by the hook `zoo_engines`.

A job has a resolved configuration and ends as a finished run directory. Jobs do not depend on each other. `local`, one
training after the other on this machine, is an engine like those of plugins.
"""

from __future__ import annotations

import importlib
import itertools
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from a3c_zoo.config import Config

__all__ = ["Engine", "JobProgress", "TrainingJob", "local_engine", "machine_and_versions", "new_run_name"]


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """One training.

    Attributes:
        config: that of the whole run. Each of its workers (`run.workers`) needs a core.
        runs_dir: the folder that the run directory `name` comes to lie in.
        options: the arguments of `a3c-zoo train` that make this configuration, without those that name directories.
        resumes: the run directory is there; the training goes on from its newest checkpoint.
    """

    config: Config
    runs_dir: Path
    name: str
    options: tuple[str, ...]
    resumes: bool = False

    @property
    def path(self) -> Path:
        """The run directory."""
        return self.runs_dir / self.name

    @property
    def hyperparams_file(self) -> Path | None:
        """The file that `--hyperparams` names, which another machine does not have; None for a set, or without one."""
        text = dict(itertools.pairwise(self.options)).get("--hyperparams")
        sets, plugins = map(importlib.import_module, ("a3c_zoo.config.sets", "a3c_zoo.plugins.registry"))  # rooms above
        return None if text is None or sets.names_set(plugins.get_registry(), text) else Path(text)

    def with_hyperparams_file(self, path: Path) -> Self:
        """The same training, with its `hyperparams_file` at another path."""
        place = self.options.index("--hyperparams") + 1
        return replace(self, options=(*self.options[:place], str(path), *self.options[place + 1 :]))

    def __str__(self) -> str:
        return f"{self.config.agent_name} on {self.config.env_name}, seed {self.config.run.seed}"

    def arguments(self, runs_dir: Path) -> list[str]:
        """All arguments of `a3c-zoo`, for a machine where the folder of runs has this path."""
        where = ["--resume", str(runs_dir / self.name)] if self.resumes else ["--name", self.name]
        return ["train", *self.options, *where, "--quiet", "--runs-dir", str(runs_dir)]


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
        evaluations = importlib.import_module("a3c_zoo.comparison.evaluations")  # of a room above
        faults: dict[Path, str] = evaluations.evaluate_runs(runs, episodes, on_played, give_sign=give_sign)
        return faults

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
    return re.sub(r"[^\w.+=@-]", "_", f"{env}-{method}-s{seed}-{datetime.now():%Y%m%d-%H%M%S-%f}")


def local_engine() -> Engine:
    """The engine `local`; an engine of other machines can run its jobs there with it."""
    engine: Engine = importlib.import_module("a3c_zoo.comparison.local_engine").LocalEngine()  # of a room above
    return engine


def machine_and_versions() -> dict[str, Any]:
    """This machine and its versions of software, as `meta.json` has them; see `Engine.host`."""
    described: dict[str, Any] = importlib.import_module("a3c_zoo.runs.directory").describe_host()
    return described
