"""Tries an environment in a child process: reads its spaces, or draws it.

A constructor may end its process, start threads that never end, or hang. None of this reaches the parent.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from a3c_zoo import errors
from a3c_zoo.config import Config, RunConfig
from a3c_zoo.errors import PluginError, WorkerError, ZooError, trace_of, type_and_message, without_exit
from a3c_zoo.learning.model import Spaces, probe_spaces
from a3c_zoo.plugins.entries import EnvEntry, NetworkEntry
from a3c_zoo.processes.child import ChildProcess, end_children

#: The longest wait for a child, in seconds: 23 days. The system counts milliseconds in 32 bits.
LONGEST_WAIT_S = 2e6


def read_spaces(
    entry: EnvEntry, network: NetworkEntry | None, config: Config, supported: Sequence[str], serial: bool
) -> Spaces:
    """Does what `probe_spaces` does, in a child process unless the run is serial. Raises as `probe_in_child`."""
    if serial:
        with without_exit(f"environment '{entry.name}' cannot be tried"):
            return probe_spaces(entry, network, config, supported)
    return probe_in_child(entry, network, config, supported)


def probe_in_child(
    entry: EnvEntry, network: NetworkEntry | None, config: Config, supported: Sequence[str]
) -> Spaces:
    """Does what `probe_spaces` does, in a child process. Raises as `in_child`."""
    args = (entry, network, config, tuple(supported))
    return Spaces.from_state_dict(in_child(config.run, entry.name, "made", _spaces, *args))


def _spaces(*args: Any) -> dict[str, Any]:
    return probe_spaces(*args).state_dict()


def in_child(run: RunConfig, env_name: str, done: str, function: Callable[..., Any], *args: Any) -> Any:
    """What a function returns that tries an environment in a child process: plain data.

    Args:
        done: what the function does to the environment, for messages: "made", "drawn".

    Raises:
        ZooError: what the function raises.
        PluginError: the process of the environment has ended, or hangs.
        WorkerError: anything else was raised, for example by `close`; or the process cannot be started.
    """
    limit_s = min(run.worker_timeout_s, LONGEST_WAIT_S)
    name = f"environment '{env_name}'"
    try:
        child = ChildProcess(run.start_method, "a3c-zoo probe", probe_main, name, function, *args)
    except (EOFError, OSError) as error:
        raise WorkerError(f"the process that tries {name} cannot be started: {error}") from error
    try:
        if not child.pipe.poll(limit_s):
            hint = "does it hang? (limit: run.worker_timeout_s)"
            raise PluginError(f"{name} was not {done} and closed within {limit_s:g} s: {hint}")
        message = json.loads(child.pipe.recv_bytes())
    except (EOFError, OSError):
        raise PluginError(f"{name} cannot be {done}: its process {child.how_it_ended()}") from None
    finally:
        end_children([child], grace_s=0.0)  # its environment is closed
    if "found" in message:
        return message["found"]
    fault: ZooError = getattr(errors, message["kind"])(message["text"])
    for note in message["notes"]:
        fault.add_note(note)
    raise fault from WorkerError(f"in the process that tries {name}:\n\n{message['trace'].rstrip()}")


def probe_main(pipe: Connection, name: str, function: Callable[..., Any], *args: Any) -> None:
    """What runs in the child: sends what the function returns, or the error, as JSON. The parent unpickles nothing."""
    try:
        # JSON knows no numbers of NumPy.
        content = json.dumps({"found": function(*args)}, default=lambda number: number.item())
    except BaseException as error:
        content = json.dumps(_described(error, name))
    sys.stdout.flush()  # the parent ends this process at once
    with suppress(BrokenPipeError):
        pipe.send_bytes(content.encode())


def _described(error: BaseException, name: str) -> dict[str, object]:
    """An error as plain data: the nearest class of `a3c_zoo.errors`, text, notes and traceback."""
    kind = next((base.__name__ for base in type(error).__mro__ if base.__module__ == errors.__name__), "")
    trace = trace_of(error)
    if isinstance(error, ZooError):
        text = str(error)
    else:
        kind = WorkerError.__name__
        text = f"{name} cannot be tried: {type_and_message(error)}\n\n{trace.rstrip()}"
    return {"kind": kind, "text": text, "notes": getattr(error, "__notes__", []), "trace": trace}
