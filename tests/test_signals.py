"""Ctrl-C, SIGTERM and SIGKILL, as they really arrive: nothing is left running, nothing that was learned is lost."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import a3c_zoo
from a3c_zoo.runs.signals import stop_on_signals
from a3c_zoo.store.directory import RunDirectory
from a3c_zoo.testing import plugin_distribution
from tests.toys_runs import (
    Running,
    assert_no_new_shared_memory,
    checkpoint,
    command_line,
    episodes,
    scalars,
    shared_memory,
    signal_self,
    toy_installed,
    toy_path,
)
from tests.waits import wait_until

LIMITS = ["--steps", "1000000000", "--time-limit", "5m", "--stop-return", "1e6", "--name", "x"]


def outcome(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "runs/x/outcome.json").read_text())
    return found


def assert_ended_well(running: Running, folder: Path, detail: str, status: int = 130) -> None:
    assert running.exit_status() == status
    assert running.stderr == ""
    assert f"Stopped by {detail}." in running.stdout
    running.assert_nothing_left()
    assert (outcome(folder)["reason"], outcome(folder)["detail"]) == ("interrupted", detail)
    assert not RunDirectory(folder / "runs/x").is_running()


def assert_ended_before_training(running: Running, folder: Path) -> None:
    """No worker was ready: there is nothing to go on from, and no run is left."""
    assert running.exit_status() == 130
    assert "Traceback" not in running.stderr
    assert "--resume" not in running.stdout
    running.assert_nothing_left()
    assert os.listdir(folder / "runs") == []


@pytest.mark.parametrize(
    ("number", "is_group", "detail"),
    [
        (signal.SIGINT, True, "Ctrl-C"),  # a terminal signals the whole group
        # kill; `test_under_nohup_only_sigterm_ends_a_run` has it, too
        pytest.param(signal.SIGTERM, False, "SIGTERM", marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, True, "SIGTERM", marks=pytest.mark.slow),  # timeout
        pytest.param(signal.SIGHUP, True, "SIGHUP", marks=pytest.mark.slow),  # the terminal is closed
    ],
)
def test_a_signal_ends_training_with_a_checkpoint(number: int, is_group: bool, detail: str, tmp_path: Path) -> None:
    before = shared_memory()
    with Running("train", "cartpole", *LIMITS, folder=tmp_path) as running:
        run = tmp_path / "runs/x"
        running.wait_until(lambda: len(episodes(run)) > 200)
        assert len(running.workers()) == 2
        if is_group:
            running.signal_group(number)
        else:
            running.process.send_signal(number)
        assert_ended_well(running, tmp_path, detail)
        assert_no_new_shared_memory(before)
    saved, ended = checkpoint(run), outcome(tmp_path)
    assert ended["steps"] == saved["session"]["steps"] == int(saved["agent"]["counters"][:, 0].sum())
    assert ended["episodes"] == len(episodes(run))
    assert len(saved["agent"]["workers"]) == 2
    if number == signal.SIGINT:
        more = 20_000  # an episode ends in so many, even with the best policy: 2 × 16 environments × 500
        resumed = a3c_zoo.train(resume=run, steps=ended["steps"] + more)
        assert resumed.steps >= ended["steps"] + more
        assert resumed.training_s > ended["training_s"]
        rows = episodes(run)
        assert len(rows) == resumed.episodes
        assert rows[-1]["t"] > ended["training_s"]
        for points in scalars(run).values():
            assert [step for step, _ in points] == sorted({step for step, _ in points})


def wait_until_asleep(running: Running, run: Path) -> None:
    """Until episodes have been written and, for two seconds, no more: every worker is in the step that sleeps."""
    last = (0, time.monotonic())

    def is_asleep() -> bool:
        nonlocal last
        if (count := len(episodes(run))) != last[0]:
            last = (count, time.monotonic())
        return count > 0 and time.monotonic() - last[1] > 2

    running.wait_until(is_asleep)


def test_a_second_ctrl_c_does_not_wait_for_a_slow_environment(tmp_path: Path) -> None:
    """A step that takes minutes: the first Ctrl-C waits for the rollout's end, the second for nothing."""
    options = ["-o", "env.fault=sleep", "-o", "env.after=200", "-o", "env.step_s=0.003", "-o", "n_steps=5", *LIMITS]
    with Running("train", "toy", *options, folder=tmp_path, path=toy_path(tmp_path / "toy")) as running:
        wait_until_asleep(running, tmp_path / "runs/x")
        running.signal_group(signal.SIGINT)
        time.sleep(0.5)
        assert running.process.poll() is None
        running.signal_group(signal.SIGINT)
        time.sleep(0.3)
        running.signal_group(signal.SIGINT)  # somebody has no patience at all; it is being cleaned up already
        assert_ended_well(running, tmp_path, "Ctrl-C, at once")
    saved = checkpoint(tmp_path / "runs/x")
    assert outcome(tmp_path)["steps"] == saved["session"]["steps"] > 0
    assert saved["agent"]["workers"] == []  # it goes on with new episodes


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["factory-sleep", "worker-sleep"])
def test_ctrl_c_while_an_environment_is_made(fault: str, tmp_path: Path) -> None:
    with Running(
        "train", "toy", "-o", f"env.fault={fault}", *LIMITS, folder=tmp_path, path=toy_path(tmp_path / "toy")
    ) as running:
        if fault == "worker-sleep":
            running.wait_until(lambda: len(running.workers()) == 2)
        else:
            running.wait_until(lambda: running.stdout)
        time.sleep(0.3)
        running.signal_group(signal.SIGINT)
        assert_ended_before_training(running, tmp_path)


def interrupt_after(delay_s: float, folder: Path) -> None:
    with Running("train", "cartpole", *LIMITS, folder=folder) as running:
        time.sleep(delay_s)
        running.signal_group(signal.SIGINT)
        status = running.exit_status()
        running.assert_nothing_left()
    # In its first moments, while Python itself starts, it dies as every Python program does.
    assert status in (130, -signal.SIGINT, 1)
    if (folder / "runs/x/config.yml").exists():
        assert status == 130
        assert "Traceback" not in running.stderr
        assert outcome(folder)["reason"] == "interrupted"


@pytest.mark.parametrize("event", ["run.lock", pytest.param("config.yml", marks=pytest.mark.slow), "a worker"])
def test_ctrl_c_during_the_start(event: str, tmp_path: Path) -> None:
    file = tmp_path / "runs/x" / ("config.yml" if event == "a worker" else event)
    with Running("train", "cartpole", *LIMITS, folder=tmp_path) as running:
        running.wait_until(file.exists)
        if event == "a worker":
            running.wait_until(running.workers)
        running.signal_group(signal.SIGINT)
        assert running.exit_status() == 130
        running.assert_nothing_left()
    assert "Traceback" not in running.stderr
    if (tmp_path / "runs/x").exists():  # the workers were ready: there is a run to resume
        assert outcome(tmp_path)["reason"] == "interrupted"
        assert list((tmp_path / "runs/x/checkpoints").glob("*.pt"))
    else:
        assert os.listdir(tmp_path / "runs") == []


DROPS_CTRL_C = """
import signal, sys, threading, time
import click
from a3c_zoo import AgentEntry, CommandEntry, hookimpl

class Dropping:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)  # Python drops the exception, as in a callback of an import

@click.command()
def command():
    Dropping()
    time.sleep(1000)

@click.command()
def busy():
    start = threading.Thread.start
    def start_slowly(thread):
        start(thread)
        until = time.monotonic() + 0.2
        while time.monotonic() < until:
            time.sleep(0.001)
    threading.Thread.start = start_slowly
    Dropping()
    time.sleep(1000)

def run(context):
    Dropping()
    time.sleep(1000)

@hookimpl
def zoo_commands():
    return [CommandEntry("drop", f"{__name__}:command"), CommandEntry("drop-busy", f"{__name__}:busy")]

@hookimpl
def zoo_agents():
    return [AgentEntry("dropping", f"{__name__}:run", f"{__name__}:run")]
"""


@pytest.mark.parametrize("arguments", ["drop", "drop-busy", "train cartpole --agent dropping --steps 100 --serial"])
def test_a_ctrl_c_that_python_drops_comes_again(arguments: str, tmp_path: Path) -> None:
    path = plugin_distribution(tmp_path / "dropping", "zoo-dropping", DROPS_CTRL_C, entry_point="dropping")
    with Running(*arguments.split(), folder=tmp_path, path=path) as running:
        assert running.exit_status() == 130
        assert running.stderr.strip() == ""


SLOW_TO_SEND = """
import time
from multiprocessing import forkserver
from pathlib import Path
from a3c_zoo.__main__ import main

def slow_connect(fds, connect=forkserver.connect_to_new_process):
    connected = connect(fds)
    while not Path("go").exists():
        time.sleep(0.05)
    return connected

forkserver.connect_to_new_process = slow_connect
if __name__ == "__main__":
    main()
"""


@pytest.mark.slow
def test_ctrl_c_between_a_worker_and_what_it_is_to_do(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW_TO_SEND)
    with Running("train", "cartpole", *LIMITS, folder=tmp_path, program=(str(tmp_path / "slow.py"),)) as running:
        running.wait_until(lambda: len(running.others()) == 3)  # the fork server, the resource tracker, a worker
        running.signal_group(signal.SIGINT)
        time.sleep(0.3)
        (tmp_path / "go").touch()
        assert_ended_before_training(running, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ctrl_c_at_every_moment_of_the_start(tmp_path: Path) -> None:
    for number in range(1, 25):
        folder = tmp_path / str(number)
        folder.mkdir()
        interrupt_after(number * 0.15, folder)


def test_ctrl_c_during_an_evaluation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--serial", "--name", "x", "-o", "env.evaluation_step_s=0.3"]
    path = toy_path(tmp_path / "toy")
    with Running("train", "toy", *options, folder=tmp_path, path=path) as running:
        running.wait_until(lambda: "playing 100 on fresh seeds" in running.stdout)
        time.sleep(0.2)
        running.signal_group(signal.SIGINT)
        assert_ended_well(running, tmp_path, "Ctrl-C")
    assert outcome(tmp_path)["evaluation"] is None
    config = tmp_path / "runs/x/config.yml"
    config.write_text(config.read_text().replace("evaluation_step_s: 0.3", "evaluation_step_s: 0.0"))
    with toy_installed(tmp_path / "again"):
        assert command_line("train", "--resume", tmp_path / "runs/x") == 0  # begins with that evaluation
    assert "Solved" in capsys.readouterr().out
    assert checkpoint(tmp_path / "runs/x")["session"]["evaluations"] == 1


def test_when_the_parent_is_killed_its_workers_leave(tmp_path: Path) -> None:
    before = shared_memory()
    with Running("train", "cartpole", *LIMITS, folder=tmp_path) as running:
        running.wait_until(lambda: len(episodes(tmp_path / "runs/x")) > 200)
        workers = running.workers()
        assert len(workers) == 2
        running.process.kill()
        wait_until(lambda: not set(workers) & set(running.others()))
        running.assert_nothing_left()
        assert_no_new_shared_memory(before)
    assert not RunDirectory(tmp_path / "runs/x").is_running()


@pytest.mark.parametrize(
    ("fault", "start_method"),
    [
        ("evaluation_fault", "forkserver"),
        pytest.param("fault", "spawn", marks=pytest.mark.slow),
        pytest.param("fault", "forkserver", marks=pytest.mark.slow),
        pytest.param("evaluation_fault", "spawn", marks=pytest.mark.slow),
    ],
)
def test_when_the_parent_is_killed_a_process_leaves_that_holds_the_lock(
    fault: str, start_method: str, tmp_path: Path
) -> None:
    """A worker, or the evaluator. None of its threads can run; the environment would hold the lock for ten minutes."""
    values = [f"env.{fault}=hold", f"run.start_method={start_method}"]
    values += ["run.evaluation_every_steps=10", "run.stop_when_solved=false"]
    options = [part for value in values for part in ("-o", value)]
    with Running("train", "toy", *options, folder=tmp_path, path=toy_path(tmp_path / "toy")) as running:
        running.wait_until(lambda: "the toy holds the lock" in running.stderr)
        running.process.kill()
        running.exit_status()
        running.assert_nothing_left()


@pytest.mark.slow
def test_when_a_worker_is_killed_the_run_says_so_and_can_go_on(tmp_path: Path) -> None:
    limits = (*LIMITS, "-o", "run.worker_restarts=0")
    with Running("train", "cartpole", *limits, folder=tmp_path) as running:
        run = tmp_path / "runs/x"
        running.wait_until(lambda: len(episodes(run)) > 200)
        running.workers()[0].kill()
        assert running.exit_status() == 1
        assert running.stderr.startswith("Error: worker ")
        assert running.stderr.endswith("was ended by signal SIGKILL (out of memory?)\n")
        running.assert_nothing_left()
    ended = outcome(tmp_path)
    assert ended["reason"] == "error"
    assert 0 < ended["steps"] == checkpoint(run)["session"]["steps"]
    assert a3c_zoo.train(resume=run, steps=ended["steps"] + 3000).reason == "steps"


def test_what_is_ignored_stays_ignored() -> None:
    """As under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_on_signals() as stop:
            signal_self(signal.SIGHUP)
            assert stop.detail == ""
            signal_self(signal.SIGTERM)
            assert stop.detail == "SIGTERM"
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_signals_interrupt_at_most_once_and_never_after_the_end() -> None:
    before = signal.getsignal(signal.SIGINT)
    with stop_on_signals() as stop:
        signal_self()
        with pytest.raises(KeyboardInterrupt):
            signal_self()
        signal_self()
        signal_self()
    with stop_on_signals() as stop:
        signal_self()
        with pytest.raises(KeyboardInterrupt):
            stop.allow_interrupts()
    with stop_on_signals() as stop:
        stop.is_over = True
        signal_self()
        signal_self()
    assert signal.getsignal(signal.SIGINT) is before


def test_in_another_thread_signals_are_left_alone() -> None:
    details = []

    def look() -> None:
        with stop_on_signals() as stop:
            details.append(stop.detail)

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert details == [""]
    assert signal.getsignal(signal.SIGINT) is before
