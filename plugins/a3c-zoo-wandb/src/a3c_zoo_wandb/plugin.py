"""The entries of this distribution. `a3c-zoo` imports this module often, so it imports no tracker."""

from __future__ import annotations

from a3c_zoo import HookEntry, hookimpl


@hookimpl
def zoo_hooks() -> list[HookEntry]:
    """Offers the loggers. Training goes on when a server is away."""
    return [
        HookEntry(
            name="wandb",
            hooks="a3c_zoo_wandb.logger:WandbLogger",
            config="a3c_zoo_wandb.config:WandbConfig",
            fatal=False,
            description="sends curves and settings to Weights & Biases",
            revision=1,
        ),
        HookEntry(
            name="trackio",
            hooks="a3c_zoo_wandb.trackio_logger:TrackioLogger",
            config="a3c_zoo_wandb.config:TrackioConfig",
            fatal=False,
            description="keeps curves and settings with Trackio",
            revision=1,
        ),
        HookEntry(
            name="mlflow",
            hooks="a3c_zoo_wandb.mlflow_logger:MlflowLogger",
            config="a3c_zoo_wandb.config:MlflowConfig",
            fatal=False,
            description="keeps curves and settings with MLflow",
            revision=1,
        ),
    ]
