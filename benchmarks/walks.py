"""How the calls of three tasks walk through the rooms: down, along, up and back.

    python benchmarks/walks.py
    python benchmarks/walks.py --pairs climb

A **room** is a package or a module of `a3c_zoo`, and docs/architecture.md orders the rooms from top to bottom. A call
is counted if it goes from a function of one module to a function of another module of `a3c_zoo`. Functions of other
libraries between the two are passed over; generator expressions belong to their function. Each pair of a calling and a
called function counts once:

| kind | the called function is in |
| --- | --- |
| down | a room below that of the calling one |
| stay | another module of the same room |
| climb | a room above: a callback, because imports go down only |
| return | another room, of which a function is further up in the chain of calls; it is counted as down or climb, too |

The tasks use the runs of `tests/data/runs`, copied to a temporary folder:

- `read`: a comparison reads two run directories (`read_runs`).
- `report`: the whole of `compare(sources=…)`, with figures and report.
- `plan`: a plan of two methods and two seeds is carried out by an engine that trains nothing: it copies directories.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import a3c_zoo
from a3c_zoo.comparison.compare import make_plan_and_rule
from a3c_zoo.comparison.course import carry_out
from a3c_zoo.comparison.trainings import ComparisonWatcher
from a3c_zoo.engines import Engine, JobProgress, TrainingJob
from a3c_zoo.store.run_records import read_runs

ROOT = Path(a3c_zoo.__file__).parents[1]
RUNS = ROOT / "tests/data/runs"
#: The version that made the runs.
MADE_BY = "0.1.0"
PAIR = ("cartpole-a3c-s1", "cartpole-random-s1")
KINDS = ("down", "stay", "climb", "return")
#: Parts of a function that Python runs as functions of their own.
_PARTS = re.compile(r"\.<locals>\.<(?:listcomp|setcomp|dictcomp|genexpr)>")

Calls = set[tuple[str, str, str]]


def floors() -> dict[str, int]:
    """Room → its place from the top in the picture of docs/architecture.md."""
    picture = (ROOT / "docs/architecture.md").read_text(encoding="utf-8").split("```")[1]
    names = [line.split()[0] for line in picture.splitlines()[1:]]
    return {name.removesuffix("/").removesuffix(".py"): floor for floor, name in enumerate(names)}


def room_of(module: str) -> str:
    return module.split(".")[1]


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


@contextmanager
def recording(calls: Calls) -> Iterator[None]:
    """Adds the calls of this thread: kind, calling function, called function."""
    floor_of = floors()

    def ours(frame: FrameType) -> str:
        """The module of a frame, "" if it is none of the package."""
        module = str(frame.f_globals.get("__name__"))
        return module if module.startswith("a3c_zoo.") else ""

    def name(frame: FrameType) -> str:
        return f"{ours(frame)}.{_PARTS.sub('', frame.f_code.co_qualname)}"

    def above(frame: FrameType) -> Iterator[FrameType]:
        caller = frame.f_back
        while caller is not None:
            if ours(caller):
                yield caller
            caller = caller.f_back

    def on_event(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code.co_name
        if event != "call" or code == "<module>" or (code.startswith("<") and code != "<lambda>") or not ours(frame):
            return
        chain = above(frame)
        caller = next(chain, None)
        if caller is None or ours(caller) == ours(frame) or caller.f_code.co_name == "<module>":
            return
        here, there = room_of(ours(caller)), room_of(ours(frame))
        kinds = {-1: "climb", 0: "stay", 1: "down"}
        calls.add((kinds[_sign(floor_of[there] - floor_of[here])], name(caller), name(frame)))
        if here != there and any(room_of(ours(each)) == there for each in chain):
            calls.add(("return", name(caller), name(frame)))

    sys.setprofile(on_event)
    try:
        yield
    finally:
        sys.setprofile(None)


class CopyingEngine(Engine):
    """Trains nothing: a job's run directory is the copy of one that is there."""

    @property
    def slots(self) -> int:
        return 1

    def train(self, job: TrainingJob, tell: Callable[[JobProgress | None], None]) -> str | None:
        command = job.command
        tell(JobProgress(1, 1.0, 1.0))
        copied(f"{command.env}-{command.agent}-s{command.seed}", job.path)
        return None

    def evaluate(self, runs: Sequence[Path], *others: object, **more: object) -> dict[Path, str]:
        return {}

    def stop(self) -> None:
        """There is nothing to end."""


def copied(name: str, path: Path) -> Path:
    """A copy of a run, as if this version had made it."""
    shutil.copytree(RUNS / name, path)
    meta = path / "meta.json"
    meta.write_text(meta.read_text().replace(f'"a3c-zoo": "{MADE_BY}"', f'"a3c-zoo": "{a3c_zoo.__version__}"'))
    return path


def read(folder: Path) -> Calls:
    """What reading calls. Whether a run is wanted is asked as `compare --from` asks it."""
    calls: Calls = set()
    paths = [copied(name, folder / name) for name in PAIR]
    with recording(calls):
        runs, _ = read_runs(paths, wanted=lambda run: run.agent != "nobody")
    assert len(runs) == len(PAIR)
    return calls


def report(folder: Path) -> Calls:
    calls: Calls = set()
    paths = [copied(name, folder / name) for name in PAIR]
    with recording(calls):
        a3c_zoo.compare(sources=paths, out=folder / "out")
    return calls


def plan(folder: Path) -> Calls:
    calls: Calls = set()
    options: dict[str, Any] = {"envs": ["cartpole"], "agents": ["a3c"], "baselines": ["random"], "seeds": 2}
    options |= {"steps": 60_000, "time_limit": None, "max_seeds": None, "runs_dir": folder / "runs", "reuse": True}
    planned, rule = make_plan_and_rule(False, **options)
    with recording(calls):
        found = carry_out(planned, rule, 20, folder / "out", ComparisonWatcher(), CopyingEngine())
    assert len(found.results["runs"]) == 4
    return calls


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pairs", choices=KINDS, help="Print the calls of this kind, too.")
    given = parser.parse_args()
    print(f"| task | {' | '.join(KINDS)} |\n| --- |{' ---: |' * len(KINDS)}")
    for task in (read, report, plan):
        with tempfile.TemporaryDirectory(prefix="a3c-zoo-walks-") as folder:
            calls = task(Path(folder))
        counts = Counter(kind for kind, _, _ in calls)
        print(f"| {task.__name__} | {' | '.join(str(counts[kind]) for kind in KINDS)} |", flush=True)
        for kind, caller, called in sorted(calls):
            if kind == given.pairs:
                print(f"    {caller} → {called}")


if __name__ == "__main__":
    main()
