"""The entry of this distribution. `a3c-zoo` imports this module often, so it does not import wandb."""

from __future__ import annotations

from a3c_zoo import HookEntry, hookimpl


@hookimpl
def zoo_hooks() -> list[HookEntry]:
    """Offers the logger. Training goes on when the server is away."""
    return [
        HookEntry(
            name="wandb",
            hooks="a3c_zoo_wandb.logger:WandbLogger",
            config="a3c_zoo_wandb.config:WandbConfig",
            fatal=False,
            description="sends curves and settings to Weights & Biases",
            revision=1,
        )
    ]
