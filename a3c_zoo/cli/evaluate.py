"""`a3c-zoo evaluate`."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from dataclasses import asdict
from typing import Any

import click

from a3c_zoo.cli.common import (
    MOST_EPISODES,
    Count,
    complete_policy,
    example,
    playing_options,
    playing_sign,
    runs_dir_option,
    trust_option,
)
from a3c_zoo.standard_streams import take_stdout
from a3c_zoo.words import agents_text, counted, return_text


@click.command(
    epilog=example("a3c-zoo evaluate runs/cartpole-a3c-s1-20260101-120000 --episodes 20 --deterministic")
)
@click.option(
    "--episodes",
    type=Count(1, MOST_EPISODES),
    default=100,
    show_default=True,
    metavar="N",
    help="Episodes to play.",
)
@click.argument("run", metavar="RUN|ENV", shell_complete=complete_policy)
@playing_options
@runs_dir_option
@trust_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    run: str,
    episodes: int,
    deterministic: bool,
    as_json: bool,
    checkpoint: str,
    seed: int | None,
    **options: Any,
) -> None:
    """Play episodes with a trained agent, on seeds that it was not trained on.

    RUN is a run directory or its name. ENV is the name of an environment: its newest solved run is used, or else a
    trained agent.
    """
    from a3c_zoo.runs import api
    from a3c_zoo.store.recommended import choose, held
    from a3c_zoo.store.trained import find_policy, state_of

    if as_json:
        take_stdout()
    with redirect_stdout(sys.stderr if as_json else sys.stdout), playing_sign(episodes) as on_step:
        directory = find_policy(run, **options)
        choice = choose(directory, checkpoint)
        to_play = held(directory, choice)
        step = state_of(directory, to_play.which).steps
        result = api.evaluate_from(directory, to_play, episodes, deterministic, seed, on_step)
    if as_json:
        meta = directory.meta
        played = {"run": str(directory.path), "env": meta["env"], "agent": meta["agent"]}
        played["seed"] = directory.seed if seed is None else seed
        played |= {"checkpoint": choice.which, "step": step}
        click.echo(json.dumps(asdict(result) | played, indent=2))
        return
    click.echo(f"return   {return_text(result.mean_return)} ± {return_text(result.std_return)}", nl=False)
    click.echo(f"  (from {return_text(result.min_return)} to {return_text(result.max_return)})")
    if result.agent_returns:
        click.echo(f"agents   {agents_text(result.agent_returns)}")
    click.echo(f"length   {result.mean_length:,.1f} steps")
    kind = "greedy" if deterministic else "sampled"
    number = counted(result.episodes, "episodes")
    click.echo(f"played   {number} with {kind} actions in {result.seconds:,.1f} s")
