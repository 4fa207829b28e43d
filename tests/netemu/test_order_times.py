"""From when an order to open a flow counts: an emulator whose clock and messages the test makes."""

import math

import pytest

from railyard.cluster.messaging.access.roles import Sender
from railyard.cluster.messaging.reactor import Timer
from railyard.cluster.messaging.transport import Request
from railyard.cluster.messaging.wire import Done
from railyard.netemu.emulator import process as emulator
from railyard.netemu.messages import GetCircuitChanges, OpenFlow, RegisterCoflow
from railyard.netemu.schedulers import flow_scheduler
from tests.netemu.topologies import network_of

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
