"""Options of commands that select among runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click

from a3c_zoo.cli.common import complete_env, together
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.plugins.typed_names import quiet_env_name
from a3c_zoo.records import Reason

if TYPE_CHECKING:
    from a3c_zoo.store.run import RunSummary

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _parse_time(text: str) -> datetime:
    """Returns the time `30m`, `2h` or `7d` ago, or a date; one without a time zone is in the local time zone."""
    ago = re.fullmatch(r"(\d+)([mhd])", text)
    try:
        if ago is None:
            return datetime.fromisoformat(text).astimezone()
        unit = {"m": "minutes", "h": "hours", "d": "days"}[ago[2]]
        return datetime.now().astimezone() - timedelta(**{unit: int(ago[1])})
    except (ValueError, OverflowError):
        message = f"'{text}' is no time; write 30m, 2h, 7d or a date such as 2026-01-31"
        raise click.BadParameter(message) from None


#: Options that select runs: `env`, `seed`, `status`, `solved` and `since`, see `run_filter`.
filter_options: Callable[[_Command], _Command] = together(
    click.option(
        "--env",
        metavar="NAME",
        multiple=True,
        shell_complete=complete_env,
        help="Runs on this environment; can be repeated.",
    ),
    click.option(
        "--seed", type=int, metavar="N", multiple=True, help="Runs with this seed; can be repeated."
    ),
    click.option(
        "--status",
        type=click.Choice(["running", "died", "damaged", "newer", "pulled", *get_args(Reason)]),
        metavar="NAME",
        help="Runs with this status: running, died, damaged, newer, pulled, or why they ended (steps, interrupted, …).",
    ),
    click.option(
        "--solved/--unsolved", default=None, help="Runs that solved their environment, or ended unsolved."
    ),
    click.option(
        "--since", type=_parse_time, metavar="2h|7d|DATE", help="Runs that started after this time."
    ),
)


def given_filters(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of `filter_options`, or of more options, that were given."""
    return {name: value for name, value in options.items() if value not in (None, ())}


def run_filter(options: Mapping[str, Any]) -> Callable[[RunSummary], bool]:
    """Whether a run is what these options select. A run that does not say what an option asks for is not."""
    from a3c_zoo.store.run import moment_of

    since: datetime | None = options.get("since")
    same = {name: value for name, value in options.items() if name != "since"}
    if names := same.get("env"):
        registry = get_registry()  # runs of other programs have names of their own
        same["env"] = (*names, *(quiet_env_name(registry, name) for name in names))

    def is_wanted(run: RunSummary) -> bool:
        pairs = ((getattr(run, name), value) for name, value in same.items())
        is_same = all(own in value if isinstance(value, tuple) else own == value for own, value in pairs)
        return is_same and (since is None or moment_of(run.started) >= since.timestamp())

    return is_wanted
