"""The wheel and the sdist: what is in them, and the release's metadata. That they work: `test_third_party`."""

from __future__ import annotations

import email
import re
import sys
import tarfile
import tomllib
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from a3c_zoo.version import __version__, fitting_versions
from tests import versions
from tests.shared import made_once
from tests.wheels import (
    GRIDWORLD,
    ROOT,
    TRAINED,
    attempt,
    build_wheel,
    clean_environment,
    pip,
    plugin_source,
    run,
    zoo_dist,
)

PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
PACKAGES = {"a3c_zoo", "a3c_zoo_envs", "a3c_zoo_hyperparams"}


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the sdist, and with the wheel that was built from it."""
    return made_once(tmp_path_factory, "build", zoo_dist) / "dist"


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    return next(dist.glob("*.whl"))


def test_contents(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == PACKAGES
    assert {f"{package}/{name}" for package in PACKAGES for name in ("__init__.py", "py.typed")} <= set(names)
    sources = {
        path.relative_to(root).as_posix()
        for root in (ROOT, ROOT / "envs", ROOT / "hyperparams")
        for package in PACKAGES & {path.name for path in root.iterdir()}
        for path in (root / package).rglob("*")
        if path.suffix in {".j2", ".py", ".yml", ".typed"}
    }
    assert sources == {name for name in names if ".dist-info/" not in name}
    assert "a3c_zoo_hyperparams/cartpole/a3c.yml" in names


def test_the_wheel_of_trained_agents_has_all_their_files(tmp_path: Path) -> None:
    with zipfile.ZipFile(build_wheel(plugin_source(TRAINED, tmp_path / "source"), tmp_path / "dist")) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    files = {path.relative_to(TRAINED / "src") for path in (TRAINED / "src").rglob("*") if path.is_file()}
    own = {path for path in files if not {"__pycache__", "a3c_zoo_trained.egg-info"} & set(path.parts)}
    assert {path.as_posix() for path in own} == names
    assert "a3c_zoo_trained/pong-a3c/curve.csv" in names


def test_metadata(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        info = next(name.partition("/")[0] for name in archive.namelist() if ".dist-info/" in name)
        metadata = email.message_from_bytes(archive.read(f"{info}/METADATA"))
        points = ConfigParser()
        points.read_string(archive.read(f"{info}/entry_points.txt").decode())
        licence = archive.read(f"{info}/licenses/LICENSE").decode()
    assert (metadata["Name"], metadata["License-Expression"], metadata["Requires-Python"]) == (
        "a3c-zoo",
        "MIT",
        "<3.15,>=3.11",
    )
    versions = [line.rpartition(" ")[2] for line in metadata.get_all("Classifier", []) if re.search(r":: 3\.\d", line)]
    assert versions == PYTHONS
    assert licence.startswith("MIT License")
    assert dict(points["console_scripts"]) == {"a3c-zoo": "a3c_zoo.__main__:main"}
    assert dict(points["a3c_zoo"]) == {
        "core": "a3c_zoo.plugins.builtins",
        "envs": "a3c_zoo_envs",
        "hyperparams": "a3c_zoo_hyperparams",
    }


def test_an_index_would_take_both(dist: Path) -> None:
    assert sorted(path.name for path in dist.iterdir()) == [
        f"a3c_zoo-{__version__}-py3-none-any.whl",
        f"a3c_zoo-{__version__}.tar.gz",
    ]
    run(sys.executable, "-m", "twine", "check", "--strict", *dist.iterdir())
    with tarfile.open(dist / f"a3c_zoo-{__version__}.tar.gz") as archive:
        assert f"a3c_zoo-{__version__}/LICENSE" in archive.getnames()


def test_the_version_is_the_same_everywhere() -> None:
    """`make versions` writes it."""
    assert [path.name for path, text in versions.texts() if path.read_text() != text] == []
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert citation["version"] == __version__
    assert headings[:2] == ["[Unreleased]", f"[{__version__}] - {citation['date-released']}"]


def test_continuous_integration_runs_every_supported_python() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    jobs = workflow["jobs"]
    assert jobs["test"]["strategy"]["matrix"]["python"] == PYTHONS
    commands = [step["run"] for name in ("ray", "test") for step in jobs[name]["steps"] if "run" in step]
    assert commands == ["make test-ray", "make test", "make lint-systems"]
    *_, side_by_side, last = (ROOT / ".ci/run").read_text().splitlines()
    assert {"make", "test-ray"} < set(side_by_side.split())
    assert last == "exec make test"


def test_the_commit_hooks_are_the_tools_of_make_lint() -> None:
    lines = (ROOT / "Makefile").read_text().replace("$(BIN)", ".venv/bin").splitlines()
    sources = next(line.partition(" := ")[2] for line in lines if line.startswith("SOURCES"))
    recipe = lines[next(n for n, line in enumerate(lines) if line.startswith("lint:")) + 1 :]
    commands = [line.removeprefix("\t@").replace("$(SOURCES)", sources) for line in recipe[: recipe.index("")]]
    (repo,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [hook["entry"] for hook in repo["hooks"]] == commands


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_real_install_works(wheel: Path, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    run(sys.executable, "-m", "venv", venv)
    python = venv / "bin" / "python"
    run(python, "-m", "pip", "install", "--constraint", ROOT / "constraints.txt", wheel, timeout=800)
    run(python, "-m", "pip", "check")
    assert "cartpole" in run(venv / "bin" / "a3c-zoo", "list", "envs")
    run(venv / "bin" / "a3c-zoo", "train", "cartpole", "--steps", "2000", cwd=tmp_path)


def test_constraints_pin_every_requirement() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {line.partition("==")[0] for line in lines if not line.startswith("#")}
    file = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = file["project"]
    groups = [each for group in file["dependency-groups"].values() for each in group if isinstance(each, str)]
    extras = [each for extra in project["optional-dependencies"].values() for each in extra]
    names = {Requirement(each).name.lower() for each in [*project["dependencies"], *extras, *groups]}
    assert names <= pinned | {"a3c-zoo", "a3c-zoo-ray", "a3c-zoo-trained"}
    assert all(line.startswith("#") or "==" in line for line in lines)
    assert not any("+" in line or "@" in line or "/" in line for line in lines)


def test_the_extra_all_has_every_extra_but_those_of_plugins() -> None:
    """An index need not have what is in plugins/. box2d must be compiled on machines without its wheel."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    parts = list(map(Requirement, extras["all"]))
    assert {each.name for each in parts} == {"a3c-zoo"}
    there: dict[str, set[str]] = {
        machine: {
            extra
            for each in parts
            if each.marker is None or each.marker.evaluate({"platform_machine": machine})
            for extra in each.extras
        }
        for machine in ("x86_64", "AMD64", "arm64", "aarch64")
    }
    others = extras.keys() - {"all", "ray", "trained"}
    assert there["x86_64"] == there["AMD64"] == others
    assert there["arm64"] == there["aarch64"] == others - {"box2d"}


def test_contributors_get_every_group() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    assert {each["include-group"] for each in groups["dev"]} == groups.keys() - {"dev"}
    assert "--editable '.[all]' --group dev" in (ROOT / "Makefile").read_text()


def test_the_extra_ray_brings_the_plugin_and_ray() -> None:
    """`make test-ray` installs the extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (brought,) = map(Requirement, project["optional-dependencies"]["ray"])
    plugin = tomllib.loads((ROOT / "plugins/a3c-zoo-ray/pyproject.toml").read_text())["project"]
    assert brought.name == plugin["name"]
    assert brought.specifier.contains(plugin["version"])
    needed = {each.name: each for each in map(Requirement, plugin["dependencies"])}
    assert needed["a3c-zoo"].specifier.contains(__version__)
    assert "ray" in needed


#: What an old Python runs: the check comes before anything that it cannot read.
OLD_PYTHON = """
import runpy, sys
sys.version_info = (3, 10, 13)
runpy.run_path(sys.argv[1])
"""


def test_a_python_that_is_too_old_is_told_so(tmp_path: Path) -> None:
    done = attempt(sys.executable, "-c", OLD_PYTHON, ROOT / "a3c_zoo/__init__.py")
    last = done.stderr.splitlines()[-1]
    assert last == "ImportError: a3c-zoo needs Python 3.11 to 3.14, and this is 3.10"
    old = tmp_path / "python3.10"
    old.write_text("#!/bin/sh\necho 3.10\n")
    old.chmod(0o755)
    made = attempt("make", "--directory", ROOT, "test", f"PYTHON={old}")
    assert made.returncode == 2
    assert f"a3c-zoo needs Python 3.11 to 3.14, and {old} is 3.10" in made.stderr


def test_the_supported_pythons_are_named_alike() -> None:
    first, last = (Requirement(f"python{each}") for each in (">=3.11", "<3.15"))
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert needed == f"{first.specifier},{last.specifier}"
    assert " ".join(PYTHONS) in (ROOT / "Makefile").read_text()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_plugin_for_another_version_is_one_line_at_the_start(wheel: Path, tmp_path: Path) -> None:
    """It names both versions and the cure, and the command goes on without the plugin."""
    source = plugin_source(GRIDWORLD, tmp_path / "source")
    file = source / "pyproject.toml"
    file.write_text(file.read_text().replace(f"a3c-zoo{fitting_versions(__version__)}", "a3c-zoo>=7.0,<8"))
    python = clean_environment(tmp_path, wheel)
    pip(python, "install", "--no-index", "--no-deps", build_wheel(source, tmp_path / "dist"))
    done = attempt(python.parent / "a3c-zoo", "list", "envs")
    assert (done.returncode, "cartpole" in done.stdout) == (0, True)
    (line,) = done.stderr.splitlines()
    assert f"(a3c-zoo-gridworld {__version__})" in line
    assert f"it requires a3c-zoo<8,>=7.0, and this is {__version__}: install versions that fit together" in line
    assert "./plugins/a3c-zoo-gridworld" in line
    trained = attempt(python.parent / "a3c-zoo", "train", "gridworld", cwd=tmp_path)
    assert (trained.returncode, "Traceback" in trained.stderr) == (2, False)
