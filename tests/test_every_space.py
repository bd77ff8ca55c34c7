"""Every agent in every action space: trained, saved, loaded, and played by stable-baselines3's own evaluation."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

import a3c_zoo
from tests.toys_baselines import one_thread
from tests.toys_spaces import ACTIONS, LENGTH, env_name

SMALL: dict[str, dict[str, Any]] = {
    "a3c": {"env.num_envs": 2, "agent.n_steps": 5, "agent.update_samples": None},
    "a3c-data": {"env.num_envs": 2, "agent.n_steps": 4, "agent.batch_size": 16},
    "a3c-grad": {"env.num_envs": 2, "agent.n_steps": 4},
    "nstep": {"agent.n_steps": 5},
    "monte-carlo": {"agent.n_steps": 20},
}
TRANSITIONS = {**SMALL["a3c-data"], "agent.transfer": "transitions"}
LSTM = {"network.recurrent": "lstm", "network.recurrent_size": 8, "network.separate": False}
SQUASHED = {"agent.squash_actions": True}


@pytest.fixture(scope="module", autouse=True)
def with_one_thread() -> Iterator[None]:
    with one_thread():
        yield


def train(kind: str, agent: str, folder: Path, overrides: dict[str, Any], **options: Any) -> Path:
    outcome = a3c_zoo.train(
        env_name(kind, options.pop("has_parts", False)),
        agent=agent,
        seed=3,
        steps=options.pop("steps", 200),
        overrides={"network.hidden_sizes": [8], **overrides},
        runs_dir=folder,
        **options,
    )
    assert outcome.steps >= 200
    assert outcome.updates > 0
    return outcome.run


def played(policy: Any, kind: str, has_parts: bool, episodes: int) -> tuple[list[float], list[Any]]:
    """Returns of greedy episodes, stepped by hand, and all their actions."""
    env, returns, actions = gymnasium.make(env_name(kind, has_parts).removeprefix("gym:")), [], []
    for number in range(episodes):
        observation, _ = env.reset(seed=50) if not number else env.reset()
        total, ended = 0.0, False
        while not ended:
            action, _state = policy.predict(observation, deterministic=True)
            actions.append(action)
            observation, reward, terminated, truncated, _info = env.step(action)
            total, ended = total + float(reward), terminated or truncated
        returns.append(total)
    return returns, actions


def check(run: Path, kind: str, has_parts: bool = False) -> None:
    """Loaded twice, the agent acts the same, bit for bit, within the space, and as SB3's evaluation sees it."""
    policy, again = a3c_zoo.load_agent(run), a3c_zoo.load_agent(run)
    returns, actions = played(policy, kind, has_parts, 3)
    assert len(actions) == 3 * LENGTH
    assert all(action in ACTIONS[kind] for action in actions)
    others = played(again, kind, has_parts, 3)[1]
    assert np.array(actions).tobytes() == np.array(others).tobytes()
    env = Monitor(gymnasium.make(env_name(kind, has_parts).removeprefix("gym:")))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, lengths = evaluate_policy(policy, _Seeded(env), 3, deterministic=True, return_episode_rewards=True)
    assert lengths == [LENGTH] * 3
    assert theirs == pytest.approx(returns, abs=1e-5)


class _Seeded(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Its first episode is that of seed 50, whatever else is asked for."""

    is_first = True

    def reset(self, **options: Any) -> Any:
        seed, self.is_first = 50 if self.is_first else None, False
        return super().reset(**{**options, "seed": seed})


@pytest.mark.parametrize("kind", ACTIONS)
@pytest.mark.parametrize(
    ("agent", "overrides"), [*SMALL.items(), ("a3c-data", TRANSITIONS)], ids=[*SMALL, "transitions"]
)
def test_in_turn(agent: str, overrides: dict[str, Any], kind: str, tmp_path: Path) -> None:
    check(train(kind, agent, tmp_path, overrides, serial=True), kind)


@pytest.mark.parametrize(
    ("agent", "kind", "overrides"),
    [
        ("a3c", "choices", SMALL["a3c"]),
        ("a3c-data", "coins", SMALL["a3c-data"]),
        ("a3c-data", "box", TRANSITIONS | SQUASHED),
        ("a3c-grad", "box", SMALL["a3c-grad"]),
        ("nstep", "coins", SMALL["nstep"]),
        ("monte-carlo", "choices", SMALL["monte-carlo"]),
    ],
)
def test_in_two_processes(agent: str, kind: str, overrides: dict[str, Any], tmp_path: Path) -> None:
    check(train(kind, agent, tmp_path, overrides | {"run.workers": 2}, has_parts=True), kind, has_parts=True)


@pytest.mark.parametrize("agent", SMALL)
@pytest.mark.parametrize("kind", ["choices", "box"])
def test_with_a_core(agent: str, kind: str, tmp_path: Path) -> None:
    run = train(kind, agent, tmp_path, SMALL[agent] | LSTM, serial=True)
    actions = a3c_zoo.load_agent(run).predict(np.zeros((4, 3), np.float32))[0]
    assert all(action in ACTIONS[kind] for action in actions)


def test_squashed_actions_stay_within_their_bounds(tmp_path: Path) -> None:
    run = train("box", "a3c", tmp_path, SMALL["a3c"] | SQUASHED, serial=True)
    check(run, "box")
    actions = a3c_zoo.load_agent(run).predict(np.random.default_rng(0).normal(size=(500, 3)).astype(np.float32))[0]
    assert (np.abs(actions - [0, 0.5]) < [2, 0.5]).all()  # never at a bound, where clipped ones often are


def test_a_box_is_learned(tmp_path: Path) -> None:
    """An episode of the untrained policy, which stays in the middle of the box, is worth −6.5 on average, the best −1.

    Distances from −1 and −½ to targets in ±1: 1 and ⅝ on average, at best 0 and ¼ (half of the targets lie beyond the
    second bound); an episode pays 8 times their mean.
    """
    overrides = {"env.num_envs": 8, "agent.n_steps": 8, "agent.gamma": 0.0, "optimizer.learning_rate": 3e-3}
    run = train("box", "a3c", tmp_path, {**overrides, "network.hidden_sizes": [32]}, serial=True, steps=20_000)
    assert np.mean(played(a3c_zoo.load_agent(run), "box", False, 20)[0]) > -3


@pytest.mark.slow
def test_pendulum_swings_up_with_the_default_set(tmp_path: Path) -> None:
    outcome = a3c_zoo.train("gym:Pendulum-v1", seed=11, steps=1_000_000, runs_dir=tmp_path)
    assert outcome.mean_return_100 is not None
    assert outcome.mean_return_100 > -600  # hanging down: about -1,200; seeds 101 to 104: -183 to -334


@pytest.mark.slow
def test_frames_are_learned_with_the_default_set(tmp_path: Path) -> None:
    """MiniGrid draws what the agent sees, 56×56."""
    pytest.importorskip("minigrid")
    drawn = [f"minigrid.wrappers:{name}" for name in ("RGBImgPartialObsWrapper", "ImgObsWrapper")]
    outcome = a3c_zoo.train(
        "gym:minigrid:MiniGrid-DoorKey-5x5-v0",
        hyperparams="a3c-image",
        seed=101,
        steps=100_000,
        overrides={"env.wrappers": drawn},
        runs_dir=tmp_path,
    )
    assert outcome.mean_return_100 is not None
    assert outcome.mean_return_100 > 0.5  # random actions: about 0.04; one pass over each rollout: 0.03; seed 50: 0.92
