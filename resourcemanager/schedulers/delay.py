"""Delay scheduling: a job lets slots pass for a while, hoping for one beside its data.

Source: Zaharia et al., EuroSys 2010, on fair order, the variant with waits W1 (node) and W2
(rack): a job that settled for rack-local slots keeps taking them until it gets a node-local one.
Left open there, chosen here: the wait runs from the first slot that was let pass, as if heartbeats
came without a break; of equal tasks the lowest number goes first; re-runs and reduces don't wait.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from railyard.cluster.errors import require
from railyard.cluster.ids import JobId
from railyard.resourcemanager.interface.decisions import Decision, Place, Wait
from railyard.resourcemanager.interface.defaults import ClosestTasks
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.interface.views import ClusterView, JobView, Level, TaskView
from railyard.resourcemanager.schedulers.fair import FairOrder

#: The level of slots that a job has settled for: 0 = node-local, 1 = rack-local, 2 = any slot.
_SETTLED: dict[Level, int] = {"node-local": 0, "anywhere": 0, "rack-local": 1, "remote": 2}


class DelayConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings "delay.*"."""

    node_wait_s: float = 5.0  #: W1: how long a job holds out for a node-local slot; 0 = never
    rack_wait_s: float = 5.0  #: W2: how much longer for a rack-local one

    def __post_init__(self) -> None:
        for name in ("node_wait_s", "rack_wait_s"):
            value = getattr(self, name)
            require(value >= 0, f"delay.{name}", value, "seconds >= 0 (0 never waits)")


class DelayTasks(ClosestTasks):
    """Answers "tasks": the job's closest pending map, or wait for a better slot."""

    Config = DelayConfig
    section = "delay"

    def __init__(self, config: DelayConfig, cluster: ClusterView) -> None:
        super().__init__(config, cluster)
        waits = (config.node_wait_s, config.rack_wait_s)
        #: {what a job has settled for: {level: how long it lets slots of that level pass}}
        self._patience_s = {
            settled: {level: sum(waits[settled:worst]) for level, worst in _SETTLED.items()}
            for settled in _SETTLED.values()
        }
        self._settled: dict[JobId, int] = {}
        self._skipping_since_s: dict[JobId, float] = {}
        #: figures: waits that ended with a launch, those that ended beside the data, their seconds
        self._waits, self._won, self._waited_s = 0, 0, 0.0

    def job_ended(self, job: JobView) -> None:
        self._settled.pop(job.id, None)
        self._skipping_since_s.pop(job.id, None)

    def offer_map(self, job: JobView, task: TaskView, level: Level, now_s: float) -> Decision:
        since_s = self._skipping_since_s.setdefault(job.id, now_s)
        ready_at_s = since_s + self._patience_s[self._settled.get(job.id, 0)][level]
        if now_s < ready_at_s:
            return Wait(f"only a {level} slot is free", until_s=ready_at_s, level=level)
        del self._skipping_since_s[job.id]
        self._settled[job.id] = _SETTLED[level]
        if now_s == since_s:
            return Place(task, level)
        self._waits += 1
        self._won += level == "node-local"
        self._waited_s += now_s - since_s
        return Place(task, f"{level} after {now_s - since_s:g} s")

    def figures(self) -> Mapping[str, float]:
        """Whether it was worth waiting: how often a job did, until a node-local slot, how long."""
        return {"waits": self._waits, "waits_node_local": self._won, "waited_s": self._waited_s}


RECIPE = Recipe(
    name="delay", source="Zaharia et al., EuroSys 2010", order=FairOrder, tasks=DelayTasks
)
