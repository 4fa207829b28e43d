"""``netemu.circuits.policies.gaps``, compiled: which ports coflows will take soon."""

from __future__ import annotations

import numpy as np

from railyard.cluster.errors import InvariantError
from railyard.netemu.circuits.policies.fast.ports import (
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
    Matrices,
    Work,
    copy,
    has,
    least,
    less_held,
    look,
    may_have,
    meet,
    put,
)
from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.schedulers.fast.loops.borrowing import borrows


@borrows
def find_gaps(soon_s: float, until_s: float, state: MatchState, gaps: Gaps) -> None:
    """Find the pairs that end after ``soon_s`` and by ``until_s``; nothing is booked so far."""
    ending, many = gaps.ending, 0
    for src in range(state.ready_s.size):
        index, ends_s = state.ports[OUT, HOLDER, src], state.ends_s[src]
        if index == NONE or not soon_s < ends_s <= until_s:
            continue
        at = many
        while at and state.ends_s[ending[at - 1, 1]] > ends_s:
            for column in range(ending.shape[1]):
                ending[at, column] = ending[at - 1, column]
            at -= 1
        ending[at, 0], ending[at, 1], ending[at, 2] = index, src, state.ports[OUT, PARTNER, src]
        many += 1
    gaps.counts[0], gaps.counts[1], gaps.first_s[0], gaps.refused[0] = many, 0, np.inf, False
    gaps.booked[:] = 0
    if not many:
        return
    copy(state.works, gaps.room)
    gaps.freed[:], state.seen[:] = 0, False
    for number in range(many):
        put(gaps.freed[OUT], ending[number, 1], True)
        put(gaps.freed[IN], ending[number, 2], True)


@borrows
def look_ahead(before: Numbers, state: MatchState, matrices: Matrices, work: Work) -> bool:
    """Book what these coflows will take; whether any port was booked that was not before."""
    gaps, ends, booked = work.gaps, state.ends, False
    for place in range(gaps.counts[1], len(before) if gaps.counts[0] else 0):
        index = before[place]
        state.seen[index] = True
        less_held(gaps.room, state.holds[index])
        # a coflow that waits for none of the ports to be freed takes none
        if meet(ends[index, OUT], gaps.freed[OUT]) or meet(ends[index, IN], gaps.freed[IN]):
            booked |= _book(index, state, matrices, work)
        gaps.counts[1] = place + 1
    return booked


@borrows
def _book(index: int, state: MatchState, matrices: Matrices, work: Work) -> bool:
    """Book the ports that a coflow will take as pairs of those so far end; whether it takes any."""
    gaps, free, choices, ends, booked = work.gaps, work.free, work.booking, state.ends[index], False
    copy(gaps.room, free)
    for number in range(gaps.counts[0]):
        holder, src, dst = gaps.ending[number, 0], gaps.ending[number, 1], gaps.ending[number, 2]
        held_by, held_with = state.ports[OUT, HOLDER, src], state.ports[OUT, PARTNER, src]
        if not (state.seen[holder] and held_by == holder and held_with == dst):
            continue  # later ones' ports are its own already, if it wants them; or it was cut
        put(free[OUT], src, True)
        put(free[IN], dst, True)
        if not (has(ends[OUT], src) or has(ends[IN], dst)):
            continue
        less_held(free, gaps.booked)
        at_s = state.ends_s[src]
        for turn in range(state.ready_s.size + 1):
            if turn == state.ready_s.size:  # each books two ports
                raise InvariantError("sunflow: more pairs are booked than there are ports")
            many = 0
            for side in SIDES:
                port = src if side == OUT else dst
                if may_have(state.waits, free, index, side, port):
                    many += look(
                        index,
                        side,
                        port,
                        at_s,
                        state,
                        matrices,
                        free,
                        work.none,
                        gaps.refused,
                        choices[many],
                    )
            if not many:
                break
            _book_pair(choices[least(choices, many)], free, gaps.booked)
            gaps.first_s[0] = min(gaps.first_s[0], at_s)
            booked = True
    return booked


@borrows
def _book_pair(choice: Floats, free: Bits, booked: Bits) -> None:
    """Book the two ports of a choice, which are free."""
    for side in SIDES:
        port = int(choice[SRC] if side == OUT else choice[DST])
        put(free[side], port, False)
        put(booked[side], port, True)


@borrows
def keep_booked(state: MatchState, gaps: Gaps) -> float:
    """Note which ports were refused to a coflow; returns when they are to be looked at again."""
    if not gaps.refused[0]:
        return np.inf
    for side in SIDES:
        for word in range(gaps.booked.shape[1]):
            state.booked[side, word] |= gaps.booked[side, word]
    first_s: float = gaps.first_s[0]
    return first_s
