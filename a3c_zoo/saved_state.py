"""Saved state: frozen dataclasses in code, plain dictionaries in a checkpoint, which then needs no pickled classes."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from a3c_zoo.errors import RunDirectoryError

State = TypeVar("State")


def to_plain(state: Any) -> dict[str, Any]:
    """A dataclass as dictionaries of what its fields hold. Tensors are not copied."""
    plain: dict[str, Any] = TypeAdapter(type(state)).dump_python(state, by_alias=True)
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
        return TypeAdapter(kind).validate_python(content)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        key = ".".join([name, *map(str, first["loc"])])
        problem = f"it has no {key}" if first["type"] == "missing" else f"{key}: {first['msg']}"
        raise RunDirectoryError(problem) from None
