"""From an entry to a vector environment."""

from __future__ import annotations

import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from typing import Any, TypeVar

import gymnasium
from gymnasium import Env
from gymnasium.error import DependencyNotInstalled, NameNotFound, NamespaceNotFound
from gymnasium.vector import VectorEnv

from a3c_zoo.config import EnvConfig
from a3c_zoo.config.yaml import display
from a3c_zoo.cures import install_extra
from a3c_zoo.errors import ConfigError, EnvironmentContractError, PluginError, ZooError, one_line
from a3c_zoo.learning import function_env
from a3c_zoo.learning.arguments import check_arguments, registered_spec, unexpected_argument
from a3c_zoo.learning.mujoco import check_version, with_camera, wrong_version
from a3c_zoo.learning.observed_masks import with_observed_masks
from a3c_zoo.learning.undrawn import cannot_draw
from a3c_zoo.learning.wrappers import Wrapper, load_wrappers, wrap_all
from a3c_zoo.library_settings import kept_settings
from a3c_zoo.plugins.entries import EnvEntry, load_object


def make_vector_env(
    entry: EnvEntry, config: EnvConfig, num_envs: int, seed: int, render_mode: str | None = None
) -> VectorEnv[Any, Any, Any]:
    """Makes the entry's environment in its wrappers; a `gymnasium.Env` known by its id gets a `SyncVectorEnv`.

    The settings of torch and NumPy stay as they are, even if the environment changes them.

    Args:
        num_envs: how many at least. If several agents play a game, all of them take part: the number is rounded up
            (`EnvEntry.whole_games`).
        render_mode: Gymnasium's, to draw the environment; None draws nothing.

    Raises:
        PluginError: the factory raised, or cannot be imported.
        ConfigError: a wrapper cannot be imported, or does not fit.
        EnvironmentContractError: it did not return a VectorEnv of `num_envs` environments.
        ZooError: it has no parameter for the render mode, or needs a package that is not installed.
    """
    num_envs = entry.whole_games(num_envs)
    kwargs = config.arguments(entry.kwargs)
    if render_mode is not None:
        kwargs["render_mode"] = render_mode
    with kept_settings():
        wrappers = load_wrappers(config)
        with faults_of(entry, config=config):
            check_arguments(entry, config)
            inner = [wrapper for wrapper in wrappers if not wrapper.takes_vectors]
            env = _make(entry, num_envs, seed, kwargs, inner, is_drawn=render_mode is not None)
            env = wrap_all(env, [wrapper for wrapper in wrappers if wrapper.takes_vectors])
    if not isinstance(env, VectorEnv) or env.num_envs != num_envs:
        if isinstance(env, VectorEnv):
            made = f"{env.num_envs} environments"
        else:
            made = repr(type(env))
        raise EnvironmentContractError(
            f"the factory of environment '{entry.name}' must return a gymnasium.vector.VectorEnv of {num_envs} "
            f"environments, not {made}"
        )
    if config.action_masks:
        return with_observed_masks(env)
    return env


#: Environments, one or several.
Closable = TypeVar("Closable", bound="Env[Any, Any] | VectorEnv[Any, Any, Any]")


@contextmanager
def closed(env: Closable) -> Iterator[Closable]:
    """Closes environments after the body. What the body has done counts, though they fail to close."""
    try:
        yield env
    finally:
        with suppress(Exception, SystemExit):  # games often end their program here
            env.close()


@contextmanager
def closed_on_failure(env: Closable) -> Iterator[Closable]:
    """Closes environments if the body fails. If it does not, their owner closes them later."""
    try:
        yield env
    except BaseException:
        with suppress(Exception, SystemExit):
            env.close()
        raise


@contextmanager
def faults_of(entry: EnvEntry, done: str = "made", config: EnvConfig | None = None) -> Iterator[None]:
    """While an environment is made: turns its errors into those of `make_vector_env`, which name it.

    Args:
        done: what is done to it, for messages. config: with which it is made; None if it is made already.
    """
    check_version(entry)
    try:
        yield
    except ZooError as error:
        error.add_note(f"(raised while environment '{entry.name}' was {done})")
        raise
    except (Exception, SystemExit) as error:
        if cure := missing_package(error):
            raise ZooError(
                f"environment '{entry.name}' needs a package that is not installed: {cure}"
            ) from error
        if undrawn := cannot_draw(entry.name, error):
            raise undrawn from error
        if config is not None and config.kwargs:
            if unexpected := unexpected_argument(error, entry, config):
                raise unexpected from error
            done = f"{done} with env.kwargs={display(config.kwargs)}"
        cure = wrong_version() if "mujoco" in sys.modules else ""
        cure = cure or "Its traceback: --debug"
        if isinstance(error, NameNotFound | NamespaceNotFound) and entry.env_id and ":" not in entry.env_id:
            cure = f'If a module registers it: EnvEntry(env_id="MODULE:{entry.env_id}"). {cure}'
        raise PluginError(
            f"environment '{entry.name}' cannot be {done}: {one_line(error)}. {cure}"
        ) from error


def _make(
    entry: EnvEntry, num_envs: int, seed: int, kwargs: dict[str, Any], wrappers: list[Wrapper], is_drawn: bool
) -> Any:
    if entry.factory is None:
        return _make_registered(entry, num_envs, kwargs, wrappers, is_drawn)
    is_of_function = entry.factory == function_env.FACTORY
    if wrappers and not is_of_function:
        raise ConfigError(
            f"env.wrappers: '{wrappers[0].path}' wraps single environments, and the factory of environment "
            f"'{entry.name}' makes them all as one; a subclass of gymnasium.vector.VectorWrapper can wrap them"
        )
    factory = load_object(entry.factory)
    if is_drawn and "render_mode" not in inspect.signature(factory).parameters:
        raise ZooError(
            f"environment '{entry.name}' cannot be drawn: its factory has no parameter render_mode"
        )
    if is_drawn and is_of_function:
        _refuse_without_render_mode(entry, function_env.loaded(entry.kwargs["function"]))
    if wrappers:
        arguments = dict(kwargs)
        make_one = function_env.maker(arguments.pop("function"), arguments)
        return function_env.made_together(lambda: wrap_all(make_one(), wrappers), num_envs)
    return factory(num_envs, seed, **kwargs)


#: Parts of Gymnasium's messages on the missing packages of an environment. They are the names of the extras,
#: too.
EXTRAS = ("box2d", "mujoco")


def missing_package(error: BaseException) -> str | None:
    """Returns how to install the missing packages of an environment; None for an error of another kind."""
    if not isinstance(error, DependencyNotInstalled | ImportError):
        return None
    message = " ".join(str(error).split())
    if isinstance(error, DependencyNotInstalled):
        words = (word for word in EXTRAS if re.search(rf"\b{word}\b", message.lower()))
        word = next(words, None)
        if word:
            return install_extra(word)
        return message
    frames = traceback.extract_tb(error.__traceback__)
    if frames and os.sep.join(("gymnasium", "envs", "mujoco", "")) in frames[-1].filename:
        return install_extra("mujoco")  # its renderer imports another package without a word
    name = (error.name or "").partition(".")[0].lower()
    if name in EXTRAS:
        return install_extra(name)
    return None


def _make_registered(
    entry: EnvEntry, num_envs: int, kwargs: dict[str, Any], wrappers: list[Wrapper], is_drawn: bool
) -> VectorEnv[Any, Any, Any]:
    env_id = str(entry.env_id)
    spec = registered_spec(env_id)
    name = env_id.rpartition(":")[2]
    is_vector = spec.vector_entry_point is not None and not (spec.additional_wrappers or wrappers)
    # That of ale_py is another task: clipped rewards, other frames.
    is_vector &= not str(spec.vector_entry_point).startswith("ale_py.")
    creator = spec.vector_entry_point if is_vector else spec.entry_point
    if is_drawn and creator is not None:
        _refuse_without_render_mode(entry, creator)
    if is_drawn:
        kwargs = with_camera(spec, kwargs)
    if is_vector:
        # For gymnasium.make, None is the registered limit; a vector environment would take None as its limit.
        kwargs = {key: value for key, value in kwargs.items() if (key, value) != ("max_episode_steps", None)}
        return gymnasium.make_vec(name, num_envs, vectorization_mode="vector_entry_point", **kwargs)
    try:
        env = function_env.made_together(
            lambda: wrap_all(gymnasium.make(env_id, **deepcopy(kwargs)), wrappers), num_envs
        )
    except (AssertionError, ValueError) as error:
        # It may refuse the mode itself.
        if is_drawn and creator is not None and _draws_not(_loaded(creator)):
            raise _without_pictures(entry) from error
        raise
    # Gymnasium refuses to draw it. Wrappers may draw by themselves.
    if is_drawn and _draws_not(env) and not spec.disable_env_checker and not wrappers:
        env.close()
        raise _without_pictures(entry)
    return env


def _draws_not(env: Any) -> bool:
    """Whether an environment, or what makes it, says that it has render modes, and none with pictures."""
    modes = (getattr(env, "metadata", None) or {}).get("render_modes")
    return modes is not None and "rgb_array" not in modes


def _without_pictures(entry: EnvEntry) -> ZooError:
    return ZooError(
        f"environment '{entry.name}' cannot be drawn: its metadata['render_modes'] has no 'rgb_array'"
    )


def _loaded(creator: str | Callable[..., object]) -> Callable[..., object]:
    """The class or the function that makes an environment, or that an import string names."""
    if isinstance(creator, str):
        made_by: Callable[..., object] = load_object(creator)
        return made_by
    return creator


def _refuse_without_render_mode(entry: EnvEntry, creator: str | Callable[..., object]) -> None:
    """Raises ZooError if a class or a function, or what an import string names, takes no `render_mode`."""
    parameters = inspect.signature(_loaded(creator)).parameters.values()
    if not any(each.name == "render_mode" or each.kind is each.VAR_KEYWORD for each in parameters):
        raise ZooError(f"environment '{entry.name}' cannot be drawn: it has no parameter render_mode")
