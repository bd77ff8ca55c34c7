"""Engines: how `compare` chooses one, and how work runs side by side in several slots; with real trainings."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from a3c_zoo.comparison.plan import make_plan
from a3c_zoo.comparison.trainings import ComparisonWatcher, train_plan
from a3c_zoo.config.sets import dump_config
from a3c_zoo.cures import install_extra
from a3c_zoo.engines import Engine, JobProgress, TrainCommand, TrainingJob
from a3c_zoo.engines.choice import open_engine
from a3c_zoo.engines.slots import Post, side_by_side
from a3c_zoo.errors import ZooError
from a3c_zoo.plugins.loading import Selection
from a3c_zoo.plugins.module_files import MODULE_FILES
from a3c_zoo.plugins.registry import Registry, get_registry, load_registry, unknown_entry
from a3c_zoo.store.run import Run
from a3c_zoo.testing.findings import Findings
from a3c_zoo.testing.plugin_checks import examine_plugin
from tests.toys_runs import Running, command_line, environ
from tests.waits import LIMIT_S

PAGE = Path(__file__).parents[1] / "docs/how-to/write-an-engine.md"


class Slots(Engine):
    """An engine without machines, for work that needs none."""

    slots = 2

    def __init__(self) -> None:
        self.stopped = threading.Event()

    def train(self, job: TrainingJob, tell: Callable[[JobProgress | None], None]) -> str | None:
        raise NotImplementedError

    def stop(self) -> None:
        self.stopped.set()


COMMAND = TrainCommand("cartpole", "a3c", 7)


@pytest.mark.parametrize(
    ("hyperparams", "file"),
    [
        (None, None),
        ("nstep-classic", None),
        ("hyperparams/a3c", None),
        ("mine.yml", "mine.yml"),
        ("./hyperparams", "hyperparams"),
    ],
)
def test_a_job_knows_the_file_that_another_machine_needs(hyperparams: str | None, file: str | None) -> None:
    job = TrainingJob(replace(COMMAND, hyperparams=hyperparams), 1, Path("runs"), "one")
    assert job.hyperparams_file == (file and Path(file))
    assert replace(job, resumes=True).hyperparams_file is None
    if file:
        moved = job.with_hyperparams_file(Path("/tmp/x/mine"))
        assert moved.hyperparams_file == Path("/tmp/x/mine")
        assert replace(moved, command=job.command) == job


def test_a_job_and_its_command_line_have_one_configuration(tmp_path: Path) -> None:
    """The command line is typed; the run's configuration is the one that the command tells."""
    (tmp_path / "mine.yml").write_text("agent: {gamma: 0.5}\n")
    overrides = ("run.workers=1", "env.num_envs=2", "run.stop_when_solved=false")
    command = replace(COMMAND, steps=64, hyperparams=str(tmp_path / "mine.yml"), overrides=overrides)
    job = TrainingJob(command, 1, tmp_path, "one")
    assert command_line(*job.arguments(tmp_path), "--serial") == 0
    assert (job.path / "config.yml").read_text() == dump_config(command.config(get_registry()))
    goes_on = replace(job, command=replace(command, steps=128), resumes=True)
    assert goes_on.arguments(tmp_path)[:5] == ["train", "--steps", "128", "--resume", str(job.path)]
    assert command_line(*goes_on.arguments(tmp_path)) == 0
    outcome = Run(job.path).outcome
    assert outcome is not None
    assert outcome.steps >= 128


def test_a_command_with_a_time_limit() -> None:
    words = replace(COMMAND, time_limit_s=246.0).words()
    assert words == ["cartpole", "--agent", "a3c", "--seed", "7", "--time-limit", "246.000s"]


def test_results_come_in_the_order_of_the_work_and_calls_in_the_main_thread() -> None:
    """The first one waits for the second: they run side by side. The third begins when one of them has ended."""
    second = threading.Event()
    threads: list[threading.Thread] = []
    ended: list[int] = []

    def work(number: int) -> Callable[[Post], int]:
        def run(post: Post) -> int:
            if number == 1:
                second.set()
            assert number != 0 or second.wait(LIMIT_S)
            post(lambda: threads.append(threading.current_thread()))
            return number

        return run

    assert side_by_side(Slots(), [work(number) for number in range(3)], ended.append) == [0, 1, 2]
    assert sorted(ended) == [0, 1, 2]
    assert threads == [threading.main_thread()] * 3


def test_one_slot_needs_no_thread() -> None:
    engine = Slots()
    engine.slots = 1
    found = side_by_side(engine, [lambda post: threading.current_thread()] * 2)
    assert found == [threading.main_thread()] * 2
    assert not engine.stopped.is_set()


@pytest.mark.parametrize("error", [ValueError("broken"), KeyboardInterrupt()])
def test_an_error_or_ctrl_c_stops_the_rest(error: BaseException) -> None:
    """The second work waits until the engine stops it; the third never begins; a late post ends its work."""
    engine = Slots()
    begun: list[int] = []
    late: list[InterruptedError] = []

    def fails(post: Post) -> None:
        if isinstance(error, KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            return
        raise error

    def waits(post: Post) -> None:
        assert engine.stopped.wait(LIMIT_S)
        try:
            post(lambda: None)
        except InterruptedError as refused:
            late.append(refused)

    def begins(post: Post) -> None:
        begun.append(1)
        time.sleep(0.3)

    with pytest.raises(type(error)):
        side_by_side(engine, [waits, fails, *[begins] * 50])
    assert len(late) == 1
    assert len(begun) < 50


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the plugin file of the documentation."""
    folder = tmp_path_factory.mktemp("pair")
    (source,) = re.findall(r"```python\n(from pydantic import Field.*?)```", PAGE.read_text(), re.DOTALL)
    (folder / "pair.py").write_text(source)
    return folder


def test_the_check_finds_no_fault_in_it(pair: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry, findings = with_files(monkeypatch, pair / "pair.py"), Findings("pair")
    examine_plugin(registry, next(each for each in registry.plugins if each.name == "pair"), findings)
    assert findings.is_sound, findings.found


def with_files(monkeypatch: pytest.MonkeyPatch, *files: Path) -> Registry:
    """The registry with plugin files, each imported anew."""
    monkeypatch.setattr(MODULE_FILES, "paths", {})
    for file in files:
        monkeypatch.delitem(sys.modules, file.stem, raising=False)
    return load_registry(Selection(files=tuple(map(str, files))))


RUNS = ("compare", "cartpole", "--agent", "a3c", "--baseline", "random", "--plugin", "pair.py", "--engine", "pair")


def test_two_runs_train_at_once(pair: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have begun before the first one ends: each pauses before it trains."""
    of_methods = make_plan(
        envs=["cartpole"],
        agents=["a3c"],
        baselines=["random"],
        seeds=[1, 2],
        steps=2000,
        time_limit=None,
        runs_dir=tmp_path,
        reuse=True,
    )
    plan = replace(of_methods, runs=tuple(run for run in of_methods.runs if run.method == "random"))
    with open_engine(with_files(monkeypatch, pair / "pair.py"), "pair", ["pause_s=0.1"]) as engine:
        trained = train_plan(plan, ComparisonWatcher(), engine)
    assert [each.fault for each in trained] == [None, None]
    assert_trained_at_once(tmp_path)


def assert_trained_at_once(folder: Path) -> None:
    runs = [path.parent for path in folder.glob("*/timing.json")]
    assert len(runs) == 2
    begun = [json.loads((run / "meta.json").read_text())["started"] for run in runs]
    done = [(run / "outcome.json").stat().st_mtime for run in runs]
    assert max(map(seconds_of, begun)) < min(done)


@pytest.mark.slow
def test_two_runs_of_a_comparison_train_at_once(pair: Path) -> None:
    options = ("--seeds", "1", "--steps", "2000", "--episodes", "1", "--yes", "--engine-option", "pause_s=0.1")
    command = [sys.executable, "-m", "a3c_zoo", *RUNS, *options, "--out", "out", "--json"]
    ended = subprocess.run(command, cwd=pair, env=environ(), capture_output=True, text=True, timeout=LIMIT_S)
    assert ended.returncode == 0, ended.stderr
    assert {each["method"] for each in json.loads(ended.stdout)["runs"]} == {"a3c", "random"}
    assert_trained_at_once(pair / "runs")


def seconds_of(started: str) -> float:
    return datetime.fromisoformat(started).timestamp()


def with_episodes(folder: Path) -> list[Path]:
    """The tables of the runs of seed 5 that have an episode. A run that is interrupted before its first step goes."""
    return [table for table in folder.glob("runs/*-s5-*/monitor.csv") if table.read_text().count("\n") > 2]


@pytest.mark.slow
def test_ctrl_c_ends_both(pair: Path) -> None:
    with Running(*RUNS, "--seeds", "5,6", "--steps", 10_000_000, "--yes", folder=pair) as running:
        both = running.wait_until(lambda: len(begun := with_episodes(pair)) == 2 and begun)
        running.signal_group(signal.SIGINT)
        assert running.exit_status() == 130
        assert "Stopped. Finished runs are kept" in running.stderr
        running.assert_nothing_left()
    assert [json.loads((each.parent / "outcome.json").read_text())["reason"] for each in both] == ["interrupted"] * 2


BAD = """
from a3c_zoo import EngineEntry, hookimpl

@hookimpl
def zoo_engines():
    return [EngineEntry("odd", "bad:odd"), EngineEntry("broken", "bad:broken"), EngineEntry("far", "bad:far")]

def odd(settings):
    return 5

def broken(settings):
    raise OSError("no cluster")
"""


@pytest.mark.parametrize(
    ("name", "options", "line"),
    [
        ("lokal", (), "unknown engine 'lokal'. Did you mean 'local'? See: a3c-zoo list engines"),
        ("local", ("x",), "--engine-option x: must read KEY=VALUE"),
        ("pair", ("pause=1",), "engine 'pair' --engine-option pause: unknown key. Did you mean 'pause_s'?"),
        ("pair", ("pause_s=long",), "engine 'pair' --engine-option pause_s: long — must be a valid number"),
        ("odd", (), "engine 'odd' of plugin 'bad' (bad.py) cannot be made: bad:odd returns no a3c_zoo.engines.Engine"),
        ("broken", (), "engine 'broken' of plugin 'bad' (bad.py) cannot be made: OSError: no cluster"),
        ("far", (), "engine 'far' of plugin 'bad' (bad.py) cannot be loaded: 'bad:far': module 'bad' has no"),
    ],
)
def test_bad_engines_in_one_line(
    name: str, options: tuple[str, ...], line: str, pair: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pair / "bad.py").write_text(BAD)
    registry = with_files(monkeypatch, pair / "pair.py", pair / "bad.py")
    with pytest.raises(ZooError) as caught:
        open_engine(registry, name, options)
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("cartpole", "--baseline", "random", "--address", "host:1"), "engine 'local' --address: unknown key."),
        (("--from", ".", "--engine", "local"), "--from only reads runs; leave out --engine"),
    ],
)
def test_options_that_do_not_fit(arguments: tuple[str, ...], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line("compare", *arguments, "--yes") == 2
    assert capsys.readouterr().err == f"Error: {line}\n"


@pytest.mark.parametrize(("kind", "name"), [("engine", "ray"), ("agent", "a3c-ray")])
def test_what_a_distribution_of_ours_offers_names_its_extra(kind: str, name: str) -> None:
    error = unknown_entry(kind, name, ["local", "a3c"], f"a3c-zoo list {kind}s")
    assert str(error) == f"unknown {kind} '{name}'. It comes with: {install_extra('ray')}"


def test_engines_are_listed() -> None:
    assert get_registry().engine("local").description == "this machine: one training after the other, alone"
