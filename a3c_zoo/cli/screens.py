"""Where pictures of play are shown: the terminal, a window; `video.py` films. A picture is `[H, W, 3]`, uint8, RGB."""

from __future__ import annotations

import functools
import itertools
import os
import sys
import time
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from rich.color import Color
from rich.live import Live
from rich.segment import Segment
from rich.style import Style

from a3c_zoo.errors import ZooError
from a3c_zoo.hardware import has_display

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from rich.console import Console, ConsoleOptions

#: Smaller pictures are enlarged to about this height, in pixels, for videos and windows.
HEIGHT = 420


class ClosedError(Exception):
    """The user has closed the window."""


class Screen(Protocol):
    """Shows pictures, one after the other."""

    def show(self, picture: NDArray[np.uint8], fps: float) -> None:
        """Shows a picture for 1 / `fps` seconds. Raises ClosedError after the window was closed."""
        ...

    def close(self) -> None:
        """Ends the show."""
        ...


class Pace:
    """Waits until a picture's time is over; the time that drawing took is part of it."""

    def __init__(self) -> None:
        self._end_s: float | None = None

    def wait(self, fps: float) -> None:
        """Waits until 1 / `fps` seconds after the last picture's end; time that was lost is not made up for."""
        now = time.monotonic()
        self._end_s = max((self._end_s or now) + 1 / fps, now)
        time.sleep(self._end_s - now)


def enlarge(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Repeats each pixel of a small picture, up to about `HEIGHT` pixels of height."""
    times = max(1, round(HEIGHT / len(picture)))
    return picture.repeat(times, axis=0).repeat(times, axis=1)


def resize(picture: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """A picture of another size. Pixels that fall together are averaged, so that no thin line is lost."""
    result = picture.astype(np.float32)
    for axis, size in enumerate((height, width)):
        edges = np.arange(size + 1) * picture.shape[axis] // size
        counts = np.maximum(np.diff(edges), 1).reshape([-1 if axis == each else 1 for each in range(3)])
        result = np.add.reduceat(result, edges[:-1], axis) / counts
    return result.round().astype(np.uint8)


# The terminal


class HalfBlocks:
    """A picture for rich: two pixels in each character, the upper half block ▀ in front of the lower one's colour.

    It is made as large as fits, with its proportions: a character is taken to be twice as high as wide.
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
            for colours, run in itertools.groupby(map(tuple, row)):
                yield Segment("▀" * sum(1 for _ in run), half_block(colours))
            yield Segment.line()


@functools.lru_cache(maxsize=4096)
def half_block(colours: tuple[int, ...]) -> Style:
    """The style of a half block: red, green and blue of the upper pixel, then of the lower one."""
    return Style(color=Color.from_rgb(*colours[:3]), bgcolor=Color.from_rgb(*colours[3:]))


class Terminal:
    """Draws in the terminal, on a page of its own, at the game's speed.

    Raises:
        ZooError: stdout is no terminal.
    """

    def __init__(self) -> None:
        if not sys.stdout.isatty():
            raise ZooError("--terminal: stdout is no terminal; --video FILE.mp4 needs none")
        self._live: Live | None = None
        self._pace = Pace()

    def show(self, picture: NDArray[np.uint8], fps: float) -> None:
        """Draws a picture over the last one."""
        if self._live is None:
            self._live = Live(screen=True, auto_refresh=False)
            self._live.start()
        self._live.update(HalfBlocks(picture), refresh=True)
        self._pace.wait(fps)

    def close(self) -> None:
        """Shows again what the terminal showed before."""
        if self._live is not None:
            self._live.stop()


# A window


class Window:
    """Shows pictures in a window, at the game's speed, until it is closed.

    Raises:
        ZooError: there is no display, or pygame is missing.
    """

    def __init__(self) -> None:
        if not has_display() and not os.environ.get("SDL_VIDEODRIVER"):  # one that shows nothing may be asked for
            raise ZooError("--window: there is no display; --terminal and --video FILE.mp4 need none")
        os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
        try:
            import pygame
        except ImportError as error:
            raise ZooError(
                "--window needs pygame: pip install 'a3c-zoo[play]'; --terminal and --video FILE.mp4 don't"
            ) from error
        self._pygame = pygame
        self._surface: Any = None
        self._pace = Pace()

    def show(self, picture: NDArray[np.uint8], fps: float) -> None:
        """Shows a picture."""
        pygame = self._pygame
        picture = enlarge(picture)
        if self._surface is None:
            self._surface = self._open(picture.shape[1::-1])
        pygame.surfarray.blit_array(self._surface, picture.swapaxes(0, 1))  # x comes first there
        pygame.display.flip()
        if any(event.type == pygame.QUIT for event in pygame.event.get()):
            raise ClosedError
        self._pace.wait(fps)

    def _open(self, size: tuple[int, ...]) -> Any:
        try:
            self._pygame.display.init()
            surface = self._pygame.display.set_mode(size)
        except self._pygame.error as error:
            raise ZooError(f"--window: {error}; --terminal and --video FILE.mp4 need none") from error
        self._pygame.display.set_caption("a3c-zoo")
        return surface

    def close(self) -> None:
        """Closes the window."""
        if self._surface is not None:
            self._pygame.display.quit()
