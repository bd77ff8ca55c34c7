"""Trains stable-baselines3's algorithms by their own `learn`, and tells the run what happens.

Everything between SB3 and a run is one light callback: after each environment step it looks for ended episodes, and
between two rollouts it reports and lets the run evaluate, save or end. SB3 runs in the calling process, with its
threads.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback

from a3c_zoo.baselines.baseline_configs import SB3A2CConfig, SB3PPOConfig
from a3c_zoo.baselines.sb3_model import (
    SB3Policy,
    build_model,
    first_action_of,
    make_stack,
    restore,
    saved_state,
)
from a3c_zoo.learning.memory import check_memory
from a3c_zoo.learning.spaces import observation_spec
from a3c_zoo.records import Episode, Report, Snapshot
from a3c_zoo.seeds import SEED_ENV, seed_for

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

    from a3c_zoo.config import Config
    from a3c_zoo.plugins.entries import EnvEntry
    from a3c_zoo.records import RunContext

#: Seconds between reports of rollouts in which no episode ended.
REPORT_EVERY_S = 0.1
#: Steps for `learn`, which wants to know its end; ours is decided between rollouts.
FOR_EVER = 2**62

#: SB3's name of a figure → the name that agents give it, and its sign.
METRICS = {
    "train/policy_loss": ("loss_policy", 1.0),
    "train/policy_gradient_loss": ("loss_policy", 1.0),
    "train/value_loss": ("loss_value", 1.0),
    "train/loss": ("loss_total", 1.0),
    "train/entropy_loss": ("entropy", -1.0),
    "train/learning_rate": ("learning_rate", 1.0),
    "train/explained_variance": ("explained_variance", 1.0),
    "train/approx_kl": ("approx_kl", 1.0),
    "train/clip_fraction": ("clip_fraction", 1.0),
    "train/clip_range": ("clip_range", 1.0),
}


class RunOverError(Exception):
    """The run is over. SB3's loop can be left before a rollout in no other way."""


class UpdateCounter:
    """Counts optimizer steps; SB3's own counter counts PPO's passes, each of several steps."""

    def __init__(self, optimizer: torch.optim.Optimizer, count: int) -> None:
        self.count = count
        optimizer.register_step_post_hook(self._add_one)

    def _add_one(self, *_: Any) -> None:
        self.count += 1


class RunCallback(BaseCallback):
    """Reports to a run, and asks it between rollouts whether to go on.

    Args:
        context: the run. snapshot: what it evaluates and saves. updates: counts the optimizer steps.
    """

    def __init__(self, context: RunContext, snapshot: Snapshot, updates: UpdateCounter) -> None:
        super().__init__()
        self._context, self._snapshot, self._updates = context, snapshot, updates
        self._next_pause = 0
        self._episodes: list[Episode] = []
        self._lengths = np.zeros(context.config.env.num_envs, np.int64)  # agent steps of the episodes under way
        self._next_report_s = 0.0

    def _on_training_start(self) -> None:
        self._context.started(self._snapshot)

    def _on_step(self) -> bool:
        dones: NDArray[np.bool_] = self.locals["dones"]
        self._lengths += 1
        if dones.any():
            now, steps = time.monotonic(), self.model.num_timesteps
            for n, info in enumerate(self.locals["infos"]):
                if (episode := info.get("episode")) is not None:  # from the monitors, below all wrappers: raw returns
                    # Their lengths are in calls of the innermost environment: on Atari, in emulator frames.
                    self._episodes.append(Episode(float(episode["r"]), int(self._lengths[n]), steps, now, 0))
                    self._lengths[n] = 0
        return True

    def _on_rollout_start(self) -> None:
        """The last rollout has been learned from and the next not begun: counts and parameters belong together."""
        now, steps = time.monotonic(), self.model.num_timesteps
        # Whatever can end a run is reported at once, so that runs of one seed end at the same step.
        if self._episodes or steps >= self._next_pause or now >= self._next_report_s:
            self._next_report_s = now + REPORT_EVERY_S
            episodes, self._episodes = self._episodes, []
            self._context.record([Report(0, steps, self._updates.count, episodes, self._metrics())])
            self._next_pause = self._context.config.run.next_pause(steps)
        if self._context.due() and not self._context.settle(self._snapshot):
            raise RunOverError

    def _metrics(self) -> dict[str, float]:
        values = self.logger.name_to_value
        return {name: sign * float(values[key]) for key, (name, sign) in METRICS.items() if key in values}


def sb3_seed(seed: int, session: int) -> int:
    """SB3's seed: the run's, so that its users find their own results again; after a resume, another one.

    NumPy takes no greater one than 32 bits.
    """
    return seed_for(seed, SEED_ENV, session) if session else seed % 2**32


def run(context: RunContext) -> None:
    """Trains until the run says stop.

    A resume goes on with parameters, optimizer, schedules and counts; environments start new episodes and random
    numbers are others, so it doesn't equal a run that was never interrupted.
    """
    entry, config, saved = context.entry, context.config, context.checkpoint
    session = saved["session"] + 1 if saved else 0
    seed = sb3_seed(config.run.seed, session)
    _check_memory(entry, config)
    env = make_stack(entry, config, config.env.num_envs, seed)
    try:
        model = build_model(entry, config, env, seed, config.run.device)
        updates = UpdateCounter(model.policy.optimizer, saved["updates"] if saved else 0)
        if saved:
            restore(model, saved)
        first_action = first_action_of(env)
        snapshot = Snapshot(
            policy=lambda number: SB3Policy(model.policy, first_action, number),
            state=lambda: {**saved_state(model), "updates": updates.count, "session": session},
        )
        _learn(model, RunCallback(context, snapshot, updates), context, snapshot)
    finally:
        env.close()


def _check_memory(entry: EnvEntry, config: Config) -> None:
    """Whether SB3's rollouts fit, asked of one environment. Dictionaries aren't counted.

    Raises:
        ConfigError: they cannot fit.
    """
    agent, num_envs = config.agent, config.env.num_envs
    assert isinstance(agent, SB3A2CConfig | SB3PPOConfig)
    env = make_stack(entry, config, 1, 0)
    space = env.observation_space
    env.close()
    if isinstance(space, spaces.Box):
        rollout = agent.n_steps * num_envs
        samples = min(agent.batch_size, rollout) if isinstance(agent, SB3PPOConfig) else rollout
        on_cpu = samples if config.run.device == "cpu" else 0
        spec = observation_spec(space)
        check_memory(spec, workers=1, num_envs=num_envs, stored_steps=agent.n_steps, update_samples=on_cpu)


def _learn(model: OnPolicyAlgorithm, callback: RunCallback, context: RunContext, snapshot: Snapshot) -> None:
    try:
        model.learn(FOR_EVER, callback, log_interval=None, reset_num_timesteps=False)  # type: ignore[arg-type]
    except RunOverError:
        return
    except (Exception, KeyboardInterrupt) as error:
        context.rescue(snapshot, error)
        raise


def load(entry: EnvEntry, config: Config, state: Mapping[str, Any]) -> SB3Policy:
    """Rebuilds the policy of a checkpoint, on one environment that is made to tell its spaces."""
    # Neither shapes the policy: the least that SB3 accepts, where training needs a buffer for whole rollouts.
    least: dict[str, Any] = {name: 2 for name in ("n_steps", "batch_size") if name in type(config.agent).model_fields}
    config = replace(config, agent=config.agent.model_copy(update=least))
    env = make_stack(entry, config, 1, 0)
    try:
        model = build_model(entry, config, env, seed=None)
        restore(model, state)
        return SB3Policy(model.policy, first_action_of(env), config.run.seed)
    finally:
        env.close()
