"""How far a run has come, and when it ends: on a signal, by its budgets, because a plugin says so, or once solved.

`RunProgress` has the counts, the last 100 episodes, the metrics and the speed. `Stopping` decides by them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from a3c_zoo.errors import RunDirectoryError
from a3c_zoo.records import (
    RETURN_WINDOW,
    Episode,
    Evaluation,
    EvaluatorResult,
    Progress,
    Reason,
    Report,
    Snapshot,
)
from a3c_zoo.runs.resources import Clock, Usage
from a3c_zoo.runs.setup import RunSetup, Watch
from a3c_zoo.runs.signals import StopEvaluationError
from a3c_zoo.runs.solved_check import SolvedCheck
from a3c_zoo.store.checkpoints import RunState, WindowState
from a3c_zoo.words import counted, return_text

#: No mean return counts as the best one before so many episodes of the run.
FEWEST_EPISODES = 20
#: The speed is a mean over this time.
SPEED_WINDOW_S = 5.0
#: With each report what earlier ones tell of `Report.seconds` counts less, so that shares are those of about the last
#: hundred reports.
KEPT_OF_SECONDS = 0.99


class RunProgress:
    """Adds up what the agent reports, over all sessions of the run.

    Args:
        agents: the names of the agents that play together (`EnvEntry.agents`).

    Attributes:
        steps: agent steps. episodes: finished episodes. updates: optimizer steps. metrics: the newest value of each.
        not_finite: names of metrics of which values were not finite.
        skipped: updates of this session that were not made, because their gradient was not finite.
        first_rollout: see `Progress`.
        returns, lengths: those of the last 100 episodes, in the order in which they ended. agent_returns: those of each
            agent in them, if several agents play.
        best_return, best_training_s: see `Progress`.
    """

    def __init__(self, clock: Clock, saved: RunState | None, agents: tuple[str, ...] = ()) -> None:
        self._clock = clock
        self._agents = agents
        if saved:
            self.steps = saved.steps
            self.episodes = saved.episodes
            self.updates = saved.updates
        else:
            self.steps = 0
            self.episodes = 0
            self.updates = 0
        self.returns: deque[float] = deque(saved.window.returns if saved else (), RETURN_WINDOW)
        self.lengths: deque[int] = deque(saved.window.lengths if saved else (), RETURN_WINDOW)
        kept = saved.window.agent_returns if saved else ()
        self.agent_returns: deque[list[float]] = deque(kept, RETURN_WINDOW)
        self.metrics: dict[str, float] = {}
        self.not_finite: set[str] = set()
        self.skipped = self.first_rollout = 0
        self.best_return: float | None = None
        self.best_training_s = 0.0
        self._seconds: dict[str, float] = {}  # part → seconds of late
        self._speeds: deque[tuple[float, int]] = deque()  # (training seconds, steps) of the last seconds

    def add(self, reports: Sequence[Report], episodes: Sequence[Episode]) -> None:
        """Takes in reports, and their episodes in the order in which they ended."""
        for episode in episodes:  # as plain numbers: a checkpoint that holds NumPy's cannot be read
            self.returns.append(float(episode.episode_return))
            self.lengths.append(int(episode.length))
            if self._agents and episode.agent_returns:
                self.agent_returns.append([float(each) for each in episode.agent_returns])
        self.episodes += len(episodes)
        for report in reports:
            self.steps = max(self.steps, int(report.steps))
            self.updates = max(self.updates, int(report.updates))
            self.metrics.update({name: float(value) for name, value in report.metrics.items()})
            self.not_finite |= report.not_finite
            self.skipped += report.skipped
            self.first_rollout = report.first_rollout
            self._add_seconds(report.seconds)
        if self.skipped:
            self.metrics["skipped_updates"] = self.skipped

    def _add_seconds(self, seconds: Mapping[str, float]) -> None:
        for part, part_s in seconds.items():
            self._seconds[part] = KEPT_OF_SECONDS * self._seconds.get(part, 0.0) + part_s

    @property
    def mean_return(self) -> float | None:
        """Mean return of the last 100 episodes, None before the first."""
        if self.returns:
            return sum(self.returns) / len(self.returns)
        return None

    @property
    def mean_agent_returns(self) -> dict[str, float]:
        """Name of an agent → its mean return in the last 100 episodes; empty if none has ended, or one agent plays."""
        columns = zip(*self.agent_returns, strict=True)
        means = [sum(column) / len(column) for column in columns]
        return dict(zip(self._agents, means, strict=bool(means)))

    def window(self) -> WindowState:
        """The last 100 episodes, for a checkpoint."""
        return WindowState([*self.returns], [*self.lengths], [*self.agent_returns])

    def now(self, evaluator: EvaluatorResult | None = None, usage: Usage | None = None) -> Progress:
        """Where the run stands.

        Args:
            evaluator: the newest result of the evaluator beside training. usage: of the machine.
        """
        training_s = self._clock.of("training")
        speeds = self._speeds
        if not speeds or training_s > speeds[-1][0]:
            speeds.append((training_s, self.steps))
        while len(speeds) > 2 and speeds[1][0] < training_s - SPEED_WINDOW_S:
            speeds.popleft()
        seconds = training_s - speeds[0][0]
        steps = self.steps - speeds[0][1]
        mean = self.mean_return
        is_best = mean is not None and (self.best_return is None or mean > self.best_return)
        if is_best and self.episodes >= FEWEST_EPISODES:
            self.best_return = mean
            self.best_training_s = training_s
        all_s = sum(self._seconds.values())
        return Progress(
            steps=self.steps,
            episodes=self.episodes,
            updates=self.updates,
            training_s=training_s,
            steps_per_s=steps / seconds if seconds > 0 else 0.0,
            mean_return_100=mean,
            mean_length_100=sum(self.lengths) / len(self.lengths) if self.lengths else None,
            window=len(self.returns),
            metrics=self.metrics,
            evaluator=evaluator,
            first_rollout=self.first_rollout,
            best_return=self.best_return,
            best_training_s=self.best_training_s,
            time_shares={part: part_s / all_s for part, part_s in self._seconds.items()} if all_s > 0 else {},
            cores=usage.cores if usage else None,
            memory_mib=usage.memory_mib if usage else None,
            agent_returns_100=self.mean_agent_returns,
        )


class Stopping:
    """The decision of one session.

    Attributes:
        target: mean return of the last 100 episodes at which the run is checked; None if it never is.
        evaluation: the newest solved check, after `evaluation_step` steps.
        evaluations: solved checks so far, in all sessions.
        next_check: episodes at which the next solved check may come.
        ended: why the run has ended, and more about it; None while it goes on.
    """

    def __init__(
        self, setup: RunSetup, watch: Watch, progress: RunProgress, check: SolvedCheck, saved: RunState | None
    ) -> None:
        self._setup = setup
        self._run = setup.config.run
        self._watch = watch
        self._progress = progress
        self._solved_check = check
        self.target = setup.target
        self.evaluation: Evaluation | None = saved.evaluation if saved else None
        if saved:
            self.evaluation_step = saved.evaluation_step
        else:
            self.evaluation_step = None
        self.evaluations = saved.evaluations if saved else 0
        self.next_check = saved.next_check if saved else RETURN_WINDOW
        self.ended: tuple[Reason, str] | None = None

    def why(self) -> tuple[Reason, str] | None:
        """Why the run must end now, apart from being solved; None if it need not end."""
        run = self._run
        progress = self._progress
        if self._watch.stop.detail:
            return "interrupted", self._watch.stop.detail
        if run.steps is not None and progress.steps >= run.steps:
            return "steps", f"{run.steps:,} steps done"
        if run.episodes is not None and progress.episodes >= run.episodes:
            return "episodes", f"{counted(run.episodes, 'episodes')} done"
        if self.is_time_over():
            return "time-limit", f"{run.time_limit_s:,.10g} s are over"
        if self._watch.stop.plugin:
            return ("plugin", self._watch.stop.plugin)
        return None

    def is_time_over(self) -> bool:
        """Whether the run's time limit is reached."""
        limit_s = self._run.time_limit_s
        return limit_s is not None and self._watch.clock.of("training") >= limit_s

    def expected_steps(self) -> float | None:
        """Agent steps of the whole run if it ends by a budget, at the mean speed so far; None without a budget."""
        run = self._run
        progress = self._progress
        used = [
            spent / limit
            for spent, limit in (
                (progress.steps, run.steps),
                (progress.episodes, run.episodes),
                (self._watch.clock.of("training"), run.time_limit_s),
            )
            if limit is not None
        ]
        if used and max(used) > 0:
            return progress.steps / max(used)
        return None

    def is_check_due(self) -> bool:
        """Whether the last 100 episodes have reached the target."""
        mean = self._progress.mean_return
        is_allowed = self._progress.episodes >= self.next_check
        return is_allowed and self.target is not None and mean is not None and mean >= self.target

    def decide(self, snapshot: Snapshot) -> None:
        """Plays a solved check that is due, and fills in `ended`. Training stands still."""
        try:
            if self.is_check_due():
                self._check(snapshot)
        finally:  # rollouts that the time limit has cut are not gone on with, whatever comes of the check
            self.ended = self.ended or self.why()

    def _check(self, snapshot: Snapshot) -> None:
        """Plays episodes on fresh seeds, and decides whether the run is solved by their mean return, too."""
        run = self._run
        watch = self._watch
        assert self.target is not None
        reached = f"the last {RETURN_WINDOW} episodes reached {self.target:,.10g}"
        watch.observer.message(f"{reached}: playing {run.evaluation_episodes:,} on fresh seeds")
        try:
            with watch.clock.during("evaluation"):
                self.evaluation = self._solved_check.play(snapshot, self._progress.steps, self.evaluations)
                self.evaluation_step = self._progress.steps
        except StopEvaluationError:
            return  # a resumed run begins with this check
        except RunDirectoryError as fault:
            watch.observer.message(f"the evaluation is put off: {fault}")
            self.put_check_off()
            return
        self.put_check_off()
        self.evaluations += 1
        mean = self.evaluation.mean_return
        if mean >= self.target:
            self.ended = (
                ("solved" if run.stop_return is None else "stop-return"),
                f"evaluation mean {return_text(mean)}",
            )
        else:
            watch.observer.message(f"their mean is {return_text(mean)}: training goes on")

    def put_check_off(self) -> None:
        """The next solved check comes 100 episodes later."""
        self.next_check = self._progress.episodes + RETURN_WINDOW

    def is_solved(self, reason: Reason) -> bool:
        """Whether a run that ends for this reason has reached its environment's threshold, in training and check."""
        threshold = self._setup.entry.threshold
        mean = self._progress.mean_return
        evaluation = self.evaluation
        if reason not in ("solved", "stop-return") or threshold is None or mean is None or evaluation is None:
            return False
        return min(mean, evaluation.mean_return) >= threshold
