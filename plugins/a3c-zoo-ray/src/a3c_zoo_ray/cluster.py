"""Joins a Ray cluster, or starts a Ray of this machine and ends it afterwards."""

from __future__ import annotations

import importlib
import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from textwrap import shorten

import ray
from a3c_zoo.errors import ConfigError, WorkerError, first_line, type_and_message
from ray._private import ray_constants as constants
from ray._private import services
from ray.exceptions import RayError

from a3c_zoo_ray.owner import owned_folder

#: The variable that names a cluster: "HOST:PORT", or "auto" for the one that this machine belongs to. No file of a run
#: can name one: Ray unpickles what a cluster sends.
ADDRESS = "RAY_ADDRESS"
CURE = f"is Ray running there (ray status)? Without an address ({ADDRESS}), a Ray of this machine starts"
#: How long a cluster has to answer, in seconds.
CONNECT_LIMIT_S = 10.0
#: Memory of the object store of a Ray of this machine, in bytes. Parameters pass through it.
STORE_BYTES = 200_000_000
#: The longest folder in which Ray's sockets have room, in bytes. Below it Ray makes
#: a3c-ray-XXXXXXXX/session_YYYY-MM-DD_HH-MM-SS_FFFFFF_PID/sockets/plasma_store; all have 107 bytes at most.
LONGEST_FOLDER = 26
LOOPBACK = "127.0.0.1"
#: How much of the reason why an actor died is told, in characters: Ray goes on with what it may have been.
MOST_OF_REASON = 200
#: With the value 0, Ray listens on loopback and nowhere else. Ray reads the variable when it is imported.
LOOPBACK_ONLY = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
#: Environment variables of a Ray of this machine.
LOCAL = {
    LOOPBACK_ONLY: "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # as other trainings; Ray's own value lets all other programs go first
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # otherwise a warning
}


@contextmanager
def joined_cluster(num_cpus: int, address: str | None = None) -> Iterator[None]:
    """Within the context, Ray can be used: the cluster that this process has joined already, or that of `address`.

    Without an address, by default `RAY_ADDRESS`, a Ray of this machine starts. It listens on loopback only, has no
    dashboard, sends no usage statistics, and ends with the context, or within 30 s after this process was killed.

    Args:
        num_cpus: of a Ray of this machine.

    Raises:
        ConfigError: no cluster answers at the address.
        WorkerError: Ray cannot be started, or has no folder for temporary files.
    """
    if ray.is_initialized():
        yield
        return
    address = address or os.environ.get(ADDRESS) or "local"
    is_local = address == "local"
    _check_address(address)
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(owned_folder("a3c-ray-", _short_parent())) if is_local else None
        except OSError as error:
            raise WorkerError(f"Ray cannot be started: {type_and_message(error)}") from error
        try:
            _join(address, folder, num_cpus)
            yield
        finally:
            with _handlers_kept():
                ray.shutdown()


def _join(address: str, folder: str | None, num_cpus: int) -> None:
    """Joins a cluster. folder: of a Ray of this machine, which is started; None: the cluster is there."""
    with _handlers_kept(), _environment({} if folder is None else LOCAL | {"TMPDIR": folder}):
        try:
            ray.init(
                address,
                include_dashboard=None if folder is None else False,
                log_to_driver=False,
                logging_level="ERROR",
                **({} if folder is None else _local_options(folder, num_cpus)),
            )
        except Exception as error:  # also RuntimeError for another version, and Exception itself for a slow start
            if folder is not None:
                raise WorkerError(f"Ray cannot be started: {type_and_message(error)}") from error
            if isinstance(error, RuntimeError):
                raise ConfigError(f"the cluster at '{address}' refuses this program: {first_line(error)}") from error
            raise ConfigError(f"no cluster answers at '{address}': {CURE}") from error
    _keep_quiet()


def why_lost(error: RayError) -> str:
    """Returns the type of Ray's error, and what it says of how an actor died, or why it could not be made."""
    lines = [line for line in str(error).splitlines() if line.startswith("The actor is dead")]
    if getattr(error, "actor_init_failed", False):
        lines = str(error).splitlines()[-1:]  # of a traceback
    return ": ".join([type(error).__name__, *(shorten(line, MOST_OF_REASON, placeholder="…") for line in lines[:1])])


def _check_address(address: str) -> None:
    """Refuses an address that nobody answers at: Ray would try for minutes.

    Raises:
        ConfigError: it is of Ray's client, or nobody answers.
    """
    if "://" in address:
        raise ConfigError(f"{address}: run the command on a machine of the cluster, with the address HOST:PORT or auto")
    host, colon, port = address.rpartition(":")
    if not (colon and port.isdigit()):
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_LIMIT_S).close()
    except (OSError, OverflowError, ValueError) as error:  # ValueError: also of a host's name with an empty part
        raise ConfigError(f"no cluster answers at '{address}' ({error}): {CURE}") from error


def _local_options(folder: str, num_cpus: int) -> dict[str, object]:
    return {
        "num_cpus": num_cpus,
        "object_store_memory": STORE_BYTES,
        "_node_ip_address": LOOPBACK,
        "_temp_dir": folder,
    }


def _short_parent() -> str:
    """Where the folder for Ray's sockets and logs lies."""
    parent = tempfile.gettempdir()
    return parent if len(os.fsencode(parent)) <= LONGEST_FOLDER else "/tmp"


def _keep_quiet() -> None:
    """Ray prints the last log lines of a machine that dies, although `log_to_driver` is false."""
    worker = importlib.import_module("ray._private.worker")
    vars(worker)["print_to_stdstream"] = lambda *arguments, **keywords: None


@contextmanager
def _environment(ours: dict[str, str]) -> Iterator[None]:
    """What Ray's processes begin with: these variables, this process's `sys.path`, a process group of their own.

    So a SIGTERM for the whole group of this process does not end Ray before the run has saved its state. `RAY_ADDRESS`
    is away: Ray would take it for the address `auto`.
    """
    ours = ours | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    before = {name: os.environ.get(name) for name in (*ours, ADDRESS)}
    os.environ.pop(ADDRESS, None)
    os.environ.update(ours)
    is_cluster = constants.ENABLE_RAY_CLUSTER
    constants.ENABLE_RAY_CLUSTER = is_cluster and LOOPBACK_ONLY not in ours
    start = services.ConsolePopen
    services.ConsolePopen = partial(start, process_group=0)
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER, services.ConsolePopen = is_cluster, start
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _handlers_kept() -> Iterator[None]:
    """Ray sets a handler of SIGTERM of its own, which would end a run without its checkpoint."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
