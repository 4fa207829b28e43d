"""What clients and the ResourceManager tell one another.  Its name on the wire: "resourcemanager".

    client  --PlanData-->        DataPlan, before it writes a job's input
            --SubmitJob-->       JobAccepted (or a Refusal that says why not)
            --WatchJob-->        Done, then JobProgress a few times a second, JobEnded in the end
            --KillJob-->         Done
            --GetClusterStatus-> ClusterStatus
            --GetReport-->       Report

All ``_bytes`` are the model's; times are seconds since the ResourceManager started.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cluster.ids import AttemptId, JobId, NodeId, RackId, TaskId
from cluster.messages.execution import JobPackage
from cluster.wire import Message
from jobs.model import StageSpec
from resourcemanager.forecast import Forecast


# Requests ----------------------------------------------------------------------------------------
class SubmitJob(Message, frozen=True, kw_only=True):
    """Run a job.  Answered by ``JobAccepted`` or by a ``Refusal`` that says what is wrong."""

    name: str
    package: JobPackage
    stages: tuple[StageSpec, ...]
    input_paths: tuple[str, ...] = ()  #: files, or folders of files, of the block store
    output_path: str = ""  #: folder that must not exist yet; "" = the job writes nothing
    output_replication: int = 0  #: 0 = the cluster's
    user: str = "user"
    queue: str = "default"
    max_attempts: int = 4  #: failures of one task that end the job
    #: where its output's replicas should go, as a ``DataPlan`` says; () = the store's own rule
    output_racks: tuple[tuple[RackId, ...], ...] = ()
    forecast: Forecast | None = None  #: of a recurring job, from earlier runs


class PlanData(Message, frozen=True, kw_only=True):
    """Where should data go that I am about to write and a job will read?  Answered by ``DataPlan``.

    Whoever writes it passes the answer on: as the hint of a file, or as a job's ``output_racks``.
    """

    path: str  #: of the file, or of the folder whose files all are the job's input
    size_bytes: int
    forecast: Forecast | None = None  #: of the job that will read it, if that is known


class DataPlan(Message, frozen=True, kw_only=True):
    """For the first replica, the second, ...: racks for it; empty = the store's own rule."""

    racks: tuple[tuple[RackId, ...], ...]


class WatchJob(Message, frozen=True, kw_only=True):
    """Push ``JobProgress`` and ``JobEnded`` to whoever sends this."""

    job: JobId


class KillJob(Message, frozen=True, kw_only=True):
    """End a job early."""

    job: JobId
    reason: str = "killed by its user"


class GetClusterStatus(Message, frozen=True, kw_only=True):
    """What is there and what goes on?"""


class GetReport(Message, frozen=True, kw_only=True):
    """The summary of these jobs, in the format of DESIGN.md 4."""

    jobs: tuple[JobId, ...] = ()  #: none = all that it can still tell of


# Answers -----------------------------------------------------------------------------------------
class JobAccepted(Message, frozen=True, kw_only=True):
    """The job is in the queue."""

    job: JobId


class Report(Message, frozen=True, kw_only=True):
    """The answer to ``GetReport``: ``summary.json`` but for what only the client knows."""

    summary: dict[str, Any]


class JobStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A line of ``ClusterStatus``."""

    job: JobId
    name: str
    user: str
    queue: str
    state: str  #: "running", "committing", "succeeded" or "failed"
    progress: float  #: done share of all its tasks, 0 to 1
    submitted_s: float
    finished_s: float | None = None
    waiting: str = ""  #: why nothing of it is being started, if there is something to start


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A node that was ever there."""

    node: NodeId
    rack: RackId
    slots: int
    attempts: tuple[AttemptId, ...]  #: in its slots now
    alive: bool
    lost_because: str = ""


class ClusterStatus(Message, frozen=True, kw_only=True):
    """The answer to ``GetClusterStatus``."""

    scheduler: str
    flow_scheduler: str
    topology: str
    now_s: float
    nodes: tuple[NodeStatus, ...]
    jobs: tuple[JobStatus, ...]


# Pushed to watchers ------------------------------------------------------------------------------
class StageProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a stage is."""

    name: str
    reads: tuple[str, ...]
    tasks: int
    running: int
    done: int
    progress: float  #: done share, running attempts' own progress included, 0 to 1


class JobProgress(Message, frozen=True, kw_only=True):
    """How far a job is."""

    job: JobId
    elapsed_s: float
    stages: tuple[StageProgress, ...]
    shuffled_bytes: int  #: fetched so far
    shuffle_bytes: int  #: to fetch in all, as far as is known yet
    failed_attempts: int
    waiting: str = ""  #: why nothing of it is being started, if there is something to start


class TaskFailure(msgspec.Struct, frozen=True, kw_only=True):
    """What ended a job, or one failed attempt of many."""

    task: TaskId
    attempt: AttemptId
    node: NodeId
    reason: str
    stderr: str  #: the end of what the attempt wrote there


class JobEnded(Message, frozen=True, kw_only=True):
    """A job is over."""

    job: JobId
    ok: bool
    jct_s: float
    reason: str = ""  #: why it failed
    failures: tuple[TaskFailure, ...] = ()  #: its failed attempts, the latest last; 20 at most
