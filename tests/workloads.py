"""Small places and workloads for tests in virtual time, and whether a workload can be run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from railyard.cluster.errors import UsageError, require
from railyard.cluster.topology import Topology
from railyard.cluster.topologyfile import Compute, Links, RackShape, Storage
from railyard.jobs.model import StageSpec, check_stages
from railyard.jobs.workloads.model import InputFile, Workload, WorkloadJob, WorkStage

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


def check_workload(jobs: Sequence[WorkloadJob]) -> None:
    """Raise a one-line ``UsageError`` with the job's name unless each job can be run."""
    names: set[str] = set()
    shared: dict[str, InputFile] = {}
    for job in jobs:
        where = f"job {job.name}"
        if job.name in names:
            raise UsageError(f"{where}: there are two of that name")
        if job.after and job.after not in names:
            raise UsageError(f'{where}: after = "{job.after}": need the name of an earlier job')
        names.add(job.name)
        try:
            check_stages(stage_specs(job))
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from None
        require(0 <= job.submit_s < math.inf, f"{where}: submit_s", job.submit_s, "seconds >= 0")
        copies = job.output_replication
        require(copies >= 0, f"{where}: output_replication", copies, "a whole number >= 0")
        for file in job.files:
            if shared.setdefault(file.path, file) != file:
                raise UsageError(f"{where}: file {file.path} is another in an earlier job")
            _check_file(file, f"{where}: file {file.path}")
        for stage in job.stages:
            _check_stage(stage, job, f"{where}: stage {stage.name}")


def _check_file(file: InputFile, where: str) -> None:
    require(file.size_bytes > 0, f"{where}: size_bytes", file.size_bytes, "at least one byte")
    require(file.block_bytes > 0, f"{where}: block_bytes", file.block_bytes, "at least one byte")
    if file.shares:
        sound = min(file.shares) >= 0 and abs(math.fsum(file.shares) - 1) < 1e-9
        require(sound, f"{where}: shares", file.shares, "numbers >= 0 with sum 1")
    if file.nodes:
        sound = len(file.nodes) == file.blocks and all(file.nodes)
        require(sound, f"{where}: nodes", file.nodes, f"nodes for each of {file.blocks} blocks")


def _check_stage(stage: WorkStage, job: WorkloadJob, where: str) -> None:
    require(stage.output_bytes >= 0, f"{where}: output_bytes", stage.output_bytes, "bytes >= 0")
    require(0 <= stage.task_s < math.inf, f"{where}: task_s", stage.task_s, "seconds >= 0")
    if stage.weights:
        sound = len(stage.weights) == stage.tasks and min(stage.weights) >= 0 < sum(stage.weights)
        require(sound, f"{where}: weights", stage.weights, "a number >= 0 for each task, not all 0")
    rate = stage.rate_bytes_per_s
    require(rate is None or rate > 0, f"{where}: rate_bytes_per_s", rate, "a rate above 0")
    require(stage.tasks >= 1, f"{where}: tasks", stage.tasks, "a whole number >= 1")
    if not stage.files:
        return
    if stage.reads:
        raise UsageError(f"{where}: reads files and stages: need one of the two")
    files = {file.path: file for file in job.files}
    for path in stage.files:
        require(path in files, f"{where}: files", path, "a file of the job")
    blocks = sum(files[path].blocks for path in stage.files)
    right = f"{blocks}, as many as its files have blocks"
    require(stage.tasks == blocks, f"{where}: tasks", stage.tasks, right)


def stage_specs(job: WorkloadJob) -> tuple[StageSpec, ...]:
    """The stages of a job as the ResourceManager knows them."""
    return tuple(
        StageSpec(
            name=stage.name,
            reads=stage.reads,
            tasks=0 if stage.files and not stage.reads else stage.tasks,
        )
        for stage in job.stages
    )
