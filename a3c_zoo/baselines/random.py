"""Uniformly random actions: only the collect stage. Its score is the least that an agent must beat."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from a3c_zoo.baselines.baseline_configs import RandomConfig
from a3c_zoo.config import Config
from a3c_zoo.learning.collector import Collector
from a3c_zoo.learning.contract import CheckedEnvironment
from a3c_zoo.learning.environments import make_vector_env
from a3c_zoo.learning.memory import check_memory
from a3c_zoo.learning.model import ModelPolicy, Spaces, probe_spaces
from a3c_zoo.learning.networks import ActorCritic
from a3c_zoo.plugins.entries import EnvEntry, NetworkEntry
from a3c_zoo.processes.crew import supervise
from a3c_zoo.processes.serial import SerialCrew
from a3c_zoo.records import Episode, Report, RunContext, Snapshot
from a3c_zoo.seeds import SEED_ENV, SEED_SAMPLING, seed_for


class UniformNetwork(ActorCritic):
    """A network whose logits are all 0."""

    def __init__(self, num_logits: int) -> None:
        super().__init__()
        self._num_logits = num_logits

    def policy(self, observations: Tensor) -> Tensor:
        return torch.zeros(len(observations), self._num_logits)


@dataclass(frozen=True, slots=True)
class _Inputs:
    """What the one worker gets.

    Attributes:
        steps: agent steps so far, `[1]`, int64.
        resumes: how often the run was resumed.
    """

    entry: EnvEntry
    config: Config
    spaces: Spaces
    steps: Tensor
    resumes: int


class RandomWorker:
    """Collects rollouts and learns nothing."""

    def __init__(self, inputs: _Inputs, rank: int, state: dict[str, Any] | None, on_tick: Callable[[], None]) -> None:
        config, spaces, seed = inputs.config, inputs.spaces, inputs.config.run.seed
        assert isinstance(config.agent, RandomConfig)
        self._network, self._report, self._steps = UniformNetwork(spaces.actions.num_logits), Report(), inputs.steps
        env = make_vector_env(inputs.entry, config.env, config.env.num_envs, seed_for(seed, SEED_ENV, rank))
        self._collector = Collector(
            CheckedEnvironment(env, inputs.entry.name, spaces.observations),
            spaces.actions,
            config.agent.n_steps,
            seed_for(seed, SEED_ENV, rank, inputs.resumes),
            torch.Generator().manual_seed(seed_for(seed, SEED_SAMPLING, rank)),
            on_tick,
        )
        if state:
            self._collector.load_state_dict(state["collector"])

    def work(self) -> None:
        """Collects one rollout."""
        episodes = self._collector.collect(self._network)
        steps, now = int(self._steps) + self._collector.rollout.valid.sum(axis=1).cumsum(), time.monotonic()
        self._report.episodes += [Episode(e.episode_return, e.length, int(steps[e.row]), now, 0) for e in episodes]
        self._steps[0] = int(steps[-1])

    def finish(self) -> None:
        """Does nothing: no work is left at a standstill."""

    def report(self) -> Report:
        report, self._report = self._report, Report()
        report.worker, report.steps = 0, int(self._steps)
        return report

    def state_dict(self) -> dict[str, Any]:
        return {"collector": self._collector.state_dict()}

    def close(self) -> None:
        self._collector.env.close()


def run(context: RunContext) -> None:
    """Plays until the run ends; `AgentEntry.run`."""
    config, saved = context.config, context.checkpoint
    assert isinstance(config.agent, RandomConfig)
    spaces = probe_spaces(context.entry, None, config, context.supported_spaces)
    check_memory(spaces.observations, workers=1, num_envs=config.env.num_envs, stored_steps=config.agent.n_steps)
    network = UniformNetwork(spaces.actions.num_logits)
    resumes = saved["session"] + 1 if saved else 0
    steps = torch.tensor([saved["steps"] if saved else 0])
    inputs = _Inputs(context.entry, config, spaces, steps, resumes)
    crew = SerialCrew(RandomWorker, inputs, 1, saved["workers"] if saved else None)

    def state() -> dict[str, Any]:
        return {"spaces": spaces.state_dict(), "session": resumes, "steps": int(steps), "workers": crew.states()}

    supervise(crew, context, Snapshot(lambda seed: ModelPolicy(spaces, network, seed), state))


def load(entry: EnvEntry, network: NetworkEntry | None, config: Config, state: Mapping[str, Any]) -> ModelPolicy:
    """Returns the policy of a checkpoint; `AgentEntry.load`."""
    spaces = Spaces.from_state_dict(state["spaces"])
    return ModelPolicy(spaces, UniformNetwork(spaces.actions.num_logits), config.run.seed)
