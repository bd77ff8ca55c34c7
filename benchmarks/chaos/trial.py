"""One training under fault: the command in a session of its own, its processes and its files."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from benchmarks.chaos.environment import FOLDER

#: Longest wait for one event, in seconds: generous, because a busy machine may be slow.
LIMIT_S = 90.0
CHECKPOINT_EVERY_S = 1.0
#: A worker without a tick for so long is hung.
WORKER_TIMEOUT_S = 4.0
#: The folder of the package `benchmarks`.
ROOT = Path(__file__).parents[2]


class DamageError(Exception):
    """Something that must never happen: a hang, a leak, a damaged file, a step that is counted twice."""


class Trial:
    """A run in `folder`, which a fault can stop, and `start` begins or resumes.

    Args:
        env, agent: names. seed: of the run. path: the folder with the plugin of environment `chaos`.

    Attributes:
        process: the newest command. run: its directory. rng: chooses what is hurt.
        steps_lost: what resumes have to train again, as far as episodes have ended.
    """

    def __init__(self, folder: Path, env: str, agent: str, seed: int, path: Path) -> None:
        self.folder, self.env, self.agent, self.seed = folder, env, agent, seed
        self.run, self.rng = folder / "runs" / "x", random.Random(seed)
        self._path = path
        self.process: subprocess.Popen[bytes] | None = None
        self.steps_lost = 0
        folder.mkdir(parents=True)

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
        new = [self.env, "--agent", self.agent, "--seed", str(self.seed), "--name", "x", *options]
        what = ["--resume", str(self.run)] if (self.run / "config.yml").exists() else new
        self.steps_lost += self.steps_after_checkpoint()
        log = (self.folder / "log.txt").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "a3c_zoo", "train", *what, *more],
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": f"{self._path}{os.pathsep}{ROOT}", FOLDER: str(self.folder)},
            stdin=subprocess.DEVNULL,
            stdout=log if output is None else output,
            stderr=log,
            start_new_session=True,
        )

    @property
    def log(self) -> str:
        """What the commands have printed."""
        return (self.folder / "log.txt").read_text(errors="replace")

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

    def named(self, name: str) -> list[psutil.Process]:
        """The processes whose name begins so: "a3c worker", "a3c the learner", "a3c evaluator"."""
        found = []
        for process in self.others():
            with suppress(psutil.Error):
                if Path(f"/proc/{process.pid}/comm").read_text().startswith(name):
                    found.append(process)
        return found

    def fork_server(self) -> list[psutil.Process]:
        """The process that forks the workers."""
        assert self.process is not None
        found = []
        for process in self.others():
            with suppress(psutil.Error):
                if process.ppid() == self.process.pid and "forkserver" in " ".join(process.cmdline()):
                    found.append(process)
        return found

    def is_over(self) -> bool:
        """Whether the command has ended."""
        assert self.process is not None
        return self.process.poll() is not None

    def wait(self, condition: Callable[[], Any], what: str, limit_s: float = LIMIT_S) -> Any:
        """Waits until a condition holds or the command ends; returns the condition's value.

        Raises:
            DamageError: neither came to pass.
        """
        deadline_s = time.monotonic() + limit_s
        while time.monotonic() < deadline_s:
            if (value := condition()) or self.is_over():
                return value
            time.sleep(0.05)
        raise DamageError(f"{what}: nothing within {limit_s:g} s")

    def checkpoints(self) -> list[Path]:
        """The run's checkpoints, the oldest first."""
        return sorted((self.run / "checkpoints").glob("step-*.pt"))

    def newest(self) -> str:
        """The name of the newest checkpoint."""
        return self.checkpoints()[-1].name if self.checkpoints() else ""

    def newest_step(self) -> int:
        """The step of the newest checkpoint."""
        return int(self.newest().removeprefix("step-").removesuffix(".pt"))

    def steps_after_checkpoint(self) -> int:
        """How many steps lie between the newest checkpoint and the newest episode of monitor.csv."""
        if not self.checkpoints():
            return 0
        monitor = self.run / "monitor.csv"
        rows = monitor.read_text().splitlines()[2:] if monitor.exists() else []  # after the comment and the names
        return max(0, int(rows[-1].split(",")[3]) - self.newest_step()) if rows else 0

    def wait_for_training(self) -> None:
        """Waits until the run has written a checkpoint beyond the newest one: it trains."""
        before = self.newest()
        self.wait(lambda: self.newest() > before, "the run does not go on")

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        """The run's events of some kinds."""
        file = self.run / "events.jsonl"
        lines = file.read_text().splitlines() if file.exists() else []
        return [event for event in map(json.loads, lines) if event["kind"] in kinds]

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
        for process in self.others():
            with suppress(psutil.Error):
                process.kill()
        if self.process is not None:
            self.process.kill()
            self.process.wait()
