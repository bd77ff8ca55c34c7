"""An environment that changes the current folder, as some do to find their files: its run keeps its place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import a3c_zoo
from a3c_zoo.runs.videos import VideoFile
from tests.toys_runs import episodes


class Moving(gymnasium.Env[Any, Any]):
    """Episodes of one step with reward 1. It changes the folder when it is made, and with each step."""

    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:
        os.chdir("/usr")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        os.chdir("/usr/lib")
        return np.zeros(1, np.float32), 1.0, True, False, {}


OVERRIDES = {"run.stop_return": 0.5, "run.evaluation_every_steps": 50, "run.evaluator_episodes": 1}


@pytest.mark.parametrize(("agent", "serial"), [("a3c", False), ("a3c", True), ("random", True), ("sb3-a2c", True)])
def test_a_run_keeps_its_place(agent: str, serial: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options: dict[str, Any] = {"agent": agent, "serial": serial, "seed": 1, "overrides": OVERRIDES}
    outcome = a3c_zoo.train(Moving, steps=2000, name="one", **options)
    run = tmp_path / "runs/one"
    assert outcome.reason == "stop-return"
    assert outcome.evaluator_fault is None
    assert (run / "outcome.json").exists()
    assert len(episodes(run)) == outcome.episodes
    monkeypatch.chdir(tmp_path)
    more = a3c_zoo.train(Moving, resume="one", steps=outcome.steps + 100)
    assert len(episodes(run)) == more.episodes >= outcome.episodes
    monkeypatch.chdir(tmp_path)
    assert a3c_zoo.load_agent("one", env=Moving).predict([0.0])[0] in (0, 1)


def test_a_video_keeps_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    video = VideoFile(Path("a.gif"))
    monkeypatch.chdir("/usr")
    video.show(np.zeros((16, 16, 3), np.uint8), 10.0)
    video.close()
    assert (tmp_path / "a.gif").read_bytes().startswith(b"GIF8")
