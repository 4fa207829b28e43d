"""Task graphs of jobs: C_ij, D_iuv, the states of tasks, and the longest paths (III, IV-C).

Stages are all-to-all: a task has an edge from each task of the stages that its own reads.  A map
with a block of input has an edge from a task without duration on each node that holds the block.
Left open there, chosen here: of a job without forecast, the topology's rates and equal edges, as
``Estimates`` has them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

from railyard.cluster.ids import StageId
from railyard.netemu.model.network import Network
from railyard.netemu.model.observed import LinkState, links_as_stated
from railyard.resourcemanager.interface.estimates import Estimates
from railyard.resourcemanager.interface.views import ClusterView, JobView, StageView, TaskView

#: The five states of a task (Fig. 5).
State = Literal["unscheduled", "pre-scheduled", "scheduled", "in execution", "completed"]

#: The core's states of tasks that have begun.
_BEGUN: dict[str, State] = {
    "running": "in execution",
    "kept": "completed",
    "done": "completed",
    "left": "completed",
}


def state_of(task: TaskView, allocated: Literal["pre-scheduled", "scheduled"] | None) -> State:
    """The state of a task; ``allocated``: how it is in a server's queue, None if it is in none."""
    return _BEGUN.get(task.state) or allocated or "unscheduled"


class TaskGraphs:
    """What is known of the graphs of all jobs."""

    def __init__(self, cluster: ClusterView, estimates: Estimates) -> None:
        self._estimates = estimates
        stated = links_as_stated(cluster.topology.derived(Network))
        self._mean_bytes_per_s = mean_capacity(stated.values())
        #: {stage: the longest path from one of its tasks to the end of its job, the task included}
        self._longest_s: dict[StageId, float] = {}

    def submitted(self, job: JobView) -> None:
        """Find the longest paths of a job, with what is known of it as it comes."""
        for stage in reversed(list(job.stages.values())):
            edge_bytes = [self.equal_edge(stage, reader) for reader in stage.readers]
            after = zip(stage.readers, edge_bytes, strict=True)
            after_s = [self.remaining_s(reader, size_bytes) for reader, size_bytes in after]
            self._longest_s[stage.id] = self.execution_s(stage) + max(after_s, default=0.0)

    def ended(self, job: JobView) -> None:
        """Forget a job."""
        for stage in job.stages.values():
            self._longest_s.pop(stage.id, None)

    def execution_s(self, stage: StageView) -> float:
        """C_ij of a stage's tasks."""
        return self._estimates.computed_s(stage).value

    def work_s(self, job: JobView) -> float:
        """C_ij of all tasks of a job, added up."""
        return sum([stage.needed * self.execution_s(stage) for stage in job.stages.values()])

    def edge_bytes(self, head: TaskView, tail: TaskView) -> float:
        """D_iuv from a task, ``head``, to one that reads it, ``tail``."""
        winner = head.winner
        if winner is not None and winner.partition_bytes:
            return float(winner.partition_bytes[tail.index])
        return self.equal_edge(head.stage, tail.stage)

    def remaining_s(self, stage: StageView, size_bytes: float) -> float:
        """The longest path from an edge of so many bytes into a stage, to the end of its job.

        Edges count with the mean capacity of all switches.
        """
        return self.transfer_s(size_bytes) + self._longest_s[stage.id]

    def longest_s(self, stage: StageView) -> float:
        """The longest path from a task of a stage, itself included: its upward rank."""
        return self._longest_s[stage.id]

    def transfer_s(self, size_bytes: float) -> float:
        """How long so many bytes take at the mean capacity of all switches."""
        return size_bytes / self._mean_bytes_per_s

    def equal_edge(self, source: StageView, reader: StageView) -> float:
        """D_iuv, if all of a stage's edges are equal."""
        whole = self._estimates.output_bytes(source).value
        return whole / (source.needed * reader.size)


def mean_capacity(links: Iterable[LinkState]) -> float:
    """The mean capacity of all switches, in bytes/s; of unlimited ones alone, inf."""
    limits = [link.capacity_bytes_per_s for link in links]
    limited = [limit for limit in limits if limit < math.inf]
    return sum(limited) / len(limited) if limited else math.inf
