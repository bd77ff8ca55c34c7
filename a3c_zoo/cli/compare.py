"""`a3c-zoo compare`."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from a3c_zoo.cli.common import (
    INTERRUPTED,
    Count,
    ask_to_train,
    complete_agent,
    complete_env,
    complete_run,
    example,
    is_typed,
    kept_runs_option,
    parse_seconds,
    print_sentences,
    trust_option,
    warn_about_faults,
)
from a3c_zoo.cli.engine_options import chosen_engine, engine_options
from a3c_zoo.cli.run_filters import filter_options, given_filters, run_filter
from a3c_zoo.errors import ZooError, printable
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.plugins.typed_names import env_name
from a3c_zoo.standard_streams import drop_lost_output, take_stdout

if TYPE_CHECKING:
    from a3c_zoo.comparison.conclusion import Comparison
    from a3c_zoo.comparison.plan import Plan
    from a3c_zoo.figures.sequential import SequentialRule


#: The names of `filter_options`.
FILTERS = ("env", "seed", "status", "solved", "since")


def parse_seeds(text: str) -> Sequence[int]:
    """Returns the seeds of a list such as `3,7,11`, or 1 to 5 for `5`; for `type=` of an option."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts) or parts == ["0"]:
        raise click.BadParameter(
            f"'{text}' is neither a number of seeds nor a list of seeds; write 10, or 3,7,11"
        )
    numbers = tuple(map(int, parts))
    return numbers if len(numbers) > 1 else range(1, min(numbers[0], 1_000_000) + 1)  # a plan refuses so many


@click.command(epilog=example("a3c-zoo compare cartpole --baseline sb3-a2c --seeds 10"))
@click.argument("envs", nargs=-1, metavar="[ENV]...", shell_complete=complete_env)
@click.option(
    "--agent",
    "agents",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_agent,
    help="Agent; may be repeated. With --from: only its runs.  [default: the environment's]",
)
@click.option(
    "--baseline",
    "baselines",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_agent,
    help="Baseline; may be repeated. NAME@zoo trains it on the zoo's environments.",
)
@click.option(
    "--method",
    "methods",
    multiple=True,
    metavar="TEXT",
    help="An agent or a baseline with settings, in place of --agent and --baseline; may be repeated: "
    '"[NAME=]AGENT[:SET] [-o KEY=VALUE]...". SET is a set or a file. With --from: only runs with these settings.',
)
@click.option(
    "--seeds",
    type=parse_seeds,
    default="5",
    show_default=True,
    metavar="N|LIST",
    help="1 to N, or a list: 3,7.",
)
@click.option(
    "--until-decided",
    is_flag=True,
    help="Train one block of --seeds after another, until a test has decided each pair of methods.",
)
@click.option(
    "--max-seeds",
    type=click.IntRange(1),
    metavar="N",
    help="With --until-decided: the largest number of seeds, a multiple of the block.  [default: 20]",
)
@click.option(
    "--question",
    type=click.Choice(["return", "steps", "time"]),
    help="The main question, which the report answers first; name it before you have seen a run.",
)
@click.option(
    "--steps",
    type=Count(1),
    metavar="N",
    help="Agent steps of each run.  [default: the environment's]",
)
@click.option(
    "--time-limit",
    type=parse_seconds,
    metavar="90s|10m|2h",
    help="Training time of each run, in place of steps.",
)
@click.option(
    "--episodes",
    type=click.IntRange(1, 10_000),
    default=20,
    show_default=True,
    metavar="N",
    help="Episodes per checkpoint. Each run has ten checkpoints.",
)
@click.option(
    "--from",
    "sources",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="DIR",
    shell_complete=complete_run,
    help="Only read runs and train nothing: run directories, or folders of them, also of stable-baselines3, RL Zoo and "
    "CleanRL. The options from --env to --since select among them.",
)
@filter_options
@kept_runs_option
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of the report.  [default: a new one in comparisons]",
)
@click.option(
    "--reuse/--no-reuse", default=True, help="Use finished runs with the same settings.  [default: --reuse]"
)
@engine_options
@trust_option
@click.option("--yes", is_flag=True, help="Do not ask before training.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as one JSON object.")
def command(
    sources: tuple[Path, ...],
    episodes: int,
    trust: bool,
    yes: bool,
    as_json: bool,
    out: Path | None,
    **options: Any,
) -> int:
    """Train agents and baselines on ENV, several seeds each, evaluate them alike, and write a report.

    First each method trains for a few seconds, which shows whether it works here and how long all runs will take. Then
    the command asks. Runs are trained seed by seed, each in a fresh process, one at a time unless the engine has more
    machines. The report is written anew after each run. Finished runs are used again: after Ctrl-C the same command
    continues with the missing ones.
    """
    from a3c_zoo.comparison.compare import check_question
    from a3c_zoo.report.places import choose_out
    from a3c_zoo.store.directory import refuse_trust

    if as_json:
        take_stdout()
    else:
        drop_lost_output("stdout")
    warn_about_faults()
    if sources:
        more, options["envs"] = _folders_apart(options["envs"])
        sources += more
    filters = given_filters({name: options.pop(name) for name in FILTERS})
    if sources:
        options["envs"] += filters.pop("env", ())
    else:
        options["envs"] = tuple(env_name(get_registry(), name) for name in options["envs"])
    out = choose_out(out, options["envs"])
    question = options.pop("question") or ""
    check_question(question, options["until_decided"])
    if sources:
        _refuse_options_of_training(click.get_current_context())
        return _tell(_read(sources, filters, out, trust, question, options), as_json)
    refuse_trust(trust, "--from")
    if filters:
        raise ZooError(f"--{next(iter(filters))} selects among the runs of --from; leave it out")
    comparison = _train(episodes, out, question, yes, as_json, options)
    return INTERRUPTED if comparison is None else _tell(comparison, as_json)


def _read(
    sources: Sequence[Path],
    filters: Mapping[str, Any],
    out: Path,
    trust: bool,
    question: str,
    options: Mapping[str, Any],
) -> Comparison:
    """Reports of runs as they are. options: of the command, the others."""
    from a3c_zoo.comparison.reading import read
    from a3c_zoo.display.displays import open_display

    wanted = run_filter(filters)
    with closing(open_display(to_stderr=True)) as display:
        display.wait("reading the runs, and writing the report")
        return read(
            sources,
            options["envs"],
            out,
            options["agents"],
            options["methods"],
            wanted,
            runs_dir=options["runs_dir"],
            trust=trust,
            question=question,
            chosen_by=_filters_by_end(filters),
        )


def _train(
    episodes: int, out: Path, question: str, yes: bool, as_json: bool, options: dict[str, Any]
) -> Comparison | None:
    """Asks, trains and reports; None after Ctrl-C. options: of the command, the others."""
    from a3c_zoo.comparison.compare import make_plan_and_rule, rehearse_plan
    from a3c_zoo.comparison.comparison_view import ComparisonView
    from a3c_zoo.comparison.course import carry_out
    from a3c_zoo.display.displays import open_display
    from a3c_zoo.words import counted

    with chosen_engine(options) as engine:
        plan, rule = make_plan_and_rule(**options, host=engine.host())
        print_sentences(_announce(plan, rule, episodes), to_stderr=as_json)
        try:
            plan = rehearse_plan(
                plan, rule, episodes, engine.slots, partial(print_sentences, to_stderr=as_json)
            )
        except KeyboardInterrupt:
            click.echo("Stopped. No run has begun.", err=True)
            return None
        if plan.missing and not yes:
            ask_to_train(f"{counted(len(plan.missing), 'runs')} must be trained", as_json)
        with closing(open_display(to_stderr=as_json)) as display:
            view = ComparisonView(display, engine.slots)
            try:
                return carry_out(plan, rule, episodes, out, view, engine, question=question)
            except KeyboardInterrupt:
                display.close()
                _tell_stopped(plan, view.report)
                return None


def _tell_stopped(plan: Plan, report: Path | None) -> None:
    """After Ctrl-C. report: the folder of the report so far; None without one."""
    if plan.reuse:
        command = "the same command"
    else:
        command = "the same command without --no-reuse"
    click.echo(f"Stopped. Finished runs are kept; {command} continues with the others.", err=True)
    if report is not None:
        click.echo(printable(f"Report so far: {report / 'report.html'}"), err=True)


def _folders_apart(names: Sequence[str]) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Splits arguments into run folders and environments: `--from runs/*` is one option and many arguments."""
    known = get_registry().envs
    folders = [name for name in names if name not in known and os.path.isdir(name)]
    return tuple(map(Path, folders)), tuple(name for name in names if name not in folders)


def _filters_by_end(filters: Mapping[str, Any]) -> str:
    """The options that choose runs by how they ended, as they are typed; "" if none was given."""
    options = []
    if "status" in filters:
        options.append(f"--status {filters['status']}")
    if "solved" in filters:
        options.append("--solved" if filters["solved"] else "--unsolved")
    return " ".join(options)


def _refuse_options_of_training(context: click.Context) -> None:
    training = {"baselines", "seeds", "steps", "time_limit", "episodes", "reuse"}
    training |= {"until_decided", "max_seeds", "engine", "address", "engine_option"}
    given = [
        param.opts[0] for param in context.command.params if param.name in training and is_typed(param.name)
    ]
    if given:
        raise ZooError(f"--from only reads runs; leave out {', '.join(given)}")


def _announce(plan: Plan, rule: SequentialRule | None, episodes: int) -> str:
    from a3c_zoo.figures.claims import seeds_needed
    from a3c_zoo.runs.evaluate_checkpoints import CHECKPOINTS
    from a3c_zoo.words import counted, listed

    methods = list(dict.fromkeys(run.method for run in plan.runs))
    envs = {run.env: run.budget for run in plan.runs}
    seeds = len({run.seed for run in plan.runs})
    where = ", ".join(f"{env} ({budget})" for env, budget in envs.items())
    if rule is None:
        many = f"{counted(seeds, 'seeds')}: {len(plan.runs)} runs"
    else:
        many = f"{len(plan.runs)} runs at most"
    lines = [f"{listed(methods)} on {where}, {many}"]
    there = len(plan.runs) - len(plan.missing)
    if there:
        exist = "exists" if there == 1 else "exist"
        lines[0] += f", {there} of them {exist} already"
    for why, count in Counter(plan.outdated.values()).items():
        lines.append(f"{count} finished run{'s are' if count > 1 else ' is'} not used again: {why}")
    if rule is not None:
        lines.append(
            f"blocks of {rule.block} seeds, {seeds} at most, until each of {len(rule.pairs)} pairs is decided"
        )
    if any(run.schedule_steps for run in plan.runs):
        lines.append(plan.schedules)
    most = f"{len(plan.runs) * CHECKPOINTS * 2 * episodes:,} episodes at most"
    each_plays = f"each checkpoint plays {counted(episodes, 'episodes')}"
    lines.append(f"evaluation: {each_plays} with sampled and with greedy actions; {most}")
    if rule is None and len(methods) > 1 and seeds < seeds_needed(1):  # type: ignore[operator]
        needs = f"one question needs {seeds_needed(1)} of each method, and three need {seeds_needed(3)}"
        lines.append(f"so few seeds can show no difference on an environment: {needs}")
    return "\n".join(lines)


def _tell(comparison: Comparison, as_json: bool) -> int:
    if as_json:
        more = {"out": str(comparison.out), "verdict": comparison.verdict, "failed": comparison.failed}
        click.echo(json.dumps(comparison.results | more, indent=2))
    else:
        shown = comparison.answers
        colours = {text: "green" if shown.get(text) else "yellow" for text in comparison.answer}
        print_sentences(comparison.summary(), colours=colours)
    return 1 if comparison.failed else 0
