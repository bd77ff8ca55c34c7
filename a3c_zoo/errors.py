"""Errors that a user can correct.

The command line prints a `ZooError` as one line and exits with its exit status. It prints any other exception, which is
an error of a3c-zoo, as a traceback.
"""

from __future__ import annotations

import errno
import operator
import os
import re
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, SupportsIndex


class ZooError(Exception):
    """An error with a message of one line that names the cure. `exit_status` is that of the command line."""

    exit_status = 2


class UnknownNameError(ZooError):
    """An unknown name; the message has the nearest known name."""


class MissingGuardError(ZooError, SystemExit):
    """A script whose processes would start processes of their own, because it trains as it is imported.

    A process of the script has printed why. If nobody catches the error, the script ends with exit status 2.
    """

    LINE = (
        "this script trains as it is imported, and workers import it. "
        "Put the call below `if __name__ == '__main__':`"
    )

    def __init__(self) -> None:
        super().__init__(self.LINE)
        self.code = self.exit_status


class ConfigError(ZooError):
    """Hyperparameters that cannot be used; the message has each fault with its source."""


class PluginError(ZooError):
    """A plugin that fails or offers an unusable entry."""


class EnvironmentContractError(ZooError):
    """An environment that breaks the Gymnasium contract: NaN, a wrong shape, a wrong dtype."""


class UnsupportedSpaceError(ZooError):
    """A space that the zoo cannot learn from or act in."""


class CannotDrawError(ZooError):
    """An environment that this machine cannot draw: there is no screen, or a library is missing."""


class ObservationError(ZooError, ValueError):
    """An observation that a policy cannot use; also a ValueError, like the error of stable-baselines3's `predict`."""


class DivergedError(ZooError, FloatingPointError):
    """Many gradients in a row, or parameters, that are not finite: training has diverged."""


class RunDirectoryError(ZooError):
    """A run directory that cannot be made, read, written or resumed."""


class ForkServerError(ZooError, OSError):
    """The fork server cannot be started; also an OSError, like the error of any process that cannot be started."""


class DifferentOutputError(ZooError):
    """An exported network that acts differently from the run's policy; it is not written."""

    exit_status = 1


class HubError(ZooError):
    """A hub that cannot be reached, or that does not answer as it should."""

    exit_status = 1


class WorkerError(ZooError):
    """A worker that raised an exception or died. The message has its traceback or its signal."""

    exit_status = 1


class CrewLostError(WorkerError):
    """A failure of workers that no new worker cures. The run can go on from its newest checkpoint."""


class ServersLostError(CrewLostError):
    """The machines that keep a part of the run are gone, for example because their job has ended."""


def is_full(error: OSError) -> bool:
    """Whether the disk, or what the user may have of it, is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


#: The most letters of an error's message, and of its traceback. A message may have a whole observation.
MOST_OF_MESSAGE, MOST_OF_TRACE = 2_000, 40_000


def bounded(text: str, most: int) -> str:
    """Returns a text of at most about `most` letters: of a longer one its beginning and its end."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} … ({len(text) - 2 * half:,} letters) … {text[-half:]}"


def trace_of(error: BaseException) -> str:
    """Returns the error's traceback. Its message is cut, if it is long."""
    return bounded("".join(traceback.format_exception(error)), MOST_OF_TRACE)


def type_and_message(error: BaseException) -> str:
    """Returns the error's type and message in one line. An AssertionError quotes the line that asserts."""
    try:
        text = bounded(str(error), MOST_OF_MESSAGE)
    except Exception as fault:  # the class is of others
        text = f"its message cannot be made, {type(fault).__name__}"
    message = " ".join(f"{type(error).__name__}: {text}".split()).removesuffix(":")
    if not isinstance(error, AssertionError) or error.__traceback__ is None:
        return message
    line = traceback.extract_tb(error.__traceback__)[-1].line or ""  # "" without the source
    return f"{message} ({line})" if line.startswith("assert") else message


@contextmanager
def without_exit(what: str) -> Iterator[None]:
    """The body is code of others: if it ends the program (`sys.exit`), this is an error as any other.

    Raises:
        WorkerError: the body raises SystemExit; the message begins with `what`.
    """
    try:
        yield
    except MissingGuardError:
        raise
    except SystemExit as error:
        raise WorkerError(f"{what}: {type_and_message(error)}") from error


def one_line(error: BaseException) -> str:
    """Returns the error's type, message and innermost place in one line."""
    message = type_and_message(error)
    if isinstance(error, SyntaxError) or error.__traceback__ is None:
        return message  # the message of a syntax error has its place
    frame = traceback.extract_tb(error.__traceback__)[-1]
    if frame.filename.startswith("<frozen "):  # a module that is not there, asked for by its name
        return message
    return f"{message} (in {os.path.basename(frame.filename)}, line {frame.lineno})"


def first_line(error: BaseException) -> str:
    """Returns the error in one line: a ZooError without its type, a WorkerError without the traceback that follows."""
    if not isinstance(error, ZooError):
        return type_and_message(error)
    text = str(error).strip() or type(error).__name__
    return " ".join(text.split()) if isinstance(error, ConfigError) else text.splitlines()[0]


def printable(text: str) -> str:
    """Returns a text in one line, with its control characters as escapes: `\\x1b`, and `\\n` for a line end.

    A name or a value of a stranger can hold sequences that a terminal obeys, or that reverse the order of letters.
    """
    if text.isprintable():
        return text
    import unicodedata  # few texts need it

    # The category Zs has the blanks of all languages.
    shown = (character.isprintable() or unicodedata.category(character) == "Zs" for character in text)
    pairs = zip(text, shown, strict=True)
    return "".join(
        character if is_shown else character.encode("unicode_escape").decode("ascii")
        for character, is_shown in pairs
    )


def cell(value: object) -> object:
    """A value for a table that a spreadsheet may open. A text that it would take for a formula begins with `'`."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


def printable_lines(text: str) -> str:
    """Returns a text of several lines, each as `printable` makes it."""
    return "\n".join(printable(line) for line in text.expandtabs().split("\n"))


#: The parts of a Gymnasium id that are not the name of the Atari game: `ALE/Pong-v5`, `PongNoFrameskip-v4`.
AROUND_GAMES = re.compile(r"^ALE/|(NoFrameskip|Deterministic)?-v\d+$")


#: The most names of one error. More are listed by a command.
MOST_NAMES = 8
#: So many letters of a name's beginning say which one is meant.
LEAST_LETTERS = 3


def refuse_others(name: str, value: str, values: Sequence[str]) -> None:
    """Raises ZooError if an argument of a function of Python is none of the values that it can have."""
    if value not in values:
        raise ZooError(f"{name} {value!r}: choose {', '.join(values)}")


def whole_number(name: str, value: SupportsIndex) -> int:
    """An argument of a function of Python as Python's own; NumPy's are taken. Raises ZooError for others."""
    try:
        return operator.index(value)
    except TypeError:
        raise ZooError(f"{name}={value!r}: give a whole number") from None


def text_argument(name: str, value: str) -> str:
    """An argument of a function of Python that is a text, such as a name. Raises ZooError for others."""
    if not isinstance(value, str):
        raise ZooError(f"{name}={value!r:.80}: give a text")
    return value


def several(given: object) -> tuple[Any, ...]:
    """The values of an argument that may be one or several: a text is one value, and no sequence of letters."""
    if isinstance(given, str | bytes | os.PathLike) or not isinstance(given, Iterable):
        return (given,)
    return tuple(given)


def several_texts(name: str, given: str | Sequence[str], what: str = "text") -> tuple[str, ...]:
    """As `several`, for texts. Raises ZooError if one is none. what: such as a "name"."""
    texts = several(given)
    if not all(isinstance(each, str) for each in texts):
        raise ZooError(f"{name}={given!r:.80}: give a {what}, or a list of {what}s")
    return texts


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns `" Did you mean 'x'?"` for what a person may have meant by `name`, or `""` rather than nonsense.

    That is a name with other letter case, dashes or blanks; one that a slip or two make of it; those that begin with
    it. If there is none, it looks again, without the parts of a Gymnasium id that are not the name of an Atari game.
    """
    others = [other for other in dict.fromkeys(known) if other != name]
    near = _near(name, others) or _near(AROUND_GAMES.sub("", name), others)
    quoted = [f"'{each}'" for each in near]
    if not quoted:
        return ""
    *first, last = quoted
    return f" Did you mean {', '.join(first)}{' or ' if first else ''}{last}?"


def _near(name: str, others: list[str]) -> list[str]:
    """The names that `name` may stand for, at most three."""
    own = _letters(name)
    letters = {other: _letters(other) for other in others}
    if ":" not in name:  # the family of an environment may be left out
        tails = {other: _letters(other.rpartition(":")[2]) for other in others}
    else:
        tails = letters
    if same := [other for other in others if own in (letters[other], tails[other])]:
        return same[:1]
    slips = {other: _slips(own, letters[other]) for other in others}
    close = [other for other in others if slips[other] <= _allowed_slips(own, letters[other])]
    if close:
        return [min(close, key=slips.__getitem__)]
    if len(own) < LEAST_LETTERS:
        return []
    begun = [other for other in others if letters[other].startswith(own) or tails[other].startswith(own)]
    return begun if len(begun) <= 3 else []


def _letters(name: str) -> str:
    return re.sub(r"[-_\s]+", "", name.casefold())


def _allowed_slips(one: str, other: str) -> int:
    """A slip for each four letters. Of two or three letters none may be another one: `a2c` is not `a3c`."""
    longer = max(len(one), len(other))
    if longer > 3:
        return min(longer // 4, 3)
    is_one_off = len(one) != len(other) and min(len(one), len(other)) > 1
    is_exchanged = len(one) == len(other) > 1 and sorted(one) == sorted(other)
    return int(is_one_off or is_exchanged)


def _slips(one: str, other: str) -> int:
    """How many letters are missing, too many, others, or exchanged with their neighbour (optimal string alignment)."""
    if abs(len(one) - len(other)) > 3:
        return len(one) + len(other)
    before: list[int] = []
    row: list[int] = [*range(len(other) + 1)]
    for n, letter in enumerate(one, 1):
        last = before
        before = row
        row = [n]
        for m, their in enumerate(other, 1):
            costs = [row[m - 1] + 1, before[m] + 1, before[m - 1] + (letter != their)]
            if n > 1 and m > 1 and letter == other[m - 2] and one[n - 2] == their:
                costs.append(last[m - 2] + 1)
            row.append(min(costs))
    return row[-1]


def unknown_name(kind: str, name: str, known: Iterable[str], listing: str = "") -> UnknownNameError:
    """Returns the error for an unknown name.

    Args:
        kind: the kind of thing that the name should have named, such as "environment".
        name: the unknown name.
        known: the known names.
        listing: the command that lists them, such as "a3c-zoo list envs".
    """
    names = sorted(known)
    hint = did_you_mean(name, names)
    if listing:
        hint += f" See: {listing}"
    elif names and not hint:
        more = len(names) - MOST_NAMES
        hint = f" Known: {', '.join(names[:MOST_NAMES])}{f', and {more:,} more' if more > 0 else ''}"
    return UnknownNameError(f"unknown {kind} '{name}'.{hint}")
