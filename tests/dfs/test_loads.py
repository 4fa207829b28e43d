from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.ids import NodeId, rack_of
from railyard.dfs import loads as module
from railyard.dfs.loads import Loads, Uses

NODES = [NodeId(f"r{rack}n{node}") for rack in range(3) for node in range(3)]
some_nodes = st.lists(st.sampled_from(NODES), unique=True)
changes = st.lists(st.tuples(st.sampled_from(NODES), st.integers(-3, 4)), max_size=40)
uses = st.dictionaries(st.sampled_from(NODES), st.integers(1, 3))
block_bytes = st.sampled_from([1, 2**55])  # small; and so large that 64 bits are too few for all


@given(changes, some_nodes, uses, block_bytes)
def test_the_emptiest_are_those_that_a_look_at_all_finds(changes, barred, used, block_bytes):
    loads, plain = Loads(), {}
    for node, change in changes:
        if node not in plain:
            loads.join(node)
            plain[node] = 0
        elif change == 0:
            loads.leave(node)
            del plain[node]
        else:
            more = max(change * block_bytes, -plain[node])
            loads.add(more, [node])
            plain[node] += more
    assert dict(loads) == plain
    free = [node for node in plain if node not in barred]
    racks = loads.racks([node for node in barred if node in plain])
    assert set(racks) == {rack_of(node) for node in free}
    if free:
        fullness = {node: (used.get(node, 0), plain[node]) for node in free}
        best = sorted(node for node in free if fullness[node] == min(fullness.values()))
        assert list(loads.emptiest(racks, barred, used)) == best


@pytest.mark.parametrize("few", [0, 16])  # uses from which on all nodes are put in order
@given(data=st.data(), barred=some_nodes)
def test_they_follow_what_a_file_uses_and_what_nodes_hold(few, data, barred):
    loads, uses = Loads(dict.fromkeys(NODES, 0)), Uses()
    free = [node for node in NODES if node not in barred]
    racks = loads.racks(barred)
    among = data.draw(st.lists(st.sampled_from(racks), min_size=1, unique=True)) if racks else []
    for node, stored_bytes in data.draw(changes) if among else ():
        if stored_bytes < 0:
            loads.add(0, [node], uses)
        else:
            loads.add(stored_bytes, [node])
        with patch.object(module, "_FEW", few):
            found = list(loads.emptiest(tuple(among), barred, uses))
        there = [other for other in free if rack_of(other) in among]
        fullness = {other: (uses.get(other, 0), loads[other]) for other in there}
        assert found == sorted(n for n in there if fullness[n] == min(fullness.values()))
