"""Distributions over MultiDiscrete, MultiBinary and Box actions: by hand, by counting, and against torch's own."""

from __future__ import annotations

from math import e, log, pi, sqrt, tanh
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import distributions

from a3c_zoo.errors import ConfigError
from a3c_zoo.learning.actions import (
    Bernoulli,
    Categorical,
    Gaussian,
    MultiCategorical,
    UniformBox,
    action_distribution,
    distribution_from,
    distribution_state,
)

TORQUE = spaces.Box(-2, 2, (1,), np.float32)
CHOICES = spaces.MultiDiscrete([2, 3])
COINS = spaces.MultiBinary(2)
#: Four kinds, with shapes, dtypes and starts that are not the usual ones.
SPACES = [
    spaces.Discrete(3, start=-1),
    spaces.MultiDiscrete(np.array([[2, 3], [4, 5]]), start=np.array([[1, 0], [-3, 2]])),
    spaces.MultiDiscrete([2, 3], dtype=np.int32),
    spaces.MultiBinary((2, 3)),
    spaces.Box(np.array([-1.0, 0], np.float64), np.array([3.0, np.inf], np.float64), dtype=np.float64),
    spaces.Box(-1, 1, (2, 2), np.float32),
    spaces.Box(-np.inf, np.inf, (3,), np.float32),
]


def parameters(distribution: Any, rows: int, scale: float = 1.0) -> torch.Tensor:
    width = distribution.num_logits * (2 if type(distribution) is Gaussian else 1)
    return scale * torch.randn(rows, width, generator=torch.Generator().manual_seed(1))


def draw(distribution: Any, logits: torch.Tensor, seed: int = 0) -> torch.Tensor:
    out = torch.zeros((len(logits), *distribution.shape), dtype=distribution.dtype)
    noise = torch.zeros(len(logits), distribution.num_logits)
    distribution.sample(logits, distribution.noise(noise, torch.Generator().manual_seed(seed)), out)
    return out


class TestByHand:
    def test_choices_add_up(self) -> None:
        # ½ and (1/6, 2/6, 3/6): log π(1, 2) = log ¼;  H = log 2 + log 6 − (2·log 2 + 3·log 3)/6
        distribution = action_distribution(CHOICES)
        assert distribution == MultiCategorical((2, 3), (0, 0), (2,))
        logits = torch.tensor([[5.0, 5.0, log(1), log(2), log(3)]])
        log_prob, entropy = distribution.log_prob_and_entropy(logits, torch.tensor([[1, 2]]))
        assert log_prob.tolist() == pytest.approx([log(1 / 4)])
        assert entropy.tolist() == pytest.approx([log(2) + log(6) - (2 * log(2) + 3 * log(3)) / 6])
        assert distribution.mode(logits).tolist() == [[0, 2]]

    def test_coins_add_up(self) -> None:
        # p = ¾ and ½: log π(0, 1) = log ¼ + log ½
        distribution = action_distribution(COINS)
        logits = torch.tensor([[log(3), 0.0]])
        log_prob, entropy = distribution.log_prob_and_entropy(logits, torch.tensor([[0.0, 1.0]]))
        assert log_prob.tolist() == pytest.approx([log(1 / 8)])
        assert entropy.tolist() == pytest.approx([log(4) - 0.75 * log(3) + log(2)])
        assert distribution.mode(logits).tolist() == [[1, 0]]

    def test_a_gaussian(self) -> None:
        # μ = 1, σ = 2 at u = 3: one deviation away: −½ − log 2 − ½·log 2π;  H = log 2 + ½·log 2πe
        distribution = action_distribution(TORQUE)
        logits = torch.tensor([[1.0, log(2)]])
        log_prob, entropy = distribution.log_prob_and_entropy(logits, torch.tensor([[3.0]]))
        assert log_prob.tolist() == pytest.approx([-0.5 - log(2) - 0.5 * log(2 * pi)])
        assert entropy.tolist() == pytest.approx([log(2) + 0.5 * log(2 * pi * e)])
        assert distribution.mode(logits).tolist() == [[1]]
        out = torch.zeros(1, 1)
        distribution.sample(logits, torch.tensor([[-1.5]]), out)
        assert out.tolist() == [[-2]]  # 1 − 1.5 · 2

    def test_half_widths_from_the_middle_clipped_or_squashed(self) -> None:
        u = np.array([[0.5], [-7.0]], np.float32)
        thrust = spaces.Box(0, 4, (1,), np.float32)  # middle 2, half width 2
        assert action_distribution(thrust).to_env(u).tolist() == [[3], [0]]
        squashed = action_distribution(thrust, squash=True).to_env(u)
        assert squashed[:, 0].tolist() == pytest.approx([2 + 2 * tanh(0.5), 2 + 2 * tanh(-7)], abs=1e-6)

    def test_infinite_bounds_leave_the_action_itself(self) -> None:
        half = action_distribution(spaces.Box(0, np.inf, (1,), np.float32))
        assert half.to_env(np.array([[9.0], [-9.0]], np.float32)).tolist() == [[9], [0]]

    def test_the_largest_float32_is_no_bound(self) -> None:
        """Some environments write it where they mean that there is none. Half widths of it would be 1e38."""
        most = np.finfo(np.float32).max
        space = spaces.Box(-most, most, (1,), np.float32)
        u = np.array([[9.0], [-9.0]], np.float32)
        assert action_distribution(space).to_env(u).tolist() == [[9], [-9]]
        with pytest.raises(ConfigError, match="needs finite bounds"):
            action_distribution(space, squash=True)

    def test_bounds_of_float16(self) -> None:
        """It has no number as large as the limit of bounds."""
        space = spaces.Box(-2, 2, (1,), np.float16)
        assert action_distribution(space).to_env(np.array([[0.5], [9.0]], np.float32)).tolist() == [[1], [2]]
        half = spaces.Box(0, np.inf, (1,), np.float16)
        assert action_distribution(half).to_env(np.array([[9.0], [-9.0]], np.float32)).tolist() == [[9], [0]]

    def test_starts(self) -> None:
        distribution = action_distribution(spaces.MultiDiscrete([2, 3], start=[5, -1]))
        assert distribution.to_env(np.array([[0, 2], [1, 0]])).tolist() == [[5, 1], [6, -1]]


class TestAgainstTorch:
    def test_choices(self) -> None:
        distribution = action_distribution(CHOICES)
        logits, actions = parameters(distribution, 50), draw(distribution, parameters(distribution, 50))
        parts = [distributions.Categorical(logits=part) for part in logits.split([2, 3], dim=-1)]
        log_prob, entropy = distribution.log_prob_and_entropy(logits, actions)
        torch.testing.assert_close(log_prob, sum(p.log_prob(a) for p, a in zip(parts, actions.T, strict=True)))
        torch.testing.assert_close(entropy, sum(p.entropy() for p in parts))

    def test_coins(self) -> None:
        distribution = action_distribution(COINS)
        logits, actions = parameters(distribution, 50), draw(distribution, parameters(distribution, 50))
        theirs = distributions.Independent(distributions.Bernoulli(logits=logits), 1)
        log_prob, entropy = distribution.log_prob_and_entropy(logits, actions)
        torch.testing.assert_close(log_prob, theirs.log_prob(actions))
        torch.testing.assert_close(entropy, theirs.entropy())

    def test_gaussian(self) -> None:
        distribution = action_distribution(spaces.Box(-1, 1, (3,), np.float32))
        logits, actions = parameters(distribution, 50), draw(distribution, parameters(distribution, 50))
        theirs = distributions.Independent(distributions.Normal(logits[:, :3], logits[:, 3:].exp()), 1)
        log_prob, entropy = distribution.log_prob_and_entropy(logits, actions)
        torch.testing.assert_close(log_prob, theirs.log_prob(actions))
        torch.testing.assert_close(entropy, theirs.entropy())

    def test_the_gradient_is_that_of_the_squashed_distribution(self) -> None:
        """What tanh and the bounds add to log π doesn't depend on μ and σ."""
        distribution = action_distribution(TORQUE, squash=True)
        logits = (0.3 * parameters(distribution, 20)).requires_grad_()
        u = draw(distribution, logits.detach())
        (ours,) = torch.autograd.grad(distribution.log_prob_and_entropy(logits, u)[0].sum(), logits)
        transforms = [distributions.TanhTransform(cache_size=1), distributions.AffineTransform(0.0, 2.0)]
        squashed = distributions.TransformedDistribution(
            distributions.Normal(logits[:, :1], logits[:, 1:].exp()), transforms
        )
        action = torch.from_numpy(distribution.to_env(u.numpy()))
        (theirs,) = torch.autograd.grad(squashed.log_prob(action).sum(), logits)
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("space", SPACES, ids=str)
class TestEverySpace:
    def test_samples_are_in_the_space(self, space: Any) -> None:
        distribution = action_distribution(space)
        logits = parameters(distribution, 40, scale=3)
        for u in (draw(distribution, logits), distribution.mode(logits)):
            actions = distribution.to_env(u.numpy())
            assert actions.shape == (40, *space.shape)
            assert actions.dtype == space.dtype
            assert all(space.contains(action) for action in (actions if space.shape else actions.astype(np.int64)))

    def test_the_seed_decides(self, space: Any) -> None:
        distribution = action_distribution(space)
        logits = parameters(distribution, 40)
        assert torch.equal(draw(distribution, logits), draw(distribution, logits))
        assert not torch.equal(draw(distribution, logits), draw(distribution, logits, seed=1))

    def test_it_is_saved_and_comes_back(self, space: Any) -> None:
        before = action_distribution(space)
        after = distribution_from(distribution_state(before))
        assert after == before
        u = draw(before, parameters(before, 5)).numpy()
        np.testing.assert_array_equal(after.to_env(u), before.to_env(u))


class TestFrequencies:
    """Within five standard deviations, with fixed seeds."""

    N = 80_000

    def test_choices(self) -> None:
        distribution = action_distribution(CHOICES)
        logits = torch.tensor([0.0, 0.0, log(1), log(2), log(5)]).expand(self.N, 5)
        actions = draw(distribution, logits)
        for k, choice in enumerate([(1 / 2, 1 / 2), (1 / 8, 2 / 8, 5 / 8)]):
            for action, p in enumerate(choice):
                frequency = (actions[:, k] == action).double().mean().item()
                assert abs(frequency - p) < 5 * sqrt(p * (1 - p) / self.N)
        together = (actions[:, 0] * actions[:, 1] == 2).double().mean().item()
        assert abs(together - 5 / 16) < 5 * sqrt(5 / 16 * 11 / 16 / self.N)  # independent

    def test_coins(self) -> None:
        actions = draw(Bernoulli((2,)), torch.tensor([log(3), log(1 / 9)]).expand(self.N, 2))
        for k, p in enumerate((0.75, 0.1)):
            assert abs(actions[:, k].double().mean().item() - p) < 5 * sqrt(p * (1 - p) / self.N)

    def test_gaussian(self) -> None:
        actions = draw(action_distribution(TORQUE), torch.tensor([1.0, log(2)]).expand(self.N, 2)).double()
        assert abs(actions.mean().item() - 1) < 5 * 2 / sqrt(self.N)
        assert abs(actions.std().item() - 2) < 5 * 2 / sqrt(2 * self.N)

    def test_uniform_reaches_both_bounds(self) -> None:
        distribution = action_distribution(TORQUE, uniform=True)
        assert isinstance(distribution, UniformBox)
        actions = distribution.to_env(draw(distribution, torch.zeros(self.N, 1)).numpy())
        assert abs(actions.mean()) < 5 * (4 / sqrt(12)) / sqrt(self.N)
        assert (actions.min(), actions.max()) == pytest.approx((-2, 2), abs=1e-3)
        assert distribution_from(distribution_state(distribution)) == distribution


@pytest.mark.parametrize(("high", "squash"), [(np.inf, True), (np.inf, False)])
def test_infinite_bounds_are_refused_where_bounds_are_needed(high: float, squash: bool) -> None:
    space = spaces.Box(0, high, (2,), np.float32)
    with pytest.raises(ConfigError, match="needs finite bounds" if squash else "uniformly random actions need bounds"):
        action_distribution(space, squash=squash, uniform=not squash)


def test_a_discrete_space_keeps_its_own_distribution() -> None:
    assert action_distribution(spaces.Discrete(3, start=2)) == Categorical(3, 2)


def test_the_environment_gets_actions_of_its_own() -> None:
    """It may change them, or keep them: what is learned from stays as it is."""
    stored = np.array([0, 1, 1])
    got = Categorical(2).to_env(stored)
    assert got.tolist() == [0, 1, 1]
    assert not np.shares_memory(got, stored)
