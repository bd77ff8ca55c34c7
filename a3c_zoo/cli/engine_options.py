"""The options that choose an engine, for `compare` and its kin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from a3c_zoo.cli.common import matching, together

if TYPE_CHECKING:
    from a3c_zoo.engines import Engine


def _complete_engine(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from a3c_zoo.plugins.registry import get_registry

    return matching({entry.name: entry.description for entry in get_registry().engines.values()}, incomplete)


engine_options = together(
    click.option(
        "--engine",
        default="local",
        show_default=True,
        metavar="NAME",
        shell_complete=_complete_engine,
        help="What trains and evaluates: a3c-zoo list engines.",
    ),
    click.option(
        "--address", metavar="ADDRESS", help="The engine's machines, such as HOST:PORT of a cluster."
    ),
    click.option(
        "--engine-option",
        multiple=True,
        metavar="KEY=VALUE",
        help="A setting of the engine; may be repeated.",
    ),
)


def chosen_engine(options: dict[str, Any]) -> Engine:
    """Opens the engine that the options name, and takes them out. Raises what `open_engine` does."""
    from a3c_zoo.engines.choice import open_engine
    from a3c_zoo.plugins.registry import get_registry

    name, address, given = (options.pop(key) for key in ("engine", "address", "engine_option"))
    return open_engine(get_registry(), name, given, {} if address is None else {"address": address})
