"""Checkpoints: whole or not there; what they hold has names and types; nothing in them can run code."""

from __future__ import annotations

import copy
import errno
import functools
import hashlib
import json
import math
import os
import struct
import threading
import time
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest
import torch
from safetensors import safe_open

from a3c_zoo.errors import RunDirectoryError
from a3c_zoo.files import open_file
from a3c_zoo.records import Evaluation
from a3c_zoo.store import checkpoint_bytes
from a3c_zoo.store.checkpoint_evaluations import CheckpointEvaluation, evaluations_of, keep_evaluations
from a3c_zoo.store.checkpoints import (
    DamagedCheckpointError,
    EvaluatorState,
    PolicyState,
    ResourceState,
    RunState,
    WindowState,
    checkpoint_file,
    checkpoint_steps,
    load_policy_state,
    read_policy,
    read_state,
    resumable_checkpoint,
    step_file,
    write_checkpoint,
)
from a3c_zoo.store.directory import RunDirectory
from a3c_zoo.store.rewind import go_on_from, set_aside
from tests.shared import closed
from tests.test_recorder import file_size_limit
from tests.toys_runs import Running

STATE = RunState(
    steps=7,
    episodes=3,
    updates=2,
    evaluations=1,
    next_check=100,
    window=WindowState([1.0, 0.5], [3, 4]),
    monitor_position=120,
    seconds={"startup": 1.5, "training": 2.5},
    resources=ResourceState(3.5, None),
    evaluation=Evaluation(2, 1.0, 0.5, 0.5, 1.5, 3.0, False, 0.1),
    evaluator=EvaluatorState(4, 5, 0.5, 60),
)
#: What is written, key by key.
FORMAT_3: dict[str, Any] = {
    "format": 3,
    "agent": {"numbers": [1, 2**127, 0.5], "tensor": torch.arange(3), "nested": {"text": "x", "nothing": None}},
    "session": {
        "steps": 7,
        "episodes": 3,
        "updates": 2,
        "evaluations": 1,
        "next_check": 100,
        "evaluation": {
            "episodes": 2,
            "mean_return": 1.0,
            "std_return": 0.5,
            "min_return": 0.5,
            "max_return": 1.5,
            "mean_length": 3.0,
            "deterministic": False,
            "seconds": 0.1,
        },
        "window": {"returns": [1.0, 0.5], "lengths": [3, 4]},
        "monitor_position": 120,
        "seconds": {"startup": 1.5, "training": 2.5},
        "evaluator": {"number": 4, "at_step": 5, "at_s": 0.5, "position": 60},
        "resources": {"cpu_s": 3.5, "peak_memory_mib": None},
    },
}
WRITER = """
import sys, torch
from dataclasses import replace
from pathlib import Path
from a3c_zoo.store.checkpoints import step_file, write_checkpoint
from a3c_zoo.store.directory import RunDirectory
from tests.test_checkpoints import STATE

directory, step = RunDirectory(Path(sys.argv[1])), 0
while True:
    step += 1
    agent = {"tensor": torch.full((1_000_000,), step)}
    write_checkpoint(step_file(directory, step), agent, replace(STATE, steps=step))
"""


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    (tmp_path / "checkpoints").mkdir()
    return RunDirectory(tmp_path)


def save(directory: RunDirectory, step: int, **agent: Any) -> Path:
    path = step_file(directory, step)
    write_checkpoint(path, agent, replace(STATE, steps=step))
    return path


def test_save_and_load(directory: RunDirectory) -> None:
    path = save(directory, 7, tensor=torch.arange(3), more=[1, {"a": None}])
    save(directory, 12)
    assert path.name == "step-000000000007.pt"
    assert path.stat().st_mode & 0o777 == 0o666 & ~current_umask()
    assert checkpoint_steps(directory) == [7, 12]
    saved = load_policy_state(directory, "7")
    assert saved.agent.pop("tensor").tolist() == [0, 1, 2]
    assert saved.agent == {"more": [1, {"a": None}]}
    assert saved.state == PolicyState(7, STATE.seconds)
    assert resumable_checkpoint(directory).state == replace(STATE, steps=12)
    assert load_policy_state(directory).state == load_policy_state(directory, "000012").state


def current_umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask


def write(path: Path, content: dict[str, Any]) -> None:
    """Writes a file with any content."""
    path.write_bytes(checkpoint_bytes.to_bytes(content))


def test_format_3_is_read_and_written_key_by_key(directory: RunDirectory) -> None:
    path = directory.checkpoints / "step-000000000007.pt"
    write(path, FORMAT_3)
    checkpoint = resumable_checkpoint(directory)
    assert checkpoint.state == STATE
    assert checkpoint.agent["numbers"] == FORMAT_3["agent"]["numbers"]
    write_checkpoint(path, checkpoint.agent, checkpoint.state)
    written = checkpoint_bytes.read_content(path)
    session = copy.deepcopy(FORMAT_3["session"]) | {"evaluation_step": None}
    session["evaluation"]["agent_returns"] = {}  # these came later, and older files have none
    session["window"]["agent_returns"] = []
    assert {**written, "agent": None} == {**FORMAT_3, "agent": None, "session": session}
    assert written["agent"].keys() == FORMAT_3["agent"].keys()


def test_a_file_is_safetensors(directory: RunDirectory) -> None:
    """Any reader of the format reads the tensors, and JSON tells the rest."""
    path = save(directory, 7, tensor=torch.arange(3), more={"a": [1.5, None, "x"]})
    with safe_open(path, "pt") as file:
        assert {name: file.get_tensor(name).tolist() for name in file.keys()} == {"0": [0, 1, 2]}  # noqa: SIM118
        content = json.loads(file.metadata()["a3c_zoo"].partition("\n")[2])
    assert content["agent"] == {"tensor": {"$tensor": 0}, "more": {"a": [1.5, None, "x"]}}
    assert content["session"]["steps"] == 7


def test_a_policy_alone(directory: RunDirectory) -> None:
    path = directory.checkpoints / "best.pt"
    write(path, {"format": 3, "agent": {"a": 1}, "session": {"steps": 7}})
    assert read_policy(path).state == PolicyState(7)
    with pytest.raises(RunDirectoryError, match=r"best\.pt: .* where the run stood"):
        resumable_checkpoint(directory, "best")
    write_checkpoint(path, {"a": 1}, PolicyState(7, greedy_return=1.0, sampled_return=2.0))
    assert load_policy_state(directory, "best").state == PolicyState(7, {}, 1.0, 2.0)
    os.rename(path, directory.checkpoints / "step-000000000007.pt")
    with pytest.raises(RunDirectoryError, match=r"cannot be read: it has no session\.episodes$"):
        resumable_checkpoint(directory)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("steps", None, "it has no session.steps"),
        ("window", {"returns": [1.0]}, "it has no session.window.lengths"),
        ("steps", "many", "session.steps: Input should be a valid integer, unable to parse string as an integer"),
        ("window", {"returns": [1.0, "x"], "lengths": []}, "session.window.returns.1: Input should be a valid number"),
        ("resources", 5, "session.resources: Input should be a dictionary"),
    ],
)
def test_a_wrong_key_is_named(key: str, value: Any, message: str, directory: RunDirectory) -> None:
    session = FORMAT_3["session"] | {key: value}
    session = {name: each for name, each in session.items() if each is not None}
    write(directory.checkpoints / "step-000000000007.pt", FORMAT_3 | {"session": session})
    with pytest.raises(RunDirectoryError) as raised:
        resumable_checkpoint(directory)
    assert f"step-000000000007.pt cannot be read: {message}" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_folder_that_may_not_be_looked_into(directory: RunDirectory) -> None:
    save(directory, 7)
    with closed(directory.checkpoints):
        for find in (checkpoint_file, resumable_checkpoint, load_policy_state):
            for which in ("final", "best", "7"):
                with pytest.raises(RunDirectoryError, match=r"checkpoints cannot be read: Permission denied$"):
                    find(directory, which)


def test_an_unknown_step(directory: RunDirectory) -> None:
    with pytest.raises(RunDirectoryError, match=r"has no checkpoint$"):
        resumable_checkpoint(directory)
    save(directory, 7)
    for which in ("8", "last", "-7", "7.0", ""):
        with pytest.raises(RunDirectoryError, match=f"has no checkpoint '{which}'; it has: final, 7"):
            checkpoint_file(directory, which)


def test_what_looks_like_a_checkpoint(directory: RunDirectory) -> None:
    save(directory, 7)
    for name in (".step-000000000009.pt.tmp", "step-000000000009.pt.tmp", "step-9.pt.old", "step-x.pt", "best.pt"):
        (directory.checkpoints / name).write_bytes(b"half")
    assert checkpoint_steps(directory) == [7]


@pytest.mark.parametrize("damage", ["empty", "short", "bit", "text", "header", "part", "agent"])
def test_a_damaged_checkpoint(damage: str, directory: RunDirectory) -> None:
    save(directory, 5)
    path = save(directory, 7, data=torch.arange(1000))
    match damage:
        case "empty":
            path.write_bytes(b"")
        case "short":
            path.write_bytes(path.read_bytes()[:-100])
        case "text":
            path.write_text("hello\n")
        case "bit":
            data = bytearray(path.read_bytes())
            data[-1] ^= 1
            path.write_bytes(data)
        case "header":
            path.write_bytes((1 << 40).to_bytes(8, "little") + path.read_bytes()[8:])
        case "part":
            write(path, {"format": 3, "agent": {}})
        case "agent":
            write(path, FORMAT_3 | {"agent": 3})
    for which in ("final", "7"):
        with pytest.raises(RunDirectoryError, match=r"step-000000000007.pt cannot be read") as raised:
            load_policy_state(directory, which)
        assert "\n" not in str(raised.value)
        assert str(raised.value).endswith(
            ". That of step 5 can be read: move the newer files away, or --checkpoint 5 where there is one"
        ) == (which == "final")
        assert "weights_only" not in str(raised.value)
    assert load_policy_state(directory, "5")
    with pytest.raises(RunDirectoryError, match=r"step-000000000007.pt cannot be read"):
        resumable_checkpoint(directory, "7")
    resumed = resumable_checkpoint(directory)
    assert resumed.state.steps == 5
    assert [("step-000000000007.pt cannot be read" in why) for why in resumed.damaged] == [True]


def test_a_damaged_checkpoint_names_only_one_that_can_be_read(directory: RunDirectory) -> None:
    three, five, seven = (save(directory, step) for step in (3, 5, 7))
    for damaged, hint in (
        ([seven, five], "That of step 3 can be read: move the newer files away, or --checkpoint 3 where there is one"),
        ([three], "No older one can be read"),
    ):
        for path in damaged:
            path.write_bytes(b"")
        with pytest.raises(RunDirectoryError, match=r"step-000000000007.pt cannot be read: .*\. " + hint + "$"):
            load_policy_state(directory)


def test_a_checkpoint_of_another_format(directory: RunDirectory) -> None:
    write(directory.checkpoints / "step-000000000007.pt", {"format": 99})
    with pytest.raises(RunDirectoryError, match=r"format 99; .* reads 3\b"):
        resumable_checkpoint(directory)


def test_what_a_file_tells_of_the_run_is_read_without_its_tensors(directory: RunDirectory) -> None:
    path = save(directory, 7, data=torch.arange(1000))
    assert read_state(path, RunState) == replace(STATE, steps=7) == resumable_checkpoint(directory).state
    assert read_state(path, PolicyState) == read_policy(path).state
    data = bytearray(path.read_bytes())
    data[-1] ^= 1  # the last byte is that of a tensor
    path.write_bytes(data)
    with pytest.raises(RunDirectoryError, match="it has changed since it was written"):
        read_policy(path)
    assert read_state(path, RunState).steps == 7
    length = int.from_bytes(data[:8], "little")
    for broken in (b"", data[:4], data[: 8 + length // 2], data[:8] + b"{}".ljust(length)):
        path.write_bytes(broken)
        with pytest.raises(DamagedCheckpointError, match=r"checkpoint .*step-000000000007\.pt cannot be read: its? h"):
            read_state(path, RunState)


def test_a_checkpoint_of_0_1_0_is_not_loaded_and_not_damaged(directory: RunDirectory) -> None:
    save(directory, 5)
    torch.save({"format": 1, "agent": {"code": Path.cwd}, "session": {}}, step_file(directory, 7))
    for read in (resumable_checkpoint, load_policy_state, go_on_from):
        with pytest.raises(RunDirectoryError, match=r"is a pickle, as a3c-zoo 0\.1\.0 wrote it, .*: train") as raised:
            read(directory)
        assert not isinstance(raised.value, DamagedCheckpointError)
        assert "\n" not in str(raised.value)
    assert checkpoint_steps(directory) == [5, 7]  # nothing is set aside


def test_a_full_disk_costs_nothing_that_was_there(directory: RunDirectory) -> None:
    save(directory, 7, data=torch.arange(1000))
    with file_size_limit(5000):
        for step in (7, 8):
            with pytest.raises(RunDirectoryError, match=rf"cannot write .*step-00000000000{step}.pt: File too large"):
                save(directory, step, data=torch.arange(10_000))
    assert [path.name for path in directory.checkpoints.iterdir()] == ["step-000000000007.pt"]
    assert len(resumable_checkpoint(directory).agent["data"]) == 1000


def test_what_is_written_is_read_to_the_bit(directory: RunDirectory) -> None:
    flat = torch.arange(6.0)
    numbers = [0.1, -0.0, 1e-320, 2**64, -(2**127), True, None]
    agent: dict[str, Any] = {
        "bytes": b"a\xff",
        "numbers": numbers,
        "text": "\ud800 λ \x00",
        "tuple": (1, (2.5, "x"), []),
        "optimizer": {0: {"step": torch.tensor(3.0)}, 7: {}},
        "$dollar": {"$tensor": 1, "": 2},
        "ordered": OrderedDict(b=1, a=2),
        "size": flat.shape,
        "kinds": {str(kind): torch.tensor([0, 1, 3]).to(kind) for kind in KINDS},
        "views": [flat, flat[1:3], flat.view(2, 3).T, flat],
        "expanded": torch.tensor([2.0]).expand(10_000),
        "empty": torch.zeros(0, 3),
        "parameter": torch.nn.Parameter(torch.ones(2)),
    }
    save(directory, 7, **agent)
    read = resumable_checkpoint(directory).agent
    for name in ("bytes", "text", "tuple", "$dollar", "ordered"):
        assert read[name] == agent[name]
        assert type(read[name]) is type(agent[name]) or name == "ordered"
    assert list(map(repr, read["numbers"])) == list(map(repr, numbers))
    assert list(read["ordered"]) == ["b", "a"]
    assert read["size"] == (6,)
    assert list(read["optimizer"]) == [0, 7]
    assert read["optimizer"][0]["step"].shape == ()
    for name, tensor in read["kinds"].items():
        assert (str(tensor.dtype), tensor.tolist()) == (name, agent["kinds"][name].tolist())
    assert [each.tolist() for each in read["views"]] == [each.tolist() for each in agent["views"]]
    assert read["expanded"].sum() == 20_000
    assert read["empty"].shape == (0, 3)
    assert not read["parameter"].requires_grad
    read["views"][0].zero_()  # tensors that are read share nothing
    assert read["views"][3].tolist() == flat.tolist()


DEEP: Any = functools.reduce(lambda inner, _: [inner], range(100), [])  # type: ignore[arg-type, return-value]
#: 2^100 ways through a hundred lists, and a dictionary that holds itself.
MANY: Any = functools.reduce(lambda inner, _: [inner, inner], range(100), [])  # type: ignore[arg-type, return-value]
ITSELF: dict[str, Any] = {"weights": 1}
ITSELF["itself"] = ITSELF
KINDS = (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.uint8, torch.bool, torch.uint16)


@pytest.mark.parametrize(
    ("state", "value", "reason"),
    [
        (STATE, frozenset([1]), "agent.value is of type frozenset"),
        (STATE, {1, 2}, "agent.value is of type set"),
        (STATE, bytearray(b"a"), "agent.value is of type bytearray"),
        (STATE, np.float64(1), "agent.value is of type numpy.float64"),
        (STATE, ..., "agent.value is of type ellipsis"),
        (STATE, threading.Lock(), "agent.value is of type _thread.lock"),
        (STATE, [{"a": lambda: 1}], "agent.value.0.a is of type function"),
        (STATE, {1.5: 1}, "a dictionary has the key 1.5; words and whole numbers may be keys"),
        (STATE, {2**61: 1}, "a dictionary has the key 2305843009213693952"),
        (STATE, torch.eye(2).to_sparse(), "agent.value is no plain tensor"),
        (STATE, DEEP, "agent.value.0.*is nested too deeply"),
        (STATE, MANY, "agent.value.0.*is nested too deeply"),
        (STATE, ITSELF, "agent.value.itself.*is nested too deeply"),
        (STATE, "x" * (9 << 20), r"its values that are no tensors would take 9,437,\d+ bytes, and at most 8,388,608"),
        (replace(STATE, window=WindowState([1.0, math.inf], [3, 4])), 1, "session.window.returns.1: .*finite number"),
    ],
)
def test_what_could_not_be_read_is_not_written(
    state: RunState, value: Any, reason: str, directory: RunDirectory
) -> None:
    message = f"step-000000000007.pt is not written, for it could not be read again: {reason}"
    with pytest.raises(RunDirectoryError, match=message) as raised:
        write_checkpoint(step_file(directory, 7), {"value": value}, state)
    assert "\n" not in str(raised.value)
    assert checkpoint_steps(directory) == []


def test_what_is_too_large_to_be_read_is_not_written(directory: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    most = save(directory, 7, data="").stat().st_size
    monkeypatch.setattr(checkpoint_bytes, "MAX_CHECKPOINT", most)
    save(directory, 7, data="")
    written = read_policy(step_file(directory, 7)).agent
    reason = rf"could not be read again: it would have [\d,]+ bytes, and at most {most:,} are read"
    with pytest.raises(RunDirectoryError, match=reason):
        save(directory, 7, data="0" * 1000)
    assert read_policy(step_file(directory, 7)).agent == written


@pytest.mark.parametrize(
    "error",
    [
        *(OSError(number, os.strerror(number)) for number in (errno.ESTALE, errno.EIO, errno.EACCES, errno.EMFILE)),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
    ],
)
def test_a_file_that_may_be_whole_stays(
    error: Exception, directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in (5, 7):
        save(directory, step)
    write_checkpoint(directory.best_file, {"a": 1}, PolicyState(5))

    def fail(path: Path, limit: int) -> IO[bytes]:
        if path.name in ("step-000000000007.pt", "best.pt"):
            raise error
        return open_file(path, limit=limit)

    monkeypatch.setattr(checkpoint_bytes, "open_file", fail)
    for use in (lambda: go_on_from(directory), lambda: set_aside(directory, 7)):
        with pytest.raises(RunDirectoryError, match="cannot be read") as raised:
            use()
        assert not isinstance(raised.value, DamagedCheckpointError)
    assert not list(directory.checkpoints.glob("set-aside-*"))


def test_a_file_over_four_gib_is_damaged(directory: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of just four may be whole, and is too large for this memory."""
    path = save(directory, 7)
    monkeypatch.setattr(checkpoint_bytes, "available_memory", lambda: 1 << 30)
    os.truncate(path, 4 << 30)  # sparse: it takes no room
    with pytest.raises(RunDirectoryError, match=r"4,294,967,296 bytes.* 1,073,741,824 bytes of memory"):
        read_policy(path)
    os.truncate(path, (4 << 30) + 1)
    with pytest.raises(DamagedCheckpointError, match=r"step-000000000007.pt cannot be read: .*larger than 4,096 MiB"):
        read_policy(path)


def test_a_file_that_needs_more_than_the_free_memory_is_not_read(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be whole, so training does not go on from the one before it."""
    save(directory, 5)
    free = 27 * save(directory, 7, data=torch.arange(1000)).stat().st_size  # twice, and 25 times its header at most
    monkeypatch.setattr(checkpoint_bytes, "available_memory", lambda: free)
    assert len(resumable_checkpoint(directory).agent["data"]) == 1000
    free -= 1
    with pytest.raises(RunDirectoryError, match=f"it has .* bytes, and {free:,} bytes of memory are free") as raised:
        resumable_checkpoint(directory)
    assert not isinstance(raised.value, DamagedCheckpointError)


def test_training_goes_on_from_no_policy_whose_rows_are_cut(directory: RunDirectory) -> None:
    """The best policy may be later than the newest checkpoint, as after kill -9."""
    assert STATE.evaluator is not None
    (directory.home / "monitor.csv").write_text("\n" * STATE.monitor_position)
    (directory.home / "evaluations.csv").write_text("\n" * STATE.evaluator.position)
    save(directory, 5)
    write_checkpoint(directory.best_file, {"a": 1}, PolicyState(7, {}, 1.0, 2.0, STATE))
    assert go_on_from(directory, "best")[0].state == STATE
    go_on_from(directory)
    best = read_policy(directory.best_file)
    assert (best.agent, best.state) == ({"a": 1}, PolicyState(7, {}, 1.0, 2.0))
    with pytest.raises(RunDirectoryError, match=r"it does not say where the run stood\. Choose a step"):
        go_on_from(directory, "best")


def test_no_evaluation_behind_the_step_stays(directory: RunDirectory) -> None:
    """The user has moved the newest checkpoint away. Its evaluation is not that of the next one at that step."""
    save(directory, 5)
    for step in (5, 7):
        played = Evaluation(1, 2.0, 0.0, 2.0, 2.0, 3.0, True, 0.1)
        keep_evaluations(directory.home, 1, [CheckpointEvaluation(step, float(step), played)], seed=1)
        folder = set_aside(directory, 5)
        assert (folder is not None) == (step == 7)
    assert folder is not None
    assert [each.steps for each in evaluations_of(folder)] == [5, 7]
    assert evaluations_of(directory.home) == ()


def test_a_disk_that_is_full_gets_no_part_of_a_copy(directory: RunDirectory) -> None:
    (directory.home / "monitor.csv").write_bytes(bytes(100_000))
    save(directory, 7)
    with file_size_limit(50_000), pytest.raises(RunDirectoryError, match=r"cannot write .*: File too large"):
        set_aside(directory, 5)
    assert [path.name for path in directory.checkpoints.iterdir()] == ["step-000000000007.pt"]


def test_killed_while_writing(directory: RunDirectory, tmp_path: Path) -> None:
    """kill -9 in a loop that does nothing but write: whatever has a final name is whole."""
    with Running(WRITER, tmp_path, folder=tmp_path, program=("-c",)) as running:
        running.wait_until(lambda: len(checkpoint_steps(directory)) >= 5)
        running.process.kill()
        running.exit_status()
    steps = checkpoint_steps(directory)
    assert steps == list(range(1, len(steps) + 1))
    for step in steps:
        assert (load_policy_state(directory, str(step)).agent["tensor"] == step).all()


def file_of(text: str, tensors: str = "", data: bytes = b"") -> bytes:
    """A file with this metadata, whatever it says, and its digest if it has no tensors. tensors: places, as JSON."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    metadata = json.dumps({"a3c_zoo": f"{digest}\n{text}"})
    header = f'{{"__metadata__": {metadata}{tensors and ", " + tensors}}}'.encode()
    return struct.pack("<Q", len(header)) + header + data


def around(agent: str) -> str:
    return f'{{"format": 3, "agent": {agent}, "session": {{"steps": 7}}}}'


FLOATS = '"0": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}'
#: Files that once took any time or memory in pickles, or that a reader of this format may believe.
HOSTILE = {
    "deep": file_of(around('{"a": ' * 200_000 + "1" + "}" * 200_000)),
    "deep values": file_of(around("[" * 900 + "]" * 900)),
    "digits": file_of(around("9" * 5_000)),
    "keys that collide": file_of(
        around('{"$pairs": [' + ", ".join(f"[{n * (2**61 - 1)}, 0]" for n in range(1, 200_000)) + "]}")
    ),
    "a tensor twice": file_of(around('{"a": {"$tensor": 0}, "b": {"$tensor": 0}}'), FLOATS, b"\0" * 4),
    "no such tensor": file_of(around('{"a": {"$tensor": 5}}')),
    "a tensor without a name": file_of(around("{}"), FLOATS, b"\0" * 4),
    "bytes": file_of(around('{"$bytes": "€"}')),
    "pairs": file_of(around('{"$pairs": [[1, 2], 3]}')),
    "a list as a key": file_of(around('{"$pairs": [[[1], 2]]}')),
    "another word": file_of(around('{"$import": "os"}')),
    "huge shape": file_of(around("{}"), FLOATS.replace("[1]", "[1000000000000]"), b"\0" * 4),
    "places that overlap": file_of(around("{}"), f"{FLOATS}, {FLOATS.replace('0', '1', 1)}", b"\0" * 4),
    "a hole": file_of(around("{}"), FLOATS, b"\0" * 400),
    "no metadata": struct.pack("<Q", 2) + b"{}",
    "metadata of another kind": struct.pack("<Q", 31) + b'{"__metadata__": {"a3c_zoo": 5}}'[:31],
    "a list": file_of("[1, 2]"),
    "another digest": file_of(around("{}")).replace(b'"steps', b'"stepz').replace(b"steps", b"stepz"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_file_is_one_line_in_little_time(kind: str, directory: RunDirectory) -> None:
    save(directory, 5)
    step_file(directory, 7).write_bytes(HOSTILE[kind])
    start_s = time.process_time()
    with pytest.raises(DamagedCheckpointError, match=r"step-000000000007.pt cannot be read: ") as raised:
        read_policy(step_file(directory, 7))
    assert time.process_time() - start_s < 10
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 600
    assert resumable_checkpoint(directory).state.steps == 5
