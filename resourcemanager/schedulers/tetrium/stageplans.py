"""What Tetrium knows of each stage that runs: where its tasks should run, and which go now.

Here are 3.3 and 5's share of local slots, a stage's pending tasks by site and which of them go
first, and 3.4, reverse plans.  A stage that reads others is planned once these are complete: stage
by stage, as Spark does.  A job of maps and reduces may be planned in reverse, too.

The paper has one replica of all data.  Left open there, chosen here: maps whose input is at several
sites are spread over these so that the busiest site has as few for each slot as replicas allow.
They count anew as slots and maps change: the rest of a stage may run wherever it has replicas.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import cycle, islice, pairwise
from math import ceil, inf
from random import Random
from typing import Literal

import msgspec
import numpy as np

from railyard.cluster.errors import require
from railyard.cluster.ids import NodeId, StageId
from railyard.netemu.model.arrays import Floats, Numbers
from railyard.resourcemanager.interface.estimates import Estimates
from railyard.resourcemanager.interface.policies import Policy
from railyard.resourcemanager.interface.views import (
    AttemptView,
    ClusterView,
    JobView,
    SlotView,
    StageView,
    TaskView,
)
from railyard.resourcemanager.schedulers.shared.sites import Sites, SiteView
from railyard.resourcemanager.schedulers.tetrium import placement
from railyard.resourcemanager.schedulers.tetrium.placement import (
    Bounds,
    Plan,
    Solver,
    Stage,
    better_tasks,
    changed_at,
    divided,
    tasks_between,
    time_s,
    whole_tasks,
)

Remaining = Literal["stages", "time"]


class TetriumConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings "tetrium.*", with the paper's values where it has any."""

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
            require(0 <= value <= 1, f"tetrium.{name}", value, "a number in [0, 1]")
        require(self.k_sites > 0, "tetrium.k_sites", self.k_sites, "a whole number above 0")
        share = self.local_share
        require(0 <= share < 1, "tetrium.local_share", share, "a share in [0, 1)")
        require(0 <= self.batch <= 10, "tetrium.batch", self.batch, "a number in [0, 10]")


# Forward and reverse plans (3.4) ----------------------------------------------------------------
@dataclass(frozen=True)
class JobPlan:
    """Where a job's maps and reduces run."""

    maps: Plan
    reduces: Plan

    @property
    def time_s(self) -> float:
        """Seconds of both stages, one after the other."""
        return self.maps.time_s + self.reduces.time_s


def forward(solver: Solver, sites: Sites, maps: Stage, reduces: Stage) -> JobPlan | None:
    """The best maps, then the best reduces for their output; ``reduces`` has only its size."""
    return _add_reduces(solver, sites, solver.place_maps(sites, maps), reduces)


def reverse(solver: Solver, sites: Sites, maps: Stage, reduces: Stage) -> JobPlan | None:
    """Maps that leave their output where reduces, in proportion to the slots, get it fastest."""
    wanted = output_wanted(sites, reduces.size_bytes)
    if wanted is None:
        return None
    plan = solver.place_maps(sites, maps, wanted)
    return _add_reduces(solver, sites, plan and replace(plan, bounds=wanted), reduces)


def best_job_plan(solver: Solver, sites: Sites, maps: Stage, reduces: Stage) -> JobPlan | None:
    """The faster of both; forward if they are equal."""
    plans = [plan(solver, sites, maps, reduces) for plan in (forward, reverse)]
    return min((plan for plan in plans if plan), key=lambda plan: plan.time_s, default=None)


def output_wanted(sites: Sites, shuffle_bytes: float) -> Bounds | None:
    """The shares of maps' output at each site with which the shuffle is fastest; None if none is.

    Steps (i) and (ii) of the reverse plan: r_x = S_x / sum S, and the least T_shuf over all Q.  As
    many Q have it, all of them are given, and step (iii) chooses.
    """
    from railyard.resourcemanager.schedulers.tetrium import exact  # which loads numba

    total = float(sites.slots.sum())
    if total <= 0:
        return None
    reduces = sites.slots / total
    leave_s = time_s((1.0 - reduces) * shuffle_bytes, sites.up_bytes_per_s)
    come_s = time_s(reduces * shuffle_bytes, sites.down_bytes_per_s)
    least_s = exact.fastest_shuffle_s(leave_s, come_s)
    if least_s is None:
        return None
    # what share passes a link in that time
    least, most = (np.minimum(divided(least_s, whole_s, 1.0), 1.0) for whole_s in (come_s, leave_s))
    return Bounds(1.0 - least, most)


def _add_reduces(solver: Solver, sites: Sites, maps: Plan | None, reduces: Stage) -> JobPlan | None:
    if maps is None:
        return None
    stage = replace(reduces, held_bytes=maps.shares * reduces.size_bytes)
    placed = solver.place_reduces(sites, stage)
    return None if placed is None else JobPlan(maps, placed)


# A stage's pending tasks by site (3.3) -----------------------------------------------------------
#: {site: the tasks that start there}
Launches = dict[int, list[TaskView]]


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

    @property
    def are_replicated(self) -> bool:
        """Whether any has its input at several sites."""
        return bool(self._replicas)

    def launched(self, task: TaskView) -> bool:
        """A map runs now; False if it was put back since these were listed, and is not here."""
        if task.index not in self._site:
            return False
        self._take(task.index)
        self._replicas.pop(task.index, None)
        self._slots = None
        return True

    def spread(self, slots: Numbers) -> None:
        """Let maps count where most ``slots`` [sites] are for each; O(sites^2 (moved maps + 1))."""
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
        load, more = time_s(count, slots), time_s(count + 1, slots)  # maps for each slot
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
        for other in self._replicas.get(index, ()):
            if other != site:
                self._movable.setdefault(site, {}).setdefault(other, {})[index] = None

    def _take(self, index: int) -> None:
        site = self._site.pop(index)
        del self.at[site][index]
        if site >= 0:
            self.held_bytes[site] -= self._tasks[index].input.input_bytes
        for other in self._replicas.get(index, ()):
            if other != site:
                del self._movable[site][other][index]

    def choose(
        self,
        planned: Numbers,
        given: Numbers,
        links: Floats,
        config: TetriumConfig,
        nodes: Mapping[int, Mapping[NodeId, int]],
    ) -> Launches:
        """The tasks for ``given`` slots, if all of the stage run as ``planned``; both [sites].

        Remote ones first: from the site with the slowest uplink (``links``), one from each in turn.
        Of local ones, those first with input at ``nodes``: {site of several: {node: free slots}}.
        """
        held = np.array([len(maps) for maps in self.at])
        between = tasks_between(held, np.append(planned, 0))  # nothing runs at no site
        nearest = {site: self._nearest_first(site, free) for site, free in nodes.items()}
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


# The stages that run ------------------------------------------------------------------------------
#: Sites rarely lose slots and links in one moment, and links are looked at each second: losses
#: within this time are one, and ``k_sites`` change for all of them.
LOSSES_S = 1.0


class _Known:
    """A stage that runs."""

    def __init__(self, error: float) -> None:
        self.error = error  #: factor of its estimated task time
        self.maps: MapTasks | None = None  #: if it reads files
        self.order: list[int] = []  #: of its tasks, if it reads stages
        #: [sites] how many of its pending tasks should run where, at the last instance
        self.assigned: Numbers | None = None
        self.planned: Numbers | None = None  #: [sites] the same before some of them started
        self.holds = False  #: the assignment is to be kept, but for ``k_sites`` at a loss
        self.basis: tuple[object, ...] = ()  #: what the last plan was made of
        self.plan: Plan | None = None  #: the last one


class StagePlans(Policy):
    """Plans of stages, for the slots that are free."""

    def __init__(self, config: TetriumConfig, cluster: ClusterView, sites: SiteView) -> None:
        super().__init__(config, cluster)
        self._config = config
        self._sites = sites
        self._estimates = Estimates(cluster)
        self.parts = (self._estimates,)
        self._solver: Solver
        if config.solver == "exact":
            from railyard.resourcemanager.schedulers.tetrium import exact

            exact.load_loops()
            self._solver = exact
        else:
            from railyard.resourcemanager.schedulers.tetrium import general

            self._solver = general
        self._known: dict[StageId, _Known] = {}
        #: {stage to be assigned anew, as capacity was lost: when}
        self._lost: dict[StageId, float] = {}
        #: stages that could not keep to their WAN budget, as data is at sites without slots
        self.beyond_budget: dict[StageId, None] = {}

    # Answers -------------------------------------------------------------------------------------
    def time_s(self, job: JobView, free: Numbers) -> float:
        """T: seconds that the pending tasks of the job's open stages need with these slots."""
        total_s = 0.0
        for stage in job.stages.values():
            if stage.pending.count and stage.open:
                plan = self._plan(stage, free)
                total_s += inf if plan is None else plan.time_s
        return total_s

    def whole_time_s(self, job: JobView, free: Numbers) -> float:
        """T, and of stages that are yet to begin the computing time with all slots."""
        slots = max(1, self.cluster.slots)
        later = (stage for stage in job.stages.values() if not (stage.open or stage.complete))
        work_s = sum(stage.size * self._estimates.computed_s(stage).value for stage in later)
        return self.time_s(job, free) + work_s / slots

    def launches(self, stage: StageView, free: Numbers, most: int) -> Launches:
        """The tasks that start now at each site: d of them (3.1, 3.2), and ``most`` at most."""
        if not all(source.complete for source in stage.reads):
            return {}
        planned = self._assignment(stage, free)
        given = np.minimum(planned, free)
        if given.sum() > most:
            given = whole_tasks(given / given.sum(), most)
        known = self._of(stage)
        known.assigned, known.planned = planned - given, planned
        if not given.any():
            return {}
        if known.maps is None:
            return _dealt(stage, known.order, given)
        if not known.maps.held_bytes.any():
            return _dealt(stage, stage.pending, given)
        nodes = self._sites.free_nodes(stage.job.avoid)
        return known.maps.choose(planned, given, self._sites.links()[0], self._config, nodes)

    def planned(self, stage: StageView) -> Numbers | None:
        """How many pending tasks should run where, as of the last instance [sites]."""
        known = self._known.get(stage.id)
        return None if known is None else known.planned

    def reassign(self) -> None:
        """Slots or bandwidth were lost: assign stages anew that had been assigned to sites."""
        due_s = self.cluster.now_s + LOSSES_S
        for stage, known in self._known.items():
            if known.assigned is not None:
                self._lost.setdefault(stage, due_s)

    # Plans ---------------------------------------------------------------------------------------
    def _assignment(self, stage: StageView, free: Numbers) -> Numbers:
        """How many of the pending tasks should run at each site [sites]."""
        known, count = self._of(stage), stage.pending.count
        before = known.assigned
        usable = before is not None and int(before.sum()) == count
        due_s = self._lost.get(stage.id, inf)
        holds = known.holds or due_s < inf
        if not (usable and holds):
            known.holds = False
            return self._counts(stage, self._plan(stage, free), free)
        slots = self._sites.slots(stage.job.avoid)
        if due_s <= self.cluster.now_s:
            del self._lost[stage.id]
            ideal = self._counts(stage, self._plan(stage, slots), slots)
            assert before is not None
            changed = changed_at(before, ideal, self._config.k_sites)
            known.holds = not changed[slots == 0].any()
            return changed if known.holds else ideal
        if before is not None and not before[slots == 0].any():
            return before
        known.holds = False
        return self._counts(stage, self._plan(stage, free), free)

    def _counts(self, stage: StageView, plan: Plan | None, slots: Numbers) -> Numbers:
        if plan is not None and plan.tasks is not None:
            return plan.tasks
        if self._stage(stage).held_bytes.any() or not slots.any():
            return np.zeros(len(slots), np.int64)  # what it reads is cut off: it waits
        return whole_tasks(slots / slots.sum(), stage.pending.count)

    def _plan(self, stage: StageView, free: Numbers) -> Plan | None:
        """The best plan with these slots; None if nothing is to be read, or can't be."""
        todo = self._stage(stage)
        if not todo.held_bytes.any():
            return None
        slots = self._sites.slots(stage.job.avoid)
        if self._config.slots == "free":
            plan = self._placed(stage, todo, self._sites.with_slots(free))
            if plan is not None and plan.in_budget:
                return plan
        plan = self._placed(stage, todo, self._sites.with_slots(slots))
        if plan is not None and not plan.in_budget:
            self.beyond_budget[stage.id] = None
        return plan

    def _placed(self, stage: StageView, todo: Stage, sites: Sites) -> Plan | None:
        """The best plan with these sites, also in whole tasks; as before if nothing has changed."""
        known, every = self._of(stage), (todo.held_bytes, sites.slots, *self._sites.links())
        basis = todo.work_s, *(numbers.tobytes() for numbers in every)
        if known.basis != basis or self._config.reverse:
            known.basis, plan = basis, self._solved(stage, todo, sites)
            if plan is not None:
                tasks = whole_tasks(plan.shares, stage.pending.count)
                tasks = better_tasks(tasks, todo, sites, plan.bounds, maps=not stage.reads)
                plan = replace(plan, tasks=tasks)
            known.plan = plan
        return known.plan

    def _solved(self, stage: StageView, todo: Stage, sites: Sites) -> Plan | None:
        if stage.reads:
            return self._solver.place_reduces(sites, todo)
        if not self._config.reverse or len(stage.readers) != 1 or len(stage.readers[0].reads) != 1:
            return self._solver.place_maps(sites, todo)
        [reader] = stage.readers
        shuffled_bytes = self._estimates.output_bytes(stage).value * todo.size_bytes
        shuffled_bytes /= max(1.0, self._estimates.input_bytes(stage).value)
        task_s = self._task_s(reader)
        output = todo.held_bytes * shuffled_bytes / todo.size_bytes
        later = Stage(output, reader.pending.count * task_s, task_s=task_s)
        if not shuffled_bytes:
            return self._solver.place_maps(sites, todo)
        best = best_job_plan(self._solver, sites, todo, later)
        return None if best is None else best.maps

    def _stage(self, stage: StageView) -> Stage:
        known = self._of(stage)
        if known.maps is None:
            held = self._sites.shuffle_at(stage) * (stage.pending.count / stage.size)
            budget_bytes = placement.reduce_budget_bytes
        else:
            held, budget_bytes = known.maps.held_bytes, placement.map_budget_bytes
        task_s = self._task_s(stage)
        todo = Stage(held, stage.pending.count * task_s, task_s=task_s)
        if not held.any():
            return todo
        return replace(todo, budget_bytes=budget_bytes(todo, self._config.rho))

    def _task_s(self, stage: StageView) -> float:
        return self._estimates.computed_s(stage).value * self._of(stage).error

    # What is known of stages ---------------------------------------------------------------------
    def _of(self, stage: StageView) -> _Known:
        known = self._known.get(stage.id)
        if known is None:
            error = self._config.estimate_error
            factor = 1.0 + error * self.cluster.random.uniform(-1, 1) if error else 1.0
            known = self._known[stage.id] = _Known(factor)
        if not stage.reads:
            if known.maps is None or len(known.maps) != stage.pending.count:
                known.maps = MapTasks(stage, self._sites)
            if known.maps.are_replicated:
                known.maps.spread(self._sites.slots(stage.job.avoid))
        elif not known.order and all(source.complete for source in stage.reads):
            known.order = reduces_in_order(stage, self._config, self.cluster.random)
        return known

    def attempt_launched(self, attempt: AttemptView) -> None:
        known = self._known.get(attempt.task.stage.id)
        if known is None or known.maps is None or len(attempt.task.live) > 1:
            return
        if not known.maps.launched(attempt.task):
            known.maps = None

    def node_joined(self, node: SlotView) -> None:
        self._inputs_moved()

    def node_lost(self, node: SlotView) -> None:
        self._inputs_moved()

    def input_moved(self, path: str, block: int) -> None:
        self._inputs_moved()

    def _inputs_moved(self) -> None:
        for known in self._known.values():
            known.maps = None

    def job_ended(self, job: JobView) -> None:
        for stage in job.stages.values():
            self._known.pop(stage.id, None)
            self._lost.pop(stage.id, None)


def _dealt(stage: StageView, order: Iterable[int], given: Numbers) -> Launches:
    """Pending tasks in this order, one for each site in turn."""
    waiting = (stage.tasks[index] for index in order if index in stage.pending)
    found: Launches = {int(site): [] for site in np.flatnonzero(given)}
    left = given.copy()
    while left.any():
        for site in np.flatnonzero(left):
            task = next(waiting, None)
            if task is None:
                return found
            found[int(site)].append(task)
            left[site] -= 1
    return found
