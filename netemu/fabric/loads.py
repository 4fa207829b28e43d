"""What groups of flows put on the links, all together."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

import numpy as np

from railyard.netemu.model.arrays import Floats

#: How far rates may exceed a capacity: rounding.
_ROUNDING = 1 + 1e-9


class Carrier(Protocol):
    """A group of flows."""

    @property
    def load(self) -> Floats:
        """Bytes/s that it puts on each link."""

    @property
    def rate_bytes_per_s(self) -> float:
        """Bytes/s of all its flows together."""


class LinkLoads:
    """The sum of the groups' latest loads, in bytes/s by link."""

    def __init__(self, capacities: Floats) -> None:
        self.total: Floats = np.zeros(len(capacities))
        self._counted: dict[Carrier, Floats] = {}  #: of those that send
        self.limit(capacities)

    def limit(self, capacities: Floats) -> None:
        """The links can carry so much."""
        self._most = capacities * _ROUNDING + 1e-6

    def count(self, groups: Collection[Carrier]) -> None:
        """Groups, all different, put their loads on the links; the arrays must stay as they are."""
        counted = self._counted
        if 2 * len(groups) > len(counted):  # quicker, and rounding is gone
            for group in groups:
                counted.pop(group, None)
            self.total = np.zeros(len(self.total))
            for load in counted.values():
                self.total += load
        total = self.total
        for group in groups:
            before = counted.pop(group, None)
            if before is not None:
                total -= before
            if group.rate_bytes_per_s:
                counted[group] = load = group.load
                total += load

    def beyond(self) -> set[int]:
        """The links that carry more than they can."""
        over = self.total > self._most
        # counting takes half the time of ``any``
        return set(np.flatnonzero(over).tolist()) if np.count_nonzero(over) else set()

    def forget(self, group: Carrier) -> None:
        """A group puts nothing on the links any more."""
        load = self._counted.pop(group, None)
        if load is not None:
            self.total -= load
        if not self._counted:
            self.total[:] = 0.0  # so that rounding never piles up
