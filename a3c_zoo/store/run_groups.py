"""Runs from several folders: those on the environments that are asked for, and a name for each group of runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from a3c_zoo.errors import RunDirectoryError, ZooError, printable
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.plugins.typed_names import quiet_env_name
from a3c_zoo.store.foreign_runs import GYM_ID, UNKNOWN_ENV, name_of_id
from a3c_zoo.store.run import Run
from a3c_zoo.store.run_records import RunRecord


def on_envs(runs: Sequence[RunRecord], envs: Sequence[str], option: str) -> list[RunRecord]:
    """The runs on these environments, named as in the zoo or by Gymnasium's id; all runs if no environment is named.

    A name that runs have is that, also if it looks like an id, as a plugin's `maze-v2` does. A run that does not name
    its environment is taken to be on the only one.

    Raises:
        ZooError: an environment has no run. option: the one that named it.
    """
    runs = [replace(run, env=one_name(run.env)) for run in runs]
    known = {run.env for run in runs}
    registry = get_registry()
    envs = [env if env in known else quiet_env_name(registry, env) for env in envs]
    names = [name_of_id(env) if env not in known and GYM_ID.fullmatch(env) else one_name(env) for env in envs]
    names = list(dict.fromkeys(names))
    if len(names) == 1:
        runs = [replace(run, env=names[0]) if run.env == UNKNOWN_ENV else run for run in runs]
    there = dict.fromkeys(run.env for run in runs)
    if missing := [name for name in names if name not in there]:
        raise ZooError(
            f"{option}: there is no run on '{missing[0]}'; there are: {', '.join(there) or 'none'}"
        )
    return [run for run in runs if not names or run.env in names]


def one_name(env: str) -> str:
    """The zoo's name of an environment that is named by Gymnasium's id: `gym:CartPole-v1` is `cartpole`."""
    prefix, _, env_id = env.partition(":")
    if prefix == "gym" and GYM_ID.fullmatch(env_id):
        return name_of_id(env_id)
    return env


def unread_on(unread: Mapping[Path, str], envs: Collection[str]) -> dict[Path, str]:
    """Of run → why it could not be read: the runs on these environments, and those that do not name theirs."""

    def env_of(path: Path) -> str | None:
        with suppress(RunDirectoryError):  # its meta.json is damaged, or it is another program's
            return one_name(printable(Run(path).meta["env"]))
        return None

    return {path: reason for path, reason in unread.items() if env_of(path) in (None, *envs)}


def told_apart(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """The same runs. A method with runs on one environment in several folders is one in each: `ppo (old)`, `ppo (new)`.

    Folders that hold different environments are no reason to split a method.
    """
    parents = [folder_of(run.path) for run in runs]
    folders: dict[tuple[str, str], set[Path]] = {}
    for run, parent in zip(runs, parents, strict=True):
        folders.setdefault((run.env, run.method), set()).add(parent)
    short = {
        name: _short_names(
            set().union(*(parents_of for (_, method), parents_of in folders.items() if method == name))
        )
        for (_, name), several in folders.items()
        if len(several) > 1
    }
    return [
        replace(run, method=f"{run.method} ({short[run.method][parent]})") if run.method in short else run
        for run, parent in zip(runs, parents, strict=True)
    ]


def folder_of(run: Path) -> Path:
    """The folder in which a run lies, with links resolved; the run itself may be a link to somewhere else."""
    if run.name in ("", ".."):  # "." has no name
        return run.resolve().parent
    return run.parent.resolve()


def _short_names(folders: Iterable[Path]) -> dict[Path, str]:
    """Folder → its path without the parts at both ends that all folders have."""
    parts = {folder: list(folder.parts) for folder in folders}
    for end in (0, -1):
        while len({names[end] for names in parts.values()}) == 1 and min(map(len, parts.values())) > 1:
            for names in parts.values():
                names.pop(end)
    return {folder: printable("/".join(names)) for folder, names in parts.items()}
