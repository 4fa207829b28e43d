"""A simulated block store whose NameNode may die or be stopped, and whose DataNodes may be stopped.

A DataNode is stopped for less than what counts as lost: it receives messages late,
and reports late.  Its disks are there: who is on the same node reads them
without it.

Not here: when that happens; see ``simulation``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial

import msgspec

from railyard.cluster.errors import PeerError
from railyard.cluster.ids import FlowId, NodeId, RackId, rack_of
from railyard.cluster.messaging.wire import Command, Message, Refusal
from railyard.cluster.topology import Topology
from railyard.dfs.messages import MoveReplica, OnceOnly, RegisterAgain, ReplicateBlock
from railyard.dfs.namenode.core import NameNode
from railyard.oracles.faults.daemons import DaemonDown, DaemonStopped, Mailbox
from railyard.oracles.faults.memoryjournal import MemoryJournal
from railyard.simulator.blockstore import BlockStore, FileWrite, OnMoved
from railyard.simulator.clock import EventHeap
from railyard.simulator.network import SimulatedNetwork


class FaultyBlockStore(BlockStore):
    """Files and replicas.  All sizes are in the model's bytes."""

    def __init__(
        self, topology: Topology, seed: int, heap: EventHeap, network: SimulatedNetwork
    ) -> None:
        self.is_down = False  #: whether there is no NameNode just now
        self.stopped: dict[RackId, Mailbox] = {}  #: {rack: of its DataNode}
        self._is_stopped = False
        self._crash: DaemonDown | None = None  #: the next of the NameNode
        self._mail = Mailbox()  #: requests for when there is one again
        #: racks whose DataNode was stopped, and may have to register again because of that
        self._expired: set[RackId] = set()
        self._seed = seed
        self._journal = MemoryJournal()
        super().__init__(topology, seed, heap, network, self._journal)

    # Messages to a NameNode that is down, or to a DataNode that is stopped -----------------------
    def register(self, rack: RackId) -> None:
        """Register a rack's DataNode, now or when it goes on."""
        if rack in self.stopped:
            self.stopped[rack].put(partial(self.register, rack))
        else:
            super().register(rack)

    def send_heartbeat(self, rack: RackId) -> None:
        """Send a rack's heartbeat; one that is stopped sends the next when it goes on."""
        if rack not in self.stopped:
            super().send_heartbeat(rack)

    def ask(self, message: Message, then: Callable[[Message | Refusal | None], None]) -> None:
        """Ask the NameNode, now or once there is one; what is to be done once has a token."""
        if isinstance(message, OnceOnly) and not message.token:
            self._names += 1
            message = msgspec.structs.replace(message, token=f"request-{self._names}")
        if self.is_down:
            self.when_back(partial(self.ask, message, then))
            return
        if (crash := self._dies()) is None:
            super().ask(message, then)
            return
        if crash.sent:  # done, but not answered
            with contextlib.suppress(PeerError):
                self.namenode.handle(message, self.heap.now_s)
        if not isinstance(message, MoveReplica):  # moves are requested again in any case
            self.when_back(partial(self.ask, message, then))
        self.is_down = True
        self.heap.after(crash.lasts_s, self._restart)

    def when_back(self, call: Callable[[], None]) -> None:
        """Have this called once there is a NameNode again."""
        self._mail.put(call)

    def send(self, message: Message) -> Message | None:
        """Send the NameNode a message.

        Reports of DataNodes and readers to one that is dead are lost: they register with its
        successor.  One that is stopped receives them later.
        """
        if not self.is_down:
            return super().send(message)
        if self._is_stopped:
            self.when_back(partial(self._receive, message))
        return None

    def _receive(self, message: Message) -> None:
        """It goes on, and receives what was sent meanwhile; if it died of that, it does not."""
        if not self.is_down:
            with contextlib.suppress(PeerError):
                self.send(message)

    def _carry_out(self, rack: RackId, command: Command) -> None:
        if rack in self.stopped:
            self.stopped[rack].put(partial(self._carry_out_now, rack, command))
        else:
            self._carry_out_now(rack, command)

    def _carry_out_now(self, rack: RackId, command: Command) -> None:
        if isinstance(command, RegisterAgain) and rack in self._expired:
            self._expired.discard(rack)
            self.register(rack)
        super()._carry_out(rack, command)

    def move(self, wanted: MoveReplica, on_end: OnMoved) -> None:
        """Move a block, now or once there is a NameNode."""
        if self.is_down:
            self.when_back(partial(self.move, wanted, on_end))
        else:
            super().move(wanted, on_end)

    def _replicated(self, command: ReplicateBlock, rest_bytes: int, reason: str) -> None:
        stopped = self.stopped_at(command.source)
        if stopped is None:
            super()._replicated(command, rest_bytes, reason)
        else:  # it notices when it goes on
            stopped.put(partial(self._replicated, command, 0, reason))

    # DataNodes that are stopped -------------------------------------------------------------------
    def stop_datanode(self, rack: RackId) -> None:
        """The DataNode of a rack is stopped, just after a heartbeat."""
        self.send_heartbeat(rack)
        self._expired.add(rack)
        self.stopped[rack] = Mailbox()

    def datanode_goes_on(self, rack: RackId) -> None:
        """It receives what was sent to it, and reports what has happened."""
        mail = self.stopped.pop(rack)
        mail.put(partial(self.send_heartbeat, rack))
        mail.go_on()

    def datanode_lost(self, rack: RackId) -> None:
        """It has died."""
        self.stopped.pop(rack, Mailbox()).die()

    def stopped_at(self, node: NodeId) -> Mailbox | None:
        """Of the DataNode of a node, if it is stopped."""
        return self.stopped.get(rack_of(node)) if self.stopped else None

    # How the NameNode dies ------------------------------------------------------------------------
    def die(self, crash: DaemonDown) -> None:
        """Have the NameNode die at a request to come, unless it is about to, or is dead."""
        if self._crash is None and not self.is_down:
            self._crash = crash

    def stop(self, fault: DaemonStopped) -> None:
        """It is stopped, and goes on later with the requests of that time."""
        if not self.is_down:
            self.is_down = self._is_stopped = True
            self.heap.after(fault.lasts_s, self._go_on)

    def _dies(self) -> DaemonDown | None:
        crash = self._crash
        if crash is not None and crash.after:
            self._crash = msgspec.structs.replace(crash, after=crash.after - 1)
            return None
        self._crash = None
        return crash

    def _restart(self) -> None:
        self.namenode = NameNode(self._topology, self._journal, self.heap.now_s, self._seed)
        moving, self._moving = self._moving, {}
        self.is_down = False
        for rack in self._racks:
            self.register(rack)
        self._go_on()
        for wanted, on_end in moving.items():
            if wanted not in self._moving:  # a restarted ResourceManager has not requested it anew
                self.move(wanted, on_end)

    def _go_on(self) -> None:
        self.is_down = self._is_stopped = False
        mail, self._mail = self._mail, Mailbox()
        mail.go_on()


class FaultyWrite(FileWrite):
    """The write of a file through DataNodes of which some may be stopped."""

    _store: FaultyBlockStore

    def _start(self, hops: dict[int, FlowId]) -> None:
        """Start the flows of hops that are not given up; one that is stopped forwards later."""
        store, added = self._store, self._added
        assert added is not None
        source, nodes = self._writer, added.nodes
        for hop, flow in list(hops.items()):
            if self._hops.get(hop) != flow:
                return
            if hop:
                source = nodes[hop - 1]
                if (stopped := store.stopped_at(source)) is not None:
                    stopped.when_over(partial(self._start, hops))
                    return
            del hops[hop]
            ended = partial(self._hop_ended, hop)
            if hop and store.down and (source in store.down or nodes[hop] in store.down):
                self._hop_ended(hop, self._length, "it went down meanwhile")
                return
            store.network.carry(flow, source, nodes[hop], self._length, ended)
