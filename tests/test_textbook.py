"""The textbook's CartPole agents: rollouts that end with the episode, their returns, and their network."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from a3c_zoo.config import NetworkConfig
from a3c_zoo.learning.actions import Categorical, action_distribution
from a3c_zoo.learning.collector import Collector
from a3c_zoo.learning.contract import CheckedEnvironment
from a3c_zoo.learning.mlp import Textbook
from a3c_zoo.learning.objective import Objective, advantages_and_returns, differentiate, to_unit_length
from a3c_zoo.learning.returns import monte_carlo_returns, n_step_returns
from a3c_zoo.learning.rollout import Rollout
from a3c_zoo.learning.samples import samples_of
from a3c_zoo.learning.spaces import ObservationSpec, observation_spec
from tests.toys import TinyNetwork, ToyVectorEnv

ALL = slice(None)
T, F = True, False


def floats(*values: float) -> Any:
    """One column, `[T, 1]`."""
    return np.array(values, np.float32)[:, None]


def flags(*values: bool) -> Any:
    return np.array(values)[:, None]


# Bootstrapping: the text's worked example, γ = 0.99, three steps and then a state worth 1, or nothing

FIRST, SECOND = [1.0, 1.0, -1.0], [1.0, 1.0, 1.0]
WITHOUT, BOOTSTRAP = 0.0, 1.0


@pytest.mark.parametrize(("rewards", "last_value", "expected"), [
    (FIRST, WITHOUT, 1.0099),  # 1 + 0.99 − 0.9801
    (SECOND, WITHOUT, 2.9701),  # 1 + 0.99 + 0.9801
    (FIRST, BOOTSTRAP, 1.980199),  # + 0.99³ = 0.970299
    (SECOND, BOOTSTRAP, 3.940399),
])  # fmt: skip
def test_full_returns_of_the_worked_example(rewards: list[float], last_value: float, expected: float) -> None:
    never, values = flags(F, F, F), floats(0, 0, last_value)
    returns = n_step_returns(floats(*rewards), values, never, never, 0.99, len(rewards))
    assert returns[0, 0] == pytest.approx(expected, abs=1e-6)


def as_printed(rewards: list[float], last_value: float) -> float:
    """The loop of the printed program: it starts from the last value and leaves out the first reward."""
    total = last_value
    for reward in reversed(rewards[1:]):
        total = reward + 0.99 * total
    return total


@pytest.mark.parametrize(("rewards", "last_value", "expected"), [
    (FIRST, WITHOUT, 0.01),  # 1 − 0.99
    (SECOND, WITHOUT, 1.99),  # 1 + 0.99
    (FIRST, BOOTSTRAP, 0.9901),  # + 0.99²
    (SECOND, BOOTSTRAP, 2.9701),
])  # fmt: skip
def test_what_the_printed_loop_gives_for_it(rewards: list[float], last_value: float, expected: float) -> None:
    assert as_printed(rewards, last_value) == pytest.approx(expected)
    never = flags(F, F, F)
    ours = n_step_returns(floats(*rewards), floats(0, 0, last_value), never, never, 0.99, 3)
    assert ours[1, 0] == pytest.approx(expected, abs=1e-6)  # the return of the second step
    assert ours[0, 0] != pytest.approx(expected, abs=0.1)


# The objective


def rollout(rewards: Any, terminated: Any, truncated: Any, valid: Any | None = None) -> Rollout:
    length = len(rewards)
    return Rollout(
        observations=torch.zeros(length + 1, 1, 4),
        actions=torch.zeros(length, 1, dtype=torch.int64),
        rewards=rewards,
        terminated=terminated,
        truncated=truncated,
        valid=np.ones((length, 1), np.bool_) if valid is None else valid,
    )


def objective(**options: Any) -> Objective:
    return Objective(gamma=0.5, gae_lambda=1.0, entropy_coefficient=0, value_coefficient=0.1, **options)


def test_the_reward_at_a_termination_is_replaced() -> None:
    made = rollout(floats(1, 1), flags(F, T), flags(F, F))
    zeros = floats(0, 0)
    advantages, returns = advantages_and_returns(made, ALL, zeros, floats(0, 7), objective(termination_reward=-10.0))
    assert returns[:, 0].tolist() == [-4, -10]  # 1 + ½·(−10), and −10: nothing follows
    assert advantages[:, 0].tolist() == [-4, -10]
    assert made.rewards[:, 0].tolist() == [1, 1]  # in the loss alone


def test_a_truncation_keeps_its_reward_and_its_bootstrap() -> None:
    made = rollout(floats(1, 1), flags(F, F), flags(F, T))
    _, returns = advantages_and_returns(made, ALL, floats(0, 0), floats(0, 8), objective(termination_reward=-10.0))
    assert returns[:, 0].tolist() == [3.5, 5]  # 1 + ½·8 = 5, 1 + ½·5


def test_whole_episodes_have_no_bootstrap() -> None:
    made = rollout(floats(1, 2), flags(F, F), flags(F, T))
    advantages, returns = advantages_and_returns(made, ALL, floats(1, 1), floats(5, 8), objective(whole_episodes=True))
    assert returns[:, 0].tolist() == [2, 2]  # 2, and 1 + ½·2
    assert advantages[:, 0].tolist() == [1, 1]
    expected = monte_carlo_returns(made.rewards, made.terminated, made.truncated, 0.5)
    assert np.array_equal(returns, expected)


def test_returns_of_unit_length() -> None:
    valid = flags(F, T, T)
    assert to_unit_length(floats(100, 3, 4), valid)[:, 0] == pytest.approx([20, 0.6, 0.8])  # √(9 + 16) = 5
    assert to_unit_length(floats(0, 0, 0), valid)[:, 0].tolist() == [0, 0, 0]
    # Their squares are no numbers of float32.
    assert to_unit_length(floats(0, 3e20, 4e20), valid)[:, 0] == pytest.approx([0, 0.6, 0.8])
    made = rollout(floats(9, 1.0, 4), flags(F, F, T), flags(F, F, F), valid)
    advantages, returns = advantages_and_returns(
        made, ALL, floats(0, 0.1, 0.2), floats(0.1, 0.2, 0), objective(normalize_returns=True)
    )
    assert returns[1:, 0] == pytest.approx([0.6, 0.8])  # 1 + ½·4 = 3, and 4
    assert advantages[1:, 0] == pytest.approx([0.5, 0.6])


# The network


def network() -> Textbook:
    torch.manual_seed(1)
    return Textbook(ObservationSpec("vector", (4,), np.dtype(np.float32)), 2, NetworkConfig(name="textbook"))


def test_inputs_have_unit_length() -> None:
    made = network()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.zero_()
        for name in ("body.0.weight", "body.2.weight", "actor.weight"):
            weight = made.get_parameter(name)
            weight[0, 0] = weight[1, 1] = 1.0  # the first two inputs go through
    logits = made.policy(torch.tensor([[3.0, 4.0, 0, 0], [30.0, 40.0, 0, 0]]))
    assert logits.tolist() == [pytest.approx([0.6, 0.8])] * 2
    assert made.value(torch.tensor([[3.0, 4.0, 0, 0]])).tolist() == [0]
    with torch.no_grad():
        made.get_parameter("critic.2.bias")[0] = 1.0
    assert made.value(torch.zeros(1, 4)).tolist() == pytest.approx([0.7615942])  # tanh 1; and zeros stay zeros


def test_its_sizes() -> None:
    shapes = [list(parameter.shape) for parameter in network().parameters()]
    assert shapes == [[25, 4], [25], [50, 25], [50], [2, 50], [2], [25, 50], [25], [1, 25], [1]]


def test_the_critic_does_not_train_the_body() -> None:
    made = network()
    _, values = made.evaluate(torch.rand(3, 2, 4))
    assert values.shape == (6,)
    values.square().sum().backward()
    assert all(parameter.grad is None for parameter in (*made.body.parameters(), *made.actor.parameters()))
    assert float(_gradient(made, "critic.0.weight").abs().sum()) > 0


def test_the_policy_trains_the_body_alone() -> None:
    made = network()
    policy_only = Objective(gamma=0.5, gae_lambda=1.0, entropy_coefficient=0, value_coefficient=0, loss_sum=True)
    filled = rollout(floats(1, 2), flags(F, T), flags(F, F))
    filled.observations = torch.rand(3, 1, 4)
    differentiate(made, Categorical(2), filled, ALL, policy_only)
    assert float(_gradient(made, "body.0.weight").abs().sum()) > 0
    assert float(_gradient(made, "critic.0.weight").abs().sum()) == 0


def _gradient(made: Textbook, name: str) -> Tensor:
    gradient = made.get_parameter(name).grad
    assert gradient is not None
    return gradient


# Rollouts that end with the episode. The toy's episodes pay (1, 2), (3), (4, 5, 6): see test_rollout.py.


def collector(mode: str, num_steps: int, keeps_outputs: bool = False, **toy: Any) -> Collector:
    env = ToyVectorEnv(1, mode=mode, ignored_reward=77, **toy)
    checked = CheckedEnvironment(env, "toy", observation_spec(env.single_observation_space))
    distribution, generator = action_distribution(env.single_action_space), torch.Generator().manual_seed(0)
    return Collector(
        checked,
        distribution,
        num_steps,
        0,
        generator,
        lambda: None,
        cut_at_end=True,
        keeps_outputs=keeps_outputs,
    )


def collected(collect: Collector, times: int) -> list[tuple[Any, Any, Any, int]]:
    """Observations, rewards, validity and number of finished episodes of each rollout."""
    rows = []
    for _ in range(times):
        finished = collect.collect(TinyNetwork())
        made = collect.rollout
        observed = made.observations[:, 0, 0].tolist()
        rows.append((observed, made.rewards[:, 0].tolist(), made.valid[:, 0].tolist(), len(finished)))
    return rows


def test_a_rollout_that_ends_with_its_episode_has_samples_to_shuffle() -> None:
    """γ = ½: 2 and 1 + ½·2; 6, 5 + ½·6 and 4 + ½·8. The rollout between them ends with a truncation."""
    collect = collector("SameStep", 6, keeps_outputs=True)
    objective = Objective(gamma=0.5, gae_lambda=1.0, entropy_coefficient=0, value_coefficient=0)
    network = TinyNetwork()
    targets = []
    for _ in range(3):
        collect.collect(network)
        targets.append(samples_of(collect.rollout, network, collect._distribution, objective).returns)
    assert [len(target) for target in targets] == [2, 1, 3]
    assert targets[0].tolist() == pytest.approx([2, 2])
    assert targets[2].tolist() == pytest.approx([8, 8, 6])


def test_noise_is_drawn_for_the_rows_that_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rollout reserves 100 rows, and its episodes have 2 and 1, and 3 with an ignored step; noise is for 2 rows."""
    monkeypatch.setattr("a3c_zoo.learning.collector.NOISE_ROWS", 2)
    collect = collector("NextStep", 100)
    drawn: list[int] = []
    noise = collect._distribution.noise

    def counted(out: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        drawn.append(len(out))
        return noise(out, generator)

    monkeypatch.setattr(type(collect._distribution), "noise", staticmethod(counted))
    assert [len(rewards) for _, rewards, _, _ in collected(collect, 3)] == [2, 2, 4]
    assert drawn == [2] * (1 + 1 + 2)


def test_cut_rollouts_where_a_step_is_ignored() -> None:
    assert collected(collector("NextStep", 2), 5) == [
        ([0, 1, 2], [1, 2], [T, T], 1),
        ([2, 10, 11], [77, 3], [F, T], 1),
        ([11, 20, 21, 22], [77, 4, 5], [F, T, T], 0),  # two steps, and the ignored one
        ([22, 23], [6], [T], 1),
        ([23, 30, 31, 32], [77, 1, 2], [F, T, T], 1),
    ]


@pytest.mark.parametrize("mode", ["SameStep", "Disabled"])
def test_cut_rollouts_where_none_is(mode: str) -> None:
    collect = collector(mode, 2)
    assert collected(collect, 2) == [([0, 1, 10], [1, 2], [T, T], 1), ([10, 20], [3], [T], 1)]
    assert {place: final.tolist() for place, final in collect.rollout.finals.items()} == {(0, 0): [11, 0]}
    assert collected(collect, 3) == [
        ([20, 21, 22], [4, 5], [T, T], 0),
        ([22, 30], [6], [T], 1),
        ([30, 31, 40], [1, 2], [T, T], 1),
    ]


def test_episodes_are_counted_across_cut_rollouts() -> None:
    collect = collector("NextStep", 2)
    finished = [each for _ in range(4) for each in collect.collect(TinyNetwork())]
    assert [(each.episode_return, each.length) for each in finished] == [(3, 2), (3, 1), (15, 3)]


def test_rollouts_of_one_length_have_logits_of_their_own() -> None:
    """Each episode has two steps, so the second rollout is as long as the first; its network is another one."""
    collect = collector("SameStep", 6, keeps_outputs=True, scripts=[[([1.0, 2.0], "terminated")]])
    network = TinyNetwork()
    for number in (1.0, 2.0):
        with torch.no_grad():
            network.theta[:] = number
        collect.collect(network)
        assert len(collect.rollout.rewards) == 2
        assert collect.rollout.logits is not None
        assert collect.rollout.logits.unique().tolist() == [number]
