"""What an agent of a plugin hands to its run: one line for what has a wrong type; numbers of NumPy and torch fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import a3c_zoo
from a3c_zoo.errors import PluginError
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.records import Episode, Outcome, Report, Snapshot
from a3c_zoo.runs.border import Border
from a3c_zoo.testing import plugin_distribution

PLUGIN = """
from a3c_zoo import AgentEntry, hookimpl

@hookimpl
def zoo_agents():
    return [
        AgentEntry(
            "odd", "odd_plugin:run", "odd_plugin:load", "a3c_zoo.config:AgentConfig",
            sections=("run", "env", "agent"), one_process=True, revision=1,
        )
    ]

def run(context):
    acts(context)

def load(entry, network, config, state):
    raise NotImplementedError
"""


@pytest.fixture
def run_odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[Any], None]], Outcome]]:
    """Trains an agent of a plugin that does what a function does with its `RunContext`."""
    folder = plugin_distribution(tmp_path / "installed", "odd-plugin", PLUGIN)
    monkeypatch.syspath_prepend(folder)
    get_registry.cache_clear()

    def train(acts: Callable[[Any], None]) -> Outcome:
        import odd_plugin  # type: ignore[import-not-found]

        odd_plugin.acts = acts
        return a3c_zoo.train("cartpole", agent="odd", steps=100, runs_dir=tmp_path / "runs", name="run")

    yield train
    get_registry.cache_clear()


def state() -> dict[str, Any]:
    return {"steps": 1}


def episode(**changes: Any) -> Episode:
    return Episode(1.0, 5, 5, 0.5, 0)._replace(**changes)


@pytest.mark.parametrize(
    ("reports", "message"),
    [
        (Report(), "record() takes a list of reports, not Report"),
        ([{"steps": 1}], "record() takes a list of reports, not dict"),
        ([Report(steps=None)], "Report.steps must be a number, not NoneType"),  # type: ignore[arg-type]
        ([Report(updates="12")], "Report.updates must be a number, not str"),  # type: ignore[arg-type]
        ([Report(steps=float("nan"))], "Report.steps must be a number, not nan"),  # type: ignore[arg-type]
        ([Report(episodes=episode())], "Report.episodes must hold Episodes, not float"),  # type: ignore[arg-type]
        ([Report(episodes=None)], "Report.episodes must be a list, not NoneType"),  # type: ignore[arg-type]
        ([Report(episodes=[(1.0, 5)])], "Report.episodes must hold Episodes, not tuple"),  # type: ignore[list-item]
        ([Report(episodes=[episode(episode_return="abc")])], "the returns of an Episode must be numbers, not str"),
        (
            [Report(episodes=[episode(episode_return=np.ones(1))])],
            "the returns of an Episode must be numbers, not ndarray",
        ),
        ([Report(episodes=[episode(agent_returns=1.0)])], "Episode.agent_returns must be a tuple, not float"),
        ([Report(episodes=[episode(length=np.ones(1))])], "Episode.length must be a number, not ndarray"),
        ([Report(metrics={"x": torch.ones(3)})], "Report.metrics['x'] must be a number, not Tensor"),  # type: ignore[dict-item]
        ([Report(metrics={"x": "abc"})], "Report.metrics['x'] must be a number, not str"),  # type: ignore[dict-item]
        ([Report(not_finite=None)], "Report.not_finite must be a set, not NoneType"),  # type: ignore[arg-type]
        ([Report(metrics=[1.0])], "Report.metrics must be a dict, not list"),  # type: ignore[arg-type]
        ([Report(metrics={1: 1.0})], "the keys of Report.metrics must be texts, not int"),  # type: ignore[dict-item]
    ],
)
def test_a_report_of_a_wrong_type_is_one_line(reports: Any, message: str) -> None:
    with pytest.raises(PluginError) as raised:
        Border("odd").refuse(reports)
    assert str(raised.value) == f"agent 'odd': {message}"


def test_steps_of_the_run_do_not_fall() -> None:
    """Those of different workers overtake each other, and a report of episodes alone has none."""
    border = Border("odd", 50)
    for worker, steps in ((0, 87), (1, 60), (1, 60), (0, 0), (0, 88)):
        border.refuse([Report(worker, steps)])
    for worker, steps, before in ((0, 1, 88), (2, 10, 50)):
        with pytest.raises(PluginError, match=rf"^agent 'odd': a report has {steps} steps after {before}; count all"):
            border.refuse([Report(worker, steps)])


def test_steps_that_fall_end_the_run(run_odd: Any) -> None:
    def acts(context: Any) -> None:
        context.started(Snapshot(state))
        context.record([Report(steps=87)])
        context.record([Report(steps=1)])

    with pytest.raises(PluginError, match="a report has 1 steps after 87"):
        run_odd(acts)


def test_numbers_of_numpy_and_torch_are_numbers(run_odd: Any) -> None:
    played = episode(episode_return=np.float32(2), length=np.int64(5), step=np.int64(100))
    metrics: dict[str, Any] = {"x": torch.tensor(3.0), "y": np.array(4.0), "z": np.float32("nan")}

    def acts(context: Any) -> None:
        context.started(Snapshot(state))
        context.record([Report(steps=np.int64(100), episodes=[played], metrics=metrics)])  # type: ignore[arg-type]
        assert not context.settle(Snapshot(state))

    assert run_odd(acts).steps == 100


def test_a_report_of_a_wrong_type_reaches_the_user(run_odd: Any) -> None:
    def acts(context: Any) -> None:
        context.started(Snapshot(state))
        context.record([Report(steps=None)])  # type: ignore[arg-type]

    with pytest.raises(PluginError, match=r"^agent 'odd': Report\.steps must be a number, not NoneType$"):
        run_odd(acts)


@pytest.mark.parametrize("result", [None, [1]])
def test_a_state_that_is_no_dict(result: Any, run_odd: Any) -> None:
    message = rf"^agent 'odd': Snapshot\.state must return a dict, not {type(result).__name__}$"
    with pytest.raises(PluginError, match=message):
        run_odd(lambda context: context.started(Snapshot(lambda: result)))


def test_a_state_in_place_of_a_snapshot(run_odd: Any) -> None:
    def acts(context: Any) -> None:
        context.started(Snapshot(state))
        context.settle(state())

    with pytest.raises(
        PluginError, match=r"^agent 'odd': started\(\), settle\(\) and rescue\(\) take a Snapshot, not dict$"
    ):
        run_odd(acts)


@pytest.mark.parametrize("given", [{}, Snapshot(state, counts=lambda: Report(steps=None))])  # type: ignore[arg-type]
def test_what_an_agent_hands_over_does_not_hide_why_it_failed(given: Any, run_odd: Any) -> None:
    def acts(context: Any) -> None:
        context.started(Snapshot(state))
        error = RuntimeError("the real failure")
        context.rescue(given, error)
        raise error

    with pytest.raises(RuntimeError, match=r"^the real failure") as raised:
        run_odd(acts)
    (note,) = raised.value.__notes__
    assert note.startswith("(and no checkpoint could be written: agent 'odd': ")
