"""How worker processes start, and how soon.

On Linux workers are forked from a fork server that has imported torch once. It is started before the parent
itself imports torch, so that both imports (1.2 s each) happen side by side. No torch here.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import context, forkserver

from a3c_zoo.errors import ZooError

# Ours and torch only: an exception other than ImportError in a preloaded module would end the fork server.
PRELOAD = [
    "torch",
    "gymnasium",
    "a3c_zoo.processes.pool",
    "a3c_zoo.agents.a3c",
    "a3c_zoo.agents.a3c_data",
    "a3c_zoo.agents.a3c_grad",
]

#: For workers alone, so that baselines in the parent keep their threads. One thread each; and memory that is given back
#: stays with the process: else every activation of an image network is fetched from the kernel anew, page by page
#: (nature: 7 % of an update, conv42 in float32: 20 %).
WORKER_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": str(1 << 25),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 27),
}


def process_context(start_method: str = "auto") -> context.BaseContext:
    """Returns the multiprocessing context for "auto", "forkserver" or "spawn"; does not touch the global default."""
    if start_method == "auto":
        start_method = "forkserver" if sys.platform == "linux" else "spawn"
    return multiprocessing.get_context(start_method)


def warm_up(start_method: str = "auto") -> None:
    """Starts the fork server, if workers will come from one, while the caller goes on to import torch itself.

    Raises:
        ZooError: called while a child process imports the main module, which then would start children of its own.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise ZooError(
            "this script trains at its top level, which every worker imports. Put the call below "
            "`if __name__ == '__main__':`"
        )
    if process_context(start_method).get_start_method() != "forkserver":
        return
    forkserver.set_forkserver_preload(PRELOAD)
    with _environment(WORKER_ENVIRONMENT), _ctrl_c_ignored():
        forkserver.ensure_running()


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """What starts meanwhile sees these variables."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _ctrl_c_ignored() -> Iterator[None]:
    """What starts meanwhile ignores Ctrl-C from its first moment; by itself the fork server does so too late."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def importable_main() -> Iterator[None]:
    """Keeps a new process from importing a main module that is no file: a program read from standard input.

    multiprocessing would look for a file called `<stdin>`.
    """
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    if file is None or os.path.exists(file):
        yield
        return
    del main.__file__
    try:
        yield
    finally:
        main.__file__ = file
