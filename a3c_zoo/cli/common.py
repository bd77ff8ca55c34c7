"""What several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from a3c_zoo.registry import Registry


def warn_about_faults(registry: Registry) -> None:
    """Writes one line to stderr for each plugin that is left out because something is wrong with it."""
    for info in registry.faults:
        click.echo(f"Warning: {info} is left out: {info.fault}", err=True)
