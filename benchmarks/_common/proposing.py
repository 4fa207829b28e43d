"""What proposals cost a scheduler that makes none.

Two simulations of the same jobs go on in turns, a few steps at a time, in one process: whatever
else the machine does slows both down alike.  In one, a policy is asked for proposals and never
makes any; in the other, no policy could.  Then the same with cores alone, which handle the events
of such a simulation: most of these only report an attempt's progress, and take 6 us.  And jobs
without duplicates under Shadow's copies policy, beside a recipe that has none.

The ratio of one such pair of runs varies by 1 to 2 % (two equal simulations: .97 to 1.04).  So
there are many short pairs, and what counts is the median of their ratios.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from statistics import median

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
from railyard.resourcemanager.interface.views import AttemptView
from railyard.resourcemanager.schedulers import recipe_named
from railyard.simulator.clock import few_collections
from railyard.simulator.simulation import Simulation

#: CPU time of a simulation with a policy that proposes nothing, over that of one without it.
BOUND = 1.03
#: {what is simulated: workload, topology, scheduler}
SETUPS = {
    "30 jobs of Joint, fair": ("joint,jobs=30,work=600s,median=35,reads=1", "joint-16x6", "fair"),
    "8 jobs of W1, capacity": ("corral-w1,jobs=8,grain=12", "corral-7x30", "capacity"),
}
#: So many steps, or events, one of both takes before it is the other's turn.
AT_ONCE = 200


class IdleCopies(CopyPolicy):
    """Is asked for proposals once attempts have ended, and makes none."""

    quiet = True

    def attempt_ended(self, _: AttemptView) -> None:
        self.quiet = False

    def propose(self) -> Iterable[Proposal]:
        self.quiet = True
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
    """Rows of a benchmark, from so many pairs of runs each."""
    rows = []
    for title, (jobs, topology, scheduler) in SETUPS.items():
        config = ClusterConfig(topology=load_topology(topology), scheduler=scheduler)
        made = workload(jobs, config.seed)
        not_asked = replace(recipe_named(scheduler), copies=CopyPolicy)
        asked = replace(not_asked, copies=IdleCopies)
        log = Events()
        Simulation(config, made, log=log, recipe=not_asked).run()
        whole = [partial(_simulated, config, made, recipe) for recipe in (asked, not_asked)]
        cores = [partial(_handled, config, log, recipe) for recipe in (asked, not_asked)]
        for what, (one, other), bound in (
            ("whole simulation", whole, BOUND),
            ("core alone", cores, None),
        ):
            name = f"{title}, asked for proposals: {what}; reference: not asked"
            rows.append(_row(name, _pairs(one, other, times), bound, log))
    return rows


def shadow_idle(times: int) -> Row:
    """Shadow's six applications without duplicates; a row from so many pairs of runs."""
    recipe = recipe_named("shadow")
    settings = {
        name: value
        for name, value in recipe.settings.items()
        if not name.startswith("speculation.")
    }
    without = replace(recipe, copies=CopyPolicy, settings=settings)
    plain = ClusterConfig(topology=load_topology("shadow-4x13"), scheduler="shadow")
    no_duplicates = {"shadow.duplicates_max": 0.0, "speculation.on": False}
    idle = msgspec.structs.replace(plain, scheduler_options=no_duplicates)
    made, log = workload("shadow,input=10GB", plain.seed), Events()
    Simulation(plain, made, log=log, recipe=without).run()
    one, other = partial(_simulated, idle, made, recipe), partial(_simulated, plain, made, without)
    title = "shadow, jobs without duplicates: whole simulation; reference: no copies policy"
    return _row(title, _pairs(one, other, times), BOUND, log)


def _pairs(
    one: Callable[[], Iterator[None]], other: Callable[[], Iterator[None]], times: int
) -> list[tuple[float, float]]:
    """CPU seconds of both, for each of so many pairs, in which they begin by turns.

    The pair before them does not count: what both use has to be loaded.
    """
    done = [_in_turns(one(), other())]
    for number in range(times):
        if number % 2:
            done.append(_in_turns(one(), other()))
        else:
            other_s, one_s = _in_turns(other(), one())
            done.append((one_s, other_s))
    return done[1:]


def _simulated(config: ClusterConfig, made: Workload, recipe: Recipe) -> Iterator[None]:
    """The steps of a simulation."""
    return _steps(Simulation(config, made, recipe=recipe))


def _steps(simulation: Simulation) -> Iterator[None]:
    while simulation.jobs.ended < len(simulation.workload.jobs):
        simulation.step()
        yield


def _handled(config: ClusterConfig, log: Events, recipe: Recipe) -> Iterator[None]:
    """A core handles the events of a log."""
    core = Core(config.topology, recipe, seed=config.seed)
    for at_s, event in log.events:
        core.handle(event, at_s)
        yield


def _in_turns(first: Iterator[None], second: Iterator[None]) -> tuple[float, float]:
    """CPU seconds of two things done in turns, some steps of each at a time."""
    taken_s, both = [0.0, 0.0], (first, second)
    with few_collections():
        going = [0, 1]
        while going:
            going.reverse()  # who goes first finds what both use in no cache: up to 20 % of it
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
    asked_s, not_asked_s = (median(each) for each in zip(*done, strict=True))
    ratios = sorted(one / other for one, other in done)
    each = " ".join(f"{ratio:.3f}" for ratio in ratios)
    return bench_row(
        name,
        asked_s,
        "s",
        reference=not_asked_s,
        ratio=median(ratios),
        ratio_bound=bound,
        note=f"{len(log.events)} events; median of ratios {each}",
    )
