"""Do 1,000 attempts that run at once on 60 racks get the bandwidth that the model grants?

A whole cluster on co-scheduler-60x10 runs one job (``_network/concurrentshuffle.py``): two maps, in
different racks, wait until 1,000 reduces run; then each of these fetches from both at once, and
stays until the last has fetched.  So 1,000 attempts, each a process, live during the whole shuffle,
and nothing else is on the network.

Fetches take about 30 to 90 s in the model: when they begin, 1,000 processes connect to the maps'
shuffle services, which takes two cores many seconds.  What a reader has missed by then it catches
up with, as its grants do not wait for it.  Shorter fetches would measure that, not the network.

Each fetch of at least 0.2 s counts.  Its error is how far its time, by the ResourceManager's clock
from its order (``StartFlow``) to its end (``FlowFinished``), is from what the fabric predicts for
flows that start at the same times.  What attempts and NodeManagers take to hear of an order and to
report an end is part of it, other than in ``networks``.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from railyard.benchmarks._common.rows import Row, bench_row
from railyard.benchmarks._network import concurrentshuffle
from railyard.benchmarks._network.emulated import Arrival, Transfer
from railyard.benchmarks.fidelity.networks import errors_percent, percentile
from railyard.cluster.errors import RailyardError
from railyard.cluster.messages import StartFlow
from railyard.cluster.topology import load_topology
from railyard.resourcemanager.driving.eventlog import replay
from railyard.resourcemanager.driving.history import AttemptSpan, FetchSpan, History

TOPOLOGY = "co-scheduler-60x10"
#: Largest median and p99 error in %, as on an idle machine with fewer racks.
BOUNDS = (1.0, 3.0)
MAPS = 2
ATTEMPTS = 1000
#: How long a fetch takes in the model, about.
SHUFFLE_S = 60.0
#: To start that many processes on two busy cores, and to end them.
_TIMEOUT_S = 1200.0


@dataclass(frozen=True)
class Shuffle:
    """What the log of a run has of it."""

    arrivals: list[Arrival]  #: each fetch
    alive: int  #: the fewest attempts that lived at any time of it


def run(quick: bool = False) -> list[Row]:
    """Measure; ``quick`` takes 100 attempts rather than 1,000, and a tenth of the time."""
    attempts, seconds = (100, SHUFFLE_S / 10) if quick else (ATTEMPTS, SHUFFLE_S)
    topology = load_topology(TOPOLOGY)
    with tempfile.TemporaryDirectory(prefix="railyard-") as scratch:
        summary = _run_job(Path(scratch), attempts, seconds)
        shuffle = shuffle_of(Path(scratch) / "run" / "events.jsonl", topology.scale)
    errors = errors_percent(topology, shuffle.arrivals)
    fidelity, machine = summary["fidelity"], summary["machine"]
    note = (
        f"{len(errors)} fetches of {len(shuffle.arrivals)}, {shuffle.alive} attempts alive all the "
        f"time; grants {fidelity['grant_lag_ms_p99']:.1f} ms late (p99); CPU saturated "
        f"{fidelity['cpu_saturated']:.0%}, load at most {machine['load_max']:.1f}"
    )
    name = f"{TOPOLOGY}, {attempts} attempts"
    values = (("median", statistics.median(errors)), ("p99", percentile(errors, 0.99)))
    return [
        bench_row(
            f"{name}: {figure} error",
            value,
            "%",
            bound=bound,
            ok=value <= bound and shuffle.alive >= attempts,
            note=note,
        )
        for (figure, value), bound in zip(values, BOUNDS, strict=True)
    ]


def _run_job(scratch: Path, readers: int, seconds: float) -> dict[str, Any]:
    """Run the job on a cluster of its own, with fetches of so many seconds; its summary."""
    here, results = scratch / "here", scratch / "summary.json"
    for folder in ("running", "fetched"):
        (here / folder).mkdir(parents=True)
    (here / "readers").write_text(str(readers))
    topology = load_topology(TOPOLOGY)
    uplink_stored = topology.rack_list()[0].uplink_bytes_per_s / topology.scale
    part = int(uplink_stored * seconds / readers)
    words = [
        sys.executable,
        "-m",
        "railyard",
        "run",
        f"{concurrentshuffle.__file__}:ConcurrentShuffle",
    ]
    for name, value in {"here": here, "maps": MAPS, "part": part}.items():
        words += ["--param", f"{name}={value}"]
    words += ["--reduces", str(readers), "--topology", TOPOLOGY, "--network", "compute.mode=real"]
    words += ["--set", "shuffle.slowstart=0", "--set", "shuffle.ramp_up=1"]
    words += ["--out", str(scratch / "run"), "--json", str(results)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    if done.returncode:
        raise RailyardError(f"railyard run ended with {done.returncode}: {done.stderr[-2000:]}")
    summary: dict[str, Any] = json.loads(results.read_text())
    return summary


def shuffle_of(events: Path, scale: int) -> Shuffle:
    """The fetches of a run's log, and how many attempts lived."""
    history, arrivals = History(), list[Arrival]()
    attempts: list[AttemptSpan] = []
    for step in replay(events):
        for what, span in history.take(step.state, step.at_s, step.event, step.commands):
            if isinstance(span, AttemptSpan) and what == "began":
                attempts.append(span)
            elif isinstance(span, FetchSpan) and span.crosses and span.outcome == "finished":
                arrivals.append(_arrival(span.order, span.began_s, step.at_s, scale))
    first_s = min(arrival.started_s for arrival in arrivals)
    last_s = max(arrival.finished_s for arrival in arrivals)
    alive = sum(
        span.started_s is not None
        and span.started_s <= first_s
        and (span.success is None or (span.ended_s or last_s) >= last_s)
        for span in attempts
    )
    return Shuffle(arrivals, alive)


def _arrival(order: StartFlow, began_s: float, ended_s: float, scale: int) -> Arrival:
    transfer = Transfer(
        name=order.flow,
        src=order.src,
        dst=order.dst,
        stored_bytes=order.size_bytes // scale,
    )
    return Arrival(transfer=transfer, started_s=began_s, began_s=began_s, finished_s=ended_s)
