"""What the tasks of a submitted job have to do, by size: read, compute, hand on or write."""

from __future__ import annotations

import math

from railyard.cluster.topology import Compute, Topology
from railyard.dfs.messages import BlockId
from railyard.jobs.workloads.model import WorkloadJob, WorkStage, split_by


class StageWork:
    """A stage's tasks.  All ``_bytes`` are the model's."""

    def __init__(
        self,
        stage: WorkStage,
        reader: WorkStage | None,
        blocks: tuple[tuple[BlockId, int], ...],
        compute: Compute,
    ) -> None:
        self.task_s = stage.task_s
        self.rate_bytes_per_s = _rate(stage, compute)
        self.blocks = blocks  #: one a task, with its bytes, if it reads files
        self._stretch = compute.stretch if compute.skew else None
        self._reader = reader  #: one of the stages that fetch its output, if any does
        shares = [size_bytes for _, size_bytes in blocks] if blocks else stage.weights
        #: what each task hands on or writes
        self.output_bytes = (
            split_by(stage.output_bytes, shares) if shares else stage.parts(stage.output_bytes)
        )
        self._partitions: dict[int, tuple[int, ...]] = {}

    def computing_s(self, task: int, input_bytes: int) -> float:
        """How long a task computes over its input on an ordinary node."""
        even_s = self.task_s + input_bytes / self.rate_bytes_per_s
        return even_s * self._stretch(task) if self._stretch else even_s

    def partition_bytes(self, task: int) -> tuple[int, ...]:
        """A task's shuffle output, by reader.  Tasks of equal output share the tuple."""
        if self._reader is None:
            return ()
        size_bytes = self.output_bytes[task]
        parts = self._partitions.get(size_bytes)
        if parts is None:
            parts = self._partitions[size_bytes] = tuple(self._reader.parts(size_bytes))
        return parts


class JobWork:
    """A job's stages, by name."""

    def __init__(
        self, job: WorkloadJob, topology: Topology, blocks: dict[str, list[tuple[BlockId, int]]]
    ) -> None:
        """``blocks`` are those of each of its files."""
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


def _rate(stage: WorkStage, compute: Compute) -> float:
    """Bytes/s at which a task works on its input: the stage's own, or the topology's."""
    if stage.rate_bytes_per_s is not None:
        return stage.rate_bytes_per_s
    if compute.mode == "real":
        return math.inf
    return compute.reduce_rate if stage.reads else compute.map_rate
