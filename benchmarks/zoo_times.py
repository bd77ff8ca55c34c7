"""Times how soon five rows of RL Zoo's table reach the level of its A2C: our set of the kind, sb3-a2c and sb3-ppo.

    python benchmarks/zoo_times.py [--seeds 1 2 3] [--runs-dir DIR]

One run after the other, with nothing beside them: first ours with each seed, then the baselines, row by row. Each takes
the cores that it can use: a baseline measures which number of torch's threads and which vector environment are fastest.
A run ends when the mean of its last 100 training episodes is at the level, and that of 100 episodes on fresh seeds as
well, whose seconds do not count. A baseline ends without it after `PATIENCE` times the seconds of our slowest run of
the row, or after the steps of the row.

Each run is added to docs/figures/zoo-times.csv when it has ended; `python benchmarks/doc_tables.py` makes the table of
docs/benchmarks-rl-zoo.md from it. Runs in the file are left out, so the same command goes on after Ctrl-C. An
interrupted run begins anew.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from benchmarks.zoo_table import KIND, OURS, Row, Run, prepare, read_list, run_zoo, say, set_aside  # noqa: E402

FILE = ROOT / "docs" / "figures" / "zoo-times.csv"
RUNS = Path("runs") / "zoo-times"
#: How a run has ended that has spent its budget.
SPENT = ("steps", "episodes", "time-limit")
#: They were chosen before any of them was timed, as the rows in which our runs are short.
ENVS = (
    "gym:LunarLander-v3",
    "gym:LunarLanderContinuous-v3",
    "gym:Pendulum-v1",
    "gym:Hopper-v5",
    "gym:Walker2d-v5",
)
BASELINES = ("sb3-a2c", "sb3-ppo")
SEEDS = (1, 2, 3)
#: Reasons of an end at the level.
AT_LEVEL = ("solved", "stop-return")
#: Twice as soon is to be shown; a baseline that needs longer than this many times our seconds is not waited for.
PATIENCE = 3


@dataclass(frozen=True)
class Timed:
    """A timed run: a line of the file.

    Attributes:
        level: the mean return of 100 episodes at which it ends. reached: whether it did.
        steps, training_s: until then. started, cpu, cores: when and where.
    """

    env: str
    agent: str
    seed: int
    level: float
    reached: bool
    steps: int
    training_s: float
    started: str
    cpu: str
    cores: int


def read() -> list[Timed]:
    """The lines of the file; none if there is no file."""
    if not FILE.exists():
        return []
    with FILE.open(encoding="utf-8", newline="") as lines:
        return [
            Timed(
                env=line["env"],
                agent=line["agent"],
                seed=int(line["seed"]),
                level=float(line["level"]),
                reached=line["reached"] == "True",
                steps=int(line["steps"]),
                training_s=float(line["training_s"]),
                started=line["started"],
                cpu=line["cpu"],
                cores=int(line["cores"]),
            )
            for line in csv.DictReader(lines)
        ]


def write(timed: Sequence[Timed]) -> None:
    """Writes the file."""
    with FILE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [each.name for each in fields(Timed)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(asdict, timed))


def arguments(run: Run, level: float, time_limit_s: float | None) -> list[str]:
    """The arguments of `a3c-zoo` for a run that ends at the level."""
    row = run.row
    given = ["train", row.env, "--agent", run.agent, "--seed", str(run.seed), "--steps", str(row.steps)]
    given += ["--stop-return", str(level)]
    if run.set_name:
        given += ["--hyperparams", run.set_name]
    if time_limit_s is not None:
        given += ["--time-limit", f"{time_limit_s:.0f}s"]
    for override in row.overrides:
        given += ["-o", override]
    return given


def time_run(run: Run, level: float, time_limit_s: float | None) -> Timed:
    """Trains a run anew until the level or its limit."""
    set_aside(run.path)
    place = ["--name", run.path.name, "--runs-dir", str(run.runs_dir), "--json"]
    outcome = json.loads(run_zoo([*arguments(run, level, time_limit_s), *place]) or "{}")
    if outcome.get("reason") not in (*AT_LEVEL, *SPENT):
        sys.exit(f"{run}: failed: {outcome.get('detail', 'it printed nothing')}")
    meta = run.read("meta.json")
    return Timed(
        env=run.row.env,
        agent=run.agent,
        seed=run.seed,
        level=level,
        reached=outcome["reason"] in AT_LEVEL,
        steps=outcome["steps"],
        training_s=round(outcome["training_s"], 1),
        started=meta["started"],
        cpu=meta["host"]["cpu"],
        cores=meta["host"]["cores"],
    )


def runs_of(row: Row, seeds: Sequence[int], runs_dir: Path) -> Iterator[Run]:
    """Ours with each seed, then the baselines, which take turns."""
    for seed in seeds:
        yield Run(row, OURS, KIND, seed, runs_dir)
    for seed in seeds:
        for agent in BASELINES:
            yield Run(row, agent, KIND, seed, runs_dir)


def main() -> None:
    """Times the runs that are not in the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS, metavar="N", help="[1 2 3]")
    parser.add_argument("--runs-dir", type=Path, default=RUNS, metavar="DIR", help="[%(default)s]")
    given = parser.parse_args()
    prepare()
    rows = {row.env: row for row in read_list("table")}
    timed = read()
    for env in ENVS:
        row = rows[env]
        level = row.published["a2c"].mean
        for run in runs_of(row, given.seeds, given.runs_dir.resolve()):
            if any((each.env, each.agent, each.seed) == (env, run.agent, run.seed) for each in timed):
                continue
            ours_s = [each.training_s for each in timed if (each.env, each.agent) == (env, OURS)]
            limit_s = None if run.agent == OURS else PATIENCE * max(ours_s)
            timed.append(time_run(run, level, limit_s))
            write(timed)
            newest = timed[-1]
            end = "at the level" if newest.reached else "not at the level"
            say(f"{run}: {end} after {newest.training_s:.1f} s, {newest.steps:,} steps")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        say("interrupted; the same command goes on")
        sys.exit(130)
