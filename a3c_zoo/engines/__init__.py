"""Engines run the jobs of comparisons and tunings. A plugin offers one as `EngineEntry`, by the hook `zoo_engines`.

The names below are public. Jobs do not depend on each other. `local`, one training after the other on this machine, is
an engine like those of plugins.
"""

from __future__ import annotations

from a3c_zoo.config.train_command import TrainCommand
from a3c_zoo.engines.interface import (
    Engine,
    JobProgress,
    TrainingJob,
    machine_and_versions,
    new_run_name,
)
from a3c_zoo.engines.local import local_engine

__all__ = [
    "Engine",
    "JobProgress",
    "TrainCommand",
    "TrainingJob",
    "local_engine",
    "machine_and_versions",
    "new_run_name",
]
