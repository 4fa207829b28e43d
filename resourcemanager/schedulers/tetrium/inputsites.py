"""At which site each pending map counts: one that holds its input.

The paper has one replica of all data.  Left open there, chosen here: maps whose input is at several
sites are spread over these so that the busiest site has as few for each slot as replicas allow.
They count anew as slots and maps change: what is left of a stage may run wherever it has a replica,
without reading over links.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

import numpy as np

from railyard.netemu.model.arrays import Floats, Numbers
from railyard.resourcemanager.interface.views import StageView, TaskView
from railyard.resourcemanager.schedulers.shared.sites import SiteView


class InputSites:
    """The pending maps of a stage, by site."""

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
        """Number of maps."""
        return len(self._site)

    @property
    def has_replicas(self) -> bool:
        """Whether any map has input at several sites."""
        return bool(self._replicas)

    def remove(self, task: TaskView) -> bool:
        """Returns whether the map was here."""
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
        if self._slots is not None and (self._slots == slots).all():
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
    none = np.where(count > 0, np.inf, 0.0)
    return np.divide(count, slots, out=none, where=slots > 0)
