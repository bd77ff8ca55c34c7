"""Runs that are read for comparisons and plots: real ones, damaged ones, and those of stable-baselines3's users."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from stable_baselines3.common.monitor import Monitor, load_results
from stable_baselines3.common.results_plotter import X_TIMESTEPS, ts2xy

import a3c_zoo
from a3c_zoo.errors import RunDirectoryError
from a3c_zoo.figures.curves import Moment, reached, running_mean
from a3c_zoo.figures.measures import measure
from a3c_zoo.files import MAX_TEXT
from a3c_zoo.records import Evaluation
from a3c_zoo.store.checkpoints import step_file
from a3c_zoo.store.directory import RunDirectory
from a3c_zoo.store.evaluation_files import read_played
from a3c_zoo.store.run_groups import told_apart
from a3c_zoo.store.run_records import lost_runs, read_run, read_runs
from a3c_zoo.store.tables import Curve, read_monitor
from a3c_zoo.store.timing_file import timing_of, write_timing
from tests.test_run_directory import LOCKER
from tests.toys_runs import Running

HEADER = '#{"t_start": 100.0, "env_id": "CartPole-v1"}\n'


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three finished runs: seeds 1 and 2, and seed 1 of another method."""
    folder = tmp_path_factory.mktemp("runs")
    for name, agent, seed in [("one", "random", 1), ("two", "random", 2), ("three", "sb3-a2c", 1)]:
        quick = {"run.evaluation_episodes": 1}
        a3c_zoo.train("cartpole", agent=agent, seed=seed, steps=1500, name=name, runs_dir=folder, overrides=quick)
    return folder


@pytest.fixture
def run(runs: Path, tmp_path: Path) -> Path:
    """A finished run to spoil."""
    return Path(shutil.copytree(runs / "one", tmp_path / "spoilt"))


def curve(steps: Any, returns: Any) -> Curve:
    steps, returns = np.array(steps), np.array(returns, np.float64)
    return Curve(steps, steps / 10, returns, np.ones(len(steps), np.int64))


def test_a_finished_run(runs: Path) -> None:
    read = read_run(runs / "one")
    assert (read.method, read.env, read.seed, read.is_ours) == ("random", "cartpole", 1, True)
    assert read.settings["run.steps"] == 1500
    assert read.command_line == ""  # a program trained it
    assert read.outcome is not None
    assert read.outcome.steps >= 1500
    assert read.versions["a3c-zoo"] == a3c_zoo.__version__
    assert read.evaluations == ()
    # The curve is what stable-baselines3 reads there too.
    frame = load_results(str(runs / "one"))
    assert read.curve.returns.tolist() == frame["r"].tolist()
    assert read.curve.lengths.tolist() == frame["l"].tolist()
    assert read.curve.steps.tolist() == np.maximum.accumulate(frame["step"]).tolist()
    assert (np.diff(read.curve.seconds) >= 0).all()
    assert len(read.curve) == read.outcome.episodes


@pytest.mark.parametrize(
    ("timing", "threads"),
    [
        (None, "2"),  # no comparison trained it: its events say 2
        ({"calibration_s": 0.2, "variables": {}, "torch_threads": 3}, "3"),
        ({"calibration_s": 0.2, "variables": {}, "torch_threads": "all"}, "2"),  # damaged
    ],
)
def test_the_threads_of_torch(timing: dict[str, Any] | None, threads: str, runs: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(runs / "three", tmp_path / "copy"))
    with (run / "events.jsonl").open("a") as events:
        events.write('{"kind": "torch_threads", "threads": 2}\n')
    if timing is not None:
        (run / "timing.json").write_text(json.dumps(timing))
    assert read_run(run).host["torch threads of sb3-a2c"] == threads
    assert "torch threads of random" not in read_run(runs / "one").host


def test_the_threads_of_torch_in_a_long_file_of_events(runs: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(runs / "three", tmp_path / "copy"))
    with (run / "events.jsonl").open("a") as events:
        events.write('{"kind": "torch_threads", "threads": 2}\n')
        events.writelines(f'{{"kind": "note", "text": "{"x" * 90_000}"}}\n' for _ in range(15))
    assert (run / "events.jsonl").stat().st_size > MAX_TEXT
    assert read_run(run).host["torch threads of sb3-a2c"] == "2"


def test_what_a_comparison_writes_of_a_run(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    for name, settings, threads in (("one", {}, None), ("three", {"agent.torch_threads": 4}, 4)):
        run = Path(shutil.copytree(runs / name, tmp_path / name))
        write_timing(run, 0.25, 9.5, settings)
        content = json.loads((run / "timing.json").read_text())
        assert (content["calibration_s"], content["wall_s"], content["torch_threads"]) == (0.25, 9.5, threads)
        timing = timing_of(run)
        assert timing is not None
        assert (timing.variables["OMP_NUM_THREADS"], timing.torch_threads) == ("2", threads)


@pytest.mark.parametrize("seconds", [0, -0.2, 1e-300, float("nan")])
def test_a_time_that_no_loop_takes_is_damaged(seconds: float, tmp_path: Path) -> None:
    """A report divides by it."""
    (tmp_path / "timing.json").write_text(json.dumps({"calibration_s": seconds, "variables": {}}))
    assert timing_of(tmp_path) is None


def test_runs_that_differ_only_in_their_seed(runs: Path) -> None:
    one, two, three = (read_run(runs / name) for name in ("one", "two", "three"))
    assert one.settings != two.settings
    assert one.settings_but_seed == two.settings_but_seed != three.settings_but_seed
    assert one.settings_but_seed != replace(one, settings={**one.settings, "run.steps": 1501}).settings_but_seed


def test_a_baseline_on_the_environments_of_the_zoo_is_another_method(runs: Path, tmp_path: Path) -> None:
    assert read_run(runs / "three").method == "sb3-a2c"
    copy = Path(shutil.copytree(runs / "three", tmp_path / "copy"))
    text = (copy / "config.yml").read_text()
    (copy / "config.yml").write_text(text.replace("stack: own", "stack: zoo"))
    assert read_run(copy).method == "sb3-a2c@zoo"


def test_folders_are_read_whole_and_nothing_is_dropped(runs: Path, run: Path) -> None:
    (run / "outcome.json").unlink()
    read, left_out = read_runs([runs, run, runs / "two", run.parent / "nowhere"])  # one of them twice
    assert [each.path.name for each in read] == ["one", "three", "two"]
    nowhere = {run.parent / "nowhere": "there is no such folder"}
    assert left_out == {run: "incomplete: it has no outcome.json, so it was killed"} | nowhere
    assert list(left_out) == [run, run.parent / "nowhere"]
    assert read_runs([run.parent / "nowhere"]) == ([], nowhere)


def test_links_to_runs_are_followed_and_links_elsewhere_are_not(runs: Path, tmp_path: Path) -> None:
    """Somebody has moved runs to another disk. A link may lead back, too."""
    here = tmp_path / "here"
    shutil.copytree(runs / "one", here / "one")
    for name in ("two", "three"):
        shutil.copytree(runs / name, tmp_path / "elsewhere" / name)
        (here / name).symlink_to(tmp_path / "elsewhere" / name)
    (here / "back").symlink_to(here)
    (here / "loop").symlink_to(here / "loop")
    (here / "again").symlink_to(here / "one")  # the run itself counts
    read, left_out = read_runs([here])
    assert ([each.path.name for each in read], left_out) == (["one", "three", "two"], {})
    assert [each.method for each in told_apart(read)] == ["random", "sb3-a2c", "random"]


@pytest.mark.parametrize(
    ("spoiled", "count"),
    [
        (("outcome.json", "damaged"), 1),
        (("config.yml", "gone"), 1),
        (("config.yml", "damaged"), 1),
        (("outcome.json", "gone"), 1),  # killed: it has a checkpoint of its last step
        (("pulled.json", "made"), 0),
        (("parameters.safetensors", "made"), 0),
    ],
)
def test_which_runs_are_lost(spoiled: tuple[str, str], count: int, run: Path) -> None:
    """A run that trained and has no figures, whatever else it lacks. A trained agent without its run is no run."""
    file, how = spoiled
    if how == "gone":
        (run / file).unlink()
    else:
        (run / file).write_text("{")
    (run / "monitor.csv").unlink()
    read, left_out = read_runs([run], wanted=lambda summary: summary.agent == "random")
    assert (read, list(left_out)) == ([], [run])
    lost = lost_runs(left_out)
    assert [(each.env, each.method, each.seed) for each in lost] == [("cartpole", "random", 1)] * count


def test_a_run_that_was_killed_in_its_first_episode_is_lost(run: Path) -> None:
    """Its only checkpoint is that of its start, and nothing tells how many steps it made. Without it, none was made."""
    (run / "outcome.json").unlink()
    (run / "monitor.csv").write_text(f"{HEADER}r,l,t,step,worker\n")
    (*others, checkpoint) = (run / "checkpoints").glob("step-*.pt")
    for path in others:
        path.unlink()
    start = checkpoint.rename(step_file(RunDirectory(run), 0))
    assert [each.path for each in lost_runs([run])] == [run]
    start.unlink()
    assert lost_runs([run]) == []


def test_only_variables_of_speed_stand_before_a_command(tmp_path: Path) -> None:
    """A report prints them for a shell, and somebody else may have written the file."""
    for name, is_read in (("OMP_NUM_THREADS", True), ("X; touch y; Z", False), ("LD_PRELOAD", False)):
        (tmp_path / "timing.json").write_text(json.dumps({"calibration_s": 0.1, "variables": {name: "1"}}))
        assert (timing_of(tmp_path) is not None) is is_read


@pytest.mark.parametrize(("key", "value"), [("steps", "abc"), ("steps", "[1, 2]"), ("time_limit_s", "abc")])
def test_a_budget_that_is_no_number(key: str, value: str, run: Path) -> None:
    text = (run / "config.yml").read_text()
    (run / "config.yml").write_text(re.sub(rf"(?m)^  {key}: .*$", f"  {key}: {value}", text))
    assert read_runs([run]) == ([], {run: f"config.yml is damaged: run.{key} is no number"})


def test_numbers_that_make_no_figures(run: Path) -> None:
    """Each is a number, and a quotient of two of them is none."""
    spoil(run, "outcome.json", lambda outcome: outcome.update(training_s=5e-324, cpu_s=1e90))
    measures = measure(read_run(run), "one").measures
    assert measures.steps_per_s == 0
    assert measures.cpu_s_to_threshold is None
    spoil(run, "outcome.json", lambda outcome: outcome.update(steps=10**20))
    with pytest.raises(RunDirectoryError, match="steps is too great"):
        read_run(run)


def spoil(run: Path, file: str, change: Any) -> None:
    path = run / file
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("meta.json", lambda meta: meta.update(format=2), "has run format 2; this version reads 1"),
        ("outcome.json", lambda outcome: outcome.update(reason="interrupted", detail=""), "its end was 'interrupted'"),
        (
            "outcome.json",
            lambda outcome: outcome.update(reason="error", detail="Traceback\n  line\nValueError: boom"),
            "incomplete: its end was 'error', ValueError: boom",
        ),
        ("outcome.json", lambda outcome: outcome.clear(), "outcome.json is damaged: 'evaluation'"),
    ],
)
def test_what_cannot_be_compared(run: Path, file: str, change: Any, message: str) -> None:
    spoil(run, file, change)
    ((path, reason),) = read_runs([run])[1].items()
    assert path == run
    assert message in reason
    assert "\n" not in reason
    assert str(run) not in reason


@pytest.mark.parametrize(
    "change",
    [
        lambda meta: meta["versions"].update({"a3c-zoo": "0.3.0"}),
        lambda meta: meta["versions"].update({"a3c-zoo": "0.1.0"}),
        lambda meta: meta.pop("versions"),
    ],
)
def test_runs_of_other_versions_are_read_and_may_be_lost(run: Path, change: Any) -> None:
    """The format of a run decides, as docs/promises.md has it."""
    spoil(run, "meta.json", change)
    assert [each.path for each in read_runs([run])[0]] == [run]
    (run / "outcome.json").unlink()
    assert [each.path for each in lost_runs([run])] == [run]


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("meta.json", "incomplete: it has no meta.json"),
        ("config.yml", "incomplete: it has no config.yml"),
        ("monitor.csv", "incomplete: it has no monitor.csv"),
    ],
)
def test_files_that_are_missing(run: Path, file: str, reason: str) -> None:
    (run / file).unlink()
    assert read_runs([run]) == ([], {run: reason})


def test_a_fault_is_told_without_the_path(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meta = json.loads((run / "meta.json").read_text())
    (run / "meta.json").write_text(json.dumps(meta | {"seed": "a"}))
    for folder in (run.parent, Path("/")):
        monkeypatch.chdir(folder)
        for path in (run, Path(os.path.relpath(run))):
            with pytest.raises(RunDirectoryError, match=r"^meta.json is damaged: its seed is no int$"):
                read_run(path)


@pytest.mark.parametrize("text", ["", "run: [", "a: 1\n", "run: {x: !!python/name:os.system }\n"])
def test_a_damaged_configuration(run: Path, text: str) -> None:
    (run / "config.yml").write_text(text)
    with pytest.raises(RunDirectoryError, match=r"^config\.yml"):
        read_run(run)


def test_a_running_run_is_left_out_but_can_be_looked_at(run: Path) -> None:
    with Running(LOCKER, run, folder=run.parent, program=("-c",)) as running:
        running.wait_until(lambda: "locked" in running.stdout)
        with pytest.raises(RunDirectoryError, match=r"^still running$"):
            read_run(run)
        (run / "outcome.json").unlink()
        with (run / "monitor.csv").open("a") as file:
            file.write("1.0,1,")  # it is writing
        looked = read_run(run, strict=False)
        assert looked.outcome is None
        assert len(looked.curve) == len(read_run(run, strict=False).curve) > 10


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "does not begin with"),
        ("r,l,t\n1,2,3\n", "does not begin with"),
        ('#{"env_id": "x"}\nr,l,t\n', "does not begin with"),
        ("#[1]\nr,l,t\n", "does not begin with"),
        (HEADER, "does not begin with"),
        (f"{HEADER}r,l\n", "line 2 names no column 't'"),
        (f"{HEADER}r,l,t\n1,2,3\n1,2\n", "line 4 reads '1,2'"),
        (f"{HEADER}r,l,t\n1,2,3\n1,x,3\n", "line 4 reads '1,x,3'"),
        (f"{HEADER}r,l,t\n1,2,3\n1,2,3,4\n", "line 4 reads '1,2,3,4'"),
        (f"{HEADER}r,l,t\nnan,2,3\n", "line 3 reads 'nan,2,3'"),
        (f"{HEADER}\n\nr,l,t\n\n1,2,3\n1,2\n", "line 7 reads '1,2'"),
        (f"{HEADER}r,l,t\n1,2,3\n4,5", "it ends in the middle of line 4"),
    ],
)
def test_a_damaged_monitor(text: str, message: str, run: Path, tmp_path: Path) -> None:
    (tmp_path / "monitor.csv").write_text(text)
    with pytest.raises(RunDirectoryError) as raised:
        read_monitor(tmp_path / "monitor.csv")
    assert message in str(raised.value)
    (run / "monitor.csv").write_text(text)
    ((_, reason),) = read_runs([run])[1].items()
    assert reason.startswith("monitor.csv is damaged: ")


def test_bytes_that_are_no_text(run: Path) -> None:
    (run / "monitor.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RunDirectoryError, match=r"^monitor\.csv cannot be read"):
        read_run(run)


def test_evaluations_of_checkpoints(run: Path) -> None:
    greedy, sampled = (
        Evaluation(20, mean, 1.0, 1.0, 99.0, mean, kind, 0.5) for mean, kind in ((50.0, True), (40.0, False))
    )
    rows = [
        {"steps": steps, "training_s": steps / 10, **asdict(each)}
        for steps in (1500, 750)
        for each in (greedy, sampled)
    ]
    content = {"format": 1, "episodes": 20, "seed": 1, "evaluations": rows}
    (run / "evaluations.json").write_text(json.dumps(content))
    read = read_run(run).evaluations
    assert [(each.steps, each.evaluation) for each in read] == [
        (750, sampled), (750, greedy), (1500, sampled), (1500, greedy)
    ]  # fmt: skip
    assert read[0].training_s == 75.0
    rows[2]["training_s"] = 150.0  # as at the end
    (run / "evaluations.json").write_text(json.dumps(content))
    with pytest.raises(RunDirectoryError, match=r"^evaluations\.json is damaged: its training_s do not rise$"):
        read_run(run)
    rows[0].pop("steps")
    (run / "evaluations.json").write_text(json.dumps(content))
    with pytest.raises(RunDirectoryError, match=r"^evaluations\.json is damaged$"):
        read_run(run)


def test_folders_that_lie_deep_in_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(1200):
        os.mkdir("d")
        os.chdir("d")
    os.chdir(tmp_path)
    runs, left_out = read_runs([tmp_path])
    assert runs == []
    assert list(left_out.values()) == ["no run and no monitor.csv lies in it"]
    try:
        shutil.rmtree(tmp_path / "d")
    except RecursionError:  # pytest could not remove it either
        subprocess.run(["rm", "-rf", tmp_path / "d"], check=True)


def test_reading_needs_no_torch(runs: Path) -> None:
    program = (
        "import sys\nfrom a3c_zoo.store.run_records import read_runs\n"
        "runs, left_out = read_runs(sys.argv[1:])\nassert len(runs) == 3 and not left_out\n"
        "print([name for name in ('torch', 'gymnasium', 'scipy', 'matplotlib', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program, str(runs)], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# Monitors of stable-baselines3's users


def play(env: Any, episodes: int) -> int:
    """Plays random episodes and returns the steps of the last one."""
    for seed in range(episodes):
        env.reset(seed=seed)
        env.action_space.seed(seed)
        over, steps = False, 0
        while not over:
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            over, steps = terminated or truncated, steps + 1
    env.close()
    return steps


def test_the_monitors_of_several_environments(tmp_path: Path) -> None:
    folder = tmp_path / "a2c" / "CartPole-v1_3"
    folder.mkdir(parents=True)
    for rank in range(2):
        play(Monitor(gymnasium.make("CartPole-v1"), str(folder / str(rank)), info_keywords=()), 5)
    read = read_run(folder)
    assert (read.method, read.seed, read.env, read.is_ours) == ("a2c", 3, "cartpole", False)
    assert (read.settings, read.outcome) == ({}, None)
    x, y = ts2xy(load_results(str(folder)), X_TIMESTEPS)
    assert read.curve.steps.tolist() == x.tolist()
    assert read.curve.returns.tolist() == y.tolist()
    assert read.curve.seconds == pytest.approx(load_results(str(folder))["t"], abs=1e-6)
    assert [each.path for each in read_runs([tmp_path])[0]] == [folder]


def test_more_columns_with_commas_in_them(tmp_path: Path) -> None:
    (tmp_path / "monitor.csv").write_text(f'{HEADER}r,l,t,note\r\n1.5,2,0.5,"a, b"\r\n2.5,3,0.7,c\r\n')
    read = read_run(tmp_path)
    assert read.curve.returns.tolist() == [1.5, 2.5]
    assert read.curve.steps.tolist() == [2, 5]
    assert (f"{read.method}_{read.seed}", read.env) == (tmp_path.name, "cartpole")


@pytest.mark.parametrize("end", ["\n\n", "\r\r\n", "\r\n\r\n", "\n \n"])
def test_blank_lines_of_a_monitor_are_skipped(end: str, tmp_path: Path) -> None:
    text = "".join(line + end for line in (HEADER.strip(), "r,l,t", "1.5,2,0.5", "2.5,3,0.7"))
    (tmp_path / "monitor.csv").write_bytes(text.encode())
    theirs = load_results(str(tmp_path))
    read = read_run(tmp_path)
    assert read.curve.returns.tolist() == theirs["r"].tolist() == [1.5, 2.5]
    assert read.curve.steps.tolist() == [2, 5]
    (tmp_path / "monitor.csv").write_bytes(text.encode() + b"4.5,")  # the monitor is being written
    assert read_run(tmp_path).curve.returns.tolist() == [1.5, 2.5]


MEASURED = """
import resource, sys
from pathlib import Path
from a3c_zoo.store.run_records import read_run
from a3c_zoo.store.tables import read_evaluations
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
read_run(Path(sys.argv[1]))
read_evaluations(Path(sys.argv[1]) / "evaluations.csv")
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


def test_a_table_costs_a_few_times_its_size(tmp_path: Path) -> None:
    """Lists of lists cost fifty times the size."""
    rows = 400_000
    (tmp_path / "0.monitor.csv").write_text(f"{HEADER}r,l,t\n" + "".join(f"{n % 500},20,{n}\n" for n in range(rows)))
    played = "".join(f"{n // 20},{n // 20},sampled,{n % 500},20\n" for n in range(rows))
    (tmp_path / "evaluations.csv").write_text(f"step,seconds,mode,return,length\n{played}")
    size = sum(file.stat().st_size for file in tmp_path.iterdir())
    done = subprocess.run([sys.executable, "-c", MEASURED, str(tmp_path)], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 10 * size


@pytest.mark.parametrize(("name", "read"), [("monitor.csv", read_monitor), ("evaluations.csv", read_played)])
def test_a_table_beyond_the_free_memory_is_not_read(
    name: str, read: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("a3c_zoo.files.available_memory", lambda: 1000)
    (tmp_path / name).write_text("x" * 100)
    with pytest.raises(RunDirectoryError, match=rf"{name} .*it has 100 bytes, and 1,000 bytes of memory are free"):
        read(tmp_path / name)


@pytest.mark.parametrize(("name", "read"), [("monitor.csv", read_monitor), ("evaluations.csv", read_played)])
def test_a_table_without_a_line_end(name: str, read: Callable[[Path], object], tmp_path: Path) -> None:
    (tmp_path / name).touch()
    os.truncate(tmp_path / name, 10 << 20)
    with pytest.raises(RunDirectoryError, match=rf"{name} .*it has a line of more than 65,536 characters"):
        read(tmp_path / name)


@pytest.mark.parametrize(("name", "read"), [("monitor.csv", read_monitor), ("evaluations.csv", read_played)])
def test_a_table_over_one_gib_is_not_read(name: str, read: Callable[[Path], object], tmp_path: Path) -> None:
    (tmp_path / name).touch()
    os.truncate(tmp_path / name, (1 << 30) + 1)  # sparse: it takes no room
    with pytest.raises(RunDirectoryError, match=rf"{name} .*larger than 1,024 MiB"):
        read(tmp_path / name)


def test_monitors_of_different_environments(tmp_path: Path) -> None:
    for rank, name in enumerate(("CartPole-v1", "Acrobot-v1")):
        (tmp_path / f"{rank}.monitor.csv").write_text(f"{HEADER.replace('CartPole-v1', name)}r,l,t\n")
    with pytest.raises(RunDirectoryError, match="of different environments: Acrobot-v1, CartPole-v1"):
        read_run(tmp_path)


@pytest.mark.parametrize(
    ("env_id", "name", "steps"),
    [
        ("CartPole-v1", "cartpole", 4001),
        ("PongNoFrameskip-v4", "pong", 1001),  # 4,001 frames: the last step has one
        ("SpaceInvadersNoFrameskip-v4", "atari:space_invaders", 1001),
        ("ALE/Pong-v5", "gym:ALE/Pong-v5", 1001),  # with sticky actions it is another game
        ("Acrobot-v1", "gym:Acrobot-v1", 4001),
    ],
)
def test_frames_become_steps(env_id: str, name: str, steps: int, tmp_path: Path) -> None:
    (tmp_path / "monitor.csv").write_text(f"{HEADER.replace('CartPole-v1', env_id)}r,l,t\n-20.0,4001,9.5\n")
    read = read_run(tmp_path)
    assert (read.env, read.curve.lengths.tolist()) == (name, [steps])
    assert read_run(tmp_path, frame_skip=1).curve.lengths.tolist() == [4001]


def test_frames_of_an_atari_game_as_stable_baselines_counts_them(tmp_path: Path) -> None:
    pytest.importorskip("cv2")
    from stable_baselines3.common.atari_wrappers import AtariWrapper

    gymnasium.register_envs(__import__("ale_py"))
    monitored = Monitor(gymnasium.make("PongNoFrameskip-v4"), str(tmp_path / "0"))
    steps = play(AtariWrapper(monitored), 1)
    (length,) = read_run(tmp_path).curve.lengths
    assert steps <= length <= steps + 10  # no-ops at the start are frames too, up to 30


# Curves


def test_a_running_mean_by_hand() -> None:
    assert running_mean(np.array([2, 4, 9, 1]), 2).tolist() == [2.0, 3.0, 6.5, 5.0]
    assert running_mean(np.array([2, 4, 9]), 100).tolist() == [2.0, 3.0, 5.0]
    assert running_mean(np.array([]), 3).tolist() == []
    after = running_mean(np.array([-1e19, *[473.9] * 7]), 3)  # of a run that diverged at first
    assert after[3:].tolist() == pytest.approx([473.9] * 5)
    values = np.random.default_rng(0).normal(size=23)
    for window in range(1, 30):
        expected = [values[max(0, last - window) : last].mean() for last in range(1, 24)]
        assert running_mean(values, window).tolist() == pytest.approx(expected)
    assert running_mean(np.array([], np.float64), 5).tolist() == []


def test_a_threshold_is_reached_by_a_full_window() -> None:
    told = curve([10, 20, 30, 40], [9.0, 5.0, 7.0, 9.0])
    assert reached(told, 6.0, window=2) == Moment(20, 2.0)  # (9 + 5) / 2; 9 alone is not two episodes
    assert reached(told, 8.0, window=2) == Moment(40, 4.0)
    assert reached(told, 8.1, window=2) is None
    assert reached(told, 1.0, window=5) is None
    third = curve([1, 2, 3], [0.1, 0.1, 0.1])
    assert reached(third, 0.1, window=3) == Moment(3, 0.3)  # however the digits of the sum come out


def test_rows_that_workers_told_out_of_order() -> None:
    rows = [np.array(row, np.float64) for row in ([8, 5, 6], [3.0, 1.0, 2.0], [30, 10, 20], [3, 1, 2])]
    ordered = Curve.ordered(*rows)
    assert ordered.returns.tolist() == [10, 20, 30]
    assert ordered.steps.tolist() == [5, 6, 8]
    late = Curve.ordered(np.array([5.0, 4.0]), np.array([1.0, 2.0]), np.zeros(2), np.ones(2))
    assert late.steps.tolist() == [5, 5]
