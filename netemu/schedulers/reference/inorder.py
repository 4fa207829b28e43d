"""Coflows in a strict order: each takes what it can of what those before it have left.

A coflow's rates depend on its own flows and on what is left of the links that it uses.  They are
still right (its shares stay in proportion while it sends) as long as

- what has come free, or is now used by others, are links that did not hold it up, and
- of its own flows, some at most have ended, where that changes nothing for the others.

Neither it nor any of its rows is touched then: an event costs what it changes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from railyard.netemu.model.arrays import Bools, Floats, bits
from railyard.netemu.model.traffic import Group, Traffic
from railyard.netemu.schedulers.base import FlowScheduler
from railyard.netemu.schedulers.filling import fill, rounding_of
from railyard.netemu.schedulers.reference.leveling import Leveling


@dataclass(frozen=True, slots=True, eq=False)
class _Served:
    """What a coflow left when its rates were set."""

    links: int  #: those that its rows crossed: the bits of a number
    held: int  #: those that limit what it sends
    shut: int  #: those of which there was nothing, so that rows that cross them wait
    left: Floats | None  #: what it left of each link; None if it sends nothing
    leveling: Leveling | None  #: if its shares stay


class InOrder(FlowScheduler):
    """Serves coflows one after the other; subclasses say in which order, and by which shares."""

    by_coflow = True
    #: whether the end of some of a coflow's flows may change the rates of its others
    ends_matter = True
    #: whether shares are the rows' weights, so that they stay what they are
    shares_stay = False

    def __init__(self) -> None:
        self._served: dict[Group, _Served] = {}  #: in order
        self._capacities: Floats = np.zeros(0)

    @abstractmethod
    def order(self, traffic: Traffic) -> Sequence[Group]:
        """The coflows, the one that is served first first."""

    @abstractmethod
    def shares(self, group: Group) -> Floats:
        """In which proportion a coflow's rows are to be served."""

    def next_decision_s(self, traffic: Traffic) -> float:  # noqa: ARG002 (for subclasses)
        """When to decide again even if nothing happens."""
        return np.inf

    def decide(self, traffic: Traffic) -> float:
        """Serve in order."""
        line = _Line(self._served, self._capacities, traffic.capacities)
        changed = traffic.changed
        for group in self.order(traffic):
            before = line.reach(group)
            if before is None or not self._keep(group, before, line, group in changed):
                self._serve(group, before, line, group in changed)
        self._served, self._capacities = line.served, traffic.capacities
        return self.next_decision_s(traffic)

    def _keep(self, group: Group, before: _Served, line: _Line, changed: bool) -> bool:
        """Leave a coflow's rates as they are, if they are still right."""
        if before.held & line.moved or (changed and not group.only_ended):
            return False
        now = before
        if before.shut & line.moved:
            if _opens(group, line.left):
                return False
            now = replace(before, shut=before.links & bits(line.left == 0))
        if before.left is not None and (line.moved or changed):
            left = line.after(line.left - group.load)
            if (left < 0).any():
                return False
            freed = before.held & ~bits(left == 0)
            if freed and self.ends_matter and freed & line.loaded(group.load):
                return False
            now = replace(now, held=before.held & ~freed, left=left)
        line.passed(group, before, now)
        if changed:
            group.keep_rates()
        return True

    def _serve(self, group: Group, before: _Served | None, line: _Line, changed: bool) -> None:
        """Give a coflow what it can use."""
        if before is None or (changed and not group.only_ended):
            links = group.crossed
        else:
            links = before.links
        leveling = None
        if self.shares_stay:
            known = self._served.get(group)
            leveling = Leveling() if known is None or known.leveling is None else known.leveling
            rates, left = leveling.share(group, line.left, line.rounding)
            levels = leveling.levels
        else:
            shares = self.shares(group)
            left, levels = line.left.copy(), np.full(len(line.left), np.inf)
            rates = fill(group.paths, shares, left, levels) * (shares / group.weights)
        sends = bool(rates.any())
        if sends or changed or before is None or before.left is not None:
            group.set_rates(rates)
        shut = links & bits(line.left == 0)
        held = links & bits(levels < np.inf) & ~shut
        after = line.after(left, before) if sends else None
        line.passed(group, before, _Served(links, held, shut, after, leveling))


class _Line:
    """The line of coflows as it is walked along, now and as it was at the last decision."""

    def __init__(self, old: dict[Group, _Served], was: Floats, left: Floats) -> None:
        self.served: dict[Group, _Served] = {}  #: so far
        self.left = left  #: what is left of each link at this place
        self.moved = 0  #: the links of which something else was left at the last decision
        self._was = was if len(was) == len(left) else np.full(len(left), -1.0)  # what it was
        self._old = old
        self._walk = iter(old.items())
        self._overtaken: set[Group] = set()
        self.rounding = rounding_of(left)
        self._compare()

    def reach(self, group: Group) -> _Served | None:
        """How this coflow, the next in line, was served; None if it was not, or earlier in line."""
        before = self._old.get(group)
        if before is None or group in self._overtaken:
            return None
        for other, served in self._walk:
            if other is group:
                break
            self._overtaken.add(other)
            if served.left is not None:
                self._was = served.left
                self._compare()
        return before

    def passed(self, group: Group, before: _Served | None, now: _Served) -> None:
        """Go on behind a coflow."""
        self.served[group] = now
        was = None if before is None else before.left
        if was is not None or now.left is not None:
            self._was = self._was if was is None else was
            self.left = self.left if now.left is None else now.left
            self._compare()

    def after(self, left: Floats, before: _Served | None = None) -> Floats:
        """What a coflow leaves, without rounding: where it is nothing, or as much as before."""
        left[np.abs(left) <= self.rounding] = 0.0
        if before is None:
            return left
        was = self._was if before.left is None else before.left
        same = (left <= was + self.rounding) & (left >= was - self.rounding)
        return np.where(same, was, left)

    def loaded(self, load: Floats) -> int:
        """The links on which a coflow puts more than rounding."""
        return bits(load > self.rounding)

    def _compare(self) -> None:
        self.moved = 0 if self.left is self._was else bits(self.left != self._was)


def by_arrival(group: Group) -> tuple[float, str]:
    """First come, first served; names decide between coflows that came at the same time."""
    return group.arrived_s, group.key


def _opens(group: Group, left: Floats) -> bool:
    """Whether a row that waits need not do so any more."""
    free: Bools = left.take(group.paths).min(axis=0) > 0
    free &= (group.rates == 0) & (group.weights > 0)
    return bool(free.any())
