"""``netemu.circuits`` for crowds, where a port has one circuit at a time: the same choices.

Each coflow that rides has a slot, with the turns of its batches in a matrix of the racks that it
uses: a batch is a slot and two racks.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

import numpy as np
from numba import njit
from numba.typed import List
from numpy.typing import NDArray

from netemu.batches import Batch, Demand
from netemu.circuits import Matching
from netemu.optical import OpticalSwitch
from netemu.schedulers.base import Floats, Numbers
from netemu.schedulers.compiled.slots import grown
from netemu.schedulers.filling import Bools

_OUT, _IN = SIDES = 0, 1
_NONE = -1
#: What is known of a port: the slot that holds it and with which other port, the other end of its
#: circuit, if there are such, and whether it has fallen free since the last choice.
_SLOT, _PARTNER, _PEER, _FREED = range(4)
_KINDS = 4
#: What may be chosen at a port, the least first: whether it has no circuit that carries, its turn
#: (-bytes, distance, src, dst), and the side of the port.
_DARK, _BYTES, _FAR, _SRC, _DST, _SIDE = range(6)
_COLUMNS = 6
#: So many slots, and racks in a slot's matrix, there are at first.
_SLOTS, _RACKS = 16, 4

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
    for batch in range(len(released)):
        _release(released[batch], ground)
    for batch in range(len(joining)):
        _wait(joining[batch], joining_bytes[batch], ground, matrices)
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
            side, port = (_OUT, number) if fresh[slot] else (freed[number, 0], freed[number, 1])
            found += _look(slot, side, port, now_s, ground, left_bytes, room, choices[found])
        while found:
            first = _least(choices[:found])
            src, dst, side = int(first[_SRC]), int(first[_DST]), int(first[_SIDE])
            if has(room[_OUT], src) and has(room[_IN], dst):
                for end in SIDES:
                    if _make_room(end, src if end == _OUT else dst, ground, cut[cuts]):
                        for number in SIDES:
                            freed[those, 0], freed[those, 1] = number, cut[cuts, 1 + number]
                            those += 1
                        cuts += 1
                _hold(slot, src, dst, carries_s, ground, room)
                taken[takes, 0], taken[takes, 1], taken[takes, 2] = slot, src, dst
                takes += 1
            port = src if side == _OUT else dst
            if not _look(slot, side, port, now_s, ground, left_bytes, room, first):
                found -= 1
                first[:] = choices[found]
    ground.ports[:, _FREED] = 0
    return cuts, takes


@njit(cache=True)
def has(bits: Bits, rack: int) -> bool:
    """Whether a rack is in a set."""
    return bits[rack >> 6] >> np.uint64(rack & 63) & np.uint64(1) != 0


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
            if ports[side, _FREED, port]:
                freed[those, 0], freed[those, 1] = side, port
                those += 1
    return those


@njit(cache=True)
def _are_free(freed: Numbers, ports: Small) -> bool:
    """Whether any of these ports is still free."""
    for number in range(len(freed)):
        if ports[freed[number, 0], _FREED, freed[number, 1]]:
            return True
    return False


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
    first, most_bytes, least_far, is_dark = _NONE, -1.0, 0, 1.0
    peer = ground.ports[side, _PEER, port]
    if peer != _NONE and has(waits, peer) and has(others, peer):
        if ground.ready_s[port if side == _OUT else peer] <= now_s:
            first, is_dark = peer, 0.0
    if first == _NONE:
        for word in range(len(waits)):
            bits, end = waits[word] & others[word], word << 6
            while bits:
                if bits & np.uint64(1):
                    src, dst = (port, end) if side == _OUT else (end, port)
                    size_bytes = left_bytes[at[_OUT, src], at[_IN, dst]]
                    far = (dst - src) % ground.ready_s.size
                    if size_bytes > most_bytes or (size_bytes == most_bytes and far < least_far):
                        first, most_bytes, least_far = end, size_bytes, far
                bits >>= np.uint64(1)
                end += 1
        if first == _NONE:
            return False
    src, dst = (port, first) if side == _OUT else (first, port)
    choice[_DARK], choice[_BYTES] = is_dark, -left_bytes[at[_OUT, src], at[_IN, dst]]
    choice[_FAR] = (dst - src) % ground.ready_s.size
    choice[_SRC], choice[_DST], choice[_SIDE] = src, dst, side
    return True


@njit(cache=True)
def _is_less(one: Floats, other: Floats) -> bool:
    """Which of two choices comes first; no two have all of this in common."""
    for column in range(_DST):
        if one[column] != other[column]:
            return one[column] < other[column]
    return False


@njit(cache=True)
def _least(choices: Floats) -> Floats:
    """The choice that comes first."""
    first = choices[0]
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
        if at[side, ends[side]] == _NONE:
            at[side, ends[side]] = used[side]
            used[side] += 1
    left_bytes = matrices[slot]
    rows, columns = left_bytes.shape
    if used[_OUT] > rows or used[_IN] > columns:
        wider = np.empty((max(rows, 2 * (used[_OUT] - 1)), max(columns, 2 * (used[_IN] - 1))))
        wider[:rows, :columns] = left_bytes
        matrices[slot] = left_bytes = wider
    left_bytes[at[_OUT, ends[_OUT]], at[_IN, ends[_IN]]] = size_bytes


@njit(cache=True)
def forget(slot: int, ground: Ground, matrices: List) -> None:
    """A slot has no batches."""
    ground.at[slot] = _NONE
    ground.used[slot] = 0
    matrices[slot] = np.empty((_RACKS, _RACKS))


@njit(cache=True)
def _make_room(side: int, port: int, ground: Ground, cut: Numbers) -> bool:
    """Cut the batch that holds a port, if there is one."""
    slot, partner = ground.ports[side, _SLOT, port], ground.ports[side, _PARTNER, port]
    if slot == _NONE:
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
        ground.ports[side, _SLOT, port], ground.ports[side, _FREED, port] = _NONE, 1


@njit(cache=True)
def _hold(slot: int, src: int, dst: int, carries_s: float, ground: Ground, room: Bits) -> None:
    """Give a batch, which waits, its ports, and a circuit if there is none."""
    put(ground.waits[slot, _OUT, src], dst, False)
    put(ground.waits[slot, _IN, dst], src, False)
    put(room[_OUT], src, False)
    put(room[_IN], dst, False)
    occupy(slot, src, dst, ground)
    ports = ground.ports
    if ports[_OUT, _PEER, src] != dst:
        take_down(_OUT, src, ports)
        take_down(_IN, dst, ports)
        ports[_OUT, _PEER, src], ports[_IN, _PEER, dst] = dst, src
        ground.ready_s[src] = carries_s


@njit(cache=True)
def occupy(slot: int, src: int, dst: int, ground: Ground) -> None:
    """A slot holds two ports."""
    for side in SIDES:
        port, partner = (src, dst) if side == _OUT else (dst, src)
        put(ground.holds[slot, side], port, True)
        ground.ports[side, _SLOT, port], ground.ports[side, _PARTNER, port] = slot, partner
        ground.ports[side, _FREED, port] = 0


@njit(cache=True)
def take_down(side: int, port: int, ports: Small) -> None:
    """A port has no circuit any more."""
    peer = ports[side, _PEER, port]
    if peer != _NONE:
        ports[1 - side, _PEER, peer] = ports[side, _PEER, port] = _NONE


class CompiledMatching(Matching):
    """Who has a circuit; it takes over from ``plain``, for these coflows."""

    def __init__(self, plain: Matching, switch: OpticalSwitch, demands: Iterable[Demand]) -> None:
        super().__init__(switch)
        racks = len(switch.racks)
        words = -(-racks // 64)
        self._ground = Ground(
            at=np.full((_SLOTS, 2, racks), _NONE, dtype=np.int32),
            used=np.zeros((_SLOTS, 2), dtype=np.int32),
            waits=np.zeros((_SLOTS, 2, racks, words), dtype=np.uint64),
            holds=np.zeros((_SLOTS, 2, words), dtype=np.uint64),
            works=np.zeros((2, words), dtype=np.uint64),
            ports=np.full((2, _KINDS, racks), _NONE, dtype=np.int32),
            ready_s=np.zeros(racks),
        )
        #: of Floats, by slot: what batches that wait have left to send
        self._matrices: List = List([np.empty((_RACKS, _RACKS)) for _ in range(_SLOTS)])
        self._fresh = np.zeros(_SLOTS, dtype=np.bool_)
        self._slots: list[Demand | None] = []
        self._free_slots: list[int] = []
        self._order = np.zeros(0, dtype=np.int64)  #: of slots
        # since the last choice, slot, src and dst of batches that
        self._released: list[int] = []  #: have their circuits no more
        self._joining: list[int] = []  #: wait, or do so no more,
        self._joining_bytes: list[float] = []  #: with so much to send; below 0: no more
        #: room for those that are cut and taken
        self._found = np.zeros((2, racks + 1, 3), dtype=np.int64)
        self._take_over(plain, demands)

    def wait(self, batch: Batch, size_bytes: float) -> None:
        """A batch wants a circuit, for so many bytes."""
        demand = batch.demand
        if not batch.waits:
            batch.waits = True
            demand.waiting += 1
        self._join(batch, size_bytes)

    def stop_waiting(self, batch: Batch) -> None:
        """A batch wants none any more."""
        batch.waits = False
        batch.demand.waiting -= 1
        self._join(batch, _NONE)

    def release(self, batch: Batch) -> None:
        """A batch needs its circuit no more, or can't keep it."""
        del batch.demand.serving[batch]
        self._released += (batch.demand.slot, batch.src, batch.dst)

    def set_port(self, rack: int, works: bool, *, is_out: bool) -> None:
        """A port has failed, or works again.  Whoever holds it must have released it."""
        side, ports = _OUT if is_out else _IN, self._ground.ports
        put(self._ground.works[side], rack, works)
        ports[side, _FREED, rack] = 1
        if not works:
            take_down(side, rack, ports)

    def choose(
        self, now_s: float, fresh: dict[Demand, None], order: list[Demand] | None = None
    ) -> tuple[list[Batch], list[Batch]]:
        """Who loses a circuit and who gains one, now; see ``Matching.choose``."""
        if order is not None:
            self._set_order(order)
            fresh = dict.fromkeys(order)
        for demand in fresh:
            self._fresh[demand.slot] = True
        cuts, takes = choose(
            now_s,
            now_s + self._switch.delta_s,
            np.array(self._released, dtype=np.int64).reshape(-1, 3),
            np.array(self._joining, dtype=np.int64).reshape(-1, 3),
            np.array(self._joining_bytes),
            self._order,
            self._fresh,
            self._ground,
            self._matrices,
            *self._found,
        )
        for done in (self._released, self._joining, self._joining_bytes):
            done.clear()
        if fresh:
            self._fresh[:] = False
        if order is not None:
            self._forget_others()
        cut, taken = self._batches(self._found[0][:cuts]), self._batches(self._found[1][:takes])
        for batch in cut:
            del batch.demand.serving[batch]
        for batch in taken:
            batch.waits = False
            demand = batch.demand
            demand.waiting -= 1
            demand.serving[batch] = None
        return cut, taken

    # Inside --------------------------------------------------------------------------------------
    def _take_over(self, plain: Matching, demands: Iterable[Demand]) -> None:
        for rack, (out, into) in enumerate(zip(*plain.works(), strict=True)):
            self.set_port(rack, out, is_out=True)
            self.set_port(rack, into, is_out=False)
        ground = self._ground
        for circuit in chain.from_iterable(self._switch.out):
            ground.ports[_OUT, _PEER, circuit.src] = circuit.dst
            ground.ports[_IN, _PEER, circuit.dst] = circuit.src
            ground.ready_s[circuit.src] = circuit.ready_s
        for demand in demands:
            for batch in demand.batches():
                if batch.waits:
                    self._join(batch, -batch.turn[0])
            for batch in demand.serving:
                occupy(self._slot_of(demand), batch.src, batch.dst, self._ground)
        self._set_order([demand for demand in plain.order if demand.rides])

    def _join(self, batch: Batch, size_bytes: float) -> None:
        self._joining += (self._slot_of(batch.demand), batch.src, batch.dst)
        self._joining_bytes.append(size_bytes)

    def _batches(self, found: Numbers) -> list[Batch]:
        slots, batches = self._slots, []
        for slot, src, dst in found.tolist():
            demand = slots[slot]
            assert demand is not None
            batches.append(demand.rows[src][dst])
        return batches

    def _set_order(self, order: list[Demand]) -> None:
        """Have coflows in this order; they are all that ride."""
        self.order = order
        self._order = np.array([demand.slot for demand in order], dtype=np.int64)

    def _forget_others(self) -> None:
        """Coflows that do not ride need no slots."""
        for slot, demand in enumerate(self._slots):
            if demand is not None and not demand.rides:
                demand.slot, self._slots[slot] = _NONE, None
                forget(slot, self._ground, self._matrices)
                self._free_slots.append(slot)

    def _slot_of(self, demand: Demand) -> int:
        slot = demand.slot
        if slot != _NONE:
            return slot
        if self._free_slots:
            slot = self._free_slots.pop()
            self._slots[slot] = demand
        else:
            slot = len(self._slots)
            self._slots.append(demand)
            if slot == len(self._fresh):
                self._make_slots(slot)
        demand.slot = slot
        return slot

    def _make_slots(self, more: int) -> None:
        ground = self._ground
        for _ in range(more):
            self._matrices.append(np.empty((_RACKS, _RACKS)))
        self._fresh = grown(self._fresh, more)
        self._ground = ground._replace(
            at=np.concatenate([ground.at, np.full((more, *ground.at.shape[1:]), _NONE, np.int32)]),
            used=grown(ground.used, more),
            waits=grown(ground.waits, more),
            holds=grown(ground.holds, more),
        )
