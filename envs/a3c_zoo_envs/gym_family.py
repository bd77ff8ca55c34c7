"""The family `gym:`: every environment that is registered with Gymnasium, by its id."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

from a3c_zoo import EnvEntry, ZooError, variant_of
from a3c_zoo.errors import UnknownNameError, did_you_mean, type_and_message
from a3c_zoo.files import same_folder
from a3c_zoo.first_look import first_look, imported
from a3c_zoo.library_settings import kept_settings
from a3c_zoo_envs.atari_family import game_of

#: What pyglet raises where there is no screen. Some packages open a window as they are imported.
NO_DISPLAY = "NoSuchDisplayException"


def resolve(env_id: str) -> EnvEntry:
    """Returns the entry of a registered id such as `Acrobot-v1` or `my_package:Maze-v0` (imports `my_package` first).

    Its variant is that of `a3c_zoo.variant_of`. One environment is made to see it. If it cannot be made, training makes
    it again and raises the error.

    Raises:
        UnknownNameError: no such id is registered.
        ZooError: the module before the colon cannot be imported.
    """
    import gymnasium

    module, colon, name = env_id.rpartition(":")
    try:
        registered = _import(module) if colon else set()
    except Exception as error:
        top = module.partition(".")[0]
        is_missing = isinstance(error, ModuleNotFoundError) and error.name == top
        why = type_and_message(error)
        if is_missing:
            why += f"; install the package that has it, or go to the folder of {top}.py"
        elif type(error).__name__ == NO_DISPLAY:
            why += "; without a screen: PYGLET_HEADLESS=1, with the library EGL, or xvfb-run"
        raise ZooError(f"environment 'gym:{env_id}': importing '{module}' failed: {why}") from error
    try:
        spec = gymnasium.spec(name)
    except gymnasium.error.Error as error:
        known = registered | {env_id for env_id, spec in gymnasium.registry.items() if _is_of(spec, module)}
        if module and not known:
            other = _registering_module(module, name)
            cure = f"; call gymnasium.register(id=…, entry_point=…) in it, or train its class: {module}:CLASS"
            if other:
                cure = f"; name the one that does: gym:{other}:{name}"
            raise ZooError(
                f"environment 'gym:{env_id}': module '{module}' registers no environment with Gymnasium{cure}"
            ) from error
        hint = did_you_mean(name, known).replace("'", f"'gym:{module}{colon}", 1)
        of_gymnasium = {spec.name for spec in gymnasium.registry.values() if _is_of(spec, "gymnasium")}  # Blackjack
        if not module and re.sub(r"-v\d+$", "", name) not in of_gymnasium and (game := game_of(name)):
            hint = f" Did you mean '{game}'?"
        elif not module:
            hint += f" An id of another package is named with its module: gym:MODULE:{name or 'ID'}."
        raise UnknownNameError(f"unknown environment 'gym:{env_id}'.{hint} See: gymnasium.pprint_registry()") from error
    return EnvEntry(
        name=f"gym:{env_id}",
        env_id=env_id,
        config="a3c_zoo_envs.env_configs:GymConfig",
        threshold=spec.reward_threshold if math.isfinite(spec.reward_threshold or 0) else None,
        description=f"{name}, as registered with Gymnasium",
        variant=_variant(name),
    )


def recognise(name: str) -> str | None:
    """Returns `gym:ID` for a registered id in any letter case, or without its version: then the newest; else None.

    The games of `atari:` are left to that family. No module is imported for a name.
    """
    import gymnasium

    wanted = name.casefold()
    specs = [spec for spec in gymnasium.registry.values() if not str(spec.entry_point).startswith("ale_py")]
    named = [spec.id for spec in specs if spec.id.casefold() == wanted]
    versions = {
        spec.version: spec.id
        for spec in specs
        if spec.version is not None and spec.namespace is None and spec.name.casefold() == wanted
    }
    if not named and versions:
        named = [versions[max(versions)]]
    return f"gym:{named[0]}" if named else None


def variant(env_id: str, kwargs: Mapping[str, Any]) -> str:
    """Returns the variant of an id whose environment is made with these arguments; see `resolve`."""
    if env_id.rpartition(":")[2].startswith("GymV2"):  # its arguments name code, and are refused where it is made
        return ""
    return _variant(env_id.rpartition(":")[2], kwargs)


#: Module → the ids that its import has registered in this process.
_registered: dict[str, set[str]] = {}


def _import(module: str) -> set[str]:
    """Imports a module, as `_make_registered` does in other processes; returns the ids that it has registered."""
    import gymnasium

    before = set(gymnasium.registry)
    with kept_settings():
        found = imported(module)
        if module not in _registered and gymnasium.registry.keys() == before and hasattr(found, "register_envs"):
            found.register_envs()
    _registered.setdefault(module, set()).update(gymnasium.registry.keys() - before)
    return _registered[module]


def _registering_module(package: str, name: str) -> str | None:
    """The module inside an imported package whose source registers this id; no module is imported for it."""
    registers = re.compile(rf"register\(\s*(id\s*=\s*)?[\"']{re.escape(name)}[\"']")
    for folder in map(Path, getattr(sys.modules[package], "__path__", ())):
        for file in sorted(folder.rglob("*.py")):
            with suppress(OSError):
                if registers.search(file.read_text(encoding="utf-8", errors="replace")):
                    parts = file.relative_to(folder).with_suffix("").parts
                    return ".".join([package, *(part for part in parts if part != "__init__")])
    return None


def _is_of(spec: Any, module: str) -> bool:
    """Whether a registered environment is of a module's package; true without a module."""
    return str(spec.entry_point).partition(".")[0].partition(":")[0] == module.partition(".")[0] or not module


#: Id and arguments → the registered environment that was looked at, and its variant.
_looked_at: dict[tuple[str, str], tuple[Any, str]] = {}


def _variant(name: str, kwargs: Mapping[str, Any] | None = None) -> str:
    """The variant of a registered environment, which is looked at once.

    It is empty if the environment cannot be made; training makes it again, and reports why.
    """
    import gymnasium

    arguments = dict(kwargs or {})
    key = name, repr(arguments)
    spec = gymnasium.registry.get(name)
    if key not in _looked_at or _looked_at[key][0] is not spec:  # it may be registered anew
        variant = first_look(f"gym:{name}", partial(_read_variant, name, arguments)) or ""
        _looked_at[key] = spec, variant
    return _looked_at[key][1]


def _read_variant(name: str, kwargs: Mapping[str, Any]) -> str:
    import gymnasium

    with same_folder(), kept_settings():
        try:
            env = gymnasium.make(name, **deepcopy(dict(kwargs)))
        except Exception:
            return ""
        try:
            return variant_of(env.observation_space, env.action_space)
        finally:
            with suppress(Exception, SystemExit):  # training closes it again, and raises it
                env.close()
