"""The words, tables, plots and pages of a report on runs with known figures; a browser shows it."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from a3c_zoo.figures import statistics
from a3c_zoo.figures.claims import percent
from a3c_zoo.figures.curves import Line
from a3c_zoo.figures.measures import labels_of, measure, settings_side_by_side
from a3c_zoo.figures.results import Making, Results, results_of
from a3c_zoo.figures.statistics import optimality_gap
from a3c_zoo.records import Evaluation, Outcome
from a3c_zoo.report.drawing import Panel, draw_grid, group_of, on_grid, to_inline_svg
from a3c_zoo.report.pages import (
    ReportPage,
    ReportSection,
    TextTable,
    html,
    markdown,
    number,
    plain,
    ranged,
    seconds,
)
from a3c_zoo.report.report import page_of, panels_of, report_files, write_report
from a3c_zoo.report.report_films import Film, Films
from a3c_zoo.report.results_json import to_json
from a3c_zoo.report.verdict import answers, notes, verdict
from a3c_zoo.runs.evaluate_checkpoints import chosen_steps
from a3c_zoo.store.checkpoint_evaluations import (
    CheckpointEvaluation,
    NewerFormatError,
    evaluations_of,
    keep_evaluations,
    kept_evaluations,
)
from a3c_zoo.store.run_groups import on_envs, one_name
from a3c_zoo.store.run_records import RunRecord
from a3c_zoo.store.tables import Curve
from a3c_zoo.store.timing_file import Timing
from a3c_zoo.words import return_text
from tests.waits import LIMIT_S

ENVS = ("cartpole", "pong")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def evaluation(mean_return: float, deterministic: bool) -> Evaluation:
    return Evaluation(20, mean_return, 0.0, mean_return, mean_return, mean_return, deterministic, 0.1)


def record(
    method: str, seed: int, *, reached_at: int | None = 200, final: float = 480.0, env: str = "cartpole", **changes: Any
) -> RunRecord:
    """A run of 400 episodes of 10 steps, a tenth of a second each, whose returns are 500 from an episode on."""
    returns = np.full(400, 20.0)
    if reached_at is not None:
        returns[reached_at:] = 500.0
    number = np.arange(1, 401)
    outcome = Outcome(
        run=Path(f"{method}-{seed}"), solved=False, reason="steps", detail="", steps=4000, episodes=400, updates=9,
        training_s=40.0, evaluation_s=0.0, checkpoint_s=0.0, startup_s=2.0, total_s=42.0, steps_per_s=100.0,
        mean_return_100=500.0, evaluation=None, cpu_s=50.0, peak_memory_mib=300.0 + seed,
    )  # fmt: skip
    points = [(2000, 20.0, 100.0), (3000, 30.0, 200.0), (4000, 40.0, final)]
    played = [
        CheckpointEvaluation(steps, at_s, evaluation(value + (5 if greedy else 0), greedy))
        for steps, at_s, value in points
        for greedy in (False, True)
    ]
    options: dict[str, Any] = {
        "evaluations": tuple(played),
        "settings": {"run.seed": seed, "agent.gamma": 0.99, f"agent.{method[:3]}": 1},
        "command": ("a3c-zoo", "train", "cartpole", "--seed", str(seed)),
        "host": {"cpu": "fast"},
        "timing": Timing(0.02, {}, None),
    }
    return RunRecord(
        path=Path(f"runs/{method}-{seed}"),
        method=method,
        env=env,
        seed=seed,
        curve=Curve(number * 10, number / 10, returns, np.full(400, 10)),
        outcome=outcome,
        **(options | changes),
    )


def together(
    records: list[RunRecord],
    left_out: dict[str, str] | None = None,
    lost: dict[tuple[str, str], int] | None = None,
) -> Results:
    labels = labels_of([each.path for each in records])
    return results_of([measure(each, labels[each.path]) for each in records], left_out or {}, lost=lost or {})


@pytest.fixture(scope="module")
def ten() -> Results:
    """Five seeds of two methods: one reaches the threshold after 295 episodes, the other in two runs of five, later."""
    ours = [record("a3c", seed, final=490.0) for seed in range(1, 6)]
    late = (None, None, None, 250, 250)
    theirs = [record("sb3-a2c", seed, reached_at=at, final=400.0) for seed, at in enumerate(late, start=1)]
    return together([*ours, *theirs])


# One run


def test_measures_of_a_run() -> None:
    figures = measure(record("a3c", 3), "x").measures
    # The mean of 100 is 20 · (100 − k) / 100 + 500 · k / 100 after k good episodes: ≥ 475 from k = 95 on.
    assert (figures.steps_to_threshold, figures.seconds_to_threshold) == (2950, 29.5)
    assert (figures.final_return, figures.final_return_greedy) == (480.0, 485.0)
    assert figures.cpu_s_to_threshold == pytest.approx(50 * 29.5 / 40)  # an estimate: its share of the training
    assert figures.mean_return == pytest.approx((150 + 340) / 2)  # two trapezoids of 1,000 steps
    assert (figures.cpu_s, figures.peak_memory_mib, figures.total_s) == (50.0, 303.0, 42.0)
    assert measure(record("a3c", 3, reached_at=350), "x").measures.steps_to_threshold is None


def test_an_earlier_checkpoint_is_not_a_runs_end() -> None:
    """An evaluation was interrupted, or the run went on after it: the report claims nothing about such runs."""
    whole = record("a3c", 1)
    partly = [record("a3c", seed, evaluations=whole.evaluations[:4]) for seed in range(2, 6)]
    figures = measure(partly[0], "x").measures
    assert (figures.final_return, figures.final_return_greedy, figures.mean_return) == (None, None, None)
    found = together([whole, *partly, *(record("random", seed, final=21.0) for seed in range(1, 6))])
    (pair,) = found.environments["cartpole"].pairs
    assert "final_return" not in pair.scores
    assert pair.times["steps_to_threshold"].value == 0.5
    assert notes(found) == ["Not evaluated, or not to the end: a3c-2, a3c-3, a3c-4, a3c-5. Their returns are missing."]


def test_runs_of_different_machines_are_pointed_out() -> None:
    hosts = [{"cpu": "fast", "cores": "2"}, {"cpu": "slow", "cores": "2"}]
    found = together([record("a3c", seed, host=host) for seed, host in enumerate(hosts)])
    note = "The runs were made on different machines: fast, 2 cores and slow, 2 cores."
    nothing = "Nothing is said here of seconds and speed, because the runs were made on different machines."
    assert notes(found) == [note, nothing]


def test_runs_of_other_programs_alone_say_nothing_of_seconds() -> None:
    """Nothing is known of the machines that made them, so they may be different ones."""
    runs = [
        record(name, seed, settings={}, host={}, final=480.0 + seed, reached_at=200 + seed)
        for name in ("a2c", "ppo")
        for seed in range(1, 6)
    ]
    found = together(runs)
    assert found.no_seconds == "the machine of the other programs' runs is not known"
    assert {claim.question.measure for claim in found.claims} == {"final_return", "steps_to_threshold"}
    assert not any("steps/s" in line or "less time" in line for line in verdict(found))


@pytest.mark.parametrize(("untimed", "before"), [(1, "1 of the 10 runs"), (10, "these runs")])
def test_runs_without_a_timed_loop_say_nothing_of_seconds(untimed: int, before: str, ten: Results) -> None:
    """As those of `train`: nobody knows what else ran on the machine."""
    records = [run.record for run in ten.runs]
    found = together([replace(each, timing=None if n < untimed else each.timing) for n, each in enumerate(records)])
    assert found.no_seconds.startswith(f"no fixed loop was timed before {before}: ")
    assert {claim.question.measure for claim in found.claims} == {"final_return", "steps_to_threshold"}


def noisy(slowest_s: float, runs: int = 10) -> Results:
    """Five runs each of two methods. The fixed loop took 0.2 s before all runs but one."""
    records = [
        record(method, seed, final=480.0 + seed, reached_at=197 + seed)
        for method in ("a3c", "nstep")
        for seed in range(1, 6)
    ]
    loops = [0.2] * (runs - 1) + [slowest_s]
    return together([replace(each, timing=Timing(loop, {})) for each, loop in zip(records, loops, strict=True)])


def test_a_noisy_machine_says_nothing_of_seconds() -> None:
    quiet, loud = noisy(0.3), noisy(0.302)
    assert quiet.no_seconds == ""
    assert {claim.question.measure for claim in quiet.claims} == {
        "final_return",
        "steps_to_threshold",
        "seconds_to_threshold",
    }
    assert {claim.question.measure for claim in loud.claims} == {"final_return", "steps_to_threshold"}
    why = "the fixed loop took up to 1.51 times its shortest time, and the limit is 1.5 times"
    assert verdict(loud)[-1] == f"Nothing is said here of seconds and speed, because {why}."
    assert to_json(loud)["no_seconds"] == why
    about = [line for line in verdict(loud)[:-1] if "reached" in line or "threshold" in line]
    assert not any(" s," in line or "steps/s" in line or "less time" in line for line in about)
    assert [any("CPU time" in line for line in verdict(found)) for found in (quiet, loud)] == [True, False]
    assert any("half of all runs within 29.5 s" in line and "made 100 steps/s" in line for line in verdict(quiet))


def test_methods_with_different_budgets_are_pointed_out() -> None:
    def budget(steps: int | None, limit_s: float | None = None, episodes: int | None = None) -> dict[str, Any]:
        return {"settings": {"run.steps": steps, "run.time_limit_s": limit_s, "run.episodes": episodes}}

    def noted(*runs: RunRecord) -> list[str]:
        return [note for note in notes(together(list(runs))) if "budget" in note]

    few, many, timed = budget(10_000), budget(1_000_000), budget(None, 60.0)
    assert noted(record("a3c", 1, **few), record("a3c", 2, **many), record("nstep", 1, env="pong", **timed)) == []
    assert noted(record("a3c", 1, **few), record("nstep", 1, **few), record("ppo", 1, settings={}, host={})) == []
    assert (
        "(a3c: 9,000 episodes; nstep: 10,000 steps)"
        in noted(record("a3c", 1, **budget(None, episodes=9000)), record("nstep", 1, **few))[0]
    )
    assert noted(record("a3c", 1, **few), record("nstep", 1, **many), record("nstep", 2, **timed)) == [
        "cartpole: methods had different budgets (a3c: 10,000 steps; nstep: 1,000,000 steps or 60 s of training), "
        "which alone can make a difference, so nothing is claimed there about methods that differ in this."
    ]
    mixed = [record(name, seed, **own) for name in ("a3c", "nstep") for seed, own in enumerate((few, many))]
    assert noted(*mixed) == [
        "cartpole: the runs of each method had different budgets (a3c: 10,000 steps or 1,000,000 steps; "
        "nstep: 10,000 steps or 1,000,000 steps), which alone can make a difference, so nothing is claimed there."
    ]


def test_methods_with_different_budgets_make_no_claims() -> None:
    """Nor one that ends when it is solved, nor a longer run of another program. A third with the same is compared."""
    short: dict[str, Any] = {"settings": {"run.steps": 4000, "agent.x": 1}}
    long: dict[str, Any] = {"settings": {"run.steps": 8000, "agent.x": 1}}
    runs = [
        record(name, s, final=480.0 + s, reached_at=200 + s, **short) for name in ("a3c", "nstep") for s in range(6)
    ]
    found = together([*runs, *(record("ppo", s, final=480.0 + s, **long) for s in range(6))])
    assert {(claim.question.method, claim.question.other) for claim in found.claims} == {("a3c", "nstep")}
    solved = {"settings": short["settings"] | {"run.stop_when_solved": True}}
    found = together([*runs, *(record("ppo", s, final=480.0 + s, **solved) for s in range(6))])
    assert {(claim.question.method, claim.question.other) for claim in found.claims} == {("a3c", "nstep")}
    assert any("ppo: 4,000 steps, or until solved)" in line for line in notes(found))
    theirs = [record("dqn", s, final=480.0 + s, settings={}, host={}, reached_at=200 + s) for s in range(6)]
    alike, longer = (
        together([*runs, *(replace(each, outcome=replace(each.outcome, steps=steps)) for each in theirs)])  # type: ignore[type-var]
        for steps in (4100, 8000)
    )
    assert ("a3c", "dqn") in {(claim.question.method, claim.question.other) for claim in alike.claims}
    assert {(claim.question.method, claim.question.other) for claim in longer.claims} == {("a3c", "nstep")}


def test_a_time_on_different_machines_is_no_budget() -> None:
    """The faster machine would decide who learns more. In steps it does not matter, nor if a third method differs."""
    one, other = ({"cpu": cpu, "cores": 2} for cpu in ("Fast", "Slow"))

    def found(budget: dict[str, Any], hosts: Mapping[str, Any]) -> Results:
        return together(
            [record(name, s, final=480.0 + s, settings=budget, host=hosts[name]) for name in hosts for s in range(6)]
        )

    timed, counted = {"run.time_limit_s": 60.0}, {"run.steps": 4000}
    sentence = "cartpole: the budget is a time, and the runs were made on different machines, which alone can make a "
    silent = found(timed, {"a3c": one, "nstep": other})
    assert silent.claims == ()
    assert any(note.startswith(sentence) for note in notes(silent))
    both = timed | counted  # ended by its steps, as the outcomes here say
    for told in (
        found(counted, {"a3c": one, "nstep": other}),
        found(both, {"a3c": one, "nstep": other}),
        found(timed, {"a3c": one, "nstep": one}),
    ):
        assert told.claims
        assert not any(note.startswith(sentence) for note in notes(told))
    third = found(timed, {"a3c": one, "nstep": one, "ppo": other})
    assert {(claim.question.method, claim.question.other) for claim in third.claims} == {("a3c", "nstep")}


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("return", "The main question (return) came first; others are claimed only if all its claims hold."),
        ("time", "Nothing could be asked about the main question (time)."),
    ],
)
def test_the_main_question(question: str, sentence: str) -> None:
    """Nothing is asked about seconds on different machines."""
    hosts = {"a3c": {"cpu": "Fast", "cores": 2}, "nstep": {"cpu": "Slow", "cores": 2}}
    records = [
        record(name, s, final=480.0 + s, host=hosts[name], reached_at=200 + s) for name in hosts for s in range(6)
    ]
    found = results_of([measure(each, each.path.name) for each in records], {}, question=question)
    assert verdict(found).count(sentence) == 1


def test_a_program_that_trained_is_no_command() -> None:
    measured = [measure(record("a3c", 1, command=()), "x")]
    titles = [section.title for section in page_of(results_of(measured, {}, None)).sections]
    assert titles[-2:] == ["Machine and versions", "How it was measured"]


def test_a_report_of_runs_as_found_says_so() -> None:
    measured = [measure(record("a3c", 1), "x")]
    makings = Making("The rule."), None, Making("The rule.", slots=4)
    by_turns, as_found, at_once = (
        plain(page_of(results_of(measured, {}, making)).sections[-1].texts[1]) for making in makings
    )
    assert "seed by seed, the runs of a seed in random order" in by_turns
    assert by_turns.endswith("Runs of other commands may have shared the machine.")
    assert as_found.endswith("as they were found: their order and other load on the machine are not known.")
    assert "Up to 4 runs at once, which begin seed by seed" in at_once
    assert "One run at a time" not in at_once


def test_a_report_says_what_the_engine_tells_of_its_machines() -> None:
    note = "Machine 10.0.0.3 got no job: it has fast, cores: 4; the others fast, cores: 2."
    found = results_of([measure(record("a3c", 1), "x")], {}, Making(engine_notes=(note,)))
    assert note in verdict(found)
    assert list(to_json(found)["engine_notes"]) == [note]


def test_what_tuning_cost_has_a_row() -> None:
    measured = [measure(record(name, 1), name) for name in ("a3c", "ppo")]
    making = Making(tuning={"cartpole": {"ppo": {"trials": 30, "runs": 97, "steps": 1_234_567}}})
    found = results_of(measured, {}, making)
    (section,) = (each for each in page_of(found).sections if each.title == "Settings side by side")
    assert section.tables[0].rows[-1] == ["what tuning the set cost", "–", "30 trials, 97 runs, 1,234,567 steps"]
    assert to_json(found)["tuning"]["cartpole"]["ppo"]["runs"] == 97
    found = results_of(measured, {}, Making(tuning={"cartpole": {"ppo": "by hand; not counted"}}))
    (section,) = (each for each in page_of(found).sections if each.title == "Settings side by side")
    assert section.tables[0].rows[-1] == ["what tuning the set cost", "–", "by hand; not counted"]
    assert "tuning the set cost" not in markdown(page_of(results_of(measured, {}, Making())))


def test_a_report_says_in_which_vector_environment_a_library_trained() -> None:
    runs = []
    for seed, (wanted, taken) in enumerate((("auto", "dummy"), ("auto", "subproc"), ("auto", "dummy")), 1):
        made = record("tuned", seed, host={"cpu": "fast", "vec_env of sb3-a2c": taken})
        settings = {**made.settings, "agent.vec_env": wanted}
        runs.append(replace(made, settings=settings, vec_env_choice="measured"))
    given = record("given", 1, host={"cpu": "fast", "vec_env of sb3-a2c": "dummy"})
    runs.append(replace(given, settings={**given.settings, "agent.vec_env": "dummy"}))
    page = markdown(page_of(results_of([measure(each, str(each.path)) for each in runs], {}, Making())))
    assert (
        "tuned: each run timed DummyVecEnv (dummy) and SubprocVecEnv (subproc) before training, and took the one that "
        "was faster there: dummy in 2 runs and subproc in 1 run."
    ) in page
    assert page.count("before training, and took") == 1
    runs[0] = replace(runs[0], vec_env_choice="not tried")
    runs[2] = replace(runs[2], vec_env_choice="failed")
    page = markdown(page_of(results_of([measure(each, str(each.path)) for each in runs], {}, Making())))
    assert (
        "tuned: 1 run timed DummyVecEnv (dummy) and SubprocVecEnv (subproc) before training, and took the one that was "
        "faster there: subproc in 1 run; 1 run took DummyVecEnv and did not try SubprocVecEnv; 1 run took DummyVecEnv, "
        "as SubprocVecEnv did not work there."
    ) in page
    assert r"| **vec\_env of sb3-a2c** | **dummy and subproc** |" in page


def test_with_a_budget_in_seconds_the_curve_is_one_over_seconds() -> None:
    run = record("a3c", 1, settings={"run.time_limit_s": 60.0})
    first, *rest = run.evaluations
    moved = (CheckpointEvaluation(first.steps, 0.0, first.evaluation), *rest)
    figures = measure(record("a3c", 1, settings=run.settings, evaluations=moved), "x").measures
    assert figures.mean_return == pytest.approx((150 * 30 + 340 * 10) / 40)


def test_a_run_of_others_has_fewer_figures() -> None:
    run = record("a2c", 1, settings={}, env="gym:Nothing-v9")
    bare = RunRecord(run.path, run.method, run.env, run.seed, run.curve)
    figures = measure(bare, "x").measures
    assert (figures.steps, figures.training_s, figures.steps_per_s) == (4000, 40.0, 100.0)
    assert (figures.final_return, figures.mean_return, figures.total_s, figures.steps_to_threshold) == (None,) * 4


def test_greedy_evaluations_of_others_are_drawn() -> None:
    """RL Zoo plays CartPole greedily alone. A method without evaluations has no share of runs, and hides none."""
    runs = [record(name, seed, settings={}, env=env) for name in ("a2c", "ppo") for seed in (1, 2) for env in ENVS]
    greedy = [replace(run, evaluations=run.evaluations[1::2] * (run.method == "a2c")) for run in runs]
    found = together(greedy)
    drawn = panels_of(found, "cartpole")[1][0].groups
    assert [run.y.tolist() for run in drawn["a2c"].runs] == [[105.0, 205.0, 485.0]] * 2
    first, _, overall, *_ = page_of(found).sections
    share = first.figures["cartpole: share of runs above a final return with greedy actions"]
    assert share.groups.keys() == {"a2c"}
    assert (overall.title, len(overall.tables)) == ("All environments", 0)
    assert overall.texts == ["No method has final returns with sampled actions on every environment."]
    unnamed = together([replace(run, env=f"gym:{run.env}-v9") for run in greedy])  # environments without a score range
    assert [each.texts for each in page_of(unnamed).sections if each.title == overall.title] == [overall.texts]
    silent = together([run for run in greedy if run.method == "ppo"])
    assert len(panels_of(silent, "cartpole")) == 1  # no empty panel


def test_labels_tell_runs_apart() -> None:
    paths = [Path("a/x"), Path("b/x"), Path("b/y")]
    assert labels_of(paths) == {Path("a/x"): "a/x", Path("b/x"): "b/x", Path("b/y"): "y"}


def test_a_tenth_of_many_checkpoints() -> None:
    assert chosen_steps([2010, 4020, 6030]) == [2010, 4020, 6030]
    assert chosen_steps(list(range(100, 10_001, 100))) == list(range(1000, 10_001, 1000))
    assert chosen_steps([5, 1000]) == [5, 1000]
    assert chosen_steps([0]) == [0]


def test_checkpoints_at_equal_seconds_are_all_chosen_though_their_steps_are_not_equal() -> None:
    """A run that becomes slower had eight of ten evaluated, and most of these in its beginning."""
    slower = [100, 190, 270, 340, 400, 450, 490, 520, 540, 550]
    assert chosen_steps(slower, is_by_time=True) == slower
    assert chosen_steps(slower) == slower
    many = sorted({*slower, *(step + 5 for step in slower)})
    assert chosen_steps(many, is_by_time=True) == [step + 5 for step in slower]
    one_more = chosen_steps([*slower, 551], is_by_time=True)
    assert (len(one_more), one_more[-1]) == (10, 551)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 0, "evaluations": [1]}', '{"format": 1}'])
def test_damaged_evaluations_are_none(text: str, tmp_path: Path) -> None:
    assert evaluations_of(tmp_path) == ()
    (tmp_path / "evaluations.json").write_text(text)
    assert evaluations_of(tmp_path) == ()


def test_evaluations_of_a_newer_version_are_left(tmp_path: Path) -> None:
    path = tmp_path / "evaluations.json"
    path.write_text('{"format": 2, "evaluations": [1]}')
    for use in (lambda: kept_evaluations(tmp_path, 20), lambda: keep_evaluations(tmp_path, 20, [], 1)):
        with pytest.raises(NewerFormatError, match=r"has format 2; this version reads 1\. A newer a3c-zoo wrote it"):
            use()
    assert path.read_text() == '{"format": 2, "evaluations": [1]}'


# Together


@pytest.fixture(scope="module")
def sixteen() -> Results:
    """Eight seeds of the same methods."""
    ours = [record("a3c", seed, final=490.0) for seed in range(1, 9)]
    late = (None, None, None, 250, 250, None, None, 250)
    theirs = [record("sb3-a2c", seed, reached_at=at, final=400.0) for seed, at in enumerate(late, start=1)]
    return together([*ours, *theirs])


def test_results_of_five_seeds(ten: Results) -> None:
    results = to_json(ten)
    assert results["caution"] is None
    found = results["environments"]["cartpole"]
    assert found["methods"]["a3c"]["final_return"]["interquartile_mean"] == {"value": 490, "low": None, "high": None}
    assert found["methods"]["a3c"]["seconds_to_threshold"]["reached"] == 5
    assert found["methods"]["a3c"]["seconds_to_threshold"]["median"] == 29.5
    assert found["methods"]["sb3-a2c"]["seconds_to_threshold"]["reached"] == 2
    assert found["methods"]["sb3-a2c"]["seconds_to_threshold"]["median"] is None  # three of five never got there
    assert found["methods"]["sb3-a2c"]["peak_memory_mib"] == {"median": 303, "min": 301, "max": 305}
    (pair,) = found["against"]
    assert (pair["method"], pair["other"]) == ("a3c", "sb3-a2c")
    whole = {"value": 1, "low": 0.5, "high": 1}  # five runs can show nothing
    gap = {"value": 90, "low": None, "high": None}  # all runs of a method have one return
    assert pair["final_return"] == {**whole, "difference": gap}
    for name, (ours, ends) in {"seconds_to_threshold": (29.5, 40), "steps_to_threshold": (2950, 4000)}.items():
        found = pair[name]
        assert {key: found[key] for key in whole} == whole
        assert (found["unknown"], found["at_worst"]) == (0, 1)
        # Two of five runs get there after 250 + 95 of 400 episodes, and three end.
        theirs = (2 * ends * 345 / 400 + 3 * ends) / 5
        assert found["difference"]["value"] == pytest.approx(ours - theirs)
        assert found["difference"]["until"] == ends
    assert [claim["measure"] for claim in results["claims"]] == [
        "seconds_to_threshold",
        "steps_to_threshold",
        "final_return",
    ]
    for claim in results["claims"]:
        assert (claim["env"], claim["method"], claim["other"]) == ("cartpole", "a3c", "sb3-a2c")
        assert (claim["p"], claim["p_of_all_claims"], claim["holds"]) == (2 / 32, pytest.approx(6 / 32), False)
        assert (claim["limit"], claim["least_p"]) == (0.05, 2 / 32)
    assert results["overall"] is None
    assert json.loads(json.dumps(results, allow_nan=False)) == results


def test_several_environments_are_put_on_one_scale() -> None:
    runs = [record(m, s, final=f, env=e) for s in (1, 2) for m, f, e in [
        ("a3c", 400.0 + 100 * (s == 2), "cartpole"), ("random", 300.0, "cartpole"),
        ("a3c", 10.0, "pong"), ("random", -10.0 - 10 * (s == 2), "pong"),
    ]]  # fmt: skip
    found = to_json(together(runs))["overall"]
    # cartpole: 22 is 0 and 500 is 1; pong: −20.7, random actions, is 0 and 14.6, a human, is 1
    scores = (378 / 478, 1.0, 30.7 / 35.3, 30.7 / 35.3)
    assert found["methods"]["a3c"]["mean"]["value"] == pytest.approx(sum(scores) / 4)
    assert found["methods"]["a3c"]["optimality_gap"]["value"] == pytest.approx(1 - sum(scores) / 4)
    of_random = (278 / 478, 278 / 478, 10.7 / 35.3, 0.7 / 35.3)
    assert found["methods"]["random"]["mean"]["value"] == pytest.approx(sum(of_random) / 4)
    assert found["against"][0]["final_return"]["value"] == 1
    assert found["scale"].startswith("0 and 1: returns of 22.0 and 500.0 on cartpole, -20.7 and 14.6 on pong, as the ")


def test_a_method_that_is_added_does_not_move_the_scale() -> None:
    runs = [record("a3c", 1, final=400.0, env="cartpole"), record("a3c", 1, final=10.0, env="pong")]
    more = [record("best", 1, final=500.0, env="cartpole"), record("best", 1, final=21.0, env="pong")]
    before, after = (to_json(together(each))["overall"]["methods"]["a3c"] for each in (runs, [*runs, *more]))
    assert before == after


def test_environments_without_a_range_have_the_scale_of_their_runs() -> None:
    runs = [record(m, s, final=f, env=e) for s in (1, 2) for m, f, e in [
        ("a3c", 400.0 + 100 * (s == 2), "cartpole"), ("random", 300.0, "cartpole"),
        ("a3c", 10.0, "gym:Acrobot-v1"), ("random", -10.0 - 10 * (s == 2), "gym:Acrobot-v1"),
    ]]  # fmt: skip
    found = to_json(together(runs))["overall"]
    # cartpole: 300 is 0 and 500 is 1; Acrobot: −20 is 0 and 10 is 1
    assert found["methods"]["a3c"]["mean"]["value"] == pytest.approx((0.5 + 1 + 1 + 1) / 4)
    assert found["methods"]["random"]["mean"]["value"] == pytest.approx((0 + 0 + 1 / 3 + 0) / 4)
    assert "optimality_gap" not in found["methods"]["a3c"]
    assert found["scale"] == "0 and 1: the worst and the best final return of all runs on an environment"


def test_equal_returns_have_a_scale_whatever_their_size(tmp_path: Path) -> None:
    """From 2**53 on, a number and one more are the same number."""
    runs = [record("a3c", seed, final=1e16, env=env) for seed in (1, 2) for env in ("cartpole", "gym:Acrobot-v1")]
    found = together(runs)
    assert to_json(found)["overall"]["methods"]["a3c"]["mean"]["value"] == 0
    write_report(report_files(found, page_of(found), tmp_path), tmp_path)


def test_the_optimality_gap_counts_more_than_1_as_1() -> None:
    assert optimality_gap(np.array([[0.5, 1.5], [1.0, 0.0]])) == pytest.approx(1 - (0.5 + 1 + 1 + 0) / 4)
    assert optimality_gap(np.array([[2.0], [np.nan]])) == 0


def test_environments_together_are_no_question_if_few_runs_of_one_have_a_score() -> None:
    """Holm would count it as one of the claims, and the others would need more."""
    whole = [record(m, s, final=400.0 + s, env=e) for m in ("a3c", "random") for s in range(1, 6) for e in ENVS]
    assert [claim.question.env for claim in together(whole).claims].count(None) == 1
    few = [replace(run, evaluations=()) if run.env == "pong" and (run.seed or 0) > 1 else run for run in whole]
    found = together(few)
    assert None not in [claim.question.env for claim in found.claims]
    assert found.claims
    assert found.overall is not None
    assert found.overall.methods.keys() == {"a3c", "random"}
    assert "All environments" in markdown(page_of(found))


def test_nothing_is_claimed_of_a_method_that_lost_runs() -> None:
    """14 of 20 runs of a3c have diverged. The six that have not are no sample of its runs."""
    six = [record("a3c", seed, final=490.0 + seed) for seed in range(1, 7)]
    rest = [record(name, seed, reached_at=None, final=300.0 + seed) for name in ("ppo", "random") for seed in range(20)]
    found = together([*six, *rest], lost={("cartpole", "a3c"): 14})
    lines = verdict(found)
    (lost,) = (line for line in lines if "14 of 20 runs" in line)
    assert re.search("^cartpole: .* of a3c failed .* never reached 475, .* nothing is claimed about a3c", lost)
    (line,) = (line for line in lines if line.startswith("cartpole: a3c ended"))
    # The chance p at which 6 or more of 20 runs reach it with a probability of 5 % (Clopper and Pearson).
    assert "reached 475 in training in 6 of 20 runs" in line  # its bound is no claim, and stands in the table alone
    assert sum(math.comb(20, k) * 0.1396**k * 0.8604 ** (20 - k) for k in range(6, 21)) == pytest.approx(0.05, abs=1e-3)
    assert {(claim.question.method, claim.question.other) for claim in found.claims} == {("ppo", "random")}
    assert not any("a run of a3c" in line for line in lines)
    assert to_json(found)["lost"] == {"cartpole": {"a3c": 14}}
    assert "| a3c | 6 of 20 | 14 % | – (29.5 s to –) |" in markdown(page_of(found))


def test_nothing_is_claimed_of_a_method_with_few_seeds_and_the_others_are_compared() -> None:
    """One run of random is missing in one environment, and all claims were."""
    seeds = {"a3c": 10, "ppo": 10, "random": 4}
    runs = [record(name, seed, final=400.0 + seed) for name, number in seeds.items() for seed in range(number)]
    found = together(runs)
    assert {(claim.question.method, claim.question.other) for claim in found.claims} == {("a3c", "ppo")}
    assert found.caution is not None
    assert found.caution in verdict(found)
    elsewhere = [record(name, seed, final=400.0 + seed, env="pong") for name in seeds for seed in range(10)]
    asked = {
        (claim.question.env, claim.question.method, claim.question.other)
        for claim in together([*runs, *elsewhere]).claims
    }
    assert asked == {
        *(("pong", *pair) for pair in (("a3c", "ppo"), ("a3c", "random"), ("ppo", "random"))),
        ("cartpole", "a3c", "ppo"),
        (None, "a3c", "ppo"),
    }


def test_nothing_is_claimed_over_all_environments_of_a_method_that_lost_runs_on_one() -> None:
    whole = [record(m, s, final=400.0 + s, env=e) for m in ("a3c", "ppo", "random") for s in range(1, 7) for e in ENVS]
    found = together(whole, lost={("pong", "a3c"): 1})
    asked = {(claim.question.env, claim.question.method, claim.question.other) for claim in found.claims}
    assert asked == {
        *(("cartpole", *pair) for pair in (("a3c", "ppo"), ("a3c", "random"), ("ppo", "random"))),
        ("pong", "ppo", "random"),
        (None, "ppo", "random"),
    }
    assert notes(found)[0] == (
        "pong: 1 of 7 runs of a3c failed or cannot be read; they count as runs that never reached 18, and the other "
        "figures are without them, so nothing is claimed about a3c there and over all environments."
    )


def test_nothing_is_claimed_of_runs_that_were_chosen_by_how_they_ended() -> None:
    runs = [
        measure(record(name, seed, final=400.0 + seed), f"{name}-{seed}")
        for name in ("a3c", "ppo")
        for seed in range(6)
    ]
    assert results_of(runs, {}).claims
    found = results_of(runs, {}, chosen_by="--solved")
    assert found.claims == ()
    (why,) = found.unasked
    assert why in verdict(found)


def test_a_method_all_of_whose_runs_failed_is_told() -> None:
    found = together([record("random", seed) for seed in range(5)], lost={("cartpole", "a3c"): 5})
    assert notes(found) == [
        "cartpole: 5 runs of a3c failed or cannot be read, and none has figures, so nothing is claimed about a3c there."
    ]


def test_a_method_on_one_environment_alone_silences_no_claim() -> None:
    """It has five seeds where it is; it had none on the other environment, it was said."""
    everywhere = [record(m, s, final=400.0 + s, env=e) for m in ("a3c", "random") for s in range(1, 6) for e in ENVS]
    there = [record("sb3-a2c", seed) for seed in range(1, 6)]
    found = together([*everywhere, *there])
    assert found.caution is None
    pairs = {(claim.question.env, claim.question.method, claim.question.other) for claim in found.claims}
    assert ("cartpole", "a3c", "sb3-a2c") in pairs
    assert {env for env, *names in pairs if "sb3-a2c" in names} == {"cartpole"}
    assert (None, "a3c", "random") in pairs
    assert together([*everywhere, *there[:4]]).caution.startswith("Fewer than 5 seeds (sb3-a2c: 4)")  # type: ignore[union-attr]


def test_settings_side_by_side() -> None:
    ours = {"run.seed": 1, "agent.entropy_coefficient": 0.01, "agent.n_steps": 5, "optimizer.learning_rate": 0.002}
    theirs = {
        "run.seed": 2,
        "agent.ent_coef": 0.01,
        "agent.n_steps": 5,
        "agent.learning_rate": 7e-4,
        "agent.policy": "M",
    }
    found = settings_side_by_side([record("a3c", 1, settings=ours), record("sb3-a2c", 2, settings=theirs)])
    rows = {row.key: (row.values["a3c"], row.values["sb3-a2c"], row.differs) for row in found}
    assert rows == {
        "agent.entropy_coefficient (agent.ent_coef)": ("0.01", "0.01", False),
        "agent.n_steps": ("5", "5", False),
        "optimizer.learning_rate (agent.learning_rate)": ("0.002", "0.0007", True),
        "agent.policy": (None, "M", False),
    }


def test_runs_of_one_method_with_other_settings_show(ten: Results) -> None:
    settings = [{"agent.gamma": gamma} for gamma in (0.9, 0.99)]
    found = settings_side_by_side([record("a3c", seed, settings=each) for seed, each in enumerate(settings)])
    assert (found[0].values, found[0].differs) == ({"a3c": "0.9 or 0.99"}, True)
    other = record("a3c", 6, settings={"run.seed": 6, "agent.gamma": 0.9})
    (note,) = notes(together([*(each.record for each in ten.runs), other]))
    assert note == "cartpole: the runs of a3c do not have the same settings; see below."
    assert not notes(ten)
    cleanrl = [record("ppo", seed, settings={}, their_settings={"gamma": str(seed)}) for seed in (1, 2)]
    assert "cartpole: the runs of ppo do not have the same settings; see below." in notes(together(cleanrl))


def test_environments_that_differ_are_named(ten: Results) -> None:
    """Not where only the number of environments differs, or where an older run lacks a key."""
    shared = {"env.num_envs": 8, "env.kwargs": {"gravity": -10}, "env.hide_velocity": False}
    alike = record("a3c", 6, settings={"env.num_envs": 16, "env.kwargs": {"gravity": -10}})
    assert not notes(together([record("sb3-a2c", 6, settings=shared), alike]))
    other = record("a3c", 6, settings={**shared, "env.kwargs": {"gravity": -1}, "env.hide_velocity": True})
    (note,) = notes(together([record("sb3-a2c", 6, settings=shared), other]))
    assert note == (
        "cartpole: the runs differ in env.kwargs and env.hide_velocity, so a difference may come from their "
        "environments."
    )


def test_versions_that_differ_are_named() -> None:
    def noted(*versions: dict[str, str]) -> list[str]:
        methods = ("a3c", "a3c", "nstep", "nstep")
        runs = [
            record(name, seed, versions=each) for seed, (name, each) in enumerate(zip(methods, versions, strict=True))
        ]
        theirs = record("ppo", 1, settings={}, host={}, versions={})
        return [note for note in notes(together([*runs, theirs])) if "version" in note]

    old, new = ({"a3c-zoo": version, "torch": version} for version in ("0.2.0", "0.3.0"))
    assert noted(old, old, old, old) == []
    assert noted(old, new, new, {}) == [
        "cartpole: different versions of a3c-zoo made the runs (a3c: 0.2.0 and 0.3.0; nstep: 0.3.0 and an unknown "
        "version), so a difference may come from these."
    ]


def test_a_new_statistic_is_one_function_and_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line is an entry of `STATISTICS`: results.json and every table of scores have the statistic then."""

    def best(scores: statistics.Floats) -> statistics.Floats:
        return np.asarray(np.nanmax(scores, axis=(-2, -1)))

    monkeypatch.setitem(statistics.STATISTICS, "best_run", best)
    finals = {("cartpole", "a3c"): 400.0, ("cartpole", "random"): 300.0, ("pong", "a3c"): 10.0, ("pong", "random"): 5.0}
    found = together([record(m, s, final=f + s, env=e) for (e, m), f in finals.items() for s in (1, 2)])
    results = to_json(found)
    assert results["environments"]["cartpole"]["methods"]["a3c"]["final_return"]["best_run"]["value"] == 402
    assert results["overall"]["methods"]["a3c"]["best_run"]["value"] == pytest.approx((12 + 20.7) / (14.6 + 20.7))
    heads = [line for line in markdown(page_of(found)).splitlines() if "| best run |" in line]
    assert len(heads) == 3  # a table for each environment, and one for both
    assert ["median of means" in head for head in heads].count(True) == 1


def test_few_runs_have_times_without_intervals() -> None:
    found = together([record("a3c", seed) for seed in (1, 2)])
    time = to_json(found)["environments"]["cartpole"]["methods"]["a3c"]["seconds_to_threshold"]
    assert (time["median"], time["low"], time["high"]) == (29.5, None, None)
    assert "| 2 of 2 | 22 % | 29.5 s (–) | 36.9 s (–) | 2,950 (–) |" in markdown(page_of(found))


# Words


@pytest.mark.parametrize(("ended_at", "words"), [(10.0, "an estimated 31.6 s"), (40.0, None)])
def test_half_of_the_runs_is_an_estimate_where_others_ended_before(ended_at: float, words: str | None) -> None:
    """Three of eight runs are there, after 30.6 to 32.6 s. If four ended before, half of the others are by 31.6 s."""
    there = [record("a3c", seed, reached_at=201 + 10 * seed) for seed in (1, 2, 3)]
    never = [record("a3c", seed, reached_at=None) for seed in range(4, 9)]
    short = [replace(run, outcome=replace(run.outcome, training_s=ended_at)) for run in never[1:] if run.outcome]
    (line,) = (line for line in verdict(together([*there, never[0], *short])) if "reached 475" in line)
    assert "reached 475 in training in 3 of 8 runs" in line
    assert ("half of all runs within" in line) == (words is not None)
    assert words is None or f", half of all runs within {words}" in line
    seven = [*there, *(record("a3c", seed, reached_at=250) for seed in (4, 5)), never[2], never[3]]
    (line,) = (line for line in verdict(together(seven)) if "reached 475" in line)
    assert "estimated" not in line  # five of seven, of which none ended before


def test_the_verdict_claims_only_what_runs_can_show(sixteen: Results, ten: Results) -> None:
    lines = verdict(sixteen)
    line = (
        "cartpole: a run of a3c reaches the threshold in less time than a run of sb3-a2c with probability 1 "
        "(0.756 to 1); shown (p = 2.3 % over all 3 claims; the limit is 5 %)."
    )
    assert line == lines[0]
    ended = "sb3-a2c ended with an interquartile mean return of 400.0 (–), reached 475 in training in 3 of 8 runs"
    assert any(ended in line for line in lines)
    assert any("a3c ended" in line and "in 8 of 8 runs, half" in line for line in lines)
    rule = "The probability that any of these 3 claims is wrong is at most about 5 % (permutation tests, Holm)."
    assert lines[3] == rule
    assert lines[4].startswith(
        "With 8 seeds of each method, a method whose run is better with probability 0.8 is found in"
    )
    assert verdict(ten)[0].endswith("; not shown (p = 19 % over all 3 claims; the limit is 5 %).")
    assert not any("is wrong is at most" in line for line in verdict(ten))  # nothing is claimed
    assert verdict(ten)[3].startswith(
        "With 5 seeds of each method, nothing can be shown: the p of the first of 3 claims "
    )
    assert {text: "; shown (p = " in text for text in lines[:3]} == answers(sixteen)
    assert list(answers(ten).values()) == [False] * 3
    same = together(
        [record(m, s, final=400.0 + s, reached_at=200 + s) for m in ("a3c", "sb3-a2c") for s in range(1, 6)]
    )
    (line,) = [line for line in verdict(same) if "higher return" in line]
    assert line.endswith("; not shown (p = 100 % over all 3 claims; the limit is 5 %).")


def test_the_method_that_is_ahead_comes_first() -> None:
    finals = {"a3c": range(1, 7), "ppo": range(4, 10)}
    found = together(
        [record(m, s, final=float(f), reached_at=None) for m, each in finals.items() for s, f in enumerate(each)]
    )
    assert found.environments["cartpole"].pairs[0].scores["final_return"].value == (3 * 0.5 + 3) / 36
    assert verdict(found)[0].startswith(
        "cartpole: a run of ppo ends with a higher return than a run of a3c with probability 0.875 ("
    )


def test_a_question_that_no_seed_could_answer_is_not_asked() -> None:
    """No run reached the threshold, which costs the third question nothing. Or all returns are alike."""
    finals = {"a3c": range(10, 16), "ppo": range(6)}
    found = together(
        [record(m, s, final=float(f), reached_at=None) for m, each in finals.items() for s, f in enumerate(each)]
    )
    (claim,) = found.claims
    assert [claim.question.p, claim.p_of_all] == pytest.approx([2 / 64, 2 / 64])
    assert claim.holds
    why = "cartpole: no run of a3c or ppo reached the threshold, so nothing is asked about it."
    assert found.unasked == (why,)
    assert why in verdict(found)
    alike = together([record(m, s, reached_at=200 + s) for m in ("a3c", "ppo") for s in range(6)])
    assert any(re.search("cartpole: all runs of a3c and ppo .*480.0", line) for line in alike.unasked)
    assert {claim.question.measure for claim in alike.claims} == {"seconds_to_threshold", "steps_to_threshold"}


def test_which_method_is_earlier_is_not_asked_if_all_runs_are_at_once() -> None:
    """The claim about returns has 2 · 2⁻⁶ to itself; of three claims it could not hold. One step more is a question."""
    finals = {"a3c": range(10, 16), "ppo": range(6)}
    runs = [record(m, s, final=float(f)) for m, each in finals.items() for s, f in enumerate(each)]
    found = together(runs)
    (claim,) = found.claims
    assert (claim.question.measure, claim.holds) == ("final_return", True)
    assert claim.p_of_all == pytest.approx(2 / 64)
    assert found.unasked == (
        "cartpole: all runs of a3c and ppo reached the threshold after 29.5 s of training.",
        "cartpole: all runs of a3c and ppo reached the threshold after 2,950 agent steps.",
    )
    for changed in (201, None):  # a run that is later, and one that ends before
        others = together([*runs[:-1], record("ppo", 5, final=5.0, reached_at=changed)])
        assert len(others.claims) == 3


def test_runs_without_a_final_return_are_lost() -> None:
    """Half of the runs of a method were not evaluated, or have returns that are not finite."""
    runs = [record(m, s, final=480.0 + s + (100 if m == "a3c" else 0)) for m in ("a3c", "ppo") for s in range(12)]
    for lacking in (
        [replace(run, evaluations=()) if run.method == "a3c" and (run.seed or 0) % 2 else run for run in runs],
        [record("a3c", s, final=math.nan) if run.method == "a3c" and (s := run.seed or 0) % 2 else run for run in runs],
    ):
        found = together(lacking)
        assert found.claims == ()
        why = "cartpole: 6 of 12 runs of a3c have no final return, so nothing is claimed about a3c there."
        assert found.unasked == (why,)
        assert json.dumps(to_json(found), allow_nan=False)
    assert [claim.holds for claim in together(runs).claims if claim.question.measure == "final_return"] == [True]


def test_one_environment_under_two_names_counts_once() -> None:
    runs = [record("a3c", 1), record("ppo", 1, env="gym:CartPole-v1"), record("ppo", 2, env="gym:Acrobot-v1")]
    assert [run.env for run in on_envs(runs, [], "--from")] == ["cartpole", "cartpole", "gym:Acrobot-v1"]
    assert [run.env for run in on_envs(runs, ["gym:CartPole-v1", "cartpole"], "--from")] == ["cartpole", "cartpole"]
    assert [one_name(env) for env in ("pong", "gym:Pendulum-v1", "file.py:CartPole-v1")] == [
        "pong",
        "gym:Pendulum-v1",
        "file.py:CartPole-v1",
    ]


def test_figures_are_never_long() -> None:
    assert [ranged(value, None, None) for value in (999.4, 123456.0, 1e9, -1.5e35)] == [
        "999 (–)",
        "123,456 (–)",
        "1e+09 (–)",
        "-1.5e+35 (–)",
    ]
    assert [return_text(value) for value in (123456.0, -1.5e35)] == ["123,456.0", "-1.5e+35"]


def test_a_difference_that_would_count_alone_says_why_it_does_not() -> None:
    """It is one of three claims, and the others are none: three times its p is above 5 %."""
    finals = {"a3c": (1.0, 2.0, 3.0, 5.0, 6.0, 8.5), "sb3-a2c": (4.0, 7.0, 8.0, 9.0, 10.0, 11.0)}
    found = together(
        [record(m, s, final=final, reached_at=200 + s) for m, each in finals.items() for s, final in enumerate(each)]
    )
    (claim,) = [claim for claim in found.claims if claim.question.measure == "final_return"]
    chance = claim.question.chance
    assert chance.value == pytest.approx(5 / 36)
    assert 1 / 60 < claim.question.p <= 0.05
    assert not claim.holds
    assert chance.high is not None
    assert chance.high < 0.5
    (line,) = [line for line in verdict(found) if "higher return" in line]
    assert " alone, but not shown after correction for 3 claims (p = " in line


def test_a_difference_that_the_main_question_stops_says_so() -> None:
    """All eight runs of a3c have the higher return: 2 of 2⁸. It is the only claim after the main one."""
    reached_at = {"a3c": (200, 203, 204, 207, 208, 211, 212, 215), "nstep": (201, 202, 205, 206, 209, 210, 213, 214)}
    finals = {"a3c": 490.0, "nstep": 470.0}
    records = [
        record(name, seed, final=finals[name] + seed, reached_at=at, timing=None)
        for name, each in reached_at.items()
        for seed, at in enumerate(each)
    ]
    measured = [measure(each, str(each.path)) for each in records]
    found = results_of(measured, {}, question="steps")
    main, other = sorted(found.claims, key=lambda claim: claim.question.p, reverse=True)
    assert [main.question.measure, other.question.measure] == ["steps_to_threshold", "final_return"]
    assert other.question.p == 2 / 256
    assert other.p_of_all == main.question.p > 0.05
    (line,) = [line for line in verdict(found) if "higher return" in line]
    assert line.endswith(
        "; p = 0.78 % alone, but not shown, because the claims about the main question do not all hold "
        f"(p = {percent(main.question.p)} with the main question; the limit is 5 %)."
    )


def test_a_difference_must_not_depend_on_pairs_of_unknown_order() -> None:
    """Eight of ten runs reach the threshold after 20.5 s and two end after 40 s; all slow runs reach it after 100 s."""
    fast = [record("a3c", seed, reached_at=110 if seed < 8 else None) for seed in range(10)]
    slow = [record("sb3-a2c", seed, reached_at=110) for seed in range(10)]
    slow = [replace(each, curve=replace(each.curve, seconds=each.curve.seconds * 5)) for each in slow]
    found = together([*fast, *slow])
    (pair,) = found.environments["cartpole"].pairs
    chance = pair.times["seconds_to_threshold"]
    assert chance.value == pytest.approx(0.9)
    assert chance.unknown == pytest.approx(0.2)
    assert chance.at_worst == pytest.approx(0.8)
    assert chance.low is not None
    assert chance.low > 0.5
    (line,) = (line for line in verdict(found) if "in less time" in line)
    assert "for 20 % of the pairs of runs the order is unknown" in line
    assert chance.p < chance.p_at_worst
    assert ("; shown (p = " in line) == (3 * chance.p_at_worst <= 0.05)
    six = [record("a3c", seed, reached_at=110 if seed < 6 else None) for seed in range(10)]
    found = together([*six, *slow])
    (chance,) = (pair.times["seconds_to_threshold"] for pair in found.environments["cartpole"].pairs)
    assert chance.p == pytest.approx(2 / 64)  # six coins; with two claims, twice as much is above 5 %, too
    (line,) = (line for line in verdict(found) if "in less time" in line)
    worst = percent(chance.p_at_worst)
    told = f"; p = 3.1 % alone, but {worst} if a3c loses all these pairs; not shown (p = {worst} over all 2 claims; "
    assert told in line
    fewer = [record("a3c", seed, reached_at=110 if seed < 5 else None) for seed in range(10)]
    (line,) = (line for line in verdict(together([*fewer, *slow])) if "in less time" in line)
    assert "for 50 % of the pairs of runs the order is unknown" in line
    assert "; not shown" in line


def test_markdown_shows_names_as_they_are() -> None:
    assert plain("a|b *c* <d>\n_e_") == r"a\|b \*c\* \<d\> \_e\_"


# Pictures


def test_a_band_of_few_curves_is_their_range() -> None:
    """Five runs of each method, but only four of one were evaluated."""
    runs = [record(name, seed, final=400.0 + seed) for name in ("a3c", "random") for seed in range(1, 6)]
    found = together([*runs[:-1], replace(runs[-1], evaluations=())])
    assert found.caution is None
    training, evaluations = panels_of(found, "cartpole")
    assert [len(group.runs) for panel in training for group in panel.groups.values()] == [5] * 4
    few, many = evaluations[0].groups["random"].band, evaluations[0].groups["a3c"].band
    assert few is not None
    assert (few.value[-1], few.low[-1], few.high[-1]) == (402.5, 401.0, 404.0)
    assert many is not None
    assert many.value[-1] == pytest.approx(403.0)  # the interquartile mean, within its interval
    assert 401 <= many.low[-1] < 403 < many.high[-1] <= 405
    assert "interquartile mean, with its 95 % interval (below 5 runs: mean, within their range)." in str(
        page_of(found).sections[0].texts
    )
    several = page_of(together(runs[:4] + runs[5:9])).sections[0].texts[0]
    assert "Thick: their mean, within their range." in several


def test_runs_on_a_common_grid() -> None:
    lines = [Line(np.array([0.0, 10.0]), np.array([0.0, 10.0])), Line(np.array([4.0, 8.0]), np.array([1.0, 1.0]))]
    grid, values = on_grid(lines)
    assert (grid[0], grid[-1]) == (4, 8)
    assert values[0] == pytest.approx(grid)
    assert values[1] == pytest.approx(1)
    assert group_of([]).runs == []
    assert on_grid(lines, is_log=True)[0][150] < 6


# Pages


class Links(HTMLParser):
    """Everything in a page that a browser would fetch, and its elements."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.elements: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.fetched += [
            value or ""
            for name, value in attrs
            if name in ("src", "href", "xlink:href", "data")
            and not (value or "").startswith(("#", "data:"))
            and tag != "a"
        ]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, ten: Results) -> Path:
    folder = tmp_path_factory.mktemp("report")
    hostile = together([each.record for each in ten.runs], {"<script>alert(1)</script>": "a & \udcff"})
    films = Films((Film('a3c "><script>alert(1)</script>', b"no film", b"no picture"),), {"<b>ppo</b>": "<i>no</i>"})
    write_report(report_files(hostile, page_of(hostile, films), folder), folder)
    return folder / "report.html"


def test_the_page_needs_no_other_file(page: Path) -> None:
    text = page.read_text()
    links = Links()
    links.feed(text)
    assert links.fetched == []
    assert links.elements.count("svg") == 5
    assert "script" not in links.elements
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "a &amp; \\udcff" in text  # an error may quote a file's name that is not UTF-8
    assert "url(http" not in text
    assert "@import" not in text
    assert "prefers-color-scheme: dark" in text
    assert "currentColor" in text


def test_the_page_leads_to_its_parts_and_to_the_runs(page: Path) -> None:
    text = page.read_text()
    run = os.path.relpath("runs/a3c-1", page.parent)
    assert f'<td class="word"><a href="{run}">a3c-1</a></td>' in text
    parts = re.findall(r'<a href="#(part-\d+)">([^<]+)</a>', text)
    titles = re.findall(r'<section id="(part-\d+)">\n(?:<details class="part"><summary>)?<h2>([^<]+)</h2>', text)
    assert parts == titles
    assert [title for _, title in parts][-3:] == ["Machine and versions", "Commands", "How it was measured"]


def test_links_are_paths_and_nothing_else(ten: Results, tmp_path: Path) -> None:
    """A stranger can name a folder, also in bytes that are not UTF-8."""
    path = tmp_path / 'javascript:a"><b>' / "x y\udcff"
    table = TextTable(("run",), [["r"]], paths={"r": path})
    page = ReportPage("t", "s", [], [ReportSection("runs", tables=[table])], [])
    assert '<a href="javascript%3Aa%22%3E%3Cb%3E/x%20y%FF">r</a>' in html(page, tmp_path)


def test_only_settings_that_differ_are_open(ten: Results) -> None:
    settings = {"a3c": {"agent.gamma": 0.9, "agent.n_steps": 5}, "nstep": {"agent.gamma": 0.99, "agent.n_steps": 5}}
    found = together([record(name, 1, settings=each) for name, each in settings.items()])
    (section,) = (each for each in page_of(found).sections if each.title == "Settings side by side")
    assert [(table.folded, table.rows) for table in section.tables] == [
        ("", [["agent.gamma", "0.9", "0.99"]]),
        ("cartpole: 1 other settings, equal or of some methods only", [["agent.n_steps", "5", "5"]]),
    ]
    assert "<details><summary>cartpole: 1 other settings" in html(page_of(found), Path())


def test_the_head_says_how_much_was_compared(ten: Results) -> None:
    untimed = together([replace(run.record, timing=None) for run in ten.runs])
    assert page_of(untimed).subtitle.startswith("2 methods × 5 seeds × no budget, machine not known, its noise was not")
    host = {"cpu": "Fast", "cores": "2"}
    runs = [replace(run.record, host=host, settings={"run.time_limit_s": 60.0}) for run in ten.runs]
    timed = [replace(each, timing=Timing(loop, {})) for each, loop in zip(runs, [0.2, 0.25] * 5, strict=True)]
    head = page_of(together(timed)).subtitle
    assert head.startswith("2 methods × 5 seeds × 60 s of training, Fast, 2 cores, noise 1.25 (slowest fixed loop over")


def test_the_head_tells_budgets_and_not_what_runs_have_used() -> None:
    def head(*runs: RunRecord) -> str:
        used = [(run, replace(run.outcome, steps=4000 + number)) for number, run in enumerate(runs) if run.outcome]
        found = together([replace(run, outcome=outcome) for run, outcome in used])
        return page_of(found).subtitle.rpartition(" × ")[2].partition(",")[0]

    theirs = [record("a2c", seed, settings={}) for seed in (1, 2)]
    ours = [record("a3c", seed, settings={"run.episodes": 120}) for seed in (1, 2)]
    assert head(*ours) == "120 episodes"
    assert head(*theirs) == head(*ours, *theirs) == "budget not known"
    assert head(*ours, record("a3c", 3, settings={"run.episodes": 60})) == "different budgets"


def test_only_evaluations_of_ours_are_told_as_ours() -> None:
    def told(*runs: RunRecord) -> list[str]:
        return [text for text in page_of(together(list(runs))).sections[-1].texts if text.startswith("Evaluation")]

    ours, theirs = record("a3c", 1), record("a2c", 1, settings={})
    (whole,), (part,) = told(ours), told(ours, theirs)
    assert whole.startswith("Evaluation: after training, each run's checkpoints played 20 episodes with sampled")
    assert part.startswith("Evaluation of runs of a3c-zoo: after training")
    assert told(theirs) == told(replace(ours, evaluations=())) == []


def test_figures_below_zero_are_written_as_those_above() -> None:
    assert [seconds(value) for value in (-30.0, -1234.0, 599.0)] == ["-30 s", "-20.6 min", "599 s"]
    assert ranged(-4000, -6000, -2000, seconds) == "-66.7 min (-100.0 min to -33.3 min)"
    assert [number(value) for value in (-999.7, 999.4, 999.5)] == ["-1,000", "999", "1,000"]


def test_curves_that_end_at_different_times_say_why(ten: Results) -> None:
    (text,) = page_of(ten).sections[0].texts
    assert text.endswith("Dotted: the threshold.")
    runs = [run.record for run in ten.runs]
    outcomes = [(run, run.outcome) for run in runs if run.outcome is not None]
    ends = {"a3c": 80.0, "sb3-a2c": 40.0}
    slower = [replace(run, outcome=replace(each, training_s=ends[run.method])) for run, each in outcomes]
    (text,) = page_of(together(slower)).sections[0].texts
    assert text.endswith(
        "Curves over seconds end at different times: each method ends when its first run has spent its budget."
    )


def test_a_share_of_runs_is_drawn_in_steps(ten: Results) -> None:
    """Every piece of its line goes along an axis; that of a curve does not."""

    def straight(panel: Panel) -> bool:
        (axes,) = draw_grid([[panel]]).axes
        lines = [line for line in axes.get_lines() if np.size(line.get_xdata()) > 2]
        return {line.get_drawstyle() for line in lines} == {"steps-post"}

    figures = page_of(ten).sections[0].figures
    assert [name for name, panel in figures.items() if straight(panel)] == [
        "cartpole: share of runs above a final return"
    ]


def test_legends_lie_beside_the_data(ten: Results) -> None:
    (row, *_) = panels_of(ten, "cartpole")
    figure = draw_grid([row])
    figure.canvas.draw()
    for axes in figure.axes:
        legend = axes.get_legend()
        assert legend is not None
        assert legend.get_window_extent().y1 <= axes.get_window_extent().y0


def test_the_same_runs_give_the_same_picture(ten: Results) -> None:
    panel = panels_of(ten, "cartpole")[1][0]
    assert to_inline_svg(panel) == to_inline_svg(panel)
    assert to_inline_svg(panel) != to_inline_svg(panels_of(ten, "cartpole")[1][1])


def browse(page: Path, folder: Path, query: str = "") -> tuple[str, list[str], set[str]]:
    """Opens a page in Chromium. Returns the document, the lines on the console, and the addresses it asked for.

    query: what stands behind the page's address, such as "?q=word". The page has five seconds of its own clock.
    """
    log = folder / "net.json"
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--dump-dom"]
    command += [
        "--disable-background-networking",
        "--disable-component-update",
        f"--user-data-dir={folder / 'profile'}",
    ]
    command += ["--enable-logging=stderr", "--v=0", f"--log-net-log={log}", "--window-size=390,800"]
    command += ["--virtual-time-budget=5000", page.as_uri() + query]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    told = [event.get("params", {}) for event in json.loads(log.read_text())["events"]]
    # The browser's own requests, for its updates, have no origin.
    ours = [each for each in told if each.get("initiator", "not an origin") != "not an origin"]
    elsewhere = {each["url"] for each in ours if "url" in each}
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line], elsewhere


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium (Debian: apt-get install chromium)")
def test_a_browser_shows_the_page(page: Path, tmp_path: Path) -> None:
    document, console, elsewhere = browse(page, tmp_path)
    assert "a3c and sb3-a2c on cartpole" in document
    assert document.count("<svg") == 5
    assert document.rstrip().endswith("</html>")
    assert (console, elsewhere) == ([], set())


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium (Debian: apt-get install chromium)")
def test_a_browser_would_tell(tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text('<script>console.error("oh")</script><img src="http://127.0.0.1:9/x.png">')
    _, console, elsewhere = browse(bad, tmp_path)
    assert any("oh" in line for line in console)
    assert elsewhere == {"http://127.0.0.1:9/x.png"}
