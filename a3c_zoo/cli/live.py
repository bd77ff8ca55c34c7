"""Text that is redrawn in place on a terminal.

rich is imported with the first figures, not before: until then the fork server and torch need the cores.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live


class LiveDisplay:
    """A table or panel below the printed lines.

    Args:
        to_stderr: write to stderr in place of stdout.

    Attributes:
        is_live: whether the stream is a terminal; if not, nothing is drawn.
    """

    def __init__(self, to_stderr: bool = False) -> None:
        self._to_stderr = to_stderr
        self.is_live = (sys.stderr if to_stderr else sys.stdout).isatty()
        self._live: Live | None = None

    def say(self, text: str) -> None:
        """Prints a line, above the table or panel."""
        if self._live is not None:
            self._live.console.print(text, highlight=False, markup=False)
        else:
            click.echo(text, err=self._to_stderr)

    def draw(self, shown: RenderableType) -> None:
        """Replaces the table or panel; call it only if `is_live`."""
        if self._live is None:
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=self._to_stderr), auto_refresh=False)
            self._live.start()
        self._live.update(shown, refresh=True)

    def close(self) -> None:
        """Leaves the last table or panel on the screen."""
        if self._live is not None:
            self._live.stop()
            self._live = None
