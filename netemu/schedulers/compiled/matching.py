"""``netemu.circuits`` for crowds, where a port has one circuit at a time: the same choices.

Each coflow that rides has a slot, and each of its batches that waits or has a circuit a place.  The
places of the batches that wait are linked: a list for each port of each slot.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from netemu.batches import Batch, Demand
from netemu.circuits import Matching
from netemu.optical import OpticalSwitch
from netemu.schedulers.base import Floats, Numbers
from netemu.schedulers.compiled.slots import grown
from netemu.schedulers.filling import Bools

_OUT, _IN = SIDES = 0, 1
#: Columns of a place: its slot, the ports of its batch and its neighbours in their lists (those
#: have one for each side), and the distance between the ports.
_SLOT, _ENDS, _NEXT, _LAST, _FAR = 0, 1, 3, 5, 7
_COLUMNS = 8
#: What is known of a port: the place that holds it and the other end of its circuit, if there are
#: such, and whether it has fallen free since the last choice.
_HOLDER, _PEER, _FREED = range(3)
_KINDS = 3
_NONE = -1
Small = NDArray[np.int32]
Bits = NDArray[np.uint64]  #: sets of racks; 64 are a word
#: So many slots and places there are at first.
_SLOTS, _PLACES = 16, 4096


class Ground(NamedTuple):
    """What there is to match."""

    places: Small  #: [place, column]
    left_bytes: Floats  #: of what waits at a place
    heads: Small  #: the first places in the lists: [slot, side, rack]
    waits: Bits  #: to or from where a slot's places wait at a port: [slot, side, rack, word]
    holds: Bits  #: the ports that a slot's places hold: [slot, side, word]
    ports: Small  #: [side, kind, rack]
    works: Bits  #: ports that have not failed: [side, word]
    ready_s: Floats  #: when the circuit from each rack carries


@njit(cache=True)
def join(joining: Numbers, ground: Ground) -> None:
    """Put places into the lists of their ports, in the order in which they want circuits."""
    places, heads = ground.places, ground.heads
    for place in joining[np.argsort(ground.left_bytes[joining])]:  # most go to the front
        slot = places[place, _SLOT]
        _flip_waits(place, ground)
        for side in SIDES:
            port = places[place, _ENDS + side]
            before, after = _NONE, heads[slot, side, port]
            while after != _NONE and _precedes(after, place, ground):
                before, after = after, places[after, _NEXT + side]
            places[place, _NEXT + side], places[place, _LAST + side] = after, before
            if before == _NONE:
                heads[slot, side, port] = place
            else:
                places[before, _NEXT + side] = place
            if after != _NONE:
                places[after, _LAST + side] = place


@njit(cache=True)
def leave(place: int, ground: Ground) -> None:
    """Take a place out of the lists of its ports."""
    places = ground.places
    _flip_waits(place, ground)
    for side in SIDES:
        after, before = places[place, _NEXT + side], places[place, _LAST + side]
        if before != _NONE:
            places[before, _NEXT + side] = after
        else:
            ground.heads[places[place, _SLOT], side, places[place, _ENDS + side]] = after
        if after != _NONE:
            places[after, _LAST + side] = before


@njit(cache=True)
def choose(
    now_s: float,
    carries_s: float,
    released: Numbers,
    joining: Numbers,
    order: Numbers,
    fresh: Bools,
    ground: Ground,
    cut: Numbers,
    taken: Numbers,
) -> tuple[int, int]:
    """Let slots take ports in ``order``; how many places are ``cut`` and ``taken``.

    Before that, places are ``released`` and others ``join`` the lists.  A circuit that is set up
    now will carry at ``carries_s``.  Of slots that are ``fresh`` all that
    waits is looked at, of others what is at ports that have fallen free.
    """
    racks = ground.ready_s.size
    choices = np.empty((2 * racks, 2), dtype=np.int64)  # place, side
    freed = np.empty((2 * racks, 2), dtype=np.int64)  # side, port; some are taken again
    for place in released:
        _release(place, ground)
    join(joining, ground)
    room = ground.works.copy()  # ports that are free but for slots to come
    those = _freed(ground.ports, freed)
    cuts = takes = 0
    news = fresh[order].sum()
    for slot in order:
        if not (news or _are_free(freed[:those], ground.ports)):
            break
        news -= fresh[slot]
        _less_held(room, ground.holds[slot])
        found = _choices(slot, fresh[slot], freed[:those], now_s, ground, room, choices)
        while found:
            first = 0
            for other in range(1, found):
                if _comes_before(choices[other, 0], choices[first, 0], now_s, ground):
                    first = other
            place, side = choices[first, 0], choices[first, 1]
            if _fits(place, ground, room):
                cuts, those = _make_room(place, ground, cut, cuts, freed, those)
                _hold(place, carries_s, ground, room)
                taken[takes] = place
                takes += 1
            port = ground.places[place, _ENDS + side]
            choices[first, 0] = _first(slot, side, port, now_s, ground, room)
            if choices[first, 0] == _NONE:
                found -= 1
                choices[first] = choices[found]
    ground.ports[:, _FREED] = 0
    return cuts, takes


@njit(cache=True)
def has(bits: Bits, rack: int) -> bool:
    """Whether a rack is in a set."""
    return bits[rack >> 6] >> np.uint64(rack & 63) & np.uint64(1) != 0


@njit(cache=True)
def flip(bits: Bits, rack: int) -> None:
    """Put a rack into a set, or take it out."""
    bits[rack >> 6] ^= np.uint64(1) << np.uint64(rack & 63)


@njit(cache=True)
def _less_held(room: Bits, held: Bits) -> None:
    """Leave out ports that a slot holds."""
    for side in SIDES:
        for word in range(room.shape[1]):
            room[side, word] &= ~held[side, word]


@njit(cache=True)
def _fits(place: int, ground: Ground, room: Bits) -> bool:
    """Whether there is room at both ports of a place."""
    src, dst = ground.places[place, _ENDS + _OUT], ground.places[place, _ENDS + _IN]
    return has(room[_OUT], src) and has(room[_IN], dst)


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
def _choices(
    slot: int,
    is_fresh: bool,
    freed: Numbers,
    now_s: float,
    ground: Ground,
    room: Bits,
    choices: Numbers,
) -> int:
    """Write down a slot's most urgent place at each port that it must look at; how many."""
    found = 0
    for number in range(ground.ready_s.size if is_fresh else len(freed)):
        side, port = (_OUT, number) if is_fresh else (freed[number, 0], freed[number, 1])
        place = _first(slot, side, port, now_s, ground, room)
        if place != _NONE:
            choices[found, 0], choices[found, 1] = place, side
            found += 1
    return found


@njit(cache=True)
def _first(slot: int, side: int, port: int, now_s: float, ground: Ground, room: Bits) -> int:
    """The most urgent of what a slot can take at a port, if there is any."""
    waits, others = ground.waits[slot, side, port], room[1 - side]
    if not has(room[side], port) or not _meet(waits, others):
        return _NONE
    peer = ground.ports[side, _PEER, port]  # a circuit there may be lit
    is_lit = peer != _NONE and has(waits, peer) and has(others, peer)
    is_lit &= ground.ready_s[port if side == _OUT else peer] <= now_s
    place = ground.heads[slot, side, port]
    while True:
        end = ground.places[place, _ENDS + 1 - side]
        if end == peer if is_lit else has(others, end):
            return place
        place = ground.places[place, _NEXT + side]


@njit(cache=True)
def _meet(some: Bits, others: Bits) -> bool:
    """Whether any rack is in both sets."""
    for word in range(len(some)):
        if some[word] & others[word]:
            return True
    return False


@njit(cache=True)
def _comes_before(one: int, other: int, now_s: float, ground: Ground) -> bool:
    """Whether one place gets a circuit before another of its slot."""
    lit = _is_lit(one, now_s, ground)
    if lit != _is_lit(other, now_s, ground):
        return lit
    return _precedes(one, other, ground)


@njit(cache=True)
def _precedes(one: int, other: int, ground: Ground) -> bool:
    """Whether one place's turn is before another's: by size, then by distance, then by rack."""
    more_bytes = ground.left_bytes[one] - ground.left_bytes[other]
    if more_bytes:
        return more_bytes > 0
    farther = ground.places[one, _FAR] - ground.places[other, _FAR]
    if farther:
        return farther < 0
    return ground.places[one, _ENDS + _OUT] < ground.places[other, _ENDS + _OUT]


@njit(cache=True)
def _flip_waits(place: int, ground: Ground) -> None:
    """A place waits from now on, or does so no more."""
    waits = ground.waits[ground.places[place, _SLOT]]
    src, dst = ground.places[place, _ENDS + _OUT], ground.places[place, _ENDS + _IN]
    flip(waits[_OUT, src], dst)
    flip(waits[_IN, dst], src)


@njit(cache=True)
def flip_holds(place: int, ground: Ground) -> None:
    """A place has its ports from now on, or has them no more."""
    holds = ground.holds[ground.places[place, _SLOT]]
    flip(holds[_OUT], ground.places[place, _ENDS + _OUT])
    flip(holds[_IN], ground.places[place, _ENDS + _IN])


@njit(cache=True)
def _is_lit(place: int, now_s: float, ground: Ground) -> bool:
    """Whether a place has a circuit that would carry at once, if its ports are open."""
    src, dst = ground.places[place, _ENDS + _OUT], ground.places[place, _ENDS + _IN]
    return ground.ports[_OUT, _PEER, src] == dst and ground.ready_s[src] <= now_s


@njit(cache=True)
def _make_room(
    place: int, ground: Ground, cut: Numbers, cuts: int, freed: Numbers, those: int
) -> tuple[int, int]:
    """Cut those who hold a place's ports; how many are cut and how many ports freed by now."""
    for side in SIDES:
        holder = ground.ports[side, _HOLDER, ground.places[place, _ENDS + side]]
        if holder == _NONE:
            continue
        cut[cuts] = holder
        cuts += 1
        _release(holder, ground)
        for end in SIDES:
            freed[those, 0], freed[those, 1] = end, ground.places[holder, _ENDS + end]
            those += 1
    return cuts, those


@njit(cache=True)
def _release(place: int, ground: Ground) -> None:
    """A place has its ports no more."""
    flip_holds(place, ground)
    for side in SIDES:
        port = ground.places[place, _ENDS + side]
        ground.ports[side, _HOLDER, port], ground.ports[side, _FREED, port] = _NONE, 1


@njit(cache=True)
def _hold(place: int, carries_s: float, ground: Ground, room: Bits) -> None:
    """Give a place, which waits, its ports, and a circuit if there is none."""
    leave(place, ground)
    flip_holds(place, ground)
    src, dst = ground.places[place, _ENDS + _OUT], ground.places[place, _ENDS + _IN]
    flip(room[_OUT], src)
    flip(room[_IN], dst)
    ports = ground.ports
    ports[_OUT, _HOLDER, src] = ports[_IN, _HOLDER, dst] = place
    ports[_OUT, _FREED, src] = ports[_IN, _FREED, dst] = 0
    if ports[_OUT, _PEER, src] == dst:
        return
    take_down(_OUT, src, ports)
    take_down(_IN, dst, ports)
    ports[_OUT, _PEER, src], ports[_IN, _PEER, dst] = dst, src
    ground.ready_s[src] = carries_s


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
        ports = np.zeros((2, _KINDS, racks), dtype=np.int32)
        ports[:, _HOLDER] = ports[:, _PEER] = _NONE
        self._ground = Ground(
            places=np.zeros((_PLACES, _COLUMNS), dtype=np.int32),
            left_bytes=np.zeros(_PLACES),
            heads=np.full((_SLOTS, 2, racks), _NONE, dtype=np.int32),
            waits=np.zeros((_SLOTS, 2, racks, words), dtype=np.uint64),
            holds=np.zeros((_SLOTS, 2, words), dtype=np.uint64),
            ports=ports,
            works=np.zeros((2, words), dtype=np.uint64),
            ready_s=np.zeros(racks),
        )
        self._fresh = np.zeros(_SLOTS, dtype=np.bool_)
        self._slots: list[Demand | None] = []
        self._free_slots: list[int] = []
        self._batches: list[Batch | None] = []  #: by place
        self._free_places: list[int] = []
        self._joining: list[int] = []  #: places that are not in the lists yet
        self._released: list[int] = []  #: places that have their ports no more
        self._slot_order = np.zeros(0, dtype=np.int64)
        self._found = np.zeros(racks, dtype=np.int64), np.zeros(racks, dtype=np.int64)
        self._take_over(plain, demands)

    # As Matching has them ------------------------------------------------------------------------
    def wait(self, batch: Batch, size_bytes: float) -> None:
        if batch.place == _NONE:
            batch.place = self._new_place(batch)
        if batch.waits:
            self._join()
            leave(batch.place, self._ground)
        else:
            batch.waits = True
            batch.demand.waiting += 1
        self._ground.left_bytes[batch.place] = size_bytes
        self._joining.append(batch.place)

    def stop_waiting(self, batch: Batch) -> None:
        self._join()
        leave(batch.place, self._ground)
        batch.waits = False
        batch.demand.waiting -= 1
        self._free_places.append(batch.place)
        batch.place = _NONE

    def release(self, batch: Batch) -> None:
        del batch.demand.serving[batch]
        self._released.append(batch.place)
        batch.place = _NONE

    def set_port(self, rack: int, works: bool, *, is_out: bool) -> None:
        side, ports, words = _OUT if is_out else _IN, self._ground.ports, self._ground.works
        if works != has(words[side], rack):
            flip(words[side], rack)
        ports[side, _FREED, rack] = 1
        if not works:
            take_down(side, rack, ports)

    def choose(
        self, now_s: float, fresh: dict[Demand, None], order: list[Demand] | None = None
    ) -> tuple[list[Batch], list[Batch]]:
        if order is not None:
            self._set_order(order)
            fresh = dict.fromkeys(order)
        for demand in fresh:
            self._fresh[demand.slot] = True
        counts = choose(
            now_s,
            now_s + self._switch.delta_s,
            np.array(self._released, dtype=np.int64),
            np.array(self._joining, dtype=np.int64),
            self._slot_order,
            self._fresh,
            self._ground,
            *self._found,
        )
        self._free_places += self._released
        self._released.clear()
        self._joining.clear()
        if order is not None:
            self._forget_others()
        if fresh:
            self._fresh[:] = False
        batches = self._batches
        cut, taken = (
            [batches[place] for place in found[:count].tolist()]
            for found, count in zip(self._found, counts, strict=True)
        )
        for batch in cut:
            del batch.demand.serving[batch]
        for batch in taken:
            demand = batch.demand
            batch.waits = False
            demand.waiting -= 1
            demand.serving[batch] = None
        return cut, taken

    # Inside --------------------------------------------------------------------------------------
    def _take_over(self, plain: Matching, demands: Iterable[Demand]) -> None:
        ports = self._ground.ports
        for rack, (out, into) in enumerate(zip(*plain.works(), strict=True)):
            self.set_port(rack, out, is_out=True)
            self.set_port(rack, into, is_out=False)
        for circuit in chain.from_iterable(self._switch.out):
            ports[_OUT, _PEER, circuit.src] = circuit.dst
            ports[_IN, _PEER, circuit.dst] = circuit.src
            self._ground.ready_s[circuit.src] = circuit.ready_s
        for demand in demands:
            for batch in demand.batches():
                if batch.waits or batch.circuit is not None:
                    batch.place = self._new_place(batch)
                if batch.waits:
                    self._ground.left_bytes[batch.place] = -batch.turn[0]
                    self._joining.append(batch.place)
            for batch in demand.serving:
                ports[_OUT, _HOLDER, batch.src] = ports[_IN, _HOLDER, batch.dst] = batch.place
                flip_holds(batch.place, self._ground)
        self._set_order([demand for demand in plain.order if demand.rides])

    def _set_order(self, order: list[Demand]) -> None:
        """Have coflows in this order; they are all that ride."""
        self.order = order
        self._slot_order = np.array([demand.slot for demand in order], dtype=np.int64)

    def _forget_others(self) -> None:
        """Coflows that do not ride need no slots."""
        for slot, demand in enumerate(self._slots):
            if demand is not None and not demand.rides:
                demand.slot, self._slots[slot] = _NONE, None
                self._free_slots.append(slot)

    def _new_place(self, batch: Batch) -> int:
        """Give a batch a place, and its coflow a slot."""
        demand = batch.demand
        if demand.slot == _NONE:
            demand.slot = self._new_slot(demand)
        if self._free_places:
            place = self._free_places.pop()
            self._batches[place] = batch
        else:
            place = len(self._batches)
            self._batches.append(batch)
            if place == len(self._ground.places):
                self._ground = self._ground._replace(
                    places=grown(self._ground.places, place),
                    left_bytes=grown(self._ground.left_bytes, place),
                )
        columns = self._ground.places
        columns[place, _SLOT] = demand.slot
        columns[place, _ENDS + _OUT], columns[place, _ENDS + _IN] = batch.src, batch.dst
        columns[place, _FAR] = (batch.dst - batch.src) % len(self._switch.racks)
        return place

    def _new_slot(self, demand: Demand) -> int:
        if self._free_slots:
            slot = self._free_slots.pop()
            self._slots[slot] = demand
            return slot
        self._slots.append(demand)
        slots = len(self._fresh)
        if len(self._slots) > slots:
            heads = grown(self._ground.heads, slots)
            heads[slots:] = _NONE
            self._ground = self._ground._replace(
                heads=heads,
                waits=grown(self._ground.waits, slots),
                holds=grown(self._ground.holds, slots),
            )
            self._fresh = grown(self._fresh, slots)
        return len(self._slots) - 1

    def _join(self) -> None:
        if self._joining:
            join(np.array(self._joining), self._ground)
            self._joining.clear()
