"""benchmarks/atari_games.py: scores, with numbers worked out by hand, from files of both kinds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.atari_games import (
    lines_of,
    normalised,
    of_published,
    of_run,
    runs_of,
    score_at,
    summarised,
    table,
)


def test_a_score_is_the_mean_of_the_last_hundred_games_within_the_steps() -> None:
    """Game k returns k and ends at step 10 k. Games 51 to 150 end within 1,505 steps: their mean is 100.5."""
    returns = np.arange(1.0, 201.0)
    assert score_at(returns, 10 * returns, 1_505) == pytest.approx(100.5)
    assert score_at(returns, 10 * returns, 50) == pytest.approx(3.0)  # five games only


def test_a_run_that_ended_before_has_no_score() -> None:
    returns = np.arange(1.0, 11.0)
    assert score_at(returns, 10 * returns, 200) is None
    assert score_at(returns[:0], returns[:0], 200) is None


def test_normalised_scores_by_hand() -> None:
    """Pong: random actions score −20.7 and a human 14.6, so −3.05 is half way. Breakout: 1.7 and 30.5."""
    assert normalised("pong", -3.05) == pytest.approx(0.5)
    assert normalised("breakout", 59.3) == pytest.approx(2.0)


def test_a_published_run_has_its_games_of_all_environments_in_order_of_time(tmp_path: Path) -> None:
    """The games end after 400, 800 and 1,600 frames in all: 100, 200 and 400 steps. Two end within 300 steps."""
    header = '#{"t_start": 5.0, "env_id": "Pong"}\nr,l,t\n'
    (tmp_path / "0.monitor.csv").write_text(f"{header}-20,400,1.0\n-2,800,3.0\n")
    (tmp_path / "1.monitor.csv").write_text(f"{header}-10,400,2.0\n")
    assert of_published(tmp_path, 200) == pytest.approx(-15.0)
    assert of_published(tmp_path, 400) == pytest.approx(-32 / 3)


def test_a_run_is_found_by_its_game(tmp_path: Path) -> None:
    run = tmp_path / "some-name"
    run.mkdir()
    (run / "meta.json").write_text(json.dumps({"env": "atari:qbert"}))
    (run / "monitor.csv").write_text('#{"t_start": 5.0, "env_id": "x"}\nr,l,t,step\n100,9,1.0,50\n300,9,0.5,40\n')
    assert runs_of(tmp_path) == {"qbert": run}
    assert of_run(run, 40) == pytest.approx(300.0)
    assert of_run(run, 50) == pytest.approx(200.0)


def test_the_table_has_a_row_for_each_game_and_the_median_of_those_that_are_known() -> None:
    lines = list(table({"ours": {"pong": -3.05, "breakout": 59.3, "enduro": None}, "none": {}}))
    assert "| breakout | 59.3 (2.000) | – |" in lines
    assert "| enduro | – | – |" in lines
    assert "| median, normalised | 1.250 (2 games) | – |" in lines
    assert lines[-1] == "| optimality gap, normalised | 0.250 (2 games) | – |"  # 0.5 is missing in one game


def test_what_sums_up_by_hand() -> None:
    """As a comparison sums up runs: of ten values the interquartile mean leaves out the two best and the two worst."""
    values = [9.0, 1.0, 2.0, 4.0, 3.0, 5.0, 6.0, 7.0, 8.0, 30.0]
    assert summarised("interquartile mean", values) == pytest.approx((3 + 4 + 5 + 6 + 7 + 8) / 6)
    assert summarised("median", values) == pytest.approx(5.5)
    assert summarised("mean", values) == pytest.approx(7.5)
    assert summarised("optimality gap", [0.25, 3.0, 1.0, -0.5]) == pytest.approx((0.75 + 1.5) / 4)


def test_lines_of_figures_are_of_known_scores() -> None:
    lines = list(lines_of({"ours": {"pong": -3.05, "enduro": None}}, 1000))
    assert lines == [{"game": "pong", "method": "ours", "steps": 1000, "score": -3.0, "normalised": 0.5}]
