"""All guides of all jobs that run, kept up to date, and what they say about a slot.

Source: Co-scheduler, sections IV-C to IV-G.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from math import inf
from statistics import fmean

from railyard.cluster.ids import JobId, RackId
from railyard.cluster.topology import Topology
from railyard.resourcemanager.interface.events import DataAnnounced
from railyard.resourcemanager.interface.forecast import Forecast
from railyard.resourcemanager.interface.views import (
    AttemptView,
    ClusterView,
    JobView,
    StageView,
    TaskView,
)
from railyard.resourcemanager.schedulers.co_scheduler.expected import communication
from railyard.resourcemanager.schedulers.co_scheduler.explore import (
    UNKNOWN_S,
    ReleaseTimes,
    best_schedule,
)
from railyard.resourcemanager.schedulers.co_scheduler.guidelines import (
    Guideline,
    Hybrid,
    guideline,
    recurring_guideline,
    replica_racks,
)
from railyard.resourcemanager.schedulers.co_scheduler.guides import MapGuide, ReduceGuide
from railyard.resourcemanager.schedulers.co_scheduler.reduces import Circuits, possible_schedules
from railyard.resourcemanager.schedulers.co_scheduler.releases import Releases


class Line(IntEnum):
    """The lines of Algorithm 2 by which a job's task may have a slot; the first one wins."""

    SCHEDULED_REDUCE = 4
    GUIDED_MAP = 5
    LIGHT_REDUCE = 6
    LIGHT_MAP = 7
    ANY_REDUCE = 8
    ANY_MAP = 9
    NONE = 10


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The settings that guides go by."""

    sir: float  #: shuffle / input of a job before any of its maps has ended
    factor: float  #: of the zone, see ``recurring_guideline``
    guide_maps: bool = True
    guide_reduces: bool = True
    remaining_error: float = 0.0
    forecast_error: float = 0.0
    bounded: bool = False  #: see ``Hybrid``


class JobGuides:
    """The guides of one job."""

    def __init__(self, job: JobView) -> None:
        self.job = job
        self.predicted: Guideline | None = None
        self.maps: list[MapGuide] = []  #: its stages that read no other
        self.reduces: dict[str, ReduceGuide] = {}  #: by stage, those that may run

    def line(self, rack: RackId) -> tuple[Line, StageView | None]:
        """The first line that has a task for a slot of this rack, and the stage of that task."""
        best, where = Line.NONE, None
        for reduces in self.reduces.values():
            line = _line_of_reduce(reduces, rack)
            if line < best and reduces.stage.next_reduce() is not None:
                best, where = line, reduces.stage
        for maps in self.maps:
            if maps.stage.pending.count:
                line = _line_of_map(maps, rack)
                if line < best:
                    best, where = line, maps.stage
        return best, where

    def rank(self) -> int:
        """How early the job's line may come: 0 = any, 1 = from 6 on, 2 = from 7 on."""
        if any(guide.racks_max and guide.stage.pending.count for guide in self.maps):
            return 0
        waiting = [guide for guide in self.reduces.values() if guide.stage.pending.count]
        return 0 if any(guide.heavy for guide in waiting) else 1 if waiting else 2


def _line_of_reduce(guide: ReduceGuide, rack: RackId) -> Line:
    if not guide.heavy:
        return Line.LIGHT_REDUCE
    return Line.SCHEDULED_REDUCE if guide.wants(rack) else Line.ANY_REDUCE


def _line_of_map(guide: MapGuide, rack: RackId) -> Line:
    if not guide.racks_max:
        return Line.LIGHT_MAP
    return Line.GUIDED_MAP if guide.bound and guide.admits(rack) else Line.ANY_MAP


class Planner:
    """Makes the guides and keeps them.  ``jobs`` and ``releases`` are to be read only."""

    def __init__(self, figures: Figures, cluster: ClusterView) -> None:
        racks = cluster.topology.rack_list()
        self._figures = figures
        self._cluster = cluster
        self._racks = tuple(rack.id for rack in racks)
        self.releases = Releases(self._racks)
        self._hybrid = replace(_hybrid(cluster.topology), bounded=figures.bounded)
        self._circuits = _circuits(cluster.topology)
        self._salt = cluster.random.getrandbits(32)  #: of the errors
        self.jobs: dict[JobId, JobGuides] = {}

    def guides(self, job: JobView) -> JobGuides:
        """Those of a job that has not ended."""
        return self.jobs[job.id]

    # Data ----------------------------------------------------------------------------------------
    def data_racks(self, data: DataAnnounced) -> tuple[tuple[RackId, ...], ...]:
        """Section IV-D.3: the racks of each replica; () if the data's job is not shuffle-heavy."""
        if not self._figures.guide_maps:
            return ()
        if data.forecast is not None:
            found = self._predicted(data.forecast)
        else:
            found = guideline(data.size_bytes, self._figures.sir, self._hybrid)
        if found is None or not found.map_racks:
            return ()
        alive = [rack for rack in self._racks if self.releases.slots(rack)] or self._racks
        dice = self._cluster.random
        return replica_racks(alive, found.map_racks, self._hybrid.replicas, dice)

    # Waits ---------------------------------------------------------------------------------------
    def has_racks(self, job: JobView, stage: StageView) -> bool:
        """Whether a guideline says on which racks a stage should run."""
        return self._guide(job, stage).bound

    def ready_s(self, job: JobView, stage: StageView) -> float:
        """When these racks should have a slot, ``UNKNOWN_S`` if nothing is known.

        As it was estimated for reduces when they were scheduled, as it looks now for maps.
        """
        guide = self._guide(job, stage)
        if isinstance(guide, ReduceGuide):
            return guide.ready_s
        now_s = self._cluster.now_s
        first_s = zip(self._racks, self.releases.first_release_s(now_s).tolist(), strict=True)
        return now_s + min((s for rack, s in first_s if guide.admits(rack)), default=UNKNOWN_S)

    def _guide(self, job: JobView, stage: StageView) -> MapGuide | ReduceGuide:
        guides = self.jobs[job.id]
        if stage.reads:
            return guides.reduces[stage.name]
        return next(guide for guide in guides.maps if guide.stage is stage)

    # What happens --------------------------------------------------------------------------------
    def job_submitted(self, job: JobView) -> None:
        """Give its maps their guide."""
        guides = self.jobs[job.id] = JobGuides(job)
        if job.forecast is not None:
            guides.predicted = self._predicted(job.forecast) or Guideline(0)
        for stage in job.stages.values():
            if not stage.reads:
                figures = self._figures
                guide = MapGuide(stage, guides.predicted, figures.sir, guided=figures.guide_maps)
                guide.estimate(self._hybrid)
                guides.maps.append(guide)

    def job_ended(self, job: JobView) -> None:
        """Forget it; its last attempts may still hold slots."""
        del self.jobs[job.id]
        for stage in job.stages.values():
            self.releases.forget(stage.id)

    def attempt_launched(self, attempt: AttemptView) -> None:
        """Count it where it runs."""
        stage, rack = attempt.task.stage, attempt.node.rack
        error = self._error(attempt.id, self._figures.remaining_error)
        self.releases.launched(attempt.id, rack, stage.id, self._cluster.now_s, error)
        self._count(attempt, +1)

    def attempt_progressed(self, attempt: AttemptView) -> None:
        """Learn when it will end."""
        self.releases.progressed(attempt.id, attempt.progress, self._cluster.now_s)

    def attempt_ended(self, attempt: AttemptView) -> None:
        """Take it off where it ran; if it succeeded, ``task_done`` counts it in again."""
        self.releases.ended(attempt.id)
        self._count(attempt, -1)

    def task_done(self, task: TaskView) -> bool:
        """Learn from it; whether what its job may do has changed."""
        winner, stage = task.winner, task.stage
        assert winner is not None, f"{task.id} is not done"
        if winner.ended_s is not None:
            self.releases.task_took(stage.id, winner.ended_s - winner.launched_s)
        self._count(winner, +1)
        changed = False
        guides = self.jobs[stage.job.id]
        for guide in guides.maps:
            if guide.stage is stage:
                guide.map_done(task)
                changed = guide.estimate(self._hybrid)
        for reader in stage.readers:
            if all(source.done == source.size for source in reader.reads):
                self._plan(guides, reader)
                changed = True
        return changed

    def node_joined(self, rack: RackId, slots: int) -> None:
        """A rack has more slots."""
        self.releases.add_slots(rack, slots)

    def node_lost(self, rack: RackId, slots: int) -> Iterator[JobView]:
        """A rack has fewer slots; yields the jobs whose guides are others now."""
        self.releases.add_slots(rack, -slots)
        left = {each: self.releases.slots(each) for each in self._racks}
        for guides in self.jobs.values():
            changed = False
            for guide in guides.maps:
                if rack in guide.used:
                    guide.recount()
                    changed = True
            for reduces in guides.reduces.values():
                if reduces.bound and not reduces.fits(left):
                    self._plan(guides, reduces.stage)
                    changed = True
            if changed:
                yield guides.job

    # ---------------------------------------------------------------------------------------------
    def _plan(self, guides: JobGuides, stage: StageView) -> None:
        """Sections IV-E.2 and IV-F: choose the best schedule for the pending tasks of a stage."""
        outputs = _output_by_rack(stage)
        heavy = sum(outputs.values()) >= self._circuits.elephant_bytes
        guide = guides.reduces[stage.name] = ReduceGuide(stage, heavy)
        pending = stage.pending.count
        if not (heavy and pending and self._figures.guide_reduces):
            return
        share = pending / stage.size  # less than 1 if some run already: a rack of theirs was lost
        sizes = [size * share for size in outputs.values()]
        among = guides.predicted.reduce_racks if guides.predicted else ()
        racks = len(self._racks)
        schedules = possible_schedules(sizes, pending, self._circuits, racks, among)
        times = ReleaseTimes(self.releases.release_s(self._cluster.now_s))
        choice = best_schedule(schedules, times, self._circuits.wavelengths)
        if choice is not None:
            known = choice.released_s < UNKNOWN_S
            guide.follow(choice, self._racks, self._cluster.now_s, known)

    def _predicted(self, forecast: Forecast) -> Guideline | None:
        error = self._error(forecast.name, self._figures.forecast_error)
        expected = communication(forecast, self._cluster.topology.compute, error)
        if expected is None:
            return None
        return recurring_guideline(expected, self._hybrid, self._figures.factor)

    def _count(self, attempt: AttemptView, by: int) -> None:
        stage, rack = attempt.task.stage, attempt.node.rack
        guides = self.jobs.get(stage.job.id)
        if guides is None:
            return  # the job has ended
        guide: MapGuide | ReduceGuide | None = guides.reduces.get(stage.name)
        if not stage.reads:
            guide = self._guide(stage.job, stage)
        if guide is not None:
            guide.took(rack) if by > 0 else guide.gave_back(rack)

    def _error(self, name: str, most: float) -> float:
        """By what an estimate is multiplied: 1 +- ``most``, the same for one thing each time."""
        up = zlib.crc32(f"{self._salt} {name}".encode()) % 2
        return 1.0 + most if up else 1.0 - most


def _output_by_rack(stage: StageView) -> dict[RackId, int]:
    """SM_i: what a stage has to fetch from each rack.  O(tasks that it reads)."""
    outputs: dict[RackId, int] = {}
    for source in stage.reads:
        for task in source.tasks:
            if task.winner is not None:
                rack = task.winner.node.rack
                outputs[rack] = outputs.get(rack, 0) + task.winner.shuffle_bytes
    return outputs


def _hybrid(topology: Topology) -> Hybrid:
    racks, ocs = topology.rack_list(), topology.ocs
    eps = fmean(rack.uplink_bytes_per_s for rack in racks)
    return Hybrid(
        racks=len(racks),
        slots=max(1, topology.slots // len(racks)),
        eps_bytes_per_s=eps,
        ocs_bytes_per_s=ocs.port if ocs else eps,
        elephant_bytes=ocs.elephant if ocs else inf,
        replicas=topology.storage.replication,
    )


def _circuits(topology: Topology) -> Circuits:
    ocs = topology.ocs
    if ocs is None:
        return Circuits(port_bytes_per_s=inf, reconfigure_s=0.0, elephant_bytes=inf)
    return Circuits(
        port_bytes_per_s=ocs.port,
        reconfigure_s=ocs.reconfigure,
        elephant_bytes=ocs.elephant,
        wavelengths=ocs.wavelengths,
    )
