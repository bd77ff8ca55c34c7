"""`a3c-zoo train` as users run it: it solves CartPole and writes all files of the run directory."""

from __future__ import annotations

import contextlib
import inspect
import json
import math
import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click
import pytest
import torch
import yaml
from stable_baselines3.common.monitor import load_results

import a3c_zoo
from a3c_zoo.cli.summary import summary
from a3c_zoo.config.models import TRAIN_OPTIONS
from a3c_zoo.plugins.entries import load_object
from a3c_zoo.plugins.module_files import MODULE_FILES
from a3c_zoo.plugins.next_command import next_command
from a3c_zoo.records import Outcome, Reason
from a3c_zoo.store.run import Run
from tests.toys_runs import Running, checkpoint, command_line, environ, episodes, scalars, toy_path
from tests.waits import LIMIT_S

TAGS = {
    "episode/return_mean_100",
    "episode/length_mean_100",
    "speed/steps_per_s",
    "train/advantage",
    "train/value",
    "train/batch_return",
    "train/loss_policy",
    "train/loss_value",
    "train/entropy",
    "train/loss_total",
    "train/explained_variance",
    "train/grad_norm",
    "train/learning_rate",
    "train/staleness",
    # Of stable-baselines3:
    "rollout/ep_rew_mean",
    "rollout/ep_len_mean",
    "time/fps",
    "train/policy_loss",
    "train/value_loss",
    "train/entropy_loss",
    "train/loss",
}


def plain(value: Any) -> bool:
    """Tensors, numbers, strings, lists and dicts of them, and no more."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and plain(each) for key, each in value.items())
    if isinstance(value, list):
        return all(plain(each) for each in value)
    return value is None or isinstance(value, bool | int | float | str | torch.Tensor)


def test_cartpole_is_solved(tmp_path: Path) -> None:
    """The main job of the project, as the README shows it, with its output in a pipe."""
    with Running("train", "cartpole", "--seed", 1, "--time-limit", "5m", "--name", "x", folder=tmp_path) as running:
        assert running.exit_status() == 0, running.stderr
        running.assert_nothing_left()
    assert running.stderr == ""
    run = tmp_path / "runs/x"
    first, *lines = running.stdout.splitlines()
    assert first == "a3c on cartpole, seed 1, 2 workers → runs/x"
    assert "the last 100 episodes reached 475: playing 100 on fresh seeds" in lines
    duration = r"([\d.]+ s|\d+ min \d\d s)"
    assert re.fullmatch(rf"Solved after {duration} of training, {duration} in all\.", lines[-5])
    assert lines[-1].split() == ["next", "a3c-zoo", "play", "runs/x"]
    assert "\x1b" not in running.stdout

    outcome = json.loads((run / "outcome.json").read_text())
    assert outcome["solved"]
    assert outcome["reason"] == "solved"
    assert outcome["mean_return_100"] >= 475
    assert outcome["evaluation"]["mean_return"] >= 475
    assert outcome["evaluation"]["episodes"] == 100
    assert not outcome["evaluation"]["deterministic"]
    parts = [outcome[f"{part}_s"] for part in ("training", "evaluation", "checkpoint", "startup")]
    assert all(seconds > 0 for seconds in parts)
    # Closing the processes is none of these parts, and takes longer on a busy machine.
    assert sum(parts) == pytest.approx(outcome["total_s"], abs=0.1, rel=0.05)
    assert outcome["steps_per_s"] == pytest.approx(outcome["steps"] / outcome["training_s"])

    frame = load_results(str(run))
    assert len(frame) == outcome["episodes"]
    assert frame["r"].tolist()[-100:] == frame["l"].tolist()[-100:]
    assert sum(row["r"] for row in episodes(run)[-100:]) / 100 == pytest.approx(outcome["mean_return_100"])

    points = scalars(run)
    assert points.keys() >= TAGS
    assert all(math.isfinite(value) for tag in TAGS for _, value in points[tag])
    step, mean = points["episode/return_mean_100"][-1]
    assert step == outcome["steps"]
    assert mean == pytest.approx(outcome["mean_return_100"])
    assert points["rollout/ep_rew_mean"] == points["episode/return_mean_100"]
    assert points["train/policy_loss"] == points["train/loss_policy"]
    assert [-value for _, value in points["train/entropy_loss"]] == [value for _, value in points["train/entropy"]]
    assert points["time/fps"][-1][1] == pytest.approx(outcome["steps"] / outcome["training_s"], rel=0.05)

    saved = checkpoint(run)
    assert plain(saved)
    assert saved["session"]["steps"] == outcome["steps"] == int(saved["agent"]["counters"][:, 0].sum())
    assert saved["agent"]["optimizer"].keys() == {"step", "exp_avg", "exp_avg_sq"}
    assert int(saved["agent"]["optimizer"]["step"]) <= outcome["updates"]

    meta = json.loads((run / "meta.json").read_text())
    assert (meta["env"], meta["agent"], meta["seed"], meta["serial"]) == ("cartpole", "a3c", 1, False)
    assert meta["versions"]["torch"] == version("torch")
    config = yaml.safe_load((run / "config.yml").read_text())
    assert config["run"]["seed"] == 1
    assert config["run"]["time_limit_s"] == 300
    # The policy is what the outcome says, in another process, on other seeds.
    assert a3c_zoo.load_agent(run).predict([0.0, 0.0, 0.1, 1.0], deterministic=True)[0] == 1


def test_each_option_for_a_key_has_a_parameter_of_its_name() -> None:
    assert TRAIN_OPTIONS.keys() <= inspect.signature(a3c_zoo.train).parameters.keys()


def helps(command: str) -> dict[str | None, str | None]:
    """The name of each option of a command → its help."""
    options = load_object(f"a3c_zoo.cli.{command}:command").params
    return {option.name: option.help for option in options if isinstance(option, click.Option)}


def test_a_resume_keeps_what_it_is_not_given_and_its_help_says_so() -> None:
    resumable = [key for key, option in TRAIN_OPTIONS.items() if option.on_resume]
    of_resume = helps("resume")
    assert of_resume.keys() >= set(resumable)
    assert [key for key in resumable if not (of_resume[key] or "").endswith("  [default: as before]")] == []
    assert helps("train")["steps"] == "Stop after at least N agent steps.  [default: the set's budget]"


def test_quiet_says_the_end_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = ["--serial", "--steps", 600, "--name", "x", "--time-limit", "2m", "--episodes", 1000]
    assert command_line("train", "cartpole", "--quiet", *options) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out.startswith("Ended, not solved: at least 600 steps done.\n  training    ")
    assert captured.out.endswith("next        a3c-zoo train --resume runs/x --steps 1200\n")
    assert command_line("list", "runs", "--json") == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert (listed["name"], listed["status"], listed["solved"]) == ("x", "steps", False)
    assert command_line("train", "--quiet", "--resume", "runs/x", "--steps", 1200) == 0
    assert capsys.readouterr().out.startswith("Ended, not solved: at least 1,200 steps done.\n")


@pytest.mark.parametrize(
    ("reason", "command"),
    [
        ("solved", "play runs/x"),
        ("stop-return", "play runs/x"),
        ("interrupted", "train --resume runs/x"),
        ("plugin", "train --resume runs/x"),
        ("steps", "train --resume runs/x --steps 6000000"),  # more than the 3,000,128 that are done
        ("episodes", "train --resume runs/x --episodes 200"),
        ("time-limit", "train --resume runs/x --time-limit 0.62s"),
    ],
)
def test_the_command_that_goes_on_has_a_budget_left(
    reason: Reason, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: dict[str, Any] = {"steps": 3_000_128, "episodes": 101, "training_s": 0.31, "mean_return_100": None}
    others: dict[str, Any] = dict.fromkeys(
        ("updates", "evaluation_s", "checkpoint_s", "startup_s", "total_s", "steps_per_s"), 0
    )
    outcome = Outcome(Path("runs/x"), reason == "solved", reason, "", evaluation=None, **done, **others)
    assert summary(outcome).splitlines()[-1] == f"  next        a3c-zoo {command}"
    elsewhere = summary(replace(outcome, run=Path("/data/runs/x"))).splitlines()[-1]
    command = command.replace("runs/x", "/data/runs/x --runs-dir /data/runs")
    assert elsewhere == f"  next        a3c-zoo {command}"


@pytest.mark.parametrize(
    ("typed", "folders", "repeated"),
    [
        (["."], "", "PYTHONPATH=. "),  # as the first command found a module here
        ([], ".", "PYTHONPATH=. "),  # as one that goes on does
        (["."], "/opt/lib", "PYTHONPATH=/opt/lib:. "),
        (["/my sims"], "/opt/lib", "PYTHONPATH='/opt/lib:/my sims' "),  # as the first command named a file there
        ([], "src:/opt/my lib", "PYTHONPATH='src:/opt/my lib' "),
        ([], ":/opt/lib", ""),  # likely set for every command
    ],
)
def test_the_next_command_finds_the_modules_of_this_one(
    typed: list[str], folders: str, repeated: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MODULE_FILES, "typed_folders", {f"/somewhere/{folder}": folder for folder in typed})
    monkeypatch.setenv("PYTHONPATH", folders)
    assert next_command("play x") == f"{repeated}a3c-zoo play x"


def test_the_next_command_finds_the_plugin_files_of_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", "")
    files = ["one.py", "", "my two.py", str(tmp_path / "three.py"), "three.py", "/there/four.py"]
    monkeypatch.setenv("A3C_ZOO_PLUGIN_FILES", ":".join(files))  # --plugin adds an absolute path
    named = "--plugin one.py --plugin 'my two.py' --plugin three.py --plugin /there/four.py"
    assert next_command("play x") == f"a3c-zoo play x {named}"


def test_the_command_that_goes_on_replaces_every_spent_limit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    limits = ["--steps", 600, "--episodes", 5, "--time-limit", "2m"]
    assert command_line("train", "cartpole", "--quiet", "--serial", *limits, "--name", "x") == 0
    shown = capsys.readouterr().out
    outcome = Run(tmp_path / "runs/x").outcome
    assert outcome is not None
    assert outcome.episodes < 100
    assert f", mean of the last {outcome.episodes} training episodes\n" in shown
    done = {"--steps": outcome.steps, "--episodes": outcome.episodes}
    used = [f"{name} {2 * done[name]}" for name, limit in (("--steps", 600), ("--episodes", 5)) if done[name] >= limit]
    assert shown.endswith(f"next        a3c-zoo train --resume runs/x {' '.join(used)}\n")
    more = ["--steps", 100 * outcome.steps, "--episodes", outcome.episodes + 5]
    assert command_line("train", "--quiet", "--resume", "x", *more) == 0
    assert " --steps " not in capsys.readouterr().out.splitlines()[-1]


def test_flags_win_over_files_and_overrides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yml").write_text("run: {seed: 5, workers: 3}\nagent: {gamma: 0.5}\nenv: {num_envs: 2}\n")
    options = ["--hyperparams", "mine.yml", "-o", "run.seed=6", "-o", "gamma=0.6", "--seed", 7, "--steps", 100]
    assert command_line("train", "cartpole", "--serial", "--quiet", "--name", "x", *options) == 0
    config = yaml.safe_load(Path("runs/x/config.yml").read_text())
    assert (config["run"]["seed"], config["run"]["workers"], config["agent"]["gamma"]) == (7, 3, 0.6)
    assert len(checkpoint(Path("runs/x"))["agent"]["workers"]) == 3


def in_terminal(
    folder: Path, *arguments: str, path: Path | None = None, variables: Mapping[str, str] = MappingProxyType({})
) -> tuple[int, str]:
    """Runs a command in a terminal of its own; returns its exit status and all that the terminal was sent."""
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "a3c_zoo", *arguments],
        cwd=folder,
        env=environ(path) | {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30", **variables},
        stdin=child,
        stdout=child,
        stderr=child,
        start_new_session=True,
    )
    os.close(child)
    killer = threading.Timer(LIMIT_S, process.kill)
    killer.start()
    received = b""
    with contextlib.suppress(OSError):  # Linux reports the end of a terminal as an error
        while data := os.read(parent, 65536):
            received += data
    os.close(parent)
    status = process.wait(LIMIT_S)
    killer.cancel()
    return status, received.decode()


def test_the_live_panel(tmp_path: Path) -> None:
    status, text = in_terminal(tmp_path, "train", "cartpole", "--time-limit", "2s", "--stop-return", "1e6")
    assert status == 0, text
    assert "Traceback" not in text
    words = ["steps/s", "episodes", "return, last 100", "training time", "budget", "a3c on cartpole, seed 0"]
    words += ["threshold", "best", "policy loss", "value loss", "entropy", "explained variance", "time of a step"]
    for word in (*words, "env ", "acting ", "learning ", "machine", " MiB"):
        assert word in text
    assert "at most" in text
    assert re.search(r"[▁▂▃▄▅▆▇█]", text)
    assert "Ended, not solved: 2 s are over." in text
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1  # the cursor comes back


def test_the_live_panel_shows_the_evaluator(tmp_path: Path) -> None:
    options = ["--serial", "--steps", "40000", "--stop-return", "30", "-o", "evaluation_every_steps=1000"]
    status, text = in_terminal(tmp_path, "train", "cartpole", *options)
    assert status == 0, text
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    assert re.search(r"evaluation +\d[\d.]* +greedy \d[\d.]*, best \d[\d.]* at step [\d,]+", plain)
    assert "the last 100 episodes reached 30: playing 100 on fresh seeds" in plain
    assert {len(line) for line in re.split(r"[\r\n]+", plain) if line.startswith(("╭", "│", "╰"))} == {78}
    assert "[bold]" not in plain


def test_an_error_leaves_the_terminal_whole(tmp_path: Path) -> None:
    options = ["-o", "env.fault=nan", "-o", "env.after=300", "-o", "env.step_s=0.002", "--stop-return", "9", "--serial"]
    status, text = in_terminal(tmp_path, "train", "toy", *options, path=toy_path(tmp_path / "toy"))
    assert status == 2
    assert "steps/s" in text
    assert "Error:\x1b[0m environment 'toy' returned an observation that is not" in text.rstrip().splitlines()[-1]
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1


@pytest.mark.slow
def test_a_reader_that_leaves_does_not_end_the_run(tmp_path: Path) -> None:
    """`a3c-zoo train … | head -1`: what nobody reads is dropped (more in tests/test_output.py)."""
    process = subprocess.Popen(
        [sys.executable, "-m", "a3c_zoo", "train", "cartpole", "--serial", "--steps", "3000", "--name", "x"],
        cwd=tmp_path,
        env=environ(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(LIMIT_S) == 0
    assert process.stderr.read() == b""
    process.stderr.close()
    assert json.loads((tmp_path / "runs/x/outcome.json").read_text())["reason"] == "steps"


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_ten_seeds_are_all_solved(tmp_path: Path) -> None:
    """The figure of the README."""
    seconds = []
    for seed in range(10):
        options = ("--seed", seed, "--steps", 250_000, "--time-limit", "5m", "--quiet")
        with Running("train", "cartpole", *options, folder=tmp_path) as running:
            assert running.exit_status(350) == 0
        assert running.stdout.startswith("Solved after "), f"seed {seed}: {running.stdout}"
        seconds.append(running.stdout.split()[2])
    assert len(seconds) == 10
    outcomes = [json.loads(path.read_text()) for path in (tmp_path / "runs").glob("*/outcome.json")]
    assert all(outcome["solved"] and outcome["evaluation"]["mean_return"] >= 475 for outcome in outcomes)
    assert all(len(episodes(path)) for path in (tmp_path / "runs").iterdir())


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [110, 111, 112, 113, 114])
def test_a_solved_policy_is_kept(seed: int, tmp_path: Path) -> None:
    """With an epsilon of 1e-5 in place of the set's 1e-3, one policy in three was lost again."""
    overrides = {"run.stop_when_solved": False}
    outcome = a3c_zoo.train("cartpole", seed=seed, steps=300_000, overrides=overrides, runs_dir=tmp_path)
    mean = load_results(str(outcome.run))["r"].rolling(40).mean()
    assert mean[(mean > 450).idxmax() :].min() > 300


@pytest.mark.parametrize(("workers", "is_told", "options"), [(8, False, ()), (9, True, ()), (9, False, ("--serial",))])
def test_far_more_workers_than_those_of_the_set(
    workers: int, is_told: bool, options: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """cartpole/a3c.yml is for two workers. Its learning rate is doubted for more than eight, unless they take turns."""
    with contextlib.chdir(tmp_path):
        assert command_line("train", "cartpole", "--steps", 300, "--workers", workers, "--name", "x", *options) == 0
    text = rf"cartpole/a3c.yml:\d+ has a learning rate for 2 workers, \S+\. It may be too high for {workers}: if"
    assert bool(re.search(text, " ".join(capsys.readouterr().out.split()))) == is_told
    events = tmp_path / "runs/x/events.jsonl"
    assert (events.exists() and json.loads(events.read_text())["kind"] == "many_workers") == is_told
