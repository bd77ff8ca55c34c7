"""What is done to a trial, and what each fault must lead to. Anything else is damage."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

from a3c_zoo.processes.temporary_folder import PREFIX
from benchmarks.chaos.trial import CHECKPOINT_EVERY_S, HUNG, WORKER_TIMEOUT_S, DamageError, Trial

#: The size of the file system of a trial whose disk is filled.
DISK_MIB = 64
#: How long a disk is full at least, in seconds: several checkpoints fall due meanwhile.
FULL_S = 5.0
#: Programs that environments have started must be gone after so many seconds.
PROGRAM_LIMIT_S = 20.0
#: A checkpoint may come so many seconds late: a standstill, and the writing, on a busy machine.
CHECKPOINT_LIMIT_S = 10.0

WITH_LEARNER = ("a3c-grad", "a3c-data")


@dataclass(frozen=True)
class Fault:
    """One kind of fault, and what it must lead to.

    Attributes:
        hurt: does it. Returns words, as a regular expression, that the text of the event must have.
        events: one event of these kinds must follow, and none of other kinds. Empty: no event may follow.
        then: the kind of one more event, after the first.
        starved: whether a process that a busy machine gives no time may count as hung meanwhile, as new ones do.
        status: the exit status with which the command must end, or the number of the signal that ends it; None: the
            run goes on.
        is_last: whether the run cannot be resumed; else one that has ended is.
        meanwhile: what is done to the files before the resume. Returns as `hurt`.
        agents, env: those that can be hurt so; () and "" for all. needs_disk: whether it needs a disk of its own.
    """

    name: str
    hurt: Callable[[Trial], str]
    events: tuple[str, ...] = ()
    then: str = ""
    starved: bool = True
    status: int | None = None
    is_last: bool = False
    meanwhile: Callable[[Trial], str] = lambda trial: ""
    agents: tuple[str, ...] = ()
    env: str = ""
    needs_disk: bool = False

    def fits(self, env: str, agent: str, has_disk: bool) -> bool:
        """Whether a trial can be hurt so."""
        fits_agent = not self.agents or agent in self.agents
        fits_env = not self.env or env == self.env
        return fits_agent and fits_env and (has_disk or not self.needs_disk)

    @property
    def must(self) -> str:
        """What it must lead to, for the table."""
        ways = [" or ".join(self.events)] if self.events else []
        ways += [self.then] if self.then else []
        if self.status is None:
            return ", ".join(["goes on", *ways])
        end = f"ends: {self.status}" if self.status >= 0 else f"ends: {signal.Signals(-self.status).name}"
        return ", ".join([end, *ways] if self.is_last else [end, "resumes", *ways])


def kill(trial: Trial, name: str) -> str:
    """Kills one process with this name; returns its whole name."""
    processes = trial.wait(lambda: trial.named(name), f"no process {name}")
    if not processes:
        raise DamageError(f"the command ended before {name} was hurt: {trial.how_it_ended}")
    pid = trial.rng.choice(sorted(processes))
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    return str(processes[pid])


def kill_worker(trial: Trial) -> str:
    """If the fork server has ended before, nobody knows the signal."""
    return f"^{kill(trial, 'a3c worker').removeprefix('a3c ')} .*a new one takes its place"


def kill_learner(trial: Trial) -> str:
    kill(trial, "a3c the learner")
    return "the learner (was ended by signal SIGKILL|ended by itself)"


def kill_evaluator(trial: Trial) -> str:
    kill(trial, "a3c evaluator")
    return "it (was ended by signal SIGKILL|ended by itself).*a new one takes its place"


def kill_fork_server(trial: Trial) -> str:
    """Training goes on without it; a worker that dies later needs a new one."""
    for server in trial.fork_servers():
        with suppress(psutil.Error):
            server.kill()
    trial.wait_for_training()
    return kill_worker(trial)


def remove_sockets(trial: Trial) -> str:
    """A cleaner of temporary files takes the folder with the fork server's socket; then a worker dies."""
    folders = list(trial.temporary.glob(f"{PREFIX}*"))
    if not folders:
        raise DamageError("the fork server's folder is not where it is looked for")
    for folder in folders:
        shutil.rmtree(folder)
    return kill_worker(trial)


def kill_parent(trial: Trial) -> str:
    """All its processes end with it."""
    assert trial.process is not None
    time.sleep(trial.rng.random() * 2)
    trial.process.kill()
    trial.process.wait()
    if not trial.newest():
        raise DamageError("no checkpoint is left")
    lost_s = time.time() - trial.checkpoints()[-1].stat().st_mtime
    if lost_s > CHECKPOINT_EVERY_S + CHECKPOINT_LIMIT_S:
        raise DamageError(f"the newest checkpoint is {lost_s:.1f} s old")
    return ""


def tear_row(trial: Trial) -> str:
    """The command was killed in the midst of a row."""
    with (trial.run / "monitor.csv").open("ab") as file:
        file.write(b"12.0,12,3")
    return ""


def damage_checkpoint(trial: Trial) -> str:
    """A bit of the newest checkpoint's numbers changes: its header, its sizes and its JSON stay as they are."""
    path = trial.checkpoints()[-1]
    if len(trial.checkpoints()) < 2:
        raise DamageError("there is no checkpoint before the newest one")
    data = bytearray(path.read_bytes())
    header = int.from_bytes(data[:8], "little")
    data[trial.rng.randrange(8 + header, len(data))] ^= 1
    path.write_bytes(data)
    trial.damaged = path.name
    return re.escape(path.name)


def stop_and_continue(trial: Trial) -> str:
    """One of all processes stands still for a moment, shorter than `run.worker_timeout_s`."""
    assert trial.process is not None
    with suppress(psutil.Error):
        victim = trial.rng.choice([psutil.Process(trial.process.pid), *trial.others()])
        victim.suspend()
        time.sleep(WORKER_TIMEOUT_S / 4 * trial.rng.random())
        victim.resume()
    return ""


def suspend_all(trial: Trial) -> str:
    """Ctrl-Z, and `fg` after longer than `run.worker_timeout_s`."""
    assert trial.process is not None
    trial.process.send_signal(signal.SIGTSTP)
    time.sleep(WORKER_TIMEOUT_S + 2)
    trial.process.send_signal(signal.SIGCONT)
    return ""


def stop_worker(trial: Trial) -> str:
    """A worker stands still for ever: it is replaced after `run.worker_timeout_s`."""
    processes = trial.wait(lambda: trial.named("a3c worker"), "no worker")
    pid = trial.rng.choice(sorted(processes))
    os.kill(pid, signal.SIGSTOP)
    return f"^{processes[pid].removeprefix('a3c ')} {HUNG}"


def two_signals(trial: Trial) -> str:
    """A pair of signals ends the run."""
    assert trial.process is not None
    for _ in range(2):
        trial.process.send_signal(trial.rng.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP]))
        time.sleep(trial.rng.random() / 10)
    return ""


#: What the run says after an environment has broken so.
WORDS = {
    "nan": "not finite",
    "raise": "RuntimeError: chaos",
    "hang": HUNG,
    "hold": HUNG,
    "segfault": "SIGSEGV|ended by itself",
    "exit": "ended by itself",
    "program": "ended by itself",
    "threads": "",
    "reward": "gradients of this session were not finite and were not applied",
}


def break_environment(fault: str, trial: Trial) -> str:
    """An environment breaks by itself (`environment.broken`): that of a worker, or of the evaluator."""
    file = trial.folder / "fault"
    file.with_suffix(".tmp").write_text(fault)
    file.with_suffix(".tmp").rename(file)
    trial.wait(lambda: not file.exists(), f"no environment took {fault}")
    file.unlink(missing_ok=True)  # of a run that has ended: the next one must not take it
    if fault == "program":
        markers = trial.wait(lambda: list(trial.folder.glob("program-*")), "the environment started no program")
        for marker in markers:
            assert_gone(int(marker.name.removeprefix("program-")))
            marker.unlink()
    return WORDS[fault]


def kill_parent_in_hang(trial: Trial) -> str:
    """The command ends while an environment holds Python's lock: no thread of its process can notice it."""
    break_environment("hold", trial)
    return kill_parent(trial)


def assert_gone(pid: int) -> None:
    """Waits for the end of a program that an environment has started."""
    deadline_s = time.monotonic() + PROGRAM_LIMIT_S
    with suppress(psutil.NoSuchProcess):
        while psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            if time.monotonic() > deadline_s:
                psutil.Process(pid).kill()
                raise DamageError("a program of an environment lives on")
            time.sleep(0.05)


def fill_disk(trial: Trial) -> str:
    """The run's file system has no room for some seconds. The run says so afterwards: its log is on the same disk."""
    filler = trial.folder / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while file.write(b"x" * 4096):
            continue
    time.sleep(FULL_S + 2 * trial.rng.random())
    filler.unlink()
    return "the disk refuses files: .*No space left on device"


def close_output(trial: Trial) -> str:
    """The reader of the command's output ends after the first line, as in `| head -1`."""
    trial.end()
    reader = subprocess.Popen(["head", "-1"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert reader.stdin is not None
    trial.begin(output=reader.stdin.fileno())
    reader.stdin.close()
    trial.wait(lambda: reader.poll() is not None, "no output")
    return ""


def wait_for_rows(trial: Trial) -> Path:
    """The path of monitor.csv, which has a row: an episode has ended."""
    trial.wait(lambda: trial.rows().count(b"\n") >= 2, "no episode ends")
    return trial.run / "monitor.csv"


def replace_rows(trial: Trial) -> str:
    """An editor saves monitor.csv with a note: a new file takes the name of the one that the run writes into."""
    path = wait_for_rows(trial)
    with trial.paused():
        edited = path.with_name("edited")
        edited.write_bytes(path.read_bytes() + b"# a note\n")
        edited.rename(path)
    return "monitor.csv is written anew: others have written to it.* no row is lost"


def remove_rows(trial: Trial) -> str:
    """Somebody removes monitor.csv."""
    path = wait_for_rows(trial)
    with trial.paused():
        path.unlink()
    return "monitor.csv is written anew: it was removed; no row is lost"


def cut_rows(trial: Trial) -> str:
    """Somebody cuts monitor.csv short in its place, in the midst of a row."""
    path = wait_for_rows(trial)
    with trial.paused():
        data = path.read_bytes()
        head = sum(len(line) for line in data.splitlines(keepends=True)[:2])
        cut = trial.rng.randrange(head, len(data))
        kept = data[:cut].rfind(b"\n") + 1
        os.truncate(path, cut)
        trial.rows_lost += data.count(b"\n") - data[:kept].count(b"\n")
    return f"monitor.csv is written anew: others have written to it.* rows of {len(data) - kept:,} bytes are lost"


def remove_folder(name: str, trial: Trial) -> str:
    """Somebody removes the folder of checkpoints, or the whole run ("")."""
    trial.is_removed = True
    with trial.paused():
        shutil.rmtree(trial.run / name)
    return ""


ENVIRONMENTS_EVENTS = ("worker_replaced", "evaluator_replaced")
FAULTS: dict[str, Fault] = {
    fault.name: fault
    for fault in (
        Fault("kill a worker", kill_worker, ("worker_replaced",)),
        Fault("kill the learner", kill_learner, ("restarted",), agents=WITH_LEARNER),
        Fault("kill the evaluator", kill_evaluator, ("evaluator_replaced",)),
        Fault("kill the fork server", kill_fork_server, ("worker_replaced",)),
        Fault("remove the sockets", remove_sockets, ("worker_replaced",)),
        Fault("kill the parent", kill_parent, status=-signal.SIGKILL),
        Fault("kill it in a hang", kill_parent_in_hang, status=-signal.SIGKILL, env="chaos"),
        Fault("kill it in a row", kill_parent, status=-signal.SIGKILL, meanwhile=tear_row),
        Fault(
            "damage a checkpoint",
            kill_parent,
            ("checkpoint_damaged",),
            then="set_aside",
            status=-signal.SIGKILL,
            meanwhile=damage_checkpoint,
        ),
        Fault("stop and continue", stop_and_continue, starved=False),
        Fault("stop a worker", stop_worker, ("worker_replaced",)),
        Fault("suspend the run", suspend_all, starved=False),
        Fault("two signals", two_signals, status=130),
        Fault("close the output", close_output),
        *(
            Fault(f"environment: {how}", partial(break_environment, how), ENVIRONMENTS_EVENTS, env="chaos")
            for how in ("nan", "raise", "hang", "hold", "segfault", "exit", "program")
        ),
        Fault("environment: threads", partial(break_environment, "threads"), env="chaos"),
        Fault("environment: reward", partial(break_environment, "reward"), ("gradients_skipped",), env="chaos"),
        Fault("fill the disk", fill_disk, ("disk_full",), then="disk_recovered", needs_disk=True),
        Fault("replace monitor.csv", replace_rows, ("file_replaced",)),
        Fault("remove monitor.csv", remove_rows, ("file_replaced",)),
        Fault("cut monitor.csv", cut_rows, ("file_replaced",)),
        Fault("remove checkpoints", partial(remove_folder, "checkpoints"), status=2, is_last=True),
        Fault("remove the run", partial(remove_folder, ""), status=2, is_last=True),
    )
}
#: A gradient that is not finite is told once, and then only when their number has doubled.
ONCE = ("environment: reward",)


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
