"""The check of a network: the shapes of its outputs, its gradients, and what it depends on."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector.utils import batch_space
from torch import Tensor

from a3c_zoo.config import AgentConfig, Config, EnvConfig, NetworkConfig, RunConfig
from a3c_zoo.learning.actions import Categorical
from a3c_zoo.learning.buffers import buffers_of
from a3c_zoo.learning.generators import lent_generator
from a3c_zoo.learning.model import Model, Spaces
from a3c_zoo.learning.network_outputs import fault_of
from a3c_zoo.learning.networks import in_training, seed_passes
from a3c_zoo.learning.recurrent import kept
from a3c_zoo.learning.spaces import ObservationSpec, observation_spec
from a3c_zoo.plugins.entries import NetworkEntry
from a3c_zoo.testing.conformance import check_entry
from a3c_zoo.testing.findings import Findings

#: Observation spaces that networks are tried with; each network gets those of the kinds that it claims.
EXAMPLES: tuple[spaces.Space[Any], ...] = (
    spaces.Box(-1.0, 1.0, (4,)),
    spaces.Discrete(5),
    spaces.Dict({"place": spaces.Box(-1.0, 1.0, (2,)), "room": spaces.Discrete(3)}),
    spaces.Box(0, 255, (4, 84, 84), np.uint8),
    spaces.Dict({"view": spaces.Box(0, 255, (3, 84, 84), np.uint8), "place": spaces.Box(-1.0, 1.0, (2,))}),
)
#: Rows, environments and logits of the outputs that are checked.
T, N, A = 4, 3, 5
#: Largest difference of outputs that should be equal; bfloat16 has 8 bits.
TOLERANCE = {"float32": 1e-4, "bfloat16": 5e-2}
#: How far each weight moves between two updates that are checked.
MOVE = 0.01

CURE_SHAPES = "return what docs/how-to/write-a-network.md says"
CURE_CORE = "let unroll() do what step() does row by row; before a row of resets the state becomes 0"
CURE_ROWS = "let outputs depend on their own observation alone; nn.Dropout and nn.BatchNorm do, while acting"
CURE_KEPT = "compute it in features(), policy() or value(), each time that they are called"
CURE_MORE = (
    "compute what depends on weights in features(), policy() or value(); keep the rest with register_buffer()"
)
CURE_DOMAIN = (
    "keep what goes into a root, a logarithm or a divisor positive for all weights: softplus, or + ε"
)
CURE_FROZEN = "leave it so, if it shall stay as it is, or leave out requires_grad_(False)"


def check_network(entry: NetworkEntry) -> None:
    """Builds a network for example observations, as `a3c-zoo check` does; checks its outputs and gradients.

    Raises:
        AssertionError: with one line on the first fault.
    """
    examine_network(entry, Findings(f"network '{entry.name}'", raises=True))


def examine_network(entry: NetworkEntry, findings: Findings) -> None:
    """Builds a network with its defaults for example observations of each kind that it claims."""
    config = None
    with findings.during("entry", "correct the entry"):
        model = check_entry(entry, "zoo_networks", NetworkConfig, findings, factory=entry.factory)
        kinds = get_args(get_type_hints(ObservationSpec)["kind"])
        unknown = [kind for kind in entry.inputs if kind not in kinds]
        cure = f"it may have: {', '.join(kinds)}"
        if not entry.inputs:
            findings.problem("inputs", "inputs is empty, so no environment fits it", cure)
        elif unknown:
            message = f"inputs has {', '.join(unknown)}, so no environment fits it"
            findings.problem("inputs", message, cure)
        config = model(name=entry.name).settled("cpu", N)
    for space in EXAMPLES if config is not None else ():
        spec = observation_spec(space)
        if spec.kind in entry.inputs:
            check = f"{spec.kind}, {type(space).__name__}"
            with findings.during(
                check, f"correct the network, or leave '{spec.kind}' out of NetworkEntry.inputs"
            ):
                _Examined(entry, config, space, findings, check).examine()


class _Examined:
    """A network for one observation space, with random observations `[T+1, N, ...]`."""

    def __init__(
        self,
        entry: NetworkEntry,
        config: NetworkConfig,
        space: spaces.Space[Any],
        findings: Findings,
        check: str,
    ) -> None:
        self._spec = observation_spec(space)
        self._findings = findings
        self._check = check
        self._model, self._same, self._other = (self._made(entry, config, seed) for seed in (0, 0, 1))
        self._tolerance = TOLERANCE[config.computes_in]
        self._module: Any = self._model.module
        batch: Any = batch_space(space, (T + 1) * N)
        batch.seed(0)
        rows = batch.sample()
        if self._spec.leaves:
            rows = self._spec.flatten(rows)[0]
        self._observations = torch.from_numpy(rows.reshape(T + 1, N, *self._spec.shape))
        self._start: Tensor | None = self._module.start(N)
        self._resets = np.zeros((T + 1, N), np.bool_)
        self._resets[1, 0] = True  # the first environment begins an episode

    def _made(self, entry: NetworkEntry, config: NetworkConfig, seed: int) -> Model:
        whole = Config("check", "check", RunConfig(seed=seed), EnvConfig(), AgentConfig(), config)
        return Model.create(Spaces(self._spec, Categorical(A)), entry, whole)

    def examine(self) -> None:
        """Runs all checks."""
        first, second = (model.flat.initial for model in (self._model, self._same))
        message = "two networks of one seed have different weights: runs cannot be repeated"
        self._findings.expect(
            torch.equal(first, second), self._check, message, "draw weights from torch's generator"
        )
        with torch.no_grad():
            if self._start is None:
                self._check_outputs()
            else:
                self._check_core(self._start)
        self._check_gradients()
        if self._findings.is_sound:
            self._check_loaded()
        self._findings.ok(self._check, f"shapes and gradients; {len(first):,} parameters")

    def _check_outputs(self) -> None:
        network = self._module
        rows = self._observations[0]
        logits = network.policy(rows)
        values = network.value(rows)
        self._expect_shape("policy()", logits, (N, A))
        self._expect_shape("value()", values, (N,))
        self._expect_equal("policy() of the same observations", logits, network.policy(rows))
        self._expect_equal("policy() of one observation alone", logits[:1], network.policy(rows[:1]))
        acted = network.act(rows)
        self._expect_equal("act()", logits, acted[0])
        self._expect_equal("act()", values, acted[1])
        all_logits, all_values = network.evaluate(self._observations)
        self._expect_shape("evaluate()", all_logits, (T * N, A))
        self._expect_shape("evaluate()", all_values, ((T + 1) * N,))
        self._expect_equal("evaluate()", logits, all_logits[:N])
        self._expect_equal("evaluate()", values, all_values[:N])

    def _check_core(self, start: Tensor) -> None:
        network = self._module
        rows = self._observations[0]
        later = self._observations[1]
        logits, state = network.step(rows, start)
        self._expect_shape("step()", logits, (N, A))
        self._expect_shape("the state after step()", state, tuple(start.shape))
        values = network.value_after(rows, start)
        self._expect_shape("value_after()", values, (N,))
        later_logits, _ = network.step(later, kept(state, self._resets[1]))
        all_logits, all_values, states = network.unroll(self._observations, start, self._resets, [(0, 0)])
        self._expect_shape("unroll()", all_logits, (T * N, A))
        self._expect_shape("unroll()", all_values, ((T + 1) * N,))
        self._expect_shape("the states of unroll()", states, tuple(state[:, :1].shape))
        expected = torch.cat((logits, later_logits)), values, state[:, :1]
        second_run = all_logits[: 2 * N], all_values[:N], states
        for name, first, second in zip(("logits", "values", "states"), expected, second_run, strict=True):
            is_equal = torch.allclose(first, second, atol=self._tolerance)
            message = f"{name} of unroll() differ from those of step() and value_after()"
            self._findings.expect(is_equal, self._check, message, CURE_CORE)

    def _expect_shape(self, what: str, output: Any, shape: tuple[int, ...]) -> None:
        """Stops unless an output is finite float32 of this shape."""
        if fault := fault_of(what, output, shape):
            self._findings.stop(self._check, fault, CURE_SHAPES)
        finite = bool(torch.isfinite(output).all())
        self._findings.expect(
            finite, self._check, f"{what} returned numbers that are not finite", "scale the inputs"
        )

    def _expect_equal(self, what: str, expected: Tensor, given: Tensor) -> None:
        is_equal = expected.shape == given.shape and torch.allclose(expected, given, atol=self._tolerance)
        self._findings.expect(
            is_equal, self._check, f"{what} gives other numbers than policy() and value()", CURE_ROWS
        )

    def _check_gradients(self) -> None:
        """Every parameter gets a finite gradient in two updates, in the flat tensor that optimizers see."""
        self._update(is_moved=False)
        try:
            self._update(is_moved=True)
        except RuntimeError as error:
            if "through the graph a second time" not in str(error):
                raise
            message = "a second update fails: the network keeps something that it computed from its weights"
            self._findings.stop(self._check, message, CURE_KEPT, error)
        places = self._model.flat.gradients.untyped_storage().data_ptr()
        for name, parameter in self._module.named_parameters():
            gradient = parameter.grad
            if gradient is None or gradient.untyped_storage().data_ptr() != places:
                message = f"the gradient of {name} is no view of the flat gradients any more"
                self._findings.problem(self._check, message, "never replace a parameter or its .grad")
            elif not parameter.requires_grad:
                message = f"{name} is not trained: its requires_grad is False, so its gradient stays 0"
                self._findings.warn(self._check, message, CURE_FROZEN)
            elif not gradient.any():
                message = f"{name} gets no gradient: policy and value do not depend on it"
                self._findings.warn(self._check, message, "leave it out, or use it")

    def _update(self, is_moved: bool) -> None:
        """Computes gradients as an update does, with the network in training mode, and moves the weights.

        is_moved: whether they have moved before.
        """
        flat = self._model.flat
        flat.zero_gradients()
        seed_passes(self._module, 0)
        with lent_generator(), in_training(self._module):
            logits, values = self._outputs(self._module)
        # No two outputs count the same: BatchNorm takes away what all rows have in common.
        loss = (torch.linspace(1, 2, logits.numel()).view_as(logits) * logits).sum()
        loss += (torch.linspace(1, 2, values.numel()) * values).sum()
        torch.autograd.backward(loss)
        if not torch.isfinite(flat.wide_gradients()).all():
            if is_moved:
                message = f"after each weight has moved by {MOVE}, gradients are not finite"
                self._findings.stop(self._check, message, CURE_DOMAIN)
            self._findings.stop(self._check, "gradients are not finite", "scale the inputs")
        flat.values.sub_(flat.gradients.sign(), alpha=MOVE)

    def _outputs(self, network: Any) -> tuple[Tensor, Tensor]:
        """Logits `[T·N, A]` and values `[(T+1)·N]`."""
        if self._start is None:
            logits, values = network.evaluate(self._observations)
        else:
            logits, values, _ = network.unroll(self._observations, self._start, self._resets, [(0, 0)])
        return logits, values

    def _check_loaded(self) -> None:
        """A new network computes the same as this one from its weights and buffers, as from a checkpoint."""
        self._other.pull(self._model.flat.values, None, buffers_of(self._module))
        with torch.no_grad():
            ours = self._outputs(self._module)
            theirs = self._outputs(self._other.module)
        for first, second in zip(ours, theirs, strict=True):
            if not torch.allclose(first, second, atol=self._tolerance):
                message = "a new network with the same weights and buffers returns other numbers"
                self._findings.stop(self._check, message, CURE_MORE)
