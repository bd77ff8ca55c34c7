"""Agents: each file says where the process boundary cuts collect, differentiate, apply.

The names below are public: what agents of plugins use. Their modules are imported at the first access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from a3c_zoo.public_names import lazy_names

__all__: list[str]

if TYPE_CHECKING:
    from a3c_zoo.agents.a3c import A3CWorker as A3CWorker
    from a3c_zoo.agents.a3c import run_a3c as run_a3c
    from a3c_zoo.agents.a3c_data import run_a3c_data as run_a3c_data
    from a3c_zoo.agents.a3c_grad import run_a3c_grad as run_a3c_grad
    from a3c_zoo.agents.configs import A3CConfig as A3CConfig
    from a3c_zoo.agents.configs import A3CDataConfig as A3CDataConfig
    from a3c_zoo.agents.configs import A3CGradConfig as A3CGradConfig
    from a3c_zoo.agents.configs import LossConfig as LossConfig
    from a3c_zoo.agents.context import OnTick as OnTick
    from a3c_zoo.agents.context import State as State
    from a3c_zoo.agents.context import WorkerContext as WorkerContext
    from a3c_zoo.agents.learner import HandoverWorker as HandoverWorker
    from a3c_zoo.agents.learner import Learner as Learner
    from a3c_zoo.agents.learner import make_ring as make_ring
    from a3c_zoo.agents.with_workers import agent_config as agent_config
    from a3c_zoo.agents.with_workers import check_room as check_room
    from a3c_zoo.agents.with_workers import load as load
    from a3c_zoo.agents.with_workers import train as train
    from a3c_zoo.agents.worker import Applier as Applier
    from a3c_zoo.agents.worker import RolloutWorker as RolloutWorker
    from a3c_zoo.agents.worker import make_env as make_env
    from a3c_zoo.plugins.module_files import MODULE_FILES as MODULE_FILES
    from a3c_zoo.processes.crew import Crew as Crew
    from a3c_zoo.processes.crew import WorkerFactory as WorkerFactory
    from a3c_zoo.processes.faults import Replacements as Replacements
    from a3c_zoo.processes.pool import WorkerPool as WorkerPool
    from a3c_zoo.processes.serial import SerialCrew as SerialCrew
else:
    __all__, __getattr__ = lazy_names(__name__)
