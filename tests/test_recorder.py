"""monitor.csv and TensorBoard events, read back by those who will read them."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from stable_baselines3.common.monitor import load_results
from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.context import RequestContext
from tensorboard.plugins.base_plugin import TBContext
from tensorboard.plugins.hparams.api_pb2 import STATUS_SUCCESS, ColParams, ListSessionGroupsRequest
from tensorboard.plugins.hparams.backend_context import Context
from tensorboard.plugins.hparams.list_session_groups import Handler as ListHandler

import a3c_zoo
from a3c_zoo.errors import RunDirectoryError
from a3c_zoo.records import Episode, Report
from a3c_zoo.runs.progress import RunProgress
from a3c_zoo.runs.recorder import EventLog, Monitor, TensorBoard
from a3c_zoo.runs.resources import Clock
from a3c_zoo.store import rows
from a3c_zoo.store.checkpoints import ResourceState, RunState, WindowState
from a3c_zoo.store.rows import NoRowEndsHereError
from a3c_zoo.store.run import Run

ROW = (1.5, 3, 0.25, 10, 0)


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """No file of this process may grow beyond that, as on a full disk."""
    _, hard = before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_stable_baselines_reads_the_monitor(tmp_path: Path) -> None:
    monitor = Monitor(tmp_path / "monitor.csv")
    monitor.start("cartpole")
    monitor.write([])
    monitor.write([ROW, (-2.0000001, 5, 0.5, 15, 1)])
    monitor.close()
    header, columns, *lines = (tmp_path / "monitor.csv").read_text().splitlines()
    assert json.loads(header.removeprefix("#"))["env_id"] == "cartpole"
    assert columns == "r,l,t,step,worker"
    assert lines == ["1.5,3,0.250000,10,0", "-2.0,5,0.500000,15,1"]
    frame = load_results(str(tmp_path))
    assert frame["r"].tolist() == [1.5, -2.0]
    assert frame["l"].tolist() == [3, 5]
    assert frame["step"].tolist() == [10, 15]


def started_and_closed(path: Path) -> None:
    monitor = Monitor(path)
    monitor.start("cartpole")
    monitor.close()


def test_the_monitor_is_never_overwritten(tmp_path: Path) -> None:
    started_and_closed(tmp_path / "monitor.csv")
    with pytest.raises(RunDirectoryError, match="File exists"):
        Monitor(tmp_path / "monitor.csv")


def test_the_monitor_goes_on_at_the_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "monitor.csv"
    monitor = Monitor(path)
    monitor.start("cartpole")
    monitor.write([ROW])
    position = monitor.position
    assert position == path.stat().st_size
    monitor.write([(9.0, 9, 9.0, 9, 9)])
    monitor.close()
    with path.open("a") as file:
        file.write("7.0,1,")  # the writer was killed here
    again = Monitor(path, position)
    again.write([(2.0, 3, 0.5, 20, 0)])
    again.close()
    assert path.read_text().splitlines()[2:] == ["1.5,3,0.250000,10,0", "2.0,3,0.500000,20,0"]


def test_a_shortened_monitor_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "monitor.csv"
    started_and_closed(path)
    with pytest.raises(NoRowEndsHereError, match=r"no row of .*monitor\.csv ends"):
        Monitor(path, 100_000)
    path.unlink()
    with pytest.raises(RunDirectoryError, match="No such file"):
        Monitor(path, 100_000)
    assert not path.exists()


HEAD = "#begin\nr,l,t,step,worker\n"


def started(path: Path, told: list[str]) -> Monitor:
    """A monitor with two rows, of which others are going to replace the file."""
    monitor = Monitor(path)
    monitor.append(HEAD.encode())
    monitor.tell = told.append
    monitor.write([ROW, (2.0, 3, 0.5, 20, 0)])
    return monitor


def replace_by_another(path: Path, text: str) -> None:
    other = path.with_name("new")
    other.write_text(text)
    other.replace(path)


TWO_ROWS = "1.5,3,0.250000,10,0\n2.0,3,0.500000,20,0\n"


@pytest.mark.parametrize(
    ("others", "known", "lost"),
    [
        (lambda path: replace_by_another(path, "of the user"), TWO_ROWS, 0),  # as an editor's save, or rsync
        (lambda path: path.unlink(), TWO_ROWS, 0),
        (lambda path: os.truncate(path, 0), "", 40),
        (lambda path: os.truncate(path, len(HEAD) + 25), TWO_ROWS[:20], 20),  # in the midst of a row
        (lambda path: path.write_text("of the user, and longer than before" * 10), "", 40),
        (lambda path: path.open("a").write("of the user"), TWO_ROWS, 0),
        (  # nano writes in place: all rows move by four bytes, and the last one is known in part
            lambda path: path.write_text(HEAD + "9.0\n" + TWO_ROWS),
            "9.0\n" + TWO_ROWS[:20],
            16,
        ),
    ],
    ids=["replaced", "removed", "emptied", "cut", "rewritten", "appended", "moved"],
)
def test_a_monitor_that_others_changed_is_written_anew(
    others: Callable[[Path], object], known: str, lost: int, tmp_path: Path
) -> None:
    """Nothing that others wrote is overwritten, no row is torn, and all positions are those of the new file."""
    told: list[str] = []
    path = tmp_path / "monitor.csv"
    monitor = started(path, told)
    others(path)
    left = path.read_text() if path.exists() else None
    monitor.write([(3.0, 3, 0.75, 30, 0)])
    monitor.write([(4.0, 3, 0.75, 40, 0)])
    assert monitor.position == path.stat().st_size
    monitor.close()
    assert path.read_text() == HEAD + known + "3.0,3,0.750000,30,0\n4.0,3,0.750000,40,0\n"
    assert [each.read_text() for each in tmp_path.glob("*.replaced-1")] == ([] if left is None else [left])
    assert len(told) == 1
    assert (f"{lost} bytes are lost" if lost else "no row is lost") in told[0]


def test_a_resumed_monitor_knows_its_head(tmp_path: Path) -> None:
    path = tmp_path / "monitor.csv"
    first = started(path, [])
    first.close()
    again = Monitor(path, first.position)
    os.truncate(path, 0)
    again.write([ROW])
    again.close()
    assert path.read_text() == HEAD + "1.5,3,0.250000,10,0\n"


def test_a_file_that_cannot_be_written_anew_keeps_its_rows(tmp_path: Path) -> None:
    """The disk is full when others have replaced the file: all rows are written once there is room."""
    path = tmp_path / "monitor.csv"
    told: list[str] = []
    monitor = started(path, told)
    replace_by_another(path, "of the user")
    with file_size_limit(20):
        monitor.write([(3.0, 3, 0.75, 30, 0)])
        assert monitor.fault is not None
    monitor.sync()
    monitor.close()
    assert path.read_text() == HEAD + TWO_ROWS + "3.0,3,0.750000,30,0\n"
    assert len(told) == 1
    assert "monitor.csv.replaced-1; no row is lost" in told[0]


def test_a_file_that_was_removed_before_its_first_rows(tmp_path: Path) -> None:
    """Workers start for seconds before there are rows."""
    told: list[str] = []
    path = tmp_path / "monitor.csv"
    monitor = Monitor(path)
    monitor.tell = told.append
    path.unlink()
    monitor.append(HEAD.encode())
    monitor.write([ROW])
    monitor.close()
    assert path.read_text() == HEAD + "1.5,3,0.250000,10,0\n"
    assert [text.rpartition("; ")[2] for text in told] == ["no row is lost"]


def test_an_empty_file_of_others_is_not_deleted(tmp_path: Path) -> None:
    monitor = Monitor(tmp_path / "monitor.csv")
    replace_by_another(tmp_path / "monitor.csv", "of the user")
    monitor.close()
    assert (tmp_path / "monitor.csv").read_text() == "of the user"


def test_rows_wait_while_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "ROWS_RETRY_S", 0.0)
    path = tmp_path / "monitor.csv"
    monitor = Monitor(path)
    monitor.start("cartpole")
    monitor.write([ROW])
    before = path.read_bytes()
    with file_size_limit(len(before) + 30):
        monitor.write([ROW] * 5)  # the disk takes a row and a half
        monitor.write([(2.0, 3, 0.5, 20, 0)])
        assert path.read_bytes() == before
        assert re.search(r"cannot write .*monitor\.csv: File too large", str(monitor.fault))
        with pytest.raises(RunDirectoryError, match="File too large"):  # no checkpoint may name these rows
            monitor.sync()
        assert path.read_bytes() == before
    monitor.write([])  # there is room again
    assert monitor.fault is None
    assert monitor.position == path.stat().st_size
    monitor.close()
    assert load_results(str(tmp_path))["r"].tolist() == [1.5] * 6 + [2.0]


def test_rows_that_wait_are_not_tried_again_at_once(tmp_path: Path) -> None:
    monitor = Monitor(tmp_path / "monitor.csv")
    monitor.start("cartpole")
    with file_size_limit(monitor.position + 10):
        monitor.write([ROW])
    monitor.write([ROW])
    assert monitor.fault is not None
    monitor.close()
    assert len(load_results(str(tmp_path))) == 2


def test_rows_that_wait_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MOST_WAITING", 100)
    monkeypatch.setattr(rows, "ROWS_RETRY_S", 0.0)
    monitor = Monitor(tmp_path / "monitor.csv")
    monitor.start("cartpole")
    with file_size_limit(monitor.position):
        monitor.write([ROW] * 3)
        with pytest.raises(RunDirectoryError, match="cannot write"):
            monitor.write([ROW] * 3)


def test_a_log_of_events_has_whole_lines_only(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"kind": "first"}\n{"kind": "to')  # the writer was killed here
    log = EventLog(path)
    log.write(1, "second", "text", {})
    with file_size_limit(path.stat().st_size + 10):
        log.write(2, "third", "text", {"fact": 1})
    log.close()
    assert [json.loads(line)["kind"] for line in path.read_text().splitlines()] == ["first", "second", "third"]


def test_a_log_of_events_that_cannot_be_written_is_no_fault(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "removed" / "events.jsonl")
    log.write(1, "kind", "text", {})
    log.close()


def points(folder: Path, tag: str) -> list[tuple[int, float]]:
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    return [(event.step, event.value) for event in events.Scalars(tag)]


def test_tensorboard_reads_the_events(tmp_path: Path) -> None:
    board = TensorBoard(tmp_path / "tb")
    board.write({"a": 1.0, "b": float("nan")}, 10)
    board.write({"a": 2.0}, 2**40)
    assert not (tmp_path / "tb").exists()  # nothing is imported for a run's first seconds
    board.close()
    assert points(tmp_path / "tb", "a") == [(10, 1.0), (2**40, 2.0)]


@pytest.mark.parametrize(
    ("others", "first"), [("replaced", [(10, 1.0)]), ("emptied", []), ("folder removed", [(10, 1.0)])]
)
def test_curves_go_on_though_others_changed_the_file(
    others: str, first: list[tuple[int, float]], tmp_path: Path
) -> None:
    told: list[str] = []
    board = TensorBoard(tmp_path / "tb", tell=told.append)
    board.write({"a": 1.0}, 10)
    board.flush(keep=0)
    (file,) = (tmp_path / "tb").iterdir()
    if others == "replaced":
        replace_by_another(file, "of the user")
    elif others == "emptied":
        os.truncate(file, 0)
    else:
        shutil.rmtree(tmp_path / "tb")
    board.write({"a": 2.0}, 20)
    board.close()
    assert points(tmp_path / "tb", "a") == [*first, (20, 2.0)]
    assert len(told) == 1


def test_a_log_of_events_goes_on_though_others_emptied_it(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log = EventLog(path, lambda text: log.write(2, "file_replaced", text, {}))
    log.write(1, "first", "text", {})
    os.truncate(path, 0)
    log.write(2, "second", "text", {})
    log.close()
    assert [json.loads(line)["kind"] for line in path.read_text().splitlines()] == ["second", "file_replaced"]


def test_a_second_point_at_a_step_replaces_the_first(tmp_path: Path) -> None:
    """Two workers' last reports tell the same steps, and each its own episodes."""
    board = TensorBoard(tmp_path)
    for value in (1.0, 2.0):
        board.write({"a": value, f"only {value:g}": value}, 10)
        board.flush()
    board.close()
    assert points(tmp_path, "a") == [(10, 2.0)]
    assert points(tmp_path, "only 1") == [(10, 1.0)]


def test_a_resumed_curve_goes_on_without_overlap(tmp_path: Path) -> None:
    for session, (purge_step, steps) in enumerate([(None, [10, 20, 30, 40]), (21, [25, 35]), (36, [50])]):
        board = TensorBoard(tmp_path, purge_step)
        for step in steps:
            board.write({"a": float(session)}, step)
            board.flush()
        board.close()
    assert points(tmp_path, "a") == [(10, 0.0), (20, 0.0), (25, 1.0), (35, 1.0), (50, 2.0)]


@pytest.mark.parametrize("clock_s", [(2e9, 1e9, 900.0), (900.0, 1e9, 1e9)])
def test_a_resumed_curve_goes_on_though_the_clock_was_wrong(
    clock_s: tuple[float, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A TensorBoard that is open sees each session begin."""
    shown = EventAccumulator(str(tmp_path), size_guidance={"scalars": 0})
    for session, now_s in enumerate(clock_s):
        monkeypatch.setattr(time, "time", lambda now_s=now_s: now_s)
        board = TensorBoard(tmp_path, 10 * session + 1 if session else None)
        for step in (10 * session + 10, 10 * session + 20):  # the next session begins between the two
            board.write({"a": float(session)}, step)
        board.close()
        shown.Reload()
    expected = [(10, 0.0), (20, 1.0), (30, 2.0), (40, 2.0)]
    assert [(event.step, event.value) for event in shown.Scalars("a")] == expected == points(tmp_path, "a")


def test_points_wait_while_the_disk_is_full(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    board = TensorBoard(tmp_path)
    board.write({"a": 1.0}, 1)
    board.write({f"tag {n}": 1.0 for n in range(1000)}, 2)
    board.flush()  # the first
    size = next(tmp_path.iterdir()).stat().st_size
    board.write({"a": 3.0}, 3)
    with file_size_limit(size + 100):
        board.flush()
        with pytest.raises(RunDirectoryError, match="cannot write"):
            board.sync()
        assert points(tmp_path, "a") == [(1, 1.0)]
    board.write({"a": 4.0}, 4)
    board.close()
    assert capfd.readouterr().err == ""  # no thread that complains
    assert points(tmp_path, "a") == [(1, 1.0), (3, 3.0), (4, 4.0)]
    assert points(tmp_path, "tag 999") == [(2, 1.0)]


def test_the_window_covers_the_last_hundred_episodes() -> None:
    progress = RunProgress(Clock(), None)
    assert progress.now().mean_return_100 is None
    assert progress.now().mean_length_100 is None
    progress.add([], [episode(number) for number in range(99)])
    assert progress.now().window == 99
    progress.add([], [episode(number) for number in range(99, 150)])
    now = progress.now()
    assert (now.window, now.episodes) == (100, 150)
    assert now.mean_return_100 == now.mean_length_100 == sum(range(50, 150)) / 100 == 99.5
    window = WindowState([*progress.returns], [*progress.lengths])
    resumed = RunProgress(Clock(), RunState(150, 150, 0, 0, 100, window, 0, {}, ResourceState(None, None)))
    resumed.add([], [episode(150)])
    assert resumed.now().mean_return_100 == 100.5


def test_the_speed_is_a_mean_over_the_last_five_seconds() -> None:
    """Since the newest look before them; in the beginning, since the first look."""
    clock, speeds = Clock(), []
    progress = RunProgress(clock, None)
    for training_s, steps in ((0, 0), (1, 100), (2, 300), (6, 1100), (9, 1700)):
        clock.seconds["training"] = training_s
        progress.add([Report(steps=steps)], [])
        speeds.append(progress.now().steps_per_s)
    assert speeds == [0, 100, 150, 1100 / 6, (1700 - 300) / (9 - 2)]


def test_the_best_mean_and_when_it_was_reached() -> None:
    """Means of the first episodes do not count: one lucky episode would be the best for ever."""
    clock = Clock()
    progress = RunProgress(clock, None)
    best = []
    for training_s, numbers in ((1, range(100, 119)), (2, range(100, 101)), (3, range(200, 202)), (9, range(5))):
        clock.seconds["training"] = training_s
        progress.add([], [episode(number) for number in numbers])
        now = progress.now()
        best.append((now.best_return, now.best_training_s))
    first = (sum(range(100, 119)) + 100) / 20
    second = (sum(range(100, 119)) + 100 + 200 + 201) / 22
    assert best == [(None, 0.0), (first, 2), (second, 3), (second, 3)]


def test_the_shares_of_a_steps_time_are_those_of_late() -> None:
    progress = RunProgress(Clock(), None)
    assert progress.now().time_shares == {}
    progress.add([Report(seconds={"environment": 1.0, "acting": 2.0, "learning": 1.0})], [])
    assert progress.now().time_shares == {"environment": 0.25, "acting": 0.5, "learning": 0.25}
    late = [Report(seconds={"environment": 0.0, "acting": 0.0, "learning": 1.0})] * 1000
    progress.add(late, [])
    assert progress.now().time_shares["learning"] > 0.999


def episode(number: int) -> Episode:
    return Episode(float(number), number, step=0, time_s=0.0, worker=0)


def test_an_event_is_a_text_and_a_count(tmp_path: Path) -> None:
    """TensorBoard shows texts on a page of their own, with the step."""
    tensorboard = TensorBoard(tmp_path / "tensorboard")
    tensorboard.write({"events/worker_replaced": 1, "events/worker_replaced/text": "worker 1 was ended"}, 30)
    tensorboard.close()
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(e.step, e.value) for e in events.Scalars("events/worker_replaced")] == [(30, 1.0)]
    (text,) = events.Tensors("events/worker_replaced/text")
    assert (text.step, list(text.tensor_proto.string_val)) == (30, [b"worker 1 was ended"])
    assert events.PluginTagToContent("text") == {"events/worker_replaced/text": b""}


def test_an_event_may_quote_a_name_that_is_not_utf_8(tmp_path: Path) -> None:
    tensorboard = TensorBoard(tmp_path)
    tensorboard.write({"events/worker_replaced/text": "worker 1: \udcff"}, 30)
    tensorboard.close()
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    (text,) = events.Tensors("events/worker_replaced/text")
    assert list(text.tensor_proto.string_val) == [b"worker 1: \\udcff"]


def test_a_part_that_cannot_be_cut_off_is_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk may take half a row, refuse the rest, and refuse to cut the half off as well."""
    file = rows.RowFile(tmp_path / "rows.csv")
    file.append(b"1,2\n")
    monkeypatch.setattr(rows.RowFile, "_cut_back", lambda self: None)
    with file_size_limit(6):
        file.append(b"3,4\n")
    assert (tmp_path / "rows.csv").read_bytes() == b"1,2\n3,"
    assert file.fault is not None
    file.sync()
    assert (tmp_path / "rows.csv").read_bytes() == b"1,2\n3,4\n"
    assert file.position == 8
    file.close()


def test_an_empty_file_that_cannot_be_deleted_stays(tmp_path: Path) -> None:
    """As on a disk that has become read-only."""
    path = tmp_path / "rows.csv"
    file = rows.RowFile(path)
    path.unlink()
    path.mkdir()
    file.close()
    assert path.is_dir()


def test_a_file_goes_on_only_behind_a_whole_row(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b"1,2\n33,4\n")
    for position in (6, 12):
        with pytest.raises(NoRowEndsHereError):
            rows.RowFile(path, position)
    assert path.read_bytes() == b"1,2\n33,4\n"
    rows.RowFile(path, 4).close()
    assert path.read_bytes() == b"1,2\n"


def test_tensorboards_page_hparams_lists_runs_with_their_final_figures(tmp_path: Path) -> None:
    """As its server answers the page, also of a run that was resumed: the newest figures, once."""
    begun = a3c_zoo.train("cartpole", serial=True, steps=300, name="one", runs_dir=tmp_path)
    one = a3c_zoo.train(resume=begun.run, steps=900)
    overrides = {"optimizer.learning_rate": 0.25}
    a3c_zoo.train("cartpole", serial=True, steps=300, name="two", overrides=overrides, runs_dir=tmp_path)
    multiplexer = EventMultiplexer().AddRunsFromDirectory(str(tmp_path))
    multiplexer.Reload()
    provider = MultiplexerDataProvider(multiplexer, str(tmp_path))
    backend = Context(TBContext(data_provider=provider, logdir=str(tmp_path)))
    asked = RequestContext()
    contents = backend.hparams_metadata(asked, "")
    experiment = backend.experiment_from_metadata(asked, "", True, contents, [])
    tags = [each.name.tag for each in experiment.metric_infos]
    assert tags == ["final/steps", "final/training_s", "final/solved", "final/mean_return"]
    columns = [ColParams(metric=each.name) for each in experiment.metric_infos]
    request = ListSessionGroupsRequest(
        allowed_statuses=[STATUS_SUCCESS], col_params=columns, slice_size=10, include_metrics=True
    )
    groups = ListHandler(asked, backend, "", request).run().session_groups
    found = {group.name: group for group in groups}
    assert found.keys() == {"one/tensorboard", "two/tensorboard"}
    for name, rate in (("one", None), ("two", 0.25)):
        group = found[f"{name}/tensorboard"]
        settings, (session,) = group.hparams, group.sessions
        assert settings["env"].string_value == "cartpole"
        assert settings["network.separate"].bool_value is True
        assert rate in (None, settings["optimizer.learning_rate"].number_value)
        outcome = Run(tmp_path / name).outcome
        assert outcome is not None
        shown = {each.name.tag: each.value for each in session.metric_values}
        expected: dict[str, Any] = {"steps": outcome.steps, "training_s": outcome.training_s, "solved": 0.0}
        expected |= {"mean_return": outcome.mean_return_100} if outcome.episodes else {}  # two has no episode
        assert shown == pytest.approx({f"final/{figure}": value for figure, value in expected.items()})
    assert one.steps > begun.steps
