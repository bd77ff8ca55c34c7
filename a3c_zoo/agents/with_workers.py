"""What every agent with workers does around them: builds the model, starts the crew, saves, loads."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from multiprocessing.synchronize import Lock
from typing import Any, TypeVar

import numpy as np

from a3c_zoo import hardware, system
from a3c_zoo.agents.configs import LossConfig
from a3c_zoo.agents.context import (
    ActingState,
    AgentState,
    OnTick,
    State,
    WorkerContext,
    agent_state,
    worker_context,
)
from a3c_zoo.agents.teams import config_of_member, group_size
from a3c_zoo.config import NEVER, Config
from a3c_zoo.errors import ConfigError, PluginError, type_and_message
from a3c_zoo.hardware import giga
from a3c_zoo.learning.counters import Counters
from a3c_zoo.learning.memory_check import check_memory
from a3c_zoo.learning.model import Model, ModelPolicy, SavedModel, Spaces, saved_model
from a3c_zoo.learning.network_configs import MLPConfig
from a3c_zoo.learning.network_outputs import check_outputs
from a3c_zoo.learning.objective import Loss, actor_critic_loss
from a3c_zoo.learning.reward_statistics import RewardStatistics
from a3c_zoo.plugins.entries import EnvEntry, NetworkEntry
from a3c_zoo.processes.crew import Crew, Worker, WorkerFactory, supervise
from a3c_zoo.processes.faults import Replacements
from a3c_zoo.processes.pool import WorkerPool
from a3c_zoo.processes.probe import read_spaces
from a3c_zoo.processes.serial import SerialCrew
from a3c_zoo.records import Report, RunContext, Snapshot
from a3c_zoo.store.saved_state import from_plain, to_plain

AnyLossConfig = TypeVar("AnyLossConfig", bound=LossConfig)
#: Makes a crew: `(run, factory, worker_context, states)`; the states are those of a checkpoint, or None or
#: empty. The crew keeps the tensors of the worker context up to date: snapshots are made of them.
CrewFactory = Callable[[RunContext, WorkerFactory, WorkerContext, list[State] | None], Crew]


def agent_config(context: RunContext, kind: type[AnyLossConfig]) -> AnyLossConfig:
    """Returns the `agent` section, which is of this kind.

    Raises:
        PluginError: the agent's configuration model does not derive from `kind`, or its entry leaves a
            section out.
    """
    config = context.config
    if not isinstance(config.agent, kind):
        raise PluginError(
            f"agent '{config.agent_name}': its configuration model, {type(config.agent).__name__}, must derive from "
            f"{kind.__name__}"
        )
    if config.network is None or config.optimizer is None:
        raise PluginError(
            f"agent '{config.agent_name}': its AgentEntry.sections must have network and optimizer"
        )
    return config.agent


def train(
    context: RunContext,
    worker: WorkerFactory,
    learner: WorkerFactory | None = None,
    exchange: Callable[[Model], Any] | None = None,
    loss: Loss = actor_critic_loss,
    crew: CrewFactory | None = None,
) -> None:
    """Trains with worker processes until the run says stop.

    Args:
        worker: builds one worker from a `WorkerContext`.
        learner: builds the learner, one more process, which applies what the workers hand over; None for
            none.
        exchange: makes what the agent's processes share beside the parameters (`WorkerContext.exchange`).
        loss: computes the terms of the loss.
        crew: makes the crew, where the workers are not processes of this machine; it must check itself that
            they fit into memory. None for the crew of every other agent.

    Raises:
        ConfigError: agent, network and environment do not fit together, or not into memory.
        PluginError: configuration model, network, workers or loss are not what an agent with workers needs.
    """
    config = context.config
    agent_config(context, LossConfig)
    assert config.network is not None
    assert context.network is not None
    check_portable(worker, learner, loss)
    spaces = read_spaces(context.entry, context.network, config, context.supported_spaces, context.serial)
    if crew is None:
        check_room(config, spaces, config.run.workers, has_processes=not context.serial)
    saved = agent_state(context, spaces, learner is not None)  # before there is a network of the wrong size
    if saved:  # with the background that its parameters know
        known = Spaces.from_state_dict(saved.model.spaces).observations.background
        spaces = replace(spaces, observations=replace(spaces.observations, background=known))
    model = Model.create(spaces, context.network, config)
    check_outputs(model, context.network)
    exchanged = exchange(model) if exchange else None
    shared = worker_context(context, model, exchanged, learner is not None, saved, loss)
    if config.teams < config.run.workers:
        shared = replace(shared, config=config_of_member(config))
    if learner is None:
        factory = worker
    else:
        factory = partial(build, (worker, learner))
    states = saved.workers if saved else None
    if crew is None:
        made = _crew(context, factory, shared, learner is not None, states)
    else:
        made = crew(context, factory, shared, states)
    supervise(made, context, _snapshot(model, shared, made))


def check_room(config: Config, spaces: Spaces, workers: int, has_processes: bool = True) -> None:
    """Raises ConfigError if this number of workers does not fit into this machine's memory.

    Args:
        has_processes: whether each worker is a process, whose number the machine limits.
    """
    agent = config.agent
    assert isinstance(agent, LossConfig)
    assert config.network is not None
    members = agent.members_of_team(workers)
    num_envs = config.env.num_envs
    per_update = agent.samples_per_update(num_envs)
    if members > 1:
        per_update //= group_size(config)
    copies = config.run.device == "cpu" and _copies_for_an_update(config, spaces)
    check_memory(
        spaces.observations,
        workers=workers,
        num_envs=num_envs // members,
        stored_steps=agent.stored_steps,
        update_samples=per_update if copies else 0,
        number_bytes=2 if config.network.computes_in == "bfloat16" else 4,
        environment_bytes=config.env.environment_bytes,
    )
    if has_processes and workers > 1:
        check_processes(workers)


def _copies_for_an_update(config: Config, spaces: Spaces) -> bool:
    """Whether an update makes a copy of its observations. Vectors in float32 are passed as they are stored."""
    assert isinstance(config.agent, LossConfig)
    is_as_stored = spaces.observations.kind == "vector" and spaces.observations.dtype == np.float32
    is_changed = isinstance(config.network, MLPConfig) and config.network.normalize_observations
    return not is_as_stored or config.agent.keeps_outputs or is_changed


def check_processes(workers: int) -> None:
    """Raises ConfigError if this machine cannot have so many worker processes; its message says how many it can."""
    files = system.most_open_files()
    most = hardware.workers_for_files(files, hardware.LEAST_FILES)
    if workers > most:
        raise ConfigError(
            f"run.workers: {workers:,} — this process may open {files:,} files, which is enough for {most:,} workers. "
            f"More: ulimit -n {hardware.FILES + workers * hardware.FILES_OF_A_WORKER}"
        )
    memory = hardware.available_memory()
    most = memory // hardware.WORKER_BYTES
    if workers > most:
        raise ConfigError(
            f"run.workers: {workers:,} — {giga(memory)} of memory are free, enough for {most:,} workers at most. "
            "As many as there are cores: --workers auto"
        )


def build(
    kinds: Sequence[WorkerFactory], context: WorkerContext, rank: int, state: State | None, on_tick: OnTick
) -> Worker:
    """Builds a worker with the first of `kinds`, or the learner, which has the last rank, with the second."""
    return kinds[rank == context.config.run.workers](context, rank, state, on_tick)


def check_portable(*parts: object) -> None:
    """Raises PluginError for a part of an agent that cannot travel to a worker process."""
    for part in parts:
        try:
            pickle.dumps(part)
        except Exception as error:
            raise PluginError(
                f"{part!r} cannot travel to a worker process; define it at the top of a module, and give it values "
                f"with functools.partial ({type_and_message(error)})"
            ) from error


def _crew(
    context: RunContext,
    worker: WorkerFactory,
    shared: WorkerContext,
    has_learner: bool,
    states: list[State] | None,
) -> Crew:
    run = context.config.run
    num_followers = run.workers - context.config.teams
    if context.serial:
        return SerialCrew(worker, shared, len(shared.counters), states, has_learner, context.cuts_rollouts)
    counters = Counters(shared.counters)
    # Episodes that workers had counted but not reported when a session failed do not count for the budget.
    lost = counters.episodes - context.episodes
    return WorkerPool(
        worker,
        shared,
        counters,
        states,
        run.start_method,
        run.worker_timeout_s,
        run.next_pause,
        has_learner,
        NEVER if run.episodes is None else run.episodes + lost,
        Replacements(
            context.event,
            run.worker_restarts,
            shared.exchange if isinstance(shared.exchange, Lock) else None,
            in_teams=num_followers > 0,
        ).judge,
        context.workers_ready,
        num_followers,
        context.config.agent.rollout_steps,
    )


def _snapshot(model: Model, shared: WorkerContext, crew: Crew) -> Snapshot:
    def saved() -> SavedModel:
        return saved_model(model, shared.parameters, shared.observation_statistics, shared.buffers)

    def state() -> dict[str, Any]:
        """What a checkpoint keeps: an `AgentState` as plain dictionaries, with copies of all shared tensors."""
        moments = {name: tensor.clone() for name, tensor in (shared.moments or {}).items()}
        rewards = shared.reward_statistics
        model = saved()
        return to_plain(
            AgentState(
                model,
                resumes=shared.resumes,
                optimizer=moments,
                counters=shared.counters.clone(),
                workers=crew.states(),
                reward_statistics=None if rewards is None else RewardStatistics(rewards).copy(),
            )
        )

    counters = Counters(shared.counters)
    return Snapshot(
        state,
        lambda: to_plain(ActingState(saved(), shared.resumes)),
        lambda: Report(steps=counters.steps, updates=counters.updates),
    )


def load(
    entry: EnvEntry, network: NetworkEntry | None, config: Config, state: Mapping[str, Any]
) -> ModelPolicy:
    """Rebuilds the policy of a checkpoint; `AgentEntry.load` of every agent with workers."""
    assert network is not None
    saved = from_plain(ActingState, state, "agent").model
    model = Model.load(saved, network, config)
    return ModelPolicy(model.spaces, model.network, config.run.seed)
