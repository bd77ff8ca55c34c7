"""`a3c-zoo doctor`: what is wrong with this machine and this installation, and the cure."""

from __future__ import annotations

import json
import traceback
from collections import Counter
from dataclasses import asdict

import click

from a3c_zoo.cli.common import example, print_finding
from a3c_zoo.cli.examinations import examine
from a3c_zoo.cli.main import cli
from a3c_zoo.errors import printable_lines
from a3c_zoo.standard_streams import take_stdout


@click.command(epilog=example("a3c-zoo doctor"))
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array of objects with stable keys.")
def command(as_json: bool) -> int:
    """Examine this machine and this installation, and train for half a second.

    Each line is ok, a warning or a problem. A warning or a problem has its cure below.

    \b
    Exit status:
      0    there is no problem
      1    there is a problem
    """
    take_stdout()
    counts: Counter[str] = Counter()
    for diagnosis in examine(_show_traceback):
        if as_json:  # each object at once, though it takes seconds until the array ends
            click.echo(f"{',' if counts else '['}\n  {json.dumps(asdict(diagnosis))}", nl=False)
        else:
            print_finding(diagnosis.status, diagnosis.subject, diagnosis.text, diagnosis.cure)
        counts[diagnosis.status] += 1
    if as_json:
        click.echo("\n]")
    else:
        click.echo(f"{counts['ok']} ok, warnings: {counts['warning']}, problems: {counts['problem']}")
    return 1 if counts["problem"] else 0


def _show_traceback(error: BaseException) -> None:
    if cli.debug:
        click.echo(printable_lines("".join(traceback.format_exception(error))), err=True, nl=False)
