"""How a vector environment starts the next episode: one object for each of Gymnasium's autoreset modes.

`s'` is the final observation of an episode, `s0` the first observation of the next one:

    mode        step t ends the episode              step t+1
    NEXT_STEP   observation = s'                     the action is ignored, observation = s0; masked out of the loss
    SAME_STEP   observation = s0, s' is in info      an ordinary step
    DISABLED    observation = s', the caller resets  an ordinary step from s0

An environment with NEXT_STEP may ignore more actions: those of an agent that has left a game which others still play.
It then has a method `ignored_actions(info) -> [N], bool`. The method says which environments ignored the action of the
step that returned this info; those that began an episode with the step are among them. Gymnasium's vector wrappers hide
the method, so it is looked for behind them. The observation of such a step fits its space, and nobody learns from it;
its reward is 0, and both flags are False.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from gymnasium.vector import VectorEnv, VectorWrapper
from numpy.typing import NDArray

from a3c_zoo.errors import EnvironmentContractError

EpisodeOver = Callable[[Any, Any, dict[str, Any]], Any]


class Autoreset:
    """How one vector environment starts the next episode. The classes below are the three modes."""

    ignores_a_step: ClassVar[bool] = False
    """Whether the step after an end ignores its action and returns the first observation of the next episode."""

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        self._env = env

    def ignored(self, info: dict[str, Any], ended_before: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which environments ignored the action of a step, `[N]`.

        Args:
            info: what `step` returned. ended_before: whose episodes had ended with the step before, `[N]`.
        """
        return np.zeros_like(ended_before)

    def final_observations(self, observation: Any, info: dict[str, Any]) -> Any:
        """The observations whose row n is the final one of environment n, if its episode ended with this step.

        Args:
            observation, info: what `step` returned.

        Returns:
            None if the environment does not give them.
        """
        return observation

    def restart(
        self, observation: Any, info: dict[str, Any], ended: NDArray[np.bool_]
    ) -> tuple[Any, dict[str, Any]]:
        """Starts the next episodes, unless the environment does so itself.

        Args:
            observation, info: what `step` returned. ended: the environments whose episodes ended with this step,
                `[N]`.

        Returns:
            What the agent acts on next, and the info of the environments that begin anew; the same info if they
            began by themselves.
        """
        return observation, info


class NextStep(Autoreset):
    """The environment resets with a step after the end, and ignores the actions from the end to that step."""

    ignores_a_step = True

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        super().__init__(env)
        self._own = _method_behind_wrappers(env, "ignored_actions")

    def ignored(self, info: dict[str, Any], ended_before: NDArray[np.bool_]) -> NDArray[np.bool_]:
        if self._own is None:
            return ended_before
        return np.asarray(self._own(info), np.bool_)


class SameStep(Autoreset):
    """The environment resets with the step that ends the episode, and gives the final observation in `info`."""

    def final_observations(self, observation: Any, info: dict[str, Any]) -> Any:
        return info.get("final_obs")


class Disabled(Autoreset):
    """The environment never resets by itself."""

    def restart(
        self, observation: Any, info: dict[str, Any], ended: NDArray[np.bool_]
    ) -> tuple[Any, dict[str, Any]]:
        if ended.any():
            return self._env.reset(options={"reset_mask": ended.copy()})
        return observation, info


_CLASSES = {"NextStep": NextStep, "SameStep": SameStep, "Disabled": Disabled}


def autoreset_of(env: VectorEnv[Any, Any, Any]) -> Autoreset:
    """Returns the object for the mode that the environment names. Raises what `autoreset_mode` raises."""
    return _CLASSES[autoreset_mode(env)](env)


def autoreset_mode(env: VectorEnv[Any, Any, Any]) -> str:
    """Returns "NextStep", "SameStep" or "Disabled".

    The attribute of the object comes first: AtariVectorEnv writes its mode into the metadata dictionary that
    every VectorEnv class shares.

    Raises:
        EnvironmentContractError: the environment names none of these modes.
    """
    mode = getattr(env, "autoreset_mode", None) or (env.metadata or {}).get("autoreset_mode")
    value = str(getattr(mode, "value", mode))
    if value not in _CLASSES:
        raise EnvironmentContractError(
            f"{env} does not say how it resets: metadata['autoreset_mode'] must be a gymnasium.vector.AutoresetMode"
        )
    return value


def episode_over(env: VectorEnv[Any, Any, Any]) -> EpisodeOver:
    """Returns the function `(terminated, truncated, info) -> [N], bool` that tells which episodes ended with a step.

    An environment may report terminations that do not end an episode, such as a lost life while the game goes
    on. It then has a method `episode_over`, which is returned. Nothing is bootstrapped across such a
    termination, but the next action is real, and the return and length of the episode go on. Gymnasium's
    vector wrappers hide the method, so it is looked for behind them.
    """
    own: EpisodeOver | None = _method_behind_wrappers(env, "episode_over")
    return own or (lambda terminated, truncated, info: terminated | truncated)


def _method_behind_wrappers(env: VectorEnv[Any, Any, Any], name: str) -> Callable[..., Any] | None:
    """A method of an environment, or of the one behind its vector wrappers; None if it has none."""
    while isinstance(env, VectorWrapper) and not hasattr(env, name):
        env = env.env
    method: Callable[..., Any] | None = getattr(env, name, None)
    return method
