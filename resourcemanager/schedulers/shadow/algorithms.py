"""Shadow's sections as numbers: 3, what a shuffle loads links with; 4.2, 5.2 and 4.3, duplicates.

    o_i, O_j    output of map i; of all maps in rack j
    h_j, t      reduces in rack j; in all
    up_j        O_j (t - h_j) / t          (6)
    down_j      (O - O_j) h_j / t          (7)
    Skew        max / min of all of these  (10)

    T_m = max(max_j (D_j / B_j + R_j), T)   (11)  j: the chosen duplicates that have not ended
    T_s = max_i S_i / B_i                   (12)  i: racks
    T_t = T_m + T_s                         (13)

T is when the last original ended: then the outputs and times of all originals are known, and a
duplicate takes what its original took, after it has read its input from another rack.

Left open there, chosen here:

* Links without load do not count in Skew ("we only consider the links in use", Fig. 5).  With o_i =
  1, and times t, the loads are section 4.2's numbers of transfers.
* In Algorithm 1 ``max`` and ``min`` are taken anew before each test: with those of the round
  before, as printed, {4, 1, 1} ends after one duplicate (3 - 2 is not above 1), against Fig. 6.
  There are at most ``threshold`` duplicates, not one more, and none if the racks are balanced from
  the beginning.  Of racks with as many maps the first goes first.
* D_j / B_j + R_j runs from when the duplicate was launched.  Late duplicates are considered one by
  one, the one that should end first before the others, and one is chosen if T_t strictly drops: not
  always the best of all 2^N choices.  S_i is what the maps of rack i send to reduces in other
  racks, and B_i all of the rack's uplink.

Never here: which of a rack's maps is duplicated; see ``scheduler``.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from math import inf
from typing import NamedTuple

import numpy as np

from railyard.cluster.ids import NodeId
from railyard.netemu.model.links import fill, stack
from railyard.netemu.model.network import Network


# Loads (3) ----------------------------------------------------------------------------------------
class Loads(NamedTuple):
    """Of the links of each rack, [racks], in the unit of the outputs."""

    up: list[float]
    down: list[float]

    @property
    def skew(self) -> float:
        """Of those in use; 1 if none is."""
        used = [load for load in (*self.up, *self.down) if load > 0]
        return max(used) / min(used) if used else 1.0

    @property
    def most(self) -> float:
        """Of the busiest link."""
        return max((*self.up, *self.down), default=0.0)


def link_loads(outputs: Sequence[float], reduces: Sequence[int]) -> Loads:
    """The loads (6) and (7) for O and h of each rack, [racks]; none without reduces."""
    t, total = sum(reduces), sum(outputs)
    if not t:
        return Loads([0.0] * len(outputs), [0.0] * len(outputs))
    pairs = list(zip(outputs, reduces, strict=True))
    up = [o * (t - h) / t for o, h in pairs]
    down = [(total - o) * h / t for o, h in pairs]
    return Loads(up, down)


# Task duplication (4.2) ---------------------------------------------------------------------------
class Duplicate(NamedTuple):
    """A map of one rack gets a duplicate in another; by their numbers."""

    heavy: int
    light: int


def duplicates(maps: Sequence[int], threshold: int) -> list[Duplicate]:
    """Algorithm 1: the duplicates to launch, in order; ``maps`` [racks].

    O((racks + duplicates) log racks).
    """
    # A rack that lost a map never is the lightest later, nor one that gained a map the heaviest:
    # so each of the two orders need not know what was changed in the other.
    heavy = [(-count, rack) for rack, count in enumerate(maps)]
    light = [(count, rack) for rack, count in enumerate(maps)]
    heapq.heapify(heavy)
    heapq.heapify(light)
    found: list[Duplicate] = []
    while maps and -heavy[0][0] - light[0][0] > 1 and len(found) < threshold:
        (most, from_rack), (least, to_rack) = heavy[0], light[0]
        found.append(Duplicate(from_rack, to_rack))
        heapq.heapreplace(heavy, (most + 1, from_rack))
        heapq.heapreplace(light, (least + 1, to_rack))
    return found


# Bandwidth (5.2, Fig. 9) --------------------------------------------------------------------------
#: (The node that sends, the node that reads)
Transfer = tuple[NodeId, NodeId]


def available_bytes_per_s(transfers: Sequence[Transfer], network: Network) -> list[float]:
    """B of each transfer, bytes/s, if all are under way together; inf within a node.

    "We first find the most critical link", its transfers share it equally, what they use of other
    links is taken off, and so on: max-min fair shares.
    """
    if not transfers:
        return []
    unlimited = len(network.capacities)  # fills up short paths
    left = np.append(network.capacities, np.inf)
    paths = stack([network.route(src, dst).path for src, dst in transfers], unlimited)
    rates: list[float] = fill(paths.T, np.ones(len(transfers)), left).tolist()
    return rates


def uplinks_bytes_per_s(network: Network, racks: Sequence[str]) -> list[float]:
    """B_i of each rack's uplink, bytes/s, or of its switch in a tree of switches; [racks]."""
    number = network.number
    up = (number.get(f"{rack}.up", number.get(f"{rack}.tor")) for rack in racks)
    return [float(network.capacities[link]) for link in up if link is not None]


# Task selection (4.3) -----------------------------------------------------------------------------
class LateDuplicate(NamedTuple):
    """A duplicate that has not ended at T, as its original has."""

    ends_s: float  #: start + D / B + R
    heavy: int  #: its original's rack
    light: int  #: its own
    output_bytes: float  #: o_j
    number: int  #: tells it from others with the same figures; of equal ones, the lowest goes first


class Shuffle(NamedTuple):
    """What the shuffle sends between racks."""

    output_bytes: Sequence[float]  #: [racks] O_i, of the chosen tasks
    sent_share: Sequence[float]  #: [racks] (t - h_i) / t; the sum of these, if several stages read
    uplink_bytes_per_s: Sequence[float]  #: [racks] B_i

    def time_s(self, rack: int, output_bytes: float) -> float:
        """S_i / B_i."""
        sent = output_bytes * self.sent_share[rack]  # S_i
        bytes_per_s = self.uplink_bytes_per_s[rack]
        if not sent:
            return 0.0
        return sent / bytes_per_s if bytes_per_s else inf


def select(
    late: Iterable[LateDuplicate], shuffle: Shuffle, last_original_s: float
) -> list[LateDuplicate]:
    """Those that are chosen.

    ``last_original_s``: T, or when the last duplicate should end that is chosen already.
    """
    maps_s = last_original_s  # (11)
    outputs = list(shuffle.output_bytes)
    times = [shuffle.time_s(rack, size) for rack, size in enumerate(outputs)]
    total_s = maps_s + max(times, default=0.0)  # (13)
    chosen = []
    for each in sorted(late, key=lambda one: (one.ends_s, one.number)):
        heavy, light, size = each.heavy, each.light, each.output_bytes
        before = times[heavy], times[light]
        times[heavy] = shuffle.time_s(heavy, outputs[heavy] - size)
        times[light] = shuffle.time_s(light, outputs[light] + size)
        new_total_s = max(maps_s, each.ends_s) + max(times)  # (12) in (13)
        if new_total_s < total_s:
            total_s, maps_s = new_total_s, max(maps_s, each.ends_s)
            outputs[heavy] -= size
            outputs[light] += size
            chosen.append(each)
        else:
            times[heavy], times[light] = before
    return chosen
