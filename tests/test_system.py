"""What operating systems lack: the commands work with it taken away, in processes of their own."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from a3c_zoo import system
from tests.toys_runs import command_line
from tests.waits import LIMIT_S, wait_until
from tests.wheels import ROOT

#: Takes away what macOS or Windows lack, before a3c_zoo is imported, and then runs the command line. psutil reads /proc
#: on Linux, as it asks other systems in their ways: it may.
LACKING = textwrap.dedent(
    """
    import os, signal, sys
    import sysconfig, zoneinfo
    import click, filelock, gymnasium, matplotlib.pyplot, psutil, pydantic, rich.console, tensorboard, torch
    from multiprocessing import forkserver, resource_tracker, shared_memory

    sysconfig.get_config_vars()  # Python and the libraries are as their makers have them for this system

    def refuse(event, arguments):
        if event != "open" or not isinstance(arguments[0], str):
            return
        if arguments[0].startswith(("/proc/", "/dev/shm")):
            frame = sys._getframe(1)
            while frame:
                if "/psutil/" in frame.f_code.co_filename:
                    return
                frame = frame.f_back
            raise FileNotFoundError(2, "there is no such file on this system", arguments[0])

    def without(module, *names):
        for name in names:
            if hasattr(module, name):
                delattr(module, name)

    for name in ("fcntl", "resource", "termios", "tty"):
        sys.modules[name] = None
    without(os, "killpg", "setpgid", "geteuid", "getuid", "register_at_fork", "fork", "sched_getaffinity")
    if PLATFORM == "win32":
        without(os, "getpgrp", "tcgetpgrp", "statvfs", "getloadavg", "uname", "mkfifo", "sysconf", "O_CLOEXEC")
    without(signal, "SIGHUP", "SIGSTOP", "SIGTSTP", "SIGCONT", "pthread_sigmask", "pthread_kill")
    resource_tracker._HAVE_SIGMASK = False
    sys.platform = PLATFORM
    sys.addaudithook(refuse)
    taken = os.O_NOFOLLOW, os.O_NONBLOCK, signal.SIGKILL
    without(os, "O_NOFOLLOW", "O_NONBLOCK")
    without(signal, "SIGKILL")
    import a3c_zoo.system
    os.O_NOFOLLOW, os.O_NONBLOCK, signal.SIGKILL = taken  # filelock and multiprocessing take them
    import json
    from a3c_zoo.__main__ import main
    for words in json.loads(sys.argv[1]):
        sys.argv = ["a3c-zoo", *words]
        try:
            main()
        except SystemExit as ended:
            print(chr(10) + "@", ended.code, file=sys.stderr, flush=True)
    """
)
COMMANDS = [
    ["train", "cartpole", "--serial", "--steps", "3000", "--seed", "3", "--name", "run", "--quiet"],
    ["list", "envs"],
    ["list", "runs"],
    ["show", "hyperparams", "cartpole"],
    ["check", "cartpole", "--steps", "100"],
    ["evaluate", "runs/run", "--episodes", "2", "--json"],
    ["plot", "runs/run", "--out", "curve.svg"],
    ["train", "--resume", "runs/run", "--steps", "4000", "--quiet"],
    ["doctor"],
]


@pytest.fixture(scope="module", params=["darwin", pytest.param("win32", marks=pytest.mark.slow)])
def lacking(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A folder in which all commands ran, one after the other, and what each wrote to stderr, with its exit status."""
    folder = tmp_path_factory.mktemp("lacking")
    program = LACKING.replace("PLATFORM", repr(request.param))
    folders = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    ended = subprocess.run(
        [sys.executable, "-c", program, json.dumps(COMMANDS)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": folders},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert ended.returncode == 0, ended.stderr
    written = re.findall(r"(.*?\n@ \w+)\n", ended.stderr, re.DOTALL)
    assert len(written) == len(COMMANDS), ended.stderr
    return folder, written


@pytest.mark.parametrize("number", range(len(COMMANDS)), ids=[" ".join(words[:2]) for words in COMMANDS])
def test_commands_work_without_what_linux_has(lacking: tuple[Path, list[str]], number: int) -> None:
    text = lacking[1][number]
    assert "Traceback" not in text
    statuses = {"0", "None"}
    if COMMANDS[number] == ["doctor"]:
        statuses.add("1")  # this machine may have a problem
    assert text.rpartition("@ ")[2] in statuses, text


def test_the_run_is_the_one_that_linux_trains(
    lacking: tuple[Path, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same seed gives the same episodes, with everything and without."""
    monkeypatch.chdir(tmp_path)
    assert command_line(*COMMANDS[0]) == 0
    here = (tmp_path / "runs/run/monitor.csv").read_text().splitlines()
    there = (lacking[0] / "runs/run/monitor.csv").read_text().splitlines()
    episodes = [[row.split(",")[:2] for row in rows[2:]] for rows in (here, there)]
    assert len(episodes[0]) > 50
    assert episodes[0] == episodes[1][: len(episodes[0])]


#: What some system lacks: modules, and names of `os` and `signal`.
MODULES = {"fcntl", "resource", "termios", "msvcrt", "pwd", "grp"}
NAMES = {
    *("os.O_NOFOLLOW", "os.O_NONBLOCK", "os.killpg", "os.setpgid", "os.setsid", "os.geteuid", "os.getuid"),
    *("os.register_at_fork", "os.fork", "os.sched_getaffinity", "os.sched_setaffinity", "os.nice"),
    *("signal.SIGHUP", "signal.SIGKILL", "signal.SIGSTOP", "signal.SIGTSTP", "signal.SIGCONT", "signal.SIGUSR1"),
    *("signal.pthread_sigmask", "signal.pthread_kill", "signal.setitimer", "signal.sigwait"),
}


def used_names(source: str) -> set[str]:
    """Modules that a source imports, and dotted names of two parts that it reads."""
    names = set[str]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names.add(f"{node.value.id}.{node.attr}")
    return names


def test_only_this_module_asks_for_what_some_system_lacks() -> None:
    package = ROOT / "a3c_zoo"
    found = {
        f"{path.relative_to(package)}: {name}"
        for path in package.rglob("*.py")
        if path.name != "system.py"
        for name in used_names(path.read_text(encoding="utf-8")) & (MODULES | NAMES)
    }
    assert found == set()


def test_a_link_is_refused_without_the_flag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to("file")
    with pytest.raises(OSError, match="links are not followed"):
        system.open_without_links(str(tmp_path / "link"), os.O_RDONLY)
    monkeypatch.setattr(system, "NO_FOLLOW", 0)
    with pytest.raises(OSError, match="links are not followed"):
        system.open_without_links(str(tmp_path / "link"), os.O_RDONLY)
    os.close(system.open_without_links(str(tmp_path / "file"), os.O_RDONLY))


def test_a_sparse_file_takes_few_bytes_of_the_disk(tmp_path: Path) -> None:
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", 10_000_000)
    status = os.stat(tmp_path / "sparse")
    assert system.bytes_on_disk(status) == 512 * status.st_blocks < 100_000
    where_nobody_counts = SimpleNamespace(st_size=10_000_000)
    assert system.bytes_on_disk(where_nobody_counts) == 10_000_000  # type: ignore[arg-type]


def test_an_ended_child_is_forgotten_once() -> None:
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as child:
        assert not system.forget_ended_child(child.pid)
        child.stdin.close()  # type: ignore[union-attr]
        wait_until(lambda: system.forget_ended_child(child.pid))
        with pytest.raises(ChildProcessError):
            system.forget_ended_child(child.pid)
        child.returncode = 0


def test_a_lock_keeps_others_out_until_the_file_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()
    mine = os.open(path, os.O_RDWR)
    other = os.open(path, os.O_RDWR)
    try:
        assert system.lock(mine, exclusive=True)
        assert not system.lock(other, exclusive=False)
        assert not system.lock(other, exclusive=True)
    finally:
        os.close(mine)
    assert system.lock(other, exclusive=False)
    os.close(other)


def has_ended(process_id: int) -> bool:
    try:
        return bool(psutil.Process(process_id).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def test_where_there_are_no_groups_the_end_reaches_descendants(monkeypatch: pytest.MonkeyPatch) -> None:
    child = (
        "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', 'input()']).pid, flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", child], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        grandchild = int(parent.stdout.readline())
        monkeypatch.setattr(system, "HAS_GROUPS", False)
        system.signal_group(parent.pid, system.KILL)
        assert parent.wait(LIMIT_S) == -system.KILL
        wait_until(lambda: has_ended(grandchild))
