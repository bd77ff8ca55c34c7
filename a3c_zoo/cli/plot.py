"""`a3c-zoo plot`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from a3c_zoo.cli.common import complete_env, complete_run, example, runs_dir_option, trust_option
from a3c_zoo.errors import printable


@click.command(
    epilog=example("a3c-zoo plot runs/cartpole-a3c-s1-20260101-120000 --x seconds --out curve.svg")
)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", shell_complete=complete_run)
@click.option(
    "--kind",
    type=click.Choice(["return", "episode-length", "evaluation"]),
    default="return",
    show_default=True,
    help="Returns or lengths of training episodes, or returns of evaluations with sampled actions. "
    "An evaluations.npz of another program is drawn as it is.",
)
@click.option(
    "--x",
    type=click.Choice(["steps", "seconds", "episodes"]),
    default="steps",
    show_default=True,
    help="The x axis.",
)
@click.option(
    "--window",
    type=click.IntRange(1, 10**9),
    metavar="N",
    help="Mean of the last N episodes.  [default: 100 for returns, 50 for lengths]",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("plot.png"),
    show_default=True,
    metavar="FILE",
    help="The file to write: a picture (.png, .svg, .pdf) or its numbers (.csv).",
)
@click.option("-f", "--force", is_flag=True, help="Overwrite the file.")
@click.option(
    "--frame-skip",
    type=click.IntRange(1),
    metavar="N",
    help="Frames per step in Atari monitors of other programs.  [default: 4]",
)
@click.option(
    "--env",
    metavar="NAME",
    shell_complete=complete_env,
    help="Draw only runs on this environment, and runs whose environment is not known.",
)
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="TEXT",
    help="Name of a curve; one for each, in the order of the legend. Curves of the same name become one group.",
)
@click.option("--caption", is_flag=True, help="Say below the picture what is thick, dashed and thin.")
@runs_dir_option
@trust_option
def command(runs: tuple[str, ...], **options: Any) -> None:
    """Draw the curves of each RUN: a run directory, the name of one, or a folder of them.

    Runs that differ only in their seed share a colour. A thin line is a single run. The thick line is the interquartile
    mean with its 95 % interval; for fewer than five runs it is their mean within their range. It goes as far as all of
    them; the dashed line behind it is that of the longer ones. Folders of stable-baselines3, RL Zoo or CleanRL are
    runs, too. Runs of one method in different folders are different curves.
    """
    from a3c_zoo.report.plot import plot

    plotted = plot(runs, **options)
    for path, reason in plotted.left_out.items():
        click.echo(printable(f"Warning: {path} is left out: {reason}"), err=True)
    if plotted.hidden_threshold:
        click.echo(f"Warning: {plotted.hidden_threshold}", err=True)
    click.echo(f"{len(plotted.runs)} {'run' if len(plotted.runs) == 1 else 'runs'} in {plotted.path}")
