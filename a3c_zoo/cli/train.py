"""`a3c-zoo train`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import closing, redirect_stdout
from dataclasses import asdict
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin

import click

from a3c_zoo.cli.common import (
    INTERRUPTED,
    Count,
    complete_env,
    complete_run,
    configuration_options,
    example,
    kept_runs_option,
    parse_seconds,
    together,
    trust_option,
    warn_about_faults,
)
from a3c_zoo.config import RunConfig
from a3c_zoo.config.models import AUTO, TRAIN_OPTIONS
from a3c_zoo.errors import first_line
from a3c_zoo.standard_streams import drop_lost_output, take_stdout


def run_option(key: str, default: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option for a key of the section `run`. default: what its help says of it; "" for that of a new run."""
    option = TRAIN_OPTIONS[key]
    text = option.help
    if told := default or option.default:
        text += f"  [default: {told}]"
    return click.option(option.name, key, type=_type_of(key), metavar=option.metavar, help=text)


class NumberOrAuto(click.ParamType):  # type: ignore[type-arg]  # click 8.1 takes no argument
    """A whole number, or `auto`."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the number, or the word."""
        if value == AUTO:
            return value
        return Count(forms=f"one such as 4, or {AUTO}").convert(value, param, ctx)


def _type_of(key: str) -> Any:
    """The type of a key of the section `run`, as click takes it."""
    if RunConfig.model_fields[key].default == AUTO:
        return NumberOrAuto()
    if key.endswith("_s"):
        return parse_seconds
    annotation = RunConfig.model_fields[key].annotation
    if get_origin(annotation) is Literal:
        return click.Choice(get_args(annotation))
    if get_origin(annotation) is UnionType:  # such as `int | None`: an option that is not given is None
        annotation = get_args(annotation)[0]
    if key == "seed":
        return Count(forms="one such as 1")
    return Count() if annotation is int else annotation


#: What is printed: `quiet` and `as_json`.
output_options: Callable[[Callable[..., Any]], Callable[..., Any]] = together(
    click.option("--quiet", is_flag=True, help="Print only the summary."),
    click.option(
        "--json", "as_json", is_flag=True, help="Print only one JSON object at the end, also after an error."
    ),
)


def print_failure(path: Path | None, error: BaseException) -> None:
    """Prints the object of `--json` for a run that has failed. path: its directory, if it had one."""
    run = str(path) if path and os.path.lexists(path) else None
    reason, detail = "error", first_line(error)
    if isinstance(error, KeyboardInterrupt | click.Abort):
        reason, detail = "interrupted", "Ctrl-C"
    about = {"run": run, "solved": False, "reason": reason, "detail": detail}
    click.echo(json.dumps(about, indent=2))


@click.command(
    epilog=example("a3c-zoo train cartpole --seed 1 -o optimizer.learning_rate=1e-3 --time-limit 2m")
)
@click.argument("env", required=False, shell_complete=complete_env)
@configuration_options
@click.option(
    "--serial", is_flag=True, help="Run the workers in turn in this process: slow, exactly reproducible."
)
@together(*map(run_option, TRAIN_OPTIONS))
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
@click.option(
    "--dry-run", is_flag=True, help="Only check all that can be checked, and print what would be trained."
)
@output_options
def command(env: str | None, quiet: bool, as_json: bool, dry_run: bool, **options: Any) -> int:
    """Train an agent on the environment ENV until it is solved or a limit is reached.

    The run is written to a new directory. Ctrl-C saves a checkpoint, from which --resume continues.

    \b
    Exit status:
      0    the run ended as it should
      1    an error of a worker, or an internal error
      2    an error that you can correct
      130  Ctrl-C
    """
    if dry_run:
        from a3c_zoo.cli.dry_run import show

        try:
            return show(env, as_json, **options)
        except BaseException as error:
            if as_json:
                print_failure(None, error)
            raise
    return train(env, quiet, as_json, **options)


def train(env: str | None, quiet: bool, as_json: bool, **options: Any) -> int:
    """Trains, shows how it goes, and returns the exit status. options: those of `a3c_zoo.train`."""
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
            outcome = api.train(env, observer=view, **options)
            view.ended(outcome)
    except BaseException as error:
        if as_json:
            print_failure(view.path, error)
        raise
    if as_json:
        run = str(outcome.run) if os.path.lexists(outcome.run) else None
        click.echo(json.dumps(asdict(outcome) | {"run": run}, indent=2))
    else:
        verdict, figures = summary(outcome, view.run, view.has_target).split("\n", 1)
        click.echo(f"{click.style(verdict, fg=colour_of(outcome), bold=True)}\n{figures}")
    if outcome.reason == "interrupted":
        return INTERRUPTED
    return 0
