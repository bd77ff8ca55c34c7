"""`a3c-zoo doctor` on this machine, in a process of its own, and on machines where something is wrong."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from a3c_zoo.cli import examinations
from a3c_zoo.cli.examinations import EXTRAS, Diagnosis
from a3c_zoo.cures import install_extra, install_needed, reinstall
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.processes.start import warm_up
from a3c_zoo.testing import plugin_distribution
from tests.toys_runs import Running, command_line, environ
from tests.waits import wait_until
from tests.wheels import ROOT

SUBJECTS = [
    *("a3c-zoo", "Python", "system", "processor", "cores", "memory", "/dev/shm", "open files", "runs", "temporary"),
    *(
        "start method",
        "plugins",
        "packages",
        "extras",
        "torch",
        "CUDA",
        "gymnasium",
        "ale-py",
        "SB3",
    ),
    "training",
]

#: A plugin that nobody may call: the training of the doctor is no run of the user.
WATCHER = """
from a3c_zoo import hookimpl

@hookimpl
def zoo_run_start(run):
    raise SystemExit("a hook was called")
"""


def of_children_s() -> float:
    """CPU seconds of the processes that this one has waited for, and of those that they have waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def test_a_terminal_of_80_columns(tmp_path: Path) -> None:
    """It shows something at once, its lines fit, and a sound machine has no problem."""
    path = plugin_distribution(tmp_path / "watcher", "zoo-watcher", WATCHER, entry_point="watcher")
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 80, 0, 0))
    before, shown, first_s, shown_s = of_children_s(), b"", 0.0, 0.0
    began_s = time.monotonic()
    command = [sys.executable, "-m", "a3c_zoo", "doctor"]
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, cwd=tmp_path, env=environ(path)) as process:
        os.close(slave)
        try:
            while part := os.read(master, 65536):
                first_s = first_s or sum(psutil.Process(process.pid).cpu_times()[:2])
                shown_s = shown_s or time.monotonic() - began_s
                shown += part
        except OSError:  # the other end is closed
            os.close(master)
    assert process.returncode == 0, shown.decode()
    assert first_s < (of_children_s() - before) / 4  # CPU time, which other load hardly changes: 0.15 of 4 s
    assert shown_s < (time.monotonic() - began_s) / 2  # it does not wait, either
    lines = shown.decode().replace("\x1b[0m", "").splitlines()
    lines = [line.partition("m")[2] if line.startswith("\x1b[") else line for line in lines]
    assert max(map(len, lines)) <= 80
    assert [line[9:23].strip() for line in lines[:-1] if line[:7].strip()] == SUBJECTS
    plugins = "\n".join(lines).replace("\n" + 23 * " ", " ").partition("ok       plugins")[2].splitlines()[0]
    assert {"core", "envs", "hyperparams", "watcher"} <= set(plugins.strip().split(", "))  # and others
    assert lines[-1].endswith("problems: 0")
    assert list(tmp_path.iterdir()) == [tmp_path / "watcher"]  # no run is left


def few_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (46, 46))
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, 2 << 20))


def test_every_fault_has_its_cure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = plugin_distribution(tmp_path / "maze", "zoo-maze", "raise ValueError('boom')", entry_point="maze")
    (path / "stable_baselines3.py").write_text(
        "import os\nos.write(1, b'noise')\nraise OSError('libbroken.so: cannot open')"
    )
    (tmp_path / "runs").symlink_to("/proc")
    command = [sys.executable, "-m", "a3c_zoo", "doctor", "--json", "--debug"]
    variables = environ(path) | {"A3C_ZOO_PLUGINS": "maze,mace"}
    done = subprocess.run(
        command, cwd=tmp_path, env=variables, capture_output=True, text=True, preexec_fn=few_files, check=False
    )
    assert done.returncode == 1, done.stderr
    assert "noise" in done.stderr
    found = [Diagnosis(**row) for row in json.loads(done.stdout)]
    assert all(bool(each.cure) == (each.status != "ok") for each in found)
    faults = {each.text: each for each in found if each.status != "ok" and each.subject != "cores"}
    faults = {text: each for text, each in faults.items() if "a3c-zoo-ray" not in each.cure}  # tests have it elsewhere
    assert [(each.subject, each.status, each.cure) for each in faults.values()] == [
        ("open files", "problem", "ulimit -n 4096"),
        ("file size", "problem", "ulimit -f unlimited"),
        ("runs", "problem", "work in another folder, or name one: --runs-dir DIR"),
        ("plugins", "problem", "a3c-zoo show plugin maze; to do without it: A3C_ZOO_DISABLE_PLUGINS=maze"),
        ("plugins", "warning", "install it, or leave 'mace' out of A3C_ZOO_PLUGINS"),
        ("SB3", "problem", reinstall("stable-baselines3")),
    ]
    texts = "\n".join(faults)
    assert "/proc cannot be written: No such file or directory" in texts
    assert "'maze' (zoo-maze 1.0): its import failed: ValueError: boom" in texts
    assert "no plugin is called 'mace'. Did you mean 'maze'?" in texts
    assert "OSError: libbroken.so: cannot open" in texts
    assert "raise OSError('libbroken.so: cannot open')" in done.stderr  # --debug


def test_a_training_that_fails_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk of temporary files takes no run."""
    warm_up()  # its socket lies on the disk that was there before
    disk, raised = tmp_path / "disk", list[BaseException]()
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False).returncode:
        pytest.skip("cannot mount here")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(disk))
    monkeypatch.setattr(tempfile, "tempdir", str(disk))
    monkeypatch.setattr(examinations, "EXAMINATIONS", (examinations.folders, examinations.training))
    try:
        runs, temporary, training = examinations.examine(raised.append)
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
    (error,) = raised
    assert "No space left on device" in str(error)
    assert runs.status == "ok"
    assert (temporary.status, temporary.text) == ("problem", f"{disk} cannot be written: No space left on device")
    assert (training.status, training.cure) == ("problem", "a3c-zoo doctor --debug shows the traceback")
    assert "No space left on device" in training.text


def test_two_plugins_of_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name in A3C_ZOO_DISABLE_PLUGINS would leave out the sound one, too."""
    for distribution in ("zoo-alpha", "zoo-beta"):
        source = "from a3c_zoo import hookimpl\n@hookimpl\ndef zoo_envs(): return []\n"
        monkeypatch.syspath_prepend(plugin_distribution(tmp_path, distribution, source, entry_point="maze"))
    get_registry.cache_clear()
    try:
        cures = [each.cure for each in examinations.plugins() if each.status == "problem"]
    finally:
        get_registry.cache_clear()
    assert cures == ["rename one, or do without this one: pip uninstall zoo-beta"]


def test_runs_that_lie_nowhere_are_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").symlink_to("missing")
    runs, _ = examinations.folders()
    assert (runs.subject, runs.status) == ("runs", "problem")


def test_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import time; print('slow', flush=True); time.sleep(60)")
    with Running("--plugin", "slow.py", "doctor", folder=tmp_path) as running:
        wait_until(lambda: "slow" in running.stderr)
        running.signal_group(signal.SIGINT)
        assert running.exit_status() == 130
        assert running.stderr.split() == ["slow"]


@pytest.mark.parametrize(("signals", "fault", "imports"), [(1, None, 1), (1, ImportError, 1), (2, None, 0)])
def test_ctrl_c_comes_after_an_import(
    signals: int, fault: type[Exception] | None, imports: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library may drop it as it is imported. A second one is obeyed at once."""
    imported: list[str] = []

    def library() -> Iterator[Diagnosis]:
        for _ in range(signals):
            signal.raise_signal(signal.SIGINT)
        imported.append("library")
        if fault:
            raise fault
        yield Diagnosis("library", "ok", "imported")

    monkeypatch.setattr(examinations, "EXAMINATIONS", (library,))
    monkeypatch.setattr(examinations, "LIBRARIES", (library,))
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        list(examinations.examine(print))
    assert signal.getsignal(signal.SIGINT) is handler
    assert len(imported) == imports


def test_the_examination_of_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = [
        "numpy<1.20",
        "no-such-package>=1",
        "click>=8",
        'no-such-extra; extra == "play"',
        'numpy<1.20; extra == "hub"',
        'no-such-package; extra == "hub"',
        'numpy; extra == "box2d"',
    ]
    monkeypatch.setattr(metadata, "requires", lambda name: needed)
    found = list(examinations.packages())
    numpy = metadata.version("numpy")
    assert found[0].text == f"numpy is {numpy}, needed: <1.20; no-such-package is not installed"
    assert found[0].status == "problem"
    assert found[0].cure.endswith("constraints.txt 'numpy<1.20' 'no-such-package>=1'")
    assert [(each.status, each.cure) for each in found[1:]] == [
        ("ok", ""),
    ]
    others = ", ".join(extra for extra in EXTRAS if extra not in ("play", "hub"))
    assert found[1].text == (f"installed: {others}; not installed: play, hub (to install one: {install_extra('play')})")


def test_an_extra_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = ['numpy<1.20; extra == "box2d"', 'no-such-package; extra == "hub"']
    monkeypatch.setattr(metadata, "requires", lambda name: needed)
    found = list(examinations.packages())[1]
    others = ", ".join(extra for extra in EXTRAS if extra not in ("box2d", "hub"))
    numpy = metadata.version("numpy")
    assert (found.subject, found.status, found.cure) == ("extras", "warning", install_extra("box2d"))
    assert found.text == (
        f"installed: {others}; not installed: hub; not usable: box2d: numpy is {numpy}, needed: <1.20"
    )


def test_every_extra_is_examined() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert list(EXTRAS) == [name for name in project["optional-dependencies"] if name != "all"]


def test_cuda_without_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU build says nothing of it. CUDA's libraries matter where the disk is nearly full."""
    names_of_cuda = {"nvidia-cublas", "nvidia-nccl-cu13"}
    packages = [SimpleNamespace(metadata={"Name": name}) for name in ("numpy", None, *names_of_cuda)]
    monkeypatch.setattr(metadata, "distributions", lambda: packages)

    def free(amount: int) -> None:
        monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=amount))

    free(0)
    assert examinations._without_cuda("torch/__init__.py", None).status == "ok"
    found = examinations._without_cuda("torch/__init__.py", "13.0")
    assert (found.subject, found.status) == ("CUDA", "warning")
    assert found.text.startswith("no device; networks are trained on the CPU, but torch brings CUDA 13.0: several GB; ")
    first, second = found.cure.split(" && ")
    assert first == f"pip uninstall torch {' '.join(sorted(names_of_cuda))}".rstrip()
    assert second == f"{install_needed('torch')} --index-url https://download.pytorch.org/whl/cpu"
    free(5_000_000_000)
    assert examinations._without_cuda("torch/__init__.py", "13.0").status == "ok"


def test_a_library_of_the_system_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a Debian without libstdc++6 says."""

    def torch() -> Iterator[Diagnosis]:
        raise ImportError("Read this.\nlibstdc++.so.6: cannot open shared object file: No such file or directory")

    monkeypatch.setattr(examinations, "EXAMINATIONS", (torch,))
    (found,) = examinations.examine(lambda error: None)
    assert (found.subject, found.status) == ("torch", "problem")
    assert found.text == "the system has no libstdc++.so.6, which its compiled part needs"
    assert "libstdc++6" in found.cure


def test_games_without_a_rom(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ale_py.roms.get_rom_path", lambda name: None)
    (found,) = examinations.ale_py()
    assert (found.status, found.cure) == ("problem", reinstall("ale-py", "--no-deps"))
    assert "0 Atari games" in found.text


@pytest.mark.parametrize(("amount", "status"), [(99, "problem"), (100, "warning"), (199, "warning"), (200, "ok")])
def test_amounts(amount: int, status: str) -> None:
    found = examinations._judged("memory", "text", amount, (100, 200), "cure")
    assert (found.status, found.cure) == (status, "" if status == "ok" else "cure")


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line("doctor", "--help") == 0
    assert "1    there is a problem" in capsys.readouterr().out


def test_a_plugin_file_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A3C_ZOO_PLUGIN_FILES", str(tmp_path / "maze.py"))
    get_registry.cache_clear()
    (found,) = examinations.plugins()
    get_registry.cache_clear()
    assert (found.status, found.text) == ("problem", f"plugin file {tmp_path}/maze.py: there is no such file")
    assert found.cure == "correct it, or leave it out: A3C_ZOO_PLUGIN_FILES, --plugin"


@pytest.mark.parametrize(
    ("system", "status"),
    [("Linux x86_64", "ok"), ("Linux aarch64", "ok"), ("Darwin arm64", "warning"), ("Plan9 mips", "warning")],
)
def test_what_is_known_of_a_system_is_one_line(system: str, status: str) -> None:
    found = examinations._system(system)
    assert (found.status, bool(found.cure)) == (status, status != "ok")
    assert found.text.startswith(f"{system}: ")
