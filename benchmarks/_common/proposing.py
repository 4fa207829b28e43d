"""What proposals cost a scheduler that makes none.

Two simulations of the same jobs go on in turns, a few steps at a time, in one process: whatever
else the machine does slows both down alike.  In one, a policy is asked for proposals after each
event and never makes any; in the other, no policy could.  Then the same with cores alone, which
handle the events of such a simulation: most of these only report an attempt's progress, and take
6 us, so that .7 us for being asked show.  And jobs without duplicates
under Shadow's copies policy, beside one that is asked as often and does nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import msgspec

from railyard.benchmarks._common.rows import Row, bench_row
from railyard.cluster.config import ClusterConfig
from railyard.cluster.messaging.wire import Command, Event
from railyard.cluster.topology import load_topology
from railyard.jobs.workloads.catalog import workload
from railyard.jobs.workloads.model import Workload
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.interface.decisions import Proposal
from railyard.resourcemanager.interface.policies import CopyPolicy
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.schedulers import recipe_named
from railyard.simulator.cluster import Simulation
from railyard.simulator.memory import few_collections

#: CPU time of a simulation with a policy that proposes nothing, over that of one without it.
BOUND = 1.05
#: CPU time of a simulation with Shadow's policy and no duplicates, over that with an idle one.
SHADOW_BOUND = 1.03
#: {what is simulated: workload, topology, scheduler}
SETUPS = {
    "30 jobs of Joint, fair": ("joint,jobs=30", "joint-16x6", "fair"),
    "8 jobs of W1, capacity": ("corral-w1,jobs=8,grain=12", "corral-7x30", "capacity"),
}
#: So many steps, or events, one of both takes before it is the other's turn.
AT_ONCE = 200


class IdleCopies(CopyPolicy):
    """Is asked for proposals, and makes none."""

    def propose(self) -> Iterable[Proposal]:
        return ()


class Events:
    """A simulation's log: its events, with their times, and how many commands they led to."""

    def __init__(self) -> None:
        self.events: list[tuple[float, Event]] = []
        self.commands = 0

    def write(self, at_s: float, event: Event, commands: Sequence[Command] = ()) -> None:
        self.events.append((at_s, event))
        self.commands += len(commands)


def idle_proposals(times: int) -> list[Row]:
    """Rows of a benchmark, from so many runs of each."""
    rows = []
    for title, (jobs, topology, scheduler) in SETUPS.items():
        config = ClusterConfig(topology=load_topology(topology), scheduler=scheduler)
        made = workload(jobs, config.seed)
        not_asked = replace(recipe_named(scheduler), copies=CopyPolicy)
        asked = replace(not_asked, copies=IdleCopies)
        log = Events()
        Simulation(config, made, log=log, recipe=not_asked).run()  # compiled loops are loaded
        done = [_simulations(config, made, asked, not_asked) for _ in range(times)]
        rows.append(
            _row(
                f"{title}, asked for proposals: whole simulation; reference: not asked",
                done,
                BOUND,
                log,
            )
        )
        done = [_cores(config, log, asked, not_asked) for _ in range(times)]
        rows.append(
            _row(f"{title}, asked for proposals: core alone; reference: not asked", done, None, log)
        )
    return rows


def shadow_idle(times: int) -> Row:
    """Shadow's six applications without duplicates; a row from so many runs of each."""
    recipe = recipe_named("shadow")
    settings = {
        name: value
        for name, value in recipe.settings.items()
        if not name.startswith("speculation.")
    }
    without = replace(recipe, copies=IdleCopies, settings=settings)
    plain = ClusterConfig(topology=load_topology("shadow-4x13"), scheduler="shadow")
    no_duplicates = {"shadow.duplicates_max": 0.0, "speculation.on": False}
    idle = msgspec.structs.replace(plain, scheduler_options=no_duplicates)
    made, log = workload("shadow", plain.seed), Events()
    Simulation(plain, made, log=log, recipe=without).run()  # compiled loops are loaded
    done = []
    for _ in range(times):
        both = Simulation(idle, made, recipe=recipe), Simulation(plain, made, recipe=without)
        done.append(_in_turns(*map(_steps, both)))
    title = "shadow, jobs without duplicates: whole simulation; reference: an idle copies policy"
    return _row(title, done, SHADOW_BOUND, log)


def _simulations(
    config: ClusterConfig, made: Workload, asked: Recipe, not_asked: Recipe
) -> tuple[float, float]:
    """CPU seconds of both simulations, from the first event to the last."""
    both = [Simulation(config, made, recipe=recipe) for recipe in (asked, not_asked)]
    return _in_turns(*map(_steps, both))


def _cores(
    config: ClusterConfig, log: Events, asked: Recipe, not_asked: Recipe
) -> tuple[float, float]:
    """CPU seconds of two cores for the same events."""
    both = [Core(config.topology, recipe, seed=config.seed) for recipe in (asked, not_asked)]
    return _in_turns(*(_handled(core, log) for core in both))


def _steps(simulation: Simulation) -> Iterator[None]:
    while simulation.jobs.ended < len(simulation.workload.jobs):
        simulation.step()
        yield


def _handled(core: Core, log: Events) -> Iterator[None]:
    for at_s, event in log.events:
        core.handle(event, at_s)
        yield


def _in_turns(first: Iterator[None], second: Iterator[None]) -> tuple[float, float]:
    """CPU seconds of two things done in turns, some steps of each at a time."""
    taken_s, both = [0.0, 0.0], (first, second)
    with few_collections():
        going = [0, 1]
        while going:
            for which in list(going):
                begun_s = time.process_time()
                goes_on = _some(both[which])
                taken_s[which] += time.process_time() - begun_s
                if not goes_on:
                    going.remove(which)
    return taken_s[0], taken_s[1]


def _some(steps: Iterator[None]) -> bool:
    """Take some steps; returns whether there may be more."""
    return all(next(steps, _ENDED) is None for _ in range(AT_ONCE))


_ENDED = object()


def _row(name: str, done: Sequence[tuple[float, float]], bound: float | None, log: Events) -> Row:
    asked_s, not_asked_s = (sum(each) / len(done) for each in zip(*done, strict=True))
    each = " ".join(f"{one / other:.3f}" for one, other in done)
    return bench_row(
        name,
        asked_s,
        "s",
        reference=not_asked_s,
        ratio_bound=bound,
        note=f"{len(log.events)} events; ratios {each}",
    )
