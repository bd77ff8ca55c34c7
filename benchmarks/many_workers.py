"""How much as many workers as cores learn in so many steps, and how fast.

    python benchmarks/many_workers.py --trial "ENV WORKERS SEEDS LIMIT_S [SET] [KEY=VALUE ...]" ... [--total-s 280]
        [--csv FILE] [--folder FOLDER]

    python benchmarks/many_workers.py --trial "gym:LunarLander-v3 16 1,2,3 20 run.steps=400000" \
        --trial "pong 16 1,2,3 78 a3c-ppo" --total-s 280

Trials train one after the other; each of its seeds is a run of LIMIT_S seconds at most, without the start. With
`--total-s` no run begins that could not train for five seconds before that time, and all end by it. A line for each run
has the steps and the seconds of training at which the mean of 100 training episodes first reached the threshold. The
file has the curve: this mean at each fortieth part of the run.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

#: Training episodes of a mean.
WINDOW = 100
#: Points of a curve.
POINTS = 40
#: A run is not begun for less training than this, in seconds, and the start and the end of one take so long.
LEAST_S = 5.0
START_AND_END_S = 12.0


@dataclass(frozen=True, slots=True)
class Trial:
    """Runs of one environment with one number of workers. workers: a number, or "auto". limit_s: of training."""

    env: str
    workers: str
    seeds: tuple[int, ...]
    limit_s: float
    set_name: str | None
    overrides: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Trial:
        """From the words of the option."""
        env, workers, seeds, limit_s, *others = text.split()
        names = [word for word in others if "=" not in word]
        overrides = tuple(word for word in others if "=" in word)
        numbers = tuple(int(seed) for seed in seeds.split(","))
        return cls(env, workers, numbers, float(limit_s), names[0] if names else None, overrides)

    @property
    def title(self) -> str:
        """What is trained."""
        words = [self.env, *([self.set_name] if self.set_name else []), f"{self.workers} workers", *self.overrides]
        return ", ".join(words)


@dataclass(frozen=True, slots=True)
class Point:
    """The mean return of the last 100 training episodes at one moment of a run."""

    env: str
    set_name: str
    workers: str
    overrides: str
    seed: int
    steps: int
    seconds: float
    mean_return: float


@dataclass(frozen=True, slots=True)
class Figures:
    """What became of a run. reached: steps and seconds at which the mean first was at the threshold, or None."""

    seed: int
    steps: int
    training_s: float
    reached: tuple[int, float] | None
    mean_return: float | None


def command_of(trial: Trial, seed: int, limit_s: float, folder: Path, name: str) -> list[str]:
    """The command of one run. It goes on after it is solved: the curve tells when that was."""
    command = [sys.executable, "-m", "a3c_zoo", "train", trial.env, "--workers", trial.workers, "--seed", str(seed)]
    command += ["--time-limit", f"{limit_s:.0f}s", "--runs-dir", str(folder), "--name", name]
    if trial.set_name:
        command += ["--hyperparams", trial.set_name]
    for override in ("run.stop_when_solved=false", "run.evaluation_every_s=null", *trial.overrides):
        command += ["-o", override]
    return command


def curve_of(monitor: Path) -> list[tuple[int, float, float]]:
    """Steps, seconds and the mean return of the last 100 episodes, after each episode from the hundredth on."""
    with monitor.open(encoding="utf-8", newline="") as lines:
        next(lines)  # a comment
        rows = sorted((int(row["step"]), float(row["t"]), float(row["r"])) for row in csv.DictReader(lines))
    returns = [row[2] for row in rows]
    return [
        (rows[last][0], rows[last][1], statistics.fmean(returns[last + 1 - WINDOW : last + 1]))
        for last in range(WINDOW - 1, len(rows))
    ]


def thinned(curve: Sequence[tuple[int, float, float]]) -> Iterator[tuple[int, float, float]]:
    """The last point of each fortieth part of the steps."""
    if not curve:
        return
    width = max(1, curve[-1][0] // POINTS)
    for point, following in zip(curve, [*curve[1:], None], strict=True):
        if following is None or following[0] // width > point[0] // width:
            yield point


def threshold_of(env: str) -> float | None:
    """The mean return at which an environment is solved."""
    from a3c_zoo.plugins.registry import get_registry

    return get_registry().env(env).threshold


def train(trial: Trial, seed: int, limit_s: float, folder: Path) -> tuple[Figures, list[Point]]:
    """Trains one run."""
    name = f"{trial.env.replace(':', '_')}-w{trial.workers}-s{seed}-{time.monotonic_ns()}"
    with (folder / f"{name}.log").open("w") as log:
        done = subprocess.run(command_of(trial, seed, limit_s, folder, name), stdout=log, stderr=log)
    if done.returncode not in (0, 1):
        raise SystemExit((folder / f"{name}.log").read_text()[-2000:])
    outcome = json.loads((folder / name / "outcome.json").read_text(encoding="utf-8"))
    curve = curve_of(folder / name / "monitor.csv")
    threshold = threshold_of(trial.env)
    reached = [point[:2] for point in curve if threshold is not None and point[2] >= threshold]
    own = (trial.env, trial.set_name or "", trial.workers, " ".join(trial.overrides), seed)
    figures = Figures(
        seed,
        outcome["steps"],
        outcome["training_s"],
        reached[0] if reached else None,
        curve[-1][2] if curve else None,
    )
    return figures, [Point(*own, *point) for point in thinned(curve)]


def line_of(figures: Figures) -> str:
    """A run in a line."""
    speed = figures.steps / figures.training_s
    mean = "too few episodes" if figures.mean_return is None else f"{figures.mean_return:8.1f} at the end"
    when = "threshold not reached"
    if figures.reached:
        when = f"threshold after {figures.reached[0]:9,} steps, {figures.reached[1]:6.1f} s"
    return f"  seed {figures.seed:5}: {when}; {mean}; {figures.steps:9,} steps, {speed:8,.0f} steps/s"


def main() -> None:
    """Trains all runs, with a line for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trial", type=Trial.of, action="append", required=True, help="see above; may be repeated")
    parser.add_argument("--total-s", type=float, default=float("inf"), help="time for everything, in seconds")
    parser.add_argument("--csv", type=Path, help="write the curves here")
    parser.add_argument("--folder", type=Path, help="keep the runs here")
    given = parser.parse_args()
    end_s = time.monotonic() + given.total_s
    points: list[Point] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for trial in given.trial:
            print(trial.title, flush=True)
            for seed in trial.seeds:
                limit_s = min(trial.limit_s, end_s - time.monotonic() - START_AND_END_S)
                if limit_s < LEAST_S:
                    print(f"  seed {seed:5}: left out, the time is over", flush=True)
                    continue
                figures, own = train(trial, seed, limit_s, folder)
                print(line_of(figures), flush=True)
                points += own
                if given.csv:
                    write(given.csv, points)


def write(file: Path, points: Sequence[Point]) -> None:
    """Writes all points so far."""
    with file.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.DictWriter(lines, [each.name for each in fields(Point)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(asdict, points))


if __name__ == "__main__":
    main()
