"""The settings `plugins.wandb.*`, `plugins.trackio.*` and `plugins.mlflow.*`. `a3c-zoo show` imports this module."""

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


class TrackioConfig(HookConfig):
    """Where a run appears in Trackio, and how often a point is kept."""

    project: str = Field("a3c-zoo", min_length=1, description="project of Trackio")
    group: str | None = Field(None, description="group of runs within the project; null: none")
    space_id: str | None = Field(
        None, description="Space of Hugging Face that gets the runs; null: as TRACKIO_SPACE_ID says, else this machine"
    )
    every_s: float = Field(5.0, ge=0, description="time between two points of a curve, in seconds")


class MlflowConfig(HookConfig):
    """Where a run appears in MLflow, and how often a point is sent."""

    experiment: str = Field("a3c-zoo", min_length=1, description="experiment of MLflow")
    tracking_uri: str | None = Field(
        None, description="server or database of MLflow; null: as MLFLOW_TRACKING_URI says, else MLflow's default"
    )
    every_s: float = Field(5.0, ge=0, description="time between two points of a curve, in seconds")
