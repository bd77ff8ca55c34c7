"""What `a3c-zoo play` shows: the pictures of one agent, or several agents side by side in one picture."""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from a3c_zoo.errors import printable

if TYPE_CHECKING:
    from a3c_zoo.runs.pictures import Scene

#: The grid's greatest height and width, without labels and gaps, and a tile's least width, in pixels.
HEIGHT, WIDTH, NARROWEST = 840, 1920, 160
#: The gap between tiles; the height of a label of two lines, and of its letters, in pixels.
GAP, LABEL, LETTERS = 6, 48, 15


class Tile:
    """What one agent plays. When it has played all its episodes, its last picture stays, dimmed.

    Args:
        name: the agent's; "" for one that is alone. steps: of its training. scenes: its play, of `episodes` episodes.

    Attributes:
        scene: what it shows. left: episodes that it has still to end.
    """

    def __init__(self, name: str, steps: int, scenes: Generator[Scene], episodes: int) -> None:
        self._name = printable(name)
        self._steps = steps
        self._scenes = scenes
        self._episodes = episodes
        self.left = episodes
        self.scene = next(scenes)
        self._position = 0
        self._is_dimmed = False
        self._results = self._new_results()

    @property
    def number(self) -> int:
        """The number of the episode that the scene belongs to, from 1."""
        if self.scene.episodes:
            return self._episodes - self.left
        return self._episodes - self.left + 1

    @property
    def about(self) -> str:
        """Which episode of which agent the scene belongs to."""
        return f"{self._name} episode {self.number}".lstrip()

    def status(self) -> str:
        """The return so far, and the number of the episode."""
        return f"return {self.scene.episode_return:,g}  episode {self.number:,} of {self._episodes:,}"

    def unfinished(self) -> list[str]:
        """The result so far of the episode that has not ended."""
        if self.scene.episodes or not self.left:
            return []
        return [f"{self.about}: return {self.scene.episode_return:,g} so far, not played to its end"]

    def _new_results(self) -> list[str]:
        self.left -= len(self.scene.episodes)
        return [
            f"{self.about}: return {episode.episode_return:,g}, {episode.length:,} steps"
            for episode in self.scene.episodes
        ]

    def go_to(self, position: int) -> list[str]:
        """Plays on to the scene at a position. Returns the results of episodes that ended on the way.

        The scene after the last is never asked for: with it the environment closes, and pygame for all others.
        """
        while self._position < position and self.left:
            self.scene = next(self._scenes)
            self._position = self._position + 1
            self._results += self._new_results()
        self._is_dimmed = self._position < position
        results = self._results
        self._results = []
        return results

    def draw(self, height: int, width: int) -> Image.Image:
        """The scene, as large as fits into the height and width, and a label of two lines below it."""
        cell = Image.new("RGB", (width + GAP, height + LABEL))
        picture = Image.fromarray(self.scene.picture)
        scale = min(width / picture.width, height / picture.height)
        size = max(1, round(picture.width * scale)), max(1, round(picture.height * scale))
        place = (cell.width - size[0]) // 2, (height - size[1]) // 2
        cell.paste(picture.resize(size, Image.Resampling.BOX), place)
        if self._is_dimmed:
            cell = cell.point(lambda value: value // 3)
        font = ImageFont.load_default(LETTERS)
        pen = ImageDraw.Draw(cell)
        name = self._name
        while pen.textlength(name, font) > width and len(name) > 1:  # its end tells most
            name = f"…{name[2:]}"
        for row, line in enumerate((name, f"{self._steps:,} steps   return {self.scene.episode_return:g}")):
            pen.text((cell.width / 2, height + 2 + row * 22), line, "white", font, anchor="ma")
        return cell


def show(tiles: Sequence[Tile], fps: float | None) -> Generator[tuple[NDArray[np.uint8], float, list[str]]]:
    """Shows agents until all have played their episodes, each at the speed of its game. One alone has no label.

    Args:
        fps: steps a second of all of them; None for the speeds of the games.

    Yields:
        A picture `[H, W, 3]`, how many come in a second, and the results of the episodes that ended.
    """
    columns = math.ceil(math.sqrt(len(tiles)))
    rows = math.ceil(len(tiles) / columns)
    height = HEIGHT // max(2, rows)
    widest = max(tile.scene.picture.shape[1] / tile.scene.picture.shape[0] for tile in tiles)
    width = max(NARROWEST, min(round(height * widest), WIDTH // columns))
    rate = max(tile.scene.fps for tile in tiles)
    for number in itertools.count():
        results = []
        for tile in tiles:
            results += tile.go_to(number if fps else int(number * tile.scene.fps / rate + 1e-9))
        picture = tiles[0].scene.picture
        if len(tiles) > 1:
            grid = Image.new("RGB", (columns * (width + GAP), rows * (height + LABEL)))
            for k, tile in enumerate(tiles):
                grid.paste(
                    tile.draw(height, width), (k % columns * (width + GAP), k // columns * (height + LABEL))
                )
            picture = np.asarray(grid)
        yield picture, fps or rate, results
        if not any(tile.left for tile in tiles):
            return
