"""A3C, Hogwild: every worker collects, differentiates and applies, without a lock, on shared parameters.

    collect ──▶ differentiate ──▶ apply        all three in every worker; there is no learner

With `agent.locking: apply` a lock stands round apply alone, so that what it costs or gains can be measured.

(Mnih et al. 2016, arXiv:1602.01783, algorithm S3; Recht et al. 2011, arXiv:1106.5730, for the missing lock.)
"""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.synchronize import Lock
from typing import Any

from a3c_zoo.agents.configs import A3CConfig
from a3c_zoo.agents.context import WorkerContext
from a3c_zoo.agents.hogwild import HogwildWorker
from a3c_zoo.agents.training import train, update_columns
from a3c_zoo.learning.model import Model
from a3c_zoo.processes.start import process_context
from a3c_zoo.records import RunContext


class A3CWorker(HogwildWorker):
    """One worker: all three stages, over and over."""

    def __init__(
        self, plan: WorkerContext, rank: int, state: dict[str, Any] | None, on_tick: Callable[[], None]
    ) -> None:
        super().__init__(plan, rank, state, on_tick)
        assert isinstance(plan.config.agent, A3CConfig)
        self._columns = update_columns(plan.config.agent, plan.config.env.num_envs)

    def work(self) -> None:
        """Collects one rollout and learns from it, in one update or several."""
        self.pull()
        self.collect()
        for number, columns in enumerate(self._columns):
            if number:
                self.pull()
            self.update(columns)


def run(context: RunContext) -> None:
    """Trains until the run says stop; `AgentEntry.run` of `a3c`."""
    config = context.config.agent
    assert isinstance(config, A3CConfig)
    update_columns(config, context.config.env.num_envs)

    def exchange(model: Model) -> Lock | None:
        is_needed = config.locking == "apply" and not context.serial
        return process_context(context.config.run.start_method).Lock() if is_needed else None

    train(context, A3CWorker, n_steps=config.n_steps, update_samples=config.update_samples, exchange=exchange)
