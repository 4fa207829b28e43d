"""Do the two clocks agree?  The same jobs emulated and simulated, under the same schedulers.

TeraSort, WordCount and a mix of 20 jobs on ``hybrid-8x4``, with paced computing and blocks of 512
MB.  Each is run with real processes and bytes, then in virtual time with the same placement of its
blocks.  The bound is on the difference of the mean job and coflow completion times, over all seeds.

Tasks of equal length would end together, and chance would decide who gets their slots.  For one
TeraSort under ``delay`` this alone changes the shuffle's time by 29 to 42 % (standard deviation of
eight simulations), as a map that finds its block's nodes taken waits for 5 s.  So the topology's
``skew`` gives the tasks of a stage different lengths, the same on both clocks.  Chance then decides
only between tasks that end within a few ms of each other.

How often that happens depends on the mix.  It was chosen by simulations alone, before any
emulation: three runs can show a difference of 5 % only if the simulations of a mix vary by less.
With 20 jobs within 20 s and task lengths of .75 to 1.25, the mean coflow time of a seed's
simulations varies by 7 to 8 % under ``delay`` and ``capacity``: one early tie decides who waits for
5 s.  With .5 to 1.5 and 30 s it varies by 3 to 5 %, with 60 s by 1 to 3 %, as the notes show.  Jobs
still compete for slots, in bursts.

No job here sends the topology's threshold for circuits, 1.125 GB, between two racks; so elephants
begin at 100 MB.  The notes show the bytes on circuits.

The model leaves out the machine's own time, such as starting an attempt.  With blocks of 256 MB,
500 fetches that TeraSort's 16 reduces begin within 0.4 s keep two cores busy for 1.2 s; maps
launched then begin to read up to 0.1 s late, and the shuffle of 2.7 s is 6 % shorter than the
simulation's.  The difference grows on a busy machine; the notes show how busy it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from railyard.benchmarks._common.bothclocks import on_both_clocks, row
from railyard.benchmarks._common.rows import Row
from railyard.experiments.comparison import VARIANCE
from railyard.netemu.schedulers import FLOW_SCHEDULERS
from railyard.runs.figures import Summary
from railyard.runs.requests import RunRequest

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
#: What a quick run takes: all jobs and all schedulers, each once, in two minutes.  All twelve
#: set-ups take ten, even with one seed.
QUICK = {
    "TeraSort": ("fair", "sunflow"),
    "WordCount": ("delay", "maxmin"),
    "20 jobs": ("capacity", "maxmin"),
}


def run(quick: bool = False) -> list[Row]:
    """Measure with three seeds each; ``quick`` takes one, and one scheduler with each of the jobs.

    Flow schedulers that there are none of are left out.
    """
    rows = []
    for name, words in JOBS.items():
        for scheduler, flows in (QUICK[name],) if quick else SCHEDULERS:
            if flows in FLOW_SCHEDULERS:
                rows += _measure(name, words, scheduler, flows, seeds=1 if quick else 3)
    return rows


def _measure(
    name: str, words: tuple[str, ...], scheduler: str, flows: str, seeds: int
) -> list[Row]:
    request = RunRequest(
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
