"""Search spaces: where they come from, what they hold, and every fault of one with its file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from a3c_zoo.config.search import SearchedKey, search_space
from a3c_zoo.config.sets import dump_config, list_sets, resolve_config
from a3c_zoo.errors import ConfigError, ZooError
from a3c_zoo.plugins.loading import Selection
from a3c_zoo.plugins.registry import Registry, load_registry
from tests.test_hyperparams import A3C, CARTPOLE, MakePackage, make_package, registry_of

__all__ = ["make_package"]


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load_registry(Selection(allowed=frozenset()))


def space_of(
    registry: Registry, hyperparams: str | None = None, *overrides: str, agent: str = "a3c"
) -> dict[str, SearchedKey]:
    entries = registry.env("cartpole"), registry.agent(agent)
    return {each.key: each for each in search_space(registry, *entries, hyperparams, overrides)}


def test_each_agent_and_baseline_that_learns_has_a_default_space(registry: Registry) -> None:
    for agent in registry.agents.values():
        if agent.name != "random":
            assert space_of(registry, agent=agent.name)[f"agent.{'gamma'}"].kind == "choice"
    with pytest.raises(ZooError, match=r"'random' has no default search space.*search:"):
        space_of(registry, agent="random")


def test_default_spaces_are_no_sets(registry: Registry) -> None:
    assert {each.env for each in list_sets(registry)}.isdisjoint({"_search"})


def test_a_file_has_its_own_space_and_trains_without_it(registry: Registry, tmp_path: Path) -> None:
    file = tmp_path / "mine.yml"
    space = "search:\n  agent.n_steps: {uniform: [2, 9]}\n  network.hidden_sizes: {choice: [[8], [9, 9]]}\n"
    file.write_text(space + "  optimizer.learning_rate: {log: [1e-5, 1]}\nagent: {n_steps: 7}\n")
    assert list(space_of(registry, str(file)).values()) == [
        SearchedKey("agent.n_steps", "uniform", (2, 9), is_whole=True),
        SearchedKey("network.hidden_sizes", "choice", ([8], [9, 9])),
        SearchedKey("optimizer.learning_rate", "log", (1e-5, 1)),
    ]
    config = resolve_config(registry, registry.env("cartpole"), registry.agent("a3c"), hyperparams=str(file))
    assert config.sources["agent.n_steps"] == f"{file}:5"
    assert "search" not in dump_config(config)


def test_a_key_that_is_given_is_not_searched(registry: Registry, tmp_path: Path) -> None:
    assert "agent.gamma" in space_of(registry)
    assert "agent.gamma" not in space_of(registry, None, "gamma=0.9")
    file = tmp_path / "one.yml"
    file.write_text("search: {agent.gamma: {choice: [0.9]}}\n")
    with pytest.raises(ZooError, match="leaves nothing to search"):
        space_of(registry, str(file), "agent.gamma=0.9")


def test_a_plugin_offers_the_space_of_its_agent_and_a_set_goes_before(make_package: MakePackage) -> None:
    offered = {"_search/a3c.yml": "search: {agent.gamma: {choice: [0.1, 0.2]}}"}
    with_default = registry_of(make_package(offered))
    assert search_space(with_default, CARTPOLE, A3C, None, [])[0].values == (0.1, 0.2)
    own = {**offered, "cartpole/a3c.yml": "search: {agent.gamma: {choice: [0.3]}}"}
    assert search_space(registry_of(make_package(own)), CARTPOLE, A3C, None, [])[0].values == (0.3,)


def test_a_default_space_has_the_rollouts_that_the_updates_of_a_set_split(registry: Registry) -> None:
    """8 environments, and updates of 40 or all samples: n_steps × k, where k divides 8."""
    choices = {}
    for env, name in {"pong": "a3c-plain", "breakout": "a3c-plain", "cartpole": None}.items():
        keys = search_space(registry, registry.env(env), A3C, name, [])
        choices[env] = {each.key: each for each in keys}["agent.n_steps"].values
    assert choices["pong"] == choices["breakout"] == (5, 10, 20, 40)
    assert choices["cartpole"] == (5, 8, 10, 16, 20, 32, 40)
    for number in choices["pong"]:
        resolve_config(registry, registry.env("pong"), A3C, hyperparams="a3c-plain", overrides=[f"n_steps={number}"])
    with pytest.raises(ConfigError, match=r"update_samples: 40 .*n_steps 8 × num_envs 8"):
        resolve_config(registry, registry.env("pong"), A3C, hyperparams="a3c-plain", overrides=["n_steps=8"])


def test_a_key_with_one_value_left_is_not_searched(registry: Registry) -> None:
    few = search_space(registry, registry.env("pong"), A3C, "a3c-plain", ["num_envs=1", "update_samples=20"])
    assert "agent.n_steps" not in {each.key for each in few}  # of the choices, 20 alone


def test_numbers_have_few_digits_and_stay_in_their_range() -> None:
    key = SearchedKey("agent.gamma", "uniform", (0.9, 0.99999))
    assert [key.text_of(value) for value in (0.912345, 0.99998, 0.9)] == ["0.9123", "0.99999", "0.9"]
    assert SearchedKey("agent.n_steps", "log", (2, 100), is_whole=True).text_of(17) == "17"
    assert SearchedKey("optimizer.learning_rate", "log", (1e-5, 1)).text_of(1.23456e-5) == "1.235e-05"


FAULTS = {
    "agent.n_steps: {choice: []}": "choice must have a list of values",
    "agent.n_steps: {choice: 5}": "choice must have a list of values",
    "agent.gama: {uniform: [0.9, 0.99]}": "unknown key. Did you mean 'gamma'?",
    "run.seed: {choice: [1, 2]}": "is fixed; a search may have keys of agent, network and optimizer",
    "run.steps: {choice: [1, 2]}": "is fixed; a search may have",
    "env.hide_velocity: {choice: [true]}": "is fixed; a search may have",
    "optimizer.name: {choice: [adam]}": "is fixed; a search may have",
    "optimizer.schedule_steps: {choice: [5]}": "is fixed; a search may have",
    "env.num_envs: {choice: [1, 2]}": "is 1 for agent 'nstep'",
    "agent.gamma: {uniform: [0.9, 1.5]}": "1.5 — must be less than or equal to 1",
    "optimizer.learning_rate: {log: [0, 1]}": "0 — must be greater than 0",
    "agent.value_coefficient: {log: [0, 1]}": "[0, 1] — a logarithmic range begins above 0",
    "agent.entropy_coefficient: {uniform: [1, 1]}": "[1, 1] — an empty range; low must be below high",
    "agent.reward_scale: {uniform: [1]}": "uniform must have two numbers, [low, high]",
    "agent.clip_rewards: {uniform: [false, true]}": "takes no numbers; give {choice: [a, b]} in place of uniform",
    "agent.normalize_returns: {uniform: [0, 1]}": "takes no numbers; give {choice: [a, b]} in place of uniform",
    "agent.normalize_advantages: {log: [1, 2]}": "2 — must be a valid boolean",
    "network.hidden_sizes: {choice: [[64, 64], [0]]}": "0 — must be greater than or equal to 1",
    "maze.size: {choice: [1]}": "agent 'nstep' has no section 'maze'",
    "n_steps: {choice: [1]}": "must be a section and a key, such as optimizer.learning_rate",
    "agent.max: 5": "5 — must be {choice: [a, b]}, {uniform: [low, high]} or {log: [low, high]}",
    "agent.min: {normal: [0, 1]}": "{normal: [0, 1]} — must be {choice: [a, b]}, {uniform: [low, high]} or",
}


def test_each_fault_is_a_line_with_file_and_line(registry: Registry, tmp_path: Path) -> None:
    for number, (line, fault) in enumerate(FAULTS.items()):
        file = tmp_path / f"{number}.yml"
        file.write_text(f"agent:\n  gamma: 0.9\nsearch:\n  {line}\n  agent.value_coefficient2: {{choice: [1]}}\n")
        with pytest.raises(ConfigError) as caught:
            space_of(registry, str(file), agent="nstep")
        title, first, second = str(caught.value).splitlines()
        assert title == "2 faults in the configuration:"
        assert first.strip().startswith(f"{file}:4 search {line.partition(':')[0]}: {fault}")
        assert second.strip().startswith(f"{file}:5 search agent.value_coefficient2: unknown key.")


def test_a_block_that_is_no_mapping(registry: Registry, tmp_path: Path) -> None:
    file = tmp_path / "list.yml"
    file.write_text("agent: {gamma: 0.9}\nsearch: [agent.gamma]\n")
    with pytest.raises(ConfigError, match=r"list.yml:2 search: must have keys below it"):
        space_of(registry, str(file))
