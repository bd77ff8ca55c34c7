"""The only writer of a run's figures: monitor.csv and TensorBoard events."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from a3c_zoo.errors import RunDirectoryError
from a3c_zoo.runs.directory import disk_errors

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

#: Episodes in a mean return.
WINDOW = 100
#: Importing TensorBoard takes 0.2 s of a core, more than a tenth of a short run: the first events wait in memory.
TENSORBOARD_FLUSH_S = 10.0


class Monitor:
    """monitor.csv in stable-baselines3's format, plus the columns `step` (of the run) and `worker`.

    Args:
        path: the file. resume_at: byte offset to go on from; what lies behind it belongs to training that is done
            again after a resume.
    """

    def __init__(self, path: Path, env_name: str, resume_at: int | None = None) -> None:
        self._path = path
        with disk_errors(path, "write"):
            if resume_at is None:
                self._file = path.open("x", encoding="utf-8", newline="")
                self._file.write(f"#{json.dumps({'t_start': time.time(), 'env_id': env_name})}\nr,l,t,step,worker\n")
                self._file.flush()
            else:
                if not path.is_file() or path.stat().st_size < resume_at:
                    raise RunDirectoryError(f"{path} is shorter than its checkpoint says; it cannot be continued")
                self._file = path.open("r+", encoding="utf-8", newline="")
                self._file.truncate(resume_at)
                self._file.seek(resume_at)

    def write(self, rows: Sequence[tuple[float, int, float, int, int]]) -> None:
        """Appends (return, length, training seconds, step, worker) rows."""
        with disk_errors(self._path, "write"):
            self._file.write("".join(f"{round(r, 6)},{n},{t:.6f},{step},{worker}\n" for r, n, t, step, worker in rows))
            self._file.flush()

    @property
    def position(self) -> int:
        """Bytes written so far."""
        return self._file.tell()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


class TensorBoard:
    """Scalars on the axis of agent steps.

    Args:
        folder: where event files go. purge_step: on a resume, events from this step on are void.
    """

    def __init__(self, folder: Path, purge_step: int | None = None) -> None:
        self._folder, self._purge_step = folder, purge_step
        self._waiting: list[tuple[str, float, int, float]] = []
        self._writer: SummaryWriter | None = None
        self._next_flush_s = time.monotonic() + TENSORBOARD_FLUSH_S

    def write(self, scalars: dict[str, float], step: int) -> None:
        """Adds one point to each curve."""
        now = time.time()
        self._waiting += [(name, value, step, now) for name, value in scalars.items()]
        if time.monotonic() >= self._next_flush_s:
            self.flush()

    def flush(self) -> None:
        """Writes what waits to disk."""
        with disk_errors(self._folder, "write"):
            if self._writer is None:
                from torch.utils.tensorboard import SummaryWriter

                self._writer = SummaryWriter(str(self._folder), purge_step=self._purge_step)
            for name, value, step, wall_time_s in self._waiting:
                self._writer.add_scalar(name, value, step, wall_time_s)
            self._waiting.clear()
            self._writer.flush()
        self._next_flush_s = time.monotonic() + TENSORBOARD_FLUSH_S

    def close(self) -> None:
        """Writes what waits, and closes."""
        self.flush()
        if self._writer is not None:
            with disk_errors(self._folder, "write"):
                self._writer.close()


class Window:
    """The last 100 episodes, in the order in which they ended."""

    def __init__(self) -> None:
        self.returns: deque[float] = deque(maxlen=WINDOW)
        self.lengths: deque[int] = deque(maxlen=WINDOW)

    def add(self, episode_return: float, length: int) -> None:
        """Takes in one more episode."""
        self.returns.append(episode_return)
        self.lengths.append(length)

    @property
    def is_full(self) -> bool:
        """Whether it covers 100 episodes."""
        return len(self.returns) == WINDOW

    @property
    def mean_return(self) -> float | None:
        """Mean return, None while empty."""
        return sum(self.returns) / len(self.returns) if self.returns else None

    @property
    def mean_length(self) -> float | None:
        """Mean length in steps, None while empty."""
        return sum(self.lengths) / len(self.lengths) if self.lengths else None

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"returns": list(self.returns), "lengths": list(self.lengths)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """From `state_dict`."""
        self.returns.extend(state["returns"])
        self.lengths.extend(state["lengths"])
