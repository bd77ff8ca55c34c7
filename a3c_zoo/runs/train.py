"""From names to a finished run. torch is imported only after the fork server has been started beside it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from a3c_zoo.plugins.entries import AgentEntry, EnvEntry, NetworkEntry, OptimizerEntry, load_object
from a3c_zoo.errors import RunDirectoryError, ZooError
from a3c_zoo.config.sets import dump_config, plugins_of
from a3c_zoo.processes.start import warm_up
from a3c_zoo.runs.clock import Clock
from a3c_zoo.runs.directory import RUN_FORMAT, RunDirectory, describe_host, write_atomically
from a3c_zoo.runs.resources import Meter
from a3c_zoo.runs.signals import StopRequest, stop_on_signals

if TYPE_CHECKING:
    from a3c_zoo.config import Config
    from a3c_zoo.records import Outcome, Reason
    from a3c_zoo.plugins.registry import Registry
    from a3c_zoo.runs.session import Observer, Session

#: What may change when a run is resumed: how long it goes on, and where. A schedule that falls over `run.steps` follows
#: it.
RESUMABLE_KEYS = ("run.device", "run.steps", "run.episodes", "run.time_limit_s", "run.stop_return")


@dataclass(frozen=True, slots=True)
class Job:
    """Everything that a run needs to know before it starts."""

    registry: Registry
    entry: EnvEntry
    agent: AgentEntry
    network: NetworkEntry | None
    optimizer: OptimizerEntry | None
    config: Config
    serial: bool


def make_job(registry: Registry, entry: EnvEntry, agent: AgentEntry, config: Config, serial: bool) -> Job:
    """Completes a job with the network and optimizer that its configuration names."""
    network = registry.network(config.network.name) if config.network else None
    optimizer = registry.optimizer(config.optimizer.name) if config.optimizer else None
    return Job(registry, entry, agent, network, optimizer, config, serial)


def train_new(job: Job, runs_dir: Path, name: str | None, observer: Observer) -> Outcome:
    """Trains a fresh run in a directory of its own."""
    clock = Clock()
    with stop_on_signals() as stop:
        _warm_up(job)
        meter = Meter()
        directory = RunDirectory.create(runs_dir, job.config, _meta(job), name)
        return _train(job, directory, None, observer, stop, clock, meter)


def train_on(
    directory: RunDirectory, registry: Registry, flags: Mapping[str, tuple[Any, str]], observer: Observer
) -> Outcome:
    """Goes on with a run from its newest checkpoint.

    Args:
        flags: "section.key" → new value and the flag that gave it; see `RESUMABLE_KEYS`.

    Raises:
        RunDirectoryError: the run is still running, or its directory is damaged.
    """
    refused = [flag for key, (_, flag) in flags.items() if key not in RESUMABLE_KEYS]
    if refused:
        raise ZooError(f"--resume goes on with the run as it was; leave out {', '.join(refused)}")
    clock = Clock()
    with stop_on_signals() as stop:
        directory.lock()
        try:
            meta, config = directory.meta(), directory.config(registry, flags)
            job = make_job(
                registry, registry.env(config.env_name), registry.agent(config.agent_name), config, meta["serial"]
            )
            _warm_up(job)
            meter = Meter()
            from a3c_zoo.runs.checkpoints import load_checkpoint

            saved = load_checkpoint(directory)
            if flags:
                text = dump_config(config)
                write_atomically(directory.config_file, lambda file: file.write(text.encode()))
        except BaseException:
            directory.unlock()
            raise
        return _train(job, directory, saved, observer, stop, clock, meter)


def _warm_up(job: Job) -> None:
    if not job.serial and (job.config.run.has_evaluator or not job.agent.one_process):
        warm_up(job.config.run.start_method)
    if (device := job.config.run.device) != "cpu":  # torch is imported for this alone, and before there is a directory
        from a3c_zoo.learning.device import check_device

        check_device(device)


def _meta(job: Job) -> dict[str, Any]:
    return {
        "format": RUN_FORMAT,
        "env": job.config.env_name,
        "agent": job.config.agent_name,
        "kind": job.agent.kind,
        "serial": job.serial,
        "seed": job.config.run.seed,
        "plugins": plugins_of(job.registry, job.config),
        "started": f"{datetime.now().astimezone():%Y-%m-%dT%H:%M:%S%z}",
        "command": sys.argv,
        **describe_host(),
    }


def _train(
    job: Job,
    directory: RunDirectory,
    saved: Mapping[str, Any] | None,
    observer: Observer,
    stop: StopRequest,
    clock: Clock,
    meter: Meter,
) -> Outcome:
    """Runs the agent under a session; whatever happens, the files are closed and the lock is given back."""
    try:
        from a3c_zoo.runs.session import Session

        session = Session(
            directory,
            job.entry,
            job.agent,
            job.network,
            job.optimizer,
            job.config,
            serial=job.serial,
            hooks=job.registry.hooks,
            observer=observer,
            stop=stop,
            clock=clock,
            meter=meter,
            saved=saved,
        )
        # Nothing refuses it any more. Should it be killed, the end of the session before isn't its own.
        directory.outcome_file.unlink(missing_ok=True)
        try:
            with meter.watching():
                outcome = _run_agent(job, session, stop)
        except BaseException:
            with suppress(RunDirectoryError):  # the first error matters more
                session.close()
            raise
        session.close()
        return outcome
    finally:
        directory.unlock()


def _run_agent(job: Job, session: Session, stop: StopRequest) -> Outcome:
    try:
        session.start_hooks()
        run = load_object(job.agent.run)
        stop.allow_interrupts()
        run(session)
    except KeyboardInterrupt:
        stop.is_over = True
        return _finish(session, "interrupted", f"{stop.detail or 'Ctrl-C'}, at once")
    except Exception as error:
        stop.is_over = True
        try:
            _finish(session, "error", (str(error).strip() or type(error).__name__).splitlines()[0])
        except ZooError as second:  # the first error matters more
            error.add_note(f"(and the run could not be ended properly: {second})")
        raise
    stop.is_over = True
    return _finish(session, None, "")


def _finish(session: Session, reason: Reason | None, detail: str) -> Outcome:
    outcome = session.outcome(reason, detail)
    session.directory.write_outcome(outcome)
    session.end_hooks(outcome)
    return outcome
