"""What the six have in common: where they run, how their input lies, and what is measured.

They run on ``shadow-4x13`` made 4 racks of 4 slots: each slot has its share of a node's NIC and of
a rack's links, doubled, so that a run takes half as long; links are oversubscribed as there,
6.5 : 1.  Of the input one rack has four times as much as another, and blocks have one replica:
those of the fullest rack are computed in two or three waves, or read over its uplink.  Maps have
different lengths (``compute.skew``): with equal ones it is chance which end first, and so where
reduces run, which changed a simulated shuffle by up to 31 %; now by 2.5 % at most.  Whatever an
application ships is about 200 MB, so that all of them take some 12 s; the size of blocks and the
pace of maps follow from that: a block takes 1.25 s, twice as long for K-means, of which each of two
steps starts all attempts anew.  Reduces compute fast.

Rows are job time and shuffle time, each beside what simulations of the same run have, and bounded
is how far the two clocks are from one another.  What emulated attempts wait for the machine does
not count in simulations: it is within a map's pace.  Skew and copies are not bounded: they depend
on which slots were free when.  All outputs are checked.  ``copies_row`` counts copies over all
runs: some must win, and some must lose.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from railyard.benchmarks._common.bothclocks import Quantity, compare
from railyard.benchmarks._common.rows import Row, bench_row
from railyard.runs.requests import RunRequest

#: Largest difference between the clocks, in %.
BOUND = 10.0
PLACE = (
    "shadow-4x13,racks.nodes=4,racks.slots=1,racks.reduce_slots=0,links.nic=133Mbps,links.uplink=82Mbps,"
    "storage.replication=1,compute.reduce_rate=51.2MB/s,compute.skew=0.5"
)
SCHEDULERS = ("shadow", "delay", "kmn", "even")
COPIES, CHOSEN = "copies", "copies chosen"
QUANTITIES = (
    Quantity("job time", "s", lambda run: run["jct_s"]["mean"]),
    Quantity("shuffle", "s", lambda run: run["cct_s"]["mean"]),
    Quantity("skew", "", lambda run: run["shuffle_skew"]["mean"], bounded=False),
    Quantity(COPIES, "", lambda run: run["tasks"]["copies"], bounded=False),
    Quantity(CHOSEN, "", lambda run: run["tasks"]["copies_chosen"], bounded=False),
)


class Application(NamedTuple):
    """A job, its input, the size of a block, and how much of one a map computes in a second."""

    job: str
    size: str
    block: str
    map_rate: str


def measure(one: Application, quick: bool) -> list[Row]:
    """An application's rows with one seed, which bear its name; ``quick`` has two schedulers."""
    request = RunRequest(
        words=(f"{one.job},size={one.size},reduces=4,skew_ratio=4",),
        schedulers=SCHEDULERS[: 2 if quick else None],
        topology=f"{PLACE},storage.block={one.block},compute.map_rate={one.map_rate}",
        clocks=("wall",),
        seeds=1,
    )
    name, _, _ = one.job.partition(",")
    return [row | {"name": f"{name}, {row['name']}"} for row in compare(request, QUANTITIES, BOUND)]


def copies_row(rows: Iterable[Row]) -> Row:
    """How many copies there were in all of these runs, and how many of them were chosen."""
    every = list(rows)
    launched, chosen = (
        sum(row["value"] for row in every if row["name"].endswith(f": {name}"))
        for name in (COPIES, CHOSEN)
    )
    return bench_row(
        "copies chosen; reference: copies, in all runs",
        chosen,
        reference=launched,
        ok=launched > chosen > 0,
    )
