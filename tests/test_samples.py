"""Shuffled samples and PPO's clipped ratio, against numbers worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import a3c_zoo
from a3c_zoo.agents.configs import A3CConfig
from a3c_zoo.errors import ConfigError
from a3c_zoo.learning.actions import Categorical
from a3c_zoo.learning.counters import STEPS, UPDATES
from a3c_zoo.learning.objective import Objective, divergence, policy_gain
from a3c_zoo.learning.parameters import FlatParameters
from a3c_zoo.learning.samples import Samples, differentiate_samples, samples_of
from a3c_zoo.records import Outcome, Progress
from a3c_zoo.runs.setup import SilentObserver
from tests.test_objective import rollout
from tests.toys import TinyNetwork
from tests.toys_runs import assert_same_training, checkpoint

PPO = Objective(gamma=0.5, gae_lambda=1.0, entropy_coefficient=0.0, value_coefficient=0.0, clip_ratio=0.2)


def samples(log_probs: Sequence[float], advantages: Sequence[float], valid: Sequence[bool] = (True, True)) -> Samples:
    """Two samples in state 1, whose actions are 0 and 1; their returns are 3."""
    return Samples(
        observations=torch.ones(2, 1),
        actions=torch.tensor([0, 1]),
        log_probs=torch.tensor(log_probs),
        advantages=torch.tensor(advantages),
        returns=torch.full((2,), 3.0),
        valid=torch.tensor(valid),
    )


class TestPolicyGain:
    """The ratio of a sample is r, its advantage A; ε = 0.2."""

    @pytest.mark.parametrize(
        ("ratio", "advantage", "gain", "slope"),
        [
            (1.0, 2.0, 2.0, 2.0),  # where it acted, the slope of A3C
            (1.1, 2.0, 2.2, 2.2),  # d(r·A)/d(log π) = r·A
            (1.5, 2.0, 2.4, 0.0),  # 1.2 · 2: more would not count
            (0.5, 2.0, 1.0, 1.0),  # it moved the wrong way: all of it counts
            (0.5, -2.0, -1.6, 0.0),  # 0.8 · −2
            (1.5, -2.0, -3.0, -3.0),
        ],
    )
    def test_a_ratio_counts_until_it_is_beyond_the_limit(
        self, ratio: float, advantage: float, gain: float, slope: float
    ) -> None:
        log_prob = torch.tensor([log(0.3 * ratio)], requires_grad=True)
        result = policy_gain(log_prob, torch.tensor([log(0.3)]), torch.tensor([advantage]), 0.2)
        assert result.item() == pytest.approx(gain)
        result.sum().backward()
        assert log_prob.grad is not None
        assert log_prob.grad.item() == pytest.approx(slope, abs=1e-6)

    def test_a_ratio_that_no_number_holds_has_a_finite_gradient(self) -> None:
        """e¹⁰⁰ is infinite in float32."""
        log_prob = torch.tensor([100.0, 100.0], requires_grad=True)
        (
            policy_gain(log_prob, torch.zeros(2), torch.tensor([1.0, -1.0]), 0.2) * torch.tensor([1.0, 0.0])
        ).sum().backward()
        assert log_prob.grad is not None
        assert log_prob.grad.tolist() == [0.0, 0.0]

    def test_without_a_limit_it_is_that_of_a3c(self) -> None:
        assert policy_gain(torch.tensor([-0.5]), None, torch.tensor([3.0]), None).item() == -1.5


class TestDivergence:
    def test_numbers(self) -> None:
        """Ratios 2 and 1.1, of shares ¼ and ¾: r − 1 − log r is 1 − log 2 and 0.1 − log 1.1."""
        acted, share = torch.tensor([log(0.25), log(0.5)]), torch.tensor([0.25, 0.75])
        result = divergence(torch.tensor([log(0.5), log(0.55)]), acted, 0.2)
        approx_kl, clip_fraction = (float(torch.dot(result[name], share)) for name in ("approx_kl", "clip_fraction"))
        assert approx_kl == pytest.approx((1 - log(2)) / 4 + (0.1 - log(1.1)) * 3 / 4)
        assert clip_fraction == 0.25

    def test_a_policy_that_has_not_moved(self) -> None:
        same = torch.tensor([-1.0, -2.0])
        result = {name: metric.tolist() for name, metric in divergence(same, same, 0.2).items()}
        assert result == {"approx_kl": [0.0, 0.0], "clip_fraction": [0.0, 0.0]}


class TestGradients:
    """θ = (0, 0): both actions have probability ½; ∂log π(a)/∂θ is (½, −½) for action 0, (−½, ½) for action 1."""

    def gradients(self, of: Samples, **changes: Any) -> list[float]:
        network = TinyNetwork()
        flat = FlatParameters(network)
        assert differentiate_samples(network, Categorical(2), of, replace(PPO, **changes)) == {}
        result: list[float] = flat.gradients.tolist()
        return result

    def test_of_the_policy_that_acted(self) -> None:
        """−(A_0·(½, −½) + A_1·(−½, ½))/2 with A = (3, 1): (−½, ½)."""
        assert self.gradients(samples([log(0.5)] * 2, [3, 1])) == pytest.approx([-0.5, 0.5, 0])

    def test_a_sample_that_has_moved_far_enough_has_none(self) -> None:
        """Action 0 had probability ¼: r = 2, A = 3 > 0. Action 1 has r = 1: −(−½, ½)/2."""
        assert self.gradients(samples([log(0.25), log(0.5)], [3, 1])) == pytest.approx([0.25, -0.25, 0])

    def test_values_and_entropy_are_as_without_a_ratio(self) -> None:
        """c_v · ∂(3 − w)²/∂w = −2·½·(3 − 1) = −2."""
        result = self.gradients(samples([log(0.5)] * 2, [0, 0]), value_coefficient=0.5)
        assert result == pytest.approx([0, 0, -2])

    def test_ignored_steps_do_not_count(self) -> None:
        """Action 0 alone: −3 · (½, −½)."""
        result = self.gradients(samples([log(0.5)] * 2, [3, 1], valid=[True, False]))
        assert result == pytest.approx([-1.5, 1.5, 0])

    def test_metrics(self) -> None:
        network = TinyNetwork()
        FlatParameters(network)
        of = samples([log(0.25), log(0.5)], [3, 1])
        metrics = differentiate_samples(network, Categorical(2), of, PPO, want_metrics=True)
        assert metrics["loss_policy"] == pytest.approx(-(1.2 * 3 + 1) / 2)
        assert metrics["approx_kl"] == pytest.approx((1 - log(2)) / 2)
        assert metrics["clip_fraction"] == 0.5
        assert metrics["entropy"] == pytest.approx(log(2))


class TestSamplesOf:
    def test_numbers(self) -> None:
        """The rollout of test_objective, whose policy acted with logits (log 3, 0): π = (¾, ¼).

        V of the rows that acted is 1 and 2; the last row has 3, by the network. A = (1.75, 1.5), R = (2.75, 3.5).
        """
        acted = rollout([[1], [2], [3]], [[0], [1]], [[1], [2]])
        acted.logits = torch.tensor([[[log(3), 0.0]], [[log(3), 0.0]]])
        acted.values = torch.tensor([[1.0], [2.0], [-9.0]])
        result = samples_of(acted, TinyNetwork(), Categorical(2), PPO)
        assert result.observations.tolist() == [[1], [2]]
        assert result.actions.tolist() == [0, 1]
        assert result.log_probs.exp().tolist() == pytest.approx([0.75, 0.25])
        assert result.advantages.tolist() == [1.75, 1.5]
        assert result.returns.tolist() == [2.75, 3.5]
        assert result.valid.tolist() == [True, True]

    def test_each_sample_is_in_one_batch_and_keeps_together(self) -> None:
        numbers = torch.arange(10)
        of = Samples(numbers[:, None], numbers, -numbers.float(), numbers * 2.0, numbers * 3.0, numbers % 2 == 0)
        generator = torch.Generator().manual_seed(1)
        batches = list(of.batches(4, generator))
        assert [len(batch.valid) for batch in batches] == [4, 4, 2]
        order = torch.cat([batch.actions for batch in batches])
        assert order.tolist() != numbers.tolist()
        assert sorted(order.tolist()) == numbers.tolist()
        for batch in batches:
            assert batch.observations[:, 0].tolist() == batch.actions.tolist()
            assert (batch.log_probs == -batch.actions).all()
            assert (batch.advantages == batch.actions * 2).all()
            assert (batch.returns == batch.actions * 3).all()
            assert (batch.valid == (batch.actions % 2 == 0)).all()
        assert torch.cat([batch.actions for batch in of.batches(4, generator)]).tolist() != order.tolist()


CLIPPED = {
    "agent.clip_ratio": 0.2,
    "agent.epochs": 3,
    "agent.update_samples": 40,
    "optimizer.schedule": "constant",  # one that ends with the budget would be another one after half of it
}


def train(folder: Path, **options: Any) -> Outcome:
    overrides = {**CLIPPED, **options.pop("overrides", {})}
    return a3c_zoo.train("cartpole", overrides=overrides, seed=1, runs_dir=folder, **options)


@pytest.mark.parametrize("samples", [{}, {"agent.clip_ratio": 0.2}], ids=["rollout", "samples"])
def test_a_batch_of_ignored_steps_is_no_update(samples: dict[str, float], tmp_path: Path) -> None:
    """With one environment and one step, each ignored step is a rollout. Adam would move by its momentum."""
    overrides = {"env.num_envs": 1, "agent.n_steps": 1, "agent.update_samples": None, **samples}
    outcome = a3c_zoo.train("cartpole", serial=True, steps=200, overrides=overrides, seed=1, runs_dir=tmp_path)
    assert outcome.episodes > 3
    assert outcome.updates == outcome.steps


def test_epochs_are_updates(tmp_path: Path) -> None:
    """A rollout of 5 × 16 steps, of which some are ignored, makes two updates of 40 in each of three passes."""
    outcome = train(tmp_path, steps=800, serial=True)
    assert outcome.steps >= 800
    assert outcome.updates == ceil(outcome.steps / 80) * 2 * 3


def test_metrics_are_those_of_the_last_update_of_a_rollout(tmp_path: Path) -> None:
    """At the first update the policy is the one that acted."""
    seen: list[float] = []

    class Observer(SilentObserver):
        def progress(self, progress: Progress) -> None:
            seen.append(progress.metrics.get("approx_kl", 0.0))

    train(tmp_path, steps=4000, serial=True, observer=Observer())
    assert max(seen) > 1e-5


def test_a_resumed_run_shuffles_on(tmp_path: Path) -> None:
    """The permutations come from the saved generator of the worker."""
    whole = train(tmp_path, steps=800, serial=True, workers=1)
    first = train(tmp_path, steps=400, serial=True, workers=1)
    resumed = a3c_zoo.train(resume=first.run, steps=800)
    assert resumed.updates == ceil(resumed.steps / 80) * 2 * 3
    assert_same_training(checkpoint(resumed.run), checkpoint(whole.run))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"agent.clip_ratio": None}, "epochs: 3 — needs a clip ratio"),
        ({"agent.update_samples": 30}, "must divide a rollout: n_steps 5 × num_envs 16 = 80 samples"),
        ({"agent.clip_ratio": 0}, "agent.clip_ratio"),
        ({"agent.epochs": 0}, "agent.epochs"),
    ],
)
def test_what_does_not_fit_is_refused(overrides: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")):
        train(tmp_path, steps=800, overrides=overrides)


@pytest.mark.parametrize(("num_envs", "samples"), [(16, 256), (8, 256), (2, 64)])
def test_a_short_rollout_is_one_update(num_envs: int, samples: int) -> None:
    """Rollouts of 32 × 16, 32 × 8 and 32 × 2 samples."""
    config = A3CConfig(n_steps=32, clip_ratio=0.2, update_samples=256)
    assert config.samples_per_update(num_envs) == samples


def test_two_workers_learn_cartpole(tmp_path: Path) -> None:
    """In turn, so that it is the same on each machine: three seeds took 18,000 to 27,000 steps."""
    outcome = train(tmp_path, steps=80_000, workers=2, stop_return=100, serial=True)
    assert outcome.reason == "stop-return"
    assert np.isfinite(outcome.mean_return_100 or np.nan)


def test_two_processes_make_whole_passes(tmp_path: Path) -> None:
    """Each of their rollouts has 80 steps, of which some are ignored, and makes six updates."""
    outcome = train(tmp_path, steps=2000, workers=2)
    counters = checkpoint(outcome.run)["agent"]["counters"]
    assert outcome.updates == int(counters[:, UPDATES].sum()) > 0
    for steps, updates in zip(counters[:, STEPS].tolist(), counters[:, UPDATES].tolist(), strict=True):
        assert updates % 6 == 0
        assert updates // 6 * 40 <= steps <= updates // 6 * 80
