"""The settings `plugins.wandb.*`. `a3c-zoo show` imports this module: no wandb here."""

from __future__ import annotations

from typing import Literal

from a3c_zoo.config import HookConfig
from pydantic import Field


class WandbConfig(HookConfig):
    """Where a run appears, and how often a point is sent."""

    project: str = Field("a3c-zoo", min_length=1, description="project on wandb")
    entity: str | None = Field(None, description="user or team that owns the project; null: the account's default")
    group: str | None = Field(None, description="group of runs within the project; null: none")
    tags: tuple[str, ...] = Field((), description="words to find the run by")
    mode: Literal["online", "offline"] | None = Field(
        None, description="offline: write to the run directory only; null: as WANDB_MODE says, else online"
    )
    every_s: float = Field(5.0, ge=0, description="time between two points of a curve, in seconds")
