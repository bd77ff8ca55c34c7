"""The clipped objective against numbers worked out by hand, and what the distribution offers to a3c-zoo."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib import import_module, resources
from math import log
from pathlib import Path

import pytest
import torch
from a3c_zoo import ZooError
from a3c_zoo.learning import LossInputs, LossTerms, Objective

from a3c_zoo_ppo import PPOConfig, zoo_agents, zoo_hyperparams
from a3c_zoo_ppo.agent import clipped_loss

OBJECTIVE = Objective(gamma=0.99, gae_lambda=0.95, entropy_coefficient=0.0, value_coefficient=0.5)


def inputs(log_probs: torch.Tensor, acted: torch.Tensor | None, advantages: list[float]) -> LossInputs:
    zeros = torch.zeros_like(log_probs)
    return LossInputs(
        log_probs=log_probs,
        entropies=zeros,
        values=zeros + 1,
        logits=zeros,
        actions=zeros,
        advantages=torch.tensor(advantages),
        returns=zeros + 3,
        acted=acted,
    )


def terms(probability: float, acted: float, advantage: float) -> tuple[LossTerms, torch.Tensor]:
    log_probs = torch.tensor([log(probability)], requires_grad=True)
    return clipped_loss(0.2, inputs(log_probs, torch.tensor([log(acted)]), [advantage]), OBJECTIVE), log_probs


@pytest.mark.parametrize(
    ("probability", "advantage", "gain", "slope"),
    [
        (0.55, 2.0, 2.2, 2.2),  # r = 1.1, within 1 ± 0.2: r·A, whose slope over log π is r·A
        (0.75, 2.0, 2.4, 0.0),  # r = 1.5: 1.2·A, a constant
        (0.25, 2.0, 1.0, 1.0),  # r = 0.5 with A > 0: min(1.0, 1.6) = r·A
        (0.75, -2.0, -3.0, -3.0),  # r = 1.5 with A < 0: min(−3, −2.4) = r·A
        (0.25, -2.0, -1.6, 0.0),  # r = 0.5 with A < 0: min(−1, −1.6) = 0.8·A, a constant
    ],
)
def test_the_gain(probability: float, advantage: float, gain: float, slope: float) -> None:
    result, log_probs = terms(probability, 0.5, advantage)
    assert result.policy_gain.item() == pytest.approx(gain)
    result.policy_gain.sum().backward()  # type: ignore[no-untyped-call]
    assert log_probs.grad is not None
    assert log_probs.grad.item() == pytest.approx(slope, abs=1e-6)


def test_the_value_error_and_the_metric() -> None:
    result, _ = terms(0.75, 0.5, 2.0)
    assert result.value_error.tolist() == [4.0]  # (3 − 1)²
    assert result.metrics()["clip_fraction"].tolist() == [1.0]
    assert terms(0.55, 0.5, 2.0)[0].metrics()["clip_fraction"].tolist() == [0.0]


def test_without_the_outputs_of_the_policy_that_acted() -> None:
    with pytest.raises(ZooError, match="keeps_outputs"):
        clipped_loss(0.2, inputs(torch.zeros(1), None, [1.0]), OBJECTIVE)


def test_the_clip_ratio_cannot_be_left_out() -> None:
    with pytest.raises(ValueError, match="clip_ratio"):
        PPOConfig.model_validate({"clip_ratio": None})
    assert PPOConfig().keeps_outputs


def test_the_entry_point_names_the_plugin() -> None:
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    points = project["entry-points"]["a3c_zoo"]
    assert [import_module(module).zoo_agents() for module in points.values()] == [zoo_agents()]


def test_the_set_is_in_the_package() -> None:
    (entry,) = zoo_hyperparams()
    assert (resources.files(entry.package) / "cartpole" / "ppo.yml").is_file()


def test_listing_imports_nothing_heavy() -> None:
    program = """
import sys, a3c_zoo_ppo
print(*{"numpy", "gymnasium", "torch"} & sys.modules.keys())
"""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environ)
    assert result.stdout.split() == []
