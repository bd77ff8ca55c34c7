"""Run hooks reach plugins through real entry points; every hook is tested and documented."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from a3c_zoo.config import AgentConfig, Config, EnvConfig, RunConfig
from a3c_zoo.errors import PluginError
from a3c_zoo.plugins import hookspecs
from a3c_zoo.plugins.loading import HOOKS, Selection
from a3c_zoo.plugins.registry import Registry, load_registry
from a3c_zoo.records import Episode, Outcome, Progress, RunInfo
from a3c_zoo.testing import plugin_distribution

CONFIG = Config("cartpole", "a3c", RunConfig.model_validate({}), EnvConfig.model_validate({}), AgentConfig())
RUN = RunInfo(Path("runs/x"), "cartpole", "a3c", CONFIG)
EPISODE = Episode(episode_return=21.0, length=21, step=21, time_s=1.0, worker=0)
PROGRESS = Progress(21, 1, 0, 0.5, 42.0, 21.0, 21.0, 1, {})
OUTCOME = Outcome(RUN.path, False, "steps", "", 21, 1, 0, 0.5, 0.0, 0.0, 0.0, 0.5, 42.0, 21.0, None)

PAGE = Path(__file__).parents[1] / "docs/reference/hooks.md"

LISTENER = """
from a3c_zoo import *

heard = []

@hookimpl
def zoo_run_start(run):
    heard.append(("start", run))

@hookimpl
def zoo_episode(run, episode):
    heard.append(("episode", run, episode))

@hookimpl
def zoo_metrics(progress):
    heard.append(("metrics", progress))

@hookimpl
def zoo_should_stop(run, progress):
    return "seen enough" if progress.steps > 20 else None

@hookimpl
def zoo_run_end(run, outcome):
    heard.append(("end", run, outcome))

@hookimpl
def zoo_envs():
    return [EnvEntry("hooked-env", "m:f"), EnvFamily("hooked", "m:f")]

@hookimpl
def zoo_agents():
    return [AgentEntry("hooked-agent", "m:f", "m:f")]

@hookimpl
def zoo_networks():
    return [NetworkEntry("hooked-network", "m:f")]

@hookimpl
def zoo_optimizers():
    return [OptimizerEntry("hooked-optimizer", "m:f")]

@hookimpl
def zoo_hyperparams():
    return [HyperparamEntry("hooked_sets")]

@hookimpl
def zoo_hooks():
    return [HookEntry("hooked-hooks", "m:f")]

@hookimpl
def zoo_trained():
    return [TrainedEntry("hooked-trained", "hooked-env", "hooked-agent", "hooked")]

@hookimpl
def zoo_engines():
    return [EngineEntry("hooked-engine", "m:f")]

@hookimpl
def zoo_commands():
    return (CommandEntry(name, "m:f") for name in ["hooked-command"])
"""

RAISER = """
from a3c_zoo import hookimpl

@hookimpl
def zoo_metrics():
    helper()

def helper():
    raise ValueError("disk of the dashboard is full")
"""


def registry_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **sources: str) -> Registry:
    for name, source in sources.items():
        monkeypatch.syspath_prepend(plugin_distribution(tmp_path / name, name, source))
        monkeypatch.delitem(sys.modules, name, raising=False)
    registry = load_registry(Selection(allowed=frozenset(sources)))
    assert registry.faults == ()
    return registry


def test_run_hooks_reach_the_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hooks = registry_with(tmp_path, monkeypatch, listener=LISTENER).run_hooks({})
    assert hooks.wants_episodes
    hooks.run_start(RUN)
    hooks.episode(RUN, EPISODE)
    hooks.metrics(RUN, PROGRESS)
    assert hooks.should_stop(RUN, PROGRESS) == "seen enough"
    hooks.run_end(RUN, OUTCOME)
    heard: list[Any] = importlib.import_module("listener").heard
    assert heard == [("start", RUN), ("episode", RUN, EPISODE), ("metrics", PROGRESS), ("end", RUN, OUTCOME)]


@pytest.mark.parametrize("name", ["a_calm_one", "the_calm_one"])  # one is called before, one after
@pytest.mark.parametrize("no_reason", ["", False, None])
def test_no_reason_to_stop_keeps_no_other_plugin_from_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, no_reason: object
) -> None:
    calm = f"from a3c_zoo import hookimpl\n@hookimpl\ndef zoo_should_stop():\n    return {no_reason!r}\n"
    hooks = registry_with(tmp_path, monkeypatch, listener=LISTENER, **{name: calm}).run_hooks({})
    assert hooks.should_stop(RUN, PROGRESS) == "seen enough"


def test_offering_hooks_fill_the_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = registry_with(tmp_path, monkeypatch, listener=LISTENER)
    assert {"hooked-env"} <= set(registry.envs)
    assert {"hooked"} <= set(registry.families)
    assert {"hooked-agent"} <= set(registry.agents)
    assert {"hooked-network"} <= set(registry.networks)
    assert {"hooked-optimizer"} <= set(registry.optimizers)
    assert {"hooked_sets"} <= set(registry.hyperparams)
    assert {"hooked-hooks"} <= set(registry.hooks)
    assert {"hooked-trained"} <= set(registry.trained)
    assert {"hooked-engine"} <= set(registry.engines)
    assert {"hooked-command"} <= set(registry.commands)
    assert next(info.hooks for info in registry.plugins if info.name == "listener") == HOOKS


def test_without_plugins_run_hooks_do_nothing() -> None:
    hooks = Registry([]).run_hooks({})
    assert not hooks.wants_episodes
    hooks.run_start(RUN)
    hooks.episode(RUN, EPISODE)
    hooks.metrics(RUN, PROGRESS)
    assert hooks.should_stop(RUN, PROGRESS) is None
    hooks.run_end(RUN, OUTCOME)


def test_a_run_hook_that_raises_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hooks = registry_with(tmp_path, monkeypatch, listener=LISTENER, raiser=RAISER).run_hooks({})
    with pytest.raises(PluginError) as caught:
        hooks.metrics(RUN, PROGRESS)
    assert str(caught.value) == (
        "plugin 'raiser' (raiser 1.0) failed in zoo_metrics: ValueError: disk of the dashboard is full"
    )
    assert isinstance(caught.value.__cause__, ValueError)


def test_two_run_hooks_that_are_one_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "from a3c_zoo import *\nclass One:\n    @hookimpl\n    def zoo_run_start(self): pass\n"
    source += "one = One()\ndef make(config): return one\n@hookimpl\ndef zoo_hooks():\n"
    source += "    return [HookEntry(name, hooks='twin:make') for name in ('first', 'second')]\n"
    registry = registry_with(tmp_path, monkeypatch, twin=source)
    registry.run_hooks({"second": None})
    with pytest.raises(PluginError, match=r"'second' of .*the same object, or equal$"):
        registry.run_hooks({"first": None, "second": None})


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_is_documented(hook: str) -> None:
    function = getattr(hookspecs, hook)
    assert inspect.getdoc(function)
    parameters = inspect.signature(function).parameters
    for parameter in parameters:
        assert f"\n    {parameter}: " in (hookspecs.__doc__ or "")
    assert f"| `{hook}({', '.join(parameters)})`" in PAGE.read_text(encoding="utf-8")


def test_the_page_has_a_sound_example_of_each_hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, *parts = PAGE.read_text(encoding="utf-8").split("```python\n")
    _complete, *examples = (part.partition("```")[0] for part in parts)
    registry = registry_with(tmp_path, monkeypatch, documented="\n".join(examples))
    assert next(info.hooks for info in registry.plugins if info.name == "documented") == HOOKS
    hooks = registry.run_hooks({})
    hooks.run_start(RUN)
    hooks.episode(RUN, EPISODE)
    hooks.metrics(RUN, PROGRESS)
    assert hooks.should_stop(RUN, PROGRESS) is None
    hooks.run_end(RUN, OUTCOME)


def test_a_run_hook_that_exits_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "from a3c_zoo import hookimpl\n@hookimpl\ndef zoo_run_end(): exit(3)\n"
    with pytest.raises(PluginError, match=r"'quitter' .*in zoo_run_end: SystemExit: 3$"):
        registry_with(tmp_path, monkeypatch, quitter=source).run_hooks({}).run_end(RUN, OUTCOME)


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_has_an_effect_of_its_own(hook: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin with this hook of the listener alone offers an entry, or hears of one moment of a run."""
    head, *functions = LISTENER.split("@hookimpl\n")
    (function,) = (each for each in functions if each.startswith(f"def {hook}("))
    registry = registry_with(tmp_path, monkeypatch, single=f"{head}@hookimpl\n{function}")
    offers: list[Iterable[str]] = [registry.envs, registry.agents, registry.networks, registry.optimizers]
    offers += [registry.hyperparams, registry.hooks, registry.trained, registry.engines, registry.commands]
    effects: list[Any] = [name for offer in offers for name in offer if name.startswith("hooked")]
    hooks = registry.run_hooks({})
    hooks.run_start(RUN)
    hooks.episode(RUN, EPISODE)
    hooks.metrics(RUN, PROGRESS)
    effects += [reason] if (reason := hooks.should_stop(RUN, PROGRESS)) else []
    hooks.run_end(RUN, OUTCOME)
    effects += importlib.import_module("single").heard
    assert len(effects) == 1
