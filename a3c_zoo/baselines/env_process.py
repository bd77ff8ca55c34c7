"""Environments of stable-baselines3 in processes of their own, by its SubprocVecEnv.

The processes come from the fork server of the run. SB3 sends what makes an environment as a closure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import gymnasium
from gymnasium import Env
from stable_baselines3.common.vec_env import SubprocVecEnv

from a3c_zoo.errors import PluginError
from a3c_zoo.learning.wrappers import Wrapper, wrap_all
from a3c_zoo.plugins.entries import EnvEntry
from a3c_zoo.plugins.module_files import ModuleFiles
from a3c_zoo.processes.start import process_context, starting, warm_up
from a3c_zoo.system import KILL, lead_group, signal_group

#: How long processes may take to finish their step and to close their environments, in seconds.
CLOSE_LIMIT_S: Final = 5.0
#: How long a process may take to end by SIGTERM, in seconds; then comes SIGKILL.
TERMINATE_LIMIT_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class MadeInProcess:
    """Makes an environment of Gymnasium in a process.

    Attributes:
        modules: those that the user named by their files. They are unpickled first: wrappers can be of them.
    """

    modules: ModuleFiles
    env_id: str
    wrappers: tuple[Wrapper, ...] = ()

    def __call__(self, **kwargs: Any) -> Env[Any, Any]:
        lead_group()  # Ctrl-C is for the run, which then closes its environments
        quiet_emulator(self.env_id)
        wrapped: Env[Any, Any] = wrap_all(gymnasium.make(self.env_id, **kwargs), list(self.wrappers))
        return wrapped


def quiet_emulator(env_id: str) -> None:
    """Keeps the emulator of an Atari game from printing a greeting in each process."""
    if env_id.startswith("ale_py:"):
        from ale_py import ALEInterface, LoggerMode

        ALEInterface.setLoggerMode(LoggerMode.Error)


class ProcessVecEnv(SubprocVecEnv):
    """SB3's SubprocVecEnv, which always closes.

    SB3's `close` receives what its processes still have to send. After the failure of one process, or after Ctrl-C,
    some of it was received before: then SB3 waits for ever.
    """

    def __init__(self, env_fns: list[Callable[[], Env[Any, Any]]], start_method: str | None = None) -> None:
        try:
            super().__init__(env_fns, start_method)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends the processes. One that doesn't end in time is killed. Nothing is received."""
        if self.closed:
            return
        self.closed = True
        remotes = getattr(self, "remotes", ())  # without them, the pipes could not be made
        processes = getattr(self, "processes", [])
        for remote in remotes:
            with suppress(OSError):  # its process has ended
                remote.send(("close", None))
        try:
            _join(processes, CLOSE_LIMIT_S)
        finally:  # Ctrl-C while it waits
            for process in processes:
                process.terminate()
            _join(processes, TERMINATE_LIMIT_S)
            for process in processes:
                if process.is_alive():
                    _kill_group(process.pid)
                    process.kill()
                process.join()
            for remote in (*remotes, *getattr(self, "work_remotes", ())):
                remote.close()


def _join(processes: list[Any], limit_s: float) -> None:
    """Waits for processes, for so long in all."""
    deadline = time.monotonic() + limit_s
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))


def _kill_group(pid: int) -> None:
    """Kills a process and those that its environment has started: it leads a group, see `MadeInProcess`."""
    signal_group(pid, KILL)


@contextmanager
def in_processes(entry: EnvEntry, start_method: str) -> Iterator[dict[str, Any]]:
    """While environments are made in processes. Yields the arguments of `make_vec_env` for it.

    Args:
        start_method: see `run.start_method`.

    Raises:
        PluginError: a process has ended, for example because its environment cannot be made.
    """
    warm_up(start_method)
    method = str(process_context(start_method).get_start_method())
    try:
        with starting():
            yield {"vec_env_cls": ProcessVecEnv, "vec_env_kwargs": {"start_method": method}}
    except (EOFError, ConnectionError) as error:
        raise process_ended(entry) from error


def process_ended(entry: EnvEntry) -> PluginError:
    """The error of an environment whose process has ended."""
    return PluginError(
        f"a process of environment '{entry.name}' has ended; agent.vec_env=dummy steps it in this process, and shows "
        "its error"
    )
