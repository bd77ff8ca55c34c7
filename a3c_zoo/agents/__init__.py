"""Agents: each file says where the process boundary cuts collect, differentiate, apply.

The names below are public: what agents of plugins use. Their modules are imported at the first access.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from a3c_zoo.agents.configs import A3CConfig, A3CDataConfig, A3CGradConfig, LossConfig

if TYPE_CHECKING:
    from a3c_zoo.agents.a3c import A3CWorker as A3CWorker
    from a3c_zoo.agents.a3c import run_a3c as run_a3c
    from a3c_zoo.agents.a3c_data import run_a3c_data as run_a3c_data
    from a3c_zoo.agents.a3c_grad import run_a3c_grad as run_a3c_grad
    from a3c_zoo.agents.context import OnTick as OnTick
    from a3c_zoo.agents.context import State as State
    from a3c_zoo.agents.context import WorkerContext as WorkerContext
    from a3c_zoo.agents.learner import HandoverWorker as HandoverWorker
    from a3c_zoo.agents.learner import Learner as Learner
    from a3c_zoo.agents.learner import make_ring as make_ring
    from a3c_zoo.agents.training import agent_config as agent_config
    from a3c_zoo.agents.training import check_room as check_room
    from a3c_zoo.agents.training import load as load
    from a3c_zoo.agents.training import train as train
    from a3c_zoo.agents.worker import Applier as Applier
    from a3c_zoo.agents.worker import RolloutWorker as RolloutWorker
    from a3c_zoo.agents.worker import make_env as make_env
    from a3c_zoo.plugins.module_files import MODULE_FILES as MODULE_FILES
    from a3c_zoo.processes.crew import Crew as Crew
    from a3c_zoo.processes.crew import WorkerFactory as WorkerFactory
    from a3c_zoo.processes.faults import Replacements as Replacements
    from a3c_zoo.processes.pool import WorkerPool as WorkerPool
    from a3c_zoo.processes.serial import SerialCrew as SerialCrew

#: Public name → its module, as seen from this package, for those that import torch.
_PUBLIC = {
    "A3CWorker": "a3c",
    "Applier": "worker",
    "Crew": ".processes.crew",
    "HandoverWorker": "learner",
    "Learner": "learner",
    "MODULE_FILES": ".plugins.module_files",
    "OnTick": "context",
    "Replacements": ".processes.faults",
    "RolloutWorker": "worker",
    "SerialCrew": ".processes.serial",
    "State": "context",
    "WorkerContext": "context",
    "WorkerFactory": ".processes.crew",
    "WorkerPool": ".processes.pool",
    "agent_config": "training",
    "check_room": "training",
    "load": "training",
    "make_env": "worker",
    "make_ring": "learner",
    "run_a3c": "a3c",
    "run_a3c_data": "a3c_data",
    "run_a3c_grad": "a3c_grad",
    "train": "training",
}

__all__ = ["A3CConfig", "A3CDataConfig", "A3CGradConfig", "LossConfig"]
__all__ += _PUBLIC


def __getattr__(name: str) -> Any:
    """Imports the module of a public name at the first access."""
    if name not in _PUBLIC:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(importlib.import_module(f".{_PUBLIC[name]}", __name__), name)
