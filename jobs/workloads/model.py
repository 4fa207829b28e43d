"""A workload: jobs as they are submitted over time, by size and shape, without code or data.

A job reads files block by block, and its stages read one another's output: the graph of
``jobs.model.StageSpec`` with bytes and times.  All sizes are in the model's bytes, before scaling,
and all times in seconds of the model's clock.

Never here: placement of data and tasks, which the block store and the schedulers decide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from railyard.cluster.ids import NodeId


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
        """Number of tasks of all stages."""
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
        """Whether the measured value is the published one, within the tolerance."""
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
        """Number of tasks of all jobs."""
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
