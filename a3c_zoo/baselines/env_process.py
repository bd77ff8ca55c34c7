"""Environments of stable-baselines3 in processes of their own, by its SubprocVecEnv.

The processes come from the fork server of the run. SB3 sends what makes an environment as a closure.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import gymnasium
from gymnasium import Env

from a3c_zoo.errors import PluginError
from a3c_zoo.learning.wrappers import Wrapper, wrap_all
from a3c_zoo.plugins.entries import EnvEntry
from a3c_zoo.plugins.module_files import ModuleFiles
from a3c_zoo.processes.start import handlers_wait, process_context, warm_up


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
        os.setpgid(0, 0)  # Ctrl-C is for the run, which then closes its environments
        quiet_emulator(self.env_id)
        wrapped: Env[Any, Any] = wrap_all(gymnasium.make(self.env_id, **kwargs), list(self.wrappers))
        return wrapped


def quiet_emulator(env_id: str) -> None:
    """Keeps the emulator of an Atari game from printing a greeting in each process."""
    if env_id.startswith("ale_py:"):
        from ale_py import ALEInterface, LoggerMode

        ALEInterface.setLoggerMode(LoggerMode.Error)


@contextmanager
def starting_processes(entry: EnvEntry, start_method: str) -> Iterator[dict[str, str]]:
    """While environments are made in processes. Yields SubprocVecEnv's arguments.

    Args:
        start_method: see `run.start_method`.

    Raises:
        PluginError: a process has ended, for example because its environment cannot be made.
    """
    warm_up(start_method)
    try:
        with handlers_wait():
            yield {"start_method": str(process_context(start_method).get_start_method())}
    except (EOFError, ConnectionError) as error:
        raise process_ended(entry) from error


def process_ended(entry: EnvEntry) -> PluginError:
    """The error of an environment whose process has ended."""
    return PluginError(
        f"a process of environment '{entry.name}' has ended; agent.vec_env=dummy steps it in this process, and shows "
        "its error"
    )
