"""Publishes a run's figures: monitor.csv, TensorBoard, the observer, and the hooks of plugins."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from a3c_zoo.records import Episode, EvaluatorResult, Progress, RunInfo
from a3c_zoo.runs.recorder import Monitor, TensorBoard

if TYPE_CHECKING:
    from a3c_zoo.runs.checkpoints import RunState
    from a3c_zoo.runs.directory import RunDirectory
    from a3c_zoo.runs.train import RunSetup, Watch

METRICS_EVERY_S = 0.5


class Publisher:
    """Writes the files of one session, and tells those who listen.

    Args:
        saved: the checkpoint to go on from; what the files hold of later training is cut off.
    """

    def __init__(self, directory: RunDirectory, setup: RunSetup, watch: Watch, saved: RunState | None) -> None:
        config = setup.config
        self._watch, self.hooks = watch, setup.registry.hooks
        self.run = RunInfo(directory.path, config.env_name, config.agent_name, config)
        self._monitor = Monitor(
            directory.path / "monitor.csv", config.env_name, saved.monitor_position if saved else None
        )
        self._tensorboard = TensorBoard(directory.path / "tensorboard", saved.steps + 1 if saved else None)
        self._published = (saved.steps, saved.episodes) if saved else (0, 0)
        self._next_s = 0.0

    def start(self) -> None:
        """Training starts now."""
        self._monitor.start()

    def write(self, episodes: Sequence[Episode]) -> None:
        """Writes finished episodes to monitor.csv, in the order in which they ended."""
        if episodes:
            clock = self._watch.clock
            self._monitor.write(
                [(e.episode_return, e.length, clock.of("training", e.time_s), e.step, e.worker) for e in episodes]
            )

    def announce(self, episodes: Sequence[Episode]) -> None:
        """Tells the plugins of finished episodes."""
        if self.hooks.wants_episodes:
            for episode in episodes:
                self.hooks.episode(self.run, episode)

    def evaluated(self, result: EvaluatorResult) -> None:
        """Records the means of the evaluator beside training."""
        means = {"greedy": result.greedy_return, "sampled": result.sampled_return}
        self._tensorboard.write({f"eval/return_mean_{mode}": mean for mode, mean in means.items()}, result.step)

    def metrics(self, progress: Progress, force: bool) -> str | None:
        """Shows where the run stands, and records it twice a second. Returns why a plugin wants the run to end.

        Args:
            force: record it now, if there is anything new.
        """
        self._watch.observer.progress(progress)
        now, reached = time.monotonic(), (progress.steps, progress.episodes)  # each may rise without the other
        if reached == self._published or (not force and now < self._next_s):
            return None
        self._next_s, self._published = now + METRICS_EVERY_S, reached
        scalars = {"speed/steps_per_s": progress.steps_per_s}
        if progress.mean_return_100 is not None and progress.mean_length_100 is not None:
            scalars["episode/return_mean_100"] = progress.mean_return_100
            scalars["episode/length_mean_100"] = progress.mean_length_100
        self._tensorboard.write(scalars | {f"train/{k}": v for k, v in progress.metrics.items()}, progress.steps)
        self.hooks.metrics(self.run, progress)
        return self.hooks.should_stop(self.run, progress)

    def sync(self) -> int:
        """Brings all rows to the disk itself, before a checkpoint; returns the length of monitor.csv in bytes."""
        self._tensorboard.flush()
        self._monitor.sync()
        return self._monitor.position

    def close(self) -> None:
        """Closes the files."""
        with ExitStack() as stack:
            stack.callback(self._monitor.close)
            stack.callback(self._tensorboard.close)
