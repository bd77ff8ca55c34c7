"""The documentation site: it is built without a warning, loads nothing from elsewhere, and refuses a broken link."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import a3c_zoo
import a3c_zoo.agents
import a3c_zoo.config
import a3c_zoo.engines
import a3c_zoo.learning
import a3c_zoo.testing
from tests.waits import LIMIT_S
from tests.wheels import ROOT


def build(folder: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """Runs `mkdocs build --strict` in a folder with a copy of the pages."""
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)],
        cwd=folder,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    shutil.copytree(ROOT / "docs", folder / "docs")
    for name in ("mkdocs.yml", "docs_links.py"):
        shutil.copy(ROOT / name, folder)
    for path in ROOT.iterdir():  # files that pages link to
        if path.name not in ("docs", "mkdocs.yml", "docs_links.py"):
            (folder / path.name).symlink_to(path)
    return folder


def names_without_a_docstring(page: str) -> list[str]:
    """The public names that mkdocstrings has not put on the page, or without the first paragraph of their docstring."""
    modules = (a3c_zoo, a3c_zoo.agents, a3c_zoo.config, a3c_zoo.engines, a3c_zoo.learning, a3c_zoo.testing)
    names = {f"{module.__name__}.{name}" for module in modules for name in module.__all__} - {"a3c_zoo.__version__"}
    text = r'<div class="doc doc-contents ">\s*(?:<p class="doc doc-class-bases">.*?</p>\s*)?<p>'
    sections = re.findall(r'<h3 id="([^"]+)"(.*?)(?=<h3 |\Z)', page, re.S)
    return sorted(names - {name for name, section in sections if re.search(text, section, re.S)})


def test_the_site(source: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    built = build(source, site)
    assert built.returncode == 0, built.stderr
    pages = {path.relative_to(site).as_posix(): path.read_text() for path in site.rglob("*.html")}
    assert {"index.html", "reference/commands.html", "explanation/reliability.html"} <= pages.keys()
    assert "<code>--hyperparams SET|FILE</code>" in pages["reference/commands.html"]
    assert names_without_a_docstring(pages["reference/docstrings.html"]) == []
    loaded = re.compile(r'<(?:script|img|iframe)[^>]* src="https?:|<link[^>]* rel="stylesheet" href="https?:')
    assert [name for name, page in pages.items() if loaded.search(page)] == []
    entries = json.loads((site / "search/search_index.json").read_text())["docs"]
    assert any("env.wrappers" in entry["text"] for entry in entries)


@pytest.mark.slow
def test_a_link_out_of_the_pages_becomes_a_path(source: Path, tmp_path: Path) -> None:
    page = source / "docs/getting-started.md"
    page.write_text(
        page.read_text() + "\nSee [the plugin](../plugins/a3c-zoo-gridworld) and [Makefile](../Makefile).\n"
    )
    built = build(source, tmp_path / "site")
    assert built.returncode == 0, built.stderr
    text = (tmp_path / "site/getting-started.html").read_text()
    assert "See the plugin (<code>plugins/a3c-zoo-gridworld</code>) and <code>Makefile</code>." in text


@pytest.mark.slow
def test_a_broken_link_ends_the_build(source: Path, tmp_path: Path) -> None:
    page = source / "docs/getting-started.md"
    page.write_text(page.read_text() + "\n[gone](how-to/gone.md), [nowhere](benchmarks.md#nowhere), [no](../no.py)\n")
    built = build(source, tmp_path / "site")
    assert built.returncode == 1
    assert "'how-to/gone.md'" in built.stderr
    assert "#nowhere" in built.stderr
    assert "'../no.py', but there is no such file" in built.stderr
