"""Open flows and their rows in arrays, and routes: numbers within, which are used again.

Not here: names, who is served first (``planning``), and time (``fabric``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from railyard.netemu.circuits import pairs, sunflow, switch
from railyard.netemu.kernel import filling, levels, lines, rows, ways
from railyard.netemu.kernel.compiled import compiled
from railyard.netemu.kernel.state import (
    ENDED,
    ENTRIES,
    FREE_CELLS,
    FREE_ROWS,
    FREED,
    NO_CELL,
    NONE,
    ROWS,
    SENDING,
    SHORT,
    TRUNKED,
    WAYS,
    Array,
    State,
    copied,
    empty_state,
    grown,
    views,
)
from railyard.netemu.kernel.ways import Ways
from railyard.netemu.model.arrays import Bools, Floats, Numbers
from railyard.netemu.model.links import Route, sum_by_link, unpack
from railyard.netemu.model.network import Network
from railyard.netemu.schedulers.base import FlowScheduler, Serves

#: From so many open flows on, for each node and each pair of racks, new ones join trunks.
TRUNKS_FROM = 4
#: For each node; a node sends to many others.
_BUCKETS = 64
_LOCAL = Route(b"", ("local",))


class Routes:
    """The numbers of routes.

    From rack to rack: near * (racks + 1) + far, as clients outside are one more; the same by
    circuit follows, and then, as ``local``, that within a node.
    """

    def __init__(self, network: Network) -> None:
        self.racks = network.outside + 1
        self.packets = self.racks**2  #: how many there are by packets
        self.local = 2 * self.packets
        self._network = network

    def between(self, route: int) -> Route:
        """What a route crosses, apart from the nodes' own links."""
        if route == self.local:
            return _LOCAL
        near, far = divmod(route % self.packets, self.racks)
        by_circuit = route >= self.packets
        network = self._network
        return (network.circuit_between if by_circuit else network.between)(near, far)


class WayTable:
    """The arrays of ways, while the same links have limits; see ``kernel.ways``."""

    def __init__(self, network: Network, routes: Routes, is_limited: Bools, s: State) -> None:
        self._routes, self._is_limited = routes, is_limited
        self._shift, self._none = s.shift, s.none
        self._number_of: dict[tuple[int, ...], int] = {}
        self.table = Ways(
            middle=np.full(routes.local + 1, NONE, np.int32),
            middle_link=np.zeros(routes.local + 1 << s.shift, np.int32),
            bucket=np.full(_BUCKETS * len(network.up) + 1, NONE, np.int32),
        )
        self.view = views(self.table)

    def know(self, routes: Numbers) -> None:
        middle = self.table.middle
        for route in routes[middle[routes] == NONE].tolist():
            links = unpack(self._routes.between(route).path)
            limited = tuple(link for link in links if self._is_limited[link])
            middle[route] = number = self._number_of.setdefault(limited, len(self._number_of))
            entries = self.table.middle_link[number << self._shift :][: 1 << self._shift]
            entries[:], entries[: len(limited)] = self._none, limited


#: The modules of loops, each after those that it calls.
_LOOPS = (rows, ways, filling, levels, lines, sunflow, switch, pairs)
#: What loops get of new flows.
_COLUMNS = (np.int32, *[np.int64] * 4, np.float64)
_PLAIN = SimpleNamespace(**{module.__name__.rpartition(".")[2]: module for module in _LOOPS})


class Store:
    """Flows of one network, their rows, and groups, for one flow scheduler.

    After the network's links there are ``slots`` more, for circuits; see ``circuits``.
    """

    def __init__(
        self, network: Network, scheduler: FlowScheduler, slots: int, trunks_from: float
    ) -> None:
        self.network = network
        self.serves = scheduler.serves
        self.by_bytes = scheduler.by_bytes
        self.is_limited = np.isfinite(network.capacities)  #: [link]
        self.routes = Routes(network)
        self.now_s = 0.0
        self.loops: Any = _PLAIN
        #: arrays, a view of each that is quick to read and write by Python, and what loops get
        self.state = self._new_state(
            np.concatenate([network.capacities, np.zeros(slots), [np.inf]])
        )
        self.view = views(self.state)
        self.on: Any = self.view
        self._see_ways()
        self.started = 0  #: flows so far
        self._trunks_from = trunks_from * (len(network.up) + network.outside**2)
        self._flows_made = self._reserved = 0
        self._free_flows: list[int] = []

    # Flows ---------------------------------------------------------------------------------------
    def add(self, columns: Sequence[Array]) -> list[int]:
        """The numbers of new flows, which send nothing yet.

        ``columns``: their src, dst, coflow, size in bytes and weight; [flow] each.
        """
        first, new = self.started, self._new_flows(len(columns[0]))
        loops, on, given = self.loops, self.on, [new, *columns]
        if len(new) == 1:  # sooner done than handed over
            loops, on = _PLAIN, self.view
        if loops is not _PLAIN:
            given = [np.asarray(each, kind) for each, kind in zip(given, _COLUMNS, strict=True)]
        loops.ways.open_all(given[0], tuple(given[1:]), first, self.routes.racks, on)
        return new

    def ways(self, going: Numbers, *, has_trunks: bool = True) -> tuple[Numbers, int]:
        """[flow]: the number of the limited links that it crosses by packets; ``NONE``: none.

        That is another one once a link has got a limit, or has lost it.  Also returns how many
        flows have none, or nothing to send.  ``has_trunks``: they may join trunks, if they are
        many.
        """
        rows, trunked = self.view.groups.rows[0], self.view.work.counts[TRUNKED] // 2
        is_many = len(going) + rows + trunked >= self._trunks_from
        has_trunks = has_trunks and is_many and self.state.racks > 0
        self._ways.know(self.state.flows.route[going])
        self._take(grown(self.state, ways=self.view.work.counts[WAYS] + len(going)))
        found = np.full(len(going), NONE, np.int32)
        idle = self.loops.ways.find_all(
            self.given(going), self.given(found), has_trunks, self.on, self._w
        )
        return found, idle

    def send(self, new: Numbers, into: Numbers) -> None:
        """Let flows that send nothing, and have bytes for limited links, join rows of ways."""
        counts, many = self.view.work.counts, len(new)
        self._take(grown(self.state, rows=counts[ROWS] + max(many - counts[FREE_ROWS], 0)))
        self.make_room(many * self.state.listed)
        if many > 1 and self.state.listed:
            flows = self.state.flows
            first = self.state.lines.link[into << self.state.shift]  # loops go from link to link
            needs = (flows.size[new] - flows.sent[new]) / flows.weight[new]
            order = np.lexsort((needs, into, first))
            new, into = new[order], into[order]
        by_group, given = self.serves is Serves.COFLOWS, (self.given(new), self.given(into))
        self.loops.ways.join_all(*given, by_group, self.now_s, self.on)

    def settle(self, set_rates: Callable[[], bool]) -> bool:
        """Set rates until no nic holds trunks back; whether they could be set."""
        while not (is_set := set_rates()) and self.view.work.counts[SHORT]:
            self._set_apart()
        return bool(is_set)

    def stop(self, flow: int) -> None:
        if self.view.flows.row[flow] != NONE:
            self._leave(flow)
            self.free_rows()

    def free_rows(self) -> None:
        """Have rows that have no flows any more for others."""
        if self.view.work.counts[FREED]:
            self.loops.ways.free_rows(self.on)

    def take_ended(self) -> Numbers:
        """The flows that have ended since this was asked."""
        counts = self.view.work.counts
        ended: Numbers = self.state.work.ended[: counts[ENDED]].copy()
        counts[ENDED] = 0
        return ended

    def close(self, closing: Numbers) -> tuple[list[int], float]:
        """Have the numbers of flows that send nothing for others; also returns what these sent."""
        sent_bytes = self._book(closing)
        self.state.flows.coflow[closing] = NONE
        free: list[int] = closing.tolist()
        self._free_flows += free
        return free, sent_bytes

    # What can be asked ---------------------------------------------------------------------------
    def flows_of(self, coflow: int) -> list[int]:
        """The open flows of a coflow, as they came; none of ``NONE``."""
        flows = self.state.flows
        if coflow == NONE:
            return []
        found = np.flatnonzero(flows.coflow[: self._flows_made] == coflow)
        ordered: list[int] = found[np.argsort(flows.number[found])].tolist()
        return ordered

    def sent_bytes(self, flow: int) -> float:
        return float(rows.sent_by(flow, self.now_s, self.view))

    def rate_bytes_per_s(self, flow: int) -> float:
        row = self.view.flows.row[flow]
        rate = 0.0 if row == NONE else self.view.rows.rate[row] * self.view.flows.weight[flow]
        return float(rate)

    def carried(self, going: list[int]) -> tuple[Floats, Floats]:
        """Bytes carried so far by routes, and by links; ``going``: the flows that are open."""
        self._book(np.array(going, np.int32))
        work, network = self.state.work, self.network
        by_route, by_link = work.carried, np.zeros(len(network.capacities))
        np.add.at(by_link, network.up, work.carried_out)
        np.add.at(by_link, network.down, work.carried_in)
        for route in np.flatnonzero(by_route).tolist():
            for link in self.routes.between(route).links:
                by_link[link] += by_route[route]
        return by_route, by_link

    def load(self) -> Floats:
        """[link]: bytes/s of all flows on each link."""
        rows, many = self.state.rows, self.view.work.counts[ROWS]
        rates = rows.rate[:many] * rows.weight[:many] * (rows.flows[:many] > 0)
        links = rows.link.reshape(-1, 1 << self.state.shift)[:many, : self.state.longest]
        load = sum_by_link(links.T, rates, self.state.none + 1)
        if self.view.work.counts[TRUNKED]:
            flows, nics = self._trunked()
            rates = rows.rate[self.state.flows.row[flows]]
            load += sum_by_link(self.state.nics.link[nics].T, rates, self.state.none + 1)
        return load[:-1]

    # Links ---------------------------------------------------------------------------------------
    def set_capacity(self, link: int, bytes_per_s: float, open_flows: list[int]) -> list[int]:
        """Give a link another capacity.

        Where it gets or loses its limit, all flows have other paths, and send nothing: returns
        those that were sending.  ``send`` follows, and ``keep`` where flows keep what they have.
        """
        capacity = self.state.work.capacity
        capacity[link] = bytes_per_s
        self.state.groups.next_s[:] = -np.inf  # not known any more
        if self.is_limited[link] == np.isfinite(bytes_per_s):
            return []
        sending = [flow for flow in open_flows if self.view.flows.row[flow] != NONE]
        self._kept = [self.rate_bytes_per_s(flow) for flow in sending]
        for flow in sending:
            self._leave(flow)
        self.free_rows()
        self.is_limited[link] = np.isfinite(bytes_per_s)
        if self._longest() != self.state.longest:
            self._begin_anew()
        self._see_ways()
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
        self.view.work.counts[ROWS] = self._reserved = rows
        if rows:
            self._take(grown(self.state, rows=rows, cells=self.state.none + 2))

    def renumber(self) -> None:
        """Note that flows that are served one by one have other keys, in the same order."""
        flows, of_rows = self.state.flows, self.state.rows
        sending = np.flatnonzero(flows.row[: self._flows_made] != NONE)
        of_rows.key[flows.row[sending]] = flows.key[sending]
        lines = self.state.lines
        paths = np.flatnonzero(lines.head != NONE)
        lines.key[paths] = of_rows.key[lines.head[paths]]

    # Arrays --------------------------------------------------------------------------------------
    def compile(self) -> None:
        if self.loops is _PLAIN:
            self.loops = compiled(_LOOPS)
            self.on = self.loops.pointers(self.state)
            self._w = self.loops.pointers(self._ways.table)

    def open_group(self, group: int) -> None:
        """Have a group that has sent nothing yet."""
        self._take(grown(self.state, groups=group + 1))
        groups = self.view.groups
        groups.sent[group], groups.rate[group], groups.since_s[group] = 0.0, 0.0, self.now_s

    # Inside --------------------------------------------------------------------------------------
    def _new_state(self, capacity: Floats) -> State:
        longest = self._longest()
        one_by_one = self.serves in (Serves.SHORTEST, Serves.PRIORITIES)
        listed = 0 if one_by_one else 1 if self.by_bytes else longest
        has_keys = self.serves is Serves.PRIORITIES
        network, routes = self.network, self.routes.local + 1
        has_trunks = self.serves is Serves.ALL and len(network.up) >= 2 * network.outside
        racks, nodes = self.routes.racks if has_trunks else 0, len(network.up)
        sizes = len(capacity), longest, listed, routes, nodes, racks
        state = copied(empty_state(sizes, self.by_bytes, has_keys))
        state.work.capacity[:] = capacity
        state.nics.rack[:] = np.repeat(network.racks, 2)
        return state

    def _longest(self) -> int:
        """How many limited links a path has at most."""
        has_nics = self.is_limited[list(self.network.nics)].any()
        return self.network.longest if has_nics else max(self.network.longest - 2, 1)

    def _begin_anew(self) -> None:
        """Have rows of other lengths; there are none."""
        before, fresh = self.state, self._new_state(self.state.work.capacity)
        fresh = grown(fresh, flows=len(before.flows.row), groups=len(before.groups.cell))
        groups = fresh.groups._replace(sent=before.groups.sent, since_s=before.groups.since_s)
        work = fresh.work._replace(
            carried=before.work.carried,
            carried_out=before.work.carried_out,
            carried_in=before.work.carried_in,
        )
        self._take(fresh._replace(flows=before.flows, groups=groups, work=work))
        self.reserve_rows(self._reserved)

    def _take(self, state: State) -> None:
        if state is not self.state:
            self.state, self.view = state, views(state, self.state, self.view)
            self.on = self.view if self.loops is _PLAIN else self.loops.pointers(state)

    def _leave(self, flow: int) -> None:
        flows, group = self.view.flows, self.view.rows.group[self.view.flows.row[flow]]
        self.loops.rows.leave(flow, self.now_s, self.on)
        if self.by_bytes:
            self.view.groups.sent[group] -= flows.size[flow] - flows.sent[flow]

    def _see_ways(self) -> None:
        """Tell ways by the links that have limits now; no row has flows."""
        self.view.work.counts[WAYS] = 0
        self.state.work.trunk[:] = NONE
        links = np.stack([self.network.up, self.network.down], 1).ravel()
        self.state.nics.link[:] = np.where(self.is_limited[links], links, self.state.none)
        self._ways = WayTable(self.network, self.routes, self.is_limited, self.state)
        is_plain = self.loops is _PLAIN
        self._w = self._ways.view if is_plain else self.loops.pointers(self._ways.table)

    def _trunked(self) -> tuple[Numbers, Numbers]:
        """The flows of trunks, and [flow, up or down]: their nics."""
        of = self.state.flows
        sending = np.flatnonzero(of.row[: self._flows_made] != NONE)
        ways = self.state.rows.way[of.row[sending]]
        flows = sending[(ways != NONE) & self.state.lines.is_trunk[ways]]
        return flows.astype(np.int32), np.stack([2 * of.src[flows], 2 * of.dst[flows] + 1], 1)

    def _set_apart(self) -> None:
        """Give the flows over nics that hold trunks back rows of their own."""
        nics, view = self.state.nics, self.view
        flows, over = self._trunked()
        moving = flows[nics.is_short[over].any(axis=1)]
        for nic in np.flatnonzero(nics.is_short).tolist():
            own = view.cells.many[max(view.cell_of[nics.link[nic]], NO_CELL)]
            nics.apart[nic] = 2 * (own + nics.many[nic])
        nics.is_short[:] = False
        for flow in moving.tolist():
            self._leave(flow)
        self.free_rows()
        self.send(moving, self.ways(moving, has_trunks=False)[0])

    def _book(self, flows: Numbers) -> float:
        """Count what flows have sent since that was last done; returns what they have in all."""
        if len(flows) == 1:  # sooner done than handed over
            return rows.book_all(flows.tolist(), self.now_s, self.view)
        return float(self.loops.rows.book_all(self.given(flows), self.now_s, self.on))

    def given(self, numbers: Numbers | Bools) -> Array:
        return memoryview(numbers) if self.loops is _PLAIN else numbers  # type: ignore[arg-type]

    def _new_flows(self, many: int) -> list[int]:
        free, self.started = self._free_flows, self.started + many
        new = free[: -many - 1 : -1]
        del free[len(free) - len(new) :]
        if len(new) < many:
            first, self._flows_made = self._flows_made, self._flows_made + many - len(new)
            self._take(grown(self.state, flows=self._flows_made))
            new += range(first, self._flows_made)
        return new

    def make_room(self, more: int) -> None:
        """Have room for so many more entries, each of which may need a new cell.

        A cell's entries may have to move to where there is more room, some of them several times.
        """
        missing = more - self.view.work.counts[FREE_CELLS]
        if missing > 0:
            self._take(grown(self.state, cells=len(self.view.cells.link) + missing))
        there = self.view.work.counts[ROWS] * self.state.listed + more
        room, work = 4 * there + 4 * len(self.view.cells.link), self.state.work
        if there and work.counts[ENTRIES] + room > len(work.entries):
            places = 2 * room + there
            longer = work._replace(
                entries=np.zeros(places, np.int32),
                weights=np.zeros(places),
                crossed=np.zeros(places << self.state.shift, np.int32),
            )
            self._take(self.state._replace(work=longer))
            self.loops.rows.pack(work.entries, self.on)
