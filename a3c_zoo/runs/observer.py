"""Who watches a run: the terminal panel, a notebook, nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    from a3c_zoo.config import RunConfig
    from a3c_zoo.records import Progress


class Observer(Protocol):
    """Is told how a run goes. A subclass may leave methods out."""

    def starting(self, title: str, target: float | None, run: RunConfig, path: Path) -> None:
        """Before the workers start. target: mean return at which the run is checked, None if it never is."""
        return

    def progress(self, progress: Progress) -> None:
        """Called several times a second."""
        return

    def message(self, text: str) -> None:
        """Something worth a line."""
        return


class SilentObserver(Observer):
    """Watches a run and says nothing."""
