"""The loops of ``netemu.schedulers.compiled.matching``.

Each coflow that rides has a slot, with the turns of its batches in a matrix of the racks that it
uses: a batch is a slot and two racks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numba.typed import List
from numpy.typing import NDArray

from netemu.schedulers.base import Floats, Numbers
from netemu.schedulers.filling import Bools

OUT, IN = SIDES = 0, 1
NONE = -1
#: What is known of a port: the slot that holds it and with which other port, the other end of its
#: circuit, if there are such, and whether it has fallen free since the last choice.
_SLOT, _PARTNER, PEER, FREED = range(4)
KINDS = 4
#: What may be chosen at a port, the least first: whether it has no circuit that carries, its turn
#: (-bytes, distance, src, dst), and the side of the port.
_DARK, _BYTES, _FAR, _SRC, _DST, _SIDE = range(6)
_COLUMNS = 6
#: So many racks there are in a slot's matrix at first.
RACKS = 4

Small = NDArray[np.int32]
Bits = NDArray[np.uint64]  #: sets of racks, 64 to a word


class Ground(NamedTuple):
    """What there is to match."""

    at: Small  #: where a rack is in a slot's matrix: [slot, side, rack]
    used: Small  #: how much of the matrix is used: [slot, side]
    waits: Bits  #: the other ends of what waits at a port: [slot, side, rack, word]
    holds: Bits  #: ports that a slot holds: [slot, side, word]
    works: Bits  #: ports that have not failed: [side, word]
    ports: Small  #: [side, kind, rack]
    ready_s: Floats  #: when the circuit from each rack carries


@njit(cache=True)
def matrices(slots: int) -> List:
    """Those of so many slots that have no batches.

    Made here, since what does it from Python is compiled anew in each process.
    """
    made = List()
    for _ in range(slots):
        made.append(np.empty((RACKS, RACKS)))
    return made


@njit(cache=True)
def add_matrices(matrices: List, more: int) -> None:
    """Have those of so many slots more."""
    for _ in range(more):
        matrices.append(np.empty((RACKS, RACKS)))


@njit(cache=True)
def choose(
    now_s: float,
    carries_s: float,
    released: Numbers,
    joining: Numbers,
    joining_bytes: Floats,
    order: Numbers,
    fresh: Bools,
    ground: Ground,
    matrices: List,
    cut: Numbers,
    taken: Numbers,
) -> tuple[int, int]:
    """Let slots take ports in ``order``; how many batches are ``cut`` and ``taken``.

    Before that, batches are ``released``, others wait from now on (or, below 0 bytes, do so no
    more).  A circuit that is set up now will carry at ``carries_s``.  Of slots that are ``fresh``
    all that waits is looked at, of others what is at ports that have fallen free.
    """
    _catch_up(released, joining, joining_bytes, ground, matrices)
    racks = ground.ready_s.size
    choices = np.empty((2 * racks, _COLUMNS))
    freed = np.empty((2 * racks, 2), dtype=np.int64)  # side, port; some are taken again
    room = ground.works.copy()  # ports that are free but for slots to come
    those = _freed(ground.ports, freed)
    cuts = takes = 0
    news = fresh[order].sum()
    for slot in order:
        if not (news or _are_free(freed[:those], ground.ports)):
            break
        news -= fresh[slot]
        _less_held(room, ground.holds[slot])
        left_bytes, found = matrices[slot], 0
        for number in range(racks if fresh[slot] else those):
            side, port = (OUT, number) if fresh[slot] else (freed[number, 0], freed[number, 1])
            found += _look(slot, side, port, now_s, ground, left_bytes, room, choices[found])
        while found:
            first = _least(choices[:found])
            src, dst, side = int(first[_SRC]), int(first[_DST]), int(first[_SIDE])
            if has(room[OUT], src) and has(room[IN], dst):
                for end in SIDES:
                    if _make_room(end, src if end == OUT else dst, ground, cut[cuts]):
                        for number in SIDES:
                            freed[those, 0], freed[those, 1] = number, cut[cuts, 1 + number]
                            those += 1
                        cuts += 1
                _hold(slot, src, dst, carries_s, ground, room)
                taken[takes, 0], taken[takes, 1], taken[takes, 2] = slot, src, dst
                takes += 1
            port = src if side == OUT else dst
            if not _look(slot, side, port, now_s, ground, left_bytes, room, first):
                found -= 1
                first[:] = choices[found]
    ground.ports[:, FREED] = 0
    return cuts, takes


@njit(cache=True)
def _catch_up(
    released: Numbers, joining: Numbers, joining_bytes: Floats, ground: Ground, matrices: List
) -> None:
    """Note what has happened to batches since the last choice."""
    for batch in range(len(released)):
        _release(released[batch], ground)
    for batch in range(len(joining)):
        _wait(joining[batch], joining_bytes[batch], ground, matrices)


@njit(cache=True)
def has(bits: Bits, rack: int) -> bool:
    """Whether a rack is in a set."""
    return bool(bits[rack >> 6] >> np.uint64(rack & 63) & np.uint64(1))


@njit(cache=True)
def put(bits: Bits, rack: int, is_in: bool) -> None:
    """Have a rack in a set, or not."""
    bit = np.uint64(1) << np.uint64(rack & 63)
    if is_in:
        bits[rack >> 6] |= bit
    else:
        bits[rack >> 6] &= ~bit


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
def _less_held(room: Bits, held: Bits) -> None:
    """Leave out ports that a slot holds."""
    for side in SIDES:
        for word in range(room.shape[1]):
            room[side, word] &= ~held[side, word]


@njit(cache=True)
def _look(
    slot: int,
    side: int,
    port: int,
    now_s: float,
    ground: Ground,
    left_bytes: Floats,
    room: Bits,
    choice: Floats,
) -> bool:
    """Write down the most urgent of what a slot can take at a port, if there is any."""
    if not has(room[side], port):
        return False
    waits, others, at = ground.waits[slot, side, port], room[1 - side], ground.at[slot]
    first, most_bytes, least_far, is_dark = NONE, -1.0, 0, 1.0
    peer = ground.ports[side, PEER, port]
    is_up = peer != NONE and ground.ready_s[port if side == OUT else peer] <= now_s
    if is_up and has(waits, peer) and has(others, peer):
        first, is_dark = peer, 0.0
    if first == NONE:
        for word in range(len(waits)):
            bits, end = waits[word] & others[word], word << 6
            while bits:
                if bits & np.uint64(1):
                    src, dst = (port, end) if side == OUT else (end, port)
                    size_bytes = left_bytes[at[OUT, src], at[IN, dst]]
                    far = (dst - src) % ground.ready_s.size
                    if size_bytes > most_bytes or (size_bytes == most_bytes and far < least_far):
                        first, most_bytes, least_far = end, size_bytes, far
                bits >>= np.uint64(1)
                end += 1
        if first == NONE:
            return False
    src, dst = (port, first) if side == OUT else (first, port)
    choice[_DARK], choice[_BYTES] = is_dark, -left_bytes[at[OUT, src], at[IN, dst]]
    choice[_FAR] = (dst - src) % ground.ready_s.size
    choice[_SRC], choice[_DST], choice[_SIDE] = src, dst, side
    return True


@njit(cache=True)
def _is_less(one: Floats, other: Floats) -> bool:
    """Which of two choices comes first; no two have all of this in common."""
    for column in range(_DST):
        if one[column] != other[column]:
            return bool(one[column] < other[column])
    return False


@njit(cache=True)
def _least(choices: Floats) -> Floats:
    """The choice that comes first."""
    first: Floats = choices[0]
    for number in range(1, len(choices)):
        if _is_less(choices[number], first):
            first = choices[number]
    return first


@njit(cache=True)
def _wait(batch: Numbers, size_bytes: float, ground: Ground, matrices: List) -> None:
    """A batch waits from now on, with so much to send; below 0: it does so no more."""
    slot, ends = batch[0], batch[1:]
    at, used = ground.at[slot], ground.used[slot]
    for side in SIDES:
        put(ground.waits[slot, side, ends[side]], ends[1 - side], size_bytes >= 0)
        if at[side, ends[side]] == NONE:
            at[side, ends[side]] = used[side]
            used[side] += 1
    left_bytes = matrices[slot]
    rows, columns = left_bytes.shape
    if used[OUT] > rows or used[IN] > columns:
        wider = np.empty((max(rows, 2 * (used[OUT] - 1)), max(columns, 2 * (used[IN] - 1))))
        wider[:rows, :columns] = left_bytes
        matrices[slot] = left_bytes = wider
    left_bytes[at[OUT, ends[OUT]], at[IN, ends[IN]]] = size_bytes


@njit(cache=True)
def forget(slot: int, ground: Ground, matrices: List) -> None:
    """A slot has no batches."""
    ground.at[slot] = NONE
    ground.used[slot] = 0
    matrices[slot] = np.empty((RACKS, RACKS))


@njit(cache=True)
def _make_room(side: int, port: int, ground: Ground, cut: Numbers) -> bool:
    """Cut the batch that holds a port, if there is one."""
    slot, partner = ground.ports[side, _SLOT, port], ground.ports[side, _PARTNER, port]
    if slot == NONE:
        return False
    cut[0], cut[1 + side], cut[2 - side] = slot, port, partner
    _release(cut, ground)
    return True


@njit(cache=True)
def _release(batch: Numbers, ground: Ground) -> None:
    """A batch has its ports no more."""
    for side in SIDES:
        port = batch[1 + side]
        put(ground.holds[batch[0], side], port, False)
        ground.ports[side, _SLOT, port], ground.ports[side, FREED, port] = NONE, 1


@njit(cache=True)
def _hold(slot: int, src: int, dst: int, carries_s: float, ground: Ground, room: Bits) -> None:
    """Give a batch, which waits, its ports, and a circuit if there is none."""
    put(ground.waits[slot, OUT, src], dst, False)
    put(ground.waits[slot, IN, dst], src, False)
    put(room[OUT], src, False)
    put(room[IN], dst, False)
    occupy(slot, src, dst, ground)
    ports = ground.ports
    if ports[OUT, PEER, src] != dst:
        take_down(OUT, src, ports)
        take_down(IN, dst, ports)
        ports[OUT, PEER, src], ports[IN, PEER, dst] = dst, src
        ground.ready_s[src] = carries_s


@njit(cache=True)
def occupy(slot: int, src: int, dst: int, ground: Ground) -> None:
    """A slot holds two ports."""
    for side in SIDES:
        port, partner = (src, dst) if side == OUT else (dst, src)
        put(ground.holds[slot, side], port, True)
        ground.ports[side, _SLOT, port], ground.ports[side, _PARTNER, port] = slot, partner
        ground.ports[side, FREED, port] = 0


@njit(cache=True)
def take_down(side: int, port: int, ports: Small) -> None:
    """A port has no circuit any more."""
    peer = ports[side, PEER, port]
    if peer != NONE:
        ports[1 - side, PEER, peer] = ports[side, PEER, port] = NONE
