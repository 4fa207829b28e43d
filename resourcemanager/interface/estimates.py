"""How long a stage's tasks take and how much they hand on: estimates, in one place.

A policy that asks has them as a part:

    class Mine(OrderPolicy):
        def __init__(self, config, cluster):
            super().__init__(config, cluster)
            self.estimates = Estimates(cluster)
            self.parts = (self.estimates,)

        def _work_s(self, stage):
            return stage.pending.count * self.estimates.computed_s(stage).value

Each figure says where it is from, the best first:

    "done"      those of the stage's tasks that are done
    "forecast"  the job's forecast, from its earlier runs
    "assumed"   the topology's rates, and as many bytes out as in

Times are of a task like most: of those that are done the median, which stragglers hardly move; what
is added up of it is too low by them.  Bytes are sums, out for in: large tasks count for more.
Reading and computing are estimated apart, as in Tetrium (Hung et al., EuroSys 2018, section 5): how
long a task reads depends on where it runs and on who else uses the network, how long it computes
hardly.

Left open there, chosen here: all of a stage's tasks are taken for alike; a task that runs twice
counts twice; of an attempt that has not ended nothing is known (its progress says how long it will
run, see ``speculation``).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from railyard.cluster.ids import StageId
from railyard.cluster.topology import Topology
from railyard.cluster.topologyfile import Compute
from railyard.resourcemanager.interface.forecast import StageForecast
from railyard.resourcemanager.interface.policies import NoConfig, Policy
from railyard.resourcemanager.interface.views import ClusterView, JobView, StageView, TaskView

Source = Literal["done", "forecast", "assumed"]


class Figure(NamedTuple):
    """An estimated number, and where it is from."""

    value: float
    source: Source


# From forecasts ----------------------------------------------------------------------------------
def predicted_rate(stage: StageForecast, compute: Compute) -> float:
    """Bytes/s of input at which a task computes: its own rate, or the topology's."""
    return stage.rate_bytes_per_s or usual_rate(compute, reads=bool(stage.reads))


def predicted_task_s(stage: StageForecast, compute: Compute, error: float = 1.0) -> float:
    """For how long a task should compute; ``error``: a factor of its predicted input."""
    task_bytes = stage.input_bytes * error / stage.tasks
    return stage.task_s + task_bytes / predicted_rate(stage, compute)


def usual_rate(compute: Compute, *, reads: bool) -> float:
    """The topology's rate of tasks that read stages, or files; also where code sets the time."""
    return compute.reduce_rate if reads else compute.map_rate


def slot_bytes_per_s(topology: Topology) -> float:
    """A slot's share of the network if all slots read at once, on average.

    A rack gets no more than its downlink or all its NICs carry.
    """
    racks = topology.rack_list()
    nics = (sum(node.nic_bytes_per_s for node in rack.nodes) for rack in racks)
    incoming = (min(rack.downlink_bytes_per_s, nic) for rack, nic in zip(racks, nics, strict=True))
    return sum(incoming) / max(1, topology.slots)


# From what happens -------------------------------------------------------------------------------
class _Done(msgspec.Struct):
    """What is known of a stage's done tasks.  Times ascend."""

    read_s: list[float] = []
    computed_s: list[float] = []
    duration_s: list[float] = []
    input_bytes: int = 0  #: read from files, by all of them
    output_bytes: int = 0  #: handed on by all of them


class Estimates(Policy):
    """The estimates of all stages that run.

    A done task costs O(log tasks) comparisons; an answer O(stages of the job), the first about a
    stage that reads files O(its tasks).
    """

    def __init__(self, cluster: ClusterView) -> None:
        super().__init__(NoConfig(), cluster)
        self._compute = cluster.topology.compute
        self._slot_bytes_per_s = slot_bytes_per_s(cluster.topology)
        self._done: dict[StageId, _Done] = {}  #: of stages with done tasks
        self._file_bytes: dict[StageId, int] = {}  #: input of stages that read files

    # Answers -------------------------------------------------------------------------------------
    def read_s(self, stage: StageView) -> Figure:
        """Seconds for which a task reads and fetches from other nodes.

        Before one is done: none for a map, whose block may be at its node; of a reduce, as if all
        slots of the cluster fetched at once.
        """
        done = self._done.get(stage.id)
        if done is not None:
            return Figure(median(done.read_s), "done")
        task_bytes = self.input_bytes(stage).value / stage.size if stage.reads else 0.0
        return Figure(task_bytes / self._slot_bytes_per_s, _source(stage))

    def computed_s(self, stage: StageView) -> Figure:
        """Seconds for which a task computes."""
        done = self._done.get(stage.id)
        if done is not None:
            return Figure(median(done.computed_s), "done")
        forecast, compute = _forecast(stage), self._compute
        task_bytes = self.input_bytes(stage).value / stage.size
        if forecast is None:
            return Figure(task_bytes / usual_rate(compute, reads=bool(stage.reads)), "assumed")
        return Figure(forecast.task_s + task_bytes / predicted_rate(forecast, compute), "forecast")

    def duration_s(self, stage: StageView) -> Figure:
        """Seconds for which a task holds its slot.

        Of done tasks that includes all else: waiting for tasks that it reads, writing its file.
        """
        done = self._done.get(stage.id)
        if done is not None:
            return Figure(median(done.duration_s), "done")
        return Figure(self.read_s(stage).value + self.computed_s(stage).value, _source(stage))

    def durations_s(self, stage: StageView) -> Sequence[float]:
        """Seconds for which each done task held its slot, ascending."""
        done = self._done.get(stage.id)
        return () if done is None else done.duration_s

    def input_bytes(self, stage: StageView) -> Figure:
        """Bytes that all its tasks read from files, which are known, or from other stages."""
        if stage.reads:
            parts = [self.output_bytes(source) for source in stage.reads]
            source = max((part.source for part in parts), key=_WORSE.__getitem__)
            return Figure(sum([part.value for part in parts]), source)
        known = self._file_bytes.get(stage.id)
        if known is None:
            known = sum([task.input.input_bytes for task in stage.tasks])
            self._file_bytes[stage.id] = known
        forecast = None if known else _forecast(stage)
        if forecast is not None:
            return Figure(forecast.input_bytes, "forecast")
        return Figure(known, "done")

    def output_bytes(self, stage: StageView) -> Figure:
        """Bytes that the tasks which are needed hand on to each stage that reads them."""
        done, forecast = self._done.get(stage.id), _forecast(stage)
        needed = stage.needed / stage.size
        if done is not None and done.input_bytes:
            selectivity = done.output_bytes / done.input_bytes
            return Figure(selectivity * self.input_bytes(stage).value * needed, "done")
        if done is not None:
            return Figure(done.output_bytes / len(done.duration_s) * stage.needed, "done")
        if not stage.readers:
            return Figure(0.0, "assumed")
        if forecast is not None:
            return Figure(forecast.output_bytes * needed, "forecast")
        return Figure(self.input_bytes(stage).value * needed, "assumed")

    # What has happened ---------------------------------------------------------------------------
    def task_done(self, task: TaskView) -> None:
        winner = task.winner
        if winner is None or winner.ended_s is None:
            return
        done = self._done.setdefault(task.stage.id, _Done())
        insort(done.read_s, winner.read_s)
        insort(done.computed_s, winner.computed_s)
        insort(done.duration_s, winner.ended_s - winner.launched_s)
        done.input_bytes += task.input.input_bytes
        done.output_bytes += winner.shuffle_bytes

    def job_ended(self, job: JobView) -> None:
        for stage in job.stages.values():
            self._done.pop(stage.id, None)
            self._file_bytes.pop(stage.id, None)


#: The further down, the less a figure is worth.
_WORSE: dict[Source, int] = {"done": 0, "forecast": 1, "assumed": 2}


def _forecast(stage: StageView) -> StageForecast | None:
    """The forecast of a stage; None of an ad hoc job, or if its stages are called otherwise."""
    forecast = stage.job.forecast
    if forecast is None:
        return None
    return next((each for each in forecast.stages if each.name == stage.name), None)


def _source(stage: StageView) -> Source:
    """Where the estimate of a stage without done tasks is from."""
    return "assumed" if _forecast(stage) is None else "forecast"


def median(ascending: Sequence[float]) -> float:
    """The middle number, or the mean of the two in the middle; there is at least one."""
    middle = len(ascending) // 2
    if len(ascending) % 2:
        return ascending[middle]
    return (ascending[middle - 1] + ascending[middle]) / 2
