"""The order in which coflows get circuits: by the circuit policy's ``urgency``."""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railyard.netemu.circuits.policies.base import CircuitPolicy, CoflowsOnCircuits
from railyard.netemu.model.arrays import Floats
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
    """Coflows by urgency, then arrival, then name; urgencies that differ by rounding are equal.

    ``port_bytes_per_s`` has the ports out of the racks first, then those into them.
    """
    _find_places([demand for demand in demands if demand.place is None], policy, port_bytes_per_s)
    places = [demand.place or _NOWHERE for demand in demands]
    rank = ranks(np.array([urgency for urgency, _, _ in places]), instant_s(now_s)).tolist()
    keyed = [
        (number, came_s, key, demand)
        for number, (_, came_s, key), demand in zip(rank, places, demands, strict=True)
    ]
    return [demand for *_, demand in sorted(keyed)]


def _find_places(
    moved: list[CoflowDemand], policy: CircuitPolicy, port_bytes_per_s: Floats
) -> None:
    """Set the places of coflows that have other bytes or pairs than before."""
    if not moved:
        return
    urgencies = policy.urgency(
        CoflowsOnCircuits(
            _by_port([d.out_bytes for d in moved], [d.in_bytes for d in moved]),
            _by_port([d.out_pairs for d in moved], [d.in_pairs for d in moved]),
            port_bytes_per_s.reshape(2, -1) / policy.switch.wavelengths,
            policy.switch.delta_s,
            policy.switch.wavelengths,
        )
    )
    for demand, urgency in zip(moved, urgencies.tolist(), strict=True):
        demand.place = urgency, demand.arrived_s, demand.key


def _by_port(outs: list[array[Any]], ins: list[array[Any]]) -> NDArray[Any]:
    """[coflow, out or in, rack]: what coflows have at each port."""
    both = b"".join(chain.from_iterable(zip(outs, ins, strict=True)))  # no copies of arrays
    return np.frombuffer(both, outs[0].typecode).reshape(len(outs), 2, -1)
