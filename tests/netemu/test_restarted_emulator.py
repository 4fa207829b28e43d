"""An emulator in place of one that died: flows go on from what was granted, circuits are dark."""

from __future__ import annotations

import errno
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.errors import PeerUnable
from railyard.cluster.messaging.transport import Request
from railyard.cluster.messaging.wire import Done
from railyard.netemu.emulator.grants import Ledger
from railyard.netemu.emulator.statefile import State, StateFile
from railyard.netemu.emulator.statistics import plus, since
from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.fabric.orders import TakeUpCoflow, TakeUpFlow
from railyard.netemu.messages import (
    CircuitChanges,
    GetCircuitChanges,
    NetworkView,
    RegisterCoflow,
    SetCapacity,
    WatchNetwork,
)
from railyard.netemu.model.circuits import CIRCUITS_OF_ONE, CircuitChange
from railyard.netemu.model.flows import CoflowPast, FlowSpec
from railyard.netemu.record.circuits import CircuitLog
from railyard.netemu.schedulers import FLOW_SCHEDULERS, flow_scheduler
from railyard.oracles.orders import carry_out, open_flows
from tests.netemu.test_ledger import ANN, BOB, run, spec
from tests.netemu.test_order_times import World
from tests.netemu.test_statistics import stats
from tests.netemu.topologies import ends_by, ends_of_all, network_of

MB = 10**6
NODES = [f"r{rack}n{node}" for rack in range(3) for node in range(2)]
#: Of ``afap`` the rates depend on what flows have held, of circuits on those that there were.
PACKETS = sorted(set(FLOW_SCHEDULERS) - {"afap", "sunflow"})


class Exact(Fabric):
    """Says what flows have sent with fractions of a byte, as no message does."""

    def sent_by(self, flow: str) -> float:
        return self._store.sent_bytes(self._flows[flow])


def fabric_of(scheduler: str) -> Exact:
    return Exact(network_of(3, 2, "80Mbps", "80Mbps"), flow_scheduler(scheduler))


a_flow = st.tuples(
    st.integers(0, 8),  # when it starts, in steps of 0.25 s
    st.sampled_from(NODES),
    st.sampled_from(NODES),
    st.integers(1, 30 * MB),
    st.sampled_from(["a", "b", "c"]),
)


@pytest.mark.parametrize("scheduler", PACKETS)
@given(
    # the flows of a coflow between two nodes share a row, by what was left when each came
    flows=st.lists(a_flow, min_size=1, max_size=12, unique_by=lambda flow: flow[1:3] + flow[4:]),
    dies_s=st.floats(0, 4),
    seed=st.integers(0, 9),
)
def test_flows_told_anew_end_as_if_the_network_had_never_been_away(scheduler, flows, dies_s, seed):
    """Whatever the order in which their senders report them."""
    first = fabric_of(scheduler)
    for coflow in "abc":
        carry_out(first, RegisterCoflow(coflow=coflow))
    begun = sorted((each[0] * 0.25, number) for number, each in enumerate(flows))
    specs = {}
    for at_s, number in begun:
        if at_s > dies_s:
            continue
        first.handle(None, at_s)
        _, src, dst, size_bytes, coflow = flows[number]
        name = f"f{number}"
        specs[name] = FlowSpec(flow=name, src=src, dst=dst, size_bytes=size_bytes, coflow=coflow)
        open_flows(first, specs[name])
    first.handle(None, max(dies_s, first.now_s))
    later = fabric_of(scheduler)
    later.handle(None, first.now_s)
    pasts = first.pasts()
    for coflow in "cab":
        past = pasts.get(coflow)
        carry_out(later, TakeUpCoflow(coflow, past) if past else RegisterCoflow(coflow=coflow))
    still_open = [name for name in specs if first.is_open(name)]
    random.Random(seed).shuffle(still_open)
    for name in still_open:
        carry_out(later, TakeUpFlow(specs[name], first.sent_by(name)))
    expected = ends_of_all(first)
    assert ends_of_all(later) == pytest.approx(expected, abs=1e-5)
    carried = sum(specs[name].size_bytes for name in specs)
    both = sum(first.bytes_by_category()[kind] for kind in ("local", "rack", "cross_rack"))
    assert both == pytest.approx(carried, abs=len(specs))


def test_what_no_link_limits_does_not_count_as_sent():
    """Coflow c stays in the first of Aalo's queues until it has sent 10 MB over links."""
    first, later = fabric_of("aalo"), fabric_of("aalo")
    specs = {
        "local": spec("local", 9 * MB, dst="r0n0", coflow="c"),
        "grows": spec("grows", 9 * MB, dst="r0n0", coflow="c", more=True),
        "far": spec("far", 8 * MB, coflow="c"),
        "other": spec("other", 8 * MB, coflow="d"),
    }
    for coflow in "cd":
        carry_out(first, RegisterCoflow(coflow=coflow))
    open_flows(first, *specs.values())
    assert [ended.flow for ended in first.handle(None, 0.1)] == ["local"]
    later.handle(None, 0.1)
    for coflow, past in first.pasts().items():
        assert past.ended_bytes == 0
        carry_out(later, TakeUpCoflow(coflow, past))
    for flow in ("grows", "far", "other"):
        carry_out(later, TakeUpFlow(specs[flow], first.sent_by(flow)))
    assert ends_by(later, 2.0) == {"far": pytest.approx(0.8), "other": pytest.approx(1.6)}


def test_a_flow_has_sent_no_more_than_it_has():
    fabric = fabric_of("maxmin")
    with pytest.raises(ValueError, match='"a" has sent 1000001 bytes: need 0 to its size, 1000000'):
        carry_out(fabric, TakeUpFlow(spec("a"), 1_000_001))
    carry_out(fabric, TakeUpFlow(spec("a"), 1_000_000))
    assert [ended.flow for ended in fabric.handle(None, 0.0)] == ["a"]
    assert fabric.bytes_by_category()["cross_rack"] == 0


# The ledger ----------------------------------------------------------------------------------
def ledger_of(scheduler="maxmin", pasts=None, **tables) -> Ledger:
    topology = network_of(2, 2, "8Mbps", "8Mbps", **tables)
    return Ledger(Fabric(topology, flow_scheduler(scheduler)), scale=1, pasts=pasts)


def test_grants_go_on_from_what_was_granted():
    ledger = ledger_of(pasts={})
    ledger.open(spec("a"), ANN, again=True, sent_bytes=400_000)
    granted = run(ledger, 2.0)
    totals = [total["a"] for _, _, total, _ in granted if total]
    assert totals == sorted(totals)
    assert totals[0] > 400_000
    assert all(total["a"] <= 400_000 + at_s * MB + 1 for at_s, _, total, _ in granted if total)
    assert granted[-1] == (pytest.approx(0.6), ANN, {}, ("a",))


def test_a_growing_flow_goes_on():
    ledger = ledger_of(pasts={})
    ledger.open(spec("a", size_bytes=500_000, more=True), ANN, again=True, sent_bytes=400_000)
    assert run(ledger, 1.0)[-1] == (pytest.approx(0.1), ANN, {"a": 500_000}, ())
    ledger.grow("a", 100_000, more=False)
    assert run(ledger, 2.0)[-1] == (pytest.approx(1.1), ANN, {}, ("a",))


def test_flows_of_jobs_wait_for_the_coflows_that_there_are():
    ledger = ledger_of(pasts={})
    ledger.attach("early", ANN, again=True, sent_bytes=400_000)
    ledger.attach("over", ANN, again=True, sent_bytes=400_000)
    assert run(ledger, 1.0) == []
    ledger.resume(["c"], [spec("early", coflow="c"), spec("late", dst="r1n1", coflow="c")])
    assert not ledger.fabric.is_open("over")
    ledger.attach("late", BOB, again=True, sent_bytes=900_000)
    with pytest.raises(ValueError, match='flow "gone" is over'):
        ledger.attach("gone", BOB, again=True, sent_bytes=1)
    ends = {flow: at_s for at_s, _, _, ended in run(ledger, 3.0) for flow in ended}
    assert ends == {"late": pytest.approx(1.2), "early": pytest.approx(1.7)}
    ledger.close("over")  # as its sender does, whose reader is gone


def test_a_sender_that_was_granted_more_than_there_is_is_done():
    ledger = ledger_of(pasts={})
    ledger.attach("a", ANN, again=True, sent_bytes=2 * MB)
    ledger.resume(["c"], [spec("a", coflow="c")])
    assert run(ledger, 0.0) == [(0.0, ANN, {}, ("a",))]


def test_an_order_that_comes_after_all_coflows_opens_its_flow_once():
    ledger = ledger_of()
    ledger.resume(["c"], [spec("a", coflow="c")])
    ledger.open(spec("a", coflow="c"), None)
    run(ledger, 2.0)
    ledger.attach("a", ANN)
    assert run(ledger, 3.0) == [(2.0, ANN, {}, ("a",))]
    assert (ledger.opened, ledger.finished) == (1, 1)


@pytest.mark.parametrize("sender", [ANN, None])
def test_nobody_takes_the_name_of_a_flow_whose_sender_has_yet_to_come(sender):
    ledger = ledger_of()
    ledger.resume(["c"], [spec("a", coflow="c")])
    with pytest.raises(ValueError, match='flow "a" is open already'):
        ledger.open(spec("a", size_bytes=1), sender)
    ledger.attach("a", BOB)
    assert run(ledger, 3.0)[-1] == (1.0, BOB, {}, ("a",))


def test_what_is_known_of_coflows_is_kept_until_they_are_resumed():
    past = CoflowPast(arrived_s=-3.0, ended_bytes=5.0 * MB)
    ledger = ledger_of("aalo", pasts={"c": past, "ended": past})
    assert ledger.pasts() == {"c": past, "ended": past}
    ledger.resume(["c"], [])
    assert ledger.pasts() == {"c": past}


@pytest.mark.parametrize("nic", ["unlimited", "80Mbps"])
def test_circuits_are_dark_until_they_are_ready(nic):
    """As if nothing had been there; then a flow goes on from what was granted."""
    ocs = {"port_bytes_per_s": "80Mbps", "delta_s": "123ms", "elephant_bytes": "1MB"}
    topology = network_of(2, 1, nic, "8Mbps", ocs=ocs)
    ledger = Ledger(Fabric(topology, flow_scheduler("sunflow")), scale=1, pasts={})
    ledger.open(spec("a", size_bytes=10 * MB), ANN, again=True, sent_bytes=4 * MB)
    granted = run(ledger, 2.0)
    assert granted[0][0] == pytest.approx(0.123, abs=1e-3)
    assert 4 * MB < granted[0][2]["a"] < 4 * MB + 20_000
    assert granted[-1] == (pytest.approx(0.723), ANN, {}, ("a",))


def test_what_is_too_little_for_a_circuit_goes_by_packets():
    ocs = {"port_bytes_per_s": "80Mbps", "delta_s": "123ms", "elephant_bytes": "1MB"}
    ledger = ledger_of("sunflow", pasts={}, ocs=ocs)
    ledger.open(spec("a", size_bytes=10 * MB), ANN, again=True, sent_bytes=10 * MB - 100_000)
    assert run(ledger, 2.0)[-1] == (pytest.approx(0.1), ANN, {}, ("a",))
    assert ledger.fabric.circuits() == []


# What is kept ----------------------------------------------------------------------------------
def test_a_file_is_read_as_it_was_written(tmp_path):
    file = StateFile(tmp_path / "state")
    assert file.read(5.0) is None
    state = State(
        began_s=1.5,
        restarts=2,
        capacities={"r0.up": math.inf, "r1.up": 0.0},
        stats=stats(cross_rack_room_bytes=math.inf, grant_lags=((3, 4),)),
        pasts={"c": CoflowPast(0.5, 7.0)},
    )
    file.write(state)
    assert file.read(5.0) == state


@pytest.mark.parametrize("content", [b"", b"\xc1", b"\x81\xa7began_s\xa1x", b"[1, 2"])
def test_a_damaged_file_is_one_of_an_emulator_of_which_nothing_is_known(tmp_path, content, caplog):
    (tmp_path / "state").write_bytes(content)
    assert StateFile(tmp_path / "state").read(5.0) == State(began_s=5.0, restarts=1)
    assert "links have the topology's capacities" in caplog.text


def test_counters_add_up():
    before = stats(active_s=1.0, bytes={"rack": 5}, grant_lags=((1, 2), (4, 1)), flows_opened=3)
    now = stats(active_s=2.0, bytes={"rack": 7}, grant_lags=((1, 3),), flows_opened=1)
    both = plus(before, now)
    assert (both.active_s, both.bytes, both.flows_opened) == (3.0, {"rack": 12}, 4)
    assert both.grant_lags == ((1, 5), (4, 1))
    assert since(both, before).active_s == 2.0
    assert plus(None, now) is now


def test_circuits_of_an_emulator_that_died_end_in_the_record():
    log = CircuitLog()
    log.take([CircuitChange(1.0, "up", "r0", "r1", "c", 1)])
    log.take([CircuitChange(4.0, "set-up", "r0", "r1", "c", CIRCUITS_OF_ONE + 1)])
    assert [(use.begin_s, use.end_s) for use in log.uses(5.0)] == [(1.0, 4.0), (4.0, 5.0)]


# With processes --------------------------------------------------------------------------------
def test_flows_links_and_counters_go_on_in_another_process(network, client):
    """A client whose flow, of a second, is under way when the emulator is killed."""
    totals: list[int] = []
    reactor = network.transport.reactor
    network.link.call(SetCapacity(link="r2.up", bytes_per_s=5e9), Done)
    client.open("a", "r0n0", "r1n0", 10**7, totals.append)
    assert reactor.run_until(lambda: bool(totals) and totals[-1] > 10**6, 20)
    network.kill("network")
    reactor.run_until(lambda: False, 0.1)
    granted = totals[-1]
    client.open("b", "r0n1", "r2n0", 10**5, lambda _: None)
    network.start_emulator()
    assert reactor.run_until(lambda: totals[-1] == 10**7, 20)
    assert granted < 10**7
    assert totals == sorted(totals)
    link = network.transport.link("network")
    view = link.call(WatchNetwork(), NetworkView)
    assert view.links["r2.up"].capacity_bytes_per_s == 5e9
    assert view.links["r1.up"].capacity_bytes_per_s == 10e9
    assert link.call(GetCircuitChanges(after=0), CircuitChanges).seen == CIRCUITS_OF_ONE


def test_a_change_of_a_link_that_would_be_forgotten_is_refused(monkeypatch):
    class FullDisk:
        path = "/full"

        def read(self, now_s):
            return None

        def write(self, state):
            raise OSError(errno.EACCES, "Permission denied")

    world = World(monkeypatch, file=FullDisk())
    order = SetCapacity(link="r0.up", bytes_per_s=1.0)
    with pytest.raises(PeerUnable, match=r"r0\.up stays as it was: .*Permission denied"):
        world.order(order)
    look = Request(peer=b"peer", number=1, message=WatchNetwork(), payload=None)
    view = world.served.handlers[WatchNetwork](look)
    assert view.links["r0.up"].capacity_bytes_per_s == 10e6
