"""Scores of Atari games after the same number of steps, beside those of the runs that RL Baselines3 Zoo published.

    git clone --depth 1 https://github.com/DLR-RM/rl-trained-agents
    python benchmarks/atari_games.py RUNS … --published rl-trained-agents [--steps N]

RUNS is a folder with a run of each game (`a3c-zoo train atari:GAME --runs-dir RUNS`), and a column of the table. A
score is the mean of the last 100 training games that ended within the steps. The file of a published run has the length
of each game in frames, and no steps: the steps are a quarter of the frames of all games that had ended by then, in any
of its environments.

Normalised is (score − that of random actions) / (that of a human − that of random actions).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.monitor import load_results

#: Game → its name in Gymnasium, and the scores of random actions and of a human (DQN Zoo, dqn_zoo/atari_data.py).
GAMES = {
    "pong": ("Pong", -20.7, 14.6),
    "breakout": ("Breakout", 1.7, 30.5),
    "beam_rider": ("BeamRider", 363.9, 16926.5),
    "enduro": ("Enduro", 0.0, 860.5),
    "qbert": ("Qbert", 163.9, 13455.0),
    "seaquest": ("Seaquest", 68.4, 42054.7),
    "space_invaders": ("SpaceInvaders", 148.0, 1668.7),
    "ms_pacman": ("MsPacman", 307.3, 6951.6),
}
FRAME_SKIP = 4
LAST = 100


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
    _, random, human = GAMES[game]
    return (score - random) / (human - random)


def table(columns: dict[str, dict[str, float | None]]) -> Iterable[str]:
    """The lines of a table: a row for each game, and the median of normalised scores. columns: name → game → score."""
    yield f"| game | {' | '.join(columns)} |"
    yield f"|{' --- |' * (1 + len(columns))}"
    for game in GAMES:
        scores = [column.get(game) for column in columns.values()]
        cells = ["–" if score is None else f"{score:,.1f} ({normalised(game, score):.3f})" for score in scores]
        yield f"| {game} | {' | '.join(cells)} |"
    cells = []
    for column in columns.values():
        known = [normalised(game, score) for game, score in column.items() if score is not None]
        cells.append(f"{median(known):.3f} ({len(known)} games)" if known else "–")
    yield f"| median, normalised | {' | '.join(cells)} |"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUNS", help="a folder of runs, which names its column")
    parser.add_argument("--published", type=Path, required=True, help="a clone of DLR-RM/rl-trained-agents")
    parser.add_argument("--steps", type=int, default=2_500_000, help="agent steps  [default: %(default)s]")
    given = parser.parse_args()
    for folder in (*given.runs, given.published / "a2c", given.published / "ppo"):
        if not folder.is_dir():
            parser.error(f"there is no folder {folder}")
    columns: dict[str, dict[str, float | None]] = {}
    for folder in given.runs:
        runs = runs_of(folder)
        columns[folder.name] = {game: of_run(runs[game], given.steps) for game in GAMES if game in runs}
    for algorithm in ("a2c", "ppo"):
        folders = {game: given.published / algorithm / f"{name}NoFrameskip-v4_1" for game, (name, *_) in GAMES.items()}
        columns[f"SB3's {algorithm.upper()}"] = {game: of_published(at, given.steps) for game, at in folders.items()}
    for line in table(columns):
        print(line)


if __name__ == "__main__":
    main()
