"""A stage's pending tasks by site, and which of them go first (3.3, and 5's share of local slots).

Maps are kept by a site that holds their input.  Reduces are kept in the order in which they start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import cycle, islice
from math import ceil
from random import Random

import numpy as np

from railyard.cluster.ids import NodeId
from railyard.netemu.model.arrays import Floats, Numbers
from railyard.resourcemanager.interface.views import StageView, TaskView
from railyard.resourcemanager.schedulers.placement.rounding import tasks_between
from railyard.resourcemanager.schedulers.shared.sites import SiteView
from railyard.resourcemanager.schedulers.tetrium.inputsites import InputSites
from railyard.resourcemanager.schedulers.tetrium.parameters import TetriumConfig

#: {site: the tasks that start there}
Launches = dict[int, list[TaskView]]
#: {site of several nodes: {node: its free slots}}
FreeNodes = Mapping[int, Mapping[NodeId, int]]


class MapTasks:
    """The pending tasks of a stage that reads files."""

    def __init__(self, stage: StageView, sites: SiteView) -> None:
        self.stage = stage
        self._inputs = InputSites(stage, sites)

    @property
    def held_bytes(self) -> Floats:
        """Input of pending tasks [sites]."""
        return self._inputs.held_bytes

    @property
    def has_replicas(self) -> bool:
        """Whether there are tasks with input at several sites."""
        return self._inputs.has_replicas

    def spread(self, slots: Numbers) -> None:
        """Let tasks with input at several sites count where the most slots are for each."""
        self._inputs.spread(slots)

    def is_current(self) -> bool:
        """Whether all pending tasks are here, and no others."""
        return len(self._inputs) == self.stage.pending.count

    def launched(self, task: TaskView) -> bool:
        """A task runs now; False if it was put back since these were listed, and is not here."""
        return self._inputs.remove(task)

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
        at = self._inputs.at
        held = np.array([len(tasks) for tasks in at])
        between = tasks_between(held, np.append(planned, 0))  # nothing runs at no site
        nearest = {site: self._nearest_first(site, free) for site, free in (nodes or {}).items()}
        tasks = [iter(nearest.get(site) or list(found)) for site, found in enumerate(at)]
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
            here = [self.stage.tasks[index] for index in islice(tasks[site], slots - away)]
            there = [
                self.stage.tasks[index]
                for source in islice(_in_turn(between[:, site], sources, int(site)), away)
                for index in islice(tasks[source], 1)
            ]
            first, then = (there, here) if config.map_order == "remote-first" else (here, there)
            found[int(site)] = first + then
        return found

    def _nearest_first(self, site: int, free: Mapping[NodeId, int]) -> list[int]:
        """The maps that count at a site, first as many as nodes there have input and free slots."""
        left, first, then = dict(free), [], []
        for index in self._inputs.at[site]:
            nodes = self.stage.tasks[index].input.nodes
            node = next((node for node in nodes if left.get(node)), None)
            if node is None:
                then.append(index)
            else:
                left[node] -= 1
                first.append(index)
        return first + then


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
