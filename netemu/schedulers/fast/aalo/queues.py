"""Aalo's queues, kept between decisions: only coflows with other rates are looked at again."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf

from railyard.netemu.model.traffic import Group, Traffic
from railyard.netemu.schedulers.filling import by_arrival
from railyard.netemu.schedulers.reference.aalo import move_s, queue_of, reach_s

#: The heap is made anew when it has this many times as many entries as there are coflows.
_MOSTLY_VOID = 4
#: When a coflow lacks only rounding to its queue's limit, the entry's number, when the coflow
#: moves on, and the coflow.
_Move = tuple[float, int, float, Group]


class Queues:
    """Coflows in the order in which they are served, and when they move to their next queues."""

    def __init__(self) -> None:
        self.order: list[Group] = []
        #: what each is ordered by: queue, arrival
        self._places: dict[Group, tuple[int, tuple[float, str]]] = {}
        self._moves: list[_Move] = []  #: heap
        self._latest: dict[Group, _Move] = {}  #: each coflow's valid entry
        self._numbers = count()

    def update(self, traffic: Traffic) -> None:
        """Bring the order of coflows up to now."""
        for group in traffic.changed:
            self._place(group)
        if len(self.order) != len(traffic.groups):
            for group in traffic.groups:  # all of them at the first decision
                if group not in self._places:
                    self._place(group)
            for group in [group for group in self.order if group not in traffic.groups]:
                self._take_out(group)
                self._latest.pop(group, None)
        moves, due = self._moves, []
        while moves and moves[0][0] <= traffic.now_s:
            move = heappop(moves)
            group = move[3]
            if self._latest.get(group) is move:
                self._place(group)
                due.append(group)
        self.take_rates(due, traffic.now_s)

    def take_rates(self, groups: Iterable[Group], now_s: float) -> None:
        """Note that coflows send at other rates from now on.

        Each moves on at the limit of the queue in which it has been served.
        """
        for group in groups:
            queue = self._places[group][0]
            moves_s = move_s(group, queue, now_s)
            near_s = max(reach_s(group, queue, now_s), now_s) if moves_s < inf else inf
            self._note(group, near_s, moves_s)

    def next_move_s(self) -> float:
        """When the first coflow moves to its next queue, in seconds; inf if none does."""
        moves = self._moves
        while moves and self._latest.get(moves[0][3]) is not moves[0]:
            heappop(moves)
        if not moves:
            return inf
        first_s = moves[0][2]
        if all(move[0] >= first_s for move in moves[1:3]):  # and so are all below them
            return first_s
        return min(move[2] for move in moves if self._latest.get(move[3]) is move)

    def ends(self) -> dict[int, int]:
        """{queue: up to where its coflows are in the order}, of queues that have coflows."""
        return {self._places[group][0]: place for place, group in enumerate(self.order, 1)}

    def of(self, group: Group) -> tuple[int, float, float]:
        """A coflow's queue, when it lacks only rounding to its limit, and when it moves on."""
        move = self._latest[group]
        return self._places[group][0], move[0], move[2]

    def have_moved(
        self, order: Sequence[Group], queues: Sequence[int], times_s: Iterable[tuple[float, float]]
    ) -> None:
        """Note how all coflows are ordered now, and ``of`` of each of them."""
        self.order[:] = order
        for group, queue, (near_s, moves_s) in zip(order, queues, times_s, strict=True):
            self._places[group] = queue, self._places[group][1]
            if self._latest[group][0] != near_s or self._latest[group][2] != moves_s:
                self._note(group, near_s, moves_s)

    # Inside --------------------------------------------------------------------------------------
    def _note(self, group: Group, near_s: float, moves_s: float) -> None:
        self._latest[group] = move = near_s, next(self._numbers), moves_s, group
        if moves_s < inf:
            heappush(self._moves, move)
        if len(self._moves) > _MOSTLY_VOID * (len(self.order) + _MOSTLY_VOID):
            self._moves = [move for move in self._moves if self._latest.get(move[3]) is move]
            heapify(self._moves)

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
