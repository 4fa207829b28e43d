"""Open coflows and their numbers, as flow schedulers see them; the order of flows by priority."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence

import numpy as np
from sortedcontainers import SortedDict

from railyard.netemu.fabric.store import Store
from railyard.netemu.kernel.state import NONE
from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.schedulers.base import Serves

#: Priority, then name; () comes last, as (inf,) does.
Key = tuple[tuple[float, ...], str]


class Places:
    """Flows in the order of their keys, each with a number that says where it is."""

    def __init__(self) -> None:
        self._flows: SortedDict[Key, int] = SortedDict()
        self._keys: dict[int, Key] = {}

    def add(self, new: Sequence[tuple[Key, int]], numbers: Floats) -> bool:
        """Add flows, and set their ``numbers``, [flow]; returns whether others have new ones."""
        others = len(self._flows)
        is_anew = len(new) > others  # quicker than a place for each
        for done, (key, flow) in enumerate(sorted(new)):
            self._flows[key] = flow
            self._keys[flow] = key
            is_anew = is_anew or not self._number(key, len(new) - done, numbers)
        if is_anew:
            numbers[list(self._flows.values())] = np.arange(len(self._flows))
        return is_anew and others > 0

    def remove(self, flows: Iterable[int]) -> None:
        for flow in flows:
            del self._flows[self._keys.pop(flow)]

    def _number(self, key: Key, coming: int, numbers: Floats) -> bool:
        """Give a flow a number; returns whether there is one between its neighbours'.

        Leaves room for all of those that are ``coming``, which may have places next to it.
        """
        flows = self._flows
        earlier = next(flows.irange(maximum=key, inclusive=(True, False), reverse=True), None)
        later = next(flows.irange(minimum=key, inclusive=(False, True)), None)
        after = None if later is None else numbers[flows[later]]
        if earlier is not None:
            before = numbers[flows[earlier]]
        else:
            before = -1.0 if after is None else after - coming - 1
        step = 1.0 if after is None else (after - before) / (coming + 1)
        numbers[flows[key]] = number = before + step
        return bool(before < number and (after is None or number < after))


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
        return self._measure(self.groups)[0]

    @property
    def bottleneck_s(self) -> Floats:
        return self._measure(self.groups)[1]

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
                self._store.loops.rows.close_group(number, self._store.on)
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

    def _measure(self, groups: Numbers) -> tuple[Floats, Floats]:
        """[coflow]: bytes left to send; seconds that its slowest link needs for them, alone"""
        store, left, slowest_s = self._store, np.zeros(len(groups)), np.zeros(len(groups))
        store.loops.filling.look_at(groups, left, slowest_s, store.now_s, store.on)
        return left, slowest_s
