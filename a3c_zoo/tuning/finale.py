"""The end of a tuning: the best trials run again on fresh seeds; one is chosen, and compared with the start.

If the search began with another set than the default one, the default set takes part in this comparison.
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from a3c_zoo.comparison.compare import carry_out, final_returns_of
from a3c_zoo.comparison.known_runs import KnownRuns
from a3c_zoo.comparison.methods import Method
from a3c_zoo.comparison.plan import Budget, Plan, plan_run
from a3c_zoo.config import Config, yaml
from a3c_zoo.config.sets import describe, resolve_config
from a3c_zoo.config.settings import TUNING, TUNING_COST
from a3c_zoo.engines import Engine
from a3c_zoo.errors import ConfigError, ZooError, first_line, printable
from a3c_zoo.figures.curves import Line
from a3c_zoo.files import write_new
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.records import score
from a3c_zoo.report.drawing import Group, Panel
from a3c_zoo.report.pages import ReportSection, TextTable
from a3c_zoo.store.directory import disk_errors
from a3c_zoo.tuning.contenders import Contender, ranked, sound
from a3c_zoo.tuning.racing import CHOICE_SEEDS, REPORT_SEEDS, TUNING_SEEDS, TuningWatcher, method_of
from a3c_zoo.tuning.storages import STUDIES_DIR
from a3c_zoo.tuning.studies import StudySettings, TuningStudy
from a3c_zoo.version import __version__
from a3c_zoo.words import counted, listed

#: How many of the best trials are trained on the choice seeds, and on how many; and how many the report shows.
FINALISTS, CHOICE_RUNS, SHOWN = 3, 3, 10
#: The names of the methods in the last comparison.
TUNED, START, DEFAULT = "tuned", "start", "default"


def play_finale(
    study: TuningStudy, seeds: int, out: Path | None, timeout_s: float | None, watcher: TuningWatcher, engine: Engine
) -> dict[str, Any]:
    """Chooses a trial, compares it with the start, and writes its set. Returns how the study ended.

    Raises ZooError if no finalist can be trained, and what `carry_out` does. For the arguments see `tune`.
    """
    settings = study.settings
    contenders = study.contenders()
    folder = STUDIES_DIR / study.name
    choice = _choose(study, contenders, watcher, engine)
    chosen = max(choice, key=lambda number: choice[number])
    watcher.message(f"trial {chosen} is chosen; comparing it with the start, on fresh seeds")
    methods, found = _compared(study, chosen, contenders[chosen].texts, engine)
    plan = plan_of(study, methods, REPORT_SEEDS[:seeds], engine)
    cost = _cost(settings, contenders)
    runs = (replace(run, tuning=cost) if run.method == TUNED else run for run in plan.runs)
    plan = replace(plan, runs=tuple(runs))
    told = [
        f"Search: {_searched(settings, contenders)}",
        f"Choice: {_seeds(CHOICE_SEEDS[:CHOICE_RUNS])}, {settings.steps:,} steps: "
        + ", ".join(f"trial {number} returns {score(value)}" for number, value in choice.items()),
        f"Comparison of trial {chosen} ({TUNED}) with the set that the search began with ({START})"
        + f" and the default set ({DEFAULT})" * (methods[-1].label == DEFAULT)
        + f": {_seeds(REPORT_SEEDS[:seeds])}, {settings.steps:,} steps",
        *found,
    ]
    section = _section(study, contenders, chosen, told)
    comparison = carry_out(
        plan, None, settings.episodes, folder / "report", watcher, engine, [section], question="return"
    )
    command = _command(settings, len(contenders), seeds, timeout_s)
    title = f"{settings.env} with {settings.agent}, tuned by a3c-zoo {__version__}, {datetime.now():%Y-%m-%d}"
    verdict = [*(f"{text}." for text in found), *comparison.verdict]
    evidence = [title, *told, *comparison.verdict, f"Report: {comparison.out / 'report.md'}", f"Command: {command}"]
    file = _write(out or folder / "tuned.yml", evidence, cost, plan.runs[0].config)
    ended = {"study": study.name, "env": settings.env, "agent": settings.agent, "trial": chosen}
    ended |= {"values": dict(contenders[chosen].texts), "choice": {str(each): value for each, value in choice.items()}}
    ended |= {"file": str(file), "options": options_beside_set(settings), "report": str(comparison.out)}
    return ended | {"verdict": verdict, "failed": list(comparison.failed)}


def _compared(
    study: TuningStudy, chosen: int, texts: Mapping[str, str], engine: Engine
) -> tuple[list[Method], list[str]]:
    """The methods of the last comparison, each configuration once; and a sentence if two are equal.

    texts: the values of the chosen trial.
    """
    settings = study.settings
    found = list[str]()
    seed = REPORT_SEEDS[:1]
    methods = [method_of(settings, TUNED, texts), method_of(settings, START)]
    tuned, start = (run.config.to_dict() for run in plan_of(study, methods, seed, engine).runs)
    has = f"Trial {chosen} has the values of the"
    try:
        usual = default_of(settings)
        default = plan_of(study, [usual], seed, engine).runs[0].config.to_dict()
    except ConfigError as error:
        found.append(f"The default set is not compared, as it does not take the same options: {first_line(error)}")
    else:
        if default not in (tuned, start):
            methods.append(usual)
        elif default == tuned != start:
            found.append(f"{has} default set")
    if tuned == start:
        found.append(f"{has} set that the search began with: it found none that is better")
        del methods[0]
    return methods, found


def default_of(settings: StudySettings, label: str = DEFAULT) -> Method:
    """The default set of the environment, with the same `-o`."""
    registry = get_registry()
    entries = registry.env(settings.env), registry.agent(settings.agent)
    config = resolve_config(registry, *entries, overrides=settings.overrides)
    return method_of(replace(settings, hyperparams=None, config=config.to_dict()), label)


def _choose(
    study: TuningStudy, contenders: Sequence[Contender], watcher: TuningWatcher, engine: Engine
) -> dict[int, float]:
    """Trains the finalists on the choice seeds. Returns trial → mean final return.

    A trial with a failed run is left out, unless every trial has one.
    """
    made = study.settings
    methods = {each.number: method_of(made, f"trial {each.number}", each.texts) for each in finalists(contenders)}
    watcher.message(f"choosing among {listed(method.label for method in methods.values())}, on fresh seeds")
    plan = plan_of(study, list(methods.values()), CHOICE_SEEDS[:CHOICE_RUNS], engine)
    returns = final_returns_of(plan, made.episodes, watcher, engine)
    if not returns:
        raise ZooError("no finalist could be trained and evaluated on the choice seeds; see the lines above")
    whole = {label: found for label, found in returns.items() if len(found) == CHOICE_RUNS}
    if len(whole) < len(methods):
        lost = [each.label for each in methods.values() if each.label not in whole]
        if whole:
            ends = "left out"
        else:
            ends = "no finalist has all, so the other runs decide"
        watcher.message(f"{listed(lost)}: not all {CHOICE_RUNS} runs of the choice have a return; {ends}")
    judged = whole or returns
    return {number: fmean(judged[each.label]) for number, each in methods.items() if each.label in judged}


def plan_of(study: TuningStudy, methods: Sequence[Method], seeds: Sequence[int], engine: Engine) -> Plan:
    """Runs of methods, seed by seed; finished ones are used again."""
    registry = get_registry()
    host = engine.host()
    known = KnownRuns(registry, study.runs_dir, True, host)
    entry = registry.env(study.settings.env)
    budget = Budget(study.settings.steps)
    runs = [plan_run(registry, entry, method, seed, budget, known) for seed in seeds for method in methods]
    return Plan(tuple(runs), study.runs_dir, True, known.left_out, known.outdated, host)


def finalists(contenders: Sequence[Contender]) -> list[Contender]:
    """The best trials that have not failed, each configuration once; of failed ones only if there is no other."""
    first = {tuple(each.texts.items()): each for each in reversed(ranked(sound(contenders)))}
    return ranked(first.values())[:FINALISTS]


def set_of(config: Config) -> dict[str, dict[str, Any]]:
    """A configuration as a set: its values, without those that a machine or the command line decides.

    The budget of the set is the length of the configuration's schedules, which then end with any other budget, too.
    """
    found: dict[str, dict[str, Any]] = {}
    for row in describe(config):
        section, _, key = row.key.rpartition(".")
        is_settled = row.source == "default" and row.value != row.default
        is_others = section == "run" or section.startswith("plugins.") or row.key in ("env.stack", "env.wrappers")
        if row.key == "run.workers" or not (is_settled or is_others):
            found.setdefault(section, {})[key] = row.value
    for values in [*found.values()]:
        if (length := values.get("schedule_steps")) is not None:
            found.setdefault("run", {})["steps"] = length
            values["schedule_steps"] = None
    return found


def options_beside_set(settings: StudySettings) -> list[str]:
    """The values of a study's `-o` that `set_of` leaves out, as `KEY=VALUE`: they are to be given again."""
    registry = get_registry()
    entries = registry.env(settings.env), registry.agent(settings.agent)
    config = resolve_config(registry, *entries, hyperparams=settings.hyperparams, overrides=settings.overrides)
    kept = {f"{section}.{key}" for section, values in set_of(config).items() for key in values}
    rows = [row for row in describe(config) if row.source == "-o" and row.key not in kept]
    return [f"{row.key}={yaml.display(row.value, 0)}" for row in rows]


def _cost(settings: StudySettings, contenders: Sequence[Contender]) -> dict[str, int]:
    """The cost of finding a set: trials, their runs and those of the choice, and the agent steps of all these runs.

    Of a trial that failed, what it trained after its last score is not counted.
    """
    scored = [each for each in contenders if each.scores]
    of_choice = len(finalists(contenders)) * CHOICE_RUNS
    steps = settings.seeds * sum(max(each.scores) for each in scored) + of_choice * settings.steps
    runs = settings.seeds * len(scored) + of_choice
    return dict(zip(TUNING_COST, (len(contenders), runs, steps), strict=True))


def _write(path: Path, evidence: Sequence[str], cost: dict[str, int], config: Config) -> Path:
    """Writes the set with its evidence and its cost into a new file."""
    values = {TUNING: cost, **set_of(config)}
    text = "\n".join(f"# {printable(line)}" for line in evidence) + "\n" + yaml.dump(values)
    with disk_errors(path, "write", "--out FILE"):
        path.parent.mkdir(parents=True, exist_ok=True)
        others = (path.with_stem(f"{path.stem}-{number}") for number in itertools.count(2))
        free = next(each for each in (path, *itertools.islice(others, 10_000)) if not each.exists())
        write_new(free, text.encode())
    return free


def _searched(settings: StudySettings, contenders: Sequence[Contender]) -> str:
    ends = [f"{sum(rung in each.scores for each in contenders)} after {rung:,}" for rung in settings.rungs]
    seeds = _seeds(TUNING_SEEDS[: settings.seeds])
    return f"{counted(len(contenders), 'trials')}, {seeds} in each, judged by their mean return: {listed(ends)} steps"


def _seeds(seeds: range) -> str:
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    return f"seeds {seeds[0]} to {seeds[-1]}"


def _command(made: StudySettings, trials: int, final_seeds: int, timeout_s: float | None) -> str:
    """The command line that makes a study, without places."""
    words = f"a3c-zoo tune {made.env} --agent {made.agent} --trials {trials} --steps {made.steps} --seeds {made.seeds} "
    words += f"--final-seeds {final_seeds} --episodes {made.episodes} --sampler {made.sampler}"
    words += " --pruner none" * (len(made.rungs) == 1) + (f" --timeout {timeout_s:.10g}s" if timeout_s else "")
    more = ["--hyperparams", made.hyperparams] if made.hyperparams else []
    return shlex.join([*words.split(), *more, *(word for text in made.overrides for word in ("-o", text))])


def _section(study: TuningStudy, contenders: Sequence[Contender], chosen: int, told: Sequence[str]) -> ReportSection:
    """The search, as a part of the report: history, importance, and the best trials."""
    rungs = study.settings.rungs
    importances = study.importances()
    points = {rung: [(each.number, each.scores[rung]) for each in contenders if rung in each.scores] for rung in rungs}
    lines = {rung: Line(*np.array(each, np.float64).T) for rung, each in points.items() if each}
    groups = {f"{rung:,} steps": Group([line]) for rung, line in lines.items()}
    title = "search: mean return of the seeds of each trial"
    figures = {title: Panel(title, "trial", "return", groups, has_points=True, has_lines=False)}
    if importances:
        title = f"importance after {rungs[0]:,} steps"
        figures[title] = Panel(title, "share", "", {}, bars=importances)
        source = "PED-ANOVA of the best quarter of all trials (Watanabe et al. 2023, arXiv:2304.10255)"
        told = [*told, f"Importance of keys: {source}. With few trials this is only a hint"]
    best = ranked(sound(contenders))[:SHOWN]
    keys = list(best[0].texts)
    rows = [[str(each.number), f"{each.rank[0]:,}", score(each.rank[1]), *each.texts.values()] for each in best]
    marked = frozenset(place for place, each in enumerate(best) if each.number == chosen)
    table = TextTable(("trial", "steps", "return", *keys), rows, "The best trials; marked: the chosen one", marked)
    return ReportSection("The search", [f"{text}." for text in told], figures, [table], picture="search.png")
