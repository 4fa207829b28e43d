"""The switch's ports, and which of them a coflow can take: for ``choosing`` and ``gaps``.

Each coflow that has, or wants, circuits has an index.  A pair is the index of a coflow and two
racks.
"""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros
from numpy.typing import NDArray

from railyard.netemu.circuits.switch import OpticalSwitch
from railyard.netemu.model.arrays import Bools, Floats, Numbers
from railyard.netemu.schedulers.fast.loops.borrowing import borrows
from railyard.netemu.schedulers.fast.loops.grouparrays import grown

OUT, IN = SIDES = 0, 1
NONE = -1
#: Kinds of ``ports``: the coflow that holds the port, and the other port that it holds with it; the
#: other end of the port's circuit; whether the port was freed since the last choice.
HOLDER, PARTNER, PEER, FREED = range(4)
KINDS = 4
#: Columns of a choice, a pair that may be served; the least is served first: whether its circuit
#: does not carry yet, its sort key (-bytes, distance, src, dst); then the side of the port.
DARK, BYTES, FAR, SRC, DST, SIDE = range(6)
COLUMNS = 6

Small = NDArray[np.int32]
Bits = NDArray[np.uint64]  #: sets of racks, 64 to a word


class MatchState(NamedTuple):
    """The coflows that want circuits, and the ports that they hold or wait for."""

    waits: Bits  #: the other ends of the pairs that wait at a port: [index, side, rack, word]
    ends: Bits  #: the ports at which any pair waits: [index, side, word]
    holds: Bits  #: the ports that a coflow holds: [index, side, word]
    works: Bits  #: ports that have not failed: [side, word]
    ports: Small  #: [side, kind, rack]
    ready_s: Floats  #: when the circuit from each rack carries: [rack]
    ends_s: Floats  #: when the pair from each rack will have sent all, as far as is known: [rack]
    booked: Bits  #: ports left free, as a coflow will want them soon: [side, word]
    seen: Bools  #: [index]: whether a coflow's choices have been predicted, in the present choice


class Matrices(NamedTuple):
    """What coflows' pairs have left to send, over the racks that each coflow uses.

    A coflow has two matrices, one for each side: one has a row for each port out of a rack, the
    other for each port into one, so that a port's pairs are contiguous.
    """

    at: Small  #: the place of a port among those that a coflow uses: [index, side, rack]
    used: Numbers  #: how many ports it uses: [index, side]
    begins: Numbers  #: where its cells begin: [index]
    sizes: Numbers  #: for how many ports there is room: [index, side]
    left_bytes: Floats  #: of pairs that wait: [side, cell]
    rows: Numbers  #: the rows of pairs in a compiled plane, or NONE: [cell of side ``OUT``]
    end: Numbers  #: [1]: where the last cells end


class Gaps(NamedTuple):
    """The ports that coflows, in order, will want before a new circuit could carry."""

    ending: Numbers  #: the pairs that end by then, the first one first: [number, (index, src, dst)]
    counts: Numbers  #: [2]: how many pairs these are, and how many coflows have been ``seen``
    freed: Bits  #: their ports: [side, word]
    room: Bits  #: ports that these coflows do not hold: [side, word]
    booked: Bits  #: ports that these coflows will take: [side, word]
    first_s: Floats  #: [1]: when the first of these ports will be taken
    refused: Bools  #: [1]: whether a coflow has been refused one of these ports


class Work(NamedTuple):
    """Arrays that a choice writes before it reads them, and what it comes to."""

    found: Numbers  #: pairs that lose and get circuits, see ``choosing.choose``
    choices: Floats  #: pairs that a coflow can have: [number, column]
    booking: Floats  #: [2, column]: the same, as far as is predicted
    freed: Numbers  #: ports that were freed: [number, (side, port)]; some are taken meanwhile
    room: Bits  #: ports that no coflow so far in the order holds: [side, word]
    free: Bits  #: the same, as far as is predicted
    none: Bits  #: no ports; never written
    gaps: Gaps


def new_work(racks: int) -> Work:
    """Room for choices among so many racks."""
    ports = np.zeros((6, 2, -(-racks // 64)), dtype=np.uint64)
    return Work(
        found=np.zeros((2, racks + 1, 3), dtype=np.int64),
        choices=np.zeros((2 * racks, COLUMNS)),
        booking=np.zeros((2, COLUMNS)),
        freed=np.zeros((2 * racks, 2), dtype=np.int64),
        room=ports[0],
        free=ports[1],
        none=ports[2],
        gaps=Gaps(
            ending=np.zeros((racks, 3), dtype=np.int64),
            counts=np.zeros(2, dtype=np.int64),
            freed=ports[3],
            room=ports[4],
            booked=ports[5],
            first_s=np.zeros(1),
            refused=np.zeros(1, dtype=np.bool_),
        ),
    )


def new_state(racks: int, coflows: int) -> MatchState:
    """Ports that have failed and no circuits, for so many coflows that want none."""
    words = -(-racks // 64)
    return MatchState(
        waits=np.zeros((coflows, 2, racks, words), dtype=np.uint64),
        ends=np.zeros((coflows, 2, words), dtype=np.uint64),
        holds=np.zeros((coflows, 2, words), dtype=np.uint64),
        works=np.zeros((2, words), dtype=np.uint64),
        ports=np.full((2, KINDS, racks), NONE, dtype=np.int32),
        ready_s=np.zeros(racks),
        ends_s=np.full(racks, np.inf),
        booked=np.zeros((2, words), dtype=np.uint64),
        seen=np.zeros(coflows, dtype=np.bool_),
    )


def with_room(state: MatchState, more: int) -> MatchState:
    """The same, with room for ``more`` coflows."""
    return state._replace(
        waits=grown(state.waits, more),
        ends=grown(state.ends, more),
        holds=grown(state.holds, more),
        seen=grown(state.seen, more),
    )


def take_over_switch(switch: OpticalSwitch, works: tuple[int, int], state: MatchState) -> None:
    """Note which ports work, racks as the bits of ints, and the circuits that there are."""
    for rack in range(len(switch.racks)):
        for side in SIDES:
            set_port(side, rack, bool(works[side] >> rack & 1), state)
    for circuit in chain.from_iterable(switch.out):
        state.ports[OUT, PEER, circuit.src] = circuit.dst
        state.ports[IN, PEER, circuit.dst] = circuit.src
        state.ready_s[circuit.src] = circuit.ready_s


def set_port(side: int, rack: int, works: bool, state: MatchState) -> None:
    """Note that a port has failed, or works again; a pair that held it has released it."""
    put(state.works[side], rack, works)
    state.ports[side, FREED, rack] = 1
    if not works:
        take_down(side, rack, state.ports)


@borrows
def has(bits: Bits, rack: int) -> bool:
    """Whether a rack is in a set."""
    return bool(bits[rack >> 6] >> np.uint64(rack & 63) & np.uint64(1))


@borrows
def put(bits: Bits, rack: int, is_in: bool) -> None:
    """Add a rack to a set, or remove it."""
    bit = np.uint64(1) << np.uint64(rack & 63)
    if is_in:
        bits[rack >> 6] |= bit
    else:
        bits[rack >> 6] &= ~bit


@borrows
def copy(ports: Bits, into: Bits) -> None:
    """Copy sets of ports: [side, word]."""
    for side in SIDES:
        for word in range(ports.shape[1]):
            into[side, word] = ports[side, word]


@borrows
def meet(some: Bits, others: Bits) -> bool:
    """Whether two sets have a rack in common."""
    both = np.uint64(0)
    for word in range(len(some)):
        both |= some[word] & others[word]
    return bool(both != 0)


@borrows
def less_held(room: Bits, held: Bits) -> None:
    """Remove ports that a coflow holds from ``room``."""
    for side in SIDES:
        for word in range(room.shape[1]):
            room[side, word] &= ~held[side, word]


@borrows
def may_have(waits: Bits, room: Bits, index: int, side: int, port: int) -> bool:
    """Whether a coflow waits for a circuit at a port that is free, like the other end.

    To be asked before ``look``: each array that a compiled function is given costs 15 ns, and a
    state has many.
    """
    if not room[side, port >> 6] >> np.uint64(port & 63) & np.uint64(1):
        return False
    both = np.uint64(0)
    for word in range(room.shape[1]):
        both |= waits[index, side, port, word] & room[1 - side, word]
    return bool(both != 0)


@borrows
def look(
    index: int,
    side: int,
    port: int,
    now_s: float,
    state: MatchState,
    matrices: Matrices,
    room: Bits,
    booked: Bits,
    refused: Bools,
    choice: Floats,
) -> bool:
    """Write the first pair that a coflow can have at a port into ``choice``; whether there is one.

    It ``may_have`` one.  Where one of its ports is ``booked``, only a circuit that carries already
    is worth taking; ``refused`` notes that there were others.
    """
    waits, others = state.waits[index, side, port], room[1 - side]
    begin = matrices.begins[index]
    begin += matrices.at[index, side, port] * matrices.sizes[index, 1 - side]
    at, those_bytes = matrices.at[index, 1 - side], matrices.left_bytes[side, begin:]
    racks, first, most_bytes, least_far, is_dark = len(at), NONE, -1.0, 0, 1.0
    peer = state.ports[side, PEER, port]
    is_up = peer != NONE and state.ready_s[port if side == OUT else peer] <= now_s
    if is_up and has(waits, peer) and has(others, peer):
        first, is_dark, most_bytes = peer, 0.0, those_bytes[at[peer]]
    else:
        if has(booked[side], port):
            refused[0] = True
            return False
        for word in range(len(waits)):
            bits = waits[word] & others[word]
            refused[0] |= (bits & booked[1 - side, word]) != 0
            bits &= ~booked[1 - side, word]
            while bits:
                end = (word << 6) + np.int64(trailing_zeros(bits))  # type: ignore[call-arg]  # intrinsic
                bits &= bits - np.uint64(1)
                size_bytes = those_bytes[at[end]]
                if size_bytes < most_bytes:
                    continue
                far = end - port if side == OUT else port - end
                far += racks if far < 0 else 0  # modulo racks, without dividing
                if size_bytes > most_bytes or far < least_far:
                    first, most_bytes, least_far = end, size_bytes, far
    if first == NONE:
        return False
    src, dst = (port, first) if side == OUT else (first, port)
    choice[DARK], choice[BYTES], choice[FAR] = is_dark, -most_bytes, (dst - src) % racks
    choice[SRC], choice[DST], choice[SIDE] = src, dst, side
    return True


@borrows
def _is_less(one: Floats, other: Floats) -> bool:
    """Whether the first of two choices is served before the other; no two are equal."""
    for column in range(DST):
        if one[column] != other[column]:
            return bool(one[column] < other[column])
    return False


@borrows
def least(choices: Floats, many: int) -> int:
    """The number of the choice, of so many, that is served first."""
    first = 0
    for number in range(1, many):
        if _is_less(choices[number], choices[first]):
            first = number
    return first


@borrows
def occupy(index: int, src: int, dst: int, state: MatchState) -> None:
    """Note that a coflow holds these two ports."""
    for side in SIDES:
        port, partner = (src, dst) if side == OUT else (dst, src)
        put(state.holds[index, side], port, True)
        state.ports[side, HOLDER, port], state.ports[side, PARTNER, port] = index, partner
        state.ports[side, FREED, port] = 0


@borrows
def take_down(side: int, port: int, ports: Small) -> None:
    """Note that a port has no circuit any more."""
    peer = ports[side, PEER, port]
    if peer != NONE:
        ports[1 - side, PEER, peer] = ports[side, PEER, port] = NONE
