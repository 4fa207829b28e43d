"""tests.netemu.test_emulator."""

from __future__ import annotations

import errno
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.benchmarks._network.emulated import EmulatedNetwork
from railyard.cluster.errors import PeerError, PeerUnable, Refused
from railyard.cluster.messaging.access import (
    ATTEMPT,
    CLIENT,
    DATA_NODE,
    NODE_MANAGER,
    OWN,
    RESOURCE_MANAGER,
    Sender,
)
from railyard.cluster.messaging.reactor import now_s
from railyard.cluster.messaging.transport import Request
from railyard.cluster.messaging.wire import Done
from railyard.netemu.client import NetworkClient
from railyard.netemu.emulator.grants import Ledger
from railyard.netemu.emulator.process import Owners, State, read_state, write_state
from railyard.netemu.emulator.statistics import plus, since
from railyard.netemu.fabric.fabric import Fabric, StartFlows, TakeUpCoflow
from railyard.netemu.messages import (
    NO_CHANGES,
    CircuitChanges,
    GetCircuitChanges,
    LinksObserved,
    NetworkView,
    OpenFlow,
    RegisterCoflow,
    SetCapacity,
    WatchLinks,
    WatchNetwork,
)
from railyard.netemu.model.flows import CIRCUITS_OF_ONE, CircuitChange, CoflowPast, FlowSpec
from railyard.netemu.model.network import LinkState
from railyard.netemu.record import CircuitLog
from railyard.netemu.schedulers import FLOW_SCHEDULERS, flow_scheduler
from railyard.oracles.orders import carry_out, open_flows
from tests.netemu.test_emulated_transfers import World
from tests.netemu.test_ledger import ANN, BOB, run, spec
from tests.netemu.test_record import stats
from tests.netemu.topologies import ends_by, ends_of_all, network_of, three_racks

ONE = Sender(ATTEMPT, 1, "one")
OTHER = Sender(ATTEMPT, 2, "other")
RM = Sender(RESOURCE_MANAGER, 3, "rm")


def order(**changes):
    return OpenFlow(
        **{"flow": "f", "src": "r0n0", "dst": "r1n0", "size_bytes": 1, "attach": True, **changes}
    )


def opened_by(sender):
    owners = Owners()
    owners.check_open(order(), sender)
    owners.opened("f", sender)
    return owners


def test_a_flow_is_its_openers_over_all_connections():
    owners = opened_by(ONE)
    owners.check("f", ONE)
    owners.check_open(order(again=True), ONE)
    for act in (owners.check, lambda _, who: owners.check_open(order(again=True), who)):
        with pytest.raises(PeerError, match='flow "f": belongs to another process'):
            act("f", OTHER)
    owners.check("f", RM)
    owners.check("f", Sender(NODE_MANAGER, 4, "nm"))


@pytest.mark.parametrize("role", [ATTEMPT, CLIENT, DATA_NODE])
def test_a_flow_of_a_job_is_nobody_elses(role):
    owners, stranger = opened_by(RM), Sender(role, 1, "one")
    for act in (owners.check, lambda _, who: owners.check_open(order(again=True), who)):
        with pytest.raises(PeerError, match='flow "f": belongs to another process'):
            act("f", stranger)
    owners.check_open(order(), stranger)  # that the name is taken is for others to say ...
    with pytest.raises(PeerError, match="belongs to another process"):  # ... and changes nothing
        owners.check("f", stranger)


@pytest.mark.parametrize("role", [ATTEMPT, CLIENT, DATA_NODE])
@pytest.mark.parametrize(
    "changes",
    [{"coflow": "c"}, {"weight": 1e6}, {"priority": (-1.0,)}, {"attach": False}],
    ids=lambda changes: next(iter(changes)),
)
def test_only_jobs_flows_are_more_than_others(role, changes):
    owners = Owners()
    with pytest.raises(PeerError, match="need attach=true, and neither coflow nor weight"):
        owners.check_open(order(**changes), Sender(role, 1, "one"))
    owners.check_open(order(**changes), Sender(RESOURCE_MANAGER, 1, "rm"))
    owners.check_open(order(**changes), Sender(OWN, 1, "own"))


def test_the_name_of_a_jobs_flow_is_not_taken_by_others():
    owners, fetch = Owners(), order(flow="j1.r0.0:r0n0:1")
    with pytest.raises(PeerError, match='need a name without ":"'):
        owners.check_open(fetch, ONE)
    owners.check_open(fetch, RM)


def test_what_is_over_is_nobodys():
    owners = opened_by(ONE)
    owners.forget(lambda flow: flow == "f")
    owners.check("f", OTHER)


# Capacities that change while bytes flow, and what watchers are sent, for real.


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


# An emulator in place of one that died: flows go on from what was granted, circuits are dark.


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
        carry_out(later, StartFlows((specs[name],), first.sent_by(name)))
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
    for flow in ("far", "other"):
        carry_out(later, StartFlows((specs[flow],), first.sent_by(flow)))
    assert ends_by(later, 2.0) == {"far": pytest.approx(0.8), "other": pytest.approx(1.6)}


def test_a_flow_has_sent_no_more_than_it_has():
    fabric = fabric_of("maxmin")
    with pytest.raises(ValueError, match='"a" has sent 1000001 bytes: need 0 to its size, 1000000'):
        carry_out(fabric, StartFlows((spec("a"),), 1_000_001))
    carry_out(fabric, StartFlows((spec("a"),), 1_000_000))
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
    file = tmp_path / "state"
    assert read_state(file, 5.0) is None
    state = State(
        began_s=1.5,
        restarts=2,
        capacities={"r0.up": math.inf, "r1.up": 0.0},
        stats=stats(cross_rack_room_bytes=math.inf, grant_lags=((3, 4),)),
        pasts={"c": CoflowPast(0.5, 7.0)},
    )
    write_state(file, state)
    assert read_state(file, 5.0) == state


@pytest.mark.parametrize("content", [b"", b"\xc1", b"\x81\xa7began_s\xa1x", b"[1, 2"])
def test_a_damaged_file_is_one_of_an_emulator_of_which_nothing_is_known(tmp_path, content, caplog):
    (tmp_path / "state").write_bytes(content)
    assert read_state(tmp_path / "state", 5.0) == State(began_s=5.0, restarts=1)
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


def test_a_change_of_a_link_that_would_be_forgotten_is_refused(monkeypatch, tmp_path):
    def write(file, state):
        raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("railyard.netemu.emulator.process.write_state", write)
    world = World(monkeypatch, file=tmp_path / "state")
    order = SetCapacity(link="r0.up", bytes_per_s=1.0)
    with pytest.raises(PeerUnable, match=r"r0\.up stays as it was: .*Permission denied"):
        world.order(order)
    look = Request(peer=b"peer", number=1, message=WatchNetwork(), payload=None)
    view = world.served.handlers[WatchNetwork](look)
    assert view.links["r0.up"].capacity_bytes_per_s == 10e6
