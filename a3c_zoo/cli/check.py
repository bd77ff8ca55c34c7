"""`a3c-zoo check`: everything that is wrong with an environment, agent, network, set or plugin, each with its cure."""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from a3c_zoo.cli.common import Count, complete_agent, complete_env, example, print_finding
from a3c_zoo.cli.main import cli
from a3c_zoo.errors import printable
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.standard_streams import is_dumb, take_stdout

if TYPE_CHECKING:
    from a3c_zoo.testing.findings import Finding

#: Width of the column of checks: "vector, Discrete".
COLUMN = 16
#: After so long a line says what goes on, in seconds.
SILENT_S = 2.0
#: To the begin of the line, which becomes empty.
CLEAR = "\r\x1b[K"


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from a3c_zoo.config.sets import list_sets

    registry = get_registry()
    names = [*registry.networks, *(info.name for info in registry.plugins)]
    names += [f"{each.env}/{each.name}" for each in list_sets(registry)]
    items = [CompletionItem(name) for name in names if name.startswith(incomplete)]
    return [*complete_env(ctx, param, incomplete), *complete_agent(ctx, param, incomplete), *items]


class _WaitingLine:
    """A line on the terminal that says which part of a long check is going on: a slow simulator needs minutes."""

    def __init__(self) -> None:
        self._is_live = sys.stderr.isatty() and not is_dumb()
        self._shown = ""

    def show(self, subject: str, part: str, waited_s: float) -> None:
        """Draws the line anew if the part has gone on for `SILENT_S` seconds."""
        if self._is_live and waited_s >= SILENT_S:
            from rich.cells import set_cell_size

            text = f"{printable(subject)}: {printable(part)}, {waited_s:.0f} s"
            text = set_cell_size(text, min(shutil.get_terminal_size().columns - 1, len(text)))
            if text != self._shown:
                click.echo(f"{CLEAR}{text}", nl=False, err=True)
            self._shown = text

    def clear(self) -> None:
        """Removes the line."""
        if self._shown:
            click.echo(CLEAR, nl=False, err=True)
            self._shown = ""


@click.command(epilog=example("a3c-zoo check cartpole"))
@click.argument("name", metavar="ENV|AGENT|NETWORK|SET|PLUGIN", shell_complete=_complete)
@click.option(
    "-o",
    "overrides",
    metavar="KEY=VALUE",
    multiple=True,
    help="Of an environment: set one value, as for training; can be repeated.",
)
@click.option(
    "--steps",
    type=Count(1),
    metavar="N",
    help="Of an environment: the random actions that must keep the contract.  [default: 500]",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array of objects with stable keys.")
def command(name: str, overrides: tuple[str, ...], steps: int | None, as_json: bool) -> int:
    """Check everything that has this name. A set is named ENV/SET; a plugin is checked with all that it offers.

    Each line is ok, a warning or a problem. A warning or a problem has its cure below.

    \b
    Exit status:
      0    there is no problem
      1    there is a problem
      2    nothing has this name
    """
    from a3c_zoo.testing.checkup import check, jobs_for
    from a3c_zoo.testing.findings import USUAL, CheckOptions

    take_stdout()
    findings: list[Finding] = []
    line = _WaitingLine()
    options = None
    if overrides or steps:
        options = CheckOptions(overrides, steps or USUAL.steps)
    for finding in check(jobs_for(get_registry(), name, options), on_wait=line.show, shows_traces=cli.debug):
        line.clear()
        if not as_json:
            if not findings or finding.subject != findings[-1].subject:
                click.echo(finding.subject)
            print_finding(finding.status, finding.check, finding.text, finding.cure, COLUMN)
        findings.append(finding)
    line.clear()
    counts = Counter(finding.status for finding in findings)
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        click.echo(f"{counts['ok']} ok, warnings: {counts['warning']}, problems: {counts['problem']}")
    return 1 if counts["problem"] else 0
