"""A second look at the same runs claims nothing for free."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from a3c_zoo.comparison import looks
from a3c_zoo.comparison.conclusion import conclude
from a3c_zoo.comparison.course import Course, Played
from a3c_zoo.comparison.looks import keep_looks, looked_at, planned_looks
from a3c_zoo.comparison.plan import Plan, make_plan
from a3c_zoo.errors import ZooError
from a3c_zoo.figures.decisions import Decisions
from a3c_zoo.figures.measures import MeasuredRun, measure
from a3c_zoo.figures.results import results_of
from a3c_zoo.figures.sequential import Pair, SequentialRule, SequentialTest
from a3c_zoo.files import MAX_TEXT, replace_file
from a3c_zoo.report.places import claimed
from a3c_zoo.report.report import page_of
from a3c_zoo.report.results_json import to_json
from a3c_zoo.report.verdict import second_look, verdict
from a3c_zoo.store.run_files import LOOKS_JSONL
from tests.test_compare_report import record


@pytest.fixture
def runs(tmp_path: Path) -> Any:
    """Runs of a method by its seeds, each with a directory. The returns of `a3c` are the best, then those of `ppo`."""
    centres = {"a3c": 300.0, "ppo": 200.0, "nstep": 100.0}

    def made(method: str, *seeds: int) -> list[MeasuredRun]:
        found = []
        for seed in seeds:
            folder = tmp_path / "runs" / f"{method}-{seed}"
            folder.mkdir(parents=True, exist_ok=True)
            run = replace(record(method, seed, final=centres[method] + seed, reached_at=None), path=folder)
            found.append(measure(run, folder.name))
        return found

    return made


def claims(measured: list[MeasuredRun], out: Path, question: str = "") -> set[tuple[str, str]]:
    """The pairs about which a report claims something. It is written down, as by `compare`."""
    found = looked_at(results_of(measured, {}, question=question))
    keep_looks(found, out)
    return {(each.question.method, each.question.other) for each in found.claims if each.holds}


def test_more_seeds_after_a_look_claim_nothing(runs: Any, tmp_path: Path) -> None:
    six = [*runs("a3c", *range(6)), *runs("ppo", *range(6))]
    assert claims(six, tmp_path / "first") == {("a3c", "ppo")}
    (line,) = (tmp_path / "runs/a3c-0" / LOOKS_JSONL).read_text().splitlines()
    assert json.loads(line)["report"] == str(tmp_path / "first")
    assert claims(six, tmp_path / "again") == {("a3c", "ppo")}  # the same look at the same runs
    more = [*runs("a3c", *range(10)), *runs("ppo", *range(10))]
    found = looked_at(results_of(more, {}))
    assert found.claims == ()
    assert verdict(found)[0] == (
        "cartpole: nothing is claimed about a3c and ppo, because an earlier report looked at some of these runs: "
        f"{tmp_path / 'first'}. A claim needs seeds that no report has used (--seeds), or --until-decided from the "
        "start."
    )
    results = to_json(found)
    assert results["earlier_reports"][0] | {"report": ""} == {
        "env": "cartpole", "method": "a3c", "other": "ppo", "report": ""
    }  # fmt: skip
    fresh = [*runs("a3c", *range(10, 16)), *runs("ppo", *range(10, 16))]
    assert claims(fresh, tmp_path / "fresh") == {("a3c", "ppo")}


def test_a_choice_among_runs_is_a_second_look(runs: Any, tmp_path: Path) -> None:
    eight = [*runs("a3c", *range(8)), *runs("ppo", *range(8))]
    claims(eight, tmp_path / "first")
    assert claims([*eight[:7], *eight[8:15]], tmp_path / "fewer") == set()
    assert claims(eight, tmp_path / "named", question="return") == set()  # the main question is named afterwards


def test_another_method_may_come_later_and_none_may_go(runs: Any, tmp_path: Path) -> None:
    """Eight seeds of three methods: 3 · 2/256 is 2.3 %."""
    eight = [*runs("a3c", *range(8)), *runs("ppo", *range(8))]
    claims(eight, tmp_path / "first")
    three = [*eight, *runs("nstep", *range(8))]
    assert claims(three, tmp_path / "three") == {("a3c", "ppo"), ("a3c", "nstep"), ("ppo", "nstep")}
    assert claims(three[8:], tmp_path / "two") == set()  # one claim of three would need less now


def test_a_look_that_could_show_nothing_is_none(runs: Any, tmp_path: Path) -> None:
    five = [*runs("a3c", *range(5)), *runs("ppo", *range(5))]
    assert claims(five, tmp_path / "first") == set()
    assert not (tmp_path / "runs/a3c-0" / LOOKS_JSONL).exists()
    assert claims([*runs("a3c", *range(6)), *runs("ppo", *range(6))], tmp_path / "second") == {("a3c", "ppo")}


def test_a_rule_that_is_fixed_afterwards_decides_nothing(runs: Any, tmp_path: Path) -> None:
    ten = [*runs("a3c", *range(10)), *runs("ppo", *range(10))]
    rule = SequentialRule((Pair("cartpole", "a3c", "ppo"),), block=5, looks=2)
    test = SequentialTest(rule)
    for seeds in (5, 10):
        test.look({("cartpole", name): [base + s for s in range(seeds)] for name, base in (("a3c", 300), ("ppo", 200))})
    decided = Decisions(rule, tuple(test.looks), tuple(test.open))
    found = looked_at(results_of(ten, {}, decided=decided))
    assert found.seen == {}
    assert "decided after 10 seeds." in verdict(found)[0]
    keep_looks(found, tmp_path / "first")
    assert looked_at(results_of(ten, {}, decided=decided)).seen == {}  # the same rule and the same runs
    assert claims(ten, tmp_path / "second") == set()  # without a rule, after it has decided
    longer = Decisions(replace(rule, looks=4), tuple(test.looks), ())
    again = looked_at(results_of(ten, {}, decided=longer))
    assert verdict(again)[0].startswith("cartpole: nothing is claimed about a3c and ppo, because an earlier report ")


def stopped(test: SequentialTest, count: int) -> Decisions:
    """What a rule has decided after its first look, which `count` seeds of both methods stopped at the second."""
    test.look({("cartpole", name): list(range(count)) for name in ("a3c", "ppo")})
    return Decisions(test.rule, tuple(test.looks), tuple(test.open), "a run has no final return")


def test_a_rule_that_a_failed_run_stopped_goes_on(runs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed 7 of ppo has no figures. It is trained again, and the rule decides: it has tested its second look once."""
    rule = SequentialRule((Pair("cartpole", "a3c", "ppo"),), block=5, looks=2)
    without = [*runs("a3c", *range(10)), *runs("ppo", *range(7), 8, 9)]
    unplayed = runs("ppo", 7)[0]
    unplayed = replace(unplayed, measures=replace(unplayed.measures, final_return=None))
    for there in (without, [*without, unplayed]):
        keep_looks(results_of(there, {}, decided=stopped(SequentialTest(rule), 5)), tmp_path / "first")
    records = {run.record.path: run.record for run in without}
    monkeypatch.setattr(looks, "read_runs", lambda paths, trust: ([records[path] for path in paths], {}))
    assert planned_looks(planned(without, "ppo"), rule) == {}
    ten = [*runs("a3c", *range(10)), *runs("ppo", *range(10))]
    test = SequentialTest(rule)
    for seeds in (5, 10):
        test.look({("cartpole", name): [base + s for s in range(seeds)] for name, base in (("a3c", 300), ("ppo", 200))})
    found = looked_at(results_of(ten, {}, decided=Decisions(rule, tuple(test.looks), tuple(test.open))))
    assert found.seen == {}
    assert "decided after 10 seeds." in verdict(found)[0]
    keep_looks(found, tmp_path / "second")
    assert looked_at(found).seen == {}
    # A run that had a final return at the end of the rule is removed: the plan says what the report will say.
    assert list(planned_looks(planned(without, "ppo"), rule)) == [("cartpole", "a3c", "ppo")]


def test_a_look_of_a_rule_is_written_down_when_it_is_taken(
    runs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C after the second of four looks, which is the first that could decide. Then one run is removed, or none."""
    pair = Pair("cartpole", "a3c", "ppo")
    rule = SequentialRule((pair,), block=5, looks=4)
    assert [part > 0 for part in rule.parts] == [False, True, True, True]

    played = Played()

    def play(course: Course, block: int) -> None:
        if block == 2:
            raise KeyboardInterrupt
        assert not (tmp_path / "runs/a3c-0" / LOOKS_JSONL).exists()
        seeds = range(5 * block, 5 * block + 5)
        played.records += [run.record for name in ("a3c", "ppo") for run in runs(name, *seeds)]

    monkeypatch.setattr("a3c_zoo.comparison.seed_blocks.block_of", lambda plan, test: len(test.looks))
    monkeypatch.setattr(Course, "play", play)
    monkeypatch.setattr(SequentialTest, "is_over", False)  # the second look decides, and others are open
    with pytest.raises(KeyboardInterrupt):
        Course(Mock(), 1, Mock(), Mock(), played).play_until_decided(rule, tmp_path / "first")
    decided = Decisions(rule, (), (pair,))
    more = [*runs("a3c", *range(15)), *runs("ppo", *range(15))]
    assert looked_at(results_of(more, {}, decided=decided)).seen == {}
    (tmp_path / "runs/ppo-3" / LOOKS_JSONL).unlink()  # another run, in its place
    assert looked_at(results_of(more, {}, decided=decided)).seen == {pair: str(tmp_path / "first")}


@pytest.mark.parametrize("removed", [3, 8])
def test_a_run_that_was_looked_at_is_not_replaced(
    removed: int, runs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 7 of ppo failed; the user removes another run, too: of the look before, or of the block that it stopped."""
    rule = SequentialRule((Pair("cartpole", "a3c", "ppo"),), block=5, looks=2)
    without = [*runs("a3c", *range(10)), *runs("ppo", *range(7), 8, 9)]
    decided = stopped(SequentialTest(rule), 5)
    keep_looks(results_of(without, {}, decided=decided), tmp_path / "first")
    left = [run for run in without if (run.record.method, run.measures.seed) != ("ppo", removed)]
    records = {run.record.path: run.record for run in left}
    monkeypatch.setattr(looks, "read_runs", lambda paths, trust: ([records[path] for path in paths], {}))
    assert list(planned_looks(planned(left, "ppo"), rule)) == [("cartpole", "a3c", "ppo")]
    (tmp_path / "runs" / f"ppo-{removed}" / LOOKS_JSONL).unlink()  # another run, in its place
    ten = [*runs("a3c", *range(10)), *runs("ppo", *range(10))]
    assert list(looked_at(results_of(ten, {}, decided=decided)).seen) == [("cartpole", "a3c", "ppo")]


def planned(measured: list[MeasuredRun], *missing: str) -> Plan:
    """A plan with these finished runs, and one missing run of each of these methods."""
    given: dict[str, Any] = {"envs": ["cartpole"], "agents": [], "baselines": ["random"], "seeds": [1], "steps": 2000}
    run, _ = make_plan(**given, time_limit=None, runs_dir=Path(), reuse=False).runs
    there = [replace(run, method=each.record.method, done=each.record.path) for each in measured]
    return Plan((*there, *(replace(run, method=name, seed=99) for name in missing)), Path(), reuse=True)


def test_a_second_look_is_told_before_anything_is_trained(runs: Any, tmp_path: Path) -> None:
    six = [*runs("a3c", *range(6)), *runs("ppo", *range(6))]
    assert planned_looks(planned(six, "a3c", "ppo"), None) == {}
    claims(six, tmp_path / "first")
    pair = ("cartpole", "a3c", "ppo")
    assert planned_looks(planned(six, "a3c", "ppo"), None) == {pair: str(tmp_path / "first")}
    assert second_look(*pair, "first", "will be claimed").startswith("cartpole: nothing will be claimed about a3c and")
    assert planned_looks(planned(six[6:], "a3c", "ppo"), None) == {}  # of a3c, other runs: --no-reuse, other seeds
    assert planned_looks(planned(six, "nstep"), None) == {}  # the pair is looked at as before, beside a third method
    assert planned_looks(planned(six), None) == {}


def test_the_rest_of_a_plan_that_a_rule_did_not_need_is_no_second_look(
    runs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rule decided after 10 of 20 seeds. The same command finds the same, another rule is a second look."""
    ten = [*runs("a3c", *range(10)), *runs("ppo", *range(10))]
    rule = SequentialRule((Pair("cartpole", "a3c", "ppo"),), block=5, looks=4)
    keep_looks(results_of(ten, {}, decided=Decisions(rule, (), ())), tmp_path / "first")
    records = {run.record.path: run.record for run in ten}
    monkeypatch.setattr(looks, "read_runs", lambda paths, trust: ([records[path] for path in paths], {}))
    plan = planned(ten, "a3c", "ppo")
    assert planned_looks(plan, rule) == {}
    assert list(planned_looks(plan, replace(rule, looks=6))) == [("cartpole", "a3c", "ppo")]
    assert list(planned_looks(plan, None)) == [("cartpole", "a3c", "ppo")]


def test_damaged_lines_and_links_are_left_out(runs: Any, tmp_path: Path) -> None:
    six = [*runs("a3c", *range(6)), *runs("ppo", *range(6))]
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "runs/a3c-0" / LOOKS_JSONL).symlink_to(elsewhere)
    (tmp_path / "runs/a3c-1" / LOOKS_JSONL).write_bytes(
        b'\xff\n[]\n{"claims": "x"}\n{"claims": 1, "report": 2}\n' + b"[" * 9999
    )
    (tmp_path / "runs/a3c-2" / LOOKS_JSONL).mkdir()
    assert claims(six, tmp_path / "first") == {("a3c", "ppo")}
    assert not elsewhere.exists()
    assert results_of(six, {}).claims


def test_a_look_behind_a_line_that_broke_off_is_kept(runs: Any, tmp_path: Path) -> None:
    """The disk filled up in the midst of a line."""
    six = [*runs("a3c", *range(6)), *runs("ppo", *range(6))]
    for run in six:
        (run.record.path / LOOKS_JSONL).write_text('{"at": "2026-')
    assert claims(six, tmp_path / "first") == {("a3c", "ppo")}
    assert claims([*runs("a3c", *range(10)), *runs("ppo", *range(10))], tmp_path / "second") == set()


def test_a_look_that_is_repeated_is_written_once(runs: Any, tmp_path: Path) -> None:
    six = [*runs("a3c", *range(6)), *runs("ppo", *range(6))]
    for out in ("first", "first", "second"):
        assert claims(six, tmp_path / out) == {("a3c", "ppo")}
    (line,) = (tmp_path / "runs/a3c-0" / LOOKS_JSONL).read_text().splitlines()
    assert json.loads(line)["report"] == str(tmp_path / "first")


def test_a_run_whose_looks_cannot_be_read_counts_as_looked_at(
    runs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    six = [*runs("a3c", *range(6)), *runs("ppo", *range(6))]
    (tmp_path / "runs/a3c-0" / LOOKS_JSONL).write_bytes(b"\n" * (MAX_TEXT + 1))
    found = looked_at(results_of(six, {}))
    assert found.claims == ()
    told = "one of those in runs/a3c-0/looks.jsonl, which cannot be read (it is larger than 1 MiB). A claim needs "
    assert told in verdict(found)[0]
    pair = ("cartpole", "a3c", "ppo")
    assert list(planned_looks(planned(six, "a3c", "ppo"), None)) == [pair]
    keep_looks(results_of(six, {}), tmp_path / "out")
    assert (tmp_path / "runs/a3c-0" / LOOKS_JSONL).stat().st_size == MAX_TEXT + 1


def test_the_claims_of_a_report_are_not_shown_before_its_look_is_kept(
    runs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fills up behind the pages and the picture of a section; of a first report nothing stays."""

    def replace_or_fail(path: Path, content: bytes) -> None:
        if path.name == "runs.csv":
            assert (path.parent / "report.html").exists()
            assert (path.parent / "search.png").exists()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace_file(path, content)

    monkeypatch.setattr("a3c_zoo.report.report.replace_file", replace_or_fail)
    results = results_of([*runs("a3c", *range(6)), *runs("ppo", *range(6))], {})
    search = replace(page_of(results).sections[0], picture="search.png")
    with pytest.raises(ZooError, match="No space left"), claimed(tmp_path / "out") as out:
        conclude(results, out, more=[search])
    assert not out.exists()
    assert (tmp_path / "runs/a3c-0" / LOOKS_JSONL).exists()


def test_a_report_that_cannot_be_made_leaves_the_last_one(
    runs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conclude(results_of([*runs("a3c", 1), *runs("ppo", 1)], {}), tmp_path / "out")
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    monkeypatch.setattr("a3c_zoo.report.report.runs_csv", Mock(side_effect=MemoryError))
    with pytest.raises(MemoryError):
        conclude(results_of([*runs("a3c", 1, 2), *runs("ppo", 1, 2)], {}), tmp_path / "out")
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
