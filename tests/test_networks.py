"""Networks: shapes, gradients, and that the one pass for learning tells what the passes for acting tell."""

from __future__ import annotations

import re
from contextlib import ExitStack
from dataclasses import replace
from math import sqrt, tanh
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from a3c_zoo.agents.configs import A3CConfig
from a3c_zoo.config import Config, EnvConfig, NetworkConfig, OptimizerConfig, RunConfig
from a3c_zoo.errors import PluginError, RunDirectoryError
from a3c_zoo.learning.actions import Categorical, action_distribution
from a3c_zoo.learning.mlp import MLP, build_mlp
from a3c_zoo.learning.model import Model, ModelPolicy, Spaces, one_torch_thread, saved_model
from a3c_zoo.learning.network_configs import CoreConfig, MLPConfig
from a3c_zoo.learning.network_outputs import check_outputs
from a3c_zoo.learning.networks import ActorCritic, Split, WithDeviations
from a3c_zoo.learning.parameters import FlatParameters
from a3c_zoo.learning.recurrent import with_core
from a3c_zoo.learning.spaces import ObservationSpec, observation_spec
from a3c_zoo.plugins.entries import NetworkEntry, load_factory, load_object
from a3c_zoo.plugins.registry import get_registry
from tests.toys import TinyNetwork

VECTOR = observation_spec(spaces.Box(-1, 1, (4,), np.float32))
MATRIX = observation_spec(spaces.Box(-1, 1, (2, 3), np.float64))
SCALAR = observation_spec(spaces.Box(-1, 1, (), np.float32))
INTEGER = observation_spec(spaces.Discrete(5))


def observations(spec: ObservationSpec, *batch: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    if spec.one_hot:
        return torch.randint(spec.one_hot, batch, generator=generator)
    return torch.randn(*batch, *spec.shape, generator=generator).to(torch.from_numpy(np.zeros(0, spec.dtype)).dtype)


def shapes(network: ActorCritic) -> dict[str, tuple[int, ...]]:
    return {name: tuple(p.shape) for name, p in network.named_parameters()}


class TestMLP:
    def test_separate_bodies(self) -> None:
        network = MLP(VECTOR, 3, MLPConfig(hidden_sizes=(8, 6)))
        assert shapes(network) == {
            "actor.layers.0.weight": (8, 4),
            "actor.layers.0.bias": (8,),
            "actor.layers.1.weight": (6, 8),
            "actor.layers.1.bias": (6,),
            "actor.layers.2.weight": (3, 6),
            "actor.layers.2.bias": (3,),
            "critic.layers.0.weight": (8, 4),
            "critic.layers.0.bias": (8,),
            "critic.layers.1.weight": (6, 8),
            "critic.layers.1.bias": (6,),
            "critic.layers.2.weight": (1, 6),
            "critic.layers.2.bias": (1,),
        }

    def test_one_body(self) -> None:
        network = MLP(VECTOR, 3, MLPConfig(hidden_sizes=(8, 6), separate=False))
        assert shapes(network) == {
            "body.layers.0.weight": (8, 4),
            "body.layers.0.bias": (8,),
            "body.layers.1.weight": (6, 8),
            "body.layers.1.bias": (6,),
            "actor.layers.0.weight": (3, 6),
            "actor.layers.0.bias": (3,),
            "critic.layers.0.weight": (1, 6),
            "critic.layers.0.bias": (1,),
        }

    @pytest.mark.parametrize("separate", [True, False])
    def test_no_hidden_layer_at_all(self, separate: bool) -> None:
        network = MLP(VECTOR, 3, MLPConfig(hidden_sizes=(), separate=separate))
        with torch.no_grad():
            network.get_parameter("actor.layers.0.weight").copy_(torch.eye(3, 4))
        assert network.policy(torch.tensor([[1.0, 2, 3, 4]])).tolist() == [[1, 2, 3]]
        assert network.value(torch.zeros(5, 4)).shape == (5,)

    @pytest.mark.parametrize("separate", [True, False])
    def test_by_hand(self, separate: bool) -> None:
        # one input, one hidden unit with the weight 2, outputs with the weights 3 and −3 / 5: 3·tanh(2x), 5·tanh(2x)
        network = MLP(
            observation_spec(spaces.Box(-1, 1, (1,), np.float32)), 2, MLPConfig(hidden_sizes=(1,), separate=separate)
        )
        last = 1 if separate else 0
        with torch.no_grad():
            for tower in ("actor", "critic") if separate else ("body",):
                network.get_parameter(f"{tower}.layers.0.weight").fill_(2)
            network.get_parameter(f"actor.layers.{last}.weight").copy_(torch.tensor([[3.0], [-3.0]]))
            network.get_parameter(f"critic.layers.{last}.weight").fill_(5)
        x = torch.tensor([[0.5], [0.0]])
        torch.testing.assert_close(network.policy(x).detach(), torch.tensor([[3 * tanh(1), -3 * tanh(1)], [0.0, 0.0]]))
        torch.testing.assert_close(network.value(x).detach(), torch.tensor([5 * tanh(1), 0.0]))

    @pytest.mark.parametrize("activation", ["tanh", "relu", "elu"])
    @pytest.mark.parametrize("separate", [True, False])
    @pytest.mark.parametrize("spec", [VECTOR, MATRIX, SCALAR, INTEGER], ids=["vector", "matrix", "scalar", "discrete"])
    def test_evaluate_equals_policy_and_value(self, spec: ObservationSpec, separate: bool, activation: Any) -> None:
        network = MLP(spec, 3, MLPConfig(hidden_sizes=(8,), separate=separate, activation=activation))
        batch = observations(spec, 6, 2)  # T = 5 steps and the row after, N = 2
        logits, values = network.evaluate(batch)
        assert (logits.shape, values.shape, values.dtype) == ((10, 3), (12,), torch.float32)
        for t in range(6):
            torch.testing.assert_close(values[2 * t : 2 * t + 2], network.value(batch[t]))
            if t < 5:
                torch.testing.assert_close(logits[2 * t : 2 * t + 2], network.policy(batch[t]))
        # and the inherited form, which any network may keep
        plain_logits, plain_values = ActorCritic.evaluate(network, batch)
        torch.testing.assert_close(plain_logits, logits)
        torch.testing.assert_close(plain_values, values)

    def test_evaluate_of_some_columns(self) -> None:
        """A slice of environments is not contiguous in memory."""
        network = MLP(VECTOR, 3, MLPConfig(hidden_sizes=(8,)))
        batch = observations(VECTOR, 4, 3)
        logits, values = network.evaluate(batch[:, 1:2])
        torch.testing.assert_close(logits, network.policy(batch[:3, 1]))
        torch.testing.assert_close(values, network.value(batch[:, 1]))

    def test_separate_bodies_share_no_gradient_and_one_body_does(self) -> None:
        for separate in (True, False):
            network = MLP(VECTOR, 3, MLPConfig(hidden_sizes=(8,), separate=separate))
            FlatParameters(network)
            network.value(observations(VECTOR, 7)).sum().backward()
            reached = {name.split(".")[0] for name, p in network.named_parameters() if p.grad.abs().sum() > 0}  # type: ignore[union-attr]
            assert reached == ({"critic"} if separate else {"body", "critic"})

    @pytest.mark.parametrize("separate", [True, False])
    def test_it_computes_with_the_flat_parameters(self, separate: bool) -> None:
        """The layers keep their weights in a tuple besides: these must follow every pull."""
        network = MLP(VECTOR, 3, MLPConfig(hidden_sizes=(8,), separate=separate))
        flat = FlatParameters(network)
        flat.pull(torch.zeros_like(flat.values))
        assert network.policy(observations(VECTOR, 2)).tolist() == [[0, 0, 0]] * 2
        assert network.value(observations(VECTOR, 2)).tolist() == [0, 0]
        network.evaluate(observations(VECTOR, 3, 2))[1].sum().backward()
        assert flat.gradients[-1] == 6  # the bias of the value: 1 for each of 3·2 values

    def test_initial_weights(self) -> None:
        # Orthogonal, gain 5/3 for tanh: the 4 columns of the first layer [8, 4] have the length 5/3 and are at right
        # angles. Logits start near 0 (gain 0.01), so that the first policy is nearly uniform.
        network = MLP(VECTOR, 3, MLPConfig(hidden_sizes=(8,)))
        first = network.get_parameter("critic.layers.0.weight").detach()
        torch.testing.assert_close(first.T @ first, (5 / 3) ** 2 * torch.eye(4), rtol=1e-4, atol=1e-4)
        last = network.get_parameter("actor.layers.1.weight").detach()
        torch.testing.assert_close(last @ last.T, 1e-4 * torch.eye(3), rtol=1e-4, atol=1e-7)
        assert network.get_parameter("critic.layers.1.weight").norm().item() == pytest.approx(1, rel=1e-4)
        assert all((p == 0).all() for name, p in network.named_parameters() if name.endswith("bias"))
        relu = (
            MLP(VECTOR, 3, MLPConfig(hidden_sizes=(8,), activation="relu"))
            .get_parameter("critic.layers.0.weight")
            .detach()
        )
        torch.testing.assert_close(relu.norm(dim=0), torch.full((4,), sqrt(2)), rtol=1e-4, atol=1e-4)

    def test_entry_factory(self) -> None:
        assert isinstance(build_mlp(VECTOR, 3, MLPConfig()), MLP)


class TestForward:
    """`network(x)`, as hooks and tools such as torchinfo use it."""

    @pytest.mark.parametrize("name", sorted(get_registry().networks))
    @pytest.mark.parametrize("core", ["none", "lstm"])
    def test_every_layer_is_called_and_the_outputs_are_those_of_acting(self, name: str, core: str) -> None:
        entry = get_registry().network(name)
        model = load_object(entry.config)
        if core != "none" and (not issubclass(model, CoreConfig) or name == "nature-dual"):
            pytest.skip(f"{name} has no core")
        config = model(
            name=name,
            **({} if core == "none" else {"recurrent": core}),
            **({"separate": False} if name == "mlp" else {}),
        )
        space: spaces.Space[Any] = spaces.Box(0, 255, (4, 42, 42), np.uint8)
        spec = VECTOR if "vector" in entry.inputs else observation_spec(space)
        with one_torch_thread():
            network: ActorCritic = load_factory(name, entry.factory)(spec, 3, config)
        leaves = {
            part: layer
            for part, layer in network.named_modules()
            if next(layer.children(), None) is None and not isinstance(layer, nn.ModuleList)
        }
        called = set[str]()
        for part, layer in leaves.items():
            layer.register_forward_hook(lambda layer, inputs, outputs, part=part: called.add(part))
        rows = observations(VECTOR, 2) if spec is VECTOR else torch.zeros(2, 4, 42, 42, dtype=torch.uint8)

        logits, values = network(rows)

        assert called == leaves.keys()
        assert (logits.shape, values.shape) == ((2, 3), (2,))
        start = network.start(2)
        expected = network.policy(rows) if start is None else network.step(rows, start)[0]
        torch.testing.assert_close(logits, expected, rtol=0, atol=0)
        called.clear()
        network.policy(rows) if start is None else network.step(rows, start)
        assert not any(part.startswith(("actor.layers", "network.actor.layers")) for part in called)  # it is fast again

    def test_a_network_of_others_gets_it(self) -> None:
        network = TinyNetwork()
        rows = observations(VECTOR, 3)
        logits, values = network(rows)
        torch.testing.assert_close(logits, network.policy(rows))
        torch.testing.assert_close(values, network.value(rows))

    def test_a_gaussian_policy_has_its_deviations(self) -> None:
        network = WithDeviations(MLP(VECTOR, 2, MLPConfig()), 2)
        rows = observations(VECTOR, 3)
        torch.testing.assert_close(network(rows)[0], network.policy(rows))


class TestInheritedEvaluate:
    def test_by_hand(self) -> None:
        # V(s) = s[0]; θ = 0. T = 2, N = 2; time is the first axis, so rows come step by step.
        batch = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]).unsqueeze(-1)
        logits, values = TinyNetwork().evaluate(batch)
        assert logits.shape == (4, 2)
        assert values.tolist() == [1, 2, 3, 4, 5, 6]


MLP_ENTRY = NetworkEntry("mlp", "a3c_zoo.learning.mlp:build_mlp")


def config(seed: int = 0, network: NetworkConfig | None = None) -> Config:
    return Config(
        "toy",
        "a3c",
        RunConfig(seed=seed),
        EnvConfig(),
        A3CConfig(),
        network or MLPConfig(hidden_sizes=(8,)),
        OptimizerConfig(),
    )


class TestModel:
    SPACES = Spaces(VECTOR, Categorical(3, 5))

    def test_initial_parameters_come_from_the_seed_alone(self) -> None:
        one = Model.create(self.SPACES, MLP_ENTRY, config(1)).flat.values
        torch.rand(3)  # whatever else has drawn from torch's own generator
        assert torch.equal(one, Model.create(self.SPACES, MLP_ENTRY, config(1)).flat.values)
        assert not torch.equal(one, Model.create(self.SPACES, MLP_ENTRY, config(2)).flat.values)

    def test_making_one_leaves_torchs_generator_alone(self) -> None:
        before = torch.get_rng_state()
        Model.create(self.SPACES, MLP_ENTRY, config())
        assert torch.equal(before, torch.get_rng_state())

    def test_save_and_load(self) -> None:
        model = Model.create(self.SPACES, MLP_ENTRY, config(1))
        saved = saved_model(model, model.flat.values, None, {})
        before = model.flat.values.clone()
        model.flat.values.zero_()
        other = Model.load(saved, MLP_ENTRY, config(2))
        assert torch.equal(other.flat.values, before)
        assert Spaces.from_state_dict(saved.spaces) == self.SPACES

    @pytest.mark.parametrize(
        ("network", "message"),
        [
            (
                MLPConfig(hidden_sizes=(9,)),
                r"actor\.layers\.0\.weight \[8, 4\] there, actor\.layers\.0\.weight \[9, 4\] here",
            ),
            (
                MLPConfig(hidden_sizes=(8, 8)),
                r"actor\.layers\.1\.weight \[3, 8\] there, actor\.layers\.1\.weight \[8, 8\] here",
            ),
            (MLPConfig(hidden_sizes=(8,), separate=False), r"actor\.layers\.0\.weight \[8, 4\] there, body"),
        ],
    )
    def test_a_checkpoint_of_another_network_is_refused(self, network: MLPConfig, message: str) -> None:
        saved = saved_model(model := Model.create(self.SPACES, MLP_ENTRY, config()), model.flat.values, None, {})
        with pytest.raises(RunDirectoryError, match=message):
            Model.load(saved, MLP_ENTRY, config(network=network))

    def test_a_checkpoint_with_fewer_parameters_is_refused(self) -> None:
        saved = saved_model(model := Model.create(self.SPACES, MLP_ENTRY, config()), model.flat.values, None, {})
        with pytest.raises(RunDirectoryError, match="2 parameters there, 8 here"):
            Model.load(replace(saved, shapes=saved.shapes[:2]), MLP_ENTRY, config())

    def test_a_network_that_needs_numbers_is_built_no_larger_than_its_checkpoint(self) -> None:
        entry = NetworkEntry("asking", "tests.toys:build_asking")
        saved = saved_model(model := Model.create(self.SPACES, entry, config()), model.flat.values, None, {})
        assert torch.equal(Model.load(saved, entry, config()).flat.values, model.flat.values)
        spaces = saved.spaces | {"observation": ["vector", [200_000], "<f4", 0]}
        with pytest.raises(RunDirectoryError, match="the checkpoint is of a smaller network: it has 116 numbers"):
            Model.load(replace(saved, spaces=spaces), entry, config())


class Columns(Split):
    """Its values have an axis too many."""

    def __init__(self, spec: ObservationSpec, num_logits: int, config: CoreConfig) -> None:
        super().__init__()
        self.spec, self.num_features = spec, spec.num_features
        width = config.recurrent_size if config.has_core else spec.num_features
        self.actor, self.critic = nn.Linear(width, num_logits), nn.Linear(width, 1)

    def features(self, observations: torch.Tensor) -> torch.Tensor:
        return self.spec.encode(observations)

    def logits(self, outputs: torch.Tensor) -> Any:
        return self.actor(outputs)

    def values(self, outputs: torch.Tensor) -> Any:
        return self.critic(outputs)


class WithLastRow(Columns):
    """It learns from the logits of the last row, too."""

    def values(self, outputs: torch.Tensor) -> Any:
        return super().values(outputs).squeeze(-1)

    def evaluate(self, observations: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.act(observations.flatten(0, 1))


def build_columns(spec: ObservationSpec, num_logits: int, config: CoreConfig) -> ActorCritic:
    return with_core(Columns(spec, num_logits, config), config)


class TestCheckOutputs:
    @staticmethod
    def model(entry: NetworkEntry, space: spaces.Space[Any], core: str = "none") -> Model:
        kind = CoreConfig(name="toy", recurrent=core, recurrent_size=8)
        return Model.create(Spaces(VECTOR, action_distribution(space)), entry, config(network=kind))

    @pytest.mark.parametrize(
        ("factory", "core", "fault"),
        [
            ("test_networks:build_columns", "none", ": value() returned float32 [2, 1], where float32 [2] is expected"),
            ("test_networks:build_columns", "gru", ": value_after() returned float32 [2, 1], where float32 [2] is"),
            ("test_networks:WithLastRow", "none", ": evaluate() returned float32 [2, 3], where float32 [1, 3] is"),
            ("toys_checks:Doubles", "none", ": policy() returned float64 [2, 3], where float32 [2, 3] is expected"),
            ("toys_checks:Wider", "none", ": policy() returned float32 [2, 4], where float32 [2, 3] is expected"),
            ("toys_checks:Silent", "none", " fails: NotImplementedError: Silent defines no method logits() (in "),
        ],
    )
    @pytest.mark.parametrize("space", [spaces.Discrete(3), spaces.Box(-1, 1, (3,))], ids=["discrete", "box"])
    def test_faults(self, factory: str, core: str, fault: str, space: spaces.Space[Any]) -> None:
        entry = NetworkEntry("toy", f"tests.{factory}")
        model = self.model(entry, space, core)
        with pytest.raises(PluginError, match=re.escape(f"network 'toy'{fault}")):
            check_outputs(model, entry)

    def test_it_changes_nothing(self) -> None:
        entry = NetworkEntry("toy", "tests.toys_checks:Normed")
        model, random = self.model(entry, spaces.Discrete(3)), torch.get_rng_state()
        before = {name: tensor.clone() for name, tensor in model.module.state_dict().items()}
        check_outputs(model, entry)
        assert all(torch.equal(before[name], tensor) for name, tensor in model.module.state_dict().items())
        assert torch.equal(torch.get_rng_state(), random)
        assert not model.module.training


def test_torch_gets_its_threads_back_with_the_last_user_of_one_thread() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        with ExitStack() as first, ExitStack() as second:  # side by side, in no order
            first.enter_context(one_torch_thread())
            second.enter_context(one_torch_thread())
            first.close()
            assert torch.get_num_threads() == 1
            second.close()
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


class TestModelPolicy:
    def policy(self, spec: ObservationSpec = VECTOR) -> ModelPolicy:
        """Prefers the third of the actions 5, 6, 7 by far."""
        model = Model.create(Spaces(spec, Categorical(3, 5)), MLP_ENTRY, config())
        with torch.no_grad():
            model.network.get_parameter("actor.layers.1.bias")[2] = 100
        return ModelPolicy(model.spaces, model.network)

    @pytest.mark.parametrize("deterministic", [True, False])
    def test_a_batch_or_one(self, deterministic: bool) -> None:
        policy = self.policy()
        actions, state = policy.predict(np.zeros((2, 4), np.float32), None, None, deterministic)
        assert (actions.tolist(), state) == ([7, 7], None)
        action, _ = policy.predict(np.zeros(4, np.float32), deterministic=deterministic)
        assert action.shape == ()
        assert int(action) == 7

    def test_integer_observations(self) -> None:
        assert self.policy(INTEGER).predict(np.array([0, 4]))[0].tolist() == [7, 7]
        assert int(self.policy(INTEGER).predict(3)[0]) == 7

    def test_lists_and_other_dtypes_are_taken(self) -> None:
        assert int(self.policy().predict([0, 0, 0, 0])[0]) == 7

    @pytest.mark.parametrize("shape", [(3,), (2, 5), (1, 2, 4), ()])
    def test_another_shape_is_refused(self, shape: tuple[int, ...]) -> None:
        with pytest.raises(ValueError, match=r"an observation has shape \[4\]"):
            self.policy().predict(np.zeros(shape, np.float32))

    def test_samples_come_from_its_seed(self) -> None:
        model = Model.create(Spaces(VECTOR, Categorical(3)), MLP_ENTRY, config())
        batch = np.zeros((50, 4), np.float32)
        one, same, other = (
            ModelPolicy(model.spaces, model.network, seed).predict(batch)[0].tolist() for seed in (1, 1, 2)
        )
        assert one == same
        assert one != other
        assert set(one) == {0, 1, 2}
