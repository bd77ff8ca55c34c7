"""Scores of Atari games after the same numbers of steps, beside those of the runs that RL Baselines3 Zoo published.

    git clone --depth 1 https://github.com/DLR-RM/rl-trained-agents
    python benchmarks/atari_games.py RUNS … --published rl-trained-agents [--steps N …] [--csv FILE]

RUNS is a folder with a run of each game (`a3c-zoo train atari:GAME --runs-dir RUNS`), and a column of the table. A
score is the mean of the last 100 training games that ended within the steps. The file of a published run has the length
of each game in frames, and no steps: the steps are a quarter of the frames of all games that had ended by then, in any
of its environments.

Normalised is (score − that of random actions) / (that of a human − that of random actions). Over games there are its
median, mean, interquartile mean and optimality gap, the mean of what is missing to 1 (Agarwal et al. 2021,
arXiv:2108.13264).
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.monitor import load_results

from a3c_zoo.figures.statistics import Statistic, interquartile_mean, mean, median, optimality_gap
from a3c_zoo_envs.atari_scores import RANDOM_AND_HUMAN

#: Game → its name in Gymnasium: those of which RL Zoo has published runs.
GAMES = {
    "asteroids": "Asteroids",
    "beam_rider": "BeamRider",
    "breakout": "Breakout",
    "enduro": "Enduro",
    "ms_pacman": "MsPacman",
    "pong": "Pong",
    "qbert": "Qbert",
    "road_runner": "RoadRunner",
    "seaquest": "Seaquest",
    "space_invaders": "SpaceInvaders",
}
FRAME_SKIP = 4
LAST = 100
STEPS = (1_000_000, 2_500_000, 4_000_000, 5_000_000, 10_000_000)

#: Name of a method → game → score; None for a run that is shorter.
Columns = Mapping[str, Mapping[str, float | None]]


def score_at(returns: NDArray[np.float64], steps: NDArray[np.float64], limit: int) -> float | None:
    """The mean of the last 100 returns `[E]` of games that ended within `limit` steps; None if the run is shorter.

    Args:
        steps: agent steps of the run when each game ended, `[E]`, in order.
    """
    if not len(steps) or steps[-1] < 0.98 * limit:  # the last game to end may have ended a little before
        return None
    within = returns[: np.searchsorted(steps, limit, side="right")]
    return float(within[-LAST:].mean())


def of_run(folder: Path, limit: int) -> float | None:
    """The score of a run of a3c-zoo."""
    games = load_results(str(folder)).sort_values("step", kind="stable")
    return score_at(games["r"].to_numpy(float), games["step"].to_numpy(float), limit)


def of_published(folder: Path, limit: int) -> float | None:
    """The score of a run of RL Baselines3 Zoo, whose environments have a file each; they are put in order by time."""
    games = load_results(str(folder))
    return score_at(games["r"].to_numpy(float), games["l"].to_numpy(float).cumsum() / FRAME_SKIP, limit)


def runs_of(folder: Path) -> dict[str, Path]:
    """Game → its run in a folder of runs."""
    found = {}
    for meta in sorted(folder.glob("*/meta.json")):
        env = json.loads(meta.read_text(encoding="utf-8"))["env"]
        found[env.removeprefix("atari:")] = meta.parent
    return found


def normalised(game: str, score: float) -> float:
    """0 is what random actions score, and 1 is what a human scores."""
    random, human = RANDOM_AND_HUMAN[game]
    return (score - random) / (human - random)


#: What sums up the normalised scores of all games.
SUMMARIES: Mapping[str, Statistic] = {
    "median": median,
    "mean": mean,
    "interquartile mean": interquartile_mean,
    "optimality gap": optimality_gap,
}


def summarised(name: str, values: Sequence[float]) -> float:
    """One number for the normalised scores of all games, of one run each: what `SUMMARIES` has under this name."""
    return float(SUMMARIES[name](np.asarray([values], float)))


def table(columns: Columns) -> Iterable[str]:
    """The lines of a table: a row for each game, and what sums up the normalised scores."""
    yield f"| game | {' | '.join(columns)} |"
    yield f"|{' --- |' * (1 + len(columns))}"
    for game in GAMES:
        scores = [column.get(game) for column in columns.values()]
        cells = ["–" if score is None else f"{score:,.1f} ({normalised(game, score):.3f})" for score in scores]
        yield f"| {game} | {' | '.join(cells)} |"
    for name in SUMMARIES:
        cells = []
        for column in columns.values():
            known = [normalised(game, score) for game, score in column.items() if score is not None]
            cells.append(f"{summarised(name, known):.3f} ({len(known)} games)" if known else "–")
        yield f"| {name}, normalised | {' | '.join(cells)} |"


def lines_of(columns: Columns, steps: int) -> Iterator[dict[str, object]]:
    """The lines of a file of figures: those scores that are known."""
    for name, column in columns.items():
        for game, score in column.items():
            if score is not None:
                scores = {"score": round(score, 1), "normalised": round(normalised(game, score), 5)}
                yield {"game": game, "method": name, "steps": steps, **scores}


def columns_at(runs: Sequence[Path], published: Path, steps: int) -> Columns:
    """The scores of all methods after so many steps."""
    columns: dict[str, dict[str, float | None]] = {}
    for folder in runs:
        own = runs_of(folder)
        columns[folder.name] = {game: of_run(own[game], steps) for game in GAMES if game in own}
    for algorithm in ("a2c", "ppo"):
        folders = {game: published / algorithm / f"{name}NoFrameskip-v4_1" for game, name in GAMES.items()}
        columns[f"SB3's {algorithm.upper()}"] = {game: of_published(at, steps) for game, at in folders.items()}
    return columns


def main() -> None:
    """Prints a table for each number of steps, and writes the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUNS", help="a folder of runs, which names its column")
    parser.add_argument("--published", type=Path, required=True, help="a clone of DLR-RM/rl-trained-agents")
    parser.add_argument("--steps", type=int, nargs="+", default=STEPS, metavar="N", help="agent steps  [%(default)s]")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write all scores into this file")
    given = parser.parse_args()
    for folder in (*given.runs, given.published / "a2c", given.published / "ppo"):
        if not folder.is_dir():
            parser.error(f"there is no folder {folder}")
    lines: list[dict[str, object]] = []
    for steps in given.steps:
        columns = columns_at(given.runs, given.published, steps)
        lines += lines_of(columns, steps)
        print(f"\nAfter {steps:,} steps\n")
        for line in table(columns):
            print(line)
    if given.csv:
        with given.csv.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, ["game", "method", "steps", "score", "normalised"], lineterminator="\n")
            writer.writeheader()
            writer.writerows(lines)


if __name__ == "__main__":
    main()
