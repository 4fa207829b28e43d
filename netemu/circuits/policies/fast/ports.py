"""Ports, and what coflows that want circuits can take of them: for ``choosing`` and ``gaps``.

Each coflow that has, or wants, circuits has a slot, with what its pairs have left in matrices of
the racks that it uses, one for each side of a port, so that a port's pairs are side by side:
``2 * slot + side``.
A pair is a slot and two racks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numba.cpython.unsafe.numbers import trailing_zeros
from numpy.typing import NDArray

from railyard.netemu.model.arrays import Bools, Floats, Numbers

OUT, IN = SIDES = 0, 1
NONE = -1
#: What is known of a port: the slot that holds it and with which other port, the other end of its
#: circuit, if there are such, and whether it has fallen free since the last choice.
SLOT, PARTNER, PEER, FREED = range(4)
KINDS = 4
#: What may be chosen at a port, the least first: whether it has no circuit that carries, its turn
#: (-bytes, distance, src, dst), and the side of the port.
DARK, BYTES, FAR, SRC, DST, SIDE = range(6)
COLUMNS = 6

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
    ends_s: Floats  #: when what goes out of each rack will have been sent, as far as is known
    booked: Bits  #: ports that nobody has got, as one will want them soon: [side, word]


class Gaps(NamedTuple):
    """What is known of ports that slots, in order, will want before a new circuit carries."""

    ending: Numbers  #: the pairs that end until then, in order: [number, (slot, src, dst)]
    seen: Bools  #: by slot: whether it has been looked ahead for it
    room: Bits  #: ports that these slots do not hold
    booked: Bits  #: ports that they will take: [side, word]
    seen_slots: Numbers  #: how many they are
    first_s: Floats  #: when the first port will be taken
    refused: Bools  #: whether anybody has been refused a port for that


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
def meet(some: Bits, others: Bits) -> bool:
    """Whether two sets have a rack in common."""
    both = np.uint64(0)
    for word in range(len(some)):
        both |= some[word] & others[word]
    return bool(both != 0)


@njit(cache=True)
def less_held(room: Bits, held: Bits) -> None:
    """Leave out ports that a slot holds."""
    for side in SIDES:
        for word in range(room.shape[1]):
            room[side, word] &= ~held[side, word]


@njit(cache=True)
def look(
    slot: int,
    side: int,
    port: int,
    now_s: float,
    ground: Ground,
    left_bytes: Floats,
    room: Bits,
    gaps: Gaps,
    choice: Floats,
) -> bool:
    """Write down the most urgent of what a slot can take at a port, if there is any.

    A circuit that is dark is of no use where a port is booked.
    """
    if not has(room[side], port):
        return False
    waits, others = ground.waits[slot, side, port], room[1 - side]
    if not meet(waits, others):
        return False
    at, those_bytes = ground.at[slot, 1 - side], left_bytes[ground.at[slot, side, port]]
    racks, first, most_bytes, least_far, is_dark = len(at), NONE, -1.0, 0, 1.0
    peer = ground.ports[side, PEER, port]
    is_up = peer != NONE and ground.ready_s[port if side == OUT else peer] <= now_s
    if is_up and has(waits, peer) and has(others, peer):
        first, is_dark, most_bytes = peer, 0.0, those_bytes[at[peer]]
    else:
        booked = gaps.booked[1 - side]
        if has(gaps.booked[side], port):
            gaps.refused[0] = True
            return False
        for word in range(len(waits)):
            bits = waits[word] & others[word]
            gaps.refused[0] |= (bits & booked[word]) != 0
            bits &= ~booked[word]
            while bits:
                end = (word << 6) + np.int64(trailing_zeros(bits))  # type: ignore[call-arg]  # intrinsic
                bits &= bits - np.uint64(1)
                size_bytes = those_bytes[at[end]]
                if size_bytes < most_bytes:
                    continue
                far = (end - port if side == OUT else port - end) % racks
                if size_bytes > most_bytes or far < least_far:
                    first, most_bytes, least_far = end, size_bytes, far
    if first == NONE:
        return False
    src, dst = (port, first) if side == OUT else (first, port)
    choice[DARK], choice[BYTES], choice[FAR] = is_dark, -most_bytes, (dst - src) % racks
    choice[SRC], choice[DST], choice[SIDE] = src, dst, side
    return True


@njit(cache=True)
def _is_less(one: Floats, other: Floats) -> bool:
    """Which of two choices comes first; no two have all of this in common."""
    for column in range(DST):
        if one[column] != other[column]:
            return bool(one[column] < other[column])
    return False


@njit(cache=True)
def least(choices: Floats) -> Floats:
    """The choice that comes first."""
    first: Floats = choices[0]
    for number in range(1, len(choices)):
        if _is_less(choices[number], first):
            first = choices[number]
    return first


@njit(cache=True)
def occupy(slot: int, src: int, dst: int, ground: Ground) -> None:
    """A slot holds two ports."""
    for side in SIDES:
        port, partner = (src, dst) if side == OUT else (dst, src)
        put(ground.holds[slot, side], port, True)
        ground.ports[side, SLOT, port], ground.ports[side, PARTNER, port] = slot, partner
        ground.ports[side, FREED, port] = 0


@njit(cache=True)
def take_down(side: int, port: int, ports: Small) -> None:
    """A port has no circuit any more."""
    peer = ports[side, PEER, port]
    if peer != NONE:
        ports[1 - side, PEER, peer] = ports[side, PEER, port] = NONE
