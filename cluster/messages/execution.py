"""What the ResourceManager and the NodeManagers (and their attempts) tell one another.

The facts are the very events that the core handles and the orders the very commands that it
returns; see docs in ``resourcemanager``.  All ``_bytes`` are the model's; fields named
``stored_`` count real bytes.  Times are seconds.

    attempt --umbilical--> NodeManager --facts--> ResourceManager
            <---fetches---             <--orders-
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import msgspec

from railyard.cluster.bounded import (
    ENTRIES,
    FEW,
    OF_TASKS,
    AttemptId,
    CoflowId,
    FlowId,
    JobId,
    ModelBytes,
    Name,
    NodeId,
    Path,
    Pid,
    Priority,
    RackId,
    ReplicaRacks,
    Replicas,
    Seconds,
    Share,
    Signed,
    Slots,
    StoredBytes,
    Tasks,
    Text,
    Weight,
)
from railyard.cluster.messaging.wire import LONG_BYTES_MAX, Command, Event, Message

#: A job's source file may have this many bytes.
SOURCE_BYTES_MAX = 15 * 2**20


# Facts about nodes -------------------------------------------------------------------------------
class NodeJoined(Event, frozen=True, kw_only=True):
    """A node's slots are there to be used."""

    node: NodeId
    rack: RackId
    slots: Slots


class NodeLost(Event, frozen=True, kw_only=True):
    """A node is gone with its attempts and its map output."""

    node: NodeId
    reason: Text


# Facts about attempts ----------------------------------------------------------------------------
class AttemptStarted(Event, frozen=True, kw_only=True):
    """The attempt's own process runs."""

    attempt: AttemptId
    pid: Pid = 0


class AttemptProgressed(Event, frozen=True, kw_only=True):
    """The attempt is alive; ``progress`` is its done share, 0 to 1."""

    attempt: AttemptId
    progress: Share


class AttemptSucceeded(Event, frozen=True, kw_only=True):
    """The attempt did its task; its output is complete and still uncommitted."""

    wire_bytes_max: ClassVar[int] = LONG_BYTES_MAX

    attempt: AttemptId
    input_bytes: ModelBytes = 0
    #: bytes read from its own node, its own rack, other racks
    local_bytes: ModelBytes = 0
    rack_bytes: ModelBytes = 0
    remote_bytes: ModelBytes = 0
    output_bytes: ModelBytes = 0  #: written to the block store (before replication)
    #: bytes of its shuffle output for each partition; empty for a stage that nobody reads
    partition_bytes: Annotated[tuple[ModelBytes, ...], OF_TASKS] = ()
    counters: Annotated[dict[Name, Signed], FEW] = {}


class AttemptFailed(Event, frozen=True, kw_only=True):
    """The attempt ended without its result; ``stderr`` is the end of what it wrote there."""

    attempt: AttemptId
    reason: Text
    stderr: Text = ""
    no_room: bool = False  #: what it had to write found no room on a disk


class AttemptKilled(Event, frozen=True, kw_only=True):
    """An attempt ended because a ``KillAttempt`` asked for it."""

    attempt: AttemptId


# Facts about the shuffle -------------------------------------------------------------------------
class FlowFinished(Event, frozen=True, kw_only=True):
    """All bytes of a fetch are at their reader."""

    flow: FlowId


class FlowFailed(Event, frozen=True, kw_only=True):
    """A fetch broke off; ``lost`` are the attempts whose output can't be read any more.

    With ``gone``, that is because the NodeManager is gone that served it: no fault of theirs.
    """

    wire_bytes_max: ClassVar[int] = LONG_BYTES_MAX

    flow: FlowId
    reason: Text
    lost: Annotated[tuple[AttemptId, ...], OF_TASKS] = ()
    gone: bool = False


# What an attempt works on ------------------------------------------------------------------------
class Split(msgspec.Struct, frozen=True, kw_only=True):
    """A range of a file in the block store: one map's input.  Offsets count real bytes."""

    path: Path
    stored_offset: StoredBytes
    stored_length: StoredBytes


class JobPackage(msgspec.Struct, frozen=True, kw_only=True):
    """A job's code and parameters, as shipped: source text, never pickled objects."""

    module: Name  #: importable name of a job that comes with Railyard, or "" for a shipped file
    file_name: Path  #: name of the user's file, for its tracebacks; "" when ``module`` is given
    #: the user's file; empty when ``module`` is given
    source: Annotated[bytes, msgspec.Meta(max_length=SOURCE_BYTES_MAX)]
    job_class: Name  #: the class in it
    #: str, int, float, bool, bytes or list[bytes]; checked against the job class's own parameters
    params: Annotated[dict[Name, Any], FEW]


class TaskSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What one task does, as its attempts are told."""

    stage: Name  #: name of the stage within the job, such as "m"
    index: (
        Tasks  #: number of the task within its stage: the partition that it reads, if it shuffles
    )
    splits: Annotated[tuple[Split, ...], ENTRIES] = ()  #: input from the block store
    reads: Annotated[tuple[Name, ...], FEW] = ()  #: names of the stages whose output it fetches
    inputs: Tasks = 0  #: how many attempts' outputs it will fetch in all
    partitions: Tasks = 0  #: how many partitions it writes for the stages that read it; 0 = none
    output_path: Path = ""  #: file that it writes to the block store; "" = none
    output_replication: Replicas = 0  #: 0 = the cluster's
    #: for each replica of that file, the racks for it; empty or missing = the store's own rule
    output_racks: ReplicaRacks = ()


# Orders ------------------------------------------------------------------------------------------
class LoadJob(Command, frozen=True, kw_only=True):
    """Keep a job's package; attempts of it will follow."""

    wire_bytes_max: ClassVar[int] = LONG_BYTES_MAX

    job: JobId
    package: JobPackage


class LaunchAttempt(Command, frozen=True, kw_only=True):
    """Run an attempt in a slot of ``node``."""

    wire_bytes_max: ClassVar[int] = LONG_BYTES_MAX

    attempt: AttemptId
    node: NodeId
    task: TaskSpec
    #: when its NodeManager got this, on the clock of that machine; None until then
    received_s: Seconds | None = None


class KillAttempt(Command, frozen=True, kw_only=True):
    """End an attempt; ``AttemptKilled`` (or its own end, if that came first) will follow."""

    attempt: AttemptId
    node: NodeId
    reason: Text


class StartFlow(Command, frozen=True, kw_only=True):
    """Fetch shuffle output: to the network it is a flow, to ``reader`` a fetch to make.

    ``src`` equal to ``dst`` is a read from the node's own disk and takes no bandwidth.
    """

    wire_bytes_max: ClassVar[int] = LONG_BYTES_MAX

    flow: FlowId
    coflow: CoflowId
    src: NodeId
    dst: NodeId
    size_bytes: ModelBytes
    reader: AttemptId  #: the attempt at ``dst`` that fetches
    outputs: Annotated[
        tuple[AttemptId, ...], OF_TASKS
    ]  #: the attempts at ``src`` whose output it fetches
    partition: Tasks
    weight: Weight = 1.0
    priority: Priority = ()  #: the smaller is served first; see ``OpenFlow``


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

    wire_bytes_max: ClassVar[int] = LONG_BYTES_MAX

    rack: RackId
    pid: Pid
    nodes: Annotated[dict[NodeId, Slots], FEW]  #: slots of each


class NodeManagerHeartbeat(Message, frozen=True, kw_only=True):
    """A NodeManager is alive."""

    wire_bytes_max: ClassVar[int] = LONG_BYTES_MAX

    rack: RackId
    nodes: Annotated[tuple[NodeId, ...], FEW]  #: those still usable


# Between an attempt and its NodeManager ----------------------------------------------------------
class UmbilicalHello(Message, frozen=True, kw_only=True):
    """An attempt's first words."""

    attempt: AttemptId
    pid: Pid


class AttemptDue(Message, frozen=True, kw_only=True):
    """From a paced attempt: whenever it ends well, that is to be told at ``at_s`` or later.

    On the clock of their machine.
    """

    attempt: AttemptId
    at_s: Seconds


class FetchOutput(Message, frozen=True, kw_only=True):
    """To a reader: fetch these outputs from the shuffle service of ``rack``."""

    wire_bytes_max: ClassVar[int] = LONG_BYTES_MAX

    flow: FlowId
    reader: AttemptId
    src: NodeId
    rack: RackId
    outputs: Annotated[tuple[AttemptId, ...], OF_TASKS]
    partition: Tasks
