"""Plugins without packaging: single files, across real processes; and what is said of those that are no use."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from a3c_zoo.cli.main import cli
from a3c_zoo.comparison.plan import make_plan
from a3c_zoo.comparison.trainings import ComparisonWatcher, train_plan
from a3c_zoo.engines.local import LocalEngine
from a3c_zoo.errors import PluginError
from a3c_zoo.plugins.loading import PLUGIN_FILES, Selection
from a3c_zoo.plugins.module_files import MODULE_FILES
from a3c_zoo.plugins.registry import get_registry, load_registry
from a3c_zoo.runs.evaluate_checkpoints import evaluate_runs
from tests.toys_runs import command_line, environ, in_turn
from tests.waits import LIMIT_S

PAGE = Path(__file__).parents[1] / "docs/how-to/use-a-plugin-file.md"
GOOD = "from a3c_zoo import EnvEntry, hookimpl\n@hookimpl\ndef zoo_envs(): return [EnvEntry('{name}', 'm:f')]\n"
QUICK = ("--steps", "400", "-o", "run.stop_when_solved=false", "-o", "run.evaluation_episodes=2")


def examples() -> list[str]:
    """The Python files of the page: the plugin file, and the program."""
    return [part.partition("```")[0] for part in PAGE.read_text(encoding="utf-8").split("```python\n")[1:]]


def zoo(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs `a3c-zoo` in a folder, as its console script does: nothing of the folder is on the path."""
    return python(folder, "-P", "-m", "a3c_zoo", *arguments, **variables)


def python(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs the interpreter in a folder."""
    command, environment = [sys.executable, *arguments], environ() | variables
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=2 * LIMIT_S, check=False
    )


WATCHER = """
import gc
from a3c_zoo import hookimpl

@hookimpl
def zoo_run_start(run):
    print("hidden:", gc.get_freeze_count() > 100_000)
"""


def test_what_the_command_line_imports_is_hidden_from_the_garbage_collector(tmp_path: Path) -> None:
    """Collections would go through 300,000 objects of torch again and again. A program's own objects are not hidden."""
    (tmp_path / "watch.py").write_text(WATCHER)
    done = zoo(tmp_path, "train", "cartpole", "--plugin", "watch.py", "--serial", "--steps", "50", "--quiet")
    assert "hidden: True\n" in done.stdout, done.stderr


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the page's plugin file in `plugins/`, and a run that its hook has ended, in `runs/one`."""
    folder = tmp_path_factory.mktemp("corridor")
    (folder / "plugins").mkdir()
    (folder / "plugins/corridor.py").write_text(examples()[0])
    hook = ("-o", "plugins.early-stop.patience=2", "-o", "run.evaluation_every_s=0.2")
    ended = zoo(folder, "train", "corridor", "--plugin", "plugins/corridor.py", *hook, "--name", "one", "--quiet")
    assert ended.returncode == 0, ended.stderr
    return folder


def test_the_file_of_the_page_reaches_workers_evaluator_and_hook(trained: Path) -> None:
    outcome = json.loads((trained / "runs/one/outcome.json").read_text())
    assert (outcome["reason"], outcome["evaluator_fault"]) in (("plugin", None), ("solved", None))
    meta = json.loads((trained / "runs/one/meta.json").read_text())
    assert meta["plugins"]["env"] == meta["plugins"]["plugins.early-stop"] == "plugin 'corridor' (corridor.py)"
    assert meta["plugin_files"] == [str(trained / "plugins/corridor.py")]
    assert meta["sources"]["corridor"]


@pytest.mark.parametrize(
    "command", [("train", "--resume", "one"), ("evaluate", "one"), ("play", "one", "--video", "film.gif")]
)
def test_a_run_says_which_file_it_needs(command: tuple[str, ...], trained: Path) -> None:
    (trained / "corridor.py").write_text("raise SystemExit('imported')")  # it merely lies here
    ended = zoo(trained, *command)
    line = f"Error: run one was trained with a plugin file that is not loaded now; add --plugin {trained}/plugins/"
    assert (ended.returncode, ended.stderr) == (2, f"{line}corridor.py\n")


@pytest.mark.slow
def test_with_the_file_a_run_goes_on(trained: Path) -> None:
    file = str(trained / "plugins/corridor.py")
    steps = json.loads((trained / "runs/one/outcome.json").read_text())["steps"]
    shutil.copytree(trained / "runs", trained / "copied")
    lines = in_turn(
        ["evaluate", "one", "--episodes", "2", "--plugin", file],
        ["--plugin", file, "train", "--resume", "one", "--runs-dir", "copied", "--steps", str(steps + 1000)],
    )
    ended = python(trained, *lines)
    assert ended.returncode == 0, ended.stderr
    assert "played   2 episodes" in ended.stdout
    assert f" copied/one --runs-dir copied --plugin {file}" in ended.stdout.splitlines()[-1]  # the next command
    assert json.loads((trained / "copied/one/outcome.json").read_text())["steps"] > steps


def test_a_strangers_run_names_no_folder(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained / "runs/one", tmp_path / "inbox/one")
    meta = json.loads((tmp_path / "inbox/one/meta.json").read_text())
    evil = tmp_path / "inbox/one/evil; rm.py"
    evil.write_text(f"open({str(tmp_path / 'mark')!r}, 'w')")
    (tmp_path / "inbox/one/meta.json").write_text(json.dumps({**meta, "plugin_files": [str(evil)]}))
    ended = zoo(tmp_path, "evaluate", "inbox/one")
    line = "Error: run one was trained with a plugin file that is not loaded now; add --plugin 'evil; rm.py'\n"
    assert (ended.returncode, ended.stderr) == (2, line)
    (tmp_path / "inbox/one/meta.json").write_text(json.dumps({**meta, "plugin_files": 5}))
    ended = zoo(tmp_path, "evaluate", "inbox/one")
    assert (ended.returncode, "its plugin_files is no list" in ended.stderr) == (2, True)
    assert not (tmp_path / "mark").exists()


def test_a_process_of_a_comparison_trains_it(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained)
    monkeypatch.setenv(PLUGIN_FILES, str(trained / "plugins/corridor.py"))
    monkeypatch.setattr(MODULE_FILES, "paths", {})
    get_registry.cache_clear()
    try:
        budget: dict[str, Any] = {"seeds": [1], "steps": 2000, "time_limit": None}
        plan = make_plan(
            envs=["corridor"], agents=["a3c"], baselines=["random"], **budget, runs_dir=Path("planned"), reuse=True
        )
        run = next(run for run in plan.runs if run.method == "random")
        (ended,) = train_plan(replace(plan, runs=(run,)), ComparisonWatcher(), LocalEngine())
        assert (ended.fault, evaluate_runs([ended.path], 1, lambda done, total: None)) == (None, {})
    finally:
        sys.modules.pop("corridor", None)
        get_registry.cache_clear()


@pytest.mark.slow
def test_a_comparison_trains_and_evaluates_it(trained: Path) -> None:
    options = ("--plugin", "plugins/corridor.py", "--baseline", "random", "--seeds", "1", "--episodes", "1", "--yes")
    ended = zoo(trained, "compare", "corridor", *options, "--steps", "2000", "--runs-dir", "compared", "--json")
    assert ended.returncode == 0, ended.stderr


def test_the_program_of_the_page(tmp_path: Path) -> None:
    plugin, program = examples()
    (tmp_path / "corridor.py").write_text(plugin)
    (tmp_path / "program.py").write_text(program.replace("20_000", "2_000"))
    ended = python(tmp_path, "program.py")
    assert ended.returncode == 0, ended.stderr
    assert float(ended.stdout) <= 1.0


def test_the_variable_names_several_files(tmp_path: Path) -> None:
    names = ("file_one", "file_two")
    for name in names:
        (tmp_path / f"{name}.py").write_text(GOOD.format(name=name.replace("_", "-")))
    (tmp_path / "link.py").symlink_to("nowhere")
    ended = zoo(tmp_path, "list", "plugins", "--json", A3C_ZOO_PLUGIN_FILES="file_one.py::./file_two.py:file_one.py")
    assert ended.returncode == 0, ended.stderr
    found = {row["name"]: row for row in json.loads(ended.stdout)}
    assert [found[name]["distribution"] for name in names] == ["file_one.py", "file_two.py"]
    assert list(found)[-2:] == ["file_one", "file_two"]  # after those that are installed


def faults(*files: Path) -> str:
    with pytest.raises(PluginError) as caught:
        load_registry(Selection(files=tuple(map(str, files))))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "source", "fault"),
    [
        ("missing.py", None, "there is no such file"),
        ("file_text.txt", "hello", "it is no Python file; its name must end in .py"),
        ("file-dash.py", "", "its name is no module name; rename it: letters, digits and '_'"),
        ("file_empty.py", "", "it defines nothing: it has no function that is marked with @hookimpl"),
        ("file_words.py", "These are words.", "its import failed: SyntaxError: invalid syntax (file_words.py, line 1)"),
        ("file_bytes.py", "\0", "its import failed: SyntaxError: source code string cannot contain null bytes"),
        ("file_raises.py", "1 / 0", "its import failed: ZeroDivisionError: division by zero (in file_raises.py, line"),
        ("file_exits.py", "exit(3)", "its import ends the process: SystemExit: 3"),
        ("file_takes.py", GOOD.format(name="cartpole"), "offers the environment 'cartpole', which plugin 'envs'"),
        ("yaml.py", GOOD.format(name="y"), "Python has another module 'yaml' ("),
        ("core.py", GOOD.format(name="c"), "has the same name as plugin 'core' (a3c-zoo "),
        ("__main__.py", GOOD.format(name="m"), "Python has another module '__main__' ("),
    ],
)
def test_a_file_that_is_no_use(name: str, source: str | None, fault: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if source is not None:
        path.write_text(source)
    assert faults(path).startswith(f"plugin file {path}: {fault}")


def test_a_wrong_field_in_ones_own_file_is_no_matter_of_versions(tmp_path: Path) -> None:
    (tmp_path / "file_field.py").write_text("from a3c_zoo import EnvEntry\nEnvEntry('m', treshold=9)")
    fault = "it gives EnvEntry a field 'treshold' that is unknown. Did you mean 'threshold'?"
    assert faults(tmp_path / "file_field.py") == f"plugin file {tmp_path}/file_field.py: {fault}"


def test_a_folder_and_a_fifo_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "folder.py").mkdir()
    os.mkfifo(tmp_path / "fifo.py")
    for name in ("folder.py", "fifo.py"):
        assert faults(tmp_path / name).endswith("it is no Python file; its name must end in .py")


def test_two_files_of_one_name(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "file_twin.py").write_text(GOOD.format(name="twin"))
    first, second = tmp_path / "a/file_twin.py", tmp_path / "b/file_twin.py"
    assert faults(first, second) == f"plugin file {second}: has the same name as {first}; rename one"
    assert load_registry(Selection(files=(str(first), str(first)))).envs["twin"]


@pytest.mark.parametrize("arguments", [("list", "envs"), ("train", "cartpole"), ("--help",), ("no-such-command",)])
def test_the_command_line_ends_with_status_2(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(PLUGIN_FILES, "")
    assert command_line("--plugin", tmp_path / "missing.py", *arguments) == 2
    line = f"Error: plugin file {tmp_path}/missing.py: there is no such file\n"
    assert capsys.readouterr() == ("", line)
    get_registry.cache_clear()


PARTS = """
from a3c_zoo import AgentEntry, NetworkEntry, OptimizerEntry, hookimpl

@hookimpl
def zoo_agents():
    lost = AgentEntry("lost", "no_such_module:run", "no_such_module:load")
    keyless = AgentEntry("keyless", "no_such_module:run", "no_such_module:load", config="no_such_module:Keys")
    return [lost, keyless, AgentEntry("silent", "builtins:print", "file_parts:no_load")]

@hookimpl
def zoo_networks():
    names = {"lost": "no_such_module:build", "number": "file_parts:NUMBER"}
    return [NetworkEntry(name, factory, inputs=("vector",)) for name, factory in names.items()]

NUMBER = 7

@hookimpl
def zoo_optimizers(): return [OptimizerEntry("lost", "file_parts:NoSuchClass")]
"""


def refusal(choice: str, plugin: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What a training with a choice of a plugin file's parts says of them."""
    options = ("--serial", "--quiet", "--runs-dir", plugin.with_name("runs"), "--plugin", plugin)
    assert command_line("train", "cartpole", *choice.split(), *options) == 2
    return capsys.readouterr().err


def test_an_import_string_that_leads_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(PLUGIN_FILES, "")
    (tmp_path / "file_parts.py").write_text(PARTS)
    no_module = "ModuleNotFoundError: No module named 'no_such_module'"
    no_class = "'file_parts:NoSuchClass': module 'file_parts' has no attribute 'NoSuchClass'"
    no_load = "'file_parts:no_load': module 'file_parts' has no attribute 'no_load'"
    for choice, part, why in (
        ("--agent=lost", "agent 'lost'", no_module),
        ("--agent=silent", "the agent's policy", no_load),
        ("--agent=keyless", "configuration model 'no_such_module:Keys'", no_module),
        ("-onetwork.name=lost", "network 'lost'", no_module),
        ("-onetwork.name=number", "network 'number'", "'file_parts:NUMBER' is not callable"),
        ("-ooptimizer.name=lost", "optimizer 'lost'", no_class),
    ):
        assert refusal(choice, tmp_path / "file_parts.py", capsys) == f"Error: {part} cannot be loaded: {why}\n"
    get_registry.cache_clear()


DIVERGES = """
from dataclasses import replace
from a3c_zoo import AgentEntry, hookimpl
from a3c_zoo.agents import run_a3c
from a3c_zoo.learning import actor_critic_loss

@hookimpl
def zoo_agents():
    return [AgentEntry("nan", "file_nan:run", "a3c_zoo.agents:load", "a3c_zoo.agents:A3CConfig", revision=1)]

def loss(samples, objective):
    terms = actor_critic_loss(samples, objective)
    return replace(terms, policy_gain=terms.policy_gain * float("nan"))

def run(context):
    run_a3c(context, loss)
"""


def test_the_cure_of_a_run_that_diverged_names_the_plugin_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(PLUGIN_FILES, "")
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.chdir(tmp_path)
    plugin = Path("file_nan.py")
    plugin.write_text(DIVERGES)
    said = refusal("--agent=nan --hyperparams=a3c", plugin, capsys)
    assert ". From a good checkpoint: a3c-zoo train cartpole --agent nan " in said
    assert said.endswith(" --plugin file_nan.py\n")
    get_registry.cache_clear()


UNFIT = """
import torch
from a3c_zoo import NetworkEntry, OptimizerEntry, hookimpl
from a3c_zoo.learning import ActorCritic

class Raises(ActorCritic):
    def __init__(self, spec, num_logits, config):
        raise ValueError("no layers")

class Silent(ActorCritic):
    def __init__(self, spec, num_logits, config):
        super().__init__()
        self.layer = torch.nn.Linear(4, num_logits)

class Column(Silent):
    def policy(self, observations): return self.layer(observations)
    def value(self, observations): return self.layer(observations)[:, :1]

def two(spec, num_logits): ...
def forgets(spec, num_logits, config): ...

class Lazy(Silent):
    def __init__(self, spec, num_logits, config):
        super().__init__(spec, num_logits, config)
        self.layer = torch.nn.LazyLinear(num_logits)

class Empty(ActorCritic):
    def __init__(self, spec, num_logits, config):
        super().__init__()
def linear(spec, num_logits, config): return torch.nn.Linear(2, 2)

class NoMoments:
    def __init__(self, parameters, moments): ...

class NoApply:
    def __init__(self, parameters, moments, config): ...
    moments = staticmethod(lambda parameters, config: {})

class List(NoMoments):
    moments = staticmethod(lambda parameters, config: [])

class Number(NoMoments):
    moments = staticmethod(lambda parameters, config: {"t": 0})

class Two(NoMoments):
    moments = staticmethod(lambda parameters, config: {})

@hookimpl
def zoo_networks():
    names = ("Raises", "Silent", "Column", "two", "forgets", "linear", "Lazy", "Empty")
    return [NetworkEntry(n.lower(), f"file_unfit:{n}", inputs=("vector",)) for n in names]

@hookimpl
def zoo_optimizers():
    return [OptimizerEntry(n.lower(), f"file_unfit:{n}") for n in ("NoMoments", "NoApply", "List", "Number", "Two")]
"""


def test_what_a_network_or_an_optimizer_does_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(PLUGIN_FILES, "")
    (tmp_path / "file_unfit.py").write_text(UNFIT)
    no_dict = "moments must return a dict of tensors by name"
    for choice, error in (
        ("network.name=raises", "network 'raises' cannot be built: ValueError: no layers (in file_unfit.py, line 8)"),
        ("network.name=silent", "network 'silent' fails: NotImplementedError: Silent defines no method policy() (in "),
        ("network.name=column", "network 'column': value() returned float32 [2, 1], where float32 [2] is expected"),
        ("network.name=two", "network 'two' cannot be built: TypeError: two() takes 2 positional arguments but 3 were"),
        ("network.name=forgets", "network 'forgets': the factory must return an ActorCritic, not a NoneType"),
        ("network.name=linear", "network 'linear': the factory must return an ActorCritic, not a Linear"),
        ("network.name=lazy", "network 'lazy' has lazy layers, whose sizes are not known: give them, or call"),
        ("network.name=empty", "network 'empty' has no parameters, so nothing can be learned"),
        ("optimizer.name=nomoments", "optimizer 'nomoments' cannot be built: AttributeError: type object 'NoMoments'"),
        ("optimizer.name=noapply", "optimizer 'noapply' needs a method apply(gradient, learning_rate): 'NoApply' obj"),
        ("optimizer.name=list", f"optimizer 'list': {no_dict}, not a list"),
        ("optimizer.name=list -oshared_statistics=false", f"optimizer 'list': {no_dict}, not a list"),
        ("optimizer.name=number", f"optimizer 'number': {no_dict}; 't' is of type int"),
        ("optimizer.name=two", "optimizer 'two' cannot be built: TypeError: NoMoments.__init__() takes 3 positional"),
    ):
        text = refusal(f"-o {choice}", tmp_path / "file_unfit.py", capsys)
        assert text.startswith(f"Error: {error}")
        assert text.count("\n") == 1
    get_registry.cache_clear()


def test_a_path_with_a_colon(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv(PLUGIN_FILES, "")
    assert command_line("list", "envs", "--plugin", "a:b.py") == 2
    line = "Error: --plugin a:b.py: its path has a ':', which separates paths; rename it\n"
    assert capsys.readouterr().err == line


def test_a_file_can_offer_a_command(tmp_path: Path) -> None:
    source = """
import click
from a3c_zoo import CommandEntry, hookimpl

@click.command()
@click.option("--loud", is_flag=True)
def hello(loud): print("hello")

@hookimpl
def zoo_commands(): return [CommandEntry("hello", "file_hello:hello", "Say hello.")]
"""
    (tmp_path / "file_hello.py").write_text(source)
    for line in (["--plugin", "file_hello.py", "hello"], ["hello", "--loud", "--plugin=file_hello.py"]):
        assert zoo(tmp_path, *line).stdout == "hello\n"
    assert "Say hello." in zoo(tmp_path, "--plugin", "file_hello.py", "--help").stdout


def test_modules_are_found_by_their_names_alone(tmp_path: Path) -> None:
    (tmp_path / "file_alone.py").write_text(GOOD.format(name="alone"))
    (tmp_path / "file_beside.py").write_text("")
    load_registry(Selection(files=(str(tmp_path / "file_alone.py"),)))
    assert MODULE_FILES.find_spec("file_alone") is not None
    assert MODULE_FILES.find_spec("file_beside") is None
    assert str(tmp_path) not in sys.path


def test_every_command_has_the_option() -> None:
    context = cli.make_context("a3c-zoo", ["list", "envs"])
    for name in ("train", "evaluate", "play", "compare", "plot", "list"):
        command = cli.get_command(context, name)
        assert command is not None
        assert ["--plugin"] in [param.opts for param in command.params], name
