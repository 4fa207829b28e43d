"""The facts that the core is told, besides those of the NodeManagers (``messages/execution.py``).

An event is in the past tense and holds all that the core needs to know: events and their times,
fed to a fresh core, give the same commands again.  All ``_bytes`` are the model's.

Never here: what to do about them.
"""

from __future__ import annotations

import msgspec

from cluster.ids import JobId, NodeId, RackId
from cluster.messages.execution import (
    AttemptFailed,
    AttemptKilled,
    AttemptProgressed,
    AttemptStarted,
    AttemptSucceeded,
    FlowFailed,
    FlowFinished,
    NodeJoined,
    NodeLost,
    Split,
)
from cluster.wire import Event, Vocabulary
from resourcemanager.forecast import Forecast, ForetoldJob


class TaskInput(msgspec.Struct, frozen=True, kw_only=True):
    """What one task reads from the block store, and where that is."""

    splits: tuple[Split, ...] = ()
    input_bytes: int = 0
    nodes: tuple[NodeId, ...] = ()  #: those that hold a replica; none = it may run anywhere


class StagePlan(msgspec.Struct, frozen=True, kw_only=True):
    """A stage of a submitted job, with its number of tasks settled."""

    name: str  #: letters, such as "m"
    reads: tuple[str, ...] = ()  #: the stages whose output its tasks fetch
    tasks: int
    inputs: tuple[TaskInput, ...] = ()  #: one a task if it reads the block store, otherwise none


class JobsForetold(Event, frozen=True, kw_only=True):
    """These jobs are expected; of what is still to come, this replaces what was told before."""

    jobs: tuple[ForetoldJob, ...]


class DataAnnounced(Event, frozen=True, kw_only=True):
    """Somebody is about to write data that a job will read; answered with ``PlaceData``."""

    path: str  #: of the file, or of the folder whose files all are the job's input
    size_bytes: int
    job: str = ""  #: the name of the job that will read it; "" = that is not known
    forecast: Forecast | None = None  #: of that job, if there is one


class JobSubmitted(Event, frozen=True, kw_only=True):
    """Somebody wants a job to be run; its input is there and its stages are a sound DAG."""

    job: JobId
    name: str
    user: str
    queue: str  #: pool or queue, for schedulers that have them
    stages: tuple[StagePlan, ...]
    output_path: str = ""  #: folder for what the last stages write; "" = they write nothing
    output_replication: int = 0  #: 0 = the cluster's
    #: for each replica of its output, the racks for it; empty or missing = the store's own rule
    output_racks: tuple[tuple[RackId, ...], ...] = ()
    max_attempts: int = 4  #: failures of one task that end the job
    weight: float = 1.0  #: its share against other jobs of the same user
    forecast: Forecast | None = None  #: None: nothing is known of it
    #: shuffles of more pairs of tasks are merged to about so many flows, see ``merging.py``;
    #: 0 = a flow from each node to each reader.  Only simulated nodes can do it
    shuffle_flows: int = 0


class JobKilled(Event, frozen=True, kw_only=True):
    """Somebody does not want the job any more."""

    job: JobId
    reason: str


class JobCommitted(Event, frozen=True, kw_only=True):
    """The output of a job's winning attempts is in its place."""

    job: JobId


class JobCommitFailed(Event, frozen=True, kw_only=True):
    """The output could not be put in its place."""

    job: JobId
    reason: str


class TimerFired(Event, frozen=True, kw_only=True):
    """A moment that a ``SetTimer`` asked for has come."""

    timer: str


#: Every event that the core handles.
EVENTS = Vocabulary(
    (
        NodeJoined,
        NodeLost,
        JobsForetold,
        DataAnnounced,
        JobSubmitted,
        JobKilled,
        JobCommitted,
        JobCommitFailed,
        TimerFired,
        AttemptStarted,
        AttemptProgressed,
        AttemptSucceeded,
        AttemptFailed,
        AttemptKilled,
        FlowFinished,
        FlowFailed,
    )
)
