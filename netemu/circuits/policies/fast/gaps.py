"""``netemu.circuits.policies.gaps``, compiled: which ports coflows will take soon."""

from __future__ import annotations

import numpy as np
from numba import njit
from numba.typed import List

from railyard.netemu.circuits.policies.fast.ports import (
    COLUMNS,
    DST,
    HOLDER,
    IN,
    NONE,
    OUT,
    PARTNER,
    SIDES,
    SRC,
    Bits,
    Gaps,
    MatchState,
    has,
    least,
    less_held,
    look,
    may_have,
    put,
)
from railyard.netemu.model.arrays import Floats, Numbers


@njit(cache=True)
def find_gaps(soon_s: float, until_s: float, state: MatchState) -> Gaps:
    """Find the pairs that end after ``soon_s`` and by ``until_s``, the first one first."""
    racks, words = state.ready_s.size, state.works.shape[1]
    ending, many = np.empty((racks, 3), dtype=np.int64), 0
    for src in range(racks):
        index, ends_s = state.ports[OUT, HOLDER, src], state.ends_s[src]
        if index == NONE or not soon_s < ends_s <= until_s:
            continue
        at = many
        while at and state.ends_s[ending[at - 1, 1]] > ends_s:
            ending[at] = ending[at - 1]
            at -= 1
        ending[at, 0], ending[at, 1], ending[at, 2] = index, src, state.ports[OUT, PARTNER, src]
        many += 1
    return Gaps(
        ending[:many],
        np.zeros(len(state.at), dtype=np.bool_),
        state.works.copy(),
        np.zeros((2, words), dtype=np.uint64),
        np.zeros(1, dtype=np.int64),
        np.full(1, np.inf),
        np.zeros(1, dtype=np.bool_),
    )


@njit(cache=True)
def look_ahead(before: Numbers, state: MatchState, matrices: List, gaps: Gaps) -> bool:
    """Book what these coflows will take; whether any port was booked that was not before."""
    if not len(gaps.ending):
        return False
    booked, ends, freed = False, state.ends, np.zeros_like(gaps.booked)
    for number in range(len(gaps.ending)):
        put(freed[OUT], gaps.ending[number, 1], True)
        put(freed[IN], gaps.ending[number, 2], True)
    for place in range(gaps.seen_count[0], len(before)):
        index = before[place]
        gaps.seen[index] = True
        less_held(gaps.room, state.holds[index])
        wanted = np.uint64(0)  # a coflow that waits for none of the ports to be freed takes none
        for word in range(freed.shape[1]):
            wanted |= ends[index, OUT, word] & freed[OUT, word]
            wanted |= ends[index, IN, word] & freed[IN, word]
        if wanted != 0:
            booked |= _book(index, state, matrices, gaps)
    gaps.seen_count[0] = max(gaps.seen_count[0], len(before))
    return booked


@njit(cache=True)
def _book(index: int, state: MatchState, matrices: List, gaps: Gaps) -> bool:
    """Book the ports that a coflow will take as pairs of those so far end; whether it takes any."""
    free, ends = gaps.room.copy(), state.ends[index]
    choices, booked = np.empty((2, COLUMNS)), False
    nothing = Gaps(
        gaps.ending,
        gaps.seen,
        gaps.room,
        np.zeros_like(gaps.booked),
        gaps.seen_count,
        gaps.first_s,
        gaps.refused,
    )
    for number in range(len(gaps.ending)):
        ended = gaps.ending[number]
        holder, src, dst = ended[0], ended[1], ended[2]
        held_by, held_with = state.ports[OUT, HOLDER, src], state.ports[OUT, PARTNER, src]
        if not (gaps.seen[holder] and held_by == holder and held_with == dst):
            continue  # later ones' ports are its own already, if it wants them; or it was cut
        put(free[OUT], src, True)
        put(free[IN], dst, True)
        if not (has(ends[OUT], src) or has(ends[IN], dst)):
            continue
        for side in SIDES:
            for word in range(free.shape[1]):
                free[side, word] &= ~gaps.booked[side, word]
        at_s = state.ends_s[src]
        while True:
            many = 0
            for side in SIDES:
                port = src if side == OUT else dst
                if may_have(state.waits, free, index, side, port):
                    left_bytes = matrices[2 * index + side]
                    many += look(
                        index, side, port, at_s, state, left_bytes, free, nothing, choices[many]
                    )
            if not many:
                break
            _book_pair(least(choices[:many]), free, gaps.booked)
            gaps.first_s[0] = min(gaps.first_s[0], at_s)
            booked = True
    return booked


@njit(cache=True)
def _book_pair(choice: Floats, free: Bits, booked: Bits) -> None:
    """Book the two ports of a choice, which are free."""
    for side in SIDES:
        port = int(choice[SRC] if side == OUT else choice[DST])
        put(free[side], port, False)
        put(booked[side], port, True)


@njit(cache=True)
def keep_booked(state: MatchState, gaps: Gaps) -> float:
    """Note which ports were refused to a coflow; returns when they are to be looked at again."""
    if not gaps.refused[0]:
        return np.inf
    for side in SIDES:
        for word in range(gaps.booked.shape[1]):
            state.booked[side, word] |= gaps.booked[side, word]
    first_s: float = gaps.first_s[0]
    return first_s
