"""How fast this machine is just now: a fixed piece of work, timed. What else runs on it shows in the differences."""

from __future__ import annotations

import time

import numpy as np

INTEGERS = 2_000_000
PRODUCTS = 300


def calibrate() -> float:
    """Seconds of a fixed loop in one thread: Python's own arithmetic, then products of small matrices.

    About 0.2 s on a desktop processor.
    """
    matrix = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32) / 8
    start_s, total = time.perf_counter(), 0
    for number in range(INTEGERS):
        total += number & 7
    product = matrix
    for _ in range(PRODUCTS):
        product = np.tanh(product @ matrix)
    return time.perf_counter() - start_s
