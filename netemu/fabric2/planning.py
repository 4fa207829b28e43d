"""Has flow schedulers say who comes first, and has the loops follow that."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Any

import numpy as np

from railyard.cluster.errors import InvariantError
from railyard.netemu.circuits2.plane import OpticalPlane
from railyard.netemu.fabric2.store import Store
from railyard.netemu.kernel.state import NO_END
from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.schedulers.newbase import FlowScheduler, Holds, Plan, Serves

_NO_SHARE = np.zeros(0)
_NO_QUEUE = np.zeros(0, np.int32)


class OpenCoflows:
    """See ``Traffic``: the groups of a store, as flow schedulers see them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        #: by arrival, then by name: (seconds, name, group)
        self._by_arrival: list[tuple[float, str, int]] = []
        self._all: Numbers | None = None
        self.groups: Numbers = np.zeros(0, np.int32)  #: those that have something to send

    @property
    def now_s(self) -> float:
        """The time."""
        return self._store.now_s

    @property
    def names(self) -> list[str]:
        """See ``Traffic``."""
        return [self._known(group)[1] for group in self.groups.tolist()]

    @property
    def arrived_s(self) -> Floats:
        """See ``Traffic``."""
        return np.array([self._known(group)[0] for group in self.groups.tolist()])

    @property
    def sent_bytes(self) -> Floats:
        """See ``Traffic``."""
        groups = self._store.state.groups
        self._store.loops.levels.count_all_sent(self.now_s, self._run_on(), self._store.run_on)
        return groups.sent[self.groups]

    @property
    def bottleneck_s(self) -> Floats:
        """See ``Traffic``."""
        found = np.zeros(len(self.groups))
        store = self._store
        store.loops.filling.stop_all(store.now_s, store.run_on)
        store.loops.filling.bottlenecks_s(self._run_on(), found, store.run_on)
        return found

    def add(self, group: int, key: str, arrived_s: float) -> None:
        """Note a coflow."""
        insort(self._by_arrival, (arrived_s, key, group))
        self._all = None

    def drop(self, group: int, key: str, arrived_s: float) -> None:
        """Forget a coflow."""
        del self._by_arrival[bisect_left(self._by_arrival, (arrived_s, key, group))]
        self._all = None

    def look(self) -> None:
        """Find those that have something to send."""
        if self._all is None:
            self._all = np.array([group for _, _, group in self._by_arrival], np.int32)
            self._of = {group: (at_s, key) for at_s, key, group in self._by_arrival}
        self.groups = self._all[self._store.state.groups.rows[self._all] > 0]

    def _known(self, group: int) -> tuple[float, str]:
        return self._of[group]

    def _run_on(self) -> Any:
        return self.groups


class Planner:
    """The plan of one store's flow scheduler, and the loops that follow it."""

    def __init__(self, store: Store, scheduler: FlowScheduler) -> None:
        self.scheduler = scheduler
        self.coflows = OpenCoflows(store)
        self.decided = 0  #: how many times rates were set
        self.has_plan = False
        self.optics: OpticalPlane | None = None  #: the network's circuits
        self._store = store
        self._only = np.zeros(1, np.int32)  #: the group of all flows
        self._order: Numbers = self._only
        self._share, self._queue = _NO_SHARE, _NO_QUEUE
        self._ends_together, self._ends = False, 0
        self._keeps = scheduler.serves is Serves.PRIORITIES

    def set_rates(self) -> None:
        """Set rates anew; asks the flow scheduler if its plan has ended."""
        store, now_s = self._store, self._store.now_s
        self.decided += 1
        if not self.has_plan:
            self._plan()
        if self.optics is not None:
            if not self.optics.set_rates():
                raise InvariantError(f"{self.scheduler.name}: rates do not settle at {now_s} s")
        elif store.state.listed == 0:
            store.loops.lines.serve(self._keeps, now_s, store.run_on)
        elif store.by_bytes:
            store.loops.filling.serve_in_order(
                self._order, True, self._ends_together, self._share, self._queue, now_s, store.run_on
            )
        elif not store.loops.levels.serve_in_order(
            self._order, self._share, self._queue, now_s, store.run_on
        ):
            raise InvariantError(f"{self.scheduler.name}: rates do not settle at {now_s} s")

    def next_s(self) -> float:
        """When the next flow ends or the plan does; rates are set."""
        store, now_s = self._store, self._store.now_s
        if self.optics is not None:
            return self.optics.next_s()
        if store.by_bytes or store.state.listed == 0:
            return float(store.loops.filling.first_end_s(now_s, store.run_on))
        return float(min(store.loops.levels.first_event_s(now_s, self._order, store.run_on)))

    def run(self, until_s: float, together_s: float) -> bool:
        """Go from event to event until then, or until the plan ends; returns whether rates are to
        be set anew."""
        store, now_s = self._store, self._store.now_s
        to = now_s, until_s, together_s
        if self.optics is not None:
            now_s, events, stale = self.optics.run(until_s, together_s)
        elif store.state.listed == 0:
            now_s, events, stale = store.loops.lines.run(*to, self._keeps, store.run_on)
        elif store.by_bytes:
            now_s, events, stale = store.loops.filling.run(
                *to, self._ends, self._order, True, self._ends_together, self._share, self._queue,
                store.run_on,
            )
        else:
            now_s, events, stale = store.loops.levels.run(
                *to, self._ends, self._order, self._share, self._queue, store.run_on
            )
        if events == NO_END:
            raise InvariantError(f"{self.scheduler.name}: what is due does not end at {now_s} s")
        self.decided += max(events - 1, 0)
        store.now_s = now_s
        self.has_plan = self.has_plan and not (stale and self._may_end)
        return bool(stale)

    def _plan(self) -> None:
        store, coflows = self._store, self.coflows
        self.has_plan, self._may_end = True, False
        if store.serves is not Serves.COFLOWS:
            return
        coflows.look()
        plan: Plan = self.scheduler.plan(coflows)
        self._order = coflows.groups[plan.order].astype(np.int32)
        self._ends_together, self._ends = plan.ends_together, plan.holds.value
        self._share, self._queue = _NO_SHARE, _NO_QUEUE
        if plan.shares is not None and plan.queues is not None:
            self._share, self._queue = plan.shares, plan.queues.astype(np.int32)
        limits = store.state.groups.limit
        limits[coflows.groups] = np.inf if plan.limits_bytes is None else plan.limits_bytes
        self._may_end = plan.limits_bytes is not None or plan.holds is not Holds.UNTIL_ARRIVALS
