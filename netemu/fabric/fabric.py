"""The network as a fluid: between events, every flow sends at a constant rate.

``Fabric`` is a state machine without a clock: whoever drives it says what time it is.  The
emulator drives it with real time, a simulator from event to event; neither can be told apart
here.  It never does I/O and knows nothing of real bytes.

    fabric.advance(now_s) -> flows that finished, each with its exact time
    fabric.start(...), fabric.grow(...), fabric.cancel(...), fabric.set_capacity(...)  (at now_s)
    fabric.next_event_s() -> when something will happen by itself: a flow finishes, or the flow
                             scheduler wants to decide again

Everything that happens at one instant is decided on once: flows that end are ended by ``advance``,
then come the driver's own calls, and rates are set when they are next asked for, or time goes on.
Times that differ by rounding only are one instant (``instant_s``).
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from operator import attrgetter

import numpy as np

from railyard.cluster.errors import InvariantError
from railyard.cluster.ids import CoflowId, FlowId
from railyard.cluster.topology import Topology
from railyard.netemu.circuits.group import CircuitGroup
from railyard.netemu.circuits.log import CircuitChange, CircuitState
from railyard.netemu.circuits.pipe import Pipe
from railyard.netemu.circuits.plane import CircuitPlane
from railyard.netemu.circuits.switch import OpticalSwitch
from railyard.netemu.fabric.carried import Carried, sent_bytes, under_way
from railyard.netemu.fabric.classes import Coflow, Flow
from railyard.netemu.fabric.finishes import Finishes
from railyard.netemu.fabric.groups import FlowGroup
from railyard.netemu.fabric.loads import LinkLoads
from railyard.netemu.fabric.routes import Network, check_capacity
from railyard.netemu.fabric.world import World
from railyard.netemu.model.flows import Finished, FlowSpec
from railyard.netemu.model.instants import instant_s
from railyard.netemu.model.traffic import Traffic
from railyard.netemu.schedulers.base import FlowScheduler

#: what flow schedulers see
AnyGroup = FlowGroup | CircuitGroup

#: So many open flows are worth the half second that it takes to load compiled loops.
CROWD = 2_000


class Fabric:
    """Flows over the links of a topology, at the rates that a flow scheduler sets."""

    def __init__(
        self, topology: Topology, scheduler: FlowScheduler, *, has_circuit_log: bool = True
    ) -> None:
        self.network = Network(topology)
        self._scheduler = scheduler
        #: flows that finish this close together finish at once; for a rough, quick answer
        self.together_s = 0.0
        #: from so many open flows on, compiled loops set rates; ``CROWD`` is a good number
        self.compiles_at = np.inf
        # the last link is no link: it fills up short routes
        self._capacities = np.append(self.network.capacities, np.inf)
        #: what all racks' links together can carry; inf if one of them is unlimited
        self.cross_rack_bytes_per_s = self.network.cross_rack_bytes_per_s(self._capacities)
        unlimited = set(np.flatnonzero(np.isinf(self.network.capacities)).tolist())
        self._world = World(len(self._capacities), unlimited, scheduler.rows_stay)
        self._flows: dict[FlowId, Flow] = {}
        self._coflows: dict[CoflowId, Coflow] = {}
        #: a coflow's group lives as long as the coflow, others as long as they have flows
        self._groups: dict[str, FlowGroup] = {}
        #: instead of those, for schedulers that do not care
        self._all = None if scheduler.by_coflow else FlowGroup("", self._world)
        self._looks_at_flows = scheduler.looks_at_flows()
        #: those of them that have something to send, by the scheduler's own order of arrival
        self._sending: dict[AnyGroup, None] = {}
        #: those whose flows have changed since the last decision
        self._changed: dict[AnyGroup, None] = {}
        self._finishes: Finishes[AnyGroup | Pipe] = Finishes()
        #: flows with nothing to send or no link to cross; they finish before time passes
        self._instant: dict[Flow, None] = {}
        self._stale = False  #: whether the scheduler must decide before time passes
        self._capacity_changed = False
        self._decide_s = np.inf  #: when it wants to in any case
        self._next_s = np.inf  #: when that is, or a flow finishes; unless it is stale
        self._plane: CircuitPlane | None = None  #: the circuits, if there are some that are used
        if scheduler.uses_circuits and topology.ocs is not None:
            switch = OpticalSwitch(topology, has_log=has_circuit_log)
            urgency = scheduler.circuit_urgency
            self._plane = CircuitPlane(topology, switch, self.network, self._world, urgency, self)
        self._is_port = np.zeros(len(self._capacities), dtype=bool)
        self._is_port[[self.network.number[name] for name in self.network.ports]] = True
        self._loads = LinkLoads(self._capacities)
        self._sequence = 0
        self.finished_bytes = 0  #: sizes of the flows that have finished
        self._carried = Carried(len(self._capacities))

    @property
    def now_s(self) -> float:
        """The time that it has been told last."""
        return self._world.now_s

    # What happens to it --------------------------------------------------------------------------
    def start(self, spec: FlowSpec) -> None:
        """Open a flow now.

        Raises ``ValueError`` if its name is in use, or if its nodes or its coflow do not exist.
        """
        name, size_bytes, weight, coflow = spec.flow, spec.size_bytes, spec.weight, None
        if name in self._flows:
            raise ValueError(f'flow "{name}" is open already')
        if spec.coflow is not None:
            coflow = self._coflows.get(spec.coflow)
            if coflow is None:
                raise ValueError(f'coflow "{spec.coflow}" is not registered')
        if size_bytes < 0 or not 0 < weight < inf:
            raise ValueError(f'flow "{name}": need a size >= 0 and a weight > 0')
        route, group = self.network.route(spec.src, spec.dst), self._group_of(spec)
        flow = Flow(spec, route, self._sequence, size_bytes, spec.more, group, coflow, weight)
        self._sequence += 1
        self._flows[name] = flow
        if coflow is not None:
            coflow.flows[name] = None
            if coflow.started_s is None:
                coflow.started_s = self._world.now_s
        if size_bytes and route.path and self._plane is None:  # as most do: like ``_send``
            self._join(flow, group, size_bytes)
        else:
            self._send(flow)

    def grow(self, flow: FlowId, by_bytes: int, more: bool) -> None:
        """An open flow that was started with ``more`` has so many more bytes to send.

        It finishes once it has sent all bytes and no ``more`` are to come.  Raises ``ValueError``
        if there is no such flow, if it is complete, or if ``by_bytes`` is below 0.
        """
        found = self._flows.get(flow)
        if found is None:
            raise ValueError(f'flow "{flow}" is not open')
        if not found.more:
            raise ValueError(f'flow "{flow}" is complete: it was not started with "more"')
        if by_bytes < 0:
            raise ValueError(f'flow "{flow}" grows by {by_bytes} bytes: need 0 or more')
        self.stop(found)
        found.size_bytes += by_bytes
        found.more = more
        self._send(found)

    def cancel(self, flow: FlowId) -> bool:
        """Close a flow before its end; False if none of that name is open."""
        found = self._flows.get(flow)
        if found is None:
            return False
        self._withdraw(found)
        self._carried.book(found)
        self._close([found])
        return True

    def register_coflow(self, coflow: CoflowId) -> None:
        """Accept flows of this coflow; ``ValueError`` if it is registered."""
        if coflow in self._coflows:
            raise ValueError(f'coflow "{coflow}" is registered already')
        self._coflows[coflow] = Coflow()

    def finish_coflow(self, coflow: CoflowId) -> list[FlowId]:
        """Forget a coflow, cancelling (and returning) flows of it that are still open.

        Raises ``ValueError`` if it is not registered.
        """
        if coflow not in self._coflows:
            raise ValueError(f'coflow "{coflow}" is not registered')
        still_open = list(self._coflows[coflow].flows)
        for flow in still_open:
            self.cancel(flow)
        del self._coflows[coflow]
        self._groups.pop(coflow, None)
        return still_open

    def set_capacity(self, link: str, bytes_per_s: float) -> None:
        """Give a link another capacity from now on; 0 stops it.  ``ValueError`` if unknown."""
        if link not in self.network.number:
            raise ValueError(f'"{link}" is no link of this topology')
        check_capacity(link, bytes_per_s)
        number = self.network.number[link]
        limited = np.isfinite(self._capacities[number])
        self._capacities[number] = bytes_per_s
        self._loads.limit(self._capacities)
        self.cross_rack_bytes_per_s = self.network.cross_rack_bytes_per_s(self._capacities)
        self._capacity_changed = True
        if self._plane is not None:
            self._plane.limits_changed()
        self._stale = True
        if limited != np.isfinite(bytes_per_s):
            self._world.unlimited ^= {number}
            for group in self._sending:
                group.limits_changed()
                self._changed[group] = None

    def advance(self, now_s: float) -> list[Finished]:
        """Let time pass until ``now_s``; returns what finished on the way, in order.

        What finishes at that very instant does so, too, but what comes of it is decided on later,
        together with all else that happens then.  Raises ``InvariantError`` if ``now_s`` is in the
        past.
        """
        world = self._world
        if now_s < world.now_s:
            raise InvariantError(f"the network's clock is at {world.now_s}, beyond {now_s}")
        finished: list[Finished] = []
        slack_s = instant_s(now_s)
        decided = now_s == world.now_s  #: or will be, as no time passes until then
        while (due_s := self._happens_s(now_s, slack_s, decided)) <= now_s:
            world.now_s = due_s
            decided = now_s - due_s <= slack_s
            ended = self._take_ended(now_s + slack_s if decided else due_s)
            self._carried.book_ended(ended)
            self._close(ended)
            for flow in ended:
                self.finished_bytes += flow.size_bytes
                if flow.coflow is not None:
                    flow.coflow.finished_s = due_s
                finished.append(Finished(flow.spec.flow, due_s, flow.spec.coflow))
            self._stale = True
        world.now_s = now_s
        return finished

    # What can be seen of it ----------------------------------------------------------------------
    def next_event_s(self) -> float:
        """When something happens if nothing else does before: a flow's end, or a decision.

        inf if nothing will.
        """
        self._refresh()
        now_s, next_s = self._world.now_s, self._next_s
        return now_s if self._instant or next_s < now_s else next_s

    def is_open(self, flow: FlowId) -> bool:
        """Whether there is such a flow, and it has not finished."""
        return flow in self._flows

    @property
    def open_flows(self) -> int:
        """How many flows are open."""
        return len(self._flows)

    def coflow(self, coflow: CoflowId) -> Coflow:
        """A registered coflow's flows and times; to be read only.  ``KeyError`` if it is not."""
        return self._coflows[coflow]

    def sent_bytes(self, flow: FlowId) -> int:
        """Whole bytes that an open flow could send by now; ``KeyError`` if it is not open."""
        found = self._flows[flow]
        return int(found.belongs.sent_bytes_of(found))

    def sent_bytes_of(self, flows: Iterable[FlowId]) -> list[int]:
        """Like ``sent_bytes`` of each, at less than a third of the cost."""
        return [int(sent) for sent in sent_bytes([self._flows[flow] for flow in flows])]

    def rate_bytes_per_s(self, flow: FlowId) -> float:
        """The rate at which an open flow sends; ``KeyError`` if it is not open."""
        self._refresh()
        found = self._flows[flow]
        return np.inf if found in self._instant else found.belongs.rate_of(found)

    def free_bytes_per_s(self) -> dict[str, float]:
        """What of each link's capacity no flow uses now."""
        self._refresh()
        load = self._loads.total
        if self._plane is not None:
            load = load + self._plane.load_of_pipes()
        free = np.maximum(self._capacities - load, 0.0)
        return {name: float(free[number]) for name, number in self.network.number.items()}

    def capacities_bytes_per_s(self) -> dict[str, float]:
        """What each link can carry now."""
        return {name: float(self._capacities[n]) for name, n in self.network.number.items()}

    def rates_bytes_per_s(self) -> dict[FlowId, float]:
        """The rate of every open flow, as ``rate_bytes_per_s`` tells it."""
        return {flow: self.rate_bytes_per_s(flow) for flow in self._flows}

    def bytes_by_category(self) -> dict[str, int]:
        """Bytes carried so far: local, rack, cross_rack, and the last's eps, ocs and wan."""
        return self._carried.by_category(under_way(self._flows.values()))

    def bytes_by_link(self) -> dict[str, int]:
        """Bytes carried so far by each link."""
        totals = self._carried.by_link(under_way(self._flows.values()))
        return {name: totals[number] for name, number in self.network.number.items()}

    def circuits(self) -> list[CircuitState]:
        """The circuits that there are now; none where the flow scheduler uses none."""
        self._refresh()
        return [] if self._plane is None else self._plane.switch.circuits()

    def next_lit_s(self) -> float:
        """When the first of the circuits that are dark will carry; inf if none is."""
        self._refresh()
        return np.inf if self._plane is None else self._plane.switch.next_ready_s(self.now_s)

    def circuit_changes(self, after: int = 0) -> tuple[int, list[CircuitChange]]:
        """What has become of circuits, but for the first ``after`` changes, and how many in all."""
        self._refresh()
        if self._plane is None:
            return 0, []
        return self._plane.switch.changes(self._world.now_s, after)

    # What circuits do to flows -------------------------------------------------------------------
    def stop(self, flow: Flow) -> None:
        """Let a flow send nothing for now."""
        group = flow.belongs
        if flow.group is None and isinstance(group, FlowGroup):
            group.admit()  # it may have only just come
        if flow.group is not None:
            group.remove(flow)
            if not isinstance(group, Pipe):
                self._note_change(group)

    def send_by(self, flow: Flow, circuit: CircuitGroup | Pipe | None) -> None:
        """Let a flow, which is in no group, send through a circuit or by packets from now on."""
        spec = flow.spec
        find = self.network.route if circuit is None else self.network.circuit
        route = find(spec.src, spec.dst)
        if route.path != flow.route.path:
            self._carried.book(flow)
            flow.route = route
        left_bytes = flow.size_bytes - flow.sent_bytes
        if circuit is None:
            group = flow.belongs = self._group_of(spec)
            self._join(flow, group, left_bytes)
            return
        flow.belongs = circuit
        circuit.add(flow, self._scheduler.weight(spec, left_bytes))
        if not isinstance(circuit, Pipe):
            self._sending[circuit] = None
            self._note_change(circuit)

    # Inside: time --------------------------------------------------------------------------------
    def _happens_s(self, until_s: float, slack_s: float, later: bool) -> float:
        """When something happens next, up to then or just after; inf if nothing does.

        ``later``: what is to be decided on will be later.
        """
        decide_s = np.inf
        if not (later and self._stale):
            self._refresh()
            decide_s = self._decide_s
        now_s = self._world.now_s
        if self._instant:
            return now_s
        first_s = self._finishes.first_s()
        if first_s <= until_s + slack_s:
            first_s = min(first_s, until_s)
        return max(min(first_s, decide_s), now_s)

    # Inside: flows and their groups --------------------------------------------------------------
    def _group_of(self, spec: FlowSpec) -> FlowGroup:
        if self._all is not None:
            return self._all
        key = spec.coflow if spec.coflow is not None else f"flow {spec.flow}"
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = FlowGroup(key, self._world)
        return group

    def _send(self, flow: Flow) -> None:
        """Let a flow that is in no class send what it has."""
        remaining = flow.size_bytes - flow.sent_bytes
        if remaining <= 0 or not flow.route.path:
            self._rest(flow)
            if not flow.more:
                self._instant[flow] = None
            elif remaining > 0:
                flow.sent_bytes = float(flow.size_bytes)
            return
        if self._plane is not None and flow.route.crosses_racks:
            self._stale = True
            self._plane.wants(flow, self._world.now_s)
            return
        assert isinstance(flow.belongs, FlowGroup)
        self._join(flow, flow.belongs, remaining)

    def _join(self, flow: Flow, group: FlowGroup, remaining: float) -> None:
        if self._looks_at_flows:
            spec, scheduler = flow.spec, self._scheduler
            flow.apart, flow.weight = scheduler.tells_apart(spec), scheduler.weight(spec, remaining)
        if not group.stale:  # nor noted
            self._sending[group] = self._changed[group] = None
            self._stale = True
        group.add(flow)

    def _withdraw(self, flow: Flow) -> None:
        """Let a flow send nothing any more."""
        self._instant.pop(flow, None)
        self.stop(flow)
        self._rest(flow)

    def _rest(self, flow: Flow) -> None:
        """It has nothing to send."""
        if self._plane is not None and flow.batch is not None:
            self._plane.rests(flow, self._world.now_s)
            self._stale = True

    def _note_change(self, group: AnyGroup) -> None:
        self._changed[group] = None
        self._stale = True

    def _take_ended(self, by_s: float) -> list[Flow]:
        """The flows that finish now, or by then; those that wait for more bytes only stop."""
        if self._instant:  # alone: those that are nearly due have their own time
            instant = list(self._instant)
            self._instant.clear()
            return instant
        ended: list[Flow] = []
        now_s = self._world.now_s
        by_s = max(by_s, now_s + max(instant_s(now_s), self.together_s))
        while self._finishes.first_s() <= by_s:
            group = self._finishes.take()
            due = group.take_due(by_s)
            if self._plane is not None:
                for flow in due:
                    self._plane.rests(flow, self._world.now_s)
            ended += [flow for flow in due if not flow.more]
            if not isinstance(group, Pipe):
                self._note_change(group)
        return sorted(ended, key=attrgetter("sequence"))

    def _close(self, flows: list[Flow]) -> None:
        for flow in flows:
            name, coflow = flow.spec.flow, flow.coflow
            del self._flows[name]
            if coflow is not None:
                del coflow.flows[name]
            elif self._all is None:
                self._groups.pop(flow.belongs.key, None)

    # Inside: rates -------------------------------------------------------------------------------
    def _refresh(self) -> None:
        """Have rates that fit the flows."""
        if self._stale:
            self._stale = False
            self._decide()
            self._next_s = min(self._finishes.first_s(), self._decide_s)

    def _decide(self) -> None:
        if len(self._flows) >= self.compiles_at:
            self._compile()
        carries_s = np.inf
        if self._plane is not None:
            carries_s = self._plane.decide(self._world.now_s, self._capacities)
            if not (self._changed or self._capacity_changed):
                self._decide_s = carries_s  # nothing but circuits that are alone has changed
                self._note_finishes()
                return
        self._capacity_changed = False
        for group in self._changed:
            if group.is_empty:
                self._sending.pop(group, None)
                self._loads.forget(group)
                group.quiet()
            else:
                group.admit()
        changed = frozenset(group for group in self._changed if not group.is_empty)
        self._changed.clear()
        capacities = self._capacities.copy()
        traffic = Traffic(
            self._world.now_s, capacities, self._sending.keys(), changed, self._is_port
        )
        self._decide_s = min(self._scheduler.decide(traffic), carries_s)
        self._take_rates(changed)

    def _compile(self) -> None:
        self._scheduler, self.compiles_at = self._scheduler.compiled(), np.inf
        if self._plane is not None:
            self._plane.compile()

    def _take_rates(self, changed: frozenset[AnyGroup]) -> None:
        """Note the rates that have been set, unless a link would carry more than it can."""
        name = self._scheduler.name
        if any(group.stale for group in changed):
            raise InvariantError(f"{name} left the rates of changed flows as they were")
        if self._decide_s < self._world.now_s:
            raise InvariantError(f"{name} wants to decide at {self._decide_s}, in the past")
        retimed = dict.fromkeys(self._world.retimed)
        self._loads.count([group for group in retimed if not isinstance(group, Pipe)])
        self._note_finishes()
        if over := self._loads.beyond():
            names = [link for link, number in self.network.number.items() if number in over]
            raise InvariantError(f"{name} set rates beyond the capacity of {', '.join(names)}")

    def _note_finishes(self) -> None:
        self._finishes.note(self._world.retimed)
        self._world.retimed.clear()
