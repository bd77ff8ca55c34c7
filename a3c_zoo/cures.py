"""Commands that install what is missing. They work where the user is: beside a checkout, or with an installed wheel.

No package index has to have a3c-zoo. In a checkout, an extra is installed from its folder. Elsewhere the packages that
the extra brings are named one by one, as the installed metadata lists them. Distributions of this project come from
where a3c-zoo itself came from: a checkout, a repository, an index. Nobody knows where a single wheel is from; then
the command is one for a checkout, and says so.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from packaging.requirements import Requirement

DISTRIBUTION: Final = "a3c-zoo"
#: The distributions of this project below its folder `plugins`.
OWN_PLUGINS: Final = tuple(
    f"a3c-zoo-{name}" for name in ("gridworld", "minigrid", "pettingzoo", "ppo", "ray", "trained", "wandb")
)
#: Prefixes of environments → the distribution of this project that brings them.
FAMILIES: Final = {
    "minigrid": "a3c-zoo-minigrid",
    "pettingzoo": "a3c-zoo-pettingzoo",
    "gym-agents": "a3c-zoo-pettingzoo",
}
#: Where to read what a class must do that calls the environment of a library.
PACKAGES_PAGE: Final = "see docs/how-to/use-an-environment-of-others.md"
#: Stands behind a command that works nowhere else.
IN_A_CHECKOUT: Final = "(in a checkout of a3c-zoo)"


@dataclass(frozen=True, slots=True)
class Checkout:
    """The folder of sources from which a3c-zoo was installed, or in which it runs.

    Attributes:
        is_editable: whether the installed package is the one in this folder, and no copy.
    """

    folder: Path
    is_editable: bool


def install_extra(extra: str) -> str:
    """The command that installs an extra of a3c-zoo, such as `play`."""
    needed, place = [*requirements(extra)], find_checkout()
    own = [requirement.name for requirement in needed if requirement.name in OWN_PLUGINS]
    if own and not _has_index():
        return install_plugin(own[0])
    if place:
        return f"{_pip_install(place)} {_shown_project(place, f'[{extra}]')}"
    return _named(map(str, needed)) if needed else _from_checkout(f"'.[{extra}]'")


def install_needed(*packages: str) -> str:
    """The command that installs packages that a3c-zoo itself needs, in versions that fit; all of them by default."""
    place = find_checkout()
    if not packages and place:
        return f"{_pip_install(place)} {_shown_project(place)}"
    needed = {requirement.name: str(requirement) for requirement in requirements()}
    return _named(needed.get(name, name) for name in packages or needed)


def reinstall(package: str, *options: str) -> str:
    """The command that installs a package anew that a3c-zoo itself needs, in a version that fits."""
    needed = {requirement.name: str(requirement) for requirement in requirements()}
    wanted = shlex.quote(needed.get(package, package))
    return " ".join([_pip_install(find_checkout()), "--force-reinstall", *options, wanted])


def uninstall(*packages: str) -> str:
    """The command that removes packages."""
    return " ".join([_pip(), "uninstall", *map(shlex.quote, packages)])


def install_plugin(distribution: str, version: str = "") -> str:
    """The command that installs a plugin. One of this project is in the checkout. version: the one that is wanted."""
    if distribution not in OWN_PLUGINS or _has_index():
        return _installed(f"{distribution}{f'=={version}' if version else ''}")
    place = find_checkout()
    if place:
        return f"{_pip_install(place)} {_shown(Path('plugins') / distribution, place)}"
    if url := _repository():
        return (
            f"{_pip()} install {shlex.quote(f'{distribution} @ {url}#subdirectory=plugins/{distribution}')}"
        )
    return _from_checkout(f"./plugins/{distribution}")


def upgrade(*others: str) -> str:
    """The command that gets a newer a3c-zoo, and newer versions of other distributions."""
    place = find_checkout()
    if _has_index():
        return " ".join([_pip(), "install --upgrade", DISTRIBUTION, *others])
    own = [each for each in others if each in OWN_PLUGINS]
    foreign = [each for each in others if each not in OWN_PLUGINS]
    if url := _repository():
        plugins = [f"{each} @ {url}#subdirectory=plugins/{each}" for each in own]
        named = map(shlex.quote, [f"{DISTRIBUTION} @ {url}", *plugins])
        return " ".join([_pip(), "install --upgrade", *named, *foreign])
    steps = [install_plugin(each).removesuffix(f" {IN_A_CHECKOUT}") for each in own]
    if foreign:
        steps.append(f"{_pip()} install --upgrade {' '.join(foreign)}")
    further = "".join(f" && {step}" for step in steps)
    if place is None:
        return f"git pull && {_pip()} install -c constraints.txt .{further} {IN_A_CHECKOUT}"
    pull = "git pull" if place.folder == _here() else f"git -C {shlex.quote(str(place.folder))} pull"
    return f"{pull} && {install_needed()}{further}"


def _from_checkout(what: str) -> str:
    """The command for who has no checkout yet."""
    return f"{_pip()} install -c constraints.txt {what} {IN_A_CHECKOUT}"


def find_checkout() -> Checkout | None:
    """The checkout that a3c-zoo runs in, or was installed from if that is still there; None without one."""
    here = Path(__file__).parents[1]
    if _is_project(here):
        return Checkout(here, is_editable=True)
    try:
        origin = _origin() or {}
        url = urlsplit(origin["url"])
        folder = Path(unquote(url.path))
        if url.scheme != "file" or not _is_project(folder):
            return None
        return Checkout(folder, bool(origin["dir_info"].get("editable")))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _origin() -> dict[str, Any] | None:
    """What pip noted of the place from which it installed a3c-zoo; None for an index, {} if nobody knows.

    Source: packaging.python.org/en/latest/specifications/direct-url/
    """
    try:
        text = metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
        origin: Any = json.loads(text) if text else None
    except (metadata.PackageNotFoundError, ValueError):
        return {}
    return origin if origin is None or isinstance(origin, dict) else {}


def _has_index() -> bool:
    """Whether a3c-zoo came from a package index, which then has its other distributions, too."""
    return find_checkout() is None and _origin() is None


def _repository() -> str:
    """The repository from which pip installed a3c-zoo, as pip takes it (`git+https://…`); "" without one."""
    origin = _origin() or {}
    try:
        return f"{origin['vcs_info']['vcs']}+{origin['url']}"
    except (KeyError, TypeError):
        return ""


def _is_project(folder: Path) -> bool:
    try:
        text = (folder / "pyproject.toml").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return f'name = "{DISTRIBUTION}"' in text and (folder / "constraints.txt").is_file()


def requirements(extra: str = "") -> Iterator[Requirement]:
    """What a3c-zoo needs, or what an extra adds to that, without markers."""
    from packaging.requirements import Requirement

    try:
        lines = metadata.requires(DISTRIBUTION) or ()
    except metadata.PackageNotFoundError:  # it runs in a checkout without having been installed
        return
    for requirement in map(Requirement, lines):
        is_always = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        is_wanted = requirement.marker is None or requirement.marker.evaluate({"extra": extra})
        if is_wanted and not (extra and is_always):
            requirement.marker = None
            yield requirement


def _named(wanted: Iterator[str] | list[str]) -> str:
    """The command that installs packages by their names, with tested versions where a checkout has the list."""
    place = find_checkout()
    if place:
        return " ".join([_pip_install(place), *map(shlex.quote, wanted)])
    return _installed(*wanted)


def _installed(*wanted: str) -> str:
    """The command that installs packages from an index. What uvx runs in, it makes anew for each set of packages."""
    if _is_of_uvx():
        return " ".join(["uvx", *(f"--with {shlex.quote(each)}" for each in wanted), DISTRIBUTION, "…"])
    return " ".join([f"{_pip()} install", *map(shlex.quote, wanted)])


def _is_of_uvx() -> bool:
    """Whether this environment is one that `uvx` made, which lies in uv's cache."""
    return any(part.startswith("archive-v") for part in Path(sys.prefix).parts)


def _pip_install(place: Checkout | None) -> str:
    """`pip install`, held to the versions of a checkout's list."""
    return f"{_pip()} install" + (f" -c {_shown(Path('constraints.txt'), place)}" if place else "")


def _pip() -> str:
    """pip for the interpreter that runs now, which need not be the first one on the path."""
    pip = shutil.which("pip")
    if pip and Path(pip).parent == Path(sys.executable).parent:
        return "pip"
    program = shlex.quote(_near(Path(sys.executable)))
    if find_spec("pip") is None and shutil.which("uv"):
        return f"VIRTUAL_ENV={shlex.quote(sys.prefix)} uv pip"
    return f"{program} -m pip"


def _shown(path: Path, place: Checkout | None) -> str:
    """A path in a checkout as it is typed in the current folder."""
    if place is None or place.folder == _here():
        return shlex.quote(f"./{path}" if len(path.parts) > 1 else str(path))
    return shlex.quote(_near(place.folder / path))


def _shown_project(place: Checkout, extra: str = "") -> str:
    """The project itself, with an extra: `'.[play]'`, or `-e '.[play]'` so that an editable installation stays one."""
    folder = "." if place.folder == _here() else str(place.folder)
    return ("-e " if place.is_editable else "") + shlex.quote(f"{folder}{extra}")


def _near(path: Path) -> str:
    """A path below the current folder without that folder's name."""
    here = _here()
    return os.path.relpath(path) if here is not None and path.is_relative_to(here) else str(path)


def _here() -> Path | None:
    """The current folder; None if it has been deleted."""
    with suppress(OSError):
        return Path.cwd()
    return None
