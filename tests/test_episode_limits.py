"""`env.max_episode_steps`: episodes are cut where it says, as truncations."""

from __future__ import annotations

from pathlib import Path

import pytest

import a3c_zoo
from tests.toys_runs import episodes


@pytest.mark.parametrize("env", ["cartpole", "gym:MountainCar-v0", "gym:CartPole-v1"])
def test_episodes_are_cut(env: str, tmp_path: Path) -> None:
    """Eight random steps topple no pole; the car needs hundreds."""
    overrides = {"env.max_episode_steps": 8, "env.num_envs": 2}
    outcome = a3c_zoo.train(env, serial=True, seed=1, steps=200, overrides=overrides, runs_dir=tmp_path)
    lengths = [int(row["l"]) for row in episodes(outcome.run)]
    assert set(lengths) == {8}
    assert len(lengths) >= 20


def test_a_gymnasium_id_keeps_its_own_limit(tmp_path: Path) -> None:
    outcome = a3c_zoo.train(
        "gym:MountainCar-v0", serial=True, seed=1, steps=1000, overrides={"env.num_envs": 2}, runs_dir=tmp_path
    )
    assert {int(row["l"]) for row in episodes(outcome.run)} == {200}
