"""`a3c-zoo check`: sound things pass, each fault is found with a cure, and all faults at once."""

from __future__ import annotations

import json
import multiprocessing
import os
import pty
import re
import resource
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import a3c_zoo
from a3c_zoo import AgentEntry, EnvEntry, NetworkEntry, OptimizerEntry
from a3c_zoo.config import EnvConfig, OptimizerConfig
from a3c_zoo.errors import ZooError
from a3c_zoo.learning.undrawn import cannot_draw
from a3c_zoo.plugins.builtins import zoo_optimizers
from a3c_zoo.plugins.loading import Selection
from a3c_zoo.plugins.module_files import MODULE_FILES
from a3c_zoo.plugins.registry import Registry, load_registry
from a3c_zoo.sharing.save_trained import save
from a3c_zoo.testing import agent_checks, checkup, environment_checks, plugin_distribution
from a3c_zoo.testing.agent_checks import examine_agent
from a3c_zoo.testing.checkup import check, jobs_for
from a3c_zoo.testing.conformance import check_contract
from a3c_zoo.testing.environment_checks import examine_environment
from a3c_zoo.testing.findings import USUAL, CheckOptions, Finding, Findings
from a3c_zoo.testing.network_checks import examine_network
from a3c_zoo.testing.optimizer_checks import examine_optimizer
from a3c_zoo.testing.plugin_checks import examine_plugin
from a3c_zoo.testing.tested_environment import Subject
from tests.toys_runs import environ
from tests.waits import LIMIT_S

TOYS = "tests.toys_checks"


@pytest.fixture(autouse=True)
def short_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process; a command of its own, as for cartpole, measures as long as it does for users."""
    monkeypatch.setattr(environment_checks, "ALONE_S", 0.05)
    monkeypatch.setattr(environment_checks, "RANDOM_S", 0.2)
    monkeypatch.setattr(environment_checks, "WORKER_S", 0.2)


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load_registry()


def told(found: list[Finding], status: str = "problem") -> list[str]:
    """Check and message of the findings of a status; each has a cure."""
    assert all(finding.cure for finding in found if finding.status != "ok")
    return [f"{finding.check}: {finding.text}" for finding in found if finding.status == status]


def env_findings(registry: Registry, entry: EnvEntry, options: CheckOptions = USUAL) -> list[Finding]:
    findings = Findings("environment")
    registry.envs[entry.name] = entry
    try:
        examine_environment(registry, entry, findings, options)
    finally:
        del registry.envs[entry.name]
    return findings.found


def walk(kind: str) -> EnvEntry:
    return EnvEntry("toy", f"{TOYS}:make", kwargs={"kind": kind})


# Environments


@pytest.mark.parametrize(
    ("entry", "faults"),
    [
        (walk("StringMode"), ["autoreset: num_envs=1: metadata['autoreset_mode'] is the string 'NextStep'"]),
        (walk("OneFlag"), ["flags: num_envs=1: terminated and truncated are always equal"]),
        (walk("WritesActions"), ["actions: num_envs=1: step() changes the array of actions"]),
        (EnvEntry("toy", f"{TOYS}:make_processes"), ["workers: num_envs=1: it is an AsyncVectorEnv"]),
        (EnvEntry("toy", f"{TOYS}:no_such"), ["entry: factory 'tests.toys_checks:no_such' cannot be imported"]),
        (
            EnvEntry("toy", f"{TOYS}:make_house", kwargs={"fault": "joints, room"}),
            [
                "finite observations at 'arm/0': num_envs=1: reset(seed=1) returned observations at 'arm/0' that are",
                "bounds at 'room': num_envs=1: reset(seed=1) returned an observation at 'room' outside of its space",
            ],
        ),
        (
            EnvEntry("toy", f"{TOYS}:make_house", kwargs={"fault": "wide"}),
            ["reset: num_envs=1: reset(seed=1) returned a wrong observation at 'room': float32 [6], where its spaces"],
        ),
        (
            EnvEntry("toy", f"{TOYS}:make_house", kwargs={"fault": "unpaid"}),
            ["rewards: num_envs=1: step 0 returned rewards that are not finite: [nan]"],
        ),
        (
            walk("ManyFaults"),
            [
                "observations: num_envs=1: reset(seed=1) returned observations float64 [1, 1], where its spaces",
                "rewards: num_envs=1: step 0 returned rewards float32 [1, 1]; it must be an array of numbers, [1]",
                "terminated: num_envs=1: step 0 returned terminated int64 [1]; it must be an array of bool, [1]",
            ],
        ),
    ],
    ids=lambda value: value.kwargs.get("kind", value.factory) if isinstance(value, EnvEntry) else "",
)
def test_faults_of_an_environment(registry: Registry, entry: EnvEntry, faults: list[str]) -> None:
    found = told(env_findings(registry, entry))
    assert [line[: len(fault)] for line, fault in zip(found, faults, strict=False)] == faults
    assert len(found) == len(faults)


def test_a_failing_close_hides_no_other_finding(registry: Registry) -> None:
    """Training tolerates it, so it is no problem."""
    found = env_findings(registry, walk("FailsToClose"))
    assert told(found) == []
    warned = [finding.text for finding in found if finding.check == "close"]
    assert warned[0].startswith("num_envs=1: close() raised OSError: the door is stuck")
    assert {"contract", "speed alone", "in a worker"} <= {finding.check for finding in found}


def test_a_speed_that_was_not_measured_is_not_zero(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a single report may come in the time of the short training."""
    monkeypatch.setattr("a3c_zoo.testing.short_run.ShortRun.steps_per_s", 0.0)
    (found,) = [each for each in env_findings(registry, walk("FailsToClose")) if each.check == "in a worker"]
    assert found.text == "agent 'a3c' trains; its speed is unknown, as only one report of steps came in time"


def test_a_forgotten_seed_is_said_so(registry: Registry) -> None:
    found = env_findings(registry, walk("Unseeded"))
    assert {finding.check for finding in found if finding.status == "problem"} == {"seeding"}
    cures = {finding.cure for finding in found if finding.check == "seeding"}
    assert any("call super().reset(seed=seed) first in reset()" in cure for cure in cures)
    ignored = env_findings(registry, EnvEntry("toy", "tests.walks:make", kwargs={"kind": "GlobalRandom"}))
    cures = {finding.cure for finding in ignored if finding.check == "seeding"}
    assert cures
    assert not any("super()" in cure for cure in cures)


def test_a_reset_that_knows_no_options_is_told_once(registry: Registry) -> None:
    (finding,) = [each for each in env_findings(registry, EnvEntry("toy", f"{TOYS}:make_hut")) if each.cure]
    assert finding.text.startswith("num_envs=1: it has a reset() that does not take 'options': this is the API of Gym")
    assert finding.cure == "define it as reset(self, *, seed=None, options=None)"


@pytest.mark.parametrize(
    ("kwargs", "told"),
    [
        ({"fault": "early", "limit": 4}, ""),
        ({"fault": "early, double"}, "warning: step "),
        ({"limit": 4}, "warning: episodes end by themselves in the step of their time limit, step"),
        ({"fault": "double", "limit": 5}, "problem: num_envs=1: terminated and truncated are always equal"),
        ({"fault": "double, second", "limit": 4}, "problem: num_envs=1: terminated and truncated are always equal"),
        (
            {"limit": 4, "same_step": True},
            "warning: episodes end by themselves in the step of their time limit, step 4",
        ),
    ],
)
def test_a_last_step_that_gymnasium_truncates_is_no_fault(kwargs: dict[str, Any], told: str) -> None:
    findings = Findings("environment")
    entry = EnvEntry("toy", f"{TOYS}:make_house", kwargs=kwargs)
    check_contract(Subject(entry, EnvConfig(), 1, findings), 100)
    found = [f"{each.status}: {each.text}" for each in findings.found if each.check == "flags"]
    assert [line[: len(told)] for line in found] == ([told] if told else [])
    assert len(findings.found) == len(found)


@pytest.mark.parametrize("steps", [1, 6])
def test_a_state_after_the_last_step_is_checked(steps: int) -> None:
    """Of one step the state is taken after the first half, and of six after the end of the first episode."""
    findings = Findings("environment")
    entry = EnvEntry("toy", "tests.walks:make", kwargs={"kind": "StatefulWalk"})
    with findings.during("contract", ""):
        check_contract(Subject(entry, EnvConfig(), 1, findings), steps)
    assert findings.found == []


def test_an_array_that_is_used_again_is_a_warning_and_masks_are_told(registry: Registry) -> None:
    found = env_findings(registry, walk("OneBuffer"))
    assert told(found) == []
    assert [line for line in told(found, "warning") if line.startswith(("buffers", "action mask"))] == [
        "buffers: step() returns the same array again; a3c-zoo copies it at once, other libraries keep it",
    ]
    assert "action mask: masks allow 100% of the actions; agents act within them" in told(found, "ok")


def test_episodes_that_do_not_end_are_a_warning(registry: Registry) -> None:
    found = env_findings(registry, EnvEntry("toy", "tests.walks:make", kwargs={"kind": "Endless"}))
    assert told(found) == []
    assert any(line.startswith("episodes: no episode ended within 500 steps") for line in told(found, "warning"))


def test_a_registered_environment_that_cannot_be_drawn_is_a_note(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part in ("_run_other_checkers", "_measure"):  # they take long
        monkeypatch.setattr(f"a3c_zoo.testing.environment_checks.{part}", lambda setup, findings: None)
    found = env_findings(registry, EnvEntry("toy", env_id=f"{TOYS}:House-v0"), CheckOptions(steps=20))
    assert told(found) == []
    (finding,) = [finding for finding in found if finding.check == "render"]
    assert finding.status == "ok"
    assert "cannot be drawn: it has no parameter render_mode" in finding.text
    assert "give __init__ a parameter render_mode, and metadata 'render_modes'" in finding.text


def test_an_environment_without_render_is_no_problem(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """It trains all the same."""
    monkeypatch.setattr("a3c_zoo.testing.environment_checks._measure", lambda setup, findings: None)
    found = env_findings(registry, registry.env("python:tests.toys_checks:BlindHouse"), CheckOptions(steps=20))
    assert told(found) == []
    (finding,) = [finding for finding in found if finding.check == "render"]
    assert finding.status == "ok"
    assert "cannot be drawn: it has no render()" in finding.text


def test_other_checkers_look_at_a_class_too(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they do at what is registered with Gymnasium."""
    monkeypatch.setattr("a3c_zoo.testing.environment_checks._measure", lambda setup, findings: None)
    found = env_findings(registry, registry.env("python:tests.toys_checks:DoubleHouse"), CheckOptions(steps=20))
    by_check = {finding.check: finding for finding in found}
    assert by_check["gymnasium"].status == "problem"
    assert "is not within the observation space" in by_check["gymnasium"].text
    assert by_check["sb3"].status == "warning"


def test_a_machine_without_a_screen_is_no_fault_of_the_environment(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "x11")
    monkeypatch.setenv("DISPLAY", ":93")  # which nobody shows
    for part in ("_run_other_checkers", "_measure"):  # they take long
        monkeypatch.setattr(f"a3c_zoo.testing.environment_checks.{part}", lambda setup, findings: None)
    found = env_findings(registry, EnvEntry("toy", env_id=f"{TOYS}:WindowHouse-v0"), CheckOptions(steps=20))
    (finding,) = [finding for finding in found if finding.check == "render"]
    assert finding.status == "warning"
    assert "cannot be drawn: it opens a window, and there is no screen (" in finding.text
    assert finding.text.endswith("It may draw with SDL_VIDEODRIVER=dummy")


@pytest.mark.parametrize(
    ("said", "cure"),
    [
        ('Cannot connect to "None"', "xvfb-run -a"),  # pyglet
        ("No available video device", "SDL_VIDEODRIVER=dummy"),
        ("no display name and no $DISPLAY environment variable", "xvfb-run -a"),  # Tk
        ("b'X11: The DISPLAY environment variable is missing'", "xvfb-run -a"),  # GLFW
        ("list index out of range", ""),
    ],
)
def test_errors_of_libraries_that_find_no_screen(said: str, cure: str) -> None:
    """Also behind another error: packages give hints of their own."""

    kind: type[Exception] = RuntimeError
    if said.startswith("Cannot"):
        kind = type("NoSuchDisplayException", (Exception,), {})
    hint = ImportError("HINT: install it")
    hint.__cause__ = kind(said)
    for error in (kind(said), hint):
        undrawn = cannot_draw("toy", error)
        assert (undrawn is not None) is bool(cure)
        assert cure in str(undrawn or "")


@pytest.mark.parametrize("same_step", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_observations_of_parts_pass(registry: Registry, same_step: bool) -> None:
    found = env_findings(registry, EnvEntry("toy", f"{TOYS}:make_house", kwargs={"same_step": same_step}))
    assert told(found) == []
    assert "contract" in {finding.check for finding in found if finding.status == "ok"}


def test_an_environment_that_its_agent_does_not_fit(registry: Registry) -> None:
    found = env_findings(registry, EnvEntry("toy", env_id="Pendulum-v1", default_agent="a3"))
    (line,) = told(found)
    assert line.startswith("configuration: unknown agent 'a3'. Did you mean 'a3c'?")
    assert found[-1].cure == "correct EnvEntry.default_agent"
    (line,) = told(env_findings(registry, EnvEntry("toy", f"{TOYS}:make_frames")))
    assert line.startswith("fit: network 'mlp' takes vector observations")


# Agents


def agent_findings(registry: Registry, name: str) -> list[Finding]:
    """Those of an agent that counts steps and takes none, so that it learns nothing."""
    findings = Findings(f"agent '{name}'")
    entry = AgentEntry(name, f"{TOYS}:run", f"{TOYS}:load", sections=("run", "env", "agent"), one_process=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agent_checks, "_check_learning", lambda *checked: None)
        examine_agent(registry, entry, findings)
    return findings.found


def test_a_sound_agent(registry: Registry) -> None:
    found = agent_findings(registry, "sound")
    assert [(each.check, each.status) for each in found] == [("Discrete", "ok"), ("resume", "ok")]


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("crashes", "KeyError: 'policy'"),
        ("unstarted", "start: it calls record() before started()"),
        ("returns", "stop: its run() returned before settle() returned False"),
        ("shrinks", "reports: a report has 9980 steps after one with 9990"),
        ("diverges", " gradients were not finite and were not applied"),
        ("endless", "stop: it goes on after settle() returned False"),
        ("unsaved", "save: Snapshot.state() cannot be saved"),
        ("unloaded", "ValueError: no weights"),
        ("misplays", "Discrete: "),
        ("forgets", "resume: it counts 10 steps, where the run had"),
    ],
)
def test_faults_of_an_agent(registry: Registry, name: str, fault: str) -> None:
    found = told(agent_findings(registry, name))
    assert any(fault in line for line in found), found


@pytest.mark.parametrize(
    ("model", "fault"),
    [
        ("RefusingConfig", "Discrete: 20000 steps on small are not for me"),
        ("UnsayableConfig", f"configuration: config '{TOYS}:UnsayableConfig' cannot be used: Pydantic"),
    ],
)
def test_an_agent_whose_model_fails(model: str, fault: str, registry: Registry) -> None:
    findings = Findings("agent")
    sections = ("run", "env", "agent")
    entry = AgentEntry("toy", f"{TOYS}:run", f"{TOYS}:load", config=f"{TOYS}:{model}", sections=sections)
    examine_agent(registry, entry, findings)
    (told_of,) = told(findings.found)
    assert told_of.startswith(fault)


def test_an_agent_without_a_section_that_every_run_has(registry: Registry) -> None:
    findings = Findings("agent")
    examine_agent(registry, AgentEntry("toy", f"{TOYS}:run", f"{TOYS}:load", sections=("run", "agent")), findings)
    (line,) = told(findings.found)
    assert line.startswith("entry: a3c-zoo refuses its entry: zoo_agents() offers AgentEntry 'toy' with sections=")


def test_an_unknown_space_of_an_agent(registry: Registry) -> None:
    findings = Findings("agent")
    examine_agent(registry, AgentEntry("toy", f"{TOYS}:run", f"{TOYS}:load", spaces=("Discreet",)), findings)
    assert told(findings.found) == ["entry: spaces has Discreet, which a3c-zoo does not know"]


# Networks


def network_findings(kind: str, inputs: tuple[str, ...] = ("vector",)) -> list[Finding]:
    findings = Findings("network")
    examine_network(NetworkEntry("toy", f"{TOYS}:{kind}", inputs=inputs), findings)
    return findings.found


@pytest.mark.parametrize("kind", ["Sound", "Normed", "Remembers"])
def test_a_sound_network(kind: str) -> None:
    assert told(network_findings(kind)) == []
    assert told(network_findings(kind), "warning") == []


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        ("Column", "value() returned float32 [3, 1], where float32 [3] is expected"),
        ("Doubles", "policy() returned float64 [3, 5], where float32 [3, 5] is expected"),
        ("Silent", "NotImplementedError: Silent defines no method logits()"),
        ("Mixes", "policy() of one observation alone gives other numbers"),
        ("Drops", "policy() of the same observations gives other numbers"),
        ("Unseedable", "two networks of one seed have different weights"),
        ("Infinite", "value() returned numbers that are not finite"),
        ("Leaks", "logits of unroll() differ from those of step() and value_after()"),
        ("Blind", "values of unroll() differ from those of step() and value_after()"),
        ("Muddles", "states of unroll() differ from those of step() and value_after()"),
        ("Module", "network 'toy': the factory must return an ActorCritic, not a Module"),
        ("ClearsGradients", "the gradient of actor.weight is no view of the flat gradients any more"),
        ("TakesRoots", "after each weight has moved by 0.01, gradients are not finite"),
        ("KeepsScaled", "a second update fails: the network keeps something that it computed from its weights"),
        ("KeepsMoved", "a new network with the same weights and buffers returns other numbers"),
        ("KeepsOnceActed", "a new network with the same weights and buffers returns other numbers"),
        ("Raises", "mat1 and mat2 shapes cannot be multiplied"),
    ],
)
def test_faults_of_a_network(kind: str, fault: str) -> None:
    found = told(network_findings(kind))
    assert any(fault in line for line in found), found


def test_a_parameter_that_nothing_depends_on() -> None:
    assert "spare.weight gets no gradient" in str(network_findings("Idle"))


def test_a_parameter_that_is_frozen() -> None:
    warned = set(told(network_findings("Frozen"), "warning"))
    message = "actor.weight is not trained: its requires_grad is False, so its gradient stays 0"
    assert {line.partition(": ")[2] for line in warned} == {message}


def test_kinds_of_observations_that_no_environment_has() -> None:
    (line,) = told(network_findings("Sound", inputs=("vectors",)))
    assert line.startswith("inputs: inputs has vectors, so no environment fits it")
    assert told(network_findings("Sound", inputs=())) == ["inputs: inputs is empty, so no environment fits it"]


# Optimizers


def optimizer_findings(entry: OptimizerEntry) -> list[Finding]:
    findings = Findings("plugin")
    with findings.during("optimizer", "correct it, or its import string"):
        examine_optimizer(entry, OptimizerConfig(name=entry.name), findings, "optimizer")
    return findings.found


@pytest.mark.parametrize(
    "entry",
    [*(OptimizerEntry(each, f"{TOYS}:{each}") for each in ("Ball", "WarmsUp")), *zoo_optimizers()],
    ids=lambda e: e.name,
)
def test_a_sound_optimizer(entry: OptimizerEntry) -> None:
    assert [finding.status for finding in optimizer_findings(entry)] == ["ok"]


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        ("OutOfPlace", "311 updates do not change the parameters that it got"),
        ("OtherMemory", "311 updates do not change the parameters that it got"),
        ("DividesByZero", "an update gives parameters that are not finite"),
        ("ScalesGradient", "apply changes the gradient that it gets"),
        ("OtherMoments", "a new optimizer with the same moments makes other updates"),
        ("OtherMomentsByName", "a new optimizer with the same moments makes other updates"),
        ("Counts", "a new optimizer with the same moments makes other updates"),
        ("LooksAhead", "a new optimizer with the same moments makes other updates"),
        ("ListOfMoments", "optimizer 'toy': moments must return a dict of tensors by name, not a list"),
        ("Idler", "optimizer 'toy' needs a method apply(gradient, learning_rate): None is not a callable object"),
        ("RatelessBall", "needs a method apply(gradient, learning_rate): too many positional arguments"),
        ("NumberAsMoment", "moments must return a dict of tensors by name; 'velocity' is of type int"),
    ],
)
def test_faults_of_an_optimizer(kind: str, fault: str) -> None:
    (line,) = told(optimizer_findings(OptimizerEntry("toy", f"{TOYS}:{kind}")))
    assert fault in line


# Sets and plugins

PLUGIN = """
import a3c_zoo
from a3c_zoo import EnvEntry, HyperparamEntry, hookimpl
@hookimpl
def zoo_envs():
    return [EnvEntry("hill", env_id="MountainCar-v0")]
@hookimpl
def zoo_hyperparams():
    return [HyperparamEntry("hill_sets"), HyperparamEntry("no_sets")]
"""


@pytest.fixture
def hill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a plugin whose sets have faults, as an editable install finds it."""
    plugin_distribution(tmp_path, "hill-plugin", PLUGIN)
    for name in ("hill_sets/hill", "hill_sets/hil", "no_sets"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "no_sets/__init__.py").touch()
    (tmp_path / "hill_sets/__init__.py").touch()
    (tmp_path / "hill_sets/hill/a3c.yml").write_text("agent:\n  gama: 0.9\n  n_steps: 0\n")
    (tmp_path / "hill_sets/hill/a3c-images.yml").write_text("network:\n  name: nature\n")
    (tmp_path / "hill_sets/hil/a3c.yml").write_text("agent:\n  gamma: 0.9\n")
    (tmp_path / "pyproject.toml").write_text('[build-system]\nrequires = ["setuptools"]\n')
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("hill_plugin", "hill_sets", "no_sets"):  # of an earlier test
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def plugin_findings(name: str, status: str = "problem") -> list[str]:
    registry, found = load_registry(), list[Finding]()
    for job in jobs_for(registry, name):
        findings = Findings(job.subject)
        job.examine(registry, findings)
        found += findings.found
    return told(found, status)


def test_faults_of_sets_are_found_together(hill: Path) -> None:
    found = plugin_findings("hill-plugin")
    assert len(found) == 8, found  # the first two also of the environment whose set it is
    assert any("hill/a3c.yml:2 agent.gama: unknown key. Did you mean 'gamma'?" in line for line in found)
    assert any("hill/a3c.yml:3 agent.n_steps: 0" in line for line in found)
    assert any("network 'nature' takes image observations" in line for line in found)
    assert any("folder 'hil' of hill_sets is named after no environment" in line for line in found)
    assert any(line.startswith("package: it holds no sets") for line in found)
    assert any("package data: the wheel will not hold" in line and "hill/a3c.yml" in line for line in found)


AGENT_PLUGIN = """
from a3c_zoo import TrainedEntry, hookimpl
@hookimpl
def zoo_trained():
    return [TrainedEntry("pole-a3c", "cartpole", "a3c", "pole_agents", revision=1)]
"""


@pytest.mark.parametrize(
    ("patterns", "lacks"),
    [
        (["*.yml", "py.typed"], "meta.json, pole-a3c/outcome.json, pole-a3c/parameters.safetensors"),
        (["*.csv", "*.yml", "*.json", "*.safetensors"], ""),  # of docs/how-to/use-a-trained-agent.md
    ],
)
def test_a_trained_agent_that_the_wheel_will_not_hold(
    patterns: list[str], lacks: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin_distribution(tmp_path, "pole-plugin", AGENT_PLUGIN)
    outcome = a3c_zoo.train("cartpole", serial=True, steps=200, runs_dir=tmp_path)
    save(outcome.run, tmp_path / "pole_agents" / "pole-a3c", episodes=1)
    (tmp_path / "pole_agents/__init__.py").touch()
    data = f'[tool.setuptools.package-data]\n"*" = {patterns}\n'
    (tmp_path / "pyproject.toml").write_text(f'[build-system]\nrequires = ["setuptools"]\n{data}')
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("pole_plugin", "pole_agents"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    found = [line for line in plugin_findings("pole-plugin") if "wheel" in line]
    assert len(found) == bool(lacks)
    assert all(f"the wheel will not hold pole-a3c/{lacks}" in line for line in found)


@pytest.mark.parametrize(("section", "says_more"), [("options.package_data", True), ("flake8", False)])
def test_a_setup_cfg_may_say_more(section: str, says_more: bool, hill: Path) -> None:
    (hill / "setup.cfg").write_text(f"[{section}]\n* = *.yml\n")
    assert any("package data" in line for line in plugin_findings("hill-plugin")) != says_more


@pytest.mark.parametrize(
    ("packages", "pattern", "is_held"),
    [
        ("", "**.yml", True),
        ("", "*.yml", True),  # found by themselves: the folder of a set is a namespace package
        ('packages = ["hill_sets"]', "*.yml", False),
        ('packages = ["hill_sets", "hill_sets.hill", "hill_sets.hil"]', "*.yml", True),
        ('packages = ["hill_sets"]', "**/*.yml", True),
        ("packages.find = {namespaces = false}", "*.yml", False),
        ('packages.find = {where = ["src"]}', "*.yml", True),
    ],
)
def test_package_data_that_is_named(hill: Path, packages: str, pattern: str, is_held: bool) -> None:
    data = f'[tool.setuptools]\n{packages}\n[tool.setuptools.package-data]\n"*" = ["{pattern}"]\n'
    (hill / "pyproject.toml").write_text(f'[build-system]\nrequires = ["setuptools"]\n{data}')
    assert any("package data" in line for line in plugin_findings("hill_sets")) != is_held


@pytest.mark.parametrize(
    ("package", "pattern", "is_held"),
    [
        ("hill_sets", "*.yml", False),  # only of files beside hill_sets/__init__.py
        ("hill_sets", "*/*.yml", True),
        ("hill_sets", "**/*.yml", True),
        ("hill_sets", "/*.yml", False),
        ("hill_sets", "hill/*.yml", False),  # the set in hil is left out
        ("other", "*/*.yml", False),
        ("hill_sets.hill", "*.yml", False),
    ],
)
def test_package_data_of_one_package(hill: Path, package: str, pattern: str, is_held: bool) -> None:
    data = f'[tool.setuptools.package-data]\n"{package}" = ["{pattern}"]\n'
    (hill / "pyproject.toml").write_text(f'[build-system]\nrequires = ["setuptools"]\n{data}')
    found = [line for line in plugin_findings("hill_sets") if "package data" in line]
    assert bool(found) != is_held
    if package == "hill_sets.hill":
        assert "hil/a3c.yml" in found[0]
        assert "hill/a3c.yml" not in found[0]


def test_sets_of_an_installed_wheel_below_a_project(hill: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The project of a user whose virtual environment lies within it says nothing of a plugin's wheel."""
    site = hill / ".venv/lib/python3.11/site-packages"
    site.mkdir(parents=True)
    (hill / "hill_sets").rename(site / "hill_sets")
    monkeypatch.syspath_prepend(site)
    assert plugin_findings("hill_sets") == []
    assert plugin_findings("hill_sets", "ok") == ["package: 3 sets"]


def test_the_zoos_own_plugins_are_sound() -> None:
    registry = load_registry(Selection(allowed=frozenset()))
    for info in registry.plugins:
        findings = Findings(info.name)
        examine_plugin(registry, info, findings)
        assert told(findings.found) == []


@pytest.mark.parametrize(
    ("file", "warnings"), [("", ["import: its import takes 500 ms, in every command"]), ("corridor.py", [])]
)
def test_a_slow_import_slows_commands_unless_they_name_the_file(file: str, warnings: list[str]) -> None:
    registry = load_registry(Selection(allowed=frozenset()))
    info = next(info for info in registry.plugins if info.name == "envs")
    findings = Findings(info.name)
    examine_plugin(registry, replace(info, import_s=0.5, file=file), findings)
    assert told(findings.found, "warning") == warnings


def test_a_set_that_is_not_read_for_its_name(hill: Path) -> None:
    (hill / "hill_sets/hill/a3c-far.yaml").write_text("agent:\n  gamma: 0.999\n")
    assert plugin_findings("hill_sets", "warning") == ["package: hill/a3c-far.yaml is not read"]


def test_sets_of_a_family_without_an_example_are_not_tried(hill: Path) -> None:
    text = PLUGIN.replace('EnvEntry("hill", env_id="MountainCar-v0")', 'EnvFamily("hil", "json:loads")')
    (hill / "hill_plugin.py").write_text(text.replace("import EnvE", "import EnvFamily, EnvE"))
    (line,) = plugin_findings("hil/a3c", "warning")
    assert line.startswith("environment: the family names no example, so the set is not tried")
    assert plugin_findings("hil/a3c") == []


def test_a_project_file_that_is_no_toml(hill: Path) -> None:
    (hill / "pyproject.toml").write_text("[tool")
    (line,) = plugin_findings("hill_sets")
    assert line.startswith("package data: TOMLDecodeError")


def test_sets_whose_family_or_agent_fails(hill: Path) -> None:
    family = (
        'EnvFamily("hil", "json:loads", examples=("hil:1",)), EnvEntry("hill", env_id="M-v0", default_agent="a3cc")'
    )
    text = PLUGIN.replace('EnvEntry("hill", env_id="MountainCar-v0")', family).replace(
        "import EnvE", "import EnvFamily, EnvE"
    )
    (hill / "hill_plugin.py").write_text(text)
    (hill / "hill_sets/hill/fast.yml").touch()
    found = plugin_findings("hil/a3c") + plugin_findings("hill/fast")
    assert [line[:60] for line in found] == [
        "environment: environment 'hil:1' of plugin 'hill-plugin' (hi",
        "agent: unknown agent 'a3cc'. Did you mean 'a3c'? See: a3c-zo",
    ]


def test_a_set_by_its_name(hill: Path) -> None:
    (line,) = plugin_findings("hill/a3c-images")
    assert "network 'nature' takes image observations" in line


def test_a_faulty_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin_distribution(tmp_path, "broken-plugin", "import no_such_module")
    monkeypatch.syspath_prepend(tmp_path)
    (line,) = plugin_findings("broken-plugin")
    assert line.startswith("loading: its import failed: ModuleNotFoundError: No module named 'no_such_module'")


OFFERS = """
from a3c_zoo import CommandEntry, EngineEntry, EnvFamily, HookEntry, OptimizerEntry, hookimpl
@hookimpl
def zoo_commands():
    return [CommandEntry("dig", "json:loads")]
@hookimpl
def zoo_engines():
    return [EngineEntry("far", "json:__doc__", config="json:loads")]
@hookimpl
def zoo_envs():
    return [
        EnvFamily("caves", "json:resolve"),
        EnvFamily("holes", "json:__doc__"),
        EnvFamily("pits", "json:loads", examples=("pits:deep",)),
    ]
@hookimpl
def zoo_hooks():
    return [HookEntry("watch", "json:loads")]
@hookimpl
def zoo_optimizers():
    return [OptimizerEntry("steep", "json:__name__"), OptimizerEntry("still", "tests.toys_checks:OutOfPlace")]
"""


def test_what_else_a_plugin_offers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin_distribution(tmp_path, "mine-plugin", OFFERS)
    monkeypatch.syspath_prepend(tmp_path)
    found = plugin_findings("mine-plugin")
    assert {line.partition(" — ")[0][:50] for line in found} == {
        "command dig: it is no click.Command",
        "environment caves: 'json:resolve': module 'json' h",
        "environment holes: resolve is not callable",
        "environment pits: plugin 'mine-plugin' (mine-plugi",
        "entry: factory 'json:__doc__' is not callable",
        "configuration: config 'json:loads' must be a subcl",
        "entry: factory 'json:__name__' is not callable",
        "optimizer still: 311 updates do not change the par",
        "run hook watch: run hook 'watch' of plugin 'mine-p",
    }
    assert plugin_findings("mine-plugin", "warning") == ["requirement: mine-plugin does not require a3c-zoo"]


def test_signs_of_life_come_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often a check gives them: each is a message to another process."""
    sent: list[bytes] = []
    pipe: Any = SimpleNamespace(send_bytes=sent.append)
    moments = iter((100.0, 100.5, 100.9, 101.1, 101.2, 109.0))
    monkeypatch.setattr(checkup, "time", SimpleNamespace(monotonic=lambda: next(moments)))
    findings = checkup._SentFindings("toy", pipe)
    for _ in range(6):
        findings.give_sign()
    assert sent == [b'["goes on"]'] * 3


# What harms its process

HARM = """
import ctypes, multiprocessing, os, time
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
import gymnasium
from a3c_zoo import EnvEntry, NetworkEntry, hookimpl

class Harm(CartPoleEnv):
    def __init__(self, how, render_mode=None):
        super().__init__(render_mode=render_mode)
        self.how = how
        os.write(1, b"noise of a library")

    def step(self, action):
        harm(self.how)
        return super().step(action)

def harm(how):
    if how == "exits":
        os.fork() or time.sleep(1000)
        os._exit(3)
    if how == "crashes":
        ctypes.string_at(0)
    if how == "hangs":
        ctypes.PyDLL(None).sleep(1000)  # holds Python's global lock
    if how == "loses its worker" and "worker" in multiprocessing.current_process().name:
        os._exit(4)

def broken(*arguments):
    harm("crashes")

gymnasium.register("Harm-v0", Harm)

@hookimpl
def zoo_envs():
    return [EnvEntry(how.replace(" ", "-"), env_id="harm:Harm-v0", kwargs={"how": how}) for how in ENVS]

@hookimpl
def zoo_networks():
    return [NetworkEntry("broken", "harm:broken", inputs=("vector",))]
"""


@pytest.fixture
def harm(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A plugin file with the environments of `request.param`, and a network that ends its process."""
    (tmp_path / "harm.py").write_text(f"ENVS = {request.param}\n{HARM}")
    return tmp_path / "harm.py"


@pytest.mark.parametrize("harm", [["exits"]], indirect=True)
def test_the_end_of_a_process_is_a_problem_of_what_ended_it(harm: Path) -> None:
    result = run_check("harm", "--json", "--plugin", str(harm))
    found = [Finding(**each) for each in json.loads(result.stdout)]
    assert result.returncode == 1
    assert [(each.subject, each.check, each.text, each.cure) for each in found if each.status == "problem"] == [
        (
            "environment 'exits'",
            "contract",
            "its process ended by itself with exit status 3",
            "correct the environment",
        ),
        (
            "network 'broken'",
            "vector, Box",
            "its process was ended by signal SIGSEGV",
            "correct the network, or leave 'vector' out of NetworkEntry.inputs; PYTHONFAULTHANDLER=1 shows the line",
        ),
    ]
    assert set(result.stderr.split("noise of a library")) == {""}


@pytest.mark.slow
@pytest.mark.parametrize("harm", [["crashes", "hangs", "loses its worker"]], indirect=True)
def test_environments_that_harm_their_process(harm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A3C_ZOO_PLUGIN_FILES", str(harm))
    monkeypatch.setattr(MODULE_FILES, "paths", {})
    monkeypatch.delitem(sys.modules, "harm", raising=False)
    jobs = [job for job in jobs_for(load_registry(), "harm") if job.subject.startswith("environment")]
    problems = [finding for finding in check(jobs, limit_s=30.0) if finding.status == "problem"]
    assert [(each.subject, each.check, each.text) for each in problems] == [
        ("environment 'crashes'", "contract", "its process was ended by signal SIGSEGV"),
        ("environment 'hangs'", "contract", "its process was ended after 30 s: does it hang?"),
        ("environment 'loses-its-worker'", "in a worker", "worker 0 ended by itself with exit status 4"),
    ]
    assert multiprocessing.active_children() == []


def test_what_cannot_be_pickled_is_a_problem(registry: Registry) -> None:
    (sound,) = jobs_for(registry, "cartpole/a3c")
    job = sound._replace(what=EnvEntry("toy", env_id="CartPole-v1", kwargs={"key": lambda: 0}))
    (finding,) = check([job])
    assert (finding.subject, finding.check, finding.status) == (job.subject, "entry", "problem")
    assert finding.text.startswith("it cannot be sent to a process: AttributeError: Can't pickle local object")


def test_what_gives_signs_is_told_to_go_on(registry: Registry) -> None:
    """A simulator whose steps are shorter than the parent's looks, and whose check is long."""
    told: list[tuple[str, str, float]] = []
    (job,) = jobs_for(registry, "cartpole")
    findings = check([job], on_wait=lambda *each: told.append(each))
    assert next(findings).check == "contract"
    findings.close()  # type: ignore[attr-defined]
    assert ("environment 'cartpole'", "contract") in {(subject, part) for subject, part, _ in told}
    assert all(waited_s >= 0 for _, _, waited_s in told)


def test_a_baseline_that_measures_passes(registry: Registry) -> None:
    """What it tells of threads and vector environments is no fault of a worker."""
    findings = Findings("baseline")
    examine_agent(registry, registry.agent("sb3-a2c"), findings)
    assert told(findings.found) == []
    assert {"resume", "learning"} <= {finding.check for finding in findings.found}


def test_an_agent_that_does_not_learn(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its most probable actions may be the right ones by chance. Sampled ones are not."""
    monkeypatch.setattr("a3c_zoo.testing.agent_checks.LEARN_STEPS", 3000)
    findings = Findings("agent")
    entry = replace(registry.agent("a3c"), name="unpaid", run=f"{TOYS}:run_unpaid", spaces=("Discrete",))
    examine_agent(registry, entry, findings)
    assert [finding.check for finding in findings.found if finding.status == "problem"] == ["learning"]


def test_an_agent_with_a_wrong_bootstrap_does_not_learn(registry: Registry) -> None:
    """All else about it is right. The same agent without the fault passes."""
    for run, statuses in (("a3c_zoo.agents.a3c:run_a3c", {"ok"}), (f"{TOYS}:run_crossing", {"problem"})):
        entry = replace(registry.agent("a3c"), name="crossing", run=run, spaces=("Discrete",))
        findings = Findings("agent")
        examine_agent(registry, entry, findings)
        assert {finding.status for finding in findings.found if finding.check == "learning"} == statuses
        assert {finding.check for finding in findings.found if finding.status == "problem"} <= {"learning"}


# The command


def run_check(*arguments: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "a3c_zoo", "check", *arguments]
    return subprocess.run(command, cwd=path, capture_output=True, text=True, timeout=LIMIT_S, check=False)


def test_an_environment_is_checked_with_other_settings(registry: Registry) -> None:
    """With a limit of 5 steps and 20 actions episodes end; with one of 50 they do not."""
    entry = registry.env("gym:MountainCar-v0")
    short = CheckOptions(("env.max_episode_steps=5",), steps=20)
    (job,) = jobs_for(registry, "cartpole", CheckOptions(("env.num_envs=3",)))[:1]
    assert job.options.overrides == ("env.num_envs=3",)
    assert "episodes" not in {finding.check for finding in env_findings(registry, entry, short)}
    found = env_findings(registry, entry, CheckOptions(("env.max_episode_steps=50",), steps=20))
    (text,) = [finding.text for finding in found if finding.check == "episodes"]
    assert text == "no episode ended within 20 steps of random actions, so no end was checked"


@pytest.mark.parametrize(
    ("name", "options", "line"),
    [
        ("a3c", CheckOptions(steps=3), "-o and --steps are for environments, and 'a3c' is none"),
        ("cartpole", CheckOptions(("env.num_env=3",)), "Did you mean 'num_envs'"),
        ("cartpole", CheckOptions(("env.num_envs=0",)), "env.num_envs"),
    ],
)
def test_options_that_fit_no_check(registry: Registry, name: str, options: CheckOptions, line: str) -> None:
    with pytest.raises(ZooError, match=re.escape(line)):
        jobs_for(registry, name, options)


SLOW = """
import time
import gymnasium

calls = []

def make(**options):
    calls.append(options)
    time.sleep(3 if len(calls) == 1 else 0)
    raise RuntimeError("no simulator")

gymnasium.register("Slow-with-a-name-that-is-long-v0", entry_point="slow:make")
"""


@pytest.mark.parametrize(("term", "is_drawn"), [("xterm", True), ("dumb", False)])
def test_a_line_on_the_terminal_says_what_takes_long(term: str, is_drawn: bool, tmp_path: Path) -> None:
    """It is narrower than the terminal, so that it can be removed."""
    (tmp_path / "slow.py").write_text(SLOW)
    command = [sys.executable, "-m", "a3c_zoo", "check", "gym:slow:Slow-with-a-name-that-is-long-v0"]
    master, slave = pty.openpty()
    os.write(slave, b"begin")
    variables = {**environ(), "COLUMNS": "40", "TERM": term}
    done = subprocess.run(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=slave, env=variables, timeout=LIMIT_S, check=False
    )
    begin, *lines = os.read(master, 65536).decode().split("\r\x1b[K")
    os.close(slave)
    os.close(master)
    assert begin == "begin"
    assert bool(lines) == is_drawn
    assert all(line.startswith("environment 'gym:slow:Slow-with") and len(line) == 39 for line in lines if line)
    assert b"no simulator" in done.stdout


def test_cartpole_in_little_time(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = run_check("CartPole-v1", "--json", path=tmp_path)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert result.returncode == 0, result.stderr
    assert re.fullmatch("Note: CartPole-v1 is cartpole here.*\n", result.stderr)
    found = json.loads(result.stdout)
    assert {finding["status"] for finding in found} == {"ok", "warning"}
    assert {finding["subject"] for finding in found} == {"environment 'cartpole'"}
    assert all(finding.keys() == {"subject", "check", "status", "text", "cure", "figures"} for finding in found)
    checks = [finding["check"] for finding in found]
    measured = ["reward scale", "rewarded steps", "episode length", "observed range"]
    later = ["render", "gymnasium", "sb3", "speed alone", "in a worker"]
    assert [*dict.fromkeys(checks)] == ["contract", "spaces", *measured, *later]
    figures = {finding["check"]: finding["figures"] for finding in found}
    assert figures["reward scale"]["reward_mean"] == 1  # each step of CartPole
    assert figures["rewarded steps"]["rewarded_share"] == 1
    assert 8 <= figures["episode length"]["length_min"] < figures["episode length"]["length_mean"] < 30
    assert figures["observed range"]["numbers"] == 4
    assert figures["contract"] == {}
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    before_s = time.process_time()
    sum(number * number for number in range(5_000_000))
    assert cpu_s < 150 * (time.process_time() - before_s)  # 30 s where this takes 0.2 s; a check takes 5 s there
    assert list(tmp_path.iterdir()) == []  # it makes no run directory


def test_the_command_shows_a_table_and_the_exit_status(hill: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(hill))
    result = run_check("hill/a3c", path=hill)
    assert (result.returncode, result.stderr) == (1, "")
    lines = result.stdout.splitlines()
    assert lines[0] == "set 'hill/a3c' of hill_sets"
    assert lines[1] == "problem  values            hill/a3c.yml:2 agent.gama: unknown key. Did you mean 'gamma'?"
    assert lines[2].strip() == "cure: a3c-zoo show hyperparams hill --agent a3c shows the keys"
    assert lines[-1] == "0 ok, warnings: 0, problems: 2"


def test_the_traceback_of_a_problem(tmp_path: Path) -> None:
    """The error is one of a process of the command."""
    source = """
from a3c_zoo import EnvEntry, hookimpl
@hookimpl
def zoo_envs(): return [EnvEntry("lost", "file_bare:make")]
def make(): ...
"""
    (tmp_path / "file_bare.py").write_text(source)
    result = run_check("lost", "--json", "--plugin", "file_bare.py", "--debug", path=tmp_path)
    assert result.returncode == 1
    assert "Its traceback: --debug" in json.loads(result.stdout)[0]["text"]
    assert result.stderr.startswith("Traceback (most recent call last):\n")
    assert "TypeError: make() takes 0 positional arguments" in result.stderr


def test_an_unreadable_package_is_told_once(tmp_path: Path) -> None:
    """Though the command and its process both read all packages, and more than once."""
    offer = "@hookimpl\ndef zoo_hyperparams(): return [HyperparamEntry('no_such_sets')]\n"
    (tmp_path / "file_lost.py").write_text(f"from a3c_zoo import HyperparamEntry, hookimpl\n{offer}")
    result = run_check("file_lost", "--plugin", "file_lost.py", path=tmp_path)
    line = "hyperparameter package 'no_such_sets' cannot be read: No module named 'no_such_sets'\n"
    assert (result.returncode, result.stderr) == (1, line)


def test_an_unknown_name() -> None:
    result = run_check("cartpoll")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        "Error: unknown environment, agent, network, set or plugin 'cartpoll'. Did you mean 'cartpole'? "
        "See: a3c-zoo list --help\n"
    )
