"""How flows go: by packets, in the group of their coflow or of all flows; or by circuits."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import groupby
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, assert_never

from railyard.cluster.ids import NodeId
from railyard.cluster.topology import Topology
from railyard.netemu.circuits.moves import Attach, Detach, Move, SendByPackets
from railyard.netemu.circuits.plane import CircuitPlane
from railyard.netemu.fabric.carried import Carried
from railyard.netemu.fabric.groups import FlowGroup
from railyard.netemu.fabric.rates import Rates
from railyard.netemu.model.arrays import Numbers
from railyard.netemu.model.context import GroupContext
from railyard.netemu.model.flows import CoflowPast, FlowSpec
from railyard.netemu.model.links import Route
from railyard.netemu.model.network import Network
from railyard.netemu.model.openflows import CircuitCarrier, Flow
from railyard.netemu.schedulers.base import FlowScheduler

if TYPE_CHECKING:  # importing it loads compiled loops
    from railyard.netemu.circuits.fast.plane import CompiledPlane
    from railyard.netemu.fabric.flowtable import FlowTable


class Ways:
    """The groups of a network's flows, and its circuits, if the flow scheduler uses any."""

    def __init__(
        self,
        topology: Topology,
        scheduler: FlowScheduler,
        network: Network,
        context: GroupContext,
        rates: Rates,
        *,
        has_circuit_log: bool,
        has_table: bool,
    ) -> None:
        self.carried = Carried(context.links)
        self.plane: CircuitPlane | CompiledPlane | None = None
        if scheduler.circuit_policy is not None and topology.ocs is not None:
            self.plane = CircuitPlane(
                topology, scheduler.circuit_policy, network, context, has_log=has_circuit_log
            )
        self._network = network
        self._context = context
        self._rates = rates
        self._looks_at_flows = scheduler.looks_at_flows()
        self._compiles = False  #: whether circuits are chosen by compiled loops
        #: a coflow's group lives as long as the coflow, others as long as they have flows
        self._groups: dict[str, FlowGroup] = {}
        #: the one group, for schedulers that do not look at coflows
        self._all: FlowGroup | FlowTable | None = None
        self.table: FlowTable | None = None  #: the one group, if flows need no objects
        if has_table and scheduler.takes_rows():
            from railyard.netemu.fabric.flowtable import FlowTable
            from railyard.netemu.fabric.pairlinks import PairLinks

            numbers = {node.id: number for number, node in enumerate(topology.nodes())}
            links = PairLinks(topology, network, context)
            self._all = self.table = FlowTable(context, links, numbers)
        elif not scheduler.by_coflow:
            self._all = FlowGroup("", context)

    def group_of(self, spec: FlowSpec) -> FlowGroup | FlowTable:
        """The group that a flow belongs to if it goes by packets."""
        if self._all is not None:
            return self._all
        key = spec.coflow if spec.coflow is not None else f"flow {spec.flow}"
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = FlowGroup(key, self._context)
        return group

    def take_up(self, coflow: str, past: CoflowPast) -> None:
        """Go on with a coflow of another fabric, for schedulers that look at coflows."""
        if self._all is None:
            group = self._groups[coflow] = FlowGroup(coflow, self._context)
            group.arrived_s = past.arrived_s
            group.has_sent(past.ended_bytes)

    def sent_bytes_of(self, coflow: str) -> float:
        """Bytes that a coflow's flows have sent by packets, ended ones included.

        0 where schedulers do not look at coflows.
        """
        group = self._groups.get(coflow)
        return 0.0 if group is None else group.sent_bytes()

    def forget(self, key: str) -> None:
        """Drop the group of a coflow that is gone, or of a flow without one."""
        self._groups.pop(key, None)

    def send_all(self, flows: list[Flow]) -> None:
        """Let new flows send what they have."""
        plane = self.plane
        if isinstance(plane, CircuitPlane):
            for flow in flows:
                self.send(flow, flow.size_bytes)
            return
        if plane is not None:
            plane.start_new([flow for flow in flows if flow.route.crosses_racks])
            self._rates.stale = True
            flows = [flow for flow in flows if not flow.route.crosses_racks]
        if self._looks_at_flows:
            for flow in flows:
                self._look_at(flow, flow.size_bytes)
        for group, coming in groupby(flows, attrgetter("group")):
            if not group.stale:  # nor noted
                self._rates.note_change(group)
            group.add_all(coming)

    def send_rows(self, table: FlowTable, flows: Numbers) -> None:
        """Let new flows without objects send; see ``FlowTable.add_rows``."""
        if not table.stale:  # nor noted
            self._rates.note_change(table)
        table.add_rows(flows)

    def send(self, flow: Flow, left_bytes: float) -> None:
        """Let a flow that has no row send what it has."""
        if self.plane is None or not flow.route.crosses_racks:
            self._join(flow, left_bytes)
            return
        self._rates.stale = True
        group = self.plane.start(flow)
        if group is not None:
            self._send_through([flow], group)

    def stop(self, flow: Flow) -> None:
        """Let a flow send nothing for now."""
        group = flow.group
        if flow.flow_class is None:
            group.admit()  # it may be new
        if flow.flow_class is not None:
            group.remove(flow)
            self._rates.note_change(group)

    def rest(self, flow: Flow) -> None:
        """Note that a flow that has no row has nothing to send."""
        if self.plane is not None and self.plane.stop(flow):
            self._rates.stale = True

    def follow_circuits(self) -> float | None:
        """Decide on circuits, and move flows to them and off them.

        Returns when to decide again; None where there are no circuits.
        """
        plane = self.plane
        if plane is None:
            return None
        if plane.limits_have_changed:
            plane = self.plane = _plain(plane)
        for move in plane.decide(self._rates.capacities):
            self._apply(move)
        if self._compiles:
            plane = self.plane = self._compiled(plane)
        return plane.decide_again_s()

    def compile(self) -> None:
        """Have compiled loops decide on circuits from now on."""
        self._compiles = True

    def runs(self) -> CompiledPlane | None:
        """The compiled plane if it can go ahead alone, as no flow goes by packets; else None."""
        plane = self.plane
        if plane is None or isinstance(plane, CircuitPlane) or self._rates.is_sending:
            return None
        return plane

    def next_lit_s(self) -> float:
        """When the first circuit that is dark becomes lit; inf if none is dark."""
        return inf if self.plane is None else self.plane.next_ready_s()

    # Inside --------------------------------------------------------------------------------------
    def _compiled(self, plane: CircuitPlane | CompiledPlane) -> CircuitPlane | CompiledPlane:
        """The compiled version of a plane; the same plane where there can be none."""
        if not isinstance(plane, CircuitPlane):
            return plane
        scheduler = self._rates.scheduler
        if scheduler.by_coflow or self._looks_at_flows or not plane.may_be_compiled():
            plane.compile()
            return plane
        from railyard.netemu.circuits.fast.handover import take_over

        return take_over(plane, self._route_by_circuit)

    def _apply(self, move: Move) -> None:
        match move:
            case Detach(flows):
                for flow in flows:
                    self.stop(flow)
            case Attach(flows, group):
                self._send_through(flows, group)
                group.fill()
            case SendByPackets(flows):
                for flow in flows:
                    self._send_by_packets(flow)
            case _:
                assert_never(move)

    def _send_through(self, flows: Collection[Flow], circuit: CircuitCarrier) -> None:
        for flow in flows:
            self._route_by_circuit(flow)
            flow.group = circuit
            if self._looks_at_flows:
                self._look_at(flow, flow.size_bytes - flow.sent_bytes)
        if not circuit.stale:  # nor noted
            self._rates.note_change(circuit)
        circuit.add_all(flows)

    def _send_by_packets(self, flow: Flow) -> None:
        self._set_route(flow, self._network.route)
        flow.group = self.group_of(flow.spec)
        self._join(flow, flow.size_bytes - flow.sent_bytes)

    def _route_by_circuit(self, flow: Flow) -> None:
        self._set_route(flow, self._network.circuit)

    def _set_route(self, flow: Flow, find: Callable[[NodeId, NodeId], Route]) -> None:
        route = find(flow.spec.src, flow.spec.dst)
        if route.path != flow.route.path:
            if flow.sent_bytes != flow.booked_bytes:
                self.carried.book(flow)
            flow.route = route

    def _look_at(self, flow: Flow, left_bytes: float) -> None:
        """Have the scheduler say what class and weight a flow has."""
        spec, scheduler = flow.spec, self._rates.scheduler
        flow.class_key = scheduler.class_key(spec)
        flow.weight = scheduler.weight(spec, left_bytes)

    def _join(self, flow: Flow, left_bytes: float) -> None:
        if self._looks_at_flows:
            self._look_at(flow, left_bytes)
        group = flow.group
        if not group.stale:  # nor noted
            self._rates.note_change(group)
        group.add(flow)


def _plain(plane: CircuitPlane | CompiledPlane) -> CircuitPlane:
    """The plane without compiled loops, which can follow changed capacities."""
    if isinstance(plane, CircuitPlane):
        return plane
    from railyard.netemu.circuits.fast.handover import give_back

    return give_back(plane)
