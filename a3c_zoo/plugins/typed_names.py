"""Names of environments as people type them, and the names that they mean.

The rule, the first that holds:

1. `cartpole`, `gym:Acrobot-v1`: a name as it is listed; letters of other case are taken, too.
2. `CartPole-v1`: an environment of a plugin that says this is its Gymnasium id (`EnvEntry.gym_id`).
3. `PongNoFrameskip-v4`, `LunarLander-v3`: what a family knows by this name (`EnvFamily.recognise`).
4. `mysim:Tank`, `./mysim.py:Tank`, `./mysim.py`: a class or a function that makes an environment; `mysim:Tank-v0`:
   an id that a module registers with Gymnasium.

If two environments are meant, nothing is guessed: the error names both. What was understood is told.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from importlib.util import find_spec

from a3c_zoo.cures import FAMILIES, install_plugin
from a3c_zoo.errors import PluginError, UnknownNameError, ZooError, printable, type_and_message
from a3c_zoo.plugins.entries import EnvEntry, load_factory
from a3c_zoo.plugins.module_files import MODULE_FILES
from a3c_zoo.plugins.registry import PYTHON, Registry, imported_by

#: `folder/file.py`, `folder/file.py:Name`.
_FILE = re.compile(r"(.+\.py)(?::(.+))?")
#: `module:Name`, with dots in both.
_IN_MODULE = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):(.+)")
#: Typed names about which something was told already, in this process.
_told: set[str] = set()


def env_name(registry: Registry, typed: str, tell: Callable[[str], None] | None = None) -> str:
    """The name of the environment that a user means; `typed` itself if nothing has it, so that its error comes later.

    A module of the current folder, and a file that is named, can be imported from then on.

    Args:
        tell: is told what was understood, if that is another name; by default stderr is.

    Raises:
        UnknownNameError: two environments are meant.
        ZooError: a file is named that cannot be imported, or has no environment.
    """
    MODULE_FILES.add_typed_files()
    try:
        name = _of_registry(registry, typed) or _of_code(registry, typed) or typed
        if _brings(registry, typed):
            registry.env(name)
    except ZooError as error:
        if not (distribution := _brings(registry, typed)):
            raise
        cure = install_plugin(distribution)
        raise UnknownNameError(f"'{typed}' needs the plugin {distribution}: {cure}") from error
    if name.partition(":")[0] in registry.families and (module := imported_by(name)):
        MODULE_FILES.add_from_current_folder(module)
    if name != typed and typed not in _told:
        if name.startswith(f"{PYTHON}:") or name.count(":") > 1:  # of a module
            registry.env(name)  # raises if there is no such environment: then nothing was understood
        _told.add(typed)
        (tell or _tell)(_told_of(registry, typed, name))
    return name


def refuse_unnamed(env: object) -> None:
    """Raises ZooError for an environment that is no name, where each run is a process that finds it by its name."""
    if not isinstance(env, str):
        raise ZooError(
            f"{env!r:.80} is no name of an environment, and compare and tune take names alone. "
            "A class or a function of a module has one: 'module:Name'"
        )


def _brings(registry: Registry, typed: str) -> str:
    """The distribution of this project whose family a typed name begins with, if it is not loaded; "" if none is."""
    prefix = typed.partition(":")[0]
    return "" if prefix in registry.families else FAMILIES.get(prefix, "")


def quiet_env_name(registry: Registry, typed: str) -> str:
    """As `env_name` for a name that may mean nothing, such as that of a filter. Tells, raises and imports nothing."""
    try:
        if name := _of_registry(registry, typed):
            return name
    except ZooError:
        return typed
    module, colon, rest = typed.removeprefix("./").replace(".py:", ":").partition(":")
    return f"{PYTHON}:{os.path.basename(module)}:{rest}" if colon else typed


def _tell(text: str) -> None:
    print(printable(text), file=sys.stderr)


def _told_of(registry: Registry, typed: str, name: str) -> str:
    """What was understood, in a line: also another environment that could be meant, or the id that is the same task."""
    text = f"Note: {typed} is {name} here"
    entry = registry.envs.get(name)
    if entry is None or not entry.gym_id or name == typed.casefold():
        return text
    own_id = _id_of(entry)
    if own_id.casefold() != typed.casefold() and re.search(r"-v\d+$", typed):
        return f"{text}, the task of {own_id}"
    if ":" not in entry.gym_id:
        return f"{text}. Gymnasium's own: gym:{own_id}"
    return text


def _of_registry(registry: Registry, typed: str) -> str | None:
    """The listed name that is meant; None if there is none."""
    if typed in registry.envs:
        return typed
    prefix, colon, rest = typed.partition(":")
    family = registry.families.get(prefix.casefold()) if colon else None
    if family is not None:
        known = _recognised(registry, family.prefix, rest)
        return known or f"{family.prefix}:{rest}"
    if typed.casefold() in registry.envs:
        return typed.casefold()
    return None if colon else _of_id(registry, typed)


def _of_id(registry: Registry, typed: str) -> str | None:
    """The environment with this id of Gymnasium, in any letter case.

    Raises:
        UnknownNameError: two have it.
    """
    if not typed:
        return None
    wanted = typed.casefold()
    by_id = [entry.name for entry in registry.envs.values() if _id_of(entry).casefold() == wanted]
    _refuse_two(typed, by_id)
    if by_id:
        return by_id[0]
    found = [known for prefix in registry.families if (known := _recognised(registry, prefix, typed))]
    _refuse_two(typed, found)
    if not found:
        return None
    # `ALE/Pong-v5` is a game of `atari:`, which has a name of its own: `pong`.
    own_id = _id_of(registry.env(found[0])).casefold()
    named = [entry.name for entry in registry.envs.values() if own_id and _id_of(entry).casefold() == own_id]
    return named[0] if len(named) == 1 else found[0]


def _id_of(entry: EnvEntry) -> str:
    """The Gymnasium id of an entry, without the module that registers it; "" without one."""
    return (entry.own_id or "").rpartition(":")[2]


def _refuse_two(typed: str, names: list[str]) -> None:
    if len(names) > 1:
        raise UnknownNameError(f"'{typed}' can mean {' or '.join(names)}: type one of them")


def _recognised(registry: Registry, prefix: str, typed: str) -> str | None:
    """The name of a family's environment that is known elsewhere as `typed`."""
    family = registry.families[prefix]
    if family.recognise is None:
        return None
    title = f"environment family '{prefix}' of {registry.owner(family)}"
    recognise = load_factory(title, family.recognise)
    try:
        known = recognise(typed)
    except ZooError:
        raise
    except Exception as error:
        raise PluginError(f"{title} failed to recognise '{typed}': {type_and_message(error)}") from error
    if known is not None and not str(known).startswith(f"{prefix}:"):
        raise PluginError(f"{title} takes '{typed}' for {known!r:.60}, which does not begin with '{prefix}:'")
    return None if known is None else str(known)


def _of_code(registry: Registry, typed: str) -> str | None:
    """The environment of a file or a module that is named; None if none is."""
    if match := _FILE.fullmatch(typed):
        return _of_module(registry, MODULE_FILES.add_file(match[1]), match[2] or "")
    match = _IN_MODULE.fullmatch(typed)
    if match is None or match[1] in registry.families:
        return None
    MODULE_FILES.add_from_current_folder(match[1])
    if not _is_there(match[1]):
        return None
    return _of_module(registry, match[1], match[2])


def _is_there(module: str) -> bool:
    """Whether Python finds the top-level package of a module. Imports nothing."""
    top = module.partition(".")[0]
    try:
        return top in sys.modules or find_spec(top) is not None
    except ValueError:  # a module that was made by hand
        return True


def _of_module(registry: Registry, module: str, rest: str) -> str:
    """The name for `rest` of a module; without it, of the only environment that the module has."""
    if PYTHON not in registry.families:  # the core's plugin is blocked
        raise ZooError(f"'{module}:{rest}' names code, and the plugin 'core' is left out")
    if rest and not all(part.isidentifier() for part in rest.split(".")):
        return f"gym:{module}:{rest}"
    if not rest:
        return registry.env(f"{PYTHON}:{module}").name
    return f"{PYTHON}:{module}:{rest}"
