"""How a vector environment resets at an episode's end, and when that is.

Gymnasium's autoreset modes (`s'` is the final observation, `s0` the next episode's first):

    mode        step t ends the episode            step t+1
    NEXT_STEP   observation = s'                   action ignored, observation = s0: masked out of loss and counts
    SAME_STEP   observation = s0, s' is in info    real
    DISABLED    observation = s'; we reset: s0     real
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from a3c_zoo.errors import EnvironmentContractError

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv


def autoreset_mode(env: VectorEnv[Any, Any, Any]) -> str:
    """Returns "NextStep", "SameStep" or "Disabled".

    The attribute comes first: AtariVectorEnv writes its mode into the metadata dict that every VectorEnv class shares.
    """
    mode = getattr(env, "autoreset_mode", None) or (env.metadata or {}).get("autoreset_mode")
    value = getattr(mode, "value", mode)
    if value not in ("NextStep", "SameStep", "Disabled"):
        raise EnvironmentContractError(
            f"{env} does not say how it resets: metadata['autoreset_mode'] must be a gymnasium.vector.AutoresetMode"
        )
    return str(value)


EpisodeOver = Callable[[Any, Any, dict[str, Any]], Any]


def episode_over(env: VectorEnv[Any, Any, Any]) -> EpisodeOver:
    """Returns `(terminated, truncated, info) -> which episodes have ended`, all `[N]`, bool.

    An environment that reports more than ends as terminations (a lost life, while the game goes on) has a method
    `episode_over` that tells: nothing is bootstrapped across such a termination, but the next action is real, and
    neither the episode's return nor its length ends there.
    """
    own: EpisodeOver = getattr(env, "episode_over", None) or (
        lambda terminated, truncated, info: terminated | truncated
    )
    return own
