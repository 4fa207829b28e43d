"""A stage's pending tasks by site, and which of them go first (3.3, and 5's share of local slots).

Maps are kept by the site that holds their input, its primary replica (the paper has one only).
Reduces are kept in the order in which they start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import cycle, islice
from math import ceil
from random import Random

import numpy as np

from railyard.netemu.model.arrays import Floats, Numbers
from railyard.resourcemanager.interface.views import StageView, TaskView
from railyard.resourcemanager.schedulers.placement.rounding import tasks_between
from railyard.resourcemanager.schedulers.shared.sites import SiteView
from railyard.resourcemanager.schedulers.tetrium.parameters import TetriumConfig

#: {site: the tasks that start there}
Launches = dict[int, list[TaskView]]


class MapTasks:
    """The pending tasks of a stage that reads files, by the site of their input."""

    def __init__(self, stage: StageView, sites: SiteView) -> None:
        self.stage = stage
        #: the last of them: input at no site, or none at all
        self._at: list[dict[int, None]] = [{} for _ in range(len(sites) + 1)]
        self._site: dict[int, int] = {}  #: of each task
        self.held_bytes = np.zeros(len(sites))  #: [sites] input of pending tasks
        for index in stage.pending:
            task = stage.tasks[index]
            site = self._site[index] = sites.of(task.input.nodes)
            self._at[site][index] = None
            if site >= 0:
                self.held_bytes[site] += task.input.input_bytes

    def is_current(self) -> bool:
        """Whether all pending tasks are here, and no others."""
        return len(self._site) == self.stage.pending.count

    def launched(self, task: TaskView) -> bool:
        """A task runs now; False if it was put back since these were listed, and is not here."""
        site = self._site.pop(task.index, None)
        if site is None:
            return False
        del self._at[site][task.index]
        if site >= 0:
            self.held_bytes[site] -= task.input.input_bytes
        return True

    def choose(
        self, planned: Numbers, given: Numbers, links: Floats, config: TetriumConfig
    ) -> Launches:
        """The tasks for ``given`` slots, if all of the stage run as ``planned``; both [sites].

        Remote ones first: from the site with the slowest uplink (``links``), one from each in turn.
        """
        held = np.array([len(tasks) for tasks in self._at])
        between = tasks_between(held, np.append(planned, 0))  # nothing runs at no site
        tasks = [iter(list(tasks)) for tasks in self._at]
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
