"""One a3c-zoo run as one wandb run."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import wandb
from a3c_zoo import ZooError, hookimpl
from a3c_zoo.records import Outcome, Progress, RunInfo

from a3c_zoo_wandb.config import WandbConfig
from a3c_zoo_wandb.points import final_figures, point


class WandbLogger:
    """The run hooks of one session. All curves are drawn over agent steps.

    Raises:
        ZooError: runs are to be sent, and wandb knows no API key.
    """

    def __init__(self, config: WandbConfig) -> None:
        self._is_online = (config.mode or wandb.setup().settings.mode) in ("online", "shared", "run")
        # Without a key, wandb would ask on the terminal when the run begins.
        if self._is_online and not wandb.login(prompt=False, verify=False):
            raise ZooError("wandb knows no API key: run `wandb login`, or give -o plugins.wandb.mode=offline")
        self._config = config
        self._run: Any = None
        self._newest: Progress | None = None
        self._next_s = 0.0

    @hookimpl
    def zoo_run_start(self, run: RunInfo) -> None:
        """Begins a wandb run. A run that is resumed goes on with its own."""
        folder = run.path / "wandb"
        if folder.is_symlink():
            raise ZooError(f"{folder} is a link, and wandb would write where it leads; delete it")
        known = last_id(folder)
        self._run = wandb.init(
            project=self._config.project,
            entity=self._config.entity,
            group=self._config.group,
            tags=self._config.tags,
            mode=self._config.mode,
            name=run.path.name,
            id=known,
            resume="allow" if known and self._is_online else None,
            dir=run.path,
            config=run.config.to_dict(),
            settings=wandb.Settings(silent=True, console="off"),
        )
        self._run.define_metric("*", step_metric="steps")

    @hookimpl
    def zoo_metrics(self, progress: Progress) -> None:
        """Sends a point of each curve, at most one in `every_s` seconds."""
        self._newest = progress
        if self._run is not None and time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + self._config.every_s
            self._run.log(point(progress))

    @hookimpl
    def zoo_run_end(self, outcome: Outcome) -> None:
        """Sends the last point and how the run ended, and waits until wandb has taken everything in."""
        if self._run is None:
            return
        if self._newest is not None:
            self._run.log(point(self._newest))
        self._run.summary.update(final_figures(outcome))
        self._run.finish(exit_code=int(outcome.reason == "error"))


def last_id(folder: Path) -> str | None:
    """The id of the newest wandb run in a folder, None without one. wandb calls its folders `run-DATE_TIME-ID`."""
    ids = sorted(path.name.removeprefix("offline-").split("-", 2)[1:] for path in folder.glob("*run-*-*"))
    return ids[-1][1] if ids else None
