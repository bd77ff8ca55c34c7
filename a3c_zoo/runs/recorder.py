"""What is written of a run: monitor.csv, evaluations.csv, events.jsonl, TensorBoard; who is told: observer, hooks."""

from __future__ import annotations

import io
import json
import math
import os
import platform
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from a3c_zoo.errors import RunDirectoryError
from a3c_zoo.files import MAX_TABLE, read_bytes
from a3c_zoo.records import Episode, EvaluatorResult, Outcome, Progress, RunInfo
from a3c_zoo.runs.hparams import final_values
from a3c_zoo.runs.sb3_tags import sb3_evaluation, sb3_scalars
from a3c_zoo.runs.setup import RunSetup, Watch
from a3c_zoo.store.checkpoints import RunState
from a3c_zoo.store.directory import RunDirectory, disk_errors
from a3c_zoo.store.rows import MONITOR, RowFile
from a3c_zoo.store.run_files import EVENTS_JSONL

if TYPE_CHECKING:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

#: Importing TensorBoard takes 0.2 s of a core, more than a tenth of a short run: the first events wait in memory.
TENSORBOARD_FLUSH_S = 10.0
METRICS_EVERY_S = 0.5
#: The name of an event file begins with the time of day at which it was made, in seconds of a constant width.
_EVENTS = re.compile(r"events\.out\.tfevents\.(\d{10}\.\d{6})\.")


class Monitor(RowFile):
    """monitor.csv in stable-baselines3's format, plus the columns `step` (of the run) and `worker`.

    If several agents play, a row is a game, and the return of each agent has a column `r_NAME`.
    """

    head_lines = MONITOR.head_lines

    def start(self, env_name: str, agents: Sequence[str] = ()) -> None:
        """Training starts now: t_start + t is the time of day at which an episode ends."""
        if self.position == 0:
            header = json.dumps({"t_start": time.time(), "env_id": env_name})
            columns = ",".join(["r,l,t,step,worker", *(f"r_{name}" for name in agents)])
            self.append(f"#{header}\n{columns}\n".encode())

    def write(self, rows: Sequence[tuple[float, ...]]) -> None:
        """Appends rows: return, length, training seconds, step and worker, then the return of each agent."""
        text = "".join(
            f"{round(r, 6)},{n},{t:.6f},{step},{worker}{''.join(f',{round(own, 6)}' for own in agents)}\n"
            for r, n, t, step, worker, *agents in rows
        )
        self.append(text.encode())


class EventFile(RowFile):
    """A file of TensorBoard's records. Of one that was cut short only the beginning is known."""

    head_lines = None

    def _begin_anew(self) -> None:
        self._path.parent.mkdir(exist_ok=True)  # people delete this folder
        super()._begin_anew()


class EventLog:
    """events.jsonl: a line for each thing of note that happened to a run, in all its sessions. No line is ever cut off.

    A line is a JSON object with `time` (ISO 8601), `step` (agent steps), `kind`, `text` (for people) and more facts.
    Lines that cannot be written wait in memory; they never end a run.

    Args:
        tell: as `RowFile.tell`.
    """

    def __init__(self, path: Path, tell: Callable[[str], None] = lambda text: None) -> None:
        self._path = path
        self._tell = tell
        self._file: RowFile | None = None
        self._lines: list[str] = []  # until the file can be opened

    def write(self, step: int, kind: str, text: str, facts: Mapping[str, object]) -> None:
        """Adds a line."""
        now = datetime.now().astimezone().isoformat(timespec="milliseconds")
        self._lines.append(
            json.dumps({"time": now, "step": step, "kind": kind, "text": text, **facts}) + "\n"
        )
        with suppress(RunDirectoryError):
            if self._file is None:
                self._file = RowFile(self._path, _end_of_rows(self._path))
                self._file.tell = self._tell
            lines = self._lines
            self._lines = []
            self._file.append("".join(lines).encode())

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            with suppress(RunDirectoryError):
                self._file.close()


def _end_of_rows(path: Path) -> int | None:
    """Bytes up to the end of the last whole line, after which a killed session may have left a part; None: no file."""
    with disk_errors(path, "read"):
        if path.exists():
            return read_bytes(path, MAX_TABLE).rfind(b"\n") + 1
        return None


class TensorBoard:
    """Scalars and texts on the axis of agent steps. Points that cannot be written wait in memory, about 1 KiB each.

    Args:
        folder: where event files go. purge_step: on a resume, events from this step on are void.
        tell: as `RowFile.tell`.
    """

    def __init__(
        self, folder: Path, purge_step: int | None = None, tell: Callable[[str], None] = lambda text: None
    ) -> None:
        self._folder = folder
        self._tell = tell
        self._purge_step = purge_step
        self._waiting: list[tuple[dict[str, float | str | bytes], int, float]] = []
        self._file: EventFile | None = None
        self._next_flush_s = time.monotonic() + TENSORBOARD_FLUSH_S

    @property
    def fault(self) -> RunDirectoryError | None:
        """Why points of the file wait; None if none does."""
        return self._file.fault if self._file else None

    def write(self, scalars: Mapping[str, float | str | bytes], step: int) -> None:
        """Adds one point to each curve; a second one at the same step replaces the first."""
        if self._waiting and self._waiting[-1][1] == step:
            scalars = {**self._waiting.pop()[0], **scalars}
        self._waiting.append((dict(scalars), step, time.time()))
        if time.monotonic() >= self._next_flush_s:
            with suppress(RunDirectoryError):  # the file cannot be made; the next checkpoint cannot, either
                self.flush()

    def flush(self, keep: int = 1) -> None:
        """Hands waiting points to the file. keep: 1 if the newest ones wait on, because they may be replaced; 0 if not.

        Raises:
            RunDirectoryError: the file cannot be made.
        """
        self._next_flush_s = time.monotonic() + TENSORBOARD_FLUSH_S
        count = max(len(self._waiting) - keep, 0)
        if keep and not count and self._file is None:
            return  # nothing to write yet
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        self._file = self._file or self._open()
        points = self._waiting[:count]
        self._waiting = self._waiting[count:]
        values = ([_value(name, value) for name, value in scalars.items()] for scalars, _, _ in points)
        self._file.append(
            _records(
                Event(wall_time=wall_time_s, step=step, summary=Summary(value=value))
                for (_, step, wall_time_s), value in zip(points, values, strict=True)
            )
        )

    def _open(self) -> EventFile:
        """Starts an event file for this session.

        torch's SummaryWriter writes in a thread, which prints a traceback when the disk is full.
        """
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        now = time.time()
        events = [Event(wall_time=now, file_version="brain.Event:2")]
        if self._purge_step is not None:
            start = SessionLog(status=SessionLog.START)
            events.append(Event(wall_time=now, step=self._purge_step, session_log=start))
        with disk_errors(self._folder, "make"):
            self._folder.mkdir(exist_ok=True)
            named = [
                float(match[1]) for path in self._folder.iterdir() if (match := _EVENTS.match(path.name))
            ]
        # TensorBoard reads the files of a folder in the order of their names. The clock may have been set back.
        name = f"events.out.tfevents.{max([now, *(time_s + 0.001 for time_s in named)]):017.6f}"
        file = EventFile(self._folder / f"{name}.{platform.node()}.{os.getpid()}")
        file.tell = self._tell
        file.append(_records(events))
        return file

    def sync(self) -> None:
        """Brings all points to the disk itself. Raises RunDirectoryError if the disk refuses some."""
        if self._waiting or self._file is not None:
            self.flush(keep=0)
            assert self._file is not None
            self._file.sync()

    def close(self) -> None:
        """Writes waiting points, and closes. Raises RunDirectoryError if points are lost."""
        try:
            if self._waiting:
                self.flush(keep=0)
        finally:
            if self._file is not None:
                self._file.close()


def _value(tag: str, content: float | str | bytes) -> Summary.Value:
    """A point of a curve, a line for TensorBoard's page of texts, or a message for its plugin hparams."""
    from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
    from tensorboard.util.tensor_util import make_tensor_proto

    if isinstance(content, bytes):
        plugin = SummaryMetadata.PluginData(plugin_name="hparams", content=content)
        return Summary.Value(tag=tag, metadata=SummaryMetadata(plugin_data=plugin))
    if not isinstance(content, str):
        return Summary.Value(tag=tag, simple_value=content)
    kind = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
    text = content.encode(errors="backslashreplace")  # an error may quote a file's name that is not UTF-8
    return Summary.Value(tag=tag, metadata=kind, tensor=make_tensor_proto([text]))


def _records(events: Iterable[Event]) -> bytes:
    """The records of events in TensorBoard's format, with their checksums."""
    from tensorboard.summary.writer.record_writer import RecordWriter

    records = io.BytesIO()
    writer = RecordWriter(records)
    for event in events:
        writer.write(event.SerializeToString())
    return records.getvalue()


class Recorder:
    """Writes the files of one session, and tells those who listen.

    Args:
        saved: the checkpoint to go on from; what the files hold of later training is cut off.
    """

    def __init__(
        self, directory: RunDirectory, setup: RunSetup, watch: Watch, saved: RunState | None
    ) -> None:
        config = setup.config
        self._watch = watch
        self._agents = setup.entry.agents
        self.hooks = watch.hooks
        self.hooks.on_failure = lambda line: self.event(self._published[0], "hook_failed", line, {})
        self.run = RunInfo(directory.home, config.env_name, config.agent_name, config)
        self._monitor = Monitor(directory.home / MONITOR.name, saved.monitor_position if saved else None)
        self._monitor.tell = self._file_replaced
        self._tensorboard = TensorBoard(
            directory.home / "tensorboard", saved.steps + 1 if saved else None, self._file_replaced
        )
        self._events = EventLog(directory.home / EVENTS_JSONL, self._file_replaced)
        self._num_events = Counter[str]()
        if saved:
            self._published = (saved.steps, saved.episodes)
        else:
            self._published = (0, 0)
        self._next_s = 0.0

    @property
    def fault(self) -> RunDirectoryError | None:
        """Why rows wait in memory; None if none does."""
        return self._monitor.fault or self._tensorboard.fault

    def start(self) -> None:
        """Training starts now."""
        self._monitor.start(self.run.env_name, self._agents)

    def write(self, episodes: Sequence[Episode]) -> None:
        """Writes finished episodes to monitor.csv, in the order in which they ended."""
        if episodes:
            clock = self._watch.clock
            self._monitor.write(
                [
                    (
                        e.episode_return,
                        e.length,
                        clock.of("training", e.time_s),
                        e.step,
                        e.worker,
                        *self._agent_returns(e),
                    )
                    for e in episodes
                ]
            )

    def _agent_returns(self, episode: Episode) -> tuple[float, ...]:
        """The return of each agent; NaN if what trains does not tell them."""
        return episode.agent_returns or (math.nan,) * len(self._agents)

    def announce(self, episodes: Sequence[Episode]) -> None:
        """Tells the plugins of finished episodes."""
        if self.hooks.wants_episodes:
            for episode in episodes:
                self.hooks.episode(self.run, episode)

    def evaluated(self, result: EvaluatorResult) -> None:
        """Records the means of the evaluator beside training."""
        means = {"greedy": result.greedy_return, "sampled": result.sampled_return}
        scalars = {f"eval/return_mean_{mode}": mean for mode, mean in means.items()}
        self._tensorboard.write(scalars | sb3_evaluation(result), result.step)

    def event(self, step: int, kind: str, text: str, facts: Mapping[str, object]) -> None:
        """Says on screen what happened, and adds it to events.jsonl and to TensorBoard (`events/kind`)."""
        self._watch.observer.message(text)
        self._events.write(step, kind, text, facts)
        self._num_events[kind] += 1
        self._tensorboard.write({f"events/{kind}": self._num_events[kind], f"events/{kind}/text": text}, step)

    def _file_replaced(self, text: str) -> None:
        """One of the run's files was replaced or cut short by others."""
        self.event(self._published[0], "file_replaced", text, {})

    def metrics(self, progress: Progress, force: bool) -> str | None:
        """Shows where the run stands, and records it twice a second. Returns why a plugin wants the run to end.

        Args:
            force: record it now, if there is anything new.
        """
        self._watch.observer.progress(progress)
        now = time.monotonic()
        reached = progress.steps, progress.episodes  # each may rise without the other
        if reached == self._published or (not force and now < self._next_s):
            return None
        self._next_s = now + METRICS_EVERY_S
        self._published = reached
        scalars = {"speed/steps_per_s": progress.steps_per_s}
        if progress.mean_return_100 is not None and progress.mean_length_100 is not None:
            scalars["episode/return_mean_100"] = progress.mean_return_100
            scalars["episode/length_mean_100"] = progress.mean_length_100
        for name, mean in progress.agent_returns_100.items():
            scalars[f"episode/return_mean_100/{name}"] = mean
        metrics = {f"train/{name}": value for name, value in progress.metrics.items()}
        self._tensorboard.write(scalars | metrics | sb3_scalars(progress), progress.steps)
        self.hooks.metrics(self.run, progress)
        return self.hooks.should_stop(self.run, progress)

    def finished(self, outcome: Outcome) -> None:
        """Records the configuration and the final figures for TensorBoard's page HPARAMS."""
        self._tensorboard.write(final_values(self.run.config, outcome), outcome.steps)

    @property
    def position(self) -> int:
        """The length of monitor.csv in bytes, with rows that wait in memory."""
        return self._monitor.position

    def sync(self) -> None:
        """Brings all rows to the disk itself, before a checkpoint.

        Raises:
            RunDirectoryError: the disk refuses some.
        """
        self._tensorboard.sync()
        self._monitor.sync()

    def close(self) -> None:
        """Closes the files."""
        with ExitStack() as stack:
            stack.callback(self._events.close)
            stack.callback(self._tensorboard.close)
            stack.callback(self._monitor.close)  # first: what it tells goes into the other two
