"""Hurts trainings in every way that it knows, and checks that each fault leads to what it must (`make chaos`).

It trains CartPole and Pong with every agent. It kills workers, learner, evaluator, fork server and parent, stops and
continues them, delivers signals in pairs, fills the disk, replaces and cuts files, removes folders, breaks environments
and closes outputs. `faults.py` declares for each fault whether the run goes on or how it ends, and the event that must
follow; anything else is damage. Whenever the command has ended, every file is checked against independent counts; a
resume must begin with the numbers of its checkpoint, bit by bit. At the end of a trial it looks for what is left:
processes, shared memory, temporary files. The same seed gives the same faults in the same order.

Exit status: 0 if no fault did damage, 1 otherwise.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import click
import filelock

from a3c_zoo.errors import type_and_message
from a3c_zoo.testing import plugin_distribution
from benchmarks.chaos.checks import Resume, check_files, check_numbers
from benchmarks.chaos.faults import FAULTS, ONCE, Disk, Fault
from benchmarks.chaos.trial import HUNG, DamageError, NeverBeganError, Trial

ENVS = ("cartpole", "chaos", "pong")
AGENTS = ("a3c", "a3c-grad", "a3c-data", "nstep", "monte-carlo")
#: Those that have a hyperparameter set for Pong.
PONG_AGENTS = ("a3c", "a3c-grad", "a3c-data")
#: So many trials run at a time: a fault is mostly a wait.
SIDE_BY_SIDE = 2
#: Steps that a run makes after its last fault, to show that it can be resumed.
MORE_STEPS = 500
#: How likely a trial ends with a fault after which it cannot be resumed.
LAST_SHARE = 0.3
#: The rows of the table for what is no fault: the first start of a run, and its end and its checks.
BEGIN, END = "begin a run", "end a run"
#: What a busy machine does to processes that it gives no time.
STARVED = ("worker_replaced", "evaluator_replaced", "restarted")


@dataclass
class Kind:
    """What came of one kind of fault.

    Attributes:
        faults: how often it was tried. right: how often it led to what it must.
        never_began: how often the command ended in order before it trained, on a machine that is too busy.
        steps_lost: the most that a resume had to train again. damage: a line for each.
    """

    faults: int = 0
    right: int = 0
    never_began: int = 0
    steps_lost: int = 0
    damage: list[str] = field(default_factory=list)


@dataclass
class Campaign:
    """Trials, of which some run side by side.

    Args:
        seed: chooses everything. folder: for the runs. only: the only kinds of faults, in turn; empty: all.
        say: prints a line of progress.
    """

    seed: int
    folder: Path
    only: tuple[str, ...]
    say: Callable[[str], None]
    kinds: dict[str, Kind] = field(default_factory=dict)
    trials: int = 0
    #: Processes that counted as hung without a fault of theirs.
    starved: int = 0

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        module = "from benchmarks.chaos.environment import zoo_envs, zoo_run_start\n"
        self._plugin = plugin_distribution(self.folder / "plugin", "chaos-env", module)
        self._shared_memory = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
        self._drawn = dict.fromkeys(FAULTS, 0)
        self._living: list[Trial] = []
        self._entering = threading.Lock()

    @property
    def num_faults(self) -> int:
        """Faults that were tried, without starts and ends."""
        return sum(kind.faults for name, kind in self.kinds.items() if name in FAULTS)

    def run(self, faults: int, deadline_s: float, trials: int | None) -> None:
        """Runs trials, some side by side, until the deadline; those that run then hurt nothing more.

        Args:
            faults: of each trial. trials: the most; None: any number.

        Raises:
            click.UsageError: no trial can have the faults.
        """
        free = threading.Semaphore(SIDE_BY_SIDE)
        running = []
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            try:
                while trials is None or self.trials < trials:
                    free.acquire()
                    if time.monotonic() >= deadline_s:
                        break
                    running.append(pool.submit(self._run_and_close, *self._prepare(faults), deadline_s))
                    running[-1].add_done_callback(lambda _: free.release())
                for each in running:
                    each.result()
            except BaseException:
                for trial in list(self._living):
                    trial.kill_all()
                raise
        left = set(os.listdir("/dev/shm")) - self._shared_memory if self._shared_memory else set()
        if left := {name for name in left if "torch" in name or "pym" in name or name.startswith("sem.")}:
            self.kinds.setdefault(END, Kind()).damage.append(f"shared memory is left: {sorted(left)}")

    def _prepare(self, faults: int) -> tuple[Trial, Disk, list[str]]:
        """The next trial, its disk, and the names of its faults."""
        self.trials += 1
        disk = Disk(self.folder / f"trial-{self.trials}")
        try:
            env, agent = self._place(disk.is_mounted)
        except BaseException:
            disk.close()
            raise
        trial = Trial(disk.folder / "t", env, agent, self._rng.randrange(2**31), self._plugin)
        trial.number = self.trials
        return trial, disk, self._chosen(env, agent, faults, disk.is_mounted)

    def _run_and_close(self, trial: Trial, disk: Disk, names: list[str], deadline_s: float) -> None:
        self._living.append(trial)
        try:
            self._run_trial(trial, names, deadline_s)
        finally:
            trial.kill_all()
            self._living.remove(trial)
            disk.close()

    def _run_trial(self, trial: Trial, names: list[str], deadline_s: float) -> None:
        """Trains, hurts the run until the deadline, but once at least, ends it, checks it, and resumes it once more."""
        self.say(f"trial {trial.number}: {trial.agent} on {trial.env}: {', '.join(names)}")
        if not self._try(trial, BEGIN, trial.begin):
            return
        for number, name in enumerate(names):
            if number > 0 and time.monotonic() > deadline_s:
                break
            fault = FAULTS[name]
            if not self._try(trial, name, partial(self._hurt, trial, fault)) or fault.is_last:
                return
        self._try(trial, END, partial(self._close, trial))

    def _place(self, has_disk: bool) -> tuple[str, str]:
        """An environment and an agent that every fault of `only` fits.

        Raises:
            click.UsageError: there is none.
        """
        places = [(env, agent) for env in ENVS for agent in (PONG_AGENTS if env == "pong" else AGENTS)]
        fitting = [each for each in places if all(FAULTS[name].fits(*each, has_disk) for name in self.only)]
        if not fitting:
            raise click.UsageError("no trial can have all these faults; a disk that is filled needs root")
        envs = sorted({env for env, _ in fitting})
        env = self._rng.choice([env for env in ("cartpole", "chaos", "chaos", "chaos", "pong") if env in envs])
        return env, self._rng.choice([agent for each, agent in fitting if each == env])

    def _chosen(self, env: str, agent: str, count: int, has_disk: bool) -> list[str]:
        """Names of faults for a trial: first those that were tried least, in any order."""
        if self.only:
            lasts = [name for name in self.only if FAULTS[name].is_last]
            others = [name for name in self.only if not FAULTS[name].is_last]
            return [*(name for name, _ in zip(itertools.cycle(others), range(count - len(lasts)))), *lasts[:1]]
        fitting = [name for name, fault in FAULTS.items() if fault.fits(env, agent, has_disk)]
        lasts = [name for name in fitting if FAULTS[name].is_last]
        others = [name for name in fitting if name not in lasts]
        chosen: list[str] = []
        while len(chosen) < count:
            left = [name for name in others if name not in ONCE or name not in chosen]
            self._rng.shuffle(left)
            name = min(left, key=lambda name: self._drawn[name])
            self._drawn[name] += 1
            chosen.append(name)
        self._rng.shuffle(chosen)
        return chosen + ([self._rng.choice(lasts)] if self._rng.random() < LAST_SHARE else [])

    def _try(self, trial: Trial, name: str, action: Callable[[], Any]) -> bool:
        """Does something, and enters in the table what came of it. Whether the trial can go on."""
        trial.steps_lost = 0
        damage = never_began = ""
        try:
            action()
        except NeverBeganError as error:
            never_began = str(error)
            self.say(f"  trial {trial.number} never began, at {name}: {error}")
        except Exception as error:
            damage = str(error) if isinstance(error, DamageError) else type_and_message(error)
            self.say(f"  DAMAGE in trial {trial.number} at {name}: {damage}\n{trial.log[-3000:]}")
        with self._entering:
            kind = self.kinds.setdefault(name, Kind())
            kind.faults += 1
            kind.never_began += bool(never_began)
            kind.damage += [f"trial {trial.number}, {trial.agent} on {trial.env}: {damage}"] if damage else []
            kind.right += not (damage or never_began)
            kind.steps_lost = max(kind.steps_lost, trial.steps_lost)
        return not (damage or never_began)

    def _hurt(self, trial: Trial, fault: Fault) -> None:
        """Does what the fault does, and checks that it leads to what it must."""
        number = len(trial.events())
        words = fault.hurt(trial)
        if fault.status is not None:
            self._end(trial, fault.status)
            if fault.is_last:
                return
            words = fault.meanwhile(trial) or words
            resume = Resume(trial)
            trial.begin()
            resume.check(trial)
        else:
            resume = None
        for kinds, text in ((fault.events, words), ((fault.then,), "")):
            if kinds and kinds != ("",):
                has_come = partial(found, trial, number, kinds, text)
                trial.wait(has_come, f"no event {' or '.join(kinds)} with the words {text!r}")
        if resume is None:
            trial.wait_for_training()
        if trial.is_over():
            raise DamageError(f"the run has ended: {trial.how_it_ended}")
        self._check_events(trial, fault, number, words)

    def _check_events(self, trial: Trial, fault: Fault, number: int, words: str) -> None:
        """The events of the fault are there, and no others."""
        for event in trial.events()[number:]:
            is_expected = event["kind"] in (*fault.events, fault.then)
            is_starved = event["kind"] in STARVED and HUNG in event["text"] and HUNG not in words
            if is_starved and (fault.starved or event["kind"] == "evaluator_replaced"):
                self.starved += 1
            elif not is_expected:
                raise DamageError(f"an event that nothing explains: {event['kind']}: {event['text']}")
        for kinds, text in ((fault.events, words), ((fault.then,), "")):
            if kinds and kinds != ("",) and not found(trial, number, kinds, text):
                raise DamageError(f"no event {' or '.join(kinds)} with the words {text!r}")
        if any(event["kind"] == "restarted" for event in trial.events()[number:]):
            check_numbers(trial)

    def _end(self, trial: Trial, status: int) -> None:
        """The command has ended, or ends now, with this status; its files are whole."""
        trial.wait(trial.is_over, f"it should end with {status}")
        trial.wait_for_silence()
        if trial.status != status:
            raise DamageError(f"it should end with {status}, and has ended with {trial.how_it_ended}")
        if status > 0 and "Traceback" in trial.log:
            raise DamageError(f"it shows a traceback: {trial.last_line}")
        check_files(trial)

    def _close(self, trial: Trial) -> None:
        """The end in order, the checks, and one more resume."""
        trial.end()
        self._end(trial, 130)
        resume = Resume(trial)
        temporary = set(os.listdir(trial.temporary))
        trial.start("--steps", str(trial.newest_step() + MORE_STEPS))
        self._end(trial, 0)
        resume.check(trial)
        if left := set(os.listdir(trial.temporary)) - temporary:
            raise DamageError(f"temporary files are left: {sorted(left)}")

    def table(self) -> str:
        """The result, a line for each kind of fault."""
        head = f"{'fault':22} {'must lead to':52} {'times':>5} {'right':>5} {'never began':>11} {'steps lost':>10} "
        lines = [head + f"{'damage':>6}"]
        for name in [BEGIN, *FAULTS, END]:
            if kind := self.kinds.get(name):
                must = FAULTS[name].must if name in FAULTS else ""
                lines.append(
                    f"{name:22} {must:52} {kind.faults:5} {kind.right:5} {kind.never_began:11} "
                    f"{kind.steps_lost:10,} {len(kind.damage):6}"
                )
        lines.append(f"{self.num_faults} faults in {self.trials} trials, {self.num_damages} damages")
        if self.starved:
            lines.append(f"processes that this machine gave no time, and that were replaced: {self.starved}")
        return "\n".join(lines)

    @property
    def num_damages(self) -> int:
        return sum(len(kind.damage) for kind in self.kinds.values())


def found(trial: Trial, number: int, kinds: tuple[str, ...], words: str) -> bool:
    """Whether an event of some kinds, with words, has come since the run had so many events."""
    return any(event["kind"] in kinds and re.search(words, event["text"]) for event in trial.events()[number:])


@click.command(context_settings={"max_content_width": 120})
@click.option("--seed", type=click.IntRange(0), required=True, help="Chooses all faults.")
@click.option(
    "--minutes", type=click.FloatRange(0, 600), default=20.0, show_default=True, help="No trial begins later."
)
@click.option("--faults", type=click.IntRange(1, 100), default=12, show_default=True, help="Faults of each trial.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(list(FAULTS)), help="Only this kind of fault.")
@click.option("--trials", type=click.IntRange(1), help="The most trials; without it the time alone ends them.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def main(seed: int, minutes: float, faults: int, kinds: tuple[str, ...], trials: int | None, as_json: bool) -> None:
    """Hurts trainings, and checks that each fault leads to what it must.

    Example: python -m benchmarks.chaos --seed 1 --minutes 2
    """
    lock = filelock.FileLock(Path(tempfile.gettempdir()) / "a3c-zoo-chaos.lock")
    try:
        lock.acquire(blocking=False)
    except filelock.Timeout:
        raise click.UsageError("another chaos program runs on this machine; wait for its end") from None
    for number in (signal.SIGINT, signal.SIGHUP):  # that the caller ignores (nohup, `&`), and a trial would, too
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    start_s = time.monotonic()
    deadline_s = start_s + 60 * minutes
    with lock, tempfile.TemporaryDirectory(prefix="a3c-zoo-chaos-", ignore_cleanup_errors=True) as folder:
        campaign = Campaign(seed, Path(folder), kinds, lambda text: click.echo(text, err=True))
        campaign.run(faults, deadline_s, trials)
    if as_json:
        table = {name: asdict(kind) for name, kind in campaign.kinds.items()}
        told = {"seed": seed, "trials": campaign.trials, "faults": campaign.num_faults, "kinds": table}
        click.echo(json.dumps(told))
    else:
        click.echo(campaign.table())
        click.echo(f"seed {seed}, {time.monotonic() - start_s:.0f} s")
    sys.exit(1 if campaign.num_damages else 0)


if __name__ == "__main__":
    main()
