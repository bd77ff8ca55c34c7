"""The arguments of environments (`env.kwargs`): which one takes what, by its own signature."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import gymnasium

from a3c_zoo.config import EnvConfig
from a3c_zoo.config.models import GIVEN_BY_ZOO
from a3c_zoo.config.yaml import display
from a3c_zoo.errors import ConfigError, did_you_mean
from a3c_zoo.learning import function_env
from a3c_zoo.plugins.entries import EnvEntry, load_object
from a3c_zoo.words import listed

#: Gymnasium's ids whose arguments name an environment of the old library, and its module: a stranger's run may not.
NAMES_CODE: Final = {"GymV21Environment-v0", "GymV26Environment-v0"}
#: How many names an error lists.
MOST_NAMES: Final = 30
#: Python's message about an argument that a function does not take.
UNEXPECTED: Final = re.compile(r"unexpected keyword argument '(\w+)'")


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of what makes an environment.

    Attributes:
        defaults: name → default as a text; "" for a parameter without one.
        takes_others: whether it takes arguments of other names, too, and perhaps refuses them later.
    """

    defaults: dict[str, str]
    takes_others: bool


def registered_spec(env_id: str) -> gymnasium.envs.registration.EnvSpec:
    """The registered specification of `env_id`; imports the module before its colon, which registers it."""
    module, colon, name = env_id.rpartition(":")
    if colon:
        imported = importlib.import_module(module)  # registers the environment, in each process
        if name not in gymnasium.registry and hasattr(imported, "register_envs"):
            imported.register_envs()  # in packages such as MinAtar, which leave it to Gymnasium's former plugins
    return gymnasium.spec(name)


def parameters_of(entry: EnvEntry, config: type[EnvConfig]) -> Parameters:
    """The parameters that `env.kwargs` may give. Imports the code of the environment.

    Args:
        config: the model of the section `env`, whose keys are given in another way.
    """
    made_by: Callable[..., Any]
    if entry.factory == function_env.FACTORY:
        made_by = function_env.loaded(entry.kwargs["function"])
    elif entry.factory is not None:
        made_by = load_object(entry.factory)
    else:
        made_by = creator_of(registered_spec(str(entry.env_id)))
    signature = inspect.signature(made_by)
    every = list(signature.parameters.values())
    takes_others = any(each.kind is each.VAR_KEYWORD for each in every)
    if takes_others and isinstance(made_by, type):
        every += _inherited(made_by)
    others = {*GIVEN_BY_ZOO, *config.model_fields}
    if entry.factory is not None:
        others |= entry.kwargs.keys()
    defaults: dict[str, str] = {}
    for each in every:
        if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY) and each.name not in others:
            defaults.setdefault(each.name, "" if each.default is each.empty else display(each.default))
    return Parameters(defaults, takes_others)


def _inherited(made_by: type) -> list[inspect.Parameter]:
    """The parameters to which a class may pass `**kwargs` on: those of the classes above it."""
    parameters: list[inspect.Parameter] = []
    for kind in made_by.__mro__[1:]:
        own = vars(kind).get("__init__")
        if inspect.isfunction(own):
            added = list(inspect.signature(own).parameters.values())[1:]
            parameters += added
            if not any(each.kind is each.VAR_KEYWORD for each in added):
                break
    return parameters


def creator_of(spec: gymnasium.envs.registration.EnvSpec) -> Callable[..., Any]:
    """The class or function that makes a registered environment.

    Its entry points are one for single environments, and perhaps one for many; `gymnasium.make` calls the former.
    """
    creator = spec.entry_point or spec.vector_entry_point
    made_by: Callable[..., Any] = load_object(creator) if isinstance(creator, str) else creator  # type: ignore[assignment]
    return made_by


def check_arguments(entry: EnvEntry, config: EnvConfig) -> None:
    """Raises ConfigError for an argument in `env.kwargs` that the environment does not take, and for one that it lacks.

    It lacks none but of a class or a function: `EnvEntry.kwargs` has those of other factories. Arguments that an entry
    gives to its factory are not for a configuration. Such as `function` of a class that a program gave: it names code,
    and the configuration of a run can be that of a stranger.
    """
    if entry.factory == function_env.FACTORY:
        _refuse_lacking(entry, config)
    if not config.kwargs:
        return
    if entry.factory is not None:
        for name in config.kwargs.keys() & entry.kwargs.keys():
            raise ConfigError(
                f"env.kwargs.{name}: environment '{entry.name}' gives this argument itself; leave it out"
            )
    elif str(entry.env_id).rpartition(":")[2] in NAMES_CODE:
        raise ConfigError(
            f"env.kwargs: environment '{entry.name}' imports what its arguments name. Write a function that makes the "
            "environment, and name that: a3c-zoo train ./FILE.py:FUNCTION"
        )
    parameters = parameters_of(entry, type(config))
    for name in config.kwargs:
        if name not in parameters.defaults and not parameters.takes_others:
            raise _unknown(entry, name, parameters)


def _refuse_lacking(entry: EnvEntry, config: EnvConfig) -> None:
    """Raises ConfigError for a class or a function that needs an argument which `env.kwargs` does not give."""
    needed = function_env.needed_arguments(function_env.loaded(entry.kwargs["function"]))
    lacking = [name for name in needed if name not in config.kwargs]
    if not lacking:
        return
    cure = "Name a function without parameters that makes it"
    if not set(lacking) & set(GIVEN_BY_ZOO):
        words = " ".join(f"-o env.kwargs.{name}=VALUE" for name in lacking)
        cure = f"Type: {words}, or name a function without parameters that makes it"
    raise ConfigError(f"environment '{entry.name}' needs arguments: {listed(lacking)}. {cure}")


def unexpected_argument(error: BaseException, entry: EnvEntry, config: EnvConfig) -> ConfigError | None:
    """The error of an argument in `env.kwargs` that an environment refused by its TypeError; None for another error."""
    found = UNEXPECTED.search(str(error)) if isinstance(error, TypeError) else None
    if found is None or found[1] not in config.kwargs:
        return None
    return _unknown(entry, found[1], parameters_of(entry, type(config)))


def _unknown(entry: EnvEntry, name: str, parameters: Parameters) -> ConfigError:
    names = sorted(parameters.defaults)
    if names:
        hint = f"{did_you_mean(name, names)} It takes: {', '.join(names[:MOST_NAMES])}"
    else:
        hint = " It takes none"
    return ConfigError(f"env.kwargs.{name}: environment '{entry.name}' has no such argument.{hint}")
