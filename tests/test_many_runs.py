"""Several runs in one program: in turn, in threads, and in forks of it. Each program is a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.toys_runs import environ
from tests.waits import LIMIT_S, wait_until

TRAIN = """
import gc, multiprocessing, os, sys, threading, time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
import a3c_zoo

def train(name, steps=300, **options):
    return a3c_zoo.train("cartpole", seed=1, steps=steps, name=name, overrides={"run.workers": 2}, **options)

def descriptors():
    return len(os.listdir("/proc/self/fd"))
"""
#: What the program had before stays its own: its objects can be freed, and its collector stays as it was. It has one
#: fork server, which a run has started. Processes of its own are as those of any other program.
OWN_OBJECTS_AND_PROCESSES = """
import signal
import weakref

NAMES = ("PYTHONSAFEPATH", "OMP_NUM_THREADS", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")

class Large:
    pass

def tell(pipe):
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    are_usual = signal.getsignal(signal.SIGINT) == signal.default_int_handler
    are_usual &= {signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)} == {signal.SIG_DFL}
    ours = [name for name in os.environ if "A3C_ZOO" in name]
    pipe.send((blocked, are_usual, ours))
    pipe.send({name: os.environ.get(name) for name in NAMES})

if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "2"
    large = Large()
    large.itself, is_freed = large, weakref.finalize(large, int)
    gc.disable()
    train("one")
    assert not gc.isenabled()
    del large
    gc.collect()
    assert not is_freed.alive
    gc.enable()

    context = multiprocessing.get_context("forkserver")
    mine, theirs = context.Pipe()
    context.Process(target=tell, args=(theirs,)).start()
    theirs.close()  # so that the end of the process is met
    assert mine.recv() == (set(), True, [])
    assert mine.recv() == dict.fromkeys(NAMES) | {"OMP_NUM_THREADS": "2"}

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(train, ["two", "three"]))
    assert gc.isenabled()
"""
#: Without the cycles of an earlier run nothing of it is left: neither its memory nor its descriptors.
IN_TURN_AND_IN_FORKS_AND_THREADS = """
def parameters(number):
    from a3c_zoo.store.checkpoint_bytes import read_content
    run = train(f"t{number}", steps=30, serial=True).run
    return read_content(run / "checkpoints/step-000000000000.pt")["agent"]["model"]["parameters"]

if __name__ == "__main__":
    seen = [descriptors() for number in range(4) if train(f"r{number}") and gc.collect() >= 0]
    assert max(seen) == seen[0], seen
    kinds = [type(each).__name__ for each in gc.get_objects()]
    assert kinds.count("Session") <= 1, kinds.count("Session")

    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        assert pool.submit(train, "two").result().reason == "steps"
    with context.Pool(1) as pool:
        try:
            pool.apply(train, ["three"])
        except a3c_zoo.ZooError as error:
            assert "train in a process of concurrent.futures, which is no daemon" in str(error), error
        else:
            raise AssertionError
    train("four")

    with ThreadPoolExecutor(4) as pool:
        first, *others = pool.map(parameters, range(12))
    assert all((first == other).all() for other in others)
"""
PROGRAMS = {
    "own objects and processes": OWN_OBJECTS_AND_PROCESSES,
    "in turn, in forks and in threads": IN_TURN_AND_IN_FORKS_AND_THREADS,
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_one_program(program: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(TRAIN + program)
    command = [sys.executable, "program.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environ(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stderr


OUTLIVED = """
if __name__ == "__main__":
    thread = threading.Thread(target=train, args=("one", 10**9), daemon=True)
    thread.start()
    rows = Path("runs/one/monitor.csv")
    while not rows.exists() or rows.stat().st_size < 500:  # until workers have played
        time.sleep(0.01)
    fork = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
    fork.start()
    print(fork.pid, flush=True)
    thread.join()
"""


def test_workers_end_with_their_program_though_a_fork_of_it_lives_on(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(TRAIN + OUTLIVED)
    command, pipe = [sys.executable, "program.py"], subprocess.PIPE
    program = subprocess.Popen(command, cwd=tmp_path, env=environ(), stdout=pipe, text=True)
    fork = 0
    try:
        assert program.stdout is not None
        fork = int(program.stdout.readline())
        workers = [each for each in psutil.Process(program.pid).children(recursive=True) if "a3c worker" in each.name()]
        assert len(workers) == 2
        program.kill()
        program.wait(LIMIT_S)
        wait_until(lambda: not any(each.is_running() and each.status() != "zombie" for each in workers))
        assert psutil.pid_exists(fork)
    finally:
        program.kill()
        if fork:
            os.kill(fork, signal.SIGKILL)
