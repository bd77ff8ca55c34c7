"""The steps of a rollout as segments, for updates that shuffle them and pass over them more than once with a core.

A segment is L steps of one environment in a row. A recurrent core passes over them from the state that it had
when it acted on the first one. Parameters have changed since, and so that state is a little older than they
are (the "stored state" of Kapturowski et al. 2019, "Recurrent Experience Replay in Distributed Reinforcement
Learning").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from a3c_zoo.learning.actions import ActionDistribution, masked_logits
from a3c_zoo.learning.networks import ActorCritic, in_training
from a3c_zoo.learning.objective import Objective, advantages_and_returns, descend
from a3c_zoo.learning.recurrent import unroll_steps
from a3c_zoo.learning.rollout import Rollout
from a3c_zoo.learning.update_parts import WholeUpdate


@dataclass(frozen=True, slots=True)
class Segments:
    """M segments of L steps each, in any order.

    Attributes:
        observations: `[L, M, ...]`. actions: `[L, M, ...]`, as their distribution stores them.
        log_probs: log π(a|s) of the policy that acted, `[L, M]`.
        advantages: by the values of that policy, `[L, M]`, float32. returns: targets of the values, the same.
        valid: False for a step that the environment ignored, `[L, M]`, bool.
        resets: before which steps the state of the core becomes 0, `[L, M]`, bool.
        states: of the core before the first step, and before its reset, `[K, M, H]`.
        masks: which actions were allowed, `[L, M, A]`, bool; None without action masks.
    """

    observations: Tensor
    actions: Tensor
    log_probs: Tensor
    advantages: Tensor
    returns: Tensor
    valid: Tensor
    resets: Tensor
    states: Tensor
    masks: Tensor | None = None

    def batches(self, size: int, generator: torch.Generator) -> Iterator[Segments]:
        """Copies of so many segments that they hold `size` steps, shuffled; each segment is in one of them."""
        for chosen in self.shuffled(size, generator):
            yield self.chosen(chosen)

    def shuffled(self, size: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        """The numbers of so many segments that they hold `size` steps, in any order; each segment is in one of them."""
        length, number = self.valid.shape
        return torch.split(torch.randperm(number, generator=generator), size // length)

    def chosen(self, numbers: Tensor) -> Segments:
        """Copies of the segments with these numbers."""
        tensors = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: each[:, numbers] for name, each in tensors.items() if each is not None})


def segments_of(
    rollout: Rollout,
    network: ActorCritic,
    distribution: ActionDistribution,
    objective: Objective,
    length: int,
) -> Segments:
    """The T·N steps of a rollout with a core, as T·N / L segments.

    Args:
        network: with the parameters that acted; one pass over the rollout gives log π(a|s) and all values.
        length: L, a divisor of T.
    """
    states, resets = rollout.core
    num_steps, num_envs = rollout.rewards.shape
    with torch.no_grad():
        logits, all_values, after = network.unroll(
            rollout.observations, states[0], resets, rollout.final_places(slice(None))
        )
        logits = masked_logits(distribution, logits, rollout.acted_masks(slice(None)))
        log_probs, _ = distribution.log_prob_and_entropy(logits, rollout.actions.flatten(0, 1))
        values = all_values.numpy().reshape(num_steps + 1, num_envs)
        next_values = rollout.next_values(
            values[1:], slice(None), lambda finals: network.value_after(finals, after)
        )
    advantages, returns = advantages_and_returns(rollout, slice(None), values[:-1], next_values, objective)

    def cut(rows: Tensor) -> Tensor:
        """`[T, N, ...]` as `[L, M, ...]`."""
        return rows.view(-1, length, *rows.shape[1:]).transpose(0, 1).flatten(1, 2)

    return Segments(
        observations=cut(rollout.observations[:-1]),
        actions=cut(rollout.actions),
        log_probs=cut(log_probs.view(num_steps, num_envs)),
        advantages=cut(torch.from_numpy(advantages)),
        returns=cut(torch.from_numpy(returns)),
        valid=cut(torch.from_numpy(rollout.valid)),
        resets=cut(torch.from_numpy(resets[:-1])),
        states=states[:-1:length].transpose(0, 1).flatten(1, 2),
        masks=None if rollout.masks is None else cut(rollout.masks[:num_steps]),
    )


def differentiate_segments(
    network: ActorCritic,
    distribution: ActionDistribution,
    segments: Segments,
    objective: Objective,
    want_metrics: bool = False,
    whole: WholeUpdate | None = None,
) -> dict[str, float]:
    """Adds the gradient of the loss over segments to the network's `.grad` tensors; see `descend`."""
    with in_training(network):
        logits, values = unroll_steps(network, segments.observations, segments.states, segments.resets)
    return descend(
        distribution,
        logits,
        values,
        segments.actions.flatten(0, 1),
        segments.advantages.numpy(),
        segments.returns.numpy(),
        segments.valid.numpy(),
        objective,
        want_metrics,
        segments.log_probs.flatten(),
        whole,
        None if segments.masks is None else segments.masks.flatten(0, 1),
    )
