"""Makes a workload coarser: fewer, larger tasks, so that it is simulated faster.

``grain`` tasks become one that works on all their data; jobs, bytes and submission times stay.  On
nodes with a ``grain``-th of the slots, each ``grain`` times as fast, a stage takes about as long as
before, and the flows of a shuffle become ``grain`` times fewer.  What is lost is the parallelism of
jobs with few tasks.
"""

from __future__ import annotations

import msgspec

from railyard.jobs.workloads.model import InputFile, Workload, WorkloadJob, WorkStage


def coarser(workload: Workload, grain: int) -> Workload:
    """The workload with ``grain`` tasks merged into one; its own rates are multiplied by it."""
    if grain == 1:
        return workload
    return Workload(
        name=workload.name,
        source=workload.source,
        jobs=tuple(_job(job, grain) for job in workload.jobs),
        statistics=workload.statistics,
        sites=workload.sites,
    )


def _job(job: WorkloadJob, grain: int) -> WorkloadJob:
    files = tuple(_file(file, grain) for file in job.files)
    blocks = {file.path: file.blocks for file in files}
    stages = tuple(_stage(stage, blocks, grain) for stage in job.stages)
    return msgspec.structs.replace(job, files=files, stages=stages)


def _file(file: InputFile, grain: int) -> InputFile:
    """The file with larger blocks, and without ``nodes``, which were those of the old blocks."""
    return msgspec.structs.replace(file, block_bytes=file.block_bytes * grain, nodes=())


def _stage(stage: WorkStage, blocks: dict[str, int], grain: int) -> WorkStage:
    rate = stage.rate_bytes_per_s
    groups = [stage.weights[at : at + grain] for at in range(0, len(stage.weights), grain)]
    tasks = sum(blocks[path] for path in stage.files) if stage.files else -(-stage.tasks // grain)
    return msgspec.structs.replace(
        stage,
        tasks=tasks,
        rate_bytes_per_s=None if rate is None else rate * grain,
        weights=tuple(sum(group) for group in groups),
    )
