"""Do emulated transfers take as long as the fabric says, and are circuits dark for as long?

Real bytes go between real processes through the real emulator, on an idle machine and with all
cores kept busy by processes that spin: packets on three published networks under max-min sharing,
then circuits that take 1, 10 or 100 ms to set up, under sunflow.  Each transfer of at least 0.2 s
counts: its error is how far its time, from the order to start it until all its bytes are at the
reader, is from what the fabric predicts in virtual time for flows that start at the same times.

Senders and readers have the priority that NodeManagers and DataNodes have, and this process, while
it measures, that of the ResourceManager: were its orders late, flows would start later than they
say, and in a shuffle a start that is late by milliseconds can shift another flow's end by tens of
them.
"""

from __future__ import annotations

import os
import signal
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from railyard.benchmarks._common.rows import Row, bench_row
from railyard.benchmarks._network.emulated import Arrival, EmulatedNetwork
from railyard.benchmarks._network.scenarios import (
    Batch,
    circuit_batches,
    dark_times_s,
    packet_batches,
    predict,
)
from railyard.cluster.errors import RailyardError
from railyard.cluster.machine import DECIDER, take_priority
from railyard.cluster.processes import fork
from railyard.cluster.topology import Topology, load_topology
from railyard.netemu.emulator.statistics import cpu_saturated, grant_lag_ms_p99, since
from railyard.netemu.messages import NetworkStats

#: Shorter transfers are dominated by the machine's own delays.
COUNTED_S_MIN = 0.2
#: {load: (largest median error, largest p99) in %}
BOUNDS = {"idle": (1.0, 3.0), "busy": (2.0, 10.0)}
#: How far a circuit's dark time may be from its set-up time: median and p99 in ms.
DARK_BOUNDS = (1.0, 5.0)
#: Each with its own scale, so that a laptop carries the bytes.
PACKETS = ("hybrid-8x4", "tetrium-8", "joint-16x6")
#: NICs are a tenth of a circuit, and transfers are to be short: so a tenth of the threshold.
CIRCUITS = tuple(f"hybrid-8x4,elephant=100MB,delta={delta}" for delta in ("1ms", "10ms", "100ms"))


@dataclass(frozen=True, kw_only=True)
class _Measured:
    """What came of the batches of one network."""

    batches: list[list[Arrival]]
    stats: NetworkStats
    note: str


def run(quick: bool = False) -> list[Row]:
    """Measure; ``quick`` takes one round rather than several of each scenario."""
    rounds = 1 if quick else 5
    rows: list[Row] = []
    for load in BOUNDS:
        others = _all_cores_busy() if load == "busy" else nullcontext()
        with others, priority(DECIDER):
            for name in PACKETS:
                topology = load_topology(name)
                measured = _measure(topology, "maxmin", packet_batches(topology, rounds))
                rows += _error_rows(topology, "maxmin", load, measured)
            for name in CIRCUITS:
                topology = load_topology(name)
                measured = _measure(topology, "sunflow", circuit_batches(topology, rounds))
                _require_circuits(measured)
                rows += _error_rows(topology, "sunflow", load, measured)
                rows += _dark_rows(topology, load, measured)
    return rows


def _measure(topology: Topology, scheduler: str, batches: Sequence[Batch]) -> _Measured:
    with EmulatedNetwork(topology, flow_scheduler=scheduler) as network:
        before = network.stats()
        carried = [network.carry(batch) for batch in batches]
        stats = since(network.stats(), before)
        clock = priority_of(network.pids["network"])
    if clock == "no priority":
        clock += " (it takes root or CAP_SYS_NICE)"
    stored = sum(arrival.transfer.stored_bytes for batch in carried for arrival in batch)
    note = (
        f"scale {topology.scale}, {stored / 1e6 / stats.active_s:.2g} MB/s; grants "
        f"{grant_lag_ms_p99(stats):.1f} ms late (p99); CPU saturated {cpu_saturated(stats):.0%}, "
        f"load {os.getloadavg()[0]:.1f}; emulator: {clock}"
    )
    return _Measured(batches=carried, stats=stats, note=note)


def _error_rows(topology: Topology, scheduler: str, load: str, measured: _Measured) -> list[Row]:
    errors = [
        error for batch in measured.batches for error in errors_percent(topology, batch, scheduler)
    ]
    name, note = f"{_words(topology)}, {load}", f"{len(errors)} transfers, {measured.note}"
    return [
        _row(f"{name}: {figure} error", value, "%", bound, note)
        for (figure, value), bound in zip(_median_and_p99(errors), BOUNDS[load], strict=True)
    ]


def _dark_rows(topology: Topology, load: str, measured: _Measured) -> list[Row]:
    assert topology.ocs is not None
    delta_s = topology.ocs.delta_s
    dark_s = [dark for batch in measured.batches for dark in dark_times_s(batch)]
    off_ms = [abs(dark - delta_s) * 1e3 for dark in dark_s]
    name = f"{_words(topology)}, {load}"
    note = (
        f"{len(dark_s)} circuits dark for {min(dark_s) * 1e3:.2f} to {max(dark_s) * 1e3:.2f} ms, "
        f"median {statistics.median(dark_s) * 1e3:.2f}"
    )
    return [
        _row(f"{name}: dark time's {figure} off", value, "ms", bound, note)
        for (figure, value), bound in zip(_median_and_p99(off_ms), DARK_BOUNDS, strict=True)
    ]


def _median_and_p99(values: list[float]) -> tuple[tuple[str, float], tuple[str, float]]:
    return ("median", statistics.median(values)), ("p99", percentile(values, 0.99))


def _require_circuits(measured: _Measured) -> None:
    """Raise ``RailyardError`` if bytes went by packets that were to go by circuits."""
    by_packets = measured.stats.bytes["eps"]
    if by_packets:
        raise RailyardError(f"{by_packets} bytes went by packets: need 0, all on circuits")


def _words(topology: Topology) -> str:
    if topology.name in PACKETS:
        return topology.name
    assert topology.ocs is not None
    return f"circuits after {topology.ocs.delta_s * 1e3:g} ms"


def _row(name: str, value: float, unit: str, bound: float, note: str) -> Row:
    return bench_row(name, value, unit, bound=bound, note=note)


def errors_percent(
    topology: Topology, arrivals: Sequence[Arrival], scheduler: str = "maxmin"
) -> list[float]:
    """How far each transfer that counts was from its predicted time."""
    predicted_s = predict(topology, arrivals, scheduler)
    return [
        abs(arrival.finished_s - arrival.started_s - model_s) / model_s * 100
        for arrival, model_s in zip(arrivals, predicted_s, strict=True)
        if model_s >= COUNTED_S_MIN
    ]


def percentile(values: list[float], share: float) -> float:
    """The smallest value that is not below ``share`` of them all."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


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


@contextmanager
def priority(rank: int) -> Iterator[bool]:
    """``take_priority`` as a context manager."""
    before = os.nice(0)
    taken = take_priority(rank)
    try:
        yield taken
    finally:
        if taken and priority_of(0).startswith("real"):
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        elif taken:
            os.nice(before - os.nice(0))


def priority_of(pid: int) -> str:
    """The priority of a process in words: "real time", "nice -10", or "no priority"."""
    scheduler = getattr(os, "sched_getscheduler", None)  # None: not Linux
    if scheduler is not None and scheduler(pid) == os.SCHED_RR:
        return "real time"
    niceness = os.getpriority(os.PRIO_PROCESS, pid)
    return f"nice {niceness}" if niceness < 0 else "no priority"
