"""N-step actor-critic, Hogwild, as the textbook has it: one environment a worker, rollouts that end with the episode.

    collect ──▶ differentiate ──▶ apply        all three in every worker, which acts with the live parameters

(Zai & Brown, "Deep Reinforcement Learning in Action", 2020, chapter 5.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from a3c_zoo.agents.configs import TextbookConfig
from a3c_zoo.agents.context import WorkerContext
from a3c_zoo.agents.hogwild import HogwildWorker
from a3c_zoo.agents.training import check_live, train
from a3c_zoo.processes.crew import WorkerFactory
from a3c_zoo.records import RunContext


class NStepWorker(HogwildWorker):
    """One worker. It pulls nothing: its network's parameters are the shared ones, live."""

    def __init__(
        self, plan: WorkerContext, rank: int, state: dict[str, Any] | None, on_tick: Callable[[], None]
    ) -> None:
        super().__init__(plan, rank, state, on_tick, cut_at_end=True)
        self.model.flat.attach(plan.parameters)

    def work(self) -> None:
        """Collects one rollout and learns from it in one update."""
        self.model.pull_statistics(self.plan.statistics)
        self.updates_at_pull = self.counters.updates
        self.collect()
        self.update(slice(None))


def run(context: RunContext) -> None:
    """Trains until the run says stop; `AgentEntry.run` of `nstep`."""
    train_live(context, NStepWorker)


def train_live(context: RunContext, worker: WorkerFactory) -> None:
    """Trains workers of one environment each, on the live parameters.

    Raises:
        ConfigError: the network cannot compute with the shared parameters.
    """
    agent = context.config.agent
    assert isinstance(agent, TextbookConfig)
    check_live(context.config)
    train(context, worker, n_steps=agent.n_steps + 1)  # and the step that an environment may ignore
