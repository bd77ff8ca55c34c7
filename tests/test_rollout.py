"""Collecting: scripted episodes in every autoreset mode, counts across rollouts, and environments that misbehave.

All numbers follow from the script in `tests.toys`: episodes of rewards (1, 2) terminated, (3) truncated, (4, 5, 6)
terminated and truncated at once, round and round; the observation after k steps of episode e is [10·e + k, n].
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space

from a3c_zoo.errors import EnvironmentContractError
from a3c_zoo.learning.actions import action_distribution
from a3c_zoo.learning.autoreset import autoreset_mode, autoreset_of
from a3c_zoo.learning.collector import Collector
from a3c_zoo.learning.contract import CheckedEnvironment
from a3c_zoo.learning.games import EpisodeAccounts, FinishedEpisode
from a3c_zoo.learning.objective import Objective, advantages_and_returns
from a3c_zoo.learning.rollout import Rollout
from a3c_zoo.learning.spaces import observation_spec
from tests.toys import MODES, SCRIPT, FaultyVectorEnv, Script, TinyNetwork, ToyEnv, ToyVectorEnv
from tests.toys_checks import House, Terrace, make_house

T, F = True, False
ALL = slice(None)
SECOND_SCRIPT: Script = (((10.0,), "truncated"), ((20.0, 30.0), "terminated"))


def collector(env: VectorEnv[Any, Any, Any], num_steps: int, on_tick: Callable[[], None] = lambda: None) -> Collector:
    checked = CheckedEnvironment(env, "toy", observation_spec(env.single_observation_space))
    distribution = action_distribution(env.single_action_space)
    return Collector(checked, distribution, num_steps, 0, torch.Generator().manual_seed(0), on_tick)


def column(array: Any, n: int = 0) -> list[Any]:
    column: list[Any] = np.asarray(array)[:, n].tolist()
    return column


def episodes(finished: list[FinishedEpisode]) -> list[tuple[float, int, int]]:
    """(return, length, row) of each."""
    return [(e.episode_return, e.length, e.row) for e in finished]


def next_values(rollout: Rollout, columns: slice = ALL) -> Any:
    """V of what followed each step, with V(s) = s[0]."""
    values = rollout.observations[:, columns, 0].numpy()
    return rollout.next_values(values[1:], columns, lambda observations: observations[:, 0])


def returns(rollout: Rollout) -> Any:
    """Value targets with γ = ½, λ = 1, V(s) = s[0]."""
    values = rollout.observations[:, :, 0].numpy()
    objective = Objective(gamma=0.5, gae_lambda=1.0, entropy_coefficient=0, value_coefficient=0)
    return advantages_and_returns(rollout, ALL, values[:-1], next_values(rollout), objective)[1]


class TestNextStep:
    # row        0  1  2   3   4   5   6   7
    # s_t        0  1  2  10  11  20  21  22  (23)      2, 11 and 23 are final observations
    # r_t        1  2  –   3   –   4   5   6            – is ignored; the toy says 77 there
    # end           t     tr              both

    def test_a_hand_computed_rollout(self) -> None:
        collect = collector(ToyVectorEnv(1, mode="NextStep", ignored_reward=77), 8)
        finished = collect.collect(TinyNetwork())
        rollout = collect.rollout
        assert column(rollout.observations[:, :, 0]) == [0, 1, 2, 10, 11, 20, 21, 22, 23]
        assert column(rollout.rewards) == [1, 2, 77, 3, 77, 4, 5, 6]
        assert column(rollout.terminated) == [F, T, F, F, F, F, F, T]
        assert column(rollout.truncated) == [F, F, F, T, F, F, F, T]
        assert column(rollout.valid) == [T, T, F, T, F, T, T, T]
        assert rollout.finals == {}  # they are among the observations
        assert column(next_values(rollout)) == [1, 2, 10, 11, 20, 21, 22, 23]
        # The ignored step counts nowhere: 1 + 2 in 2 steps, 3 in 1, 4 + 5 + 6 in 3.
        assert episodes(finished) == [(3, 2, 1), (3, 1, 3), (15, 3, 7)]

    def test_returns_of_the_valid_rows(self) -> None:
        collect = collector(ToyVectorEnv(1, mode="NextStep", ignored_reward=77), 8)
        collect.collect(TinyNetwork())
        # episode 0: R_1 = 2, R_0 = 1 + ½·2 = 2;  episode 1, cut at s' = 11: 3 + ½·11 = 8.5;
        # episode 2: 6;  5 + ½·6 = 8;  4 + ½·8 = 8
        assert returns(collect.rollout)[collect.rollout.valid].tolist() == [2, 2, 8.5, 8, 8, 6]

    def test_the_ignored_step_may_fall_into_the_next_rollout(self) -> None:
        collect = collector(ToyVectorEnv(1, mode="NextStep", ignored_reward=77), 8)
        collect.collect(TinyNetwork())
        finished = collect.collect(TinyNetwork())
        # row   0   1   2   3   4   5   6   7
        # s_t  23  30  31  32  40  41  50  51 (52)
        # r_t   –   1   2   –   3   –   4   5
        assert column(collect.rollout.observations[:, :, 0]) == [23, 30, 31, 32, 40, 41, 50, 51, 52]
        assert column(collect.rollout.valid) == [F, T, T, F, T, F, T, T]
        assert episodes(finished) == [(3, 2, 2), (3, 1, 4)]
        # The third episode of this round is under way with 4 + 5 in 2 steps; 6 in the next rollout's first row ends it.
        assert episodes(collect.collect(TinyNetwork()))[0] == (15, 3, 0)


@pytest.mark.parametrize("env", [
    lambda: ToyVectorEnv(1, mode="SameStep"),
    lambda: ToyVectorEnv(1, mode="SameStep", dense_finals=True),
    lambda: ToyVectorEnv(1, mode="Disabled"),
])  # fmt: skip
class TestSameStepAndDisabled:
    # row        0  1   2   3   4   5
    # s_t        0  1  10  20  21  22 (30)      what followed row 2 is 11, which is not among the observations
    # r_t        1  2   3   4   5   6
    # end           t  tr          both

    def test_a_hand_computed_rollout(self, env: Callable[[], ToyVectorEnv]) -> None:
        collect = collector(env(), 6)
        finished = collect.collect(TinyNetwork())
        rollout = collect.rollout
        assert column(rollout.observations[:, :, 0]) == [0, 1, 10, 20, 21, 22, 30]
        assert column(rollout.rewards) == [1, 2, 3, 4, 5, 6]
        assert column(rollout.terminated) == [F, T, F, F, F, T]
        assert column(rollout.truncated) == [F, F, T, F, F, T]
        assert column(rollout.valid) == [T, T, T, T, T, T]
        # Rows 1 and 5 terminated: what stands there is worth nothing to anyone.
        assert np.delete(next_values(rollout), [1, 5]).tolist() == [1, 11, 21, 22]
        assert episodes(finished) == [(3, 2, 1), (3, 1, 2), (15, 3, 5)]
        assert column(returns(rollout)) == [2, 2, 8.5, 8, 8, 6]  # as in TestNextStep

    def test_final_observations_do_not_outlive_their_rollout(self, env: Callable[[], ToyVectorEnv]) -> None:
        collect = collector(env(), 3)
        collect.collect(TinyNetwork())
        assert {place: final.tolist() for place, final in collect.rollout.finals.items()} == {(2, 0): [11, 0]}
        assert episodes(collect.collect(TinyNetwork())) == [(15, 3, 2)]
        assert collect.rollout.finals == {}  # terminated as well as truncated: no bootstrap
        assert column(next_values(collect.rollout))[:2] == [21, 22]


def test_episodes_count_across_rollout_boundaries() -> None:
    collect = collector(ToyVectorEnv(1, mode="SameStep"), 1)
    found = [episodes(collect.collect(TinyNetwork())) for _ in range(7)]
    assert found == [[], [(3, 2, 0)], [(3, 1, 0)], [], [], [(15, 3, 0)], []]


def test_several_episodes_of_one_environment_in_one_rollout() -> None:
    collect = collector(ToyVectorEnv(2, (SCRIPT, SECOND_SCRIPT), mode="SameStep"), 4)
    # environment 0: 1 2| 3| 4 …;  environment 1: 10| 20 30| 10|.  In order of the row, then of the environment.
    assert episodes(collect.collect(TinyNetwork())) == [(10, 1, 0), (3, 2, 1), (3, 1, 2), (50, 2, 2), (10, 1, 3)]


def test_final_observations_by_columns() -> None:
    collect = collector(ToyVectorEnv(2, (SCRIPT, SECOND_SCRIPT), mode="SameStep"), 3)
    collect.collect(TinyNetwork())
    # environment 1: 0 |10 11 |20 — cut in row 0 at s' = 1; terminated in row 2
    both = next_values(collect.rollout)
    assert both[:, 0].tolist() == [1, 10, 11]
    assert both[:, 1].tolist() == [1, 11, 20]
    np.testing.assert_array_equal(next_values(collect.rollout, slice(0, 1)), both[:, :1])
    np.testing.assert_array_equal(next_values(collect.rollout, slice(1, 2)), both[:, 1:])
    assert collect.rollout.observations[1:, 1, 0].tolist() == [10, 11, 20]  # and the buffer stays as it was


#: What really happened, whatever the mode: (s, reward, terminated, truncated, V(s') or 0 after a termination).
# fmt: off
TRANSITIONS = [
    [(0, 1, F, F, 1), (1, 2, T, F, 0), (10, 3, F, T, 11), (20, 4, F, F, 21), (21, 5, F, F, 22), (22, 6, T, T, 0),
     (30, 1, F, F, 31), (31, 2, T, F, 0), (40, 3, F, T, 41), (50, 4, F, F, 51)],
    [(0, 10, F, T, 1), (10, 20, F, F, 11), (11, 30, T, F, 0), (20, 10, F, T, 21), (30, 20, F, F, 31),
     (31, 30, T, F, 0), (40, 10, F, T, 41), (50, 20, F, F, 51), (51, 30, T, F, 0), (60, 10, F, T, 61)],
]
# fmt: on


def sync_env(mode: str) -> SyncVectorEnv:
    scripts = (SCRIPT, SECOND_SCRIPT)
    return SyncVectorEnv(
        [lambda n=n: ToyEnv(scripts[n], n) for n in range(2)],  # type: ignore[misc]
        autoreset_mode=AutoresetMode(mode),
    )


@pytest.mark.parametrize("num_steps", [1, 2, 5, 20])
@pytest.mark.parametrize("mode", MODES)
def test_real_sync_vector_env_tells_the_same_story_in_every_mode(mode: str, num_steps: int) -> None:
    collect = collector(sync_env(mode), num_steps)
    told: list[list[Any]] = [[], []]
    finished = []
    for _ in range(20 // num_steps):
        finished += collect.collect(TinyNetwork())
        rollout = collect.rollout
        following = next_values(rollout) * ~rollout.terminated
        for n in range(2):
            rows = zip(
                column(rollout.observations[:-1, :, 0], n),
                column(rollout.rewards, n),
                column(rollout.terminated, n),
                column(rollout.truncated, n),
                column(following, n),
                strict=True,
            )
            told[n] += [row for row, valid in zip(rows, column(rollout.valid, n), strict=True) if valid]
    for n in range(2):
        assert told[n][:10] == TRANSITIONS[n]
    assert {(e.episode_return, e.length) for e in finished} == {(3, 2), (3, 1), (15, 3), (10, 1), (50, 2)}


@pytest.mark.parametrize("num_steps", [1, 7, 32])
def test_real_cartpole_counts(num_steps: int) -> None:
    collect = collector(CartPoleVectorEnv(3, max_episode_steps=15), num_steps)
    counted = total_length = total_ignored = 0
    for _ in range(224 // num_steps):
        finished = collect.collect(TinyNetwork())
        rollout = collect.rollout
        # CartPole pays 1 for every step but the ignored one, so the rewards are a second witness of the mask.
        np.testing.assert_array_equal(rollout.rewards, rollout.valid)
        assert all(e.episode_return == e.length <= 15 for e in finished)
        counted += int(rollout.valid.sum())
        total_ignored += int((~rollout.valid).sum())
        total_length += sum(e.length for e in finished)
    assert counted + total_ignored == 224 * 3
    assert total_ignored > 20
    assert 0 <= counted - total_length < 3 * 15  # the rest is under way


def test_cartpole_truncates_at_the_limit_it_is_given() -> None:
    collect = collector(CartPoleVectorEnv(2, max_episode_steps=5), 12)
    # Nobody falls within 5 steps: rows 4 and 10 end, rows 5 and 11 are ignored.
    assert episodes(collect.collect(TinyNetwork())) == [(5, 5, 4), (5, 5, 4), (5, 5, 10), (5, 5, 10)]
    assert column(collect.rollout.valid) == [T] * 5 + [F] + [T] * 5 + [F]
    assert not collect.rollout.terminated.any()


@pytest.mark.parametrize("mode", MODES)
def test_actions_reach_the_environment_as_its_space_counts_them(mode: str) -> None:
    env = ToyVectorEnv(2, mode=mode, num_actions=3, action_start=-5)
    network = TinyNetwork(num_logits=3)
    with torch.no_grad():
        network.theta[2] = 1000
    collect = collector(env, 3)
    collect.collect(network)
    assert env.received == [[-3, -3]] * 3  # the third of −5, −4, −3
    assert collect.rollout.actions.tolist() == [[2, 2]] * 3  # the loss wants indices


def test_sampled_actions_are_those_that_were_taken() -> None:
    env = ToyVectorEnv(4, num_actions=3)
    collect = collector(env, 50)
    collect.collect(TinyNetwork(num_logits=3))
    assert env.received == collect.rollout.actions.tolist()
    assert {action for row in env.received for action in row} == {0, 1, 2}
    first = collect.rollout.actions.clone()
    collect.collect(TinyNetwork(num_logits=3))
    assert not torch.equal(first, collect.rollout.actions)  # fresh noise


def test_every_environment_step_ticks_and_a_tick_may_stop() -> None:
    ticks = []

    def tick() -> None:
        ticks.append(1)
        if len(ticks) == 5:
            raise KeyboardInterrupt

    collect = collector(ToyVectorEnv(2), 3, tick)
    collect.collect(TinyNetwork())
    assert len(ticks) == 3
    with pytest.raises(KeyboardInterrupt):
        collect.collect(TinyNetwork())


class Changes(ToyVectorEnv):
    """Changes what NumPy does about an overflow, and then fails."""

    def step(self, actions: np.ndarray) -> Any:
        np.seterr(over="raise")
        raise RuntimeError("the toy broke")


def test_what_an_environment_has_changed_is_set_back_if_it_fails() -> None:
    before = np.geterr()
    with pytest.raises(RuntimeError, match="the toy broke"):
        collector(Changes(1), 2).collect(TinyNetwork())
    assert np.geterr() == before


def everything(collect: Collector, finished: list[FinishedEpisode]) -> list[Any]:
    r = collect.rollout
    arrays = [r.observations, r.actions, r.rewards, r.terminated, r.truncated, r.valid]
    return [np.asarray(array).tolist() for array in arrays] + [
        {place: final.tolist() for place, final in r.finals.items()},
        episodes(finished),
    ]


@pytest.mark.parametrize("num_steps", [1, 4, 5])
@pytest.mark.parametrize("mode", MODES)
def test_a_restored_collector_goes_on_bitwise(mode: str, num_steps: int) -> None:
    def fresh() -> Collector:
        return collector(ToyVectorEnv(2, (SCRIPT, SECOND_SCRIPT), mode=mode, ignored_reward=77), num_steps)

    network = TinyNetwork()
    for rollouts_before in range(1, 6):  # boundaries in every place of an episode, after an end among them
        one = fresh()
        for _ in range(rollouts_before):
            one.collect(network)
        file = io.BytesIO()
        torch.save(one.state_dict(), file)
        uninterrupted = [everything(one, one.collect(network)) for _ in range(3)]
        file.seek(0)
        other = fresh()
        other.load_state_dict(torch.load(file, weights_only=True))
        assert [everything(other, other.collect(network)) for _ in range(3)] == uninterrupted


def test_a_state_is_a_snapshot() -> None:
    collect = collector(ToyVectorEnv(1, mode="SameStep"), 4)
    collect.collect(TinyNetwork())
    state = collect.state_dict()
    before = {name: value.tolist() for name, value in state.items() if name != "env"}
    collect.collect(TinyNetwork())
    assert {name: value.tolist() for name, value in state.items() if name != "env"} == before


def test_an_environment_that_cannot_tell_its_state_starts_anew_and_samples_on() -> None:
    one = collector(sync_env("SameStep"), 4)
    one.collect(TinyNetwork())
    state = one.state_dict()
    assert list(state) == ["sampling"]
    one.collect(TinyNetwork())
    other = collector(sync_env("SameStep"), 4)
    other.load_state_dict(state)
    assert episodes(other.collect(TinyNetwork()))[0] == (10, 1, 0)  # a new episode, from its start
    assert torch.equal(other.rollout.actions, one.rollout.actions)


class TestAutoresetMode:
    @pytest.mark.parametrize("mode", MODES)
    def test_from_the_metadata(self, mode: str) -> None:
        assert autoreset_mode(ToyVectorEnv(1, mode=mode)) == mode

    def test_the_attribute_wins(self) -> None:
        # AtariVectorEnv writes into the metadata of every class, so what stands there may be another's.
        env = ToyVectorEnv(1, mode="SameStep")
        env.autoreset_mode = AutoresetMode.DISABLED  # type: ignore[attr-defined]
        assert autoreset_mode(env) == "Disabled"

    @pytest.mark.parametrize("metadata", [{}, None, {"autoreset_mode": "whenever"}, {"autoreset_mode": True}])
    def test_a_missing_mode_is_an_error(self, metadata: Any) -> None:
        env = ToyVectorEnv(1)
        env.metadata = metadata
        with pytest.raises(EnvironmentContractError, match="does not say how it resets"):
            autoreset_mode(env)


@pytest.mark.parametrize(
    ("mode", "ignores_a_step", "final", "following"),
    [("NextStep", True, 1, 1), ("SameStep", False, 9, 1), ("Disabled", False, 1, 5)],
)
def test_the_autoreset_objects(mode: str, ignores_a_step: bool, final: int, following: int) -> None:
    """`step` returns 1 with 9 in `final_obs`, and `reset` returns 5."""
    masks = []

    class Resetting(ToyVectorEnv):
        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            masks.append(options["reset_mask"].tolist())
            return 5, {}

    autoreset = autoreset_of(Resetting(2, mode=mode))
    assert autoreset.ignores_a_step == ignores_a_step
    assert autoreset.final_observations(1, {"final_obs": 9}) == final
    assert autoreset.final_observations(1, {}) == (None if mode == "SameStep" else 1)
    assert autoreset.restart(1, {}, np.array([F, F]))[0] == 1
    assert autoreset.restart(1, {}, np.array([F, T]))[0] == following
    assert masks == ([[F, T]] if mode == "Disabled" else [])


def test_accounts_of_episodes_by_hand() -> None:
    accounts = EpisodeAccounts(1)
    rewards, valid, over = np.array([[1, 2, 77, 3], [T, T, F, T], [F, T, F, F]])[..., None]
    # 1 + 2 in two steps; 77 belongs to no episode; 3 in one step is still under way.
    assert episodes(accounts.add(rewards, valid.astype(bool), over.astype(bool))) == [(3, 2, 1)]
    other = EpisodeAccounts(1)
    other.returns[:], other.lengths[:] = accounts.returns, accounts.lengths
    for each in (accounts, other):
        assert episodes(each.add(np.full((2, 1), 4.0), np.array([[T], [T]]), np.array([[F], [T]]))) == [(11, 3, 1)]


def test_a_huge_return_leaves_the_next_one_its_digits() -> None:
    """1e17 + 1 is 1e17. The next episode of the rollout returns 3, and the one that is under way has 1 so far."""
    accounts = EpisodeAccounts(1)
    rewards = np.array([1e17, 1.0, 1.0, 1.0, 1.0])[:, None]
    over = np.array([T, F, F, T, F])[:, None]
    found = episodes(accounts.add(rewards, np.ones_like(over), over))
    assert found == [(1e17, 1, 0), (3.0, 3, 3)]
    assert accounts.returns.tolist() == [1.0]


class TestBrokenEnvironments:
    @pytest.mark.parametrize(
        ("fault", "message"),
        [
            ("nan", r"environment 'toy' returned an? (final )?observation that is not finite"),
            ("inf", "observation that is not finite"),
            ("shape", r"wrong observation: float32 \[2, 2, 1\], where its spaces promise float32 \[2, 2\]"),
            ("dtype", r"wrong observation: float64 \[2, 2\], where its spaces promise float32 \[2, 2\]"),
            ("list", r"wrong observation: list, where its spaces promise float32 \[2, 2\]"),
            ("reward-nan", r"reward that is not finite \(nan; environment 1 of 2, row 1 of the rollout\)"),
            ("reward-inf", "reward that is not finite"),
            ("reward-shape", r"wrong reward: float64 \[2, 1\], where its spaces promise numbers \[2\]"),
            ("reward-dtype", r"wrong reward: <U32 \[2\], where its spaces promise numbers \[2\]"),
            ("reward-list", r"wrong reward: list"),
            ("terminated-shape", r"wrong terminated: bool \[2, 1\]"),
            ("terminated-dtype", r"wrong terminated: <U5 \[2\]"),
            ("truncated-shape", r"wrong truncated: bool \[2, 1\]"),
        ],
    )
    @pytest.mark.parametrize("mode", MODES)
    def test_step(self, fault: str, message: str, mode: str) -> None:
        collect = collector(FaultyVectorEnv(2, fault, after=1, mode=mode), 3)
        with pytest.raises(EnvironmentContractError, match=message):
            collect.collect(TinyNetwork())

    def test_a_fault_in_a_later_rollout(self) -> None:
        collect = collector(FaultyVectorEnv(2, "nan", after=5), 3)
        collect.collect(TinyNetwork())
        with pytest.raises(EnvironmentContractError, match=r"environment 1 of 2, row 3 of the rollout"):
            collect.collect(TinyNetwork())

    def test_large_finite_observations_are_no_fault(self) -> None:
        class Large(ToyVectorEnv):
            def _observe(self) -> np.ndarray:
                return np.full((self.num_envs, 2), 3e38, np.float32)  # their sum overflows

        with np.errstate(over="ignore"):
            assert episodes(collector(Large(2), 2).collect(TinyNetwork())) == [(3, 2, 1), (3, 2, 1)]

    def test_what_is_infinite_in_float32_is_a_fault(self) -> None:
        """Networks get float32."""

        class Wide(ToyVectorEnv):
            def __init__(self) -> None:
                super().__init__(2)
                self.single_observation_space = Box(-np.inf, np.inf, (2,), np.float64)
                self.observation_space = batch_space(self.single_observation_space, 2)

            def _observe(self) -> np.ndarray:
                return np.array([[1.0, 1.0], [1.0, 1e39]])

        message = r"observation that is not finite in float32 \(\[1\.e\+00 1\.e\+39\]; environment 1 of 2, row 0 of"
        with pytest.raises(EnvironmentContractError, match=message):
            collector(Wide(), 2).collect(TinyNetwork())

    @pytest.mark.parametrize(
        ("fault", "message"),
        [
            ("final-missing", "resets in the same step but gives no 'final_obs'"),
            ("final-none", "resets in the same step but gives no 'final_obs'"),
            ("final-nan", "final observation that is not finite"),
            ("final-shape", r"wrong final observation: float32 \[2, 1\], where its spaces promise float32 \[2\]"),
        ],
    )
    def test_final_observations(self, fault: str, message: str) -> None:
        collect = collector(FaultyVectorEnv(1, fault, mode="SameStep"), 3)
        with pytest.raises(EnvironmentContractError, match=message):
            collect.collect(TinyNetwork())

    def test_nobody_needs_the_final_observation_of_a_termination(self) -> None:
        env = FaultyVectorEnv(1, "final-missing", mode="SameStep", scripts=((((1.0,), "terminated"),),))
        assert len(collector(env, 3).collect(TinyNetwork())) == 3

    def test_a_final_observation_that_disabled_mode_returns_is_checked_too(self) -> None:
        class Last(ToyVectorEnv):
            def step(self, actions: np.ndarray) -> Any:
                observation, rewards, terminated, truncated, info = super().step(actions)
                observation[truncated] = np.nan  # reset() overwrites it at once
                return observation, rewards, terminated, truncated, info

        with pytest.raises(EnvironmentContractError, match="final observation that is not finite"):
            collector(Last(1, mode="Disabled"), 3).collect(TinyNetwork())

    @pytest.mark.parametrize("fault", ["reset-shape", "reset-dtype"])
    def test_reset(self, fault: str) -> None:
        with pytest.raises(EnvironmentContractError, match="environment 'toy' returned a wrong observation"):
            collector(FaultyVectorEnv(1, fault), 3)

    def test_what_an_environment_raises_passes_through_with_a_note(self) -> None:
        with pytest.raises(RuntimeError, match="the toy broke") as in_reset:
            collector(FaultyVectorEnv(1, "reset-raise"), 3)
        assert in_reset.value.__notes__ == ["(raised in reset() of environment 'toy')"]
        collect = collector(FaultyVectorEnv(1, "raise"), 3)
        with pytest.raises(RuntimeError, match="the toy broke") as in_step:
            collect.collect(TinyNetwork())
        assert in_step.value.__notes__ == ["(raised in step() of environment 'toy')"]

    @pytest.mark.parametrize(
        ("fault", "message"),
        [
            ("wide", r"a wrong observation at 'room': float32 \[6\], where its spaces promise float32 \[1\]"),
            ("empty", r"a wrong observation at 'arm/0': NoneType, where its spaces promise float32 \[2\]"),
            (
                "column",
                r"a wrong result of step\(\), which must be .*, reward a number, .* array element.*a wrapper must",
            ),
        ],
    )
    def test_what_a_sync_vector_env_cannot_take(self, fault: str, message: str) -> None:
        env = VectorWrapper(make_house(2, 0, fault))
        with pytest.raises(EnvironmentContractError, match=f"^environment 'toy' returned {message}"):
            collector(env, 1).collect(TinyNetwork())

    @pytest.mark.parametrize(("make", "error"), [(House, ValueError), (Terrace, ValueError)])
    def test_what_a_single_environment_raises_is_none_of_that(self, make: Any, error: type[Exception]) -> None:
        env = SyncVectorEnv([lambda: make("ruin")])
        with pytest.raises(error) as caught:
            collector(env, 1)
        assert caught.value.__notes__ == ["(raised in reset() of environment 'toy')"]

    def test_an_observation_of_torch_is_refused(self) -> None:
        class Tensors(ToyVectorEnv):
            def _observe(self) -> Any:
                return torch.zeros(self.num_envs, 2)

        with pytest.raises(EnvironmentContractError, match=r"torch\.float32"):
            collector(Tensors(1), 3)


def test_integer_rewards_and_flags_are_numbers_too() -> None:
    class Integers(ToyVectorEnv):
        def step(self, actions: np.ndarray) -> Any:
            observation, rewards, terminated, truncated, info = super().step(actions)
            return observation, rewards.astype(np.int8), terminated.astype(np.int64), truncated, info

    assert episodes(collector(Integers(1), 2).collect(TinyNetwork())) == [(3, 2, 1)]


def test_returns_are_of_the_rewards_as_the_environment_gave_them() -> None:
    """Not of what float32 makes of them, from which the loss learns: 0.1 + 0.7, and 2²⁴ + 1."""
    script: Script = (((0.1, 0.7), "terminated"), ((2.0**24 + 1,), "terminated"))
    finished = collector(ToyVectorEnv(1, (script,), mode="SameStep"), 3).collect(TinyNetwork())
    assert episodes(finished) == [(0.1 + 0.7, 2, 1), (pytest.approx(2**24 + 1, abs=1e-6), 1, 2)]


@pytest.mark.parametrize("flag", ["terminated", "truncated"])
def test_flags_of_floating_point_are_refused(flag: str) -> None:
    class Floats(ToyVectorEnv):
        def step(self, actions: np.ndarray) -> Any:
            observation, rewards, terminated, truncated, info = super().step(actions)
            flags = {"terminated": terminated, "truncated": truncated}
            flags[flag] = flags[flag].astype(np.float32)
            return observation, rewards, flags["terminated"], flags["truncated"], info

    with pytest.raises(EnvironmentContractError, match=rf"wrong {flag}: float32 \[1\], where its spaces promise bool"):
        collector(Floats(1), 2).collect(TinyNetwork())


@pytest.mark.parametrize("mode", MODES)
def test_discrete_observations(mode: str) -> None:
    """FrozenLake's states are integers; a truncated one's final state arrives as an integer too."""
    env = SyncVectorEnv(
        [lambda: gymnasium.make("FrozenLake-v1", is_slippery=False, max_episode_steps=3)] * 2,
        autoreset_mode=AutoresetMode(mode),
    )
    network = TinyNetwork(num_logits=4)
    with torch.no_grad():
        network.theta[2] = 1000  # to the right, along the top row: 0, 1, 2, 3
    collect = collector(env, 3)
    finished = collect.collect(network)
    assert episodes(finished) == [(0, 3, 2), (0, 3, 2)]
    assert collect.rollout.observations[:3].tolist() == [[0, 0], [1, 1], [2, 2]]
    states = collect.rollout.observations.numpy().astype(np.float32)
    following = collect.rollout.next_values(states[1:], ALL, lambda observations: observations.float())
    assert following.tolist() == [[1, 1], [2, 2], [3, 3]]  # the last is the final state in every mode
