"""From `minigrid:DoorKey-5x5` to an environment."""

from __future__ import annotations

from collections import defaultdict

from a3c_zoo import EnvEntry
from a3c_zoo.errors import unknown_name

#: Mean returns at which an environment counts as solved. The return is 1 − 0.9 · steps / limit at the goal, else 0.
THRESHOLDS = {"Empty-5x5": 0.94, "Empty-Random-5x5": 0.94, "Empty-8x8": 0.94, "DoorKey-5x5": 0.94}


def resolve(name: str) -> EnvEntry:
    """Returns the entry of `MiniGrid-NAME`, in its newest version, or in that of a name such as `DoorKey-5x5-v0`.

    Raises:
        UnknownNameError: there is none.
    """
    found = versions()
    chosen = {f"{each}-v{version}": each for each, known in found.items() for version in known}
    newest = {each: f"{each}-v{max(known)}" for each, known in found.items()}
    full = newest.get(name, name)
    if full not in chosen:
        near = [*newest, *(each for each in chosen if len(found[chosen[each]]) > 1)]
        raise unknown_name("environment", f"minigrid:{name}", [f"minigrid:{each}" for each in near])
    return EnvEntry(
        name=f"minigrid:{name}",
        env_id=f"minigrid:MiniGrid-{full}",
        threshold=THRESHOLDS.get(chosen[full]),
        description=f"MiniGrid-{full} of MiniGrid, as its agent sees it",
    )


def versions() -> dict[str, list[int]]:
    """Name of an environment → the versions that MiniGrid registers."""
    import gymnasium
    import minigrid  # noqa: F401  # registers the environments

    found: dict[str, list[int]] = defaultdict(list)
    for spec in gymnasium.registry.values():
        if spec.name.startswith("MiniGrid-") and spec.namespace is None and spec.version is not None:
            found[spec.name.removeprefix("MiniGrid-")].append(spec.version)
    return dict(found)
