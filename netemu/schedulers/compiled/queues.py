"""The queues of ``aalo`` for crowds: only coflows whose rates change are looked at."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

from netemu.schedulers.aalo import move_s, queue_of
from netemu.schedulers.base import Group, Traffic
from netemu.schedulers.inorder import by_arrival


class Queues:
    """Coflows in the order in which they are served, and when they move to their next queues."""

    def __init__(self) -> None:
        self.order: list[Group] = []
        #: what they are ordered by: queue, arrival
        self._places: dict[Group, tuple[int, tuple[float, str]]] = {}
        self._moves_s: dict[Group, float] = {}

    def update(self, traffic: Traffic) -> None:
        """Put coflows in order, as of now."""
        for group in traffic.changed:
            self._place(group)
        if len(self.order) != len(traffic.groups):
            for group in traffic.groups:  # all of them, when this begins
                if group not in self._places:
                    self._place(group)
            for group in [group for group in self.order if group not in traffic.groups]:
                self._take_out(group)
                self._moves_s.pop(group, None)
        if self.next_move_s() <= traffic.now_s:
            due = [group for group, at_s in self._moves_s.items() if at_s <= traffic.now_s]
            for group in due:
                self._place(group)
            self.take_rates(due, traffic.now_s)

    def take_rates(self, groups: Iterable[Group], now_s: float) -> None:
        """Note that coflows send at other rates from now on."""
        for group in groups:
            self._moves_s[group] = move_s(group, now_s)

    def next_move_s(self) -> float:
        """When the first of them moves; inf if none does."""
        return min(self._moves_s.values(), default=float("inf"))

    # Inside --------------------------------------------------------------------------------------
    def _place(self, group: Group) -> None:
        place = queue_of(group), by_arrival(group)
        if self._places.get(group) == place:
            return
        if group in self._places:
            self._take_out(group)
        self._places[group] = place
        insort(self.order, group, key=self._places.__getitem__)

    def _take_out(self, group: Group) -> None:
        place = self._places[group]
        del self.order[bisect_left(self.order, place, key=self._places.__getitem__)]
        del self._places[group]
