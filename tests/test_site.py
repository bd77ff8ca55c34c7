"""The documentation site: it is built without a warning, answers questions, works from the disk, has no broken link.

A browser opens its pages as files: the search finds there what it finds with a server, and the button copies commands.
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final
from urllib.parse import quote_plus

import pytest

import a3c_zoo
import a3c_zoo.agents
import a3c_zoo.config
import a3c_zoo.engines
import a3c_zoo.learning
import a3c_zoo.testing
from tests.shared import made_once
from tests.site_search import SiteSearch
from tests.test_compare_report import CHROMIUM, browse
from tests.waits import LIMIT_S
from tests.wheels import ROOT

#: What a newcomer searches for → the page that answers it.
QUESTIONS: Final = {
    "install": "installation.html",
    "train my own environment": "tutorial.html",
    "continue a run": "faq.html",
    "what does solved mean": "faq.html",
    "it does not learn": "how-to/when-it-does-not-learn.html",
    "many cores": "faq.html",
    "compare with stable-baselines3": "how-to/compare-methods.html",
    "watch the agent play": "faq.html",
    "change a hyperparameter": "faq.html",
    "write a plugin": "how-to/begin-a-plugin.html",
    "rl zoo": "from-rl-zoo.html",
    "gpu": "faq.html",
}
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium (Debian: apt-get install chromium)")


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


def copied_source(folder: Path) -> Path:
    """A folder with the pages, in which the site can be built, and pages changed."""
    shutil.copytree(ROOT / "docs", folder / "docs")
    for name in ("mkdocs.yml", "docs_links.py"):
        shutil.copy(ROOT / name, folder)
    for path in ROOT.iterdir():  # files that pages link to
        if path.name not in ("docs", "mkdocs.yml", "docs_links.py"):
            (folder / path.name).symlink_to(path)
    return folder


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "source").mkdir()
    return copied_source(tmp_path / "source")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built once."""

    def make(folder: Path) -> None:
        (folder / "source").mkdir()
        built = build(copied_source(folder / "source"), folder / "site")
        assert built.returncode == 0, built.stderr

    return made_once(tmp_path_factory, "site", make) / "site"


def names_without_a_docstring(page: str) -> list[str]:
    """The public names that mkdocstrings has not put on the page, or without the first paragraph of their docstring."""
    modules = (a3c_zoo, a3c_zoo.agents, a3c_zoo.config, a3c_zoo.engines, a3c_zoo.learning, a3c_zoo.testing)
    names = {f"{module.__name__}.{name}" for module in modules for name in module.__all__} - {"a3c_zoo.__version__"}
    text = r'<div class="doc doc-contents ">\s*(?:<p class="doc doc-class-bases">.*?</p>\s*)?<p>'
    sections = re.findall(r'<h3 id="([^"]+)"(.*?)(?=<h3 |\Z)', page, re.S)
    return sorted(names - {name for name, section in sections if re.search(text, section, re.S)})


def test_the_site(site: Path) -> None:
    pages = {path.relative_to(site).as_posix(): path.read_text() for path in site.rglob("*.html")}
    assert {"index.html", "reference/commands.html", "explanation/reliability.html"} <= pages.keys()
    assert "<code>--hyperparams SET|FILE</code>" in pages["reference/commands.html"]
    assert names_without_a_docstring(pages["reference/docstrings.html"]) == []
    loaded = re.compile(r'<(?:script|img|iframe)[^>]* src="https?:|<link[^>]* rel="stylesheet" href="https?:')
    assert [name for name, page in pages.items() if loaded.search(page)] == []
    assert '<script src="iframe-worker.js">' in pages["index.html"]  # and the index as a script: for the disk
    assert (site / "search/search_index.js").read_text().startswith("var __index = {")
    entries = json.loads((site / "search/search_index.json").read_text())["docs"]
    assert any("env.wrappers" in entry["text"] for entry in entries)
    named = re.findall(r"\]\(([^)]+\.md)\)", (site / "llms.txt").read_text())
    assert "getting-started.md" in named
    assert [name for name in named if not (site / name).is_file()] == []


def test_the_navigation_has_titles(site: Path) -> None:
    """No name of a file, no "Pages" and no "Index"."""
    page = (site / "index.html").read_text()
    labels = re.findall(r'<span class="md-ellipsis">\s*(.*?)\s*</span>', page, re.S)
    assert len(labels) > 40
    assert [label for label in labels if label.endswith((".md", ".html")) or label in ("Pages", "Index")] == []


def test_a_link_shows_the_title_of_its_page(site: Path) -> None:
    pages = {path.relative_to(site).as_posix(): path.read_text() for path in site.rglob("*.html")}
    named = re.compile(r'<a href="(?!http)[^"]*">([^<]+\.md)</a>')
    assert {name: named.findall(page) for name, page in pages.items() if named.search(page)} == {}
    wanted = '<a href="reference/run-directory.html">Run directory and checkpoints</a> lists'
    assert wanted in pages["getting-started.html"]


def test_every_answer_is_a_click_from_the_front_page(site: Path) -> None:
    links = re.findall(r'<a href="([^"#]+)"', (site / "index.html").read_text())
    assert set(QUESTIONS.values()) <= set(links)


def test_the_front_page_has_the_film_the_commands_and_four_cards(site: Path) -> None:
    page = (site / "index.html").read_text()
    assert 'src="terminal.gif"' in page
    cards = re.search(r'<div class="grid cards">(.*?)</div>', page, re.S)
    assert cards is not None
    links = re.findall(r'<strong><a href="([^"]+)">', cards[1])
    assert len(links) == 4
    assert all((site / link).is_file() for link in links)


@pytest.fixture(scope="module")
def search(site: Path) -> SiteSearch:
    return SiteSearch(site)


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_first_hit_answers(question: str, search: SiteSearch) -> None:
    found = search.pages(question)
    assert found[0] == QUESTIONS[question], found[:4]


@needs_chromium
@pytest.mark.parametrize("question", ["continue a run", "compare with stable-baselines3"])
def test_a_browser_finds_the_same_from_the_disk(question: str, site: Path, search: SiteSearch, tmp_path: Path) -> None:
    document, console, elsewhere = browse(site / "index.html", tmp_path, f"?q={quote_plus(question)}")
    hits = re.findall(r'<a href="([^"?#]+)[^"]*" class="md-search-result__link"', document)
    pages = list(dict.fromkeys(hit.removeprefix(f"{site.as_uri()}/") for hit in hits))
    assert pages[:2] == search.pages(question)[:2]  # further down, scores are too near to each other
    assert (console, elsewhere) == ([], set())


#: Copies every block of code with its own button, and leaves what reached the clipboard as an element of the page.
COPYING = """<script>
window.addEventListener("load", () => setTimeout(() => {
  document.execCommand = () => {
    const copied = document.createElement("pre");
    copied.className = "copied";
    copied.textContent = document.activeElement.value;
    document.body.append(copied);
    return true;
  };
  document.querySelectorAll("[data-md-type=copy]").forEach((button) => button.click());
}, 1000));
</script></body>"""


@needs_chromium
def test_the_button_copies_commands_alone(site: Path, tmp_path: Path) -> None:
    """Without prompts, comments and output. Code of Python is copied as it is."""
    page = site / "getting-started.html"
    changed = page.with_name("copying.html")
    changed.write_text(page.read_text().replace("</body>", COPYING))
    document, console, _ = browse(changed, tmp_path)
    changed.unlink()
    copied = [html.unescape(text) for text in re.findall(r'<pre class="copied">(.*?)</pre>', document, re.S)]
    lines = [line.rstrip() for text in copied for line in text.splitlines()]
    blocks = re.findall(r"^```console\n(.*?)^```$", (ROOT / "docs/getting-started.md").read_text(), re.S | re.M)
    typed = [re.split(r" +# ", line[2:])[0] for text in blocks for line in text.splitlines() if line.startswith("$ ")]
    assert "git clone ADDRESS a3c-zoo && cd a3c-zoo" in typed
    assert "a3c-zoo list runs" in lines
    assert [line for line in lines if line in typed] == typed
    assert not any(line.startswith("$") or "cartpole-a3c-s0" in line or line.startswith("run  ") for line in lines)
    assert '    outcome = a3c_zoo.train("cartpole", seed=1, time_limit_s=60)' in lines
    assert console == []


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
