"""Commands that install what is missing, in a checkout, beside one, and with a wheel from anywhere."""

from __future__ import annotations

import json
import shutil
import sys
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.specifiers import SpecifierSet

from a3c_zoo import cures
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.store.needed_plugins import what_is_missing
from a3c_zoo.version import __version__, fitting_versions
from tests.wheels import ROOT

REQUIRES = metadata.requires("a3c-zoo")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The code lies in a folder of packages, as if it came from an index. Returns an empty current folder."""
    monkeypatch.setattr(cures, "__file__", str(tmp_path / "site-packages/a3c_zoo/cures.py"))
    says(monkeypatch, None)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def says(monkeypatch: pytest.MonkeyPatch, origin: object) -> None:
    """What pip noted of the place from which a3c-zoo was installed; None for an index."""
    text = origin if isinstance(origin, str) else None if origin is None else json.dumps(origin)
    found = SimpleNamespace(read_text=lambda file: text, requires=REQUIRES)
    monkeypatch.setattr(metadata, "distribution", lambda name: found)


def checkout(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name in ("pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    (folder / "plugins/a3c-zoo-ray").mkdir(parents=True)
    return folder


def test_in_the_folder_of_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert cures.install_extra("play") == "pip install -c constraints.txt -e '.[play]'"
    assert cures.install_extra("ray") == "pip install -c constraints.txt ./plugins/a3c-zoo-ray"
    assert cures.install_plugin("a3c-zoo-trained") == "pip install -c constraints.txt ./plugins/a3c-zoo-trained"
    assert cures.install_needed() == "pip install -c constraints.txt -e ."
    assert cures.upgrade("zoo-maze") == f"git pull && {cures.install_needed()} && pip install --upgrade zoo-maze"


def test_what_is_broken_is_installed_anew_in_a_version_that_fits(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sb3 = next(each for each in REQUIRES or () if each.startswith("stable-baselines3"))
    monkeypatch.setattr(metadata, "requires", lambda name: REQUIRES)
    assert cures.reinstall("stable-baselines3") == f"pip install --force-reinstall '{sb3}'"
    assert cures.uninstall("torch", "nvidia-x") == "pip uninstall torch nvidia-x"
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert cures.reinstall("x", "--no-deps") == f"{sys.executable} -m pip install --force-reinstall --no-deps x"
    assert cures.uninstall("x") == f"{sys.executable} -m pip uninstall x"


def test_in_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert cures.install_extra("play") == f"pip install -c {ROOT}/constraints.txt -e '{ROOT}[play]'"
    assert cures.upgrade() == f"git -C {ROOT} pull && pip install -c {ROOT}/constraints.txt -e {ROOT}"


def test_a_copy_from_a_checkout_stays_a_copy(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """README's `pip install -c constraints.txt .`"""
    place = checkout(installed / "a3c zoo")
    says(monkeypatch, {"url": f"file://{installed}/a3c%20zoo", "dir_info": {}})
    assert cures.install_extra("play") == f"pip install -c 'a3c zoo/constraints.txt' '{place}[play]'"
    monkeypatch.chdir(place)
    assert cures.install_extra("play") == "pip install -c constraints.txt '.[play]'"
    assert cures.install_extra("ray") == "pip install -c constraints.txt ./plugins/a3c-zoo-ray"
    says(monkeypatch, {"url": f"file://{installed}/a3c%20zoo", "dir_info": {"editable": True}})
    assert cures.install_extra("play") == "pip install -c constraints.txt -e '.[play]'"


IN_A_CHECKOUT = "(in a checkout of a3c-zoo)"
WHEELS: list[object] = [
    {"url": "file:///somewhere/a3c_zoo-0.1.0-py3-none-any.whl", "archive_info": {}},
    {"url": "file:///gone/a3c-zoo", "dir_info": {}},
    {"url": "https://example.org/a3c-zoo", "dir_info": {}},
    {"url": 3},
    {"url": "https://example.org/a3c-zoo.git", "vcs_info": 5},
    [],
    "{",
]


@pytest.mark.parametrize("origin", [None, *WHEELS])
def test_without_a_checkout_the_packages_of_others_are_named(
    origin: object, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(monkeypatch, origin)
    assert cures.install_extra("play") == "pip install 'imageio-ffmpeg<1,>=0.5' 'pygame-ce<3,>=2.5'"
    assert cures.install_needed("stable-baselines3") == "pip install 'stable-baselines3<3,>=2.7'"
    assert cures.install_needed("gymnasium[mujoco]") == "pip install 'gymnasium[mujoco]'"
    assert cures.install_plugin("zoo-maze", "2.1") == "pip install zoo-maze==2.1"
    assert cures.install_plugin("a3c-zoo-of-others") == "pip install a3c-zoo-of-others"


def test_an_index_that_had_a3c_zoo_has_its_plugins(installed: Path) -> None:
    fitting = SpecifierSet(fitting_versions(__version__))
    assert cures.install_extra("ray") == f"pip install 'a3c-zoo-ray{fitting}'"
    assert cures.install_plugin("a3c-zoo-trained", "1.0") == "pip install a3c-zoo-trained==1.0"
    assert cures.upgrade("zoo-maze") == "pip install --upgrade a3c-zoo zoo-maze"


@pytest.mark.parametrize("origin", WHEELS)
def test_no_index_is_asked_for_what_came_as_a_wheel(
    origin: object, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(monkeypatch, origin)
    ray = "pip install -c constraints.txt ./plugins/a3c-zoo-ray"
    assert cures.install_extra("ray") == cures.install_plugin("a3c-zoo-ray", "1.0") == f"{ray} {IN_A_CHECKOUT}"
    update = "git pull && pip install -c constraints.txt ."
    assert cures.upgrade() == f"{update} {IN_A_CHECKOUT}"
    assert cures.upgrade("zoo-maze") == f"{update} && pip install --upgrade zoo-maze {IN_A_CHECKOUT}"


def test_a_repository_has_the_plugins_too(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    says(monkeypatch, {"url": "https://example.org/zoo.git", "vcs_info": {"vcs": "git", "commit_id": "1f"}})
    url = "git+https://example.org/zoo.git"
    plugin = f"pip install 'a3c-zoo-trained @ {url}#subdirectory=plugins/a3c-zoo-trained'"
    assert cures.install_plugin("a3c-zoo-trained") == plugin
    assert cures.install_extra("ray") == plugin.replace("trained", "ray")
    assert cures.install_extra("onnx") == "pip install 'onnxruntime<2,>=1.22' 'onnxscript<1,>=0.5'"
    assert cures.upgrade("zoo-maze") == f"pip install --upgrade 'a3c-zoo @ {url}' zoo-maze"


def test_uvx_makes_an_environment_with_what_is_missing(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs in one of uv's cache, which it makes anew: nothing is installed into that."""
    monkeypatch.setattr(sys, "prefix", str(installed / "uv/archive-v0/Q5rT"))
    assert cures.install_plugin("a3c-zoo-trained") == "uvx --with a3c-zoo-trained a3c-zoo …"
    assert cures.install_extra("tune") == "uvx --with 'optuna<6,>=5' a3c-zoo …"


def test_plugins_of_this_project_are_upgraded_from_where_it_came(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cures.upgrade("a3c-zoo-ppo") == "pip install --upgrade a3c-zoo a3c-zoo-ppo"
    says(monkeypatch, WHEELS[0])
    line = "git pull && pip install -c constraints.txt . && pip install -c constraints.txt ./plugins/a3c-zoo-ppo"
    assert cures.upgrade("a3c-zoo-ppo") == f"{line} {IN_A_CHECKOUT}"
    says(monkeypatch, {"url": "https://example.org/zoo.git", "vcs_info": {"vcs": "git", "commit_id": "1f"}})
    plugin = "'a3c-zoo-ppo @ git+https://example.org/zoo.git#subdirectory=plugins/a3c-zoo-ppo'"
    core = "'a3c-zoo @ git+https://example.org/zoo.git'"
    assert cures.upgrade("a3c-zoo-ppo") == f"pip install --upgrade {core} {plugin}"
    says(monkeypatch, None)
    monkeypatch.setattr(cures, "__file__", str(ROOT / "a3c_zoo/cures.py"))
    monkeypatch.chdir(ROOT)
    assert cures.upgrade("a3c-zoo-ppo") == (
        "git pull && pip install -c constraints.txt -e . && pip install -c constraints.txt ./plugins/a3c-zoo-ppo"
    )


def test_all_plugins_of_this_project_are_known() -> None:
    assert sorted(cures.OWN_PLUGINS) == sorted(path.parent.name for path in ROOT.glob("plugins/*/pyproject.toml"))


def test_without_metadata(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    monkeypatch.setattr(metadata, "requires", missing)
    assert cures.install_extra("play") == f"pip install -c constraints.txt '.[play]' {IN_A_CHECKOUT}"
    assert cures.install_plugin("a3c-zoo-ray").endswith(f"./plugins/a3c-zoo-ray {IN_A_CHECKOUT}")


def test_the_pip_of_this_interpreter(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first pip on the path may be that of another one."""
    monkeypatch.setenv("PATH", "/usr/bin")
    assert cures.install_plugin("zoo-maze") == f"{sys.executable} -m pip install zoo-maze"
    program = installed / "a venv/bin/python"
    monkeypatch.setattr(sys, "executable", str(program))
    assert cures.install_plugin("zoo-maze") == "'a venv/bin/python' -m pip install zoo-maze"
    program.parent.mkdir(parents=True)
    (program.parent / "pip").touch(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    assert cures.install_plugin("zoo-maze") == "pip install zoo-maze"


def test_an_environment_of_uv_has_no_pip(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (installed / "bin").mkdir()
    (installed / "bin/uv").touch(0o755)
    monkeypatch.setenv("PATH", str(installed / "bin"))
    monkeypatch.setattr(cures, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "prefix", str(installed / "venv"))
    assert cures.install_plugin("zoo-maze") == f"VIRTUAL_ENV={installed}/venv uv pip install zoo-maze"


def test_the_folder_of_a_run_s_module_is_the_one_that_its_command_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    meta = {"env": "python:maze:Maze", "command": ["a3c-zoo", "train", "./my mazes/maze.py:Maze"]}

    def told() -> str:
        return str(what_is_missing("one", meta, get_registry(), is_trusted=True))

    assert told().endswith("name its folder: PYTHONPATH=FOLDER a3c-zoo …")
    (tmp_path / "my mazes").mkdir()
    (tmp_path / "my mazes/maze.py").touch()
    assert told().endswith("name its folder: PYTHONPATH='./my mazes' a3c-zoo …")
    (tmp_path / "maze.py").touch()
    assert told().endswith("name its folder: PYTHONPATH=. a3c-zoo …")
    assert what_is_missing("one", meta, get_registry(), is_trusted=False) is None
