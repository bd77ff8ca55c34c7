"""Loading plugins: real throw-away distributions, real entry points, one test for each way to be faulty."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import a3c_zoo
from a3c_zoo.cures import upgrade
from a3c_zoo.plugins.loading import Plugin, PluginInfo, Selection, load_plugins
from a3c_zoo.testing import plugin_distribution
from tests.toys_runs import environ

Install = Callable[..., None]

GOOD = """
from a3c_zoo import EnvEntry, hookimpl

@hookimpl
def zoo_envs():
    return [EnvEntry(name="maze", factory="maze_plugin:make")]
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs throw-away distributions: `install("toy", source, version=…, entry_point=…)`."""
    for variable in ("A3C_ZOO_DISABLE_PLUGINS", "A3C_ZOO_PLUGINS"):
        monkeypatch.delenv(variable, raising=False)

    def install(name: str, source: str, **options: str) -> None:
        folder = plugin_distribution(tmp_path / name, name, source, **options)
        monkeypatch.syspath_prepend(folder)
        monkeypatch.delitem(sys.modules, name.replace("-", "_"), raising=False)

    return install


def load(selection: Selection | None = None) -> dict[str, Plugin]:
    found = load_plugins(selection or Selection())
    return {plugin.info.distribution + "/" + plugin.info.name: plugin for plugin in found}


def fault_of(source: str, install: Install) -> str:
    """Installs a plugin with this source and returns its fault; checks that it alone is left out."""
    install("faulty-dist", source, version="2.5", entry_point="faulty")
    install("good-dist", GOOD, entry_point="good")
    plugins = load()
    faulty = plugins["faulty-dist/faulty"]
    assert faulty.info.status == "faulty"
    assert faulty.implementation is None
    assert faulty.offers == ()
    assert str(faulty.info) == "plugin 'faulty' (faulty-dist 2.5)"
    assert {plugin.info.status for plugin in plugins.values() if plugin is not faulty} == {"loaded"}
    assert faulty.info.fault is not None
    assert "\n" not in faulty.info.fault
    return faulty.info.fault


def test_first_party_plugins_come_first_and_load() -> None:
    plugins = list(load_plugins(Selection()))
    assert [plugin.info.name for plugin in plugins[:3]] == ["core", "envs", "hyperparams"]
    assert all(plugin.info.first_party and plugin.info.status == "loaded" for plugin in plugins[:3])


def test_a_plugin_is_described(install: Install) -> None:
    install("toy-dist", GOOD, version="3.1", entry_point="toy")
    info = load()["toy-dist/toy"].info
    assert (info.name, info.module, info.distribution, info.version) == ("toy", "toy_dist", "toy-dist", "3.1")
    assert (info.first_party, info.hooks, info.fault, info.status) == (False, ("zoo_envs",), None, "loaded")
    assert info.import_s > 0


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("import no_such_module", "its import failed: ModuleNotFoundError: No module named 'no_such_module' (in"),
        ("raise ValueError('a\\nb')", "its import failed: ValueError: a b (in faulty_dist.py, line 1)"),
        ("def broken(:", "its import failed: SyntaxError: invalid syntax (faulty_dist.py, line 1)"),
        ("raise SystemExit(3)", "its import ends the process: SystemExit: 3 (in faulty_dist.py, line 1)"),
        ("import os; os._exit(3)", "its import ends the process: SystemExit: 3"),
        # As a module in Rust does that panics:
        ("raise type('PanicException', (BaseException,), {})('boom')", "its import failed: PanicException: boom (in"),
    ],
)
def test_a_failing_import(source: str, fault: str, install: Install) -> None:
    assert fault_of(source, install).startswith(fault)
    assert fault.partition(": ")[2].partition(":")[0] in load()["faulty-dist/faulty"].info.trace


@pytest.mark.parametrize(
    ("hook", "fault"),
    [
        (
            "@hookimpl\ndef zoo_env(): ...",
            f"a3c-zoo {a3c_zoo.__version__} has no hook 'zoo_env'. Did you mean 'zoo_envs'? "
            f"Or a newer a3c-zoo has it: {upgrade()}",
        ),
        ("def zoo_envs(): ...", "function 'zoo_envs' is not marked with @a3c_zoo.hookimpl"),
        (
            "@hookimpl\ndef zoo_episode(run, epsiode): ...",
            "a hook has a wrong signature: Argument(s) {'epsiode'} are declared in the hookimpl "
            "but can not be found in the hookspec",
        ),
    ],
)
def test_a_misspelt_hook(hook: str, fault: str, install: Install) -> None:
    assert fault_of(f"from a3c_zoo import hookimpl\n{hook}", install) == fault


@pytest.mark.parametrize(
    ("hook", "offer", "fault"),
    [
        ("zoo_envs", "[1 / 0]", "zoo_envs() failed: ZeroDivisionError: division by zero (in faulty_dist.py, line 4)"),
        ("zoo_envs", "exit(1)", "zoo_envs() failed: SystemExit: 1"),
        ("zoo_envs", "(0 for _ in ()).throw(BaseException('boom'))", "zoo_envs() failed: BaseException: boom"),
        (
            "zoo_envs",
            "EnvEntry('maze', 'm:f')",
            "zoo_envs() must return a list of EnvEntry or EnvFamily, not a single EnvEntry",
        ),
        ("zoo_envs", "None", "zoo_envs() must return a list of EnvEntry or EnvFamily, not None"),
        ("zoo_envs", "'maze'", "zoo_envs() must return a list of EnvEntry or EnvFamily, not 'maze'"),
        ("zoo_envs", "['maze']", "zoo_envs() offers 'maze' where EnvEntry or EnvFamily is expected"),
        (
            "zoo_agents",
            "[EnvEntry('maze', 'm:f')]",
            "zoo_agents() offers a single EnvEntry where AgentEntry is expected",
        ),
        (
            "zoo_envs",
            "[EnvEntry('maze', 'm:f', revision=9)]",
            "zoo_envs() offers an EnvEntry of revision 9, but this version of a3c-zoo understands revision 1",
        ),
        (
            "zoo_envs",
            "[EnvEntry('maze')]",
            "zoo_envs() offers 'maze' with neither of factory and env_id; give exactly one",
        ),
        (
            "zoo_envs",
            "[EnvEntry('maze', 'm:f', 'Maze-v0')]",
            "zoo_envs() offers 'maze' with both of factory and env_id; give exactly one",
        ),
        (
            "zoo_envs",
            "[EnvEntry('maze', env_id='Maze-v0', agents=('a', 'b'))]",
            "zoo_envs() offers 'maze' with env_id and agents, which are for environments with a factory; leave them",
        ),
        (
            "zoo_envs",
            "[EnvEntry('maze', 'm.f')]",
            "zoo_envs() offers EnvEntry 'maze' with factory='m.f', which must be an import",
        ),
        ("zoo_envs", "[EnvEntry('a:b', 'm:f')]", "zoo_envs() offers the name 'a:b'; it may have a-z, 0-9,"),
        ("zoo_envs", "[EnvFamily('Maze', 'm:f')]", "zoo_envs() offers the prefix 'Maze'; it may have a-z, 0-9,"),
        (
            "zoo_agents",
            "[AgentEntry('x', 'm:f', 'm')]",
            "zoo_agents() offers AgentEntry 'x' with load='m', which must be an import",
        ),
        (
            "zoo_agents",
            "[AgentEntry('x', 'm:f', 'm:f', spaces='Discrete')]",
            "zoo_agents() offers AgentEntry 'x' with spaces='Discrete', which must be a tuple of strings",
        ),
        *(
            (
                "zoo_agents",
                f"[AgentEntry('x', 'm:f', 'm:f', sections={given})]",
                f"zoo_agents() offers AgentEntry 'x' with sections={given}, which must have run, env and agent, "
                "and may have network and optimizer",
            )
            for given in ("('run', 'agent')", "('run', 'env', 'agent', 'foo')")
        ),
        *(
            (
                "zoo_envs",
                f"[EnvEntry('maze', 'm:f', threshold={given})]",
                f"zoo_envs() offers EnvEntry 'maze' with threshold={shown}, which must be a finite number or None",
            )
            for given, shown in (
                ("'9'", "'9'"),
                ("True", "True"),
                ("float('nan')", "nan"),
                ("-float('inf')", "-inf"),
            )
        ),
        *(
            (
                "zoo_envs",
                f"[EnvEntry('maze', 'm:f', score_range={given})]",
                f"zoo_envs() offers EnvEntry 'maze' with score_range={shown}, which must be two rising finite numbers",
            )
            for given, shown in (
                ("('22', '500')", "('22', '500')"),
                ("(0.0, float('nan'))", "(0.0, nan)"),
                ("(500.0, 22.0)", "(500.0, 22.0)"),
                ("(0, 1, 2)", "(0, 1, 2)"),
                ("(1.0, 1.0)", "(1.0, 1.0)"),
                ("5", "5"),
            )
        ),
        *(
            (
                "zoo_envs",
                f"[EnvEntry('duo', 'm:f', agents={given})]",
                f"zoo_envs() offers EnvEntry 'duo' with agents={given}, which must be a tuple of strings",
            )
            for given in ("(1, 2)", "None", "'ann'")
        ),
        (
            "zoo_envs",
            "[EnvEntry('duo', 'm:f', agents=('a,b', 'c'))]",
            "zoo_envs() offers 'duo' with the agent 'a,b', which must be called by letters, digits, '_', '-' and '.'",
        ),
        (
            "zoo_envs",
            "[EnvEntry('duo', 'm:f', agents=('a', 'a'))]",
            "zoo_envs() offers 'duo' with two agents of the same name",
        ),
        (
            "zoo_agents",
            "[AgentEntry('x', 'm:f', 'm:f', kind='teacher')]",
            "zoo_agents() offers AgentEntry 'x' with kind='teacher', which must be 'agent' or 'baseline'",
        ),
        (
            "zoo_networks",
            "[NetworkEntry(3, 'm:f')]",
            "zoo_networks() offers NetworkEntry 3 with name=3, which must be a string",
        ),
        (
            "zoo_hyperparams",
            "[HyperparamEntry('a/b')]",
            "zoo_hyperparams() offers 'a/b' as a package, which is no dotted",
        ),
        (
            "zoo_commands",
            "[CommandEntry('go', 'm')]",
            "zoo_commands() offers CommandEntry 'go' with command='m', which must be an import",
        ),
    ],
)
def test_an_unusable_offer(hook: str, offer: str, fault: str, install: Install) -> None:
    source = f"from a3c_zoo import *\n@hookimpl\ndef {hook}():\n    return {offer}\n"
    assert fault_of(source, install).startswith(fault)


OTHER_VERSION = (
    f"the plugin was made for another version of a3c-zoo than {a3c_zoo.__version__}; upgrade both "
    f"({upgrade('faulty-dist')})."
)


@pytest.mark.parametrize(
    ("offer", "fault"),
    [
        (
            "EnvEntry('maze', 'm:f', spectrum=(0, 1))",
            f"it gives EnvEntry a field 'spectrum' that is unknown: {OTHER_VERSION}",
        ),
        (
            "EnvEntry('maze', 'm:f', treshold=9)",
            f"it gives EnvEntry a field 'treshold' that is unknown: {OTHER_VERSION} Did you mean 'threshold'?",
        ),
        ("EnvFamily('maze')", f"it gives EnvFamily no 'resolve': {OTHER_VERSION}"),
        (
            "EnvEntry('maze', 'm:f', revision=0)",
            "zoo_envs() offers an EnvEntry of revision 0, but this version of a3c-zoo understands revision 1: "
            "the plugin was made for an older version of a3c-zoo; upgrade the plugin",
        ),
        (
            "EnvFamily('maze', 'm:f', revision=2)",
            "zoo_envs() offers an EnvFamily of revision 2, but this version of a3c-zoo understands revision 1: "
            "the plugin was made for a newer version of a3c-zoo; upgrade a3c-zoo",
        ),
    ],
)
def test_entries_of_another_version(offer: str, fault: str, install: Install) -> None:
    source = f"from a3c_zoo import EnvEntry, EnvFamily, hookimpl\n@hookimpl\ndef zoo_envs(): return [{offer}]\n"
    assert fault_of(source, install) == fault


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        (
            "from a3c_zoo import EnvEntry\nEnvEntry('maze', 'm:f', spectrum=(0, 1))",
            "it gives EnvEntry a field 'spectrum' that is",
        ),
        ("from a3c_zoo import WorldEntry", "its import failed: cannot import name 'WorldEntry' from 'a3c_zoo':"),
        ("import a3c_zoo.worlds", "its import failed: No module named 'a3c_zoo.worlds':"),
    ],
)
def test_an_import_that_needs_another_version(source: str, fault: str, install: Install) -> None:
    found = fault_of(source, install)
    assert found.startswith(fault)
    assert found.endswith(OTHER_VERSION)


@pytest.mark.parametrize(
    ("need", "fault"),
    [
        ("a3c-zoo>=9", f"it requires a3c-zoo>=9, and this is {a3c_zoo.__version__}: install versions that fit"),
        ("a3c_zoo[play] (<0.0.1)", f"it requires a3c-zoo<0.0.1, and this is {a3c_zoo.__version__}: install"),
        (f"a3c-zoo>={a3c_zoo.__version__}", None),
        ("a3c-zoo>=9 ; extra == 'test'", None),
        ("a3c-zoo-maze>=9", None),
        ("a3c-zoo>=0.1.*", None),  # of old build tools; no version is meant by it
    ],
)
def test_the_version_of_a3c_zoo_that_a_plugin_requires(
    need: str, fault: str | None, install: Install, tmp_path: Path
) -> None:
    """As after an installation without dependencies: it is not imported."""
    install("needy-dist", GOOD, entry_point="needy")
    (metadata_file,) = tmp_path.glob("needy-dist/*.dist-info/METADATA")
    with metadata_file.open("a") as file:
        file.write(f"Requires-Dist: {need}\n")
    found = load()["needy-dist/needy"].info.fault
    assert (found is None) == (fault is None)
    assert (found or "").startswith(fault or "")
    assert ("needy_dist" in sys.modules) == (fault is None)


def test_a_plugin_whose_import_takes_long_is_named(
    install: Install, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("a3c_zoo.plugins.loading.TOLD_IMPORT_S", 0.05)
    install("slow-dist", f"import time; time.sleep(1)\n{GOOD}", entry_point="slow")
    assert load()["slow-dist/slow"].info.status == "loaded"
    line = "Note: importing plugin 'slow' (slow-dist 1.0) takes more than 0.05 s; to do without it: "
    assert line + "A3C_ZOO_DISABLE_PLUGINS=slow" in capsys.readouterr().err


def test_the_watch_over_an_import_leaves_nothing(install: Install) -> None:
    """A thread would keep others from forking, and an `_exit` that a module keeps must end its process."""
    program = "from os import _exit as leave\n" + GOOD
    install("kept-dist", program, entry_point="kept")
    before = threading.active_count()
    assert load()["kept-dist/kept"].info.status == "loaded"
    assert threading.active_count() == before
    kept = sys.modules["kept_dist"].leave
    pid = os.fork()
    if not pid:
        try:
            kept(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


def test_an_entry_may_be_of_a_subclass(install: Install) -> None:
    source = """
from dataclasses import dataclass
@dataclass(frozen=True, slots=True)
class Maze(EnvEntry):
    walls: 'list[int]' = ()
"""
    install("toy", GOOD.replace("[EnvEntry(", "[Maze(").replace("\n@hookimpl", source + "@hookimpl"))
    info = load()["toy/toy"].info
    assert (info.fault, info.status) == (None, "loaded")


def test_two_plugins_of_one_name(install: Install) -> None:
    install("a-dist", GOOD, entry_point="toy")
    install("b-dist", GOOD, entry_point="toy")
    plugins = load()
    assert plugins["a-dist/toy"].info.status == "loaded"
    assert plugins["b-dist/toy"].info.fault == "has the same name as plugin 'toy' (a-dist 1.0)"


def test_a_blocked_plugin_takes_no_name(install: Install, tmp_path: Path) -> None:
    """Such as an installed plugin of which a changed file is tried."""
    install("a-dist", GOOD, entry_point="toy_file")
    (tmp_path / "toy_file.py").write_text(GOOD)
    found = load_plugins(Selection(disabled=frozenset({"toy_file"}), files=(str(tmp_path / "toy_file.py"),)))
    assert [each.info.status for each in found if each.info.name == "toy_file"] == ["blocked", "loaded"]


def test_an_attribute_that_raises(install: Install) -> None:
    source = "class Toy:\n  @property\n  def zoo_envs(self): raise ValueError('boom')\n"
    assert "ValueError: boom" in fault_of(source + "import sys\nsys.modules[__name__] = Toy()", install)


def test_what_a_plugin_prints_goes_to_stderr(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    install("noisy", "print('hello')")
    assert load()["noisy/noisy"].info.status == "loaded"
    assert capsys.readouterr() == ("", "hello\n")


def test_a_plugin_may_be_an_object(install: Install, tmp_path: Path) -> None:
    source = (
        GOOD.replace("@hookimpl\ndef zoo_envs():", "class Toy:\n  @hookimpl\n  def zoo_envs(self):") + "\ntoy = Toy()"
    )
    install("toy", source)
    (tmp_path / "toy/toy-1.0.dist-info/entry_points.txt").write_text("[a3c_zoo]\ntoy = toy:toy\n")
    assert [offer.name for offer in load()["toy/toy"].offers] == ["maze"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("disabled", "allowed", "loaded"),
    [
        (None, None, {"core", "envs", "hyperparams", "one", "two"}),
        ("one, envs,unknown", None, {"core", "hyperparams", "two"}),
        (None, "", {"core", "envs", "hyperparams"}),
        (None, "one", {"core", "envs", "hyperparams", "one"}),
        ("one", "one,two", {"core", "envs", "hyperparams", "two"}),
    ],
)
def test_block_and_allow_lists(disabled: str | None, allowed: str | None, loaded: set[str], install: Install) -> None:
    install("one", "import sys; sys.imported_one = True")
    install("two", "")
    environ = {"A3C_ZOO_DISABLE_PLUGINS": disabled, "A3C_ZOO_PLUGINS": allowed}
    selection = Selection.from_environ({name: value for name, value in environ.items() if value is not None})
    infos = [plugin.info for plugin in load_plugins(selection)]
    status = {info.name: info.status for info in infos if info.name in {"core", "envs", "hyperparams", "one", "two"}}
    assert {name for name in status if status[name] == "loaded"} == loaded
    assert {status[name] for name in status if name not in loaded} <= {"blocked"}


def test_a_blocked_plugin_is_not_imported(install: Install) -> None:
    install("blocked-dist", "raise ValueError", entry_point="blocked")
    info = load(Selection(disabled=frozenset({"blocked"})))["blocked-dist/blocked"].info
    assert info == PluginInfo("blocked", "blocked_dist", "blocked-dist", "1.0", first_party=False, status="blocked")
    assert "blocked_dist" not in sys.modules


def cpu_seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_twenty_plugins_cost_help_little_time(tmp_path: Path) -> None:
    """They add 17 ms of CPU time to the start. Seconds of the clock would count other programs, too."""
    for number in range(20):
        plugin_distribution(tmp_path, f"speedy-{number}", GOOD.replace("maze", f"speedy-{number}"))

    def seconds(**variables: str) -> float:
        command = [sys.executable, "-P", "-m", "a3c_zoo", "--help"]
        start_s = cpu_seconds_of_children()
        subprocess.run(command, env=environ() | variables, capture_output=True, check=True)
        return cpu_seconds_of_children() - start_s

    with_them = {"PYTHONPATH": f"{tmp_path}:{environ()['PYTHONPATH']}"}
    seconds(**with_them)  # compiles them
    without, there = [], []
    for _ in range(7):  # or fewer: other load makes them slower, never quicker
        without.append(seconds())
        there.append(seconds(**with_them))
        if min(there) - min(without) < 0.2:
            return
    pytest.fail(f"{min(there):.2f} s, and {min(without):.2f} s without them")
