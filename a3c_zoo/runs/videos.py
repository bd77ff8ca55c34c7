"""Video files: pictures are encoded one by one, .mp4 by ffmpeg. `a3c-zoo play --video` writes them, and an evaluation
its film.

A picture is `[H, W, 3]`, uint8, RGB.
"""

from __future__ import annotations

import math
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import IO, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from a3c_zoo.cures import install_extra
from a3c_zoo.errors import ZooError, first_line
from a3c_zoo.files import absolute, open_file
from a3c_zoo.runs.gif import GifWriter

#: Smaller pictures are enlarged to about this height, in pixels, for videos and windows.
HEIGHT = 420
#: Longest time that ffmpeg may take to finish a video after its last picture, in seconds.
FINISH_S = 60
#: Limits of the film of an evaluation: seconds of play, pictures a second, height in pixels. If a game is faster, the
#: film shows every second or third step. If a picture is higher, it loses rows and columns.
FILM_S, FILM_FPS, FILM_HEIGHT = 30, 30.0, 480
#: At most 2 Mbit/s, so about 8 MB. One thread: the other cores train.
FILM_ENCODING = ("-maxrate", "2M", "-bufsize", "4M", "-threads", "1")
#: How long it may take to read a picture from a film, in seconds.
PICTURE_S = 20


class FilmLimits(NamedTuple):
    """How long and how fast a film of an episode is at most, and more options of ffmpeg."""

    seconds: float = FILM_S
    fps: float = FILM_FPS
    encoding: tuple[str, ...] = FILM_ENCODING


RUN_FILM: Final = FilmLimits()
#: At most 250 kbit/s and what the buffer holds, so about 350 kB.
REPORT_FILM: Final = FilmLimits(
    10,
    15.0,
    ("-vf", "scale=-2:240:flags=area", "-crf", "28", "-maxrate", "250k", "-bufsize", "250k", "-threads", "1"),
)

#: Every player shows these colours; height and width must be even.
ENCODING = ("-c:v", "libx264", "-pix_fmt", "yuv420p")


def enlarge(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Enlarges a small picture by a whole factor, to a height of about `HEIGHT` pixels."""
    times = max(1, round(HEIGHT / len(picture)))
    return picture.repeat(times, axis=0).repeat(times, axis=1)


def ffmpeg_program(option: str) -> str:
    """Returns the path of ffmpeg. Raises ZooError if imageio-ffmpeg is missing; option: what needs it."""
    try:
        import imageio_ffmpeg

        program: str = imageio_ffmpeg.get_ffmpeg_exe()
    except (ImportError, RuntimeError) as error:  # RuntimeError: it has no ffmpeg for this kind of machine
        raise ZooError(f"{option} needs imageio-ffmpeg ({error}): {install_extra('play')}") from error
    return program


class VideoFile:
    """Writes a new video: .mp4 (H.264) with ffmpeg, .gif with Pillow.

    Each picture is encoded at once, so a long game costs no memory. The first picture decides the size and the speed of
    the video. `close` finishes the file.

    Args:
        option: what the user gave, for messages. encoding: more options of ffmpeg.

    Raises:
        ZooError: the file exists, has another ending or has no folder in which you may write; or it is an .mp4, and
            imageio-ffmpeg is missing. `show` and `close` raise it if the file cannot be written, and `show` for a
            picture of another size; the file is then deleted.
    """

    def __init__(self, path: Path, option: str = "--video", encoding: Sequence[str] = ()) -> None:
        self._path = absolute(path)
        self._name = f"{option} {path}"
        self._encoding = encoding
        suffix = path.suffix.lower()
        if suffix not in (".mp4", ".gif"):
            raise ZooError(f"{self._name}: must end in .mp4 or .gif")
        if os.path.exists(path):
            raise ZooError(f"{self._name}: exists already; delete it, or choose another name")
        if not (os.path.isdir(path.parent) and os.access(path.parent, os.W_OK | os.X_OK)):
            raise self._unwritable(f"{path.parent} is no directory in which you may write; choose another")
        self._is_gif = suffix == ".gif"
        self._program = "" if self._is_gif else ffmpeg_program(option)
        self._shape: tuple[int, ...] | None = None
        self._ffmpeg: subprocess.Popen[bytes] | None = None
        self._gif: GifWriter | None = None

    def show(self, picture: NDArray[np.uint8], fps: float) -> None:
        """Adds a picture `[H, W, 3]` of the same size as the first one, with which the file begins."""
        if self._ffmpeg is None and self._gif is None:
            self._shape = picture.shape
            if self._is_gif:
                self._begin_gif(fps)
            else:
                self._ffmpeg = self._start(padded(picture).shape, fps)
        if picture.shape != self._shape:
            self._drop()
            raise ZooError(f"{self._name}: a picture of {picture.shape} after those of {self._shape}")
        if self._gif is not None:
            with self._deleted_on_failure():
                self._gif.add(padded(picture))
            return
        assert self._ffmpeg is not None
        assert self._ffmpeg.stdin is not None
        try:
            self._ffmpeg.stdin.write(padded(picture).data)
        except OSError:  # ffmpeg has ended; `close` raises its message
            self.close()

    def _drop(self) -> None:
        """Ends a video that cannot go on, and deletes it: its name can be used again."""
        with suppress(ZooError):  # it could not be finished, either
            self.close()
        self._path.unlink(missing_ok=True)

    def _begin_gif(self, fps: float) -> None:
        try:
            self._file = open_file(self._path, "xb")
        except OSError as error:
            raise self._unwritable(error.strerror or str(error)) from error
        self._gif = GifWriter(self._file, fps)

    @contextmanager
    def _deleted_on_failure(self) -> Iterator[None]:
        """Around what writes a GIF. If the disk refuses it, the file is deleted."""
        try:
            yield
        except OSError as error:
            self._gif = None
            self._file.close()
            self._path.unlink(missing_ok=True)
            raise self._unwritable(error.strerror or str(error)) from error

    def _start(self, shape: tuple[int, ...], fps: float) -> subprocess.Popen[bytes]:
        height, width, rate = *shape[:2], str(Fraction(fps).limit_denominator(1000))
        pictures = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", rate, "-i", "-"]
        command = [self._program, "-v", "error", *pictures, *ENCODING]
        try:
            self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it
            self._path.open("xb").close()  # fails if another process has just made it
        except OSError as error:
            raise self._unwritable(error.strerror or str(error)) from error
        # Not imageio_ffmpeg.write_frames: it ignores the exit status of ffmpeg and does not return its error message.
        try:
            return subprocess.Popen(
                # `file:` for names like `-x` and `http:x`
                [*command, *self._encoding, "-y", f"file:{self._path}"],
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
        """Finishes the file. Without a picture there is none; a second call does nothing."""
        if self._gif is not None:
            with self._deleted_on_failure():
                self._gif.close()
            self._gif = None
            self._file.close()
            return
        ffmpeg = self._ffmpeg
        self._ffmpeg = None
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
                status = ffmpeg.wait()
                reason = f"ffmpeg didn't finish within {FINISH_S} s"
        if status != 0:
            self._path.unlink(missing_ok=True)
            raise self._unwritable(reason)

    def _unwritable(self, reason: str) -> ZooError:
        return ZooError(f"{self._name}: cannot be written: {reason}")


class EpisodeFilm:
    """A film of an episode while it is played. A fault ends the film, never the evaluation.

    Args:
        path: the file, which is replaced. limits: its length, speed and encoding.

    Attributes:
        fault: why there is no film, in one line; None if there is one.
    """

    def __init__(self, path: Path, limits: FilmLimits = RUN_FILM) -> None:
        self._path = path
        self._limits = limits
        self._steps = 0
        self._is_over = False
        self._video: VideoFile | None = None
        self.fault: str | None = None

    def show(self, draw: Callable[[], NDArray[np.uint8]], fps: float, is_last: bool) -> None:
        """Adds a step of the episode. draw: returns the picture after it. fps: steps a second of the game."""
        if self._is_over:
            return
        try:
            every = math.ceil(fps / self._limits.fps)
            if self._steps % every == 0 or is_last:
                picture = draw()
                thinned = math.ceil(len(picture) / FILM_HEIGHT)
                if self._video is None:
                    self._path.parent.mkdir(exist_ok=True)
                    self._path.unlink(missing_ok=True)
                    self._video = VideoFile(self._path, "film", self._limits.encoding)
                self._video.show(picture[::thinned, ::thinned], fps / every)
            self._steps += 1
            if is_last or self._steps >= self._limits.seconds * fps:
                self.close()
        except Exception as error:
            self.close(first_line(error))

    def close(self, fault: str | None = None) -> None:
        """Finishes the film. fault: why there is none."""
        if not self._is_over:
            self._is_over = True
            self.fault = fault or ("nothing was played" if self._video is None else None)
            try:
                if self._video is not None:
                    self._video.close()
            except ZooError as error:
                self.fault = fault or str(error)


def picture_of(film: Path) -> bytes:
    """A picture that stands for a film, as JPEG. Raises ZooError if the film cannot be read."""
    command = [
        ffmpeg_program("a film"),
        "-v",
        "error",
        "-i",
        f"file:{film}",
        "-vf",
        "thumbnail",
        "-frames:v",
        "1",
    ]
    try:
        done = subprocess.run(
            [*command, "-c:v", "mjpeg", "-f", "image2pipe", "-"], capture_output=True, timeout=PICTURE_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ZooError(f"its film cannot be read: {first_line(error)}") from error
    if done.returncode or not done.stdout:
        raise ZooError("its film cannot be read")
    return done.stdout


def padded(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Returns the picture enlarged, with an even height and width."""
    picture = enlarge(picture)
    odd = [(0, size % 2) for size in picture.shape[:2]]
    return np.pad(picture, [*odd, (0, 0)], mode="edge")


def _first_line(complaints: IO[bytes]) -> str:
    """Returns the first line that ffmpeg wrote, without the address in front of it."""
    complaints.seek(0)
    return re.sub(rb"^\[.*?\] ", b"", complaints.readline()).decode(errors="replace").strip()
