"""What a shuffle loads the racks' links with, and how unequally (section 3).

    o_i, O_j    output of map i; of all maps in rack j
    h_j, t      reduces in rack j; in all
    up_j        O_j (t - h_j) / t          (6)
    down_j      (O - O_j) h_j / t          (7)
    Skew        max / min of all of these  (10)

Left open there, chosen here: links without load do not count in Skew ("we only consider the links
in use", Fig. 5).  With o_i = 1, and times t, these are section 4.2's numbers of transfers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


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
