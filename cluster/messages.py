"""Messages between parts that must not import one another: ResourceManager, NodeManagers, attempts.

The events are those that the core handles, the commands those that it returns; see
``resourcemanager``.  All ``_bytes`` are the model's; fields named ``stored_`` count real bytes.
Times are in seconds.  The messages of one part's daemons are in that part's ``messages``.

    attempt --umbilical--> NodeManager --events---> ResourceManager
            <---fetches---             <--commands-
"""

from __future__ import annotations

from typing import Annotated, Any, get_args

import msgspec

from railyard.cluster.messaging import wire

#: Maximum size of a job's source file, together with the modules beside it.
SOURCE_BYTES_MAX = 15 * 2**20
#: {when spans began: when the last of these ended}, in seconds of one clock.  To note a span as it
#: ends is one assignment: most of an attempt's fetches begin together with others.
Spans = dict[float, float]


# Events of nodes ---------------------------------------------------------------------------------
class NodeJoined(wire.Event, frozen=True, kw_only=True):
    """A node has joined with its free slots."""

    node: wire.NodeId
    rack: wire.RackId
    slots: wire.Slots


class SlotsChanged(wire.Event, frozen=True, kw_only=True):
    """A node that is alive has another number of slots from now on; what runs there runs on."""

    node: wire.NodeId
    slots: wire.Slots


class DrainStarted(wire.Event, frozen=True, kw_only=True):
    """A living node is to be emptied: it gets no attempts any more, as if it had no slots.

    What runs there runs on, or with ``kill`` is asked to end, and is run again elsewhere.
    """

    node: wire.NodeId
    kill: bool = False


class NodeActivated(wire.Event, frozen=True, kw_only=True):
    """A node that was being drained, or is drained, gets attempts again."""

    node: wire.NodeId
    slots: wire.Slots  #: that it has from now on, if it is alive


class NodeLost(wire.Event, frozen=True, kw_only=True):
    """A node is lost, with its attempts and its shuffle output."""

    node: wire.NodeId
    reason: wire.Text


class NodeRestarted(wire.Event, wire.LongMessage, frozen=True, kw_only=True):
    """A living node's NodeManager died and was started again: what ran there was killed with it."""

    node: wire.NodeId
    #: attempts whose shuffle output was found whole on the node's disk; all other output is lost
    outputs: wire.Entries[wire.AttemptId] = ()


# Events of attempts ------------------------------------------------------------------------------
class AttemptStarted(wire.Event, frozen=True, kw_only=True):
    """The attempt's process is running."""

    attempt: wire.AttemptId
    pid: wire.Pid = 0


class AttemptProgressed(wire.Event, frozen=True, kw_only=True):
    """The attempt is alive; ``progress`` is the share of its work that is done, 0 to 1."""

    attempt: wire.AttemptId
    progress: wire.Share


class AttemptReady(wire.Event, frozen=True, kw_only=True):
    """All that the attempt reads is at its node: its block, and every output that it fetches.

    Only from attempts that were launched without a slot (``LaunchAttempt.begins``), once, and not
    after they have begun.
    """

    attempt: wire.AttemptId


class AttemptSucceeded(wire.Event, wire.LongMessage, frozen=True, kw_only=True):
    """The attempt has finished its task; its output is complete and not yet committed."""

    attempt: wire.AttemptId
    input_bytes: wire.ModelBytes = 0
    #: input bytes read from its own node, its own rack, other racks
    local_bytes: wire.ModelBytes = 0
    rack_bytes: wire.ModelBytes = 0
    remote_bytes: wire.ModelBytes = 0
    output_bytes: wire.ModelBytes = 0  #: written to the block store (before replication)
    #: bytes of its shuffle output per partition; empty if no stage reads it
    partition_bytes: wire.Entries[wire.ModelBytes] = ()
    counters: wire.FewBy[wire.Name, wire.Signed] = {}
    #: for how long at least one read from another node, or fetch from one, was under way
    read_s: wire.Seconds = 0.0
    #: for how long it computed over what it had read, its pace included; apart from ``read_s``
    computed_s: wire.Seconds = 0.0


class AttemptFailed(wire.Event, frozen=True, kw_only=True):
    """The attempt failed; ``stderr`` is the end of its standard error."""

    attempt: wire.AttemptId
    reason: wire.Text
    stderr: wire.Text = ""
    no_room: bool = False  #: it failed because a disk was full


class AttemptKilled(wire.Event, frozen=True, kw_only=True):
    """An attempt ended because a ``KillAttempt`` asked for it."""

    attempt: wire.AttemptId


# Events of the shuffle ---------------------------------------------------------------------------
class FlowFinished(wire.Event, frozen=True, kw_only=True):
    """The reader of a fetch has all its bytes."""

    flow: wire.FlowId


class FlowFailed(wire.Event, wire.LongMessage, frozen=True, kw_only=True):
    """A fetch failed; ``lost`` are the attempts with output that can't be read any more.

    With ``gone``, the cause is that the NodeManager which served the output is gone: nothing is
    lost yet, since it is started again and finds the output on its disk.
    """

    flow: wire.FlowId
    reason: wire.Text
    lost: wire.Entries[wire.AttemptId] = ()
    gone: bool = False


AttemptFact = (
    AttemptStarted
    | AttemptProgressed
    | AttemptReady
    | AttemptSucceeded
    | AttemptFailed
    | AttemptKilled
)
FlowFact = FlowFinished | FlowFailed
#: What NodeManagers report: of an attempt, or of a flow that an attempt reads.
Fact = AttemptFact | FlowFact
FACTS: tuple[type[Fact], ...] = get_args(Fact)


# Tasks -------------------------------------------------------------------------------------------
class Split(msgspec.Struct, frozen=True, kw_only=True):
    """A range of a file in the block store: one map's input.  Offsets count real bytes."""

    path: wire.Path
    stored_offset: wire.StoredBytes
    stored_length: wire.StoredBytes


class JobPackage(msgspec.Struct, frozen=True, kw_only=True):
    """A job's code and parameters, as shipped: source text, never pickled objects."""

    module: wire.Name  #: importable name of a job that comes with Railyard; "" for a shipped file
    file_name: wire.Path  #: name of the user's file, for tracebacks; "" when ``module`` is given
    #: text of the user's file; empty when ``module`` is given
    source: Annotated[bytes, msgspec.Meta(max_length=SOURCE_BYTES_MAX)]
    #: {path: text} of the modules beside the user's file that it imports, from its folder:
    #: "helpers.py", "words/stems.py"
    modules: wire.FewBy[wire.Path, Annotated[bytes, msgspec.Meta(max_length=SOURCE_BYTES_MAX)]] = {}
    job_class: wire.Name  #: the job's class in the module or file
    #: str, int, float, bool, bytes or list[bytes]; checked against the job class's own parameters
    params: wire.FewBy[wire.Name, Any]


class TaskSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The work of one task, as sent to its attempts."""

    stage: wire.Name  #: name of the stage within the job, such as "m"
    index: wire.Tasks  #: of the task within its stage; for a reader of a shuffle, its partition
    splits: wire.Entries[Split] = ()  #: input from the block store
    reads: wire.Few[wire.Name] = ()  #: names of the stages from which it fetches
    inputs: wire.Tasks = 0  #: number of attempts from which it fetches, over all those stages
    partitions: wire.Tasks = 0  #: number of partitions of its shuffle output; 0 = no shuffle output
    output_path: wire.Path = ""  #: file that it writes to the block store; "" = none
    success_path: wire.Path = ""  #: once it is there, the job is committed: nothing is written
    output_owner: wire.Name = ""  #: of that file; "" = the user who runs the cluster
    output_replication: wire.Replicas = 0  #: 0 = the cluster's default
    #: preferred racks of each replica of that file; empty or missing = the placement rule decides
    output_racks: wire.ReplicaRacks = ()


# Commands ----------------------------------------------------------------------------------------
class LoadJob(wire.Command, wire.LongMessage, frozen=True, kw_only=True):
    """Store a job's package for the attempts that will follow."""

    job: wire.JobId
    package: JobPackage


class LaunchAttempt(wire.Command, wire.LongMessage, frozen=True, kw_only=True):
    """Run an attempt on ``node``: in a slot, or to read what it needs until it has one."""

    attempt: wire.AttemptId
    node: wire.NodeId
    task: TaskSpec
    #: when its NodeManager received this, on that machine's clock; None before
    received_s: wire.Seconds | None = None
    #: whether it has a slot.  One without reads its block and fetches as any other, says
    #: ``AttemptReady`` once it has everything, and computes nothing before ``BeginAttempt``
    begins: bool = True


class BeginAttempt(wire.Command, frozen=True, kw_only=True):
    """An attempt that was launched without a slot has one: it computes as soon as it can.

    It may still lack input: then it goes on reading, and computes when it has everything.
    """

    attempt: wire.AttemptId
    node: wire.NodeId
    #: when its NodeManager received this, on that machine's clock; None before
    received_s: wire.Seconds | None = None


class KillAttempt(wire.Command, frozen=True, kw_only=True):
    """Kill an attempt; ``AttemptKilled`` follows, or its own end if that came first."""

    attempt: wire.AttemptId
    node: wire.NodeId
    reason: wire.Text


class StartFlow(wire.Command, wire.LongMessage, frozen=True, kw_only=True):
    """Fetch shuffle output: a flow of the network, and a fetch by the attempt ``reader``.

    ``src`` equal to ``dst`` is a read from the node's own disk and takes no bandwidth.
    """

    flow: wire.FlowId
    coflow: wire.CoflowId
    src: wire.NodeId
    dst: wire.NodeId
    size_bytes: wire.ModelBytes
    reader: wire.AttemptId  #: the attempt on ``dst`` that fetches
    outputs: wire.Entries[wire.AttemptId]  #: the attempts on ``src`` from which it fetches
    partition: wire.Tasks
    weight: wire.Weight = 1.0
    priority: wire.Priority = ()  #: smaller is served first; see ``OpenFlow``


class CancelFlow(wire.Command, frozen=True, kw_only=True):
    """Cancel a fetch because its reader or its source is gone."""

    flow: wire.FlowId
    dst: wire.NodeId


class DiscardJob(wire.Command, frozen=True, kw_only=True):
    """The job has ended: kill its remaining attempts and delete its shuffle output."""

    job: wire.JobId


# Registration ------------------------------------------------------------------------------------
class RegisterNodeManager(wire.LongMessage, frozen=True, kw_only=True):
    """Register a NodeManager and its nodes."""

    rack: wire.RackId
    pid: wire.Pid
    nodes: wire.FewBy[wire.NodeId, wire.Slots]  #: {node: its slots}
    #: it was registered before, over a connection that broke, and goes on with all that it has:
    #: it tells again what may not have arrived, and then sends ``NodeManagerHolds``
    again: bool = False
    #: {node: attempts whose shuffle output an earlier NodeManager left whole on its disk}
    outputs: wire.FewBy[wire.NodeId, wire.Entries[wire.AttemptId]] = {}
    jobs: wire.Entries[wire.JobId] = ()  #: of which there are files on these disks


class HeldAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that a NodeManager has and that has not ended, in a ``NodeManagerHolds``."""

    attempt: wire.AttemptId
    node: wire.NodeId
    has_slot: bool
    killed: bool  #: an order to kill it has come


class NodeManagerHolds(wire.LongMessage, frozen=True, kw_only=True):
    """What a NodeManager that has registered again has, after all facts that it told again."""

    rack: wire.RackId
    attempts: wire.Entries[HeldAttempt]
    flows: wire.Entries[wire.FlowId]  #: fetches of these attempts that have not ended
    jobs: wire.Entries[wire.JobId]  #: of which it has the code


class FactsJournaled(wire.Command, frozen=True, kw_only=True):
    """To a NodeManager: so many more of the facts that it told are journaled, the oldest first.

    Until then it keeps them, and tells them again to a ResourceManager that was restarted.
    """

    count: wire.Count


class NodeManagerHeartbeat(wire.LongMessage, frozen=True, kw_only=True):
    """A NodeManager is alive, with the nodes that are still usable."""

    rack: wire.RackId
    nodes: wire.Few[wire.NodeId]  #: usable nodes; all others of the rack are lost


class AttemptDelayed(wire.Message, frozen=True, kw_only=True):
    """To the ResourceManager: for how long an attempt that succeeded had waited for this machine.

    Comes before its ``AttemptSucceeded``.  No event: the core knows no machine.
    """

    attempt: wire.AttemptId
    launch_s: wire.Seconds  #: from the arrival of its order until its process reported
    permit_s: wire.Seconds  #: for permits to compute, after that


# Between an attempt and its NodeManager ----------------------------------------------------------
class UmbilicalHello(wire.Message, frozen=True, kw_only=True):
    """The first message of an attempt to its NodeManager."""

    attempt: wire.AttemptId
    pid: wire.Pid


class AttemptDue(wire.Message, frozen=True, kw_only=True):
    """From a paced attempt: its success is to be reported at ``at_s`` or later, not before.

    ``at_s`` is on this machine's clock.
    """

    attempt: wire.AttemptId
    at_s: wire.Seconds


class AttemptWaits(wire.Message, frozen=True, kw_only=True):
    """From an attempt: it waits for bytes or for its pace, and computes no more until it asks."""

    attempt: wire.AttemptId


class AskToCompute(wire.Message, frozen=True, kw_only=True):
    """From an attempt that has waited: it wants to compute.  ``Done`` when it may."""

    attempt: wire.AttemptId


class FetchOutput(wire.LongMessage, frozen=True, kw_only=True):
    """To a reading attempt: fetch these outputs from the shuffle service of ``rack``."""

    flow: wire.FlowId
    reader: wire.AttemptId
    src: wire.NodeId
    rack: wire.RackId
    outputs: wire.Entries[wire.AttemptId]
    partition: wire.Tasks


# The time that an attempt reads -------------------------------------------------------------------
def total_s(spans: Spans) -> float:
    """Seconds that the spans cover.

    A span is a read from the block store, or a fetch of other tasks' output, from when it was
    ordered until its last byte was there.  An instant at which several are under way counts once.
    """
    apart: list[tuple[float, float]] = []
    for begin_s, end_s in sorted(spans.items()):
        if apart and begin_s <= apart[-1][1]:
            begin_s, other_end_s = apart.pop()
            end_s = max(end_s, other_end_s)
        apart.append((begin_s, end_s))
    return sum(end_s - begin_s for begin_s, end_s in apart)
