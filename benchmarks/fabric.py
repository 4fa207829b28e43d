"""What an arrival or an end of a flow costs, against the number of flows that are active.

Flows of coflows of a hundred go between 150 racks at random.  Their number stays the same while
it is measured: one arrives, one ends.  An event is done when the new rates, and the time of the
next event, are known.

And whether those rates are right: random small networks, in which each flow must end when it does
by exact fractions, under each flow scheduler.
"""

from __future__ import annotations

import gc
import math
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Hashable, Iterator
from functools import partial

from railyard.benchmarks._common.rows import Row, bench_row
from railyard.cluster.ids import CoflowId, FlowId, node_id, rack_id
from railyard.cluster.topology import load_topology
from railyard.netemu.fabric.fabric import MANY_FLOWS, Fabric, StartFlows
from railyard.netemu.messages import RegisterCoflow
from railyard.netemu.model.flows import FlowSpec
from railyard.netemu.schedulers import FLOW_SCHEDULERS, flow_scheduler
from railyard.netemu.schedulers.base import Serves
from railyard.oracles.differential import circuit_disagreements, disagreements
from railyard.oracles.rates import EXACT

#: {flow scheduler: topology of 150 racks, most ms of an event at ``BOUND_AT`` flows}
SETUPS = {
    "maxmin": ("ports-150x1", 5.0),
    "sjf": ("ports-150x1", 5.0),
    "fifo": ("ports-150x1", 1.0),
    "varys": ("ports-150x1", 1.0),
    "aalo": ("ports-150x1", None),
    "aalo+weighted": ("ports-150x1", None),
    "sunflow": ("ports-150x1,ocs.port_bytes_per_s=1Gbps,delta=10ms,elephant=1", 1.0),
    "afap": ("joint-16x6,racks.count=150", 1.0),
}
SIZES = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
BOUND_AT = 10_000
#: Growth of an event's cost over growth of rows: 1 is linear; rounding and caches are allowed for.
EXPONENT_BOUND = 1.1
RACKS = 150
COFLOW_WIDTH = 100
#: An event is measured so often, or for so long, but a few times at least.
EVENTS_MAX = 100
#: So many random cases are compared with exact fractions, in all and in a quick run.
CASES = 10_000
CASES_QUICK = 700
EVENTS_MIN = 3
MEASURED_S_MAX = 2.0


def run(quick: bool = False) -> list[Row]:
    """Measure those flow schedulers that there are; ``quick`` goes to 10,000 flows only."""
    rows = _agreement(CASES_QUICK if quick else CASES)
    for name, (topology, bound_ms) in SETUPS.items():
        if name not in FLOW_SCHEDULERS:
            print(f"  no flow scheduler {name}: left out", file=sys.stderr)
            continue
        measured: list[tuple[int, float]] = []
        for size in SIZES:
            if quick and size > BOUND_AT:
                break
            print(f"  {name}, {size} flows ...", file=sys.stderr)
            loaded = LoadedFabric(name, topology, size)
            open_rows, (arrive_ms, end_ms) = loaded.rows, loaded.measure()
            measured.append((open_rows, max(arrive_ms, end_ms)))
            bound = bound_ms if size == BOUND_AT else None
            rows += _events(name, size, open_rows, (arrive_ms, end_ms), bound)
            del loaded
            gc.collect()  # no two large ones at a time
        many = [costs for size, costs in zip(SIZES, measured, strict=False) if size >= MANY_FLOWS]
        if len(many) > 1:
            rows.append(_growth(name, many))
    return rows


def _agreement(cases: int) -> list[Row]:
    """How often a flow ends at another time than by exact fractions."""
    checks: dict[str, Callable[[int], Iterator[str]]] = {
        name: partial(disagreements, name, is_compiled=True) for name in EXACT
    }
    checks["sunflow"] = partial(circuit_disagreements, is_compiled=True)
    rows: list[Row] = []
    for name, check in checks.items():
        seeds = range(cases // len(checks))
        print(f"  {name}, {len(seeds)} cases against exact fractions ...", file=sys.stderr)
        wrong = [first for seed in seeds if (first := next(check(seed), ""))]
        rows.append(
            bench_row(
                f"{name}: cases of {len(seeds)} that differ from exact fractions",
                len(wrong),
                reference=0,
                bound=0,
                note=wrong[0] if wrong else "",
            )
        )
    return rows


class LoadedFabric:
    """A fabric with so many active flows."""

    def __init__(self, scheduler: str, topology: str, size: int) -> None:
        self._dice = random.Random(size)
        self._size = size
        kind = flow_scheduler(scheduler)
        self._fabric = Fabric(load_topology(topology), kind, compiled_from=MANY_FLOWS)
        self._started = 0
        self._coflows = [CoflowId(f"c{n}") for n in range(max(1, size // COFLOW_WIDTH))]
        for coflow in self._coflows:
            self._fabric.handle(RegisterCoflow(coflow=coflow), 0.0)
        self._serves, self._has_circuits = kind.serves, kind.circuit_policy is not None
        #: what the scheduler decides on: pairs of racks, of each coflow or flow if it treats them
        #: apart
        self.rows = len({self._start() for _ in range(size)})
        self._fabric.next_event_s()

    def measure(self) -> tuple[float, float]:
        """Median CPU time in ms of an arrival and of an end."""
        arrivals_s: list[float] = []
        ends_s: list[float] = []
        until_s = time.monotonic() + MEASURED_S_MAX
        fabric = self._fabric

        def goes_on() -> bool:
            enough = EVENTS_MIN if time.monotonic() > until_s else EVENTS_MAX
            return len(ends_s) < enough

        while goes_on():
            while fabric.open_flows > self._size and goes_on():  # several may end at once, or none
                begun_s = time.process_time()
                fabric.handle(None, fabric.next_event_s())
                fabric.next_event_s()
                ends_s.append(time.process_time() - begun_s)
            begun_s = time.process_time()
            self._start()
            fabric.next_event_s()
            arrivals_s.append(time.process_time() - begun_s)
        return statistics.median(arrivals_s) * 1e3, statistics.median(ends_s) * 1e3

    def _start(self) -> Hashable:
        """Start a flow; returns in which row it is."""
        dice = self._dice
        src, dst = dice.sample(range(RACKS), 2)
        coflow = dice.randrange(len(self._coflows))
        flow = FlowSpec(
            flow=FlowId(f"f{self._started}"),
            src=node_id(rack_id(src), 0),
            dst=node_id(rack_id(dst), 0),
            size_bytes=int(10 ** dice.uniform(6, 10)),
            coflow=self._coflows[coflow],
        )
        self._fabric.handle(StartFlows((flow,)), self._fabric.now_s)
        self._started += 1
        if self._serves in (Serves.SHORTEST, Serves.PRIORITIES):
            return flow.flow
        return coflow if self._serves is Serves.COFLOWS or self._has_circuits else 0, src, dst


def _events(
    name: str, size: int, open_rows: int, costs_ms: tuple[float, float], bound_ms: float | None
) -> list[Row]:
    return [
        bench_row(
            f"{name}: {event} with {size} active flows",
            cost_ms,
            "ms",
            bound=bound_ms,
            note=f"{open_rows} rows, load {os.getloadavg()[0]:.1f}",
        )
        for event, cost_ms in zip(("an arrival", "an end"), costs_ms, strict=True)
    ]


def _growth(name: str, measured: list[tuple[int, float]]) -> Row:
    """How the cost of an event grows with the number of rows, as an exponent."""
    (first_rows, first_ms), (last_rows, last_ms) = measured[0], measured[-1]
    exponent = math.log(last_ms / first_ms) / math.log(last_rows / first_rows)
    return bench_row(
        f"{name}: growth of an event's cost (1 = linear)",
        exponent,
        bound=EXPONENT_BOUND,
        note=f"{first_ms:.3g} ms at {first_rows} rows, {last_ms:.3g} at {last_rows}",
    )
