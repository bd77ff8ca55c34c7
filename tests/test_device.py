"""`--device cuda`: the crossing between CPU and device, and whole runs where there is a GPU."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import a3c_zoo
from a3c_zoo.learning.model import Model
from a3c_zoo.learning.networks import ActorCritic, OnDevice, check_device, in_training, seed_passes
from a3c_zoo.learning.objective import differentiate
from a3c_zoo.plugins import builtins
from a3c_zoo.store.checkpoints import resumable_checkpoint
from a3c_zoo.store.directory import RunDirectory
from tests.test_precision import OBJECTIVE, N, model, off_by, pictures, rollout
from tests.toys_runs import command_line
from tests.toys_spaces import env_name

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
needs_no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")


def on_device(name: str, device: str) -> Model:
    """`model(name, "float32")` with its network on a device."""
    plain = model(name, "float32")
    (entry,) = [e for e in builtins.zoo_networks() if e.name == name]
    moved = Model(plain.spaces, entry, plain.config, device)
    moved.flat.pull(plain.flat.values)
    return moved


def learned(made: Model, name: str) -> Tensor:
    """The gradient `[P]` over one rollout."""
    made.flat.zero_gradients()
    differentiate(made.network, made.spaces.actions, rollout(name), slice(0, N), OBJECTIVE)
    return made.flat.wide_gradients().clone()


def test_a_crossing_changes_nothing() -> None:
    plain, frames = model("conv42", "float32"), pictures("conv42")
    crossed = OnDevice(plain.module, "cpu")
    assert torch.equal(crossed.policy(frames[0]), plain.network.policy(frames[0]))
    logits, values = crossed.evaluate(frames)
    assert torch.equal(logits, plain.network.evaluate(frames)[0])
    plain.flat.zero_gradients()
    (logits.sum() + values.sum()).backward()
    ours = plain.flat.gradients.clone()
    plain.flat.zero_gradients()
    logits, values = plain.network.evaluate(frames)
    (logits.sum() + values.sum()).backward()
    assert ours.norm() > 0
    assert torch.equal(ours, plain.flat.gradients)
    assert crossed.scale == plain.module.scale  # what is no method is just read


@needs_no_gpu
def test_without_a_gpu_it_is_one_clear_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert command_line("train", "pong", "--device", "cuda", "--runs-dir", tmp_path / "r") == 2
    error = capfd.readouterr().err
    assert error.count("\n") == 1
    assert "no CUDA device is available here" in error
    assert "--device cpu" in error
    assert not (tmp_path / "r").exists()


@needs_no_gpu
def test_a_baseline_says_the_same(tmp_path: Path) -> None:
    with pytest.raises(a3c_zoo.ZooError, match="no CUDA device"):
        a3c_zoo.train("cartpole", agent="sb3-a2c", device="cuda", steps=100, runs_dir=tmp_path)


class Dropping(ActorCritic):
    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.5)

    def value(self, observations: Tensor) -> Tensor:
        dropped: Tensor = self.dropout(observations)
        return dropped


def dropped(network: Any) -> list[float]:
    with in_training(network):
        kept = network.value(torch.ones(64))
    return [float(number) for number in kept]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])
def test_dropout_on_a_device_draws_what_its_seed_says(device: str) -> None:
    """Otherwise all workers would drop the same units: each process begins with the same generator on the GPU."""
    network = OnDevice(Dropping().to(device), device)
    network.eval()
    generator = torch.cuda.default_generators[0] if device == "cuda" else torch.default_generator
    before = generator.get_state()
    drawn = []
    for seed in (1, 1, 2):
        seed_passes(network, seed)  # type: ignore[arg-type]
        drawn.append([dropped(network), dropped(network)])
    assert torch.equal(generator.get_state(), before)
    assert drawn[0] == drawn[1] != drawn[2]
    assert drawn[0][0] != drawn[0][1]
    assert sorted(set(drawn[0][0])) == [0, 2]


def test_the_cpu_is_always_there() -> None:
    check_device("cpu")


@needs_gpu
@pytest.mark.parametrize("name", ["conv42", "a3c-ff", "nature", "nature-dual", "nature-slim"])
def test_outputs_and_gradients_agree_with_the_cpu(name: str) -> None:
    here, there = model(name, "float32"), on_device(name, "cuda")
    assert there.flat.values.is_cuda
    assert there.flat.initial.device.type == "cpu"
    logits = there.network.policy(pictures(name)[0])
    assert logits.device.type == "cpu"
    assert off_by(here.network.policy(pictures(name)[0]), logits) < 0.01  # convolutions may use TF32
    gradient = learned(there, name)
    assert gradient.device.type == "cpu"
    assert off_by(learned(here, name), gradient) < 0.02


@needs_gpu
@pytest.mark.parametrize("options", [{}, {"agent": "sb3-a2c"}])
def test_it_trains_saves_and_acts_on_the_cpu(tmp_path: Path, options: dict[str, Any]) -> None:
    outcome = a3c_zoo.train("pong", device="cuda", steps=2_000, workers=1, runs_dir=tmp_path, **options)
    assert outcome.steps >= 2_000
    for tensor in _tensors(resumable_checkpoint(RunDirectory(outcome.run)).agent):
        assert tensor.device.type == "cpu"
    policy = a3c_zoo.load_agent(outcome.run)
    action, _ = policy.predict(torch.zeros((4, 42, 42) if not options else (4, 84, 84), dtype=torch.uint8).numpy())
    assert 0 <= int(action) < 6


@needs_gpu
@pytest.mark.parametrize(
    ("env", "options"),
    [
        ("cartpole", {"agent": "a3c-data"}),
        ("cartpole", {"agent": "a3c-grad"}),
        ("cartpole", {"overrides": {"network.recurrent": "gru", "network.separate": False}}),
        ("cartpole", {"agent": "a3c", "overrides": {"agent.clip_ratio": 0.2, "agent.epochs": 2}}),
        ("pong", {"overrides": {"network.recurrent": "lstm"}}),
        ("pong", {"overrides": {"network.name": "mixed"}}),
        ("gym:FrozenLake-v1", {}),
        (env_name("box", has_parts=True), {"overrides": {"network.normalize_observations": True}}),
        (env_name("choices"), {}),
        (env_name("coins", has_parts=True), {}),
    ],
)
def test_every_agent_core_and_space_trains_there(
    env: str, options: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """In two processes, whose warnings would be on the user's terminal, and the run can be resumed on the CPU."""
    run = a3c_zoo.train(env, device="cuda", steps=1_000, workers=2, runs_dir=tmp_path, **options).run
    resumed = a3c_zoo.train(resume=run, steps=2_000, device="cpu")
    assert resumed.steps >= 2_000
    assert "Warning" not in capfd.readouterr().err


@needs_gpu
def test_a_first_pass_does_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learned(on_device("conv42", "cuda"), "conv42")


def _tensors(content: Any) -> list[Tensor]:
    if isinstance(content, Tensor):
        return [content]
    parts = content.values() if isinstance(content, dict) else content if isinstance(content, list | tuple) else ()
    return [tensor for part in parts for tensor in _tensors(part)]
