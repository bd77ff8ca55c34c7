"""A hook of MkDocs: what GitHub shows in another way than Python-Markdown, how much a page counts in the search, and the
sources of pages beside them.

Links from a page to files of the repository that are not part of the site become plain paths. A link to a file that is
not there is a warning. GitHub needs a backslash before each `|` in a table, Python-Markdown shows it in code.
"""

from __future__ import annotations

import logging
import os
import posixpath
import re
import shutil
from typing import Any

LOG = logging.getLogger("mkdocs.hooks")  # `mkdocs build --strict` counts its warnings
#: `[text](target)` with a relative target, perhaps with an anchor.
LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)([^)#\s]+)(#[^)\s]*)?\)")
#: A row of a table, and a piece of code in it.
ROW, CODE = re.compile(r"^\|.*$", re.M), re.compile(r"`[^`]+`")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Called by MkDocs with the text of each page."""
    folder = posixpath.dirname(page.file.src_uri)
    boosts = config.extra["search_boost"]
    top = page.file.src_uri.partition("/")[0] + "/"
    if boost := boosts.get(page.file.src_uri, boosts.get(top)):
        page.meta["search"] = {"boost": boost}  # here and not at the head of the page, where GitHub would show it

    def plain(link: re.Match[str]) -> str:
        text, target = link[1], posixpath.normpath(posixpath.join(folder, link[2]))
        if not target.startswith("../"):
            return link[0]
        path = target.removeprefix("../")
        if not os.path.exists(os.path.join(os.path.dirname(config.docs_dir), path)):
            LOG.warning("Doc file '%s' contains a link '%s', but there is no such file.", page.file.src_uri, link[2])
        return f"`{path}`" if text.strip("`") in path else f"{text} (`{path}`)"

    def bare(row: re.Match[str]) -> str:
        return CODE.sub(lambda code: code[0].replace(r"\|", "|"), row[0])

    return ROW.sub(bare, LINK.sub(plain, markdown))


def on_page_content(html: str, *, page: Any, config: Any, **_: Any) -> str:
    """Called by MkDocs with each page: `llms.txt` names its source, which then lies beside it."""
    source = os.path.join(config.site_dir, page.file.src_uri)
    os.makedirs(os.path.dirname(source), exist_ok=True)
    shutil.copyfile(page.file.abs_src_path, source)
    return html
