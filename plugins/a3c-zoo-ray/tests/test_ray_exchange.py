"""The exchange of nodes and parameter servers against numbers worked out by hand. No Ray."""

from __future__ import annotations

import numpy as np

from a3c_zoo_ray.exchange import Exchange, Message, Rows, Seen, Shard, pack, slices_of, unpack

NO_ROWS = Rows(0, np.zeros((1, 5), np.int64))


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def swap(node: Exchange, *shards: Shard, updates: int = 1, is_short: bool = False) -> None:
    node.take([s.exchange(m) for s, m in zip(shards, node.messages(updates, NO_ROWS, is_short), strict=True)])


def test_two_nodes_add_what_they_learn() -> None:
    shard, a, b = Shard(floats(1, 2)), floats(1, 2), floats(1, 2)
    one, two = Exchange(a, 1), Exchange(b, 1)
    swap(one, shard)
    swap(two, shard)
    a += floats(0.5, 0)
    swap(one, shard)
    assert shard.values().tolist() == a.tolist() == [1.5, 2]
    b += floats(0.25, 1)
    swap(two, shard)  # adds (0.25, 1) and takes (0.5, 0)
    assert shard.values().tolist() == b.tolist() == [1.75, 3]
    assert a.tolist() == [1.5, 2]
    swap(one, shard)
    assert a.tolist() == [1.75, 3]


def test_what_workers_learn_during_an_exchange_is_kept() -> None:
    shard, a = Shard(floats(1)), floats(1)
    node, other = Exchange(a, 1), Exchange(floats(1), 1)
    swap(node, shard)
    swap(other, shard)
    shard.exchange(Message(floats(10), 1, Seen(0, 0)))
    a += 2
    messages = node.messages(1, NO_ROWS, False)
    a += 4
    node.take([shard.exchange(messages[0])])
    assert shard.values().tolist() == [13]
    assert a.tolist() == [17]  # the server's 13, and 4 that it does not have yet
    assert not node.is_settled()
    swap(node, shard)
    assert shard.values().tolist() == [17]
    assert node.is_settled()


def test_the_answer_has_no_parameters_if_nobody_else_has_changed_them() -> None:
    shard, a = Shard(floats(1)), floats(1)
    node = Exchange(a, 1)
    first = shard.exchange(node.messages(0, NO_ROWS, False)[0])
    assert first.values is not None
    node.take([first])
    a += 1
    assert shard.exchange(node.messages(1, NO_ROWS, False)[0]).values is None


def test_one_node_gets_its_own_parameters_bit_by_bit() -> None:
    """The first sum of two float32 may be rounded; the exchange after it is exact."""
    random = np.random.default_rng(0)
    start = (random.standard_normal(100_000) * 10.0 ** random.integers(-20, 3, 100_000)).astype(np.float32)
    shard, own = Shard(start), start.copy()
    node = Exchange(own, 1)
    swap(node, shard)
    for _ in range(5):
        own += (random.standard_normal(100_000) * 10.0 ** random.integers(-20, 3, 100_000)).astype(np.float32)
        kept = own.copy()
        swap(node, shard)
        swap(node, shard, updates=0)
        assert own.tobytes() == kept.tobytes() == shard.values().tobytes()
        assert node.is_settled()


def test_bfloat16_rounds_to_the_nearest_and_nothing_is_lost() -> None:
    assert unpack(pack(floats(1.0, -3.0, 0.0, 1.00390625, 1.01171875), True)).tolist() == [1, -3, 0, 1.0, 1.015625]
    shard, own = Shard(floats(0)), floats(0)
    node = Exchange(own, 1)
    swap(node, shard)
    for _ in range(100):
        own += np.float32(0.001)
        swap(node, shard, is_short=True)
    assert abs(shard.values()[0] - 0.1) < 0.001 * 2**-8  # the rounding error of the last change alone
    assert node.traffic.sent_bytes == 4 + 100 * 2


def test_a_change_that_is_too_stale_is_dropped() -> None:
    shard, a = Shard(floats(0), max_staleness=3), floats(0)
    node = Exchange(a, 1)
    swap(node, shard, updates=0)
    shard.exchange(Message(floats(5), 3, Seen(1, 0)))
    a += 1
    swap(node, shard)  # 3 updates of others: in time
    assert shard.values().tolist() == a.tolist() == [6]
    shard.exchange(Message(floats(5), 4, Seen(2, 4)))
    a += 1
    messages = node.messages(1, NO_ROWS, False)
    a += 0.5
    node.take([shard.exchange(messages[0])])
    assert shard.values().tolist() == [11]
    assert a.tolist() == [11.5]  # without the dropped change, with what came after it
    assert (node.traffic.dropped, node.traffic.staleness) == (1, 3 + 4)


def test_shards_hold_slices_of_nearly_equal_length() -> None:
    assert slices_of(7, 3) == [slice(0, 2), slice(2, 4), slice(4, 7)]
    values = np.arange(7, dtype=np.float32)
    shards, own = [Shard(values[part]) for part in slices_of(7, 3)], values.copy()
    node = Exchange(own, 3)
    swap(node, *shards)
    own += 1
    swap(node, *shards)
    assert np.concatenate([shard.values() for shard in shards]).tolist() == own.tolist()


def test_the_first_shard_passes_on_what_workers_count() -> None:
    counters, statistics = np.zeros((2, 5), np.int64), np.zeros((2, 7))
    shard = Shard(floats(0), Rows(0, counters, {"rewards": statistics}))
    shard.exchange(Message(floats(0), 0, Seen(), Rows(1, counters[:1] + 4, {"rewards": statistics[:1] + 2})))
    answer = shard.exchange(Message(floats(0), 0, Seen(), Rows(0, counters[:1] + 3, {"rewards": statistics[:1] + 1})))
    assert answer.rows is not None
    assert answer.rows.counters[:, 0].tolist() == [3, 4]
    assert answer.rows.statistics["rewards"][:, 0].tolist() == [1, 2]
