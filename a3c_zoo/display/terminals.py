"""What terminals need without rich: a line while the user waits, and a screen in order when Ctrl-Z calls the shell."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from a3c_zoo.system import is_in_foreground

#: Columns on the right that stay free for the `^C` that a terminal writes; it would begin a line that stays.
ECHO: Final = 2
#: Seconds of silence at a start, after which a terminal says that it goes on.
SILENCE_S: Final = 1.0


class DrawnBlock(Protocol):
    """A block that is on the screen of this process."""

    def leave(self) -> bool:
        """Before Ctrl-Z stops this process: the shell gets a new line and a cursor. False if the stop must wait."""


#: The blocks that are on the screen of this process.
open_blocks: list[DrawnBlock] = []


def leave_terminal() -> bool:
    """Makes the terminal ready for the shell that Ctrl-Z calls.

    Returns:
        False if a block is half drawn. This process then gets the same signal again, once the block is whole.
    """
    left = [block.leave() for block in open_blocks]
    return all(left)


class WaitingLine:
    """One line at the end of a terminal that says what is waited for and for how long; a thread writes it.

    It needs no rich, and no call while a library is imported. to_stderr: on stderr in place of stdout.
    """

    def __init__(self, to_stderr: bool) -> None:
        self._stream = sys.stderr if to_stderr else sys.stdout
        self._text = ""
        self._since_s = 0.0
        self._is_shown = False
        self._lock = threading.RLock()
        self._ended: threading.Event | None = None

    def say(self, text: str) -> None:
        """From now on the line has this text."""
        self._text = text
        if self._ended is None:
            self._since_s = time.monotonic()
            self._ended = threading.Event()
            threading.Thread(
                target=self._watch, args=(self._ended,), name="a3c-zoo waits", daemon=True
            ).start()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Takes the line away while the body writes others."""
        with self._lock:
            self._erase()
            yield

    def end(self) -> None:
        """Takes the line away."""
        if self._ended is None:
            return
        self._ended.set()
        self._ended = None
        with self._lock:
            self._erase()

    def _watch(self, ended: threading.Event) -> None:
        while not ended.wait(SILENCE_S):
            with self._lock:
                if not ended.is_set() and is_in_foreground(self._stream):
                    line = f"{self._text}, {time.monotonic() - self._since_s:.0f} s"
                    self._write("\r\x1b[2K" + line[: shutil.get_terminal_size().columns - ECHO])
                    self._is_shown = True

    def _erase(self) -> None:
        if self._is_shown:
            self._write("\r\x1b[2K")
            self._is_shown = False

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
