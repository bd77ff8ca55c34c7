"""Puts a comparison into words, tables and plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from a3c_zoo.comparison import sources
from a3c_zoo.comparison.figures import Line
from a3c_zoo.comparison.measuring import MeasuredRun, Measures
from a3c_zoo.comparison.pages import Figure, Report, Section, Table, html, markdown
from a3c_zoo.comparison.panels import Panel, svg_of, write_curves
from a3c_zoo.comparison.plan import listed
from a3c_zoo.comparison.reading import RunRecord
from a3c_zoo.comparison.results import Table as Runs
from a3c_zoo.comparison.results import enough_seeds, normalised, results_of, values_of
from a3c_zoo.comparison.statistics import MIN_SEEDS, Band, band, performance_profile
from a3c_zoo.comparison.tables import NONE, chances, costs, estimate_text, number, scores, seconds, times
from a3c_zoo.comparison.timing import write_json
from a3c_zoo.records import score
from a3c_zoo.runs.directory import disk_errors

PROFILE_POINTS = 101


@dataclass(frozen=True, slots=True)
class Material:
    """All that a report is made of.

    Attributes:
        results: the contents of results.json. runs: the figures of the runs. measured: the runs themselves, by name.
        left_out: run → why. notes: what else must be said. as_found: the runs weren't made for this comparison.
    """

    results: Mapping[str, Any]
    runs: Runs
    measured: Mapping[str, MeasuredRun]
    left_out: Mapping[str, str]
    notes: Sequence[str]
    episodes: int | None
    written: str
    as_found: bool

    @property
    def records(self) -> list[RunRecord]:
        """The runs as they were read."""
        return [each.record for each in self.measured.values()]


def material_of(measured: Sequence[MeasuredRun], left_out: Mapping[str, str], as_found: bool = False) -> Material:
    """Gathers what runs say together."""
    measures, records = [each.measures for each in measured], [each.record for each in measured]
    methods = list(dict.fromkeys(each.method for each in measures))
    runs = Runs.of(measures, methods, {each.measures.env: each.threshold for each in measured})
    episodes = {each.evaluation.episodes for record in records for each in record.evaluations}
    side_by_side = {env: sources.settings_side_by_side(records, env) for env in runs.runs}
    surroundings = {
        "evaluation_episodes": sorted(episodes),
        "left_out": dict(left_out),
        "machine_and_versions": sources.versions_and_hosts(records),
        "noise": sources.noise(measures),
        "settings": {
            env: {row.key: {"values": dict(row.values), "differs": row.differs} for row in rows}
            for env, rows in side_by_side.items()
        },
        "commands": {each.measures.run: sources.command(each.record) for each in measured},
    }
    return Material(
        results={**results_of(runs), **surroundings},
        runs=runs,
        measured={each.measures.run: each for each in measured},
        left_out=left_out,
        as_found=as_found,
        notes=_notes(measured),
        episodes=episodes.pop() if len(episodes) == 1 else None,
        written=f"{datetime.now().astimezone():%Y-%m-%d}",
    )


def _notes(measured: Sequence[MeasuredRun]) -> list[str]:
    """What makes runs hard to compare."""
    unplayed = [each.measures.run for each in measured if each.measures.final_return is None]
    notes = [f"Not evaluated, or not to the end: {', '.join(unplayed)}; their returns are missing."] if unplayed else []
    variants: dict[tuple[str, str], set[str]] = {}
    for record in (each.record for each in measured):
        variants.setdefault((record.env, record.method), set()).add(record.config_hash)
    notes += [
        f"{env}: the runs of {method} do not have the same settings; see below."
        for (env, method), hashes in variants.items()
        if len(hashes) > 1
    ]
    machines = sources.machines([each.record for each in measured])
    if len(machines) > 1:
        notes.append(
            f"The runs were made on different machines, so that times and speeds don't compare: {listed(machines)}."
        )
    return notes


def write_report(report: Report, material: Material, out: Path) -> None:
    """Writes the report's files into a directory."""
    with disk_errors(out, "write", "--out"):
        out.mkdir(parents=True, exist_ok=True)
        rows = [row for env in material.runs.runs for row in panels_of(material, env)]
        write_curves(rows, out, band_of(material))
        (out / "report.html").write_text(html(report), encoding="utf-8")
        (out / "report.md").write_text(markdown(report), encoding="utf-8")
    write_json(out / "results.json", dict(material.results))


def compose(material: Material) -> Report:
    """The whole report."""
    methods, envs = material.runs.methods, list(material.runs.runs)
    every = [run for by_method in material.runs.runs.values() for runs in by_method.values() for run in runs]
    return Report(
        title=f"{listed(methods)} on {listed(envs)}",
        subtitle=f"{len(every)} runs, {material.written}",
        verdict=verdict(material),
        sections=[
            *(_environment(material, env) for env in envs),
            *_overall(material),
            _single_runs(material, every),
            *_left_out(material),
            _settings(material, envs),
            _surroundings(material, every),
            _method_of_measuring(material),
        ],
    )


# Words


def verdict(material: Material) -> list[str]:
    """What the runs say, one sentence each; the caution first where there are few seeds."""
    lines = [material.results["caution"]] if material.results["caution"] else []
    if material.left_out:
        lines.append(f"Left out: {', '.join(material.left_out)}. Why is said below.")
    lines += material.notes
    for env, found in material.results["environments"].items():
        for name in found["methods"]:
            lines += _about_method(env, name, found["methods"][name], found["threshold"])
        if enough_seeds(material.runs):
            for pair in found["against"]:
                lines += _about_pair(env, pair)
    return lines


def _about_method(env: str, name: str, figures: Mapping[str, Any], threshold: float | None) -> list[str]:
    parts = []
    if "final_return" in figures:
        parts.append(f"ended with a return of {estimate_text(figures['final_return']['interquartile_mean'], score)}")
    if threshold is not None:
        reached = figures["seconds_to_threshold"]
        text = f"reached {threshold:g} in training in {reached['reached']} of {reached['runs']} runs"
        if reached["median"] is not None:
            text += f", half of them within {seconds(reached['median'])}"
        parts.append(text)
    return [f"{env}: {name} {' and '.join(parts)}."] if parts else []


def _about_pair(env: str, pair: Mapping[str, Any]) -> list[str]:
    kinds = {
        "seconds_to_threshold": "is there in less time than",
        "steps_to_threshold": "is there after fewer steps than",
        "final_return": "ends with a higher return than",
    }
    lines = []
    for key, words in kinds.items():
        if key not in pair:
            continue
        chance = pair[key]
        text = (
            f"{env}: a run of {pair['method']} {words} one of {pair['other']} with probability {estimate_text(chance)}"
        )
        if unknown := chance.get("unknown"):
            text += f"; of {unknown:.0%} of the pairs it isn't known, and they count half"
        if chance.get("low_if_lost", chance["low"]) <= 0.5 <= chance.get("high_if_won", chance["high"]):
            text += "; that is no difference that these runs can show"
        lines.append(f"{text}.")
    return lines


# An environment


def _environment(material: Material, env: str) -> Section:
    found, by_method = material.results["environments"][env], material.runs.runs[env]
    panels = [panel for row in panels_of(material, env) for panel in row]
    figures = [Figure(svg_of(panel, band_of(material)), panel.title + " by " + panel.x_label) for panel in panels]
    values = {method: values_of(runs, "final_return")[:, None] for method, runs in by_method.items()}
    if all(map(len, values.values())) and values:
        figures.append(_profile(values, f"{env}: share of runs above a final return", "final return"))
    return Section(
        env,
        texts=[_band_words(material)],
        figures=figures,
        tables=[scores(found), *times(found), costs(found), *chances(found["against"])],
    )


def panels_of(material: Material, env: str) -> list[list[Panel]]:
    """Training and evaluation returns, each by steps and by seconds."""
    by_method, threshold = material.runs.runs[env], material.runs.thresholds[env]
    axes = {"steps": "agent steps", "seconds": "seconds of training"}

    def lines(method: str, kind: str, by: str) -> list[Line]:
        runs = (material.measured[run.run] for run in by_method[method])
        return [each.training(by) if kind == "training" else each.evaluated(by) for each in runs]

    titles = {"training": "mean of the last 100 training episodes", "evaluation": "evaluation of checkpoints"}
    return [
        [
            Panel(
                f"{env}: {title}",
                axis,
                "return",
                {method: lines(method, kind, by) for method in by_method},
                threshold,
                has_points=kind == "evaluation",
                has_log_x=by == "seconds",
            )
            for by, axis in axes.items()
        ]
        for kind, title in titles.items()
    ]


def band_of(material: Material) -> Any:
    """The band around a method's runs: the interval of their interquartile mean, or their range where they are few."""

    def interval(values: Any) -> Any:
        found: Band = band(values[:, None, :])
        return found.value, found.low, found.high

    def all_of_them(values: Any) -> Any:
        return values.mean(axis=0), values.min(axis=0), values.max(axis=0)

    return interval if enough_seeds(material.runs) else all_of_them


def _band_words(material: Material) -> str:
    if enough_seeds(material.runs):
        return "Thin: single runs. Thick: their interquartile mean, with its 95 % interval. Dashed: the threshold."
    return "Thin: single runs. Thick: their mean, within their range. Dashed: the threshold."


def _profile(values: Mapping[str, Any], title: str, x_label: str) -> Figure:
    everything = np.concatenate([each[~np.isnan(each)] for each in values.values()])
    span = np.ptp(everything) or 1.0
    points = np.linspace(everything.min() - 0.02 * span, everything.max() + 0.02 * span, PROFILE_POINTS)
    lines, bands = {}, {}
    for method, matrix in values.items():
        found = performance_profile(matrix, points)
        lines[method] = [Line(points, found.value)]
        bands[method] = (points, found.low, found.high)
    panel = Panel(title, x_label, "share of runs", lines, bands=bands)
    return Figure(svg_of(panel), title)


def _overall(material: Material) -> list[Section]:
    found = material.results["overall"]
    if not found:
        return []
    names = ("interquartile_mean", "median", "mean", "median_of_means")
    rows = [[method, *(estimate_text(each[name]) for name in names)] for method, each in found["methods"].items()]
    columns = ("method", "interquartile mean", "median", "mean", "median of means")
    matrices = {m: matrix for m in material.runs.methods if (matrix := normalised(material.runs, m)) is not None}
    figures = [_profile(matrices, "all environments: share of runs above a score", "score")] if matrices else []
    return [
        Section(
            "All environments",
            texts=[f"Scores: {found['scale']}."],
            figures=figures,
            tables=[Table(columns, rows, "Final returns as scores, with 95 % intervals"), *chances(found["against"])],
        )
    ]


# Single runs


def _single_runs(material: Material, every: Sequence[Measures]) -> Section:
    def show(value: float | None, how: Any) -> str:
        return NONE if value is None else str(how(value))

    rows = [
        [
            run.run,
            run.method,
            show(run.seed, str),
            show(run.final_return, score),
            show(run.final_return_greedy, score),
            show(run.seconds_to_threshold, seconds),
            show(run.steps_to_threshold, number),
            number(run.steps_per_s),
            show(run.cpu_s, seconds),
            show(run.peak_memory_mib, number),
            show(run.calibration_s, seconds),
        ]
        for run in every
    ]
    columns = ("run", "method", "seed", "final return", "greedy", "to threshold", "steps to it", "steps/s", "CPU time")
    return Section("Single runs", tables=[Table((*columns, "peak MiB", "fixed loop"), rows, words=2)])


def _left_out(material: Material) -> list[Section]:
    rows = [[name, reason] for name, reason in material.left_out.items()]
    if not rows:
        return []
    return [Section("Left out", tables=[Table(("run", "why"), rows, words=2)])]


# Where it comes from


def _settings(material: Material, envs: Sequence[str]) -> Section:
    tables = []
    for env in envs:
        found = sources.settings_side_by_side(material.records, env)
        methods = list(found[0].values) if found else []
        rows = [[row.key, *(row.values[method] or NONE for method in methods)] for row in found]
        marked = frozenset(number for number, row in enumerate(found) if row.differs)
        tables.append(Table(("setting", *methods), rows, env, marked, words=1 + len(methods)))
    text = f"Marked: methods that have the setting differ in it. {NONE}: the method has no such setting."
    return Section("Settings side by side", texts=[text], tables=tables)


def _surroundings(material: Material, every: Sequence[Measures]) -> Section:
    found = sources.versions_and_hosts(material.records)
    rows = [[name, " and ".join(values)] for name, values in found.items()]
    marked = frozenset(number for number, values in enumerate(found.values()) if len(values) > 1)
    noise = sources.noise(every)
    texts = ["How noisy the machine was has not been measured: no fixed loop was timed before these runs."]
    if noise:
        spread = noise["max_over_min"] - 1
        texts = [
            f"How noisy the machine was: a fixed loop, timed before {noise['runs']} of the runs, took "
            f"{seconds(noise['median'])} (median), {seconds(noise['min'])} to {seconds(noise['max'])}; "
            f"the slowest took {spread:.0%} longer than the fastest."
        ]
        if noise["max_over_min"] > sources.NOISY:
            texts.append("That is much: other programs may have run beside. Compare times with care.")
    texts.append("Commands, of the first run of each method (the others have other seeds and names):")
    table = Table(("", "runs were made with"), rows, marked=marked, words=2)
    return Section("Machine, versions, commands", texts, tables=[table], codes=sources.commands(material.records))


def _method_of_measuring(material: Material) -> Section:
    played = f"{material.episodes} episodes" if material.episodes else "episodes"
    how = "One run at a time, each in a fresh process; the methods take turns, seed by seed."
    if material.as_found:
        how = "The runs were taken as they were found: what ran beside them, and in what order, is not known."
    return Section(
        "How it was measured",
        texts=[
            f"Evaluation: after training, each run's checkpoints played {played} with sampled and as many with greedy "
            "actions, on the zoo's environments and on seeds apart from training; returns are raw. Every method plays "
            "the same seeds.",
            f"Time: seconds of training; of our runs without start-up and without writing checkpoints. {how}",
            "Statistics: the seed is the unit. Intervals are 95 % percentile bootstraps over runs, stratified by "
            f"environment; those of times to the threshold are Kaplan and Meier's. With fewer than {MIN_SEEDS} seeds "
            "nothing is claimed.",
            "What this does not show: how the methods do with other settings, on other machines, or with other "
            "budgets than these.",
        ],
    )
