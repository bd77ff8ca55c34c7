"""What a terminal shows: the panel of a run, the table of a comparison, the list of runs."""

from __future__ import annotations

import io
import math
import os
import re
import statistics
import sys
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import a3c_zoo_trained
import pytest
from rich.console import Console

from a3c_zoo.cli import compare, listing
from a3c_zoo.cli.common import print_fitted, print_sentences
from a3c_zoo.cli.summary import summary
from a3c_zoo.comparison.comparison_view import ComparisonView
from a3c_zoo.comparison.conclusion import Comparison
from a3c_zoo.comparison.plan import Budget, Plan, PlannedRun
from a3c_zoo.comparison.trainings import Trained
from a3c_zoo.config import RunConfig
from a3c_zoo.display.displays import Display, LineDisplay, TerminalDisplay, open_display
from a3c_zoo.display.terminals import ECHO
from a3c_zoo.engines import JobProgress, TrainCommand
from a3c_zoo.records import EvaluatorResult, Outcome, Progress, Reason
from a3c_zoo.runs.training_view import WIDTH, TrainingView
from a3c_zoo.store.directory import RunDirectory
from a3c_zoo.testing import plugin_distribution
from tests.test_run_directory import CONFIG, META
from tests.test_train_cli import in_terminal
from tests.toys_runs import command_line
from tests.waits import wait_until

BEGIN = Progress(0, 0, 0, 0.0, 0.0, None, None, 0, {})
LATER = replace(
    BEGIN, steps=151_600, episodes=880, training_s=1.6, mean_return_100=481.5, mean_length_100=481.5, window=100
)
LARGE = replace(LATER, steps=12_345_678_901, episodes=9_876_543, training_s=98_765.0, mean_return_100=-1_234_567.8)
EVALUATED = replace(LARGE, evaluator=EvaluatorResult(12_345_678, 12_345.6, 12_345.6, 12_345.6, 12_345_678))


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


class Terminal(io.StringIO):
    """A terminal in memory, which keeps what it is sent."""

    def isatty(self) -> bool:
        return True


def shown_live(
    width: int, monkeypatch: pytest.MonkeyPatch, target: float | None = 475.0
) -> tuple[TrainingView, TerminalDisplay, io.StringIO]:
    """The panel of a run on a terminal of this width, its display, and what the terminal has been sent."""
    for name, value in {"COLUMNS": str(width), "LINES": "30", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(TerminalDisplay, "every_s", 0.0)
    sent = Terminal()
    monkeypatch.setattr(sys, "stdout", sent)
    display = open_display()
    assert isinstance(display, TerminalDisplay)
    view = TrainingView(display)
    view.starting("a3c on cartpole, seed 0, 2 workers", target, RunConfig(steps=None), Path("runs/x"))
    return view, display, sent


def outcome(reason: Reason = "solved", **changes: Any) -> Outcome:
    solved = reason == "solved"
    ended = Outcome(
        Path("runs/x"), solved, reason, "", 151_600, 880, 5, 2.0, 0.3, 0.1, 1.0, 3.4, 75_800.0, 500.0, None,
        solved_step=151_600 if solved else None,
    )  # fmt: skip
    return replace(ended, **changes)


@pytest.mark.parametrize("width", [40, 56, 80])
def test_a_narrow_terminal_shows_whole_values(width: int, tmp_path: Path) -> None:
    status, text = in_terminal(tmp_path, "show", "hyperparams", "cartpole", variables={"COLUMNS": str(width)})
    assert status == 0
    assert re.search(r"^  gamma +0\.98", plain(text), re.MULTILINE)
    header = next(line.split() for line in plain(text).splitlines() if line.startswith("key "))
    assert ("meaning" in header, "source" in header) == (width == 80, width >= 56)
    told = " ".join(plain(text).split()).partition("narrow terminal: without ")[2]
    assert told == {40: "source and meaning", 56: "meaning", 80: ""}[width]


def test_plugins_on_a_narrow_terminal_keep_their_status(tmp_path: Path) -> None:
    status, text = in_terminal(tmp_path, "list", "plugins", variables={"COLUMNS": "60"})
    assert status == 0
    header, *_ = lines = plain(text).splitlines()
    assert header.split()[0] == "name"
    assert header.split()[-1] == "status"
    assert "import_ms" not in header
    assert "narrow terminal: without hooks and import_ms" in lines


def test_a_listing_names_the_columns_that_it_leaves_out(tmp_path: Path) -> None:
    status, text = in_terminal(tmp_path, "list", "hyperparams", variables={"COLUMNS": "72"})
    assert status == 0
    header, *lines = plain(text).splitlines()
    assert header.split() == ["env", "set", "plugin"]
    assert "narrow terminal: without package" in lines


INSIDE = {"loss_policy": -0.012345, "loss_value": 123.456, "entropy": 0.6931, "explained_variance": -0.08333}
LOOKED_INTO = replace(
    LATER,
    metrics=INSIDE,
    best_return=488.25,
    best_training_s=0.2,
    time_shares={"environment": 0.414, "acting": 0.22, "learning": 0.366},
    cores=1.96,
    memory_mib=1634.4,
)


@pytest.mark.parametrize("width", [50, 60, 80, 140])
def test_the_panel_keeps_its_width(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    view, display, sent = shown_live(width, monkeypatch)
    for progress in (BEGIN, LATER, LARGE):
        view.progress(progress)
        view.message("the last 100 episodes reached [475]: playing 100 on fresh seeds")
    view.progress(EVALUATED)
    view.progress(LOOKED_INTO)
    view.ended(outcome())
    display.close()
    frames = [line for line in re.split(r"[\r\n]+", plain(sent.getvalue())) if line.startswith(("╭", "│", "╰"))]
    assert len(frames) > 30
    assert {len(line) for line in frames} == {min(width - ECHO, WIDTH)}
    assert "[bold]" not in sent.getvalue()
    assert "reached [475]" in sent.getvalue()


def last_panel(text: str) -> list[str]:
    """The rows of the last panel, without their frame."""
    lines = plain(text)[plain(text).rindex("╭") :].splitlines()
    return [line.strip("│ ") for line in lines if line.startswith("│")]


@pytest.mark.parametrize("width", [60, 80, 140])
def test_the_panel_looks_inside(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of this is cut off where a terminal has 60 columns."""
    view, display, sent = shown_live(width, monkeypatch)
    view.progress(LOOKED_INTO)
    display.close()
    rows = last_panel(sent.getvalue())
    assert [re.sub("  +", "  ", line) for line in rows[-5:]] == [
        "training time  1.6 s  until solved (475)",
        "policy loss  -0.0123, value loss 123",
        "entropy  0.693, explained variance -0.0833",
        "time of a step  env 41%, acting 22%, learning 37%",
        "machine  2.0 cores, 1,634 MiB",
    ]
    assert "best  488.2  1.4 s ago" in [re.sub("  +", "  ", line) for line in rows]


def test_the_panel_estimates_when_the_threshold_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """From 75 to 275 in 20 s, 10 a second: half of the way to 475, and 20 s of it are left."""
    view, display, sent = shown_live(80, monkeypatch)
    for second in range(21):
        view.progress(replace(LATER, training_s=float(second), mean_return_100=75.0 + 10 * second))
    assert "│ threshold                  475.0  ━━━━━      50%, about 20.0 s away" in plain(sent.getvalue())
    view.progress(replace(LATER, training_s=21.0, mean_return_100=480.0))
    display.close()
    (line,) = [line for line in last_panel(sent.getvalue()) if line.startswith("threshold")]
    assert line.endswith("475.0  ━━━━━━━━━━ 100%")


def test_an_estimate_fits_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    view, display, sent = shown_live(60, monkeypatch)
    for second in range(21):
        view.progress(replace(LATER, training_s=float(second), mean_return_100=75.0 + 10 * second))
    display.close()
    (line,) = [line for line in last_panel(sent.getvalue()) if line.startswith("threshold")]
    assert line.endswith("475.0  50%, about 20.0 s")


def test_no_estimate_where_the_return_falls(monkeypatch: pytest.MonkeyPatch) -> None:
    view, display, sent = shown_live(80, monkeypatch)
    for second in range(10):
        view.progress(replace(LATER, training_s=float(second), mean_return_100=100.0 - second))
    display.close()
    assert "away" not in sent.getvalue()
    assert re.search(r"threshold +475.0 +0%", plain(sent.getvalue()))


def test_a_first_rollout_shows_a_lower_bound(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = replace(BEGIN, training_s=3.0, first_rollout=1500)
    lines = TrainingView(LineDisplay())
    lines.starting("x", None, RunConfig(), Path("y"))
    lines.progress(first)
    assert capsys.readouterr().out == "x → y\n     3.0 s  at least 1,500 steps, in the first rollout\n"
    view, display, sent = shown_live(80, monkeypatch)
    view.progress(first)
    display.close()
    assert "at least 1,500 more in the first rollout" in sent.getvalue()


def test_the_panel_ends_with_the_figures_and_the_speed_of_the_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    view, display, sent = shown_live(80, monkeypatch)
    view.progress(replace(LATER, steps_per_s=99_999.0))
    view.ended(outcome())
    display.close()
    told = plain(sent.getvalue())
    assert "94,750 steps/s" in told  # 151,600 steps in 1.6 s
    assert "75,800 steps/s" in told[told.rindex("╭") :]
    assert "151,600 steps, 880 episodes, 75,800 steps/s" in summary(outcome())
    assert "99,999" not in told


def test_a_name_with_colons_is_no_emoji(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    print_fitted(["key"], [["value"]], "key", "gym:robot:Robot-v0, [bold]")
    assert "gym:robot:Robot-v0, [bold]" in plain(capsys.readouterr().out).replace("\n", "")  # a narrow table
    view, display, sent = shown_live(80, monkeypatch)
    view.progress(LATER)
    display.say("a3c on gym:snake:Snake-v0")
    print("an environment's own [bold]")
    display.close()
    assert "a3c on gym:snake:Snake-v0" in plain(sent.getvalue())
    assert "an environment's own [bold]" in plain(sent.getvalue())


def test_what_looks_like_markup_is_shown_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of a plugin's error among the live figures: neither swallowed nor an error of the panel."""
    view, display, sent = shown_live(80, monkeypatch)
    view.progress(LATER)
    view.message("KeyError: [/x] in [float32]")
    display.close()
    assert "KeyError: [/x] in [float32]\n" in sent.getvalue()


def test_colours_tell_solved_and_left(monkeypatch: pytest.MonkeyPatch) -> None:
    view, display, sent = shown_live(80, monkeypatch)
    view.progress(LATER)
    assert "\x1b[36muntil solved (475)" in sent.getvalue()
    assert re.search("\x1b\\[1;32m *481.5", sent.getvalue())  # it has reached its target
    view.ended(outcome())
    display.close()
    assert "\x1b[32msolved" in sent.getvalue()


def test_a_summary_without_an_episode_says_so() -> None:
    told = summary(outcome("steps", detail="100 steps done", episodes=0, mean_return_100=None))
    assert "  return      no episode has ended\n" in told
    assert "nan" not in told


def test_a_summary_says_where_the_films_are_or_that_there_is_none(tmp_path: Path) -> None:
    filming = RunConfig(film_every=1)

    def films() -> str:
        (line,) = [each for each in summary(outcome(run=tmp_path), filming).splitlines() if "films  " in each]
        return line.removeprefix("  films       ")

    assert films() == "none: no evaluation has ended whose film was kept"
    (tmp_path / "films").mkdir()
    (tmp_path / "films/step-000000001000.mp4").touch()
    assert films() == f"1 in {tmp_path / 'films'}"
    assert "films" not in summary(outcome(run=tmp_path), RunConfig())


def test_a_summary_of_a_solved_run_that_went_on() -> None:
    went_on = outcome("steps", solved=True, solved_step=151_600, steps=600_000, detail="600,000 steps done")
    first, *_, last = summary(went_on).splitlines()
    assert first == "Ended: 600,000 steps done. Solved at step 151,600."
    assert last.split() == ["next", "a3c-zoo", "play", "runs/x"]


@pytest.mark.parametrize(("steps", "words"), [(628, "at least 500 steps done"), (500, "500 steps done")])
def test_a_summary_of_steps_beyond_the_budget(steps: int, words: str) -> None:
    told = summary(outcome("steps", steps=steps, detail="500 steps done"), RunConfig(steps=500))
    assert told.startswith(f"Ended, not solved: {words}.\n  training    {steps} steps, ")
    told = summary(outcome("steps", steps=steps, detail="500 steps done"), RunConfig(steps=500), has_target=False)
    assert told.startswith(f"Ended: {words}.\n")  # no return solves it


CLAIMS = {"Which returns more: a3c; shown.": True, "Which is earlier: nobody knows; not shown.": False}


def compared(answers: dict[str, bool]) -> Comparison:
    return Comparison({}, {}, Path("out"), (*CLAIMS, "Both were trained."), answers=answers)


@pytest.mark.parametrize(
    ("answers", "last"),
    [
        (CLAIMS, ["\x1b[32m\x1b[1mWhich returns more: a3c; shown.", "\x1b[33m\x1b[1mWhich is earlier: nobody"]),
        ({}, ["\x1b[33m\x1b[1mWhich returns more: a3c; shown."]),  # as a verdict that claims nothing says why
    ],
)
def test_answers_come_last(answers: dict[str, bool], last: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    sent = Terminal()
    monkeypatch.setattr(sys, "stdout", sent)
    assert compare._tell(compared(answers), as_json=False) == 0
    *before, page = sent.getvalue().splitlines()
    assert page.endswith("out/report.html")
    found = before[-len(last) :]
    assert [line[: len(begin)] for line, begin in zip(found, last, strict=True)] == last
    assert before[-len(last) - 1] == "  out/curves.svg"
    assert "Both were trained." in before


# Lists of runs


@pytest.mark.parametrize(
    ("age_s", "text"),
    [
        (-5.0, "0 s"),  # another machine's clock
        (59.9, "59 s"),
        (3599.0, "59 min"),
        (23 * 3600 + 59 * 60.0, "23 h"),
        (86_400.0, "1 d"),
        (1234 * 86_400.0, "1,234 d"),
        (math.inf, "-"),  # of a run that does not say when it started
    ],
)
def test_ages(age_s: float, text: str) -> None:
    assert listing._age(age_s) == text


NAMES = [f"cartpole-a3c-s{seed}-20261121-01455{seed}" for seed in range(2)]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    now = datetime.now().astimezone()
    ends: list[tuple[Reason, bool, int]] = [("solved", True, 3), ("steps", True, 30), ("interrupted", False, 80)]
    for seed, name, (reason, solved, hours) in zip((0, 1, 7), [*NAMES, "mine"], ends, strict=True):
        meta = META | {"env": "cartpole", "agent": "a3c", "seed": seed}
        meta["started"] = f"{now - timedelta(hours=hours):%Y-%m-%dT%H:%M:%S%z}"
        directory = RunDirectory.create(tmp_path / "runs", CONFIG, meta, name)
        directory.unlock()
        directory.write_outcome(outcome(reason, solved=solved, run=directory.path))
    return tmp_path


def listed(folder: Path, *arguments: str, columns: int, **variables: str) -> str:
    status, text = in_terminal(folder, "list", "runs", *arguments, variables={"COLUMNS": str(columns), **variables})
    assert status == 0, text
    return text


def test_a_run_is_one_line_at_80_columns(runs: Path) -> None:
    header, *lines = plain(listed(runs, columns=80)).splitlines()
    assert header.split() == ["run", "steps", "return", "state", "age"]
    assert [line.split() for line in lines] == [
        ["mine", "cartpole-a3c-s7", "151,600", "500.0", "interrupted", "3", "d"],
        [NAMES[1], "151,600", "500.0", "solved", "1", "d"],
        [NAMES[0], "151,600", "500.0", "solved", "3", "h"],
    ]
    assert max(map(len, lines)) <= 80


def test_a_wide_terminal_shows_more(runs: Path) -> None:
    header, *lines = plain(listed(runs, columns=140)).splitlines()
    assert header.split() == ["name", "env", "agent", "seed", "steps", "return", "state", "age"]
    assert lines[0].split()[:4] == ["mine", "cartpole", "a3c", "7"]
    assert str(runs) not in "".join(lines)


def test_a_long_name_is_not_cut(runs: Path) -> None:
    long = "a-very-long-name-" * 4
    os.rename(runs / "runs/mine", runs / "runs" / long)
    _, name, rest, *others = plain(listed(runs, columns=70)).splitlines()
    assert name == f"{long}  cartpole-a3c-s7"
    assert rest.split() == ["151,600", "500.0", "interrupted", "3", "d"]
    assert [line.split()[0] for line in others] == [NAMES[1], NAMES[0]]


@pytest.mark.parametrize(
    ("what", "columns", "header", "lines"),
    [
        (
            "trained",
            80,
            ["name", "agent", "return", "steps"],
            [
                ["lunar-lander-continuous-a3c", "a3c", "287.2 ± 22.1", "1,000,393"],
                ["space-invaders-a3c", "a3c", "528.6 ± 130.3", "2,500,534"],
            ],
        ),
        (
            "trained",
            140,
            ["name", "env", "agent", "return", "steps", "description"],
            [["acrobot-a3c", "gym:Acrobot-v1", "a3c", "-77.0 ± 19.9", "1,000,864", "lowest of 3 seeds"]],
        ),
        ("hyperparams", 80, ["env", "set", "plugin"], [["gym:LunarLanderContinuous-v3", "recurrent-ppo"]]),
        ("hyperparams", 140, ["env", "set", "package", "plugin"], [["gym:LunarLanderContinuous-v3", "recurrent-ppo"]]),
        ("agents", 80, ["name", "spaces", "plugin", "description"], []),
    ],
)
def test_a_listing_breaks_no_word(
    what: str, columns: int, header: list[str], lines: list[list[str]], tmp_path: Path
) -> None:
    """A line for each row, if a choice of columns has room for it."""
    site = plugin_distribution(tmp_path / "site", "zoo-trained", "from a3c_zoo_trained import zoo_trained\n")
    path = Path(f"{site}:{Path(a3c_zoo_trained.__file__).parents[1]}")
    variables = {"COLUMNS": str(columns), "A3C_ZOO_DISABLE_PLUGINS": "trained"}  # which `make demo` installs
    status, text = in_terminal(tmp_path, "list", what, path=path, variables=variables)
    assert status == 0, text
    first, *rest = plain(text).splitlines()
    assert first.split() == header
    assert all(any(all(cell in line for cell in cells) for line in rest) for cells in lines), text
    assert max(map(len, rest)) <= columns
    assert {*["parameters,", "gradients,"]} <= {*plain(text).split()} or what != "agents"


def test_a_comparison_breaks_its_sentences_between_words(tmp_path: Path) -> None:
    data, words = Path(__file__).parent / "data/runs", ["--env", "cartpole", "--out", "out"]
    status, text = in_terminal(tmp_path, "compare", "--from", str(data), *words, variables={"COLUMNS": "80"})
    assert status == 0, text
    shown = re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", text)
    assert max(map(len, shown.splitlines())) <= 80
    assert "so nothing is claimed there about methods that differ in this." in " ".join(text.split())


def test_a_comparison_ends_with_its_answer_in_colour(tmp_path: Path) -> None:
    results = Path(__file__).parent / "data/runs"
    words = ["--from", str(results), "--env", "cartpole", "--out", "o ut"]
    status, text = in_terminal(tmp_path, "compare", *words, variables={"COLUMNS": "140"})
    assert status == 0, text
    assert re.fullmatch(r"  ((xdg-)?open 'o ut/report\.html'|o ut/report\.html)", text.splitlines()[-1])
    assert text.splitlines()[-2].startswith("\x1b[33m\x1b[1mFewer than 5 seeds")  # why nothing is claimed


def test_a_comparison_that_reads_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds pass until the verdict. The line is gone before the verdict comes."""
    err = Terminal()

    def read(*arguments: object, **options: object) -> Comparison:
        wait_until(lambda: "reading the runs, and writing the report, " in err.getvalue())
        return compared(CLAIMS)

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setattr("a3c_zoo.comparison.reading.read", read)
    assert command_line("compare", "--from", tmp_path, "--out", tmp_path / "out") == 0
    assert err.getvalue().endswith("\r\x1b[2K")


def test_answers_are_green_or_yellow(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    colours = {"a run of a3c is earlier; shown": "green", "not shown": "yellow"}
    print_sentences("\n".join([*colours, "the rest"]), colours=colours)
    text = capsys.readouterr().out
    assert (
        text == "\x1b[32m\x1b[1ma run of a3c is\n  earlier; shown\x1b[0m\n\x1b[33m\x1b[1mnot shown\x1b[0m\nthe rest\n"
    )


def test_sentences_in_a_pipe_stay_whole(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    text = "searching agent.normalize_returns, agent.entropy_coefficient\nstudy x"
    print_sentences(text)
    assert capsys.readouterr().out == f"{text}\n"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    print_sentences(text, to_stderr=True)
    lines = ["searching", "  agent.normalize_returns,", "  agent.entropy_coefficient", "study x"]
    assert capsys.readouterr().err.splitlines() == lines


@pytest.mark.parametrize("variables", [{}, {"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": "Unknown"}])
def test_no_colour_where_none_is_wanted(variables: dict[str, str], runs: Path) -> None:
    assert ("\x1b[32msolved" in listed(runs, columns=80, **variables)) == (not variables)
    status, text = in_terminal(runs, "list", "runs", "--seed", "x", variables=variables)
    assert status == 2
    assert text.startswith("Error: " if variables else "\x1b[31m\x1b[1mError:\x1b[0m ")


@pytest.mark.parametrize("term", ["dumb", "DUMB", "unknown", "Unknown", "xterm", "", None])
def test_nothing_is_drawn_where_rich_draws_nothing(term: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TERM", raising=False)
    if term is not None:
        monkeypatch.setenv("TERM", term)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert isinstance(open_display(), TerminalDisplay) != Console(force_terminal=True).is_dumb_terminal


# Comparisons


def planned(method: str, seed: int, guess_s: float | None, done: Path | None = None) -> PlannedRun:
    return PlannedRun(
        "cartpole", method, seed, Budget(steps=1000), CONFIG, TrainCommand("cartpole", method, seed), done, guess_s
    )


def frame(view: ComparisonView, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, record=True)
    console.print(view.block(width))
    return console.export_text().rstrip().splitlines()


def test_the_view_shows_reused_runs_and_the_time_left_at_the_measured_speed(runs: Path) -> None:
    path = runs / "runs" / NAMES[0]
    plan = Plan(
        (
            planned("a3c", 1, 9.0, path),
            planned("sb3-a2c", 1, None),
            planned("a3c", 2, 9.0),
            planned("sb3-a2c", 2, None),
        ),
        runs / "runs",
        reuse=True,
    )
    view = ComparisonView(Display())
    view.planned(plan)
    view.trained(Trained(plan.runs[0], path))
    view.running(plan.runs[1], None)
    assert frame(view, 80) == [
        "method     runs  steps/s  return  now".ljust(80),
        "a3c      1 of 2   75,800   500.0".ljust(80),
        "sb3-a2c  0 of 2        -       -  seed 1".ljust(80),
        "more than 3.4 s of training left",  # the whole time of the reused run, not the guess of 9 s
    ]
    view.running(plan.runs[1], JobProgress(250, 10.0, 21.5))  # a quarter in 10 s: 30 s left, then 40 s and 3.4 s
    *_, now, left = frame(view, 80)
    assert now.rstrip().endswith("seed 1, 25%, return 21.5")
    assert left.strip() == "about 1 min 13 s of training left"
    assert {len(line) for line in frame(view, 50)[:-1]} == {50}
    assert frame(view, 50)[2].startswith("sb3-a2c  0 of 2        -       -  seed 1, ")  # no name is broken


def test_the_time_left_is_that_of_runs_side_by_side(tmp_path: Path) -> None:
    """Four runs of 100 s, two at once: of 400 s 20 and 60 are spent, and 320 s take two machines 160."""
    plan = Plan(tuple(planned("a3c", seed, 100.0) for seed in range(4)), tmp_path, reuse=True)
    view = ComparisonView(Display(), slots=2)
    view.planned(plan)
    view.running(plan.runs[0], JobProgress(600, 60.0, 1.0))
    view.running(plan.runs[1], JobProgress(200, 20.0, 1.0))
    assert frame(view, 80)[-1].strip() == "about 2 min 40 s of training left"
    view.running(plan.runs[0], JobProgress(900, 90.0, 1.0))  # 290 s / 2
    assert frame(view, 80)[-1].strip() == "about 2 min 25 s of training left"
    for run in plan.runs[:2]:
        view.trained(Trained(run, tmp_path / "none", "it failed"))
    view.running(plan.runs[2], JobProgress(900, 90.0, 1.0))  # the last one takes 100 s more
    assert frame(view, 80)[-1].strip() == "about 1 min 40 s of training left"


def test_the_view_has_a_line_for_each_run_without_a_terminal(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = runs / "runs" / NAMES[0]
    run = planned("a3c", 1, None, path)
    view = ComparisonView(LineDisplay())
    view.planned(Plan((run,), runs / "runs", reuse=True))
    view.trained(Trained(run, path))
    expected = f"a3c on cartpole, seed 1: finished before, 75,800 steps/s, return 500.0 → {path}\n"
    assert capsys.readouterr().out == expected


def test_the_mean_of_several_runs(runs: Path) -> None:
    view, paths = ComparisonView(Display()), [runs / "runs" / name for name in (*NAMES, "mine")]
    done = tuple(planned("a3c", seed, None, path) for seed, path in enumerate(paths))
    view.planned(Plan(done, runs / "runs", reuse=True))
    means = []
    for run, path, mean in zip(done, paths, (100.0, 200.0, None), strict=True):
        RunDirectory(path).write_outcome(outcome("steps", run=path, mean_return_100=mean))
        view.trained(Trained(run, path))
        means.append(mean)
    assert frame(view, 80)[1].split()[-2:] == ["75,800", str(statistics.fmean(filter(None, means)))]
