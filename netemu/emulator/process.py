"""The network emulator's process: drives the fabric with real time and sends the grants.

A late grant makes a transfer late.  So the emulator has priority over all other processes where the
system permits it (``cluster.processes.priority``).  Elsewhere grants are late while all cores are
busy; the statistics say by how much.  A shuffle of 250 flows takes a fifth of a core.

An emulator in place of one that died goes on with what that has kept in a file
(``netemu.emulator.statefile``), and with the flows that their senders tell it.

Nothing is decided here: the flow scheduler sets rates, the ledger makes grants.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from functools import partial
from typing import TypeVar, cast

import msgspec

from railyard.cluster.config import Daemon
from railyard.cluster.errors import PeerError, PeerUnable
from railyard.cluster.files.resources import cause_of
from railyard.cluster.messaging.access.roles import CLIENT, NODE_MANAGER, RESOURCE_MANAGER
from railyard.cluster.messaging.reactor import Timer, now_s
from railyard.cluster.messaging.transport import Request, Transport
from railyard.cluster.messaging.wire import Done, Message
from railyard.cluster.processes.family import stop_on_sigterm
from railyard.cluster.processes.priority import CLOCK, take_priority
from railyard.cluster.topology import Topology
from railyard.cluster.units import format_rate
from railyard.netemu.emulator.grants import Ledger
from railyard.netemu.emulator.owners import Owners
from railyard.netemu.emulator.publisher import Publisher
from railyard.netemu.emulator.statefile import State, StateFile, counted_before
from railyard.netemu.emulator.statistics import plus
from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.messages import (
    AttachFlow,
    CircuitChanges,
    CloseFlow,
    FinishCoflow,
    GetCircuitChanges,
    GetNetworkStats,
    GrowFlow,
    NetworkStats,
    OpenFlow,
    RegisterCoflow,
    ResumeCoflows,
    SetCapacity,
)
from railyard.netemu.model.circuits import CIRCUITS_OF_ONE
from railyard.netemu.model.flows import FlowSpec
from railyard.netemu.schedulers import flow_scheduler
from railyard.netemu.schedulers.base import FlowScheduler

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


class NetworkEmulator:
    """Serves the name "network".

    With a ``file``, it goes on with what an earlier one has written there.
    """

    def __init__(
        self,
        transport: Transport,
        topology: Topology,
        scheduler: FlowScheduler,
        file: StateFile | None = None,
    ) -> None:
        self._reactor = transport.reactor
        self._file = file
        began_s = now_s()
        before = None if file is None else file.read(began_s)
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
        self._on(GrowFlow, self._grow)
        self._on(CloseFlow, self._close)
        self._on(AttachFlow, self._attach, (NODE_MANAGER,))
        only = (RESOURCE_MANAGER,)
        self._on(RegisterCoflow, lambda order, _: ledger.register_coflow(order.coflow), only)
        self._on(FinishCoflow, lambda order, _: ledger.finish_coflow(order.coflow), only)
        self._on(ResumeCoflows, self._resume, only)
        self._on(SetCapacity, lambda order, _: self._set_capacity(order), (CLIENT,))
        self._server.on(GetNetworkStats, self._stats)
        self._server.on(GetCircuitChanges, self._circuit_changes)
        self._publisher = Publisher(self._server, self._reactor, self._look)
        _cpu_percent()  # the first call only begins to measure
        self._reactor.call_every(_CPU_SAMPLE_S, self._sample_cpu)
        self._reactor.call_every(_SWEEP_S, self._sweep)
        self._failure = ""  #: why the file can't be written
        if file is not None:
            self._keep()
            self._reactor.call_every(_KEEP_PERIOD_S, self._keep_if_busy)

    # Orders ------------------------------------------------------------------------------------
    def _on(
        self, kind: type[M], act: Callable[[M, Request], None], only: tuple[str, ...] = ()
    ) -> None:
        """Carry out orders of this class by ``act(order, request)``.

        A ``ValueError`` refuses the order.  With ``only``, other roles are refused.
        """

        def handle(request: Request) -> Message | None:
            self._catch_up(getattr(request.message, "given_s", None))
            try:
                act(cast("M", request.message), request)
            except ValueError as error:
                raise PeerError(str(error)) from None
            return Done() if request.number else None

        self._server.on(kind, handle, only)

    def _open(self, order: OpenFlow, request: Request) -> None:
        sender = self._server.sender(request)
        self._owners.check_open(order, sender)
        peer = request.peer if order.attach else None
        self._ledger.open(_spec(order), peer, again=order.again, sent_bytes=order.sent_bytes)
        self._owners.opened(order.flow, sender)

    def _resume(self, order: ResumeCoflows, request: Request) -> None:
        sender = self._server.sender(request)
        self._ledger.resume(order.coflows, map(_spec, order.flows))
        for flow in order.flows:
            self._owners.opened(flow.flow, sender)

    def _attach(self, order: AttachFlow, request: Request) -> None:
        self._ledger.attach(
            order.flow, request.peer, again=order.again, sent_bytes=order.sent_bytes
        )

    def _close(self, order: CloseFlow, request: Request) -> None:
        self._owners.check(order.flow, self._server.sender(request))
        self._ledger.close(order.flow)

    def _grow(self, order: GrowFlow, request: Request) -> None:
        self._owners.check(order.flow, self._server.sender(request))
        self._ledger.grow(order.flow, order.by_bytes, order.more)

    def _set_capacity(self, order: SetCapacity) -> None:
        given, before = self._given, self._fabric.capacities_bytes_per_s()
        self._ledger.set_capacity(order.link, order.bytes_per_s)
        self._given = {**given, order.link: order.bytes_per_s}
        if error := self._write():
            self._given = given
            self._ledger.set_capacity(order.link, before[order.link])
            raise PeerUnable(f"{order.link} stays as it was: it would be forgotten: {error}")
        log.info("%s now carries %s", order.link, format_rate(order.bytes_per_s))

    def _look(self) -> Fabric:
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
        log.info("in place of an emulator that died: flows and coflows are told anew")

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
            self._file.write(state)
        except OSError as error:
            return cause_of(error, self._file.path)
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
            self._send_grants_at(self._fabric.now_s)
        elif given_s is not None:
            close_s = max(_TOGETHER_S, (now_s - at_s) * _TOGETHER_LATE)
            if at_s > self._fabric.now_s + close_s:
                self._ledger.advance(at_s)

    def _call_at(self, due_s: float, call: Callable[[], None]) -> None:
        """Have this called then, in place of what the timer was set to."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if due_s < math.inf:
            self._timer = self._reactor.call_at(self._began_s + due_s, call)

    def _send_grants_at(self, due_s: float) -> None:
        self._call_at(due_s, self._send_grants)

    def _send_grants(self) -> None:
        """Send the grants that are due, and set the timer for the next ones."""
        self._sending_is_due = False
        self._ledger.advance(self._now_s())
        for peer, grants in self._ledger.take_grants().items():
            if not self._server.push(peer, grants):
                self._ledger.peer_gone(peer)
        due_s, ready_s = self._ledger.next_due_s(), self._ledger.next_ready_s()
        if due_s < ready_s:
            self._send_grants_at(due_s)
        else:
            self._call_at(ready_s - _AHEAD_S, partial(self._compute_ahead, ready_s))

    def _compute_ahead(self, ready_s: float) -> None:
        """Compute now which rates there will be once a circuit is ready, and only send grants then.

        Orders that arrive in between count from that time.
        """
        self._ledger.advance(ready_s)
        self._send_grants_at(ready_s)

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

    def _stats(self, _: Request) -> NetworkStats:
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

    def _circuit_changes(self, request: Request) -> CircuitChanges:
        wanted, fabric = cast("GetCircuitChanges", request.message), self._look()
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
    return FlowSpec(
        flow=order.flow,
        src=order.src,
        dst=order.dst,
        size_bytes=order.size_bytes,
        coflow=order.coflow,
        weight=order.weight,
        priority=order.priority,
        more=order.more,
    )


def main(daemon: Daemon) -> None:
    """Run the emulator until SIGTERM, in a process of its own."""
    if not take_priority(CLOCK):
        log.info("no permission to take priority over others: grants may be late under load")
    transport = Transport.of(daemon)
    scheduler = flow_scheduler(daemon.config.flow_scheduler)
    file = StateFile(daemon.folder.network_state)
    NetworkEmulator(transport, daemon.config.topology, scheduler, file)
    stop_on_sigterm(transport.reactor)
    daemon.ready()
    transport.reactor.run()
    transport.close()


def _cpu_percent() -> float:
    """How busy all CPUs were since the last call."""
    import psutil  # not above: the other daemons are forked of the same parent, without it

    return psutil.cpu_percent()
