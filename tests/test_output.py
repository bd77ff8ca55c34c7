"""Output is not the run: training goes on, with its usual exit status, when stdout and stderr are lost."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from a3c_zoo.testing import plugin_distribution
from tests.toys_runs import Running, command_line, environ, episodes, installed_here
from tests.waits import LIMIT_S, wait_until

CHATTY = '''
import logging
import sys
import warnings

from a3c_zoo import EnvEntry, hookimpl
from tests.toys import ToyVectorEnv


class Chatty(ToyVectorEnv):
    """It says something in every way at every step."""

    def step(self, actions):
        print("a step", flush=True)
        print("a step", file=sys.stderr)
        warnings.warn("a step")
        logging.getLogger("chatty").error("a step")
        return super().step(actions)


def make(num_envs, seed):
    warnings.simplefilter("always")
    return Chatty(num_envs)


@hookimpl
def zoo_envs():
    return [EnvEntry("chatty", factory="chatty_env:make")]
'''
PLUGIN = ["--plugin", "missing.py"]
TRAIN = ["train", "chatty", "--name", "x", "--steps", "1500", "-o", "run.evaluation_every_s=0.2"]


@pytest.fixture
def chatty(tmp_path: Path) -> Path:
    return plugin_distribution(tmp_path / "plugin", "chatty-env", CHATTY)


def shell(line: str, *arguments: str, folder: Path, path: Path | None = None) -> int:
    """Runs `line` in bash, with `a3c-zoo` and the arguments as "$@"; returns its exit status."""
    command = ["bash", "-c", f"set -o pipefail; {line}", "bash", sys.executable, "-m", "a3c_zoo", *arguments]
    process = subprocess.Popen(command, cwd=folder, env=environ(path), stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        return process.wait(LIMIT_S)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def outcome(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "runs/x/outcome.json").read_text())
    return found


def assert_trained(folder: Path) -> None:
    ended = outcome(folder)
    assert (ended["reason"], ended["evaluator_fault"]) == ("steps", None)
    assert ended["steps"] >= 1500
    rows = episodes(folder / "runs/x")
    assert len(rows) == ended["episodes"]
    text = (folder / "runs/x/monitor.csv").read_text()
    assert "a step" not in text  # no file got the number of a closed stream
    assert "→" not in text


@pytest.mark.parametrize(
    "line",
    [
        '"$@" 2>&1 | head -1',
        '"$@" >&- 2>&-',
        pytest.param('"$@" > /dev/full 2>&1', marks=pytest.mark.slow),
        pytest.param('"$@" <&- >&- 2>&-', marks=pytest.mark.slow),
        pytest.param('"$@" 2> >(exit 0) | true', marks=pytest.mark.slow),
    ],
)
def test_training_goes_on_without_its_output(line: str, chatty: Path, tmp_path: Path) -> None:
    assert shell(line, *TRAIN, folder=tmp_path, path=chatty) == 0
    assert_trained(tmp_path)


def test_json_is_on_stdout_beside_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The end of rich's live display sets stdout as it was at the beginning of the display."""
    shown = io.StringIO()
    monkeypatch.setattr(shown, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("TERM", "xterm")
    line = ("cartpole", "--serial", "--steps", 3000, "-o", "run.stop_when_solved=false")
    assert command_line("train", "--json", *line, "--runs-dir", tmp_path) == 0
    assert json.loads(capsys.readouterr().out)["reason"] == "steps"
    assert "steps/s" in shown.getvalue()


def test_json_is_alone_on_stdout(
    chatty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also of a run that goes on, and of one that fails; what environments print goes to stderr."""
    monkeypatch.chdir(tmp_path)

    def told(*line: str) -> tuple[int, dict[str, Any], str]:
        with Running("train", "--json", *line, folder=tmp_path, path=chatty) as running:
            return running.exit_status(), json.loads(running.stdout), running.stderr

    status, printed, stderr = told(*TRAIN[1:], "--serial")
    assert (status, printed) == (0, outcome(tmp_path) | {"run": "runs/x"})
    assert "a step" in stderr
    assert "steps/s" not in stderr  # no progress without a terminal
    status, printed, _ = told("--resume", "runs/x", "--steps", "2000")
    assert (status, printed) == (0, outcome(tmp_path) | {"run": "runs/x"})
    assert printed["steps"] >= 2000
    for line, why in ((TRAIN[1:], "runs/x exists already; nothing is over"), (["cartpole", *PLUGIN], "no such file")):
        with installed_here(chatty, A3C_ZOO_PLUGIN_FILES=""):
            assert command_line("train", "--json", *line) == 2
        shown = capsys.readouterr()
        printed = json.loads(shown.out)
        assert (printed["run"], printed["reason"]) == (None, "error")
        assert shown.err == f"Error: {printed['detail']}\n"
        assert why in shown.err
    with Running("evaluate", "--json", "runs/x", "--episodes", "1", folder=tmp_path, path=chatty) as running:
        assert (running.exit_status(), json.loads(running.stdout)["episodes"]) == (0, 1)
        assert "a step" in running.stderr


@pytest.mark.parametrize(
    "line",
    [
        "show hyperparams gym:noisy:Noisy-v0",
        "list envs --plugin noisy.py",
        pytest.param(
            "compare gym:noisy:Noisy-v0 --baseline random --seeds 1 --steps 2048 --episodes 1 --yes",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_programs_that_speak_do_not_damage_json(line: str, tmp_path: Path) -> None:
    source = (
        "import os, gymnasium\nfrom gymnasium.envs.classic_control.cartpole import CartPoleEnv\n"
        "from a3c_zoo import hookimpl\nos.system('echo imported')\n"
        "class Noisy(CartPoleEnv):\n    def __init__(self, **options):\n"
        "        os.system('echo made')\n        super().__init__(**options)\n"
        "gymnasium.register('Noisy-v0', Noisy)\n"
        "@hookimpl\ndef zoo_envs():\n    return []\n"
    )
    (tmp_path / "noisy.py").write_text(source)
    with Running(*line.split(), "--json", folder=tmp_path) as running:
        assert running.exit_status() == 0, running.stderr
        assert len(json.loads(running.stdout)) > 3
        said = [word for word in running.stderr.split() if word in ("imported", "made")]
        assert set(said) == {"imported", *(["made"] if "noisy:" in line else [])}


def test_an_error_without_output_keeps_its_exit_status(tmp_path: Path) -> None:
    for line in ('"$@" > /dev/full 2>&1', '"$@" >&- 2>&-'):
        assert shell(line, "train", "cartpol", folder=tmp_path) == 2
        assert shell(line, "train", "--no-such-option", folder=tmp_path) == 2


@pytest.mark.slow
def test_a_terminal_that_goes_away(chatty: Path, tmp_path: Path) -> None:
    """The process is of another session, as under `setsid`: it gets no SIGHUP, but EIO from each write."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "a3c_zoo", *TRAIN, "-o", "run.checkpoint_every_s=1000"]
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environ(chatty), stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    try:
        os.close(theirs)
        wait_until(lambda: b"chatty" in os.read(ours, 1024))
        os.close(ours)
        assert process.wait(LIMIT_S) == 0
    finally:
        process.kill()
    assert_trained(tmp_path)


def test_a_closed_terminal_ends_a_run_of_its_session_in_order(tmp_path: Path) -> None:
    """Here the terminal's end is a signal, SIGHUP, as it is for every program; its summary cannot be shown."""
    pid, ours = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        arguments = ["train", "cartpole", "--name", "x", "--stop-return", "1e6", "--time-limit", "5m"]
        os.execve(sys.executable, [sys.executable, "-m", "a3c_zoo", *arguments], environ())
    try:
        wait_until(lambda: os.read(ours, 4096) and len(episodes(tmp_path / "runs/x")) > 50)
        os.close(ours)
        _, status = os.waitpid(pid, 0)
    finally:
        kill_if_alive(pid)
    assert os.waitstatus_to_exitcode(status) == 130
    assert (outcome(tmp_path)["reason"], outcome(tmp_path)["detail"]) == ("interrupted", "SIGHUP")


def kill_if_alive(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_comparison_goes_on_without_its_output(options: list[str], tmp_path: Path) -> None:
    arguments = [
        "cartpole",
        "--baseline",
        "random",
        "--seeds",
        "1",
        "--steps",
        "2000",
        "--episodes",
        "1",
        "--yes",
        "--out",
        "report",
    ]
    status = 1 if "--json" in options else 0  # half a JSON is no result
    assert shell('"$@" 2>&1 | true', "compare", *arguments, *options, folder=tmp_path) == status
    assert {"report.html", "report.md", "results.json"} <= {path.name for path in (tmp_path / "report").iterdir()}


@pytest.mark.parametrize("command", [["list", "envs"], ["show", "hyperparams", "cartpole"]])
def test_other_commands_end_with_their_pipe(command: list[str], tmp_path: Path) -> None:
    """As `cat` does: nothing is left to do for them."""
    assert shell('"$@" 2> stderr.txt | true', *command, folder=tmp_path) == 1
    assert (tmp_path / "stderr.txt").read_text() == ""


@pytest.mark.parametrize(
    ("command", "python"),
    [
        (["list", "envs", "--json"], []),
        (["show", "hyperparams", "cartpole"], []),
        (["--help"], []),
        (["list", "envs", "--json"], ["-u"]),
        pytest.param(["show", "hyperparams", "cartpole"], ["-u"], marks=pytest.mark.slow),
        pytest.param(["--help"], ["-u"], marks=pytest.mark.slow),
    ],
)
def test_other_commands_say_that_their_output_is_lost(command: list[str], python: list[str], tmp_path: Path) -> None:
    line = f'"$1" {" ".join(python)} "${{@:2}}" > /dev/full 2> stderr.txt'
    assert shell(line, *command, folder=tmp_path) == 2
    assert (tmp_path / "stderr.txt").read_text() == (
        "Error: stdout cannot be written: No space left on device. Free space, or send it to another place\n"
    )


def test_only_a_full_disk_has_too_little_space(tmp_path: Path) -> None:
    assert shell('"$@" 1< /dev/null 2> stderr.txt', "list", "envs", folder=tmp_path) == 2
    line = "Error: stdout cannot be written: Bad file descriptor. Send it to another place\n"
    assert (tmp_path / "stderr.txt").read_text() == line


def nohup() -> None:
    """What `nohup a3c-zoo train … &` in a script inherits."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@pytest.mark.parametrize("preexec", [nohup])
def test_under_nohup_only_sigterm_ends_a_run(preexec: Callable[[], None], tmp_path: Path) -> None:
    options = ["--name", "x", "--stop-return", "1e6", "--steps", "1000000000", "--time-limit", "5m"]
    with Running("train", "cartpole", *options, folder=tmp_path, preexec=preexec) as running:
        run = tmp_path / "runs/x"
        running.wait_until(lambda: len(episodes(run)) > 50)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGINT):
            running.signal_group(number)
        before = len(episodes(run))
        running.wait_until(lambda: len(episodes(run)) > before + 50)
        running.process.send_signal(signal.SIGTERM)
        assert running.exit_status() == 130
        running.assert_nothing_left()
    assert running.stderr == ""
    assert outcome(tmp_path)["detail"] == "SIGTERM"
