"""`a3c-zoo plot`: the curves of runs, in a file."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from a3c_zoo.comparison.curves import Floats, running_mean
from a3c_zoo.comparison.figures import Line, draw, to_bytes
from a3c_zoo.comparison.monitors import read_evaluations
from a3c_zoo.comparison.reading import LeftOut, RunRecord, read_runs
from a3c_zoo.config.yaml import display
from a3c_zoo.errors import RunDirectoryError, ZooError
from a3c_zoo.runs.directory import DEFAULT_RUNS_DIR, find_run

Kind = Literal["return", "episode-length", "evaluation"]
Axis = Literal["steps", "seconds", "episodes"]

#: Episodes of a running mean: as a run itself counts; and as the classic program's picture of lengths does.
WINDOWS: Final[Mapping[str, int]] = {"return": 100, "episode-length": 50}
SUFFIXES: Final = (".png", ".svg", ".csv")
#: At most so many points of a run stand in a .csv file.
MAX_ROWS: Final = 200
#: Longest axis in seconds and in minutes.
MAX_SECONDS, MAX_MINUTES = 600.0, 180.0
#: At most so many differing settings stand in a label.
MAX_DIFFERENCES = 3


class Plot(NamedTuple):
    """What was drawn, where it is, and what could not be drawn."""

    path: Path
    runs: list[RunRecord]
    left_out: list[LeftOut]


def plot(
    runs: str | Path | Iterable[str | Path],
    out: str | Path,
    *,
    kind: Kind = "return",
    x: Axis = "steps",
    window: int | None = None,
    frame_skip: int | None = None,
    force: bool = False,
    runs_dir: str | Path = DEFAULT_RUNS_DIR,
) -> Plot:
    """Draws the curves of runs into a new .png or .svg file, those of one method in one colour, as `a3c-zoo plot` does;
    into a .csv file it writes them as numbers, up to 200 points of each run.

    Args:
        runs: run directories, names of runs within `runs_dir`, folders of them, and folders with the monitor.csv of
            stable-baselines3. Runs that are still running are drawn as far as they are.
        kind: "return" and "episode-length" of training episodes; "evaluation": returns of evaluations with sampled
            actions, of checkpoints or beside training.
        x: agent steps, seconds of training, or episodes.
        window: episodes of the running mean; by default 100 for returns and 50 for lengths.
        frame_skip: emulator frames of a step in monitors of Atari games that are not ours; by default 4.
        force: overwrite `out`.

    Raises:
        ZooError: there is nothing to draw, runs are of different environments, or `out` exists or cannot be written.
    """
    out = Path(out)
    refuse_out(out, force)
    if kind == "evaluation" and (x == "episodes" or window is not None):
        raise ZooError(
            "evaluations are drawn over steps or seconds, each as it is: leave out --x episodes and --window"
        )
    paths = [_find(run, Path(runs_dir)) for run in ([runs] if isinstance(runs, str | Path) else runs)]
    records, left_out = read_runs(paths, strict=False, frame_skip=frame_skip)
    drawn, not_drawn = _lines(records, kind, x, window)
    left_out += not_drawn
    if not drawn:
        raise ZooError("; ".join(f"{path}: {reason}" for path, reason in left_out) or "name a run to plot")
    envs = sorted({record.env for record, _ in drawn})
    if len(envs) > 1:
        raise ZooError(f"runs of different environments cannot share a plot: {', '.join(envs)}")
    suffix = out.suffix.lower()
    is_table = suffix == ".csv"
    content = _table(drawn, kind, x) if is_table else to_bytes(_figure(drawn, envs[0], kind, x, window), suffix)
    write_new(out, content, force)
    return Plot(out, [record for record, _ in drawn], left_out)


def refuse_out(out: Path, force: bool) -> None:
    """Raises ZooError for a file that could not be written in the end."""
    if out.suffix.lower() not in SUFFIXES:
        raise ZooError(f"--out {out}: must end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}")
    if out.exists() and not force:
        raise ZooError(f"--out {out}: exists already; choose another name, or overwrite it with --force")


def write_new(path: Path, content: bytes, force: bool) -> None:
    """Writes a file that isn't there yet, or any with `force`."""
    try:
        with path.open("wb" if force else "xb") as file:
            file.write(content)
    except OSError as error:
        raise ZooError(f"--out {path}: cannot be written: {error.strerror}") from error


def _find(run: str | Path, runs_dir: Path) -> Path:
    if Path(run).is_dir():
        return Path(run)
    try:
        return find_run(run, runs_dir).path
    except RunDirectoryError:
        if (runs_dir / run).is_dir():
            return runs_dir / run
        raise


def _lines(
    records: Iterable[RunRecord], kind: Kind, x: Axis, window: int | None
) -> tuple[list[tuple[RunRecord, Line]], list[LeftOut]]:
    drawn, left_out = [], []
    for record in records:
        try:
            line = _line(record, kind, x, window)
        except RunDirectoryError as error:
            left_out.append(LeftOut(record.path, str(error)))
            continue
        if line is None:
            left_out.append(LeftOut(record.path, f"it has no {'evaluation' if kind == 'evaluation' else 'episode'}"))
        else:
            drawn.append((record, line))
    return drawn, left_out


def _line(run: RunRecord, kind: Kind, x: Axis, window: int | None) -> Line | None:
    if kind == "evaluation":
        table = _evaluations(run)
        line = Line(table[:, 0 if x == "steps" else 1], table[:, 2])
    else:
        values = run.curve.returns if kind == "return" else run.curve.lengths
        line = Line(_axis(run, x), running_mean(values, window or WINDOWS[kind]))
    return line if len(line.x) else None


def _evaluations(run: RunRecord) -> Floats:
    """Steps, seconds and mean return `[K, 3]` of sampled evaluations: of the checkpoints, or played beside training."""
    sampled = [each for each in run.evaluations if not each.evaluation.deterministic]
    if sampled:
        return np.array([(each.steps, each.training_s, each.evaluation.mean_return) for each in sampled], np.float64)
    beside = run.path / "evaluations.csv"
    return read_evaluations(beside) if run.is_ours and beside.is_file() else np.empty((0, 3))


def _axis(run: RunRecord, x: Axis) -> Floats:
    match x:
        case "steps":
            return run.curve.steps.astype(np.float64)
        case "seconds":
            return run.curve.seconds
        case "episodes":
            return np.arange(1, len(run.curve) + 1, dtype=np.float64)


def _table(drawn: Sequence[tuple[RunRecord, Line]], kind: Kind, x: Axis) -> bytes:
    """One row for each point: run, what it is called in a drawing, seed, axis and value."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("run", "label", "seed", x, kind))
    labels = label_runs([record for record, _ in drawn])
    for label, (run, line) in zip(labels, drawn, strict=True):
        last = len(line.x) - 1
        for index in np.unique(np.linspace(0, last, min(last + 1, MAX_ROWS)).round().astype(int)):
            writer.writerow((run.path.name, label, run.seed, f"{line.x[index]:.10g}", f"{line.y[index]:.6g}"))
    return file.getvalue().encode()


def _figure(drawn: Sequence[tuple[RunRecord, Line]], env: str, kind: Kind, x: Axis, window: int | None) -> Any:
    labels = label_runs([record for record, _ in drawn])
    groups: dict[str, list[Line]] = {}
    for label, (_, line) in zip(labels, drawn, strict=True):
        groups.setdefault(label, []).append(line)
    scale, x_label = 1.0, {"steps": "agent steps", "seconds": "training time (s)", "episodes": "episodes"}[x]
    if x == "seconds":
        scale, x_label = time_axis(max(line.x[-1] for _, line in drawn))
    scaled = {label: [Line(line.x / scale, line.y) for line in lines] for label, lines in groups.items()}
    span = window or WINDOWS.get(kind, 0)
    y_label = {
        "return": f"return, mean of {span} episodes",
        "episode-length": f"episode length (steps), mean of {span}",
        "evaluation": "mean return of an evaluation",
    }[kind]
    several = any(len(lines) > 1 for lines in groups.values())
    note = (
        "thick: interquartile mean and its 95 % interval, as far as all runs go; thin: single runs" if several else ""
    )
    threshold = None if kind == "episode-length" else _threshold(env)
    return draw(scaled, x_label=x_label, y_label=y_label, title=env, note=note, threshold=threshold)


def time_axis(longest_s: float) -> tuple[float, str]:
    """By what seconds are divided for an axis that is so long, and its label with the unit."""
    if longest_s <= MAX_SECONDS:
        return 1.0, "training time (s)"
    return (60.0, "training time (min)") if longest_s <= MAX_MINUTES * 60 else (3600.0, "training time (h)")


def _threshold(env: str) -> float | None:
    from a3c_zoo.plugins.registry import get_registry

    entry = get_registry().envs.get(env)
    return None if entry is None else entry.threshold


def label_runs(runs: Sequence[RunRecord]) -> list[str]:
    """A label for each run: its method; where runs of one method differ in more than seed and budget, in what.

    Runs have the same label if they differ in nothing else.
    """
    labels: dict[tuple[str, str], str] = {}  # method and all differences → label, which holds the first of them
    taken: Counter[str] = Counter()
    found = []
    for run in runs:
        own, others = _variant(run), [_variant(each) for each in runs if each.method == run.method]
        keys = [key for key in own if any(each.get(key, own[key]) != own[key] for each in others)]
        texts = [f"{key.partition('.')[2]} {display(own[key])}" for key in keys]
        whole = run.method, ", ".join(texts)
        if whole not in labels:
            more = ["…"] if len(texts) > MAX_DIFFERENCES else []
            label = ", ".join([run.method, *texts[:MAX_DIFFERENCES], *more])
            taken[label] += 1
            labels[whole] = label if taken[label] == 1 else f"{label} #{taken[label]}"
        found.append(labels[whole])
    return found


def _variant(run: RunRecord) -> dict[str, Any]:
    """The settings that make a method another one: not seed, budget, checkpoints and evaluations."""
    kept = ("run.workers", "run.device")
    return {key: value for key, value in run.settings.items() if not key.startswith("run.") or key in kept}
