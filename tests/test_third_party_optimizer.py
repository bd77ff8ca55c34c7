"""An optimizer from an installed plugin: listed, trained with, resumed, and recorded."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import chdir
from pathlib import Path

import pytest

from a3c_zoo.errors import UnknownNameError
from a3c_zoo.plugins.builtins import zoo_optimizers
from a3c_zoo.plugins.registry import load_registry
from a3c_zoo.testing import plugin_distribution
from tests.toys_runs import checkpoint, command_line, installed_here

PLUGIN = """
from a3c_zoo import OptimizerEntry, hookimpl

@hookimpl
def zoo_optimizers():
    config = "heavy_ball_config:HeavyBallConfig"
    return [OptimizerEntry("heavy-ball", "heavy_ball:HeavyBall", config, description="SGD with momentum", revision=1)]
"""
CONFIG = """
from a3c_zoo.config import OptimizerConfig
from pydantic import Field

class HeavyBallConfig(OptimizerConfig):
    momentum: float = Field(0.5, ge=0, lt=1, description="decay of the velocity")
"""
OPTIMIZER = """
import torch

class HeavyBall:
    def __init__(self, parameters, moments, config):
        self.parameters, self.velocity, self.count = parameters, moments["velocity"], moments["count"]
        self.momentum = config.momentum

    @staticmethod
    def moments(parameters, config):
        return {"velocity": torch.zeros_like(parameters), "count": torch.zeros((), dtype=torch.int64)}

    def apply(self, gradient, learning_rate):
        self.count += 1
        self.velocity.mul_(self.momentum).add_(gradient)
        self.parameters.add_(self.velocity, alpha=-learning_rate)
"""
CHOICE = ("-o", "optimizer.name=heavy-ball", "-o", "momentum=0.8", "-o", "learning_rate=0.1")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = plugin_distribution(tmp_path_factory.mktemp("plugin"), "heavy-ball-plugin", PLUGIN)
    (folder / "heavy_ball_config.py").write_text(CONFIG)
    (folder / "heavy_ball.py").write_text(OPTIMIZER)
    return folder


@pytest.fixture
def zoo(installed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., str]]:
    """Runs a command with the plugin in a folder of its own; returns what it printed."""

    def run(*words: str) -> str:
        assert command_line(*words) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    with chdir(tmp_path), installed_here(installed):
        yield run


def test_it_is_listed(zoo: Callable[..., str]) -> None:
    rows = {row["name"]: row for row in json.loads(zoo("list", "optimizers", "--json"))}
    assert list(rows) == [*(entry.name for entry in zoo_optimizers()), "heavy-ball"]
    assert rows["heavy-ball"] == {
        "name": "heavy-ball",
        "plugin": "heavy-ball-plugin",
        "description": "SGD with momentum",
    }
    assert "decay of the velocity" in zoo("show", "hyperparams", "cartpole", *CHOICE)


def test_workers_share_its_moments_and_a_resume_goes_on_with_them(zoo: Callable[..., str], tmp_path: Path) -> None:
    options = ("--name", "ball", "--workers", "2", "--steps", "3000", "-o", "num_envs=4", *CHOICE)
    zoo("train", "cartpole", *options)
    run = tmp_path / "runs/ball"
    for steps in (3000, 6000):
        if steps > 3000:
            zoo("train", "--resume", "ball", "--steps", str(steps))
        agent = checkpoint(run)["agent"]
        assert agent["optimizer"].keys() == {"velocity", "count"}
        updates = agent["counters"][:, 1]
        assert bool((updates > 0).all())  # of both workers
        # The count is one tensor that both add to without a lock: hardly any addition is lost.
        assert 0.98 * int(updates.sum()) <= int(agent["optimizer"]["count"]) <= int(updates.sum())
        assert bool(agent["optimizer"]["velocity"].any())
    assert "name: heavy-ball" in (run / "config.yml").read_text()
    plugins = json.loads((run / "meta.json").read_text())["plugins"]
    assert plugins["optimizer"].startswith("plugin 'heavy-ball-plugin'")


def test_private_moments_are_in_each_workers_state(zoo: Callable[..., str], tmp_path: Path) -> None:
    options = ("--name", "own", "--steps", "1000", "-o", "shared_statistics=false", "-o", "num_envs=4", *CHOICE)
    zoo("train", "cartpole", "--serial", *options)
    agent = checkpoint(tmp_path / "runs/own")["agent"]
    counts = [int(worker["optimizer"]["count"]) for worker in agent["workers"]]
    assert counts == agent["counters"][:, 1].tolist()
    assert agent["optimizer"] == {}


def test_without_the_plugin_its_name_is_unknown(installed: Path) -> None:
    with installed_here(installed):
        assert load_registry().optimizer("heavy-ball").name == "heavy-ball"
    with pytest.raises(UnknownNameError, match=r"unknown optimizer 'heavy-ball'.*list optimizers"):
        load_registry().optimizer("heavy-ball")
    with pytest.raises(UnknownNameError, match=r"optimizer 'adm'\. .*'adam'\?.*list optimizers"):
        load_registry().optimizer("adm")
