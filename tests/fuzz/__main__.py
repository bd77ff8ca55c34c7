"""Runs many cases of every property (`make fuzz`). The same seed gives the same cases.

Exit status: 0 if every property holds, 1 otherwise.
"""

from __future__ import annotations

import sys
import tempfile
import time
import traceback
from pathlib import Path

import click

from tests.fuzz.properties import GIVEN, Properties, as_test
from tests.fuzz.sandbox import sandbox


@click.command(context_settings={"max_content_width": 120})
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Chooses all cases.")
@click.option(
    "--cases", type=click.IntRange(1, 10**6), default=2500, show_default=True, help="Cases of all properties."
)
@click.option("--minutes", type=click.FloatRange(0, 600), default=15.0, show_default=True, help="No case begins later.")
@click.option("--only", type=click.Choice(list(GIVEN)), help="One property.")
def main(seed: int, cases: int, minutes: float, only: str | None) -> None:
    """Runs commands with arguments and files of all kinds, and checks that each ends in order.

    Example: python -m tests.fuzz --seed 1 --cases 2500
    """
    start_s, findings = time.monotonic(), 0
    deadline_s = start_s + 60 * minutes
    with (
        tempfile.TemporaryDirectory(prefix="a3c-zoo-fuzz-", ignore_cleanup_errors=True) as folder,
        sandbox(Path(folder)) as box,
    ):
        properties = Properties(box, has_time=lambda: time.monotonic() < deadline_s)
        for name in [only] if only else GIVEN:
            findings += _findings(properties, name, seed, cases if only else round(cases * GIVEN[name][0]))
        counts = ", ".join(f"{count} {what}" for what, count in properties.cases.items())
        ends = ", ".join(f"{status}: {count}" for status, count in sorted(properties.statuses.items()))
    click.echo(f"cases by kind: {counts}; by exit status: {ends}")
    total, seconds = sum(properties.cases.values()), time.monotonic() - start_s
    click.echo(f"{total} cases, {findings} findings, seed {seed}, {seconds:.0f} s")
    sys.exit(1 if findings else 0)


def _findings(properties: Properties, name: str, seed: int, cases: int) -> int:
    """Runs a property; shows what it finds, and returns the number of different findings."""
    try:
        as_test(properties, name, cases, seed)()
    except BaseExceptionGroup as group:
        for error in group.exceptions:
            _show(name, error)
        return len(group.exceptions)
    except Exception as error:
        _show(name, error)
        return 1
    return 0


def _show(name: str, error: BaseException) -> None:
    cause = error.__cause__
    where = "".join(traceback.format_tb(cause.__traceback__)[-3:]) if cause else ""
    notes = "\n".join(getattr(error, "__notes__", ()))
    click.echo(
        f"FINDING ({name}) {error}\n{where}{type(cause).__name__ if cause else ''} {cause or ''}\n{notes}\n", err=True
    )


if __name__ == "__main__":
    main()
