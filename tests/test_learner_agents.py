"""`a3c-data` and `a3c-grad`: what the learner applies, by hand, over real processes, and through the serial runner."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

from a3c_zoo.agents import a3c_data, a3c_grad
from a3c_zoo.agents.configs import A3CDataConfig, A3CGradConfig, HandoverConfig
from a3c_zoo.agents.context import WorkerContext
from a3c_zoo.agents.learner import HandoverWorker
from a3c_zoo.agents.with_workers import build
from a3c_zoo.config import Config, EnvConfig, OptimizerConfig, RunConfig
from a3c_zoo.errors import ConfigError, PluginError
from a3c_zoo.learning.counters import Counters
from a3c_zoo.learning.model import Model, probe_spaces
from a3c_zoo.learning.network_configs import MLPConfig
from a3c_zoo.learning.optimizers import Adam
from a3c_zoo.learning.parameters import share
from a3c_zoo.plugins.entries import EnvEntry, NetworkEntry
from a3c_zoo.processes.crew import CutShort
from a3c_zoo.processes.ring import ring_memory
from a3c_zoo.processes.serial import SerialCrew
from tests.toys import ADAM, CONSTANT, toy_entry
from tests.turns import work_in_turn

WORKERS = 2
CARTPOLE = EnvEntry("cartpole", "a3c_zoo_envs.cartpole:make")
MLP = NetworkEntry("mlp", "a3c_zoo.learning.mlp:build_mlp", inputs=("vector",))
#: With β1 = 0, Adam's first moment is the gradient that was applied last.
SIGN_STEP = OptimizerConfig(name="adam", learning_rate=1.0, beta1=0.0, beta2=0.0, epsilon=1e-9, max_grad_norm=None)
#: The loss is ½(V − R)² then, its gradient V − R.
VALUE_LOSS: dict[str, Any] = {"entropy_coefficient": 0.0, "value_coefficient": 0.5, "gamma": 0.5}


def make_context(
    agent: HandoverConfig,
    entry: EnvEntry = CARTPOLE,
    network: NetworkEntry = MLP,
    optimizer: OptimizerConfig = SIGN_STEP,
    num_envs: int = 4,
    slots: int = 64,
    is_shared: bool = False,
    core: str = "none",
) -> WorkerContext:
    """The context of a run without the run."""
    config = Config(
        entry.name,
        "agent",
        RunConfig(workers=WORKERS, seed=5),
        EnvConfig(num_envs=num_envs),
        agent,
        MLPConfig(hidden_sizes=(16,), recurrent=core, recurrent_size=8, separate=core == "none"),
        optimizer,
    )
    spaces = probe_spaces(entry, None, config, ("Discrete",))
    model = Model.create(spaces, network, config)
    parameters = model.flat.initial.clone()
    state, counters = Adam.moments(parameters, optimizer), Counters.zeros(WORKERS + 1)
    layout = a3c_data.layout(model, config) if isinstance(agent, A3CDataConfig) else a3c_grad.layout(model)
    memory = ring_memory(WORKERS, slots, layout, is_shared)
    if is_shared:
        share(parameters, counters, *state.values())
    return WorkerContext(entry, network, ADAM, config, spaces, parameters, state, counters, None, 0, memory)


def build_of(agent: HandoverConfig) -> Any:
    if isinstance(agent, A3CDataConfig):
        return partial(build, (partial(HandoverWorker, a3c_data.TRANSFERS[agent.transfer]), a3c_data.DataLearner))
    return partial(build, (partial(HandoverWorker, a3c_grad.hand_over_gradient), a3c_grad.GradientLearner))


class TestByHand:
    """One parameter, the value of every state; episodes of one step with the reward 10 in worker 0, 20 in worker 1."""

    def crew(self, agent: HandoverConfig, num_envs: int = 2, **optimizer: Any) -> tuple[WorkerContext, list[Any]]:
        context = make_context(
            agent, toy_entry(), CONSTANT, SIGN_STEP.model_copy(update=optimizer), num_envs=num_envs, slots=8
        )
        members = []
        for rank in range(WORKERS):
            script = (((10.0 * (rank + 1),), "terminated"),)
            entry = toy_entry(scripts=(script,), mode="SameStep")
            members.append(build_of(agent)(replace(context, entry=entry), rank, None, lambda: None))
        members.append(build_of(agent)(context, WORKERS, None, lambda: None))
        return context, members

    def applied(self, context: WorkerContext) -> list[float]:
        assert context.moments is not None
        gradient: list[float] = context.moments["exp_avg"].tolist()
        return gradient

    @pytest.mark.parametrize("transfer", ["microbatches", "transitions"])
    def test_a_batch_of_two_workers(self, transfer: Any) -> None:
        agent = A3CDataConfig(n_steps=1, reward_steps=1, batch_size=4, transfer=transfer, **VALUE_LOSS)
        context, (one, other, learner) = self.crew(agent)
        one.work()
        learner.finish()
        assert context.counters[:, 1].tolist() == [0, 0, 0]  # half a batch
        other.work()
        learner.finish()
        assert self.applied(context) == [-15]  # the mean of 0 − 10, 0 − 10, 0 − 20, 0 − 20
        assert context.parameters.tolist() == pytest.approx([1])
        assert context.counters.tolist()[2][:2] == [0, 1]
        assert context.counters[:2, 0].tolist() == [2, 2]
        one.work()
        one.work()
        learner.finish()
        assert self.applied(context) == pytest.approx([-9])  # 1 − 10: the learner's newest parameter

    def test_the_worker_bootstraps_a_micro_batch_and_the_learner_a_transition(self) -> None:
        # Rewards of 10 without an end, γ ½: R = 10 + ½·V(s'). Collected with V = 0, learned from with V = 4.
        for transfer, expected in (("microbatches", 4 - 10), ("transitions", 4 - (10 + 2))):
            agent = A3CDataConfig(n_steps=1, reward_steps=1, batch_size=1, transfer=transfer, **VALUE_LOSS)
            context, _ = self.crew(agent, num_envs=1)
            entry = toy_entry(scripts=((((10.0,) * 9, "terminated"),),))
            worker = HandoverWorker(a3c_data.TRANSFERS[transfer], replace(context, entry=entry), 0, None, lambda: None)
            learner = a3c_data.DataLearner(context, WORKERS, None, lambda: None)
            worker.work()
            context.parameters.fill_(4.0)
            learner.finish()
            assert self.applied(context) == [expected]

    @pytest.mark.parametrize("transfer", ["microbatches", "transitions"])
    def test_a_rollout_that_waits_for_a_slot_is_not_cut_short(self, transfer: Any) -> None:
        """It is counted by then. The time limit is over while the worker waits for its only slot."""
        agent = A3CDataConfig(n_steps=1, reward_steps=1, batch_size=1, transfer=transfer, **VALUE_LOSS)
        context = make_context(agent, toy_entry(), CONSTANT, SIGN_STEP, num_envs=1, slots=1)
        learner = a3c_data.DataLearner(context, WORKERS, None, lambda: None)

        def on_tick() -> None:
            if context.counters[0, 0] == 2:  # the second rollout has been collected
                learner.finish()
                raise CutShort

        worker = HandoverWorker(a3c_data.TRANSFERS[transfer], context, 0, None, on_tick)
        worker.work()
        worker.work()
        learner.finish()
        assert context.counters[:, 1].tolist() == [0, 0, 2]

    def test_a_turn_that_needs_more_slots_than_there_are(self) -> None:
        def fill_two(worker: HandoverWorker) -> None:
            for _ in range(2):
                worker.commit(worker.claim())

        context = make_context(A3CGradConfig(n_steps=1, reward_steps=1), toy_entry(), CONSTANT, num_envs=1, slots=1)
        with pytest.raises(PluginError, match=r"'agent' fills more slots .*agent\.slots"):
            HandoverWorker(fill_two, context, 0, None, lambda: None).work()

    @pytest.mark.parametrize("kind", ["microbatches", "transitions", "gradients"])
    def test_rewards_are_scaled_and_then_clipped(self, kind: Any) -> None:
        # Rewards of 10 and 20, scaled: 0.75 and 1.5; clipped: 0.75 and 1. An update has half of each, or adds both up.
        for keys, total in (
            ({"reward_scale": 0.075}, 2.25),
            ({"clip_rewards": True}, 2.0),
            ({"reward_scale": 0.075, "clip_rewards": True}, 1.75),
        ):
            shared: dict[str, Any] = {"n_steps": 1, "reward_steps": 1, **VALUE_LOSS, **keys}
            agent: HandoverConfig = A3CGradConfig(gradients_per_update=2, **shared)
            if kind != "gradients":
                agent = A3CDataConfig(batch_size=4, transfer=kind, **shared)
            context, (one, other, learner) = self.crew(agent)
            one.work()
            other.work()
            learner.finish()
            assert self.applied(context) == pytest.approx([-total if kind == "gradients" else -total / 2])

    def test_gradients_are_clipped_added_up_and_clipped(self) -> None:
        agent = A3CGradConfig(n_steps=1, reward_steps=1, gradients_per_update=2, **VALUE_LOSS)
        for limit, expected in ((None, -30.0), (15.0, -15.0), (12.5, -12.5)):
            context, (one, other, learner) = self.crew(agent, max_grad_norm=limit)
            one.work()
            learner.finish()
            assert context.counters[:, 1].tolist() == [0, 0, 0]
            other.work()
            learner.finish()
            assert self.applied(context) == pytest.approx([expected])
            assert context.counters[:, 1].tolist() == [0, 0, 1]
        # Without the workers' own clipping at 12.5 the sum would be −10 − 20, with it −10 − 12.5; either is clipped.
        learner.applier._config = learner.applier._config.model_copy(update={"max_grad_norm": None})
        context.parameters.zero_()
        one.work()
        other.work()
        learner.finish()
        assert self.applied(context) == pytest.approx([-22.5])

    def test_staleness_is_that_of_every_item(self) -> None:
        agent = A3CGradConfig(n_steps=1, reward_steps=1, gradients_per_update=1, **VALUE_LOSS)
        _, (one, other, learner) = self.crew(agent)
        one.work()
        one.work()
        other.work()
        learner.finish()  # three updates: the versions were all 0
        assert list(learner.staleness) == [0, 1, 2]
        metrics = learner.report().metrics
        assert metrics["staleness"] == 0.0  # told with the first update; statistics are told 20 times a second
        learner.tell({})
        metrics = learner.report().metrics
        assert metrics["staleness"] == 1.0
        assert metrics["staleness_p95"] == 2.0  # the nearest rank, ⌈0.95 · 3⌉

    def test_half_a_batch_is_part_of_the_learners_state(self) -> None:
        for agent in (
            A3CDataConfig(n_steps=1, reward_steps=1, batch_size=4, **VALUE_LOSS),
            A3CGradConfig(n_steps=1, reward_steps=1, gradients_per_update=2, **VALUE_LOSS),
        ):
            context, (one, other, learner) = self.crew(agent)
            one.work()
            learner.finish()
            resumed = build_of(agent)(context, WORKERS, learner.state_dict(), lambda: None)
            other.work()
            resumed.finish()
            assert self.applied(context) == [-15 if isinstance(agent, A3CDataConfig) else -30]

    def test_a_worker_that_acts_live_sees_every_update(self) -> None:
        for pull, expected in (("rollout", 0.0), ("live", 7.0)):
            agent = A3CDataConfig(n_steps=1, reward_steps=1, batch_size=4, pull=pull, **VALUE_LOSS)
            context, (one, _, _) = self.crew(agent)
            one.pull()
            context.parameters.fill_(7.0)
            assert one.model.network.value(torch.zeros(1, 2)).tolist() == [expected]


@pytest.mark.parametrize(
    ("agent", "core"),
    [
        (A3CDataConfig(n_steps=4, reward_steps=4, batch_size=32), "none"),
        (A3CDataConfig(n_steps=4, reward_steps=2, batch_size=32, pull="live"), "none"),
        (A3CDataConfig(n_steps=4, reward_steps=4, batch_size=25, transfer="transitions"), "none"),
        (A3CGradConfig(n_steps=8, reward_steps=4, gradients_per_update=2), "none"),
        (A3CGradConfig(n_steps=8, reward_steps=3, gradients_per_update=1, pull="live"), "none"),
        (A3CDataConfig(n_steps=4, reward_steps=3, batch_size=32), "lstm"),
        (A3CGradConfig(n_steps=8, reward_steps=4, gradients_per_update=2), "gru"),
    ],
    ids=[
        "microbatches",
        "microbatches-live",
        "transitions",
        "gradients",
        "gradients-live",
        "microbatches-lstm",
        "gradients-gru",
    ],
)
def test_processes_learn_what_the_serial_runner_learns(agent: HandoverConfig, core: str) -> None:
    rounds, optimizer = 20, OptimizerConfig(learning_rate=1e-3)
    serial = make_context(agent, optimizer=optimizer, core=core)
    crew = SerialCrew(build_of(agent), serial, WORKERS + 1, has_learner=True)
    crew.start()
    for _ in range(rounds):
        crew.poll()
    crew.stop()
    context = make_context(agent, optimizer=optimizer, is_shared=True, core=core)
    work_in_turn(build_of(agent), context, rounds, has_learner=True)
    assert Counters(context.counters).updates >= rounds - 1
    assert context.counters[:, :2].tolist() == serial.counters[:, :2].tolist()
    start = make_context(agent, core=core).parameters
    assert float((serial.parameters - start).abs().max()) > 1e-3  # something was learned
    torch.testing.assert_close(context.parameters, serial.parameters, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("agent", [A3CDataConfig(batch_size=16), A3CGradConfig()])
def test_a_turn_that_is_cut_short_leaves_nothing_in_the_ring(agent: HandoverConfig) -> None:
    steps, taken = itertools.count(1), agent.n_steps
    last = taken * WORKERS + taken + 1  # the second worker's first step of the second turn
    context = make_context(agent)
    crew = SerialCrew(build_of(agent), context, WORKERS + 1, None, True, cuts_rollouts=lambda: next(steps) == last)
    crew.start()
    crew.poll()
    crew.poll()
    filled, emptied = context.exchange["filled"].tolist(), context.exchange["emptied"].tolist()
    assert filled[0] > filled[1] > 0
    assert filled == emptied
    crew.stop()


def test_transitions_cannot_feed_a_core() -> None:
    config = make_context(A3CDataConfig(transfer="transitions"), core="lstm").config
    with pytest.raises(ConfigError, match=r"agent\.transfer: transitions .*-o agent\.transfer=microbatches"):
        config.agent.check_run(config, toy_entry())


@pytest.mark.parametrize("core", ["none", "lstm", "gru"])
def test_both_hand_overs_come_to_the_same_update(core: str) -> None:
    """One micro-batch an update or one gradient an update, from parameters of the same version: two ways to one sum."""
    optimizer = OptimizerConfig(learning_rate=1e-2, beta1=0.0, max_grad_norm=None)
    options: dict[str, Any] = {"n_steps": 6, "reward_steps": 3}
    agents = (A3CDataConfig(batch_size=6 * 4, **options), A3CGradConfig(gradients_per_update=1, **options))
    contexts = [make_context(agent, optimizer=optimizer, core=core) for agent in agents]
    crews = [
        [build_of(agent)(context, rank, None, lambda: None) for rank in (0, WORKERS)]
        for agent, context in zip(agents, contexts, strict=True)
    ]
    start = contexts[0].parameters.clone()
    for _ in range(12):
        for worker, learner in crews:
            worker.work()
            learner.finish()
        torch.testing.assert_close(contexts[0].parameters, contexts[1].parameters, rtol=1e-4, atol=1e-5)
    assert contexts[0].counters[:, 1].tolist() == contexts[1].counters[:, 1].tolist() == [0, 0, 12]
    assert float((contexts[0].parameters - start).abs().max()) > 1e-2
