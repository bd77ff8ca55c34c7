"""The grid, as tables: where a move leads, what it is worth, and whether the episode ends there.

At size 6, S is the start, G the goal, # a wall and O a pit:

    S . . # . G
    . . . # . .
    . . . # . .
    . . . # . .
    . . . . . .
    O . . O . O

The shortest way has 3·size − 5 steps and leads through the gap between wall and pit, where a slip is dangerous.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Action → (row, column) step: up, right, down, left.
MOVES = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)])

STEP_REWARD, GOAL_REWARD, PIT_REWARD = -0.01, 1.0, -1.0

#: Character → red, green and blue.
COLOURS = {
    ".": (238, 238, 238),
    "S": (200, 215, 230),
    "G": (70, 170, 90),
    "#": (90, 90, 90),
    "O": (60, 30, 60),
    "@": (220, 110, 40),
}


@dataclass(frozen=True)
class Grid:
    """Tables over the cells 0 … size² − 1, row by row; the start is cell 0.

    Attributes:
        picture: the characters of the docstring above, `[size, size]`.
        next_cell: cell after an action, `[size², 4]`, int64; walls and the border leave it as it is.
        rewards: reward of a move that ends in the cell, `[size²]`, float32.
        terminal: True for the goal and the pits, `[size²]`, bool.
    """

    picture: NDArray[np.str_]
    next_cell: NDArray[np.int64]
    rewards: NDArray[np.float32]
    terminal: NDArray[np.bool_]

    def render(self, cell: int) -> str:
        """Returns the grid as text, with `@` in the cell of the agent."""
        picture = self.picture.copy()
        picture.flat[cell] = "@"
        return "\n".join(" ".join(row) for row in picture)

    def draw(self, cell: int) -> NDArray[np.uint8]:
        """Returns the same as a picture with one pixel for each cell, `[size, size, 3]`, uint8."""
        return np.array([[COLOURS[each] for each in row.split()] for row in self.render(cell).splitlines()], np.uint8)


def make_grid(size: int) -> Grid:
    """Returns the grid with `size` cells on each side, at least 4."""
    middle = size // 2
    picture = np.full((size, size), ".")
    picture[: size - 2, middle] = "#"
    picture[-1, [0, middle, -1]] = "O"
    picture[0, 0], picture[0, -1] = "S", "G"

    rows, columns = np.indices(picture.shape).reshape(2, -1, 1)
    new_rows = np.clip(rows + MOVES[:, 0], 0, size - 1)
    new_columns = np.clip(columns + MOVES[:, 1], 0, size - 1)
    blocked = picture[new_rows, new_columns] == "#"
    next_cell = np.where(blocked, rows * size + columns, new_rows * size + new_columns)

    is_goal, is_pit = picture.ravel() == "G", picture.ravel() == "O"
    rewards = STEP_REWARD + GOAL_REWARD * is_goal + PIT_REWARD * is_pit
    return Grid(picture, next_cell.astype(np.int64), rewards.astype(np.float32), is_goal | is_pit)
