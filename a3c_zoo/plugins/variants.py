"""The variant of an environment (`EnvEntry.variant`), which chooses among the default sets of a family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Height and width from which on an image is a frame, for a network with large convolutions.
FRAME = 36


def variant_of(observation_space: Any, action_space: Any) -> str:
    """Returns the variant of one environment by its Gymnasium spaces, as the family `gym:` uses it.

    "image": frames of bytes. "mixed": smaller images, images of bools, or an image among several parts.
    "continuous": actions are a Box, or have one among their parts. Else "".
    """
    if sizes := [sorted(image.shape)[1] for image in _images(observation_space)]:
        is_alone = bool(observation_space.shape)
        if is_alone and observation_space.dtype == "uint8" and sizes[0] >= FRAME:
            return "image"
        return "mixed"
    if any("Box" in class_names(part) for part in _parts(action_space)):
        return "continuous"
    return ""


def class_names(space: Any) -> set[str]:
    """The names of a space's class and of those above it: what a name says of Box holds for a subclass of Box."""
    return {kind.__name__ for kind in type(space).__mro__}


def _images(space: Any) -> list[Any]:
    """The images among the parts of a space."""
    boxes = [part for part in _parts(space) if "Box" in class_names(part)]
    return [box for box in boxes if len(box.shape) == 3 and box.dtype in ("uint8", "bool")]


def _parts(space: Any) -> list[Any]:
    """The spaces in a Dict or a Tuple, and in those within it; any other space is its only part."""
    if isinstance(inner := getattr(space, "spaces", None), Mapping):
        inner = inner.values()
    if inner is None:
        return [space]
    return [part for each in inner for part in _parts(each)]
