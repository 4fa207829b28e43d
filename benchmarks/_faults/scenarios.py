"""Runs a schedule of faults, and checks the laws (``laws.py``) after every event.

Not here: what is in a schedule; see ``schedules.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

from railyard.benchmarks._faults.laws import Laws
from railyard.benchmarks._faults.schedules import Schedule, recipe_of
from railyard.cluster.errors import InvariantError
from railyard.cluster.messaging.wire import Command, Event
from railyard.jobs.workloads.model import Workload
from railyard.resourcemanager.driving.coredriver import Log
from railyard.simulator.cluster import Simulation
from railyard.simulator.restarts.driver import RestartableDriver
from railyard.simulator.restarts.replay import Journaled

#: Jobs must end within so many seconds after the last fault.
JOBS_END_S_MAX = 5000.0


class Scenario:
    """One simulation of a schedule.  ``go`` raises ``InvariantError`` if a law is broken."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.jobs = Workload(name=schedule.name, source="", jobs=schedule.jobs)
        self.log: Log | None = None  #: also gets all events, if set
        self.run = Simulation(
            schedule.config,
            self.jobs,
            schedule.behaviour,
            schedule.faults,
            self,
            recipe=recipe_of(schedule.config.scheduler),
        )
        self.laws = Laws(self.run, self.jobs)
        driver = self.run.driver
        if isinstance(driver, RestartableDriver):
            driver.on_rebuilt = self._rebuilt
            self.laws.is_late = lambda: driver.hears_late

    def go(self) -> Simulation:
        """Run to the end, checking all laws."""
        run, laws = self.run, self.laws
        many, until_s = len(self.jobs.jobs), self.schedule.ends_s + JOBS_END_S_MAX
        while run.jobs.ended < many:
            run.step()
            laws.check_step()
            if run.heap.now_s > until_s:
                raise InvariantError(f"jobs go on at {run.heap.now_s:.0f} s")
        while run.core.state.draining or not run.is_whole:
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
