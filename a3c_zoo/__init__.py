"""Asynchronous advantage actor-critic agents, trained by name and extended by plugins.

Importing this package is light: torch, gymnasium and the rest load when `train` or `load_agent` is called.
"""

from __future__ import annotations

from typing import Any

import pluggy

from a3c_zoo.entries import AgentEntry, CommandEntry, EnvEntry, EnvFamily, HyperparamEntry, NetworkEntry
from a3c_zoo.errors import ZooError

__all__ = [
    "AgentEntry",
    "CommandEntry",
    "EnvEntry",
    "EnvFamily",
    "HyperparamEntry",
    "NetworkEntry",
    "ZooError",
    "__version__",
    "hookimpl",
    "load_agent",
    "train",
]

__version__ = "0.1.0"

#: Marks a plugin's function as the implementation of the hook that has its name (see `a3c_zoo.hookspecs`).
hookimpl = pluggy.HookimplMarker("a3c_zoo")


def train(env: str, **options: Any) -> Any:
    """Trains an agent on an environment, as `a3c-zoo train` does."""
    from a3c_zoo.runs import api

    return api.train(env, **options)


def load_agent(run: Any, **options: Any) -> Any:
    """Loads the trained agent of a run directory."""
    from a3c_zoo.runs import api

    return api.load_agent(run, **options)
