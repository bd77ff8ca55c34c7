"""The best policy of a run without an evaluator: the parameters behind its best 100 training episodes.

The mean of the best 100 of many is greater than what the policy reaches in other episodes: the pick is optimistic.
What follows from it, and which parameters a run recommends, is in `recommended.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from statistics import pstdev
from typing import Any, Final

from a3c_zoo.errors import DivergedError
from a3c_zoo.records import Snapshot
from a3c_zoo.runs.progress import FEWEST_EPISODES, RunProgress
from a3c_zoo.store.checkpoints import PolicyState, ResourceState, RunState, read_state, write_checkpoint
from a3c_zoo.store.directory import RunDirectory

#: Parameters are copied at most once in so many episodes: a run that learns fast has a new best at almost every report.
EVERY_EPISODES: Final = 10


class BestPolicy:
    """Copies the parameters when the mean return of the last 100 training episodes is greater than ever before.

    Only episodes decide, and no clock. So a serial run keeps the same policy each time. A copy waits in
    memory, and is written before the next checkpoint: the file is never older than the newest checkpoint.

    Attributes:
        kept: what `checkpoints/best.pt` says about its policy; None if there is none. It may be of an earlier session.
    """

    def __init__(self, directory: RunDirectory, progress: RunProgress) -> None:
        self._file = directory.best_file
        self._progress = progress
        self.kept: PolicyState | None = None
        if self._file.exists():
            self.kept = read_state(self._file, PolicyState)
        self._copy: tuple[dict[str, Any], PolicyState] | None = None
        self._next_look = FEWEST_EPISODES
        if self.kept is not None and self.kept.run is not None:
            self._next_look = self.kept.run.episodes + EVERY_EPISODES

    def look(self, snapshot: Snapshot, run_state: Callable[[], RunState]) -> None:
        """Copies the parameters if they are the best so far. Called after each report, while workers work.

        Args:
            run_state: returns where the run stands. Its resources are filled in when the copy is written.
        """
        progress = self._progress
        mean = self._progress.mean_return
        if mean is None or progress.episodes < self._next_look:
            return
        best = self._copy[1] if self._copy else self.kept
        if best is not None and best.best_return is not None and mean <= best.best_return:
            return
        if snapshot.acting:
            agent = snapshot.acting()
        else:
            agent = copied(snapshot.state())
        run = run_state()
        returns = progress.returns
        state = PolicyState(
            run.steps,
            run.seconds,
            run=run,
            training_return=mean,
            return_episodes=len(returns),
            return_deviation=pstdev(returns),
        )
        self._copy = agent, state
        self._next_look = progress.episodes + EVERY_EPISODES

    def write(self, resources: ResourceState) -> None:
        """Writes a copy that waits. The rows that it counts are on the disk.

        Raises:
            RunDirectoryError: the disk refuses it. A later call tries again.
        """
        if self._copy is None:
            return
        agent, state = self._copy
        assert state.run is not None
        with suppress(DivergedError):  # a copy with numbers that are not finite is no policy
            write_checkpoint(self._file, agent, replace(state, run=replace(state.run, resources=resources)))
            self.kept = state
        self._copy = None


def copied(value: Any) -> Any:
    """A copy of an agent's state, with copies of its tensors."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: copied(element) for key, element in value.items()}
    if isinstance(value, list | tuple):
        return [copied(element) for element in value]
    return value
