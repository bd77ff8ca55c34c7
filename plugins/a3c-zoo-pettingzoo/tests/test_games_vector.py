"""The vector environment: which agents act when, what they see, their masks, and what a wrong game is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
import toy_games
from a3c_zoo.errors import ConfigError, EnvironmentContractError, UnknownNameError, ZooError
from gymnasium import spaces

from a3c_zoo_pettingzoo.families import resolve_pettingzoo
from a3c_zoo_pettingzoo.games import GymAgents, make_pettingzoo, shared_of
from a3c_zoo_pettingzoo.vector import (
    GamesVectorEnv,
    RestorableGamesVectorEnv,
    everything_allowed,
    make_gym_agents_games,
    make_pettingzoo_games,
)

T, F = True, False


def games(num_games: int = 1, **kwargs: Any) -> GamesVectorEnv:
    return GamesVectorEnv([toy_games.Race(**kwargs) for _ in range(num_games)], "race")


def played(env: GamesVectorEnv, steps: int) -> list[tuple[Any, ...]]:
    """(observation, reward, terminated, truncated, ignored, info) of each step, with action 0 or an allowed one."""
    _, info = env.reset(seed=0)
    results = []
    for _ in range(steps):
        masks = info.get("action_mask", np.ones((env.num_envs, 3)))
        actions = np.array([int(np.argmax(mask)) for mask in masks])
        *result, info = env.step(actions)
        results.append((*result, env.ignored_actions(info).copy(), info))
    return results


def columns(results: list[tuple[Any, ...]], part: int) -> list[list[Any]]:
    rows: list[list[Any]] = np.array([result[part] for result in results]).T.tolist()
    return rows


def test_agents_leave_at_different_times() -> None:
    # ann, bob and cid leave after 1, 3 and 2 steps; row 3 begins the next game.
    results = played(games(), 5)
    assert columns(results, 1) == [[1, 0, 0, 0, 1], [11, 12, 13, 0, 11], [21, 22, 0, 0, 21]]
    assert columns(results, 2) == [[T, F, F, F, T], [F, F, T, F, F], [F, T, F, F, F]]
    assert columns(results, 3) == [[F] * 5] * 3
    assert columns(results, 4) == [[F, T, T, T, F], [F, F, F, T, F], [F, F, T, T, F]]
    # (game, time): she who has left sees what she saw last; all see the beginning of game 1 after row 3.
    seen = np.array([result[0] for result in results])[..., :2].tolist()
    assert [row[0] for row in seen] == [[0, 1], [0, 1], [0, 1], [1, 0], [1, 1]]
    assert [row[1] for row in seen] == [[0, 1], [0, 2], [0, 3], [1, 0], [1, 1]]


def test_all_leave_in_one_step() -> None:
    results = played(games(lives=(2, 2)), 6)
    assert columns(results, 2) == [[F, T, F, F, T, F]] * 2
    assert columns(results, 4) == [[F, F, T, F, F, T]] * 2


def test_some_are_terminated_and_some_truncated() -> None:
    results = played(games(truncates=("bob",)), 3)
    assert columns(results, 2)[1] == [F, F, F]
    assert columns(results, 3)[1] == [F, F, T]


def test_an_agent_that_joins() -> None:
    results = played(games(lives=(4, 4), joins=("bob", 2)), 4)
    assert columns(results, 4) == [[F, F, F, F], [T, T, F, F]]
    assert columns(results, 1)[1] == [0, 0, 13, 14]


def test_an_agent_that_joins_when_all_others_leave() -> None:
    # PettingZoo's own loop would go on with bob alone, whom a3c-zoo's games would never let act.
    with pytest.raises(EnvironmentContractError, match="bob joined in the step in which all agents who played left"):
        played(games(lives=(2, 4), joins=("bob", 2)), 3)


def test_a_game_that_goes_on_naming_those_who_have_left() -> None:
    class Naming(toy_games.Race):
        def step(self, actions: dict[str, int]) -> Any:
            self.agents = list(actions)
            seen, rewards, terminated, truncated, infos = super().step(actions)
            left = sorted(set(self.possible_agents) - set(self.agents))
            self.agents = list(self.possible_agents)
            return seen | self._observations(left), rewards, terminated | dict.fromkeys(left, True), truncated, infos

    results = played(GamesVectorEnv([Naming()], "naming"), 5)
    for part in (1, 2, 3, 4):
        assert columns(results, part) == columns(played(games(), 5), part)


def test_an_agent_that_does_not_take_part() -> None:
    results = played(games(lives=(2, 0)), 4)
    assert columns(results, 4) == [[F, F, T, F], [T, T, T, T]]


def test_games_side_by_side_have_their_own_seeds() -> None:
    env = GamesVectorEnv([toy_games.Pick(2), toy_games.Pick(2)], "pick")
    first = env.reset(seed=7)[0]
    right = [np.random.default_rng(7).integers(4, size=2), np.random.default_rng(8).integers(4, size=2)]
    assert first.tolist() == np.concatenate(right).tolist()
    with pytest.raises(ValueError, match="whole number"):
        env.reset(seed=[1, 2])


@pytest.mark.parametrize("where", ["info", "observation"])
def test_masks(where: str) -> None:
    env = games(masks=where)
    assert env.single_observation_space == spaces.Box(-100, 100, (3,), np.float32)
    _, info = env.reset(seed=0)
    assert [mask.tolist() for mask in info["action_mask"]] == [[0, 1, 1]] * 3
    assert info["_action_mask"].tolist() == [T, T, T]
    results = played(env, 4)
    # After row 0, ann has left: all is allowed to her, and action 1 is forbidden to the others.
    assert [mask.tolist() for mask in results[0][-1]["action_mask"]] == [[1, 1, 1], [1, 0, 1], [1, 0, 1]]


HAND = spaces.Dict({"card": spaces.Discrete(3), "price": spaces.Box(0, 1, (1,)), "turns": spaces.MultiDiscrete([2, 2])})


class Hands(toy_games.Race):
    """Its actions have parts, and its masks have their form. space: of the actions."""

    def __init__(self, space: spaces.Space[Any] = HAND) -> None:
        super().__init__(masks="info", lives=(2, 2))
        self._acts: Any = space

    def _mask(self, agent: str) -> Any:
        if agent == "bob":
            return None
        return {"card": np.array([1, 0, 1], np.int8), "turns": (np.array([1, 1]), np.array([0, 1]))}

    def get_state(self) -> dict[str, Any]:
        return {"time": self.time}

    def set_state(self, state: dict[str, Any]) -> None:
        self.time = state["time"]
        self.agents = list(self.possible_agents)


def in_lists(mask: Any) -> Any:
    if isinstance(mask, dict):
        return {key: in_lists(part) for key, part in mask.items()}
    if isinstance(mask, tuple):
        return [in_lists(part) for part in mask]
    return None if mask is None else np.asarray(mask).tolist()


@pytest.mark.parametrize("space", [HAND, spaces.Box(0, 1, (1,), np.float32)])
def test_masks_of_parts_travel_as_they_are_given(space: spaces.Space[Any]) -> None:
    """The reader of the masks decides whether they fit and count. A checkpoint has them, too."""
    env = RestorableGamesVectorEnv([Hands(space)], "hands")
    _, info = env.reset(seed=0)
    given = {"card": [1, 0, 1], "turns": [[1, 1], [0, 1]]}
    assert [in_lists(mask) for mask in info["action_mask"]] == [given, None]
    assert info["_action_mask"].tolist() == [True, False]
    other = RestorableGamesVectorEnv([Hands(space)], "hands")
    other.reset(seed=1)
    other.set_state(env.get_state())
    assert [in_lists(mask) for mask in other._info()["action_mask"]] == [given, None]


def test_everything_is_allowed_to_those_who_do_not_play() -> None:
    assert in_lists(everything_allowed(HAND)) == {"card": [True] * 3, "price": None, "turns": [True] * 4}
    pair = spaces.Tuple([spaces.Discrete(2), HAND["price"]])
    assert in_lists(everything_allowed(pair)) == [[True] * 2, None]


def test_masks_of_a_checkpoint_of_0_2_0() -> None:
    env = RestorableGamesVectorEnv([Hands(spaces.Discrete(3))], "hands")
    env.reset(seed=0)
    env.set_state(env.get_state() | {"masks": torch.tensor([[True, False, True], [True, True, True]])})
    assert [mask.tolist() for mask in env._info()["action_mask"]] == [[True, False, True], [True, True, True]]


def test_actions_reach_the_agents_they_are_of() -> None:
    env = games()
    env.reset(seed=0)
    for actions in ([0, 1, 2], [2, 0, 1]):
        env.step(np.array(actions))
    race: Any = env._games[0]
    assert race.taken == [{"ann": 0, "bob": 1, "cid": 2}, {"bob": 0, "cid": 1}]


def test_a_picture_for_each_agent() -> None:
    env = games(2, render_mode="rgb_array")
    env.reset(seed=0)
    assert [picture.shape for picture in env.render()] == [(16, 24, 3)] * 6
    assert env.metadata["render_fps"] == 5


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("space", "'race' changed the observation_space of ann: it was Box"),
        ("shape", r"gave ann a wrong observation: float32 \[2\], where its space promises Box"),
        ("vanishes", "ann is no longer among its agents, and step\\(\\) neither terminated nor truncated it"),
        ("reward", "gave ann no reward, and it plays"),
        ("none", "gave ann a reward that is no number: None"),
        ("unseen", "gave ann no observation, and it plays"),
        ("four", "wrong result of step\\(\\): it must be five dictionaries"),
        ("nobody", "'race' has no agents after reset\\(\\)"),
        ("stranger", "has the agent 'zoe', which its possible_agents does not name"),
    ],
)
def test_a_wrong_game(fault: str, message: str) -> None:
    with pytest.raises(EnvironmentContractError, match=message):
        played(games(lives=(2, 2), fault=fault), 6)


def test_different_spaces_are_refused_with_a_cure() -> None:
    with pytest.raises(EnvironmentContractError, match="agents with different spaces: .* of ann .* bob .*pad_observ"):
        GamesVectorEnv([toy_games.Unlike()], "unlike")


def test_a_game_without_agents() -> None:
    race: Any = toy_games.Race(lives=())
    with pytest.raises(EnvironmentContractError, match="names no agents"):
        shared_of(race, "race")


def test_a_state_is_taken_back() -> None:
    def restorable() -> RestorableGamesVectorEnv:
        env = make_pettingzoo_games(6, 0, "toy_games:StatefulRace", "race")
        assert isinstance(env, RestorableGamesVectorEnv)
        return env

    one, other = restorable(), restorable()
    one.reset(seed=0)
    one.step(np.ones(6, np.int64))
    kept = one.get_state()
    other.reset(seed=1)
    other.set_state(kept)
    for _ in range(6):
        mine, theirs = one.step(np.ones(6, np.int64)), other.step(np.ones(6, np.int64))
        for a, b in zip(mine[:4], theirs[:4], strict=True):
            assert a.tolist() == b.tolist()
        assert one.ignored_actions({}).tolist() == other.ignored_actions({}).tolist()
    assert not hasattr(games(), "get_state")


def test_a_state_holds_observations_of_several_parts() -> None:
    class Parts(toy_games.StatefulRace):
        def observation_space(self, agent: str) -> spaces.Space[Any]:
            return spaces.Dict({"game": self._seen, "more": spaces.Tuple([spaces.Discrete(9), self._seen])})

        def _observations(self, agents: list[str]) -> dict[str, Any]:
            seen = super()._observations(agents)
            return {agent: {"game": each, "more": (self.time, each)} for agent, each in seen.items()}

    one, other = (RestorableGamesVectorEnv([Parts()], "parts") for _ in range(2))
    one.reset(seed=0)
    one.step(np.ones(3, np.int64))  # ann has left
    other.reset(seed=0)
    other.set_state(one.get_state())
    mine, theirs = (env.step(np.ones(3, np.int64))[0] for env in (one, other))
    assert mine["game"][:, 1].tolist() == theirs["game"][:, 1].tolist() == [1, 2, 2]
    assert mine["more"][0].tolist() == theirs["more"][0].tolist() == [1, 2, 2]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: make_pettingzoo("toy_games:Turns", "t", {}), ZooError, "act in turn .AEC.*aec_to_parallel"),
        (lambda: make_pettingzoo("toy_games:not_a_game", "t", {}), ZooError, "must be a function that is called"),
        (lambda: make_pettingzoo("toy_games:nothing", "t", {}), UnknownNameError, "has no nothing"),
        (
            lambda: make_pettingzoo("no_such_module_x:parallel_env", "t", {}),
            ZooError,
            "not installed .*: pip install no_such",
        ),
        (lambda: make_pettingzoo(":parallel_env", "t", {}), UnknownNameError, "'' is no name of a module"),
        (lambda: make_pettingzoo("games_that_fail:parallel_env", "t", {}), ZooError, "failed: ValueError: not today"),
        (lambda: resolve_pettingzoo("toy_games:Fails"), ZooError, "cannot be made: RuntimeError: no screen"),
        (lambda: make_pettingzoo("subprocess:getoutput", "t", {"cmd": "false"}), ZooError, "must be a function"),
        (
            lambda: make_pettingzoo("toy_games:Race", "t", {"livs": (1, 2)}),
            ConfigError,
            "env.kwargs.livs: environment 't' has no such argument. Did you mean 'lives'.* It takes: counts_games",
        ),
    ],
)
def test_what_is_no_game(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


class Pair(gymnasium.Env[Any, Any]):
    """Two agents in Gymnasium's form: tuples, a list of rewards, one flag for both."""

    observation_space = spaces.Tuple([spaces.Box(0, 9, (1,), np.float32)] * 2)
    action_space = spaces.Tuple([spaces.Discrete(3)] * 2)
    fault = ""

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.time = 0
        return self._seen(), {}

    def _seen(self) -> Any:
        return tuple(np.array([self.time + n], np.float32) for n in (0, 1))

    def step(self, action: Any) -> Any:
        self.time += 1
        rewards = [float(each) for each in action]
        return self._seen(), rewards[:1] if self.fault else rewards, self.time == 2, False, {}


def test_tuples_of_gymnasium() -> None:
    env = GamesVectorEnv([GymAgents(Pair(), "pair")], "pair")
    assert env.reset(seed=0)[0].tolist() == [[0], [1]]
    seen, rewards, terminated, _, _ = env.step(np.array([1, 2]))
    assert (seen.tolist(), rewards.tolist(), terminated.tolist()) == ([[1], [2]], [1, 2], [F, F])
    assert env.step(np.array([0, 0]))[2].tolist() == [T, T]
    env.step(np.array([0, 0]))
    assert env.ignored_actions({}).tolist() == [T, T]
    wrong = Pair()
    wrong.fault = "reward"
    env = GamesVectorEnv([GymAgents(wrong, "pair")], "pair")
    env.reset(seed=0)
    with pytest.raises(EnvironmentContractError, match="wrong rewards: there must be one for each of its 2 agents"):
        env.step(np.array([0, 0]))


class Leaving(Pair):
    """The first agent leaves after one step; flags are arrays. The environment wants an action of both to the end."""

    def step(self, action: Any) -> Any:
        seen, _, *_ = super().step(action)
        assert len(action) == 2
        done = np.array([self.time >= 1, self.time == 3])
        return seen, [float(each) for each in action], done, np.zeros(2, np.bool_), {}


def test_agents_of_gymnasium_leave_at_different_times() -> None:
    env = GamesVectorEnv([GymAgents(Leaving(), "leaving")], "leaving")
    env.reset(seed=0)
    steps = [env.step(np.array([1, 2])) for _ in range(2)]
    assert [step[1].tolist() for step in steps] == [[1, 2], [0, 2]]
    assert [step[2].tolist() for step in steps] == [[T, F], [F, F]]
    assert env.ignored_actions({}).tolist() == [T, F]
    assert env.step(np.array([0, 0]))[2].tolist() == [F, T]
    assert env.step(np.array([0, 0]))[0].tolist() == [[0], [1]]  # the next game


def test_ids_without_a_space_for_each_agent() -> None:
    with pytest.raises(EnvironmentContractError, match="must be Tuple spaces of the same length"):
        GymAgents(gymnasium.make("CartPole-v1"), "cartpole")
    for env_id, message in (
        ("CartPole-v1", "names no module"),
        ("no_such_module_x:A-v0", "pip install no_such_module_x; a module of your own must lie in the current folder"),
        (".x:A-v0", "'.x' is no name of a module"),
        ("a3c_zoo:CartPole-v1", "does not register it"),
        ("a3c_zoo:CartPol-v1", "unknown environment"),
    ):
        with pytest.raises(ZooError, match=message):
            make_gym_agents_games(1, 0, env_id, f"gym-agents:{env_id}")


def test_a_mistyped_id_is_answered_with_those_that_its_module_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(gymnasium.registry, "Tag-v0", gymnasium.envs.registration.EnvSpec("Tag-v0", "toy_games:Race"))
    with pytest.raises(ZooError) as wrong:
        make_gym_agents_games(1, 0, "toy_games:Tga-v0", "gym-agents:toy_games:Tga-v0")
    assert "gym-agents:toy_games:Tag-v0" in str(wrong.value)
    assert "gym-agents:toy_games:CartPole-v1" not in str(wrong.value)
