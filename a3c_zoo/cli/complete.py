"""Shell completion of names, for `shell_complete=` of arguments and options.

The parameters that the callbacks look at are called `env` and `agent`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import click
from click.shell_completion import CompletionItem


def complete_env(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Environment names, and the examples of families."""
    from a3c_zoo.plugins.registry import get_registry

    registry = get_registry()
    described = {entry.name: entry.description for entry in registry.envs.values()}
    for family in registry.families.values():
        described |= dict.fromkeys(family.examples, family.description)
    return _matching(described, incomplete)


def complete_agent(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of agents and baselines."""
    from a3c_zoo.plugins.registry import get_registry

    return _matching({entry.name: entry.description for entry in get_registry().agents.values()}, incomplete)


def complete_set(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Hyperparameter sets of the environment on the command line, or of all environments; then files."""
    from a3c_zoo.config.sets import list_sets, sets_for
    from a3c_zoo.errors import ZooError
    from a3c_zoo.plugins.registry import get_registry

    registry, env = get_registry(), ctx.params.get("env")
    try:
        sets = sets_for(registry, registry.env(env)) if env else list_sets(registry)
    except ZooError:  # an unknown environment; the command itself reports it
        sets = []
    items = _matching({each.name: each.source for each in sets}, incomplete)
    return items or [CompletionItem(incomplete, type="file")]


def complete_run(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Run directories below the runs directory, which is `runs` unless the line says otherwise."""
    folder = Path(ctx.params.get("runs_dir") or "runs")
    runs = sorted(path.parent for path in folder.glob("*/config.yml"))
    return _matching({str(run): "" for run in runs}, incomplete) or [CompletionItem(incomplete, type="dir")]


def _matching(described: Mapping[str, str], incomplete: str) -> list[CompletionItem]:
    names: Iterable[str] = (name for name in described if name.startswith(incomplete))
    return [CompletionItem(name, help=described[name] or None) for name in names]
