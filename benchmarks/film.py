"""Films an episode of an agent: the one that `a3c-zoo play` shows, with no more pictures than a small film needs.

    python benchmarks/film.py RUN FILE.gif [--seconds S] [--fps STEPS_A_SECOND]

`play` draws each step. A picture of MuJoCo takes up to half a second without a graphics card, and 1,000 steps of Hopper
are 8 seconds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from a3c_zoo.runs.api import load_from
from a3c_zoo.runs.evaluation import evaluate_policy
from a3c_zoo.runs.videos import EpisodeFilm, FilmLimits
from a3c_zoo.store.recommended import RECOMMENDED, choose
from a3c_zoo.store.trained import find_policy

#: Pictures a second.
MOST_FPS = 12.5


class SlowFilm(EpisodeFilm):
    """A film at a speed of its own. seconds: its length. fps: steps a second; None for those of the environment."""

    def __init__(self, path: Path, seconds: float, fps: float | None) -> None:
        super().__init__(path, FilmLimits(seconds, MOST_FPS))
        self._fps = fps

    def show(self, draw: Callable[[], NDArray[Any]], fps: float, is_last: bool) -> None:
        """Adds a step of the episode."""
        super().show(draw, self._fps or fps, is_last)


def main() -> None:
    """Films the agent that the command line names, and says what the episode gave."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("file", metavar="FILE.gif", type=Path)
    parser.add_argument("--seconds", type=float, default=14, metavar="S", help="how long it is at most [14]")
    parser.add_argument("--fps", type=float, metavar="X", help="steps a second [the game's]")
    given = parser.parse_args()
    directory = find_policy(given.run, None, Path("runs"), trust=False)
    policy, to_play = load_from(directory, choose(directory, RECOMMENDED).which)
    film = SlowFilm(given.file, given.seconds, given.fps)
    played = evaluate_policy(policy, to_play, film=film)
    if film.fault:
        raise SystemExit(film.fault)
    (episode,) = played.episodes
    print(f"return {episode.episode_return:g}, {episode.length:,} steps")


if __name__ == "__main__":
    main()
