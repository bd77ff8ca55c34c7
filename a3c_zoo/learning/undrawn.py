"""Why a machine cannot draw an environment that is right: it has no screen, or lacks a library of MuJoCo."""

from __future__ import annotations

import re
from typing import Final

from a3c_zoo.errors import CannotDrawError, type_and_message
from a3c_zoo.learning.mujoco import drawing_cure

#: What SDL (pygame) says if it finds no screen. Its driver `dummy` draws in memory.
NO_SCREEN_OF_SDL: Final = re.compile(
    r"no available video device|(x11|wayland|windows|kmsdrm) not available", re.I
)
#: What pyglet, Tk, GLFW and libraries of X11 say.
NO_SCREEN: Final = re.compile(
    r"NoSuchDisplay|no display name|(connect to|open) (the )?(x server|display)|DISPLAY environment variable",
    re.I,
)


def cannot_draw(name: str, error: BaseException) -> CannotDrawError | None:
    """The error that an environment's exception stands for, if the machine is its cause; None if not."""
    cure = drawing_cure(error) or _screen_cure(error)
    if not cure:
        return None
    return CannotDrawError(f"environment '{name}' cannot be drawn: {cure}")


def _screen_cure(error: BaseException) -> str:
    """Says that there is no screen, and what draws without one; '' for an error of another kind."""
    cause: BaseException | None = error
    while cause is not None:
        said = type_and_message(cause)
        if NO_SCREEN_OF_SDL.search(said):
            return (
                f"it opens a window, and there is no screen ({said}). It may draw with SDL_VIDEODRIVER=dummy"
            )
        if NO_SCREEN.search(said):
            return f"it opens a window, and there is no screen ({said}). Type xvfb-run -a before the command"
        cause = cause.__cause__ or cause.__context__
    return ""
