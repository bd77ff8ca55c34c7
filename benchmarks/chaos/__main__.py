"""Hurts trainings in every way that it knows, and checks that nothing was lost (`make chaos`).

It trains CartPole and Pong with every agent. It kills workers, learner, evaluator, fork server and parent, stops and
continues them, delivers signals in pairs, fills the disk, removes folders, breaks environments and closes outputs.
Afterwards it checks every file against independent counts, resumes the run, and looks for what is left: processes,
shared memory, temporary files. The same seed gives the same faults in the same order.

Exit status: 0 if no fault did damage, 1 otherwise.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import click
import filelock

from a3c_zoo.testing import plugin_distribution
from benchmarks.chaos.checks import check_files
from benchmarks.chaos.faults import DISK, ENVIRONMENT, EVERYWHERE, LAST, Disk
from benchmarks.chaos.trial import DamageError, Trial

AGENTS = ("a3c", "a3c-grad", "a3c-data", "nstep", "monte-carlo")
#: Those that have a hyperparameter set for Pong.
PONG_AGENTS = ("a3c", "a3c-grad", "a3c-data")
#: Steps that a run makes after its last fault, to show that it can be resumed.
MORE_STEPS = 500


@dataclass
class Kind:
    """What came of one kind of fault: how often the run went on, how often it ended in order, and what was damaged.

    steps_lost: the most that a resume had to train again.
    """

    faults: int = 0
    recovered: int = 0
    ended: int = 0
    steps_lost: int = 0
    damage: list[str] = field(default_factory=list)


@dataclass
class Campaign:
    """Trials, one after the other.

    Args:
        seed: chooses everything. folder: for the runs. kind: the only kind of fault; None: all.
        say: prints a line of progress.
    """

    seed: int
    folder: Path
    kind: str | None
    say: Callable[[str], None]
    kinds: dict[str, Kind] = field(default_factory=dict)
    trials: int = 0

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        module = "from benchmarks.chaos.environment import zoo_envs\n"
        self._plugin = plugin_distribution(self.folder / "plugin", "chaos-env", module)
        self._shared_memory = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()

    @property
    def num_faults(self) -> int:
        return sum(kind.faults for kind in self.kinds.values())

    def run_trial(self, faults: int, deadline_s: float) -> None:
        """Trains, hurts the run until the deadline, but once at least, ends it, checks it, and resumes it once more."""
        self.trials += 1
        disk = Disk(self.folder / f"trial-{self.trials}")
        env = self._rng.choice(["cartpole", "chaos", "chaos", "pong"])
        agent = self._rng.choice(PONG_AGENTS if env == "pong" else AGENTS)
        trial = Trial(disk.folder / "t", env, agent, self._rng.randrange(2**31), self._plugin)
        names = self._chosen(env, agent, faults, disk.is_mounted)
        self.say(f"trial {self.trials}: {agent} on {env}: {', '.join(names)}")
        name = "start"
        try:
            trial.start()
            trial.wait_for_training()
            for number, name in enumerate(names):
                if number > 0 and time.monotonic() > deadline_s:
                    break
                self._hurt(trial, name)
            name = "end"
            self._close(trial)
        except DamageError as damage:
            self._kind(name).damage.append(f"trial {self.trials}, {agent} on {env}: {damage}")
            self.say(f"  DAMAGE at {name}: {damage}\n{trial.log[-3000:]}")
        finally:
            trial.kill_all()
            disk.close()

    def _chosen(self, env: str, agent: str, count: int, can_fill: bool) -> list[str]:
        if self.kind is not None:
            return [self.kind] * count
        known = EVERYWHERE | (ENVIRONMENT if env == "chaos" else {}) | (DISK if can_fill else {})
        names = [name for name in known if name != "kill the learner" or agent in ("a3c-grad", "a3c-data")]
        chosen = self._rng.choices(names, k=count)
        return chosen + ([self._rng.choice(list(LAST))] if self._rng.random() < 0.2 else [])

    def _kind(self, name: str) -> Kind:
        return self.kinds.setdefault(name, Kind())

    def _hurt(self, trial: Trial, name: str) -> None:
        kind = self._kind(name)
        kind.faults += 1
        trial.steps_lost = 0
        how = (EVERYWHERE | ENVIRONMENT | DISK | LAST)[name](trial)
        kind.steps_lost = max(kind.steps_lost, trial.steps_lost)
        if how == "recovered":
            kind.recovered += 1
            return
        kind.ended += 1
        self.say(f"  ended after {name}: {trial.log.rstrip().splitlines()[-1]}")
        trial.wait_for_silence()
        assert trial.process is not None
        if trial.process.returncode not in (0, 1, 2, 130):
            raise DamageError(f"exit status {trial.process.returncode}")
        if name not in LAST:
            trial.start()
            trial.wait_for_training()

    def _close(self, trial: Trial) -> None:
        """The end in order, the checks, and one more resume."""
        trial.end()
        if trial.run.exists() and trial.checkpoints() and (trial.run / "outcome.json").exists():
            check_files(trial)
            trial.start("--steps", str(trial.newest_step() + MORE_STEPS))
            trial.wait(trial.is_over, "the resumed run")
            assert trial.process is not None
            if trial.process.returncode != 0:
                raise DamageError(f"the resumed run ended with status {trial.process.returncode}")
            trial.wait_for_silence()
            check_files(trial)
        left = set(os.listdir("/dev/shm")) - self._shared_memory if self._shared_memory else set()
        if left := {name for name in left if "torch" in name or "pym" in name or name.startswith("sem.")}:
            raise DamageError(f"shared memory is left: {sorted(left)}")

    def table(self) -> str:
        """The result, a line for each kind of fault."""
        head = f"{'fault':30} {'times':>6} {'recovered':>10} {'ended':>6} {'steps lost':>11} {'damage':>7}"
        lines = [
            f"{name:30} {kind.faults:6} {kind.recovered:10} {kind.ended:6} {kind.steps_lost:11,} {len(kind.damage):7}"
            for name, kind in sorted(self.kinds.items())
        ]
        return "\n".join(
            [head, *lines, f"{self.num_faults} faults in {self.trials} trials, {self.num_damages} damages"]
        )

    @property
    def num_damages(self) -> int:
        return sum(len(kind.damage) for kind in self.kinds.values())


@click.command(context_settings={"max_content_width": 120})
@click.option("--seed", type=click.IntRange(0), required=True, help="Chooses all faults.")
@click.option(
    "--minutes", type=click.FloatRange(0, 600), default=20.0, show_default=True, help="No trial begins later."
)
@click.option("--faults", type=click.IntRange(1, 100), default=12, show_default=True, help="Faults of each trial.")
@click.option("--kind", type=click.Choice(list(EVERYWHERE)), help="Only this kind of fault.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def main(seed: int, minutes: float, faults: int, kind: str | None, as_json: bool) -> None:
    """Hurts trainings, and checks that nothing was lost.

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
        campaign = Campaign(seed, Path(folder), kind, lambda text: click.echo(text, err=True))
        while time.monotonic() < deadline_s:
            campaign.run_trial(faults, deadline_s)
    if as_json:
        kinds = {name: asdict(kind) for name, kind in campaign.kinds.items()}
        click.echo(json.dumps({"seed": seed, "trials": campaign.trials, "kinds": kinds}))
    else:
        click.echo(campaign.table())
        click.echo(f"seed {seed}, {time.monotonic() - start_s:.0f} s")
    sys.exit(1 if campaign.num_damages else 0)


if __name__ == "__main__":
    main()
