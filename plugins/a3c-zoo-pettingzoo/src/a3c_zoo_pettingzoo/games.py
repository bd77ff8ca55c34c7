"""From a name to a game: an object with PettingZoo's parallel interface, and the spaces that its agents share."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import gymnasium
import numpy as np
from a3c_zoo.errors import (
    ConfigError,
    EnvironmentContractError,
    UnknownNameError,
    ZooError,
    did_you_mean,
    type_and_message,
    unknown_name,
)
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

#: Packages of PettingZoo's games, and the extra of this distribution that brings what they need.
PACKAGES = {
    "mpe2": "mpe",
    "pettingzoo.butterfly": "butterfly",
    "pettingzoo.sisl": "sisl",
    "pettingzoo.classic": "classic",
    "pettingzoo.atari": "atari",
}
#: What PettingZoo calls the function that makes a game, and the one behind it that has its parameters.
PARALLEL, RAW = "parallel_env", "raw_env"
#: The key of an observation or an info that holds an action mask, and that of what the mask comes with.
MASK, SEEN = "action_mask", "observation"
#: Arguments that a3c-zoo gives itself.
OWN_ARGUMENTS = ("render_mode",)

SEVERAL_POLICIES = (
    "one policy plays all agents, so their spaces must be equal. SuperSuit's pad_observations_v0 and "
    "pad_action_space_v0 make them equal, in a function parallel_env of your module: pettingzoo:MODULE:parallel_env"
)
IN_TURN = (
    "its agents act in turn (AEC), and all agents of a step act at once here. If they may, wrap it: "
    "pettingzoo.utils.conversions.aec_to_parallel, in a function parallel_env of your module: "
    "pettingzoo:MODULE:parallel_env"
)


class Game(Protocol):
    """PettingZoo's parallel interface, as far as it is used. `agents` are those who play now."""

    metadata: dict[str, Any]
    possible_agents: list[Any]
    agents: list[Any]

    def observation_space(self, agent: Any) -> spaces.Space[Any]: ...

    def action_space(self, agent: Any) -> spaces.Space[Any]: ...

    def reset(self, seed: int | None = None) -> tuple[Mapping[Any, Any], Mapping[Any, Any]]: ...

    def step(self, actions: dict[Any, Any]) -> tuple[Mapping[Any, Any], ...]: ...

    def render(self) -> Any: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Shared:
    """What all agents of a game share.

    Attributes:
        names: of the agents, as files have them. observation, action: their spaces, the former without its mask.
        masks_in_observations: whether the observation is a dictionary that has the action mask.
    """

    names: tuple[str, ...]
    observation: spaces.Space[Any]
    action: spaces.Space[Any]
    masks_in_observations: bool


def shared_of(game: Game, name: str) -> Shared:
    """What the agents of a game share.

    Raises:
        EnvironmentContractError: it names no agents, or their spaces differ.
    """
    agents = list(getattr(game, "possible_agents", ()))
    if not agents:
        raise EnvironmentContractError(f"environment '{name}' names no agents: its possible_agents is empty")
    for what in ("observation_space", "action_space"):
        of_agents = {agent: getattr(game, what)(agent) for agent in agents}
        first = of_agents[agents[0]]
        other = next((agent for agent in agents if of_agents[agent] != first), None)
        if other is not None:
            raise EnvironmentContractError(
                f"environment '{name}' has agents with different spaces: the {what} of {agents[0]} is {_short(first)}, "
                f"that of {other} is {_short(of_agents[other])}; {SEVERAL_POLICIES}"
            )
    observation = game.observation_space(agents[0])
    has_masks = isinstance(observation, spaces.Dict) and MASK in observation.spaces
    if isinstance(observation, spaces.Dict) and has_masks:
        observation = _without_mask(observation)
    names = tuple(re.sub(r"[^\w.-]", "_", str(agent), flags=re.ASCII)[:64] for agent in agents)
    return Shared(names, observation, game.action_space(agents[0]), has_masks)


def _without_mask(space: spaces.Dict) -> spaces.Space[Any]:
    rest = {key: part for key, part in space.spaces.items() if key != MASK}
    if list(rest) == [SEEN]:
        return rest[SEEN]
    return spaces.Dict(rest)


def without_mask(observation: Mapping[str, Any]) -> Any:
    """An observation that has its action mask, as it is in the space of `Shared`."""
    rest = {key: part for key, part in observation.items() if key != MASK}
    return rest[SEEN] if list(rest) == [SEEN] else rest


def _short(space: spaces.Space[Any]) -> str:
    text = str(space)
    return text if len(text) <= 60 else f"{text[:57]}…"


def pettingzoo_function(rest: str) -> str:
    """The import string of what makes the game `pettingzoo:REST`.

    Raises:
        UnknownNameError: there is no such game. ZooError: its package is not installed.
    """
    module, colon, attribute = rest.partition(":")
    if colon:
        return f"{module}:{attribute or PARALLEL}"
    package, _, name = rest.rpartition("/")
    found: dict[str, str] = {}
    missing = []
    for each, extra in PACKAGES.items():
        try:
            games = _games_of(each)
        except ImportError:
            missing.append(extra)
            continue
        found |= {game: f"{each}.{game}" for game in games}
    path = found.get(name)
    if path is not None and (not package or package in (path.rpartition(".")[0], path.split(".")[-2])):
        return f"{path}:{PARALLEL}"
    if missing:
        extras = ",".join(missing)
        raise ZooError(
            f"unknown environment 'pettingzoo:{rest}'.{did_you_mean(name, found)} Some games are not installed: "
            f"pip install 'a3c-zoo-pettingzoo[{extras}]'"
        )
    raise unknown_name("environment", f"pettingzoo:{rest}", [f"pettingzoo:{game}" for game in found])


def _games_of(package: str) -> list[str]:
    """The names of the games in a package, none of which is imported."""
    paths = importlib.import_module(package).__path__
    return [module.name for module in pkgutil.iter_modules(paths) if re.fullmatch(r"\w+_v\d+", module.name)]


def make_pettingzoo(path: str, name: str, arguments: Mapping[str, Any], render_mode: str | None = None) -> Game:
    """Makes a game of PettingZoo.

    Only a function `parallel_env` or a class of PettingZoo's is called. A name can come from the run of a stranger, and
    so can its arguments.

    Args:
        path: import string of what makes it. name: of the environment. arguments: `env.kwargs`.

    Raises:
        ZooError: there is nothing of this name, it is no game, or an argument does not fit.
    """
    from pettingzoo import AECEnv, ParallelEnv

    module_name, _, attribute = path.partition(":")
    package = module_name.rpartition(".")[0]
    extra = PACKAGES.get(package)
    module = _imported(module_name, name, f"'a3c-zoo-pettingzoo[{extra}]'" if extra else "")
    made_by: Any = getattr(module, attribute, None)
    is_class = isinstance(made_by, type) and issubclass(made_by, (ParallelEnv, AECEnv))
    if attribute == PARALLEL and made_by is None and hasattr(module, "env"):
        raise ZooError(f"environment '{name}' cannot be trained: {IN_TURN}")
    if made_by is None:
        raise UnknownNameError(f"unknown environment '{name}': module '{module_name}' has no {attribute}")
    if not (is_class or (attribute == PARALLEL and callable(made_by))):
        raise ZooError(
            f"environment '{name}': '{attribute}' of '{module_name}' must be a function that is called {PARALLEL}, or "
            "a class that is derived from pettingzoo.ParallelEnv"
        )
    _check_arguments(getattr(module, RAW, made_by) if attribute == PARALLEL else made_by, name, arguments)
    drawing = {} if render_mode is None else {"render_mode": render_mode}
    game = made_by(**arguments, **drawing)
    if isinstance(game, AECEnv):
        if not game.metadata.get("is_parallelizable", False):
            game.close()
            raise ZooError(f"environment '{name}' cannot be trained: {IN_TURN}")
        from pettingzoo.utils.conversions import aec_to_parallel

        game = aec_to_parallel(game)
    if not isinstance(game, ParallelEnv):
        raise EnvironmentContractError(
            f"environment '{name}': '{path}' made {type(game).__name__}, which is no pettingzoo.ParallelEnv"
        )
    made: Game = game
    return made


def _imported(module: str, name: str, bringing: str = "") -> Any:
    """Imports a module of a game. bringing: what `pip install` needs for it, "" for the package that lacks.

    Raises:
        ZooError: it cannot be imported.
    """
    if not all(part.isidentifier() for part in module.split(".")):
        raise UnknownNameError(f"unknown environment '{name}': '{module}' is no name of a module")
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        lacking = (error.name or module).partition(".")[0]
        cure = f"pip install {bringing or lacking}"
        if not bringing and lacking == module.partition(".")[0]:
            cure += "; a module of your own must lie in the current folder, or in one of PYTHONPATH"
        raise ZooError(f"environment '{name}' needs a package that is not installed ({error}): {cure}") from error
    except Exception as error:
        raise ZooError(f"environment '{name}': importing '{module}' failed: {type_and_message(error)}") from error


def _check_arguments(made_by: Callable[..., Any], name: str, arguments: Mapping[str, Any]) -> None:
    """Raises ConfigError for an argument that the game does not take."""
    parameters = inspect.signature(made_by).parameters.values()
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return
    known = sorted(each.name for each in parameters if each.name not in OWN_ARGUMENTS)
    for argument in arguments:
        if argument not in known:
            takes = f"It takes: {', '.join(known)}" if known else "It takes none"
            hint = did_you_mean(argument, known)
            raise ConfigError(f"env.kwargs.{argument}: environment '{name}' has no such argument.{hint} {takes}")


class GymAgents:
    """A `gymnasium.Env` whose spaces are tuples with a part for each agent, with PettingZoo's parallel interface.

    Observations come as a tuple, too; rewards as a list; flags as one for all, or as a list. The environment wants an
    action of each agent, also of those who have left: they do again what they did last. lbforaging and rware are of
    this kind.

    Raises:
        EnvironmentContractError: its spaces are no tuples of the same length.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], name: str) -> None:
        self._env = env
        self._name = name
        self.metadata: dict[str, Any] = dict(env.metadata)
        seen, acts = env.observation_space, env.action_space
        if not (isinstance(seen, spaces.Tuple) and isinstance(acts, spaces.Tuple) and len(seen) == len(acts)):
            env.close()
            raise EnvironmentContractError(
                f"environment '{name}' has no space for each agent: its observation_space and action_space must be "
                f"Tuple spaces of the same length, not {_short(seen)} and {_short(acts)}"
            )
        self._seen, self._acts = seen, acts
        self.possible_agents = [f"agent_{number}" for number in range(len(acts))]
        self.agents: list[str] = []
        self._newest: dict[str, Any] = {}  # the newest action of each agent

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """The part of an agent."""
        return self._seen[self.possible_agents.index(agent)]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """The part of an agent."""
        return self._acts[self.possible_agents.index(agent)]

    def reset(self, seed: int | None = None) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Starts a game; all agents play."""
        observations, info = self._env.reset(seed=seed)
        self.agents = list(self.possible_agents)
        return self._by_agent(observations, "observations"), self._infos(info)

    def step(self, actions: dict[str, Any]) -> tuple[Mapping[str, Any], ...]:
        """Lets the agents act who play."""
        self._newest |= actions
        newest = tuple(self._newest[agent] for agent in self.possible_agents)
        observations, rewards, terminated, truncated, info = self._env.step(newest)
        flags = [
            self._by_agent(flag if np.ndim(flag) else [flag] * len(self.possible_agents), "flags")
            for flag in (terminated, truncated)
        ]
        self.agents = [agent for agent in self.agents if not (flags[0][agent] or flags[1][agent])]
        of_agents = self._by_agent(observations, "observations"), self._by_agent(rewards, "rewards")
        return *of_agents, *flags, self._infos(info)

    def _by_agent(self, values: Any, what: str) -> dict[str, Any]:
        if not hasattr(values, "__len__") or len(values) != len(self.possible_agents):
            raise EnvironmentContractError(
                f"environment '{self._name}' returned wrong {what}: there must be one for each of its "
                f"{len(self.possible_agents)} agents"
            )
        return dict(zip(self.possible_agents, values, strict=True))

    def _infos(self, info: Mapping[str, Any]) -> Mapping[str, Any]:
        """The masks of an info, if it has one for each agent."""
        masks = info.get(MASK)
        if masks is None:
            return {agent: {} for agent in self.possible_agents}
        return {agent: {MASK: mask} for agent, mask in self._by_agent(masks, "action masks").items()}

    def render(self) -> Any:
        """What the environment draws."""
        return self._env.render()

    def close(self) -> None:
        """Closes it."""
        self._env.close()


def make_gym_agents(env_id: str, name: str, arguments: Mapping[str, Any], render_mode: str | None = None) -> Game:
    """Makes a game of Gymnasium's registered environments.

    Args:
        env_id: `MODULE:ID`. Others: see `make_pettingzoo`.

    Raises:
        ZooError: see `make_pettingzoo`.
    """
    module, _, registered = env_id.rpartition(":")
    if not module:
        raise UnknownNameError(
            f"'{name}' names no module that registers it: type gym-agents:MODULE:ID, such as "
            "gym-agents:lbforaging:Foraging-8x8-2p-2f-v3"
        )
    _imported(module, name)
    spec = gymnasium.registry.get(registered)
    if spec is None:
        own = [known.id for known in gymnasium.registry.values() if _is_made_by(known, module)]
        near = [f"gym-agents:{module}:{known}" for known in own]
        raise unknown_name("environment", name, near)
    if not _is_made_by(spec, module):
        raise ZooError(f"environment '{name}': '{module}' does not register it")
    made_by = _created_by(spec.entry_point)
    _check_arguments(made_by, name, {key: value for key, value in arguments.items() if key not in spec.kwargs})
    drawing: dict[str, Any] = {} if render_mode is None else {"render_mode": render_mode}
    # The checker takes rewards of several agents for a fault.
    env = gymnasium.make(registered, disable_env_checker=True, **arguments, **drawing)
    game: Game = GymAgents(env, name)
    return game


def _is_made_by(spec: EnvSpec, module: str) -> bool:
    """Whether a package registers code of its own. Some of Gymnasium's environments import what arguments name."""
    entry_point = spec.entry_point
    if entry_point is None:
        return False
    made_in = entry_point.partition(":")[0] if isinstance(entry_point, str) else entry_point.__module__
    return made_in.partition(".")[0] == module.partition(".")[0]


def _created_by(entry_point: Any) -> Callable[..., Any]:
    if isinstance(entry_point, str):
        module, _, attribute = entry_point.partition(":")
        entry_point = getattr(importlib.import_module(module), attribute)
    made_by: Callable[..., Any] = entry_point
    return made_by
