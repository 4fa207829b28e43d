"""The work of a job's tasks in bytes and seconds: what each reads, computes and outputs."""

from __future__ import annotations

import math

from railyard.cluster.ids import AttemptId
from railyard.cluster.topologies.tables import Compute
from railyard.cluster.topology import Topology
from railyard.dfs.messages.blocks import BlockId
from railyard.jobs.workloads.model import WorkloadJob, WorkStage, split_by


class StageWork:
    """The work of one stage's tasks.  All sizes are in the model's bytes."""

    def __init__(
        self,
        stage: WorkStage,
        reader: WorkStage | None,
        blocks: tuple[tuple[BlockId, int], ...],
        compute: Compute,
    ) -> None:
        self.reads = stage.reads
        self.task_s = stage.task_s
        self.rate_bytes_per_s = rate_of(stage, compute)
        self.blocks = blocks  #: each task's (block, bytes), if the stage reads files
        self._stretch = compute.stretch if compute.skew else None
        self._straggle = compute.straggle if compute.stragglers else None
        self._reader = reader  #: the first stage that fetches its output, if any
        shares = [size_bytes for _, size_bytes in blocks] if blocks else stage.weights
        #: each task's output: for readers to fetch, or written to a file
        self.output_bytes = (
            split_by(stage.output_bytes, shares) if shares else stage.parts(stage.output_bytes)
        )
        self._partitions: dict[int, tuple[int, ...]] = {}

    def computing_s(self, task: int, input_bytes: int) -> float:
        """Seconds for which a task computes over its input on an ideal node."""
        even_s = self.task_s + input_bytes / self.rate_bytes_per_s
        return even_s * self._stretch(task) if self._stretch else even_s

    def straggle(self, attempt: AttemptId, seed: int) -> float:
        """The factor of an attempt's computing time, see ``Compute.straggle``."""
        return self._straggle(attempt, seed) if self._straggle else 1.0

    def partition_bytes(self, task: int) -> tuple[int, ...]:
        """Bytes of a task's output for each reading task; equal outputs share a tuple."""
        if self._reader is None:
            return ()
        size_bytes = self.output_bytes[task]
        parts = self._partitions.get(size_bytes)
        if parts is None:
            parts = self._partitions[size_bytes] = tuple(self._reader.parts(size_bytes))
        return parts


class JobWork:
    """The work of a job's stages, by the stage's name."""

    def __init__(
        self, job: WorkloadJob, topology: Topology, blocks: dict[str, list[tuple[BlockId, int]]]
    ) -> None:
        """``blocks``: {path of an input file: its (block, bytes)}."""
        self.job = job
        readers = {name: stage for stage in reversed(job.stages) for name in stage.reads}
        self.stages = {
            stage.name: StageWork(
                stage,
                readers.get(stage.name),
                tuple(block for path in stage.files for block in blocks[path]),
                topology.compute,
            )
            for stage in job.stages
        }


def rate_of(stage: WorkStage, compute: Compute) -> float:
    """Bytes/s at which a task computes: the stage's own rate, or the topology's."""
    if stage.rate_bytes_per_s is not None:
        return stage.rate_bytes_per_s
    if compute.mode == "real":
        return math.inf
    return compute.reduce_rate if stage.reads else compute.map_rate
