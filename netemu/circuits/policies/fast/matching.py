"""``policies.sunflow``, compiled, for ports with one circuit at a time: the same choices."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from railyard.netemu.circuits.policies.fast import choosing, matrices
from railyard.netemu.circuits.policies.fast.choosing import CUT, RELEASED, TAKEN, WAITS_NO_MORE
from railyard.netemu.circuits.policies.fast.ports import (
    IN,
    NONE,
    OUT,
    new_state,
    new_work,
    occupy,
    set_port,
    take_over_switch,
    with_room,
)
from railyard.netemu.circuits.policies.sunflow import SunflowCircuits
from railyard.netemu.model.arrays import floats
from railyard.netemu.model.instants import instant_s
from railyard.netemu.model.openflows import CoflowDemand, RackPairDemand
from railyard.netemu.schedulers.fast.loops.grouparrays import grown

#: Coflows that there is room for at first.
_COFLOWS = 16


class CompiledSunflowCircuits(SunflowCircuits):
    """Decides which pairs have circuits; takes over from ``plain``, with these coflows."""

    def __init__(self, plain: SunflowCircuits, demands: Iterable[CoflowDemand]) -> None:
        super().__init__(plain.switch)
        racks = len(self.switch.racks)
        self._state = new_state(racks, _COFLOWS)
        self._matrices = matrices.new_matrices(racks, _COFLOWS)
        self._fresh = np.zeros(_COFLOWS, dtype=np.bool_)
        self._demands: list[CoflowDemand | None] = []  #: by index
        self._free: list[int] = []  #: indices
        self._order = np.zeros(0, dtype=np.int64)  #: of coflows, as indices
        #: what has happened to pairs since the last choice, see ``choosing.choose_after``
        self._news: list[float] = []
        #: coflows that may want no circuits any more
        self._idle: dict[CoflowDemand, None] = {}
        self._work = new_work(racks)
        self._take_over(plain, demands)

    def wait(self, pair: RackPairDemand, size_bytes: float) -> None:
        """Note that a pair wants a circuit, for so many bytes."""
        demand = pair.demand
        if not pair.waits:
            pair.waits = True
            demand.waiting += 1
        self._news += (self._index_of(demand), pair.src, pair.dst, size_bytes)

    def stop_waiting(self, pair: RackPairDemand) -> None:
        """Note that a pair wants no circuit any more."""
        demand = pair.demand
        pair.waits = False
        demand.waiting -= 1
        self._idle[demand] = None
        self._news += (demand.index, pair.src, pair.dst, WAITS_NO_MORE)

    def release(self, pair: RackPairDemand) -> None:
        """Take a pair's circuit: it needs it no more, or can't keep it."""
        demand = pair.demand
        del demand.serving[pair]
        self._idle[demand] = None
        self._news += (demand.index, pair.src, pair.dst, RELEASED)

    def expect_end(self, pair: RackPairDemand, at_s: float) -> None:
        """Note when a pair that has a circuit will have sent all, in seconds."""
        pair.ends_s = self._state.ends_s[pair.src] = at_s

    def set_port(self, rack: int, works: bool, *, is_out: bool) -> None:
        """Note that a port has failed, or works again; a pair that held it has released it."""
        set_port(OUT if is_out else IN, rack, works, self._state)

    def choose(
        self, now_s: float, fresh: dict[CoflowDemand, None], order: list[CoflowDemand] | None = None
    ) -> tuple[list[RackPairDemand], list[RackPairDemand]]:
        """See ``SunflowCircuits.choose``."""
        if order is not None:
            self._set_order(order)
            self._fresh[self._order] = True
        for demand in fresh:
            self._fresh[demand.index] = True
        rounding_s = instant_s(now_s)
        looks_again = self.look_again_s <= now_s + rounding_s
        if order is not None or looks_again:
            self.look_again_s = math.inf
        if order is not None:  # everything is looked at
            self._state.booked[:] = 0
        news = floats(self._news).reshape(-1, choosing.NEWS_COLUMNS)
        self._matrices = matrices.reserve(news, self._matrices)
        cuts, takes, look_again_s = choosing.choose_after(
            news,
            now_s,
            self.switch.delta_s,
            rounding_s,
            looks_again,
            self._order,
            self._fresh,
            self._state,
            self._matrices,
            self._work,
        )
        self.look_again_s = min(self.look_again_s, look_again_s)
        self._news.clear()
        if fresh or order is not None:
            self._fresh[:] = False
        if order is not None:
            self._forget_others()
        cut = self._pairs(CUT, cuts) if cuts else []
        taken = self._pairs(TAKEN, takes) if takes else []
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
        take_over_switch(self.switch, (plain.works_out, plain.works_in), self._state)
        for demand in demands:
            for pair in demand.pairs():
                if pair.waits:
                    self.wait(pair, -pair.sort_key[0])
            for pair in demand.serving:
                occupy(self._index_of(demand), pair.src, pair.dst, self._state)
                self.expect_end(pair, pair.ends_s)
        self._set_order([demand for demand in plain.order if demand.by_circuit])
        self.look_again_s = plain.look_again_s  # booked or not, all ports count as freed

    def _pairs(self, row: int, many: int) -> list[RackPairDemand]:
        """So many pairs that the last choice wrote into this row of ``found``."""
        demands, pairs = self._demands, []
        for index, src, dst in self._work.found[row, :many].tolist():
            demand = demands[index]
            assert demand is not None
            pairs.append(demand.rows[src][dst])
        return pairs

    def _set_order(self, order: list[CoflowDemand]) -> None:
        """Note the order of coflows; all others want no circuits."""
        self.order = order
        self._order = np.array([demand.index for demand in order], dtype=np.int64)

    def _forget_others(self) -> None:
        """Free the indices of coflows that want no circuits."""
        for demand in self._idle:
            index = demand.index
            if index != NONE and not demand.by_circuit:
                demand.index, self._demands[index] = NONE, None
                matrices.forget(index, self._matrices)
                self._free.append(index)
        self._idle.clear()

    def _index_of(self, demand: CoflowDemand) -> int:
        index = demand.index
        if index != NONE:
            return index
        if self._free:
            index = self._free.pop()
            self._demands[index] = demand
        else:
            index = len(self._demands)
            self._demands.append(demand)
            if index == len(self._fresh):
                self._add_room(index)
        demand.index = index
        return index

    def _add_room(self, more: int) -> None:
        self._matrices = matrices.with_coflows(self._matrices, more)
        self._fresh = grown(self._fresh, more)
        self._state = with_room(self._state, more)
