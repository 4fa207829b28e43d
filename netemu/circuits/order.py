"""The order in which coflows get circuits: by the circuit policy's ``urgency``."""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railyard.netemu.circuits.policies.base import CircuitPolicy, CoflowsOnCircuits
from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.model.instants import instant_s
from railyard.netemu.model.openflows import CoflowDemand
from railyard.netemu.model.ties import ranks

_NOWHERE = math.inf, math.inf, ""  # of a coflow that has no place yet


def in_order(
    demands: Collection[CoflowDemand],
    policy: CircuitPolicy,
    port_bytes_per_s: Floats,
    now_s: float,
) -> list[CoflowDemand]:
    """Coflows by urgency, then arrival, then name; those that have moved get another place.

    ``port_bytes_per_s`` has the ports out of the racks first, then those into them.
    """
    moved = [demand for demand in demands if demand.place is None]
    if moved:
        port_bytes = _by_port([d.out_bytes for d in moved], [d.in_bytes for d in moved])
        port_pairs = _by_port([d.out_pairs for d in moved], [d.in_pairs for d in moved])
        find_places(moved, policy, port_bytes, port_pairs, port_bytes_per_s)
    return sorted_by_place(demands, now_s)


def find_places(
    moved: Sequence[CoflowDemand],
    policy: CircuitPolicy,
    port_bytes: Floats,
    port_pairs: Numbers,
    port_bytes_per_s: Floats,
) -> None:
    """Set the places of coflows that have other bytes or pairs than before.

    ``port_bytes`` and ``port_pairs`` are theirs: [coflow, out or in, rack].
    """
    switch = policy.switch
    found = policy.urgency(
        CoflowsOnCircuits(
            port_bytes,
            port_pairs,
            port_bytes_per_s.reshape(2, -1) / switch.wavelengths,
            switch.delta_s,
            switch.wavelengths,
        )
    )
    for demand, urgency in zip(moved, found.tolist(), strict=True):
        demand.place = urgency, demand.arrived_s, demand.key


def sorted_by_place(demands: Collection[CoflowDemand], now_s: float) -> list[CoflowDemand]:
    """Coflows by their places; urgencies that differ by rounding are equal."""
    places = [demand.place or _NOWHERE for demand in demands]
    rank = ranks(np.array([urgency for urgency, _, _ in places]), instant_s(now_s)).tolist()
    keyed = [
        (number, came_s, key, demand)
        for number, (_, came_s, key), demand in zip(rank, places, demands, strict=True)
    ]
    return [demand for *_, demand in sorted(keyed)]


def _by_port(outs: list[array[Any]], ins: list[array[Any]]) -> NDArray[Any]:
    """[coflow, out or in, rack]: what coflows have at each port."""
    both = b"".join(chain.from_iterable(zip(outs, ins, strict=True)))  # no copies of arrays
    return np.frombuffer(both, outs[0].typecode).reshape(len(outs), 2, -1)
