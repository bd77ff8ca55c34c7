"""`a3c-zoo show hyperparams`: every value of a run to be, its meaning, and where it came from."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from a3c_zoo.cli.common import warn_about_faults
from a3c_zoo.cli.complete import complete_agent, complete_env, complete_set

if TYPE_CHECKING:
    from a3c_zoo.config.sets import Row


@click.group(no_args_is_help=True, epilog="Example: a3c-zoo show hyperparams cartpole")
def command() -> None:
    """Show the hyperparameters of a run to be."""


@command.command(
    short_help="Show every value of a run to be, and where it came from.",
    epilog="Example: a3c-zoo show hyperparams cartpole -o agent.n_steps=5",
)
@click.argument("env", shell_complete=complete_env)
@click.option("--agent", metavar="NAME", shell_complete=complete_agent, help="Agent.  [default: the environment's]")
@click.option(
    "--hyperparams",
    metavar="SET|FILE",
    shell_complete=complete_set,
    help="A set in place of the default one, or a YAML file on top of it.",
)
@click.option("-o", "overrides", metavar="KEY=VALUE", multiple=True, help="Set one value; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array of objects with stable keys.")
def hyperparams(
    env: str, agent: str | None, hyperparams: str | None, overrides: tuple[str, ...], as_json: bool
) -> None:
    """Show each value that `a3c-zoo train ENV` would use, its meaning or unit, and where it came from."""
    from a3c_zoo.config.sets import describe, resolve_config
    from a3c_zoo.plugins.registry import get_registry

    registry = get_registry()
    warn_about_faults(registry)
    entry = registry.env(env)
    agent_entry = registry.agent(agent or entry.default_agent)
    rows = describe(resolve_config(registry, entry, agent_entry, hyperparams=hyperparams, overrides=overrides))
    if as_json:
        click.echo(json.dumps([row._asdict() for row in rows], indent=2))
    elif sys.stdout.isatty():
        _print_rich(f"{entry.name}, agent {agent_entry.name}", rows)
    else:
        _print_plain(rows)


def _print_plain(rows: Sequence[Row]) -> None:
    """Columns of their full width, for files and pipes: nothing is cut off or wrapped."""
    from a3c_zoo.config.yaml import display

    cells = [(row.key, display(row.value, limit=0), row.source, row.description) for row in rows]
    lines = [("key", "value", "source", "meaning"), *cells]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _print_rich(title: str, rows: Sequence[Row]) -> None:
    """A table by sections; what is set stands out from what is left at its default."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from a3c_zoo.config.yaml import display

    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("key", "value", "source", "meaning"):
        table.add_column(name, overflow="fold", no_wrap=name == "key")
    previous = ""
    for row in rows:
        section, _, key = row.key.partition(".")
        if section != previous:
            table.add_row(Text(section, style="bold cyan"))
            previous = section
        style = "dim" if row.source == "default" else "bold"
        value = Text(display(row.value, limit=0), style=style)
        table.add_row(f"  {key}", value, Text(row.source, style=style), Text(row.description))
    Console().print(table)
