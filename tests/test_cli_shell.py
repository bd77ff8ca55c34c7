"""The command group, in a process of its own as users run it; in this process where that tells nothing new."""

from __future__ import annotations

import json
import os
import pty
import resource
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import pytest

import a3c_zoo
from a3c_zoo.cli.common import complete_env, matching
from a3c_zoo.plugins.builtins import COMMANDS
from a3c_zoo.plugins.entries import CommandEntry, load_object
from a3c_zoo.testing import plugin_distribution
from tests.toys_runs import command_line, installed_here
from tests.waits import LIMIT_S

HEAVY = ("torch", "gymnasium", "stable_baselines3")
#: What runs a command line.
Run = Callable[..., subprocess.CompletedProcess[str]]
#: Help may take this many times the CPU time in which Python starts and imports click and pluggy.
MOST_OF_A_START = 5
#: The tries of which one must be as quick as that.
MOST_TRIES = 5

COMMAND_PLUGIN = """
from a3c_zoo import *
import click

@hookimpl
def zoo_commands():
    return [CommandEntry("sing", "sing_plugin:command", "Sing something."), CommandEntry("broken", "no_such:thing")]

@click.command()
@click.argument("what")
def command(what):
    match what:
        case "status": return 7
        case "interrupt": raise KeyboardInterrupt
        case "user-error": raise ZooError("no such tune")
        case "our-fault": raise ValueError("boom")
"""

FAULTY_PLUGIN = "raise ValueError('boom')"


def run(*args: str, path: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs `a3c-zoo` with the distributions in `path` installed."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("A3C_ZOO_", "_A3C_ZOO_"))}
    environ |= variables | ({"PYTHONPATH": str(path)} if path else {})
    command = [sys.executable, "-m", "a3c_zoo", *args]
    return subprocess.run(command, capture_output=True, text=True, env=environ, timeout=LIMIT_S)


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`run` in this process."""
    monkeypatch.delenv("A3C_ZOO_DEBUG", raising=False)

    def run_here(*args: str, path: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
        with ExitStack() as installed:
            for folder in str(path or tmp_path / "nothing").split(os.pathsep):
                installed.enter_context(installed_here(Path(folder), **variables))
            status = command_line(*args)
        shown = capsys.readouterr()
        return subprocess.CompletedProcess(args, status, shown.out, shown.err)

    return run_here


@pytest.fixture(scope="module")
def sing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plugin_distribution(tmp_path_factory.mktemp("sing"), "sing-plugin", COMMAND_PLUGIN, entry_point="sing")


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plugin_distribution(tmp_path_factory.mktemp("faulty"), "faulty-plugin", FAULTY_PLUGIN, version="0.3")


def cpu_s(*arguments: str) -> tuple[float, str]:
    """The CPU seconds of Python with these arguments, which other load hardly changes, and what it prints."""

    def of_children_s() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before_s = of_children_s()
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    return of_children_s() - before_s, done.stdout


@pytest.mark.parametrize("command", ["", *(entry.name for entry in COMMANDS)])
def test_help_is_quick_and_light_and_shows_an_example(command: str) -> None:
    script = (
        "import atexit, sys\n"
        f"atexit.register(lambda: print('HEAVY:', [name for name in {HEAVY} if name in sys.modules]))\n"
        "from a3c_zoo.__main__ import main\n"
        "main()"
    )
    tries = []
    for _ in range(MOST_TRIES):
        start_s, _ = cpu_s("-c", "import click, pluggy")  # beside the help: other load slows both down
        help_s, shown = cpu_s("-c", script, *filter(None, [command]), "--help")
        assert "HEAVY: []" in shown
        assert "Example" in shown
        if help_s < MOST_OF_A_START * start_s:
            return
        tries.append(f"{help_s:.2f} s, and Python starts in {start_s:.2f} s")
    pytest.fail("; ".join(tries))


def examples(command: click.Command, width: int) -> list[str]:
    """The last line of the help of a command, and of its sub-commands, in a terminal of this width."""
    found = [command.get_help(click.Context(command, terminal_width=width)).splitlines()[-1].strip()]
    for child in command.commands.values() if isinstance(command, click.Group) else ():
        found += examples(child, width)
    return found


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_an_example_stays_in_one_line_in_a_terminal_of_any_width(entry: CommandEntry) -> None:
    command = load_object(entry.command)
    whole = examples(command, 1000)
    assert all(line.startswith(f"Example: a3c-zoo {entry.name}") for line in whole)
    assert [examples(command, width) for width in (60, 80, 140)] == [whole] * 3


def test_group_help_has_the_commands_of_plugins_in_a_section_of_their_own(sing: Path) -> None:
    help_text = run("--help", path=sing).stdout
    built_in, _, from_plugins = help_text.partition("Commands from plugins:\n")
    assert all(f"\n  {entry.name} " in built_in for entry in COMMANDS)
    assert from_plugins.split("\n")[:2] == ["  broken", "  sing    Sing something."]


def test_version() -> None:
    import a3c_zoo

    assert run("--version").stdout == f"a3c-zoo {a3c_zoo.__version__}\n"


USER_ERRORS = [
    (["lst"], "Error: unknown command 'lst'. Did you mean 'list'? See: a3c-zoo --help"),
    (["sing", "user-error"], "Error: no such tune"),
    (["list", "envz"], "Error: unknown listing 'envz'. Did you mean 'envs'? See: a3c-zoo list --help"),
    (["list", "envs", "--jsn"], "Error: No such option '--jsn'."),
    (["--verson"], "Error: No such option '--verson'."),
    (["list"], "Error: Missing argument 'WHAT'."),
    (["broken"], "Error: command 'broken' cannot be loaded: ModuleNotFoundError: No module named 'no_such'"),
]


@pytest.mark.parametrize(("args", "line"), USER_ERRORS)
def test_a_user_error_is_one_line_and_status_2(args: list[str], line: str, sing: Path, here: Run) -> None:
    done = (run if (args, line) in USER_ERRORS[:2] else here)(*args, path=sing)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(line)
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "variables"),
    [
        (["--debug", "sing", "user-error"], {}),
        (["sing", "user-error", "--debug"], {}),
        (["sing", "user-error"], {"A3C_ZOO_DEBUG": "1"}),
    ],
)
def test_debug_shows_the_traceback(args: list[str], variables: dict[str, str], sing: Path, here: Run) -> None:
    done = here(*args, path=sing, **variables)
    assert done.returncode == 2
    assert "Traceback" in done.stderr
    assert done.stderr.endswith("Error: no such tune\n")


def test_other_ends_of_a_command(sing: Path) -> None:
    assert run("sing", "status", path=sing).returncode == 7
    interrupted = run("sing", "interrupt", path=sing)
    assert (interrupted.returncode, interrupted.stderr.strip()) == (130, "")
    fault = run("sing", "our-fault", path=sing)
    assert fault.returncode == 1
    assert "Traceback" in fault.stderr
    assert "ValueError: boom" in fault.stderr


def test_a_reader_that_is_gone_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "a3c_zoo", "list", "plugins"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=LIMIT_S)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


def test_a_pipe_that_has_no_greek() -> None:
    command = [sys.executable, "-m", "a3c_zoo", "show", "hyperparams", "cartpole"]
    environ = os.environ | {"PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(command, capture_output=True, encoding="latin-1", env=environ, timeout=LIMIT_S)
    assert (done.returncode, done.stderr) == (0, "")
    assert "? of GAE" in done.stdout


def test_a_faulty_plugin_is_a_warning_and_the_rest_goes_on(faulty: Path, here: Run) -> None:
    done = run("list", "envs", path=faulty)
    assert done.returncode == 0
    assert "cartpole" in done.stdout
    assert done.stderr == (
        "Warning: plugin 'faulty-plugin' (faulty-plugin 0.3) is left out: "
        "its import failed: ValueError: boom (in faulty_plugin.py, line 1)\n"
    )
    assert here("list", "envs", path=faulty, A3C_ZOO_DISABLE_PLUGINS="faulty-plugin").stderr == ""
    traced = here("list", "envs", "--debug", path=faulty).stderr
    assert traced.startswith("Traceback (most recent call last):\n")
    assert "    raise ValueError('boom')\nValueError: boom\nWarning: plugin 'faulty-plugin'" in traced
    assert here("list", "envs", path=faulty, A3C_ZOO_PLUGINS="").stderr == ""


def test_debug_shows_the_traceback_of_a_plugin_file(tmp_path: Path) -> None:
    (tmp_path / "corridor.py").write_text(FAULTY_PLUGIN)
    done = run("list", "envs", "--debug", "--plugin", str(tmp_path / "corridor.py"))
    assert done.returncode == 2
    assert "    raise ValueError('boom')\nValueError: boom\n" in done.stderr
    assert done.stderr.splitlines()[-1].startswith(f"Error: plugin file {tmp_path}/corridor.py: its import failed")


def test_requirements(faulty: Path, sing: Path, here: Run) -> None:
    """For pip: what is loaded. A faulty plugin is no part of what works."""
    path = Path(f"{faulty}:{sing}")
    done = here("list", "plugins", "--requirements", path=path, A3C_ZOO_DISABLE_PLUGINS="trained")
    assert done.stdout == f"a3c-zoo=={a3c_zoo.__version__}\nsing-plugin==1.0\n"
    done = here("list", "envs", "--requirements")
    assert (done.returncode, done.stderr) == (
        2,
        "Error: --requirements is for plugins: a3c-zoo list plugins --requirements\n",
    )


def test_show_plugin(faulty: Path, sing: Path, here: Run) -> None:
    path = Path(f"{faulty}:{sing}")
    lines = here("show", "plugin", "sing", path=path).stdout.splitlines()
    assert lines[0] == "plugin        sing, of sing-plugin 1.0"
    assert lines[1] == "status        loaded"
    assert lines[2] == f"module        sing_plugin  {sing}/sing_plugin.py"
    assert lines[-2:] == ["offers        command sing: Sing something.", "offers        command broken"]
    blocked = here("show", "plugin", "sing", path=path, A3C_ZOO_PLUGINS="")
    assert "status        blocked by A3C_ZOO_PLUGINS\n" in blocked.stdout
    shown = here("show", "plugin", "faulty-plugin", path=path).stdout
    assert "status        faulty: its import failed: ValueError: boom (in" in shown
    assert shown.endswith("    raise ValueError('boom')\nValueError: boom\n")
    ours = here("show", "plugin", "hyperparams").stdout
    assert "cartpole/a3c" in ours
    done = here("show", "plugin", "snig", path=path)
    assert (done.returncode, done.stderr) == (
        2,
        "Error: unknown plugin 'snig'. Did you mean 'sing'? See: a3c-zoo list plugins\n",
    )


def test_an_allowed_plugin_that_nobody_has_is_a_warning(sing: Path, here: Run) -> None:
    done = here("list", "envs", path=sing, A3C_ZOO_PLUGINS="snig, sing,")
    assert (done.returncode, done.stderr) == (
        0,
        "Warning: A3C_ZOO_PLUGINS: no plugin is called 'snig'. Did you mean 'sing'?\n",
    )


def test_list_plugins(faulty: Path, sing: Path) -> None:
    done = run("list", "plugins", "--json", path=Path(f"{faulty}:{sing}"), A3C_ZOO_DISABLE_PLUGINS="sing")
    plugins: dict[str, dict[str, Any]] = {row["name"]: row for row in json.loads(done.stdout)}
    assert {"core", "envs", "hyperparams", "faulty-plugin", "sing"} <= set(plugins)
    assert plugins["core"]["hooks"] == [
        "zoo_envs",
        "zoo_agents",
        "zoo_networks",
        "zoo_optimizers",
        "zoo_engines",
        "zoo_commands",
    ]
    assert plugins["core"]["distribution"] == "a3c-zoo"
    assert plugins["faulty-plugin"] == {
        "name": "faulty-plugin",
        "version": "0.3",
        "distribution": "faulty-plugin",
        "hooks": [],
        "import_ms": plugins["faulty-plugin"]["import_ms"],
        "status": "faulty",
        "fault": "its import failed: ValueError: boom (in faulty_plugin.py, line 1)",
    }
    assert plugins["sing"]["status"] == "blocked"


@pytest.mark.parametrize(
    ("what", "keys", "name"),
    [
        ("envs", ["name", "threshold", "agent", "plugin", "description"], "cartpole"),
        ("agents", ["name", "spaces", "plugin", "description"], "a3c"),
        ("networks", ["name", "inputs", "plugin", "description"], "mlp"),
        ("optimizers", ["name", "plugin", "description"], "adam"),
        ("hyperparams", ["env", "set", "package", "plugin"], "cartpole"),
    ],
)
def test_list_as_json_has_stable_keys(what: str, keys: list[str], name: str, here: Run) -> None:
    rows = json.loads(here("list", what, "--json").stdout)
    assert all(list(row) == keys for row in rows)
    assert name in {row[keys[0]] for row in rows}


def test_list_of_nothing(tmp_path: Path, here: Run) -> None:
    assert json.loads(here("list", "runs", "--json", "--runs-dir", str(tmp_path)).stdout) == []
    assert here("list", "runs", "--runs-dir", str(tmp_path)).stderr == "No runs.\n"


def test_a_table_in_a_pipe_is_not_cut_off(faulty: Path) -> None:
    header, *lines = run("list", "plugins", path=faulty, COLUMNS="40").stdout.splitlines()
    assert header.split() == ["name", "version", "distribution", "hooks", "import_ms", "status"]
    line = next(line for line in lines if line.startswith("faulty-plugin "))
    assert line.endswith("  faulty")
    assert lines[-1] == "faulty-plugin: its import failed: ValueError: boom (in faulty_plugin.py, line 1)"


def test_a_table_on_a_terminal_keeps_names_whole() -> None:
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "a3c_zoo", "list", "networks"]
    subprocess.run(
        command, stdout=slave, env={**os.environ, "COLUMNS": "40", "TERM": "xterm"}, check=True, timeout=LIMIT_S
    )
    os.close(slave)
    shown = os.read(master, 65536).decode()
    os.close(master)
    assert "mlp" in shown
    assert "…" not in shown


@pytest.mark.parametrize(
    ("words", "completions"),
    [
        ("a3c-zoo tra", {"train"}),
        ("a3c-zoo si", {"sing"}),
        ("a3c-zoo --de", {"--debug"}),
        ("a3c-zoo list hyp", {"hyperparams"}),
        ("a3c-zoo train cart", {"cartpole"}),
        ("a3c-zoo train cartpole --agent a3", {"a3c"}),
        ("a3c-zoo train cartpole --hyperparams a3", {"a3c"}),
        ("a3c-zoo train cartpole --agent nstep -o agent.n_s", {"agent.n_steps="}),
        ("a3c-zoo show hyperparams cartpole -o n_ste", {"n_steps="}),
        ("a3c-zoo show plugin hyp", {"hyperparams"}),
    ],
)
def test_completion(words: str, completions: set[str], sing: Path, here: Run) -> None:
    count = str(len(words.split()) - 1)
    complete = run if completions == {"train"} else here
    done = complete(path=sing, _A3C_ZOO_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=count)
    assert {line.removeprefix("plain,") for line in done.stdout.splitlines()} >= completions, done.stderr


@pytest.mark.parametrize("command", ["play", "evaluate"])
def test_names_that_play_are_completed_without_torch(command: str, tmp_path: Path) -> None:
    """Runs, trained agents and environments; and nothing heavy is imported for them."""
    (tmp_path / "cart-run").mkdir()
    (tmp_path / "cart-run/meta.json").write_text("{}")
    offered = "from a3c_zoo import TrainedEntry, hookimpl\n\n\n@hookimpl\ndef zoo_trained():\n"
    offered += "    return [TrainedEntry('cartful', 'cartpole', 'a3c', 'nowhere')]\n"
    path = plugin_distribution(tmp_path / "site", "trained-plugin", offered)
    told = f"import atexit, sys\natexit.register(lambda: print(set({HEAVY}) & sys.modules.keys()))\n"
    (path / "sitecustomize.py").write_text(told)

    def completed(*words: str) -> list[str]:
        line = " ".join(["a3c-zoo", command, *words])
        done = run(path=path, _A3C_ZOO_COMPLETE="bash_complete", COMP_WORDS=line, COMP_CWORD=str(len(words) + 1))
        *items, heavy = done.stdout.splitlines()
        assert heavy == "set()", done.stderr
        return [item.removeprefix("plain,") for item in items]

    known = {"cartpole", "cartful"}
    assert known <= set(completed("--runs-dir", str(tmp_path), "cart"))
    assert completed("--runs-dir", str(tmp_path), str(tmp_path / "cart")) == [str(tmp_path / "cart-run")]
    assert completed("--runs-dir", str(tmp_path), "no-such") == ["dir,no-such"]


def test_only_what_fits_to_the_environment_is_completed(here: Run) -> None:
    def completed(words: str) -> list[str]:
        count = str(len(words.split()))
        done = here(_A3C_ZOO_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=count)
        return [line.removeprefix("plain,") for line in done.stdout.splitlines()]

    assert "a3c-lstm" in completed("a3c-zoo train cartpole --hyperparams")
    assert "a3c-continuous" not in completed("a3c-zoo train cartpole --hyperparams")
    assert "a3c-continuous" in completed("a3c-zoo train gym:Pendulum-v1 --hyperparams")
    assert "env.frame_skip=" in completed("a3c-zoo train pong -o")
    keys = completed("a3c-zoo train cartpole -o")
    assert "env.hide_velocity=" in keys
    assert "env.frame_skip=" not in keys
    assert completed("a3c-zoo train no-such-env -o") == [""]
    assert completed("a3c-zoo train gym:antigravity:X-v0 -o") == [""]  # nothing is imported for it


def test_completion_script_as_documented() -> None:
    assert "a3c-zoo" in run(_A3C_ZOO_COMPLETE="zsh_source").stdout
    (item,) = matching({"maze": "two\nlines", "other": ""}, "m")  # zsh takes a line for an item
    assert (item.value, item.help) == ("maze", "two\\nlines")


def test_completion_offers_no_name_that_only_shows_a_form() -> None:
    command = click.Command("train")
    names = [item.value for item in complete_env(click.Context(command), click.Option(["--env"]), "gym:")]
    assert "gym:Acrobot-v1" in names
    assert not [name for name in names if "my_package" in name]
