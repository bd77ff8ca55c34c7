"""`a3c-zoo compare` as a user meets it: real runs in fresh processes, evaluated, reported, used again, interrupted."""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import yaml

import a3c_zoo
from a3c_zoo.cli.compare import _announce
from a3c_zoo.comparison import rehearsal as rehearsals
from a3c_zoo.comparison.compare import DEFAULT_SEEDS
from a3c_zoo.comparison.course import Course, Played
from a3c_zoo.comparison.plan import Plan, make_plan
from a3c_zoo.comparison.trainings import ComparisonWatcher, train_plan
from a3c_zoo.engines import local as local_engine
from a3c_zoo.engines import new_run_name
from a3c_zoo.engines.local import LocalEngine, progress_of
from a3c_zoo.errors import RunDirectoryError, ZooError
from a3c_zoo.report.places import choose_out
from a3c_zoo.runs.evaluate_checkpoints import DEFAULT_EPISODES, evaluate_runs, missing_tasks
from a3c_zoo.store.checkpoint_evaluations import keep_evaluations, kept_evaluations
from a3c_zoo.store.checkpoints import checkpoint_steps
from a3c_zoo.store.directory import RunDirectory, describe_host
from a3c_zoo.store.run import Run
from a3c_zoo.words import listed
from tests.shared import closed, made_once
from tests.toys_runs import Running, command_line, environ, episodes, toy_installed, toy_path
from tests.toys_tuning import Inline
from tests.waits import LIMIT_S

STEPS, EPISODES = 4000, 4
ARGUMENTS = ["compare", "cartpole", "--baseline", "random", "--seeds", "2", "--steps", str(STEPS)]
ARGUMENTS += ["--episodes", str(EPISODES)]
#: A comparison is many processes, each of which imports torch.
COMPARISON_LIMIT_S = 2 * LIMIT_S


class Compared(NamedTuple):
    """A finished comparison: its folder, its output, and the run directories in the order of their starts."""

    folder: Path
    stdout: str
    runs: list[Path]

    def results(self) -> dict[str, Any]:
        return json.loads((self.folder / "out/results.json").read_text())  # type: ignore[no-any-return]


def compare_process(folder: Path, *arguments: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "a3c_zoo", *arguments]
    # More threads than cores make a small SB3 network many times slower.
    env = environ(path) | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMPARISON_LIMIT_S,
    )


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    """The command runs in this process, its trainings in their own. Its rehearsals train one rollout."""

    def make(folder: Path) -> None:
        told, errors = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(told), redirect_stderr(errors):
            patch.chdir(folder)
            patch.setenv("OMP_NUM_THREADS", "1")
            patch.setattr("a3c_zoo.report.report_films.films_of", lambda runs: None)  # see `test_report_films`
            for name in ("ALL_S", "LEAST_S", "MOST_S"):
                patch.setattr(rehearsals, name, 0.0)
            status = command_line(*ARGUMENTS, "--yes", "--out", "out")
        assert (status, errors.getvalue()) == (0, "")
        (folder / "stdout.txt").write_text(told.getvalue())

    folder = made_once(tmp_path_factory, "compared", make)
    runs = sorted((folder / "runs").glob("[!.]*"), key=lambda run: run.name.rpartition("-s")[2].partition("-")[2])
    return Compared(folder, (folder / "stdout.txt").read_text(), runs)


@pytest.fixture
def inside(compared: Compared, monkeypatch: pytest.MonkeyPatch) -> Compared:
    """Where it was made, with the variables that it was made with."""
    monkeypatch.chdir(compared.folder)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return compared


@pytest.fixture(autouse=True)
def not_rehearsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands in processes of their own begin with a rehearsal, those in this one do not (`test_rehearsal`)."""
    monkeypatch.setattr("a3c_zoo.comparison.compare.rehearse", lambda *_: {})


def plan(**changes: Any) -> Plan:
    options = {"envs": ["cartpole"], "agents": [], "baselines": ["random"], "seeds": [1, 2], "steps": STEPS}
    rest = {"time_limit": None, "runs_dir": Path("runs"), "reuse": True}
    return make_plan(**{**options, **rest, **changes})


def meta_of(run: Path) -> dict[str, Any]:
    return json.loads((run / "meta.json").read_text())  # type: ignore[no-any-return]


def snapshot(folder: Path) -> dict[Path, tuple[int, int]]:
    """Every file below a folder, without locks: its size and its time of change."""
    return {
        p: (p.stat().st_size, p.stat().st_mtime_ns) for p in folder.rglob("*") if p.is_file() and p.suffix != ".lock"
    }


# What was run


def test_methods_take_turns_seed_by_seed(compared: Compared) -> None:
    metas = [json.loads((run / "meta.json").read_text()) for run in compared.runs]
    assert [(meta["seed"], meta["agent"]) for meta in metas] == [(s, a) for s in (1, 2) for a in ("a3c", "random")]
    assert len({meta["started"] for meta in metas}) == 4
    trained = [line for line in compared.stdout.splitlines() if ": trained, " in line]
    assert [line.partition(":")[0] for line in trained[:2]] == [
        "a3c on cartpole, seed 1",
        "random on cartpole, seed 1",
    ]


def test_it_says_beforehand_what_it_will_do(compared: Compared) -> None:
    first, third, few, tried, a3c, random, estimate, on_top, *_ = compared.stdout.splitlines()
    assert first == f"a3c and random on cartpole ({STEPS:,} steps), 2 seeds: 4 runs"
    count = f"{4 * 10 * 2 * EPISODES:,}"  # runs, checkpoints, modes
    played = f"each checkpoint plays {EPISODES} episodes with sampled and with greedy actions"
    assert third == f"evaluation: {played}; {count} episodes at most"
    needs = "one question needs 6 of each method, and three need 7"
    assert few == f"so few seeds can show no difference on an environment: {needs}"
    assert tried == "first, each method trains for a few seconds: does it work here, and how fast is it?"
    for line, method in ((a3c, "a3c"), (random, "random")):
        assert re.fullmatch(rf"  {method} on cartpole: [\d,]+ steps/s", line)
    assert re.fullmatch(r"4 runs, about \d+ (s|min) of training", estimate)
    assert re.fullmatch(r"evaluations come on top: about \d+ (s|min), if an episode lasts 500 steps", on_top)


def test_a_report_comes_before_the_last_run(compared: Compared) -> None:
    lines = compared.stdout.splitlines()
    assert lines.count("report so far: out/report.html") == 1
    ends = [number for number, line in enumerate(lines) if ": trained, " in line]
    assert ends[0] < lines.index("report so far: out/report.html") < ends[-1]
    assert compared.results()["missing"] == {}


def test_runs_end_at_the_budget_and_leave_the_same_checkpoints(compared: Compared) -> None:
    for run in compared.runs:
        outcome = json.loads((run / "outcome.json").read_text())
        assert (outcome["reason"], outcome["evaluation"], outcome["evaluation_s"]) == ("steps", None, 0)
        first, *steps = checkpoint_steps(RunDirectory(run))
        assert first == 0
        assert len(steps) == 10
        assert all(0 <= step - due < 8 * 32 for step, due in zip(steps, range(400, 4001, 400), strict=True))
        timing = json.loads((run / "timing.json").read_text())
        assert timing["wall_s"] > outcome["total_s"] - 0.5
        assert 0.01 < timing["calibration_s"] < 10
        assert timing["torch_threads"] is None  # neither a3c nor random has this setting


def test_every_checkpoint_is_played_sampled_and_greedy(compared: Compared) -> None:
    for run in compared.runs:
        content = json.loads((run / "evaluations.json").read_text())
        steps = checkpoint_steps(RunDirectory(run))[1:]
        played = [(each["steps"], each["deterministic"]) for each in content["evaluations"]]
        assert played == [(step, deterministic) for step in steps for deterministic in (False, True)]
        assert {each["episodes"] for each in content["evaluations"]} == {EPISODES}
        seconds = [each["training_s"] for each in content["evaluations"][::2]]
        assert seconds == sorted(seconds)
        assert 0 < seconds[0] < seconds[-1] <= json.loads((run / "outcome.json").read_text())["training_s"]


# What is said


def test_the_figures_are_those_of_the_runs(compared: Compared) -> None:
    results = compared.results()
    by_run = {each["run"]: each for each in results["runs"]}
    assert by_run.keys() == {run.name for run in compared.runs}
    for run in compared.runs:
        outcome = json.loads((run / "outcome.json").read_text())
        evaluations = json.loads((run / "evaluations.json").read_text())["evaluations"]
        figures = by_run[run.name]
        assert figures["final_return"] == evaluations[-2]["mean_return"]
        assert figures["final_return_greedy"] == evaluations[-1]["mean_return"]
        for name in ("steps", "training_s", "total_s", "steps_per_s", "cpu_s", "peak_memory_mib"):
            assert figures[name] == outcome[name]
            assert name in results["units"]
        assert figures["seconds_to_threshold"] is None  # 475 is far away
    a3c = results["environments"]["cartpole"]["methods"]["a3c"]
    finals = [each["final_return"] for each in results["runs"] if each["method"] == "a3c"]
    assert a3c["seeds"] == [1, 2]
    assert a3c["final_return"]["mean"]["value"] == pytest.approx(sum(finals) / 2)
    assert a3c["seconds_to_threshold"] == {
        "reached": 0,
        "runs": 2,
        "at_least": 0,
        "median": None,
        "low": None,
        "high": None,
    }


def test_few_seeds_are_said_in_words(compared: Compared) -> None:
    caution = "Fewer than 5 seeds (a3c: 2, random: 2): no claim can be made that one method is better than another."
    assert compared.results()["caution"].startswith(caution)
    for name in ("report.md", "report.html"):
        assert caution in (compared.folder / "out" / name).read_text().replace("\\", "")
    assert caution in compared.stdout
    assert "with probability" not in compared.stdout


def test_the_report_says_where_figures_come_from(compared: Compared) -> None:
    text = (compared.folder / "out/report.md").read_text()
    for run in compared.runs:
        assert run.name in text
    assert "| env.num\\_envs | 16 | 8 |" in text
    assert "| env.stack | zoo | zoo |" in text
    command = "a3c-zoo train cartpole --agent random --seed 1 --steps 4000 -o run.stop_when_solved=false"
    assert f"    OMP_NUM_THREADS=1 {command}" in text
    assert "a fixed loop, timed before 4 of the runs" in text
    assert f"| torch | {__import__('torch').__version__.partition('+')[0]}" in text.replace("\\", "")


def test_pictures(compared: Compared) -> None:
    assert (compared.folder / "out/curves.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert (compared.folder / "out/curves.svg").read_text().count("agent steps") == 2


# Again


@pytest.mark.usefixtures("plain_reports")
def test_finished_runs_are_used_again(inside: Compared, capsys: pytest.CaptureFixture[str]) -> None:
    before = snapshot(inside.folder / "runs")
    assert command_line(*ARGUMENTS, "--out", "again", "--json") == 0  # nothing to ask: nothing is trained
    assert snapshot(inside.folder / "runs") == before
    printed = capsys.readouterr()
    assert json.loads(printed.out)["runs"] == inside.results()["runs"]
    assert "4 runs, 4 of them exist already" in printed.err


def test_finished_runs_are_not_used_again_if_so_said(inside: Compared, capsys: pytest.CaptureFixture[str]) -> None:
    before = snapshot(inside.folder / "runs")
    assert command_line(*ARGUMENTS, "--no-reuse") == 2
    assert capsys.readouterr().err == "Error: 4 runs must be trained, and there is no terminal to ask: give --yes\n"
    assert snapshot(inside.folder / "runs") == before


def test_the_plan_is_broken_between_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found, shown = plan(seeds=[1]), io.StringIO()
    told = _announce(replace(found, runs=(replace(found.runs[0], done=tmp_path), found.runs[1])), None, 20)
    assert "2 runs, 1 of them exists already" in told
    monkeypatch.setattr(shown, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    with redirect_stdout(shown):
        assert command_line(*ARGUMENTS, "--seeds", "7") == 2  # there is nobody to ask
    lines = shown.getvalue().splitlines()
    assert "random" in lines[0] + lines[1]
    assert len(lines) > 3
    assert max(map(len, lines)) <= 40


def test_only_the_same_is_used_again(inside: Compared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [run.done for run in plan().runs] == [Path("runs") / run.name for run in inside.runs]
    assert plan(reuse=False).missing == list(plan(reuse=False).runs)
    assert len(plan(seeds=[1, 2, 3]).missing) == 2
    assert len(plan(steps=STEPS + 1).missing) == 4
    assert [run.method for run in plan(baselines=["random@zoo"]).missing] == []
    assert [run.method for run in plan(baselines=["sb3-a2c@zoo", "sb3-a2c@own"]).runs] == [
        *("a3c", "sb3-a2c@zoo", "sb3-a2c"),
        *("a3c", "sb3-a2c@zoo", "sb3-a2c"),
    ]
    copies = tmp_path / "runs"
    for change in (
        {"versions": {"a3c-zoo": "0.0.1"}},
        {"plugins": {"env": "another"}},
        {"plugins": {**meta_of(inside.runs[0])["plugins"], "network": "plugin 'core' (a3c-zoo 0.0.1)"}},
        {"serial": True},
        {"host": {"cpu": "", "cores": 1}},
        {"host": "damaged"},
    ):
        shutil.rmtree(copies, ignore_errors=True)
        shutil.copytree("runs", copies)
        for run in copies.glob("[!.]*"):
            meta = meta_of(run) | change
            (run / "meta.json").write_text(json.dumps(meta))
        assert len(plan(runs_dir=copies).missing) == 4, change
    shutil.rmtree(copies)
    shutil.copytree("runs", copies)
    (copies / inside.runs[1].name / "timing.json").unlink()  # as of one that was interrupted, and resumed by hand
    with monkeypatch.context() as without_variables:
        without_variables.delenv("OMP_NUM_THREADS")
        assert len(plan(runs_dir=copies).missing) == 4
    assert len(plan(runs_dir=copies).missing) == 1
    shutil.rmtree(copies)
    shutil.copytree("runs", copies)
    damaged = copies / inside.runs[0].name
    (damaged / "monitor.csv").write_text("")
    (missing,) = (planned := plan(runs_dir=copies)).missing  # trained anew, and not in silence
    assert [(run, reason[:22]) for run, reason in planned.left_out.items()] == [(damaged, "monitor.csv is damaged")]
    assert (missing.method, missing.seed) == ("a3c", 1)
    monkeypatch.delenv("OMP_NUM_THREADS")  # other variables, another speed
    assert len(plan().missing) == 4


def test_a_run_of_other_sources_is_not_used_again(inside: Compared, tmp_path: Path) -> None:
    assert plan().missing == []
    assert plan().outdated == {}
    said = {
        "the sources of a3c_zoo have changed since": lambda sources: sources | {"a3c_zoo": "0123456789abcdef"},
        "the sources of a3c_zoo_envs and other have changed since": lambda sources: {
            "a3c_zoo": sources["a3c_zoo"],
            "other": "0",
        },
    }
    for reason, change in said.items():
        shutil.rmtree(tmp_path / "runs", ignore_errors=True)
        shutil.copytree(inside.folder / "runs", tmp_path / "runs")
        for file in tmp_path.glob("runs/*/meta.json"):
            meta = json.loads(file.read_text())
            meta["sources"] = change(meta["sources"])
            file.write_text(json.dumps(meta))
        planned = plan(runs_dir=tmp_path / "runs")
        assert len(planned.missing) == 4
        assert [*planned.outdated.values()] == [reason] * 4
        assert not planned.unknown  # they still tell how fast a method is
        assert f"4 finished runs are not used again: {reason}" in _announce(planned, None, EPISODES).splitlines()
    assert plan(runs_dir=tmp_path / "runs", reuse=False).outdated == {}


def test_a_guess_from_earlier_runs(inside: Compared) -> None:
    speeds = [json.loads((run / "outcome.json").read_text()) for run in inside.runs if "-a3c-" in run.name]
    run = plan(steps=1_000_000).runs[0]
    seconds = [1_000_000 / each["steps_per_s"] + each["total_s"] - each["training_s"] for each in speeds]
    assert run.guess_s
    assert min(seconds) / 2 < run.guess_s < 2 * max(seconds)
    assert plan(baselines=["sb3-a2c"]).unknown == ["sb3-a2c"]


def test_a_guess_is_of_runs_with_these_settings_on_such_a_machine(inside: Compared) -> None:
    pair = ("a3c", "a3c -o network.hidden_sizes=[128]", "a3c -o run.workers=1")
    planned = plan(methods=pair, agents=[], baselines=[], steps=1_000_000)
    assert planned.runs[0].guess_s
    assert planned.unknown == [*pair[1:]]
    here = describe_host()
    for key, value in (("cpu", "another processor"), ("cores", here["host"]["cores"] + 1)):
        host = {**here, "host": here["host"] | {key: value}}
        assert plan(steps=1_000_000, host=host).unknown == ["a3c", "random"]


@pytest.mark.usefixtures("plain_reports")
def test_reading_only(inside: Compared) -> None:
    before = snapshot(inside.folder / "runs")
    comparison = a3c_zoo.compare(sources=["runs"], out="read")
    assert comparison.results["runs"] == inside.results()["runs"]
    assert comparison.left_out == {}
    assert snapshot(inside.folder / "runs") == before


@pytest.mark.usefixtures("plain_reports")
def test_the_shell_may_name_every_run(inside: Compared, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--from runs/*` comes as one argument for each run."""
    out = tmp_path / "out"
    assert command_line("compare", "--from", *(str(run) for run in inside.runs), "--out", str(out)) == 0
    assert json.loads((out / "results.json").read_text())["runs"] == inside.results()["runs"]
    assert f"{out}/report.html" in capsys.readouterr().out.replace("\n", "")


@pytest.mark.usefixtures("plain_reports")
def test_what_cannot_be_used_is_left_out_by_name(inside: Compared, tmp_path: Path) -> None:
    copies = tmp_path / "runs"
    shutil.copytree("runs", copies)
    first, second, third, fourth = (copies / run.name for run in inside.runs)
    (first / "outcome.json").unlink()
    with (second / "monitor.csv").open("a") as file:
        file.write("1,2,nonsense\n")
    (third / "evaluations.json").unlink()
    comparison = a3c_zoo.compare(sources=[copies], out=tmp_path / "out")
    assert comparison.left_out.keys() == {first.name, second.name}
    assert "no outcome.json" in comparison.left_out[first.name]
    assert "monitor.csv is damaged" in comparison.left_out[second.name]
    lost = comparison.results["lost"]["cartpole"]
    assert sum(lost.values()) == 2  # one was killed, and the figures of one are damaged
    assert {each["run"] for each in comparison.results["runs"]} == {third.name, fourth.name}
    text = (tmp_path / "out/report.html").read_text()
    assert f"Left out: {first.name}, {second.name}." in text
    assert f"Not evaluated, or not to the end: {third.name}" in text


# Interrupted, failed


@pytest.mark.parametrize(
    ("options", "command"), [([], "the same command"), (["--no-reuse"], "the same command without --no-reuse")]
)
def test_ctrl_c_names_the_command_that_goes_on(
    options: list[str],
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def stop(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("a3c_zoo.comparison.course.carry_out", stop)
    line = ("compare", "cartpole", "--baseline", "random", "--seeds", "1", "--steps", 500, "--yes", *options)
    assert command_line(*line) == 130
    assert f"Stopped. Finished runs are kept; {command} continues with the others.\n" in capsys.readouterr().err


def test_ctrl_c_keeps_what_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second of four runs would take twenty seconds."""
    methods = ("a3c", "random -o env.step_s=0.02")
    words = [word for method in methods for word in ("--method", method)]
    words += ["--seeds", "1,2", "--steps", "2000", "--episodes", "1", "--yes"]
    path = toy_path(tmp_path / "toy")
    with Running("compare", "toy", *words, folder=tmp_path, path=path) as running:
        first = running.wait_until(lambda: list(tmp_path.glob("runs/toy-a3c-s1-*/timing.json")))[0].parent
        second = running.wait_until(lambda: list(tmp_path.glob("runs/toy-random*-s1-*/monitor.csv")))[0].parent
        running.wait_until(lambda: len(episodes(second)) > 5)
        kept = snapshot(first)
        running.signal_group(signal.SIGINT)
        assert running.exit_status() == 130
        assert "Stopped. Finished runs are kept; the same command continues with the others." in running.stderr
        running.assert_nothing_left()
    assert json.loads((second / "outcome.json").read_text())["reason"] == "interrupted"
    assert snapshot(first) == kept
    monkeypatch.chdir(tmp_path)
    with toy_installed(tmp_path / "again"):
        again = plan(envs=["toy"], methods=methods, baselines=[], seeds=[1, 2], steps=2000)
    assert [(run.seed, run.method) for run in again.missing] == [(1, methods[1]), (2, methods[0]), (2, methods[1])]
    assert again.runs[0].done == first.relative_to(tmp_path)


def test_a_run_that_is_refused_says_why_and_is_not_lost(tmp_path: Path) -> None:
    planned = plan(runs_dir=tmp_path, steps=100_000).runs[0]
    broken = replace(planned, command=replace(planned.command, overrides=("env.nonsense=1",)))
    played = Played()
    part = Plan((broken,), tmp_path, reuse=True)
    Course(part, 1, ComparisonWatcher(), LocalEngine(), played).play(part)
    ((path, fault),) = played.left_out.items()
    assert fault.startswith("-o env.nonsense: unknown key.")
    assert (played.failed, played.lost) == ([path.name], {})
    path.mkdir()  # as of a run that was killed before its training began
    assert Run(path).says_nothing


def test_a_file_that_is_edited_while_a_comparison_runs_makes_no_run_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seeds after the edit would have the same name and other values."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "mine.yml"
    file.write_text("agent: {gamma: 0.9}\nrun: {workers: auto}\n")
    planned = plan(methods=["x=a3c:mine.yml", "random"], baselines=[], runs_dir=tmp_path, steps=640, seeds=[1]).runs[0]
    one = Plan((planned,), tmp_path, reuse=True)
    (as_planned,) = train_plan(one, ComparisonWatcher(), Inline())
    assert as_planned.fault is None
    file.write_text("agent: {gamma: 0.8}\noptimizer: {epsilon: 0.01}\nrun: {workers: 1}\n")
    (edited,) = train_plan(replace(one, reuse=False), ComparisonWatcher(), Inline())
    assert edited.fault is not None
    assert edited.fault.startswith("it was trained with other values of agent.gamma and optimizer.epsilon than planned")


class Listener(ComparisonWatcher):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def message(self, text: str) -> None:
        self.told.append(text)


class Blind(Inline):
    """Evaluates nothing."""

    def evaluate(self, runs: Sequence[Path], *_: Any) -> dict[Path, str]:
        return dict.fromkeys(runs, "its evaluation failed: it is dark")


def test_a_run_whose_evaluation_fails_is_left_out_and_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # where the engine notes its trainings
    planned = next(run for run in plan(runs_dir=tmp_path, steps=300).runs if run.method == "random")
    played = Played()
    watcher = Listener()
    part = Plan((planned,), tmp_path, reuse=True)
    Course(part, 1, watcher, Blind(), played).play(part)
    ((path, fault),) = played.left_out.items()
    assert fault == "its evaluation failed: it is dark"
    assert (played.lost, played.failed) == ({(planned.env, "random"): 1}, [path.name])
    cure = (
        "The same command (with another --out, if it has one) tries again; to train this run again, first: "
        f"a3c-zoo rm {path}"
    )
    assert watcher.told == [f"random on cartpole, seed 1: {fault}. {cure}"]


def test_a_damaged_checkpoint_of_a_finished_run_is_told_with_a_cure_that_works(
    inside: Compared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(inside.folder / "runs", tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    (run,) = tmp_path.glob("runs/cartpole-random-s1-*")
    *_, last = sorted((run / "checkpoints").iterdir())
    last.write_bytes(last.read_bytes()[:100])
    (run / "evaluations.json").unlink()
    monkeypatch.setattr("a3c_zoo.report.report_films.films_of", lambda runs: None)
    assert command_line(*ARGUMENTS, "--yes", "--out", "out") == 1
    told = " ".join(capsys.readouterr().out.split())
    name = run.relative_to(tmp_path)
    assert "random on cartpole, seed 1: its evaluation failed: checkpoint " in told
    assert f"to train this run again, first: a3c-zoo rm {name}" in told
    assert command_line("rm", str(name), "--yes") == 0
    assert [planned.method for planned in plan().missing] == ["random"]


def test_a_run_that_is_stopped_before_it_begins_does_not_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a job of another machine whose command ends while the loop is timed."""
    engine = LocalEngine()

    def stopped_meanwhile() -> float:
        engine.stop()
        return 0.1

    monkeypatch.setattr(local_engine, "calibrate", stopped_meanwhile)
    (trained,) = train_plan(Plan((plan(runs_dir=tmp_path).runs[0],), tmp_path, reuse=True), ComparisonWatcher(), engine)
    assert trained.fault == "it was stopped before it began"
    assert not trained.path.exists()


def test_a_run_without_its_times_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk was full for a moment. The others of the comparison go on."""

    def full(*arguments: Any) -> None:
        raise RunDirectoryError("cannot write timing.json: the disk is full")

    monkeypatch.setattr(local_engine, "write_timing", full)
    (run,) = (run for run in plan(runs_dir=tmp_path, seeds=[1]).runs if run.method == "random")
    (trained,) = train_plan(Plan((run,), tmp_path, reuse=True), ComparisonWatcher(), LocalEngine())
    assert trained.fault == "cannot write timing.json: the disk is full"


@pytest.mark.slow
def test_an_algorithm_apart_from_its_environments(tmp_path: Path) -> None:
    arguments = ["compare", "cartpole", "--baseline", "sb3-a2c", "--baseline", "sb3-a2c@zoo", "--seeds", "1"]
    done = compare_process(
        tmp_path, *arguments, "--steps", "1000", "--episodes", "2", "--yes", "--out", "out", "--json"
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert list(results["environments"]["cartpole"]["methods"]) == ["a3c", "sb3-a2c", "sb3-a2c@zoo"]
    stacks = results["settings"]["cartpole"]["env.stack"]
    assert stacks == {"values": {"a3c": "zoo", "sb3-a2c": "own", "sb3-a2c@zoo": "zoo"}, "differs": True}
    returns = {each["method"]: each["final_return"] for each in results["runs"]}
    assert returns["sb3-a2c"] == returns["sb3-a2c@zoo"]  # bit by bit the same run on CartPole


@pytest.mark.slow
def test_a_method_that_fails_is_told_of_and_the_others_go_on(tmp_path: Path) -> None:
    arguments = ["compare", "toy", "--agent", "a3c", "--baseline", "random", "--seeds", "1", "--steps", "200", "--yes"]
    path = failing_path(tmp_path / "plugin")
    done = compare_process(tmp_path, *arguments, "--episodes", "2", "--out", "out", path=path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"a3c on toy, seed 1: FAILED: .*broke", done.stdout)
    left_out = json.loads((tmp_path / "out/results.json").read_text())["left_out"]
    ((name, reason),) = left_out.items()
    assert name.startswith("toy-a3c-s1-")
    assert "broke" in reason


def failing_path(folder: Path) -> Path:
    """A toy plugin whose environment cannot be made in a worker's process."""
    from a3c_zoo.testing import plugin_distribution

    source = """
from pathlib import Path
from a3c_zoo import EnvEntry, hookimpl
from tests import toys_env

def make(num_envs, seed, **options):
    import multiprocessing
    is_evaluation = multiprocessing.current_process().name == "a3c-zoo evaluation"
    is_rehearsal = not list(Path("runs").glob("toy-*"))
    if multiprocessing.parent_process() is not None and not is_evaluation and not is_rehearsal:
        raise RuntimeError("the toy factory broke")
    return toys_env.make(num_envs, seed, **options)

@hookimpl
def zoo_envs():
    config = "tests.toys_env:RunToyConfig"
    return [EnvEntry("toy", factory="failing_toys:make", config=config, threshold=1.0)]
"""
    return plugin_distribution(folder, "failing-toys", source)


# Bad input


def test_a_report_at_a_place_that_may_not_be_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_out(tmp_path / ("x" * 300), []).parent == tmp_path  # it fails when it is made
    (tmp_path / "closed").mkdir()
    monkeypatch.setattr(os, "access", lambda *_: False)  # it asks for what the user may, not the thread
    with closed(tmp_path / "closed"), pytest.raises(ZooError, match="closed is no directory in which you may write; "):
        choose_out(tmp_path / "closed/report", [])


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["cartpol", "--baseline", "random"], "unknown environment 'cartpol'. Did you mean 'cartpole'?"),
        (["cartpole", "--baseline", "sb3-a2x"], "unknown baseline 'sb3-a2x'. Did you mean 'sb3-a2c'?"),
        (["cartpole", "--agent", "ac3", "--baseline", "random"], "unknown agent 'ac3'. Did you mean 'a3c'?"),
        (["cartpole", "--baseline", "a3c"], "'a3c' is an agent, not a baseline: --agent a3c"),
        (["cartpole", "--agent", "random"], "'random' is a baseline, not an agent: --baseline random"),
        (
            ["cartpole"],
            "there is nothing to compare a3c with: give a --baseline, a second --agent, or several --method",
        ),
        ([], "name an environment to compare on, or runs to read: --from."),
        (["cartpole", "--baseline", "random", "--seeds", "3,1,3"], "seed 3 is given twice"),
        (["cartpole", "cartpole", "--baseline", "random"], "environment cartpole is given twice"),
        (
            ["cartpole", "gym:CartPole-v1", "--baseline", "random", "--steps", "5000"],
            "cartpole and gym:CartPole-v1 are one environment: name it once",
        ),
        (
            ["cartpole", "--baseline", "random", "--question", "score"],
            "Invalid value for '--question': 'score' is not one",
        ),
        (
            ["cartpole", "--baseline", "random", "--until-decided", "--question", "return"],
            "--question: --until-decided asks about final returns alone; leave one of the two out",
        ),
        (["cartpole", "--baseline", "random", "--baseline", "random"], "method random is given twice"),
        (["cartpole", "--baseline", "sb3-a2c@mine"], "'sb3-a2c@mine': write zoo or own after the @"),
        (["cartpole", "--baseline", "random@own"], "env.stack: own — agent 'random' trains on: zoo"),
        (
            ["cartpole", "--baseline", "random", "--seeds", "many"],
            "Invalid value for '--seeds': 'many' is neither a number",
        ),
        (["cartpole", "--baseline", "random", "--seeds", "999999999999"], "--seeds: give 1 to 1,000 of them"),
        (["cartpole", "--baseline", "random", "--seeds", "9" * 30], "--seeds: give 1 to 1,000 of them"),
        (
            ["cartpole", "--baseline", "random", "--time-limit", "0.9s"],
            "--time-limit 0.9s: too small for one evaluation; give 1s or more",
        ),
        (
            ["cartpole", "--baseline", "random", "--steps", "100"],
            "--steps 100: too small for one evaluation; a3c learns",
        ),
        (
            ["cartpole", "--baseline", "random", "--steps", "9", "--time-limit", "9s"],
            "--steps and --time-limit: give one of them",
        ),
        (
            ["gym:Acrobot-v1", "--baseline", "random"],
            "environment 'gym:Acrobot-v1' has no default budget: give --steps N",
        ),
        (["cartpole", "--baseline", "random"], "10 runs must be trained, and there is no terminal to ask: give --yes"),
        (["--from", "nowhere"], "there is no run to compare (nowhere: there is no such folder)"),
        (["--from", "nowhere", "there"], "there is no run to compare (nowhere: there is no such folder; there: "),
        (["--from", ".", "--seeds", "3"], "--from only reads runs; leave out --seeds"),
        (["cartpole", "--baseline", "random", "--out", "there"], "--out there: a report is there already"),
        (
            ["cartpole", "--baseline", "random", "--out", "there/report.md/out"],
            "--out there/report.md/out: ",  # found before anything is trained
        ),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    (tmp_path / "there").mkdir()
    (tmp_path / "there/report.md").write_text("mine")
    assert command_line("compare", *arguments) == 2
    captured = capfd.readouterr()
    assert captured.err.startswith("Error: ")
    assert line in captured.err
    assert captured.err.count("\n") == 1
    assert not (tmp_path / "runs").exists()
    assert (tmp_path / "there/report.md").read_text() == "mine"


@pytest.mark.parametrize("episodes", [0, -1])
def test_evaluations_need_an_episode(episodes: int, tmp_path: Path) -> None:
    """It is noticed before anything is trained."""
    with pytest.raises(ZooError, match=rf"^--episodes {episodes}: give 1 or more$"):
        a3c_zoo.compare("cartpole", baselines="random", seeds=1, steps=300, episodes=episodes, runs_dir=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_single_name_is_one(tmp_path: Path) -> None:
    """It was an unknown baseline 's'."""
    with pytest.raises(ZooError, match="unknown baseline 'sb3-a2x'"):
        a3c_zoo.compare("cartpole", baselines="sb3-a2x", runs_dir=tmp_path)
    with pytest.raises(ZooError, match="unknown agent 'ac3'"):
        a3c_zoo.compare("cartpole", agents="ac3", runs_dir=tmp_path)


def test_an_environment_that_is_no_name_is_refused(tmp_path: Path) -> None:
    """It was a TypeError of Python's."""
    given: Any = int
    entry: Any = a3c_zoo.EnvEntry("maze", "m:f")
    for envs in (given, [given], entry):
        for sources in ((), tmp_path):
            with pytest.raises(ZooError, match=r"is no name of an environment, .* has one: 'module:Name'$"):
                a3c_zoo.compare(envs, sources=sources, runs_dir=tmp_path)


def test_methods_that_are_no_names_are_refused(tmp_path: Path) -> None:
    """They were AttributeErrors of a3c-zoo; 5 may have been meant as a number of seeds."""
    for argument in ("agents", "baselines", "methods"):
        for value in (5, ["a3c", 5]):
            given: Any = {argument: value}
            with pytest.raises(ZooError, match=rf"^{argument}=.*5.*: give a name, or a list of names$"):
                a3c_zoo.compare("cartpole", runs_dir=tmp_path, **given)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"steps": "10000"}, "steps='10000': give a whole number"),
        ({"steps": 2.5}, "steps=2.5: give a whole number"),
        ({"episodes": "20"}, "episodes='20': give a whole number"),
        ({"until_decided": True, "max_seeds": "20"}, "max_seeds='20': give a whole number"),
        ({"time_limit_s": "10m"}, "time_limit_s='10m': give a number of seconds"),
        ({"question": ["return"]}, "question ['return']: choose return, steps, time"),
        ({"sources": "runs", "seeds": np.array([1, 2])}, "`sources` are only read; leave out seeds"),
    ],
)
def test_arguments_of_other_types_are_refused(given: dict[str, Any], line: str, tmp_path: Path) -> None:
    """They were TypeErrors and ValueErrors."""
    with pytest.raises(ZooError, match=f"^{re.escape(line)}$"):
        a3c_zoo.compare("cartpole", runs_dir=tmp_path, out=tmp_path / "out", **given)
    assert not list(tmp_path.iterdir())


def test_runs_that_are_only_read_take_no_options_of_training(tmp_path: Path) -> None:
    with pytest.raises(ZooError, match=r"leave out baselines, seeds, episodes, engine$"):
        a3c_zoo.compare(sources=tmp_path, baselines="random", seeds=[1], episodes=3, engine="ray", runs_dir=tmp_path)


def test_where_a_report_goes_that_has_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    two, many = (str(choose_out(None, envs)) for envs in (["pong", "gym:Acrobot-v1"], ["atari:seaquest"] * 17))
    assert re.fullmatch(r"comparisons/pong-gym_Acrobot-v1-\d{8}-\d{6}", two)
    assert re.fullmatch(r"comparisons/17-environments-\d{8}-\d{6}", many)
    Path("comparisons").touch()  # found before anything is trained
    with pytest.raises(ZooError, match=r"--out comparisons/pong-\S+: \S+/comparisons is no directory in which you may"):
        choose_out(None, ["pong"])


@pytest.mark.usefixtures("plain_reports")
def test_runs_that_do_not_belong_together(inside: Compared, tmp_path: Path) -> None:
    copies = tmp_path / "runs"
    shutil.copytree("runs", copies)
    twin = copies / "twin"
    shutil.copytree(copies / inside.runs[0].name, twin)
    with pytest.raises(ZooError, match=r"seed 1 of a3c on cartpole .* and twin: .*leave one"):
        a3c_zoo.compare(sources=[copies], out=tmp_path / "out")
    meta = json.loads((twin / "meta.json").read_text()) | {"env": "pong"}
    (twin / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(ZooError, match=r"of 2 environments; choose among --env cartpole --env pong$"):
        a3c_zoo.compare(sources=[copies], out=tmp_path / "out")
    assert len(a3c_zoo.compare("cartpole", sources=[copies], out=tmp_path / "out").results["runs"]) == 4
    with pytest.raises(ZooError, match="there is no run on 'breakout'; there are: cartpole, pong"):
        a3c_zoo.compare("breakout", sources=[copies], out=tmp_path / "out2")


# Evaluations


def test_each_checkpoint_is_played_once(inside: Compared, tmp_path: Path) -> None:
    """A damaged checkpoint ends its run's evaluation with a reason. Earlier results are kept; other runs go on."""
    first, second = (tmp_path / name for name in ("first", "second"))
    shutil.copytree(inside.runs[0], first)
    shutil.copytree(inside.runs[1], second)
    looks: list[tuple[int, int]] = []
    assert evaluate_runs([first, second], EPISODES, lambda *look: looks.append(look)) == {}
    assert looks == []  # played in the comparison
    *_, last = sorted((first / "checkpoints").iterdir())
    last.write_bytes(last.read_bytes()[:100])
    faults = evaluate_runs([first, second], EPISODES + 1, lambda *look: looks.append(look))
    assert faults.keys() == {first}
    assert faults[first].startswith("its evaluation failed: checkpoint ")
    assert looks[0] == (0, 20)
    assert looks[-1] == (19, 20)
    for run, played in ((first, 9), (second, 10)):
        content = json.loads((run / "evaluations.json").read_text())
        assert content["episodes"] == EPISODES + 1
        assert len(content["evaluations"]) == 2 * played
    at = content["evaluations"][0]["steps"]
    again = [each for each in kept_evaluations(second, EPISODES + 1) if each.steps == at]
    keep_evaluations(second, EPISODES + 1, again, content["seed"])  # as another comparison may
    assert json.loads((second / "evaluations.json").read_text()) == content
    # A file that holds evaluations twice is not used: all are played again.
    content["evaluations"] *= 2
    (second / "evaluations.json").write_text(json.dumps(content))
    assert len(missing_tasks(second, EPISODES + 1)) == 10


def test_a_run_whose_checkpoints_are_gone_needs_none_if_all_was_played(inside: Compared, tmp_path: Path) -> None:
    """A comparison keeps about eleven checkpoints of each run: somebody deletes them to free space."""
    run = tmp_path / "first"
    shutil.copytree(inside.runs[0], run)
    for checkpoint in (run / "checkpoints").iterdir():
        checkpoint.unlink()
    assert missing_tasks(run, EPISODES) == {}
    with pytest.raises(RunDirectoryError, match="it has no checkpoint to evaluate"):
        missing_tasks(run, EPISODES + 1)


def test_a_run_with_a_time_limit_is_evaluated_at_all_of_its_ten_checkpoints(inside: Compared, tmp_path: Path) -> None:
    run = tmp_path / "first"
    shutil.copytree(inside.runs[0], run)
    config = (run / "config.yml").read_text()
    (run / "config.yml").write_text(re.sub("time_limit_s: .*", "time_limit_s: 20.0", config))
    checkpoints = sorted((run / "checkpoints").glob("step-*.pt"))
    last = checkpoints[-1].read_bytes()
    (run / "checkpoints").joinpath(f"step-{STEPS * 2:012d}.pt").write_bytes(last)  # the run is fast in the end
    assert len(missing_tasks(run, EPISODES + 1)) == 10


def test_two_comparisons_keep_evaluations_of_the_same_run(inside: Compared, tmp_path: Path) -> None:
    """Neither loses what the other has written, and neither takes the other's temporary file."""
    played = kept_evaluations(inside.runs[0], EPISODES)
    with ThreadPoolExecutor(len(played)) as pool:
        list(pool.map(lambda each: keep_evaluations(tmp_path, EPISODES, [each], 1), played))
    assert kept_evaluations(tmp_path, EPISODES) == played


def test_an_environment_that_hangs_is_ended_and_the_other_runs_go_on(tmp_path: Path) -> None:
    """It sleeps in C and holds Python's global lock: no thread of its own process could end it."""
    with toy_installed(tmp_path / "toy"):
        hung, healthy = (
            a3c_zoo.train("toy", agent="random", steps=100, serial=True, name=name, runs_dir=tmp_path).run
            for name in ("hung", "healthy")
        )
        config = (hung / "config.yml").read_text().replace("evaluation_fault: ''", "evaluation_fault: hold")
        (hung / "config.yml").write_text(re.sub("worker_timeout_s: .*", "worker_timeout_s: 2.0", config))
        looks: list[tuple[int, int]] = []
        faults = evaluate_runs([hung, healthy], EPISODES, lambda *look: looks.append(look), processes=1)
    line = (
        "its evaluation failed: it has made no step for 2 s: does its environment hang? (limit: run.worker_timeout_s)"
    )
    assert faults == {hung: line}
    assert looks[-1] == (1, 2)
    assert not (hung / "evaluations.json").exists()
    assert json.loads((healthy / "evaluations.json").read_text())["episodes"] == EPISODES
    assert multiprocessing.active_children() == []


# Plans


def test_a_time_limit_takes_the_place_of_a_sets_own_budget(tmp_path: Path) -> None:
    runs = {run.method: run for run in plan(steps=None, time_limit=20.0, baselines=["sb3-ppo"], runs_dir=tmp_path).runs}
    ppo = runs["sb3-ppo"].config
    assert (ppo.run.steps, ppo.run.time_limit_s, ppo.run.checkpoint_every_s) == (None, 20.0, 2.0)
    assert ppo.run.checkpoint_every_steps is None
    assert ppo.to_dict()["agent"]["schedule_steps"] == 100_000  # over which its set lets the rates fall
    assert runs["a3c"].config.run.steps is None
    assert {run.guess_s for run in runs.values()} == {25.0}


def test_no_run_keeps_other_checkpoints_than_those_that_are_evaluated(tmp_path: Path) -> None:
    """Those of every 300 seconds filled the disk, whose room was checked for eleven of each run."""
    file = tmp_path / "often.yml"
    file.write_text("run: {checkpoint_every_steps: 100, checkpoint_every_s: 1}\n")
    methods = {"methods": [f"x=a3c:{file}", "random"], "baselines": [], "runs_dir": tmp_path}
    for run in plan(**methods).runs:
        assert (run.config.run.checkpoint_every_steps, run.config.run.checkpoint_every_s) == (STEPS // 10, 1e9)
    for run in plan(**methods, steps=None, time_limit=20.0).runs:
        assert (run.config.run.checkpoint_every_steps, run.config.run.checkpoint_every_s) == (None, 2.0)


def test_a_time_limit_is_the_same_on_the_command_line_of_a_run(tmp_path: Path) -> None:
    """4.1 minutes are 245.99999999999997 s, of which a run is told 246.000."""
    run = plan(steps=None, time_limit=4.1 * 60, runs_dir=tmp_path).runs[0]
    assert run.config.run.time_limit_s == 246.0
    assert run.command.limits() == ["--time-limit", "246.000s"]


def test_the_default_budget_is_the_environments(tmp_path: Path) -> None:
    planned = plan(envs=["cartpole", "pong"], baselines=["sb3-a2c"], steps=None, runs_dir=tmp_path)
    assert [(run.env, run.method, run.budget.steps) for run in planned.runs[:4]] == [
        ("cartpole", "a3c", 250_000),
        ("cartpole", "sb3-a2c", 250_000),
        ("pong", "a3c", 1_500_000),
        ("pong", "sb3-a2c", 1_500_000),
    ]


def test_the_trained_configuration_is_the_planned_one(inside: Compared) -> None:
    for run in plan().runs:
        assert run.done is not None
        assert yaml.safe_load((run.done / "config.yml").read_text()) == json.loads(json.dumps(run.config.to_dict()))


def test_names_in_words() -> None:
    assert [listed(names) for names in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a and b", "a, b and c"]


def test_two_comparisons_in_the_same_second_choose_different_directories(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([datetime(2026, 11, 22, 12, 0, 5, microsecond) for microsecond in (7, 8)])
    monkeypatch.setattr("a3c_zoo.engines.interface.datetime", SimpleNamespace(now=lambda: next(moments)))
    names = [new_run_name("cartpole", "sb3-a2c@zoo", 1) for _ in range(2)]
    assert names == [f"cartpole-sb3-a2c@zoo-s1-20261122-120005-00000{microsecond}" for microsecond in (7, 8)]


def test_the_commands_default_is_the_functions() -> None:
    from a3c_zoo.cli.compare import command

    defaults = {param.name: param.default for param in command.params}
    assert defaults["episodes"] == DEFAULT_EPISODES
    assert defaults["seeds"] == str(DEFAULT_SEEDS)


def test_a_look_at_a_run_while_it_is_written(tmp_path: Path) -> None:
    file = tmp_path / "monitor.csv"
    assert progress_of(file) is None
    file.write_text('#{"t_start": 1.0, "env_id": "x"}\nr,l,t,step,worker\n')
    assert progress_of(file) is None
    file.write_text(file.read_text() + "2.0,5,0.5,10,0\n4.0,5,1.5,20,1\n6.0,5,2.")
    look = progress_of(file)
    assert look is not None
    assert (look.steps, look.training_s, look.mean_return) == (20, 1.5, 3.0)
