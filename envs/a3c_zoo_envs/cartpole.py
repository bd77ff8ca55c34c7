"""CartPole-v1, vectorised: Gymnasium's own, which resets on the step after an end."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv


class ResumableCartPole(CartPoleVectorEnv):
    """Gymnasium's CartPoleVectorEnv, able to tell its state and to go on from it, for exact resumes."""

    def get_state(self) -> dict[str, Any]:
        """Returns the state as tensors, numbers and strings."""
        assert self.state is not None
        return {
            "state": torch.from_numpy(np.array(self.state)),
            "steps": torch.from_numpy(self.steps.copy()),
            "prev_done": torch.from_numpy(self.prev_done.copy()),
            "random": self.np_random.bit_generator.state,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from what `get_state` returned."""
        self.state = state["state"].numpy().copy()
        self.steps = state["steps"].numpy().copy()
        self.prev_done = state["prev_done"].numpy().copy()
        self.np_random.bit_generator.state = state["random"]


def make(num_envs: int, seed: int, *, render_mode: str | None = None, **kwargs: Any) -> ResumableCartPole:
    """Environment factory. The seed is that of the first `reset`, which the caller does."""
    return ResumableCartPole(num_envs=num_envs, render_mode=render_mode, **kwargs)
