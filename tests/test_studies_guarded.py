"""Studies that a stranger may have made: no FIFO is waited for, and no link is followed."""

from __future__ import annotations

import errno
import json
import math
import os
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from threading import Thread
from typing import Any, NoReturn, cast, get_args, get_type_hints

import filelock
import optuna
import pytest

from a3c_zoo.config.search import SearchedKey, search_space
from a3c_zoo.errors import ZooError
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.testing import plugin_distribution
from a3c_zoo.tuning import tune as tuning
from a3c_zoo.tuning.choices import SAMPLERS
from a3c_zoo.tuning.racing import Race, TuningWatcher
from a3c_zoo.tuning.storages import open_storage, storage_errors
from a3c_zoo.tuning.studies import (
    OPTIONS,
    RESULT,
    RUNS,
    SEARCHED,
    SETTINGS,
    StudySettings,
    TuningStudy,
    list_studies,
)
from a3c_zoo.tuning.tune import _has_ended, make_settings
from tests.shared import closed
from tests.toys_runs import command_line
from tests.waits import LIMIT_S

JOURNAL = "studies/mine/journal.jsonl"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "studies/mine").mkdir(parents=True)
    (tmp_path / "victim").write_text("precious")
    return tmp_path


@pytest.mark.parametrize("kind", ["fifo", "link", "link to nothing", "two names"])
def test_a_journal_that_is_no_file_of_its_own(kind: str, place: Path) -> None:
    match kind:
        case "fifo":
            os.mkfifo(JOURNAL)
        case "link":
            os.symlink(place / "victim", JOURNAL)
        case "link to nothing":
            os.symlink(place / "new", JOURNAL)
        case "two names":
            os.link(place / "victim", JOURNAL)
    (row,) = list_studies()
    assert row["state"] == "damaged"
    for is_new in (True, False):
        with pytest.raises(ZooError) as raised:
            open_storage(None, "mine", is_new)
        assert "\n" not in str(raised.value)
    assert (place / "victim").read_text() == "precious"
    assert not (place / "new").exists()


def test_a_lock_that_is_a_link(place: Path) -> None:
    open_storage(None, "mine", is_new=True)
    os.symlink(place / "new", f"{JOURNAL}.lock")
    os.unlink(JOURNAL)
    (place / JOURNAL).write_bytes(b"")
    with pytest.raises(ZooError, match=r"journal\.jsonl\.lock cannot be used: Too many levels"):
        open_storage(None, "mine", is_new=False).create_new_study([], "mine")
    assert not (place / "new").exists()


def test_a_journal_that_cannot_be_opened_is_left_unlocked(study: TuningStudy, place: Path) -> None:
    """A notebook goes on after the error, and another process may want the journal."""
    os.link(JOURNAL, place / "second name")
    with pytest.raises(ZooError, match=r"journal\.jsonl cannot be used"), storage_errors(JOURNAL):
        study.keep(OPTIONS, {})
    with filelock.FileLock(f"{JOURNAL}.lock", timeout=0):
        pass


def test_a_link_that_the_user_names_is_theirs(place: Path) -> None:
    os.symlink(place / "kept.jsonl", place / "mine.jsonl")
    open_storage("mine.jsonl", "mine", is_new=True)
    assert (place / "kept.jsonl").exists()


@pytest.fixture
def study(place: Path) -> TuningStudy:
    """A study with a trial that has a score."""
    made = make_settings("cartpole", None, None, (), 480, seeds=1, episodes=1, sampler="tpe", pruner="halving")
    study = TuningStudy("mine", None, Path("runs"), made)
    study.add([SearchedKey("agent.gamma", "uniform", (0.9, 0.99))])
    study.report(0, 160, {1: 5.0})
    return study


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("distributions", None),
        ("params", {"agent.gamma": "x"}),
        ("params", {"agent.gamma": None}),
        ("user_attrs", "x"),
        ("intermediate_value", None),
        ("intermediate_value", "x"),
        ("step", None),
        ("step", "x"),
        ("study_name", None),
        ("op_code", 99),
    ],
)
def test_a_record_of_which_a_value_is_damaged(study: TuningStudy, key: str, value: Any) -> None:
    records = [json.loads(line) for line in Path(JOURNAL).read_text().splitlines()]
    damaged = [record | {key: value} if key in record else record for record in records]
    assert damaged != records
    Path(JOURNAL).write_text("".join(f"{json.dumps(record)}\n" for record in damaged))
    with pytest.raises(ZooError) as raised:
        TuningStudy("mine", None, Path("runs"))
    assert str(raised.value) == f"--storage {JOURNAL} is no journal of Optuna, or damaged; name another"
    (row,) = list_studies()
    assert (row["state"], row["fault"]) == ("damaged", str(raised.value))


def test_a_listing_writes_nothing(study: TuningStudy) -> None:
    """Also where nobody may write, such as in a folder of somebody else."""
    before = Path(JOURNAL).read_bytes()
    os.unlink(f"{JOURNAL}.lock")
    rows = [list_studies() for _ in range(3)]
    Path(JOURNAL).chmod(0o444)
    with closed(Path("studies/mine"), 0o555):
        rows.append(list_studies())
    for (row,) in rows:
        assert (row["state"], row["trials"], row["steps"], row["best"]) == ("open", 1, 160, 5.0)
    assert Path(JOURNAL).read_bytes() == before
    assert not Path(f"{JOURNAL}.lock").exists()


def test_a_listing_of_a_study_with_half_a_record(study: TuningStudy) -> None:
    """Another process is writing it, perhaps."""
    half = Path(JOURNAL).read_text() + '{"op_code":'
    Path(JOURNAL).write_text(half)
    (row,) = list_studies()
    assert (row["state"], row["trials"]) == ("open", 1)
    assert Path(JOURNAL).read_text() == half


def test_a_study_that_may_only_be_read_is_not_trained(study: TuningStudy, capsys: pytest.CaptureFixture[str]) -> None:
    Path(JOURNAL).chmod(0o444)
    with closed(Path("studies/mine"), 0o555):
        assert command_line("tune", "--resume", "mine", "--yes") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"Error: cannot write {JOURNAL}: Permission denied. Choose another: --storage FILE"


@pytest.mark.parametrize("name", ["../elsewhere", "/tmp/elsewhere", "", ".."])
def test_a_run_of_another_folder(study: TuningStudy, name: str) -> None:
    study._open(0).set_user_attr(RUNS, {"1": name})
    with pytest.raises(ZooError, match=r"^--storage studies/mine/journal\.jsonl: .*trial 0 .*letters"):
        study.run_of(0, 1)


def test_a_trial_with_a_key_that_is_not_searched(study: TuningStudy) -> None:
    """Its values would be options of the trainings: `env.wrappers` would import a module."""
    study.add([SearchedKey("env.wrappers", "choice", (["evil_module:Wrap"],))])
    with pytest.raises(ZooError) as raised:
        TuningStudy("mine", None, Path("runs"))
    what = "trial 1 has a value of env.wrappers, which it does not search"
    assert str(raised.value) == f"study 'mine' ({JOURNAL}) is damaged: {what}; name another"


@pytest.mark.parametrize(
    ("env", "overrides", "named"),
    [
        ("gym:no_such_module:Maze-v0", [], "gym:no_such_module:Maze-v0"),
        ("cartpole", ["env.wrappers=[evil_module:Wrap]"], "-o env.wrappers=[evil_module:Wrap]"),
        ("cartpole", ["agent.gamma=0.9", "wrappers=[evil_module:Wrap]"], "-o wrappers=[evil_module:Wrap]"),
        ("cartpole", [" env.wrappers =[evil_module:Wrap]"], "-o  env.wrappers =[evil_module:Wrap]"),
    ],
)
def test_a_study_of_a_named_storage_imports_nothing(
    env: str, overrides: list[str], named: str, study: TuningStudy, capsys: pytest.CaptureFixture[str]
) -> None:
    study.keep(SETTINGS, asdict(study.settings) | {"env": env, "overrides": overrides})
    assert command_line("tune", "--resume", "mine", "--storage", JOURNAL) == 2
    assert (
        f"the study would import what {named} names. If you trust it, type --study mine with its"
        in capsys.readouterr().err
    )


@pytest.fixture
def hooks(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A plugin with the run hooks `early-stop`, and `logger`, which every run has."""
    source = "from dataclasses import replace\nfrom a3c_zoo import hookimpl\n"
    source += "from tests.test_hook_entries import LOGGER, STOP\n@hookimpl\ndef zoo_hooks():\n"
    source += "    return [STOP, replace(LOGGER, on_by_default=True)]\n"
    monkeypatch.syspath_prepend(plugin_distribution(place / "installed", "two-hooks", source))
    get_registry.cache_clear()
    yield
    get_registry.cache_clear()


@pytest.mark.usefixtures("hooks")
@pytest.mark.parametrize(
    ("text", "file", "named"),
    [
        ("plugins.early-stop.patience=3", "", "plugins.early-stop"),
        (" plugins.early-stop.enabled =true", "", "plugins.early-stop"),
        ("plugins.logger.patience=3", "", "plugins.logger"),
        ("agent.gamma=0.9", "plugins: {early-stop: {patience: 3}}", "plugins.early-stop"),
        ("agent.gamma=0.9", "plugins: {early-stop: {}}", "plugins.early-stop"),
    ],
)
def test_a_study_of_a_named_storage_chooses_no_run_hook(
    text: str, file: str, named: str, study: TuningStudy, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its settings may be an address to which metrics go. Who trusts it types them."""
    hyperparams = "theirs.yml" if file else None
    Path("theirs.yml").write_text(file)
    given: dict[str, Any] = {"seeds": 1, "episodes": 1, "sampler": "tpe", "pruner": "halving"}
    made = make_settings("cartpole", None, hyperparams, [text], 480, **given)
    TuningStudy("theirs", "theirs.jsonl", Path("runs"), made)
    storage = ["--storage", "theirs.jsonl"]
    assert command_line("tune", "--resume", "theirs", *storage, "--yes") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        f"Error: --storage theirs.jsonl: the study would choose run hooks and their settings ({named}). If you trust "
        "it, type --study theirs with its environment and options, in place of --resume"
    )
    words = [
        "--steps",
        480,
        "--seeds",
        1,
        "--episodes",
        1,
        "-o",
        text,
        *(["--hyperparams", "theirs.yml"] if file else []),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning, "rehearse", lambda *_: {})
        assert command_line("tune", "cartpole", "--study", "theirs", *storage, *words) == 2
    assert "the trials of study 'theirs' must be trained" in capsys.readouterr().err


@pytest.mark.usefixtures("hooks")
def test_run_hooks_that_every_run_has_are_no_choice_of_a_study(study: TuningStudy) -> None:
    assert "logger" in study.settings.config["plugins"]
    study.refuse_strangers()


#: What a study keeps when it has ended.
END: dict[str, Any] = {"study": "mine", "env": "cartpole", "agent": "a3c", "trial": 0, "values": {"agent.gamma": "0.9"}}
END |= {"choice": {"0": 5.0}, "file": "best.yml", "options": [], "report": "out", "verdict": [], "failed": []}
END |= {"not_shown_better_than": [], "trials": 30, "wanted": 30, "timeout": None, "first_seed": 12_000_001}
END |= {"final_seeds": 7}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (OPTIONS, "abc"),
        (OPTIONS, {"foo": 1}),
        *((OPTIONS, {"trials": 3, "timeout": None, "final_seeds": 2} | wrong) for wrong in (
            {"trials": "x"}, {"trials": 0}, {"trials": 10_001}, {"timeout": -1.0}, {"timeout": math.nan},
            {"final_seeds": 0}, {"final_seeds": 1_001},
        )),
        (SEARCHED, {"trials": "q"}),
        (SEARCHED, {"trials": 30, "wanted": 30, "timeout": None, "first_seed": -1}),
        (RESULT, {"trials": 4}),
        (RESULT, ["x"]),
        (RESULT, END | {"options": 3}),
        (RESULT, END | {"file": None}),
    ],
)  # fmt: skip
def test_a_study_that_keeps_what_no_study_keeps(
    key: str, value: Any, study: TuningStudy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tuning, "rehearse", lambda *_: {})
    study.keep(key, value)
    assert command_line("tune", "--resume", "mine") == 2
    (line,) = capsys.readouterr().err.splitlines()
    what = f"is damaged: '{key}' has other values than a study keeps; name another"
    assert line == f"Error: study 'mine' ({JOURNAL}) {what}"
    (row,) = list_studies()
    assert row["state"] == ("damaged" if key == RESULT else "open")


@pytest.mark.parametrize(
    "wrong", [{"sampler": "zzz"}, {"seeds": 0}, {"seeds": 1_001}, {"episodes": -1}, {"episodes": 10_001}, {"steps": 0}]
)
def test_settings_that_the_command_line_refuses(wrong: dict[str, Any], study: TuningStudy) -> None:
    study.keep(SETTINGS, asdict(study.settings) | wrong)
    with pytest.raises(ZooError, match=r"is not one of a3c-zoo tune, or of another version; name another$"):
        TuningStudy("mine", None, Path("runs"))


def test_samplers_of_the_command_line_are_those_of_a_study() -> None:
    assert get_args(get_type_hints(StudySettings)["sampler"]) == tuple(SAMPLERS)


def test_only_three_options_come_from_a_study(
    study: TuningStudy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An engine and its address, which a stranger chose, would get the trainings."""
    monkeypatch.setattr(tuning, "rehearse", lambda *_: {})
    others = {"engine": "ray", "address": "10.0.0.1:6379", "engine_option": ["x=1"], "out": "/elsewhere", "yes": True}
    study.keep(OPTIONS, {"trials": 3, "timeout": 60.0, "final_seeds": 2} | others)
    assert study.attribute(OPTIONS) == {"trials": 3, "timeout": 60.0, "final_seeds": 2}
    told: list[Any] = []

    def no_engine(options: dict[str, Any]) -> None:
        told.append(dict(options))
        _raise()

    monkeypatch.setattr("a3c_zoo.cli.tune.chosen_engine", no_engine)
    assert command_line("tune", "--resume", "mine", "--final-seeds", 4) == 2
    assert "no engine here" in capsys.readouterr().err
    (options,) = told
    assert (options["engine"], options["address"], options["engine_option"]) == ("local", None, ())
    assert (options["trials"], options["timeout"], options["final_seeds"]) == (3, 60.0, 4)
    assert options["out"] is None
    assert len(options) == 7


def _raise() -> NoReturn:
    raise ZooError("no engine here")


def test_a_study_that_another_program_made_to_minimize() -> None:
    optuna.create_study(storage="sqlite:///theirs.db", study_name="mine")
    made = make_settings("cartpole", None, None, (), 480, seeds=1, episodes=1, sampler="tpe", pruner="halving")
    with pytest.raises(ZooError) as raised:
        TuningStudy("mine", "sqlite:///theirs.db", Path("runs"), made)
    what = "is not one of a3c-zoo tune, or of another version"
    assert str(raised.value) == f"study 'mine' (sqlite:///theirs.db) {what}; name another"


def test_an_error_without_a_file_names_none() -> None:
    with pytest.raises(ZooError, match=r"^here cannot be used: no room$"), storage_errors("here"):
        raise OSError("no room")


def test_a_trial_that_another_process_ends_before_its_lock_is_taken(
    study: TuningStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = TuningStudy.take

    def late(self: TuningStudy, number: int) -> Any:
        self.end(number)  # as the other process does, which then lets the lock go
        return take(self, number)

    monkeypatch.setattr(TuningStudy, "take", late)
    assert [each.may_go_on_here for each in study.contenders()] == [True]
    registry = get_registry()
    keys = search_space(registry, registry.env("cartpole"), registry.agent("a3c"), None, ())
    race = Race(study, keys, 1, math.inf, cast(Any, None), TuningWatcher())
    assert _has_ended(study, race, None, 0.0)
    assert [each.state for each in study.contenders()] == ["PRUNED"]


def test_two_processes_that_come_out_of_the_race_at_once(study: TuningStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each took a trial that the other one then could not take, and nobody made the comparison."""
    study.add([SearchedKey("agent.gamma", "uniform", (0.9, 0.99))])
    take = TuningStudy.take

    def slow(self: TuningStudy, number: int) -> Any:
        if lock := take(self, number):
            time.sleep(0.3)
        return lock

    monkeypatch.setattr(TuningStudy, "take", slow)
    race = Race(study, (), 2, math.inf, cast(Any, None), TuningWatcher())
    studies = [TuningStudy("mine", None, Path("runs")) for _ in range(2)]
    ended: list[bool] = []

    def come_out(delay_s: float, study: TuningStudy) -> None:
        time.sleep(delay_s)
        ended.append(_has_ended(study, race, None, 0.0))

    processes = [Thread(target=come_out, args=[0.1 * number, each]) for number, each in enumerate(studies)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(LIMIT_S)
    assert ended == [True, True]
    assert [each.state for each in study.contenders()] == ["PRUNED", "PRUNED"]


def test_an_error_of_the_race_is_not_one_of_the_storage(study: TuningStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a terminal that is closed, or a full /tmp."""

    def fail(race: Race) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(Race, "run", fail)
    with pytest.raises(BrokenPipeError):
        tuning.tune(study, cast(Any, None), TuningWatcher(), 2, None, 1, None)


def test_each_use_of_a_study_names_its_storage(study: TuningStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any, **options: Any) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("optuna.storages.JournalStorage.set_study_user_attr", fail)
    monkeypatch.setattr("optuna.storages.JournalStorage.create_new_trial", fail)
    for use in (lambda: study.keep(RESULT, {}), lambda: study.add([])):
        with pytest.raises(ZooError, match=r"^--storage studies/mine/journal\.jsonl cannot be used: No space left"):
            use()
