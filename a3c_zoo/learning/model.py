"""A network with the spaces that it was built for: this is trained, saved and loaded."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, cast

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray
from pydantic import InstanceOf
from torch import Tensor
from torch.nn.parameter import UninitializedParameter
from torch.utils import _pytree as pytree

from a3c_zoo.config import Config
from a3c_zoo.config.sets import sets_for
from a3c_zoo.errors import ConfigError, ObservationError, PluginError, RunDirectoryError, type_and_message
from a3c_zoo.files import same_folder
from a3c_zoo.learning.action_masks import gives_masks, in_a_row
from a3c_zoo.learning.actions import (
    ActionDistribution,
    Product,
    action_distribution,
    choices_of,
    distribution_from,
    distribution_state,
    leaves_of,
    mask_length,
    masked_logits,
    within_masks,
)
from a3c_zoo.learning.background import background_of
from a3c_zoo.learning.buffers import Buffers, check_saved
from a3c_zoo.learning.environments import closed, make_vector_env
from a3c_zoo.learning.generators import lent_generator
from a3c_zoo.learning.memory_check import SizeLimit
from a3c_zoo.learning.networks import ActorCritic, OnDevice, WithDeviations, WithDeviationsOfParts
from a3c_zoo.learning.observation_statistics import ObservationStatistics
from a3c_zoo.learning.parameters import FlatParameters
from a3c_zoo.learning.recurrent import kept
from a3c_zoo.learning.spaces import ObservationSpec, as_batch, check_supported, observation_spec
from a3c_zoo.library_settings import kept_settings
from a3c_zoo.plugins.entries import EnvEntry, NetworkEntry, building, load_factory
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.plugins.variants import variant_of
from a3c_zoo.seeds import SEED_NETWORK, seed_for
from a3c_zoo.store.saved_state import fitting


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Within the context torch computes in one thread.

    Tensors of this size do not get faster with several threads. Beside other programs they get slower,
    because threads that wait for each other spin: an evaluation of 100 CartPole episodes on two busy cores
    took 0.4 s with one thread, 8 to 40 s with two. And with one thread results depend on the seed alone:
    orthogonal weights differ between one, two and eight threads.
    """
    with _THREADS_LOCK:
        _THREADS_BEFORE.append(torch.get_num_threads())
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _THREADS_LOCK:
            before = _THREADS_BEFORE.pop()
            if not _THREADS_BEFORE:  # the last user to leave finds what the first one found
                torch.set_num_threads(before)


#: torch's number of threads before each present user of `one_torch_thread`: runs may be side by side in
#: threads.
_THREADS_BEFORE: list[int] = []
_THREADS_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class Spaces:
    """How a model's observations are stored, and how its actions are distributed."""

    observations: ObservationSpec
    actions: ActionDistribution

    def state_dict(self) -> dict[str, Any]:
        """Returns the spaces as plain numbers and strings."""
        return {"observation": self.observations.state_dict(), "action": distribution_state(self.actions)}

    @classmethod
    def from_state_dict(cls, state: dict[str, Any]) -> Spaces:
        """Rebuilds the spaces from a `state_dict`. Raises RunDirectoryError if it is none."""
        try:
            model = cls(
                ObservationSpec.from_state_dict(state["observation"]), distribution_from(state["action"])
            )
            model._check_sizes()
        except Exception as error:
            raise RunDirectoryError(
                f"the checkpoint's spaces cannot be read: {type_and_message(error)}"
            ) from error
        return model

    def _check_sizes(self) -> None:
        """Raises ValueError for sizes that no space has."""
        seen = self.observations
        leaves = [leaf for _, leaf in leaves_of(self.actions)]
        logits = [leaf.num_logits for leaf in leaves]
        sizes = [
            seen.one_hot,
            *seen.shape,
            *(size for leaf in seen.leaves for size in (*leaf.shape, *leaf.sizes)),
        ]
        for acts in map(vars, leaves):
            sizes += [*acts.get("sizes", ()), *acts.get("space_shape", ())]
        sizes += logits
        if not all(type(size) is int and size >= 0 for size in sizes) or min(logits) < 1:
            raise ValueError("no space has such sizes")


def probe_spaces(
    entry: EnvEntry, network: NetworkEntry | None, config: Config, supported: Sequence[str]
) -> Spaces:
    """Makes one environment to read its spaces, and the background if the network needs it. Checks that all fit.

    Raises:
        ConfigError: the agent cannot act in the action space, or the network cannot take the observations.
    """
    with same_folder(), closed(make_vector_env(entry, config.env, 1, 0)) as env:
        action_space = env.single_action_space
        observation_space = env.single_observation_space
        check_supported(action_space, supported, config.agent_name, entry.name)
        spec = observation_spec(observation_space)
        if network is not None and spec.kind not in network.inputs:
            raise ConfigError(
                f"network '{network.name}' takes {' or '.join(network.inputs)} observations; environment "
                f"'{entry.name}' offers {observation_space}. {_other_network(entry, config, env)}"
            )
        if spec.kind == "image" and config.network is not None and config.network.needs_background:
            spec = replace(spec, background=background_of(env, config.env, entry.name, spec))
        has_masks = config.env.action_masks and _has_masks(env)
    return Spaces(
        spec,
        action_distribution(
            action_space,
            squash=config.agent.squashes_actions,
            uniform=network is None,
            has_masks=has_masks,
        ),
    )


def _other_network(entry: EnvEntry, config: Config, env: VectorEnv[Any, Any, Any]) -> str:
    """What to type in place of a network that cannot take the observations.

    The default set is that of the environment without wrappers, which may change what is observed.
    """
    variant = variant_of(env.single_observation_space, env.single_action_space)
    wanted = config.agent_name + (f"-{variant}" if variant else "")
    source = config.sources.get("network.name", "").partition(":")[0]
    is_of_other_set = source.endswith(".yml") and not source.endswith(f"/{wanted}.yml")
    names = [each.name for each in sets_for(get_registry(), entry)]
    if config.env.wrappers and is_of_other_set and wanted in names:
        return f"Type the set for what the wrappers make of it: --hyperparams {wanted}"
    return "Choose another: a3c-zoo list networks"


def _has_masks(env: VectorEnv[Any, Any, Any]) -> bool:
    """Whether an environment gives action masks, with the first episode or by a method."""
    try:
        with kept_settings():
            info = env.reset(seed=0)[1]
    except Exception:  # a worker resets it again, and raises the error
        info = {}
    return gives_masks(env, info)


@dataclass(frozen=True, slots=True)
class SavedModel:
    """A checkpoint's part for a model.

    Attributes:
        spaces: `Spaces.state_dict`. shapes: `[name, shape]` of each parameter. parameters: `[P]`, float32.
        statistics: the tensor of `ObservationStatistics`, None where the network takes none.
        buffers: what the network keeps beside its parameters, by name (`Buffers`).
    """

    spaces: dict[str, Any]
    shapes: list[list[Any]]
    parameters: InstanceOf[Tensor]
    statistics: InstanceOf[Tensor] | None
    buffers: dict[str, InstanceOf[Tensor]] = field(default_factory=dict)

    def check(
        self, spaces: Spaces, entry: NetworkEntry, config: Config, num_members: int | None = None
    ) -> None:
        """Compares shapes, dtypes and numbers of elements with those of a network, before it has any memory.

        Args:
            num_members: rows of the observation statistics; None for any number.

        Raises:
            RunDirectoryError: the checkpoint is of another network.
        """
        module = sketch(spaces, entry, config, [self.parameters, self.buffers])
        shapes = shapes_of(module)
        for theirs, ours in itertools.zip_longest(self.shapes, shapes):
            if theirs is None or ours is None:
                raise RunDirectoryError(
                    f"the checkpoint is of another network: {len(self.shapes)} parameters there, {len(shapes)} here"
                )
            if theirs != ours:
                first_difference = " ".join(map(str, theirs))[:100]
                raise RunDirectoryError(
                    f"the checkpoint is of another network: {first_difference} there, {ours[0]} {ours[1]} here"
                )
        size = sum(prod(shape) for _, shape in shapes)
        fitting(self.parameters, torch.empty(size, device="meta"), "agent.model.parameters")
        check_saved(self.buffers, module)
        if module.normalizes:
            there = self.statistics
            rows = num_members or (0 if there is None or not there.dim() else len(there))
            with torch.device("meta"):
                like = ObservationStatistics.zeros(rows, spaces.observations.num_features)
            fitting(self.statistics, like, "agent.model.statistics")

    def adopted(self, num_members: int) -> SavedModel:
        """For another run of equal spaces, with the statistics of `num_members`."""
        seen = self.statistics
        if seen is not None:
            seen = ObservationStatistics(seen).gathered(num_members)
        return replace(self, statistics=seen)


DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class Model:
    """A network, its flat parameters, its buffers, and its spaces.

    Args:
        device: "cpu" or "cuda", for the network alone; its callers stay on the CPU (`OnDevice`).
    """

    def __init__(self, spaces: Spaces, entry: NetworkEntry, config: Config, device: str = "cpu") -> None:
        assert config.network is not None
        self.spaces = spaces
        self.config = config
        self.device = device
        with lent_generator():
            self.module = build_module(spaces, entry, config)
        self.module.eval()  # `in_training` is the exception
        dtype = DTYPES[config.network.computes_in]
        self.buffers = Buffers(self.module, device)
        self.buffers.check_precision(dtype, entry.name)
        self.flat = FlatParameters(self.module, dtype, device)
        if device == "cpu":
            self.network = self.module
        else:
            self.network = cast("ActorCritic", OnDevice(self.module, device))

    @classmethod
    def create(cls, spaces: Spaces, entry: NetworkEntry, config: Config) -> Model:
        """Returns a new model, with initial parameters drawn from the run's seed."""
        with one_torch_thread(), lent_generator():
            torch.manual_seed(seed_for(config.run.seed, SEED_NETWORK))
            return cls(spaces, entry, config)

    @classmethod
    def load(cls, saved: SavedModel, entry: NetworkEntry, config: Config) -> Model:
        """Returns a model with a checkpoint's parameters and observation statistics.

        Raises:
            RunDirectoryError: the checkpoint is of another network.
        """
        spaces = Spaces.from_state_dict(saved.spaces)
        saved.check(spaces, entry, config)
        model = cls(spaces, entry, config)
        model.pull(saved.parameters, saved.statistics, saved.buffers)
        return model

    def pull(self, parameters: Tensor, statistics: Tensor | None, buffers: Mapping[str, Tensor]) -> None:
        """Copies shared parameters `[P]`, observation statistics, or None, and buffers into the network."""
        self.flat.pull(parameters)
        self.pull_statistics(statistics)
        self.buffers.pull(buffers)

    def pull_statistics(self, statistics: Tensor | None) -> None:
        """Copies observation statistics, or None, into the network."""
        if statistics is not None:
            mean, scale = ObservationStatistics(statistics).mean_and_scale()
            self.module.take_statistics(mean.to(self.device), scale.to(self.device))


def build_module(spaces: Spaces, entry: NetworkEntry, config: Config) -> ActorCritic:
    """Builds a network for spaces, with initial parameters.

    Raises:
        PluginError: the factory cannot be imported, fails, or returns something else.
    """
    title = f"network '{entry.name}'"
    num_logits = spaces.actions.num_logits
    build = load_factory(title, entry.factory)
    with building(title):
        module = build(spaces.observations, num_logits, config.network)
    if not isinstance(module, ActorCritic):
        raise PluginError(f"{title}: the factory must return an ActorCritic, not a {type(module).__name__}")
    parameters = list(module.parameters())
    if not parameters:
        raise PluginError(f"{title} has no parameters, so nothing can be learned")
    if any(isinstance(parameter, UninitializedParameter) for parameter in parameters):
        raise PluginError(
            f"{title} has lazy layers, whose sizes are not known: give them, or call the network once in its factory"
        )
    num_deviations = spaces.actions.num_deviations
    if not num_deviations:
        return module
    kind = WithDeviationsOfParts if isinstance(spaces.actions, Product) else WithDeviations
    return kind(module, num_deviations, config.agent.first_deviation)


def sketch(spaces: Spaces, entry: NetworkEntry, config: Config, saved: Any) -> ActorCritic:
    """Builds a network on torch's device "meta", where parameters have shapes, but no numbers and no memory.

    A network that cannot be built without numbers is built in the CPU's memory, within the size of what is
    `saved`.
    """
    try:
        with torch.device("meta"):
            return build_module(spaces, entry, config)
    except Exception:
        with SizeLimit(saved):
            return build_module(spaces, entry, config)


def shapes_of(module: ActorCritic) -> list[list[Any]]:
    """`[name, shape]` of each parameter, in their order in the flat tensor."""
    return [[name, list(p.shape)] for name, p in module.named_parameters()]


def saved_model(
    model: Model, parameters: Tensor, statistics: Tensor | None, buffers: Mapping[str, Tensor]
) -> SavedModel:
    """Copies parameters `[P]`, observation statistics, if any, and buffers for a checkpoint."""
    if statistics is None:
        seen = None
    else:
        seen = ObservationStatistics(statistics).copy()
    kept = {name: buffer.clone() for name, buffer in buffers.items()}
    return SavedModel(model.spaces.state_dict(), shapes_of(model.module), parameters.clone(), seen, kept)


class ModelPolicy:
    """Acts with the present parameters of a network; `predict` is that of stable-baselines3."""

    def __init__(self, spaces: Spaces, network: ActorCritic, seed: int = 0) -> None:
        self.spaces = spaces
        self.network = network
        self._generator = torch.Generator().manual_seed(seed)

    @torch.no_grad()
    def predict(
        self,
        observation: Any,
        state: tuple[NDArray[Any], ...] | None = None,
        episode_start: NDArray[np.bool_] | None = None,
        deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[Any, tuple[NDArray[Any], ...] | None]:
        """Returns actions for observations `[N, ...]`, or one action for one observation, and the next state.

        Actions are an array `[N, ...]`; in a Dict or a Tuple space, a dictionary or a tuple of arrays.

        Args:
            state: the state that the last call returned; None at first. With a recurrent core these are
                arrays `[1, N, H]` as in sb3-contrib: output and cell of an LSTM, or the state of a GRU.
                Without a core the state is returned unchanged.
            episode_start: which observations begin an episode, `[N]`; their states become 0.
            deterministic: take the most probable actions instead of sampling.
            action_masks: which actions are allowed, `[N, A]`, or `[A]` for one observation, bool or 0 and 1; as in
                sb3-contrib. In a Dict or a Tuple space they may be a dictionary or a tuple of those of the parts.
                Needed if the environment gives masks.

        Raises:
            ObservationError: an observation, a state or a mask has the wrong shape, or masks are missing.
        """
        distribution = self.spaces.actions
        batch, is_single = as_batch(self.spaces.observations, observation)
        masks = given_masks(distribution, action_masks, len(batch))
        rows = torch.from_numpy(batch)
        start = self.network.start(len(batch))
        if start is None:
            logits = self.network.policy(rows)
        else:
            logits, after = self.network.step(rows, core_state(start, state, episode_start))
            state = tuple(after.unsqueeze(1).numpy())
        if masks is not None:  # also if the policy was trained without
            distribution = within_masks(distribution)
            logits = masked_logits(distribution, logits, masks)
        if deterministic:
            actions = distribution.mode(logits)
        else:
            actions = torch.empty((len(batch), *distribution.shape), dtype=distribution.dtype)
            noise = distribution.noise(torch.empty(len(batch), distribution.num_logits), self._generator)
            distribution.sample(logits, noise, actions)
        chosen = distribution.to_env(actions.numpy())
        # A single action is an array without axes, as SB3's is.
        if is_single:
            chosen = pytree.tree_map(lambda array: array.squeeze(axis=0), chosen)
        return chosen, state


def given_masks(distribution: ActionDistribution, action_masks: Any, count: int) -> Tensor | None:
    """The masks that `predict` was given as `[count, A]`, bool; None without masks.

    Raises:
        ObservationError: they are missing, have the wrong shape, or forbid every action.
    """
    size = mask_length(distribution)
    if action_masks is None:
        if distribution.has_masks:
            raise ObservationError(
                f"the policy acts within action masks: give action_masks, bools of shape [{count}, {size}]"
            )
        return None
    if not size:
        raise ObservationError("action_masks are for Discrete and MultiDiscrete actions; the policy has none")
    try:
        if isinstance(action_masks, tuple | Mapping):
            action_masks = in_a_row(distribution, action_masks)
        masks = np.atleast_2d(np.asarray(action_masks))
    except (TypeError, ValueError, LookupError) as error:
        raise ObservationError(
            f"action_masks do not fit the action space: {type_and_message(error)}"
        ) from error
    if masks.shape != (count, size) or masks.dtype.kind not in "biu":
        raise ObservationError(
            f"action_masks must be of bool and shape [{count}, {size}]; got {masks.dtype} {list(masks.shape)}"
        )
    allowed = torch.from_numpy(masks.astype(np.bool_))
    sizes = list(choices_of(distribution))
    if not all(part.any(dim=-1).all() for part in torch.split(allowed, sizes, dim=-1)):
        raise ObservationError("action_masks forbid every action")
    return allowed


def core_state(start: Tensor, state: tuple[NDArray[Any], ...] | None, episode_start: Any) -> Tensor:
    """Returns the state `[K, N, H]` that `predict` was given, or `start`; 0 where an episode begins.

    Raises:
        ObservationError: the state is none of numbers, or it or `episode_start` has the wrong shape.
    """
    if state is None:
        return start
    wanted = [[1, *start.shape[1:]]] * len(start)
    expected = f"the state of the recurrent core has shapes {wanted}"
    try:
        parts = [np.asarray(part, np.float32) for part in state]
    except (TypeError, ValueError) as error:
        raise ObservationError(f"{expected}; got {type(state).__name__}: {error}") from error
    shapes = [list(part.shape) for part in parts]
    if shapes != wanted:
        raise ObservationError(f"{expected}; got {shapes}")
    whole = torch.from_numpy(np.concatenate(parts))
    if episode_start is None:
        return whole
    try:
        begins = np.atleast_1d(np.asarray(episode_start, np.bool_))
    except (TypeError, ValueError) as error:
        raise ObservationError(f"episode_start has shape {list(whole.shape[1:2])}: {error}") from error
    if begins.shape != whole.shape[1:2]:
        raise ObservationError(f"episode_start has shape {list(whole.shape[1:2])}; got {list(begins.shape)}")
    return kept(whole, begins)
