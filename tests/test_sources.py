"""Digests of sources: what changes them, and which packages take part in a run."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from a3c_zoo.config.sets import entries_of, resolve_config
from a3c_zoo.plugins.loading import Selection
from a3c_zoo.plugins.registry import load_registry
from a3c_zoo.plugins.sources import SourceDigests, digest_of
from a3c_zoo.testing import plugin_distribution

ROOT = Path(__file__).parents[1]


def sources(env: str = "cartpole", agent: str = "a3c", *overrides: str) -> dict[str, str]:
    registry = load_registry(Selection())
    config = resolve_config(registry, registry.env(env), registry.agent(agent), overrides=overrides)
    return SourceDigests().of(registry, entries_of(registry, config).values(), config.import_strings)


def test_a_flipped_sign_in_the_loss_changes_the_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    copy = tmp_path / "copied_zoo"
    shutil.copytree(ROOT / "a3c_zoo", copy)
    before = digest_of("copied_zoo")
    assert before == digest_of("a3c_zoo")  # the names within a package count, not where it lies
    file = copy / "learning/objective.py"
    text = file.read_text()
    file.write_text(text.replace(" + ", " - ", 1))
    assert digest_of("copied_zoo") != before
    file.write_text(text)
    assert digest_of("copied_zoo") == before
    file.rename(copy / "learning/objectives.py")
    assert digest_of("copied_zoo") != before


def test_what_counts_in_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / "counted"
    (package / "sets").mkdir(parents=True)
    (package / "__init__.py").write_text("x = 1\n")
    (package / "sets/a3c.yml").write_text("agent: {gamma: 0.9}\n")
    digest = digest_of("counted")
    for name in ("README.md", "__init__.cpython-311.pyc", "level.png"):
        (package / name).write_text("anything")
    (package / ".#__init__.py").symlink_to("nowhere")  # an editor's
    assert digest_of("counted") == digest
    for name, text in (("sets/a3c.yml", "agent: {gamma: 0.8}\n"), ("fast.so", "machine code"), ("new.py", "")):
        (package / name).write_text(text)
        assert digest_of("counted") != digest
        digest = digest_of("counted")


def test_a_module_and_what_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "lonely.py").write_text("x = 1\n")
    first = digest_of("lonely")
    (tmp_path / "lonely.py").write_text("x = 2\n")
    assert first != digest_of("lonely") != ""
    assert digest_of("no_such_package") == ""
    assert digest_of("sys") == digest_of("itertools")  # built in: they have no files


def test_the_packages_that_take_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sources().keys() == {"a3c_zoo", "a3c_zoo_envs"}
    assert sources(agent="sb3-a2c").keys() == {"a3c_zoo", "a3c_zoo_envs"}  # the libraries' versions count
    assert sources(agent="recurrent-ppo").keys() == {"a3c_zoo", "a3c_zoo_envs", "sb3_contrib"}
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "lake_wrappers.py").write_text("scale = 1\n")
    wrapped = "cartpole", "a3c", "env.wrappers=[lake_wrappers:Scale, {gymnasium.wrappers:TimeAwareObservation: {}}]"
    assert (before := sources(*wrapped)).keys() == {"a3c_zoo", "a3c_zoo_envs", "lake_wrappers"}
    (tmp_path / "lake_wrappers.py").write_text("scale = 100\n")
    assert sources(*wrapped)["lake_wrappers"] != before["lake_wrappers"]
    (tmp_path / "lake_physics.py").write_text("sign = 1\n")
    (tmp_path / "lake_envs.py").write_text("def make(num_envs, seed): ...\n")
    source = (
        "from a3c_zoo import EnvEntry, hookimpl\n"
        "@hookimpl\ndef zoo_envs():\n    return [EnvEntry('lake', factory='lake_envs:make')]\n"
    )
    plugin_distribution(tmp_path, "zoo-lake", source)
    (tmp_path / "zoo_lake-1.0.dist-info/top_level.txt").write_text("zoo_lake\nlake_physics\n")
    assert sources().keys() == {"a3c_zoo", "a3c_zoo_envs"}  # installed, but not used
    before = sources("lake")
    assert before.keys() == {"a3c_zoo", "zoo_lake", "lake_envs", "lake_physics"}
    (tmp_path / "lake_physics.py").write_text("sign = -1\n")  # the version stays
    assert {name for name, digest in sources("lake").items() if digest != before[name]} == {"lake_physics"}
    hook = "from a3c_zoo import hookimpl\n@hookimpl\ndef zoo_should_stop(run, progress): ...\n"
    plugin_distribution(tmp_path, "zoo-stop", hook)
    assert "zoo_stop" in sources()  # a run hook takes part in every run


def test_an_environment_by_its_id_names_its_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    entry_point = "gymnasium.envs.classic_control.cartpole:CartPoleEnv"
    (tmp_path / "own_gym.py").write_text(f"import gymnasium\ngymnasium.register('Own-v0', '{entry_point}')\n")
    assert sources("gym:own_gym:Own-v0").keys() == {"a3c_zoo", "a3c_zoo_envs", "own_gym"}
    assert sources("gym:Acrobot-v1").keys() == {"a3c_zoo", "a3c_zoo_envs"}


def test_digests_take_milliseconds() -> None:
    durations = []
    for _ in range(20):
        start_s = time.process_time()
        digest_of("a3c_zoo")
        durations.append(time.process_time() - start_s)
    assert min(durations) < 0.02  # 2 ms where nothing else computes


def test_a_file_that_cannot_be_read_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "linked_zoo").mkdir()
    (tmp_path / "linked_zoo/__init__.py").touch()
    before = digest_of("linked_zoo")
    (tmp_path / "linked_zoo/gone.py").symlink_to(tmp_path / "nowhere.py")
    assert digest_of("linked_zoo") != before
