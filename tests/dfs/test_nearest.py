"""Which replica a reader reads, for the client, the simulator and policies."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.ids import NodeId, node_id, rack_id
from railyard.dfs.placement.nearest import distance, nearest, nearest_first


def nodes(racks: int, each: int) -> list[NodeId]:
    return [node_id(rack_id(rack), at) for rack in range(racks) for at in range(each)]


def none_lost(node: NodeId) -> bool:
    return False


def first_choice(reader, replicas):
    return nearest_first(reader, replicas, none_lost)[0]


@given(
    replicas=st.lists(st.sampled_from(nodes(5, 3)), unique=True),
    reader=st.sampled_from(nodes(5, 3)),
)
def test_the_nearest_is_the_first_of_all_and_nearer_ones_come_first(replicas, reader):
    order = nearest_first(reader, replicas, none_lost)
    assert sorted(order) == sorted(replicas)
    assert nearest(reader, replicas) == (order[0] if order else None)
    away = [distance(reader, node) for node in order]
    assert away == sorted(away)


def test_own_node_then_own_rack_then_others_then_what_is_lost():
    replicas = [NodeId(name) for name in ("r1n0", "r0n0", "r0n1", "r2n0")]
    order = nearest_first(NodeId("r0n1"), replicas, lambda node: node == "r0n0")
    assert order[0] == "r0n1"
    assert order[-1] == "r0n0"
    outside = [distance(None, node) for node in replicas]
    assert outside == [2, 2, 2, 2]


@given(replicas=st.permutations(nodes(3, 1)), reader=st.none() | st.sampled_from(nodes(9, 2)))
def test_a_reader_s_first_choice_does_not_depend_on_the_order_of_the_replicas(replicas, reader):
    assert first_choice(reader, replicas) == first_choice(reader, sorted(replicas))


def test_readers_choose_differently_and_a_reader_does_among_other_replicas():
    readers, replicas = nodes(20, 5)[15:], nodes(3, 1)
    chosen = Counter(first_choice(reader, replicas) for reader in readers)
    assert min(chosen[node] for node in replicas) >= 17  # of 28
    of_pairs = {
        first_choice(NodeId("r9n9"), [NodeId("r0n0"), other]) == "r0n0" for other in nodes(9, 2)[1:]
    }
    assert of_pairs == {True, False}
