"""A policy that was loaded, and where it is from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from a3c_zoo.errors import ObservationError
from a3c_zoo.records import Policy, takes_masks
from a3c_zoo.runs.run_html import run_html

if TYPE_CHECKING:  # the fork server imports numpy sooner
    from numpy.typing import NDArray

    from a3c_zoo.runs.setup import RunSetup
    from a3c_zoo.store.checkpoints import Checkpoint, PolicyState


class LoadedAgent:
    """A trained agent, to act with.

    Attributes:
        policy: acts, and is of the agent's own kind.
        run: its folder. env_name, agent_name: names. steps: agent steps of its training.
        returns: the mean return that is known of it, in words.
        checkpoint: "final" if it is the newest of its run, "best", or the number of steps of another.
        source: how its run was set up, and the checkpoint that was read. `a3c_zoo.evaluate` makes the policy anew.
    """

    def __init__(
        self,
        policy: Policy,
        run: Path,
        env_name: str,
        agent_name: str,
        steps: int,
        returns: str,
        checkpoint: str,
        source: tuple[RunSetup, Checkpoint[PolicyState]],
    ) -> None:
        self.policy = policy
        self.checkpoint = checkpoint
        self.run = run
        self.env_name = env_name
        self.agent_name = agent_name
        self.steps = steps
        self.returns = returns
        self.source = source

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[NDArray[Any], Any]:
        """The policy's actions for observations, see `a3c_zoo.records.Policy`.

        Args:
            action_masks: which actions are allowed, `[N, A]`, or `[A]` for one observation; for a policy that was
                trained within action masks.

        Raises:
            ObservationError: an argument has the wrong shape, or the agent takes no masks.
        """
        arguments = (observation, state, episode_start, deterministic)
        if action_masks is None:
            return self.policy.predict(*arguments)
        if not takes_masks(self.policy):
            raise ObservationError(f"agent '{self.agent_name}' takes no action masks")
        predict: Callable[..., tuple[NDArray[Any], Any]] = self.policy.predict
        return predict(*arguments, action_masks=action_masks)

    def __repr__(self) -> str:
        return f"<{self.agent_name} on {self.env_name}: {self.steps:,} steps, {self.returns}; {self.run}>"

    def _repr_html_(self) -> str:
        """In notebooks: the same, and the curve of its run."""
        return run_html(repr(self), self.run)
