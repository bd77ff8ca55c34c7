"""Searches the documentation site as its pages do in a browser, with the index that `mkdocs build` writes.

Material for MkDocs searches with lunr.js, and orders what it finds by rules of its own. lunr here is the same program
in Python; the rules are written anew. `tests/test_site.py` holds both against each other in a browser.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from lunr.builder import Builder
from lunr.index import Index
from lunr.pipeline import Pipeline
from lunr.stop_word_filter import WORDS as STOP_WORDS
from lunr.stop_word_filter import stop_word_filter


class SiteSearch:
    """The search of a site that was built into a folder."""

    def __init__(self, site: Path) -> None:
        content = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
        self.entries: dict[str, dict[str, Any]] = {entry["location"]: entry for entry in content["docs"]}
        assert content["config"]["pipeline"] == ["stopWordFilter"]
        self.separator = re.compile(content["config"]["separator"])
        self.index = self._built(content["config"]["fields"])

    def _built(self, fields: dict[str, dict[str, float]]) -> Index:
        builder = Builder()
        builder.b(0)
        builder.pipeline = Pipeline()
        builder.pipeline.add(stop_word_filter)
        builder.search_pipeline = Pipeline()
        builder.ref("location")
        for name, settings in fields.items():
            builder.field(name, boost=settings["boost"], extractor=self._words_of(name))
        for entry in self.entries.values():
            builder.add(entry, {"boost": entry.get("boost", 1)})
        return builder.build()

    def _words_of(self, field: str) -> Any:
        def extract(entry: dict[str, Any]) -> list[str]:
            text = re.sub(r"<[^>]*>", " ", entry.get(field, ""))
            return [word.lower() for word in self.separator.split(text) if word]

        return extract

    def pages(self, question: str) -> list[str]:
        """The pages that answer a question, best first: the best of a page's sections decides."""
        words = [word for word in self.separator.split(question.strip().lower()) if word]
        scores: dict[str, float] = {}
        for found in self.index.search(" ".join(f"{word}*" for word in words)):
            location = found["ref"]
            page, _, section = location.partition("#")
            hits = list(found["match_data"].metadata)
            known = {word: any(hit.startswith(word) for hit in hits) for word in words}
            counted = {word: is_there for word, is_there in known.items() if is_there or word not in STOP_WORDS}
            share = sum(counted.values()) / len(counted) + (not section)
            scores[page] = max(scores.get(page, 0.0), found["score"] * (1 + share**2))
        return sorted(scores, key=lambda page: -scores[page])
