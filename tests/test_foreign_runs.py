"""Runs of stable-baselines3 and RL Zoo: evaluations.npz, environments without a name, folders that share a name."""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

import a3c_zoo
from a3c_zoo.errors import RunDirectoryError, ZooError
from a3c_zoo.figures.curves import reached
from a3c_zoo.report import drawing
from a3c_zoo.report.plot import plot
from a3c_zoo.store.run_groups import on_envs, told_apart
from a3c_zoo.store.run_records import RunRecord, read_run, read_runs
from a3c_zoo.store.tables import Curve
from tests.test_plot import write_run
from tests.toys_runs import command_line

Captured = pytest.CaptureFixture[str]
STEPS = np.array([600, 1200, 1770])
RETURNS = np.array([[9.0, 11.0], [19.0, 21.0], [30.0, 50.0]])


def save(folder: Path, **changes: Any) -> Path:
    """Writes evaluations.npz as EvalCallback does: with `np.savez`, from lists."""
    arrays: dict[str, Any] = {"timesteps": STEPS.tolist(), "results": RETURNS.tolist(), "ep_lengths": RETURNS.tolist()}
    np.savez(folder / "evaluations", **{**arrays, **changes})
    return folder


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two folders of RL Zoo's, each with three runs of `ppo`, of 60 episodes of 30 steps on average."""
    monkeypatch.chdir(tmp_path)
    for top in ("old", "new"):
        for seed in (1, 2, 3):
            save(write_run(tmp_path / top / "ppo" / f"CartPole-v1_{seed}", [float(n + seed) for n in range(60)]))
    return tmp_path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short real training with an EvalCallback, laid out as RL Zoo does it."""
    import gymnasium
    from stable_baselines3 import A2C
    from stable_baselines3.common.callbacks import EvalCallback
    from stable_baselines3.common.monitor import Monitor

    folder = tmp_path_factory.mktemp("logs") / "a2c" / "CartPole-v1_1"
    callback = EvalCallback(Monitor(gymnasium.make("CartPole-v1")), n_eval_episodes=3, eval_freq=100,
                            log_path=str(folder), verbose=0, warn=False)  # fmt: skip
    folder.mkdir(parents=True)
    env = Monitor(gymnasium.make("CartPole-v1"), str(folder / "0"))
    A2C("MlpPolicy", env, device="cpu", seed=1).learn(300, callback)
    env.close()
    return folder


def test_what_eval_callback_writes(trained: Path, tmp_path: Path) -> None:
    run = read_run(trained)
    log = np.load(trained / "evaluations.npz")
    assert [each.steps for each in run.evaluations] == log["timesteps"].tolist() == [100, 200, 300]
    assert [each.evaluation.mean_return for each in run.evaluations] == log["results"].mean(axis=1).tolist()
    assert [each.evaluation.episodes for each in run.evaluations] == [3, 3, 3]
    seconds = [each.training_s for each in run.evaluations]
    assert run.curve.seconds[0] <= seconds[0] <= seconds[1] <= seconds[2] == run.curve.seconds[-1]
    table = plot(trained, tmp_path / "x.csv", kind="evaluation").path.read_text().splitlines()
    assert [row.split(",")[:4] for row in table[1:]] == [
        ["CartPole-v1_1", "a2c", "1", str(at)] for at in (100, 200, 300)
    ]


def test_evaluations_without_monitors(logs: Path) -> None:
    folder = save(write_run(logs / "eval", []))
    (folder / "monitor.csv").unlink()
    assert read_run(folder, strict=False).env == "unknown"
    table = plot(folder, "x.csv", kind="evaluation", env="CartPole-v1").path.read_text().splitlines()
    assert table[1:] == ["eval,eval,,600,10", "eval,eval,,1200,20", "eval,eval,,1770,40"]
    with pytest.raises(ZooError, match=r"^eval: evaluations\.npz has no seconds"):
        plot("eval", "y.csv", kind="evaluation", x="seconds")
    with pytest.raises(RunDirectoryError, match="no run and no monitor"):
        read_run(folder)  # a comparison needs to know where a run ends
    named = Path(shutil.copytree(folder, logs / "td3" / "Acrobot-v1_7"))
    run = read_run(named, strict=False)
    assert (run.method, run.env, run.seed) == ("td3", "gym:Acrobot-v1", 7)


@pytest.mark.parametrize(("env_id", "greedy"), [("CartPole-v1", True), ("PongNoFrameskip-v4", False),
                                                ("MiniGrid-Empty-5x5-v0", False)])  # fmt: skip
def test_actions_as_rl_zoo_plays(env_id: str, greedy: bool, tmp_path: Path) -> None:
    run = read_run(save(write_run(tmp_path / "x_1", [30.0], env_id)))
    assert {each.evaluation.deterministic for each in run.evaluations} == {greedy}


def test_a_game_in_a_folder_of_rl_zoo(tmp_path: Path) -> None:
    """The folder has a dash for the slash of the id. A monitor need not know the id."""
    folder = save(write_run(tmp_path / "ppo" / "ALE-Pong-v5_2", [30.0]))
    file = folder / "monitor.csv"
    file.write_text(file.read_text().replace('"CartPole-v1"', "null"))
    run = read_run(folder)
    assert (run.method, run.env, run.seed) == ("ppo", "gym:ALE/Pong-v5", 2)
    assert not any(each.evaluation.deterministic for each in run.evaluations)


def packed(array: bytes, size: int | None = None) -> bytes:
    """An evaluations.npz with these bytes as every array, which claims to unpack to `size` bytes."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in ("timesteps", "results", "ep_lengths"):
            archive.writestr(f"{name}.npy", array)
            if size is not None:
                archive.infolist()[-1].file_size = size
    return file.getvalue()


def header(text: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


HUGE = header("{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999,), }\n")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"results": np.array([[object()]])}, "Object arrays cannot be loaded when allow_pickle=False"),
        ({"results": [["a"]]}, "results holds no numbers"),
        ({"results": [1.0, 2.0, 3.0]}, r"its results have the shape \(3,\), its timesteps \(3,\)"),
        ({"timesteps": [1, 2]}, r"its results have the shape \(3, 2\), its timesteps \(2,\)"),
        ({"ep_lengths": [[1.0]]}, "its results have the shape"),
        ({"results": [[np.nan, 1.0]] * 3}, "it has a number that is not finite, or too great"),
        ({"timesteps": [1, 2, 1e300]}, "it has a number that is not finite, or too great"),
        ({"timesteps": [2, 2, 3]}, "its timesteps do not rise"),
        (b"", "File is not a zip file"),
        (b"PK\x05\x06" + bytes(18), "There is no item named 'timesteps.npy'"),
        (packed(b"\x93NUMPY"), "."),
        (packed(header("{" * 200)), "."),
        (packed(header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }\n")), "."),
        (packed(HUGE), "."),
        (packed(bytes(33 << 20)), "timesteps is too large, or packed in an unusual way"),
        (packed(bytes(33 << 20), size=100), "."),
    ],
)
def test_an_archive_of_a_stranger(damage: dict[str, Any] | bytes, message: str, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "x_1", [30.0])
    if isinstance(damage, dict):
        save(folder, **damage)
    else:
        (folder / "evaluations.npz").write_bytes(damage)
    with pytest.raises(RunDirectoryError, match=rf"^evaluations.npz is damaged: .*{message}") as raised:
        read_run(folder)
    assert "\n" not in str(raised.value)


def test_more_evaluations_than_any_training_has(tmp_path: Path) -> None:
    """Eight million fit into a file of 11 MB, and each became records in memory."""
    folder = write_run(tmp_path / "x_1", [30.0])
    ones = np.ones((100_001, 1), np.uint8)
    np.savez_compressed(
        folder / "evaluations", timesteps=np.arange(100_001, dtype=np.int32), results=ones, ep_lengths=ones
    )
    reason = r"^evaluations.npz has 100,001 evaluations, and at most 100,000 are read$"
    with pytest.raises(RunDirectoryError, match=reason):
        read_run(folder)


def test_no_link_and_no_fifo(tmp_path: Path) -> None:
    import os

    save(tmp_path)
    folder = write_run(tmp_path / "x_1", [30.0])
    (folder / "evaluations.npz").symlink_to(tmp_path / "evaluations.npz")
    with pytest.raises(RunDirectoryError, match="it is a link"):
        read_run(folder)
    (folder / "evaluations.npz").unlink()
    os.mkfifo(folder / "evaluations.npz")
    with pytest.raises(RunDirectoryError, match="it is no regular file"):
        read_run(folder)


def test_an_environment_without_a_name(logs: Path, capsys: Captured) -> None:
    folder = write_run(logs / "mine_1", [10.0, 20.0])
    file = folder / "monitor.csv"
    for text in ('"None"', "null"):
        file.write_text(file.read_text().replace('"CartPole-v1"', text))
        run = read_run(folder)
        assert (run.env, run.method, run.seed) == ("unknown", "mine", 1)
    shutil.copy(write_run(logs / "other", [5.0]) / "monitor.csv", folder / "0.monitor.csv")
    assert read_run(folder).env == "cartpole"  # another worker knows it
    (folder / "0.monitor.csv").unlink()
    assert command_line("plot", "mine_1", "other") == 2
    message = "Error: runs of different environments cannot share a plot: cartpole, unknown. Choose one with --env\n"
    assert capsys.readouterr().err == message
    assert command_line("plot", "mine_1", "other", "--env", "cartpole", "--out", "x.svg") == 0
    assert "2 runs in x.svg" in capsys.readouterr().out
    assert command_line("plot", "mine_1", "--out", "y.svg") == 0
    assert "threshold" in Path("x.svg").read_text()
    assert "threshold" not in Path("y.svg").read_text()


def labels(*paths: str, **options: Any) -> dict[str, int]:
    """Label → number of its runs."""
    rows = plot(paths, "labels.csv", force=True, **options).path.read_text().splitlines()[1:]
    found: dict[str, set[str]] = {}
    for row in rows:
        found.setdefault(row.split(",")[1], set()).add(row.split(",")[0])
    return {label: len(runs) for label, runs in found.items()}


def test_folders_that_share_a_name(logs: Path) -> None:
    assert labels("old") == {"ppo": 3}
    assert labels("old", labels="A") == labels("old", labels=["A"]) == {"A": 3}  # not read letter by letter
    assert labels("old", "new") == {"ppo (old)": 3, "ppo (new)": 3}
    assert labels("new/ppo/CartPole-v1_1", "old") == {"ppo (new)": 1, "ppo (old)": 3}
    write_run(logs / "new" / "deeper" / "ppo_9", [1.0])
    write_run(logs / "new" / "a2c_1", [1.0])
    assert labels("new") == {"a2c": 1, "ppo (deeper)": 1, "ppo (ppo)": 3}
    write_run(logs / "ppo_8", [1.0])
    nested = told_apart(read_runs(["."])[0])
    top = logs.name
    assert {run.method for run in nested} == {
        "a2c", f"ppo ({top})", f"ppo ({top}/new/deeper)", f"ppo ({top}/new/ppo)", f"ppo ({top}/old/ppo)"
    }  # fmt: skip


def test_folders_of_environments_do_not_split_a_method() -> None:
    """RL Zoo's event files lie in `tb/<environment>/a2c_1`. A method is split if its folders share an environment."""
    nothing = Curve.ordered(*np.empty((4, 0)))
    runs = [RunRecord(Path(f"/tb/{env}/a2c_1"), "a2c", env, 1, nothing) for env in ("cartpole", "pong")]
    assert told_apart(runs) == runs
    again = RunRecord(Path("/tb/more/a2c_2"), "a2c", "pong", 2, nothing)
    assert [run.method for run in told_apart([*runs, again])] == ["a2c (cartpole)", "a2c (pong)", "a2c (more)"]


def test_labels_of_ones_own(logs: Path, capsys: Captured) -> None:
    assert labels("old", "new", labels=("before", "after")) == {"before": 3, "after": 3}
    assert labels("old", "new", labels=("all", "all")) == {"all": 3}  # names are equal: three names, six runs
    assert command_line("plot", "old", "new", "--label", "one") == 2
    message = "Error: --label: 1 for 2 curves; give one for each of: ppo (old), ppo (new)\n"
    assert capsys.readouterr().err == message
    assert command_line("plot", "old", "new", "--label", "$x_1$", "--label", "\x1b[1m") == 0
    capsys.readouterr()
    assert command_line("plot", "old", "--env", "pong", "-f") == 2
    assert capsys.readouterr().err == "Error: --env: there is no run on 'pong'; there are: cartpole\n"


@pytest.mark.usefixtures("plain_reports")
def test_a_comparison_of_their_evaluations(logs: Path, capsys: Captured) -> None:
    shutil.rmtree("new/ppo/CartPole-v1_3")
    save(Path("new/ppo/CartPole-v1_2"), timesteps=[600, 1200, 1300])  # of 1,830 steps: this is not its end
    assert command_line("compare", "--from", "old", "new", "--out", "report", "--json") == 0
    results = json.loads(capsys.readouterr().out)
    methods = results["environments"]["cartpole"]["methods"]
    assert {name: each["seeds"] for name, each in methods.items()} == {"ppo (old)": [1, 2, 3], "ppo (new)": [1, 2]}
    assert methods["ppo (old)"]["final_return_greedy"]["mean"]["value"] == 40.0
    assert "final_return" not in methods["ppo (old)"]
    finals = {(run["method"], run["seed"]): run["final_return_greedy"] for run in results["runs"]}
    assert finals["ppo (new)", 1] == 40.0
    assert finals["ppo (new)", 2] is None
    page = Path("report/report.md").read_text()
    assert "Not evaluated, or not to the end: new/ppo/CartPole-v1" in page
    assert page.count("not to the end") == 1
    assert "ppo (old) ended with an interquartile mean return of 40.0 (–) with greedy" in page
    assert "RL Zoo plays" in page


def test_a_monitor_that_was_gone_on_with(tmp_path: Path) -> None:
    """SB3 adds rows to the file, whose seconds count from 0 again: 150 episodes of 20, then 150 of 500."""
    rows = [f"{length},{length},{n + 1}" for length in (20, 500) for n in range(150)]
    text = "\n".join(['#{"t_start": 1690000000.0, "env_id": "CartPole-v1"}', "r,l,t", *rows, ""])
    (tmp_path / "0.monitor.csv").write_text(text)
    curve = read_run(tmp_path).curve
    assert curve.returns.tolist() == [20] * 150 + [500] * 150
    assert curve.seconds[[149, 150, -1]].tolist() == [150, 151, 300]
    moment = reached(curve, 475)
    assert moment is not None
    assert moment.steps == 150 * 20 + 95 * 500


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        ((10, 20, 30, 20, 30, 40), (10, 20, 30, 50, 60, 70)),  # its first episode is a long one
        ((0.5, 0.9, 0.2, 0.3), (0.5, 0.9, 1.1, 1.2)),
        ((10, 20, 30, 29.25, 40, 50), (10, 20, 30, 30, 40.75, 50.75)),  # the clock was set back
    ],
)
def test_the_rows_of_a_monitor_keep_their_order(
    seconds: tuple[float, ...], told: tuple[float, ...], tmp_path: Path
) -> None:
    rows = [f"{n},100,{at}" for n, at in enumerate(seconds)]
    text = "\n".join(['#{"t_start": 1690000000.0, "env_id": "CartPole-v1"}', "r,l,t", *rows, ""])
    (tmp_path / "monitor.csv").write_text(text)
    curve = read_run(tmp_path).curve
    assert curve.returns.tolist() == [*range(len(seconds))]
    assert curve.seconds == pytest.approx(told)


def test_a_monitor_without_an_episode_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "0.monitor.csv").write_text('#{"t_start": 1690000000.0, "env_id": "CartPole-v1"}\nr,l,t\n')
    with pytest.raises(RunDirectoryError, match=r"^it has no episode$"):
        read_run(tmp_path)


def test_a_monitor_whose_start_is_no_time(tmp_path: Path) -> None:
    """No float holds it."""
    (tmp_path / "monitor.csv").write_text(f'#{{"t_start": {"9" * 400}}}\nr,l,t\n1,1,1\n')
    with pytest.raises(RunDirectoryError, match=r"^monitor\.csv is damaged: it does not begin with"):
        read_run(tmp_path)


@pytest.mark.usefixtures("plain_reports")
def test_runs_of_different_lengths_are_told(tmp_path: Path) -> None:
    for name, episodes in (("a2c_1", 20), ("ppo_1", 40), ("ppo_2", 41)):
        rows = [f"9,10,{n}" for n in range(episodes)]
        text = "\n".join(['#{"t_start": 1690000000.0, "env_id": "CartPole-v1"}', "r,l,t", *rows, ""])
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.monitor.csv").write_text(text)
    comparison = a3c_zoo.compare(sources=[tmp_path], out=tmp_path / "out")
    (line,) = (line for line in comparison.verdict if "lengths" in line)
    assert line.endswith(
        ": the runs have different lengths (a2c: 200 steps; ppo: 400 to 410 steps), which alone can make a difference, "
        "so nothing is claimed there about methods that differ in this."
    )


@pytest.mark.usefixtures("plain_reports")
@pytest.mark.parametrize("drawn", [0, 1])
def test_an_unfinished_report_leaves_its_place_free(drawn: int, logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while the curves are drawn, and after the first file of them."""
    with monkeypatch.context() as patched:
        patched.setattr(drawing, "to_bytes", Mock(side_effect=[b""] * drawn + [KeyboardInterrupt]))
        with pytest.raises(KeyboardInterrupt):
            a3c_zoo.compare(sources=["new"], out="report")
    assert not Path("report").exists()
    assert a3c_zoo.compare(sources=["new"], out="report").out == Path("report")


@pytest.mark.usefixtures("plain_reports")
def test_filters_of_a_comparison(logs: Path, capsys: Captured) -> None:
    write_run(logs / "new" / "a2c" / "Acrobot-v1_2", [1.0], "Acrobot-v1")

    def chosen(*options: str) -> set[str]:
        shutil.rmtree("report", ignore_errors=True)
        assert command_line("compare", "--from", "new", "--out", "report", "--json", *options) == 0
        return {run["run"] for run in json.loads(capsys.readouterr().out)["runs"]}

    assert chosen("--env", "cartpole", "--seed", "2") == {"CartPole-v1_2"}
    assert chosen("--agent", "a2c") == {"Acrobot-v1_2"}
    for options, message in [
        (["--from", "new", "--seed", "9"], "4 runs are there, and none is what"),
        (["--from", "new", "--since", "1h"], "4 runs are there, and none is what"),  # they do not say when they started
        (["--from", "new", "--env", "pong"], "--from: there is no run on 'pong'; there are: gym:Acrobot-v1, cartpole"),
        (["--from", "new", "--seeds", "3"], "--from only reads runs; leave out --seeds"),
        (["cartpole", "--solved"], "--solved selects among the runs of --from; leave it out"),
        (["cartpole", "--since", "1x"], "Invalid value for '--since': '1x' is no time"),
    ]:
        assert command_line("compare", *options) == 2
        err = capsys.readouterr().err
        assert message in err


def test_an_environment_whose_name_looks_like_an_id() -> None:
    """`--env maze-v2` means the plugin's environment; `--env CartPole-v1` means cartpole, as before."""
    nothing = Curve.ordered(*np.empty((4, 0)))
    runs = [RunRecord(Path(env), "a3c", env, 1, nothing) for env in ("maze-v2", "cartpole", "gym:Acrobot-v1")]
    for name, env in {"maze-v2": "maze-v2", "CartPole-v1": "cartpole", "Acrobot-v1": "gym:Acrobot-v1"}.items():
        assert [run.env for run in on_envs(runs, [name], "--env")] == [env]
    with pytest.raises(ZooError, match=r"'gym:maze-v3'; .*maze-v2, cartpole"):
        on_envs(runs, ["maze-v3"], "--env")
