"""Runs of stable-baselines3 and CleanRL that left TensorBoard's event files, beside our own in `compare --from`."""

from __future__ import annotations

import json
import os
import re
import struct
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stable_baselines3
from torch.utils.tensorboard import SummaryWriter

from a3c_zoo.errors import RunDirectoryError
from a3c_zoo.records import EvaluatorResult, Progress
from a3c_zoo.report.plot import plot
from a3c_zoo.runs.sb3_tags import METRICS, sb3_evaluation, sb3_scalars
from a3c_zoo.store import foreign_runs
from a3c_zoo.store.run_records import read_run, read_runs
from tests.toys_baselines import train
from tests.toys_runs import command_line

Captured = pytest.CaptureFixture[str]
NAME = "CartPole-v1__ppo__7__1690000000"
TABLE = "|param|value|\n|-|-|\n|env_id|CartPole-v1|\n|seed|7|"


def cleanrl(
    folder: Path, returns: Sequence[float], lengths: Sequence[float] = (), step: int = 40, table: str = TABLE
) -> Path:
    """A run as CleanRL 1.0.0's ppo.py writes it: these tags, this name of the folder, a table of hyperparameters."""
    writer = SummaryWriter(str(folder))
    writer.add_text("hyperparameters", table)
    for number, value in enumerate(returns):
        at = step * (number + 1)
        writer.add_scalar("charts/episodic_return", value, at)
        writer.add_scalar("charts/episodic_length", (lengths or returns)[number], at)
        writer.add_scalar("losses/value_loss", 0.5, at)
        writer.add_scalar("charts/SPS", 1000, at)
    writer.close()
    return folder


def test_a_run_of_cleanrl(tmp_path: Path) -> None:
    returns = [float(20 + n) for n in range(120)]
    run = read_run(cleanrl(tmp_path / "runs" / NAME, returns))
    assert (run.method, run.env, run.seed, run.is_ours, run.is_smoothed) == ("ppo", "cartpole", 7, False, False)
    assert run.curve.returns.tolist() == returns
    assert run.curve.lengths.tolist() == returns
    assert run.curve.steps.tolist() == [40 * (n + 1) for n in range(120)]
    assert 0 <= run.curve.seconds[0] <= run.curve.seconds[-1] < 60
    assert run.evaluations == ()
    assert run.their_settings == {"env_id": "CartPole-v1"}  # without the seed
    assert read_runs([tmp_path])[0][0].path.name == NAME
    table = plot(tmp_path, tmp_path / "x.csv").path.read_text().splitlines()
    assert table[-1].split(",")[3:] == ["4800", str(np.mean(returns[-100:]))]


@pytest.mark.usefixtures("plain_reports")
def test_settings_of_cleanrl_differ_and_a_strangers_table_is_bounded(tmp_path: Path, capsys: Captured) -> None:
    for name, rate in (("ppo", "0.0003"), ("a2c", "0.0007")):
        table = ["|param|value|", "|-|-|", f"|learning_rate|{rate}|", "|seed|7|", "|env_id|CartPole-v1|"]
        cleanrl(tmp_path / "runs" / NAME.replace("ppo", name), [500.0], table="\n".join(table))
    out = tmp_path / "report"
    assert command_line("compare", "--from", str(tmp_path / "runs"), "--out", str(out)) == 0
    capsys.readouterr()
    assert "| learning\\_rate | 0.0007 | 0.0003 |" in (out / "report.md").read_text()
    rows = [f"|name{number}|{'x' * 1000}|" for number in range(1000)]
    bad = ["no table", "|-|-|", "|\x1b[31mred|a|b|", "||", "|", "text", *rows]
    settings = read_run(cleanrl(tmp_path / "bad" / NAME, [1.0], table="\n".join(bad))).their_settings
    assert len(settings) < 200
    assert settings["name0"] == "x" * 200
    assert "\x1b" not in "".join(settings)
    assert "".join(settings.values()).isprintable()


def test_names_of_games(tmp_path: Path) -> None:
    run = read_run(cleanrl(tmp_path / "PongNoFrameskip-v4__dqn_atari__1__1690000000", [-21.0], [3056.0]))
    assert (run.method, run.env, run.seed, run.curve.lengths.tolist()) == ("dqn_atari", "pong", 1, [764])
    run = read_run(cleanrl(tmp_path / "ALE" / "Breakout-v5__c51__3__1690000000", [1.0], [200.0]))
    assert (run.method, run.env, run.seed) == ("c51", "gym:ALE/Breakout-v5", 3)
    assert read_run(cleanrl(tmp_path / "of-my-own", [1.0])).env == "unknown"
    run = read_run(cleanrl(tmp_path / "tb" / "ALE-Breakout-v5" / "a2c_3", [1.0], [200.0]))  # of RL Zoo
    assert (run.method, run.env, run.seed, run.curve.lengths.tolist()) == ("a2c", "gym:ALE/Breakout-v5", 3, [50])


@pytest.fixture(scope="module")
def sb3_alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A script of stable-baselines3 alone: Monitor and EvalCallback into one folder, TensorBoard into another."""
    import gymnasium
    from stable_baselines3 import A2C
    from stable_baselines3.common.callbacks import EvalCallback
    from stable_baselines3.common.monitor import Monitor

    folder = tmp_path_factory.mktemp("sb3")
    logs = folder / "logs" / "a2c" / "CartPole-v1_1"
    logs.mkdir(parents=True)
    callback = EvalCallback(
        Monitor(gymnasium.make("CartPole-v1")), n_eval_episodes=3, eval_freq=150, log_path=str(logs), verbose=0
    )
    env = Monitor(gymnasium.make("CartPole-v1"), str(logs / "0"))
    model = A2C("MlpPolicy", env, device="cpu", seed=1, tensorboard_log=str(folder / "tb" / "CartPole-v1"))
    model.learn(600, callback, log_interval=10)
    env.close()
    return folder


def test_event_files_of_sb3(sb3_alone: Path, tmp_path: Path) -> None:
    (run,), left_out = read_runs([sb3_alone / "tb"])
    assert left_out == {}
    assert (run.method, run.env, run.seed, run.is_smoothed) == ("A2C", "cartpole", 1, True)
    assert run.curve.steps.tolist() == list(range(50, 601, 50))
    (monitored,), _ = read_runs([sb3_alone / "logs"])
    last = [at for at in monitored.curve.steps.tolist() if at <= 600]
    assert run.curve.returns[-1] == pytest.approx(np.mean(monitored.curve.returns[: len(last)][-100:]))
    drawn = plot(run.path, tmp_path / "x.csv").path.read_text().splitlines()[-1].split(",")  # not averaged again
    assert float(drawn[-1]) == pytest.approx(run.curve.returns[-1], rel=1e-6)


def test_means_are_drawn_as_means_and_not_as_episodes(tmp_path: Path) -> None:
    episodes, means = cleanrl(tmp_path / NAME, [10.0, 20.0]), tmp_path / "CartPole-v1/A2C_1"
    writer = SummaryWriter(str(means))
    for step in (100, 200):
        writer.add_scalar("rollout/ep_rew_mean", step / 10, step)
        writer.add_scalar("rollout/ep_len_mean", step / 10, step)
    writer.close()
    for runs, spans in ((means, "100"), ([episodes, means], "50 or 100"), (episodes, "50")):
        text = plot(runs, tmp_path / "x.svg", kind="episode-length", force=True).path.read_text()
        assert f">episode length (steps), mean of {spans}<" in text
    options: list[dict[str, Any]] = [{"x": "episodes"}, {"window": 20}]
    for each in options:
        drawn = plot([episodes, means], tmp_path / "x.svg", force=True, **each)
        assert [run.path for run in drawn.runs] == [episodes]
        assert drawn.left_out == {
            means: "its event files have means and no episodes: leave out --x episodes and --window"
        }


@pytest.mark.usefixtures("plain_reports")
def test_side_by_side_with_ours(sb3_alone: Path, tmp_path: Path, capsys: Captured) -> None:
    ours = train(tmp_path / "runs", "sb3-a2c", 600)
    assert (ours / "tensorboard").is_dir()
    theirs = cleanrl(tmp_path / "cleanrl" / NAME, [500.0] * 120)
    out = tmp_path / "report"
    folders = [str(ours.parent), str(theirs.parent), str(sb3_alone)]
    assert command_line("compare", "--from", *folders, "--env", "cartpole", "--out", str(out), "--json") == 0
    results = json.loads(capsys.readouterr().out)
    runs = {run["method"]: run for run in results["runs"]}
    assert runs.keys() == {"sb3-a2c", "ppo", "a2c", "A2C"}  # the folder tensorboard of ours is no run
    assert runs["ppo"]["steps_to_threshold"] == 100 * 40
    assert runs["ppo"]["final_return"] is None
    assert runs["ppo"]["final_return_greedy"] is None
    assert runs["a2c"]["final_return_greedy"] is not None  # what EvalCallback played
    for method in ("ppo", "A2C"):
        assert {runs[method][key] for key in ("total_s", "cpu_s", "peak_memory_mib", "calibration_s")} == {None}
    methods = results["environments"]["cartpole"]["methods"]
    assert "final_return" not in methods["ppo"]
    assert "final_return_greedy" not in methods["ppo"]
    assert "steps_to_threshold" in methods["ppo"]
    assert "steps_to_threshold" not in methods["A2C"]  # means of up to 100 episodes do not tell
    assert not {"A2C", "ppo"} & {
        name
        for pair in results["environments"]["cartpole"]["against"]
        for name in (pair["method"], pair["other"])
        if {"final_return", "final_return_greedy"} & pair.keys()
    }
    assert results["no_seconds"] == "the machine of the other programs' runs is not known"
    page = (out / "report.md").read_text()
    assert "Not evaluated" in page
    assert NAME.replace("_", r"\_") in page
    assert "their curves are training returns" in page
    assert "A2C reached" not in page
    assert "| torch threads of sb3-a2c | 1 |" in page
    assert re.search(r"\| env\\_id \|( –)? .*CartPole-v1", page)
    assert results["settings"]["cartpole"]["env_id"]["values"]["ppo"] == "CartPole-v1"


def events(folder: Path, number: int, steps: Sequence[int], first: float = 0.0, **options: Any) -> None:
    """An event file, the `number`th of a second, with a return for each step: first, first + 1, …"""
    start_s = 1.7e9 + 1000 * number
    writer = SummaryWriter(str(folder), filename_suffix=f".{number}", **options)
    for place, step in enumerate(steps):
        writer.add_scalar("charts/episodic_return", first + place, step, walltime=start_s + place)
        writer.add_scalar("charts/episodic_length", 10 + first + place, step, walltime=start_s + place)
    writer.close()
    (file,) = folder.glob(f"*.{number}")
    content = file.read_bytes()  # the first event has the true time
    length = struct.unpack_from("<Q", content)[0]
    version = struct.pack("<Bd", 9, start_s) + content[21 : 12 + length]
    file.write_bytes(content[:12] + version + content[12 + length :])
    file.rename(folder / f"events.out.tfevents.1700000000.host.7.{number}")


def test_a_program_that_goes_on_from_an_earlier_step(tmp_path: Path) -> None:
    """Three episodes at steps 10, 20 and 30, then a crash; the second file goes on from step 20."""
    events(tmp_path, 9, [10, 20, 20, 30])
    events(tmp_path, 10, [20, 30, 40], first=50.0)  # by its name it would come first
    curve = read_run(tmp_path).curve
    assert curve.steps.tolist() == [10, 20, 30, 40]
    assert curve.returns.tolist() == [0, 50, 51, 52]
    assert curve.lengths.tolist() == [10, 60, 61, 62]
    assert curve.seconds.tolist() == [0, 0, 1, 2]  # the break between the two files is no training
    table = plot(tmp_path, tmp_path / "x.csv").path.read_text().splitlines()
    assert [row.split(",")[3] for row in table[1:]] == ["10", "20", "30", "40"]


def test_a_training_that_begins_again(tmp_path: Path) -> None:
    events(tmp_path, 1, [0, 10, 20])
    events(tmp_path, 2, [0, 10], first=7.0)
    curve = read_run(tmp_path).curve
    assert (curve.steps.tolist(), curve.returns.tolist(), curve.seconds.tolist()) == ([0, 10], [7, 8], [0, 1])


def test_a_training_that_begins_again_in_one_file(tmp_path: Path) -> None:
    events(tmp_path, 1, [10, 20, 30, 20, 40])
    curve = read_run(tmp_path).curve
    assert (curve.steps.tolist(), curve.returns.tolist()) == ([10, 20, 40], [0, 3, 4])
    assert curve.seconds.tolist() == [0, 1, 2]  # 2 seconds at step 30 were for nothing


def test_a_file_that_says_from_which_step_it_goes_on(tmp_path: Path) -> None:
    events(tmp_path, 1, [10, 20, 30])
    events(tmp_path, 2, [40], first=7.0, purge_step=15)
    curve = read_run(tmp_path).curve
    assert (curve.steps.tolist(), curve.returns.tolist()) == ([10, 40], [0, 7])


def test_a_file_that_ends_with_zeros(tmp_path: Path) -> None:
    """As after a crash of the machine. A record of no length is none: a sparse file would have millions of them."""
    events(tmp_path, 1, [10, 20, 30])
    (file,) = tmp_path.iterdir()
    with file.open("ab") as appended:
        appended.truncate(file.stat().st_size + 64 * 2**20)
    begun = time.process_time()
    assert read_run(tmp_path).curve.steps.tolist() == [10, 20, 30]
    assert time.process_time() - begun < 2  # 4 million events took 7 s


def test_episodes_of_one_step_and_a_missing_length(tmp_path: Path) -> None:
    writer = SummaryWriter(str(tmp_path))
    for step, length in ((100, 3), (100, 4), (200, None), (300, 5)):
        writer.add_scalar("charts/episodic_return", 1.0, step)
        if length is not None:
            writer.add_scalar("charts/episodic_length", length, step)
    writer.close()
    assert read_run(tmp_path).curve.lengths.tolist() == [3, 4, 0, 5]


TENSORS: list[tuple[str, dict[str, Any]]] = [
    ("DT_FLOAT", {"float_val": [2.5]}),
    ("DT_FLOAT", {"tensor_content": struct.pack("<f", 2.5)}),
    ("DT_DOUBLE", {"double_val": [2.5]}),
    ("DT_INT64", {"tensor_content": struct.pack("<q", 2)}),
    ("DT_INT32", {"int_val": [2]}),
    ("DT_HALF", {"half_val": [1]}),
    ("DT_FLOAT", {"float_val": [1.0, 2.0]}),
    ("DT_STRING", {"string_val": [b"2.5"]}),
    ("99", {}),
]


@pytest.mark.parametrize(("kind", "content"), TENSORS)
def test_scalars_that_are_tensors(kind: str, content: dict[str, Any], tmp_path: Path) -> None:
    """TensorFlow 2 writes them. The shape claims a tensor of any size, and is not believed."""
    from tensorboard.compat.proto import event_pb2, tensor_pb2, tensor_shape_pb2, types_pb2

    number = int(kind) if kind.isdecimal() else types_pb2.DataType.Value(kind)
    huge = tensor_shape_pb2.TensorShapeProto(dim=[tensor_shape_pb2.TensorShapeProto.Dim(size=1 << 40)])
    events = event_pb2.Event(step=10)
    value = events.summary.value.add(tag="charts/episodic_return")
    value.tensor.CopyFrom(tensor_pb2.TensorProto(dtype=number, tensor_shape=huge, **content))
    (tmp_path / "events.out.tfevents.1").write_bytes(record(b"") + record(events.SerializeToString()))
    if (kind, content) in TENSORS[:5]:
        assert read_run(tmp_path).curve.returns.tolist() == [2.0 if "INT" in kind else 2.5]
    else:
        with pytest.raises(RunDirectoryError, match=rf"charts/episodic_return is a tensor of {kind}; plain scalars"):
            read_run(tmp_path)


def test_a_name_that_a_spreadsheet_would_take_for_a_formula(tmp_path: Path) -> None:
    folder = cleanrl(tmp_path / "=cmd|' -C calc'!A1", [1.0])
    row = plot(folder, tmp_path / "x.csv").path.read_text().splitlines()[1]
    assert row.startswith("'=cmd|' -C calc'!A1,'=cmd|")


def record(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + b"0000" + data + b"0000"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "its event files have neither charts/episodic_return nor rollout/ep_rew_mean"),
        (b"\xff" * 400, "its event files have neither"),  # the first record claims 2^64 bytes
        (record(b"\xff" * 40), "cannot be read: a record is damaged"),
        (record(b"") + record(b"charts/episodic_return"), "cannot be read: a record is damaged"),
        (record(b"") * 5, "its event files have neither"),
    ],
)
def test_a_damaged_file(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "events.out.tfevents.1").write_bytes(content)
    with pytest.raises(RunDirectoryError, match=message) as raised:
        read_run(tmp_path)
    assert "\n" not in str(raised.value)


def test_a_file_that_ends_in_the_middle_of_a_record(tmp_path: Path) -> None:
    folder = cleanrl(tmp_path / NAME, [1.0, 2.0, 3.0])
    (file,) = folder.iterdir()
    content = file.read_bytes()
    file.write_bytes(content[: content.rindex(b"charts/episodic_length")])
    run = read_run(folder)
    assert run.curve.returns.tolist() == [1.0, 2.0, 3.0]
    assert run.curve.lengths.tolist() == [1, 2, 0]


def test_what_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = cleanrl(tmp_path / NAME, [1.0, float("nan")])
    with pytest.raises(RunDirectoryError, match="a number that is not finite, or too great"):
        read_run(folder)
    (file,) = folder.iterdir()
    monkeypatch.setattr(foreign_runs, "MAX_EVENTS", 10)
    with pytest.raises(RunDirectoryError, match="it is larger than"):
        read_run(folder)
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunDirectoryError, match="it is a link"):
        read_run(folder)
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(RunDirectoryError, match="it is no regular file"):
        read_run(folder)


def test_the_tags_of_sb3_are_those_that_it_writes() -> None:
    """And their values, of PPO and of A2C."""
    package = Path(stable_baselines3.__file__).parent
    written = "".join(path.read_text(encoding="utf-8") for path in package.rglob("*.py"))
    told = EvaluatorResult(step=40, greedy_return=3.0, sampled_return=2.0, best_return=2.0, best_step=40)
    metrics = {"loss_policy": 0.25, "loss_value": 4.0, "entropy": 0.5, "loss_total": 2.0, "staleness": 1.0}
    progress = Progress(50, 5, 2, 0.5, 90.0, 7.0, 11.0, 5, metrics, told)
    expected = {
        "rollout/ep_rew_mean": 7.0,
        "rollout/ep_len_mean": 11.0,
        "time/fps": 100.0,
        "train/policy_loss": 0.25,
        "train/value_loss": 4.0,
        "train/entropy_loss": -0.5,
        "train/loss": 2.0,
    }
    assert sb3_scalars(progress) == expected
    of_ppo = sb3_scalars(replace(progress, metrics={**metrics, "clip_fraction": 0.1}))
    changed = {"train/policy_gradient_loss": expected.pop("train/policy_loss"), "train/clip_fraction": 0.1}
    assert of_ppo == expected | changed
    assert sb3_evaluation(told) == {"eval/mean_reward": 3.0}
    for tag in [*of_ppo, *METRICS, *sb3_evaluation(told)]:
        assert f'record("{tag}"' in written, tag
