"""CartPole that breaks on demand: the environment `chaos` of the trials, offered by a plugin."""

from __future__ import annotations

import ctypes
import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import VectorEnv, VectorWrapper

from a3c_zoo import EnvEntry, hookimpl
from a3c_zoo.config import EnvConfig

#: Names the folder in which the trial puts a file `fault`; the first environment that finds it removes it and breaks.
FOLDER = "A3C_ZOO_CHAOS_FOLDER"
#: An environment looks for the file once in so many steps.
LOOK_EVERY = 50


class Breakable(VectorWrapper):
    """Vector environments that break in the way that a file names."""

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        super().__init__(env)
        self._file, self._steps = Path(os.environ[FOLDER]) / "fault", 0

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        observation, *rest = super().step(actions)
        self._steps += 1
        if self._steps % LOOK_EVERY == 0 and self._file.exists():
            with suppress(FileNotFoundError):  # another one was faster
                taken = self._file.rename(self._file.with_name(f"taken-{os.getpid()}"))
                observation = broken(taken.read_text(), observation)
        return observation, *rest


def broken(fault: str, observation: np.ndarray) -> np.ndarray:
    """Breaks; returns the observation if the fault lies in it, or if there is none."""
    match fault:
        case "nan":
            return np.full_like(observation, np.nan)
        case "raise":
            raise RuntimeError("chaos")
        case "hang":
            time.sleep(600)
        case "hold":  # with Python's global lock
            ctypes.PyDLL(None).sleep(600)
        case "segfault":
            ctypes.string_at(0)
        case "exit":
            os._exit(0)
        case "program":  # a simulator that outlives its environment
            program = subprocess.Popen(["sleep", "600"])
            Path(os.environ[FOLDER], f"program-{program.pid}").touch()
            os._exit(1)
        case "threads":
            torch.set_num_threads(4)
    return observation


def make(num_envs: int, seed: int) -> VectorEnv[Any, Any, Any]:
    """The factory of environment `chaos`."""
    return Breakable(gymnasium.make_vec("CartPole-v1", num_envs, vectorization_mode="sync"))


@hookimpl
def zoo_envs() -> list[EnvEntry]:
    """The environment of the trials."""
    return [EnvEntry("chaos", factory=f"{__name__}:make", config=f"{EnvConfig.__module__}:{EnvConfig.__name__}")]
