"""What several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from a3c_zoo.cli.complete import complete_run

if TYPE_CHECKING:
    from a3c_zoo.plugins.registry import Registry

_Command = TypeVar("_Command", bound=Callable[..., Any])

#: What a shell expects of a program that Ctrl-C ended.
INTERRUPTED = 130
SECONDS = {"s": 1, "m": 60, "h": 3600}


class Duration(click.ParamType[float]):
    """`90s`, `10m`, `2h`, in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", str(value).strip())
        if match is None or float(match[1]) <= 0:
            self.fail(f"'{value}' is no duration; write 90s, 10m or 2h", param, ctx)
        return float(match[1]) * SECONDS[match[2]]


def warn_about_faults(registry: Registry) -> None:
    """Writes one line to stderr for each plugin that is left out because something is wrong with it."""
    for info in registry.faults:
        click.echo(f"Warning: {info} is left out: {info.fault}", err=True)


def make_runs_dir_option(text: str) -> Callable[[_Command], _Command]:
    """`--runs-dir`, with its help text."""
    return click.option(
        "--runs-dir",
        type=click.Path(path_type=Path, file_okay=False),
        default=Path("runs"),
        show_default=True,
        help=text,
    )


#: Of commands that make runs.
kept_runs_option = make_runs_dir_option("Where runs are kept.")

# The parameters of commands that use a trained agent.

run_argument = click.argument("run", shell_complete=complete_run)
deterministic_option = click.option(
    "--deterministic/--stochastic", default=False, help="Most probable or sampled actions.  [default: --stochastic]"
)
checkpoint_option = click.option(
    "--checkpoint",
    default="final",
    show_default=True,
    metavar="final|best|STEP",
    help="The newest one, the best that the evaluator found, or the one at STEP.",
)
seed_option = click.option(
    "--seed", type=click.IntRange(0), metavar="N", help="Seed of the episodes.  [default: the run's]"
)
runs_dir_option = make_runs_dir_option("Where a run given by name is looked up.")
