"""A block of lines at the end of a terminal, which is drawn again in its place. Other lines are printed above it.

rich renders the block. Its own `Live` counts the lines that it has drawn: after a resize the terminal may have wrapped
them into more, and after Ctrl-Z the shell has written below them. Then pieces of the old block stay on the screen.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any, TextIO, cast

from rich.console import Console, ConsoleRenderable, RenderHook
from rich.constrain import Constrain
from rich.control import Control
from rich.file_proxy import FileProxy
from rich.segment import ControlType, Segment, Segments
from rich.text import Text

from a3c_zoo.display.terminals import ECHO, leave_terminal, open_blocks
from a3c_zoo.system import CONTINUE, CTRL_Z, is_in_foreground, stop_itself


class LiveBlock(RenderHook):
    """Draws a block below the printed lines, from now until `close`.

    What this process prints to stdout and stderr meanwhile goes above the block.

    Args:
        to_stderr: write to stderr in place of stdout.
    """

    def __init__(self, to_stderr: bool) -> None:
        self.console = Console(stderr=to_stderr)
        self._block: ConsoleRenderable = Text()
        # The widths of the lines on the screen, in characters. It is empty if there is nothing to replace.
        self._widths: list[int] = []
        self._is_writing = self._is_stop_due = self._is_last = False
        self._has_cursor_hidden = False
        self._streams = sys.stdout, sys.stderr
        self._stream = sys.stderr if to_stderr else sys.stdout
        sys.stdout, sys.stderr = map(self._above, self._streams)
        self._on_continue: Any = None
        self._stops_itself = False
        if CTRL_Z is not None and threading.current_thread() is threading.main_thread():
            self._on_continue = signal.signal(CONTINUE, self._continue)
            if signal.getsignal(CTRL_Z) is signal.SIG_DFL:
                signal.signal(CTRL_Z, self._suspend)
                self._stops_itself = True
        self.console.push_render_hook(self)
        open_blocks.append(self)

    def _above(self, stream: TextIO) -> TextIO:
        """A stream in place of one of a terminal, which writes above the block; others stay as they are."""
        if stream.isatty():
            return cast(TextIO, FileProxy(self.console, stream))
        return stream

    @property
    def width(self) -> int:
        """How many characters a line of the block has room for."""
        return self.console.width - ECHO

    def draw(self, block: ConsoleRenderable) -> None:
        """Replaces the block. A process in the background draws nothing: the terminal is its shell's."""
        self._block = block
        if is_in_foreground(self._stream):
            if not self._has_cursor_hidden:
                self.console.show_cursor(False)
                self._has_cursor_hidden = True
            self._print(Control())

    def say(self, text: str) -> None:
        """Prints lines above the block."""
        self._print(Text(text))

    def close(self) -> None:
        """Draws the whole block for the last time, however high it is, and leaves it on the screen."""
        self._is_last = True
        try:
            if is_in_foreground(self._stream):
                self._print(Control())
        finally:
            open_blocks.remove(self)
            self.console.pop_render_hook()
            sys.stdout, sys.stderr = self._streams
            if self._widths:
                self.console.line()
            if self._has_cursor_hidden:
                self.console.show_cursor(True)
            if CTRL_Z is not None and self._stops_itself and signal.getsignal(CTRL_Z) == self._suspend:
                signal.signal(CTRL_Z, signal.SIG_DFL)
            if self._on_continue is not None:
                signal.signal(CONTINUE, self._on_continue)

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """What rich writes in place of what is printed: to the top of the old block, the lines, and the new block."""
        if not is_in_foreground(self._stream):
            return renderables
        size = self.console.size
        options = self.console.options.update(width=size.width)  # those of `print` may be without markup
        lines = self.console.render_lines(Constrain(self._block, self.width), options, pad=False)
        lines = [_without_blanks(line) for line in lines]
        if not self._is_last:
            lines = lines[: max(1, size.height - 1)]
        to_top = self._to_top(size.width)
        self._widths = [Segment.get_line_length(line) for line in lines]
        return [to_top, *renderables, Segments(_joined(lines))]

    def _to_top(self, width: int) -> Control:
        """Erases the old block, from its last line, where the cursor is, to its first one."""
        if not self._widths:
            return Control()
        rows = rows_on_screen(self._widths, width)
        up = (ControlType.CURSOR_UP, 1), (ControlType.ERASE_IN_LINE, 2)
        return Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2), *(up * (rows - 1)))

    def _print(self, content: ConsoleRenderable) -> None:
        """Prints something above the block. A Ctrl-Z meanwhile comes after it: half a block cannot be replaced."""
        self._is_writing = True
        try:
            self.console.print(content)
        finally:
            self._is_writing = False
            if self._is_stop_due:
                self._is_stop_due = False
                assert CTRL_Z is not None
                os.kill(os.getpid(), CTRL_Z)

    def leave(self) -> bool:
        """Before Ctrl-Z stops this process: the shell gets a new line and a cursor. False if the stop must wait."""
        if self._is_writing:
            self._is_stop_due = True
            return False
        if is_in_foreground(self._stream):
            self._stream.write("\n\x1b[?25h" if self._widths else "\x1b[?25h")
            self._stream.flush()
        self._widths = []
        self._has_cursor_hidden = False
        return True

    def _suspend(self, number: int, frame: FrameType | None) -> None:
        """Ctrl-Z in a command that has no handler of its own."""
        if leave_terminal():
            stop_itself()

    def _continue(self, number: int, frame: FrameType | None) -> None:
        """After a stop: what was drawn before stays above, where the shell has written since."""
        self._widths = []


def rows_on_screen(widths: Sequence[int], screen_width: int) -> int:
    """How many rows lines take on a screen that has become narrower since they were written."""
    if not _wraps_anew():
        return len(widths)
    return sum(max(1, math.ceil(width / screen_width)) for width in widths)


def _wraps_anew() -> bool:
    """Whether the terminal wraps its lines anew when its width changes; xterm, Linux's console and screen cut them."""
    if "TMUX" in os.environ:
        return True
    term = os.environ.get("TERM", "")
    return not ("XTERM_VERSION" in os.environ or term == "linux" or term.startswith("screen"))


def _without_blanks(line: list[Segment]) -> list[Segment]:
    """A line without blanks at its end: a narrower terminal would wrap them."""
    kept = list(line)
    while kept and not kept[-1].text.strip():
        kept.pop()
    if kept:
        text, style, control = kept[-1]
        kept[-1] = Segment(text.rstrip(), style, control)
    return kept


def _joined(lines: Sequence[Sequence[Segment]]) -> Iterator[Segment]:
    """Lines with line ends between them, none behind the last one."""
    for number, line in enumerate(lines):
        if number:
            yield Segment.line()
        yield from line
