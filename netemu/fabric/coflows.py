"""Open coflows and their numbers, as flow schedulers see them; the order of flows by priority."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Sequence

import numpy as np

from railyard.netemu.fabric.store import Store
from railyard.netemu.kernel.state import NONE
from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.schedulers.base import Serves

#: Priority, then name; () comes last, as (inf,) does.
Key = tuple[tuple[float, ...], str]
#: So many flows that have ended may be in the order.
_ENDED_MAX = 1000


class Places:
    """Flows in the order of their keys, each with a number that says where it is."""

    def __init__(self, is_open: Callable[[Key, int], bool]) -> None:
        self._is_open = is_open
        self._keys: list[Key] = []
        self._flows: list[int] = []
        self._numbers: list[float] = []

    def add(self, new: Sequence[tuple[Key, int]], numbers: Floats, open_flows: int) -> bool:
        """Add flows, and set their ``numbers``, [flow]; so many flows are open.

        Returns whether flows that were there have other numbers now.
        """
        if len(self._keys) > 2 * open_flows + _ENDED_MAX:
            self._forget_ended()
        new, at, is_anew = sorted(new), 0, False
        while at < len(new):
            place = bisect_left(self._keys, new[at][0])
            end = len(new)
            if place < len(self._keys):
                end = max(bisect_right(new, self._keys[place], lo=at, key=lambda n: n[0]), at + 1)
            is_anew = self._insert(place, new[at:end], numbers) or is_anew
            at = end
        return is_anew

    def _forget_ended(self) -> None:
        kept = [
            at
            for at, entry in enumerate(zip(self._keys, self._flows, strict=False))
            if self._is_open(*entry)
        ]
        self._keys = [self._keys[at] for at in kept]
        self._flows = [self._flows[at] for at in kept]
        self._numbers = [self._numbers[at] for at in kept]

    def _insert(self, place: int, new: Sequence[tuple[Key, int]], numbers: Floats) -> bool:
        """Add flows that will be next to each other; returns whether all have other numbers."""
        between = self._between(place, len(new))
        self._keys[place:place] = [key for key, _ in new]
        self._flows[place:place] = [flow for _, flow in new]
        if between is None:
            self._numbers += [0.0] * len(new)
            self._forget_ended()  # whose numbers others may have now
            self._numbers = [float(number) for number in range(len(self._flows))]
            numbers[self._flows] = self._numbers
        else:
            self._numbers[place:place] = between
            numbers[[flow for _, flow in new]] = between
        return between is None

    def _between(self, place: int, count: int) -> list[float] | None:
        """``count`` ascending numbers below that at a place; None if there is no room for them."""
        known = self._numbers
        if place == len(known):
            after = known[-1] if known else -1.0
            return [after + number for number in range(1, count + 1)]
        after = known[place - 1] if place else known[0] - count - 1
        step = (known[place] - after) / (count + 1)
        numbers = [after, *(after + step * number for number in range(1, count + 1)), known[place]]
        return numbers[1:-1] if bool((np.diff(numbers) > 0).all()) else None


class OpenCoflows:
    """``Traffic``: the groups of a store that have something to send, by arrival, then by name."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._are_groups = store.serves is Serves.COFLOWS
        self._numbers: dict[str, int] = {}
        self.keys: list[str | None] = []  #: [group]: its name; None: the number is free
        self._arrived_s: list[float] = []  #: [group]
        self._free: list[int] = []
        self._by_arrival: list[tuple[float, str, int]] = []
        self._all: Numbers | None = None  #: groups by arrival
        self.groups: Numbers = np.zeros(0, np.int32)  #: those that have something to send

    # What flow schedulers see --------------------------------------------------------------------
    @property
    def now_s(self) -> float:
        return self._store.now_s

    @property
    def names(self) -> list[str]:
        return [self.keys[group] or "" for group in self.groups.tolist()]

    @property
    def arrived_s(self) -> Floats:
        return np.array([self._arrived_s[group] for group in self.groups.tolist()])

    @property
    def sent_bytes(self) -> Floats:
        return self.sent_by(self.groups)

    @property
    def left_bytes(self) -> Floats:
        left: Floats = self._measure(self.groups)[0]
        return left

    @property
    def bottleneck_s(self) -> Floats:
        slowest_s: Floats = self._measure(self.groups)[1]
        return slowest_s

    def __len__(self) -> int:
        return len(self.groups)

    # What the fabric does ------------------------------------------------------------------------
    def number_of(self, key: str) -> int:
        """The number of a coflow, which gets one with its first flow."""
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = self._free.pop() if self._free else len(self.keys)
            if number == len(self.keys):
                self.keys.append(None)
                self._arrived_s.append(0.0)
            self.keys[number], self._arrived_s[number] = key, self._store.now_s
            if self._are_groups:
                self._store.open_group(number)
            insort(self._by_arrival, (self._store.now_s, key, number))
            self._all = None
        return number

    def key_of(self, number: int) -> str | None:
        return None if number == NONE else self.keys[number]

    def known(self, key: str) -> int:
        return self._numbers.get(key, NONE)

    def take_up(self, key: str, arrived_s: float, sent_bytes: float) -> None:
        """Have a coflow that came earlier, and whose ended flows have sent so much."""
        number = self.number_of(key)
        self._drop(number, key)
        self._arrived_s[number] = arrived_s
        insort(self._by_arrival, (arrived_s, key, number))
        if self._are_groups:
            self._store.view.groups.sent[number] = sent_bytes

    def sent_by(self, groups: Numbers) -> Floats:
        """[group]: bytes that it has sent over links with limits."""
        store = self._store
        if store.by_bytes:  # all that has come, but for what is left
            left = self._measure(groups)[0]
            return np.asarray(store.state.groups.sent[groups] - left)
        store.loops.levels.count_all_sent(store.now_s, groups, store.on)
        return np.asarray(store.state.groups.sent[groups])

    def forget(self, key: str) -> None:
        """Forget a coflow that has no flows."""
        number = self._numbers.pop(key, NONE)
        if number != NONE:
            if self._are_groups:
                self._store.close_group(number)
            self._drop(number, key)
            self.keys[number] = None
            self._free.append(number)

    def refresh(self) -> None:
        if self._all is None:
            self._all = np.array([group for _, _, group in self._by_arrival], np.int32)
        self.groups = self._all[self._store.state.groups.rows[self._all] > 0]

    # Inside --------------------------------------------------------------------------------------
    def _drop(self, number: int, key: str) -> None:
        entry = self._arrived_s[number], key, number
        del self._by_arrival[bisect_left(self._by_arrival, entry)]
        self._all = None

    def _measure(self, groups: Numbers) -> Floats:
        """[left bytes or seconds, coflow]"""
        store, found = self._store, np.zeros((2, len(groups)))
        store.loops.filling.look_at(groups, found[0], found[1], store.now_s, store.on)
        return found
