"""Nodes in turn, owned folders, and what the distribution offers. No Ray."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from importlib import import_module, resources
from importlib.resources.abc import Traversable
from pathlib import Path

import psutil
import pytest
import yaml
from a3c_zoo.errors import ConfigError
from ray_clusters import GONE_LIMIT_S, living, wait_until

from a3c_zoo_ray.nodes import ranks_of
from a3c_zoo_ray.owner import owned_folder
from a3c_zoo_ray.plugin import zoo_agents, zoo_hyperparams


def test_workers_are_shared_out_among_nodes() -> None:
    assert ranks_of(5, 2) == [range(0, 2), range(2, 5)]
    with pytest.raises(ConfigError, match=r"^agent\.nodes: 3 .*: --workers 3"):
        ranks_of(2, 3)


# Nodes in turn

PROGRAM = """
import os, sys
import a3c_zoo, torch
from a3c_zoo.store.checkpoint_bytes import read_content

BASE = {"run.stop_when_solved": False, "run.evaluation_episodes": 1, "run.checkpoint_every_s": 1e6}

def train(env="cartpole", agent="a3c-ray", steps=4000, resume=None, run={}, **keys):
    keys = {f"agent.{name}": value for name, value in keys.items()}
    if resume:
        outcome = a3c_zoo.train(resume=resume, steps=steps)
    else:
        own = {} if env == "cartpole" else {"network.normalize_observations": True}
        options = BASE | keys | own | run | {"run.workers": 3 if own else 2}
        outcome = a3c_zoo.train(env, agent=agent, seed=3, steps=steps, serial=True, overrides=options)
    state = read_content(sorted(outcome.run.glob("checkpoints/*.pt"))[-1])["agent"]
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
# Every node knows the observations and the returns of all: each step was seen once.
wide = train("gym:Acrobot-v1", nodes=3, exchange_updates=2, steps=2000)
assert wide[1]["model"]["statistics"].shape[0] == 3
assert wide[1]["reward_statistics"][:, 1].tolist() == wide[1]["counters"][:, 0].tolist()
resumed = train(resume=wide[0].run, steps=6000)
assert resumed[0].steps >= 6000 and int(resumed[1]["counters"][:, 0].sum()) == resumed[0].steps
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
BREAKS = """
import gymnasium
from a3c_zoo import EnvEntry, hookimpl
from gymnasium.vector import AutoresetMode, SyncVectorEnv


@hookimpl
def zoo_envs():
    return [EnvEntry("breaks", "breaks:make")]


class Breaks(gymnasium.Wrapper):
    count = 0

    def step(self, action):
        Breaks.count += 1
        if Breaks.count == 1500:
            raise RuntimeError("it broke")
        return super().step(action)


def make(num_envs, seed):
    makers = [lambda: Breaks(gymnasium.make("CartPole-v1"))] * num_envs
    return SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)
"""
#: After a failure the checkpoint has the moments that belong to its parameters, as that of `a3c` has.
FAILURE = """
from pathlib import Path

def failed(agent, name=None, **keys):
    name = name or agent
    if "breaks" in sys.modules:
        sys.modules["breaks"].Breaks.count = 0
    try:
        options = BASE | {"run.workers": 1, "env.num_envs": 4} | keys
        a3c_zoo.train("breaks", name=name, agent=agent, seed=3, steps=4000, serial=True, overrides=options)
    except Exception as error:
        assert "it broke" in str(error), error
    newest = sorted(Path("runs", name, "checkpoints").glob("*.pt"))[-1]
    return read_content(newest)["agent"]

local, node = failed("a3c"), failed("a3c-ray", **{"agent.exchange_updates": 1})
same(local["optimizer"], node["optimizer"])
same(local["model"], node["model"])
assert local["optimizer"]["exp_avg"].any()

# The second node fails in its third rollout: what the first one has told in the same turn is kept.
two = failed("a3c-ray", "two", **{"agent.nodes": 2, "run.workers": 2, "agent.n_steps": 64})
rows = Path("runs/two/monitor.csv").read_text().splitlines()[2:]
assert two["counters"][:, 0].tolist() == [3 * 256, 2 * 256]
assert len(rows) == two["counters"][:, 3].sum() > 20
"""
#: What a node tells at its end is what its servers have: the run has it if they end a moment later.
LAST_WORDS = """
from a3c_zoo_ray import nodes

told = []

class Listened(nodes.Node):
    def stop(self):
        told.append(super().stop())
        return told[-1]

nodes.Node = Listened
state = train(exchange_updates=50, steps=2000)[1]
assert told[-1].parameters.tobytes() == state["model"]["parameters"].numpy().tobytes()
"""
PROGRAMS = {
    "failure": FAILURE,
    "same bits as a3c": SAME_BITS,
    "several nodes": SEVERAL_NODES,
    "buffers": BUFFERS,
    "last words": LAST_WORDS,  # it changes a class
}
#: Runs programs one after the other, each in a folder of its own; prints the tracebacks of those that fail.
ONE_BY_ONE = """
import json, os, sys, traceback
failed = {}
for name, program in json.loads(sys.argv[1]).items():
    os.mkdir(name)
    os.chdir(name)
    try:
        exec(program, {"__name__": "__main__"})
    except BaseException:
        failed[name] = traceback.format_exc()
    os.chdir("..")
print(json.dumps(failed))
"""


def test_nodes_in_turn(environ: dict[str, str], tmp_path: Path) -> None:
    files = {tmp_path / "normed.py": NORMED, tmp_path / "breaks.py": BREAKS}
    for path, text in files.items():
        path.write_text(text)
    environ = environ | {"A3C_ZOO_PLUGIN_FILES": os.pathsep.join(map(str, files))}
    programs = json.dumps({name: PROGRAM + program for name, program in PROGRAMS.items()})
    command = [sys.executable, "-P", "-c", ONE_BY_ONE, programs]
    result = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    for name, failure in json.loads(result.stdout.splitlines()[-1]).items():
        pytest.fail(f"{name}: {failure}")


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


def test_an_owned_folder_that_cannot_be_made_says_why(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=f"{tmp_path}/none"), owned_folder("a3c-", f"{tmp_path}/none"):
        pytest.fail("there is no such folder")


def test_no_folder_is_given_if_its_process_ends_too_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty path would name the current folder."""
    monkeypatch.setattr(sys, "executable", "true")
    with pytest.raises(OSError, match="has ended before it made one"), owned_folder("a3c-", str(tmp_path)):
        pytest.fail("there is no folder")


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
        values = yaml.safe_load(theirs[name.replace("a3c-ray", "a3c")].read_text())
        values["agent"].pop("teams", None)  # a node's workers each learn by themselves
        assert yaml.safe_load(file.read_text()) == values


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
