"""`a3c-zoo train`."""

from __future__ import annotations

import json
import sys
from contextlib import closing, redirect_stdout
from dataclasses import asdict
from typing import Any

import click

from a3c_zoo.cli.common import (
    INTERRUPTED,
    complete_env,
    complete_run,
    configuration_options,
    kept_runs_option,
    parse_seconds,
    trust_option,
    warn_about_faults,
)
from a3c_zoo.errors import first_line
from a3c_zoo.standard_streams import drop_lost_output, take_stdout

FILM_EVERY = "Film every N-th evaluation. If the set has no evaluations, there is one every 10 s."


@click.command(epilog="Example: a3c-zoo train cartpole --seed 1 -o optimizer.learning_rate=1e-3 --time-limit 2m")
@click.argument("env", required=False, shell_complete=complete_env)
@configuration_options
@click.option("--workers", type=int, metavar="N", help="Number of worker processes.")
@click.option("--serial", is_flag=True, help="Run the workers in turn in this process: slow, exactly reproducible.")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), help="Device of the networks.  [default: cpu]")
@click.option("--seed", type=int, metavar="N", help="Seed of all random numbers.")
@click.option("--steps", type=int, metavar="N", help="Stop after N agent steps.  [default: the set's budget]")
@click.option("--episodes", type=int, metavar="N", help="Stop after N episodes.")
@click.option("--time-limit", type=parse_seconds, metavar="90s|10m|2h", help="Stop after this training time.")
@click.option(
    "--stop-return",
    type=float,
    metavar="X",
    help="Stop at this mean return of 100 episodes.  [default: the environment's threshold]",
)
@click.option("--film-every", type=int, metavar="N", help=FILM_EVERY)
@click.option(
    "--resume",
    metavar="RUN",
    shell_complete=complete_run,
    help="Continue a run. Limits count from the start of the run, and those given before stay.",
)
@click.option(
    "--checkpoint",
    metavar="STEP|best",
    help="With --resume: the checkpoint to continue from; later ones are moved aside.  [default: the newest]",
)
@click.option(
    "--init-from",
    metavar="RUN|ENV",
    shell_complete=complete_run,
    help="Begin with the parameters of the policy that `evaluate` finds by this name.",
)
@click.option("--name", metavar="TEXT", help="Name of the run directory.")
@kept_runs_option
@trust_option
@click.option("--quiet", is_flag=True, help="Print only the summary.")
@click.option("--json", "as_json", is_flag=True, help="Print only one JSON object at the end, also after an error.")
def command(env: str | None, time_limit: float | None, quiet: bool, as_json: bool, **options: Any) -> int:
    """Train an agent on the environment ENV until it is solved or a limit is reached.

    The run is written to a new directory. Ctrl-C saves a checkpoint, from which --resume continues.

    \b
    Exit status:
      0    the run ended as it should
      1    an error of a worker, or an internal error
      2    an error that you can correct
      130  Ctrl-C
    """
    from a3c_zoo.cli.summary import summary
    from a3c_zoo.display.displays import open_display
    from a3c_zoo.runs import api
    from a3c_zoo.runs.training_view import TrainingView, colour_of

    if as_json:
        take_stdout()
    drop_lost_output("stdout")
    display = open_display(quiet or (as_json and not sys.stderr.isatty()), to_stderr=as_json)
    view = TrainingView(display)
    try:
        warn_about_faults()
        # The display closes first: it gives stdout back as it was when it opened.
        with redirect_stdout(sys.stderr if as_json else sys.stdout), closing(display):
            outcome = api.train(env, time_limit_s=time_limit, observer=view, **options)
            view.ended(outcome)
    except BaseException as error:
        if as_json:
            about = {"run": view.path and str(view.path), "solved": False, "reason": "error"}
            click.echo(json.dumps(about | {"detail": first_line(error)}, indent=2))
        raise
    if as_json:
        click.echo(json.dumps(asdict(outcome) | {"run": str(outcome.run)}, indent=2))
    else:
        verdict, figures = summary(outcome, view.run).split("\n", 1)
        click.echo(f"{click.style(verdict, fg=colour_of(outcome), bold=True)}\n{figures}")
    return INTERRUPTED if outcome.reason == "interrupted" else 0
