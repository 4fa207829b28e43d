"""Task duplication (section 4.2, Algorithm 1): from which rack to which maps are duplicated.

Left open there, chosen here.  ``max`` and ``min`` are taken anew before each test: with those of
the round before, as printed, {4, 1, 1} ends after one duplicate (3 - 2 is not above 1), against
Fig. 6.  There are at most ``threshold`` duplicates, not one more, and none if the racks are
balanced from the beginning.  Of racks with as many maps the first goes first.

Never here: which of the rack's maps is duplicated; see ``scheduler``.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple


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
