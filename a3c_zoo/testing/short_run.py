"""A run that lasts a moment and keeps its checkpoint in memory: a `RunContext` for checks."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from a3c_zoo.errors import one_line
from a3c_zoo.learning.model import one_torch_thread
from a3c_zoo.plugins.entries import load_object
from a3c_zoo.records import Report, Snapshot
from a3c_zoo.runs.setup import RunSetup
from a3c_zoo.testing.conformance import through_a_file
from a3c_zoo.testing.findings import Findings

#: Kinds of events that tell what a baseline has measured.
MEASUREMENTS = ("measuring", "torch_threads", "vec_env")
#: An agent may call its run so often after the run has ended.
MOST_CALLS_AFTER_THE_END = 100
#: An agent that asks `due` less often than this cannot be stopped in time, in seconds.
LONGEST_WITHOUT_DUE_S = 30.0


class ShortRun:
    """Trains for some time, stops the agent at a standstill, and keeps its state as a checkpoint would.

    It notes as problems what an agent does against the rules of `a3c_zoo.records.RunContext`.

    Args:
        seconds: training time after which the run is due to end.
        checkpoint: the agent's state to go on from. acting_counts: see `RunContext`.

    Attributes:
        steps: agent steps that were reported. first_steps: those of the first report.
        updates: of the whole run. skipped: updates left out since the start, as their gradients were not
            finite.
        stop_s: how long `run` took to return after the end.
        state, acting: what the snapshot gave at the end, as read from a file; None before.
    """

    def __init__(
        self,
        setup: RunSetup,
        findings: Findings,
        seconds: float,
        checkpoint: Mapping[str, Any] | None = None,
        acting_counts: Report | None = None,
    ) -> None:
        self.entry = setup.entry
        self.network = setup.network
        self.optimizer = setup.optimizer
        self.config = setup.config
        self.serial = setup.serial
        self.supported_spaces = setup.agent.spaces
        self.checkpoint = checkpoint
        self.acting_counts = acting_counts
        self.episodes = self.steps = self.updates = self.skipped = 0
        self.state: dict[str, Any] | None = None
        self.acting: dict[str, Any] | None = None
        self._run = setup.agent.run
        self._findings = findings
        self._seconds = seconds
        self._started_s = self._asked_s = 0.0
        self.first_steps = 0
        self.stop_s = 0.0
        self._first_s = self._last_s = self._ended_s = 0.0
        self._records = 0
        self._calls_after_end = 0
        self._steps_of = dict[int, int]()

    @property
    def steps_per_s(self) -> float:
        """Agent steps a second, from the first report to the last; 0 if there were not two."""
        seconds = self._last_s - self._first_s
        if seconds > 0:
            return (self.steps - self.first_steps) / seconds
        return 0.0

    def run(self) -> None:
        """Trains until the run ends. Raises what the agent raises."""
        with one_torch_thread():  # on busy cores several threads wait for each other
            load_object(self._run)(self)
        self.stop_s = time.monotonic() - self._ended_s
        message = "its run() returned before settle() returned False"
        cure = "train on until `context.settle(snapshot)` returns False"
        self._findings.expect(self.state is not None, "stop", message, cure)

    # What an agent calls

    def workers_ready(self, ready: int, workers: int) -> None:
        """Nobody watches the start."""

    def started(self, snapshot: Snapshot) -> None:
        """The first rollout begins now."""
        self._started_s = self._asked_s = time.monotonic()

    def record(self, reports: Sequence[Report]) -> None:
        """Takes in reports, and checks their counts."""
        self._look("record")
        self._records += 1
        steps_before = self.steps
        for report in reports:
            self.episodes += len(report.episodes)
            self.skipped += report.skipped
            if report.steps:  # a report of episodes alone may have none
                before = self._steps_of.get(
                    report.worker, 0
                )  # reports of different workers overtake each other
                message = f"a report has {report.steps} steps after one with {before}"
                cure = "count all steps of the run in Report.steps, those before a resume too"
                self._findings.expect(report.steps >= before, "reports", message, cure)
                self._steps_of[report.worker] = report.steps
            self.steps = max(self.steps, report.steps)
            self.updates = max(self.updates, report.updates)
        if self.steps > steps_before:
            self._last_s = time.monotonic()
        if not self.first_steps:
            self.first_steps = self.steps
            self._first_s = self._last_s

    def due(self) -> bool:
        """Whether the training time is over and two reports came: so a resume that begins from 0 shows fewer steps."""
        self._look("due")
        self._asked_s = time.monotonic()
        return self.steps > 0 and self._records > 1 and self._asked_s - self._started_s >= self._seconds

    def cuts_rollouts(self) -> bool:
        """Rollouts are finished."""
        return False

    def settle(self, snapshot: Snapshot) -> bool:
        """Keeps the agent's state, as read from a checkpoint, and ends the run."""
        self._look("settle")
        if self.state is None:
            self._ended_s = time.monotonic()
            self.state = self._saved("Snapshot.state", snapshot.state())
            if snapshot.acting:
                self.acting = self._saved("Snapshot.acting", snapshot.acting())
            else:
                self.acting = None
        return False

    def event(self, kind: str, text: str, **facts: object) -> None:
        """Notes an event, such as the death of a worker, as a problem."""
        if kind in MEASUREMENTS:
            return
        self._findings.problem(
            "workers", f"{kind}: {text}", "correct what the worker raises, or what ends it"
        )

    def uncounted(self) -> AbstractContextManager[None]:
        """CPU seconds are not counted here."""
        return nullcontext()

    def rescue(self, snapshot: Snapshot, error: BaseException, reports: Sequence[Report] = ()) -> None:
        """The agent has failed; its error tells why."""

    def _look(self, method: str) -> None:
        """Checks the order of calls. Raises CheckFailedError if the agent would never end."""
        if not self._started_s:
            cure = "call `context.started(snapshot)` before the first step"
            self._findings.problem("start", f"it calls {method}() before started()", cure)
            self._started_s = self._asked_s = time.monotonic()
        if self.state is not None:
            self._calls_after_end += 1
            if self._calls_after_end > MOST_CALLS_AFTER_THE_END:
                self._findings.stop(
                    "stop", "it goes on after settle() returned False", "return from run() then"
                )
        elif time.monotonic() - self._asked_s > LONGEST_WITHOUT_DUE_S:
            message = f"it did not ask due() for {LONGEST_WITHOUT_DUE_S:g} s: the run cannot stop it"
            self._findings.stop("stop", message, "ask `context.due()` after each report")

    def _saved(self, what: str, state: dict[str, Any]) -> dict[str, Any]:
        try:
            restored: dict[str, Any] = through_a_file(state)
        except Exception as error:
            cure = "return tensors, numbers, strings, and lists and dictionaries of them"
            self._findings.stop("save", f"{what}() cannot be saved: {one_line(error)}", cure, error)
        return restored
