"""Statistics of comparisons, against numbers worked out by hand and against rliable."""

from __future__ import annotations

import itertools
import json
import math
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from a3c_zoo.comparison.curves import area_under_curve
from a3c_zoo.comparison.statistics import (
    RESAMPLES,
    STATISTICS,
    Durations,
    Estimate,
    band,
    caution,
    estimate,
    estimates,
    interquartile_mean,
    mean,
    median,
    median_of_means,
    performance_profile,
    probability_of_earlier,
    probability_of_improvement,
    survival,
    time_to_threshold,
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
    assert not any(math.isnan(each) for each in estimate(scores, median_of_means))


def test_an_interval_by_hand() -> None:
    # The mean of ten runs, five of them 1, is a binomial variable over ten: P(≤ 1) = 0.011, P(≤ 2) = 0.055.
    assert estimate(column(0, 1, 0, 1, 0, 1, 0, 1, 0, 1), mean) == pytest.approx((0.5, 0.2, 0.8))
    # Of two runs a quarter of all draws are the first twice.
    assert estimate(column(3, 5), mean) == Estimate(4.0, 3.0, 5.0)


def test_an_interval_is_that_of_every_draw_there_is() -> None:
    runs = (0.3, 1.0, 1.1, 2.0, 3.5)
    every = [median(column(*draw)) for draw in itertools.product(runs, repeat=5)]
    expected = np.quantile(every, [0.025, 0.975])
    assert estimate(column(*runs), median)[1:] == pytest.approx(expected)


def test_draws_are_stratified_by_environment() -> None:
    # In every draw, half of the runs are of the environment where all scores are 10.
    scores = np.array([[0.0, 10.0]] * 5)
    assert estimate(scores, mean) == Estimate(5.0, 5.0, 5.0)


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
    monkeypatch.setattr("a3c_zoo.comparison.statistics._CHUNK", 1)  # one checkpoint at a time
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
    monkeypatch.setattr("a3c_zoo.comparison.statistics.SEED", 1)
    assert first != estimate(scores)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (np.zeros(3), r"shape \(3, 1\)"),
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


def test_improvement_by_hand() -> None:
    # 3 > 2, 3 > 1, 1 < 2, 1 = 1: 2.5 of 4.
    assert probability_of_improvement(column(3, 1), column(2, 1)).value == 0.625
    # In the second environment 5 is behind both: (0.625 + 0) / 2. A run is missing there.
    x, y = np.array([[3.0, 5.0], [1.0, NAN]]), np.array([[2.0, 6.0], [1.0, 7.0]])
    assert probability_of_improvement(x, y).value == 0.3125
    assert probability_of_improvement(column(1, 2), column(1, 2)).value == 0.5
    assert probability_of_improvement(column(5, 6), column(1, 2)) == Estimate(1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="2 environments against 1"):
        probability_of_improvement(x, column(1))


def test_improvement_is_mann_and_whitneys_u() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.integers(0, 6, 9), rng.integers(0, 5, 7)  # with ties
    from scipy import stats  # a second, which each of pytest's workers would spend

    u = stats.mannwhitneyu(x, y, alternative="greater").statistic
    assert probability_of_improvement(column(*x), column(*y)).value == pytest.approx(u / 63, abs=1e-12)


def test_a_profile_by_hand() -> None:
    found = performance_profile(column(1, 2, 3, 4), [0, 1, 2.5, 4])
    assert found.value.tolist() == [1.0, 0.75, 0.5, 0.0]  # above 1, not at it
    assert (found.low[0], found.high[0]) == (1.0, 1.0)
    assert (found.low[3], found.high[3]) == (0.0, 0.0)
    half = performance_profile(column(0, 1, 0, 1, 0, 1, 0, 1, 0, 1), [0.5])
    assert (half.low[0], half.high[0]) == pytest.approx((0.2, 0.8))
    assert performance_profile([[1.0, 5.0], [2.0, NAN]], [1.5]).value[0] == pytest.approx(2 / 3)


def durations(*reached_at: float | None, end: float = 100.0) -> Durations:
    return Durations.of(reached_at, [end] * len(reached_at))


def test_survival_by_hand() -> None:
    runs = Durations.of([1.0, 2.0, None, 4.0], [9.0, 9.0, 3.0, 9.0])
    times, found = survival(runs)
    assert times.tolist() == [1, 2, 3, 4]
    assert found.value.tolist() == [0.75, 0.5, 0.5, 0.0]  # the third run is censored; the last run of all reaches it
    assert time_to_threshold(runs)[:3] == (3, 4, 2.0)  # three of four runs reach it, half of them by 2
    # At 1: log(−log ¾) ± 1.96 √(1 / 12) / log ¾, back from there.
    reach = 1.959964 * math.sqrt(1 / 12) / abs(math.log(0.75))
    assert found.low[0] == pytest.approx(0.75 ** math.exp(reach), abs=1e-6)
    assert found.high[0] == pytest.approx(0.75 ** math.exp(-reach), abs=1e-6)
    assert (found.low[-1], found.high[-1]) == (0.0, found.high[-2])


def test_runs_that_never_get_there() -> None:
    one = durations(10.0, None, None, end=50.0)
    assert survival(one)[1].value.tolist() == pytest.approx([2 / 3, 2 / 3])
    assert (time_to_threshold(one).median, time_to_threshold(one).high) == (None, None)
    _, nobody = survival(durations(None, None))
    assert (nobody.value.tolist(), nobody.low.tolist(), nobody.high.tolist()) == ([1.0], [1.0], [1.0])
    assert time_to_threshold(durations(None, None)) == (0, 2, None, None, None)


def test_the_interval_of_a_median_time() -> None:
    ten = durations(*[float(n) for n in range(1, 11)])
    _, found = survival(ten)
    # The share's interval crosses one half where ten runs go down to 0.9, whose interval begins at 0.473, and to 0.2,
    # whose interval ends at 0.475; at 0.3 it ends at 0.578.
    assert found.low[0] == pytest.approx(0.473, abs=5e-4)
    assert found.high[6:8] == pytest.approx([0.578, 0.475], abs=5e-4)
    assert time_to_threshold(ten) == (10, 10, 5.0, 1.0, 8.0)
    assert time_to_threshold(durations(3.0)).median == 3.0
    assert survival(durations(3.0))[1].high.tolist() == [1.0]


def test_survival_says_nothing_on_stderr() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        survival(durations(1.0, None))
        survival(durations(1.0, 2.0))
    with pytest.raises(ValueError, match="no runs"):
        survival(durations())


def test_who_is_earlier_by_hand() -> None:
    ours = Durations.of([1.0, 5.0, None, 2.0], [9.0, 9.0, 4.0, 9.0])
    theirs = Durations.of([3.0, None], [9.0, 3.0])
    # 1 and 2 are earlier than 3, and earlier than the run that ended at 3. 5 is later than 3; the run that ended at 3
    # may have reached the threshold before or after 5, so the order is unknown. Our run that ended at 4 is later than
    # 3; its order with the run that ended at 3 is unknown.
    assert probability_of_earlier(ours, theirs).value == (2 + 2 + 0.5 + 0.5) / 8
    assert probability_of_earlier(theirs, ours).value == (0 + 0 + 1 + 1 + 0 + 0 + 0.5 + 0.5) / 8
    assert probability_of_earlier(ours, theirs).unknown == probability_of_earlier(theirs, ours).unknown == 2 / 8
    # At the same moment, a run that reaches the threshold is earlier than a run that ends.
    assert probability_of_earlier(durations(3.0), durations(None, end=3.0)).value == 1.0
    assert probability_of_earlier(durations(None, end=3.0), durations(3.0)).value == 0.0
    assert probability_of_earlier(durations(3.0), durations(3.0)).value == 0.5


def test_a_fast_method_that_fails_is_not_known_to_be_later() -> None:
    """Five of ten runs reach it after 10 s and five end after 30 s; every run of the other does after 100 s."""
    fast, slow = Durations.of([10.0] * 5 + [None] * 5, [30.0] * 10), durations(*[100.0] * 10)
    chance = probability_of_earlier(fast, slow)
    assert (chance.value, chance.unknown) == (0.75, 0.5)  # between 0.5 and 1
    # If all pairs of unknown order are lost, the share of the five in a draw of ten, see `test_an_interval_by_hand`.
    assert (chance.low_if_lost, chance.low) == pytest.approx((0.2, (0.2 + 1) / 2))
    assert (chance.high, chance.high_if_won) == pytest.approx(((0.8 + 1) / 2, 1.0))
    assert probability_of_earlier(slow, slow).unknown == 0


def test_without_censoring_earlier_is_an_improvement() -> None:
    rng = np.random.default_rng(5)
    x, y = rng.integers(0, 9, 6).astype(float), rng.integers(0, 9, 8).astype(float)
    found = probability_of_earlier(durations(*x), durations(*y))
    assert found[:3] == probability_of_improvement(column(*-x), column(*-y))
    assert (found.unknown, found.low_if_lost, found.high_if_won) == (0, found.low, found.high)


def test_an_area_by_hand() -> None:
    # Trapezoids of 50 over ten steps and of 300 over twenty.
    assert area_under_curve([0, 10, 30], [0.0, 10.0, 20.0]) == pytest.approx(350 / 30)
    assert area_under_curve([5, 7], [[1.0, 3.0], [4.0, 4.0]]).tolist() == [2.0, 4.0]
    for steps in ([1], [2, 2], [3, 2]):
        with pytest.raises(ValueError, match="rising steps"):
            area_under_curve(steps, [1.0] * len(steps))


def test_few_seeds_claim_nothing() -> None:
    assert caution({"a3c": 5, "sb3-a2c": 10}) is None
    text = caution({"a3c": 10, "sb3-a2c": 4, "random": 1})
    assert text is not None
    assert text.startswith("Fewer than 5 seeds (sb3-a2c: 4, random: 1): no claim can be made that one method is better")


# Against rliable


def close(ours: Any, theirs: Any) -> None:
    """The same value; and the same interval but for what 10,000 and 50,000 draws differ by: 3 % of its width, which is
    four standard deviations, or one of the few values that a share of runs can have."""
    value, low, high = theirs
    assert ours[0] == pytest.approx(value, abs=1e-9)
    assert ours[1:] == pytest.approx((low, high), abs=0.03 * (high - low) + 1e-9)


@pytest.mark.parametrize("name", STATISTICS)
@pytest.mark.parametrize("method", SCORES)
def test_statistics_are_rliables(name: str, method: str) -> None:
    close(estimates(SCORES[method])[name], RLIABLE["outputs"][name][method])


def test_improvement_is_rliables() -> None:
    found = probability_of_improvement(SCORES["x"], SCORES["y"])
    close(found, RLIABLE["outputs"]["probability_of_improvement"])


@pytest.mark.parametrize("method", SCORES)
def test_profiles_are_rliables(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("a3c_zoo.comparison.statistics.CURVE_RESAMPLES", 20_000)
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
        probability_of_improvement(last[one], last[other])
    assert time.process_time() - start_s < 5
