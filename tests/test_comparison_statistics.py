"""Statistics of comparisons, against numbers worked out by hand and against rliable."""

from __future__ import annotations

import itertools
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from a3c_zoo.figures.curves import area_under_curve
from a3c_zoo.figures.durations import Durations, survival
from a3c_zoo.figures.improvement import improvement
from a3c_zoo.figures.statistics import (
    RESAMPLES,
    STATISTICS,
    Estimate,
    band,
    caution,
    difference,
    estimate,
    estimates,
    interquartile_mean,
    mean,
    median,
    median_of_means,
    performance_profile,
    tail,
)

RLIABLE = json.loads((Path(__file__).parent / "data" / "rliable.json").read_text(encoding="utf-8"))
SCORES = {name: np.array(matrix) for name, matrix in RLIABLE["scores"].items()}
NAN = float("nan")


def column(*values: float) -> Any:
    """Scores of seeds in one environment."""
    return np.array(values, np.float64)[:, None]


# By hand


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        (column(1, 2, 3, 4, 5, 6, 7, 8), (4.5, 4.5, 4.5)),  # the middle half is 3 4 5 6
        (column(0, 3, 2, 1, 100), (2.0, 2.0, 21.2)),  # one goes at each end: (1 + 2 + 3) / 3
        (column(9, 1, 2), (4.0, 2.0, 4.0)),  # ⌊3 / 4⌋ = 0 runs go at each end
        (column(7), (7.0, 7.0, 7.0)),
        (np.array([[0.0, 10.0], [4.0, 30.0]]), (7.0, 7.0, 11.0)),  # 0 and 30 go
    ],
)
def test_the_middle_of_runs(scores: Any, expected: tuple[float, float, float]) -> None:
    assert [float(each(scores)) for each in (interquartile_mean, median, mean)] == pytest.approx(expected)


def test_the_median_of_means() -> None:
    # Means of the environments are 1, 20 and 65.
    assert float(median_of_means(np.array([[0.0, 10.0, 30.0], [2.0, 30.0, 100.0]]))) == 20.0


def test_runs_that_are_missing() -> None:
    scores = np.array([[1.0, 10.0], [2.0, NAN], [3.0, 20.0]])
    assert float(median(scores)) == 3.0  # of 1 2 3 10 20
    assert float(interquartile_mean(scores)) == 5.0  # of 2 3 10
    assert float(mean(scores)) == 7.2
    assert float(median_of_means(scores)) == 8.5  # of 2 and 15
    assert float(mean(np.stack([scores, scores + 1]))[1]) == pytest.approx(8.2)
    # Every draw of the second environment is of two runs, so the means of both are never NaN.
    many = np.concatenate([scores, scores, scores])
    assert not any(math.isnan(each or NAN) for each in estimate(many, median_of_means))


def test_an_interval_by_hand() -> None:
    # The mean of eight runs, four of them 1, is a binomial variable over eight: P(0) = 0.0039, P(≤ 1) = 0.035. The
    # quantile of Student's distribution with 7 degrees of freedom is 2.3646, and Φ(−2.3646) = 0.0090.
    assert tail(8, 1) == pytest.approx(0.00902, abs=1e-5)
    assert estimate(column(0, 1, 0, 1, 0, 1, 0, 1), mean) == pytest.approx((0.5, 1 / 8, 7 / 8))
    assert tail(10**6, 1) == pytest.approx(0.025, abs=1e-6)


def test_no_interval_is_none() -> None:
    assert estimate(column(1, 2, 3, 4), mean) == Estimate(2.5, None, None)  # four runs
    assert estimate(column(3, 3, 3, 3, 3), mean) == Estimate(3.0, None, None)  # all alike


def test_a_difference_by_hand() -> None:
    # (1 + 2 + 3) / 3 − (21 + 22 + 23) / 3.
    found = difference(column(0, 3, 2, 1, 100), column(20, 23, 22, 21, 120))
    assert found.value == -20
    assert found.low is not None
    assert found.high is not None
    assert found.low < -20 < found.high
    # All runs of the other are 5, so the draws are those of the first, in a wider tail: 8 degrees of freedom for 4. The
    # sum of five draws is 0, 1, 2, 3 in 1, 5, 15, 35 of 3,125 cases: at most 1 in 0.2 %, 2 in 0.7 %, 3 in 1.8 %.
    one, gap = estimate(column(0, 3, 2, 1, 100), mean), difference(column(0, 3, 2, 1, 100), column(*[5] * 5), mean)
    assert (tail(5, 1), tail(10, 2)) == pytest.approx((0.00275, 0.01055), abs=1e-5)
    assert one.low == pytest.approx(0.4)
    assert gap.low == pytest.approx(0.6 - 5)


def test_an_interval_is_that_of_every_draw_there_is() -> None:
    runs = (0.3, 1.0, 1.1, 2.0, 3.5)
    every = [median(column(*draw)) for draw in itertools.product(runs, repeat=5)]
    expected = np.quantile(every, [0.025, 0.975])
    assert estimate(column(*runs), median)[1:] == pytest.approx(expected)


def test_draws_are_stratified_by_environment() -> None:
    # In every draw, half of the runs are of the environment where all scores are 10.
    scores = np.array([[0.0, 10.0]] * 5)
    assert estimate(scores, mean) == Estimate(5.0, None, None)


def test_a_run_is_drawn_with_all_its_checkpoints() -> None:
    # The second checkpoint has the same scores in reverse order: the two means of a draw always sum to 5.
    first = np.array([1.0, 2.0, 3.0, 4.0])
    curves = np.stack([first, 5 - first], axis=1)[:, None, :]
    found = band(curves, mean)
    assert found.value.tolist() == [2.5, 2.5]
    assert (found.low[0], found.high[0]) == pytest.approx((5 - found.high[1], 5 - found.low[1]), abs=1e-12)
    assert found.low[0] < 2.5 < found.high[0]


def test_bands_are_those_of_each_checkpoint_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    curves = np.random.default_rng(0).normal(size=(5, 2, 7))
    whole = band(curves, resamples=RESAMPLES)
    monkeypatch.setattr("a3c_zoo.figures.statistics._CHUNK", 1)  # one checkpoint at a time
    again = band(curves, resamples=RESAMPLES)
    assert (whole.low == again.low).all()
    assert (whole.high == again.high).all()
    for number in range(7):
        alone = estimate(curves[:, :, number])
        assert (whole.value[number], whole.low[number], whole.high[number]) == alone


def test_the_same_seed_draws_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = np.random.default_rng(1).normal(size=(9, 1))
    first = estimate(scores)
    assert first == estimate(scores)
    monkeypatch.setattr("a3c_zoo.figures.statistics.SEED", 1)
    assert first != estimate(scores)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (np.zeros(3), r"shape \(3,\)"),
        (np.zeros((0, 1)), "none of them empty"),
        ([[1.0, NAN], [2.0, NAN]], "an environment has no run"),
    ],
)
def test_scores_that_cannot_be(scores: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        estimate(scores)


def test_curves_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="some checkpoints only"):
        band([[[1.0, NAN]], [[1.0, 2.0]]])


def test_a_profile_by_hand() -> None:
    found = performance_profile(column(1, 2, 3, 4), [0, 1, 2.5, 4])
    assert found.value.tolist() == [1.0, 0.75, 0.5, 0.0]  # above 1, not at it
    assert (found.low[0], found.high[0]) == (1.0, 1.0)
    assert (found.low[3], found.high[3]) == (0.0, 0.0)
    half = performance_profile(column(0, 1, 0, 1, 0, 1, 0, 1), [0.5])
    assert (half.low[0], half.high[0]) == pytest.approx((1 / 8, 7 / 8))
    assert performance_profile([[1.0, 5.0], [2.0, NAN]], [1.5]).value[0] == pytest.approx(2 / 3)
    few = performance_profile(np.column_stack([np.arange(5.0), [0, 1, 2, 3, NAN]]), [1.5])  # four in one environment
    assert few.low == few.value == few.high


def test_an_area_by_hand() -> None:
    # Trapezoids of 50 over ten steps and of 300 over twenty.
    assert area_under_curve([0, 10, 30], [0.0, 10.0, 20.0]) == pytest.approx(350 / 30)
    assert area_under_curve([5, 7], [[1.0, 3.0], [4.0, 4.0]]).tolist() == [2.0, 4.0]
    for steps in ([1], [2, 2], [3, 2]):
        with pytest.raises(ValueError, match="rising steps"):
            area_under_curve(steps, [1.0] * len(steps))


def test_few_seeds_claim_nothing() -> None:
    assert caution({"cartpole": {"a3c": 5, "sb3-a2c": 10}}) is None
    text = caution({"cartpole": {"a3c": 10, "sb3-a2c": 4, "random": 1}})
    assert text is not None
    assert text.startswith("Fewer than 5 seeds (sb3-a2c: 4, random: 1): no claim can be made that one method is better")


def test_few_seeds_of_one_method_silence_no_other() -> None:
    many = {"a3c": 10, "sb3-a2c": 10}
    before = "Fewer than 5 seeds (random: 3): nothing is claimed about random"
    after = "Look at the single runs."
    assert caution({"cartpole": {**many, "random": 3}}) == f"{before}. {after}"
    assert caution({"cartpole": {**many, "random": 3}, "pong": {**many, "random": 9}}) == (
        f"{before} where there are so few, nor over all environments. {after}"
    )


# Against rliable


def close(ours: Any, theirs: Any) -> None:
    """The same value; and the same interval but for what 10,000 and 50,000 draws differ by: 3 % of its width, which is
    four standard deviations, or one of the few values that a share of runs can have."""
    value, low, high = theirs
    assert ours[0] == pytest.approx(value, abs=1e-9)
    assert ours[1:] == pytest.approx((low, high), abs=0.03 * (high - low) + 1e-9)


@pytest.mark.parametrize("name", STATISTICS)
@pytest.mark.parametrize("method", SCORES)
def test_statistics_are_rliables(name: str, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("a3c_zoo.figures.statistics.tail", lambda runs, strata: 0.025)  # rliable's, for any number
    close(estimates(SCORES[method])[name], RLIABLE["outputs"][name][method])


def test_improvement_is_rliables() -> None:
    """Its interval is another one: rliable's is a bootstrap, which knows nothing of pairs that all have one winner."""
    value, low, high = RLIABLE["outputs"]["probability_of_improvement"]
    found = improvement(SCORES["x"], SCORES["y"])
    assert found.value == pytest.approx(value, abs=1e-9)
    assert found[1:3] == pytest.approx((low, high), abs=0.1 * (high - low))


@pytest.mark.parametrize("method", SCORES)
def test_profiles_are_rliables(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("a3c_zoo.figures.statistics.CURVE_RESAMPLES", 20_000)
    monkeypatch.setattr("a3c_zoo.figures.statistics.tail", lambda runs, strata: 0.025)
    value, low, high = map(np.array, RLIABLE["outputs"]["performance_profile"][method])
    found = performance_profile(SCORES[method], RLIABLE["thresholds"])
    assert found.value == pytest.approx(value, abs=1e-9)
    one_run = 1 / SCORES[method].size
    assert found.low == pytest.approx(low, abs=one_run + 1e-9)
    assert found.high == pytest.approx(high, abs=one_run + 1e-9)


# How long it takes


@pytest.mark.slow
@pytest.mark.parametrize(("methods", "seeds", "envs"), [(5, 10, 2), (10, 10, 1), (2, 50, 1), (1, 100, 1)])
def test_a_hundred_runs_with_a_thousand_evaluations_take_five_seconds(methods: int, seeds: int, envs: int) -> None:
    rng = np.random.default_rng(0)
    curves = {f"method {n}": rng.normal(n, 1, (seeds, envs, 1000)).cumsum(axis=2) for n in range(methods)}
    last = {name: scores[:, :, -1] for name, scores in curves.items()}
    start_s = time.process_time()  # of this process: the machine may have other work
    for name, scores in curves.items():
        band(scores)
        performance_profile(last[name], np.linspace(-100, 100, 200))
        survival(Durations(np.abs(last[name][:, 0]), last[name][:, 0] > 0))
        area_under_curve(np.arange(1000), scores)
    for scores in last.values():
        estimates(scores)
    for one, other in itertools.permutations(last, 2):
        improvement(last[one], last[other])
    assert time.process_time() - start_s < 5
