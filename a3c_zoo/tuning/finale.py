"""The end of a tuning: the best trials run again on fresh seeds; one is chosen, and compared with the start.

If the search began with another set than the default one, the default set takes part in this comparison.
"""

from __future__ import annotations

import itertools
import random
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import numpy as np

from a3c_zoo.comparison.course import carry_out, final_returns_of
from a3c_zoo.comparison.known_runs import KnownRuns
from a3c_zoo.comparison.methods import Method
from a3c_zoo.comparison.plan import Budget, Plan, plan_method
from a3c_zoo.config import Config, yaml
from a3c_zoo.config.schema import LINE, put_beside
from a3c_zoo.config.sets import describe, resolve_config
from a3c_zoo.config.settings import TUNING, TUNING_COST
from a3c_zoo.engines import Engine
from a3c_zoo.errors import ConfigError, ZooError, first_line, printable
from a3c_zoo.figures.curves import Line
from a3c_zoo.files import write_new
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.report.drawing import Group, Panel
from a3c_zoo.report.pages import ReportSection, TextTable
from a3c_zoo.store.directory import disk_errors
from a3c_zoo.tuning.choices import MOST_SEEDS
from a3c_zoo.tuning.contenders import Contender, ranked, sound
from a3c_zoo.tuning.racing import TUNING_SEEDS, TuningWatcher, method_of
from a3c_zoo.tuning.storages import STUDIES_DIR
from a3c_zoo.tuning.studies import StudySettings, TuningStudy, resolve_settings
from a3c_zoo.version import __version__
from a3c_zoo.words import counted, listed, return_text

#: Keys of `env` that a set leaves out: they are the task. The command line has them, see `options_beside_set`.
BESIDE_SETS: Final = ("env.stack", "env.wrappers", "env.kwargs")
#: How many of the best trials are trained on the choice seeds, and on how many.
FINALISTS: Final = 3
CHOICE_RUNS: Final = 3
#: How many trials the report shows.
SHOWN: Final = 10
#: The names of the methods in the last comparison.
TUNED: Final = "tuned"
START: Final = "start"
DEFAULT: Final = "default"
#: The seeds of finales lie in blocks. Those of the choice begin with the first one of a block, those of the report
#: with a later one.
FIRST_BLOCK: Final = 10_000_001
BLOCKS: Final = 1_000_000
BLOCK_LENGTH: Final = 2_000
REPORT_OFFSET: Final = MOST_SEEDS


@dataclass(frozen=True, slots=True)
class FinaleSeeds:
    """The seeds on which a trial is chosen, and those on which it is compared. No seed is in both."""

    choice: range
    report: range

    @classmethod
    def of(cls, first: int, final_seeds: int) -> FinaleSeeds:
        """The seeds of a finale. first: see `draw_seeds`. final_seeds: runs of each method in the report."""
        report = first + REPORT_OFFSET
        return cls(range(first, first + CHOICE_RUNS), range(report, report + final_seeds))


def draw_seeds() -> int:
    """The first seed of a new finale. It has a block of its own, so that it looks at no old run."""
    return FIRST_BLOCK + BLOCK_LENGTH * random.SystemRandom().randrange(BLOCKS)


def play_finale(
    study: TuningStudy,
    seeds: FinaleSeeds,
    out: Path | None,
    timeout_s: float | None,
    watcher: TuningWatcher,
    engine: Engine,
) -> dict[str, Any]:
    """Chooses a trial, compares it with the start, and writes its set. Returns how the study ended.

    Raises ZooError if no finalist can be trained, and what `carry_out` does. For the arguments see `tune`.
    """
    settings = study.settings
    contenders = study.contenders()
    folder = STUDIES_DIR / study.name
    choice = _choose(study, contenders, seeds.choice, watcher, engine)
    chosen = max(choice, key=lambda number: choice[number])
    watcher.message(f"trial {chosen} is chosen; comparing it with the start, on fresh seeds")
    compared = _compared(study, chosen, contenders[chosen].texts, seeds.report, engine)
    plan = plan_of(study, compared.methods, seeds.report, engine)
    cost = _cost(settings, contenders)
    runs = [replace(run, tuning=cost) if run.method == TUNED else run for run in plan.runs]
    plan = replace(plan, runs=tuple(runs))
    told = [
        f"Search: {_search_told(settings, contenders)}",
        _about_choice(choice, seeds.choice, settings.steps),
        _about_comparison(chosen, compared, seeds.report, settings.steps),
        *compared.found,
    ]
    section = _section(study, contenders, chosen, told)
    comparison = carry_out(
        plan, None, settings.episodes, folder / "report", watcher, engine, [section], question="return"
    )
    others = [method.label for method in compared.methods if method is not compared.tuned]
    unshown = [other for other in others if not is_shown_better(comparison.results, TUNED, other)]
    evidence = [
        f"{settings.env} with {settings.agent}, tuned by a3c-zoo {__version__}, {datetime.now():%Y-%m-%d}",
        *told,
        *comparison.verdict,
        *([about_unshown(unshown)] if unshown else []),
        f"Report: {comparison.out / 'report.md'}",
        f"Command: {_command(settings, len(contenders), len(seeds.report), timeout_s)}",
    ]
    best = compared.tuned or compared.start
    config = next(run.config for run in plan.runs if run.method == best.label)
    file = _write(out or folder / "tuned.yml", evidence, cost, config)
    return {
        "study": study.name,
        "env": settings.env,
        "agent": settings.agent,
        "trial": chosen,
        "values": dict(contenders[chosen].texts),
        "choice": {str(number): value for number, value in choice.items()},
        "file": str(file),
        "options": options_beside_set(settings),
        "report": str(comparison.out),
        "verdict": [*(f"{text}." for text in compared.found), *comparison.verdict],
        "not_shown_better_than": unshown,
        "failed": list(comparison.failed),
    }


def is_shown_better(results: Mapping[str, Any], method: str, other: str) -> bool:
    """Whether a report claims that a run of one method ends with a higher return than a run of the other.

    results: the contents of `results.json`, of one environment.
    """
    (env,) = results["environments"].values()
    claimed = [{claim["method"], claim["other"]} for claim in results["claims"] if _is_claimed(claim)]
    if {method, other} not in claimed:
        return False
    (pair,) = [pair for pair in env["against"] if {pair["method"], pair["other"]} == {method, other}]
    chance: float = pair["final_return"]["value"]
    if pair["method"] == method:
        return chance > 0.5
    return chance < 0.5


def _is_claimed(claim: Mapping[str, Any]) -> bool:
    return bool(claim["holds"]) and claim["measure"] == "final_return"


def about_unshown(others: Sequence[str]) -> str:
    """The sentence about the methods than which the set was not shown to be better."""
    return f"It was not shown that this set is better than {listed(others)}"


def _about_choice(choice: Mapping[int, float], seeds: range, steps: int) -> str:
    returns = ", ".join(f"trial {number} returns {return_text(value)}" for number, value in choice.items())
    return f"Choice: {_seeds(seeds)}, {steps:,} steps: {returns}"


def _about_comparison(chosen: int, compared: _Compared, seeds: range, steps: int) -> str:
    text = f"Comparison of trial {chosen} ({TUNED}) with the set that the search began with ({START})"
    if compared.default is not None:
        text += f" and the default set ({DEFAULT})"
    return f"{text}: {_seeds(seeds)}, {steps:,} steps"


@dataclass(frozen=True, slots=True)
class _Compared:
    """The methods of the last comparison, each configuration once.

    Attributes:
        tuned: the chosen trial; None if it has the values of `start`.
        default: the default set; None if it has the values of another method, or does not take the same options.
        found: what was found while they were chosen, one sentence each.
    """

    tuned: Method | None
    start: Method
    default: Method | None
    found: tuple[str, ...]

    @property
    def methods(self) -> list[Method]:
        """Those that there are."""
        return [each for each in (self.tuned, self.start, self.default) if each is not None]


def _compared(
    study: TuningStudy, chosen: int, texts: Mapping[str, str], seeds: range, engine: Engine
) -> _Compared:
    """The methods of the last comparison. texts: the values of the chosen trial. seeds: of the comparison."""
    settings = study.settings
    found = list[str]()
    tuned, start = method_of(settings, TUNED, texts), method_of(settings, START)
    tuned_values, start_values = (
        run.config.to_dict() for run in plan_of(study, [tuned, start], seeds[:1], engine).runs
    )
    has = f"Trial {chosen} has the values of the"
    default: Method | None = None
    try:
        usual = default_of(settings)
        values = plan_of(study, [usual], seeds[:1], engine).runs[0].config.to_dict()
    except ConfigError as error:
        fault = first_line(error)
        found.append(f"The default set is not compared, as it does not take the same options: {fault}")
    else:
        if values not in (tuned_values, start_values):
            default = usual
        elif values == tuned_values != start_values:
            found.append(f"{has} default set")
    if tuned_values == start_values:
        found.append(f"{has} set that the search began with: it found none that is better")
    return _Compared(None if tuned_values == start_values else tuned, start, default, tuple(found))


def default_of(settings: StudySettings, label: str = DEFAULT) -> Method:
    """The default set on the study's task: with the same `-o`, and the same environment (`BESIDE_SETS`)."""
    registry = get_registry()
    entries = registry.env(settings.env), registry.agent(settings.agent)
    overrides = [*settings.overrides, *_task_of(settings)]
    config = resolve_config(registry, *entries, overrides=overrides)
    begun = replace(settings, hyperparams=None, overrides=overrides, config=config.to_dict())
    return method_of(begun, label)


def _choose(
    study: TuningStudy, contenders: Sequence[Contender], seeds: range, watcher: TuningWatcher, engine: Engine
) -> dict[int, float]:
    """Trains the finalists on the seeds of the choice. Returns trial → mean final return.

    A trial with a failed run is left out, unless every trial has one.
    """
    made = study.settings
    methods = {
        each.number: method_of(made, f"trial {each.number}", each.texts) for each in finalists(contenders)
    }
    watcher.message(f"choosing among {listed(method.label for method in methods.values())}, on fresh seeds")
    plan = plan_of(study, list(methods.values()), seeds, engine)
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
    plans = [plan_method(registry, entry, method, budget) for method in methods]
    runs = [each.run(registry, seed, known) for seed in seeds for each in plans]
    return Plan(tuple(runs), study.runs_dir, True, known.left_out, known.outdated, host)


def finalists(contenders: Sequence[Contender]) -> list[Contender]:
    """The best trials, each configuration once. Failed ones are among them only if all have failed."""
    first = {tuple(each.texts.items()): each for each in reversed(ranked(sound(contenders)))}
    return ranked(first.values())[:FINALISTS]


def set_of(config: Config) -> dict[str, dict[str, Any]]:
    """A configuration as a set: its values, without those that a machine or the command line decides.

    The budget of the set is the length of the configuration's schedules. With another budget they end with that one.
    """
    found: dict[str, dict[str, Any]] = {}
    for row in describe(config):
        section, _, key = row.key.rpartition(".")
        is_settled = row.source == "default" and row.value != row.default
        is_left_out = section == "run" or section.startswith("plugins.") or row.key in BESIDE_SETS
        if row.key == "run.workers" or not (is_settled or is_left_out):
            found.setdefault(section, {})[key] = row.value
    for values in [*found.values()]:
        length = values.get("schedule_steps")
        if length is not None:
            found.setdefault("run", {})["steps"] = length
            values["schedule_steps"] = None
    return found


def options_beside_set(settings: StudySettings) -> list[str]:
    """The values that `set_of` leaves out, as `KEY=VALUE`: they are to be given again.

    They are those of a study's `-o`, and those of its environment (`BESIDE_SETS`) from any source.
    """
    config = resolve_settings(settings)
    kept = {f"{section}.{key}" for section, values in set_of(config).items() for key in values}
    given = [row for row in describe(config) if row.source == "-o" and row.key not in kept]
    return [*(f"{row.key}={yaml.display(row.value, 0)}" for row in given), *_task_of(settings)]


def _task_of(settings: StudySettings) -> list[str]:
    """The values of `BESIDE_SETS` that a file or a set of a study gives, as `KEY=VALUE`."""
    rows = describe(resolve_settings(settings))
    given = [row for row in rows if row.key in BESIDE_SETS and row.source not in ("-o", "default")]
    return [f"{row.key}={yaml.display(row.value, 0)}" for row in given]


def _cost(settings: StudySettings, contenders: Sequence[Contender]) -> dict[str, int]:
    """The cost of finding a set: its trials, runs and agent steps. Runs and steps of the choice count, too.

    Of a trial that failed, what it trained after its last score is not counted.
    """
    scored = [each for each in contenders if each.scores]
    choice_runs = len(finalists(contenders)) * CHOICE_RUNS
    runs = settings.seeds * len(scored) + choice_runs
    steps = settings.seeds * sum(max(each.scores) for each in scored) + choice_runs * settings.steps
    return dict(zip(TUNING_COST, (len(contenders), runs, steps), strict=True))


def _write(path: Path, evidence: Sequence[str], cost: dict[str, int], config: Config) -> Path:
    """Writes the set with its evidence and its cost into a new file."""
    values = {TUNING: cost, **set_of(config)}
    text = LINE + "\n".join(f"# {printable(line)}" for line in evidence) + "\n" + yaml.dump(values)
    with disk_errors(path, "write", "--out FILE"):
        path.parent.mkdir(parents=True, exist_ok=True)
        others = (path.with_stem(f"{path.stem}-{number}") for number in itertools.count(2))
        free = next(each for each in (path, *itertools.islice(others, 10_000)) if not each.exists())
        write_new(free, text.encode())
    registry = get_registry()
    put_beside(free, registry, registry.env(config.env_name), registry.agent(config.agent_name))
    return free


def _search_told(settings: StudySettings, contenders: Sequence[Contender]) -> str:
    ends = [f"{sum(rung in each.scores for each in contenders)} after {rung:,}" for rung in settings.rungs]
    seeds = _seeds(TUNING_SEEDS[: settings.seeds])
    trials = counted(len(contenders), "trials")
    return f"{trials}, {seeds} in each, judged by their mean return: {listed(ends)} steps"


def _seeds(seeds: range) -> str:
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    return f"seeds {seeds[0]} to {seeds[-1]}"


def _command(made: StudySettings, trials: int, final_seeds: int, timeout_s: float | None) -> str:
    """The command line that makes a study, without places."""
    words = ["a3c-zoo", "tune", made.env, "--agent", made.agent]
    words += ["--trials", str(trials), "--steps", str(made.steps), "--seeds", str(made.seeds)]
    words += ["--final-seeds", str(final_seeds), "--episodes", str(made.episodes), "--sampler", made.sampler]
    if len(made.rungs) == 1:
        words += ["--pruner", "none"]
    if timeout_s:
        words += ["--timeout", f"{timeout_s:.10g}s"]
    if made.hyperparams:
        words += ["--hyperparams", made.hyperparams]
    for text in made.overrides:
        words += ["-o", text]
    return shlex.join(words)


def _section(
    study: TuningStudy, contenders: Sequence[Contender], chosen: int, told: Sequence[str]
) -> ReportSection:
    """The search, as a part of the report: history, importance, and the best trials."""
    rungs = study.settings.rungs
    importances = study.importances()
    groups = {}
    for rung in rungs:
        points = [(each.number, each.scores[rung]) for each in contenders if rung in each.scores]
        if points:
            groups[f"{rung:,} steps"] = Group([Line(*np.array(points, np.float64).T)])
    title = "search: mean return of the seeds of each trial"
    figures = {title: Panel(title, "trial", "return", groups, has_points=True, has_lines=False)}
    if importances:
        title = f"importance after {rungs[0]:,} steps"
        figures[title] = Panel(title, "share", "", {}, bars=importances)
        source = "PED-ANOVA of the best quarter of all trials (Watanabe et al. 2023, arXiv:2304.10255)"
        told = [*told, f"Importance of keys: {source}. With few trials this is only a hint"]
    best = ranked(sound(contenders))[:SHOWN]
    keys = list(best[0].texts)
    rows = []
    for each in best:
        steps, value = each.rank
        rows.append([str(each.number), f"{steps:,}", return_text(value), *each.texts.values()])
    marked = frozenset(place for place, each in enumerate(best) if each.number == chosen)
    header = ("trial", "steps", "return", *keys)
    table = TextTable(header, rows, "The best trials; marked: the chosen one", marked)
    return ReportSection("The search", [f"{text}." for text in told], figures, [table], picture="search.png")
