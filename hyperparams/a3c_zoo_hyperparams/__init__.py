"""The first-party hyperparameter sets: `<env>/<set>.yml` beside this file.

A set named like an agent is that agent's default for the environment.
"""

from __future__ import annotations

from a3c_zoo import HyperparamEntry, hookimpl


@hookimpl
def zoo_hyperparams() -> list[HyperparamEntry]:
    """Offers this package's sets."""
    return [HyperparamEntry("a3c_zoo_hyperparams")]
