"""The NodeManagers: who is registered, alive, and has which job's code."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from railyard.cluster import messages
from railyard.cluster.errors import PeerError
from railyard.cluster.ids import AttemptId, JobId, NodeId, RackId, job_of, rack_of
from railyard.cluster.machine import PATIENCE, AwakeClock, is_running
from railyard.cluster.messaging.access import CLIENT, NODE_MANAGER
from railyard.cluster.messaging.reactor import now_s
from railyard.cluster.messaging.transport import Request, Server
from railyard.cluster.messaging.wire import Done, Message
from railyard.cluster.topologyfile import Liveness
from railyard.resourcemanager.driving.orders import reader_of, settle_with
from railyard.resourcemanager.process.driver import Driver
from railyard.resourcemanager.process.messages import SetSlots, SubmitJob
from railyard.resourcemanager.process.reports import MachineTime

log = logging.getLogger(__name__)


@dataclass
class _NodeManager:
    peer: bytes
    pid: int
    rack: RackId
    slots: dict[NodeId, int]  #: {node: how many slots it says that it has}
    last_message_s: float  #: when it last sent anything, on the clock of ``NodeManagers``
    late: bool = False  #: it is silent for too long, but its process runs
    usable: set[NodeId] = field(default_factory=set)  #: nodes that the core takes for alive
    loaded: set[JobId] = field(default_factory=set)
    leftovers: set[JobId] = field(default_factory=set)  #: jobs of which one before it left files
    #: attempts that were written off with their node while they may go on
    strays: list[tuple[AttemptId, NodeId]] = field(default_factory=list)
    #: its connection is broken, or it has not said yet what it has since it or this process is new:
    #: it is sent nothing, and then all that it lacks
    is_unreachable: bool = False
    facts: int = 0  #: of it, of which it does not know that they are journaled


@dataclass(eq=False)
class NodeManagers:
    """The NodeManagers, by rack."""

    _driver: Driver
    _server: Server
    _liveness: Liveness
    _machine: MachineTime
    _submitted: Mapping[JobId, SubmitJob]  #: the jobs that are not discarded yet

    def __post_init__(self) -> None:
        driver, server, liveness = self._driver, self._server, self._liveness
        self._clock = AwakeClock(now_s(), liveness.heartbeat)
        self._by_rack: dict[RackId, _NodeManager] = {}
        self.slots: dict[NodeId, int] = {}  #: of nodes, where somebody has set them
        only = (NODE_MANAGER,)
        server.on(messages.RegisterNodeManager, self._register, only)
        server.on(messages.NodeManagerHeartbeat, self._heartbeat, only)
        server.on(messages.NodeManagerHolds, self._holds, only)
        for kind in messages.FACTS:
            server.on(kind, self._fact, only)
        server.on(messages.AttemptDelayed, self._delayed, only)
        server.on(SetSlots, self._set_slots, (CLIENT,))
        driver.on(messages.LaunchAttempt, self._launch)
        driver.on(messages.BeginAttempt, lambda order: self.send(order.node, order))
        driver.on(messages.KillAttempt, lambda order: self.send(order.node, order))
        driver.reactor.call_every(liveness.heartbeat, self._expire)

    # What they say -------------------------------------------------------------------------------
    def _register(self, request: Request[messages.RegisterNodeManager]) -> Message:
        """A NodeManager is up; an earlier one of its rack is gone then."""
        message = request.message
        for node, slots in message.nodes.items():
            if slots < 1 or rack_of(node) != message.rack:
                raise PeerError(f"{node} with {slots} slots: need slots, and a node of its rack")
        self._driver.settle()  # what is still to be sent is for the earlier one
        known = self._by_rack.get(message.rack)
        goes_on = message.again and known is not None
        manager = _NodeManager(
            peer=request.peer,
            pid=message.pid,
            rack=message.rack,
            slots=dict(message.nodes),
            last_message_s=self._clock.at_s(now_s()),
            usable=known.usable if known is not None else set(),
            leftovers=set(message.jobs),
            is_unreachable=message.again,
        )
        self._by_rack[message.rack] = manager
        for node in sorted(manager.usable - set(manager.slots)):
            self._lose_node(manager, node, "its NodeManager started anew, without it")
        for node in manager.slots:
            if node not in manager.usable:
                self._join(manager, node)
            elif not goes_on:
                self._restarted(node, message.outputs.get(node, ()))
        self._discard_leftovers(manager)
        self._driver.settle()
        return Done()

    def expect(self, pids: Mapping[RackId, int]) -> None:
        """Wait for the NodeManagers of the nodes that the core takes for alive, as this is new.

        ``pids``: {rack: process id of its NodeManager}, as far as known.
        """
        for node in self._driver.core.state.nodes.values():
            if node.alive:
                manager = self._by_rack.setdefault(
                    node.rack,
                    _NodeManager(
                        peer=b"",
                        pid=pids.get(node.rack, 0),
                        rack=node.rack,
                        slots={},
                        last_message_s=self._clock.at_s(now_s()),
                        is_unreachable=True,
                    ),
                )
                manager.usable.add(node.id)
                manager.slots[node.id] = node.slots

    def _holds(self, request: Request[messages.NodeManagerHolds]) -> None:
        """A NodeManager that is registered again says what it has: it is sent what it lacks."""
        message, manager = request.message, self._sender(request)
        self._driver.settle()  # what it is not sent, as it is away, is among what it lacks
        manager.is_unreachable = False
        manager.loaded = set(message.jobs)
        differences = settle_with(self._driver.core, message)
        for order in differences.orders:
            if isinstance(order, messages.LaunchAttempt):
                self._launch(order)
                continue
            if isinstance(order, messages.DiscardJob):
                manager.loaded.discard(order.job)
            self._push(manager, order)
        for event in differences.events:
            self._driver.feed(event)
        self._discard_leftovers(manager)
        log.info("the NodeManager of %s goes on: %s", message.rack, differences.in_words)

    def _heartbeat(self, request: Request[messages.NodeManagerHeartbeat]) -> None:
        """A NodeManager is alive, and reports which of its nodes are."""
        message, manager = request.message, self._sender(request)
        if manager.is_unreachable:  # its connection holds, and yet something could not be sent
            manager.is_unreachable = False
            self._lose(manager, "an order could not be sent to its NodeManager")
        for node in sorted(manager.usable - set(message.nodes)):
            self._lose_node(manager, node, "its NodeManager can't use it any more")
        if not manager.usable:
            self._take_back(manager, message.nodes)

    def _fact(self, request: Request[messages.Fact]) -> None:
        self._check_fact(request)
        self._driver.feed(request.message)

    def _delayed(self, request: Request[messages.AttemptDelayed]) -> None:
        self._check_fact(request)
        self._machine.note(request.message)

    def _check_fact(self, request: Request[messages.Fact | messages.AttemptDelayed]) -> None:
        """Raise ``PeerError`` unless a fact is about what runs at the NodeManager that sends it."""
        message = request.message
        attempt = (
            reader_of(message.flow) if isinstance(message, messages.FlowFact) else message.attempt
        )
        known = self._driver.core.state.attempt(attempt)
        if known is None:
            manager = next((m for m in self._by_rack.values() if m.peer == request.peer), None)
        else:
            manager = self._by_rack.get(known.node.rack)
        if manager is None or manager.peer != request.peer:
            raise PeerError(f"{message.tag()} of {attempt} did not come from its NodeManager")
        self._note_message(manager)
        manager.facts += 1

    def confirm(self) -> None:
        """Send NodeManagers how many of their facts are journaled; to be called now and then."""
        reporting = [manager for manager in self._by_rack.values() if manager.facts]
        if reporting and self._driver.journal_all():
            for manager in reporting:
                count, manager.facts = manager.facts, 0
                self._server.push(manager.peer, messages.FactsJournaled(count=count))

    def _expire(self) -> None:
        """Write off the NodeManagers that were silent for too long.

        Time in which this process was held up does not count, and one whose process runs is given
        more of it: on an overloaded machine it may just not have got a CPU.
        """
        at_s, expiry_s = self._clock.at_s(now_s()), self._liveness.expiry_s
        for manager in self._by_rack.values():
            silent_s = at_s - manager.last_message_s
            if not manager.usable or silent_s <= expiry_s:
                continue
            if silent_s <= PATIENCE * expiry_s and manager.pid and is_running(manager.pid):
                if not manager.late:
                    manager.late = True
                    self._machine.silences_s.append(self._driver.now_s)
                    why = "its process runs: this machine is overloaded, or it hangs"
                    log.warning("the NodeManager of %s is silent, but %s", manager.rack, why)
            else:
                self._lose(manager, f"its NodeManager was silent for {silent_s:.1f} s")

    # What somebody sets --------------------------------------------------------------------------
    def _set_slots(self, request: Request[SetSlots]) -> Message:
        """A node has another number of slots from now on, whether it is alive or not."""
        message = request.message
        node, state = message.node, self._driver.core.state
        self.slots_of(node)  # there is such a node
        known = state.nodes.get(node)
        if known is not None and known.draining:
            raise PeerError(f"{node} is drained: activate it first")
        self.slots[node] = message.slots
        if node in state.nodes and state.nodes[node].alive:
            self._driver.feed(messages.SlotsChanged(node=node, slots=message.slots))
            self._driver.settle()
        log.info("%s has %d slots now", node, message.slots)
        return Done()

    def slots_of(self, node: NodeId) -> int:
        """How many slots a node has when it is not drained; ``PeerError`` if there is none."""
        for stated in self._driver.core.state.topology.nodes():
            if stated.id == node:
                return self.slots.get(node, stated.slots)
        raise PeerError(f"{node} is no node of this topology")

    # What they are sent --------------------------------------------------------------------------
    def _launch(self, order: messages.LaunchAttempt) -> None:
        """Launch an attempt, with the job's code if that is new there."""
        manager = self._by_rack[rack_of(order.node)]
        if manager.is_unreachable:
            return
        job = job_of(order.attempt)
        if job not in manager.loaded:
            manager.loaded.add(job)
            self._push(manager, messages.LoadJob(job=job, package=self._submitted[job].package))
        self._push(manager, order)

    def send(self, node: NodeId, message: Message) -> None:
        manager = self._by_rack.get(rack_of(node))
        if manager is not None:
            self._push(manager, message)

    def discard(self, order: messages.DiscardJob) -> None:
        """Have every NodeManager that has loaded a job forget it."""
        for manager in self._by_rack.values():
            if order.job in manager.loaded | manager.leftovers:
                manager.loaded.discard(order.job)
                manager.leftovers.discard(order.job)
                self._push(manager, order)

    def _sender(
        self, request: Request[messages.NodeManagerHolds] | Request[messages.NodeManagerHeartbeat]
    ) -> _NodeManager:
        rack = request.message.rack
        manager = self._by_rack.get(rack)
        if manager is None or manager.peer != request.peer:
            raise PeerError(f"the NodeManager of {rack} is not registered")
        self._note_message(manager)
        return manager

    def _note_message(self, manager: _NodeManager) -> None:
        manager.last_message_s, manager.late = self._clock.at_s(now_s()), False

    def _push(self, manager: _NodeManager, message: Message) -> None:
        if not manager.is_unreachable and not self._server.push(manager.peer, message):
            manager.is_unreachable = True  # until it, or one in its place, registers
            log.info("the NodeManager of %s can't be reached: it is waited for", manager.rack)

    def _restarted(self, node: NodeId, found: Sequence[AttemptId]) -> None:
        """A NodeManager was started in place of one that died, with what that one was to serve."""
        state = self._driver.core.state
        known = state.nodes[node]
        killed = len(known.attempts) + len(known.reserved)
        outputs = tuple([output for output in found if job_of(output) in state.jobs])
        log.warning(
            "the NodeManager of %s was started again: of jobs that run, %d attempts were killed"
            " with it and %d outputs of maps were found",
            *(node, killed, len(outputs)),
        )
        self._driver.feed(messages.NodeRestarted(node=node, outputs=outputs))

    def _discard_leftovers(self, manager: _NodeManager) -> None:
        """Have files removed that an earlier NodeManager has left of jobs that have ended."""
        state = self._driver.core.state
        if not manager.is_unreachable:
            for job in sorted(manager.leftovers - state.jobs.keys() - state.draining.keys()):
                manager.leftovers.remove(job)
                self._push(manager, messages.DiscardJob(job=job))

    def _join(self, manager: _NodeManager, node: NodeId) -> None:
        manager.usable.add(node)
        slots = self.slots.get(node, manager.slots[node])
        self._driver.feed(messages.NodeJoined(node=node, rack=manager.rack, slots=slots))

    def _lose(self, manager: _NodeManager, reason: str) -> None:
        for node in sorted(manager.usable):
            self._lose_node(manager, node, reason)

    def _lose_node(self, manager: _NodeManager, node: NodeId, reason: str) -> None:
        if node not in manager.usable:
            return  # lost meanwhile: what an earlier node had run could not be sent here either
        log.warning("%s is lost: %s", node, reason)
        manager.usable.remove(node)
        known = self._driver.core.state.nodes[node]
        manager.strays += [(attempt, node) for attempt in (*known.attempts, *known.reserved)]
        self._driver.feed(messages.NodeLost(node=node, reason=reason))

    def _take_back(self, manager: _NodeManager, nodes: tuple[NodeId, ...]) -> None:
        """A NodeManager that was silent for too long is back: end its attempts, use its nodes."""
        strays, manager.strays = manager.strays, []
        for attempt, node in strays:
            reason = f"{node} had been given up"
            self._push(manager, messages.KillAttempt(attempt=attempt, node=node, reason=reason))
        for node in nodes:
            if node in manager.slots:
                self._join(manager, node)
