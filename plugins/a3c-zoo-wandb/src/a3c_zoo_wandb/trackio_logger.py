"""One a3c-zoo run as one run of Trackio, whose functions are called as wandb's."""

from __future__ import annotations

import io
import time
from contextlib import redirect_stdout
from typing import Any

from a3c_zoo import ZooError, hookimpl
from a3c_zoo.records import Outcome, Progress, RunInfo

from a3c_zoo_wandb.config import TrackioConfig
from a3c_zoo_wandb.points import final_figures, keep_id, known_id, point

#: The file of the run directory that says that Trackio has the run: its name there.
ID_FILE = "trackio-run-name"


class TrackioLogger:
    """The run hooks of one session. All curves are drawn over agent steps.

    Raises:
        ZooError: Trackio is not installed.
    """

    def __init__(self, config: TrackioConfig) -> None:
        try:
            import trackio
        except ImportError as error:
            raise ZooError(f"Trackio is not installed ({error}): pip install trackio") from error
        self._trackio: Any = trackio
        self._config = config
        self._run: Any = None
        self._newest: Progress | None = None
        self._next_s = 0.0

    @hookimpl
    def zoo_run_start(self, run: RunInfo) -> None:
        """Begins a run of Trackio. A run that is resumed goes on with its own."""
        file = run.path / ID_FILE
        known = known_id(file)
        with redirect_stdout(io.StringIO()):  # it would print into the panel
            self._run = self._trackio.init(
                project=self._config.project,
                name=known or run.path.name,
                group=self._config.group,
                space_id=self._config.space_id,
                config=run.config.to_dict(),
                resume="allow" if known else "never",
                embed=False,
                auto_log_cpu=False,
                auto_log_gpu=False,
            )
        keep_id(file, self._run.name)

    @hookimpl
    def zoo_metrics(self, progress: Progress) -> None:
        """Sends a point of each curve, at most one in `every_s` seconds."""
        self._newest = progress
        if self._run is not None and time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + self._config.every_s
            self._run.log(point(progress), step=progress.steps)

    @hookimpl
    def zoo_run_end(self, outcome: Outcome) -> None:
        """Sends the last point and how the run ended, and waits until Trackio has taken everything in."""
        if self._run is None:
            return
        if self._newest is not None:
            self._run.log(point(self._newest), step=self._newest.steps)
        figures = {f"final/{name}": value for name, value in final_figures(outcome).items() if value is not None}
        self._run.log(figures, step=outcome.steps)
        with redirect_stdout(io.StringIO()):
            self._trackio.finish()
