"""Where reduces run (end of section 4.2): round robin over the racks that hold their job's maps.

    racks in descending order by l_i, the number of the job's maps there; reduces are launched "one
    by one starting from the first rack to the last"

Left open there, chosen here.  Of racks with as many maps the first goes first.  Maps that run or
are done count, each where its output is to be read from.  A job that is offered no slot in a rack
whose turn it is waits for a while, as maps do for a rack with their input, then takes any slot.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from railyard.cluster.ids import JobId, RackId
from railyard.resourcemanager.interface.decisions import Decision, Pass, Place, Wait
from railyard.resourcemanager.interface.defaults import RERUN
from railyard.resourcemanager.interface.policies import NoConfig, Policy, TaskPolicy
from railyard.resourcemanager.interface.views import (
    AttemptView,
    ClusterView,
    JobView,
    SlotView,
    StageView,
    TaskView,
)
from railyard.resourcemanager.schedulers.delay import DelayConfig, DelayTasks
from railyard.resourcemanager.schedulers.shared.sites import Plans, racks_with_slots


def round_robin(maps: Mapping[RackId, int]) -> list[RackId]:
    """The racks that hold maps, in the order in which they get reduces; ``maps`` by rack number."""
    return sorted((rack for rack, count in maps.items() if count), key=lambda r: -maps[r])


def deal(order: Sequence[RackId], held: Mapping[RackId, int], pending: int) -> dict[RackId, int]:
    """{rack: how many of the ``pending`` tasks go there}, to racks that hold some already.

    One by one to the rack with the fewest so far; of equal ones, the first in order.
    """
    dealt = dict.fromkeys(order, 0)
    fewest = [(held.get(rack, 0), place, rack) for place, rack in enumerate(order)]
    heapq.heapify(fewest)
    for _ in range(pending if fewest else 0):
        count, place, rack = fewest[0]
        heapq.heapreplace(fewest, (count + 1, place, rack))
        dealt[rack] += 1
    return dealt


def map_racks(stage: StageView, racks: Iterable[RackId]) -> dict[RackId, int]:
    """l: {rack: tasks of the stages that ``stage`` reads that run or ran there}, of ``racks``."""
    found = dict.fromkeys(racks, 0)
    for source in stage.reads:
        tasks = tasks_by_rack(source)
        for rack in found:
            found[rack] += tasks[rack]
    return found


def tasks_by_rack(stage: StageView) -> Counter[RackId]:
    """{rack: tasks of a stage whose output is there or will be}; of two attempts, the later one."""
    found: Counter[RackId] = Counter()
    for task in stage.tasks:
        attempt = task.winner
        if attempt is None:
            there = task.live or task.kept
            attempt = there[-1] if there else None
        if attempt is not None:
            found[attempt.node.rack] += 1
    return found


def reduces_in(reader: StageView, racks: Sequence[RackId]) -> list[int]:
    """h: a reading stage's tasks in each of all ``racks``, those to come dealt as they will be."""
    held = tasks_by_rack(reader)
    rest = deal(round_robin(map_racks(reader, racks)), held, reader.pending.count)
    return [held[rack] + rest.get(rack, 0) for rack in racks]


class RackTurns(Policy):
    """Deals the pending tasks of stages to racks, and says whether a rack's slot is one's turn."""

    def __init__(self, cluster: ClusterView, wait_s: float) -> None:
        super().__init__(NoConfig(), cluster)
        self._wait_s = wait_s
        #: {rack: how many of the stage's pending tasks should start there}
        self._plans: Plans[dict[RackId, int]] = Plans(cluster)
        self.parts = (self._plans,)
        self._waiting_since_s: dict[JobId, float] = {}

    def is_turn(self, stage: StageView, slot: SlotView) -> bool:
        planned = self._plans.of.get(stage.id)
        if planned is None or sum(planned.values()) != stage.pending.count:
            usable = racks_with_slots(self.cluster, stage.job.avoid)
            order = round_robin(map_racks(stage, usable)) or list(usable)  # (4.2); maps: to all
            planned = deal(order, tasks_by_rack(stage), stage.pending.count)
            self._plans.of[stage.id] = planned
        return not planned or planned.get(slot.rack, 0) > 0

    def planned(self, stage: StageView) -> str:
        """Say how many pending tasks of a stage are for which racks; "" if none were dealt."""
        planned = self._plans.of.get(stage.id, {})
        racks = ", ".join(f"{rack} {count}" for rack, count in planned.items() if count)
        return f"tasks yet to start in racks: {racks}" if racks else ""

    def place(self, tasks: Sequence[TaskView], slot: SlotView, now_s: float, why: str) -> Decision:
        """One of these, each its stage's first, or wait a while for a slot where it is its turn."""
        for task in tasks:
            if self.is_turn(task.stage, slot):
                return Place(task, "it is the turn of its rack")
        job = tasks[0].stage.job.id
        until_s = self._waiting_since_s.setdefault(job, self.cluster.now_s) + self._wait_s
        if now_s < until_s:
            return Wait(why, until_s=until_s)
        return Place(tasks[0], f"no slot where it was its turn until {until_s:g} s")

    # What happens --------------------------------------------------------------------------------
    def attempt_launched(self, attempt: AttemptView) -> None:
        stage = attempt.task.stage
        planned = self._plans.of.get(stage.id)
        if planned is None or len(attempt.task.live) > 1:
            return
        self._waiting_since_s.pop(stage.job.id, None)
        if planned.get(attempt.node.rack, 0):
            planned[attempt.node.rack] -= 1
        else:
            del self._plans.of[stage.id]  # it is in another rack: the others are dealt anew

    def job_ended(self, job: JobView) -> None:
        self._waiting_since_s.pop(job.id, None)


class ReducesInTurn(TaskPolicy):
    """Answers "tasks": reduces round robin, maps as a class made of this answers ``offer_map``."""

    turns: RackTurns

    def offer(self, job: JobView, slot: SlotView, now_s: float) -> Decision:
        rerun = job.next_rerun()
        if rerun is not None:
            return Place(rerun, RERUN)
        reduce = next_reduce(job, slot, self.turns, now_s)
        return reduce if isinstance(reduce, Place) else self.offer_map(job, slot, now_s, reduce)

    def offer_map(self, job: JobView, slot: SlotView, now_s: float, reduce: Decision) -> Decision:
        """Run a map, or wait; ``reduce``: why no reduce takes the slot."""
        raise NotImplementedError

    def planned(self, task: TaskView) -> str:
        return self.turns.planned(task.stage)


class RoundRobinReduces(ReducesInTurn):
    """Answers "tasks": reduces round robin, maps by delay scheduling."""

    Config = DelayConfig
    section = "delay"

    def __init__(self, config: DelayConfig, cluster: ClusterView) -> None:
        super().__init__(config, cluster)
        self._delay = DelayTasks(config, cluster)
        self.turns = RackTurns(cluster, config.rack_wait_s)
        self.parts = (self._delay, self.turns)

    def offer_map(self, job: JobView, slot: SlotView, now_s: float, reduce: Decision) -> Decision:
        task, level = job.closest_pending_map(slot)
        if task is None:
            return reduce
        answer = self._delay.offer_map(job, task, level, now_s)
        if isinstance(answer, Wait) and isinstance(reduce, Wait):
            # Slots as far from the maps' input may be those that reduces wait for: no level.
            times_s = [time_s for time_s in (answer.until_s, reduce.until_s) if time_s is not None]
            return Wait(answer.reason, until_s=min(times_s))
        return answer


def next_reduce(job: JobView, slot: SlotView, turns: RackTurns, now_s: float) -> Decision:
    """A reduce for this slot, or wait for one in a rack whose turn it is."""
    waiting = (stage for stage in job.stages.values() if stage.reads and stage.pending.count)
    reduces = [task for stage in waiting if (task := stage.next_reduce()) is not None]
    if not reduces:
        return Pass("no task is ready for a slot")
    return turns.place(reduces, slot, now_s, "its reduces are for other racks")
