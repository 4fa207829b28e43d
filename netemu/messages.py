"""Messages to and from the network emulator, and between the two ends of bulk transfers.

To the emulator, all bytes are the model's.  Between the two ends of a transfer they are stored
(real) bytes, and their fields say so.

    ResourceManager --coflows, OpenFlow, CloseFlow--> emulator
    anybody --SetCapacity--> emulator;  anybody --WatchNetwork--> emulator --NetworkView--> ...
    ResourceManager --WatchLinks--> emulator --LinksObserved--> ...
    anybody --GetNetworkStats, GetCircuitChanges--> emulator
    sender --OpenFlow(attach=True) or AttachFlow--> emulator --Grants--> sender
    both again, with what they were granted so far, once the connection was broken
    ResourceManager --ResumeCoflows--> emulator, whenever it has connected again
    sender --Chunk + payload--> receiver --ChunkTaken--> sender     (not through the emulator)
"""

from __future__ import annotations

import math
from typing import Annotated

import msgspec

from railyard.cluster.messaging.wire import (
    BytesOrInf,
    BytesPerSOrInf,
    CoflowId,
    Command,
    Count,
    Entries,
    EntriesBy,
    Event,
    FlowId,
    LongAnswer,
    LongMessage,
    Message,
    ModelBytes,
    Name,
    NodeId,
    Number,
    Priority,
    Seconds,
    SecondsOrInf,
    Share,
    StoredBytes,
    Text,
    Weight,
)
from railyard.netemu.model.flows import CircuitChange, CircuitState
from railyard.netemu.model.network import LinkState

#: More changes than there will ever be.
NO_CHANGES = 2**62
Totals = EntriesBy[Name, Number]


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
    size_bytes: ModelBytes
    coflow: CoflowId | None = None
    weight: Weight = 1.0
    priority: Priority = ()
    attach: bool = False
    #: asked before, over a connection that broke: fine if it is open; with ``attach``, its sender
    #: is here now
    again: bool = False
    #: what its sender was granted over that connection: where it is not open, it goes on from there
    sent_bytes: ModelBytes = 0
    given_s: SecondsOrInf = math.inf  #: by default when it comes


class ResumeCoflows(Command, LongMessage, frozen=True, kw_only=True):
    """The coflows of all jobs, after a restart of either side; answered with ``Done``.

    Whatever else there is of jobs is over.  Of ``flows``, some may be open, some may be over, and
    some may not have been opened, or not by this emulator: these are opened once their senders
    attach.
    """

    coflows: Entries[CoflowId]
    flows: Entries[OpenFlow]  #: each of one of these coflows


class AttachFlow(Command, frozen=True, kw_only=True):
    """Give me the grants of a flow that another opened, or will open; answered with ``Done``.

    The flow's clock runs from when it was opened: who attaches late gets at once what the flow
    could have sent by then.
    """

    flow: FlowId
    again: bool = False  #: it was attached to over a connection that broke
    sent_bytes: ModelBytes = 0  #: what was granted over that; see ``OpenFlow``


class CloseFlow(Command, frozen=True, kw_only=True):
    """Forget a flow, whether it finished or not.  Fine if there is none of that name."""

    flow: FlowId


class SetCapacity(Command, frozen=True, kw_only=True):
    """Give a link, such as "r3.up", another capacity from now on; answered with ``Done``."""

    link: Name
    bytes_per_s: BytesPerSOrInf  #: 0 stops it, inf is no limit


class WatchNetwork(Message, frozen=True, kw_only=True):
    """Report how the network is: at once, as the answer, and again when that has changed.

    Asking again changes what is reported; reports end when the asker hangs up.
    """

    #: a change is reported within this time, together with others within it
    period_s: Annotated[float, msgspec.Meta(ge=0.05, le=3600)] = 1.0
    with_rates: bool = False  #: also the rate of every flow


class WatchLinks(Message, frozen=True, kw_only=True):
    """Report the links between racks: all at once, as the answer, then those that have changed.

    Both are ``LinksObserved``; ``netemu.model.network`` has what counts as a change.  Reports end
    when the asker hangs up.
    """

    #: the links are looked at once in this time
    period_s: Annotated[float, msgspec.Meta(ge=0.05, le=3600)] = 1.0
    change: Share = 0.05  #: of a link's capacity, by which what is free of it has to change


class GetNetworkStats(Message, frozen=True, kw_only=True):
    """What has the network done so far?  Answered with ``NetworkStats``."""


class NetworkStats(LongMessage, frozen=True, kw_only=True):
    """Counters since the cluster's start, but for the last second of an emulator that died."""

    active_s: Seconds  #: time during which a flow was open
    #: what the racks' links could have carried in that time; inf if one of them is unlimited
    cross_rack_room_bytes: BytesOrInf
    #: model bytes carried so far: "local", "rack", "cross_rack" and, of the last, by which way:
    #: "eps", "ocs", "wan"; "client": from and to clients that have a link
    bytes: Totals
    cross_rack_links: Totals  #: the same, by each rack's up- and downlink
    ports: Totals = {}  #: the same of optical ports
    #: of links that carry more or less than the topology says: what they carry now, in bytes/s
    capacities: EntriesBy[Name, BytesPerSOrInf] = {}
    #: pairs of a lateness, in 0.1 ms rounded up (from 10 ms on to two digits), and how many grants
    #: were that late
    grant_lags: Entries[tuple[Count, Count]]
    cpu_samples: Count  #: how often the CPU was looked at, with a flow open
    cpu_saturated: Count  #: how often it was (nearly) fully used then
    flows_opened: Count
    flows_finished: Count
    flows_cancelled: Count
    flows_open: Count  #: of these, still sending


class GetCircuitChanges(Message, frozen=True, kw_only=True):
    """What has become of circuits lately?  Answered with ``CircuitChanges``."""

    after: Number  #: all but the first so many; ``NO_CHANGES``: only how many there were


class CircuitChanges(LongMessage, frozen=True, kw_only=True):
    """Changes, the oldest first; a thousand or so at a time."""

    now_s: Seconds  #: on the network's own clock, as the changes' times are
    changes: Entries[CircuitChange]
    seen: Count  #: ask for those after this next
    more: bool  #: there are some already


# From the emulator -------------------------------------------------------------------------------
class Grants(Event, LongMessage, frozen=True, kw_only=True):
    """How much of each flow may have been sent in all by now."""

    total_bytes: EntriesBy[FlowId, Number]  #: flows under way
    finished: Entries[FlowId] = ()  #: flows that may send all their bytes; reported once


class LinksObserved(Event, LongMessage, frozen=True, kw_only=True):
    """Links between racks that have changed since they were observed last, as they are now."""

    links: EntriesBy[Name, LinkState]


class NetworkView(Event, LongAnswer, frozen=True, kw_only=True):
    """How the network is now."""

    now_s: Seconds  #: on the network's own clock
    links: EntriesBy[Name, LinkState]
    flows_open: Count
    circuits: Entries[CircuitState] = ()
    #: bytes/s of each open flow, inf where nothing limits it; None if not asked for
    rates_bytes_per_s: EntriesBy[FlowId, BytesPerSOrInf] | None = None


# Between the two ends of a transfer --------------------------------------------------------------
class Chunk(Message, frozen=True, kw_only=True):
    """The bytes in the payload frame belong at ``stored_offset`` of the transfer."""

    transfer: Name
    stored_offset: StoredBytes
    stored_total: StoredBytes  #: length of the whole transfer


class ChunkTaken(Message, frozen=True, kw_only=True):
    """The receiver took over this many bytes in all; all of them: the transfer is done."""

    transfer: Name
    stored_bytes: StoredBytes


class TransferFailed(Message, frozen=True, kw_only=True):
    """One end gave the transfer up; the other forgets it too."""

    transfer: Name
    reason: Text
