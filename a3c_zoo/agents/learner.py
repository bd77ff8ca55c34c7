"""What agents with a learner share: workers that make samples of sliding windows, and the learner that applies."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import prod
from typing import Any

from torch import Tensor

from a3c_zoo.agents.apply import Applier
from a3c_zoo.agents.configs import HandoverConfig
from a3c_zoo.agents.context import WorkerContext, misfit
from a3c_zoo.agents.training import check_live
from a3c_zoo.agents.worker import Member, RolloutWorker
from a3c_zoo.config import Config
from a3c_zoo.errors import ConfigError
from a3c_zoo.learning.memory import check_handover_memory
from a3c_zoo.learning.windows import Windows
from a3c_zoo.processes.ring import LONGEST_WAIT_S, SHORTEST_WAIT_S, Layout, Ring, ring_memory
from a3c_zoo.records import Report


class WindowWorker(RolloutWorker):
    """A worker whose samples are sliding windows; agents say what is handed over of them."""

    def __init__(
        self, plan: WorkerContext, rank: int, state: dict[str, Any] | None, on_tick: Callable[[], None]
    ) -> None:
        agent = plan.config.agent
        assert isinstance(agent, HandoverConfig)
        super().__init__(plan, rank, state, on_tick, agent.n_steps)
        self.ring = Ring(plan.exchange)
        self.windows = Windows(
            self.collector.rollout, agent.reward_steps, agent.gamma, agent.clip_rewards, agent.reward_scale
        )
        self._is_live = agent.pull == "live"
        if self._is_live:
            self.model.flat.attach(plan.parameters)
        if state and "windows" in state:
            try:
                self.windows.load_state_dict(state["windows"])
            except (KeyError, RuntimeError, ValueError) as error:
                raise misfit(error) from error

    def pull(self) -> None:
        if not self._is_live:
            return super().pull()
        self.model.pull_statistics(self.plan.statistics)
        self.updates_at_pull = self.counters.updates

    def work(self) -> None:
        """Collects one rollout and hands over the samples that it completes."""
        self.pull()
        self.collect()
        self.windows.push(self.collector.rollout)
        if self.windows.valid.any():
            self.hand_over()

    def hand_over(self) -> None:
        """Puts into the ring what the learner needs of the windows."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        if "env" in state["collector"]:  # else a resumed run begins new episodes
            state["windows"] = self.windows.state_dict()
        return state


class Learner(Member):
    """The learner: takes what workers hand over and applies it, an update at a time; agents say how."""

    def __init__(
        self, plan: WorkerContext, rank: int, state: dict[str, Any] | None, on_tick: Callable[[], None]
    ) -> None:
        assert plan.optimizer_state is not None
        super().__init__(plan, rank, on_tick)
        self.ring = Ring(plan.exchange)
        #: Of the parameters with which the newest samples of what was taken for the next update were collected.
        self.versions: list[int] = []
        self._applier = Applier(self, plan.optimizer_state)
        self._worked_s = self._waited_s = 0.0
        self._wait_s = SHORTEST_WAIT_S
        if state:
            try:
                self.versions, self.ring.last = list(state["versions"]), state["last"]
            except KeyError as error:
                raise misfit(error) from error

    def work(self) -> None:
        """Takes what is next in the ring, or waits a little for it."""
        start_s = time.monotonic()
        if self._take_next():
            self._worked_s += time.monotonic() - start_s
            self._wait_s = SHORTEST_WAIT_S
        else:
            time.sleep(self._wait_s)
            self._wait_s = min(2 * self._wait_s, LONGEST_WAIT_S)
            self._waited_s += time.monotonic() - start_s

    def finish(self) -> None:
        """Empties the ring. What makes no whole update is part of the learner's state."""
        while self._take_next():
            pass

    def _take_next(self) -> bool:
        self.on_tick()
        if (offered := self.ring.offer()) is None:
            return False
        worker, slot = offered
        self.versions.append(int(slot["version"]))
        is_complete = self.take(slot)
        self.ring.release(worker)
        if is_complete:
            self.learn()
        return True

    def take(self, slot: dict[str, Tensor]) -> bool:
        """Copies or adds up what a slot holds; returns whether that makes an update."""
        raise NotImplementedError

    def learn(self) -> None:
        """Makes one update of what was taken."""
        raise NotImplementedError

    def apply(self, gradient: Tensor) -> dict[str, float]:
        """Applies the gradient `[P]` of what was taken since the last update; see `Applier.apply`."""
        applied = self._applier.apply(gradient, self.versions)
        self.versions.clear()
        return applied

    def state_dict(self) -> dict[str, Any]:
        return {"versions": list(self.versions), "last": self.ring.last}

    def report(self) -> Report:
        report = super().report()
        if seconds := self._worked_s + self._waited_s:
            report.metrics["learner_utilisation"] = self._worked_s / seconds
        self._worked_s = self._waited_s = 0.0
        return report


def check_handover(config: Config) -> None:
    """Raises ConfigError for a network that these agents cannot take, or not act with as the configuration says."""
    assert isinstance(config.agent, HandoverConfig)
    core = getattr(config.network, "recurrent", "none")
    if core != "none" and getattr(config.agent, "transfer", "") == "transitions":
        raise ConfigError(
            f"network.recurrent: {core} — a transition doesn't tell what preceded it. Hand over whole rollouts "
            "(-o agent.transfer=microbatches), or leave the core out"
        )
    if config.agent.pull == "live":
        check_live(config, "-o agent.pull=rollout, or ")


def make_ring(config: Config, slots: int, layout: Layout, batch_slots: int, is_shared: bool) -> dict[str, Tensor]:
    """The memory of the ring (`ring_memory`), if there is as much.

    Args:
        slots: of each worker. layout: of one of them. batch_slots: see `check_handover_memory`.

    Raises:
        ConfigError: there is not.
    """
    size = sum(prod(shape) * dtype.itemsize for shape, dtype in layout.values())
    check_handover_memory(size, workers=config.run.workers, slots=slots, batch_slots=batch_slots)
    return ring_memory(config.run.workers, slots, layout, is_shared)


def rows_in_memory(config: HandoverConfig) -> int:
    """Observations that each worker's rollout and windows hold for each environment."""
    return 2 * config.n_steps + config.reward_steps
