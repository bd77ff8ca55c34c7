"""Films a terminal in which `a3c-zoo play pong --terminal` plays: docs/terminal.gif, for README.

    python benchmarks/terminal.py

It reads what the command writes to a terminal of 80 × 53 characters, and leaves out the line below the picture. The
command must find a trained agent for Pong (`make demo` installs one).
"""

from __future__ import annotations

import argparse
import os
import pty
import re
import signal
import struct
import sys
import termios
from collections.abc import Iterator
from contextlib import closing, suppress
from fcntl import ioctl
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "terminal.gif"
COLUMNS, LINES = 80, 53
#: Pictures that are left out at the beginning, pictures of the film, and milliseconds of each.
SKIPPED, KEPT, PICTURE_MS = 45, 90, 67
#: Pixels of one half of a character, which is as wide as it is high.
SIZE = 4
HOME = b"\x1b[H"
BLOCK = re.compile("\x1b\\[38;2;(\\d+);(\\d+);(\\d+);48;2;(\\d+);(\\d+);(\\d+)m(▀+)")


def screens(command: list[str]) -> Iterator[str]:
    """What a command writes between two returns of the cursor to the corner, until the caller has enough."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ |= {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
        os.execv(command[0], command)
    ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    content = b""
    try:
        while True:
            *complete, content = (content + os.read(terminal, 1 << 16)).split(HOME)
            yield from (screen.decode() for screen in complete)
    finally:
        os.kill(child, signal.SIGINT)
        with suppress(OSError):  # Linux's end of a terminal whose program has ended
            while os.read(terminal, 1 << 16):
                pass
        os.waitpid(child, 0)


def pixels(screen: str) -> NDArray[np.uint8] | None:
    """The colours of a screen of half blocks, `[2 · lines, columns, 3]`; None if there are none."""
    lines = []
    for line in screen.splitlines():
        cells = [list(map(int, found.groups()[:6])) for found in BLOCK.finditer(line) for _ in found[7]]
        if cells:
            lines += [[cell[:3] for cell in cells], [cell[3:] for cell in cells]]
    return np.array(lines, np.uint8) if lines and len({len(line) for line in lines}) == 1 else None


def main() -> None:
    """Writes the film."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    command = [str(Path(sys.executable).with_name("a3c-zoo")), "play", "pong", "--terminal"]
    pictures: list[Image.Image] = []
    with closing(screens(command)) as shown:
        for screen in shown:
            if (found := pixels(screen)) is not None:
                pictures.append(Image.fromarray(found.repeat(SIZE, axis=0).repeat(SIZE, axis=1)))
            if len(pictures) == SKIPPED + KEPT:
                break
    first, *rest = pictures[SKIPPED:]
    first.save(PICTURE, save_all=True, append_images=rest, duration=PICTURE_MS, loop=0, optimize=True)
    print(f"{PICTURE}: {PICTURE.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
