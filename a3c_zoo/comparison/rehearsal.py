"""Before a comparison trains, each method trains for a few seconds: does it work here, and how fast is it?

All methods train one after the other in one child process (`rehearsal_process`), in a folder that is deleted. So the
first fault is known before a run directory is made, and the speeds are those of real trainings on this machine.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from a3c_zoo.comparison.plan import Plan, PlannedRun
from a3c_zoo.config.sets import dump_config
from a3c_zoo.engines.child_program import ChildProgram
from a3c_zoo.errors import ZooError
from a3c_zoo.files import read_json
from a3c_zoo.hardware import available_cores, giga
from a3c_zoo.plugins.next_command import next_command
from a3c_zoo.runs.evaluate_checkpoints import CHECKPOINTS, DEFAULT_EPISODES
from a3c_zoo.store.directory import disk_errors
from a3c_zoo.store.run_records import REHEARSAL

#: How long all methods together train, in seconds.
ALL_S: Final = 3.0
#: How long each method trains at least and at most, in seconds.
LEAST_S, MOST_S = 1.0, 1.5
#: A method whose first rollout takes longer than this has no speed, in seconds.
LIMIT_S: Final = 15.0
#: How much longer a fresh process of a run takes to start than this one, which has Python and torch, in seconds.
PROCESS_S: Final = 2.0
#: How long an episode of an evaluation lasts at most, for an estimate, in agent steps: nobody knows it beforehand.
EPISODE_STEPS: Final = 1000
#: Settings that a comparison sets for every run, and that show nothing of a fault.
SET_FOR_ALL: Final = ("run.stop_when_solved=", "run.keep_checkpoints=", "run.checkpoint_every_")
#: How long the child may take to end, and how long a method may do nothing beyond its own limits, in seconds.
GRACE_S, HANG_S = 3.0, 60.0
LOOK_EVERY_S: Final = 0.1
#: A folder of a rehearsal that is older is nobody's any more, in seconds.
OLD_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What the short training of a method has shown.

    Attributes:
        steps_per_s: agent steps a second; None if its first rollout took too long.
        other_s: seconds of a run beside those of training.
        checkpoint_bytes: the size of a checkpoint.
        evaluation_step_s: seconds that a step of one environment of an evaluation takes.
        episode_steps: agent steps of an episode in an estimate: `EPISODE_STEPS`, or the limit if that is less.
    """

    steps_per_s: float | None
    other_s: float
    checkpoint_bytes: int
    evaluation_step_s: float
    episode_steps: int

    def guess_s(self, steps: int | None, time_limit_s: float | None) -> float | None:
        """How long a run with this budget takes, in seconds; None if the speed is not known."""
        if steps is None:
            return self.other_s + (time_limit_s or 0.0)
        if self.steps_per_s is None:
            return None
        return self.other_s + steps / self.steps_per_s

    def evaluation_s(self, episodes: int, checkpoints: int = CHECKPOINTS) -> float:
        """How long the evaluations of a run take, in seconds, if episodes last `episode_steps`.

        Each checkpoint plays `episodes` with sampled and with greedy actions. The cores share the checkpoints.
        """
        one_s = episodes * self.episode_steps * self.evaluation_step_s
        return PROCESS_S + 2 * one_s * checkpoints / min(available_cores(), checkpoints)


@dataclass(frozen=True, slots=True)
class RehearsalJob:
    """What the child gets for a method.

    Attributes:
        env: its environment's name. config: the path of its config.yml. result: where the child writes what it found.
        least: agent steps of one rollout of every worker. seconds: how long it trains, if a rollout is not longer.
        episodes: of an evaluation.
    """

    env: str
    config: str
    result: str
    least: int
    seconds: float
    episodes: int


#: Environment and method → its rehearsal.
Rehearsals = dict[tuple[str, str], Rehearsal]


def rehearse(
    runs: Sequence[PlannedRun], runs_dir: Path, tell: Callable[[str], None], episodes: int = DEFAULT_EPISODES
) -> Rehearsals:
    """Lets each method among these runs train for a few seconds on each of its environments, and act once.

    Args:
        runs_dir: where the runs will lie. It is left as it was.
        tell: gets a line when it begins, and one for each method.
        episodes: how many each evaluation plays with sampled actions, and with greedy ones.

    Raises:
        ZooError: a method cannot be trained here, or the disk has no room for its runs. The message names the cure.
        KeyboardInterrupt: on Ctrl-C; nothing is left.
    """
    first = {(run.env, run.method): run for run in reversed(runs)}
    methods = dict(reversed(first.items()))
    if not methods:
        return {}
    tell("first, each method trains for a few seconds: does it work here, and how fast is it?")
    rehearsals: Rehearsals = {}
    with _folder_in(runs_dir) as folder:
        jobs = [
            _job(run, folder / str(number), len(methods), episodes)
            for number, run in enumerate(methods.values())
        ]
        jobs_file = folder / "jobs.json"  # Linux allows 128 KiB for an argument, some 500 jobs
        with disk_errors(jobs_file, "write"):
            jobs_file.write_text(json.dumps([asdict(job) for job in jobs]), encoding="utf-8")
        with ChildProgram("a3c_zoo.comparison.rehearsal_process", str(jobs_file), grace_s=GRACE_S) as child:
            child.start()
            for job, run in zip(jobs, methods.values(), strict=True):
                rehearsals[run.env, run.method] = rehearsal = _result(child, job, run)
                if rehearsal.steps_per_s is None:
                    speed = "its first rollout takes longer"
                else:
                    speed = f"{rehearsal.steps_per_s:,.0f} steps/s"
                tell(f"  {run.method} on {run.env}: {speed}")
    _refuse_full_disk(runs, rehearsals, runs_dir)
    return rehearsals


def with_guesses(plan: Plan, rehearsals: Rehearsals) -> Plan:
    """The plan with the length of each run as the rehearsals tell it."""
    runs = []
    for run in plan.runs:
        rehearsal = rehearsals.get((run.env, run.method))
        is_known_elsewhere = plan.host is not None and run.guess_s is not None
        if rehearsal is not None and run.done is None and not is_known_elsewhere:
            guess_s = rehearsal.guess_s(run.budget.steps, run.budget.time_limit_s)
            run = replace(run, guess_s=run.guess_s if guess_s is None else guess_s)
        runs.append(run)
    return replace(plan, runs=tuple(runs))


def _job(run: PlannedRun, place: Path, methods: int, episodes: int) -> RehearsalJob:
    """Writes the configuration of a run below `place`, for the child."""
    with disk_errors(place, "write"):
        place.mkdir()
        (place / "config.yml").write_text(dump_config(run.config), encoding="utf-8")
    seconds = min(max(ALL_S / methods, LEAST_S), MOST_S)
    files = str(place / "config.yml"), str(place / "result.json")
    return RehearsalJob(run.env, *files, run.config.rollout_steps, seconds, episodes)


@contextmanager
def _folder_in(runs_dir: Path) -> Iterator[Path]:
    """A folder on the disk of the runs. It is deleted in the end, with the folders above it that were not there."""
    missing = [path for path in (runs_dir, *runs_dir.parents) if not os.path.exists(path)]
    folder = None
    try:
        with disk_errors(runs_dir, "write in"):
            runs_dir.mkdir(parents=True, exist_ok=True)
            _remove_old(runs_dir)
            folder = Path(tempfile.mkdtemp(prefix=REHEARSAL, dir=runs_dir)).absolute()
        yield folder
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        for path in missing:
            with suppress(OSError):  # somebody else has put something there
                path.rmdir()


def _remove_old(runs_dir: Path) -> None:
    """Removes the folders of rehearsals that were killed a day ago or earlier."""
    for folder in runs_dir.glob(f"{REHEARSAL}*"):
        with suppress(OSError):
            if time.time() - folder.lstat().st_mtime > OLD_S:
                shutil.rmtree(folder, ignore_errors=True)


def _result(child: ChildProgram, job: RehearsalJob, run: PlannedRun) -> Rehearsal:
    """Waits for the result of a job. Raises ZooError for a method that cannot be trained."""
    path = Path(job.result)
    limit_s = LIMIT_S + run.config.run.worker_timeout_s + HANG_S
    end_s = time.monotonic() + limit_s
    while not path.exists() and not child.has_ended(LOOK_EVERY_S):
        if time.monotonic() > end_s:
            raise _refusal(run, f"it has not ended after {limit_s:.0f} s; does it hang?", is_users=False)
    if not path.exists():
        raise _refusal(run, child.fault(), is_users=False)
    content: dict[str, Any] = read_json(path)
    if "fault" in content:
        raise _refusal(run, content["fault"], content["is_users"])
    return Rehearsal(**content)


def _refusal(run: PlannedRun, fault: str, is_users: bool) -> ZooError:
    """is_users: whether the fault names its cure."""
    text = f"{run.method} on {run.env} cannot be trained: {fault}"
    overrides = [text for text in run.command.overrides if not text.startswith(SET_FOR_ALL)]
    words = replace(run.command, steps=None, time_limit_s=None, overrides=tuple(overrides)).words()
    alone = next_command(shlex.join(["train", *words, "--debug"]))
    return ZooError(text if is_users else f"{text.rstrip('.')}. To see more: {alone}")


def _refuse_full_disk(runs: Sequence[PlannedRun], rehearsals: Rehearsals, runs_dir: Path) -> None:
    """Raises ZooError if the checkpoints of all runs have no room. All other files of a run are small beside them."""
    needed = sum(rehearsals[run.env, run.method].checkpoint_bytes * (CHECKPOINTS + 1) for run in runs)
    there = next(path for path in (runs_dir, *runs_dir.absolute().parents) if os.path.exists(path))
    free = shutil.disk_usage(there).free
    if needed > free:
        raise ZooError(
            f"{len(runs)} runs need {giga(needed)} for their checkpoints, and {giga(free)} are free in {there}. "
            "Free space, or choose another folder: --runs-dir DIR"
        )
