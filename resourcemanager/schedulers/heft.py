"""HEFT: tasks in the order of their upward ranks, each to the slot where it should end first.

Source: Topcuoglu, Hariri and Wu, "Performance-Effective and Low-Complexity Task Scheduling for
Heterogeneous Computing", IEEE TPDS 2002, as it is commonly described (the paper was not at hand); a
baseline of Joint (Yang et al., IEEE Access 2018, V-A).  The upward rank of a task is its time and
the longest path from there to the end of its job; edges count with the mean capacity of all
switches.  A task's start on a slot is when all its data would be there, if each edge took its time
at that capacity and none within a server, and the slot is free: at its plan's end, or in a gap that
is long enough (insertion).  Slots are alike, so the earliest start is the earliest finish.

Left open there, chosen here:

* Jobs come over time: each is planned whole as it comes, behind and between what is planned of
  earlier ones, whose plans stay.  A slot is free no sooner than its server has done what is queued.
* Of equal times, the first slot in the order of the topology, so that reduces of different jobs
  share switches where much is idle; or any slot (``heft.ties``).
* A slot is given to the first task of its server's plan whose predecessors have all ended: plans
  are orders, not times.  It fetches in its slot, or before it has one (``heft.prefetch``): Joint's
  authors do not say which.  A map's block counts as a predecessor's data.
* A task that has to run again is planned anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Literal

import msgspec
import numpy as np

from railyard.netemu.model.arrays import Bools, Floats, Numbers
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.interface.views import ClusterView, JobView, StageView, TaskView
from railyard.resourcemanager.schedulers.joint.servers import LocalSchedulers, QueuedTask, WhenReady


# Insertion ----------------------------------------------------------------------------------------
class Timelines:
    """The plans of all slots.  Times are those of the cluster's clock."""

    def __init__(self, slots: Numbers, dice: Random | None = None) -> None:
        """``slots``: how many each server has [servers]; ``dice``: of equal ones; None = first."""
        self._dice = dice
        self._server = np.repeat(np.arange(len(slots)), slots)  #: of each slot
        self._end_s = np.zeros(len(self._server))  #: of the last task planned on each slot
        self._gaps: list[tuple[float, float, int]] = []  #: (begin, end, slot) before that

    def free_from(self, now_s: float, busy_until_s: Floats) -> None:
        """Nothing more can start before now, nor on a server before ``busy_until_s`` [servers]."""
        self._end_s = np.maximum(self._end_s, busy_until_s[self._server])
        self._end_s[np.isinf(self._end_s)] = now_s
        self._gaps = [gap for gap in self._gaps if gap[1] > now_s]

    def earliest(
        self, ready_s: Floats, length_s: float, usable: Bools, now_s: float
    ) -> tuple[int, float] | None:
        """The slot and the time at which a task can start first; None if no server is usable.

        ``ready_s``: when it would have its data on each server [servers].
        """
        if not usable.any():
            return None
        ready_s = np.where(usable, np.maximum(ready_s, now_s), np.inf)
        start_s = np.maximum(self._end_s, ready_s[self._server])
        slot = int(start_s.argmin())
        if self._dice is not None:
            slot = self._dice.choice(np.flatnonzero(start_s == start_s[slot]).tolist())
        best = slot, float(start_s[slot])
        if self._gaps:
            begins, ends, slots = map(np.array, zip(*self._gaps, strict=True))
            within_s = np.maximum(begins, ready_s[self._server[slots]])
            within_s[within_s + length_s > ends] = np.inf
            gap = int(within_s.argmin())
            if within_s[gap] < best[1]:
                best = int(slots[gap]), float(within_s[gap])
        return best

    def add(self, slot: int, start_s: float, length_s: float) -> int:
        end_s = start_s + length_s
        for at, (begin_s, until_s, where) in enumerate(self._gaps):
            if where == slot and begin_s <= start_s and end_s <= until_s:
                rest = ((begin_s, start_s, slot), (end_s, until_s, slot))
                self._gaps[at : at + 1] = [gap for gap in rest if gap[0] < gap[1]]
                break
        else:
            if self._end_s[slot] < start_s:
                self._gaps.append((float(self._end_s[slot]), start_s, slot))
            self._end_s[slot] = end_s
        return int(self._server[slot])


# The scheduler ------------------------------------------------------------------------------------
class HeftConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings "heft.*"."""

    prefetch: bool = False  #: whether tasks fetch before they have slots, once all sources are done
    #: which of several slots with equal times gets a task
    ties: Literal["first", "random"] = "first"


class Heft(LocalSchedulers):
    """Answers "order" and "tasks" by its plan."""

    Config = HeftConfig
    section = "heft"
    uses_forecasts = True

    def __init__(self, config: HeftConfig, cluster: ClusterView) -> None:
        super().__init__(config, cluster)
        self._prefetch = config.prefetch
        slots = [node.slots for node in cluster.topology.nodes()]
        self._timelines = Timelines(
            np.array(slots, dtype=np.int64), cluster.random if config.ties == "random" else None
        )
        self._new: list[JobView] = []
        self._startable: dict[str, StageView] = {}  #: stages of which all sources have just ended

    # What happens --------------------------------------------------------------------------------
    def job_submitted(self, job: JobView) -> None:
        self.graphs.submitted(job)
        self._new.append(job)

    def job_ended(self, job: JobView) -> None:
        super().job_ended(job)
        for stage in job.stages.values():
            self._startable.pop(stage.id, None)

    def task_done(self, task: TaskView) -> None:
        for stage in task.stage.readers:
            if _sources_done(stage):
                self._startable[stage.id] = stage

    def reconsider(self) -> Iterable[JobView]:
        new, self._new = self._new, []
        for job in new:
            self._plan(job)
        self.review()
        startable, self._startable = self._startable, {}
        for stage in startable.values():
            for task in stage.tasks:
                entry = self.servers.tasks.get(task.id)
                if entry is not None:
                    self._let_start(entry, to_fetch=True)
        return self.offered()

    # Plans ---------------------------------------------------------------------------------------
    def _plan(self, job: JobView) -> None:
        """Plan a job's tasks, by descending upward rank."""
        servers, now_s = self.servers, self.cluster.now_s
        self._timelines.free_from(now_s, now_s + servers.available_s(now_s))
        ranks_s = self.graphs.longest_s
        for stage in sorted(job.stages.values(), key=lambda stage: -ranks_s[stage.id]):
            self.renew(stage)

    def renew(self, stage: StageView) -> None:
        tasks = list(self.to_schedule(stage))
        if tasks:
            usable = self.servers.usable(stage.job.avoid)
            ready_s = self._data_ready_s(stage) if stage.reads else None
            for task in tasks:
                self._place(task, ready_s, usable)
        self.count_unscheduled(stage)

    def _place(self, task: TaskView, ready_s: Floats | None, usable: Bools) -> None:
        """Plan a task where it can start first; ``ready_s``: None of one that reads a file."""
        now_s = self.cluster.now_s
        at: list[int] = []
        if ready_s is None:
            at = self.alive(task.input.nodes)
            read_s = self.graphs.transfer_s(task.input.input_bytes) if at else 0.0
            ready_s = np.full(len(usable), now_s + read_s)
            ready_s[at] = now_s
        length_s = self.graphs.execution_s(task.stage)
        found = self._timelines.earliest(ready_s, length_s, usable, now_s)
        if found is None:
            return
        slot, start_s = found
        server = self._timelines.add(slot, start_s, length_s)
        entry = QueuedTask(
            task=task,
            server=server,
            state="scheduled",
            starts_s=start_s,
            execution_s=length_s,
            turn_s=start_s,
        )
        self.servers.allocate(entry)
        if _sources_done(task.stage):
            away = bool(at) and server not in at
            self._let_start(entry, to_fetch=away or bool(task.stage.reads))

    def _data_ready_s(self, stage: StageView) -> Floats:
        """When a task of a stage would have all its data on each server [servers]."""
        now_s = self.cluster.now_s
        count = len(self.servers.names)
        here_s, sent_s = np.zeros(count), np.full(count, -np.inf)
        for source in stage.reads:
            send_s = self.graphs.transfer_s(self.graphs.equal_edge(source, stage))
            for task in source.tasks:
                if task.state != "left":
                    server, end_s = self._end_of(task, now_s)
                    here_s[server] = max(here_s[server], end_s)
                    sent_s[server] = max(sent_s[server], end_s + send_s)
        last = int(sent_s.argmax())
        others_s = np.full(count, sent_s[last])
        sent_s[last] = -np.inf
        others_s[last] = sent_s.max()
        ready_s: Floats = np.maximum(here_s, others_s)
        return ready_s

    def _end_of(self, task: TaskView, now_s: float) -> tuple[int, float]:
        """The server of a planned task, and when it should end, or has."""
        servers = self.servers
        if task.winner is not None:
            return servers.number[task.winner.node.id], now_s
        for attempt in (*task.live, *task.kept):
            return servers.number[attempt.node.id], max(now_s, servers.ends_s(attempt))
        entry = servers.tasks.get(task.id)
        if entry is None:  # no server takes it now
            return 0, now_s
        return entry.server, max(now_s, entry.starts_s + entry.execution_s)

    # Starts --------------------------------------------------------------------------------------
    def _let_start(self, entry: QueuedTask, *, to_fetch: bool) -> None:
        """All predecessors of a planned task have ended."""
        if self._prefetch and to_fetch:
            self.reserve(entry)
        else:
            self.make_ready(entry)


def _sources_done(stage: StageView) -> bool:
    return all(source.complete for source in stage.reads)


RECIPE = Recipe(
    name="heft",
    source="Topcuoglu et al., IEEE TPDS 2002",
    order=Heft,
    tasks=Heft,
    shuffle=WhenReady,
)
