"""The reports of docs/reports/ are those that the code makes of the raw figures beside them (benchmarks/reports.py)."""

from __future__ import annotations

import json
import re
import shutil
from datetime import date
from pathlib import Path
from types import ModuleType

import pytest

import a3c_zoo
from tests.test_zoo_table import load
from tests.wheels import ROOT

FOLDER = ROOT / "docs" / "reports"


@pytest.fixture(scope="module")
def reports() -> ModuleType:
    return load("reports", ROOT / "benchmarks" / "reports.py")


def without_pictures(page: str) -> str:
    """A page in HTML without its plots, which depend on the versions of matplotlib and of fonts."""
    return re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL)


def test_every_committed_report_has_raw_figures(reports: ModuleType) -> None:
    assert reports.names() == sorted(folder.name for folder in FOLDER.iterdir() if folder.is_dir())


@pytest.mark.parametrize("name", sorted(folder.name for folder in FOLDER.iterdir() if folder.is_dir()))
def test_a_committed_report_is_what_the_code_makes(name: str, reports: ModuleType, tmp_path: Path) -> None:
    reports.write(name, tmp_path)
    for file in reports.TEXTS:
        committed = (FOLDER / name / file).read_text(encoding="utf-8")
        assert (tmp_path / file).read_text(encoding="utf-8") == committed, f"python benchmarks/reports.py write {name}"
    made, committed = (
        without_pictures((folder / "report.html").read_text(encoding="utf-8")) for folder in (tmp_path, FOLDER / name)
    )
    assert made == committed
    assert {path.name for path in tmp_path.iterdir()} == {*reports.TEXTS, "report.html", "curves.png"}
    assert str(ROOT) not in made


@pytest.mark.usefixtures("plain_reports")
def test_raw_figures_make_the_report_of_their_comparison(
    reports: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of runs as they are, with every episode and evaluation: the same figures, page and curves."""
    runs = tmp_path / "runs"
    for run in sorted((ROOT / "tests" / "data" / "runs").glob("cartpole-*-s[1-5]")):
        copy = Path(shutil.copytree(run, runs / run.name))
        meta = (copy / "meta.json").read_text().replace('"a3c-zoo": "0.1.0"', f'"a3c-zoo": "{a3c_zoo.__version__}"')
        (copy / "meta.json").write_text(meta)
    compared = a3c_zoo.compare(sources=[runs], out=tmp_path / "compared")
    results = json.loads((compared.out / "results.json").read_text())
    making = {"schedules": "", "slots": 1, "tuning": {}, "engine_notes": [], "missing": {}, "plan": ""}
    (compared.out / "results.json").write_text(json.dumps(results | making))

    monkeypatch.setattr(reports, "REPORTS", tmp_path / "docs")
    reports.keep(compared.out, runs, tmp_path / "docs" / "mine" / "raw", date(2026, 11, 27))
    assert reports.names() == ["mine"]
    shutil.rmtree(runs)
    reports.write("mine", tmp_path / "made")
    made = json.loads((tmp_path / "made" / "results.json").read_text())
    assert {key: value for key, value in made.items() if key in results} == results
    assert (tmp_path / "made" / "runs.csv").read_bytes() == (compared.out / "runs.csv").read_bytes()
    page = (tmp_path / "made" / "report.md").read_text()
    assert page.startswith("# a3c and random on cartpole\n")
    assert ", 2026-11-27\n" in page
    assert "One run at a time" in page
    html = (tmp_path / "made" / "report.html").read_text()
    assert "evaluation of checkpoints" in html
    assert str(tmp_path) not in html
    rows = (tmp_path / "made" / "curves.csv").read_text().splitlines()
    assert (rows[0], len({row.partition(",")[0] for row in rows[1:]})) == ("run,label,seed,steps,return", 10)
