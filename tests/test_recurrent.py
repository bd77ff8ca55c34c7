"""The recurrent core: its arithmetic by hand, and that acting through rollouts equals one pass over them.

The toy's observation after k steps of episode e is `[10·e + k, n]`. So from any row one can tell which observations its
state has seen: those of its episode, and no others. `remembered` goes over just these, one by one.
"""

from __future__ import annotations

from dataclasses import replace
from math import exp, tanh
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from torch import Tensor

import a3c_zoo
from a3c_zoo.agents.configs import A3CConfig
from a3c_zoo.agents.context import WorkerContext
from a3c_zoo.config import OptimizerConfig
from a3c_zoo.errors import ConfigError, ObservationError
from a3c_zoo.learning.actions import Categorical
from a3c_zoo.learning.collector import Collector
from a3c_zoo.learning.contract import CheckedEnvironment
from a3c_zoo.learning.counters import Counters
from a3c_zoo.learning.image_networks import build_a3c_ff, build_conv42, build_nature_dual
from a3c_zoo.learning.mlp import build_mlp
from a3c_zoo.learning.model import Model, Spaces, core_state
from a3c_zoo.learning.network_configs import ImageConfig, MLPConfig
from a3c_zoo.learning.objective import Objective, differentiate, forward
from a3c_zoo.learning.optimizers import Adam
from a3c_zoo.learning.parameters import FlatParameters, share
from a3c_zoo.learning.recurrent import Core, Recurrent, kept
from a3c_zoo.learning.rollout import Rollout
from a3c_zoo.learning.spaces import observation_spec
from a3c_zoo.plugins.entries import NetworkEntry
from a3c_zoo.processes.pool import WorkerPool
from a3c_zoo.processes.serial import SerialCrew
from a3c_zoo.processes.start import warm_up
from a3c_zoo.runs import api
from a3c_zoo_envs.cartpole import make as make_cartpole
from tests.test_gradient_handover import poll_until
from tests.test_rollout import SECOND_SCRIPT, sync_env
from tests.test_serial import assert_equal_runs
from tests.toys import (
    ADAM,
    MODES,
    OBSERVATION_SPACE,
    SCRIPT,
    HandoverContext,
    ToyVectorEnv,
    TurnWorker,
    toy_config,
    toy_entry,
)
from tests.toys_runs import checkpoint, scenes_of
from tests.walks import Lives

KINDS = ("lstm", "gru")
ALL = slice(None)
SCRIPTS = (SCRIPT, SECOND_SCRIPT)


def sigmoid(x: float) -> float:
    return 1 / (1 + exp(-x))


def network(kind: str, **config: Any) -> Recurrent:
    """On the toy's observations; small weights, so that observations of 60 saturate nothing."""
    torch.manual_seed(0)
    spec = observation_spec(OBSERVATION_SPACE)
    made = build_mlp(spec, 2, MLPConfig(recurrent=kind, recurrent_size=5, hidden_sizes=(), separate=False, **config))
    assert isinstance(made, Recurrent)
    with torch.no_grad():
        made.core.get_parameter("input_weight").mul_(0.05)
        made.network.get_parameter("actor.layers.0.weight").mul_(100)
        for name in ("input_bias", "hidden_bias"):
            made.core.get_parameter(name).normal_()
    return made


def collector(env: Any, core: Recurrent, num_steps: int, cut_at_end: bool = False) -> Collector:
    return Collector(
        CheckedEnvironment(env, "toy", observation_spec(env.single_observation_space)),
        Categorical(2, 1 if isinstance(env, Lives) else 0),
        num_steps,
        0,
        torch.Generator().manual_seed(0),
        lambda: None,
        cut_at_end,
        core.start(env.num_envs),
    )


class Watched(Recurrent):
    """Keeps the logits that it acted by."""

    def __init__(self, recurrent: Recurrent) -> None:
        torch.nn.Module.__init__(self)
        self.network, self.core = recurrent.network, recurrent.core
        self.seen: list[Tensor] = []

    def step(self, observations: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        logits, state = super().step(observations, state)
        self.seen.append(logits.clone())
        return logits, state


def remembered(core: Recurrent, episode: int, position: int, n: int) -> tuple[Tensor, Tensor]:
    """Logits `[2]` and value at a place of the toy's story, from its whole episode up to there."""
    state = core.start(1)
    for k in range(position):
        _, state = core.step(torch.tensor([[10.0 * episode + k, n]]), state)
    here = torch.tensor([[10.0 * episode + position, n]])
    return core.step(here, state)[0][0], core.value_after(here, state)[0]


class TestByHand:
    def test_lstm(self) -> None:
        core = Core("lstm", 1, 1)
        with torch.no_grad():  # gates i, f, g, o
            core.get_parameter("input_weight").copy_(torch.tensor([[1.0], [2], [3], [4]]))
            core.get_parameter("hidden_weight").copy_(torch.tensor([[0.5], [0.6], [0.7], [0.8]]))
            core.get_parameter("input_bias").copy_(torch.tensor([0.1, 0.2, 0.3, 0.4]))
        x, h, c = 0.5, 0.2, -0.4
        i, f, g, o = sigmoid(0.5 + 0.1 + 0.1), sigmoid(1 + 0.12 + 0.2), tanh(1.5 + 0.14 + 0.3), sigmoid(2 + 0.16 + 0.4)
        cell = f * c + i * g
        _, after = core(torch.tensor([[x]]), torch.tensor([[[h]], [[c]]]))
        assert after.flatten().tolist() == pytest.approx([o * tanh(cell), cell], rel=1e-6)
        outputs, same = core.run(torch.tensor([[[x]]]), torch.tensor([[[h]], [[c]]]))
        torch.testing.assert_close(outputs, after[:1])
        torch.testing.assert_close(same, after)

    def test_gru(self) -> None:
        core = Core("gru", 1, 1)
        with torch.no_grad():  # gates r, z, n
            core.get_parameter("input_weight").copy_(torch.tensor([[1.0], [2], [3]]))
            core.get_parameter("hidden_weight").copy_(torch.tensor([[0.5], [0.6], [0.7]]))
            core.get_parameter("hidden_bias").copy_(torch.tensor([0.1, 0.2, 0.3]))
        x, h = 0.5, 0.2
        r, z = sigmoid(0.5 + 0.1 + 0.1), sigmoid(1 + 0.12 + 0.2)
        expected = (1 - z) * tanh(1.5 + r * (0.14 + 0.3)) + z * h
        _, after = core(torch.tensor([[x]]), torch.tensor([[[h]]]))
        assert after.flatten().tolist() == pytest.approx([expected], rel=1e-6)

    def test_a_reset_is_of_its_environment_alone(self) -> None:
        state = torch.arange(1.0, 9).reshape(2, 2, 2)
        assert kept(state, np.array([True, False])).tolist() == [[[0, 0], [3, 4]], [[0, 0], [7, 8]]]

    @pytest.mark.parametrize("kind", KINDS)
    def test_first_weights(self, kind: str) -> None:
        core = Core(kind, 3, 3)
        for name in ("input_weight", "hidden_weight"):
            for gate in core.get_parameter(name).split(3):
                torch.testing.assert_close(gate @ gate.T, torch.eye(3))


class TestResets:
    """Rows before which the state becomes 0; the script's episodes last 2, 1 and 3 steps."""

    def resets(self, mode: str, num_steps: int, rollouts: int) -> list[list[int]]:
        core, found = network("gru"), []
        collect = collector(ToyVectorEnv(1, mode=mode), core, num_steps)
        for _ in range(rollouts):
            collect.collect(core)
            assert collect.rollout.resets is not None
            found.append(collect.rollout.resets[:, 0].astype(int).tolist())
        return found

    def test_next_step(self) -> None:
        # s_t  0 1 2' 10 11' 20 21 22 23' | 23' 30 31 …     a final observation (') still belongs to its episode
        assert self.resets("NextStep", 8, 1) == [[0, 0, 0, 1, 0, 1, 0, 0, 0]]
        assert self.resets("NextStep", 4, 3) == [[0, 0, 0, 1, 0], [0, 1, 0, 0, 0], [0, 1, 0, 0, 1]]
        assert self.resets("NextStep", 1, 6) == [[0, 0], [0, 0], [0, 1], [1, 0], [0, 1], [1, 0]]

    @pytest.mark.parametrize("mode", ["SameStep", "Disabled"])
    def test_same_step_and_disabled(self, mode: str) -> None:
        # s_t  0 1 10 20 21 22 30
        assert self.resets(mode, 6, 1) == [[0, 0, 1, 1, 0, 0, 1]]
        assert self.resets(mode, 2, 3) == [[0, 0, 1], [1, 1, 0], [0, 0, 1]]


@pytest.mark.parametrize("num_steps", [1, 2, 5, 20])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_acting_through_rollouts_equals_one_pass_over_each(kind: str, mode: str, num_steps: int) -> None:
    core = Watched(network(kind))
    collect = collector(sync_env(mode), core, num_steps)
    checked = 0
    for _ in range(20 // num_steps):
        core.seen.clear()
        collect.collect(core)
        rollout = collect.rollout
        logits, all_values, value = forward(core, rollout, ALL)
        torch.testing.assert_close(logits, torch.cat(core.seen), rtol=1e-5, atol=1e-5)
        values = all_values.detach().numpy().reshape(num_steps + 1, 2)
        following = rollout.next_values(values[1:], ALL, value)
        for t, n in np.argwhere(rollout.valid):
            episode, position = divmod(int(rollout.observations[t, n, 0]), 10)
            told, worth = remembered(core, episode, position, n)
            torch.testing.assert_close(logits[2 * t + n], told, rtol=1e-5, atol=1e-5)
            assert values[t, n] == pytest.approx(worth.item(), rel=1e-4)
            if not rollout.terminated[t, n]:  # within an episode, and across its truncation alike
                after = remembered(core, episode, position + 1, n)[1].item()
                assert following[t, n] == pytest.approx(after, rel=1e-4)
                checked += rollout.truncated[t, n]
    assert checked >= 6  # bootstraps of truncated episodes


@pytest.mark.parametrize("mode", MODES)
def test_rollouts_that_end_with_the_episode(mode: str) -> None:
    core = Watched(network("lstm"))
    collect = collector(ToyVectorEnv(1, mode=mode), core, 2, cut_at_end=True)
    for _ in range(9):
        core.seen.clear()
        collect.collect(core)
        logits, _, _ = forward(core, collect.rollout, ALL)
        torch.testing.assert_close(logits, torch.cat(core.seen))
        for t in np.flatnonzero(collect.rollout.valid[:, 0]):
            told, _ = remembered(core, *divmod(int(collect.rollout.observations[t, 0, 0]), 10), 0)
            torch.testing.assert_close(logits[t], told, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_some_columns_are_what_they_are_among_all(kind: str, mode: str) -> None:
    core = network(kind)
    collect = collector(ToyVectorEnv(2, SCRIPTS, mode=mode), core, 7)
    for _ in range(2):
        collect.collect(core)
    rollout = collect.rollout
    _, all_values, value = forward(core, rollout, ALL)
    whole = all_values.detach().numpy().reshape(8, 2)
    following = rollout.next_values(whole[1:], ALL, value)
    for n in range(2):
        columns = slice(n, n + 1)
        _, some, value = forward(core, rollout, columns)
        part = some.detach().numpy().reshape(8, 1)
        np.testing.assert_allclose(part, whole[:, columns], rtol=1e-5)
        np.testing.assert_allclose(rollout.next_values(part[1:], columns, value), following[:, columns], rtol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_a_lost_life_is_no_new_episode(mode: str) -> None:
    core = Watched(network("lstm"))
    env = Lives(3, mode)
    core.network = build_walk_body(core)
    collect = collector(env, core, 40)
    collect.collect(core)
    rollout = collect.rollout
    assert rollout.resets is not None
    lives = rollout.terminated.sum() + rollout.truncated.sum() - rollout.resets.sum()
    assert lives > 5  # terminations without a reset
    # the state after the pass over all rows is the one that acting ended with
    state = core.start(3)
    for t in range(40):
        _, state = core.step(rollout.observations[t], kept(state, rollout.resets[t]))
    core.seen.clear()
    collect.collect(core)
    assert collect.rollout.states is not None
    torch.testing.assert_close(collect.rollout.states[0], state.detach())


def build_walk_body(core: Recurrent) -> Any:
    """For observations of one number."""
    spec = observation_spec(spaces.Box(-3, 3, (1,), np.float32))
    made = build_mlp(spec, 2, MLPConfig(recurrent="lstm", recurrent_size=5, hidden_sizes=(2,), separate=False))
    assert isinstance(made, Recurrent)
    return made.network


OBJECTIVE = Objective(gamma=0.5, gae_lambda=0.9, entropy_coefficient=0.1, value_coefficient=0.3)


def naive_loss(core: Recurrent, rollout: Rollout) -> Tensor:
    """The loss step by step and environment by environment; for SAME_STEP, where every row is a sample."""
    assert rollout.states is not None
    assert rollout.resets is not None
    steps, envs = rollout.rewards.shape
    losses = []
    for n in range(envs):
        state, logits, values, following = rollout.states[0, :, n : n + 1], [], [], []
        for t in range(steps):
            if rollout.resets[t, n]:
                state = torch.zeros_like(state)
            here = rollout.observations[t, n : n + 1]
            values.append(core.value_after(here, state)[0])
            told, state = core.step(here, state)
            logits.append(told[0])
            final = rollout.finals.get((t, n))
            after = rollout.observations[t + 1, n] if final is None else torch.from_numpy(final)
            following.append(0.0 if rollout.terminated[t, n] else core.value_after(after[None], state)[0].item())
        advantage = 0.0
        for t in reversed(range(steps)):
            goes_on = not (rollout.terminated[t, n] or rollout.truncated[t, n])
            delta = float(rollout.rewards[t, n]) + 0.5 * following[t] - values[t].item()
            advantage = delta + 0.45 * advantage * goes_on
            log_p = torch.log_softmax(logits[t], -1)
            error = (advantage + values[t].item() - values[t]) ** 2
            entropy = -(log_p.exp() * log_p).sum()
            losses.append(0.3 * error - log_p[rollout.actions[t, n]] * advantage - 0.1 * entropy)
    return torch.stack(losses).mean()


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_a_naive_loop(kind: str) -> None:
    core = network(kind)
    flat = FlatParameters(core)
    collect = collector(ToyVectorEnv(2, SCRIPTS, mode="SameStep"), core, 7)
    for _ in range(2):  # the second begins with a state
        collect.collect(core)
        flat.zero_gradients()
        naive_loss(core, collect.rollout).backward()
        expected = flat.gradients.clone()
        flat.zero_gradients()
        differentiate(core, Categorical(2), collect.rollout, ALL, OBJECTIVE)
        torch.testing.assert_close(flat.gradients, expected, rtol=1e-4, atol=1e-5)
        assert (expected != 0).float().mean() > 0.9


def test_the_state_goes_on_while_parameters_change() -> None:
    """The rollout begins with the state as the old parameters left it, bit by bit."""
    core = network("lstm")
    collect = collector(ToyVectorEnv(1, ((((1.0,) * 50, "terminated"),),)), core, 4)
    collect.collect(core)
    kept_state = collect.rollout.states[-1].clone()  # type: ignore[index]
    with torch.no_grad():
        for parameter in core.parameters():
            parameter.add_(0.1)
    collect.collect(core)
    assert collect.rollout.states is not None
    assert torch.equal(collect.rollout.states[0], kept_state)
    assert not torch.equal(collect.rollout.states[-1], kept_state)


@pytest.mark.parametrize("mode", MODES)
def test_a_collector_goes_on_from_its_state(mode: str) -> None:
    core = network("lstm")
    whole, second = (collector(ToyVectorEnv(2, SCRIPTS, mode=mode), core, 3) for _ in range(2))
    for _ in range(3):
        whole.collect(core)
    second.load_state_dict(whole.state_dict())
    for collect in (whole, second):
        collect.collect(core)
    assert torch.equal(whole.rollout.states, second.rollout.states)  # type: ignore[arg-type]
    assert torch.equal(whole.rollout.actions, second.rollout.actions)
    np.testing.assert_array_equal(whole.rollout.resets, second.rollout.resets)


def test_a_first_rollout_begins_with_the_state_that_the_core_starts_with() -> None:
    core = network("lstm")
    collect = collector(ToyVectorEnv(2, SCRIPTS), core, 3)
    collect.collect(core)
    assert collect.rollout.states is not None
    assert torch.equal(collect.rollout.states[0], core.start(2))


def context(kind: str, num_updates: int) -> HandoverContext:
    torch.manual_seed(1)
    config = toy_config(
        A3CConfig(n_steps=5), OptimizerConfig(learning_rate=1e-2, beta1=0.0, max_grad_norm=None), num_envs=2, workers=2
    )
    config = replace(config, network=MLPConfig(recurrent=kind, separate=False, hidden_sizes=(4,), recurrent_size=6))
    entry = NetworkEntry("mlp", "a3c_zoo.learning.mlp:build_mlp")
    made = Spaces(observation_spec(OBSERVATION_SPACE), Categorical(2))
    parameters = Model.create(made, entry, config).flat.initial.clone()
    state = Adam.moments(parameters, config.optimizer)  # type: ignore[arg-type]
    counters = Counters.zeros(2)
    turn, log = torch.zeros(1, dtype=torch.int64), torch.zeros(num_updates, 2 * len(parameters))
    share(parameters, counters, *state.values(), turn, log)
    toy = toy_entry(scripts=SCRIPTS, mode="SameStep")
    shared = WorkerContext(toy, entry, ADAM, config, made, parameters, state, counters, None, 0)
    return HandoverContext(shared, log, turn, ())


@pytest.mark.parametrize("kind", KINDS)
def test_two_processes_in_turn_update_as_the_serial_runner_does(kind: str) -> None:
    warm_up()
    parallel, serial, num_updates = context(kind, 8), context(kind, 8), 8
    assert parallel.turn is not None
    assert serial.turn is not None
    pool = WorkerPool(TurnWorker, parallel, Counters(parallel.context.counters))
    try:
        pool.start()
        pool.resume()
        poll_until(pool, lambda: int(parallel.turn) == num_updates)
        pool.park()
        states = pool.states()
    finally:
        pool.stop()
    crew = SerialCrew(TurnWorker, serial, 2)
    crew.start()
    try:
        while int(serial.turn) < num_updates:
            crew.poll()
        ours = crew.states()
    finally:
        crew.stop()
    torch.testing.assert_close(parallel.log, serial.log)
    assert serial.log.any(dim=1).all()
    for theirs, state in zip(states, ours, strict=True):
        torch.testing.assert_close(theirs["collector"]["core"], state["collector"]["core"])
        assert state["collector"]["core"].any()


SMALL = {
    "env.num_envs": 4,
    "agent.n_steps": 8,
    "agent.update_samples": 16,
    "optimizer.schedule": "constant",  # one that ends with the budget would be another one after half of it
}


@pytest.fixture(scope="module", params=KINDS)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, overrides = tmp_path_factory.mktemp("recurrent"), SMALL | {"network.recurrent": request.param}
    return a3c_zoo.train("cartpole", serial=True, seed=3, steps=2000, overrides=overrides, runs_dir=folder).run


def test_stopped_and_resumed_equals_uninterrupted(trained: Path, tmp_path: Path) -> None:
    kind = checkpoint(trained)["agent"]["workers"][0]["collector"]["core"].shape[0]
    overrides = SMALL | {"network.recurrent": "lstm" if kind == 2 else "gru"}
    half = a3c_zoo.train("cartpole", serial=True, seed=3, steps=1000, overrides=overrides, runs_dir=tmp_path)
    a3c_zoo.train(resume=half.run, steps=2000)
    assert_equal_runs(half.run, trained)


def test_a_learners_run_resumed_from_its_first_checkpoint_equals_uninterrupted(tmp_path: Path) -> None:
    """Its windows are still empty: the core begins within the first ones, and not before."""
    overrides = {"env.num_envs": 2, "network.separate": False, "network.recurrent": "gru", "run.keep_checkpoints": None}
    options: dict[str, Any] = {"agent": "a3c-data", "serial": True, "seed": 3, "steps": 400, "overrides": overrides}
    whole = a3c_zoo.train("cartpole", name="whole", runs_dir=tmp_path, **options)
    again = a3c_zoo.train("cartpole", name="again", runs_dir=tmp_path, **options)
    a3c_zoo.train(resume=again.run, checkpoint=0)
    assert_equal_runs(again.run, whole.run)


def test_predict_takes_and_returns_the_state(trained: Path) -> None:
    policy: Any = a3c_zoo.load_agent(trained)
    network = policy.policy.network
    batch = np.random.default_rng(0).normal(size=(3, 2, 4)).astype(np.float32)
    state, expected = None, network.start(2)
    for t, starts in enumerate(([True, True], [False, False], [False, True])):
        expected = kept(expected, np.array(starts))
        with torch.no_grad():
            logits, expected = network.step(torch.from_numpy(batch[t]), expected)
        actions, state = policy.predict(batch[t], state, np.array(starts), deterministic=True)
        assert actions.tolist() == logits.argmax(-1).tolist()
        assert [part.shape for part in state] == [(1, 2, 64)] * len(expected)  # sb3-contrib's
        np.testing.assert_array_equal(np.concatenate(state), expected.numpy())
    _, single = policy.predict(batch[0, 0])
    assert [part.shape for part in single] == [(1, 1, 64)] * len(expected)
    _, after = policy.predict(batch[1, 0], single, deterministic=True)
    _, anew = policy.predict(batch[1, 0], single, np.array([True]), deterministic=True)
    _, first = policy.predict(batch[1, 0], deterministic=True)
    assert np.array_equal(anew[0], first[0])
    assert not np.array_equal(after[0], first[0])


def test_a_state_of_another_shape_is_refused(trained: Path) -> None:
    policy = a3c_zoo.load_agent(trained)
    with pytest.raises(ObservationError, match=r"state of the recurrent core has shapes .*; got \[\[2, 64\]\]"):
        policy.predict(np.zeros((2, 4)), (np.zeros((2, 64)),))
    state = policy.predict(np.zeros((2, 4)))[1]
    with pytest.raises(ObservationError, match=r"episode_start has shape \[2\]; got \[3\]"):
        policy.predict(np.zeros((2, 4)), state, np.zeros(3, np.bool_))


@pytest.mark.parametrize("state", [5, "abc", (np.full((1, 2, 3), "x"),), ([[[1.0], [1.0, 2.0]]],)], ids=repr)
def test_a_state_without_numbers_is_refused(state: Any) -> None:
    with pytest.raises(ObservationError, match=r"state of the recurrent core has shapes \[\[1, 2, 3\]\]; got "):
        core_state(torch.zeros(1, 2, 3), state, None)


def test_beginnings_that_are_no_array_are_refused() -> None:
    with pytest.raises(ObservationError, match=r"episode_start has shape \[2\]: "):
        core_state(torch.zeros(1, 2, 3), (np.zeros((1, 2, 3)),), [True, [False, True]])


def test_sb3s_own_evaluation_keeps_the_state(trained: Path) -> None:
    """Greedy on the same seeds: the episodes are those of a loop that keeps the state itself."""
    policy: Any = a3c_zoo.load_agent(trained)
    with torch.no_grad():  # one that moves to and fro by what it remembers
        for parameter in policy.policy.network.parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(0))
    returns, _ = evaluate_policy(policy, make_vec_env("CartPole-v1", 1, seed=3), 4, return_episode_rewards=True)
    played: list[float] = []
    forgetful: list[float] = []
    for keeps, found in ((True, played), (False, forgetful)):
        single = gymnasium.make("CartPole-v1")
        observation, _ = single.reset(seed=3)
        for _ in range(4):
            total, ended, state = 0.0, False, None
            while not ended:
                action, state = policy.predict(observation, state if keeps else None, deterministic=True)
                observation, reward, terminated, truncated, _info = single.step(action)
                total, ended = total + float(reward), terminated or truncated
            found.append(total)
            observation, _ = single.reset()
    assert played == returns
    assert forgetful != returns  # the state matters here


def frames(channels: int, size: int) -> Tensor:
    blocks = torch.randint(256, (6, 2, channels, 6, 6), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    return blocks.repeat_interleave(size // 6, -1).repeat_interleave(size // 6, -2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("build", [build_conv42, build_a3c_ff], ids=["conv42", "a3c-ff"])
def test_images(build: Any, kind: str, dtype: torch.dtype) -> None:
    size = 42 if build is build_conv42 else 84
    spec = observation_spec(spaces.Box(0, 255, (1, size, size), np.uint8))
    torch.manual_seed(0)
    made = build(spec, 3, ImageConfig(recurrent=kind, recurrent_size=32))
    flat, batch = FlatParameters(made, dtype), frames(1, size)
    resets = np.zeros((6, 2), np.bool_)
    resets[2, 1] = resets[4, :] = True
    logits, values, states = made.unroll(batch, made.start(2), resets, [(1, 1), (3, 0)])
    assert (logits.dtype, values.dtype, states.dtype) == (torch.float32,) * 3
    (logits.sum() + values.sum()).backward()
    assert (flat.gradients != 0).float().mean() > 0.5
    tolerance = 1e-5 if dtype == torch.float32 else 0.02
    state, after = made.start(2), []
    with torch.no_grad():
        for t in range(6):
            state = kept(state, resets[t])
            worth = made.value_after(batch[t], state)
            told, state = made.step(batch[t], state)
            after.append(state)
            torch.testing.assert_close(values[2 * t : 2 * t + 2].detach(), worth, rtol=tolerance, atol=tolerance)
            if t < 5:
                torch.testing.assert_close(logits[2 * t : 2 * t + 2].detach(), told, rtol=tolerance, atol=tolerance)
    expected = torch.stack((after[1][:, 1], after[3][:, 0]), 1)
    torch.testing.assert_close(states, expected, rtol=tolerance, atol=tolerance)


def test_the_core_stands_behind_the_convolutions_of_conv42() -> None:
    # Four convolutions of stride 2 leave 3×3 of 32 filters.
    made = build_conv42(
        observation_spec(spaces.Box(0, 255, (1, 42, 42), np.uint8)),
        6,
        ImageConfig(recurrent="lstm", precision="float32"),
    )
    shapes = {name: tuple(p.shape) for name, p in made.named_parameters() if "convs" not in name}
    assert shapes == {
        "network.actor.weight": (6, 256),
        "network.actor.bias": (6,),
        "network.critic.weight": (1, 256),
        "network.critic.bias": (1,),
        "core.input_weight": (1024, 288),
        "core.hidden_weight": (1024, 256),
        "core.input_bias": (1024,),
        "core.hidden_bias": (1024,),
    }


def test_separate_bodies_become_one_before_a_core() -> None:
    spec = observation_spec(spaces.Box(-1, 1, (3,), np.float32))
    network = build_mlp(spec, 2, MLPConfig(recurrent="gru", hidden_sizes=(5,), recurrent_size=4, separate=True))
    shapes = {name: tuple(parameter.shape) for name, parameter in network.named_parameters()}
    assert shapes["network.body.layers.0.weight"] == (5, 3)
    assert shapes["core.input_weight"] == (12, 5)
    assert shapes["network.critic.layers.0.weight"] == (1, 4)


def test_what_has_no_room_for_a_core_is_refused() -> None:
    spec = observation_spec(spaces.Box(0, 255, (4, 84, 84), np.uint8))
    with pytest.raises(ConfigError, match="network 'nature-dual' has two hidden layers side by side"):
        build_nature_dual(spec, 6, ImageConfig(recurrent="gru"))


def test_transitions_are_refused_a_core(tmp_path: Path) -> None:
    overrides = {"network.recurrent": "lstm", "network.separate": False, "agent.transfer": "transitions"}
    with pytest.raises(ConfigError, match=r"transfer: transitions — .*-o agent.transfer=microbatches"):
        a3c_zoo.train("cartpole", agent="a3c-data", overrides=overrides, runs_dir=tmp_path)


@pytest.mark.parametrize("mode", ["serial", "workers"])
def test_hidden_velocities(mode: str, tmp_path: Path) -> None:
    overrides = SMALL | {"network.recurrent": "gru", "env.hide_velocity": True}
    outcome = a3c_zoo.train("cartpole", serial=mode == "serial", steps=500, overrides=overrides, runs_dir=tmp_path)
    policy: Any = a3c_zoo.load_agent(outcome.run)
    assert policy.policy.spaces.observations.shape == (2,)
    assert api.evaluate(outcome.run, episodes=3, runs_dir=tmp_path).episodes == 3
    assert len(list(scenes_of(outcome.run))) > 5


def test_what_is_hidden() -> None:
    whole, hidden = make_cartpole(3, 0), make_cartpole(3, 0, hide_velocity=True)
    assert hidden.single_observation_space.shape == (2,)
    assert hidden.observation_space.shape == (3, 2)
    first, second = (env.reset(seed=1)[0] for env in (whole, hidden))
    np.testing.assert_array_equal(first[:, [0, 2]], second)  # place, velocity, angle, angular velocity
    actions = np.array([0, 1, 1])
    np.testing.assert_array_equal(whole.step(actions)[0][:, [0, 2]], hidden.step(actions)[0])
    assert hidden.observation_space.contains(hidden.step(actions)[0])


@pytest.mark.slow
@pytest.mark.parametrize("seed", [11, 12, 13])
def test_only_what_remembers_balances_without_velocities(seed: int, tmp_path: Path) -> None:
    options: dict[str, Any] = {"seed": seed, "steps": 500_000, "runs_dir": tmp_path}
    blind = a3c_zoo.train("cartpole", overrides={"env.hide_velocity": True}, **options)
    assert blind.mean_return_100 is not None
    assert blind.mean_return_100 < 80  # 42 to 45 after 300,000 steps
    assert a3c_zoo.train("cartpole", hyperparams="a3c-lstm", **options).solved
