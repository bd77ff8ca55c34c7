"""Games of several agents: what is masked, what counts as an episode, and what is written of each agent."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.vector import VectorWrapper

import a3c_zoo
from a3c_zoo import EnvEntry
from a3c_zoo.config.sets import resolve_config
from a3c_zoo.errors import ConfigError
from a3c_zoo.learning.actions import action_distribution
from a3c_zoo.learning.autoreset import autoreset_of
from a3c_zoo.learning.collector import Collector
from a3c_zoo.learning.contract import CheckedEnvironment
from a3c_zoo.learning.environments import make_vector_env
from a3c_zoo.learning.games import EpisodeAccounts, games_over
from a3c_zoo.learning.objective import Objective, differentiate
from a3c_zoo.learning.spaces import observation_spec
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.testing import check_env
from a3c_zoo.words import agents_text
from tests.toys import TinyNetwork
from tests.toys_games import ENTRY, Duo
from tests.toys_runs import scalars

T, F = True, False


def collector(num_steps: int, num_envs: int = 2, start: Any = None, wrapped: bool = False) -> Collector:
    env: Any = Duo(num_envs)
    if wrapped:
        env = VectorWrapper(env)
    checked = CheckedEnvironment(env, "duo", observation_spec(env.single_observation_space))
    distribution = action_distribution(env.single_action_space)
    generator = torch.Generator().manual_seed(0)
    return Collector(checked, distribution, num_steps, 0, generator, lambda: None, start=start, num_agents=2)


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_hand_computed_rollout(wrapped: bool) -> None:
    # row       0  1  2  3   4   5   6  7
    # ann       1  –  –  –   9   –   –  –          – is ignored: she has left, or a game begins (rows 3 and 7)
    # bob       5  6  7  –  13  14  15  –
    collect = collector(8, wrapped=wrapped)
    finished = collect.collect(TinyNetwork())
    rollout = collect.rollout
    assert rollout.valid.T.tolist() == [[T, F, F, F, T, F, F, F], [T, T, T, F, T, T, T, F]]
    assert rollout.observations[:, 0, 0].tolist() == [1, 2, 2, 2, 9, 10, 10, 10, 17]
    assert rollout.observations[:, 1, 0].tolist() == [5, 6, 7, 8, 13, 14, 15, 16, 21]
    assert rollout.terminated[:, 0].nonzero()[0].tolist() == [0, 4]
    assert rollout.truncated[:, 1].nonzero()[0].tolist() == [2, 6]
    # A game is an episode: 3 + (2 + 3 + 4) in the three steps of the one who played longest.
    of_both = [(12, 3, 2, (3, 9)), (12, 3, 6, (3, 9))]
    assert [(e.episode_return, e.length, e.row, e.agent_returns) for e in finished] == of_both


def test_a_game_goes_on_across_rollouts() -> None:
    collect = collector(2)
    rows = [[(e.episode_return, e.length, e.row) for e in collect.collect(TinyNetwork())] for _ in range(4)]
    assert rows == [[], [(12, 3, 0)], [], [(12, 3, 0)]]


def test_a_state_of_the_accounts_goes_on() -> None:
    one, other = collector(2), collector(2)
    one.collect(TinyNetwork())
    other._accounts.returns[:], other._accounts.lengths[:] = one._accounts.returns, one._accounts.lengths
    assert one._accounts.returns.tolist() == [3, 5]
    assert one._accounts.lengths.tolist() == [2]


def test_a_core_begins_anew_with_each_game() -> None:
    """Ann's state becomes 0 before each row that she does not act in, and before the first of the next game."""
    collect = collector(8, start=torch.zeros(1, 2, 1))

    class Counting(TinyNetwork):
        """The state counts the rows since it was 0."""

        def step(self, observations: Any, state: Any) -> Any:
            return self.policy(observations), state + 1

    collect.collect(Counting())
    states, resets = collect.rollout.core
    assert resets[:8, 0].tolist() == [F, F, T, T, T, F, T, T]
    assert resets[:8, 1].tolist() == [F, F, F, F, T, F, F, F]
    # What each row begins with, after resets: the first row of game 1 (row 4) has no past.
    begun = np.where(resets[:8], 0, states[:8, 0, :, 0])
    assert begun[4].tolist() == [0, 0]
    assert begun[6, 1] == 2


def test_gradients_by_hand() -> None:
    """γ = ½, λ = 1, V(s) = s[0], both actions have the probability ½.

    ann  R₀ = 3 (terminated)                     V 1   A 2
    bob  R₂ = 4 + ½·8 = 8 (truncated, s' = 8)    V 7   A 1
         R₁ = 3 + ½·8 = 7                        V 6   A 1
         R₀ = 2 + ½·7 = 5.5                      V 5   A ½
    four samples; c_v = 1: ∂/∂w = −2/4·(2·1 + 1·7 + 1·6 + ½·5) = −8.75
    actions ann 0, bob 1, 0, 1: ∂/∂θ₀ = −¼·(2·½ − ½·½ + 1·½ − 1·½) = −0.1875
    """
    collect = collector(4)
    collect.collect(TinyNetwork())
    rollout = collect.rollout
    rollout.actions[:, 0] = torch.tensor([0, 1, 1, 1])
    rollout.actions[:, 1] = torch.tensor([1, 0, 1, 0])
    objective = Objective(gamma=0.5, gae_lambda=1.0, entropy_coefficient=0.0, value_coefficient=1.0)
    gradients = []
    for disturbed in (False, True):
        if disturbed:  # nothing of a step that was ignored is learned from
            ignored = torch.from_numpy(~rollout.valid)
            rollout.rewards[~rollout.valid] = 1e6
            rollout.actions[ignored] = 1 - rollout.actions[ignored]
            rollout.observations[3, 0] = 1e5  # of ann, who has left; row 3 of bob is his final observation
        network = TinyNetwork()
        distribution = action_distribution(Duo(2).single_action_space)
        differentiate(network, distribution, rollout, slice(0, 2), objective)
        assert network.w.grad is not None
        assert network.theta.grad is not None
        gradients.append((network.w.grad.tolist(), network.theta.grad.tolist()))
    assert gradients[0][0] == pytest.approx([-8.75])
    assert gradients[0][1] == pytest.approx([-0.1875, 0.1875])
    assert gradients[1] == gradients[0]


def test_when_a_game_is_over() -> None:
    acted = np.array([[T, T], [F, T], [T, T], [T, T], [F, F]]).ravel()
    ended = np.array([[T, F], [F, T], [T, T], [F, F], [F, F]]).ravel()
    # One plays on; the last one has left; both leave at once; both play on; a game begins.
    assert games_over(acted, ended, 2).tolist() == [F, T, T, F, F]
    assert games_over(acted, ended, 1).tolist() == ended.tolist()


def test_accounts_by_hand() -> None:
    accounts = EpisodeAccounts(4, num_agents=2)
    rewards = np.array([[1, 10, 2, 20], [77, 30, 4, 40]], np.float32)
    valid = np.array([[T, T, T, T], [F, T, T, T]])
    over = np.array([[T, F, F, F], [F, T, F, F]])
    (episode,) = accounts.add(rewards, valid, over)
    assert (episode.episode_return, episode.length, episode.row, episode.agent_returns) == (41, 2, 1, (1, 40))
    assert accounts.returns.tolist() == [0, 0, 6, 60]
    assert accounts.lengths.tolist() == [0, 2]


def test_an_environment_without_the_method_ignores_the_step_after_an_end() -> None:
    from tests.toys import ToyVectorEnv

    before = np.array([T, F])
    assert autoreset_of(ToyVectorEnv(2, mode="NextStep")).ignored({}, before).tolist() == [T, F]
    for mode in ("SameStep", "Disabled"):
        assert autoreset_of(ToyVectorEnv(2, mode=mode)).ignored({}, before).tolist() == [F, F]


def config(*overrides: str, agent: str = "a3c", flags: Any = None) -> Any:
    registry = get_registry()
    return resolve_config(registry, ENTRY, registry.agent(agent), overrides=overrides, flags=flags or {})


def test_the_number_of_environments_is_of_whole_games() -> None:
    three = EnvEntry("trio", "m:f", agents=("a", "b", "c"))
    registry = get_registry()
    assert resolve_config(registry, three, registry.agent("a3c")).env.num_envs == 9  # the default is 8
    assert config("env.num_envs=6").env.num_envs == 6
    with pytest.raises(ConfigError, match=r"env.num_envs: 5 — 2 agents play each game of 'duo', .* choose 4 or 6"):
        config("env.num_envs=5")
    with pytest.raises(ConfigError, match=r"env.num_envs: 1 — .* choose 2"):
        config("env.num_envs=1")
    assert make_vector_env(ENTRY, config().env, 1, 0).num_envs == 2


def test_a_number_of_a_set_becomes_one_whose_updates_split(tmp_path: Path) -> None:
    """24 environments of a set are rounded up to 40: five agents play a game, and four environments are an update."""
    five = EnvEntry("quintet", "m:f", agents=tuple("abcde"))
    file = tmp_path / "set.yml"
    file.write_text("env: {num_envs: 24}\nagent: {n_steps: 8, clip_ratio: 0.2, update_samples: 32}\n")
    registry = get_registry()
    resolved = resolve_config(registry, five, registry.agent("a3c"), hyperparams=str(file))
    assert resolved.env.num_envs == 40
    with pytest.raises(ConfigError, match=r"update_samples: 32 — .* num_envs 25"):
        resolve_config(registry, five, registry.agent("a3c"), hyperparams=str(file), overrides=("env.num_envs=25",))


def test_members_of_a_team_get_whole_games(tmp_path: Path) -> None:
    """Six environments are three games: three members of a team have one each, and two would split the second."""
    overrides = ("env.num_envs=6", "agent.teams=1", "agent.clip_ratio=0.2", "agent.n_steps=4")
    with pytest.raises(ConfigError, match=r"env.num_envs: 6, 3 games of 2 agents, among 1, 3 workers. .*teams=null"):
        config(*overrides, "run.workers=2")
    assert config(*overrides, "run.workers=3").run.workers == 3
    given = dict(override.split("=") for override in overrides)
    outcome = a3c_zoo.train(ENTRY, seed=1, steps=200, runs_dir=tmp_path, overrides={**given, "run.workers": 3})
    assert outcome.agent_returns_100 == {"ann": 3, "bob": 9}


def test_an_agent_with_one_environment_is_refused() -> None:
    with pytest.raises(ConfigError, match="'monte-carlo' — it takes one environment, and 2 agents play each game"):
        config(agent="monte-carlo")


def test_a_whole_run(tmp_path: Path) -> None:
    """Real workers: monitor.csv, TensorBoard, the outcome and an evaluation name each agent."""
    overrides = {"run.workers": 2, "env.num_envs": 4, "agent.n_steps": 5}
    outcome = a3c_zoo.train(ENTRY, steps=400, seed=1, runs_dir=tmp_path, overrides=overrides)
    head, columns, *rows = (outcome.run / "monitor.csv").read_text().splitlines()
    assert json.loads(head.removeprefix("#"))["env_id"] == "duo"
    assert columns == "r,l,t,step,worker,r_ann,r_bob"
    assert {(row.split(",")[0], row.split(",")[1], *row.split(",")[5:]) for row in rows} == {
        ("12.0", "3", "3.0", "9.0")
    }
    assert outcome.episodes == len(rows)
    # Four steps a game: three of bob, one of ann.
    assert outcome.steps >= 4 * outcome.episodes
    assert outcome.agent_returns_100 == {"ann": 3, "bob": 9}
    written = scalars(outcome.run)
    assert {value for _, value in written["episode/return_mean_100/bob"]} == {9}
    played = a3c_zoo.evaluate(outcome.run, episodes=5, env=ENTRY)
    assert (played.episodes, played.mean_return, played.mean_length) == (5, 12, 3)
    assert played.agent_returns == {"ann": 3, "bob": 9}


def test_a_solved_check_names_each_agent(tmp_path: Path) -> None:
    outcome = a3c_zoo.train(replace(ENTRY, threshold=12.0), seed=1, steps=2000, serial=True, runs_dir=tmp_path)
    assert outcome.evaluation is not None
    assert outcome.evaluation.agent_returns == {"ann": 3, "bob": 9}


def test_a_baseline_of_another_library_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="2 agents play each game of 'duo'"):
        a3c_zoo.train(ENTRY, agent="sb3-ppo", steps=100, runs_dir=tmp_path)


def test_random_actions_play_games(tmp_path: Path) -> None:
    outcome = a3c_zoo.train(ENTRY, agent="random", steps=100, runs_dir=tmp_path)
    assert outcome.agent_returns_100 == {"ann": 3, "bob": 9}


def test_agents_in_a_line() -> None:
    assert agents_text({"ann": 3.0, "bob": -12.34}) == "ann 3, bob -12.3"
    many = {f"p{n}": float(n) for n in range(20)}
    assert agents_text(many) == "20 agents, from 0 (p0) to 19.0 (p19)"
    assert agents_text(dict.fromkeys(many, 2.0)) == "20 agents, 2 each"


def test_agents_of_a_game_may_see_the_same() -> None:
    factory = "tests.toys_games:make_together"
    entry = EnvEntry("together", factory, agents=("ann", "bob"))
    check_env(entry, num_envs=(1, 3), steps=30)
    for blind in (0, 1):
        check_env(replace(entry, kwargs={"blind": blind}), num_envs=(3,), steps=30)
    one_stream = replace(entry, kwargs={"is_one_stream": True})
    check_env(one_stream, num_envs=(1,), steps=30)  # one game
    with pytest.raises(AssertionError, match="num_envs=4: all environments play the same episodes"):
        check_env(one_stream, num_envs=(3,), steps=30)
