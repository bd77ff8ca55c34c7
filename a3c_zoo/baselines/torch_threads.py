"""How many threads torch uses for a baseline: one or all, whichever computes faster on this machine, now.

On busy cores many threads wait for each other: a small network then takes many times as long as with one
thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import fmean
from typing import Any, Final

import numpy as np
import torch
from gymnasium import Space, spaces
from stable_baselines3 import DQN
from stable_baselines3.common.base_class import BaseAlgorithm
from torch import Tensor

from a3c_zoo.baselines.baseline_configs import RecurrentPPOConfig, SB3Config
from a3c_zoo.learning.generators import lent_generator

#: How long each kind of work is repeated with each number of threads, in seconds; how often both take turns
#: at most.
MEASURE_S: Final = 0.05
ROUNDS: Final = 3
#: After a turn in which one number was so many times as fast as the other, nothing more is measured.
CLEAR: Final = 3.0


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    """Sets the number of torch's threads within the context."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def seconds_of_a_rollout(model: BaseAlgorithm, agent: SB3Config) -> dict[int, float]:
    """Times the network's work of one rollout and its updates, with one thread and with all.

    Parameters and random numbers stay as they are. It takes 0.2 to 0.6 s, and more with large networks.

    Returns:
        Number of threads → seconds, the mean of what was measured. Empty if torch has only one thread.
    """
    most = torch.get_num_threads()
    if most == 1 or model.device.type != "cpu":
        return {}
    updates, samples = agent.updates(model.n_envs)
    turns: list[dict[int, float]] = []
    acting = _outputs(model, agent, model.n_envs)
    learning = _outputs(model, agent, samples)

    def act() -> None:
        with torch.no_grad():
            acting()

    def learn() -> None:
        learning().backward()  # type: ignore[no-untyped-call]

    with lent_generator():  # acting samples actions
        while len(turns) < ROUNDS and (
            not turns or max(turns[-1].values()) < CLEAR * min(turns[-1].values())
        ):
            turns.append({})
            for threads in (1, most):
                with torch_threads(threads):
                    turns[-1][threads] = agent.rollout_steps * _mean_s(act) + updates * _mean_s(learn)
    model.policy.optimizer.zero_grad()
    return {threads: fmean(turn[threads] for turn in turns) for threads in (1, most)}


def _mean_s(work: Callable[[], None]) -> float:
    """Repeats work for `MEASURE_S`. The mean counts the times in which threads waited for a busy core."""
    work()  # the first time makes buffers and threads
    count = 0
    start_s = time.perf_counter()
    while (now_s := time.perf_counter()) < start_s + MEASURE_S or not count:
        work()
        count += 1
    return (now_s - start_s) / count


def _outputs(model: BaseAlgorithm, agent: SB3Config, samples: int) -> Callable[[], Tensor]:
    """The network's forward pass for so many observations: returns a sum that depends on all of its outputs."""
    policy: Any = model.policy
    observations, _ = policy.obs_to_tensor(_zeros(model.observation_space, samples))
    if isinstance(model, DQN):
        return lambda: policy.q_net(observations).sum()
    memory: tuple[Any, ...] = ()
    if isinstance(agent, RecurrentPPOConfig):
        from sb3_contrib.common.recurrent.type_aliases import RNNStates

        zeros = torch.zeros(agent.n_lstm_layers, samples, agent.lstm_hidden_size)
        memory = RNNStates((zeros, zeros), (zeros, zeros)), torch.zeros(samples)

    def outputs() -> Tensor:
        if model.use_sde:  # the noise has a graph, which is differentiated once
            policy.reset_noise(samples)
        _, values, log_probabilities, *_ = policy(observations, *memory)
        total: Tensor = values.sum() + log_probabilities.sum()
        return total

    return outputs


def _zeros(space: Space[Any], samples: int) -> Any:
    if isinstance(space, spaces.Dict):
        return {key: _zeros(part, samples) for key, part in space.items()}
    return np.zeros((samples, *(space.shape or ())), space.dtype)
