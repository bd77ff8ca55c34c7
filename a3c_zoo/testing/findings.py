"""What checks find: ok, warnings and problems, gathered, or raised at the first problem."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

from a3c_zoo.errors import ConfigError, ZooError, one_line, printable

Status = Literal["ok", "warning", "problem"]

#: If a check gives no sign for so long, its process is ended, in seconds. A whole check of an environment
#: takes a few.
LIMIT_S = 120.0


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """How an environment is checked.

    Attributes:
        overrides: `KEY=VALUE` texts, as for `a3c-zoo train -o`.
        steps: the number of random actions with which the contract is checked.
    """

    overrides: tuple[str, ...] = ()
    steps: int = 500


USUAL = CheckOptions()


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check.

    Attributes:
        subject: what was checked, its kind and its name.
        check: the name of the check, a word or two.
        status: "ok"; "warning": it works, but something is better changed; "problem": it does not work.
        text: what was found, one line. cure: what to do, one line; empty if nothing is to be done.
        figures: name → number that was measured, for scripts.
    """

    subject: str
    check: str
    status: Status
    text: str
    cure: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)


class CheckFailedError(AssertionError):
    """The problem that ends a check, or a part of it."""


class Findings:
    """The findings on one subject, in their order.

    Args:
        subject: kind and name of what is checked, such as "environment 'cartpole'".
        raises: whether the first problem is raised, for tests, rather than kept.
    """

    def __init__(self, subject: str, raises: bool = False) -> None:
        self.subject = subject
        self._raises = raises
        self.found: list[Finding] = []

    def give_sign(self) -> None:
        """Tells whoever waits for findings that a part goes on. Cheap enough for every step."""

    @property
    def is_sound(self) -> bool:
        """Whether there is no problem so far."""
        return all(finding.status != "problem" for finding in self.found)

    def ok(self, check: str, message: str, figures: Mapping[str, float] | None = None) -> None:
        """Notes a result with which nothing is wrong."""
        self._add(check, "ok", message, "", figures)

    def warn(self, check: str, message: str, cure: str, figures: Mapping[str, float] | None = None) -> None:
        """Notes something that is better changed."""
        self._add(check, "warning", message, cure, figures)

    def problem(self, check: str, message: str, cure: str, cause: BaseException | None = None) -> None:
        """Notes a fault; the check goes on.

        Raises:
            CheckFailedError: with one line, if problems are raised.
        """
        if self._raises:
            raise CheckFailedError(
                f"{self.subject}: {' '.join(message.split())}{cure and ': '}{cure}"
            ) from cause
        self._add(check, "problem", message, cure)

    def stop(self, check: str, message: str, cure: str, cause: BaseException | None = None) -> NoReturn:
        """Notes a fault with which this part of the check cannot go on. Raises CheckFailedError."""
        self.problem(check, message, cure, cause)
        raise CheckFailedError(message) from cause

    def stop_quietly(self) -> NoReturn:
        """Ends this part of the check, whose faults are noted. Raises CheckFailedError."""
        raise CheckFailedError

    def expect(self, condition: Any, check: str, message: str, cure: str) -> None:
        """Notes a fault unless the condition holds."""
        if not condition:
            self.problem(check, message, cure)

    @contextmanager
    def during(self, check: str, cure: str) -> Iterator[None]:
        """One part of a check. An exception in it is a problem; the others go on."""
        try:
            yield
        except CheckFailedError:
            if self._raises:
                raise
        except ConfigError as error:
            # A configuration with several faults has a line for each.
            for line in str(error).splitlines()[1:] or [str(error)]:
                self.problem(check, line, cure, error)
        except (ZooError, AssertionError) as error:
            self.problem(check, str(error), cure, error)
        except (Exception, SystemExit) as error:
            self.problem(check, one_line(error), cure, error)

    def _add(
        self, check: str, status: Status, message: str, cure: str, figures: Mapping[str, float] | None = None
    ) -> None:
        text = printable(" ".join(message.split()))
        self.found.append(Finding(self.subject, check, status, text, cure, dict(figures or {})))
