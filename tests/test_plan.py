"""The plan of a comparison: the order of its runs, and one rule for the schedules of all methods."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from a3c_zoo.comparison.estimates import estimate
from a3c_zoo.comparison.known_runs import KnownRuns
from a3c_zoo.comparison.methods import Method
from a3c_zoo.comparison.plan import Budget, Plan, make_plan, plan_method
from a3c_zoo.plugins.registry import get_registry


def plan(**changes: Any) -> Plan:
    options: dict[str, Any] = {"envs": ["cartpole"], "agents": ["a3c"], "baselines": ["sb3-ppo"], "seeds": [1]}
    rest = {"steps": None, "time_limit": None, "runs_dir": Path("runs"), "reuse": False}
    return make_plan(**{**options, **rest, **changes})


def test_the_order_is_random_within_each_seed() -> None:
    seeds = range(1, 31)
    planned = plan(agents=["a3c", "nstep"], seeds=seeds, steps=1000)
    order = planned.training_order
    assert order == plan(agents=["a3c", "nstep"], seeds=seeds, steps=1000).training_order
    assert sorted(order) == list(range(90))
    runs = [planned.runs[place] for place in order]
    assert [run.seed for run in runs] == [seed for seed in seeds for _ in range(3)]
    assert [run.method for run in planned.runs] == ["a3c", "nstep", "sb3-ppo"] * 30
    first = Counter(run.method for run in runs[::3])
    assert first.keys() == {"a3c", "nstep", "sb3-ppo"}
    assert min(first.values()) >= 5


def schedules(planned: Plan) -> dict[str, tuple[Any, Any]]:
    """Method → length of its schedules by its configuration, and the one that its set has where they differ."""
    found = {}
    for run in planned.runs:
        config = run.config.to_dict()
        section = config["optimizer"] if "optimizer" in config else config["agent"]
        found[run.method] = section["schedule_steps"], run.schedule_steps
    return found


@pytest.mark.parametrize("steps", [20_000, 1_000_000])
def test_all_schedules_end_with_a_budget_in_steps(steps: int, tmp_path: Path) -> None:
    planned = plan(steps=steps)
    assert schedules(planned) == {"a3c": (None, None), "sb3-ppo": (None, None)}  # null: the budget
    (tmp_path / "own.yml").write_text("optimizer:\n  schedule_steps: 250000\n")
    registry = get_registry()
    method = Method("a3c", registry.agent("a3c"), hyperparams=str(tmp_path / "own.yml"))
    known = KnownRuns(registry, tmp_path, reuse=False)
    run = plan_method(registry, registry.env("cartpole"), method, Budget(steps=steps)).run(registry, 1, known)
    planned = Plan((run,), tmp_path, reuse=False)
    assert schedules(planned) == {"a3c": (steps, 250_000)}
    assert f"optimizer.schedule_steps={steps}" in planned.runs[0].command.overrides
    assert planned.schedules == (
        "All schedules, such as that of the learning rate, end with the budget. By the methods' sets they end "
        "elsewhere: a3c on cartpole after 250,000 steps."
    )


def test_the_own_budget_changes_no_schedule() -> None:
    planned = plan()
    assert planned.runs[0].budget.steps == 250_000
    assert schedules(planned) == {"a3c": (None, None), "sb3-ppo": (None, None)}
    assert planned.schedules == "All schedules, such as that of the learning rate, end with the budget."


def test_with_a_budget_in_seconds_schedules_keep_their_sets_lengths() -> None:
    planned = plan(time_limit=30.0, baselines=["sb3-ppo", "sb3-dqn"])
    assert schedules(planned) == {"a3c": (250_000, None), "sb3-ppo": (100_000, None), "sb3-dqn": (50_000, None)}
    assert planned.schedules == "The budget is in seconds, so schedules keep the lengths of the methods' sets."


def test_a_guess_has_as_many_runs_at_once_as_the_engine() -> None:
    """Six runs of 10 minutes: an hour one by one, 15 minutes four at once, and no less than one of them takes."""
    planned = plan(agents=["a3c", "nstep"], seeds=[1, 2], steps=1000)
    planned = replace(planned, runs=tuple(replace(run, guess_s=600.0) for run in planned.runs))
    assert [planned.guess_s(slots) for slots in (1, 4, 6, 20)] == [3600, 900, 600, 600]
    one = replace(planned.runs[0], guess_s=3000.0)
    assert replace(planned, runs=(one, *planned.runs[1:])).guess_s(4) == 3000  # 6,000 s / 4 are less than the long one
    unknown = replace(planned, runs=(replace(one, guess_s=None), *planned.runs[1:]))
    assert unknown.guess_s() == 3000
    assert replace(planned, runs=()).guess_s(4) == 0
    assert estimate(planned, {}, 4) == "6 runs, about 15 min of training"
    assert estimate(planned, {}) == "6 runs, about 1 h of training"


@pytest.mark.parametrize(
    ("budget", "left"), [(Budget(steps=5000), "steps"), (Budget(time_limit_s=30.0), "time_limit_s")]
)
def test_a_run_ends_with_its_budget_and_nothing_plays_beside_it(budget: Budget, left: str, tmp_path: Path) -> None:
    beside = {"evaluation_every_s": 5, "evaluation_every_steps": 500, "film_every": 2}
    given = {"steps": 7000, "episodes": 10, "time_limit_s": 20, **beside}
    lines = [f"  {key}: {value}\n" for key, value in given.items()]
    (tmp_path / "own.yml").write_text("run:\n" + "".join(lines))
    registry = get_registry()
    method = Method("a3c", registry.agent("a3c"), hyperparams=str(tmp_path / "own.yml"))
    config = plan_method(registry, registry.env("cartpole"), method, budget).config(registry, 1)
    assert {key for key in given if getattr(config.run, key) is not None} == {left}
