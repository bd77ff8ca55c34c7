"""The Python side of `a3c-zoo compare`: plan, carry out, read, and the report that comes of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from a3c_zoo.comparison.evaluating import DEFAULT_EPISODES, evaluate_runs
from a3c_zoo.comparison.plan import Budget, Plan, make_plan
from a3c_zoo.comparison.reading import LeftOut, RunRecord, read_runs
from a3c_zoo.comparison.running import SilentWatcher, Watcher, train_plan
from a3c_zoo.errors import ZooError
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.runs.directory import DEFAULT_RUNS_DIR
from a3c_zoo.runs.signals import stop_on_signals

if TYPE_CHECKING:
    from a3c_zoo.comparison.measuring import MeasuredRun

DEFAULT_SEEDS, MAX_SEEDS = 5, 1000
#: Where reports go that nobody named a place for.
DEFAULT_OUT_DIR = Path("comparisons")
#: Longer names of several environments are not part of a folder's.
MAX_STEM = 100
#: What a report consists of.
REPORT_FILES = ("report.md", "report.html", "results.json", "curves.png", "curves.svg")


@dataclass(frozen=True, slots=True)
class Comparison:
    """What came of a comparison.

    Attributes:
        results: every figure with its unit; the contents of `results.json`.
        left_out: run → why its figures are not among them.
        out: where the report is: `report.html`, `report.md`, `results.json`, `curves.png`, `curves.svg`.
        failed: the runs that were to be trained and could not be.
    """

    results: dict[str, Any]
    left_out: dict[str, str]
    out: Path
    verdict: tuple[str, ...]
    failed: tuple[str, ...] = ()

    def summary(self) -> str:
        """What the runs say, and where the report is."""
        return "\n".join([*self.verdict, *(f"  {self.out / name}" for name in REPORT_FILES)])


def compare(
    envs: str | Sequence[str] = (),
    *,
    agents: Sequence[str] = (),
    baselines: Sequence[str] = (),
    seeds: int | Sequence[int] = DEFAULT_SEEDS,
    steps: int | None = None,
    time_limit_s: float | None = None,
    episodes: int = DEFAULT_EPISODES,
    sources: Sequence[str | Path] = (),
    runs_dir: str | Path = DEFAULT_RUNS_DIR,
    out: str | Path | None = None,
    reuse: bool = True,
    watcher: Watcher | None = None,
) -> Comparison:
    """Trains agents and baselines over several seeds, evaluates them alike, and writes a report.

    Every run is a process of its own, one at a time. What has been run before is not run again.

    Args:
        envs: names of environments. agents: by default each environment's own. baselines: `NAME`, or `NAME@zoo` for a
            library's algorithm on the zoo's environments.
        seeds: how many, from 1 on, or a list of them.
        steps, time_limit_s: the budget of each run; by default the environment's own.
        episodes: that each of a run's ten checkpoints plays, sampled and greedy.
        sources: run directories or folders of them, to be read only; nothing is trained then.
        out: where the report goes: a directory without one, new or not; by default a new one in `comparisons`.
        watcher: is told how it goes; see `a3c_zoo.comparison.running.Watcher`.

    Raises:
        ZooError: for what the caller did wrong, in one line.
        KeyboardInterrupt: on Ctrl-C; finished runs are kept, and the same call goes on.
    """
    envs = (envs,) if isinstance(envs, str) else tuple(envs)
    folder = choose_out(out, envs)
    if sources:
        return read([Path(each) for each in sources], envs, folder)
    numbers = range(1, seeds + 1) if isinstance(seeds, int) else tuple(seeds)
    planned = plan(
        envs=envs,
        agents=agents,
        baselines=baselines,
        seeds=numbers,
        steps=steps,
        time_limit=time_limit_s,
        runs_dir=Path(runs_dir),
        reuse=reuse,
    )
    return carry_out(planned, episodes, folder, watcher or SilentWatcher())


def choose_out(out: str | Path | None, envs: Sequence[str]) -> Path:
    """Where a report goes; nothing is made yet.

    Raises:
        ZooError: a report is there already, or none can be written there.
    """
    if out is None:
        stem = "-".join(env.replace(":", "_").replace("/", "_") for env in envs) or "runs"
        stem = stem if len(stem) <= MAX_STEM else f"{len(envs)}-environments"
        out = DEFAULT_OUT_DIR / f"{stem}-{datetime.now():%Y%m%d-%H%M%S}"
    folder = Path(out)
    if folder.exists() and (not folder.is_dir() or any((folder / name).exists() for name in REPORT_FILES)):
        raise ZooError(f"--out {folder}: a report is there already, and is not overwritten; choose another")
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not (there.is_dir() and os.access(there, os.W_OK)):
        raise ZooError(f"--out {folder}: {there} is no directory in which you may write; choose another")
    return folder


def plan(
    *,
    envs: Sequence[str],
    agents: Sequence[str],
    baselines: Sequence[str],
    seeds: Sequence[int],
    steps: int | None,
    time_limit: float | None,
    runs_dir: Path,
    reuse: bool,
) -> Plan:
    """What `carry_out` will do. Raises what `make_plan` does."""
    if not envs:
        raise ZooError("name an environment to compare on, or runs to read: --from. See: a3c-zoo list envs")
    if not 0 < len(seeds) <= MAX_SEEDS:
        raise ZooError(f"--seeds: give 1 to {MAX_SEEDS:,} of them")
    if steps is not None and time_limit is not None:
        raise ZooError("--steps and --time-limit: give one of them; a run ends where its budget does")
    # Milliseconds, as a run is told it on its command line: else it would never be found to be the same.
    budget = Budget(steps, None if time_limit is None else round(time_limit, 3))
    return make_plan(get_registry(), envs, agents, baselines, seeds, budget, runs_dir, reuse)


def carry_out(plan: Plan, episodes: int, out: Path, watcher: Watcher) -> Comparison:
    """Trains what is missing, evaluates, and writes the report. Raises what `compare` does."""
    watcher.planned(plan)
    with stop_on_signals() as stop:
        stop.allow_interrupts()
        trained = train_plan(plan, watcher)
        failed = {each.path: each.fault for each in trained if each.fault is not None}
        usable = [each.path for each in trained if each.fault is None]
        faults = evaluate_runs(usable, episodes, watcher.evaluating)
    records, left_out = read_runs([path for path in usable if path not in faults])
    left_out += [*plan.left_out, *(LeftOut(path, reason) for path, reason in {**failed, **faults}.items())]
    return _report(*_measure(records, left_out), out, tuple(path.name for path in failed))


def read(folders: Iterable[Path], envs: Sequence[str], out: Path) -> Comparison:
    """Makes a report of runs as they are.

    Raises:
        ZooError: there are none, they are of different environments and none was named, or a seed is there twice.
    """
    measured, left_out = _measure(*read_runs(folders))
    found = list(dict.fromkeys(each.measures.env for each in measured))
    if len(found) > 1 and not envs:
        raise ZooError(f"--from: the runs are of different environments, {', '.join(found)}: name those to compare")
    missing = [env for env in envs if env not in found]
    if missing:
        raise ZooError(f"--from: there is no run on '{missing[0]}'; there are: {', '.join(found) or 'none'}")
    measured = [each for each in measured if each.measures.env in (envs or found)]
    _refuse_twins(measured)
    return _report(measured, left_out, out, as_found=True)


def _measure(records: Sequence[RunRecord], left_out: Sequence[LeftOut]) -> tuple[list[MeasuredRun], dict[str, str]]:
    """Measures runs; those that cannot be used stay what they are, name → reason."""
    from a3c_zoo.comparison.measuring import labels_of, measure

    registry = get_registry()
    labels = labels_of([*(each.path for each in records), *(each.path for each in left_out)])
    return (
        [measure(record, labels[record.path], registry) for record in records],
        {labels[each.path]: each.reason for each in left_out},
    )


def _refuse_twins(measured: Sequence[MeasuredRun]) -> None:
    seen: dict[tuple[str, str, int | None], str] = {}
    for each in (one.measures for one in measured if one.measures.seed is not None):
        twin = seen.setdefault((each.env, each.method, each.seed), each.run)
        if twin != each.run:
            raise ZooError(
                f"--from: seed {each.seed} of {each.method} on {each.env} is there twice, {twin} and {each.run}: "
                f"name the runs one by one, without one of them"
            )


def _report(
    measured: Sequence[MeasuredRun],
    left_out: dict[str, str],
    out: Path,
    failed: tuple[str, ...] = (),
    as_found: bool = False,
) -> Comparison:
    """Writes what the runs say."""
    from a3c_zoo.comparison.composing import compose, material_of, write_report

    if not measured:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise ZooError(f"there is no run to compare{f' ({reasons})' if reasons else ''}")
    material = material_of(measured, left_out, as_found)
    report = compose(material)
    write_report(report, material, out)
    return Comparison(dict(material.results), left_out, out, tuple(report.verdict), failed)
