"""Do emulated transfers take as long as the max-min model says?

Real bytes go between real processes through the real emulator, on an idle machine and with all
cores kept busy by processes that spin.  Each transfer of at least 0.2 s counts: its error is how
far its time, from the order to start it until all its bytes are at the reader, is from what the
fabric predicts in virtual time for flows that start at the same times.
"""

from __future__ import annotations

import os
import random
import signal
import statistics
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from benchmarks._emulated import Arrival, EmulatedNetwork, Transfer
from cluster.ids import FlowId, NodeId
from cluster.processes import fork
from cluster.topology import Topology, load_topology
from netemu.fabric import Fabric
from netemu.schedulers import flow_scheduler
from netemu.schedulers.base import FlowSpec
from netemu.statistics import cpu_saturated, grant_lag_ms_p99, since

#: Shorter transfers are dominated by the machine's own delays.
COUNTED_S_MIN = 0.2
#: {load: (largest median error, largest p99) in %}
BOUNDS = {"idle": (1.0, 3.0), "busy": (2.0, 10.0)}

Scenario = list[list[Transfer]]


def run(quick: bool = False) -> list[dict[str, Any]]:
    """Measure; ``quick`` takes one round rather than several of each scenario."""
    topology = load_topology("hybrid-8x4")
    rounds = 1 if quick else 4
    scenarios = {
        "single flows": _single_flows(topology, 2 * rounds),
        "shared uplink": _shared_uplink(topology, 2 * rounds),
        "8-rack shuffle": _shuffle(topology, rounds),
    }
    rows: list[dict[str, Any]] = []
    for load, bounds in BOUNDS.items():
        others = _all_cores_busy() if load == "busy" else nullcontext()
        with others, EmulatedNetwork(topology) as network:
            for name, batches in scenarios.items():
                rows += _measure(network, f"{name}, {load}", batches, bounds)
    return rows


def _measure(
    network: EmulatedNetwork, name: str, batches: Scenario, bounds: tuple[float, float]
) -> list[dict[str, Any]]:
    before = network.stats()
    errors: list[float] = []
    for batch in batches:
        errors += errors_percent(network.topology, network.carry(batch))
    after = since(network.stats(), before)
    context = (
        f"{len(errors)} transfers, grants {grant_lag_ms_p99(after):.1f} ms late (p99), "
        f"CPU saturated {cpu_saturated(after):.0%} of the time"
    )
    figures = (
        ("median error", statistics.median(errors), bounds[0]),
        ("p99 error", percentile(errors, 0.99), bounds[1]),
    )
    return [
        {
            "name": f"{name}: {figure}",
            "value": value,
            "unit": "%",
            "reference": None,
            "ratio": None,
            "bound": bound,
            "ok": value <= bound,
            "note": context,
        }
        for figure, value, bound in figures
    ]


def errors_percent(topology: Topology, arrivals: list[Arrival]) -> list[float]:
    """How far each transfer that counts was from its predicted time."""
    predicted_s = predict(topology, arrivals)
    return [
        abs(arrival.finished_s - arrival.started_s - model_s) / model_s * 100
        for arrival, model_s in zip(arrivals, predicted_s, strict=True)
        if model_s >= COUNTED_S_MIN
    ]


def predict(topology: Topology, arrivals: list[Arrival]) -> list[float]:
    """How long each of these transfers takes in the model, started when they were."""
    fabric = Fabric(topology, flow_scheduler("maxmin"))
    finished_s: dict[FlowId, float] = {}
    began_s = min(arrival.started_s for arrival in arrivals)
    order = sorted(range(len(arrivals)), key=lambda number: arrivals[number].started_s)
    for number in order:
        arrival = arrivals[number]
        for ended in fabric.advance(arrival.started_s - began_s):
            finished_s[ended.flow] = ended.finished_s
        transfer = arrival.transfer
        fabric.start(
            FlowSpec(
                flow=FlowId(str(number)),
                src=transfer.src,
                dst=transfer.dst,
                size_bytes=transfer.stored_bytes * topology.scale,
            )
        )
    while fabric.open_flows:
        for ended in fabric.advance(fabric.next_event_s()):
            finished_s[ended.flow] = ended.finished_s
    return [
        finished_s[FlowId(str(number))] - (arrival.started_s - began_s)
        for number, arrival in enumerate(arrivals)
    ]


def percentile(values: list[float], share: float) -> float:
    """The smallest value that is not below ``share`` of them all."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


# Scenarios: each a list of batches; the transfers of a batch run together ------------------------
def _single_flows(topology: Topology, rounds: int) -> Scenario:
    nic_stored = topology.links.nic / topology.scale
    ends = (("r0n0", "r0n1"), ("r1n0", "r2n3"), ("r7n1", "r3n2"))
    return [
        [_transfer("single", src, dst, seconds * nic_stored)]
        for _ in range(rounds)
        for src, dst in ends
        for seconds in (0.25, 0.5, 1.0)
    ]


def _shared_uplink(topology: Topology, rounds: int) -> Scenario:
    """Two to eight flows leave one rack; they start and end at different times."""
    dice = random.Random(2)
    uplink_stored = topology.rack_list()[0].uplink_bytes_per_s / topology.scale
    return [
        [
            _transfer(
                "uplink",
                f"r0n{flow % topology.racks.nodes}",
                f"r{1 + flow % (topology.racks.count - 1)}n{flow % topology.racks.nodes}",
                dice.uniform(0.2, 0.6) * uplink_stored,
                start_s=dice.uniform(0, 0.3),
            )
            for flow in range(flows)
        ]
        for _ in range(rounds)
        for flows in (2, 3, 4, 8)
    ]


def _shuffle(topology: Topology, rounds: int) -> Scenario:
    """Every node sends to a reader in every rack; sizes and starts differ."""
    dice = random.Random(3)
    uplink_stored = topology.rack_list()[0].uplink_bytes_per_s / topology.scale
    nodes = topology.nodes()
    readers = [rack.nodes[dice.randrange(len(rack.nodes))].id for rack in topology.rack_list()]
    fair_share = uplink_stored / (topology.racks.nodes * (topology.racks.count - 1))
    return [
        [
            _transfer(
                "shuffle",
                node.id,
                reader,
                dice.uniform(0.5, 3.0) * fair_share,
                start_s=dice.uniform(0, 0.5),
            )
            for node in nodes
            for reader in readers
            if node.id != reader
        ]
        for _ in range(rounds)
    ]


def _transfer(name: str, src: str, dst: str, stored: float, start_s: float = 0.0) -> Transfer:
    return Transfer(
        name=name, src=NodeId(src), dst=NodeId(dst), stored_bytes=int(stored), start_s=start_s
    )


@contextmanager
def _all_cores_busy() -> Iterator[None]:
    """Keep every core busy with a process that does nothing else."""
    spinning = [_spin() for _ in range(len(os.sched_getaffinity(0)))]
    try:
        yield
    finally:
        for pid in spinning:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _spin() -> int:
    def spin() -> None:
        while True:
            pass

    return fork(spin)
