"""Counters: rows that one worker writes, and their sums."""

from __future__ import annotations

import torch

from a3c_zoo.learning.counters import Counters


class TestCounters:
    def test_rows_and_sums(self) -> None:
        tensor = torch.tensor([[1, 20, 300, 4000], [4, 50, 600, 7000]])
        counters = Counters(tensor)
        assert (counters.steps, counters.updates, counters.episodes) == (5, 70, 11_000)
        assert counters.ticks.tolist() == [300, 600]

    def test_a_row_writes_through(self) -> None:
        tensor = Counters.zeros(2)
        counters = Counters(tensor)
        counters.row(1)[0] += 7
        counters.row(0)[1] += 1
        assert tensor.tolist() == [[0, 1, 0, 0, 0], [7, 0, 0, 0, 0]]
        assert (Counters(tensor).steps, counters.steps, counters.updates) == (7, 7, 1)

    def test_beyond_32_bits(self) -> None:
        counters = Counters(Counters.zeros(2))
        for rank in range(2):
            counters.row(rank)[0] += 2**40
        assert counters.steps == 2**41

    def test_ticks_are_a_snapshot(self) -> None:
        counters = Counters(Counters.zeros(1))
        ticks = counters.ticks
        counters.row(0)[2] += 1
        assert ticks.tolist() == [0]
