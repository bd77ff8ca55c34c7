"""Atari with stable-baselines3's own wrappers around the game of a NoFrameskip id, as its users train on it."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import VecEnv, VecFrameStack, VecTransposeImage

from a3c_zoo.errors import ConfigError, ZooError

if TYPE_CHECKING:
    from a3c_zoo.config import EnvConfig
    from a3c_zoo.plugins.entries import EnvEntry

#: The zoo's key → AtariWrapper's.
WRAPPER_KEYS = {
    "frame_size": "screen_size",
    "frame_skip": "frame_skip",
    "noop_max": "noop_max",
    "life_loss": "terminal_on_life_loss",
    "sticky_actions": "action_repeat_probability",
}


def is_atari(entry: EnvEntry) -> bool:
    """Returns whether `AtariWrapper` around its Gymnasium id makes the same environment as the zoo's.

    False for `gym:PongNoFrameskip-v4`, which is the game without a wrapper.
    """
    return "NoFrameskip-v" in (entry.gym_id or "")


def make_atari_stack(entry: EnvEntry, config: EnvConfig, num_envs: int, seed: int, clip_rewards: bool) -> VecEnv:
    """Makes `make_atari_env`, `VecFrameStack` and `VecTransposeImage`, combined as in RL Zoo.

    The monitors are below the wrappers that end episodes at lost lives and clip rewards. So the monitors' episodes are
    whole games with raw scores.

    Raises:
        ZooError: OpenCV is missing.
        ConfigError: a key that SB3's wrappers do not have is not at its default.
    """
    _require_opencv()
    assert entry.own_id is not None
    given = config.factory_kwargs()
    given.pop("fire_after_life_loss", None)  # SB3's wrapper always fires; the key is for evaluations on the zoo's games
    refuse_changed(entry, config, given.keys() - WRAPPER_KEYS.keys() - {"frame_stack"})
    wrapper = {theirs: given[ours] for ours, theirs in WRAPPER_KEYS.items() if ours in given}
    env = make_atari_env(entry.own_id, num_envs, seed, wrapper_kwargs={**wrapper, "clip_reward": clip_rewards})
    return VecTransposeImage(VecFrameStack(env, given.get("frame_stack", 4)))


def refuse_changed(entry: EnvEntry, config: EnvConfig, keys: Collection[str]) -> None:
    """Raises ConfigError if one of these keys, which SB3's environments do not have, is not at its default."""
    for name in sorted(keys):
        if getattr(config, name) != type(config).model_fields[name].get_default(call_default_factory=True):
            raise ConfigError(f"env.{name}: {entry.own_id} doesn't know this key of '{entry.name}'; set env.stack=zoo")


def _require_opencv() -> None:
    try:
        import cv2  # noqa: F401
    except ImportError as error:
        raise ZooError(
            f"stable-baselines3's Atari wrappers need OpenCV ({error}): pip install 'a3c-zoo[sb3-atari]'. "
            f"Without it: env.stack=zoo"
        ) from error
