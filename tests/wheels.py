"""Builds wheels and clean virtual environments to install them in, away from the checkout."""

from __future__ import annotations

import email
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from tests.waits import LIMIT_S

ROOT = Path(__file__).parent.parent
PLUGINS = ROOT / "plugins"
GRIDWORLD, PPO, WANDB = PLUGINS / "a3c-zoo-gridworld", PLUGINS / "a3c-zoo-ppo", PLUGINS / "a3c-zoo-wandb"
TRAINED = PLUGINS / "a3c-zoo-trained"


def run(*command: str | Path, cwd: str | Path = "/", timeout: float = LIMIT_S) -> str:
    """Runs a command that must succeed, as `attempt` does; returns what it printed."""
    result = attempt(*command, cwd=cwd, timeout=timeout)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def attempt(*command: str | Path, cwd: str | Path = "/", timeout: float = LIMIT_S) -> subprocess.CompletedProcess[str]:
    """Runs a command as a user without this checkout would: from elsewhere, and without PYTHON* variables."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "A3C_ZOO"))}
    return subprocess.run(
        list(map(str, command)), cwd=cwd, env=environ, capture_output=True, text=True, timeout=timeout, check=False
    )


def zoo_dist(folder: Path) -> Path:
    """Builds a3c-zoo's sdist, and its wheel from that, in an empty folder; returns the folder with both.

    They are built from a copy, since a build leaves files in its source tree.
    """
    source = folder / "source"
    for name in ("a3c_zoo", "envs", "hyperparams", "tests"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, source)
    # With the setuptools that is installed here, as `make dist` does.
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", source)
    return folder / "dist"


def zoo_wheel(folder: Path) -> Path:
    """Builds a3c-zoo's wheel in an empty folder and returns its path."""
    return next(zoo_dist(folder).glob("*.whl"))


def plugin_source(plugin: Path, folder: Path) -> Path:
    """Copies the source of a plugin into a new folder, and returns it."""
    return Path(shutil.copytree(plugin, folder, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")))


def build_wheel(source: Path, out: Path) -> Path:
    """Builds the wheel of a source tree with the setuptools that is installed here."""
    out.mkdir()
    run(sys.executable, "-c", f"from setuptools import build_meta; build_meta.build_wheel({str(out)!r})", cwd=source)
    return next(out.glob("*.whl"))


def clean_environment(folder: Path, *wheels: Path) -> Path:
    """Makes a virtual environment with these wheels and this environment's dependencies; returns its interpreter."""
    venv = folder / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", venv)
    python = venv / "bin" / "python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    # Everything installed here but this project, which is there as an editable install that points to the checkout.
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if "a3c_zoo" not in path.name and path.suffix != ".pth":
            (site / path.name).symlink_to(path)
    install(python, *wheels)
    return python


def core_environment(folder: Path, wheel: Path) -> Path:
    """Makes a virtual environment with pip, and with the packages that a wheel requires and no others.

    They are links to those of this environment: nothing is downloaded. The wheel itself is not installed yet. A package
    that the code needs and that no requirement names, at once or through others, is not there. Returns its interpreter.
    """
    venv = folder / "venv"
    run(sys.executable, "-m", "venv", venv)
    python = venv / "bin" / "python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    for name in required(_requirements_of(wheel)):
        places = {path.parts[0] for path in metadata.distribution(name).files or ()} - {"..", "__pycache__"}
        for place in places:
            if not (site / place).exists():
                (site / place).symlink_to(Path(sysconfig.get_path("purelib")) / place)
    return python


def copied_environment(venv: Path, folder: Path) -> Path:
    """Copies a virtual environment into an existing folder, where it is changed; returns its interpreter.

    Its scripts name the folder of the environment, so that becomes the new one. This takes a tenth of a second; a new
    environment takes five.
    """
    copy = Path(shutil.copytree(venv, folder / "venv", symlinks=True))
    for path in (copy / "bin").iterdir():
        if not path.is_symlink():
            text = path.read_bytes().replace(os.fsencode(venv), os.fsencode(copy))
            path.write_bytes(text)
    return copy / "bin" / "python"


def _requirements_of(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name)).get_all("Requires-Dist", [])


def required(requirements: Iterable[str]) -> set[str]:
    """The names of all distributions of this environment that these requirements need, at once or through others."""
    found: set[str] = set()
    waiting = [(each, frozenset[str]()) for each in map(Requirement, requirements)]
    while waiting:
        each, extras = waiting.pop()
        wanted = each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in extras | {""})
        key = f"{each.name.lower()}[{','.join(sorted(each.extras))}]"
        if not wanted or key in found:
            continue
        found.add(key)
        waiting += [(more, frozenset(each.extras)) for more in map(Requirement, metadata.requires(each.name) or ())]
    return {key.partition("[")[0] for key in found}


def install(python: Path, *wheels: Path) -> None:
    """Installs wheels, whose dependencies must be there."""
    pip(python, "install", "--no-index", *wheels)


def pip(python: Path, *arguments: str | Path) -> str:
    """Runs this environment's pip for another interpreter."""
    return run(sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", *arguments)
