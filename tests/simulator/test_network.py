"""Links that simulated schedulers see: when they are looked at, and what is reported."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from railyard.cluster.config import ClusterConfig
from railyard.cluster.faults import Fault
from railyard.cluster.ids import task_of
from railyard.cluster.messages import CancelFlow, FlowFinished
from railyard.cluster.messaging.wire import Command, Event
from railyard.cluster.topology import Topology, load_topology
from railyard.cluster.topologyfile import Links, RackShape, SwitchTree
from railyard.jobs.workloads.catalog import workload
from railyard.jobs.workloads.model import Workload, WorkloadJob, WorkStage
from railyard.netemu.messages import LinksObserved
from railyard.netemu.model.network import LinkState, links_as_stated
from railyard.oracles.invariants import check_core
from railyard.resourcemanager.driving.coredriver import Log
from railyard.resourcemanager.interface.policies import FlowPolicy
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.interface.views import AttemptView
from railyard.resourcemanager.schedulers.fair import FairOrder
from railyard.simulator import simulation
from railyard.simulator.behaviour import Behaviour
from railyard.simulator.simulation import Simulation
from tests.resourcemanager.toys import FREEST
from tests.simulator.test_simulation import job
from tests.workloads import MB, topology


@dataclass
class ReportedLinks:
    """A log of the links that were reported, and of what they are known to be."""

    reports: list[tuple[float, dict[str, LinkState]]] = field(default_factory=list)

    def write(self, at_s: float, event: Event, commands: Sequence[Command] = ()) -> None:
        if isinstance(event, LinksObserved):
            self.reports.append((at_s, event.links))


def watched(
    wanted: WorkloadJob,
    place: Topology,
    faults: Sequence[Fault] = (),
    recipe: Recipe | None = FREEST,
    **options: float,
) -> tuple[Simulation, ReportedLinks]:
    log = ReportedLinks()
    settings = {f"links.{name}": value for name, value in options.items()}
    config = ClusterConfig(topology=place, scheduler_options=settings)
    workload = Workload(name="w", jobs=(wanted,))
    silent = Behaviour(progress_s=0.0)
    return Simulation(config, workload, silent, faults, log, recipe=recipe), log


def link(capacity: float, free: float) -> LinkState:
    return LinkState(capacity_bytes_per_s=capacity, free_bytes_per_s=free)


def drop(at_s: float, lasts_s: float, share: float = 0.5, name: str = "r1.up") -> Fault:
    return Fault(kind="link", target=name, amount=share, at_s=at_s, lasts_s=lasts_s)


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


# In virtual time flows end in the order of their priorities, as the emulator has them end.


MEGABYTE = 10**6
#: One switch for all: each flow of 100 MB takes a second alone.
NARROW = Topology(
    name="t",
    racks=RackShape(count=1, nodes=4, slots=1),
    links=Links(nic=math.inf),
    tree=SwitchTree(tor=100e6, aggregation=1e12, root=1e12, racks_per_aggregation=1),
)


class Scripted(FlowPolicy):
    """The second reader first, then the third; the first has no priority, and comes last."""

    order = ((), (1.0, 5.0), (1.0, 7.0), (1.0, 7.0, 0.0))

    def priority(self, reader: AttemptView, size_bytes: int) -> tuple[float, ...]:
        return self.order[reader.task.index]


class Ends:
    """When flows ended, by the task that reads them, and how many fetches were cancelled."""

    def __init__(self) -> None:
        self.found: list[tuple[str, float]] = []
        self.cancelled = 0

    def write(self, at_s: float, event: Event, commands: Sequence[Command] = ()) -> None:
        self.cancelled += sum(isinstance(command, CancelFlow) for command in commands)
        if isinstance(event, FlowFinished):
            self.found.append((task_of(event.flow.split(":")[0]), at_s))


def ends(flows: type[FlowPolicy]) -> list[tuple[str, float]]:
    """The ends of three flows from one map to readers on other nodes."""
    stages = (
        WorkStage(name="m", tasks=1, output_bytes=400 * MEGABYTE, task_s=1.0),
        WorkStage(name="r", reads=("m",), tasks=4, output_bytes=0, task_s=100.0),
    )
    job = WorkloadJob(name="j", user="u", queue="default", submit_s=0.0, stages=stages)
    recipe = Recipe(name="scripted", source="a test", order=FairOrder, flows=flows)
    config = ClusterConfig(topology=NARROW, flow_scheduler="afap", seed=1)
    log = Ends()
    run = Simulation(config, Workload(name="w", jobs=(job,)), log=log, recipe=recipe)
    run.run()
    return [(task, at_s) for task, at_s in log.found if at_s > 1.0]  # not that within the node


def test_flows_of_three_priorities_end_one_after_the_other():
    found = ends(Scripted)
    order = [task for task, _ in found]
    assert order == sorted(order, key=["j1.r1", "j1.r2", "j1.r3", "j1.r0"].index)
    assert [at_s for _, at_s in found] == pytest.approx([2.0, 3.0, 4.0])


def test_without_priorities_they_end_in_the_order_of_their_names():
    order = [task for task, _ in ends(FlowPolicy)]
    assert order == sorted(order)


# Fetches that start and end together, in compiled loops or not: all is as if one by one.


pytestmark = pytest.mark.timeout(400)  # loops may have to be compiled

CONFIG = ClusterConfig(
    topology=load_topology("corral-7x30"), scheduler="capacity", flow_scheduler="maxmin"
)
JOINT = msgspec.structs.replace(
    CONFIG, topology=load_topology("joint-16x6"), scheduler="joint", flow_scheduler="afap"
)
HYBRID = msgspec.structs.replace(CONFIG, topology=load_topology("hybrid-8x4"), scheduler="fair")


def records(
    config: ClusterConfig, jobs: str, settings: dict[str, float], log: Log | None = None
) -> Any:
    """All that is recorded of a run's jobs, and what the network has carried."""
    run = Simulation(config, workload(jobs, 1), Behaviour(**settings), log=log)
    run.run()
    check_core(run.core)
    assert not run.core.shuffle.fetches
    found = [msgspec.structs.asdict(record) for record in run.core.records.values()]
    assert any(record["cct_s"] for record in found)
    assert all(record["ok"] for record in found)
    return found, run.network.stats()


@pytest.mark.parametrize(
    ("config", "flows", "jobs", "settings"),
    [
        pytest.param(CONFIG, "maxmin", "corral-w1,jobs=2,window=10", {}, id="exact"),
        pytest.param(CONFIG, "varys", "corral-w1,jobs=2,window=10", {}, id="coflows"),
        pytest.param(
            CONFIG, "maxmin", "corral-w1,jobs=2,window=10", {"together_s": 0.1}, id="rounded-times"
        ),
        pytest.param(
            CONFIG,
            "maxmin",
            "corral-w1,jobs=2,window=10",
            {"failures": 0.1, "stragglers": 0.1},
            id="failures",
        ),
        pytest.param(HYBRID, "sunflow", "corral-w1,jobs=2,window=10", {}, id="circuits"),
        pytest.param(
            JOINT,
            "afap",
            "joint,edges=jobs,work=1210s,median=20,reads=1,jobs=3",
            {},
            id="priorities",
        ),
    ],
)
def test_the_results_are_those_of_fetches_told_one_by_one(
    config, flows, jobs, settings, monkeypatch
):
    config = msgspec.structs.replace(config, flow_scheduler=flows)
    one_by_one = records(config, jobs, settings, Ends())
    for fetches in (math.inf, 0):
        monkeypatch.setattr(simulation, "COMPILED_FROM_FETCHES", fetches)
        assert records(config, jobs, settings) == one_by_one


@pytest.mark.parametrize("scheduler", ["kmn", "shadow"])
def test_copies_that_are_given_up_have_their_fetches_cancelled(scheduler, monkeypatch):
    place = CONFIG.topology  # slow, so that copies are given up while they fetch
    place = msgspec.structs.replace(place, links=msgspec.structs.replace(place.links, nic=1e6))
    config = msgspec.structs.replace(CONFIG, scheduler=scheduler, topology=place)
    settings = {"stragglers": 0.5, "straggler_factor": 5.0, "progress_s": 1.0}
    jobs, ends = "corral-w1,jobs=2,window=10", Ends()
    found = [records(config, jobs, settings, ends)]
    assert ends.cancelled > 10
    for fetches in (math.inf, 0):
        monkeypatch.setattr(simulation, "COMPILED_FROM_FETCHES", fetches)
        found.append(records(config, jobs, settings))
    assert found[0] == found[1] == found[2]
