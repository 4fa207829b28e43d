"""The compiled loops of ``matching``: which coflow takes which ports."""

from __future__ import annotations

import numpy as np
from numba import njit
from numba.typed import List

from railyard.netemu.circuits.policies.fast.gaps import find_gaps, keep_booked, look_ahead
from railyard.netemu.circuits.policies.fast.ports import (
    COLUMNS,
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
    Gaps,
    MatchState,
    Small,
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

#: What ``news`` of a pair has in place of the bytes with which it waits: it waits no more, or it
#: holds its ports no more.
WAITS_NO_MORE, RELEASED = -1, -2
#: The two rows of ``found``: pairs that lose their circuits, and pairs that get one.
CUT, TAKEN = 0, 1
#: Racks in a coflow's matrices at first.
RACKS = 4


@njit(cache=True)
def add_matrices(matrices: List, coflows: int) -> None:
    """Add matrices for so many coflows."""
    for _ in range(len(SIDES) * coflows):
        matrices.append(np.empty((RACKS, RACKS)))


@njit(cache=True)
def new_matrices(coflows: int) -> List:
    """Matrices for so many coflows.

    Made in a compiled loop: from Python, numba would compile it again in each process.
    """
    matrices = List()
    for _ in range(len(SIDES) * coflows):
        matrices.append(np.empty((RACKS, RACKS)))
    return matrices


@njit(cache=True)
def choose(
    now_s: float,
    delta_s: float,
    rounding_s: float,
    looks_again: bool,
    news: Floats,
    order: Numbers,
    fresh: Bools,
    state: MatchState,
    matrices: List,
    found: Numbers,
) -> tuple[int, int, float]:
    """Let coflows, by index, take ports in ``order``.

    Returns how many pairs lose and get circuits, and when to look again.  The pairs are written
    into ``found``: [``CUT`` or ``TAKEN``, number, (index, src, dst)].  Before that, the ``news`` of
    pairs is applied.  Of ``fresh`` coflows all pairs that wait are looked at, of others those at
    ports that were freed; with ``looks_again``, booked ports count as freed.
    """
    _catch_up(news, looks_again, state, matrices)
    cut, taken = found[CUT], found[TAKEN]
    racks = state.ready_s.size
    choices = np.empty((2 * racks, COLUMNS))
    freed = np.empty(
        (2 * racks, 2), dtype=np.int64
    )  # [number, (side, port)]; some are taken meanwhile
    waits, room = state.waits, state.works.copy()  # ports that no coflow so far in the order holds
    gaps = find_gaps(now_s + rounding_s, now_s + delta_s + rounding_s, state)
    those = _freed(state.ports, freed)
    cuts = takes = 0
    news = fresh[order].sum()
    for place in range(len(order)):
        index = order[place]
        if not (news or _are_free(freed[:those], state.ports)):
            break
        news -= fresh[index]
        if not _has_room(index, state.holds, state.ends, room):
            continue
        looks = racks if fresh[index] else those
        left_bytes = matrices[2 * index + OUT], matrices[2 * index + IN]
        many = _look_at(
            index, looks, freed, fresh[index], now_s, state, left_bytes, room, gaps, choices
        )
        if many and look_ahead(order[:place], state, matrices, gaps):
            many = _look_at(
                index, looks, freed, fresh[index], now_s, state, left_bytes, room, gaps, choices
            )
        while many:
            first = least(choices[:many])
            src, dst, side = int(first[SRC]), int(first[DST]), int(first[SIDE])
            if has(room[OUT], src) and has(room[IN], dst):
                more = _take(index, src, dst, now_s + delta_s, state, room, cut[cuts:])
                for number in range(cuts, cuts + more):
                    for side_cut in SIDES:
                        freed[those, 0], freed[those, 1] = side_cut, cut[number, 1 + side_cut]
                        those += 1
                cuts += more
                taken[takes, 0], taken[takes, 1], taken[takes, 2] = index, src, dst
                takes += 1
            port = src if side == OUT else dst
            if not (
                may_have(waits, room, index, side, port)
                and look(index, side, port, now_s, state, left_bytes[side], room, gaps, first)
            ):
                many -= 1
                first[:] = choices[many]
    state.ports[:, FREED] = 0
    return cuts, takes, keep_booked(state, gaps)


@njit(cache=True)
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


@njit(cache=True)
def _take(
    index: int, src: int, dst: int, carries_s: float, state: MatchState, room: Bits, cut: Numbers
) -> int:
    """Give a coflow two ports; returns how many pairs are ``cut`` for that."""
    cuts = 0
    for side in SIDES:
        cuts += _make_room(side, src if side == OUT else dst, state, cut[cuts])
    _hold(index, src, dst, carries_s, state, room)
    return cuts


@njit(cache=True)
def _free_booked(state: MatchState) -> None:
    """Count booked ports that no coflow holds as freed; none is booked any more."""
    for side in SIDES:
        for port in range(state.ready_s.size):
            if has(state.booked[side], port) and state.ports[side, HOLDER, port] == NONE:
                state.ports[side, FREED, port] = 1
    state.booked[:] = 0


@njit(cache=True)
def _look_at(
    index: int,
    looks: int,
    freed: Numbers,
    is_fresh: bool,
    now_s: float,
    state: MatchState,
    left_bytes: tuple[Floats, Floats],
    room: Bits,
    gaps: Gaps,
    choices: Floats,
) -> int:
    """Write the first pair that a coflow can have at each port to ``choices``; returns how many."""
    many, waits = 0, state.waits
    for number in range(looks):
        side, port = (OUT, number) if is_fresh else (freed[number, 0], freed[number, 1])
        if may_have(waits, room, index, side, port):
            left = left_bytes[side]
            many += look(index, side, port, now_s, state, left, room, gaps, choices[many])
    return many


@njit(cache=True)
def _catch_up(news: Floats, looks_again: bool, state: MatchState, matrices: List) -> None:
    """Apply the news of pairs, four floats each: index, src, dst; bytes, or what else happened.

    With ``looks_again``, booked ports count as freed.
    """
    for number in range(len(news) // 4):
        first = 4 * number
        index, src, dst = int(news[first]), int(news[first + 1]), int(news[first + 2])
        if news[first + 3] == RELEASED:
            release(index, src, dst, state)
        else:
            wait(index, src, dst, news[first + 3], state, matrices)
    if looks_again:
        _free_booked(state)


@njit(cache=True)
def _set_waits(index: int, src: int, dst: int, is_so: bool, state: MatchState) -> None:
    """Note that a pair waits, or does so no more."""
    for side in SIDES:
        port, other = (src, dst) if side == OUT else (dst, src)
        waits = state.waits[index, side, port]
        put(waits, other, is_so)
        put(state.ends[index, side], port, meet(waits, waits))


@njit(cache=True)
def _freed(ports: Small, freed: Numbers) -> int:
    """Write the ports that were freed into ``freed``; how many there are."""
    those = 0
    for side in SIDES:
        for port in range(ports.shape[2]):
            if ports[side, FREED, port]:
                freed[those, 0], freed[those, 1] = side, port
                those += 1
    return those


@njit(cache=True)
def _are_free(freed: Numbers, ports: Small) -> bool:
    """Whether any of these ports is still free."""
    those = 0
    for number in range(len(freed)):
        those += ports[freed[number, 0], FREED, freed[number, 1]] != 0
    return those > 0


@njit(cache=True)
def wait(
    index: int, src: int, dst: int, size_bytes: float, state: MatchState, matrices: List
) -> None:
    """Note that a pair waits with so many bytes to send; below 0: it does so no more."""
    ends = src, dst
    at, used = state.at[index], state.used[index]
    _set_waits(index, src, dst, size_bytes >= 0, state)
    for side in SIDES:
        if at[side, ends[side]] == NONE:
            at[side, ends[side]] = used[side]
            used[side] += 1
    for side in SIDES:
        left_bytes = matrices[2 * index + side]
        rows, columns = left_bytes.shape
        if used[side] > rows or used[1 - side] > columns:
            wider = np.empty(
                (max(rows, 2 * (used[side] - 1)), max(columns, 2 * (used[1 - side] - 1)))
            )
            wider[:rows, :columns] = left_bytes
            matrices[2 * index + side] = left_bytes = wider
        left_bytes[at[side, ends[side]], at[1 - side, ends[1 - side]]] = size_bytes


@njit(cache=True)
def forget(index: int, state: MatchState, matrices: List) -> None:
    """Forget all pairs of a coflow, so that its index can be used again."""
    state.at[index] = NONE
    state.used[index] = 0
    for side in SIDES:
        matrices[2 * index + side] = np.empty((RACKS, RACKS))


@njit(cache=True)
def _make_room(side: int, port: int, state: MatchState, cut: Numbers) -> bool:
    """Release the pair that holds a port, if there is one, and write it into ``cut``."""
    index, partner = state.ports[side, HOLDER, port], state.ports[side, PARTNER, port]
    if index == NONE:
        return False
    cut[0], cut[1 + side], cut[2 - side] = index, port, partner
    release(index, cut[1], cut[2], state)
    return True


@njit(cache=True)
def release(index: int, src: int, dst: int, state: MatchState) -> None:
    """Note that a pair holds its ports no more."""
    for side in SIDES:
        port = src if side == OUT else dst
        put(state.holds[index, side], port, False)
        state.ports[side, HOLDER, port], state.ports[side, FREED, port] = NONE, 1


@njit(cache=True)
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
