"""How the processes of a run start, and how soon.

On Linux they are forked from a fork server that has imported torch once. It starts before the parent imports
torch, so both imports (1.2 s each) happen side by side. This module does not import torch.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from multiprocessing import context, forkserver, resource_tracker, util
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any

from a3c_zoo.errors import ConfigError, ForkServerError, MissingGuardError, PluginError, ZooError
from a3c_zoo.processes import temporary_folder
from a3c_zoo.system import (
    IS_LINUX,
    IS_WINDOWS,
    STOP_SIGNALS,
    at_fork,
    block_signals,
    forget_ended_child,
    unblock_signals,
)

#: What the fork server imports: the module that imports all the rest.
PRELOAD = ["a3c_zoo.processes.preload"]

#: Environment variables of the processes that a run starts; baselines in the parent keep their threads. Each
#: process has one thread. Its allocator keeps memory that is freed: otherwise the kernel provides the pages
#: of every activation of an image network anew (nature: 7 % of the time of an update, conv42 in float32: 20
#: %).
WORKER_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": str(1 << 25),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 27),
}
#: Python imports nothing from the current folder if this variable has a value (`python -P`). Otherwise a
#: `yaml.py` there would run in the fork server and in the resource tracker. Children get the parent's
#: `sys.path`.
SAFE_PATH = "PYTHONSAFEPATH"
#: The value that a3c-zoo gives it, which tells it from a value of the user.
OUR_SAFE_PATH = "of a3c-zoo"
#: Tells the fork server the program's values of these variables, as JSON: processes that are not of a run get
#: them.
PROGRAMS_ENVIRONMENT = "_A3C_ZOO_PROGRAMS_ENVIRONMENT"

#: A signal during the start of a process waits for its end, but not if the start takes longer, in seconds.
LONGEST_START_S = 10.0

CURE_UNSENDABLE = "Use functions and classes of modules, which can be pickled, and no lambda"

#: The name of a process that only tries to import the main module, and doesn't say why it cannot.
QUIET_CHECK = "a3c-zoo quiet check"

#: The exit status of a process whose main module trains as it is imported; sysexits.h calls it EX_CONFIG.
UNGUARDED_STATUS = 78

#: Fork servers that another one has replaced; each ends with the last of its children.
_former_servers: list[int] = []

#: Runs in threads of one process start their processes in turn: what a start changes meanwhile belongs to
#: them all.
_start_lock = threading.Lock()


def _forget_fork_server() -> None:
    """In a fork of this program: the fork server is its parent's. Another one starts when it is needed."""
    global _start_lock
    _start_lock = threading.Lock()  # a thread that the fork has not taken along may hold the other one
    server: Any = forkserver._forkserver
    if getattr(server, "_forkserver_pid", None) is not None:
        with suppress(OSError):
            os.close(server._forkserver_alive_fd)
        server._forkserver_alive_fd = server._forkserver_pid = server._forkserver_address = None


at_fork(after_in_child=_forget_fork_server)


def process_context(start_method: str = "auto") -> context.BaseContext:
    """Returns the multiprocessing context for "auto", "forkserver" or "spawn"; does not touch the global default.

    Raises:
        ConfigError: this system does not have the method.
    """
    if start_method == "auto":
        if IS_LINUX:
            start_method = "forkserver"
        else:
            start_method = "spawn"
    if start_method not in multiprocessing.get_all_start_methods():
        raise ConfigError(
            f"run.start_method: {start_method} — this system does not have it: -o run.start_method=auto"
        )
    return multiprocessing.get_context(start_method)


@contextmanager
def without_collections(hides: bool) -> Iterator[None]:
    """The body imports modules, and the garbage collector does not run: the import of torch takes a tenth less time.

    Args:
        hides: whether the collector never sees again what there is after the body. Only for a process of
            a3c-zoo: the objects of another program would stay for ever, too.
    """
    with _start_lock:
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if hides:
                gc.freeze()
            if was_enabled:
                gc.enable()


#: Whether a module is imported for the environment that it has.
_refuses_to_train = False


@contextmanager
def refusing_to_train() -> Iterator[None]:
    """Within the context `refuse_unguarded` raises MissingGuardError: the module that is imported may not train."""
    global _refuses_to_train
    before = _refuses_to_train
    _refuses_to_train = True
    try:
        yield
    finally:
        _refuses_to_train = before


def refuse_unguarded() -> None:
    """Ends a child process that imports the program's main module, if that calls this: it would start children, too."""
    if _refuses_to_train:
        raise MissingGuardError
    process = multiprocessing.current_process()
    if getattr(process, "_inheriting", False):
        if process.name != QUIET_CHECK:
            os.write(2, f"Error: {MissingGuardError.LINE}\n".encode())
        os._exit(UNGUARDED_STATUS)


def warm_up(start_method: str = "auto") -> None:
    """Starts the fork server, if workers come from one, and does not wait for it.

    Raises:
        ForkServerError: the fork server cannot be started. ZooError: nor ever, in this folder for temporary
            files.
    """
    refuse_unguarded()
    with _start_lock, environment(_programs_environment()), _start_environment():
        if not IS_WINDOWS:
            resource_tracker.ensure_running()  # which the fork server starts otherwise, and which unblocks Ctrl-C
        if process_context(start_method).get_start_method() == "forkserver":
            forkserver.set_forkserver_preload(PRELOAD)
            _forget_lost_folder()
            try:
                temporary_folder.make()
                with _ctrl_c_waits():
                    forkserver.ensure_running()
            except OSError as error:
                raise _fork_server_error(error) from error


def _forget_lost_folder() -> None:
    """A cleaner of temporary files may have removed the fork server's socket: another server takes its place.

    The old one ends with the last of its children.
    """
    server: Any = forkserver._forkserver
    address = server._forkserver_address
    for pid in list(_former_servers):
        with suppress(OSError):
            if forget_ended_child(pid):
                _former_servers.remove(pid)
    if address is not None and not util.is_abstract_socket_namespace(address) and not os.path.exists(address):
        _former_servers.append(server._forkserver_pid)
        os.close(server._forkserver_alive_fd)
        server._forkserver_alive_fd = server._forkserver_pid = server._forkserver_address = None
    settings = multiprocessing.current_process()._config  # type: ignore[attr-defined]
    if not os.path.isdir(settings.get("tempdir") or "/"):
        settings["tempdir"] = None


def _fork_server_error(error: OSError) -> ZooError:
    """Says why there is no fork server, and the cure. Its socket lies in the folder for temporary files."""
    if "path too long" in str(error):
        length = len(os.fsencode(tempfile.gettempdir()))
        return ZooError(
            f"TMPDIR is too long ({length} bytes; about 75 are possible): processes start through a socket there. "
            "Choose a shorter one: TMPDIR=/tmp a3c-zoo …"
        )
    why = f"the processes of a run cannot be started: {error} (TMPDIR: the folder for temporary files)"
    return ForkServerError(why)


def pickled(content: object) -> bytes:
    """Pickles what a process gets. Raises PluginError if it cannot be pickled."""
    try:
        return pickle.dumps(content)
    except PluginError:
        raise  # it says already what cannot be sent
    except Exception as error:
        raise _unsendable(error) from error


def _unsendable(error: Exception) -> PluginError:
    return PluginError(f"a part of a plugin cannot be sent to a process: {error}. {CURE_UNSENDABLE}")


@contextmanager
def starting() -> Iterator[None]:
    """While the body starts processes, they get what `start_process` gives; for libraries that start their own."""
    with _start_lock, _start_environment(), _importable_main(), handlers_wait():
        yield


def start_process(process: BaseProcess) -> None:
    """Starts a process of a run, with one thread and the allocator settings of workers.

    A process from the fork server has them already, from `warm_up`. A spawned one takes them from here.

    Raises:
        PluginError: its arguments cannot be pickled. ZooError: this process is a daemon.
    """
    with starting():
        try:
            process.start()
        except (AttributeError, TypeError, pickle.PicklingError) as error:
            raise _unsendable(error) from error
        except AssertionError as error:  # of a daemon
            raise ZooError(
                f"{error}: train in a process of concurrent.futures, which is no daemon"
            ) from error


def forget_safe_path() -> None:
    """In a child: programs that its environment starts get no `SAFE_PATH` that the user has not set."""
    if os.environ.get(SAFE_PATH) == OUR_SAFE_PATH:
        del os.environ[SAFE_PATH]


def _programs_environment() -> dict[str, str]:
    return {
        PROGRAMS_ENVIRONMENT: json.dumps(
            {name: os.environ.get(name) for name in (SAFE_PATH, *WORKER_ENVIRONMENT)}
        )
    }


def _start_environment() -> AbstractContextManager[None]:
    return environment({SAFE_PATH: os.environ.get(SAFE_PATH) or OUR_SAFE_PATH, **WORKER_ENVIRONMENT})


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """While the body runs, this process and those that it starts see these environment variables."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _ctrl_c_waits() -> Iterator[None]:
    """A process that starts meanwhile begins with Ctrl-C blocked; this thread gets it after the body.

    The fork server ignores Ctrl-C, but not from its first moment. Ignoring it here would lose that of the
    user.
    """
    blocked_before = block_signals([signal.SIGINT])
    try:
        yield
    finally:
        unblock_signals({signal.SIGINT} - blocked_before)


@contextmanager
def handlers_wait() -> Iterator[None]:
    """What this program does on Ctrl-C and the like, it does after the body.

    A process whose start is interrupted half way would show a traceback. Blocking the signals would not do:
    another thread gets them, and Python calls the handler in this one. If a start hangs, a late signal ends
    it nevertheless.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came = list[int]()
    began_s = time.monotonic()
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    handlers = {number: handler for number, handler in before.items() if callable(handler)}

    def wait(number: int, frame: FrameType | None) -> None:
        if time.monotonic() - began_s < LONGEST_START_S:
            came.append(number)
        else:
            handlers[number](number, frame)

    try:
        for number in handlers:
            signal.signal(number, wait)
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number in came:
            signal.raise_signal(number)


@contextmanager
def _importable_main() -> Iterator[None]:
    """Keeps a new process from importing a main module that is no file.

    For a program read from standard input, multiprocessing would look for a file called `<stdin>`.
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
