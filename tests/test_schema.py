"""`a3c-zoo show schema`: the JSON Schema of hyperparameter sets accepts every set that there is, and no wrong key."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from a3c_zoo.config import yaml
from a3c_zoo.config.schema import DIALECT, FILE, LINE, MADE, set_schema
from a3c_zoo.config.sets import _files, default_set, list_sets
from a3c_zoo.plugins.registry import Registry, get_registry, load_registry
from a3c_zoo.testing import plugin_distribution
from tests.toys_runs import command_line, environ

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load_registry()


def checker(schema: dict[str, Any]) -> jsonschema.Draft202012Validator:
    assert schema["$schema"] == DIALECT
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def faults(schema: dict[str, Any], text: str) -> list[str]:
    """The places of the faults of a set."""
    document = yaml.parse_document(text.encode(), "x.yml")
    assert not document.faults
    return sorted(".".join(map(str, fault.path)) for fault in checker(schema).iter_errors(document.data))


def test_every_shipped_set_fits(registry: Registry) -> None:
    """The sets, and the default search spaces of agents."""
    files = list(_files(registry))
    assert len(files) > 40
    whole = checker(set_schema(registry))
    for each in files:
        whole.validate(yaml.read_document(each.file, each.source).data)


def test_a_set_fits_the_schema_of_its_environment_and_agent(registry: Registry) -> None:
    checked = 0
    for each in list_sets(registry):
        if each.env in registry.envs and each.name in registry.agents:
            env, agent = registry.env(each.env), registry.agent(each.name)
            assert default_set(registry, env, agent.name) == each
            checker(set_schema(registry, env, agent)).validate(yaml.read_document(each.file, each.source).data)
            checked += 1
    assert checked > 10


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("agent:\n  n_step: 5", ["agent"]),
        ("agent:\n  gamma: 1.5\nrun:\n  steps: -1\n  workers: many", ["agent.gamma", "run.steps", "run.workers"]),
        ("agents: {}", [""]),
        ("network:\n  name: mpl", ["network.name"]),
        ("network:\n  name: conv42\n  hidden_sizes: [64]", ["network.hidden_sizes"]),
        ("optimizer:\n  schedule: cosine", ["optimizer.schedule"]),
        ("plugins:\n  wandbb: {}", ["plugins"]),
        ("tuning: {trials: 3}", ["tuning"]),
        ("compare: {steps: 0}", ["compare.steps"]),
        ("search:\n  agent.gamma: {between: [0, 1]}", ["search.agent.gamma"]),
        ("env:\nrun:\n  workers: auto\n  steps: null\nnetwork:\n  hidden_sizes: [64]\ntuning: by hand", []),
    ],
)
def test_what_a_set_may_say(text: str, places: list[str], registry: Registry) -> None:
    cartpole = set_schema(registry, registry.env("cartpole"), registry.agent("a3c"))
    if "conv42" in text:  # its keys are those of another network
        assert faults(cartpole, text) == ["network"]
    else:
        assert faults(cartpole, text) == places


def test_keys_of_one_agent_are_no_keys_of_another(registry: Registry) -> None:
    text = "agent:\n  replay: 1\n"
    only = "agent:\n  batch_size: 32\n"
    dqn, a3c = (set_schema(registry, None, registry.agent(name)) for name in ("sb3-dqn", "a3c"))
    assert (faults(dqn, only), faults(a3c, only)) == ([], ["agent"])
    assert "network" not in dqn["properties"]
    assert faults(set_schema(registry), only) == []
    assert faults(set_schema(registry), text) == ["agent"]


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A run hook with a key of its own, some with types that no schema can say or nobody knows, and a broken one."""
    source = """
from a3c_zoo import HookEntry, hookimpl
from a3c_zoo.config import HookConfig
from pydantic import ConfigDict, Field

class Odd:
    pass

class PatienceConfig(HookConfig):
    patience: int = Field(3, ge=1, description="how often")

class OddConfig(HookConfig):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    odd: Odd | None = Field(None, description="odd")

class UnsayableConfig(HookConfig):
    odd: Odd = Field(Odd(), description="pydantic does not know its type")

class UnnamedConfig(HookConfig):
    odd: "Nowhere" = Field(1, description="there is no such type")

@hookimpl
def zoo_hooks():
    return [
        HookEntry("patient", "m:f", "own_hooks:PatienceConfig", revision=1),
        HookEntry("odd", "m:f", "own_hooks:OddConfig", revision=1),
        HookEntry("unsayable", "m:f", "own_hooks:UnsayableConfig", revision=1),
        HookEntry("unnamed", "m:f", "own_hooks:UnnamedConfig", revision=1),
        HookEntry("broken", "m:f", "own_hooks:Nowhere", revision=1),
    ]
"""
    monkeypatch.syspath_prepend(plugin_distribution(tmp_path / "installed", "own-hooks", source))
    get_registry.cache_clear()
    yield
    get_registry.cache_clear()


@pytest.mark.usefixtures("plugin")
def test_keys_of_a_plugin_count() -> None:
    schema = set_schema(get_registry())
    assert faults(schema, "plugins:\n  patient:\n    patience: 0") == ["plugins.patient.patience"]
    assert faults(schema, "plugins:\n  patient:\n    patience: 2\n  odd:\n    odd: anything") == []
    for name in ("unsayable", "unnamed", "broken"):
        assert faults(schema, f"plugins:\n  {name}:\n    any: 3") == []


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.chdir(tmp_path)
    assert command_line("show", "schema") == 0
    assert json.loads(capsys.readouterr().out)["title"] == "hyperparameter set of a3c-zoo"
    assert command_line("show", "schema", "cartpole", "--agent", "nstep", "--out", "x.json") == 0
    assert json.loads(Path("x.json").read_text())["title"].endswith(" for cartpole and nstep")
    assert command_line("show", "schema", "cartpole", "--out", "x.json") == 2
    assert "exists already" in capsys.readouterr().err
    assert command_line("show", "schema", "cartpol") == 2
    assert "Did you mean 'cartpole'?" in capsys.readouterr().err


def test_the_json_is_free_of_what_a_plugin_prints(tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(
        "import os\nfrom a3c_zoo import hookimpl\nprint('noise')\nos.write(1, b'noise')\n"
        "@hookimpl\ndef zoo_envs(): return []\n"
    )
    command = [sys.executable, "-m", "a3c_zoo", "show", "schema", "cartpole", "--plugin", "noisy.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environ(), capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["title"].startswith("hyperparameter set")
    assert done.stderr.count("noise") == 2


def test_a_long_name_is_overwritten_as_it_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["show", "hyperparams", "cartpole", "--out", f"{'é' * 120}.yml"]
    assert command_line(*words) == 0
    assert command_line(*words, "--force") == 0
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".yml"]


def test_a_written_set_has_its_schema_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command_line("show", "hyperparams", "cartpole", "--out", "my.yml") == 0
    text = Path("my.yml").read_text()
    assert text.startswith(LINE)
    assert FILE in LINE
    schema = json.loads(Path(FILE).read_text())
    assert schema["$comment"] == MADE
    assert faults(schema, text) == []
    assert command_line("show", "hyperparams", "cartpole", "--hyperparams", "my.yml") == 0
    # Beside sets of another environment, it is that of all sets.
    assert command_line("show", "hyperparams", "pong", "--out", "pong.yml") == 0
    both = json.loads(Path(FILE).read_text())
    assert (faults(both, text), faults(both, Path("pong.yml").read_text())) == ([], [])
    # One that a command has made is made anew; one of the user's stays.
    Path(FILE).write_text(f'{{"$comment": "{MADE}"}}')
    assert command_line("show", "hyperparams", "cartpole", "--out", "other.yml") == 0
    assert json.loads(Path(FILE).read_text()) == schema
    Path(FILE).write_text("{}")
    assert command_line("show", "hyperparams", "cartpole", "--out", "third.yml") == 0
    assert Path(FILE).read_text() == "{}"
    capsys.readouterr()
