"""Reads finished runs: our run directories, and folders with the monitor.csv of stable-baselines3. Imports no torch."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from a3c_zoo.comparison.curves import Curve
from a3c_zoo.comparison.monitors import monitor_files, read_monitor, read_monitors
from a3c_zoo.errors import RunDirectoryError, ZooError
from a3c_zoo.records import Evaluation, Outcome
from a3c_zoo.runs.directory import RunDirectory

#: How a run ends that has no figures of a whole one.
CUT_SHORT: Final = ("interrupted", "error")


@dataclass(frozen=True, slots=True)
class CheckpointEvaluation:
    """Episodes played with a checkpoint after training.

    Attributes:
        steps, training_s: agent steps and training seconds at which the checkpoint was made.
    """

    steps: int
    training_s: float
    evaluation: Evaluation


@dataclass(frozen=True, slots=True, eq=False)
class RunRecord:
    """One run, as it was read.

    Attributes:
        path: its directory.
        method: the agent's name, with `@zoo` where a library's algorithm was trained on the zoo's environments rather
            than on its own. Of runs that are not ours, what their folders are called.
        env: the environment's name; `gym:ID` where the zoo has no name for it.
        seed: None where it is not known.
        curve: every training episode.
        settings: every value of the configuration, "section.key" → value; empty for runs that are not ours.
        config_hash: of all settings but `run.seed`: equal for runs that differ in their seed alone. "" likewise.
        meta: meta.json: versions, host, command, started, plugins and more; {} likewise.
        outcome: None for a run that hasn't ended, and for those that are not ours.
        evaluations: of its checkpoints, where such were made.
    """

    path: Path
    method: str
    env: str
    seed: int | None
    curve: Curve
    settings: Mapping[str, Any] = field(default_factory=dict)
    config_hash: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)
    outcome: Outcome | None = None
    evaluations: tuple[CheckpointEvaluation, ...] = ()

    @property
    def is_ours(self) -> bool:
        """Whether a3c-zoo made it."""
        return bool(self.meta)

    @property
    def versions(self) -> Mapping[str, str]:
        """Package → version; {} for runs that are not ours."""
        versions: Mapping[str, str] = self.meta.get("versions", {})
        return versions


class LeftOut(NamedTuple):
    """A run that could not be used, and why in one line."""

    path: Path
    reason: str


def read_runs(
    paths: Iterable[str | Path], *, strict: bool = True, frame_skip: int | None = None
) -> tuple[list[RunRecord], list[LeftOut]]:
    """Reads every run that is or lies below one of `paths`, sorted by path within each; none is dropped in silence.

    Args:
        strict, frame_skip: see `read_run`.
    """
    runs, left_out, seen = [], [], set()
    for path in paths:
        try:
            folders = run_folders(Path(path))
        except RunDirectoryError as error:
            left_out.append(LeftOut(Path(path), str(error)))
            continue
        for folder in folders:
            if folder.resolve() in seen:  # named twice, it is still one run
                continue
            seen.add(folder.resolve())
            try:
                runs.append(read_run(folder, strict=strict, frame_skip=frame_skip))
            except RunDirectoryError as error:
                left_out.append(LeftOut(folder, str(error)))
    return runs, left_out


def run_folders(path: Path) -> list[Path]:
    """`path` itself if it is a run, otherwise all runs below it, sorted.

    Raises:
        RunDirectoryError: there is none.
    """
    if _is_run(path):
        return [path]
    marks = ("meta.json", "config.yml", "monitor.csv", "*.monitor.csv")
    found = sorted({each.parent for mark in marks for each in path.rglob(mark) if _is_run(each.parent)})
    if not found:
        what = "there is no such folder" if not path.is_dir() else "no run and no monitor.csv lies in it"
        raise RunDirectoryError(what)
    return found


def read_run(path: Path, *, strict: bool = True, frame_skip: int | None = None) -> RunRecord:
    """Reads a run directory, or a folder with monitors of stable-baselines3 (`monitor.csv`, `0.monitor.csv`, …).

    Args:
        strict: refuse runs of ours that haven't come to their end, and those of another version of a3c-zoo.
        frame_skip: for runs that are not ours, see `read_monitors`.

    Raises:
        RunDirectoryError: it cannot be used; the message says why, without the path.
    """
    try:
        return _read_ours(RunDirectory(path), strict) if _is_ours(path) else _read_monitors(path, frame_skip)
    except RunDirectoryError as error:
        text = str(error).removeprefix(f"{path}/").removeprefix(f"{path} ")
        raise RunDirectoryError(text) from error


def _is_run(path: Path) -> bool:
    return _is_ours(path) or bool(monitor_files(path))


def _is_ours(path: Path) -> bool:
    return (path / "meta.json").is_file() or ((path / "config.yml").is_file() and (path / "checkpoints").is_dir())


# Our own


def _read_ours(directory: RunDirectory, strict: bool) -> RunRecord:
    if not directory.meta_file.is_file():
        raise RunDirectoryError("incomplete: it has no meta.json")
    meta = directory.meta()
    if strict:
        _refuse_other_versions(meta)
        if directory.is_running():
            raise RunDirectoryError("still running")
    outcome, settings = directory.outcome(), _settings(directory.config_file)
    if strict:
        _refuse_unfinished(outcome)
    monitor = directory.path / "monitor.csv"
    if not monitor.is_file():
        raise RunDirectoryError("incomplete: it has no monitor.csv")
    _, table = read_monitor(monitor, ("r", "l", "t", "step"), torn_end=not strict)
    returns, lengths, seconds, steps = table.T
    return RunRecord(
        directory.path,
        _method(meta, settings),
        str(meta["env"]),
        settings.get("run.seed"),
        Curve.ordered(steps, seconds, returns, lengths),
        settings,
        config_hash(settings),
        meta,
        outcome,
        _evaluations(directory.path),
    )


def _refuse_other_versions(meta: Mapping[str, Any]) -> None:
    from a3c_zoo.version import __version__

    versions = meta.get("versions")
    made_by = versions.get("a3c-zoo") if isinstance(versions, dict) else None
    if made_by != __version__:
        raise RunDirectoryError(f"made by a3c-zoo {made_by or 'of an unknown version'}; this is {__version__}")


def _refuse_unfinished(outcome: Outcome | None) -> None:
    if outcome is None:
        raise RunDirectoryError("incomplete: it has no outcome.json, so it was killed")
    if outcome.reason in CUT_SHORT:
        last_line = outcome.detail.strip().rpartition("\n")[2]
        raise RunDirectoryError(f"incomplete: its end was '{outcome.reason}'" + (f", {last_line}" if last_line else ""))


def _settings(file: Path) -> dict[str, Any]:
    """Every value of a config.yml, "section.key" → value. Plugins that it names need not be installed."""
    from a3c_zoo.config.yaml import read_document

    if not file.is_file():
        raise RunDirectoryError("incomplete: it has no config.yml")
    try:
        document = read_document(file, file.name)
    except ZooError as error:
        raise RunDirectoryError(str(error)) from error
    sections = {name: keys for name, keys in document.data.items() if isinstance(keys, dict)}
    if document.faults or "run" not in sections:
        fault = document.faults[0].message if document.faults else "it has no section 'run'"
        raise RunDirectoryError(f"{file.name} is damaged: {fault}")
    return {f"{section}.{key}": value for section, keys in sections.items() for key, value in keys.items()}


def config_hash(settings: Mapping[str, Any]) -> str:
    """SHA-256 of all settings but the seed, in hexadecimal."""
    kept = {key: value for key, value in settings.items() if key != "run.seed"}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def _method(meta: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    from a3c_zoo.plugins.registry import get_registry

    name = str(meta["agent"])
    entry = get_registry().agents.get(name)
    has_own = entry is not None and "own" in entry.stacks
    return f"{name}@zoo" if has_own and settings.get("env.stack") == "zoo" else name


def _evaluations(path: Path) -> tuple[CheckpointEvaluation, ...]:
    from a3c_zoo.comparison.evaluating import EVALUATIONS_FILE, evaluations_of

    content = evaluations_of(path)
    if content is None:
        return ()
    try:
        found = [
            CheckpointEvaluation(each.pop("steps"), each.pop("training_s"), Evaluation(**each))
            for each in content["evaluations"]
        ]
    except (AttributeError, KeyError, TypeError) as error:
        raise RunDirectoryError(f"{EVALUATIONS_FILE} is damaged") from error
    found.sort(key=lambda each: (each.steps, each.evaluation.deterministic))
    if len({(each.steps, each.evaluation.deterministic) for each in found}) < len(found):
        raise RunDirectoryError(f"{EVALUATIONS_FILE} is damaged: it has checkpoints twice")
    return tuple(found)


# Those of stable-baselines3's users


def _read_monitors(path: Path, frame_skip: int | None) -> RunRecord:
    env_id, curve = read_monitors(path, frame_skip)
    method, number = _folder_names(path, env_id)
    return RunRecord(path, method, _env_name(env_id), number, curve)


def _folder_names(path: Path, env_id: str) -> tuple[str, int | None]:
    """Method and number of a run: `a2c_3` is `a2c` and 3; `a2c/CartPole-v1_3`, as RL Zoo has it, likewise."""
    path = path.resolve()
    name, _, number = path.name.rpartition("_")
    if not (name and number.isdecimal()):
        return path.name, None
    is_of_zoo = name == env_id.replace("/", "-") or name == env_id.partition("/")[2]
    return path.parent.name if is_of_zoo else name, int(number)


def _env_name(env_id: str) -> str:
    """The zoo's name of a Gymnasium id."""
    from a3c_zoo.plugins.registry import get_registry

    for entry in get_registry().envs.values():
        if entry.gym_id is not None and entry.gym_id.rpartition(":")[2] == env_id:
            return entry.name
    game = re.fullmatch(r"(\w+)NoFrameskip-v4", env_id)
    return f"atari:{re.sub(r'(?<!^)(?=[A-Z])', '_', game[1]).lower()}" if game else f"gym:{env_id}"
