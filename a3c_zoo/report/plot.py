"""`a3c-zoo plot` and `a3c_zoo.plot`: the curves of runs, as a picture or as numbers."""

from __future__ import annotations

import csv
import io
import os
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args, overload

import numpy as np

from a3c_zoo.config.yaml import display
from a3c_zoo.errors import (
    RunDirectoryError,
    ZooError,
    cell,
    printable,
    refuse_others,
    several,
    text_argument,
    whole_number,
)
from a3c_zoo.figures.curves import Line, running_mean
from a3c_zoo.figures.measures import drawn_evaluations
from a3c_zoo.files import path_argument, refuse_out, write_out
from a3c_zoo.records import RETURN_WINDOW, Outcome
from a3c_zoo.report.drawing import Group, Panel, PlotFigure, draw_plot, group_of, thick, thinned, to_bytes
from a3c_zoo.runs.loaded_agent import LoadedAgent
from a3c_zoo.store.directory import DEFAULT_RUNS_DIR
from a3c_zoo.store.run import find_run
from a3c_zoo.store.run_files import EVALUATIONS_CSV, EVALUATIONS_NPZ
from a3c_zoo.store.run_groups import on_envs, told_apart, unread_on
from a3c_zoo.store.run_records import RunRecord, hidden_threshold, read_runs, threshold_of
from a3c_zoo.store.tables import Axis, read_evaluations
from a3c_zoo.words import counted

Kind = Literal["return", "episode-length", "evaluation"]

#: Episodes of a running mean. Returns: as in a run itself. Lengths: as in the classic program's plot.
WINDOWS: Final[Mapping[str, int]] = {"return": RETURN_WINDOW, "episode-length": 50}
#: The most episodes in a point of a run whose event files have means, see `RunRecord.is_smoothed`.
SMOOTHED: Final = 100
SUFFIXES: Final = (".png", ".svg", ".pdf", ".csv")
#: The most points of a run in a .csv file.
MAX_ROWS: Final = 200
#: The longest axis in seconds (10 min) and in minutes (3 h), both in seconds.
LONGEST_IN_SECONDS, LONGEST_IN_MINUTES = 600.0, 3 * 3600.0
#: The most differing settings in a label.
MAX_DIFFERENCES: Final = 3
#: What a thick line and its band show if a group has at least `MIN_SEEDS` runs.
INTERVAL: Final = "interquartile mean and its 95 % interval"
#: What they show if it has fewer.
RANGE: Final = "mean and range"


class Plot(NamedTuple):
    """The file that was written, the runs in it, and run → reason for those that could not be drawn."""

    path: Path
    runs: list[RunRecord]
    left_out: dict[Path, str]

    def __repr__(self) -> str:
        return f"<Plot of {counted(len(self.runs), 'runs')}: {self.path}>"

    @property
    def hidden_threshold(self) -> str | None:
        """Why the picture has no threshold although the environment may have one; None without such a reason."""
        return hidden_threshold(self.runs[0])


class DrawnRun(NamedTuple):
    """A run, its label in the legend, and its line."""

    record: RunRecord
    label: str
    line: Line


#: A run to draw: its directory, its name, a folder of runs, or what `train` or `load_agent` returned.
Drawable: TypeAlias = str | Path | Outcome | LoadedAgent


@overload
def plot(
    runs: Drawable | Iterable[Drawable],
    out: None = None,
    *,
    kind: Kind = "return",
    x: Axis = "steps",
    window: int | None = None,
    frame_skip: int | None = None,
    env: str | None = None,
    labels: str | Sequence[str] = (),
    caption: bool = False,
    force: bool = False,
    runs_dir: str | Path = DEFAULT_RUNS_DIR,
    trust: bool = False,
) -> PlotFigure: ...


@overload
def plot(
    runs: Drawable | Iterable[Drawable],
    out: str | Path,
    *,
    kind: Kind = "return",
    x: Axis = "steps",
    window: int | None = None,
    frame_skip: int | None = None,
    env: str | None = None,
    labels: str | Sequence[str] = (),
    caption: bool = False,
    force: bool = False,
    runs_dir: str | Path = DEFAULT_RUNS_DIR,
    trust: bool = False,
) -> Plot: ...


def plot(
    runs: Drawable | Iterable[Drawable],
    out: str | Path | None = None,
    *,
    kind: Kind = "return",
    x: Axis = "steps",
    window: int | None = None,
    frame_skip: int | None = None,
    env: str | None = None,
    labels: str | Sequence[str] = (),
    caption: bool = False,
    force: bool = False,
    runs_dir: str | Path = DEFAULT_RUNS_DIR,
    trust: bool = False,
) -> Plot | PlotFigure:
    """Draws the curves of runs, as `a3c-zoo plot` does. Runs of one method share a colour.

    Without `out` it returns a figure of matplotlib, which a notebook shows. With `out` it writes a file.

    Args:
        runs: run directories, names of runs within `runs_dir`, what `train` or `load_agent` returned, folders of runs,
            and folders with the monitor.csv of stable-baselines3. A run that has not ended is drawn as far as it is.
        out: a picture (.png, .svg or .pdf); or .csv for the numbers, up to 200 points of each run.
        kind: "return" or "episode-length" of training episodes, or "evaluation": returns of evaluations. Those of
            a3c-zoo have sampled actions; an evaluations.npz of another program may have greedy ones.
        window: episodes of the running mean; by default 100 for returns and 50 for lengths.
        frame_skip: emulator frames per step in Atari monitors of other programs; by default 4.
        env: only runs on this environment, and runs that do not name theirs. force: overwrite `out`.
        labels: names of the curves, in the order of the legend. Curves of the same name become one group.
        caption: whether two lines below the picture say what is thick, dashed and thin.
        trust: whether runs that do not lie in `runs_dir` may name a module to import, to look up the threshold.

    Raises:
        ZooError: nothing to draw, several environments, too few or too many labels; or `out` exists, or is refused.
    """
    refuse_others("kind", kind, get_args(Kind))
    refuse_others("x", x, get_args(Axis))
    for name, count in {"window": window, "frame_skip": frame_skip}.items():
        if count is not None and whole_number(name, count) < 1:
            raise ZooError(f"{name}={count}: give 1 or more")
    path = None if out is None else path_argument("out", out)
    if path is not None:
        refuse_out(path, SUFFIXES, force)
    if kind == "evaluation" and (x == "episodes" or window is not None):
        raise ZooError(
            "evaluations are drawn over steps or seconds, each as it is: leave out --x episodes and --window"
        )
    runs_dir = path_argument("runs_dir", runs_dir)
    if env is not None:
        text_argument("env", env)
    paths = [_find(run, runs_dir) for run in several(runs)]
    records, left_out = read_runs(paths, strict=False, frame_skip=frame_skip, runs_dir=runs_dir, trust=trust)
    records = told_apart(on_envs(records, (env,) if env else (), "--env"))
    if env:
        left_out = unread_on(left_out, {run.env for run in records})
    drawn = _relabelled(_drawn(records, kind, x, window, left_out), labels)
    if not drawn:
        raise ZooError(
            "; ".join(f"{path}: {reason}" for path, reason in left_out.items()) or "name a run to plot"
        )
    if len(envs := sorted({run.record.env for run in drawn})) > 1:
        raise ZooError(
            f"runs of different environments cannot share a plot: {', '.join(envs)}. Choose one with --env"
        )
    if path is None:
        for folder, reason in left_out.items():
            warnings.warn(f"{folder} is left out: {reason}", stacklevel=2)
        return _figure(drawn, kind, x, window, caption)
    suffix = path.suffix.lower()
    if suffix == ".csv":
        content = _table(drawn, kind, x)
    else:
        content = to_bytes(_figure(drawn, kind, x, window, caption), suffix)
    write_out(path, content, force)
    return Plot(path, [run.record for run in drawn], left_out)


def _find(run: Drawable, runs_dir: Path) -> Path:
    if isinstance(run, Outcome | LoadedAgent):
        return run.run
    path = path_argument("runs", run)
    if os.path.isdir(run):
        return path
    try:
        return find_run(run, runs_dir).path
    except RunDirectoryError:
        if os.fspath(run) and os.path.isdir(runs_dir / run):
            return runs_dir / run
        raise


def _drawn(
    records: Iterable[RunRecord], kind: Kind, x: Axis, window: int | None, left_out: dict[Path, str]
) -> list[DrawnRun]:
    """The runs with a line. The others go to `left_out`, each with its reason."""
    lines = []
    for record in records:
        try:
            line = _line(record, kind, x, window)
            if not len(line.x):
                raise RunDirectoryError(f"it has no {'evaluation' if kind == 'evaluation' else 'episode'}")
            lines.append((record, line))
        except RunDirectoryError as error:
            left_out[record.path] = str(error)
    labels = label_runs([record for record, _ in lines])
    return [DrawnRun(record, label, line) for label, (record, line) in zip(labels, lines, strict=True)]


def _relabelled(drawn: list[DrawnRun], labels: str | Sequence[str]) -> list[DrawnRun]:
    own = list(dict.fromkeys(run.label for run in drawn))
    labels = (labels,) if isinstance(labels, str) else labels
    if labels and not (isinstance(labels, Sequence) and all(isinstance(label, str) for label in labels)):
        raise ZooError(f"labels={labels!r}: give a text for each curve")
    if labels and len(labels) != len(own):
        raise ZooError(
            f"--label: {len(labels)} for {len(own)} curves; give one for each of: {', '.join(own)}"
        )
    shown = dict(zip(own, map(printable, labels or own), strict=True))
    return [run._replace(label=shown[run.label]) for run in drawn]


def _line(run: RunRecord, kind: Kind, x: Axis, window: int | None) -> Line:
    """The curve of a run. Evaluations are those of its checkpoints, else those beside training."""
    if kind == "evaluation":
        beside = run.path / EVALUATIONS_CSV
        if run.evaluations or not (run.is_ours and os.path.lexists(beside)):
            line = drawn_evaluations(run, x)
            if np.isnan(line.x).any():
                raise RunDirectoryError(f"{EVALUATIONS_NPZ} has no seconds, and there is no monitor.csv")
            return line
        table = read_evaluations(beside)
        return Line(table[:, 0 if x == "steps" else 1], table[:, 2])
    values = run.curve.returns if kind == "return" else run.curve.lengths
    if run.is_smoothed and (x == "episodes" or window is not None):
        raise RunDirectoryError(
            "its event files have means and no episodes: leave out --x episodes and --window"
        )
    return Line(run.curve.axis(x), running_mean(values, 1 if run.is_smoothed else window or WINDOWS[kind]))


def table_of(records: Sequence[RunRecord]) -> bytes:
    """Learning curves over agent steps as CSV, as `plot --out FILE.csv` writes them."""
    lines = [DrawnRun(record, record.method, _line(record, "return", "steps", None)) for record in records]
    return _table(lines, "return", "steps")


def _table(drawn: Sequence[DrawnRun], kind: Kind, x: Axis) -> bytes:
    """One row for each point: run, label, seed, x and y."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("run", "label", "seed", x, kind))
    for run, label, line in drawn:
        points = thinned(line, MAX_ROWS)
        for at, value in zip(points.x, points.y, strict=True):
            writer.writerow(
                (cell(printable(run.path.name)), cell(label), run.seed, f"{at:.10g}", f"{value:.6g}")
            )
    return file.getvalue().encode()


def _figure(
    drawn: Sequence[DrawnRun], kind: Kind, x: Axis, window: int | None, has_caption: bool
) -> PlotFigure:
    scale = 1.0
    x_label = "episodes" if x == "episodes" else "agent steps"
    if x == "seconds":
        scale, x_label = time_axis(max(run.line.x[-1] for run in drawn))
    lines: dict[str, list[Line]] = {}
    for run in drawn:
        lines.setdefault(run.label, []).append(Line(run.line.x / scale, run.line.y))
    first = drawn[0].record
    panel = Panel(
        title=first.env,
        x_label=x_label,
        y_label=_y_label(drawn, kind, window),
        groups={label: group_of(its_lines, goes_on=True) for label, its_lines in lines.items()},
        threshold=None if kind == "episode-length" else threshold_of(first),
    )
    caption = ""
    if has_caption:
        caption = _caption(panel.groups.values())
    return draw_plot(panel, caption)


def _y_label(drawn: Sequence[DrawnRun], kind: Kind, window: int | None) -> str:
    """What a point is: a mean of so many episodes at most, which differ if some runs have only means."""
    own = window or WINDOWS.get(kind, 0)
    spans = " or ".join(map(str, sorted({SMOOTHED if run.record.is_smoothed else own for run in drawn})))
    return {
        "return": f"return, mean of {spans} episodes",
        "episode-length": f"episode length (steps), mean of {spans}",
        "evaluation": "mean return of an evaluation",
    }[kind]


def _caption(groups: Iterable[Group]) -> str:
    """What is thick, dashed and thin, in two lines; "" if no group has several runs."""
    several = [group for group in groups if len(group.runs) > 1]
    sizes = {len(group.runs) for group in several if group.band is not None}
    if not several:
        return ""
    if not sizes:
        return "thin: single runs, which have no common part"
    middle = f"thick: {thick(sizes, INTERVAL, RANGE)}, while all runs go on"
    return f"{middle}\ndashed: the middle of the longer runs; thin: single runs"


def time_axis(longest_s: float) -> tuple[float, str]:
    """The number of seconds in an axis's unit, and the axis's label, for an axis of this length in seconds."""
    if longest_s <= LONGEST_IN_SECONDS:
        return 1.0, "training time (s)"
    if longest_s <= LONGEST_IN_MINUTES:
        return (60.0, "training time (min)")
    return (3600.0, "training time (h)")


def label_runs(runs: Sequence[RunRecord]) -> list[str]:
    """A label for each run: its method, and the settings in which runs of this method differ.

    Seed and budget are no such settings. Runs have the same label if they differ in nothing else.
    """
    variants = [_variant(run) for run in runs]
    first: dict[tuple[str, str], Any] = {}  # method and key → the value of its first run that has the key
    differ = set[tuple[str, str]]()
    for run, own in zip(runs, variants, strict=True):
        for key, value in own.items():
            if first.setdefault((run.method, key), value) != value:
                differ.add((run.method, key))
    # Method and all differences → label, which holds the first of them.
    labels: dict[tuple[str, str], str] = {}
    taken: Counter[str] = Counter()
    names = []
    for run, own in zip(runs, variants, strict=True):
        keys = [key for key in own if (run.method, key) in differ]
        texts = [f"{key.partition('.')[2]} {display(own[key])}" for key in keys]
        whole = run.method, ", ".join(texts)
        if whole not in labels:
            more = ["…"] if len(texts) > MAX_DIFFERENCES else []
            label = ", ".join([run.method, *texts[:MAX_DIFFERENCES], *more])
            taken[label] += 1
            if taken[label] == 1:
                labels[whole] = label
            else:
                labels[whole] = f"{label} #{taken[label]}"
        names.append(labels[whole])
    return names


def _variant(run: RunRecord) -> dict[str, Any]:
    """The settings that make a method another one: not seed, budget, checkpoints and evaluations."""
    kept = ("run.workers", "run.device")
    return {key: value for key, value in run.settings.items() if not key.startswith("run.") or key in kept}
