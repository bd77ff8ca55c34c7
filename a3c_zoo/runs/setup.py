"""What a run gets before it starts: its entries and configuration, and who watches it."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol

from a3c_zoo.agents.configs import A3CConfig
from a3c_zoo.config import Config, RunConfig
from a3c_zoo.config.provenance import plugin_versions, plugins_of
from a3c_zoo.config.sets import entries_of, env_of
from a3c_zoo.plugins.entries import AgentEntry, EnvEntry, NetworkEntry, OptimizerEntry
from a3c_zoo.plugins.registry import GIVEN, Registry
from a3c_zoo.plugins.run_hooks import RunHooks
from a3c_zoo.plugins.sources import SourceDigests
from a3c_zoo.processes.start import warm_up
from a3c_zoo.records import Progress
from a3c_zoo.runs.resources import Clock, Meter
from a3c_zoo.runs.signals import StopRequest
from a3c_zoo.store.directory import RUN_FORMAT, describe_host
from a3c_zoo.words import counted

#: The most characters of a command that meta.json holds. Its readers refuse a file that is too large.
LONGEST_COMMAND: Final = 100_000


@dataclass(frozen=True, slots=True)
class Initial:
    """The policy whose parameters a run begins with. agent: its state, for acting. told: what meta.json holds of it."""

    agent: dict[str, Any]
    told: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RunSetup:
    """All that a run needs to know before it starts.

    Attributes:
        network, optimizer: the entries that the configuration names; None for an agent without that section.
        initial: what a new run begins with; None for parameters drawn from its seed.
        solved_step: agent steps at which an earlier session solved the run, None if none did.
        num_without_turn: workers of the configuration that have no turn, because others learn what their teams would.
    """

    registry: Registry
    entry: EnvEntry
    agent: AgentEntry
    network: NetworkEntry | None
    optimizer: OptimizerEntry | None
    config: Config
    serial: bool
    initial: Initial | None = None
    solved_step: int | None = None
    num_without_turn: int = 0

    @classmethod
    def of(cls, registry: Registry, config: Config, serial: bool) -> RunSetup:
        """With the entries that the configuration names."""
        if config.network:
            network = registry.network(config.network.name)
        else:
            network = None
        if config.optimizer:
            optimizer = registry.optimizer(config.optimizer.name)
        else:
            optimizer = None
        env = env_of(registry, config)
        agent = registry.agent(config.agent_name)
        num_workers = config.run.workers
        if serial:
            config = in_turn(config)
        without_turn = num_workers - config.run.workers
        return cls(registry, env, agent, network, optimizer, config, serial, num_without_turn=without_turn)

    @property
    def title(self) -> str:
        """The run in a line."""
        config = self.config
        if self.serial:
            parallel = "serial"
        else:
            parallel = counted(config.run.workers, "workers")
            if config.teams < config.run.workers:
                parallel += f" in {config.teams} teams"
        if self.agent.one_process:
            workers = "one process"
        else:
            workers = parallel
        return f"{config.agent_name} on {config.env_name}, seed {config.run.seed}, {workers}"

    @property
    def workers_told(self) -> str:
        """A line about a number of workers that is not plainly the one that was given; "" for others."""
        number = counted(self.config.run.workers, "workers")
        why = self.config.workers_why
        if self.serial:
            if self.num_without_turn and not why:
                many = self.config.run.workers + self.num_without_turn
                return f"{number} in place of {many:,}: in turn, each learns what a team would"
            return ""
        if why and self.config.agent.shares_out:
            return f"{number}, {why}"
        return ""

    @property
    def teams_told(self) -> str:
        """A line if fewer members than all of a team make an update, though they are to make it together; else ""."""
        config = self.config
        agent = config.agent
        if not isinstance(agent, A3CConfig) or agent.team_updates != "together" or config.network is None:
            return ""
        members = agent.members_of_team(config.run.workers)
        size = agent.members_of_update(config.run.workers, config.env.num_envs, config.network.has_core)
        if size == members:
            return ""
        if config.network.has_core:
            whole = "segments"
        else:
            whole = "samples"
        reason = f"its {whole} cannot be split equally among more"
        return f"each update is made by {size} of the {members} workers of a team: {reason}"

    @property
    def target(self) -> float | None:
        """Mean return of 100 episodes at which the run is checked; None if it never is, or was solved before."""
        run = self.config.run
        if not run.stop_when_solved:
            return None
        if run.stop_return is not None:
            return run.stop_return
        if self.solved_step is not None:
            return None
        return self.entry.threshold

    def meta(self) -> dict[str, Any]:
        """What meta.json holds."""
        machine = describe_host()
        machine["versions"] |= plugin_versions(self.registry, self.config)
        given_env = self._given_env()
        command = sys.argv
        if sum(map(len, command)) > LONGEST_COMMAND:  # that of a program, with thousands of files
            command = command[:1]
        return {
            "format": RUN_FORMAT,
            "env": self.config.env_name,
            "agent": self.config.agent_name,
            "kind": self.agent.kind,
            "serial": self.serial,
            "seed": self.config.run.seed,
            "plugins": plugins_of(self.registry, self.config),
            "plugin_files": [info.file for info in self.registry.plugins if info.file],
            "sources": SourceDigests().of(
                self.registry, entries_of(self.registry, self.config).values(), self.config.import_strings
            ),
            "started": f"{datetime.now().astimezone():%Y-%m-%dT%H:%M:%S%z}",
            "command": command,
            **({"init_from": self.initial.told} if self.initial else {}),
            **({"given_env": given_env} if given_env else {}),
            **machine,
        }

    def _given_env(self) -> str:
        """The import string of an environment that a program gave as a function; "" if no other program finds it."""
        function = self.entry.kwargs.get("function")
        is_given = self.registry.owner(self.entry).distribution == GIVEN.distribution
        if is_given and isinstance(function, str) and not function.startswith("__main__:"):
            return function
        return ""

    def run_hooks(self) -> RunHooks:
        """The run hooks of a session. Raises PluginError if some cannot be made."""
        return self.registry.run_hooks(
            {name: settings for name, settings in self.config.plugins.items() if settings.enabled}
        )

    def warm_up(self) -> None:
        """Refuses what cannot be trained or what no device is there for, and starts the fork server for processes.

        Raises:
            ConfigError: the agent refuses the configuration (`AgentConfig.check_run`), or the device is not there.
        """
        self.config.agent.check_run(self.config, self.entry)
        if not self.serial and (self.config.run.has_evaluator or not self.agent.one_process):
            warm_up(self.config.run.start_method)
        if (device := self.config.run.device) != "cpu":  # only this needs torch before there is a directory
            from a3c_zoo.learning.networks import check_device

            check_device(device)


def in_turn(config: Config) -> Config:
    """The configuration of workers in turn: each learns by itself what a team would learn."""
    return replace(config, run=config.run.model_copy(update={"workers": config.teams}))


class Observer(Protocol):
    """Is told how a run goes. A subclass may leave methods out."""

    def starting(self, title: str, target: float | None, run: RunConfig, path: Path) -> None:
        """Before the workers start. target: mean return at which the run is checked, None if it never is."""
        return

    def progress(self, progress: Progress) -> None:
        """Called several times a second, also while workers start (`Progress.workers_ready`)."""
        return

    def message(self, text: str) -> None:
        """Something worth a line."""
        return


class SilentObserver(Observer):
    """Watches a run and says nothing."""


@dataclass(frozen=True, slots=True)
class Watch:
    """What goes along with one session: who is told, who may stop it, its run hooks, its seconds and its costs."""

    observer: Observer
    stop: StopRequest
    hooks: RunHooks
    clock: Clock = field(default_factory=Clock)
    meter: Meter = field(default_factory=Meter)
