"""`a3c-zoo list`: what there is, as a table or as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import click

from a3c_zoo.cli.common import warn_about_faults
from a3c_zoo.errors import unknown_name
from a3c_zoo.registry import Registry, get_registry

Row = Mapping[str, Any]


def _envs(registry: Registry) -> list[Row]:
    rows: list[Row] = [
        {
            "name": entry.name,
            "threshold": entry.threshold,
            "agent": entry.default_agent,
            "plugin": registry.owner(entry).name,
            "description": entry.description,
        }
        for entry in registry.envs.values()
    ]
    for family in registry.families.values():
        examples = f" ({', '.join(family.examples)})" if family.examples else ""
        rows.append(
            {
                "name": f"{family.prefix}:*",
                "threshold": None,
                "agent": None,
                "plugin": registry.owner(family).name,
                "description": family.description + examples,
            }
        )
    return rows


def _agents(registry: Registry, kind: Literal["agent", "baseline"]) -> list[Row]:
    return [
        {
            "name": entry.name,
            "spaces": list(entry.spaces),
            "plugin": registry.owner(entry).name,
            "description": entry.description,
        }
        for entry in registry.agents.values()
        if entry.kind == kind
    ]


def _networks(registry: Registry) -> list[Row]:
    return [
        {
            "name": entry.name,
            "inputs": list(entry.inputs),
            "plugin": registry.owner(entry).name,
            "description": entry.description,
        }
        for entry in registry.networks.values()
    ]


def _hyperparams(registry: Registry) -> list[Row]:
    from a3c_zoo.hyperparams import list_sets

    return [{"env": each.env, "set": each.name, "package": each.package} for each in list_sets(registry)]


def _plugins(registry: Registry) -> list[Row]:
    return [
        {
            "name": info.name,
            "version": info.version,
            "distribution": info.distribution,
            "hooks": list(info.hooks),
            "import_ms": round(info.import_s * 1000, 1),
            "status": info.status,
            "fault": info.fault,
        }
        for info in registry.plugins
    ]


def _runs(runs_dir: Path) -> list[Row]:
    from a3c_zoo.runs.directory import list_runs

    return [
        {
            "name": each.name,
            "env": each.env,
            "agent": each.agent,
            "status": each.status,
            "steps": each.steps,
            "mean_return_100": each.mean_return_100,
            "solved": each.solved,
            "started": each.started,
            "path": str(each.path),
        }
        for each in list_runs(runs_dir)
    ]


_TABLES: dict[str, Callable[[Registry], list[Row]]] = {
    "envs": _envs,
    "agents": lambda registry: _agents(registry, "agent"),
    "baselines": lambda registry: _agents(registry, "baseline"),
    "networks": _networks,
    "hyperparams": _hyperparams,
    "plugins": _plugins,
}


class _What(click.Choice[str]):
    """A choice whose error is one short line."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in self.choices:
            raise unknown_name("listing", value, self.choices, listing="a3c-zoo list --help")
        return str(value)


@click.command(
    short_help="List environments, agents, plugins, runs and more.",
    epilog="Example: a3c-zoo list envs",
)
@click.argument("what", metavar="WHAT", type=_What([*_TABLES, "runs"]))
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array of objects with stable keys.")
@click.option(
    "--runs-dir",
    type=click.Path(path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="Where to look for runs.",
)
def command(what: str, as_json: bool, runs_dir: Path) -> None:
    """List what there is: WHAT is one of envs, agents, baselines, networks, hyperparams, plugins, runs."""
    if what == "runs":
        rows = _runs(runs_dir)
    else:
        registry = get_registry()
        warn_about_faults(registry)
        rows = _TABLES[what](registry)
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    elif not rows:
        click.echo(f"No {what}.", err=True)
    elif sys.stdout.isatty():
        _print_rich(rows)
    else:
        _print_plain(rows)


def _print_plain(rows: Sequence[Row]) -> None:
    """Columns of their full width, for files and pipes: nothing is cut off."""
    lines = [list(rows[0]), *([_text(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _print_rich(rows: Sequence[Row]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in rows[0]:
        table.add_column(name, overflow="fold", no_wrap=name == "name")
    for row in rows:
        table.add_row(*(Text(_text(value)) for value in row.values()))
    Console().print(table)


def _text(value: Any) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g}"
        case list():
            return " ".join(map(str, value)) or "-"
        case _:
            return str(value)
