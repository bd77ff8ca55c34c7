"""What agents with a learner share: a worker's side of the ring, and the learner that applies."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import prod

from torch import Tensor

from a3c_zoo.agents.configs import HandoverConfig
from a3c_zoo.agents.context import OnTick, State, WorkerContext
from a3c_zoo.agents.worker import Applier, Member, RolloutWorker
from a3c_zoo.errors import PluginError
from a3c_zoo.hardware import giga
from a3c_zoo.learning.memory_check import check_fits
from a3c_zoo.learning.windows import Windows
from a3c_zoo.processes.ring import LONGEST_WAIT_S, SHORTEST_WAIT_S, Layout, Ring, ring_memory
from a3c_zoo.records import Report
from a3c_zoo.store.saved_state import loading


class HandoverWorker(RolloutWorker):
    """A worker that fills slots of the ring from sliding windows over its rollouts.

    Args:
        hand_over: fills slots with what the worker's windows complete. Others: see `RolloutWorker`.

    Attributes:
        windows: over the worker's rollouts. `collector.rollout` is the newest one.
    """

    def __init__(
        self, hand_over: HandOver, context: WorkerContext, rank: int, state: State | None, on_tick: OnTick
    ) -> None:
        super().__init__(context, rank, state, on_tick)
        agent = self.agent
        assert isinstance(agent, HandoverConfig)
        self._hand_over = hand_over
        self._ring = Ring(context.exchange)
        self._works_in_turn = not context.exchange["filled"].is_shared()
        self.windows = Windows(self.collector.rollout, agent.reward_steps, self.objective())
        if state and "windows" in state:
            with loading():
                self.windows.load_state_dict(state["windows"])

    def work(self) -> None:
        """Collects one rollout, and hands over the windows that it completes."""
        self.pull()
        self.windows.push(self.collect())
        self.windows.objective = self.objective()
        if self.windows.valid.any():
            self._hand_over(self)

    def claim(self) -> dict[str, Tensor]:
        """Returns the worker's next slot to fill; waits until the learner has emptied one.

        Raises:
            PluginError: worker and learner work in turn, so nobody would empty one.
        """
        return self._ring.claim(self.rank, self._on_wait)

    def _on_wait(self) -> None:
        self.on_tick_of_updates()  # the learner stops last
        if self._works_in_turn and self._ring.is_full(self.rank):  # the learner's turn comes after this one's
            name = self.context.config.agent_name
            raise PluginError(
                f"agent '{name}' fills more slots in a rollout than `agent.slots` has; raise it"
            )

    def commit(self, slot: dict[str, Tensor]) -> None:
        """Hands over the claimed slot, marked with the version of the worker's parameters."""
        slot["version"].fill_(self.updates_at_pull)
        self._ring.commit(self.rank)

    def state_dict(self) -> State:
        state = super().state_dict()
        if "env" in state["collector"]:  # otherwise a resumed run begins new episodes, and new windows
            state["windows"] = self.windows.state_dict()
        return state


#: Fills slots of the ring: `claim`, fill, `commit`.
HandOver = Callable[[HandoverWorker], None]


class Learner(Member):
    """The learner: takes what workers hand over and applies it, one update at a time.

    Agents derive from it and define `take` and `differentiate`.

    Args:
        context: its `exchange` is the ring. Others: see `RolloutWorker`.

    Attributes:
        versions: for each item that was taken for the next update, the count of updates when its worker
            pulled.
    """

    def __init__(self, context: WorkerContext, rank: int, state: State | None, on_tick: OnTick) -> None:
        super().__init__(context, rank, on_tick)
        self.ring, self.applier = Ring(context.exchange), Applier(self)
        self.versions: list[int] = []
        self._worked_s = self._waited_s = 0.0
        self._wait_s = SHORTEST_WAIT_S
        if state:
            with loading():
                self.versions = list(state["versions"])
                self.ring.last = state["last"]

    def work(self) -> None:
        """Takes the next item in the ring, or waits a little for it."""
        start_s = time.monotonic()
        if self._take_next():
            self._worked_s += time.monotonic() - start_s
            self._wait_s = SHORTEST_WAIT_S
        else:
            time.sleep(self._wait_s)
            self._wait_s = min(2 * self._wait_s, LONGEST_WAIT_S)
            self._waited_s += time.monotonic() - start_s

    def finish(self) -> None:
        """Empties the ring. Items that do not make a whole update become part of the learner's state."""
        while self._take_next():
            pass

    def _take_next(self) -> bool:
        """Takes the next item and learns from a whole update; false for an empty ring."""
        self.on_tick()
        if (offered := self.ring.offer()) is None:
            return False
        worker, slot = offered
        self.versions.append(int(slot["version"]))
        is_complete = self.take(slot)
        self.ring.release(worker)
        if not is_complete:
            return True
        wanted = self.wants_metrics()
        gradient, metrics = self.differentiate(wanted)
        applied = self.applier.apply(gradient, self.versions)
        self.versions.clear()
        if wanted:
            self.tell(metrics | applied)
        return True

    def take(self, slot: dict[str, Tensor]) -> bool:
        """Copies or adds up what a slot holds; returns whether there is enough for an update."""
        raise NotImplementedError

    def differentiate(self, want_metrics: bool) -> tuple[Tensor, dict[str, float]]:
        """Returns the gradient `[P]` of what was taken since the last update, and metrics if they are wanted."""
        raise NotImplementedError

    def state_dict(self) -> State:
        return {"versions": list(self.versions), "last": self.ring.last}

    def report(self) -> Report:
        report = super().report()
        if seconds := self._worked_s + self._waited_s:
            report.metrics["learner_utilisation"] = self._worked_s / seconds
        self._worked_s = self._waited_s = 0.0
        return report


def make_ring(
    workers: int, slots: int, layout: Layout, batch_slots: int, is_shared: bool
) -> dict[str, Tensor]:
    """Returns the memory of the ring: every field of the layout `[workers, slots, *shape]`, and two counters.

    Args:
        slots: of each worker. batch_slots: how many slots the learner gathers.
        layout: of one slot, field → shape and dtype; `version` with shape () and int64 must be among them.
        is_shared: whether workers are processes of their own, as without `RunContext.serial`.

    Raises:
        ConfigError: there is not enough memory.
    """
    size = sum(prod(shape) * dtype.itemsize for shape, dtype in layout.values())
    check_fits(
        "what workers hand over to the learner needs",
        (workers * slots + batch_slots) * size,
        f"{workers} × {slots} slots of {giga(size)}, and {giga(batch_slots * size)} that the learner gathers",
        "agent.slots, agent.n_steps, agent.batch_size or env.num_envs",
    )
    return ring_memory(workers, slots, layout, is_shared)
