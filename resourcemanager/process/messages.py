"""The messages between clients and the ResourceManager, at the address "resourcemanager".

All ``_bytes`` are the model's; times are seconds since the ResourceManager started.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from railyard.cluster.messages import JobPackage
from railyard.cluster.messaging import wire
from railyard.jobs.model import StageSpec
from railyard.resourcemanager.core.records import TaskFailure
from railyard.resourcemanager.interface.forecast import Forecast, PredictedJob

#: How names of settings begin that a job's user gave, beside what it was submitted with.
GIVEN = "given."
#: Tasks in one answer: so many are made and sent within milliseconds.
TASKS_AT_ONCE = 500

#: The jobs that are the steps of one, one after the other.
_Steps = Annotated[tuple[wire.JobId, ...], msgspec.Meta(min_length=1, max_length=2**14)]


# Requests ----------------------------------------------------------------------------------------
class SubmitJob(wire.LongMessage, frozen=True, kw_only=True):
    """Run a job.  Answered by ``JobAccepted`` or by a ``Refusal`` that says what is wrong."""

    job: wire.JobId | None = None  #: an id that ``ReserveJobId`` gave; None = the next that is free
    name: wire.Name
    package: JobPackage
    stages: wire.Few[StageSpec]
    input_paths: wire.Entries[wire.Path] = ()  #: files, or folders of files, of the block store
    #: the name of each of ``input_paths``, several of which may share one; () = they have none
    input_names: wire.Entries[wire.Name] = ()
    output_path: wire.Path = ""  #: folder that must not exist yet; "" = the job writes nothing
    output_owner: wire.Name = ""  #: "" = the user who runs the cluster
    output_replication: wire.Replicas = 0  #: 0 = the cluster's
    user: wire.Name = "user"
    queue: wire.Name = "default"
    tags: wire.Few[wire.Name] = ()  #: in small letters, as YARN keeps them
    plain_names: bool = False  #: its files are named part-00000 rather than part-r-00000
    #: endings of files of which one task reads all; a file without bytes is read by one, too
    unsplit: wire.Few[wire.Name] | None = None  #: None = there are no such files
    #: {path: the offsets at which tasks begin to read it}; for files without, these are its blocks
    cuts: wire.FewBy[wire.Path, wire.Entries[wire.StoredBytes]] = {}
    max_attempts: wire.Tasks = 4  #: failures of one task that end the job
    settings: wire.FewBy[wire.Name, wire.Text] = {}  #: as its user gave them, to be shown
    #: where its output's replicas should go, as a ``DataPlan`` says; () = the store's own rule
    output_racks: wire.ReplicaRacks = ()
    #: of each task of the last stage, the rack for the first replica of its output; () = as above
    first_racks: wire.Entries[wire.RackId] = ()
    forecast: Forecast | None = None  #: a recurring job's, from earlier runs
    #: names this submission, so that it may be sent again if its answer does not come; "" = it is
    #: another job each time
    token: wire.Name = ""


class ReserveJobId(wire.Message, frozen=True, kw_only=True):
    """Ask for the id of a job to come; answered by ``JobIdReserved``.

    It stays reserved for a while: until a thousand others are.
    """


class SubmitForecasts(wire.LongMessage, frozen=True, kw_only=True):
    """Forecasts of jobs to come; answered by ``Done``.

    They replace all forecasts sent before, but for jobs that have come since.
    """

    jobs: wire.Entries[PredictedJob]


class PlanData(wire.LongMessage, frozen=True, kw_only=True):
    """Ask where to put data that is about to be written for a job; answered by ``DataPlan``.

    Whoever writes it passes the answer on: as the hint of a file, or as a job's ``output_racks``.
    """

    path: wire.Path  #: the input: a file, or a folder with all its files
    size_bytes: wire.ModelBytes
    job: wire.Name = ""  #: the name of the job that will read it; "" = that is not known
    forecast: Forecast | None = None  #: that job's, if there is one


class NoteInput(wire.Message, frozen=True, kw_only=True):
    """Input of coming jobs is written: the scheduler may know where.  Answered by ``Done``."""

    path: wire.Path  #: a file, or a folder with all its files
    jobs: wire.Few[wire.Name] = ()  #: the names of the jobs that will read it


class DataPlan(wire.LongMessage, frozen=True, kw_only=True):
    """For the first replica, the second, ...: racks for it; empty = the store's own rule."""

    racks: wire.ReplicaRacks


class WatchJob(wire.Message, frozen=True, kw_only=True):
    """Push ``JobProgress`` and ``JobEnded`` to whoever sends this; answered by ``Done``."""

    job: wire.JobId


class KillJob(wire.Message, frozen=True, kw_only=True):
    """End a job early; answered by ``Done``."""

    job: wire.JobId
    reason: wire.Text = "killed by its user"


class SetSlots(wire.Message, frozen=True, kw_only=True):
    """Give a node another number of slots from now on; answered by ``Done``.

    What runs there runs on.  It stays so when the node's NodeManager starts anew.
    """

    node: wire.NodeId
    slots: wire.Slots


class DrainNode(wire.Message, frozen=True, kw_only=True):
    """Empty a node: no new attempts, its replicas are copied elsewhere.  Answered by ``Done``.

    ``NodeStatus.drain`` says when that is done.
    """

    node: wire.NodeId
    now: bool = False  #: kill what runs there, so that it is run again elsewhere


class ActivateNode(wire.Message, frozen=True, kw_only=True):
    """Take a node back that is, or is being, drained.  Answered by ``Done``."""

    node: wire.NodeId


class GetClusterStatus(wire.Message, frozen=True, kw_only=True):
    """Ask for the state of nodes and jobs; answered by ``ClusterStatus``."""


class GetJobDetails(wire.Message, frozen=True, kw_only=True):
    """Ask for a job's stages, settings, counters and figures; answered by ``JobDetails``."""

    job: wire.JobId


class GetJobTasks(wire.Message, frozen=True, kw_only=True):
    """Ask for some of a job's tasks with their attempts; answered by ``JobTasks``.

    A job's tasks are numbered from 0 over its stages, those of the first stage first.
    """

    job: wire.JobId
    begin: wire.Count = 0  #: the first that is wanted
    limit: Annotated[int, msgspec.Meta(ge=1, le=TASKS_AT_ONCE)] = TASKS_AT_ONCE


class GetReport(wire.LongMessage, frozen=True, kw_only=True):
    """Ask for the summary of these jobs; answered by ``Report``."""

    #: the steps of each, one after the other; none = all jobs of which there are records
    jobs: wire.Entries[_Steps] = ()


# Answers -----------------------------------------------------------------------------------------
class JobAccepted(wire.Message, frozen=True, kw_only=True):
    """The job is in the queue."""

    job: wire.JobId


class JobIdReserved(wire.Message, frozen=True, kw_only=True):
    """No other job gets this id."""

    job: wire.JobId


class Report(wire.LongAnswer, frozen=True, kw_only=True):
    """The answer to ``GetReport``: ``summary.json`` but for what only the client knows."""

    summary: wire.FewBy[wire.Name, Any]


class JobStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A job in ``ClusterStatus``."""

    job: wire.JobId
    name: wire.Name
    user: wire.Name
    queue: wire.Name
    tags: wire.Few[wire.Name] = ()
    state: wire.Name  #: "running", "committing", "succeeded" or "failed"
    progress: wire.Share  #: done share of all its tasks, 0 to 1
    submitted_s: wire.Seconds
    finished_s: wire.Seconds | None = None
    waiting: wire.Text = ""  #: why none of its pending tasks is launched, if it has any
    reason: wire.Text = ""  #: why it failed
    stopped: bool = False  #: it failed because somebody killed it
    slot_s: wire.Seconds = 0.0  #: seconds for which attempts that have ended held slots, added up
    #: attempts of maps on a node with their input, in its rack, elsewhere
    locality: tuple[wire.Count, wire.Count, wire.Count] = (0, 0, 0)
    shuffled_bytes: wire.ModelBytes = 0  #: fetched so far
    cross_rack_bytes: wire.ModelBytes = 0  #: of these, from other racks
    maps: wire.Count = 0  #: its tasks that read no other stage
    reduces: wire.Count = 0  #: those that do
    maps_done: wire.Count = 0  #: of its maps; those that will never be needed do not count
    reduces_done: wire.Count = 0


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A node in ``ClusterStatus``: each that ever joined."""

    node: wire.NodeId
    rack: wire.RackId
    slots: wire.Slots
    attempts: wire.Few[wire.AttemptId]  #: those that hold its slots
    #: those that read there what their tasks need, and wait for a slot
    reserved: wire.Few[wire.AttemptId] = ()
    alive: bool
    lost_because: wire.Text = ""
    drain: wire.Name = ""  #: "draining" or "drained"; "" = it takes attempts and replicas
    left: wire.Text = ""  #: what it has yet, as long as it is "draining"


class ClusterStatus(wire.LongAnswer, frozen=True, kw_only=True):
    """The answer to ``GetClusterStatus``."""

    scheduler: wire.Name
    flow_scheduler: wire.Name
    topology: wire.Name
    now_s: wire.Seconds
    #: handled so far: between answers with the same number only progress has changed
    events: wire.Count = 0
    nodes: wire.Few[NodeStatus]
    jobs: wire.Entries[JobStatus]


class StageStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A stage in ``JobDetails``."""

    name: wire.Name
    reads: wire.Few[wire.Name]
    tasks: wire.Tasks
    running: wire.Tasks = 0
    done: wire.Tasks | None = 0  #: None = its job has ended, and its attempts are not kept
    pending: wire.Tasks = 0
    waiting: wire.Text = ""  #: why its pending tasks are not launched, if it has any
    planned: wire.Text = ""  #: what the scheduler plans for it, such as "its job keeps to r0 r3"


class JobDetails(wire.LongMessage, frozen=True, kw_only=True):
    """The answer to ``GetJobDetails``: what is known of a job, but for its tasks."""

    now_s: wire.Seconds
    status: JobStatus
    stages: wire.Few[StageStatus]
    #: with which it was submitted, long ones cut; those that its user gave begin with ``GIVEN``
    settings: wire.FewBy[wire.Name, wire.Text]
    map_progress: wire.Share = 0.0  #: of all stages that read no other
    reduce_progress: wire.Share = 0.0  #: of those that do
    #: {"launched", "reduces launched", "failed", "killed": attempts}, and
    #: {"read", "shuffle", "output": the model's bytes}
    numbers: wire.FewBy[wire.Name, wire.Count] = {}
    counters: wire.FewBy[wire.Name, wire.Signed] = {}
    failures: wire.Few[TaskFailure] = ()  #: as in ``JobEnded``


class AttemptReport(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """An attempt in ``JobTasks``; what is known only at its end is 0 before."""

    attempt: wire.AttemptId
    node: wire.NodeId
    state: wire.Name  #: as in ``lifecycles.ATTEMPT``
    level: wire.Name  #: how near its input is: "node-local", "rack-local", "remote" or "anywhere"
    copy: bool  #: it was launched beside another attempt of its task
    launched_s: wire.Seconds  #: when it got its slot, or was sent to read what it needs without one
    started_s: wire.Seconds | None = None  #: when its process ran
    fetched_s: wire.Seconds | None = None  #: when its latest fetch ended
    ended_s: wire.Seconds | None = None
    progress: wire.Share = 0.0
    reason: wire.Text = ""  #: why it failed or was killed
    input_bytes: wire.ModelBytes = 0  #: read or fetched
    output_bytes: wire.ModelBytes = 0  #: written to the block store
    shuffle_bytes: wire.ModelBytes = 0  #: its output for other stages
    #: read from the block store: on its node, in its rack, from other racks
    read_bytes: tuple[wire.ModelBytes, wire.ModelBytes, wire.ModelBytes] = (0, 0, 0)
    #: fetched so far, likewise
    fetched_bytes: tuple[wire.ModelBytes, wire.ModelBytes, wire.ModelBytes] = (0, 0, 0)
    read_s: wire.Seconds = 0.0  #: as in ``AttemptSucceeded``
    computed_s: wire.Seconds = 0.0  #: likewise
    counters: wire.FewBy[wire.Name, wire.Signed] = {}


class TaskReport(msgspec.Struct, frozen=True, kw_only=True):
    """A task in ``JobTasks``."""

    task: wire.TaskId
    #: as in ``lifecycles.TASK``; "failed" or "stopped" if its job ended without it
    state: wire.Name
    waiting: wire.Text = ""  #: why it is not launched, if it is pending
    attempts: wire.Few[AttemptReport] = ()


class JobTasks(wire.LongAnswer, frozen=True, kw_only=True):
    """The answer to ``GetJobTasks``; a refusal if the job's attempts are not kept any more."""

    now_s: wire.Seconds
    tasks: wire.Entries[TaskReport]
    left: wire.Count = 0  #: tasks that come after these


# Pushed to watchers ------------------------------------------------------------------------------
class StageProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a stage is, in a ``JobProgress``."""

    name: wire.Name
    reads: wire.Few[wire.Name]
    tasks: wire.Tasks
    running: wire.Tasks
    done: wire.Tasks
    progress: wire.Share  #: done share, running attempts' own progress included, 0 to 1


class JobProgress(wire.LongMessage, frozen=True, kw_only=True):
    """How far a job is."""

    job: wire.JobId
    elapsed_s: wire.Seconds
    stages: wire.Few[StageProgress]
    shuffled_bytes: wire.ModelBytes  #: fetched so far
    shuffle_bytes: wire.ModelBytes  #: to fetch in all, as far as is known yet
    failed_attempts: wire.Count
    waiting: wire.Text = ""  #: why none of its pending tasks is launched, if it has any


class JobEnded(wire.LongMessage, frozen=True, kw_only=True):
    """A job has ended."""

    job: wire.JobId
    ok: bool
    jct_s: wire.Seconds
    reason: wire.Text = ""  #: why it failed
    failures: wire.Few[TaskFailure] = ()  #: its failed attempts, the latest last; 20 at most
