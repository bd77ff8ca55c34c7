"""The steps of a rollout as single samples, for updates that shuffle them and pass over them more than once (PPO)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from a3c_zoo.learning.actions import ActionDistribution, masked_logits
from a3c_zoo.learning.networks import ActorCritic, in_training
from a3c_zoo.learning.objective import Objective, advantages_and_returns, descend
from a3c_zoo.learning.rollout import Rollout
from a3c_zoo.learning.update_parts import WholeUpdate


@dataclass(frozen=True, slots=True)
class Samples:
    """B samples, in any order.

    Attributes:
        observations: `[B, ...]`. actions: `[B, ...]`, as their distribution stores them.
        log_probs: log π(a|s) of the policy that acted, `[B]`.
        advantages: by the values of that policy, `[B]`, float32. returns: targets of the values, the same.
        valid: False for a step that the environment ignored, `[B]`, bool.
        masks: which actions were allowed, `[B, A]`, bool; None without action masks.
    """

    observations: Tensor
    actions: Tensor
    log_probs: Tensor
    advantages: Tensor
    returns: Tensor
    valid: Tensor
    masks: Tensor | None = None

    def batches(self, size: int, generator: torch.Generator) -> Iterator[Samples]:
        """Copies of `size` samples each, shuffled; each sample is in one of them. The last may be smaller."""
        for chosen in self.shuffled(size, generator):
            yield self.chosen(chosen)

    def shuffled(self, size: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        """The numbers of `size` samples each, in any order; each sample is in one of them. The last may have fewer."""
        return torch.split(torch.randperm(len(self.valid), generator=generator), size)

    def chosen(self, numbers: Tensor) -> Samples:
        """Copies of the samples with these numbers."""
        tensors = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: each[numbers] for name, each in tensors.items() if each is not None})


def samples_of(
    rollout: Rollout, network: ActorCritic, distribution: ActionDistribution, objective: Objective
) -> Samples:
    """The T·N samples of a rollout whose logits and values were kept.

    Args:
        network: with the parameters that acted; it values what follows the last row and final observations.
    """
    assert rollout.logits is not None
    assert rollout.values is not None
    actions = rollout.actions.flatten(0, 1)
    masks = rollout.acted_masks(slice(None))
    with torch.no_grad():
        rollout.values[-1] = network.value(rollout.observations[-1])
        logits = masked_logits(distribution, rollout.logits.flatten(0, 1), masks)
        log_probs, _ = distribution.log_prob_and_entropy(logits, actions)
    values = rollout.values.numpy()
    next_values = rollout.next_values(values[1:], slice(None), network.value)
    advantages, returns = advantages_and_returns(rollout, slice(None), values[:-1], next_values, objective)
    advantage, target, valid = (
        torch.from_numpy(array.reshape(-1)) for array in (advantages, returns, rollout.valid)
    )
    observations = rollout.observations[:-1].flatten(0, 1)
    return Samples(observations, actions, log_probs, advantage, target, valid, masks)


def differentiate_samples(
    network: ActorCritic,
    distribution: ActionDistribution,
    samples: Samples,
    objective: Objective,
    want_metrics: bool = False,
    whole: WholeUpdate | None = None,
) -> dict[str, float]:
    """Adds the gradient of the loss over samples to the network's `.grad` tensors; see `descend`."""
    with in_training(network):
        logits, values = network.act(samples.observations)
    advantages, returns, valid = (
        tensor.numpy() for tensor in (samples.advantages, samples.returns, samples.valid)
    )
    return descend(
        distribution,
        logits,
        values,
        samples.actions,
        advantages,
        returns,
        valid,
        objective,
        want_metrics,
        samples.log_probs,
        whole,
        samples.masks,
    )
