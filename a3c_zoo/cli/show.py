"""`a3c-zoo show hyperparams`: each value that a run would use, its meaning and its source."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import click

from a3c_zoo.cli.common import complete_env, configuration_options, print_fitted, print_plain, warn_about_faults
from a3c_zoo.plugins.registry import get_registry

HEADER = ("key", "value", "source", "meaning")


@click.group(no_args_is_help=True, epilog="Example: a3c-zoo show hyperparams cartpole")
def command() -> None:
    """Show the hyperparameters that a run would use."""


@command.command(
    short_help="Show each value that a run would use, and its source.",
    epilog="Example: a3c-zoo show hyperparams cartpole -o agent.n_steps=5",
)
@click.argument("env", shell_complete=complete_env)
@configuration_options
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array of objects with stable keys.")
def hyperparams(
    env: str, agent: str | None, hyperparams: str | None, overrides: tuple[str, ...], as_json: bool
) -> None:
    """Show each value that `a3c-zoo train ENV` would use, its source and its meaning."""
    from a3c_zoo.config.sets import describe, resolve_config
    from a3c_zoo.config.yaml import display

    warn_about_faults()
    registry = get_registry()
    entry = registry.env(env)
    agent_entry = registry.agent(agent or entry.default_agent)
    rows = describe(resolve_config(registry, entry, agent_entry, hyperparams=hyperparams, overrides=overrides))
    if as_json:
        click.echo(json.dumps([row._asdict() for row in rows], indent=2))
        return
    cells = [(row.key, display(row.value, limit=0), row.source, row.description) for row in rows]
    if sys.stdout.isatty():
        _print_sections(f"{entry.name}, agent {agent_entry.name}", cells)
    else:
        print_plain(HEADER, cells)


def _print_sections(title: str, rows: Sequence[tuple[str, str, str, str]]) -> None:
    """Prints a table by sections, with the values that are not defaults in bold."""
    lines: list[tuple[str | tuple[str, str], ...]] = []
    previous = ""
    for name, value, source, meaning in rows:
        section, _, key = name.partition(".")
        if section != previous:
            lines.append(((section, "bold cyan"), "", "", ""))
            previous = section
        style = "dim" if source == "default" else "bold"
        lines.append((f"  {key}", (value, style), (source, style), meaning))
    print_fitted(HEADER, lines, unbroken="key", title=title)
