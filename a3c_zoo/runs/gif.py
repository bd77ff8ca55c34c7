"""GIF files, written picture by picture with Pillow, so that a long game costs no memory.

Pillow's own `save(save_all=True)` holds all pictures until the last one. Here each is encoded by itself, and only
the rectangle that differs from the picture before. Format: www.w3.org/Graphics/GIF/spec-gif89a.txt
"""

from __future__ import annotations

import math
from typing import IO, Final

import numpy as np
from numpy.typing import NDArray
from PIL import GifImagePlugin, Image, ImageChops

from a3c_zoo.files import write_all

#: Most pictures per second. Viewers slow down a faster GIF.
MOST_FPS: Final = 50
#: Extension block: show it again without end.
_LOOP: Final = b"!\xff\x0bNETSCAPE2.0\x03\x01\x00\x00\x00"
_TRAILER: Final = b";"
#: A GIF counts time in hundredths of a second, in 16 bits.
_TICKS: Final = 100
_MOST_TICKS: Final = 2**16 - 1


class GifWriter:
    """Writes pictures of one size, `[H, W, 3]`, uint8, RGB. Each picture has a palette of its own, of 256 colours.

    Args:
        file: an empty file without a buffer; `close` does not close it.
        fps: pictures a second that `add` gets. Above 50 some of them are left out.
    """

    def __init__(self, file: IO[bytes], fps: float) -> None:
        self._file = file
        self._fps = fps
        self._given = 0
        self._newest_slot = -1
        self._before: Image.Image | None = None
        # The picture that waits for its duration, the place of its upper left corner, and when it is first shown.
        self._waiting: tuple[Image.Image, tuple[int, int], int] | None = None

    def add(self, picture: NDArray[np.uint8]) -> None:
        """Adds a picture. Raises OSError if the file cannot be written."""
        number = self._given
        self._given += 1
        slot = math.floor(number * MOST_FPS / self._fps)
        if self._fps > MOST_FPS and slot == self._newest_slot:
            return
        self._newest_slot = slot
        image = Image.fromarray(picture)
        if self._before is None:
            size = image.width.to_bytes(2, "little") + image.height.to_bytes(2, "little")
            write_all(self._file, b"GIF89a" + size + b"\x00\x00\x00" + _LOOP)
            changed = (0, 0, *image.size)
        else:
            changed = ImageChops.difference(image, self._before).getbbox() or (0, 0, 1, 1)
        self._before = image
        starts = self._tick_of(number)
        self._write_waiting(starts)
        self._waiting = _with_palette(image.crop(changed)), changed[:2], starts

    def close(self) -> None:
        """Writes the last picture, which is shown as long as the others, and the end. Raises OSError as `add`."""
        if self._waiting is not None:
            if self._fps > MOST_FPS:
                shown = _TICKS // MOST_FPS
            else:
                shown = round(_TICKS / self._fps)
            self._write_waiting(self._waiting[2] + shown)
            self._waiting = None
            write_all(self._file, _TRAILER)

    def _tick_of(self, number: int) -> int:
        """When a picture is first shown, in hundredths of a second after the first one."""
        if self._fps > MOST_FPS:
            return self._newest_slot * _TICKS // MOST_FPS
        return round(number * _TICKS / self._fps)

    def _write_waiting(self, ends: int) -> None:
        """Writes the picture that waits. ends: when the next one is shown."""
        if self._waiting is None:
            return
        image, corner, starts = self._waiting
        shown = min(ends - starts, _MOST_TICKS)
        milliseconds = shown * 1000 // _TICKS
        blocks = GifImagePlugin.getdata(image, corner, duration=milliseconds, include_color_table=True)
        write_all(self._file, b"".join(blocks))


def _with_palette(image: Image.Image) -> Image.Image:
    """The picture with a palette of its colours, or of 256 that are near to them."""
    colours = image.getcolors(256)
    number = 256 if colours is None else max(2, len(colours))
    return image.quantize(number, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
