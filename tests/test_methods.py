"""Methods: an agent or a baseline with its settings, as users write them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import a3c_zoo
from a3c_zoo.comparison.methods import owners_of, parsed_method, refuse_methods_without_runs, runs_of_methods
from a3c_zoo.comparison.plan import make_plan
from a3c_zoo.engines import new_run_name
from a3c_zoo.errors import ConfigError, UnknownNameError, ZooError
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.store.run_records import RunRecord, read_runs
from tests.toys_runs import command_line


@pytest.mark.parametrize(
    ("text", "name", "agent", "stack", "hyperparams", "overrides"),
    [
        ("a3c", "a3c", "a3c", None, None, ()),
        ("sb3-a2c@zoo", "sb3-a2c@zoo", "sb3-a2c", "zoo", None, ()),
        ("a3c:a3c-ppo", "a3c:a3c-ppo", "a3c", None, "a3c-ppo", ()),
        ("fast=a3c", "fast", "a3c", None, None, ()),
        ("'my best=a3c' -o agent.gamma=0.9", "my best", "a3c", None, None, ("agent.gamma=0.9",)),
        ("a3c:sets/x=1.yml", "a3c:sets/x=1.yml", "a3c", None, "sets/x=1.yml", ()),
        ("fast=a3c:./g=0.98.yml", "fast", "a3c", None, "./g=0.98.yml", ()),
        ("γ=a3c:./own.yml -o agent.gamma=0.9 -o run.workers=1", "γ", "a3c", None, "./own.yml",
         ("agent.gamma=0.9", "run.workers=1")),
        ("a3c -o 'env.wrappers=[a, b]'", "a3c -o 'env.wrappers=[a, b]'", "a3c", None, None, ("env.wrappers=[a, b]",)),
    ],
)  # fmt: skip
def test_a_method_is_read(text: str, name: str, agent: Any, stack: Any, hyperparams: Any, overrides: Any) -> None:
    method = parsed_method(get_registry(), text)
    assert (method.name, method.agent.name, method.stack) == (name, agent, stack)
    assert (method.hyperparams, method.overrides) == (hyperparams, overrides)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "--method is empty"),
        ("a3c:", "is not complete"),
        ("=a3c", "is not complete"),
        ("fast=", "is not complete"),
        ("my best=a3c", "unknown agent 'my'"),  # a name with spaces needs quotes
        ("a3c -o", "only -o KEY=VALUE may follow the agent"),
        ("a3c --steps 9", "only -o KEY=VALUE may follow the agent"),
        ("a3c -o 'agent.gamma=1", "No closing quotation"),
        ("a3cc", "Did you mean 'a3c'"),
        ("sb3-a2c@mine", "write zoo or own after the @"),
    ],
)
def test_a_method_that_cannot_be_read(text: str, line: str) -> None:
    with pytest.raises(ZooError, match=line):
        parsed_method(get_registry(), text)


def plan(*methods: str, **options: Any) -> Any:
    wanted: dict[str, Any] = {"envs": ["cartpole"], "agents": (), "baselines": (), "seeds": [1], "steps": 5000}
    wanted |= {"time_limit": None, "runs_dir": Path("runs"), "reuse": True}
    return make_plan(**wanted | options, methods=methods)


def test_settings_of_one_agent_are_planned(tmp_path: Path) -> None:
    runs = plan("a3c", "low=a3c -o agent.gamma=0.9", "sb3-a2c -o agent.n_steps=16").runs
    assert [run.method for run in runs] == ["a3c", "low", "sb3-a2c -o agent.n_steps=16"]
    assert [run.config.to_dict()["agent"]["gamma"] for run in runs[:2]] == [0.98, 0.9]
    assert runs[2].config.to_dict()["agent"]["n_steps"] == 16
    assert "agent.gamma=0.9" in runs[1].command.overrides


@pytest.mark.parametrize(
    ("methods", "options", "error", "line"),
    [
        (["a3c", "a3c:none"], {}, UnknownNameError, "has no hyperparameter set 'none'"),
        (["a3c", "a3c -o agent.gama=1"], {}, ConfigError, "-o agent.gama: unknown key. Did you mean 'gamma'"),
        (["a3c", "sb3-a2c -o agent.unroll=1"], {}, ConfigError, "-o agent.unroll: unknown key"),
        (["a3c", "a3c -o run.steps=9"], {}, ConfigError, "this command sets it for every run; use --steps"),
        (["a3c", "same=a3c -o agent.gamma=0.98"], {}, ZooError, "'a3c' and 'same' have the same settings on cartpole"),
        (["x=a3c", "x=a3c -o agent.gamma=0.9"], {}, ZooError, "method x is given twice"),
        (["a3c"], {}, ZooError, "there is nothing to compare a3c with: give .* or several --method"),
        (["a3c", "random"], {"agents": ["a3c"]}, ZooError, "leave out --agent and --baseline"),
    ],
)
def test_methods_that_cannot_be_compared(methods: Any, options: Any, error: Any, line: str) -> None:
    with pytest.raises(error, match=line):
        plan(*methods, **options)


def test_a_long_name_fits_into_a_folder() -> None:
    assert len(new_run_name("cartpole", "a3c " + "-o agent.gamma=0.9 " * 30, 1)) < 150
    assert len(new_run_name("cartpole", "方法" * 100, 1).encode()) < 150


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two settings of one agent, two seeds each."""
    folder = tmp_path_factory.mktemp("runs")
    for seed in (1, 2):
        for gamma in (0.9, 0.98):
            keys = {"agent.gamma": gamma, "run.workers": 1, "run.stop_when_solved": False}
            a3c_zoo.train("cartpole", serial=True, seed=seed, steps=200, overrides=keys, runs_dir=folder)
    return folder


def chosen(records: Sequence[RunRecord], *methods: str) -> list[RunRecord]:
    owners = owners_of(get_registry(), records, [parsed_method(get_registry(), text) for text in methods], ())
    return runs_of_methods(records, owners)


def test_runs_are_told_apart_by_their_settings(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("a3c_zoo.config.settings.available_cores", lambda: 2)
    records, _ = read_runs([runs])
    own = "a3c -o run.workers=1"
    found = chosen(records, f"low={own} -o agent.gamma=0.9", f"own={own}")
    assert sorted((run.method, run.seed, run.settings["agent.gamma"]) for run in found) == [
        ("low", 1, 0.9),
        ("low", 2, 0.9),
        ("own", 1, 0.98),
        ("own", 2, 0.98),
    ]
    assert chosen(records, f"{own} -o agent.gamma=0.5") == []
    assert chosen(records, "a3c") == []  # its set has two workers
    assert chosen(records, "nstep") == []
    with pytest.raises(ZooError, match="'own' and 'again' both have the settings of "):
        chosen(records, f"own={own}", f"again={own} -o agent.gamma=0.98")
    auto = chosen(records, "a3c -o run.workers=auto")  # each machine has a number of its own
    assert sorted((run.seed, run.settings["run.workers"]) for run in auto) == [(1, 1), (2, 1)]
    both = chosen(records, "a3c -o run.workers=auto -o agent.gamma=0.9", f"one={own} -o agent.gamma=0.9")
    assert {run.method for run in both} == {"one"}  # it has all settings of this method


def test_a_method_without_a_run_says_what_the_nearest_run_has(runs: Path) -> None:
    records, _ = read_runs([runs])

    def refusal(text: str) -> str:
        method = parsed_method(get_registry(), text)
        with pytest.raises(ZooError) as raised:
            refuse_methods_without_runs(get_registry(), [method], {}, records, ())
        return str(raised.value)

    begin = "--from: no run has the settings of method 'x'. "
    low = next(run.path.name for run in records if run.settings["agent.gamma"] == 0.9)
    assert refusal("x=a3c -o agent.gamma=0.9") == f"{begin}The nearest one is {low}: run.workers is 1, not 2."
    auto = refusal("x=a3c -o agent.gamma=0.9 -o run.workers=auto")
    assert auto == f"{begin}{low} has them, and is a run of another method, which names more of its settings."
    assert refusal("x=nstep") == f"{begin}No run is of nstep."
    many = " ".join(f"-o agent.{key}" for key in ("gamma=0.5", "n_steps=7", "gae_lambda=0.5", "value_coefficient=0.3"))
    more = "-o optimizer.learning_rate=0.5 -o optimizer.epsilon=0.1 -o run.workers=1"
    assert refusal(f"x=a3c {many} {more}").endswith(", and 1 other setting.")


def test_runs_on_environments_of_a_library_are_none_of_those_on_the_zoo_s(tmp_path: Path) -> None:
    own = a3c_zoo.train("cartpole", agent="sb3-a2c", serial=True, seed=1, steps=100, runs_dir=tmp_path).run
    with pytest.raises(ZooError, match=r"of method 'sb3-a2c@zoo'.* env.stack is \"own\", not \"zoo\"\."):
        a3c_zoo.compare(sources=own, methods=["sb3-a2c@own", "sb3-a2c@zoo"])


@pytest.mark.usefixtures("plain_reports")
def test_a_failed_run_counts_for_the_method_whose_settings_it_has(runs: Path, tmp_path: Path) -> None:
    """Else what failed would be left out, and the rest claimed."""
    folder = tmp_path / "runs"
    shutil.copytree(runs, folder)
    failed = next(path for path in folder.iterdir() if "gamma: 0.9\n" in (path / "config.yml").read_text())
    outcome = json.loads((failed / "outcome.json").read_text())
    (failed / "outcome.json").write_text(json.dumps(outcome | {"reason": "error", "detail": "it failed"}))
    own = "a3c -o run.workers=1"
    methods = [f"low={own} -o agent.gamma=0.9", f"own={own}"]
    found = a3c_zoo.compare("cartpole", sources=folder, methods=methods, out=tmp_path / "out")
    assert found.results["lost"] == {"cartpole": {"low": 1}}
    assert found.results["environments"]["cartpole"]["methods"]["low"]["seconds_to_threshold"]["runs"] == 2
    only_own = a3c_zoo.compare("cartpole", sources=folder, methods=[f"own={own}", f"other={own} -o agent.gamma=0.9"])
    assert only_own.results["lost"] == {"cartpole": {"other": 1}}


def test_a_method_lets_no_stranger_name_a_module(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    strange = tmp_path / "strange"
    shutil.copytree(next(runs.iterdir()), strange)
    for name in ("meta.json", "config.yml"):
        text = (strange / name).read_text()
        (strange / name).write_text(text.replace('"env": "cartpole"', '"env": "gym:evil:Maze-v0"').replace(
            "env_name: cartpole", "env_name: gym:evil:Maze-v0"
        ))  # fmt: skip
    (tmp_path / "evil.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ZooError, match=r"import 'evil', .*not your own"):
        a3c_zoo.compare(sources=strange, methods="a3c", out=tmp_path / "out")


@pytest.mark.usefixtures("plain_reports")
def test_a_report_of_runs_with_two_settings(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without --method they are twins, which cannot be one method."""
    with pytest.raises(ZooError, match=r"twice.*--method"):
        a3c_zoo.compare("cartpole", sources=runs, out=tmp_path / "none")
    words = [
        "--method",
        "low=a3c -o agent.gamma=0.9 -o run.workers=1",
        "--method",
        "a3c -o run.workers=1",
        "--out",
        tmp_path / "out",
        "--json",
    ]
    assert command_line("compare", "cartpole", "--from", runs, *words) == 0
    results = json.loads(capsys.readouterr().out)
    assert (results["out"], results["failed"]) == (str(tmp_path / "out"), [])
    assert results["verdict"][0] in (tmp_path / "out/report.md").read_text().replace("\\", "")
    assert [*results["environments"]["cartpole"]["methods"]] == ["low", "a3c -o run.workers=1"]
    assert [run["method"] for run in results["runs"]] == ["low", "low", *["a3c -o run.workers=1"] * 2]
