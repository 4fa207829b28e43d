"""Nodes that are assigned several maps at once, in an order of their own, as in Hadoop 1."""

from __future__ import annotations

from itertools import groupby

from railyard.cluster.messages.execution import NodeJoined, NodeLost
from tests.harness import TinyCluster, tiny_cluster


def filled(c: TinyCluster, prefix: str = "j0.m") -> list[tuple[str, int]]:
    """(Node, how many tasks in a row it was given), in the order of their launches."""
    nodes = [node for task, node, _ in c.run().placements if task.startswith(prefix)]
    return [(node, len(list(row))) for node, row in groupby(nodes)]


def order(seed: int) -> list[str]:
    """The nodes in the order in which they are given maps."""
    c = tiny_cluster(racks=4, nodes=3, slots=2, seed=seed, assign_multiple=True)
    c.submit("j0", maps=24, map_s=1)
    nodes = [node for node, count in filled(c) if count == 2]
    assert len(nodes) == 12
    return nodes


def test_a_node_is_filled_before_the_next_one_is_given_a_map():
    c = tiny_cluster(racks=2, nodes=2, slots=3, assign_multiple=True)
    c.submit("j0", maps=7, map_s=1)
    assert [count for _, count in filled(c)] == [3, 3, 1]


def test_otherwise_each_node_is_given_one_in_turn():
    c = tiny_cluster(racks=2, nodes=2, slots=3)
    c.submit("j0", maps=7, map_s=1)
    assert [node for node, _ in filled(c)] == [
        *("r0n0", "r1n0", "r0n1", "r1n1"),
        *("r0n0", "r1n0", "r0n1"),
    ]


def test_the_order_is_the_seed_s_and_no_rack_s():
    orders = [order(seed) for seed in range(20)]
    assert orders[0] == order(0)
    assert len({tuple(each) for each in orders}) == 20
    first_half = [sum(node.startswith("r0") for node in each[:6]) for each in orders]
    assert {0, 3} & set(first_half)  # by rounds over racks it would always be 1 or 2
    assert 20 <= sum(first_half) <= 40


def test_a_node_that_comes_back_is_where_it_was():
    c = tiny_cluster(racks=2, nodes=2, slots=2, seed=5, assign_multiple=True)
    c.submit("j0", maps=8, map_s=1)
    before = [node for node, _ in filled(c)]
    c.feed(NodeLost(node=before[0], reason="gone"))
    c.feed(NodeJoined(node=before[0], rack=before[0][:2], slots=2))
    c.submit("j1", maps=8, map_s=1)
    assert [node for node, _ in filled(c, "j1.m")] == before


def test_a_node_is_given_one_reduce_at_a_time():
    c = tiny_cluster(racks=2, nodes=2, slots=4, assign_multiple=True)
    c.submit("j0", maps=1, reduces=8, map_s=1, reduce_s=1)
    assert {count for _, count in filled(c, "j0.r")} == {1}
    nodes = c.run().nodes_of("j0.r")
    assert {nodes.count(node) for node in nodes} == {2}
