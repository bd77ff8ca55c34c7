"""For the tests of whole runs: the toy plugin (toys_env.py), commands in their own processes, readers of runs."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from a3c_zoo.cli.main import cli
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.runs.api import load_from
from a3c_zoo.runs.pictures import Scene, play_scenes
from a3c_zoo.store.checkpoint_bytes import read_content, to_bytes
from a3c_zoo.store.checkpoints import checkpoint_file
from a3c_zoo.store.directory import RunDirectory
from a3c_zoo.store.recommended import RECOMMENDED, choose
from a3c_zoo.store.run import find_run
from a3c_zoo.testing import plugin_distribution
from tests.toys_env import MADE
from tests.waits import LIMIT_S

ROOT = Path(__file__).parents[1]


def scenes_of(run: Path, episodes: int = 1, seed: int | None = None) -> Generator[Scene]:
    """Plays the policy that a run recommends, as `a3c-zoo play` does, with sampled actions."""
    directory = find_run(run)
    choice = choose(directory, RECOMMENDED)
    return play_scenes(*load_from(directory, choice.which, episodes, seed), deterministic=False)


def toy_path(folder: Path) -> Path:
    """Writes the toy plugin as a distribution; returns the folder that installs it when it is on the path."""
    return plugin_distribution(folder, "toy-runs", "from tests.toys_env import zoo_envs, zoo_networks\n")


@contextmanager
def toy_installed(folder: Path) -> Iterator[None]:
    """Installs the toy plugin in this process."""
    MADE.clear()
    with installed_here(toy_path(folder)):
        yield


@contextmanager
def installed_here(path: Path, **variables: str) -> Iterator[None]:
    """Installs the distributions of a folder in this process, with these environment variables; forgets them after."""
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("A3C_ZOO_DISABLE_PLUGINS", "A3C_ZOO_PLUGINS"):
            patch.delenv(variable, raising=False)
        for variable, value in variables.items():
            patch.setenv(variable, value)
        patch.syspath_prepend(path)
        get_registry.cache_clear()
        try:
            yield
        finally:
            for name, module in list(sys.modules.items()):
                if Path(getattr(module, "__file__", None) or "/").is_relative_to(path):
                    del sys.modules[name]
            get_registry.cache_clear()


def command_line(*arguments: object) -> int:
    """Runs `a3c-zoo` in this process and returns its exit status."""
    with pytest.raises(SystemExit) as left:
        cli.main([str(each) for each in arguments], prog_name="a3c-zoo")
    return left.value.code if isinstance(left.value.code, int) else 0


#: A program that runs several command lines in turn. Each process that imports torch costs 1.5 s.
IN_TURN = """
import json, sys
from a3c_zoo.cli.main import cli
for words in json.loads(sys.argv[1]):
    if status := cli.main(words, prog_name="a3c-zoo", standalone_mode=False):
        sys.exit(f"{words}: {status}")
"""


def in_turn(*lines: Sequence[str]) -> list[str]:
    """Arguments of an interpreter that runs several lines of words for `a3c-zoo`, until one fails."""
    return ["-P", "-c", IN_TURN, json.dumps(lines)]


def environ(path: Path | None = None) -> dict[str, str]:
    """Environment variables for a process of its own, with the distributions in `path` installed."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("A3C_ZOO_", "_A3C_ZOO_"))}
    return own | {"PYTHONPATH": os.pathsep.join(str(each) for each in (path, ROOT) if each), "PYTHONUNBUFFERED": "1"}


class Running:
    """A command in its own session, as a terminal starts one. The end of the context ends all its processes."""

    def __init__(
        self,
        *arguments: object,
        folder: Path,
        path: Path | None = None,
        program: tuple[str, ...] = ("-m", "a3c_zoo"),
        preexec: Callable[[], None] | None = None,
    ) -> None:
        self._stdout, self._stderr = folder / "stdout.txt", folder / "stderr.txt"
        with self._stdout.open("w") as out, self._stderr.open("w") as err:
            self.process = subprocess.Popen(
                [sys.executable, *program, *map(str, arguments)],
                cwd=folder,
                env=environ(path),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                preexec_fn=preexec,
            )

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *exception: object) -> None:
        left = self.others()
        self.process.kill()
        self.process.wait()
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()

    @property
    def stdout(self) -> str:
        """Its standard output so far."""
        return self._stdout.read_text()

    @property
    def stderr(self) -> str:
        """Its standard error so far."""
        return self._stderr.read_text()

    def signal_group(self, number: int) -> None:
        """Signals all its processes, as a terminal does on Ctrl-C, or `timeout` at its limit."""
        os.killpg(self.process.pid, number)

    def others(self) -> list[psutil.Process]:
        """Every other process of its session: workers, the fork server, the resource tracker; orphans too."""
        found = []
        for pid in psutil.pids():
            try:
                if pid != self.process.pid and os.getsid(pid) == self.process.pid:
                    process = psutil.Process(pid)
                    if process.status() != psutil.STATUS_ZOMBIE:
                        found.append(process)
            except (ProcessLookupError, psutil.NoSuchProcess):
                continue
        return found

    def workers(self) -> list[psutil.Process]:
        """Its workers, which the fork server has forked."""
        return [process for process in self.others() if process.ppid() not in (self.process.pid, 1)]

    def wait_until(self, condition: Callable[[], Any], limit_s: float = LIMIT_S) -> Any:
        """Waits until a condition holds and returns its value; fails if the process ends before."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            if value := condition():
                return value
            assert self.process.poll() is None, f"ended too soon:\n{self.stdout}\n{self.stderr}"
            time.sleep(0.02)
        raise AssertionError(f"nothing within {limit_s} s:\n{self.stdout}\n{self.stderr}")

    def exit_status(self, limit_s: float = LIMIT_S) -> int:
        """Waits for its end and returns its exit status."""
        return self.process.wait(limit_s)

    def assert_nothing_left(self, limit_s: float = LIMIT_S) -> None:
        """Waits until no process of its session is left."""
        deadline = time.monotonic() + limit_s
        while (left := self.others()) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not left


def shared_memory() -> set[str]:
    """The names of the files in shared memory."""
    return set(os.listdir("/dev/shm"))


def assert_no_new_shared_memory(before: set[str], limit_s: float = LIMIT_S) -> None:
    """Waits until shared memory has no new file; other programs may put one there for a moment."""
    deadline = time.monotonic() + limit_s
    while (left := shared_memory() - before) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left


def episodes(run: Path) -> list[dict[str, float]]:
    """The complete rows of monitor.csv; none if there is no such file yet."""
    path = run / "monitor.csv"
    if not path.exists():
        return []
    lines = path.read_text().split("\n")[1:-1]
    return [{key: float(value) for key, value in row.items()} for row in csv.DictReader(lines)]


def scalars(run: Path) -> dict[str, list[tuple[int, float]]]:
    """tag → (step, value) points of all of a run's TensorBoard events, as TensorBoard reads them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run / "tensorboard"), size_guidance={"scalars": 0})
    events.Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def checkpoint(run: Path, which: str = "final") -> dict[str, Any]:
    """A checkpoint's content, as it lies on the disk."""
    content: dict[str, Any] = read_content(checkpoint_file(RunDirectory(run), which))
    return content


def write_content(path: Path, content: dict[str, Any]) -> None:
    """Writes a checkpoint with this content, and its digest."""
    path.write_bytes(unchecked_bytes(content))


def unchecked_bytes(content: dict[str, Any]) -> bytes:
    """The bytes of a checkpoint with this content, whatever it says."""
    return to_bytes(content)


def assert_same_training(one: Any, other: Any, where: str = "") -> None:
    """Two checkpoints are equal, bit by bit, except for values that depend on time or on the number of sessions."""
    of_the_clock = ("seconds", "monitor_position", "resources", "evaluation/seconds")
    if where == "/agent/session" or where in [f"/session/{name}" for name in of_the_clock]:
        return
    assert type(one) is type(other), where
    if isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for key in one:
            assert_same_training(one[key], other[key], f"{where}/{key}")
    elif isinstance(one, list):
        assert len(one) == len(other), where
        for number, (mine, yours) in enumerate(zip(one, other, strict=True)):
            assert_same_training(mine, yours, f"{where}/{number}")
    elif isinstance(one, torch.Tensor):
        assert one.dtype == other.dtype, where
        assert torch.equal(one, other), where
    else:
        assert one == other, where


class Listener:
    """An observer that keeps messages and steps, and calls a function at each report of progress."""

    def __init__(self, on_progress: Callable[[Any], None] = lambda progress: None) -> None:
        self.messages: list[str] = []
        self.steps: list[int] = []
        self._on_progress = on_progress

    def starting(self, title: str, target: float | None, run: Any, path: Path) -> None:
        self.path = path

    def progress(self, progress: Any) -> None:
        self.steps.append(progress.steps)
        self._on_progress(progress)

    def message(self, text: str) -> None:
        self.messages.append(text)


def signal_self(number: int = signal.SIGINT) -> None:
    """Signals this process, by default as Ctrl-C does."""
    os.kill(os.getpid(), number)
