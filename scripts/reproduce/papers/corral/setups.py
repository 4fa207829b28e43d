"""What Corral's experiments have in common: workloads, topologies, settings.

But for when jobs come, nothing is set that a user of ``corral-7x30``, of the workloads and of the
schedulers does not get; what these leave open is said there, and by ``railyard schedulers
--settings``.  Reduces start at 5 % of the maps, as in the paper's Hadoop 2.4.

Left open there, chosen here with seeds 1 to 3, with the paper's numbers in view; other seeds are
reported:
* Jobs online come over 12 min (W1) and 15 min (W3), W2's over the hour of the paper.  So slots
  compute for about half of the time; over an hour W1's jobs hardly meet.
* Each query reads tables of its own: Corral "assumes that each job reads its own dataset" (7).
docs/reproduce.md has what came of other choices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from railyard.cluster.units import format_duration
from railyard.scripts.reproduce.figures import Line, Published, Setup, against
from railyard.scripts.reproduce.measures import Measure
from railyard.scripts.reproduce.smaller import Coarser

BASE = "capacity"
AGAINST = "Yarn-CS (capacity)"
CORRAL = ("corral",)
RIVALS = ("corral", "local-shuffle", "shufflewatcher")
BATCH = "arrivals=batch"


@dataclass(frozen=True)
class MapReduce:
    """A MapReduce workload of the paper."""

    name: str
    jobs: int
    window_s: float  #: over how long they come
    quick_grain: int  #: tasks made one in quick figures

    @property
    def online(self) -> str:
        """The option for jobs that come over time."""
        return f"window={self.window_s:g}s"

    @property
    def smaller(self) -> str:
        """Over what time its jobs come, for the reader."""
        return f"{self.name.upper()}: its jobs come over {format_duration(self.window_s)}"

    def testbed(self, quick: bool, tasks: int = 0) -> Coarser:
        """The paper's cluster with so many tasks made one; 0 = as many as usual."""
        usual = self.quick_grain if quick else 12
        return Coarser(topology="corral-7x30", tasks=tasks or usual, machines=6)

    def setup(self, quick: bool, *options: str) -> Setup:
        """Its jobs on the paper's cluster."""
        return setup(self.name, self.testbed(quick), f"jobs={self.jobs}", *options)


W1 = MapReduce("w1", 100, 720.0, 24)
W2 = MapReduce("w2", 400, 3600.0, 48)
W3 = MapReduce("w3", 200, 900.0, 48)
MAPREDUCE = (W1, W2, W3)


def setup(name: str, on: Coarser, *options: str) -> Setup:
    """A workload on a cluster that is as coarse as its tasks."""
    return Setup(
        workload=",".join([f"corral-{name}", f"grain={on.tasks}", *filter(None, options)]),
        topology=on.topology,
        scheduler=BASE,
        network=on.network(),
    )


PublishedBy = Mapping[tuple[str, str], Published]


def by_workload(
    quick: bool, measures: tuple[Measure, ...], online: bool, published: Mapping[str, PublishedBy]
) -> tuple[Line, ...]:
    """Corral's measures and its rivals' on each workload; quick online ones are W1's only."""
    return tuple(
        line
        for each in MAPREDUCE
        for line in against(
            BASE,
            CORRAL if quick and online and each is not W1 else RIVALS,
            measures,
            case=each.name.upper(),
            jobs=each.setup(quick, each.online if online else BATCH),
            published=published[each.name],
        )
    )


def smaller(quick: bool, *workloads: MapReduce, online: bool) -> tuple[str, ...]:
    """How figures of these workloads differ from the paper's."""
    times = [each.smaller for each in workloads if online and each is not W2]
    words = {each.testbed(quick).words(): each.name.upper() for each in reversed(workloads)}
    if len(words) == 1:
        return (*times, *next(iter(words)))
    finest = [f"{each.name.upper()}: {each.testbed(quick).words()[0]}" for each in workloads]
    return (*times, *finest, *workloads[0].testbed(quick).words()[1:])
