"""Sets, files, overrides and flags → one configuration; every fault in one error."""

from __future__ import annotations

import dataclasses
import logging
import math
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic import Field, ValidationError, field_validator

from a3c_zoo import AgentEntry, EnvEntry, HyperparamEntry, NetworkEntry, OptimizerEntry
from a3c_zoo.agents.configs import A3CConfig
from a3c_zoo.config import AgentConfig, Config, EnvConfig, NetworkConfig, OptimizerConfig, RunConfig
from a3c_zoo.config.sets import describe, dump_config, find_set, list_sets, load_config, resolve_config, tuning_cost
from a3c_zoo.errors import ConfigError, PluginError, UnknownNameError
from a3c_zoo.hardware import available_cores
from a3c_zoo.learning.network_configs import MLPConfig
from a3c_zoo.plugins.entries import Entry
from a3c_zoo.plugins.loading import Plugin, PluginInfo, Selection
from a3c_zoo.plugins.registry import Registry, load_registry


class MazeConfig(EnvConfig):
    """An environment's own keys, one of them required."""

    size: int = Field(ge=1, description="cells along an edge")
    walls: tuple[int, ...] = Field(default_factory=lambda: (1, 2), description="cells that are walls")


class LevelConfig(EnvConfig):
    """A key whose validator looks it up."""

    level: int = Field(1, description="of the maze")

    @field_validator("level")
    @classmethod
    def _known(cls, level: int) -> int:
        return {1: 1}[level]


class WideConfig(NetworkConfig):
    """A network's own key."""

    width: int = Field(8, description="units")


class HeavyConfig(OptimizerConfig):
    """An optimizer's own key."""

    momentum: float = Field(0.9, description="decay of the velocity")


MAZE = EnvEntry("maze", "toy:make", config="tests.test_hyperparams:MazeConfig")
CARTPOLE = EnvEntry("cartpole", "toy:make")
BARE = AgentEntry("bare", run="toy:run", load="toy:load", sections=("run", "env", "agent"))
A3C = AgentEntry("a3c", run="toy:run", load="toy:load", config="a3c_zoo.agents.configs:A3CConfig")
MLP = NetworkEntry("mlp", "toy:mlp", config="a3c_zoo.learning.network_configs:MLPConfig")
WIDE = NetworkEntry("wide", "toy:wide", config="tests.test_hyperparams:WideConfig")
ADAM = OptimizerEntry("adam", "toy:adam")
HEAVY = OptimizerEntry("heavy", "toy:heavy", config="tests.test_hyperparams:HeavyConfig")


def registry_of(*packages: str, entries: tuple[Entry, ...] = ()) -> Registry:
    sets = (HyperparamEntry(package) for package in packages)
    offers = (MAZE, CARTPOLE, BARE, A3C, MLP, WIDE, ADAM, HEAVY, *entries, *sets)
    return Registry([Plugin(PluginInfo("toy", "toy", "toy-dist", "1.0", True), ModuleType("toy"), offers)])


MakePackage = Callable[..., str]


@pytest.fixture
def make_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakePackage:
    """Makes an importable package of sets: `make_package({"cartpole/a3c.yml": "run: {seed: 1}"})` → its name."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(files: dict[str, str]) -> str:
        name = f"sets_{uuid.uuid4().hex}"
        for path, text in {"__init__.py": "", **files}.items():
            target = tmp_path / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        return name

    return make


@pytest.fixture(scope="module")
def first_party() -> Registry:
    return load_registry(Selection(allowed=frozenset()))


def faults(call: Callable[[], Any]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        call()
    lines = str(caught.value).splitlines()
    return [line.strip() for line in (lines[1:] if len(lines) > 1 else lines)]


def resolve_faults(agent: AgentEntry = A3C, **arguments: Any) -> list[str]:
    return faults(lambda: resolve_config(registry_of(), CARTPOLE, agent, **arguments))


# --- sets


def test_first_party_sets_are_usable(first_party: Registry) -> None:
    sets = list_sets(first_party)
    assert ("cartpole", "a3c", "a3c_zoo_hyperparams", "cartpole/a3c.yml") in {
        (each.env, each.name, each.package, each.source) for each in sets
    }
    for each in sets:
        # A set is called after its agent, and after what is its own: `a3c-grad-classic`.
        agents = [name for name in first_party.agents if f"{each.name}-".startswith(f"{name}-")]
        agent = first_party.agent(max(agents, key=len))
        family = first_party.families.get(each.env)
        env = first_party.env(family.examples[0] if family else each.env)
        config = resolve_config(first_party, env, agent, hyperparams=each.name)
        assert config.sources
        assert tuning_cost(first_party, env, agent, each.name), f"{each.source}: does not say what tuning it cost"
        optimizer = config.optimizer
        if optimizer and optimizer.schedule == "linear" and config.run.steps is None:
            assert optimizer.final_learning_rate > 0, f"{each.source}: goes on for ever and learns nothing any more"


def test_every_default_set_has_a_budget_with_which_its_schedule_ends(first_party: Registry) -> None:
    variants = ["", *(f"-{variant}" for variant in ("continuous", "image", "mixed"))]
    found = 0
    for each in list_sets(first_party):
        agents = [name for name in first_party.agents for variant in variants if each.name == name + variant]
        if agents:
            family = first_party.families.get(each.env)
            env = first_party.env(family.examples[0] if family else each.env)
            config = resolve_config(first_party, env, first_party.agent(agents[0]), hyperparams=each.name)
            assert config.run.steps is not None, each.source
            if config.optimizer:
                assert (config.optimizer.schedule, config.optimizer.schedule_steps) == ("linear", None), each.source
            found += 1
    assert found >= 50


def test_for_how_many_workers_the_learning_rate_is(make_package: MakePackage, tmp_path: Path) -> None:
    text = "run: {workers: 3}\noptimizer: {learning_rate: 0.01}\n"
    registry = registry_of(make_package({"cartpole/a3c.yml": text}))
    (tmp_path / "rate.yml").write_text("optimizer: {learning_rate: 0.02}\n")
    (tmp_path / "odd.yml").write_text("run: {workers: true}\noptimizer: {learning_rate: 0.02}\n")
    (tmp_path / "none.yml").write_text("run: {workers: 0}\noptimizer: {learning_rate: 0.02}\n")
    (tmp_path / "many.yml").write_text("run: {workers: 16}\n")
    (tmp_path / "auto.yml").write_text("run: {workers: auto}\noptimizer: {learning_rate: 0.02}\n")

    def workers(file: str | None = None, *overrides: str) -> tuple[int | None, int]:
        chosen = file and str(tmp_path / file)
        flags = {"run.workers": (16, "--workers")}
        config = resolve_config(registry, CARTPOLE, A3C, hyperparams=chosen, overrides=overrides, flags=flags)
        return config.sets_workers, config.run.workers

    assert workers() == (3, 16)
    assert workers(None, "agent.n_steps=7") == (3, 16)
    assert workers(None, "optimizer.learning_rate=0.01") == (None, 16)
    assert workers("rate.yml") == (None, 16)
    assert workers("odd.yml") == workers("none.yml") == (None, 16)
    assert workers("many.yml") == (3, 16)
    assert workers("auto.yml") == (2, 16)  # as many as `auto` makes at most without teams
    assert resolve_config(registry_of(), CARTPOLE, A3C).sets_workers is None


def test_a_named_network_drops_keys_of_a_layer_that_relies_on_the_default(tmp_path: Path) -> None:
    (tmp_path / "own.yml").write_text("network: {hidden_sizes: [32]}\n")  # of mlp, the default
    registry = load_registry()
    env, agent = registry.env("gym:CartPole-v1"), registry.agent("nstep")
    overrides = ("network.name=textbook",)
    config = resolve_config(registry, env, agent, hyperparams=str(tmp_path / "own.yml"), overrides=overrides)
    assert config.network is not None
    assert config.network.name == "textbook"


def test_true_is_no_number_within_a_list() -> None:
    registry, overrides = load_registry(), ["network.hidden_sizes=[true, 64]"]
    with pytest.raises(ConfigError, match="must be a number"):
        resolve_config(registry, registry.env("cartpole"), registry.agent("a3c"), overrides=overrides)


def test_a_default_that_its_key_refuses_is_refused() -> None:
    """It would be written into a config.yml that nothing reads."""

    class Endless(EnvConfig):
        limit: float = Field(math.inf, description="steps")

    with pytest.raises(ValidationError, match="finite number"):
        Endless()


def test_unknown_set(make_package: MakePackage) -> None:
    registry = registry_of(make_package({"cartpole/a3c.yml": "", "cartpole/fast.yml": "", "maze/slow.yml": ""}))
    message = "environment 'cartpole' has no hyperparameter set 'fats'. Did you mean 'fast'? See: a3c-zoo list"
    with pytest.raises(UnknownNameError, match=message.replace("?", r"\?")):
        resolve_config(registry, CARTPOLE, A3C, hyperparams="fats")
    with pytest.raises(UnknownNameError, match="no hyperparameter set 'slow'"):
        find_set(registry, CARTPOLE, "slow")


def registry_of_plugins(**packages: str) -> Registry:
    """Plugins `NAME="package"` that offer a package of sets each, after the toy, which offers everything else."""
    plugins = [Plugin(PluginInfo("toy", "toy", "toy-dist", "1.0", True), ModuleType("toy"), (MAZE, CARTPOLE, A3C, MLP))]
    for name, package in packages.items():
        distribution = "toy-dist" if name == "own" else f"{name}-dist"
        info = PluginInfo(name, name, distribution, "1.0", False)
        plugins.append(Plugin(info, ModuleType(name), (HyperparamEntry(package),)))
    plugins.append(Plugin(PluginInfo("adam", "adam", "adam-dist", "1.0", True), ModuleType("adam"), (ADAM,)))
    return Registry(plugins)


def test_of_sets_of_one_name_the_environments_owners_is_meant(make_package: MakePackage) -> None:
    def package(seed: int) -> str:
        return make_package({"cartpole/a3c.yml": f"run: {{seed: {seed}}}"})

    registry = registry_of_plugins(first=package(1), second=package(2), own=package(3))
    for name, seed, source in [
        (None, 3, "cartpole/a3c.yml:1"),
        ("a3c", 3, "cartpole/a3c.yml:1"),
        ("own/a3c", 3, "own/cartpole/a3c.yml:1"),
        ("first/a3c", 1, "first/cartpole/a3c.yml:1"),
        ("second/a3c", 2, "second/cartpole/a3c.yml:1"),
    ]:
        config = resolve_config(registry, CARTPOLE, A3C, hyperparams=name)
        assert (config.run.seed, config.sources["run.seed"]) == (seed, source)


def test_of_sets_of_other_plugins_the_first_one_is_meant(make_package: MakePackage) -> None:
    first, second = make_package({"cartpole/a3c.yml": ""}), make_package({"cartpole/a3c.yml": "", "maze/a3c.yml": ""})
    registry = registry_of_plugins(first=first, second=second)
    assert [(each.plugin, each.package) for each in list_sets(registry) if each.env == "cartpole"] == [
        (name, package) for package, name in sorted([(first, "first"), (second, "second")])
    ]
    assert find_set(registry, CARTPOLE, "a3c").package == first
    assert find_set(registry, CARTPOLE, "second/a3c").package == second
    assert find_set(registry, MAZE, "a3c").package == second
    with pytest.raises(UnknownNameError, match=r"set 'first/a3d'\. Did you mean 'first/a3c'\?"):
        resolve_config(registry, CARTPOLE, A3C, hyperparams="first/a3d")


def test_a_folder_that_is_called_like_a_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy/fast").write_text("run: {seed: 9}")
    for name in ("toy/fast.yml", "other/fast"):
        assert resolve_faults(hyperparams=name) == [f"{name}: no such file"]
    with pytest.raises(UnknownNameError, match="no hyperparameter set 'toy/fast'"):
        resolve_config(registry_of(), CARTPOLE, A3C, hyperparams="toy/fast")
    assert resolve_config(registry_of(), CARTPOLE, A3C, hyperparams="./toy/fast").run.seed == 9


def test_sets_of_the_family_apply_where_an_environment_has_none(make_package: MakePackage) -> None:
    registry = registry_of(make_package({"games/a3c.yml": "run: {seed: 1}", "pong/fast.yml": "", "games/fast.yml": ""}))
    pong, other = (EnvEntry(name, "toy:make", family=family) for name, family in [("pong", "games"), ("games:x", None)])
    for env in (pong, other):
        config = resolve_config(registry, env, A3C)
        assert (config.run.seed, config.sources["run.seed"]) == (1, "games/a3c.yml:1")
    assert [find_set(registry, env, "fast").source for env in (pong, other)] == ["pong/fast.yml", "games/fast.yml"]
    assert resolve_config(registry, CARTPOLE, A3C).run.seed == 0


def test_an_unreadable_package_leaves_the_others(make_package: MakePackage, caplog: pytest.LogCaptureFixture) -> None:
    registry = registry_of("no_such_package", "json.decoder", make_package({"cartpole/a3c.yml": "run: {seed: 7}"}))
    with caplog.at_level(logging.WARNING):
        assert resolve_config(registry, CARTPOLE, A3C).run.seed == 7
        assert resolve_config(registry, CARTPOLE, A3C).run.seed == 7
    assert [message.partition(" cannot be read: ")[0] for message in caplog.messages] == [  # each once
        "hyperparameter package 'no_such_package'",
        "hyperparameter package 'json.decoder'",
    ]


def test_other_files_of_a_package_are_no_sets(make_package: MakePackage) -> None:
    package = make_package({"README.md": "", "top.yml": "", "cartpole/a3c.yml": "", "cartpole/notes.txt": ""})
    assert [each.source for each in list_sets(registry_of(package))] == ["cartpole/a3c.yml"]


# --- layers


def test_later_layers_win_and_sources_say_so(make_package: MakePackage, tmp_path: Path) -> None:
    text = "# header\nrun:\n  workers: 3\n  seed: 1\nagent:\n  n_steps: 11\n  gamma: 0.5\n  gae_lambda: 0.6\n"
    registry = registry_of(make_package({"cartpole/a3c.yml": text}))
    file = tmp_path / "mine.yml"
    file.write_text("agent:\n  n_steps: 22\n  gamma: 0.7\n")
    config = resolve_config(
        registry,
        CARTPOLE,
        A3C,
        hyperparams=str(file),
        overrides=["agent.n_steps=33", "optimizer.learning_rate=1e-4", "seed=4"],
        flags={"run.seed": (5, "--seed")},
    )
    assert config.agent == A3CConfig(n_steps=33, gamma=0.7, gae_lambda=0.6)
    assert (config.run.workers, config.run.seed, config.optimizer and config.optimizer.learning_rate) == (3, 5, 1e-4)
    assert config.sources == {
        "run.workers": "cartpole/a3c.yml:3",
        "run.seed": "--seed",
        "agent.n_steps": "-o",
        "agent.gamma": f"{file}:3",
        "agent.gae_lambda": "cartpole/a3c.yml:8",
        "optimizer.learning_rate": "-o",
    }


def test_a_named_set_replaces_the_default_set(make_package: MakePackage) -> None:
    package = make_package({"cartpole/a3c.yml": "run: {seed: 1, workers: 5}", "cartpole/b.yml": "run: {seed: 2}"})
    config = resolve_config(registry_of(package), CARTPOLE, A3C, hyperparams="b")
    assert config.run == RunConfig(seed=2, workers=min(2, available_cores()))


def test_without_any_set_there_are_defaults() -> None:
    config = resolve_config(registry_of(), CARTPOLE, A3C)
    assert (config.agent, config.network, config.env) == (A3CConfig(), MLPConfig(), EnvConfig(stack="zoo"))
    assert config.sources == {}


def test_empty_sections_are_fine(make_package: MakePackage) -> None:
    run = resolve_config(registry_of(make_package({"cartpole/a3c.yml": "run:\n"})), CARTPOLE, A3C).run
    assert run == RunConfig(workers=min(2, available_cores()))


@pytest.mark.parametrize("name", ["mine.yml", "mine.yaml", "MINE.YML", "./mine"])
def test_what_counts_as_a_file(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text("run: {seed: 3}")
    assert resolve_config(registry_of(), CARTPOLE, A3C, hyperparams=name).run.seed == 3


def test_the_last_override_wins_with_or_without_its_section() -> None:
    registry = registry_of()
    for overrides, expected in [(["n_steps=5", "agent.n_steps=6"], 6), (["agent.n_steps=6", "n_steps=5"], 5)]:
        assert resolve_config(registry, CARTPOLE, A3C, overrides=overrides).agent == A3CConfig(n_steps=expected)


@pytest.mark.parametrize(
    ("override", "section", "key", "expected"),
    [
        ("hidden_sizes=[32, 16]", "network", "hidden_sizes", (32, 16)),
        ("run.steps=1e6", "run", "steps", 1_000_000),
        ("max_grad_norm=null", "optimizer", "max_grad_norm", None),
        ("clip_rewards=true", "agent", "clip_rewards", True),
        ("clip_rewards=no", "agent", "clip_rewards", False),  # a boolean is meant
        ("activation = relu", "network", "activation", "relu"),
    ],
)
def test_override_values(override: str, section: str, key: str, expected: Any) -> None:
    config = resolve_config(registry_of(), CARTPOLE, A3C, overrides=[override])
    assert getattr(config.sections()[section], key) == expected


def test_a_validator_that_fails_is_named() -> None:
    entry = EnvEntry("levels", "toy:make", config=f"{__name__}:LevelConfig")
    with pytest.raises(PluginError) as caught:
        resolve_config(registry_of(entries=(entry,)), entry, A3C, overrides=["level=2"])
    text = f"the configuration model '{__name__}:LevelConfig' failed: KeyError: 2 (in test_hyperparams.py, line "
    assert str(caught.value).startswith(text)


def test_the_network_chooses_its_model() -> None:
    config = resolve_config(registry_of(), CARTPOLE, A3C, overrides=["width=9", "network.name=wide"])
    assert config.network == WideConfig(name="wide", width=9)
    assert resolve_faults(overrides=["width=9"]) == ["-o width: unknown key."]


def test_the_optimizer_chooses_its_model(make_package: MakePackage) -> None:
    config = resolve_config(registry_of(), CARTPOLE, A3C, overrides=["optimizer.name=heavy", "momentum=0.5"])
    assert config.optimizer == HeavyConfig(name="heavy", momentum=0.5)
    assert resolve_faults(overrides=["momentum=0.5"]) == ["-o momentum: unknown key."]
    # A set's keys for its own optimizer mean nothing to another one that is named on top of it.
    registry = registry_of(make_package({"cartpole/a3c.yml": "optimizer: {name: heavy, momentum: 0.5, beta1: 0.1}"}))
    config = resolve_config(registry, CARTPOLE, A3C, overrides=["optimizer.name=adam"])
    assert config.optimizer == OptimizerConfig(name="adam", beta1=0.1)


def test_the_environment_brings_its_keys() -> None:
    config = resolve_config(registry_of(), MAZE, A3C, overrides=["size=4"])
    assert config.env == MazeConfig(size=4, stack="zoo")
    assert config.env.factory_kwargs() == {"size": 4, "walls": (1, 2)}
    assert faults(lambda: resolve_config(registry_of(), MAZE, A3C)) == ["env.size: must be given"]


def test_an_agent_without_network_has_no_such_section(tmp_path: Path) -> None:
    config = resolve_config(registry_of(), CARTPOLE, BARE)
    assert (config.network, config.optimizer, config.agent) == (None, None, AgentConfig())
    file = tmp_path / "mine.yml"
    file.write_text("run:\n  seed: 1\nnetwork:\n  name: mlp\n")
    overrides, flags = ["optimizer.beta1=0"], {"network.name": ("mlp", "--network")}
    assert resolve_faults(BARE, hyperparams=str(file), overrides=overrides, flags=flags) == [
        f"{file}:3 network: agent 'bare' has no such section",
        "-o optimizer: agent 'bare' has no such section",
        "--network network: agent 'bare' has no such section",
    ]


@pytest.mark.parametrize("path", ["tests.test_hyperparams:MAZE", "a3c_zoo.config:NetworkConfig"])
def test_a_model_of_another_kind_is_the_plugins_fault(path: str) -> None:
    with pytest.raises(PluginError, match=f"'{path}' must be a subclass of a3c_zoo.config.AgentConfig"):
        resolve_config(registry_of(), CARTPOLE, dataclasses.replace(A3C, config=path))


def test_a_key_that_a_factory_gets_from_us() -> None:
    """It is found before a run has its directory. A registered environment may have an argument of this name."""
    registry = registry_of()
    config = "tests.walks:SeededConfig"
    with pytest.raises(PluginError, match="'seed' from a3c-zoo; rename the key of this name in SeededConfig"):
        resolve_config(registry, EnvEntry("maze", "toy:make", config=config), BARE)
    registered = EnvEntry("maze", env_id="Maze-v0", config=config)
    assert resolve_config(registry, registered, BARE).env.arguments({}) == {"seed": 0}


# --- faults

FAULTY_SET = """\
# every fault of this file is reported at once
agent:
  n_steps: 0
  gama: 0.9
  gamma: 2
network:
  n_steps: 3
  hidden_sizes: [64, 0]
  activation: no
optimzer:
  x: 1
optimizer: 5
run:
  workers: true
  seed: !!python/name:os.system
  workers: 3
  time_limit_s: .nan
5: 3
"""


def test_all_faults_are_reported_at_once_with_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "bad.yml"
    file.write_text(FAULTY_SET)
    overrides = ["foo", "n_stps=3", "name=5", "x.y=1", "agent.gae_lambda=", "optimizer.beta1=[1", "alpha=*a"]
    flags = {"run.checkpoint_every_s": (-1, "--checkpoint-every")}
    must_read = "must read KEY=VALUE, such as agent.n_steps=5 (write null for no value)"
    assert resolve_faults(hyperparams=str(file), overrides=overrides, flags=flags) == [
        f"{file}:3 agent.n_steps: 0 — must be greater than or equal to 1",
        f"{file}:4 agent.gama: unknown key. Did you mean 'gamma'?",
        f"{file}:5 agent.gamma: 2 — must be less than or equal to 1",
        f"{file}:7 network.n_steps: unknown key. Did you mean 'agent.n_steps'?",
        f"{file}:8 network.hidden_sizes[1]: 0 — must be greater than or equal to 1",
        f"{file}:9 network.activation: 'no' — must be 'tanh', 'relu' or 'elu'",
        f"{file}:10 optimzer: unknown section. Did you mean 'optimizer'?",
        f"{file}:12 optimizer: 5 — must be a section with keys below it",
        f"{file}:14 run.workers: true — must be a number",
        f"{file}:15 run.seed: tag '!!python/name:os.system' is not allowed, only plain data",
        f"{file}:16 run.workers: duplicate key, first given in line 14",
        f"{file}:17 run.time_limit_s: .nan — must be a finite number",
        f"{file}:18 key 5 is no word; quote it",
        f"-o foo: {must_read}",
        "-o n_stps: unknown key. Did you mean 'n_steps'?",
        "-o name: ambiguous, give network.name or optimizer.name",
        "-o x: unknown section.",
        f"-o agent.gae_lambda=: {must_read}",
        "-o optimizer.beta1: while parsing a flow sequence expected ',' or ']', but got '<stream end>'",
        "-o alpha: anchors and aliases are not allowed",
        "--checkpoint-every run.checkpoint_every_s: -1 — must be greater than 0",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- a\n", ":1 must be a mapping of sections, not [a]"),
        ("run: [1]\n", ":1 run: [1] — must be a section with keys below it"),
        ("run:\n  seed: [1]\n", ":2 run.seed: [1] — must be a valid integer"),
        ("network:\n  name: ml\n  sizes: 3\n", ":2 network.name: unknown network 'ml'. Did you mean 'mlp'?"),
        ("network:\n  name: [mlp]\n", ":2 network.name: [mlp] — must be a name"),
        ("optimizer:\n  name: adm\n", ":2 optimizer.name: unknown optimizer 'adm'. Did you mean 'adam'? See: a3c-zoo"),
        ("optimizer:\n  name: 3\n", ":2 optimizer.name: 3 — must be a name"),
        ("env_name: pong\n", ":1 env_name: is for pong, not for 'cartpole'"),
        ("run: 1\nrun: 2", ":1 run: 1 — must be"),
    ],
)
def test_faulty_files(text: str, expected: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.yml"
    file.write_text(text)
    found = resolve_faults(hyperparams=str(file))
    assert found[0].startswith(f"{file}{expected}")


def test_missing_file_and_directory(tmp_path: Path) -> None:
    for path, message in [(tmp_path / "no.yml", "no such file"), (f"{tmp_path}/", "cannot be read: Is a directory")]:
        found = resolve_faults(hyperparams=str(path))
        assert found == [f"{path}: {message}"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_file_without_permission(tmp_path: Path) -> None:
    file = tmp_path / "mine.yml"
    file.write_text("")
    file.chmod(0)
    found = resolve_faults(hyperparams=str(file))
    assert found == [f"{file}: cannot be read: Permission denied"]


def test_true_is_no_number_in_python_either() -> None:
    with pytest.raises(ValidationError, match="must be a number"):
        RunConfig(workers=True)
    with pytest.raises(ValidationError, match="must be a number"):
        A3CConfig(gamma=True)
    assert A3CConfig(clip_rewards=True).clip_rewards


# --- a run's config.yml


def equal(first: Config, second: Config) -> bool:
    first, second = (dataclasses.replace(each, sources={}, sets_workers=None) for each in (first, second))
    return first == second


@pytest.mark.parametrize(
    ("env", "agent", "overrides"),
    [
        (CARTPOLE, A3C, ["learning_rate=1e-05", "hidden_sizes=[]", "steps=5"]),
        (CARTPOLE, BARE, []),
        (MAZE, A3C, ["size=4", "walls=[7]", "network.name=wide"]),
    ],
)
def test_dump_and_load(env: EnvEntry, agent: AgentEntry, overrides: list[str], tmp_path: Path) -> None:
    registry = registry_of()
    config = resolve_config(registry, env, agent, overrides=overrides)
    file = tmp_path / "config.yml"
    file.write_text(dump_config(config))
    assert equal(load_config(file, registry), config)
    assert equal(resolve_config(registry, env, agent, hyperparams=str(file)), config)


def test_dump_keeps_the_order_of_sections() -> None:
    lines = dump_config(resolve_config(registry_of(), CARTPOLE, A3C)).splitlines()
    tops = [line.partition(":")[0] for line in lines if not line.startswith(" ")]
    assert tops == ["env_name", "agent_name", "run", "env", "agent", "network", "optimizer"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("run: {}\n", "config.yml: env_name and agent_name must be given"),
        ("env_name: [\n", "config.yml:2 while parsing"),
        ("env_name: cartpole\nagent_name: a3c\nrun:\n  seed: -1\n", "config.yml:4 run.seed: -1 — must be greater"),
    ],
)
def test_faulty_config_of_a_run(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "config.yml"
    file.write_text(text)
    assert message in faults(lambda: load_config(file, registry_of()))[0]


def test_config_of_an_environment_that_is_gone(tmp_path: Path) -> None:
    file = tmp_path / "config.yml"
    file.write_text("env_name: cartpol\nagent_name: a3c\n")
    with pytest.raises(UnknownNameError, match="Did you mean 'cartpole'"):
        load_config(file, registry_of())


# --- for listings


def test_describe_has_every_value() -> None:
    config = resolve_config(registry_of(), MAZE, A3C, overrides=["size=4"])
    rows = {row.key: row for row in describe(config)}
    assert rows["env.size"]._asdict() == {
        "key": "env.size",
        "value": 4,
        "description": "cells along an edge",
        "default": None,
        "source": "-o",
    }
    assert (rows["env.walls"].default, rows["env.walls"].value, rows["env.walls"].source) == ([1, 2], [1, 2], "default")
    assert len(rows) == sum(len(section) for section in config.to_dict().values() if isinstance(section, dict))


@pytest.mark.parametrize("model", [RunConfig, A3CConfig, MLPConfig, EnvConfig])
def test_every_value_has_a_meaning(model: type[Any]) -> None:
    assert [name for name, info in model.model_fields.items() if not info.description] == []


def test_a_network_has_at_most_a_hundred_layers() -> None:
    """A file of strangers can name more in a few bytes than a machine can build."""
    registry = load_registry()
    for agent, override in (
        ("a3c", "network.hidden_sizes={}"),
        ("sb3-a2c", "agent.net_arch={}"),
        ("sb3-ppo", "agent.net_arch={{pi: {}}}"),
    ):
        arguments = (registry, registry.env("cartpole"), registry.agent(agent))
        resolve_config(*arguments, overrides=[override.format([8] * 100)])
        with pytest.raises(ConfigError, match="at most 100 items"):
            resolve_config(*arguments, overrides=[override.format([8] * 101)])
