"""The files of a run's figures: rows of monitor.csv and evaluations.csv, and TensorBoard events."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from a3c_zoo.errors import RunDirectoryError
from a3c_zoo.runs.directory import disk_errors

if TYPE_CHECKING:
    from tensorboard.summary.writer.record_writer import RecordWriter

#: Importing TensorBoard takes 0.2 s of a core, more than a tenth of a short run: the first events wait in memory.
TENSORBOARD_FLUSH_S = 10.0


class RowFile:
    """A file that grows by whole rows.

    Args:
        path: the file. resume_at: byte offset to go on from. Rows after it are cut off: a resumed run trains again.
    """

    def __init__(self, path: Path, resume_at: int | None = None) -> None:
        self._path = path
        #: Bytes written so far, whole rows only.
        self.position = resume_at or 0
        with disk_errors(path, "write"):
            if not resume_at:
                self._file = path.open("xb" if resume_at is None else "wb", buffering=0)
            else:
                if not path.is_file() or path.stat().st_size < resume_at:
                    raise RunDirectoryError(f"{path} is shorter than its checkpoint says; it cannot be continued")
                self._file = path.open("r+b", buffering=0)
                self._file.truncate(resume_at)
                self._file.seek(resume_at)

    def append(self, text: str) -> None:
        """Adds whole rows: all of them, or none if that fails."""
        data = memoryview(text.encode())
        with disk_errors(self._path, "write"):
            try:
                while data:  # a disk that fills up takes the first part, and refuses the next
                    data = data[self._file.write(data) :]
            except BaseException:
                self._file.truncate(self.position)
                self._file.seek(self.position)
                raise
        self.position = self._file.tell()

    def sync(self) -> None:
        """Brings the rows to the disk itself. A checkpoint that names their position must not outlive them."""
        with disk_errors(self._path, "write"):
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Closes the file; an empty one is deleted."""
        self._file.close()
        if self.position == 0:
            self._path.unlink(missing_ok=True)


class Monitor(RowFile):
    """monitor.csv in stable-baselines3's format, plus the columns `step` (of the run) and `worker`."""

    def __init__(self, path: Path, env_name: str, resume_at: int | None = None) -> None:
        super().__init__(path, resume_at)
        self._env_name = env_name

    def start(self) -> None:
        """Training starts now: t_start + t is the time of day at which an episode ends."""
        if self.position == 0:
            header = json.dumps({"t_start": time.time(), "env_id": self._env_name})
            self.append(f"#{header}\nr,l,t,step,worker\n")

    def write(self, rows: Sequence[tuple[float, int, float, int, int]]) -> None:
        """Appends (return, length, training seconds, step, worker) rows."""
        self.append("".join(f"{round(r, 6)},{n},{t:.6f},{step},{worker}\n" for r, n, t, step, worker in rows))


class TensorBoard:
    """Scalars on the axis of agent steps.

    Args:
        folder: where event files go. purge_step: on a resume, events from this step on are void.
    """

    def __init__(self, folder: Path, purge_step: int | None = None) -> None:
        self._folder, self._purge_step = folder, purge_step
        self._waiting: list[tuple[dict[str, float], int, float]] = []
        self._writer: RecordWriter | None = None
        self._next_flush_s = time.monotonic() + TENSORBOARD_FLUSH_S

    def write(self, scalars: dict[str, float], step: int) -> None:
        """Adds one point to each curve; a second one at the same step replaces the first."""
        if self._waiting and self._waiting[-1][1] == step:
            scalars = self._waiting.pop()[0] | scalars
        self._waiting.append((scalars, step, time.time()))
        if time.monotonic() >= self._next_flush_s:
            self.flush()

    def flush(self) -> None:
        """Writes waiting points to disk, except the newest ones, which may still be replaced."""
        whole, newest, self._waiting = self._waiting[:-1], self._waiting[-1:], []
        self._write_out(whole)
        self._waiting = newest

    def _write_out(self, points: list[tuple[dict[str, float], int, float]]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        with disk_errors(self._folder, "write"):
            if self._writer is None:
                self._writer = self._open()
            for scalars, step, wall_time_s in points:
                values = [Summary.Value(tag=name, simple_value=value) for name, value in scalars.items()]
                event = Event(wall_time=wall_time_s, step=step, summary=Summary(value=values))
                self._writer.write(event.SerializeToString())
            self._writer.flush()
        self._next_flush_s = time.monotonic() + TENSORBOARD_FLUSH_S

    def _open(self) -> RecordWriter:
        """Starts an event file for this session.

        torch's SummaryWriter writes in a thread, which prints a traceback when the disk is full.
        """
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._folder.mkdir(exist_ok=True)
        now = time.time()
        # TensorBoard reads the files of a folder in the order of their names.
        name = f"events.out.tfevents.{now:.6f}.{platform.node()}.{os.getpid()}"
        writer = RecordWriter((self._folder / name).open("xb"))
        writer.write(Event(wall_time=now, file_version="brain.Event:2").SerializeToString())
        if self._purge_step is not None:
            start = SessionLog(status=SessionLog.START)
            writer.write(Event(wall_time=now, step=self._purge_step, session_log=start).SerializeToString())
        return writer

    def close(self) -> None:
        """Writes waiting points, and closes."""
        try:
            points, self._waiting = self._waiting, []
            self._write_out(points)
        finally:
            if self._writer is not None:
                with disk_errors(self._folder, "write"):
                    self._writer.close()
