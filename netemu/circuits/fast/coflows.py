"""The coflows of a compiled plane: each has an index in its arrays, and a place in the order."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from railyard.netemu.circuits.fast.rows import FREE, NONE, PlaneRows, new_rows
from railyard.netemu.circuits.order import find_places, sorted_by_place
from railyard.netemu.circuits.policies.base import CircuitPolicy
from railyard.netemu.circuits.policies.fast import matrices
from railyard.netemu.circuits.policies.fast.ports import MatchState, Matrices, new_state, with_room
from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.model.openflows import CoflowDemand
from railyard.netemu.schedulers.fast.loops.grouparrays import grown

#: Coflows that there is room for at first.
_COFLOWS = 16


class CompiledCoflows:
    """Arrays by coflow and by pair, and the coflows that have something to send between racks.

    A coflow's ``rows`` and ``size`` have only its pairs that go by packets.
    """

    def __init__(self, racks: int) -> None:
        self.rows: PlaneRows = new_rows(racks, _COFLOWS)
        self.state: MatchState = new_state(racks, _COFLOWS)
        self.matrices: Matrices = matrices.new_matrices(racks, _COFLOWS)
        self.by_key: dict[str, CoflowDemand] = {}
        #: coflows with pairs by circuit, the most urgent first
        self.in_order: list[CoflowDemand] = []
        self.order: Numbers = np.zeros(0, dtype=np.int64)  #: the same, as indices
        self._by_index: list[CoflowDemand | None] = []
        self._free: list[int] = []

    def named(self, key: str, now_s: float) -> CoflowDemand:
        """The coflow of that name; a new one, if it has had nothing to send so far."""
        demand = self.by_key.get(key)
        if demand is None:
            racks = self.rows.serving.size
            demand = self.by_key[key] = CoflowDemand(key, now_s, racks)
        return demand

    def at(self, index: int) -> CoflowDemand:
        """The coflow of an index."""
        demand = self._by_index[index]
        assert demand is not None
        return demand

    def index_of(self, demand: CoflowDemand) -> int:
        """A coflow's index; it gets one, if it has none."""
        if demand.index == NONE:
            if self._free:
                demand.index = self._free.pop()
                self._by_index[demand.index] = demand
            else:
                demand.index = len(self._by_index)
                self._by_index.append(demand)
                if demand.index == len(self.rows.fresh):
                    self._add_room(demand.index)
        return demand.index

    def forget_idle(self, kept: Collection[str]) -> None:
        """Forget the coflows that have nothing to send between racks any more, but those kept."""
        for demand in self._by_index:
            if demand is not None and demand.key not in kept:
                self.forget_if_idle(demand)

    def forget_if_idle(self, demand: CoflowDemand) -> None:
        """Forget a coflow if it has nothing to send between racks any more."""
        index = demand.index
        if demand.size or (index != NONE and self.rows.pair_count[index]):
            return
        del self.by_key[demand.key]
        if index != NONE:
            demand.index, self._by_index[index] = NONE, None
            matrices.forget(index, self.matrices)
            self.rows.port_bytes[index] = 0.0
            self._free.append(index)

    def put_in_order(self, policy: CircuitPolicy, port_bytes_per_s: Floats, now_s: float) -> bool:
        """Put the coflows with pairs by circuit in order; whether it is another one than before."""
        rows = self.rows
        there = [demand for demand in self._by_index if demand and rows.pair_count[demand.index]]
        moved = [demand for demand in there if rows.moved[demand.index]]
        if moved:
            at = np.array([demand.index for demand in moved])
            find_places(moved, policy, rows.port_bytes[at], rows.port_pairs[at], port_bytes_per_s)
            rows.moved[at] = False
        ordered, before = sorted_by_place(there, now_s), self.in_order
        self.set_order(ordered)
        return ordered != before

    def set_order(self, ordered: list[CoflowDemand]) -> None:
        """Note the order of coflows that have pairs by circuit."""
        self.in_order = ordered
        self.order = np.array([demand.index for demand in ordered], dtype=np.int64)

    def make_room(self, flows: int, more_pairs: int) -> None:
        """Have room for so many flows, and so many more pairs."""
        rows = self.rows
        if len(rows.flows) < flows:
            self.rows = rows = rows._replace(flows=grown(rows.flows, flows))  # twice, or more
        free, pairs = int(rows.flags[FREE]), len(rows.pairs)
        if free < more_pairs:
            more = max(more_pairs, pairs)
            numbers = np.arange(pairs, pairs + more)
            rows.flags[FREE] = free + more
            self.rows = rows._replace(
                pairs=grown(rows.pairs, more),
                free=np.concatenate([rows.free[:free], numbers, np.zeros(pairs, dtype=np.int64)]),
            )

    def reserve(self, pairs: Floats) -> None:
        """Have a place in the matrices for these pairs: [number, (index, src, dst, ...)]."""
        self.matrices = matrices.reserve(pairs, self.matrices)

    # Inside --------------------------------------------------------------------------------------
    def _add_room(self, more: int) -> None:
        rows = self.rows
        self.matrices = matrices.with_coflows(self.matrices, more)
        self.state = with_room(self.state, more)
        self.rows = rows._replace(
            port_bytes=grown(rows.port_bytes, more),
            port_pairs=grown(rows.port_pairs, more),
            pair_count=grown(rows.pair_count, more),
            moved=grown(rows.moved, more),
            fresh=grown(rows.fresh, more),
        )
