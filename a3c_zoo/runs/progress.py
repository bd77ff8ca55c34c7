"""How far a run has come: the seconds of its parts, its counts, its last 100 episodes, its metrics and its speed."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from a3c_zoo.records import Episode, EvaluatorResult, Progress, Report
from a3c_zoo.runs.checkpoints import RunState, WindowState

#: Episodes in a mean return.
WINDOW = 100
#: The speed is a mean over this time.
SPEED_WINDOW_S = 5.0


@dataclass(slots=True)
class Clock:
    """Adds up the seconds of each part, over all sessions of a run. Training seconds are without the other parts.

    Attributes:
        seconds: part ("startup", "training", "evaluation", "checkpoint") → seconds of its finished stretches.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    _part: str = "startup"
    _since_s: float = field(default_factory=time.monotonic)

    def switch(self, part: str) -> None:
        """Ends the current part and begins another."""
        now = time.monotonic()
        self.seconds[self._part] = self.seconds.get(self._part, 0.0) + now - self._since_s
        self._part, self._since_s = part, now

    def go_on_from(self, seconds: Mapping[str, float]) -> None:
        """Adds the seconds of earlier sessions."""
        for part, earlier_s in seconds.items():
            self.seconds[part] = self.seconds.get(part, 0.0) + earlier_s

    @contextmanager
    def during(self, part: str) -> Iterator[None]:
        """Counts the body as `part`, then goes on with what was counted before."""
        before = self._part
        self.switch(part)
        try:
            yield
        finally:
            self.switch(before)

    def of(self, part: str, at_s: float | None = None) -> float:
        """Seconds of a part until `at_s` (`time.monotonic()`), by default until now."""
        running = (time.monotonic() if at_s is None else at_s) - self._since_s if part == self._part else 0.0
        return self.seconds.get(part, 0.0) + running

    @property
    def total_s(self) -> float:
        """Seconds of all parts."""
        return sum(self.seconds.values()) + time.monotonic() - self._since_s


class EpisodeWindow:
    """The last 100 episodes, in the order in which they ended."""

    def __init__(self, saved: WindowState | None = None) -> None:
        self.returns: deque[float] = deque(saved.returns if saved else (), WINDOW)
        self.lengths: deque[int] = deque(saved.lengths if saved else (), WINDOW)

    def add(self, episode_return: float, length: int) -> None:
        """Takes in one more episode."""
        self.returns.append(episode_return)
        self.lengths.append(length)

    @property
    def is_full(self) -> bool:
        """Whether it covers 100 episodes."""
        return len(self.returns) == WINDOW

    @property
    def mean_return(self) -> float | None:
        """Mean return, None while empty."""
        return sum(self.returns) / len(self.returns) if self.returns else None

    @property
    def mean_length(self) -> float | None:
        """Mean length in steps, None while empty."""
        return sum(self.lengths) / len(self.lengths) if self.lengths else None

    def state(self) -> WindowState:
        """For a checkpoint."""
        return WindowState(list(self.returns), list(self.lengths))


class RunProgress:
    """Adds up what the agent reports, over all sessions of the run.

    Attributes:
        steps: agent steps. episodes: finished episodes. updates: optimizer steps. metrics: the newest value of each.
    """

    def __init__(self, clock: Clock, saved: RunState | None) -> None:
        self._clock = clock
        self.steps, self.episodes, self.updates = (saved.steps, saved.episodes, saved.updates) if saved else (0, 0, 0)
        self.window = EpisodeWindow(saved.window if saved else None)
        self.metrics: dict[str, float] = {}
        self._speeds: deque[tuple[float, int]] = deque()  # (training seconds, steps) of the last seconds

    def add(self, reports: Sequence[Report], episodes: Sequence[Episode]) -> None:
        """Takes in reports, and their episodes in the order in which they ended."""
        for episode in episodes:  # as plain numbers: a checkpoint that holds NumPy's cannot be read
            self.window.add(float(episode.episode_return), int(episode.length))
        self.episodes += len(episodes)
        for report in reports:
            self.steps = max(self.steps, int(report.steps))
            self.updates = max(self.updates, int(report.updates))
            self.metrics.update(report.metrics)

    def now(self, evaluator: EvaluatorResult | None = None) -> Progress:
        """Where the run stands. evaluator: the newest result of the evaluator beside training."""
        training_s, speeds = self._clock.of("training"), self._speeds
        if not speeds or training_s > speeds[-1][0]:
            speeds.append((training_s, self.steps))
        while len(speeds) > 2 and speeds[1][0] < training_s - SPEED_WINDOW_S:
            speeds.popleft()
        seconds, steps = training_s - speeds[0][0], self.steps - speeds[0][1]
        return Progress(
            steps=self.steps,
            episodes=self.episodes,
            updates=self.updates,
            training_s=training_s,
            steps_per_s=steps / seconds if seconds > 0 else 0.0,
            mean_return_100=self.window.mean_return,
            mean_length_100=self.window.mean_length,
            window=len(self.window.returns),
            metrics=self.metrics,
            evaluator=evaluator,
        )
