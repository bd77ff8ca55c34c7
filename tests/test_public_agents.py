"""Agents of plugins on public names alone: another loss, other workers, and one line for what does not fit."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import a3c_zoo
import a3c_zoo.agents
import a3c_zoo.learning
from a3c_zoo.errors import PluginError
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.testing import plugin_distribution
from tests.test_docs import install_page
from tests.toys_runs import Listener, checkpoint, scalars
from tests.wheels import ROOT

PLUGIN = """
from a3c_zoo import AgentEntry, hookimpl
from a3c_zoo.agents import A3CConfig, A3CDataConfig, A3CGradConfig, LossConfig
from a3c_zoo.config import AgentConfig
from pydantic import Field


class OwnConfig(A3CConfig):
    factor: float = Field(1.0, description="of the value error")


class OwnDataConfig(A3CDataConfig):
    factor: float = Field(1.0, description="of the value error")


class OwnGradConfig(A3CGradConfig):
    factor: float = Field(1.0, description="of the value error")


def agent(name, run, config="OwnConfig", **options):
    return AgentEntry(
        name, f"own_agents:{run}", "a3c_zoo.agents:load", f"own_agents_plugin:{config}", revision=1, **options
    )


@hookimpl
def zoo_agents():
    return [
        agent("own", "run"),
        agent("own-data", "run_data", "OwnDataConfig"),
        agent("own-grad", "run_grad", "OwnGradConfig"),
        agent("own-workers", "run_workers"),
        agent("local", "run_local"),
        agent("flat", "run_flat"),
        agent("wide", "run_wide"),
        agent("tensor", "run_tensor"),
        agent("comparing", "run_comparing"),
        agent("half-finite", "run_half_finite"),
        agent("uncalled", "run_uncalled"),
        agent("listing", "run_listing"),
        agent("plain", "run", "AgentConfig"),
        agent("bare", "run", sections=("run", "env", "agent")),
    ]
"""
AGENTS = '''
from functools import partial

import torch
from a3c_zoo.agents import (
    Applier, RolloutWorker, agent_config, make_env, run_a3c, run_a3c_data, run_a3c_grad, train
)
from a3c_zoo.learning import LossTerms, actor_critic_loss, differentiate
from own_agents_plugin import OwnConfig, OwnDataConfig, OwnGradConfig


def scaled(factor, samples, objective):
    terms = actor_critic_loss(samples, objective)
    return LossTerms(
        terms.policy_gain, factor * terms.value_error, lambda: {"seven": torch.full_like(samples.values, 7.0)}
    )


def run(context):
    run_a3c(context, partial(scaled, agent_config(context, OwnConfig).factor))


def run_data(context):
    run_a3c_data(context, partial(scaled, agent_config(context, OwnDataConfig).factor))


def run_grad(context):
    run_a3c_grad(context, partial(scaled, agent_config(context, OwnGradConfig).factor))


class OwnWorker(RolloutWorker):
    """As a worker of `a3c` with one update for each rollout."""

    def __init__(self, context, rank, state, on_tick):
        super().__init__(context, rank, state, on_tick)
        self.applier = Applier(self, state)

    def work(self):
        self.pull()
        rollout, wanted = self.collect(), self.wants_metrics()
        self.model.flat.zero_gradients()
        actions = self.context.spaces.actions
        metrics = differentiate(self.model.network, actions, rollout, slice(None), self.objective(), wanted)
        metrics |= self.applier.apply(self.model.flat.wide_gradients(), (self.updates_at_pull,))
        if wanted:
            self.tell(metrics)

    def state_dict(self):
        return super().state_dict() | self.applier.state_dict()


def run_workers(context):
    env = make_env(context)
    assert env.num_envs == context.config.env.num_envs
    env.close()
    train(context, OwnWorker)


def run_local(context):
    run_a3c(context, lambda samples, objective: actor_critic_loss(samples, objective))


def flat(samples, objective):
    return LossTerms(samples.log_probs.sum(), samples.values)


def run_flat(context):
    run_a3c(context, flat)


def wide(samples, objective):
    return LossTerms(samples.log_probs, samples.values.double())


def run_wide(context):
    run_a3c(context, wide)


def bare_tensor(samples, objective):
    return samples.log_probs


def run_tensor(context):
    run_a3c(context, bare_tensor)


def comparing(samples, objective):
    return LossTerms(samples.ratios(), samples.values)


def run_comparing(context):
    run_a3c(context, comparing)


def half_finite(samples, objective):
    terms = actor_critic_loss(samples, objective)
    metrics = {"log": samples.values * float("nan"), "seven": torch.full_like(samples.values, 7.0)}
    return LossTerms(terms.policy_gain, terms.value_error, lambda: metrics)


def run_half_finite(context):
    run_a3c(context, half_finite)


def uncalled(samples, objective):
    return LossTerms(samples.log_probs, samples.values, {"seven": samples.values})


def run_uncalled(context):
    run_a3c(context, uncalled)


def listing(samples, objective):
    return LossTerms(samples.log_probs, samples.values, lambda: [samples.values])


def run_listing(context):
    run_a3c(context, listing)
'''


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where runs are made, with the plugin installed in this process."""
    folder = plugin_distribution(tmp_path / "installed", "own-agents-plugin", PLUGIN)
    (folder / "own_agents.py").write_text(AGENTS)
    monkeypatch.syspath_prepend(folder)
    get_registry.cache_clear()
    yield tmp_path / "runs"
    get_registry.cache_clear()


def train(runs: Path, agent: str, hyperparams: str | None = None, *, steps: int = 640, **overrides: object) -> Path:
    settings = {f"agent.{key}": value for key, value in overrides.items()}
    options: dict[str, Any] = {"agent": agent, "hyperparams": hyperparams, "overrides": settings}
    outcome = a3c_zoo.train("cartpole", steps=steps, serial=True, seed=3, runs_dir=runs, **options)
    assert outcome.steps >= steps
    return outcome.run


def parameters(run: Path) -> torch.Tensor:
    found: torch.Tensor = checkpoint(run)["agent"]["model"]["parameters"]
    return found


@pytest.mark.parametrize(("agent", "own"), [("a3c", "own"), ("a3c-data", "own-data"), ("a3c-grad", "own-grad")])
def test_the_loss_is_the_plugins(agent: str, own: str, runs: Path) -> None:
    """Twice the value error with half its coefficient is the same loss, bit by bit."""
    theirs = parameters(train(runs, own, agent, factor=2.0, value_coefficient=0.25))
    assert torch.equal(theirs, parameters(train(runs, agent, value_coefficient=0.5)))
    assert not torch.equal(theirs, parameters(train(runs, own, agent, factor=1.0, value_coefficient=0.25)))


def test_workers_of_a_plugin(runs: Path) -> None:
    """They do what those of `a3c` do, and go on from a checkpoint."""
    theirs = train(runs, "own-workers", "a3c")
    assert torch.equal(parameters(theirs), parameters(train(runs, "a3c")))
    resumed = a3c_zoo.train(resume=theirs, steps=1280, runs_dir=runs)
    assert resumed.steps >= 1280
    assert a3c_zoo.load_agent(resumed.run).predict([0.0, 0.0, 0.0, 0.0])[0] in (0, 1)


@pytest.fixture
def fresh_registry() -> Iterator[None]:
    get_registry.cache_clear()
    yield
    get_registry.cache_clear()


@pytest.mark.usefixtures("fresh_registry")
def test_the_learner_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It learns from what workers hand over, and goes on from a checkpoint."""
    install_page("write-an-agent.md", tmp_path / "installed")
    monkeypatch.syspath_prepend(tmp_path / "installed")
    first = train(tmp_path / "runs", "halved", "a3c-grad", steps=64)
    second = train(tmp_path / "runs", "halved", "a3c-grad", steps=640)
    assert not torch.equal(parameters(first), parameters(second))
    assert checkpoint(second)["agent"]["workers"][-1]["sum"].shape == parameters(second).shape
    resumed = a3c_zoo.train(resume=second, steps=1280, runs_dir=tmp_path / "runs")
    assert resumed.steps >= 1280
    assert bool(parameters(second).isfinite().all())


def test_v_trace_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Worked by hand, with γ = 0.5, V = 1 everywhere, r = 2, ratios 2, 0.5, 1 and 0.5; the limit is 1.

    δ = ρ (2 + 0.5 − 1) = 1.5, 0.75, 1.5, and 0.5 (2 − 1) = 0.5. The last step terminates, the third is truncated.
    v₃ = 1.5; v₂ = 2.5; v₁ = 1 + 0.75 + 0.5·0.5·1.5 = 2.125; v₀ = 1 + 1.5 + 0.5·1·1.125 = 3.0625.
    A₀ = 2 + 0.5·2.125 − 1 = 2.0625; A₁ = 0.5 (2 + 0.5·2.5 − 1) = 1.125; A₂ = 2 + 0.5·1 − 1 = 1.5; A₃ = 0.5.
    """
    install_page("write-an-agent.md", tmp_path / "installed")
    monkeypatch.syspath_prepend(tmp_path / "installed")
    vtrace = importlib.import_module("vtrace").vtrace
    ones = np.ones((4, 1), np.float32)
    terminated = np.array([[False], [False], [False], [True]])
    truncated = np.array([[False], [False], [True], [False]])
    ratios = np.array([[2.0], [0.5], [1.0], [0.5]], np.float32)
    targets, advantages = vtrace(2 * ones, ones, ones, terminated, truncated, ratios, 0.5, 1.0)
    assert targets[:, 0].tolist() == [3.0625, 2.125, 2.5, 1.5]
    assert advantages[:, 0].tolist() == [2.0625, 1.125, 1.5, 0.5]


@pytest.mark.parametrize("own", ["own", "own-data", "own-grad", "own-workers"])
def test_the_loss_reaches_processes(own: str, runs: Path) -> None:
    outcome = a3c_zoo.train("cartpole", agent=own, steps=3000, workers=2, runs_dir=runs)
    assert outcome.steps >= 3000
    assert bool(parameters(outcome.run).isfinite().all())


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        ("local", r"<lambda> .* cannot travel to a worker process; define it at the top of a module"),
        ("flat", r"returns a policy_gain of float32 \[\]; it needs one number for each sample: float32 \[160\]"),
        ("wide", r"returns a value_error of float64 \[160\]; it needs one number for each sample: float32 \[160\]"),
        ("tensor", r"the loss returns Tensor; it must return a3c_zoo\.learning\.LossTerms"),
        ("comparing", r"run_a3c keeps them if the property keeps_outputs of the agent's configuration model is True"),
        ("uncalled", r"returns metrics of dict; they must be a function that returns a dict: metrics=lambda: {…}"),
        ("listing", r"the metrics of the loss return list; they must return a dict"),
        ("plain", r"configuration model, AgentConfig, must derive from OwnConfig"),
        ("bare", r"agent 'bare': its AgentEntry.sections must have network and optimizer"),
    ],
)
def test_what_does_not_fit_is_one_line(agent: str, message: str, runs: Path) -> None:
    with pytest.raises(PluginError, match=message) as raised:
        train(runs, agent)
    assert "\n" not in str(raised.value)


def test_a_metric_that_is_not_finite_is_told_once(runs: Path) -> None:
    """It is left out; the others have their curves."""
    listener = Listener()
    a3c_zoo.train(
        "cartpole", agent="half-finite", steps=3200, serial=True, seed=3, runs_dir=runs, name="run", observer=listener
    )
    assert listener.messages == ["the loss has returned a metric 'log' that is not finite; such values are left out"]
    [event] = [json.loads(line) for line in (runs / "run/events.jsonl").read_text().splitlines()]
    assert (event["kind"], event["metric"]) == ("metric_not_finite", "log")
    curves = {name for name in scalars(runs / "run") if name.startswith("train/")}
    assert "train/seven" in curves
    assert not [name for name in curves if "log" in name]


# The names


@pytest.mark.parametrize("package", [a3c_zoo.agents, a3c_zoo.learning], ids=["agents", "learning"])
def test_every_public_name_is_there(package: object) -> None:
    assert isinstance(package, type(a3c_zoo))
    for name in package.__all__:
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = package.nothing


def test_an_agent_with_another_loss_is_short() -> None:
    sources = (ROOT / "plugins" / "a3c-zoo-ppo" / "src").rglob("*.py")
    texts = [path.read_text() for path in sources if path.parent.name != "hyperparams"]
    assert len(texts) == 2
    assert sum(len(text.splitlines()) for text in texts) < 60
