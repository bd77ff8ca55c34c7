"""Uniformly random actions: only the collect stage. Its return is the least that an agent must beat."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from a3c_zoo.baselines.baseline_configs import RandomConfig
from a3c_zoo.config import Config
from a3c_zoo.learning.collector import Collector
from a3c_zoo.learning.contract import CheckedEnvironment
from a3c_zoo.learning.environments import make_vector_env
from a3c_zoo.learning.memory_check import check_memory
from a3c_zoo.learning.model import ModelPolicy, Spaces, probe_spaces
from a3c_zoo.learning.networks import ActorCritic
from a3c_zoo.plugins.entries import EnvEntry, NetworkEntry
from a3c_zoo.processes.crew import supervise
from a3c_zoo.processes.serial import SerialCrew
from a3c_zoo.records import Episode, Report, RunContext, Snapshot
from a3c_zoo.seeds import SEED_ENV, SEED_SAMPLING, seed_for
from a3c_zoo.store.saved_state import loading


class UniformNetwork(ActorCritic):
    """A network whose logits are all 0."""

    def __init__(self, num_logits: int) -> None:
        super().__init__()
        self._num_logits = num_logits

    def policy(self, observations: Tensor) -> Tensor:
        return torch.zeros(len(observations), self._num_logits)


class UniformPolicy(ModelPolicy):
    """Takes random actions where greedy ones are asked for, too: it prefers none."""

    def predict(
        self,
        observation: Any,
        state: tuple[NDArray[Any], ...] | None = None,
        episode_start: NDArray[np.bool_] | None = None,
        deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[Any, tuple[NDArray[Any], ...] | None]:
        return super().predict(observation, state, episode_start, False, action_masks)


class RandomWorker:
    """Collects rollouts and learns nothing.

    Args:
        steps: agent steps of the run so far, `[1]`, int64.
    """

    def __init__(self, collector: Collector, network: UniformNetwork, steps: Tensor) -> None:
        self._collector = collector
        self._network = network
        self._steps = steps
        self._report = Report()

    def work(self) -> None:
        """Collects one rollout."""
        episodes = self._collector.collect(self._network)
        steps = int(self._steps) + self._collector.rollout.valid.sum(axis=1).cumsum()
        now = time.monotonic()
        self._report.episodes += [
            Episode(e.episode_return, e.length, int(steps[e.row]), now, 0, e.agent_returns) for e in episodes
        ]
        self._steps[0] = int(steps[-1])

    def finish(self) -> None:
        """Does nothing: no work is left at a standstill."""

    def report(self) -> Report:
        report = self._report
        self._report = Report()
        report.worker = 0
        report.steps = int(self._steps)
        return report

    def state_dict(self) -> dict[str, Any]:
        return {"collector": self._collector.state_dict()}

    def close(self) -> None:
        self._collector.close()


def run(context: RunContext) -> None:
    """Plays until the run ends; `AgentEntry.run`."""
    entry = context.entry
    config = context.config
    saved = context.checkpoint
    seed = context.config.run.seed
    assert isinstance(config.agent, RandomConfig)
    num_steps = config.agent.n_steps
    num_envs = config.env.num_envs
    spaces = probe_spaces(entry, None, config, context.supported_spaces)
    check_memory(
        spaces.observations,
        workers=1,
        num_envs=num_envs,
        stored_steps=num_steps,
        environment_bytes=config.env.environment_bytes,
    )
    network = UniformNetwork(spaces.actions.num_logits)
    resumes = 0
    steps = torch.zeros(1, dtype=torch.int64)
    states = None
    if saved is not None:
        with loading():
            resumes = int(saved["session"]) + 1
            steps[0] = int(saved["steps"])
            states = list(saved["workers"])

    def worker(_: None, rank: int, state: dict[str, Any] | None, on_tick: Callable[[], None]) -> RandomWorker:
        """Builds the only worker; `state` is its part of a checkpoint, None for new environments."""
        env = make_vector_env(entry, config.env, num_envs, seed_for(seed, SEED_ENV, rank))
        collector = Collector(
            CheckedEnvironment(env, entry.name, spaces.observations),
            spaces.actions,
            num_steps,
            seed_for(seed, SEED_ENV, rank, resumes),
            torch.Generator().manual_seed(seed_for(seed, SEED_SAMPLING, rank, resumes)),
            on_tick,
            num_agents=entry.num_agents,
        )
        if state:
            with loading():
                collector.load_state_dict(state["collector"])
        return RandomWorker(collector, network, steps)

    crew = SerialCrew(worker, None, 1, states, cuts_rollouts=context.cuts_rollouts)

    def state() -> dict[str, Any]:
        return {
            "spaces": spaces.state_dict(),
            "session": resumes,
            "steps": int(steps),
            "workers": crew.states(),
        }

    supervise(crew, context, Snapshot(state, counts=lambda: Report(steps=int(steps))))


def load(
    entry: EnvEntry, network: NetworkEntry | None, config: Config, state: Mapping[str, Any]
) -> UniformPolicy:
    """Returns the policy of a checkpoint; `AgentEntry.load`."""
    spaces = Spaces.from_state_dict(state["spaces"])
    return UniformPolicy(spaces, UniformNetwork(spaces.actions.num_logits), config.run.seed)
