"""The Python API, in scripts as people write them."""

from __future__ import annotations

import enum
import json
import math
import pickle
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import a3c_zoo
from a3c_zoo.cli.main import cli
from a3c_zoo.errors import ConfigError, MissingGuardError, ZooError
from a3c_zoo.records import Outcome
from a3c_zoo.runs import api
from a3c_zoo.runs.run_html import curve_svg, run_html
from a3c_zoo.runs.setup import SilentObserver
from a3c_zoo.store.checkpoints import checkpoint_steps
from a3c_zoo.store.directory import RunDirectory
from a3c_zoo.store.run import Run
from tests.toys_runs import Running, environ

GUARDED = """
import multiprocessing, sys
import a3c_zoo

if __name__ == "__main__":
    multiprocessing.set_start_method("{method}")
    outcome = a3c_zoo.train("cartpole", seed=1, steps=1500, {options})
    assert outcome.reason == "steps" and outcome.steps >= 1500, outcome
    assert outcome.run.parent.name == "runs"
    action, _ = a3c_zoo.load_agent(outcome.run).predict([0, 0, 0, 0])
    assert action in (0, 1)
    print("done", multiprocessing.get_start_method())
"""

UNGUARDED = """
import a3c_zoo

print("begin")
a3c_zoo.train("cartpole", steps=1500, {options})
"""

UNGUARDED_THRICE = """
import a3c_zoo

one = {"workers": 1}
compared = {"agents": ["a3c", "nstep"], "seeds": 1, "runs_dir": "compared"}
for call, options in ((a3c_zoo.train, one), (a3c_zoo.train, {**one, "film_every": 1}), (a3c_zoo.compare, compared)):
    try:
        call("cartpole", steps=1500, **options)
    except a3c_zoo.ZooError as error:
        raised = error
        print(call.__name__, "raises", type(error).__name__)
raise raised
"""


def run_script(folder: Path, source: str) -> Running:
    (folder / "script.py").write_text(source)
    return Running(folder=folder, program=("script.py",))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("fork", ""),
        ("spawn", ""),
        ("forkserver", "overrides={'run.start_method': 'spawn'}, workers=1"),
    ],
)
def test_every_start_method(method: str, options: str, tmp_path: Path) -> None:
    """What the caller has chosen for multiprocessing is neither used nor changed."""
    with run_script(tmp_path, GUARDED.format(method=method, options=options)) as running:
        assert running.exit_status() == 0, running.stderr
        assert running.stdout.splitlines()[-1] == f"done {method}"
        assert running.stderr == ""
        running.assert_nothing_left()


def test_without_the_guard(tmp_path: Path) -> None:
    """Each process would train in turn: an error that names the cure, no hang, and no budget that is used up before."""
    with run_script(tmp_path, UNGUARDED_THRICE) as running:
        assert running.exit_status() == 2
        calls = ("train", "train", "compare")
        assert running.stdout.splitlines() == [f"{call} raises MissingGuardError" for call in calls]
        assert running.stderr == 3 * f"Error: {MissingGuardError.LINE}\n"
        assert not (tmp_path / "compared").exists()
        running.assert_nothing_left()


@pytest.mark.slow
def test_without_the_guard_where_processes_are_spawned(tmp_path: Path) -> None:
    source = UNGUARDED.format(options="workers=1, overrides=['run.start_method=spawn']")
    with run_script(tmp_path, source) as running:
        assert running.exit_status() == 2
        assert running.stderr == f"Error: {MissingGuardError.LINE}\n"
        running.assert_nothing_left()


def test_the_missing_guard_can_be_caught() -> None:
    with pytest.raises(a3c_zoo.ZooError, match="Put the call below"):
        raise MissingGuardError


def test_without_the_guard_a_serial_run_is_fine(tmp_path: Path) -> None:
    with run_script(tmp_path, UNGUARDED.format(options="serial=True")) as running:
        assert running.exit_status() == 0
        assert running.stdout == "begin\n"


def test_importing_is_light() -> None:
    code = (
        "import pydoc, sys, a3c_zoo; assert set(a3c_zoo.__all__) <= set(dir(a3c_zoo)) and 'numpy' not in sys.modules\n"
        "text = pydoc.plain(pydoc.render_doc(a3c_zoo)); print({'torch', 'gymnasium'} & set(sys.modules)); print(text)"
    )
    result = subprocess.run([sys.executable, "-c", code], env=environ(), capture_output=True, text=True, check=True)
    assert result.stdout.startswith("set()\n")
    for name in ("compare", "evaluate", "load_agent", "load_registry", "plot", "train"):
        assert f"\n    {name}(" in result.stdout, name  # help() shows its signature


def test_errors_are_exceptions(tmp_path: Path) -> None:
    with pytest.raises(a3c_zoo.ZooError, match="Did you mean 'cartpole'"):
        a3c_zoo.train("cartpol", runs_dir=tmp_path)
    with pytest.raises(a3c_zoo.ZooError, match=r"--workers run\.workers: 0"):
        a3c_zoo.train("cartpole", workers=0, runs_dir=tmp_path)
    with pytest.raises(a3c_zoo.ZooError, match=r"--steps run\.steps: 1\.5"):
        a3c_zoo.train("cartpole", steps=1.5, runs_dir=tmp_path)  # type: ignore[arg-type]
    with pytest.raises(a3c_zoo.ZooError, match="name an environment"):
        a3c_zoo.train(runs_dir=tmp_path)
    assert not list(tmp_path.iterdir())


def test_overrides_in_either_form(tmp_path: Path) -> None:
    for overrides in (
        {"agent.n_steps": 7, "num_envs": 2, "max_grad_norm": None},
        ["agent.n_steps=7", "num_envs=2", "max_grad_norm=null"],
    ):
        outcome = a3c_zoo.train("cartpole", serial=True, steps=10, overrides=overrides, runs_dir=tmp_path)
        text = (outcome.run / "config.yml").read_text()
        assert "n_steps: 7" in text
        assert "num_envs: 2" in text
        assert "max_grad_norm: null" in text  # 0.5 in the set
    outcome = a3c_zoo.train("cartpole", serial=True, steps=10, overrides="agent.n_steps=7", runs_dir=tmp_path)
    assert "n_steps: 7" in (outcome.run / "config.yml").read_text()  # not read letter by letter


class Name(enum.StrEnum):
    ADAM = "adam"


class Size(enum.IntEnum):
    TWO = 2


OF_OTHER_TYPES: list[tuple[Any, tuple[Any, ...], str, Any, str]] = [
    (a3c_zoo.train, ("cartpole",), "agent", 3, "a text"),
    (a3c_zoo.train, ("cartpole",), "runs_dir", 3, "a path"),
    (a3c_zoo.train, ("cartpole",), "name", 3, "a text"),
    (a3c_zoo.train, (), "resume", 3, "a path"),
    (a3c_zoo.evaluate, ("cartpole",), "agent", 3, "a text"),
    (a3c_zoo.evaluate, ("base",), "runs_dir", 3, "a path"),
    (a3c_zoo.evaluate, ("base",), "on_step", 3, "a function"),
    (a3c_zoo.evaluate, ("base",), "deterministic", 3, "True or False"),
    (a3c_zoo.evaluate, ("base",), "deterministic", None, "True or False"),
    (a3c_zoo.load_agent, (), "run", None, "a path"),
    (a3c_zoo.load_agent, ("base",), "runs_dir", 3, "a path"),
    (a3c_zoo.plot, (), "runs", 3, "a path"),
    (a3c_zoo.plot, (), "runs", None, "a path"),
    (a3c_zoo.plot, (), "runs", [".", 3], "a path"),
    (a3c_zoo.plot, (".",), "env", 3, "a text"),
    (a3c_zoo.plot, (".",), "out", 3, "a path"),
    (a3c_zoo.plot, (".",), "runs_dir", 3, "a path"),
    (a3c_zoo.compare, (), "sources", 3, "a path"),
    (a3c_zoo.compare, (), "sources", [3], "a path"),
    (a3c_zoo.compare, ("cartpole",), "out", 3, "a path"),
    (a3c_zoo.compare, ("cartpole",), "runs_dir", 3, "a path"),
    (a3c_zoo.compare, ("cartpole",), "engine", 3, "a text"),
    (a3c_zoo.compare, ("cartpole",), "engine_options", 3, "a text, or a list of texts"),
    (a3c_zoo.tune, ("cartpole",), "agent", 3, "a text"),
    (a3c_zoo.tune, ("cartpole",), "method", 3, "a text"),
    (a3c_zoo.tune, ("cartpole",), "study", 3, "a text"),
    (a3c_zoo.tune, ("cartpole",), "out", 3, "a path"),
    (a3c_zoo.tune, ("cartpole",), "runs_dir", 3, "a path"),
    (a3c_zoo.tune, ("cartpole",), "engine", 3, "a text"),
    (a3c_zoo.tune, ("cartpole",), "engine_options", [3], "a text, or a list of texts"),
]


@pytest.mark.parametrize(("call", "before", "name", "value", "wanted"), OF_OTHER_TYPES)
def test_arguments_of_other_types(
    call: Any,
    before: tuple[Any, ...],
    name: str,
    value: Any,
    wanted: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They were TypeErrors and AttributeErrors."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ZooError, match=rf"^{name}=.*(3|None)\]?: give {wanted}$"):
        call(*before, **{name: value})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("overrides", [[("agent.n_steps", 5)], None, 5])
def test_overrides_of_another_form(overrides: Any, tmp_path: Path) -> None:
    with pytest.raises(ZooError) as caught:
        a3c_zoo.train("cartpole", overrides=overrides, runs_dir=tmp_path)
    cure = 'give a dictionary, such as {"agent.n_steps": 5}, or texts, ["agent.n_steps=5"]'
    assert str(caught.value) == f"overrides={overrides!r}: {cure}"


def test_overrides_of_a_whole_section_name_their_keys(tmp_path: Path) -> None:
    with pytest.raises(ZooError) as caught:
        a3c_zoo.train("cartpole", overrides={"agent": {"n_steps": 4, "gamma": 0.5}}, runs_dir=tmp_path)
    assert str(caught.value) == "-o agent: unknown key. Type: -o agent.gamma=0.5 -o agent.n_steps=4"


def test_overrides_of_python_stay_what_they_are() -> None:
    arguments: dict[str, Any] = {
        "limit": None,
        "size": (1, 2),
        "name": "a #b",
        "number": "0123",
        "text": "",
        "face": "\U0001f600",
    }
    arguments |= {"half": np.float32(0.5), "line": "a\nb\u00a0c"}
    overrides = {"env.wrappers": [{"gymnasium.wrappers:TimeLimit": arguments}], "hidden_sizes": np.array([8])}
    config = api._config("cartpole", None, None, overrides, {})
    (wrapper,) = config.env.wrappers
    assert wrapper == {"gymnasium.wrappers:TimeLimit": {**arguments, "size": [1, 2], "half": 0.5}}
    assert config.network is not None
    assert config.network.model_dump()["hidden_sizes"] == (8,)
    kinds = api._config(
        "cartpole", None, None, {"env.wrappers": [{"m:f": {"name": Name.ADAM, np.str_("size"): Size.TWO}}]}, {}
    )
    assert kinds.env.wrappers == ({"m:f": {"name": "adam", "size": 2}},)
    far = [{"gymnasium.wrappers:TimeLimit": {"far": math.inf}}]
    for wrong in ({0: 1}, {(0, 1): 1}, {"size": object()}, far):
        with pytest.raises(ConfigError):
            api._config("cartpole", None, None, {"env.wrappers": wrong}, {})


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    folder = tmp_path_factory.mktemp("api") / "runs"
    return a3c_zoo.train("cartpole", serial=True, steps=2000, name="one", runs_dir=folder)


def test_evaluate_is_the_commands(outcome: Outcome) -> None:
    """By path and by name, sampled and greedy; `seconds` alone may differ."""
    for greedy in (False, True):
        found = asdict(a3c_zoo.evaluate(outcome.run, episodes=5, deterministic=greedy, seed=3))
        named = asdict(a3c_zoo.evaluate("one", episodes=5, deterministic=greedy, seed=3, runs_dir=outcome.run.parent))
        arguments = [
            "evaluate",
            str(outcome.run),
            "--episodes",
            "5",
            "--seed",
            "3",
            "--json",
            *["--deterministic"] * greedy,
        ]
        told = json.loads(CliRunner().invoke(cli, arguments, catch_exceptions=False).stdout)
        assert len({each.pop("seconds") for each in (found, named, told)}) == 3
        assert (told.pop("checkpoint"), told.pop("step")) == ("final", outcome.steps)
        assert [told.pop(key) for key in ("run", "env", "agent", "seed")] == [str(outcome.run), "cartpole", "a3c", 3]
        assert found == named == told
    with pytest.raises(a3c_zoo.ZooError, match="'two' is no run "):
        a3c_zoo.evaluate("two", runs_dir=outcome.run.parent)


def test_the_return_of_a_run_is_not_that_of_an_older_checkpoint(tmp_path: Path) -> None:
    """Somebody has removed the newest."""
    outcome = a3c_zoo.train("cartpole", steps=2000, serial=True, runs_dir=tmp_path)
    *_, newest = sorted((outcome.run / "checkpoints").glob("step-*.pt"))
    assert f"return {outcome.mean_return_100:.1f}"[:9] in repr(a3c_zoo.load_agent(outcome.run, checkpoint="final"))
    first = newest.with_name("step-000000000000.pt")
    newest.unlink()
    assert first.exists()
    assert "0 steps, return not known" in repr(a3c_zoo.load_agent(outcome.run, checkpoint="final"))


def test_people_can_read_what_functions_return(outcome: Outcome) -> None:
    counts, mean = f"{outcome.steps:,} steps", outcome.returns
    assert mean.startswith("return ")
    assert repr(outcome) == (
        f"<Outcome: steps (2,000 steps done); {counts}, {outcome.training_s:.1f} s of training, {mean}; {outcome.run}>"
    )
    agent = a3c_zoo.load_agent(outcome.run)
    assert repr(agent) == f"<a3c on cartpole: {counts}, {mean}; {outcome.run}>"
    older = a3c_zoo.load_agent(outcome.run, checkpoint=str(checkpoint_steps(RunDirectory(outcome.run))[0]))
    assert "return not known" in repr(older)
    assert a3c_zoo.plot(outcome.run, outcome.run.parent / "x.svg").__repr__() == (
        f"<Plot of 1 run: {outcome.run.parent / 'x.svg'}>"
    )


def test_a_loaded_agent_is_evaluated_as_its_run(tmp_path: Path) -> None:
    outcome = a3c_zoo.train("cartpole", serial=True, steps=1000, name="one", runs_dir=tmp_path)
    agent = a3c_zoo.load_agent(outcome)
    expected = a3c_zoo.evaluate(outcome, episodes=4, seed=5)
    agent.predict([0.0, 0.0, 0.0, 0.0])  # leaves the seeds alone
    found = a3c_zoo.evaluate(agent, episodes=4, seed=5)
    assert replace(found, seconds=0.0) == replace(expected, seconds=0.0)
    shutil.rmtree(outcome.run)
    again = a3c_zoo.evaluate(agent, episodes=4, seed=5)
    assert replace(again, seconds=0.0) == replace(expected, seconds=0.0)
    with pytest.raises(a3c_zoo.ZooError, match="leave out agent, env and checkpoint"):
        a3c_zoo.evaluate(agent, checkpoint="best")
    with pytest.raises(a3c_zoo.ZooError, match="--episodes 0: give 1 or more"):
        a3c_zoo.evaluate(agent, episodes=0)


def test_what_train_returned_stands_for_its_run(tmp_path: Path) -> None:
    """Where a function takes a run: `train` goes on with it, and begins another one with its parameters."""
    first = a3c_zoo.train("cartpole", serial=True, steps=200, runs_dir=tmp_path)
    later = a3c_zoo.train(resume=first, steps=first.steps + 200)
    assert later.run == first.run
    assert later.steps > first.steps
    begun = a3c_zoo.train("cartpole", serial=True, steps=200, init_from=later, runs_dir=tmp_path)
    assert "begins with the parameters of" in (begun.run / "events.jsonl").read_text()


def test_a_plot_of_no_known_kind_or_axis(outcome: Outcome) -> None:
    with pytest.raises(ZooError, match=r"^kind 'returns': choose return, episode-length, evaluation$"):
        a3c_zoo.plot(outcome, kind="returns")  # type: ignore[call-overload]
    with pytest.raises(ZooError, match=r"^x 'hours': choose steps, seconds, episodes$"):
        a3c_zoo.plot(outcome, x="hours")  # type: ignore[call-overload]


def test_a_script_shows_the_progress_if_it_asks(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """On stderr: stdout has what the script prints."""
    options: dict[str, Any] = {"serial": True, "steps": 500, "runs_dir": tmp_path}
    outcome = a3c_zoo.train("cartpole", **options, name="one", progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert err.splitlines()[0] == f"a3c on cartpole, seed 0, serial → {outcome.run}"
    assert re.search(r"^ +\d+\.\d s +(at least )?[\d,]+ steps", err, re.MULTILINE)
    for shows in (None, False):
        a3c_zoo.train("cartpole", **options, progress=shows)
        assert capfd.readouterr() == ("", "")
    with pytest.raises(a3c_zoo.ZooError, match="observer is told it: give one of the two"):
        a3c_zoo.train("cartpole", **options, observer=SilentObserver(), progress=True)


def test_a_notebook_shows_the_curve(outcome: Outcome) -> None:
    """Three episodes, of 10, 20 and 60 steps' return: means of 10, 15 and 30, and a threshold of 40."""
    picture = ElementTree.fromstring(curve_svg(np.array([10.0, 30.0, 90.0]), np.array([10.0, 15.0, 30.0]), 40.0))
    texts = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["40.0", "10.0", "return, mean of 100 episodes", "90 steps", "threshold 40.0"]
    (curve,) = picture.iter("{http://www.w3.org/2000/svg}polyline")
    points = [tuple(map(float, point.split(","))) for point in curve.attrib["points"].split()]
    (x0, y0), (x1, y1), (x2, y2) = points
    assert (x1 - x0) / (x2 - x0) == pytest.approx(20 / 80, abs=0.01)
    assert (y0 - y1) / (y0 - y2) == pytest.approx(5 / 20, abs=0.01)

    shown = outcome._repr_html_()  # type: ignore[attr-defined]
    assert "&lt;Outcome: steps" in shown
    assert "<polyline" in shown
    assert "<polyline" in a3c_zoo.load_agent(outcome)._repr_html_()
    assert "<polyline" not in run_html("<x>", outcome.run / "nowhere")
    assert outcome == Run(outcome.run).outcome
    assert pickle.loads(pickle.dumps(outcome)) == outcome
