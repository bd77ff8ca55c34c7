"""Networks whose layers keep statistics or drop units: shared, saved, and in training mode for learning alone.

The numbers: a BatchNorm over one feature starts with mean 0 and moves by a tenth of the way to each batch's mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor, nn

import a3c_zoo
from a3c_zoo.errors import ConfigError, RunDirectoryError
from a3c_zoo.learning.actions import Categorical
from a3c_zoo.learning.buffers import Buffers, check_saved
from a3c_zoo.learning.model import ModelPolicy
from a3c_zoo.learning.networks import ActorCritic, OnDevice, in_training, seed_passes
from a3c_zoo.learning.objective import Objective, differentiate
from a3c_zoo.learning.parameters import FlatParameters
from a3c_zoo.learning.samples import differentiate_samples, samples_of
from a3c_zoo.learning.spaces import observation_spec
from a3c_zoo.plugins.builtins import zoo_networks
from a3c_zoo.plugins.entries import NetworkEntry, load_object
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.store.checkpoint_bytes import read_content
from a3c_zoo.store.saved_state import not_finite
from a3c_zoo.testing import plugin_distribution
from tests.test_objective import approx, rollout
from tests.toys_runs import assert_same_training, checkpoint, write_content

OBJECTIVE = Objective(gamma=0.5, gae_lambda=1.0, entropy_coefficient=0.0, value_coefficient=0.5)
PLUGIN = """
from a3c_zoo import NetworkEntry, hookimpl
from a3c_zoo.config import NetworkConfig


class WideConfig(NetworkConfig):
    @property
    def computes_in(self):
        return "bfloat16"


@hookimpl
def zoo_networks():
    return [
        NetworkEntry("normed", "normed:Normed", revision=1),
        NetworkEntry("narrow", "normed:Normed", config="normed_plugin:WideConfig", revision=1),
    ]
"""
NETWORK = """
from a3c_zoo.learning import Split
from torch import nn


class Normed(Split):
    def __init__(self, spec, num_logits, config):
        super().__init__()
        self.spec = spec
        width = spec.num_features
        self.body = nn.Sequential(nn.BatchNorm1d(width), nn.Linear(width, 16), nn.ReLU(), nn.Dropout(0.5))
        self.actor, self.critic = nn.Linear(16, num_logits), nn.Linear(16, 1)

    def features(self, observations):
        return self.body(self.spec.encode(observations))

    def logits(self, outputs):
        return self.actor(outputs)

    def values(self, outputs):
        return self.critic(outputs).squeeze(-1)
"""


def batch(mean: float) -> Tensor:
    return torch.tensor([[mean - 1], [mean + 1]])


def shared_buffers(module: nn.Module) -> dict[str, Tensor]:
    return {name: buffer.clone() for name, buffer in Buffers(module, "cpu").initial.items()}


class TestBuffers:
    def test_changes_of_two_workers_add_up(self) -> None:
        one, other = nn.BatchNorm1d(1), nn.BatchNorm1d(1)
        mine, theirs, shared = Buffers(one, "cpu"), Buffers(other, "cpu"), shared_buffers(one)
        mine.pull(shared)
        theirs.pull(shared)
        one(batch(10.0))
        other(batch(20.0))
        mine.push(shared)
        assert shared["running_mean"].tolist() == [1.0]
        theirs.push(shared)
        assert shared["running_mean"].tolist() == approx(2.9)  # 0.9 · 1 + 0.1 · 20
        assert int(shared["num_batches_tracked"]) == 2
        mine.push(shared)  # nothing has changed since
        assert shared["running_mean"].tolist() == approx(2.9)
        mine.pull(shared)
        assert one.running_mean is not None
        assert one.running_mean.tolist() == approx(2.9)
        one(batch(13.0))
        one(batch(13.0))
        mine.push(shared)
        assert shared["running_mean"].tolist() == approx(4.819)  # 0.9 · (0.9 · 2.9 + 1.3) + 1.3
        assert int(shared["num_batches_tracked"]) == 4

    def test_statistics_of_instances_are_averages_too(self) -> None:
        """torch does not count the passes of an InstanceNorm."""
        one, other, third = (nn.InstanceNorm1d(1, track_running_stats=True) for _ in range(3))
        mine, theirs, shared = Buffers(one, "cpu"), Buffers(other, "cpu"), shared_buffers(third)
        one(torch.tensor([[[9.0, 11.0]]]))
        other(torch.tensor([[[19.0, 21.0]]]))
        other.eval()(torch.tensor([[[5.0, 7.0]]]))  # changes nothing
        mine.push(shared)
        theirs.push(shared)
        assert shared["running_mean"].tolist() == approx(2.9)  # 0.9 · 1 + 0.1 · 20
        assert int(shared["num_batches_tracked"]) == 2

    def test_an_average_of_all_batches_stays_one(self) -> None:
        one, other = nn.BatchNorm1d(1, momentum=None), nn.BatchNorm1d(1, momentum=None)
        mine, theirs, shared = Buffers(one, "cpu"), Buffers(other, "cpu"), shared_buffers(one)
        one(batch(10.0))
        mine.push(shared)
        assert shared["running_mean"].tolist() == [10.0]
        for each in (mine, theirs):
            each.pull(shared)
        one(batch(16.0))
        other(batch(20.0))
        mine.push(shared)
        assert shared["running_mean"].tolist() == [13.0]
        theirs.push(shared)
        assert shared["running_mean"].tolist() == [16.5]  # ½ · 13 + ½ · 20: half of what it pulled was left

    def test_other_changes_of_two_workers_add_up(self) -> None:
        one, other = nn.Module(), nn.Module()
        for module in (one, other):
            module.register_buffer("total", torch.tensor([1.0, -torch.inf]))
        mine, theirs, shared = Buffers(one, "cpu"), Buffers(other, "cpu"), shared_buffers(one)
        one.get_buffer("total")[0] += 2
        other.get_buffer("total")[0] += 4
        mine.push(shared)
        theirs.push(shared)
        assert shared["total"].tolist() == [7.0, -torch.inf]

    @pytest.mark.parametrize(("workers", "momentum"), [(2, 0.1), (16, 0.1), (64, 0.1), (4, 0.5)])
    def test_running_statistics_of_many_workers_stay_positive_and_near(self, workers: int, momentum: float) -> None:
        """Workers in turn, each as stale as there are others. Batches have the mean 0.5 and the variance 0.05."""
        norms = [nn.BatchNorm1d(1, momentum=momentum) for _ in range(workers)]
        all_buffers, shared = [Buffers(norm, "cpu") for norm in norms], shared_buffers(norms[0])
        spread = 0.05**0.5 * torch.tensor([[-1.0], [1.0]]) / 2**0.5  # the variance of a sample of two
        for _ in range(30):
            for norm, buffers in zip(norms, all_buffers, strict=True):
                norm(0.5 + spread)
                buffers.push(shared)
                assert shared["running_var"].item() > 0
                buffers.pull(shared)
        assert shared["running_mean"].tolist() == pytest.approx([0.5], rel=0.05)
        assert shared["running_var"].tolist() == pytest.approx([0.05], rel=0.2)

    def test_a_flag_is_copied(self) -> None:
        module = nn.Module()
        module.register_buffer("is_ready", torch.tensor(False))
        mine, shared = Buffers(module, "cpu"), shared_buffers(module)
        module.get_buffer("is_ready").fill_(True)
        mine.push(shared)
        assert bool(shared["is_ready"])

    def test_a_flag_that_has_not_changed_is_left_alone(self) -> None:
        module = nn.Module()
        module.register_buffer("is_ready", torch.tensor(False))
        mine, shared = Buffers(module, "cpu"), shared_buffers(module)
        shared["is_ready"].fill_(True)  # by another worker
        mine.push(shared)
        assert bool(shared["is_ready"])

    def test_infinities_that_stay_remain_infinities(self) -> None:
        """Such as those of the mask of an attention layer: −inf − (−inf) would be no number."""
        module = nn.Module()
        module.register_buffer("mask", torch.tensor([0.0, -torch.inf]))
        mine, shared = Buffers(module, "cpu"), shared_buffers(module)
        mine.push(shared)
        assert shared["mask"].tolist() == [0.0, -torch.inf]

    def test_a_checkpoint_takes_infinities_of_buffers_and_no_others(self) -> None:
        infinite, nan = torch.tensor([0.0, -torch.inf]), torch.tensor([torch.nan])
        assert not_finite({"model": {"buffers": {"mask": infinite}}}) is None
        assert not_finite({"model": {"buffers": {f"{'layer.' * 30}mask": infinite}}}) is None
        assert not_finite({"model": {"buffers": {"mask": nan}}}) == "model.buffers.mask"
        assert not_finite({"model": {"parameters": infinite}}) == "model.parameters"

    def test_a_buffer_that_is_not_saved_is_not_shared(self) -> None:
        module = nn.Module()
        module.register_buffer("table", torch.ones(3), persistent=False)
        assert Buffers(module, "cpu").initial == {}

    @pytest.mark.parametrize(
        ("saved", "message"),
        [
            ({}, "of another network: its buffers are none there, running_mean, running_var, num_batches_tracked here"),
            ({"running_mean": torch.zeros(2)}, r"buffers\.running_mean is float32 \[2\] there, float32 \[1\] here"),
            ({"running_mean": torch.zeros(1, dtype=torch.int64)}, "running_mean is int64"),
        ],
    )
    def test_buffers_of_another_network_are_refused(self, saved: dict[str, Tensor], message: str) -> None:
        module = nn.BatchNorm1d(1)
        with pytest.raises(RunDirectoryError, match=message):
            check_saved(shared_buffers(module) | saved if saved else {}, module)


class Recorder(ActorCritic):
    """Notes for each call whether the network was in training mode."""

    def __init__(self) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.zeros(2))
        self.seen: list[tuple[str, bool]] = []

    def policy(self, observations: Tensor) -> Tensor:
        self.seen.append(("policy", self.training))
        return self.theta.expand(len(observations), -1)

    def value(self, observations: Tensor) -> Tensor:
        self.seen.append(("value", self.training))
        return observations[:, 0] + self.theta.sum()


def recorder() -> Recorder:
    made = Recorder()
    made.eval()
    FlatParameters(made)
    return made


def test_only_the_differentiated_pass_is_in_training_mode() -> None:
    """Row 0 is cut off at an observation of its own, which is valued outside of it."""
    steps = rollout(
        [[1], [2], [3]], [[0], [1]], [[1], [2]], truncated=[[1], [0]], finals={(0, 0): np.array([8], np.float32)}
    )
    network = recorder()
    differentiate(network, Categorical(2), steps, slice(None), OBJECTIVE)
    assert network.seen == [("policy", True), ("value", True), ("value", False)]
    assert not network.training


def test_a_network_on_a_device_changes_its_mode_too() -> None:
    """`OnDevice` stands before the network; here both are on the CPU."""
    network = recorder()
    crossed = cast("ActorCritic", OnDevice(network, "cpu"))
    differentiate(crossed, Categorical(2), rollout([[1], [2]], [[0]], [[1]]), slice(None), OBJECTIVE)
    assert network.seen == [("policy", True), ("value", True)]
    assert not network.training


def test_several_passes_over_samples_are_in_training_mode() -> None:
    steps = rollout([[1], [2], [3]], [[0], [1]], [[1], [2]])
    steps.logits, steps.values = torch.zeros(2, 1, 2), torch.zeros(3, 1)
    network = recorder()
    samples = samples_of(steps, network, Categorical(2), OBJECTIVE)
    assert network.seen == [("value", False)]
    network.seen.clear()
    differentiate_samples(network, Categorical(2), samples, replace(OBJECTIVE, clip_ratio=0.2))
    assert network.seen == [("policy", True), ("value", True)]
    assert not network.training


SPACES: dict[str, spaces.Space[Any]] = {
    "vector": spaces.Box(-1, 1, (4,), np.float32),
    "image": spaces.Box(0, 255, (4, 84, 84), np.uint8),
    "mixed": spaces.Dict({"image": spaces.Box(0, 255, (7, 7, 3), np.uint8), "number": spaces.Discrete(3)}),
}


@pytest.mark.parametrize("entry", zoo_networks(), ids=lambda entry: entry.name)
def test_networks_of_the_zoo_need_no_modes(entry: NetworkEntry) -> None:
    """To change their mode would take longer than a small update has to spare."""
    config = load_object(entry.config)(name=entry.name)
    for kind in entry.inputs:
        assert not load_object(entry.factory)(observation_spec(SPACES[kind]), 2, config).has_modes
    assert Recorder().has_modes  # its class is not the zoo's


# Whole runs


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where runs are made, with the network installed in this process."""
    folder = plugin_distribution(tmp_path / "installed", "normed-plugin", PLUGIN)
    (folder / "normed.py").write_text(NETWORK)
    monkeypatch.syspath_prepend(folder)
    get_registry.cache_clear()
    yield tmp_path / "runs"
    get_registry.cache_clear()


#: Eight updates of each rollout. All but two pull no observation statistics.
PASSES = {"agent.n_steps": 20, "agent.clip_ratio": 0.2, "agent.epochs": 2, "agent.update_samples": 20}


def train(runs: Path, network: str, steps: int, agent: str = "a3c", **options: Any) -> Path:
    # A schedule that ends with the budget would be another one after half of it.
    overrides = {"network.name": network, "env.num_envs": 4, "optimizer.schedule": "constant"}
    overrides |= options.pop("overrides", {})
    return a3c_zoo.train(
        "cartpole", agent=agent, steps=steps, overrides=overrides, seed=1, runs_dir=runs, **options
    ).run


def buffers(run: Path) -> dict[str, Tensor]:
    found: dict[str, Tensor] = checkpoint(run)["agent"]["model"]["buffers"]
    return found


NAMES = {"body.0.running_mean", "body.0.running_var", "body.0.num_batches_tracked"}


@pytest.mark.parametrize("agent", ["a3c", "a3c-data", "a3c-grad"])
def test_a_run_keeps_its_statistics(agent: str, runs: Path) -> None:
    run = train(runs, "normed", 640, agent, serial=True)
    kept = buffers(run)
    assert kept.keys() == NAMES
    updates = int(checkpoint(run)["agent"]["counters"][:, 1].sum())
    assert int(kept["body.0.num_batches_tracked"]) >= updates > 0
    assert bool((kept["body.0.running_mean"] != 0).all())
    resumed = a3c_zoo.train(resume=run, steps=1280).run
    assert buffers(resumed)["body.0.num_batches_tracked"] > kept["body.0.num_batches_tracked"]


@pytest.mark.parametrize(("agent", "overrides"), [("a3c", {}), ("a3c", PASSES), ("a3c-data", {})])
def test_a_resumed_run_equals_one_without_a_break(agent: str, overrides: dict[str, Any], runs: Path) -> None:
    """Statistics come from the checkpoint, and Dropout draws the same again."""
    whole = train(runs, "normed", 1600, agent, serial=True, overrides=overrides)
    half = train(runs, "normed", 800, agent, serial=True, overrides=overrides)
    resumed = a3c_zoo.train(resume=half, steps=1600).run
    assert_same_training(checkpoint(resumed), checkpoint(whole))


@pytest.mark.parametrize(("agent", "overrides"), [("a3c", {}), ("a3c", PASSES), ("a3c-data", {}), ("a3c-grad", {})])
def test_each_pass_drops_other_units(
    agent: str, overrides: dict[str, Any], runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They depend on the run's seed, and not on the caller's generator."""
    drawn: list[tuple[float, ...]] = []

    def forward(dropout: nn.Dropout, x: Tensor) -> Tensor:
        if dropout.training:
            drawn.append(tuple(torch.rand(4).tolist()))
        return x

    monkeypatch.setattr(nn.Dropout, "forward", forward)
    for seed in (1, 2):
        torch.manual_seed(seed)
        train(runs, "normed", 640, agent, serial=True, overrides=overrides)
    half = len(drawn) // 2
    assert drawn[:half] == drawn[half:]
    assert len(set(drawn)) == half >= 5


def test_passes_without_a_seed_go_on_drawing() -> None:
    """As those of an agent that learns several times from what it pulled, or pulls in its own way."""
    network = recorder()
    seed_passes(network, 3)
    drawn = []
    for _ in range(3):
        with in_training(network):
            drawn.append(float(torch.rand(())))
    torch.manual_seed(3)
    assert drawn == torch.rand(3).tolist()


def test_a_serial_run_leaves_the_callers_generator_as_it_was(runs: Path) -> None:
    """Dropout draws from the same one."""
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    train(runs, "normed", 320, serial=True)
    assert torch.equal(torch.rand(3), expected)


def test_predict_acts_in_evaluation_mode(runs: Path) -> None:
    """Dropout would change half of the units from call to call, and BatchNorm the numbers of a batch."""
    policy = a3c_zoo.load_agent(run := train(runs, "normed", 640, serial=True)).policy
    assert isinstance(policy, ModelPolicy)
    assert not policy.network.training
    mean = policy.network.get_buffer("body.0.running_mean")
    assert torch.equal(mean, buffers(run)["body.0.running_mean"])
    observations = torch.randn(32, 4)
    with torch.no_grad():
        together = policy.network.policy(observations)
        alone = torch.cat([policy.network.policy(row) for row in observations.split(1)])
    assert torch.allclose(together, alone, atol=1e-6)
    assert torch.equal(mean, buffers(run)["body.0.running_mean"])


def test_workers_in_processes_share_their_statistics(runs: Path) -> None:
    """Each adds its changes: more batches than one worker has seen."""
    run = a3c_zoo.train("cartpole", steps=6000, workers=2, overrides=["network.name=normed"], runs_dir=runs).run
    updates = checkpoint(run)["agent"]["counters"][:, 1]
    assert bool((updates > 0).all())
    batches = int(buffers(run)["body.0.num_batches_tracked"])
    assert batches > int(updates.max())
    # Both add without a lock: hardly any addition is lost. A pass for values is a batch, too, unless it is shared.
    assert 0.95 * int(updates.sum()) <= batches <= 2 * int(updates.sum())


def test_a_checkpoint_without_statistics_is_refused(runs: Path) -> None:
    run = train(runs, "normed", 640, serial=True)
    for file in (run / "checkpoints").glob("*.pt"):
        content = read_content(file)
        del content["agent"]["model"]["buffers"]
        write_content(file, content)
    with pytest.raises(RunDirectoryError, match="its buffers are none there") as raised:
        a3c_zoo.load_agent(run)
    assert "\n" not in str(raised.value)


def test_statistics_need_float32(runs: Path) -> None:
    with pytest.raises(ConfigError, match=r"'narrow' keeps body\.0\.running_mean.*float32"):
        train(runs, "narrow", 640, serial=True)
