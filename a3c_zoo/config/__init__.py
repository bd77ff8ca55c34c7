"""Configuration: typed models, settings with their sources, YAML, hyperparameter sets.

This package exports the models from which plugins derive their own.
"""

from __future__ import annotations

from a3c_zoo.config.models import (
    NEVER,
    AgentConfig,
    Config,
    EngineConfig,
    EnvConfig,
    HookConfig,
    NetworkConfig,
    OptimizerConfig,
    RunConfig,
    Section,
)
from a3c_zoo.plugins.entries import SECTIONS

__all__ = [
    "NEVER",
    "SECTIONS",
    "AgentConfig",
    "Config",
    "EngineConfig",
    "EnvConfig",
    "HookConfig",
    "NetworkConfig",
    "OptimizerConfig",
    "RunConfig",
    "Section",
]
