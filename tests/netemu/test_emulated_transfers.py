"""Real bytes between real processes, through a real emulator; and what happens when they die."""

from __future__ import annotations

import math
import os
import signal

import pytest
import zmq

from railyard.benchmarks._network.emulated import EmulatedNetwork, Transfer
from railyard.benchmarks._network.scenarios import predict
from railyard.benchmarks.fidelity.networks import errors_percent
from railyard.cluster.errors import Refused
from railyard.cluster.messages import FlowFailed
from railyard.cluster.messaging.access import Sender
from railyard.cluster.messaging.reactor import Timer, now_s
from railyard.cluster.messaging.sockets import FRAME_BYTES_MAX
from railyard.cluster.messaging.transport import Describe, Description, Request, Transport
from railyard.cluster.messaging.wire import Done
from railyard.cluster.topology import load_topology
from railyard.netemu.client import NetworkClient
from railyard.netemu.emulator import process as emulator
from railyard.netemu.messages import (
    AttachFlow,
    CloseFlow,
    FinishCoflow,
    GetCircuitChanges,
    OpenFlow,
    RegisterCoflow,
)
from railyard.netemu.schedulers import flow_scheduler
from tests.netemu.topologies import network_of


def wait(network, condition):
    """Serve until ``condition()``, looking again every now and then."""
    deadline_s = now_s() + 20
    while not condition():
        assert now_s() < deadline_s, "waited in vain"
        network.transport.reactor.run_until(condition, 0.02)


def wait_for_stats(network, condition):
    while not condition(network.stats()):
        network.transport.reactor.run_until(lambda: False, 0.02)


def transfer(name, src, dst, stored_bytes, start_s=0.0):
    return Transfer(name=name, src=src, dst=dst, stored_bytes=stored_bytes, start_s=start_s)


# Transfers ---------------------------------------------------------------------------------------
def test_bytes_arrive_whole_and_never_before_the_model_allows(network):
    arrivals = network.carry(
        [
            transfer("rack", "r0n0", "r0n1", 1_000_000),
            transfer("cross", "r0n0", "r1n0", 500_000, start_s=0.02),
            transfer("into", "r2n1", "r1n0", 700_001),
            transfer("empty", "r0n1", "r2n0", 0),
            transfer("tiny", "r1n1", "r2n0", 1),
            transfer("local", "r1n1", "r1n1", 3_000_000),
        ]
    )
    for arrival, model_s in zip(arrivals, predict(network.topology, arrivals), strict=True):
        # messages from this process to the emulator and to the reader may pass one another
        assert arrival.finished_s - arrival.started_s > model_s - 0.005
    stats = network.stats()
    assert (stats.flows_open, stats.flows_cancelled) == (0, 0)
    assert stats.bytes["rack"] == 1_000_000_000
    assert stats.bytes["cross_rack"] == stats.bytes["eps"] == 1_200_002_000
    assert stats.bytes["local"] == 3_000_000_000
    assert stats.cross_rack_links["r1.down"] == 1_200_001_000
    assert stats.active_s > 0


def test_many_flows_at_once(network):
    nodes = [node.id for node in network.topology.nodes()]
    arrivals = network.carry(
        [transfer("all", src, dst, 20_000) for src in nodes for dst in nodes for _ in range(3)]
    )
    assert len(arrivals) == 108
    assert network.stats().flows_open == 0


@pytest.mark.usefixtures("run_folders")
def test_unlimited_links_carry_large_transfers():
    with EmulatedNetwork(load_topology("unlimited-2x2"), 2**26) as network:
        network.carry(
            [transfer("big", "r0n0", "r1n0", 2**26), transfer("b", "r0n0", "r0n1", 2**25)]
        )
        assert network.stats().bytes["cross_rack"] == 2**26


def test_only_transfers_that_take_their_time_count_for_fidelity(network):
    arrivals = network.carry(
        [transfer("a", "r0n0", "r1n0", 2_500_000), transfer("b", "r2n0", "r2n1", 9)]
    )
    assert len(errors_percent(network.topology, arrivals)) == 1


# The client --------------------------------------------------------------------------------------
def test_a_client_is_granted_its_stored_bytes_step_by_step(network, client):
    totals = []
    began_s = now_s()
    client.open("mine", "r0n0", "r1n0", 2_000_001, totals.append)
    wait(network, lambda: totals and totals[-1] == 2_000_001)
    assert now_s() - began_s > 0.2  # at 10 MB/s
    assert len(totals) > 1
    assert totals == sorted(totals)


def test_a_read_from_the_own_node_needs_no_network(network, client):
    totals = []
    client.open("mine", "r0n0", "r0n0", 77, totals.append)
    assert totals == []  # never from within the call
    wait(network, lambda: totals == [77])
    assert network.stats().flows_opened == 0


def test_a_cancelled_flow_gets_no_more_grants(network, client):
    totals = []
    client.open("mine", "r0n0", "r1n0", 10**9, totals.append)
    wait(network, lambda: bool(totals))
    client.cancel("mine")
    client.cancel("mine")
    wait_for_stats(network, lambda stats: stats.flows_open == 0)
    assert network.stats().flows_cancelled == 1


def test_a_refused_flow_says_why(network, client):
    reasons = []
    client.open("mine", "r0n0", "r9n9", 5, lambda _: None, reasons.append)
    wait(network, lambda: bool(reasons))
    assert reasons == ['"r9n9" is no node of this topology']


def test_flows_of_a_process_that_ends_are_cancelled(network):
    client = NetworkClient(network.transport, network.topology)
    totals = []
    client.open("mine", "r0n0", "r1n0", 10**9, totals.append)
    wait(network, lambda: bool(totals))
    client.close()
    wait_for_stats(network, lambda stats: stats.flows_cancelled == 1)


# Broken connections ------------------------------------------------------------------------------
def break_connection(client):
    """Have the emulator hang up: this frame is larger than it takes."""
    client._link._link._socket.send(bytes(FRAME_BYTES_MAX + 1), copy=False)


def test_a_stopped_emulator_is_waited_for_longer_than_others(network, client, monkeypatch):
    monkeypatch.setattr(Transport.link, "__defaults__", (None, 0.1, 0.0))  # what others are given
    os.kill(network.pids["network"], signal.SIGSTOP)
    totals, reasons = [], []
    client.open("mine", "r0n0", "r1n0", 10**6, totals.append, reasons.append)
    network.transport.reactor.run_until(lambda: bool(reasons), 1.2)
    assert "network" in network.transport.unreachable()
    os.kill(network.pids["network"], signal.SIGCONT)
    wait(network, lambda: totals[-1:] == [10**6])
    assert (reasons, network.transport.unreachable()) == ([], ())


def test_a_flow_goes_on_over_a_new_connection(network, client):
    totals, reasons = [], []
    client.open("mine", "r0n0", "r1n0", 5 * 10**6, totals.append, reasons.append)
    wait(network, lambda: bool(totals))
    break_connection(client)
    wait(network, lambda: totals[-1:] == [5 * 10**6])
    stats = network.stats()
    assert (reasons, stats.flows_finished, stats.flows_open) == ([], 1, 0)


def test_a_flow_of_anothers_goes_on_over_a_new_connection(network, client):
    network.link.call(OpenFlow(flow="theirs", src="r0n0", dst="r1n0", size_bytes=5 * 10**9), Done)
    totals, reasons = [], []
    client.attach("theirs", 5 * 10**6, totals.append, reasons.append)
    wait(network, lambda: bool(totals))
    break_connection(client)
    wait(network, lambda: totals[-1:] == [5 * 10**6])
    assert reasons == []


def test_a_flow_that_was_given_up_meanwhile_holds_no_bandwidth(network, client):
    totals, others = [], []
    client.open("mine", "r0n0", "r1n0", 10**8, totals.append)
    client.open("other", "r0n0", "r1n0", 10**7, others.append)
    wait(network, lambda: bool(totals))
    break_connection(client)
    client.cancel("mine")  # which goes down with the connection
    wait(network, lambda: others[-1:] == [10**7])
    assert network.stats().flows_open == 0


# Deaths ------------------------------------------------------------------------------------------
def test_a_reader_hears_that_its_sender_died(network):
    flow = network.begin(transfer("doomed", "r0n0", "r1n0", 16_000_000))
    wait_for_stats(network, lambda stats: bool(stats.grant_lags))  # the sender sends
    network.kill("peer-r0")
    assert isinstance(network.outcome(flow), FlowFailed)
    assert network.carry([transfer("other", "r1n0", "r2n0", 1000)])  # life goes on


def test_a_sender_forgets_a_reader_that_died(network):
    network.begin(transfer("doomed", "r0n0", "r1n0", 16_000_000))
    wait_for_stats(network, lambda stats: bool(stats.grant_lags))  # the sender sends
    network.kill("peer-r1")
    wait_for_stats(network, lambda stats: stats.flows_cancelled == 1)
    assert network.carry([transfer("other", "r0n0", "r2n0", 1000)])


# Nonsense ----------------------------------------------------------------------------------------
def test_nonsense_frames_are_refused_and_counted_while_transfers_go_on(network):
    flow = network.begin(transfer("a", "r0n0", "r1n0", 3_000_000))
    before = network.link.call(Describe(), Description).refused
    nonsense = [
        [os.urandom(64)],
        [b""],
        [b"\xc1"],
        [b"a", b"b", b"c", b"d"],
        [b"\x92\x00\x81\xa4type\xa9open-flow"],
        [b"\x92\x00\x81\xa4type\xa3foo"],
        [b"\xdf\xff\xff\xff\xff"],
    ]
    stranger = network.transport.context.socket(zmq.DEALER)
    stranger.connect(f"ipc://{network.folder.sockets / 'network'}")
    for _ in range(20):
        for frames in nonsense:
            stranger.send_multipart(frames)
    expected = before + 20 * len(nonsense)
    while network.link.call(Describe(), Description).refused < expected:
        pass
    stranger.close(linger=0)
    assert not isinstance(network.outcome(flow), FlowFailed)


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        (OpenFlow(flow="a", src="r0n0", dst="r1n7", size_bytes=1), '"r1n7" is no node'),
        (OpenFlow(flow="a", src="", dst="r1n0", size_bytes=1), '"" is no node'),
        (OpenFlow(flow="a", src="r0n0", dst="r1n0", size_bytes=-1), "Expected `int` >= 0"),
        (OpenFlow(flow="a", src="r0n0", dst="r1n0", size_bytes=1, weight=0.0), "Expected `float`"),
        (OpenFlow(flow="a", src="r0n0", dst="r1n0", size_bytes=1, coflow="x"), "not registered"),
        (
            OpenFlow(flow="a", src="r0n0", dst="r1n0", size_bytes=1, priority=(math.nan,)),
            "Expected `float`",
        ),
        (
            OpenFlow(flow="a", src="r0n0", dst="r1n0", size_bytes=1, priority=(0.0,) * 9),
            "Expected `array` of length <= 8",
        ),
        (AttachFlow(flow="taken"), "has a sender already"),
        (RegisterCoflow(coflow="j0"), "registered already"),
        (FinishCoflow(coflow="j9"), "not registered"),
    ],
)
def test_orders_that_make_no_sense_are_refused(network, order, reason):
    network.link.call(RegisterCoflow(coflow="j0"), Done)
    network.link.call(AttachFlow(flow="taken"), Done)
    with pytest.raises(Refused, match=reason):
        network.link.call(order, Done)
    network.link.call(CloseFlow(flow="taken"), Done)
    assert network.link.call(Describe(), Description).refused == 1
    assert network.carry([transfer("a", "r0n0", "r1n0", 1000)])


# From when an order to open a flow counts: an emulator whose clock and messages the test makes.


PEER = b"peer"
BEGAN_S = 100.0


class Reactor:
    """Keeps the timers; the test fires them."""

    def __init__(self):
        self.timers = []

    def call_at(self, when_s, call):
        self.timers.append(Timer(when_s, call))
        return self.timers[-1]

    def call_every(self, period_s, call):
        pass

    def call_later(self, after_s, call):
        return self.call_at(math.inf, call)


class Server:
    """Keeps the handlers, and what was sent: [(time, grants)]."""

    def __init__(self, world):
        self.handlers = {}
        self.sent = []
        self._world = world

    def on(self, kind, handler, only=()):
        self.handlers[kind] = handler

    def sender(self, request):
        return Sender("own", None, "own")

    def push(self, peer, message):
        self.sent.append((self._world.now_s, message))
        return True


class World:
    """An emulator that began at 100 s on the machine's clock, between nodes with 1 MB/s each."""

    def __init__(self, monkeypatch, scheduler="maxmin", file=None, **more):
        self.now_s = BEGAN_S
        self.reactor = Reactor()
        self.served = Server(self)
        monkeypatch.setattr(emulator, "now_s", lambda: self.now_s)
        topology = network_of(2, 2, "8Mbps", "80Mbps", **more)
        emulator.NetworkEmulator(self, topology, flow_scheduler(scheduler), file)

    def server(self, name):
        return self.served

    def order(self, message):
        """Have it come now."""
        request = Request(peer=PEER, number=1, message=message, payload=None)
        assert self.served.handlers[type(message)](request) == Done()

    def open(self, flow, node=0, **given):
        """A flow of 1 MB, which takes a second."""
        src, dst = f"r0n{node}", f"r1n{node}"
        self.order(
            OpenFlow(flow=flow, src=src, dst=dst, size_bytes=10**6, attach=True, **given),
        )

    def until(self, at_s):
        """Take all turns until then, each when it is due."""
        while due := [timer for timer in self.reactor.timers if timer.call and timer.when_s < at_s]:
            timer = min(due, key=lambda timer: timer.when_s)
            self.reactor.timers.remove(timer)
            self.now_s = max(self.now_s, timer.when_s) + 1e-6  # time goes on
            timer.call()
        self.now_s = max(self.now_s, at_s)

    def ends(self, within_s=1e-3):
        """{flow: when the last of it was granted}, once all is done."""
        self.until(self.now_s + 5)
        return {
            flow: pytest.approx(at_s, abs=within_s)
            for at_s, grants in self.served.sent
            for flow in grants.finished
        }


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)


def test_an_order_counts_from_when_it_was_given(world):
    world.until(110.0)
    world.open("a", given_s=109.25)
    assert world.ends() == {"a": 110.25}
    at_s, grants = world.served.sent[0]
    assert at_s == pytest.approx(110.0)
    assert grants.total_bytes == {"a": 750_000}


@pytest.mark.parametrize("given", [{}, {"given_s": 110.5}, {"given_s": math.inf}])
def test_an_order_never_counts_from_later_than_it_comes(world, given):
    world.until(110.0)
    world.open("a", **given)
    assert world.ends() == {"a": 111.0}


@pytest.mark.parametrize("given_s", [109.0, 99.0, -math.inf])
def test_an_order_does_not_count_from_before_what_the_network_knows(world, given_s):
    """Something happened at 109.5 s: what was before that is settled."""
    world.until(109.5)
    world.order(RegisterCoflow(coflow="j0"))
    world.until(110.0)
    world.open("a", given_s=given_s)
    assert world.ends() == {"a": 110.5}


def test_orders_that_come_together_count_from_when_each_was_given(world):
    world.until(110.0)
    world.open("a", given_s=109.5)
    world.open("b", node=1, given_s=109.75)
    assert world.ends() == {"a": 110.5, "b": 110.75}


@pytest.mark.parametrize(
    ("now_s", "given_s", "counts_from_s"),
    [
        pytest.param(109.501, 109.5001, 109.5, id="at nearly the same time"),
        pytest.param(109.501, 109.5003, 109.5003, id="apart"),
        pytest.param(109.6, 109.508, 109.5, id="apart, but the emulator is late"),
        pytest.param(109.6, 109.55, 109.55, id="apart, even for an emulator that is late"),
    ],
)
def test_rates_are_computed_once_for_orders_that_were_given_together(
    world, now_s, given_s, counts_from_s
):
    world.until(now_s)
    world.open("a", given_s=109.5)
    world.open("b", node=1, given_s=given_s)
    assert world.ends(within_s=1e-5)["b"] == counts_from_s + 1


def test_what_is_no_order_to_open_a_flow_counts_with_what_came_before(world):
    world.until(110.0)
    world.open("a", given_s=109.5)
    world.order(RegisterCoflow(coflow="j0"))
    world.open("b", node=1, given_s=109.75)
    assert world.ends() == {"a": 110.5, "b": 110.75}


def test_what_is_no_number_counts_from_now(world):
    world.until(110.0)
    world.open("a", given_s=math.nan)
    assert world.ends() == {"a": 111.0}


@pytest.fixture
def optical(monkeypatch):
    """A world whose circuits take 10 ms; flow "a" was given to it at 110 s."""
    ocs = {"port_bytes_per_s": "80Mbps", "delta_s": "10ms", "elephant_bytes": "1kB"}
    world = World(monkeypatch, "sunflow", ocs=ocs)
    world.until(110.0)
    world.open("a", given_s=110.0)
    return world


def test_the_rates_of_a_circuit_are_there_when_it_lights_but_no_grants_before(optical):
    optical.until(110.0099)
    look = Request(peer=PEER, number=2, message=GetCircuitChanges(after=0), payload=None)
    changes = optical.served.handlers[GetCircuitChanges](look)
    assert changes.now_s == pytest.approx(10.01)
    assert optical.served.sent == []
    optical.until(110.0102)
    [(at_s, grants)] = optical.served.sent
    assert at_s >= 110.01
    assert grants.total_bytes["a"] <= (at_s - 110.01) * 1e6 + 1
    assert optical.ends() == {"a": 111.01}


def test_what_is_ordered_just_before_a_circuit_lights_counts_from_then(optical):
    optical.until(110.0099)
    here = OpenFlow(
        flow="b", src="r0n1", dst="r0n0", size_bytes=10**6, attach=True, given_s=110.0098
    )
    optical.order(here)
    assert optical.ends(within_s=1e-5) == {"a": 111.01, "b": 111.01}
