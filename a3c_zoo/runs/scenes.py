"""Episodes to watch: an evaluation of one environment, with a picture of every step."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from a3c_zoo.config import EnvConfig
from a3c_zoo.errors import ZooError
from a3c_zoo.hardware import has_display
from a3c_zoo.learning.environments import make_vector_env
from a3c_zoo.learning.model import one_torch_thread
from a3c_zoo.plugins.entries import EnvEntry
from a3c_zoo.records import Policy
from a3c_zoo.runs.evaluation import PlayedEpisode, play_episodes
from a3c_zoo.seeds import SEED_EVALUATION, seed_for

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv
    from numpy.typing import NDArray

DEFAULT_FPS = 30.0


@dataclass(frozen=True, slots=True)
class Scene:
    """One step of play.

    Attributes:
        picture: `[height, width, 3]`, uint8, red, green and blue. fps: pictures a second at the game's own speed.
        episodes: those that ended with this step: none, or one.
    """

    picture: NDArray[np.uint8]
    fps: float
    episodes: list[PlayedEpisode]


def play_scenes(
    policy: Policy,
    entry: EnvEntry,
    config: EnvConfig,
    *,
    episodes: int,
    seed: int,
    number: int,
    deterministic: bool,
) -> Generator[Scene]:
    """Plays `episodes` episodes, one scene after each step. See `evaluate_policy` for `seed` and `number`.

    Raises:
        ZooError: the environment cannot be drawn.
    """
    env_seed = seed_for(seed, SEED_EVALUATION, number)
    with _silent_sdl(), one_torch_thread():
        env = make_vector_env(entry, config, 1, env_seed, render_mode="rgb_array")
        try:
            for ended in play_episodes(policy, env, np.array([episodes]), env_seed, deterministic):
                fps = float(env.metadata.get("render_fps") or DEFAULT_FPS)
                yield Scene(_picture(env, entry.name), fps, ended)
        finally:
            env.close()


@contextmanager
def _silent_sdl() -> Iterator[None]:
    """Keeps SDL, with which many environments draw, from looking for devices and complaining that there are none."""
    dummies = {"SDL_AUDIODRIVER": "dummy"} | ({} if has_display() else {"SDL_VIDEODRIVER": "dummy"})
    added = {name: value for name, value in dummies.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def _picture(env: VectorEnv[Any, Any, Any], name: str) -> NDArray[np.uint8]:
    from gymnasium.error import DependencyNotInstalled

    try:
        pictures = env.render()
    except DependencyNotInstalled as error:
        raise ZooError(f"environment '{name}' cannot be drawn: {error}. Or: pip install 'a3c-zoo[play]'") from error
    picture: Any = pictures[0] if pictures is not None and len(pictures) else None
    if not isinstance(picture, np.ndarray) or picture.dtype != np.uint8 or picture.shape[2:] != (3,):
        raise ZooError(f"environment '{name}' cannot be drawn: its render() returns no pictures (rgb_array)")
    return picture
