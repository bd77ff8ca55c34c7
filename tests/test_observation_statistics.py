"""Running statistics of observations: by hand, between workers, in checkpoints."""

from __future__ import annotations

import time
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import a3c_zoo
from a3c_zoo.learning.observation_statistics import ObservationStatistics
from a3c_zoo.processes.start import process_context, warm_up
from a3c_zoo.store.checkpoints import resumable_checkpoint
from a3c_zoo.store.directory import RunDirectory
from tests.waits import LIMIT_S

#: A schedule ends with the budget, and so a run of half the budget would have another one.
NORMALIZED = {"network.normalize_observations": "true", "env.num_envs": 4, "optimizer.schedule": "constant"}


def observations(*rows: list[float]) -> np.ndarray:
    return np.array(rows, np.float32)


def test_mean_and_scale_of_two_workers_by_hand() -> None:
    tensor = ObservationStatistics.zeros(workers=2, num_features=2)
    statistics = ObservationStatistics(tensor)
    mean, scale = statistics.mean_and_scale()
    assert mean.tolist() == [0, 0]
    assert scale.tolist() == [1, 1]
    statistics.update(0, observations([1, 10], [3, 10]))
    # The first feature: 1 and 3, mean 2, deviations 1 + 1. Written once: the second half counts.
    assert tensor[0].tolist() == [1, *[0] * 5, 2, 2, 10, 2, 0]
    statistics.update(0, observations([8, 10]))
    # 1, 3, 8: mean 4, squared deviations 9 + 1 + 16 = 26.
    assert tensor[0].tolist() == [2, 3, 4, 10, 26, 0, 2, 2, 10, 2, 0]
    statistics.update(1, observations([0, 10], [8, 10], [4, 10]))
    # All six: 1 3 8 0 8 4, mean 4, squared deviations 26 + 32 = 58, variance 58 / 6.
    mean, scale = statistics.mean_and_scale()
    assert mean.tolist() == [4, 10]
    assert scale[0].item() == pytest.approx((58 / 6) ** -0.5, rel=1e-6)
    assert scale[1].item() == pytest.approx(1e4)  # a constant feature: the smallest variance that counts is 1e-8


def test_nothing_seen_changes_nothing() -> None:
    tensor = ObservationStatistics.zeros(1, 1)
    ObservationStatistics(tensor).update(0, np.zeros((0, 1), np.float32))
    assert tensor.tolist() == [[0] * 7]


def test_nobody_waits_for_a_writer_that_sleeps_or_died_in_the_middle() -> None:
    tensor = ObservationStatistics.zeros(2, 1)
    statistics = ObservationStatistics(tensor)
    statistics.update(0, observations([2], [4]))
    statistics.update(1, observations([9]))
    tensor[1, 1:3] = 1000  # the other half of row 1, being written
    assert statistics.mean_and_scale()[0].tolist() == [5]  # of 2, 4 and 9
    assert statistics.copy().tolist() == [[0, 2, 3, 2, 0, 0, 0], [0, 1, 9, 0, 0, 0, 0]]


def write(tensor: torch.Tensor, until: Event) -> None:
    statistics = ObservationStatistics(tensor)
    while not until.is_set():
        statistics.update(0, np.repeat(tensor[0, 0].numpy().astype(np.float32), 64 * 3).reshape(64, 3))


def test_a_reader_takes_whole_rows_only_while_another_process_writes() -> None:
    """All features are alike, so that a row of which a part is older would show."""
    warm_up()
    context: Any = process_context()
    tensor, until = ObservationStatistics.zeros(1, 3).share_memory_(), context.Event()
    writer = context.Process(target=write, args=(tensor, until), daemon=True)
    writer.start()
    statistics = ObservationStatistics(tensor)
    counts: set[float] = set()
    try:
        end_s = time.monotonic() + LIMIT_S
        while len(counts) < 200 and time.monotonic() < end_s:
            _, count, *features = statistics.copy()[0, :8].tolist()
            assert features == [features[0]] * 3 + [features[3]] * 3
            # The w-th update is of 64 numbers w − 1, so the mean of all tells their number.
            assert features[0] == pytest.approx(max(0, count / 64 - 1) / 2)
            counts.add(count)
    finally:
        until.set()
        writer.join(LIMIT_S)
    assert len(counts) == 200
    assert writer.exitcode == 0


def test_the_network_sees_normalised_observations_and_clips_them() -> None:
    from a3c_zoo.learning.mlp import MLP
    from a3c_zoo.learning.network_configs import MLPConfig
    from a3c_zoo.learning.spaces import ObservationSpec

    spec = ObservationSpec("vector", (2,), np.dtype(np.float32))
    network = MLP(spec, 3, MLPConfig(name="mlp", normalize_observations=True))
    network.take_statistics(torch.tensor([4.0, 0.0]), torch.tensor([0.5, 100.0]))
    features = network.features(torch.tensor([[6.0, 1.0]]))
    assert features.tolist() == [[1.0, 10.0]]  # (6 − 4)·0.5, and 100 clipped to 10


def saved(run: Path) -> dict:
    return resumable_checkpoint(RunDirectory(run)).agent


def test_two_real_workers_gather_what_they_saw(tmp_path: Path) -> None:
    outcome = a3c_zoo.train("cartpole", seed=1, steps=2000, overrides=NORMALIZED, runs_dir=tmp_path)
    rows = saved(outcome.run)["model"]["statistics"]
    assert rows.shape == (2, 1 + 2 * (1 + 2 * 4))
    # Every step that counts was seen once, by the worker that made it.
    assert rows[:, 1].tolist() == saved(outcome.run)["counters"][:, 0].tolist()
    agent = a3c_zoo.load_agent(outcome.run)
    mean, scale = ObservationStatistics(rows).mean_and_scale()
    network = agent.policy.network  # type: ignore[attr-defined]
    assert torch.equal(network.observation_mean, mean)
    assert torch.equal(network.observation_scale, scale)
    before = rows[:, 1].sum()
    resumed = a3c_zoo.train(resume=outcome.run, steps=4000)
    assert saved(resumed.run)["model"]["statistics"][:, 1].sum() == resumed.steps > before


def test_a_resumed_serial_run_equals_one_that_was_not_interrupted(tmp_path: Path) -> None:
    whole = a3c_zoo.train("cartpole", serial=True, seed=3, steps=1600, overrides=NORMALIZED, runs_dir=tmp_path)
    half = a3c_zoo.train("cartpole", serial=True, seed=3, steps=800, overrides=NORMALIZED, runs_dir=tmp_path)
    both = a3c_zoo.train(resume=half.run, steps=1600)
    for name in ("parameters", "statistics"):
        assert torch.equal(saved(whole.run)["model"][name], saved(both.run)["model"][name])
