"""Tables without lines: full width in files and pipes, fitted to the width of a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.table import Table


def print_plain(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Prints columns of their full width: nothing is cut off or wrapped."""
    lines = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def make_table(header: Sequence[str], unbroken: str, title: str | None = None) -> Table:
    """Makes an empty table for a terminal; long cells are wrapped, except in the column `unbroken`."""
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in header:
        table.add_column(name, overflow="fold", no_wrap=name == unbroken)
    return table
