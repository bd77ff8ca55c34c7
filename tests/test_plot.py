"""`a3c-zoo plot`: the lines of the figure itself, and the files."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

import a3c_zoo
from a3c_zoo import ZooError
from a3c_zoo.figures.curves import Line
from a3c_zoo.report import drawing
from a3c_zoo.report import plot as plots
from a3c_zoo.report.drawing import (
    COLOURS,
    POINTS,
    Group,
    Panel,
    _short,
    draw_grid,
    draw_plot,
    group_of,
    interval,
    to_bytes,
    to_inline_svg,
)
from a3c_zoo.report.plot import _caption, label_runs, plot, time_axis
from a3c_zoo.store.run_records import RunRecord
from a3c_zoo.store.tables import Curve, read_evaluations
from tests.shared import closed
from tests.toys_runs import command_line

Captured = pytest.CaptureFixture[str]
PNG = b"\x89PNG\r\n\x1a\n"


def write_run(folder: Path, returns: list[float], env: str = "CartPole-v1") -> Path:
    """A folder with a monitor of stable-baselines3's."""
    folder.mkdir(parents=True)
    rows = "".join(f"{each},{each:.0f},{number}.5\n" for number, each in enumerate(returns))
    (folder / "monitor.csv").write_text(f'#{{"t_start": 0.0, "env_id": "{env}"}}\nr,l,t\n{rows}')
    return folder


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs of `a2c` and one of `ppo`."""
    monkeypatch.chdir(tmp_path)
    for name, slope in [("a2c_1", 1), ("a2c_2", 2), ("ppo_1", 4)]:
        write_run(tmp_path / "logs" / name, [slope * n + 10 for n in range(60)])
    return tmp_path / "logs"


def test_the_command_draws_all_runs_of_a_folder(runs: Path, capsys: Captured) -> None:
    assert command_line("plot", "logs") == 0
    assert capsys.readouterr() == ("3 runs in plot.png\n", "")
    assert Path("plot.png").read_bytes().startswith(PNG)


KINDS = [*itertools.product(["return", "episode-length"], ["steps", "seconds", "episodes"])]


@pytest.mark.parametrize(("kind", "x"), KINDS)
def test_every_kind_over_every_axis(kind: Any, x: Any, runs: Path) -> None:
    drawn = plot(runs, "x.svg", kind=kind, x=x)
    assert [run.path.name for run in drawn.runs] == ["a2c_1", "a2c_2", "ppo_1"]
    words = [element.text for element in ElementTree.parse(drawn.path).iter("{http://www.w3.org/2000/svg}text")]
    label = {"steps": "agent steps", "seconds": "training time (s)", "episodes": "episodes"}[x]
    title = {"return": "return, mean of 100 episodes", "episode-length": "episode length (steps), mean of 50"}[kind]
    assert {"cartpole", "a2c (2 runs)", "ppo", label, title} <= set(words)
    assert ("threshold 475" in words) == (kind == "return")


def test_the_threshold_of_an_environment_that_a_family_resolves(tmp_path: Path) -> None:
    write_run(tmp_path / "a2c_1", [-200.0, -150.0], "Acrobot-v1")
    drawn = plot(tmp_path / "a2c_1", tmp_path / "x.svg")
    assert drawn.runs[0].env == "gym:Acrobot-v1"
    assert "threshold -100" in drawn.path.read_text()


def test_the_numbers_of_a_drawing(runs: Path) -> None:
    plot(runs, "x.csv", x="episodes", window=2)
    rows = Path("x.csv").read_text().splitlines()
    assert rows[0] == "run,label,seed,episodes,return"
    # a2c_2 returns 10, 12, 14, …: the means of the last two are 10, 11, 13, …
    assert [row for row in rows if row.startswith("a2c_2,")][:3] == [
        "a2c_2,a2c,2,1,10",
        "a2c_2,a2c,2,2,11",
        "a2c_2,a2c,2,3,13",
    ]
    assert len(rows) == 1 + 3 * 60


def test_frames_per_step_of_an_atari_game(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its monitor counts frames: an episode of 90 has 23 steps of four frames, or 45 of two."""
    monkeypatch.chdir(tmp_path)
    write_run(Path("a2c_1"), [90.0], "PongNoFrameskip-v4")
    for words, steps in ((), 23), (("--frame-skip", 2), 45):
        assert command_line("plot", "a2c_1", "--kind", "episode-length", "--out", "x.csv", "-f", *words) == 0
        assert Path("x.csv").read_text().splitlines()[1:] == [f"a2c_1,a2c,1,{steps},{steps}"]


def test_a_long_run_is_a_few_hundred_rows_from_its_first_episode_to_its_last(tmp_path: Path) -> None:
    write_run(tmp_path / "a2c_1", [float(n) for n in range(1000)])
    table = plot(tmp_path / "a2c_1", tmp_path / "x.csv", x="episodes", window=1).path.read_text().splitlines()
    episodes = [int(row.split(",")[3]) for row in table[1:]]
    assert (len(episodes), episodes[0], episodes[-1]) == (200, 1, 1000)
    assert {later - sooner for sooner, later in itertools.pairwise(episodes)} == {5, 6}  # 999 / 199 = 5.02


@pytest.mark.parametrize("mode", [0, 0o444])
@pytest.mark.parametrize("mark", ["monitor.csv", "meta.json"])
def test_a_closed_folder_is_named_with_the_reason(mark: str, mode: int, runs: Path, capsys: Captured) -> None:
    (runs / "a2c_2/monitor.csv").rename(runs / "a2c_2" / mark)
    with closed(runs / "a2c_2", mode):
        assert command_line("plot", "logs") == 0
        told = "Warning: logs/a2c_2 is left out: cannot be read: Permission denied\n"
        assert capsys.readouterr() == ("2 runs in plot.png\n", told)
        assert command_line("plot", "logs/a2c_2", "-f") == 2
        assert capsys.readouterr().err == "Error: logs/a2c_2: cannot be read: Permission denied\n"
    with closed(runs, mode):
        assert command_line("plot", "logs/a2c_2", "-f") == 2
        assert capsys.readouterr().err == "Error: logs/a2c_2 cannot be read: Permission denied\n"


def test_from_a_program(runs: Path) -> None:
    drawn = a3c_zoo.plot([runs / "a2c_1", "ppo_1"], runs / "out.png", window=5, runs_dir=runs)
    assert (drawn.path, len(drawn.runs), drawn.left_out) == (runs / "out.png", 2, {})


def test_nothing_is_overwritten_unasked(runs: Path, capsys: Captured) -> None:
    Path("plot.png").write_text("mine")
    assert command_line("plot", "logs") == 2
    message = "Error: --out plot.png: exists already; choose another name, or overwrite it with --force\n"
    assert capsys.readouterr().err == message
    assert Path("plot.png").read_text() == "mine"
    assert command_line("plot", "logs", "-f") == 0
    assert Path("plot.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["logs", "--out", "x.gif"], "--out x.gif: must end in .png or .svg or .pdf or .csv"),
        (["logs", "--out", "no/x.png"], "--out no/x.png: no is no directory in which you may write; choose another"),
        ([""], "the name of a run is empty. See: a3c-zoo list runs"),  # of a variable that is not set
        (["lgos"], "no run 'lgos' here or in runs. See: a3c-zoo list runs"),
        (["logs", "other"], "runs of different environments cannot share a plot: cartpole, gym:Acrobot-v1"),
        (["logs", "--kind", "evaluation", "--x", "episodes"], "evaluations are drawn over steps or seconds"),
        (["logs/ppo_1", "--kind", "evaluation"], "logs/ppo_1: it has no evaluation"),
        (["empty"], "empty: no run and no monitor.csv lies in it"),
    ],
)
def test_what_cannot_be_drawn(arguments: list[str], message: str, runs: Path, capsys: Captured) -> None:
    write_run(Path("other"), [1.0], "Acrobot-v1")
    Path("empty").mkdir()
    Path("runs").mkdir()
    assert command_line("plot", *arguments) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"Error: {message}")
    assert err.count("\n") == 1
    assert list(Path.cwd().rglob("*.png")) == []


def test_what_is_left_out_is_named(runs: Path, capsys: Captured) -> None:
    write_run(Path("none_1"), [])
    (runs / "a2c_1" / "monitor.csv").write_text("r,l,t\n")
    assert command_line("plot", "logs", "none_1") == 0
    out, err = capsys.readouterr()
    assert out == "2 runs in plot.png\n"
    damaged, empty = err.splitlines()
    assert damaged.startswith(f"Warning: {Path('logs/a2c_1')} is left out: monitor.csv is damaged: ")
    assert empty == "Warning: none_1 is left out: it has no episode"


def test_a_run_of_ours_that_is_not_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.chdir(tmp_path)
    a3c_zoo.train("cartpole", agent="random", steps=500, name="x", overrides={"run.evaluation_episodes": 1})
    Path("runs/x/outcome.json").unlink()
    assert command_line("plot", "x", "--kind", "episode-length") == 0
    assert capsys.readouterr().out == "1 run in plot.png\n"


def test_evaluations_played_beside_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.chdir(tmp_path)
    a3c_zoo.train("cartpole", agent="random", steps=500, name="x", overrides={"run.evaluation_episodes": 1})
    rows = ["step,seconds,mode,return,length", "10,0.1,greedy,90,9", "10,0.1,sampled,10,9", "10,0.1,sampled,30,9"]
    beside = Path("runs/x/evaluations.csv")
    beside.write_text("\n".join([*rows, "200,0.2,sampled,50,9\n200,0.2,samp"]))
    assert read_evaluations(beside).tolist() == [[10, 0.1, 20], [200, 0.2, 50]]
    assert command_line("plot", "x", "--kind", "evaluation", "--x", "seconds") == 0
    assert capsys.readouterr().out == "1 run in plot.png\n"
    beside.write_text("\n".join([*rows, "200,0.2,sampled,x,9\n"]))
    assert command_line("plot", "x", "--kind", "evaluation", "-f") == 2
    assert "evaluations.csv is damaged: could not convert string to float: 'x'" in capsys.readouterr().err


def line(*points: tuple[float, float]) -> Line:
    x, y = zip(*points, strict=True)
    return Line(np.array(x, np.float64), np.array(y, np.float64))


def panel(**groups: list[Line]) -> Panel:
    return Panel("", "x", "y", {label: group_of(lines) for label, lines in groups.items()}, threshold=4.0)


def test_a_group_is_drawn_as_far_as_all_of_it_goes() -> None:
    group = group_of([line((0, 0), (10, 10)), line((2, 4), (6, 8))])
    assert group.points is not None
    assert group.band is not None
    assert (group.points[0], group.points[-1]) == (2, 6)
    first = (group.band.value[0], group.band.low[0], group.band.high[0])
    assert first == pytest.approx((3, 2, 4))  # 2 and 4, a quarter of draws each
    assert group_of([line((0, 0), (1, 1)), line((2, 2), (3, 3))]).band is None  # no common part


def test_single_runs_bands_and_colours() -> None:
    apart = [line((0, 0), (1, 1)), line((2, 2), (3, 3))]
    groups = panel(one=[line((0, 1), (2, 2))], two=[line((0, 1), (2, 3)), line((0, 2), (2, 5))], three=apart)
    figure: Any = draw_plot(groups)
    (axes,) = figure.axes
    drawn = {each.get_label(): each for each in axes.lines}
    assert [drawn[label].get_color() for label in ("one", "two (2 runs)", "three (2 runs)")] == list(COLOURS[:3])
    assert np.asarray(drawn["two (2 runs)"].get_ydata())[[0, -1]].tolist() == [1.5, 4.0]
    thin = [each for each in axes.lines if each.get_alpha() is not None]
    assert len(thin) == 4
    assert all(each.get_linewidth() < drawn["one"].get_linewidth() for each in thin)
    assert len(axes.collections) == 1  # the band of "two"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("draw", [draw_plot, lambda panel: draw_grid([[panel], [panel]])])
def test_a_legend_of_many_labels_has_a_place_of_its_own(draw: Callable[[Panel], Any]) -> None:
    for count, names in itertools.product((2, 30), ("m{}", "a3c, learning_rate 0.0{}, n_steps 5")):
        figure = draw(panel(**{names.format(number): [line((0, 1), (2, 2))] for number in range(count)}))
        figure.draw_without_rendering()
        axes = figure.axes[0]
        place, box = (axes.get_legend() or figure.legends[0]).get_window_extent(), axes.get_window_extent()
        assert box.height >= 2.4 * figure.dpi
        assert place.y0 > box.y1 or place.y1 < box.y0
        assert 0 <= place.y0 < place.y1 <= figure.bbox.y1
        assert 0 <= place.x0 < place.x1 <= figure.bbox.x1


def test_24_groups_have_looks_of_their_own_and_neighbours_differ_in_both() -> None:
    (axes,) = draw_plot(panel(**{str(number): [line((0, 1), (2, 2))] for number in range(24)})).axes
    looks = [(each.get_color(), each.get_linestyle()) for each in axes.lines[:24]]
    assert len(set(looks)) == 24
    assert all(one[0] != two[0] and one[1] != two[1] for one, two in itertools.pairwise(looks[:12]))


FEW, ENOUGH = "mean and range", "interquartile mean and its 95 % interval"


@pytest.mark.parametrize(
    ("runs", "thick", "ends"),
    [
        ([2, 1], FEW, [2]),
        ([4, 2], FEW, [10, 2]),  # of 1, 3, 9, 27
        ([5, 5], ENOUGH, [13, 13]),  # of 3, 9, 27
        ([5, 4], f"{ENOUGH} (below 5 runs: {FEW})", [13, 10]),
        ([1, 1], None, []),
    ],
)
def test_fewer_than_five_runs_have_no_interval(
    runs: list[int], thick: str | None, ends: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for method, count in zip(("a2c", "ppo"), runs, strict=True):
        for number in range(count):
            write_run(tmp_path / f"{method}_{number + 1}", [3.0**number] * 2)
    drawing = Mock(wraps=draw_plot)
    monkeypatch.setattr("a3c_zoo.report.plot.draw_plot", drawing)
    text = plot(tmp_path, tmp_path / "x.svg", x="episodes", caption=True).path.read_text()
    panel, note = drawing.call_args.args
    lines = [f"thick: {thick}, while all runs go on", "dashed: the middle of the longer runs; thin: single runs"]
    assert note.splitlines() == (lines if thick else [])
    assert all(line in text for line in note.splitlines())
    assert len(small_print(draw_plot(panel, note))) == bool(note)
    bands = [(group.band, len(group.runs)) for group in panel.groups.values() if group.band]
    assert [band.value[-1] for band, _ in bands] == pytest.approx(ends)
    assert all((band.low[-1], band.high[-1]) == (1, 3 ** (count - 1)) for band, count in bands if count < 5)


def small_print(figure: Figure) -> list[Text]:
    """The texts below the picture of which no word is cut off at its edge."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    texts = [text for text in figure.findobj(Text) if text.get_text().startswith("thick: ")]
    return [text for text in texts if text.get_window_extent(renderer).x1 < figure.bbox.width]


def test_the_same_figure_gives_the_same_file() -> None:
    files = [to_bytes(draw_plot(panel(a=[line((0, 1), (2, 2))])), ".svg") for _ in range(2)]
    assert files[0] == files[1]


def test_a_picture_for_a_page_takes_the_colours_of_the_page() -> None:
    svg = to_inline_svg(panel(a=[line((0, 1), (2, 2))]))
    root = ElementTree.fromstring(svg)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "width" not in root.attrib
    assert "viewBox" in root.attrib
    assert "currentColor" in svg
    assert "#ffffff" not in svg
    assert svg.startswith("<svg")


def test_long_axes_have_larger_units() -> None:
    assert time_axis(600) == (1.0, "training time (s)")
    assert time_axis(601) == (60.0, "training time (min)")
    assert time_axis(3 * 3600) == (60.0, "training time (min)")
    assert time_axis(3 * 3600 + 1) == (3600.0, "training time (h)")


def record(method: str, **settings: Any) -> RunRecord:
    empty = np.zeros(0)
    named = {key.replace("__", "."): value for key, value in settings.items()}
    return RunRecord(Path(), method, "cartpole", 0, Curve.ordered(empty, empty, empty, empty), named)


def test_labels_tell_variants_of_a_method_apart() -> None:
    same = [record("a3c", agent__n_steps=5, run__seed=n, run__steps=n) for n in range(2)]
    assert label_runs(same) == ["a3c", "a3c"]
    variants = [*same, record("a3c", agent__n_steps=32), record("ppo", agent__n_steps=9), record("theirs")]
    assert label_runs(variants) == ["a3c, n_steps 5", "a3c, n_steps 5", "a3c, n_steps 32", "ppo", "theirs"]
    workers = [record("a3c", run__workers=n, a__x=n, a__y=n, a__z=n) for n in (1, 2)]
    assert label_runs(workers) == ["a3c, workers 1, x 1, y 1, …", "a3c, workers 2, x 2, y 2, …"]
    fourth = [record("a3c", a__v=v, a__w=0, a__x=0, a__y=y) for v, y in ((1, 1), (1, 2), (1, 1), (2, 2))]
    assert label_runs(fourth) == ["a3c, v 1, y 1", "a3c, v 1, y 2", "a3c, v 1, y 1", "a3c, v 2, y 2"]
    hidden = [record("a3c", a__v=n > 2, a__w=n > 2, a__x=n > 2, a__y=n) for n in (1, 2, 1, 0, 3)]
    assert label_runs(hidden) == [*(f"a3c, v false, w false, x false, …{n}" for n in ("", " #2", "", " #3")),
                                  "a3c, v true, w true, x true, …"]  # fmt: skip


def test_labels_of_many_runs_look_at_each_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []
    real = plots._variant

    def look(run: RunRecord) -> dict[str, Any]:
        looks.append(run.method)
        return real(run)

    monkeypatch.setattr(plots, "_variant", look)
    assert len(set(label_runs([record("a3c", agent__n_steps=n) for n in range(20)]))) == 20
    assert looks == ["a3c"] * 20


def test_the_middle_beyond_the_shortest_line_draws_no_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each piece between two ends had one, of 2,000 draws, which nothing showed."""
    lines = [line((0, number), (10 + number, 2 * number)) for number in range(8)]
    first, last = lines[0].x[-1], lines[-1].x[-1]
    values = np.array([np.interp([first, first + 1], each.x, each.y) for each in lines[1:]])
    expected = interval(values).value[0]
    monkeypatch.delattr(drawing, "band")
    beyond = drawing.beyond_end(lines)
    assert beyond is not None
    assert (beyond.x[0], beyond.x[-1], beyond.y[0]) == (first, last, expected)


def test_no_display_no_settings_of_the_user_and_no_torch(runs: Path) -> None:
    Path("matplotlibrc").write_text("backend: tkagg\nfont.size: 40\n")
    look = "print([name for name in ('torch', 'pandas', 'matplotlib.pyplot') if name in sys.modules])"
    program = f"import sys, a3c_zoo\na3c_zoo.plot('logs', 'x.svg')\n{look}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
    plain = plot(runs, "y.svg").path.read_bytes()
    assert Path("x.svg").read_bytes() == plain


def test_bad_arguments_of_a_program(runs: Path) -> None:
    with pytest.raises(ZooError, match="name a run to plot"):
        plot([], "x.png")
    bad: dict[str, Any]
    for bad, line in (
        ({"window": -5}, "window=-5: give 1 or more"),
        ({"window": 0}, "window=0: give 1 or more"),
        ({"window": 2.5}, "window=2.5: give a whole number"),
        ({"frame_skip": 0}, "frame_skip=0: give 1 or more"),
        ({"frame_skip": "4"}, "frame_skip='4': give a whole number"),
        ({"labels": [1, "b"]}, "labels=[1, 'b']: give a text for each curve"),
        ({"labels": 5}, "labels=5: give a text for each curve"),
    ):
        with pytest.raises(ZooError, match=f"^{re.escape(line)}$"):
            plot("logs", "x.csv", **bad)
    assert not Path("x.csv").exists()
    of_numpy: dict[str, Any] = {"window": np.int64(3)}
    assert plot("logs", "x.csv", **of_numpy).path.exists()
    shutil.rmtree(runs)
    with pytest.raises(ZooError, match="no run 'logs'"):
        plot("logs", "x.png")


@pytest.mark.parametrize("numbers", [[0.0, 1.0], [0.0], [0.0, 1.0, 2.0, 29.0]])
def test_things_that_are_counted_have_whole_numbers_and_no_point_is_cut(numbers: list[float]) -> None:
    """As trials on the axis of a search."""
    line = Line(np.array(numbers), np.ones(len(numbers)))
    panel = Panel("search", "trial", "return", {"x": Group([line])}, has_points=True, has_lines=False)
    figure = draw_plot(panel)
    figure.canvas.draw()
    (axes,) = figure.axes
    assert all(re.fullmatch(r"−?\d+", label.get_text()) for label in axes.get_xticklabels())
    low, high = axes.get_xlim()
    assert low < min(numbers)
    assert high > max(numbers)


def test_each_thing_that_is_counted_is_drawn() -> None:
    """Of a line, some points are enough."""
    many = Line(np.arange(400.0), np.ones(400))
    for has_lines, drawn in ((False, 400), (True, POINTS)):
        figure = draw_plot(Panel("", "trial", "", {"x": Group([many])}, has_points=True, has_lines=has_lines))
        assert np.size(figure.axes[0].lines[0].get_xdata()) == drawn


def test_an_axis_of_seconds_has_plain_numbers_below_one() -> None:
    line = Line(np.array([0.0, 0.9]), np.array([1.0, 2.0]))
    figure = draw_plot(Panel("title", "seconds of training", "return", {"a3c": Group([line])}))
    figure.draw_without_rendering()
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()][:5] == ["0", "0.2", "0.4", "0.6", "0.8"]
    shown = [_short(value) for value in (0, 0.25, 1, 1.5, 999, 27_778, 250_000, 1e6)]
    assert shown == ["0", "0.25", "1", "1.5", "999", "27.778k", "250k", "1M"]


def test_the_middle_goes_on_without_the_runs_that_have_ended() -> None:
    """Three runs end after 2, 4 and 6: up to 2 all count, up to 4 two of them, and then the last one."""
    short, middle, long = line((0, 1), (2, 1)), line((0, 3), (4, 7)), line((0, 5), (6, 17))
    group = group_of([middle, long, short], goes_on=True)
    assert group.points is not None
    assert (group.points[0], group.points[-1]) == (0, 2)
    assert group.beyond is not None
    x, y = group.beyond.x, group.beyond.y
    gaps = np.flatnonzero(np.isnan(y))
    assert x[gaps].tolist() == [4, 6]
    assert (x[0], y[0]) == (2, 7.0)  # of 5 and 9
    assert (x[gaps[0] - 1], y[gaps[0] - 1]) == (4, 10.0)  # of 7 and 13
    assert (x[gaps[0] + 1], y[gaps[0] + 1]) == (4, 13.0)
    assert (x[gaps[1] - 1], y[gaps[1] - 1]) == (6, 17.0)
    assert group_of([short, middle]).beyond is None  # as reports draw it
    assert group_of([short, short], goes_on=True).beyond is None
    (axes,) = draw_plot(Panel("", "x", "y", {"a": group})).axes
    dashed = [each for each in axes.lines if each.get_linewidth() == 1.4]
    assert [(np.asarray(each.get_xdata())[0], each.is_dashed()) for each in dashed] == [(2, True)]


def test_no_thick_line_is_named_where_none_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One run ends after 5 steps, and the other one begins after 10: there is no step that both have."""
    apart = group_of([line((1, 0), (5, 4)), line((10, 0), (20, 4))], goes_on=True)
    (axes,) = draw_plot(Panel("", "x", "y", {"a": apart})).axes
    assert {each.get_linewidth() for each in axes.lines} == {0.7}
    assert _caption([apart]) == "thin: single runs, which have no common part"
    assert _caption([Group([line((1, 0), (5, 4))])]) == ""
    both = group_of([line((0, 0), (5, 4))] * 2)
    assert _caption([apart, both]).startswith("thick: mean and range, while all runs go on\n")


def test_nothing_is_written_below_a_picture_unasked(runs: Path, capsys: Captured) -> None:
    words = "thick: mean and range"
    assert command_line("plot", "logs", "--out", "x.svg") == 0
    assert words not in Path("x.svg").read_text()
    assert command_line("plot", "logs", "--out", "x.svg", "-f", "--caption") == 0
    assert words in Path("x.svg").read_text()
    capsys.readouterr()


def test_a_pdf(runs: Path) -> None:
    files = [plot(runs, "x.pdf", force=True).path.read_bytes() for _ in range(2)]
    assert files[0].startswith(b"%PDF")
    assert files[0] == files[1]
    assert b"/Type3" not in files[0]  # many journals take no such fonts
    assert b"/TrueType" in files[0] or b"/CIDFontType2" in files[0]
    plot(runs).savefig("y.pdf")  # of a figure, too
    saved = Path("y.pdf").read_bytes()
    assert b"/Type3" not in saved
    assert b"/TrueType" in saved or b"/CIDFontType2" in saved


def test_without_a_file_it_is_a_figure(runs: Path) -> None:
    (runs / "a2c_1" / "monitor.csv").write_text("r,l,t\n")
    with matplotlib.rc_context({"xtick.color": "red"}):  # the user's own
        with pytest.warns(UserWarning, match="a2c_1 is left out: monitor.csv is damaged"):
            figure = plot([runs], window=2)
        (axes,) = figure.axes
        assert axes.get_title(loc="left") == "cartpole"
        assert {text.get_text() for text in figure.legends[0].get_texts()} == {"a2c", "ppo"}
        assert figure._repr_png_().startswith(PNG)
        assert axes.xaxis.get_ticklabels()[0].get_color() != "red"
        figure.savefig("mine.png")
    assert Path("mine.png").read_bytes().startswith(PNG)
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["logs", "mine.png"]
    with pytest.raises(ZooError, match="no run 'x' here"):
        plot("x")
