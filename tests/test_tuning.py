"""`a3c-zoo tune`: the race, its storage, the finale and the command, with real trainings (see `toys_tuning`)."""

from __future__ import annotations

import json
import os
import platform
import random
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import filelock
import jsonschema
import numpy as np
import optuna
import pytest
from optuna.storages._rdb.models import BaseModel
from sqlalchemy.schema import CreateTable

import a3c_zoo
from a3c_zoo.cli.tune import _announce, _tell, command
from a3c_zoo.comparison import rehearsal as rehearsals
from a3c_zoo.comparison.rehearsal import Rehearsal
from a3c_zoo.config import yaml
from a3c_zoo.config.search import SearchedKey
from a3c_zoo.config.sets import dump_config, resolve_config, tuning_cost
from a3c_zoo.display.displays import Display
from a3c_zoo.engines import JobProgress, TrainingJob
from a3c_zoo.errors import ConfigError, ZooError
from a3c_zoo.figures.claims import seeds_needed
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.store.checkpoint_evaluations import evaluations_of
from a3c_zoo.store.checkpoints import checkpoint_steps
from a3c_zoo.store.directory import RunDirectory
from a3c_zoo.testing import plugin_distribution
from a3c_zoo.tuning import finale, racing, storages, studies
from a3c_zoo.tuning import tune as tuning
from a3c_zoo.tuning.contenders import Contender, next_rung
from a3c_zoo.tuning.finale import (
    BLOCK_LENGTH,
    CHOICE_RUNS,
    FinaleSeeds,
    _compared,
    draw_seeds,
    finalists,
    is_shown_better,
    options_beside_set,
    set_of,
)
from a3c_zoo.tuning.racing import TUNING_SEEDS, Advance, Race, TuningWatcher, method_of, rungs_of
from a3c_zoo.tuning.studies import OPTIONS, RESULT, SEARCHED, StudySettings, TuningStudy
from a3c_zoo.tuning.tune import USUAL_STEPS, make_settings, study_name, tune
from a3c_zoo.tuning.tuning_view import TuningView
from tests.shared import closed
from tests.toys_runs import command_line, environ, installed_here
from tests.toys_tuning import RUNGS, SPACE, Inline, InlineConfig
from tests.waits import LIMIT_S, wait_until

#: Two rungs: 160 and 480 steps.
STEPS = 480
COMMAND = ["tune", "cartpole", "--steps", STEPS, "--hyperparams", "s.yml", "--seeds", 1, "--final-seeds", 1]
COMMAND += ["--episodes", 1, "--engine", "inline", "--yes"]


SEEDS = FinaleSeeds.of(2_000_001, 1)


def contender(number: int, scores: dict[int, float], state: str = "RUNNING", **texts: str) -> Contender:
    return Contender(number, texts, scores, state, is_here=True)


# The race, without trainings


def test_rungs_are_a_ninth_and_a_third_and_none_is_shorter_than_a_rollout() -> None:
    assert rungs_of(250_000, 160, is_racing=True) == [27_778, 83_334, 250_000]
    assert rungs_of(480, 160, is_racing=True) == [160, 480]
    assert rungs_of(200, 160, is_racing=True) == [200]
    assert rungs_of(250_000, 160, is_racing=False) == [250_000]


def test_a_trial_goes_on_from_its_last_score() -> None:
    rungs = [1, 3, 9]
    assert [next_rung(contender(0, scores), rungs) for scores in ({}, {1: 5.0}, {1: 5.0, 3: 5.0})] == rungs
    assert next_rung(contender(0, {1: 5.0, 3: 5.0, 9: 5.0}), rungs) == 9  # its process was killed before it ended


def test_finalists_got_furthest_and_each_configuration_is_there_once() -> None:
    found = [
        contender(0, {1: 500}, "PRUNED", a="1"),
        contender(1, {1: 20, 3: 90}, "COMPLETE", a="2"),
        contender(2, {1: 30, 3: 80}, "COMPLETE", a="3"),
        contender(3, {1: 30, 3: 85}, "COMPLETE", a="2"),
        contender(4, {}, "FAIL", a="4"),
        contender(5, {1: 100}, "PRUNED", a="5"),
    ]
    assert [each.number for each in finalists(found)] == [1, 2, 0]
    found[1] = contender(1, {1: 20, 3: 90}, "FAIL", a="2")  # it failed on the next rung
    assert [each.number for each in finalists(found)] == [3, 2, 0]
    assert [each.number for each in finalists(found[1:2])] == [1]  # there is no other


def test_a_finalist_is_not_judged_by_the_runs_that_survived(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    study = TuningStudy("mine", None, Path("runs"), settings())
    for number, value in enumerate(("0.9", "0.95")):
        study.add(KEYS)
        study.report(number, STEPS, {1: float(value)})
    returns = {"trial 0": [500.0], "trial 1": [499.0, 499.0, 499.0]}
    monkeypatch.setattr(finale, "final_returns_of", lambda *_: returns)
    told: list[str] = []
    watcher = TuningWatcher()
    monkeypatch.setattr(watcher, "message", told.append)
    choose = lambda: finale._choose(study, study.contenders(), SEEDS.choice, watcher, Inline())  # noqa: E731
    assert choose() == {1: 499.0}
    assert told[-1] == "trial 0: not all 3 runs of the choice have a return; left out"
    returns["trial 1"] = [499.0]
    assert choose() == {0: 500.0, 1: 499.0}
    assert told[-1].endswith("no finalist has all, so the other runs decide")


def test_seeds_of_the_search_and_of_all_finales_are_disjoint() -> None:
    """Also with the greatest number of final seeds. All fit 31 bits, as NumPy's and ALE's seeds do."""
    finales = [FinaleSeeds.of(first, 1000) for first in {draw_seeds() for _ in range(100)}]
    everything = [*TUNING_SEEDS, *(seed for each in finales for seeds in (each.choice, each.report) for seed in seeds)]
    assert len(finales) > 90
    assert len(set(everything)) == len(everything) == 1000 + len(finales) * (CHOICE_RUNS + 1000)
    assert finale.FIRST_BLOCK + finale.BLOCKS * BLOCK_LENGTH < 2**31


# What a study keeps


def settings(**changes: Any) -> StudySettings:
    given = {"env": "cartpole", "agent": None, "hyperparams": None, "overrides": (), "steps": STEPS, "seeds": 1}
    return make_settings(**{**given, "episodes": 1, "sampler": "tpe", "pruner": "halving", **changes})


@pytest.fixture(autouse=True)
def not_rehearsed(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Of the tests of this process, only those that are about it begin with a rehearsal, which takes seconds.

    Reports have no films, which take seconds, too (`test_report_films`).
    """
    monkeypatch.setattr("a3c_zoo.report.report_films.films_of", lambda _: None)
    if "rehears" not in request.node.name:
        monkeypatch.setattr(tuning, "rehearse", lambda *_: {})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yml").write_text(SPACE)
    return tmp_path


KEYS = (SearchedKey("agent.gamma", "uniform", (0.9, 0.99)), SearchedKey("agent.n_steps", "choice", (5, [1, 2], None)))


def test_a_trial_is_added_as_a_whole_and_its_scores_are_kept(folder: Path) -> None:
    study = TuningStudy("mine", None, Path("runs"), settings())
    numbers = [study.add(KEYS) for _ in range(4)]
    assert numbers == [0, 1, 2, 3]
    study.report(0, 160, {1: 10.0, 2: 20.0})
    study.report(0, STEPS, {1: 30.0, 2: 50.0})
    study.report(1, 160, {1: 5.0, 2: 6.0})  # not better than trial 0
    study.end(2, "it broke")
    again = TuningStudy("mine", None, Path("runs"), settings()).contenders()
    assert [(each.state, dict(each.scores)) for each in again] == [
        ("COMPLETE", {160: 15.0, STEPS: 40.0}),
        ("PRUNED", {160: 5.5}),
        ("FAIL", {}),
        ("RUNNING", {}),
    ]
    assert all(each.is_here and 0.9 <= float(each.texts["agent.gamma"]) <= 0.99 for each in again)
    assert {each.texts["agent.n_steps"] for each in again} <= {"5", "[1, 2]", "null"}
    elsewhere = TuningStudy("mine", None, Path("other"), settings()).contenders()
    assert not any(each.is_here for each in elsewhere)


def steps_of_race(name: str, returns: list[float]) -> list[int]:
    """The steps that trials reach, one after the other, if they have these returns on all of 3 rungs."""
    study = TuningStudy(name, None, Path("runs"), settings(steps=1440))
    for value in returns:
        number = study.add(KEYS)
        while study.contenders()[number].may_go_on_here:
            study.report(number, next_rung(study.contenders()[number], RUNGS), {1: value})
    return [each.rank[0] for each in study.contenders()]


def test_optunas_pruner_lets_the_best_third_go_on(folder: Path) -> None:
    """The best of the first two, and then who is among the best n // 3 of the n trials that have reached a rung."""
    assert steps_of_race("rising", [1, 2, 3, 4]) == [1440] * 4
    assert steps_of_race("falling", [9, 8, 7, 6, 5, 8.5, 4]) == [1440, 160, 160, 160, 160, 480, 160]


def test_equal_trials_do_not_all_go_on(folder: Path) -> None:
    """Optuna's pruner alone would train all 18 to the end. Their scores are as equal as their returns."""
    steps = Counter(steps_of_race("equal", [-21.0] * 18))
    assert 3 <= steps[480] + steps[1440] <= 9
    assert steps[1440] <= 5
    scores = {value for each in TuningStudy("equal", None, Path("runs")).contenders() for value in each.scores.values()}
    assert scores == {-21.0}


def test_a_trial_whose_process_was_killed_before_it_ended(folder: Path, recwarn: pytest.WarningsRecorder) -> None:
    """The last score is there, but Optuna's state is not. The same score is told again."""
    study = TuningStudy("mine", None, Path("runs"), settings())
    number = study.add(KEYS)
    study.report(number, 160, {1: 5.0})
    study._open(number).report(7.0, STEPS)
    (before,) = study.contenders()
    assert (before.state, next_rung(before, [160, STEPS])) == ("RUNNING", STEPS)
    study.report(number, STEPS, {1: 7.0})
    (after,) = study.contenders()
    assert (after.state, dict(after.scores)) == ("COMPLETE", {160: 5.0, STEPS: 7.0})
    assert not recwarn.list


def test_a_study_of_an_older_layout_is_refused(folder: Path) -> None:
    study = TuningStudy("mine", None, Path("runs"), settings())
    study.add(KEYS)
    faults: list[Any] = [None, {}, {"rungs": []}, {"rungs": ["x"]}, {"steps": "many"}, {"overrides": 5}]
    for fault in faults:
        study.keep(studies.SETTINGS, fault and {**asdict(study.settings), **fault})
        with pytest.raises(ZooError, match=r"is not one of a3c-zoo tune"):
            TuningStudy("mine", None, Path("runs"))


def test_the_journal_holds_json_and_no_pickle(folder: Path) -> None:
    study = TuningStudy("mine", None, Path("runs"), settings())
    study.add(KEYS)
    study.report(0, 160, {1: 1.0})
    assert [path.name for path in Path("studies/mine").iterdir() if not path.name.endswith(".lock")] == [
        "journal.jsonl"
    ]
    for line in Path("studies/mine/journal.jsonl").read_text().splitlines():
        assert isinstance(json.loads(line), dict)


def test_half_a_record_at_the_end_is_cut_off(folder: Path) -> None:
    TuningStudy("mine", None, Path("runs"), settings()).add(KEYS)
    journal = Path("studies/mine/journal.jsonl")
    whole = journal.read_text()
    journal.write_text(whole + whole.splitlines()[-1][:20])
    study = TuningStudy("mine", None, Path("runs"), settings())
    assert study.add(KEYS) == 1
    assert journal.read_text().startswith(whole)
    assert len(TuningStudy("mine", None, Path("runs"), settings()).contenders()) == 2


@pytest.mark.parametrize("content", ['{"weights": [1, 2, 3]}', "one line", "my notes\n", "a\nb"])
def test_a_file_that_is_no_journal_stays_as_it_is(content: str, folder: Path) -> None:
    """As half a record, its last line would be cut off."""
    Path("mine.txt").write_text(content)
    for made in (settings(), None):
        with pytest.raises(ZooError, match=r"^--storage mine\.txt is no journal"):
            TuningStudy("mine", "mine.txt", Path("runs"), made)
    assert Path("mine.txt").read_text() == content


@pytest.mark.parametrize("content", ["", '{"op', '{"op_code":0,"worker'])
def test_a_journal_without_a_whole_record_is_a_new_one(content: str, folder: Path) -> None:
    Path("mine.jsonl").write_text(content)
    assert TuningStudy("mine", "mine.jsonl", Path("runs"), settings()).add(KEYS) == 0


def test_samplers_propose_and_the_same_scores_give_the_same_proposal(folder: Path) -> None:
    for sampler in ("tpe", "random", "gp"):
        texts = []
        for name in ("one", "two"):
            made = settings(sampler=sampler, pruner="none")
            study = TuningStudy(f"{name}-{sampler}", None, Path("runs"), made)
            for number in range(3):
                study.add(KEYS)
                study.report(number, STEPS, {1: float(number)})
            texts.append([each.texts for each in study.contenders()])
        assert texts[0] == texts[1]
        assert len({str(each) for each in texts[0]}) > 1


def test_gp_learns_from_the_scores(folder: Path) -> None:
    """The score is greatest where γ is 0.3 of its range."""
    study = TuningStudy("mine", None, Path("runs"), settings(sampler="gp", pruner="none"))
    key = SearchedKey("agent.gamma", "uniform", (0.0, 1.0))
    for number in range(18):
        study.add([key])
        value = float(study.contenders()[number].texts["agent.gamma"])
        study.report(number, STEPS, {1: -((value - 0.3) ** 2)})
    last = [float(each.texts["agent.gamma"]) for each in study.contenders()[-5:]]
    assert all(abs(value - 0.3) < 0.1 for value in last), last


def test_what_matters_is_found(folder: Path) -> None:
    """The score is γ; the choice changes nothing."""
    study = TuningStudy("mine", None, Path("runs"), settings(sampler="random"))
    assert study.importances() == {}
    for number in range(20):
        study.add(KEYS)
        study.report(number, 160, {1: float(study.contenders()[number].texts["agent.gamma"])})
    found = study.importances()
    assert found["agent.gamma"] > 0.8
    assert sum(found.values()) == pytest.approx(1)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("better", "is_told"), [(0, False), (4, False), (5, True)])
def test_ties_tell_nothing_of_what_matters(folder: Path, better: int, is_told: bool) -> None:
    """The best quarter of 20 trials are five; where the fifth is as good as the last, all trials are among the best."""
    study = TuningStudy("mine", None, Path("runs"), settings(sampler="random"))
    for number in range(20):
        study.add(KEYS)
        study.report(number, 160, {1: float(number < better)})
    assert bool(study.importances()) == is_told


REFUSED = {
    ("cartpole", "--agent", "nstep", "--steps", "480"): "was made with another agent: a3c, not nstep; name a new one",
    ("pong", "--steps", "4800"): "was made with another env: cartpole, not pong",
    ("cartpole", "--steps", "960"): "was made with another steps: 480, not 960",
    ("cartpole", "--steps", "480", "--seeds", "3"): "was made with another seeds: 1, not 3",
    ("cartpole", "--steps", "480", "--seeds", "1", "-o", "entropy_coefficient=0.5"): "another overrides: [], not [",
    ("cartpole", "--steps", "480", "--sampler", "gp"): "--sampler gp learns only from trials that were trained to the "
    "end; add --pruner none",
    ("cartpole", "--steps", "480", "--trials", "0"): "0 is not in the range",
    ("cartpole", "--steps", "20"): "--steps 20: too small for one evaluation; a3c learns from 160 steps at a time",
    ("cartpole", "--agent", "random", "--steps", "480"): "agent 'random' has no default search space",
    ("cartpole", "--steps", "480", "--study", "a/b"): "--study 'a/b': letters, digits and",
    ("--resume", "a/b"): "--resume 'a/b': letters, digits and",
    ("cartpole", "--steps", "480", "--timeout", "0s"): "'0s' is no duration",
    ("cartpole", "--storage", "nosuch://x"): "--storage nosuch://x cannot be used: Can't load plugin",
    ("cartpole", "--storage", "sqlite:////no/such/folder/x.db"): "cannot be used: unable to open database file",
    ("cartpole", "--storage", "sqlite:///:memory:"): "keeps nothing: name a file, such as sqlite:///tuning.db",
    ("cartpole", "--storage", "sqlite://"): "keeps nothing: name a file, such as sqlite:///tuning.db",
    ("cartpole", "--storage", "redis://localhost"): "Optuna keeps pickles in Redis, which are not read",
    ("cartpole", "--storage", "postgresql://me:secret@localhost/x"): "--storage postgresql://me:***@localhost/x needs",
    ("cartpole", "--storage", "s.yml"): "--storage s.yml is no journal of Optuna, or damaged; name another",
    ("cartpole", "--storage", "."): "cannot write .: Is a directory. Choose another: --storage FILE",
    ("--resume", "nobody"): "there is no study studies/nobody/journal.jsonl. See: a3c-zoo list studies",
    ("--resume", "x" * 300): "--resume xxxxxxxxxxxxxxxxxxxx...: is too long; at most 200 bytes",
    ("cartpole", "--resume", "mine"): "--resume goes on with a study as it began; leave out env",
    ("cartpole", "-o", "run.steps=480"): "-o run.steps: this command sets it for every run; use --steps",
    ("cartpole", "-o", "run.time_limit_s=5"): "-o run.time_limit_s: this command sets it for every run; use --steps",
    ("cartpole", "-o", "seed=7"): "-o run.seed: this command sets it for every run; leave it out",
    ("cartpole", "-o", "run.stop_when_solved=false"): "this command sets it for every run; leave it out",
    ("cartpole", "-o", "optimizer.schedule_steps=99"): "-o optimizer.schedule_steps: this command sets it for",
    ("cartpole", "-o", "run.film_every=2"): "this command sets it for every run; leave it out",
    ("cartpole", "--method", "a3c", "--agent", "a3c"): "--method names agent, set and values: leave out --agent, "
    "--hyperparams and -o",
    ("cartpole", "--method", "a3c:nowhere"): "'nowhere'",
    ("cartpole", "--method", "a3c -o agent.nothing=1"): "agent.nothing",
    ("cartpole", "--method", "a3cc"): "unknown agent 'a3cc'",
    ("cartpole", "--resume", "mine", "--method", "a3c"): "--resume goes on with a study as it began; leave out env, "
    "--method",
    (): "name an environment, or a study to --resume",
}


def test_bad_input_is_one_line_and_status_2(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    TuningStudy("mine", None, Path("runs"), settings()).add(KEYS)
    for words, expected in REFUSED.items():
        named = () if {"--study", "--resume", "--storage"} & set(words) or not words else ("--study", "mine")
        assert command_line("tune", *words, *named) == 2, words
        out, err = capfd.readouterr()
        assert out == ""
        assert expected in err, words
        assert len(err.splitlines()) == 1, err
    assert not Path("runs").exists()


def test_a_file_that_hyperparams_would_take_for_a_set_is_refused_before_the_search(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("best", "best.json", "sets/best"):
        assert command_line("tune", "cartpole", "--steps", STEPS, "--yes", "--out", name) == 2
        assert capfd.readouterr().err == f"Error: --out {name}: must end in .yml or .yaml\n"
    assert not Path("runs").exists()
    assert not Path("studies").exists()


def test_a_search_begins_with_a_method(folder: Path) -> None:
    rest: dict[str, Any] = {"steps": 20_000, "seeds": 1, "episodes": 1, "sampler": "tpe", "pruner": "halving"}
    text = "wide=a3c:a3c-ppo -o network.hidden_sizes=[96] -o agent.gamma=0.9"
    made = make_settings("cartpole", None, None, [], method=text, **rest)
    overrides = ["network.hidden_sizes=[96]", "agent.gamma=0.9"]
    assert made == make_settings("cartpole", "a3c", "a3c-ppo", overrides, **rest)
    assert (made.agent, made.hyperparams, made.overrides) == ("a3c", "a3c-ppo", overrides)
    assert made.config["network"]["hidden_sizes"] == [96]
    assert "agent.gamma" not in made.space
    assert study_name(made, text) == "cartpole-wide"
    assert study_name(made, "a3c:a3c-ppo") == study_name(made) == "cartpole-a3c"
    on_ours = make_settings("cartpole", None, None, [], method="sb3-a2c@zoo", **rest)
    assert (on_ours.agent, on_ours.overrides) == ("sb3-a2c", ["env.stack=zoo"])


def test_a_study_that_may_not_be_looked_at(folder: Path) -> None:
    Path("studies/shut").mkdir(parents=True)
    with closed(Path("studies/shut")):
        [row] = studies.list_studies()
    assert "Permission denied" in row["fault"]


def test_a_study_of_others_and_a_locked_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    optuna.create_study(storage="sqlite:///theirs.db", study_name="theirs")
    optuna.load_study(storage="sqlite:///theirs.db", study_name="theirs").set_user_attr("a", 1)
    optuna.load_study(storage="sqlite:///theirs.db", study_name="theirs").ask()
    with pytest.raises(ZooError, match=r"'theirs' \(sqlite:///theirs\.db\) is not one"):
        TuningStudy("theirs", "sqlite:///theirs.db", Path("runs"), settings())
    with pytest.raises(ZooError, match=r"unknown study 'thiers'. Did you mean 'theirs'\?"):
        TuningStudy("thiers", "sqlite:///theirs.db", Path("runs"))
    TuningStudy("mine", None, Path("runs"), settings())
    monkeypatch.setattr(storages, "PATIENCE_S", 0.2)
    with (
        filelock.FileLock("studies/mine/journal.jsonl.lock"),
        pytest.raises(ZooError, match=r"studies/mine/journal\.jsonl is locked"),
    ):
        TuningStudy("mine", None, Path("runs"), settings(steps=960)).add(KEYS)


def test_a_database_of_another_program_stays_as_it_is(folder: Path) -> None:
    """A resume writes nothing, and makes no file: its name may be mistyped."""
    with closing(sqlite3.connect("app.db")) as app:
        app.execute("CREATE TABLE users (id INTEGER)")
        app.execute("CREATE TABLE alembic_version (version_num TEXT)")
    content = Path("app.db").read_bytes()
    with pytest.raises(ZooError, match=r"^--storage sqlite:///app\.db has tables of another program, and no studies"):
        TuningStudy("mine", "sqlite:///app.db", Path("runs"), settings())
    for name in ("app", "typo"):
        with pytest.raises(ZooError, match=rf"^there is no study in sqlite:///{name}\.db\. See: a3c-zoo list studies"):
            TuningStudy("mine", f"sqlite:///{name}.db", Path("runs"))
    assert Path("app.db").read_bytes() == content
    assert [path.name for path in folder.glob("*.db")] == ["app.db"]


def test_a_database_is_only_read_by_a_resume(folder: Path) -> None:
    url = "sqlite:///mine.db"
    with closing(sqlite3.connect("mine.db")) as database:  # as another process has it that makes the tables
        database.execute(str(CreateTable(BaseModel.metadata.tables["version_info"])))
    assert TuningStudy("mine", url, Path("runs"), settings()).add(KEYS) == 0
    content = Path("mine.db").read_bytes()
    assert len(TuningStudy("mine", url, Path("runs")).contenders()) == 1
    assert Path("mine.db").read_bytes() == content


def test_a_database_of_another_version_of_optuna_is_named(folder: Path) -> None:
    TuningStudy("mine", "sqlite:///mine.db", Path("runs"), settings())
    with closing(sqlite3.connect("mine.db")) as database:
        database.execute("UPDATE alembic_version SET version_num = 'v2.6.0.a'")
        database.commit()
    message = r"^--storage sqlite:///mine\.db has the tables of another version of Optuna\. .*: optuna storage upgrade"
    with pytest.raises(ZooError, match=message):
        TuningStudy("mine", "sqlite:///mine.db", Path("runs"))


def test_an_environment_without_a_budget_has_a_usual_one(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    made = settings(env="gym:Acrobot-v1", steps=None)
    assert (made.steps, made.rungs[-1]) == (USUAL_STEPS, USUAL_STEPS)
    assert settings(steps=None).steps == get_registry().env("cartpole").budget_steps
    announced = "gym:Acrobot-v1 has no budget of its own, so a whole run has 400000 steps (--steps)\n"
    assert announced in _announce(TuningStudy("mine", None, Path("runs"), made), 30)
    assert command_line("tune", "--help") == 0
    assert f"[default: ENV's budget, or {USUAL_STEPS}]" in " ".join(capfd.readouterr().out.split())


# The set


@pytest.mark.parametrize("start", [None, "nstep-classic"])
def test_the_set_makes_the_configuration_again(folder: Path, start: str | None) -> None:
    """Also where the default set, on which a file lies, has other values."""
    registry = get_registry()
    entries = registry.env("cartpole"), registry.agent("nstep")
    made = settings(agent="nstep", hyperparams=start, overrides=["optimizer.schedule=linear"], steps=2000)
    method = method_of(made, "x", {"agent.n_steps": "7", "optimizer.learning_rate": "0.01"})
    config = resolve_config(registry, *entries, hyperparams=start, overrides=method.overrides)
    Path("tuned.yml").write_text(yaml.dump(set_of(config)))
    again = resolve_config(registry, *entries, hyperparams="tuned.yml")
    for name in ("env", "agent", "network"):
        assert getattr(again, name) == getattr(config, name)
    assert config.optimizer is not None
    assert again.optimizer == config.optimizer.model_copy(update={"schedule_steps": None})
    assert again.run.workers == config.run.workers
    assert (again.agent.rollout_steps, again.optimizer and again.optimizer.learning_rate) == (7, 0.01)
    assert again.run.steps == config.optimizer.schedule_steps == 2000
    assert again.run.stop_when_solved
    assert "search" not in dump_config(again)


@pytest.mark.parametrize(
    ("start", "names"), [("nstep-classic", ["tuned", "start", "default"]), (None, ["tuned", "start"])]
)
def test_another_start_is_compared_beside_the_default_set(folder: Path, start: str | None, names: list[str]) -> None:
    made = settings(agent="nstep", hyperparams=start, steps=2000, overrides=["entropy_coefficient=0.5"])
    study, engine = TuningStudy("mine", None, Path("runs"), made), Inline()
    compared = _compared(study, 4, {"agent.gamma": "0.91"}, SEEDS.report, engine)
    methods = compared.methods
    assert [each.label for each in methods] == names
    assert not compared.found
    registry = get_registry()
    entries, given = (registry.env("cartpole"), registry.agent("nstep")), methods[-1].overrides
    config = resolve_config(registry, *entries, hyperparams=methods[-1].hyperparams, overrides=given)
    usual = resolve_config(registry, *entries, overrides=["entropy_coefficient=0.5"])
    assert config.agent == usual.agent


def test_methods_with_equal_values_are_compared_once(folder: Path) -> None:
    """A file with a search space alone is the default set; a trial of another start may come to it again."""
    made = settings(hyperparams="s.yml")
    gamma = f"{made.config['agent']['gamma']}"
    study = TuningStudy("one", None, Path("runs"), made)
    compared = _compared(study, 4, {"agent.gamma": gamma}, SEEDS.report, Inline())
    assert [each.label for each in compared.methods] == ["start"]
    (sentence,) = compared.found
    assert sentence == "Trial 4 has the values of the set that the search began with: it found none that is better"
    Path("other.yml").write_text(f"{SPACE}agent: {{gamma: 0.5}}\n")
    study = TuningStudy("two", None, Path("runs"), settings(hyperparams="other.yml"))
    compared = _compared(study, 4, {"agent.gamma": gamma}, SEEDS.report, Inline())
    assert [each.label for each in compared.methods] == ["tuned", "start"]
    assert compared.found == ("Trial 4 has the values of the default set",)


def test_a_default_set_that_does_not_take_the_same_options_is_not_compared(folder: Path) -> None:
    """The search begins with another network, whose key `-o` gives."""
    Path("mixed.yml").write_text(f"{SPACE}network: {{name: mixed}}\n")
    made = settings(hyperparams="mixed.yml", overrides=["network.hidden_size=32"])
    study = TuningStudy("mine", None, Path("runs"), made)
    compared = _compared(study, 4, {"agent.gamma": "0.91"}, SEEDS.report, Inline())
    assert [each.label for each in compared.methods] == ["tuned", "start"]
    (sentence,) = compared.found
    assert sentence.startswith("The default set is not compared, as it does not take the same options: -o network.hid")


def test_the_usual_number_of_final_seeds_can_show_something_among_three_methods() -> None:
    (seeds,) = (param.default for param in command.params if param.name == "final_seeds")
    assert seeds == seeds_needed(3)  # the returns of three pairs are the main question


# With trainings


#: What the engine `inline` has trained; and what it had when the study of the fixture had ended.
TRAINED, OF_THE_STUDY = "trained.txt", "trained-of-the-study.txt"


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a study that has ended, and the engine `inline`. Its report has no films (`test_report_films`)."""
    path = plugin_distribution(
        tmp_path_factory.mktemp("plugin"), "toy-tuning", "from tests.toys_tuning import zoo_engines\n"
    )
    folder = tmp_path_factory.mktemp("tuned")
    (folder / "s.yml").write_text(SPACE)
    with installed_here(path), pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        shares = {"agent.gamma": 0.7, "optimizer.learning_rate": 0.3}
        with pytest.MonkeyPatch.context() as told:
            told.setattr(TuningStudy, "importances", lambda _: shares)  # three scores, perhaps equal, tell none
            told.setattr("a3c_zoo.report.report_films.films_of", lambda _: None)
            for name in ("ALL_S", "LEAST_S", "MOST_S"):
                told.setattr(rehearsals, name, 0.0)  # the rehearsal trains one rollout of each set
            assert command_line(*COMMAND, "--trials", 3, "--out", "best.yml") == 0
        (folder / OF_THE_STUDY).write_bytes((folder / TRAINED).read_bytes())  # other tests train here, too
        yield folder


def test_a_command_searches_round_a_method(tuned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ALL_S", "LEAST_S", "MOST_S"):
        monkeypatch.setattr(rehearsals, name, 0.0)
    at = COMMAND.index("--hyperparams")
    words = [*COMMAND[:at], *COMMAND[at + 2 :], "--method", "narrow=a3c:s.yml -o network.hidden_sizes=[8]"]
    assert command_line(*words, "--engine-option", "stops_in=1") == 130
    study = TuningStudy("cartpole-narrow", None, Path("runs"))
    assert (study.settings.hyperparams, study.settings.overrides) == ("s.yml", ["network.hidden_sizes=[8]"])
    (trial,) = study.contenders()
    assert trial.texts.keys() == {"agent.gamma", "optimizer.learning_rate"}


@pytest.mark.usefixtures("plain_reports")
def test_a_program_searches_round_a_method(tuned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ALL_S", "LEAST_S", "MOST_S"):
        monkeypatch.setattr(rehearsals, name, 0.0)
    monkeypatch.setattr("a3c_zoo.report.report_films.films_of", lambda _: None)
    options: dict[str, Any] = {"steps": STEPS, "seeds": 1, "episodes": 1, "engine": "inline"}
    options |= {"trials": 1, "final_seeds": 1, "method": "small=a3c:s.yml -o network.hidden_sizes=[4]"}
    options["storage"] = Path("small.jsonl")
    result = a3c_zoo.tune("cartpole", **options)
    assert result is not None
    assert options["storage"].exists()
    assert (result["study"], result["trial"]) == ("cartpole-small", 0)
    assert "hidden_sizes: [4]" in Path(result["file"]).read_text()
    assert a3c_zoo.tune("cartpole", **options) == result  # it has ended
    for bad, line in (
        ({"sampler": "best"}, "sampler 'best': choose tpe, random, gp"),
        ({"pruner": "all"}, "pruner 'all': choose halving, none"),
        ({"trials": 0, "seeds": 0}, "trials and seeds: give 1 or more"),
        ({"agent": "a3c"}, "--method names agent, set and values: leave out --agent"),
        ({"study": "a/b"}, "--study 'a/b'"),
        ({"seeds": 1_001, "trials": 10_001}, "trials: give 10,000 or fewer; seeds: give 1,000 or fewer"),
        ({"timeout_s": 0}, "timeout_s=0: give more than 0, or None for no limit"),
        ({"steps": 0}, "steps=0: give 1 or more"),
    ):
        with pytest.raises(ZooError, match=f"^{re.escape(line)}"):
            a3c_zoo.tune("cartpole", **{**options, **bad})


def test_a_search_needs_the_name_of_an_environment() -> None:
    given: Any = a3c_zoo.EnvEntry("maze", "m:f")
    with pytest.raises(ZooError, match=r"is no name of an environment, .* has one: 'module:Name'$"):
        a3c_zoo.tune(given, trials=1)


def trained(file: str = TRAINED) -> Counter[str]:
    return Counter(Path(file).read_text().splitlines())


def complete() -> list[Contender]:
    """The trials of the fixture's study that reached the last rung: the first one, and those that it did not beat."""
    found = TuningStudy("cartpole-a3c", None, Path("runs")).contenders()
    return [each for each in found if each.state == "COMPLETE"]


def test_trials_race_and_nothing_is_trained_twice(tuned: Path) -> None:
    """Three trials train a rollout; those that are the best so far go on, in the same directory."""
    study = TuningStudy("cartpole-a3c", None, Path("runs"))
    found = study.contenders()
    assert found[0].state == "COMPLETE"
    assert all(each.state == "PRUNED" for each in found if each not in complete())
    for each in found[1:]:
        before = max(earlier.scores[160] for earlier in found[: each.number])
        if each.scores[160] != before:  # the numbers of equal ones decide
            assert (each.state == "COMPLETE") == (each.scores[160] > before)
    lines = [line for line in trained(OF_THE_STUDY) if "-t0" in line]
    begun = [f"cartpole-a3c-t00{number}-s1000001 160 begins" for number in range(3)]
    resumed = [f"cartpole-a3c-t00{each.number}-s1000001 {STEPS} resumes" for each in complete()]
    assert sorted(lines) == sorted([*begun, *resumed])
    assert set(trained(OF_THE_STUDY).values()) == {1}
    for each in complete():
        run = Path(f"runs/cartpole-a3c-t00{each.number}-s1000001")
        begin, first, last = checkpoint_steps(RunDirectory(run))
        assert (begin, first) == (0, 160)
        assert STEPS <= last < STEPS + 160  # a rollout is trained to its end
        (played,) = [row for row in evaluations_of(run) if row.steps == last and not row.evaluation.deterministic]
        assert each.scores[STEPS] == played.evaluation.mean_return


def test_finalists_and_the_comparison_have_seeds_of_their_own(tuned: Path) -> None:
    """The second training of a trial is on the next rung, in the same run."""
    lines = trained(OF_THE_STUDY)
    seeds = Counter(re.search(r"-(t\d+|trial|tuned|start).*-s(\d+)", line)[2] for line in lines)  # type: ignore[index]
    first = TuningStudy("cartpole-a3c", None, Path("runs")).attribute(RESULT)["first_seed"]
    mine = FinaleSeeds.of(first, 1)
    expected = dict.fromkeys(map(str, mine.choice), 3) | {str(mine.report[0]): 2}
    assert seeds == expected | {"1000001": 3 + len(complete())}


def test_the_set_says_how_it_was_found_and_trains(tuned: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = Path("best.yml").read_text()
    assert text.startswith(
        "# yaml-language-server: $schema=a3c-zoo.schema.json\n# cartpole with a3c, tuned by a3c-zoo "
    )
    schema = json.loads(Path("a3c-zoo.schema.json").read_text())
    assert not list(jsonschema.Draft202012Validator(schema).iter_errors(yaml.parse_document(text.encode(), "x").data))
    assert "# Search: 3 trials, seed 1000001 in each" in text
    assert f": 3 after 160 and {len(complete())} after 480 steps\n" in text
    study = TuningStudy("cartpole-a3c", None, Path("runs"))
    first = study.attribute(RESULT)["first_seed"]
    assert f"# Choice: seeds {first} to {first + 2}, 480 steps: trial " in text
    assert "# It was not shown that this set is better than start\n" in text
    assert "# Fewer than 5 seeds (tuned: 1, start: 1)" in text
    assert "# Command: a3c-zoo tune cartpole --agent a3c --trials 3 --steps 480 --seeds 1 --final-seeds 1" in text
    assert command_line("show", "hyperparams", "cartpole", "--hyperparams", "./best.yml") == 0
    assert "best.yml:" in capfd.readouterr().out


def test_the_cost_has_all_runs_of_the_choice() -> None:
    """Two seeds; scores after 100 and 300 steps, after 100, and none. Each of the two finalists has 3 runs."""
    settings: Any = SimpleNamespace(seeds=2, steps=300)
    contenders = [
        Contender(0, {"lr": "1"}, {100: 1.0, 300: 2.0}, "COMPLETE", True),
        Contender(1, {"lr": "2"}, {100: 0.5}, "PRUNED", True),
        Contender(2, {"lr": "3"}, {}, "FAIL", True),
    ]
    assert finale._cost(settings, contenders) == {"trials": 3, "runs": 4 + 6, "steps": 2 * 400 + 6 * 300}


def test_the_set_says_what_it_cost_as_data_and_the_report_has_it(tuned: Path) -> None:
    """Three trials of one seed, 160 or `STEPS` steps each; 3 finalists, 3 choice runs each."""
    steps = len(complete()) * STEPS + (3 - len(complete())) * 160 + 9 * STEPS
    cost = {"trials": 3, "runs": 3 + 9, "steps": steps}
    assert yaml.read_document(Path("best.yml"), "best.yml").data["tuning"] == cost
    registry = get_registry()
    assert tuning_cost(registry, registry.env("cartpole"), registry.agent("a3c"), "./best.yml") == cost
    by_hand = "by hand, on seeds from 50 on; the trials were not counted"
    assert tuning_cost(registry, registry.env("cartpole"), registry.agent("a3c"), None) == by_hand
    row = f"| what tuning the set cost | 3 trials, 12 runs, {steps:,} steps | – |"
    assert row in Path("studies/cartpole-a3c/report/report.md").read_text()
    faults = ("3", "{trials: 3}", "{trials: 3, runs: -1, steps: 5}", "{trials: 3, runs: 1, steps: 5, hours: 2}", '""')
    for bad in faults:
        Path("bad.yml").write_text(f"tuning: {bad}\n")
        with pytest.raises(ConfigError, match=r"bad\.yml:1 tuning: .*trials, runs, steps"):
            resolve_config(registry, registry.env("cartpole"), registry.agent("a3c"), hyperparams="./bad.yml")


@pytest.mark.slow
def test_a_chosen_trial_that_is_the_start_is_said_in_words(tuned: Path, capfd: pytest.CaptureFixture[str]) -> None:
    Path("same.yml").write_text("search:\n  agent.n_steps: {choice: [5]}\n")
    words = [*COMMAND, "--trials", 1, "--study", "same", "--out", "same-best.yml"]
    words[words.index("s.yml")] = "same.yml"
    assert command_line(*words) == 0
    sentence = "has the values of the set that the search began with: it found none that is better"
    assert sentence in capfd.readouterr().out
    assert sentence in Path("same-best.yml").read_text()
    page = Path("studies/same/report/report.md").read_text()
    assert page.startswith("# start on cartpole")
    assert sentence in page


def test_the_report_has_the_search_and_both_methods(tuned: Path) -> None:
    text = Path("studies/cartpole-a3c/report/report.md").read_text()
    assert text.startswith("# tuned and start on cartpole")
    assert "\n![The search](search.png)\n\nThe best trials; marked: the chosen one\n" in text
    assert Path("studies/cartpole-a3c/report/search.png").read_bytes().startswith(b"\x89PNG")
    assert "1 trials" not in text + _announce(TuningStudy("cartpole-a3c", None, Path("runs")), 1)
    assert "With few trials this is only a hint.\n" in text.partition("## The search")[2]
    assert "| trial | steps | return | agent.gamma | optimizer.learning\\_rate |" in text
    assert (
        "search: mean return of the seeds of each trial" in Path("studies/cartpole-a3c/report/report.html").read_text()
    )


def test_a_study_that_has_ended_only_tells(tuned: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = trained()
    assert command_line("tune", "--resume", "cartpole-a3c", "--trials", 3, "--engine", "inline", "--json", "--yes") == 0
    told = json.loads(capfd.readouterr().out)
    assert told["file"] == "best.yml"
    assert told["report"] == "studies/cartpole-a3c/report"
    assert told["not_shown_better_than"] == ["start"]  # one seed shows nothing
    assert told["values"].keys() == {"agent.gamma", "optimizer.learning_rate"}
    assert trained() == before


def test_a_study_that_has_ended_refuses_another_comparison(tuned: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The same command again only tells, whatever the default of an option that it does not give."""
    at = COMMAND.index("--final-seeds")
    for again in ([*COMMAND, "--out", f"{Path().absolute()}/best.yml"], [*COMMAND[:at], *COMMAND[at + 2 :]]):
        assert command_line(*again, "--trials", 3) == 0
    capfd.readouterr()
    for words, given in {
        ("--out", "new.yml"): "--out new.yml",
        ("--final-seeds", 2): "--final-seeds 2",
        ("--final-seeds", 2, "--out", "new.yml"): "--final-seeds 2 and --out new.yml",
    }.items():
        assert command_line("tune", "--resume", "cartpole-a3c", *words, "--engine", "inline") == 2
        out, err = capfd.readouterr()
        assert out == ""
        assert len(err.splitlines()) == 1
        assert f"study 'cartpole-a3c' has ended, and its set is in best.yml. Too late: {given}. Copy that" in err
        assert "or give --trials 4 or more, or another --study" in err
    assert not Path("new.yml").exists()


def test_studies_are_listed(tuned: Path, capfd: pytest.CaptureFixture[str]) -> None:
    Path("studies/broken").mkdir(exist_ok=True)
    Path("studies/broken/journal.jsonl").write_text("hello\nworld\n")
    assert command_line("list", "studies", "--json") == 0
    rows = {each["name"]: each for each in json.loads(capfd.readouterr().out)}
    assert rows["broken"]["state"] == "damaged"
    assert "is no journal of Optuna" in rows["broken"]["fault"]
    mine = rows["cartpole-a3c"]
    expected = ("cartpole", "a3c", 3, STEPS, "ended", "studies/cartpole-a3c/journal.jsonl")
    assert tuple(mine[key] for key in ("env", "agent", "trials", "steps", "state", "storage")) == expected
    assert command_line("list", "studies") == 0
    assert "cartpole-a3c" in capfd.readouterr().out


def test_studies_in_other_storages_are_listed_without_a_password(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    url = "sqlite:///tuning.db?password=secret"
    monkeypatch.setattr(studies, "open_storage", lambda storage, *_, **__: optuna.storages.InMemoryStorage())
    TuningStudy("mine", url, Path("runs"), settings())
    TuningStudy("mine", "postgresql://me:secret@host/x", Path("runs"), settings())
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    TuningStudy("mine", "kept/a.jsonl", Path("runs"), settings()).add(KEYS)
    TuningStudy("mine", "kept/a.jsonl", Path("runs"), settings())
    TuningStudy("other", None, Path("runs"), settings())
    TuningStudy("other", "./studies/other/journal.jsonl", Path("runs"), settings())  # its own
    assert command_line("list", "studies", "--json") == 0
    keys = ("storage", "env", "trials", "best", "state")
    assert [tuple(row[key] for key in keys) for row in json.loads(capfd.readouterr().out)] == [
        ("sqlite:///tuning.db", "cartpole", None, None, "elsewhere"),
        ("postgresql://me:***@host/x", "cartpole", None, None, "elsewhere"),
        ("kept/a.jsonl", "cartpole", 1, None, "open"),  # a trial without a score is no best one
        ("studies/other/journal.jsonl", "cartpole", 0, None, "open"),
    ]
    file = Path("studies/mine/storages.json")
    assert "secret" not in file.read_text()
    for damaged in ("[", '{"sqlite:///a.db": "x"}'):
        file.write_text(damaged)
        assert command_line("list", "studies") == 0
        assert "mine: studies/mine/storages.json is damaged" in capfd.readouterr().out
    with closed(file):
        assert command_line("list", "studies") == 0
    assert "cannot read studies/mine/storages.json" in capfd.readouterr().out


def test_the_next_command_has_what_a_set_leaves_out(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Without its wrapper, a set trains on another environment without a word."""
    Path("walls.py").write_text("import gymnasium\nclass Walls(gymnasium.Wrapper): pass\n")
    given = ["env.wrappers=[walls:Walls]", "agent.gamma=0.9", "env.num_envs=2"]
    study = TuningStudy("mine", None, Path("runs"), settings(overrides=given))
    options = options_beside_set(study.settings)
    assert options == ["env.wrappers=['walls:Walls']"]
    told = {"study": "mine", "env": "cartpole", "agent": "a3c", "trial": 1, "values": {}, "file": "my sets/best.yml"}
    told |= {"report": "out", "verdict": [], "failed": [], "options": options, "not_shown_better_than": []}
    assert _tell(study, told, as_json=False) == 0
    last = capfd.readouterr().out.splitlines()[-1]
    assert last.startswith("next: a3c-zoo train cartpole --agent a3c --hyperparams 'my sets/best.yml' -o ")
    assert shlex.split(last)[-1] == options[0]


def test_the_next_command_has_what_a_file_says_about_the_environment(folder: Path) -> None:
    """A set leaves it out, and trains on another environment without a word."""
    about_env = "env: {stack: zoo, kwargs: {sutton_barto_reward: true, x_threshold: '3, [a]: b'}}\n"
    Path("mine.yml").write_text(f"{about_env}agent: {{n_steps: 16}}\n{SPACE}")
    registry = get_registry()
    entries = registry.env("gym:CartPole-v1"), registry.agent("nstep")
    for given in ([], ["env.kwargs.x_threshold=null"]):
        made = settings(env="gym:CartPole-v1", agent="nstep", hyperparams="mine.yml", overrides=given)
        options = options_beside_set(made)
        assert [text.partition("=")[0] for text in options] == ["env.stack", "env.kwargs"]
        config = studies.resolve_settings(made)
        Path("tuned.yml").write_text(yaml.dump(set_of(config)))
        again = resolve_config(registry, *entries, hyperparams="tuned.yml", overrides=options)
        assert (again.env, again.agent) == (config.env, config.agent)
        default = resolve_config(registry, *entries, overrides=finale.default_of(made, "default").overrides)
        assert default.env.kwargs == config.env.kwargs


def test_a_set_that_was_not_shown_to_be_better_is_not_offered_without_a_word(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    study = TuningStudy("mine", None, Path("runs"), settings())
    told: dict[str, Any] = {"study": "mine", "env": "cartpole", "agent": "a3c", "trial": 1, "values": {}}
    told |= {"file": "best.yml", "report": "out", "verdict": [], "failed": [], "options": []}
    for others, names in {(): "", ("start",): "start", ("start", "default"): "start and default"}.items():
        assert _tell(study, told | {"not_shown_better_than": others}, as_json=False) == 0
        *_, before, last = capfd.readouterr().out.splitlines()
        assert last == "next: a3c-zoo train cartpole --agent a3c --hyperparams best.yml"
        sentence = f"It was not shown that this set is better than {names}. To train with it all the same:"
        assert (before == sentence) == bool(names)


@pytest.mark.parametrize(
    ("holds", "measure", "names", "chance", "is_shown"),
    [
        (True, "final_return", ("tuned", "start"), 0.9, True),
        (True, "final_return", ("start", "tuned"), 0.1, True),
        (True, "final_return", ("tuned", "start"), 0.1, False),
        (True, "final_return", ("start", "tuned"), 0.9, False),
        (False, "final_return", ("tuned", "start"), 0.9, False),
        (True, "mean_return", ("tuned", "start"), 0.9, False),
        (True, "final_return", ("tuned", "default"), 0.9, False),
    ],
)
def test_what_a_report_shows(holds: bool, measure: str, names: tuple[str, str], chance: float, is_shown: bool) -> None:
    pair: dict[str, Any] = {"method": names[0], "other": names[1]}
    claims = [pair | {"measure": measure, "holds": holds}]
    env = {"against": [pair | {"final_return": {"value": chance}}]}
    assert is_shown_better({"claims": claims, "environments": {"cartpole": env}}, "tuned", "start") == is_shown


def test_an_existing_file_is_not_overwritten(tuned: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert command_line(*COMMAND, "--study", "other", "--out", "best.yml") == 2
    assert "--out best.yml exists already, and is not overwritten" in capfd.readouterr().err
    assert command_line(*COMMAND, "--study", "other", "--out", "best.yml/second.yml") == 2
    assert "best.yml is no directory in which you may write" in capfd.readouterr().err


def test_ctrl_c_keeps_trials_and_says_how_to_go_on(tuned: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The third training is stopped. The trial that it belongs to goes on with the same values."""
    stopped = ["--study", "stopped", "--engine-option"]
    assert command_line(*COMMAND, "--trials", 2, *stopped, "stops_in=3") == 130
    assert "Stopped. All trials are kept; the same command goes on." in capfd.readouterr().err
    before = TuningStudy("stopped", None, Path("runs")).contenders()
    race("stopped", trials=2)
    after = TuningStudy("stopped", None, Path("runs")).contenders()
    assert [each.texts for each in after] == [each.texts for each in before]
    assert [len(each.scores) for each in after] in ([2, 1], [2, 2])
    assert trained()["stopped-t000-s1000001 160 begins"] == 1


def test_a_resume_has_the_number_of_trials_that_the_study_had(tuned: Path, capfd: pytest.CaptureFixture[str]) -> None:
    stopped = ["--engine", "inline", "--engine-option", "stops_in=1"]
    assert command_line(*COMMAND, "--trials", 2, "--timeout", "1h", "--study", "kept", *stopped) == 130
    for words, trials in ((), 2), (("--trials", 4), 4), ((), 4):
        capfd.readouterr()
        assert command_line("tune", "--resume", "kept", *words, *stopped, "--yes") == 130
        assert f"a3c on cartpole: {trials} trials, 1 seed each" in capfd.readouterr().out
        kept = TuningStudy("kept", None, Path("runs")).attribute(OPTIONS)
        assert kept == {"trials": trials, "timeout": 3600.0, "final_seeds": 1}


def test_a_search_without_a_race_stays_one_when_it_goes_on(tuned: Path) -> None:
    stopped = ["--engine", "inline", "--engine-option", "stops_in=1"]
    words = ["--pruner", "none", "--sampler", "random", "--study", "whole"]
    for line in ([*COMMAND, *words], ["tune", "--resume", "whole", "--yes"]):
        assert command_line(*line, *stopped) == 130
        made = TuningStudy("whole", None, Path("runs")).settings
        assert (made.rungs, made.sampler) == ([STEPS], "random")
    assert trained()[f"whole-t000-s1000001 {STEPS} begins"] == 2  # each was stopped in it


def race(
    name: str,
    trials: int,
    engine: Inline | None = None,
    watcher: TuningWatcher | None = None,
    storage: str | None = None,
) -> TuningStudy:
    """The race alone, as the command has it, with one seed."""
    study = TuningStudy(name, storage, Path("runs"), settings(hyperparams="s.yml"))
    keys = tuple(SearchedKey(key, *next(iter(each.items()))) for key, each in study.settings.space.items())
    Race(study, keys, trials, time.monotonic() + LIMIT_S, engine or Inline(), watcher or TuningWatcher()).run()
    return study


def test_a_run_of_another_study_with_the_same_name_is_left_as_it_is(tuned: Path) -> None:
    """The journal is deleted and the study begins again; then its values are others."""
    race("twin", trials=1)
    first = Path("runs/twin-t000-s1000001")
    config = (first / "config.yml").read_bytes()
    Path("studies/twin/journal.jsonl").unlink()
    study = TuningStudy("twin", None, Path("runs"), settings(hyperparams="s.yml"))
    number = study.add([SearchedKey("agent.gamma", "choice", (0.5,))])
    race("twin", trials=1)
    assert (first / "config.yml").read_bytes() == config
    assert "gamma: 0.5" in Path("runs/twin-t000-s1000001-2/config.yml").read_text()
    assert study.run_of(number, 1_000_001) == "twin-t000-s1000001-2"
    lines = {line: count for line, count in trained().items() if line.startswith("twin-t000-s1000001-2 ")}
    assert lines == {f"twin-t000-s1000001-2 {text}": 1 for text in ("160 begins", f"{STEPS} resumes")}


def test_trials_that_cannot_be_trained_end_the_race(tuned: Path) -> None:
    with pytest.raises(ZooError, match=r"3 trials in a row .*agent\.n_steps: 0 "):
        race("faulty", trials=9, engine=Inline(InlineConfig(faults=True)))
    assert [each.state for each in TuningStudy("faulty", None, Path("runs")).contenders()] == ["FAIL"] * 3


@pytest.mark.parametrize("timeout_s", [1e-9, pytest.param(10.0, marks=pytest.mark.slow)])
def test_a_time_limit_too_short_for_one_trial(tuned: Path, timeout_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A training takes an hour of this clock, a look at it a second. The second call has a score in time."""
    now_s, name = 0.0, f"short-{timeout_s:g}"

    class Slow(Inline):
        def train(self, job: TrainingJob, tell: Callable[[JobProgress | None], None]) -> str | None:
            nonlocal now_s
            now_s += 3600
            return super().train(job, tell)

    def look() -> float:
        nonlocal now_s
        now_s += 1
        return now_s

    clock = SimpleNamespace(monotonic=look, sleep=time.sleep)
    monkeypatch.setattr(racing, "time", clock)
    monkeypatch.setattr(tuning, "time", clock)
    study = TuningStudy(name, None, Path("runs"), settings(hyperparams="s.yml"))
    words: dict[str, Any] = {"trials": 2, "timeout_s": timeout_s, "final_seeds": 1, "out": None}
    took = r", which took 3,\d+.0 s" * (timeout_s == 10)
    with pytest.raises(ZooError, match=rf"--timeout {timeout_s:g}s: too short for one trial{took};"):
        tune(study, Slow(), TuningWatcher(), **words)
    assert [len(each.scores) for each in study.contenders()] == [1] * (timeout_s == 10)
    assert all(each.state == "RUNNING" for each in study.contenders())
    assert not Path("studies", name, "report").exists()
    if timeout_s == 10:
        assert tune(study, Slow(), TuningWatcher(), **words) is not None


def test_more_time_goes_on_with_a_search_that_the_time_has_ended(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A training takes an hour of this clock, and nothing is trained. Each trial is better than those before.

    Each search has a finale with seeds of its own.
    """
    clock = SimpleNamespace(now_s=0.0, sleep=time.sleep)
    clock.monotonic = lambda: clock.now_s

    def carry_out(self: Race, advances: list[Advance], locks: ExitStack) -> None:
        for advance in advances:
            clock.now_s += 3600
            self.study.report(advance.number, advance.rung, {1: float(advance.number)})

    for module in (racing, tuning):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(Race, "_carry_out", carry_out)
    finales = []

    def play(study: TuningStudy, seeds: FinaleSeeds, *_: object) -> dict[str, Any]:
        finales.append(seeds)
        return ENDED | {"choice": {str(each.number): each.rank[0] for each in study.contenders()}}

    monkeypatch.setattr(tuning, "play_finale", play)
    study = TuningStudy("timed", None, Path("runs"), settings(hyperparams="s.yml"))

    def ended(hours: float | None, trials: int = 12) -> tuple[int, list[int]]:
        timeout_s = None if hours is None else hours * 3600
        found = tune(study, Inline(), TuningWatcher(), trials=trials, timeout_s=timeout_s, final_seeds=1, out=None)
        assert found is not None
        return found["trials"], [*found["choice"].values()]

    assert ended(3) == (2, [STEPS, 160])  # the time cuts trial 1 short
    assert ended(3) == ended(2) == ended(3, trials=8) == (2, [STEPS, 160])  # that has had its time
    assert ended(2.5, trials=13) == (4, [STEPS, 160, STEPS, 160])  # trial 1 has ended
    count, steps = ended(None)
    assert count == len(steps) == 12
    assert steps[4:] == [STEPS] * 8
    assert ended(None) == ended(99) == (count, steps)
    used = [seed for each in finales for seed in (*each.choice, *each.report)]
    assert len(set(used)) == len(used) == 3 * (CHOICE_RUNS + 1)


def test_a_finale_that_was_stopped_goes_on_with_its_seeds(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So its finished runs are used again. Also if another process has ended the search meanwhile."""
    study = TuningStudy("mine", None, Path("runs"), settings(hyperparams="s.yml", pruner="none"))
    study.report(study.add(KEYS[:1]), STEPS, {1: 5.0})
    seen: list[FinaleSeeds] = []

    def stop(study: TuningStudy, seeds: FinaleSeeds, *_: object) -> dict[str, Any]:
        seen.append(seeds)
        raise KeyboardInterrupt

    monkeypatch.setattr(tuning, "play_finale", stop)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            tune(study, Inline(), TuningWatcher(), trials=1, timeout_s=None, final_seeds=4, out=None)
    assert seen[0] == seen[1]
    assert len(seen[0].report) == 4
    first = study.attribute(SEARCHED)["first_seed"]
    assert tuning._keep_search(study, 1, None, False)["first_seed"] == first == seen[0].choice[0]


def test_a_search_that_has_ended_is_not_made_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = TuningStudy("old", None, Path("runs"), settings(hyperparams="s.yml"))
    searched = {"trials": 30, "wanted": 30, "timeout": None, "first_seed": 12_000_001}
    study.keep(SEARCHED, searched)
    monkeypatch.setattr(tuning, "play_finale", lambda *_: {})
    ended = tune(study, Inline(), TuningWatcher(), trials=30, timeout_s=None, final_seeds=1, out=None)
    assert ended == searched | {"final_seeds": 1}


#: What a study keeps when it has ended.
ENDED: dict[str, Any] = {"study": "cartpole-a3c", "env": "cartpole", "agent": "a3c", "trial": 0, "values": {}}
ENDED |= {"choice": {}, "file": "best.yml", "options": [], "report": "out", "verdict": [], "failed": []}
ENDED |= {"not_shown_better_than": [], "trials": 4, "wanted": 4, "timeout": 900.0, "first_seed": 12_000_001}
ENDED |= {"final_seeds": 6}


def test_more_time_for_trials_that_have_all_ended_is_refused(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    study = TuningStudy("cartpole-a3c", None, Path("runs"), settings(hyperparams="s.yml"))
    study.keep(RESULT, ENDED)
    words = ["tune", "cartpole", "--steps", STEPS, "--hyperparams", "s.yml", "--seeds", 1, "--episodes", 1]
    assert command_line(*words, "--trials", 4, "--timeout", "1h") == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.endswith(
        "has ended, and its set is in best.yml. Too late: --timeout 3600s. Copy that file, or give --trials 5 or more, "
        "or another --study"
    )


def test_python_says_what_comes_too_late_for_a_study_that_has_ended(folder: Path) -> None:
    study = TuningStudy("cartpole-a3c", None, Path("runs"), settings(hyperparams="s.yml"))
    study.keep(RESULT, ENDED)
    again = partial(a3c_zoo.tune, "cartpole", steps=STEPS, hyperparams="s.yml", seeds=1, episodes=1, trials=4)
    assert again() == again(final_seeds=6, out="best.yml") == ENDED
    with pytest.raises(ZooError) as too_late:
        again(final_seeds=2, timeout_s=3600, out="new.yml")
    assert str(too_late.value).endswith(
        "Too late: timeout_s=3600, final_seeds=2 and out=new.yml. Copy that file, or give trials=5 or more, "
        "or another study"
    )


def test_python_takes_what_train_takes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[tuple[TuningStudy, dict[str, Any]]] = []
    monkeypatch.setattr(tuning, "tune", lambda study, *_, **options: begun.append((study, options)))
    numbers: dict[str, Any] = {"steps": np.int64(STEPS), "seeds": np.int64(1), "episodes": np.int64(1)}
    begin: Callable[..., Any] = partial(a3c_zoo.tune, "cartpole", **numbers)
    given: list[Any] = [{"agent.gamma": 0.5}, "agent.gamma=0.5", ["agent.gamma=0.5"]]
    for overrides in given:
        begin(hyperparams=Path("s.yml"), overrides=overrides, trials=np.int64(3))
    for study, options in begun:
        assert (study.settings.hyperparams, study.settings.overrides) == ("s.yml", ["agent.gamma=0.5"])
        assert study.settings.config["agent"]["gamma"] == 0.5
        assert (study.settings.steps, options["trials"]) == (STEPS, 3)
    assert len(begun) == len(given)
    bad: list[tuple[dict[str, Any], str]] = [
        ({"trials": "3"}, "trials='3': give a whole number"),
        ({"trials": 2.5}, "trials=2.5: give a whole number"),
        ({"final_seeds": 2.5}, "final_seeds=2.5: give a whole number"),
        ({"steps": 1e5}, "steps=100000.0: give a whole number"),
        ({"timeout_s": "15m"}, "timeout_s='15m': give more than 0, or None for no limit, in seconds"),
        ({"engine_options": "slots=1"}, "engine 'local' --engine-option slots: unknown key."),
    ]
    for arguments, line in bad:
        with pytest.raises(ZooError, match=f"^{re.escape(line)}$"):
            begin(**arguments, study="second")
    assert not Path("studies/second").exists()


def test_what_comes_too_late_after_a_search_that_the_time_ended(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    study = TuningStudy("cartpole-a3c", None, Path("runs"), settings(hyperparams="s.yml"))
    study.keep(RESULT, ENDED | {"wanted": 10, "timeout": 60.0})
    words = ["tune", "cartpole", "--steps", STEPS, "--hyperparams", "s.yml", "--seeds", 1, "--episodes", 1]
    assert command_line(*words, "--trials", 5, "--timeout", "60s", "--out", "other.yml") == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.endswith("Copy that file, or give --trials 11 or more, a longer --timeout, or another --study")


def test_a_trial_of_another_process_is_left_to_it(tuned: Path) -> None:
    study = TuningStudy("shared", None, Path("runs"), settings(hyperparams="s.yml"))
    number = study.add(KEYS[:1])
    lock = study.take(number)
    assert lock is not None
    assert TuningStudy("shared", None, Path("runs"), study.settings).take(number) is None
    assert tune(study, Inline(), TuningWatcher(), trials=1, timeout_s=None, final_seeds=1, out=None) is None
    assert study.contenders()[number].state == "RUNNING"
    lock.release()


def test_two_studies_of_one_name_take_their_own_trials(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = TuningStudy("same", "mine.jsonl", Path("runs"), settings(hyperparams="s.yml"))
    other = TuningStudy("same", "other.jsonl", Path("runs"), mine.settings)
    assert [study.add(KEYS[:1]) for study in (mine, other)] == [0, 0]
    locks = [study.take(0) for study in (mine, other)]
    assert None not in locks
    monkeypatch.chdir(folder / "runs")
    assert TuningStudy("same", "../mine.jsonl", Path()).take(0) is None


class InlineBeside(Inline):
    """Its first training waits until another study of the same name has trained its trial."""

    def train(self, job: TrainingJob, tell: Callable[[JobProgress | None], None]) -> str | None:
        if not self._count:
            race("same", trials=1, storage="other.jsonl")
        return super().train(job, tell)


def test_two_studies_of_one_name_train_at_once(folder: Path) -> None:
    """The first one has chosen the name of its run, but has not made it yet."""
    mine = race("same", trials=1, storage="mine.jsonl", engine=InlineBeside())
    other = TuningStudy("same", "other.jsonl", Path("runs"))
    assert [study.contenders()[0].state for study in (mine, other)] == ["COMPLETE", "COMPLETE"]
    assert [study.run_of(0, 1_000_001) for study in (mine, other)] == ["same-t000-s1000001", "same-t000-s1000001-2"]


def test_a_study_with_trials_of_another_place_says_which_and_can_be_ended(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The folder of runs was moved, or the container has another name: nobody can go on with these trials here."""
    study = TuningStudy("moved", None, Path("old"), settings(hyperparams="s.yml"))
    here, place = TuningStudy("moved", None, Path("runs")), f"{platform.node()}:{folder.resolve() / 'old'}"
    for number in range(2):
        study.add(KEYS[:1])
        study.report(number, 160, {1: 5.0 + number})
    words = ["tune", "--resume", "moved", "--trials", 2, "--yes"]
    assert command_line(*words) == 0
    first, then = capfd.readouterr().err.splitlines()
    assert first == (
        f"Nothing is left for this process. The study has not ended: it waits for trials 0 and 1 of {place}, "
        "and perhaps for trials that other processes train here."
    )
    assert then.endswith("If that place is gone, see docs/how-to/tune.md.")
    here.end(0)
    assert command_line(*words) == 0
    assert f"it waits for trial 1 of {place}, and" in capfd.readouterr().err
    assert command_line(*words, "--json") == 0
    assert json.loads(capfd.readouterr().out) == {"study": "moved", "trial": None}
    here.end(1)
    number = here.add(KEYS[:1])
    lock = TuningStudy("moved", None, Path("runs")).take(number)
    assert command_line(*words) == 0
    assert "Other processes still train trials" in capfd.readouterr().err
    assert lock is not None
    lock.release()
    here.end(number)
    monkeypatch.setattr(tuning, "play_finale", lambda study, *_: {"scores": [each.rank for each in study.contenders()]})
    ended = tune(here, Inline(), TuningWatcher(), trials=2, timeout_s=None, final_seeds=1, out=None)
    assert ended is not None
    assert ended["scores"] == [(160, 5.0), (160, 6.0), (0, 0.0)]  # they are kept


def test_nobody_to_ask_is_told_what_is_left(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """At 10 steps/s, with runs of 5 s beside that: 3 trials on 160 steps, one goes on for 320.

    Their evaluations take 2 + 2 · 500 · 1 ms each, those of the 3 · 3 + 2 · 1 runs of 480 steps 2 + 2 · 500 · 5 ms.
    """
    found = {("cartpole", "a3c"): Rehearsal(10.0, 5.0, 1000, 0.001, 500)}
    monkeypatch.setattr(tuning, "rehearse", lambda *_: found)
    monkeypatch.setattr(rehearsals, "available_cores", lambda: 2)
    asked = COMMAND[: COMMAND.index("--engine")]  # nor with --yes; nothing is trained
    assert command_line(*asked, "--trials", 3) == 2
    out, err = capfd.readouterr()
    assert err == (
        "Error: the trials of study 'cartpole-a3c' must be trained, and there is no terminal to ask: give --yes\n"
    )
    # 3 · (21 + 3) + (37 + 3) + 11 · (53 + 7) s
    told = "all trials, the choice and the comparison, with evaluations: about 13 min, if an episode lasts 500 steps"
    assert out.splitlines()[-1] == told
    assert not Path("runs").exists()
    assert command_line(*asked, "--trials", 3, "--timeout", "30s") == 2  # 30 + 660 s
    assert "with evaluations: about 12 min, if" in capfd.readouterr().out
    study = TuningStudy("cartpole-a3c", None, Path("runs"))
    study.report(study.add(KEYS[:1]), 160, {1: 5.0})
    study.report(study.add(KEYS[:1]), 160, {1: 5.0})
    assert command_line(*asked, "--trials", 3, "--json") == 2  # 24 + 40 + 660 s
    told = "what is left of the trials, the choice and the comparison, with evaluations: about 12 min, if"
    assert told in capfd.readouterr().err


def test_a_trial_is_planned_without_a_look_at_other_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("a3c_zoo.comparison.known_runs.run_paths", lambda _: 1 / 0)
    study = TuningStudy("mine", None, Path("runs"), settings())
    race = Race(study, KEYS[:1], 1, float("inf"), Inline(), TuningWatcher())
    with ExitStack() as locks:
        assert list(race._jobs(Advance(study.add(KEYS[:1]), 160), locks)) == [TUNING_SEEDS[0]]


def test_an_engine_with_many_slots_shortens_no_evaluation(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As above: 37 s for the longest of 4 trials, 583 / 10 s for 11 runs, and 4 · 3 + 11 · 7 s on this machine."""
    found = {("cartpole", "a3c"): Rehearsal(10.0, 5.0, 1000, 0.001, 500)}
    monkeypatch.setattr(tuning, "rehearse", lambda *_: found)
    monkeypatch.setattr(rehearsals, "available_cores", lambda: 2)
    monkeypatch.setattr(Inline, "slots", 10)
    study = TuningStudy("mine", None, Path("runs"), settings())
    told: list[str] = []
    tuning.rehearse_study(study, Inline(), told.append, trials=3, timeout_s=None, final_seeds=1, out=None)
    assert "with evaluations: about 3 min, if" in told[-1]


def test_ctrl_c_and_a_no_before_the_first_trial(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Who then wants other settings gets them: nothing has been trained with the first ones."""
    asked = COMMAND[: COMMAND.index("--engine")]  # nor with --yes; nothing is trained
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True, readline=lambda: "n\n"))
    monkeypatch.setattr("click.confirm", lambda *_, **options: (_ for _ in ()).throw(click.Abort))
    assert command_line(*asked, "--trials", 3) == 130  # as `compare` after a no
    monkeypatch.setattr(tuning, "rehearse", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    assert command_line(*asked, "--trials", 3, "--steps", 960, "--yes") == 130
    assert capfd.readouterr().err.endswith("Stopped. All trials are kept; the same command goes on.\n")
    assert not Path("runs").exists()
    assert TuningStudy("cartpole-a3c", None, Path("runs")).settings.steps == 960


def test_a_study_that_was_made_anew_meanwhile_is_not_trained(folder: Path) -> None:
    first = TuningStudy("mine", None, Path("runs"), settings(hyperparams="s.yml"))
    TuningStudy("mine", None, Path("runs"), settings(hyperparams="s.yml", steps=960))
    with pytest.raises(ZooError, match=r"^study 'mine' .*other settings.*--study NAME$"):
        tune(first, Inline(), TuningWatcher(), trials=1, timeout_s=None, final_seeds=1, out=None)
    assert not Path("runs").exists()


def test_the_table_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.console import Console

    texts = {"agent.gamma": "0.99", "optimizer.learning_rate": "0.001", "agent.entropy_coefficient": "0.00012"}
    view = TuningView(30, 250_000, Display())
    view._contenders = [Contender(n, texts, {27_778: 20.0 + n, 250_000: 400.0 + n}, "COMPLETE", True) for n in range(9)]
    view.training(Advance(12, 83_334), 1_000_001, None)
    for width in (80, 140):
        console = Console(record=True, width=width, file=open(os.devnull, "w"))  # noqa: SIM115
        console.print(view.block(width))
        lines = console.export_text().splitlines()
        assert lines[0].split() == ["trial", "steps", "return", "values"]
        assert lines[1].split()[:3] == ["8", "250,000", "408.0"]
        assert len(lines) == 1 + 8 + 1 + (width == 80)  # the values of the best one need two lines
        whole, others = " ".join(lines[1:3]).split(), lines[-8:-1]
        assert {"gamma=0.99", "learning_rate=0.001", "entropy_coefficient=0.00012"} <= set(whole)
        assert all(line.rstrip().endswith("…") == (width == 80) for line in others)
        assert "9 of 30 trials" in lines[-1]
        assert "trial 12 to 83,334 steps, seed 1000001" in lines[-1]
        assert max(map(len, lines)) <= width


# Killed processes

#: Plays the race in a process of its own, which kills itself in one of its trainings.
KILLED = """
import sys
from tests.test_tuning import race
from tests.toys_tuning import Inline, InlineConfig
race("killed", int(sys.argv[2]), Inline(InlineConfig(ends_after=int(sys.argv[1]))))
"""


def start(folder: Path, ends_after: int, trials: int) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-c", KILLED, str(ends_after), str(trials)]
    return subprocess.Popen(words, cwd=folder, env=environ(), stdout=subprocess.DEVNULL)


def assert_all_trials_ended(trials: int) -> None:
    found = TuningStudy("killed", None, Path("runs")).contenders()
    assert len(found) == trials
    assert all(each.scores for each in found)
    assert all(each.state in ("COMPLETE", "PRUNED") for each in found)
    whole = Counter(line for line in trained().elements() if line.endswith("begins"))
    assert set(whole.values()) == {1}  # what was begun went on, and was never begun anew


def test_two_kills_lose_nothing(folder: Path) -> None:
    """Both processes die in their second training: the first one before the score is kept, the other one half-way."""
    scores: dict[int, dict[int, float]] = {}
    for _ in range(2):
        assert start(folder, 2, trials=3).wait(LIMIT_S) == -signal.SIGKILL
        found = TuningStudy("killed", None, Path("runs")).contenders()
        assert all(found[number].scores.items() >= each.items() for number, each in scores.items())
        scores = {each.number: dict(each.scores) for each in found if each.scores}
        assert scores
    race("killed", trials=3)
    assert_all_trials_ended(3)


def sizes() -> frozenset[tuple[Path, int]]:
    """All files of the study and its runs."""
    found = set()
    for path in (*Path("studies").rglob("*"), *Path("runs").rglob("*")):
        with suppress(FileNotFoundError):
            found.add((path, path.stat().st_size))
    return frozenset(found)


def wait_for_changes(count: int) -> None:
    """Waits until files have changed so often."""
    for _ in range(count):
        seen = sizes()
        wait_until(lambda: sizes() != seen)  # noqa: B023


@pytest.mark.slow  # 11 commands, whose trainings are processes of their own: two minutes on idle cores
@pytest.mark.timeout(3600)
def test_ten_kills_of_the_command_lose_no_finished_trial(folder: Path) -> None:
    """`a3c-zoo tune` with its own engine. A kill comes after so many changes of files as are drawn before."""
    words = ["tune", "cartpole", "--agent", "nstep", "--trials", "100", "--steps", "900", "--seeds", "1"]
    command = [sys.executable, "-m", "a3c_zoo", *words, "--episodes", "1", "-o", "run.workers=1", "--yes"]
    journal, draw, count = Path("studies/cartpole-nstep/journal.jsonl"), random.Random(22), 0
    kept: dict[int, dict[int, float]] = {}
    for kill in range(11):
        process = subprocess.Popen(command, cwd=folder, env=environ(), stdout=subprocess.DEVNULL)
        if kill < 10:
            wait_for_changes(draw.randint(1, 40))
        else:  # what is left goes on
            wait_until(lambda: journal.read_text().count('"intermediate_value"') > count)  # noqa: B023
        assert process.poll() is None
        process.kill()
        process.wait()
        found = TuningStudy("cartpole-nstep", None, Path("runs")).contenders() if journal.exists() else []
        assert all(found[number].scores.items() >= each.items() for number, each in kept.items())
        kept = {each.number: dict(each.scores) for each in found}
        count = sum(map(len, kept.values()))
        print(f"kill {kill + 1}: {count} scores of {len(kept)} trials")


@pytest.mark.slow  # two processes train 12 trials
def test_two_processes_share_the_trials(folder: Path) -> None:
    processes = [start(folder, 0, trials=12) for _ in range(2)]
    assert [process.wait(LIMIT_S) for process in processes] == [0, 0]
    found = TuningStudy("killed", None, Path("runs")).contenders()
    assert len(found) == 12
    assert all(each.scores for each in found)
    assert max(trained().values()) == 1
