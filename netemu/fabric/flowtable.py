"""The group of all flows, as a table: most of them have no object, and come and go by the hundred.

It does what ``FlowGroup`` does, to the last bit, for flow schedulers that look neither at flows nor
at coflows.  A flow has a slot: what it is and needs is in arrays; some have a ``Flow`` besides.
The flows of a row, those between two nodes, have their slots in the row's places.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from railyard.cluster.errors import InvariantError
from railyard.cluster.ids import NodeId
from railyard.netemu.fabric.fast import tablerows
from railyard.netemu.fabric.fast.tablerows import (
    DST,
    FLOW_BEFORE,
    FLOW_JOINED,
    FLOW_WEIGHT,
    NAME,
    SEQUENCE,
    SIZE,
    SRC,
)
from railyard.netemu.fabric.pairlinks import PairLinks
from railyard.netemu.fabric.servedrows import SharedRows
from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.model.context import GroupContext
from railyard.netemu.model.openflows import ALONE, Flow


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
        #: by pair of nodes: its row plus 1; 0: it has none, as most: of these no memory is used
        self._row_of = np.zeros(len(numbers) ** 2, np.int64)
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
        first_row = self.rows.count
        slots = self._take_slots(ints.shape[1])
        rows, fresh = tablerows.take_slots(
            ints,
            slots,
            len(self._number),
            self._row_of,
            first_row,
            self._ints,
            self._floats,
            self._row,
        )
        self._flows += len(slots)
        at = 0
        for each in coming:
            if not isinstance(each, Flow):
                at += each.shape[1]
                continue
            self._note_object(each, int(slots[at]))
            self._floats[FLOW_WEIGHT, slots[at]] = each.weight
            self._floats[FLOW_BEFORE, slots[at]] = each.sent_bytes
            at += 1
        if len(fresh):
            self._add_rows(ints[SRC, fresh], ints[DST, fresh])
        self._join(rows, slots, first_row)
        for flow in coming:
            if isinstance(flow, Flow):
                self._place_object(flow, self._slot_of[flow])

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
        self._row_of[self._pair[row]] = 0
        self._drop([row])

    def take_due(self, by_s: float) -> list[Flow]:
        """Remove the flows that have sent all their bytes by ``by_s``; returns those with objects.

        The others are in ``ended``.
        """
        self.stale = True
        rows = np.array(self._due(by_s), np.int64)
        if not len(rows):
            return []
        taken, left, fewer, less, ended = tablerows.take_due(
            rows,
            by_s,
            self._context.now_s,
            self.rows.whole[0],
            self._places,
            self._needs,
            self._ints,
            self._floats,
        )
        self._flows -= len(taken)
        flows = self._end(taken)
        self._row_of[self._pair[ended]] = 0
        self._give_back(taken)
        if self.rate_bytes_per_s == np.inf:
            self._end_endless()
        if len(left):
            self.only_ended = False
            self._change_rows(left, fewer, less)
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
            self._place_object(flow, slot)
        return missing

    def sent_without_objects(self) -> Iterator[tuple[int, int, int, float]]:
        """Of each flow without an object: its sequence, nodes, and bytes sent."""
        self.admit()
        slots = np.array([slot for slot, _ in self._named()], np.int64)
        served, ints = self._served(self._row[slots]), self._ints[:, slots]
        sent = np.minimum(served - self._floats[FLOW_JOINED, slots], ints[SIZE].astype(float))
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

    def _place_object(self, flow: Flow, slot: int) -> None:
        flow.row, flow.joined_at = int(self._row[slot]), float(self._floats[FLOW_JOINED, slot])

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

    def _add_rows(self, src: Numbers, dst: Numbers) -> None:
        """Append rows between these nodes, without flows so far."""
        first_row, many = self.rows.count, len(src)
        self.rows.append_links(self.links.limited(src, dst))
        self._serving += many
        if self.rows.count > len(self._pair):
            self._make_room()
        new = slice(first_row, first_row + many)
        self._pair[new] = src * len(self._number) + dst
        self._places[new] = -1
        self._needs[new] = np.inf
        tablerows.begin_rows(first_row, self.rows.count, self._context.now_s, self.rows.whole[0])

    def _join(self, rows: Numbers, slots: Numbers, first_row: int) -> None:
        """Add flows to rows, of which those from ``first_row`` on are new."""
        now_s, table, places = self._context.now_s, self.rows.whole[0], self._places
        if tablerows.begin_anew(
            rows, slots, now_s, table, places, self._needs, self._ints, self._floats
        ):
            for slot, flow in self._objects.items():
                self._place_object(flow, slot)
        done = self._join_from(0, rows, slots)
        while done < len(rows):  # there are more in a row than there is room for
            more = self._places.shape[1]
            self._places = np.pad(self._places, ((0, 0), (0, more)), constant_values=-1)
            self._needs = np.pad(self._needs, ((0, 0), (0, more)), constant_values=np.inf)
            done = self._join_from(done, rows, slots)
        old, weights, totals = tablerows.joined(first_row, rows, slots, self._floats)
        if len(old):
            self._change_rows(old, weights, totals)
        if len(old) < len(rows):
            tablerows.weigh_new(first_row, rows, slots, self.rows.whole[0], self._floats)

    def _join_from(self, first: int, rows: Numbers, slots: Numbers) -> int:
        now_s, table, places = self._context.now_s, self.rows.whole[0], self._places
        return tablerows.join(
            first, rows, slots, now_s, table, places, self._needs, self._ints, self._floats
        )

    def _change_rows(self, rows: Numbers, weights: Floats, totals: Floats) -> None:
        """Update rows whose flows have changed; see ``_change``."""
        table, paths = self.rows.whole
        now_s = self._context.now_s
        more, load = tablerows.change_rows(
            rows,
            weights,
            totals,
            now_s,
            table,
            paths,
            self._places,
            self._needs,
            self._ints,
            self._floats,
            self.load,
        )
        self._set_total(max(self.rate_bytes_per_s + float(more.sum()), 0.0))
        self.load = load

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
        self._row_of[pairs] = at + 1
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
