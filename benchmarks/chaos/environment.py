"""The plugin of the trials: CartPole that breaks on demand, and a witness of what each session begins with."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import VectorEnv, VectorWrapper

from a3c_zoo import EnvEntry, hookimpl
from a3c_zoo.config import EnvConfig
from a3c_zoo.learning.counters import EPISODES, STEPS, UPDATES
from a3c_zoo.records import RunInfo, Snapshot

#: Names the folder in which the trial puts a file `fault`; the first environment that finds it removes it and breaks.
FOLDER = "A3C_ZOO_CHAOS_FOLDER"
#: An environment looks for the file once in so many steps.
LOOK_EVERY = 50
#: What the witness leaves in the folder: the checkpoint that a session goes on from, and what its workers begin with.
RESUMED_FROM, RESUMED_WITH = "resumed-from.pt", "resumed-with.json"
#: A reward so great that its square is infinite in float32, as its loss and the gradient are.
HUGE_REWARD = 1e30
#: An evaluation computes no gradient, and is not tried again after what the user must correct.
OF_WORKERS = ("nan", "reward")


class Breakable(VectorWrapper):
    """Vector environments that break in the way that a file names."""

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        super().__init__(env)
        self._file, self._steps = Path(os.environ[FOLDER]) / "fault", 0

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        observation, reward, *rest = super().step(actions)
        self._steps += 1
        if self._steps % LOOK_EVERY == 0 and self._file.exists():
            with suppress(FileNotFoundError):  # another one was faster
                fault = self._file.read_text()
                if fault in OF_WORKERS and not is_worker():
                    return observation, reward, *rest
                self._file.rename(self._file.with_name(f"taken-{os.getpid()}"))
                if fault == "reward":
                    reward = np.full_like(reward, HUGE_REWARD)
                observation = broken(fault, observation)
        return observation, reward, *rest


def is_worker() -> bool:
    """Whether this process is a worker."""
    return Path("/proc/self/comm").read_text().startswith("a3c worker")


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


@hookimpl
def zoo_run_start(run: RunInfo) -> None:
    """Makes every session of the command keep what it begins with, before its workers make a step."""
    session: Any = sys.modules["a3c_zoo.runs.session"].Session
    if not hasattr(session, "started_unwitnessed"):
        session.started_unwitnessed = session.started
        session.started = witnessed


def witnessed(session: Any, snapshot: Snapshot) -> None:
    """In place of `Session.started`."""
    if session.checkpoint is not None:
        folder = Path(os.environ[FOLDER])
        agent = snapshot.state()
        steps = int(agent["counters"][:, STEPS].sum())
        shutil.copyfile(session.directory.home / "checkpoints" / f"step-{steps:012d}.pt", folder / RESUMED_FROM)
        (folder / f".{RESUMED_WITH}").write_text(json.dumps(digests(agent)))
        (folder / f".{RESUMED_WITH}").rename(folder / RESUMED_WITH)
    session.started_unwitnessed(snapshot)


def digests(agent: Mapping[str, Any]) -> dict[str, str]:
    """A digest of each tensor that an agent goes on with: parameters, statistics, moments, counters without ticks."""
    model = agent["model"]
    counters = agent["counters"][:, [STEPS, UPDATES, EPISODES]]
    tensors = {"parameters": model["parameters"], "statistics": model["statistics"], "counters": counters}
    tensors |= {f"moment {name}": moment for name, moment in agent["optimizer"].items()}
    return {
        name: sha256(tensor.numpy().tobytes()).hexdigest() for name, tensor in tensors.items() if tensor is not None
    }
