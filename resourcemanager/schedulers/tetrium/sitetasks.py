"""A stage's pending tasks by site, and which of them go first (3.3, and 5's share of local slots).

The paper has one replica of all data.  Left open there, chosen here: maps whose input is at several
sites are spread over these so that the busiest site has as few for each slot as replicas allow.
They count anew as slots and maps change: what is left of a stage may run wherever it has a replica,
without reading over links.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import cycle, islice, pairwise
from math import ceil
from random import Random
from typing import ClassVar, Literal

import msgspec
import numpy as np

from railyard.cluster.errors import require
from railyard.cluster.ids import NodeId
from railyard.netemu.model.arrays import Floats, Numbers
from railyard.resourcemanager.interface.views import StageView, TaskView
from railyard.resourcemanager.schedulers.shared.sites import SiteView
from railyard.resourcemanager.schedulers.tetrium.placement import divided, tasks_between

Remaining = Literal["stages", "time"]


class TetriumConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings "tetrium.*", with the paper's values where it has any."""

    section: ClassVar[str] = "tetrium"

    rho: float = 1.0  #: WAN budget (4.3): 0 = as few bytes between sites as possible, 1 = any
    epsilon: float = 1.0  #: fairness (4.4): 0 = slots in proportion to tasks, 1 = no job is capped
    #: jobs' order (4.1): by the stages that are left, or by the time of all of these together
    remaining: Remaining = "stages"
    k_sites: int = 10  #: sites that may change when slots or links are lost (4.2; Fig. 11: enough)
    #: share of the slots given to a job at a site that local maps get (5: "a small fraction")
    local_share: float = 0.1
    #: freed slots are collected for this share of a recent task's duration (5; left open there)
    batch: float = 0.02
    #: tasks are taken to be up to this much longer or shorter than estimated (Fig. 12d)
    estimate_error: float = 0.0
    #: the slots that plans are made with: those of a site, or those of it that are free now
    slots: Literal["all", "free"] = "all"
    solver: Literal["exact", "general"] = "exact"  #: the optimum, or the paper's linear programs
    reverse: bool = False  #: also plan from the reduces, with forecasts, and take the better (3.4)
    #: whether a site's maps that read from other sites run before those that read there (3.2)
    map_order: Literal["remote-first", "local-first"] = "remote-first"
    #: which of a stage's reduces run first (3.3)
    reduce_order: Literal["largest-first", "random"] = "largest-first"

    def __post_init__(self) -> None:
        for name in ("rho", "epsilon", "estimate_error"):
            value = getattr(self, name)
            require(0 <= value <= 1, f"{self.section}.{name}", value, "a number in [0, 1]")
        right = "a whole number above 0"
        require(self.k_sites > 0, f"{self.section}.k_sites", self.k_sites, right)
        share = self.local_share
        require(0 <= share < 1, f"{self.section}.local_share", share, "a share in [0, 1)")
        require(0 <= self.batch <= 10, f"{self.section}.batch", self.batch, "a number in [0, 10]")


#: {site: the tasks that start there}
Launches = dict[int, list[TaskView]]
#: {site of several nodes: {node: its free slots}}
FreeNodes = Mapping[int, Mapping[NodeId, int]]


class MapTasks:
    """The pending maps of a stage, each at a site that holds its input."""

    def __init__(self, stage: StageView, sites: SiteView) -> None:
        #: [sites + 1] the numbers of the maps that count there; the last: input at no site, or none
        self.at: list[dict[int, None]] = [{} for _ in range(len(sites) + 1)]
        self.held_bytes = np.zeros(len(sites))  #: [sites] their input
        self._tasks = stage.tasks
        self._site: dict[int, int] = {}  #: of each map
        self._replicas: dict[int, tuple[int, ...]] = {}  #: sites of maps with input at several
        #: {site: {other site: maps that count at the first and have a replica at the other}}
        self._movable: dict[int, dict[int, dict[int, None]]] = {}
        for index in stage.pending:
            found = sites.all_of(stage.tasks[index].input.nodes)
            if len(found) > 1:
                self._replicas[index] = found
            self._put(index, found[0] if found else -1)
        self._slots: Numbers | None = None  #: for which maps are spread; None = they are not

    def __len__(self) -> int:
        return len(self._site)

    def launched(self, task: TaskView) -> bool:
        """A map runs now; False if it was put back since these were listed, and is not here."""
        if task.index not in self._site:
            return False
        self._take(task.index)
        self._replicas.pop(task.index, None)
        self._slots = None
        return True

    def spread(self, slots: Numbers) -> None:
        """Let maps count where the most slots are for each; ``slots`` [sites].

        O(sites^2) if nothing is to be moved, and as much for each map that is.
        """
        if not self._replicas or (self._slots is not None and (self._slots == slots).all()):
            return
        while (way := self._way_to_more_slots(slots)) is not None:
            for site, other in pairwise(way):
                index = next(iter(self._movable[site][other]))
                self._take(index)
                self._put(index, other)
        self._slots = slots.copy()

    def _way_to_more_slots(self, slots: Numbers) -> list[int] | None:
        """Sites along which one map each may move, so that the first has fewer for each slot.

        The last has one more, and still fewer for each slot than the first has now.  None if there
        is no such way: then the busiest site can't have fewer [as for Harvey et al.,
        Semi-matchings for bipartite graphs and load balancing, WADS 2003, where slots are equal].
        """
        count = np.array([len(maps) for maps in self.at[:-1]], float)
        load, more = _per_slot(count, slots), _per_slot(count + 1, slots)
        sources = self._sources()
        following: dict[int, int] = {}  # {site: the next one on its way to the most room}
        best: list[int] | None = None
        for end in np.argsort(more, kind="stable").tolist():
            if end not in following:
                begin = max(_reaching(end, sources, following), key=lambda site: load[site])
                if more[end] < load[begin] and (best is None or load[begin] > load[best[0]]):
                    best = _way(begin, end, following)
        return best

    def _sources(self) -> dict[int, list[int]]:
        """{site: sites with maps that may count there instead}."""
        found: dict[int, list[int]] = {}
        for site, others in self._movable.items():
            for other, maps in others.items():
                if maps:
                    found.setdefault(other, []).append(site)
        return found

    def _put(self, index: int, site: int) -> None:
        self._site[index] = site
        self.at[site][index] = None
        if site >= 0:
            self.held_bytes[site] += self._tasks[index].input.input_bytes
        for other in self._others(index):
            self._movable.setdefault(site, {}).setdefault(other, {})[index] = None

    def _take(self, index: int) -> None:
        site = self._site.pop(index)
        del self.at[site][index]
        if site >= 0:
            self.held_bytes[site] -= self._tasks[index].input.input_bytes
        for other in self._replicas.get(index, ()):
            if other != site:
                del self._movable[site][other][index]

    def _others(self, index: int) -> Iterable[int]:
        site = self._site[index]
        return (other for other in self._replicas.get(index, ()) if other != site)

    def choose(
        self,
        planned: Numbers,
        given: Numbers,
        links: Floats,
        config: TetriumConfig,
        nodes: FreeNodes | None = None,
    ) -> Launches:
        """The tasks for ``given`` slots, if all of the stage run as ``planned``; both [sites].

        Remote ones first: from the site with the slowest uplink (``links``), one from each in turn.
        Of local ones, those first that have their input at free ``nodes``.
        """
        held = np.array([len(maps) for maps in self.at])
        between = tasks_between(held, np.append(planned, 0))  # nothing runs at no site
        nearest = {site: self._nearest_first(site, free) for site, free in (nodes or {}).items()}
        tasks = [iter(nearest.get(site) or list(found)) for site, found in enumerate(self.at)]
        sources = np.argsort(np.append(links, np.inf), kind="stable")
        found: Launches = {}
        for site in np.flatnonzero(given):
            local, slots = int(between[site, site]), int(given[site])
            remote = int(between[:, site].sum()) - local
            if config.map_order == "remote-first":
                kept = min(local, ceil(config.local_share * slots))
                away = min(remote, slots - kept)
            else:
                away = max(0, slots - local)
            here = [self._tasks[index] for index in islice(tasks[site], slots - away)]
            there = [
                self._tasks[index]
                for source in islice(_in_turn(between[:, site], sources, int(site)), away)
                for index in islice(tasks[source], 1)
            ]
            first, then = (there, here) if config.map_order == "remote-first" else (here, there)
            found[int(site)] = first + then
        return found

    def _nearest_first(self, site: int, free: Mapping[NodeId, int]) -> list[int]:
        """The maps that count at a site, first as many as nodes there have input and free slots."""
        left, first, then = dict(free), [], []
        for index in self.at[site]:
            nodes = self._tasks[index].input.nodes
            node = next((node for node in nodes if left.get(node)), None)
            if node is None:
                then.append(index)
            else:
                left[node] -= 1
                first.append(index)
        return first + then


def _reaching(end: int, sources: Mapping[int, list[int]], following: dict[int, int]) -> list[int]:
    """Sites from which maps can move to ``end``, but for those that have a way; notes theirs."""
    following[end] = end
    found = [end]
    for site in found:
        for source in sources.get(site, ()):
            if source not in following:
                following[source] = site
                found.append(source)
    return found


def _way(begin: int, end: int, following: Mapping[int, int]) -> list[int]:
    found = [begin]
    while found[-1] != end:
        found.append(following[found[-1]])
    return found


def _per_slot(count: Floats, slots: Numbers) -> Floats:
    """Maps for each slot; inf where there are maps and no slots."""
    return divided(count, slots, np.where(count > 0, np.inf, 0.0))


def _in_turn(numbers: Numbers, sources: Numbers, site: int) -> Iterator[int]:
    """Other sites than ``site``, each as often as its number says, one of each in turn."""
    left = numbers.copy()
    left[site] = 0
    turns = cycle([int(source) for source in sources if left[source] > 0])
    while left.any():
        source = next(turns)
        if left[source] > 0:
            left[source] -= 1
            yield source


def reduces_in_order(stage: StageView, config: TetriumConfig, dice: Random) -> list[int]:
    """The numbers of all tasks of a stage that reads others: largest input first."""
    order = list(range(stage.size))
    if config.reduce_order == "random":
        dice.shuffle(order)
        return order
    sizes = np.zeros(stage.size)
    for source in stage.reads:
        outputs = [output.partition_bytes for some in source.outputs.values() for output in some]
        of = {id(each): each for each in outputs}  # equal tasks of a simulation share one
        for each, times in Counter(map(id, outputs)).items():
            sizes += np.array(of[each], float) * times
    return [int(index) for index in np.argsort(-sizes, kind="stable")]
