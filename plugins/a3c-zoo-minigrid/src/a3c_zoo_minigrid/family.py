"""From `minigrid:DoorKey-5x5` to an environment."""

from __future__ import annotations

from a3c_zoo import EnvEntry
from a3c_zoo.errors import unknown_name

#: Mean returns at which an environment counts as solved. The return is 1 − 0.9 · steps / limit at the goal, else 0.
THRESHOLDS = {"Empty-5x5": 0.94, "Empty-Random-5x5": 0.94, "Empty-8x8": 0.94, "DoorKey-5x5": 0.94}


def resolve(name: str) -> EnvEntry:
    """Returns the entry of the environment that MiniGrid registers as `MiniGrid-NAME-v0`.

    Raises:
        UnknownNameError: there is none.
    """
    import gymnasium
    import minigrid  # noqa: F401  # registers the environments

    known = [env_id[9:-3] for env_id in gymnasium.registry if env_id.startswith("MiniGrid-")]
    if name not in known:
        raise unknown_name("environment", f"minigrid:{name}", [f"minigrid:{each}" for each in known])
    return EnvEntry(
        name=f"minigrid:{name}",
        env_id=f"minigrid:MiniGrid-{name}-v0",
        threshold=THRESHOLDS.get(name),
        description=f"MiniGrid-{name}-v0 of MiniGrid, as its agent sees it",
    )
