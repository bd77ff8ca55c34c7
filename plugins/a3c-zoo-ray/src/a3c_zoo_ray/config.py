"""The keys of `a3c-ray` and of the engine `ray`. No torch and no Ray here: help and listings read them."""

from __future__ import annotations

from typing import Literal

from a3c_zoo.agents import A3CConfig
from a3c_zoo.config import EngineConfig
from pydantic import Field


class A3CRayConfig(A3CConfig):
    """The keys of `a3c`, and those of the exchange between nodes."""

    nodes: int = Field(1, ge=1, le=1024, description="number of nodes, among which run.workers are shared out")
    exchange_updates: int = Field(
        10, ge=1, le=1_000_000, description="updates of a node between two exchanges with the parameter servers"
    )
    compression: Literal["none", "bfloat16"] = Field(
        "none", description="how a node sends its change; bfloat16: the rounding error is added to its next change"
    )
    shards: int = Field(1, ge=1, le=256, description="number of parameter servers, each with a slice of the parameters")
    max_staleness: int | None = Field(
        None,
        ge=0,
        description="drop a node's change if others made more than this number of updates since the node's last "
        "exchange; null: drop none",
    )


class RayEngineConfig(EngineConfig):
    """The settings of the engine `ray`."""

    address: str | None = Field(
        None, description="the cluster: HOST:PORT, or auto for this machine's; null: RAY_ADDRESS, else a Ray of its own"
    )
    max_retries: int = Field(
        2, ge=0, le=100, description="how often a job begins anew on another machine when its own is lost"
    )
