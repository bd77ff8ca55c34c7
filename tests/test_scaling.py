"""benchmarks/scaling.py: the formula with numbers worked out by hand, and the simulation that it is held against."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from benchmarks.scaling import Cluster, Load, formula, limits, simulate

#: An exchange moves 8 MB to and from the only shard. Its processor works 2 ms + 8 ms, its network card 5 ms. A node
#: makes 10 updates in 0.5 s.
CLUSTER = Cluster(
    parameters=1_000_000,
    exchange_updates=10,
    updates_per_s=20.0,
    shard_s=0.002,
    shard_s_per_byte=1e-9,
    bandwidth=1.6e9,
    latency_s=0.001,
)


def test_two_nodes_by_hand() -> None:
    """The first node leaves queues of 2 / s · 10 ms = 0.02 and 2 / s · 5 ms = 0.01, and is served as long.

    The second finds 10 ms · (1 + 0.02 − 0.02 / 2) + 5 ms · (1 + 0.01 − 0.01 / 2), and 1 ms on the way.
    """
    assert CLUSTER.demands_s == pytest.approx((0.010, 0.005))
    assert astuple(formula(CLUSTER, 1)) == pytest.approx((1, 2.0, 0.016, 10.0, 0.0, 0.02))
    assert astuple(formula(CLUSTER, 2)) == pytest.approx((2, 4.0, 0.0101 + 0.005025 + 0.001, 10.0, 10.0, 0.04))


def test_a_hundred_nodes_wait_for_the_processor() -> None:
    """It serves 100 exchanges a second, so each node gets one a second, in which it makes 20 updates."""
    assert formula(CLUSTER, 100) == Load(100, 100.0, 1.0, 20.0, 99 * 20.0, 1.0)


def test_where_each_part_is_the_limit() -> None:
    assert limits(CLUSTER, 256) == pytest.approx({"processor": 50, "network": 100, "staleness": 26.6})


@pytest.mark.parametrize("nodes", [1, 4, 40, 100])
def test_the_simulation_agrees(nodes: int) -> None:
    model, found = formula(CLUSTER, nodes), simulate(CLUSTER, nodes, exchanges=2000)
    assert found.exchanges_per_s == pytest.approx(model.exchanges_per_s, rel=0.03)
    assert found.staleness == pytest.approx(model.staleness, rel=0.05, abs=0.5)
    assert found.exchange_s == pytest.approx(model.exchange_s, rel=0.15)


def test_shards_share_the_work() -> None:
    four = Cluster(**{name: getattr(CLUSTER, name) for name in CLUSTER.__slots__} | {"shards": 4})
    assert four.demands_s == pytest.approx((0.004, 0.00125))  # 2 ms + 8 ms / 4
    assert simulate(four, 100, exchanges=2000).exchanges_per_s == pytest.approx(200, rel=0.03)
