"""Daemons that die or are stopped: how, as data, and what becomes of messages to them meanwhile.

Not here: when that happens to which (``simulation``), and faults of nodes, disks and links
(``railyard.simulator.faults``).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from railyard.cluster.faults import Fault
from railyard.cluster.ids import rack_of
from railyard.netemu.model.flows import FlowSpec


class DaemonFault(Fault, frozen=True, kw_only=True):
    """A fault of the daemon ``target``.

    It may begin while bytes move: ``lag_s`` after so many more ``flows`` have started, from
    ``at_s`` on, of which the daemon holds an end; any, for the network.  It waits a second at most.
    """

    flows: int = 0
    lag_s: float = 0.0


class DaemonDown(DaemonFault, frozen=True, kw_only=True):
    """A daemon dies, and its successor runs ``lasts_s`` later.

    The ResourceManager dies at an event, the NameNode at a request: the n-th from ``at_s`` on.
    """

    kind: str = "daemon-down"
    after: int = 0  #: events or requests that are handled before
    #: so many of the last event's commands go out; with none, the event may be lost, too.  Of a
    #: NameNode: whether the last request is done, and only its answer is missing
    sent: int = 0
    to_network: int | None = None  #: of these commands, those among so many for it; None: ``sent``
    #: events that led to nothing are not journaled at once: so many of the last are in no journal;
    #: of a NodeManager, map outputs of each node that are damaged
    lost: int = 0
    again: int = 0  #: so many of the last that are journaled are sent again, if they are facts
    rejoin_s: float = 0.0  #: the n-th rack's NodeManager is back n times so much later


class DaemonStopped(DaemonFault, frozen=True, kw_only=True):
    """A daemon does nothing for a while.  One of a rack goes on before it counts as lost."""

    kind: str = "daemon-stopped"
    #: whether the network, when it goes on, takes orders before it looks at its clock
    orders_first: bool = False


class Mailbox:
    """Messages to a daemon from when it is stopped until it goes on, or dies instead.

    It receives them, in order, when it goes on.
    """

    def __init__(self) -> None:
        #: calls that carry out its orders, and when these were given, in seconds, if that matters
        self.orders: list[tuple[Callable[[], object], float]] = []
        self._waiting: list[Callable[[], object]] = []

    def put(self, order: Callable[[], object], given_s: float = math.inf) -> None:
        """Deliver this when it goes on; never, if it dies."""
        self.orders.append((order, given_s))

    def when_over(self, call: Callable[[], object]) -> None:
        """Have this called once it has received all its orders, or has died."""
        self._waiting.append(call)

    def go_on(self) -> None:
        """It goes on."""
        for order, _ in self.orders:
            order()
        self.die()

    def die(self) -> None:
        """It dies: its messages are lost, and those who wait for it know."""
        for call in self._waiting:
            call()


# Ends of flows ------------------------------------------------------------------------------------
# The name of a flow shows what it is for:
#
#     j1.r0.0:r0n1:2   a fetch: the NodeManager of its source sends, an attempt receives
#     read-3           a block: the DataNode of its source sends, an attempt receives
#     write-3          a block: an attempt sends, the first DataNode of the pipeline receives
#     copy-3           a block: one DataNode sends, another receives
#: Begin of the names of daemons of which each rack has one.
NODE_MANAGER, DATA_NODE = "nodemanager-", "datanode-"
#: Part of the name of each fetch and of no other flow.
_OF_FETCHES = ":"
_READ, _WRITE = "read-", "write-"


def sender_of(spec: FlowSpec) -> str:
    """The process that sends a flow, and registers it with the network.

    It is a daemon, or an attempt that writes: that has the name of its only flow.
    """
    if _OF_FETCHES in spec.flow:
        return NODE_MANAGER + rack_of(spec.src)
    return spec.flow if spec.flow.startswith(_WRITE) else DATA_NODE + rack_of(spec.src)


def daemons_of(spec: FlowSpec) -> tuple[str, ...]:
    """The daemons that hold an end of a flow; an attempt reads its own node's disk by itself."""
    if _OF_FETCHES in spec.flow:
        return () if spec.src == spec.dst else (sender_of(spec),)
    if spec.flow.startswith(_READ):
        return (sender_of(spec),)
    receiver = DATA_NODE + rack_of(spec.dst)
    return (receiver,) if spec.flow.startswith(_WRITE) else (sender_of(spec), receiver)


def is_fetch(spec: FlowSpec) -> bool:
    """Whether a flow is one of a job's: the ResourceManager opens it."""
    return _OF_FETCHES in spec.flow
