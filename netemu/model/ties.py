"""Which of many times or sizes are equal: those that differ by rounding only."""

from __future__ import annotations

import numpy as np

from railyard.netemu.model.arrays import Floats, Numbers

#: Values that differ by less than this share are equal: they are sums of what was sent meanwhile.
SAME_SHARE = 1e-9
#: Flows have the same left to send if it differs by less than this, or by that share: after a day,
#: the last digit of a time is worth .02 bytes at 8 Gbps.
SAME_BYTES = 0.1


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
