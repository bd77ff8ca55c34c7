"""The films of a report: an episode of each method's last checkpoint, small enough to lie in the page."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING, Final

from a3c_zoo.errors import ZooError, first_line
from a3c_zoo.figures.measures import MeasuredRun
from a3c_zoo.runs.evaluate_checkpoints import task_of
from a3c_zoo.runs.signals import stop_on_signals
from a3c_zoo.store.run import Run
from a3c_zoo.words import return_text

if TYPE_CHECKING:
    from a3c_zoo.runs.evaluation import EvaluationTask
    from a3c_zoo.runs.evaluation_process import EvaluationProcess

#: A report has at most so many films, and none is larger.
MOST_FILMS: Final = 12
MOST_BYTES: Final = 500_000
#: How long a film may take, and all of them together, in seconds. A film that is cut off shows the beginning.
LIMIT_S, ALL_S = 30.0, 90.0
#: How often the parent looks for the end of an episode, in seconds.
LOOK_EVERY_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Film:
    """A film in a report.

    Attributes:
        data: H.264 in MP4. picture: one of its pictures, as JPEG.
    """

    caption: str
    data: bytes
    picture: bytes


@dataclass(frozen=True, slots=True)
class Films:
    """The films of a report, and environment with method → why it has none."""

    made: tuple[Film, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)


def films_of(runs: Sequence[MeasuredRun]) -> Films:
    """Films the last checkpoint of each method, of its run in the middle. It never fails: it says what is missing.

    The runs must be those of a plan, trained now or used again: their configurations, which name what is imported, are
    the planned ones.
    """
    made: list[Film] = []
    missing: dict[str, str] = {}
    end_s = time.monotonic() + ALL_S
    with (
        stop_on_signals() as stop,
        tempfile.TemporaryDirectory(prefix="a3c-zoo-films-") as folder,
        closing(_Player(Path(folder))) as player,
    ):
        stop.allow_interrupts()
        for subject, run in chosen_runs(runs).items():
            try:
                if len(made) == MOST_FILMS:
                    raise ZooError(f"a report has {MOST_FILMS} films at most")
                if time.monotonic() > end_s:
                    raise ZooError(f"the others took {ALL_S:g} s already")
                made.append(player.film(subject, run))
            except Exception as error:
                # Also an error of a stranger's environment: a report is worth more than its films.
                missing[subject] = first_line(error).removeprefix("EvaluationError: ")
    return Films(tuple(made), missing)


def chosen_runs(runs: Sequence[MeasuredRun]) -> dict[str, MeasuredRun]:
    """Environment and method → the run whose final return is in the middle, the lower one of two."""
    groups: dict[str, list[MeasuredRun]] = {}
    for run in runs:
        groups.setdefault(f"{run.measures.method} on {run.measures.env}", []).append(run)
    return {subject: _middle(its_runs) for subject, its_runs in groups.items()}


def _middle(runs: Sequence[MeasuredRun]) -> MeasuredRun:
    known = [
        (run.measures.final_return, place)
        for place, run in enumerate(runs)
        if run.measures.final_return is not None
    ]
    return runs[sorted(known)[(len(known) - 1) // 2][1] if known else 0]


class _Player:
    """Films in a process of its own, one run after the other."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "film.mp4"
        self._process: EvaluationProcess | None = None

    def film(self, subject: str, run: MeasuredRun) -> Film:
        """Raises ZooError, EvaluationError, or what a stranger's plugin raises."""
        # This imports NumPy and more, only for films.
        from a3c_zoo.runs.videos import REPORT_FILM, ffmpeg_program, picture_of

        ffmpeg_program("it")
        task = task_of(Run(run.record.path, is_trusted=True), episodes=1)
        self._file.unlink(missing_ok=True)
        told = self._play(replace(task, modes=("sampled",), film=self._file, film_limits=REPORT_FILM))
        if not self._file.exists() or self._file.stat().st_size > MOST_BYTES:
            raise ZooError(
                f"its film is larger than {MOST_BYTES:,} bytes" if self._file.exists() else "it took too long"
            )
        return Film(
            f"{subject}: run {run.measures.run}, {told}", self._file.read_bytes(), picture_of(self._file)
        )

    def _play(self, task: EvaluationTask) -> str:
        """Plays an episode; returns what became of it, in words."""
        from a3c_zoo.runs.evaluation_process import EvaluationProcess

        self._process = self._process or EvaluationProcess("a3c-zoo film", is_silent=True)
        self._process.begin(task)
        end_s = time.monotonic() + LIMIT_S
        while (played := self._process.result()) is None:
            wait([self._process.connection], LOOK_EVERY_S)
            if time.monotonic() > end_s:
                self._process.stop()  # the next film starts it again
                return "the beginning of an episode"
        if played.film_fault is not None:
            raise ZooError(played.film_fault)
        (episode,) = played.by_mode["sampled"].episodes
        return f"an episode with a return of {return_text(episode.episode_return)}"

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.stop()
