"""Microseconds that a network needs to act and to update, in float32 and bfloat16, for 1 to 16 environments.

The program uses one core. It repeats each measurement for half a second and takes the fastest repetition. The time to
act is for one environment's step. The time to update (forward and backward over 20 steps of at most two environments)
is for one sample.

    python benchmarks/precision.py
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from gymnasium import spaces

from a3c_zoo.learning.model import one_torch_thread
from a3c_zoo.learning.network_configs import ImageConfig
from a3c_zoo.learning.networks import ActorCritic
from a3c_zoo.learning.spaces import observation_spec
from a3c_zoo.plugins.entries import load_object
from a3c_zoo.plugins.registry import get_registry

FRAMES = {"conv42": 42, "a3c-ff": 84, "nature": 84, "nature-dual": 84, "nature-slim": 84}
T, REPEAT_S = 20, 0.5


def least_us(work: Callable[[], object]) -> float:
    """Microseconds of the fastest repetition, after two that are not counted."""
    work(), work()
    least, end = float("inf"), time.perf_counter() + REPEAT_S
    while (start := time.perf_counter()) < end:
        work()
        least = min(least, time.perf_counter() - start)
    return least * 1e6


def measure(network: ActorCritic, num_envs: int, size: int) -> tuple[float, float]:
    """Returns the microseconds to act, for one step, and to update, for one sample."""
    seen = torch.randint(256, (num_envs, 4, size, size), dtype=torch.uint8)
    columns = min(2, num_envs)
    batch = torch.randint(256, (T + 1, columns, 4, size, size), dtype=torch.uint8)

    def act() -> None:
        with torch.no_grad():
            network.policy(seen)

    def update() -> None:
        network.zero_grad(set_to_none=False)
        logits, values = network.evaluate(batch)
        (logits.float().sum() + values.float().sum()).backward()

    return least_us(act) / num_envs, least_us(update) / (T * columns)


def main() -> None:
    """Prints a line for each network and number of environments."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    print("network      N  acting: float32  bfloat16  updating: float32  bfloat16")
    for name, size in FRAMES.items():
        spec = observation_spec(spaces.Box(0, 255, (4, size, size), np.uint8))
        factory = load_object(get_registry().network(name).factory)
        for num_envs in (1, 2, 4, 8, 16):
            with one_torch_thread():
                networks = [factory(spec, 6, ImageConfig(name=name)).to(p) for p in (torch.float32, torch.bfloat16)]
                (act, update), (act16, update16) = (measure(network, num_envs, size) for network in networks)
            print(f"{name:11} {num_envs:2}  {act:15.0f}  {act16:8.0f}  {update:17.0f}  {update16:8.0f}")


if __name__ == "__main__":
    main()
