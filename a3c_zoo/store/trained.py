"""What a name means to `play`, `evaluate`, `export` and `load_agent`, and trained agents, which plugins offer.

A trained agent's folder is a run directory of four files: `config.yml`, `meta.json`, `outcome.json` with an evaluation,
and `parameters.safetensors` in place of checkpoints, whose digest is in `meta.json`. So one reader checks both.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Any, Final

from a3c_zoo.cures import install_plugin
from a3c_zoo.errors import RunDirectoryError, ZooError, did_you_mean, one_line, printable
from a3c_zoo.files import MAX_TABLE, read_bytes, why_closed
from a3c_zoo.plugins.entries import TrainedEntry
from a3c_zoo.plugins.next_command import next_command
from a3c_zoo.plugins.registry import Registry, get_registry, whole_examples
from a3c_zoo.plugins.typed_names import env_name
from a3c_zoo.store.checkpoints import (
    FINAL,
    Checkpoint,
    PolicyState,
    checkpoint_file,
    load_policy_state,
    read_policy,
    read_state,
)
from a3c_zoo.store.command_lines import command_of, shell_line, without_folders
from a3c_zoo.store.directory import run_paths
from a3c_zoo.store.run import Run, find_run, list_runs
from a3c_zoo.store.run_files import PARAMETERS, PULLED_JSON

#: What offers the trained agents of this project: its distribution, and the package with their folders.
TRAINED_DISTRIBUTION, TRAINED_PACKAGE = "a3c-zoo-trained", "a3c_zoo_trained"
#: What `facts` tells.
FACTS: Final = ("command", "continued", "weaknesses", "seed", "training_s", "versions", "host")


def find_policy(name: str | Path, agent: str | None, runs_dir: Path, trust: bool) -> Run:
    """What a name means: a run; else the newest solved run of an environment; else a trained agent, as stderr says.

    A pulled agent comes last if its folder is called like an environment or a trained agent.

    agent: with an environment's name, only policies of this agent count. Raises ZooError if there is none, with the
    cure.
    """
    registry = get_registry()
    name = str(name)
    if not name:
        return find_run(name, runs_dir, trust)  # it raises
    own_names = {*registry.trained, *(entry.env for entry in registry.trained.values())}
    if name not in own_names and not any(os.path.lexists(path) for path in (Path(name), runs_dir / name)):
        name = env_name(registry, name)
    offered = [each for each in registry.trained.values() if name in (each.env, each.name)]
    pulled = None
    with suppress(RunDirectoryError):
        run = find_run(name, runs_dir, trust)
        if (offered or name in registry.envs) and os.path.lexists(run.path / PULLED_JSON):
            pulled = run
        elif agent is None:
            return run
        else:
            raise ZooError(f"'{name}' is a run, which has one agent: leave out --agent")
    solved = [
        run for run in list_runs(runs_dir) if run.solved and run.env == name and agent in (None, run.agent)
    ]
    chosen = [each for each in offered if agent in (None, each.agent)]
    if solved:
        policy_run = find_run(solved[-1].path, runs_dir, trust)
        told = f"{solved[-1].path}, the newest run that solved it"
    elif chosen:
        policy_run = directory_of(chosen[0])
        told = f"trained agent '{chosen[0].name}'"
        told += f" of {registry.owner(chosen[0])}{''.join(f'; or name {each.name}' for each in chosen[1:])}"
    elif pulled and agent is None:
        policy_run = pulled
        told = f"{pulled.path}, which was pulled from a hub"
    elif offered or name in registry.envs or name.partition(":")[0] in registry.families:
        env = offered[0].env if offered else registry.env(name).name
        by = f" --agent {shlex.quote(registry.agent(agent).name)}" if agent else ""
        none = f"no run in {runs_dir} has solved '{name}', and no plugin offers an agent trained on it"
        train = next_command(f"train {shlex.quote(env)}{by}")
        raise ZooError(f"{none}{by and f', by{by}'}: {train}. {_others(registry)}")
    elif os.path.isdir(name) or why_closed(Path(name)) or why_closed(runs_dir / name):
        return find_run(name, runs_dir, trust)  # it raises
    else:
        raise RunDirectoryError(_unknown(name, runs_dir, registry))
    print(printable(f"{name}: {told}"), file=sys.stderr)
    return policy_run


def _others(registry: Registry) -> str:
    """Where policies are listed, and where some come from."""
    return f"Or name one: a3c-zoo list runs, a3c-zoo list trained.{where_from(registry)}"


def where_from(registry: Registry) -> str:
    """`" …"`: how to get the trained agents of this project, or `""` if they are installed."""
    is_there = any(each.package == TRAINED_PACKAGE for each in registry.trained.values())
    if is_there:
        return ""
    return f" {TRAINED_DISTRIBUTION} brings some: {install_plugin(TRAINED_DISTRIBUTION)}"


def _unknown(name: str, runs_dir: Path, registry: Registry) -> str:
    """The error for a name that means nothing, with the nearest one that does."""
    known = [*registry.envs]
    known += [each for family in registry.families.values() for each in whole_examples(family)]
    known += [each for entry in registry.trained.values() for each in (entry.name, entry.env)]
    hint = did_you_mean(name, [*(path.name for path in run_paths(runs_dir)), *known])
    there = f"'{name}' is no run here or in {runs_dir}, no environment and no trained agent."
    return f"{there}{hint} To get one: a3c-zoo train ENV. {_others(registry)}"


def for_others(meta: dict[str, Any]) -> dict[str, Any]:
    """A meta.json without the kernel's release, a program's own words, and the folders of absolute paths."""
    host = meta.get("host", {})
    command = [without_folders(word) for word in command_of(meta)]
    files = [Path(str(file)).name for file in meta.get("plugin_files", [])]
    system = {"system": str(host.get("system", "")).partition(" ")[0]}
    return {**meta, "command": command, "plugin_files": files, "host": {**host, **system}}


def facts(run: Run, entry: TrainedEntry | None) -> dict[str, Any]:
    """How an agent was trained, fit for others to read. entry: that of its folder, None for a run.

    Raises:
        RunDirectoryError: meta.json or outcome.json is missing or damaged.
    """
    meta = for_others(run.meta)
    outcome = run.outcome
    told = entry or TrainedEntry("", "", "", "")
    texts = shell_line(meta["command"]), told.continued, told.weaknesses
    rest = meta.get("seed"), outcome and outcome.training_s, meta.get("versions"), meta.get("host")
    return dict(zip(FACTS, (*texts, *rest), strict=True))


def directory_of(entry: TrainedEntry) -> Run:
    """The folder that an entry names. Raises RunDirectoryError if it is not there, or of another agent."""
    try:
        folder = Run(Path(str(resources.files(entry.package) / entry.name)), is_trusted=True)
    except Exception as error:  # of the package's own import
        raise RunDirectoryError(f"package '{entry.package}' cannot be found: {one_line(error)}") from error
    meta = folder.meta
    if (meta["env"], meta["agent"]) != (entry.env, entry.agent):
        raise RunDirectoryError(
            f"{folder.meta_file} is of {meta['agent']} on {meta['env']}, not as '{entry.name}' says"
        )
    return folder


def entry_of(registry: Registry, run: Run) -> TrainedEntry | None:
    """The entry whose folder this is; None for a run, and for the folder of nobody."""
    for entry in registry.trained.values():
        with suppress(RunDirectoryError, OSError):
            if directory_of(entry).path.samefile(run.path):
                return entry
    return None


def policy_state(run: Run, which: str = FINAL) -> Checkpoint[PolicyState]:
    """As `load_policy_state`, also for a trained agent's folder."""
    path = run.path / PARAMETERS
    if which != FINAL or not os.path.lexists(path):
        return load_policy_state(run, which)
    saved = read_policy(path)
    if hashlib.sha256(read_bytes(path, MAX_TABLE)).hexdigest() != run.meta.get("sha256"):
        raise RunDirectoryError(f"{path} is not the file that meta.json was written with (SHA-256)")
    return saved


def state_of(run: Run, which: str = FINAL) -> PolicyState:
    """What the file of `policy_state` tells of the run; its tensors are not read."""
    path = run.path / PARAMETERS
    is_trained = which == FINAL and os.path.lexists(path)
    return read_state(path if is_trained else checkpoint_file(run, which), PolicyState)


def row_of(registry: Registry, entry: TrainedEntry) -> dict[str, Any]:
    """A trained agent for listings. If its figures cannot be read, `fault` says why."""
    try:
        run = directory_of(entry)
        fault = None
        outcome = run.outcome
        known = facts(run, entry)
    except RunDirectoryError as error:
        fault = str(error)
        outcome = None
        known = dict.fromkeys(FACTS)
    figures = {
        name: getattr(outcome and outcome.evaluation, name, None) for name in ("mean_return", "std_return")
    }
    figures["steps"] = outcome and outcome.steps
    told = {name: getattr(entry, name) for name in ("name", "env", "agent")}
    return {**told, **figures, **known, "weaknesses": entry.weaknesses, "fault": fault}
