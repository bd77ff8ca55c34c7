"""Atari by name: every game, whose set it trains with, what doesn't fit, and a short run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import yaml
from ale_py import roms

import a3c_zoo
from a3c_zoo.agents import A3CConfig
from a3c_zoo.config.sets import resolve_config
from a3c_zoo.errors import UnknownNameError, ZooError
from a3c_zoo.hardware import has_fast_bfloat16
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.testing import check_env
from a3c_zoo_envs.atari_family import resolve
from a3c_zoo_envs.env_configs import AtariConfig
from tests.toys_runs import command_line
from tests.waits import LIMIT_S

#: Without a mode for one player; ale-py ends the process when it is asked for one.
FOR_TWO = {"combat", "joust", "maze_craze", "warlords"}


@pytest.mark.parametrize("rom", sorted(set(roms.get_all_rom_ids()) - FOR_TWO))
def test_every_rom_has_an_entry(rom: str) -> None:
    entry = resolve(rom)
    assert (entry.name, entry.kwargs, entry.threshold) == (f"atari:{rom}", {"rom": rom}, None)


@pytest.mark.parametrize("rom", sorted(FOR_TWO))
def test_games_for_two_are_refused(rom: str) -> None:
    with pytest.raises(ZooError, match=f"the Atari game '{rom}' is for two players alone"):
        get_registry().env(f"atari:{rom}")


def test_ids_under_which_others_train() -> None:
    assert resolve("ms_pacman").gym_id == "ale_py:MsPacmanNoFrameskip-v4"
    assert resolve("king_kong").gym_id is None  # ale-py registers it as v5 alone
    for name in ("pong", "breakout"):
        entry = get_registry().env(name)
        assert entry.gym_id == resolve(name).gym_id
        assert str(entry.gym_id).partition(":")[2] in gymnasium.registry
    assert [get_registry().env(name).threshold for name in ("pong", "breakout")] == [18, 400]


def test_an_unknown_rom() -> None:
    with pytest.raises(UnknownNameError, match=r"game 'space_invader'\. .*'space_invaders'"):
        get_registry().env("atari:space_invader")


@pytest.mark.parametrize(
    ("name", "game"),
    [
        ("PongNoFrameskip-v4", "pong"),
        ("ALE/Breakout-v5", "breakout"),
        ("SpaceInvadersNoFrameskip-v4", "atari:space_invaders"),
        ("gym:MsPacmanDeterministic-v4", "atari:ms_pacman"),
        ("gym:BlackjackNoFrameskip-v4", "atari:blackjack"),
    ],
)
def test_gymnasiums_id_of_a_game_suggests_ours(name: str, game: str) -> None:
    with pytest.raises(UnknownNameError, match=rf"^unknown environment '{name}'\. Did you mean '{game}'\?"):
        get_registry().env(name)


@pytest.mark.parametrize(
    ("name", "unknown", "hint"),
    [
        ("LunarLander-v3", "LunarLander-v3", "gym:LunarLander-v3"),
        ("Humanoidd-v5", "gym:Humanoidd-v5", "gym:Humanoid-v5"),
        ("CartPole-v1", "CartPole-v1", "cartpole"),
    ],
)
def test_an_id_without_a_prefix(name: str, unknown: str, hint: str) -> None:
    with pytest.raises(UnknownNameError, match=rf"^unknown environment '{unknown}'\. Did you mean '{hint}'\?"):
        get_registry().env(name)


def test_a_name_of_gymnasium_comes_before_a_game() -> None:
    with pytest.raises(UnknownNameError, match=r"'gym:Blackjack-v0'.*'gym:Blackj.*-v1'"):
        get_registry().env("gym:Blackjack-v0")


ASKED_TWICE = """
import sys
from a3c_zoo.errors import UnknownNameError
from a3c_zoo.plugins.registry import get_registry
for _ in range(2):
    try:
        get_registry().env("gym:ALE/Pong-v5")
    except UnknownNameError as error:
        print(error)
print("ale_py" in sys.modules)
"""


def test_a_look_for_a_game_changes_nothing_for_the_next() -> None:
    done = subprocess.run([sys.executable, "-c", ASKED_TWICE], capture_output=True, text=True, timeout=LIMIT_S)
    line = "unknown environment 'gym:ALE/Pong-v5'. Did you mean 'atari:pong'? See: gymnasium.pprint_registry()"
    assert done.stdout.splitlines() == [line, line, "False"], done.stderr


def test_games_without_sets_of_their_own_have_the_familys() -> None:
    registry = get_registry()
    for agent, num_envs in (("a3c", 8), ("sb3-a2c", 16), ("sb3-ppo", 8)):
        config = resolve_config(registry, registry.env("atari:seaquest"), registry.agent(agent))
        assert isinstance(config.env, AtariConfig)
        assert (config.env.num_envs, config.env.life_loss) == (num_envs, True)
        assert config.sources["env.num_envs"].startswith(f"atari/{agent}.yml:")
    config = resolve_config(registry, registry.env("pong"), registry.agent("a3c"))
    assert config.sources["env.num_envs"].startswith("pong/a3c.yml:")


@pytest.mark.parametrize(("name", "passes", "network"), [("a3c-plain", 1, "a3c-ff"), ("a3c-ppo", 4, "nature")])
def test_other_sets_of_the_family(name: str, passes: int, network: str) -> None:
    registry = get_registry()
    config = resolve_config(registry, registry.env("atari:seaquest"), registry.agent("a3c"), hyperparams=name)
    assert isinstance(config.agent, A3CConfig)
    assert config.network is not None
    assert (config.agent.epochs, config.network.name) == (passes, network)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["pong", "-o", "network.name=mlp"],
            "network 'mlp' takes vector observations; environment 'pong' offers Box(0, 255, (4, 84, 84), uint8). "
            "Choose another: a3c-zoo list networks",
        ),
        (
            ["cartpole", "-o", "network.name=conv42"],
            "network 'conv42' takes image observations; environment 'cartpole' offers Box(",
        ),
        (
            ["pong", "-o", "max_episode_steps=1000000000"],  # the emulator counts frames in an int32
            "-o env.max_episode_steps: 1000000000 — must be less than or equal to 30000000",
        ),
        (
            ["pong", "-o", "network.name=nature", "-o", "frame_size=35"],
            "network 'nature' cannot take frames of 35×35: they are too small for convolution 3.",
        ),
        (["atari:pogn"], "unknown Atari game 'pogn'. Did you mean 'pong'?"),
        (["pong", "-o", "frame_size=300"], "-o env.frame_size: 300 — must be less than or equal to 210"),
        (["pong", "-o", "network.hidden_sizes=[3]"], "-o network.hidden_sizes: unknown key."),
    ],
)
def test_what_does_not_fit_is_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line("train", *arguments, "--quiet", "--serial", "--runs-dir", tmp_path) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith(f"Error: {message}")


def test_a_networks_keys_in_its_set_do_not_hinder_another_one() -> None:
    registry = get_registry()
    cartpole, a3c = registry.env("cartpole"), registry.agent("a3c")
    config = resolve_config(registry, cartpole, a3c, overrides=["network.name=nature", "center=7"])
    assert config.network is not None
    assert (config.network.name, getattr(config.network, "center")) == ("nature", 7)  # noqa: B009
    assert not any("hidden_sizes" in source for source in config.sources)


# The contract


def test_a_game_with_lives_keeps_the_contract_of_environments() -> None:
    """Most of its time goes into making emulators, hence one at a time and few steps."""
    keys = AtariConfig(life_loss=True, frame_size=8, frame_stack=1, max_episode_steps=30)
    check_env(get_registry().env("breakout"), config=keys, num_envs=(1,), steps=70)


# A run


def test_training_any_game(tmp_path: Path) -> None:
    """A few hundred steps of Space Invaders, by real workers, with the family's set."""
    outcome = a3c_zoo.train(
        "atari:space_invaders", steps=240, runs_dir=tmp_path, overrides={"env.max_episode_steps": 15, "num_envs": 2}
    )
    assert (outcome.reason, outcome.steps >= 240) == ("steps", True)
    assert outcome.episodes >= 8
    assert outcome.updates >= 2  # two passes over the first rollout of 2 × 128 steps
    chosen = yaml.safe_load((outcome.run / "config.yml").read_text())["network"]["precision"]
    assert chosen == ("bfloat16" if has_fast_bfloat16() else "float32")  # what "auto" was
    actions, _ = a3c_zoo.load_agent(outcome.run).predict(np.zeros((3, 4, 84, 84), np.uint8))
    assert actions.shape == (3,)
