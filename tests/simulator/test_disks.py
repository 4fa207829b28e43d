from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from railyard.dfs.messages.datanodes import HeldBlock
from railyard.simulator.nodes.disks import Disks

NODES = ("r0n0", "r0n1", "r1n0")
some = st.lists(st.sampled_from(NODES), unique=True).map(tuple)
steps = st.tuples(st.sampled_from(["put", "add", "remove"]), st.integers(0, 3), some)


@given(st.lists(steps, max_size=30))
def test_a_node_holds_what_was_put_there_and_not_removed(steps):
    disks, plain = Disks(), {node: {} for node in NODES}
    for step, block, nodes in steps:
        size_bytes = 10 + block
        if step == "put":
            disks.put(block, size_bytes, nodes)
            for held in plain.values():
                held.pop(block, None)
        for node in nodes:
            if step == "add":
                disks.add(block, size_bytes, node)
            if step == "remove":
                disks.remove(block, node)
                plain[node].pop(block, None)
            else:
                plain[node][block] = HeldBlock(block=block, stored_length=size_bytes)
        for node in NODES:
            assert [disks.has(block, node) for block in range(4)] == [
                block in plain[node] for block in range(4)
            ]
    assert {n: set(held) for n, held in disks.held(NODES).items()} == {
        n: set(held.values()) for n, held in plain.items()
    }
    assert list(disks.held(NODES[:1])) == ["r0n0"]
