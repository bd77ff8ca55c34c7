"""What every agent with workers does around them: builds the model, starts the crew, saves, loads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from a3c_zoo.agents.configs import A3CConfig, LossConfig, TextbookConfig
from a3c_zoo.agents.context import WorkerContext, make_worker_context
from a3c_zoo.config import NEVER, Config
from a3c_zoo.errors import ConfigError
from a3c_zoo.learning.counters import Counters
from a3c_zoo.learning.memory import check_memory
from a3c_zoo.learning.model import Model, ModelPolicy, Spaces, probe_spaces, saved_model
from a3c_zoo.learning.objective import Objective
from a3c_zoo.plugins.entries import EnvEntry, NetworkEntry
from a3c_zoo.processes.crew import Crew, WorkerFactory, supervise
from a3c_zoo.processes.pool import WorkerPool
from a3c_zoo.processes.serial import SerialCrew
from a3c_zoo.records import RunContext, Snapshot


def train(
    context: RunContext,
    worker: WorkerFactory,
    *,
    n_steps: int,
    update_samples: int | None = None,
    exchange: Callable[[Model], Any] | None = None,
    has_learner: bool = False,
) -> None:
    """Trains until the run says stop.

    Args:
        worker: builds one worker, and the learner if the agent has one; gets a `WorkerContext`.
        n_steps: rows of a rollout.
        update_samples: how many samples are differentiated at once, None for the whole rollout.
        exchange: makes what the agent's processes share beside the parameters (`WorkerContext.exchange`).
        has_learner: one more process, of the last rank, applies what the workers hand over.

    Raises:
        ConfigError: agent, network and environment do not fit together, or not into memory.
    """
    config = context.config
    assert context.network is not None
    check_schedule(config)
    spaces = probe_spaces(context.entry, context.network, config, context.supported_spaces)
    check_memory(
        spaces.observations,
        workers=config.run.workers,
        num_envs=config.env.num_envs,
        n_steps=n_steps,
        update_samples=(update_samples or n_steps * config.env.num_envs) if config.run.device == "cpu" else 0,
        number_bytes=2 if getattr(config.network, "precision", "") == "bfloat16" else 4,
    )
    model = Model.create(spaces, context.network, config)
    plan = make_worker_context(context, model, exchange(model) if exchange else None, has_learner)
    crew = _crew(context, worker, plan, has_learner)
    supervise(crew, context, _snapshot(model, plan, crew))


def check_schedule(config: Config) -> None:
    """Raises ConfigError for a linear schedule that has nothing to fall over."""
    optimizer = config.optimizer
    if optimizer is None or optimizer.schedule_steps or config.run.steps:
        return
    schedules = {"optimizer.schedule": optimizer.schedule}
    schedules["agent.entropy_schedule"] = getattr(config.agent, "entropy_schedule", "constant")
    for key, schedule in schedules.items():
        if schedule == "linear":
            raise ConfigError(f"{key}: linear — needs optimizer.schedule_steps, or a budget: --steps N")


def check_live(config: Config, cure: str = "") -> None:
    """Raises ConfigError for a network that cannot compute with the shared parameters themselves.

    Args:
        cure: what else would help.
    """
    precision, device = getattr(config.network, "precision", "float32"), config.run.device
    if precision != "float32" or device != "cpu":
        raise ConfigError(
            f"agent '{config.agent_name}' acts with the shared parameters, float32 in the CPU's memory, but its "
            f"network computes in {precision} on {device}: {cure}-o network.precision=float32 --device cpu"
        )


def objective_of(config: LossConfig) -> Objective:
    """The loss that an agent's configuration asks for."""
    return Objective(
        gamma=config.gamma,
        gae_lambda=config.gae_lambda if isinstance(config, A3CConfig) else 1.0,
        entropy_coefficient=config.entropy_coefficient,
        value_coefficient=config.value_coefficient,
        normalize_advantages=config.normalize_advantages,
        clip_rewards=config.clip_rewards,
        reward_scale=config.reward_scale,
        loss_sum=config.loss_reduction == "sum",
        anneal_entropy=config.entropy_schedule == "linear",
        **(config.textbook_objective() if isinstance(config, TextbookConfig) else {}),
    )


def update_columns(config: A3CConfig, num_envs: int) -> list[slice]:
    """Which environments each update of a rollout learns from: `update_samples` samples at a time.

    Raises:
        ConfigError: `update_samples` does not divide the rollout into whole environments.
    """
    per_update = config.update_samples or config.n_steps * num_envs
    width, rest = divmod(per_update, config.n_steps)
    if rest or width > num_envs or num_envs % width:
        raise ConfigError(
            f"agent.update_samples: {per_update} — a rollout of n_steps {config.n_steps} × num_envs {num_envs} splits "
            f"into updates of n_steps × k samples, where k divides num_envs"
        )
    return [slice(start, start + width) for start in range(0, num_envs, width)]


def _crew(context: RunContext, worker: WorkerFactory, plan: WorkerContext, has_learner: bool) -> Crew:
    run, states = context.config.run, context.checkpoint["workers"] if context.checkpoint else None
    if context.serial:
        return SerialCrew(worker, plan, len(plan.counters), states, has_learner)
    counters = Counters(plan.counters)
    # After a failure, workers have counted episodes that nobody could tell of any more. The run ends by those recorded.
    lost = counters.episodes - context.episodes
    return WorkerPool(
        worker,
        plan,
        counters,
        states,
        run.start_method,
        run.worker_timeout_s,
        run.next_pause,
        has_learner,
        NEVER if run.episodes is None else run.episodes + lost,
    )


def _snapshot(model: Model, plan: WorkerContext, crew: Crew) -> Snapshot:
    def acting() -> dict[str, Any]:
        return {"model": saved_model(model, plan.parameters, plan.statistics)}

    def state() -> dict[str, Any]:
        return {
            **acting(),
            "optimizer": {k: v.clone() for k, v in (plan.optimizer_state or {}).items()},
            "counters": plan.counters.clone(),
            "session": plan.session,
            "workers": crew.states(),
        }

    def policy(seed: int) -> ModelPolicy:
        model.pull(plan.parameters, plan.statistics)
        return ModelPolicy(model, seed)

    return Snapshot(policy, state, acting)


def load(entry: EnvEntry, network: NetworkEntry | None, config: Config, state: Mapping[str, Any]) -> ModelPolicy:
    """Rebuilds the policy of a checkpoint; `AgentEntry.load` of every agent with workers."""
    assert network is not None
    model = Model(Spaces.from_state_dict(state["model"]["spaces"]), network, config)
    model.load(state["model"])
    return ModelPolicy(model, config.run.seed)
