"""The load of each link: bytes/s of all groups of flows together."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

import numpy as np

from railyard.netemu.model.arrays import Floats

#: How far a load may exceed a capacity by rounding.
_ROUNDING = 1 + 1e-9


class Carrier(Protocol):
    """A group of flows."""

    @property
    def load(self) -> Floats:
        """Bytes/s on each link."""

    @property
    def rate_bytes_per_s(self) -> float:
        """Bytes/s of all its flows together."""


class LinkLoads:
    """The sum of the groups' latest loads, in bytes/s by link."""

    def __init__(self, capacities: Floats) -> None:
        self.total: Floats = np.zeros(len(capacities))
        self._counted: dict[Carrier, Floats] = {}  #: {group that sends: its load as counted}
        self.limit(capacities)

    def limit(self, capacities: Floats) -> None:
        """Set the capacities of the links, in bytes/s."""
        self._most = capacities * _ROUNDING + 1e-6

    def count(self, groups: Collection[Carrier]) -> None:
        """Count the new loads of these groups, all different; their arrays must not be changed."""
        counted = self._counted
        if 2 * len(groups) > len(counted):  # quicker, and free of rounding errors
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
        """The numbers of the links that are loaded beyond their capacity."""
        over = self.total > self._most
        # count_nonzero takes half the time of any
        return set(np.flatnonzero(over).tolist()) if np.count_nonzero(over) else set()

    def forget(self, group: Carrier) -> None:
        """Count a group no more."""
        load = self._counted.pop(group, None)
        if load is not None:
            self.total -= load
        if not self._counted:
            self.total[:] = 0.0  # so that rounding errors never add up
