"""docs/llms.txt: the pages of the documentation in a list for language models (llmstxt.org).

It is made from the navigation in mkdocs.yml and the first sentence of each page. `python -m tests.reference_pages`
writes it, and `tests/test_docs.py` fails when it differs.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Any

import yaml

from tests.wheels import ROOT

DOCS = ROOT / "docs"
FILE = DOCS / "llms.txt"
#: What begins a part of a page that is no paragraph.
_NO_PARAGRAPH = ("#", "|", "```", "<", "!", "-", "*", "    ", "---", ">", "$")
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


def llms_text() -> str:
    """What the file must be."""
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    parts = [f"# {site['site_name']}\n\n> {site['site_description']}\n"]
    loose = []
    for title, content in map(_title_and_content, site["nav"]):
        if isinstance(content, list):
            lines = "".join(_line(*_title_and_content(each)) for each in content)
            parts.append(f"## {title}\n\n{lines}")
        else:
            loose.append(_line(title, content))
    if loose:
        parts.append(f"## More\n\n{''.join(loose)}")
    return "\n".join(parts)


def _title_and_content(entry: Any) -> tuple[str, Any]:
    """An entry of the navigation: its title, and the path of its page or its own entries."""
    if isinstance(entry, str):
        return "", entry
    ((title, content),) = entry.items()
    return title, content


def _line(title: str, path: str) -> str:
    text = (DOCS / path).read_text(encoding="utf-8")
    heading = re.search(r"^# (.+)$", text, re.MULTILINE)
    assert title or heading, f"{path} has no title"
    name = title or (heading[1] if heading else "")
    return f"- [{name}]({posixpath.normpath(path)}): {first_sentence(text)}\n"


def first_sentence(page: str) -> str:
    """The first sentence of a page that stands in a paragraph, without links and emphasis."""
    for paragraph in _paragraphs(page):
        text = _LINK.sub(r"\1", " ".join(paragraph.split())).replace("**", "")
        return re.split(r"(?<=[.:!?])\s", text, maxsplit=1)[0].rstrip(":") or text
    return ""


def _paragraphs(page: str) -> Iterator[str]:
    is_code = False
    for part in page.split("\n\n"):
        was_code = is_code
        if part.count("```") % 2:
            is_code = not is_code
        if not was_code and part.strip() and not part.startswith(_NO_PARAGRAPH):
            yield part
