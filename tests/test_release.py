"""What reaches users beside the wheels: the release, the image, the devcontainer, Binder, conda-forge's recipe."""

from __future__ import annotations

import fnmatch
import json
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from a3c_zoo.version import __version__
from tests.reference_pages import NOTEBOOK, badges
from tests.wheels import PLUGINS, ROOT, TRAINED, build_wheel, plugin_source, zoo_wheel

#: The project's file.
FILE = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = FILE["project"]
#: PyTorch's own index of builds for the CPU.
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
#: Packages whose name at conda-forge is another one.
CONDA = {"matplotlib": "matplotlib-base", "opencv-python-headless": "py-opencv", "torch": "pytorch"}


def workflow(name: str) -> dict[Any, Any]:
    found: dict[Any, Any] = yaml.safe_load((ROOT / ".github/workflows" / name).read_text())
    return found


def instructions() -> Iterator[tuple[str, str]]:
    """The Dockerfile's instructions, without comments, each with its arguments in one line."""
    lines = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if not line.startswith("#")]
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        if line.strip():
            name, _, rest = line.partition(" ")
            yield name, rest


def is_ignored(path: str) -> bool:
    """What .dockerignore says of a path of this repository: its last line that matches."""
    ignored = False
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        pattern = line.lstrip("!").removeprefix("**/")
        if line and not line.startswith("#"):
            parts = [path, *map(str, Path(path).parents)] if "**/" not in line else Path(path).parts
            if any(fnmatch.fnmatch(part, pattern) for part in parts):
                ignored = not line.startswith("!")
    return ignored


def test_the_image_copies_what_is_there() -> None:
    sources = [source for name, rest in instructions() if name == "COPY" for source in rest.split()[:-1]]
    assert {"pyproject.toml", "constraints.txt", "LICENSE", "README.md"} < set(sources)
    assert [source for source in sources if not (ROOT / source).exists()] == []
    assert [source for source in sources if is_ignored(source)] == []
    for private in (".git/config", "runs/one/meta.json", ".venv/bin/python", "tests/waits.py", "dist/x.whl"):
        assert is_ignored(private), private
    assert is_ignored("a3c_zoo/__pycache__/version.cpython-311.pyc")


def test_the_image_has_all_that_its_wheel_is_built_from() -> None:
    """What setuptools reads: the packages, and the files that pyproject.toml names."""
    copied = {rest.split()[0] for name, rest in instructions() if name == "COPY" and len(rest.split()) == 2}
    files = {each for name, rest in instructions() if name == "COPY" for each in rest.split()[:-1]}
    where = set(FILE["tool"]["setuptools"]["packages"]["find"]["where"]) - {"."}
    assert where | {"a3c_zoo", "plugins/a3c-zoo-trained"} == copied
    assert {PROJECT["readme"], *PROJECT["license-files"]} < files


def test_the_images_python_is_supported_and_its_user_is_not_root() -> None:
    steps = list(instructions())
    names = [name for name, _ in steps]
    image = next(rest for name, rest in steps if name == "FROM")
    assert SpecifierSet(PROJECT["requires-python"]).contains(re.fullmatch(r"python:(3\.\d+)-slim", image)[1])  # type: ignore[index]
    user = next(rest for name, rest in steps if name == "USER")
    assert user != "root"
    assert any(re.search(rf"useradd .*{user}\b", rest) for name, rest in steps if name == "RUN")
    assert "RUN" not in names[names.index("USER") :]


def test_the_image_installs_the_small_torch_before_the_code_and_runs_the_command() -> None:
    steps = list(instructions())
    torch = next(n for n, (name, rest) in enumerate(steps) if name == "RUN" and CPU_INDEX in rest)
    code = next(n for n, (name, rest) in enumerate(steps) if (name, rest.split()[0]) == ("COPY", "a3c_zoo"))
    assert torch < code
    entry = json.loads(next(rest for name, rest in steps if name == "ENTRYPOINT"))
    command = json.loads(next(rest for name, rest in steps if name == "CMD"))
    assert entry[0] in PROJECT["scripts"]
    assert command == ["train", "cartpole"]
    assert "--shm-size" in (ROOT / "Dockerfile").read_text()


def test_the_image_and_its_shells_are_written_correctly() -> None:
    """Each RUN is a line that a shell can read."""
    for name, rest in instructions():
        if name == "RUN":
            subprocess.run(["sh", "-n", "-c", rest], check=True, capture_output=True)


def test_the_devcontainer_makes_what_contributors_make() -> None:
    found = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text())
    version = re.search(r":(3\.\d+)$", found["image"])
    assert version is not None
    assert SpecifierSet(PROJECT["requires-python"]).contains(version[1])
    program, target = shlex.split(found["postCreateCommand"])
    assert program == "make"
    assert re.search(rf"^{re.escape(target)}:", (ROOT / "Makefile").read_text(), re.M)
    assert "--shm-size=1g" in found["runArgs"]
    assert found["remoteEnv"]["PIP_EXTRA_INDEX_URL"] == CPU_INDEX


def test_binder_installs_this_checkout() -> None:
    lines = (ROOT / ".binder/requirements.txt").read_text().splitlines()
    assert {"-c ../constraints.txt", ".", "jupyterlab", f"--extra-index-url {CPU_INDEX}"} <= set(lines)
    runtime = (ROOT / ".binder/runtime.txt").read_text().strip()
    assert SpecifierSet(PROJECT["requires-python"]).contains(runtime.removeprefix("python-"))


def test_badges_need_a_repository() -> None:
    assert badges("") == badges("https://example.org/somebody/a3c-zoo") == ""
    shown = badges("https://github.com/somebody/a3c-zoo.git")
    path = NOTEBOOK.relative_to(ROOT).as_posix()
    assert f"(https://colab.research.google.com/github/somebody/a3c-zoo/blob/main/{path})" in shown
    assert f"(https://mybinder.org/v2/gh/somebody/a3c-zoo/main?urlpath=lab/tree/{path})" in shown
    has_badges = "colab.research.google.com" in NOTEBOOK.read_text()
    assert has_badges == bool(badges(PROJECT.get("urls", {}).get("Repository", "")))


def test_conda_forge_gets_the_same_requirements() -> None:
    recipe = yaml.safe_load((ROOT / "release/recipe.yaml").read_text())
    python, *others = recipe["requirements"]["run"]
    lowest = recipe["context"]["python_min"]
    asked = python.replace("${{ python_min }}", lowest).removeprefix("python ")
    assert SpecifierSet(asked) == SpecifierSet(PROJECT["requires-python"])
    expected = {}
    for each in map(Requirement, PROJECT["dependencies"]):
        expected[CONDA.get(each.name, each.name)] = each.specifier
    assert {name: SpecifierSet(rest) for name, _, rest in (line.partition(" ") for line in others)} == expected
    assert (
        f"setuptools {FILE['build-system']['requires'][0].removeprefix('setuptools')}"
        in (recipe["requirements"]["host"])
    )
    assert recipe["build"]["python"]["entry_points"] == [f"{name} = {to}" for name, to in PROJECT["scripts"].items()]
    assert (recipe["about"]["summary"], recipe["about"]["license"]) == (PROJECT["description"], PROJECT["license"])
    assert recipe["context"]["version"] == __version__


def test_uv_takes_the_small_torch_and_installs_no_tools() -> None:
    uv = FILE["tool"]["uv"]
    (index,) = uv["index"]
    assert uv["sources"]["torch"] == {"index": index["name"]}
    assert (index["url"], index["explicit"]) == (CPU_INDEX, True)
    assert uv["default-groups"] == []
    for name in ("a3c-zoo-ray", "a3c-zoo-trained"):
        assert uv["sources"][name] == {"path": f"plugins/{name}"}
        assert (PLUGINS / name / "pyproject.toml").is_file()


def test_a_release_publishes_every_distribution_after_its_tests() -> None:
    found = workflow("release.yml")
    jobs = found["jobs"]
    assert found[True]["push"] == {"tags": ["v*"]}  # YAML 1.1 reads `on` as a truth value
    plugins = [path.parent.name.replace("-", "_") for path in sorted(PLUGINS.glob("*/pyproject.toml"))]
    assert jobs["publish"]["strategy"]["matrix"]["distribution"] == ["a3c_zoo", *plugins]
    assert set(jobs["publish"]["needs"]) == {"test", "offline"}
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert jobs["publish"]["if"] == "github.ref_type == 'tag'"
    assert "password" not in json.dumps(jobs["publish"])
    assert all("id-token" not in job.get("permissions", {}) for name, job in jobs.items() if name != "publish")
    pythons = workflow("ci.yml")["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert jobs["test"]["strategy"]["matrix"]["python"] == pythons


def test_the_tag_is_compared_with_the_version() -> None:
    (step,) = (step for step in workflow("release.yml")["jobs"]["build"]["steps"] if "GITHUB_REF_NAME" in str(step))
    for tag, status in ((f"v{__version__}", 0), ("v0.0.9", 1)):
        variables = {"GITHUB_REF_NAME": tag, "PATH": "/usr/bin:/bin"}
        done = subprocess.run(["sh", "-c", step["run"]], cwd=ROOT, env=variables, check=False)
        assert done.returncode == status


def test_patterns_of_a_release_take_one_distribution_each(tmp_path: Path) -> None:
    """`a3c_zoo-[0-9]*` is the core alone."""
    wheels = [zoo_wheel(tmp_path / "zoo")]
    wheels.append(build_wheel(plugin_source(TRAINED, tmp_path / "source"), tmp_path / "trained"))
    names = [wheel.name for wheel in wheels]
    taken = {each: fnmatch.filter(names, f"{each}-[0-9]*") for each in ("a3c_zoo", "a3c_zoo_trained")}
    assert taken == {"a3c_zoo": names[:1], "a3c_zoo_trained": names[1:]}
    assert wheels[0].stat().st_size < 2_000_000


@pytest.mark.parametrize("name", ["ci.yml", "release.yml"])
def test_workflows_type_what_make_has(name: str) -> None:
    targets = set(re.findall(r"^([\w./-]+):", (ROOT / "Makefile").read_text().replace("$(BIN)", ".venv/bin"), re.M))
    steps = [step for job in workflow(name)["jobs"].values() for step in job["steps"]]
    typed = [found[1] for step in steps if (found := re.match(r"make ([\w./-]+)", step.get("run", "")))]
    assert set(typed) <= targets
    assert typed
