"""The whole installation from wheels, on a machine without network, git and compilers: `make dist-test`.

The machine is a Debian in a folder, with Python, the C++ library and nothing else. Its processes see no network, and
its user is not root. To make it takes root and mmdebstrap, and a Debian with this version of Python. Where one of them
is missing, a new virtual environment takes its place, with an empty PATH, and without a network where `unshare` may
take it away.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.wheels import PLUGINS, ROOT, build_wheel, plugin_source, run, zoo_wheel

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

#: Python → the Debian that has it.
SUITES: Final = {(3, 11): "bookworm", (3, 13): "trixie"}
#: Sources of a Debian machine. Elsewhere mmdebstrap takes its own.
SOURCES: Final = Path("/etc/apt/sources.list.d/debian.sources")
#: What the wheels are installed with: those of plugins/ that need no service and no cluster.
WANTED: Final = ("a3c-zoo[play]", "a3c-zoo-gridworld", "a3c-zoo-minigrid", "a3c-zoo-ppo")
USER: Final = 1000
#: Before the processes of the machine start. They end with the first one.
MOUNTS: Final = """
set -e
mount -t proc proc "$ROOT/proc"
mount -t tmpfs -o mode=1777 tmpfs "$ROOT/dev/shm"
for each in null zero urandom; do mount --bind /dev/$each "$ROOT/dev/$each"; done
exec chroot --userspec=$USER_ID:$USER_ID "$ROOT" /usr/bin/python3 -c "$ENTER" "$@"
"""
#: Goes to a folder and becomes a command of a user whose environment has nothing else.
ENTER: Final = """
import os, sys
home, *command = sys.argv[1:]
os.chdir(home)
os.execvpe(command[0], command, {"PATH": f"{home}/venv/bin", "HOME": home, "LANG": "C.UTF-8", "COLUMNS": "100"})
"""


@dataclass(frozen=True)
class Machine:
    """Where commands are typed.

    Attributes:
        kind: in words. home: the user's folder, as this process sees it. inside: the same, as the user sees it.
        prefix: the command that runs another one there, in the folder that it names first.
    """

    kind: str
    home: Path
    inside: str
    prefix: tuple[str, ...]
    variables: dict[str, str]

    def attempt(self, line: str, limit_s: float = 600) -> subprocess.CompletedProcess[str]:
        """Runs a line as its user types it."""
        return subprocess.run(
            [*self.prefix, self.inside, *shlex.split(line)],
            env=self.variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )

    def type(self, line: str, limit_s: float = 600) -> str:
        """The same for a line that must succeed; returns what it prints."""
        done = self.attempt(line, limit_s)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout


def debian(folder: Path) -> Machine:
    """A Debian in a folder, with Python."""
    suite = SUITES[sys.version_info[:2]]
    packages = "--include=python3,python3-venv,libstdc++6"
    sources = [SOURCES] if SOURCES.is_file() else []
    run("mmdebstrap", "--quiet", "--variant=extract", packages, suite, folder, *sources, timeout=1200)
    for name in ("proc", "dev/shm", "etc", "tmp", "home/user"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "tmp").chmod(0o1777)
    os.chown(folder / "home/user", USER, USER)
    for name in ("null", "zero", "urandom"):
        (folder / "dev" / name).touch()
    (folder / "etc/passwd").write_text(f"user:x:{USER}:{USER}::/home/user:/bin/false\n")
    for name in ("git", "gcc", "cc", "make"):
        assert not any((folder / "usr/bin").glob(name))
    unshare = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child")
    variables = {"ROOT": str(folder), "USER_ID": str(USER), "ENTER": ENTER, "PATH": os.environ["PATH"]}
    kind = f"Debian {suite} in a folder, without network"
    return Machine(kind, folder / "home/user", "/home/user", (*unshare, "sh", "-c", MOUNTS, "sh"), variables)


def clean_place(folder: Path) -> Machine:
    """A folder of this machine, with an empty PATH."""
    without = ("unshare", "--map-root-user", "--net")
    has_network = subprocess.run([*without, "true"], capture_output=True, check=False).returncode != 0
    kind = f"a virtual environment with an empty PATH, {'with' if has_network else 'without'} network"
    prefix = (*(() if has_network else without), os.path.realpath(sys.executable), "-c", ENTER)
    return Machine(kind, folder, str(folder), prefix, {"PATH": os.environ["PATH"]})


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheels of this repository, and with those of all that they need."""
    folder = tmp_path_factory.mktemp("wheels")
    built = [zoo_wheel(tmp_path_factory.mktemp("zoo"))]
    for plugin in sorted(PLUGINS.iterdir()):
        place = tmp_path_factory.mktemp(plugin.name)
        built.append(build_wheel(plugin_source(plugin, place / "source"), place / "dist"))
    for wheel in built:
        shutil.copy(wheel, folder)
    download = ("download", "--only-binary", ":all:", "--constraint", ROOT / "constraints.txt", "--dest", folder)
    run(sys.executable, "-m", "pip", *download, "--find-links", folder, *WANTED, timeout=1800)
    return folder


@pytest.fixture(scope="module")
def machine(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine on which a3c-zoo is installed, and where its wheels still lie."""
    folder = tmp_path_factory.mktemp("machine")
    if os.geteuid() == 0 and shutil.which("mmdebstrap") and sys.version_info[:2] in SUITES:
        made = debian(folder)
        python = "/usr/bin/python3"
    else:
        made = clean_place(folder)
        python = os.path.realpath(sys.executable)
    print(f"the machine: {made.kind}")
    shutil.copytree(wheels, made.home / "wheels")
    (made.home / "wheels").chmod(0o755)
    made.type(f"{python} -m venv venv")
    made.type(f"pip install --no-index --find-links wheels {' '.join(WANTED)}", limit_s=1200)
    yield made
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(wheels, ignore_errors=True)


def test_it_has_neither_git_nor_compiler_nor_network(machine: Machine) -> None:
    code = (
        "import shutil, socket; print(*map(shutil.which, ('git', 'gcc', 'cc', 'make'))); "
        "print([name for _, name in socket.if_nameindex()])"
    )
    found, interfaces = machine.type(f"python -c {shlex.quote(code)}").splitlines()
    assert found == "None None None None"
    if "without network" in machine.kind:
        assert interfaces == "['lo']"
    assert "No broken requirements found." in machine.type("pip check")


def test_cartpole_is_solved(machine: Machine) -> None:
    shown = machine.type("a3c-zoo train cartpole --seed 1 --name first", limit_s=1200)
    assert "Solved after" in shown
    outcome = json.loads((machine.home / "runs/first/outcome.json").read_text())
    assert outcome["solved"]


@pytest.mark.parametrize(
    "line",
    [
        "a3c-zoo list envs",
        "a3c-zoo show hyperparams cartpole",
        "a3c-zoo train pong --steps 2000",
        "a3c-zoo train gym:Acrobot-v1 --steps 2000",
        "a3c-zoo train gridworld --steps 2000",
        "a3c-zoo train cartpole --agent ppo --steps 2000",
        "a3c-zoo train cartpole --agent sb3-a2c --steps 1000",
        "a3c-zoo evaluate first --episodes 5 --json",
        "a3c-zoo plot first --out curve.svg",
        "a3c-zoo play first --video game.mp4 --episodes 1",
        "a3c-zoo compare cartpole --baseline sb3-a2c --seeds 1 --steps 2000 --episodes 1 --yes",
        "a3c-zoo list runs",
        "a3c-zoo check cartpole",
        "a3c-zoo new-plugin maze",
    ],
)
def test_the_first_commands(line: str, machine: Machine) -> None:
    machine.type(line, limit_s=1800)


def test_doctor_finds_no_problem(machine: Machine) -> None:
    found = json.loads(machine.type("a3c-zoo doctor --json"))
    assert [each for each in found if each["status"] == "problem"] == []


def test_trained_agents_are_a_line_away(machine: Machine) -> None:
    """The line that `play pong` shows is typed: the folder of wheels stands for the index."""
    without = machine.attempt("a3c-zoo play pong --video pong.gif")
    assert without.returncode == 2
    assert without.stderr.strip().endswith("pip install a3c-zoo-trained"), without.stderr
    machine.type("pip install --no-index --find-links wheels a3c-zoo-trained")
    assert "pong-a3c" in machine.type("a3c-zoo list trained")
    assert "played   1 episode " in machine.type("a3c-zoo evaluate cartpole-lstm --episodes 1")
