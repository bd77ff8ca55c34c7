"""Screens show the pictures of a game: the terminal, a window, a video file.

A picture is `[H, W, 3]`, uint8, RGB. Each screen has two methods: `show` shows a picture for 1 / `fps` seconds, and
`close` closes the screen.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from rich.color import Color
from rich.console import Console, ConsoleOptions
from rich.live import Live
from rich.segment import Segment
from rich.style import Style

from a3c_zoo.errors import ZooError
from a3c_zoo.hardware import has_display

#: Smaller pictures are enlarged to about this height, in pixels, for videos and windows.
HEIGHT = 420
#: Most pictures per second in a GIF. Viewers slow down a faster one.
GIF_FPS = 50
#: Longest time that ffmpeg may take to finish a video after its last picture, in seconds.
FINISH_S = 60

ENCODING = {
    # Every player shows these colours; height and width must be even.
    ".mp4": ["-c:v", "libx264", "-pix_fmt", "yuv420p"],
    # Each picture has its own palette: one palette for all would need all pictures in memory.
    ".gif": [
        "-vf",
        f"fps='min(source_fps,{GIF_FPS})',split[a][b];[a]palettegen=stats_mode=single[c];[b][c]paletteuse=new=1:dither=none",
        # ffmpeg leaves out pixels whose number is that of the last picture, also where another palette gave it.
        "-gifflags",
        "-transdiff-offsetting",
    ],
}


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


def enlarge(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Enlarges a small picture by a whole factor, to a height of about `HEIGHT` pixels."""
    times = max(1, round(HEIGHT / len(picture)))
    return picture.repeat(times, axis=0).repeat(times, axis=1)


def resize(picture: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Returns the picture in another size. Pixels that share a place are averaged, so no thin line is lost."""
    result = picture.astype(np.float32)
    for axis, size in enumerate((height, width)):
        edges = np.arange(size + 1) * picture.shape[axis] // size
        counts = np.maximum(np.diff(edges), 1).reshape([-1 if axis == each else 1 for each in range(3)])
        result = np.add.reduceat(result, edges[:-1], axis) / counts
    return result.round().astype(np.uint8)


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
            for colours, run in itertools.groupby(map(tuple, row)):
                yield Segment("▀" * sum(1 for _ in run), half_block(colours))
            yield Segment.line()


@functools.lru_cache(maxsize=4096)
def half_block(colours: tuple[int, ...]) -> Style:
    """Returns the style of ▀ for six numbers: red, green and blue of the upper pixel, then of the lower one."""
    return Style(color=Color.from_rgb(*colours[:3]), bgcolor=Color.from_rgb(*colours[3:]))


class Terminal:
    """Draws over the terminal. `close` restores what the terminal showed before.

    Raises:
        ZooError: stdout is no terminal.
    """

    def __init__(self) -> None:
        if not sys.stdout.isatty():
            raise ZooError("--terminal: stdout is no terminal; --video FILE.mp4 needs none")
        self._live: Live | None = None
        self._pace = Pace()

    def show(self, picture: NDArray[np.uint8], fps: float) -> None:
        if self._live is None:
            self._live = Live(screen=True, auto_refresh=False)
            self._live.start()
        self._live.update(HalfBlocks(picture), refresh=True)
        self._pace.wait(fps)

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()


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
                "--window needs pygame: pip install 'a3c-zoo[play]'; --terminal and --video FILE.mp4 don't"
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


class VideoFile:
    """Writes a new video, .mp4 (H.264) or .gif. ffmpeg encodes each picture at once, so a long game costs no memory.

    The first picture decides the size and the speed of the video. `close` finishes the file.

    Raises:
        ZooError: the file exists or has another ending, or imageio-ffmpeg is missing. `show` and `close` raise it if
            the file cannot be written; the file is then deleted.
    """

    def __init__(self, path: Path) -> None:
        if path.suffix.lower() not in ENCODING:
            raise ZooError(f"--video {path}: must end in .mp4 or .gif")
        if path.exists():
            raise ZooError(f"--video {path}: exists already; delete it, or choose another name")
        try:
            import imageio_ffmpeg

            self._program: str = imageio_ffmpeg.get_ffmpeg_exe()
        except (ImportError, RuntimeError) as error:  # RuntimeError: it has no ffmpeg for this kind of machine
            raise ZooError(f"--video needs imageio-ffmpeg ({error}): pip install 'a3c-zoo[play]'") from error
        self._path = path
        self._shape: tuple[int, ...] | None = None
        self._ffmpeg: subprocess.Popen[bytes] | None = None

    def show(self, picture: NDArray[np.uint8], fps: float) -> None:
        """Adds a picture `[H, W, 3]` of the same size as the first one, which starts ffmpeg."""
        if self._ffmpeg is None:
            self._shape, self._ffmpeg = picture.shape, self._start(padded(picture).shape, fps)
        if picture.shape != self._shape:
            raise ZooError(f"--video {self._path}: a picture of {picture.shape} after those of {self._shape}")
        assert self._ffmpeg.stdin is not None
        try:
            self._ffmpeg.stdin.write(padded(picture).data)
        except OSError:  # ffmpeg has ended; `close` raises its message
            self.close()

    def _start(self, shape: tuple[int, ...], fps: float) -> subprocess.Popen[bytes]:
        height, width, rate = *shape[:2], str(Fraction(fps).limit_denominator(1000))
        pictures = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", rate, "-i", "-"]
        command = [self._program, "-v", "error", *pictures, *ENCODING[self._path.suffix.lower()], "-y"]
        try:
            self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it
            self._path.open("xb").close()  # fails if another process has just made it
        except OSError as error:
            raise self._unwritable(error.strerror or str(error)) from error
        # Not imageio_ffmpeg.write_frames: it ignores the exit status of ffmpeg and does not return its error message.
        try:
            return subprocess.Popen(
                [*command, f"file:{self._path}"],  # `file:` for names like `-x` and `http:x`
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=self._complaints,
                start_new_session=True,  # Ctrl-C reaches only this process, which then finishes the video
                restore_signals=False,  # at the limit of a file's size ffmpeg then gets an error, not a signal
            )
        except OSError as error:
            self._path.unlink()
            raise self._unwritable(f"{self._program}: {error.strerror}") from error

    def close(self) -> None:
        """Waits until ffmpeg has finished the file. Without a picture there is none; a second call does nothing."""
        ffmpeg, self._ffmpeg = self._ffmpeg, None
        if ffmpeg is None:
            return
        assert ffmpeg.stdin is not None
        with suppress(OSError):  # ffmpeg has ended; its status is checked below
            ffmpeg.stdin.close()
        with self._complaints as complaints:
            try:  # a second Ctrl-C ends only this wait; ffmpeg still finishes the video
                status = ffmpeg.wait(FINISH_S)
                reason = _first_line(complaints) or f"ffmpeg ended with status {status}"
            except subprocess.TimeoutExpired:
                ffmpeg.kill()
                status, reason = ffmpeg.wait(), f"ffmpeg didn't finish within {FINISH_S} s"
        if status != 0:
            self._path.unlink(missing_ok=True)
            raise self._unwritable(reason)

    def _unwritable(self, reason: str) -> ZooError:
        return ZooError(f"--video {self._path}: cannot be written: {reason}")


def padded(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Returns the picture enlarged, with an even height and width."""
    picture = enlarge(picture)
    odd = [(0, size % 2) for size in picture.shape[:2]]
    return np.pad(picture, [*odd, (0, 0)], mode="edge")


def _first_line(complaints: IO[bytes]) -> str:
    """Returns the first line that ffmpeg wrote, without the address in front of it."""
    complaints.seek(0)
    return re.sub(rb"^\[.*?\] ", b"", complaints.readline()).decode(errors="replace").strip()


def open_screens(window: bool, terminal: bool, video: Path | None) -> Iterator[Window | Terminal | VideoFile]:
    """Opens the chosen screens. If none is chosen, opens a window, or draws in the terminal if there is no display."""
    if not (window or terminal or video):
        window = has_display()
        terminal = not window
        if terminal and not sys.stdout.isatty():
            raise ZooError("there is no display, and stdout is no terminal; give --video FILE.mp4 or FILE.gif")
    if video:
        yield VideoFile(video)
    if window:
        yield Window()
    if terminal:
        yield Terminal()
