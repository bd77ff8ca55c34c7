"""`a3c-zoo show`: the values that a run would use, with their sources; the schema of sets; one plugin."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path

import click

from a3c_zoo.cli.common import (
    complete_agent,
    complete_env,
    complete_plugin,
    configuration_options,
    example,
    print_fitted,
    print_plain,
    warn_about_faults,
)
from a3c_zoo.errors import printable, printable_lines, unknown_name
from a3c_zoo.files import refuse_out, write_out
from a3c_zoo.plugins.entries import CommandEntry, Entry, HyperparamEntry
from a3c_zoo.plugins.loading import PluginInfo, Selection
from a3c_zoo.plugins.offers import kind_of, name_of
from a3c_zoo.plugins.registry import Registry, get_registry
from a3c_zoo.plugins.sources import RUN_HOOKS
from a3c_zoo.plugins.typed_names import env_name
from a3c_zoo.standard_streams import take_stdout

HEADER = ("key", "value", "source", "meaning")


@click.group(no_args_is_help=True, epilog=example("a3c-zoo show hyperparams cartpole"))
def command() -> None:
    """Show the hyperparameters that a run would use, the JSON Schema of sets, or a plugin."""


@command.command(
    short_help="Show each value that a run would use, and its source.",
    epilog=example("a3c-zoo show hyperparams cartpole -o agent.n_steps=5"),
)
@click.argument("env", shell_complete=complete_env)
@configuration_options
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array of objects with stable keys.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE.yml",
    help="Also write the values as a hyperparameter set, which --hyperparams takes, and its JSON Schema beside it.",
)
@click.option("--force", is_flag=True, help="Overwrite the file of --out.")
def hyperparams(
    env: str,
    agent: str | None,
    hyperparams: str | None,
    overrides: tuple[str, ...],
    as_json: bool,
    out: Path | None,
    force: bool,
) -> None:
    """Show each value that `a3c-zoo train ENV` would use, its source and its meaning.

    A file of RL Baselines3 Zoo is translated. What has no key here is named on stderr.
    """
    from a3c_zoo.config.schema import LINE, put_beside
    from a3c_zoo.config.sets import SET_SUFFIXES, describe, dump_config, resolve_config
    from a3c_zoo.config.yaml import display

    if as_json:
        take_stdout()
    warn_about_faults()
    registry = get_registry()
    entry = registry.env(env_name(registry, env))
    agent_entry = registry.agent(agent or entry.default_agent)
    if out is not None:
        refuse_out(out, SET_SUFFIXES, force)
    config = resolve_config(registry, entry, agent_entry, hyperparams=hyperparams, overrides=overrides)
    if out is not None:
        write_out(out, dump_config(config, LINE).encode(), force)
        put_beside(out, registry, entry, agent_entry)
    rows = describe(config)
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


@command.command(
    short_help="Show the JSON Schema of hyperparameter sets.",
    epilog=example("a3c-zoo show schema cartpole --out a3c-zoo.schema.json"),
)
@click.argument("env", required=False, shell_complete=complete_env)
@click.option(
    "--agent",
    metavar="NAME",
    shell_complete=complete_agent,
    help="Of sets for this agent.  [default: ENV's agent]",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE.json",
    help="Write it to this file in place of stdout.",
)
@click.option("--force", is_flag=True, help="Overwrite the file of --out.")
def schema(env: str | None, agent: str | None, out: Path | None, force: bool) -> None:
    """Show the JSON Schema of the hyperparameter sets of ENV; without ENV, of all sets.

    An editor with the YAML language server completes and checks the keys of a set that begins with the line
    `# yaml-language-server: $schema=a3c-zoo.schema.json`, if the schema lies beside it.
    """
    from a3c_zoo.config.schema import schema_text, set_schema

    if out is None:
        take_stdout()
    warn_about_faults()
    registry = get_registry()
    if out is not None:
        refuse_out(out, (".json",), force)
    if env is None:
        found = set_schema(registry, None, registry.agent(agent) if agent else None)
    else:
        entry = registry.env(env_name(registry, env))
        found = set_schema(registry, entry, registry.agent(agent or entry.default_agent))
    if out is None:
        click.echo(schema_text(found), nl=False)
    else:
        write_out(out, schema_text(found).encode(), force)


@command.command(
    short_help="Show what a plugin offers, its documentation, and its fault.",
    epilog=example("a3c-zoo show plugin envs"),
)
@click.argument("name", shell_complete=complete_plugin)
def plugin(name: str) -> None:
    """Show what the plugin NAME offers, where its documentation is, and its fault with the traceback."""
    registry = get_registry()
    infos = [info for info in registry.plugins if info.name == name]
    if not infos:
        raise unknown_name(
            "plugin", name, [info.name for info in registry.plugins], listing="a3c-zoo list plugins"
        )
    for info in infos:  # an entry point of the same name is a fault
        for label, text in _facts(registry, info):
            click.echo(printable(f"{label:<12}  {text}"))
        if info.trace:
            click.echo(f"\n{printable_lines(info.trace)}", nl=False)


def _facts(registry: Registry, info: PluginInfo) -> Iterator[tuple[str, str]]:
    """What is known of a plugin: names and texts. One that is blocked is not imported."""
    yield "plugin", f"{info.name}, of {info.distribution} {info.version}".rstrip()
    if info.status == "blocked":
        by = f" by {Selection.from_environ().blocked_by(info)}"
    else:
        by = ""
    yield "status", f"{info.status}{by}{(info.fault and f': {info.fault}') or ''}"
    module = sys.modules.get(info.module.partition(":")[0])
    yield "module", f"{info.module}  {getattr(module, '__file__', None) or ''}".rstrip()
    if about := inspect.getdoc(module):
        yield "about", about.partition("\n\n")[0].replace("\n", " ")
    yield from _pages(info.distribution)
    if watches := [hook for hook in info.hooks if hook in RUN_HOOKS]:
        yield "run hooks", " ".join(watches)
    for entry in registry.offers(info):
        yield (
            "offers",
            f"{kind_of(entry).namespace} {name_of(entry)}: {_described(registry, entry)}".removesuffix(": "),
        )


def _described(registry: Registry, entry: Entry) -> str:
    """What an entry says of itself; of a package its sets."""
    from a3c_zoo.config.sets import list_sets

    match entry:
        case HyperparamEntry():
            return ", ".join(
                f"{each.env}/{each.name}" for each in list_sets(registry) if each.package == entry.package
            )
        case CommandEntry():
            return entry.short_help
        case _:
            return entry.description


def _pages(distribution: str) -> Iterator[tuple[str, str]]:
    """Summary and addresses of a distribution, as its author gives them."""
    try:
        known = metadata.metadata(distribution)
    except (metadata.PackageNotFoundError, ValueError):
        return
    for summary in known.get_all("Summary") or ():
        yield "summary", summary
    for line in [*(known.get_all("Project-URL") or ()), *(known.get_all("Home-page") or ())]:
        yield "docs", line
