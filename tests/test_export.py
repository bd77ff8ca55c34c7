"""Exported agents: what is in the file, a program that plays with it, and what is refused."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import a3c_zoo
from a3c_zoo.cures import install_extra
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.testing import plugin_distribution
from tests.toys_baselines import one_thread
from tests.toys_runs import command_line, environ
from tests.toys_spaces import PARTS, env_name
from tests.wheels import ROOT

if not all(map(find_spec, ("onnxruntime", "onnxscript"))):  # not imported here: it takes a second
    pytest.skip("the extra onnx is not installed", allow_module_level=True)

Captured = pytest.CaptureFixture[str]
LSTM = {"network.recurrent": "lstm", "network.recurrent_size": 8, "network.separate": False}
#: Networks that torch cannot export, or whose exported twin acts differently.
NETWORKS = """
import torch
from a3c_zoo import NetworkEntry, hookimpl
from a3c_zoo.learning.mlp import Textbook

class Branching(Textbook):
    def features(self, observations):
        return super().features(observations if observations.sum() > 0 else -observations)

class Noisy(Textbook):
    def logits(self, outputs):
        return super().logits(outputs) + torch.rand(2)

@hookimpl
def zoo_networks():
    return [NetworkEntry(kind.__name__.lower(), factory=f"{__name__}:{kind.__name__}") for kind in (Branching, Noisy)]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    with one_thread():
        yield tmp_path


def train(env: str, overrides: dict[str, Any], agent: str = "a3c") -> None:
    """Makes the run `x`. Its parameters are no longer the first ones."""
    small = {} if agent == "random" else {"env.num_envs": 2, "agent.n_steps": 5, "agent.update_samples": None}
    options: dict[str, Any] = {"agent": agent, "steps": 100, "name": "x", "serial": agent != "random"}
    a3c_zoo.train(env, overrides={**small, **overrides}, workers=1, **options)


def exported() -> Any:
    """A session of the file that the command makes of the run `x`."""
    import onnxruntime

    assert command_line("export", "x", "--out", "x.onnx") == 0
    return onnxruntime.InferenceSession("x.onnx", providers=["CPUExecutionProvider"])


def arrays(parts: Any) -> dict[str, tuple[str, list[Any]]]:
    return {each.name: (each.type, each.shape) for each in parts}


@pytest.mark.slow  # a network without memory: test_the_file_tells_what_is_known_of_its_own_checkpoint_and_plays
@pytest.mark.parametrize(("core", "hidden"), [({}, True), (LSTM, False), (LSTM, True)])
def test_the_program_of_the_page(core: dict[str, Any], hidden: bool, folder: Path) -> None:
    """hidden: velocities."""
    train("cartpole", core | {"env.hide_velocity": hidden})
    assert_described(exported(), folder)
    assert_program_plays(r"1\d\d", 1 + hidden)


def assert_program_plays(steps: str, every: int = 1) -> None:
    """The page's program plays the episodes that the agent itself plays, and needs neither torch nor a3c-zoo."""
    page = (ROOT / "docs" / "how-to" / "export-an-agent.md").read_text(encoding="utf-8")
    program = page.partition("`play.py`:\n\n```python\n")[2].partition("```")[0]
    alone = "import sys\nsys.modules |= {'torch': None, 'a3c_zoo': None}\n"
    Path("play.py").write_text(alone + program, encoding="utf-8")
    assert len(program.splitlines()) <= 30
    command = [sys.executable, "play.py", "x.onnx"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, env=environ()).stdout.splitlines()
    assert re.fullmatch(rf"a3c on cartpole after {steps} steps: Box\(.*\)", shown[0])
    assert shown[1:] == [
        f"episode {number}: return {score:g}" for number, score in enumerate(returns_on_cartpole(every))
    ]


def returns_on_cartpole(every: int) -> Iterator[float]:
    """Of the run `x`, with the most probable actions, on the seeds 0 to 4. It sees each `every`-th number."""
    import gymnasium

    policy, env = a3c_zoo.load_agent("x"), gymnasium.make("CartPole-v1")
    for seed in range(5):
        (observation, _), state, total, ended = env.reset(seed=seed), None, 0.0, False
        while not ended:
            actions, state = policy.predict(observation[None, ::every], state, deterministic=True)
            observation, reward, terminated, truncated, _ = env.step(actions[0])
            total, ended = total + float(reward), terminated or truncated
        yield total


@pytest.mark.parametrize(
    ("kind", "overrides", "wanted"),
    [
        ("discrete", LSTM, {"action": ("int64", ["N"]), "probabilities": ("float", ["N", 3])}),
        ("choices", {}, {"action": ("int64", ["N", 2]), "probabilities": ("float", ["N", 5])}),
        pytest.param(
            *("coins", {}, {"action": ("int8", ["N", 3]), "probabilities": ("float", ["N", 3])}), marks=pytest.mark.slow
        ),
        pytest.param(
            *("box", {}, {name: ("float", ["N", 2]) for name in ("action", "mean", "std")}), marks=pytest.mark.slow
        ),
        ("box", {"agent.squash_actions": True}, {name: ("float", ["N", 2]) for name in ("action", "mean", "std")}),
    ],
    ids=["discrete", "choices", "coins", "box", "squashed"],
)
def test_every_space(kind: str, overrides: dict[str, Any], wanted: dict[str, tuple[str, list[Any]]]) -> None:
    train(
        env_name(kind, has_parts=True),
        {"network.hidden_sizes": [8], "network.normalize_observations": True} | overrides,
    )
    session, policy = exported(), a3c_zoo.load_agent("x")
    inputs = {"observation/left": ("int64", ["N"]), "observation/target": ("float", ["N", 3])}
    if overrides is LSTM:
        inputs["state"] = wanted["next_state"] = ("float", [2, "N", 8])
    for there, expected in ((session.get_inputs(), inputs), (session.get_outputs(), wanted)):
        assert arrays(there) == {name: (f"tensor({dtype})", shape) for name, (dtype, shape) in expected.items()}
    PARTS.seed(1)
    for count in (1, 7):
        samples = [PARTS.sample() for _ in range(count)]
        parts = {key: np.array([sample[key] for sample in samples]) for key in PARTS}
        feed = {f"observation/{key}": array for key, array in parts.items()}
        if "state" in inputs:
            feed["state"] = np.zeros((2, count, 8), np.float32)
        found = dict(zip(wanted, session.run(list(wanted), feed), strict=True))
        np.testing.assert_allclose(found["action"], policy.predict(parts, deterministic=True)[0], rtol=1e-5, atol=1e-6)
        if kind in ("discrete", "choices"):
            np.testing.assert_allclose(found["probabilities"].sum(axis=-1), 1 if kind == "discrete" else 2, rtol=1e-5)


def test_keys_with_slashes_have_names_of_their_own() -> None:
    """`{"a/b"}` is no `{"a": {"b"}}`, neither of observations nor of actions."""
    train("gym:tests.toys_spaces:Slashes-v0", {"network.hidden_sizes": [8]})
    session = exported()
    inputs = {"observation/a~1b": ("int64", ["N"]), "observation/a/b": ("float", ["N", 2])}
    outputs = {"action/a~1b": ("int64", ["N"]), "probabilities/a~1b": ("float", ["N", 3])}
    outputs |= {f"{name}/a/b": ("float", ["N", 2]) for name in ("action", "mean", "std")}
    for there, expected in ((session.get_inputs(), inputs), (session.get_outputs(), outputs)):
        assert arrays(there) == {name: (f"tensor({dtype})", shape) for name, (dtype, shape) in expected.items()}


def test_the_file_tells_what_is_known_of_its_own_checkpoint_and_plays(folder: Path) -> None:
    overrides = {"run.evaluation_episodes": 5, "run.checkpoint_every_steps": 1000, "run.keep_checkpoints": None}
    made = a3c_zoo.train("cartpole", stop_return=15, steps=50_000, serial=True, name="x", overrides=overrides)
    import onnxruntime

    told = []
    for which, file in (("0", "first.onnx"), ("final", "x.onnx")):
        assert command_line("export", "x", "--out", file, "--checkpoint", which) == 0
        session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
        told.append(json.loads(session.get_modelmeta().custom_metadata_map["a3c_zoo"]))
    assert made.evaluation is not None
    first, last = told
    assert (last["steps"], last["evaluation"]["mean_return"]) == (made.steps, made.evaluation.mean_return)
    assert (first["steps"], first["evaluation"]) == (0, None)
    assert first["training_s"] < last["training_s"] <= made.training_s
    assert_described(session, folder)
    assert_program_plays(f"{made.steps:,}")


def assert_described(session: Any, folder: Path) -> None:
    """The file says what it is, and names no folder of this machine."""
    told = json.loads(session.get_modelmeta().custom_metadata_map["a3c_zoo"])
    assert {key: told[key] for key in ("env", "agent", "network", "run", "action_space", "squash_actions")} == {
        **{"env": "cartpole", "agent": "a3c", "network": "mlp", "run": "x"},
        **{"action_space": "Discrete(2)", "squash_actions": False},
    }
    assert told["versions"]["torch"]
    content = Path("x.onnx").read_bytes()
    assert [path for path in (ROOT, folder, sys.prefix) if str(path).encode() in content] == []


SMALL_FRAMES = {"env.frame_size": 42, "network.name": "conv42", "network.precision": "bfloat16"}
CORES: tuple[dict[str, Any], ...] = ({}, {"network.recurrent": "gru"}, {"network.recurrent": "lstm"})
IMAGES = [
    ("pong", SMALL_FRAMES | CORES[1]),
    *(pytest.param("pong", SMALL_FRAMES | core, marks=pytest.mark.slow) for core in (CORES[0], CORES[2])),
    *(
        pytest.param("pong", {"env.frame_size": 84, "network.name": name} | core, marks=pytest.mark.slow)
        for name in ("a3c-ff", "nature", "nature-dual", "nature-slim", "mixed")
        for core in (CORES if name != "nature-dual" else CORES[:1])
    ),
    pytest.param("cartpole", {"network.name": "textbook"}, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("env", "overrides"), IMAGES)
def test_every_network(env: str, overrides: dict[str, Any]) -> None:
    """The command compares them; what was trained in bfloat16 is exported in float32."""
    train(env, overrides)
    exported()


@pytest.mark.parametrize("core", [{}, LSTM])
def test_games_whose_agents_do_not_divide_the_environments(
    core: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """Two games of three agents are played, and so six environments."""
    source = "from a3c_zoo import EnvEntry, hookimpl\n@hookimpl\ndef zoo_envs():\n"
    source += "    return [EnvEntry('trio', 'tests.toys_games:make_trio', agents=('ann', 'bob', 'cid'))]\n"
    monkeypatch.syspath_prepend(plugin_distribution(folder / "site", "toy-trio", source))
    get_registry.cache_clear()
    try:
        train("trio", {"env.num_envs": 3, **core})
        exported()
    finally:
        get_registry.cache_clear()
    assert re.search(r"\b1,002 observations", capsys.readouterr().out)  # 167 batches of six


# What is refused


@pytest.mark.parametrize(
    ("network", "status", "message"),
    [
        ("branching", 2, "network 'branching' cannot be exported: "),
        (
            "noisy",
            1,
            "the exported network acts differently and is not written: its output '",
        ),
    ],
)
def test_networks_of_plugins(
    network: str, status: int, message: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.syspath_prepend(plugin_distribution(folder / "site", "odd-networks", NETWORKS))
    get_registry.cache_clear()
    try:
        train("cartpole", {"network.name": network})
        Path("x.onnx").write_text("mine")
        assert command_line("export", "x", "--out", "x.onnx", "--force") == status
    finally:
        get_registry.cache_clear()
    error = capsys.readouterr().err
    assert error.startswith(f"Error: {message}")
    assert error.count("\n") == 1
    assert Path("x.onnx").read_text() == "mine"


def test_an_agent_without_a_network(capsys: Captured) -> None:
    train("cartpole", {}, agent="random")
    assert command_line("export", "x", "--out", "x.onnx") == 2
    message = "Error: agent 'random' cannot be exported: it acts without a network of a3c-zoo\n"
    assert capsys.readouterr().err == message
    assert not Path("x.onnx").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "mine.onnx"], "--out mine.onnx: exists already; choose another name, or overwrite it with --force"),
        (["--out", "x.pt"], "--out x.pt: must end in .onnx"),
        (["--out", "new.onnx"], "'x' is no run here or in runs, no environment and no trained agent. To get one: "),
        (["--out", "new.onnx", "--format", "onnx", "--checkpoint", "best"], "'x' is no run here or in runs, "),
    ],
)
def test_one_line_for_a_mistake(arguments: list[str], message: str, capsys: Captured) -> None:
    Path("mine.onnx").write_text("mine")
    assert command_line("export", "x", *arguments) == 2
    assert capsys.readouterr().err.startswith(f"Error: {message}")
    assert Path("mine.onnx").read_text() == "mine"


def test_the_extra_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert command_line("export", "x", "--out", "x.onnx") == 2
    assert capsys.readouterr().err == f"Error: export needs onnxruntime: {install_extra('onnx')}\n"
