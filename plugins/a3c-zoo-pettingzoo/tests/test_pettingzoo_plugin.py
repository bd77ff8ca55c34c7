"""What the distribution offers to a3c-zoo; whole runs of games with real workers; games of others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module, resources
from pathlib import Path
from typing import Any

import a3c_zoo
import a3c_zoo.records
import gymnasium
import numpy as np
import pytest
import torch
from a3c_zoo import EnvEntry
from a3c_zoo.errors import EnvironmentContractError, UnknownNameError, ZooError
from a3c_zoo.testing import check_env
from safetensors import safe_open

from a3c_zoo_pettingzoo.families import (
    agents_gym_agents,
    agents_pettingzoo,
    resolve_gym_agents,
    resolve_pettingzoo,
    variant_pettingzoo,
)
from a3c_zoo_pettingzoo.frames import SmallFrames
from a3c_zoo_pettingzoo.plugin import zoo_envs, zoo_hyperparams
from a3c_zoo_pettingzoo.vector import make_gym_agents_games, make_pettingzoo_games

FEW = {"run.workers": 2, "env.num_envs": 6, "agent.n_steps": 32}


def test_the_entry_point_names_the_plugin() -> None:
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    points = project["entry-points"]["a3c_zoo"]
    assert [import_module(module).zoo_envs() for module in points.values()] == [zoo_envs()]


def test_the_sets_are_in_the_package() -> None:
    (entry,) = zoo_hyperparams()
    sets = resources.files(entry.package) / "pettingzoo"
    assert sorted(each.name for each in sets.iterdir() if each.name.endswith(".yml")) == [
        "a3c-continuous.yml",
        "a3c-image.yml",
        "a3c.yml",
    ]


def test_listing_imports_nothing_heavy() -> None:
    heavy = {"numpy", "gymnasium", "torch", "pettingzoo"}
    program = f"import sys, a3c_zoo_pettingzoo.plugin; print(*{heavy} & sys.modules.keys())"
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environ)
    assert result.stdout.split() == []


def game(name: str, overrides: Mapping[str, Any] | None = None, **kwargs: Any) -> EnvEntry:
    """The entry of a game of `toy_games`, under a name without a family."""
    entry = resolve_pettingzoo(f"toy_games:{name}")
    return replace(
        entry, name=name.lower(), family=None, variant="", kwargs={**entry.kwargs, "name": name.lower(), **kwargs}
    )


def train(entry: EnvEntry, folder: Path, steps: int, **options: Any) -> a3c_zoo.records.Outcome:
    overrides = FEW | options.pop("overrides", {})
    return a3c_zoo.train(entry, seed=1, steps=steps, runs_dir=folder, overrides=overrides, **options)


def test_names_of_own_games() -> None:
    entry = resolve_pettingzoo("toy_games:parallel_env")
    assert (entry.agents, entry.family, entry.num_agents) == (("ann", "bob", "cid"), "pettingzoo", 3)
    assert agents_pettingzoo("toy_games:parallel_env", {"lives": [1, 2]}) == ("ann", "bob")
    assert agents_pettingzoo("toy_games:parallel_env", {"nonsense": 1}) == entry.agents
    with pytest.raises(EnvironmentContractError, match="agents with different spaces"):
        resolve_pettingzoo("toy_games:Unlike")


@pytest.mark.parametrize("masks", ["", "info", "observation"])
def test_the_contract_of_environments(masks: str) -> None:
    check_env(game("Race", masks=masks, counts_games=False), steps=60)


def test_a_state_keeps_the_contract() -> None:
    check_env(game("StatefulRace", counts_games=False), steps=60)


def test_a_whole_run_of_workers(tmp_path: Path) -> None:
    """ann plays 1 step, bob 3, cid 2: six steps a game."""
    outcome = train(game("Race"), tmp_path, 600)
    assert outcome.agent_returns_100 == {"ann": 1, "bob": 36, "cid": 43}
    assert outcome.mean_return_100 == 80
    columns, *rows = (outcome.run / "monitor.csv").read_text().splitlines()[1:]
    assert columns == "r,l,t,step,worker,r_ann,r_bob,r_cid"
    assert {(*row.split(",")[:2], *row.split(",")[5:]) for row in rows} == {("80.0", "3", "1.0", "36.0", "43.0")}
    # Each of 2 workers has 2 games under way.
    assert 0 <= outcome.steps - 6 * outcome.episodes <= 6 * 4
    played = a3c_zoo.evaluate(outcome.run, episodes=3, env=game("Race"))
    assert (played.mean_return, played.mean_length, played.agent_returns["bob"]) == (80, 3, 36)


@pytest.mark.parametrize("masks", ["info", "observation"])
def test_a_run_within_masks(masks: str, tmp_path: Path) -> None:
    """A forbidden action raises in the first game of each environment, those of evaluations included."""
    outcome = train(game("Race", masks=masks), tmp_path, 200)
    assert a3c_zoo.evaluate(outcome.run, episodes=3, env=game("Race", masks=masks)).mean_return == 80


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("mask-length", r"wrong action mask: int8 \[2\]; .* with 3 elements"),
        ("mask-empty", "an action mask that forbids every action"),
        ("mask-missing", "gave no action mask"),
        ("space", "changed the observation_space of ann"),
    ],
)
def test_faults_in_training(fault: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ZooError, match=message):
        train(game("Race", lives=(2, 2, 2), masks="info", fault=fault), tmp_path, 200, serial=True)


def test_it_learns_though_agents_leave(tmp_path: Path) -> None:
    """Random actions: each agent's expected return is 1/4 + 1/16 + … = 1/3. At most 3 · 8 = 24."""
    options = {"overrides": {"env.num_envs": 12, "agent.n_steps": 64, "agent.update_samples": 64}}
    outcome = train(game("Pick"), tmp_path, 30_000, **options)
    assert outcome.mean_return_100 is not None
    assert outcome.mean_return_100 > 12


def same(one: Any, other: Any) -> bool:
    """Whether two parts of checkpoints are equal, bit by bit, apart from how often the run was resumed."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one if key != "session")
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    return bool(one == other)


def agent_state(run: Path) -> Any:
    (newest,) = sorted((run / "checkpoints").glob("step-*.pt"))[-1:]
    with safe_open(newest, "pt") as file:
        digest, _, text = file.metadata()["a3c_zoo"].partition("\n")

        def with_tensors(given: dict[str, Any]) -> Any:
            return file.get_tensor(str(given["$tensor"])) if given.keys() == {"$tensor"} else given

        return json.loads(text, object_hook=with_tensors)["agent"]


def test_a_resumed_run_equals_one_without_a_break(tmp_path: Path) -> None:
    entry = game("StatefulRace", lives=(1, 5, 3))
    constant = {"optimizer.schedule": "constant"}  # of the learning rate: a schedule ends with the budget
    whole = train(entry, tmp_path, 1000, serial=True, overrides=constant)
    first = train(entry, tmp_path, 500, serial=True, overrides=constant)
    resumed = a3c_zoo.train(resume=first.run, env=entry, steps=1000)
    assert resumed.steps == whole.steps
    assert same(agent_state(resumed.run), agent_state(whole.run))
    assert not same(agent_state(resumed.run)["model"]["parameters"] + 1, agent_state(whole.run)["model"]["parameters"])


def test_a_film_shows_the_game(tmp_path: Path) -> None:
    """A picture of the whole game after each of its three steps."""
    imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg")
    overrides = {"run.evaluation_every_steps": 200, "run.evaluator_episodes": 2}
    outcome = train(game("Race"), tmp_path, 400, serial=True, film_every=1, overrides=overrides)
    assert outcome.evaluator_fault is None
    film = min((outcome.run / "films").glob("*.mp4"))
    assert imageio_ffmpeg.count_frames_and_secs(str(film))[0] >= 3


def test_small_frames() -> None:
    class Cinema(import_module("toy_games").Race):  # type: ignore[misc]
        def observation_space(self, agent: str) -> Any:
            return gymnasium.spaces.Box(0, 255, (20, 10, 3), np.uint8)

        def _observations(self, agents: list[str]) -> dict[str, Any]:
            return {agent: np.full((20, 10, 3), 50 * self.time + 100 * self.game, np.uint8) for agent in agents}

    from a3c_zoo_pettingzoo.vector import GamesVectorEnv

    env = SmallFrames(GamesVectorEnv([Cinema(lives=(1, 2))], "cinema"), size=8, stack=3)
    assert env.reset(seed=0)[0].shape == (2, 8, 8, 3)
    actions = np.zeros(2, np.int64)
    shown = [env.step(actions)[0][:, 0, 0].tolist() for _ in range(4)]
    # The first agent has left after a step: what it sees repeats. Row 2 begins a game, with the value 100.
    assert [row[1] for row in shown] == [[0, 0, 50], [0, 50, 100], [100, 100, 100], [100, 100, 150]]
    assert [row[0] for row in shown] == [[0, 0, 50], [50, 50, 50], [100, 100, 100], [100, 100, 150]]
    with pytest.raises(TypeError, match="it takes games whose observations are frames"):
        SmallFrames(GamesVectorEnv([import_module("toy_games").Race()], "race"))


# Games of others


def test_names_of_pettingzoo() -> None:
    pytest.importorskip("mpe2")
    spread = resolve_pettingzoo("simple_spread_v3")
    assert spread.agents == ("agent_0", "agent_1", "agent_2")
    assert spread.kwargs["made_by"] == "mpe2.simple_spread_v3:parallel_env"
    assert resolve_pettingzoo("mpe2/simple_spread_v3").kwargs["made_by"] == spread.kwargs["made_by"]
    assert len(agents_pettingzoo("simple_spread_v3", {"N": 5})) == 5
    assert variant_pettingzoo("simple_spread_v3", {"continuous_actions": True}) == "continuous"
    for name in ("simple_spred_v3", "simple_spread", "simple_spread_v4"):
        with pytest.raises(UnknownNameError, match="Did you mean 'pettingzoo:simple_spread_v3'"):
            resolve_pettingzoo(name)
    with pytest.raises(UnknownNameError, match="unknown environment"):
        resolve_pettingzoo("butterfly/simple_spread_v3")
    with pytest.raises(EnvironmentContractError, match="different spaces: the observation_space of adversary_0"):
        resolve_pettingzoo("simple_tag_v3")


def test_a_game_in_turns_is_refused() -> None:
    pytest.importorskip("pettingzoo.classic.tictactoe_v3")
    with pytest.raises(ZooError, match="its agents act in turn .AEC."):
        resolve_pettingzoo("tictactoe_v3")


@pytest.mark.parametrize("name", ["simple_spread_v3", "simple_v3"])
def test_mpe_keeps_the_contract(name: str) -> None:
    pytest.importorskip("mpe2")
    check_env(resolve_pettingzoo(name), steps=60)


def test_pistonball_is_drawn() -> None:
    pytest.importorskip("pymunk")
    entry = resolve_pettingzoo("pistonball_v6")
    assert (entry.num_agents, entry.variant) == (20, "image")
    env = make_pettingzoo_games(20, 0, entry.kwargs["made_by"], entry.name, "rgb_array", continuous=False)
    env.reset(seed=0)
    pictures = env.render()
    assert len(pictures) == 20
    assert pictures[0].dtype == np.uint8
    env.close()


@pytest.mark.parametrize(
    ("module", "rest", "agents"),
    [("lbforaging", "lbforaging:Foraging-5x5-2p-1f-v3", 2), ("rware", "rware:rware-tiny-2ag-v2", 2)],
)
def test_games_of_gymnasium(module: str, rest: str, agents: int) -> None:
    pytest.importorskip(module)
    entry = resolve_gym_agents(rest)
    assert entry.num_agents == agents
    env = make_gym_agents_games(2 * agents, 0, rest, entry.name)
    env.reset(seed=0)
    for _ in range(60):
        env.step(env.action_space.sample())
    env.close()
    with pytest.raises(UnknownNameError, match="Did you mean"):
        resolve_gym_agents(rest.replace("2p", "0p").replace("2ag", "0ag"))
    assert agents_gym_agents(rest, {"nonsense": 1}) == entry.agents


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_lbforaging_is_learned(tmp_path: Path) -> None:
    """Random actions pick up 0.4 of the food of Foraging-5x5-2p-1f; the set of the plugin learns to pick up all."""
    pytest.importorskip("lbforaging")
    entry = replace(resolve_gym_agents("lbforaging:Foraging-5x5-2p-1f-v3"), name="foraging")
    (sets,) = zoo_hyperparams()
    file = resources.files(sets.package) / "pettingzoo" / "a3c.yml"
    outcome = a3c_zoo.train(entry, seed=1, steps=150_000, runs_dir=tmp_path, hyperparams=str(file))
    assert outcome.mean_return_100 is not None
    assert outcome.mean_return_100 > 0.9
