"""Puts the results of a comparison into words, tables and plots: report.html, report.md and the curves."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import Final

import numpy as np

from a3c_zoo.figures.claims import percent
from a3c_zoo.figures.decisions import Decisions
from a3c_zoo.figures.measures import drawn_evaluations, training_curve, values_of
from a3c_zoo.figures.results import NOISE_LIMIT, EnvironmentResults, PairResults, Results, final_return_in
from a3c_zoo.figures.statistics import MIN_SEEDS, Floats, performance_profile
from a3c_zoo.files import replace_file
from a3c_zoo.report import drawing, pages
from a3c_zoo.report.drawing import Group, Panel
from a3c_zoo.report.pages import NONE, ReportPage, ReportSection, TextTable, ranged, seconds
from a3c_zoo.report.places import REPORT_PAGE
from a3c_zoo.report.report_films import Films
from a3c_zoo.report.results_json import runs_csv, to_json
from a3c_zoo.report.verdict import common_budget, verdict
from a3c_zoo.runs.videos import REPORT_FILM
from a3c_zoo.store.directory import disk_errors
from a3c_zoo.store.run import VEC_ENV_OF
from a3c_zoo.store.tables import Axis
from a3c_zoo.words import counted, listed

PROFILE_POINTS: Final = 101
#: The x axes of a report's curves, with their labels.
AXES: Final[Mapping[Axis, str]] = {"steps": "agent steps", "seconds": "seconds of training"}
#: Curves over seconds end alike if no method takes more than this many times another's seconds.
SAME_END: Final = 1.1
#: A title of the table of single runs → a field of `Measures`.
COLUMNS: Final[Mapping[str, str]] = {
    "final return": "final_return",
    "greedy": "final_return_greedy",
    "to threshold": "seconds_to_threshold",
    "steps to it": "steps_to_threshold",
    "steps/s": "steps_per_s",
    "CPU time": "cpu_s",
    "peak MiB": "peak_memory_mib",
    "fixed loop": "calibration_s",
}


def report_files(results: Results, page: ReportPage, out: Path) -> dict[str, bytes]:
    """Name → contents of the report's files: curves, pictures of sections, page, runs.csv and results.json.

    out: the folder that is going to hold them, from which the page has its links.
    """
    curves = drawing.draw_grid(page.curves)
    files = {f"curves{suffix}": drawing.to_bytes(curves, suffix) for suffix in (".png", ".svg")}
    for section in page.sections:
        if section.picture:
            drawn = drawing.draw_grid([[*section.figures.values()]])
            files[section.picture] = drawing.to_bytes(drawn, ".png")
    files[REPORT_PAGE] = pages.html(page, out).encode(errors="backslashreplace")
    files["report.md"] = pages.markdown(page).encode()
    plain = to_json(results)
    files["runs.csv"] = runs_csv(plain["runs"]).encode()
    files["results.json"] = f"{json.dumps(plain, indent=2, allow_nan=False)}\n".encode()
    return files


def write_report(files: Mapping[str, bytes], out: Path) -> None:
    """Writes a report's files into its folder, results.json last.

    After an error or Ctrl-C meanwhile no part of a first report stays.

    Raises:
        ZooError: they cannot be written.
    """
    with disk_errors(out, "write", "--out DIR"):
        out.mkdir(parents=True, exist_ok=True)
        try:
            for name, content in files.items():
                replace_file(out / name, content)
        except BaseException:
            if not os.path.exists(out / "results.json"):  # without it no report is whole
                for name in files:
                    (out / name).unlink(missing_ok=True)
            raise


def page_of(results: Results, films: Films | None = None, day: date | None = None) -> ReportPage:
    """The whole report.

    Args:
        films: None if nobody asked for them. day: on which the comparison was made; by default today.
    """
    made = day or datetime.now().astimezone()
    curves = {env: panels_of(results, env) for env in results.environments}
    return ReportPage(
        title=f"{listed(results.methods)} on {listed(results.environments)}",
        subtitle=f"{_head(results)}, {made:%Y-%m-%d}",
        verdict=verdict(results),
        sections=[
            *(_environment(results, env, rows) for env, rows in curves.items()),
            *_overall(results),
            *_until_decided(results.decided),
            *_films(films),
            *(replace(section, is_folded=True) for section in _details(results)),
        ],
        curves=[row for rows in curves.values() for row in rows],
    )


def _details(results: Results) -> list[ReportSection]:
    """The parts that a reader opens."""
    return [
        _single_runs(results),
        *_left_out(results),
        _settings(results),
        *_surroundings(results),
        _how_it_was_measured(results),
    ]


def _head(results: Results) -> str:
    """Methods × seeds × budget, the machine and its noise."""
    seeds = sorted(
        {len(method.runs) for env in results.environments.values() for method in env.methods.values()}
    )
    parts = [
        f"{len(results.methods)} methods" if len(results.methods) > 1 else "1 method",
        f"{' to '.join(map(str, dict.fromkeys((seeds[0], seeds[-1]))))} seeds",
        common_budget(results),
    ]
    if len(results.environments) > 1:
        parts.insert(1, f"{len(results.environments)} environments")
    loop = results.calibration
    if loop:
        noise = f"noise {loop.max / loop.min:.2f} (slowest fixed loop over fastest)"
    else:
        noise = "its noise was not measured"
    return ", ".join([" × ".join(parts), *(results.machines or ["machine not known"]), noise])


def _environment(results: Results, env: str, rows: Sequence[Sequence[Panel]]) -> ReportSection:
    in_env = results.environments[env]
    figures = {f"{panel.title} by {panel.x_label}": panel for row in rows for panel in row}
    final = final_return_in({name for method in in_env.methods.values() for name in method.scores})
    if final is not None:
        with_it = {name: method for name, method in in_env.methods.items() if final.name in method.scores}
        values = {name: values_of(method.runs, final.name)[:, None] for name, method in with_it.items()}
        figures |= _profile(
            values, f"{env}: share of runs above a final return{final.actions}", "final return"
        )
    groups = [group for row in rows for panel in row for group in panel.groups.values()]
    sizes = {len(group.runs) for group in groups if group.band is not None} - {0, 1}
    middle = drawing.thick(sizes, "interquartile mean, with its 95 % interval", "mean, within their range")
    return ReportSection(
        env,
        texts=[f"Thin: single runs. Thick: their {middle}. Dotted: the threshold.{_about_ends(in_env)}"],
        figures=figures,
        tables=[
            pages.scores(in_env),
            *(replace(table, folded="Times to the threshold") for table in pages.times(in_env)),
            replace(pages.costs(in_env), folded="Speed and cost"),
            *_differences(env, in_env.pairs, results),
        ],
    )


def _differences(env: str | None, pairs: Sequence[PairResults], results: Results) -> list[TextTable]:
    tables = pages.chances(env, pairs, results.claims)
    return [replace(table, folded="Every difference, with its interval and p") for table in tables]


def _about_ends(in_env: EnvironmentResults) -> str:
    """Why curves over seconds end at different times; "" if they do not."""
    ends = [method.costs["training_s"].median for method in in_env.methods.values()]
    if max(ends) <= SAME_END * min(ends):
        return ""
    return " Curves over seconds end at different times: each method ends when its first run has spent its budget."


def panels_of(results: Results, env: str) -> list[list[Panel]]:
    """A row of training returns and, if there is one, a row of evaluation returns, each by steps and by seconds."""
    in_env = results.environments[env]
    kinds = {
        "mean of the last 100 training episodes": training_curve,
        "evaluation of checkpoints": drawn_evaluations,
    }
    rows = []
    for title, curve in kinds.items():
        row = []
        for by, axis in AXES.items():
            lines = {
                name: [curve(run.record, by) for run in method.runs]
                for name, method in in_env.methods.items()
            }
            is_log = by == "seconds" and drawing.ends_differ(lines)
            groups = {name: drawing.group_of(its_lines, is_log) for name, its_lines in lines.items()}
            has_points = curve is drawn_evaluations
            row.append(
                Panel(
                    f"{env}: {title}",
                    axis,
                    "return of an episode",
                    groups,
                    in_env.threshold,
                    has_points,
                    is_log,
                )
            )
        if curve is training_curve or any(group.runs for panel in row for group in panel.groups.values()):
            rows.append(row)
    return rows


def _profile(values: Mapping[str, Floats], title: str, x_label: str) -> dict[str, Panel]:
    """Title → panel: the share of a method's runs above each score, from its scores `[seeds, environments]`."""
    everything = np.concatenate([scores[~np.isnan(scores)] for scores in values.values()])
    span = np.ptp(everything) or 1.0
    points = np.linspace(everything.min() - 0.02 * span, everything.max() + 0.02 * span, PROFILE_POINTS)
    groups = {name: Group((), points, performance_profile(matrix, points)) for name, matrix in values.items()}
    return {title: Panel(title, x_label, "share of runs", groups, begins_at_zero=False, is_step=True)}


def _overall(results: Results) -> list[ReportSection]:
    overall = results.overall
    if overall is None:
        return []
    if not overall.scores:
        none = "No method has final returns with sampled actions on every environment."
        return [ReportSection("All environments", texts=[none])]
    title = "all environments: share of runs above a score"
    shown = list(next(iter(overall.methods.values())))
    rows = [
        [name, *(ranged(*estimates[statistic]) for statistic in shown)]
        for name, estimates in overall.methods.items()
    ]
    columns = ("method", *(name.replace("_", " ") for name in shown))
    table = TextTable(columns, rows, "Final returns as scores, with 95 % intervals")
    return [
        ReportSection(
            "All environments",
            texts=[f"Scores: {overall.scale}."],
            figures=_profile(overall.scores, title, "score"),
            tables=[table, *_differences(None, overall.pairs, results)],
        )
    ]


def _until_decided(decided: Decisions | None) -> list[ReportSection]:
    """The rule, which was fixed before the first run, and each look."""
    if decided is None:
        return []
    rule = decided.rule
    rows = [
        [
            str(look.number),
            str(look.number * rule.block),
            pair.env,
            f"{pair.method} over {pair.other}",
            ranged(chance.value, chance.low, chance.high),
            percent(look.p[pair]),
            percent(look.part) if look.part else NONE,
            look.decided.get(pair, "open"),
        ]
        for look in decided.looks
        for pair, chance in look.chances.items()
    ]
    columns = ("look", "seeds", "environment", "pair", "probability", "p", "limit", "decision")
    section = ReportSection(
        "Until decided",
        texts=[
            f"The rule, fixed before this comparison trained its first run: a look after every {rule.block} seeds of "
            f"each method, {rule.looks} looks at most, all {len(rule.pairs)} pairs as one family. The probability that "
            f"any pair without a difference is decided is at most {rule.level:.0%}.",
            "Probability: that a run of the first method ends with a higher return. Holm's rule adjusts p for the open "
            f"pairs. The limits of all looks add up to {rule.level:.0%}; {NONE}: with so few seeds, no p can be small "
            "enough. Decided pairs need no more runs.",
            "All other figures of this report describe the runs. The number of seeds depends on their results, so the "
            "other intervals claim nothing.",
        ],
        tables=[TextTable(columns, rows, words=4)],
    )
    return [section]


def _films(films: Films | None) -> list[ReportSection]:
    if films is None:
        return []
    texts = []
    if films.made:
        seconds = f"{REPORT_FILM.seconds} seconds at most"
        texts = [
            "The last checkpoint of the run whose final return is in the middle plays with sampled actions, on a seed "
            f"apart from training: {seconds}. One episode shows how a method plays, not how well. The films are in the "
            "page in HTML."
        ]
    reasons: dict[str, list[str]] = {}
    for subject, reason in films.missing.items():
        reasons.setdefault(reason, []).append(subject)
    texts += [f"No film of {listed(map(str, subjects))}: {reason}." for reason, subjects in reasons.items()]
    return [ReportSection("Films", texts=texts, films=films.made)]


def _single_runs(results: Results) -> ReportSection:
    rows = [
        [
            run.run,
            run.method,
            pages.shown(run.seed, str),
            *(pages.shown(getattr(run, name), pages.show_for(name)) for name in COLUMNS.values()),
        ]
        for run in (run.measures for run in results.shown_runs)
    ]
    paths = {run.measures.run: run.record.path for run in results.runs}
    table = TextTable(("run", "method", "seed", *COLUMNS), rows, words=2, paths=paths)
    return ReportSection("Single runs", tables=[table])


def _left_out(results: Results) -> list[ReportSection]:
    rows = [[name, reason] for name, reason in results.left_out.items()]
    if rows:
        return [ReportSection("Left out", tables=[TextTable(("run", "why"), rows, words=2)])]
    return []


def _settings(results: Results) -> ReportSection:
    tables = []
    for env, in_env in results.environments.items():
        if in_env.settings:
            methods = list(in_env.settings[0].values)
        else:
            methods = []
        differ, others = (
            [
                [row.key, *(row.values[method] or NONE for method in methods)]
                for row in in_env.settings
                if row.differs is differs
            ]
            for differs in (True, False)
        )
        if results.making and (costs := results.making.tuning.get(env)):
            differ.append(
                ["what tuning the set cost", *map(_cost, (costs.get(method) for method in methods))]
            )
        folded = f"{env}: {len(others)} other settings, equal or of some methods only"
        tables.append(TextTable(("setting", *methods), differ, env, words=1 + len(methods)))
        tables.append(TextTable(("setting", *methods), others, words=1 + len(methods), folded=folded))
    text = (
        f"Settings in which runs differ. {NONE}: the method has no such setting, or its set does not say what tuning "
        "it cost."
    )
    return ReportSection(
        "Settings side by side", texts=[text], tables=[table for table in tables if table.rows]
    )


def _cost(tuning: Mapping[str, int] | str | None) -> str:
    if isinstance(tuning, str):
        return tuning
    if tuning:
        return ", ".join(counted(number, name) for name, number in tuning.items())
    return NONE


def _surroundings(results: Results) -> list[ReportSection]:
    rows = [[name, " and ".join(values)] for name, values in results.machine.items()]
    marked = frozenset(number for number, values in enumerate(results.machine.values()) if len(values) > 1)
    first = {
        (run.measures.env, run.measures.method): run.record
        for run in reversed(results.runs)
        if run.record.is_ours
    }
    table = TextTable(("", "runs were made with"), rows, marked=marked, words=2)
    commands = [line for record in reversed(first.values()) if (line := record.command_line)]
    text = "Of the first run of each method; the others have other seeds and names."
    return [
        ReportSection("Machine and versions", texts=[_noise(results)], tables=[table]),
        *([ReportSection("Commands", texts=[text], codes=commands)] if commands else []),
    ]


def _noise(results: Results) -> str:
    loop = results.calibration
    if loop is None:
        return "The noise of the machine was not measured: no fixed loop was timed before these runs."
    timed = len(values_of(results.runs, "calibration_s"))
    return (
        f"Noise of the machine: a fixed loop, timed before {timed} of the runs, "
        f"took {seconds(loop.median)} (median), {seconds(loop.min)} to {seconds(loop.max)}; "
        f"the slowest took {loop.max / loop.min:.2f} times as long as the fastest. Above {NOISE_LIMIT:g} times, or if "
        "a run has no such time, the verdict says nothing of seconds and speed."
    )


def _evaluation(results: Results) -> list[str]:
    """How checkpoints of runs of a3c-zoo were evaluated, if some were."""
    ours = [run.record for run in results.runs if run.record.is_ours]
    episodes = {played.evaluation.episodes for record in ours for played in record.evaluations}
    if not episodes:
        return []
    if len(episodes) == 1:
        played = counted(episodes.pop(), "episodes")
    else:
        played = "episodes"
    if len(ours) == len(results.runs):
        whose = ""
    else:
        whose = " of runs of a3c-zoo"
    return [
        f"Evaluation{whose}: after training, each run's checkpoints played {played} with sampled and as many with "
        "greedy actions, on the zoo's environments and on seeds apart from training; returns are raw. Every method "
        "plays the same seeds."
    ]


def _measured_first(results: Results) -> list[str]:
    """How runs of a library's algorithm chose their vector environment, and which one; none without such runs."""
    taken: dict[str, Counter[str]] = {}
    choices: dict[str, Counter[str]] = {}
    for run in results.runs:
        record = run.record
        name = next((value for key, value in record.host.items() if key.startswith(VEC_ENV_OF)), None)
        if name is None or not record.vec_env_choice:
            continue
        method = run.measures.method
        choices.setdefault(method, Counter())[record.vec_env_choice] += 1
        if record.vec_env_choice == "measured":
            taken.setdefault(method, Counter())[name] += 1
    return [_choice(method, taken.get(method, {}), number) for method, number in choices.items()]


def _choice(method: str, taken: Mapping[str, int], choices: Mapping[str, int]) -> str:
    """Says how the runs of a method chose. taken: name → the runs that took it after a measurement."""
    parts = []
    if taken:
        each = [f"{name} in {counted(number, 'runs')}" for name, number in taken.items()]
        if len(choices) > 1:
            who = counted(choices["measured"], "runs")
        else:
            who = "each run"
        parts.append(
            f"{who} timed DummyVecEnv (dummy) and SubprocVecEnv (subproc) before training, and took the one that "
            f"was faster there: {listed(each)}"
        )
    if number := choices.get("not tried"):
        parts.append(f"{counted(number, 'runs')} took DummyVecEnv and did not try SubprocVecEnv")
    if number := choices.get("failed"):
        parts.append(f"{counted(number, 'runs')} took DummyVecEnv, as SubprocVecEnv did not work there")
    return f"{method}: {'; '.join(parts)}."


def _how_it_was_measured(results: Results) -> ReportSection:
    making = results.making
    order = "seed by seed, the runs of a seed in random order."
    if making is None:
        how = (
            "The runs were taken as they were found: their order and other load on the machine are not known."
        )
    elif making.slots > 1:
        how = f"Up to {making.slots} runs at once, which begin {order} The engine says on which machines they train."
    else:
        how = f"One run at a time, each in a fresh process; {order} Runs of other commands may have shared the machine."
    return ReportSection(
        "How it was measured",
        texts=[
            *_evaluation(results),
            f"Time: seconds of training, for runs of a3c-zoo without start-up and without writing checkpoints. {how}",
            *([making.schedules] if making else []),
            *_measured_first(results),
            "Statistics: the seed is the unit. Intervals are 95 % percentile bootstraps over runs, stratified by "
            "environment and widened for few runs; those of median times are Kaplan and Meier's, those of differences "
            "of mean times Welch's. Each holds for its figure alone. Claims rest on permutation tests, and all claims "
            "of the report together on Holm's rule. They hold for methods that differ in spread, too: no p is smaller "
            f"than that of a sign test. Fewer than {MIN_SEEDS} seeds have no intervals. "
            f"{NONE} stands for an interval that these runs do not tell: there are too few, or all have one value.",
            "This does not show how the methods do with other settings, on other machines, or with other budgets.",
        ],
    )
