"""`compare --until-decided`: the rule of a plan, its blocks, its words, what is refused, and a whole comparison."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from a3c_zoo.comparison import seed_blocks
from a3c_zoo.comparison.compare import make_plan_and_rule
from a3c_zoo.errors import ZooError
from a3c_zoo.figures import decisions
from a3c_zoo.figures.decisions import Decisions
from a3c_zoo.figures.sequential import Pair, SequentialTest
from tests.toys_runs import command_line

PAIR = Pair("cartpole", "a3c", "random")
METHODS: dict[str, Any] = {"envs": ["cartpole"], "agents": ["a3c"], "baselines": ["random"]}


def planned(folder: Path, **changes: Any) -> Any:
    options: dict[str, Any] = {"seeds": range(1, 6), "max_seeds": 10, "steps": 5000, "time_limit": None, "reuse": True}
    return make_plan_and_rule(True, **(options | METHODS | changes), runs_dir=folder)


@pytest.mark.parametrize(
    ("seeds", "planned_seeds"),
    [(2, [1, 2]), (np.int64(2), [1, 2]), ([3, 5], [3, 5]), (np.arange(3, 5), [3, 4]), (range(2, 4), [2, 3])],
)
def test_seeds_are_a_number_or_a_list(seeds: Any, planned_seeds: list[int], tmp_path: Path) -> None:
    options: dict[str, Any] = {"steps": 5000, "time_limit": None, "reuse": True, "runs_dir": tmp_path, **METHODS}
    plan, _ = make_plan_and_rule(False, seeds=seeds, max_seeds=None, **options)
    found = list(dict.fromkeys(run.seed for run in plan.runs))
    assert found == planned_seeds
    assert all(type(seed) is int for seed in found)
    wrong: Any
    for wrong in ("3", 2.5, [1.5], None):
        with pytest.raises(ZooError, match=r"^seeds=.*: give how many, or a list of whole numbers$"):
            make_plan_and_rule(False, seeds=wrong, max_seeds=None, **options)


def test_a_block_has_the_next_seeds_of_methods_in_open_pairs(tmp_path: Path) -> None:
    plan, rule = planned(tmp_path, agents=["a3c", "nstep"])
    assert (rule.block, rule.looks) == (5, 2)
    names = ("a3c", "nstep", "random")
    assert rule.pairs == tuple(Pair("cartpole", a, b) for a, b in (names[:2], names[::2], names[1:]))
    test = SequentialTest(rule)
    first = seed_blocks.block_of(plan, test)
    assert [(run.seed, run.method) for run in first.runs] == [(seed, name) for seed in range(1, 6) for name in names]
    returns = {"a3c": [1.0, 2, 3, 4, 5], "nstep": [1.5, 2.5, 3.5, 4.5, 2], "random": [90.0, 91, 92, 93, 94]}
    look = test.look({("cartpole", name): values for name, values in returns.items()})
    assert look.decided == {}  # five seeds can decide nothing
    assert decisions.look_in_words(look, test) == "after 5 seeds: nothing decided; 3 of 3 pairs open"
    second = seed_blocks.block_of(plan, test)
    assert [(run.seed, run.method) for run in second.runs] == [(seed, name) for seed in range(6, 11) for name in names]
    look = test.look(
        {("cartpole", name): [*values, *(value + 0.1 for value in values)] for name, values in returns.items()}
    )
    assert look.decided == dict.fromkeys(rule.pairs[1:], "lower")
    # 3 · 2 / 1024, as the first of three pairs; the limit is all of the 5 %.
    words = (
        "cartpole: a run of random ends with a higher return than a run of {} with probability 1 (p = 0.59 %; the "
        "limit of this look is 5 %)"
    )
    both = words.format("a3c"), words.format("nstep")
    assert decisions.look_in_words(look, test) == f"after 10 seeds: {both[0]}; {both[1]}; 1 of 3 pairs open"
    told = Decisions(rule, tuple(test.looks), tuple(test.open), "a run has no final return")
    assert decisions.sentences(told) == {
        f"{both[0]}; decided after 10 seeds.": True,
        f"{both[1]}; decided after 10 seeds.": True,
        "cartpole: no difference between a3c and nstep is shown after 10 seeds (a run has no final return).": False,
    }
    plain = json.loads(json.dumps(decisions.to_plain(told)))
    assert plain["rule"]["parts"] == [0, 0.05]
    assert plain["open"] == [{"env": "cartpole", "method": "a3c", "other": "nstep"}]
    assert [pair["decision"] for pair in plain["looks"][1]["pairs"]] == [None, "lower", "lower"]


def test_seeds_that_would_not_be_trained_are_refused(tmp_path: Path) -> None:
    for seeds in (range(5, 15), range(1, 10, 2), [1, 2, 3, 4, 5]):
        with pytest.raises(ZooError, match=r"number of seeds in a block.*not a list"):
            planned(tmp_path, seeds=seeds)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--max-seeds", "10"], "--max-seeds is of comparisons that go on until they are decided: add --until-decided"),
        (["--until-decided", "--seeds", "3,7"], "--seeds: with --until-decided it is the number of seeds in a block"),
        (["--until-decided", "--seeds", "4"], "--seeds 4: with --until-decided a block has 5 seeds or more"),
        (["--until-decided", "--max-seeds", "12"], "--max-seeds 12: must be a multiple of the 5 seeds of a block"),
        (["--until-decided", "--from", "runs"], "--from only reads runs; leave out --baseline, --until-decided"),
    ],
)
def test_one_line_for_a_mistake(
    options: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runs").mkdir()
    assert command_line("compare", "cartpole", "--baseline", "random", *options) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"Error: {message}")
    assert error.count("\n") == 1


@pytest.mark.slow
def test_a_whole_comparison_stops_when_it_is_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A3C that has learned for 60,000 steps, and random actions: ten seeds decide, and fifteen are not trained."""
    monkeypatch.chdir(tmp_path)
    command = ("compare", "cartpole", "--baseline", "random", "--until-decided", "--steps", "60000", "--episodes", "2")
    assert command_line(*command, "--max-seeds", "15", "--yes", "--out", "report") == 0
    sentence = "cartpole: a run of a3c ends with a higher return than a run of random with probability 1"
    out = " ".join(capsys.readouterr().out.split())
    assert sentence in out
    assert "decided after 10 seeds." in out
    results = json.loads(Path("report/results.json").read_text())
    assert len(results["runs"]) == 20
    assert results["until_decided"]["open"] == []
    page = Path("report/report.md").read_text()
    assert "## Until decided" in page
    assert sentence in page
    assert page.partition("![Curves]")[0].count("with probability") == 1
