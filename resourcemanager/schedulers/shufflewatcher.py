"""ShuffleWatcher: each job in the few racks that cut its own bytes across racks.

Source: Ahmad et al., ShuffleWatcher: Shuffle-aware Scheduling in Multi-tenant MapReduce Clusters,
USENIX ATC 2014, from second hand: its abstract, and Corral's account (SIGCOMM 2015, section 6.1 b).
By the abstract a job's maps run where their output is on as few nodes as possible, which the
replicas of their input leave room for, its reduces on the nodes that have that output, and its
shuffle is put off or stretched while the network is busy, all as far as tenants keep their shares.
By Corral's account each job keeps to some racks, so that its bytes across racks are few, whatever
other jobs do; its input stays where HDFS put it, so that most maps read across racks.
``shufflewatcher`` is the latter: no shuffle is put off, and tenants have no order of their own.
Left open there, chosen here: on r racks a job reads from afar what has no replica there, and
shuffles D_S (r-1)/r across racks; the racks of the least sum are taken, of equal sums the fewest.
Racks are added one by one, the one that adds most of the input first, equal ones by chance.  D_S of
a job without a forecast is ``sir`` times its input.  Jobs are in the order of ``capacity``, so that
only the racks differ from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from railyard.cluster.errors import require
from railyard.cluster.ids import RackId, rack_of
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.interface.views import ClusterView, JobView
from railyard.resourcemanager.schedulers.shared.rackbound import RackBound, RackBoundConfig


class ShuffleWatcherConfig(RackBoundConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings "shufflewatcher.*"."""

    section: ClassVar[str] = "shufflewatcher"

    sir: float = 1.0  #: shuffle / input of a job without a forecast

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.sir >= 0, "shufflewatcher.sir", self.sir, "a number >= 0")


class ShuffleWatcher(RackBound):
    """Answers "order" and "tasks": those of ``capacity``, in the job's racks."""

    Config = ShuffleWatcherConfig
    section = "shufflewatcher"
    uses_forecasts = True

    def __init__(self, config: ShuffleWatcherConfig, cluster: ClusterView) -> None:
        super().__init__(config, cluster)
        self._sir = config.sir

    def job_submitted(self, job: JobView) -> None:
        racks = self._racks_for(job)
        if racks:
            self.bind(job, racks)

    def _racks_for(self, job: JobView) -> list[RackId]:
        """The racks with the least bytes across racks; none for a job that has nothing to cut."""
        inputs = [task.input for stage in job.stages.values() for task in stage.tasks]
        sizes = [
            (each.input_bytes, frozenset(map(rack_of, each.nodes))) for each in inputs if each.nodes
        ]
        input_bytes = sum(size_bytes for size_bytes, _ in sizes)
        shuffle_bytes = self._shuffle_bytes(job, sum(each.input_bytes for each in inputs))
        if not input_bytes and not shuffle_bytes:
            return []
        racks: list[RackId] = []
        best: tuple[float, int] | None = None
        local_bytes = 0
        for rack, added_bytes in self._by_input(sizes):
            racks.append(rack)
            local_bytes += added_bytes
            count = len(racks)
            crossing_bytes = input_bytes - local_bytes + shuffle_bytes * (count - 1) / count
            if best is None or crossing_bytes < best[0]:
                best = crossing_bytes, count
        return racks[: best[1]] if best else []

    def _shuffle_bytes(self, job: JobView, input_bytes: int) -> float:
        """Bytes that all stages of a job fetch."""
        if job.forecast is not None:
            return sum(stage.input_bytes for stage in job.forecast.stages if stage.reads)
        reading = sum(bool(stage.reads) for stage in job.stages.values())
        return self._sir * input_bytes * min(1, reading)

    def _by_input(self, sizes: list[tuple[int, frozenset[RackId]]]) -> Iterator[tuple[RackId, int]]:
        """All racks, each with the bytes of input that it adds to what those before it have."""
        left = [rack.id for rack in self.cluster.topology.rack_list()]
        self.cluster.random.shuffle(left)
        while left:
            added = dict.fromkeys(left, 0)
            for size_bytes, racks in sizes:
                for rack in racks:
                    if rack in added:
                        added[rack] += size_bytes
            rack = max(left, key=added.__getitem__)
            yield rack, added[rack]
            left.remove(rack)
            sizes = [(size_bytes, racks) for size_bytes, racks in sizes if rack not in racks]


RECIPE = Recipe(
    name="shufflewatcher",
    source="Ahmad et al., USENIX ATC 2014, as in Jalaparti et al., SIGCOMM 2015",
    order=ShuffleWatcher,
    tasks=ShuffleWatcher,
)
