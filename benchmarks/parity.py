"""Do the two clocks agree?  The same jobs emulated and simulated, under the same schedulers.

TeraSort, WordCount and a mix of 20 jobs on ``hybrid-8x4``, whose computing is paced.  Each is run
with real processes and bytes, then in virtual time with its blocks where the first run had them.
Bounded is how far the emulation's mean job and coflow completion times, over all seeds, are from
the simulation's.

Which of many slots that fall free together a reduce gets is chance in an emulation; on ideal nodes
it is the same each time.  Of one TeraSort under ``fair`` that alone moves the job time by 5 % and
the shuffle's by 12 % (standard deviations over ten simulations).  So each run is simulated
several times, with computing times that vary by 1 %, and the mean of these is the reference.

What the model leaves out is the machine's own time, to tell of an attempt's end and the like.  On
a machine that is busy otherwise that grows; the notes tell how busy it was.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from jobs.mixes import Defaults, read_mix
from jobs.workloads.measured import measured_workload
from netemu.schedulers import FLOW_SCHEDULERS
from resourcemanager.eventlog import read_log
from scripts.comparison import Contender, Summary
from scripts.contest import Contest, Terms
from scripts.placed import placed_as_in
from scripts.request import DEFAULT_SIZE_BYTES
from scripts.virtual import VirtualRun, run_virtually
from simulator.behaviour import Behaviour

#: Largest difference, in %.
BOUND = 5.0
#: Simulations of each emulated run, and the sigma of their computing times.
SIMULATIONS = 20
VARIANCE = 0.01
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
    contender = Contender(scheduler, flows, "wall")
    emulated: list[Summary] = []
    simulated: list[Summary] = []
    for seed in seeds:
        with tempfile.TemporaryDirectory(prefix="railyard-") as scratch:
            terms = Terms(
                words=words,
                schedulers=(scheduler,),
                flow_schedulers=(flows,),
                clocks=("wall",),
                seeds=(seed,),
            )
            folder = Path(scratch) / "runs"
            emulated += Contest(terms, folder).run()[contender]
            [run] = folder.iterdir()
            simulated += _simulate(words, seed, run / "events.jsonl")
    busy = max(run["fidelity"]["cpu_saturated"] for run in emulated)
    note = f"CPUs saturated up to {busy:.0%} of the time, load {os.getloadavg()[0]:.1f}"
    if not all(run["verified"] for run in emulated):
        note += "; NOT VERIFIED"
    return [
        _row(f"{name}, {scheduler} with {flows}: mean {figure.upper()}", emulated, simulated, note)
        for figure in ("jct", "cct")
    ]


def _simulate(words: tuple[str, ...], seed: int, events: Path) -> list[Summary]:
    """The same jobs in virtual time, on the same cluster with the same blocks."""
    config, _ = read_log(events)
    mix = read_mix(words, Defaults(size_bytes=DEFAULT_SIZE_BYTES), seed)
    workload = placed_as_in(measured_workload(mix, config.topology, seed), events)
    behaviour = Behaviour(variance=VARIANCE)
    runs = [
        VirtualRun(
            config=msgspec.structs.replace(config, seed=number),
            workload=workload,
            behaviour=behaviour,
        )
        for number in range(1, SIMULATIONS + 1)
    ]
    return [run_virtually(run) for run in runs]


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
