"""A cluster's state in YARN's words, all of it from one answer, so that the numbers add up.

A slot is a container of one virtual core and ``SLOT_MB`` of memory, and a job is an application,
whose master lives in the ResourceManager and takes no slot.  Figures that YARN does not have are
under "railyard".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from railyard.cluster.ids import JobId, NodeId, job_of
from railyard.gateway.yarn.ids import container_id, job_id
from railyard.gateway.yarn.nodeaddresses import address_of
from railyard.resourcemanager.process.messages import (
    ClusterStatus,
    JobStatus,
    NodeStatus,
    StageStatus,
)

SLOT_MB = 1024
NODE_PORT = 45454  #: part of a node's id; nobody can connect to it
VERSION = "3.4.1"  #: of Hadoop, whose interfaces these are
_STATES = {"running": "RUNNING", "committing": "RUNNING", "succeeded": "FINISHED"}
_NO_CONTAINER_YET = "ACCEPTED"
#: {how far a living node is drained: its state}
_NODE_STATES = {"": "RUNNING", "draining": "DECOMMISSIONING", "drained": "DECOMMISSIONED"}


@dataclass(frozen=True)
class Numbers:
    """What YARN would say of a cluster at one instant.

    ``begun_ms`` is when it started, since 1970: part of the applications' ids.  ``url`` is where
    the client has found the gateway.
    """

    status: ClusterStatus
    begun_ms: int
    url: str = ""
    addresses: Mapping[NodeId, str] = field(default_factory=dict)  #: of nodes that have their own

    # Cluster -------------------------------------------------------------------------------------
    def info(self) -> dict[str, Any]:
        """``clusterInfo``."""
        version = f"{VERSION} by Railyard"
        return {
            "clusterInfo": {
                "id": self.begun_ms,
                "startedOn": self.begun_ms,
                "state": "STARTED",
                "haState": "ACTIVE",
                "rmStateStoreName": "none",
                "resourceManagerVersion": VERSION,
                "resourceManagerBuildVersion": version,
                "resourceManagerVersionBuiltOn": "",
                "hadoopVersion": VERSION,
                "hadoopBuildVersion": version,
                "hadoopVersionBuiltOn": "",
                "haZooKeeperConnectionState": "Could not find leader elector. Verify both HA and "
                "automatic failover are enabled.",
                "railyard": {
                    "scheduler": self.status.scheduler,
                    "flowScheduler": self.status.flow_scheduler,
                    "topology": self.status.topology,
                },
            }
        }

    def metrics(self) -> dict[str, Any]:
        """``clusterMetrics``: submitted = completed + pending + running + failed + killed, and
        total = available + allocated + reserved.
        """
        apps = Counter(self.state(job) for job in self.status.jobs)
        alive = self._alive()
        drains = Counter(node.drain for node in alive)
        used, total = self._used(), sum(map(_slots, alive))
        pending, running = apps[_NO_CONTAINER_YET], apps["RUNNING"]
        return {
            "clusterMetrics": {
                "appsSubmitted": len(self.status.jobs),
                "appsCompleted": apps["FINISHED"],
                "appsPending": pending,
                "appsRunning": running,
                "appsFailed": apps["FAILED"],
                "appsKilled": apps["KILLED"],
                "reservedMB": 0,
                "availableMB": (total - used) * SLOT_MB,
                "allocatedMB": used * SLOT_MB,
                "totalMB": total * SLOT_MB,
                "reservedVirtualCores": 0,
                "availableVirtualCores": total - used,
                "allocatedVirtualCores": used,
                "totalVirtualCores": total,
                "containersAllocated": used,
                "containersReserved": 0,
                "containersPending": 0,
                "totalNodes": len(self.status.nodes),
                "activeNodes": drains[""],
                "lostNodes": len(self.status.nodes) - len(alive),
                "unhealthyNodes": 0,
                "decommissioningNodes": drains["draining"],
                "decommissionedNodes": drains["drained"],
                "rebootedNodes": 0,
                "shutdownNodes": 0,
            }
        }

    def scheduler(self) -> dict[str, Any]:
        """``scheduler``: one queue, since the numbers of the cluster are true of it."""
        alive, used = self._alive(), self._used()
        total = sum(map(_slots, alive))
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
                    "numNodes": len(alive),
                    "usedNodeCapacity": used * SLOT_MB,
                    "availNodeCapacity": (total - used) * SLOT_MB,
                    "totalNodeCapacity": total * SLOT_MB,
                    "numContainers": used,
                    "queues": {"queue": []},
                    "railyard": {
                        "scheduler": self.status.scheduler,
                        "queues": [
                            {"queue": queue, "jobs": count}
                            for queue, count in sorted(self._waiting_or_running.items())
                        ],
                    },
                }
            }
        }

    # Nodes ---------------------------------------------------------------------------------------
    def node(self, node: NodeStatus) -> dict[str, Any]:
        """A node."""
        used, slots = len(node.attempts), _slots(node)
        if not node.alive:
            used = slots = 0
        return {
            "rack": f"/{node.rack}",
            "state": _NODE_STATES[node.drain] if node.alive else "LOST",
            "id": node_id(node),
            "nodeHostName": node.node,
            "nodeHTTPAddress": self.node_address(node),
            "lastHealthUpdate": self._ms(self.status.now_s),
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
        """Where its NodeManager's interface is."""
        return address_of(node.node, self.addresses, self.url.partition("//")[2])

    # Applications --------------------------------------------------------------------------------
    def app_id(self, job: JobStatus) -> str:
        """The id of a job as an application."""
        return job_id(self.begun_ms, job.job, "application")

    def state(self, job: JobStatus) -> str:
        """The application's state."""
        if job.state == "failed":
            return "KILLED" if job.stopped else "FAILED"
        state = _STATES.get(job.state, "RUNNING")
        if state == "RUNNING" and not job.progress and not self._running[job.job]:
            return _NO_CONTAINER_YET
        return state

    def app(self, job: JobStatus) -> dict[str, Any]:
        """An application."""
        state = self.state(job)
        ended = job.finished_s is not None
        running = self._running[job.job]
        end_s = self.status.now_s if job.finished_s is None else job.finished_s
        finals = {"FINISHED": "SUCCEEDED", "FAILED": "FAILED", "KILLED": "KILLED"}
        local, in_rack, elsewhere = job.locality
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
            "startedTime": self._ms(job.submitted_s),
            "launchTime": self._ms(job.submitted_s),
            "finishedTime": self._ms(end_s) if ended else 0,
            "elapsedTime": int(1000 * (end_s - job.submitted_s)),
            "amContainerLogs": "",
            "amHostHttpAddress": "",
            "allocatedMB": -1 if ended else running * SLOT_MB,
            "allocatedVCores": -1 if ended else running,
            "runningContainers": -1 if ended else running,
            "memorySeconds": int(job.slot_s * SLOT_MB),
            "vcoreSeconds": int(job.slot_s),
            "railyard": {
                "job": job.job,
                "waiting": job.waiting,
                "mapsOnNode": local,
                "mapsInRack": in_rack,
                "mapsElsewhere": elsewhere,
                "shuffledBytes": job.shuffled_bytes,
                "crossRackShuffleBytes": job.cross_rack_bytes,
                "maps": job.maps,
                "mapsDone": job.maps_done,
                "reduces": job.reduces,
                "reducesDone": job.reduces_done,
            },
        }

    def containers(self, job: JobId) -> list[dict[str, Any]]:
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
            for node in self._alive()
            for attempt in node.attempts
            if job_of(attempt) == job
        ]

    # ---------------------------------------------------------------------------------------------
    @cached_property
    def _running(self) -> Counter[JobId]:
        """{job: how many slots its attempts hold}."""
        return Counter(job_of(a) for node in self._alive() for a in node.attempts)

    @property
    def _waiting_or_running(self) -> Counter[str]:
        """{queue: how many of its jobs have not ended}."""
        return Counter(job.queue for job in self.status.jobs if job.finished_s is None)

    def _alive(self) -> list[NodeStatus]:
        return [node for node in self.status.nodes if node.alive]

    def _used(self) -> int:
        return sum(len(node.attempts) for node in self._alive())

    def _ms(self, time_s: float) -> int:
        return self.begun_ms + int(1000 * time_s)


def node_id(node: NodeStatus) -> str:
    """A node's id."""
    return f"{node.node}:{NODE_PORT}"


def _slots(node: NodeStatus) -> int:
    """Its slots: more than it should have while what runs in those that were taken ends."""
    return max(node.slots, len(node.attempts))


def stage_row(stage: StageStatus) -> dict[str, Any]:
    """A stage of a job, which YARN has no name for."""
    return {
        "name": stage.name,
        "reads": list(stage.reads),
        "tasks": stage.tasks,
        "done": stage.done,
        "waiting": stage.waiting,
        "planned": stage.planned,
    }


def listed(name: str, each: str, entries: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """A list as YARN has it: ``{"apps": {"app": [...]}}``, or ``{"apps": null}``."""
    found = list(entries)
    return {name: {each: found} if found else None}
