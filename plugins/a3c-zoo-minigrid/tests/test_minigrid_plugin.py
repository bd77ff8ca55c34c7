"""What the distribution offers to a3c-zoo, and that it learns."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from dataclasses import replace
from importlib import import_module, resources
from pathlib import Path
from typing import Any

import a3c_zoo
import a3c_zoo.records
import gymnasium
import pytest
from a3c_zoo.errors import UnknownNameError

from a3c_zoo_minigrid.family import resolve, versions
from a3c_zoo_minigrid.plugin import zoo_envs, zoo_hyperparams


def test_the_entry_point_names_the_plugin() -> None:
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    points = project["entry-points"]["a3c_zoo"]
    assert [import_module(module).zoo_envs() for module in points.values()] == [zoo_envs()]


def test_the_sets_are_in_the_package() -> None:
    (entry,) = zoo_hyperparams()
    folder = resources.files(entry.package) / "minigrid"
    names = [file.name for file in folder.iterdir() if file.name.endswith(".yml")]
    assert sorted(names) == ["a3c.yml", "random.yml", "sb3-a2c.yml", "sb3-ppo.yml"]


def test_baselines_see_what_the_agent_sees() -> None:
    (entry,) = zoo_hyperparams()
    for file in (resources.files(entry.package) / "minigrid").iterdir():
        if file.name.endswith(".yml"):
            assert "  wrappers: [minigrid.wrappers:ImgObsWrapper]" in file.read_text().splitlines()


def test_listing_imports_nothing_heavy() -> None:
    program = (
        "import sys, a3c_zoo_minigrid.plugin; print(*{'numpy', 'gymnasium', 'torch', 'minigrid'} & sys.modules.keys())"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environ)
    assert result.stdout.split() == []


def test_the_names() -> None:
    assert resolve("DoorKey-5x5").env_id == "minigrid:MiniGrid-DoorKey-5x5-v0"
    for name in ("DorKey-5x5", "DoorKey-5x5-v7", "MiniGrid-DoorKey-5x5-v0"):
        with pytest.raises(UnknownNameError, match="Did you mean 'minigrid:DoorKey-5x5'"):
            resolve(name)


def test_a_name_is_the_newest_version_unless_it_says_one() -> None:
    several = {name: known for name, known in versions().items() if len(known) > 1}
    assert several
    for name, known in several.items():
        assert resolve(name).env_id == f"minigrid:MiniGrid-{name}-v{max(known)}"
        for version in known:
            entry = resolve(f"{name}-v{version}")
            assert (entry.name, entry.env_id) == (f"minigrid:{name}-v{version}", f"minigrid:MiniGrid-{name}-v{version}")
    assert resolve("Empty-5x5-v0").threshold == resolve("Empty-5x5").threshold == 0.94
    with pytest.raises(UnknownNameError, match=r"Did you mean 'minigrid:MultiRoom-N4-S5-v\d'"):
        resolve("MultiRoom-N4-S5-v7")


def test_four_rooms_are_four() -> None:
    for name, rooms in (("MultiRoom-N4-S5", 4), ("MultiRoom-N4-S5-v0", 6)):
        env: Any = gymnasium.make(str(resolve(name).env_id))
        env.reset(seed=0)
        assert len(env.unwrapped.rooms) == rooms


def train(steps: int, runs_dir: Path) -> a3c_zoo.records.Outcome:
    """Trains with what the plugin's set has; the plugin need not be installed."""
    entry = replace(resolve("Empty-5x5"), name="empty", family="gym", variant="mixed")
    wrappers = {"env.wrappers": ["minigrid.wrappers:ImgObsWrapper"], "optimizer.learning_rate": 1e-3}
    return a3c_zoo.train(entry, seed=3, steps=steps, runs_dir=runs_dir, overrides=wrappers)


def test_it_trains(tmp_path: Path) -> None:
    assert train(1000, tmp_path).steps >= 1000


@pytest.mark.slow
def test_it_learns(tmp_path: Path) -> None:
    """A random agent reaches the goal of Empty-5x5 in half of its episodes, for a mean return of about 0.25."""
    outcome = train(60_000, tmp_path)
    assert outcome.mean_return_100 is not None
    assert outcome.mean_return_100 > 0.8
