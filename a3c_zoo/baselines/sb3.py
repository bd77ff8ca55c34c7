"""stable-baselines3's algorithms as an agent's two functions, which import the library when they are called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from a3c_zoo.errors import ZooError, type_and_message

if TYPE_CHECKING:
    from a3c_zoo.config import Config
    from a3c_zoo.plugins.entries import EnvEntry, NetworkEntry
    from a3c_zoo.records import Policy, RunContext


def run(context: RunContext) -> None:
    """Trains until the run ends; `AgentEntry.run`.

    Raises:
        ZooError: stable-baselines3 is missing or broken.
        ConfigError: the algorithm cannot be built for this configuration and environment.
    """
    _require_library()
    from a3c_zoo.baselines import sb3_training

    sb3_training.run(context)


def load(entry: EnvEntry, network: NetworkEntry | None, config: Config, state: Mapping[str, Any]) -> Policy:
    """Returns the policy of a checkpoint; `AgentEntry.load`. Raises the errors of `run`."""
    _require_library()
    from a3c_zoo.baselines import sb3_training

    return sb3_training.load(entry, config, state)


def _require_library() -> None:
    """Imports the library alone, so its errors are not confused with ours."""
    try:
        import stable_baselines3  # noqa: F401
    except Exception as error:  # a broken installation may raise any error
        raise ZooError(
            f"stable-baselines3 cannot be imported ({type_and_message(error)}). "
            f"Install it: pip install 'stable-baselines3>=2.7,<3'"
        ) from error
