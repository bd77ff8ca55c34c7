"""The interfaces of workers and crews, and the loop that every agent with workers runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from a3c_zoo.records import Report, RunContext, Snapshot

#: How often a worker reports, in seconds.
REPORT_EVERY_S = 0.1


class CutShort(BaseException):
    """Raised inside a worker, between two environment steps, when its rollout is not to be finished."""


class Worker(Protocol):
    """One worker of an agent, or its learner. It does not depend on processes."""

    def work(self) -> None:
        """Does the work of one rollout; a learner takes what one worker has handed over, or waits briefly."""

    def finish(self) -> None:
        """Does the rest of the work at a standstill: a learner takes what the workers have handed over."""

    def report(self) -> Report:
        """Returns what happened since the last report."""

    def state_dict(self) -> dict[str, Any]:
        """Returns what the next rollout of the worker depends on, apart from shared memory.

        After a rollout that was cut short, it leaves out the environments: a resumed run begins new episodes.
        """

    def close(self) -> None:
        """Closes its environments."""


WorkerFactory = Callable[[Any, int, dict[str, Any] | None, Callable[[], None]], Worker]
"""Builds a worker: `(worker_context, rank, state or None, on_tick)`; a learner has the last rank. It travels, with its
first three arguments, to the worker's process, so all four can be pickled. The worker calls `on_tick` after every
environment step and while it waits; `on_tick` may raise to end the work."""


class Crew(Protocol):
    """Workers under one owner, standing still until `resume`."""

    def start(self) -> None:
        """Builds the workers; returns when all are ready."""

    def resume(self) -> None:
        """Lets the workers work; does nothing if they work already."""

    def poll(self) -> list[Report]:
        """Waits a short time while workers work, and returns their reports."""

    def park(self, cuts: Callable[[], bool] = lambda: False) -> list[Report]:
        """Brings every worker to a standstill at its next rollout boundary; returns the last reports.

        Args:
            cuts: asked while it waits; once it is true, workers stop after their next environment step. Those
                rollouts are lost.
        """

    def states(self) -> list[dict[str, Any]]:
        """Returns the state of each worker at the standstill; an empty list if not all have come to one."""

    def stop(self) -> list[Report]:
        """Ends the workers; never raises, never hangs. Returns the reports that nobody has got."""


def supervise(crew: Crew, context: RunContext, snapshot: Snapshot) -> None:
    """Runs a crew until its run says stop. No worker outlives the call.

    Raises:
        WorkerError: a worker raised, died or hangs, and none may take its place. A checkpoint holds the
            parameters at that time.
    """
    try:
        crew.start()
        context.started(snapshot)
        while True:
            if context.due():  # also before the first step: a resumed run may have used up its budget
                context.record(crew.park(context.cuts_rollouts))
                if not context.settle(snapshot):
                    return
            crew.resume()
            context.record(crew.poll())
    except (Exception, KeyboardInterrupt) as error:
        # The stop comes first, so that no worker changes what is saved.
        context.rescue(snapshot, error, crew.stop())
        raise
    finally:
        crew.stop()
