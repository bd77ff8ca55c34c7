"""Environments are probed in a child: what a constructor does to its process does not reach the parent."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
from gymnasium import spaces

from a3c_zoo.agents.configs import A3CConfig
from a3c_zoo.config import OptimizerConfig
from a3c_zoo.errors import ConfigError, PluginError, ZooError
from a3c_zoo.learning.model import probe_spaces
from a3c_zoo.plugins.entries import EnvEntry
from a3c_zoo.plugins.variants import variant_of
from a3c_zoo.processes.probe import probe_in_child
from tests.toys import TINY, ToyVectorEnv, toy_config
from tests.toys_runs import Running, environ
from tests.waits import LIMIT_S, wait_until


def entry(factory: Callable[..., object]) -> EnvEntry:
    return EnvEntry("probed", factory=f"{__name__}:{factory.__name__}")


def make_exit(num_envs: int, seed: int) -> None:
    os._exit(0)


def make_kill(num_envs: int, seed: int) -> None:
    os.kill(os.getpid(), 9)


def make_hang(num_envs: int, seed: int) -> None:
    time.sleep(600)


def make_raise(num_envs: int, seed: int) -> None:
    raise ConfigError("the level is unknown")


def make_break(num_envs: int, seed: int) -> None:
    raise RuntimeError("it broke")


class Clinging(ToyVectorEnv):
    """Breaks when it is closed."""

    def close(self, **options: object) -> None:
        raise RuntimeError("it cannot be closed")


def make_clinging(num_envs: int, seed: int) -> ToyVectorEnv:
    return Clinging(num_envs)


def make_threads(num_envs: int, seed: int) -> ToyVectorEnv:
    threading.Thread(target=time.sleep, args=(600,)).start()
    return ToyVectorEnv(num_envs)


def make_parts(num_envs: int, seed: int) -> ToyVectorEnv:
    """Observations of several parts, and actions with numbers of NumPy and infinite bounds."""
    env = ToyVectorEnv(num_envs)
    env.single_observation_space = spaces.Dict(
        {
            "a": spaces.Box(-np.inf, np.inf, (2, 3)),
            "b": spaces.Tuple([spaces.Discrete(np.int64(3), start=np.int64(-1))]),
        }
    )
    env.single_action_space = spaces.Box(np.array([-np.inf, 0.1]), np.array([1e30, np.inf]), dtype=np.float64)
    return env


def probed(factory: Callable[..., object], limit_s: float = 60.0) -> object:
    config = toy_config(A3CConfig(), OptimizerConfig())
    config = replace(config, run=config.run.model_copy(update={"worker_timeout_s": limit_s}))
    return probe_in_child(entry(factory), TINY, config, ("Discrete", "Box"))


def test_it_finds_what_a_probe_in_this_process_finds() -> None:
    config = toy_config(A3CConfig(), OptimizerConfig())
    assert probed(make_parts) == probe_spaces(entry(make_parts), TINY, config, ("Box",))


@pytest.mark.parametrize("limit_s", [1e7, 1e300])
def test_a_limit_that_means_never(limit_s: float) -> None:
    assert probed(make_discrete, limit_s) == probed(make_discrete)


def test_an_environment_that_fails_to_close_has_spaces() -> None:
    """Training tolerates it, so the probe must not end a run before it begins."""
    assert probed(make_clinging) == probed(make_discrete)


def test_its_threads_do_not_keep_anything_alive() -> None:
    before = threading.active_count()
    start_s = time.monotonic()
    probed(make_threads)
    assert time.monotonic() - start_s < LIMIT_S
    assert threading.active_count() == before
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize(
    ("factory", "kind", "line"),
    [
        (make_exit, PluginError, "environment 'probed' cannot be made: its process ended by itself with exit status 0"),
        (
            make_kill,
            PluginError,
            "environment 'probed' cannot be made: its process was ended by signal SIGKILL",
        ),
        (make_raise, ConfigError, "the level is unknown"),
        (
            make_break,
            PluginError,
            "environment 'probed' cannot be made: RuntimeError: it broke (in test_probe.py",
        ),
    ],
)
def test_a_fault_is_told_in_this_process(factory: Callable[..., object], kind: type[ZooError], line: str) -> None:
    with pytest.raises(kind) as caught:
        probed(factory)
    assert type(caught.value) is kind
    assert str(caught.value).startswith(line)
    if factory in (make_raise, make_break):
        assert "Traceback" in str(caught.value.__cause__)
    if factory is make_raise:
        assert caught.value.__notes__ == ["(raised while environment 'probed' was made)"]


def test_a_constructor_that_hangs_is_ended() -> None:
    start_s = time.monotonic()
    with pytest.raises(PluginError) as caught:
        probed(make_hang, 1.0)
    assert str(caught.value) == (
        "environment 'probed' was not made and closed within 1 s: does it hang? (limit: run.worker_timeout_s)"
    )
    assert time.monotonic() - start_s < LIMIT_S


class OwnBox(spaces.Box):
    pass


class OwnDiscrete(spaces.Discrete):
    pass


def make_own(num_envs: int, seed: int) -> ToyVectorEnv:
    env = ToyVectorEnv(num_envs)
    env.single_action_space = OwnDiscrete(2)
    return env


def test_a_subclass_of_a_space_is_that_space() -> None:
    config = toy_config(A3CConfig(), OptimizerConfig())
    found = probe_spaces(entry(make_own), TINY, config, ("Discrete", "Box"))
    assert found == probe_spaces(entry(make_discrete), TINY, config, ("Discrete", "Box"))
    assert variant_of(spaces.Discrete(2), OwnBox(-1, 1, (2,))) == "continuous"
    assert variant_of(OwnBox(-1, 1, (2,)), OwnDiscrete(2)) == ""


def test_numbers_in_a_grid_are_no_image() -> None:
    grid = spaces.MultiDiscrete(np.full((7, 7, 3), 11), dtype=np.uint8)
    assert variant_of(grid, spaces.Discrete(2)) == ""


def make_discrete(num_envs: int, seed: int) -> ToyVectorEnv:
    return ToyVectorEnv(num_envs)


def test_actions_that_the_agent_does_not_support() -> None:
    config = toy_config(A3CConfig(), OptimizerConfig())
    with pytest.raises(ConfigError, match=r"^agent 'a3c' acts in Discrete .*'probed' has Box"):
        probe_in_child(entry(make_parts), TINY, config, ("Discrete",))


# As users meet it


def test_a_registered_environment_that_ends_its_process(tmp_path: Path) -> None:
    source = (
        "import os, threading, time, gymnasium\n"
        "from gymnasium.envs.classic_control.cartpole import CartPoleEnv\n"
        "class Ending(CartPoleEnv):\n    def __init__(self, **options):\n        os._exit(0)\n"
        "gymnasium.register('Ending-v0', Ending)\n"
    )
    (tmp_path / "own_envs.py").write_text(source)
    command = [sys.executable, "-m", "a3c_zoo", "train", "gym:own_envs:Ending-v0", "--steps", "100"]
    done = subprocess.run(command, cwd=tmp_path, env=environ(tmp_path), capture_output=True, text=True, timeout=LIMIT_S)
    line = "environment 'gym:own_envs:Ending-v0' cannot be made: its process ended by itself with exit status 0"
    assert (done.returncode, done.stderr) == (2, f"Error: {line}\n")


@pytest.mark.parametrize("last", ["time.sleep(600)", "os._exit(0)", "super().__init__()"])
def test_what_a_registered_environment_starts_ends_with_its_child(last: str, tmp_path: Path) -> None:
    source = (
        "import os, subprocess, time, gymnasium\nfrom gymnasium.envs.classic_control.pendulum import PendulumEnv\n"
        "from a3c_zoo import first_look\nfrom a3c_zoo_envs import gym_family\n"
        "first_look.LIMIT_S = first_look.PATIENCE_S = 1\n"
        "class Simulated(PendulumEnv):\n    def __init__(self):\n"
        "        program = subprocess.Popen(['sleep', '600'])\n"
        f"        print(program.pid, flush=True)\n        {last}\n"
        "gymnasium.register('Simulated-v0', Simulated)\ngym_family.resolve('Simulated-v0')\n"
    )
    with Running(folder=tmp_path, program=("-c", source)) as running:
        assert running.exit_status() == 0, running.stderr
        program = int(running.stdout)

        def has_ended() -> bool:
            with suppress(psutil.NoSuchProcess):
                return bool(psutil.Process(program).status() == psutil.STATUS_ZOMBIE)
            return True

        wait_until(has_ended)


def test_the_variant_of_a_registered_environment_is_read_in_a_child(tmp_path: Path) -> None:
    source = (
        "import threading, time\nimport gymnasium\nfrom gymnasium.envs.classic_control.pendulum import PendulumEnv\n"
        "from a3c_zoo_envs.gym_family import resolve\n"
        "class Threads(PendulumEnv):\n    def __init__(self, **options):\n        super().__init__(**options)\n"
        "        threading.Thread(target=time.sleep, args=(600,)).start()\n"
        "gymnasium.register('Threads-v0', Threads)\n"
        "print(resolve('Threads-v0').variant, threading.active_count())\n"
        "import torch\nprint(resolve('Pendulum-v1').variant, resolve('Acrobot-v1').variant)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", source], env=environ(tmp_path), capture_output=True, text=True, timeout=LIMIT_S
    )
    assert (done.returncode, done.stdout.split()) == (0, ["continuous", "1", "continuous"]), done.stderr


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells the threads of the system")
def test_the_variant_of_a_module_that_starts_hidden_threads_is_read_in_this_process(tmp_path: Path) -> None:
    """A child has no such thread, and its environment would wait for ever, as MiniWorld does for its drawing."""
    source = (
        "import _thread, gymnasium\nfrom gymnasium.envs.classic_control.pendulum import PendulumEnv\n"
        "asked, answered = _thread.allocate_lock(), _thread.allocate_lock()\nasked.acquire(), answered.acquire()\n"
        "def serve():\n    asked.acquire()\n    answered.release()\n_thread.start_new_thread(serve, ())\n"
        "class Drawn(PendulumEnv):\n    def __init__(self, **options):\n        super().__init__(**options)\n"
        "        asked.release()\n        answered.acquire()\n"
        "gymnasium.register('Drawn-v0', Drawn)\n"
    )
    (tmp_path / "drawing.py").write_text(source)
    program = (
        "import gymnasium, threading\nfrom a3c_zoo_envs import gym_family\ngym_family.LIMIT_S = 5\n"
        "print(gym_family.resolve('drawing:Drawn-v0').variant, threading.active_count())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environ(tmp_path),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert (done.returncode, done.stdout.split()) == (0, ["continuous", "1"]), done.stderr
