"""`a3c-zoo train`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from a3c_zoo.cli.common import INTERRUPTED, Duration, kept_runs_option, warn_about_faults
from a3c_zoo.cli.complete import complete_agent, complete_env, complete_run, complete_set

if TYPE_CHECKING:
    from a3c_zoo.records import Outcome


@click.command(
    short_help="Train an agent until it is solved.",
    epilog="Example: a3c-zoo train cartpole --seed 1 -o optimizer.learning_rate=1e-3 --time-limit 2m",
)
@click.argument("env", required=False, shell_complete=complete_env)
@click.option("--agent", metavar="NAME", shell_complete=complete_agent, help="Agent.  [default: the environment's]")
@click.option(
    "--hyperparams",
    metavar="SET|FILE",
    shell_complete=complete_set,
    help="A set in place of the default one, or a YAML file on top of it.",
)
@click.option("-o", "overrides", metavar="KEY=VALUE", multiple=True, help="Set one value; may be repeated.")
@click.option("--workers", type=int, metavar="N", help="Worker processes.")
@click.option("--serial", is_flag=True, help="Workers in turn in this process: slow, exactly reproducible.")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), help="Where networks compute.  [default: cpu]")
@click.option("--seed", type=int, metavar="N", help="Root of every random number.")
@click.option("--steps", type=int, metavar="N", help="End after N agent steps.")
@click.option("--episodes", type=int, metavar="N", help="End after N episodes.")
@click.option("--time-limit", type=Duration(), metavar="90s|10m|2h", help="End after so long a training.")
@click.option("--stop-return", type=float, metavar="X", help="End at this mean return.  [default: the threshold]")
@click.option(
    "--resume", metavar="RUN", shell_complete=complete_run, help="Go on with a run; limits count from its start."
)
@click.option("--name", metavar="TEXT", help="Name of the run directory.")
@kept_runs_option
@click.option("--quiet", is_flag=True, help="Only the summary.")
def command(env: str | None, time_limit: float | None, quiet: bool, **options: Any) -> int:
    """Train an agent on the environment ENV until it is solved or a budget is spent.

    Everything about the run is kept in a new directory. Ctrl-C saves a checkpoint; --resume goes on from it.
    Exit status: 0 when the run ended as asked, 2 for what you can mend, 1 for what you can't, 130 after Ctrl-C.
    """
    from a3c_zoo.cli.panel import Watcher, summary
    from a3c_zoo.plugins.registry import get_registry
    from a3c_zoo.runs import api

    warn_about_faults(get_registry())
    watcher = Watcher(quiet)
    try:
        outcome: Outcome = api.train(env, time_limit_s=time_limit, observer=watcher, **options)
    finally:
        watcher.close()
    click.echo(summary(outcome))
    return INTERRUPTED if outcome.reason == "interrupted" else 0
