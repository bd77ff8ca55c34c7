"""One session of a run: takes in what the agent reports, and decides when to evaluate, save and stop."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol

from a3c_zoo.errors import ZooError
from a3c_zoo.records import Evaluation, Outcome, Progress, Reason, Report, RunInfo, Snapshot, score
from a3c_zoo.runs.checkpoints import save_checkpoint
from a3c_zoo.runs.clock import Clock
from a3c_zoo.runs.evaluation import EvaluationTask, StopEvaluationError, evaluate_policy
from a3c_zoo.runs.evaluation_process import EvaluationProcess
from a3c_zoo.runs.evaluator import EvaluationInTurn, Evaluator, copy_file
from a3c_zoo.runs.recorder import WINDOW, Monitor, TensorBoard, Window
from a3c_zoo.seeds import CHECK_EVALUATIONS, EVALUATOR_EVALUATIONS, SEED_CHECK_SAMPLING, seed_for

if TYPE_CHECKING:
    from pathlib import Path

    from a3c_zoo.config import Config, RunConfig
    from a3c_zoo.plugins.entries import AgentEntry, EnvEntry, NetworkEntry, OptimizerEntry
    from a3c_zoo.plugins.run_hooks import RunHooks
    from a3c_zoo.runs.directory import RunDirectory
    from a3c_zoo.runs.resources import Meter
    from a3c_zoo.runs.signals import StopRequest

METRICS_EVERY_S = 0.5
SPEED_WINDOW_S = 5.0


class Observer(Protocol):
    """Somebody who watches a run: the terminal panel, a notebook."""

    def starting(self, title: str, target: float | None, run: RunConfig, path: Path) -> None:
        """Before the workers start."""
        ...

    def progress(self, progress: Progress) -> None:
        """Called several times a second."""
        ...

    def message(self, text: str) -> None:
        """Something worth a line."""
        ...


class Session:
    """The `RunContext` of one run.

    Args:
        directory: the run's, locked. saved: the checkpoint to go on from.
        stop: becomes non-empty when the user wants to stop.
    """

    def __init__(
        self,
        directory: RunDirectory,
        entry: EnvEntry,
        agent: AgentEntry,
        network: NetworkEntry | None,
        optimizer: OptimizerEntry | None,
        config: Config,
        *,
        serial: bool,
        hooks: RunHooks,
        observer: Observer,
        stop: StopRequest,
        clock: Clock,
        meter: Meter,
        saved: Mapping[str, Any] | None,
    ) -> None:
        self.directory, self.entry, self.config = directory, entry, config
        self.network, self.optimizer = network, optimizer
        self.supported_spaces: Sequence[str] = agent.spaces
        self.serial = serial
        self.checkpoint: Mapping[str, Any] | None = saved["agent"] if saved else None
        self._hooks, self._observer, self._stop = hooks, observer, stop
        self._run = RunInfo(directory.path, config.env_name, config.agent_name, config)
        threshold = config.run.stop_return if config.run.stop_return is not None else entry.threshold
        self._target = threshold if config.run.stop_when_solved else None
        self._clock, self._meter, self._window = clock, meter, Window()
        self.steps = self.episodes = self.updates = 0
        self._evaluations = 0
        self._saved_steps = 0
        self._published = (0, 0)  # steps and episodes
        self._next_check = WINDOW  # episodes at which the window may be checked next
        self._metrics: dict[str, float] = {}
        self._plugin_stop: str | None = None
        self._ended: tuple[Reason, str] | None = None
        self.evaluation: Evaluation | None = None
        if saved:
            self._load(saved["session"])
        self.monitor = Monitor(
            directory.path / "monitor.csv", config.env_name, saved["session"]["monitor_position"] if saved else None
        )
        self.tensorboard = TensorBoard(directory.path / "tensorboard", self.steps + 1 if saved else None)
        self._evaluator = self._make_evaluator(agent, saved) if config.run.has_evaluator else None
        self._snapshot: Snapshot | None = None
        self._next_checkpoint_s = self._next_metrics_s = 0.0
        self._next_pause = config.run.next_pause(self.steps)
        self._speeds: deque[tuple[float, int]] = deque()
        workers = "one process" if agent.one_process else "serial" if serial else f"{config.run.workers} workers"
        title = f"{config.agent_name} on {config.env_name}, seed {config.run.seed}, {workers}"
        observer.starting(title, self._target, config.run, directory.path)

    def _make_evaluator(self, agent: AgentEntry, saved: Mapping[str, Any] | None) -> Evaluator:
        run = self.config.run
        task = EvaluationTask(
            self.entry,
            self.network,
            self.config,
            agent.load,
            copy_file(self.directory),
            number=EVALUATOR_EVALUATIONS,
            episodes=run.evaluator_episodes,
            num_envs=run.evaluation_envs,
        )
        in_turn = EvaluationInTurn(self._clock, self._stop_evaluation) if self.serial else None
        player = in_turn or EvaluationProcess("a3c-zoo evaluator")
        return Evaluator(self.directory, task, player, saved["session"].get("evaluator") if saved else None)

    # What an agent calls (`RunContext`)

    def started(self, snapshot: Snapshot) -> None:
        """Starts the training clock; from now on a signal is obeyed at the next rollout boundary."""
        self._stop.interrupts, self._snapshot = False, snapshot
        self._clock.switch("training")
        self.monitor.start()
        self._speeds.append((self._clock.of("training"), self.steps))
        self._next_checkpoint_s = time.monotonic() + self.config.run.checkpoint_every_s

    def record(self, reports: Sequence[Report]) -> None:
        """Writes what was reported."""
        episodes = sorted((e for report in reports for e in report.episodes), key=lambda e: (e.time_s, e.step))
        if episodes:
            self.monitor.write(
                [(e.episode_return, e.length, self._clock.of("training", e.time_s), e.step, e.worker) for e in episodes]
            )
        for episode in episodes:  # plain numbers: a checkpoint with NumPy's can be written, and not be read
            self._window.add(float(episode.episode_return), int(episode.length))
        self.episodes += len(episodes)
        if self._hooks.wants_episodes:
            for episode in episodes:
                self._hooks.episode(self._run, episode)
        for report in reports:
            self.steps = max(self.steps, int(report.steps))
            self.updates = max(self.updates, int(report.updates))
            self._metrics.update(report.metrics)
        self._look_at_evaluator()
        self._publish(force=False)

    def due(self) -> bool:
        """Whether training should stand still for something."""
        is_save_due = self.steps >= self._next_pause or time.monotonic() >= self._next_checkpoint_s
        return is_save_due or bool(self._why_stop()) or self._is_check_due()

    def settle(self, snapshot: Snapshot) -> bool:
        """Evaluates, saves, decides. Training stands still."""
        if self._is_check_due():
            self._check(snapshot)
        self._ended = self._ended or self._why_stop()
        if self._ended and self._evaluator:
            self._evaluator.stop()
        self._save(snapshot)
        self._publish(force=True)
        return self._ended is None

    def rescue(self, snapshot: Snapshot, error: BaseException) -> None:
        """After a failure: a checkpoint, so that hours of training survive one bad step of an environment."""
        if self.steps == self._saved_steps:  # the workers' states are in that one, and lost by now
            return
        try:
            self._save(snapshot)
        except ZooError as second:
            error.add_note(f"(and no checkpoint could be written: {second})")

    # Deciding

    def _why_stop(self) -> tuple[Reason, str] | None:
        run = self.config.run
        if self._stop.detail:
            return "interrupted", self._stop.detail
        if run.steps is not None and self.steps >= run.steps:
            return "steps", f"{run.steps:,} steps done"
        if run.episodes is not None and self.episodes >= run.episodes:
            return "episodes", f"{run.episodes:,} episodes done"
        if run.time_limit_s is not None and self._clock.of("training") >= run.time_limit_s:
            return "time-limit", f"{run.time_limit_s:g} s are over"
        if self._plugin_stop:
            return "plugin", self._plugin_stop
        return None

    def _is_check_due(self) -> bool:
        mean = self._window.mean_return
        return (
            self._target is not None
            and self.episodes >= self._next_check
            and self._window.is_full
            and mean is not None
            and mean >= self._target
        )

    def _check(self, snapshot: Snapshot) -> None:
        """The window has reached the target: does an evaluation on fresh seeds agree?"""
        run, number = self.config.run, CHECK_EVALUATIONS + self._evaluations
        assert self._target is not None
        self._observer.message(
            f"the last {WINDOW} episodes reached {self._target:g}: playing {run.evaluation_episodes} on fresh seeds"
        )
        try:
            with self._clock.during("evaluation"):
                self.evaluation = evaluate_policy(
                    snapshot.policy(seed_for(run.seed, SEED_CHECK_SAMPLING, number)),
                    self.entry,
                    self.config.env,
                    episodes=run.evaluation_episodes,
                    num_envs=run.evaluation_envs,
                    seed=run.seed,
                    number=number,
                    on_step=self._stop_evaluation,
                )
        except StopEvaluationError:
            return  # a resumed run begins with this evaluation
        self._next_check = self.episodes + WINDOW
        self._evaluations += 1
        mean = self.evaluation.mean_return
        if mean >= self._target:
            self._ended = ("solved" if run.stop_return is None else "stop-return"), f"evaluation mean {score(mean)}"
        else:
            self._observer.message(f"their mean is {score(mean)}: training goes on")

    def _stop_evaluation(self, played: int) -> None:
        if self._stop.detail:
            raise StopEvaluationError

    def _look_at_evaluator(self) -> None:
        """Training goes on meanwhile, whatever becomes of the evaluator."""
        evaluator, snapshot = self._evaluator, self._snapshot
        if evaluator is None or evaluator.fault or snapshot is None or self._why_stop():
            return
        if evaluator.look(snapshot, self.steps, self._clock.of("training")) and (result := evaluator.result):
            means = {"greedy": result.greedy_return, "sampled": result.sampled_return}
            self.tensorboard.write({f"eval/return_mean_{mode}": mean for mode, mean in means.items()}, result.step)
        if evaluator.fault:
            log = self.directory.path / "evaluator.log"
            self._observer.message(f"the evaluator has failed, training goes on: {evaluator.fault} (see {log})")

    # Writing

    def _publish(self, force: bool) -> None:
        now = time.monotonic()
        progress = self.progress()
        self._observer.progress(progress)
        reached = (self.steps, self.episodes)  # one worker's report counts the steps of all, but its own episodes
        if reached == self._published or (not force and now < self._next_metrics_s):
            return
        self._next_metrics_s, self._published = now + METRICS_EVERY_S, reached
        scalars = {"speed/steps_per_s": progress.steps_per_s}
        if progress.mean_return_100 is not None and progress.mean_length_100 is not None:
            scalars["episode/return_mean_100"] = progress.mean_return_100
            scalars["episode/length_mean_100"] = progress.mean_length_100
        self.tensorboard.write(scalars | {f"train/{k}": v for k, v in self._metrics.items()}, self.steps)
        self._hooks.metrics(self._run, progress)
        self._plugin_stop = self._hooks.should_stop(self._run, progress)

    def progress(self) -> Progress:
        """Where the run stands now."""
        training_s = self._clock.of("training")
        speeds = self._speeds
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
            mean_return_100=self._window.mean_return,
            mean_length_100=self._window.mean_length,
            window=len(self._window.returns),
            metrics=self._metrics,
            evaluator=self._evaluator.result if self._evaluator else None,
        )

    def _save(self, snapshot: Snapshot) -> None:
        with self._clock.during("checkpoint"):
            self._meter.sample()
            self.save(snapshot.state())
        self._next_checkpoint_s = time.monotonic() + self.config.run.checkpoint_every_s
        self._next_pause = self.config.run.next_pause(self.steps)

    def save(self, agent_state: dict[str, Any]) -> None:
        """Writes a checkpoint of the agent's state and of this session's own."""
        self.tensorboard.flush()
        self.monitor.sync()
        if self._evaluator:
            self._evaluator.sync()
        content = {"agent": agent_state, "session": self._state()}
        save_checkpoint(self.directory, self.steps, content)
        self._saved_steps = self.steps

    def _state(self) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "episodes": self.episodes,
            "updates": self.updates,
            "evaluations": self._evaluations,
            "next_check": self._next_check,
            "evaluation": asdict(self.evaluation) if self.evaluation else None,
            "window": self._window.state_dict(),
            "monitor_position": self.monitor.position,
            "seconds": {**self._clock.seconds},
            "evaluator": self._evaluator.state_dict() if self._evaluator else None,
            "resources": self._meter.state_dict(),
        }

    def _load(self, state: Mapping[str, Any]) -> None:
        self.steps, self.episodes, self.updates = state["steps"], state["episodes"], state["updates"]
        self._saved_steps, self._published = self.steps, (self.steps, self.episodes)
        self._evaluations, self._next_check = state["evaluations"], state["next_check"]
        self.evaluation = Evaluation(**state["evaluation"]) if state.get("evaluation") else None
        self._window.load_state_dict(state["window"])
        for part, seconds in state["seconds"].items():
            self._clock.seconds[part] = self._clock.seconds.get(part, 0.0) + seconds
        self._meter.go_on_from(state["resources"])

    def close(self) -> None:
        """Closes the files."""
        with ExitStack() as stack:
            for each in (self.monitor, self.tensorboard, self._evaluator):
                if each is not None:
                    stack.callback(each.close)

    def outcome(self, reason: Reason | None = None, detail: str = "") -> Outcome:
        """How the run ended. `reason` is given for an end that the session did not decide itself."""
        if reason is None:
            reason, detail = self._ended or ("error", "the agent ended before its run did")
        mean, evaluation, threshold = self._window.mean_return, self.evaluation, self.entry.threshold
        solved = (
            reason in ("solved", "stop-return")
            and None not in (threshold, mean, evaluation)
            and min(mean, evaluation.mean_return) >= threshold  # type: ignore[type-var, union-attr, operator]
        )
        training_s = self._clock.of("training")
        return Outcome(
            run=self.directory.path,
            solved=solved,
            reason=reason,
            detail=detail,
            steps=self.steps,
            episodes=self.episodes,
            updates=self.updates,
            training_s=training_s,
            evaluation_s=self._clock.of("evaluation"),
            checkpoint_s=self._clock.of("checkpoint"),
            startup_s=self._clock.of("startup"),
            total_s=self._clock.total_s,
            steps_per_s=self.steps / training_s if training_s > 0 else 0.0,
            mean_return_100=mean,
            evaluation=evaluation,
            cpu_s=self._meter.cpu_s,
            peak_memory_mib=self._meter.peak_memory_mib,
            evaluator_fault=self._evaluator.fault if self._evaluator else None,
        )

    def start_hooks(self) -> None:
        """Tells the plugins that the run begins."""
        self._hooks.run_start(self._run)

    def end_hooks(self, outcome: Outcome) -> None:
        """Tells the plugins that it has ended."""
        self._hooks.run_end(self._run, outcome)
