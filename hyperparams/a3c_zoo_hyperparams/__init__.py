"""The first-party hyperparameter sets, as files `<env>/<set>.yml` and `<family>/<rest>/<set>.yml` in this package.

A set with the name of an agent is the agent's default set for the environment.
"""

from __future__ import annotations

from a3c_zoo import HyperparamEntry, hookimpl


@hookimpl
def zoo_hyperparams() -> list[HyperparamEntry]:
    """Offers the sets of this package."""
    return [HyperparamEntry("a3c_zoo_hyperparams")]
