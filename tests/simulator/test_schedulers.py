"""Corral against its baselines in virtual time: less goes across racks; a rack may be lost."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest

from railyard.benchmarks.attacks._grounds.everykind import RECIPE
from railyard.cluster.config import ClusterConfig
from railyard.cluster.faults import Fault
from railyard.cluster.ids import JobId, NodeId, job_of, rack_of
from railyard.cluster.messages import AttemptKilled, AttemptSucceeded, LaunchAttempt
from railyard.cluster.messaging.wire import Command, Event
from railyard.cluster.topology import Topology, load_topology
from railyard.cluster.topologyfile import Links, Storage
from railyard.jobs.workloads.catalog import workload as named_workload
from railyard.jobs.workloads.model import Recurrence, WorkloadJob
from railyard.resourcemanager.core.policies import figures_of
from railyard.resourcemanager.driving.coredriver import Log
from railyard.simulator.simulation import Simulation
from tests.harness import tiny_cluster
from tests.simulator.test_simulation import job
from tests.workloads import MB, topology, workload

RACKS, NODES, SLOTS = 4, 4, 2


def place(uplink: float = 150e6) -> Topology:
    """Four racks of eight slots; a rack's link carries what one and a half of its NICs do."""
    links, storage = Links(nic=100e6, uplink=uplink), Storage(block=100 * MB, replication=3)
    return topology(RACKS, NODES, SLOTS, links=links, storage=storage)


def recurring(*jobs: WorkloadJob) -> tuple[WorkloadJob, ...]:
    """These jobs with exact forecasts."""
    return tuple(
        msgspec.structs.replace(each, recurrence=Recurrence(name=each.name, submit_s=each.submit_s))
        for each in jobs
    )


def batch(count: int = 12) -> tuple[WorkloadJob, ...]:
    """Jobs of one or two waves on one rack, which shuffle as much as they read."""
    return recurring(
        *(job(name=f"b{at}", maps=8 + at % 8, reduces=4, shuffle=1000 * MB) for at in range(count))
    )


def simulated(
    scheduler: str,
    jobs: tuple[WorkloadJob, ...],
    *,
    on: Topology | None = None,
    flows: str = "maxmin",
    faults: tuple[Fault, ...] = (),
    log: Log | None = None,
) -> Simulation:
    """Run to the end; all jobs must have succeeded."""
    config = ClusterConfig(
        topology=on or place(),
        scheduler=scheduler,
        flow_scheduler=flows,
    )
    run = Simulation(config, workload(*jobs), faults=faults, log=log)
    run.run()
    assert all(record.ok for record in run.core.records.values())
    return run


@functools.cache
def crossing_bytes(scheduler: str) -> int:
    """Bytes that a batch of jobs sends across racks."""
    return simulated(scheduler, batch()).summary()["bytes"]["cross_rack"]


def test_corral_sends_least_across_racks():
    """The paper saves 20 to 90 % against Yarn-CS (Fig. 7 a)."""
    assert crossing_bytes("corral") < 0.8 * crossing_bytes("capacity")
    assert crossing_bytes("corral") < 0.8 * crossing_bytes("local-shuffle")


def test_shufflewatcher_sends_less_across_racks_than_capacity():
    assert crossing_bytes("shufflewatcher") < crossing_bytes("capacity")


def test_where_the_core_is_narrow_corral_is_done_earlier():
    """At 8:1, both with their default waits; with a wide core these brief jobs are not."""
    narrow = place(uplink=50e6)
    makespans_s = {
        name: simulated(name, batch(), on=narrow).heap.now_s for name in ("corral", "capacity")
    }
    assert makespans_s["corral"] < makespans_s["capacity"]


def test_a_replica_of_each_block_is_in_the_jobs_racks_and_two_in_another():
    run = Simulation(
        ClusterConfig(topology=place(), scheduler="corral"),
        workload(*batch()),
    )
    run.step()
    core = run.core
    for each in core.state.jobs.values():
        racks = core.state.policies.order.racks_of(each)
        assert racks
        for task in each.stages["m"].tasks:
            there = Counter(core.state.nodes[node].rack for node in task.input.nodes)
            assert sorted(there.values()) == [1, 2]
            assert min(there, key=there.__getitem__) in racks


@pytest.mark.parametrize(("scheduler", "most"), [("corral", 0.05), ("capacity", 0.01)])
def test_data_of_w1_is_balanced_over_the_racks(scheduler: str, most: float):
    """The paper's coefficients of variation are at most 0.004 and 0.01 (section 6.2.1)."""
    config = ClusterConfig(topology=load_topology("corral-7x30"), scheduler=scheduler)
    run = Simulation(config, named_workload("corral-w1,arrivals=batch,jobs=100,grain=12", 1))
    run.step()
    stored = [
        sum(
            replica.stored_length
            for held in run.store.disks.held([node.id for node in rack.nodes]).values()
            for replica in held
        )
        for rack in run.config.topology.rack_list()
    ]
    assert np.std(stored) / np.mean(stored) < most


def test_online_jobs_are_planned_for_their_times():
    jobs = recurring(
        *(job(name=f"o{at}", maps=8, reduces=2, shuffle=MB, submit_s=5.0 * at) for at in range(8))
    )
    assert simulated("corral", jobs).jobs.ended == 8


def test_recurring_and_ad_hoc_jobs_run_side_by_side():
    ad_hoc = tuple(job(name=f"a{at}", maps=12, reduces=2, shuffle=600 * MB) for at in range(4))
    assert simulated("corral", (*batch(6), *ad_hoc)).jobs.ended == 10


@pytest.mark.parametrize("scheduler", ["corral", "capacity"])
def test_any_scheduler_runs_with_varys(scheduler: str):
    assert simulated(scheduler, batch(), flows="varys").jobs.ended == 12


def test_a_job_whose_rack_is_lost_ends_outside_of_it():
    """All of R_j goes down for good while maps run; the other replicas are in another rack."""
    jobs = batch()
    before = Simulation(
        ClusterConfig(topology=place(), scheduler="corral"),
        workload(*jobs),
    )
    before.step()
    world = before.core.state
    planned = {each.id: world.policies.order.racks_of(each) for each in world.jobs.values()}
    hit, [lost] = next((name, list(racks)) for name, racks in planned.items() if len(racks) == 1)
    down = Fault(kind="rack", target=lost, at_s=1.0, lasts_s=math.inf)
    launched = Launches()
    run = simulated("corral", jobs, faults=(down,), log=launched)
    expiry_s = run.config.topology.liveness.expiry_s
    of_job = [(node, when) for name, node, when in launched.all if name == hit]
    late = {rack_of(node) for node, when in of_job if when > 1 + expiry_s}
    assert late
    assert lost not in late


class Launches:
    """Where and when each job's attempts were launched: a ``Log`` of a core's driver."""

    def __init__(self) -> None:
        self.all: list[tuple[str, NodeId, float]] = []

    def write(self, at_s: float, event: Event, commands: Sequence[Command] = ()) -> None:
        """Record where attempts are launched."""
        orders = [order for order in commands if isinstance(order, LaunchAttempt)]
        self.all += [(job_of(order.attempt), order.node, at_s) for order in orders]


# The toy scheduler that duplicates maps in each of four ways: does it?


def test_each_map_is_duplicated_in_its_own_way():
    c = tiny_cluster(racks=3, nodes=2, slots=4, scheduler=RECIPE, kill_s=0.2)
    factors = iter([4, 1, 1, 4, 1, 5, 1, 1])  # m0.0 to m3.0, m0.1 to m3.1
    c.stretch = lambda: next(factors, 1.0)
    c.submit("j0", maps=4, reduces=3)
    c.run(until_s=1.5)
    stage = c.core.state.jobs[JobId("j0")].stages["m"]
    assert [task.state for task in stage.tasks] == ["done", "running", "done", "running"]
    assert [[kept.id for kept in task.kept] for task in stage.tasks] == [
        *([], ["j0.m1.0"], [], ["j0.m3.1"])
    ]
    c.run()
    killed = [event.attempt for _, event in c.events if isinstance(event, AttemptKilled)]
    assert killed == ["j0.m2.0", "j0.m0.0"]
    times = {e.attempt: at_s for at_s, e in c.events if isinstance(e, AttemptSucceeded)}
    assert (times["j0.m3.0"], times["j0.m1.1"]) == (4.0, 5.0)
    figures = figures_of(c.core.state.policies)[0]["EveryKind"]
    assert figures == {"duplicates": 4, "duplicates_chosen": 3}
