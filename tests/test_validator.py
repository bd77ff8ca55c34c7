"""What is refused of a checkpoint that somebody has changed: one line, the same for each way to read it."""

from __future__ import annotations

import json
import pickle
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import a3c_zoo
from a3c_zoo.errors import RunDirectoryError
from a3c_zoo.runs import api
from a3c_zoo.store import checkpoint_bytes
from a3c_zoo.store.checkpoints import checkpoint_file, checkpoint_steps, read_policy
from a3c_zoo.store.directory import RunDirectory
from tests.toys_runs import unchecked_bytes, write_content

Change = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module", params=["a3c", "sb3-a2c", "random"])
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    overrides = {"env.num_envs": 2, "run.stop_when_solved": False}
    folder = tmp_path_factory.mktemp("trained")
    return a3c_zoo.train(
        "cartpole", agent=request.param, serial=True, steps=64, overrides=overrides, runs_dir=folder
    ).run


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy with one checkpoint."""
    run = Path(shutil.copytree(trained, tmp_path / "x"))
    directory = RunDirectory(run)
    for step in checkpoint_steps(directory)[:-1]:
        checkpoint_file(directory, str(step)).unlink()
    return run


def is_a3c(run: Path) -> bool:
    return "-a3c-" in (run / "config.yml").read_text() or "agent_name: a3c" in (run / "config.yml").read_text()


def refused(run: Path, *, resume: bool = True, act: bool = True) -> list[str]:
    """What resuming, loading and evaluating say; each in one line."""
    calls: list[Callable[[], Any]] = []
    if resume:
        calls.append(lambda: a3c_zoo.train(resume=run, steps=200))
    if act:
        calls += [lambda: a3c_zoo.load_agent(run), lambda: api.evaluate(run, episodes=1)]
    messages = []
    for call in calls:
        with pytest.raises(RunDirectoryError) as raised:
            call()
        messages.append(str(raised.value))
        assert "\n" not in messages[-1]
        assert len(messages[-1]) < 600
    return messages


def changed(run: Path, change: Change) -> Path:
    path = checkpoint_file(RunDirectory(run), "final")
    content = checkpoint_bytes.read_content(path)
    change(content)
    write_content(path, content)
    return run


def test_an_empty_agent(run: Path) -> None:
    """It once meant fresh weights."""
    refused(changed(run, lambda content: content.update(agent={})))


@pytest.mark.parametrize("key", ["session", "steps", "policy", "optimizer", "model", "counters", "workers", "spaces"])
def test_a_missing_key(key: str, run: Path) -> None:
    content = checkpoint_bytes.read_content(checkpoint_file(RunDirectory(run), "final"))
    if key not in content["agent"]:
        pytest.skip("this agent has no such key")
    acts = key in ("policy", "model", "spaces") or (key != "session" and "policy" in content["agent"])
    resumes = key != "spaces"  # random actions need none of the checkpoint's
    if key == "workers" and "model" not in content["agent"]:
        acts = False
    refused(changed(run, lambda content: content["agent"].pop(key)), resume=resumes, act=acts)


def tensors(value: Any, place: str = "") -> dict[str, torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return {place: value}
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return {name: each for key, part in pairs for name, each in tensors(part, f"{place}/{key}").items()}


#: What no checkpoint of the agent can have.
IMPOSSIBLE = {
    ("sb3-a2c", "double"): "torch casts the tensors of its modules and optimizers",
}


@pytest.mark.parametrize("kind", ["one", "longer", "double", "none"])
def test_tensors_of_another_shape_or_type(kind: str, run: Path) -> None:
    """One of each name in each part of the state; a tensor of one element was once copied into all."""
    agent = json.loads((run / "meta.json").read_text())["agent"]
    if (agent, kind) in IMPOSSIBLE:
        pytest.skip(IMPOSSIBLE[agent, kind])
    path = checkpoint_file(RunDirectory(run), "final")
    whole = path.read_bytes()
    found = tensors(checkpoint_bytes.read_content(path)["agent"])
    # An environment's own state is its own.
    names = [name for name, each in found.items() if each.numel() > 1 and "/env/" not in name]
    assert names
    for name in {(name.split("/")[1], name.split("/")[-1].split(".")[-1]): name for name in names}.values():

        def change(content: dict[str, Any], name: str = name) -> None:
            *keys, last = (int(part) if part.isdecimal() else part for part in name.split("/")[1:])
            place = content["agent"]
            for key in keys:
                place = place[key]
            tensor = place[last]
            place[last] = {
                "one": lambda: tensor.reshape(-1)[:1].clone(),
                "longer": lambda: torch.cat((tensor, tensor)),
                "double": lambda: tensor.to(torch.complex64),
                "none": lambda: None,
            }[kind]()

        changed(run, change)
        refused(run, act=name.startswith(("/model", "/policy")))
        path.write_bytes(whole)


def test_a_network_too_large_for_the_memory_is_not_built(run: Path) -> None:
    if not is_a3c(run):
        pytest.skip("for agents with our networks")

    def huge(content: dict[str, Any]) -> None:
        content["agent"]["model"]["spaces"]["observation"] = ["vector", [10**12], "<f4", 0]

    for message in refused(changed(run, huge), resume=False):
        assert "the checkpoint is of another network" in message
    config = run / "config.yml"
    config.write_text(
        config.read_text().replace("- 64\n  - 64", "- 65536\n  - 65536").replace("[64, 64]", "[65536, 65536]")
    )
    changed(run, lambda content: content["agent"]["model"]["spaces"].update(observation=["vector", [4], "<f4", 0]))
    for message in refused(run):
        assert "the checkpoint is of another network" in message


# Bytes


def test_each_flipped_byte_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "step-000000000001.pt"
    content = {"format": 3, "agent": {"tensor": torch.arange(4)}, "session": {"steps": 1}}
    whole = bytes(unchecked_bytes(content))
    path.write_bytes(whole)
    assert read_policy(path).state.steps == 1
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with pytest.raises(RunDirectoryError, match="cannot be read") as raised:
            read_policy(path)
        assert "\n" not in str(raised.value)
    for size in range(0, len(whole), 97):
        path.write_bytes(whole[:size])
        with pytest.raises(RunDirectoryError, match="cannot be read"):
            read_policy(path)


class Calls:
    def __init__(self, call: Any, *arguments: Any) -> None:
        self._reduced = call, arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return self._reduced


@pytest.mark.parametrize("content", [Calls(print, "x"), Calls(bytearray, 1 << 40), Calls(torch.Tensor, 3)])
@pytest.mark.parametrize("name", ["x/data.pkl", "x/DATA.PKL"])
def test_no_pickle_is_loaded(content: Any, name: str, tmp_path: Path) -> None:
    path = tmp_path / "calls.pt"
    with zipfile.ZipFile(path, "w") as written:
        written.writestr(name, pickle.dumps(content, protocol=2))
        written.writestr("x/version", b"3\n")
    with pytest.raises(
        RunDirectoryError,
        match=r"a pickle, .* 0\.1\.0 .*: train the run anew",
    ):
        read_policy(path)
    path.write_bytes(pickle.dumps(content))
    with pytest.raises(RunDirectoryError, match="cannot be read: its header would have "):
        read_policy(path)


def test_lists_within_lists_are_not_written(tmp_path: Path) -> None:
    """2^60 ways through 60 lists, and a list that holds itself."""
    many: list[Any] = []
    for _ in range(60):
        many = [many, many]
    circle: list[Any] = []
    circle.append(circle)
    for agent in (many, circle):
        with pytest.raises(ValueError, match="is nested too deeply, or has too many values"):
            checkpoint_bytes.to_bytes({"format": 3, "agent": {"a": agent}, "session": {"steps": 1}})


@pytest.mark.parametrize("name", ["large.pt", "parameters.safetensors"])
def test_a_file_too_large_for_the_memory(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / name
    path.write_bytes(bytes(1000))
    monkeypatch.setattr(checkpoint_bytes, "available_memory", lambda: 1999)
    with pytest.raises(RunDirectoryError, match=r"it has 1,000 bytes, and 1,999 bytes of memory are free"):
        read_policy(path)
