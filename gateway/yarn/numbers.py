"""A cluster's state in YARN's words, and the ids that YARN's clients know its jobs by.

All numbers come from one answer of the ResourceManager, so that they add up.  A slot is a container
of one virtual core and ``SLOT_MB`` of memory, and a job is an application, whose master lives in
the ResourceManager and takes no slot.  What YARN lacks is under "railyard".  Not here: requests.

    j12        application_1795444939124_0012, job_1795444939124_0012
    j12.m3     task_1795444939124_0012_m_000003
    j12.m3.0   attempt_1795444939124_0012_m_000003_0

A task that reads no other stage is a map, others are reduces.  Where a job has several stages of
a kind, their tasks are numbered on, in the order of the stages.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from railyard.cluster.ids import AttemptId, JobId, NodeId, TaskId, job_of, stage_of
from railyard.jobs.streaming.job import hadoop_job_id
from railyard.resourcemanager.process.messages import (
    ClusterStatus,
    JobStatus,
    NodeStatus,
    StageStatus,
)

Row = dict[str, Any]
SLOT_MB = 1024
NODE_PORT = 45454  #: part of a node's id; nobody can connect to it
VERSION = "3.4.1"  #: of Hadoop, whose interfaces these are
_STATES = {"running": "RUNNING", "committing": "RUNNING", "succeeded": "FINISHED"}
_NO_CONTAINER_YET = "ACCEPTED"
_STILL_RUNNING = -1000  #: the exit code of a container that runs
#: {how far a living node is drained: its state}
_NODE_STATES = {"": "RUNNING", "draining": "DECOMMISSIONING", "drained": "DECOMMISSIONED"}
_JOB = re.compile(r"(?:job|application)_(\d{1,20})_(\d{4,15})")
_TASK = re.compile(r"(?:task|attempt)_(\d{1,20}_\d{4,15})_([mr])_(\d{6,12})(?:_\d{1,12})?")


def job_named(begun_ms: int, name: str) -> JobId | None:
    """The job of such an id; None if it is no id of this cluster."""
    match = _JOB.fullmatch(name)
    if match is None or int(match[1]) != begun_ms or match[2] != f"{int(match[2]):04d}":
        return None
    return JobId(f"j{int(match[2])}")


def container_id(begun_ms: int, attempt: AttemptId) -> str:
    """The id of an attempt's container, which has stage, task and attempt in its number."""
    _, task, number = attempt.split(".")
    stage = stage_of(attempt).partition(".")[2]
    letters = 0
    for letter in stage:
        letters = 27 * letters + ord(letter) - ord("a") + 1
    index = int(task[len(stage) :])
    job = hadoop_job_id(begun_ms, job_of(attempt), "container")
    return f"{job}_01_{letters}{index:07d}{int(number):03d}"


@dataclass(frozen=True)
class TaskIds:
    """The ids of a job's tasks."""

    job: str  #: its id
    stages: Sequence[StageStatus]

    @cached_property
    def _first(self) -> dict[str, tuple[str, int]]:
        """{stage: its kind, "m" or "r", and the number of its first task}"""
        counts = {"m": 0, "r": 0}
        first = {}
        for stage in self.stages:
            kind = "r" if stage.reads else "m"
            first[stage.name] = kind, counts[kind]
            counts[kind] += stage.tasks
        return first

    def kind(self, task: TaskId) -> str:
        """The letter of a task's kind: "m" for a map, "r" for a reduce."""
        return self._first[stage_name(task)][0]

    def of_kind(self, kind: str) -> list[StageStatus]:
        """The stages of such tasks."""
        return [stage for stage in self.stages if self._first[stage.name][0] == kind]

    def task(self, task: TaskId) -> str:
        stage = stage_name(task)
        kind, first = self._first[stage]
        number = first + int(task.rpartition(".")[2][len(stage) :])
        return f"{self.job.replace('job_', 'task_', 1)}_{kind}_{number:06d}"

    def attempt(self, attempt: AttemptId) -> str:
        task, _, number = attempt.rpartition(".")
        return f"{self.task(TaskId(task)).replace('task_', 'attempt_', 1)}_{number}"

    def position(self, name: str) -> int | None:
        """The number of a task among all of its job, by its id or by that of an attempt."""
        match = _TASK.fullmatch(name)
        if match is None or f"job_{match[1]}" != self.job:
            return None
        number, before = int(match[3]), 0
        for stage in self.stages:
            kind, first = self._first[stage.name]
            if kind == match[2] and first <= number < first + stage.tasks:
                return before + number - first
            before += stage.tasks
        return None


def stage_name(task: TaskId) -> str:
    """The letters of a task's number: its stage."""
    return task.rpartition(".")[2].rstrip("0123456789")


@dataclass(frozen=True)
class Numbers:
    """What YARN would say of a cluster at one instant.

    ``begun_ms``: when it started, since 1970; in all ids.  ``url``: the gateway's, for the client.
    """

    status: ClusterStatus
    begun_ms: int
    url: str = ""
    addresses: Mapping[NodeId, str] = field(default_factory=dict)  #: of nodes that have their own

    # Cluster -------------------------------------------------------------------------------------
    def info(self) -> Row:
        return {
            "clusterInfo": {
                "id": self.begun_ms,
                "startedOn": self.begun_ms,
                "state": "STARTED",
                "haState": "ACTIVE",
                "rmStateStoreName": "none",
                **versions("resourceManager"),
                **versions("hadoop"),
                "haZooKeeperConnectionState": "Could not find leader elector. Verify both HA and "
                "automatic failover are enabled.",
                "railyard": {
                    "scheduler": self.status.scheduler,
                    "flowScheduler": self.status.flow_scheduler,
                    "topology": self.status.topology,
                },
            }
        }

    def metrics(self) -> Row:
        """``clusterMetrics``: submitted = completed + pending + running + failed + killed, and
        total = available + allocated + reserved.
        """
        apps = Counter(self.state(job) for job in self.status.jobs)
        drains = Counter(node.drain for node in self._alive)
        used, total = self._slots
        slots = {"reserved": 0, "available": total - used, "allocated": used, "total": total}
        return {
            "clusterMetrics": {
                "appsSubmitted": len(self.status.jobs),
                "appsCompleted": apps["FINISHED"],
                "appsPending": apps[_NO_CONTAINER_YET],
                "appsRunning": apps["RUNNING"],
                "appsFailed": apps["FAILED"],
                "appsKilled": apps["KILLED"],
                **{f"{share}MB": count * SLOT_MB for share, count in slots.items()},
                **{f"{share}VirtualCores": count for share, count in slots.items()},
                "containersAllocated": used,
                "totalNodes": len(self.status.nodes),
                "activeNodes": drains[""],
                "lostNodes": len(self.status.nodes) - len(self._alive),
                "decommissioningNodes": drains["draining"],
                "decommissionedNodes": drains["drained"],
                **dict.fromkeys(("unhealthyNodes", "rebootedNodes", "shutdownNodes"), 0),
                **dict.fromkeys(("containersReserved", "containersPending"), 0),
            }
        }

    def scheduler(self) -> Row:
        """``scheduler``: one queue, since the numbers of the cluster are true of it."""
        used, total = self._slots
        unended = Counter(job.queue for job in self.status.jobs if job.finished_s is None)
        return {
            "scheduler": {
                "schedulerInfo": {
                    "type": "fifoScheduler",
                    "queueName": "root",
                    "capacity": 1.0,
                    "usedCapacity": used / total if total else 0.0,
                    "qstate": "RUNNING",
                    "minQueueMemoryCapacity": SLOT_MB,
                    "maxQueueMemoryCapacity": total * SLOT_MB,
                    "numNodes": len(self._alive),
                    "usedNodeCapacity": used * SLOT_MB,
                    "availNodeCapacity": (total - used) * SLOT_MB,
                    "totalNodeCapacity": total * SLOT_MB,
                    "numContainers": used,
                    "queues": {"queue": []},
                    "railyard": {
                        "scheduler": self.status.scheduler,
                        "queues": [{"queue": q, "jobs": n} for q, n in sorted(unended.items())],
                    },
                }
            }
        }

    # Nodes ---------------------------------------------------------------------------------------
    def node(self, node: NodeStatus) -> Row:
        used, slots = (len(node.attempts), _slots(node)) if node.alive else (0, 0)
        return {
            "rack": f"/{node.rack}",
            "state": _NODE_STATES[node.drain] if node.alive else "LOST",
            "id": node_id(node),
            "nodeHostName": node.node,
            "nodeHTTPAddress": self.node_address(node),
            "lastHealthUpdate": to_ms(self.begun_ms, self.status.now_s),
            "version": VERSION,
            "healthReport": node.lost_because or (node.left and f"drained once rid of {node.left}"),
            "numContainers": used,
            "usedMemoryMB": used * SLOT_MB,
            "availMemoryMB": (slots - used) * SLOT_MB,
            "usedVirtualCores": used,
            "availableVirtualCores": slots - used,
            "railyard": {"attempts": list(node.attempts), "reserved": list(node.reserved)},
        }

    def node_address(self, node: NodeStatus) -> str:
        return address_of(node.node, self.addresses, self.url.partition("//")[2])

    def node_info(self, node: NodeStatus) -> Row:
        """``nodeInfo`` of its NodeManager."""
        row = self.node(node)
        total = row["usedVirtualCores"] + row["availableVirtualCores"]
        return {
            "nodeInfo": {
                "id": row["id"],
                "nodeHostName": row["nodeHostName"],
                "nodeHealthy": node.alive,
                "healthReport": row["healthReport"],
                "lastNodeUpdateTime": row["lastHealthUpdate"],
                "totalVmemAllocatedContainersMB": total * SLOT_MB,
                "totalPmemAllocatedContainersMB": total * SLOT_MB,
                "totalVCoresAllocatedContainers": total,
                "vmemCheckEnabled": False,
                "pmemCheckEnabled": True,
                **versions("nodeManager"),
                **versions("hadoop"),
                "railyard": row["railyard"] | {"rack": row["rack"]},
            }
        }

    def node_apps(self, node: NodeStatus) -> list[Row]:
        """The applications with containers on a node, for its NodeManager."""
        containers: dict[JobId, list[str]] = {}
        for attempt in node.attempts if node.alive else ():
            container = container_id(self.begun_ms, attempt)
            containers.setdefault(job_of(attempt), []).append(container)
        return [
            {
                "id": self.app_id(job),
                "state": "RUNNING",
                "user": job.user,
                "containerids": containers[job.job],
            }
            for job in self.status.jobs
            if job.job in containers
        ]

    def node_containers(self, node: NodeStatus) -> list[Row]:
        """The containers of a node, for its NodeManager."""
        users = {job.job: job.user for job in self.status.jobs}
        return [
            {
                "id": container_id(self.begun_ms, attempt),
                "state": "RUNNING",
                "exitCode": _STILL_RUNNING,
                "diagnostics": "",
                "user": users.get(job_of(attempt), ""),
                "totalMemoryNeededMB": SLOT_MB,
                "totalVCoresNeeded": 1,
                "nodeId": node_id(node),
                "containerLogsLink": "",
                "railyard": {"attempt": attempt},
            }
            for attempt in (node.attempts if node.alive else ())
        ]

    # Applications --------------------------------------------------------------------------------
    def app_id(self, job: JobStatus) -> str:
        return hadoop_job_id(self.begun_ms, job.job, "application")

    def state(self, job: JobStatus) -> str:
        if job.state == "failed":
            return "KILLED" if job.stopped else "FAILED"
        state = _STATES.get(job.state, "RUNNING")
        if state == "RUNNING" and not job.progress and not self._running[job.job]:
            return _NO_CONTAINER_YET
        return state

    def app(self, job: JobStatus) -> Row:
        state, submitted_ms = self.state(job), to_ms(self.begun_ms, job.submitted_s)
        ended = job.finished_s is not None
        running = -1 if ended else self._running[job.job]
        end_s = self.status.now_s if job.finished_s is None else job.finished_s
        finals = {"FINISHED": "SUCCEEDED", "FAILED": "FAILED", "KILLED": "KILLED"}
        return {
            "id": self.app_id(job),
            "user": job.user,
            "name": job.name,
            "queue": job.queue,
            "state": state,
            "finalStatus": finals.get(state, "UNDEFINED"),
            "progress": 100.0 * job.progress,
            "trackingUI": "History" if ended else "ApplicationMaster",
            "trackingUrl": f"{self.url}/proxy/{self.app_id(job)}/",
            "diagnostics": job.reason or job.waiting,
            "clusterId": self.begun_ms,
            "applicationType": "MAPREDUCE",
            "applicationTags": ",".join(job.tags),
            "priority": 0,
            **dict.fromkeys(("startedTime", "launchTime"), submitted_ms),
            "finishedTime": to_ms(self.begun_ms, end_s) if ended else 0,
            "elapsedTime": int(1000 * (end_s - job.submitted_s)),
            **dict.fromkeys(("amContainerLogs", "amHostHttpAddress"), ""),
            "allocatedMB": -1 if ended else running * SLOT_MB,
            **dict.fromkeys(("allocatedVCores", "runningContainers"), running),
            "memorySeconds": int(job.slot_s * SLOT_MB),
            "vcoreSeconds": int(job.slot_s),
            "railyard": {
                **own_figures(job),
                "waiting": job.waiting,
                "maps": job.maps,
                "mapsDone": job.maps_done,
                "reduces": job.reduces,
                "reducesDone": job.reduces_done,
            },
        }

    def containers(self, job: JobId) -> list[Row]:
        """The containers that a job has now: its attempts that hold slots."""
        return [
            {
                "containerId": container_id(self.begun_ms, attempt),
                "allocatedMB": SLOT_MB,
                "allocatedVCores": 1,
                "assignedNodeId": node_id(node),
                "containerState": "RUNNING",
                "nodeHttpAddress": self.node_address(node),
                "nodeId": node_id(node),
                "railyard": {"attempt": attempt},
            }
            for node in self._alive
            for attempt in node.attempts
            if job_of(attempt) == job
        ]

    @cached_property
    def _running(self) -> Counter[JobId]:
        """{job: how many slots its attempts hold}."""
        return Counter(job_of(a) for node in self._alive for a in node.attempts)

    @cached_property
    def _alive(self) -> list[NodeStatus]:
        return [node for node in self.status.nodes if node.alive]

    @property
    def _slots(self) -> tuple[int, int]:
        """(Slots that attempts hold, slots of all living nodes)"""
        return self._running.total(), sum(map(_slots, self._alive))


def to_ms(begun_ms: int, time_s: float) -> int:
    """A time of a cluster that began then, since 1970."""
    return begun_ms + int(1000 * time_s)


def versions(of: str) -> dict[str, str]:
    """What a server says of the version of something."""
    named = {"Version": VERSION, "BuildVersion": f"{VERSION} by Railyard", "VersionBuiltOn": ""}
    return {f"{of}{name}": text for name, text in named.items()}


def node_id(node: NodeStatus) -> str:
    """A node's id."""
    return f"{node.node}:{NODE_PORT}"


def address_of(node: NodeId, addresses: Mapping[NodeId, str], gateway: str) -> str:
    """Where a node's NodeManager answers: an address of its own, or a path of the gateway's."""
    return addresses.get(node) or f"{gateway}/node/{node}"


def _slots(node: NodeStatus) -> int:
    """Its slots: more than it should have while what runs in those that were taken ends."""
    return max(node.slots, len(node.attempts))


def own_figures(job: JobStatus) -> Row:
    """What YARN and MapReduce have no names for."""
    local, in_rack, elsewhere = job.locality
    return {
        "job": job.job,
        "mapsOnNode": local,
        "mapsInRack": in_rack,
        "mapsElsewhere": elsewhere,
        "shuffledBytes": job.shuffled_bytes,
        "crossRackShuffleBytes": job.cross_rack_bytes,
    }


def stage_row(stage: StageStatus) -> Row:
    """A stage of a job, which YARN has no name for."""
    names = ("name", "reads", "tasks", "done", "waiting", "planned")
    return {name: getattr(stage, name) for name in names}
