"""`resume`, `rm`, `tensorboard`, `train --dry-run`; and runs that end before they begin."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import socket
import urllib.request
from pathlib import Path

import click
import pytest

import a3c_zoo
from a3c_zoo.cli import rm as rm_module
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.runs import train as train_module
from a3c_zoo.store.checkpoints import checkpoint_steps
from a3c_zoo.store.run import Run
from tests.toys_games import ENTRY
from tests.toys_runs import Running, command_line
from tests.waits import LIMIT_S, wait_until

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def trained(name: str, steps: int = 200, reason: str | None = None, started: str | None = None) -> Run:
    """Trains a run. reason: as if it had ended so; "died": without an outcome. started: the time in its meta.json."""
    a3c_zoo.train("cartpole", serial=True, steps=steps, name=name)
    folder = Path("runs") / name
    if started is not None:
        meta = json.loads((folder / "meta.json").read_text())
        (folder / "meta.json").write_text(json.dumps(meta | {"started": started}))
    if reason == "died":
        (folder / "outcome.json").unlink()
    elif reason is not None:
        outcome = json.loads((folder / "outcome.json").read_text())
        (folder / "outcome.json").write_text(json.dumps(outcome | {"reason": reason}))
    return Run(folder)


def said(capsys: Captured, *words: object, status: int = 0) -> str:
    assert command_line(*words) == status
    return capsys.readouterr().err


# resume


@pytest.mark.parametrize("reason", ["died", "interrupted", "error"])
def test_resume_goes_on_with_the_newest_that_was_cut_short(reason: str, capsys: Captured) -> None:
    trained("old", reason="interrupted", started="2026-01-01T00:00:00+0000")
    trained("new", reason=reason, started="2026-01-02T00:00:00+0000")
    trained("newest", started="2026-01-03T00:00:00+0000")  # it has spent its budget
    assert said(capsys, "resume", "--quiet", "--steps", "1k").startswith("Going on with runs/newest\n")
    for name in ("newest", "old"):
        assert command_line("rm", name, "--yes") == 0
    capsys.readouterr()
    assert said(capsys, "resume", "--quiet", "--steps", "1k") == "Going on with runs/new\n"
    outcome = Run(Path("runs/new")).outcome
    assert outcome is not None
    assert (outcome.reason, outcome.steps >= 1000) == ("steps", True)


def test_a_spent_run_goes_on_with_a_larger_limit_alone(capsys: Captured) -> None:
    """A limit that the newest run has spent already is none for it, be it its own or not."""
    trained("old", reason="interrupted", started="2026-01-01T00:00:00+0000")
    new = trained("new", steps=600, started="2026-01-02T00:00:00+0000")
    assert new.outcome is not None
    used = new.outcome.steps
    before = new.outcome_file.read_bytes()
    assert said(capsys, "resume", "--quiet", "--steps", "600") == "Going on with runs/old\n"
    assert command_line("rm", "old", "--yes") == 0
    capsys.readouterr()
    for limit in (600, used):
        assert "nothing to resume" in said(capsys, "resume", "--quiet", "--steps", limit, status=2)
    assert new.outcome_file.read_bytes() == before
    assert said(capsys, "resume", "--quiet", "--steps", used + 1) == "Going on with runs/new\n"


def test_resume_of_a_named_run(capsys: Captured) -> None:
    trained("x")
    trained("y")
    assert said(capsys, "resume", "x", "--steps", "600", "--quiet") == ""
    outcomes = [Run(Path("runs") / name).outcome for name in ("x", "y")]
    assert [outcome is not None and outcome.steps >= 600 for outcome in outcomes] == [True, False]


def test_nothing_to_resume(capsys: Captured) -> None:
    nothing = "Error: nothing to resume: no run in runs was interrupted, was killed or failed with a checkpoint"
    assert said(capsys, "resume", status=2) == f"{nothing}\n"
    assert command_line("resume", "--json") == 2
    content = json.loads(capsys.readouterr().out)
    assert (content["run"], content["reason"], f"Error: {content['detail']}") == (None, "error", nothing)
    run = trained("x")
    outcome = run.outcome
    assert outcome is not None
    more = f"The newest run has spent its budget. More: a3c-zoo resume runs/x --steps {2 * outcome.steps}"
    line = said(capsys, "resume", status=2)
    assert line == f"{nothing}. {more}\n"
    cure = line.partition("More: a3c-zoo ")[2].split()
    assert said(capsys, *cure, "--quiet") == ""
    assert "no run 'z' here" in said(capsys, "resume", "z", status=2)


def test_the_cure_for_a_spent_budget_finds_the_plugin_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    trained("x")
    (tmp_path / "my plugin.py").touch()
    monkeypatch.setenv("A3C_ZOO_PLUGIN_FILES", "my plugin.py")
    line = said(capsys, "resume", status=2)
    assert re.search(r"More: .*a3c-zoo resume runs/x --steps \d+ --plugin 'my plugin.py'$", line.rstrip())


@pytest.mark.parametrize(
    ("reason", "more"), [("time-limit", "--time-limit 14401s"), ("episodes", "--episodes {episodes}")]
)
def test_a_spent_budget_is_named_with_a_larger_one(reason: str, more: str, capsys: Captured) -> None:
    """Limits count from the start of the run: of one that has trained for two hours, an hour would be refused."""
    run = trained("x", reason=reason)
    outcome = json.loads(run.outcome_file.read_text())
    run.outcome_file.write_text(json.dumps(outcome | {"training_s": 7200.3}))
    line = said(capsys, "resume", status=2)
    assert line.endswith(f"More: a3c-zoo resume runs/x {more.format(episodes=2 * outcome['episodes'])}\n")


def test_a_run_that_is_running_or_has_no_checkpoint_is_not_resumed(capsys: Captured) -> None:
    running = trained("running", reason="died")
    empty = trained("empty", reason="died")
    for path in empty.checkpoints.iterdir():
        path.unlink()
    running.lock()
    try:
        assert "nothing to resume" in said(capsys, "resume", status=2)
    finally:
        running.unlock()


def test_resume_deletes_its_own_temporary_files_alone(capsys: Captured) -> None:
    trained("x")
    ours = ["runs/x/.config.yml.0123456789abcdef.tmp", "runs/x/checkpoints/.best.pt.0123456789abcdef.tmp"]
    mine = ["runs/x/.my-notes.tmp", "runs/x/checkpoints/.d.0123456789abcdef.tmp/notes"]
    for name in ours + mine:
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).touch()
    assert said(capsys, "resume", "x", "--steps", "400", "--quiet") == ""
    assert [os.path.exists(name) for name in ours + mine] == [False, False, True, True]


# rm


def test_rm_removes_the_failed_ones_after_a_question(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    trained("good")
    trained("failed", reason="error")
    trained("killed", reason="died")
    (Path("runs/killed") / "notes.txt").write_text("mine")
    assert "2 runs would be removed, and there is no terminal to ask: give --yes" in said(capsys, "rm", status=2)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    asked: list[str] = []

    def answer(text: str, **options: object) -> None:
        asked.append(text)
        raise click.Abort

    monkeypatch.setattr(click, "confirm", answer)
    assert command_line("rm") == 130
    shown = capsys.readouterr().out
    assert asked == ["Remove 2 runs?"]
    assert re.search(r"^runs/failed  error, [\d,]+ steps, [\d.]+ MiB$", shown, re.MULTILINE)
    assert re.search(r"^runs/killed  died, has checkpoints, [\d.]+ MiB; what stays: notes\.txt$", shown, re.MULTILINE)
    assert sorted(os.listdir("runs")) == ["failed", "good", "killed"]
    assert command_line("rm", "--yes") == 0
    assert capsys.readouterr().out.endswith("runs/killed stays, with notes.txt\nRemoved 2 runs.\n")
    assert sorted(os.listdir("runs")) == ["good", "killed"]
    assert os.listdir("runs/killed") == ["notes.txt"]
    assert said(capsys, "rm", "--yes") == "No run in runs has failed.\n"


def test_rm_leaves_what_is_no_part_of_a_run() -> None:
    """Such as runs that were trained in the directory of another one."""
    trained("x")
    Path("runs/x/.config.yml.0123456789abcdef.tmp").write_text("")
    Path("runs/x/.hidden").write_text("mine")
    Path("runs/x/runs/y").mkdir(parents=True)
    assert command_line("rm", "x", "--yes") == 0
    assert sorted(os.listdir("runs/x")) == [".hidden", "runs"]
    assert os.listdir("runs/x/runs") == ["y"]


def test_rm_leaves_what_somebody_has_put_into_the_folders_of_a_run(capsys: Captured) -> None:
    trained("x")
    own = ["checkpoints/best.pt", "checkpoints/.evaluated.pt", "checkpoints/.checked.pt", "films/.filmed.mp4"]
    own += ["checkpoints/.step-000000000100.pt.0123456789abcdef.tmp", "films/step-000000000100.mp4"]
    own += ["tensorboard/events.out.events.1764288000.host.1.0.replaced-1"]
    own += ["checkpoints/set-aside-2/best.pt", "checkpoints/set-aside-2/step-000000000100.mp4"]
    own += [f"checkpoints/set-aside-1/{name}" for name in ("step-000000000100.pt", "monitor.csv", "outcome.json")]
    mine = ["checkpoints/my-notes.txt", "checkpoints/set-aside-1/notes", "checkpoints/step-1.pt/notes"]
    mine += ["films/mine.mp4", "outcome.json/notes", "tensorboard/profile/trace"]
    Path("runs/x/outcome.json").unlink()
    for name in own + mine:
        Path("runs/x", name).parent.mkdir(parents=True, exist_ok=True)
        Path("runs/x", name).touch()
    Path("runs/x/films/step-000000000200.mp4").symlink_to("mine.mp4")
    Path("runs/x/checkpoints/set-aside-3").symlink_to("set-aside-1")
    capsys.readouterr()
    assert command_line("rm", "x", "--yes") == 0
    said_to_stay = "checkpoints/my-notes.txt, checkpoints/set-aside-1/notes, checkpoints/set-aside-3, "
    said_to_stay += "checkpoints/step-1.pt, films/mine.mp4 …\n"
    first, second, last = capsys.readouterr().out.splitlines(keepends=True)
    assert first.endswith(f"; what stays: {said_to_stay}")
    assert (second, last) == (f"runs/x stays, with {said_to_stay}", "Removed 1 run.\n")
    stays = {str(path.relative_to("runs/x")) for path in Path("runs/x").rglob("*") if not path.is_dir()}
    assert stays == {*mine}
    assert os.listdir("runs/x/checkpoints/set-aside-3") == ["notes"]
    assert not os.path.lexists("runs/x/checkpoints/set-aside-2")


def test_rm_removes_each_file_that_a_run_writes() -> None:
    """With films, evaluations beside training, and a resume from an earlier checkpoint."""
    words = ["--steps", "600", "--film-every", "300", "-o", "run.checkpoint_every_steps=200", "--name", "x"]
    assert command_line("train", "cartpole", "--serial", "--quiet", *words) == 0
    step = checkpoint_steps(Run(Path("runs/x")))[1]
    assert command_line("resume", "x", "--checkpoint", step, "--steps", "900", "--quiet") == 0
    assert Path("runs/x/checkpoints/set-aside-1").is_dir()
    assert command_line("rm", "x", "--yes") == 0
    assert os.listdir("runs") == []


def test_rm_follows_no_link_that_comes_in_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained("x")
    names = sorted(os.listdir("runs/x/checkpoints"))
    sorted_out = rm_module._sorted_out

    def exchanged(run: Run, folder: str = "") -> tuple[list[str], list[str]]:
        found = sorted_out(run, folder)
        if run._lock.is_locked and not folder:
            Path("runs/x/checkpoints").rename(tmp_path / "precious")
            Path("runs/x/checkpoints").symlink_to(tmp_path / "precious")
        return found

    monkeypatch.setattr(rm_module, "_sorted_out", exchanged)
    assert command_line("rm", "x", "--yes") == 2
    assert sorted(os.listdir(tmp_path / "precious")) == names


def test_rm_removes_what_compare_and_pull_have_written() -> None:
    trained("compared")
    (Path("runs/compared") / ".evaluations.lock").touch()
    trained("pulled")
    for name in ("pulled.json", "README.md", "replay.mp4"):
        (Path("runs/pulled") / name).write_text("{}")
    trained("own")
    (Path("runs/own") / "README.md").write_text("mine")
    assert command_line("rm", "compared", "pulled", "own", "--yes") == 0
    assert os.listdir("runs") == ["own"]
    assert os.listdir("runs/own") == ["README.md"]


def test_rm_of_named_runs(capsys: Captured) -> None:
    trained("a")
    trained("b")
    assert command_line("rm", "a", "runs/a", "--yes") == 0
    assert capsys.readouterr().out.endswith("Removed 1 run.\n")
    assert os.listdir("runs") == ["b"]


def test_rm_leaves_a_run_that_is_running_and_all_others(capsys: Captured) -> None:
    running = trained("x")
    trained("y")
    running.lock()
    try:
        assert said(capsys, "rm", "y", "x", "--yes", status=2) == "Error: run x is still running; stop it first\n"
    finally:
        running.unlock()
    assert sorted(os.listdir("runs")) == ["x", "y"]


def test_rm_of_an_empty_name_is_not_the_run_around(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    """As of a shell's variable that is not set."""
    trained("x")
    with monkeypatch.context() as inside:
        inside.chdir("runs/x")
        error = said(capsys, "rm", "", "--yes", status=2)
        assert error == "Error: the name of a run is empty. See: a3c-zoo list runs\n"
    assert Run(Path("runs/x")).status == "steps"


def test_rm_follows_no_link(tmp_path: Path, capsys: Captured) -> None:
    trained("x", reason="error")
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/file").write_text("mine")
    os.symlink(tmp_path / "precious", "runs/x/mine")
    os.symlink(tmp_path / "runs/x", "runs/link")
    line = "Error: runs/link is a link, and links are not followed: name the folder itself\n"
    assert said(capsys, "rm", "link", "--yes", status=2) == line
    assert said(capsys, "rm", "runs/link/", "--yes", status=2) == line
    assert command_line("rm", "--yes") == 0
    assert (tmp_path / "precious/file").read_text() == "mine"
    assert sorted(os.listdir("runs")) == ["link", "x"]
    assert os.listdir("runs/x") == ["mine"]


@pytest.mark.parametrize(
    ("meta", "says"),
    [
        (None, "no run 'thesis' here or in runs"),
        ("{}", "is no run directory: meta.json cannot be read"),
        ("no JSON", "is no run directory: meta.json cannot be read"),
        ('{"format": 1}', "is damaged: it has no env"),
    ],
)
def test_rm_removes_run_directories_alone(meta: str | None, says: str, capsys: Captured) -> None:
    Path("runs/thesis").mkdir(parents=True)
    Path("runs/thesis/text").write_text("mine")
    if meta is not None:
        Path("runs/thesis/meta.json").write_text(meta)
    assert says in said(capsys, "rm", "thesis", "--yes", status=2)
    assert said(capsys, "rm", "--yes") == "No run in runs has failed.\n"
    assert Path("runs/thesis/text").read_text() == "mine"


def test_what_rm_leaves_after_ctrl_c_can_be_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    trained("x")
    with monkeypatch.context() as patch:

        def interrupted(name: str, dir_fd: int) -> None:
            raise KeyboardInterrupt

        patch.setattr(os, "rmdir", interrupted)
        assert command_line("rm", "x", "--yes") == 130
    assert command_line("rm", "x", "--yes") == 0
    assert os.listdir("runs") == []


def test_rm_of_a_run_whose_files_may_not_be_listed(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    """As in a directory of somebody else with the mode 711."""
    trained("x")

    def refused(path: Path) -> list[str]:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(os, "listdir", refused)
    line = "Error: runs/x cannot be listed: Permission denied. Look at its permissions\n"
    assert said(capsys, "rm", "x", "--yes", status=2) == line


def test_what_may_not_be_removed(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    trained("x")

    def refused(name: str, dir_fd: int) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), name)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refused)
        patch.setattr(os, "supports_dir_fd", {refused})
        error = said(capsys, "rm", "x", "--yes", status=2)
    assert re.search(r"Error: cannot remove runs/x/[\w./-]+: Operation not permitted\. Look at", error)
    assert error.endswith("then type: a3c-zoo rm runs/x\n")
    assert command_line("rm", "x", "--yes") == 0


# tensorboard


def test_tensorboard_shows_the_runs_on_this_machine_alone(tmp_path: Path, capsys: Captured) -> None:
    assert said(capsys, "tensorboard", status=2) == (
        "Error: no run in runs: train one, a3c-zoo train cartpole, or name the folder: --runs-dir DIR\n"
    )
    trained("x")
    with Running("tensorboard", "--port", "0", folder=tmp_path) as server:
        wait_until(lambda: "http://" in server.stderr or server.process.poll() is not None)
        address = re.search(r"http://127\.0\.0\.1:\d+/", server.stderr)
        assert address is not None, server.stderr
        with urllib.request.urlopen(f"{address[0]}data/runs", timeout=LIMIT_S) as answer:
            assert json.load(answer) == ["x/tensorboard"]
        server.process.send_signal(signal.SIGINT)
        server.process.wait(LIMIT_S)


def test_tensorboard_of_a_folder_whose_name_begins_like_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    trained("x")
    Path("runs").rename("-runs")
    begun: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda path, words: begun.append(words))
    assert command_line("tensorboard", "--runs-dir=-runs", "--port", "0") == 0
    assert "--logdir=-runs" in begun[0]


def test_a_port_that_is_taken(capsys: Captured) -> None:
    trained("x")
    capsys.readouterr()
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        error = said(capsys, "tensorboard", "--port", port, status=2)
    assert error == f"Error: --port {port}: Address already in use. Type: a3c-zoo tensorboard --port 0\n"


# train --dry-run


def test_a_dry_run_makes_no_directory(tmp_path: Path, capsys: Captured) -> None:
    assert command_line("train", "cartpole", "--dry-run", "--workers", "2", "--steps", "1k", "-o", "gamma=0.9") == 0
    assert capsys.readouterr().out == (
        "Would train a3c on cartpole, seed 0, 2 workers\n"
        "  budget        at least 1,000 steps\n"
        "  solved at     475.0, mean return of 100 episodes\n"
        "  values        cartpole/a3c.yml, --steps, --workers, -o\n"
        "  environments  16 for each worker\n"
        "  network       mlp\n"
        "Nothing was trained. To train it: a3c-zoo train cartpole --workers 2 --steps 1k -o gamma=0.9\n"
    )
    assert os.listdir() == []


@pytest.mark.parametrize("option", ["--dry-run", "--quiet"])
@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("/proc/none", "cannot make /proc/none: No such file or directory. Choose another: --runs-dir DIR"),
        ("a" * 300, f"cannot make {'a' * 300}: File name too long. Choose another: --runs-dir DIR"),
        ("file/deeper", "cannot make file/deeper: Not a directory. Choose another: --runs-dir DIR"),
    ],
)
def test_a_place_that_takes_no_run(place: str, says: str, option: str, capsys: Captured) -> None:
    Path("file").touch()
    assert says in said(capsys, "train", "cartpole", "--runs-dir", place, option, "--serial", status=2)
    assert said(capsys, "train", "cartpole", "--runs-dir", "a/b", "--dry-run") == ""
    assert os.listdir() == ["file"]


def test_a_run_whose_own_name_would_be_too_long(capsys: Captured) -> None:
    name = "L" * 230
    Path("long.py").write_text(
        f"from gymnasium.envs.classic_control import CartPoleEnv\nclass {name}(CartPoleEnv):\n    pass\n"
    )
    words = ["train", f"long.py:{name}", "--serial", "--quiet", "--steps", "50"]
    says = "Error: the run's name, python_long_LLLLLLLL..., would be too long. Give it another: --name TEXT\n"
    for option in ([], ["--dry-run"]):
        assert said(capsys, *words, *option, status=2).endswith(says)
    assert command_line(*words, "--name", "x") == 0


def test_a_dry_run_tells_of_updates_that_fewer_members_make(capsys: Captured) -> None:
    """It is the line with which the run would begin."""
    words = ["gym:CartPole-v1", "--workers", "4", "-o", "agent.n_steps=125", "-o", "agent.update_samples=25"]
    assert command_line("train", *words, "--dry-run") == 0
    shown = capsys.readouterr().out
    told = "each update is made by 1 of the 2 workers of a team: its samples cannot be split equally among more"
    assert f"  environments  8 for each team\n  updates       {told}\n  network" in shown


def test_a_dry_run_as_json(capsys: Captured) -> None:
    assert command_line("train", "cartpole", "--dry-run", "--serial", "--json") == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["env_name"], content["agent"]["n_steps"], content["serial"]) == ("cartpole", 5, True)


def test_a_dry_run_that_is_refused_as_json(capsys: Captured) -> None:
    assert command_line("train", "cartpole", "--dry-run", "--json", "-o", "agent.n_steps=0") == 2
    captured = capsys.readouterr()
    content = json.loads(captured.out)
    assert (content["run"], content["solved"], content["reason"]) == (None, False, "error")
    assert captured.err == f"Error: {content['detail']}\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["cartpole", "--resume", "x"], "--dry-run is for a new run: leave out --resume"),
        (["cartpole", "--checkpoint", "best"], "--dry-run is for a new run: leave out --checkpoint"),
        (["cartpole", "--name", "x"], "runs/x exists already; nothing is overwritten. Choose another --name"),
        (["cartpole", "--trust"], "--trust is for a run that somebody else made"),
        (["gym:FrozenLake-v1", "-o", "network.name=nature"], "network 'nature' takes image observations"),
        (["gym:Pendulum-v1", "--agent", "sb3-dqn"], "agent 'sb3-dqn' acts in Discrete spaces"),
        (
            ["cartpole", "-o", "run.steps=null", "-o", "optimizer.schedule=linear"],
            "optimizer.schedule: linear — needs optimizer.schedule_steps, or a budget: --steps N",
        ),
        (
            ["cartpole", "-o", "run.steps=null", "-o", "optimizer.schedule=constant", "-o", "entropy_schedule=linear"],
            "agent.entropy_schedule: linear — needs optimizer.schedule_steps, or a budget: --steps N",
        ),
        (
            ["cartpole", "--agent", "sb3-ppo", "-o", "run.steps=null", "-o", "learning_rate_schedule=linear"],
            "agent.learning_rate_schedule: linear — needs agent.schedule_steps, or a budget: --steps N",
        ),
        (["gym:Taxi-v4", "--agent", "sb3-ppo"], "agent 'sb3-ppo' takes none. -o env.action_masks=false trains without"),
        (["duo", "--agent", "sb3-ppo"], "2 agents play each game of 'duo', and baseline 'sb3-ppo' cannot leave out"),
        (
            ["pong", "--agent", "a3c-data", "-o", "agent.pull=live", "-o", "network.precision=bfloat16"],
            "agent 'a3c-data' acts with the shared parameters, float32",
        ),
        (
            ["cartpole", "--agent", "a3c-data", "-o", "batch_size=100", "-o", "num_envs=8", "-o", "agent.n_steps=4"],
            "agent.batch_size: 100 — must be a multiple of a micro-batch",
        ),
    ],
)
def test_a_dry_run_finds_what_a_run_would(words: list[str], says: str, capsys: Captured) -> None:
    if words[0] == "duo":
        get_registry().give(ENTRY, "tests.toys_games")
    Path("runs/x").mkdir(parents=True)
    assert says in said(capsys, "train", *words, "--dry-run", "--serial", status=2)
    assert os.listdir("runs") == ["x"]


# Runs that end before they begin


@pytest.mark.parametrize("runner", ["--serial", "--workers=1"])
@pytest.mark.parametrize(
    "words",
    [
        ["gym:FrozenLake-v1", "-o", "network.name=nature"],  # wrong spaces
        ["gym:phys2d/CartPole-v1"],  # it needs jax
    ],
)
def test_a_run_that_cannot_begin_leaves_nothing(words: list[str], runner: str, capsys: Captured) -> None:
    said(capsys, "train", *words, runner, "--steps", "100", status=2)
    assert not Path("runs").exists() or os.listdir("runs") == []


def test_the_object_of_a_run_that_cannot_begin_names_no_directory(capsys: Captured) -> None:
    words = ["train", "gym:FrozenLake-v1", "-o", "network.name=nature", "--serial", "--json"]
    assert command_line(*words) == 2
    assert json.loads(capsys.readouterr().out)["run"] is None


def test_ctrl_c_before_the_first_figure_leaves_nothing(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(train_module, "_run_agent", interrupted)
    assert command_line("train", "cartpole", "--serial") == 130
    assert os.listdir("runs") == []
    capsys.readouterr()
    assert command_line("train", "cartpole", "--serial", "--json") == 130
    assert json.loads(capsys.readouterr().out) == {
        "run": None,
        "solved": False,
        "reason": "interrupted",
        "detail": "Ctrl-C",
    }


@pytest.fixture
def _slow(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import gymnasium, os, time\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "class Slow(CartPoleEnv):\n"
        "    def __init__(self, render_mode=None):\n"
        "        super().__init__()\n"
        "        if os.path.exists('runs'):\n"
        "            open('made', 'w').close()\n"
        "            time.sleep(600)\n"
    )


@pytest.mark.usefixtures("_slow")
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_signal_while_the_workers_start_leaves_nothing(tmp_path: Path, number: int) -> None:
    with Running("train", "slow.py", "--workers", "2", folder=tmp_path) as run:
        wait_until(lambda: (tmp_path / "made").exists() or run.process.poll() is not None)
        assert run.process.poll() is None, run.stderr
        run.process.send_signal(number)
        assert run.process.wait(LIMIT_S) == 130, run.stderr
    assert os.listdir(tmp_path / "runs") == []


def test_a_run_that_ctrl_c_ends_in_its_first_rollout_can_go_on(tmp_path: Path, capsys: Captured) -> None:
    with Running("train", "cartpole", "--workers", "1", "--name", "x", folder=tmp_path) as run:
        first = tmp_path / "runs/x/checkpoints/step-000000000000.pt"
        wait_until(lambda: first.exists() or run.process.poll() is not None)
        run.process.send_signal(signal.SIGINT)
        assert run.process.wait(LIMIT_S) == 130, run.stderr
    assert checkpoint_steps(Run(Path("runs/x")))
    # A busy machine makes some thousand steps before the signal.
    assert said(capsys, "resume", "--steps", "50k", "--quiet") == "Going on with runs/x\n"
