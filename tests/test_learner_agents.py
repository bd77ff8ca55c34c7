"""`a3c-data` and `a3c-grad`: what the learner applies, by hand, over real processes, and through the serial runner."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from a3c_zoo.agents import a3c_data, a3c_grad
from a3c_zoo.agents.configs import A3CDataConfig, A3CGradConfig, HandoverConfig
from a3c_zoo.agents.context import WorkerContext
from a3c_zoo.agents.learner import check_handover
from a3c_zoo.config import Config, EnvConfig, OptimizerConfig, RunConfig
from a3c_zoo.errors import ConfigError
from a3c_zoo.learning.counters import Counters
from a3c_zoo.learning.model import Model, probe_spaces
from a3c_zoo.learning.network_configs import MLPConfig
from a3c_zoo.learning.optimizers import optimizer_state
from a3c_zoo.learning.parameters import share
from a3c_zoo.plugins.entries import EnvEntry, NetworkEntry
from a3c_zoo.processes.ring import ring_memory
from a3c_zoo.processes.serial import SerialCrew
from tests.toys import CONSTANT, toy_entry
from tests.turns import work_in_turn

WORKERS = 2
CARTPOLE = EnvEntry("cartpole", "a3c_zoo_envs.cartpole:make")
MLP = NetworkEntry("mlp", "a3c_zoo.learning.mlp:build_mlp", inputs=("vector",))
#: With β1 = 0, Adam's first moment is the gradient that was applied last.
SIGN_STEP = OptimizerConfig(name="adam", learning_rate=1.0, beta1=0.0, beta2=0.0, epsilon=1e-9, max_grad_norm=None)
#: The loss is ½(V − R)² then, its gradient V − R.
VALUE_LOSS: dict[str, Any] = {"entropy_coefficient": 0.0, "value_coefficient": 0.5, "gamma": 0.5}


def make_plan(
    agent: HandoverConfig,
    entry: EnvEntry = CARTPOLE,
    network: NetworkEntry = MLP,
    optimizer: OptimizerConfig = SIGN_STEP,
    num_envs: int = 4,
    slots: int = 64,
    is_shared: bool = False,
    core: str = "none",
) -> WorkerContext:
    """The plan of a run without the run."""
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
    state, counters = optimizer_state(optimizer, parameters), Counters.zeros(WORKERS + 1)
    layout = a3c_data.layout(model, config) if isinstance(agent, A3CDataConfig) else a3c_grad.layout(model)
    memory = ring_memory(WORKERS, slots, layout, is_shared)
    if is_shared:
        share(parameters, counters, *state.values())
    return WorkerContext(entry, network, config, spaces, parameters, state, counters, None, 0, memory)


def build_of(agent: HandoverConfig) -> Any:
    return a3c_data.build if isinstance(agent, A3CDataConfig) else a3c_grad.build


class TestByHand:
    """One parameter, the value of every state; episodes of one step with the reward 10 in worker 0, 20 in worker 1."""

    def crew(self, agent: HandoverConfig, num_envs: int = 2, **optimizer: Any) -> tuple[WorkerContext, list[Any]]:
        plan = make_plan(
            agent, toy_entry(), CONSTANT, SIGN_STEP.model_copy(update=optimizer), num_envs=num_envs, slots=8
        )
        members = []
        for rank in range(WORKERS):
            script = (((10.0 * (rank + 1),), "terminated"),)
            entry = toy_entry(scripts=(script,), mode="SameStep")
            members.append(build_of(agent)(replace(plan, entry=entry), rank, None, lambda: None))
        members.append(build_of(agent)(plan, WORKERS, None, lambda: None))
        return plan, members

    def applied(self, plan: WorkerContext) -> list[float]:
        assert plan.optimizer_state is not None
        gradient: list[float] = plan.optimizer_state["exp_avg"].tolist()
        return gradient

    @pytest.mark.parametrize("transfer", ["microbatches", "transitions"])
    def test_a_batch_of_two_workers(self, transfer: Any) -> None:
        agent = A3CDataConfig(n_steps=1, reward_steps=1, batch_size=4, transfer=transfer, **VALUE_LOSS)
        plan, (one, other, learner) = self.crew(agent)
        one.work()
        learner.finish()
        assert plan.counters[:, 1].tolist() == [0, 0, 0]  # half a batch
        other.work()
        learner.finish()
        assert self.applied(plan) == [-15]  # the mean of 0 − 10, 0 − 10, 0 − 20, 0 − 20
        assert plan.parameters.tolist() == pytest.approx([1])
        assert plan.counters.tolist()[2][:2] == [0, 1]
        assert plan.counters[:2, 0].tolist() == [2, 2]
        one.work()
        one.work()
        learner.finish()
        assert self.applied(plan) == pytest.approx([-9])  # 1 − 10: the learner's newest parameter

    def test_the_worker_bootstraps_a_micro_batch_and_the_learner_a_transition(self) -> None:
        # Rewards of 10 without an end, γ ½: R = 10 + ½·V(s'). Collected with V = 0, learned from with V = 4.
        for transfer, expected in (("microbatches", 4 - 10), ("transitions", 4 - (10 + 2))):
            agent = A3CDataConfig(n_steps=1, reward_steps=1, batch_size=1, transfer=transfer, **VALUE_LOSS)
            plan, _ = self.crew(agent, num_envs=1)
            entry = toy_entry(scripts=((((10.0,) * 9, "terminated"),),))
            worker = a3c_data.build(replace(plan, entry=entry), 0, None, lambda: None)
            learner = a3c_data.build(plan, WORKERS, None, lambda: None)
            worker.work()
            plan.parameters.fill_(4.0)
            learner.finish()
            assert self.applied(plan) == [expected]

    def test_gradients_are_clipped_added_up_and_clipped(self) -> None:
        agent = A3CGradConfig(n_steps=1, reward_steps=1, gradients_per_update=2, **VALUE_LOSS)
        for limit, expected in ((None, -30.0), (15.0, -15.0), (12.5, -12.5)):
            plan, (one, other, learner) = self.crew(agent, max_grad_norm=limit)
            one.work()
            learner.finish()
            assert plan.counters[:, 1].tolist() == [0, 0, 0]
            other.work()
            learner.finish()
            assert self.applied(plan) == pytest.approx([expected])
            assert plan.counters[:, 1].tolist() == [0, 0, 1]
        # Without the workers' own clipping at 12.5 the sum would be −10 − 20, with it −10 − 12.5; either is clipped.
        learner._applier._config = learner._applier._config.model_copy(update={"max_grad_norm": None})
        plan.parameters.zero_()
        one.work()
        other.work()
        learner.finish()
        assert self.applied(plan) == pytest.approx([-22.5])

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
            plan, (one, other, learner) = self.crew(agent)
            one.work()
            learner.finish()
            resumed = build_of(agent)(plan, WORKERS, learner.state_dict(), lambda: None)
            other.work()
            resumed.finish()
            assert self.applied(plan) == [-15 if isinstance(agent, A3CDataConfig) else -30]

    def test_a_worker_that_acts_live_sees_every_update(self) -> None:
        for pull, expected in (("rollout", 0.0), ("live", 7.0)):
            agent = A3CDataConfig(n_steps=1, reward_steps=1, batch_size=4, pull=pull, **VALUE_LOSS)
            plan, (one, _, _) = self.crew(agent)
            one.pull()
            plan.parameters.fill_(7.0)
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
    serial = make_plan(agent, optimizer=optimizer, core=core)
    crew = SerialCrew(build_of(agent), serial, WORKERS + 1, has_learner=True)
    crew.start()
    for _ in range(rounds):
        crew.poll()
    crew.stop()
    plan = make_plan(agent, optimizer=optimizer, is_shared=True, core=core)
    work_in_turn(build_of(agent), plan, rounds, has_learner=True)
    assert Counters(plan.counters).updates >= rounds - 1
    assert plan.counters[:, :2].tolist() == serial.counters[:, :2].tolist()
    start = make_plan(agent, core=core).parameters
    assert float((serial.parameters - start).abs().max()) > 1e-3  # something was learned
    torch.testing.assert_close(plan.parameters, serial.parameters, rtol=1e-5, atol=1e-6)


def test_transitions_cannot_feed_a_core() -> None:
    config = make_plan(A3CDataConfig(transfer="transitions"), core="lstm").config
    with pytest.raises(ConfigError, match=r"network.recurrent: lstm — .*-o agent.transfer=microbatches"):
        check_handover(config)


@pytest.mark.parametrize("core", ["none", "lstm", "gru"])
def test_both_hand_overs_come_to_the_same_update(core: str) -> None:
    """One micro-batch an update or one gradient an update, from parameters of the same version: two ways to one sum."""
    optimizer = OptimizerConfig(learning_rate=1e-2, beta1=0.0, max_grad_norm=None)
    options: dict[str, Any] = {"n_steps": 6, "reward_steps": 3}
    agents = (A3CDataConfig(batch_size=6 * 4, **options), A3CGradConfig(gradients_per_update=1, **options))
    plans = [make_plan(agent, optimizer=optimizer, core=core) for agent in agents]
    crews = [
        [build_of(agent)(plan, rank, None, lambda: None) for rank in (0, WORKERS)]
        for agent, plan in zip(agents, plans, strict=True)
    ]
    start = plans[0].parameters.clone()
    for _ in range(12):
        for worker, learner in crews:
            worker.work()
            learner.finish()
        torch.testing.assert_close(plans[0].parameters, plans[1].parameters, rtol=1e-4, atol=1e-5)
    assert plans[0].counters[:, 1].tolist() == plans[1].counters[:, 1].tolist() == [0, 0, 12]
    assert float((plans[0].parameters - start).abs().max()) > 1e-2
