"""Open flows and their rows in arrays: numbers within, which are used again.

Not here: names, who is served first (``planning``), and time (``fabric``).
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from railyard.netemu.circuits import pairs, switch
from railyard.netemu.circuits.policies import sunflow
from railyard.netemu.kernel import filling, levels, lines, rows
from railyard.netemu.kernel.compiled import compiled
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
)
from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.model.links import Categories, Path, Route, sum_by_link, unpack
from railyard.netemu.model.network import Network
from railyard.netemu.schedulers.base import FlowScheduler, Serves

#: A row is known by its path and its group: path << _GROUPS | group.
_GROUPS = 24


#: The modules of loops, each after those that it calls.
_LOOPS = (rows, filling, levels, lines, sunflow, switch, pairs)
_PLAIN = SimpleNamespace(**{module.__name__.rpartition(".")[2]: module for module in _LOOPS})


class Store:
    """Flows of one network, their rows, and groups, for one flow scheduler.

    After the network's links there are ``slots`` more, for circuits; see ``circuits``.
    """

    def __init__(self, network: Network, scheduler: FlowScheduler, slots: int = 0) -> None:
        self.network = network
        self.serves = scheduler.serves
        self.by_bytes = scheduler.by_bytes
        self.is_limited = np.isfinite(network.capacities)  #: [link]
        self.now_s = 0.0
        self.loops: Any = _PLAIN
        #: arrays, a view of each that is quick to read and write by Python, and what loops work on
        self.state = self._new_state(
            np.concatenate([network.capacities, np.zeros(slots), [np.inf]])
        )
        self.view = self.on = views(self.state)
        self.routes: list[Route] = []  #: [route]
        self._route_of: dict[tuple[Path, Categories], int] = {}
        self._way_of_route: list[int] = []  #: [route]: its limited links; NONE: it has none
        self._way_of: dict[Path, int] = {}
        self._ways: Numbers = np.zeros((0, self.state.longest), np.int32)  #: [path, position]
        self._flows_made = self._rows_made = self._reserved = 0
        self._free_flows: list[int] = []
        self._free_rows: list[int] = []
        self._row_of: dict[int, int] = {}

    # Routes --------------------------------------------------------------------------------------
    def number_of(self, route: Route) -> int:
        """The number of a route."""
        key = route.path, route.counted_as
        number = self._route_of.get(key)
        if number is None:
            number = self._route_of[key] = len(self.routes)
            self.routes.append(route)
            self._way_of_route.append(self._find_way(route))
            self._take(grown(self.state, routes=len(self.routes)))
        return number

    def has_limit(self, route: int) -> bool:
        """Whether there is a limit to what a route can carry."""
        return self._way_of_route[route] != NONE

    # Flows ---------------------------------------------------------------------------------------
    def add(self, coflow: int, route: int, size_bytes: int, weight: float, more: bool) -> int:
        """The number of a new flow, which sends nothing yet."""
        if self._free_flows:
            flow = self._free_flows.pop()
        else:
            flow, self._flows_made = self._flows_made, self._flows_made + 1
            if flow >= len(self.view.flows.row):
                self._take(grown(self.state, flows=flow + 1))
        flows = self.view.flows
        flows.row[flow], flows.coflow[flow], flows.route[flow] = NONE, coflow, route
        flows.size[flow], flows.weight[flow], flows.more[flow] = size_bytes, weight, more
        flows.sent[flow] = flows.booked[flow] = 0.0
        return flow

    def send(self, new: list[int], groups: list[int]) -> None:
        """Let flows that send nothing, and have bytes for limited links, join rows of groups."""
        self._take(grown(self.state, groups=max(groups) + 1))
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
                key = way << _GROUPS | group
                found = self._row_of.get(key)
                row = self._row_of[key] = self._new_row(group, way) if found is None else found
            into.append(row)
        self.make_room(len(new) * self.state.listed)
        if len(new) == 1:
            self.loops.rows.join(new[0], into[0], self.now_s, self.on)
            return
        needs = [(flows.size[flow] - flows.sent[flow]) / flows.weight[flow] for flow in new]
        order = np.lexsort((needs, into))
        joining = np.array((new, into), np.int32)[:, order]
        self.loops.rows.join_all(joining[0].copy(), joining[1].copy(), self.now_s, self.on)

    def stop(self, flow: int) -> None:
        """Have a flow send nothing."""
        if self.view.flows.row[flow] != NONE:
            self.loops.rows.leave(flow, self.now_s, self.on)
            self.free_rows()

    def free_rows(self) -> None:
        """Have rows that have no flows any more for others."""
        counts = self.view.work.counts
        if not counts[FREED]:
            return
        freed = self.state.work.freed[: counts[FREED]]
        counts[FREED] = 0
        self._free_rows += freed.tolist()
        if self.state.listed:
            of = self.state.rows
            for key in (of.way[freed].astype(np.int64) << _GROUPS | of.group[freed]).tolist():
                del self._row_of[key]

    def take_ended(self) -> list[int]:
        """The flows that have ended since this was asked."""
        counts = self.view.work.counts
        ended: list[int] = self.state.work.ended[: counts[ENDED]].tolist()
        counts[ENDED] = 0
        return ended

    def book(self, flow: int) -> None:
        """Count what a flow that sends nothing has sent on its route."""
        flows = self.view.flows
        self.view.work.carried[flows.route[flow]] += flows.sent[flow] - flows.booked[flow]
        flows.booked[flow] = flows.sent[flow]

    def forget(self, flow: int) -> None:
        """Have the number of a flow that sends nothing for others."""
        self._free_flows.append(flow)

    # What can be asked ---------------------------------------------------------------------------
    def sent_bytes(self, flow: int) -> float:
        """Bytes that a flow could send by now."""
        return float(self.loops.rows.sent_by(flow, self.now_s, self.on))

    def rate_bytes_per_s(self, flow: int) -> float:
        """The rate at which a flow sends."""
        row = self.view.flows.row[flow]
        rate = 0.0 if row == NONE else self.view.rows.rate[row] * self.view.flows.weight[flow]
        return float(rate)

    def load(self) -> Floats:
        """[link]: bytes/s of all flows on each link."""
        rows, many = self.state.rows, self._rows_made
        rates = rows.rate[:many] * rows.weight[:many] * (rows.flows[:many] > 0)
        links = rows.link.reshape(-1, 1 << self.state.shift)[:many, : self.state.longest]
        return sum_by_link(links.T, rates, self.state.none + 1)[:-1]

    # Links ---------------------------------------------------------------------------------------
    def set_capacity(self, link: int, bytes_per_s: float, open_flows: list[int]) -> list[int]:
        """Give a link another capacity.

        Where it gets or loses its limit, all flows have other paths, and send nothing: returns
        those that were sending.  ``send`` follows, and ``keep`` where flows keep what they have.
        """
        capacity = self.state.work.capacity
        capacity[link] = bytes_per_s
        if self.is_limited[link] == np.isfinite(bytes_per_s):
            return []
        sending = [flow for flow in open_flows if self.view.flows.row[flow] != NONE]
        self._kept = [self.rate_bytes_per_s(flow) for flow in sending]
        for flow in sending:
            self.loops.rows.leave(flow, self.now_s, self.on)
        self.free_rows()
        self.is_limited[link] = np.isfinite(bytes_per_s)
        if self._longest() != self.state.longest:
            self._begin_anew()
        self._way_of, self._ways = {}, np.zeros((0, self.state.longest), np.int32)
        self._way_of_route = [self._find_way(route) for route in self.routes]
        return sending

    def keep(self, sending: list[int]) -> None:
        """Have flows go on at the rates that they had before ``set_capacity``."""
        self.view.work.counts[SENDING] = 0
        for flow, rate in zip(sending, self._kept, strict=True):
            row = self.view.flows.row[flow]
            if row != NONE:
                more = rate / self.view.flows.weight[flow]
                self.loops.filling.add_rate(row, more, self.now_s, self.on)

    def reserve_rows(self, rows: int) -> None:
        """Have no rows but so many first ones, of circuits, and room for all cells of a group."""
        self._rows_made = self._reserved = rows
        if rows:
            self._take(grown(self.state, rows=rows, cells=self.state.none + 2))

    def renumber(self) -> None:
        """Note that flows that are served one by one have other keys, in the same order."""
        flows, of_rows = self.state.flows, self.state.rows
        sending = np.flatnonzero(flows.row[: self._flows_made] != NONE)
        of_rows.key[flows.row[sending]] = flows.key[sending]
        self.state.lines.is_moved[:] = True

    # Arrays --------------------------------------------------------------------------------------
    def compile(self) -> None:
        """Have compiled loops from now on."""
        if self.loops is _PLAIN:
            self.loops, self.on = compiled(_LOOPS), self.state

    def open_group(self, group: int) -> None:
        """Have a group that has sent nothing yet."""
        self._take(grown(self.state, groups=group + 1))
        groups = self.view.groups
        groups.sent[group], groups.rate[group], groups.since_s[group] = 0.0, 0.0, self.now_s

    def close_group(self, group: int) -> None:
        """Have a group's number, which has no rows, for others."""
        self.loops.rows.close_group(group, self.on)

    # Inside --------------------------------------------------------------------------------------
    def _new_state(self, capacity: Floats) -> State:
        longest = self._longest()
        one_by_one = self.serves in (Serves.SHORTEST, Serves.PRIORITIES)
        listed = 0 if one_by_one else 1 if self.by_bytes else longest
        has_keys = self.serves is Serves.PRIORITIES
        return new_state(capacity, longest, listed, by_bytes=self.by_bytes, has_keys=has_keys)

    def _longest(self) -> int:
        """How many limited links a path has at most."""
        has_nics = self.is_limited[list(self.network.nics)].any()
        return self.network.longest if has_nics else max(self.network.longest - 2, 1)

    def _begin_anew(self) -> None:
        """Have rows of other lengths; there are none."""
        before, fresh = self.state, self._new_state(self.state.work.capacity)
        fresh = grown(fresh, flows=len(before.flows.row), groups=len(before.groups.cell))
        groups = fresh.groups._replace(sent=before.groups.sent, since_s=before.groups.since_s)
        work = fresh.work._replace(carried=before.work.carried)
        self._take(fresh._replace(flows=before.flows, groups=groups, work=work))
        self._free_rows = []
        self.reserve_rows(self._reserved)

    def _take(self, state: State) -> None:
        if state is not self.state:
            self.state, self.view = state, views(state)
            self.on = self.view if self.loops is _PLAIN else state

    def _find_way(self, route: Route) -> int:
        links = [link for link in unpack(route.path) if self.is_limited[link]]
        if not links:
            return NONE
        key = np.array(links).tobytes()
        way = self._way_of.get(key)
        if way is None:
            way = self._way_of[key] = len(self._way_of)
            if way >= len(self._ways):
                more = np.full((max(16, way), self.state.longest), self.state.none, np.int32)
                self._ways = np.concatenate([self._ways, more])
                self._take(grown(self.state, ways=len(self._ways)))
            self._ways[way, : len(links)] = links
        return way

    def _new_row(self, group: int, way: int) -> int:
        if self._free_rows:
            row = self._free_rows.pop()
        else:
            row, self._rows_made = self._rows_made, self._rows_made + 1
            if row >= len(self.view.rows.group):
                self._take(grown(self.state, rows=row + 1))
        of_rows, first = self.view.rows, row << self.state.shift
        of_rows.group[row], of_rows.way[row], of_rows.flows[row] = group, way, 0
        self.state.rows.link[first : first + self.state.longest] = self._ways[way]
        return row

    def make_room(self, more: int) -> None:
        """Have room for so many more entries, each of which may need a new cell.

        A cell's entries may have to move to where there is more room, some of them several times.
        """
        missing = more - self.view.work.counts[FREE_CELLS]
        if missing > 0:
            self._take(grown(self.state, cells=len(self.view.cells.link) + missing))
        there = self._rows_made * self.state.listed + more
        room, work = 4 * there + 4 * len(self.view.cells.link), self.state.work
        if there and work.counts[ENTRIES] + room > len(work.entries):
            entries = np.zeros(2 * room + there, np.int32)
            self._take(self.state._replace(work=work._replace(entries=entries)))
            self.loops.rows.pack(work.entries, self.on)
