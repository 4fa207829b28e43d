"""Runs schedules of faults by seed, checks laws after every event, and makes failing ones short.

A short one fails still, and without any part of it no more.  Parts are left out by halves, then one
by one (delta debugging; Zeller and Hildebrandt, TSE 2002).

Not here: what is in a schedule (``schedules``), how many run, and what is printed of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from railyard.cluster.errors import InvariantError
from railyard.cluster.messaging.wire import Command, Event
from railyard.jobs.workloads.model import Workload
from railyard.oracles.faults import toys
from railyard.oracles.faults.daemons import DaemonFault
from railyard.oracles.faults.driver import Journaled
from railyard.oracles.faults.laws import Laws
from railyard.oracles.faults.schedules import Schedule, large_schedule, recipe_of, small_schedule
from railyard.oracles.faults.simulation import FaultySimulation
from railyard.resourcemanager.driving.coredriver import Log
from railyard.resourcemanager.schedulers import all_recipes
from railyard.simulator.simulation import Simulation

#: Jobs must end within so many seconds after the last fault.
JOBS_END_S_MAX = 5000.0


class Scenario:
    """One simulation of a schedule.  ``go`` raises ``InvariantError`` if a law is broken."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.jobs = Workload(name=schedule.name, jobs=schedule.jobs)
        self.log: Log | None = None  #: also gets all events, if set
        has_deaths = any(isinstance(fault, DaemonFault) for fault in schedule.faults)
        self.run = (FaultySimulation if has_deaths else Simulation)(
            schedule.config,
            self.jobs,
            schedule.behaviour,
            schedule.faults,
            self,
            recipe=recipe_of(schedule.config.scheduler),
        )
        self.laws = Laws(self.run, self.jobs)
        if isinstance(self.run, FaultySimulation):
            driver = self.run.driver
            driver.on_rebuilt = self._rebuilt
            self.laws.is_late = lambda: driver.is_late

    def go(self) -> Simulation:
        """Run to the end, checking all laws."""
        run, laws = self.run, self.laws
        many, until_s = len(self.jobs.jobs), self.schedule.ends_s + JOBS_END_S_MAX
        while run.jobs.ended < many:
            run.step()
            laws.check_step()
            if run.heap.now_s > until_s:
                raise InvariantError(f"jobs go on at {run.heap.now_s:.0f} s")
        while run.core.state.draining or (isinstance(run, FaultySimulation) and not run.is_whole):
            run.step()
        laws.check_end()
        return run

    def write(self, at_s: float, event: Event, commands: Sequence[Command] = ()) -> None:
        """Check the laws after an event: a ``resourcemanager.driving.coredriver.Log``."""
        if self.log is not None:
            self.log.write(at_s, event, commands)
        self.laws.check(event, commands)

    def _rebuilt(self, journal: Sequence[Journaled]) -> None:
        self.laws.restarted([(each.event, each.commands) for each in journal])


# Made short ---------------------------------------------------------------------------------------
#: ("f", place of a fault) or ("j", place of a job).
Part = tuple[str, int]


def parts_of(schedule: Schedule) -> list[Part]:
    """All faults and jobs of a schedule."""
    faults = [("f", place) for place in range(len(schedule.faults))]
    return [*faults, *(("j", place) for place in range(len(schedule.jobs)))]


def of_parts(schedule: Schedule, parts: list[Part]) -> Schedule:
    """The schedule with these parts alone."""
    jobs = [place for kind, place in parts if kind == "j"]
    return schedule.only(jobs, [place for kind, place in parts if kind == "f"])


def shrunk(schedule: Schedule, fails: Callable[[Schedule], bool]) -> list[Part]:
    """The parts of a failing schedule that are needed for it to fail."""
    parts, size = parts_of(schedule), len(parts_of(schedule)) // 2
    while size:
        at = 0
        while at < len(parts):
            fewer = parts[:at] + parts[at + size :]
            if any(kind == "j" for kind, _ in fewer) and fails(of_parts(schedule, fewer)):
                parts = fewer
            else:
                at += size
        size //= 2
    return parts


def in_words(schedule: Schedule) -> list[str]:
    """A line for the cluster, one for each job and one for each fault."""
    config, topology = schedule.config, schedule.config.topology
    racks = topology.racks
    shape = f"{racks.count} racks x {racks.nodes} nodes x {racks.slots} slots"
    lines = [f"{config.scheduler}, {config.flow_scheduler}, {shape}, seed {config.seed}"]
    for job in schedule.jobs:
        stages = " > ".join(f"{stage.tasks} {stage.name}" for stage in job.stages)
        lines.append(f"{job.submit_s:.3f} s: {job.name} of {job.user}, tasks {stages}")
    for fault in sorted(schedule.faults, key=lambda fault: fault.at_s):
        row = msgspec.to_builtins(fault)
        at_s, lasts_s, kind = row.pop("at_s"), row.pop("lasts_s"), row.pop("kind")
        words = " ".join(f"{name}={value}" for name, value in row.items() if value)
        lines.append(f"{at_s:.3f} s: {kind} for {lasts_s:g} s, {words}")
    return lines


# By seed ------------------------------------------------------------------------------------------
#: One schedule in so many is large.
LARGE_EVERY = 50


def schedulers() -> list[str]:
    """All schedulers, and the toys'."""
    return [*sorted(all_recipes()), toys.RECIPE.name]


def schedule_of(number: int, among: list[str]) -> Schedule:
    """The schedule of a number: its scheduler, its size, and its seed."""
    scheduler, seed = among[number % len(among)], number // len(among)
    if seed % LARGE_EVERY == LARGE_EVERY - 1:
        return large_schedule(scheduler, number)
    return small_schedule(scheduler, seed)


def named(size: str, scheduler: str, seed: int) -> Schedule:
    """The schedule of a size, a scheduler and a seed."""
    return large_schedule(scheduler, seed) if size == "large" else small_schedule(scheduler, seed)


def broken_law(schedule: Schedule) -> str:
    """What law a schedule breaks; "" if it keeps them all."""
    try:
        Scenario(schedule).go()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def again(schedule: Schedule, parts: list[Part] | None = None) -> str:
    """The command that repeats a schedule, or parts of it."""
    only = "" if parts is None else " " + ",".join(f"{kind}{place}" for kind, place in parts)
    return f"python -m railyard.benchmarks.faults {schedule.name}{only}"


def made_short(schedule: Schedule) -> tuple[Schedule, list[str]]:
    """The least of a failing schedule that fails, and lines that say what it is."""
    parts = shrunk(schedule, lambda smaller: bool(broken_law(smaller)))
    short = of_parts(schedule, parts)
    lines = [broken_law(short).splitlines()[0], *in_words(short)]
    return short, [*lines, f"again with: {again(schedule, parts)}"]
