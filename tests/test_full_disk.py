"""A real disk that fills up under a real training: nothing that a checkpoint counts is lost.

The environment sleeps in its steps, so the waits of these tests cost no core.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import a3c_zoo
from a3c_zoo.errors import RunDirectoryError
from a3c_zoo.runs import resources
from a3c_zoo.runs.full_disk import CHECKPOINT_RETRY_S, FullDisk
from a3c_zoo.store.checkpoints import checkpoint_steps
from a3c_zoo.store.directory import RunDirectory
from tests.toys_runs import Listener, Running, checkpoint, episodes, scalars, toy_installed, toy_path

OPTIONS = ["--name", "x", "--runs-dir", "disk", "--stop-return", "1e6", "-o", "run.checkpoint_every_s=0.3"]
OPTIONS += ["-o", "env.step_s=0.002", "-o", "agent.n_steps=5"]


class Disk:
    """A file system of 3 MiB."""

    def __init__(self, place: Path) -> None:
        self.place, self._filler = place, place / "filler"

    def fill(self) -> None:
        """Takes all its space."""
        with self._filler.open("ab", buffering=0) as file:
            try:
                while file.write(bytes(4096)):
                    continue
            except OSError:
                return

    def free(self) -> None:
        """Gives the space back."""
        self._filler.unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    place = tmp_path / "disk"
    place.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", place], check=False).returncode
    ):
        pytest.skip("cannot mount here")
    try:
        yield Disk(place)
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def events(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]


def outcome(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "outcome.json").read_text())
    return found


def assert_nothing_is_lost(run: Path) -> None:
    """monitor.csv, evaluations.csv, events.jsonl and TensorBoard have every row, whole, and one time."""
    ended, saved = outcome(run), checkpoint(run)["session"]
    rows = episodes(run)
    assert len(rows) == ended["episodes"] == saved["episodes"]
    assert (run / "monitor.csv").stat().st_size == saved["monitor_position"]
    assert (run / "monitor.csv").read_text().endswith("\n")
    for rank in (0, 1):
        steps = [row["step"] for row in rows if row["worker"] == rank]
        assert steps == sorted(steps)
    assert ended["steps"] == saved["steps"] == checkpoint_steps(RunDirectory(run))[-1]
    assert not list(run.rglob(".*.tmp"))
    curves = scalars(run)
    for tag, points in curves.items():
        assert len({step for step, _ in points}) == len(points), tag
    assert curves["episode/return_mean_100"][-1][0] == ended["steps"]


def speeds(run: Path) -> list[Any]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(run / "tensorboard"), size_guidance={"scalars": 0})
    accumulator.Reload()
    return list(accumulator.Scalars("speed/steps_per_s"))


def test_training_goes_on_while_the_disk_is_full(disk: Disk, tmp_path: Path) -> None:
    run = disk.place / "x"
    options = [*OPTIONS, "-o", "run.evaluation_every_s=0.3", "-o", "run.evaluation_cpu_share=1"]
    options += ["-o", "run.evaluator_episodes=3", "--time-limit", "5m"]
    with Running(
        "train", "toy", *options, "-o", "run.disk_patience_s=100", folder=tmp_path, path=toy_path(tmp_path / "toy")
    ) as running:
        running.wait_until(lambda: (run / "evaluations.csv").exists() and len(list(run.glob("checkpoints/step*"))) > 2)
        disk.fill()
        filled_s, before = time.time(), running.stdout.count(" steps/s ")
        running.wait_until(lambda: "training goes on, but the disk refuses files: cannot write" in running.stdout)
        running.wait_until(lambda: running.stdout.count(" steps/s ") >= before + 2)  # lines of progress, 5 s apart
        freed_s = time.time()
        disk.free()
        running.wait_until(lambda: "the disk takes files again" in running.stdout)
        running.signal_group(signal.SIGINT)
        assert running.exit_status() == 130
        running.assert_nothing_left()
    assert running.stderr == ""
    assert_nothing_is_lost(run)
    assert any(filled_s < point.wall_time < freed_s for point in speeds(run))  # no gap while the disk was full
    kinds = [event["kind"] for event in events(run)]  # a pruned checkpoint may have made room for a while
    assert kinds == ["disk_full", "disk_recovered"] * (len(kinds) // 2) != []
    assert "No space left on device" in events(run)[0]["error"]
    assert outcome(run)["evaluator_fault"] is None
    played = [line.split(",") for line in (run / "evaluations.csv").read_text().splitlines()[1:]]
    assert len(played) % 6 == 0  # three episodes in two modes
    with np.load(run / "evaluations.npz") as copy:
        assert copy["timesteps"].tolist() == list(dict.fromkeys(int(row[0]) for row in played))
        assert copy["results"].shape == (len(played) / 6, 3)
    with toy_installed(tmp_path / "again"):
        assert a3c_zoo.load_agent(run, checkpoint="best") is not None


def test_a_disk_has_no_less_time_if_the_run_is_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    monkeypatch.setattr(resources, "_suspensions", [])
    disk = FullDisk(100.0, lambda kind, text, **facts: None)
    fault = RunDirectoryError("full")
    fault.__cause__ = OSError(errno.ENOSPC, "full")
    disk.refused(fault)
    now_s = 500.0
    resources.add_suspension(10.0)
    disk.refused(fault)
    now_s = 600.0
    with pytest.raises(RunDirectoryError, match="full"):
        disk.refused(fault)


def test_a_disk_that_stays_full_ends_the_run_in_order(disk: Disk, tmp_path: Path) -> None:
    run = disk.place / "x"
    options = [*OPTIONS, "--time-limit", "5m", "-o", "run.disk_patience_s=3"]
    with Running("train", "toy", *options, folder=tmp_path, path=toy_path(tmp_path / "toy")) as running:
        running.wait_until(lambda: len(list(run.glob("checkpoints/step*"))) > 2)
        disk.fill()
        assert running.exit_status() == 2
        running.assert_nothing_left()
    assert re.fullmatch(
        r"(Note: importing plugin .*\n)?"  # on a busy machine
        r"Error: cannot write disk/x/.*: No space left on device\. Free space, or begin a new run elsewhere: "
        r"--runs-dir DIR "
        r"\(for 3 s, run\.disk_patience_s, the disk has taken no checkpoint\).*\n",
        running.stderr,
    )
    steps, counted = checkpoint(run)["session"]["steps"], checkpoint(run)["session"]["episodes"]
    assert len(episodes(run)) >= counted
    assert (run / "monitor.csv").read_text().endswith("\n")
    disk.free()
    with toy_installed(tmp_path / "again"):
        assert a3c_zoo.train(resume=run, steps=steps + 200).reason == "steps"
    assert_nothing_is_lost_after_a_resume(run)


def test_a_run_whose_disk_took_no_checkpoint_keeps_its_episodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even the first one. A run that ended before its first episode leaves no directory."""

    def refuse(path: Path, *_: Any) -> None:
        raise RunDirectoryError(f"cannot write {path}") from OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("a3c_zoo.runs.session.write_checkpoint", refuse)
    for patience_s, is_kept in ((1.0, True), (0.0, False)):
        overrides = {"run.checkpoint_every_s": 0.1, "run.disk_patience_s": patience_s}
        with pytest.raises(RunDirectoryError, match="cannot write"):
            a3c_zoo.train("cartpole", serial=True, overrides=overrides, name="x", runs_dir=tmp_path)
        assert (tmp_path / "x/monitor.csv").exists() == is_kept
        if is_kept:
            assert len(episodes(tmp_path / "x")) > 10
            shutil.rmtree(tmp_path / "x")


def assert_nothing_is_lost_after_a_resume(run: Path) -> None:
    ended, rows = outcome(run), episodes(run)
    assert len(rows) == ended["episodes"]
    assert (run / "monitor.csv").stat().st_size == checkpoint(run)["session"]["monitor_position"]


@pytest.mark.slow
def test_the_last_checkpoint_waits_for_room(disk: Disk, tmp_path: Path) -> None:
    run = disk.place / "x"
    options = [*OPTIONS, "--time-limit", "4s", "-o", "run.disk_patience_s=100"]
    with Running("train", "toy", *options, folder=tmp_path, path=toy_path(tmp_path / "toy")) as running:
        running.wait_until(lambda: len(list(run.glob("checkpoints/step*"))) > 1)
        disk.fill()
        running.wait_until(lambda: "the run waits for room" in running.stdout)
        disk.free()
        assert running.exit_status() == 0
    assert [event["kind"] for event in events(run)] == ["disk_full", "disk_wait", "disk_recovered"]
    assert outcome(run)["reason"] == "time-limit"
    assert outcome(run)["checkpoint_s"] >= CHECKPOINT_RETRY_S  # the wait; it is no training
    assert_nothing_is_lost(run)


def test_the_last_checkpoint_waits_for_a_folder_that_is_read_only(disk: Disk, tmp_path: Path) -> None:
    folder = disk.place / "x/checkpoints"

    class Administrator(Listener):
        """Makes the folder read-only, and writable when the run waits for it."""

        def progress(self, progress: Any) -> None:
            if not self.steps:
                subprocess.run(["mount", "-o", "bind,ro", folder, folder], check=True)
            super().progress(progress)

        def message(self, text: str) -> None:
            super().message(text)
            if text.startswith("the run waits for room"):
                subprocess.run(["umount", folder], check=True)

    overrides = {"run.evaluation_every_steps": 1000, "run.disk_patience_s": 0.5, "run.stop_when_solved": False}
    options: dict[str, Any] = {"serial": True, "steps": 50, "runs_dir": disk.place, "name": "x", "overrides": overrides}
    with toy_installed(tmp_path / "toy"):
        ended = a3c_zoo.train("toy", **options, observer=Administrator())
    assert ended.reason == "steps"
    assert [event["kind"] for event in events(ended.run)] == ["disk_wait", "disk_recovered"]
    assert checkpoint_steps(RunDirectory(ended.run))[-1] == ended.steps


@pytest.mark.slow
def test_ctrl_c_waits_for_no_room(disk: Disk, tmp_path: Path) -> None:
    run = disk.place / "x"
    options = [*OPTIONS, "--time-limit", "5m"]
    with Running("train", "toy", *options, folder=tmp_path, path=toy_path(tmp_path / "toy")) as running:
        running.wait_until(lambda: len(list(run.glob("checkpoints/step*"))) > 1)
        disk.fill()
        running.wait_until(lambda: "the disk refuses files" in running.stdout)
        running.signal_group(signal.SIGINT)
        assert running.exit_status() == 2
        running.assert_nothing_left()
    assert running.stderr.startswith("Error: cannot write disk/x/")
    assert running.stderr.count("\n") == 1


def test_a_run_that_cannot_begin_leaves_no_directory(disk: Disk, tmp_path: Path) -> None:
    disk.fill()
    with Running("train", "toy", *OPTIONS, folder=tmp_path, path=toy_path(tmp_path / "toy")) as running:
        assert running.exit_status() == 2
    line = running.stderr.splitlines()[-1]  # a busy machine has a note of a slow plugin before it
    assert re.fullmatch(r"Error: cannot (make|lock|write) disk/x.*: No space left on device.*", line)
    assert [path.name for path in disk.place.iterdir()] == ["filler"]
