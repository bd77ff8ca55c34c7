"""Opens the engine that a user names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from a3c_zoo.config.settings import engine_settings
from a3c_zoo.engines.interface import Engine
from a3c_zoo.errors import PluginError, ZooError, one_line
from a3c_zoo.plugins.entries import load_factory
from a3c_zoo.plugins.registry import Registry

DEFAULT_ENGINE: Final = "local"


def open_engine(
    registry: Registry,
    name: str = DEFAULT_ENGINE,
    options: Sequence[str] = (),
    flags: Mapping[str, Any] | None = None,
) -> Engine:
    """Makes an engine; the caller closes it.

    Args:
        options: `KEY=VALUE` texts for its settings. flags: key → value, such as `address`; see `engine_settings`.

    Raises:
        UnknownNameError: there is none of this name. ConfigError: a setting is at fault.
        PluginError: its plugin fails. ZooError: what it needs is not there, such as a cluster.
    """
    entry = registry.engine(name)
    settings = engine_settings(entry, options, flags or {})
    title = f"engine '{name}' of {registry.owner(entry)}"
    try:
        engine = load_factory(title, entry.factory)(settings)
    except ZooError:
        raise
    except Exception as error:
        raise PluginError(f"{title} cannot be made: {one_line(error)}") from error
    if not isinstance(engine, Engine):
        raise PluginError(f"{title} cannot be made: {entry.factory} returns no a3c_zoo.engines.Engine")
    return engine
