"""What the ResourceManager and the NodeManagers (and their attempts) tell one another.

The facts are the very events that the core handles and the orders the very commands that it
returns; see docs in ``resourcemanager``.  All ``_bytes`` are the model's; fields named
``stored_`` count real bytes.  Times are seconds.

    attempt --umbilical--> NodeManager --facts--> ResourceManager
            <---fetches---             <--orders-
"""

from __future__ import annotations

from typing import Any

import msgspec

from cluster.ids import AttemptId, CoflowId, FlowId, JobId, NodeId, RackId
from cluster.wire import Command, Event, Message


# Facts about nodes -------------------------------------------------------------------------------
class NodeJoined(Event, frozen=True, kw_only=True):
    """A node's slots are there to be used."""

    node: NodeId
    rack: RackId
    slots: int


class NodeLost(Event, frozen=True, kw_only=True):
    """A node is gone with its attempts and its map output."""

    node: NodeId
    reason: str


# Facts about attempts ----------------------------------------------------------------------------
class AttemptStarted(Event, frozen=True, kw_only=True):
    """The attempt's own process runs."""

    attempt: AttemptId
    pid: int = 0


class AttemptProgressed(Event, frozen=True, kw_only=True):
    """The attempt is alive; ``progress`` is its done share, 0 to 1."""

    attempt: AttemptId
    progress: float


class AttemptSucceeded(Event, frozen=True, kw_only=True):
    """The attempt did its task; its output is complete and still uncommitted."""

    attempt: AttemptId
    input_bytes: int = 0
    #: bytes read from its own node, its own rack, other racks
    local_bytes: int = 0
    rack_bytes: int = 0
    remote_bytes: int = 0
    output_bytes: int = 0  #: written to the block store (before replication)
    #: bytes of its shuffle output for each partition; empty for a stage that nobody reads
    partition_bytes: tuple[int, ...] = ()
    counters: dict[str, int] = {}


class AttemptFailed(Event, frozen=True, kw_only=True):
    """The attempt ended without its result; ``stderr`` is the end of what it wrote there."""

    attempt: AttemptId
    reason: str
    stderr: str = ""


class AttemptKilled(Event, frozen=True, kw_only=True):
    """An attempt ended because a ``KillAttempt`` asked for it."""

    attempt: AttemptId


# Facts about the shuffle -------------------------------------------------------------------------
class FlowFinished(Event, frozen=True, kw_only=True):
    """All bytes of a fetch are at their reader."""

    flow: FlowId


class FlowFailed(Event, frozen=True, kw_only=True):
    """A fetch broke off; ``lost`` are the attempts whose output can't be read any more."""

    flow: FlowId
    reason: str
    lost: tuple[AttemptId, ...] = ()


# What an attempt works on ------------------------------------------------------------------------
class Split(msgspec.Struct, frozen=True, kw_only=True):
    """A range of a file in the block store: one map's input.  Offsets count real bytes."""

    path: str
    stored_offset: int
    stored_length: int


class JobPackage(msgspec.Struct, frozen=True, kw_only=True):
    """A job's code and parameters, as shipped: source text, never pickled objects."""

    module: str  #: importable name of a job that comes with Railyard, or "" for a shipped file
    file_name: str  #: name of the user's file, for its tracebacks; "" when ``module`` is given
    source: bytes  #: the user's file; empty when ``module`` is given
    job_class: str  #: the class in it
    #: str, int, float, bool, bytes or list[bytes]; checked against the job class's own parameters
    params: dict[str, Any]


class TaskSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What one task does, as its attempts are told."""

    stage: str  #: name of the stage within the job, such as "m"
    index: int  #: number of the task within its stage: the partition that it reads, if it shuffles
    splits: tuple[Split, ...] = ()  #: input from the block store
    reads: tuple[str, ...] = ()  #: names of the stages whose output it fetches
    inputs: int = 0  #: how many attempts' outputs it will fetch in all
    partitions: int = 0  #: how many partitions it writes for the stages that read it; 0 = none
    output_path: str = ""  #: file that it writes to the block store; "" = none
    output_replication: int = 0  #: 0 = the cluster's
    #: for each replica of that file, the racks for it; empty or missing = the store's own rule
    output_racks: tuple[tuple[RackId, ...], ...] = ()


# Orders ------------------------------------------------------------------------------------------
class LoadJob(Command, frozen=True, kw_only=True):
    """Keep a job's package; attempts of it will follow."""

    job: JobId
    package: JobPackage


class LaunchAttempt(Command, frozen=True, kw_only=True):
    """Run an attempt in a slot of ``node``."""

    attempt: AttemptId
    node: NodeId
    task: TaskSpec
    #: when its NodeManager got this, on the clock of that machine; None until then
    received_s: float | None = None


class KillAttempt(Command, frozen=True, kw_only=True):
    """End an attempt; ``AttemptKilled`` (or its own end, if that came first) will follow."""

    attempt: AttemptId
    node: NodeId
    reason: str


class StartFlow(Command, frozen=True, kw_only=True):
    """Fetch shuffle output: to the network it is a flow, to ``reader`` a fetch to make.

    ``src`` equal to ``dst`` is a read from the node's own disk and takes no bandwidth.
    """

    flow: FlowId
    coflow: CoflowId
    src: NodeId
    dst: NodeId
    size_bytes: int
    reader: AttemptId  #: the attempt at ``dst`` that fetches
    outputs: tuple[AttemptId, ...]  #: the attempts at ``src`` whose output it fetches
    partition: int
    weight: float = 1.0
    priority: tuple[float, ...] = ()  #: the smaller is served first; see ``OpenFlow``


class CancelFlow(Command, frozen=True, kw_only=True):
    """Forget a fetch: its reader or its source is gone."""

    flow: FlowId
    dst: NodeId


class DiscardJob(Command, frozen=True, kw_only=True):
    """The job ended: kill what is left of it and remove its shuffle output."""

    job: JobId


# Registration ------------------------------------------------------------------------------------
class RegisterNodeManager(Message, frozen=True, kw_only=True):
    """A NodeManager is up and serves these nodes."""

    rack: RackId
    pid: int
    nodes: dict[NodeId, int]  #: slots of each


class NodeManagerHeartbeat(Message, frozen=True, kw_only=True):
    """A NodeManager is alive."""

    rack: RackId
    nodes: tuple[NodeId, ...]  #: those still usable


# Between an attempt and its NodeManager ----------------------------------------------------------
class UmbilicalHello(Message, frozen=True, kw_only=True):
    """An attempt's first words."""

    attempt: AttemptId
    pid: int


class AttemptDue(Message, frozen=True, kw_only=True):
    """From a paced attempt: whenever it ends well, that is to be told at ``at_s`` or later.

    On the clock of their machine.
    """

    attempt: AttemptId
    at_s: float


class FetchOutput(Message, frozen=True, kw_only=True):
    """To a reader: fetch these outputs from the shuffle service of ``rack``."""

    flow: FlowId
    reader: AttemptId
    src: NodeId
    rack: RackId
    outputs: tuple[AttemptId, ...]
    partition: int
