"""`predict`, as stable-baselines3 has it: its signature, its shapes, its values, its errors."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from stable_baselines3 import A2C
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

import a3c_zoo
from a3c_zoo import ZooError
from a3c_zoo.baselines.vec_env import make_zoo_vec_env
from a3c_zoo.cli.main import cli
from a3c_zoo.errors import ObservationError
from a3c_zoo.learning.spaces import as_batch, observation_spec
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.records import Policy
from tests.toys import ToyVectorEnv
from tests.toys_baselines import one_thread

LEARNING = ("a3c", "sb3-a2c", "sb3-ppo")
AGENTS = (*LEARNING, "random")


@pytest.fixture(scope="module", autouse=True)
def with_one_thread() -> Iterator[None]:
    with one_thread():
        yield


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    return {
        agent: a3c_zoo.train(
            "cartpole", agent=agent, serial=True, steps=500, runs_dir=folder, overrides=["env.num_envs=2"]
        ).run
        for agent in AGENTS
    }


@pytest.fixture(params=AGENTS)
def policy(request: pytest.FixtureRequest, runs: dict[str, Path]) -> Policy:
    return a3c_zoo.load_agent(runs[request.param])


def test_the_signature_is_sb3s(policy: Policy) -> None:
    ours, theirs = (inspect.signature(each.predict).parameters for each in (type(policy), BaseAlgorithm))
    assert list(ours) == [*theirs, "action_masks"]  # the last one is sb3-contrib's
    wanted = {name: p.default for name, p in theirs.items()} | {"action_masks": None}
    assert {name: p.default for name, p in ours.items()} == wanted


def test_shapes_and_types_are_sb3s(policy: Policy) -> None:
    model = A2C("MlpPolicy", "CartPole-v1", device="cpu")
    for observation in (np.zeros(4, np.float32), np.zeros((3, 4), np.float32), np.zeros((1, 4), np.float32)):
        for deterministic in (False, True):
            ours, theirs = (each.predict(observation, deterministic=deterministic) for each in (policy, model))
            assert type(ours[0]) is type(theirs[0])
            assert (ours[0].shape, ours[0].dtype) == (theirs[0].shape, theirs[0].dtype)
            assert ours[1] is theirs[1] is None


def test_a_state_is_handed_through(policy: Policy) -> None:
    state = (np.ones((1, 2, 3)),)
    starts = np.array([True, False])
    assert policy.predict(np.zeros((2, 4)), state, starts)[1] is state
    assert policy.predict(np.zeros((2, 4)), state=state, episode_start=starts, deterministic=True)[1] is state


@pytest.mark.parametrize("agent", LEARNING)
def test_lists_and_other_number_types_will_do(runs: dict[str, Path], agent: str) -> None:
    policy = a3c_zoo.load_agent(runs[agent])
    expected = policy.predict(np.zeros((1, 4), np.float32), deterministic=True)[0]
    for observation in ([0.0, 0.0, 0.0, 0.0], [0, 0, 0, 0], np.zeros(4), np.zeros(4, np.int64)):
        assert policy.predict(observation, deterministic=True)[0] == expected


def test_random_prefers_no_action(runs: dict[str, Path]) -> None:
    policy = a3c_zoo.load_agent(runs["random"])
    assert policy.predict([0, 0, 0, 0])[0] in (0, 1)
    greedy = policy.predict(np.zeros((200, 4), np.float32), deterministic=True)[0]
    assert 70 < greedy.sum() < 130  # binomial: mean 100, deviation 7


def test_greedy_actions_repeat_and_sampled_ones_vary(runs: dict[str, Path]) -> None:
    batch = np.zeros((200, 4), np.float32)
    for agent, run in runs.items():
        one, other = a3c_zoo.load_agent(run), a3c_zoo.load_agent(run)
        greedy = a3c_zoo.load_agent(run).predict(batch, deterministic=True)[0]
        assert len(set(greedy.tolist())) == (1 if agent in LEARNING else 2), agent
        first = one.predict(batch)[0]
        assert set(first.tolist()) == {0, 1}, agent
        assert first.tolist() != one.predict(batch)[0].tolist(), agent
        torch.rand(3)  # nobody else's random numbers matter
        assert first.tolist() == other.predict(batch)[0].tolist(), agent


def test_sampling_leaves_the_callers_random_numbers_alone(policy: Policy) -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    policy.predict(np.zeros((5, 4)))
    assert torch.equal(torch.get_rng_state(), before)


def test_loading_leaves_the_callers_random_numbers_alone(runs: dict[str, Path]) -> None:
    for run in runs.values():
        torch.manual_seed(0)
        np.random.seed(0)
        before = torch.get_rng_state(), np.random.get_state()[1].tolist()  # type: ignore[index]
        a3c_zoo.load_agent(run)
        assert torch.equal(torch.get_rng_state(), before[0])
        assert np.random.get_state()[1].tolist() == before[1]  # type: ignore[index]


WRONG: list[Any] = [
    np.zeros(3),
    np.zeros(()),
    np.zeros((2, 3)),
    np.zeros((2, 2, 4)),
    np.zeros((4, 1)),
    [[0.0, 0.0, 0.0, 0.0], [0.0]],
    (np.zeros(4), {}),
    "left",
    None,
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: str(np.shape(wrong)) if hasattr(wrong, "shape") else None)
def test_a_wrong_shape_is_a_value_error_and_one_line_for_the_user(policy: Policy, wrong: Any) -> None:
    with pytest.raises(ObservationError) as caught:
        policy.predict(wrong)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, ZooError)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        (np.zeros((2, 3)), "an observation has shape [4], several [N, 4]; got [2, 3]"),
        ((np.zeros(4), {}), "an observation has shape [4], several [N, 4]; got what a Gymnasium reset() returns"),
        ("left", "an observation has shape [4], several [N, 4]; got str: could not convert string to float: 'left'"),
    ],
)
def test_our_own_says_what_it_expects(runs: dict[str, Path], observation: Any, message: str) -> None:
    with pytest.raises(ObservationError) as caught:
        a3c_zoo.load_agent(runs["a3c"]).predict(observation)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("agent", AGENTS)
def test_an_environment_that_is_another_now_is_one_line(
    agent: str, runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("a3c_zoo.runs.episodes.make_vector_env", lambda *_: ToyVectorEnv(3))
    with pytest.raises(SystemExit) as left:
        cli.main(["evaluate", str(runs[agent]), "--episodes", "3"])
    assert left.value.code == 2
    *_, line = capsys.readouterr().err.splitlines()  # the line before names the checkpoint
    assert line.startswith("Error: ")
    assert "observation" in line


def test_batches_of_observations_without_axes() -> None:
    spec = observation_spec(gymnasium.spaces.Discrete(5))
    batch, is_single = as_batch(spec, 3)
    assert (batch.tolist(), batch.shape, is_single) == ([3], (1,), True)
    batch, is_single = as_batch(spec, [3])
    assert (batch.tolist(), is_single) == ([3], False)
    with pytest.raises(ObservationError, match=r"has shape \[\], several \[N\]; got \[1, 1\]"):
        as_batch(spec, [[3]])


@pytest.mark.parametrize("numbers", [[300, 1], [-1, 1], [2**70, 1]])
def test_numbers_that_the_dtype_does_not_hold(numbers: list[int]) -> None:
    spec = observation_spec(gymnasium.spaces.Box(0, 255, (2,), np.uint8))
    with pytest.raises(
        ObservationError, match=r"shape \[2\], several \[N, 2\](; got list: |, uint8; got other numbers)"
    ):
        as_batch(spec, numbers)


def test_observations_of_other_numbers() -> None:
    """Frames that somebody has divided by 255 would all be black."""
    frames = observation_spec(gymnasium.spaces.Box(0, 255, (2,), np.uint8))
    for right in ([7, 255], np.array([7, 255], np.int64), np.array([7, 255], np.uint8), [7.0, 255.0]):
        assert as_batch(frames, right)[0].tolist() == [[7, 255]]
    for wrong in ([0.1, 0.9], np.array([-1, 0]), np.array([256, 0])):
        with pytest.raises(ObservationError, match="uint8; got other numbers, "):
            as_batch(frames, wrong)
    with pytest.raises(ObservationError, match="int64; got other numbers, float64"):
        as_batch(observation_spec(gymnasium.spaces.Discrete(4)), 2.7)
    vector = observation_spec(gymnasium.spaces.Box(-1, 1, (2,), np.float32))
    assert as_batch(vector, [1, 0.5])[0].tolist() == [[1, 0.5]]
    for lacking in ([None, 1], [np.nan, 1], [1e300, 1]):
        with pytest.raises(ObservationError, match="of finite numbers"):
            as_batch(vector, lacking)


def test_complex_observations() -> None:
    vector = observation_spec(gymnasium.spaces.Box(-1, 1, (2,), np.float32))
    for wrong in ([1j, 0], np.ones(2, np.complex64)):
        with pytest.raises(ObservationError, match=r"shape \[2\], several .*: complex\d+ is no dtype of observations"):
            as_batch(vector, wrong)


def test_parts_with_other_numbers() -> None:
    parts: dict[str, gymnasium.Space[Any]] = {
        "camera": gymnasium.spaces.Box(0, 255, (3, 4, 4), np.uint8),
        "speed": gymnasium.spaces.Box(-1, 1, (1,)),
    }
    spec = observation_spec(gymnasium.spaces.Dict(parts))
    frame = np.full((3, 4, 4), 51, np.uint8)
    for right in (frame, frame.astype(np.float32)):
        assert as_batch(spec, {"camera": right, "speed": [0.5]})[0].sum() == 48 * 51 + 0.5
    with pytest.raises(ObservationError, match="part camera of an observation has whole numbers; got others, float64"):
        as_batch(spec, {"camera": frame / 255, "speed": [0.5]})
    with pytest.raises(ObservationError, match="numbers that are not finite"):
        as_batch(spec, {"camera": frame, "speed": [np.nan]})


def test_no_observations_of_whole_numbers() -> None:
    batch, is_single = as_batch(observation_spec(gymnasium.spaces.MultiDiscrete([2, 3])), np.zeros((0, 2), int))
    assert (batch.shape, is_single) == ((0, 5), False)


def test_sb3s_own_evaluation_accepts_an_agent(policy: Policy) -> None:
    registry = get_registry()
    entry = registry.env("cartpole")
    config = a3c_zoo.config.sets.resolve_config(registry, entry, registry.agent("a3c"))
    makers: tuple[Callable[[], Any], ...] = (
        lambda: make_vec_env("CartPole-v1", 3, seed=0),
        lambda: Monitor(gymnasium.make("CartPole-v1")),
        lambda: make_zoo_vec_env(entry, config.env, 3, 0),
    )
    for make in makers:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # SB3 would have a Monitor around everything
            returns, lengths = evaluate_policy(policy, make(), 4, deterministic=False, return_episode_rewards=True)
        assert returns == lengths
        assert isinstance(lengths, list)
        assert len(lengths) == 4


def test_sb3s_own_evaluation_agrees_with_ours(runs: dict[str, Path]) -> None:
    """Greedy on the same seeds: the episodes are the same ones."""
    policy = a3c_zoo.load_agent(runs["sb3-a2c"])
    env = make_vec_env("CartPole-v1", 1, seed=3)
    returns, _ = evaluate_policy(policy, env, 5, deterministic=True, return_episode_rewards=True)
    played = []
    single = gymnasium.make("CartPole-v1")
    observation, _ = single.reset(seed=3)
    for _ in range(5):
        total, ended = 0.0, False
        while not ended:
            action, _state = policy.predict(observation, deterministic=True)
            observation, reward, terminated, truncated, _info = single.step(action)
            total, ended = total + float(reward), terminated or truncated
        played.append(total)
        observation, _ = single.reset()
    assert played == returns
