"""Trains the missing runs of a plan through an engine."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from a3c_zoo.comparison.known_runs import KnownRuns
from a3c_zoo.comparison.plan import Plan, PlannedRun
from a3c_zoo.config.models import PLUGINS
from a3c_zoo.config.sets import dump_config
from a3c_zoo.config.yaml import parse_document
from a3c_zoo.engines import Engine, JobProgress, TrainingJob, new_run_name
from a3c_zoo.engines.shared_folder import reserved
from a3c_zoo.engines.slots import Post, side_by_side
from a3c_zoo.errors import RunDirectoryError
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.store.run import Run, flattened
from a3c_zoo.words import listed


@dataclass(frozen=True, slots=True)
class Trained:
    """The end of a planned run.

    Attributes:
        path: its directory. fault: why it has no figures; None if it has.
        by_another: another comparison trained it since it was planned.
    """

    run: PlannedRun
    path: Path
    fault: str | None = None
    by_another: bool = False


class ComparisonWatcher:
    """Is told the progress of a comparison. This one ignores it; derive from it to show the progress."""

    def planned(self, plan: Plan) -> None:
        """Called before anything is run."""

    def running(self, run: PlannedRun, progress: JobProgress | None) -> None:
        """Called about once a second while a run trains."""

    def trained(self, trained: Trained) -> None:
        """Called when a run has ended, and for a run that exists already."""

    def evaluating(self, done: int, total: int) -> None:
        """Called when `done` of `total` checkpoints have been evaluated."""

    def reported(self, folder: Path, missing: int) -> None:
        """Called when the report has been written. missing: how many runs it lacks; 0 for the finished report."""

    def message(self, text: str) -> None:
        """Something worth a line."""


def train_plan(
    plan: Plan,
    watcher: ComparisonWatcher,
    engine: Engine,
    on_end: Callable[[Trained], None] = lambda trained: None,
) -> list[Trained]:
    """Trains the missing runs in `Plan.training_order`; returns all runs in the order of the plan.

    on_end: is called in the main thread when a run has ended, after the watcher.

    A run that fails is reported, and the others go on.

    A run that another comparison trains meanwhile in the same folder is waited for, and used.

    Raises:
        KeyboardInterrupt: on Ctrl-C or a SIGTERM that was turned into one. Runs that train save and stop. A later call
            trains them again, in other directories: the seconds of two halves are not those of a whole run.
    """
    order = plan.training_order
    work = [functools.partial(_train, plan.runs[place], plan, watcher, engine) for place in order]

    def ended(trained: Trained) -> None:
        watcher.trained(trained)
        on_end(trained)

    trained = dict(zip(order, side_by_side(engine, work, ended), strict=True))
    return [trained[place] for place in sorted(trained)]


def _train(run: PlannedRun, plan: Plan, watcher: ComparisonWatcher, engine: Engine, post: Post) -> Trained:
    """Trains a run, unless it is there, or another comparison trains it now. post: see `side_by_side`."""

    def tell(progress: JobProgress | None) -> None:
        post(lambda: watcher.running(run, progress))

    if run.done is not None:
        return Trained(run, run.done)
    tell(None)
    if not plan.reuse:
        return _run_job(run, plan, engine, tell)
    name = hashlib.blake2b(dump_config(run.config).encode(), digest_size=8).hexdigest()
    what = f"trains {run.method} on {run.env}, seed {run.seed}"

    def say(text: str) -> None:
        post(lambda: watcher.message(text))

    with reserved(plan.runs_dir, name, what, say, check=lambda: post(lambda: None)) as give_sign:

        def tell_all(progress: JobProgress | None) -> None:
            give_sign()
            tell(progress)

        path = KnownRuns(get_registry(), plan.runs_dir, reuse=True, host=plan.host).same(run.config)
        if path:
            return Trained(run, path, by_another=True)
        return _run_job(run, plan, engine, tell_all)


def _run_job(
    run: PlannedRun, plan: Plan, engine: Engine, tell: Callable[[JobProgress | None], None]
) -> Trained:
    name = new_run_name(run.env, run.method, run.seed)
    job = TrainingJob(run.command, run.config.run.workers, plan.runs_dir, name)
    fault = engine.train(job, tell)
    if fault is None:
        fault = _not_as_planned(run, job.path)
    return Trained(run, job.path, fault)


def _not_as_planned(run: PlannedRun, path: Path) -> str | None:
    """Why a trained run is not the planned one, in one line; None if it has the planned settings.

    A training reads files and sets anew, and somebody can edit them while a comparison runs.
    """
    planned = flattened(parse_document(dump_config(run.config).encode(), "the plan").data)
    try:
        trained = Run(path).settings
    except RunDirectoryError as error:
        return str(error)
    differ = {key for key in planned.keys() | trained.keys() if planned.get(key) != trained.get(key)}
    # The machine that trained decides these, and which run hooks are there.
    differ -= run.config.decided
    differ = {key for key in differ if not key.startswith(f"{PLUGINS}.")}
    if not differ:
        return None
    return (
        f"it was trained with other values of {listed(sorted(differ))} than planned: a file or a set has changed "
        "meanwhile. Give the command again, which plans anew, and leave them as they are while it runs"
    )
