"""Before a comparison or a tuning trains: every method is tried in a child process, and the time is told."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from a3c_zoo.comparison import rehearsal as rehearsals
from a3c_zoo.comparison.conclusion import unfinished
from a3c_zoo.comparison.estimates import estimate, evaluations_estimate, rough_duration
from a3c_zoo.comparison.plan import Plan, make_plan
from a3c_zoo.comparison.rehearsal import Rehearsal, rehearse, with_guesses
from a3c_zoo.comparison.rehearsal_process import LEARNING_STARTS, shortened
from a3c_zoo.config.sets import comparison_steps, resolve_config
from a3c_zoo.errors import ConfigError, ZooError
from a3c_zoo.plugins.loading import PLUGIN_FILES
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.report.places import choose_out, claimed
from a3c_zoo.testing import plugin_distribution
from a3c_zoo.tuning.contenders import Contender
from a3c_zoo.tuning.tune import jobs_left
from tests.test_full_disk import Disk, disk  # noqa: F401
from tests.toys_runs import Running, command_line, environ, installed_here
from tests.waits import LIMIT_S
from tests.wheels import ROOT

COMPARE = ["compare", "cartpole", "--baseline", "random", "--seeds", "2", "--steps", "2000", "--episodes", "1"]


@pytest.fixture(autouse=True)
def rehearsals_of_a_rollout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rehearsals that this process begins train one rollout: most tests here are of faults, and none is of speeds."""
    for name in ("ALL_S", "LEAST_S", "MOST_S"):
        monkeypatch.setattr(rehearsals, name, 0.0)


def plan(runs_dir: Path, **changes: Any) -> Plan:
    given: dict[str, Any] = {"envs": ["cartpole"], "agents": [], "baselines": ["random"], "seeds": [1, 2]}
    given |= {"steps": 2000, "time_limit": None, "runs_dir": runs_dir, "reuse": True}
    return make_plan(**given | changes)


def refused(*arguments: object, folder: Path, path: Path | None = None) -> str:
    """Runs a command that must end with status 2 and leave no run; returns its last line of stderr."""
    command = [sys.executable, "-m", "a3c_zoo", *map(str, arguments)]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environ(path) | {"OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=2 * LIMIT_S,
        check=False,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert not (folder / "runs").exists()
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1]


@pytest.fixture
def refused_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    """As `refused`, of a command in this process, which has imported torch already; its child finds the plugins."""

    def run(*arguments: object, path: Path) -> str:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(path), str(ROOT)]))
        with installed_here(path):
            assert command_line(*arguments) == 2
        err = capfd.readouterr().err
        assert not (tmp_path / "runs").exists()
        assert "Traceback" not in err
        return str(err.splitlines()[-1])

    return run


# What is tried


def test_each_method_trains_and_acts_in_a_child_and_nothing_is_left(tmp_path: Path) -> None:
    planned, said = plan(tmp_path / "a/b"), list[str]()
    found = rehearse(planned.missing, tmp_path / "a/b", said.append)
    assert list(found) == [("cartpole", "a3c"), ("cartpole", "random")]
    for each in found.values():
        assert each.steps_per_s is not None
        assert each.steps_per_s > 10
        assert rehearsals.PROCESS_S < each.other_s < LIMIT_S
        assert each.checkpoint_bytes > 500
        assert 0 < each.evaluation_step_s < 1
        assert each.episode_steps == 500  # CartPole's limit
    assert said[0] == "first, each method trains for a few seconds: does it work here, and how fast is it?"
    assert [re.sub(r"[\d,]+ steps", "N steps", line) for line in said[1:]] == [
        "  a3c on cartpole: N steps/s",
        "  random on cartpole: N steps/s",
    ]
    assert list(tmp_path.iterdir()) == []
    guessed = with_guesses(planned, found)
    rehearsal = found["cartpole", "a3c"]
    assert rehearsal.steps_per_s is not None
    assert guessed.runs[0].guess_s == pytest.approx(rehearsal.other_s + 2000 / rehearsal.steps_per_s)
    assert guessed.digest == planned.digest


def test_a_folder_that_was_there_stays_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    with rehearsals._folder_in(tmp_path) as folder:
        (folder / "run").mkdir()
        assert folder.parent == tmp_path
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_more_methods_than_an_argument_of_a_process_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux allows 128 KiB. The child is ended before it trains."""
    run = plan(tmp_path).missing[0]
    runs = [replace(run, method=f"a3c-{number}") for number in range(600)]
    monkeypatch.setattr(rehearsals, "dump_config", lambda config: "")
    monkeypatch.setattr(rehearsals, "_result", lambda *_: Rehearsal(1.0, 1.0, 0, 0.0, 500))
    assert len(rehearse(runs, tmp_path, lambda _: None)) == 600


def test_run_hooks_are_left_out_and_faults_end_it_at_once() -> None:
    registry = get_registry()
    entries = registry.env("cartpole"), registry.agent("sb3-dqn")
    config = resolve_config(registry, *entries, overrides=["agent.learning_starts=5000", "run.time_limit_s=5"])
    short = shortened(config)
    assert (short.plugins, short.run.worker_restarts, short.run.restarts, short.run.disk_patience_s) == ({}, 0, 0, 0)
    assert short.run.time_limit_s == 5
    assert getattr(short.agent, "learning_starts") == LEARNING_STARTS  # noqa: B009


# What is refused


def broken(folder: Path, body: str) -> Path:
    """A plugin with the environment `toy`, whose factory begins with these lines."""
    source = f"""
import os
from a3c_zoo import EnvEntry, hookimpl
from tests import toys_env

def make(num_envs, seed, **options):
    {body}
    return toys_env.make(num_envs, seed, **options)

@hookimpl
def zoo_envs():
    return [EnvEntry("toy", factory="broken_toys:make", config="tests.toys_env:RunToyConfig", threshold=1.0)]
"""
    return plugin_distribution(folder, "broken-toys", source)


TOY = ("compare", "toy", "--baseline", "random", "--seeds", 1, "--steps", 400, "--yes")


def test_one_of_two_methods_that_cannot_be_made(tmp_path: Path, refused_here: Any) -> None:
    path = broken(tmp_path / "plugin", "raise RuntimeError('the toy factory broke')")
    line = refused_here(*TOY, path=path)
    assert re.match(r"Error: a3c on toy cannot be trained: .*RuntimeError: the toy factory broke", line)


def test_an_environment_that_ends_its_process(tmp_path: Path) -> None:
    path = broken(tmp_path / "plugin", "os._exit(7)")
    line = refused(*TOY, folder=tmp_path, path=path)
    assert line.startswith("Error: a3c on toy cannot be trained: ")
    assert "status 7" in line


def test_a_baseline_whose_package_is_missing(tmp_path: Path, refused_here: Any) -> None:
    (tmp_path / "path").mkdir()
    (tmp_path / "path/stable_baselines3.py").write_text("raise ImportError('No module named stable_baselines3')\n")
    words = ("compare", "cartpole", "--baseline", "sb3-a2c", "--seeds", 1, "--yes")
    line = refused_here(*words, path=tmp_path / "path")
    assert line.startswith("Error: sb3-a2c on cartpole cannot be trained: stable-baselines3 cannot be imported (")
    assert line.endswith("'stable-baselines3<3,>=2.7'")


def test_the_command_that_shows_more_names_the_plugin_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = plan(tmp_path).runs[0]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setenv(PLUGIN_FILES, "p/own.py")
    line = str(rehearsals._refusal(run, "it broke.", is_users=False))
    assert "it broke. To see more: a3c-zoo train cartpole " in line
    assert line.endswith(" --debug --plugin p/own.py")


def test_tune_rehearses_the_start(tmp_path: Path, refused_here: Any) -> None:
    """The environment cannot be made; no trial is trained."""
    path = broken(tmp_path / "plugin", "raise RuntimeError('the toy factory broke')")
    line = refused_here("tune", "toy", "--trials", 1, "--steps", 400, "--yes", path=path)
    assert re.match(r"Error: a3c on toy cannot be trained: .*RuntimeError: the toy factory broke", line)


def test_a_full_disk(disk: Disk, tmp_path: Path) -> None:  # noqa: F811
    disk.fill()
    line = refused(*COMPARE, "--yes", "--runs-dir", "disk/runs", folder=tmp_path)
    assert "No space left on device. Free space, or begin a new run elsewhere: --runs-dir DIR" in line
    assert sorted(path.name for path in disk.place.iterdir()) == ["filler"]


def test_a_disk_without_room_for_all_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = plan(tmp_path).missing
    found = {("cartpole", name): Rehearsal(1.0, 1.0, 100_000_000, 0.0, 500) for name in ("a3c", "random")}
    usage = SimpleNamespace(free=4_400_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    rehearsals._refuse_full_disk(missing, found, tmp_path)  # 4 runs of 11 checkpoints
    usage.free -= 1
    with pytest.raises(ZooError, match=r"^4 runs need 4\.4 GB .*4\.4 GB are free .*--runs-dir DIR$"):
        rehearsals._refuse_full_disk(missing, found, tmp_path)


def test_ctrl_c_during_the_estimate(tmp_path: Path) -> None:
    with Running(*COMPARE, "--yes", folder=tmp_path) as running:
        running.wait_until(lambda: "does it work here" in running.stdout and list(tmp_path.glob("runs/.rehearsal-*/*")))
        running.process.send_signal(signal.SIGINT)
        assert running.exit_status() == 130
        running.assert_nothing_left()
    assert running.stderr == "Stopped. No run has begun.\n"
    assert not (tmp_path / "runs").exists()


def test_nobody_to_ask_is_told_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    found = {("cartpole", name): Rehearsal(100.0, 5.0, 1000, 0.001, 500) for name in ("a3c", "random")}
    monkeypatch.setattr("a3c_zoo.comparison.compare.rehearse", lambda *_: found)
    assert command_line(*COMPARE) == 2
    out, err = capsys.readouterr()
    assert out.splitlines()[-2:] == [
        "4 runs, about 2 min of training",  # 4 · (5 + 20) s
        "evaluations come on top: about 28 s, if an episode lasts 500 steps",  # 4 · (2 + 2 · 5 · 500 · 1 ms) s
    ]
    assert err == "Error: 4 runs must be trained, and there is no terminal to ask: give --yes\n"
    assert list(tmp_path.iterdir()) == []


def test_a_second_look_is_told_before_the_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("a3c_zoo.comparison.compare.rehearse", lambda *_: {})
    seen = {("cartpole", "a3c", "random"): "comparisons/first"}
    monkeypatch.setattr("a3c_zoo.comparison.compare.planned_looks", lambda plan, rule: seen)
    assert command_line(*COMPARE) == 2
    told = " ".join(capsys.readouterr().out.split())
    assert re.search("cartpole: nothing will be claimed about a3c and random, .*comparisons/first.*--seeds", told)


# The time


@pytest.fixture
def pong(tmp_path: Path) -> tuple[Plan, dict[tuple[str, str], Rehearsal]]:
    """Five seeds of 10 million steps, at 4,000 and 500 steps/s."""
    planned = plan(tmp_path, envs=["pong"], baselines=["sb3-a2c"], seeds=range(1, 6), steps=10_000_000)
    found = {
        ("pong", "a3c"): Rehearsal(4000.0, 5.0, 1, 0.0005, 1000),
        ("pong", "sb3-a2c"): Rehearsal(500.0, 5.0, 1, 0.001, 1000),
    }
    return with_guesses(planned, found), found


def test_shorter_comparisons_are_proposed(pong: tuple[Plan, dict[tuple[str, str], Rehearsal]]) -> None:
    """5 · (2505 + 20005) s; 7 · (255 + 2005) s; 10 · 605 s, where an hour each would take longer than half of all."""
    planned, found = pong
    assert estimate(planned, found) == (
        "10 runs, about 31 h of training; `--steps 1000000 --seeds 7`: 4 h 20 min; "
        "`--time-limit 1h` in place of `--steps`: 10 h"
    )
    few = replace(planned, runs=planned.runs[:2])  # 6.25 h
    assert estimate(few, found).endswith("min; `--time-limit 1h` in place of `--steps`: 2 h")
    assert estimate(few, found, is_most=True).startswith("2 runs at most, about 6 h 20 min of training; ")
    assert estimate(planned, found, slots=5) == (
        "10 runs, about 6 h 20 min of training; `--steps 1000000 --seeds 7`: 53 min; "
        "`--time-limit 1h` in place of `--steps`: 2 h"
    )
    assert estimate(replace(planned, has_steps=False), found).endswith("; `--time-limit 1h`: 10 h")


def test_the_plan_knows_whether_steps_were_given(tmp_path: Path) -> None:
    """Beside them there can be no `--time-limit`."""
    assert plan(tmp_path).has_steps
    assert not plan(tmp_path, steps=None).has_steps
    assert not plan(tmp_path, steps=None, time_limit=60.0).has_steps


def test_evaluations_come_on_top(
    pong: tuple[Plan, dict[tuple[str, str], Rehearsal]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint plays 2 · 20 episodes of 1000 steps; two cores play 10 checkpoints, and start first.

    So a run takes 2 + 5 · 20 s or 2 + 5 · 40 s.
    """
    planned, found = pong
    monkeypatch.setattr(rehearsals, "available_cores", lambda: 2)
    assert found["pong", "a3c"].evaluation_s(20) == pytest.approx(102)
    assert found["pong", "a3c"].evaluation_s(40) == pytest.approx(202)
    assert found["pong", "a3c"].evaluation_s(20, checkpoints=1) == pytest.approx(22)
    told = evaluations_estimate(planned, found, 20)
    assert told == "evaluations come on top: about 25 min, if an episode lasts 1,000 steps"  # 5 · 304 s
    found["pong", "sb3-a2c"] = replace(found["pong", "sb3-a2c"], episode_steps=500)
    assert evaluations_estimate(planned, found, 20).endswith("about 17 min, if episodes last 500 to 1,000 steps")
    assert "on top: at most 17 min, " in evaluations_estimate(planned, found, 20, is_most=True)
    assert evaluations_estimate(planned, {}, 20) == ""


def test_a_method_without_a_speed(pong: tuple[Plan, dict[tuple[str, str], Rehearsal]]) -> None:
    planned, found = pong
    found["pong", "sb3-a2c"] = Rehearsal(None, 5.0, 1, 0.0, 1000)
    unknown = replace(planned, runs=tuple(replace(run, guess_s=None) for run in planned.runs))
    told = estimate(with_guesses(unknown, found), found)
    assert told == "10 runs, more than 3 h 30 min of training (the speed of sb3-a2c is not known)"


def test_a_budget_in_seconds_needs_no_speed(tmp_path: Path) -> None:
    planned = plan(tmp_path, steps=None, time_limit=600.0)
    found = {("cartpole", name): Rehearsal(None, 5.0, 1, 0.0, 500) for name in ("a3c", "random")}
    assert estimate(with_guesses(planned, found), found) == "4 runs, about 40 min of training"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "1 s"),
        (59, "59 s"),
        (90, "2 min"),
        (3540, "59 min"),
        (3600, "1 h"),
        (10_200, "2 h 50 min"),
        (97_200, "27 h"),
    ],
)
def test_rough_durations(seconds: float, text: str) -> None:
    assert rough_duration(seconds) == text


def test_the_trainings_of_a_tuning() -> None:
    """30 trials of 2 seeds; 10 and 4 go on. Of these, 12 trials have been on the first rung and 3 on the second."""
    assert jobs_left([100, 300, 900], [], 30, 2) == {100: 60, 200: 20, 600: 8}
    scores: list[dict[int, float]] = [{100: 1.0, 300: 1.0}] * 3 + [{100: 1.0}] * 9 + [{}]
    found = [Contender(number, {}, each, "RUNNING", is_here=True) for number, each in enumerate(scores)]
    assert jobs_left([100, 300, 900], found, 30, 2) == {100: 36, 200: 14, 600: 8}
    failed = [replace(each, state="FAIL") for each in found]  # others take their places
    assert jobs_left([100, 300, 900], failed, 30, 2) == {100: 60, 200: 20, 600: 8}
    assert jobs_left([100, 300, 900], found, 9, 2) == {100: 0, 200: 0, 600: 2}


def test_the_set_says_how_long_a_comparison_trains(tmp_path: Path) -> None:
    registry = get_registry()
    for name in ("pong", "breakout", "atari:seaquest"):
        assert registry.env(name).budget_steps == 10_000_000
        assert comparison_steps(registry, registry.env(name)) == 1_500_000
    assert comparison_steps(registry, registry.env("cartpole")) == 250_000
    assert comparison_steps(registry, registry.env("gym:Acrobot-v1")) is None


@pytest.mark.parametrize("block", ["3", "{steps: 0}", "{steps: 1.5}", "{steps: true}", "{}", "{steps: 5, seeds: 3}"])
def test_a_block_compare_with_a_fault(block: str, tmp_path: Path) -> None:
    registry = get_registry()
    (tmp_path / "bad.yml").write_text(f"compare: {block}\n")
    with pytest.raises(ConfigError, match=r"bad.yml:1 compare: must have .*steps.* whole number above 0"):
        resolve_config(registry, registry.env("cartpole"), registry.agent("a3c"), hyperparams=str(tmp_path / "bad.yml"))


# The report so far


@pytest.fixture
def inline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain_reports: None) -> Iterator[Path]:
    """A current folder with the engine `inline`, without rehearsals."""
    path = plugin_distribution(tmp_path / "plugin", "toy-tuning", "from tests.toys_tuning import zoo_engines\n")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr("a3c_zoo.comparison.compare.rehearse", lambda *_: {})
    with installed_here(path):
        yield tmp_path / "here"


SHORT = ["compare", "cartpole", "--baseline", "random", "--seeds", 1, "--steps", 320, "--episodes", 1, "--yes"]
SHORT += ["--engine", "inline", "--out", "out"]


def results() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path("out/results.json").read_text())
    return found


def test_after_ctrl_c_the_report_stays_and_the_same_command_finishes_it(
    inline: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("a3c_zoo.comparison.course.REPORT_PAUSE", 0)
    assert command_line(*SHORT, "--engine-option", "stops_in=2") == 130
    out, err = capsys.readouterr()
    assert out.count("report so far: out/report.html\n") == 1
    assert err.endswith("continues with the others.\nReport so far: out/report.html\n")
    told = "This report is not finished, and claims nothing yet. It has 1 run, and 1 run is missing: "
    (lacking,) = results()["missing"]["cartpole"].items()
    assert lacking[1] == 1
    assert results()["claims"] == []
    assert len(results()["runs"]) == 1
    for name in ("report.md", "report.html"):
        assert f"{told}{lacking[0]} on cartpole: 1." in (inline / "out" / name).read_text().replace("\\", "")
    assert sorted(path.name for path in Path().iterdir()) == ["out", "runs", "trained.txt"]
    assert command_line(*SHORT) == 0
    assert results()["missing"] == {}
    assert len(results()["runs"]) == 2
    assert "not finished" not in Path("out/report.md").read_text()
    assert not Path("out-2").exists()
    assert command_line(*SHORT) == 2  # it is finished now
    assert "a report is there already" in capsys.readouterr().err


def test_an_interrupted_report_of_another_plan_is_not_overwritten(
    inline: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line(*SHORT, "--engine-option", "stops_in=2") == 130
    before = Path("out/results.json").read_bytes()
    assert command_line(*SHORT, "--steps", 480) == 0
    assert Path("out/results.json").read_bytes() == before
    assert Path("out-2/results.json").exists()
    assert "out-2/report.html" in capsys.readouterr().out


def test_a_report_that_is_written_now_is_not_taken_over(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with claimed(out, "plan") as folder:
        assert folder == out
        (out / "results.json").write_text(json.dumps({"missing": {"cartpole": {"a3c": 1}}, "plan": "plan"}))
        (out / "report.md").touch()
        with claimed(out, "plan") as other:
            assert other == tmp_path / "out-2"
    assert not other.exists()  # nothing was written into it
    (tmp_path / "mine").mkdir()
    for folder, left in ((tmp_path / "mine", True), (tmp_path / "new/one", False)):
        with pytest.raises(KeyboardInterrupt), claimed(folder):
            raise KeyboardInterrupt
        assert folder.exists() == left
    assert not (tmp_path / "new").exists()
    assert choose_out(out, []) == out
    with claimed(out, "plan") as again, claimed(out, "another") as another:
        assert (again, another) == (out, tmp_path / "out-2")
    with pytest.raises(KeyboardInterrupt), claimed(out, "plan"):
        raise KeyboardInterrupt
    assert sorted(path.name for path in out.iterdir()) == ["report.md", "results.json"]
    (out / "results.json").write_text(json.dumps({"missing": {}}))
    with pytest.raises(ZooError, match="a report is there already"):
        choose_out(out, [])


def test_the_sentence_above_a_report_so_far() -> None:
    missing = {"pong": {"a3c": 3, "sb3-a2c": 4}}
    assert unfinished(missing, 1) == (
        "This report is not finished, and claims nothing yet. It has 1 run, and 7 runs are missing: "
        "a3c on pong: 3, sb3-a2c on pong: 4."
    )
