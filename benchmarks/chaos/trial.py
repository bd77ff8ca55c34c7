"""One training under fault: the command in a session of its own, its processes and its files."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from benchmarks.chaos.environment import FOLDER

#: Longest wait for one event, in seconds: generous, because a busy machine may be slow.
LIMIT_S = 90.0
#: A budget that no trial spends.
STEPS = str(10**12)
CHECKPOINT_EVERY_S = 1.0
#: A worker without a tick for so long is hung. A busy machine needs some seconds to start one.
WORKER_TIMEOUT_S = 10.0
#: What the run says of a process that is hung, or that a busy machine has given no time.
HUNG = f"has made no step for {WORKER_TIMEOUT_S:g} s"
#: The folder of the package `benchmarks`.
ROOT = Path(__file__).parents[2]


class DamageError(Exception):
    """Something that must never happen: a hang, a leak, a damaged file, a step that is counted twice."""


class NeverBeganError(Exception):
    """A busy machine gave a worker no time to begin, and the command has ended. The message is its last line."""


class Trial:
    """A run in `folder`, which a fault can stop, and `start` begins or resumes.

    Args:
        env, agent: names. seed: of the run. path: the folder with the plugin of environment `chaos`.

    Attributes:
        number: of the trial. process: the newest command. run: its directory. rng: chooses what is hurt.
        steps_lost: what resumes have to train again, as far as episodes have ended.
        rows_lost: rows of monitor.csv that a fault has cut off.
        damaged: the name of a checkpoint that a fault has damaged. is_removed: whether a fault has removed files.
    """

    def __init__(self, folder: Path, env: str, agent: str, seed: int, path: Path) -> None:
        self.folder, self.env, self.agent, self.seed = folder, env, agent, seed
        self.run, self.rng = folder / "runs" / "x", random.Random(seed)
        self.temporary = folder / "tmp"
        self._path = path
        self.process: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        self.steps_lost = self.rows_lost = 0
        self.number = 0
        self.damaged = ""
        self.is_removed = False
        self.temporary.mkdir(parents=True)

    def start(self, *more: str, output: int | None = None) -> None:
        """Begins the run, or goes on with it. output: the file descriptor of its stdout; None: the log."""
        settings = {
            "run.checkpoint_every_s": CHECKPOINT_EVERY_S,
            "run.worker_timeout_s": WORKER_TIMEOUT_S,
            "run.worker_restarts": 1000,
            "run.restarts": 1000,
            "run.stop_when_solved": "false",
            "run.evaluation_every_s": 3,
            "run.evaluation_cpu_share": 0.5,
            "run.evaluator_episodes": 1,
            "run.disk_patience_s": 60,
        }
        options = [part for key, value in settings.items() for part in ("-o", f"{key}={value}")]
        new = [self.env, "--agent", self.agent, "--seed", str(self.seed), "--name", "x", "--steps", STEPS, *options]
        what = ["--resume", str(self.run)] if (self.run / "config.yml").exists() else new
        self.steps_lost += self.steps_after_checkpoint()
        path = os.pathsep.join(str(each) for each in (self._path, ROOT, ROOT / "envs", ROOT / "hyperparams"))
        variables = {"PYTHONPATH": path, FOLDER: str(self.folder), "TMPDIR": str(self.temporary)}
        with (self.folder / "log.txt").open("ab") as log:
            self._log_start = log.tell()
            self.process = subprocess.Popen(
                [sys.executable, "-m", "a3c_zoo", "train", *what, *more],
                cwd=self.folder,
                env=os.environ | variables,
                stdin=subprocess.DEVNULL,
                stdout=log if output is None else output,
                stderr=log,
                start_new_session=True,
            )

    def begin(self, *more: str, output: int | None = None) -> None:
        """Starts the command, and waits until it trains.

        Raises:
            NeverBeganError: the machine gave a worker no time, so it has ended in order. DamageError: it has ended
                otherwise.
        """
        self.start(*more, output=output)
        self.wait_for_training()
        if not self.is_over():
            return
        self.wait_for_silence()
        if self.status not in (1, 2) or "Traceback" in self.log or HUNG not in self.last_line:
            raise DamageError(f"the command ended before it trained: {self.how_it_ended}")
        raise NeverBeganError(self.last_line)

    @property
    def log(self) -> str:
        """What the newest command has printed."""
        with (self.folder / "log.txt").open("rb") as file:
            file.seek(self._log_start)
            return file.read().decode(errors="replace")

    @property
    def last_line(self) -> str:
        """The last line that the newest command has printed, "" if it has printed none."""
        return (self.log.rstrip().splitlines() or [""])[-1]

    @property
    def status(self) -> int | None:
        """The exit status of the command, or the negative number of the signal that ended it; None: it runs."""
        assert self.process is not None
        return self.process.poll()

    @property
    def how_it_ended(self) -> str:
        """The exit status and the last line, for messages."""
        return f"status {self.status}, {self.last_line or 'without a line'}"

    def others(self) -> list[psutil.Process]:
        """The other living processes of the command's session."""
        assert self.process is not None
        found = []
        for pid in psutil.pids():
            with suppress(ProcessLookupError, psutil.Error):
                if pid != self.process.pid and os.getsid(pid) == self.process.pid:
                    process = psutil.Process(pid)
                    if process.status() != psutil.STATUS_ZOMBIE:
                        found.append(process)
        return found

    def named(self, name: str) -> dict[int, str]:
        """The processes whose name begins so ("a3c worker", "a3c the learner", "a3c evaluator"): number → name."""
        found = {}
        for process in self.others():
            with suppress(OSError):
                own_name = Path(f"/proc/{process.pid}/comm").read_text().strip()
                if own_name.startswith(name):
                    found[process.pid] = own_name
        return found

    def fork_servers(self) -> list[psutil.Process]:
        """The processes that fork the workers: one, and those before it whose socket was removed."""
        assert self.process is not None
        found = []
        for process in self.others():
            with suppress(psutil.Error):
                if process.ppid() == self.process.pid and "forkserver" in " ".join(process.cmdline()):
                    found.append(process)
        return found

    def is_over(self) -> bool:
        """Whether the command has ended."""
        return self.status is not None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The command's own process, which alone writes the run's files, stands still meanwhile."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        try:
            deadline_s = time.monotonic() + LIMIT_S
            while not self.is_over() and psutil.Process(self.process.pid).status() != psutil.STATUS_STOPPED:
                if time.monotonic() > deadline_s:
                    raise DamageError("the command does not stand still")
                time.sleep(0.01)
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def wait(self, condition: Callable[[], Any], what: str, limit_s: float = LIMIT_S) -> Any:
        """Waits until a condition holds or the command ends; returns the condition's value.

        Raises:
            DamageError: neither came to pass.
        """
        deadline_s = time.monotonic() + limit_s
        while time.monotonic() < deadline_s:
            is_over = self.is_over()
            if (value := condition()) or is_over:
                return value
            time.sleep(0.05)
        raise DamageError(f"{what}: nothing within {limit_s:g} s")

    def checkpoints(self) -> list[Path]:
        """The run's checkpoints, the oldest first."""
        return sorted((self.run / "checkpoints").glob("step-*.pt"))

    def newest(self) -> str:
        """The name of the newest checkpoint, "" if there is none."""
        checkpoints = self.checkpoints()
        return checkpoints[-1].name if checkpoints else ""

    def newest_step(self) -> int:
        """The step of the newest checkpoint; 0 if there is none."""
        return int(self.newest().removeprefix("step-").removesuffix(".pt") or 0)

    def rows(self) -> bytes:
        """The bytes of monitor.csv, up to the end of its last whole row."""
        with suppress(OSError):
            return (self.run / "monitor.csv").read_bytes().rpartition(b"\n")[0]
        return b""

    def steps_after_checkpoint(self) -> int:
        """How many steps lie between the newest checkpoint and the newest episode of monitor.csv."""
        values = self.rows().rpartition(b"\n")[2].split(b",")
        if not self.newest() or len(values) != 5 or not values[3].isdigit():
            return 0
        return max(0, int(values[3]) - self.newest_step())

    def wait_for_training(self) -> None:
        """Waits until the run has written a checkpoint beyond the newest one: it trains.

        That of step 0 is written before the first rollout. It does not count.
        """
        before = self.newest() or "step-000000000000.pt"
        self.wait(lambda: self.newest() > before, "the run does not go on")

    def events(self) -> list[dict[str, Any]]:
        """The run's events, as far as their lines are whole."""
        file = self.run / "events.jsonl"
        text = file.read_text() if file.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def end(self) -> None:
        """Ends the command as Ctrl-C does, and waits for all its processes."""
        assert self.process is not None
        if not self.is_over():
            self.process.send_signal(signal.SIGINT)
        self.wait(self.is_over, "the end after Ctrl-C")
        self.wait_for_silence()

    def wait_for_silence(self) -> None:
        """Waits until no process of the session is left."""
        deadline_s = time.monotonic() + LIMIT_S / 3
        while (left := self.others()) and time.monotonic() < deadline_s:
            time.sleep(0.05)
        if left:
            raise DamageError(f"processes are left: {left}")

    def kill_all(self) -> None:
        """Ends all that is left."""
        if self.process is None:
            return
        for process in self.others():
            with suppress(psutil.Error):
                process.kill()
        self.process.kill()
        self.process.wait()
