"""How far a run has come: its counts, its last 100 episodes, its newest metrics and its speed."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from a3c_zoo.records import Episode, EvaluatorResult, Progress, Report
from a3c_zoo.runs.checkpoints import WindowState

if TYPE_CHECKING:
    from a3c_zoo.runs.checkpoints import RunState
    from a3c_zoo.runs.clock import Clock

#: Episodes in a mean return.
WINDOW = 100
#: The speed is a mean over this time.
SPEED_WINDOW_S = 5.0


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
