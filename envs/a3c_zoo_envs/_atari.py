"""Atari 2600 games on ale-py's native vector environment: frames are preprocessed in C++, many games at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from ale_py import Action, ALEInterface, LoggerMode, roms
from ale_py.vector_env import AtariVectorEnv
from numpy.typing import NDArray

from a3c_zoo_envs._atari_modes import GamesInPython
from a3c_zoo_envs.env_configs import AtariConfig

#: Emulator frames in a second of play.
FRAMES_PER_S = 60


class AtariGames(AtariVectorEnv):
    """AtariVectorEnv that can report lost lives as terminations, and can be drawn.

    With `life_loss`, a lost life is a termination while the game goes on: nothing is bootstrapped across it, but the
    next action is real, and the episode ends only with the game. `info["game_over"]` tells which of the two it was; it
    comes from the emulator. The number of lives does not tell: Adventure ends with one left, and Q*bert goes on with
    none, since its bonus lives are not counted. (AtariVectorEnv's `life_loss_info` has one flag for both.)

    Where a limit ends a game, AtariVectorEnv (ale-py 0.12.1) returns an observation whose newest frame was never on the
    screen. The observation before it takes its place as the final one: a value of a step earlier is bootstrapped.

    The picture that is drawn is the screen in colour. It comes from a twin, a second instance with the same games,
    seeds and actions that keeps colours and size. So the agent gets exactly the frames that it was trained on.

    Args:
        rom: name of the ROM. config: preprocessing, and what ends an episode.
        render_mode: "rgb_array", or None for no twin.
        shown: options of AtariVectorEnv that differ from the configuration.
    """

    def __init__(
        self, rom: str, num_envs: int, config: AtariConfig, render_mode: str | None = None, **shown: Any
    ) -> None:
        # A dictionary of its own: AtariVectorEnv writes into `metadata`, which is that of every VectorEnv.
        frame_rate = FRAMES_PER_S / config.frame_skip
        self.metadata = {**self.metadata, "render_modes": ["rgb_array"], "render_fps": frame_rate}
        options = _options(config) | shown
        super().__init__(rom, num_envs, **options)
        if config.mode is not None or config.difficulty is not None:
            games: Any = GamesInPython(rom, num_envs, options, config.mode, config.difficulty)
            self.ale = games  # has the methods that AtariVectorEnv calls
        self._life_loss, self.render_mode = config.life_loss, render_mode
        self._lives: NDArray[np.int32] = np.zeros(num_envs, np.int32)
        self._lost, self._over = np.zeros((2, num_envs), np.bool_)  # at the last step
        fires = config.life_loss and config.fire_after_life_loss
        actions = self.ale.get_action_set() if fires else []
        self._fire = actions.index(Action.FIRE) if Action.FIRE in actions else None
        self._twin: AtariGames | None = None
        if render_mode is not None:
            height, width = _load(rom).getScreenDims()
            as_shown = {"grayscale": False, "stack_num": 1, "img_height": height, "img_width": width}
            without_lives = config.model_copy(update={"life_loss": False})
            self._twin = AtariGames(rom, num_envs, without_lives, **as_shown)
        self._pictures: NDArray[np.uint8] | None = None

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts every game anew. What is drawn begins with the same seed."""
        if self._twin is not None:
            if seed is None and self._pictures is None:  # each of the two would draw one of its own
                seed = int(np.random.default_rng().integers(2**31))
            self._pictures = self._twin.reset(seed=seed, options=options)[0]
        observation, info = super().reset(seed=seed, options=options)
        self._lives = info["lives"]
        self._lost[:], self._over[:] = False, False
        self._newest = observation
        return observation, info

    def step(self, actions: NDArray[np.int64]) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """With `life_loss` a lost life ends an episode, and `info["game_over"]` says which ends are those of games."""
        if self._fire is not None:
            actions = np.where(self._lost, self._fire, actions)
        if self._twin is not None:
            self._pictures = self._twin.step(actions)[0]
        observation, reward, game_over, truncated, info = super().step(actions)
        if truncated.any():
            observation[truncated] = self._newest[truncated]
        self._newest = observation
        if not self._life_loss:
            return observation, reward, game_over, truncated, info
        # A new game may have fewer lives than the last one. Its first step only resets.
        self._lost = (info["lives"] < self._lives) & ~game_over & ~self._over
        self._lives, self._over = info["lives"], game_over | truncated
        info["game_over"] = game_over
        return observation, reward, game_over | self._lost, truncated, info

    def render(self) -> tuple[NDArray[np.uint8], ...]:
        """The screen of every game, `[height, width, 3]` of red, green and blue."""
        assert self._pictures is not None
        return tuple(self._pictures[:, -1])

    def episode_over(
        self, terminated: NDArray[np.bool_], truncated: NDArray[np.bool_], info: dict[str, Any]
    ) -> NDArray[np.bool_]:
        """Which games have ended, `[N]`, bool."""
        over: NDArray[np.bool_] = info["game_over"] if self._life_loss else terminated
        return over | truncated

    def close_extras(self, **kwargs: Any) -> None:
        super().close_extras(**kwargs)
        if self._twin is not None:
            self._twin.close()


def _options(config: AtariConfig) -> dict[str, Any]:
    """AtariVectorEnv's options. One thread: a worker's process steps the games of that worker alone."""
    return {
        "num_threads": 1,
        "max_num_frames_per_episode": config.max_episode_steps * config.frame_skip,
        "repeat_action_probability": config.sticky_actions,
        "img_height": config.frame_size,
        "img_width": config.frame_size,
        "stack_num": config.frame_stack,
        "frameskip": config.frame_skip,
        "maxpool": config.max_pool,
        "noop_max": config.noop_max,
        "full_action_space": config.full_action_space,
        "use_fire_reset": config.fire_on_reset,
        "episodic_life": False,
        "reward_clipping": False,
    }


def _load(rom: str) -> ALEInterface:
    """The emulator with a game. Its screen is 210 × 160 pixels, or 250 × 160 for European consoles."""
    ale, path = ALEInterface(), roms.get_rom_path(rom)
    assert path is not None  # the games exist already
    ale.loadROM(path)
    return ale


def make(num_envs: int, seed: int, *, rom: str, render_mode: str | None = None, **keys: Any) -> AtariGames:
    """Environment factory; `keys` are those of `AtariConfig`. Rewards are raw: the loss clips them."""
    if unknown := sorted(keys.keys() - AtariConfig.model_fields.keys()):
        raise TypeError(f"make() got an unexpected keyword argument '{unknown[0]}'")
    ALEInterface.setLoggerMode(LoggerMode.Error)  # otherwise every worker prints a greeting
    return AtariGames(rom, num_envs, AtariConfig(**keys), render_mode)
