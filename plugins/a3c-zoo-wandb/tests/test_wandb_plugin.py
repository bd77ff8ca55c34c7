"""What the distribution offers to a3c-zoo, and whole runs with wandb's offline mode."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import tomllib
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from a3c_zoo.records import EvaluatorResult, Outcome, Progress
from a3c_zoo.testing import plugin_distribution

from a3c_zoo_wandb.config import MlflowConfig, TrackioConfig, WandbConfig
from a3c_zoo_wandb.plugin import zoo_hooks
from a3c_zoo_wandb.points import keep_id, known_id

QUICK = ("--steps", "2000", "--serial", "-o", "run.stop_when_solved=false")
#: Whatever the account of the user is, these tests have none.
NO_ACCOUNT = {"NETRC": os.devnull}


def train(folder: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Trains in a process of its own, with the plugin installed."""
    if not (folder / "installed").exists():
        plugin_distribution(folder / "installed", "wandb-plugin", "from a3c_zoo_wandb.plugin import zoo_hooks\n")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("A3C_ZOO", "WANDB"))}
    paths = [str(folder / "installed"), *sys.path]
    environ |= NO_ACCOUNT | {"PYTHONPATH": os.pathsep.join(paths), "HOME": str(folder)} | variables
    command = [sys.executable, "-P", "-m", "a3c_zoo", "train", *options]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=200)


def records(run: Path) -> bytes:
    """What wandb has written, in all sessions."""
    return b"".join(path.read_bytes() for path in sorted(run.glob("wandb/offline-run-*/*.wandb")))


def test_the_entry_point_names_the_plugin() -> None:
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    points = project["entry-points"]["a3c_zoo"]
    assert [import_module(module).zoo_hooks() for module in points.values()] == [zoo_hooks()]


def test_the_readme_lists_every_key() -> None:
    readme = (Path(__file__).parent.parent / "README.md").read_text()
    for name, model in (("wandb", WandbConfig), ("trackio", TrackioConfig), ("mlflow", MlflowConfig)):
        assert all(f"| `plugins.{name}.{key}` |" in readme for key in model.model_fields)


def test_listing_imports_nothing_heavy() -> None:
    heavy = "{'wandb', 'trackio', 'mlflow', 'torch'}"
    program = f"import sys, a3c_zoo_wandb.plugin, a3c_zoo_wandb.config\nprint(*{heavy} & sys.modules.keys())"
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environ)
    assert result.stdout.split() == []


def test_an_id_of_a_strangers_run_is_no_path(tmp_path: Path) -> None:
    for text, expected in (("abc-1\n", "abc-1"), ("../../etc/passwd", None), ("", None), ("a" * 999, None)):
        (tmp_path / "id").write_text(text)
        assert known_id(tmp_path / "id") == expected
    assert known_id(tmp_path / "nowhere") is None
    keep_id(tmp_path / "id", "run@2")
    assert known_id(tmp_path / "id") == "run@2"


def test_an_id_is_neither_read_nor_written_through_a_link(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    link = tmp_path / "link"
    pipe = tmp_path / "pipe"
    mine.write_text("abc-1")
    link.symlink_to(mine)
    os.mkfifo(pipe)
    assert (known_id(link), known_id(pipe)) == (None, None)
    keep_id(link, "abc-2")
    assert (mine.read_text(), known_id(link)) == ("abc-1", "abc-2")


@pytest.mark.parametrize("name", ["trackio", "mlflow"])
def test_a_tracker_that_is_not_installed(name: str, tmp_path: Path) -> None:
    """One line before anything is trained."""
    plugin_distribution(tmp_path / "installed", "wandb-plugin", "from a3c_zoo_wandb.plugin import zoo_hooks\n")
    (tmp_path / "installed" / f"{name}.py").write_text("raise ImportError('no such thing')\n")
    ended = train(tmp_path, "cartpole", *QUICK, "-o", f"plugins.{name}.enabled=true")
    assert ended.returncode == 2, ended.stderr
    assert f"is not installed (no such thing): pip install {name}" in ended.stderr
    assert not list(tmp_path.glob("runs/*"))


def sqlite_rows(file: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(file)) as database:
        return database.execute(query).fetchall()


def test_mlflow_has_one_run_of_a_run_and_its_resume(tmp_path: Path) -> None:
    pytest.importorskip("mlflow", reason="MLflow is not installed: make plugin-requirements")
    pytest.importorskip("sqlalchemy", reason="MLflow keeps runs with it")
    options = ("-o", "plugins.mlflow.experiment=balance", "-o", "plugins.mlflow.tracking_uri=sqlite:///m.db")
    ended = train(tmp_path, "cartpole", *QUICK, *options, "--name", "one")
    assert ended.returncode == 0, ended.stderr
    assert "mlflow" not in ended.stdout + ended.stderr
    assert not (tmp_path / "runs/one/events.jsonl").exists()  # nothing has failed
    ended = train(tmp_path, "--resume", "one", "--steps", "3000")
    assert ended.returncode == 0, ended.stderr
    assert not (tmp_path / "runs/one/events.jsonl").exists()
    database = tmp_path / "m.db"
    assert sqlite_rows(database, "select name, status from runs") == [("one", "FINISHED")]
    points = dict(sqlite_rows(database, "select key, max(step) from metrics group by key"))
    steps = json.loads((tmp_path / "runs/one/outcome.json").read_text())["steps"]
    assert {points["episode/return_mean_100"], points["final/steps"]} == {steps}
    assert "train/entropy" in points
    settings = dict(sqlite_rows(database, "select key, value from params"))
    assert settings["env_name"] == "cartpole"
    assert settings["agent.n_steps"] == "5"


def test_an_mlflow_that_is_away_stops_no_training(tmp_path: Path) -> None:
    pytest.importorskip("mlflow", reason="MLflow is not installed: make plugin-requirements")
    options = ("-o", "plugins.mlflow.tracking_uri=http://127.0.0.1:9", "--name", "one")
    ended = train(tmp_path, "cartpole", *QUICK, *options, MLFLOW_HTTP_REQUEST_MAX_RETRIES="0")
    assert ended.returncode == 0, ended.stderr
    events = [json.loads(line) for line in (tmp_path / "runs/one/events.jsonl").read_text().splitlines()]
    assert [event["kind"] for event in events] == ["hook_failed"]
    assert "run hook 'mlflow' of plugin" in events[0]["text"]


def test_trackio_has_one_run_of_a_run_and_its_resume(tmp_path: Path) -> None:
    pytest.importorskip("trackio", reason="Trackio is not installed: make plugin-requirements")
    options = ("-o", "plugins.trackio.project=balance", "-o", "plugins.trackio.every_s=0", "--name", "one")
    place = {"TRACKIO_DIR": str(tmp_path / "trackio")}
    ended = train(tmp_path, "cartpole", *QUICK, *options, **place)
    assert ended.returncode == 0, ended.stderr
    assert "Trackio" not in ended.stdout + ended.stderr
    ended = train(tmp_path, "--resume", "one", "--steps", "3000", **place)
    assert ended.returncode == 0, ended.stderr
    assert not (tmp_path / "runs/one/events.jsonl").exists()  # nothing has failed
    rows = sqlite_rows(tmp_path / "trackio/balance.db", "select run_name, step, metrics from metrics")
    assert {name for name, _, _ in rows} == {"one"}
    points = [json.loads(values) for _, _, values in rows]
    steps = json.loads((tmp_path / "runs/one/outcome.json").read_text())["steps"]
    assert max(values.get("final/steps", 0) for values in points) == steps
    assert any("episode/return_mean_100" in values and "train/entropy" in values for values in points)


class TestWithWandb:
    """These need the package itself."""

    @pytest.fixture(autouse=True)
    def _wandb(self) -> None:
        pytest.importorskip("wandb", reason="wandb is not installed: make plugin-requirements")

    def test_a_run_and_its_resume_are_one_wandb_run(self, tmp_path: Path) -> None:
        options = ("-o", "plugins.wandb.mode=offline", "-o", "plugins.wandb.project=balance", "--name", "one")
        ended = train(tmp_path, "cartpole", *QUICK, *options)
        assert ended.returncode == 0, ended.stderr
        run = tmp_path / "runs/one"
        written = records(run)
        for text in ("balance", "episode/return_mean_100", "speed/steps_per_s", "train/entropy", "reason", "n_steps"):
            assert text.encode() in written, text
        assert not (run / "events.jsonl").exists()  # nothing has failed
        ended = train(tmp_path, "--resume", "one", "--steps", "3000")
        assert ended.returncode == 0, ended.stderr
        ids = {path.name.rpartition("-")[2] for path in run.glob("wandb/offline-run-*")}
        assert len(ids) == 1
        assert json.loads((run / "outcome.json").read_text())["reason"] == "steps"

    def test_without_a_key_it_says_what_to_do_before_anything_is_trained(self, tmp_path: Path) -> None:
        ended = train(tmp_path, "cartpole", *QUICK, "-o", "plugins.wandb.enabled=true")
        assert ended.returncode == 2, ended.stderr
        assert "wandb login" in ended.stderr
        assert "-o plugins.wandb.mode=offline" in ended.stderr
        assert not list(tmp_path.glob("runs/*"))

    def test_the_mode_of_the_environment_counts(self, tmp_path: Path) -> None:
        ended = train(
            tmp_path, "cartpole", *QUICK, "-o", "plugins.wandb.tags=[a]", "--name", "one", WANDB_MODE="offline"
        )
        assert ended.returncode == 0, ended.stderr
        assert records(tmp_path / "runs/one")

    def test_a_server_that_is_away_stops_no_training(self, tmp_path: Path) -> None:
        options = ("-o", "plugins.wandb.mode=online", "--name", "one")
        variables = {
            "WANDB_API_KEY": "0" * 40,
            "WANDB_BASE_URL": "http://127.0.0.1:9",
            "WANDB_INIT_TIMEOUT": "3",
        }
        ended = train(tmp_path, "cartpole", *QUICK, *options, **variables)
        assert ended.returncode == 0, ended.stderr
        events = [json.loads(line) for line in (tmp_path / "runs/one/events.jsonl").read_text().splitlines()]
        assert [event["kind"] for event in events] == ["hook_failed"]
        assert "run hook 'wandb' of plugin" in events[0]["text"]

    def test_a_point(self) -> None:
        from a3c_zoo_wandb.logger import last_id
        from a3c_zoo_wandb.points import point

        played = EvaluatorResult(step=40, greedy_return=3.0, sampled_return=2.0, best_return=2.0, best_step=40)
        progress = Progress(50, 5, 2, 0.5, 100.0, None, None, 0, {"entropy": 0.6}, played)
        expected: dict[str, Any] = {"steps": 50, "episodes": 5, "updates": 2, "training_s": 0.5}
        expected |= {"speed/steps_per_s": 100.0, "train/entropy": 0.6}
        assert point(progress) == expected | {"eval/return_mean_greedy": 3.0, "eval/return_mean_sampled": 2.0}
        assert last_id(Path("/nowhere")) is None

    def test_each_agent_of_a_game_has_a_curve(self) -> None:
        from a3c_zoo_wandb.points import final_figures, point

        means = {"ann": 3.0, "bob": 2.0}
        expected = {"episode/return_mean_100/ann": 3.0, "episode/return_mean_100/bob": 2.0}
        progress = Progress(50, 5, 2, 0.5, 100.0, None, None, 0, {}, agent_returns_100=means)
        assert point(progress).items() >= expected.items()
        outcome = Outcome(
            Path("one"),
            solved=False,
            reason="steps",
            detail="done",
            steps=50,
            episodes=5,
            updates=2,
            training_s=0.5,
            evaluation_s=0.0,
            checkpoint_s=0.0,
            startup_s=0.0,
            total_s=0.5,
            steps_per_s=100.0,
            mean_return_100=5.0,
            evaluation=None,
            agent_returns_100=means,
        )
        assert final_figures(outcome).items() >= expected.items()

    def test_the_newest_run_in_a_folder(self, tmp_path: Path) -> None:
        from a3c_zoo_wandb.logger import last_id

        for name in ("run-20260101_120000-aaa", "offline-run-20260102_120000-bbb", "latest-run"):
            (tmp_path / name).mkdir()
        assert last_id(tmp_path) == "bbb"
