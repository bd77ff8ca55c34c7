"""Run hooks with settings: chosen per run, made per session, fatal or not, across real processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from pydantic import Field

import a3c_zoo
from a3c_zoo import EnvEntry, HookEntry, hookimpl
from a3c_zoo.config import Config, HookConfig
from a3c_zoo.config.sets import describe, dump_config, load_config, resolve_config
from a3c_zoo.errors import ConfigError, PluginError, ZooError
from a3c_zoo.plugins.loading import Plugin, PluginInfo, Selection, load_plugins
from a3c_zoo.plugins.registry import Registry, get_registry, load_registry
from a3c_zoo.plugins.run_hooks import RunHooks
from a3c_zoo.plugins.sources import SourceDigests
from a3c_zoo.store.run import Run
from a3c_zoo.testing import plugin_distribution
from tests.test_hooks import EPISODE, OUTCOME, PROGRESS, RUN
from tests.toys_runs import command_line

QUICK = ("--serial", "--steps", "600", "-o", "run.stop_when_solved=false", "--quiet")


class PatienceConfig(HookConfig):
    """The settings of the hook in these tests."""

    patience: int = Field(3, ge=1, description="looks")
    fails_in: str = Field("", description="the hook that raises, or 'init'")


#: Every object of `Stop` that was made.
MADE: list[Stop] = []


class Stop:
    """Asks once to end the run, at its `patience`-th look."""

    def __init__(self, config: PatienceConfig) -> None:
        self.config, self.looks, self.calls = config, 0, list[str]()
        self._call("init")
        MADE.append(self)

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if self.config.fails_in == name:
            raise ValueError(f"{name} is broken")

    @hookimpl
    def zoo_run_start(self) -> None:
        self._call("zoo_run_start")

    @hookimpl
    def zoo_episode(self) -> None:
        self._call("zoo_episode")

    @hookimpl
    def zoo_metrics(self) -> None:
        self._call("zoo_metrics")

    @hookimpl
    def zoo_should_stop(self) -> str | None:
        self._call("zoo_should_stop")
        self.looks += 1
        return "patience is over" if self.looks == self.config.patience else None

    @hookimpl
    def zoo_run_end(self) -> None:
        self._call("zoo_run_end")


class Bare:
    """No hook at all."""

    def __init__(self, config: HookConfig) -> None: ...


class Offering:
    """A hook that is no run hook."""

    def __init__(self, config: HookConfig) -> None: ...

    @hookimpl
    def zoo_envs(self) -> list[EnvEntry]:
        return []


class Unmarked:
    """A hook without `hookimpl`."""

    def __init__(self, config: HookConfig) -> None: ...

    def zoo_metrics(self) -> None: ...


class Killer:
    """Asks once to end the run, and ends its learner in the same moment: the session is lost before the end is due."""

    has_asked = False

    def __init__(self, config: HookConfig) -> None: ...

    @hookimpl
    def zoo_should_stop(self) -> str | None:
        if Killer.has_asked:
            return None
        Killer.has_asked = True
        for process in psutil.Process().children(recursive=True):
            if "learner" in process.name():
                process.kill()
        return "asked once"


STOP = HookEntry("early-stop", f"{__name__}:Stop", config=f"{__name__}:PatienceConfig", description="stops")
KILLER = HookEntry("killer", f"{__name__}:Killer")
LOGGER = replace(STOP, name="logger", fatal=False)
TOY = PluginInfo("toy", "toy", "toy-dist", "1.0", first_party=False)


def registry_of(*hooks: HookEntry) -> Registry:
    return Registry([*load_plugins(Selection(allowed=frozenset())), Plugin(TOY, object(), hooks)])


def resolve(registry: Registry, *overrides: str, hyperparams: str | None = None) -> Config:
    env, agent = registry.env("cartpole"), registry.agent("a3c")
    return resolve_config(registry, env, agent, overrides=overrides, hyperparams=hyperparams)


# Settings


def test_a_run_has_hooks_only_if_it_chooses_them() -> None:
    registry = registry_of(STOP, LOGGER)
    assert resolve(registry).plugins == {}
    assert "plugins" not in resolve(registry).to_dict()
    config = resolve(registry, "plugins.logger.enabled=true", "plugins.early-stop.patience=5")
    assert config.plugins == {"early-stop": PatienceConfig(patience=5), "logger": PatienceConfig()}
    assert list(config.plugins) == ["early-stop", "logger"]
    assert config.sources["plugins.early-stop.patience"] == "-o"
    rows = {row.key: (row.value, row.default, row.source) for row in describe(config)}
    assert rows["plugins.early-stop.patience"] == (5, 3, "-o")


def test_a_hook_that_is_on_by_default_can_be_switched_off() -> None:
    registry = registry_of(replace(STOP, on_by_default=True))
    assert resolve(registry).plugins == {"early-stop": PatienceConfig()}
    off = resolve(registry, "plugins.early-stop.enabled=false")
    assert off.plugins == {"early-stop": PatienceConfig(enabled=False)}
    assert "plugins.early-stop" not in SourceDigests().of(registry, [])


def test_a_file_can_set_them(tmp_path: Path) -> None:
    file = tmp_path / "mine.yml"
    file.write_text("plugins:\n  early-stop:\n    patience: 7\n  logger:\n")
    config = resolve(registry_of(STOP, LOGGER), "plugins.early-stop.patience=8", hyperparams=str(file))
    assert config.plugins == {"early-stop": PatienceConfig(patience=8), "logger": PatienceConfig()}
    file.write_text("plugins:\n")
    assert resolve(registry_of(STOP), hyperparams=str(file)).plugins == {}


def test_every_fault_is_one_line_with_its_source(tmp_path: Path) -> None:
    file = tmp_path / "mine.yml"
    file.write_text("plugins:\n  early-stop: 3\n  erly-stop:\n    patience: 1\n  logger:\n    patience: 0\n")
    overrides = ("plugins.early-stop=3", "plugins.early-stop.patiense=3", "plugins.x.y=1", "patience=4")
    with pytest.raises(ConfigError) as caught:
        resolve(registry_of(STOP, LOGGER), *overrides, hyperparams=str(file))
    assert [line.strip() for line in str(caught.value).splitlines()[1:]] == [
        f"{file}:2 plugins.early-stop: 3 — must be a section with keys below it",
        f"{file}:3 plugins.erly-stop: unknown run hook 'erly-stop'. Did you mean 'early-stop'? See: a3c-zoo list hooks",
        f"{file}:6 plugins.logger.patience: 0 — must be greater than or equal to 1",
        "-o plugins: must name a run hook and its key, such as plugins.NAME.enabled=true",
        "-o plugins.early-stop.patiense: unknown key. Did you mean 'patience'?",
        "-o plugins.x: unknown run hook 'x'. See: a3c-zoo list hooks",
        "-o patience: unknown key.",  # keys of hooks are never short
    ]


def test_a_model_of_another_kind_is_the_plugins_fault() -> None:
    with pytest.raises(PluginError, match=r"'a3c_zoo\.config:EnvConfig' .*a3c_zoo\.config\.HookConfig"):
        resolve(registry_of(replace(STOP, config="a3c_zoo.config:EnvConfig")), "plugins.early-stop.enabled=true")


def test_a_hook_may_have_dots_in_its_name(tmp_path: Path) -> None:
    registry, file = registry_of(replace(STOP, name="acme.early.stop")), tmp_path / "config.yml"
    config = resolve(registry, "plugins.acme.early.stop.patience=5")
    file.write_text(dump_config(config))
    assert load_config(file, registry).plugins == config.plugins != {}
    assert load_config(file, registry, with_hooks=False).plugins == {}


def test_a_saved_run_keeps_its_hooks_and_plays_without_them(tmp_path: Path) -> None:
    registry, file = registry_of(STOP, replace(LOGGER, on_by_default=True)), tmp_path / "config.yml"
    config = resolve(registry, "plugins.early-stop.patience=5", "plugins.logger.enabled=false")
    file.write_text(dump_config(config))
    assert yaml.safe_load(file.read_text())["plugins"]["early-stop"] == {"enabled": True, "patience": 5, "fails_in": ""}
    assert load_config(file, registry).plugins == config.plugins
    assert load_config(file, registry, with_hooks=False).plugins == {}
    with pytest.raises(ConfigError, match="unknown run hook 'early-stop'"):
        load_config(file, registry_of())
    assert load_config(file, registry_of(), with_hooks=False).plugins == {}
    # A stranger's may send what is trained to an address of theirs.
    message = (
        r"config\.yml switches on run hooks, with its settings \(plugins\.early-stop\), and the run is not your own"
    )
    with pytest.raises(ZooError, match=message):
        load_config(file, registry, is_trusted=False)
    assert load_config(file, registry, is_trusted=False, with_hooks=False).plugins == {}
    file.write_text(dump_config(resolve(registry, "plugins.logger.enabled=false")))
    assert load_config(file, registry, is_trusted=False).plugins.keys() == {"logger"}  # it is switched off
    file.write_text(dump_config(resolve(registry_of())))
    assert load_config(file, registry).plugins == {}  # it began without the logger, which is on by default now


# Calls


def hooks_of(entry: HookEntry, **settings: Any) -> RunHooks:
    return registry_of(entry).run_hooks({entry.name: PatienceConfig(**settings)})


def test_each_session_makes_its_own_object() -> None:
    registry = registry_of(STOP)
    first, second = (registry.run_hooks({"early-stop": PatienceConfig(patience=2)}) for _ in range(2))
    assert [first.should_stop(RUN, PROGRESS) for _ in range(3)] == [None, "patience is over", None]
    assert second.should_stop(RUN, PROGRESS) is None
    assert MADE[-1] is not MADE[-2]
    assert not registry.run_hooks({}).wants_episodes
    assert first.wants_episodes


@pytest.mark.parametrize("entry", [STOP, LOGGER])
@pytest.mark.parametrize(
    ("hooks", "fault"),
    [
        (f"{__name__}:Stop", "cannot be made: ValueError: init is broken (in test_hook_entries.py, line "),
        (f"{__name__}:Bare", "has no run hook"),
        (f"{__name__}:Offering", "has zoo_envs, which is no run hook"),
        (f"{__name__}:Unmarked", "cannot be made: function 'zoo_metrics' is not marked with @a3c_zoo.hookimpl"),
        (f"{__name__}:Nothing", f"cannot be made: '{__name__}:Nothing': module '{__name__}' has no attribute"),
        ("no_such_module:X", "cannot be made: ModuleNotFoundError: No module named 'no_such_module'"),
    ],
)
def test_an_object_that_cannot_be_made(hooks: str, fault: str, entry: HookEntry) -> None:
    with pytest.raises(PluginError) as caught:
        hooks_of(replace(entry, hooks=hooks), fails_in="init")
    assert str(caught.value).startswith(f"run hook '{entry.name}' of plugin 'toy' (toy-dist 1.0) {fault}")
    assert "\n" not in str(caught.value)


def call_all(hooks: RunHooks) -> None:
    hooks.run_start(RUN)
    hooks.episode(RUN, EPISODE)
    hooks.metrics(RUN, PROGRESS)
    hooks.should_stop(RUN, PROGRESS)
    hooks.run_end(RUN, OUTCOME)


@pytest.mark.parametrize("name", ["zoo_run_start", "zoo_episode", "zoo_metrics", "zoo_should_stop", "zoo_run_end"])
def test_a_failure_ends_the_run_unless_the_entry_says_otherwise(name: str) -> None:
    line = f"of plugin 'toy' (toy-dist 1.0) failed in {name}: ValueError: {name} is broken"
    with pytest.raises(PluginError) as caught:
        call_all(hooks_of(STOP, fails_in=name))
    assert str(caught.value) == f"run hook 'early-stop' {line}"
    told: list[str] = []
    hooks = hooks_of(LOGGER, fails_in=name)
    hooks.on_failure = told.append
    call_all(hooks)
    assert told == [f"run hook 'logger' {line}; the run goes on"]
    assert MADE[-1].calls[1:] == ["zoo_run_start", "zoo_episode", "zoo_metrics", "zoo_should_stop", "zoo_run_end"]


def test_failures_are_told_ever_more_seldom() -> None:
    told: list[str] = []
    hooks = hooks_of(LOGGER, fails_in="zoo_metrics")
    hooks.on_failure = told.append
    for _ in range(10):
        hooks.metrics(RUN, PROGRESS)
    assert [line.partition("goes on")[2] for line in told] == ["", " (2 failures)", " (4 failures)", " (8 failures)"]


def test_a_logger_can_ask_for_the_end_too() -> None:
    assert hooks_of(LOGGER, patience=1).should_stop(RUN, PROGRESS) == "patience is over"


# Whole runs


@pytest.fixture
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A plugin with both hooks, for the commands of this process."""
    source = f"from a3c_zoo import hookimpl\nfrom {__name__} import KILLER, LOGGER, STOP\n@hookimpl\ndef zoo_hooks():\n"
    folder = plugin_distribution(tmp_path / "installed", "hook-entries", source + "    return [KILLER, LOGGER, STOP]\n")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.chdir(tmp_path)
    get_registry.cache_clear()
    yield
    get_registry.cache_clear()


@pytest.mark.usefixtures("_installed")
def test_a_reason_that_is_given_once_ends_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    limits = ("-o", "run.stop_when_solved=false", "--time-limit", "60s", "--quiet")
    assert command_line("train", "cartpole", *limits, "-o", "plugins.early-stop.patience=1", "--name", "one") == 0
    outcome = json.loads(Path("runs/one/outcome.json").read_text())
    assert (outcome["reason"], outcome["detail"]) == ("plugin", "patience is over")
    meta = json.loads(Path("runs/one/meta.json").read_text())
    assert meta["plugins"]["plugins.early-stop"] == "plugin 'hook-entries' (hook-entries 1.0)"
    made = len(MADE)
    capsys.readouterr()
    assert command_line("evaluate", "one", "--episodes", "1") == 0
    assert len(MADE) == made  # it plays without them
    assert command_line("train", "--resume", "one", "--steps", outcome["steps"] + 1000, "--quiet") == 0
    assert len(MADE) == made + 1
    assert MADE[-1].config == PatienceConfig(patience=1)


@pytest.mark.usefixtures("_installed")
def test_a_reason_outlives_a_session_that_is_lost() -> None:
    Killer.has_asked = False
    limits = ("-o", "run.stop_when_solved=false", "--time-limit", "60s", "--quiet", "--name", "one")
    assert command_line("train", "cartpole", "--agent", "a3c-data", *limits, "-o", "plugins.killer.enabled=true") == 0
    outcome = json.loads(Path("runs/one/outcome.json").read_text())
    assert (outcome["reason"], outcome["detail"]) == ("plugin", "asked once")
    events = [json.loads(line)["kind"] for line in Path("runs/one/events.jsonl").read_text().splitlines()]
    assert "restarted" in events


@pytest.mark.usefixtures("_installed")
def test_a_logger_that_fails_all_the_time_stops_nothing() -> None:
    for name in ("zoo_run_start", "zoo_episode", "zoo_run_end"):
        options = ("-o", f"plugins.logger.fails_in={name}", "--name", name)
        assert command_line("train", "cartpole", *QUICK, *options) == 0
        events = [json.loads(line) for line in Path(f"runs/{name}/events.jsonl").read_text().splitlines()]
        assert {event["kind"] for event in events} == {"hook_failed"}
        assert f"failed in {name}: ValueError: {name} is broken; the run goes on" in events[0]["text"]


@pytest.mark.usefixtures("_installed")
def test_a_hook_that_cannot_be_made_leaves_no_run(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("logger", "early-stop"):
        assert command_line("train", "cartpole", *QUICK, "-o", f"plugins.{name}.fails_in=init") == 2
        err = capsys.readouterr().err
        assert err.startswith(f"Error: run hook '{name}' of plugin 'hook-entries' (hook-entries 1.0) cannot be made: ")
        assert err.count("\n") == 1
    assert not Path("runs").exists() or not list(Path("runs").iterdir())


@pytest.mark.usefixtures("_installed")
def test_from_python_and_in_listings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    overrides = {"plugins.logger.enabled": True, "run.stop_when_solved": False}
    outcome = a3c_zoo.train("cartpole", serial=True, steps=300, overrides=overrides, runs_dir=tmp_path / "runs")
    assert (MADE[-1].calls[0], MADE[-1].calls[-1]) == ("init", "zoo_run_end")
    config = Run(outcome.run, is_trusted=True).config(load_registry(), with_hooks=True)
    assert config.plugins == {"logger": PatienceConfig()}
    capsys.readouterr()
    assert command_line("list", "hooks", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    wanted = {"name": "early-stop", "by_default": False, "plugin": "hook-entries", "description": "stops"}
    assert wanted in rows
