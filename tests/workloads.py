"""Small places and workloads for tests in virtual time."""

from __future__ import annotations

from typing import Any

from railyard.cluster.topology import Topology
from railyard.cluster.topologyfile import Compute, Links, RackShape, Storage
from railyard.jobs.workloads.model import Workload, WorkloadJob, WorkStage

MB = 10**6


def topology(racks: int = 1, nodes: int = 2, slots: int = 1, **tables: Any) -> Topology:
    """NICs and links of 100 MB/s, tasks of 50 MB/s, blocks of 100 MB with one replica."""
    usual = {
        "links": Links(nic=100e6, uplink=100e6),
        "storage": Storage(block=100 * MB, replication=1),
        "compute": Compute(map_rate=50e6, reduce_rate=50e6),
    }
    shape = RackShape(count=racks, nodes=nodes, slots=slots)
    return Topology(name="t", racks=shape, **(usual | tables))


def job_of(
    *stages: WorkStage, name: str = "job", submit_s: float = 0.0, **more: Any
) -> WorkloadJob:
    """A job of these stages, of the usual user."""
    return WorkloadJob(
        name=name, user="user", queue="default", submit_s=submit_s, stages=stages, **more
    )


def workload(*jobs: WorkloadJob) -> Workload:
    """These jobs."""
    return Workload(name="w", jobs=jobs)
