"""The family `gym:`: every environment that is registered with Gymnasium, by its id."""

from __future__ import annotations

import importlib
import math
import os
import re
import select
import signal
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

from a3c_zoo import EnvEntry, ZooError, variant_of
from a3c_zoo.errors import UnknownNameError, did_you_mean, type_and_message
from a3c_zoo.files import same_folder
from a3c_zoo.library_settings import kept_settings
from a3c_zoo_envs.atari_family import game_of

#: How long an environment may take to be made, in seconds; the default of `run.worker_timeout_s`.
LIMIT_S = 300
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
#: Modules whose import has started threads of which Python knows nothing, as those of a graphics library.
_with_threads: set[str] = set()


def _import(module: str) -> set[str]:
    """Imports a module, as `_make_registered` does in other processes; returns the ids that it has registered."""
    import gymnasium

    before, threads_before = set(gymnasium.registry), _count_threads()
    with kept_settings():
        imported = importlib.import_module(module)
        if _count_threads() > threads_before:
            _with_threads.add(module)
        if module not in _registered and gymnasium.registry.keys() == before and hasattr(imported, "register_envs"):
            imported.register_envs()
    _registered.setdefault(module, set()).update(gymnasium.registry.keys() - before)
    return _registered[module]


def _count_threads() -> int:
    """The threads of this process as the operating system counts them; 0 where it does not tell (not Linux)."""
    with suppress(OSError):
        return len(os.listdir("/proc/self/task"))
    return 0


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


def _variant(name: str, kwargs: Mapping[str, Any] | None = None) -> str:
    """The variant, which a forked process reads: a constructor may end its process, start threads, or hang.

    If that process ends or hangs, the variant is empty, and training reports it. Beside other threads or torch a fork
    is not safe, and Windows has none; then this process reads the variant.
    """
    is_safe = hasattr(os, "fork") and threading.active_count() == 1 and not _with_threads
    if not is_safe or "torch" in sys.modules:
        with same_folder(), kept_settings():
            return _read_variant(name, kwargs or {})
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()  # it leads a process group, and no terminal stops it
        for number in (signal.SIGALRM, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)  # each ends this process without a word
        signal.alarm(LIMIT_S)  # also if the parent is killed
        with suppress(BaseException):
            os.write(writing, _read_variant(name, kwargs or {}).encode())
        os._exit(0)
    os.close(writing)
    try:
        select.select([reading], [], [], LIMIT_S)
    finally:
        for kill in (os.kill, os.killpg):  # it, and what its environment has started
            with suppress(ProcessLookupError):  # it led no group yet
                kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    os.set_blocking(reading, False)  # what the environment has started may hold the other end
    with open(reading, "rb", buffering=0) as file:
        return (file.read() or b"").decode()


def _read_variant(name: str, kwargs: Mapping[str, Any]) -> str:
    import gymnasium

    try:
        env = gymnasium.make(name, **deepcopy(dict(kwargs)))
    except Exception:  # any error: training makes it again and raises it
        return ""
    try:
        observations, actions = env.observation_space, env.action_space
    finally:
        with suppress(Exception):  # training closes it again, and raises it
            env.close()
    return variant_of(observations, actions)
