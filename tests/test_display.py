"""The display in a real terminal: what stays on the screen after a resize, after Ctrl-Z and beside other lines."""

from __future__ import annotations

import re
import signal
import subprocess
import sys

import pytest
from rich.console import ConsoleRenderable
from rich.text import Text

from a3c_zoo.display.displays import Display, LineDisplay, TerminalDisplay
from a3c_zoo.display.live_block import rows_on_screen
from a3c_zoo.display.pieces import Trend, bar
from tests.screens import Screen, shown
from tests.waits import LIMIT_S

#: Shows a run in its terminal as it is told: `N` shows step N, other words are said above; answers on stderr.
PROGRAM = """
import sys
from pathlib import Path
from a3c_zoo.config import RunConfig
from a3c_zoo.display.displays import open_display
from a3c_zoo.records import Progress
from a3c_zoo.runs.signals import stop_on_signals
from a3c_zoo.runs.training_view import TrainingView

display = open_display()
view = TrainingView(display)
view.starting("a3c on cartpole", 475.0, RunConfig(steps=1000), Path("runs/x"))
with stop_on_signals():
    for line in sys.stdin:
        word = line.strip()
        if word.isdecimal():
            view._last = Progress(int(word), 3, 4, 2.0, 5.0, 20.0, 20.0, 3, {"entropy": 0.5})
            display.show(view)
        elif word == "close":
            display.close()
        elif word == "print":
            print("an environment's line")
        else:
            view.message(word)
        print("done", file=sys.__stderr__, flush=True)
"""


def assert_whole_panel(rows: list[str], width: int, steps: int) -> None:
    """Each row of one panel, and nothing else."""
    assert len(rows) == 9, "\n".join(rows)
    assert {len(row) for row in rows} == {width}, "\n".join(rows)
    assert rows[0].startswith("╭─ a3c on cartpole ─")
    assert rows[-1] == "╰" + "─" * (width - 2) + "╯"
    labels = [row.strip("│ ").split("  ")[0] for row in rows[1:-1]]
    assert labels == ["steps", "episodes", "return, last 3", "threshold", "training time", "budget", "entropy"]
    assert f" {steps:,} " in rows[1]


def test_a_block_is_drawn_in_its_place() -> None:
    with shown(PROGRAM, 100) as terminal:
        for steps in (100, 200, 300):
            terminal.tell(str(steps))
        terminal.tell("a line that stays")
        terminal.tell("print")
        rows = terminal.screen.rows
        assert rows[:3] == ["a3c on cartpole → runs/x", "a line that stays", "an environment's line"]
        assert_whole_panel(rows[3:], 78, 300)
        assert not terminal.screen.has_cursor
        terminal.tell("close")
        assert terminal.screen.has_cursor
        terminal.tell("the end")
        assert terminal.screen.rows[-1] == "the end"
        assert_whole_panel(terminal.screen.rows[3:-1], 78, 300)


@pytest.mark.parametrize("widths", [(60,), (140,), (79, 50, 40), (140, 60, 140, 60)])
def test_a_resize_leaves_no_piece(widths: tuple[int, ...]) -> None:
    with shown(PROGRAM, 100) as terminal:
        terminal.tell("100")
        for number, width in enumerate(widths):
            terminal.resize(width)
            terminal.tell(str(200 + number))
            rows = terminal.screen.rows
            assert rows[0] == "a3c on cartpole → runs/x"
            assert_whole_panel(rows[1:], min(width - 2, 78), 200 + number)


def test_a_line_that_is_said_after_a_resize_stands_above_a_whole_panel() -> None:
    with shown(PROGRAM, 100) as terminal:
        terminal.tell("100")
        terminal.resize(60)
        terminal.tell("a line")
        assert terminal.screen.rows[:2] == ["a3c on cartpole → runs/x", "a line"]
        assert_whole_panel(terminal.screen.rows[2:], 58, 100)


def test_a_low_terminal_shows_the_first_rows_and_at_the_end_all() -> None:
    with shown(PROGRAM, 100, height=6) as terminal:
        for steps in (100, 200):
            terminal.tell(str(steps))
        title, top, first, *_ = rows = terminal.screen.rows
        assert len(rows) == 1 + 5
        assert (title, top[0]) == ("a3c on cartpole → runs/x", "╭")
        assert " 200 " in first
        terminal.tell("close")
        assert_whole_panel(terminal.screen.rows[1:], 78, 200)


def test_a_terminal_that_cuts_its_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """xterm does not wrap anew: the lines above the block are not erased with it."""
    widths = [78, 78, 10]
    for name in ("TMUX", "XTERM_VERSION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert rows_on_screen(widths, 60) == 2 + 2 + 1
    assert rows_on_screen(widths, 20) == 4 + 4 + 1
    assert rows_on_screen([0, 60], 60) == 2  # an empty line is a row
    monkeypatch.setenv("XTERM_VERSION", "XTerm(379)")
    assert rows_on_screen(widths, 60) == 3
    monkeypatch.setenv("TMUX", "/tmp/tmux-0/default,1,0")  # within xterm: tmux wraps
    monkeypatch.setenv("TERM", "screen")
    assert rows_on_screen(widths, 60) == 5
    monkeypatch.delenv("TMUX")
    assert rows_on_screen(widths, 60) == 3


def test_ctrl_z_and_fg_leave_two_whole_panels() -> None:
    with shown(PROGRAM, 100) as terminal:
        terminal.tell("100")
        terminal.signal(signal.SIGTSTP)
        terminal.wait_until_stopped()
        assert terminal.screen.has_cursor
        terminal.screen.feed("[1]+  Stopped    a3c-zoo train cartpole\r\n> fg\r\na3c-zoo train cartpole\r\n")
        terminal.signal(signal.SIGCONT)
        terminal.tell("200")
        rows = terminal.screen.rows
        assert_whole_panel(rows[1:10], 78, 100)
        assert rows[10:13] == ["[1]+  Stopped    a3c-zoo train cartpole", "> fg", "a3c-zoo train cartpole"]
        assert_whole_panel(rows[13:], 78, 200)
        assert not terminal.screen.has_cursor
        terminal.tell("300")
        assert terminal.screen.rows[:13] == rows[:13]
        assert_whole_panel(terminal.screen.rows[13:], 78, 300)


def test_sigstop_and_a_resize_in_between() -> None:
    """`kill -STOP` gives no time to leave the terminal in order; what comes after is whole all the same."""
    with shown(PROGRAM, 100) as terminal:
        terminal.tell("100")
        terminal.signal(signal.SIGSTOP)
        terminal.wait_until_stopped()
        terminal.screen.feed("\r\n[1]+  Stopped\r\n")
        terminal.resize(60)
        terminal.signal(signal.SIGCONT)
        terminal.tell("200")
        assert_whole_panel(terminal.screen.rows[-9:], 58, 200)


TABLE = """
import sys
from a3c_zoo.comparison.comparison_view import ComparisonView
from a3c_zoo.display.displays import open_display
display = open_display()
view = ComparisonView(display)
view._rows["cartpole", "a3c"].runs = 3
for line in sys.stdin:
    view._show(line.strip(), at_once=True)
    print("done", file=sys.__stderr__, flush=True)
"""


def test_a_table_survives_a_resize() -> None:
    with shown(TABLE, 140) as terminal:
        terminal.tell("the first")
        for width in (60, 100, 40):
            terminal.resize(width)
            assert [row[:8].strip() for row in terminal.screen.rows] == ["method", "a3c", "the firs"]  # nothing wraps
            terminal.tell("the first")
            assert terminal.screen.rows[1:] == ["a3c     0 of 3        -       -", "the first"]


#: Draws as fast as it can.
BUSY = PROGRAM.replace("for line in sys.stdin:", "for line in map(str, range(1, 10**6)):").replace(
    'print("done"', 'word == "1" and print("done"'
)


def test_ctrl_z_never_comes_in_the_middle_of_a_panel() -> None:
    stops = 15
    with shown(BUSY, 100) as terminal:
        terminal.read_answer()
        for _ in range(stops):
            terminal.wait_for(lambda rows: rows[-1].endswith("╯"))
            terminal.signal(signal.SIGTSTP)
            terminal.wait_until_stopped()
            assert terminal.screen.has_cursor
            terminal.screen.feed("> fg\r\n")
            terminal.signal(signal.SIGCONT)
        kinds = "".join("fg" if row == "> fg" else row[0] for row in terminal.screen.rows[1:])
    whole = f"╭{'│' * 7}╰"
    assert kinds == f"{whole}fg" * stops


@pytest.mark.parametrize(("variables", "is_drawn"), [({}, True), ({"NO_COLOR": "1"}, True), ({"TERM": "dumb"}, False)])
def test_colours_and_dumb_terminals(variables: dict[str, str], is_drawn: bool) -> None:
    with shown(PROGRAM, 100, variables) as terminal:
        terminal.tell("100")
        terminal.tell("close")
        rows = terminal.screen.rows
        assert rows[1].startswith("╭") == is_drawn
        assert rows[1].startswith("     2.0 s           100 steps") != is_drawn


def test_the_model_of_a_screen_sees_pieces() -> None:
    """What rich's own counting leaves: two lines of 8, wrapped to four rows, of which two are erased."""
    screen = Screen(10)
    screen.feed("aaaaaaaa\r\nbbbbbbbb")
    screen.width = 5
    screen.feed("\r\x1b[2K\x1b[1A\x1b[2Kcc\r\ndd")
    assert screen.rows == ["aaaaa", "aaa", "cc", "dd"]
    whole = Screen(10)
    whole.feed("aaaaaaaa\r\nbbbbbbbb")
    whole.width = 5
    whole.feed("\r\x1b[2K" + "\x1b[1A\x1b[2K" * 3 + "cc\r\ndd")
    assert whole.rows == ["cc", "dd"]


WAITS = """
import sys, time
from a3c_zoo.display.displays import open_display
display = open_display()
display.say("x → runs/x")
display.wait("starting")
sys.stdin.readline()
display.wait("1 of 16 workers are ready")
print("done", file=sys.stderr, flush=True)
sys.stdin.readline()
display.say("a line")
print("done", file=sys.stderr, flush=True)
sys.stdin.readline()
display.close()
print("done", file=sys.stderr, flush=True)
"""


def test_a_start_gives_a_sign_of_life() -> None:
    with shown(WAITS, 60) as terminal:

        def await_row(pattern: str) -> None:
            terminal.wait_for(lambda rows: bool(re.fullmatch(pattern, rows[-1])) if rows else False)

        await_row(r"starting, [1-9]\d* s")
        terminal.tell("")
        await_row(r"1 of 16 workers are ready, [1-9]\d* s")
        terminal.tell("")
        await_row(r"1 of 16 workers are ready, [1-9]\d* s")
        assert terminal.screen.rows[:2] == ["x → runs/x", "a line"]
        terminal.tell("")
        assert terminal.screen.rows == ["x → runs/x", "a line"]


def test_a_pipe_gets_a_sign_of_life(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    display, now_s = LineDisplay(), 0.0
    monkeypatch.setattr("a3c_zoo.display.displays.time.monotonic", lambda: now_s)
    for tenth in range(130):
        now_s = 100.0 + tenth / 10
        display.wait(f"{tenth} of 200 workers are ready")
    assert capsys.readouterr().out.splitlines() == ["50 of 200 workers are ready", "100 of 200 workers are ready"]


def test_quiet_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    display = Display()
    assert not display.is_due
    display.say("x")
    display.wait("y")
    display.close()
    assert capsys.readouterr() == ("", "")


def test_no_rich_before_the_first_block() -> None:
    program = "import sys, a3c_zoo.cli.train, a3c_zoo.runs.api, a3c_zoo.display.displays as displays\n"
    program += "displays.TerminalDisplay().say('x')\nassert not any(name.startswith('rich') for name in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=LIMIT_S)


# Pieces


def test_bars() -> None:
    assert [bar(share, 4) for share in (0.0, 0.125, 0.5, 1.0, 1.7, -1.0)] == [
        "    ", "╸   ", "━━  ", "━━━━", "━━━━", "    "
    ]  # fmt: skip


def test_the_slope_is_that_of_the_later_half() -> None:
    """0, 0, 0, 0 and then 3 a second: the points of 3 to 6 s are 0, 3, 6, 9."""
    trend = Trend()
    for second, value in enumerate((0.0, 0.0, 0.0, 0.0, 3.0, 6.0, 9.0)):
        trend.add(float(second), value)
    assert trend.slope() == pytest.approx(3.0)
    assert trend.first == 0.0
    assert trend.change == 9.0


def test_no_slope_of_few_points_or_of_one_moment() -> None:
    trend = Trend()
    for _ in range(3):
        trend.add(1.0, 5.0)
    assert trend.slope() is None
    trend.add(1.0, 6.0)
    assert trend.slope() is None


def test_a_long_trend_keeps_few_points() -> None:
    trend = Trend()
    for second in range(10_000):
        trend.add(float(second), second / 2)
    assert len(trend.bars) <= 24
    assert trend.slope() == pytest.approx(0.5)
    assert trend.bars[0] == "▁"


class OneLine:
    """A source of the display, which has a block and a line."""

    is_over = False

    def block(self, width: int) -> ConsoleRenderable:
        return Text("the block")

    def line(self) -> str:
        return "the line"


def test_a_process_in_the_background_prints_lines_and_leaves_the_cursor(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As with `&`, and below `timeout`, which makes a group of its own."""
    monkeypatch.setattr("a3c_zoo.display.displays.is_in_foreground", lambda stream: False)
    display = TerminalDisplay()
    display.show(OneLine())
    display.show(OneLine())  # too soon for another line
    display.close()
    assert capsys.readouterr().out == "the line\n"


STOPPED = """
import os, signal, sys
from rich.text import Text
from a3c_zoo.display.live_block import LiveBlock

assert signal.getsignal(signal.SIGTSTP) is signal.SIG_DFL
block = LiveBlock(to_stderr=False)
for line in sys.stdin:
    block.close() if line.strip() == "close" else block.draw(Text("the block"))
    is_default = signal.getsignal(signal.SIGTSTP) is signal.SIG_DFL
    print("done" if is_default == (line.strip() == "close") else "wrong", file=sys.__stderr__, flush=True)
"""


def test_a_command_without_a_handler_of_its_own_gives_the_cursor_back_at_ctrl_z() -> None:
    with shown(STOPPED, 80) as terminal:
        terminal.tell("draw")
        assert not terminal.screen.has_cursor
        terminal.signal(signal.SIGTSTP)
        terminal.wait_until_stopped()
        terminal.read()
        assert terminal.screen.has_cursor
        terminal.signal(signal.SIGCONT)
        terminal.tell("draw")
        assert not terminal.screen.has_cursor
        terminal.tell("close")
        assert terminal.screen.has_cursor
