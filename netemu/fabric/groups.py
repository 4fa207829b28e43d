"""A group of flows: those of one coflow, or all.  Each flow class has a row of the group's arrays.

A group keeps its own time: while its rates and flows stay the same, its rows are not touched,
whatever happens to other groups.  An event costs O(classes) in numpy.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from railyard.netemu.fabric.servedrows import SharedRows
from railyard.netemu.model.arrays import floats
from railyard.netemu.model.context import GroupContext
from railyard.netemu.model.links import Path
from railyard.netemu.model.openflows import ALONE, KEEPS, SERVICE_BYTES_MAX, Flow, FlowClass
from railyard.netemu.model.rows import (
    FINISH_S,
    NEEDS,
    SERVED,
    SINCE_S,
    TOTAL,
    WEIGHT,
)

#: A row's flow, as most rows have one; or its class, if it has had several.
Row = Flow | FlowClass


class FlowGroup(SharedRows):
    """The flows of a group, by class."""

    def __init__(self, key: str, context: GroupContext) -> None:
        super().__init__(key, context)
        #: {path, or (path, class key) if that is not (): row}; none for flows with the key None,
        #: which share no row
        self._by_key: dict[Hashable, Row] = {}
        self._in_rows: list[Row] = []  #: by row
        self._coming: list[Flow] = []  #: flows that have no row yet

    # What schedulers see -------------------------------------------------------------------------
    def class_key(self, row: int) -> Any:
        """``FlowScheduler.class_key`` of a row's flows."""
        return self._in_rows[row].class_key

    # What the fabric does ------------------------------------------------------------------------
    @property
    def is_empty(self) -> bool:
        """Whether it has nothing to send."""
        return not (self._serving or self._coming)

    def add(self, flow: Flow) -> None:
        """Add a flow that has bytes to send.

        It gets its row when ``admit`` is called: many flows at once are cheaper together.
        """
        self._coming.append(flow)
        self._changed()

    def add_all(self, flows: Iterable[Flow]) -> None:
        """Add flows that have bytes to send; see ``add``."""
        self._coming += flows
        self._changed()

    def admit(self) -> None:
        """Give rows to the flows that have been added."""
        if not self._coming:
            return
        coming, self._coming = self._coming, []
        self._flows += len(coming)
        by_key, row = self._by_key, len(self._in_rows)
        first_row = row
        fresh: list[Row] = []
        shared: list[FlowClass] = []  # new rows that several of the flows share
        joining: list[Flow] = []
        for flow in coming:
            if flow.sent_bytes or flow.joined_at:  # most are new, and skip this
                flow.sent_before, flow.joined_at = flow.sent_bytes, 0.0
            found: Row = flow
            class_key, path = flow.class_key, flow.route.path
            if class_key is not None:
                flow.row_key = row_key = path if class_key == () else (path, class_key)
                found = by_key.setdefault(row_key, flow)
            if found is flow:
                flow.flow_class, flow.row = ALONE, row
                fresh.append(flow)
                row += 1
                continue
            flow.flow_class = joined = self._class_of(found)
            if joined.row < first_row:
                flow.needs = np.inf  # not known yet: what the class noted of it before is void
                joining.append(flow)
                continue
            if joined is not found:
                fresh[joined.row - first_row] = joined
                shared.append(joined)
            _note_needs(flow)
            joined.join(flow)
        if joining:
            self._admit_to_rows(joining)
        if fresh:
            self._add_rows(fresh, shared)

    def remove(self, flow: Flow) -> None:
        """Remove a flow from its row."""
        self.admit()
        self._changed()
        left = flow.flow_class
        assert left is not None
        row = flow.row if left is ALONE else left.row
        flow.sent_bytes = flow.sent_at(self._settle(row))
        flow.flow_class = None
        self._flows -= 1
        if left is not ALONE:
            left.release(flow)
            if left.members:
                self._change_rows([(left, -flow.weight, -flow.weight * flow.needs)])
                return
        if flow.row_key is not None:
            del self._by_key[flow.row_key]
        self._drop([row])

    def take_due(self, by_s: float) -> list[Flow]:
        """Remove and return the flows that have sent all their bytes by ``by_s``.

        ``sent_bytes`` is set only where it is read later: of flows with ``more`` or on circuits.
        """
        self.stale = True
        taken: list[Flow] = []
        ended: list[int] = []
        fewer: list[tuple[FlowClass, float, float]] = []
        in_rows, by_key = self._in_rows, self._by_key
        due = self._due(by_s)
        enough = self._serve_classes(
            [row for row in due if not isinstance(in_rows[row], Flow)], by_s
        )
        for row in due:
            found = in_rows[row]
            if isinstance(found, Flow):
                taken.append(found)
            else:
                some = found.take(enough[row])
                taken += some
                if found.members:
                    weight = sum(flow.weight for flow in some)
                    total = sum(flow.weight * flow.needs for flow in some)
                    fewer.append((found, -weight, -total))
                    continue
            if found.row_key is not None:
                del by_key[found.row_key]
            ended.append(row)
        self._flows -= len(taken)
        for flow in taken:
            if flow.more or flow.pair is not None:
                flow.flow_class, flow.sent_bytes = None, float(flow.size_bytes)
        if self.rate_bytes_per_s == np.inf:
            self._end_endless()
        if fewer:
            self.only_ended = False
            self._change_rows(fewer)
        if ended:
            self._drop(ended)
        return taken

    def sent_bytes_of(self, flow: Flow) -> float:
        """Bytes that one of its flows has sent by now."""
        row = _row_of(flow)
        return flow.sent_bytes if row < 0 else flow.sent_at(self._served_of(row))

    def rate_of(self, flow: Flow) -> float:
        """Bytes/s of one of its flows."""
        row = _row_of(flow)
        return 0.0 if row < 0 else float(self.rates[row]) * flow.weight

    def end_rows(self, rows: Sequence[int]) -> list[Flow]:
        """Remove the only flows of rows that compiled loops have ended (see ``went_ahead``)."""
        in_rows, by_key, flows = self._in_rows, self._by_key, list[Flow]()
        for row in rows:
            found = in_rows[row]
            flow = found if isinstance(found, Flow) else found.take_last()
            if flow.more or flow.pair is not None:
                flow.flow_class, flow.sent_bytes = None, float(flow.size_bytes)
            if found.row_key is not None:
                del by_key[found.row_key]
            flows.append(flow)
        self._done += rows
        self._serving -= len(rows)
        self._flows -= len(rows)
        return flows

    def limits_changed(self) -> None:
        """Look up the limited links of each class again."""
        self.admit()
        self._links_changed()
        if self._in_rows:
            self.rows.set_paths(0, self._limits(self._in_rows))

    # Inside --------------------------------------------------------------------------------------
    def _class_of(self, found: Row) -> FlowClass:
        """The class of a row; it is made when the row gets its second flow."""
        if not isinstance(found, Flow):
            if found.only is not None:
                _note_needs(found.only)
            return found
        _note_needs(found)
        row_key = found.row_key
        made = FlowClass(found.route, found.class_key, row_key, found.row, found, 1)
        found.flow_class = self._by_key[row_key] = made
        if made.row < len(self._in_rows):
            self._in_rows[made.row] = made
        return made

    def _is_set(self) -> None:
        super()._is_set()
        self._context.retimed.append(self)

    def _serve_classes(self, rows: list[int], by_s: float) -> dict[int, float]:
        """Have classes served as their first flows need that end now; see ``_serve_first``."""
        if not rows:
            return {}
        needs = floats([self._class_at(row).first().needs for row in rows])
        enough = self._serve_first(np.array(rows), needs, by_s)
        return dict(zip(rows, enough.tolist(), strict=True))

    def _class_at(self, row: int) -> FlowClass:
        found = self._in_rows[row]
        assert isinstance(found, FlowClass)
        return found

    def _change_rows(self, changes: list[tuple[FlowClass, float, float]]) -> None:
        """Update rows whose flows have changed; their service was brought up to now.

        A change is (class, what is added to its total weight, what is added to its total bytes).
        """
        rows = np.array([group.row for group, _, _ in changes])
        weights = np.array([weight for _, weight, _ in changes])
        totals = np.array([total for _, _, total in changes])
        needs = floats([group.first().needs for group, _, _ in changes])
        of_weight, of_total = self.rows.column(WEIGHT), self.rows.column(TOTAL)
        enough, enough_bytes = of_weight[rows] * KEEPS, of_total[rows] * KEEPS
        self._change(rows, weights, totals, needs)
        lost = (of_weight[rows] < enough) | (of_total[rows] < enough_bytes)
        for row in rows[lost].tolist():
            of_weight[row], of_total[row] = self._class_at(row).sums()

    def _begin_anew(self, row: int) -> None:
        """Count a row's service, which is as of now, from 0 again; see ``SERVICE_BYTES_MAX``."""
        found, table = self._class_at(row), self.rows.column
        found.begin_anew(float(table(SERVED)[row]))
        table(SERVED)[row] = 0.0
        table(WEIGHT)[row], table(TOTAL)[row] = found.sums()

    def _admit_to_rows(self, joining: list[Flow]) -> None:
        """Add flows to classes that have rows already."""
        changes: list[tuple[FlowClass, float, float]] = []
        rows = np.array([_row_of(flow) for flow in joining])
        of_service = self.rows.column(SERVED)
        of_service[rows] = served = self._served(rows)
        self.rows.column(SINCE_S)[rows] = self._context.now_s
        weights = floats([flow.weight for flow in joining])
        if far := np.unique(rows[served * weights > SERVICE_BYTES_MAX]).tolist():
            for row in far:
                self._begin_anew(row)
            served = of_service[rows]
        for flow, joined_at in zip(joining, served.tolist(), strict=True):
            joined = flow.flow_class
            assert joined is not None
            flow.joined_at = joined_at
            _note_needs(flow)
            joined.join(flow)
            changes.append((joined, flow.weight, flow.weight * flow.needs))
        self._change_rows(changes)

    def _add_rows(self, fresh: list[Row], shared: list[FlowClass]) -> None:
        """Append rows for new flows and classes."""
        first_row = len(self._in_rows)
        self._in_rows += fresh
        self._serving += len(fresh)
        self.rows.append(self._limits(fresh))
        firsts = [
            found if isinstance(found, Flow) else found.only or found.first() for found in fresh
        ]
        weights = floats([flow.weight for flow in firsts])
        needs = floats([flow.size_bytes - flow.sent_bytes for flow in firsts]) / weights
        new, table = slice(first_row, None), self.rows.column
        table(WEIGHT)[new] = weights
        table(TOTAL)[new] = weights * needs
        table(NEEDS)[new] = needs
        table(SINCE_S)[new] = self._context.now_s
        table(FINISH_S)[new] = np.inf
        for flow_class in shared:
            flows = flow_class.all()
            table(WEIGHT)[flow_class.row] = sum(flow.weight for flow in flows)
            table(TOTAL)[flow_class.row] = sum(flow.weight * flow.needs for flow in flows)

    def _limits(self, found: list[Row]) -> list[Path]:
        return self._context.paths([each.route for each in found])

    def _drop(self, ended: list[int]) -> None:
        """Let rows go that have no flows any more; see ``_remove_rows``."""
        moved, places = self._remove_rows(ended)
        in_rows = self._in_rows
        for place, row in zip(places, moved, strict=True):
            found = in_rows[place] = in_rows[row]
            found.row = place
        del in_rows[self.rows.count :]


def _row_of(flow: Flow) -> int:
    """A flow's row; -1 if it has none."""
    found = flow.flow_class
    return -1 if found is None else flow.row if found is ALONE else found.row


def _note_needs(flow: Flow) -> None:
    """Set ``flow.needs``, which a flow that shares its row has to know."""
    flow.needs = flow.joined_at + (flow.size_bytes - flow.sent_before) / flow.weight
