"""Has the flow scheduler say who comes first, and the loops follow that."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from railyard.cluster.errors import InvariantError
from railyard.netemu.fabric.coflows import OpenCoflows
from railyard.netemu.fabric.optics import OpticalPlane
from railyard.netemu.fabric.store import Store
from railyard.netemu.kernel.state import NO_END
from railyard.netemu.model.arrays import Floats, Numbers, instant_s
from railyard.netemu.schedulers.base import FlowScheduler, Holds, Plan, Serves

_NO_SHARES: Floats = np.zeros(0)
_NO_QUEUES: Numbers = np.zeros(0, np.int32)


@dataclass(eq=False)
class Planner:
    """The plan of a flow scheduler for one store."""

    _store: Store
    scheduler: FlowScheduler
    _coflows: OpenCoflows
    _optics: OpticalPlane | None

    def __post_init__(self) -> None:
        self.decided = 0  #: how many times rates were set
        self.holds = False  #: whether the plan still does
        self._next_s: float | None = None  #: while nothing changes
        self._order: Numbers = np.zeros(1, np.int32)  #: groups; 0 is that of all flows
        self._shares, self._queues = _NO_SHARES, _NO_QUEUES
        self._ends_together = False
        self._until = Holds.UNTIL_ARRIVALS
        self._has_limits = False  #: whether it ends when a coflow has sent so much
        self._keeps = self.scheduler.serves is Serves.PRIORITIES

    def set_rates(self) -> None:
        """Set rates anew; asks the flow scheduler if its plan holds no more."""
        store, now_s = self._store, self._store.now_s
        self.decided += 1
        self._next_s = None
        if not self.holds:
            self.holds = True
            if store.serves is Serves.COFLOWS:
                self._plan()
        is_set = True
        if self._optics is not None:
            is_set = self._optics.set_rates()
        elif store.state.listed == 0:
            store.loops.lines.serve(self._keeps, now_s, store.on)
        elif store.by_bytes:
            store.loops.filling.serve_in_order(*self._filling, now_s, store.on)
        else:
            is_set = store.settle(
                lambda: store.loops.levels.serve_in_order(*self._levels, now_s, store.on)
            )
        if not is_set:
            raise InvariantError(f"{self.scheduler.name}: rates do not settle at {now_s} s")

    def next_s(self) -> float:
        """When the next flow ends or the plan does, now that rates are set; inf: never."""
        store, now_s = self._store, self._store.now_s
        if self._next_s is not None:
            return self._next_s
        if self._optics is not None:
            found = self._optics.next_s()
        elif store.state.listed == 0:
            found = store.loops.lines.first_end_s(now_s, store.on)
        elif store.by_bytes:
            found = store.loops.filling.first_end_s(now_s, self._order, store.on)
        else:
            found = min(store.loops.levels.first_event_s(now_s, self._order, store.on))
        self._next_s = float(found)
        return self._next_s

    def run(self, until_s: float, together_s: float) -> bool:
        """Go from event to event until then, or the plan's end; whether to set rates anew."""
        store = self._store
        if until_s + instant_s(until_s) < self.next_s():
            store.now_s = until_s
            return False
        self._next_s = None
        span = store.now_s, until_s, together_s
        if self._optics is not None:
            ran = self._optics.run(until_s, together_s)
        elif store.state.listed == 0:
            ran = store.loops.lines.run(span, self._keeps, store.on)
        elif store.by_bytes:
            ran = store.loops.filling.run(span, self._until.value, *self._filling, store.on)
        else:
            ran = store.loops.levels.run(span, self._until.value, *self._levels, store.on)
        store.now_s, events, is_stale = ran
        if events == NO_END:
            name = self.scheduler.name
            raise InvariantError(f"{name}: what is due does not end at {store.now_s} s")
        self.decided += max(events - 1, 0)
        if is_stale and (self._has_limits or self._until is not Holds.UNTIL_ARRIVALS):
            self.holds = False
        return bool(is_stale)

    # Inside --------------------------------------------------------------------------------------
    @property
    def _levels(self) -> tuple[Numbers, Floats, Numbers]:
        return self._order, self._shares, self._queues

    @property
    def _filling(self) -> tuple[Numbers, bool, Floats, Numbers]:
        return self._order, self._ends_together, self._shares, self._queues

    def _plan(self) -> None:
        coflows, store = self._coflows, self._store
        coflows.refresh()
        if not len(coflows):
            self._order = coflows.groups
            return
        plan = self.scheduler.plan(coflows)
        self._check(plan, len(coflows))
        self._order = coflows.groups[plan.order].astype(np.int32)
        self._ends_together, self._until = plan.ends_together, plan.holds
        self._shares, self._queues = _NO_SHARES, _NO_QUEUES
        if plan.shares is not None and plan.queues is not None:
            self._shares, self._queues = plan.shares, plan.queues.astype(np.int32)
        self._has_limits = plan.limits_bytes is not None
        limits = np.inf if plan.limits_bytes is None else plan.limits_bytes
        store.state.groups.limit[coflows.groups] = limits

    def _check(self, plan: Plan, coflows: int) -> None:
        """Raise ``InvariantError`` for a plan that leaves out a coflow, or is beyond the links."""
        name = self.scheduler.name
        if sorted(plan.order.tolist()) != list(range(coflows)):
            raise InvariantError(f"{name}'s order: need each of {coflows} coflows once")
        if plan.ends_together and not self.scheduler.by_bytes:
            raise InvariantError(f"{name}: ends_together needs by_bytes")
        if plan.limits_bytes is not None and self.scheduler.by_bytes:
            raise InvariantError(f"{name}: limits_bytes is for schedulers that are not by_bytes")
        if (plan.shares is None) != (plan.queues is None):
            raise InvariantError(f"{name}: queues and shares go together")
        if plan.shares is not None and not (
            plan.shares.min() >= 0 and plan.shares.sum() <= 1 + 1e-9
        ):
            raise InvariantError(f"{name}'s shares: need 0 or more each, and at most 1 in all")
