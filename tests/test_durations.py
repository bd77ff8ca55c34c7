"""How long runs take to reach a threshold: by hand, and against published examples."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from a3c_zoo.figures.durations import (
    Durations,
    least_chance,
    mean_difference,
    restricted_mean,
    survival,
    time_to_threshold,
)

#: Weeks of remission of 21 patients, `+` censored. Freireich et al. 1963, in Klein and Moeschberger 2003, table 1.2.
MERCAPTOPURINE = "6 6 6 6+ 7 9+ 10 10+ 11+ 13 16 17+ 19+ 20+ 22 23 25+ 32+ 32+ 34+ 35+"


def patients(weeks: str) -> Durations:
    words = weeks.split()
    return Durations(
        np.array([float(word.strip("+")) for word in words]), np.array(["+" not in word for word in words])
    )


def durations(*reached_at: float | None, end: float = 100.0) -> Durations:
    return Durations.of(reached_at, [end] * len(reached_at))


def test_survival_by_hand() -> None:
    runs = Durations.of([1.0, 2.0, None, 4.0], [9.0, 9.0, 3.0, 9.0])
    times, found = survival(runs)
    assert times.tolist() == [1, 2, 3, 4]
    assert found.value.tolist() == [0.75, 0.5, 0.5, 0.0]  # the third run is censored; the last run of all reaches it
    assert time_to_threshold(runs)[:2] == (3, 4)
    assert time_to_threshold(runs).median == 2.0  # three of four runs reach it, half of them by 2
    # At 1: log(−log ¾) ± 1.96 √(1 / 12) / log ¾, back from there.
    reach = 1.959964 * math.sqrt(1 / 12) / abs(math.log(0.75))
    assert found.low[0] == pytest.approx(0.75 ** math.exp(reach), abs=1e-6)
    assert found.high[0] == pytest.approx(0.75 ** math.exp(-reach), abs=1e-6)
    assert (found.low[-1], found.high[-1]) == (0.0, found.high[-2])


@pytest.mark.parametrize("runs", [24, 38, 44, 46, 54])
def test_half_of_the_runs_is_half_whatever_the_rounding(runs: int) -> None:
    """The product of the shares is 0.5000000000000001."""
    half = [float(n) for n in range(runs // 2)]
    assert time_to_threshold(durations(*half, *[None] * (runs // 2))).median == half[-1]


def test_a_run_that_failed_never_gets_there() -> None:
    """Four runs get there at 1 to 4. With four lost ones they are half of all, with five they are not."""
    four = durations(1.0, 2.0, 3.0, 4.0)
    found = [time_to_threshold(four, lost) for lost in (0, 4, 5)]
    assert [(each.reached, each.runs, each.median) for each in found] == [(4, 4, 2.0), (4, 8, 4.0), (4, 9, None)]
    assert [each.at_least for each in found] == [least_chance(4, runs) for runs in (4, 8, 9)]


def test_runs_that_never_get_there() -> None:
    one = durations(10.0, None, None, end=50.0)
    assert survival(one)[1].value.tolist() == pytest.approx([2 / 3, 2 / 3])
    assert (time_to_threshold(one).median, time_to_threshold(one).high) == (None, None)
    _, nobody = survival(durations(None, None))
    assert (nobody.value.tolist(), nobody.low.tolist(), nobody.high.tolist()) == ([1.0], [1.0], [1.0])
    assert time_to_threshold(durations(None, None)) == (0, 2, 0.0, None, None, None)


def test_the_interval_of_a_median_time() -> None:
    ten = durations(*[float(n) for n in range(1, 11)])
    _, found = survival(ten)
    # The share's interval crosses one half where ten runs go down to 0.9, whose interval begins at 0.473, and to 0.2,
    # whose interval ends at 0.475; at 0.3 it ends at 0.578.
    assert found.low[0] == pytest.approx(0.473, abs=5e-4)
    assert found.high[6:8] == pytest.approx([0.578, 0.475], abs=5e-4)
    assert time_to_threshold(ten)[:2] == (10, 10)
    assert time_to_threshold(ten)[3:] == (5.0, 1.0, 8.0)
    assert time_to_threshold(durations(3.0)).median == 3.0
    assert time_to_threshold(durations(1.0, 2.0, 3.0, 4.0, 5.0))[3:] == (3.0, 1.0, None)  # five have a lower end


def test_the_interval_of_a_median_time_of_tied_runs() -> None:
    """If all of seven runs are there, the bound of the share before the last one is ½ or less, tied or not.

    Before it the share is 1/7: its bound is (1/7) ^ exp(-1.96 √(6/7) / ln 7). With six runs it is 0.517.
    """
    bound = (1 / 7) ** math.exp(-1.959964 * math.sqrt(6 / 7) / math.log(7))
    assert bound == pytest.approx(0.465, abs=5e-4)
    for times in ([44.0] * 7, [43.0, *[44.0] * 6], [*[43.0] * 5, 44.0, 44.0], [*map(float, range(38, 45))]):
        assert survival(durations(*times))[1].high[-1] == pytest.approx(bound, abs=1e-6)
    assert time_to_threshold(durations(*[44.0] * 7))[3:] == (44.0, 44.0, 44.0)
    assert time_to_threshold(durations(*[43.0] * 5, 44.0, 44.0)).high == 44
    assert time_to_threshold(durations(*[44.0] * 6))[3:] == (44.0, 44.0, None)


def test_the_median_of_fewer_than_five_runs_has_no_interval() -> None:
    for count in range(1, 5):
        found = time_to_threshold(durations(*[float(n) for n in range(1, count + 1)]))
        assert found.median is not None
        assert found[4:] == (None, None)


def test_the_share_of_one_run_has_no_upper_end() -> None:
    assert survival(durations(3.0))[1].high.tolist() == [1.0]


def test_survival_says_nothing_on_stderr() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        survival(durations(1.0, None))
        survival(durations(1.0, 2.0))
    with pytest.raises(ValueError, match="no runs"):
        survival(durations())


# Means


def test_a_restricted_mean_by_hand() -> None:
    # Until 4: 1 of 4 runs is there at 1 and 1 of 2 at 3; one ended at 2. The share is 1, then 3/4, then 3/8: the area
    # is 1 + 2 · 3/4 + 3/8. From 1 on it is 15/8, from 3 on 3/8: the variance is (15/8)² / (4 · 3) + (3/8)² / (2 · 1),
    # times 4 / 3.
    runs = Durations.of([1.0, None, 3.0, None], [9.0, 2.0, 9.0, 9.0])
    value, error = restricted_mean(runs, 4.0)
    assert value == pytest.approx(1 + 1.5 + 0.375)
    assert error**2 == pytest.approx(((15 / 8) ** 2 / 12 + (3 / 8) ** 2 / 2) * 4 / 3)
    # Without censoring before the end it is a mean, with its usual error.
    value, error = restricted_mean(durations(1, 2, 6, None), 5.0)
    assert (value, error) == pytest.approx((13 / 4, np.std([1, 2, 5, 5], ddof=1) / 2))


def test_restricted_means_of_the_textbook() -> None:
    """Klein and Moeschberger 2003, section 4.5: 23.287 weeks until week 35, standard error 2.827."""
    value, error = restricted_mean(patients(MERCAPTOPURINE), 35.0)
    assert (value, error * math.sqrt(20 / 21)) == pytest.approx((23.287, 2.827), abs=6e-4)


def test_the_difference_of_means_by_hand() -> None:
    # Nobody is censored: means 3 and 7, variances 2.5 each over 5 runs, 8 degrees of freedom. Student's t is 2.306.
    found = mean_difference(durations(1, 2, 3, 4, 5), durations(5, 6, 7, 8, 9))
    assert found.until == 9
    assert (found.value, found.low, found.high) == pytest.approx((-4, -4 - 2.306004, -4 + 2.306004), abs=1e-5)


def test_means_are_cut_off_where_both_are_known() -> None:
    # All of the first are there by 5, so they are known for ever. The longest run of the other ended at 80.
    both = mean_difference(durations(1, 2, 3, 4, 5), Durations.of([60, None, None, None, 70], [80, 80, 75, 75, 80]))
    assert both.until == 80
    # Runs of the first end at 100, those of the other at 50: a run that reaches it at 60 counts as 50.
    one, other = durations(60, 10, None, None, None), durations(20, 20, 20, 20, None, end=50)
    found = mean_difference(one, other)
    assert (found.value, found.until) == pytest.approx(((10 + 4 * 50) / 5 - (4 * 20 + 50) / 5, 50))


def test_no_interval_without_any_spread() -> None:
    nobody = durations(*[None] * 5)
    assert mean_difference(nobody, nobody) == (0.0, None, None, 100.0)
    assert mean_difference(durations(1, 2, 3, 4), durations(1, 2, 3, 4)).low is None  # four seeds


# Chances


def test_what_successes_prove() -> None:
    assert least_chance(5, 5) == pytest.approx(0.05 ** (1 / 5))
    assert least_chance(5, 5) == pytest.approx(0.549, abs=5e-4)
    assert least_chance(29, 29) == pytest.approx(0.902, abs=5e-4)
    # One of two or more: 1 − (1 − p)² = 0.05.
    assert least_chance(1, 2) == pytest.approx(1 - math.sqrt(0.95))
    assert least_chance(0, 5) == 0.0
    assert time_to_threshold(durations(1, 2, 3, 4, None)).at_least == pytest.approx(least_chance(4, 5))
