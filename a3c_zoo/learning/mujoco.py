"""The versions of MuJoCo that Gymnasium's environments work with, and what MuJoCo needs to draw."""

from __future__ import annotations

import os
import sys
import traceback
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import gymnasium
from gymnasium.envs.registration import EnvSpec

from a3c_zoo.cures import install_extra
from a3c_zoo.errors import ZooError
from a3c_zoo.hardware import has_display
from a3c_zoo.plugins.entries import EnvEntry

#: The range of the extra `mujoco` in pyproject.toml. 3.16 prints a warning at each start of HalfCheetah; in
#: 4.0 Ant moves differently. Before 3.5 there are no wheels for Python 3.14.
VERSIONS: Final = ">=3.5,<3.16"
#: What a traceback leads through when MuJoCo cannot draw.
DRAWING_FILES: Final = ("mujoco_rendering.py", "gl_context.py")
DRAWING_FOLDERS: Final = {"OpenGL", "egl", "glfw", "osmesa"}
#: Arguments of an environment that choose what its pictures show.
CAMERA_ARGUMENTS: Final = {"camera_id", "camera_name", "default_camera_config"}


def check_version(entry: EnvEntry) -> None:
    """Raises ZooError if an environment of Gymnasium would run on a version of MuJoCo that does not fit."""
    spec = gymnasium.registry.get(entry.env_id or "")
    if spec is not None and is_of_mujoco(spec) and (fault := wrong_version()):
        raise ZooError(f"environment '{entry.name}' cannot be made: {fault}")


def is_of_mujoco(spec: EnvSpec) -> bool:
    """Whether an environment is one of Gymnasium's on MuJoCo."""
    return str(spec.entry_point).startswith("gymnasium.envs.mujoco")


def with_camera(spec: EnvSpec, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of an environment that is drawn, with the camera that follows the body.

    Gymnasium 1.4 draws with a camera that stays where the body began. A model without a camera `track` is drawn as
    without this argument.
    """
    if not is_of_mujoco(spec) or CAMERA_ARGUMENTS & kwargs.keys():
        return kwargs
    return {**kwargs, "camera_name": "track"}


def wrong_version() -> str:
    """Says that the installed MuJoCo does not fit, and the cure; '' if it fits, or if there is none."""
    from packaging.specifiers import SpecifierSet

    try:
        version = metadata.version("mujoco")
    except metadata.PackageNotFoundError:
        return ""
    if SpecifierSet(VERSIONS).contains(version, prereleases=True):
        return ""
    return f"mujoco {version} is installed, needed: {VERSIONS}. {install_extra('mujoco')}"


def drawing_variables() -> dict[str, str]:
    """Environment variables with which MuJoCo draws without a display: Gymnasium would try windows alone."""
    if sys.platform == "linux" and not has_display():
        return {"MUJOCO_GL": "egl"}
    return {}


def drawing_cure(error: BaseException) -> str:
    """Returns what MuJoCo needs to draw; '' if the error comes from elsewhere."""
    paths = [Path(frame.filename) for frame in traceback.extract_tb(error.__traceback__)]
    if not any(path.name in DRAWING_FILES or {*path.parts} & DRAWING_FOLDERS for path in paths):
        return ""
    how = os.environ.get("MUJOCO_GL", "unset")
    return (
        f"MuJoCo cannot draw with MUJOCO_GL {how}: without a display it needs libEGL and MUJOCO_GL=egl, or libOSMesa "
        "and MUJOCO_GL=osmesa"
    )
