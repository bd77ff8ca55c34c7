"""From a name to the checks of everything that has it. They run in a child process, which may end or hang."""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from multiprocessing import util
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import NamedTuple

from a3c_zoo.config import sets
from a3c_zoo.config.sets import HyperparamSet, list_sets
from a3c_zoo.errors import (
    WorkerError,
    ZooError,
    one_line,
    printable,
    printable_lines,
    type_and_message,
    unknown_name,
)
from a3c_zoo.plugins.entries import AgentEntry, EnvEntry, HyperparamEntry, NetworkEntry
from a3c_zoo.plugins.loading import PluginInfo
from a3c_zoo.plugins.registry import Registry, get_registry
from a3c_zoo.plugins.typed_names import env_name
from a3c_zoo.processes.child import ChildProcess, end_children
from a3c_zoo.processes.start import CURE_UNSENDABLE
from a3c_zoo.testing.findings import LIMIT_S, USUAL, CheckOptions, Finding, Findings, Status

#: How often the parent looks whether the child hangs, in seconds.
LOOK_S = 0.5
#: Signs of life are sent at least so many seconds apart.
SIGN_S = 1.0

#: Is told the subject, the name of a check that goes on, and for how many seconds it has.
OnWait = Callable[[str, str, float], object]


class Job(NamedTuple):
    """One thing to check.

    Attributes:
        subject: its kind and name, for people. name: its name on the command line. owner: the plugin that
            offers it.
        what: the thing itself. options: of the check, if it is an environment.
    """

    subject: str
    name: str
    owner: PluginInfo
    what: PluginInfo | EnvEntry | AgentEntry | NetworkEntry | HyperparamEntry | HyperparamSet
    options: CheckOptions = USUAL

    def examine(self, registry: Registry, findings: Findings) -> None:
        """Runs the check in this process."""
        # These import torch.
        from a3c_zoo.testing import agent_checks, environment_checks, network_checks, plugin_checks

        match self.what:
            case PluginInfo():
                plugin_checks.examine_plugin(registry, self.what, findings)
            case EnvEntry():
                environment_checks.examine_environment(registry, self.what, findings, self.options)
            case AgentEntry():
                agent_checks.examine_agent(registry, self.what, findings)
            case NetworkEntry():
                network_checks.examine_network(self.what, findings)
            case HyperparamEntry():
                plugin_checks.examine_package(registry, self.what, findings)
            case HyperparamSet():
                plugin_checks.examine_set(registry, self.what, findings)


def jobs_for(registry: Registry, name: str, options: CheckOptions | None = None) -> list[Job]:
    """Returns the checks of everything that has a name, and of all that a plugin of this name offers.

    Args:
        options: of the checks of environments; None: the usual ones.

    Raises:
        UnknownNameError: nothing has this name.
        ConfigError: an override is wrong.
        ZooError: there are options, and no environment has this name.
    """
    jobs = list(_jobs(registry))
    chosen = [job for job in jobs if name in (job.name, job.owner.name)]
    if not chosen:
        name = env_name(registry, name)
        chosen = [job for job in jobs if name == job.name and isinstance(job.what, EnvEntry)]
    if not chosen and ":" in name:
        entry = registry.env(name)
        chosen = [Job(f"environment '{name}'", name, registry.owner(entry), entry)]
    if not chosen:
        names = [name for job in jobs for name in (job.name, job.owner.name)]
        raise unknown_name(
            "environment, agent, network, set or plugin", name, names, listing="a3c-zoo list --help"
        )
    if options is None:
        return chosen
    return _with_options(registry, name, chosen, options)


def _with_options(registry: Registry, name: str, jobs: Sequence[Job], options: CheckOptions) -> list[Job]:
    envs = [job.what for job in jobs if isinstance(job.what, EnvEntry)]
    if not envs:
        raise ZooError(f"-o and --steps are for environments, and '{name}' is none")
    for env in envs:
        sets.resolve_config(registry, env, registry.agent(env.default_agent), overrides=options.overrides)
    return [job._replace(options=options) for job in jobs]


def _jobs(registry: Registry) -> Iterator[Job]:
    """Everything that can be checked: each plugin first, then what plugins offer."""
    for info in registry.plugins:
        yield Job(str(info), info.name, info, info)
    for env in registry.envs.values():
        yield Job(f"environment '{env.name}'", env.name, registry.owner(env), env)
    for agent in registry.agents.values():
        yield Job(f"{agent.kind} '{agent.name}'", agent.name, registry.owner(agent), agent)
    for network in registry.networks.values():
        yield Job(f"network '{network.name}'", network.name, registry.owner(network), network)
    for package in registry.hyperparams.values():
        yield Job(f"sets of {package.package}", package.package, registry.owner(package), package)
    for hyperparam_set in list_sets(registry):
        name = f"{hyperparam_set.env}/{hyperparam_set.name}"
        owner = registry.owner(registry.hyperparams[hyperparam_set.package])
        yield Job(f"set '{name}' of {hyperparam_set.package}", name, owner, hyperparam_set)


def check(
    jobs: Sequence[Job],
    limit_s: float = LIMIT_S,
    on_wait: OnWait = lambda *told: None,
    shows_traces: bool = False,
) -> Iterator[Finding]:
    """Runs jobs in a child process, one after the other; yields each finding at once.

    on_wait: called every `LOOK_S` seconds while nothing is found, and more often by a check that gives signs.
    shows_traces: whether the traceback of an error that is a problem is printed to stderr, too.

    If the process ends, or gives no sign for `limit_s` seconds, this is a problem of the job. A new process
    goes on with the next job. Raises WorkerError if none can be started.
    """
    jobs = yield from _sendable(jobs)
    util.get_temp_dir()  # of this process and of those that come from it: a child that is killed leaves nothing
    while jobs:
        try:
            child = ChildProcess("spawn", "a3c-zoo check", check_main, jobs, shows_traces)
        except (EOFError, OSError) as error:
            raise WorkerError(f"the process of the check cannot be started: {one_line(error)}") from error
        try:
            jobs = yield from _listen(child, jobs, limit_s, on_wait)
        finally:
            end_children([child], grace_s=0.0)


def _sendable(jobs: Sequence[Job]) -> Generator[Finding, None, Sequence[Job]]:
    """Returns the jobs that can be sent to a process; yields a problem for each other one."""
    sendable = []
    for job in jobs:
        try:
            ForkingPickler.dumps(job)
            sendable.append(job)
        except Exception as error:
            text = f"it cannot be sent to a process: {type_and_message(error)}"
            yield Finding(job.subject, "entry", "problem", printable(text), CURE_UNSENDABLE)
    return sendable


def _listen(
    child: ChildProcess, jobs: Sequence[Job], limit_s: float, on_wait: OnWait
) -> Generator[Finding, None, Sequence[Job]]:
    """Yields what a child finds; returns the jobs that are left for another one."""
    messages = 0
    part = "start"
    cure = "correct what its import does"
    begin_s = time.monotonic()
    while jobs:
        try:
            while not child.pipe.poll(LOOK_S):
                # A process that it forked may keep the pipe open.
                if not (child.process.is_alive() or child.pipe.poll()):
                    raise EOFError
                if child.is_hung(messages, limit_s if messages else LIMIT_S):
                    raise TimeoutError
                on_wait(jobs[0].subject, part, time.monotonic() - begin_s)
            kind, *content = json.loads(child.pipe.recv_bytes())
        except (EOFError, OSError) as error:
            is_hung = isinstance(error, TimeoutError)
            if is_hung:
                text = f"was ended after {limit_s:g} s: does it hang?"
            else:
                text = child.how_it_ended()
            hint = ""
            if "signal" in text and "SIGKILL" not in text:
                hint = "; PYTHONFAULTHANDLER=1 shows the line"
            yield Finding(jobs[0].subject, part, "problem", f"its process {text}", cure + hint)
            return jobs[1:]
        messages += 1
        if kind == "finding":
            yield Finding(*content)
        elif kind == "part":
            part, cure = content
            begin_s = time.monotonic()
        elif kind == "end":
            jobs = jobs[1:]
        else:  # it goes on
            on_wait(jobs[0].subject, part, time.monotonic() - begin_s)
    return []


def check_main(pipe: Connection, jobs: Sequence[Job], shows_traces: bool) -> None:
    """What runs in the child: sends findings, and which part of which job it is at, as JSON."""
    sys.stdout = sys.stderr  # what an environment prints is no finding
    # The command has told which packages cannot be read.
    logging.getLogger(sets.__name__).setLevel(logging.ERROR)
    for job in jobs:
        job.examine(get_registry(), _SentFindings(job.subject, pipe, shows_traces))
        pipe.send_bytes(b'["end"]')


class _SentFindings(Findings):
    """Findings that the parent process gets at once."""

    def __init__(self, subject: str, pipe: Connection, shows_traces: bool = False) -> None:
        super().__init__(subject)
        self._pipe = pipe
        self._shows_traces = shows_traces
        self._traced: BaseException | None = None
        self._signed_s = float("-inf")

    def give_sign(self) -> None:
        now_s = time.monotonic()
        if now_s - self._signed_s >= SIGN_S:
            self._signed_s = now_s
            self._pipe.send_bytes(b'["goes on"]')

    def problem(self, check: str, message: str, cure: str, cause: BaseException | None = None) -> None:
        # A configuration with several faults is one error of several problems.
        if self._shows_traces and cause is not None and cause is not self._traced:
            self._traced = cause
            sys.stderr.write(printable_lines("".join(traceback.format_exception(cause))))
            sys.stderr.flush()
        super().problem(check, message, cure, cause)

    @contextmanager
    def during(self, check: str, cure: str) -> Iterator[None]:
        self._pipe.send_bytes(json.dumps(["part", check, cure]).encode())
        with super().during(check, cure):
            yield

    def _add(
        self, check: str, status: Status, message: str, cure: str, figures: Mapping[str, float] | None = None
    ) -> None:
        super()._add(check, status, message, cure, figures)
        self._pipe.send_bytes(json.dumps(["finding", *astuple(self.found[-1])]).encode())
