"""Progress in a notebook: one line below the cell, which changes. Scripts and terminals get none."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from a3c_zoo.config import RunConfig
from a3c_zoo.errors import printable
from a3c_zoo.records import Progress, score
from a3c_zoo.runs.setup import Observer

#: Time between two changes of the line, in seconds.
CHANGE_EVERY_S = 0.5


class NotebookLine:
    """A line that changes in place, at most every `CHANGE_EVERY_S`; outside of a Jupyter kernel it does nothing."""

    def __init__(self) -> None:
        ipython: Any = sys.modules.get("IPython")
        is_notebook = getattr(ipython and ipython.get_ipython(), "kernel", None) is not None
        self._display: Any = import_module("IPython.display").display if is_notebook else None
        self._handle: Any = None
        self._text, self._next_s = "", 0.0

    def show(self, text: str, at_once: bool = False) -> None:
        """Replaces the text of the line."""
        self._text = text
        if self._display is None or (time.monotonic() < self._next_s and not at_once):
            return
        self._next_s, content = time.monotonic() + CHANGE_EVERY_S, {"text/plain": printable(text)}
        if self._handle is None:
            self._handle = self._display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)

    def __enter__(self) -> NotebookLine:
        return self

    def __exit__(self, *error: object) -> None:
        if self._text:
            self.show(self._text, at_once=True)


class NotebookObserver(Observer):
    """Shows the progress of a run."""

    def __init__(self, line: NotebookLine) -> None:
        self._line, self._title, self._path = line, "", Path()

    def starting(self, title: str, target: float | None, run: RunConfig, path: Path) -> None:
        self._title, self._path = title, path
        self._line.show(f"{title} → {path}")

    def progress(self, progress: Progress) -> None:
        mean = "-" if progress.mean_return_100 is None else score(progress.mean_return_100)
        counts = f"{progress.steps:,} steps, {progress.episodes:,} episodes, return {mean}"
        self._line.show(f"{self._title}: {counts}, {progress.training_s:.1f} s → {self._path}")

    def message(self, text: str) -> None:
        self._line.show(f"{self._title}: {text}")


@contextmanager
def watched(observer: Observer | None) -> Iterator[Observer]:
    """The observer that was given; else one that shows the progress in a notebook, and nothing elsewhere."""
    with NotebookLine() as line:
        yield observer or NotebookObserver(line)
