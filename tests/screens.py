"""A terminal in a test: a real pty, and a model of the screen that what it was sent makes.

The model wraps its lines anew when its width changes, as tmux and most terminal programs do.
"""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from tests.waits import LIMIT_S, wait_until

#: What a terminal obeys: up, erase a line, erase below, begin and end of line, cursor, colours, and characters.
_PARTS = re.compile(r"\x1b\[(?P<numbers>[0-9;?]*)(?P<letter>[A-Za-z])|(?P<char>.)", re.DOTALL)

_PART_OF_SEQUENCE = re.compile(r"\x1b(\[[0-9;?]*)?$")


class Screen:
    """A screen of so many columns, endlessly high.

    Attributes:
        width: in characters. has_cursor: whether the cursor is shown.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.has_cursor = True
        self._unread = ""  # the begin of a sequence whose rest has not come yet
        self._lines: list[list[str]] = [[]]  # as they were written, without the ends that the width makes
        self._line = self._place = 0

    def feed(self, text: str) -> None:
        """Takes in what a program, or the user's shell, writes."""
        text = self._unread + text
        part = _PART_OF_SEQUENCE.search(text)
        end = part.start() if part else len(text)
        self._unread = text[end:]
        for match in _PARTS.finditer(text[:end]):
            if match["char"] is None:
                self._obey(match["letter"], match["numbers"])
            else:
                self._write(match["char"])

    def _write(self, char: str) -> None:
        if char == "\n":
            self._line += 1
            self._place = 0
            if self._line == len(self._lines):
                self._lines.append([])
        elif char == "\r":
            self._place -= self._place % self.width
        else:
            line = self._lines[self._line]
            line += [" "] * (self._place - len(line))
            line[self._place : self._place + 1] = [char]
            self._place += 1

    def _obey(self, letter: str, numbers: str) -> None:
        if letter == "A":
            for _ in range(int(numbers or 1)):
                self._up()
        elif letter == "K" and numbers == "2":
            start = self._place - self._place % self.width
            line = self._lines[self._line]
            is_last = len(line) <= start + self.width
            line[start : start + self.width] = [] if is_last else [" "] * self.width
        elif numbers == "?25":
            self.has_cursor = letter == "h"
        else:
            assert letter == "m", f"the model of a screen does not know {letter}"

    def _up(self) -> None:
        column = self._place % self.width
        if self._place >= self.width:
            self._place -= self.width
        elif self._line > 0:
            self._line -= 1
            rows = max(1, -(-len(self._lines[self._line]) // self.width))
            self._place = (rows - 1) * self.width + column

    @property
    def rows(self) -> list[str]:
        """What stands in each row, without blanks at its end; without empty rows at the end of the screen."""
        found = []
        for line in self._lines:
            text = "".join(line)
            found += [text[start : start + self.width].rstrip() for start in range(0, max(1, len(text)), self.width)]
        while found and not found[-1]:
            found.pop()
        return found


@dataclass
class Shown:
    """A program in a terminal of its own."""

    process: subprocess.Popen[bytes]
    parent: int
    screen: Screen
    _decoder: codecs.IncrementalDecoder = field(default_factory=codecs.getincrementaldecoder("utf-8"))

    def resize(self, width: int) -> None:
        """The user changes the width of the terminal."""
        set_size(self.parent, width)
        self.screen.width = width

    def tell(self, line: str) -> None:
        """Writes a line to the program's stdin, and takes in what it shows until it answers."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()
        self.read_answer()

    def read_answer(self) -> None:
        """Takes in what the program shows, until a line `done` on its stderr."""
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        assert line == b"done\n", line + self.process.stderr.read()
        self.read()

    def read(self) -> None:
        """Takes in what the terminal has been sent by now."""
        os.set_blocking(self.parent, False)
        try:
            while data := os.read(self.parent, 65536):
                self.screen.feed(self._decoder.decode(data))
        except BlockingIOError:
            return
        except OSError:  # Linux reports the end of a terminal as an error
            return

    def wait_for(self, condition: Callable[[list[str]], bool]) -> None:
        """Takes in what the program shows until the rows of the screen fulfil a condition."""

        def is_fulfilled() -> bool:
            self.read()
            return condition(self.screen.rows)

        wait_until(is_fulfilled)

    def wait_until_stopped(self) -> None:
        """Until Ctrl-Z has stopped the program."""
        path = Path(f"/proc/{self.process.pid}/stat")
        wait_until(lambda: path.read_text().rsplit(")")[-1].split()[0] == "T")
        self.read()

    def signal(self, number: int) -> None:
        self.process.send_signal(number)


def set_size(terminal: int, width: int, height: int = 50) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))


@contextmanager
def shown(
    program: str, width: int, variables: Mapping[str, str] = MappingProxyType({}), height: int = 50
) -> Iterator[Shown]:
    """Runs a Python program whose stdout is a terminal, and whose stdin and stderr are pipes."""
    parent, child = pty.openpty()
    set_size(parent, width, height)
    unset = ("COLUMNS", "LINES", "NO_COLOR", "TMUX", "XTERM_VERSION")
    environ = {name: value for name, value in os.environ.items() if name not in unset}
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", program],
        stdin=subprocess.PIPE,
        stdout=child,
        stderr=subprocess.PIPE,
        env=environ | {"TERM": "xterm-256color", **variables},
    )
    os.close(child)
    try:
        yield Shown(process, parent, Screen(width))
    finally:
        process.kill()
        process.send_signal(signal.SIGCONT)
        process.communicate(timeout=LIMIT_S)
        os.close(parent)
