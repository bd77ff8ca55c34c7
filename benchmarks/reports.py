"""Makes the reports of docs/reports/ from the raw figures that are committed beside them.

    python benchmarks/reports.py keep NAME COMPARISON [--runs-dir runs]
    python benchmarks/reports.py write [NAME …]

`keep` copies the raw figures of a finished comparison into docs/reports/NAME/raw. COMPARISON is the folder of its
report. `write` makes reports anew, by the code as it is; a test compares them with the committed ones. Make the runs on
an idle machine, one comparison at a time:

    a3c-zoo compare cartpole --baseline sb3-a2c --seeds 10 --question time --out comparisons/cartpole --yes
    a3c-zoo compare pong --baseline sb3-a2c --seeds 7 --steps 1000000 --out comparisons/pong --yes

What raw/ holds:

    runs.json         the day, how the runs were made, and of each run meta.json, config.yml, outcome.json, timing.json
    evaluations.csv   what each checkpoint played
    episodes.csv.gz   every training episode: run, return, length, seconds of training, agent steps

Where raw/ has measures.csv, the runs are gone: an older version made them, and kept the figures of each run
(measures.csv) and 200 points of each learning curve (curves.csv). Its runs.json has the settings. What they do not tell
is left out.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from datetime import date
from pathlib import Path
from types import UnionType
from typing import Any, get_type_hints

import numpy as np

from a3c_zoo.config.yaml import parse_document
from a3c_zoo.figures.measures import MeasuredRun, Measures, measure
from a3c_zoo.figures.results import Making, Results, results_of
from a3c_zoo.records import Evaluation
from a3c_zoo.report import plot
from a3c_zoo.report.pages import ReportPage, ReportSection
from a3c_zoo.report.report import AXES, page_of, report_files, write_report
from a3c_zoo.store.checkpoint_evaluations import EVALUATIONS_FORMAT
from a3c_zoo.store.run_records import RunRecord, read_run
from a3c_zoo.store.tables import Curve

ROOT = Path(__file__).resolve().parent.parent
REPORTS = ROOT / "docs" / "reports"
RAW = "raw"
#: What is kept of a run's meta.json.
META = ("format", "env", "agent", "kind", "serial", "seed", "command", "versions", "host")
EPISODE = ("r", "l", "t", "step")
EVALUATION = ("steps", "training_s", *(each.name for each in fields(Evaluation) if each.name != "agent_returns"))
#: The files of a report that are no pictures. A picture depends on the versions of fonts and of matplotlib.
TEXTS = ("report.md", "results.json", "runs.csv", "curves.csv")


def names() -> list[str]:
    """The reports that have raw figures."""
    return sorted(folder.parent.name for folder in REPORTS.glob(f"*/{RAW}"))


# ----------------------------------------------------------------------------------------------------------------------
# Keeping


def keep(comparison: Path, runs_dir: Path, out: Path, day: date) -> None:
    """Writes the raw figures of a finished comparison into a folder.

    Args:
        comparison: the folder of its report. runs_dir: where its runs lie.
        day: on which it was made.
    """
    results = json.loads((comparison / "results.json").read_text(encoding="utf-8"))
    if results["left_out"]:
        sys.exit(f"{comparison}: runs are left out: {', '.join(results['left_out'])}")
    runs = [runs_dir / run["run"] for run in results["runs"]]
    making = {each.name: results[each.name] for each in fields(Making)}
    kept = [
        {"name": run["run"], "method": run["method"], **_files_of(path)}
        for run, path in zip(results["runs"], runs, strict=True)
    ]
    out.mkdir(parents=True, exist_ok=True)
    content = {"day": day.isoformat(), "question": results["main_question"] or "", "making": making, "runs": kept}
    (out / "runs.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (out / "evaluations.csv").write_text(_table(("run", *EVALUATION), _evaluations(runs)), encoding="utf-8")
    episodes = _table(("run", *EPISODE), _episodes(runs)).encode()
    (out / "episodes.csv.gz").write_bytes(gzip.compress(episodes, mtime=0))


def _files_of(run: Path) -> dict[str, Any]:
    meta = json.loads((run / "meta.json").read_text(encoding="utf-8"))
    meta["command"] = ["a3c-zoo", *meta["command"][1:]]
    return {
        "meta": {key: meta[key] for key in META},
        "config": (run / "config.yml").read_text(encoding="utf-8"),
        "outcome": json.loads((run / "outcome.json").read_text(encoding="utf-8")),
        "timing": json.loads((run / "timing.json").read_text(encoding="utf-8")),
    }


def _evaluations(runs: Sequence[Path]) -> Iterator[list[Any]]:
    for run in runs:
        for played in json.loads((run / "evaluations.json").read_text(encoding="utf-8"))["evaluations"]:
            yield [run.name, *(json.dumps(played[key]) for key in EVALUATION)]


def _episodes(runs: Sequence[Path]) -> Iterator[list[str]]:
    for run in runs:
        with (run / "monitor.csv").open(encoding="utf-8", newline="") as file:
            next(file)
            for row in csv.DictReader(file):
                yield [run.name, *(row[key] for key in EPISODE)]


def _table(head: Sequence[str], rows: Iterator[list[Any]]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return file.getvalue()


# ----------------------------------------------------------------------------------------------------------------------
# Making


def write(name: str, out: Path) -> None:
    """Makes a report from its raw figures, with its curves as CSV."""
    raw = REPORTS / name / RAW
    content = json.loads((raw / "runs.json").read_text(encoding="utf-8"))
    day = date.fromisoformat(content["day"])
    if (raw / "measures.csv").exists():
        runs = measured_before(raw, content)
        results = results_of(runs, {}, Making(**content["making"]) if content["making"] else None)
        page = page_before(results, content["note"], day)
        curves = (raw / "curves.csv").read_bytes()
    else:
        with tempfile.TemporaryDirectory() as folder:
            unpack(raw, content, Path(folder))
            runs = [read(Path(folder), kept) for kept in content["runs"]]
        results = results_of(runs, {}, Making(**content["making"]), question=content["question"])
        page = page_of(results, day=day)
        curves = plot.table_of([run.record for run in results.runs])
    out.mkdir(parents=True, exist_ok=True)
    write_report(report_files(results, without_links(page), out), out)
    (out / "curves.svg").unlink()  # the page has the same curves
    (out / "curves.csv").write_bytes(curves)


def unpack(raw: Path, content: Mapping[str, Any], folder: Path) -> None:
    """Makes run directories of raw figures."""
    evaluations = _by_run((raw / "evaluations.csv").read_text(encoding="utf-8"))
    episodes = _by_run(gzip.decompress((raw / "episodes.csv.gz").read_bytes()).decode())
    for kept in content["runs"]:
        run = folder / kept["name"]
        run.mkdir()
        for file in ("meta", "outcome", "timing"):
            (run / f"{file}.json").write_text(json.dumps(kept[file]), encoding="utf-8")
        (run / "config.yml").write_text(kept["config"], encoding="utf-8")
        played = [{key: json.loads(row[key]) for key in EVALUATION} for row in evaluations[kept["name"]]]
        (run / "evaluations.json").write_text(json.dumps({"format": EVALUATIONS_FORMAT, "evaluations": played}))
        head = json.dumps({"t_start": 0.0, "env_id": kept["meta"]["env"]})
        rows = (",".join(row[key] for key in EPISODE) for row in episodes[kept["name"]])
        (run / "monitor.csv").write_text("\n".join([f"#{head}", ",".join(EPISODE), *rows, ""]), encoding="utf-8")


def _by_run(text: str) -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = {}
    for row in csv.DictReader(io.StringIO(text)):
        found.setdefault(row["run"], []).append(row)
    return found


def read(folder: Path, kept: Mapping[str, Any]) -> MeasuredRun:
    """Reads and measures a run that was kept. Another version of a3c-zoo may have made it."""
    record = read_run(folder / kept["name"], strict=False)
    return measure(replace(record, method=kept["method"]), kept["name"])


def without_links(page: ReportPage) -> ReportPage:
    """The page without links to run directories, which are not there."""
    sections = [
        replace(section, tables=[replace(table, paths={}) for table in section.tables]) for section in page.sections
    ]
    return replace(page, sections=sections)


# ----------------------------------------------------------------------------------------------------------------------
# Runs of which only figures are left


def measured_before(raw: Path, content: Mapping[str, Any]) -> list[MeasuredRun]:
    """The runs of a comparison that kept its figures and no episodes."""
    curves = _by_run((raw / "curves.csv").read_text(encoding="utf-8"))
    with (raw / "measures.csv").open(encoding="utf-8", newline="") as file:
        rows = [_measures(row) for row in csv.DictReader(file)]
    return [MeasuredRun(_record(measures, curves[measures.run], content), measures) for measures in rows]


def _measures(row: Mapping[str, str]) -> Measures:
    kinds = get_type_hints(Measures)
    return Measures(**{name: _typed(kinds[name], text) for name, text in row.items()})


def _typed(kind: Any, text: str) -> Any:
    if isinstance(kind, UnionType):
        if not text:
            return None
        kind = kind.__args__[0]
    return kind(text)


def _record(measures: Measures, rows: Sequence[Mapping[str, str]], content: Mapping[str, Any]) -> RunRecord:
    steps = np.array([int(row["steps"]) for row in rows])
    returns = np.array([float(row["return"]) for row in rows])
    seconds = np.zeros(len(rows))  # not known, and not drawn: see `page_before`
    settings = content["settings"][measures.method]
    document = parse_document("".join(f"{key}: {text}\n" for key, text in settings.items()).encode(), "settings")
    made_with = content["machine"] | content["machine_of"].get(measures.method, {})
    return RunRecord(
        path=Path(measures.run),
        method=measures.method,
        env=measures.env,
        seed=measures.seed,
        curve=Curve(steps, seconds, returns, np.ones(len(rows), np.int64)),
        settings={key: document.data[key] for key in settings},
        host=made_with,
        command=tuple(content["commands"][measures.run].split()),
    )


def smoothed(run: MeasuredRun) -> MeasuredRun:
    """The same run for drawing: each point of its curve is a mean of up to 100 episodes."""
    return replace(run, record=replace(run.record, is_smoothed=True))


def page_before(results: Results, note: str, day: date) -> ReportPage:
    """The page of such runs without curves over seconds, and with a note on what was kept."""
    page = page_of(results, day=day)
    drawn = page_of(results_of([smoothed(run) for run in results.runs], {}), day=day)
    curves = [[panel for panel in row if panel.x_label != AXES["seconds"]] for row in drawn.curves]
    sections = []
    for section, with_panels in zip(page.sections, drawn.sections, strict=True):
        figures = {title: panel for title, panel in with_panels.figures.items() if panel.x_label != AXES["seconds"]}
        texts = [text.partition(" Curves over seconds")[0] for text in section.texts]
        sections.append(replace(section, figures=figures, texts=texts))
    return replace(page, curves=curves, sections=[*sections, ReportSection("What was kept", texts=[note])])


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    keeping = commands.add_parser("keep", help="copy the raw figures of a comparison, and make its report from them")
    keeping.add_argument("name")
    keeping.add_argument("comparison", type=Path)
    keeping.add_argument("--runs-dir", type=Path, default=Path("runs"))
    writing = commands.add_parser("write", help="make reports anew")
    writing.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    if arguments.command == "keep":
        raw = REPORTS / arguments.name / RAW
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / RAW
            keep(arguments.comparison, arguments.runs_dir, made, date.today())
            shutil.rmtree(raw, ignore_errors=True)  # only now: all figures have been read
            shutil.copytree(made, raw)
        write(arguments.name, REPORTS / arguments.name)
    else:
        for name in arguments.names or names():
            write(name, REPORTS / name)


if __name__ == "__main__":
    main()
