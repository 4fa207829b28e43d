"""Simulates a trace of coflows without tasks, to compare flow schedulers.

Time jumps from event to event; every arrival and every end is at its exact time.  A coflow's
completion time is from its arrival to the end of its last flow.  Traffic within a rack crosses no
link and takes no time.

CoflowSim, which most papers use, differs.  There rates change only when a coflow arrives or ends,
time advances in steps of 8 ms, and arrivals count from the start of their epoch of 10 s.  Each
reducer gets at least 1 MB from each mapper, and traffic within a rack takes bandwidth of its port.
A megabyte takes 8 ms of a port in both: here it is 10**6 bytes at 1 Gbps, there 2**20 bytes at
128 MiB in 1.024 s.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from railyard.cluster.errors import InvariantError, UsageError
from railyard.cluster.ids import CoflowId, FlowId
from railyard.cluster.topology import Topology
from railyard.jobs.workloads.coflows import CoflowTrace, TraceCoflow
from railyard.netemu.emulator.statistics import link_skew, network_utilization
from railyard.netemu.fabric.fabric import MANY_FLOWS, Fabric
from railyard.netemu.messages import FinishCoflow, RegisterCoflow
from railyard.netemu.model.flows import FlowRows
from railyard.netemu.schedulers.base import FlowScheduler
from railyard.resourcemanager.driving.report import spread
from railyard.simulator.clock import few_collections

#: So many seconds of the trace pass at once where none arrives, so that progress can be shown.
_STEP_S = 10.0


@dataclass(slots=True)
class CoflowRecord:
    """One coflow of the trace: its open flows and when it finished."""

    coflow: TraceCoflow
    open_flows: int = 0
    finished_s: float | None = None

    @property
    def cct_s(self) -> float | None:
        """Coflow completion time in seconds; None until the coflow has finished."""
        return None if self.finished_s is None else self.finished_s - self.coflow.arrival_s


class CoflowRun:
    """A run of one trace on one topology with one flow scheduler.

    Raises ``UsageError`` if the topology has fewer racks than the trace.
    """

    def __init__(self, trace: CoflowTrace, topology: Topology, scheduler: FlowScheduler) -> None:
        racks = topology.rack_list()
        if len(racks) < trace.racks:
            right = f"at least the {trace.racks} racks of {trace.name}"
            raise UsageError(f"topology {topology.name} has {len(racks)} racks: need {right}")
        self.trace = trace
        self.topology = topology
        self.fabric = Fabric(topology, scheduler, compiled_from=MANY_FLOWS)
        self.events = 0  #: steps of the clock
        self.records = {CoflowId(coflow.name): CoflowRecord(coflow) for coflow in trace.coflows}
        self.finished = 0  #: coflows
        self._scheduler = scheduler
        #: [rack]: the number of its first node; then how many there are
        self._first_node = np.cumsum([0, *(len(rack.nodes) for rack in racks)])

    def run(self, watch: Callable[[CoflowRun], None] = lambda _: None) -> None:
        """Run to the end; ``watch`` is called after each event, to show progress.

        Raises ``InvariantError`` if flows remain that can never finish.
        """
        with few_collections():
            for coflow in self.trace.coflows:
                self._run_until(coflow.arrival_s, watch)
                self._begin(coflow)
                watch(self)
            self._run_until(math.inf, watch)
        if self.finished < len(self.records):
            stuck = [name for name, record in self.records.items() if record.finished_s is None]
            raise InvariantError(f"{self._scheduler.name} never lets coflow {stuck[0]} finish")

    def summary(self) -> dict[str, Any]:
        """Results in the format of ``summary.json``; each coflow is a job with only a shuffle."""
        records = list(self.records.values())
        ccts_s = [record.cct_s for record in records if record.cct_s is not None]
        begins_s = [record.coflow.arrival_s for record in records]
        ends_s = [record.finished_s for record in records if record.finished_s is not None]
        width = self.trace.width
        stats = self.fabric.stats(opened=width, finished=width - self.fabric.open_flows)
        return {
            "scheduler": None,
            "flow_scheduler": self._scheduler.name,
            "topology": self.topology.name,
            "workload": self.trace.name,
            "clock": "virtual",
            "seed": None,
            "scale": self.topology.scale,
            "makespan_s": max(ends_s, default=0.0) - min(begins_s, default=0.0),
            "jct_s": spread(ccts_s),
            "cct_s": spread(ccts_s),
            "bytes": stats.bytes,
            "link_skew": link_skew(stats),
            "network_utilization": network_utilization(stats),
            "flows": stats.flows_opened,
            "events": self.events,
            "jobs": [_job(name, record) for name, record in self.records.items()],
        }

    # Inside --------------------------------------------------------------------------------------
    def _run_until(self, until_s: float, watch: Callable[[CoflowRun], None]) -> None:
        """Advance to ``until_s``, and set no rates there: more coflows may arrive at that time."""
        fabric = self.fabric
        while fabric.now_s < until_s and (due_s := fabric.next_event_s()) < until_s:
            self._advance(min(until_s, due_s + _STEP_S))
            watch(self)
        if fabric.now_s < until_s < math.inf:
            self._advance(until_s)

    def _advance(self, until_s: float) -> None:
        fabric = self.fabric
        decided = fabric.decided
        finished = fabric.handle(None, until_s)
        self.events += max(fabric.decided - decided, 1)
        for flow in finished:
            assert flow.coflow is not None
            record = self.records[flow.coflow]
            record.open_flows -= 1
            if record.open_flows == 0:
                record.finished_s = flow.finished_s
                self.finished += 1
                fabric.handle(FinishCoflow(coflow=flow.coflow), fabric.now_s)

    def _begin(self, coflow: TraceCoflow) -> None:
        name = CoflowId(coflow.name)
        self.fabric.handle(RegisterCoflow(coflow=name), coflow.arrival_s)
        self.records[name].open_flows = coflow.width
        self.fabric.handle(self._rows(name, coflow), coflow.arrival_s)

    def _rows(self, name: CoflowId, coflow: TraceCoflow) -> FlowRows:
        src, dst, size_bytes = np.array(list(coflow.flows()), np.int64).reshape(-1, 3).T
        numbers, first, nodes = np.arange(coflow.width), self._first_node, np.diff(self._first_node)
        # Spread over the rack's nodes, so that the uplink is the bottleneck and not a NIC.
        return FlowRows(
            names=[FlowId(f"{name}.{number}") for number in numbers.tolist()],
            src=first[src] + numbers % nodes[src],
            dst=first[dst] + numbers // len(coflow.mappers) % nodes[dst],
            size_bytes=size_bytes,
            coflow=np.zeros(coflow.width, np.int64),
            coflows=[name],
        )


def _job(name: CoflowId, record: CoflowRecord) -> dict[str, Any]:
    coflow = record.coflow
    return {
        "id": name,
        "name": name,
        "submitted_s": coflow.arrival_s,
        "finished_s": record.finished_s,
        "jct_s": record.cct_s,
        "cct_s": record.cct_s,
        "input_bytes": 0,
        "shuffle_bytes": coflow.size_bytes,
        "output_bytes": 0,
        "maps": len(coflow.mappers),
        "reduces": len(coflow.reducers),
        "ok": record.finished_s is not None,
    }
