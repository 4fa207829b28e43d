"""The group of all flows, as a table: most of them have no object, and come and go by the hundred.

It does what ``FlowGroup`` does, to the last bit, for flow schedulers that look neither at flows nor
at coflows.  A flow has a slot: what it is and needs is in arrays; some have a ``Flow`` besides.
The flows of a row, those between two nodes, have their slots in the row's places.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from railyard.cluster.errors import InvariantError
from railyard.cluster.ids import NodeId
from railyard.netemu.fabric.pairlinks import PairLinks
from railyard.netemu.fabric.servedrows import SharedRows
from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.model.context import GroupContext
from railyard.netemu.model.openflows import ALONE, Flow
from railyard.netemu.model.rows import FINISH_S, NEEDS, SERVED, SINCE_S, TOTAL, WEIGHT

#: The numbers of a slot: the flow's name (-1: it has an object), its place among all flows, nodes
#: by their places in the topology, and bytes.
NAME, SEQUENCE, SRC, DST, SIZE = range(5)
#: And those with fractions: the service of its row when it joined, when it will have ended, its
#: weight, and what it had sent before it joined.
_JOINED, _NEEDS, _WEIGHT, _BEFORE = range(4)


class EndedRows(NamedTuple):
    """Flows without an object that have sent all their bytes: [flow] each."""

    sequence: Numbers
    name: Numbers
    src: Numbers
    dst: Numbers
    size_bytes: Numbers


class FlowTable(SharedRows):
    """All flows of a network."""

    def __init__(
        self, context: GroupContext, links: PairLinks, numbers: Mapping[NodeId, int]
    ) -> None:
        super().__init__("", context)
        self.ended: list[EndedRows] = []  #: since the fabric last took them
        self.links = links
        self._number = numbers  #: of nodes, by name
        self._row_of: dict[int, int] = {}  #: {pair of nodes: its row}
        self._pair = np.zeros(0, np.int64)  #: by row
        self._places = np.full((0, 4), -1, np.int64)  #: [row, place]: slots; -1: none
        self._needs = np.full((0, 4), np.inf)  #: [row, place]: the service that the flow needs
        self._ints = np.zeros((5, 0), np.int64)  #: [number, slot]
        self._floats = np.zeros((4, 0))
        self._row = np.zeros(0, np.int64)  #: by slot; -1: it is free
        self._free = np.zeros(0, np.int64)  #: slots, of which the first ``_free_slots`` are free
        self._free_slots = 0
        self._objects: dict[int, Flow] = {}  #: {slot: its flow, if that has an object}
        self._slot_of: dict[Flow, int] = {}
        self._coming: list[Flow | Numbers] = []  #: flows that have no slots yet
        self._rows_coming = 0

    # What schedulers see -------------------------------------------------------------------------
    def class_key(self, row: int) -> Any:  # noqa: ARG002
        """``FlowScheduler.class_key`` of a row's flows."""
        return ()

    # What the fabric does ------------------------------------------------------------------------
    @property
    def is_empty(self) -> bool:
        """Whether it has nothing to send."""
        return not (self._serving or self._coming)

    @property
    def without_objects(self) -> int:
        """How many flows have no object."""
        return self._flows - len(self._objects) + self._rows_coming

    def add(self, flow: Flow) -> None:
        """Add a flow that has bytes to send; it gets its slot when ``admit`` is called."""
        self._coming.append(flow)
        self._changed()

    def add_all(self, flows: Iterable[Flow]) -> None:
        """Add flows that have bytes to send; see ``add``."""
        self._coming += flows
        self._changed()

    def add_rows(self, flows: Numbers) -> None:
        """Add flows without objects: [number, flow], the numbers being those of a slot."""
        self._coming.append(flows)
        self._rows_coming += flows.shape[1]
        self._changed()

    def admit(self) -> None:
        """Give slots to the flows that have been added."""
        if not self._coming:
            return
        coming, self._coming, self._rows_coming = self._coming, [], 0
        ints = np.concatenate(
            [self._ints_of(each) if isinstance(each, Flow) else each for each in coming], axis=1
        )
        slots = self._take_slots(ints.shape[1])
        self._ints[:, slots] = ints
        floats = np.zeros((4, len(slots)))
        floats[_WEIGHT] = 1.0
        self._flows += len(slots)
        at = 0
        for each in coming:
            if not isinstance(each, Flow):
                at += each.shape[1]
                continue
            self._note_object(each, int(slots[at]))
            floats[_WEIGHT, at], floats[_BEFORE, at] = each.weight, each.sent_bytes
            at += 1
        self._floats[:, slots] = floats
        rows, fresh = self._rows_for(ints[SRC], ints[DST])
        first_row = self.rows.count
        self._row[slots] = rows
        if len(fresh) < len(rows):
            joining = (rows < first_row).nonzero()[0]
            if len(joining):
                self._join(rows[joining], slots[joining])
        if len(fresh):
            new = (rows >= first_row).nonzero()[0]
            self._add_rows(rows[new], slots[new], ints[SRC, fresh], ints[DST, fresh])
        for flow in coming:
            if isinstance(flow, Flow):
                slot = self._slot_of[flow]
                flow.row, flow.joined_at = int(self._row[slot]), float(self._floats[_JOINED, slot])

    def remove(self, flow: Flow) -> None:
        """Remove a flow."""
        self.admit()
        self._changed()
        slot, row = self._slot_of[flow], flow.row
        flow.sent_bytes = flow.sent_at(self._settle(row))
        place = int((self._places[row] == slot).nonzero()[0][0])
        self._places[row, place], needs = -1, float(self._needs[row, place])
        self._needs[row, place] = np.inf
        self._forget_object(slot)
        self._give_back(np.array([slot]))
        self._flows -= 1
        if (self._places[row] >= 0).any():
            less = np.array([-flow.weight])
            self._change_rows(np.array([row]), less, less * needs)
            return
        del self._row_of[int(self._pair[row])]
        self._drop([row])

    def take_due(self, by_s: float) -> list[Flow]:
        """Remove the flows that have sent all their bytes by ``by_s``; returns those with objects.

        The others are in ``ended``.
        """
        self.stale = True
        rows = np.array(self._due(by_s), np.int64)
        if not len(rows):
            return []
        due, slots = self._end_first(rows, by_s)
        before, taken = slots.copy(), slots[due]
        self._flows -= len(taken)
        flows = self._end(taken)
        slots[due] = -1
        self._places[rows] = slots
        left: NDArray[np.bool_] = np.logical_or.reduce(slots >= 0, axis=1)
        fewer: tuple[Numbers, Floats, Floats] | None = None
        if left.any():
            fewer = self._less(rows, before, due & left[:, np.newaxis], left)
        needs = self._needs[rows]
        needs[due] = np.inf
        self._needs[rows] = needs
        ended = rows[~left]
        row_of = self._row_of
        for pair in self._pair[ended].tolist():
            del row_of[pair]
        self._give_back(taken)
        if self.rate_bytes_per_s == np.inf:
            self._end_endless()
        if fewer is not None:
            self.only_ended = False
            self._change_rows(*fewer)
        if len(ended):
            self._drop(ended.tolist())
        return flows

    def sent_bytes_of(self, flow: Flow) -> float:
        """Bytes that one of its flows has sent by now."""
        sent = flow.sent_bytes
        return sent if flow.flow_class is None else flow.sent_at(self._served_of(flow.row))

    def rate_of(self, flow: Flow) -> float:
        """Bytes/s of one of its flows."""
        return 0.0 if flow.flow_class is None else float(self.rates[flow.row]) * flow.weight

    def end_rows(self, rows: Sequence[int]) -> list[Flow]:
        """Not for flow schedulers that go ahead."""
        raise InvariantError(f"{len(rows)} rows of a table have ended by themselves")

    def limits_changed(self) -> None:
        """Look up the limited links of each row again."""
        self.admit()
        self._links_changed()
        pairs = self._pair[: self.rows.count]
        if len(pairs):
            self.rows.set_links(0, self.links.limited(*self._nodes(pairs)))

    def name(self, names: Sequence[int], flows: Sequence[Flow]) -> list[int]:
        """Give objects to flows of these names; returns the places of those that are not here."""
        self.admit()
        at = {name: slot for slot, name in self._named()}
        missing: list[int] = []
        for place, (name, flow) in enumerate(zip(names, flows, strict=True)):
            slot = at.get(name)
            if slot is None:
                missing.append(place)
                continue
            self._ints[NAME, slot] = -1
            flow.sequence = int(self._ints[SEQUENCE, slot])
            self._note_object(flow, slot)
            flow.row, flow.joined_at = int(self._row[slot]), float(self._floats[_JOINED, slot])
        return missing

    def sent_without_objects(self) -> Iterator[tuple[int, int, int, float]]:
        """Of each flow without an object: its sequence, nodes, and bytes sent."""
        self.admit()
        slots = np.array([slot for slot, _ in self._named()], np.int64)
        served, ints = self._served(self._row[slots]), self._ints[:, slots]
        sent = np.minimum(served - self._floats[_JOINED, slots], ints[SIZE].astype(float))
        columns = (ints[SEQUENCE].tolist(), ints[SRC].tolist(), ints[DST].tolist(), sent.tolist())
        return zip(*columns, strict=True)

    # Inside: slots -------------------------------------------------------------------------------
    def _named(self) -> Iterator[tuple[int, int]]:
        """(slot, name) of each flow without an object."""
        slots = ((self._row >= 0) & (self._ints[NAME] >= 0)).nonzero()[0]
        return zip(slots.tolist(), self._ints[NAME, slots].tolist(), strict=True)

    def _ints_of(self, flow: Flow) -> Numbers:
        src, dst = self._number[flow.spec.src], self._number[flow.spec.dst]
        return np.array([[-1], [flow.sequence], [src], [dst], [flow.size_bytes]])

    def _take_slots(self, many: int) -> Numbers:
        if many > self._free_slots:
            count = self._ints.shape[1]
            more = max(many, count)
            self._ints = np.concatenate([self._ints, np.zeros((5, more), np.int64)], axis=1)
            self._floats = np.concatenate([self._floats, np.zeros((4, more))], axis=1)
            self._row = np.concatenate([self._row, np.full(more, -1)])
            self._free = np.concatenate([self._free, np.zeros(more, np.int64)])
            self._give_back(np.arange(count, count + more))
        self._free_slots -= many
        return self._free[self._free_slots : self._free_slots + many].copy()

    def _give_back(self, slots: Numbers) -> None:
        self._row[slots] = -1
        self._free[self._free_slots : self._free_slots + len(slots)] = slots
        self._free_slots += len(slots)

    def _note_object(self, flow: Flow, slot: int) -> None:
        self._objects[slot], self._slot_of[flow] = flow, slot
        flow.flow_class, flow.sent_before = ALONE, flow.sent_bytes

    def _forget_object(self, slot: int) -> Flow:
        flow = self._objects.pop(slot)
        del self._slot_of[flow]
        flow.flow_class = None
        return flow

    def _end(self, slots: Numbers) -> list[Flow]:
        """Note flows that have ended; returns those with objects."""
        ints = self._ints[:, slots]
        flows: list[Flow] = []
        if self._objects:
            has_object = ints[NAME] < 0
            flows = [self._forget_object(slot) for slot in slots[has_object].tolist()]
            for flow in flows:
                flow.sent_bytes = float(flow.size_bytes)
            ints = ints[:, ~has_object]
        if ints.shape[1]:
            rows = EndedRows(ints[SEQUENCE], ints[NAME], ints[SRC], ints[DST], ints[SIZE])
            self.ended.append(rows)
        return flows

    # Inside: rows --------------------------------------------------------------------------------
    def _nodes(self, pairs: Numbers) -> tuple[Numbers, Numbers]:
        return pairs // len(self._number), pairs % len(self._number)

    def _rows_for(self, src: Numbers, dst: Numbers) -> tuple[Numbers, list[int]]:
        """The rows of flows between nodes, and which of the flows are the first of new rows."""
        row_of, row, fresh = self._row_of, self.rows.count, list[int]()
        rows: list[int] = []
        for number, pair in enumerate((src * len(self._number) + dst).tolist()):
            found = row_of.get(pair)
            if found is None:
                found = row_of[pair] = row
                row += 1
                fresh.append(number)
            rows.append(found)
        return np.array(rows, np.int64), fresh

    def _join(self, rows: Numbers, slots: Numbers) -> None:
        """Add flows to rows that there are."""
        table = self.rows.column
        table(SERVED)[rows] = served = self._served(rows)
        table(SINCE_S)[rows] = self._context.now_s
        weights = self._floats[_WEIGHT, slots]
        needs = served + (self._ints[SIZE, slots] - self._floats[_BEFORE, slots]) / weights
        self._floats[_JOINED, slots] = served
        self._put(rows, slots, needs)
        self._change_rows(rows, weights, weights * needs)

    def _add_rows(self, rows: Numbers, slots: Numbers, src: Numbers, dst: Numbers) -> None:
        """Append rows between these nodes for flows, all of which are in them."""
        first_row, many = self.rows.count, len(src)
        self.rows.append_links(self.links.limited(src, dst))
        self._serving += many
        if self.rows.count > len(self._pair):
            self._make_room()
        new, table = slice(first_row, first_row + many), self.rows.column
        self._pair[new] = src * len(self._number) + dst
        self._places[new] = -1
        self._needs[new] = np.inf
        weights = self._floats[_WEIGHT, slots]
        needs = (self._ints[SIZE, slots] - self._floats[_BEFORE, slots]) / weights
        self._put(rows, slots, needs)
        table(WEIGHT)[new] = np.bincount(rows - first_row, weights, many)
        table(TOTAL)[new] = np.bincount(rows - first_row, weights * needs, many)
        table(NEEDS)[new] = self._needs[new].min(axis=1)
        table(SINCE_S)[new] = self._context.now_s
        table(FINISH_S)[new] = np.inf

    def _put(self, rows: Numbers, slots: Numbers, needs: Floats) -> None:
        """Give flows places in their rows."""
        self._floats[_NEEDS, slots] = needs
        order = rows.argsort(kind="stable")
        before, counts = _before(rows, order), (self._places[rows] >= 0).sum(axis=1)
        most = int((before + counts).max()) + 1
        if most > self._places.shape[1]:
            more = max(most - self._places.shape[1], self._places.shape[1])
            self._places = np.pad(self._places, ((0, 0), (0, more)), constant_values=-1)
            self._needs = np.pad(self._needs, ((0, 0), (0, more)), constant_values=np.inf)
        free = (self._places[rows] < 0).cumsum(axis=1)
        places = (free == before[:, np.newaxis] + 1).argmax(axis=1)
        self._places[rows, places] = slots
        self._needs[rows, places] = needs

    def _end_first(self, rows: Numbers, by_s: float) -> tuple[NDArray[np.bool_], Numbers]:
        """Have rows served as their first flows need that end now; which flows end: [row, place].

        Returns the slots of all places too.
        """
        enough = self._serve_first(rows, self.rows.column(NEEDS)[rows], by_s)
        slots = self._places[rows]
        return (self._needs[rows] <= enough[:, np.newaxis]) & (slots >= 0), slots

    def _less(
        self, rows: Numbers, slots: Numbers, due: NDArray[np.bool_], left: NDArray[np.bool_]
    ) -> tuple[Numbers, Floats, Floats]:
        """What flows that end take from rows that have others left: their weights and bytes."""
        of_rows, places = due.nonzero()
        slots = slots[of_rows, places]
        needs, weights = self._floats[_NEEDS, slots], self._floats[_WEIGHT, slots]
        order = np.lexsort((self._ints[SEQUENCE, slots], needs, of_rows))
        of_rows, needs, weights = of_rows[order], needs[order], weights[order]
        fewer: Floats = np.bincount(of_rows, weights, len(rows))[left].astype(np.float64)
        total: Floats = np.bincount(of_rows, weights * needs, len(rows))[left].astype(np.float64)
        return rows[left], -fewer, -total

    def _change_rows(self, rows: Numbers, weights: Floats, totals: Floats) -> None:
        """Update rows whose flows have changed; see ``_change``."""
        self._change(rows, weights, totals, self._needs[rows].min(axis=1))

    def _drop(self, ended: list[int]) -> None:
        """Let rows go that have no flows any more; see ``_remove_rows``."""
        moved, places = self._remove_rows(ended)
        if not moved:
            return
        pairs = self._pair[moved]
        self._pair[places] = pairs
        self._places[places] = slots = self._places[moved]
        self._needs[places] = self._needs[moved]
        at, of_row = np.array(places), slots >= 0
        self._row[slots[of_row]] = np.broadcast_to(at[:, np.newaxis], slots.shape)[of_row]
        self._row_of.update(zip(pairs.tolist(), places, strict=True))
        for slot, flow in self._objects.items():
            flow.row = int(self._row[slot])

    def _make_room(self) -> None:
        more = max(16, len(self._pair), self.rows.count - len(self._pair))
        self._pair = np.concatenate([self._pair, np.zeros(more, np.int64)])
        self._places = np.pad(self._places, ((0, more), (0, 0)), constant_values=-1)
        self._needs = np.pad(self._needs, ((0, more), (0, 0)), constant_values=np.inf)

    def _is_set(self) -> None:
        super()._is_set()
        self._context.retimed.append(self)


def _before(numbers: Numbers, order: Numbers) -> Numbers:
    """How often each of these numbers stands before it; ``order`` sorts them stably."""
    ascending, places = numbers[order], np.arange(len(numbers))
    begins = np.ones(len(numbers), bool)
    begins[1:] = ascending[1:] != ascending[:-1]
    before = np.empty(len(numbers), np.int64)
    before[order] = places - np.maximum.accumulate(np.where(begins, places, 0))
    return before
