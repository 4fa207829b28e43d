"""``netemu.circuits.policies.gaps`` with many open flows: what slots do with ports soon free."""

from __future__ import annotations

import numpy as np
from numba import njit
from numba.typed import List

from railyard.netemu.circuits.policies.fast.ports import (
    COLUMNS,
    DST,
    IN,
    NONE,
    OUT,
    PARTNER,
    SIDES,
    SLOT,
    SRC,
    Gaps,
    Ground,
    has,
    least,
    less_held,
    look,
    put,
)
from railyard.netemu.model.arrays import Numbers


@njit(cache=True)
def find_gaps(soon_s: float, until_s: float, ground: Ground) -> Gaps:
    """Find the pairs that end until then, the first one first."""
    racks, words = ground.ready_s.size, ground.works.shape[1]
    ending, many = np.empty((racks, 3), dtype=np.int64), 0
    for src in range(racks):
        slot, ends_s = ground.ports[OUT, SLOT, src], ground.ends_s[src]
        if slot == NONE or not soon_s < ends_s <= until_s:
            continue
        at = many
        while at and ground.ends_s[ending[at - 1, 1]] > ends_s:
            ending[at] = ending[at - 1]
            at -= 1
        ending[at, 0], ending[at, 1], ending[at, 2] = slot, src, ground.ports[OUT, PARTNER, src]
        many += 1
    return Gaps(
        ending[:many],
        np.zeros(len(ground.at), dtype=np.bool_),
        ground.works.copy(),
        np.zeros((2, words), dtype=np.uint64),
        np.zeros(1, dtype=np.int64),
        np.full(1, np.inf),
        np.zeros(1, dtype=np.bool_),
    )


@njit(cache=True)
def look_ahead(before: Numbers, ground: Ground, matrices: List, gaps: Gaps) -> bool:
    """Book what these slots will take; whether there is more of that than was known."""
    if not len(gaps.ending):
        return False
    booked = False
    for place in range(gaps.seen_slots[0], len(before)):
        slot = before[place]
        gaps.seen[slot] = True
        less_held(gaps.room, ground.holds[slot])
        booked |= _book(slot, ground, matrices, gaps)
    gaps.seen_slots[0] = max(gaps.seen_slots[0], len(before))
    return booked


@njit(cache=True)
def _book(slot: int, ground: Ground, matrices: List, gaps: Gaps) -> bool:
    """Have a slot take what it will, as pairs of those so far end; whether it takes any."""
    free, ends = gaps.room.copy(), ground.ends[slot]
    choices, booked = np.empty((2, COLUMNS)), False
    nothing = Gaps(
        gaps.ending,
        gaps.seen,
        gaps.room,
        np.zeros_like(gaps.booked),
        gaps.seen_slots,
        gaps.first_s,
        gaps.refused,
    )
    for number in range(len(gaps.ending)):
        ended = gaps.ending[number]
        holder, src, dst = ended[0], ended[1], ended[2]
        if not gaps.seen[holder] or ground.ports[OUT, SLOT, src] != holder:
            continue  # others' ports are this one's already, if it wants them
        put(free[OUT], src, True)
        put(free[IN], dst, True)
        if not (has(ends[OUT], src) or has(ends[IN], dst)):
            continue
        for side in SIDES:
            for word in range(free.shape[1]):
                free[side, word] &= ~gaps.booked[side, word]
        at_s = ground.ends_s[src]
        while True:
            many = 0
            for side in SIDES:
                port, left_bytes = (src if side == OUT else dst), matrices[2 * slot + side]
                many += look(
                    slot, side, port, at_s, ground, left_bytes, free, nothing, choices[many]
                )
            if not many:
                break
            first = least(choices[:many])
            for side in SIDES:
                port = int(first[SRC] if side == OUT else first[DST])
                put(free[side], port, False)
                put(gaps.booked[side], port, True)
            gaps.first_s[0] = min(gaps.first_s[0], at_s)
            booked = True
    return booked


@njit(cache=True)
def keep_booked(ground: Ground, gaps: Gaps) -> float:
    """Note which ports have been refused to somebody; when they are to be looked at again."""
    if not gaps.refused[0]:
        return np.inf
    for side in SIDES:
        for word in range(gaps.booked.shape[1]):
            ground.booked[side, word] |= gaps.booked[side, word]
    first_s: float = gaps.first_s[0]
    return first_s
