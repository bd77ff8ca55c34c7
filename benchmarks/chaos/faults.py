"""What is done to a trial. Each fault returns how the run took it: "recovered" or "ended"."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from benchmarks.chaos.trial import CHECKPOINT_EVERY_S, WORKER_TIMEOUT_S, DamageError, Trial

#: The size of the file system of a trial whose disk is filled.
DISK_MIB = 64
#: How long a disk is full at least, in seconds: several checkpoints fall due meanwhile.
FULL_S = 3.0
#: Programs that environments have started must be gone after so many seconds.
PROGRAM_LIMIT_S = 20.0
#: A checkpoint may come so many seconds late: a standstill, and the writing, on a busy machine.
CHECKPOINT_LIMIT_S = 5.0


def outcome(trial: Trial) -> str:
    """Whether the run goes on."""
    if not trial.is_over():
        trial.wait_for_training()
    return "ended" if trial.is_over() else "recovered"


def kill(trial: Trial, processes: list[psutil.Process]) -> bool:
    """Kills one of some processes; false if there is none."""
    if not processes:
        return False
    with suppress(psutil.Error):
        trial.rng.choice(processes).kill()
    return True


def kill_worker(trial: Trial) -> str:
    kill(trial, trial.named("a3c worker"))
    return outcome(trial)


def kill_learner(trial: Trial) -> str:
    """The run goes on with a new crew. A failed crew leaves a checkpoint, too, which is no sign of training."""
    before = len(trial.events("restarted"))
    if kill(trial, trial.named("a3c the learner")):
        trial.wait(lambda: len(trial.events("restarted")) > before, "nobody saw the learner's end")
    return outcome(trial)


def kill_evaluator(trial: Trial) -> str:
    kill(trial, trial.wait(lambda: trial.named("a3c evaluator"), "no evaluator"))
    return outcome(trial)


def kill_fork_server(trial: Trial) -> str:
    kill(trial, trial.fork_server())
    trial.wait_for_training()
    kill(trial, trial.named("a3c worker"))  # whose successor needs a new one
    return outcome(trial)


def kill_parent(trial: Trial) -> str:
    """All its processes end with it; the run is resumed."""
    assert trial.process is not None
    time.sleep(trial.rng.random() * 2)
    trial.process.kill()
    trial.process.wait()
    lost_s = time.time() - trial.checkpoints()[-1].stat().st_mtime
    trial.wait_for_silence()
    if lost_s > CHECKPOINT_EVERY_S + CHECKPOINT_LIMIT_S:
        raise DamageError(f"the newest checkpoint is {lost_s:.1f} s old")
    trial.start()
    return outcome(trial)


def stop_and_continue(trial: Trial) -> str:
    """One of all processes stands still for a moment, shorter than `run.worker_timeout_s`."""
    assert trial.process is not None
    with suppress(psutil.Error):
        victim = trial.rng.choice([psutil.Process(trial.process.pid), *trial.others()])
        victim.suspend()
        time.sleep(WORKER_TIMEOUT_S / 3 * trial.rng.random())
        victim.resume()
    return outcome(trial)


def suspend_all(trial: Trial) -> str:
    """Ctrl-Z, and `fg` after longer than `run.worker_timeout_s`."""
    assert trial.process is not None
    trial.process.send_signal(signal.SIGTSTP)
    time.sleep(WORKER_TIMEOUT_S + 2)
    trial.process.send_signal(signal.SIGCONT)
    return outcome(trial)


def stop_worker(trial: Trial) -> str:
    """A worker stands still for ever: it is replaced after `run.worker_timeout_s`."""
    before = len(trial.events("worker_replaced", "restarted"))
    if processes := trial.named("a3c worker"):
        with suppress(psutil.Error):
            trial.rng.choice(processes).suspend()
        trial.wait(lambda: len(trial.events("worker_replaced", "restarted")) > before, "a stopped worker")
    return outcome(trial)


def two_signals(trial: Trial) -> str:
    """A pair of signals ends the run; it is resumed."""
    assert trial.process is not None
    for _ in range(2):
        trial.process.send_signal(trial.rng.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP]))
        time.sleep(trial.rng.random() / 10)
    trial.wait(trial.is_over, "the end after two signals")
    trial.wait_for_silence()
    trial.start()
    return outcome(trial)


def break_environment(fault: str) -> Callable[[Trial], str]:
    """An environment breaks by itself (`environment.broken`)."""

    def hurt(trial: Trial) -> str:
        # The one that breaks may be the evaluator's or a worker's.
        kinds = ("worker_replaced", "evaluator_replaced", "evaluator_failed", "restarted")
        before = len(trial.events(*kinds))
        (trial.folder / "fault").write_text(fault)
        trial.wait(lambda: not (trial.folder / "fault").exists(), f"no environment took {fault}")
        (trial.folder / "fault").unlink(missing_ok=True)  # of a run that has ended: the next one must not take it
        if fault != "threads":
            trial.wait(lambda: len(trial.events(*kinds)) > before, f"nobody saw {fault}")
        for marker in trial.folder.glob("program-*"):
            assert_gone(int(marker.name.removeprefix("program-")))
        return outcome(trial)

    return hurt


def assert_gone(pid: int) -> None:
    """Waits for the end of a program that an environment has started."""
    deadline_s = time.monotonic() + PROGRAM_LIMIT_S
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > deadline_s:
            raise DamageError("a program of an environment lives on")
        time.sleep(0.05)


def fill_disk(trial: Trial) -> str:
    """The run's file system has no room for some seconds."""
    filler = trial.folder / "filler"
    with suppress(OSError), filler.open("wb") as file:
        while True:
            file.write(b"x" * 65536)
    time.sleep(FULL_S + 2 * trial.rng.random())
    filler.unlink()
    return outcome(trial)


def close_output(trial: Trial) -> str:
    """The reader of the command's output ends after the first line, as in `| head -1`."""
    assert trial.process is not None
    trial.end()
    reader = subprocess.Popen(["head", "-1"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert reader.stdin is not None
    trial.start(output=reader.stdin.fileno())
    reader.stdin.close()
    trial.wait(lambda: reader.poll() is not None, "no output")
    return outcome(trial)


def remove_checkpoints(trial: Trial) -> str:
    """Somebody removes the folder of checkpoints."""
    shutil.rmtree(trial.run / "checkpoints", ignore_errors=True)
    trial.wait(lambda: trial.is_over() or trial.checkpoints(), "after the folder of checkpoints was removed")
    return "ended" if trial.is_over() else "recovered"


def remove_run(trial: Trial) -> str:
    """Somebody removes the whole run: it ends in order."""
    for _ in range(20):
        shutil.rmtree(trial.run, ignore_errors=True)
        if not trial.run.exists():
            break
    trial.wait(trial.is_over, "after the run was removed")
    return "ended"


#: Faults after which the same run goes on.
EVERYWHERE: dict[str, Callable[[Trial], str]] = {
    "kill a worker": kill_worker,
    "kill the learner": kill_learner,
    "kill the evaluator": kill_evaluator,
    "kill the fork server": kill_fork_server,
    "kill the parent": kill_parent,
    "stop and continue a process": stop_and_continue,
    "stop a worker": stop_worker,
    "suspend the run": suspend_all,
    "two signals": two_signals,
    "close the output": close_output,
}
ENVIRONMENT: dict[str, Callable[[Trial], str]] = {
    f"environment: {fault}": break_environment(fault)
    for fault in ("nan", "raise", "hang", "hold", "segfault", "exit", "program", "threads")
}
DISK: dict[str, Callable[[Trial], str]] = {"fill the disk": fill_disk}
#: Faults that end a trial.
LAST: dict[str, Callable[[Trial], str]] = {
    "remove the checkpoints": remove_checkpoints,
    "remove the run": remove_run,
}


class Disk:
    """A small file system of its own, for a program that may mount one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(folder)]
        self.is_mounted = (
            os.geteuid() == 0 and subprocess.run(command, check=False, capture_output=True).returncode == 0
        )

    def close(self) -> None:
        """Unmounts it."""
        if self.is_mounted:
            subprocess.run(["umount", "-l", str(self.folder)], check=False, capture_output=True)
