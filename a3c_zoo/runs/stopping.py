"""Decides when a run ends: on a signal, by its budgets, because a plugin says so, or because it is solved."""

from __future__ import annotations

from a3c_zoo.records import Evaluation, Reason, Snapshot, score
from a3c_zoo.runs.checkpoints import RunState
from a3c_zoo.runs.evaluation import EpisodesToPlay, evaluate_policy
from a3c_zoo.runs.progress import WINDOW, RunProgress
from a3c_zoo.runs.setup import RunSetup, Watch
from a3c_zoo.runs.signals import StopEvaluationError
from a3c_zoo.seeds import CHECK_EVALUATIONS, SEED_CHECK_SAMPLING, seed_for


class Stopping:
    """The decision of one session.

    Attributes:
        target: mean return of the last 100 episodes at which the run is checked; None if it never is.
        evaluation: the newest solved check. evaluations: solved checks so far, in all sessions.
        next_check: episodes at which the next check may come. plugin_stop: why a plugin wants the run to end.
        ended: why the run has ended, and more about it; None while it goes on.
    """

    def __init__(self, setup: RunSetup, watch: Watch, progress: RunProgress, saved: RunState | None) -> None:
        self._setup, self._run, self._watch, self._progress = setup, setup.config.run, watch, progress
        threshold = self._run.stop_return if self._run.stop_return is not None else setup.entry.threshold
        self.target = threshold if self._run.stop_when_solved else None
        self.evaluation: Evaluation | None = saved.evaluation if saved else None
        self.evaluations = saved.evaluations if saved else 0
        self.next_check = saved.next_check if saved else WINDOW
        self.plugin_stop: str | None = None
        self.ended: tuple[Reason, str] | None = None

    def why(self) -> tuple[Reason, str] | None:
        """Why the run must end now, but for being solved; None if it need not."""
        run, progress = self._run, self._progress
        if self._watch.stop.detail:
            return "interrupted", self._watch.stop.detail
        if run.steps is not None and progress.steps >= run.steps:
            return "steps", f"{run.steps:,} steps done"
        if run.episodes is not None and progress.episodes >= run.episodes:
            return "episodes", f"{run.episodes:,} episodes done"
        if run.time_limit_s is not None and self._watch.clock.of("training") >= run.time_limit_s:
            return "time-limit", f"{run.time_limit_s:g} s are over"
        return ("plugin", self.plugin_stop) if self.plugin_stop else None

    def is_check_due(self) -> bool:
        """Whether the last 100 episodes have reached the target."""
        window = self._progress.window
        return (
            self.target is not None
            and self._progress.episodes >= self.next_check
            and window.is_full
            and window.mean_return is not None
            and window.mean_return >= self.target
        )

    def decide(self, snapshot: Snapshot) -> None:
        """Plays a check that is due, and fills in `ended`. Training stands still."""
        if self.is_check_due():
            self._check(snapshot)
        self.ended = self.ended or self.why()

    def _check(self, snapshot: Snapshot) -> None:
        """Plays fresh seeds: is the run solved by their mean return, too?"""
        run, number, watch = self._run, CHECK_EVALUATIONS + self.evaluations, self._watch
        assert self.target is not None
        env, count = self._setup.config.env, run.evaluation_episodes
        watch.observer.message(
            f"the last {WINDOW} episodes reached {self.target:g}: playing {count} on fresh seeds"
        )
        to_play = EpisodesToPlay(self._setup.entry, env, count, run.seed, number, run.evaluation_envs)
        policy = snapshot.policy(seed_for(run.seed, SEED_CHECK_SAMPLING, number))
        try:
            with watch.clock.during("evaluation"):
                self.evaluation = evaluate_policy(policy, to_play, on_step=watch.stop.stop_evaluation).evaluation()
        except StopEvaluationError:
            return  # a resumed run begins with this check
        self.next_check = self._progress.episodes + WINDOW
        self.evaluations += 1
        mean = self.evaluation.mean_return
        if mean >= self.target:
            self.ended = ("solved" if run.stop_return is None else "stop-return"), f"evaluation mean {score(mean)}"
        else:
            watch.observer.message(f"their mean is {score(mean)}: training goes on")

    def is_solved(self, reason: Reason) -> bool:
        """Whether a run that ends for this reason has reached its environment's threshold, in training and check."""
        threshold, mean, evaluation = self._setup.entry.threshold, self._progress.window.mean_return, self.evaluation
        if reason not in ("solved", "stop-return") or threshold is None or mean is None or evaluation is None:
            return False
        return min(mean, evaluation.mean_return) >= threshold
