"""The arguments of environments: `env.kwargs`, and the keys of Atari games."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from click.testing import CliRunner

from a3c_zoo import EnvEntry
from a3c_zoo.baselines.sb3_model import make_stack
from a3c_zoo.cli.main import cli
from a3c_zoo.config import yaml
from a3c_zoo.config.sets import describe, dump_config, load_config, resolve_config
from a3c_zoo.errors import ConfigError
from a3c_zoo.learning import function_env
from a3c_zoo.learning.arguments import parameters_of
from a3c_zoo.learning.environments import make_vector_env
from a3c_zoo.learning.function_env import entry_of
from a3c_zoo.plugins.entries import load_object
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo_envs import gym_family
from a3c_zoo_envs._atari import make
from a3c_zoo_envs._atari_modes import GamesInPython, areas
from tests.toys_runs import command_line

LAKE = "gym:FrozenLake-v1"


def config_of(env: str, *overrides: str, agent: str = "a3c") -> Any:
    registry = get_registry()
    return resolve_config(registry, registry.env(env), registry.agent(agent), overrides=overrides)


def made(env: str, *overrides: str) -> Any:
    return make_vector_env(get_registry().env(env), config_of(env, *overrides).env, 2, 0)


def the_lake(env: Any) -> Any:
    """The first environment below all wrappers."""
    return env.envs[0].unwrapped


def test_arguments_reach_the_environment() -> None:
    env = made(LAKE, "env.kwargs.is_slippery=false", "env.kwargs.map_name=8x8")
    assert env.single_observation_space.n == 64
    assert len(the_lake(env).P[0][2]) == 1  # a step is certain where the ice is not slippery
    assert len(the_lake(made(LAKE)).P[0][2]) == 3


def test_each_environment_has_a_copy_of_its_own() -> None:
    gymnasium.register("Keeps-v0", entry_point="tests.test_environment_arguments:Keeps")
    env: Any = make_vector_env(
        EnvEntry("keeps", env_id="Keeps-v0"),
        resolve_config(
            get_registry(),
            EnvEntry("keeps", env_id="Keeps-v0"),
            get_registry().agent("a3c"),
            overrides=["env.kwargs.items=[1]"],
        ).env,
        2,
        0,
    )
    env.envs[0].unwrapped.items.append(2)
    assert env.envs[1].unwrapped.items == [1]


class Keeps(gymnasium.Env[Any, Any]):
    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, items: Any = (), **others: int) -> None:
        self.items = items
        if "size" in others:
            raise TypeError("Keeps.__init__() got an unexpected keyword argument 'size'")


def test_one_argument_leaves_the_others() -> None:
    config = config_of(LAKE, "env.kwargs={map_name: 8x8, is_slippery: true}", "env.kwargs.is_slippery=false")
    assert config.env.kwargs == {"map_name": "8x8", "is_slippery": False}
    row = next(row for row in describe(config) if row.key == "env.kwargs")
    assert row.source == "-o"
    assert config_of(LAKE, "env.kwargs.map_name=8x8", "env.kwargs={}").env.kwargs == {}


@pytest.mark.parametrize(
    ("text", "value"),
    [('"x, y=2"', "x, y=2"), ("'x, y=2'", "x, y=2"), ('[S, "a, b=3"]', ["S", "a, b=3"]), ("{a: b, c=d: 1}", None)],
)
def test_a_comma_and_a_sign_of_equality_within_a_value(text: str, value: Any) -> None:
    assert config_of(LAKE, f"env.kwargs.desc={text}").env.kwargs["desc"] == (value or {"a": "b", "c=d": 1})


def test_config_yml_keeps_them(tmp_path: Path) -> None:
    config = config_of(LAKE, "env.kwargs.desc=[SF, HG]", "env.kwargs.is_slippery=false")
    path = tmp_path / "config.yml"
    path.write_text(dump_config(config))
    # The file may be a stranger's: values are data.
    assert load_config(path, get_registry(), is_trusted=False).env.kwargs == config.env.kwargs
    assert yaml.read_document(path, "x").data["env"]["kwargs"] == {"desc": ["SF", "HG"], "is_slippery": False}


def brackets(number: int) -> str:
    return "[" * number + "1" + "]" * number


def test_the_deepest_value_that_config_yml_keeps(tmp_path: Path) -> None:
    config = config_of(LAKE, f"env.kwargs.desc={brackets(16)}", "env.kwargs.map_name={}")
    path = tmp_path / "config.yml"
    path.write_text(dump_config(config))
    assert load_config(path, get_registry(), is_trusted=False).env.kwargs == config.env.kwargs


@pytest.mark.parametrize(
    ("value", "message"),
    [
        *((brackets(number), "is nested too deeply: no run can keep more than 20 levels") for number in (17, 19)),
        ("x" * 130_000, "is too long: no run can keep more than 128 KiB of all values together; shorten it"),
    ],
)
@pytest.mark.parametrize("words", [["train"], ["train", "--dry-run"], ["show", "hyperparams", "--out", "x.yml"]])
def test_what_config_yml_cannot_keep_is_refused(
    words: list[str],
    value: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command_line(*words, LAKE, "-o", f"env.kwargs.desc={value}", "-o", "env.kwargs.map_name=4x4") == 2
    error = capsys.readouterr().err
    assert error.startswith(f"Error: env.kwargs.desc: {message}")
    assert error.count("\n") == 1
    assert os.listdir() == []


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("env.kwargs.render_mode=human", "'render_mode' is given by a3c-zoo"),
        ("env.kwargs.max_episode_steps=3", "'max_episode_steps' is a key of its own: env.max_episode_steps"),
        ("env.kwargs=3", "must be a mapping"),
        ("env.kwargs.is_slippery=.nan", "must have finite numbers only"),
        ("env.kwargs={is_slippery: {1: 2}}", "key 1 is no word"),
        ("env.kwargs.map-name=4x4", "'map-name' is no name of an argument"),
        ("env.kwargs.map.name=4x4", "'map.name' is no name of an argument"),
        ("env.is_slippery=false", "Arguments of the environment itself: env.kwargs.is_slippery"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(override: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config_of(LAKE, override)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_argument_suggests_the_nearest() -> None:
    with pytest.raises(ConfigError) as caught:
        made(LAKE, "env.kwargs.is_slipery=false")
    text = str(caught.value)
    assert "env.kwargs.is_slipery" in text
    assert "Did you mean 'is_slippery'?" in text
    assert "It takes: desc, is_slippery, map_name" in text


def test_an_argument_that_the_environment_refuses_by_itself() -> None:
    gymnasium.register("Keeps-v1", entry_point="tests.test_environment_arguments:Keeps")
    entry = EnvEntry("keeps", env_id="Keeps-v1")
    config = resolve_config(
        get_registry(),
        entry,
        get_registry().agent("a3c"),
        overrides=["env.kwargs.items=[1]", "env.kwargs.size=3"],
    )
    with pytest.raises(ConfigError, match=r"env\.kwargs\.size: environment 'keeps' has no such argument"):
        make_vector_env(entry, config.env, 1, 0)


def test_a_factory_takes_what_its_signature_has() -> None:
    env = made("cartpole", "env.kwargs.sutton_barto_reward=true")
    env.reset(seed=0)
    assert env.step(np.zeros(2, np.int64))[1].tolist() == [0, 0]
    with pytest.raises(ConfigError, match=r"is a key of its own: env\.hide_velocity"):
        config_of("cartpole", "env.kwargs.hide_velocity=true")


def test_arguments_that_name_code_are_refused() -> None:
    for env in ("gym:GymV21Environment-v0", "gym:GymV26Environment-v0"):
        with pytest.raises(ConfigError, match="imports what its arguments name"):
            made(env, "env.kwargs.env_id=antigravity:x")
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize("name", ["GymV21Environment-v0", "a3c_zoo:GymV26Environment-v0"])
def test_its_kind_is_not_found_by_making_what_arguments_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module before the colon is imported already, so a stranger's run may name it."""

    def never(name: str, kwargs: object) -> str:
        raise AssertionError

    monkeypatch.setattr(gym_family, "_variant", never)
    assert gym_family.variant(name, {"env_id": "antigravity:x"}) == ""


def test_arguments_that_an_environment_gives_itself_stay() -> None:
    """Otherwise `pong` would be another game, and `python:mine:Make` what another function makes."""
    with pytest.raises(ConfigError, match=r"env\.kwargs\.rom: environment 'pong' gives this argument itself"):
        made("pong", "env.kwargs.rom=breakout")
    path = f"{__name__}:makes_anything"
    entry = EnvEntry("any", factory=function_env.FACTORY, kwargs={"function": path})
    config = resolve_config(
        get_registry(), entry, get_registry().agent("a3c"), overrides=["env.kwargs.function=os:abort"]
    )
    with pytest.raises(ConfigError, match="gives this argument itself"):
        make_vector_env(entry, config.env, 1, 0)


def makes_anything(**kwargs: object) -> gymnasium.Env:
    raise AssertionError


def test_atari_games_take_no_other_arguments() -> None:
    with pytest.raises(ConfigError, match=r"env\.kwargs\.size: environment 'pong' has no such argument"):
        made("pong", "env.kwargs.size=3")


def test_what_the_entry_gives_is_no_argument() -> None:
    """The function of an entry names code: no configuration may name other code."""
    entry = entry_of(Keeps)
    config = resolve_config(
        get_registry(), entry, get_registry().agent("a3c"), overrides=["env.kwargs.function=antigravity:x"]
    )
    with pytest.raises(ConfigError, match=r"env\.kwargs\.function: .* gives this argument itself"):
        make_vector_env(entry, config.env, 1, 0)
    assert "antigravity" not in sys.modules


def test_arguments_choose_the_default_set() -> None:
    pytest.importorskip("Box2D")
    continuous = config_of("gym:LunarLander-v3", "env.kwargs.continuous=true")
    assert continuous.sources["agent.n_steps"].startswith("gym/a3c-continuous.yml")
    assert not config_of("gym:LunarLander-v3").sources["agent.n_steps"].startswith("gym/a3c-continuous.yml")


def test_completion_knows_the_signature() -> None:
    entry = get_registry().env(LAKE)
    parameters = parameters_of(entry, load_object(entry.config))
    assert parameters.defaults["is_slippery"] == "true"
    assert not parameters.takes_others
    env = {"_A3C_ZOO_COMPLETE": "bash_complete", "COMP_CWORD": "4"}
    env["COMP_WORDS"] = f"a3c-zoo train {LAKE} -o env.kwargs.is"
    result = CliRunner().invoke(cli, [], prog_name="a3c-zoo", env=env)
    assert "env.kwargs.is_slippery=" in result.output


@pytest.mark.parametrize("stack", ["own", "zoo"])
def test_stable_baselines3_gets_them_on_both_stacks(stack: str) -> None:
    config = config_of(LAKE, "env.kwargs.is_slippery=false", f"env.stack={stack}", agent="sb3-ppo")
    env = make_stack(get_registry().env(LAKE), config, 2, 0)
    env.seed(0)
    env.reset()
    for action in (1, 1, 2):  # down, down, right: without slipping the next state is certain
        observations: Any = env.step(np.array([action, action]))[0]
    env.close()
    assert np.argmax(observations.reshape(2, -1), axis=1).tolist() in ([9, 9], [0, 0])


def test_stable_baselines3_refuses_those_of_a_factory() -> None:
    config = config_of("cartpole", "env.kwargs.sutton_barto_reward=true", "env.stack=own", agent="sb3-ppo")
    with pytest.raises(ConfigError, match=r"env\.kwargs: CartPole-v1 doesn't know this key"):
        make_stack(get_registry().env("cartpole"), config, 2, 0)


def test_atari_takes_ale_pys_names() -> None:
    config = config_of("pong", "env.repeat_action_probability=0.25", "env.noop_max=7")
    assert config.env.sticky_actions == 0.25
    assert config.sources["env.sticky_actions"] == "-o"
    assert config.env.noop_max == 7


def test_all_actions_of_the_console() -> None:
    env: Any = make(1, 0, rom="pong", full_action_space=True)
    assert env.single_action_space.n == 18
    env.close()


@pytest.mark.parametrize("rom", ["breakout", "ms_pacman"])
def test_games_in_python_are_ale_pys(rom: str) -> None:
    """The first mode, stepped from Python, is the game of the native environment."""
    native: Any = make(2, 0, rom=rom, noop_max=0, max_episode_steps=60)
    python: Any = make(2, 0, rom=rom, noop_max=0, max_episode_steps=60, difficulty=0)
    assert isinstance(python.ale, GamesInPython)
    assert np.abs(native.reset(seed=3)[0].astype(int) - python.reset(seed=3)[0]).max() <= 1
    random = np.random.default_rng(0)
    for _ in range(130):
        actions = random.integers(native.single_action_space.n, size=2)
        theirs = native.step(actions)
        ours = python.step(actions)
        assert np.abs(theirs[0].astype(int) - ours[0]).max() <= 1
        for expected, given in zip(theirs[1:4], ours[1:4], strict=True):
            np.testing.assert_array_equal(expected, given)
        np.testing.assert_array_equal(theirs[4]["lives"], ours[4]["lives"])
    for env in (native, python):
        env.close()


def test_a_mode_changes_the_game() -> None:
    frames = []
    for mode in (0, 1):
        env = make(1, 0, rom="pong", noop_max=0, mode=mode)
        env.reset(seed=0)
        for _ in range(40):
            observation = env.step(np.zeros(1, np.int64))[0]
        frames.append(observation)
        env.close()
    assert not np.array_equal(*frames)


def test_a_mode_that_a_game_has_not() -> None:
    with pytest.raises(ConfigError, match=r"env\.mode: 7 — the game pong has: 0, 1"):
        make(1, 0, rom="pong", mode=7)


def test_areas_by_hand() -> None:
    """5 pixels become 2: each is the mean of two and a half."""
    numbers, weights = areas(5, 2)
    pixels = np.array([10.0, 20, 30, 40, 50])
    means = (pixels[numbers] * weights).sum(axis=0)
    np.testing.assert_allclose(means, [(10 + 20 + 15) / 2.5, (15 + 40 + 50) / 2.5], rtol=1e-6)
    np.testing.assert_allclose(weights.sum(axis=0), 1, rtol=1e-6)


@pytest.mark.parametrize("stack", ["own", "zoo"])
def test_both_stacks_of_atari_know_the_keys(stack: str) -> None:
    pytest.importorskip("cv2")
    overrides = ("env.full_action_space=true", "env.difficulty=1", f"env.stack={stack}")
    config = config_of("breakout", *overrides, agent="sb3-ppo")
    env: Any = make_stack(get_registry().env("breakout"), config, 1, 0)
    assert env.action_space.n == 18
    env.close()
