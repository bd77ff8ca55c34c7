"""Asynchronous advantage actor-critic agents, trained by name and extended by plugins.

Importing this package is light: torch, gymnasium and the rest load when one of its functions is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pluggy

from a3c_zoo.entries import AgentEntry, CommandEntry, EnvEntry, EnvFamily, HyperparamEntry, NetworkEntry
from a3c_zoo.errors import ZooError

if TYPE_CHECKING:
    from a3c_zoo.comparison.api import compare
    from a3c_zoo.comparison.plotting import plot
    from a3c_zoo.runs.api import load_agent, train

__all__ = [
    "AgentEntry",
    "CommandEntry",
    "EnvEntry",
    "EnvFamily",
    "HyperparamEntry",
    "NetworkEntry",
    "ZooError",
    "__version__",
    "compare",
    "hookimpl",
    "load_agent",
    "plot",
    "train",
]

__version__ = "0.1.0"

#: Marks a plugin's function as the implementation of the hook that has its name (see `a3c_zoo.hookspecs`).
hookimpl = pluggy.HookimplMarker("a3c_zoo")


def __getattr__(name: str) -> Any:
    """Loads the functions, and the modules behind them, when they are first asked for."""
    if name == "compare":
        from a3c_zoo.comparison import api as comparison

        return comparison.compare
    if name in ("train", "load_agent"):
        from a3c_zoo.runs import api

        return getattr(api, name)
    if name == "plot":
        from a3c_zoo.comparison import plotting

        return plotting.plot
    raise AttributeError(f"module 'a3c_zoo' has no attribute '{name}'")
