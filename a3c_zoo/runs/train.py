"""From names to a finished run. torch is imported only after the fork server has begun to import it as well."""

from __future__ import annotations

import gc
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from a3c_zoo import processes
from a3c_zoo.config.models import TRAIN_OPTIONS
from a3c_zoo.config.sets import dump_config
from a3c_zoo.errors import (
    CrewLostError,
    MissingGuardError,
    RunDirectoryError,
    ServersLostError,
    ZooError,
    first_line,
)
from a3c_zoo.files import MAX_TEXT, TEMPORARY, read_bytes
from a3c_zoo.plugins.entries import load_factory
from a3c_zoo.plugins.next_command import next_command
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.processes.faults import Allowance
from a3c_zoo.processes.start import pickled, without_collections
from a3c_zoo.records import Outcome, Reason
from a3c_zoo.runs.notices import budget_told, events_of_new, events_of_resume
from a3c_zoo.runs.resources import Clock
from a3c_zoo.runs.setup import Observer, RunSetup, Watch
from a3c_zoo.runs.signals import StopRequest, stop_on_signals
from a3c_zoo.store.checkpoints import FINAL, Checkpoint, RunState, checkpoint_steps
from a3c_zoo.store.directory import RunDirectory, disk_errors, refuse_place_of_runs, write_atomically
from a3c_zoo.store.rewind import RunEvent, go_on_from
from a3c_zoo.store.run import Run
from a3c_zoo.store.run_files import PARAMETERS

if TYPE_CHECKING:
    from a3c_zoo.config import RunConfig
    from a3c_zoo.runs.session import Session

#: Keys that may change when a run is resumed. `run.steps` may be what a schedule falls over.
RESUMABLE_KEYS = [f"run.{key}" for key, option in TRAIN_OPTIONS.items() if option.on_resume]
#: Keys by which a run ends.
ENDS: Final = {"run.steps", "run.episodes", "run.time_limit_s", "run.stop_return"}


def train_new(setup: RunSetup, runs_dir: Path, name: str | None, observer: Observer) -> Outcome:
    """Trains a fresh run in a directory of its own."""
    clock = Clock()
    with stop_on_signals() as stop, ExitStack() as stack:
        _warm_up(setup)
        watch = Watch(observer, stop, setup.run_hooks(), clock)
        directory = RunDirectory.create(runs_dir, setup.config, setup.meta(), name)
        stack.callback(directory.unlock)
        setup.registry.given_to_run(directory.home, setup.entry.name)
        try:
            outcome = _train(setup, directory, None, events_of_new(setup), watch)
        except (ZooError, KeyboardInterrupt) as error:
            if isinstance(error, KeyboardInterrupt) or error.exit_status == ZooError.exit_status:
                _remove_if_empty(directory)
            raise
        if outcome.reason == "interrupted" and not outcome.steps:
            _remove_if_empty(directory)
        return outcome


def _remove_if_empty(directory: RunDirectory) -> None:
    """Removes the directory of a new run that ended before it began: nobody could go on with it, or learn from it.

    The first checkpoint is written when all workers are ready. A run whose disk has refused it has episodes.
    """
    has_checkpoint = any(directory.checkpoints.glob("[!.]*"))
    if not has_checkpoint and not Run(directory.home).has_episodes():
        shutil.rmtree(directory.home, ignore_errors=True)


def examine(setup: RunSetup, runs_dir: Path, name: str | None) -> None:
    """Checks what can be known of a new run before it trains. It makes one environment, and no run.

    Raises:
        ZooError: the run could not begin.
    """
    dump_config(setup.config)
    _warm_up(setup)
    setup.run_hooks()
    refuse_place_of_runs(runs_dir, setup.config, name)
    load_factory(f"agent '{setup.agent.name}'", setup.agent.run)
    from a3c_zoo.processes.probe import read_spaces  # imports torch

    spaces = read_spaces(setup.entry, setup.network, setup.config, setup.agent.spaces, setup.serial)
    if spaces.actions.has_masks and not setup.config.agent.takes_masks:
        from a3c_zoo.learning.action_masks import masks_refused

        raise masks_refused(setup.entry.name, setup.agent.name)


def train_on(
    directory: Run,
    flags: Mapping[str, tuple[Any, str]],
    observer: Observer,
    others: Mapping[str, Any],
    checkpoint: str | int | None,
) -> Outcome:
    """Goes on with a run from a checkpoint.

    Args:
        checkpoint: "best", or the number of steps of another; None for the newest that is not damaged.
        flags: "section.key" → new value and the flag that gave it; see `RESUMABLE_KEYS`.
        others: other options → their values; one that was given is refused.

    Raises:
        RunDirectoryError: the run is still running, or its directory is damaged.
    """
    refused = [option for option, value in others.items() if value]
    refused += [flag for key, (_, flag) in flags.items() if key not in RESUMABLE_KEYS]
    if refused:
        raise ZooError(f"--resume goes on with the run as it was; leave out {', '.join(refused)}")
    clock = Clock()
    registry = get_registry()
    with stop_on_signals() as stop, ExitStack() as stack:
        directory.lock()
        stack.callback(directory.unlock)
        setup = RunSetup.of(
            registry, directory.config(registry, flags, with_hooks=True), directory.meta["serial"]
        )
        values = dump_config(setup.config).encode()
        _warm_up(setup)
        watch = Watch(observer, stop, setup.run_hooks(), clock)
        _remove_leftovers(directory)
        _refuse_without_checkpoint(directory)
        before = directory.config(registry)
        if setup.config.run.workers != before.run.workers:
            _refuse_too_many(setup.config.run.workers)
        has_ended = _has_ended_by_a_budget(directory) and ENDS.isdisjoint(flags)
        examine = partial(_refuse_spent_limits, before.run, setup.config.run, has_ended)
        saved, events = go_on_from(directory, FINAL if checkpoint is None else str(checkpoint), examine)
        if solved_step := _solved_before(directory, saved.state.steps):
            setup = replace(setup, solved_step=solved_step)
            text = f"this run was solved at step {solved_step:,} and stays solved"
            events.append(RunEvent("solved_before", text))
        events += events_of_resume(before, setup, saved)
        if flags:
            directory.new_config = values
        return _train(setup, directory, saved, events, watch)


def _refuse_too_many(workers: int) -> None:
    """Raises ConfigError for more workers than fit, before later checkpoints move and config.yml names them."""
    from a3c_zoo.agents.with_workers import check_processes  # imports torch

    check_processes(workers)


def _has_ended_by_a_budget(directory: Run) -> bool:
    """Whether the run's last session has spent a budget. One that was killed after that has not told its end."""
    with suppress(RunDirectoryError):  # a damaged one tells nothing
        outcome = directory.outcome
        return outcome is not None and outcome.has_spent_its_budget
    return False


def _refuse_spent_limits(before: RunConfig, run: RunConfig, has_ended: bool, state: RunState) -> None:
    """Raises ZooError if a limit is over at once, and limits were given anew or there is nothing more to train.

    Args:
        before: the run's configuration as it was. has_ended: the run has ended by its budget, and was given no other.
    """
    of_limits = {
        "steps": ("--steps", state.steps, "steps"),
        "episodes": ("--episodes", state.episodes, "episodes"),
        "time_limit_s": ("--time-limit", state.seconds.get("training", 0.0), "s of training"),
    }
    new = [key for key in of_limits if getattr(run, key) != getattr(before, key)]
    for key in [*new, *(of_limits if new or has_ended else ())]:
        option, spent, unit = of_limits[key]
        if (limit := getattr(run, key)) is not None and spent >= limit:
            unit_of_limit = "s" if key == "time_limit_s" else ""
            as_before = "" if key in new else ", as before"
            there = f"the run has {spent:,.10g} {unit} already, and limits count from its start"
            raise ZooError(
                f"{option} {limit:.10g}{unit_of_limit}{as_before}: {there}; give a larger {option}"
            )


def _refuse_without_checkpoint(directory: Run) -> None:
    if not checkpoint_steps(directory) and not directory.best_file.exists():
        name = shlex.quote(str(directory.path))
        env = directory.meta["env"]
        why = "has no checkpoint to go on from: train it anew, with another --name"
        if os.path.lexists(directory.home / PARAMETERS):
            cure = f"{next_command(f'train {shlex.quote(env)} --init-from {name}')} begins one with it"
            why = f"is a trained agent without its run, and has no checkpoint: {cure}"
        raise RunDirectoryError(f"{directory.home.name} {why}")


def _warm_up(setup: RunSetup) -> None:
    """As `RunSetup.warm_up`; also refuses films that cannot be made, and what no evaluation can get."""
    run = setup.config.run
    if not run.stop_when_solved and setup.config.sources.get("run.stop_return") == "--stop-return":
        raise ZooError(
            "--stop-return: run.stop_when_solved is false, so this run ends only when its budget is spent; leave it out"
        )
    has_evaluations = run.has_evaluator or setup.target is not None
    if not setup.serial and (has_evaluations or not setup.agent.one_process):
        pickled((setup.entry, setup.network, setup.config))  # otherwise a worker or an evaluation would fail
    setup.warm_up()
    if run.film_every:
        _refuse_films(setup)


def _refuse_films(setup: RunSetup) -> None:
    """Raises ZooError if no film can be made: ffmpeg is missing, or the environment cannot be drawn.

    It is drawn in a child process, as its spaces are read, unless the run is serial.
    """
    from a3c_zoo.processes.probe import in_child
    from a3c_zoo.runs.pictures import draw_once
    from a3c_zoo.runs.videos import ffmpeg_program

    entry = setup.entry
    config = setup.config
    try:
        ffmpeg_program("a film")
        if setup.serial:
            draw_once(entry, config.env)
        else:
            in_child(config.run, entry.name, "drawn", draw_once, entry, config.env)
    except MissingGuardError:
        raise
    except ZooError as error:
        raise ZooError(f"--film-every (run.film_every): {error}") from error


def _solved_before(directory: Run, steps: int) -> int | None:
    """Agent steps at which an earlier session solved a run that goes on from `steps`, None if none had by then.

    solved.json tells it as long as no session has ended in order since.
    """
    step = steps + 1
    source = directory.solved_file
    for path in (directory.outcome_file, directory.solved_file):  # the second, of the first session, wins
        with suppress(RunDirectoryError):  # a damaged one tells nothing
            if (outcome := directory.outcome_in(path)) and outcome.solved:
                step = outcome.solved_step or outcome.steps
                source = path
    if step <= steps:
        write_atomically(directory.solved_file, read_bytes(source, MAX_TEXT))
        return step
    with disk_errors(directory.solved_file, "delete"):
        directory.solved_file.unlink(missing_ok=True)
    return None


def _train(
    setup: RunSetup,
    directory: RunDirectory,
    saved: Checkpoint[RunState] | None,
    events: list[RunEvent],
    watch: Watch,
) -> Outcome:
    """Runs sessions until one ends in order. After a failure that no new worker cures, another one begins.

    Args:
        saved: the checkpoint to go on from. events: what is told when the first session begins.
    """
    watch.observer.starting(setup.title, setup.target, setup.config.run, directory.path)
    for line in filter(None, (setup.workers_told, setup.teams_told)):
        watch.observer.message(line)
    if saved is None and (told := budget_told(setup.config)):
        watch.observer.message(told)
    allowance = Allowance(setup.config.run.restarts)
    while True:
        try:
            return _run_session(setup, directory, saved, events, watch)
        except CrewLostError as error:
            if watch.stop.detail or not allowance.take():
                raise
            try:
                saved, events = go_on_from(directory)
            except RunDirectoryError as second:
                error.add_note(f"(and it cannot go on from a checkpoint: {second})")
                raise error from None
            reason = f"{first_line(error)} ({allowance.used} of {allowance.most} restarts in an hour)"
            text = f"going on from step {saved.state.steps:,}: {reason}"
            events.append(RunEvent("restarted", text, str(error)))
            watch = Watch(watch.observer, watch.stop, setup.run_hooks())
            watch.stop.is_over = watch.stop.interrupts = False


def _run_session(
    setup: RunSetup,
    directory: RunDirectory,
    saved: Checkpoint[RunState] | None,
    events: list[RunEvent],
    watch: Watch,
) -> Outcome:
    """Runs the agent under a session. However it ends, the files are closed."""
    is_first = "a3c_zoo.runs.session" not in sys.modules
    if not is_first:
        gc.collect()  # what earlier runs have left
    with without_collections(hides=is_first and processes.is_ours):
        from a3c_zoo.runs.session import Session

    session = Session(directory, setup, watch, saved)
    for event in events:
        facts = {"trace": event.trace} if event.trace else {}
        session.event(event.kind, event.text, **facts)
    if not _ended_there(directory, saved):
        directory.forget_end()
    try:
        with watch.meter.watching():
            outcome = _run_agent(setup, session, watch.stop)
    except BaseException:
        with suppress(RunDirectoryError):  # the first error matters more
            session.close()
        raise
    session.close()
    return outcome


def _ended_there(directory: RunDirectory, saved: Checkpoint[RunState] | None) -> bool:
    """Whether outcome.json tells of the checkpoint with which the run goes on, and of no failure.

    Such an outcome stays until training begins: if the start fails, the run is what it was.
    """
    with suppress(RunDirectoryError):  # a damaged one tells nothing
        outcome = Run(directory.home).outcome
        if saved and outcome:
            return outcome.steps == saved.state.steps and outcome.reason != "error"
    return False


def _run_agent(setup: RunSetup, session: Session, stop: StopRequest) -> Outcome:
    reason: Reason | None = None
    detail = ""
    try:
        session.start_hooks()
        run = load_factory(f"agent '{setup.agent.name}'", setup.agent.run)
        load_factory("the agent's policy", setup.agent.load)  # otherwise its first evaluation would fail
        stop.allow_interrupts()
        run(session)
    except KeyboardInterrupt:
        reason = "interrupted"
        detail = f"{stop.detail or 'Ctrl-C'}, at once"
    except Exception as error:
        stop.is_over = True
        if not (stop.detail and isinstance(error, ServersLostError) and session.is_saved):
            try:
                session.finish("error", first_line(error))
            except ZooError as second:  # the first error matters more
                error.add_note(f"(and the run could not be ended properly: {second})")
            raise
        # Who ends a job on a cluster may end all its machines at once. The run has what the nodes had.
        reason = "interrupted"
        detail = f"{stop.detail}; {first_line(error)}"
    stop.is_over = True
    return session.finish(reason, detail)


def _remove_leftovers(directory: RunDirectory) -> None:
    """Deletes what a killed session was writing, or playing beside training. The run is locked."""
    for folder in (directory.home, directory.checkpoints):
        with disk_errors(folder, "delete files in"):
            for path in folder.glob(".*.tmp"):
                if TEMPORARY.fullmatch(path.name) and (path.is_symlink() or not path.is_dir()):
                    path.unlink(missing_ok=True)
    for path in (directory.evaluated_file, directory.checked_file, directory.filmed_file):
        with disk_errors(path, "delete"):
            path.unlink(missing_ok=True)
