"""From names to a finished run. torch is imported only after the fork server has begun to import it as well."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from a3c_zoo.config.sets import dump_config, plugins_of
from a3c_zoo.errors import RunDirectoryError, ZooError
from a3c_zoo.plugins.entries import AgentEntry, EnvEntry, NetworkEntry, OptimizerEntry, load_object
from a3c_zoo.processes.start import warm_up
from a3c_zoo.runs.checkpoints import Checkpoint, newest_checkpoint
from a3c_zoo.runs.directory import RUN_FORMAT, RunDirectory, describe_host, write_atomically
from a3c_zoo.runs.progress import Clock
from a3c_zoo.runs.resources import Meter
from a3c_zoo.runs.signals import StopRequest, stop_on_signals

if TYPE_CHECKING:
    from a3c_zoo.config import Config
    from a3c_zoo.plugins.registry import Registry
    from a3c_zoo.records import Outcome, Reason
    from a3c_zoo.runs.observer import Observer
    from a3c_zoo.runs.session import Session

#: Keys that may change when a run is resumed: how long it goes on, and where. `run.steps` may be what a schedule falls
#: over.
RESUMABLE_KEYS = ("run.device", "run.steps", "run.episodes", "run.time_limit_s", "run.stop_return")


@dataclass(frozen=True, slots=True)
class RunSetup:
    """All that a run needs to know before it starts.

    Attributes:
        network, optimizer: the entries that the configuration names; None for an agent without that section.
    """

    registry: Registry
    entry: EnvEntry
    agent: AgentEntry
    network: NetworkEntry | None
    optimizer: OptimizerEntry | None
    config: Config
    serial: bool

    @classmethod
    def of(cls, registry: Registry, config: Config, serial: bool) -> RunSetup:
        """With the entries that the configuration names."""
        network = registry.network(config.network.name) if config.network else None
        optimizer = registry.optimizer(config.optimizer.name) if config.optimizer else None
        env, agent = registry.env(config.env_name), registry.agent(config.agent_name)
        return cls(registry, env, agent, network, optimizer, config, serial)

    @property
    def title(self) -> str:
        """The run in a line."""
        config = self.config
        parallel = "serial" if self.serial else f"{config.run.workers} workers"
        workers = "one process" if self.agent.one_process else parallel
        return f"{config.agent_name} on {config.env_name}, seed {config.run.seed}, {workers}"

    def meta(self) -> dict[str, Any]:
        """What meta.json holds."""
        return {
            "format": RUN_FORMAT,
            "env": self.config.env_name,
            "agent": self.config.agent_name,
            "kind": self.agent.kind,
            "serial": self.serial,
            "seed": self.config.run.seed,
            "plugins": plugins_of(self.registry, self.config),
            "started": f"{datetime.now().astimezone():%Y-%m-%dT%H:%M:%S%z}",
            "command": sys.argv,
            **describe_host(),
        }

    def warm_up(self) -> None:
        """Starts the fork server if there will be processes, and refuses a device that is not there."""
        if not self.serial and (self.config.run.has_evaluator or not self.agent.one_process):
            warm_up(self.config.run.start_method)
        if (device := self.config.run.device) != "cpu":  # only this needs torch before there is a directory
            from a3c_zoo.learning.networks import check_device

            check_device(device)


@dataclass(frozen=True, slots=True)
class Watch:
    """What goes along with one session: who is told, who may stop it, its seconds and its costs."""

    observer: Observer
    stop: StopRequest
    clock: Clock = field(default_factory=Clock)
    meter: Meter = field(default_factory=Meter)


def train_new(setup: RunSetup, runs_dir: Path, name: str | None, observer: Observer) -> Outcome:
    """Trains a fresh run in a directory of its own."""
    clock = Clock()
    with stop_on_signals() as stop:
        setup.warm_up()
        watch = Watch(observer, stop, clock)
        directory = RunDirectory.create(runs_dir, setup.config, setup.meta(), name)
        return _train(setup, directory, None, watch)


def train_on(
    directory: RunDirectory,
    registry: Registry,
    flags: Mapping[str, tuple[Any, str]],
    observer: Observer,
    others: Mapping[str, Any],
) -> Outcome:
    """Goes on with a run from its newest checkpoint.

    Args:
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
    with stop_on_signals() as stop:
        directory.lock()
        try:
            setup = RunSetup.of(registry, directory.config(registry, flags), directory.meta()["serial"])
            setup.warm_up()
            watch = Watch(observer, stop, clock)
            saved = newest_checkpoint(directory)
            if flags:
                text = dump_config(setup.config)
                write_atomically(directory.config_file, lambda file: file.write(text.encode()))
        except BaseException:
            directory.unlock()
            raise
        return _train(setup, directory, saved, watch)


def _train(setup: RunSetup, directory: RunDirectory, saved: Checkpoint | None, watch: Watch) -> Outcome:
    """Runs the agent under a session. However it ends, the files are closed and the lock is given back."""
    try:
        from a3c_zoo.runs.session import Session

        session = Session(directory, setup, watch, saved)
        # The run begins for sure. If it is killed, the outcome of an earlier session must not seem to be its own.
        directory.outcome_file.unlink(missing_ok=True)
        try:
            with watch.meter.watching():
                outcome = _run_agent(setup, session, watch.stop)
        except BaseException:
            with suppress(RunDirectoryError):  # the first error matters more
                session.close()
            raise
        session.close()
        return outcome
    finally:
        directory.unlock()


def _run_agent(setup: RunSetup, session: Session, stop: StopRequest) -> Outcome:
    reason: Reason | None = None
    detail = ""
    try:
        session.start_hooks()
        run = load_object(setup.agent.run)
        stop.allow_interrupts()
        run(session)
    except KeyboardInterrupt:
        reason, detail = "interrupted", f"{stop.detail or 'Ctrl-C'}, at once"
    except Exception as error:
        stop.is_over = True
        try:
            session.finish("error", (str(error).strip() or type(error).__name__).splitlines()[0])
        except ZooError as second:  # the first error matters more
            error.add_note(f"(and the run could not be ended properly: {second})")
        raise
    stop.is_over = True
    return session.finish(reason, detail)
