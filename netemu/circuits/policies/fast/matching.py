"""``netemu.circuits`` with many open flows, one circuit a port at a time: the same choices."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import chain

import numpy as np
from numba.typed import List

from railyard.netemu.circuits.policies.fast import choosing
from railyard.netemu.circuits.policies.fast.choosing import CUT, RELEASED, TAKEN, WAITS_NO_MORE
from railyard.netemu.circuits.policies.fast.ports import (
    FREED,
    IN,
    KINDS,
    NONE,
    OUT,
    PEER,
    Ground,
    occupy,
    put,
    take_down,
)
from railyard.netemu.circuits.policies.sunflow import SunflowCircuits
from railyard.netemu.model.arrays import Numbers
from railyard.netemu.model.instants import instant_s
from railyard.netemu.model.openflows import CoflowDemand, RackPairDemand
from railyard.netemu.schedulers.fast.loops.slots import grown

#: So many slots there are at first.
_SLOTS = 16


class CompiledSunflowCircuits(SunflowCircuits):
    """Who has a circuit; it takes over from ``plain``, for these coflows."""

    def __init__(self, plain: SunflowCircuits, demands: Iterable[CoflowDemand]) -> None:
        super().__init__(plain.switch)
        racks = len(self.switch.racks)
        words = -(-racks // 64)
        self._ground = Ground(
            at=np.full((_SLOTS, 2, racks), NONE, dtype=np.int32),
            used=np.zeros((_SLOTS, 2), dtype=np.int32),
            waits=np.zeros((_SLOTS, 2, racks, words), dtype=np.uint64),
            ends=np.zeros((_SLOTS, 2, words), dtype=np.uint64),
            holds=np.zeros((_SLOTS, 2, words), dtype=np.uint64),
            works=np.zeros((2, words), dtype=np.uint64),
            ports=np.full((2, KINDS, racks), NONE, dtype=np.int32),
            ready_s=np.zeros(racks),
            ends_s=np.full(racks, np.inf),
            booked=np.zeros((2, words), dtype=np.uint64),
        )
        #: of Floats, by slot and side: what pairs that wait have left to send
        self._matrices: List = choosing.new_matrices(_SLOTS)
        self._fresh = np.zeros(_SLOTS, dtype=np.bool_)
        self._slots: list[CoflowDemand | None] = []
        self._free_slots: list[int] = []
        self._order = np.zeros(0, dtype=np.int64)  #: of slots
        #: what has happened to pairs since the last choice, see ``choosing``
        self._news: list[float] = []
        self._idle: dict[
            CoflowDemand, None
        ] = {}  #: coflows that may have nothing to do here any more
        #: room for those that are cut and taken
        self._found = np.zeros((2, racks + 1, 3), dtype=np.int64)
        self._take_over(plain, demands)

    def wait(self, pair: RackPairDemand, size_bytes: float) -> None:
        """A pair wants a circuit, for so many bytes."""
        demand = pair.demand
        if not pair.waits:
            pair.waits = True
            demand.waiting += 1
        self._news += (self._slot_of(demand), pair.src, pair.dst, size_bytes)

    def stop_waiting(self, pair: RackPairDemand) -> None:
        """A pair wants none any more."""
        demand = pair.demand
        pair.waits = False
        demand.waiting -= 1
        self._idle[demand] = None
        self._news += (demand.slot, pair.src, pair.dst, WAITS_NO_MORE)

    def release(self, pair: RackPairDemand) -> None:
        """A pair needs its circuit no more, or can't keep it."""
        demand = pair.demand
        del demand.serving[pair]
        self._idle[demand] = None
        self._news += (demand.slot, pair.src, pair.dst, RELEASED)

    def expect_end(self, pair: RackPairDemand, at_s: float) -> None:
        """A pair that has a circuit will have sent all by then."""
        pair.ends_s = self._ground.ends_s[pair.src] = at_s

    def set_port(self, rack: int, works: bool, *, is_out: bool) -> None:
        """A port has failed, or works again.  Whoever holds it must have released it."""
        side, ports = OUT if is_out else IN, self._ground.ports
        put(self._ground.works[side], rack, works)
        ports[side, FREED, rack] = 1
        if not works:
            take_down(side, rack, ports)

    def choose(
        self, now_s: float, fresh: dict[CoflowDemand, None], order: list[CoflowDemand] | None = None
    ) -> tuple[list[RackPairDemand], list[RackPairDemand]]:
        """Who loses a circuit and who gains one, now; see ``SunflowCircuits.choose``."""
        if order is not None:
            self._set_order(order)
            self._fresh[self._order] = True
        for demand in fresh:
            self._fresh[demand.slot] = True
        rounding_s = instant_s(now_s)
        looks_again = self.look_again_s <= now_s + rounding_s
        if order is not None or looks_again:
            self.look_again_s = math.inf
        if order is not None:  # all is looked at
            self._ground.booked[:] = 0
        cuts, takes, look_again_s = choosing.choose(
            now_s,
            self.switch.delta_s,
            rounding_s,
            looks_again,
            np.array(self._news, dtype=np.float64),
            self._order,
            self._fresh,
            self._ground,
            self._matrices,
            self._found,
        )
        self.look_again_s = min(self.look_again_s, look_again_s)
        self._news.clear()
        self._fresh[:] = False
        if order is not None:
            self._forget_others()
        cut = self._batches(self._found[CUT, :cuts]) if cuts else []
        taken = self._batches(self._found[TAKEN, :takes]) if takes else []
        for pair in cut:
            del pair.demand.serving[pair]
        for pair in taken:
            pair.waits = False
            demand = pair.demand
            demand.waiting -= 1
            demand.serving[pair] = None
        return cut, taken

    # Inside --------------------------------------------------------------------------------------
    def _take_over(self, plain: SunflowCircuits, demands: Iterable[CoflowDemand]) -> None:
        for rack in range(len(self.switch.racks)):
            self.set_port(rack, bool(plain.works_out >> rack & 1), is_out=True)
            self.set_port(rack, bool(plain.works_in >> rack & 1), is_out=False)
        ground = self._ground
        for circuit in chain.from_iterable(self.switch.out):
            ground.ports[OUT, PEER, circuit.src] = circuit.dst
            ground.ports[IN, PEER, circuit.dst] = circuit.src
            ground.ready_s[circuit.src] = circuit.ready_s
        for demand in demands:
            for pair in demand.pairs():
                if pair.waits:
                    self.wait(pair, -pair.turn[0])
            for pair in demand.serving:
                occupy(self._slot_of(demand), pair.src, pair.dst, self._ground)
                self.expect_end(pair, pair.ends_s)
        self._set_order([demand for demand in plain.order if demand.by_circuit])

    def _batches(self, found: Numbers) -> list[RackPairDemand]:
        slots, pairs = self._slots, []
        for slot, src, dst in found.tolist():
            demand = slots[slot]
            assert demand is not None
            pairs.append(demand.rows[src][dst])
        return pairs

    def _set_order(self, order: list[CoflowDemand]) -> None:
        """Have coflows in this order; all others want no circuits."""
        self.order = order
        self._order = np.array([demand.slot for demand in order], dtype=np.int64)

    def _forget_others(self) -> None:
        """Free the slots of coflows that want no circuits."""
        for demand in self._idle:
            slot = demand.slot
            if slot != NONE and not demand.by_circuit:
                demand.slot, self._slots[slot] = NONE, None
                choosing.forget(slot, self._ground, self._matrices)
                self._free_slots.append(slot)
        self._idle.clear()

    def _slot_of(self, demand: CoflowDemand) -> int:
        slot = demand.slot
        if slot != NONE:
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
        choosing.add_matrices(self._matrices, more)
        self._fresh = grown(self._fresh, more)
        self._ground = ground._replace(
            at=np.concatenate([ground.at, np.full((more, *ground.at.shape[1:]), NONE, np.int32)]),
            used=grown(ground.used, more),
            waits=grown(ground.waits, more),
            ends=grown(ground.ends, more),
            holds=grown(ground.holds, more),
        )
