"""Workloads made of others: with inputs skewed over racks, and with fewer, larger tasks.

``skewed``: parts of an input go to racks by their shares (``jobs.skew``); real jobs that generate
input use the same functions.

``coarser``, so that a workload is simulated faster: ``grain`` tasks become one that works on all
their data; jobs, bytes and submission times stay.  On nodes with a ``grain``-th of the slots, each
``grain`` times as fast, a stage takes about as long as before, and the flows of a shuffle become
``grain`` times fewer.  What is lost is the parallelism of jobs with few tasks.

``in_waves``: on the same nodes, stages of very many waves have fewer, larger tasks.  A slot then
does in one task what it did in several, one after the other; what is lost is a part of a wave.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import msgspec

from railyard.jobs.skew import Skew
from railyard.jobs.workloads.model import InputFile, Workload, WorkloadJob, WorkStage, split_by


def rack_of_each(shares: Sequence[float], parts: int) -> list[int]:
    """The rack's number for each of ``parts`` equal parts of an input, by the racks' shares.

    Parts that follow one another lie in the same rack.  Numbers are rounded by the largest rest.
    """
    counts = split_by(parts, shares)
    return [rack for rack, count in enumerate(counts) for _ in range(count)]


def spread_files(files: Sequence[InputFile], shares: Sequence[float]) -> list[InputFile]:
    """The files of one folder, each whole in one rack, so that the folder has these shares."""
    racks = rack_of_each(shares, len(files))
    whole = [tuple(float(at == rack) for at in range(len(shares))) for rack in racks]
    return [_with([file], share)[0] for file, share in zip(files, whole, strict=True)]


def skewed(workload: Workload, skew: Skew, racks: int, seed: int) -> Workload:
    """The workload with skewed inputs on ``racks`` racks, each file or folder for itself.

    They replace the shares that the workload's generator has chosen.
    """
    placed: dict[str, InputFile] = {}  #: {path: file}; jobs may share files
    jobs = []
    for job in workload.jobs:
        by_data: dict[str, list[InputFile]] = {}  #: {folder, or file that is placed alone: files}
        for file in job.files:
            by_data.setdefault(file.folder or file.path, []).append(file)
        for data, files in by_data.items():
            shares = skew.shares(racks, f"{seed} {data}")
            for file in spread_files(files, shares) if files[0].folder else _with(files, shares):
                placed.setdefault(file.path, file)
        of_job = tuple([placed[file.path] for file in job.files])
        jobs.append(msgspec.structs.replace(job, files=of_job))
    return replace(workload, jobs=tuple(jobs))


def _with(files: Sequence[InputFile], shares: tuple[float, ...]) -> list[InputFile]:
    return [msgspec.structs.replace(file, shares=shares, nodes=()) for file in files]


def coarser(workload: Workload, grain: int) -> Workload:
    """The workload with ``grain`` tasks merged into one; its own rates are multiplied by it."""
    if grain == 1:
        return workload
    return replace(workload, jobs=tuple(_job(job, grain) for job in workload.jobs))


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
