"""Arrays of numbers, and which values are equal but for rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Numbers = NDArray[np.signedinteger[Any]]
Bools = NDArray[np.bool_]


#: Times that are no further apart than this are one instant ...
INSTANT_S = 1e-9
#: ... nor by more than this share of what the clock shows.  A flow of 10**15 bytes has a last
#: digit of .1 bytes, 1 ns at 1 Gbps, and what it has sent is a sum: its end is known to 10**-7 s,
#: when the clock shows 8 * 10**6 s.
CLOCK_ROUNDING = 1e-13
#: Values that differ by less than this share are equal: they are sums of what was sent meanwhile.
SAME_SHARE = 1e-9


def instant_s(at_s: float) -> float:
    """By how much two times near this one may differ and be the same instant, in seconds."""
    return max(INSTANT_S, at_s * CLOCK_ROUNDING)


def ranks(values: Floats, same: float) -> Numbers:
    """0 for the smallest, 1 for the next larger ones, and so on; equals have the same.

    Values next to each other are equal if they differ by no more than ``same`` (in their unit), or
    by no more than ``SAME_SHARE``.
    """
    order = np.argsort(values)
    ordered = values[order]
    larger = ordered[1:] > ordered[:-1] * (1 + SAME_SHARE) + same
    found = np.empty(len(order), dtype=np.int64)
    found[order] = np.concatenate([[0], np.cumsum(larger)])[: len(order)]
    return found
