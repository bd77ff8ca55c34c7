"""`a3c-zoo evaluate`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from a3c_zoo.cli.common import (
    checkpoint_option,
    deterministic_option,
    run_argument,
    runs_dir_option,
    seed_option,
)
from a3c_zoo.records import score

if TYPE_CHECKING:
    from collections.abc import Callable


@click.command(
    short_help="Play episodes with a trained agent.",
    epilog="Example: a3c-zoo evaluate runs/cartpole-a3c-s1-20260101-120000 --episodes 20 --deterministic",
)
@run_argument
@click.option(
    "--episodes", type=click.IntRange(1), default=100, show_default=True, metavar="N", help="Episodes to play."
)
@deterministic_option
@checkpoint_option
@seed_option
@runs_dir_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    run: str, episodes: int, deterministic: bool, checkpoint: str, seed: int | None, runs_dir: Path, as_json: bool
) -> None:
    """Play episodes with the agent of RUN, a run directory or the name of one, on seeds that it was not trained on."""
    from a3c_zoo.runs import api

    with click.progressbar(length=episodes, label="episodes", file=sys.stderr, hidden=not sys.stderr.isatty()) as bar:
        result = api.evaluate(
            run,
            episodes=episodes,
            deterministic=deterministic,
            checkpoint=checkpoint,
            seed=seed,
            runs_dir=runs_dir,
            on_step=_advance(bar.update),
        )
    if as_json:
        click.echo(json.dumps(asdict(result), indent=2))
        return
    click.echo(f"return   {score(result.mean_return)} ± {score(result.std_return)}", nl=False)
    click.echo(f"  (from {result.min_return:g} to {result.max_return:g})")
    click.echo(f"length   {result.mean_length:.1f} steps")
    kind = "greedy" if deterministic else "sampled"
    click.echo(f"played   {result.episodes} episodes with {kind} actions in {result.seconds:.1f} s")


def _advance(update: Callable[[int], None]) -> Callable[[int], None]:
    shown = 0

    def advance(played: int) -> None:
        nonlocal shown
        if played > shown:
            update(played - shown)
            shown = played

    return advance
