"""Atari games in a mode or a difficulty of their own, which ale-py's native vector environment cannot set.

The emulators are stepped from Python, one after the other, with the same preprocessing: rewards, ends and lives are
equal, and no pixel differs by more than one grey level.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from ale_py import Action, ALEInterface, roms
from numpy.typing import NDArray

from a3c_zoo.errors import ConfigError

Frames = NDArray[np.uint8]


class GamesInPython:
    """Has the methods of ale_py's `ALEVectorInterface` that `AtariVectorEnv` calls, with its mode NEXT_STEP.

    Args:
        rom: name of the ROM. num_envs: N.
        options: those of `AtariVectorEnv`. mode, difficulty: of the game; None for its first.

    Raises:
        ConfigError: the game has no such mode or difficulty.
    """

    def __init__(
        self, rom: str, num_envs: int, options: dict[str, Any], mode: int | None, difficulty: int | None
    ) -> None:
        self._games = [_Game(rom, options, mode, difficulty) for _ in range(num_envs)]
        self._actions: NDArray[np.int64] = np.zeros(num_envs, np.int64)

    def get_action_set(self) -> list[Action]:
        return self._games[0].actions

    def reset(self, indices: NDArray[np.int64], seeds: NDArray[np.int64]) -> tuple[Frames, dict[str, Any]]:
        for index, seed in zip(indices.tolist(), seeds.tolist(), strict=True):
            self._games[index].seed(seed)
            self._games[index].reset()
        return self._observations(), self._info()

    def send(self, actions: NDArray[np.int64], strengths: NDArray[np.float32]) -> None:
        self._actions = actions

    def recv(
        self,
    ) -> tuple[Frames, NDArray[np.int32], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Takes a step in every game. One that has ended begins anew instead."""
        for game, action in zip(self._games, self._actions.tolist(), strict=True):
            if game.terminated or game.truncated:
                game.reset()
            else:
                game.step(action)
        rewards = np.array([game.reward for game in self._games], np.int32)
        terminated = np.array([game.terminated for game in self._games])
        truncated = np.array([game.truncated for game in self._games])
        return self._observations(), rewards, terminated, truncated, self._info()

    def _observations(self) -> Frames:
        return np.stack([game.stack for game in self._games])

    def _info(self) -> dict[str, Any]:
        emulators = [game.emulator for game in self._games]
        return {
            "env_id": np.arange(len(emulators), dtype=np.int32),
            "lives": np.array([each.lives() for each in emulators], np.int32),
            "frame_number": np.array([each.getFrameNumber() for each in emulators], np.int32),
            "episode_frame_number": np.array([each.getEpisodeFrameNumber() for each in emulators], np.int32),
        }


class _Game:
    """One game with its preprocessing.

    Attributes:
        actions: those of the emulator, by their number. stack: the newest frames, `[S, H, W]` or `[S, H, W, 3]`.
        reward, terminated, truncated: of the newest step.
    """

    def __init__(self, rom: str, options: dict[str, Any], mode: int | None, difficulty: int | None) -> None:
        self.emulator = ALEInterface()
        self.emulator.setFloat("repeat_action_probability", options["repeat_action_probability"])
        self._rom = rom
        self._mode = mode
        self._difficulty = difficulty
        self._options = options
        self._generator = np.random.default_rng()
        self._load()
        if options["full_action_space"]:
            self.actions = list(self.emulator.getLegalActionSet())
        else:
            self.actions = list(self.emulator.getMinimalActionSet())
        height, width = self.emulator.getScreenDims()
        size = (options["img_height"], options["img_width"])
        self._areas = None
        if size != (height, width):
            self._areas = areas(height, size[0]), areas(width, size[1])
        self._is_gray = options.get("grayscale", True)
        channels = () if self._is_gray else (3,)
        self._raw: Frames = np.zeros((2, height, width, *channels), np.uint8)
        self.stack: Frames = np.zeros((options["stack_num"], *size, *channels), np.uint8)
        self.reward = 0
        self.terminated = self.truncated = False

    def seed(self, seed: int) -> None:
        """Seeds emulator and idle frames; -1 leaves them."""
        if seed >= 0:
            self._generator = np.random.default_rng(seed)
            self.emulator.setInt("random_seed", seed)
            self._load()

    def reset(self) -> None:
        emulator = self.emulator
        options = self._options
        emulator.reset_game()
        fires = options["use_fire_reset"] and Action.FIRE in self.actions
        if fires:
            emulator.act(Action.FIRE)
        most_idle = options["noop_max"]
        idle = int(self._generator.integers(most_idle)) if most_idle else 0
        for _ in range(idle - fires):
            emulator.act(Action.NOOP)
            if emulator.game_over():
                emulator.reset_game()
        self.stack[:] = 0
        self._raw[0] = self._screen()
        self._raw[1] = 0
        self._add_frame()
        self._frames = 0
        self.reward = 0
        self.terminated = self.truncated = False

    def step(self, action: int) -> None:
        options = self._options
        reward = 0
        for left in range(options["frameskip"], 0, -1):
            reward += self.emulator.act(self.actions[action])
            self._frames += 1
            self.terminated = self.emulator.game_over()
            is_last = self._frames >= options["max_num_frames_per_episode"]
            if self.terminated or is_last:
                break
            if left <= 2:
                self._raw[left - 1] = self._screen()
        self.truncated = self._frames >= options["max_num_frames_per_episode"] and not self.terminated
        self.reward = reward
        self._add_frame()

    def _load(self) -> None:
        """Loads the game, and sets its mode and difficulty, which count from the next reset on."""
        path = roms.get_rom_path(self._rom)
        assert path is not None  # the entry exists already
        self.emulator.loadROM(path)
        if self._mode is not None:
            _check("mode", self._mode, self._rom, self.emulator.getAvailableModes())
            self.emulator.setMode(self._mode)
        if self._difficulty is not None:
            _check("difficulty", self._difficulty, self._rom, self.emulator.getAvailableDifficulties())
            self.emulator.setDifficulty(self._difficulty)

    def _screen(self) -> Frames:
        if self._is_gray:
            return self.emulator.getScreenGrayscale()
        return self.emulator.getScreenRGB()

    def _add_frame(self) -> None:
        if self._options["maxpool"]:
            np.maximum(self._raw[0], self._raw[1], out=self._raw[0])
        frame = self._raw[0]
        if self._areas is not None:
            rows, columns = self._areas
            frame = np.rint(shrunk(shrunk(frame, *rows).T, *columns).T).astype(np.uint8)
        self.stack[:-1] = self.stack[1:]
        self.stack[-1] = frame


def _check(key: str, value: int, rom: str, available: list[int]) -> None:
    if value not in available:
        raise ConfigError(f"env.{key}: {value} — the game {rom} has: {', '.join(map(str, available))}")


def areas(size: int, target: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Of which pixels each of `target` larger ones is the mean.

    Returns:
        Their numbers and their weights, both `[P, target]`; the weights of a larger pixel add up to 1.
    """
    scale = size / target
    first = np.arange(target) * scale
    numbers = np.floor(first).astype(np.int64) + np.arange(math.ceil(scale) + 1)[:, None]
    overlap = np.minimum(first + scale, numbers + 1) - np.maximum(first, numbers)
    weights = (np.clip(overlap, 0, None) / scale).astype(np.float32)
    return np.minimum(numbers, size - 1), weights


def shrunk(frame: NDArray[Any], numbers: NDArray[np.int64], weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """The means of rows `[target, W]` of a frame `[size, W]`. A product of matrices would start threads for it."""
    means: NDArray[np.float32] = sum(frame[row] * weight[:, None] for row, weight in zip(numbers, weights, strict=True))
    return means
