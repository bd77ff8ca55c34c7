"""The exchange against numbers worked out by hand, the nodes in turn, and what the distribution offers. No Ray."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib import import_module, resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import cast

import numpy as np
import psutil
import pytest
import yaml
from a3c_zoo.config import Config
from a3c_zoo.engines import TrainingJob
from a3c_zoo.errors import ConfigError, WorkerError
from ray_clusters import GONE_LIMIT_S, living, wait_until

from a3c_zoo_ray.engine import Machine, difference, free_machine
from a3c_zoo_ray.exchange import Exchange, Message, Rows, Seen, Shard, pack, slices_of, unpack
from a3c_zoo_ray.job import Piece, order_of, pieces_of, write_pieces
from a3c_zoo_ray.nodes import ranks_of
from a3c_zoo_ray.plugin import zoo_agents, zoo_hyperparams

NO_ROWS = Rows(0, np.zeros((1, 5), np.int64))


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def swap(node: Exchange, *shards: Shard, updates: int = 1, is_short: bool = False) -> None:
    node.take([s.exchange(m) for s, m in zip(shards, node.messages(updates, NO_ROWS, is_short), strict=True)])


# The exchange


def test_two_nodes_add_what_they_learn() -> None:
    shard, a, b = Shard(floats(1, 2)), floats(1, 2), floats(1, 2)
    one, two = Exchange(a, 1), Exchange(b, 1)
    swap(one, shard)
    swap(two, shard)
    a += floats(0.5, 0)
    swap(one, shard)
    assert shard.values().tolist() == a.tolist() == [1.5, 2]
    b += floats(0.25, 1)
    swap(two, shard)  # adds (0.25, 1) and takes (0.5, 0)
    assert shard.values().tolist() == b.tolist() == [1.75, 3]
    assert a.tolist() == [1.5, 2]
    swap(one, shard)
    assert a.tolist() == [1.75, 3]


def test_what_workers_learn_during_an_exchange_is_kept() -> None:
    shard, a = Shard(floats(1)), floats(1)
    node, other = Exchange(a, 1), Exchange(floats(1), 1)
    swap(node, shard)
    swap(other, shard)
    shard.exchange(Message(floats(10), 1, Seen(0, 0)))
    a += 2
    messages = node.messages(1, NO_ROWS, False)
    a += 4
    node.take([shard.exchange(messages[0])])
    assert shard.values().tolist() == [13]
    assert a.tolist() == [17]  # the server's 13, and 4 that it does not have yet
    assert not node.is_settled()
    swap(node, shard)
    assert shard.values().tolist() == [17]
    assert node.is_settled()


def test_the_answer_has_no_parameters_if_nobody_else_has_changed_them() -> None:
    shard, a = Shard(floats(1)), floats(1)
    node = Exchange(a, 1)
    first = shard.exchange(node.messages(0, NO_ROWS, False)[0])
    assert first.values is not None
    node.take([first])
    a += 1
    assert shard.exchange(node.messages(1, NO_ROWS, False)[0]).values is None


def test_one_node_gets_its_own_parameters_bit_by_bit() -> None:
    """The first sum of two float32 may be rounded; the exchange after it is exact."""
    random = np.random.default_rng(0)
    start = (random.standard_normal(100_000) * 10.0 ** random.integers(-20, 3, 100_000)).astype(np.float32)
    shard, own = Shard(start), start.copy()
    node = Exchange(own, 1)
    swap(node, shard)
    for _ in range(5):
        own += (random.standard_normal(100_000) * 10.0 ** random.integers(-20, 3, 100_000)).astype(np.float32)
        kept = own.copy()
        swap(node, shard)
        swap(node, shard, updates=0)
        assert own.tobytes() == kept.tobytes() == shard.values().tobytes()
        assert node.is_settled()


def test_bfloat16_rounds_to_the_nearest_and_nothing_is_lost() -> None:
    assert unpack(pack(floats(1.0, -3.0, 0.0, 1.00390625, 1.01171875), True)).tolist() == [1, -3, 0, 1.0, 1.015625]
    shard, own = Shard(floats(0)), floats(0)
    node = Exchange(own, 1)
    swap(node, shard)
    for _ in range(100):
        own += np.float32(0.001)
        swap(node, shard, is_short=True)
    assert abs(shard.values()[0] - 0.1) < 0.001 * 2**-8  # the rounding error of the last change alone
    assert node.traffic.sent_bytes == 4 + 100 * 2


def test_a_change_that_is_too_stale_is_dropped() -> None:
    shard, a = Shard(floats(0), max_staleness=3), floats(0)
    node = Exchange(a, 1)
    swap(node, shard, updates=0)
    shard.exchange(Message(floats(5), 3, Seen(1, 0)))
    a += 1
    swap(node, shard)  # 3 updates of others: in time
    assert shard.values().tolist() == a.tolist() == [6]
    shard.exchange(Message(floats(5), 4, Seen(2, 4)))
    a += 1
    messages = node.messages(1, NO_ROWS, False)
    a += 0.5
    node.take([shard.exchange(messages[0])])
    assert shard.values().tolist() == [11]
    assert a.tolist() == [11.5]  # without the dropped change, with what came after it
    assert (node.traffic.dropped, node.traffic.staleness) == (1, 3 + 4)


def test_shards_hold_slices_of_nearly_equal_length() -> None:
    assert slices_of(7, 3) == [slice(0, 2), slice(2, 4), slice(4, 7)]
    values = np.arange(7, dtype=np.float32)
    shards, own = [Shard(values[part]) for part in slices_of(7, 3)], values.copy()
    node = Exchange(own, 3)
    swap(node, *shards)
    own += 1
    swap(node, *shards)
    assert np.concatenate([shard.values() for shard in shards]).tolist() == own.tolist()


def test_the_first_shard_passes_on_what_workers_count() -> None:
    counters, statistics = np.zeros((2, 5), np.int64), np.zeros((2, 7))
    shard = Shard(floats(0), Rows(0, counters, statistics))
    shard.exchange(Message(floats(0), 0, Seen(), Rows(1, counters[:1] + 4, statistics[:1] + 2)))
    answer = shard.exchange(Message(floats(0), 0, Seen(), Rows(0, counters[:1] + 3, statistics[:1] + 1)))
    assert answer.rows is not None
    assert answer.rows.counters[:, 0].tolist() == [3, 4]
    assert answer.rows.statistics is not None
    assert answer.rows.statistics[:, 0].tolist() == [1, 2]


def test_workers_are_shared_out_among_nodes() -> None:
    assert ranks_of(5, 2) == [range(0, 2), range(2, 5)]
    with pytest.raises(ConfigError, match=r"^agent\.nodes: 3 — there are only 2 workers: --workers 3, or more$"):
        ranks_of(2, 3)


# Nodes in turn

PROGRAM = """
import os, sys
import a3c_zoo, torch

BASE = {"run.stop_when_solved": False, "run.evaluation_episodes": 1, "run.checkpoint_every_s": 1e6}

def train(env="cartpole", agent="a3c-ray", steps=4000, resume=None, run={}, **keys):
    keys = {f"agent.{name}": value for name, value in keys.items()}
    if resume:
        outcome = a3c_zoo.train(resume=resume, steps=steps)
    else:
        own = {} if env == "cartpole" else {"network.normalize_observations": True}
        options = BASE | keys | own | run | {"run.workers": 3 if own else 2}
        outcome = a3c_zoo.train(env, agent=agent, seed=3, steps=steps, serial=True, overrides=options)
    state = torch.load(sorted(outcome.run.glob("checkpoints/*.pt"))[-1], weights_only=True)["agent"]
    with open(outcome.run / "monitor.csv") as rows:
        episodes = [row.split(",")[:2] for row in rows.readlines()[2:]]
    return outcome, state, episodes

def same(one, other, path=""):
    if isinstance(one, dict):
        assert one.keys() == other.keys(), path
        [same(one[name], other[name], f"{path}/{name}") for name in one]
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other), path
        [same(a, b, f"{path}/{number}") for number, (a, b) in enumerate(zip(one, other))]
    elif torch.is_tensor(one):
        assert one.numpy().tobytes() == other.numpy().tobytes(), path
    else:
        assert one == other, path
"""
SAME_BITS = """
local, node = train(agent="a3c"), train(exchange_updates=1)
same(local[1], node[1])
assert local[2] == node[2] and len(node[2]) > 50
half = train(exchange_updates=1, steps=2000)
resumed = train(resume=half[0].run)
half = train(agent="a3c", steps=2000)
same(train(resume=half[0].run)[1], resumed[1])
"""
SEVERAL_NODES = """
keys = dict(nodes=2, exchange_updates=7, compression="bfloat16", shards=3, max_staleness=100)
one, other = train(**keys), train(**keys)
same(one[1], other[1])
assert one[2] == other[2]
lone = train(agent="a3c")
assert (one[1]["model"]["parameters"] != lone[1]["model"]["parameters"]).any()
# Every node knows the observations of all.
wide = train("gym:Acrobot-v1", nodes=3, exchange_updates=2, steps=2000)
assert wide[1]["model"]["statistics"].shape[0] == 3
resumed = train(resume=wide[0].run, steps=3000)
assert resumed[0].steps >= 3000 and int(resumed[1]["counters"][:, 0].sum()) == resumed[0].steps
assert a3c_zoo.load_agent(resumed[0].run).predict([0.0] * 6)[0] in (0, 1, 2)
try:
    train(locking="apply")
except a3c_zoo.ZooError as error:
    assert str(error) == "agent.locking: apply — a3c-ray has no lock: leave it out"
else:
    raise AssertionError
"""


NORMED = """
from a3c_zoo import NetworkEntry, hookimpl


@hookimpl
def zoo_networks():
    return [NetworkEntry("normed", "normed:make", revision=1)]


def make(spec, num_logits, config):
    from a3c_zoo.learning import Split
    from torch import nn

    class Normed(Split):
        def __init__(self):
            super().__init__()
            self.spec, self.norm = spec, nn.BatchNorm1d(spec.num_features)
            self.actor, self.critic = nn.Linear(spec.num_features, num_logits), nn.Linear(spec.num_features, 1)

        def features(self, observations):
            return self.norm(spec.encode(observations))

        def logits(self, outputs):
            return self.actor(outputs)

        def values(self, outputs):
            return self.critic(outputs).squeeze(-1)

    return Normed()
"""
#: One node gives the bits of `a3c`. Of two, the run has the buffers of one, which has made half of the passes.
BUFFERS = """
network = {"network.name": "normed"}
local, node = train(agent="a3c", run=network), train(exchange_updates=1, run=network)
same(local[1], node[1])
passes = int(node[1]["model"]["buffers"]["norm.num_batches_tracked"])
assert passes > 20
half, other = train(agent="a3c", steps=2000, run=network), train(exchange_updates=1, steps=2000, run=network)
same(train(resume=half[0].run)[1], train(resume=other[0].run)[1])
two = train(nodes=2, run=network)
assert 0 < int(two[1]["model"]["buffers"]["norm.num_batches_tracked"]) < 0.75 * passes
"""
PROGRAMS = {"same bits as a3c": SAME_BITS, "several nodes": SEVERAL_NODES, "buffers": BUFFERS}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_nodes_in_turn(program: str, environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "normed.py").write_text(NORMED)
    environ = environ | {"A3C_ZOO_PLUGIN_FILES": str(tmp_path / "normed.py")}
    command = [sys.executable, "-P", "-c", PROGRAM + program]
    result = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=200)
    assert result.returncode == 0, result.stderr


# What travels to and from the machines of an engine


def test_a_run_directory_travels_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("a3c_zoo_ray.job.PIECE_BYTES", 3)
    (tmp_path / "one/checkpoints").mkdir(parents=True)
    files = {"a.txt": b"", "b.txt": b"123", "checkpoints/c.pt": b"1234567"}
    for name, content in files.items():
        (tmp_path / "one" / name).write_bytes(content)
    (tmp_path / "one/link").symlink_to("/etc/passwd")
    pieces = tuple(pieces_of(tmp_path / "one"))
    assert [piece.data for piece in pieces] == [b"", b"123", b"123", b"456", b"7"]
    write_pieces(pieces, tmp_path / "two")
    found = {
        path.relative_to(tmp_path / "two").as_posix(): path.read_bytes() for path in (tmp_path / "two").rglob("*.*")
    }
    assert found == files


def test_a_damaged_piece_and_a_name_that_leads_out_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match=r"^a\.txt has arrived damaged$"):
        write_pieces((Piece("a.txt", b"1", "00"),), tmp_path)
    for name in ("../a.txt", "/tmp/a.txt"):
        with pytest.raises(WorkerError, match="which lies in no run directory"):
            write_pieces((Piece(name, b"1"),), tmp_path)


def test_an_order_has_plugin_files_and_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text("X = 1\n")
    monkeypatch.setenv("A3C_ZOO_PLUGIN_FILES", str(tmp_path / "mine.py"))
    monkeypatch.setenv("A3C_ZOO_PLUGINS", "ppo")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    job = TrainingJob(cast("Config", None), tmp_path, "one", ("cartpole",))
    order = order_of(job)
    assert order.plugin_files == {"mine.py": b"X = 1\n"}
    assert (order.variables["A3C_ZOO_PLUGINS"], order.variables["OMP_NUM_THREADS"]) == ("ppo", "3")
    assert "A3C_ZOO_PLUGIN_FILES" not in order.variables


def test_machines_with_other_versions_are_told_apart() -> None:
    here = {"versions": {"python": "3.11.7", "torch": "2.13.0"}, "plugins": {"ray": "a3c-zoo-ray 1.0.0"}}
    there = {"versions": {"python": "3.11.7", "torch": "2.12.0"}, "plugins": {"ray": "a3c-zoo-ray 1.0.0"}}
    assert difference(Machine("x", "10.0.0.2", 4, here), here) == ""
    line = "torch 2.12.0, this one 2.13.0"
    assert difference(Machine("x", "10.0.0.2", 4, there), here) == line
    alone = {**here, "plugins": {}}
    line = "ray none, this one a3c-zoo-ray 1.0.0"
    assert difference(Machine("x", "10.0.0.2", 4, alone), here) == line


def test_a_run_takes_a_cpu_for_each_worker_and_one_more_if_the_machine_has_it() -> None:
    small, large = Machine("small", "10.0.0.2", 1, {}), Machine("large", "10.0.0.3", 4, {})
    assert [small.room_for(1), large.room_for(1), large.room_for(3), large.room_for(4)] == [1, 2, 4, 4]
    both = [small, large]
    assert free_machine(both, {}, 1) == large
    assert free_machine(both, {"large": 2}, 1) == large
    assert free_machine(both, {"large": 3}, 1) == small  # one CPU is left there: too few for two
    assert free_machine(both, {"large": 4, "small": 1}, 1) is None
    assert free_machine(both, {"large": 2}, 2) is None  # the small one has fewer CPUs than workers
    assert free_machine(both, {}, 9) == large  # no machine has so many
    assert free_machine([small], {}, 9) == small
    assert free_machine([], {}, 1) is None


# What is left of a process that is killed

OWNER = """
import subprocess, sys, time
from a3c_zoo_ray.owner import owned_folder
with owned_folder("a3c-", sys.argv[1], grace_s=0.5) as folder:
    own = open(f"{folder}/log", "w")
    writer = subprocess.Popen(["sleep", "300"], stdout=own)
    reader = subprocess.Popen(["sleep", "300"], stdin=open(f"{folder}/log"))
    print(writer.pid, reader.pid, flush=True)
    time.sleep(float(sys.argv[2]))
sys.exit(7)
"""


@pytest.mark.parametrize("is_killed", [False, True])
def test_an_owned_folder_is_gone_with_those_who_write_there(
    is_killed: bool, environ: dict[str, str], tmp_path: Path
) -> None:
    command = [sys.executable, "-c", OWNER, str(tmp_path), "300" if is_killed else "0"]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        writer, reader = map(psutil.Process, map(int, process.stdout.readline().split()))
        if is_killed:
            process.kill()
    assert process.returncode == (-9 if is_killed else 7)
    try:
        wait_until(lambda: not list(tmp_path.iterdir()) and not living([writer]), GONE_LIMIT_S)
        assert living([reader]) == [reader]
    finally:
        reader.kill()


# The distribution


def test_the_entry_point_names_the_plugin() -> None:
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    points = project["entry-points"]["a3c_zoo"]
    assert [import_module(module).zoo_agents() for module in points.values()] == [zoo_agents()]


def test_the_sets_are_those_of_a3c() -> None:
    (entry,) = zoo_hyperparams()
    theirs = {f"{folder.name}/{file.name}": file for folder, file in files_of("a3c_zoo_hyperparams")}
    ours = {f"{folder.name}/{file.name}": file for folder, file in files_of(entry.package)}
    assert {"cartpole/a3c-ray.yml", "gym/a3c-ray.yml", "pong/a3c-ray.yml"} <= ours.keys()
    for name, file in ours.items():
        assert yaml.safe_load(file.read_text()) == yaml.safe_load(theirs[name.replace("a3c-ray", "a3c")].read_text())


def files_of(package: str) -> list[tuple[Traversable, Traversable]]:
    folders = [folder for folder in resources.files(package).iterdir() if folder.is_dir()]
    return [(folder, file) for folder in folders for file in folder.iterdir() if file.name.endswith(".yml")]


def test_listing_imports_nothing_heavy() -> None:
    program = """
import sys, a3c_zoo_ray.plugin, a3c_zoo_ray.config
print(*{"numpy", "gymnasium", "torch", "ray"} & sys.modules.keys())
"""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environ)
    assert result.stdout.split() == []
