"""Links that simulated schedulers see: when they are looked at, and what is reported."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from railyard.cluster.config import ClusterConfig
from railyard.cluster.messaging.wire import Command, Event
from railyard.cluster.topology import Topology
from railyard.jobs.workloads.model import Workload, WorkloadJob
from railyard.netemu.messages import LinksObserved
from railyard.netemu.model.observed import LinkState, links_as_stated
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.simulator.cluster import Simulation
from railyard.simulator.faults.faults import CapacityDrop
from railyard.simulator.nodes.behaviour import Behaviour
from tests.resourcemanager.toys import FREEST
from tests.simulator.test_simulation import MB, job, topology


@dataclass
class Links:
    """A log of the links that were reported, and of what they are known to be."""

    reports: list[tuple[float, dict[str, LinkState]]] = field(default_factory=list)

    def write(self, at_s: float, event: Event, commands: Sequence[Command] = ()) -> None:
        if isinstance(event, LinksObserved):
            self.reports.append((at_s, event.links))


def watched(
    wanted: WorkloadJob,
    place: Topology,
    faults: Sequence[CapacityDrop] = (),
    recipe: Recipe | None = FREEST,
    **options: float,
) -> tuple[Simulation, Links]:
    log = Links()
    settings = {f"links.{name}": value for name, value in options.items()}
    config = ClusterConfig(topology=place, scheduler_options=settings)
    workload = Workload(name="w", source="", jobs=(wanted,))
    silent = Behaviour(progress_s=0.0)
    return Simulation(config, workload, silent, faults, log, recipe=recipe), log


def link(capacity: float, free: float) -> LinkState:
    return LinkState(capacity_bytes_per_s=capacity, free_bytes_per_s=free)


def drop(at_s: float, lasts_s: float, share: float = 0.5, name: str = "r1.up") -> CapacityDrop:
    return CapacityDrop(link=name, share=share, at_s=at_s, lasts_s=lasts_s)


PLACE = topology(racks=2, nodes=1)
LONG = job(maps=10, shares=(0.5, 0.5))  #: 10 s, without a byte over the network


def test_a_change_is_reported_at_the_end_of_its_period():
    run, log = watched(LONG, place=PLACE, faults=(drop(2.5, 2.0), drop(7.0, 1.0)))
    run.run()
    full = links_as_stated(run.network.fabric.network)["r1.up"].capacity_bytes_per_s
    half = {"r1.up": link(full / 2, full / 2)}
    whole = {"r1.up": link(full, full)}
    assert [report for report in log.reports if "r1.up" in report[1]][:4] == [
        (3.0, half),
        (5.0, whole),
        (7.0, half),  # of all that happens at this time, the look is the last
        (8.0, whole),
    ]


def test_what_has_come_and_gone_within_a_period_is_not_reported():
    run, log = watched(LONG, place=PLACE, faults=(drop(2.1, 0.5),))
    run.run()
    assert not [at_s for at_s, _ in log.reports if 2.0 < at_s < 9.0]


def test_the_period_and_the_change_are_settings():
    run, log = watched(LONG, place=PLACE, faults=(drop(2.5, 2.0),), period_s=4.0)
    run.run()
    assert [at_s for at_s, links in log.reports if "r1.up" in links][:2] == [4.0, 8.0]


def test_what_flows_use_is_reported_and_in_the_end_that_all_is_free():
    shuffle = job(maps=4, reduces=2, shuffle=400 * MB)
    run, log = watched(shuffle, place=topology(racks=2, nodes=2), period_s=0.25)
    run.run()
    while run.heap.next_s() < math.inf or run.network.next_s() < math.inf:
        run.step()
    stated = links_as_stated(run.network.fabric.network)
    assert run.core.state.links == stated
    used = [
        link for _, links in log.reports for link in links.values() if not link.free_bytes_per_s
    ]
    assert used
    times_s = [at_s for at_s, _ in log.reports]
    assert all(later - earlier >= 0.25 for earlier, later in pairwise(times_s))
    assert all(at_s % 0.25 == 0 for at_s in times_s)


def test_what_is_known_is_never_further_off_than_a_change():
    """At each look; in between, the network may be ahead by a period."""
    shuffle = job(maps=6, reduces=3, shuffle=600 * MB)
    run, log = watched(shuffle, place=topology(racks=3, nodes=1), faults=(drop(2.2, 1.5),))
    seen = 0

    def compare(run: Simulation) -> None:
        nonlocal seen
        if len(log.reports) == seen:
            return
        seen = len(log.reports)
        fabric = run.network.fabric
        free, capacity = fabric.free_bytes_per_s(), fabric.capacities_bytes_per_s()
        for name, known in run.core.state.links.items():
            assert known.capacity_bytes_per_s == capacity[name]
            assert abs(known.free_bytes_per_s - free[name]) <= 0.05 * capacity[name] + 1

    run.run(compare)
    assert seen > 2


def test_a_scheduler_that_does_not_ask_is_told_nothing():
    run, log = watched(LONG, place=PLACE, faults=(drop(2.5, 2.0),), recipe=None)
    run.run()
    assert log.reports == []


def test_looking_does_not_keep_a_run_going_in_which_nothing_happens():
    stopped = drop(0.0, math.inf, share=0.0)
    run, log = watched(job(maps=2, reduces=2, shuffle=400 * MB), place=PLACE, faults=(stopped,))
    run.run()
    assert "nothing can change any more" in run.core.records["j1"].reason
    assert log.reports
