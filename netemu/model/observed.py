"""The links between racks, as they are reported to an observer.

All links but the nodes' NICs: racks' up- and downlinks or switches, and optical ports.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

import msgspec

from railyard.cluster.bounded import BytesPerSOrInf
from railyard.netemu.model.network import Network

#: Less than this share of a capacity is rounding.
_ROUNDING = 1e-9


class LinkState(msgspec.Struct, frozen=True, kw_only=True):
    """A link now."""

    capacity_bytes_per_s: BytesPerSOrInf
    free_bytes_per_s: BytesPerSOrInf  #: what no flow uses


def links_as_stated(network: Network) -> dict[str, LinkState]:
    """{link: its state with the topology's capacity, and without flows}"""
    capacities = {name: float(network.capacities[n]) for name, n in network.number.items()}
    return {
        name: _state(capacities[name], capacities[name])
        for name in (*network.cross_rack, *network.ports)
    }


class Observable(Protocol):
    """The fabric, as far as its links are looked at."""

    def capacities_bytes_per_s(self) -> Mapping[str, float]:
        """What each link can carry now."""

    def free_bytes_per_s(self) -> Mapping[str, float]:
        """What of each link's capacity no flow uses now."""


class ObservedLinks:
    """The states last reported to an observer, and which links have changed by enough since.

    A link has changed if its capacity has, if what is free of it has by more than ``change`` of
    the capacity, or if it has become idle or full.
    """

    def __init__(self, network: Network, change: float) -> None:
        self._change = change
        self._reported = links_as_stated(network)

    def look(self, network: Observable) -> dict[str, LinkState]:
        """The links that have changed by now, which count as reported from then on."""
        capacities, free = network.capacities_bytes_per_s(), network.free_bytes_per_s()
        changed = {}
        for name, reported in self._reported.items():
            now = _state(capacities[name], free[name])
            if self._differs(now, reported):
                changed[name] = now
        self._reported |= changed
        return changed

    def all(self) -> dict[str, LinkState]:
        """All links as last reported."""
        return dict(self._reported)

    def _differs(self, now: LinkState, reported: LinkState) -> bool:
        capacity, free = now.capacity_bytes_per_s, now.free_bytes_per_s
        if capacity != reported.capacity_bytes_per_s:
            return True
        if free == reported.free_bytes_per_s:
            return False
        return free in (0.0, capacity) or (
            abs(free - reported.free_bytes_per_s) > self._change * capacity
        )


def _state(capacity: float, free: float) -> LinkState:
    """A link's state, idle or full where only rounding is missing."""
    if math.isinf(capacity):
        free = capacity
    elif free <= _ROUNDING * capacity:
        free = 0.0
    elif free >= capacity * (1 - _ROUNDING):
        free = capacity
    return LinkState(capacity_bytes_per_s=capacity, free_bytes_per_s=free)
