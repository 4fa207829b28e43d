"""Open flows, their rows, and coflows: names on the outside, numbers within.

Not here: who is served first, and time (``fabric``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from railyard.netemu.circuits2 import pairs, switch
from railyard.netemu.kernel import filling, levels, lines, rows
from railyard.netemu.kernel.state import (
    ENDED,
    ENTRIES,
    FREE_CELLS,
    FREED,
    NONE,
    SENDING,
    State,
    grown,
    new_state,
    views,
    widened,
)
from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.model.links import Route, unpack
from railyard.netemu.model.network import Network
from railyard.netemu.schedulers.newbase import FlowScheduler, Serves


class Plain:
    """The loops as plain Python runs them."""

    rows, filling, levels, lines = rows, filling, levels, lines
    switch, pairs = switch, pairs


class Store:
    """Flows of one network in arrays; ids are numbers that are used again."""

    def __init__(self, network: Network, scheduler: FlowScheduler, slots: int = 0) -> None:
        self.network = network
        self.serves = scheduler.serves
        self.by_bytes = scheduler.by_bytes
        one_by_one = self.serves in (Serves.SHORTEST, Serves.PRIORITIES)
        self.limited = np.isfinite(network.capacities)
        capacity = np.concatenate([network.capacities, np.zeros(slots), [np.inf]])
        longest = self._longest()
        listed = 0 if one_by_one else 1 if self.by_bytes else longest
        has_keys = self.serves is Serves.PRIORITIES
        self.state = new_state(capacity, longest, listed, by_bytes=self.by_bytes, has_keys=has_keys)
        self.loops: Any = Plain
        self.now_s = 0.0
        self.view = self.run_on = views(self.state)
        self.names: list[Any] = []  #: [flow]
        self.routes: list[Route] = []  #: [route]
        self._route_of: dict[tuple[bytes, Any], int] = {}
        self._way_of_route: list[int] = []  #: [route]: its limited links; NONE: it has none
        self._way_of: dict[bytes, int] = {}
        self._ways: list[list[int]] = []
        self._free_flows: list[int] = []
        self._free_rows: list[int] = []
        self._row_of: dict[int, int] = {}  #: {way, and group: row}
        self._rows_made = 0  #: those of circuits included

    def _longest(self) -> int:
        """Limited links of the longest path, at most."""
        has_nics = self.limited[list(self.network.nics)].any()
        return self.network.longest if has_nics else max(self.network.longest - 2, 1)

    # Growth --------------------------------------------------------------------------------------
    def compile(self) -> None:
        """Have compiled loops from now on."""
        from railyard.netemu.kernel.compiled import compiled

        self.loops, self.run_on = compiled(), self.state

    def _grow(self, **room: int) -> None:
        state = grown(self.state, **room)
        if state is not self.state:
            self._take(state)

    def _take(self, state: State) -> None:
        self.state, self.view = state, views(state)
        self.run_on = self.view if self.loops is Plain else state

    # Flows ---------------------------------------------------------------------------------------
    def route_number(self, route: Route) -> int:
        """The number of a route."""
        key = route.path, route.counted_as
        number = self._route_of.get(key)
        if number is None:
            number = self._route_of[key] = len(self.routes)
            self.routes.append(route)
            self._way_of_route.append(self._find_way(route))
            self._grow(routes=len(self.routes))
        return number

    def _find_way(self, route: Route) -> int:
        links = [link for link in unpack(route.path) if self.limited[link]]
        if not links:
            return NONE
        key = np.array(links).tobytes()
        way = self._way_of.get(key)
        if way is None:
            way = self._way_of[key] = len(self._ways)
            self._ways.append(links + [self.state.none] * (self.state.longest - len(links)))
            self._grow(ways=len(self._ways))
        return way

    def reserve_rows(self, rows: int) -> None:
        """Have the first rows be those of circuits, and room for all cells of one group."""
        self._rows_made = rows
        self._grow(rows=rows, cells=self.state.none + 2)

    def is_limited(self, route: int) -> bool:
        """Whether there is a limit to what a route can carry."""
        return self._way_of_route[route] != NONE

    def renumber(self) -> None:
        """Note that flows that are served one by one have other keys, but the same order."""
        flows, rows, lines = self.state.flows, self.state.rows, self.state.lines
        sending = np.flatnonzero(flows.row[: len(self.names)] != NONE)
        rows.key[flows.row[sending]] = flows.key[sending]
        lines.is_moved[:] = True

    def keep(self, bytes_per_s: dict[int, float]) -> None:
        """Have flows that have a row go on at these rates, which none has now."""
        self.view.work.counts[SENDING] = 0
        for flow, rate in bytes_per_s.items():
            row = self.view.flows.row[flow]
            if row != NONE:
                rate /= self.view.flows.weight[flow]
                self.loops.filling.add_rate(row, rate, self.now_s, self.run_on)

    def set_limits(self, capacities: Floats) -> dict[int, float]:
        """Note which links have limits.

        Returns the flows that sent, which send nothing now, and at how many bytes/s.
        """
        self.limited = np.isfinite(capacities[:-1])
        going = [flow for flow, name in enumerate(self.names) if name is not None]
        going = [flow for flow in going if self.view.flows.row[flow] != NONE]
        rows, weight = self.view.rows, self.view.flows.weight
        sent = {flow: rows.rate[self.view.flows.row[flow]] * weight[flow] for flow in going}
        self.stop(going)
        self._widen()
        self._way_of_route = [self._find_way(route) for route in self.routes]
        return sent

    def _widen(self) -> None:
        """Have room for paths of more limited links, if there are any now; no row has flows."""
        longest, state = self._longest(), self.state
        if longest > state.longest:
            listed = 1 if self.by_bytes else longest
            self._take(widened(state, longest, listed if state.listed else 0))
            for way in self._ways:
                way += [state.none] * (longest - len(way))

    def add(self, name: Any, coflow: int, route: int, size_bytes: float, weight: float) -> int:
        """A new flow that sends nothing yet."""
        if self._free_flows:
            flow = self._free_flows.pop()
            self.names[flow] = name
        else:
            flow = len(self.names)
            self.names.append(name)
            if flow >= len(self.view.flows.row):
                self._grow(flows=flow + 1)
        flows = self.view.flows
        flows.row[flow], flows.coflow[flow], flows.route[flow] = NONE, coflow, route
        flows.size[flow], flows.weight[flow] = size_bytes, weight
        flows.sent[flow] = flows.booked[flow] = 0.0
        flows.more[flow] = False
        return flow

    def send(self, new: list[int], groups: list[int]) -> None:
        """Let flows that send nothing, and have bytes to send over limited links, join rows."""
        flows, into = self.view.flows, []
        one_by_one = self.state.listed == 0
        for flow, group in zip(new, groups, strict=True):
            way = self._way_of_route[flows.route[flow]]
            if self.by_bytes:
                flows.weight[flow] = flows.size[flow] - flows.sent[flow]
            if one_by_one:
                row = self._new_row(group, way)
                self.view.rows.key[row] = flows.key[flow]
            else:
                key = way << 24 | group
                found = self._row_of.get(key)
                row = self._row_of[key] = self._new_row(group, way) if found is None else found
            into.append(row)
        self._grow(groups=max(groups) + 1)
        most = len(new) * self.state.listed - self.view.work.counts[FREE_CELLS]
        if most > 0:  # each of a row's links may need a new cell
            self._grow(cells=len(self.view.cells.link) + most)
        self._make_room(len(new) * self.state.listed)
        if len(new) > 1:
            left = [(flows.size[f] - flows.sent[f]) / flows.weight[f] for f in new]
            order = np.lexsort((left, into))
            self.loops.rows.join_all(
                np.array(new, np.int32)[order], np.array(into, np.int32)[order], self.now_s, self.run_on
            )
        else:
            self.loops.rows.join(new[0], into[0], self.now_s, self.run_on)

    def _make_room(self, more: int) -> None:
        """Have room for so many more entries, also where each cell's have to move to more room."""
        live = self._rows_made * self.state.listed + more
        room = 4 * live + 4 * len(self.view.cells.link)
        work = self.state.work
        if self.view.work.counts[ENTRIES] + room > len(work.entries):
            fresh = work._replace(entries=np.zeros(2 * room + live, np.int32))
            self._take(self.state._replace(work=fresh))
            self.loops.rows.pack(work.entries, self.run_on)

    def _new_row(self, group: int, way: int) -> int:
        if self._free_rows:
            row = self._free_rows.pop()
        else:
            row, self._rows_made = self._rows_made, self._rows_made + 1
            if row >= len(self.view.rows.group):
                self._grow(rows=row + 1)
        rows = self.view.rows
        rows.group[row], rows.way[row], rows.flows[row] = group, way, 0
        for position, link in enumerate(self._ways[way], row << self.state.shift):
            rows.link[position] = link
        return row

    def stop(self, going: list[int]) -> None:
        """Have these flows send nothing."""
        for flow in going:
            if self.view.flows.row[flow] != NONE:
                self.loops.rows.leave(flow, self.now_s, self.run_on)
        self.clear_freed()

    def clear_freed(self) -> None:
        """Have rows that have no flows any more for others."""
        counts, rows = self.view.work.counts, self.view.rows
        if counts[FREED]:
            freed = self.state.work.freed[: counts[FREED]].tolist()
            counts[FREED] = 0
            if self.state.listed:
                for row in freed:
                    del self._row_of[rows.way[row] << 24 | rows.group[row]]
            self._free_rows += freed

    def take_ended(self) -> Numbers:
        """The flows that have ended since, in this order."""
        counts = self.view.work.counts
        ended = self.state.work.ended[: counts[ENDED]].copy()
        counts[ENDED] = 0
        return ended

    def close(self, flow: int) -> None:
        """Forget a flow that sends nothing; what it has sent is counted."""
        flows = self.view.flows
        self.view.work.carried[flows.route[flow]] += flows.sent[flow] - flows.booked[flow]
        self.names[flow] = None
        self._free_flows.append(flow)
