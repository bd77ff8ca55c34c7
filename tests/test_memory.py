"""Memory is asked for before anything is made that takes it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium import spaces

import a3c_zoo
from a3c_zoo import hardware
from a3c_zoo.agents.learner import make_ring
from a3c_zoo.agents.with_workers import _copies_for_an_update
from a3c_zoo.config.sets import resolve_config
from a3c_zoo.errors import ConfigError
from a3c_zoo.learning.actions import Categorical
from a3c_zoo.learning.memory_check import check_memory
from a3c_zoo.learning.model import Spaces
from a3c_zoo.learning.spaces import observation_spec
from a3c_zoo.plugins.entries import load_object
from a3c_zoo.plugins.registry import get_registry
from tests.toys_runs import command_line

EMULATOR = 1_000_000
FRAMES = observation_spec(spaces.Box(0, 255, (4, 84, 84), np.uint8))  # 28,224 bytes
POLE = observation_spec(spaces.Box(-1, 1, (4,), np.float32))  # 16 bytes


def free(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr(hardware, "available_memory", lambda: number)


def test_as_much_as_on_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    # For each of 2 workers and 8 environments: 21 observations in a rollout and one of the environment's own; and for
    # each worker, 40 observations in bfloat16.
    needed = 2 * (8 * (22 * 28_224 + EMULATOR) + 40 * 28_224 * 2)
    free(monkeypatch, needed)
    fitting = {"workers": 2, "num_envs": 8, "stored_steps": 20, "update_samples": 40, "number_bytes": 2}
    fitting["environment_bytes"] = EMULATOR
    check_memory(FRAMES, **fitting)
    more = {"num_envs": 9, "stored_steps": 21, "workers": 3, "update_samples": 41, "number_bytes": 4}
    for name, number in (more | {"environment_bytes": EMULATOR + 1}).items():
        with pytest.raises(ConfigError):
            check_memory(FRAMES, **fitting | {name: number})


def test_only_games_have_an_emulator() -> None:
    registry = get_registry()
    assert load_object(registry.env("pong").config).environment_bytes == 1_400_000
    assert load_object(registry.env("cartpole").config).environment_bytes == 0


def test_without_an_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, 2 * 8 * 7 * 16)
    check_memory(POLE, workers=2, num_envs=8, stored_steps=5)
    free(monkeypatch, 2 * 8 * 7 * 16 - 1)
    with pytest.raises(ConfigError):
        check_memory(POLE, workers=2, num_envs=8, stored_steps=5)


@pytest.mark.parametrize(
    ("overrides", "copies"),
    [([], False), (["network.normalize_observations=true"], True), (["agent.clip_ratio=0.2"], True)],
)
def test_vectors_in_float32_are_not_copied(overrides: list[str], copies: bool) -> None:
    registry = get_registry()
    config = resolve_config(registry, registry.env("cartpole"), registry.agent("a3c"), overrides=overrides)
    assert _copies_for_an_update(config, Spaces(POLE, Categorical(2))) is copies
    assert _copies_for_an_update(config, Spaces(FRAMES, Categorical(2)))


def test_what_is_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    # 3 workers with 4 slots of 100 bytes each, and 2 slots' worth that the learner gathers.
    free(monkeypatch, 3 * 4 * 100 + 2 * 100)
    make_ring(3, 4, {"samples": ((25,), torch.float32)}, 2, False)
    free(monkeypatch, 3 * 4 * 100 + 2 * 100 - 1)
    with pytest.raises(ConfigError, match="hand over to the learner needs"):
        make_ring(3, 4, {"samples": ((25,), torch.float32)}, 2, False)


def test_a_ring_larger_than_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """2 × 1024 slots of 1,000 steps in 8 environments, 28 kB or 7 kB each: 116 GB at least. Some machines have them."""
    free(monkeypatch, 10**11)
    options = ["agent.n_steps=1000", "agent.batch_size=8000", "env.num_envs=8", "agent.slots=1024"]
    arguments = [word for option in options for word in ("-o", option)]
    assert command_line("train", "pong", "--agent", "a3c-data", "--quiet", "--runs-dir", tmp_path, *arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "what workers hand over to the learner needs" in line
    assert line.endswith("Lower agent.slots, agent.n_steps, agent.batch_size or env.num_envs")


@pytest.mark.filterwarnings("ignore:You have specified a mini-batch size")  # that is what is tested
def test_ppo_takes_no_more_samples_than_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """8 × 16 samples of a rollout, however large a batch may be; 9 rows of them, and an environment's own."""
    rollout, update, own = 9 * 16 * 16, 8 * 16 * 4 * 4, 16 * 16
    options = ["n_steps=8", "batch_size=1000000", "env.num_envs=16"]
    free(monkeypatch, rollout + update + own - 1)
    with pytest.raises(ConfigError, match=r"Lower env\.num_envs or agent\.n_steps"):
        a3c_zoo.train("cartpole", agent="sb3-ppo", steps=128, runs_dir=tmp_path, overrides=options)
    free(monkeypatch, rollout + update + own)
    assert a3c_zoo.train("cartpole", agent="sb3-ppo", steps=128, runs_dir=tmp_path, overrides=options).steps == 128


def test_this_machine_has_some() -> None:
    assert 10**7 < hardware.available_memory() < 10**14


@pytest.mark.parametrize("agent", ["a3c", "random", "sb3-a2c", "sb3-ppo"])
def test_more_environments_than_memory_allows(agent: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """100,000 rows × 4,096 environments × 28,224 bytes are 11.6 TB for each worker: nobody has so much."""
    arguments = ["-o", "n_steps=100000", "-o", "num_envs=4096", "-o", "frame_size=84"]
    if agent == "a3c":
        arguments += ["-o", "update_samples=null"]
    if agent == "sb3-ppo":
        arguments += ["-o", "batch_size=256"]
    assert command_line("train", "pong", "--agent", agent, "--quiet", "--runs-dir", tmp_path, *arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert "4096 environments need at least " in line
    assert "11,560.7 GB for the observations of a rollout" in line
    assert line.endswith(
        "Lower env.num_envs, agent.n_steps or run.workers" if agent == "a3c" else "Lower env.num_envs or agent.n_steps"
    )
