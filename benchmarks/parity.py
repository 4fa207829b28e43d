"""Do the two clocks agree?  The same jobs emulated and simulated, under the same schedulers.

TeraSort, WordCount and a mix of 20 jobs on ``hybrid-8x4``, whose computing is paced.  Each is run
with real processes and bytes, then in virtual time on ideal nodes, with its blocks where the first
run had them.  Bounded is how far the emulation's mean job and coflow completion times, over all
seeds, are from the simulation's.

What the model leaves out is the machine's own time: to start a process, to tell of its end.  On a
machine that is busy otherwise that grows; the notes tell how busy it was.
"""

from __future__ import annotations

import os
from statistics import fmean
from typing import Any

from netemu.schedulers import FLOW_SCHEDULERS
from scripts.comparison import Contender, Summary
from scripts.contest import Contest, Terms

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
        clocks=("wall", "virtual"),
        seeds=seeds,
    )
    runs = Contest(terms, None).run()
    emulated, simulated = (
        runs[Contender(scheduler, flows, clock)] for clock in ("wall", "virtual")
    )
    busy = max(run["fidelity"]["cpu_saturated"] for run in emulated)
    note = f"CPUs saturated up to {busy:.0%} of the time, load {os.getloadavg()[0]:.1f}"
    if not all(run["verified"] for run in emulated):
        note += "; NOT VERIFIED"
    return [
        _row(f"{name}, {scheduler} with {flows}: mean {figure.upper()}", emulated, simulated, note)
        for figure in ("jct", "cct")
    ]


def _row(name: str, emulated: list[Summary], simulated: list[Summary], note: str) -> dict[str, Any]:
    figure = f"{name[-3:].lower()}_s"
    value, reference = (
        fmean(run[figure]["mean"] for run in runs) for runs in (emulated, simulated)
    )
    off = abs(value / reference - 1) * 100
    return {
        "name": name,
        "value": value,
        "unit": "s",
        "reference": reference,
        "ratio": value / reference,
        "bound": 1 + BOUND / 100,
        "ok": off <= BOUND and "NOT VERIFIED" not in note,
        "note": f"{off:.1f} % off; {note}",
    }
