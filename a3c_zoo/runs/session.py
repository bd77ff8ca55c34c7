"""One session of a run: takes in what the agent reports, and evaluates, saves and ends the run when that is due."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from a3c_zoo.config.yaml import display
from a3c_zoo.errors import DivergedError, RunDirectoryError, WorkerError, ZooError
from a3c_zoo.hardware import available_cores
from a3c_zoo.plugins.next_command import next_command
from a3c_zoo.processes.crew import REPORT_EVERY_S
from a3c_zoo.processes.faults import Allowance
from a3c_zoo.records import Episode, Outcome, Reason, Report, Snapshot
from a3c_zoo.runs.best import BestPolicy
from a3c_zoo.runs.border import Border
from a3c_zoo.runs.evaluation import EvaluationTask
from a3c_zoo.runs.evaluation_process import EvaluationProcess
from a3c_zoo.runs.evaluator import EvaluationInTurn, Evaluator
from a3c_zoo.runs.full_disk import FullDisk, lacks_room
from a3c_zoo.runs.progress import RunProgress, Stopping
from a3c_zoo.runs.recorder import Recorder
from a3c_zoo.runs.setup import Initial, RunSetup, Watch
from a3c_zoo.runs.solved_check import SolvedCheck
from a3c_zoo.seeds import CHECK_EVALUATIONS
from a3c_zoo.store.checkpoints import (
    BEST,
    FINAL,
    Checkpoint,
    EvaluatorState,
    ResourceState,
    RunState,
    checkpoint_steps,
    prune_checkpoints,
    step_file,
    write_checkpoint,
)
from a3c_zoo.store.directory import RunDirectory, run_argument
from a3c_zoo.store.recommended import is_better, was_checked
from a3c_zoo.store.rows import EVALUATIONS, end_of_rows
from a3c_zoo.store.run_files import CONFIG_YML


class Session:
    """The `RunContext` of one process's part of a run.

    Args:
        directory: the run's, locked. watch: what goes along with the session. saved: the checkpoint to go on from.
    """

    def __init__(
        self, directory: RunDirectory, setup: RunSetup, watch: Watch, saved: Checkpoint[RunState] | None
    ) -> None:
        self.directory = directory
        self.entry = setup.entry
        self.config = setup.config
        self.network = setup.network
        self.optimizer = setup.optimizer
        self.supported_spaces: Sequence[str] = setup.agent.spaces
        self.serial = setup.serial
        self._solved_step = setup.solved_step
        state = saved.state if saved else None
        self._border = Border(self.config.agent_name, state.steps if state else 0)
        self.checkpoint, self.acting_counts = _start_of(saved, setup.initial)
        self._watch = watch
        self._clock = watch.clock
        if state:
            watch.clock.go_on_from(state.seconds)
            watch.meter.go_on_from(state.resources)
        self._progress = RunProgress(watch.clock, state, setup.entry.agents)
        task = EvaluationTask.of(
            setup, directory.checked_file, CHECK_EVALUATIONS, self.config.run.evaluation_episodes
        )
        check = SolvedCheck(task, 0 if self.serial else available_cores(), watch.stop.stop_evaluation)
        self._stopping = Stopping(setup, watch, self._progress, check, state)
        self._recorder = Recorder(directory, setup, watch, state)
        self._evaluations = state.evaluator if state else None  # of earlier sessions
        self._evaluator: Evaluator | None = None
        if self.config.run.has_evaluator:
            if state and not self._evaluations:  # rows of later steps are of a session that was killed
                end = end_of_rows(directory.home, EVALUATIONS, state.steps)
                self._evaluations = EvaluatorState(0, 0, 0.0, end)
            self._evaluator = self._make_evaluator(setup)
        self._best = BestPolicy(directory, self._progress)  # not asked where there is an evaluator
        self._checks = Allowance(self.config.run.worker_restarts)
        self._disk = FullDisk(self.config.run.disk_patience_s, self.event)
        self._snapshot: Snapshot | None = None
        self._saved_steps = self._progress.steps
        self._next_checkpoint_s = self._next_look_s = 0.0
        self._told_skipped = 0
        self._told_not_finite = set[str]()
        self._next_pause = self.config.run.next_pause(self._progress.steps)

    def _make_evaluator(self, setup: RunSetup) -> Evaluator:
        """The evaluator, which goes on behind the rows of earlier sessions."""
        player: EvaluationProcess | EvaluationInTurn
        if self.serial:
            player = EvaluationInTurn(self._clock, self._watch.stop.stop_evaluation)
        else:
            player = EvaluationProcess("a3c-zoo evaluator")
        return Evaluator(self.directory, setup, player, self._evaluations, self.event)

    # What an agent calls (`RunContext`)

    @property
    def episodes(self) -> int:
        """Training episodes recorded so far, in all sessions."""
        return self._progress.episodes

    @property
    def is_saved(self) -> bool:
        """Whether a checkpoint has all that the run has learned."""
        return self._progress.steps == self._saved_steps

    def workers_ready(self, ready: int, workers: int) -> None:
        """Tells the observer how far the start is."""
        self._watch.observer.progress(replace(self._progress.now(), workers_ready=ready, workers=workers))

    def started(self, snapshot: Snapshot) -> None:
        """Starts the training clock; from now on a signal is obeyed at the next rollout boundary."""
        snapshot = self._border.snapshot(snapshot)
        self._watch.stop.interrupts = False
        self.directory.begin_session()
        self._snapshot = snapshot
        self._clock.switch("training")
        self._watch.meter.forget_start()
        self._recorder.start()
        self._progress.now()
        self._next_checkpoint_s = time.monotonic() + self.config.run.checkpoint_every_s
        if self.checkpoint is None or self.acting_counts:
            self._save_if_possible(snapshot)  # so that the run can be resumed, however it ends

    def record(self, reports: Sequence[Report]) -> None:
        """Writes what was reported."""
        self._recorder.announce(self._take_in(reports))
        self._tell_skipped()
        self._tell_not_finite()
        self._look_at_evaluator()
        if self._snapshot and not self._evaluator:
            self._best.look(self._snapshot, self._run_state)
        self._publish(force=False)
        self._disk.note(self._recorder.fault)

    def due(self) -> bool:
        """Whether training should stand still for something."""
        is_save_due = self._progress.steps >= self._next_pause or time.monotonic() >= self._next_checkpoint_s
        return is_save_due or bool(self._stopping.why()) or self._stopping.is_check_due()

    def cuts_rollouts(self) -> bool:
        """Whether the time limit is over: a rollout of a slow environment can take minutes.

        It is asked after each step, and looks at what the evaluator plays: a hang shows only in looks that are near.
        """
        if self._evaluator and self._evaluator.is_playing and (now := time.monotonic()) >= self._next_look_s:
            self._next_look_s = now + REPORT_EVERY_S
            self._look_at_evaluator()
        return self._stopping.is_time_over()

    def settle(self, snapshot: Snapshot) -> bool:
        """Evaluates, saves, decides. Training stands still."""
        snapshot = self._border.snapshot(snapshot)
        try:
            self._stopping.decide(snapshot)
        except WorkerError as fault:
            if not self._checks.take():
                raise
            self._stopping.put_check_off()
            line = str(fault).splitlines()[0].rstrip(":")
            place = f"{self._checks.used} of {self._checks.most} in an hour"
            if self._stopping.ended:
                then = "the run ends all the same"
            else:
                then = "training goes on"
            self.event("check_failed", f"{line}; {then} ({place})", trace=str(fault))
        if self._stopping.ended and self._evaluator:
            self._evaluator.stop()
        self._publish(force=True)
        self._save_if_possible(snapshot)
        if self._stopping.ended:
            self._clock.switch("end")  # closing environments is no training, and may take long
        return self._stopping.ended is None

    def event(self, kind: str, text: str, **facts: object) -> None:
        """Something of note has happened: a line on screen and in events.jsonl, a count in TensorBoard."""
        self._recorder.event(self._progress.steps, kind, text, facts)

    def uncounted(self) -> AbstractContextManager[None]:
        """While an agent measures how it computes fastest: the CPU seconds do not count."""
        return self._watch.meter.uncounted()

    def rescue(self, snapshot: Snapshot, error: BaseException, reports: Sequence[Report] = ()) -> None:
        """After a failure: a checkpoint, so that hours of training survive one bad step of an environment.

        Args:
            reports: the last ones of the workers. No evaluation begins with them, and no observer hears of them.

        Raises:
            DivergedError: in place of `error`, which is one: no checkpoint is written, and the message names a cure.
        """
        try:
            self._take_in(reports)
        except ZooError as second:
            error.add_note(f"(and the last reports of the workers are lost: {second})")
        if isinstance(error, DivergedError):
            self._save_best()
            cured = DivergedError(f"{error}{self._with_smaller_rate()}")
            for note in getattr(error, "__notes__", ()):
                cured.add_note(note)
            raise cured from error
        try:
            snapshot = self._border.snapshot(snapshot)
            if snapshot.counts:
                self._progress.add([snapshot.counts()], [])
            if self.is_saved:  # that checkpoint has the workers' states, which are lost by now
                return
            if isinstance(error, RunDirectoryError):  # a checkpoint could not be written, or monitor.csv
                return
            self._save(snapshot)
        except ZooError as second:
            error.add_note(f"(and no checkpoint could be written: {second})")

    # What follows from it

    def _with_smaller_rate(self) -> str:
        """What to type for a new run that begins with a good checkpoint of this one; "" without one.

        A resume takes no other learning rate.
        """
        optimizer = self.config.optimizer
        if optimizer is None or not checkpoint_steps(self.directory):
            return ""
        path = self.directory.path
        rate = optimizer.learning_rate / 10
        values = [f"optimizer.learning_rate={rate:g}"]
        if optimizer.final_learning_rate > rate:
            values.append(f"optimizer.final_learning_rate={rate:g}")
        if self.config.env.wrappers:  # a file may not name them
            values.append(f"env.wrappers={display(list(self.config.env.wrappers), 0)}")
        parts = [
            shlex.join(["train", self.config.env_name, "--agent", self.config.agent_name]),
            shlex.join(["--hyperparams", str(path / CONFIG_YML)]),
            f"--init-from {run_argument(path)}",
            *(shlex.join(["-o", value]) for value in values),
        ]
        return f". From a good checkpoint: {next_command(' '.join(parts))}"

    def _take_in(self, reports: Sequence[Report]) -> list[Episode]:
        """Writes and counts what was reported; returns the episodes in the order in which they ended."""
        self._border.refuse(reports)
        episodes = sorted(
            (e for report in reports for e in report.episodes), key=lambda e: (e.time_s, e.step)
        )
        self._recorder.write(episodes)
        self._progress.add(reports, episodes)
        return episodes

    def _look_at_evaluator(self) -> None:
        """Training goes on meanwhile, even if the evaluator fails."""
        evaluator = self._evaluator
        snapshot = self._snapshot
        if evaluator is None or evaluator.fault or snapshot is None or self._stopping.why():
            return
        try:
            if result := evaluator.look(
                snapshot, self._progress.steps, self._clock.of("training"), self._state
            ):
                self._recorder.evaluated(result)
        except RunDirectoryError as fault:  # it tries again later
            self._disk.note(fault)

    def _tell_skipped(self) -> None:
        """Tells of gradients that are not finite: of the first, and each time that their number has doubled."""
        if (skipped := self._progress.skipped) > 2 * self._told_skipped:
            self._told_skipped = skipped
            text = f"{skipped:,} gradients of this session were not finite and were not applied"
            self.event("gradients_skipped", text, skipped=skipped)

    def _tell_not_finite(self) -> None:
        """Tells of metrics that are not finite: once of each."""
        for name in sorted(self._progress.not_finite - self._told_not_finite):
            self._told_not_finite.add(name)
            text = f"the loss has returned a metric '{name}' that is not finite; such values are left out"
            self.event("metric_not_finite", text, metric=name)

    def _publish(self, force: bool) -> None:
        progress = self._progress.now(
            self._evaluator.result if self._evaluator else None, self._watch.meter.usage
        )
        reason = self._recorder.metrics(progress, force)
        self._watch.stop.plugin = self._watch.stop.plugin or reason or ""

    def _save_if_possible(self, snapshot: Snapshot) -> None:
        """Saves. If the disk refuses the checkpoint, training goes on, but the run does not end before it is written.

        Raises:
            RunDirectoryError: the disk has refused checkpoints for too long.
        """
        if self._stopping.ended:
            with self._clock.during("checkpoint"):
                self._disk.insist(partial(self._save_making_room, snapshot), self._watch.stop)
            return
        try:
            self._save(snapshot)
        except RunDirectoryError as fault:
            self._disk.refused(fault)
            if lacks_room(fault):
                self._prune(1)
            self._next_checkpoint_s = time.monotonic() + self._disk.retry_s
            self._next_pause = self.config.run.next_pause(self._progress.steps)
        else:
            self._disk.accepted()

    def _save(self, snapshot: Snapshot) -> None:
        with self._clock.during("checkpoint"):
            self._watch.meter.sample()
            agent_state = snapshot.state()
            state = self._state()
            self._best.write(state.resources)
            write_checkpoint(step_file(self.directory, self._progress.steps), agent_state, state)
        self._prune(self.config.run.keep_checkpoints)
        self._saved_steps = self._progress.steps
        self._next_checkpoint_s = time.monotonic() + self.config.run.checkpoint_every_s
        self._next_pause = self.config.run.next_pause(self._progress.steps)

    def _save_best(self) -> None:
        """Writes the best policy though no checkpoint follows. What the disk refuses is lost: the run has failed."""
        with suppress(RunDirectoryError):
            self._recorder.sync()
            self._best.write(self._watch.meter.state())

    def _save_making_room(self, snapshot: Snapshot) -> None:
        """Saves; if there is no room for the checkpoint, once more without older ones."""
        try:
            self._save(snapshot)
        except RunDirectoryError as fault:
            if not lacks_room(fault):
                raise
            self._prune(1)
            self._save(snapshot)

    def _prune(self, keep: int | None) -> None:
        """Deletes all checkpoints but the newest; none if the run keeps all. A disk that refuses it keeps them."""
        if self.config.run.keep_checkpoints is not None:
            with suppress(RunDirectoryError):
                prune_checkpoints(self.directory, keep, self._stopping.expected_steps())

    def _state(self) -> RunState:
        """The run's part of a checkpoint. The rows that it counts are on the disk."""
        self._recorder.sync()
        evaluations = self._evaluations
        if self._evaluator:
            evaluations = self._evaluator.state()
        return replace(self._run_state(), evaluator=evaluations, resources=self._watch.meter.state())

    def _run_state(self) -> RunState:
        """Where the run stands, in microseconds: without its resources, and rows may still wait in memory."""
        progress = self._progress
        stopping = self._stopping
        return RunState(
            steps=progress.steps,
            episodes=progress.episodes,
            updates=progress.updates,
            evaluations=stopping.evaluations,
            next_check=stopping.next_check,
            evaluation=stopping.evaluation,
            evaluation_step=stopping.evaluation_step,
            window=progress.window(),
            monitor_position=self._recorder.position,
            seconds=self._clock.of_all(),
            evaluator=self._evaluations,
            resources=ResourceState(None, None),
        )

    # Begin and end, for `train`

    def start_hooks(self) -> None:
        """Tells the plugins that the run begins."""
        self._recorder.hooks.run_start(self._recorder.run)

    def finish(self, reason: Reason | None, detail: str) -> Outcome:
        """Writes how the run ended, and tells the plugins. reason: of an end that the session did not decide itself."""
        if reason is None:
            reason, detail = self._stopping.ended or ("error", "the agent ended before its run did")
        progress = self._progress
        training_s = self._clock.of("training")
        solved_step = self._solved_step
        if solved_step is None and self._stopping.is_solved(reason):
            solved_step = progress.steps
        outcome = Outcome(
            run=self.directory.path,
            solved=solved_step is not None,
            reason=reason,
            detail=detail,
            steps=progress.steps,
            episodes=progress.episodes,
            updates=progress.updates,
            training_s=training_s,
            evaluation_s=self._clock.of("evaluation"),
            checkpoint_s=self._clock.of("checkpoint"),
            startup_s=self._clock.of("startup"),
            total_s=self._clock.total_s,
            steps_per_s=progress.steps / training_s if training_s > 0 else 0.0,
            mean_return_100=progress.mean_return,
            agent_returns_100=progress.mean_agent_returns,
            evaluation=self._stopping.evaluation,
            cpu_s=self._watch.meter.cpu_s,
            peak_memory_mib=self._watch.meter.peak_memory_mib,
            evaluator_fault=self._evaluator.fault if self._evaluator else None,
            solved_step=solved_step,
            evaluation_step=self._stopping.evaluation_step,
        )
        outcome = self._with_best(outcome)
        self._recorder.finished(outcome)
        has_begun = self._snapshot is not None or not self.is_saved
        # Otherwise the run is as the earlier session has left it.
        if has_begun or not self.directory.outcome_file.exists():
            self._write_outcome(outcome)
        self._recorder.hooks.run_end(self._recorder.run, replace(outcome, run=self.directory.home))
        return outcome

    def _write_outcome(self, outcome: Outcome) -> None:
        if outcome.reason == "error":
            self.directory.write_outcome(outcome)
        else:
            self._disk.insist(partial(self.directory.write_outcome, outcome), self._watch.stop)

    def _with_best(self, outcome: Outcome) -> Outcome:
        """The outcome with what is known of the best policy, and what the run recommends."""
        best = (self._evaluator or self._best).kept
        if best is None or best.best_return is None:
            return outcome
        takes_best = not was_checked(outcome) and is_better(best, self._progress.returns)
        return replace(
            outcome,
            best_return=best.best_return,
            best_step=best.steps,
            best_by="training" if best.sampled_return is None else "evaluation",
            best_episodes=best.return_episodes,
            recommended=BEST if takes_best else FINAL,
        )

    def close(self) -> None:
        """Closes the files, and ends the evaluator."""
        with ExitStack() as stack:
            stack.callback(self._recorder.close)
            if self._evaluator:
                stack.callback(self._evaluator.close)


def _start_of(
    saved: Checkpoint[RunState] | None, initial: Initial | None
) -> tuple[Mapping[str, Any] | None, Report | None]:
    """The agent's state with which a session begins; and the counts so far if it is a state for acting alone."""
    if saved is not None and saved.is_acting:
        return saved.agent, Report(steps=saved.state.steps, updates=saved.state.updates)
    if saved is not None:
        return saved.agent, None
    if initial is not None:
        return initial.agent, Report()
    return None, None
