"""How rollouts store the observations of Gymnasium's spaces, and how networks get them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from gymnasium import Space, spaces
from numpy.typing import NDArray
from torch import Tensor

from a3c_zoo.errors import ConfigError, ObservationError, UnsupportedSpaceError
from a3c_zoo.plugins.variants import class_names

SUPPORTED = "Box (vectors and images), Discrete, MultiDiscrete, MultiBinary, and Dict and Tuple of these"


@dataclass(frozen=True, slots=True)
class Leaf:
    """One array within an observation of several parts.

    Attributes:
        path: keys and numbers that lead to it. shape: its shape without batch axes.
        sizes: for integers that stand for one-hot vectors, how many values each has; empty for plain numbers.
        start: the first value of each such integer.
        is_image: whether it is an image of bytes or bools, `[channels, height, width]` or `[height, width,
            channels]`.
    """

    path: tuple[str | int, ...]
    shape: tuple[int, ...]
    sizes: tuple[int, ...] = ()
    start: tuple[int, ...] = ()
    is_image: bool = False

    @property
    def num_features(self) -> int:
        """Its length within the vector."""
        if self.sizes:
            return sum(self.sizes)
        return prod(self.shape)

    def of(self, observation: Any) -> Any:
        """The array in an observation."""
        for key in self.path:
            observation = observation[key]
        return np.asarray(observation)

    def write(self, array: NDArray[Any], target: NDArray[np.float32]) -> None:
        """Writes arrays `[N, *shape]` into `target` `[N, num_features]`.

        Raises:
            IndexError: an integer is outside of its space.
        """
        flat = array.reshape(len(array), prod(self.shape))
        if not self.sizes:
            target[...] = flat
            return
        if flat.dtype == np.uint64:  # it would become floating point; the largest int64 is in no space
            flat = np.minimum(flat, np.uint64(np.iinfo(np.int64).max)).astype(np.int64)
        classes = flat - np.asarray(self.start, np.int64)
        if (classes < 0).any() or (classes >= self.sizes).any():  # they would mean values of another integer
            raise IndexError
        target[...] = 0
        firsts = np.concatenate(([0], np.cumsum(self.sizes)[:-1])).astype(np.int64)
        np.put_along_axis(target, classes + firsts, 1.0, axis=1)


@dataclass(frozen=True, slots=True)
class ObservationSpec:
    """How one observation is stored, and how networks get it.

    Attributes:
        kind: "vector", "image" (`[channels, height, width]`, bytes or bools), or "mixed": a vector of several
            parts, at least one of them an image.
        shape: shape as stored in a rollout, without batch axes.
        dtype: dtype as stored in a rollout.
        one_hot: number of classes if the stored integer stands for a one-hot vector, else 0.
        leaves: the parts of a stored vector, in the order of `gymnasium.spaces.flatten`; empty if
            observations are stored as they come.
        is_turned: the environment gives an image as `[height, width, channels]`.
        background: the most frequent value of an image's pixels, where it was measured (`probe_spaces`).
    """

    kind: Literal["vector", "image", "mixed"]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    one_hot: int = 0
    leaves: tuple[Leaf, ...] = ()
    is_turned: bool = False
    background: int = field(default=0, compare=False)

    @property
    def given_shape(self) -> tuple[int, ...]:
        """The shape of one observation as the environment gives it, without batch axes, if it has no leaves."""
        if self.is_turned:
            return (*self.shape[1:], self.shape[0])
        return self.shape

    def turned(self, observations: NDArray[Any]) -> NDArray[Any]:
        """Observations `[..., *given_shape]` as `[..., *shape]`: the channels of an image come first. No copy."""
        if self.is_turned:
            return np.moveaxis(observations, -1, -3)
        return observations

    @property
    def num_features(self) -> int:
        """Length of the vector that `encode` returns."""
        return self.one_hot or int(np.prod(self.shape))

    def encode(self, observations: Tensor) -> Tensor:
        """Turns stored observations `[B, *shape]` into float32 vectors `[B, num_features]`.

        Raises:
            ObservationError: an integer is outside of its space.
        """
        if self.one_hot:
            numbers = observations.long()
            try:
                return torch.nn.functional.one_hot(numbers, self.one_hot).float()
            except RuntimeError as error:
                wrong = numbers[(numbers < 0) | (numbers >= self.one_hot)]
                if not len(wrong):
                    raise
                raise ObservationError(
                    f"an observation is {wrong[0]}, outside of its space, 0 to {self.one_hot - 1}. Examine the "
                    "environment: a3c-zoo check NAME"
                ) from error
        if not self.shape:
            observations = observations.unsqueeze(-1)
        elif len(self.shape) != 1:
            observations = observations.flatten(start_dim=observations.dim() - len(self.shape))
        return observations.float()  # no copy if it is float32 already

    def flatten(self, observations: Any) -> tuple[NDArray[np.float32], bool]:
        """Puts N observations of several parts each into `[N, *shape]`; a single observation makes N = 1.

        (`gymnasium.spaces.flatten` does the same for one observation at a time, which is slow in a rollout.)

        Returns:
            The vectors, and whether it was a single observation.

        Raises:
            ObservationError: a part is missing, or has another shape.
        """
        try:
            arrays = [leaf.of(observations) for leaf in self.leaves]
        except (KeyError, IndexError, TypeError, ValueError) as error:
            paths = ", ".join("/".join(map(str, leaf.path)) for leaf in self.leaves)
            raise ObservationError(
                f"an observation has the parts {paths}; got {observations!r}"[:500]
            ) from error
        is_single = arrays[0].shape == self.leaves[0].shape
        if is_single:
            arrays = [array[None] for array in arrays]
        vectors = np.empty((len(np.atleast_1d(arrays[0])), *self.shape), np.float32)
        at = 0
        for leaf, array in zip(self.leaves, arrays, strict=True):
            if array.shape != (len(vectors), *leaf.shape) or array.dtype.kind not in (
                "biu" if leaf.sizes else "biuf"
            ):
                if leaf.path:
                    part = f"part {'/'.join(map(str, leaf.path))} of an observation"
                else:
                    part = "an observation"
                raise ObservationError(
                    f"{part} has shape {list(leaf.shape)}; got {array.dtype} {list(array.shape)} for {len(vectors)}"
                )
            try:
                leaf.write(array, vectors[:, at : at + leaf.num_features])
            except IndexError as error:
                raise ObservationError(
                    f"an observation has a number outside of its space: {array.tolist()}"
                ) from error
            at += leaf.num_features
        return vectors, is_single

    def state_dict(self) -> list[Any]:
        """As plain numbers, strings and lists."""
        leaves = [
            [
                list(leaf.path),
                list(leaf.shape),
                list(leaf.sizes),
                list(leaf.start),
                *([True] if leaf.is_image else []),
            ]
            for leaf in self.leaves
        ]
        rest = [leaves, self.is_turned, self.background]
        while rest and not rest[-1]:  # as it was before there were these parts
            del rest[-1]
        return [self.kind, list(self.shape), self.dtype.str, self.one_hot, *rest]

    @classmethod
    def from_state_dict(cls, state: list[Any]) -> ObservationSpec:
        """From what `state_dict` returned."""
        kind, shape, dtype, one_hot, *rest = state
        leaves = tuple(
            Leaf(tuple(path), tuple(shape), tuple(sizes), tuple(start), bool(is_image))
            for path, shape, sizes, start, *is_image in (rest[0] if rest else ())
        )
        return cls(kind, tuple(shape), np.dtype(dtype), one_hot, leaves, *rest[1:])


class Part(NamedTuple):
    """One array within observations or actions. path: keys and numbers that lead to it; space: of one environment."""

    path: tuple[str | int, ...]
    space: Space[Any]

    @property
    def name(self) -> str:
        """The keys and numbers in a row: `arm/0`."""
        return "/".join(map(str, self.path))

    @property
    def where(self) -> str:
        """Its place, for messages; empty for observations of one part."""
        if self.path:
            return f" at '{self.name}'"
        return ""

    def of(self, observation: Any) -> Any:
        """This part of an observation, None if it is missing."""
        for key in self.path:
            try:
                observation = observation[key]
            except (KeyError, IndexError, TypeError):
                return None
        return observation


def parts_of(space: Space[Any], path: tuple[str | int, ...] = ()) -> Iterator[Part]:
    """The parts of a space, those of Dict and Tuple spaces in their order."""
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        yield Part(path, space)
    for key, part in inner_spaces(space).items():
        yield from parts_of(part, (*path, key))


def inner_spaces(space: Space[Any]) -> Mapping[Any, Space[Any]]:
    """The spaces in a Dict by their keys, or in a Tuple by their numbers; those of a nested one are not taken apart."""
    if isinstance(space, spaces.Dict):
        return space.spaces
    if isinstance(space, spaces.Tuple):
        return dict(enumerate(space.spaces))
    return {}


def check_supported(
    action_space: Space[Any],
    supported: Sequence[str],
    agent_name: str,
    env_name: str,
    path: tuple[str | int, ...] = (),
) -> None:
    """Raises ConfigError for an action space, or a part of one, that is not among the agent's `AgentEntry.spaces`.

    Args:
        path: keys and numbers that lead to the part.
    """
    if class_names(action_space).isdisjoint(supported):
        where = ""
        if path:
            where = f" as the part '{Part(path, action_space).name}' of its actions"
        raise ConfigError(
            f"agent '{agent_name}' acts in {', '.join(supported)} spaces; "
            f"environment '{env_name}' has {action_space}{where}"
        )
    for key, part in inner_spaces(action_space).items():
        check_supported(part, supported, agent_name, env_name, (*path, key))


def row_of(observations: Any, n: int) -> Any:
    """Observation n of a batch, whose parts may be in dictionaries and tuples; None if the batch has None there."""
    if isinstance(observations, dict):
        return {key: row_of(part, n) for key, part in observations.items()}
    if isinstance(observations, tuple):
        return tuple(row_of(part, n) for part in observations)
    if observations is None:
        return None
    return observations[n]


def observation_spec(space: Space[Any]) -> ObservationSpec:
    """Returns the spec of a single environment's observation space.

    Raises:
        UnsupportedSpaceError: a space of no fixed size, or with a part of such a space.
    """
    if isinstance(space, spaces.Box) and is_image(space):
        turned = channels_last(space.shape)
        shape = space.shape
        stored = (shape[2], *shape[:2]) if turned else tuple(shape)
        return ObservationSpec("image", stored, np.dtype(space.dtype), is_turned=turned)
    if isinstance(space, spaces.Box) and not (space.dtype.isnative and space.dtype.itemsize <= 8):
        raise UnsupportedSpaceError(
            f"observation space {space} is of {space.dtype.str}, which torch does not know"
        )
    if isinstance(space, (spaces.Box, spaces.MultiBinary)):
        return ObservationSpec("vector", tuple(space.shape), np.dtype(space.dtype))
    if isinstance(space, spaces.Discrete) and int(space.start) == 0:
        return ObservationSpec("vector", (), np.dtype(space.dtype), one_hot=int(space.n))
    leaves = tuple(_leaves(space, (), space))
    size = sum(leaf.num_features for leaf in leaves)
    if not size:
        raise UnsupportedSpaceError(f"observation space {space} holds no numbers")
    kind: Literal["vector", "mixed"] = "mixed" if any(leaf.is_image for leaf in leaves) else "vector"
    return ObservationSpec(kind, (size,), np.dtype(np.float32), leaves=leaves)


def is_image(space: Any) -> bool:
    """Whether a Box holds images: three axes, bytes or bools."""
    return np.dtype(space.dtype) in (np.uint8, np.bool_) and len(space.shape) == 3


def channels_last(shape: tuple[int, ...]) -> bool:
    """Whether the last axis of an image is that of the channels; otherwise it is the first.

    Two axes of one length are height and width. If no two or all three are equal, the channels are the
    shortest axis.
    """
    first, second, third = shape
    if first == second != third:
        return True
    return second != third and third < min(first, second)


def _leaves(space: Space[Any], path: tuple[str | int, ...], whole: Space[Any]) -> Iterator[Leaf]:
    match space:
        case spaces.Dict():
            for key, part in space.spaces.items():
                if not isinstance(key, str | int):
                    raise UnsupportedSpaceError(
                        f"observation space {whole} has the key {key!r}; supported: strings and whole numbers"
                    )
                yield from _leaves(part, (*path, key), whole)
        case spaces.Tuple():
            for number, part in enumerate(space.spaces):
                yield from _leaves(part, (*path, number), whole)
        case spaces.Box() | spaces.MultiBinary():
            yield Leaf(path, tuple(space.shape), is_image=isinstance(space, spaces.Box) and is_image(space))
        case spaces.Discrete():
            yield Leaf(path, (), (int(space.n),), (int(space.start),))
        case spaces.MultiDiscrete():
            sizes, start = (tuple(int(n) for n in array.reshape(-1)) for array in (space.nvec, space.start))
            yield Leaf(path, tuple(space.shape), sizes, start)
        case _:
            place = "/".join(map(str, path))
            inner = " is not supported"
            if path:
                inner = f": its part '{place}', {type(space).__name__}, is not supported"
            cure = ". A wrapper can leave it out or replace it (env.wrappers)"
            raise UnsupportedSpaceError(f"observation space {whole}{inner}; supported: {SUPPORTED}{cure}")


def _refuse_other_numbers(array: NDArray[Any], batch: NDArray[Any], wanted: str) -> None:
    """Raises ObservationError unless the numbers of a batch are those that were given, and finite.

    Frames that were divided by 255 would all be black as uint8.
    """
    if batch.dtype.kind in "biu":
        if array.dtype != batch.dtype and not np.array_equal(array, batch):
            raise ObservationError(f"{wanted}, {batch.dtype}; got other numbers, {array.dtype}")
    elif not np.isfinite(batch).all():
        raise ObservationError(f"{wanted}, of finite numbers")


def _refuse_other_parts(leaves: Sequence[Leaf], observation: Any, vectors: NDArray[np.float32]) -> None:
    """Raises ObservationError for an image that was divided by 255, and for numbers that are not finite."""
    if not np.isfinite(vectors).all():
        raise ObservationError("an observation has numbers that are not finite")
    for leaf in leaves:
        if not leaf.is_image:
            continue
        array = leaf.of(observation)
        if array.dtype.kind == "f" and not np.array_equal(array, np.rint(array)):
            part = "/".join(map(str, leaf.path))
            raise ObservationError(
                f"part {part} of an observation has whole numbers; got others, {array.dtype}"
            )


def as_batch(spec: ObservationSpec, observation: Any) -> tuple[NDArray[Any], bool]:
    """Returns observations as `[N, *spec.shape]`, and whether it was a single observation (then N is 1).

    Raises:
        ObservationError: the observation has another shape, or is no array.
    """
    if spec.leaves:
        vectors, is_single = spec.flatten(observation)
        _refuse_other_parts(spec.leaves, observation, vectors)
        return vectors, is_single
    given = spec.given_shape
    wanted = f"an observation has shape {list(given)}, several {['N', *given]}".replace("'", "")
    if isinstance(observation, tuple) and len(observation) == 2 and isinstance(observation[1], dict):
        raise ObservationError(f"{wanted}; got what a Gymnasium reset() returns: (observation, info)")
    try:
        array = np.asarray(observation)
        if array.dtype.kind == "c":
            raise TypeError(f"{array.dtype} is no dtype of observations")
        batch = np.ascontiguousarray(observation, spec.dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise ObservationError(f"{wanted}; got {type(observation).__name__}: {error}") from error
    _refuse_other_numbers(array, batch, wanted)
    shape = np.shape(observation)  # ascontiguousarray makes a number an array of one
    if shape != given and (len(shape) != len(given) + 1 or shape[1:] != given):
        raise ObservationError(f"{wanted}; got {list(shape)}")
    is_single = shape == given
    if is_single:
        batch = batch.reshape(1, *shape)
    return spec.turned(batch), is_single
