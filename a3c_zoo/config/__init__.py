"""Configuration: typed models, settings with their sources, YAML, hyperparameter sets.

What plugins derive their own models from is exported here.
"""

from __future__ import annotations

from a3c_zoo.config.models import (
    NEVER,
    SECTIONS,
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
