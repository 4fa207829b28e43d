"""Capacities that change while bytes flow, and what watchers are sent, for real."""

import math

import pytest

from railyard.benchmarks._network.emulated import EmulatedNetwork
from railyard.cluster.errors import Refused
from railyard.cluster.messaging.reactor import now_s
from railyard.cluster.messaging.wire import Done
from railyard.netemu.client.client import NetworkClient
from railyard.netemu.messages import (
    NO_CHANGES,
    CircuitChanges,
    GetCircuitChanges,
    LinksObserved,
    NetworkView,
    SetCapacity,
    WatchLinks,
    WatchNetwork,
)
from railyard.netemu.model.observed import LinkState
from tests.netemu.topologies import three_racks


def wait(network, condition):
    assert network.transport.reactor.run_until(condition, 20), "waited in vain"


def set_capacity(network, link, bytes_per_s):
    network.link.call(SetCapacity(link=link, bytes_per_s=bytes_per_s), Done)


def watch(network, **wish):
    """The views so far, as they come."""
    views = []
    link = network.transport.link("network")
    link.on(NetworkView, lambda view, _: views.append(view))
    views.append(link.call(WatchNetwork(**wish), NetworkView))
    return link, views


def test_grants_follow_a_capacity_that_changes(network, client):
    totals = []
    set_capacity(network, "r0.up", 0.0)
    client.open("mine", "r0n0", "r1n0", 500_000, totals.append)
    network.transport.reactor.run_until(lambda: False, 0.3)
    assert totals == []  # a dark link grants nothing
    began_s = now_s()  # before: the message that it is done may come late
    set_capacity(network, "r0.up", 1e9)  # a tenth
    wait(network, lambda: bool(totals) and totals[-1] == 500_000)
    assert now_s() - began_s > 0.49


def test_watchers_hear_at_once_and_when_something_changed(network, client):
    link, views = watch(network, period_s=0.05, with_rates=True)
    assert views[0].links["r1.down"].capacity_bytes_per_s == 10e9
    assert views[0].links["r1.down"].free_bytes_per_s == 10e9
    assert (views[0].flows_open, views[0].rates_bytes_per_s) == (0, {})
    client.open("mine", "r0n0", "r1n0", 10**7, lambda _: None)
    wait(network, lambda: views[-1].flows_open == 1)
    assert views[-1].rates_bytes_per_s == {"mine": pytest.approx(10e9)}
    assert views[-1].links["r1.down"].free_bytes_per_s == pytest.approx(0.0, abs=1)
    set_capacity(network, "r0.up", 4e9)
    wait(network, lambda: views[-1].links["r0.up"].capacity_bytes_per_s == 4e9)
    assert views[-1].links["r1.down"].free_bytes_per_s == pytest.approx(6e9)
    before = len(views)
    network.transport.reactor.run_until(lambda: False, 0.3)
    assert len(views) == before  # nothing has changed
    client.cancel("mine")
    wait(network, lambda: views[-1].flows_open == 0)
    link.close()


def test_a_watcher_can_ask_for_less_and_hang_up(network, client):
    link, views = watch(network, period_s=0.05, with_rates=True)
    assert link.call(WatchNetwork(period_s=3600.0), NetworkView).rates_bytes_per_s is None
    client.open("mine", "r0n0", "r1n0", 10**9, lambda _: None)
    network.transport.reactor.run_until(lambda: False, 0.3)
    assert len(views) == 1
    link.close()
    other, _ = watch(network, period_s=0.05)
    other.close()
    client.cancel("mine")
    network.transport.reactor.run_until(lambda: False, 0.2)
    assert network.stats().flows_open == 0  # the emulator lives on


def test_observers_are_sent_the_links_between_racks_that_change(network, client):
    changes = []
    link = network.transport.link("network")
    link.on(LinksObserved, lambda observed, _: changes.append(observed.links))
    first = link.call(WatchLinks(period_s=0.05, change=0.1), LinksObserved).links
    assert set(first) == {f"r{n}.{way}" for n in range(3) for way in ("up", "down")}
    assert {state.free_bytes_per_s for state in first.values()} == {10e9}
    client.open("mine", "r0n0", "r1n0", 10**7, lambda _: None)
    wait(network, lambda: changes)
    full = LinkState(capacity_bytes_per_s=10e9, free_bytes_per_s=0.0)
    assert changes.pop(0) == {"r0.up": full, "r1.down": full}
    set_capacity(network, "r2.up", 9.9e9)
    wait(network, lambda: changes)
    assert changes.pop(0) == {
        "r2.up": LinkState(capacity_bytes_per_s=9.9e9, free_bytes_per_s=9.9e9)
    }
    set_capacity(network, "r0n1.up", 1e9)  # a NIC
    network.transport.reactor.run_until(lambda: False, 0.3)
    assert changes == []
    again = link.call(WatchLinks(period_s=0.05), LinksObserved).links
    assert (again["r0.up"], again["r2.up"].capacity_bytes_per_s) == (full, 9.9e9)
    client.cancel("mine")
    wait(network, lambda: changes)
    assert set(changes[0]) == {"r0.up", "r1.down"}
    link.close()


def test_nonsense_is_refused(network):
    with pytest.raises(Refused, match=r'"r9\.up" is no link of this topology'):
        set_capacity(network, "r9.up", 1.0)
    for wrong in (-1.0, math.nan):
        with pytest.raises(Refused):
            set_capacity(network, "r0.up", wrong)
    with pytest.raises(Refused):
        network.link.call(WatchNetwork(period_s=0.0), NetworkView)
    set_capacity(network, "r0.up", math.inf)
    _, views = watch(network)
    assert views[0].links["r0.up"].free_bytes_per_s == math.inf


def test_circuits_are_seen_dark_then_lit_then_unused(run_folders):
    ocs = {"port_bytes_per_s": "80Gbps", "delta_s": "100ms", "elephant_bytes": "1GB"}
    topology = three_racks(ocs=ocs)
    with EmulatedNetwork(topology, flow_scheduler="sunflow") as network:
        client = NetworkClient(network.transport, topology)
        _, views = watch(network, period_s=0.05)
        assert views[0].circuits == ()
        ended = []
        client.open("mine", "r0n0", "r1n0", 2 * 10**6, ended.append)
        wait(network, lambda: views[-1].circuits != ())
        [circuit] = views[-1].circuits
        assert (circuit.src, circuit.dst, circuit.coflow) == ("r0", "r1", "flow mine")
        wait(network, lambda: ended and ended[-1] == 2 * 10**6)
        wait(network, lambda: views[-1].circuits[0].coflow is None)
        first = network.link.call(GetCircuitChanges(after=0), CircuitChanges)
        assert [change.what for change in first.changes] == ["set-up", "up", "up"]
        dark, ready = first.changes[:2]
        assert ready.at_s - dark.at_s == pytest.approx(0.1)
        assert circuit.ready_s == ready.at_s
        assert (first.seen, first.more) == (3, False)
        none = network.link.call(GetCircuitChanges(after=NO_CHANGES), CircuitChanges)
        assert (none.seen, none.changes) == (3, ())
        assert network.stats().ports["r0.ocs.up"] == network.stats().bytes["ocs"] == 2 * 10**9
        client.close()
