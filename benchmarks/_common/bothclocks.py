"""The same jobs emulated and simulated, under the same scheduler, from the same placed blocks.

    runs = on_both_clocks(request)      # of one scheduler: the summaries of each clock
    rows = compare(request, QUANTITIES, bound)      # of several, as rows of a benchmark

Each emulated run is simulated several times (``railyard.experiments.comparison`` says why), with
computing times that vary by ``VARIANCE``, and compared with their mean.  For one TeraSort under
``fair`` chance alone changes the job time by 5 % and the shuffle's by 12 % (standard deviations of
ten simulations).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, pstdev

from railyard.benchmarks._common.rows import Row, bench_row
from railyard.experiments.comparison import Comparison, Emulated, placed_as_in, scatter
from railyard.jobs.workloads.measurement import measured_workload
from railyard.jobs.workloads.mixes import Defaults, read_mix
from railyard.resourcemanager.driving.eventlog import read_log
from railyard.runs.config import own_options, typed_pair
from railyard.runs.figures import Summary
from railyard.runs.folder import EVENTS
from railyard.runs.requests import RunRequest

#: A topology with long tasks: what the machine itself needs for one is then little of its time.
LARGE_BLOCKS = Path(__file__).with_name("hybrid-8x4-1GB.toml")
#: The sigma of the simulations' computing times.
VARIANCE = 0.01


@dataclass(frozen=True)
class Quantity:
    """Something to compare the clocks by."""

    name: str
    unit: str
    of: Callable[[Summary], float]
    bounded: bool = True  #: whether it has to be the same on both clocks


@dataclass(frozen=True, kw_only=True)
class Runs:
    """One scheduler's runs of one or more seeds."""

    emulated: list[Summary]
    simulated: list[list[Summary]]  #: those of each emulated run

    def spread(self, of: Callable[[Summary], float]) -> float:
        """A figure's standard deviation over the simulations of one seed, in % of its mean."""
        each = [[of(run) for run in runs] for runs in self.simulated]
        mean = fmean(map(fmean, each))
        return 100 * fmean(map(pstdev, each)) / mean if mean else 0.0

    def means(self, of: Callable[[Summary], float]) -> tuple[float, float]:
        """A figure's means over the emulated and over the simulated runs."""
        simulated = [of(run) for runs in self.simulated for run in runs]
        return fmean(map(of, self.emulated)), fmean(simulated)

    @property
    def verified(self) -> bool:
        """Whether the output of every emulated job was right."""
        return all(run["verified"] for run in self.emulated)

    def note(self) -> str:
        """How busy the machine was, and whether anything went wrong."""
        busy = max(run["fidelity"]["cpu_saturated"] for run in self.emulated)
        waited = max(map(_waited_share, self.emulated))
        note = f"CPUs saturated up to {busy:.0%} of the time, load {os.getloadavg()[0]:.1f}"
        note += f", attempts waited for the machine for {waited:.0%} of their time in slots"
        return note if self.verified else f"{note}; NOT VERIFIED"


def on_both_clocks(request: RunRequest, variance: float = VARIANCE) -> Runs:
    """Emulate what is asked for, one scheduler with one flow scheduler; simulate the same.

    ``variance``: sigma of the simulations' computing times.  Settings of other schedulers are left
    out.
    """
    emulated: list[Summary] = []
    simulated: list[list[Summary]] = []
    [scheduler] = request.schedulers
    options = own_options(typed_pair(scheduler)[0], request.scheduler_options)
    for seed in request.every_seed:
        with tempfile.TemporaryDirectory(prefix="railyard-") as scratch:
            folder = Path(scratch) / "runs"
            one = replace(request, seed=seed, seeds=1, scheduler_options=options, results=folder)
            [contender] = Comparison(one).run()
            emulated += contender.runs
            [run] = folder.iterdir()
            simulated += scatter([_emulated(request, seed, run / EVENTS)], variance)
    return Runs(emulated=emulated, simulated=simulated)


def compare(request: RunRequest, quantities: Sequence[Quantity], bound: float) -> list[Row]:
    """Each scheduler's figures; notes have their ratios to the first scheduler's, on each clock.

    A figure that simulations of one seed scatter by more than ``bound`` % is chance, as where a
    scheduler draws lots for racks; it may differ by two standard errors.
    """
    rows = []
    first: dict[Quantity, tuple[float, float]] = {}
    for scheduler in request.schedulers:
        runs = on_both_clocks(replace(request, schedulers=(scheduler,)))
        for quantity in quantities:
            means = runs.means(quantity.of)
            spread = runs.spread(quantity.of)
            name = f"{scheduler}: {quantity.name}"
            if quantity.bounded:
                within = bound if spread <= bound else 2 * spread / len(request.every_seed) ** 0.5
                made = row(name, quantity.unit, means, within, runs)
            else:
                value, reference = means
                made = bench_row(name, value, quantity.unit, reference=reference, note=runs.note())
            made["note"] += f"; simulations vary by {spread:.0f} %"
            of_first = first.setdefault(quantity, means)
            if scheduler != request.schedulers[0] and all(of_first):
                real, virtual = (own / its for own, its in zip(means, of_first, strict=True))
                ratios = f"{real:.2f} of {request.schedulers[0]}'s, {virtual:.2f} simulated"
                made["note"] = f"{ratios}; {made['note']}"
            rows.append(made)
    return rows


def row(name: str, unit: str, means: tuple[float, float], bound: float, runs: Runs) -> Row:
    """A benchmark's row: the emulation's figure, which may differ by ``bound`` % at most.

    Shares (unit %) are compared by percentage points.
    """
    value, reference = means
    points = unit == "%"
    off = abs(value - reference) if points else abs(value / reference - 1) * 100
    return bench_row(
        name,
        value,
        unit,
        reference=reference,
        bound=bound if points else 1 + bound / 100,
        ok=off <= bound and runs.verified,
        note=f"{off:.1f} {'points' if points else '%'} off; {runs.note()}",
    )


def _waited_share(run: Summary) -> float:
    """Of the time for which attempts held slots, the share in which they waited for the machine."""
    held_s = sum(job["slot_s"] for job in run["jobs"])
    return sum(job["machine_s"] for job in run["jobs"]) / held_s if held_s else 0.0


def _emulated(request: RunRequest, seed: int, events: Path) -> Emulated:
    """What to simulate of an emulated run."""
    config, _ = read_log(events)
    mix = read_mix(request.words, Defaults(size_bytes=request.input_bytes), seed)
    workload = placed_as_in(measured_workload(mix, config.topology, seed), events)
    return Emulated(config=config, workload=workload, events=events)
