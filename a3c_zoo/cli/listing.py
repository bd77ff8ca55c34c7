"""`a3c-zoo list`: what there is, as a table or as JSON."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import click

from a3c_zoo.cli.common import make_runs_dir_option, warn_about_faults
from a3c_zoo.cli.complete import complete_agent, complete_env
from a3c_zoo.errors import ZooError, unknown_name
from a3c_zoo.plugins.registry import Registry, get_registry
from a3c_zoo.records import Reason

if TYPE_CHECKING:
    from a3c_zoo.runs.directory import RunSummary

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


def _optimizers(registry: Registry) -> list[Row]:
    return [
        {"name": entry.name, "plugin": registry.owner(entry).name, "description": entry.description}
        for entry in registry.optimizers.values()
    ]


def _hyperparams(registry: Registry) -> list[Row]:
    from a3c_zoo.config.sets import list_sets

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


def _runs(runs_dir: Path, keep: Callable[[RunSummary], bool]) -> list[Row]:
    from a3c_zoo.runs.directory import list_runs

    return [
        {
            "name": each.name,
            "env": each.env,
            "agent": each.agent,
            "seed": each.seed,
            "status": each.status,
            "steps": each.steps,
            "mean_return_100": each.mean_return_100,
            "solved": each.solved,
            "started": each.started,
            "path": str(each.path),
        }
        for each in list_runs(runs_dir)
        if keep(each)
    ]


_TABLES: dict[str, Callable[[Registry], list[Row]]] = {
    "envs": _envs,
    "agents": lambda registry: _agents(registry, "agent"),
    "baselines": lambda registry: _agents(registry, "baseline"),
    "networks": _networks,
    "optimizers": _optimizers,
    "hyperparams": _hyperparams,
    "plugins": _plugins,
}


class _What(click.Choice[str]):
    """A choice whose error is one short line."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in self.choices:
            raise unknown_name("listing", value, self.choices, listing="a3c-zoo list --help")
        return str(value)


class _Since(click.ParamType[datetime]):
    """`30m`, `2h`, `7d` ago, or a date."""

    name = "since"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """The moment, with its time zone; a date without one is of this machine's."""
        if isinstance(value, datetime):
            return value
        ago = re.fullmatch(r"(\d+)([mhd])", value)
        try:
            if ago is None:
                return datetime.fromisoformat(value).astimezone()
            unit = {"m": "minutes", "h": "hours", "d": "days"}[ago[2]]
            return datetime.now().astimezone() - timedelta(**{unit: int(ago[1])})
        except (ValueError, OverflowError):
            self.fail(f"'{value}' is no time; write 30m, 2h, 7d or a date such as 2026-01-31", param, ctx)


def _is_wanted(run: RunSummary, wanted: Mapping[str, Any]) -> bool:
    since: datetime | None = wanted.get("since")
    if since is not None and not (run.started and datetime.fromisoformat(run.started).astimezone() >= since):
        return False
    return all(getattr(run, name) == value for name, value in wanted.items() if name != "since")


@click.command(
    short_help="List environments, agents, plugins, runs and more.",
    epilog="Example: a3c-zoo list envs",
)
@click.argument("what", metavar="WHAT", type=_What([*_TABLES, "runs"]))
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array of objects with stable keys.")
@make_runs_dir_option("Where to look for runs.")
@click.option("--env", metavar="NAME", shell_complete=complete_env, help="Runs on this environment.")
@click.option("--agent", metavar="NAME", shell_complete=complete_agent, help="Runs of this agent or baseline.")
@click.option("--seed", type=int, metavar="N", help="Runs with this seed.")
@click.option(
    "--status",
    type=click.Choice(["running", "died", "damaged", *get_args(Reason)]),
    metavar="NAME",
    help="Runs that are running, died or damaged, or that ended like this: steps, interrupted, …",
)
@click.option("--solved/--unsolved", default=None, help="Runs that solved their environment, or that ended without.")
@click.option("--since", type=_Since(), metavar="2h|7d|DATE", help="Runs that started since then.")
def command(what: str, as_json: bool, runs_dir: Path, **filters: Any) -> None:
    """List what there is: WHAT is one of envs, agents, baselines, networks, optimizers, hyperparams, plugins, runs.

    The options from --env on choose among runs.
    """
    wanted = {name: value for name, value in filters.items() if value is not None}
    if what == "runs":
        rows = _runs(runs_dir, lambda run: _is_wanted(run, wanted))
    elif wanted:
        raise ZooError(f"--{next(iter(wanted))} chooses among runs; leave it out, or: a3c-zoo list runs")
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
