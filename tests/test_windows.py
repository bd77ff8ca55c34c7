"""Sliding windows over several rollouts, against numbers worked out by hand.

One environment, γ = ½, windows of n = 3 steps, rollouts of T = 2 rows. Step t shows observation t, gives the reward 2^t
and leads to observation t + 1; V(s) = 100·s.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from a3c_zoo.learning.objective import Objective
from a3c_zoo.learning.returns import n_step_returns
from a3c_zoo.learning.rollout import Rollout
from a3c_zoo.learning.windows import Windows

LOSS = Objective(gamma=0.5, gae_lambda=1.0, entropy_coefficient=0.0, value_coefficient=0.5)


def value(observations: Tensor) -> Tensor:
    return 100 * observations[:, 0]


def rollouts(num: int, num_steps: int = 2, ends: dict[int, str] | None = None) -> list[Rollout]:
    """Consecutive rollouts; `ends` says at which steps an episode ends, and how."""
    parts = []
    for start in range(0, num * num_steps, num_steps):
        steps = np.arange(start, start + num_steps)
        ended = [[(ends or {}).get(int(t))] for t in steps]
        parts.append(
            Rollout(
                observations=torch.arange(start, start + num_steps + 1, dtype=torch.float32)[:, None, None],
                actions=torch.from_numpy(steps[:, None]),
                rewards=(2.0 ** steps[:, None]).astype(np.float32),
                valid=np.ones((num_steps, 1), np.bool_),
                terminated=np.array(ended) == "terminated",
                truncated=np.array(ended) == "truncated",
            )
        )
    return parts


def windows(n: int = 3, num_steps: int = 2, clip: bool = False) -> Windows:
    return Windows(rollouts(1, num_steps)[0], n, replace(LOSS, clip_rewards=clip))


def returns(made: Windows) -> list[float]:
    result: list[float] = made.returns(made.values_ahead(value))[:, 0].tolist()
    return result


def test_where_windows_end() -> None:
    """Rewards of 1 without a discount add up to the number of steps."""
    ended = np.array([[0, 0, 1, 0, 0, 0, 0]], np.bool_).T
    ones, zeros = np.ones(ended.shape, np.float32), np.zeros(ended.shape, np.float32)
    for n, ends in ((3, [2, 2, 2, 5, 6, 6, 6]), (2, [1, 2, 2, 4, 5, 6, 6]), (1, list(range(7)))):
        steps = n_step_returns(ones, zeros, ended, np.zeros_like(ended), 1.0, n)[:, 0]
        assert (np.arange(7) + steps - 1).tolist() == ends


def test_every_window_has_its_three_steps() -> None:
    made = windows()
    first, second, third = rollouts(3)
    # Steps 0 and 1: no window is complete, since the one of step 0 needs step 2.
    made.push(first)
    assert made.valid[:, 0].tolist() == [False, False]
    # Steps 0 to 3 complete the windows of steps 0 and 1:
    # 1 + ½·2 + ¼·4 + ⅛·V(3) = 3 + 37.5;  2 + ½·4 + ¼·8 + ⅛·V(4) = 6 + 50
    made.push(second)
    assert made.valid[:, 0].tolist() == [True, True]
    assert made.rollout.observations[:2, 0, 0].tolist() == [0, 1]
    assert made.rollout.actions[:2, 0].tolist() == [0, 1]
    assert returns(made) == [40.5, 56.0]
    # 4 + ½·8 + ¼·16 + ⅛·V(5) = 12 + 62.5;  8 + 8 + 8 + ⅛·V(6) = 24 + 75
    made.push(third)
    assert made.rollout.actions[:2, 0].tolist() == [2, 3]
    assert returns(made) == [74.5, 99.0]


def test_a_core_knows_nothing_of_the_rows_before_the_first_step() -> None:
    """They hold zeros; its state is reset where the first step stands, wherever that row moves."""

    def with_core(rollout: Rollout) -> Rollout:
        return replace(rollout, states=torch.zeros(3, 1, 4), resets=np.zeros((3, 1), np.bool_))

    first, second, third = map(with_core, rollouts(3))
    made = Windows(first, 3, LOSS)

    def resets() -> list[int]:
        assert made.rollout.resets is not None
        return np.flatnonzero(made.rollout.resets[:, 0]).tolist()

    made.push(first)
    assert resets() == [2]
    made.push(second)
    assert resets() == [0]
    saved = made.state_dict()
    made.push(third)
    assert resets() == []
    made = Windows(first, 3, LOSS)
    made.load_state_dict(saved)
    made.push(third)
    assert resets() == []


def test_an_end_closes_windows() -> None:
    made = windows()
    for rollout in rollouts(3, ends={3: "terminated"}):
        made.push(rollout)
    # Windows of steps 2 and 3: 4 + ½·8; 8. Nothing is bootstrapped.
    assert returns(made) == [8.0, 8.0]
    made = windows()
    for rollout in rollouts(3, ends={2: "truncated"}):
        made.push(rollout)
    # 4 + ½·V(3); and step 3 begins anew: 8 + 8 + 8 + ⅛·V(6)
    assert returns(made) == [154.0, 99.0]


def test_a_final_observation_that_is_not_the_next() -> None:
    made = windows()
    parts = rollouts(3, ends={2: "truncated", 3: "truncated"})
    parts[1].finals[0, 0] = np.array([7.0], np.float32)  # step 2
    parts[1].finals[1, 0] = np.array([9.0], np.float32)  # step 3
    for rollout in parts:
        made.push(rollout)
    assert returns(made) == [4 + 350.0, 8 + 450.0]
    rewards, discounts, following = made.parts()
    assert following[:, 0, 0].tolist() == [7, 9]
    assert (rewards[:, 0].tolist(), discounts[:, 0].tolist()) == ([4, 8], [0.5, 0.5])


@pytest.mark.parametrize("ends", [{}, {3: "terminated"}, {2: "truncated"}, {4: "truncated", 5: "terminated"}])
@pytest.mark.parametrize(("n", "num_steps"), [(1, 2), (3, 2), (3, 1), (2, 3), (4, 4)])
def test_parts_and_known_values_give_the_same_returns(ends: dict[int, str], n: int, num_steps: int) -> None:
    made = windows(n, num_steps)
    for rollout in rollouts(4, num_steps, ends):
        made.push(rollout)
        expected = made.returns(made.values_ahead(value))
        rewards, discounts, following = made.parts()
        bootstrapped = rewards + discounts * value(following.flatten(0, 1)).numpy().reshape(rewards.shape)
        np.testing.assert_allclose(bootstrapped, expected, rtol=1e-6)
        known = value(made.rollout.observations[: num_steps + 1].flatten(0, 1)).numpy().reshape(-1, 1)
        np.testing.assert_array_equal(made.returns(made.values_ahead(value, known)), expected)


def test_the_parts_of_a_return() -> None:
    made = windows()
    for rollout in rollouts(2, ends={2: "terminated"}):
        made.push(rollout)
    rewards, discounts, _ = made.parts()
    assert rewards[:, 0].tolist() == [1 + 1 + 1, 2 + 2]
    assert discounts[:, 0].tolist() == [0, 0]
    made.push(rollouts(3)[2])
    rewards, discounts, following = made.parts()
    assert rewards[:, 0].tolist() == [4, 24]
    assert discounts[:, 0].tolist() == [0, 0.125]
    assert following[1, 0, 0] == 6


def test_rewards_are_clipped_in_the_returns_alone() -> None:
    made = windows(clip=True)
    for rollout in rollouts(2):
        made.push(rollout)
    assert returns(made) == [1 + 0.5 + 0.25 + 37.5, 1 + 0.5 + 0.25 + 50]
    assert made.rollout.rewards[:, 0].tolist() == [1, 2, 4, 8]


def test_an_ignored_step_is_no_sample() -> None:
    made = windows()
    parts = rollouts(3, ends={2: "terminated"})
    parts[1].valid[1] = False  # step 3 resets
    for rollout in parts:
        made.push(rollout)
    assert made.valid[:, 0].tolist() == [True, False]
    assert returns(made)[0] == 4


def test_windows_go_on_from_their_state() -> None:
    parts = rollouts(4, ends={3: "truncated"})
    parts[1].finals[1, 0] = np.array([9.0], np.float32)
    whole, resumed = windows(), windows()
    for rollout in parts[:2]:
        whole.push(rollout)
    resumed.load_state_dict(whole.state_dict())
    for rollout in parts[2:]:
        whole.push(rollout)
        resumed.push(rollout)
        assert returns(resumed) == returns(whole)
        assert resumed.valid.tolist() == whole.valid.tolist()
        assert torch.equal(resumed.rollout.observations[:2], whole.rollout.observations[:2])


def test_states_of_a_core_and_where_they_become_0_move_along() -> None:
    """State t is 10·t, kept before row t; step 2 ends an episode, so the state becomes 0 before row 3."""
    parts = rollouts(3, ends={2: "terminated"})
    for number, part in enumerate(parts):
        rows = torch.arange(2 * number, 2 * number + 3)
        part.states, part.resets = 10.0 * rows[:, None, None, None], (rows == 3).numpy()[:, None]
    made = Windows(parts[0], 3, LOSS)
    for part in parts:
        made.push(part)
    # Rows 2 to 6: the windows of steps 2 and 3 are complete, and what follows them is valued in the same pass.
    assert made.samples.states is not None
    assert made.samples.resets is not None
    assert made.samples.states[:, 0, 0, 0].tolist() == [20, 30, 40, 50, 60]
    assert made.samples.resets[:, 0].tolist() == [False, True, False, False, False]
    resumed = Windows(parts[0], 3, LOSS)
    resumed.load_state_dict(made.state_dict())
    for each in (made, resumed):
        each.push(parts[0])  # what comes is of no matter
    assert torch.equal(made.rollout.states, resumed.rollout.states)  # type: ignore[arg-type]
    assert made.rollout.resets.tolist() == resumed.rollout.resets.tolist()  # type: ignore[union-attr]
