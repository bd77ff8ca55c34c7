"""Pictures of an environment, and episodes to watch: an evaluation of one environment, with a picture of every step."""

from __future__ import annotations

import math
import os
from collections.abc import Generator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from a3c_zoo.config import EnvConfig
from a3c_zoo.cures import install_extra
from a3c_zoo.errors import PluginError, ZooError, one_line
from a3c_zoo.files import same_folder
from a3c_zoo.hardware import has_display
from a3c_zoo.learning.environments import closed, make_vector_env
from a3c_zoo.learning.model import one_torch_thread
from a3c_zoo.learning.mujoco import drawing_variables
from a3c_zoo.learning.undrawn import cannot_draw
from a3c_zoo.plugins.entries import EnvEntry
from a3c_zoo.processes.start import environment
from a3c_zoo.records import Policy
from a3c_zoo.runs.episodes import EpisodesToPlay, PlayedEpisode, play_episodes

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

#: Pictures a second where the environment names no speed.
DEFAULT_FPS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Scene:
    """One step of play.

    Attributes:
        picture: `[height, width, 3]`, uint8, red, green and blue. fps: pictures a second at the game's own speed.
        episodes: those that ended with this step: none, or one. episode_return: that of the episode so far.
    """

    picture: NDArray[np.uint8]
    fps: float
    episodes: list[PlayedEpisode]
    episode_return: float


def play_scenes(policy: Policy, to_play: EpisodesToPlay, deterministic: bool) -> Generator[Scene]:
    """Plays episodes in one environment, one scene after each step.

    Raises:
        ZooError: the environment cannot be drawn.
    """
    with (
        without_devices(),
        one_torch_thread(),
        closed(replace(to_play, num_envs=1).make_env("rgb_array")) as env,
    ):
        to_play = replace(to_play, patience_s=math.inf)  # somebody watches
        for episodes, _, returns in play_episodes(policy, env, to_play, deterministic):
            yield Scene(picture_of(env, to_play.entry.name), fps_of(env), episodes, float(returns[0]))


def draw_once(entry: EnvEntry, config: EnvConfig) -> None:
    """Raises ZooError if an environment cannot be made, begun, drawn or closed."""
    try:
        with (
            same_folder(),
            without_devices(),
            closed(make_vector_env(entry, config, 1, 0, "rgb_array")) as env,
        ):
            env.reset(seed=0)
            picture_of(env, entry.name)
    except ZooError:
        raise
    except (Exception, SystemExit) as error:
        raise PluginError(f"environment '{entry.name}' cannot be drawn: {one_line(error)}") from error


def fps_of(env: VectorEnv[Any, Any, Any]) -> float:
    """Pictures a second as the environment says; it may say anything."""
    with suppress(KeyError, TypeError, ValueError, OverflowError):
        if 0 < (fps := float(env.metadata["render_fps"])) < np.inf:
            return fps
    return DEFAULT_FPS


def without_devices() -> AbstractContextManager[None]:
    """Keeps SDL and MuJoCo, with which many environments draw, from looking for devices that are not there."""
    variables = {"SDL_AUDIODRIVER": "dummy"} | drawing_variables()
    if not has_display():
        variables["SDL_VIDEODRIVER"] = "dummy"
    return environment({name: value for name, value in variables.items() if name not in os.environ})


def picture_of(env: VectorEnv[Any, Any, Any], name: str) -> NDArray[np.uint8]:
    """What the first environment looks like. Of several ones no other is drawn, if that is possible."""
    from gymnasium.error import DependencyNotInstalled
    from gymnasium.vector import SyncVectorEnv

    try:
        pictures: Any = [env.envs[0].render()] if isinstance(env, SyncVectorEnv) else env.render()
        picture: Any = (
            pictures[0] if pictures is not None and len(pictures) and np.size(pictures[0]) else None
        )
    except DependencyNotInstalled as error:
        raise ZooError(
            f"environment '{name}' cannot be drawn: {error}. Or: {install_extra('play')}"
        ) from error
    except NotImplementedError as error:  # of Gymnasium's own render()
        raise ZooError(f"environment '{name}' cannot be drawn: it has no render()") from error
    except Exception as error:
        if undrawn := cannot_draw(name, error):
            raise undrawn from error
        raise PluginError(f"environment '{name}' cannot be drawn: {one_line(error)}") from error
    if not isinstance(picture, np.ndarray) or picture.dtype != np.uint8 or picture.shape[2:] != (3,):
        raise ZooError(f"environment '{name}' cannot be drawn: its render() returns no pictures (rgb_array)")
    return picture
