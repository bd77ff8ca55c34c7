"""Atari 2600 games on ale-py's native vector environment: frames are preprocessed in C++, many games at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from ale_py import Action, ALEInterface, LoggerMode, roms
from ale_py.vector_env import AtariVectorEnv

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Emulator frames in a second of play.
FRAMES_PER_S = 60


class AtariGames(AtariVectorEnv):
    """AtariVectorEnv whose terminations may be lost lives, and which can be drawn.

    With `life_loss`, a lost life is reported as a termination while the game goes on: nothing is bootstrapped across
    it, but the next action is real, and the episode ends only with the game. `info["game_over"]` tells the two apart:
    it is the emulator's own word. The number of lives wouldn't do: Adventure ends with one left, and Q*bert's bonus
    lives aren't counted, so that it goes on with none. (AtariVectorEnv's `life_loss_info` has one flag for both.)

    What is drawn is the screen in colour, which the agent doesn't see. It comes from a twin with the same games, seeds
    and actions that keeps colours and size. So the agent is shown exactly the frames that it was trained on.

    Args:
        rom: name of the ROM. life_loss: report lost lives. fire_after_life_loss: the action after one that was reported
            is FIRE, in games that have it. render_mode: "rgb_array", or None for no twin.
        options: AtariVectorEnv's own.
    """

    def __init__(
        self,
        rom: str,
        num_envs: int,
        *,
        life_loss: bool = False,
        fire_after_life_loss: bool = False,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        # Its own dictionary: AtariVectorEnv writes into `metadata`, which is that of every VectorEnv.
        frame_rate = FRAMES_PER_S / options["frameskip"]
        self.metadata = {**self.metadata, "render_modes": ["rgb_array"], "render_fps": frame_rate}
        super().__init__(rom, num_envs, **options)
        self._life_loss, self.render_mode = life_loss, render_mode
        self._lives: NDArray[np.int32] = np.zeros(num_envs, np.int32)
        self._lost, self._over = np.zeros((2, num_envs), np.bool_)  # at the last step
        self._fire = _fire(rom) if life_loss and fire_after_life_loss else None
        self._twin: AtariGames | None = None
        if render_mode is not None:
            height, width = _load(rom).getScreenDims()
            as_shown = {"grayscale": False, "stack_num": 1, "img_height": height, "img_width": width}
            self._twin = AtariGames(rom, num_envs, **{**options, **as_shown})
        self._pictures: NDArray[np.uint8] | None = None

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts new games."""
        if self._twin is not None:
            if seed is None and self._pictures is None:  # each would draw one of its own
                seed = int(np.random.default_rng().integers(2**31))
            self._pictures = self._twin.reset(seed=seed, options=options)[0]
        observation, info = super().reset(seed=seed, options=options)
        self._lives = info["lives"]
        self._lost[:], self._over[:] = False, False
        return observation, info

    def step(self, actions: NDArray[np.int64]) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Plays one step in every game."""
        if self._fire is not None:
            actions = np.where(self._lost, self._fire, actions)
        if self._twin is not None:
            self._pictures = self._twin.step(actions)[0]
        observation, reward, game_over, truncated, info = super().step(actions)
        if not self._life_loss:
            return observation, reward, game_over, truncated, info
        # A new game may have fewer lives than the last one had, and its first step only resets.
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
        """Closes the twin too."""
        super().close_extras(**kwargs)
        if self._twin is not None:
            self._twin.close()


def _load(rom: str) -> ALEInterface:
    """A game to be asked what it is like: its screen is 210 × 160, or 250 × 160 on European consoles."""
    ale, path = ALEInterface(), roms.get_rom_path(rom)
    assert path is not None  # the games are made already
    ale.loadROM(path)
    return ale


def _fire(rom: str) -> int | None:
    """The number of the action FIRE; None in games without it."""
    actions = _load(rom).getMinimalActionSet()
    return actions.index(Action.FIRE) if Action.FIRE in actions else None


def make(
    num_envs: int,
    seed: int,
    *,
    rom: str,
    frame_size: int,
    frame_stack: int,
    frame_skip: int,
    max_pool: bool,
    sticky_actions: float,
    noop_max: int,
    fire_on_reset: bool,
    life_loss: bool,
    fire_after_life_loss: bool,
    max_episode_steps: int,
    render_mode: str | None = None,
) -> AtariGames:
    """Environment factory; see `atari_config.AtariConfig` for the keys. Raw rewards: they are clipped in the loss.

    One thread: the games of a worker are stepped in that worker's process alone.
    """
    ALEInterface.setLoggerMode(LoggerMode.Error)  # else every worker greets
    return AtariGames(
        rom,
        num_envs,
        life_loss=life_loss,
        fire_after_life_loss=fire_after_life_loss,
        render_mode=render_mode,
        num_threads=1,
        max_num_frames_per_episode=max_episode_steps * frame_skip,
        repeat_action_probability=sticky_actions,
        img_height=frame_size,
        img_width=frame_size,
        stack_num=frame_stack,
        frameskip=frame_skip,
        maxpool=max_pool,
        noop_max=noop_max,
        use_fire_reset=fire_on_reset,
        episodic_life=False,
        reward_clipping=False,
    )
