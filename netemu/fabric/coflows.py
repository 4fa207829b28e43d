"""Registered coflows and their numbers; and what flow schedulers see of them."""

from __future__ import annotations

from bisect import bisect_left, insort

import numpy as np

from railyard.netemu.fabric.store import Store
from railyard.netemu.kernel.state import NONE
from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.schedulers.base import Serves


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
        """See ``Traffic``."""
        return self._store.now_s

    @property
    def names(self) -> list[str]:
        """See ``Traffic``."""
        return [self.keys[group] or "" for group in self.groups.tolist()]

    @property
    def arrived_s(self) -> Floats:
        """See ``Traffic``."""
        return np.array([self._arrived_s[group] for group in self.groups.tolist()])

    @property
    def sent_bytes(self) -> Floats:
        """See ``Traffic``."""
        return self.sent_by(self.groups)

    @property
    def left_bytes(self) -> Floats:
        """See ``Traffic``."""
        left: Floats = self._look(self.groups)[0]
        return left

    @property
    def bottleneck_s(self) -> Floats:
        """See ``Traffic``."""
        slowest_s: Floats = self._look(self.groups)[1]
        return slowest_s

    def __len__(self) -> int:
        """How many they are."""
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
        """The name of a coflow by its number."""
        return None if number == NONE else self.keys[number]

    def known(self, key: str) -> int:
        """The number of a coflow; ``NONE`` if it has none."""
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
            left = self._look(groups)[0]
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

    def look(self) -> None:
        """Find those that have something to send."""
        if self._all is None:
            self._all = np.array([group for _, _, group in self._by_arrival], np.int32)
        self.groups = self._all[self._store.state.groups.rows[self._all] > 0]

    # Inside --------------------------------------------------------------------------------------
    def _drop(self, number: int, key: str) -> None:
        entry = self._arrived_s[number], key, number
        del self._by_arrival[bisect_left(self._by_arrival, entry)]
        self._all = None

    def _look(self, groups: Numbers) -> Floats:
        """[left bytes or seconds, coflow]"""
        store, found = self._store, np.zeros((2, len(groups)))
        store.loops.filling.look_at(groups, found[0], found[1], store.now_s, store.on)
        return found
