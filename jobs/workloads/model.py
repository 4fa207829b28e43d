"""A workload: jobs as they are submitted over time, by size and shape, without code or data.

A job reads files block by block, and its stages read one another's output: the graph of
``jobs.model.StageSpec`` with bytes and times.  All sizes are in the model's bytes, before scaling,
and all times in seconds of the model's clock.

Workloads are made of others.  ``skewed``: parts of an input go to racks by their shares
(``jobs.skew``); real jobs that generate input use the same functions.  ``coarser``, so that a
workload is simulated faster: ``grain`` tasks become one that works on all their data; jobs, bytes
and submission times stay.  On nodes with a ``grain``-th of the slots, each ``grain`` times as fast,
a stage takes about as long as before, and the flows of a shuffle become ``grain`` times fewer.
What is lost is the parallelism of jobs with few tasks.  ``in_waves``: on the same nodes, stages of
very many waves have fewer, larger tasks.  A slot then does in one task what it did in several, one
after the other; what is lost is a part of a wave.

Never here: placement of data and tasks, which the block store and the schedulers decide.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec

from railyard.cluster.ids import NodeId
from railyard.jobs.skew import Skew


class InputFile(msgspec.Struct, frozen=True, kw_only=True):
    """An input file, which is in the block store before its job is submitted."""

    path: str  #: jobs with the same path share the file, and must have equal ``InputFile``s
    folder: str = ""  #: folder of data that is placed as a whole; "" = the file is placed alone
    size_bytes: int  #: > 0
    block_bytes: int  #: a task reads one block; the last may be shorter
    #: share of the blocks with their first replica in rack (or site) r0, r1, ...; sums to 1; the
    #: other replicas go by the store's rule.  () = the data policy decides
    shares: tuple[float, ...] = ()
    #: the nodes of each block, if they are known from another run; () = they are not
    nodes: tuple[tuple[NodeId, ...], ...] = ()

    @property
    def blocks(self) -> int:
        """Number of blocks, and so of the tasks that read the file."""
        return -(-self.size_bytes // self.block_bytes)

    def block_sizes(self) -> list[int]:
        """Size of each block in bytes."""
        full, rest = divmod(self.size_bytes, self.block_bytes)
        return [self.block_bytes] * full + ([rest] if rest else [])


class WorkStage(msgspec.Struct, frozen=True, kw_only=True):
    """A stage, which reads files, or earlier stages, or nothing."""

    name: str  #: small letters only: "m" and "r" in plain MapReduce
    reads: tuple[str, ...] = ()  #: names of stages; each task fetches a partition of their outputs
    files: tuple[str, ...] = ()  #: paths of the job's files
    tasks: int  #: >= 1; one per block if it reads files
    #: how many of them are enough, whichever end first; 0 = all, as of a stage that nobody reads
    needed: int = 0
    #: total of all tasks; fetched whole by each reader, or stored if no stage reads it
    output_bytes: int
    #: once a task has its input, it computes for ``task_s`` + input bytes / ``rate_bytes_per_s``;
    #: a rate of None = the topology's
    task_s: float = 0.0
    rate_bytes_per_s: float | None = None
    weights: tuple[float, ...] = ()  #: proportions of the tasks' fetched bytes; () = equal

    def parts(self, size_bytes: int) -> list[int]:
        """``size_bytes`` split over the tasks by their weights; the sum is exact.  O(tasks)."""
        if self.weights:
            return split_by(size_bytes, self.weights)
        part, odd = divmod(size_bytes, self.tasks)
        return [part + (task < odd) for task in range(self.tasks)]


class Recurrence(msgspec.Struct, frozen=True, kw_only=True):
    """An instance of a recurring job, and its forecast from earlier days.

    The forecast is this job with all sizes multiplied by ``size_ratio``, submitted at ``submit_s``.
    """

    name: str  #: name of the recurring job, shared by its instances
    day: int = 0  #: day of this instance; 0 is a Monday
    size_ratio: float = 1.0  #: predicted bytes / actual bytes
    submit_s: float = 0.0  #: predicted time of submission


class WorkloadJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job of a workload, with its user, its submission time, its stages and its files."""

    name: str  #: unique in the workload
    user: str
    queue: str
    submit_s: float  #: from the start of the workload
    #: name of an earlier job: this one is its next step, submitted once that has ended well; the
    #: two, and steps after it, count as one job.  "" = it is submitted at ``submit_s``
    after: str = ""
    stages: tuple[WorkStage, ...]  #: each after those that it reads
    files: tuple[InputFile, ...] = ()
    output_replication: int = 0  #: replicas of its output; 0 = the block store's default
    recurrence: Recurrence | None = None  #: None = an ad hoc job, which is not predicted

    @property
    def input_bytes(self) -> int:
        """Bytes read from the block store."""
        return sum(file.size_bytes for file in self.files)

    @property
    def shuffle_bytes(self) -> int:
        """Bytes that all stages fetch from one another."""
        sizes = {stage.name: stage.output_bytes for stage in self.stages}
        return sum(sizes[read] for stage in self.stages for read in stage.reads)

    @property
    def output_bytes(self) -> int:
        """Bytes written to the block store, before replication."""
        read = {name for stage in self.stages for name in stage.reads}
        return sum(stage.output_bytes for stage in self.stages if stage.name not in read)

    @property
    def tasks(self) -> int:
        return sum(stage.tasks for stage in self.stages)

    def stage_input_bytes(self) -> dict[str, int]:
        """{Stage: bytes that it reads or fetches}."""
        outputs = {stage.name: stage.output_bytes for stage in self.stages}
        files = {file.path: file.size_bytes for file in self.files}
        return {
            stage.name: sum(files[path] for path in stage.files)
            + sum(outputs[name] for name in stage.reads)
            for stage in self.stages
        }

    def predicted(self) -> WorkloadJob | None:
        """The job as predicted; None if it is not.

        All sizes and the numbers of tasks that read blocks are off by the ratio; other numbers of
        tasks are configured, and so known.
        """
        past = self.recurrence
        if past is None:
            return None
        ratio = past.size_ratio
        files = tuple(
            msgspec.structs.replace(file, size_bytes=max(1, round(file.size_bytes * ratio)))
            for file in self.files
        )
        blocks = {file.path: file.blocks for file in files}
        stages = tuple(
            msgspec.structs.replace(
                stage,
                output_bytes=round(stage.output_bytes * ratio),
                tasks=sum(blocks[path] for path in stage.files) if stage.files else stage.tasks,
            )
            for stage in self.stages
        )
        return msgspec.structs.replace(self, submit_s=past.submit_s, files=files, stages=stages)


@dataclass(frozen=True, slots=True)
class Statistic:
    """A statistic of a workload, with its published value."""

    name: str  #: "input, p50"
    unit: str  #: "bytes", "s", "share", or "" for a count
    measured: float
    published: tuple[float, float] | None = None  #: least and most; equal if it is one number
    tolerance: float = 0.0  #: share of the published value by which the measured one may differ
    note: str = ""  #: section or table where it is published

    @property
    def holds(self) -> bool:
        if self.published is None:
            return True
        least, most = self.published
        return least * (1 - self.tolerance) <= self.measured <= most * (1 + self.tolerance)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Jobs in the order of their submission, and their statistics."""

    name: str
    jobs: tuple[WorkloadJob, ...]
    statistics: tuple[Statistic, ...] = ()
    sites: int = 0  #: number of racks or sites in its files' ``shares``; 0 = there are none

    @property
    def tasks(self) -> int:
        return sum(job.tasks for job in self.jobs)


def split_by(size_bytes: int, weights: Sequence[float]) -> list[int]:
    """Whole bytes in proportion to the weights; the largest remainders are rounded up."""
    total = math.fsum(weights)
    wanted = [size_bytes * (weight / total) for weight in weights]
    parts = [int(part) for part in wanted]
    left = size_bytes - sum(parts)
    if left < 0 or left > len(parts):  # floats are exact up to 2**53: adjust the largest part
        parts[parts.index(max(parts))] += left
        return parts
    by_rest = sorted(range(len(parts)), key=lambda at: (parts[at] - wanted[at], at))
    for at in by_rest[:left]:
        parts[at] += 1
    return parts


# Workloads made of others ------------------------------------------------------------------------
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
    return replace(workload, jobs=tuple(_coarse_job(job, grain) for job in workload.jobs))


def _coarse_job(job: WorkloadJob, grain: int) -> WorkloadJob:
    files = tuple(_coarse_file(file, grain) for file in job.files)
    blocks = {file.path: file.blocks for file in files}
    stages = tuple(_coarse_stage(stage, blocks, grain) for stage in job.stages)
    return msgspec.structs.replace(job, files=files, stages=stages)


def _coarse_file(file: InputFile, grain: int) -> InputFile:
    """The file with larger blocks, and without ``nodes``, which were those of the old blocks."""
    return msgspec.structs.replace(file, block_bytes=file.block_bytes * grain, nodes=())


def _coarse_stage(stage: WorkStage, blocks: dict[str, int], grain: int) -> WorkStage:
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
            yield _coarse_file(file, grain)
        else:
            whole.append(file)
    yield from one()
