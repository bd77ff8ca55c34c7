"""Data parallelism: workers collect, the learner forms batches, differentiates and applies.

    workers: collect ──samples──▶ learner: differentiate ──▶ apply

Workers never differentiate. Their samples are sliding windows of `agent.reward_steps` steps. `agent.transfer`
says how they cross:

    microbatches  whole rollouts, whose returns the worker has bootstrapped when it collected them
    transitions   single steps, which the learner bootstraps with its own, newer network
"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from torch import Tensor

from a3c_zoo.agents.configs import A3CDataConfig
from a3c_zoo.agents.context import OnTick, State, WorkerContext
from a3c_zoo.agents.learner import HandoverWorker, Learner, make_ring
from a3c_zoo.agents.with_workers import agent_config, train
from a3c_zoo.config import Config
from a3c_zoo.learning.actions import mask_length
from a3c_zoo.learning.model import Model
from a3c_zoo.learning.networks import in_training, seed_passes
from a3c_zoo.learning.objective import Loss, actor_critic_loss, descend, forward
from a3c_zoo.learning.recurrent import unroll_steps
from a3c_zoo.processes.ring import Layout
from a3c_zoo.records import RunContext
from a3c_zoo.seeds import SEED_PASSES, seed_for
from a3c_zoo.store.saved_state import fitting, loading


def hand_over_micro_batch(worker: HandoverWorker) -> None:
    """Fills one slot with the complete windows of a rollout and their returns."""
    windows = worker.windows
    rollout = worker.windows.rollout
    num_steps = worker.windows.num_steps
    network = worker.model.network
    if rollout.states is None:
        ahead = windows.values_ahead(network.value)
    else:  # a recurrent core values observations in one pass over all of them
        with torch.no_grad():
            _, values, value = forward(network, windows.samples, slice(None))
        ahead = windows.values_ahead(value, values.numpy().reshape(-1, windows.valid.shape[1]))
    returns = windows.returns(ahead)
    slot = worker.claim()
    slot["observations"].copy_(rollout.observations[:num_steps].flatten(0, 1))
    slot["actions"].copy_(rollout.actions[:num_steps].flatten(0, 1))
    if (masks := windows.masks) is not None:
        slot["masks"].copy_(masks)
    if rollout.states is not None and rollout.resets is not None:
        slot["states"][0] = rollout.states[0]
        slot["resets"].copy_(torch.from_numpy(rollout.resets[:num_steps]))
    slot["returns"].copy_(torch.from_numpy(returns.reshape(-1)))
    slot["valid"].copy_(torch.from_numpy(windows.valid.reshape(-1)))
    worker.commit(slot)


def hand_over_transitions(worker: HandoverWorker) -> None:
    """Fills a slot for each complete window."""
    windows = worker.windows
    rollout = worker.windows.rollout
    rewards, discounts, lasts = windows.parts()
    for t, n in np.argwhere(windows.valid).tolist():
        slot = worker.claim()
        slot["observations"][0] = rollout.observations[t, n]
        slot["actions"][0] = rollout.actions[t, n]
        if rollout.masks is not None:
            slot["masks"][0] = rollout.masks[t, n]
        slot["rewards"].fill_(float(rewards[t, n]))
        slot["discounts"].fill_(float(discounts[t, n]))
        slot["lasts"][0] = lasts[t, n]
        worker.commit(slot)


#: What a worker does for each value of `agent.transfer`.
TRANSFERS = {"microbatches": hand_over_micro_batch, "transitions": hand_over_transitions}


class DataLearner(Learner):
    """Gathers `agent.batch_size` samples and learns from them."""

    def __init__(self, context: WorkerContext, rank: int, state: State | None, on_tick: OnTick) -> None:
        super().__init__(context, rank, state, on_tick)
        assert isinstance(self.agent, A3CDataConfig)
        self._size = self.agent.batch_size
        self._num_slots: int = self._size // context.exchange["observations"].shape[2]
        self._taken: int = 0
        self._batch = {
            name: torch.zeros((self._num_slots, *field.shape[2:]), dtype=field.dtype)
            for name, field in context.exchange.items()
            if name not in ("filled", "emptied", "version")
        }
        #: Views of the same tensors `[B, ...]`: the samples of all slots in a row.
        self._samples = {name: part.flatten(0, 1) for name, part in self._batch.items()}
        if state:
            with loading():
                self._taken = len(state["batch"]["observations"])
                for name, part in self._batch.items():
                    taken = part[: self._taken]
                    taken.copy_(fitting(state["batch"][name], taken, f"batch.{name}"))

    def take(self, slot: dict[str, Tensor]) -> bool:
        for name, part in self._batch.items():
            part[self._taken] = slot[name]
        self._taken += 1
        return self._taken == self._num_slots

    def differentiate(self, want_metrics: bool) -> tuple[Tensor, dict[str, float]]:
        """Returns the gradient of the batch at the newest parameters, and metrics (`descend`)."""
        batch = self._samples
        self._taken = 0
        self.model.pull(self.context.parameters, self.context.observation_statistics, self.context.buffers)
        self.model.flat.zero_gradients()
        if self.model.network.has_modes:
            seed_passes(
                self.model.network, seed_for(self.context.config.run.seed, SEED_PASSES, self.counters.updates)
            )
        with in_training(self.model.network):
            logits, values = self._evaluate()
        known = values.detach().numpy()
        if "lasts" in batch:
            returns = batch["rewards"].numpy() + batch["discounts"].numpy() * known[self._size :]
            valid = np.ones(self._size, np.bool_)
        else:
            returns = batch["returns"].numpy()
            valid = batch["valid"].numpy()
        actions = batch["actions"]
        advantages = returns - known[: self._size]
        distribution = self.context.spaces.actions
        objective = self.objective()
        metrics = descend(
            distribution,
            logits,
            values,
            actions,
            advantages,
            returns,
            valid,
            objective,
            want_metrics,
            masks=batch.get("masks"),
        )
        return self.model.flat.wide_gradients(), metrics

    def _evaluate(self) -> tuple[Tensor, Tensor]:
        """Logits `[B, A]` of the B samples, and values `[≥ B]` that begin with those of the samples."""
        network = self.model.network
        observations = self._samples["observations"]
        # `evaluate` gives logits of every row but the last. The last row holds the states that follow
        # transitions, or any one sample again.
        if "lasts" in self._samples:
            return network.evaluate(torch.stack((observations, self._samples["lasts"])))
        if "states" in self._samples:
            return self._unroll()
        return network.evaluate(torch.cat((observations, observations[:1])).unsqueeze(1))

    def _unroll(self) -> tuple[Tensor, Tensor]:
        """As `_evaluate`, for a recurrent core: one pass over M micro-batches, `[M, T·N]` as `[T, M·N]`."""
        resets = self._batch["resets"]  # [M, T, N]
        states = self._batch["states"][:, 0]  # [M, K, N, H]
        slots, rows, envs = resets.shape
        stored = self._batch["observations"]
        observations = stored.view(slots, rows, envs, *stored.shape[2:]).transpose(0, 1).flatten(1, 2)
        resets = resets.transpose(0, 1).flatten(1, 2)
        logits, values = unroll_steps(
            self.model.network, observations, states.transpose(0, 1).flatten(1, 2), resets
        )
        logits = logits.view(rows, slots, envs, -1).transpose(0, 1).flatten(0, 2)
        return logits, values.view(rows, slots, envs).transpose(0, 1).flatten()

    def state_dict(self) -> State:
        batch = {name: part[: self._taken].clone() for name, part in self._batch.items()}
        return super().state_dict() | {"batch": batch}


def layout(model: Model, config: Config) -> Layout:
    """What one slot of the ring holds."""
    agent = config.agent
    spec = model.spaces.observations
    assert isinstance(agent, A3CDataConfig)
    stored = torch.from_numpy(np.zeros(0, spec.dtype)).dtype
    if agent.transfer == "transitions":
        rows = 1
        own: Layout = {
            "rewards": ((1,), torch.float32),
            "discounts": ((1,), torch.float32),
            "lasts": ((1, *spec.shape), stored),
        }
    else:
        rows = agent.n_steps * config.env.num_envs
        own = {"returns": ((rows,), torch.float32), "valid": ((rows,), torch.bool)}
        if (start := model.network.start(config.env.num_envs)) is not None:
            resets = ((agent.n_steps, config.env.num_envs), torch.bool)
            own |= {"states": ((1, *start.shape), torch.float32), "resets": resets}
    actions = model.spaces.actions
    if actions.has_masks:
        own = {**own, "masks": ((rows, mask_length(actions)), torch.bool)}
    common: Layout = {
        "observations": ((rows, *spec.shape), stored),
        "actions": ((rows, *actions.shape), actions.dtype),
        "version": ((), torch.int64),
    }
    return {**common, **own}


def run_a3c_data(context: RunContext, loss: Loss = actor_critic_loss) -> None:
    """Trains until the run says stop; `AgentEntry.run` of `a3c-data`.

    Args:
        loss: computes the terms of the loss.
    """
    config = context.config
    agent = agent_config(context, A3CDataConfig)
    slots = agent.slots
    if context.serial and agent.transfer == "transitions":
        # The learner's turn comes after the whole rollout.
        slots = max(slots, agent.n_steps * config.env.num_envs)

    def exchange(model: Model) -> dict[str, Tensor]:
        slot = layout(model, config)
        batch_slots = agent.batch_size // slot["observations"][0][0]
        return make_ring(config.run.workers, slots, slot, batch_slots, not context.serial)

    train(context, partial(HandoverWorker, TRANSFERS[agent.transfer]), DataLearner, exchange, loss)
