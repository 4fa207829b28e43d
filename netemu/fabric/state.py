"""A fabric's flows, coflows, groups and rates, and what can be asked of them.

Nothing changes here but one thing: rates that are out of date are set when they are read.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

import numpy as np

from railyard.cluster.errors import InvariantError
from railyard.cluster.ids import CoflowId, FlowId
from railyard.cluster.topology import Topology
from railyard.netemu.fabric.carried import all_under_way, sent_bytes
from railyard.netemu.fabric.rates import Rates
from railyard.netemu.fabric.recent import RecentChanges
from railyard.netemu.fabric.ways import Ways
from railyard.netemu.model.circuits import CircuitChange, CircuitState
from railyard.netemu.model.context import GroupContext
from railyard.netemu.model.flows import Coflow
from railyard.netemu.model.network import Network
from railyard.netemu.model.openflows import Flow
from railyard.netemu.schedulers.base import Fast, FlowScheduler


class FabricState:
    """What a fabric is at a time."""

    def __init__(
        self,
        topology: Topology,
        scheduler: FlowScheduler,
        *,
        fast: Fast | None = None,
        has_circuit_log: bool = True,
        has_table: bool = False,
    ) -> None:
        self.network = network = topology.derived(Network)
        #: seconds: flows that finish this close together finish at once; for a rough, quick answer
        self.together_s = 0.0
        self._fast = fast  #: takes over from the scheduler with many open flows
        self.finished_bytes = 0  #: sizes of the flows that have finished
        unlimited = set(np.flatnonzero(np.isinf(network.capacities)).tolist())
        self._context = GroupContext(len(network.capacities) + 1, unlimited, scheduler.rows_stay)
        self._rates = Rates(scheduler, network, self._context)
        self._ways = Ways(
            topology,
            scheduler,
            network,
            self._context,
            self._rates,
            has_circuit_log=has_circuit_log,
            has_table=has_table,
        )
        #: capacity of all racks' links together; inf if one of them is unlimited
        self.cross_rack_bytes_per_s = network.cross_rack_bytes_per_s(self._rates.capacities)
        self._flows: dict[FlowId, Flow] = {}
        self._table = self._ways.table  #: of those that have numbers for names, if any may
        self._coflows: dict[CoflowId, Coflow] = {}
        #: flows with nothing to send or no link to cross; they finish before time passes
        self._instant: dict[Flow, None] = {}
        self._sequence = 0
        self._idle = 0  #: how often rates were set since time passed, or a flow ended
        self._recent = RecentChanges()

    @property
    def now_s(self) -> float:
        """The time of the last ``advance`` or ``go_ahead``."""
        return self._context.now_s

    def next_event_s(self) -> float:
        """When the next flow ends or the scheduler wants to decide again; inf if neither will."""
        self._refresh()
        now_s, next_s = self._context.now_s, self._rates.next_s
        return now_s if self._instant or next_s < now_s else next_s

    def is_open(self, flow: FlowId) -> bool:
        """Whether there is such a flow, and it has not finished."""
        return flow in self._flows

    @property
    def open_flows(self) -> int:
        """How many flows are open."""
        rows = 0 if self._table is None else self._table.without_objects
        return len(self._flows) + rows

    @property
    def decided(self) -> int:
        """How many times rates were set; while it stays the same, so do the rates."""
        return self._rates.decided

    def coflow(self, coflow: CoflowId) -> Coflow:
        """A registered coflow's flows and times; read only.  ``KeyError`` if there is none."""
        return self._coflows[coflow]

    def sent_bytes(self, flow: FlowId) -> int:
        """Whole bytes that an open flow could send by now; ``KeyError`` if it is not open."""
        found = self._flows[flow]
        return int(found.group.sent_bytes_of(found))

    def sent_bytes_of(self, flows: Iterable[FlowId]) -> list[int]:
        """Like ``sent_bytes`` of each, at less than a third of the cost."""
        return [int(sent) for sent in sent_bytes([self._flows[flow] for flow in flows])]

    def rate_bytes_per_s(self, flow: FlowId) -> float:
        """The rate at which an open flow sends; ``KeyError`` if it is not open."""
        self._refresh()
        found = self._flows[flow]
        return inf if found in self._instant else found.group.rate_of(found)

    def free_bytes_per_s(self) -> dict[str, float]:
        """The unused capacity of each link, in bytes/s."""
        self._refresh()
        load = self._rates.load()
        if self._ways.plane is not None:
            load = load + self._ways.plane.load_of_pipes()
        free = np.maximum(self._rates.capacities - load, 0.0)
        return {name: float(free[number]) for name, number in self.network.number.items()}

    def capacities_bytes_per_s(self) -> dict[str, float]:
        """The capacity of each link, in bytes/s."""
        return {name: float(self._rates.capacities[n]) for name, n in self.network.number.items()}

    def changed_capacities(self) -> dict[str, float]:
        """Of links that carry more or less than the topology says, what they carry, in bytes/s."""
        now, stated = self._rates.capacities, self.network.capacities
        changed = set(np.flatnonzero(now[: len(stated)] != stated).tolist())
        return {name: float(now[n]) for name, n in self.network.number.items() if n in changed}

    def rates_bytes_per_s(self) -> dict[FlowId, float]:
        """The rate of every open flow, in bytes/s; see ``rate_bytes_per_s``."""
        return {flow: self.rate_bytes_per_s(flow) for flow in self._flows}

    def bytes_by_category(self) -> dict[str, int]:
        """Bytes carried so far; see ``Carried.by_category``."""
        return self._ways.carried.by_category(all_under_way(self._flows.values(), self._table))

    def bytes_by_link(self) -> dict[str, int]:
        """Bytes carried so far by each link."""
        totals = self._ways.carried.by_link(all_under_way(self._flows.values(), self._table))
        return {name: totals[number] for name, number in self.network.number.items()}

    def circuits(self) -> list[CircuitState]:
        """The circuits that there are now; none where the flow scheduler uses none."""
        self._refresh()
        return [] if self._ways.plane is None else self._ways.plane.circuits()

    def next_lit_s(self) -> float:
        """When the first circuit that is dark becomes lit; inf if none is dark."""
        self._refresh()
        return self._ways.next_lit_s()

    def circuit_changes(self, after: int = 0) -> tuple[int, list[CircuitChange]]:
        """The changes of circuits after the first ``after``, and how many there were in all."""
        self._refresh()
        if self._ways.plane is None:
            return 0, []
        return self._ways.plane.switch.changes(self._context.now_s, after)

    # Inside --------------------------------------------------------------------------------------
    def _refresh(self) -> None:
        """Have rates set, if flows or capacities have changed since."""
        if not self._rates.stale:
            return
        if self._fast is not None and self.open_flows >= self._fast.from_flows:
            self._go_over_to(self._fast)
        try:
            self._rates.decide(self._ways.follow_circuits())
        except InvariantError as error:
            self._recent.add_to(error)
            raise

    def _go_over_to(self, fast: Fast) -> None:
        self._rates.scheduler, self._fast = fast.make(), None
        self._context.rows_stay = self._rates.scheduler.rows_stay
        self._ways.compile()
