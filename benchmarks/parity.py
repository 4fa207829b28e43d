"""Do the two clocks agree?  The same jobs emulated and simulated, under the same schedulers.

TeraSort, WordCount and a mix of 20 jobs on ``hybrid-8x4``, whose computing is paced, with blocks of
512 MB.  Each is run with real processes and bytes, then in virtual time with its blocks where the
first run had them.  Bounded is how far the emulation's mean job and coflow completion times, over
all seeds, are from the simulation's.

Tasks of equal length would end at one time, and who gets which of their slots would be chance: of
one TeraSort under ``delay`` that alone moves the shuffle's time by 29 to 42 %, as a map that finds
its block's nodes taken waits for 5 s (standard deviations over eight simulations).  So the
topology's ``skew`` makes each task of a stage shorter or longer than the others, the same ones on
both clocks, and the order in which they end is chance no more, but where two end within a few ms:
then some of a seed's simulations go one way and some the other, and the emulation goes one.

How often that happens is the mix's doing, and was looked at in simulations alone, before any
emulation: three runs can tell 5 % only of a mix whose simulations vary by less.  If its 20 jobs
come within 20 s, and tasks are spread over .75 to 1.25, a seed's simulations vary in the mean
coflow's time by 7 to 8 % under ``delay`` and ``capacity``: one early tie decides who waits for 5 s.
Over .5 to 1.5 and within 30 s it is 3 to 5 %, and within 60 s 1 to 3 %, as the notes tell.  Slots
are still fought for, in bursts.

Circuits would carry nothing with the topology's threshold of 1.125 GB between two racks, which none
of these jobs ships; here elephants begin at 100 MB.  The notes tell what circuits carried.

What the model leaves out is the machine's own time, to start an attempt, to tell of its end and the
like.  With blocks of 256 MB, 500 fetches that TeraSort's 16 reduces begin within 0.4 s keep two
cores busy for 1.2 s; maps launched then begin to read up to 0.1 s late, and the shuffle of 2.7 s is
6 % shorter than the simulation's.  On a machine that is busy otherwise that grows; the notes tell
how busy it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from railyard.benchmarks._common.bothclocks import on_both_clocks, row
from railyard.netemu.schedulers import FLOW_SCHEDULERS
from railyard.scripts.comparing.metrics import Summary
from railyard.scripts.comparing.scatter import VARIANCE
from railyard.scripts.simulating.request import RunsRequest

#: Largest difference, in %.
BOUND = 5.0
TOPOLOGY = "hybrid-8x4,compute.skew=0.5,storage.block=512MB,ocs.elephant_bytes=100MB"
JOBS = {
    "TeraSort": ("terasort,size=20GB",),
    "WordCount": ("wordcount,size=20GB",),
    "20 jobs": ("mix,jobs=20,sizes=1GB+2GB+4GB,window=60s,users=4",),
}
SCHEDULERS = (
    ("fair", "maxmin"),
    ("delay", "maxmin"),
    ("capacity", "maxmin"),
    ("fair", "sunflow"),
)


def run(quick: bool = False) -> list[dict[str, Any]]:
    """Measure with three seeds each; ``quick`` takes one."""
    seeds = 1 if quick else 3
    rows = []
    for name, words in JOBS.items():
        for scheduler, flows in SCHEDULERS:
            if flows in FLOW_SCHEDULERS:
                rows += _measure(name, words, scheduler, flows, seeds)
    return rows


def _measure(
    name: str, words: tuple[str, ...], scheduler: str, flows: str, seeds: int
) -> list[dict[str, Any]]:
    request = RunsRequest(
        words=words,
        schedulers=(scheduler,),
        flow_schedulers=(flows,),
        clocks=("wall",),
        seeds=seeds,
        topology=TOPOLOGY,
    )
    runs = on_both_clocks(request, VARIANCE)
    rows = []
    for figure in ("jct", "cct"):
        of = _mean_of(f"{figure}_s")
        title = f"{name}, {scheduler} with {flows}: mean {figure.upper()}"
        made = row(title, "s", runs.means(of), BOUND, runs)
        made["note"] += f"; simulations of a seed vary by {runs.spread(of):.1f} %"
        made["note"] += _by_circuit(runs.emulated)
        rows.append(made)
    return rows


def _mean_of(key: str) -> Callable[[Summary], float]:
    return lambda run: float(run[key]["mean"])


def _by_circuit(emulated: Sequence[Summary]) -> str:
    """What circuits carried of what was shipped between racks; nothing is said of none."""
    circuits = sum(run["bytes"]["ocs"] for run in emulated)
    total = sum(run["bytes"]["cross_rack"] for run in emulated)
    return f"; {circuits / total:.0%} of the bytes between racks by circuit" if circuits else ""
