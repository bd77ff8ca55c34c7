"""The check of an agent: short runs in turn and in two processes, save, load, resume, stop; and whether it learns."""

from __future__ import annotations

import time

from a3c_zoo.config import AgentConfig
from a3c_zoo.config.sets import resolve_config
from a3c_zoo.plugins.entries import AgentEntry, EnvEntry
from a3c_zoo.plugins.registry import Registry, get_registry
from a3c_zoo.records import Report
from a3c_zoo.runs.episodes import EpisodesToPlay
from a3c_zoo.runs.evaluation import evaluate_policy, load_policy
from a3c_zoo.runs.setup import RunSetup
from a3c_zoo.testing.conformance import check_entry
from a3c_zoo.testing.findings import Findings
from a3c_zoo.testing.short_run import ShortRun
from a3c_zoo.testing.small_environment import ACTIONS

ENVIRONMENTS = "a3c_zoo.testing.small_environment"
#: Training time of a run in turn, and of one in worker processes, in seconds; both end with a rollout.
SERIAL_S, PARALLEL_S = 0.2, 0.5
#: An agent learns the corridor of `EarlyExit` in parts of so many seconds.
LEARN_S = 0.5
#: How long it may take, in seconds.
LEARN_LIMIT_S = 60.0
#: After so many steps it should have learned it: a3c needs 2,000, a3c-data 6,000, sb3-ppo and sb3-dqn 13,000.
LEARN_STEPS = 20_000
#: A greater mean return shows that it has learned. Random actions have 3.9.
LEARNED = 5.0
#: The number of episodes of the mean return.
LEARN_EPISODES = 40
#: An agent that takes longer to return after `settle` gets a warning, in seconds.
LONGEST_STOP_S = 5.0


def check_agent(entry: AgentEntry) -> None:
    """Trains an agent for moments, as `a3c-zoo check` does: in turn, in two processes, on from what it saved.

    Raises:
        AssertionError: with one line on the first fault.
    """
    examine_agent(get_registry(), entry, Findings(f"agent '{entry.name}'", raises=True))


def examine_agent(registry: Registry, entry: AgentEntry, findings: Findings) -> None:
    """Trains an agent for moments on a small environment of each action space that it claims."""
    with findings.during("entry", "correct the entry"):
        check_entry(entry, "zoo_agents", AgentConfig, findings, run=entry.run, load=entry.load)
    for field, known in (("spaces", ACTIONS), ("stacks", ("own", "zoo"))):
        unknown = [name for name in getattr(entry, field) if name not in known]
        message = f"{field} has {', '.join(unknown)}, which a3c-zoo does not know"
        findings.expect(not unknown, "entry", message, f"it may have: {', '.join(known)}")
    if not findings.is_sound:
        return
    runs: dict[str, ShortRun] = {}
    for space in entry.spaces:
        with findings.during(space, f"correct the agent, or leave '{space}' out of AgentEntry.spaces"):
            setup = _setup(registry, entry, space, serial=True)
            runs[space] = run = _trained(setup, findings, SERIAL_S)
            _play(setup, run)
            findings.ok(space, f"{run.steps:,} steps in one process; saves, loads and plays")
    if findings.is_sound and entry.spaces:
        _check_resume(_setup(registry, entry, entry.spaces[0], serial=True), runs[entry.spaces[0]], findings)
        if "Discrete" in runs and runs["Discrete"].updates:
            _check_learning(registry, entry, findings)
        if not entry.one_process:
            _check_processes(_setup(registry, entry, entry.spaces[0], serial=False), findings)


def _setup(registry: Registry, entry: AgentEntry, space: str, serial: bool) -> RunSetup:
    """A run of the agent on a small environment with this action space."""
    environment = EnvEntry("small", env_id=f"{ENVIRONMENTS}:SmallEnvironment-v0", kwargs={"space": space})
    return _setup_on(registry, environment, entry, serial)


def _setup_on(registry: Registry, environment: EnvEntry, entry: AgentEntry, serial: bool) -> RunSetup:
    """A run of the agent with its defaults, two workers and two environments each, where it takes as many.

    Raises:
        ConfigError: the agent refuses such a run (`AgentConfig.check_run`).
    """
    overrides = [f"run.steps={LEARN_STEPS}"]  # schedules end with a budget
    if not entry.one_process:
        overrides += ["run.workers=2", "run.worker_restarts=0"]
    if not entry.one_environment:
        overrides.append("env.num_envs=2")
    config = resolve_config(registry, environment, entry, overrides=overrides)
    if config.network:
        network = registry.network(config.network.name)
    else:
        network = None
    if config.optimizer:
        optimizer = registry.optimizer(config.optimizer.name)
    else:
        optimizer = None
    config.agent.check_run(config, environment)
    return RunSetup(registry, environment, entry, network, optimizer, config, serial)


def _trained(
    setup: RunSetup, findings: Findings, seconds: float, start: ShortRun | None = None, acts: bool = False
) -> ShortRun:
    """Trains for some seconds, from the end of another run if one is given. acts: with the part for acting alone."""
    if start and acts:
        counts = Report(steps=start.steps, updates=start.updates)
    else:
        counts = None
    saved = None
    if start:
        saved = start.acting if acts else start.state
    run = ShortRun(setup, findings, seconds, saved, counts)
    run.run()
    if run.state is None:
        findings.stop_quietly()
    findings.expect(
        run.steps, "reports", "it reported no steps", "record a Report with `steps` after each rollout"
    )
    made = run.updates
    if start:
        made -= start.updates
    message = f"{run.skipped} of {made + run.skipped} gradients were not finite and were not applied"
    findings.expect(
        not run.skipped, "gradients", message, "keep the loss finite: no log(0), no 0 / 0, no overflow"
    )
    if run.stop_s > LONGEST_STOP_S:
        message = f"it returned {run.stop_s:.0f} s after settle() had returned False"
        findings.warn("stop", message, "return from run() at once")
    return run


def _play(setup: RunSetup, run: ShortRun) -> None:
    """Plays with what `AgentEntry.load` makes of the saved state."""
    config = setup.config
    for state in (run.state, run.acting):
        if state is not None:
            policy = load_policy(setup.agent.load, setup.entry, setup.network, config, state)
            for deterministic in (False, True):
                evaluate_policy(policy, EpisodesToPlay(setup.entry, config.env, 2, 0, 0, 2), deterministic)


def _check_resume(setup: RunSetup, run: ShortRun, findings: Findings) -> None:
    cure = "take everything up from context.checkpoint, which is what Snapshot.state returned"
    for check, acts in (("resume", False), ("resume from best", True)):
        if acts and run.acting is None:
            return
        with findings.during(check, cure):
            resumed = _trained(setup, findings, SERIAL_S, run, acts)
            message = f"it counts {resumed.first_steps:,} steps, where the run had {run.steps:,} before"
            findings.expect(resumed.first_steps >= run.steps, check, message, cure)
            findings.ok(check, f"goes on from step {run.steps:,}")


def _check_learning(registry: Registry, entry: AgentEntry, findings: Findings) -> None:
    """Trains where going on is worth more than leaving, which an agent with a wrong bootstrap does not learn."""
    cure = (
        "look at its bootstrap: a terminated state has the value 0, a truncated one that of its final observation; "
        "then at the sign of its loss and at its rate"
    )
    with findings.during("learning", cure):
        environment = EnvEntry("corridor", env_id=f"{ENVIRONMENTS}:EarlyExit-v0")
        setup = _setup_on(registry, environment, entry, serial=True)
        start_s = time.monotonic()
        run: ShortRun | None = None
        while True:
            run = _trained(setup, findings, LEARN_S, run)
            mean_return = _mean_return(setup, run)
            text = f"a mean return of {mean_return:.1f} after {run.steps:,} steps of a corridor"
            findings.give_sign()
            if mean_return > LEARNED:
                findings.ok("learning", text)
                return
            if run.steps >= LEARN_STEPS:
                findings.problem("learning", f"{text}: random actions have 3.9, and 6 is possible", cure)
                return
            if time.monotonic() - start_s > LEARN_LIMIT_S:
                findings.ok("learning", f"{text}: too few to tell whether it learns")
                return


def _mean_return(setup: RunSetup, run: ShortRun) -> float:
    """The mean return of the policy so far, with sampled actions. The most probable ones may be right by chance."""
    assert run.state is not None
    policy = load_policy(setup.agent.load, setup.entry, setup.network, setup.config, run.state)
    to_play = EpisodesToPlay(setup.entry, setup.config.env, LEARN_EPISODES, 0, 0, 8)
    return evaluate_policy(policy, to_play, deterministic=False).evaluation().mean_return


def _check_processes(setup: RunSetup, findings: Findings) -> None:
    with findings.during(
        "two processes", "keep in mind that workers are processes: everything they get is pickled"
    ):
        setup.warm_up()
        run = _trained(setup, findings, PARALLEL_S)
        findings.ok("two processes", f"trains with two workers, {run.steps_per_s:,.0f} steps/s; stops")
