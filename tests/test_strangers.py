"""Runs that somebody else made: they choose no import, lead to no file elsewhere, and send nothing to a terminal."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from gymnasium.envs.classic_control import CartPoleEnv

import a3c_zoo
from a3c_zoo.cli.common import complete_run
from a3c_zoo.cli.compare import command as compare_command
from a3c_zoo.cli.evaluate import command as evaluate_command
from a3c_zoo.cli.play import command as play
from a3c_zoo.errors import ConfigError, RunDirectoryError, ZooError
from a3c_zoo.figures.curves import Line
from a3c_zoo.report.drawing import Panel, group_of, to_inline_svg
from a3c_zoo.report.pages import plain
from a3c_zoo.runs.api import evaluate
from a3c_zoo.store.directory import why_not_own
from a3c_zoo.store.run import find_run, list_runs
from a3c_zoo.store.run_records import read_run, read_runs
from tests.test_files import plant
from tests.toys_runs import command_line
from tests.waits import LIMIT_S

Captured = pytest.CaptureFixture[str]
ESCAPES = "\x1b]0;owned\x07\x9b31m\u202e"
MONITOR = '#{"t_start": 1.0, "env_id": "ENV"}\nr,l,t\n1.0,5,0.1\n2.0,5,0.2\n'
#: A module that says that it was imported, and is then no use.
EVIL = "from pathlib import Path\nPath({mark!r}).write_text('imported')\n"


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, to be changed as a stranger would."""
    folder = tmp_path_factory.mktemp("sent")
    quick = {"run.evaluation_episodes": 1, "run.stop_when_solved": False}
    return a3c_zoo.train("cartpole", agent="sb3-a2c", steps=200, name="run", runs_dir=folder, overrides=quick).run


@pytest.fixture
def place(sent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the run in `inbox/run`, and a module `evilmod` that can be imported."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(sent, tmp_path / "inbox/run")
    (tmp_path / "site").mkdir()
    (tmp_path / "site/evilmod.py").write_text(EVIL.format(mark=str(tmp_path / "mark")))
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.delitem(sys.modules, "evilmod", raising=False)
    return tmp_path


def name_module(run: Path) -> None:
    """The run now says that it was trained on an environment of `evilmod`."""
    for name in ("config.yml", "meta.json"):
        text = (run / name).read_text()
        (run / name).write_text(
            text.replace("env_name: cartpole", "env_name: gym:evilmod:CartPole-v1").replace(
                '"env": "cartpole"', '"env": "gym:evilmod:CartPole-v1"'
            )
        )


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@contextmanager
def limit() -> Iterator[None]:
    """A file that is waited for, such as a FIFO, fails the test."""

    def fail(number: int, frame: object) -> None:
        raise AssertionError("it waits")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(int(LIMIT_S))
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# Imports


@pytest.mark.parametrize(
    "use",
    [
        lambda trust: evaluate("inbox/run", episodes=1, trust=trust),
        lambda trust: play.main(["inbox/run", "--video", "film.gif", *["--trust"] * trust], standalone_mode=False),
        lambda trust: a3c_zoo.load_agent("inbox/run", trust=trust),
        lambda trust: a3c_zoo.train(resume="inbox/run", steps=300, trust=trust),
    ],
)
def test_no_import_is_chosen_by_a_run(use: Callable[[bool], Any], place: Path) -> None:
    name_module(place / "inbox/run")
    with pytest.raises(ZooError, match=r"import 'evilmod', .*not your own: .*runs.*: --trust$") as raised:
        use(False)
    assert "\n" not in str(raised.value)
    assert not (place / "mark").exists()
    with pytest.raises(ZooError, match="unknown key"):  # CartPole's keys are not those of gym:
        use(True)
    assert (place / "mark").exists()


class AnyArguments(CartPoleEnv):
    """A class that takes every argument."""

    def __init__(self, **_: Any) -> None:
        super().__init__()


def test_no_argument_names_the_code_of_a_given_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`env.kwargs` has plain values. That of this name would take the place of the class that the program gives."""
    monkeypatch.chdir(tmp_path)
    quick = {"run.stop_when_solved": False}
    run = a3c_zoo.train(AnyArguments, serial=True, steps=100, overrides=quick, name="run", runs_dir="inbox").run
    config = run / "config.yml"
    text = config.read_text()
    assert "kwargs: {}" in text
    config.write_text(text.replace("kwargs: {}", "kwargs: {function: 'os:system', command: touch mark}"))
    with pytest.raises(
        ConfigError, match=r"env\.kwargs\.function: environment 'anyarguments' gives this argument itself"
    ):
        evaluate(run, env=AnyArguments, episodes=1)
    assert not (tmp_path / "mark").exists()


def test_a_run_of_installed_names_needs_no_trust(place: Path) -> None:
    assert evaluate("inbox/run", episodes=1).episodes == 1


def test_ones_own_run_may_name_a_module(place: Path) -> None:
    shutil.move("inbox", "runs")
    name_module(place / "runs/run")
    with pytest.raises(ZooError, match="unknown key"):  # CartPole's keys are not those of gym:
        evaluate("run", episodes=1)
    assert (place / "mark").exists()


def test_what_ones_own_run_is(place: Path) -> None:
    assert not why_not_own(Path("inbox/run"), Path("inbox"))
    assert why_not_own(Path("inbox/run"), Path("runs"))
    assert why_not_own(Path("inbox"), Path("inbox"))
    assert why_not_own(Path("inbox/nothing"), Path("inbox"))
    Path("runs").mkdir()
    Path("runs/link").symlink_to("../inbox/run")  # it lies elsewhere, whatever its name is
    assert why_not_own(Path("runs/link"), Path("runs"))
    assert why_not_own(Path("runs/../inbox/run"), Path("runs"))
    Path("linked").symlink_to("inbox")
    assert not why_not_own(Path("linked/run"), Path("inbox"))
    if os.geteuid() == 0:
        Path("inbox/run/of-root.txt").touch()
        os.chown("inbox/run/of-root.txt", 12345, -1)
        assert not why_not_own(Path("inbox/run"), Path("inbox"))
        os.chown("inbox/run/config.yml", 12345, -1)
        cause = f"user 12345 owns {Path('inbox/run').resolve()}/config.yml, and you are user 0"
        assert why_not_own(Path("inbox/run"), Path("inbox")) == cause
        assert find_run("inbox/run", Path("inbox"), trust=True).is_trusted


@pytest.mark.parametrize("kind", ["ours", "theirs"])
def test_a_picture_imports_nothing(kind: str, place: Path, capsys: Captured) -> None:
    run = place / "inbox/run"
    if kind == "ours":
        name_module(run)
    else:
        shutil.rmtree(run)
        run.mkdir()
        (run / "monitor.csv").write_text(MONITOR.replace("ENV", "evilmod:CartPole-v1"))
    assert command_line("plot", run) == 0
    assert not (place / "mark").exists()
    err = capsys.readouterr().err
    assert err == (
        "Warning: The threshold of gym:evilmod:CartPole-v1 is not known: 'evilmod' would be imported for it. To allow "
        "that: --trust.\n"
    )
    assert command_line("plot", run, "--force", "--trust") == 0
    assert (place / "mark").exists()
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("plain_reports")
def test_a_report_imports_nothing(place: Path) -> None:
    name_module(place / "inbox/run")
    found = a3c_zoo.compare(sources=["inbox"], out="report")
    assert not (place / "mark").exists()
    assert any("'evilmod' would be imported" in line for line in found.verdict)
    found = a3c_zoo.compare(sources=["inbox"], out="trusted", trust=True)
    assert (place / "mark").exists()
    assert not any("evilmod' would" in line for line in found.verdict)


@pytest.mark.usefixtures("plain_reports")
def test_a_report_trusts_runs_in_the_folder_of_ones_own(place: Path) -> None:
    name_module(place / "inbox/run")
    assert command_line("compare", "--from", "inbox", "--runs-dir", "inbox", "--out", "report") == 0
    assert (place / "mark").exists()


@pytest.mark.parametrize(
    ("arguments", "option"),
    [(("train", "cartpole", "--trust"), "--resume or --init-from"), (("compare", "cartpole", "--trust"), "--from")],
)
def test_trust_without_a_run(arguments: tuple[str, ...], option: str, place: Path, capsys: Captured) -> None:
    assert command_line(*arguments) == 2
    expected = f"Error: --trust is for a run that somebody else made: name it with {option}, or leave out --trust\n"
    assert capsys.readouterr().err == expected


# Files


def planted(names: Sequence[str], kinds: Sequence[str], slow: Container[tuple[str, str]]) -> list[Any]:
    """What lies in place of which file."""
    pairs = itertools.product(names, kinds)
    return [pytest.param(*pair, marks=[pytest.mark.slow] if pair in slow else []) for pair in pairs]


#: File → the status of its run in the list, and that of `plot` and `compare`, which have no other run.
STATUSES = {
    "config.yml": ("steps", 2),
    "meta.json": ("damaged", 2),
    "outcome.json": ("damaged", 2),
    "monitor.csv": ("steps", 2),
    "timing.json": ("steps", 0),
    "evaluations.json": ("steps", 0),
}
#: Those whose run is read to its end, which takes longer. The two files are read in the same way.
READ_TO_THE_END = list(itertools.product(["timing.json", "evaluations.json"], ["folder", "device"]))


@pytest.mark.usefixtures("plain_reports")
@pytest.mark.parametrize(
    ("name", "kind"), planted([*STATUSES], ["link", "fifo", "folder", "device"], slow=READ_TO_THE_END)
)
def test_no_command_waits_for_a_file_or_follows_it(name: str, kind: str, place: Path, capsys: Captured) -> None:
    listed, status = STATUSES[name]
    run = place / "inbox/run"
    (run / name).unlink(missing_ok=True)
    plant(run / name, kind)
    with limit():
        assert command_line("list", "runs", "--runs-dir", "inbox", "--json") == 0
        assert [(row["name"], row["status"]) for row in json.loads(capsys.readouterr().out)] == [("run", listed)]
        assert command_line("plot", "inbox") == status
        assert command_line("compare", "--from", "inbox") == status
        if name in ("config.yml", "meta.json"):
            assert command_line("evaluate", run) == 2
    assert "Traceback" not in capsys.readouterr().err
    if kind == "link":
        assert (run / "victim").read_text() == "precious"


#: The run trains on, as it does with a folder in place of events.jsonl.
TRAINS_ON = [("evaluator.log", "folder"), ("evaluations.csv", "folder")]


@pytest.mark.parametrize(
    ("name", "kind"),
    planted(
        ["monitor.csv", "events.jsonl", "run.lock", "evaluator.log", "evaluations.csv"],
        ["link", "fifo", "folder"],
        slow=TRAINS_ON,
    ),
)
def test_a_resumed_run_writes_nowhere_else(name: str, kind: str, place: Path, capsys: Captured) -> None:
    run = place / "inbox/run"
    (run / name).unlink(missing_ok=True)
    plant(run / name, kind)
    is_refused = name == "monitor.csv" or (name == "run.lock" and kind != "fifo")  # a FIFO can be locked
    with limit():
        assert command_line("train", "--resume", run, "--steps", 300, "--quiet") == (2 if is_refused else 0)
    assert "Traceback" not in capsys.readouterr().err
    if kind == "link":
        assert (run / "victim").read_text() == "precious"


@pytest.mark.parametrize("name", ["checkpoints", "tensorboard"])
def test_a_folder_that_leads_elsewhere_is_refused(name: str, place: Path, capsys: Captured) -> None:
    run = place / "inbox/run"
    shutil.move(run / name, place / "elsewhere")
    (run / name).symlink_to(place / "elsewhere")
    before = sorted((place / "elsewhere").iterdir())
    assert command_line("train", "--resume", run, "--steps", 300) == 2
    assert f"{name} is a link, and links are not followed" in capsys.readouterr().err
    assert sorted((place / "elsewhere").iterdir()) == before


def test_a_planted_picture_is_not_followed(place: Path) -> None:
    (place / "victim").write_text("precious")
    Path("plot.png").symlink_to("victim")
    assert command_line("plot", "inbox") == 2
    assert command_line("plot", "inbox", "--force") == 0
    assert (place / "victim").read_text() == "precious"
    Path("report").mkdir()
    for name in ("report.html", "curves.png", "results.json"):
        (Path("report") / name).symlink_to("../new")
    a3c_zoo.compare(sources=["inbox"], out="report")
    assert not (place / "new").exists()


@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
def test_a_checkpoint_is_a_file_of_its_own(kind: str, place: Path, capsys: Captured) -> None:
    file = next((place / "inbox/run/checkpoints").glob("step-*.pt"))
    file.unlink()
    plant(file, kind)
    with limit():
        assert command_line("evaluate", "inbox/run") == 2
    assert "cannot be read" in capsys.readouterr().err


def test_a_pickle_is_refused_and_no_advice_given_to_load_it(place: Path, capsys: Captured) -> None:
    file = next((place / "inbox/run/checkpoints").glob("step-*.pt"))
    torch.save({"format": 1, "agent": Path("/"), "session": {}}, file)
    for arguments in ((), ("--debug",)):
        assert command_line("evaluate", "inbox/run", *arguments) == 2
        err = capsys.readouterr().err
        assert "weights_only" not in err
        assert "is a pickle, as a3c-zoo 0.1.0 wrote it" in err


# Values and names


@pytest.mark.parametrize(
    ("file", "values"),
    [
        ("meta.json", {"started": 5}),
        ("meta.json", {"started": "long ago"}),
        ("meta.json", {"started": "0001-01-01T00:00"}),
        ("meta.json", {"env": ["cartpole"]}),
        ("meta.json", {"format": {"a": 1}}),
        ("meta.json", {"command": 5}),
        ("meta.json", {"host": []}),
        ("meta.json", {"host": {"cpu": [], "cores": {}}}),
        ("outcome.json", {"steps": "many"}),
        ("outcome.json", {"training_s": float("nan")}),
        ("outcome.json", {"total_s": 1e308}),
        ("outcome.json", {"detail": None}),
        ("outcome.json", {"evaluation": [1]}),
        ("outcome.json", {"steps": 10**4000}),
        ("evaluations.json", {"format": 1, "evaluations": [5]}),
        ("evaluations.json", {"format": 1, "evaluations": [{"steps": "a", "training_s": 1.0}]}),
        ("evaluations.json", {"format": 1, "evaluations": 5}),
        ("timing.json", {"calibration_s": "x", "variables": 3}),
        ("timing.json", {"calibration_s": 1.0, "variables": 3, "torch_threads": 1}),
        ("timing.json", {"calibration_s": 1.0, "variables": {}, "torch_threads": "all"}),
    ],
)
def test_a_value_of_another_type_breaks_nothing(file: str, values: Any, place: Path, capsys: Captured) -> None:
    shutil.copytree("inbox/run", "inbox/good")
    path = place / "inbox/run" / file
    if not path.exists():
        path.write_text("{}")
    change(path, **values)
    assert command_line("list", "runs", "--runs-dir", "inbox", "--since", "1d") == 0
    assert "good" in capsys.readouterr().out
    assert {run.name for run in list_runs(Path("inbox"))} == {"good", "run"}
    records, left_out = read_runs(["inbox"])
    assert "good" in [record.path.name for record in records]
    assert len(records) + len(left_out) == 2
    assert command_line("plot", "inbox") == 0
    assert "Traceback" not in capsys.readouterr().err


def test_one_bad_folder_hides_no_other(place: Path, capsys: Captured) -> None:
    inbox = place / "inbox"
    for number, kind in enumerate(("link", "fifo", "folder", "device")):
        (inbox / f"bad{number}").mkdir()
        plant(inbox / f"bad{number}" / "meta.json", kind)
    (inbox / "a file").touch()
    os.mkfifo(inbox / "fifo")
    (inbox / "loop").symlink_to("loop")
    (inbox / os.fsdecode(b"bad-\xff")).mkdir()
    shutil.copy(inbox / "run/meta.json", inbox / os.fsdecode(b"bad-\xff"))
    with limit():
        assert command_line("list", "runs", "--runs-dir", "inbox") == 0
    assert capsys.readouterr().out.count("damaged") == 4
    context = evaluate_command.make_context("evaluate", ["--runs-dir", "inbox", "x"])
    names = {Path(item.value).name for item in complete_run(context, evaluate_command.params[0], "inbox/")}
    assert names == {"run", "bad0", "bad1", "bad2", "bad3"}


def test_control_characters_reach_no_terminal(place: Path, capsys: Captured) -> None:
    inbox = place / "inbox"
    change(
        inbox / "run/meta.json", env=f"cart{ESCAPES}", command=["a3c-zoo", f"train\n# {ESCAPES}"], host={"cpu": ESCAPES}
    )
    (inbox / "run").rename(inbox / f"run\n{ESCAPES}")
    damaged = inbox / f"damaged{ESCAPES}"
    damaged.mkdir()
    (damaged / "meta.json").write_text(f'{{"{ESCAPES}"')
    for arguments in (
        ("list", "runs", "--runs-dir", "inbox"),
        ("plot", "inbox"),
        ("evaluate", damaged),
        ("evaluate", damaged, "--debug"),
        ("evaluate", f"no {ESCAPES}"),
        ("compare", "--from", "inbox", "--out", "report"),
    ):
        command_line(*arguments)
        captured = capsys.readouterr()
        text = captured.out + captured.err
        assert text
        assert all(each.isprintable() for each in text.replace("\n", "")), (arguments, text)
    for name in ("report.md", "report.html"):
        text = (place / "report" / name).read_text()
        assert all(each.isprintable() for each in text.replace("\n", "")), name
        assert "\n# " not in text.partition("Commands")[2].partition("How it was")[0]


def test_a_dollar_is_no_mathematics(place: Path) -> None:
    for name in (r"$\frac$", "$x^{$", "_hidden", "__"):
        folder = place / "theirs" / f"{name}_1"
        folder.mkdir(parents=True)
        (folder / "monitor.csv").write_text(MONITOR.replace("ENV", "CartPole-v1"))
    assert command_line("plot", "theirs", "--out", "plot.svg") == 0
    text = Path("plot.svg").read_text()
    assert all(name in text for name in (r"$\frac$", "$x^{$", "_hidden", "__"))
    line = Line(*[np.array([1.0, 2.0])] * 2)
    assert r"$\alpha$" in to_inline_svg(Panel("$", "$", r"$\alpha$", {"$_$": group_of([line])}))
    assert plain("$a$ & <b>\x1b") == r"\$a\$ \& \<b\>\\x1b"


def test_a_monitor_with_numbers_that_no_one_can_draw(place: Path) -> None:
    for cells in ("1,5,1e300", "1,1e300,1", "1e200,5,1", "nan,5,1", "1,-1e20,1"):
        (place / "inbox/run/monitor.csv").write_text(f'#{{"t_start": 1}}\nr,l,t,step,worker\n{cells},5,0\n')
        with pytest.raises(RunDirectoryError, match="line 3 reads"):
            read_run(place / "inbox/run")
    (place / "inbox/run/monitor.csv").write_text("#" + "[" * 60_000 + "\nr,l,t,step,worker\n")
    with pytest.raises(RunDirectoryError, match="does not begin with"):
        read_run(place / "inbox/run")


def test_help_names_trust() -> None:
    assert "--trust" in CliRunner().invoke(compare_command, ["--help"]).output
