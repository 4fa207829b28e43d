"""Task selection (section 4.3): which duplicates that end late are worth waiting for.

    T_m = max(max_j (D_j / B_j + R_j), T)   (11)  j: the chosen duplicates that have not ended
    T_s = max_i S_i / B_i                   (12)  i: racks
    T_t = T_m + T_s                         (13)

T is when the last original ended: then the outputs and times of all originals are known, and a
duplicate takes what its original took, after it has read its input from another rack.

Left open there, chosen here.  D_j / B_j + R_j runs from when the duplicate was launched.  Late
duplicates are considered one by one, the one that should end first before the others, and one is
chosen if T_t strictly drops: not always the best of all 2^N choices.  S_i is what the maps of rack
i send to reduces in other racks, and B_i all of the rack's uplink.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import NamedTuple


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
