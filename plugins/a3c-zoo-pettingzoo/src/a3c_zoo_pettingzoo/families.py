"""From `pettingzoo:NAME` and `gym-agents:MODULE:ID` to environments. Each game is made once, to look at its agents."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from a3c_zoo import EnvEntry, variant_of
from a3c_zoo.errors import ZooError, type_and_message

from a3c_zoo_pettingzoo.games import Game, Shared, make_gym_agents, make_pettingzoo, pettingzoo_function, shared_of

#: The family whose hyperparameter sets all games use.
FAMILY = "pettingzoo"


def resolve_pettingzoo(rest: str) -> EnvEntry:
    """Returns the entry of `pettingzoo:REST`: a game by its name, or `MODULE:parallel_env`, or `MODULE:Class`.

    Raises:
        ZooError: there is no such game, it is not installed, or one policy cannot play all of its agents.
    """
    path = pettingzoo_function(rest)
    return _entry(f"pettingzoo:{rest}", "made_by", path, "a3c_zoo_pettingzoo.vector:make_pettingzoo_games")


def resolve_gym_agents(rest: str) -> EnvEntry:
    """Returns the entry of `gym-agents:MODULE:ID`. Raises ZooError as `resolve_pettingzoo`."""
    return _entry(f"gym-agents:{rest}", "env_id", rest, "a3c_zoo_pettingzoo.vector:make_gym_agents_games")


def _entry(name: str, key: str, value: str, factory: str) -> EnvEntry:
    shared = _shared(MAKERS[key], value, name, "{}")
    return EnvEntry(
        name,
        factory=factory,
        kwargs={key: value, "name": name},
        family=FAMILY,
        variant=variant_of(shared.observation, shared.action),
        agents=shared.names,
        description=f"{value} with {len(shared.names)} agents",
    )


MAKERS: dict[str, Callable[..., Game]] = {"made_by": make_pettingzoo, "env_id": make_gym_agents}


@functools.cache
def _shared(make: Callable[..., Game], value: str, name: str, arguments: str) -> Shared:
    """What the agents of a game share that is made with arguments in JSON. Raises ZooError if it cannot be made."""
    try:
        game = make(value, name, json.loads(arguments))
        try:
            return shared_of(game, name)
        finally:
            with suppress(Exception):
                game.close()
    except ZooError:
        raise
    except Exception as error:
        raise ZooError(f"environment '{name}' cannot be made: {type_and_message(error)}") from error


def _with_arguments(entry: EnvEntry, kwargs: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Variant and agents with these arguments. If it cannot be made with them, those without: making it says more."""
    key = next(key for key in entry.kwargs if key in MAKERS)
    with suppress(ZooError, TypeError):
        shared = _shared(MAKERS[key], entry.kwargs[key], entry.name, json.dumps(dict(kwargs)))
        return variant_of(shared.observation, shared.action), shared.names
    return entry.variant, entry.agents


def variant_pettingzoo(rest: str, kwargs: Mapping[str, Any]) -> str:
    """See `EnvFamily.variant`."""
    return _with_arguments(resolve_pettingzoo(rest), kwargs)[0]


def agents_pettingzoo(rest: str, kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    """See `EnvFamily.agents`."""
    return _with_arguments(resolve_pettingzoo(rest), kwargs)[1]


def variant_gym_agents(rest: str, kwargs: Mapping[str, Any]) -> str:
    """See `EnvFamily.variant`."""
    return _with_arguments(resolve_gym_agents(rest), kwargs)[0]


def agents_gym_agents(rest: str, kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    """See `EnvFamily.agents`."""
    return _with_arguments(resolve_gym_agents(rest), kwargs)[1]
