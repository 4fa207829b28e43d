"""The loops of ``netemu.circuits.fast.matching``: who takes which ports."""

from __future__ import annotations

import numpy as np
from numba import njit
from numba.typed import List

from railyard.netemu.circuits.policies.fast.gaps import find_gaps, keep_booked, look_ahead
from railyard.netemu.circuits.policies.fast.ports import (
    COLUMNS,
    DST,
    FREED,
    IN,
    NONE,
    OUT,
    PARTNER,
    PEER,
    SIDE,
    SIDES,
    SLOT,
    SRC,
    Bits,
    Gaps,
    Ground,
    Small,
    has,
    least,
    less_held,
    look,
    meet,
    occupy,
    put,
    take_down,
)
from railyard.netemu.model.arrays import Bools, Floats, Numbers

#: News of a pair instead of the bytes with which it waits: that it does so no more, or
#: that it has its ports no more.
WAITS_NO_MORE, RELEASED = -1, -2
#: What has become of pairs in a choice.
CUT, TAKEN = 0, 1
#: So many racks there are in a slot's matrix at first.
RACKS = 4


@njit(cache=True)
def add_matrices(matrices: List, slots: int) -> None:
    """Have matrices for so many slots more."""
    for _ in range(len(SIDES) * slots):
        matrices.append(np.empty((RACKS, RACKS)))


@njit(cache=True)
def new_matrices(slots: int) -> List:
    """Matrices for so many slots.

    Made here, since what does it from Python is compiled anew in each process.
    """
    matrices = List()
    for _ in range(len(SIDES) * slots):
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
    ground: Ground,
    matrices: List,
    found: Numbers,
) -> tuple[int, int, float]:
    """Let slots take ports in ``order``; how many pairs are cut and taken, when to look again.

    These are ``found``: [``CUT`` or ``TAKEN``, number].  Before that, pairs wait with so many
    bytes, or whatever else is in the ``news`` of them.  Of slots that are ``fresh`` all that waits
    is looked at, of others what is at ports that have fallen free; if it ``looks_again``, those
    that are booked have.
    """
    _catch_up(news, ground, matrices)
    if looks_again:
        _free_booked(ground)
    cut, taken = found[CUT], found[TAKEN]
    racks = ground.ready_s.size
    choices = np.empty((2 * racks, COLUMNS))
    freed = np.empty((2 * racks, 2), dtype=np.int64)  # side, port; some are taken again
    room = ground.works.copy()  # ports that are free but for slots to come
    gaps = find_gaps(now_s + rounding_s, now_s + delta_s + rounding_s, ground)
    those = _freed(ground.ports, freed)
    cuts = takes = 0
    news = fresh[order].sum()
    for place in range(len(order)):
        slot = order[place]
        if not (news or _are_free(freed[:those], ground.ports)):
            break
        news -= fresh[slot]
        less_held(room, ground.holds[slot])
        looks = _looks(racks if fresh[slot] else those, ground.ends[slot], room)
        left_bytes = matrices[2 * slot + OUT], matrices[2 * slot + IN]
        many = _look_at(
            slot, looks, freed, fresh[slot], now_s, ground, left_bytes, room, gaps, choices
        )
        if many and look_ahead(order[:place], ground, matrices, gaps):
            many = _look_at(
                slot, looks, freed, fresh[slot], now_s, ground, left_bytes, room, gaps, choices
            )
        while many:
            first = least(choices[:many])
            src, dst, side = int(first[SRC]), int(first[DST]), int(first[SIDE])
            if has(room[OUT], src) and has(room[IN], dst):
                more = _take(slot, src, dst, now_s + delta_s, ground, room, cut[cuts:])
                for number in range(cuts, cuts + more):
                    for side_cut in SIDES:
                        freed[those, 0], freed[those, 1] = side_cut, cut[number, 1 + side_cut]
                        those += 1
                cuts += more
                taken[takes, 0], taken[takes, 1], taken[takes, 2] = slot, src, dst
                takes += 1
            port = src if side == OUT else dst
            if not look(slot, side, port, now_s, ground, left_bytes[side], room, gaps, first):
                many -= 1
                first[:] = choices[many]
    ground.ports[:, FREED] = 0
    return cuts, takes, keep_booked(ground, gaps)


@njit(cache=True)
def _take(
    slot: int, src: int, dst: int, carries_s: float, ground: Ground, room: Bits, cut: Numbers
) -> int:
    """Give a slot two ports; returns how many pairs are ``cut`` for that."""
    cuts = 0
    for side in SIDES:
        cuts += _make_room(side, src if side == OUT else dst, ground, cut[cuts])
    _hold(slot, src, dst, carries_s, ground, room)
    return cuts


@njit(cache=True)
def _free_booked(ground: Ground) -> None:
    """Ports that nobody has got may be had now."""
    for side in SIDES:
        for port in range(ground.ready_s.size):
            if has(ground.booked[side], port) and ground.ports[side, SLOT, port] == NONE:
                ground.ports[side, FREED, port] = 1
    ground.booked[:] = 0


@njit(cache=True)
def _look_at(
    slot: int,
    looks: int,
    freed: Numbers,
    is_fresh: bool,
    now_s: float,
    ground: Ground,
    left_bytes: tuple[Floats, Floats],
    room: Bits,
    gaps: Gaps,
    choices: Floats,
) -> int:
    """Write down the most urgent of what a slot can take at each port; how many there are."""
    many = 0
    for number in range(looks):
        side, port = (OUT, number) if is_fresh else (freed[number, 0], freed[number, 1])
        many += look(slot, side, port, now_s, ground, left_bytes[side], room, gaps, choices[many])
    return many


@njit(cache=True)
def _catch_up(news: Floats, ground: Ground, matrices: List) -> None:
    """Note what has happened to pairs since the last choice: slot, src and dst, bytes of each."""
    pair = np.empty(3, dtype=np.int64)
    for number in range(len(news) // 4):
        first = 4 * number
        pair[0], pair[1], pair[2] = news[first], news[first + 1], news[first + 2]
        if news[first + 3] == RELEASED:
            _release(pair, ground)
        else:
            _wait(pair, news[first + 3], ground, matrices)


@njit(cache=True)
def _set_waits(slot: int, src: int, dst: int, is_so: bool, ground: Ground) -> None:
    """A pair waits, or does so no more."""
    for side in SIDES:
        port, other = (src, dst) if side == OUT else (dst, src)
        waits = ground.waits[slot, side, port]
        put(waits, other, is_so)
        put(ground.ends[slot, side], port, meet(waits, waits))


@njit(cache=True)
def _freed(ports: Small, freed: Numbers) -> int:
    """Write down the ports that have fallen free; how many they are."""
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
def _looks(ports: int, ends: Bits, room: Bits) -> int:
    """How many of these ports are worth a look: none for most slots, where they are many."""
    return ports if meet(ends[OUT], room[OUT]) and meet(ends[IN], room[IN]) else 0


@njit(cache=True)
def _wait(pair: Numbers, size_bytes: float, ground: Ground, matrices: List) -> None:
    """A pair waits from now on, with so much to send; below 0: it does so no more."""
    slot, ends = pair[0], pair[1:]
    at, used = ground.at[slot], ground.used[slot]
    _set_waits(slot, ends[OUT], ends[IN], size_bytes >= 0, ground)
    for side in SIDES:
        if at[side, ends[side]] == NONE:
            at[side, ends[side]] = used[side]
            used[side] += 1
    for side in SIDES:
        left_bytes = matrices[2 * slot + side]
        rows, columns = left_bytes.shape
        if used[side] > rows or used[1 - side] > columns:
            wider = np.empty(
                (max(rows, 2 * (used[side] - 1)), max(columns, 2 * (used[1 - side] - 1)))
            )
            wider[:rows, :columns] = left_bytes
            matrices[2 * slot + side] = left_bytes = wider
        left_bytes[at[side, ends[side]], at[1 - side, ends[1 - side]]] = size_bytes


@njit(cache=True)
def forget(slot: int, ground: Ground, matrices: List) -> None:
    """A slot has no pairs."""
    ground.at[slot] = NONE
    ground.used[slot] = 0
    for side in SIDES:
        matrices[2 * slot + side] = np.empty((RACKS, RACKS))


@njit(cache=True)
def _make_room(side: int, port: int, ground: Ground, cut: Numbers) -> bool:
    """Cut the pair that holds a port, if there is one."""
    slot, partner = ground.ports[side, SLOT, port], ground.ports[side, PARTNER, port]
    if slot == NONE:
        return False
    cut[0], cut[1 + side], cut[2 - side] = slot, port, partner
    _release(cut, ground)
    return True


@njit(cache=True)
def _release(pair: Numbers, ground: Ground) -> None:
    """A pair has its ports no more."""
    for side in SIDES:
        port = pair[1 + side]
        put(ground.holds[pair[0], side], port, False)
        ground.ports[side, SLOT, port], ground.ports[side, FREED, port] = NONE, 1


@njit(cache=True)
def _hold(slot: int, src: int, dst: int, carries_s: float, ground: Ground, room: Bits) -> None:
    """Give a pair, which waits, its ports, and a circuit if there is none."""
    _set_waits(slot, src, dst, False, ground)
    put(room[OUT], src, False)
    put(room[IN], dst, False)
    occupy(slot, src, dst, ground)
    ports = ground.ports
    if ports[OUT, PEER, src] != dst:
        take_down(OUT, src, ports)
        take_down(IN, dst, ports)
        ports[OUT, PEER, src], ports[IN, PEER, dst] = dst, src
        ground.ready_s[src] = carries_s
