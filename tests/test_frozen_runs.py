"""Runs of earlier versions: each later one reads, plays, plots, compares and continues them.

`tests/data/frozen_runs/VERSION/` has them as that version wrote them (tests/frozen_runs.py); nobody writes them again.
A change that breaks one of them breaks docs/promises.md.
"""

from __future__ import annotations

import csv
import json
import math
import shutil
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

import a3c_zoo
from tests.frozen_runs import COMMANDS, FOLDER
from tests.toys_runs import command_line

RUNS = sorted(path.parent for path in FOLDER.glob("*/*/config.yml"))
ALL = pytest.mark.parametrize("run", RUNS, ids=[f"{path.parent.name}-{path.name}" for path in RUNS])


def outcome(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "outcome.json").read_text())
    return found


def rows(run: Path) -> list[dict[str, str]]:
    lines = (run / "monitor.csv").read_text().splitlines()
    return list(csv.DictReader(lines[1:]))


@pytest.fixture
def copied(run: Path, tmp_path: Path) -> Path:
    """The run as a user of that version has it: below the folder `runs` of the current one."""
    return Path(shutil.copytree(run, tmp_path / "runs" / run.name))


def test_each_version_has_a_run_of_each_kind() -> None:
    versions = {path.parent.name for path in RUNS}
    assert versions
    assert {(path.parent.name, path.name) for path in RUNS} >= {(v, name) for v in versions for name in COMMANDS}


@ALL
def test_it_is_evaluated_with_its_own_parameters(
    copied: Path, run: Path, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with chdir(tmp_path):
        status = command_line("evaluate", copied, "--episodes", "2", "--checkpoint", "final", "--json")
    out, error = capfd.readouterr()
    assert status == 0, error
    found = json.loads(out)
    assert found["step"] == outcome(run)["steps"]
    assert math.isfinite(found["mean_return"])


@ALL
def test_it_goes_on_where_it_ended(copied: Path, run: Path, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    before = rows(run)
    steps = outcome(run)["steps"]
    with chdir(tmp_path):
        status = command_line("train", "--resume", copied, "--steps", steps + 600, "--quiet")
    assert status == 0, capfd.readouterr().err
    assert outcome(copied)["steps"] >= steps + 600
    assert rows(copied)[: len(before)] == before


@ALL
def test_an_agent_is_loaded(copied: Path, tmp_path: Path) -> None:
    with chdir(tmp_path):
        agent = a3c_zoo.load_agent(copied, checkpoint="final")
    assert callable(agent.predict)


@pytest.mark.parametrize("run", [path for path in RUNS if path.name in ("a3c", "sb3-a2c")], ids=lambda run: run.name)
def test_it_plays(copied: Path, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with chdir(tmp_path):
        status = command_line("play", copied, "--video", "game.gif", "--episodes", "1")
    assert status == 0, capfd.readouterr().err
    assert (tmp_path / "game.gif").stat().st_size > 1000


def test_they_are_listed_and_plotted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(FOLDER / RUNS[0].parent.name, tmp_path / "runs")
    with chdir(tmp_path):
        assert command_line("list", "runs", "--json") == 0
        listed = {Path(each["path"]).name for each in json.loads(capfd.readouterr().out)}
        assert listed == set(COMMANDS)
        assert command_line("plot", "runs/a3c", "runs/sb3-a2c", "--out", "curves.svg") == 0
    assert (tmp_path / "curves.svg").stat().st_size > 1000


def test_they_are_compared(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    runs = [str(FOLDER / RUNS[0].parent.name / name) for name in ("a3c", "sb3-a2c")]
    with chdir(tmp_path):
        status = command_line("compare", "--from", *runs, "--out", "report")
    assert status == 0, capfd.readouterr().err
    assert "sb3-a2c" in (tmp_path / "report" / "report.md").read_text()


def test_they_are_compared_by_a_later_version(tmp_path: Path) -> None:
    """The version of the runs is changed in place of the one that reads: it is not that of this one, either."""
    for name in ("a3c", "sb3-a2c"):
        run = Path(shutil.copytree(FOLDER / RUNS[0].parent.name / name, tmp_path / name))
        versions = json.loads((run / "meta.json").read_text())["versions"]
        change(run / "meta.json", {"versions": versions | {"a3c-zoo": "0.2.99"}})
    comparison = a3c_zoo.compare(sources=tmp_path, out=tmp_path / "report")
    assert comparison.left_out == {}
    assert set(comparison.results["machine_and_versions"]["a3c-zoo"]) == {"0.2.99"}


def newer_run(run: Path) -> None:
    change(run / "meta.json", {"format": 99})


def newer_key(run: Path) -> None:
    path = run / "config.yml"
    path.write_text(path.read_text().replace("\nagent:\n", "\nagent:\n  key_of_tomorrow: 1\n"))
    versions = json.loads((run / "meta.json").read_text())["versions"]
    change(run / "meta.json", {"versions": versions | {"a3c-zoo": "99.0.0"}})


def newer_evaluations(run: Path) -> None:
    (run / "evaluations.json").write_text('{"format": 99, "results": []}')


def change(path: Path, values: dict[str, Any]) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.mark.parametrize(
    ("spoil", "words", "text"),
    [
        (newer_run, ["evaluate", "RUN"], "has run format 99; this version reads 1. A newer a3c-zoo wrote it: upgrade"),
        (newer_run, ["train", "--resume", "RUN", "--steps", "9000"], "has run format 99; this version reads 1"),
        (newer_run, ["plot", "RUN", "--out", "curve.svg"], "A newer a3c-zoo wrote it"),
        (newer_run, ["compare", "--from", "RUN", "--out", "report"], "A newer a3c-zoo wrote it"),
        (
            newer_key,
            ["evaluate", "RUN"],
            "agent.key_of_tomorrow: unknown key. a3c-zoo 99.0.0 made the run, and this is ",
        ),
        (newer_key, ["train", "--resume", "RUN", "--steps", "9000"], "a3c-zoo 99.0.0 made the run, and this is "),
        (newer_evaluations, ["compare", "--from", "RUN", "--out", "report"], "evaluations.json has format 99"),
    ],
)
def test_what_a_newer_version_wrote_is_refused_and_left(
    spoil: Callable[[Path], None], words: list[str], text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = Path(shutil.copytree(FOLDER / RUNS[0].parent.name / "a3c", tmp_path / "runs/a3c"))
    spoil(run)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != "run.lock"}
    with chdir(tmp_path):
        assert command_line(*(str(run) if word == "RUN" else word for word in words)) == 2
    lines = capfd.readouterr().err.splitlines()
    assert text in lines[-1]
    assert lines[-1].startswith("Error: ")
    assert {path: path.read_bytes() for path in before} == before
