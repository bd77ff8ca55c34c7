"""The family `python:`: classes and functions that make environments, by module and name.

`a3c-zoo train mysim:Tank` means `python:mysim:Tank`. Workers import the module themselves. A run of somebody else may
not name one, unless the user trusts it.
"""

from __future__ import annotations

import functools
import inspect
import json
import math
import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium

from a3c_zoo.cures import PACKAGES_PAGE
from a3c_zoo.errors import (
    MissingGuardError,
    UnknownNameError,
    ZooError,
    did_you_mean,
    one_line,
    type_and_message,
)
from a3c_zoo.files import same_folder, shown
from a3c_zoo.first_look import first_look, imported
from a3c_zoo.learning import function_env
from a3c_zoo.library_settings import kept_settings
from a3c_zoo.plugins.entries import EnvEntry
from a3c_zoo.plugins.module_files import MODULE_FILES, files_of
from a3c_zoo.plugins.registry import PYTHON
from a3c_zoo.plugins.variants import variant_of
from a3c_zoo.processes.start import refusing_to_train
from a3c_zoo.words import listed


@functools.cache
def resolve(rest: str) -> EnvEntry:
    """Returns the entry of `module:Name`, or of the only environment class that `module` defines.

    One environment is made, once in a process, to choose the hyperparameter sets: those of `gym:`. One that needs
    arguments has no variant without them; `variant` tells it, and where it is made, an error names those that lack.

    Raises:
        ZooError: the module cannot be imported, has nothing of this name, or that makes no `gymnasium.Env`.
    """
    module_name, _, name = rest.partition(":")
    if not module_name:
        raise UnknownNameError(
            f"'{PYTHON}:{rest}' names no module: type MODULE:NAME, FILE.py:NAME or FILE.py"
        )
    if not name:
        name = _only_env(_imported(module_name))
    path = f"{module_name}:{name}"
    variant = ""
    threshold = None
    if not function_env.needed_arguments(_found(_imported(module_name), name)):
        variant, threshold = _looked_at(module_name, name, {})
    return EnvEntry(
        f"{PYTHON}:{path}",
        factory=function_env.FACTORY,
        kwargs={"function": path},
        threshold=threshold,
        description=f"{name} of {module_name}",
        family="gym",
        variant=variant,
    )


def variant(rest: str, kwargs: Mapping[str, Any]) -> str:
    """The variant of the environment that is made with these arguments; see `EnvFamily.variant`.

    If it cannot be made with them, it is that without them: where the environment is made, the error says more.
    """
    module_name, _, name = rest.partition(":")
    with suppress(ZooError):
        return _looked_at(module_name, name, kwargs)[0]
    return resolve(rest).variant


#: Module, name and arguments → the variant and the threshold of those that were looked at, as JSON.
_seen: dict[tuple[str, str, str], str] = {}


def _looked_at(module_name: str, name: str, kwargs: Mapping[str, Any]) -> tuple[str, float | None]:
    """Its variant and its threshold; neither if its process ends or hangs: training reports it."""
    key = module_name, name, repr(dict(kwargs))
    if key not in _seen:
        make_one = _found(_imported(module_name), name)
        where = f"{_shown(module_name)}:{name}"
        seen = first_look(where, functools.partial(_variant_and_threshold, make_one, where, kwargs))
        _seen[key] = seen or json.dumps(("", None))
    variant, threshold = json.loads(_seen[key])
    return variant, threshold


def _variant_and_threshold(make_one: Any, where: str, kwargs: Mapping[str, Any]) -> str:
    """Makes an environment, and looks at it. Returns both as JSON."""
    with same_folder(), kept_settings(), redirect_stdout(sys.stderr):
        env = _made(make_one, where, kwargs)
        try:
            variant = variant_of(env.observation_space, env.action_space)
            threshold = None if env.spec is None else env.spec.reward_threshold
        except Exception as error:
            raise ZooError(f"the spaces of {where} cannot be read: {type_and_message(error)}") from error
        finally:
            with suppress(Exception, SystemExit):  # training closes another one, and raises it
                env.close()
    return json.dumps((variant, threshold if math.isfinite(threshold or 0) else None))


def _shown(module_name: str) -> str:
    """A module as the user can type it: the path of its file, if it was named so; else its name."""
    file = MODULE_FILES.paths.get(module_name)
    return str(shown(Path(file))) if file and os.path.basename(file) != "__init__.py" else module_name


def _only_env(module: ModuleType) -> str:
    """The name of the only environment class that a module defines. Raises ZooError if it defines none, or several."""
    where = _shown(module.__name__)
    names = _env_classes(module)
    if len(names) == 1:
        return names[0]
    if names:
        raise ZooError(f"{where} defines {listed(names[:5])}. Name one: {where}:{names[0]}")
    functions = [name for name, value in vars(module).items() if _is_own_function(value, module)]
    example = functions[0] if len(functions) == 1 else "FUNCTION"
    raise ZooError(
        f"{where} defines no class of gymnasium.Env. Name the function that makes one: {where}:{example}"
    )


def _env_classes(module: ModuleType) -> list[str]:
    """Names of the environments that a module defines itself; wrappers are none."""
    return [
        name
        for name, value in vars(module).items()
        if isinstance(value, type)
        and issubclass(value, gymnasium.Env)
        and not issubclass(value, gymnasium.Wrapper)
        and value.__module__ == module.__name__
        and not inspect.isabstract(value)
        and not name.startswith("_")
    ]


def _is_own_function(value: object, module: ModuleType) -> bool:
    return (
        inspect.isfunction(value)
        and value.__module__ == module.__name__
        and not value.__name__.startswith("_")
    )


def _imported(module_name: str) -> ModuleType:
    """A module. What it prints goes to stderr; what it changes of the current folder and of settings is set back."""
    where = _shown(module_name)
    try:
        with _alone():
            return imported(module_name)
    except MissingGuardError as error:
        raise ZooError(f"{where}: {error}") from error
    except SystemExit as error:
        raise ZooError(
            f"importing {where} ends the program (SystemExit: {error}). Put what it runs below "
            "`if __name__ == '__main__':`"
        ) from error
    except ModuleNotFoundError as error:
        if error.name == module_name.partition(".")[0]:
            raise ZooError(
                f"there is no module '{module_name}' to import. Name its file, ./FILE.py:NAME, or its folder: "
                "PYTHONPATH=FOLDER a3c-zoo …"
            ) from error
        cure = _cure_of_neighbour(module_name, error.name or "") or "install it"
        raise ZooError(f"importing {where} failed: {type_and_message(error)}; {cure}") from error
    except ZooError:
        raise
    except Exception as error:
        raise ZooError(f"importing {where} failed: {one_line(error)}. Its traceback: --debug") from error


def _cure_of_neighbour(module_name: str, lacking: str) -> str:
    """How a file finds a module that lies beside it; "" if it does not lie there."""
    folder = os.path.dirname(MODULE_FILES.paths.get(module_name.partition(".")[0], ""))
    top = lacking.partition(".")[0]
    if not folder or not top or not any(map(os.path.isfile, files_of(folder, top))):
        return ""
    return f"it lies beside that file, so type: PYTHONPATH={shlex.quote(str(shown(Path(folder))))} a3c-zoo …"


@contextmanager
def _alone() -> Iterator[None]:
    """Within the context a module is imported: it may not train, and sees no arguments of the command line."""
    arguments = sys.argv
    sys.argv = arguments[:1]
    try:
        with same_folder(), kept_settings(), redirect_stdout(sys.stderr), refusing_to_train():
            yield
    finally:
        sys.argv = arguments


def _found(module: ModuleType, name: str) -> Any:
    """The class or the function of this name."""
    where = _shown(module.__name__)
    value: Any = module
    for part in name.split("."):
        if not hasattr(value, part):
            functions = [each for each, its in vars(module).items() if _is_own_function(its, module)]
            known = [*_env_classes(module), *functions]
            hint = did_you_mean(name, known)
            if not hint and known:
                hint = f" It has {listed(known[:5])}"
            raise UnknownNameError(f"{where} has no '{name}'.{hint}")
        value = getattr(value, part)
    if not callable(value):
        kind = "an environment that is made already" if isinstance(value, gymnasium.Env) else repr(value)[:60]
        raise ZooError(f"{where}:{name} is {kind}: name a class, or a function that makes a gymnasium.Env")
    return value


def _made(make_one: Any, where: str, kwargs: Mapping[str, Any]) -> gymnasium.Env[Any, Any]:
    try:
        env = make_one(**kwargs)
    except (Exception, SystemExit) as error:
        raise ZooError(
            f"the environment of {where} cannot be made: {one_line(error)}. Its traceback: --debug"
        ) from error
    if not isinstance(env, gymnasium.Env):
        kind = type(env)
        text = f"{where} makes no gymnasium.Env, but {kind.__module__}.{kind.__qualname__}"
        if hasattr(env, "reset") and hasattr(env, "step"):
            text += f". Write a class that is one and calls it: {PACKAGES_PAGE}"
        raise ZooError(text)
    return env
