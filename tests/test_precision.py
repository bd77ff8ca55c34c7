"""bfloat16 held against float32: outputs, losses, gradients, and where each of the two is used."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from gymnasium import spaces
from torch import Tensor, nn

import a3c_zoo
from a3c_zoo import hardware
from a3c_zoo.agents.configs import A3CConfig
from a3c_zoo.comparison.known_runs import KnownRuns
from a3c_zoo.comparison.methods import Method
from a3c_zoo.comparison.plan import Budget, PlannedRun, plan_method
from a3c_zoo.comparison.trainings import _not_as_planned
from a3c_zoo.config import Config, EnvConfig, OptimizerConfig, RunConfig
from a3c_zoo.config.sets import resolve_config
from a3c_zoo.learning.actions import Categorical
from a3c_zoo.learning.model import Model, Spaces
from a3c_zoo.learning.network_configs import ImageConfig
from a3c_zoo.learning.objective import Objective, differentiate
from a3c_zoo.learning.parameters import FlatParameters
from a3c_zoo.learning.rollout import Rollout
from a3c_zoo.learning.spaces import observation_spec
from a3c_zoo.plugins import builtins
from a3c_zoo.plugins.entries import load_object
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.runs.setup import RunSetup
from a3c_zoo.store.checkpoints import resumable_checkpoint
from a3c_zoo.store.directory import RunDirectory, describe_host
from a3c_zoo.store.timing_file import write_timing
from tests.test_run_directory import outcome

T, N, ACTIONS = 5, 4, 6
NAMES = [entry.name for entry in builtins.zoo_networks() if entry.config.endswith("ImageConfig")]
OBJECTIVE = Objective(0.99, 0.95, entropy_coefficient=0.01, value_coefficient=0.25)

#: bfloat16 keeps 8 bits of a number: one rounding is off by at most 2⁻⁹ = 0.2 % of it. Through the three to five layers
#: of these networks and back, this share of the float32 norm may be lost. Measured: outputs 0.7 %, losses 0.8 %,
#: gradients 0.9 % (conv42) to 3.6 % (a3c-ff), the worst layer's 9 % (a3c-ff, a bias of one number).
OUTPUT_TOLERANCE, LOSS_TOLERANCE, GRADIENT_TOLERANCE, LAYER_TOLERANCE = 0.015, 0.015, 0.06, 0.12


def model(name: str, precision: str) -> Model:
    """Frames as Pong's set prepares them; the policy head's small first weights times 30, so that logits differ."""
    size = 42 if name == "conv42" else 84
    spec = observation_spec(spaces.Box(0, 255, (4, size, size), np.uint8))
    (entry,) = [entry for entry in builtins.zoo_networks() if entry.name == name]
    network = ImageConfig.model_validate({"name": name, "precision": precision, "center": 106, "scale": 0.02})
    config = Config("pong", "a3c", RunConfig(), EnvConfig(), A3CConfig(), network, OptimizerConfig())
    made = Model.create(Spaces(spec, Categorical(ACTIONS)), entry, config)
    with torch.no_grad():
        made.network.get_parameter("actor.weight").mul_(30)
    return made


def pictures(name: str) -> Tensor:
    """`[T+1, N, 4, H, W]`: blocks of grey, as games have, rather than noise, which convolutions average away."""
    size = 42 if name == "conv42" else 84
    blocks = torch.randint(256, (T + 1, N, 4, 6, 6), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    return blocks.repeat_interleave(size // 6, -1).repeat_interleave(size // 6, -2)


def rollout(name: str) -> Rollout:
    random = np.random.default_rng(2)
    return Rollout(
        observations=pictures(name),
        actions=torch.from_numpy(random.integers(ACTIONS, size=(T, N))),
        rewards=random.choice([-1.0, 0, 1], size=(T, N)).astype(np.float32),
        terminated=random.random((T, N)) < 0.1,
        truncated=np.zeros((T, N), np.bool_),
        valid=np.ones((T, N), np.bool_),
    )


def off_by(theirs: Tensor, ours: Tensor) -> float:
    """‖theirs − ours‖ / ‖theirs‖."""
    theirs = theirs.detach()
    return float(torch.linalg.vector_norm(theirs - ours.detach()) / torch.linalg.vector_norm(theirs))


@pytest.mark.parametrize("name", NAMES)
def test_outputs_agree(name: str) -> None:
    wide, narrow = model(name, "float32"), model(name, "bfloat16")
    assert narrow.flat.values.dtype == torch.bfloat16
    assert torch.equal(wide.flat.initial, narrow.flat.initial)
    with torch.no_grad():
        outputs = [each.network.evaluate(pictures(name)) for each in (wide, narrow)]
    for ours, theirs in zip(*outputs, strict=True):
        assert ours.dtype == theirs.dtype == torch.float32
        assert ours.std() > 0.01
        assert off_by(ours, theirs) < OUTPUT_TOLERANCE


@pytest.mark.parametrize("name", NAMES)
def test_losses_and_gradients_agree(name: str) -> None:
    learned = [_learn(model(name, precision), name) for precision in ("float32", "bfloat16")]
    (wide, wide_gradient), (narrow, narrow_gradient) = learned
    assert narrow_gradient.dtype == torch.float32
    assert off_by(wide_gradient, narrow_gradient) < GRADIENT_TOLERANCE
    for loss in ("loss_policy", "loss_value", "loss_total", "entropy"):
        scale = max(abs(wide[loss]), 1.0)  # positive and negative samples cancel in the policy's
        assert abs(wide[loss] - narrow[loss]) < LOSS_TOLERANCE * scale, loss


def _learn(made: Model, name: str) -> tuple[dict[str, float], Tensor]:
    made.flat.zero_gradients()
    statistics = differentiate(
        made.network, made.spaces.actions, rollout(name), slice(0, N), OBJECTIVE, want_metrics=True
    )
    return statistics, made.flat.wide_gradients().clone()


@pytest.mark.parametrize("name", NAMES)
def test_each_layers_gradient_agrees(name: str) -> None:
    """The norm of the whole is that of its largest layer; a wrong small one would hide behind it.

    A layer is its weights and its bias: the gradient of the critic's one bias is a sum of errors that nearly cancel.
    """
    wide, narrow = _layer_gradients(name, "float32"), _layer_gradients(name, "bfloat16")
    assert wide.keys() == narrow.keys()
    for layer, ours in wide.items():
        assert off_by(ours, narrow[layer]) < LAYER_TOLERANCE, layer


def _layer_gradients(name: str, precision: str) -> dict[str, Tensor]:
    made = model(name, precision)
    _learn(made, name)
    layers: dict[str, list[Tensor]] = {}
    for label, parameter in made.network.named_parameters():
        assert parameter.grad is not None
        layers.setdefault(label.rpartition(".")[0], []).append(parameter.grad.float().flatten())
    return {layer: torch.cat(parts) for layer, parts in layers.items()}


# Flat parameters


class Two(nn.Module):
    """Parameters `[1, 1/3]` and `[2]`."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.tensor([1.0, 1 / 3]))
        self.b = nn.Parameter(torch.tensor([[2.0]]))


def test_the_modules_tensors_are_views_in_bfloat16() -> None:
    module = Two()
    flat = FlatParameters(module, torch.bfloat16)
    assert (flat.values.dtype, flat.gradients.dtype, flat.initial.dtype) == (torch.bfloat16,) * 2 + (torch.float32,)
    flat.values[2] = 5
    assert module.b.item() == 5
    (module.a.sum() + 3 * module.b.sum()).backward()
    assert flat.gradients.tolist() == [1, 1, 3]
    flat.zero_gradients()
    assert module.a.grad is not None
    assert module.a.grad.tolist() == [0, 0]


def test_a_pull_rounds_the_shared_parameters_and_leaves_them_as_they_are() -> None:
    module = Two()
    flat = FlatParameters(module, torch.bfloat16)
    shared = torch.tensor([1.0, 1 / 3, 2.0009765625])
    flat.pull(shared)
    assert module.a.tolist() == [1, 0.333984375]  # 171 / 512: the nearest number of 8 bits
    assert module.b.tolist() == [[2.0]]
    assert shared.tolist() == pytest.approx([1, 1 / 3, 2.0009765625], rel=1e-7)


def test_what_is_too_small_for_bfloat16_is_kept_in_the_shared_parameters() -> None:
    """A hundred updates of a thousandth each: in bfloat16, 1 + 0.001 is 1."""
    flat, shared = FlatParameters(Two(), torch.bfloat16), torch.ones(3)
    for _ in range(100):
        flat.pull(shared)
        shared += 0.001
    assert (flat.values[0] + 0.001).item() == flat.values[0].item()
    flat.pull(shared)
    assert flat.values.tolist() == [1.1015625] * 3  # the nearest to 1.1


def test_wide_gradients_are_the_same_tensor_at_every_call() -> None:
    """The optimizer and the norm work on it; a new one each time would cost a copy of all parameters."""
    flat = FlatParameters(Two(), torch.bfloat16)
    flat.gradients.copy_(torch.tensor([1.0, 2.0, 3.0]))
    first = flat.wide_gradients()
    flat.gradients.mul_(2)
    second = flat.wide_gradients()
    assert first is second
    assert second.dtype == torch.float32
    assert second.tolist() == [2, 4, 6]
    second.mul_(10)  # clipping
    assert flat.gradients.tolist() == [2, 4, 6]


def test_in_float32_nothing_is_copied() -> None:
    flat = FlatParameters(Two())
    assert flat.wide_gradients() is flat.gradients
    assert flat.values.dtype == torch.float32
    assert flat.values.data_ptr() != flat.initial.data_ptr()


# What "auto" means

FAST, SLOW = "fpu avx2 avx512f amx_bf16 amx_tile", "fpu avx2 avx512f avx512_bf16"


def cpu(monkeypatch: pytest.MonkeyPatch, flags: str, vendor: str = "GenuineIntel") -> None:
    found = {"flags": flags, "model name": "A Processor", "vendor_id": vendor}
    monkeypatch.setattr(hardware, "_cpu_info", lambda: found)


@pytest.mark.parametrize(
    ("flags", "vendor", "is_fast"),
    [
        (FAST, "GenuineIntel", True),
        ("amx_bf16", "", True),
        (SLOW, "GenuineIntel", False),
        (SLOW, "AuthenticAMD", True),
        ("avx512f", "AuthenticAMD", False),
        ("", "", False),
        ("amx_tile", "GenuineIntel", False),
        ("not_amx_bf16", "GenuineIntel", False),
    ],
)
def test_which_processors_multiply_bfloat16(
    flags: str, vendor: str, is_fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu(monkeypatch, flags, vendor)
    assert hardware.has_fast_bfloat16() == is_fast
    assert ImageConfig(name="a3c-ff").settled("cpu", 1).precision == ("bfloat16" if is_fast else "float32")
    assert hardware.cpu_model() == "A Processor"


def test_what_linux_says_of_a_processor() -> None:
    text = f"processor\t: 0\nmodel name\t: A Processor: fast\nflags\t\t: {FAST}\n\nprocessor\t: 1\nflags\t\t: {SLOW}\n"
    assert hardware.parse_cpu_info(text) == {"processor": "0", "model name": "A Processor: fast", "flags": FAST}
    assert hardware.parse_cpu_info("") == {}


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_what_was_asked_for_stays(precision: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for flags in (FAST, SLOW):
        cpu(monkeypatch, flags)
        assert ImageConfig(name="conv42", precision=precision).settled("cpu", 1).precision == precision


@pytest.mark.parametrize(
    ("name", "recurrent", "num_envs", "device", "chosen"),
    [
        ("conv42", "none", 1, "cpu", "float32"),
        ("conv42", "none", 2, "cpu", "bfloat16"),
        ("nature", "none", 1, "cpu", "bfloat16"),
        ("conv42", "lstm", 8, "cpu", "float32"),
        ("nature", "lstm", 8, "cpu", "bfloat16"),
        ("nature", "none", 8, "cuda", "float32"),
    ],
)
def test_auto_is_what_is_faster(
    name: str, recurrent: Any, num_envs: int, device: str, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu(monkeypatch, FAST)
    model = load_object(get_registry().network(name).config)
    config = model(name=name, recurrent=recurrent)
    assert config.settled(device, num_envs).precision == chosen


@pytest.mark.parametrize(("flags", "chosen"), [(FAST, "bfloat16"), (SLOW, "float32")])
def test_a_run_knows_what_auto_was(flags: str, chosen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cpu(monkeypatch, flags)
    registry = get_registry()
    overrides = ["network.precision=auto"]
    config = resolve_config(registry, registry.env("pong"), registry.agent("a3c"), overrides=overrides)
    assert isinstance(config.network, ImageConfig)
    assert config.network.precision == chosen


def test_a_run_is_the_same_whatever_auto_was_on_the_machines_of_an_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = get_registry()

    def planned(*overrides: str) -> Config:
        return resolve_config(registry, registry.env("pong"), registry.agent("a3c"), overrides=overrides)

    cpu(monkeypatch, FAST)
    host, setup = describe_host(), RunSetup.of(registry, planned(), serial=False)
    directory = RunDirectory.create(tmp_path, setup.config, setup.meta(), "there")
    (directory.path / "monitor.csv").write_text('#{"t_start": 1.0, "env_id": "pong"}\nr,l,t,step,worker\n')
    directory.write_outcome(replace(outcome(directory.path), reason="steps"))
    write_timing(directory.path, 0.2, 0.0, {})
    directory.unlock()
    cpu(monkeypatch, SLOW)
    assert KnownRuns(registry, tmp_path, reuse=True, host=host).same(planned()) == directory.path
    assert KnownRuns(registry, tmp_path, reuse=True).same(planned()) is None
    for given in "float32", "auto":
        assert KnownRuns(registry, tmp_path, True, host).same(planned(f"network.precision={given}")) is None


def test_a_run_with_another_precision_than_the_given_one_is_not_the_planned_run(tmp_path: Path) -> None:
    registry = get_registry()
    known = KnownRuns(registry, tmp_path, reuse=False)

    def planned(*overrides: str) -> PlannedRun:
        method = Method("a3c", registry.agent("a3c"), overrides=overrides)
        return plan_method(registry, registry.env("pong"), method, Budget(steps=100_000)).run(registry, 1, known)

    setup = RunSetup.of(registry, planned("network.precision=bfloat16").config, serial=False)
    directory = RunDirectory.create(tmp_path, setup.config, setup.meta(), "there")
    directory.unlock()
    fault = _not_as_planned(planned("network.precision=float32"), directory.path)
    assert fault is not None
    assert fault.startswith("it was trained with other values of network.precision than planned")
    assert _not_as_planned(planned(), directory.path) is None  # auto


# A run


def test_workers_train_in_bfloat16_on_parameters_in_float32(tmp_path: Path) -> None:
    settings = ["precision=bfloat16", "env.num_envs=2", "run.workers=2", "n_steps=10", "update_samples=10"]
    outcome = a3c_zoo.train("pong", steps=200, seed=5, runs_dir=tmp_path, overrides=settings)
    assert (outcome.reason, outcome.steps >= 200) == ("steps", True)
    config = yaml.safe_load((outcome.run / "config.yml").read_text())
    assert config["network"]["precision"] == "bfloat16"
    state = resumable_checkpoint(RunDirectory(outcome.run)).agent
    parameters = state["model"]["parameters"]
    assert parameters.dtype == torch.float32
    assert torch.isfinite(parameters).all()
    assert not torch.equal(parameters, parameters.bfloat16().float())  # they were not rounded on the way
    assert {tensor.dtype for tensor in state["optimizer"].values()} == {torch.float32}
    assert state["optimizer"]["step"] == outcome.updates > 0
    action, _ = a3c_zoo.load_agent(outcome.run).predict(np.zeros((4, 84, 84), np.uint8))
    assert action in range(6)
