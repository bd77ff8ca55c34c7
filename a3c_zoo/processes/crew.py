"""What a crew of workers is, and the loop that every agent with workers runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from a3c_zoo.records import Report, RunContext, Snapshot

#: Seconds between a worker's reports.
REPORT_EVERY_S = 0.1


class Worker(Protocol):
    """One worker of an agent, or its learner; knows nothing of processes."""

    def work(self) -> None:
        """One rollout's worth of work; for a learner, what one worker has handed over, or a short wait for it."""
        ...

    def finish(self) -> None:
        """What is left to do at a standstill: a learner takes what the workers, who stand still, have handed over."""
        ...

    def report(self) -> Report:
        """What happened since the last report."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """What the worker's next rollout depends on, beside what is shared."""
        ...

    def close(self) -> None:
        """Closes its environments."""
        ...


#: Builds a worker: `(plan, rank, state or None, on_tick)`; a learner has the last rank. A module-level function; `plan`
#: and `state` travel to the worker's process. The worker calls `on_tick` after every environment step and while it
#: waits; it may raise to end the work.
WorkerFactory = Callable[[Any, int, dict[str, Any] | None, Callable[[], None]], Worker]


class Crew(Protocol):
    """Workers under one owner, standing still until `resume`."""

    def start(self) -> None:
        """Builds the workers; returns when all are ready."""
        ...

    def resume(self) -> None:
        """Lets the workers work, if they don't already."""
        ...

    def poll(self) -> list[Report]:
        """Waits a little, lets work, and returns what was reported."""
        ...

    def park(self) -> list[Report]:
        """Brings every worker to a standstill at its next rollout boundary; returns the last reports."""
        ...

    def states(self) -> list[dict[str, Any]]:
        """Each worker's state at the standstill; empty where they were not all brought to one."""
        ...

    def stop(self) -> None:
        """Ends the workers; never raises, never hangs."""
        ...


def supervise(crew: Crew, context: RunContext, snapshot: Snapshot) -> None:
    """Runs a crew until its run says stop. Whatever happens, no worker outlives the call.

    Raises:
        WorkerError: a worker raised, died or hangs. What was learned until then is in a checkpoint.
    """
    try:
        crew.start()
        context.started(snapshot)
        while True:
            if context.due():  # already before the first step: a resumed run may have reached its budget
                context.record(crew.park())
                if not context.settle(snapshot):
                    return
            crew.resume()
            context.record(crew.poll())
    except (Exception, KeyboardInterrupt) as error:
        crew.stop()  # first, so that nobody writes to what is saved
        context.rescue(snapshot, error)
        raise
    finally:
        crew.stop()
