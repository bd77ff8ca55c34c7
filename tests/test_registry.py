"""Names → entries: look-ups, families, clashes between plugins."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
import pytest

from a3c_zoo import (
    AgentEntry,
    CommandEntry,
    EngineEntry,
    EnvEntry,
    EnvFamily,
    HookEntry,
    HyperparamEntry,
    NetworkEntry,
    OptimizerEntry,
    TrainedEntry,
)
from a3c_zoo.errors import PluginError, UnknownNameError
from a3c_zoo.plugins.entries import Entry
from a3c_zoo.plugins.loading import Plugin, PluginInfo, Selection
from a3c_zoo.plugins.registry import Registry, get_registry, load_registry

MAZE = EnvEntry("maze", "toy_envs:make")


def plugin(name: str, *entries: Entry, first_party: bool = False) -> Plugin:
    return Plugin(PluginInfo(name, name, f"{name}-dist", "1.0", first_party), ModuleType(name), entries)


@pytest.fixture(scope="module")
def first_party() -> Registry:
    return load_registry(Selection(allowed=frozenset()))


def test_first_party_entries(first_party: Registry) -> None:
    assert {"cartpole"} <= set(first_party.envs)
    assert {"gym"} <= set(first_party.families)
    assert {"a3c"} <= set(first_party.agents)
    assert {"mlp"} <= set(first_party.networks)
    assert {"adam", "rmsprop"} == set(first_party.optimizers)
    assert set(first_party.hyperparams) == {"a3c_zoo_hyperparams"}
    assert {"train", "evaluate", "list", "show"} <= set(first_party.commands)
    assert first_party.faults == ()


def test_names_resolve_to_entries_and_their_plugins(first_party: Registry) -> None:
    env, agent, network = first_party.env("cartpole"), first_party.agent("a3c"), first_party.network("mlp")
    assert (env.name, env.threshold) == ("cartpole", 475.0)
    assert [first_party.owner(entry).name for entry in (env, agent, network)] == ["envs", "core", "core"]


def test_gym_family(first_party: Registry) -> None:
    entry = first_party.env("gym:Acrobot-v1")
    assert (entry.name, entry.env_id, entry.threshold) == ("gym:Acrobot-v1", "Acrobot-v1", -100.0)
    assert first_party.owner(entry).name == "envs"


def picture(size: int, dtype: str = "uint8") -> gymnasium.spaces.Box:
    return gymnasium.spaces.Box(0, 1, (size, size, 3), np.dtype(dtype).type)


@pytest.mark.parametrize(
    ("space", "variant"),
    [
        (picture(96), "image"),
        (picture(36), "image"),
        (picture(35), "mixed"),
        (picture(96, "bool"), "mixed"),
        (picture(96, "float32"), ""),
        (gymnasium.spaces.Dict(seen=picture(96), speed=gymnasium.spaces.Discrete(3)), "mixed"),
        (gymnasium.spaces.Tuple([gymnasium.spaces.Discrete(3)]), ""),
    ],
)
def test_the_variant_follows_from_the_images(first_party: Registry, space: Any, variant: str) -> None:
    class Pictures(gymnasium.Env[Any, Any]):
        observation_space = space
        action_space = gymnasium.spaces.Discrete(2)

    gymnasium.register("Pictures-v0", lambda **_: Pictures())
    try:
        assert first_party.env("gym:Pictures-v0").variant == variant
    finally:
        del gymnasium.registry["Pictures-v0"]


def test_an_environment_that_cannot_be_closed_has_its_variant(first_party: Registry) -> None:
    class Stuck(gymnasium.Env[Any, Any]):
        observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
        action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

        def close(self) -> None:
            raise RuntimeError("it cannot be closed")

    gymnasium.register("Stuck-v0", lambda **_: Stuck())
    try:
        assert first_party.env("gym:Stuck-v0").variant == "continuous"
    finally:
        del gymnasium.registry["Stuck-v0"]


def test_gym_family_imports_the_module_that_registers(
    first_party: Registry, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    source = "import gymnasium\ngymnasium.register('RegistryTest-v0', entry_point='x:y', reward_threshold=3.0)"
    (tmp_path / "registering_module.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    entry = first_party.env("gym:registering_module:RegistryTest-v0")
    assert (entry.env_id, entry.threshold) == ("registering_module:RegistryTest-v0", 3.0)
    for no_threshold in (float("inf"), float("nan"), None):
        gymnasium.spec("RegistryTest-v0").reward_threshold = no_threshold
        assert first_party.env("gym:registering_module:RegistryTest-v0").threshold is None
    with pytest.raises(UnknownNameError, match="Did you mean 'gym:registering_module:RegistryTest-v0'"):
        first_party.env("gym:registering_module:RegistryTst-v0")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cartpol", "unknown environment 'cartpol'. Did you mean 'cartpole'? See: a3c-zoo list envs"),
        ("gmy:Acrobot-v1", "unknown environment 'gmy:Acrobot-v1'. Did you mean 'gym:Acrobot-v1'?"),
        (
            "gym:Acrobt-v1",
            "unknown environment 'gym:Acrobt-v1'. Did you mean 'gym:Acrobot-v1'? An id of another package is named "
            "with its module: gym:MODULE:Acrobt-v1. See:",
        ),
        ("gym:", "unknown environment 'gym:'. An id of another package is named with its module: gym:MODULE:ID. See:"),
        ("", "unknown environment ''."),
    ],
)
def test_unknown_environment(name: str, message: str, first_party: Registry) -> None:
    with pytest.raises(UnknownNameError) as caught:
        first_party.env(name)
    assert str(caught.value).startswith(message)


def test_unknown_agent_and_network(first_party: Registry) -> None:
    with pytest.raises(UnknownNameError, match=r"agent 'a3'\. .*'a3c'\?.* a3c-zoo list agents"):
        first_party.agent("a3")
    with pytest.raises(UnknownNameError, match=r"unknown network 'mpl'\. Did you mean 'mlp'\? .*list networks"):
        first_party.network("mpl")


def test_unknown_name_mentions_faulty_plugins() -> None:
    faulty = Plugin(PluginInfo("toy", "toy", "toy-dist", "1.0", first_party=False).as_faulty("its import failed"))
    with pytest.raises(UnknownNameError) as caught:
        Registry([faulty]).env("maze")
    assert str(caught.value) == (
        "unknown environment 'maze'. See: a3c-zoo list envs "
        "(left out as faulty: plugin 'toy' (toy-dist 1.0): a3c-zoo list plugins)"
    )


@pytest.mark.parametrize(
    ("taken", "offered", "namespace"),
    [
        (MAZE, EnvEntry("maze", env_id="Maze-v0"), "environment 'maze'"),
        (EnvFamily("maze", "m:f"), MAZE, "environment 'maze'"),
        (MAZE, EnvFamily("maze", "m:f"), "environment 'maze'"),
        (AgentEntry("x", "m:f", "m:f"), AgentEntry("x", "m:f", "m:f", kind="baseline"), "agent 'x'"),
        (NetworkEntry("wide", "m:f"), NetworkEntry("wide", "m:g"), "network 'wide'"),
        (OptimizerEntry("sgd", "m:f"), OptimizerEntry("sgd", "m:g"), "optimizer 'sgd'"),
        (HyperparamEntry("sets"), HyperparamEntry("sets"), "hyperparameter package 'sets'"),
        (HookEntry("stop", "m:f"), HookEntry("stop", "m:g"), "run hook 'stop'"),
        (EngineEntry("cluster", "m:f"), EngineEntry("cluster", "m:g"), "engine 'cluster'"),
        (TrainedEntry("best", "e", "a", "p"), TrainedEntry("best", "f", "b", "q"), "trained agent 'best'"),
        (CommandEntry("go", "m:f"), CommandEntry("go", "m:f"), "command 'go'"),
    ],
)
def test_a_name_that_is_taken(taken: Entry, offered: Entry, namespace: str) -> None:
    other = EnvEntry("other", "m:f")
    registry = Registry([plugin("first", taken), plugin("second", other, offered)])
    assert [info.fault for info in registry.plugins] == [
        None,
        f"offers the {namespace}, which plugin 'first' (first-dist 1.0) offers already",
    ]
    assert registry.owner(taken).name == "first"
    assert "other" not in registry.envs, "a faulty plugin is left out whole"


def test_a_name_offered_twice_by_one_plugin() -> None:
    registry = Registry([plugin("twice", MAZE, MAZE)])
    assert [info.fault for info in registry.faults] == ["offers the environment 'maze' twice"]
    assert registry.envs == {}


def test_two_names_for_one_module() -> None:
    first = plugin("first")
    second = Plugin(plugin("second").info, first.implementation)
    faults = Registry([first, second]).faults
    assert [(info.name, info.fault) for info in faults] == [
        ("second", "is the same module as plugin 'first' (first-dist 1.0)")
    ]


@pytest.mark.parametrize("entry", [EnvFamily("gym", "m:f"), EnvFamily("atari", "m:f"), EnvEntry("atari", "m:f")])
def test_a_reserved_prefix(entry: Entry) -> None:
    assert Registry([plugin("core", entry, first_party=True)]).faults == ()
    assert [info.fault for info in Registry([plugin("toy", entry)]).faults] == [
        f"offers the environment name or prefix '{getattr(entry, 'prefix', 'atari')}', which is reserved"
    ]


def test_a_built_in_command_cannot_be_replaced() -> None:
    core = plugin("core", CommandEntry("train", "a3c_zoo.cli.train:command"), first_party=True)
    registry = Registry([core, plugin("toy", CommandEntry("train", "toy:command"))])
    assert [info.name for info in registry.faults] == ["toy"]
    assert registry.commands["train"].command == "a3c_zoo.cli.train:command"


@pytest.mark.parametrize(
    ("resolved", "message"),
    [
        (
            EnvEntry("small", "m:f"),
            r"of plugin 'toy' \(toy-dist 1.0\) resolves to the name 'small', which does not begin",
        ),
        (EnvEntry("maze:small"), "resolves to 'maze:small' with neither of factory and env_id"),
        (None, "resolves to None where an EnvEntry is expected"),
        (ValueError("boom"), r"plugin 'toy' \(toy-dist 1.0\) failed to resolve .*'maze:small': ValueError: boom"),
    ],
)
def test_a_family_that_resolves_to_nonsense(resolved: Any, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(rest: str) -> Any:
        if isinstance(resolved, Exception):
            raise resolved
        return resolved

    module = ModuleType("nonsense_family")
    module.resolve = resolve  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "nonsense_family", module)
    registry = Registry([plugin("toy", EnvFamily("maze", "nonsense_family:resolve"))])
    with pytest.raises(PluginError, match=message):
        registry.env("maze:small")


def test_a_family_whose_function_is_missing() -> None:
    registry = Registry([plugin("toy", EnvFamily("maze", "a3c_zoo.version:resolve"))])
    message = (
        r"^plugin 'toy' \(toy-dist 1.0\) failed to resolve environment 'maze:small': 'a3c_zoo.version:resolve': "
        "module 'a3c_zoo.version' has no attribute 'resolve'$"
    )
    with pytest.raises(PluginError, match=message):
        registry.env("maze:small")


def test_the_registry_of_a_process_is_made_once() -> None:
    assert get_registry() is get_registry()


def test_a_family_whose_arguments_lead_to_nonsense(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("nonsense_agents")
    module.agents = lambda rest, kwargs: kwargs["names"]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "nonsense_agents", module)
    registry = Registry([plugin("toy", EnvFamily("maze", "m:resolve", agents="nonsense_agents:agents"))])
    small = EnvEntry("maze:small", "m:f")
    assert registry.with_arguments(small, {"names": ("ann", "bob")}).agents == ("ann", "bob")
    message = r"^env.kwargs: .* 'maze:small' of plugin 'toy' .* to 'maze:small' with two agents of the same name$"
    with pytest.raises(PluginError, match=message):
        registry.with_arguments(small, {"names": ("ann", "ann")})
