"""`compare --from` of the finished runs in tests/data/runs writes results.json as in tests/data/results, byte for byte.

The runs: five seeds of a3c (60,000 steps) and of random (3,000 steps) on CartPole, two of each on Acrobot, one that was
killed (a3c, seed 6), and one of stable-baselines3's users (a2c_1). Returns at the end of a3c's seeds 2, 3 and 4 are set
to 500, so that some runs reach the threshold and one nearly does.

Two things are replaced before the comparison: the version of a3c-zoo, and the day on which a report was written.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import a3c_zoo
from a3c_zoo.report.results_json import runs_csv
from tests.toys_runs import command_line
from tests.wheels import ROOT

DATA = Path(__file__).parent / "data"
#: The version that made the runs.
MADE_BY = "0.1.0"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """The runs, as if this version had made them."""
    folder = Path(shutil.copytree(DATA / "runs", tmp_path / "runs"))
    for meta in folder.glob("*/meta.json"):
        meta.write_text(meta.read_text().replace(f'"a3c-zoo": "{MADE_BY}"', f'"a3c-zoo": "{a3c_zoo.__version__}"'))
    return folder


def expected(name: str) -> str:
    text = (DATA / "results" / name).read_text()
    assert MADE_BY in text
    return text.replace(MADE_BY, a3c_zoo.__version__)


def test_one_environment(runs: Path, tmp_path: Path) -> None:
    comparison = a3c_zoo.compare(sources=sorted(runs.glob("cartpole-*")), out=tmp_path / "out")
    assert (tmp_path / "out/results.json").read_text() == expected("cartpole.json")
    text = (tmp_path / "out/report.md").read_text()
    assert re.sub(r"(?m), \d{4}-\d\d-\d\d$", ", DAY", text) == expected("cartpole.md")
    assert comparison.left_out == {"cartpole-a3c-s6": "incomplete: it has no outcome.json, so it was killed"}


@pytest.mark.usefixtures("plain_reports")
def test_several_environments_and_a_run_of_others(runs: Path, tmp_path: Path) -> None:
    a3c_zoo.compare(["cartpole", "gym:Acrobot-v1"], sources=[runs], out=tmp_path / "out")
    assert (tmp_path / "out/results.json").read_text() == expected("all.json")


@pytest.mark.usefixtures("plain_reports")
def test_each_file_of_a_run_is_opened_once(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = [runs / "cartpole-a3c-s1", runs / "cartpole-random-s1"]
    for run in pair:
        (run / "run.lock").touch()
    opened: Counter[str] = Counter()
    real_open = os.open

    def counted(path: Any, *arguments: Any, **more: Any) -> int:
        opened[str(path)] += 1
        return real_open(path, *arguments, **more)

    monkeypatch.setattr(os, "open", counted)
    a3c_zoo.compare(sources=pair, out=tmp_path / "out")
    names = ("config.yml", "evaluations.json", "meta.json", "monitor.csv", "outcome.json", "run.lock", "timing.json")
    found = {path: number for path, number in opened.items() if path.startswith(str(runs))}
    assert found == {str(run / name): 1 for run in pair for name in names}


def end(run: Path, reason: str, **more: int) -> None:
    file = run / "outcome.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"reason": reason, **more}))


@pytest.mark.usefixtures("plain_reports")
def test_a_run_that_failed_is_lost_and_one_that_was_interrupted_is_not(runs: Path, tmp_path: Path) -> None:
    end(runs / "cartpole-a3c-s4", "interrupted")
    end(runs / "cartpole-random-s2", "error")
    end(runs / "cartpole-random-s3", "error")
    shutil.copytree(runs / "cartpole-random-s1", runs / "cartpole-random-s1-failed")  # it was trained again
    end(runs / "cartpole-random-s1-failed", "error")
    end(runs / "gym_Acrobot-v1-a3c-s1", "error")  # nobody asks for this environment
    shutil.copytree(runs / "cartpole-random-s1-failed", tmp_path / "old/cartpole-random-s1")  # in another folder
    shutil.copytree(runs / "cartpole-random-s2", runs / "cartpole-random-s2-again")  # it failed again: still one seed
    shutil.copytree(runs / "cartpole-random-s1", runs / "cartpole-random-s9")  # it never began
    end(runs / "cartpole-random-s9", "error", steps=0)
    config = runs / "cartpole-random-s9/config.yml"
    config.write_text(config.read_text().replace("seed: 1\n", "seed: 9\n"))
    comparison = a3c_zoo.compare("cartpole", sources=[runs, tmp_path / "old"], out=tmp_path / "out")
    assert comparison.results["lost"] == {"cartpole": {"random": 2}}
    (line,) = (line for line in comparison.verdict if "failed" in line and "Left out" not in line)
    assert line.startswith("cartpole: 2 of 5 runs of random failed or cannot be read; ")
    assert comparison.results["environments"]["cartpole"]["methods"]["random"]["steps_to_threshold"]["runs"] == 5
    assert comparison.results["environments"]["cartpole"]["methods"]["a3c"]["steps_to_threshold"]["runs"] == 4


@pytest.mark.usefixtures("plain_reports")
@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--status", "steps"], "--status steps"),
        (["--unsolved", "--status", "steps"], "--status steps --unsolved"),
        (["--seed", "1", "--seed", "2"], ""),
    ],
)
def test_runs_that_were_chosen_by_how_they_ended_make_no_claims(
    options: list[str], told: str, runs: Path, tmp_path: Path
) -> None:
    """A run that was killed is among those that are not chosen: the others are the survivors."""
    out = tmp_path / "out"
    line = ["compare", "cartpole", "--from", str(runs), "--agent", "a3c", "--agent", "random", *options, "--out", out]
    assert command_line(*line) == 0
    results = json.loads((out / "results.json").read_text())
    about = [text for text in results["not_asked"] if "how they ended" in text]
    assert len(about) == bool(told)
    for text in about:
        assert text.startswith(f"Nothing is claimed, because {told} chose")
        assert text in (out / "report.md").read_text()


def test_options_that_select_no_run_are_named(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line("compare", "--from", runs, "--seed", "99", "--out", tmp_path / "out") == 2
    assert "Error: --from: 16 runs are there, and none is what --agent, --seed" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("plain_reports")
def test_runs_of_other_environments_are_not_left_out(runs: Path, tmp_path: Path) -> None:
    """Nobody asks for them. A run that does not name its environment may be on this one."""
    end(runs / "gym_Acrobot-v1-a3c-s1", "interrupted")
    (runs / "gym_Acrobot-v1-a3c-s2/meta.json").write_text("{")
    comparison = a3c_zoo.compare("cartpole", sources=runs, out=tmp_path / "out")
    assert set(comparison.left_out) == {"cartpole-a3c-s6", "gym_Acrobot-v1-a3c-s2"}
    (runs / "gym_Acrobot-v1-random-s1/monitor.csv").unlink()
    drawn = a3c_zoo.plot(runs, tmp_path / "x.csv", env="cartpole")
    assert {path.name for path in drawn.left_out} == {"gym_Acrobot-v1-a3c-s2"}


@pytest.mark.usefixtures("plain_reports")
def test_a_single_source_is_a_folder(runs: Path, tmp_path: Path) -> None:
    """It was read letter by letter, `/` included."""
    sources: list[str | Path] = [str(runs), runs]
    for number, source in enumerate(sources):
        found = a3c_zoo.compare("cartpole", sources=source, agents="random", out=tmp_path / f"out-{number}")
        assert [run["run"] for run in found.results["runs"]] == [f"cartpole-random-s{seed}" for seed in range(1, 6)]


def test_the_figures_of_each_run_are_a_table(tmp_path: Path) -> None:
    """Those of the reports in docs/ are what `compare` writes from the same figures."""
    runs = [{"run": "a-s1", "seed": 1, "final_return": 2.5}, {"run": "a-s2", "seed": 2, "final_return": None}]
    assert runs_csv(runs) == "run,seed,final_return\na-s1,1,2.5\na-s2,2,\n"
    for results in (ROOT / "docs/reports").glob("*/results.json"):
        assert results.with_name("runs.csv").read_text() == runs_csv(json.loads(results.read_text())["runs"])
