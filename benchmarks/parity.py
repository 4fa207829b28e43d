"""Do the two clocks agree?  The same jobs emulated and simulated, under the same schedulers.

TeraSort, WordCount and a mix of 20 jobs on ``hybrid-8x4``, whose computing is paced.  Each is run
with real processes and bytes, then in virtual time with its blocks where the first run had them.
Bounded is how far the emulation's mean job and coflow completion times, over all seeds, are from
the simulation's.

What the model leaves out is the machine's own time, to tell of an attempt's end and the like.  On
a machine that is busy otherwise that grows; the notes tell how busy it was.
"""

from __future__ import annotations

from typing import Any

from benchmarks._bothclocks import on_both_clocks, row
from netemu.schedulers import FLOW_SCHEDULERS
from scripts.contest import Terms

#: Largest difference, in %.
BOUND = 5.0
JOBS = {
    "TeraSort": ("terasort",),
    "WordCount": ("wordcount",),
    "20 jobs": ("mix,jobs=20,window=20s,users=4",),
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
    )
    runs = on_both_clocks(terms)
    return [
        row(
            f"{name}, {scheduler} with {flows}: mean {figure.upper()}",
            "s",
            runs.means(lambda run, key=f"{figure}_s": run[key]["mean"]),
            BOUND,
            runs,
        )
        for figure in ("jct", "cct")
    ]
