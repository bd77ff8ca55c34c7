"""Screens show the pictures of a game: the terminal, a window, a video file.

A picture is `[H, W, 3]`, uint8, RGB. Each screen has two methods: `show` shows a picture for 1 / `fps` seconds, and
`close` closes the screen.
"""

from __future__ import annotations

import functools
import itertools
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from rich.color import Color
from rich.console import Console, ConsoleOptions
from rich.live import Live
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from a3c_zoo.cures import install_extra
from a3c_zoo.display.terminals import open_blocks
from a3c_zoo.errors import ZooError
from a3c_zoo.hardware import UNSEEN, has_display
from a3c_zoo.runs.videos import VideoFile, enlarge
from a3c_zoo.standard_streams import is_dumb
from a3c_zoo.system import CTRL_Z, is_in_foreground

#: On a narrower terminal the line below the picture names one key.
NARROW: Final = 70


class ClosedError(Exception):
    """The user has closed the window."""


class Pace:
    """Waits after each picture until its time is over. Drawing takes part of this time."""

    _end_s = 0.0

    def wait(self, fps: float) -> None:
        """Waits until 1 / `fps` seconds after the end of the last picture. A delay does not shorten later pictures."""
        now = time.monotonic()
        self._end_s = max((self._end_s or now) + 1 / fps, now)
        time.sleep(self._end_s - now)


def resize(picture: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Returns the picture in another size. Pixels that share a place are averaged, so no thin line is lost."""
    return np.asarray(Image.fromarray(picture).resize((width, height), Image.Resampling.BOX))


class HalfBlocks:
    """A picture for rich, as large as fits. Its proportions are right if characters are twice as high as wide.

    Each character shows two pixels: ▀ has the colour of the upper one, its background that of the lower one.
    """

    def __init__(self, picture: NDArray[np.uint8]) -> None:
        self._picture = picture

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        height, width, _ = self._picture.shape
        scale = min(options.max_width / width, 2 * (options.height or console.height) / height)
        rows, columns = max(1, int(height * scale / 2)), max(1, int(width * scale))
        pixels = resize(self._picture, 2 * rows, columns)
        cells = pixels.reshape(rows, 2, columns, 3).swapaxes(1, 2).reshape(rows, columns, 6)
        for row in cells.tolist():
            for colours, equal in itertools.groupby(map(tuple, row)):
                yield Segment("▀" * sum(1 for _ in equal), half_block(colours))
            yield Segment.line()


@functools.lru_cache(maxsize=4096)
def half_block(colours: tuple[int, ...]) -> Style:
    """Returns the style of ▀ for six numbers: red, green and blue of the upper pixel, then of the lower one."""
    return Style(color=Color.from_rgb(*colours[:3]), bgcolor=Color.from_rgb(*colours[3:]))


class PictureAndLine:
    """A picture for rich, and a line below it: what plays, and on the right the keys.

    Args:
        status: what the line says; its end is cut off where there is no room.
    """

    def __init__(self, picture: NDArray[np.uint8], status: str) -> None:
        self._picture = HalfBlocks(picture)
        self._status = status

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment | Text]:
        height = options.height or console.height
        yield from self._picture.__rich_console__(console, options.update(height=max(1, height - 1)))
        keys = "Ctrl-C ends"
        if options.max_width >= NARROW and can_suspend():
            keys += ", Ctrl-Z pauses"
        status = Text(self._status)
        status.truncate(max(1, options.max_width - len(keys) - 2), overflow="ellipsis", pad=True)
        yield Text.assemble(status, "  ", (keys, "dim"), no_wrap=True, overflow="crop")


def can_suspend() -> bool:
    """Whether Ctrl-Z suspends this process."""
    return CTRL_Z is not None and signal.getsignal(CTRL_Z) is not signal.SIG_IGN


class Terminal:
    """Draws over the terminal. `close`, and Ctrl-Z, restore what the terminal showed before.

    Args:
        status: tells what plays, for the line below each picture.

    Raises:
        ZooError: stdout is no terminal, or one that draws nothing.
    """

    def __init__(self, status: Callable[[], str]) -> None:
        if not sys.stdout.isatty():
            raise ZooError("--terminal: stdout is no terminal; --video FILE.mp4 needs none")
        if is_dumb():
            term = os.environ["TERM"]
            raise ZooError(
                f"--terminal: a terminal with TERM={term} draws nothing; --video FILE.mp4 needs none"
            )
        self._status = status
        self._live: Live | None = None
        self._pace = Pace()
        self._was_left = self._is_drawing = self._is_stop_due = False
        open_blocks.append(self)

    def show(self, picture: NDArray[np.uint8], fps: float) -> None:
        """Shows a picture, and a line below it. A process that the shell sent to the background shows nothing."""
        if not self._was_left or is_in_foreground(sys.stdout):
            self._is_drawing = True
            try:
                self._draw(picture)
            finally:
                self._is_drawing = False
                self._stop_if_due()
        self._pace.wait(fps)

    def _draw(self, picture: NDArray[np.uint8]) -> None:
        if self._live is None:
            # The picture is nothing but colours: NO_COLOR is not meant for it.
            console = Console(no_color=False)
            self._live = Live(console=console, screen=True, auto_refresh=False)
            self._live.start()
        self._live.update(PictureAndLine(picture, self._status()), refresh=True)

    def leave(self) -> bool:
        """Before Ctrl-Z stops this process: the shell gets its screen. False if the stop must wait."""
        if self._is_drawing:
            self._is_stop_due = True
            return False
        self._restore()
        self._was_left = True
        return True

    def _stop_if_due(self) -> None:
        """A Ctrl-Z that came while a picture was half drawn."""
        if self._is_stop_due:
            self._is_stop_due = False
            assert CTRL_Z is not None
            os.kill(os.getpid(), CTRL_Z)

    def _restore(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def close(self) -> None:
        open_blocks.remove(self)
        self._restore()


class Window:
    """Shows pictures in a window.

    Raises:
        ZooError: there is no display, or pygame is missing. `show` raises ClosedError after the user closed the window.
    """

    def __init__(self) -> None:
        if not has_display() and not os.environ.get("SDL_VIDEODRIVER"):  # SDL's driver may need no display
            raise ZooError("--window: there is no display; --terminal and --video FILE.mp4 need none")
        os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
        try:
            import pygame
        except ImportError as error:
            raise ZooError(
                f"--window needs pygame: {install_extra('play')}; --terminal and --video FILE.mp4 don't"
            ) from error
        self._pygame = pygame
        self._surface: Any = None
        self._pace = Pace()

    def show(self, picture: NDArray[np.uint8], fps: float) -> None:
        """Shows a picture `[H, W, 3]`, enlarged if it is small; the first one opens the window."""
        pygame = self._pygame
        picture = enlarge(picture)
        if self._surface is None:
            try:
                pygame.display.init()
                # SDL draws where nobody looks if it cannot open the display, such as that of a closed connection.
                if pygame.display.get_driver() in UNSEEN and not os.environ.get("SDL_VIDEODRIVER"):
                    raise ZooError(
                        "--window: the display cannot be opened; --terminal and --video FILE.mp4 need none"
                    )
                self._surface = pygame.display.set_mode(picture.shape[1::-1])
            except pygame.error as error:
                raise ZooError(f"--window: {error}; --terminal and --video FILE.mp4 need none") from error
            pygame.display.set_caption("a3c-zoo")
        pygame.surfarray.blit_array(self._surface, picture.swapaxes(0, 1))  # pygame's first axis is x
        pygame.display.flip()
        if any(event.type == pygame.QUIT for event in pygame.event.get()):
            raise ClosedError
        self._pace.wait(fps)

    def close(self) -> None:
        if self._surface is not None:
            self._pygame.display.quit()


def open_screens(
    window: bool, terminal: bool, video: Path | None, status: Callable[[], str]
) -> Iterator[Window | Terminal | VideoFile]:
    """Opens the chosen screens. If none is chosen, opens a window, or draws in the terminal if there is no display.

    Args:
        status: see `Terminal`.
    """
    if not (window or terminal or video):
        window = has_display()
        terminal = not window
        if terminal and not sys.stdout.isatty():
            raise ZooError(
                "there is no display, and stdout is no terminal; give --video FILE.mp4 or FILE.gif"
            )
    if video:
        yield VideoFile(video)
    if window:
        yield Window()
    if terminal:
        yield Terminal(status)
