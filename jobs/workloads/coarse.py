"""Makes a workload coarser: fewer, larger tasks, so that it is simulated faster.

``coarser``: ``grain`` tasks become one that works on all their data; jobs, bytes and submission
times stay.  On nodes with a ``grain``-th of the slots, each ``grain`` times as fast, a stage takes
about as long as before, and the flows of a shuffle become ``grain`` times fewer.  What is lost is
the parallelism of jobs with few tasks.

``in_waves``: on the same nodes, stages of very many waves have fewer, larger tasks.  A slot then
does in one task what it did in several, one after the other; what is lost is a part of a wave.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

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


def in_waves(workload: Workload, slots: int, waves: int) -> tuple[Workload, int]:
    """The workload with at least so many waves of maps where it had more; the most tasks in one.

    A stage has as many waves as each of the ``slots`` has tasks of it.  Its neighbouring blocks
    become one, but for blocks of files that other stages or jobs read, too.  (The same, 1): none
    has twice as many waves.
    """
    readers = Counter(path for job in workload.jobs for stage in job.stages for path in stage.files)
    most, jobs = 1, []
    for job in workload.jobs:
        for stage in job.stages:
            grain = stage.tasks // (waves * slots)
            is_own = stage.files and all(readers[path] == 1 for path in stage.files)
            if grain > 1 and is_own and not stage.weights:
                job, most = _larger_tasks(job, stage, grain), max(most, grain)
        jobs.append(job)
    return (replace(workload, jobs=tuple(jobs)), most) if most > 1 else (workload, 1)


def _larger_tasks(job: WorkloadJob, stage: WorkStage, grain: int) -> WorkloadJob:
    """The job with ``grain`` tasks of a stage that reads files as one, which takes as long."""
    read = set(stage.files)
    larger = list(_larger_files([file for file in job.files if file.path in read], grain))
    merged = msgspec.structs.replace(
        stage,
        files=tuple(file.path for file in larger),
        tasks=sum(file.blocks for file in larger),
        needed=-(-stage.needed // grain),
        task_s=stage.task_s * grain,
    )
    others = [file for file in job.files if file.path not in read]
    stages = tuple(merged if each is stage else each for each in job.stages)
    return msgspec.structs.replace(job, files=(*larger, *others), stages=stages)


def _larger_files(files: list[InputFile], grain: int) -> Iterator[InputFile]:
    """Files of larger blocks; of neighbours that are a block each, ``grain`` become one file."""
    whole: list[InputFile] = []  #: of a block each, alike

    def one() -> Iterator[InputFile]:
        if whole:
            size = sum(file.size_bytes for file in whole)
            yield msgspec.structs.replace(whole[0], size_bytes=size, block_bytes=size, nodes=())
            whole.clear()

    for file in files:
        is_like = not whole or (file.folder, file.shares) == (whole[0].folder, whole[0].shares)
        if file.blocks > 1 or not is_like or len(whole) == grain:
            yield from one()
        if file.blocks > 1:
            yield _file(file, grain)
        else:
            whole.append(file)
    yield from one()
