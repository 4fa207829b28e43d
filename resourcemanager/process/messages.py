"""The messages between clients and the ResourceManager, at the address "resourcemanager".

All ``_bytes`` are the model's; times are seconds since the ResourceManager started.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from railyard.cluster.messages import JobPackage
from railyard.cluster.messaging.wire import (
    AttemptId,
    Count,
    Entries,
    Few,
    FewBy,
    JobId,
    LongAnswer,
    LongMessage,
    Message,
    ModelBytes,
    Name,
    NodeId,
    Path,
    RackId,
    ReplicaRacks,
    Replicas,
    Seconds,
    Share,
    Signed,
    Slots,
    StoredBytes,
    TaskId,
    Tasks,
    Text,
)
from railyard.jobs.model import StageSpec
from railyard.resourcemanager.core.records import TaskFailure
from railyard.resourcemanager.interface.forecast import Forecast, PredictedJob

#: How names of settings begin that a job's user gave, beside what it was submitted with.
GIVEN = "given."
#: Tasks in one answer: so many are made and sent within milliseconds.
TASKS_AT_ONCE = 500

#: The jobs that are the steps of one, one after the other.
_Steps = Annotated[tuple[JobId, ...], msgspec.Meta(min_length=1, max_length=2**14)]


# Requests ----------------------------------------------------------------------------------------
class SubmitJob(LongMessage, frozen=True, kw_only=True):
    """Run a job.  Answered by ``JobAccepted`` or by a ``Refusal`` that says what is wrong."""

    job: JobId | None = None  #: an id that ``ReserveJobId`` gave; None = the next that is free
    name: Name
    package: JobPackage
    stages: Few[StageSpec]
    input_paths: Entries[Path] = ()  #: files, or folders of files, of the block store
    #: the name of each of ``input_paths``, several of which may share one; () = they have none
    input_names: Entries[Name] = ()
    output_path: Path = ""  #: folder that must not exist yet; "" = the job writes nothing
    output_owner: Name = ""  #: "" = the user who runs the cluster
    output_replication: Replicas = 0  #: 0 = the cluster's
    user: Name = "user"
    queue: Name = "default"
    tags: Few[Name] = ()  #: in small letters, as YARN keeps them
    plain_names: bool = False  #: its files are named part-00000 rather than part-r-00000
    #: endings of files of which one task reads all; a file without bytes is read by one, too
    unsplit: Few[Name] | None = None  #: None = there are no such files
    #: {path: the offsets at which tasks begin to read it}; for files without, these are its blocks
    cuts: FewBy[Path, Entries[StoredBytes]] = {}
    max_attempts: Tasks = 4  #: failures of one task that end the job
    settings: FewBy[Name, Text] = {}  #: as its user gave them, to be shown
    #: where its output's replicas should go, as a ``DataPlan`` says; () = the store's own rule
    output_racks: ReplicaRacks = ()
    #: of each task of the last stage, the rack for the first replica of its output; () = as above
    first_racks: Entries[RackId] = ()
    forecast: Forecast | None = None  #: a recurring job's, from earlier runs
    #: names this submission, so that it may be sent again if its answer does not come; "" = it is
    #: another job each time
    token: Name = ""


class ReserveJobId(Message, frozen=True, kw_only=True):
    """Ask for the id of a job to come; answered by ``JobIdReserved``.

    It stays reserved for a while: until a thousand others are.
    """


class SubmitForecasts(LongMessage, frozen=True, kw_only=True):
    """Forecasts of jobs to come; answered by ``Done``.

    They replace all forecasts sent before, but for jobs that have come since.
    """

    jobs: Entries[PredictedJob]


class PlanData(LongMessage, frozen=True, kw_only=True):
    """Ask where to put data that is about to be written for a job; answered by ``DataPlan``.

    Whoever writes it passes the answer on: as the hint of a file, or as a job's ``output_racks``.
    """

    path: Path  #: the input: a file, or a folder with all its files
    size_bytes: ModelBytes
    job: Name = ""  #: the name of the job that will read it; "" = that is not known
    forecast: Forecast | None = None  #: that job's, if there is one


class NoteInput(Message, frozen=True, kw_only=True):
    """Input of coming jobs is written: the scheduler may know where.  Answered by ``Done``."""

    path: Path  #: a file, or a folder with all its files
    jobs: Few[Name] = ()  #: the names of the jobs that will read it


class DataPlan(LongMessage, frozen=True, kw_only=True):
    """For the first replica, the second, ...: racks for it; empty = the store's own rule."""

    racks: ReplicaRacks


class WatchJob(Message, frozen=True, kw_only=True):
    """Push ``JobProgress`` and ``JobEnded`` to whoever sends this; answered by ``Done``."""

    job: JobId


class KillJob(Message, frozen=True, kw_only=True):
    """End a job early; answered by ``Done``."""

    job: JobId
    reason: Text = "killed by its user"


class SetSlots(Message, frozen=True, kw_only=True):
    """Give a node another number of slots from now on; answered by ``Done``.

    What runs there runs on.  It stays so when the node's NodeManager starts anew.
    """

    node: NodeId
    slots: Slots


class DrainNode(Message, frozen=True, kw_only=True):
    """Empty a node: no new attempts, its replicas are copied elsewhere.  Answered by ``Done``.

    ``NodeStatus.drain`` says when that is done.
    """

    node: NodeId
    now: bool = False  #: kill what runs there, so that it is run again elsewhere


class ActivateNode(Message, frozen=True, kw_only=True):
    """Take a node back that is, or is being, drained.  Answered by ``Done``."""

    node: NodeId


class GetClusterStatus(Message, frozen=True, kw_only=True):
    """Ask for the state of nodes and jobs; answered by ``ClusterStatus``."""


class GetJobDetails(Message, frozen=True, kw_only=True):
    """Ask for a job's stages, settings, counters and figures; answered by ``JobDetails``."""

    job: JobId


class GetJobTasks(Message, frozen=True, kw_only=True):
    """Ask for some of a job's tasks with their attempts; answered by ``JobTasks``.

    A job's tasks are numbered from 0 over its stages, those of the first stage first.
    """

    job: JobId
    begin: Count = 0  #: the first that is wanted
    limit: Annotated[int, msgspec.Meta(ge=1, le=TASKS_AT_ONCE)] = TASKS_AT_ONCE


class GetReport(LongMessage, frozen=True, kw_only=True):
    """Ask for the summary of these jobs; answered by ``Report``."""

    #: the steps of each, one after the other; none = all jobs of which there are records
    jobs: Entries[_Steps] = ()


# Answers -----------------------------------------------------------------------------------------
class JobAccepted(Message, frozen=True, kw_only=True):
    """The job is in the queue."""

    job: JobId


class JobIdReserved(Message, frozen=True, kw_only=True):
    """No other job gets this id."""

    job: JobId


class Report(LongAnswer, frozen=True, kw_only=True):
    """The answer to ``GetReport``: ``summary.json`` but for what only the client knows."""

    summary: FewBy[Name, Any]


class JobStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A job in ``ClusterStatus``."""

    job: JobId
    name: Name
    user: Name
    queue: Name
    tags: Few[Name] = ()
    state: Name  #: "running", "committing", "succeeded" or "failed"
    progress: Share  #: done share of all its tasks, 0 to 1
    submitted_s: Seconds
    finished_s: Seconds | None = None
    waiting: Text = ""  #: why none of its pending tasks is launched, if it has any
    reason: Text = ""  #: why it failed
    stopped: bool = False  #: it failed because somebody killed it
    slot_s: Seconds = 0.0  #: seconds for which attempts that have ended held slots, added up
    #: attempts of maps on a node with their input, in its rack, elsewhere
    locality: tuple[Count, Count, Count] = (0, 0, 0)
    shuffled_bytes: ModelBytes = 0  #: fetched so far
    cross_rack_bytes: ModelBytes = 0  #: of these, from other racks
    maps: Count = 0  #: its tasks that read no other stage
    reduces: Count = 0  #: those that do
    maps_done: Count = 0  #: of its maps; those that will never be needed do not count
    reduces_done: Count = 0


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A node in ``ClusterStatus``: each that ever joined."""

    node: NodeId
    rack: RackId
    slots: Slots
    attempts: Few[AttemptId]  #: those that hold its slots
    #: those that read there what their tasks need, and wait for a slot
    reserved: Few[AttemptId] = ()
    alive: bool
    lost_because: Text = ""
    drain: Name = ""  #: "draining" or "drained"; "" = it takes attempts and replicas
    left: Text = ""  #: what it has yet, as long as it is "draining"


class ClusterStatus(LongAnswer, frozen=True, kw_only=True):
    """The answer to ``GetClusterStatus``."""

    scheduler: Name
    flow_scheduler: Name
    topology: Name
    now_s: Seconds
    #: handled so far: between answers with the same number only progress has changed
    events: Count = 0
    nodes: Few[NodeStatus]
    jobs: Entries[JobStatus]


class StageStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A stage in ``JobDetails``."""

    name: Name
    reads: Few[Name]
    tasks: Tasks
    running: Tasks = 0
    done: Tasks | None = 0  #: None = its job has ended, and its attempts are not kept
    pending: Tasks = 0
    waiting: Text = ""  #: why its pending tasks are not launched, if it has any
    planned: Text = ""  #: what the scheduler plans for it, such as "its job keeps to r0 r3"


class JobDetails(LongMessage, frozen=True, kw_only=True):
    """The answer to ``GetJobDetails``: what is known of a job, but for its tasks."""

    now_s: Seconds
    status: JobStatus
    stages: Few[StageStatus]
    #: with which it was submitted, long ones cut; those that its user gave begin with ``GIVEN``
    settings: FewBy[Name, Text]
    map_progress: Share = 0.0  #: of all stages that read no other
    reduce_progress: Share = 0.0  #: of those that do
    #: {"launched", "reduces launched", "failed", "killed": attempts}, and
    #: {"read", "shuffle", "output": the model's bytes}
    numbers: FewBy[Name, Count] = {}
    counters: FewBy[Name, Signed] = {}
    failures: Few[TaskFailure] = ()  #: as in ``JobEnded``


class AttemptReport(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """An attempt in ``JobTasks``; what is known only at its end is 0 before."""

    attempt: AttemptId
    node: NodeId
    state: Name  #: as in ``lifecycles.ATTEMPT``
    level: Name  #: how near its input is: "node-local", "rack-local", "remote" or "anywhere"
    copy: bool  #: it was launched beside another attempt of its task
    launched_s: Seconds  #: when it got its slot, or was sent to read what it needs without one
    started_s: Seconds | None = None  #: when its process ran
    fetched_s: Seconds | None = None  #: when its latest fetch ended
    ended_s: Seconds | None = None
    progress: Share = 0.0
    reason: Text = ""  #: why it failed or was killed
    input_bytes: ModelBytes = 0  #: read or fetched
    output_bytes: ModelBytes = 0  #: written to the block store
    shuffle_bytes: ModelBytes = 0  #: its output for other stages
    #: read from the block store: on its node, in its rack, from other racks
    read_bytes: tuple[ModelBytes, ModelBytes, ModelBytes] = (0, 0, 0)
    #: fetched so far, likewise
    fetched_bytes: tuple[ModelBytes, ModelBytes, ModelBytes] = (0, 0, 0)
    read_s: Seconds = 0.0  #: as in ``AttemptSucceeded``
    computed_s: Seconds = 0.0  #: likewise
    counters: FewBy[Name, Signed] = {}


class TaskReport(msgspec.Struct, frozen=True, kw_only=True):
    """A task in ``JobTasks``."""

    task: TaskId
    #: as in ``lifecycles.TASK``; "failed" or "stopped" if its job ended without it
    state: Name
    waiting: Text = ""  #: why it is not launched, if it is pending
    attempts: Few[AttemptReport] = ()


class JobTasks(LongAnswer, frozen=True, kw_only=True):
    """The answer to ``GetJobTasks``; a refusal if the job's attempts are not kept any more."""

    now_s: Seconds
    tasks: Entries[TaskReport]
    left: Count = 0  #: tasks that come after these


# Pushed to watchers ------------------------------------------------------------------------------
class StageProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a stage is, in a ``JobProgress``."""

    name: Name
    reads: Few[Name]
    tasks: Tasks
    running: Tasks
    done: Tasks
    progress: Share  #: done share, running attempts' own progress included, 0 to 1


class JobProgress(LongMessage, frozen=True, kw_only=True):
    """How far a job is."""

    job: JobId
    elapsed_s: Seconds
    stages: Few[StageProgress]
    shuffled_bytes: ModelBytes  #: fetched so far
    shuffle_bytes: ModelBytes  #: to fetch in all, as far as is known yet
    failed_attempts: Count
    waiting: Text = ""  #: why none of its pending tasks is launched, if it has any


class JobEnded(LongMessage, frozen=True, kw_only=True):
    """A job has ended."""

    job: JobId
    ok: bool
    jct_s: Seconds
    reason: Text = ""  #: why it failed
    failures: Few[TaskFailure] = ()  #: its failed attempts, the latest last; 20 at most
