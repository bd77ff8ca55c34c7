"""What a name means to `play`, `evaluate` and `load_agent`."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

from a3c_zoo.errors import RunDirectoryError, ZooError, printable
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.runs.directory import RunDirectory, find_run, list_runs


def find_policy(name: str | Path, agent: str | None, runs_dir: Path, trust: bool) -> RunDirectory:
    """What a name means: a run; else the newest solved run of an environment, as stderr says.

    agent: of an environment only runs of this agent. Raises ZooError if there is none, with the cure.
    """
    with suppress(RunDirectoryError):
        run = find_run(name, runs_dir, trust)
        if agent is None:
            return run
        raise ZooError(f"'{name}' is a run, which has one agent: leave out --agent")
    registry = get_registry()
    solved = [run for run in list_runs(runs_dir) if run.solved and run.env == name and agent in (None, run.agent)]
    if solved:
        print(printable(f"{name}: {solved[-1].path}, the newest run that solved it"), file=sys.stderr)
        return find_run(solved[-1].path, runs_dir, trust)
    if name in registry.envs or str(name).partition(":")[0] in registry.families:
        option = f" --agent {agent}" if agent else ""
        cure = f"a3c-zoo train {name}{option}. Or name a run: a3c-zoo list runs"
        raise ZooError(f"no run in {runs_dir} has solved '{name}'{option}: {cure}")
    return find_run(name, runs_dir, trust)  # it raises, and says what is near
