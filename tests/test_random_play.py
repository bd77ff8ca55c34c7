"""What `a3c-zoo check` measures with random actions: figures known by hand, and what it recommends."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from numpy.typing import NDArray

from a3c_zoo.config import Config
from a3c_zoo.config.sets import resolve_config
from a3c_zoo.plugins.registry import load_registry
from a3c_zoo.testing.environment_checks import reward_limit_of
from a3c_zoo.testing.findings import Finding, Findings
from a3c_zoo.testing.random_play import CURE_DEPEND, RandomPlay, ValueRange, far_gamma, judge, measure


class Clock(gymnasium.Env[Any, Any]):
    """Episodes of `length` steps, the last of which pays `reward`, the others `wage`. Shows its time, and -3."""

    action_space = Discrete(2)

    def __init__(self, length: int = 4, reward: float = 10.0, wage: float = 0.0, truncates: bool = False) -> None:
        self.length, self.reward, self.wage, self.truncates = length, reward, wage, truncates
        self.observation_space = Box(-np.inf, np.inf, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.time = 0
        return self.seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.time += 1
        is_last = self.time == self.length
        reward = self.reward if is_last else self.wage
        return self.seen(), reward, is_last and not self.truncates, is_last and self.truncates, {}

    def seen(self) -> Any:
        return np.array([self.time, -3], np.float32)


class House(Clock):
    """Shows an image and a class beside the time."""

    def __init__(self) -> None:
        super().__init__()
        image = Box(0, 255, (8, 8, 3), np.uint8)
        self.observation_space = Dict({"image": image, "room": Discrete(3), "time": Box(0, 9, (), np.float32)})

    def seen(self) -> Any:
        return {"image": np.full((8, 8, 3), 200, np.uint8), "room": 2, "time": np.float32(self.time)}


MODES = (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED)


def played(gamma: float = 0.5, steps: int = 40, mode: AutoresetMode = MODES[0], make: Any = Clock, **of: Any) -> Any:
    with closing(SyncVectorEnv([lambda: make(**of)] * 2, autoreset_mode=mode)) as env:
        return measure(env, gamma, steps)


@pytest.mark.parametrize("mode", MODES)
def test_figures_by_hand(mode: AutoresetMode) -> None:
    """Four steps pay 0, 0, 0, 10: mean 2.5, deviation √(0.25 · 100 − 6.25) = √18.75, and so of the returns so far."""
    play = played(mode=mode)
    assert play.steps == 40
    assert play.rewards.mean == pytest.approx([2.5])
    assert play.rewards.deviation == pytest.approx([18.75**0.5])
    assert (play.rewards.low.tolist(), play.rewards.high.tolist()) == ([0], [10])
    assert play.discounted.deviation == pytest.approx([18.75**0.5])
    assert play.rewarded_share == 0.25
    assert (play.returns, play.lengths, play.truncated) == ([10.0] * 10, [4] * 10, [False] * 10)


def test_the_discounted_return_by_hand() -> None:
    """With γ ½ and 1 a step the returns so far are 1, 1.5, 1.75, 1.875."""
    play = played(gamma=0.5, reward=1.0, wage=1.0)
    returns = [1, 1.5, 1.75, 1.875]
    assert play.discounted.deviation == pytest.approx([np.std(returns)])
    assert play.rewards.deviation.tolist() == [0]
    assert play.rewarded_share == 1


def test_observations_by_hand() -> None:
    """With SAME_STEP the times are 0, 1, 2, 3: the final observation is not among what is acted on."""
    play = played(mode=AutoresetMode.SAME_STEP, steps=38)  # and the first observations: 20 times four
    assert play.observations.count == 40
    assert play.observations.mean == pytest.approx([1.5, -3])
    assert play.observations.deviation == pytest.approx([1.25**0.5, 0])
    assert (play.observations.low.tolist(), play.observations.high.tolist()) == ([0, -3], [3, -3])


def test_images_and_classes_are_left_out() -> None:
    play = played(make=House, mode=AutoresetMode.SAME_STEP)
    assert (len(play.observations.low), play.observations.high.tolist()) == (1, [3])


def test_the_time_limit_and_episodes_that_do_not_end() -> None:
    assert played(truncates=True).truncated == [True] * 10
    endless = played(length=10**9)
    assert (endless.lengths, endless.longest) == ([], 20)


def test_seconds_end_it_and_signs_of_life_come() -> None:
    signs: list[int] = []
    with closing(SyncVectorEnv([Clock] * 2)) as env:
        play = measure(env, 0.9, steps=10**12, limit_s=0.05, give_sign=lambda: signs.append(1))
    assert 0 < play.steps < 10**6
    assert signs


def test_batches_of_any_size_give_the_same_spread() -> None:
    numbers: NDArray[Any] = np.random.default_rng(1).normal(1e6, 3, (50, 2))
    spread = ValueRange.of(2)
    for batch in np.split(numbers, [0, 1, 7, 30]):
        spread.add(batch)
    assert spread.mean == pytest.approx(numbers.mean(axis=0))
    assert spread.deviation == pytest.approx(numbers.std(axis=0))


@pytest.mark.parametrize(("length", "gamma"), [(1000, "0.999"), (200, "0.995"), (30, "0.967"), (1234, "0.99919")])
def test_the_discount_that_looks_as_far_as_an_episode_is_long(length: float, gamma: str) -> None:
    assert far_gamma(length) == gamma


# What it recommends


@pytest.fixture(scope="module")
def config() -> Config:
    registry = load_registry()
    overrides = ["agent.reward_scale=1.0", "network.normalize_observations=false", "agent.gamma=0.9"]
    entry = registry.env("gym:Acrobot-v1")
    return resolve_config(registry, entry, registry.agent("a3c"), overrides=overrides)


def judged(config: Config, play: RandomPlay) -> dict[str, Finding]:
    findings = Findings("environment")
    judge(play, config, findings)
    return {each.check: each for each in findings.found}


def with_agent(config: Config, **values: Any) -> Config:
    return replace(config, agent=config.agent.model_copy(update=values))


def test_a_sound_environment_gets_no_advice(config: Config) -> None:
    found = judged(config, played(0.9, 2000, length=20, reward=1.0, wage=1.0, make=Clock))
    assert {each.check for each in found.values() if each.status == "warning"} == {"rewarded steps"}  # all return 20


@pytest.mark.parametrize(("factor", "status"), [(1e4, "warning"), (1.0, "ok"), (1e-3, "warning")])
def test_the_scale_of_rewards(config: Config, factor: float, status: str) -> None:
    play = played(0.9, 400, length=20, reward=factor, wage=factor)
    found = judged(config, play)["reward scale"]
    assert found.status == status
    assert found.cure == ("-o agent.reward_scale=auto" if status == "warning" else "")
    assert found.figures["discounted_return_deviation"] == pytest.approx(float(play.discounted.deviation[0]))
    fitting = judged(with_agent(config, reward_scale=1 / factor), play)["reward scale"]
    assert fitting.status == "ok"
    assert judged(with_agent(config, reward_scale="auto"), play)["reward scale"].status == "ok"


def test_clipped_rewards_are_small(config: Config) -> None:
    """Each step pays 50, of which the loss takes ±1 / 2: with γ ½ the returns so far are 0.5, 0.75, 0.875, 0.9375."""
    with closing(SyncVectorEnv([lambda: Clock(reward=50.0, wage=50.0)] * 2)) as env:
        play = measure(env, 0.5, 40, reward_limit=0.5)
    assert play.rewards.high.tolist() == [50]
    assert play.discounted.deviation == pytest.approx([np.std([0.5, 0.75, 0.875, 0.9375])])
    found = judged(with_agent(config, reward_scale=2.0, clip_rewards=True), play)["reward scale"]
    assert found.status == "ok"
    assert found.text.startswith(
        "rewards from 50 to 50, deviation 0; the discounted return of rewards clipped to ±0.5 deviates by 0.168"
    )


@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        ({"clip_rewards": True, "reward_scale": 1.0}, 1.0),
        ({"clip_rewards": True, "reward_scale": 4.0}, 0.25),
        ({"clip_rewards": True, "reward_scale": "auto"}, np.inf),
        ({"clip_rewards": False, "reward_scale": 4.0}, np.inf),
        ({"clip_rewards": True}, 1.0),  # a baseline's
        ({}, np.inf),
    ],
)
def test_to_what_size_rewards_are_clipped(settings: dict[str, Any], limit: float) -> None:
    assert reward_limit_of(settings) == limit


def test_no_reward_at_all_is_no_question_of_scale(config: Config) -> None:
    found = judged(config, played(0.9, 2000, reward=0.0))
    assert found["reward scale"].status == "ok"
    assert found["rewarded steps"].status == "warning"
    assert (
        found["rewarded steps"].text == "0.00% of 2,000 steps of random actions have a reward; episodes return 0 to 0"
    )
    assert "raise agent.entropy_coefficient" in found["rewarded steps"].cure


def test_equal_returns_of_rewarded_steps_show_no_difference(config: Config) -> None:
    found = judged(config, played(0.9, 2000, length=20, reward=1.0, wage=1.0))["rewarded steps"]
    assert (found.status, found.cure) == ("warning", CURE_DEPEND)
    said = "episodes return 20 to 20: all 100 are equal, so random actions show no difference between actions"
    assert found.text.endswith(said)


def test_one_number_and_one_episode(config: Config) -> None:
    play = RandomPlay(0.9, ValueRange.of(1), returns=[1.0], lengths=[2], truncated=[False])
    play.observations.add(np.zeros((3, 1)))
    play.rewards.add(np.ones((2, 1)))
    found = judged(config, play)
    assert found["observed range"].text.startswith("1 number from 0 to 0")
    assert " on average of 1 episode; " in found["episode length"].text


def test_rare_rewards_far_away(config: Config) -> None:
    """γ 0.9 makes 0.9^150 of a reward at the end: 1.4e-7; 1 − 1/150 looks as far as the episode is long."""
    play = played(0.9, 3000, length=150)
    found = judged(config, play)
    assert play.rewarded_share == pytest.approx(20 / 3000, rel=0.1)
    assert found["rewarded steps"].status == "warning"
    assert found["episode length"].status == "warning"
    assert found["episode length"].cure == "-o agent.gamma=0.9933"
    assert "is worth 1.4e-07 of itself at the start" in found["episode length"].text
    assert judged(config, played(0.993, 3000, length=150))["episode length"].status == "ok"
    assert judged(config, played(0.9, 3000, length=150, wage=1.0))["episode length"].status == "ok"  # not rare


def test_few_steps_say_nothing_about_what_is_rare(config: Config) -> None:
    found = judged(config, played(0.9, 300, length=10**9))
    assert [found[check].status for check in ("rewarded steps", "episode length")] == ["ok", "ok"]


def test_episodes_that_do_not_end(config: Config) -> None:
    play = played(0.9, 4000, length=10**9, wage=1.0)
    found = judged(config, play)["episode length"]
    assert (found.status, found.text) == ("warning", "no episode of random actions ended within 2,000 steps")
    assert found.cure == "-o env.max_episode_steps=1000, or another number"
    bare = replace(config, env=EmptySection())  # type: ignore[arg-type]
    assert judged(bare, play)["episode length"].cure.startswith("end episodes after a number of steps")
    assert found.figures == {"episodes": 0, "length_max": 2000, "gamma": 0.9}


def test_the_range_of_observations(config: Config) -> None:
    long = played(0.9, 4000, length=200, wage=1.0)  # times from 0 to 200
    found = judged(config, long)["observed range"]
    assert (found.status, found.cure) == ("warning", "-o network.normalize_observations=true")
    assert "2 numbers from -3 to 200" in found.text
    assert found.text.endswith("; 1 never change")
    assert found.figures["constant_numbers"] == 1
    assert config.network is not None
    normal = replace(config, network=config.network.model_copy(update={"normalize_observations": True}))
    assert judged(normal, long)["observed range"].status == "ok"
    other = replace(config, network=EmptySection())  # type: ignore[arg-type]
    assert judged(other, long)["observed range"].cure.startswith("scale them to about -1 to 1")
    assert judged(config, played(0.9, 400, wage=1.0))["observed range"].status == "ok"  # times from 0 to 4


class Date(Clock):
    """Shows the seconds since 1970, and a constant with errors of rounding."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = Box(-np.inf, np.inf, (2,), np.float64)

    def seen(self) -> Any:
        return np.array([1.7e9 + self.time, 1 + 1e-12 * self.time])


def test_a_number_that_float32_cannot_tell_from_others(config: Config) -> None:
    """Neighbours of 1.7e9 in float32 are 128 apart. Normalizing helps nothing."""
    assert config.network is not None
    normal = replace(config, network=config.network.model_copy(update={"normalize_observations": True}))
    for each in (config, normal):
        found = judged(each, played(0.9, 400, make=Date))["observed range"]
        assert found.status == "warning"
        lost = "; 1 deviation below a millionth of the number: lost in float32, which networks get"
        assert found.text.endswith(lost)
        assert found.cure.startswith("subtract a number near them")


class EmptySection:
    """The settings of a network that does not normalize."""


def test_an_agent_without_these_settings(config: Config) -> None:
    bare = replace(config, agent=EmptySection())  # type: ignore[arg-type]
    found = judged(bare, played(0.9, 400, reward=1e6))["reward scale"]
    assert (found.status, found.cure) == ("ok", "")
