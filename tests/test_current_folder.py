"""An environment that changes the current folder, as some do to find their files: what is written keeps its place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec

import a3c_zoo
from a3c_zoo.files import same_folder
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.plugins.run_hooks import RunHooks
from a3c_zoo.records import Outcome, RunInfo
from a3c_zoo.runs.videos import VideoFile
from tests.hub_server import Repository, running_hub
from tests.toys_env import Moving
from tests.toys_runs import command_line, episodes

OVERRIDES = {"run.stop_return": 0.5, "run.evaluation_every_steps": 50, "run.evaluator_episodes": 1}


@pytest.mark.parametrize(("agent", "serial"), [("a3c", False), ("a3c", True), ("random", True), ("sb3-a2c", True)])
def test_a_run_keeps_its_place(agent: str, serial: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ended: list[bool] = []

    def run_end(hooks: RunHooks, run: RunInfo, outcome: Outcome) -> None:
        ended.append((run.path / "outcome.json").exists() and run.path == outcome.run)

    monkeypatch.setattr(RunHooks, "run_end", run_end)
    options: dict[str, Any] = {"agent": agent, "serial": serial, "seed": 1, "film_every": 1, "overrides": OVERRIDES}
    outcome = a3c_zoo.train(Moving, steps=2000, name="one", **options)
    run = tmp_path / "runs/one"
    assert outcome.reason == "stop-return"
    assert outcome.evaluator_fault is None
    assert (run / "outcome.json").exists()
    assert len(episodes(run)) == outcome.episodes
    assert ended == [True]
    assert Path.cwd() == tmp_path
    more = a3c_zoo.train(Moving, resume="one", steps=outcome.steps + 100)
    assert len(episodes(run)) == more.episodes >= outcome.episodes
    assert a3c_zoo.load_agent("one", env=Moving).predict([0.0])[0] in (0, 1)
    assert Path.cwd() == tmp_path


@pytest.fixture
def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the run `one`."""
    monkeypatch.chdir(tmp_path)
    a3c_zoo.train(Moving, serial=True, workers=1, steps=50, name="one")
    return tmp_path


def test_a_run_that_begins_with_another_keeps_its_place(trained: Path) -> None:
    a3c_zoo.train(Moving, serial=True, workers=1, steps=50, name="two", init_from="one")
    assert (trained / "runs/two/outcome.json").exists()


def test_an_exported_agent_keeps_its_place(trained: Path) -> None:
    pytest.importorskip("onnxscript")
    assert command_line("export", "one", "--out", "one.onnx") == 0
    assert (trained / "one.onnx").stat().st_size > 0


def test_a_sent_agent_and_a_fetched_one_keep_their_places(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("huggingface_hub")
    from tests.test_hub import files_of, use

    assert command_line("push", "one", "alice/moving", "--dry-run", "look") == 0
    assert {"outcome.json", "replay.mp4"} <= files_of(trained / "look").keys()
    with running_hub() as server:
        server.repositories = {"alice/moving": Repository()}
        server.repositories["alice/moving"].commit(files_of(trained / "look"))
        use(server.address, monkeypatch)
        assert command_line("pull", "alice/moving", "--trust") == 0
    assert sorted(os.listdir(trained / "runs")) == ["moving", "one"]
    assert a3c_zoo.evaluate("moving", episodes=1, trust=True).mean_return == 1.0
    assert Path.cwd() == trained


def test_looking_up_an_environment_keeps_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(gymnasium.registry, "Moving-v0", EnvSpec("Moving-v0", "tests.toys_env:Moving"))
    assert get_registry().env("gym:Moving-v0").env_id == "Moving-v0"
    assert Path.cwd() == tmp_path


def test_a_folder_that_is_deleted_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    with same_folder():
        os.chdir(tmp_path)
        os.rmdir("gone")
    assert Path.cwd() == tmp_path


def test_a_video_keeps_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    video = VideoFile(Path("a.gif"))
    monkeypatch.chdir("/usr")
    video.show(np.zeros((16, 16, 3), np.uint8), 10.0)
    video.close()
    assert (tmp_path / "a.gif").read_bytes().startswith(b"GIF8")
