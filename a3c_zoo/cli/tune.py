"""`a3c-zoo tune`."""

from __future__ import annotations

import json
import shlex
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from a3c_zoo.cli.common import (
    INTERRUPTED,
    Count,
    ask_to_train,
    complete_env,
    configuration_options,
    example,
    is_typed,
    kept_runs_option,
    need_extra,
    parse_seconds,
    print_sentences,
    warn_about_faults,
)
from a3c_zoo.cli.engine_options import chosen_engine, engine_options
from a3c_zoo.errors import ZooError, printable_lines
from a3c_zoo.files import refuse_ending, valid_name
from a3c_zoo.plugins.next_command import next_command
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.standard_streams import drop_lost_output, take_stdout
from a3c_zoo.tuning.choices import (
    FINAL_SEEDS,
    MOST_BYTES,
    MOST_EPISODES,
    MOST_SEEDS,
    MOST_TRIALS,
    PRUNERS,
    SAMPLERS,
)

if TYPE_CHECKING:
    from a3c_zoo.tuning.studies import TuningStudy

#: The options that a study keeps.
KEPT: Final = ("env", "agent", "hyperparams", "overrides", "steps", "seeds", "episodes", "sampler")
PRUNER: Final = (
    "halving: a third of the trials goes on after 1/9 of the steps, "
    "and again after 1/3; none: all.  [default: halving]"
)
METHOD: Final = (
    'Begin with a method of compare, in place of --agent, --hyperparams and -o: "AGENT:SET -o KEY=VALUE". '
    "NAME= before it names the study."
)
STEPS: Final = "Agent steps of a whole run.  [default: ENV's budget, or 400000]"
RESUME: Final = (
    "Go on with a study. It has ENV and its options; --trials, --timeout and --final-seeds can be given anew."
)
COUNT = click.IntRange(1, MOST_SEEDS)


@click.command(epilog=example("a3c-zoo tune cartpole --agent nstep --trials 30 --timeout 15m"))
@click.argument("env", required=False, shell_complete=complete_env)
@configuration_options
@click.option("--method", default="", metavar="METHOD", help=METHOD)
@click.option(
    "--trials",
    type=click.IntRange(1, MOST_TRIALS),
    default=30,
    show_default=True,
    metavar="N",
    help="Trials of the study, in all.",
)
@click.option(
    "--timeout", type=parse_seconds, metavar="90s|10m|2h", help="After this time no trial begins or goes on."
)
@click.option("--seeds", type=COUNT, default=2, show_default=True, metavar="N", help="Runs of each trial.")
@click.option(
    "--final-seeds",
    type=COUNT,
    default=FINAL_SEEDS,
    show_default=True,
    metavar="N",
    help="Runs of the comparison.",
)
@click.option("--steps", type=Count(1), metavar="N", help=STEPS)
@click.option(
    "--episodes",
    type=click.IntRange(1, MOST_EPISODES),
    default=20,
    show_default=True,
    metavar="N",
    help="Episodes per evaluation.",
)
@click.option(
    "--sampler",
    type=click.Choice(list(SAMPLERS)),
    default="tpe",
    help="Optuna's sampler.  [default: tpe]",
)
@click.option("--pruner", type=click.Choice(PRUNERS), default="halving", help=PRUNER)
@click.option("--study", metavar="NAME", help="Name of the study.  [default: ENV-AGENT, or ENV-NAME]")
@click.option(
    "--storage",
    metavar="FILE|URL",
    help="Where Optuna keeps the study.  [default: studies/NAME/journal.jsonl]",
)
@click.option("--resume", metavar="STUDY", help=RESUME)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE.yml",
    help="File of the new set.  [default: in studies/NAME]",
)
@kept_runs_option
@engine_options
@click.option("--yes", is_flag=True, help="Do not ask before training.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
def command(
    resume: str | None,
    study: str | None,
    storage: str | None,
    runs_dir: Path,
    yes: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Search for better hyperparameters for ENV, with evidence. Needs the extra `tune`.

    First the default set and the set of the start train for a few seconds, which shows whether they work here and how
    long all will take. Then the command asks. Trials race: each trains for some steps, and the better ones go on. The
    best ones are trained again on fresh seeds. The best of these is compared with both sets, and written as a set for
    --hyperparams.

    A set's block `search:` says which keys are searched. Without one, the agent's default search space does; an agent
    of a plugin may have none. After Ctrl-C the same command goes on. Several commands can work on one study.
    """
    need_extra("tune", "tune", "optuna")
    from a3c_zoo.config.sets import SET_SUFFIXES
    from a3c_zoo.display.displays import open_display
    from a3c_zoo.tuning.studies import OPTIONS, TuningStudy
    from a3c_zoo.tuning.tune import make_settings, refuse_if_ended, rehearse_study, study_name, tune
    from a3c_zoo.tuning.tuning_view import TuningView

    if as_json:
        take_stdout()
    else:
        drop_lost_output("stdout")
    warn_about_faults()
    made = {name: options.pop(name) for name in (*KEPT, "pruner", "method")}
    if resume is not None:
        _refuse_beside_resume()
        resumed = TuningStudy(study := valid_name(resume, "--resume", MOST_BYTES), storage, runs_dir)
        if storage is not None:
            resumed.refuse_strangers()
        kept = resumed.settings
        made = {name: getattr(kept, name) for name in KEPT} | {
            "pruner": "halving" if len(kept.rungs) > 1 else "none"
        }
        changeable = resumed.attribute(OPTIONS) or {}
        options |= {name: value for name, value in changeable.items() if not is_typed(name)}
    elif made["env"] is None:
        raise ZooError("name an environment, or a study to --resume. See: a3c-zoo list envs")
    settings = make_settings(**made)
    name = study or study_name(settings, made.get("method", ""))
    if options["out"] is not None:  # before there is a study
        refuse_ending(options["out"], SET_SUFFIXES)
    with chosen_engine(options) as engine:
        opened = TuningStudy(valid_name(name, "--study", MOST_BYTES), storage, runs_dir, settings)
        refuse_if_ended(
            opened,
            options["trials"],
            options["timeout"],
            options["final_seeds"] if is_typed("final_seeds") else None,
            options["out"],
            _typed_text,
        )
        print_sentences(_announce(opened, options["trials"]), to_stderr=as_json)
        options["timeout_s"] = options.pop("timeout")
        tell = partial(print_sentences, to_stderr=as_json)
        try:
            if rehearse_study(opened, engine, tell, **options) and not yes:
                ask_to_train(f"the trials of study '{opened.name}' must be trained", as_json)
            with closing(open_display(to_stderr=as_json)) as display:
                view = TuningView(options["trials"], settings.steps, display, engine.slots)
                result = tune(opened, engine, view, **options)
        except KeyboardInterrupt:
            click.echo("Stopped. All trials are kept; the same command goes on.", err=True)
            return INTERRUPTED
    return _tell(opened, result, as_json)


def _refuse_beside_resume() -> None:
    params = [
        param
        for param in click.get_current_context().command.params
        if param.name in (*KEPT, "pruner", "method", "study")
    ]
    if given := [param.opts[0] for param in params if is_typed(str(param.name))]:
        raise ZooError(f"--resume goes on with a study as it began; leave out {', '.join(given)}")


def _typed_text(name: str, value: Any) -> str:
    """An option as it is typed: `--final-seeds 7`, or `--trials` without a value."""
    option = f"--{name.removesuffix('_s').replace('_', '-')}"
    if value is None:
        return option
    unit = "s" if name.endswith("_s") else ""
    return f"{option} {value}{unit}"


def _announce(study: TuningStudy, trials: int) -> str:
    from a3c_zoo.words import counted

    made = study.settings
    rungs = ", ".join(f"{rung:,}" for rung in made.rungs)
    start = made.hyperparams or "the default set"
    amount = f"{counted(trials, 'trials')}, {counted(made.seeds, 'seeds')}"
    title = f"{made.agent} on {made.env}: {amount} each, judged after {rungs} steps"
    if get_registry().env(made.env).budget_steps is None:
        title += f"\n{made.env} has no budget of its own, so a whole run has {made.steps} steps (--steps)"
    return f"{title}\nfrom {start}, searching {', '.join(made.space)}\nstudy {study.name}: {study.where}"


def _why_open(study: TuningStudy) -> str:
    """Why a study has not ended, although nothing of it is left to train here."""
    from a3c_zoo.words import listed

    places = study.open_elsewhere()
    if not places:
        return "Other processes still train trials of this study; the last of them ends it."
    trials = (
        f"trial{'s' * (len(each) > 1)} {listed(map(str, each))} of {place}" for place, each in places.items()
    )
    return (
        f"Nothing is left for this process. The study has not ended: it waits for {listed(trials)}, "
        "and perhaps for trials that other processes train here.\n"
        "If a process there still trains, the last process ends the study. If none does, give the same command there: "
        "on a machine of that name, with that --runs-dir. If that place is gone, see docs/how-to/tune.md."
    )


def _tell(study: TuningStudy, result: dict[str, Any] | None, as_json: bool) -> int:
    from a3c_zoo.report.places import REPORT_PAGE, opening
    from a3c_zoo.tuning.finale import about_unshown

    if result is None:
        print_sentences(_why_open(study), to_stderr=True)
        if as_json:
            click.echo(json.dumps({"study": study.name, "trial": None}, indent=2))
        return 0
    if as_json:
        click.echo(json.dumps(result, indent=2))
    else:
        values = [f"  {key}={text}" for key, text in result["values"].items()]
        files = [f"  {result['file']}", f"  {opening(Path(result['report']) / REPORT_PAGE)}"]
        words = ["train", result["env"], "--agent", result["agent"], "--hyperparams", result["file"]]
        words += [word for text in result["options"] for word in ("-o", text)]
        click.echo(printable_lines("\n".join([f"trial {result['trial']} is chosen:", *values])))
        print_sentences("\n".join(result["verdict"]))
        click.echo(printable_lines("\n".join(files)))
        if result["not_shown_better_than"]:
            print_sentences(
                f"{about_unshown(result['not_shown_better_than'])}. To train with it all the same:"
            )
        click.echo(printable_lines(f"next: {next_command(shlex.join(words))}"))
    return 1 if result["failed"] else 0
