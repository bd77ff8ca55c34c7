"""What operating systems lack: the commands work with it taken away, in processes of their own."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from a3c_zoo import system
from tests.waits import wait_until
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
    without(signal, "SIGHUP", "SIGSTOP", "SIGTSTP", "SIGCONT", "pthread_sigmask", "pthread_kill")
    resource_tracker._HAVE_SIGMASK = False
    sys.platform = PLATFORM
    sys.addaudithook(refuse)
    taken = os.O_NOFOLLOW, os.O_NONBLOCK, signal.SIGKILL
    without(os, "O_NOFOLLOW", "O_NONBLOCK")
    without(signal, "SIGKILL")
    import a3c_zoo.system
    os.O_NOFOLLOW, os.O_NONBLOCK, signal.SIGKILL = taken  # filelock and multiprocessing take them
    from a3c_zoo.__main__ import main
    main()
    """
)


def run(folder: Path, platform: str, *words: str) -> subprocess.CompletedProcess[str]:
    program = LACKING.replace("PLATFORM", repr(platform))
    command = [sys.executable, "-c", program, *words]
    folders = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PYTHONPATH": folders}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run that was trained without any of it."""
    folder = tmp_path_factory.mktemp("lacking")
    words = ["train", "cartpole", "--serial", "--steps", "3000", "--seed", "3", "--name", "run", "--json"]
    made = run(folder, "darwin", *words)
    assert made.returncode == 0, made.stderr
    outcome = json.loads(made.stdout)
    assert outcome["steps"] >= 3000
    return folder


@pytest.mark.parametrize(
    "words",
    [
        ["list", "envs"],
        ["list", "runs"],
        ["show", "hyperparams", "cartpole"],
        ["check", "cartpole"],
        ["evaluate", "runs/run", "--episodes", "2", "--json"],
        ["plot", "runs/run", "--out", "curve.svg", "--force"],
        ["train", "--resume", "runs/run", "--steps", "4000", "--quiet"],
        ["doctor"],
    ],
    ids=lambda words: words[0] if words[0] != "list" else "-".join(words),
)
@pytest.mark.parametrize("platform", ["darwin"])
def test_commands_work_without_what_linux_has(trained: Path, platform: str, words: list[str]) -> None:
    made = run(trained, platform, *words)
    assert "Traceback" not in made.stderr
    assert made.returncode == (1 if words == ["doctor"] and made.returncode else 0), made.stderr


def test_the_run_is_the_one_that_linux_trains(trained: Path, tmp_path: Path) -> None:
    """The same seed gives the same episodes, with everything and without."""
    words = ["train", "cartpole", "--serial", "--steps", "3000", "--seed", "3", "--name", "run", "--quiet"]
    command = [sys.executable, "-m", "a3c_zoo", *words]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=300, capture_output=True)
    here = (tmp_path / "runs/run/monitor.csv").read_text().splitlines()
    there = (trained / "runs/run/monitor.csv").read_text().splitlines()
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
        assert parent.wait(20) == -system.KILL
        wait_until(lambda: has_ended(grandchild))
