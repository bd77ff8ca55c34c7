"""The zoo's environments as stable-baselines3's VecEnv, held against episodes written down by hand."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from stable_baselines3 import A2C
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecMonitor

from a3c_zoo import EnvEntry
from a3c_zoo.baselines.vec_env import ZooVecEnv, make_zoo_vec_env
from a3c_zoo.config import EnvConfig
from a3c_zoo.errors import ConfigError, EnvironmentContractError
from tests.toys import MODES, SCRIPT, FaultyVectorEnv, Script, ToyEnv, ToyVectorEnv, toy_entry
from tests.toys_baselines import one_thread

#: Environment 1 is cut after every step: it ends while environment 0 goes on, and the other way round.
CUT: Script = (((7.0,), "truncated"),)
SCRIPTS = (SCRIPT, CUT)

# Six steps of the two scripts: what is seen next, the reward, whether an episode ended, with what and why.
NEXT = [[1, 10], [10, 20], [20, 30], [21, 40], [22, 50], [30, 60]]
REWARDS = [[1, 7], [2, 7], [3, 7], [4, 7], [5, 7], [6, 7]]
DONES = [[0, 1], [1, 1], [1, 1], [0, 1], [0, 1], [1, 1]]
FINALS: list[list[Any]] = [[None, 1], [2, 11], [11, 21], [None, 31], [None, 41], [23, 51]]
CUTS = [[0, 1], [0, 1], [1, 1], [0, 1], [0, 1], [0, 1]]  # an end that is also a goal counts as a goal


@pytest.fixture(autouse=True)
def with_one_thread() -> Iterator[None]:
    with one_thread():
        yield


def adapted(mode: str, **options: Any) -> ZooVecEnv:
    """Environment 0 plays SCRIPT, environment 1 plays CUT."""
    if mode == "NextStep":
        envs = [ToyVectorEnv(1, [script], mode, first_index=n, **options) for n, script in enumerate(SCRIPTS)]
        return ZooVecEnv(envs, "toy")
    return ZooVecEnv([ToyVectorEnv(2, SCRIPTS, mode, **options)], "toy")


def synced(mode: str) -> ZooVecEnv:
    """The same in Gymnasium's SyncVectorEnv."""
    functions = [lambda: ToyEnv(SCRIPT, 0), lambda: ToyEnv(CUT, 1)]
    reset = AutoresetMode(mode)
    if mode == "NextStep":
        return ZooVecEnv([SyncVectorEnv([each], autoreset_mode=reset) for each in functions], "toy")
    return ZooVecEnv([SyncVectorEnv(functions, autoreset_mode=reset)], "toy")


STACKS: dict[str, Any] = {
    **{mode: lambda mode=mode: adapted(mode) for mode in MODES},
    "SameStep, dense finals": lambda: adapted("SameStep", dense_finals=True),
    **{f"SyncVectorEnv, {mode}": lambda mode=mode: synced(mode) for mode in MODES},
}


@pytest.mark.parametrize("stack", STACKS)
def test_episodes_are_as_computed_by_hand(stack: str) -> None:
    env: Any = STACKS[stack]()
    assert env.reset().tolist() == [[0, 0], [0, 1]]
    for t in range(6):
        observation, rewards, dones, infos = env.step(np.array([0, 1]))
        assert observation.tolist() == [[NEXT[t][0], 0], [NEXT[t][1], 1]], t
        assert rewards.tolist() == REWARDS[t], t
        assert dones.tolist() == [bool(done) for done in DONES[t]], t
        for n in range(2):
            final = infos[n].get("terminal_observation")
            assert (None if final is None else final.tolist()) == (FINALS[t][n] and [FINALS[t][n], n]), (t, n)
            assert infos[n].get("TimeLimit.truncated", False) == bool(CUTS[t][n]), (t, n)
    env.close()


@pytest.mark.parametrize("mode", MODES)
def test_no_action_is_lost_or_made_up(mode: str) -> None:
    env: Any = adapted(mode)
    env.reset()
    for t in range(6):
        env.step(np.array([t % 2, 1 - t % 2]))
    single = [inner for vector in env.envs for inner in vector.envs]
    assert [inner.received for inner in single] == [[0, 1, 0, 1, 0, 1], [1, 0, 1, 0, 1, 0]]


@pytest.mark.parametrize("mode", MODES)
def test_what_is_returned_stays_as_it_was(mode: str) -> None:
    env: Any = adapted(mode)
    first = env.reset()
    before = env.step(np.array([0, 0]))
    env.step(np.array([0, 0]))
    assert first.tolist() == [[0, 0], [0, 1]]
    assert before[0].tolist() == [[1, 0], [10, 1]]
    assert before[3][1]["terminal_observation"].tolist() == [1, 1]
    assert [array.dtype.name for array in before[:3]] == ["float32", "float32", "bool"]


@pytest.mark.parametrize("stack", STACKS)
def test_sb3_learns_from_those_transitions_and_bootstraps_where_it_should(stack: str) -> None:
    env = VecMonitor(STACKS[stack]())
    model = A2C("MlpPolicy", env, n_steps=6, gamma=0.5, learning_rate=0.0, seed=0, device="cpu")
    buffers: list[Any] = []

    class Keep(BaseCallback):
        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            buffers.append(copy.deepcopy(self.model.rollout_buffer))  # type: ignore[attr-defined]

    model.learn(12, Keep())
    (buffer,) = buffers
    seen = [[[0, 0], [0, 1]], *([[a, 0], [b, 1]] for a, b in NEXT[:-1])]
    assert buffer.observations.tolist() == seen
    assert buffer.episode_starts.tolist() == [[1, 1], *DONES[:-1]]
    expected = np.array(REWARDS, np.float32)
    for t, n in np.argwhere(np.array(CUTS) == 1):
        final = torch.tensor([[FINALS[t][n], n]], dtype=torch.float32)
        expected[t, n] += 0.5 * model.policy.predict_values(final).item()
    assert buffer.rewards == pytest.approx(expected, abs=1e-5)


def test_monitor_accounts_for_whole_episodes() -> None:
    env = VecMonitor(adapted("NextStep"))
    env.reset()
    infos = [env.step(np.array([0, 0]))[3][0] for _ in range(6)]
    episodes = [(info["episode"]["r"], info["episode"]["l"]) for info in infos if "episode" in info]
    assert episodes == [(3.0, 2), (3.0, 1), (15.0, 3)]


def test_returns_are_sums_of_the_rewards_as_they_came() -> None:
    """In float32, as SB3 gets them, 123456.78 is 123456.78125."""
    script: Script = (((123456.78, 0.01), "terminated"),)
    env = ZooVecEnv([ToyVectorEnv(1, [script], "SameStep")], "toy")
    env.reset()
    env.step(np.array([0]))
    _, rewards, _, infos = env.step(np.array([0]))
    assert rewards.dtype == np.float32
    assert infos[0]["episode"] == {"r": 123456.78 + 0.01, "l": 2}
    env.close()


def test_sb3s_own_evaluation_accepts_it() -> None:
    model = A2C("MlpPolicy", adapted("NextStep"), device="cpu")
    episodes: Any = evaluate_policy(model, VecMonitor(adapted("Disabled")), 4, return_episode_rewards=True)
    assert [sorted(each) for each in episodes] == [[3.0, 3.0, 7.0, 7.0], [1, 1, 1, 2]]


def test_actions_are_numbered_from_0_for_sb3() -> None:
    inner = ToyVectorEnv(2, mode="SameStep", num_actions=3, action_start=5)
    env = ZooVecEnv([inner], "toy")
    assert env.action_space == spaces.Discrete(3)
    env.reset()
    env.step(np.array([0, 2]))
    assert inner.received == [[5, 7]]


class Choices(gymnasium.Env[Any, Any]):
    """Its rewards tell the action: 100 times the first choice and the second one."""

    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.MultiDiscrete([3, 2], start=[5, 10])

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(1, np.float32), float(action @ [100, 1]), False, False, {}


def test_choices_are_numbered_from_0_for_sb3() -> None:
    env = ZooVecEnv([SyncVectorEnv([Choices, Choices], autoreset_mode=AutoresetMode.SAME_STEP)], "choices")
    assert env.action_space == spaces.MultiDiscrete([3, 2])
    env.reset()
    assert env.step(np.array([[0, 1], [2, 0]]))[1].tolist() == [511, 710]


def test_next_step_environments_are_made_one_by_one() -> None:
    assert [env.num_envs for env in make_zoo_vec_env(toy_entry(mode="NextStep"), EnvConfig(), 3, 0).envs] == [1, 1, 1]
    for mode in ("SameStep", "Disabled"):
        assert [env.num_envs for env in make_zoo_vec_env(toy_entry(mode=mode), EnvConfig(), 3, 0).envs] == [3]
    with pytest.raises(ValueError, match="NEXT_STEP mode must have a single"):
        ZooVecEnv([ToyVectorEnv(2)], "toy")


def test_on_cartpole_it_is_sb3s_own_stack_to_the_bit() -> None:
    cartpole = EnvEntry("cartpole", factory="a3c_zoo_envs.cartpole:make")
    ours: Any = make_zoo_vec_env(cartpole, EnvConfig(), 3, 0)
    theirs: Any = make_vec_env("CartPole-v1", 3)
    for env in (ours, theirs):
        env.seed(11)
    assert np.array_equal(ours.reset(), theirs.reset())
    random = np.random.default_rng(0)
    num_ended = 0
    for _ in range(300):
        actions = random.integers(2, size=3)
        one, other = ours.step(actions), theirs.step(actions)
        for mine, yours in zip(one[:3], other[:3], strict=True):
            assert np.array_equal(mine, yours)
        for n in np.flatnonzero(one[2]):
            num_ended += 1
            assert np.array_equal(one[3][n]["terminal_observation"], other[3][n]["terminal_observation"])
            assert one[3][n]["TimeLimit.truncated"] == other[3][n]["TimeLimit.truncated"]
    assert num_ended > 20


@pytest.mark.parametrize(
    ("fault", "mode", "message"),
    [
        ("nan", "NextStep", "returned a non-finite observation"),
        ("reward-nan", "SameStep", "returned a reward that is not finite in float32"),
        ("shape", "Disabled", r"returned a wrong observation: float32 \[1, 2, 1\], where its spaces promise float32"),
        ("dtype", "NextStep", "returned a wrong observation: float64"),
        ("list", "NextStep", "returned a wrong observation"),
        ("final-missing", "SameStep", "resets in the same step but gives no 'final_obs'"),
        ("final-none", "SameStep", "resets in the same step but gives no 'final_obs'"),
    ],
)
def test_an_environment_that_breaks_its_contract_is_named(fault: str, mode: str, message: str) -> None:
    env = ZooVecEnv([FaultyVectorEnv(1, fault, mode=mode)], "toy")
    env.reset()
    with pytest.raises(EnvironmentContractError, match=f"^environment 'toy' {message}"):
        _ = [env.step(np.array([0])) for _ in range(2)]


def test_what_a_step_raises_says_where() -> None:
    env = ZooVecEnv([FaultyVectorEnv(1, "raise")], "toy")
    env.reset()
    with pytest.raises(RuntimeError, match="the toy broke") as caught:
        env.step(np.array([0]))
    assert caught.value.__notes__ == ["(raised in step() of environment 'toy')"]


class InParts(gymnasium.ObservationWrapper[Any, Any, Any]):
    """CartPole with its speeds, and the side on which the cart is, as a dictionary."""

    def __init__(self) -> None:
        super().__init__(gymnasium.make("CartPole-v1"))
        speeds = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.observation_space = spaces.Dict({"speeds": speeds, "side": spaces.Discrete(2)})

    def observation(self, observation: Any) -> dict[str, Any]:
        return {"speeds": observation[[1, 3]], "side": np.int64(observation[0] > 0)}


def equal(one: Any, other: Any) -> bool:
    assert one.keys() == other.keys() == {"speeds", "side"}
    return all(np.array_equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize("mode", MODES)
def test_dictionaries_are_handed_over_as_by_sb3(mode: str) -> None:
    reset = AutoresetMode(mode)
    if mode == "NextStep":
        ours: Any = ZooVecEnv([SyncVectorEnv([InParts], autoreset_mode=reset) for _ in range(2)], "parts")
    else:
        ours = ZooVecEnv([SyncVectorEnv([InParts] * 2, autoreset_mode=reset)], "parts")
    theirs: Any = make_vec_env(InParts, 2)
    for env in (ours, theirs):
        env.seed(11)
    assert equal(ours.reset(), theirs.reset())
    random = np.random.default_rng(0)
    num_ended = 0
    for _ in range(200):
        actions = random.integers(2, size=2)
        observation, rewards, dones, infos = ours.step(actions)
        their_observation, their_rewards, their_dones, their_infos = theirs.step(actions)
        assert equal(observation, their_observation)
        assert np.array_equal(rewards, their_rewards)
        assert np.array_equal(dones, their_dones)
        for n in np.flatnonzero(dones):
            num_ended += 1
            assert equal(infos[n]["terminal_observation"], their_infos[n]["terminal_observation"])
    assert num_ended > 10


def test_parts_that_sb3_does_not_know_are_refused() -> None:
    class NestedEnv(ToyEnv):
        def __init__(self) -> None:
            super().__init__()
            inner = spaces.Dict({"x": spaces.Discrete(2)})
            self.observation_space = spaces.Dict({"inner": inner})  # type: ignore[assignment]

    with pytest.raises(ConfigError, match=r"env.stack: zoo — environment 'toy' has observations Dict\('inner'"):
        ZooVecEnv([SyncVectorEnv([NestedEnv])], "toy")


def test_the_rest_of_the_interface() -> None:
    env = adapted("NextStep")
    assert env.get_attr("mode") == [AutoresetMode.NEXT_STEP] * 2
    assert env.get_attr("num_envs", indices=1) == [1]
    assert env.env_is_wrapped(gymnasium.Wrapper) == [False, False]
    assert (env.num_envs, env.render_mode) == (2, None)
    for refused in (lambda: env.set_attr("x", 1), lambda: env.env_method("reset")):
        with pytest.raises(NotImplementedError):
            refused()
    env.close()
    assert all(inner.closed for inner in env.envs)


@pytest.mark.parametrize("broken", [0, 1])
def test_all_environments_are_closed_where_one_cannot_be(broken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    env, closed = adapted("NextStep"), []
    for n, inner in enumerate(env.envs):
        monkeypatch.setattr(inner, "close", lambda n=n: closed.append(n) if n != broken else 1 / 0)
    with pytest.raises(ZeroDivisionError):
        env.close()
    assert closed == [1 - broken]
