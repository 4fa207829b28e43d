"""The network emulator's process: drives the fabric with real time and sends the grants.

A late grant makes a transfer late.  So the emulator has priority over all other processes where the
system permits it (``cluster.machine``).  Elsewhere grants are late while all cores are busy; the
statistics say by how much.  A shuffle of 250 flows takes a fifth of a core.

An emulator in place of one that died goes on with the state file of that, and with the flows that
their senders report: those are not in the file, which is replaced as a whole once a second while
flows are open, and before a change of a link is answered.

Nothing is decided here: the flow scheduler sets rates, the ledger makes grants.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from railyard.cluster.config import Daemon
from railyard.cluster.errors import PeerError, PeerUnable
from railyard.cluster.ids import CoflowId, FlowId
from railyard.cluster.machine import CLOCK, cause_of, take_priority
from railyard.cluster.messaging.access import CLIENT, NODE_MANAGER, RESOURCE_MANAGER, Sender
from railyard.cluster.messaging.reactor import Reactor, Timer, now_s
from railyard.cluster.messaging.transport import Request, Server, Transport
from railyard.cluster.messaging.wire import Done, Event, Message
from railyard.cluster.processes import stop_on_sigterm
from railyard.cluster.topology import Topology
from railyard.cluster.units import format_rate
from railyard.netemu.emulator.grants import Ledger
from railyard.netemu.emulator.statistics import plus
from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.messages import (
    AttachFlow,
    CircuitChanges,
    CloseFlow,
    FinishCoflow,
    GetCircuitChanges,
    GetNetworkStats,
    LinksObserved,
    NetworkStats,
    NetworkView,
    OpenFlow,
    RegisterCoflow,
    ResumeCoflows,
    SetCapacity,
    WatchLinks,
    WatchNetwork,
)
from railyard.netemu.model.flows import CIRCUITS_OF_ONE, CoflowPast, FlowSpec
from railyard.netemu.model.network import LinkState, ObservedLinks
from railyard.netemu.schedulers import flow_scheduler
from railyard.netemu.schedulers.base import FlowScheduler

_OF_JOBS = frozenset((RESOURCE_MANAGER, NODE_MANAGER))
_JOBS = ""  #: the owner of jobs' flows; no sender has this key
#: Part of the name of each fetch ("j1.r0.0:r0n0:1") and of no other flow.
_JOBS_MARK = ":"
log = logging.getLogger(__name__)
_CPU_SAMPLE_S = 0.25
#: How busy all CPUs together must be to count as saturated.
_CPU_SATURATED_PERCENT = 95.0
_SWEEP_S = 60.0
#: While flows are open, what is known beside them is written this often.
_KEEP_PERIOD_S = 1.0
#: Orders within this time of each other count as one instant.  If the emulator is late, so do
#: orders within this share of its lateness: otherwise it could fall further and further behind.
_TOGETHER_S = 0.0002
_TOGETHER_LATE = 0.1
#: Rates are computed this long before a circuit is ready, so that its grants are sent in time.
_AHEAD_S = 0.0004
#: Changes of circuits in one answer at most, so that grants do not wait long for it.
_CHANGES_MAX = 1000
M = TypeVar("M", bound=Message)


class Owners:
    """The owners of flows.  Its checks raise ``PeerError`` for what a sender may not do."""

    def __init__(self) -> None:
        self._by_flow: dict[FlowId, str] = {}  #: keys of senders; ``_JOBS`` for flows of jobs

    def check_open(self, order: OpenFlow, sender: Sender) -> None:
        """Check that the sender may open this flow, or return to it."""
        if sender.may(_OF_JOBS):
            return
        if order.coflow is not None or not order.attach or order.weight != 1.0 or order.priority:
            right = "need attach=true, and neither coflow nor weight nor priority"
            raise PeerError(f'flow "{order.flow}" from {sender.role}: {right}')
        if _JOBS_MARK in order.flow:  # or it could take the name of a fetch before the job does
            right = f'need a name without "{_JOBS_MARK}", which names of jobs\' flows have'
            raise PeerError(f'flow "{order.flow}" from {sender.role}: {right}')
        if order.again:
            self.check(order.flow, sender)

    def opened(self, flow: FlowId, sender: Sender) -> None:
        """Note the owner of a flow, once it is open: a refused order must not make an owner."""
        self._by_flow[flow] = _JOBS if sender.may(_OF_JOBS) else sender.key

    def check(self, flow: FlowId, sender: Sender) -> None:
        """Check that the sender owns this flow, or manages all flows of jobs."""
        if not sender.may(_OF_JOBS) and self._by_flow.get(flow, sender.key) != sender.key:
            raise PeerError(f'flow "{flow}": belongs to another process')

    def forget(self, is_over: Callable[[FlowId], bool]) -> None:
        self._by_flow = {flow: by for flow, by in self._by_flow.items() if not is_over(flow)}


# The state file -----------------------------------------------------------------------------------
class State(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a network beside its flows."""

    began_s: float  #: the network's 0 on the machine's monotonic clock
    restarts: int = 0  #: how many emulators there were before this one
    #: {link: bytes/s} of the links that people gave a capacity
    capacities: dict[str, float] = {}
    stats: NetworkStats | None = None
    pasts: dict[CoflowId, CoflowPast] = {}  #: of coflows


def read_state(file: Path, now_s: float) -> State | None:
    """What the last emulator has written, as far as it can be read; None if there was none."""
    try:
        return msgspec.msgpack.decode(file.read_bytes(), type=State)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        what = "links have the topology's capacities, and counters begin anew"
        log.error("%s: can't be read: %s: %s", file, error, what)
        return State(began_s=now_s, restarts=1)


def write_state(file: Path, state: State) -> None:
    """Put this in the file; ``OSError`` if it can't be written, and then it is as before."""
    new = file.with_suffix(".new")
    new.write_bytes(msgspec.msgpack.encode(state))
    new.replace(file)


def counted_before(state: State) -> NetworkStats | None:
    """The counters of a network whose flows have gone with its process.

    Those that are reported anew are opened again, so they count as never opened.
    """
    stats = state.stats
    if stats is None:
        return None
    return msgspec.structs.replace(
        stats, flows_opened=stats.flows_finished + stats.flows_cancelled, flows_open=0
    )


# Subscribers --------------------------------------------------------------------------------------
class Publisher:
    """The subscribers of one server; ``current`` returns the fabric as of now."""

    def __init__(self, server: Server, reactor: Reactor, current: Callable[[], Fabric]) -> None:
        self._server = server
        self._reactor = reactor
        self._current = current
        #: what to send a peer that has sent a message of one class; None: nothing has changed
        self._reports: dict[tuple[bytes, type[Message]], Callable[[], Event | None]] = {}
        server.on(WatchNetwork, self._watch_network)
        server.on(WatchLinks, self._watch_links)

    def _watch_network(self, request: Request[WatchNetwork]) -> NetworkView:
        watch = request.message
        sent = network_view(self._current(), with_rates=watch.with_rates)

        def report() -> NetworkView | None:
            nonlocal sent
            view = network_view(self._current(), with_rates=watch.with_rates)
            if msgspec.structs.replace(view, now_s=sent.now_s) == sent:
                return None
            sent = view
            return view

        self._subscribe(request, watch.period_s, report)
        return sent

    def _watch_links(self, request: Request[WatchLinks]) -> LinksObserved:
        watch, fabric = request.message, self._current()
        observed = ObservedLinks(fabric.network, watch.change)
        observed.look(fabric)

        def report() -> LinksObserved | None:
            changed = observed.look(self._current())
            return LinksObserved(links=changed) if changed else None

        self._subscribe(request, watch.period_s, report)
        return LinksObserved(links=observed.all())

    def _subscribe(
        self, request: Request[Message], period_s: float, report: Callable[[], Event | None]
    ) -> None:
        """Report from now on; what the peer requested by such a message before is void."""
        key = request.peer, type(request.message)
        self._reports[key] = report

        def publish() -> None:
            if self._reports.get(key) is not report:
                return
            changed = report()
            if changed is None or self._server.push(key[0], changed):
                self._reactor.call_later(period_s, publish)
            else:
                del self._reports[key]

        self._reactor.call_later(period_s, publish)


def network_view(fabric: Fabric, *, with_rates: bool) -> NetworkView:
    """The state of a fabric as subscribers get it."""
    free = fabric.free_bytes_per_s()
    return NetworkView(
        now_s=fabric.now_s,
        links={
            name: LinkState(capacity_bytes_per_s=capacity, free_bytes_per_s=free[name])
            for name, capacity in fabric.capacities_bytes_per_s().items()
        },
        flows_open=fabric.open_flows,
        circuits=tuple(fabric.circuits()),
        rates_bytes_per_s=fabric.rates_bytes_per_s() if with_rates else None,
    )


class NetworkEmulator:
    """Serves the name "network"; goes on with what an earlier one has written in ``file``."""

    def __init__(
        self,
        transport: Transport,
        topology: Topology,
        scheduler: FlowScheduler,
        file: Path | None = None,
    ) -> None:
        self._reactor = transport.reactor
        self._file = file
        began_s = now_s()
        before = None if file is None else read_state(file, began_s)
        #: a clock that starts at 0 keeps more digits for fractions
        self._began_s = began_s if before is None else before.began_s
        self._restarts = 0 if before is None else before.restarts + 1
        self._stats_before = None if before is None else counted_before(before)
        self._fabric = Fabric(topology, scheduler)
        self._given: dict[str, float] = {}  #: capacities that people gave links
        pasts = None if before is None else before.pasts
        self._ledger = Ledger(self._fabric, topology.scale, pasts)
        if before is not None:
            self._go_on_with(before)
        self._timer: Timer | None = None
        self._sending_is_due = False
        self._cpu_samples = 0
        self._cpu_saturated = 0
        self._server = transport.server("network")
        self._owners = Owners()
        ledger = self._ledger
        self._on(OpenFlow, self._open)
        self._on(CloseFlow, self._close)
        self._on(AttachFlow, self._attach, (NODE_MANAGER,))
        only = (RESOURCE_MANAGER,)
        self._on(RegisterCoflow, lambda each: ledger.register_coflow(each.message.coflow), only)
        self._on(FinishCoflow, lambda each: ledger.finish_coflow(each.message.coflow), only)
        self._on(ResumeCoflows, self._resume, only)
        self._on(SetCapacity, self._set_capacity, (CLIENT,))
        self._server.on(GetNetworkStats, self._stats)
        self._server.on(GetCircuitChanges, self._circuit_changes)
        self._publisher = Publisher(self._server, self._reactor, self._current)
        _cpu_percent()  # the first call only begins to measure
        self._reactor.call_every(_CPU_SAMPLE_S, self._sample_cpu)
        self._reactor.call_every(_SWEEP_S, self._sweep)
        self._failure = ""  #: why the file can't be written
        self._keep()
        self._reactor.call_every(_KEEP_PERIOD_S, self._keep_if_busy)

    # Orders ------------------------------------------------------------------------------------
    def _on(
        self, kind: type[M], act: Callable[[Request[M]], None], only: tuple[str, ...] = ()
    ) -> None:
        """Carry out orders of this class by ``act``, which refuses one by a ``ValueError``."""

        def handle(request: Request[M]) -> Message | None:
            self._catch_up(getattr(request.message, "given_s", None))
            try:
                act(request)
            except ValueError as error:
                raise PeerError(str(error)) from None
            return Done() if request.number else None

        self._server.on(kind, handle, only)

    def _open(self, request: Request[OpenFlow]) -> None:
        order, sender = request.message, self._server.sender(request)
        self._owners.check_open(order, sender)
        peer = request.peer if order.attach else None
        self._ledger.open(_spec(order), peer, again=order.again, sent_bytes=order.sent_bytes)
        self._owners.opened(order.flow, sender)

    def _resume(self, request: Request[ResumeCoflows]) -> None:
        order, sender = request.message, self._server.sender(request)
        self._ledger.resume(order.coflows, map(_spec, order.flows))
        for flow in order.flows:
            self._owners.opened(flow.flow, sender)

    def _attach(self, request: Request[AttachFlow]) -> None:
        order = request.message
        self._ledger.attach(
            order.flow, request.peer, again=order.again, sent_bytes=order.sent_bytes
        )

    def _close(self, request: Request[CloseFlow]) -> None:
        flow = request.message.flow
        self._owners.check(flow, self._server.sender(request))
        self._ledger.close(flow)

    def _set_capacity(self, request: Request[SetCapacity]) -> None:
        order = request.message
        given, before = self._given, self._fabric.capacities_bytes_per_s()
        self._ledger.set_capacity(order.link, order.bytes_per_s)
        self._given = {**given, order.link: order.bytes_per_s}
        if error := self._write():
            self._given = given
            self._ledger.set_capacity(order.link, before[order.link])
            raise PeerUnable(f"{order.link} stays as it was: it would be forgotten: {error}")
        log.info("%s now carries %s", order.link, format_rate(order.bytes_per_s))

    def _current(self) -> Fabric:
        self._catch_up()
        return self._fabric

    # What is kept ------------------------------------------------------------------------------
    def _go_on_with(self, before: State) -> None:
        """Be as the emulator was that has kept this, but for its flows and circuits."""
        self._ledger.advance(self._now_s())
        for link, bytes_per_s in before.capacities.items():
            try:
                self._ledger.set_capacity(link, bytes_per_s)
            except ValueError as error:
                log.error("%s", error)
            else:
                self._given[link] = bytes_per_s
        log.info("in place of an emulator that died: flows and coflows are reported anew")

    def _keep_if_busy(self) -> None:
        if self._fabric.open_flows or self._is_unkept:
            self._keep()

    def _keep(self) -> None:
        """Have the next emulator know what this one knows; it goes on if the disk is full."""
        error = self._write()
        if error and error != self._failure:
            log.warning("a restart would miss what happens from now on: %s", error)
        self._failure = error
        self._is_unkept = bool(error or self._fabric.open_flows)  # once more after the last

    def _write(self) -> str:
        """Write what is known; returns why that could not be done, "" if it was."""
        if self._file is None:
            return ""
        state = State(
            began_s=self._began_s,
            restarts=self._restarts,
            capacities=self._given,
            stats=self._counted(),
            pasts=self._ledger.pasts(),
        )
        try:
            write_state(self._file, state)
        except OSError as error:
            return cause_of(error, self._file)
        return ""

    # Time --------------------------------------------------------------------------------------
    def _now_s(self) -> float:
        return now_s() - self._began_s

    def _catch_up(self, given_s: float | None = None) -> None:
        """Bring the model up to now, and send grants once the waiting messages are handled.

        An order brings the model up to the time at which it was given (``given_s``), if that is
        earlier.  All messages that are handled before the grants are sent count as one instant, so
        that rates are computed once; but an order that was given clearly later than the last one
        counts from its own time.
        """
        now_s = self._now_s()
        at_s = now_s if given_s is None else min(now_s, given_s - self._began_s)
        if not self._sending_is_due:
            self._sending_is_due = True
            self._ledger.advance(at_s)
            self._call_at(self._fabric.now_s, self._send_grants)
        elif given_s is not None:
            close_s = max(_TOGETHER_S, (now_s - at_s) * _TOGETHER_LATE)
            if at_s > self._fabric.now_s + close_s:
                self._ledger.advance(at_s)

    def _call_at(self, due_s: float, call: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if due_s < math.inf:
            self._timer = self._reactor.call_at(self._began_s + due_s, call)

    def _send_grants(self) -> None:
        self._sending_is_due = False
        self._ledger.advance(self._now_s())
        for peer, grants in self._ledger.take_grants().items():
            if not self._server.push(peer, grants):
                self._ledger.peer_gone(peer)
        due_s, ready_s = self._ledger.next_due_s(), self._ledger.next_ready_s()
        if due_s < ready_s:
            self._call_at(due_s, self._send_grants)
        else:
            self._call_at(ready_s - _AHEAD_S, partial(self._compute_ahead, ready_s))

    def _compute_ahead(self, ready_s: float) -> None:
        """Compute the rates from when a circuit is ready on; orders until then count from then."""
        self._ledger.advance(ready_s)
        self._call_at(ready_s, self._send_grants)

    def _sweep(self) -> None:
        self._catch_up()
        self._ledger.drop_forgotten()
        self._owners.forget(lambda flow: not self._fabric.is_open(flow))

    # Statistics --------------------------------------------------------------------------------
    def _sample_cpu(self) -> None:
        busy = _cpu_percent() >= _CPU_SATURATED_PERCENT
        if self._fabric.open_flows:
            self._cpu_samples += 1
            self._cpu_saturated += busy

    def _stats(self, _: object) -> NetworkStats:
        self._catch_up()
        return self._counted()

    def _counted(self) -> NetworkStats:
        ledger = self._ledger
        counted = msgspec.structs.replace(
            self._fabric.stats(ledger.opened, ledger.finished, ledger.cancelled),
            grant_lags=tuple(sorted(ledger.lags.items())),
            cpu_samples=self._cpu_samples,
            cpu_saturated=self._cpu_saturated,
        )
        return plus(self._stats_before, counted)

    def _circuit_changes(self, request: Request[GetCircuitChanges]) -> CircuitChanges:
        wanted, fabric = request.message, self._current()
        first = self._restarts * CIRCUITS_OF_ONE
        total, changes = fabric.circuit_changes(max(wanted.after - first, 0))
        sent = changes[:_CHANGES_MAX]
        left = len(changes) - len(sent)
        if first:
            sent = [change._replace(circuit=first + change.circuit) for change in sent]
        return CircuitChanges(
            now_s=fabric.now_s, changes=tuple(sent), seen=first + total - left, more=left > 0
        )


def _spec(order: OpenFlow) -> FlowSpec:
    return FlowSpec(  # not msgspec.convert, which takes five times as long to check it anew
        flow=order.flow,
        src=order.src,
        dst=order.dst,
        size_bytes=order.size_bytes,
        coflow=order.coflow,
        weight=order.weight,
        priority=order.priority,
    )


def main(daemon: Daemon) -> None:
    """Run the emulator until SIGTERM, in a process of its own."""
    if not take_priority(CLOCK):
        log.info("no permission to take priority over others: grants may be late under load")
    transport = Transport.of(daemon)
    scheduler = flow_scheduler(daemon.config.flow_scheduler)
    NetworkEmulator(transport, daemon.config.topology, scheduler, daemon.folder.network_state)
    stop_on_sigterm(transport.reactor)
    daemon.ready()
    transport.reactor.run()
    transport.close()


def _cpu_percent() -> float:
    """How busy all CPUs were since the last call."""
    import psutil  # not above: the other daemons are forked of the same parent, without it

    return psutil.cpu_percent()
