"""The loss, its gradient and its statistics against numbers worked out by hand.

The network is `TinyNetwork`: logits θ (two numbers, whatever the observation), V(s) = w·s[0]. The rollout:

    t      0    1    2        γ = ½, λ = 1, w = 1:   V = 1, 2, 3
    s_t    1    2    3                               R_1 = 2 + ½·3 = 3.5;   R_0 = 1 + ½·3.5 = 2.75
    a_t    0    1                                    A_0 = 2.75 − 1 = 1.75; A_1 = 3.5 − 2 = 1.5
    r_t    1    2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import exp, log
from typing import Any

import numpy as np
import pytest
import torch

from a3c_zoo.agents.configs import A3CConfig, LossConfig, MonteCarloConfig, NStepConfig, TextbookConfig
from a3c_zoo.agents.worker import objective_of
from a3c_zoo.errors import PluginError
from a3c_zoo.learning.actions import Categorical
from a3c_zoo.learning.objective import (
    LossTerms,
    Objective,
    advantages_and_returns,
    check_terms,
    checked_metrics,
    differentiate,
    explained_variance,
    normalize,
)
from a3c_zoo.learning.parameters import FlatParameters
from a3c_zoo.learning.rollout import Rollout
from tests.toys import TinyNetwork

ALL = slice(None)
A3C = Objective(gamma=0.5, gae_lambda=1.0, entropy_coefficient=0.0, value_coefficient=0.0)
LOG2, LOG3 = log(2), log(3)


def rollout(
    states: Sequence[Sequence[float]],
    actions: Sequence[Sequence[int]],
    rewards: Sequence[Sequence[float]],
    **changes: Any,
) -> Rollout:
    """From rows `[T+1, N]` and `[T, N]`; nothing ends unless `changes` says so."""
    shape = np.shape(rewards)
    return Rollout(
        observations=torch.tensor(states).float().unsqueeze(-1),
        actions=torch.tensor(actions),
        rewards=np.array(rewards, np.float32),
        terminated=np.array(changes.get("terminated", np.zeros(shape)), np.bool_),
        truncated=np.array(changes.get("truncated", np.zeros(shape)), np.bool_),
        valid=np.array(changes.get("valid", np.ones(shape)), np.bool_),
        finals=changes.get("finals", {}),
    )


def two_steps() -> Rollout:
    return rollout([[1], [2], [3]], [[0], [1]], [[1], [2]])


def gradients(
    objective: Objective, of: Rollout, columns: slice = ALL, theta: Sequence[float] = (0, 0), w: float = 1.0
) -> list[float]:
    """∂loss/∂θ_0, ∂loss/∂θ_1, ∂loss/∂w."""
    network = TinyNetwork(w=w)
    flat = FlatParameters(network)
    with torch.no_grad():
        network.theta.copy_(torch.tensor(theta))
    assert differentiate(network, Categorical(2), of, columns, objective) == {}
    result: list[float] = flat.gradients.tolist()
    return result


def statistics(objective: Objective, of: Rollout, columns: slice = ALL) -> dict[str, float]:
    network = TinyNetwork()
    FlatParameters(network)
    return differentiate(network, Categorical(2), of, columns, objective, want_metrics=True)


def approx(*expected: float) -> Any:
    return pytest.approx(expected, rel=1e-5, abs=1e-6)


class TestPolicyLoss:
    # θ = 0: π = ½, ½ and ∂log π(a)/∂θ_j = [j = a] − ½

    def test_mean(self) -> None:
        # −½·(1.75·(+½) + 1.5·(−½)) = −0.0625 for θ_0; the opposite for θ_1. The values get none of it.
        assert gradients(A3C, two_steps()) == approx(-0.0625, 0.0625, 0)

    def test_sum(self) -> None:
        assert gradients(replace(A3C, loss_sum=True), two_steps()) == approx(-0.125, 0.125, 0)

    def test_away_from_uniform(self) -> None:
        # θ = (log 3, 0): π = ¾, ¼. −½·(1.75·(1 − ¾) + 1.5·(0 − ¾)) = −½·(0.4375 − 1.125) = 0.34375
        assert gradients(A3C, two_steps(), theta=(LOG3, 0)) == approx(0.34375, -0.34375, 0)

    def test_lambda(self) -> None:
        # λ = 0: A_t = δ_t: δ_0 = 1 + ½·2 − 1 = 1;  δ_1 = 2 + ½·3 − 2 = 1.5.  −½·(½ − 0.75) = 0.125
        assert gradients(replace(A3C, gae_lambda=0.0), two_steps()) == approx(0.125, -0.125, 0)

    def test_a_second_call_adds(self) -> None:
        network = TinyNetwork()
        flat = FlatParameters(network)
        for _ in range(2):
            differentiate(network, Categorical(2), two_steps(), ALL, A3C)
        assert flat.gradients.tolist() == approx(-0.125, 0.125, 0)
        flat.zero_gradients()
        differentiate(network, Categorical(2), two_steps(), ALL, A3C)
        assert flat.gradients.tolist() == approx(-0.0625, 0.0625, 0)


class TestValueLoss:
    VALUE = replace(A3C, value_coefficient=0.5)

    def test_mean(self) -> None:
        # ½·mean (R − w·s)²: ½·½·(−2)·(1.75·1 + 1.5·2) = −½·4.75 = −2.375. R is a constant.
        assert gradients(self.VALUE, two_steps()) == approx(-0.0625, 0.0625, -2.375)

    def test_sum_and_coefficient(self) -> None:
        # 2·(−2)·4.75 = −19
        assert gradients(replace(A3C, value_coefficient=2.0, loss_sum=True), two_steps())[2] == pytest.approx(-19)

    def test_targets_move_with_the_parameters_of_this_very_pass(self) -> None:
        # w = 2: V = 2, 4, 6;  R_1 = 2 + 3 = 5, R_0 = 1 + 2.5 = 3.5;  R − V = 1.5, 1.  −½·(1.5·1 + 1·2) = −1.75
        assert gradients(self.VALUE, two_steps(), w=2.0)[2] == pytest.approx(-1.75)

    def test_termination(self) -> None:
        # row 1 terminates: R_1 = 2, R_0 = 1 + 1 = 2;  R − V = 1, 0.  −½·(1·1 + 0·2) = −0.5
        steps = rollout([[1], [2], [3]], [[0], [1]], [[1], [2]], terminated=[[0], [1]])
        assert gradients(self.VALUE, steps)[2] == pytest.approx(-0.5)

    def test_truncation_bootstraps_with_the_final_observation(self) -> None:
        # row 0 is cut at s' = 8, row 1 begins anew: R_0 = 1 + ½·8 = 5, R_1 = 3.5;  R − V = 4, 1.5.
        # −½·(4·1 + 1.5·2) = −3.5; policy: −½·(4·½ − 1.5·½) = −0.625
        steps = rollout(
            [[1], [2], [3]],
            [[0], [1]],
            [[1], [2]],
            truncated=[[1], [0]],
            finals={(0, 0): np.array([8], np.float32)},
        )
        assert gradients(self.VALUE, steps) == approx(-0.625, 0.625, -3.5)

    def test_the_final_value_comes_from_the_parameters_of_this_pass_and_gets_no_gradient(self) -> None:
        # w = 2: V = 2, 4, 6 and V(s') = 16: R_0 = 9, R_1 = 5;  R − V = 7, 1.  −½·(7·1 + 1·2) = −4.5
        steps = rollout(
            [[1], [2], [3]], [[0], [1]], [[1], [2]], truncated=[[1], [0]], finals={(0, 0): np.array([8], np.float32)}
        )
        assert gradients(self.VALUE, steps, w=2.0)[2] == pytest.approx(-4.5)


class TestEntropy:
    ENTROPY = Objective(gamma=0.5, gae_lambda=1.0, entropy_coefficient=0.1, value_coefficient=0.0)
    NOTHING = rollout([[0], [0], [0]], [[0], [1]], [[0], [0]])  # all advantages are 0

    def test_uniform_is_the_maximum(self) -> None:
        assert gradients(self.ENTROPY, self.NOTHING) == approx(0, 0, 0)

    def test_gradient(self) -> None:
        # two actions: ∂H/∂θ_0 = −p_0·p_1·(θ_0 − θ_1) = −¾·¼·log 3 = −0.1875·log 3; the loss has −0.1·H, a mean
        expected = 0.01875 * LOG3
        assert gradients(self.ENTROPY, self.NOTHING, theta=(LOG3, 0)) == approx(expected, -expected, 0)

    def test_sum(self) -> None:
        expected = 2 * 0.01875 * LOG3
        summed = replace(self.ENTROPY, loss_sum=True)
        assert gradients(summed, self.NOTHING, theta=(LOG3, 0)) == approx(expected, -expected, 0)


class TestMask:
    """Row 1 is the step that NEXT_STEP ignores after row 0 terminated: its reward, its action count for nothing."""

    OBJECTIVE = replace(A3C, value_coefficient=0.5)

    def steps(self, garbage: float = 100.0, ignored_action: int = 0) -> Rollout:
        # V = 1, 9, 2, (4): R_0 = 5, R_2 = 3 + ½·4 = 5;  A_0 = 4, A_2 = 3
        return rollout(
            [[1], [9], [2], [4]],
            [[0], [ignored_action], [1]],
            [[5], [garbage], [3]],
            terminated=[[1], [0], [0]],
            valid=[[1], [0], [1]],
        )

    @pytest.mark.parametrize(("garbage", "ignored_action"), [(100.0, 0), (100.0, 1), (0.0, 0)])
    def test_mean_over_the_valid(self, garbage: float, ignored_action: int) -> None:
        # policy −½·(4·½ − 3·½) = −0.25;  value ½·½·(−2)·(4·1 + 3·2) = −5
        assert gradients(self.OBJECTIVE, self.steps(garbage, ignored_action)) == approx(-0.25, 0.25, -5)

    def test_sum_over_the_valid(self) -> None:
        assert gradients(replace(self.OBJECTIVE, loss_sum=True), self.steps()) == approx(-0.5, 0.5, -10)

    def test_normalisation_over_the_valid(self) -> None:
        # A = 4, 3: mean 3.5, deviation ½ → 1, −1.  −½·(1·½ + (−1)·(−½)) = −0.5
        normalized = replace(self.OBJECTIVE, normalize_advantages=True)
        assert gradients(normalized, self.steps()) == approx(-0.5, 0.5, -5)  # value targets are not normalised

    def test_entropy_over_the_valid(self) -> None:
        objective = Objective(gamma=0.5, gae_lambda=1.0, entropy_coefficient=0.1, value_coefficient=0.0, loss_sum=True)
        nothing = rollout([[0], [0], [0]], [[0], [1]], [[0], [0]], valid=[[1], [0]])
        assert gradients(objective, nothing, theta=(LOG3, 0)) == approx(0.01875 * LOG3, -0.01875 * LOG3, 0)

    @pytest.mark.parametrize("normalize_advantages", [False, True])
    @pytest.mark.parametrize("loss_sum", [False, True])
    def test_nothing_valid_gives_no_gradient(self, normalize_advantages: bool, loss_sum: bool) -> None:
        # With T = 1 and one environment every ignored step is an update of its own.
        objective = replace(self.OBJECTIVE, normalize_advantages=normalize_advantages, loss_sum=loss_sum)
        ignored = rollout([[1], [2]], [[0]], [[1]], valid=[[0]])
        assert gradients(objective, ignored) == [0, 0, 0]
        assert all(np.isfinite(value) for value in statistics(objective, ignored).values())

    def test_one_valid_sample_stays_as_it_is(self) -> None:
        # A = 1 + ½·2 − 1 = 1: −1·(1 − ½). Its own mean and deviation would leave nothing to learn from.
        normalized = replace(self.OBJECTIVE, normalize_advantages=True)
        assert gradients(normalized, rollout([[1], [2]], [[0]], [[1]]))[:2] == approx(-0.5, 0.5)


class TestClipping:
    def test_rewards_are_clipped_in_the_loss_alone(self) -> None:
        # rewards 5, −7 → 1, −1, terminated: R_1 = −1, R_0 = 1 − ½ = ½;  V = 1, 2: A = −½, −3
        # −½·(−½·½ + (−3)·(−½)) = −0.625;  value: −½·(−½·1 − 3·2) = 3.25
        steps = rollout([[1], [2], [3]], [[0], [1]], [[5], [-7]], terminated=[[0], [1]])
        objective = replace(A3C, value_coefficient=0.5, clip_rewards=True)
        assert gradients(objective, steps) == approx(-0.625, 0.625, 3.25)
        assert steps.rewards.tolist() == [[5], [-7]]

    def test_small_rewards_stay_as_they_are(self) -> None:
        # ¼ and not a sign: R_0 = ¼, A_0 = −¾
        steps = rollout([[1], [2]], [[0]], [[0.25]], terminated=[[1]])
        assert gradients(replace(A3C, clip_rewards=True), steps) == approx(0.375, -0.375, 0)

    def test_not_unless_asked_for(self) -> None:
        # R_0 = 5, A_0 = 4: −4·½
        steps = rollout([[1], [2]], [[0]], [[5]], terminated=[[1]])
        assert gradients(A3C, steps) == approx(-2, 2, 0)


class TestColumns:
    """Environment 0 is `two_steps`; environment 1 has s = 2, 4, 6, a = 1, 1, r = 4, 8."""

    OBJECTIVE = replace(A3C, value_coefficient=0.5)

    def steps(self) -> Rollout:
        return rollout([[1, 2], [2, 4], [3, 6]], [[0, 1], [1, 1]], [[1, 4], [2, 8]])

    def test_first(self) -> None:
        assert gradients(self.OBJECTIVE, self.steps(), slice(0, 1)) == approx(-0.0625, 0.0625, -2.375)

    def test_second(self) -> None:
        # R_1 = 8 + 3 = 11, R_0 = 4 + 5.5 = 9.5;  A = 7.5, 7.  θ_0: −½·(7.5 + 7)·(−½) = 3.625
        # w: −½·(7.5·2 + 7·4) = −21.5
        assert gradients(self.OBJECTIVE, self.steps(), slice(1, 2)) == approx(3.625, -3.625, -21.5)

    def test_both(self) -> None:
        # the mean of four samples is the mean of the two means
        expected = approx((-0.0625 + 3.625) / 2, (0.0625 - 3.625) / 2, (-2.375 - 21.5) / 2)
        assert gradients(self.OBJECTIVE, self.steps()) == expected

    def test_final_observations_go_to_their_environment(self) -> None:
        # Environment 1 is cut in row 0 at s' = 8: R_0 = 4 + 4 = 8, R_1 = 11: −½·(6·2 + 7·4) = −20
        steps = self.steps()
        steps.truncated[0, 1] = True
        steps.finals[0, 1] = np.array([8], np.float32)
        assert gradients(self.OBJECTIVE, steps, slice(1, 2))[2] == pytest.approx(-20)
        assert gradients(self.OBJECTIVE, steps, slice(0, 1))[2] == pytest.approx(-2.375)
        assert gradients(self.OBJECTIVE, steps)[2] == pytest.approx((-20 - 2.375) / 2)


class TestStatistics:
    OBJECTIVE = Objective(gamma=0.5, gae_lambda=1.0, entropy_coefficient=0.1, value_coefficient=0.5)

    def test_mean(self) -> None:
        expected = {
            "loss_policy": LOG2 * 1.625,  # mean of log 2·A, A = 1.75, 1.5
            "loss_value": 2.65625,  # (1.75² + 1.5²)/2 = (3.0625 + 2.25)/2
            "loss_total": LOG2 * 1.625 + 0.5 * 2.65625 - 0.1 * LOG2,
            # R − V = 1.75, 1.5 has the variance 0.125²; R = 2.75, 3.5 has 0.375²: 1 − 1/9
            "explained_variance": 8 / 9,
            "entropy": LOG2,
            "advantage": 1.625,
            "batch_return": 3.125,  # (2.75 + 3.5)/2
            "value": 1.5,  # of the two rows that were acted in, without the bootstrap's 3
        }
        assert statistics(self.OBJECTIVE, two_steps()) == pytest.approx(expected, rel=1e-5)

    def test_explained_variance(self) -> None:
        # R = 1, 2, 4, mean 7/3: 1 + 4 + 16 − 3·49/9 = 14/3. R − V = 1, 1, 2, mean 4/3: 6 − 3·16/9 = 2/3. 1 − 1/7
        share = torch.full((3,), 1 / 3)
        found = explained_variance(torch.tensor([0.0, 1.0, 2.0]), torch.tensor([1.0, 2.0, 4.0]), share)
        assert found == {"explained_variance": pytest.approx(6 / 7, rel=1e-5)}
        ignored = torch.tensor([0.5, 0.5, 0.0])  # R = 1, 2 and R − V = 1, 1
        found = explained_variance(torch.tensor([0.0, 1.0, 9.0]), torch.tensor([1.0, 2.0, 4.0]), ignored)
        assert found == {"explained_variance": pytest.approx(1)}
        assert explained_variance(torch.zeros(3), torch.full((3,), 1 / 3), share) == {}  # equal but for rounding

    def test_sum_leaves_the_means_alone(self) -> None:
        found = statistics(replace(self.OBJECTIVE, loss_sum=True), two_steps())
        assert found["loss_total"] == pytest.approx(2 * (LOG2 * 1.625 + 0.5 * 2.65625 - 0.1 * LOG2), rel=1e-5)
        assert found["loss_policy"] == pytest.approx(2 * LOG2 * 1.625, rel=1e-5)
        assert found["loss_value"] == pytest.approx(2 * 2.65625, rel=1e-5)
        assert (found["entropy"], found["advantage"]) == approx(LOG2, 1.625)
        assert (found["batch_return"], found["value"]) == approx(3.125, 1.5)

    def test_ignored_rows_are_left_out(self) -> None:
        found = statistics(self.OBJECTIVE, TestMask().steps())
        # A = 4, 3; R = 5, 5; V = 1, 2
        assert (found["advantage"], found["batch_return"], found["value"]) == approx(3.5, 5, 1.5)
        assert found["entropy"] == pytest.approx(LOG2)
        assert found["loss_value"] == pytest.approx(12.5)  # (16 + 9)/2

    def test_the_advantage_is_told_as_it_was_before_normalisation(self) -> None:
        found = statistics(replace(self.OBJECTIVE, normalize_advantages=True), two_steps())
        assert found["advantage"] == pytest.approx(1.625)
        assert found["loss_policy"] == pytest.approx(0, abs=1e-5)  # log 2·(1 − 1)/2

    def test_they_do_not_change_the_gradient(self) -> None:
        network = TinyNetwork()
        flat = FlatParameters(network)
        differentiate(network, Categorical(2), two_steps(), ALL, replace(A3C, value_coefficient=0.5), True)
        assert flat.gradients.tolist() == approx(-0.0625, 0.0625, -2.375)


class TestNormalize:
    def test_by_hand(self) -> None:
        # valid: 1, 3 → mean 2, deviation 1 → −1, 1
        actual = normalize(np.array([[1], [100], [3]], np.float32), np.array([[True], [False], [True]]))
        assert actual.dtype == np.float32
        assert actual[[0, 2], 0].tolist() == approx(-1, 1)

    def test_deviation_of_the_population(self) -> None:
        # 1, 2, 3, 4, 5: mean 3, variance (4 + 1 + 0 + 1 + 4)/5 = 2
        actual = normalize(np.array([[1, 2, 3, 4, 5]], np.float32), np.ones((1, 5), np.bool_))
        assert actual[0].tolist() == approx(-(2**0.5), -(2**-0.5), 0, 2**-0.5, 2**0.5)

    def test_all_equal(self) -> None:
        assert normalize(np.full((2, 2), 7, np.float32), np.ones((2, 2), np.bool_)).tolist() == [[0, 0], [0, 0]]

    @pytest.mark.parametrize(("count", "value"), [(7, 99.7), (80, 0.1), (160, 1.3)])
    def test_equal_numbers_whose_mean_in_float32_is_another(self, count: int, value: float) -> None:
        equal = np.full((count, 1), value, np.float32)
        assert equal.mean() != equal[0, 0]
        assert np.abs(normalize(equal, np.ones((count, 1), np.bool_))).max() < 1e-3


def test_probabilities_that_vanish_are_no_nan() -> None:
    # θ = (0, 200): π(0) = e^−200, below float32. ∂log π(0)/∂θ_0 = 1 − π(0) = 1.  H → 0.
    steps = rollout([[1], [2]], [[0]], [[5]], terminated=[[1]])  # A = 4
    assert exp(-200) < np.finfo(np.float32).tiny
    assert gradients(replace(A3C, entropy_coefficient=0.1), steps, theta=(0, 200)) == approx(-4, 4, 0)


def test_the_entropy_bonus_falls_with_the_schedule_if_asked_to() -> None:
    constant = Objective(0.99, 1.0, entropy_coefficient=0.04, value_coefficient=0.5)
    falling = Objective(0.99, 1.0, entropy_coefficient=0.04, value_coefficient=0.5, anneal_entropy=True)
    assert constant.at(0.25) is constant
    assert [falling.at(left).entropy_coefficient for left in (1.0, 0.25, 0.0)] == [0.04, 0.01, 0.0]
    assert falling.at(0.25).value_coefficient == 0.5


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (A3CConfig(gamma=0.9), {"gamma": 0.9}),
        (A3CConfig(gae_lambda=0.8), {"gae_lambda": 0.8}),
        (A3CConfig(entropy_coefficient=0.2), {"entropy_coefficient": 0.2}),
        (A3CConfig(value_coefficient=0.3), {"value_coefficient": 0.3}),
        (A3CConfig(normalize_advantages=True), {"normalize_advantages": True}),
        (A3CConfig(clip_rewards=True), {"clip_rewards": True}),
        (A3CConfig(reward_scale=0.4), {"reward_scale": 0.4}),
        (A3CConfig(loss_reduction="sum"), {"loss_sum": True}),
        (A3CConfig(entropy_schedule="linear"), {"anneal_entropy": True}),
        (A3CConfig(clip_ratio=0.1), {"clip_ratio": 0.1}),
        (NStepConfig(loss_reduction="mean"), {"loss_sum": False}),
        (NStepConfig(termination_reward=-10.0), {"termination_reward": -10.0}),
        (NStepConfig(normalize_returns=True), {"normalize_returns": True}),
        (MonteCarloConfig(termination_reward=0.0), {"termination_reward": 0.0, "whole_episodes": True}),
    ],
)
def test_each_key_of_the_loss_reaches_it(config: LossConfig, expected: dict[str, Any]) -> None:
    """The others are the defaults of the agent."""
    usual = Objective(gamma=0.99, gae_lambda=1.0, entropy_coefficient=0.01, value_coefficient=0.5)
    if isinstance(config, TextbookConfig):
        usual = Objective(gamma=0.95, gae_lambda=1.0, entropy_coefficient=0.0, value_coefficient=0.1, loss_sum=True)
    assert objective_of(config) == replace(usual, **expected)


def test_rewards_are_scaled_and_then_clipped() -> None:
    # Rewards 4 and −1, scaled by ½: 2 and −0.5; clipped: 1 and −0.5. With V = 0 everywhere and γ = ½:
    # R_1 = −0.5, R_0 = 1 + ½ · −0.5 = 0.75; unclipped R_0 = 2 − 0.25 = 1.75.
    of, zeros = rollout([[1], [2], [3]], [[0], [1]], [[4], [-1]]), np.zeros((2, 1), np.float32)
    for clip, expected in ((True, [0.75, -0.5]), (False, [1.75, -0.5])):
        objective = replace(A3C, reward_scale=0.5, clip_rewards=clip)
        advantages, returns = advantages_and_returns(of, ALL, zeros, zeros, objective)
        assert returns[:, 0].tolist() == advantages[:, 0].tolist() == expected
    assert of.rewards[:, 0].tolist() == [4, -1]  # what is recorded stays raw


@pytest.mark.parametrize(
    ("name", "metric", "message"),
    [
        ("mine", torch.tensor(1.0), r"metric 'mine' of float32 \[\]; it needs one number for each sample"),
        ("mine", 1.0, "metric 'mine' of float; it needs"),
        ("mine", torch.ones(3, dtype=torch.float64), r"metric 'mine' of float64 \[3\]"),
        ("entropy", torch.ones(3), "a metric 'entropy', a name that every loss has"),
    ],
)
def test_a_metric_of_a_loss_is_one_number_for_each_sample(name: str, metric: Any, message: str) -> None:
    terms = LossTerms(torch.ones(3), torch.ones(3), lambda: {name: metric})
    with pytest.raises(PluginError, match=message):
        checked_metrics(terms, torch.ones(3))


def test_a_term_that_is_no_tensor_is_one_line() -> None:
    with pytest.raises(PluginError, match="a policy_gain of float; it needs one number for each sample"):
        check_terms(LossTerms(0.0, torch.ones(3)), torch.ones(3))  # type: ignore[arg-type]
