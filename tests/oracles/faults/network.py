"""A simulated network that may be stopped or die, as may daemons that hold ends of its flows.

the network is stopped   It receives its orders when it goes on.  Its clock has gone on, so what
                         would have been granted is so then (``netemu.emulator.process``).
the network dies         Its flows stop where they are.  As on a cluster (``netemu.client``), each
                         sender registers its own flows with its successor, and what it was granted
                         of them, at its own moment; the ResourceManager sends which coflows and
                         flows of jobs are open.  A flow of a job goes on once both have; until
                         then nothing of it is granted.  The emulator's own ledger merges the two.
a daemon is stopped      It moves no bytes: a flow of which it holds an end is granted, and ends
                         when it goes on.

Not here: when that happens; see ``simulation``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from itertools import repeat
from typing import Any, cast

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


class PendingFlow(msgspec.Struct, frozen=True):
    """A flow that its sender has yet to register."""

    spec: FlowSpec
    sent_bytes: int = 0  #: what its sender was granted over all networks before
    is_known: bool = False  #: whether a network before has confirmed it
    is_ordered: bool = False  #: whether the ResourceManager orders it by itself


class Successor:
    """It is not up at first, and then knows no flows; ``waiting`` are those that are open.

    What is opened before it is up is registered then.
    """

    def __init__(
        self,
        fabric: Fabric,
        pasts: Mapping[CoflowId, CoflowPast],
        waiting: Iterable[PendingFlow],
    ) -> None:
        self._fabric = fabric
        self._ledger = Ledger(fabric, 1, pasts)
        self._pending = {each.spec.flow: each for each in waiting}
        self._flows = {flow: each.spec for flow, each in self._pending.items()}  #: not over yet
        #: processes that have yet to register their flows
        self._awaited: dict[str, None] = {}
        self._granted = {flow: each.sent_bytes for flow, each in self._pending.items()}
        self.is_there = False
        self.is_resumed = False  #: whether the ResourceManager has sent its coflows

    @property
    def knows_all(self) -> bool:
        """Whether it is from now on as if there had been no other before."""
        return self.is_resumed and not self._awaited

    def pasts(self) -> dict[CoflowId, CoflowPast]:
        """What another network should know of coflows, if it comes in place of this one."""
        return self._ledger.pasts()

    def pending(self) -> Mapping[FlowId, PendingFlow]:
        """Flows that are not registered yet; read only."""
        return self._pending

    # Registration --------------------------------------------------------------------------------
    def begin(self) -> list[str]:
        """It is up; returns the processes that have to register flows."""
        self.is_there = True
        self._awaited = dict.fromkeys(sender_of(spec) for spec in self._flows.values())
        return list(self._awaited)

    def reregister(self, sender: str) -> None:
        """A sender registers all its flows; does nothing if it has done so."""
        if sender in self._awaited:
            del self._awaited[sender]
            for each in [u for u in self._pending.values() if sender_of(u.spec) == sender]:
                self._reopen(each)
            self._check_grants()

    def resume(self, coflows: Iterable[CoflowId], flows: Iterable[FlowSpec]) -> None:
        """The ResourceManager sends which coflows, and which flows of them, are open."""
        self._ledger.resume(coflows, flows)
        self.is_resumed = True
        self._check_grants()

    def is_open(self, flow: FlowId) -> bool:
        """Whether a flow is not over."""
        return flow in self._flows

    def handle(self, order: Order | None, now_s: float) -> list[Finished]:
        """Let time pass, or take an order; returns the flows that were granted all their bytes.

        A coflow is left out until the ResourceManager has sent all.
        """
        match order:
            case None:
                return self._advance(now_s)
            case StartFlows():
                self._start(order.flows)
            case FlowRows():
                self._start(specs_of(order, list(self._fabric.network.node_number)))
            case CloseFlow():
                self._pending.pop(order.flow, None)
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
            each = self._pending[spec.flow] = PendingFlow(spec, is_ordered=self.is_resumed)
            if self.is_there and sender_of(spec) not in self._awaited:
                self._reopen(each)

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

    def _reopen(self, each: PendingFlow) -> None:
        del self._pending[each.spec.flow]
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
        self.is_stopped = False  #: whether it receives and grants nothing, and goes on later
        #: called with flows that are about to start, if there is somebody to call
        self.on_start: Callable[[Sequence[FlowSpec]], None] | None = None
        self._coflows: dict[CoflowId, None] = {}  #: those that are open
        self._dead: list[Fabric] = []  #: fabrics of networks that have died
        self._sent_before: dict[FlowId, int] = {}  #: {flow: bytes it had sent over dead fabrics}
        self._arrived_bytes = 0
        self._mail = Mailbox()  #: of the network, since it was stopped last
        self._closing: set[FlowId] = set()  #: flows whose cancellation it has yet to receive
        #: of daemons that are stopped; by a flow's name, of its reader's NodeManager, which has
        #: not received the order for it
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
        """Whether it is dead, stopped, or does not know yet what is open."""
        return self.is_stopped or self._successor is not None

    # Orders that arrive late ----------------------------------------------------------------------
    def stop(self, fault: DaemonStopped) -> None:
        """It is stopped for a while; does nothing if it is dead, or stopped already.

        If it takes orders before it looks at its clock, flows count from when they were opened;
        otherwise all count from when it goes on.
        """
        if not self.is_down:
            self.is_stopped, self._mail = True, Mailbox()
            self._heap.after(fault.lasts_s, self._go_on, self._mail, fault.orders_first)

    def _go_on(self, mail: Mailbox, orders_first: bool) -> None:
        """Take all orders, in turn; those given close together count as given together."""
        if self._mail is not mail or not self.is_stopped:
            return  # it has died since
        self.is_stopped = False
        now_s = self._heap.now_s
        ended = [] if orders_first else self._caught_up(now_s)
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

    def when_received(self, call: Callable[[], object]) -> None:
        """Have this called when the network receives it."""
        if self.is_stopped:
            self._mail.put(call)
        else:
            call()

    def _order(self, order: Order) -> None:
        if isinstance(order, StartFlows) and self.on_start is not None:
            self.on_start(order.flows)
        if self.is_stopped:
            given_s = self._heap.now_s if isinstance(order, StartFlows | FlowRows) else math.inf
            self._mail.put(partial(self._receive, order), given_s)
        else:
            self._receive(order)

    def _receive(self, order: Order) -> None:
        self._carrier.handle(order, self.fabric.now_s)

    def _close(self, spec: FlowSpec) -> None:
        if self.is_stopped:
            self._closing.add(spec.flow)
            self._mail.put(partial(self._close, spec))
        else:
            self._closing.discard(spec.flow)
            if self._carrier.is_open(spec.flow):
                self._receive(CloseFlow(flow=spec.flow))
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
            self._mail.go_on()  # nothing is sent any more: its successor learns what is open
        for flow in [flow for flow in self._flows if flow in self._stopped]:
            self.cancel(flow)  # nobody will register these with its successor
        dead, before = self.fabric, self._successor
        self.fabric = fresh = self._make_fabric()
        self._dead.append(dead)
        fresh.handle(None, self._heap.now_s)
        for link, bytes_per_s in dead.changed_capacities().items():
            if math.isfinite(bytes_per_s):
                fresh.handle(SetCapacity(link=link, bytes_per_s=bytes_per_s), fresh.now_s)
        pending = {} if before is None else before.pending()
        waiting = list[PendingFlow]()
        for flow, (spec, _) in self._flows.items():
            if dead.is_open(flow):
                sent_bytes = dead.sent_bytes(flow)
                self._arrived_bytes += sent_bytes - self._sent_before.get(flow, 0)
                self._sent_before[flow] = sent_bytes
            elif before is None or not before.is_open(flow):
                continue  # all of it was sent, or it needs no network
            is_known = flow not in pending or pending[flow].is_known
            waiting.append(PendingFlow(spec, self._sent_before.get(flow, 0), is_known))
        pasts = dead.pasts() if before is None else before.pasts()
        self._carrier = Successor(fresh, pasts, waiting)

    def come_back(self) -> list[str]:
        """There is a successor; returns who has to register flows, beside the ResourceManager."""
        assert self._successor is not None, "it has not died"
        return self._successor.begin()

    @property
    def awaits_coflows(self) -> bool:
        """Whether it is a successor to which the ResourceManager has yet to send what is open."""
        return self._successor is not None and not self._successor.is_resumed

    def resume(self, coflows: Iterable[CoflowId], flows: Iterable[FlowSpec]) -> None:
        """The ResourceManager sends a successor which coflows and flows of them are open.

        Does nothing where everything is registered.
        """
        if self._successor is not None and self._successor.is_there:
            self._successor.resume(coflows, flows)
            self._check_complete()

    def reregister(self, sender: str) -> None:
        """A sender registers its flows with a successor, unless it has, or is stopped."""
        if self._successor is not None and sender not in self._stopped:
            self._successor.reregister(sender)
            self._check_complete()

    def _check_complete(self) -> None:
        if self._successor is not None and self._successor.knows_all:
            self._carrier = self.fabric

    # Daemons that are stopped ---------------------------------------------------------------------
    def daemon_stops(self, fault: DaemonStopped, goes_on: Callable[[], object]) -> None:
        """A daemon that may hold ends of flows is stopped; ``goes_on`` is called when it goes on.

        Then, at once, it sends or takes what was granted meanwhile.
        """
        mail = self._stopped[fault.target] = Mailbox()
        mail.put(goes_on)
        self._heap.after(fault.lasts_s, self._daemon_goes_on, fault.target, mail)

    def _daemon_goes_on(self, daemon: str, mail: Mailbox) -> None:
        if self._stopped.get(daemon) is mail:  # otherwise it has died since
            del self._stopped[daemon]
            mail.go_on()
            self.reregister(daemon)

    def daemon_lost(self, daemon: str) -> None:
        """It has died, stopped or not, and its flows were ended."""
        self._stopped.pop(daemon, None)
        self.reregister(daemon)

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
                    self._stopped[daemon].put(partial(self._moves, spec))
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
    """Observes the links of a network that may be stopped or die."""

    _network: FaultyNetwork

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._not_before_s = 0.0  #: of the next observation
        self._requests = 0  #: requests of ResourceManagers that were restarted

    def begin_again(self, known: Mapping[str, LinkState]) -> None:
        """Report what differs from what a ResourceManager that was restarted knows."""
        self._requests += 1
        self._answer(known, self._requests)

    def _answer(self, known: Mapping[str, LinkState], request: int) -> None:
        if self._network.is_stopped:  # it receives the request later
            self._network.when_received(
                partial(self._heap.after, 0.0, self._answer, known, request)
            )
            return
        if request != self._requests:
            return  # the ResourceManager that made it is dead
        self._observed = ObservedLinks(self._network.fabric.network, self._config.change)
        self._observed.look(self._network.fabric)
        links = self._observed.all()
        changed = {name: link for name, link in links.items() if known.get(name) != link}
        self._not_before_s = self._heap.now_s + self._config.period_s
        if changed:
            self._report(LinksObserved(links=changed))

    def _rates_set(self) -> tuple[int, int]:
        return self._network.deaths, self._network.fabric.decided

    def review(self) -> None:
        """As of a network that is up; does nothing while it is stopped."""
        if not self._network.is_stopped:
            super().review()

    def _observe(self) -> None:
        """Not while it is stopped, but when it goes on; nor if there was a request in between."""
        if self._network.is_stopped or self._heap.now_s < self._not_before_s:
            self._is_planned = False
        else:
            super()._observe()


def _sums(parts: Sequence[dict[str, int]]) -> dict[str, int]:
    """The sums of the values of each key."""
    return {name: sum(each.get(name, 0) for each in parts) for part in parts for name in part}


def specs_of(rows: FlowRows, nodes: Sequence[NodeId]) -> Iterator[FlowSpec]:
    """The flows of an order in arrays, one by one."""
    columns = rows.src.tolist(), rows.dst.tolist(), rows.size_bytes.tolist()
    rest = rows.coflow.tolist(), rows.asks or repeat((1.0, ()))
    for name, src, dst, size, coflow, ask in zip(rows.names, *columns, *rest, strict=False):
        yield FlowSpec(
            flow=cast("FlowId", name),
            src=nodes[src],
            dst=nodes[dst],
            size_bytes=size,
            coflow=rows.coflows[coflow],
            weight=ask[0],
            priority=ask[1],
        )
