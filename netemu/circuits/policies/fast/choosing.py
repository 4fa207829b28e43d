"""The compiled loops of ``matching``: which coflow takes which ports."""

from __future__ import annotations

import numpy as np

from railyard.cluster.errors import InvariantError
from railyard.netemu.circuits.policies.fast.gaps import find_gaps, keep_booked, look_ahead
from railyard.netemu.circuits.policies.fast.matrices import put_left
from railyard.netemu.circuits.policies.fast.ports import (
    DST,
    FREED,
    HOLDER,
    IN,
    NONE,
    OUT,
    PARTNER,
    PEER,
    SIDE,
    SIDES,
    SRC,
    Bits,
    MatchState,
    Matrices,
    Small,
    Work,
    copy,
    has,
    least,
    look,
    may_have,
    meet,
    occupy,
    put,
    take_down,
)
from railyard.netemu.model.arrays import Bools, Floats, Numbers
from railyard.netemu.schedulers.fast.loops.borrowing import borrows

#: What ``news`` of a pair has in place of the bytes with which it waits: it waits no more, or it
#: holds its ports no more.
WAITS_NO_MORE, RELEASED = -1, -2
#: Columns of news: index, src, dst, and bytes.
NEWS_COLUMNS = 4
#: The two rows of ``found``: pairs that lose their circuits, and pairs that get one.
CUT, TAKEN = 0, 1


@borrows
def choose_after(
    news: Floats,
    now_s: float,
    delta_s: float,
    rounding_s: float,
    looks_again: bool,
    order: Numbers,
    fresh: Bools,
    state: MatchState,
    matrices: Matrices,
    work: Work,
) -> tuple[int, int, float]:
    """``choose``, after the ``news`` of pairs: [number, column].

    In place of these, it says what else has happened.
    """
    for number in range(len(news)):
        index, src, dst = int(news[number, 0]), int(news[number, 1]), int(news[number, 2])
        if news[number, 3] == RELEASED:
            release(index, src, dst, state)
        else:
            wait(index, src, dst, news[number, 3], state, matrices)
    return choose(now_s, delta_s, rounding_s, looks_again, order, fresh, state, matrices, work)


@borrows
def choose(
    now_s: float,
    delta_s: float,
    rounding_s: float,
    looks_again: bool,
    order: Numbers,
    fresh: Bools,
    state: MatchState,
    matrices: Matrices,
    work: Work,
) -> tuple[int, int, float]:
    """Let coflows, by index, take ports in ``order``.

    Returns how many pairs lose and get circuits, and when to look again.  The pairs are written
    into ``work.found``: [``CUT`` or ``TAKEN``, number, (index, src, dst)].  Of ``fresh`` coflows
    all pairs that wait are looked at, of others those at ports that were freed; with
    ``looks_again``, booked ports count as freed.
    """
    if looks_again:
        _free_booked(state)
    cut, taken = work.found[CUT], work.found[TAKEN]
    choices, freed, room, gaps = work.choices, work.freed, work.room, work.gaps
    those = _freed(state.ports, freed)
    cuts = takes = 0
    news = _count(fresh, order)
    copy(state.works, room)
    find_gaps(now_s + rounding_s, now_s + delta_s + rounding_s, state, gaps)
    for place in range(len(order)):
        index = order[place]
        if not (news or _are_free(freed, those, state.ports)):
            break
        news -= fresh[index]
        if not _has_room(index, state.holds, state.ends, room):
            continue
        looks = -1 if fresh[index] else those
        many = _look_at(index, looks, now_s, state, matrices, work)
        if many and look_ahead(order[:place], state, matrices, work):
            many = _look_at(index, looks, now_s, state, matrices, work)
        turns = len(choices) * (state.ready_s.size + 1)  # each takes a choice, or drops it
        while many:
            turns -= 1
            if turns < 0:
                raise InvariantError("sunflow: a coflow chooses without an end")
            first = choices[least(choices, many)]
            src, dst, side = int(first[SRC]), int(first[DST]), int(first[SIDE])
            if has(room[OUT], src) and has(room[IN], dst):
                more, those = _make_room(src, dst, state, cut[cuts:], freed, those)
                _hold(index, src, dst, now_s + delta_s, state, room)
                cuts += more
                taken[takes, 0], taken[takes, 1], taken[takes, 2] = index, src, dst
                takes += 1
            port = src if side == OUT else dst
            if not _look(index, side, port, now_s, state, matrices, work, first):
                many -= 1
                _move(choices[many], first)
    state.ports[:, FREED] = 0
    return cuts, takes, keep_booked(state, gaps)


@borrows
def _move(choice: Floats, into: Floats) -> None:
    """Put a choice in the place of another."""
    for column in range(len(choice)):
        into[column] = choice[column]


@borrows
def _has_room(index: int, holds: Bits, ends: Bits, room: Bits) -> bool:
    """Remove the ports that a coflow holds from ``room``; whether that has two that it waits for.

    Most coflows in the order have none, so this is what a choice takes longest for.
    """
    outs = ins = np.uint64(0)
    for word in range(room.shape[1]):
        room[OUT, word] &= ~holds[index, OUT, word]
        room[IN, word] &= ~holds[index, IN, word]
        outs |= ends[index, OUT, word] & room[OUT, word]
        ins |= ends[index, IN, word] & room[IN, word]
    return bool(outs != 0 and ins != 0)


@borrows
def _free_booked(state: MatchState) -> None:
    """Count booked ports as freed, whether a later coflow holds them or none; none is booked."""
    for side in SIDES:
        for port in range(state.ready_s.size):
            if has(state.booked[side], port):
                state.ports[side, FREED, port] = 1
    state.booked[:] = 0


@borrows
def _look_at(
    index: int,
    looks: int,
    now_s: float,
    state: MatchState,
    matrices: Matrices,
    work: Work,
) -> int:
    """Write the first pair that a coflow can have at each port to ``choices``; returns how many.

    Below 0, ``looks`` stands for all ports out of racks; otherwise, these are so many of those
    that were freed.
    """
    many, choices, freed = 0, work.choices, work.freed
    for number in range(looks if looks >= 0 else state.ready_s.size):
        side, port = (freed[number, 0], freed[number, 1]) if looks >= 0 else (OUT, number)
        many += _look(index, side, port, now_s, state, matrices, work, choices[many])
    return many


@borrows
def _look(
    index: int,
    side: int,
    port: int,
    now_s: float,
    state: MatchState,
    matrices: Matrices,
    work: Work,
    choice: Floats,
) -> bool:
    """Write the first pair that a coflow can have at a port to ``choice``; whether there is one."""
    if not may_have(state.waits, work.room, index, side, port):
        return False
    room, gaps = work.room, work.gaps
    return look(index, side, port, now_s, state, matrices, room, gaps.booked, gaps.refused, choice)


@borrows
def _set_waits(index: int, src: int, dst: int, is_so: bool, state: MatchState) -> None:
    """Note that a pair waits, or does so no more."""
    for side in SIDES:
        port, other = (src, dst) if side == OUT else (dst, src)
        waits = state.waits[index, side, port]
        put(waits, other, is_so)
        put(state.ends[index, side], port, meet(waits, waits))


@borrows
def _freed(ports: Small, freed: Numbers) -> int:
    """Write the ports that were freed into ``freed``; how many there are."""
    those = 0
    for side in SIDES:
        for port in range(ports.shape[2]):
            if ports[side, FREED, port]:
                freed[those, 0], freed[those, 1] = side, port
                those += 1
    return those


@borrows
def _free_cut(cut: Numbers, state: MatchState, freed: Numbers, those: int) -> int:
    """Release a pair that is cut; writes its ports into ``freed``; how many there are now.

    A port that was booked is there already.
    """
    for side in SIDES:
        port = cut[1 + side]
        if not state.ports[side, FREED, port]:
            freed[those, 0], freed[those, 1] = side, port
            those += 1
    release(cut[0], cut[1], cut[2], state)
    return those


@borrows
def _count(fresh: Bools, order: Numbers) -> int:
    """How many of these coflows are fresh."""
    many = 0
    for index in order:
        many += fresh[index]
    return many


@borrows
def _are_free(freed: Numbers, those: int, ports: Small) -> bool:
    """Whether any of so many ports that were freed is still free."""
    free = 0
    for number in range(those):
        free += ports[freed[number, 0], FREED, freed[number, 1]] != 0
    return free > 0


@borrows
def wait(
    index: int, src: int, dst: int, size_bytes: float, state: MatchState, matrices: Matrices
) -> None:
    """Note that a pair waits with so many bytes to send; below 0: it does so no more."""
    _set_waits(index, src, dst, size_bytes >= 0, state)
    put_left(index, src, dst, size_bytes, matrices)


@borrows
def _make_room(
    src: int, dst: int, state: MatchState, cut: Numbers, freed: Numbers, those: int
) -> tuple[int, int]:
    """Release the pairs that hold two ports, and write them into ``cut``.

    Returns how many they are, and how many ports there are in ``freed`` now.
    """
    cuts = 0
    for side in SIDES:
        if _holder_at(side, src if side == OUT else dst, state, cut[cuts]):
            those = _free_cut(cut[cuts], state, freed, those)
            cuts += 1
    return cuts, those


@borrows
def _holder_at(side: int, port: int, state: MatchState, cut: Numbers) -> bool:
    """Write the pair that holds a port into ``cut``; whether there is one."""
    index = state.ports[side, HOLDER, port]
    cut[0], cut[1 + side], cut[2 - side] = index, port, state.ports[side, PARTNER, port]
    return bool(index != NONE)


@borrows
def release(index: int, src: int, dst: int, state: MatchState) -> None:
    """Note that a pair holds its ports no more."""
    for side in SIDES:
        port = src if side == OUT else dst
        put(state.holds[index, side], port, False)
        state.ports[side, HOLDER, port], state.ports[side, FREED, port] = NONE, 1


@borrows
def _hold(index: int, src: int, dst: int, carries_s: float, state: MatchState, room: Bits) -> None:
    """Give a pair that waits its ports, and set up its circuit unless there is one already."""
    _set_waits(index, src, dst, False, state)
    put(room[OUT], src, False)
    put(room[IN], dst, False)
    occupy(index, src, dst, state)
    ports = state.ports
    if ports[OUT, PEER, src] != dst:
        take_down(OUT, src, ports)
        take_down(IN, dst, ports)
        ports[OUT, PEER, src], ports[IN, PEER, dst] = dst, src
        state.ready_s[src] = carries_s
