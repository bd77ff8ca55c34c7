"""The noise of sampled actions: its correlation from step to step, by hand, and the first deviation of Box actions."""

from __future__ import annotations

from math import log
from pathlib import Path

import pytest
import torch

import a3c_zoo
from a3c_zoo.errors import RunDirectoryError
from a3c_zoo.learning.actions import ActionDistribution, Categorical, Gaussian
from a3c_zoo.learning.collector import ActionNoise
from tests.toys_runs import checkpoint

BOX = Gaussian((-1.0,) * 2, (1.0,) * 2, (2,))


def noise_of(distribution: ActionDistribution, correlation: float, rows: int = 3, num_envs: int = 1) -> ActionNoise:
    return ActionNoise(distribution, rows, num_envs, torch.Generator().manual_seed(7), correlation)


def rows_of(noise: ActionNoise, number: int, rows: int = 3) -> list[torch.Tensor]:
    """The noise of steps 0, 1, … of rollouts of so many rows, one after the other."""
    return [noise.row(step % rows).clone() for step in range(number)]


def test_each_row_keeps_a_part_of_the_one_before() -> None:
    """ρ = 0.6: ε_t = 0.6 · ε_(t−1) + 0.8 · η_t, also from rollout to rollout; the first row is fresh."""
    fresh = rows_of(noise_of(BOX, 0.0), 6)
    expected = fresh[0]
    for step, found in enumerate(rows_of(noise_of(BOX, 0.6), 6)):
        if step:
            expected = 0.6 * expected + 0.8 * fresh[step]
        torch.testing.assert_close(found, expected)


def test_it_stays_standard_normal_and_has_the_correlation() -> None:
    """100,000 numbers: the standard error of a mean of correlated ones is below 0.01."""
    rows = torch.stack(rows_of(noise_of(BOX, 0.6, rows=500, num_envs=100), 500, rows=500))
    assert rows.mean().item() == pytest.approx(0, abs=0.03)
    assert rows.std().item() == pytest.approx(1, abs=0.03)
    assert (rows[1:] * rows[:-1]).mean().item() == pytest.approx(0.6, abs=0.03)
    assert (rows[..., 0] * rows[..., 1]).mean().item() == pytest.approx(0, abs=0.03)  # dimensions are independent


def test_a_distribution_over_finite_actions_takes_none() -> None:
    """Its noise is no Gaussian."""
    for one, other in zip(
        rows_of(noise_of(Categorical(3), 0.0), 4), rows_of(noise_of(Categorical(3), 0.9), 4), strict=True
    ):
        assert torch.equal(one, other)


def test_it_goes_on_from_its_state() -> None:
    whole = noise_of(BOX, 0.6)
    rows_of(whole, 3)
    state = whole.state_dict()
    resumed = noise_of(BOX, 0.6)
    resumed.load_state_dict(state)
    resumed._generator.set_state(whole._generator.get_state())
    for one, other in zip(rows_of(whole, 3), rows_of(resumed, 3), strict=True):
        assert torch.equal(one, other)
    assert noise_of(BOX, 0.0).state_dict() == {}
    with pytest.raises(RunDirectoryError, match=r"collector\.noise"):
        resumed.load_state_dict({"noise": torch.zeros(5)})


@pytest.mark.parametrize("deviation", [1.0, 0.5])
def test_the_first_deviation_of_box_actions(deviation: float, tmp_path: Path) -> None:
    """With a tiny learning rate it stays as it is."""
    overrides = {"agent.initial_deviation": deviation, "optimizer.learning_rate": 1e-9, "agent.noise_correlation": 0.5}
    outcome = a3c_zoo.train("gym:Pendulum-v1", serial=True, steps=300, overrides=overrides, runs_dir=tmp_path)
    model = checkpoint(outcome.run)["agent"]["model"]
    names = [name for name, _ in model["shapes"]]
    start = 0
    for name, shape in model["shapes"]:
        size = torch.Size(shape).numel()
        if name == "log_std":
            assert model["parameters"][start : start + size].tolist() == pytest.approx([log(deviation)], abs=1e-5)
        start += size
    assert "log_std" in names
