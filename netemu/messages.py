"""What is said to the network emulator, and what bulk transfers say to one another.

To the emulator, all bytes are the model's.  Between the two ends of a transfer they are stored
(real) bytes, and their fields say so.

    ResourceManager --coflows, OpenFlow, CloseFlow--> emulator
    anybody --SetCapacity--> emulator;  anybody --WatchNetwork--> emulator --NetworkView--> ...
    anybody --GetNetworkStats, GetCircuitChanges--> emulator
    sender --OpenFlow(attach=True) or AttachFlow--> emulator --Grants--> sender
    sender --GrowFlow--> emulator, if its flow was opened with more=True
    sender --Chunk + payload--> receiver --ChunkTaken--> sender     (not through the emulator)
"""

from __future__ import annotations

import math
from typing import Annotated

import msgspec

from cluster.ids import CoflowId, FlowId, NodeId, RackId
from cluster.wire import Command, Event, Message
from netemu.circuitlog import CircuitChange

Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Weight = Annotated[float, msgspec.Meta(gt=0, le=1e9)]
BytesPerS = Annotated[float, msgspec.Meta(ge=0)]
Rank = Annotated[float, msgspec.Meta(ge=-1e18, le=1e18)]
#: Flow schedulers that go by priority serve the smaller first, compared item by item; none first.
Priority = Annotated[tuple[Rank, ...], msgspec.Meta(max_length=8)]


# To the emulator ---------------------------------------------------------------------------------
class RegisterCoflow(Command, frozen=True, kw_only=True):
    """Flows of this coflow will follow."""

    coflow: CoflowId


class FinishCoflow(Command, frozen=True, kw_only=True):
    """No more flows of this coflow will follow; those still open are closed."""

    coflow: CoflowId


class OpenFlow(Command, frozen=True, kw_only=True):
    """Let a flow compete for bandwidth; answered with ``Done``.

    It does so from when the order was given, ``given_s`` on the machine's monotonic clock, unless
    the network's time has gone on since: what the order took to come doesn't count then.

    With ``attach``, whoever opens it also sends its bytes, and gets its grants.
    """

    flow: FlowId
    src: NodeId
    dst: NodeId
    size_bytes: Count
    coflow: CoflowId | None = None
    weight: Weight = 1.0
    priority: Priority = ()
    more: bool = False  #: ``GrowFlow`` will follow; it does not finish before that says so
    attach: bool = False
    #: asked before, over a connection that broke: fine if it is open; with ``attach``, its sender
    #: is here now
    again: bool = False
    given_s: float = math.inf  #: by default when it comes


class GrowFlow(Command, frozen=True, kw_only=True):
    """An open flow with ``more`` to come has so much more to send; answered with ``Done``.

    The last one says that there is no ``more``; its ``by_bytes`` may be 0.
    """

    flow: FlowId
    by_bytes: Count
    more: bool


class AttachFlow(Command, frozen=True, kw_only=True):
    """Give me the grants of a flow that another opened, or will open; answered with ``Done``.

    The flow's clock runs from when it was opened: who attaches late gets at once what the flow
    could have sent by then.
    """

    flow: FlowId
    again: bool = False  #: it was attached to over a connection that broke


class CloseFlow(Command, frozen=True, kw_only=True):
    """Forget a flow, whether it finished or not.  Fine if there is none of that name."""

    flow: FlowId


class SetCapacity(Command, frozen=True, kw_only=True):
    """Give a link, such as "r3.up", another capacity from now on; answered with ``Done``."""

    link: str
    bytes_per_s: BytesPerS  #: 0 stops it, inf is no limit


class WatchNetwork(Message, frozen=True, kw_only=True):
    """Tell me how the network is: at once, as the answer, and again when that has changed.

    Asking again changes what is told; who hangs up is told no more.
    """

    #: a change is told within this time, and changes within it are told at once
    period_s: Annotated[float, msgspec.Meta(ge=0.05, le=3600)] = 1.0
    with_rates: bool = False  #: also the rate of every flow


class GetNetworkStats(Message, frozen=True, kw_only=True):
    """What has the network done so far?  Answered with ``NetworkStats``."""


class NetworkStats(Message, frozen=True, kw_only=True):
    """Counters since the emulator's start; ``netemu.statistics`` makes figures of them."""

    active_s: float  #: time during which a flow was open
    #: what the racks' links could have carried in that time; inf if one of them is unlimited
    cross_rack_room_bytes: float
    #: model bytes carried so far: "local", "rack", "cross_rack" and, of the last, by which way:
    #: "eps", "ocs", "wan"
    bytes: dict[str, int]
    cross_rack_links: dict[str, int]  #: model bytes that each rack's up- and downlink carried
    ports: dict[str, int] = {}  #: the same of optical ports
    #: pairs of a lateness, in 0.1 ms rounded up, and how many grants were that late
    grant_lags: tuple[tuple[int, int], ...]
    cpu_samples: int  #: how often the CPU was looked at, with a flow open
    cpu_saturated: int  #: how often it was (nearly) fully used then
    flows_opened: int
    flows_finished: int
    flows_cancelled: int
    flows_open: int  #: of these, still sending


class GetCircuitChanges(Message, frozen=True, kw_only=True):
    """What has become of circuits lately?  Answered with ``CircuitChanges``."""

    after: Count  #: all but the first so many; ``NO_CHANGES``: only how many there were


#: More changes than there will ever be.
NO_CHANGES = 2**62


class CircuitChanges(Message, frozen=True, kw_only=True):
    """Changes, the oldest first; a thousand or so at a time."""

    now_s: float  #: on the network's own clock, as the changes' times are
    changes: tuple[CircuitChange, ...]
    seen: Count  #: ask for those after this next
    more: bool  #: there are some already


# From the emulator -------------------------------------------------------------------------------
class Grants(Event, frozen=True, kw_only=True):
    """How much of each flow may have been sent in all by now."""

    total_bytes: dict[FlowId, int]  #: flows under way
    finished: tuple[FlowId, ...] = ()  #: flows of which everything may be sent; told once


class LinkState(msgspec.Struct, frozen=True, kw_only=True):
    """A link now."""

    capacity_bytes_per_s: float
    free_bytes_per_s: float  #: what of it no flow uses


class CircuitView(msgspec.Struct, frozen=True, kw_only=True):
    """A circuit of the optical switch."""

    src: RackId
    dst: RackId
    coflow: str | None  #: who uses it; None: nobody at present
    ready_s: float  #: on the network's own clock: dark until then, lit since


class NetworkView(Event, frozen=True, kw_only=True):
    """How the network is now."""

    now_s: float  #: on the network's own clock
    links: dict[str, LinkState]
    flows_open: int
    circuits: tuple[CircuitView, ...] = ()
    #: bytes/s of each open flow, inf where nothing limits it; None if not asked for
    rates_bytes_per_s: dict[FlowId, float] | None = None


# Between the two ends of a transfer --------------------------------------------------------------
class Chunk(Message, frozen=True, kw_only=True):
    """The bytes in the payload frame belong at ``stored_offset`` of the transfer."""

    transfer: str
    stored_offset: Count
    stored_total: Count  #: length of the whole transfer


class ChunkTaken(Message, frozen=True, kw_only=True):
    """The receiver took over this many bytes in all; all of them: the transfer is done."""

    transfer: str
    stored_bytes: Count


class TransferFailed(Message, frozen=True, kw_only=True):
    """One end gave the transfer up; the other forgets it too."""

    transfer: str
    reason: str
