"""Tetrium against In-Place, Iridium and Centralized with real bytes, and the same in virtual time.

TeraSort, WordCount and the query on ``tetrium-8``, all at once, each with an input of its own of
which one site has eight times as much as another.  Rows are makespan, mean response time and bytes
between sites, each beside what simulations of the same run have; all outputs are checked.  Bounded
is how far the two clocks are from one another.  Schedulers have their defaults.

The links are those of ``tetrium-8``; tasks compute more slowly than in the paper's example (100 MB
in 2 s).  At that pace all slots together read seven times what all uplinks carry, and the network
decides nearly alone: in simulations of TeraSort and WordCount with 5 GB each tetrium's mean
response time is .94 of in-place's, with an interval of .57 (3 seeds).  At 2 MB/s the slots read a
quarter of what the uplinks carry: under in-place sites run up to seven waves of maps, under tetrium
two to three and a half each, and half of a site's maps are moved in about the time in which they
are computed there.  Several loads were simulated, under all schedulers, before this one was chosen.
With blocks of 10 MB a map takes 5 s, which is long beside what a process needs to start.

The last rows are simulations in which a site loses half of its slots and bandwidth when the first
wave of maps has ended: mean response time beside that without the loss, and how many of the maps
with input there were launched at other sites from then on, with the loss and without it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from railyard.benchmarks._common.bothclocks import Quantity, compare
from railyard.benchmarks._common.maplaunches import MapLaunch, map_launches
from railyard.benchmarks._common.rows import Row, bench_row
from railyard.experiments.comparison import Comparison
from railyard.runs.folder import EVENTS
from railyard.runs.requests import RunRequest

#: Largest difference between the clocks, in %.
BOUND = 10.0
TOPOLOGY = "tetrium-8,storage.block=10MB,compute.map_rate=2MB/s,compute.reduce_rate=4MB/s"
JOBS = tuple(f"{job},size=500MB,skew_ratio=8" for job in ("terasort", "wordcount", "query"))
SCHEDULERS = ("in-place", "iridium", "centralized", "tetrium")
QUANTITIES = (
    Quantity("makespan", "s", lambda run: run["makespan_s"]),
    Quantity("mean JCT", "s", lambda run: run["jct_s"]["mean"]),
    Quantity("WAN", "MB", lambda run: run["bytes"]["wan"] / 1e6),
)
#: The site that loses half of all it has, and when.
SITE, LOSS_S = "r3", 5.5


def run(quick: bool = False) -> list[Row]:
    """Measure with one seed; ``quick`` takes two schedulers."""
    request = RunRequest(
        words=JOBS,
        schedulers=SCHEDULERS[:: len(SCHEDULERS) - 1] if quick else SCHEDULERS,
        topology=TOPOLOGY,
        clocks=("wall",),
        seeds=1,
    )
    rows = compare(request, QUANTITIES, BOUND)
    virtual = replace(request, clocks=("virtual",))
    return rows + [_with_loss(replace(virtual, schedulers=(name,))) for name in request.schedulers]


def _with_loss(request: RunRequest) -> Row:
    """One scheduler's mean response time if a site loses half of its slots and bandwidth."""
    what = (f"slots:{SITE}n0", f"link:{SITE}.up", f"link:{SITE}.down")
    faults = ",".join(f"{each}*0.5@{LOSS_S:g}s" for each in what)
    without_s, usual = _simulated(request)
    with_s, launches = _simulated(replace(request, faults=faults))
    return bench_row(
        f"{request.schedulers[0]}: mean JCT if {SITE} loses half, simulated",
        with_s,
        "s",
        reference=without_s,
        note=f"maps with input at {SITE}, launched elsewhere after {LOSS_S:g} s: "
        f"{_away(launches)}, without the loss {_away(usual)}",
    )


def _simulated(request: RunRequest) -> tuple[float, list[MapLaunch]]:
    """Mean response time in seconds, and where maps were launched."""
    with tempfile.TemporaryDirectory(prefix="railyard-") as scratch:
        folder = Path(scratch) / "runs"
        [contender] = Comparison(replace(request, results=folder)).run()
        [run] = folder.iterdir()
        return contender.runs[0]["jct_s"]["mean"], list(map_launches(run / EVENTS))


def _away(launches: Iterable[MapLaunch]) -> str:
    """How many maps with input at the site were launched elsewhere, after the loss."""
    there = [launch for launch in launches if f"{SITE}n0" in launch.input_nodes]
    after = [launch.away for launch in there if launch.at_s > LOSS_S]
    return f"{sum(after)} of {len(after)}"
