"""The guideline of one stage of a running job: few racks for its maps, a schedule for its reduces.

Source: Co-scheduler, sections IV-D to IV-G; for a DAG of stages (section VI) each stage that reads
files is a map stage, and each that reads stages has a schedule of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from railyard.cluster.ids import RackId, rack_of
from railyard.cluster.units import format_count
from railyard.resourcemanager.interface.views import JobView, StageView, TaskView
from railyard.resourcemanager.schedulers.co_scheduler.dataguideline import (
    DataGuideline,
    data_guideline,
)
from railyard.resourcemanager.schedulers.co_scheduler.parameters import Hybrid
from railyard.resourcemanager.schedulers.co_scheduler.reduceschedule import RackChoice

#: A rack is as good as the best one if it adds at least this share of the input bytes.
_NEARLY = 0.9


class MapGuide:
    """A stage that reads files, and the racks on which its maps may run.

    Left open in the paper, chosen here: a rack is taken into use only if hardly any other holds
    more of what no rack in use holds, so that those in use hold all of it (those of one replica's
    set do); once all R_map are in use, they also run maps with input elsewhere.
    """

    def __init__(self, stage: StageView, predicted: DataGuideline | None, *, guided: bool) -> None:
        self.stage = stage
        self.racks_max = 0  #: R_map by the latest estimate; 0 = not shuffle-heavy
        self.used: Counter[RackId] = Counter()  #: {rack: number of its running and done maps}
        self._predicted = predicted
        self._guided = guided
        self._places = [_racks_of(task) for task in stage.tasks]
        #: {rack: bytes of input on it that no rack in use holds}; None = to be computed
        self._gain_bytes: Counter[RackId] | None = None

    def __str__(self) -> str:
        if not self.bound:
            return "no guideline for its maps: any rack"
        racks = format_count(self.racks_max, "rack")
        return f"its maps on at most {racks}; so far on {' '.join(self.used) or 'none'}"

    @property
    def bound(self) -> bool:
        """Whether its maps are to run on some racks only."""
        return self._guided and self.racks_max > 0 and any(self._places)

    def estimate(self, shuffle_bytes: float, hybrid: Hybrid) -> bool:
        """Recompute R_map (eq. 3 to 7, or as predicted); returns whether it has changed."""
        before = self.racks_max
        if self._predicted is not None:
            self.racks_max = self._predicted.map_racks
        elif self.stage.readers:
            found = data_guideline(shuffle_bytes, hybrid)
            self.racks_max = 0 if found is None else found.map_racks
        return self.racks_max != before

    def admits(self, rack: RackId) -> bool:
        """Whether a pending map may run on a rack by the guideline."""
        if rack in self.used:
            return len(self.used) >= self.racks_max or self._has_input(rack)
        if len(self.used) >= self.racks_max or not self._has_input(rack):
            return False
        gain_bytes = self._gains()
        return gain_bytes[rack] >= _NEARLY * max(gain_bytes.values())

    def _has_input(self, rack: RackId) -> bool:
        return self.stage.pending.in_rack(rack) is not None

    def took(self, rack: RackId) -> None:
        """A map runs on a rack, or has left its output there."""
        self.used[rack] += 1
        if self.used[rack] == 1:
            self._gain_bytes = None

    def gave_back(self, rack: RackId) -> None:
        """A map no longer runs there, or its output is lost."""
        self.used[rack] -= 1
        if self.used[rack] <= 0:
            del self.used[rack]
            self._gain_bytes = None

    def recount(self) -> None:
        """Recount the racks in use, since output was lost.  O(tasks)."""
        runs = (a for t in self.stage.tasks for a in ([t.winner] if t.winner else t.live))
        self.used = Counter(attempt.node.rack for attempt in runs)
        self._gain_bytes = None

    def _gains(self) -> Counter[RackId]:
        """``_gain_bytes``, computed once for each rack taken into use.  O(blocks x replicas)."""
        if self._gain_bytes is None:
            self._gain_bytes = Counter()
            for task, racks in zip(self.stage.tasks, self._places, strict=True):
                covered = any(rack in self.used for rack in racks)
                for rack in racks:
                    self._gain_bytes[rack] += 0 if covered else task.input.input_bytes
        return self._gain_bytes


def _racks_of(task: TaskView) -> tuple[RackId, ...]:
    return tuple(dict.fromkeys(rack_of(node) for node in task.input.nodes))


@dataclass
class ReduceGuide:
    """A stage that reads stages, once all of these are done, and its best schedule."""

    stage: StageView
    heavy: bool  #: whether it fetches T_e or more
    shuffle_bytes: int  #: all that it fetches
    #: (number of tasks of a rack, the racks that may be that one, the best first)
    groups: list[tuple[int, tuple[RackId, ...]]] = field(default_factory=list)
    cct_s: float = 0.0  #: how long its shuffle should take by this schedule
    ready_s: float = 0.0  #: when all of these racks are expected to have the slots
    #: {rack: number of its tasks that run or are done}
    taken: Counter[RackId] = field(default_factory=Counter)
    _claims: dict[RackId, int] = field(default_factory=dict)  #: {rack: index of its group}

    def __str__(self) -> str:
        if not self.groups:
            return "no schedule for its reduces: any rack"
        groups = [f"{tasks} on {' or '.join(racks)}" for tasks, racks in self.groups]
        return f"its reduces by schedule: {', '.join(groups)}"

    @property
    def bound(self) -> bool:
        """Whether there is a schedule to follow."""
        return bool(self.groups)

    def follow(
        self, choice: RackChoice, racks: Sequence[RackId], now_s: float, *, known: bool
    ) -> None:
        """Adopt a schedule; ``known``: its release time is estimated from reported progress."""
        self.groups = [
            (tasks, (racks[best], *(racks[other] for other in others)))
            for tasks, best, others in zip(choice.tasks, choice.racks, choice.instead, strict=True)
        ]
        self.cct_s = choice.done_s - choice.released_s
        self.ready_s = now_s + choice.released_s if known else now_s
        self.taken.clear()
        self._claims.clear()

    def wants(self, rack: RackId) -> bool:
        """Whether the schedule has a task for a slot of this rack."""
        group = self._group(rack)
        return group is not None and self.taken[rack] < self.groups[group][0]

    def took(self, rack: RackId) -> None:
        """A task runs on a rack."""
        group = self._group(rack)
        if group is not None:
            self._claims[rack] = group
        self.taken[rack] += 1

    def gave_back(self, rack: RackId) -> None:
        """A task no longer runs there, and has to run again."""
        self.taken[rack] -= 1
        if self.taken[rack] <= 0:
            del self.taken[rack]
            self._claims.pop(rack, None)

    def fits(self, slots: Mapping[RackId, int]) -> bool:
        """Whether each rack still has the slots that the schedule needs; ``slots`` of each rack."""
        return all(any(slots[rack] >= count for rack in racks) for count, racks in self.groups)

    def _group(self, rack: RackId) -> int | None:
        """Index of the group that a rack serves, or could serve."""
        if rack in self._claims:
            return self._claims[rack]
        claimed = self._claims.values()
        for number, (_, racks) in enumerate(self.groups):
            if rack in racks and number not in claimed:
                return number
        return None


@dataclass
class JobGuides:
    """The guidelines of one job."""

    job: JobView
    predicted: DataGuideline | None  #: of a recurring job, from its forecast
    maps: list[MapGuide] = field(default_factory=list)  #: of its stages that read no other
    #: {stage with finished sources: its guideline}
    reduces: dict[str, ReduceGuide] = field(default_factory=dict)

    def of(self, stage: StageView) -> MapGuide | ReduceGuide | None:
        """The guideline of a stage; None if it reads stages that are not done."""
        if stage.reads:
            return self.reduces.get(stage.name)
        return next(guide for guide in self.maps if guide.stage is stage)
