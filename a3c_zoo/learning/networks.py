"""Actor-critic networks: observations in, logits and values out."""

from __future__ import annotations

import functools
import inspect
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.utils import _pytree as pytree

from a3c_zoo.errors import ConfigError
from a3c_zoo.learning.generators import global_generator, lent_generator

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "elu": functional.elu,
}

Layer = TypeVar("Layer", nn.Linear, nn.Conv2d)

#: Layers that compute the same in training and evaluation mode, like those of a3c-zoo itself.
WITHOUT_MODES = (
    nn.Linear,
    nn.Conv2d,
    nn.LayerNorm,
    nn.ReLU,
    nn.Tanh,
    nn.Flatten,
    nn.Sequential,
    nn.ModuleList,
)

#: Normalised observations are clipped to ± this many standard deviations.
OBSERVATION_LIMIT = 10.0


class Shortcut(nn.Module):
    """Layers whose `compute` leaves out torch's call of each one, and so its hooks, but for `ActorCritic.forward`."""

    def __init__(self) -> None:
        super().__init__()
        self.compute = self.shortcut

    def shortcut(self, x: Tensor) -> Tensor:
        """What `forward` returns."""
        raise NotImplementedError


def _missing(network: nn.Module, method: str) -> NotImplementedError:
    """The error of a method that a network needs and does not define."""
    return NotImplementedError(f"{type(network).__name__} defines no method {method}()")


class ActorCritic(nn.Module):
    """The interface that the stages use. B stands for one or more leading axes.

    Attributes:
        normalizes: whether the network takes observation statistics (`take_statistics`).
        draws_on: devices from whose global generators Dropout and its like draw, the CPU first.
        pass_states: of these generators, for the next pass `in_training`; None before `seed_passes`.
    """

    normalizes: bool = False
    draws_on: tuple[str, ...] = ("cpu",)
    pass_states: list[Tensor] | None = None

    @functools.cached_property
    def has_modes(self) -> bool:
        """Whether a layer may compute differently in training mode, as Dropout and BatchNorm do.

        It takes 50 µs to change the mode of a small network, so networks that do not need it are spared.
        """
        others = (type(layer) for layer in self.modules() if type(layer) not in WITHOUT_MODES)
        return any(not kind.__module__.startswith("a3c_zoo.") for kind in others)

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Logits `[B, A]` and values `[B]` for observations `[B, ...]`, for tools that call or hook modules.

        With a recurrent core the observations are the first of their episodes. Training calls the methods
        below.
        """
        layers = [layer for layer in self.modules() if isinstance(layer, Shortcut)]
        try:
            for layer in layers:
                layer.compute = layer.__call__
            start = self.start(len(observations))
            if start is None:
                return self.act(observations)
            return self.step(observations, start)[0], self.value_after(observations, start)
        finally:
            for layer in layers:
                layer.compute = layer.shortcut

    def policy(self, observations: Tensor) -> Tensor:
        """Logits `[B, A]` for observations `[B, ...]`: all that acting needs."""
        raise _missing(self, "policy")

    def value(self, observations: Tensor) -> Tensor:
        """State values `[B]`, float32, for observations `[B, ...]`."""
        raise _missing(self, "value")

    def act(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Logits `[B, A]` and values `[B]` for observations `[B, ...]`."""
        return self.policy(observations), self.value(observations)

    def evaluate(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Logits `[T·N, A]` of the first T rows and values `[(T+1)·N]` of all, for observations `[T+1, N, ...]`."""
        acted = observations[:-1].flatten(0, 1)
        return self.policy(acted), self.value(observations.flatten(0, 1))

    def take_statistics(self, mean: Tensor, scale: Tensor) -> None:
        """Takes the mean of observations and 1 / their standard deviation, both `[F]`, if `normalizes` is true."""
        raise _missing(self, "take_statistics")

    # A network with a recurrent core has these in place of the three methods above. States are `[K, N, H]`.

    def start(self, num_envs: int) -> Tensor | None:
        """The core's state at the start of an episode in N environments; None for a network without a core."""
        return None

    def step(self, observations: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Logits `[N, A]` for observations `[N, ...]`, and the state after them."""
        raise _missing(self, "step")

    def value_after(self, observations: Tensor, state: Tensor) -> Tensor:
        """Values `[N]` of observations `[N, ...]` that follow a state."""
        raise _missing(self, "value_after")

    def unroll(
        self,
        observations: Tensor,
        state: Tensor,
        resets: NDArray[np.bool_],
        places: Sequence[tuple[int, int]],
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One pass over a rollout, as `evaluate`, with a recurrent core.

        Args:
            observations: `[T+1, N, ...]`. state: before row 0.
            resets: rows before which the state becomes 0, `[T+1, N]`.
            places: pairs of row t and environment n; each resets before row t+1.

        Returns:
            Logits `[T·N, A]`, values `[(T+1)·N]`, and the state after row t in environment n for each place,
            `[K, places, H]`, without gradient.
        """
        raise _missing(self, "unroll")


class Split(ActorCritic):
    """A network of a body and two heads, each a method of its own, so that a recurrent core can stand between them.

    Attributes:
        num_features: F, the number of outputs of the body.
    """

    num_features: int

    def policy(self, observations: Tensor) -> Tensor:
        return self.logits(self.features(observations))

    def value(self, observations: Tensor) -> Tensor:
        return self.values(self.features(observations))

    def act(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        features = self.features(observations)
        return self.logits(features), self.values(features)

    def evaluate(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        features = self.features(observations.flatten(0, 1))
        return self.logits(features[: -observations.shape[1]]), self.values(features)

    def features(self, observations: Tensor) -> Tensor:
        """`[B, F]` for observations `[B, ...]`, in the network's precision."""
        raise _missing(self, "features")

    def logits(self, outputs: Tensor) -> Tensor:
        """Logits `[B, A]`, float32, for features `[B, F]` or outputs `[B, H]` of a core, in any precision."""
        raise _missing(self, "logits")

    def values(self, outputs: Tensor) -> Tensor:
        """Values `[B]`, float32, for features `[B, F]` or outputs `[B, H]` of a core, in any precision."""
        raise _missing(self, "values")


class WithDeviations(ActorCritic):
    """A Gaussian policy: a network whose outputs are means μ `[B, D]`, and log σ `[D]`, which is appended to each row.

    σ does not depend on the observation. Any network can be wrapped, with or without a core.

    Args:
        network: its policy outputs are D means. num_actions: D. deviation: σ before training.
    """

    network: Any  # an ActorCritic; Any, like all attributes of an nn.Module
    log_std: nn.Parameter

    def __init__(self, network: ActorCritic, num_actions: int, deviation: float = 1.0) -> None:
        super().__init__()
        self.network = network
        self.log_std = nn.Parameter(torch.full((num_actions,), math.log(deviation)))
        for name in ("normalizes", "take_statistics", "value", "value_after", "start"):
            setattr(self, name, getattr(network, name))  # the network's own

    def policy(self, observations: Tensor) -> Tensor:
        return self._complete(self.network.policy(observations))

    def act(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        means, values = self.network.act(observations)
        return self._complete(means), values

    def evaluate(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        means, values = self.network.evaluate(observations)
        return self._complete(means), values

    def step(self, observations: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        means, state = self.network.step(observations, state)
        return self._complete(means), state

    def unroll(self, *arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
        means, values, states = self.network.unroll(*arguments)
        return self._complete(means), values, states

    def _complete(self, means: Tensor) -> Tensor:
        return torch.cat((means, self.log_std.float().expand_as(means)), dim=-1)


class WithDeviationsOfParts(WithDeviations):
    """The same where Box actions are some of several parts: D of the network's outputs `[B, K]` are means."""

    def _complete(self, means: Tensor) -> Tensor:
        deviations = self.log_std.float().expand(*means.shape[:-1], -1)
        return torch.cat((means, deviations), dim=-1)


def orthogonal(layer: Layer, gain: float) -> Layer:
    """Gives a layer orthogonal weights (Saxe et al. 2014, arXiv:1312.6120) and zero biases; returns it."""
    nn.init.orthogonal_(layer.weight, gain)
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)
    return layer


def as_made(layer: Layer, gain: float) -> Layer:
    """Leaves a layer its initial weights: uniform, up to 1 / √(number of inputs). The gain counts for nothing."""
    return layer


def check_device(device: str) -> None:
    """Raises ConfigError if torch cannot compute on a device, "cpu" or "cuda", of this machine."""
    if device == "cpu" or torch.cuda.is_available():
        return
    if torch.version.cuda is None:
        build = "is the CPU build"
    else:
        build = f"is built for CUDA {torch.version.cuda}"
    raise ConfigError(
        f"run.device: {device} — no CUDA device is available here (torch {torch.__version__} {build}). "
        "Train on the CPU: --device cpu"
    )


def seed_passes(network: ActorCritic, seed: int) -> None:
    """Seeds what Dropout draws in the next passes. No checkpoint holds it: each rollout or update has a seed."""
    network.pass_states = [
        torch.Generator(device).manual_seed(seed).get_state() for device in network.draws_on
    ]


@contextmanager
def in_training(network: ActorCritic) -> Iterator[None]:
    """Within the context, a network is in torch's training mode; it is in evaluation mode at all other times.

    Only the pass that is differentiated is within: Dropout drops units there, and BatchNorm normalises by the
    batch. Without gradients the mode stays as it is. Dropout draws from numbers of the network's own
    (`seed_passes`).
    """
    if not (torch.is_grad_enabled() and network.has_modes):
        yield
        return
    network.train()
    generators = [global_generator(device) for device in network.draws_on]
    try:
        with lent_generator(generators[1:]):
            if network.pass_states is not None:
                for generator, state in zip(generators, network.pass_states, strict=True):
                    generator.set_state(state)
            yield
            network.pass_states = [generator.get_state() for generator in generators]
    finally:
        network.eval()


class OnDevice:
    """A network on a GPU for callers on the CPU: arguments are copied to the device, results are copied back.

    Shared parameters, rollouts and the optimizer stay in the CPU's memory. Gradients flow back through the
    copies. Frames are copied as uint8; logits, values and their gradients are small.
    """

    def __init__(self, module: nn.Module, device: str) -> None:
        self._module = module
        self._device = torch.device(device)
        self.draws_on = tuple(dict.fromkeys(("cpu", device)))
        self.pass_states: list[Tensor] | None = None
        if device != "cpu":
            _begin(device)

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._module, name)
        if not inspect.ismethod(attribute):
            return attribute
        call = functools.partial(self._call, attribute)
        setattr(self, name, call)  # the next access finds it directly
        return call

    def _call(self, method: Any, *arguments: Any) -> Any:
        there = pytree.tree_map_only(Tensor, lambda tensor: tensor.to(self._device), arguments)
        return pytree.tree_map_only(Tensor, lambda tensor: tensor.cpu(), method(*there))


def _begin(device: str) -> None:
    """Makes torch load its libraries for a GPU: the first pass of a network is then as fast as the others.

    torch computes gradients in a thread of its own and warns once that it has no CUDA context yet, which it
    then makes.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Attempting to run cuBLAS", UserWarning)
        weight = torch.ones(1, 1, device=device, requires_grad=True)
        torch.autograd.grad((weight @ weight).sum(), weight)
    # Parameters are views of one tensor, and cuDNN copies those of a recurrent core for each call.
    warnings.filterwarnings("ignore", "RNN module weights are not part of single", UserWarning)
