"""A comparison's false claims, intervals and words on simulated runs: a small part of benchmarks/false_claims.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from numpy.random import default_rng

from a3c_zoo.figures.results import results_of
from benchmarks import false_claims
from benchmarks.false_claims import SAME, simulate

#: Comparisons of each scenario. The error may be 5 % and three standard errors of so many: 5 % + 8.4 %.
FEW = 60


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """For the intervals of tables. No claim rests on them."""
    monkeypatch.setattr("a3c_zoo.figures.statistics.RESAMPLES", 500)


@pytest.mark.parametrize("name", ["no difference", "crossing curves", "censoring"])
def test_few_comparisons_without_a_difference_claim_one(name: str) -> None:
    found = simulate(name, seeds=6, comparisons=FEW, first=0)
    assert found.share("with a false claim", "comparisons") <= 0.05 + 0.084
    assert found.contradictions == []
    assert found.share("P holds", "P known") >= 0.95 - 0.084


def test_all_kinds_of_claims_are_simulated() -> None:
    runs = [run for index, method in enumerate((SAME, SAME)) for run in method.runs(f"m{index}", default_rng(0), 5)]
    asked = {claim.question.measure for claim in results_of(runs, {}).claims}
    assert asked == {"final_return", "steps_to_threshold", "seconds_to_threshold"}


def test_a_large_difference_is_shown_and_is_true() -> None:
    found = simulate("two standard deviations", seeds=7, comparisons=30, first=0)
    assert found.share("return shown", "comparisons") > 0.5
    assert found.counts["with a false claim"] == 0
    assert found.contradictions == []


def test_the_simulation_finds_false_claims_and_wrong_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """If each question had a level of 30 % for itself, and if words did not follow from claims."""
    monkeypatch.setattr("a3c_zoo.figures.claims.ERROR", 0.3)
    monkeypatch.setattr("a3c_zoo.figures.claims.holm", list)
    found = simulate("no difference", seeds=6, comparisons=30, first=0)
    assert found.share("with a false claim", "comparisons") > 0.3
    monkeypatch.setattr("a3c_zoo.figures.claims.Claim.holds", False)
    assert simulate("two standard deviations", seeds=6, comparisons=2, first=0).contradictions == []
    monkeypatch.setattr("a3c_zoo.report.verdict.ERROR", -1.0)  # then no sentence gives the correction as its reason
    assert simulate("two standard deviations", seeds=6, comparisons=5, first=0).contradictions
    found.counts["comparisons"] = 1000
    found.counts["with a false claim"] = 300
    assert any("with a false claim 30.0 %" in line for line in false_claims.faults({("x", 5): found}, 1000))


def test_laws_without_a_difference() -> None:
    """2,000 comparisons of one claim: 5 % and two standard errors. Permutations alone gave 12 % in the second row."""
    for name, seeds in (("spread × 10", 8), ("steady, and half +20 and half −21", 7), ("two kinds of runs each", 8)):
        p = false_claims.p_of_laws(false_claims.LAWS[name], seeds, 2, 2000)
        assert false_claims.claimed(p, 1, 1) <= 0.05 + 0.01
        assert false_claims.claimed(p, 3, 2) <= 0.05 + 0.01
    assert false_claims.claimed(false_claims.p_of_laws(false_claims.LAWS["equal"], 10, 1, 2000), 1, 1) > 0.03
    assert false_claims.decided(false_claims.LAWS["spread × 3"], 3, 2000) <= 0.05 + 0.01


def test_ties_and_environments_without_a_difference() -> None:
    """40 comparisons; three standard errors are 10 %."""
    for name in ("capped at 500, spread × 10", "three values, against the middle"):
        assert false_claims.claimed_in_environments(false_claims.TIED[name], 6, 1, 40) <= 0.15
    assert false_claims.claimed_in_environments(false_claims.LAWS["spread × 10"], 5, 2, 20) <= 0.2


@pytest.mark.slow
def test_the_whole_simulation(tmp_path: Path) -> None:
    """As docs/explanation/comparison-simulations.md shows it, with fewer comparisons."""
    command = [sys.executable, false_claims.__file__, "--comparisons", "200", "--seeds", "6", "10", "0"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=1800)
    assert done.returncode == 0, done.stderr
