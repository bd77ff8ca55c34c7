"""Segments of a rollout for a recurrent core and the clipped loss: where they lie, and their gradient."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import a3c_zoo
from a3c_zoo.agents.configs import A3CConfig
from a3c_zoo.errors import ConfigError
from a3c_zoo.learning.actions import Categorical
from a3c_zoo.learning.objective import Objective, differentiate
from a3c_zoo.learning.parameters import FlatParameters
from a3c_zoo.learning.recurrent import Recurrent
from a3c_zoo.learning.rollout import Rollout
from a3c_zoo.learning.segments import Segments, differentiate_segments, segments_of
from tests.test_recurrent import KINDS, collector, network
from tests.test_rollout import sync_env
from tests.toys import MODES
from tests.toys_runs import assert_same_training, checkpoint

ACTIONS = Categorical(2)
A3C = Objective(gamma=0.9, gae_lambda=0.8, entropy_coefficient=0.1, value_coefficient=0.5)
CLIPPED = replace(A3C, clip_ratio=0.2)


def collected(core: Recurrent, mode: str, num_steps: int) -> Rollout:
    """The third rollout, which begins in the middle of an episode."""
    collect = collector(sync_env(mode), core, num_steps)
    for _ in range(3):
        collect.collect(core)
    return collect.rollout


def test_segments_are_cut_from_each_environment_and_keep_together() -> None:
    """T = 4, N = 2, L = 2: four segments; the core's states are those before rows 0 and 2."""
    core = network("gru")
    rollout = collected(core, "NextStep", 4)
    segments = segments_of(rollout, core, ACTIONS, CLIPPED, 2)
    seen = rollout.observations
    firsts = [seen[0, 0], seen[0, 1], seen[2, 0], seen[2, 1]]
    seconds = [seen[1, 0], seen[1, 1], seen[3, 0], seen[3, 1]]
    assert torch.equal(segments.observations[0], torch.stack(firsts))
    assert torch.equal(segments.observations[1], torch.stack(seconds))
    states, resets = rollout.core
    assert torch.equal(segments.states, torch.cat((states[0], states[2]), dim=1))
    assert segments.resets[0].tolist() == [*resets[0].tolist(), *resets[2].tolist()]
    assert segments.valid[1].tolist() == [*rollout.valid[1].tolist(), *rollout.valid[3].tolist()]
    assert segments.actions.shape == segments.log_probs.shape == segments.returns.shape == (2, 4)


@pytest.mark.parametrize("length", [1, 2, 6])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_segment_passes_as_acting_did(kind: str, mode: str, length: int) -> None:
    """With the parameters that acted all ratios are 1: from the stored states come the same probabilities."""
    core = network(kind)
    segments = segments_of(collected(core, mode, 6), core, ACTIONS, CLIPPED, length)
    FlatParameters(core)
    metrics = differentiate_segments(core, ACTIONS, segments, CLIPPED, want_metrics=True)
    assert metrics["approx_kl"] == pytest.approx(0, abs=1e-9)
    assert metrics["clip_fraction"] == 0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_of_whole_rollouts_is_that_of_a3c(kind: str, mode: str) -> None:
    """Where all ratios are 1, the clipped loss has the slope of log π(a|s) · A."""
    core = network(kind)
    rollout = collected(core, mode, 6)
    segments = segments_of(rollout, core, ACTIONS, CLIPPED, 6)
    flat = FlatParameters(core)
    differentiate(core, ACTIONS, rollout, slice(None), A3C)
    expected = flat.gradients.clone()
    flat.zero_gradients()
    differentiate_segments(core, ACTIONS, segments, CLIPPED)
    torch.testing.assert_close(flat.gradients, expected, rtol=1e-4, atol=1e-6)


def test_each_segment_is_in_one_batch_and_keeps_together() -> None:
    numbers = torch.arange(12).reshape(2, 6)
    of = Segments(
        observations=numbers[..., None],
        actions=numbers,
        log_probs=-numbers.float(),
        advantages=numbers * 2.0,
        returns=numbers * 3.0,
        valid=numbers % 2 == 0,
        resets=numbers % 3 == 0,
        states=numbers[:1, :, None].float(),
    )
    batches = list(of.batches(4, torch.Generator().manual_seed(1)))
    assert [batch.valid.shape for batch in batches] == [(2, 2)] * 3
    assert sorted(torch.cat([batch.actions.flatten() for batch in batches]).tolist()) == list(range(12))
    for batch in batches:
        assert (batch.actions[1] == batch.actions[0] + 6).all()
        assert (batch.observations[..., 0] == batch.actions).all()
        assert (batch.log_probs == -batch.actions).all()
        assert (batch.advantages == batch.actions * 2).all()
        assert (batch.returns == batch.actions * 3).all()
        assert (batch.valid == (batch.actions % 2 == 0)).all()
        assert (batch.resets == (batch.actions % 3 == 0)).all()
        assert (batch.states[0, :, 0] == batch.actions[0]).all()


@pytest.mark.parametrize(
    ("n_steps", "num_envs", "update_samples", "length"),
    [
        (128, 8, 64, 16),
        (20, 8, 40, 10),  # the most up to 16 that divides 20 and 40
        (20, 8, None, 10),
        (8, 4, 64, 8),  # an update is the whole rollout
        (7, 2, None, 7),
        (17, 2, None, 1),
    ],
)
def test_the_length_of_a_segment(n_steps: int, num_envs: int, update_samples: int | None, length: int) -> None:
    config = A3CConfig(n_steps=n_steps, update_samples=update_samples, clip_ratio=0.2)
    assert config.steps_of_segment(num_envs) == length


RECURRENT: dict[str, Any] = {
    "agent.clip_ratio": 0.2,
    "agent.epochs": 2,
    "agent.n_steps": 20,
    "agent.update_samples": 80,
    "network.recurrent": "lstm",
    "optimizer.schedule": "constant",  # one that ends with the budget would be another one after half of it
}


@pytest.mark.parametrize(
    ("length", "message"),
    [
        (32, "agent.segment_steps: 32 — must divide agent.n_steps: 20"),  # longer than a rollout
        (3, "agent.segment_steps: 3 — must divide agent.n_steps: 20"),
        (20, "agent.segment_steps: 20 — must divide the samples of an update, agent.update_samples: 32"),
    ],
)
def test_a_segment_that_does_not_fit_is_refused(length: int, message: str, tmp_path: Path) -> None:
    overrides = RECURRENT | {"agent.segment_steps": length, "agent.update_samples": 32}
    with pytest.raises(ConfigError, match=message):
        a3c_zoo.train("cartpole", overrides=overrides, steps=100, runs_dir=tmp_path)


def test_segments_of_one_step_are_refused_unless_they_are_asked_for(tmp_path: Path) -> None:
    """15 steps in 16 environments, and 16 samples an update: nothing but 1 divides both."""
    short = RECURRENT | {"agent.n_steps": 15, "agent.update_samples": 16}
    with pytest.raises(ConfigError, match=r"agent\.n_steps: 15 .*segments of one"):
        a3c_zoo.train("cartpole", overrides=short, steps=100, serial=True, runs_dir=tmp_path)
    asked = short | {"agent.segment_steps": 1}
    assert a3c_zoo.train("cartpole", overrides=asked, steps=100, serial=True, runs_dir=tmp_path).steps >= 100


def test_segments_without_a_clip_ratio_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="segment_steps: 5 — needs a clip ratio"):
        a3c_zoo.train("cartpole", overrides={"agent.segment_steps": 5}, steps=100, runs_dir=tmp_path)


def test_segments_without_a_core_are_refused(tmp_path: Path) -> None:
    overrides = RECURRENT | {"agent.segment_steps": 5, "network.recurrent": "none"}
    refusal = (
        r"^agent\.segment_steps: 5 — network 'mlp' has no recurrent core: -o network\.recurrent=lstm\. "
        r"Without segments: -o agent\.segment_steps=null$"
    )
    with pytest.raises(ConfigError, match=refusal):
        a3c_zoo.train("cartpole", overrides=overrides, steps=100, runs_dir=tmp_path)
    for cure in ({"network.recurrent": "lstm"}, {"agent.segment_steps": None}):
        run = a3c_zoo.train("cartpole", overrides=overrides | cure, steps=100, serial=True, runs_dir=tmp_path).run
    # A run that has them goes on.
    config = run / "config.yml"
    config.write_text(config.read_text().replace("segment_steps: null", "segment_steps: 5"))
    assert a3c_zoo.train(resume=run, steps=1000).steps >= 1000


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_run_goes_on(kind: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "serial": True,
        "seed": 2,
        "overrides": RECURRENT | {"network.recurrent": kind},
        "runs_dir": tmp_path,
    }
    whole = a3c_zoo.train("cartpole", steps=2000, **settings)
    half = a3c_zoo.train("cartpole", steps=1000, **settings)
    resumed = a3c_zoo.train(resume=half.run, steps=2000)
    assert_same_training(checkpoint(whole.run), checkpoint(resumed.run))


@pytest.mark.slow  # it trains until it has learned: more than ten seconds
def test_two_workers_learn_cartpole(tmp_path: Path) -> None:
    """In turn, so that it is the same on each machine."""
    overrides = RECURRENT | {"optimizer.learning_rate": 1e-3}
    outcome = a3c_zoo.train(
        "cartpole",
        overrides=overrides,
        seed=1,
        steps=100_000,
        stop_return=100,
        serial=True,
        runs_dir=tmp_path,
    )
    assert outcome.reason == "stop-return"
    assert np.isfinite(outcome.mean_return_100 or np.nan)


def test_two_processes_learn_with_a_core(tmp_path: Path) -> None:
    outcome = a3c_zoo.train("cartpole", overrides=RECURRENT, seed=1, steps=2000, workers=2, runs_dir=tmp_path)
    assert outcome.steps >= 2000
    assert bool(checkpoint(outcome.run)["agent"]["model"]["parameters"].isfinite().all())
