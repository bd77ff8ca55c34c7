"""Writes the version of `a3c_zoo/version.py` wherever else it stands: `python -m tests.versions`.

All distributions of this repository have one version and are released together. A plugin accepts the releases of
a3c-zoo that do not break it: those of the same minor version before 1.0, those of the same major version later.
`tests/test_packaging.py` fails when a file differs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from a3c_zoo.version import __version__, fitting_versions
from tests.wheels import PLUGINS, ROOT


def texts() -> Iterator[tuple[Path, str]]:
    """The files that have the version, each with the text that it should have."""
    fitting = fitting_versions(__version__)
    yield _with(ROOT / "README.md", (r"(?<=Status:\*\* version )[\d.]+(?=,)", __version__.rpartition(".")[0]))
    yield _with(ROOT / "docs/how-to/write-an-agent.md", (r'"a3c-zoo[<>=][^"]*"', f'"a3c-zoo{fitting}"'))
    yield _with(ROOT / "CITATION.cff", (r"^version: .+$", f"version: {__version__}"))
    extras = [(rf'"a3c-zoo-{name}[^"]+"', f'"a3c-zoo-{name}{fitting}"') for name in ("ray", "trained")]
    yield _with(ROOT / "pyproject.toml", *extras)
    yield _with(ROOT / "release/recipe.yaml", (r'^  version: ".+"$', f'  version: "{__version__}"'))
    page = ROOT / "docs/how-to/write-an-environment.md"  # it shows the file of a plugin
    for path in [page, *sorted(PLUGINS.glob("*/pyproject.toml"))]:
        own = (r'^version = ".+"$', f'version = "{__version__}"')
        core = (r'"a3c-zoo[<>=][^"]*"', f'"a3c-zoo{fitting}"')
        yield _with(path, own, core)


def _with(path: Path, *changes: tuple[str, str]) -> tuple[Path, str]:
    """A file's text after changes, each a pattern that must be there once, and what replaces it."""
    text = path.read_text(encoding="utf-8")
    for pattern, new in changes:
        text, count = re.subn(pattern, new, text, flags=re.MULTILINE)
        assert count == 1, f"{path}: {pattern} is there {count} times"
    return path, text


if __name__ == "__main__":
    for path, text in texts():
        path.write_text(text, encoding="utf-8")
