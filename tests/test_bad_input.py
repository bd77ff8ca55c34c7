"""Bad input: one clear line, the right exit status, and nothing lost."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import a3c_zoo
from a3c_zoo.errors import WorkerError
from a3c_zoo.processes import pool as pool_module
from a3c_zoo.processes.child import ChildProcess
from a3c_zoo.processes.start import warm_up
from a3c_zoo.store.directory import RunDirectory
from a3c_zoo.store.run import Run
from a3c_zoo.testing import plugin_distribution
from tests.toys_child import tell_blocked
from tests.toys_runs import Running, checkpoint, command_line, episodes, installed_here, toy_installed
from tests.waits import LIMIT_S

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warm_up()  # in a folder that stays: MKL cannot be loaded in one that has been removed
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def _toy(tmp_path: Path) -> Iterator[None]:
    with toy_installed(tmp_path / "toy"):
        yield


def refused(capsys: Captured, *arguments: object, status: int = 2) -> str:
    """Runs a command that must fail, and returns what it says in one line."""
    assert command_line(*arguments) == status
    err = capsys.readouterr().err
    assert err.startswith("Error: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err.removeprefix("Error: ").removesuffix("\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cartpol"], r"unknown environment 'cartpol'\. Did you mean 'cartpole'\? See: a3c-zoo list envs"),
        (["gym:CartPol-v1"], r"unknown environment 'gym:CartPol-v1'\. Did you mean 'gym:CartPole-v1'\?"),
        (["gym:no_such_module:X-v0"], r"importing 'no_such_module' failed: ModuleNotFoundError: .*; install"),
        (["tennis:x"], r"unknown environment 'tennis:x'"),
        ([], r"name an environment to train, or a run to --resume\. See: a3c-zoo list envs"),
        (["cartpole", "--agent", "a3"], r"unknown agent 'a3'\. Did you mean 'a3c'\?"),
        (["cartpole", "--hyperparams", "a3"], r"has no hyperparameter set 'a3'\. Did you mean 'a3c'\?"),
        (["cartpole", "--hyperparams", "none.yml"], r"none\.yml: no such file"),
        (["cartpole", "-o", "network.name=ml"], r"-o network\.name: unknown network 'ml'\. Did you mean 'mlp'\?"),
        (["cartpole", "-o", "agent.n_step=5"], r"-o agent\.n_step: unknown key\. Did you mean 'n_steps'\?"),
        (
            ["gym:FrozenLake-v1", "-o", "env.is_slippery=false"],
            r"unknown key\. Arguments of the environment itself: env\.kwargs\.\w+",
        ),
        (["cartpole", "-o", "n_step=5"], r"-o n_step: unknown key\. Did you mean '(agent\.)?n_steps'\?"),
        (["cartpole", "-o", "n_steps"], r"-o n_steps: must read KEY=VALUE"),
        (["cartpole", "-o", "gamma=2"], r"-o agent\.gamma: 2 — must be less than or equal to 1"),
        (["cartpole", "-o", "hidden_sizes=!!python/name:os.system"], r"-o hidden_sizes"),
        (["cartpole", "-o", "update_samples=100"], r"agent\.update_samples: 100 — "),
        (["cartpole", "-o", "run.steps=null"], r"optimizer\.schedule: linear — needs optimizer\.schedule_steps"),
        (
            [
                "cartpole",
                "-o",
                "optimizer.schedule=constant",
                "-o",
                "run.steps=null",
                "-o",
                "entropy_schedule=linear",
            ],
            r"agent\.entropy_schedule: linear — needs optimizer\.schedule_steps",
        ),
        (["cartpole", "--workers", "0"], r"--workers run\.workers: 0 — must be greater than or equal to 1"),
        (["cartpole", "--workers", "two"], r"Invalid value for '--workers': 'two'"),
        (["cartpole", "--steps", "-5"], r"--steps run\.steps: -5 — must be greater than or equal to 1"),
        (["cartpole", "--steps", "0"], r"--steps run\.steps: 0 — must be greater than or equal to 1"),
        (["cartpole", "--episodes", "-1"], r"--episodes run\.episodes: -1 — must be"),
        (["cartpole", "--seed", "-1"], r"--seed run\.seed: -1 — must be"),
        (["cartpole", "--seed", str(2**63)], r"--seed run\.seed: .* — must be"),
        (["cartpole", "--stop-return", "nan"], r"--stop-return run\.stop_return: .*nan.* — must be a finite number"),
        (
            ["cartpole", "--stop-return", "100", "-o", "run.stop_when_solved=false"],
            r"--stop-return: run\.stop_when_solved is false, so .* budget.*; leave it out$",
        ),
        (["cartpole", "--time-limit", "soon"], r"'soon' is no duration; write 90s, 10m or 2h"),
        (["cartpole", "--time-limit", "10"], r"'10' is no duration"),
        (["cartpole", "--time-limit", "0s"], r"'0s' is no duration"),
        (["cartpole", "--time-limit", "-5s"], r"'-5s' is no duration"),
        (["cartpole", "--time-limit", "1e3s"], r"'1e3s' is no duration"),
        (["cartpole", "--name", "../x"], r"--name '\.\./x': letters, digits and"),
        (["cartpole", "--name", "a" * 231], r"--name a{20}\.\.\.: is too long; at most 230 bytes$"),
        (["cartpole", "--runs-dir", "file"], r"'file' is a file"),
        (
            ["cartpole", "--runs-dir", "file/deeper"],
            r"cannot make file/deeper: Not a directory\. Choose another: --runs-dir DIR$",
        ),
        (["cartpole", "--runs-dir", "/proc/runs"], r"cannot make /proc/runs: No such file or directory\."),
        (["cartpole", "--resume", "nothing"], r"no run 'nothing' here or in runs"),
        (["cartpole", "--no-such-flag"], r"No such option"),
        (["a\nb\x1b[2J"], r"unknown environment 'a\\nb\\x1b\[2J'\."),
        (["cartpole", "-o", "a\nb"], r"-o a\\nb: must read KEY=VALUE"),
    ],
)
def test_what_train_refuses(arguments: list[str], message: str, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "file").touch()
    assert re.search(message, refused(capsys, "train", *arguments, "--serial"))
    assert not [path for path in tmp_path.rglob("checkpoints") if any(path.iterdir())]


@pytest.mark.parametrize(
    "arguments",
    [
        ["tune", "cartpole", "--study", ""],
        ["tune", "cartpole", "--storage", "", "--trials", "1"],
        ["train", "cartpole", "--agent", ""],
        ["train", "cartpole", "--runs-dir="],
        ["compare", "cartpole", "--out", ""],
        ["evaluate", "cartpole", "--agent", ""],
        ["show", "hyperparams", "cartpole", "--agent", ""],
        ["resume", "--runs-dir", ""],
    ],
)
def test_an_empty_value_does_not_mean_the_default(arguments: list[str], capsys: Captured) -> None:
    """As of a shell's variable that is not set."""
    option = next(each for each in arguments if each.startswith("--")).removesuffix("=")
    message = f"an empty argument stands behind {option}: give a value, or leave both out"
    assert refused(capsys, *arguments) == message
    assert os.listdir(".") == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["resume", "", "--steps", "1k"],
        ["evaluate", "--json", ""],
        ["play", "", "--video", "x.mp4"],
        ["export", "", "--out", "x.onnx"],
        ["plot", ""],
    ],
)
def test_an_empty_name_is_not_the_run_around(arguments: list[str], capsys: Captured) -> None:
    shutil.copy(RunDirectory(a3c_zoo.train("cartpole", serial=True, steps=50).run).meta_file, "meta.json")
    assert refused(capsys, *arguments) == "the name of a run is empty. See: a3c-zoo list runs"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["list", "envs", "--runs-dir", "x"], "--runs-dir is for runs: a3c-zoo list runs --runs-dir DIR"),
        (["push", "x", "al/x", "--dry-run", "d", "--private"], "--dry-run sends nothing: leave out --private"),
        (["play", "x@best", "--checkpoint", "100"], "'x@best' names a checkpoint already: leave out --checkpoint"),
    ],
)
def test_an_option_that_would_do_nothing(arguments: list[str], message: str, capsys: Captured) -> None:
    assert refused(capsys, *arguments) == message


def test_an_empty_text_elsewhere_has_its_own_message(capsys: Captured) -> None:
    assert "unknown environment ''" in refused(capsys, "train", "")
    assert "must read KEY=VALUE" in refused(capsys, "train", "cartpole", "-o", "")
    assert "unknown engine 'x'" in refused(capsys, "compare", "cartpole", "--engine-option=key=", "--engine", "x")


def test_names_in_a_file_with_line_ends(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "set.yml").write_text('"a\\nError: b": {}\n"c\\nd": {}\n')
    assert command_line("train", "cartpole", "--hyperparams", "set.yml") == 2
    assert capsys.readouterr().err == (
        "Error: 2 faults in the configuration:\n"
        "  set.yml:1 a\\nError: b: unknown section.\n"
        "  set.yml:2 c\\nd: unknown section.\n"
    )


@pytest.mark.parametrize("command", ["evaluate", "play"])
def test_more_episodes_than_anybody_can_wait_for(command: str, capsys: Captured) -> None:
    message = refused(capsys, command, "run", "--episodes", 10**30)
    assert message.startswith(f"Invalid value for '--episodes': {10**30} is not in the range 1<=x<=1000000.")


def test_debug_shows_the_traceback(capsys: Captured) -> None:
    assert command_line("train", "cartpol", "--debug") == 2
    err = capsys.readouterr().err
    assert "Traceback (most recent call last):" in err
    assert err.endswith("See: a3c-zoo list envs\n")


def test_all_faults_at_once(capsys: Captured) -> None:
    assert command_line("train", "cartpole", "-o", "gamma=2", "-o", "nonsense=1", "--workers", "0") == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Error: 3 faults in the configuration:"
    assert [line.split(":")[0] for line in lines[1:]] == [
        "  -o agent.gamma",
        "  -o nonsense",
        "  --workers run.workers",
    ]


@pytest.mark.usefixtures("_toy")
def test_a_network_or_agent_for_other_spaces(capsys: Captured) -> None:
    for arguments in (["--serial"], []):
        message = refused(capsys, "train", "cartpole", "-o", "network.name=picture", *arguments)
        assert message.startswith("network 'picture' takes image observations; environment 'cartpole' offers Box(")
        assert message.endswith("Choose another: a3c-zoo list networks")
    message = refused(capsys, "train", "speaking", "--serial")
    assert message.startswith(
        "agent 'a3c' acts in Discrete, MultiDiscrete, MultiBinary, Box, Dict, Tuple spaces; environment 'speaking' has "
        "Text("
    )


@pytest.mark.usefixtures("_toy")
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("nan", "environment 'toy' returned an observation that is not finite"),
        (
            "shape",
            "environment 'toy' returned a wrong observation: float32 [2, 2, 1], where its spaces promise float32",
        ),
        ("dtype", "environment 'toy' returned a wrong observation: float64 [2, 2], where its spaces promise float32"),
        ("list", "environment 'toy' returned a wrong observation: list, where its spaces promise float32 [2, 2]"),
        ("reward-nan", "environment 'toy' returned a reward that is not finite"),
        ("reset-shape", "environment 'toy' returned a wrong observation: float32 [2, 2, 1]"),
        (
            "factory-raise",
            "environment 'toy' cannot be made: RuntimeError: the toy factory broke (in toys_env.py, line",
        ),
    ],
)
def test_an_environment_that_breaks_its_contract(fault: str, message: str, tmp_path: Path, capsys: Captured) -> None:
    for runner in (["--serial"], ["--workers", "1"]):
        options = ["-o", f"env.fault={fault}", "-o", "env.after=150", "--name", runner[0], "--stop-return", "9"]
        said = refused(capsys, "train", "toy", *runner, *options)
        assert said.startswith(message)
        directory = Run(tmp_path / "runs" / runner[0])
        if fault in ("reset-shape", "factory-raise"):  # the run never began
            assert not directory.path.exists()
            continue
        outcome = directory.outcome
        assert outcome is not None
        assert outcome.reason == "error"
        assert outcome.detail.startswith(said[:40])
        assert not directory.is_running()


@pytest.mark.parametrize("runner", ["--serial", "--workers=1"])
def test_training_that_diverges(runner: str, capsys: Captured) -> None:
    """The command at the end of the message begins a run: a resume would keep the learning rate."""
    options = ["-o", "agent.value_coefficient=1e38", "--steps", "100000", "--name", "x"]
    options += ["-o", "optimizer.final_learning_rate=1e-3"]
    assert refused(capsys, "train", "cartpole", runner, *options) == (
        "100 gradients in a row are not finite: training diverged. Try a smaller optimizer.learning_rate. "
        "From a good checkpoint: a3c-zoo train cartpole --agent a3c --hyperparams runs/x/config.yml --init-from runs/x "
        "-o optimizer.learning_rate=0.0002 -o optimizer.final_learning_rate=0.0002"
    )


@pytest.fixture
def _fork_server() -> None:
    """The fork server has imported torch, so that a worker starts at once."""
    child = ChildProcess("auto", "first", tell_blocked)
    assert child.pipe.poll(LIMIT_S)
    child.process.join(LIMIT_S)


@pytest.mark.usefixtures("_toy", "_fork_server")
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("raise", "RuntimeError: the toy broke\n(raised in step() of environment 'toy')"),
        ("reset-raise", "RuntimeError: the toy broke\n(raised in reset() of environment 'toy')"),
        ("kill", "worker 0 was ended by signal SIGKILL (out of memory?)"),
        ("sleep", "worker 0 has made no step for 3 s: does its environment hang? (limit: run.worker_timeout_s)"),
    ],
)
def test_a_worker_that_fails_loses_nothing(
    fault: str, message: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message has its traceback or signal; the exit status is 1; the run can be resumed from a checkpoint."""
    monkeypatch.setattr(pool_module, "STOP_GRACE_S", 0.5)
    options = ["-o", f"env.fault={fault}", "-o", "env.after=400", "-o", "env.step_s=0.001", "--stop-return", "9"]
    timeout_s = 3 if fault == "sleep" else 300
    options += ["-o", f"worker_timeout_s={timeout_s}", "--name", "x", "--workers", "1", "-o", "worker_restarts=0"]
    assert command_line("train", "toy", *options) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("Error: worker 0 ")
    assert captured.err.rstrip().endswith(message)
    assert ("Traceback" in captured.err) == (fault in ("raise", "reset-raise"))
    run = tmp_path / "runs/x"
    outcome = Run(run).outcome
    assert outcome is not None
    assert outcome.reason == "error"
    is_raised = fault in ("raise", "reset-raise")
    assert outcome.detail == ("worker 0 failed: RuntimeError: the toy broke" if is_raised else message)
    if fault == "reset-raise":  # it failed before its first step
        assert outcome.steps == 0
        line = refused(capsys, "train", "--resume", "x")
        assert line == "x has no checkpoint to go on from: train it anew, with another --name"
        line = refused(capsys, "train", "toy", "--name", "x")
        assert line == "runs/x exists already; nothing is overwritten. Choose another --name"
        return
    assert 0 < outcome.steps == checkpoint(run)["session"]["steps"]
    with pytest.raises(WorkerError, match="worker 0"):  # it goes on, until the environment fails again
        a3c_zoo.train(resume=run)
    assert checkpoint(run)["session"]["steps"] > outcome.steps
    steps = [row["step"] for row in episodes(run)]
    assert steps == sorted(steps)


def test_a_plugin_that_fails_at_import_costs_only_itself(tmp_path: Path, capsys: Captured) -> None:
    path = plugin_distribution(tmp_path / "broken", "broken-plugin", "raise ValueError('boom')", version="0.3")
    with installed_here(path):
        assert command_line("train", "cartpole", "--serial", "--steps", 100, "--quiet") == 0
    assert capsys.readouterr().err == (
        "Warning: plugin 'broken-plugin' (broken-plugin 0.3) is left out: its import failed: ValueError: boom "
        "(in broken_plugin.py, line 1)\n"
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    overrides = {"env.num_envs": 2, "run.disk_patience_s": 0}
    folder = tmp_path_factory.mktemp("trained")
    first = a3c_zoo.train("cartpole", serial=True, steps=200, overrides=overrides, name="x", runs_dir=folder)
    a3c_zoo.train(resume=first.run, steps=600)
    return first.run


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy that may be damaged."""
    return Path(shutil.copytree(trained, tmp_path / "runs" / "x"))


def contents(run: Path) -> dict[str, bytes]:
    files = (path for path in sorted(run.rglob("*")) if path.is_file() and path.name != "run.lock")
    return {str(path.relative_to(run)): path.read_bytes() for path in files}


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("meta.json", "{", "is no run directory: meta.json cannot be read"),
        ("meta.json", None, "is no run directory: it has no meta.json"),
        ("meta.json", '{"format": 1}', "meta.json is damaged: it has no env and no agent and no serial"),
        ("config.yml", "run: [", "config.yml:"),
        ("config.yml", "", "env_name and agent_name must be given"),
        ("config.yml", None, "no such file"),
        ("config.yml", "env_name: cartpole\nagent_name: a3c\nrun: {worker: 1}\n", "Did you mean 'workers'?"),
        ("config.yml", "env_name: cartpol\nagent_name: a3c\n", "Did you mean 'cartpole'?"),
    ],
)
def test_a_damaged_run_is_not_resumed(file: str, text: str | None, message: str, run: Path, capsys: Captured) -> None:
    if text is None:
        (run / file).unlink()
    else:
        (run / file).write_text(text)
    before = contents(run)
    assert message in refused(capsys, "train", "--resume", run)
    assert contents(run) == before


def test_a_damaged_checkpoint_is_not_resumed(run: Path, capsys: Captured) -> None:
    """The one before it is, and a line says so; the damaged file and the rows after it are moved aside."""
    *_, before, newest = sorted((run / "checkpoints").glob("step-*.pt"))
    step, damaged_step = (int(path.stem.removeprefix("step-")) for path in (before, newest))
    content, rows = newest.read_bytes(), (run / "monitor.csv").read_bytes()
    damaged = content[:5000] + bytes([content[5000] ^ 1]) + content[5001:]
    newest.write_bytes(damaged)
    assert "it has changed since it was written (SHA-256)" in refused(
        capsys, "train", "--resume", run, "--checkpoint", damaged_step
    )
    assert refused(capsys, "evaluate", run).endswith(
        f". That of step {step} can be read: move the newer files away, or --checkpoint {step} where there is one"
    )
    assert command_line("train", "--resume", run, "--quiet") == 0
    assert checkpoint(run)["session"]["steps"] >= 600
    aside = run / "checkpoints/set-aside-1"
    assert {path.name for path in aside.iterdir()} == {newest.name, "best.pt", "monitor.csv", "outcome.json"}
    assert (aside / newest.name).read_bytes() == damaged
    assert (aside / "monitor.csv").read_bytes() == rows
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    assert [(event["kind"], event["step"]) for event in events] == [
        ("checkpoint_damaged", step),
        ("set_aside", step),
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("- 64\n  - 64", "- 64\n  - 32", "checkpoint is of another network: actor.layers.1.weight [64, 64] there"),
        ("num_envs: 2", "num_envs: 3", "the checkpoint does not fit the run's config.yml"),
        ("name: adam", "name: rmsprop", "the checkpoint does not fit the run's config.yml"),
        ("shared_statistics: true", "shared_statistics: false", "the checkpoint does not fit the run's config.yml"),
    ],
)
def test_a_checkpoint_of_another_network(old: str, new: str, message: str, run: Path, capsys: Captured) -> None:
    config = run / "config.yml"
    text = config.read_text()
    if old not in text:  # sizes in one line
        old, new = old.replace("- 64\n  - 64", "[64, 64]"), new.replace("- 64\n  - 32", "[64, 32]")
    assert old in text
    config.write_text(text.replace(old, new))
    before = contents(run)
    assert message in refused(capsys, "train", "--resume", run, "--steps", 900)
    after = contents(run)
    assert {name for name in after if name.startswith("checkpoints")} == {
        name for name in before if name.startswith("checkpoints")
    }
    for name, content in before.items():  # one written now would lack the workers' states
        assert after[name] == content or name in ("config.yml", "outcome.json")
    if "network" in message:
        assert message in refused(capsys, "evaluate", run)


def test_a_checkpoint_of_another_number_of_workers_fits(run: Path) -> None:
    """As after `--resume RUN --workers 3`: it may go on from a checkpoint of before."""
    config = run / "config.yml"
    config.write_text(config.read_text().replace("workers: 2", "workers: 3"))
    assert command_line("train", "--resume", run, "--steps", 900) == 0
    assert len(checkpoint(run)["agent"]["counters"]) == 3


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        (["--agent", "a3c"], "--agent"),
        (["-o", "gamma=0.5", "--name", "y"], "-o, --name"),
        (["--hyperparams", "a3c"], "--hyperparams"),
        (["--serial"], "--serial"),
        (["--workers", "2", "--seed", "1"], "--seed"),
    ],
)
def test_what_a_resume_cannot_change(options: list[str], flags: str, run: Path, capsys: Captured) -> None:
    before = contents(run)
    message = refused(capsys, "train", "--resume", run, *options)
    assert message == f"--resume goes on with the run as it was; leave out {flags}"
    assert contents(run) == before


def test_a_resume_with_other_nonsense(run: Path, capsys: Captured) -> None:
    before = contents(run)
    assert (
        refused(capsys, "train", "gym:Acrobot-v1", "--resume", run) == "run x trains 'cartpole', not 'gym:Acrobot-v1'"
    )
    assert "run.steps: -5 — must be greater" in refused(capsys, "train", "--resume", run, "--steps", -5)
    assert contents(run) == before
    assert command_line("train", "cartpole", "--resume", "x", "--steps", 700) == 0  # by name, with its environment
    assert "steps: 700" in (run / "config.yml").read_text()


def test_a_run_that_is_still_running(run: Path, capsys: Captured) -> None:
    directory = RunDirectory(run)
    directory.lock()
    before = contents(run)
    assert refused(capsys, "train", "--resume", run) == "run x is still running; stop it first"
    assert contents(run) == before
    directory.unlock()


def test_a_name_that_exists(run: Path, capsys: Captured) -> None:
    before = contents(run)
    message = refused(capsys, "train", "cartpole", "--name", "x", "--serial")
    assert message.startswith("runs/x exists already; nothing is overwritten.")
    assert contents(run) == before


def assert_a_full_disk_is_survived(told: str, run: Path, steps: int, cure: str) -> None:
    assert told.startswith("cannot write runs/x/")
    assert told.endswith(f". {cure}, or begin a new run elsewhere: --runs-dir DIR")  # this one keeps its place
    assert checkpoint(run)["session"]["steps"] == steps
    assert not list(run.rglob(".*.tmp"))
    assert not RunDirectory(run).is_running()


@pytest.mark.parametrize("size", [20_000, pytest.param(200, marks=pytest.mark.slow)])
def test_files_that_may_not_grow(size: int, run: Path, tmp_path: Path, capsys: Captured) -> None:
    """As on a full disk: the checkpoint cannot be written, or not even monitor.csv."""
    steps, before = checkpoint(run)["session"]["steps"], resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        told = refused(capsys, "train", "--resume", run.relative_to(tmp_path), "--steps", 3000, "--quiet")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert_a_full_disk_is_survived(told, run, steps, "Raise the limit of file sizes (ulimit -f)")
    assert a3c_zoo.train(resume=run, steps=3000).reason == "steps"  # there is room again
    assert episodes(run)[-1]["step"] <= checkpoint(run)["session"]["steps"]


@pytest.mark.slow  # test_full_disk has parts of it
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_disk_that_fills_up(trained: Path, tmp_path: Path) -> None:
    place = tmp_path / "runs"
    place.mkdir()
    mounting = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], check=False)
    if mounting.returncode != 0:
        pytest.skip("cannot mount here")
    try:
        run = Path(shutil.copytree(trained, place / "x"))
        for older in sorted((run / "checkpoints").glob("step-*.pt"))[:-1]:  # whose room would do
            older.unlink()
        steps = checkpoint(run)["session"]["steps"]
        free = os.statvfs(place).f_bavail * os.statvfs(place).f_frsize
        (place / "filler").write_bytes(bytes(free - 30_000))
        with Running("train", "--resume", "runs/x", "--steps", 5000, "--quiet", folder=tmp_path) as running:
            assert running.exit_status() == 2
            assert running.stderr.count("\n") == 1, running.stderr
            running.assert_nothing_left()
        told = running.stderr.removeprefix("Error: ").removesuffix("\n")
        assert_a_full_disk_is_survived(told, run, steps, "Free space")
        (place / "filler").unlink()
        assert a3c_zoo.train(resume=run, steps=1000).steps >= 1000
        with Running("train", "cartpole", "--name", "y", folder=tmp_path) as running:
            (place / "filler").write_bytes(bytes(os.statvfs(place).f_bavail * os.statvfs(place).f_frsize))
            assert running.exit_status() == 2
            assert re.fullmatch(r"Error: cannot (make|write|lock) runs.*: No space left on device.*\n", running.stderr)
    finally:
        subprocess.run(["umount", place], check=True)
