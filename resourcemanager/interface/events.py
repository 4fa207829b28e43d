"""The events that the core handles, besides those of the NodeManagers (``cluster/messages.py``).

An event is in the past tense and holds all that the core needs to know: events and their times,
fed to a fresh core, give the same commands again.  All ``_bytes`` are the model's.

Never here: what to do about them.
"""

from __future__ import annotations

import msgspec

from railyard.cluster.messages import (
    FACTS,
    DrainStarted,
    NodeActivated,
    NodeJoined,
    NodeLost,
    NodeRestarted,
    SlotsChanged,
    Split,
)
from railyard.cluster.messaging import wire
from railyard.netemu.messages import LinksObserved
from railyard.resourcemanager.interface.forecast import Forecast, PredictedJob

#: Most blocks in one ``DataStored``.
DATA_BLOCKS_MAX = 4096


class TaskInput(msgspec.Struct, frozen=True, kw_only=True):
    """What one task reads from the block store, and the nodes that hold it."""

    splits: wire.Entries[Split] = ()
    input_bytes: wire.ModelBytes = 0
    nodes: wire.Few[wire.NodeId] = ()  #: nodes with a replica; none = it may run anywhere


class StagePlan(msgspec.Struct, frozen=True, kw_only=True):
    """A stage of a submitted job, with its number of tasks settled."""

    name: wire.Name  #: letters, such as "m"
    reads: wire.Few[wire.Name] = ()  #: the stages from which its tasks fetch
    tasks: wire.Tasks
    inputs: wire.Entries[TaskInput] = ()  #: one per task if it reads the block store
    #: so many of its tasks, whichever are done first, make it complete; 0 = all of them, as of a
    #: stage that nobody reads
    needed: wire.Tasks = 0
    max_attempts: wire.Tasks = 0  #: failures of one of its tasks that end the job; 0 = the job's
    may_copy: bool = True  #: whether copies policies may run two attempts of a task at once


class JobsPredicted(wire.Event, frozen=True, kw_only=True):
    """Forecasts of jobs to come; they replace all earlier ones of jobs that have not come."""

    jobs: wire.Entries[PredictedJob]


class DataAnnounced(wire.Event, frozen=True, kw_only=True):
    """Somebody is about to write data that a job will read; answered with ``PlaceData``."""

    path: wire.Path  #: of the file, or of the folder with all files of the job's input
    size_bytes: wire.ModelBytes
    job: wire.Name = ""  #: the name of the job that will read it; "" = unknown
    forecast: Forecast | None = None  #: of that job, if there is one


class DataBlock(msgspec.Struct, frozen=True, array_like=True):
    """A block of a file that jobs read, in a ``DataStored``."""

    stored_offset: wire.StoredBytes  #: real bytes before it in the file
    size_bytes: wire.ModelBytes
    nodes: wire.Few[wire.NodeId]  #: nodes with a sound replica, sorted


class DataStored(wire.Event, frozen=True, kw_only=True):
    """A file that jobs read is in the block store, or its blocks are elsewhere than before.

    Only for recipes that use data: see ``Policy.uses_data``.
    """

    path: wire.Path
    #: at most ``DATA_BLOCKS_MAX``: the rest of a larger file follows in further events
    blocks: wire.Entries[DataBlock]
    first: wire.Count = 0  #: the number of the first of these blocks in the file
    #: in the last event of a file: the names of jobs to come that will read it, as far as known
    jobs: wire.Few[wire.Name] = ()


class InputMoved(wire.Event, frozen=True, kw_only=True):
    """A ``MoveBlock`` was carried out."""

    path: wire.Path
    block: wire.Count  #: its number in the file
    nodes: wire.Few[wire.NodeId]  #: nodes with a sound replica now, sorted


class InputNotMoved(wire.Event, frozen=True, kw_only=True):
    """A ``MoveBlock`` failed: the block is where it was."""

    path: wire.Path
    block: wire.Count
    reason: wire.Text


class JobSubmitted(wire.Event, frozen=True, kw_only=True):
    """A job was submitted; its input is stored and its stages are a sound DAG."""

    job: wire.JobId
    name: wire.Name
    user: wire.Name
    queue: wire.Name  #: queue or pool, for schedulers that have them
    tags: wire.Few[wire.Name] = ()  #: of its user, who finds it by them
    stages: wire.Few[StagePlan]
    output_path: wire.Path = ""  #: folder for what the last stages write; "" = they write nothing
    output_owner: wire.Name = ""  #: "" = the user who runs the cluster
    output_replication: wire.Replicas = 0  #: 0 = the cluster's
    #: of each replica of its output, the racks for it; empty or missing = the store's own rule
    output_racks: wire.ReplicaRacks = ()
    #: of each task of the last stage, the rack for the first replica of its output; () = as above
    first_racks: wire.Entries[wire.RackId] = ()
    plain_names: bool = False  #: its files are named part-00000 rather than part-r-00000
    max_attempts: wire.Tasks = 4  #: failures of one task that end the job
    weight: wire.Weight = 1.0  #: its share against other jobs of the same user
    forecast: Forecast | None = None  #: None for an ad hoc job


class JobKilled(wire.Event, frozen=True, kw_only=True):
    """Somebody asked for the end of a job."""

    job: wire.JobId
    reason: wire.Text


class JobCommitted(wire.Event, frozen=True, kw_only=True):
    """The output of a job's winning attempts is in its place."""

    job: wire.JobId


class JobCommitFailed(wire.Event, frozen=True, kw_only=True):
    """The output could not be put in its place."""

    job: wire.JobId
    reason: wire.Text


class TimerFired(wire.Event, frozen=True, kw_only=True):
    """The time that a ``SetTimer`` named has come."""

    timer: wire.Name


#: Every event that the core handles.
EVENTS = wire.Vocabulary(
    (
        NodeJoined,
        NodeLost,
        NodeRestarted,
        SlotsChanged,
        DrainStarted,
        NodeActivated,
        LinksObserved,
        JobsPredicted,
        DataAnnounced,
        DataStored,
        InputMoved,
        InputNotMoved,
        JobSubmitted,
        JobKilled,
        JobCommitted,
        JobCommitFailed,
        TimerFired,
        *FACTS,
    )
)
