"""A simulated network that may be stopped or die, as may daemons that hold ends of its flows.

the network is stopped   It hears its orders when it goes on.  Its clock has gone on, so what
                         would have been granted is so then (``netemu.emulator.process``).
the network dies         Its flows stop where they are.  As on a cluster (``netemu.client``), each
                         sender tells its successor its own flows and what it was granted of them,
                         at its own moment; the ResourceManager says which coflows and flows of
                         jobs there are.  A flow of a job goes on once both have; until then nothing
                         of it is granted.  What comes of what they say is decided by the emulator's
                         own ledger.
a daemon is stopped      It moves no bytes: a flow of which it holds an end is granted, and ends
                         when it goes on.

Not here: when that happens; see ``simulation``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import msgspec

from railyard.cluster.errors import InvariantError
from railyard.cluster.ids import CoflowId, FlowId, NodeId
from railyard.netemu.emulator.grants import Ledger
from railyard.netemu.emulator.statistics import plus
from railyard.netemu.fabric.fabric import Fabric, Order, StartFlows
from railyard.netemu.messages import (
    CloseFlow,
    FinishCoflow,
    LinksObserved,
    NetworkStats,
    RegisterCoflow,
    SetCapacity,
)
from railyard.netemu.model.arrays import Numbers
from railyard.netemu.model.flows import CoflowPast, Finished, FlowRows, FlowSpec
from railyard.netemu.model.network import LinkState, ObservedLinks
from railyard.oracles.faults.daemons import DaemonStopped, Mailbox, daemons_of, is_fetch, sender_of
from railyard.simulator.clock import EventHeap
from railyard.simulator.network import LinkWatch, OnEnd, SimulatedNetwork


class Untold(msgspec.Struct, frozen=True):
    """A flow that its sender has yet to tell."""

    spec: FlowSpec
    sent_bytes: int = 0  #: what its sender was granted over all networks before
    is_known: bool = False  #: whether a network before has confirmed it
    is_ordered: bool = False  #: whether the ResourceManager orders it by itself


class Successor:
    """It is not there at first, and then knows no flows; ``waiting`` are those that there are.

    Whatever is new before it is there is told to it then.
    """

    def __init__(
        self,
        fabric: Fabric,
        pasts: Mapping[CoflowId, CoflowPast],
        waiting: Iterable[Untold],
    ) -> None:
        self._fabric = fabric
        self._ledger = Ledger(fabric, 1, pasts)
        self._untold = {each.spec.flow: each for each in waiting}
        self._flows = {flow: each.spec for flow, each in self._untold.items()}  #: not over yet
        #: processes that have yet to tell it their flows
        self._silent: dict[str, None] = {}
        self._granted = {flow: each.sent_bytes for flow, each in self._untold.items()}
        self.is_there = False
        self.is_resumed = False  #: whether the ResourceManager has told it its coflows

    @property
    def knows_all(self) -> bool:
        """Whether it is from now on as if there had been no other before."""
        return self.is_resumed and not self._silent

    def pasts(self) -> dict[CoflowId, CoflowPast]:
        """What another network should know of coflows, if it comes in place of this one."""
        return self._ledger.pasts()

    def untold(self) -> Mapping[FlowId, Untold]:
        """Flows that it was not told yet; read only."""
        return self._untold

    # What it is told -----------------------------------------------------------------------------
    def begin(self) -> list[str]:
        """It is there; returns who has to tell it flows."""
        self.is_there = True
        self._silent = dict.fromkeys(sender_of(spec) for spec in self._flows.values())
        return list(self._silent)

    def tells(self, sender: str) -> None:
        """A sender tells all its flows; does nothing if it has done so."""
        if sender in self._silent:
            del self._silent[sender]
            for each in [u for u in self._untold.values() if sender_of(u.spec) == sender]:
                self._tell(each)
            self._check_grants()

    def resume(self, coflows: Iterable[CoflowId], flows: Iterable[FlowSpec]) -> None:
        """The ResourceManager says which coflows, and which flows of them, there are."""
        self._ledger.resume(coflows, flows)
        self.is_resumed = True
        self._check_grants()

    def is_open(self, flow: FlowId) -> bool:
        """Whether a flow is not over."""
        return flow in self._flows

    def handle(self, order: Order | None, now_s: float) -> list[Finished]:
        """Let time pass, or hear what is new; returns the flows that were granted all their bytes.

        A coflow that the ResourceManager has yet to tell will be among all that it tells.
        """
        match order:
            case None:
                return self._advance(now_s)
            case StartFlows():
                self._start(order.flows)
            case FlowRows():
                self._start(order.specs(list(self._fabric.network.node_number)))
            case CloseFlow():
                self._untold.pop(order.flow, None)
                self._granted.pop(order.flow, None)
                self._ledger.close(order.flow)
                self._flows.pop(order.flow, None)
            case RegisterCoflow() if self.is_resumed:
                self._ledger.register_coflow(order.coflow)
            case FinishCoflow() if order.coflow in self._ledger.coflows:
                self._ledger.finish_coflow(order.coflow)
            case SetCapacity():
                self._ledger.set_capacity(order.link, order.bytes_per_s)
        return []

    def _start(self, specs: Iterable[FlowSpec]) -> None:
        for spec in specs:
            self._flows[spec.flow] = spec
            each = self._untold[spec.flow] = Untold(spec, is_ordered=self.is_resumed)
            if self.is_there and sender_of(spec) not in self._silent:
                self._tell(each)

    def _advance(self, now_s: float) -> list[Finished]:
        self._ledger.advance(now_s)
        granted = self._ledger.take_grants().values()
        ended = [flow for grants in granted for flow in grants.finished]
        for flow in ended:
            del self._flows[flow]
        return [Finished(flow, now_s) for flow in ended]

    def _check_grants(self) -> None:
        """Each flow goes on from what it was granted, over all networks together."""
        for flow in [flow for flow in self._granted if self._fabric.is_open(flow)]:
            sent_bytes, granted_bytes = self._fabric.sent_bytes(flow), self._granted.pop(flow)
            if sent_bytes != granted_bytes:
                what = f"was granted {granted_bytes} bytes, and goes on from {sent_bytes}"
                raise InvariantError(f"{flow} {what}")

    def _tell(self, each: Untold) -> None:
        del self._untold[each.spec.flow]
        spec, ledger, peer = each.spec, self._ledger, sender_of(each.spec).encode()
        if not is_fetch(spec):
            ledger.open(spec, peer, again=each.is_known, sent_bytes=each.sent_bytes)
            return
        if each.is_ordered:
            ledger.open(spec, None)
        ledger.attach(spec.flow, peer, again=each.is_known, sent_bytes=each.sent_bytes)


#: A network that was late by so much counts orders within this share of it as given together, as
#: ``netemu.emulator.process`` does.
_TOGETHER_LATE = 0.1


class FaultyNetwork(SimulatedNetwork):
    """The network, or what there is of it."""

    def __init__(
        self, make_fabric: Callable[[], Fabric], heap: EventHeap, latency_s: float = 0.0
    ) -> None:
        super().__init__(make_fabric(), heap, latency_s)
        self._make_fabric = make_fabric
        self._carrier: Fabric | Successor = self.fabric
        self.is_stopped = False  #: whether it hears and grants nothing just now, and goes on later
        #: called with flows that are about to start, if there is somebody to call
        self.on_start: Callable[[Sequence[FlowSpec]], None] | None = None
        self._coflows: dict[CoflowId, None] = {}  #: those that are open
        self._dead: list[Fabric] = []  #: fabrics of networks that have died
        self._sent_before: dict[FlowId, int] = {}  #: {flow: bytes it had sent over dead fabrics}
        self._arrived_bytes = 0
        self._mail = Mailbox()  #: of the network, since it was stopped last
        self._closing: set[FlowId] = set()  #: flows that it has yet to hear are cancelled
        #: of daemons that are stopped; by a flow's name, of its reader's NodeManager, which has
        #: not heard of that flow
        self._stopped: dict[str, Mailbox] = {}

    # Counted over all fabrics ---------------------------------------------------------------------
    @property
    def deaths(self) -> int:
        """How many times the network has died."""
        return len(self._dead)

    @property
    def arrived_bytes(self) -> int:
        """Total size of the flows that have finished, and what others sent over dead fabrics."""
        return self._arrived_bytes

    def stats(self) -> NetworkStats:
        """The network's counters, in the format of the emulator's."""
        return reduce(plus, [*(dead.stats() for dead in self._dead), super().stats()])

    def bytes_by_category(self) -> dict[str, int]:
        """Bytes carried so far, over all fabrics; see ``Fabric.bytes_by_category``."""
        return _sums([each.bytes_by_category() for each in (*self._dead, self.fabric)])

    def bytes_by_link(self) -> dict[str, int]:
        """The same for each link."""
        return _sums([each.bytes_by_link() for each in (*self._dead, self.fabric)])

    def _advanced(self, now_s: float) -> Sequence[Finished]:
        before = self.fabric.finished_bytes
        ended = self._carrier.handle(None, now_s)
        self.finished += len(ended)
        self._arrived_bytes += self.fabric.finished_bytes - before
        if self._sent_before:  # what these had sent over fabrics that died is counted already
            self._arrived_bytes -= sum(self._sent_before.pop(end.flow, 0) for end in ended)
        return ended

    def _sent_bytes(self, flow: FlowId) -> int:
        if self.fabric.is_open(flow):
            return self.fabric.sent_bytes(flow)
        return self._sent_before.get(flow, 0)

    # Who carries flows ----------------------------------------------------------------------------
    @property
    def _successor(self) -> Successor | None:
        """Since the network died, until its successor knows all."""
        return self._carrier if isinstance(self._carrier, Successor) else None

    @property
    def is_down(self) -> bool:
        """Whether it is dead, stopped, or was not told yet what there is."""
        return self.is_stopped or self._successor is not None

    # What is heard late ---------------------------------------------------------------------------
    def stop(self, fault: DaemonStopped) -> None:
        """It is stopped for a while; does nothing if it is dead, or stopped already.

        If it hears orders before it looks at its clock, flows count from when they were opened;
        otherwise all count from when it goes on.
        """
        if not self.is_down:
            self.is_stopped, self._mail = True, Mailbox()
            self._heap.after(fault.lasts_s, self._go_on, self._mail, fault.hears_first)

    def _go_on(self, mail: Mailbox, hears_first: bool) -> None:
        """Hear all orders, in turn; those given close together count as given together."""
        if self._mail is not mail or not self.is_stopped:
            return  # it has died since
        self.is_stopped = False
        now_s = self._heap.now_s
        ended = [] if hears_first else self._caught_up(now_s)
        granted_s = self.fabric.now_s
        for number, (order, given_s) in enumerate(mail.orders):
            at_s = min(given_s, now_s)
            close_s = (now_s - at_s) * _TOGETHER_LATE if number else 0.0
            if at_s > granted_s + close_s and (number == 0 or given_s < math.inf):
                ended += self._caught_up(at_s)
                granted_s = at_s
            order()
        ended += self._caught_up(now_s)
        self._report(ended)

    def _caught_up(self, now_s: float) -> list[Finished]:
        """Advance the fabric; returns the flows that have ended and that somebody waits for."""
        return [end for end in self._advanced(now_s) if end.flow not in self._closing]

    def hears(self, call: Callable[[], object]) -> None:
        """Have this called when the network hears of it."""
        if self.is_stopped:
            self._mail.tell(call)
        else:
            call()

    def _order(self, order: Order) -> None:
        if isinstance(order, StartFlows) and self.on_start is not None:
            self.on_start(order.flows)
        if self.is_stopped:
            given_s = self._heap.now_s if isinstance(order, StartFlows | FlowRows) else math.inf
            self._mail.tell(partial(self._hear, order), given_s)
        else:
            self._hear(order)

    def _hear(self, order: Order) -> None:
        self._carrier.handle(order, self.fabric.now_s)

    def _close(self, spec: FlowSpec) -> None:
        if self.is_stopped:
            self._closing.add(spec.flow)
            self._mail.tell(partial(self._close, spec))
        else:
            self._closing.discard(spec.flow)
            if self._carrier.is_open(spec.flow):
                self._hear(CloseFlow(flow=spec.flow))
                self.cancelled += 1
                self.lost_bytes += spec.size_bytes - self._sent_before.pop(spec.flow, 0)

    def next_s(self) -> float:
        """As of a network that is up; inf while it is stopped."""
        return math.inf if self.is_stopped else super().next_s()

    def advance(self) -> None:
        """As of a network that is up; does nothing while it is stopped."""
        if not self.is_stopped:
            super().advance()

    # How it dies and comes back -------------------------------------------------------------------
    @property
    def is_dead(self) -> bool:
        """Whether it is, and there is no successor yet."""
        return self._successor is not None and not self._successor.is_there

    def go_down(self) -> None:
        """The network dies: nothing is sent until its successor, with a fresh fabric, is there."""
        if self.is_stopped:
            self.is_stopped = False
            self._mail.go_on()  # nothing is sent any more: its successor is told what there is
        for flow in [flow for flow in self._flows if flow in self._stopped]:
            self.cancel(flow)  # nobody will tell its successor of these
        dead, before = self.fabric, self._successor
        self.fabric = fresh = self._make_fabric()
        self._dead.append(dead)
        fresh.handle(None, self._heap.now_s)
        for link, bytes_per_s in dead.changed_capacities().items():
            if math.isfinite(bytes_per_s):
                fresh.handle(SetCapacity(link=link, bytes_per_s=bytes_per_s), fresh.now_s)
        untold = {} if before is None else before.untold()
        waiting = list[Untold]()
        for flow, (spec, _) in self._flows.items():
            if dead.is_open(flow):
                sent_bytes = dead.sent_bytes(flow)
                self._arrived_bytes += sent_bytes - self._sent_before.get(flow, 0)
                self._sent_before[flow] = sent_bytes
            elif before is None or not before.is_open(flow):
                continue  # all of it was sent, or it needs no network
            is_known = flow not in untold or untold[flow].is_known
            waiting.append(Untold(spec, self._sent_before.get(flow, 0), is_known))
        pasts = dead.pasts() if before is None else before.pasts()
        self._carrier = Successor(fresh, pasts, waiting)

    def come_back(self) -> list[str]:
        """There is a successor; returns who has to tell it flows, beside the ResourceManager."""
        assert self._successor is not None, "it has not died"
        return self._successor.begin()

    @property
    def awaits_coflows(self) -> bool:
        """Whether it is a successor that the ResourceManager has yet to tell what there is."""
        return self._successor is not None and not self._successor.is_resumed

    def resume(self, coflows: Iterable[CoflowId], flows: Iterable[FlowSpec]) -> None:
        """The ResourceManager tells a successor which coflows and flows of them there are.

        Does nothing where it has been told all by everybody.
        """
        if self._successor is not None and self._successor.is_there:
            self._successor.resume(coflows, flows)
            self._look_if_told()

    def tells(self, sender: str) -> None:
        """A sender tells a successor its flows, unless it has, or is stopped."""
        if self._successor is not None and sender not in self._stopped:
            self._successor.tells(sender)
            self._look_if_told()

    def _look_if_told(self) -> None:
        if self._successor is not None and self._successor.knows_all:
            self._carrier = self.fabric

    # Daemons that are stopped ---------------------------------------------------------------------
    def daemon_stops(self, fault: DaemonStopped, goes_on: Callable[[], object]) -> None:
        """A daemon that may hold ends of flows is stopped; ``goes_on`` is called when it goes on.

        Then, at once, it sends or takes what was granted meanwhile.
        """
        mail = self._stopped[fault.target] = Mailbox()
        mail.tell(goes_on)
        self._heap.after(fault.lasts_s, self._daemon_goes_on, fault.target, mail)

    def _daemon_goes_on(self, daemon: str, mail: Mailbox) -> None:
        if self._stopped.get(daemon) is mail:  # otherwise it has died since
            del self._stopped[daemon]
            mail.go_on()
            self.tells(daemon)

    def daemon_is_gone(self, daemon: str) -> None:
        """It has died, stopped or not, and its flows were ended."""
        self._stopped.pop(daemon, None)
        self.tells(daemon)

    def _arrived(self, flow: FlowId) -> None:
        if not self._stands_still(flow):
            super()._arrived(flow)

    def _known(self, ended: Iterable[Finished]) -> Iterator[OnEnd | Numbers]:
        return super()._known(end for end in ended if not self._stands_still(end.flow))

    def _stands_still(self, flow: FlowId) -> bool:
        """Whether a flow that was granted ends later, as whoever holds an end does nothing now."""
        if self._stopped and flow in self._flows:
            spec, _ = self._flows[flow]
            for daemon in (flow, *daemons_of(spec)):
                if daemon in self._stopped:
                    self._stopped[daemon].tell(partial(self._moves, spec))
                    return True
        return False

    def _moves(self, spec: FlowSpec) -> None:
        """The bytes of a flow that stood still move, unless it is cancelled."""
        known = self._flows.get(spec.flow)
        if known is not None and known[0] is spec:
            self._arrived(spec.flow)

    # Flows whose bytes nobody takes yet -----------------------------------------------------------
    @property
    def has_held(self) -> bool:
        """Whether any flow is held."""
        return any(flow in self._flows for flow in self._stopped)

    def hold(self, flow: FlowId) -> None:
        """Do not report the end of an open flow before it is released."""
        self._stopped.setdefault(flow, Mailbox())

    def is_held(self, flow: FlowId) -> bool:
        """Whether it is."""
        return flow in self._stopped

    def release(self, flow: FlowId) -> None:
        """Report the end of a flow that is held from now on."""
        self._heap.after(0.0, self._stopped.pop(flow).go_on)

    def cancel(self, flow: FlowId) -> None:
        """Cancel a flow; does nothing if it is not open."""
        self._stopped.pop(flow, None)
        super().cancel(flow)

    # Coflows --------------------------------------------------------------------------------------
    def coflows(self) -> list[CoflowId]:
        """Those that are open."""
        return list(self._coflows)

    def open_coflow(self, coflow: CoflowId) -> None:
        self._coflows[coflow] = None
        super().open_coflow(coflow)

    def close_coflow(self, coflow: CoflowId) -> None:
        """Cancel all open flows of a coflow, then the coflow."""
        del self._coflows[coflow]
        super().close_coflow(coflow)

    def _flows_of(self, coflow: CoflowId) -> Sequence[FlowId]:
        known = [flow for flow, (spec, _) in self._flows.items() if spec.coflow == coflow]
        if self.is_down:
            return known
        return [flow for flow in known if self.fabric.is_open(flow) or flow in self._stopped]

    def end_flows_of(
        self, node: NodeId, reason: str, which: Callable[[OnEnd], bool] = lambda _: True
    ) -> None:
        """End all flows from or to a node, or some of them, with the reason.

        Those that are held go on: nobody but the network has any part in them.
        """
        ends = [
            flow
            for flow, (at, on_end) in self._flows.items()
            if node in (at.src, at.dst) and which(on_end) and flow not in self._stopped
        ]
        self._end(ends, reason)


class FaultyLinkWatch(LinkWatch):
    """Looks at the links of a network that may be stopped or die."""

    _network: FaultyNetwork

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._not_before_s = 0.0  #: of the next look
        self._asked = 0  #: how often a ResourceManager that was restarted has asked

    def begin_again(self, known: Mapping[str, LinkState]) -> None:
        """Report what differs from what a ResourceManager that was restarted knows."""
        self._asked += 1
        self._answer(known, self._asked)

    def _answer(self, known: Mapping[str, LinkState], asked: int) -> None:
        if self._network.is_stopped:  # it hears later what it was asked
            self._network.hears(partial(self._heap.after, 0.0, self._answer, known, asked))
            return
        if asked != self._asked:
            return  # whoever asked is dead
        self._observed = ObservedLinks(self._network.fabric.network, self._change)
        self._observed.look(self._network.fabric)
        links = self._observed.all()
        changed = {name: link for name, link in links.items() if known.get(name) != link}
        self._not_before_s = self._heap.now_s + self._period_s
        if changed:
            self._report(LinksObserved(links=changed))

    def _rates_set(self) -> tuple[int, int]:
        return self._network.deaths, self._network.fabric.decided

    def review(self) -> None:
        """As of a network that is up; does nothing while it is stopped."""
        if not self._network.is_stopped:
            super().review()

    def _look(self) -> None:
        """Not while it is stopped: it looks when it goes on; nor if it was asked in between."""
        if self._network.is_stopped or self._heap.now_s < self._not_before_s:
            self._looking = False
        else:
            super()._look()


def _sums(parts: Sequence[dict[str, int]]) -> dict[str, int]:
    """The sums of the values of each key."""
    return {name: sum(each.get(name, 0) for each in parts) for part in parts for name in part}
