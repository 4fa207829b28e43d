"""Do the two clocks agree?  The same jobs emulated and simulated, under the same schedulers.

TeraSort, WordCount and a mix of 20 jobs on ``hybrid-8x4``, whose computing is paced, with blocks of
512 MB.  Each is run with real processes and bytes, then in virtual time with its blocks where the
first run had them.  Bounded is how far the emulation's mean job and coflow completion times, over
all seeds, are from the simulation's.

Tasks of equal length would end at one time, and who gets which of their slots would be chance: of
one TeraSort under ``delay`` that alone moves the shuffle's time by 29 to 42 %, as a map that finds
its block's nodes taken waits for 5 s (standard deviations over eight simulations).  So the
topology's ``skew`` makes each task of a stage a bit longer or shorter than the others, the same
ones on both clocks, and the order in which they end is chance no more, but where two end within a
few ms: then some of a seed's simulations go one way and some the other, and the emulation goes one.
Of six seeds of TeraSort under ``capacity`` four had simulations that vary by .1 % and differ from
the emulation by .3 %; in one, half of the simulated shuffles took 11.4 s, as the emulated one did,
and half 13.8 s.  The notes tell how much the simulations of a seed vary.

What the model leaves out is the machine's own time, to start an attempt, to tell of its end and the
like.  With blocks of 256 MB, 500 fetches that TeraSort's 16 reduces begin within 0.4 s keep two
cores busy for 1.2 s; maps launched then begin to read up to 0.1 s late, and the shuffle of 2.7 s is
6 % shorter than the simulation's.  On a machine that is busy otherwise that grows; the notes tell
how busy it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks._bothclocks import on_both_clocks, row
from netemu.schedulers import FLOW_SCHEDULERS
from scripts.comparison import Summary
from scripts.contest import Terms

#: Largest difference, in %.
BOUND = 5.0
TOPOLOGY = "hybrid-8x4,compute.skew=0.25,storage.block=512MB"
#: The sigma of the simulations' computing times: about 2 ms of a map, as the emulation is late by.
VARIANCE = 0.002
JOBS = {
    "TeraSort": ("terasort,size=20GB",),
    "WordCount": ("wordcount,size=20GB",),
    "20 jobs": ("mix,jobs=20,sizes=1GB+2GB+4GB,window=20s,users=4",),
}
SCHEDULERS = (
    ("fair", "maxmin"),
    ("delay", "maxmin"),
    ("capacity", "maxmin"),
    ("fair", "sunflow"),
)


def run(quick: bool = False) -> list[dict[str, Any]]:
    """Measure with three seeds each; ``quick`` takes one."""
    seeds = (1,) if quick else (1, 2, 3)
    rows = []
    for name, words in JOBS.items():
        for scheduler, flows in SCHEDULERS:
            if flows in FLOW_SCHEDULERS:
                rows += _measure(name, words, scheduler, flows, seeds)
    return rows


def _measure(
    name: str, words: tuple[str, ...], scheduler: str, flows: str, seeds: tuple[int, ...]
) -> list[dict[str, Any]]:
    terms = Terms(
        words=words,
        schedulers=(scheduler,),
        flow_schedulers=(flows,),
        clocks=("wall",),
        seeds=seeds,
        topology=TOPOLOGY,
    )
    runs = on_both_clocks(terms, VARIANCE)
    rows = []
    for figure in ("jct", "cct"):
        of = _mean_of(f"{figure}_s")
        title = f"{name}, {scheduler} with {flows}: mean {figure.upper()}"
        made = row(title, "s", runs.means(of), BOUND, runs)
        made["note"] += f"; simulations of a seed vary by {runs.spread(of):.1f} %"
        rows.append(made)
    return rows


def _mean_of(key: str) -> Callable[[Summary], float]:
    return lambda run: float(run[key]["mean"])
