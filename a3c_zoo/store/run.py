"""A run directory as it is read, and how runs are found."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from a3c_zoo.cures import DISTRIBUTION
from a3c_zoo.errors import RunDirectoryError, ZooError, did_you_mean, printable
from a3c_zoo.files import (
    MAX_TABLE,
    fields_of,
    open_file,
    other_format,
    read_bytes,
    read_json,
    shown,
    why_closed,
)
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.records import Evaluation, Outcome
from a3c_zoo.store.checkpoint_evaluations import CheckpointEvaluation, evaluations_of
from a3c_zoo.store.command_lines import command_of
from a3c_zoo.store.directory import DEFAULT_RUNS_DIR, RUN_FORMAT, RunDirectory, run_paths, why_not_own
from a3c_zoo.store.needed_plugins import give_again, no_longer_offered, not_given, what_is_missing
from a3c_zoo.store.run_files import META_JSON, MONITOR_CSV, PARAMETERS, PULLED_JSON
from a3c_zoo.store.timing_file import Timing, timing_of, torch_threads_of, vec_env_choice_of, vec_env_of
from a3c_zoo.version import __version__

if TYPE_CHECKING:
    from a3c_zoo.config import Config
    from a3c_zoo.plugins.registry import Registry

#: Begins the name of a row among those of the machine: what stepped the environments of an agent.
VEC_ENV_OF: Final = "vec_env of "
#: Keys of meta.json, and the type of their values.
_META_TYPES: Final = {
    "env": str,
    "agent": str,
    "serial": bool,
    "seed": int,
    "started": str,
    "init_from": dict,
    "given_env": str,
    "checkpoint": str,
    "command": list,
    "plugin_files": list,
    "plugins": dict,
    "versions": dict,
    "host": dict,
    "sources": dict,
}


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One line of `a3c-zoo list runs`."""

    name: str
    path: Path
    env: str
    agent: str
    seed: int | None
    status: str
    steps: int | None
    mean_return_100: float | None
    solved: bool | None
    started: str


#: Statuses of runs whose files tell nothing.
UNREADABLE: Final = ("damaged", "newer")


class NewerRunError(RunDirectoryError):
    """A run of a newer version, in a format that this one does not know."""


class Run(RunDirectory):
    """A run directory as it is read: each file once, when it is first asked for. To see a change, make another `Run`.

    A damaged file raises RunDirectoryError. So does one that is missing, but for `outcome` and `timing`, which are None
    then, and `evaluations`, which are none. A damaged timing.json counts as missing.

    Attributes:
        is_trusted: whether its configuration may name modules to import and run hooks, see `find_run`.
        doubt: why not.
    """

    def __init__(self, path: Path, is_trusted: bool = False, doubt: str = "") -> None:
        super().__init__(path)
        self.is_trusted = is_trusted
        self.doubt = doubt

    @cached_property
    def meta(self) -> dict[str, Any]:
        """The contents of meta.json.

        Raises:
            NewerRunError: a newer version wrote it.
            RunDirectoryError: it is missing, damaged or of another format; or a folder of the run is a link, through
                which files elsewhere would be read and written.
        """
        try:
            meta = read_json(self.meta_file)
            run_format = meta["format"]
        except (OSError, ValueError, KeyError) as error:
            raise RunDirectoryError(
                f"{self.path} is no run directory: {self.meta_file.name} cannot be read"
            ) from error
        of_other_format = f"{self.path} has run format {other_format(run_format, RUN_FORMAT)}"
        if isinstance(run_format, int) and run_format > RUN_FORMAT:  # its keys may be others
            raise NewerRunError(of_other_format)
        if missing := [key for key in ("env", "agent", "serial") if key not in meta]:
            raise RunDirectoryError(
                f"{shown(self.meta_file)} is damaged: it has no {' and no '.join(missing)}"
            )
        if run_format != RUN_FORMAT:
            raise RunDirectoryError(of_other_format)
        for key, kind in _META_TYPES.items():
            if not isinstance(meta.get(key, kind()), kind):
                raise RunDirectoryError(
                    f"{shown(self.meta_file)} is damaged: its {key} is no {kind.__name__}"
                )
        self._refuse_linked_folders()
        return meta

    def _refuse_linked_folders(self) -> None:
        """Raises RunDirectoryError if a folder of the run is a link, or no folder."""
        for folder in map(shown, (self.checkpoints, self.films, self.home / "tensorboard")):
            if folder.is_symlink():
                raise RunDirectoryError(
                    f"{folder} is a link, and links are not followed; put the folder itself there"
                )
            if os.path.lexists(folder) and not folder.is_dir():
                raise RunDirectoryError(f"{folder} is damaged: it is no folder")

    @cached_property
    def outcome(self) -> Outcome | None:
        """How the run ended; None if it has no outcome.json."""
        return self.outcome_in(self.outcome_file)

    def outcome_in(self, path: Path) -> Outcome | None:
        """Reads a file such as outcome.json; None if there is no such file."""
        if not os.path.lexists(path):
            return None
        try:
            content = read_json(path)
            evaluation = content.pop("evaluation")
            if evaluation is None:
                played = None
            else:
                played = Evaluation(**fields_of(Evaluation, evaluation))
            return Outcome(self.path, evaluation=played, **fields_of(Outcome, content))
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise RunDirectoryError(f"{shown(path)} is damaged: {error}") from error

    @cached_property
    def config_content(self) -> bytes:
        """The bytes of config.yml, or as many of them as are too many."""
        from a3c_zoo.config.yaml import MAX_BYTES  # pydantic: a listing needs none

        if not os.path.lexists(self.config_file):
            raise RunDirectoryError("incomplete: it has no config.yml")
        try:
            with open_file(self.config_file) as file:
                return file.read(MAX_BYTES + 1)
        except OSError as error:
            text = f"{self.config_file.name} is damaged: cannot be read: {error.strerror or error}"
            raise RunDirectoryError(text) from error

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Every value of config.yml, "section.key" → value. The plugins that it names need not be installed."""
        from a3c_zoo.config.yaml import parse_document

        name = self.config_file.name
        document = parse_document(self.config_content, name)
        sections = {section: keys for section, keys in document.data.items() if isinstance(keys, dict)}
        if document.faults or "run" not in sections:
            if document.faults:
                fault = document.faults[0].message
            else:
                fault = "it has no section 'run'"
            raise RunDirectoryError(f"{name} is damaged: {fault}")
        if not isinstance(sections["run"].get("seed"), int):
            raise RunDirectoryError(f"{name} is damaged: run.seed is no whole number")
        for key in ("steps", "episodes", "time_limit_s"):
            if not isinstance(sections["run"].get(key), int | float | None):
                raise RunDirectoryError(f"{name} is damaged: run.{key} is no number")
        return flattened(sections)

    @cached_property
    def timing(self) -> Timing | None:
        """The contents of timing.json; None if there is none, or a damaged one."""
        return timing_of(self.path)

    @cached_property
    def evaluations(self) -> tuple[CheckpointEvaluation, ...]:
        """What its checkpoints played after training; see `evaluations_of`."""
        return evaluations_of(self.path)

    @cached_property
    def is_alive(self) -> bool:
        """Whether a process held its lock when this was first asked, see `is_running`."""
        return self.is_running()

    @cached_property
    def torch_threads(self) -> int | None:
        """With how many threads of torch its agent computed; None if the agent has no such setting."""
        if self.timing:
            return self.timing.torch_threads
        return torch_threads_of(self.path, self.settings)

    @cached_property
    def vec_env(self) -> str | None:
        """What stepped the environments of a library's algorithm; see `vec_env_of`."""
        if self.timing and self.timing.vec_env:
            return self.timing.vec_env
        return vec_env_of(self.path, self.settings)

    @property
    def vec_env_choice(self) -> str:
        """See `vec_env_choice_of`."""
        return vec_env_choice_of(self.path, self.settings)

    @property
    def seed(self) -> int:
        """The seed of its configuration."""
        seed: int = self.settings["run.seed"]
        return seed

    @property
    def method(self) -> str:
        """See `method_name`. Printable."""
        meta = self.meta
        return printable(method_name(meta["agent"], self.settings.get("env.stack"), meta.get("init_from")))

    @property
    def versions(self) -> dict[str, str]:
        """Package → version. Printable."""
        return _texts(self.meta.get("versions"))

    @property
    def host(self) -> dict[str, str]:
        """The machine; the threads of torch and the vector environment, if the agent has them. Printable."""
        host = _texts(self.meta.get("host"))
        if self.torch_threads is not None:
            host[printable(f"torch threads of {self.meta['agent']}")] = str(self.torch_threads)
        if self.vec_env is not None:
            host[printable(f"{VEC_ENV_OF}{self.meta['agent']}")] = self.vec_env
        return host

    @property
    def command(self) -> tuple[str, ...]:
        """The words of the command that made the run; none if no command of a3c-zoo did. Printable."""
        return tuple(map(printable, command_of(self.meta)))

    @property
    def status(self) -> str:
        """`damaged`, `newer` (only a newer a3c-zoo reads it), `pulled`, `running`, `died`, or the reason of its end."""
        try:
            self.meta  # noqa: B018 — raises if it is damaged
            is_alive = self.is_alive  # before the outcome: a run can end meanwhile
            outcome = self.outcome
        except NewerRunError:
            return "newer"
        except RunDirectoryError:
            return "damaged"
        if os.path.lexists(self.path / PULLED_JSON):
            return "pulled"
        if is_alive:
            return "running"
        return outcome.reason if outcome else "died"

    @property
    def summary(self) -> RunSummary:
        """The line of the run, also of one that cannot be read."""
        status = self.status
        is_unreadable = status in UNREADABLE
        meta: Mapping[str, Any] = {}
        with suppress(RunDirectoryError):  # another file may be damaged, and not this one
            meta = self.meta
        outcome = None if is_unreadable else self.outcome
        ended: bool | None = os.path.exists(self.solved_file) or None
        if outcome:
            ended = outcome.solved
        return RunSummary(
            name=self.path.name,
            path=self.path,
            env=meta.get("env", "?"),
            agent=meta.get("agent", "?"),
            seed=meta.get("seed"),
            status=status,
            steps=outcome.steps if outcome else None,
            mean_return_100=outcome.mean_return_100 if outcome else None,
            solved=None if status in ("pulled", *UNREADABLE) else ended,
            started=meta.get("started", ""),
        )

    @property
    def says_nothing(self) -> bool:
        """Whether a run without figures is no lost run of its method: somebody ended it, or it never trained.

        A run that ended without a step never trained. A run that was killed may have made steps that no file counts,
        so it never trained only if its first checkpoint is missing, which is written when training begins. A run
        without a directory was refused before it began, or lost with the machine that trained it. A trained agent
        without its run, such as a pulled one, is no run.
        """
        if not os.path.lexists(self.path) or self.is_agent_alone:
            return True
        try:
            outcome = self.outcome
        except RunDirectoryError:
            return False
        if outcome is None:  # it was killed
            return not (self.has_episodes() or self._has_checkpoint())
        return outcome.reason == "interrupted" or not outcome.steps

    @property
    def is_agent_alone(self) -> bool:
        """Whether it is a trained agent's folder, without the run: one that was pulled, or `save_trained` wrote."""
        return any(os.path.lexists(self.path / name) for name in (PULLED_JSON, PARAMETERS))

    def _has_checkpoint(self) -> bool:
        from a3c_zoo.store.checkpoints import checkpoint_steps  # pydantic: a listing needs none

        return bool(checkpoint_steps(self))

    def has_episodes(self) -> bool:
        """Whether it has ended a training episode, as far as its monitor.csv can be read."""
        try:
            return read_bytes(self.path / MONITOR_CSV, MAX_TABLE).count(b"\n") > 2
        except OSError:
            return False

    def config(
        self,
        registry: Registry,
        flags: Mapping[str, tuple[Any, str]] | None = None,
        with_hooks: bool = False,
        in_its_env: bool = True,
    ) -> Config:
        """The run's configuration, to play with, or to go on training (`with_hooks`).

        Args:
            flags: "section.key" → a value that replaces it, and the flag that gave it.
            in_its_env: whether the registry must know the run's own environment, if a program gave it; for the values
                alone, any of its name does.

        Raises:
            ZooError: it is damaged; or it names a module to import, or run hooks, and the run is not trusted;
                or a plugin that it needs is not there.
        """
        from a3c_zoo.config.sets import load_config

        meta = self.meta
        is_needed = in_its_env or meta["env"] not in registry.envs
        if is_needed and not give_again(self.home, meta, registry, self.is_trusted):
            raise not_given(self.home.name, meta, self.is_trusted, self.doubt)
        try:
            return load_config(self.config_file, registry, flags, self.is_trusted, self.doubt, with_hooks)
        except ZooError as error:
            if missing := what_is_missing(self.home.name, meta, registry, self.is_trusted):
                raise missing from error
            with suppress(RunDirectoryError):  # config.yml is damaged, as `error` says
                settings = self.settings
                if renamed := no_longer_offered(self.home.name, meta, settings, registry, self.is_trusted):
                    raise renamed from error
            if self._is_of_newer_version():
                fault = str(error).rstrip(".")
                made_by = f"a3c-zoo {self.versions[DISTRIBUTION]} made the run, and this is {__version__}"
                raise RunDirectoryError(f"{fault}. {made_by}: upgrade it") from error
            raise

    def _is_of_newer_version(self) -> bool:
        from packaging.version import InvalidVersion, Version

        try:
            return Version(self.versions[DISTRIBUTION]) > Version(__version__)
        except (KeyError, InvalidVersion):
            return False


def _texts(values: Any) -> dict[str, str]:
    pairs = values.items() if isinstance(values, dict) else ()
    return {printable(str(name)): printable(str(value)) for name, value in pairs}


def flattened(document: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a configuration in sections, "section.key" → value. Keys are printable."""
    sections = {name: keys for name, keys in document.items() if isinstance(keys, dict)}
    pairs = ((f"{name}.{key}", value) for name, keys in sections.items() for key, value in keys.items())
    return {printable(key): value for key, value in pairs}


def method_name(agent: str, stack: str | None, init_from: Mapping[str, Any] | None = None) -> str:
    """The name of a run's method: the agent's, with `@zoo` for a library's algorithm on the zoo's environments.

    stack: the value of `env.stack`: whose environments the agent was trained on. init_from: what it began with.
    """
    entry = get_registry().agents.get(agent)
    if entry is not None and "own" in entry.stacks and stack == "zoo":
        name = f"{agent}@zoo"
    else:
        name = agent
    if init_from is None:
        return name
    return f"{name} from {init_from.get('name')}"


def find_run(run: str | Path, runs_dir: Path = DEFAULT_RUNS_DIR, trust: bool = False) -> Run:
    """Returns the directory of a run given by its path, or by its name within `runs_dir`.

    Args:
        trust: whether its configuration may name modules to import and run hooks, even if the run is not
            one's own (`why_not_own`).

    Raises:
        RunDirectoryError: there is none, with the nearest name; or the user may not look into it.
    """
    if run == "":  # a variable of the shell that is not set; as a path it would be the current folder
        raise RunDirectoryError("the name of a run is empty. See: a3c-zoo list runs")
    for path in (Path(run), runs_dir / run):
        if os.path.isfile(path / META_JSON):  # False also for a name that no file can have
            doubt = why_not_own(path, runs_dir)
            return Run(path, trust or not doubt, doubt)
    if closed := why_closed(Path(run)) or why_closed(runs_dir / run):
        raise RunDirectoryError(closed)
    if os.path.isdir(run):
        raise RunDirectoryError(f"{run} is no run directory: it has no meta.json")
    names = [path.name for path in run_paths(runs_dir)]
    raise RunDirectoryError(
        f"no run '{run}' here or in {runs_dir}.{did_you_mean(str(run), names)} See: a3c-zoo list runs"
    )


def list_runs(runs_dir: Path = DEFAULT_RUNS_DIR) -> list[RunSummary]:
    """Summaries of the runs in a directory, oldest first; one that cannot be read is listed as such, never left out."""
    return sorted((Run(path).summary for path in run_paths(runs_dir)), key=lambda run: moment_of(run.started))


def moment_of(started: str) -> float:
    """The seconds of a start in meta.json, to compare it with those of other time zones; -inf for a damaged text."""
    with suppress(ValueError, OverflowError, OSError):
        return datetime.fromisoformat(started).timestamp()
    return float("-inf")
