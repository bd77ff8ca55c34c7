"""Environments with habits: the old API of Gym, rewards that are none, settings of torch and NumPy that they change."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.envs.classic_control import CartPoleEnv

import a3c_zoo
from a3c_zoo import EnvEntry
from a3c_zoo.cli.common import playing_sign
from a3c_zoo.config import EnvConfig
from a3c_zoo.errors import EnvironmentContractError
from a3c_zoo.learning.contract import misfit
from a3c_zoo.learning.environments import make_vector_env
from a3c_zoo.library_settings import LibrarySettings, kept_settings
from a3c_zoo.plugins.module_files import MODULE_FILES
from a3c_zoo.runs import episodes
from a3c_zoo.runs.episodes import EpisodesToPlay
from a3c_zoo.runs.evaluation import evaluate_policy
from tests.test_rollout import collector
from tests.toys import TinyNetwork, ToyVectorEnv
from tests.toys_runs import command_line, environ, in_turn
from tests.waits import LIMIT_S

Captured = pytest.CaptureFixture[str]

#: Environments by name; those of `Bare` without Gymnasium's wrappers and checker around them.
ROOMS = """
import gymnasium as gym, numpy as np
from gymnasium.envs.registration import register

class Room(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(2, np.float32), {}
    def step(self, action):
        self.t += 1
        return np.zeros(2, np.float32), self.reward(), self.t == 5, False, {}
    def reward(self):
        return 1.0

class Four(Room):
    def step(self, action):
        observation, reward, terminated, _, info = super().step(action)
        return observation, reward, terminated, info

class NoOptions(Room):
    def reset(self, seed=None):
        return super().reset(seed=seed)

class NoSeed(Room):
    def reset(self):
        return super().reset()

class Alone(Room):
    def reset(self, *, seed=None, options=None):
        return super().reset()[0]

class NoInfo(Room):
    def step(self, action):
        return *super().step(action)[:4], None

class NoReward(Room):
    def reward(self):
        return None

class Three(Room):
    observation_space = gym.spaces.Box(-1, 1, (3,), np.float32)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(3, np.float32)

class Several(Room):
    def reward(self):
        return np.ones(2)

class Starts(Room):
    observation_space = gym.spaces.Discrete(3, start=1)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 1, {}
    def step(self, action):
        return 1, *super().step(action)[1:]

class Nested(Room):
    observation_space = gym.spaces.Dict({"a": gym.spaces.Dict({"b": gym.spaces.Box(-1, 1, (2,), np.float32)})})
    def reset(self, *, seed=None, options=None):
        return {"a": {"b": super().reset(seed=seed)[0]}}, {}
    def step(self, action):
        observation, *rest = super().step(action)
        return {"a": {"b": observation}}, *rest

class Huge(Room):
    def reward(self):
        return np.float64(1e39)

class Beyond(Room):
    def reward(self):
        return 10**400

class Broken(Room):
    def step(self, action):
        first, second, third = 1, 2

class Wrapped(gym.Wrapper):
    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated, truncated, info

for each in (Four, NoOptions, NoSeed, Alone, Three, NoInfo, NoReward, Several, Starts, Nested, Huge, Beyond, Broken):
    register(f"{each.__name__}-v0", entry_point=each, max_episode_steps=100)
    register(f"{each.__name__}Bare-v0", entry_point=each, order_enforce=False, disable_env_checker=True)
"""
OLD = "this is the API of Gym before 0.26. It must"
STEP = (
    "which must be (observation, reward, terminated, truncated, info), reward a number, flags bools, info a dictionary"
)
MESSAGES = {
    "Four": f"returned four values of step(): {OLD} return (observation, reward, terminated, truncated, info)",
    "NoOptions": f"has a reset() that does not take 'options': {OLD} be reset(*, seed=None, options=None)",
    "NoSeed": f"has a reset() that does not take 'seed': {OLD} be reset(*, seed=None, options=None)",
    "Alone": "returned a wrong result of reset(), which must be (observation, info): ",
    "NoInfo": f"returned a wrong result of step(), {STEP}: ",
    "Three": "returned a wrong result of reset(), which must be (observation, info): ",
    "Several": f"returned a wrong result of step(), {STEP}: ",
    "NoReward": "returned the reward None: does its step() forget to return a number?",
    "Beyond": f"returned a wrong result of step(), {STEP}: ",
    "Huge": "returned a reward that is not finite in float32 (1e+39; environment ",
}


@pytest.fixture
def rooms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "rooms.py").write_text(ROOMS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(MODULE_FILES, "paths", {})  # commands of this process find `rooms` in this folder
    yield tmp_path
    sys.modules.pop("rooms", None)  # the next import registers them again
    for name in [
        name for name, spec in gymnasium.registry.items() if str(spec.entry_point).startswith("<class 'rooms")
    ]:
        del gymnasium.registry[name]


def one_line(rooms: Path, *arguments: str) -> str:
    """What a command says in a process of its own: its only line that is no warning of Gymnasium."""
    command = [sys.executable, "-W", "error::RuntimeWarning", "-m", "a3c_zoo", *arguments]
    done = subprocess.run(command, cwd=rooms, env=environ(), capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1]


def line_here(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command says, as `one_line`, in this process, which has imported torch already."""
    capfd.readouterr()
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert command_line(*arguments) == 2
    told = capfd.readouterr().err
    assert "Traceback" not in told
    return told.splitlines()[-1]


@pytest.mark.parametrize("name", MESSAGES)
@pytest.mark.parametrize("bare", ["", "Bare"])
def test_a_broken_promise_is_one_line(name: str, bare: str, rooms: Path, capfd: pytest.CaptureFixture[str]) -> None:
    line = line_here(capfd, "train", f"gym:rooms:{name}{bare}-v0", "--serial", "--steps", "200", "--quiet")
    assert line.startswith(f"Error: environment 'gym:rooms:{name}{bare}-v0' {MESSAGES[name]}")


@pytest.mark.parametrize(
    "options", [("--agent", "a3c"), ("--agent", "sb3-a2c"), ("-o", "env.wrappers=[rooms:Wrapped]")]
)
def test_it_is_one_line_wherever_wrappers_stand(
    options: tuple[str, ...], rooms: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The first command has a process of its own, as users have it."""
    first = one_line(rooms, "train", "gym:rooms:Four-v0", "--steps", "200", *options)
    second = line_here(capfd, "train", "gym:rooms:FourBare-v0", "--steps", "200", *options)
    for name, line in (("Four", first), ("FourBare", second)):
        assert line.startswith(f"Error: environment 'gym:rooms:{name}-v0' {MESSAGES['Four']}")


@pytest.mark.parametrize("name", ["NoInfoBare", "NoInfo", "NoReward", "NoSeed", "Several", "Three", "Alone"])
def test_it_is_one_line_with_stable_baselines3(name: str, rooms: Path, capfd: pytest.CaptureFixture[str]) -> None:
    line = line_here(capfd, "train", f"gym:rooms:{name}-v0", "--steps", "200", "--agent", "sb3-a2c")
    assert line.startswith(f"Error: environment 'gym:rooms:{name}-v0' {MESSAGES[name.removesuffix('Bare')]}")


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("Starts", "Discrete, which begins with 1 and not with 0"),
        ("Nested", "Dict within its Dict, at 'a'"),
    ],
)
def test_observations_that_stable_baselines3_does_not_take(
    name: str, what: str, rooms: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    train = ("train", f"gym:rooms:{name}-v0", "--steps", "50", "--agent", "sb3-a2c", "-o", "agent.vec_env=dummy")
    line = line_here(capfd, *train)
    told = f"has observations that stable-baselines3 does not take: {what}. To make one array of them: "
    assert line.startswith(f"Error: environment 'gym:rooms:{name}-v0' {told}")
    cure = shlex.split(line.partition(told)[2])[:2]
    assert command_line(*train, *cure, "-o", "agent.torch_threads=1") == 0


@pytest.mark.usefixtures("checked_here")
def test_check_tells_the_version_of_the_api(rooms: Path, capsys: Captured) -> None:
    for name in ("Four", "NoOptions", "NoReward"):
        assert command_line("check", f"gym:rooms:{name}-v0") == 1
        assert MESSAGES[name].partition(". ")[0] in " ".join(capsys.readouterr().out.split())


def test_an_error_of_the_environment_itself_is_no_broken_promise(rooms: Path) -> None:
    sys.path.insert(0, str(rooms))
    try:
        env = make_vector_env(EnvEntry("room", env_id="rooms:Broken-v0"), EnvConfig(), 1, 0)
        env.reset()
        with pytest.raises(ValueError, match=r"expected 3, got 2") as caught:
            env.step(np.zeros(1, np.int64))
        assert misfit(caught.value) is None
    finally:
        sys.path.remove(str(rooms))


def test_a_vector_environment_of_four_values() -> None:
    class Four(ToyVectorEnv):
        def step(self, actions: Any) -> Any:
            return super().step(actions)[:4]

    with pytest.raises(EnvironmentContractError, match=re.escape("'toy' returned four values of step()")):
        collector(Four(1), 2).collect(TinyNetwork())


HABITS = """
import gymnasium as gym, numpy as np, torch
from rooms import Room
from gymnasium.envs.registration import register

def change():
    torch.set_grad_enabled(False)
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    np.seterr(all="raise")

change()

class Quiet(Room):
    def __init__(self):
        change()
    def reset(self, **arguments):
        change()
        return super().reset(**arguments)
    def step(self, action):
        change()
        return super().step(action)

register("Quiet-v0", entry_point=Quiet)
"""


@pytest.mark.parametrize("options", [(), ("--serial",), ("--agent", "sb3-a2c")])
def test_settings_that_an_environment_changes(options: tuple[str, ...], rooms: Path) -> None:
    """Each of them alone ended training in a traceback of torch, or made it slow."""
    (rooms / "habits.py").write_text(ROOMS.partition("class Four")[0] + HABITS.replace("from rooms import Room", ""))
    command = [sys.executable, "-m", "a3c_zoo", "train", "gym:habits:Quiet-v0", "--steps", "400", *options]
    done = subprocess.run(command, cwd=rooms, env=environ(), capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    if options == ("--serial",):
        return  # it is evaluated as one with workers is
    run = next((rooms / "runs").iterdir())
    command = [sys.executable, "-m", "a3c_zoo", "evaluate", str(run), "--episodes", "3"]
    done = subprocess.run(command, cwd=rooms, env=environ(rooms), capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr


TURNS_ON = """
import gymnasium, torch
from gymnasium.envs.classic_control import CartPoleEnv, PendulumEnv

class Pole(CartPoleEnv):
    def step(self, action):
        torch.set_grad_enabled(True)
        return super().step(action)

class Swing(PendulumEnv):
    def step(self, action):
        torch.set_grad_enabled(True)
        return super().step(action)

gymnasium.register("Pole-v0", entry_point=Pole, max_episode_steps=50)
gymnasium.register("Swing-v0", entry_point=Swing, max_episode_steps=50)
"""


def test_an_environment_that_turns_gradients_on(rooms: Path) -> None:
    """A rollout is collected without them, also after the first step."""
    (rooms / "grads.py").write_text(TURNS_ON)
    names = ("gym:grads:Pole-v0", "gym:grads:Swing-v0")
    command = [sys.executable, *in_turn(*(["train", name, "--serial", "--steps", "3000"] for name in names))]
    done = subprocess.run(command, cwd=rooms, env=environ(), capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr


def test_each_setting_is_set_back() -> None:
    before = LibrarySettings.now()
    with kept_settings():
        torch.set_num_threads(before.threads + 1 if before.threads else 2)
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float64)
        torch.set_default_device("meta")
        np.seterr(all="raise")
        assert LibrarySettings.now() != before
    assert LibrarySettings.now() == before
    assert torch.zeros(1).device.type == "cpu"


def without_gradients() -> None:
    torch.set_grad_enabled(False)


def in_double_precision() -> None:
    torch.set_default_dtype(torch.float64)


def with_numpy_s_errors() -> None:
    np.seterr(all="raise")


class Changes(CartPoleEnv):
    """Changes all settings in each step."""

    def step(self, action: Any) -> Any:
        for change in (without_gradients, in_double_precision, with_numpy_s_errors):
            change()
        return super().step(action)


@pytest.mark.parametrize("change", [without_gradients, in_double_precision, with_numpy_s_errors])
def test_a_program_with_settings_of_its_own(change: Callable[[], None], tmp_path: Path) -> None:
    with kept_settings():
        change()
        before = LibrarySettings.now()
        limits = {"run.stop_when_solved": False, "run.evaluation_episodes": 1}
        run = a3c_zoo.train(Changes, serial=True, steps=100, runs_dir=tmp_path, overrides=limits).run
        assert a3c_zoo.load_agent(run, runs_dir=tmp_path).predict(np.zeros(4, np.float32)) is not None
        assert a3c_zoo.evaluate(run, episodes=1, runs_dir=tmp_path).episodes == 1
        assert LibrarySettings.now() == before


def test_training_in_inference_mode(tmp_path: Path) -> None:
    with torch.inference_mode():  # noqa: TID251 (as a program does that only acts)
        assert a3c_zoo.train("cartpole", serial=True, steps=100, runs_dir=tmp_path).steps >= 100
        assert torch.is_inference_mode_enabled()


def test_settings_import_neither_library() -> None:
    program = """
        import sys
        from a3c_zoo.library_settings import LibrarySettings, kept_settings
        with kept_settings():
            pass
        assert not {"torch", "numpy"} & sys.modules.keys()
        with kept_settings():
            import torch
            torch.set_default_dtype(torch.float64)
            torch.set_grad_enabled(False)
        assert torch.is_grad_enabled() and torch.get_default_dtype() == torch.float32
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)


class Endless(gymnasium.Env[Any, Any]):
    """No episode ends."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(2, np.float32), 1.0, False, False, {}


class FirstAction:
    """Always acts alike."""

    def predict(self, observation: Any, state: Any = None, starts: Any = None, deterministic: bool = False) -> Any:
        return np.zeros(len(observation), np.int64), state


def endless(num_envs: int, seed: int, max_episode_steps: int | None = None) -> Any:
    def single() -> Any:
        return Endless() if max_episode_steps is None else gymnasium.wrappers.TimeLimit(Endless(), max_episode_steps)

    return gymnasium.vector.SyncVectorEnv([single] * num_envs)


def test_an_evaluation_without_an_end_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(episodes, "check_policy", lambda *args: None)
    seconds = iter(range(1000))
    monkeypatch.setattr("time.monotonic", lambda: float(next(seconds)))
    entry = EnvEntry("hall", factory=f"{__name__}:endless")
    with pytest.raises(EnvironmentContractError, match=r"'hall': no episode .* 20 s; .* 21 steps.* a time limit"):
        evaluate_policy(FirstAction(), EpisodesToPlay(entry, EnvConfig(), 2, 0, 0, patience_s=20))
    limited = replace(entry, kwargs={"max_episode_steps": 100})
    played = evaluate_policy(FirstAction(), EpisodesToPlay(limited, EnvConfig(), 2, 0, 0, patience_s=20))
    assert played.evaluation().mean_length == 100  # a limit is known: it is only slow


class EndsAfterFive(Endless):
    """An episode has five steps."""

    def reset(self, **kwargs: Any) -> Any:
        self.left = 5
        return super().reset(**kwargs)

    def step(self, action: Any) -> Any:
        self.left -= 1
        return np.zeros(2, np.float32), 1.0, self.left == 0, False, {}


def one_is_endless(num_envs: int, seed: int) -> Any:
    return gymnasium.vector.SyncVectorEnv([EndsAfterFive, Endless])


def test_episodes_beyond_the_quota_do_not_hide_an_endless_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of two games plays one episode. The first one goes on behind it, and ends every five steps."""
    monkeypatch.setattr(episodes, "check_policy", lambda *args: None)
    seconds = iter(range(1000))
    monkeypatch.setattr("time.monotonic", lambda: float(next(seconds)))
    entry = EnvEntry("hall", factory=f"{__name__}:one_is_endless")
    to_play = EpisodesToPlay(entry, EnvConfig(), 2, 0, 0, num_envs=2, patience_s=20)
    with pytest.raises(EnvironmentContractError, match=r"'hall': no episode .* 20 s; the longest has 2\d steps"):
        evaluate_policy(FirstAction(), to_play)


def test_an_evaluation_is_as_patient_as_before_when_it_was_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(episodes, "check_policy", lambda *args: None)
    seconds = iter([*range(5), *range(1000, 2000)])
    monkeypatch.setattr("time.monotonic", lambda: float(next(seconds)))
    entry = EnvEntry("hall", factory=f"{__name__}:endless")
    with pytest.raises(EnvironmentContractError, match=r"'hall': no episode .* 20 s; .* 21 steps"):
        evaluate_policy(FirstAction(), EpisodesToPlay(entry, EnvConfig(), 2, 0, 0, patience_s=20))


def test_lines_tell_that_episodes_are_played(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    seconds = iter([0.0, 1.9, 2.1, 3.0, 4.1, 4.3, 8.7])
    monkeypatch.setattr("a3c_zoo.runs.playing_view.time", SimpleNamespace(monotonic=lambda: next(seconds)))
    with playing_sign(1000) as on_step:
        for played in range(6):
            on_step(played)
    assert capsys.readouterr().err.splitlines() == [
        "1 of 1,000 episodes after 2 s", "4 of 1,000 episodes after 4 s", "5 of 1,000 episodes after 9 s"
    ]  # fmt: skip
