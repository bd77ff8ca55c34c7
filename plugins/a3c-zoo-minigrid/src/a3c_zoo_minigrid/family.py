"""From `minigrid:DoorKey-5x5` to an environment."""

from __future__ import annotations

from collections import defaultdict

from a3c_zoo import EnvEntry
from a3c_zoo.errors import UnknownNameError, unknown_name

#: Mean returns at which an environment counts as solved. The return is 1 − 0.9 · steps / limit at the goal, else 0.
THRESHOLDS = {"Empty-5x5": 0.94, "Empty-Random-5x5": 0.94, "Empty-8x8": 0.94, "DoorKey-5x5": 0.94}


def resolve(name: str) -> EnvEntry:
    """Returns the entry of `MiniGrid-NAME`, in its newest version, or in that of a name such as `DoorKey-5x5-v0`.

    Raises:
        UnknownNameError: there is none.
    """
    registered = versions()
    chosen = {f"{task}-v{version}": task for task, known in registered.items() for version in known}
    newest = {task: f"{task}-v{max(known)}" for task, known in registered.items()}
    full = newest.get(name, name)
    if full not in chosen:
        bare = name.removeprefix("MiniGrid-")
        task = chosen.get(bare, bare)
        if task in newest:
            raise UnknownNameError(f"unknown environment 'minigrid:{name}'. Did you mean 'minigrid:{task}'?")
        near = [*newest, *(task for task in chosen if len(registered[chosen[task]]) > 1)]
        raise unknown_name("environment", f"minigrid:{name}", [f"minigrid:{task}" for task in near])
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

    registered: dict[str, list[int]] = defaultdict(list)
    for spec in gymnasium.registry.values():
        if spec.name.startswith("MiniGrid-") and spec.namespace is None and spec.version is not None:
            registered[spec.name.removeprefix("MiniGrid-")].append(spec.version)
    return dict(registered)
