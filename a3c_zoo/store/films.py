"""The films of a run: `films/step-N.mp4`, the first sampled episode of every N-th evaluation beside training.

The process that plays an evaluation makes the film, of that very episode. The run then gives it its name.
"""

from __future__ import annotations

import re
from pathlib import Path

from a3c_zoo.store.directory import RunDirectory

#: Most films of a run. With more, the one nearest to its neighbours is deleted; so they stay spread over the training.
MOST_FILMS = 100
_NAME = re.compile(r"step-(\d{1,18})\.mp4")


def films_by_step(directory: RunDirectory) -> dict[int, Path]:
    """The films by their steps, rising."""
    matches = (_NAME.fullmatch(path.name) for path in directory.films.glob("step-*.mp4"))
    return dict(sorted((int(match[1]), directory.films / match[0]) for match in matches if match))


def keep_film(directory: RunDirectory, step: int) -> None:
    """Gives the film that was made its name, and deletes one if there are too many. Raises OSError."""
    directory.filmed_file.replace(directory.films / f"step-{step:012d}.mp4")
    films = films_by_step(directory)
    if len(films) > MOST_FILMS:
        steps = list(films)
        films[steps[min(range(1, len(steps) - 1), key=lambda k: steps[k + 1] - steps[k - 1])]].unlink()
