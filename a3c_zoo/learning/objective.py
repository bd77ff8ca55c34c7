"""The differentiate stage: a rollout in, gradients of the actor-critic loss out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from a3c_zoo.errors import PluginError
from a3c_zoo.learning.actions import ActionDistribution, masked_logits
from a3c_zoo.learning.networks import ActorCritic, in_training
from a3c_zoo.learning.returns import Bools, Floats, gae, monte_carlo_returns
from a3c_zoo.learning.rollout import Rollout
from a3c_zoo.learning.update_parts import WholeUpdate

#: Above this the ratio of two probabilities stays as it is: e⁸⁹ is no float32, and infinity times 0 would be
#: no number.
LARGEST_LOG_RATIO = 20.0


@dataclass(frozen=True, slots=True)
class LossInputs:
    """B samples, from which a loss computes its terms. The first four tensors have gradients, the others are constants.

    Attributes:
        log_probs: log π(a|s), `[B]`. entropies: H(π), in nats, `[B]`. values: V(s), `[B]`.
        logits: parameters of the distribution over actions, `[B, A]`, within action masks (`masked_logits`).
        actions: `[B, ...]`, as the distribution stores them.
        advantages: `[B]`, normalised if `agent.normalize_advantages` is set. returns: targets of the values,
            `[B]`.
        acted: log π(a|s) of the policy that acted, `[B]`; None unless the agent learns from shuffled samples,
            as `run_a3c` does if `LossConfig.keeps_outputs` is true.
    """

    log_probs: Tensor
    entropies: Tensor
    values: Tensor
    logits: Tensor
    actions: Tensor
    advantages: Tensor
    returns: Tensor
    acted: Tensor | None

    def ratios(self) -> Tensor:
        """π(a|s) / π_acted(a|s), `[B]`.

        Raises:
            PluginError: the agent's rollouts do not keep the outputs of the policy that acted.
        """
        if self.acted is None:
            raise PluginError(
                "this loss compares with the policy that acted, but the agent does not keep its outputs. run_a3c keeps "
                "them if the property keeps_outputs of the agent's configuration model is True"
            )
        return ratios(self.log_probs, self.acted)


def ratios(log_probs: Tensor, acted: Tensor) -> Tensor:
    """π(a|s) / π_acted(a|s), `[B]`, from the logarithms of both; at most e²⁰, which is finite in float32."""
    return (log_probs - acted).clamp(max=LARGEST_LOG_RATIO).exp()


def no_metrics() -> Mapping[str, Tensor]:
    """Returns no metrics."""
    return {}


@dataclass(frozen=True, slots=True)
class LossTerms:
    """The terms of a loss, for each of B samples. The loss of a sample is c_v · value_error − policy_gain − c_e · H(π).

    `descend` multiplies it by the sample's weight, which is 0 for a step that the environment ignored, and
    adds up. So all numbers must be finite, also those of ignored steps.

    Attributes:
        policy_gain: what the policy gains by the sample, `[B]`; a penalty is subtracted here.
        value_error: how far V(s) is from its target, `[B]`.
        metrics: returns further metrics by name, `[B]` each, of which the mean over the valid samples is
            reported. Called without gradients, and only for updates whose metrics are wanted. A mean that is not finite
            is left out, and the run tells of the first one of each name.
    """

    policy_gain: Tensor
    value_error: Tensor
    metrics: Callable[[], Mapping[str, Tensor]] = no_metrics


def actor_critic_loss(samples: LossInputs, objective: Objective) -> LossTerms:
    """A3C's terms: log π(a|s) · A and (R − V)²; with a clip ratio the first is PPO's (`policy_gain`)."""
    limit = objective.clip_ratio
    acted = samples.acted
    log_probs = samples.log_probs
    gain = policy_gain(log_probs, acted, samples.advantages, limit)
    error = (samples.returns - samples.values).square()
    if limit is None or acted is None:
        return LossTerms(gain, error)
    return LossTerms(gain, error, lambda: divergence(log_probs, acted, limit))


Loss = Callable[[LossInputs, "Objective"], LossTerms]
"""Computes the terms of a loss. It travels to worker processes, so it is a function of a module, or a
`functools.partial` of one."""


@dataclass(frozen=True, slots=True)
class Objective:
    """The loss and its coefficients (A3C, Mnih et al. 2016, section 4).

    Attributes:
        gamma: discount per step. gae_lambda: 1 is A3C.
        entropy_coefficient: weight of the entropy bonus. value_coefficient: that of the squared value error.
        normalize_advantages: scale advantages to mean 0 and standard deviation 1 over the samples of an
            update.
        clip_rewards: clip rewards to ±1, in the loss only.
        reward_scale: factor of every reward before it is clipped or limited, in the loss only.
        reward_limit: limit of the size of scaled rewards, in the loss only.
        loss_sum: sum the loss over samples; false: take the mean.
        anneal_entropy: let the entropy bonus fall linearly to 0 (`at`).
        termination_reward: replaces the reward of a step that terminates an episode; None keeps the
            environment's.
        whole_episodes: use returns of whole episodes without bootstrap (Monte-Carlo); `gae_lambda` is not
            used.
        normalize_returns: divide returns by their L2 norm over the rollout.
        clip_ratio: ε of PPO's clipped ratio (`policy_gain`); None is A3C.
        loss: computes the terms of the loss.
    """

    gamma: float
    gae_lambda: float
    entropy_coefficient: float
    value_coefficient: float
    normalize_advantages: bool = False
    clip_rewards: bool = False
    reward_scale: float = 1.0
    loss_sum: bool = False
    anneal_entropy: bool = False
    termination_reward: float | None = None
    whole_episodes: bool = False
    normalize_returns: bool = False
    clip_ratio: float | None = None
    loss: Loss = actor_critic_loss
    reward_limit: float = math.inf

    @property
    def largest_reward(self) -> float:
        """The limit of the size of scaled rewards; infinite for none."""
        if self.clip_rewards:
            return min(1.0, self.reward_limit)
        return self.reward_limit

    def at(self, left: float) -> Objective:
        """Returns the objective for the fraction of the schedule that is left, 1 to 0."""
        if not self.anneal_entropy:
            return self
        return replace(self, entropy_coefficient=self.entropy_coefficient * left)


def advantages_and_returns(
    rollout: Rollout, columns: slice, values: Floats, next_values: Floats, objective: Objective
) -> tuple[Floats, Floats]:
    """Returns advantages and value targets, both `[T, n]`, for the environments in `columns`."""
    rewards = rollout.rewards[:, columns]
    terminated = rollout.terminated[:, columns]
    truncated = rollout.truncated[:, columns]
    if objective.termination_reward is not None:
        rewards = np.where(terminated, np.float32(objective.termination_reward), rewards)
    rewards = scaled_rewards(rewards, objective.reward_scale, objective.largest_reward)
    if objective.whole_episodes:
        returns = monte_carlo_returns(rewards, terminated, truncated, objective.gamma)
        advantages = returns - values
    else:
        advantages = gae(
            rewards, values, next_values, terminated, truncated, objective.gamma, objective.gae_lambda
        )
        returns = advantages + values
    if objective.normalize_returns:
        returns = to_unit_length(returns, rollout.valid[:, columns])
        advantages = returns - values
    return advantages, returns


def scaled_rewards(rewards: Floats, scale: float, limit: float) -> Floats:
    """Rewards as the loss takes them: multiplied by `scale`, then clipped to ± `limit`, which may be infinite."""
    if scale != 1:
        rewards = rewards * np.float32(scale)
    if math.isfinite(limit):
        rewards = np.clip(rewards, -limit, limit)
    return rewards


@np.errstate(over="ignore", invalid="ignore")  # as in `returns.py`
def to_unit_length(returns: Floats, valid: Bools) -> Floats:
    """Divides returns by the L2 norm of the valid ones (Zai & Brown 2020, chapter 5); zeros stay zeros."""
    wide = returns.astype(np.float64)  # the squares of large numbers are too large for float32
    norm = np.linalg.norm(wide[valid])
    divisor = norm if norm > 0 else 1.0
    result: Floats = (wide / divisor).astype(np.float32)
    return result


@np.errstate(over="ignore", invalid="ignore")  # as in `returns.py`
def normalize(advantages: Floats, valid: Bools, whole: WholeUpdate | None = None) -> Floats:
    """Shifts and scales advantages to mean 0 and standard deviation 1 over the valid samples; one stays as it is.

    With `whole` these are a part of an update, and it is the samples of the whole that have mean 0 and deviation 1.

    In float64: the float32 mean of equal numbers may be another number. Divided by the deviation it would be
    large.
    """
    wide = advantages.astype(np.float64)
    chosen = wide[valid]
    if whole is None and chosen.size:
        whole = WholeUpdate(chosen.size, float(chosen.mean()), float(chosen.std()))
    if whole is None or whole.num_valid < 2:  # a short update may hold one sample, or ignored steps only
        return advantages
    result: Floats = ((wide - whole.mean) / (whole.deviation + 1e-8)).astype(np.float32)
    return result


def differentiate(
    network: ActorCritic,
    distribution: ActionDistribution,
    rollout: Rollout,
    columns: slice,
    objective: Objective,
    want_metrics: bool = False,
) -> dict[str, float]:
    """Adds the gradient of the loss over some environments of a rollout to the network's `.grad` tensors.

    The loss is −log π(a|s)·A − c_e·H(π) + c_v·(R − V)², averaged over valid samples (or summed: `loss_sum`);
    its first and last part come from `objective.loss`. A and R are constants. The values come from the same
    forward pass that is differentiated, so acting needs no values.

    Returns:
        Metrics of the update by name; empty without `want_metrics` (they cost about 4 % of a small update).
    """
    logits, all_values, value = forward(network, rollout, columns)
    valid = rollout.valid[:, columns]
    values_now = all_values.detach().numpy().reshape(len(valid) + 1, -1)
    next_values = rollout.next_values(values_now[1:], columns, value)
    advantages, returns = advantages_and_returns(rollout, columns, values_now[:-1], next_values, objective)
    actions = rollout.actions[:, columns].flatten(0, 1)
    return descend(
        distribution,
        logits,
        all_values,
        actions,
        advantages,
        returns,
        valid,
        objective,
        want_metrics,
        masks=rollout.acted_masks(columns),
    )


def forward(
    network: ActorCritic, rollout: Rollout, columns: slice
) -> tuple[Tensor, Tensor, Callable[[Tensor], Tensor]]:
    """Logits `[T·n, A]` and values `[(T+1)·n]` of some environments, and the value function for `Rollout.next_values`.

    With gradients the network is in training mode. A recurrent core starts from the state at the beginning of
    the rollout. After an update from other environments of the rollout, that state is older than the
    parameters.
    """
    observations = rollout.observations[:, columns]
    if rollout.states is None or rollout.resets is None:
        with in_training(network):
            return (*network.evaluate(observations), network.value)
    places = rollout.final_places(columns)
    before = rollout.states[0, :, columns]
    with in_training(network):
        logits, values, states = network.unroll(observations, before, rollout.resets[:, columns], places)
    return logits, values, lambda finals: network.value_after(finals, states)


def policy_gain(
    log_prob: Tensor, acted: Tensor | None, advantage: Tensor, clip_ratio: float | None
) -> Tensor:
    """What the policy gains by samples, all arguments `[B]`: log π(a|s) · A, the gradient of A3C.

    With ε = `clip_ratio`: min(r · A, clip(r, 1 − ε, 1 + ε) · A) where r = π(a|s) / π_acted(a|s). A sample has
    no gradient once its probability has moved far enough in the direction of its advantage (PPO, Schulman et
    al. 2017, arXiv:1707.06347, eq. 7).

    Args:
        acted: log π_acted(a|s) of the policy that acted, `[B]`; None without a clip ratio.
    """
    if clip_ratio is None:
        return log_prob * advantage
    assert acted is not None
    ratio = ratios(log_prob, acted)
    return torch.minimum(ratio * advantage, ratio.clamp(1 - clip_ratio, 1 + clip_ratio) * advantage)


def descend(
    distribution: ActionDistribution,
    logits: Tensor,
    all_values: Tensor,
    actions: Tensor,
    advantages: Floats,
    returns: Floats,
    valid: Bools,
    objective: Objective,
    want_metrics: bool = False,
    acted: Tensor | None = None,
    whole: WholeUpdate | None = None,
    masks: Tensor | None = None,
) -> dict[str, float]:
    """Computes the loss of B samples and its gradient; the last part of `differentiate`.

    Args:
        logits: `[B, A]`. all_values: `[≥ B]`; the first B are those of the samples. actions: `[B, ...]`.
        advantages, returns, valid: B elements in any shape, in the order of the samples.
        acted: log π(a|s) of the policy that acted, `[B]`; needed with a clip ratio.
        whole: the update, if the samples are a part of it; the gradients of all parts add up to that of the whole.
        masks: which actions were allowed, `[B, A]`, bool; None for an environment without action masks.

    Returns:
        Metrics; see `differentiate`.
    """
    num_samples = valid.size
    if objective.normalize_advantages:
        weighed = normalize(advantages, valid, whole)
    else:
        weighed = advantages
    weights = valid.astype(np.float32)
    if not objective.loss_sum:
        num_valid = int(valid.sum()) if whole is None else whole.num_valid
        weights /= max(1, num_valid)
    weight, advantage, raw, target = (
        torch.from_numpy(array.reshape(num_samples)) for array in (weights, weighed, advantages, returns)
    )
    logits = masked_logits(distribution, logits, masks)
    log_prob, entropy = distribution.log_prob_and_entropy(logits, actions)
    values = all_values[:num_samples]
    terms = objective.loss(
        LossInputs(log_prob, entropy, values, logits, actions, advantage, target, acted), objective
    )
    check_terms(terms, weight)
    gain = terms.policy_gain
    value_error = terms.value_error
    loss = torch.dot(
        objective.value_coefficient * value_error - gain - objective.entropy_coefficient * entropy, weight
    )
    loss.backward()  # type: ignore[no-untyped-call]
    if not want_metrics:
        return {}
    with torch.no_grad():  # each part of the loss before its coefficient, and means over the valid samples
        # All weights are 0 if nothing is valid.
        share = weight / weight.sum().clamp(min=torch.finfo(weight.dtype).tiny)
        # Raw advantages: the mean of normalised ones is always 0.
        means = torch.stack((entropy, raw, target, values)) @ share
        # The mean over a part has the weights of the whole update, and sums are those of the part.
        as_mean = 1.0
        if whole is not None and not objective.loss_sum:
            as_mean = whole.num_valid / max(1, int(valid.sum()))
        return {
            "loss_policy": -float(torch.dot(gain, weight)) * as_mean,
            "loss_value": float(torch.dot(value_error, weight)) * as_mean,
            "loss_total": float(loss) * as_mean,
            **explained_variance(values, target, share),
            **{
                name: float(torch.dot(metric, share))
                for name, metric in checked_metrics(terms, share).items()
            },
            **dict(zip(("entropy", "advantage", "batch_return", "value"), means.tolist(), strict=True)),
        }


#: Returns whose variance is at most this part of their mean square are equal but for rounding in float32.
EQUAL_RETURNS = 1e-12


def explained_variance(values: Tensor, returns: Tensor, share: Tensor) -> dict[str, float]:
    """How much of the variance of the returns the values explain: 1 − Var(R − V) / Var(R). A constant explains 0.

    Args:
        values, returns: V and R of the samples, `[B]`. share: the weight of each sample in a mean, `[B]`.

    Returns:
        It under the name `explained_variance`; empty if all returns are equal.
    """
    error = returns - values
    unexplained = torch.dot((error - torch.dot(error, share)) ** 2, share)
    spread = float(torch.dot((returns - torch.dot(returns, share)) ** 2, share))
    if spread <= EQUAL_RETURNS * float(torch.dot(returns**2, share)):
        return {}
    return {"explained_variance": 1 - float(unexplained) / spread}


#: Metrics of every loss.
OWN_METRICS = (
    "loss_policy",
    "loss_value",
    "loss_total",
    "explained_variance",
    "entropy",
    "advantage",
    "batch_return",
    "value",
)


def check_terms(terms: LossTerms, weight: Tensor) -> None:
    """Raises PluginError unless the terms are one number for each sample, like its weight; others are broadcast."""
    if not isinstance(terms, LossTerms):
        raise PluginError(
            f"the loss returns {type(terms).__name__}; it must return a3c_zoo.learning.LossTerms"
        )
    for name, term in (("policy_gain", terms.policy_gain), ("value_error", terms.value_error)):
        _check_term(name, term, weight)
    if not callable(terms.metrics):
        raise PluginError(
            f"the loss returns metrics of {type(terms.metrics).__name__}; they must be a function that returns a dict: "
            "metrics=lambda: {…}"
        )


def checked_metrics(terms: LossTerms, weight: Tensor) -> dict[str, Tensor]:
    """The metrics of a loss, each `[B]`. Raises PluginError for others, and for names that every loss has."""
    metrics = terms.metrics()
    if not isinstance(metrics, Mapping):
        raise PluginError(f"the metrics of the loss return {type(metrics).__name__}; they must return a dict")
    for name, metric in metrics.items():
        if name in OWN_METRICS:
            raise PluginError(
                f"the loss returns a metric '{name}', a name that every loss has; choose another"
            )
        _check_term(f"metric '{name}'", metric, weight)
    return dict(metrics)


def _check_term(name: str, term: object, weight: Tensor) -> None:
    if isinstance(term, Tensor) and term.shape == weight.shape and term.dtype == weight.dtype:
        return
    form = type(term).__name__
    if isinstance(term, Tensor):
        form = f"{str(term.dtype).removeprefix('torch.')} {list(term.shape)}"
    raise PluginError(
        f"the loss returns a {name} of {form}; it needs one number for each sample: float32 {list(weight.shape)}"
    )


def divergence(log_probs: Tensor, acted: Tensor, clip_ratio: float) -> dict[str, Tensor]:
    """How far a policy has moved from the one that acted, for samples `[B]` with their log π(a|s) by both.

    Returns:
        `approx_kl`: r − 1 − log r, whose mean estimates KL(π_acted ‖ π) without bias and is never negative
        (Schulman 2020, "Approximating KL divergence"). `clip_fraction`: 1 for a sample whose r is beyond 1 ±
        ε, else 0.
    """
    difference = (log_probs - acted).clamp(max=LARGEST_LOG_RATIO)
    moved = difference.expm1()
    return {"approx_kl": moved - difference, "clip_fraction": (moved.abs() > clip_ratio).float()}
