"""The hour of coflows on 150 racks at Facebook under each flow scheduler: cost, and coflow times.

Each runs in a process of its own, one after the other, so that its memory can be measured; a short
run before it has its loops compiled, which is done once on a machine and takes half a minute.
Published ratios are those of the papers' abstracts, from EC2 and from simulators whose time goes in
steps (see ``simulator.coflows``), so they stand beside ours and are no bounds.  SimGrid, where it
is installed (``_common.peers``), gets the flows of the first coflows as our max-min does.

    python -m railyard.benchmarks.coflows NAME TOPOLOGY COFLOWS       one run, as JSON
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from railyard.benchmarks._common import peers
from railyard.benchmarks._common.rows import Row, bench_row
from railyard.benchmarks._common.traces import trace_file
from railyard.benchmarks._common.yardstick import by_yardstick, cpu_row
from railyard.cluster.topology import load_topology
from railyard.jobs.workloads.coflows import load_coflow_benchmark
from railyard.netemu.schedulers import FLOW_SCHEDULERS, flow_scheduler
from railyard.simulator.coflows import CoflowRun

TRACE = "coflow-benchmark/FB2010-1Hr-150-0.txt"
MEMORY_MB_BOUND = 500.0
#: Coflows of a quick run; bounds are for the whole trace.
QUICK = 150
_BASELINE = "maxmin"
_PORTS = "ports-150x1"


@dataclass(frozen=True, kw_only=True)
class Setup:
    """How one flow scheduler is measured, and what others have published of it."""

    cpu_s_bound: float  #: see ``_common.yardstick``
    topology: str = _PORTS
    coflowsim: str = ""  #: what CoflowSim needs for the same trace
    #: {figure of CCT: what was published}
    published: dict[str, str] = field(default_factory=dict)


SETUPS = {
    "maxmin": Setup(cpu_s_bound=20.0, coflowsim="474 s (its FAIR)"),
    "sjf": Setup(cpu_s_bound=20.0),
    "fifo": Setup(
        cpu_s_bound=20.0,
        coflowsim="402 s",
        published={"mean": "Varys more than 5 times faster than non-preemptive ones (Varys)"},
    ),
    "varys": Setup(
        cpu_s_bound=20.0,
        coflowsim="198 s (its SEBF)",
        published={"mean": "up to 3.16 times faster than per-flow mechanisms (Varys)"},
    ),
    "aalo": Setup(
        cpu_s_bound=10.0,
        coflowsim="250 s",
        published={
            "mean": "1.93 times faster than per-flow mechanisms, comparable to Varys (Aalo)",
            "p95": "3.59 times faster than per-flow mechanisms (Aalo)",
        },
    ),
    "aalo+weighted": Setup(cpu_s_bound=20.0),
    "afap": Setup(cpu_s_bound=20.0),
    "sunflow": Setup(
        cpu_s_bound=10.0,
        topology=f"{_PORTS},ocs.port_bytes_per_s=1Gbps,delta=10ms,elephant=1",
        published={"mean": "just as fast as the best coflow scheduler on packets (Sunflow)"},
    ),
}
#: What a coflow scheduler on circuits is compared with: results depend on which Varys it is.
_ON_CIRCUITS, _ON_PACKETS = "sunflow", "varys"
_VARIANT = (
    "varys sets rates anew at each arrival and end of a flow, and hands out what MADD leaves in"
    " SEBF order, in proportion to what flows have left"
)


def run(quick: bool = False) -> list[Row]:
    """Measure those flow schedulers that there are; ``quick`` takes the first coflows only."""
    trace_file(TRACE)  # before minutes of work
    return by_yardstick(lambda: _rows(quick))


def _rows(quick: bool) -> list[Row]:
    rows: list[Row] = []
    ccts_s: dict[str, dict[str, float]] = {}
    for name, setup in SETUPS.items():
        if name not in FLOW_SCHEDULERS:
            print(f"  no flow scheduler {name}: left out", file=sys.stderr)
            continue
        _measure(name, setup, QUICK)  # loops that are not compiled yet are then
        done = _measure(name, setup, QUICK if quick else sys.maxsize)
        ccts_s[name] = done["cct_s"]
        rows += _cost(name, setup, done, quick)
        rows += _times(name, setup, ccts_s)
    return [*rows, *_circuits_against_packets(ccts_s), _beside_simgrid()]


def _measure(name: str, setup: Setup, coflows: int) -> dict[str, Any]:
    print(f"  {name} on {setup.topology} ...", file=sys.stderr)
    command = [
        sys.executable,
        "-m",
        "railyard.benchmarks.coflows",
        name,
        setup.topology,
        str(coflows),
    ]
    one_core = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run(command, cwd=root, env=one_core, stdout=subprocess.PIPE, check=True)
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def _cost(name: str, setup: Setup, done: dict[str, Any], quick: bool) -> list[Row]:
    size = f"{done['coflows']} coflows, {done['flows']} flows"
    notes = [f"{done['events']} events, load {done['load']:.1f}"]
    if setup.coflowsim and not quick:
        notes.append(f"CoflowSim on a like machine: {setup.coflowsim}")
    cpu_s_bound = None if quick else setup.cpu_s_bound
    return [
        cpu_row(f"{name}: CPU for {size}", done["cpu_s"], cpu_s_bound, note="; ".join(notes)),
        bench_row(
            f"{name}: memory for {size}",
            done["memory_mb"],
            "MB",
            bound=MEMORY_MB_BOUND,
            note="the whole process at its largest",
        ),
    ]


def _beside_simgrid() -> Row:
    """CPU time of simulating the first coflows under max-min, beside SimGrid's of the same flows.

    All coflows took it more than seven minutes.
    """
    done = _measure(_BASELINE, SETUPS[_BASELINE], QUICK)
    title = f"{_BASELINE}, against SimGrid: CPU for {done['coflows']} coflows"
    if lacks := peers.missing("simgrid"):
        return bench_row(title, done["run_s"], "s", note=lacks)
    print("  SimGrid ...", file=sys.stderr)
    switch = load_topology(_PORTS)
    port_bytes_per_s = switch.rack_list()[0].uplink_bytes_per_s
    script = str(peers.FOLDER / "simgrid_coflows.py")
    command = [peers.peer_python(), script, str(switch.racks.count), str(port_bytes_per_s)]
    trace = "\n".join(_lines(QUICK))
    ended = subprocess.run(command, input=trace, stdout=subprocess.PIPE, text=True, check=True)
    simgrid = json.loads(ended.stdout)
    note = f"CCT mean {done['cct_s']['mean']:.6g} s, SimGrid's {simgrid['cct_s']:.6g} s"
    return bench_row(title, done["run_s"], "s", reference=simgrid["cpu_s"], note=note)


def _lines(coflows: int) -> Iterator[str]:
    """The trace as SimGrid gets it, without traffic within a rack."""
    for coflow in load_coflow_benchmark(trace_file(TRACE)).first(coflows).coflows:
        flows = [(src, dst, size) for src, dst, size in coflow.flows() if src != dst]
        yield json.dumps((coflow.arrival_s, flows))


def _times(name: str, setup: Setup, ccts_s: dict[str, dict[str, float]]) -> list[Row]:
    """Coflow times; the reference is per-flow fairness, the ratio how much faster this is."""
    baseline = ccts_s.get(_BASELINE)
    return [
        bench_row(
            f"{name}: CCT {figure}",
            ccts_s[name][key],
            "s",
            reference=baseline[key] if baseline else None,
            ratio=baseline[key] / ccts_s[name][key] if baseline else None,
            note=_published(setup, figure),
        )
        for figure, key in (("mean", "mean"), ("median", "p50"), ("p95", "p95"))
    ]


def _published(setup: Setup, figure: str) -> str:
    found = setup.published.get(figure)
    return f"published: {found}" if found else ""


def _circuits_against_packets(ccts_s: dict[str, dict[str, float]]) -> list[Row]:
    if not {_ON_CIRCUITS, _ON_PACKETS} <= set(ccts_s):
        return []
    circuits_s, packets_s = ccts_s[_ON_CIRCUITS]["mean"], ccts_s[_ON_PACKETS]["mean"]
    return [
        bench_row(
            f"{_ON_CIRCUITS} against {_ON_PACKETS}: CCT mean",
            circuits_s,
            "s",
            reference=packets_s,
            ratio=packets_s / circuits_s,
            note=_VARIANT,
        )
    ]


def _one_run(name: str, topology: str, coflows: int) -> dict[str, Any]:
    begun_s = time.process_time()
    trace = load_coflow_benchmark(trace_file(TRACE)).first(coflows)
    done = CoflowRun(trace, load_topology(topology), flow_scheduler(name))
    run_s = time.process_time()
    done.run()
    ended_s = time.process_time()
    summary = done.summary()
    return {
        "cpu_s": ended_s - begun_s,
        "run_s": ended_s - run_s,
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
        "cct_s": summary["cct_s"],
        "coflows": len(trace.coflows),
        "flows": trace.width,
        "events": done.events,
        "load": os.getloadavg()[0],
    }


if __name__ == "__main__":
    json.dump(_one_run(sys.argv[1], sys.argv[2], int(sys.argv[3])), sys.stdout)
