"""The loops of ``netemu.schedulers.compiled.matching``.

Each coflow that rides has a slot, with what its batches have left in matrices of the racks that it
uses, one for each side of a port, so that a port's batches are side by side: ``2 * slot + side``.
A batch is a slot and two racks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numba.cpython.unsafe.numbers import trailing_zeros
from numba.typed import List
from numpy.typing import NDArray

from netemu.schedulers.base import Floats, Numbers
from netemu.schedulers.filling import Bools

OUT, IN = SIDES = 0, 1
NONE = -1
#: What is told of a batch instead of the bytes with which it waits: that it does so no more, or
#: that it has its ports no more.
WAITS_NO_MORE, RELEASED = -1, -2
#: What has become of batches in a choice.
CUT, TAKEN = 0, 1
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
    ends: Bits  #: the ports at which anything waits: [slot, side, word]
    holds: Bits  #: ports that a slot holds: [slot, side, word]
    works: Bits  #: ports that have not failed: [side, word]
    ports: Small  #: [side, kind, rack]
    ready_s: Floats  #: when the circuit from each rack carries


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
    carries_s: float,
    told: Floats,
    order: Numbers,
    fresh: Bools,
    ground: Ground,
    matrices: List,
    found: Numbers,
) -> tuple[int, int]:
    """Let slots take ports in ``order``; how many batches are cut and taken.

    These are ``found``: [``CUT`` or ``TAKEN``, number].  Before that, batches wait with so many
    bytes, or whatever else has been ``told`` of them.  A circuit that is set up now will carry at
    ``carries_s``.  Of slots that are ``fresh`` all that waits is looked at, of others what is at
    ports that have fallen free.
    """
    _catch_up(told, ground, matrices)
    cut, taken = found[CUT], found[TAKEN]
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
        looks = _looks(racks if fresh[slot] else those, ground.ends[slot], room)
        left_bytes, many = (matrices[2 * slot + OUT], matrices[2 * slot + IN]), 0
        for number in range(looks):
            side, port = (OUT, number) if fresh[slot] else (freed[number, 0], freed[number, 1])
            many += _look(slot, side, port, now_s, ground, left_bytes[side], room, choices[many])
        while many:
            first = _least(choices[:many])
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
            if not _look(slot, side, port, now_s, ground, left_bytes[side], room, first):
                many -= 1
                first[:] = choices[many]
    ground.ports[:, FREED] = 0
    return cuts, takes


@njit(cache=True)
def _catch_up(told: Floats, ground: Ground, matrices: List) -> None:
    """Note what has happened to batches since the last choice: slot, src and dst, bytes of each."""
    batch = np.empty(3, dtype=np.int64)
    for number in range(len(told) // 4):
        first = 4 * number
        batch[0], batch[1], batch[2] = told[first], told[first + 1], told[first + 2]
        if told[first + 3] == RELEASED:
            _release(batch, ground)
        else:
            _wait(batch, told[first + 3], ground, matrices)


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
def _meet(some: Bits, others: Bits) -> bool:
    """Whether two sets have a rack in common."""
    both = np.uint64(0)
    for word in range(len(some)):
        both |= some[word] & others[word]
    return bool(both != 0)


@njit(cache=True)
def _set_waits(slot: int, src: int, dst: int, is_so: bool, ground: Ground) -> None:
    """A batch waits, or does so no more."""
    for side in SIDES:
        port, other = (src, dst) if side == OUT else (dst, src)
        waits = ground.waits[slot, side, port]
        put(waits, other, is_so)
        put(ground.ends[slot, side], port, _meet(waits, waits))


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
def _looks(ports: int, ends: Bits, room: Bits) -> int:
    """How many of these ports are worth a look: none for most slots, where they are many."""
    return ports if _meet(ends[OUT], room[OUT]) and _meet(ends[IN], room[IN]) else 0


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
    waits, others = ground.waits[slot, side, port], room[1 - side]
    if not _meet(waits, others):
        return False
    at, those_bytes = ground.at[slot, 1 - side], left_bytes[ground.at[slot, side, port]]
    racks, first, most_bytes, least_far, is_dark = len(at), NONE, -1.0, 0, 1.0
    peer = ground.ports[side, PEER, port]
    is_up = peer != NONE and ground.ready_s[port if side == OUT else peer] <= now_s
    if is_up and has(waits, peer) and has(others, peer):
        first, is_dark, most_bytes = peer, 0.0, those_bytes[at[peer]]
    else:
        for word in range(len(waits)):
            bits = waits[word] & others[word]
            while bits:
                end = (word << 6) + np.int64(trailing_zeros(bits))  # type: ignore[call-arg]  # intrinsic
                bits &= bits - np.uint64(1)
                size_bytes = those_bytes[at[end]]
                if size_bytes < most_bytes:
                    continue
                far = (end - port if side == OUT else port - end) % racks
                if size_bytes > most_bytes or far < least_far:
                    first, most_bytes, least_far = end, size_bytes, far
    src, dst = (port, first) if side == OUT else (first, port)
    choice[_DARK], choice[_BYTES], choice[_FAR] = is_dark, -most_bytes, (dst - src) % racks
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
    """A slot has no batches."""
    ground.at[slot] = NONE
    ground.used[slot] = 0
    for side in SIDES:
        matrices[2 * slot + side] = np.empty((RACKS, RACKS))


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
