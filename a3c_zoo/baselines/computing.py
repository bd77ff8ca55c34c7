"""How a baseline computes on this machine, now: with which number of torch's threads, in which vector environment.

On busy cores many threads wait for each other: a small network then takes many times as long as with one
thread. SubprocVecEnv steps environments side by side, and sends each action and observation through a pipe.
Threads and processes want the same cores, so they are timed together.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final, Literal

import numpy as np
import torch
from gymnasium import Space, spaces
from stable_baselines3 import DQN
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor

from a3c_zoo.baselines.baseline_configs import RecurrentPPOConfig, SB3Config
from a3c_zoo.learning.generators import lent_generator

#: How long each kind of work is repeated with each number of threads, in seconds; how often both take turns
#: at most.
MEASURE_S: Final = 0.05
ROUNDS: Final = 3
#: No round begins after so many seconds: a step of slow environments alone can take one.
LIMIT_S: Final = 5.0
#: After a round in which one way was so many times as fast as any other, nothing more is measured.
CLEAR: Final = 3.0
#: How many batches of random actions take turns.
BATCHES: Final = 32

#: DummyVecEnv steps environments one after the other, SubprocVecEnv each in a process.
VecEnvName = Literal["dummy", "subproc"]


@dataclass(frozen=True, slots=True)
class Computing:
    """A way to compute: torch's number of threads, and the vector environment."""

    threads: int
    vec_env: VecEnvName


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    """Sets the number of torch's threads within the context."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def seconds_of_a_rollout(
    model: BaseAlgorithm,
    agent: SB3Config,
    numbers: Sequence[int],
    envs: Mapping[VecEnvName, VecEnv],
    look: Callable[[], object],
) -> dict[Computing, float]:
    """Times the work of one rollout and its updates in each way to compute.

    Parameters and random numbers stay as they are; the environments are stepped. It takes 0.2 to 2 s, and
    more with large networks and slow environments: a round that has begun within `LIMIT_S` is finished.

    Args:
        numbers: of torch's threads.
        envs: environments that have been reset. A single one is not stepped, as it makes no difference.
        look: called between measurements, to show that it goes on.

    Returns:
        The seconds of each way, the mean of what was measured.
    """
    updates, samples = agent.updates(model.n_envs)
    turns: list[dict[Computing, float]] = []
    acting = _outputs(model, agent, model.n_envs)
    learning = _outputs(model, agent, samples)
    stepping = {name: _steps(env) if len(envs) > 1 else _nothing for name, env in envs.items()}

    def learn() -> None:
        learning().backward()  # type: ignore[no-untyped-call]

    end_s = time.perf_counter() + LIMIT_S
    with lent_generator():  # acting samples actions
        while not turns or (len(turns) < ROUNDS and time.perf_counter() < end_s and not _is_clear(turns[-1])):
            turns.append({})
            for threads in numbers:
                with torch_threads(threads):
                    learn_s = updates * _mean_s(learn)
                    for name, step in stepping.items():
                        act_s = agent.rollout_steps * _mean_s(_acts(acting, step))
                        look()
                        turns[-1][Computing(threads, name)] = act_s + learn_s
    model.policy.optimizer.zero_grad()
    return {each: fmean(turn[each] for turn in turns) for each in turns[0]}


def seconds_of_a_step(env: VecEnv) -> float:
    """Times a step of all environments; they have been reset."""
    return _mean_s(_steps(env))


def _is_clear(turn: Mapping[Computing, float]) -> bool:
    """Whether one way was `CLEAR` times as fast as any other."""
    fastest, second = sorted(turn.values())[:2]
    return second >= CLEAR * fastest


def _acts(acting: Callable[[], Tensor], step: Callable[[], object]) -> Callable[[], None]:
    def act() -> None:
        with torch.no_grad():
            acting()
        step()

    return act


def _steps(env: VecEnv) -> Callable[[], object]:
    """Steps environments with random actions."""
    batches = [np.stack([env.action_space.sample() for _ in range(env.num_envs)]) for _ in range(BATCHES)]
    actions = itertools.cycle(batches)
    return lambda: env.step(next(actions))


def _nothing() -> None:
    return


def _mean_s(work: Callable[[], object]) -> float:
    """Repeats work for `MEASURE_S`. The mean counts the times in which threads waited for a busy core.

    The first time makes buffers and threads. It counts only if it alone took longer than `MEASURE_S`.
    """
    start_s = time.perf_counter()
    work()
    first_s = time.perf_counter() - start_s
    if first_s > MEASURE_S > 0:
        return first_s
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
