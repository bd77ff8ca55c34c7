"""What an agent hands to its run, checked where it comes in: one line names the agent and what is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Final

from a3c_zoo.errors import PluginError
from a3c_zoo.records import Episode, Report, Snapshot

#: Fields that hold a finite number.
_OF_REPORT: Final = ("worker", "steps", "updates", "skipped", "first_rollout")
_OF_EPISODE: Final = ("length", "step", "time_s", "worker")


@dataclass(frozen=True, slots=True)
class Border:
    """Checks what one agent hands over in a session.

    Attributes:
        agent: its name. steps: those of the run when the session begins.
        steps_of: worker → the steps of its newest report. Reports of different workers overtake each other.
    """

    agent: str
    steps: int = 0
    steps_of: dict[int, int] = field(default_factory=dict)

    def snapshot(self, given: Snapshot) -> Snapshot:
        """The same snapshot, whose functions check what they return. Raises PluginError if it is none."""
        if not isinstance(given, Snapshot):
            raise self._fault("started(), settle() and rescue() take a Snapshot", given)
        return Snapshot(
            self._checked(given.state, "Snapshot.state", dict),
            given.acting and self._checked(given.acting, "Snapshot.acting", dict),
            given.counts and self._checked_counts(self._checked(given.counts, "Snapshot.counts", Report)),
        )

    def _checked(self, function: Callable[[], Any], name: str, kind: type) -> Callable[[], Any]:
        def checked() -> Any:
            result = function()
            if not isinstance(result, kind):
                raise self._fault(f"{name} must return a {kind.__name__}", result)
            return result

        return checked

    def _checked_counts(self, counts: Callable[[], Report]) -> Callable[[], Report]:
        def checked() -> Report:
            report = counts()
            self._refuse_numbers(report, _OF_REPORT)
            return report

        return checked

    def refuse(self, reports: Sequence[Report]) -> None:
        """Raises PluginError for reports with a field of a wrong type, or with fewer steps than there were."""
        if not isinstance(reports, Sequence):
            raise self._fault("record() takes a list of reports", reports)
        for report in reports:
            if not isinstance(report, Report):
                raise self._fault("record() takes a list of reports", report)
            self._refuse_numbers(report, _OF_REPORT)
            for name in ("metrics", "seconds"):
                self._refuse_values(name, getattr(report, name))
            if not isinstance(report.not_finite, set):
                raise self._fault("Report.not_finite must be a set", report.not_finite)
            if not isinstance(report.episodes, Sequence):
                raise self._fault("Report.episodes must be a list", report.episodes)
            for episode in report.episodes:
                self._refuse_episode(episode)
            if report.steps:  # a report of episodes alone may have none
                self._refuse_fewer_steps(report)

    def _refuse_fewer_steps(self, report: Report) -> None:
        before = self.steps_of.get(report.worker, self.steps)
        if report.steps < before:
            raise PluginError(
                f"agent '{self.agent}': a report has {report.steps:,} steps after {before:,}; "
                "count all steps of the run in Report.steps, also those before a resume"
            )
        self.steps_of[report.worker] = report.steps

    def _refuse_values(self, name: str, values: Mapping[str, float]) -> None:
        """Values may be tensors of one number, too."""
        if not isinstance(values, Mapping):
            raise self._fault(f"Report.{name} must be a dict", values)
        for key, value in values.items():
            if not isinstance(key, str):
                raise self._fault(f"the keys of Report.{name} must be texts", key)
            try:
                float(value)
            except (TypeError, ValueError, OverflowError, RuntimeError):
                raise self._fault(f"Report.{name}[{key!r}] must be a number", value) from None

    def _refuse_episode(self, episode: Episode) -> None:
        if not isinstance(episode, Episode):
            raise self._fault("Report.episodes must hold Episodes", episode)
        self._refuse_numbers(episode, _OF_EPISODE)
        returns = episode.agent_returns
        if not isinstance(returns, Sequence):
            raise self._fault("Episode.agent_returns must be a tuple", returns)
        for value in (episode.episode_return, *returns):  # the return may be infinite, or no number
            if not isinstance(value, Real):
                raise self._fault("the returns of an Episode must be numbers", value)

    def _refuse_numbers(self, record: object, names: Sequence[str]) -> None:
        for name in names:
            value = getattr(record, name)
            if not isinstance(value, Real) or not math.isfinite(value):
                raise self._fault(f"{type(record).__name__}.{name} must be a number", value)

    def _fault(self, what: str, given: object) -> PluginError:
        if isinstance(given, float) and not math.isfinite(given):
            got = f"{given}"
        else:
            got = type(given).__name__
        return PluginError(f"agent '{self.agent}': {what}, not {got}")
