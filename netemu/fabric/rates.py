"""The groups that have something to send, and their rates.

The flow scheduler sets the rates.  Here is decided when it is asked, and when the next flow ends;
rates that exceed the capacity of a link are refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

import numpy as np

from railyard.cluster.errors import InvariantError
from railyard.netemu.fabric.finishes import Finishes
from railyard.netemu.fabric.loads import LinkLoads
from railyard.netemu.model.arrays import Floats
from railyard.netemu.model.context import GroupContext
from railyard.netemu.model.network import Network
from railyard.netemu.model.openflows import Carrier, Flow, ScheduledGroup
from railyard.netemu.model.traffic import Ahead, Traffic
from railyard.netemu.schedulers.base import FlowScheduler

_NO_GROUPS: frozenset[ScheduledGroup] = frozenset()


class Rates:
    """The rates of one network's groups of flows."""

    def __init__(self, scheduler: FlowScheduler, network: Network, context: GroupContext) -> None:
        self.scheduler = scheduler
        self.stale = False  #: whether rates must be set again before time passes
        self.decided = 0  #: how many times rates were set
        #: bytes/s by link number; the last entry stands for no link, and fills up short routes
        self.capacities: Floats = _read_only(np.append(network.capacities, inf))
        self.decide_s = inf  #: when the scheduler wants to set rates again
        self.next_s = (
            inf  #: ``decide_s``, or the end of the next flow if earlier; out of date while stale
        )
        self._network = network
        self._context = context
        #: groups that have something to send, in the order in which they began to
        self._sending: dict[ScheduledGroup, None] = {}
        #: groups whose flows have changed since rates were last set
        self._changed: dict[ScheduledGroup, None] = {}
        self._capacity_changed = False
        self._finishes: Finishes[Carrier] = Finishes()
        self._is_port = np.zeros(len(self.capacities), dtype=bool)
        self._is_port[[network.number[name] for name in network.ports]] = True
        self._loads = LinkLoads(self.capacities)

    # What happens --------------------------------------------------------------------------------
    def note_change(self, carrier: Carrier) -> None:
        """Note that flows of a group have started, ended, or left it."""
        group = carrier.as_group
        if group is not None:
            self._sending[group] = self._changed[group] = None
            self.stale = True

    def set_capacity(self, link: int, bytes_per_s: float) -> None:
        """Give a link another capacity from now on."""
        was_limited = np.isfinite(self.capacities[link])
        capacities = self.capacities.copy()
        capacities[link] = bytes_per_s
        self.capacities = _read_only(capacities)
        self._loads.limit(self.capacities)
        self._capacity_changed = self.stale = True
        if was_limited != np.isfinite(bytes_per_s):
            self._context.set_limited(link, limited=not was_limited)
            for group in self._sending:
                group.limits_changed()
                self._changed[group] = None

    def first_end_s(self) -> float:
        """When the first flow ends; inf if none does."""
        return self._finishes.first_s()

    def take_first(self, by_s: float) -> list[Flow]:
        """End the flows that are due first, and others of their group that are due by ``by_s``."""
        carrier = self._finishes.take()
        due = carrier.take_due(by_s)
        self.note_change(carrier)
        return due

    @property
    def is_sending(self) -> bool:
        """Whether any flow has something to send at a rate of the flow scheduler."""
        return bool(self._sending)

    def load(self) -> Floats:
        """Bytes/s of all groups on each link."""
        return self._loads.total

    # Decisions -----------------------------------------------------------------------------------
    def decide(self, circuits_s: float | None) -> None:
        """Set rates.

        ``circuits_s`` is when circuits have to be decided on again; None where there are none.
        """
        self.stale = False
        self.decided += 1
        if circuits_s is not None and not (self._changed or self._capacity_changed):
            self.decide_s = circuits_s  # only circuits whose flows nothing else limits have changed
            self._note_finishes()
            return
        self._capacity_changed = False
        changed = frozenset(group for group in self._changed if not group.is_empty)
        for group in self._changed:
            if group in changed:
                group.admit()
                continue
            self._sending.pop(group, None)
            self._loads.forget(group)
            group.quiet()
        self._changed.clear()
        now_s, groups = self._context.now_s, self._sending.keys()
        traffic = Traffic(now_s, self.capacities, groups, changed, self._is_port)
        self.decide_s = self.scheduler.decide(traffic)
        if circuits_s is not None:
            self.decide_s = min(self.decide_s, circuits_s)
        self._take(changed)

    def go_ahead(self, before_s: float, together_s: float) -> list[tuple[float, int, Flow]] | None:
        """Process the events before ``before_s`` that the scheduler can compute at once.

        The time is then that of the last one.  Returns the flows that ended, in order, as (time in
        seconds, sequence, flow); None if there was no such event.
        """
        groups = self._sending.keys()
        traffic = Traffic(self._context.now_s, self.capacities, groups, _NO_GROUPS, self._is_port)
        ahead = self.scheduler.go_ahead(traffic, before_s, together_s)
        if ahead is None:
            return None
        self._context.now_s, self.decide_s = ahead.now_s, ahead.decide_s
        self.decided += ahead.events
        self._take(_NO_GROUPS)
        return _end_rows(ahead, groups)

    def went_ahead(self, events: int, circuits_s: float) -> None:
        """Count decisions that were about circuits only; see ``decide``."""
        self.decided += events
        self.decide_s = circuits_s
        self._note_finishes()

    # Inside --------------------------------------------------------------------------------------
    def _take(self, changed: frozenset[ScheduledGroup]) -> None:
        """Take over the new rates; ``InvariantError`` if they exceed the capacity of a link."""
        name = self.scheduler.name
        if any(group.stale for group in changed):
            raise InvariantError(f"{name} left the rates of changed flows as they were")
        if self.decide_s < self._context.now_s:
            raise InvariantError(f"{name} wants to decide at {self.decide_s}, in the past")
        retimed = self._context.retimed
        self._loads.count(dict.fromkeys(each for each in retimed if each.as_group is not None))
        self._note_finishes()
        if over := self._loads.beyond():
            names = [link for link, number in self._network.number.items() if number in over]
            raise InvariantError(f"{name} set rates beyond the capacity of {', '.join(names)}")

    def _note_finishes(self) -> None:
        self._finishes.note(self._context.retimed)
        self._context.retimed.clear()
        self.next_s = min(self._finishes.first_s(), self.decide_s)


def _end_rows(ahead: Ahead, groups: Iterable[ScheduledGroup]) -> list[tuple[float, int, Flow]]:
    """Take the flows of the rows that ended; returns those that ended with them, in order."""
    by_group = ahead.groups.argsort(kind="stable")
    ends_s, rows = ahead.ends_s[by_group].tolist(), ahead.rows[by_group].tolist()
    flows: list[Flow] = []
    for group, many in zip(groups, np.bincount(ahead.groups).tolist(), strict=False):
        if many and group.as_rows is not None:
            flows += group.as_rows.end_rows(rows[len(flows) : len(flows) + many])
    each = zip(ends_s, flows, strict=True)
    return sorted((at_s, flow.sequence, flow) for at_s, flow in each if not flow.more)


def _read_only(values: Floats) -> Floats:
    values.flags.writeable = False
    return values
