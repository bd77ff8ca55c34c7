"""Returns and advantages against numbers worked out by hand; each comment is the whole calculation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from a3c_zoo.learning.objective import normalize, to_unit_length
from a3c_zoo.learning.returns import gae, monte_carlo_returns, n_step_returns
from a3c_zoo.learning.update_parts import merged_moments

T, F = True, False


def column(*numbers: float) -> Any:
    """One environment's rows, `[T, 1]`, float32."""
    return np.array(numbers, np.float32)[:, None]


def flags(*numbers: bool) -> Any:
    return np.array(numbers, np.bool_)[:, None]


def assert_rows(actual: Any, *expected: float) -> None:
    assert actual.dtype == np.float32
    assert actual.shape == (len(expected), 1)
    np.testing.assert_allclose(actual[:, 0], expected, rtol=1e-6, atol=1e-6)


def rollout_returns(rewards: Any, next_values: Any, terminated: Any, truncated: Any, gamma: float) -> Any:
    """Returns to the end of the rollout: windows as long as that."""
    return n_step_returns(rewards, next_values, terminated, truncated, gamma, len(rewards))


# Three steps with γ = ½. V(s_1), V(s_2), V(s_3) are 10, 20, 40, and V(s_0) is 5.
REWARDS = column(1, 2, 3)
VALUES = column(5, 10, 20)
NEXT = column(10, 20, 40)
OPEN = flags(F, F, F)
IN_THE_MIDDLE = flags(F, T, F)


class TestRolloutReturns:
    def test_bootstrap_at_the_rollouts_end(self) -> None:
        # R_2 = 3 + ½·40 = 23;  R_1 = 2 + ½·23 = 13.5;  R_0 = 1 + ½·13.5 = 7.75
        assert_rows(rollout_returns(REWARDS, NEXT, OPEN, OPEN, 0.5), 7.75, 13.5, 23)

    def test_termination_is_worth_nothing(self) -> None:
        # R_1 = 2;  R_0 = 1 + ½·2 = 2;  R_2 belongs to the next episode: 23 as before
        assert_rows(rollout_returns(REWARDS, NEXT, IN_THE_MIDDLE, OPEN, 0.5), 2, 2, 23)

    def test_truncation_is_worth_its_final_observation(self) -> None:
        # R_1 = 2 + ½·20 = 12;  R_0 = 1 + ½·12 = 7
        assert_rows(rollout_returns(REWARDS, NEXT, OPEN, IN_THE_MIDDLE, 0.5), 7, 12, 23)

    def test_terminated_and_truncated_at_once_is_a_termination(self) -> None:
        assert_rows(rollout_returns(REWARDS, NEXT, IN_THE_MIDDLE, IN_THE_MIDDLE, 0.5), 2, 2, 23)

    def test_termination_in_the_last_row(self) -> None:
        # R_2 = 3;  R_1 = 2 + 1.5 = 3.5;  R_0 = 1 + 1.75 = 2.75
        assert_rows(rollout_returns(REWARDS, NEXT, flags(F, F, T), OPEN, 0.5), 2.75, 3.5, 3)

    def test_truncation_in_the_last_row_is_bootstrapped_once(self) -> None:
        assert_rows(rollout_returns(REWARDS, NEXT, OPEN, flags(F, F, T), 0.5), 7.75, 13.5, 23)

    def test_one_step(self) -> None:
        # 3 + ½·40 = 23, and 3 alone where it terminated
        assert_rows(rollout_returns(column(3), column(40), flags(F), flags(F), 0.5), 23)
        assert_rows(rollout_returns(column(3), column(40), flags(T), flags(F), 0.5), 3)

    def test_environments_are_independent(self) -> None:
        rewards, following = np.repeat(REWARDS, 2, axis=1), np.repeat(NEXT, 2, axis=1)
        terminated = np.concatenate([OPEN, IN_THE_MIDDLE], axis=1)
        actual = rollout_returns(rewards, following, terminated, np.zeros_like(terminated), 0.5)
        assert actual.tolist() == [[7.75, 2], [13.5, 2], [23, 23]]

    def test_arguments_are_left_alone(self) -> None:
        rewards, following = REWARDS.copy(), NEXT.copy()
        rollout_returns(rewards, following, IN_THE_MIDDLE, OPEN, 0.5)
        assert_rows(rewards, 1, 2, 3)
        assert_rows(following, 10, 20, 40)

    # A well-known worked example of bootstrapping has the rewards [1, 1, −1] and [1, 1, 1], γ = 0.99, and prints
    # 0.01 and 1.99 without a bootstrap, 0.9901 and 2.9701 with one of 1.0. Its loop leaves out the first reward, so
    # what it prints is the return of the *second* row. Right, for the whole rollout:
    #     [1, 1, −1]: R_2 = −1;  R_1 = 1 − 0.99 = 0.01;  R_0 = 1 + 0.99·0.01 = 1.0099
    #     [1, 1,  1]: R_2 =  1;  R_1 = 1 + 0.99 = 1.99;  R_0 = 1 + 0.99·1.99 = 2.9701
    # and with a bootstrap of 1:
    #     [1, 1, −1]: R_2 = −1 + 0.99 = −0.01;  R_1 = 1 − 0.0099 = 0.9901;  R_0 = 1 + 0.99·0.9901 = 1.980199
    #     [1, 1,  1]: R_2 =  1 + 0.99 =  1.99;  R_1 = 1 + 1.9701 = 2.9701;  R_0 = 1 + 0.99·2.9701 = 3.940399
    @pytest.mark.parametrize(
        ("last_reward", "is_bootstrapped", "expected", "printed"),
        [
            (-1, F, (1.0099, 0.01, -1), 0.01),
            (1, F, (2.9701, 1.99, 1), 1.99),
            (-1, T, (1.980199, 0.9901, -0.01), 0.9901),
            (1, T, (3.940399, 2.9701, 1.99), 2.9701),
        ],
    )
    def test_worked_example_of_bootstrapping(
        self, last_reward: float, is_bootstrapped: bool, expected: tuple[float, ...], printed: float
    ) -> None:
        rewards, ones = column(1, 1, last_reward), column(1, 1, 1)
        terminated = flags(F, F, not is_bootstrapped)
        actual = rollout_returns(rewards, ones, terminated, OPEN, 0.99)
        assert_rows(actual, *expected)
        assert actual[1, 0] == pytest.approx(printed)
        # N = 3 from the first row is the same sum; λ = 1 with V = 0 is too, bar a bootstrap in the last row only.
        assert_rows(n_step_returns(rewards, ones, terminated, OPEN, 0.99, 3), *expected)
        assert_rows(gae(rewards, column(0, 0, 0), column(0, 0, 1), terminated, OPEN, 0.99, 1.0), *expected)
        if not is_bootstrapped:
            assert_rows(monte_carlo_returns(rewards, terminated, OPEN, 0.99), *expected)


class TestSlidingWindows:
    def test_two_steps(self) -> None:
        # G_0 = 1 + ½·2 + ¼·20 = 7;  G_1 = 2 + ½·3 + ¼·40 = 13.5;  G_2 = 3 + ½·40 = 23 (the rollout ends)
        assert_rows(n_step_returns(REWARDS, NEXT, OPEN, OPEN, 0.5, 2), 7, 13.5, 23)

    def test_one_step_is_temporal_difference(self) -> None:
        # 1 + ½·10 = 6;  2 + ½·20 = 12;  3 + ½·40 = 23
        assert_rows(n_step_returns(REWARDS, NEXT, OPEN, OPEN, 0.5, 1), 6, 12, 23)

    @pytest.mark.parametrize("n", [3, 4, 1000])
    def test_a_window_longer_than_the_rollout_ends_with_it(self, n: int) -> None:
        assert_rows(n_step_returns(REWARDS, NEXT, OPEN, OPEN, 0.5, n), 7.75, 13.5, 23)

    def test_termination_shortens_the_window(self) -> None:
        # G_0 = 1 + ½·2 = 2, no bootstrap;  G_1 = 2;  G_2 = 23
        assert_rows(n_step_returns(REWARDS, NEXT, IN_THE_MIDDLE, OPEN, 0.5, 3), 2, 2, 23)
        assert_rows(n_step_returns(REWARDS, NEXT, IN_THE_MIDDLE, IN_THE_MIDDLE, 0.5, 3), 2, 2, 23)

    def test_truncation_shortens_the_window_and_bootstraps(self) -> None:
        # G_0 = 1 + ½·2 + ¼·20 = 7;  G_1 = 2 + ½·20 = 12
        assert_rows(n_step_returns(REWARDS, NEXT, OPEN, IN_THE_MIDDLE, 0.5, 3), 7, 12, 23)

    def test_termination_on_the_windows_last_row(self) -> None:
        # n = 2, end at row 1: G_0 = 1 + ½·2 = 2 and not + ¼·20. G_1 = 2. G_2 = 23.
        assert_rows(n_step_returns(REWARDS, NEXT, IN_THE_MIDDLE, OPEN, 0.5, 2), 2, 2, 23)

    def test_windows_do_not_look_past_an_end_nor_lose_what_begins_after_it(self) -> None:
        # γ = 1, n = 3, five steps, end at row 1, V(s_5) = 100:
        # G_0 = 1 + 2 = 3; G_1 = 2; G_2 = 4 + 8 + 16 + 100 = 128; G_3 = 8 + 16 + 100 = 124; G_4 = 16 + 100 = 116
        rewards, following = column(1, 2, 4, 8, 16), column(7, 7, 7, 7, 100)
        terminated = flags(F, T, F, F, F)
        assert_rows(
            n_step_returns(rewards, following, terminated, np.zeros_like(terminated), 1.0, 3), 3, 2, 128, 124, 116
        )

    def test_no_discount_of_the_first_reward_with_gamma_0(self) -> None:
        assert_rows(n_step_returns(REWARDS, NEXT, OPEN, OPEN, 0.0, 2), 1, 2, 3)

    def test_environments_are_independent(self) -> None:
        rewards, following = np.repeat(REWARDS, 2, axis=1), np.repeat(NEXT, 2, axis=1)
        terminated = np.concatenate([OPEN, IN_THE_MIDDLE], axis=1)
        actual = n_step_returns(rewards, following, terminated, np.zeros_like(terminated), 0.5, 2)
        assert actual.tolist() == [[7, 2], [13.5, 2], [23, 23]]
        assert terminated.tolist() == [[F, F], [F, T], [F, F]]  # left alone


class TestMonteCarlo:
    def test_whole_episode(self) -> None:
        # G_2 = 3;  G_1 = 2 + 1.5 = 3.5;  G_0 = 1 + 1.75 = 2.75
        returns = monte_carlo_returns(REWARDS, flags(F, F, T), OPEN, 0.5)
        assert_rows(returns, 2.75, 3.5, 3)

    def test_an_episode_counts_no_reward_of_the_next_one(self) -> None:
        # the first episode: G_1 = 2, G_0 = 1 + ½·2 = 2; row 2 belongs to one that goes on
        returns = monte_carlo_returns(REWARDS, IN_THE_MIDDLE, OPEN, 0.5)
        assert_rows(returns[:2], 2, 2)

    def test_a_truncation_ends_an_episode_too(self) -> None:
        returns = monte_carlo_returns(REWARDS, OPEN, IN_THE_MIDDLE, 0.5)
        assert_rows(returns[:2], 2, 2)

    def test_one_step(self) -> None:
        returns = monte_carlo_returns(column(3), flags(T), flags(F), 0.5)
        assert_rows(returns, 3)


class TestGae:
    # δ_0 = 1 + ½·10 − 5 = 1;  δ_1 = 2 + ½·20 − 10 = 2;  δ_2 = 3 + ½·40 − 20 = 3.  With λ = ½: γλ = ¼.

    def test_open_rollout(self) -> None:
        # A_2 = 3;  A_1 = 2 + ¼·3 = 2.75;  A_0 = 1 + ¼·2.75 = 1.6875
        assert_rows(gae(REWARDS, VALUES, NEXT, OPEN, OPEN, 0.5, 0.5), 1.6875, 2.75, 3)

    def test_termination(self) -> None:
        # δ_1 = 2 + 0 − 10 = −8 = A_1;  A_0 = 1 + ¼·(−8) = −1;  A_2 = 3
        assert_rows(gae(REWARDS, VALUES, NEXT, IN_THE_MIDDLE, OPEN, 0.5, 0.5), -1, -8, 3)

    def test_truncation(self) -> None:
        # δ_1 = 2 keeps its bootstrap, but A_2 does not reach A_1: A_1 = 2;  A_0 = 1 + ¼·2 = 1.5;  A_2 = 3
        assert_rows(gae(REWARDS, VALUES, NEXT, OPEN, IN_THE_MIDDLE, 0.5, 0.5), 1.5, 2, 3)

    def test_terminated_and_truncated_at_once_is_a_termination(self) -> None:
        assert_rows(gae(REWARDS, VALUES, NEXT, IN_THE_MIDDLE, IN_THE_MIDDLE, 0.5, 0.5), -1, -8, 3)

    def test_ends_in_the_last_row(self) -> None:
        # terminated: δ_2 = 3 − 20 = −17;  A_1 = 2 − 4.25 = −2.25;  A_0 = 1 − 0.5625 = 0.4375
        assert_rows(gae(REWARDS, VALUES, NEXT, flags(F, F, T), OPEN, 0.5, 0.5), 0.4375, -2.25, -17)
        assert_rows(gae(REWARDS, VALUES, NEXT, OPEN, flags(F, F, T), 0.5, 0.5), 1.6875, 2.75, 3)

    def test_lambda_0_is_the_temporal_difference(self) -> None:
        assert_rows(gae(REWARDS, VALUES, NEXT, OPEN, OPEN, 0.5, 0.0), 1, 2, 3)

    def test_lambda_1_is_the_return_less_the_value(self) -> None:
        # R = 7.75, 13.5, 23 (above) less V = 5, 10, 20
        assert_rows(gae(REWARDS, VALUES, NEXT, OPEN, OPEN, 0.5, 1.0), 2.75, 3.5, 3)

    def test_one_step(self) -> None:
        assert_rows(gae(column(3), column(20), column(40), flags(F), flags(F), 0.5, 0.5), 3)
        assert_rows(gae(column(3), column(20), column(40), flags(T), flags(F), 0.5, 0.5), -17)

    @pytest.mark.parametrize("garbage", [0.0, 1e6])
    def test_an_ignored_row_reaches_no_other(self, garbage: float) -> None:
        # Row 0 terminates, row 1 is ignored by NEXT_STEP and says nonsense, row 2 begins the next episode and ends it.
        # A_0 = 1 − 5 = −4;  A_2 = 3 + ½·40 − 20 = 3
        rewards, values, following = column(1, garbage, 3), column(5, garbage, 20), column(garbage, garbage, 40)
        advantages = gae(rewards, values, following, flags(T, F, F), OPEN, 0.5, 0.5)
        assert_rows(advantages[::2], -4, 3)
        # R_0 = 1, R_2 = 23, whatever the definition
        assert_rows(rollout_returns(rewards, following, flags(T, F, F), OPEN, 0.5)[::2], 1, 23)
        assert_rows(n_step_returns(rewards, following, flags(T, F, F), OPEN, 0.5, 3)[::2], 1, 23)
        assert_rows(monte_carlo_returns(rewards, flags(T, F, T), OPEN, 0.5)[::2], 1, 3)

    def test_environments_are_independent(self) -> None:
        twice = [np.repeat(array, 2, axis=1) for array in (REWARDS, VALUES, NEXT)]
        terminated = np.concatenate([OPEN, IN_THE_MIDDLE], axis=1)
        actual = gae(twice[0], twice[1], twice[2], terminated, np.zeros_like(terminated), 0.5, 0.5)
        assert actual.tolist() == [[1.6875, -1], [2.75, -8], [3, 3]]

    def test_arguments_are_left_alone(self) -> None:
        rewards, values, following = REWARDS.copy(), VALUES.copy(), NEXT.copy()
        gae(rewards, values, following, OPEN, OPEN, 0.5, 0.5)
        assert_rows(rewards, 1, 2, 3)
        assert_rows(values, 5, 10, 20)
        assert_rows(following, 10, 20, 40)


@pytest.mark.filterwarnings("error")
def test_numbers_that_are_not_finite_bring_no_warnings() -> None:
    """Values of a run that diverges: the gradients are left out, and the run tells of them."""
    rewards = column(3e38, 3e38, 1)
    ends = flags(F, T, F)
    values = column(np.inf, 1, -np.inf)
    assert np.isnan(gae(rewards, values, values, ends, OPEN, 1.0, 1.0)).any()
    assert np.isnan(n_step_returns(rewards, values, ends, OPEN, 1.0, 2)).any()
    assert np.isinf(monte_carlo_returns(rewards, ends, OPEN, 1.0)).any()
    assert np.isnan(normalize(column(np.inf, 1), flags(T, T))).all()
    assert np.isnan(to_unit_length(column(np.inf, 1), flags(T, T))).any()
    assert np.isnan(merged_moments(np.array([[[1.0, np.inf, 0.0]], [[1.0, 0.0, 0.0]]]))).any()
