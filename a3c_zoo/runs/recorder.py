"""What is written of a run: monitor.csv, evaluations.csv, events.jsonl, TensorBoard; who is told: observer, hooks."""

from __future__ import annotations

import json
import os
import platform
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from a3c_zoo.errors import RunDirectoryError
from a3c_zoo.records import Episode, EvaluatorResult, Progress, RunInfo
from a3c_zoo.runs.checkpoints import RunState
from a3c_zoo.runs.directory import RunDirectory, disk_errors
from a3c_zoo.runs.setup import RunSetup, Watch

if TYPE_CHECKING:
    from tensorboard.summary.writer.record_writer import RecordWriter

#: Importing TensorBoard takes 0.2 s of a core, more than a tenth of a short run: the first events wait in memory.
TENSORBOARD_FLUSH_S = 10.0
METRICS_EVERY_S = 0.5


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

    def start(self, env_name: str) -> None:
        """Training starts now: t_start + t is the time of day at which an episode ends."""
        if self.position == 0:
            header = json.dumps({"t_start": time.time(), "env_id": env_name})
            self.append(f"#{header}\nr,l,t,step,worker\n")

    def write(self, rows: Sequence[tuple[float, int, float, int, int]]) -> None:
        """Appends (return, length, training seconds, step, worker) rows."""
        self.append("".join(f"{round(r, 6)},{n},{t:.6f},{step},{worker}\n" for r, n, t, step, worker in rows))


class EventLog:
    """events.jsonl: a line for each thing of note that happened to a run, in all its sessions. No line is ever cut off.

    A line is a JSON object with `time` (ISO 8601), `step` (agent steps), `kind`, `text` (for people) and more facts.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, step: int, kind: str, text: str, facts: Mapping[str, object]) -> None:
        """Adds a line."""
        now = datetime.now().astimezone().isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, "step": step, "kind": kind, "text": text, **facts})
        with disk_errors(self._path, "write"), self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


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

    def flush(self, keep: int = 1) -> None:
        """Writes waiting points to disk. keep: 1 if the newest ones wait on, because they may be replaced; 0 if not."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        count = max(len(self._waiting) - keep, 0)
        points, newest, self._waiting = self._waiting[:count], self._waiting[count:], []
        with disk_errors(self._folder, "write"):
            if self._writer is None:
                self._writer = self._open()
            for scalars, step, wall_time_s in points:
                values = [Summary.Value(tag=name, simple_value=value) for name, value in scalars.items()]
                event = Event(wall_time=wall_time_s, step=step, summary=Summary(value=values))
                self._writer.write(event.SerializeToString())
            self._writer.flush()
        self._next_flush_s, self._waiting = time.monotonic() + TENSORBOARD_FLUSH_S, newest

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
            self.flush(keep=0)
        finally:
            if self._writer is not None:
                with disk_errors(self._folder, "write"):
                    self._writer.close()


class Publisher:
    """Writes the files of one session, and tells those who listen.

    Args:
        saved: the checkpoint to go on from; what the files hold of later training is cut off.
    """

    def __init__(self, directory: RunDirectory, setup: RunSetup, watch: Watch, saved: RunState | None) -> None:
        config = setup.config
        self._watch, self.hooks = watch, setup.registry.hooks
        self.run = RunInfo(directory.path, config.env_name, config.agent_name, config)
        self._monitor = Monitor(directory.path / "monitor.csv", saved.monitor_position if saved else None)
        self._tensorboard = TensorBoard(directory.path / "tensorboard", saved.steps + 1 if saved else None)
        self._events, self._num_events = EventLog(directory.path / "events.jsonl"), Counter[str]()
        self._published = (saved.steps, saved.episodes) if saved else (0, 0)
        self._next_s = 0.0

    def start(self) -> None:
        """Training starts now."""
        self._monitor.start(self.run.env_name)

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

    def event(self, step: int, kind: str, text: str, facts: Mapping[str, object]) -> None:
        """Says on screen what happened, and adds it to events.jsonl and to its count in TensorBoard (`events/kind`)."""
        self._watch.observer.message(text)
        self._events.write(step, kind, text, facts)
        self._num_events[kind] += 1
        self._tensorboard.write({f"events/{kind}": self._num_events[kind]}, step)

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
