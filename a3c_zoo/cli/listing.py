"""`a3c-zoo list`: entries, sets, plugins and runs, as a table or as JSON."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from a3c_zoo.cli.common import (
    complete_agent,
    example,
    is_typed,
    kept_runs_option,
    need_extra,
    print_fitted,
    print_plain,
    terminal_width,
    warn_about_faults,
)
from a3c_zoo.cli.run_filters import filter_options, given_filters, run_filter
from a3c_zoo.cures import upgrade
from a3c_zoo.errors import UnknownNameError, ZooError, printable, unknown_name
from a3c_zoo.plugins.registry import Registry, get_registry
from a3c_zoo.standard_streams import take_stdout
from a3c_zoo.synonyms import command_cure
from a3c_zoo.words import return_text

Row = Mapping[str, Any]

WHAT = (
    "envs",
    "agents",
    "baselines",
    "networks",
    "optimizers",
    "hooks",
    "hyperparams",
    "trained",
    "engines",
    "plugins",
    "runs",
    "studies",
)
PLUGIN_FIELDS = ("name", "version", "distribution", "hooks", "import_ms", "status", "fault")
#: The columns of plugins that a narrow terminal leaves out, in this order, before the status.
FIRST_OUT = ("import_ms", "hooks", "version", "distribution")
RUN_FIELDS = ("name", "env", "agent", "seed", "status", "steps", "mean_return_100", "solved", "started")
#: The columns of runs: the first row that fits the terminal, else the last. `run`: a name, and what it does not tell.
_FIGURES = ("steps", "return", "state", "age")
RUN_COLUMNS = (("name", "env", "agent", "seed", *_FIGURES), ("run", *_FIGURES))
#: The same of listings that are wide. A pipe gets the first row.
_TRAINED = ("name", "env", "agent", "return", "steps")
COLUMNS = {
    "hyperparams": (("env", "set", "package", "plugin"), ("env", "set", "plugin")),
    "trained": (
        (*_TRAINED, "plugin", "description"),
        (*_TRAINED, "description"),
        _TRAINED,
        ("name", "agent", "return", "steps"),
        ("name", "return", "steps"),
    ),
}
RIGHT = ("seed", "steps", "return", "age")
STATE_COLOURS = {
    "solved": "green",
    "running": "cyan",
    "died": "red",
    "damaged": "red",
    "newer": "yellow",
    "error": "red",
}


def _row(registry: Registry, entry: Any, **fields: Any) -> Row:
    """Returns the row of an entry or a family: these fields, its plugin, its description."""
    return {**fields, "plugin": registry.owner(entry).name, "description": entry.description}


def _rows(what: str, registry: Registry) -> Sequence[Row]:
    """Returns the rows of a listing of what plugins offer."""
    match what:
        case "envs":
            rows = [
                _row(registry, entry, name=entry.name, threshold=entry.threshold, agent=entry.default_agent)
                for entry in registry.envs.values()
            ]
            for family in registry.families.values():
                row = _row(registry, family, name=f"{family.prefix}:*", threshold=None, agent=None)
                if family.examples:
                    examples = f" ({', '.join(family.examples)})"
                else:
                    examples = ""
                rows.append({**row, "description": family.description + examples})
            return rows
        case "agents" | "baselines":
            entries = (entry for entry in registry.agents.values() if f"{entry.kind}s" == what)
            return [_row(registry, entry, name=entry.name, spaces=entry.spaces) for entry in entries]
        case "networks":
            return [
                _row(registry, entry, name=entry.name, inputs=entry.inputs)
                for entry in registry.networks.values()
            ]
        case "optimizers":
            return [_row(registry, entry, name=entry.name) for entry in registry.optimizers.values()]
        case "engines":
            return [_row(registry, entry, name=entry.name) for entry in registry.engines.values()]
        case "hooks":
            return [
                _row(registry, entry, name=entry.name, by_default=entry.on_by_default)
                for entry in registry.hooks.values()
            ]
        case "hyperparams":
            from a3c_zoo.config.sets import list_sets

            return [
                {"env": each.env, "set": each.name, "package": each.package, "plugin": each.plugin}
                for each in list_sets(registry)
            ]
        case "trained":
            from a3c_zoo.store.trained import row_of

            return [_row(registry, entry, **row_of(registry, entry)) for entry in registry.trained.values()]
    infos = (asdict(info) | {"import_ms": round(info.import_s * 1000, 1)} for info in registry.plugins)
    return [{field: info[field] for field in PLUGIN_FIELDS} for info in infos]


def _requirements(registry: Registry) -> list[str]:
    """The distributions of the loaded plugins as `NAME==VERSION`; pip cannot install a plugin file."""
    loaded = (info for info in registry.plugins if info.status == "loaded")
    lines = (f"# {info.file}" if info.file else f"{info.distribution}=={info.version}" for info in loaded)
    return list(dict.fromkeys(lines))


def _runs(runs_dir: Path, wanted: Mapping[str, Any]) -> list[Row]:
    from a3c_zoo.store.run import list_runs

    is_wanted = run_filter(wanted)
    return [
        {**{field: getattr(run, field) for field in RUN_FIELDS}, "path": str(run.path)}
        for run in list_runs(runs_dir)
        if is_wanted(run)
    ]


def _age(age_s: float) -> str:
    """`40 s`, `12 min`, `3 h` or `2 d`; `-` if the run does not say when it started."""
    if math.isinf(age_s):
        return "-"
    seconds = max(0, int(age_s))
    units = (86400, "d"), (3600, "h"), (60, "min"), (1, "s")
    size, unit = next((pair for pair in units if seconds >= pair[0]), units[-1])
    return f"{seconds // size:,} {unit}"


def _run_cells(run: Row, now_s: float) -> dict[str, str]:
    """The texts of a run in all columns. now_s: the time of day, in seconds."""
    from a3c_zoo.store.run import UNREADABLE, moment_of

    steps = run["steps"]
    mean = run["mean_return_100"]
    status = run["status"]
    told = f"{run['env'].replace(':', '_').replace('/', '_')}-{run['agent']}-s{run['seed']}-"
    if run["name"].startswith(told) or status in UNREADABLE:
        about = ""
    else:
        about = f"  {told[:-1]}"
    if status in ("running", "died"):
        state = f"solved, {status}"
    else:
        state = "solved"
    cells = {
        **{field: run[field] for field in ("name", "env", "agent")},
        "seed": "-" if run["seed"] is None else run["seed"],
        "run": run["name"] + about,
        "steps": _text(steps),
        "return": "-" if mean is None else return_text(mean),
        "state": state if run["solved"] else status,
        "age": _age(now_s - moment_of(run["started"])),
    }
    return {name: printable(str(text)) for name, text in cells.items()}  # of a stranger, any type


def _print_runs(runs: Sequence[Mapping[str, str]]) -> None:
    """Prints a line for each run. A name for which the terminal has no room stands above its line, as a whole."""
    from rich.cells import cell_len

    def padded(text: str, size: int, on_the_left: bool = False) -> str:
        blanks = " " * (size - cell_len(text))  # a letter of Chinese or Japanese takes two columns
        if on_the_left:
            return blanks + text
        return text + blanks

    width = terminal_width()
    for columns in RUN_COLUMNS:
        widths = {name: max(len(name), *(cell_len(run[name]) for run in runs)) for name in columns}
        if (spare := width - sum(widths.values()) - 2 * (len(columns) - 1)) >= 0:
            break
    room = widths.pop(columns[0]) + min(spare, 0)
    for run in ({name: name for name in columns}, *runs):
        name = run[columns[0]]
        colour = STATE_COLOURS.get(run["state"].split(",")[0])
        if cell_len(name) > room:
            click.echo(name)
            name = ""
        cells = {key: padded(run[key], size, key in RIGHT) for key, size in widths.items()}
        cells["state"] = click.style(cells["state"], fg=colour)
        click.echo("  ".join([padded(name, room), *cells.values()]).rstrip())


class _What(click.Choice[str]):
    """A choice whose error is one short line."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in self.choices:
            cure = command_cure(value) or ""
            if cure.startswith("Type: a3c-zoo list "):
                raise UnknownNameError(f"unknown listing '{value}'. {cure}")
            raise unknown_name("listing", value, self.choices, listing="a3c-zoo list --help")
        return str(value)


@click.command(epilog=example("a3c-zoo list envs"))
@click.argument("what", metavar="WHAT", type=_What(WHAT))
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array of objects with stable keys.")
@click.option("--requirements", is_flag=True, help="Print the plugins as a requirements.txt for pip.")
@kept_runs_option
@click.option(
    "--agent", metavar="NAME", shell_complete=complete_agent, help="Runs of this agent or baseline."
)
@filter_options
def command(what: str, as_json: bool, requirements: bool, runs_dir: Path, **filters: Any) -> None:
    """List envs, agents, baselines, networks, optimizers, hooks, hyperparams, trained agents, engines, plugins, runs
    or studies.

    The options from --agent to --since select runs.
    """
    if as_json:
        take_stdout()
    wanted = given_filters(filters)
    if requirements and as_json:
        raise ZooError("--requirements and --json are two formats: give one")
    if requirements and what != "plugins":
        raise ZooError("--requirements is for plugins: a3c-zoo list plugins --requirements")
    if what != "runs" and is_typed("runs_dir"):
        raise ZooError("--runs-dir is for runs: a3c-zoo list runs --runs-dir DIR")
    if what == "runs":
        rows: Sequence[Row] = _runs(runs_dir, wanted)
    elif wanted:
        name, value = next(iter(wanted.items()))
        option = "unsolved" if value is False else name
        raise ZooError(f"--{option} selects runs; leave it out, or: a3c-zoo list runs")
    elif what == "studies":
        need_extra("list studies", "tune", "optuna")
        from a3c_zoo.tuning.studies import list_studies

        rows = list_studies()
    else:
        warn_about_faults(shown=what == "plugins")
        rows = _rows(what, get_registry())
    if requirements:
        click.echo("\n".join(_requirements(get_registry())))
    elif as_json:
        click.echo(json.dumps(rows, indent=2))
    elif not rows:
        click.echo(_none(what), err=True)
    elif what == "runs":
        _print_runs([_run_cells(row, time.time()) for row in rows])
        if any(row["status"] == "newer" for row in rows):
            click.echo(f"newer: only a newer a3c-zoo can read the run. To get it: {upgrade()}")
    else:
        _print_table(what, rows)


def _print_table(what: str, rows: Sequence[Row]) -> None:
    """Prints a table of what plugins offer, or of studies, and below it the faults."""
    if what != "trained":
        told = rows
    else:
        told = [{**row, "return": _return(row)} for row in rows]
    choices = COLUMNS.get(what) or [[name for name in rows[0] if name != "fault"]]
    for header in choices:
        cells = [[_text(row[name]) for name in header] for row in told]
        if sum(max(map(len, column)) + 2 for column in zip(header, *cells, strict=True)) <= terminal_width():
            break
    if sys.stdout.isatty():
        first_out = FIRST_OUT if what == "plugins" else ()
        left_out = [name for name in choices[0] if name not in header]
        print_fitted(header, cells, unbroken=header[0], first_out=first_out, left_out=left_out)
    else:
        print_plain(header, cells)
    for row in rows:
        if row.get("fault"):  # it would make a column of 13 characters on a terminal of 80
            click.echo(printable(f"{row['name']}: {row['fault']}"))


def _return(row: Row) -> str | None:
    mean, std = row["mean_return"], row["std_return"]
    if mean is None:
        return None
    return f"{return_text(mean)} ± {return_text(std)}"


def _none(what: str) -> str:
    """The sentence in place of an empty listing."""
    if what != "trained":
        return f"No {what}."
    from a3c_zoo.store.trained import where_from

    return f"No trained agents.{where_from(get_registry())}"


def _text(value: Any) -> str:
    match value:
        case None:
            return "-"
        case bool():
            if value:
                return "yes"
            return "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.6g}"
        case tuple():
            return " ".join(map(str, value)) or "-"
        case _:
            return str(value)
