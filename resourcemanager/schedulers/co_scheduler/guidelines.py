"""The guidelines of all running jobs: few racks for data and maps, a schedule for reduces.

Source: Co-scheduler (Li and Shen, IEEE/ACM Transactions on Networking, 2022), sections IV-C to
IV-G: equations 3 to 10, on how many racks a job's input and its maps should be (IV-D), and the
hybrid network as these formulas see it (II).  Guidelines are made when a job comes (IV-D.1 and 2),
R_map again as maps end, reduces' best schedule once their sources are done (``reduceschedule``).

The network's figures (T_e, delta, W, both bandwidths) are the topology's; without [ocs] no shuffle
is large enough for circuits.  R_map is the number of racks that run maps, R_red of those that run
reduces, R_data of those that hold one replica of the input.  Task times of recurring jobs are as in
Corral's latency response function: the bytes of a task by the rate of a slot.  For a DAG of stages
(section VI) each stage that reads files is a map stage, and each that reads stages has a schedule
of its own; of a forecast the stage counts that reads most of the maps' output.
Left open there, chosen here: R_data is at least 1 for a shuffle-heavy job and at most what leaves
every replica racks of its own; a flow of exactly T_e is large enough for a circuit.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil, isqrt
from random import Random
from typing import Any, ClassVar, Literal

import numpy as np

from railyard.cluster.errors import require
from railyard.cluster.ids import JobId, RackId, rack_of
from railyard.cluster.topologyfile import Compute
from railyard.cluster.units import format_count
from railyard.netemu.model.arrays import Bools, Floats
from railyard.resourcemanager.interface.estimates import Estimates, predicted_task_s
from railyard.resourcemanager.interface.events import DataAnnounced
from railyard.resourcemanager.interface.forecast import Forecast
from railyard.resourcemanager.interface.policies import Policy
from railyard.resourcemanager.interface.views import (
    AttemptView,
    ClusterView,
    JobView,
    SlotView,
    StageView,
    TaskView,
)
from railyard.resourcemanager.schedulers.co_scheduler.reduceschedule import (
    UNKNOWN_S,
    Hybrid,
    RackChoice,
    Releases,
    ReleaseTimes,
    best_schedule,
    possible_schedules,
)
from railyard.resourcemanager.schedulers.fair import FairConfig
from railyard.resourcemanager.schedulers.shared.sites import SlotCount


class CoConfig(FairConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings "co-scheduler.*"; those of the fair order of users are as in "fair.*"."""

    section: ClassVar[str] = "co-scheduler"

    guidelines: Literal["all", "data", "none"] = "all"  #: "data": for data and maps only
    sir: float = 1.0  #: shuffle / input of a job before any of its maps has ended
    zone_factor: float = 1.1  #: a recurring job's latency may be this many times its best
    #: predict shuffles by what the busiest rack carries (eq. 2, without delta); false: by eq. 10,
    #: as printed, by which a shuffle to one rack is free
    shuffle_bound: bool = True
    hold_out_s: float = 30.0  #: how long a job refuses slots off its guideline; 0 = not at all
    #: jobs refuse such slots only as long as circuits should save them more time than waiting costs
    only_if_faster: bool = True
    remaining_error: float = 0.0  #: relative error put on T_rem, up or down
    forecast_error: float = 0.0  #: relative error put on predicted sizes, up or down

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.sir >= 0, "co-scheduler.sir", self.sir, "a number >= 0")
        require(self.zone_factor >= 1, "co-scheduler.zone_factor", self.zone_factor, "at least 1")
        require(self.hold_out_s >= 0, "co-scheduler.hold_out_s", self.hold_out_s, "seconds >= 0")
        for name in ("remaining_error", "forecast_error"):
            error = getattr(self, name)
            require(0 <= error < 1, f"co-scheduler.{name}", error, "a share in [0, 1)")


#: Latencies that differ by a smaller share may be equal.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class DataGuideline:
    """How many racks run a job's maps, and how many may run its reduces."""

    map_racks: int  #: R_map, and R_data by equation 3; 0 = the job is not shuffle-heavy
    reduce_racks: tuple[int, ...] = ()  #: values of R_red to choose from; () = all that fit


# Non-recurring jobs: IV-D.1 ----------------------------------------------------------------------
def data_guideline(shuffle_bytes: float, hybrid: Hybrid) -> DataGuideline | None:
    """Equation 7, of Input x SIR; None if that is less than T_e: the job is not shuffle-heavy."""
    if shuffle_bytes < hybrid.elephant_bytes:
        return None
    # floor(sqrt(x)) is isqrt(floor(x)); at least 1 as x is
    racks = isqrt(int(shuffle_bytes // hybrid.elephant_bytes))
    return DataGuideline(min(racks, hybrid.racks_max))


# Recurring jobs: IV-D.2 --------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class ShuffleForecast:
    """The predicted maps and reduces of a recurring job, and the shuffle between them."""

    maps: int
    map_s: float  #: mean time of one map
    reduces: int
    reduce_s: float  #: time of one reduce
    shuffle_bytes: float  #: D_shu


def shuffle_forecast(
    forecast: Forecast, compute: Compute, error: float = 1.0
) -> ShuffleForecast | None:
    """The largest shuffle of a job's maps; None if nothing reads what maps write.

    ``error`` is what predicted sizes are multiplied by, to see what wrong forecasts do.
    """
    maps = {stage.name: stage for stage in forecast.stages if not stage.reads}
    read_bytes = {
        stage.name: sum(maps[name].output_bytes for name in stage.reads if name in maps)
        for stage in forecast.stages
        if stage.reads
    }
    if not any(read_bytes.values()):
        return None
    most = max(read_bytes, key=lambda name: read_bytes[name])
    [reduces] = [stage for stage in forecast.stages if stage.name == most]
    parents = [maps[name] for name in reduces.reads if name in maps]
    tasks = sum(stage.tasks for stage in parents)
    work_s = sum(stage.tasks * predicted_task_s(stage, compute, error) for stage in parents)
    return ShuffleForecast(
        maps=tasks,
        map_s=work_s / tasks,
        reduces=reduces.tasks,
        reduce_s=predicted_task_s(reduces, compute, error),
        shuffle_bytes=read_bytes[most] * error,
    )


def latency_matrix(job: ShuffleForecast, hybrid: Hybrid) -> tuple[Floats, Bools]:
    """L(R_map, R_red) of equation 8 in seconds, and where the shuffle uses circuits.

    Row i and column j stand for R_map = i + 1 and R_red = j + 1.  O(racks^2), in numpy.
    """
    counts = np.arange(1, hybrid.racks + 1)
    map_racks, reduce_racks = counts[:, np.newaxis], counts[np.newaxis, :]
    circuits = job.shuffle_bytes / (map_racks * reduce_racks) >= hybrid.elephant_bytes
    rate = np.where(circuits, hybrid.ocs_bytes_per_s, hybrid.eps_bytes_per_s)
    return _latency_s(job, hybrid, map_racks, reduce_racks, rate), circuits


def _latency_s(job: Any, hybrid: Hybrid, map_racks: Any, reduce_racks: Any, rate: Any) -> Any:
    """Equations 8 to 10, of numbers or of arrays of them."""
    maps_s = -(-job.maps // (map_racks * hybrid.slots)) * job.map_s
    reduces_s = -(-job.reduces // (reduce_racks * hybrid.slots)) * job.reduce_s
    flow_bytes = job.shuffle_bytes / (map_racks * reduce_racks)
    crossing_bytes = flow_bytes * (reduce_racks - 1)  # eq. 10
    if hybrid.shuffle_bound:
        # the least that the busiest rack sends or receives: eq. 10 has only part of the sending
        crossing_bytes = flow_bytes * np.maximum(map_racks, reduce_racks)
    return maps_s + crossing_bytes / rate + reduces_s  # eq. 9, 8


def recurring_guideline(
    job: ShuffleForecast, hybrid: Hybrid, factor: float
) -> DataGuideline | None:
    """The smallest R_map of the zone in which the shuffle uses circuits and latency is low.

    That zone (green in Fig. 4, not defined there) is taken to be all entries with circuits and a
    latency of at most ``factor`` times the best of them.  None if the job can't use circuits.
    """
    latency_s, circuits = latency_matrix(job, hybrid)
    latency_s = np.where(circuits, latency_s, np.inf)[: hybrid.racks_max]
    best_s = latency_s.min()
    if not np.isfinite(best_s):
        return None
    zone = latency_s <= factor * best_s
    row = int(_exact(zone, latency_s, job, hybrid, factor).any(axis=1).argmax())
    return DataGuideline(row + 1, tuple((np.flatnonzero(zone[row]) + 1).tolist()))


def _exact(
    zone: Bools, latency_s: Floats, job: ShuffleForecast, hybrid: Hybrid, factor: float
) -> Bools:
    """The zone, with entries at its edge compared by fractions: sums of floats break ties."""
    best_s = latency_s.min()
    edge = np.argwhere(np.abs(latency_s - factor * best_s) <= _ROUNDING * factor * best_s)
    if len(edge):
        names = ("map_s", "reduce_s", "shuffle_bytes")
        fractions: dict[str, Any] = {name: Fraction(getattr(job, name)) for name in names}
        exact = replace(job, **fractions)
        rate = Fraction(hybrid.ocs_bytes_per_s)
        found = {
            (row, column): _latency_s(exact, hybrid, row + 1, column + 1, rate)
            for close in (edge, np.argwhere(latency_s <= (1 + _ROUNDING) * best_s))
            for row, column in close.tolist()
        }
        limit_s = Fraction(str(factor)) * min(found.values())
        for row, column in edge.tolist():
            zone[row, column] = found[row, column] <= limit_s
    return zone


# Input data: IV-D.3 ------------------------------------------------------------------------------
def replica_racks(
    racks: Sequence[RackId], count: int, replicas: int, dice: Random
) -> tuple[tuple[RackId, ...], ...]:
    """Random disjoint sets of ``count`` racks, one a replica; with too few racks, fewer sets."""
    count = min(count, max(1, len(racks) // replicas))
    chosen = dice.sample(racks, min(len(racks), count * replicas))
    sets = [tuple(chosen[at : at + count]) for at in range(0, len(chosen), count)]
    return tuple(each for each in sets if len(each) == count)


# One stage --------------------------------------------------------------------------------------
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
        #: racks with the input of each task
        self._places = [tuple(dict.fromkeys(map(rack_of, t.input.nodes))) for t in stage.tasks]
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
        if rack in self.used:
            return len(self.used) >= self.racks_max or self._has_input(rack)
        if len(self.used) >= self.racks_max or not self._has_input(rack):
            return False
        gain_bytes = self._gains()
        return gain_bytes[rack] >= _NEARLY * max(gain_bytes.values())

    def _has_input(self, rack: RackId) -> bool:
        return self.stage.pending.in_rack(rack) is not None

    def count(self, rack: RackId, by: int) -> None:
        """A map runs on a rack, or has left its output there (+1), or no longer does (-1)."""
        was_used = rack in self.used
        self.used[rack] += by
        if self.used[rack] <= 0:
            del self.used[rack]
        if was_used != (rack in self.used):
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
        return bool(self.groups)

    def follow(self, choice: RackChoice, racks: Sequence[RackId], now_s: float) -> None:
        self.groups = [
            (tasks, (racks[best], *(racks[other] for other in others)))
            for tasks, best, others in zip(choice.tasks, choice.racks, choice.instead, strict=True)
        ]
        self.cct_s = choice.done_s - choice.released_s
        known = choice.released_s < UNKNOWN_S  # estimated from reported progress
        self.ready_s = now_s + choice.released_s if known else now_s
        self.taken.clear()
        self._claims.clear()

    def wants(self, rack: RackId) -> bool:
        group = self._group(rack)
        return group is not None and self.taken[rack] < self.groups[group][0]

    def count(self, rack: RackId, by: int) -> None:
        """A task runs on a rack (+1), or no longer does and has to run again (-1)."""
        group = self._group(rack)
        if by > 0 and group is not None:
            self._claims[rack] = group
        self.taken[rack] += by
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
    maps: dict[str, MapGuide] = field(default_factory=dict)  #: {stage that reads no other: its}
    #: {stage with finished sources: its guideline}
    reduces: dict[str, ReduceGuide] = field(default_factory=dict)

    def of(self, stage: StageView) -> MapGuide | ReduceGuide | None:
        """The guideline of a stage; None if it reads stages that are not done."""
        return self.reduces.get(stage.name) if stage.reads else self.maps[stage.name]


# All jobs -----------------------------------------------------------------------------------------
class Guidelines(Policy):
    """A part of Co-scheduler's policy; calls ``changed`` with a job that has new guidelines."""

    def __init__(
        self, config: CoConfig, cluster: ClusterView, changed: Callable[[JobView], None]
    ) -> None:
        super().__init__(config, cluster)
        self._config = config
        self._changed = changed
        self._racks = tuple(rack.id for rack in cluster.topology.rack_list())
        self._hybrid = Hybrid.of(cluster.topology, shuffle_bound=config.shuffle_bound)
        self._salt = cluster.random.getrandbits(32)  #: of the errors
        self._slots = SlotCount(cluster.topology)
        self._estimates = Estimates(cluster)
        self.parts = (self._estimates,)
        self.releases = Releases(self._racks)
        self.jobs: dict[JobId, JobGuides] = {}  #: those that have not ended

    def data_racks(self, data: DataAnnounced) -> tuple[tuple[RackId, ...], ...]:
        """Section IV-D.3: the racks of each replica; () if the data's job is not shuffle-heavy."""
        if self._config.guidelines == "none":
            return ()
        if data.forecast is not None:
            found = self._predicted(data.forecast)
        else:
            found = data_guideline(data.size_bytes * self._config.sir, self._hybrid)
        if found is None or not found.map_racks:
            return ()
        alive = [rack for rack in self._racks if self.releases.slots(rack)] or self._racks
        dice = self.cluster.random
        return replica_racks(alive, found.map_racks, self._hybrid.replicas, dice)

    def ready_s(self, stage: StageView) -> float:
        """When the racks of a stage's guideline should have a slot; ``UNKNOWN_S`` if unknown.

        For reduces as it was estimated when they were scheduled, for maps as it looks now.
        """
        guide = self.jobs[stage.job.id].of(stage)
        if isinstance(guide, ReduceGuide):
            return guide.ready_s
        assert guide is not None, f"{stage.id} reads no stage"
        now_s = self.cluster.now_s
        first_s = zip(self._racks, self.releases.release_s(now_s)[:, 0].tolist(), strict=True)
        return now_s + min((s for rack, s in first_s if guide.admits(rack)), default=UNKNOWN_S)

    def saved_s(self, stage: StageView) -> float:
        """How much sooner a stage's shuffle should be over on its guideline's racks; at least 0.

        Without the guideline its maps run, and its shuffle goes by packets, on all racks; each job
        that has not ended is taken to have an equal share of all slots and links there.
        """
        hybrid, jobs = self._hybrid, len(self.jobs)
        guide = self.jobs[stage.job.id].of(stage)
        shuffle_bytes, waited_s = 0.0, 0.0
        if isinstance(guide, ReduceGuide):
            shuffle_bytes, by_circuits_s = guide.shuffle_bytes, guide.cct_s
        else:
            assert guide is not None, f"{stage.id} reads no stage"
            shuffle_bytes = self._shuffle_bytes(stage)
            by_circuits_s = shuffle_bytes / (guide.racks_max * hybrid.ocs_bytes_per_s)
            here = ceil(stage.size / (guide.racks_max * hybrid.slots))
            anywhere = ceil(stage.size / max(1.0, hybrid.racks * hybrid.slots / jobs))
            waited_s = max(0, here - anywhere) * self._estimates.duration_s(stage).value
        by_packets_s = shuffle_bytes * jobs / (hybrid.racks * hybrid.eps_bytes_per_s)
        return max(0.0, by_packets_s - by_circuits_s - waited_s)

    # Guidelines are made -------------------------------------------------------------------------
    def job_submitted(self, job: JobView) -> None:
        predicted = None
        if job.forecast is not None:
            predicted = self._predicted(job.forecast) or DataGuideline(0)
        guides = self.jobs[job.id] = JobGuides(job, predicted)
        guided = self._config.guidelines != "none"
        for stage in job.stages.values():
            if not stage.reads:
                guide = guides.maps[stage.name] = MapGuide(stage, predicted, guided=guided)
                guide.estimate(self._shuffle_bytes(stage), self._hybrid)

    def task_done(self, task: TaskView) -> None:
        winner, stage = task.winner, task.stage
        assert winner is not None, f"{task.id} is not done"
        self.releases.expect(stage.id, self._estimates.duration_s(stage).value)
        self._count(winner, +1)
        guides = self.jobs[stage.job.id]
        guide = guides.maps.get(stage.name)
        changed = bool(guide and guide.estimate(self._shuffle_bytes(stage), self._hybrid))
        for reader in stage.readers:
            if all(source.complete for source in reader.reads):
                self._schedule(guides, reader)
                changed = True
        if changed:
            self._changed(stage.job)

    def _shuffle_bytes(self, stage: StageView) -> float:
        """D_S of a stage of maps: by the SIR of those that are done, or the configured one.

        Of maps that read no files 0: there is no rack to keep them to.
        """
        input_bytes = self._estimates.input_bytes(stage).value
        shuffle = self._estimates.output_bytes(stage)
        known = input_bytes > 0 and shuffle.source == "done"
        return shuffle.value if known else input_bytes * self._config.sir

    def node_lost(self, node: SlotView) -> None:
        self.releases.set_beyond(node.id, 0)
        self.releases.add_slots(node.rack, -node.slots)
        for guides in self.jobs.values():
            changed = self._reschedule(guides)
            for guide in guides.maps.values():
                if node.rack in guide.used:
                    guide.recount()
                    changed = True
            if changed:
                self._changed(guides.job)

    def slots_changed(self, node: SlotView, before: int) -> None:
        self._resize(node)
        self.releases.add_slots(node.rack, node.slots - before)
        self.releases.set_beyond(node.id, node.held - node.slots)
        if node.slots < before:
            for guides in self.jobs.values():
                if self._reschedule(guides):
                    self._changed(guides.job)

    def _resize(self, node: SlotView) -> None:
        if self._slots.take(node):
            slots = max(1, self._slots.total // len(self._racks))
            self._hybrid = replace(self._hybrid, slots=slots)

    def _reschedule(self, guides: JobGuides) -> bool:
        """Schedule reduces again for which racks have too few slots now; returns if any were."""
        left = {rack: self.releases.slots(rack) for rack in self._racks}
        short = [each for each in guides.reduces.values() if each.bound and not each.fits(left)]
        for reduces in short:
            self._schedule(guides, reduces.stage)
        return bool(short)

    def _predicted(self, forecast: Forecast) -> DataGuideline | None:
        """IV-D.2; None if the job can't use circuits."""
        error = self._error(forecast.name, self._config.forecast_error)
        shuffle = shuffle_forecast(forecast, self.cluster.topology.compute, error)
        if shuffle is None:
            return None
        return recurring_guideline(shuffle, self._hybrid, self._config.zone_factor)

    def _schedule(self, guides: JobGuides, stage: StageView) -> None:
        """IV-E.2 and IV-F: choose the best schedule for the pending tasks of a stage."""
        outputs = _output_by_rack(stage)
        heavy = sum(outputs.values()) >= self._hybrid.elephant_bytes
        guide = guides.reduces[stage.name] = ReduceGuide(stage, heavy, sum(outputs.values()))
        pending = stage.pending.count
        if not (heavy and pending and self._config.guidelines == "all"):
            return
        share = pending / stage.size  # less than 1 if some run already: a rack of theirs was lost
        sizes = [size * share for size in outputs.values()]
        among = guides.predicted.reduce_racks if guides.predicted else ()
        schedules = possible_schedules(sizes, pending, self._hybrid, among)
        times = ReleaseTimes(self.releases.release_s(self.cluster.now_s))
        choice = best_schedule(schedules, times, self._hybrid.wavelengths)
        if choice is not None:
            guide.follow(choice, self._racks, self.cluster.now_s)

    # Tasks and slots are counted -----------------------------------------------------------------
    def attempt_launched(self, attempt: AttemptView) -> None:
        stage, node = attempt.task.stage, attempt.node.id
        if not self.releases.expects(stage.id):
            self.releases.expect(stage.id, self._estimates.duration_s(stage).value)
        error = self._error(attempt.id, self._config.remaining_error)
        self.releases.launched(attempt.id, node, stage.id, self.cluster.now_s, error)
        self._count(attempt, +1)

    def attempt_progressed(self, attempt: AttemptView) -> None:
        self.releases.progressed(attempt.id, attempt.progress, self.cluster.now_s)

    def attempt_ended(self, attempt: AttemptView) -> None:
        self.releases.ended(attempt.id)
        node = attempt.node
        if self.releases.is_beyond(node.id):
            self.releases.set_beyond(node.id, node.held - node.slots)
        self._count(attempt, -1)  # if it succeeded, ``task_done`` counts it in again

    def node_joined(self, node: SlotView) -> None:
        self._resize(node)
        self.releases.add_slots(node.rack, node.slots)

    def job_ended(self, job: JobView) -> None:
        del self.jobs[job.id]  # its last attempts may still hold slots
        for stage in job.stages.values():
            self.releases.forget(stage.id)

    def _count(self, attempt: AttemptView, by: int) -> None:
        stage, rack = attempt.task.stage, attempt.node.rack
        guides = self.jobs.get(stage.job.id)
        guide = None if guides is None else guides.of(stage)
        if guide is not None:
            guide.count(rack, by)

    def _error(self, name: str, most: float) -> float:
        """The factor of an estimate: 1 + ``most`` or 1 - ``most``, always the same for a name."""
        up = zlib.crc32(f"{self._salt} {name}".encode()) % 2
        return 1.0 + most if up else 1.0 - most


def _output_by_rack(stage: StageView) -> dict[RackId, int]:
    """SM_i: {rack: bytes that a stage has to fetch from it}.  O(tasks that it reads)."""
    outputs: Counter[RackId] = Counter()
    for source in stage.reads:
        for task in source.tasks:
            if task.winner is not None:
                outputs[task.winner.node.rack] += task.winner.shuffle_bytes
    return outputs
