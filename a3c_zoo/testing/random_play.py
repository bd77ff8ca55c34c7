"""What random actions meet in an environment: figures that show beforehand why an agent would not learn.

`measure` plays, and `judge` compares the figures with the settings of the environment's hyperparameter set.
docs/how-to/when-it-does-not-learn.md explains them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from a3c_zoo.config import Config
from a3c_zoo.learning.action_masks import FollowedMasks, gives_masks
from a3c_zoo.learning.actions import action_distribution
from a3c_zoo.learning.autoreset import autoreset_of, episode_over
from a3c_zoo.learning.running_statistics import Doubles, merged
from a3c_zoo.learning.spaces import Part, is_image, parts_of
from a3c_zoo.testing.findings import Findings
from a3c_zoo.words import counted

#: Steps of random actions, of all environments together.
STEPS = 10_000
#: In the loss the discounted return should deviate by a number within these limits.
GOOD_RETURNS: Final = (0.05, 50.0)
#: So should each number that a network gets and that is not normalized.
GOOD_OBSERVATIONS: Final = (0.02, 10.0)
#: A number that deviates by a smaller share of its size is lost: networks get float32, which has seven digits.
LEAST_SHARE = 1e-6
#: A smaller number that deviates by so little is a constant with errors of rounding.
LARGE = 1_000.0
#: A smaller share of steps with a reward is rare; with a smaller share than the second one rewards are late.
RARE, LATE = 0.01, 0.05
#: A reward at the end of an episode should be worth so much at its start.
LEAST_WORTH = 0.05
#: Of fewer steps nothing is concluded about rare rewards and long episodes: a simulator may be slow.
FEW_STEPS = 1_000
#: So many episodes with one return say that random actions make no difference.
MANY_EPISODES = 10
#: The discount where an agent has none.
USUAL_GAMMA = 0.99

PAGE = "docs/how-to/when-it-does-not-learn.md"
CURE_EXPLORE = f"reward parts of the way, raise agent.entropy_coefficient, or train longer: {PAGE}"
CURE_DEPEND = f"let the reward depend on what an action leads to: {PAGE}"
CURE_FLOAT32 = "subtract a number near them, such as the first one, in the environment or a wrapper"
CURE_RANGE = "scale them to about -1 to 1, in the environment or a wrapper"
CURE_ENDLESS = "end episodes after a number of steps: return truncated=True, or register max_episode_steps"


@dataclass(slots=True)
class ValueRange:
    """Mean, deviation and range of F numbers, over B samples that come one batch after the other.

    Attributes:
        sample: count, mean `[F]` and sum of squared deviations `[F]`, `[1 + 2F]`. low, high: `[F]`.
    """

    sample: Doubles
    low: Doubles
    high: Doubles

    @classmethod
    def of(cls, features: int) -> ValueRange:
        """Before the first sample."""
        return cls(np.zeros(1 + 2 * features), np.full(features, np.inf), np.full(features, -np.inf))

    def add(self, batch: NDArray[Any]) -> None:
        """Adds samples `[B, F]`."""
        wide = batch.astype(np.float64)
        if not len(wide):
            return
        mean = wide.mean(axis=0)
        squares = np.square(wide - mean).sum(axis=0)
        self.sample = merged(self.sample, np.concatenate(([len(wide)], mean, squares)))
        self.low = np.minimum(self.low, wide.min(axis=0))
        self.high = np.maximum(self.high, wide.max(axis=0))

    @property
    def count(self) -> int:
        """B."""
        return int(self.sample[0])

    @property
    def mean(self) -> Doubles:
        """`[F]`."""
        return self.sample[1 : 1 + len(self.low)]

    @property
    def deviation(self) -> Doubles:
        """The standard deviation, `[F]`."""
        deviation: Doubles = np.sqrt(self.sample[1 + len(self.low) :] / max(1, self.count))
        return deviation


@dataclass(slots=True)
class RandomPlay:
    """What random actions met.

    Attributes:
        gamma: discount per step of `discounted`. reward_limit: rewards are clipped to ± this in `discounted`.
        rewards: of each step, F = 1. discounted: the discounted return so far after each step, F = 1.
        rewarded: steps whose reward is not 0.
        observations: all numbers that are no classes and no images, F of them.
        returns, lengths, truncated: of each episode that ended; whether its time limit ended it.
        longest: steps of the longest episode, also of one that had not ended.
    """

    gamma: float
    observations: ValueRange
    reward_limit: float = math.inf
    rewards: ValueRange = field(default_factory=lambda: ValueRange.of(1))
    discounted: ValueRange = field(default_factory=lambda: ValueRange.of(1))
    rewarded: int = 0
    returns: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    truncated: list[bool] = field(default_factory=list)
    longest: int = 0

    @property
    def steps(self) -> int:
        """Agent steps."""
        return self.rewards.count

    @property
    def rewarded_share(self) -> float:
        """The share of steps with a reward."""
        return self.rewarded / max(1, self.steps)


def measure(
    env: VectorEnv[Any, Any, Any],
    gamma: float,
    steps: int = STEPS,
    limit_s: float = float("inf"),
    give_sign: Callable[[], None] = lambda: None,
    takes_masks: bool = True,
    reward_limit: float = math.inf,
) -> RandomPlay:
    """Takes random actions in N environments; the caller closes them.

    Args:
        gamma: discount per step.
        steps: the fewest steps of all environments together. Fewer are taken if `limit_s` seconds are over
            before.
        takes_masks: whether actions are drawn within the masks of an environment that gives masks.
        reward_limit: the loss clips rewards to ± this, before it scales them.
    """
    parts = [part for part in parts_of(env.single_observation_space) if is_number(part)]
    features = sum(int(np.prod(part.space.shape or ())) for part in parts)
    play = RandomPlay(gamma, ValueRange.of(features), reward_limit)
    env.action_space.seed(0)
    autoreset = autoreset_of(env)
    is_over = episode_over(env)
    observation, info = env.reset(seed=0)
    masks: FollowedMasks | None = None
    if takes_masks and gives_masks(env, info):
        distribution = action_distribution(env.single_action_space, has_masks=True)
        masks = FollowedMasks(env, distribution, "under test", info)
    random = np.random.default_rng(0)
    play.observations.add(numbers_of(parts, observation, env.num_envs))
    returns = np.zeros(env.num_envs)
    discounted = np.zeros(env.num_envs)
    lengths = np.zeros(env.num_envs, np.int64)
    ended = np.zeros(env.num_envs, np.bool_)
    start_s = time.monotonic()
    while play.steps < steps and time.monotonic() - start_s < limit_s:
        give_sign()
        if masks is None:
            actions = env.action_space.sample()
        else:
            actions = masks.random_actions(random)
        observation, rewards, terminated, truncated, info = env.step(actions)
        is_real = ~autoreset.ignored(info, ended)
        ended = np.asarray(is_over(terminated, truncated, info), np.bool_)
        paid = np.where(is_real, rewards, 0.0)
        returns += paid
        lengths += is_real
        discounted = gamma * discounted + np.clip(paid, -reward_limit, reward_limit)
        play.rewards.add(paid[is_real, None])
        play.discounted.add(discounted[is_real, None])
        play.rewarded += int(np.count_nonzero(paid))
        play.longest = max(play.longest, int(lengths.max()))
        for n in np.flatnonzero(ended):
            play.returns.append(float(returns[n]))
            play.lengths.append(int(lengths[n]))
            play.truncated.append(bool(truncated[n]))
        returns[ended] = lengths[ended] = 0
        discounted[terminated | truncated] = 0.0
        if masks is not None:
            masks.step(info, ended)
        observation, info = autoreset.restart(observation, info, ended)
        if masks is not None:
            masks.restart(info, ended)
        play.observations.add(numbers_of(parts, observation, env.num_envs))
    return play


def is_number(part: Part) -> bool:
    """Whether a part of the observations holds plain numbers: no classes, bits or images."""
    return isinstance(part.space, spaces.Box) and not is_image(part.space)


def numbers_of(parts: list[Part], observation: Any, num_envs: int) -> NDArray[Any]:
    """The numbers of these parts side by side, `[N, F]`."""
    columns = [np.reshape(part.of(observation), (num_envs, -1)) for part in parts]
    if columns:
        return np.concatenate(columns, axis=1)
    return np.zeros((num_envs, 0))


def judge(play: RandomPlay, config: Config, findings: Findings) -> None:
    """Says what was measured, and which settings of the configuration do not fit it."""
    _judge_rewards(play, config, findings)
    _judge_rewarded_steps(play, findings)
    _judge_lengths(play, config, findings)
    _judge_observations(play, config, findings)


def _judge_rewards(play: RandomPlay, config: Config, findings: Findings) -> None:
    check = "reward scale"
    scale = vars(config.agent).get("reward_scale")
    rewards = play.rewards
    deviation = float(play.discounted.deviation[0])
    of_which = "the discounted return"
    if math.isfinite(play.reward_limit):
        of_which += f" of rewards clipped to ±{play.reward_limit:.3g}"
    text = (
        f"rewards from {rewards.low[0]:.3g} to {rewards.high[0]:.3g}, deviation {rewards.deviation[0]:.3g}; "
        f"{of_which} deviates by {deviation:.3g}"
    )
    figures = {
        "steps": play.steps,
        "reward_mean": float(rewards.mean[0]),
        "reward_deviation": float(rewards.deviation[0]),
        "reward_min": float(rewards.low[0]),
        "reward_max": float(rewards.high[0]),
        "discounted_return_deviation": deviation,
        "gamma": play.gamma,
    }
    if scale == "auto":
        findings.ok(check, f"{text}, by which agent.reward_scale=auto divides", figures)
    elif scale is None or not deviation:
        findings.ok(check, text, figures)
    elif is_within(scale * deviation, GOOD_RETURNS):
        findings.ok(check, f"{text}, in the loss by {scale * deviation:.3g}", figures)
    else:
        text += f", in the loss by {scale * deviation:.3g} (agent.reward_scale={scale:g})"
        findings.warn(check, text, "-o agent.reward_scale=auto", figures)


def is_within(value: float, limits: tuple[float, float]) -> bool:
    """Whether a number lies within limits."""
    return limits[0] <= value <= limits[1]


def _judge_rewarded_steps(play: RandomPlay, findings: Findings) -> None:
    check = "rewarded steps"
    text = f"{play.rewarded_share:.2%} of {play.steps:,} steps of random actions have a reward"
    figures: dict[str, float] = {"steps": play.steps, "rewarded_share": play.rewarded_share}
    if play.returns:
        low, high = min(play.returns), max(play.returns)
        text += f"; episodes return {low:.4g} to {high:.4g}"
        figures |= {"return_mean": float(np.mean(play.returns)), "return_min": low, "return_max": high}
    is_flat = len(play.returns) >= MANY_EPISODES and min(play.returns) == max(play.returns)
    is_rare = play.rewarded_share < RARE and play.steps >= FEW_STEPS
    if is_flat and play.rewarded_share >= RARE:
        text += f": all {len(play.returns):,} are equal, so random actions show no difference between actions"
        findings.warn(check, text, CURE_DEPEND, figures)
    elif is_rare or is_flat:
        findings.warn(check, text, CURE_EXPLORE, figures)
    else:
        findings.ok(check, text, figures)


def _judge_lengths(play: RandomPlay, config: Config, findings: Findings) -> None:
    check = "episode length"
    gamma = play.gamma
    if not play.lengths:
        text = f"no episode of random actions ended within {play.longest:,} steps"
        figures: dict[str, float] = {"episodes": 0, "length_max": play.longest, "gamma": gamma}
        if play.longest < FEW_STEPS:
            findings.ok(check, text, figures)
            return
        has_key = hasattr(config.env, "max_episode_steps")
        if has_key:
            cure = "-o env.max_episode_steps=1000, or another number"
        else:
            cure = CURE_ENDLESS
        findings.warn(check, text, cure, figures)
        return
    mean = float(np.mean(play.lengths))
    by_limit = float(np.mean(play.truncated))
    if gamma == 1:
        horizon = "all steps"
    else:
        horizon = f"{1 / (1 - gamma):,.0f} steps"
    text = (
        f"{min(play.lengths):,} to {max(play.lengths):,} steps, {mean:,.0f} on average of "
        f"{counted(len(play.lengths), 'episodes')}; {by_limit:.0%} end by their time limit; "
        f"agent.gamma={gamma:g} looks {horizon} ahead"
    )
    figures = {
        "episodes": len(play.lengths),
        "length_mean": mean,
        "length_min": min(play.lengths),
        "length_max": max(play.lengths),
        "truncated_share": by_limit,
        "gamma": gamma,
    }
    worth = gamma**mean
    if play.rewarded_share < LATE and worth < LEAST_WORTH:
        text += f", and a reward at the end is worth {worth:.2g} of itself at the start"
        findings.warn(check, text, f"-o agent.gamma={far_gamma(mean)}", figures)
    else:
        findings.ok(check, text, figures)


def far_gamma(length: float) -> str:
    """The discount that looks as far ahead as an episode is long: 1 − 1/length, with two digits behind the nines."""
    return f"{1 - float(f'{1 / length:.2g}'):.10g}"


def _judge_observations(play: RandomPlay, config: Config, findings: Findings) -> None:
    check = "observed range"
    observed = play.observations
    if not len(observed.low):
        findings.ok(check, "classes and images alone: there is nothing to scale")
        return
    is_varying = observed.low < observed.high
    varying = observed.deviation[is_varying]
    sizes = np.maximum(np.abs(observed.low), np.abs(observed.high))
    is_lost = is_varying & (observed.deviation < LEAST_SHARE * sizes) & (sizes > LARGE)
    lost = int(np.count_nonzero(is_lost))
    low = float(observed.low.min())
    high = float(observed.high.max())
    constant = len(observed.low) - len(varying)
    least = 0.0
    most = 0.0
    if len(varying):
        least = float(varying.min())
        most = float(varying.max())
    numbers = counted(len(observed.low), "numbers")
    text = f"{numbers} from {low:.3g} to {high:.3g}, deviations from {least:.3g} to {most:.3g}"
    if constant:
        text += f"; {constant:,} never change"
    figures = {
        "steps": play.steps,
        "numbers": len(observed.low),
        "constant_numbers": constant,
        "observation_min": low,
        "observation_max": high,
        "observation_deviation_min": least,
        "observation_deviation_max": most,
    }
    if config.network is None:
        settings = {}
    else:
        settings = vars(config.network)
    normalizes = settings.get("normalize_observations")  # other networks may not have it
    if lost:
        text += f"; {counted(lost, 'deviations')} below a millionth of the number: lost in float32, which networks get"
        findings.warn(check, text, CURE_FLOAT32, figures)
    elif normalizes:
        findings.ok(check, f"{text}; network.normalize_observations scales them", figures)
    elif not len(varying) or (is_within(least, GOOD_OBSERVATIONS) and is_within(most, GOOD_OBSERVATIONS)):
        findings.ok(check, text, figures)
    else:
        if normalizes is None:
            cure = CURE_RANGE
        else:
            cure = "-o network.normalize_observations=true"
        findings.warn(check, text, cure, figures)
