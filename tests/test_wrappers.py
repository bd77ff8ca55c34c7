"""`env.wrappers`: around single and vector environments, in training, evaluation and baselines; what is refused."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import a3c_zoo
from a3c_zoo.errors import ConfigError, ZooError
from a3c_zoo.learning.environments import make_vector_env
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.runs.api import evaluate
from tests.toys_runs import command_line

CUT = {"gymnasium.wrappers:TimeLimit": {"max_episode_steps": 7}}
SHORT = {"run.evaluation_episodes": 1, "run.stop_when_solved": False}
Captured = pytest.CaptureFixture[str]


class TimesTen(gymnasium.RewardWrapper[Any, Any]):
    """Multiplies rewards."""

    def reward(self, reward: Any) -> float:
        return 10 * float(reward)


class VectorTimesTen(gymnasium.vector.VectorRewardWrapper):
    """Multiplies the rewards of a vector environment."""

    def rewards(self, rewards: Any) -> Any:
        return 10 * rewards


def no_environment(env: gymnasium.Env[Any, Any]) -> int:
    return 3


class Grows(gymnasium.RewardWrapper[Any, Any]):
    """Pays the number of steps: it keeps the list that it was given."""

    def __init__(self, env: Any, taken: list[int]) -> None:
        super().__init__(env)
        self.taken = taken

    def reward(self, reward: Any) -> float:
        self.taken.append(1)
        return float(len(self.taken))


def make(name: str, *wrappers: Any) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
    entry = get_registry().env(name)
    config = a3c_zoo.plugins.entries.load_object(entry.config)(wrappers=wrappers)
    return make_vector_env(entry, config, 2, 0)


def lengths_and_rewards(env: gymnasium.vector.VectorEnv[Any, Any, Any]) -> tuple[int, float]:
    """Steps until the first end, and the reward of the first step."""
    env.reset(seed=0)
    rewards = []
    for step in range(1, 600):
        _, reward, terminated, truncated, _ = env.step(np.array([step % 2, step % 2]))
        rewards.append(float(reward[0]))
        if (terminated | truncated)[0]:
            break
    env.close()
    return len(rewards), rewards[0]


def test_the_first_wrapper_is_the_innermost() -> None:
    assert lengths_and_rewards(make("gym:CartPole-v1", CUT, "tests.test_wrappers:TimesTen")) == (7, 10.0)
    env = make("gym:CartPole-v1", CUT, "tests.test_wrappers:TimesTen")
    assert isinstance(env, gymnasium.vector.SyncVectorEnv)
    assert isinstance(env.envs[0], TimesTen)
    env.close()


def test_each_environment_has_arguments_of_its_own() -> None:
    """Also those of the next vector environment: what a wrapper has changed is not in the configuration."""
    grows: dict[str, Any] = {"tests.test_wrappers:Grows": {"taken": []}}
    for _ in range(2):
        env = make("gym:CartPole-v1", grows)
        env.reset(seed=0)
        rewards = [env.step(np.array([0, 1]))[1].tolist() for _ in range(2)]
        env.close()
        assert rewards == [[1, 1], [2, 2]]
    assert grows == {"tests.test_wrappers:Grows": {"taken": []}}


def test_a_vector_wrapper_fits_every_environment() -> None:
    wrapper = "tests.test_wrappers:VectorTimesTen"
    assert lengths_and_rewards(make("cartpole", wrapper))[1] == 10.0
    assert lengths_and_rewards(make("gym:CartPole-v1", CUT, wrapper)) == (7, 10.0)


@pytest.mark.parametrize(
    ("wrapper", "message"),
    [
        ("nope:X", "'nope:X' cannot be imported: ModuleNotFoundError"),
        ("gymnasium.wrappers:Nope", "has no attribute 'Nope'"),
        ("gymnasium:__version__", "'gymnasium:__version__' is str, not a class or function that wraps"),
        ("gymnasium.wrappers:TimeLimit", "'gymnasium.wrappers:TimeLimit' fails: TypeError"),
        ("tests.test_wrappers:no_environment", "returns int, which is no environment"),
        ("gymnasium.wrappers:NormalizeReward", "keeps statistics that evaluations would not .*agent.reward_scale"),
        ("gymnasium.wrappers.vector:NormalizeObservation", "keeps statistics .*network.normalize_observations=true"),
    ],
)
def test_what_does_not_wrap(wrapper: str, message: str) -> None:
    with pytest.raises(ConfigError, match=rf"env\.wrappers: .*{message}"):
        make("gym:CartPole-v1", wrapper)


def test_a_single_wrapper_around_environments_made_as_one() -> None:
    with pytest.raises(ConfigError, match=r"a subclass of gymnasium\.vector\.VectorWrapper"):
        make("cartpole", CUT)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("[gymnasium.wrappers.FlattenObservation]", "must read module:Class, such as gymnasium.wrappers:FlattenObs"),
        ("gymnasium.wrappers:FlattenObservation", "must be a list: [first, second, …]"),
        ("[3]", "each must read module:Class"),
        ("[{a:b: {}, c:d: {}}]", "each must read module:Class"),
        ("[{a:b: 3}]", "each must read module:Class"),
        ("[{a:b: {low: [-.inf]}}]", "must have finite numbers only; for no limit give a large one, such as 1e30"),
    ],
)
def test_what_is_no_list_of_wrappers(value: str, message: str, capsys: Captured) -> None:
    assert command_line("train", "gym:CartPole-v1", "-o", f"env.wrappers={value}") == 2
    assert message in capsys.readouterr().err


class Frames(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Makes grey frames of any observation."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Box(0, 255, (48, 48, 1), np.uint8)

    def observation(self, observation: Any) -> Any:
        return np.zeros((48, 48, 1), np.uint8)


def test_a_wrapper_that_changes_the_kind_of_observations(capsys: Captured) -> None:
    """The default set is that of the environment without wrappers. The cure works."""
    words = ["train", "gym:CartPole-v1", "-o", f"env.wrappers=[{__name__}:Frames]", "--serial", "--dry-run"]
    assert command_line(*words) == 2
    cure = "Type the set for what the wrappers make of it: --hyperparams a3c-image\n"
    assert capsys.readouterr().err.endswith(f"offers Box(0, 255, (48, 48, 1), uint8). {cure}")
    assert command_line(*words, "--hyperparams", "a3c-image") == 0
    assert "network       a3c-ff" in capsys.readouterr().out
    assert command_line(*words, "-o", "network.name=mlp") == 2  # a set would not help
    assert capsys.readouterr().err.endswith("Choose another: a3c-zoo list networks\n")


@pytest.mark.parametrize("agent", ["a3c", "sb3-a2c", "random"])
def test_training_and_evaluation_have_them(agent: str, tmp_path: Path) -> None:
    overrides = {**SHORT, "env.wrappers": [CUT, "tests.test_wrappers:TimesTen"]}
    name = "gym:CartPole-v1"
    outcome = a3c_zoo.train(name, agent=agent, steps=400, runs_dir=tmp_path, name="x", overrides=overrides)
    rows = [row.split(",") for row in (outcome.run / "monitor.csv").read_text().splitlines()[2:]]
    assert max(int(row[1]) for row in rows) == 7
    assert max(float(row[0]) for row in rows) == 70.0
    assert evaluate(outcome.run, episodes=3, runs_dir=tmp_path).mean_length == 7


def test_a_file_chooses_no_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.delitem(sys.modules, "evilmod", raising=False)  # other tests trust a module of this name
    (tmp_path / "evilmod.py").write_text(f"from pathlib import Path\nPath({str(tmp_path / 'mark')!r}).touch()\n")
    (tmp_path / "set.yml").write_text("env:\n  wrappers: [evilmod:Wrapper, {it's.a:B: {}}]\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert command_line("train", "gym:CartPole-v1", "--hyperparams", str(tmp_path / "set.yml")) == 2
    message = capsys.readouterr().err
    assert "set.yml:2 env.wrappers: a file may not choose what is imported" in message
    assert shlex.split(message.partition(" -o ")[2]) == ["env.wrappers=['evilmod:Wrapper', {'it''s.a:B': {}}]"]
    assert "evilmod" not in sys.modules


def test_a_strangers_run_chooses_no_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = a3c_zoo.train(
        "gym:CartPole-v1", agent="random", steps=50, runs_dir=tmp_path / "inbox", name="x", overrides=SHORT
    )
    config = outcome.run / "config.yml"
    config.write_text(config.read_text().replace("wrappers: []", "wrappers: [evilmod:Wrapper]"))
    monkeypatch.delitem(sys.modules, "evilmod", raising=False)
    (tmp_path / "evilmod.py").write_text("import gymnasium\nWrapper = gymnasium.Wrapper\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ZooError, match=r"\(env\.wrappers\), .*not your own.*--trust"):
        evaluate("inbox/x", episodes=1)
    assert "evilmod" not in sys.modules
    assert evaluate("inbox/x", episodes=1, trust=True).episodes == 1
    del sys.modules["evilmod"]


def test_lists_become_tuples_where_a_wrapper_takes_nothing_else() -> None:
    """YAML has no tuples."""
    env = make("gym:CartPole-v1", {"gymnasium.wrappers:ReshapeObservation": {"shape": [2, 2]}})
    assert env.single_observation_space.shape == (2, 2)
    env.close()


def test_lists_stay_lists_where_a_wrapper_takes_them() -> None:
    env = make("gym:CartPole-v1", {"tests.test_wrappers:Grows": {"taken": []}})
    assert lengths_and_rewards(env)[1] == 1.0
