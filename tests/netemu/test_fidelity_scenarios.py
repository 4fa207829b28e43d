"""What ``benchmarks.fidelity`` carries, and how it reads off what came of it."""

from collections import Counter
from dataclasses import replace

import pytest

from railyard.benchmarks._network.emulated import Arrival
from railyard.benchmarks._network.scenarios import (
    circuit_batches,
    dark_times_s,
    packet_batches,
    predict,
)
from railyard.benchmarks.fidelity.networks import CIRCUITS, PACKETS
from railyard.cluster.ids import rack_of
from railyard.cluster.topology import load_topology


def arrived(transfer, **times):
    return Arrival(
        transfer=transfer, **{"started_s": 0.0, "began_s": 0.0, "finished_s": 0.0, **times}
    )


@pytest.mark.parametrize("name", PACKETS)
def test_batches_take_as_long_as_they_should_on_any_network(name):
    topology = load_topology(name)
    alone, longer, shared, wider, shuffle = packet_batches(topology, rounds=1)
    for batch, seconds in ((alone, 0.25), (longer, 0.5), (shared, 1), (wider, 1), (shuffle, 2)):
        at_once = [arrived(transfer) for transfer in batch]
        assert max(predict(topology, at_once)) == pytest.approx(seconds, rel=1e-3)
    assert len(shuffle) >= 50
    assert all(t.stored_bytes < 2**24 for t in shuffle)


@pytest.mark.parametrize("name", CIRCUITS)
def test_each_coflow_has_one_circuit_at_every_port(name):
    topology = load_topology(name)
    (batch, _) = circuit_batches(topology, rounds=1)
    for coflow in ("batch0.1", "batch0.2"):
        pairs = [(rack_of(t.src), rack_of(t.dst)) for t in batch if t.coflow == coflow]
        racks = Counter(rack.id for rack in topology.rack_list())
        assert Counter(src for src, _ in pairs) == Counter(dst for _, dst in pairs) == racks
    assert all(t.stored_bytes * topology.scale >= topology.ocs.elephant_bytes for t in batch)


def test_a_circuit_is_dark_from_the_order_or_from_the_last_byte_before():
    """Three racks: i to i + 1, then i to i + 2, which waits for the ports out of i, into i + 2."""
    transfer = circuit_batches(load_topology(CIRCUITS[0]), rounds=1)[0][0]
    first = [
        arrived(transfer, started_s=0.0, began_s=0.011, finished_s=finished_s)
        for finished_s in (1.0, 2.0, 4.0)
    ]
    second = [
        arrived(replace(transfer, coflow="2"), started_s=0.5, began_s=began_s, finished_s=9.0)
        for began_s in (2.01, 4.02, 4.03)
    ]
    assert dark_times_s([*first, *second]) == pytest.approx([0.011] * 3 + [0.01, 0.02, 0.03])
