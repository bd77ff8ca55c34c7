"""Commands that install what is missing. They work where the user is: beside a checkout, or with an installed wheel.

No package index has to have a3c-zoo. In a checkout, an extra is installed from its folder. Elsewhere the packages that
the extra brings are named one by one, as the installed metadata lists them.
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
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from packaging.requirements import Requirement

DISTRIBUTION: Final = "a3c-zoo"


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
    needed, place = [*_requirements(extra)], find_checkout()
    own = [each.name for each in needed if place and (place.folder / "plugins" / each.name).is_dir()]
    if own:
        return " ".join([_pip_install(place), *(_shown(Path("plugins") / name, place) for name in own)])
    if place:
        return f"{_pip_install(place)} {_shown_project(place, f'[{extra}]')}"
    return _named(map(str, needed)) if needed else _named([f"{DISTRIBUTION}[{extra}]"])


def install_needed(*packages: str) -> str:
    """The command that installs packages that a3c-zoo itself needs, in versions that fit; all of them by default."""
    place = find_checkout()
    if not packages and place:
        return f"{_pip_install(place)} {_shown_project(place)}"
    needed = {each.name: str(each) for each in _requirements()}
    return _named(needed.get(name, name) for name in packages or needed)


def install_plugin(distribution: str, version: str = "") -> str:
    """The command that installs a plugin. One of this project is in the checkout. version: the one that is wanted."""
    place = find_checkout()
    if place and (place.folder / "plugins" / distribution).is_dir():
        return f"{_pip_install(place)} {_shown(Path('plugins') / distribution, place)}"
    return f"{_pip()} install {distribution}{f'=={version}' if version else ''}"


def upgrade(*others: str) -> str:
    """The command that gets a newer a3c-zoo, and newer versions of other distributions."""
    place = find_checkout()
    if place is None:
        return " ".join([_pip(), "install --upgrade", DISTRIBUTION, *others])
    pull = "git pull" if place.folder == _here() else f"git -C {shlex.quote(str(place.folder))} pull"
    further = f" && {_pip()} install --upgrade {' '.join(others)}" if others else ""
    return f"{pull} && {install_needed()}{further}"


def find_checkout() -> Checkout | None:
    """The checkout that a3c-zoo runs in, or was installed from if that is still there; None without one."""
    here = Path(__file__).parents[1]
    if _is_project(here):
        return Checkout(here, is_editable=True)
    try:
        text = metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
        origin = json.loads(text) if text else {}
        url = urlsplit(origin["url"])
        folder = Path(unquote(url.path))
        if url.scheme != "file" or not _is_project(folder):
            return None
        return Checkout(folder, bool(origin["dir_info"].get("editable")))
    except (metadata.PackageNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _is_project(folder: Path) -> bool:
    try:
        text = (folder / "pyproject.toml").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return f'name = "{DISTRIBUTION}"' in text and (folder / "constraints.txt").is_file()


def _requirements(extra: str = "") -> Iterator[Requirement]:
    """What a3c-zoo needs, or what an extra adds to that, without markers."""
    from packaging.requirements import Requirement

    try:
        lines = metadata.requires(DISTRIBUTION) or ()
    except metadata.PackageNotFoundError:  # it runs in a checkout without having been installed
        return
    for each in map(Requirement, lines):
        is_always = each.marker is None or each.marker.evaluate({"extra": ""})
        is_wanted = each.marker is None or each.marker.evaluate({"extra": extra})
        if is_wanted and not (extra and is_always):
            each.marker = None
            yield each


def _named(requirements: Iterator[str] | list[str]) -> str:
    """The command that installs packages by their names, with tested versions where a checkout has the list."""
    return " ".join([_pip_install(find_checkout()), *map(shlex.quote, requirements)])


def _pip_install(place: Checkout | None) -> str:
    """`pip install`, held to the versions of a checkout's list."""
    return f"{_pip()} install" + (f" -c {_shown(Path('constraints.txt'), place)}" if place else "")


def _pip() -> str:
    """pip for the interpreter that runs now, which need not be the first one on the path."""
    found = shutil.which("pip")
    if found and Path(found).parent == Path(sys.executable).parent:
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
