"""Options and parameter types of several commands."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from a3c_zoo.cli.complete import complete_agent, complete_run, complete_set

if TYPE_CHECKING:
    from a3c_zoo.plugins.registry import Registry

_Command = TypeVar("_Command", bound=Callable[..., Any])

#: Exit status of a program that Ctrl-C ended.
INTERRUPTED = 130
SECONDS = {"s": 1, "m": 60, "h": 3600}


class Duration(click.ParamType[float]):
    """A duration such as `90s`, `10m` or `2h`, as seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", str(value).strip())
        if match is None or float(match[1]) <= 0:
            self.fail(f"'{value}' is no duration; write 90s, 10m or 2h", param, ctx)
        return float(match[1]) * SECONDS[match[2]]


def warn_about_faults(registry: Registry) -> None:
    """Prints one line to stderr for each plugin that is left out because of a fault."""
    for info in registry.faults:
        click.echo(f"Warning: {info} is left out: {info.fault}", err=True)


def make_runs_dir_option(text: str) -> Callable[[_Command], _Command]:
    """Makes the option `--runs-dir` with this help text."""
    return click.option(
        "--runs-dir",
        type=click.Path(path_type=Path, file_okay=False),
        default=Path("runs"),
        show_default=True,
        help=text,
    )


# Options of commands that resolve a configuration.

agent_option = click.option(
    "--agent", metavar="NAME", shell_complete=complete_agent, help="Agent.  [default: the environment's]"
)
hyperparams_option = click.option(
    "--hyperparams",
    metavar="SET|FILE",
    shell_complete=complete_set,
    help="A set that replaces the default set, or a YAML file whose values replace those of the default set.",
)
overrides_option = click.option(
    "-o", "overrides", metavar="KEY=VALUE", multiple=True, help="Set one value; can be repeated."
)

#: Option of commands that make runs.
kept_runs_option = make_runs_dir_option("Directory of all runs.")

# Parameters of commands that use a trained agent.

run_argument = click.argument("run", shell_complete=complete_run)
deterministic_option = click.option(
    "--deterministic/--stochastic",
    default=False,
    help="Most probable or sampled actions.  [default: --stochastic]",
)
checkpoint_option = click.option(
    "--checkpoint",
    default="final",
    show_default=True,
    metavar="final|best|STEP",
    help="The newest checkpoint, the evaluator's best one, or the one at STEP.",
)
seed_option = click.option(
    "--seed", type=click.IntRange(0), metavar="N", help="Seed of the episodes.  [default: the seed of the run]"
)
runs_dir_option = make_runs_dir_option("Directory of a run that is given by name.")
