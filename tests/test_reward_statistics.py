"""The scale of rewards that finds itself: by hand, beside SB3's VecNormalize, in every agent, in checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import a3c_zoo
from a3c_zoo.errors import EnvironmentContractError
from a3c_zoo.learning.objective import Objective, scaled_rewards
from a3c_zoo.learning.reward_statistics import DiscountedReturns, RewardStatistics
from a3c_zoo.learning.windows import Windows
from a3c_zoo.store.checkpoints import checkpoint_file, resumable_checkpoint
from a3c_zoo.store.directory import RunDirectory
from tests.test_objective import rollout
from tests.toys import ToyEnv
from tests.toys_runs import assert_same_training, checkpoint, scalars, write_content

AUTO = {"agent.reward_scale": "auto", "run.stop_when_solved": False}
#: A schedule ends with the budget, and so a run of half the budget would have another one.
CONSTANT = {"optimizer.schedule": "constant"}


def saved(run: Path) -> dict[str, Any]:
    return resumable_checkpoint(RunDirectory(run)).agent


class TestDiscountedReturns:
    """γ = ½."""

    def test_they_go_on_from_rollout_to_rollout(self) -> None:
        """Environment 0: 2; 1 + 4 = 5; 2.5 + 3 = 5.5. Environment 1: 8; 4 + 0 = 4; 2 + 1 = 3."""
        returns = DiscountedReturns(2, 0.5)
        first = returns.add(rollout([[0, 0]] * 3, [[0, 0]] * 2, [[2, 8], [4, 0]]))
        assert first.tolist() == [[2], [8], [5], [4]]
        second = returns.add(rollout([[0, 0]] * 2, [[0, 0]], [[3, 1]]))
        assert second.tolist() == [[5.5], [3]]

    @pytest.mark.parametrize("end", ["terminated", "truncated"])
    def test_an_end_sets_them_back(self, end: str) -> None:
        ended = rollout([[0]] * 4, [[0]] * 3, [[2], [4], [6]], **{end: [[0], [1], [0]]})
        assert DiscountedReturns(1, 0.5).add(ended).tolist() == [[2], [5], [6]]

    def test_a_step_that_the_environment_ignored_does_not_count(self) -> None:
        """Whatever its reward is."""
        ignored = rollout([[0]] * 4, [[0]] * 3, [[2], [100], [6]], terminated=[[1], [0], [0]], valid=[[1], [0], [1]])
        assert DiscountedReturns(1, 0.5).add(ignored).tolist() == [[2], [6]]


class TestDeviation:
    def test_numbers(self) -> None:
        """Two workers saw 1 and 3, and 8: mean 4, squared deviations 9 + 1 + 16 = 26."""
        statistics = RewardStatistics(RewardStatistics.zeros(2, 1))
        assert statistics.deviation() == 1.0
        statistics.update(0, np.array([[1.0], [3.0]]))
        statistics.update(1, np.array([[8.0]]))
        assert statistics.deviation() == pytest.approx(sqrt(26 / 3))

    def test_rewards_of_zero_are_not_divided_by_zero(self) -> None:
        statistics = RewardStatistics(RewardStatistics.zeros(1, 1))
        statistics.update(0, np.zeros((5, 1)))
        assert statistics.deviation() == pytest.approx(1e-4)

    def test_rewards_of_any_size_have_one(self) -> None:
        statistics = RewardStatistics(RewardStatistics.zeros(1, 1))
        statistics.update(0, np.array([[3e38], [-3e38]]))
        assert statistics.deviation() == pytest.approx(3e38)


def test_scaled_rewards_are_limited() -> None:
    rewards = np.array([1.0, -2.0, 30.0], np.float32)
    assert scaled_rewards(rewards, 0.5, 10.0).tolist() == [0.5, -1.0, 10.0]
    assert scaled_rewards(rewards, 1.0, float("inf")) is rewards


def test_windows_take_the_scale_of_the_moment() -> None:
    """One window of two steps, γ = ½, V = 0: 0.1 · 4 + ½ · 0.1 · 2 = 0.5."""
    steps = rollout([[0]] * 3, [[0]] * 2, [[4], [2]])
    objective = Objective(0.5, gae_lambda=1.0, entropy_coefficient=0.0, value_coefficient=0.5, reward_limit=10.0)
    windows = Windows(steps, 2, objective)
    windows.push(steps)
    windows.push(steps)
    windows.objective = replace(objective, reward_scale=0.1)
    assert windows.returns(np.zeros((3, 1), np.float32))[1].tolist() == pytest.approx([0.5])


SCRIPT = (((1.0, 2.0), "terminated"), ((3.0,), "truncated"), ((4.0, 5.0, 6.0), "both"))


def test_the_rule_is_that_of_vec_normalize() -> None:
    """The same rewards, one environment. SB3 begins with 1e-4 steps of variance 1, which 3,000 steps hide."""
    wrapped = VecNormalize(DummyVecEnv([lambda: ToyEnv(SCRIPT)]), norm_obs=False, gamma=0.9)
    wrapped.reset()
    statistics = RewardStatistics(RewardStatistics.zeros(1, 1))
    returns = DiscountedReturns(1, 0.9)
    for _ in range(3000):
        _, _, done, _ = wrapped.step(np.zeros(1, np.int64))
        reward = wrapped.get_original_reward()
        ended = rollout([[0]] * 2, [[0]], [reward.tolist()], terminated=[done])
        statistics.update(0, returns.add(ended))
    assert statistics.deviation() == pytest.approx(float(np.sqrt(wrapped.ret_rms.var)), rel=1e-5)
    assert 1 / statistics.deviation() == pytest.approx(float(wrapped.normalize_reward(np.ones(1))[0]), rel=1e-5)


class TestRuns:
    def test_workers_share_the_statistics_and_a_checkpoint_keeps_them(self, tmp_path: Path) -> None:
        """CartPole's rewards are 1, so that G is a sum of powers of γ; reported returns stay raw."""
        overrides = AUTO | {"run.evaluation_every_steps": 500, "run.evaluator_episodes": 2}
        outcome = a3c_zoo.train("cartpole", seed=1, steps=2000, workers=2, overrides=overrides, runs_dir=tmp_path)
        agent = saved(outcome.run)
        rows = agent["reward_statistics"]
        assert rows.shape == (2, 7)
        assert rows[:, 1].tolist() == agent["counters"][:, 0].tolist()  # evaluations do not count
        assert 1 < RewardStatistics(rows).deviation() < 50
        episodes = np.loadtxt(outcome.run / "monitor.csv", delimiter=",", skiprows=2, usecols=(0, 1))
        assert (episodes[:, 0] == episodes[:, 1]).all()  # a return is its length
        resumed = a3c_zoo.train(resume=outcome.run, steps=3000)
        assert saved(resumed.run)["reward_statistics"][:, 1].sum() == resumed.steps

    @pytest.mark.parametrize(
        ("agent", "more"),
        [
            ("a3c", {}),
            ("a3c", {"agent.clip_ratio": 0.2, "agent.epochs": 2, "agent.normalize_advantages": True}),
            ("a3c-grad", {}),
            ("a3c-data", {}),
            ("a3c-data", {"agent.transfer": "transitions"}),
            ("nstep", {}),
            ("monte-carlo", {}),
        ],
    )
    def test_a_resumed_serial_run_equals_one_that_was_not_interrupted(
        self, agent: str, more: dict[str, Any], tmp_path: Path
    ) -> None:
        settings: dict[str, Any] = {
            "agent": agent,
            "serial": True,
            "seed": 3,
            "overrides": AUTO | CONSTANT | more,
            "runs_dir": tmp_path,
        }
        whole = a3c_zoo.train("cartpole", steps=3000, **settings)
        half = a3c_zoo.train("cartpole", steps=1500, **settings)
        both = a3c_zoo.train(resume=half.run, steps=3000)
        assert saved(whole.run)["reward_statistics"][:, 1].sum() == whole.steps
        assert_same_training(checkpoint(whole.run), checkpoint(both.run))

    def test_a_fixed_scale_keeps_no_statistics(self, tmp_path: Path) -> None:
        outcome = a3c_zoo.train("cartpole", serial=True, steps=200, runs_dir=tmp_path)
        assert saved(outcome.run)["reward_statistics"] is None

    def test_a_checkpoint_with_statistics_of_another_shape_is_refused(self, tmp_path: Path) -> None:
        outcome = a3c_zoo.train("cartpole", serial=True, steps=200, overrides=AUTO, runs_dir=tmp_path)
        content = checkpoint(outcome.run)
        content["agent"]["reward_statistics"] = torch.zeros(2, 5, dtype=torch.float64)
        write_content(checkpoint_file(RunDirectory(outcome.run), "final"), content)
        with pytest.raises(a3c_zoo.ZooError, match="reward_statistics"):
            a3c_zoo.train(resume=outcome.run, steps=400)


class Paid(gymnasium.Env[np.ndarray, Any]):
    """Episodes of ten steps; step k of the environment's life gives `pay(k)`."""

    observation_space = Box(0, 1, (1,), np.float32)
    action_space = Discrete(2)

    def __init__(self, rewards: Sequence[float], change_after: int) -> None:
        self.rewards = rewards
        self.change_after = change_after
        self.life = self.step_of_episode = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.step_of_episode = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.life += 1
        self.step_of_episode += 1
        reward = self.rewards[self.life > self.change_after]
        return np.zeros(1, np.float32), reward * float(action), self.step_of_episode == 10, False, {}


def zero() -> Paid:
    return Paid((0.0, 0.0), 0)


def growing() -> Paid:
    return Paid((1.0, 1000.0), 200)


def broken() -> Paid:
    return Paid((1.0, float("nan")), 100)


class TestStrangeRewards:
    def test_all_of_them_zero(self, tmp_path: Path) -> None:
        outcome = a3c_zoo.train(zero, serial=True, steps=2000, overrides=AUTO, runs_dir=tmp_path)
        assert outcome.steps >= 2000

    def test_a_thousandfold_in_the_middle_of_a_run(self, tmp_path: Path) -> None:
        """Training goes on with finite parameters, and the metric shows the new scale."""
        outcome = a3c_zoo.train(growing, serial=True, steps=20_000, overrides=AUTO, runs_dir=tmp_path)
        assert outcome.steps >= 20_000
        seen = [value for _, value in scalars(outcome.run)["train/reward_deviation"]]
        assert max(seen) > 100 * min(seen)
        assert bool(saved(outcome.run)["model"]["parameters"].isfinite().all())

    def test_no_number(self, tmp_path: Path) -> None:
        with pytest.raises(EnvironmentContractError, match="reward"):
            a3c_zoo.train(broken, serial=True, steps=20_000, overrides=AUTO, runs_dir=tmp_path)
