"""`a3c-zoo resume`."""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from a3c_zoo.cli.common import complete_run, example, is_typed, kept_runs_option, together, trust_option
from a3c_zoo.cli.train import output_options, print_failure, run_option, train
from a3c_zoo.config.models import TRAIN_OPTIONS
from a3c_zoo.errors import RunDirectoryError, ZooError, printable
from a3c_zoo.plugins.next_command import next_command
from a3c_zoo.store.run_files import PULLED_JSON

if TYPE_CHECKING:
    from a3c_zoo.store.run import RunSummary

#: How a run has ended that goes on without another limit.
CAN_GO_ON = ("died", "interrupted", "error")
#: Ends by a budget, and the option that gives a larger one.
SPENT = {"steps": "steps", "episodes": "episodes", "time-limit": "time_limit_s"}


@click.command(epilog=example("a3c-zoo resume"))
@click.argument("run", required=False, metavar="[RUN]", shell_complete=complete_run)
@together(*(run_option(key, "as before") for key, option in TRAIN_OPTIONS.items() if option.on_resume))
@click.option(
    "--checkpoint",
    metavar="STEP|best",
    help="The checkpoint to go on from; later ones are moved aside.  [default: the newest]",
)
@kept_runs_option
@trust_option
@output_options
def command(run: str | None, quiet: bool, as_json: bool, **options: Any) -> int:
    """Go on with RUN, as `a3c-zoo train --resume RUN` does.

    Without RUN: with the newest run that was interrupted, was killed or failed. With a larger limit also with one that
    has spent its own. Limits count from the start of the run, and those given before stay.
    """
    if run is None:
        try:
            run = str(_newest(options["runs_dir"]))
        except ZooError as error:
            if as_json:
                print_failure(None, error)
            raise
        click.echo(printable(f"Going on with {run}"), err=True)
    return train(None, quiet, as_json, resume=run, **options)


def _newest(runs_dir: Path) -> Path:
    """The newest run that can go on. Raises ZooError if there is none."""
    from a3c_zoo.store.directory import run_argument
    from a3c_zoo.store.run import list_runs

    spent = None
    for run in reversed(list_runs(runs_dir)):
        if run.solved or not _has_checkpoint(run.path):
            continue
        is_spent = run.status in SPENT
        if run.status in CAN_GO_ON or (is_spent and _has_larger_limit(run)):
            return run.path
        if is_spent and spent is None:
            spent = run
    text = f"nothing to resume: no run in {runs_dir} was interrupted, was killed or failed with a checkpoint"
    if spent:
        cure = next_command(f"resume {run_argument(spent.path)} {_more(spent)}")
        text += f". The newest run has spent its budget. More: {cure}"
    raise ZooError(text)


def _has_larger_limit(spent: RunSummary) -> bool:
    """Whether the command gives more of the budget that ended a run than the run has used."""
    option = SPENT[spent.status]
    return is_typed(option) and click.get_current_context().params[option] > _used(spent)


def _used(spent: RunSummary) -> float:
    """What a run has used of the budget that ended it."""
    from a3c_zoo.store.run import Run

    outcome = Run(spent.path).outcome
    assert outcome is not None  # its reason is the status
    if spent.status == "time-limit":
        return outcome.training_s
    return outcome.episodes if spent.status == "episodes" else outcome.steps


def _more(spent: RunSummary) -> str:
    """The option with twice what a run has used of the budget that ended it.

    Limits count from the start of the run.
    """
    used = _used(spent)
    if spent.status == "time-limit":
        return f"--time-limit {math.ceil(2 * used)}s"
    return f"--{spent.status} {2 * max(1, used)}"


def _has_checkpoint(path: Path) -> bool:
    from a3c_zoo.store.checkpoints import checkpoint_steps
    from a3c_zoo.store.run import Run

    run = Run(path)
    with suppress(RunDirectoryError):
        return not (path / PULLED_JSON).exists() and bool(checkpoint_steps(run) or run.best_file.exists())
    return False
