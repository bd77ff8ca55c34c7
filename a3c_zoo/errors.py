"""What a user can do something about.

Anything raised as a `ZooError` reaches the user as one line and the error's exit status; anything else is a
fault of ours and reaches them as a traceback.
"""

from __future__ import annotations

import difflib
import os
import traceback
from collections.abc import Iterable


class ZooError(Exception):
    """One clear line with the cure. `exit_status` is what the command line leaves with."""

    exit_status = 2


class UnknownNameError(ZooError):
    """A name that nothing answers to, with the nearest ones that something does."""


class ConfigError(ZooError):
    """Hyperparameters that cannot be used; the message lists every fault with its source."""


class PluginError(ZooError):
    """A plugin that offers something unusable."""


class EnvironmentContractError(ZooError):
    """An environment that breaks the Gymnasium contract: NaN, a wrong shape, a wrong dtype."""


class UnsupportedSpaceError(ZooError):
    """A space that the zoo cannot learn from or act in."""


class ObservationError(ZooError, ValueError):
    """An observation that a policy cannot act on; a ValueError too, as stable-baselines3's `predict` raises."""


class DivergedError(ZooError, FloatingPointError):
    """A gradient that is not finite: the hyperparameters let training diverge."""


class RunDirectoryError(ZooError):
    """A run directory that cannot be made, read, written or resumed."""


class WorkerError(ZooError):
    """A worker that raised or died. The message carries its traceback or its signal."""

    exit_status = 1


def type_and_message(error: BaseException) -> str:
    """Returns the error's type and message in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def one_line(error: BaseException) -> str:
    """Returns the error's type, message and innermost place in one line."""
    message = type_and_message(error)
    if isinstance(error, SyntaxError) or error.__traceback__ is None:
        return message  # a syntax error says itself where it is
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{message} (in {os.path.basename(frame.filename)}, line {frame.lineno})"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns `" Did you mean 'x'?"` for the nearest of `known`, or `""` where nothing is near."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" Did you mean '{near[0]}'?" if near else ""


def unknown_name(kind: str, name: str, known: Iterable[str], listing: str = "") -> UnknownNameError:
    """Builds the error for a `kind` of thing called `name` that does not exist.

    Args:
        kind: what was looked for, in words ("environment").
        name: the name that was given.
        known: the names there are.
        listing: the command that shows them, such as "a3c-zoo list envs".
    """
    names = sorted(known)
    hint = did_you_mean(name, names)
    if listing:
        hint += f" See: {listing}"
    elif names and not hint:
        hint = f" Known: {', '.join(names)}"
    return UnknownNameError(f"unknown {kind} '{name}'.{hint}")
