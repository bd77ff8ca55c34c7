"""Saved state: frozen dataclasses in code, plain dictionaries in a checkpoint, which then needs no pickled classes.

Every part of a checkpoint is validated here: keys and types by `from_plain`, tensors by `fitting`.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from a3c_zoo.errors import RunDirectoryError, type_and_message

if TYPE_CHECKING:
    from torch import Tensor

State = TypeVar("State")
#: What pickle raises for an object that it cannot save, such as a lock or a lambda.
UNPICKLABLE = (AttributeError, RecursionError, TypeError, ValueError, pickle.PicklingError)
_adapters: dict[Any, TypeAdapter[Any]] = {}
_DOES_NOT_FIT = "the checkpoint does not fit the run's config.yml: "
#: Begins the message of an error in what `--init-from` names.
NOT_INITIAL = "--init-from names a policy that does not fit: "


def _adapter(kind: type[State]) -> TypeAdapter[State]:
    """It takes milliseconds to make one: they are kept."""
    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    return _adapters[kind]


def to_plain(state: Any) -> dict[str, Any]:
    """A dataclass as dictionaries of what its fields hold. Tensors are not copied."""
    plain: dict[str, Any] = _adapter(type(state)).dump_python(state, by_alias=True)
    return plain


def from_plain(kind: type[State], content: Any, name: str) -> State:
    """The dataclass that `to_plain` was given. Keys that it does not have are ignored.

    Args:
        kind: the dataclass; a field that holds a tensor is annotated `pydantic.InstanceOf[Tensor]`.
        name: where the content lies in the checkpoint, for messages.

    Raises:
        RunDirectoryError: a key is missing or has another type; the message names it.
    """
    try:
        return _adapter(kind).validate_python(content)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        key = ".".join([name, *map(str, first["loc"])])
        if first["type"] == "missing":
            problem = f"it has no {key}"
        else:
            problem = f"{key}: {first['msg']}"
        raise RunDirectoryError(problem) from None


def fitting(saved: Any, like: Tensor, name: str) -> Tensor:
    """A tensor of a checkpoint that has the dtype and the shape of `like`: a copy would broadcast and cast any other.

    Args:
        saved: what the checkpoint has. name: where it lies in the checkpoint, for messages.

    Raises:
        RunDirectoryError: it is another tensor, or no tensor.
    """
    from torch import Tensor

    if not isinstance(saved, Tensor):
        raise RunDirectoryError(f"{name} is no tensor")
    if saved.dtype != like.dtype or saved.shape != like.shape:
        there, here = (f"{str(t.dtype).removeprefix('torch.')} {list(t.shape)}" for t in (saved, like))
        raise RunDirectoryError(f"{name} is {there} there, {here} here")
    return saved.detach()


@contextmanager
def loading(what: str = _DOES_NOT_FIT) -> Iterator[None]:
    """Within the context, parts of a checkpoint are copied into those of this run. what: begins the error's message.

    Raises:
        RunDirectoryError: they are missing, or do not fit.
    """
    try:
        yield
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError, RunDirectoryError) as error:
        if isinstance(error, RunDirectoryError):
            reason = str(error)
        else:
            reason = type_and_message(error)
        raise RunDirectoryError(f"{what}{reason.removeprefix(what)[:300]}") from error


def tensors_of(content: Any) -> Iterator[tuple[str, Tensor]]:
    """The tensors in nested dictionaries, lists and tuples, each with its place there.

    A container that lies in several places is visited once: a list may hold itself.
    """
    from torch import Tensor

    waiting = [("", content)]
    visited = set[int]()
    while waiting:
        where, value = waiting.pop()
        if isinstance(value, Tensor):
            yield where, value
        elif isinstance(value, dict | list | tuple) and id(value) not in visited:
            visited.add(id(value))
            pairs = value.items() if isinstance(value, dict) else enumerate(value)
            waiting += [(_shortened(f"{where}.{key}".lstrip(".")), each) for key, each in pairs]


def _shortened(place: str) -> str:
    """The beginning and the end of a place: a name may be of any length."""
    if len(place) <= 100:
        return place
    return f"{place[:39]}…{place[-60:]}"


def not_finite(agent: Mapping[str, Any]) -> str | None:
    """The place of a tensor with NaN or an infinite number in an agent's state; None if there is none.

    The states of workers are left out: an environment's own may hold such numbers. A network's buffers may hold
    infinities, as the mask of an attention layer does.
    """
    import torch

    parts = {name: part for name, part in agent.items() if name != "workers"}
    for where, tensor in tensors_of(parts):
        if tensor.layout is not torch.strided:  # no checkpoint holds it
            continue
        if not tensor.is_floating_point() or bool(tensor.isfinite().all()):
            continue
        if not where.startswith("model.buffers.") or bool(tensor.isnan().any()):
            return where
    return None
