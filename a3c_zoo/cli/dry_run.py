"""`a3c-zoo train --dry-run`: what would be trained."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from typing import Any

import click

from a3c_zoo.cli.common import warn_about_faults
from a3c_zoo.cli.main import cli
from a3c_zoo.errors import ZooError, printable
from a3c_zoo.runs.setup import RunSetup
from a3c_zoo.standard_streams import take_stdout
from a3c_zoo.words import counted, return_text


def show(env: str | None, as_json: bool, **options: Any) -> int:
    """Prints what `train` would do, and makes no directory. options: those of the command. Returns the exit status."""
    from a3c_zoo.runs import api

    if as_json:
        take_stdout()
    for name in ("resume", "checkpoint"):
        if options.pop(name) is not None:
            raise ZooError(f"--dry-run is for a new run: leave out --{name}")
    warn_about_faults()
    with redirect_stdout(sys.stderr):
        setup = api.examined(env, **options)
    if as_json:
        click.echo(json.dumps(setup.config.to_dict() | {"serial": setup.serial}, indent=2))
        return 0
    click.echo(printable(f"Would train {setup.title}"))
    for label, text in _lines(setup):
        click.echo(printable(f"  {label:<14}{text}"))
    click.echo(f"Nothing was trained. To train it: {_command()}")
    return 0


def _lines(setup: RunSetup) -> Iterator[tuple[str, str]]:
    config = setup.config
    run = config.run
    budgets = [f"at least {run.steps:,} steps"] if run.steps is not None else []
    budgets += [counted(run.episodes, "episodes")] if run.episodes is not None else []
    budgets += [f"{run.time_limit_s:,.10g} s of training"] if run.time_limit_s is not None else []
    yield "budget", ", ".join(budgets) or "none: it ends when it is solved, or with Ctrl-C"
    if setup.target is not None:
        yield "solved at", f"{return_text(setup.target)}, mean return of 100 episodes"
    else:
        yield "solved at", "no return: only its budget ends it"
    files = dict.fromkeys(source.rpartition(":")[0] for source in config.sources.values() if ":" in source)
    yield "values", ", ".join([*files, *_given(config.sources)]) or "defaults"
    if config.workers_why and not setup.serial:
        yield "workers", f"{run.workers:,}, {config.workers_why}"
    whose = "for each worker"
    if setup.agent.one_process:
        whose = "in all"
    elif config.teams < run.workers:
        whose = "for each team"
    yield "environments", f"{config.env.num_envs:,} {whose}"
    if told := setup.teams_told:
        yield "updates", told
    if config.network is not None:
        yield "network", f"{config.network.name}"


def _given(sources: Any) -> list[str]:
    return list(dict.fromkeys(source for source in sources.values() if source.startswith("-")))


def _command() -> str:
    return shlex.join(["a3c-zoo", *(word for word in cli.given if word != "--dry-run")])
