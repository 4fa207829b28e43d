"""The table of flows without objects: it does what the group of objects does, to the last bit."""

from __future__ import annotations

import random

import numpy as np
import pytest

from railyard.cluster.ids import FlowId
from railyard.cluster.topology import load_topology
from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.model.flows import Finished, FlowSpec
from railyard.netemu.schedulers import fast_version, flow_scheduler


def fabric(topology: str, *, has_table: bool, fast_from: int | None = None) -> Fabric:
    fast = fast_version("maxmin", fast_from)
    place = load_topology(topology)
    return Fabric(place, flow_scheduler("maxmin"), fast=fast, has_table=has_table)


def specs_of(nodes, rows, first: int) -> list[FlowSpec]:
    """Flows between nodes: (source, destination, bytes), which are named by their numbers."""
    return [
        FlowSpec(flow=FlowId(f"{number}"), src=nodes[src], dst=nodes[dst], size_bytes=size)
        for number, (src, dst, size) in enumerate(rows, first)
    ]


def ends(finished) -> list[str]:
    """The names of flows that have ended, in order."""
    return [
        name
        for end in finished
        for name in ([end.flow] if isinstance(end, Finished) else map(str, end.tolist()))
    ]


@pytest.mark.parametrize(
    ("topology", "fast_from"),
    [
        pytest.param("hybrid-8x4", None, id="one switch"),
        pytest.param("corral-7x30", 1, id="compiled"),
        pytest.param("tetrium-8", None, id="sites"),
    ],
)
def test_flows_end_as_those_with_objects(topology, fast_from):
    random.seed(5)
    nodes = [node.id for node in load_topology(topology).nodes()][:12]
    plain = fabric(topology, has_table=False, fast_from=fast_from)
    table = fabric(topology, has_table=True, fast_from=fast_from)
    opened: dict[str, FlowSpec] = {}
    for step in range(60):
        rows = [(*random.sample(range(len(nodes)), 2), size(step)) for _ in range(step % 7)]
        specs = specs_of(nodes, rows, len(opened))
        opened |= {spec.flow: spec for spec in specs}
        plain.start_all(specs)
        if rows and step % 5:
            src, dst, sizes = (np.array(column) for column in zip(*rows, strict=True))
            names = np.array([int(spec.flow) for spec in specs])
            table.start_rows(src, dst, sizes, names)
        else:
            table.start_all(specs)
        if step % 11 == 10:  # some get names, and one of these is cancelled
            some = {int(name): spec for name, spec in opened.items() if int(name) % 3 == 0}
            table.name_rows(some)
            name = FlowId(str(max(some)))
            assert table.cancel(name) == plain.cancel(name)
        if step == 30:
            for each in (plain, table):
                each.set_capacity(f"{nodes[0]}.up", 1e6)
        assert table.open_flows == plain.open_flows
        next_s = plain.next_event_s()
        assert table.next_event_s() == next_s
        until_s = plain.now_s + 1.0 if next_s == np.inf else next_s
        assert ends(table.advance_all(until_s)) == ends(plain.advance_all(until_s))
        assert table.bytes_by_link() == plain.bytes_by_link()
    while plain.open_flows:
        until_s = plain.next_event_s()
        assert table.next_event_s() == until_s
        assert ends(table.advance_all(until_s)) == ends(plain.advance_all(until_s))
    assert not table.open_flows
    assert table.bytes_by_category() == plain.bytes_by_category()
    assert table.finished_bytes == plain.finished_bytes


def size(step: int) -> int:
    """Bytes; many are equal, so that flows end together."""
    return 10_000_000 if step % 2 else random.randint(1, 30_000_000)


def test_flows_without_names_need_a_table():
    one = np.array([1])
    with pytest.raises(ValueError, match="need names"):
        fabric("hybrid-8x4", has_table=False).start_rows(one, one + 1, one, one)
