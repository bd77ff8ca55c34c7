"""Displays: each shows what a source tells it, in its own way and at its own pace.

A source says what there is to see: a block of lines where it can change in place, a line where it can't.

| display | where | what it shows |
| --- | --- | --- |
| `TerminalDisplay` | a terminal | the block, drawn again in its place |
| `NotebookDisplay` | a Jupyter kernel | the block, as one output of the cell that changes |
| `LineDisplay` | a pipe, a log, a dumb terminal | a line now and then |
| `Display` | `--quiet`, scripts | nothing |

rich is imported with the first block, not before: until then the fork server and torch need the cores.
"""

from __future__ import annotations

import math
import sys
import time
from collections import deque
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol

import click

from a3c_zoo.display.terminals import WaitingLine
from a3c_zoo.errors import ZooError, printable_lines
from a3c_zoo.standard_streams import is_dumb
from a3c_zoo.system import is_in_foreground

if TYPE_CHECKING:
    from rich.console import ConsoleRenderable

    from a3c_zoo.display.live_block import LiveBlock

#: Characters of a line of a notebook: as many as rich gives its own output there.
NOTEBOOK_WIDTH: Final = 115
#: The newest lines that a notebook shows above its block.
NOTEBOOK_LINES: Final = 100


class Source(Protocol):
    """What is shown."""

    def block(self, width: int) -> ConsoleRenderable:
        """The block as it is now, at most `width` characters wide."""

    def line(self) -> str:
        """The same in one line; "" if there is nothing to say."""


class Display:
    """Shows nothing.

    Attributes:
        is_live: whether it has a block that changes, so that there is no need of a line for each event.
        every_s: the least time between two changes, in seconds.
    """

    is_live = False
    every_s = math.inf
    _next_s = math.inf

    def say(self, text: str) -> None:
        """Shows a line, which stays."""

    def wait(self, text: str) -> None:
        """Says what is waited for, until something is shown. It is called again when there is news."""

    @property
    def is_due(self) -> bool:
        """Whether it is time to show something."""
        return time.monotonic() >= self._next_s

    def show(self, source: Source) -> None:
        """Shows what a source has now, whether or not it is time."""
        self._next_s = time.monotonic() + self.every_s

    def close(self) -> None:
        """Leaves what was shown last."""


class LineDisplay(Display):
    """Prints lines. to_stderr: to stderr in place of stdout."""

    every_s = 5.0
    _next_s = 0.0

    def __init__(self, to_stderr: bool = False) -> None:
        self._to_stderr = to_stderr
        self._waits_since_s: float | None = None

    def say(self, text: str) -> None:
        click.echo(printable_lines(text), err=self._to_stderr)

    def wait(self, text: str) -> None:
        now = time.monotonic()
        self._waits_since_s = self._waits_since_s or now
        if now - self._waits_since_s >= self.every_s:
            self._waits_since_s = now
            self.say(text)

    def show(self, source: Source) -> None:
        super().show(source)
        if line := source.line():
            self.say(line)


class TerminalDisplay(Display):
    """Draws the block below the printed lines. to_stderr: on stderr in place of stdout.

    A process in the background prints lines in place of the block: the terminal is its shell's. So does one that
    `timeout` has started, because it is in a group of its own.
    """

    is_live = True
    every_s = 0.25
    _next_s = 0.0

    def __init__(self, to_stderr: bool = False) -> None:
        self._to_stderr = to_stderr
        self._waiting = WaitingLine(to_stderr)
        self._block: LiveBlock | None = None
        self._stream = sys.stderr if to_stderr else sys.stdout
        self._in_background = LineDisplay(to_stderr)
        self._next_line_s = 0.0

    def say(self, text: str) -> None:
        text = printable_lines(text)
        if self._block is not None:
            self._block.say(text)
            return
        with self._waiting.aside():
            click.echo(text, err=self._to_stderr)

    def wait(self, text: str) -> None:
        if not is_in_foreground(self._stream):
            self._in_background.wait(text)
        elif self._block is None:
            self._waiting.say(text)

    def show(self, source: Source) -> None:
        super().show(source)
        if not is_in_foreground(self._stream):
            self._waiting.end()
            if time.monotonic() >= self._next_line_s:
                self._next_line_s = time.monotonic() + LineDisplay.every_s
                self._in_background.show(source)
            return
        if self._block is None:
            from a3c_zoo.display.live_block import LiveBlock

            self._waiting.end()
            self._block = LiveBlock(self._to_stderr)
        self._block.draw(source.block(self._block.width))

    def close(self) -> None:
        self._waiting.end()
        if self._block is not None:
            self._block.close()
            self._block = None


class NotebookDisplay(Display):
    """Shows lines and block as one output of a cell, with its colours; as plain text where there is no HTML."""

    is_live = True
    every_s = 0.5
    _next_s = 0.0

    def __init__(self) -> None:
        self._display: Any = import_module("IPython.display").display
        self._handle: Any = None
        self._lines: deque[str] = deque(maxlen=NOTEBOOK_LINES)
        self._source: Source | None = None

    def say(self, text: str) -> None:
        self._lines.append(printable_lines(text))
        self._update()

    def show(self, source: Source) -> None:
        super().show(source)
        self._source = source
        self._update()

    def _update(self) -> None:
        from rich.console import Group
        from rich.jupyter import JupyterMixin
        from rich.text import Text

        class Shown(Group, JupyterMixin):
            """A group that a notebook can show."""

        parts: list[ConsoleRenderable] = [Text(line) for line in self._lines]
        if self._source is not None:
            parts.append(self._source.block(NOTEBOOK_WIDTH))
        if self._handle is None:
            self._handle = self._display(Shown(*parts), display_id=True)
        else:
            self._handle.update(Shown(*parts))


def open_display(quiet: bool = False, to_stderr: bool = False) -> Display:
    """The display of a command: of its terminal, or lines where there is none. quiet: it shows nothing."""
    if quiet:
        return Display()
    stream = sys.stderr if to_stderr else sys.stdout
    if stream.isatty() and not is_dumb():
        return TerminalDisplay(to_stderr)
    return LineDisplay(to_stderr)


def display_of_python(progress: bool | None, watcher: object, name: str) -> Display:
    """The display of a call from Python.

    Args:
        progress: True: in scripts as a command has it, on stderr. None: only in notebooks. False: nothing.
        watcher: who is told the progress in place of a display; None if nobody is. name: the argument that gave it.

    Raises:
        ZooError: there is a watcher, and `progress` is True.
    """
    if progress and watcher is not None:
        raise ZooError(f"progress=True shows the progress, and {name} is told it: give one of the two")
    if progress is False:
        return Display()
    ipython: Any = sys.modules.get("IPython")
    is_notebook = getattr(ipython and ipython.get_ipython(), "kernel", None) is not None
    if is_notebook:
        return NotebookDisplay()
    return open_display(quiet=not progress, to_stderr=True)
