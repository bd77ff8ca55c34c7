"""Films pictures of play: ffmpeg, which imageio-ffmpeg brings, encodes each as it comes, so that long games fit."""

from __future__ import annotations

import re
import subprocess
import tempfile
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from a3c_zoo.cli.screens import enlarge
from a3c_zoo.errors import ZooError

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Pictures a second in a GIF, at most: viewers show one of less than two hundredths of a second much longer.
GIF_FPS = 50
#: Seconds that ffmpeg may take for the pictures that it holds when there are no more.
FINISH_S = 60

ENCODING = {
    # Any player takes these colours, in even sizes only.
    ".mp4": ["-c:v", "libx264", "-pix_fmt", "yuv420p"],
    # A palette for each picture: one for all would have to wait for the last of them.
    ".gif": [
        "-vf",
        f"fps='min(source_fps,{GIF_FPS})',split[a][b];[a]palettegen=stats_mode=single[c];[b][c]paletteuse=new=1:dither=none",
    ],
}


class VideoFile:
    """Writes a new video, .mp4 (H.264) or .gif.

    Raises:
        ZooError: the file exists or has another ending, or the library for it is missing; `show` and `close`: it cannot
            be written, and is deleted.
    """

    def __init__(self, path: Path) -> None:
        if path.suffix.lower() not in ENCODING:
            raise ZooError(f"--video {path}: must end in .mp4 or .gif")
        if path.exists():
            raise ZooError(f"--video {path}: exists already; delete it, or choose another name")
        try:
            import imageio_ffmpeg

            self._program: str = imageio_ffmpeg.get_ffmpeg_exe()
        except (ImportError, RuntimeError) as error:  # RuntimeError: it brings none for this kind of machine
            raise ZooError(f"--video needs imageio-ffmpeg ({error}): pip install 'a3c-zoo[play]'") from error
        self._path = path
        self._shape: tuple[int, ...] | None = None
        self._ffmpeg: subprocess.Popen[bytes] | None = None

    def show(self, picture: NDArray[np.uint8], fps: float) -> None:
        """Adds a picture `[H, W, 3]`. The first one tells size and speed of all."""
        if self._ffmpeg is None:
            self._shape, self._ffmpeg = picture.shape, self._start(padded(picture).shape, fps)
        if picture.shape != self._shape:
            raise ZooError(f"--video {self._path}: a picture of {picture.shape} after those of {self._shape}")
        assert self._ffmpeg.stdin is not None
        try:
            self._ffmpeg.stdin.write(padded(picture).data)
        except OSError:  # it has ended, and said why
            self.close()

    def _start(self, shape: tuple[int, ...], fps: float) -> subprocess.Popen[bytes]:
        height, width, rate = *shape[:2], str(Fraction(fps).limit_denominator(1000))
        pictures = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", rate, "-i", "-"]
        command = [self._program, "-v", "error", *pictures, *ENCODING[self._path.suffix.lower()], "-y"]
        try:
            self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it
            self._path.open("xb").close()  # ours alone from here on
        except OSError as error:
            raise self._unwritable(error.strerror or str(error)) from error
        # Not imageio_ffmpeg.write_frames: it ignores the exit status of ffmpeg and does not return its error message.
        try:
            return subprocess.Popen(
                [*command, f"file:{self._path}"],  # `file:`, because a name may begin with a dash or a protocol
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=self._complaints,
                start_new_session=True,  # Ctrl-C is for us: we end the film, and it
                restore_signals=False,  # a file that may not grow is an error to it, not its death
            )
        except OSError as error:
            self._path.unlink()
            raise self._unwritable(f"{self._program}: {error.strerror}") from error

    def close(self) -> None:
        """Finishes the file; it can be played whenever it is closed."""
        ffmpeg, self._ffmpeg = self._ffmpeg, None
        if ffmpeg is None:
            return
        assert ffmpeg.stdin is not None
        with suppress(OSError):  # nobody reads any more: the status says more
            ffmpeg.stdin.close()
        with self._complaints as complaints:
            try:  # after a second Ctrl-C, ffmpeg finishes the film without us
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
    """Enlarged, and even in height and width."""
    picture = enlarge(picture)
    odd = [(0, size % 2) for size in picture.shape[:2]]
    return np.pad(picture, [*odd, (0, 0)], mode="edge")


def _first_line(complaints: IO[bytes]) -> str:
    """The first line that ffmpeg wrote, without the address in front of it."""
    complaints.seek(0)
    return re.sub(rb"^\[.*?\] ", b"", complaints.readline()).decode(errors="replace").strip()
