"""The background of pictures: measured before training, subtracted by the network, and kept with the parameters."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from numpy.typing import NDArray

import a3c_zoo
from a3c_zoo.config import EnvConfig
from a3c_zoo.config.sets import resolve_config
from a3c_zoo.errors import ConfigError
from a3c_zoo.learning import model
from a3c_zoo.learning.background import background_of
from a3c_zoo.learning.image_networks import Architecture, Conv, ConvActorCritic
from a3c_zoo.learning.network_configs import ImageConfig
from a3c_zoo.learning.spaces import ObservationSpec, observation_spec
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.processes.probe import read_spaces

#: Keys of a run of few steps.
SMALL = ["env.num_envs=2", "n_steps=10", "update_samples=10", "run.workers=1", "run.evaluation_every_s=null"]
#: Pictures of 2×2 pixels with one channel. 7 is the most frequent pixel of the first two, 9 of all.
FILM = ([[7, 7], [7, 0]], [[7, 9], [9, 255]], [[9, 9], [9, 9]], [[9, 9], [9, 9]])


class Film(gymnasium.Env[NDArray[Any], Any]):
    """Shows the pictures one after the other, and ends before the last; no step may follow then."""

    def __init__(self, ends_after: int, dtype: type = np.uint8) -> None:
        self.observation_space = spaces.Box(0, 255 if dtype is np.uint8 else 1, (1, 2, 2), dtype)
        self.action_space, self.ends_after, self.at, self.dtype = spaces.Discrete(2), ends_after, 0, dtype

    def _picture(self) -> NDArray[Any]:
        return np.array([FILM[self.at]], np.uint8).astype(self.dtype)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[NDArray[Any], dict[str, Any]]:
        self.at = 0
        return self._picture(), {}

    def step(self, action: Any) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        assert self.at < self.ends_after
        self.at += 1
        return self._picture(), 0.0, self.at == self.ends_after, False, {}


def measured(ends_after: int, dtype: type = np.uint8) -> int:
    env = SyncVectorEnv([lambda: Film(ends_after, dtype)], autoreset_mode=AutoresetMode.DISABLED)
    return background_of(env, EnvConfig(), "film", observation_spec(env.single_observation_space))


def test_pixels_are_counted_until_the_episode_ends() -> None:
    """With one step 7 is there four times, and 9 twice. With two steps 9 is there six times."""
    assert measured(1) == 7
    assert measured(2) == 9


def test_of_black_and_white_pictures() -> None:
    assert measured(1, np.bool_) == 1  # seven of eight are not 0


@pytest.mark.parametrize(("game", "grey"), [("pong", 87), ("breakout", 0), ("atari:ms_pacman", 32)])
def test_of_games_in_a_process_of_their_own(game: str, grey: int) -> None:
    """83 % of Pong's pixels are 87, 64 % of Breakout's are 0, and 37 % of Ms. Pac-Man's are 32."""
    registry = get_registry()
    entry, agent = registry.env(game), registry.agent("a3c")
    for keys, background in ((["network.center=null"], grey), (["network.center=5"], 0)):
        config = resolve_config(registry, entry, agent, overrides=keys)
        assert config.network is not None
        found = read_spaces(entry, registry.network(config.network.name), config, agent.spaces, serial=False)
        assert found.observations.background == background


def test_the_network_subtracts_it() -> None:
    """(200 − 87) · 0.02 = 2.26; every other pixel is the background, and 0."""
    spec = ObservationSpec("image", (1, 2, 2), np.dtype(np.uint8), background=87)
    network = ConvActorCritic(
        spec, 2, ImageConfig(center=None, scale=0.02), Architecture((Conv(1, 1, 1),), hidden=1), "plain"
    )
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.fill_(1.0 if "weight" in name else 0.0)
    assert network.value(torch.tensor([[[[87, 200], [87, 87]]]], dtype=torch.uint8)).item() == pytest.approx(2.26)


def test_a_spec_with_a_background_is_written_and_read() -> None:
    plain = ObservationSpec("image", (4, 84, 84), np.dtype(np.uint8))
    for background in (0, 87):
        spec = ObservationSpec("image", (4, 84, 84), np.dtype(np.uint8), background=background)
        assert ObservationSpec.from_state_dict(spec.state_dict()).background == background
        assert spec == plain  # the environment's spaces tell none
    assert plain.state_dict() == ["image", [4, 84, 84], "|u1", 0]  # as in checkpoints from before


def test_a_run_goes_on_with_the_background_that_its_parameters_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def background(run: Path) -> int:
        policy = a3c_zoo.load_agent(run).policy
        assert isinstance(policy, model.ModelPolicy)
        return policy.spaces.observations.background

    keys = ["network.center=null", *SMALL]
    run = a3c_zoo.train("pong", serial=True, overrides=keys, steps=80, seed=1, runs_dir=tmp_path).run
    assert background(run) == 87
    monkeypatch.setattr(model, "background_of", lambda *_: 99)
    a3c_zoo.train(resume=run, steps=160)
    assert background(run) == 87
    other = a3c_zoo.train("pong", serial=True, overrides=keys, steps=80, seed=2, runs_dir=tmp_path, name="other").run
    assert background(other) == 99


def test_another_center_is_refused_with_a_cure_that_works(tmp_path: Path) -> None:
    keys = SMALL
    first = a3c_zoo.train(
        "pong", serial=True, overrides=[*keys, "network.center=null"], steps=80, name="first", runs_dir=tmp_path
    )
    begin = partial(a3c_zoo.train, "pong", serial=True, steps=80, init_from=first.run, runs_dir=tmp_path)
    with pytest.raises(ConfigError, match=r"null there, 5\.0 here.* -o network\.center=null$"):
        begin(overrides=[*keys, "network.center=5"])
    assert begin(overrides=[*keys, "network.center=null"]).steps == 80
