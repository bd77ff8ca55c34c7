"""`train --init-from`: a run begins with the parameters of another policy, and with nothing else of it."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gymnasium
import pytest
import torch
from click.testing import CliRunner
from gymnasium.spaces import Discrete
from gymnasium.vector.utils import batch_space

import a3c_zoo
from a3c_zoo import EnvEntry
from a3c_zoo.cli.main import cli
from a3c_zoo.comparison.known_runs import _made_with
from a3c_zoo.errors import ConfigError
from a3c_zoo.records import Outcome
from a3c_zoo.store.checkpoints import checkpoint_steps, resumable_checkpoint
from a3c_zoo.store.directory import RunDirectory
from a3c_zoo.store.run_records import read_runs

#: Updates that change no float32 number but 0.
STILL = {"optimizer.learning_rate": 1e-30, "optimizer.schedule": "constant"}
SMALL = {"network.hidden_sizes": [8], "num_envs": 4}
NORMALIZED = SMALL | {"network.normalize_observations": True}


def three_actions(num_envs: int, seed: int, **kwargs: Any) -> Any:
    """CartPole with a third action, which is one of the others."""
    env: Any = gymnasium.make_vec("CartPole-v1", num_envs)
    env.single_action_space, env.action_space = Discrete(3), batch_space(Discrete(3), num_envs)
    return env


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("init") / "runs"
    overrides = NORMALIZED | {"optimizer.learning_rate": 0.01}
    a3c_zoo.train("cartpole", serial=True, workers=2, steps=1500, name="source", overrides=overrides, runs_dir=folder)
    return folder


def train(runs: Path, name: str, init_from: str | Path | None = "source", **options: Any) -> Outcome:
    given: dict[str, Any] = {"env": "cartpole", "serial": True, "steps": 400, "seed": 5, "workers": 1}
    given |= {"overrides": NORMALIZED | STILL, **options}
    return a3c_zoo.train(name=name, init_from=init_from, runs_dir=runs, **given)


def state_of(run: Path, which: str = "final") -> dict[str, Any]:
    return resumable_checkpoint(RunDirectory(run), which).agent


def figures(run: str | Path, runs: Path) -> dict[str, Any]:
    found = asdict(a3c_zoo.evaluate(run, episodes=10, seed=9, runs_dir=runs))
    return {key: value for key, value in found.items() if key != "seconds"}


@pytest.mark.parametrize(("agent", "serial"), [("a3c", True), ("a3c", False), ("a3c-grad", True), ("a3c-data", True)])
def test_it_acts_as_the_policy_did(agent: str, serial: bool, runs: Path) -> None:
    """Parameters and statistics are the same bits, although another agent with another number of workers has them."""
    run = train(runs, f"{agent}-{serial}", agent=agent, serial=serial).run
    assert checkpoint_steps(RunDirectory(run))[0] == 0
    before, begun, after = state_of(runs / "source")["model"], state_of(run, "0"), state_of(run)["model"]
    torch.testing.assert_close(before["parameters"], after["parameters"], rtol=0, atol=1e-25)
    assert torch.equal(before["parameters"], begun["model"]["parameters"])
    assert len(begun["model"]["statistics"]) == len(begun["counters"])
    assert not begun["counters"].any()
    assert not any(moment.any() for moment in begun["optimizer"].values())
    network = a3c_zoo.load_agent(run, checkpoint="0").policy.network  # type: ignore[attr-defined]
    expected = a3c_zoo.load_agent(runs / "source").policy.network  # type: ignore[attr-defined]
    assert torch.equal(network.observation_mean, expected.observation_mean)
    assert torch.equal(network.observation_scale, expected.observation_scale)


def test_a_comparison_tells_it_from_a_run_that_began_at_random(runs: Path) -> None:
    train(runs, "told-apart")
    found, left_out = read_runs([runs / "source", runs / "told-apart"])
    assert not left_out
    assert [run.method for run in found] == ["a3c", "a3c from source"]


def test_a_still_run_evaluates_alike(runs: Path, tmp_path: Path) -> None:
    """Without statistics, which go on growing; also by a path, on an environment of equal spaces."""
    plain = SMALL | {"network.normalize_observations": False}
    train(tmp_path, "plain", None, overrides=plain | {"optimizer.learning_rate": 0.01}, steps=1200)
    expected = figures("plain", tmp_path)
    for name, options in {"same": {}, "other": {"env": "gym:CartPole-v1"}}.items():
        train(tmp_path, name, tmp_path / "plain", overrides=plain | STILL, **options)
        assert figures(tmp_path / name, tmp_path) == expected


@pytest.mark.parametrize("agent", ["nstep", "monte-carlo"])
def test_the_textbooks_agents(agent: str, tmp_path: Path) -> None:
    train(tmp_path, "source", None, agent=agent, overrides={})
    run = train(tmp_path, "next", agent=agent, overrides=STILL).run
    assert torch.equal(state_of(tmp_path / "source")["model"]["parameters"], state_of(run, "0")["model"]["parameters"])


def test_a_recurrent_network(tmp_path: Path) -> None:
    core = SMALL | {"network.recurrent": "gru", "network.recurrent_size": 8, "network.separate": False}
    train(tmp_path, "source", None, overrides=core)
    run = train(tmp_path, "next", overrides=core | STILL).run
    assert torch.equal(state_of(tmp_path / "source")["model"]["parameters"], state_of(run, "0")["model"]["parameters"])


def test_serial_runs_repeat(runs: Path) -> None:
    first, second = (state_of(train(runs, f"twice-{n}", overrides=NORMALIZED).run) for n in range(2))
    assert torch.equal(first["model"]["parameters"], second["model"]["parameters"])
    assert not torch.equal(first["model"]["parameters"], state_of(runs / "source")["model"]["parameters"])


def test_the_run_says_so_and_goes_on_without_the_policy(runs: Path) -> None:
    shutil.copytree(runs / "source", runs / "gone")
    outcome = train(runs, "goes-on", "gone")
    meta = json.loads((outcome.run / "meta.json").read_text())
    digest = meta["init_from"].pop("parameters_sha256")
    assert len(bytes.fromhex(digest)) == 32
    steps = checkpoint_steps(RunDirectory(runs / "gone"))[-1]
    assert meta["init_from"] == {"name": "gone", "env": "cartpole", "steps": steps}
    assert (
        f"begins with the parameters of gone, {steps:,} steps on cartpole" in (outcome.run / "events.jsonl").read_text()
    )
    fresh = {key: value for key, value in meta.items() if key != "init_from"}
    assert _made_with(meta) != _made_with(fresh)  # so `compare` does not take it for one that begins by itself
    shutil.rmtree(runs / "gone")
    assert a3c_zoo.train(resume=outcome.run, steps=800).steps >= 800


def test_what_does_not_fit_is_one_line(runs: Path) -> None:
    parts = runs / "source" / "checkpoints"
    shutil.copytree(runs / "source", runs / "damaged")
    for file in (runs / "damaged" / "checkpoints").iterdir():
        file.write_bytes(file.read_bytes()[:-200])
    a3c_zoo.train("cartpole", agent="random", steps=100, name="random", runs_dir=runs)
    there = len(list(runs.iterdir()))
    refused: dict[str, dict[str, Any]] = {
        "network.hidden_sizes is [8] there, [64, 64] here. For the network there: -o 'network.hidden_sizes=[8]'": {
            "overrides": {"network.normalize_observations": True}
        },
        "network.normalize_observations is true there, false here": {"overrides": SMALL},
        "'sorce' is no run here or in": {"init_from": "sorce"},
        "cannot be read": {"init_from": "damaged"},
        "--init-from random: it has no network": {"init_from": "random"},
        "'sb3-a2c' is a baseline": {"agent": "sb3-a2c", "overrides": {}},
    }
    for message, options in refused.items():
        with pytest.raises(a3c_zoo.ZooError) as raised:
            train(runs, "refused", **options)
        assert message in str(raised.value)
        assert len(str(raised.value).splitlines()) == 1
    assert len(list(runs.iterdir())) == there  # nothing was begun
    assert parts.exists()


@pytest.mark.parametrize("serial", [True, False])
def test_other_spaces_are_refused_before_the_run_begins(serial: bool, runs: Path) -> None:
    there = len(list(runs.iterdir()))
    three = EnvEntry("three", factory="tests.test_init_from:three_actions")
    refused: list[tuple[EnvEntry | str, str]] = [
        ("gym:Acrobot-v1", "observations than environment 'gym:Acrobot-v1': vector [4] of float32, not vector [6] of "),
        (three, "actions than environment 'three': one of 2, not one of 3"),
    ]
    for env, message in refused:
        with pytest.raises(a3c_zoo.ZooError) as raised:
            train(runs, "refused", env=env, serial=serial)
        assert f"--init-from names a policy that does not fit: the policy has other {message}" in str(raised.value)
        assert "\n" not in str(raised.value)
    assert len(list(runs.iterdir())) == there


@pytest.mark.parametrize("squashed", [False, True])
def test_actions_that_are_squashed_there_alone(squashed: bool, tmp_path: Path) -> None:
    overrides = SMALL | {"agent.squash_actions": squashed}
    train(tmp_path, "there", None, env="gym:Pendulum-v1", overrides=overrides, steps=100)
    there, here = str(squashed).lower(), str(not squashed).lower()
    refusal = f"agent.squash_actions is {there} there, {here} here: -o agent.squash_actions={there}$"
    other = overrides | {"agent.squash_actions": not squashed}
    with pytest.raises(ConfigError, match=f"^--init-from there: {refusal}"):
        train(tmp_path, "here", "there", env="gym:Pendulum-v1", overrides=other, steps=100)
    assert train(tmp_path, "alike", "there", env="gym:Pendulum-v1", overrides=overrides, steps=100).steps >= 100


def test_the_command(runs: Path) -> None:
    small = [f"-o{key}={json.dumps(value)}" for key, value in NORMALIZED.items()]
    words = ["train", "cartpole", "--init-from", "source", "--serial", "--steps", "400", "--name", "typed", *small]
    done = CliRunner().invoke(cli, [*words, "--runs-dir", str(runs)])
    assert done.exit_code == 0, done.output
    assert "\nbegins with the parameters of source, 1,5" in done.stdout
    refused = CliRunner().invoke(cli, ["train", "--resume", str(runs / "source"), "--init-from", "source"])
    assert refused.exit_code == 2
    assert refused.stderr == "Error: --resume goes on with the run as it was; leave out --init-from\n"
