"""Speculative execution: LATE's choice of tasks and nodes, and its cap."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import UsageError
from railyard.cluster.ids import JobId, NodeId
from railyard.cluster.messages import AttemptProgressed, LaunchAttempt
from railyard.cluster.messaging.wire import Command, Event
from railyard.cluster.topology import Topology
from railyard.cluster.topologyfile import Compute, Links, RackShape
from railyard.jobs.workloads.model import InputFile, Workload, WorkStage
from railyard.resourcemanager.core.policies import figures_of
from railyard.resourcemanager.interface.events import TimerFired
from railyard.resourcemanager.interface.speculation import SpeculationConfig, percentile
from railyard.resourcemanager.schedulers import all_recipes, recipe_named
from railyard.simulator.behaviour import Behaviour
from railyard.simulator.simulation import Simulation
from tests.harness import TinyCluster, tiny_cluster
from tests.workloads import job_of, workload

ON = {"speculation.on": True, "speculation.after_s": 2.0}


def stretched(c: TinyCluster, *factors: float) -> None:
    """How much longer the attempts take, in the order of their launches; later ones do not."""
    rest = iter(factors)
    c.stretch = lambda: next(rest, 1.0)


def ten_maps(*, may_copy: bool = True, **more: object) -> TinyCluster:
    """Ten maps of 10 s on ten of fourteen nodes, of which two take 4 and 5 times as long."""
    c = tiny_cluster(nodes=14, slots=1, options={**ON, **more})
    stretched(c, *[1.0] * 7, 4.0, 5.0, 1.0)
    c.submit("j0", maps=10, map_s=10, may_copy=may_copy)
    c.report_progress(every_s=0.5, until_s=60.0)
    return c


def copies(c: TinyCluster) -> list[tuple[str, str, float]]:
    """(Attempt, node, launch time) of the copies."""
    known = [(at_s, each) for at_s, each in c.commands if isinstance(each, LaunchAttempt)]
    return [(each.attempt, each.node, at_s) for at_s, each in known if each.attempt[-2:] != ".0"]


def test_the_task_that_ends_last_is_copied_first_and_within_the_cap():
    c = ten_maps()
    run = c.run(until_s=60.0)
    # 10 % of 14 slots: one copy at a time.  Both are slow after 2 s; m8 would take 5 times as long.
    assert copies(c) == [("j0.m8.1", "r0n10", 2.0), ("j0.m7.1", "r0n11", 12.0)]
    assert run.ended_s == {"j0": 22.0}
    record = c.core.records[JobId("j0")]
    assert (record.copies, record.copies_chosen, record.killed) == (2, 2, 2)
    figures, _ = figures_of(c.core.state.policies)
    assert figures == {"speculation": {"copies": 2.0, "copies_won": 2.0, "copies_slot_s": 20.0}}


def test_a_larger_cap_lets_both_have_one_at_once():
    c = ten_maps(**{"speculation.cap": 0.2})
    assert c.run(until_s=60.0).ended_s == {"j0": 12.0}
    assert [when_s for _, _, when_s in copies(c)] == [2.0, 2.0]


def test_nothing_is_copied_unless_it_is_on():
    c = ten_maps(**{"speculation.on": False})
    assert c.run(until_s=60.0).ended_s == {"j0": 50.0}
    assert c.core.state.policies.hooks["propose"] == ()
    assert c.core.state.policies.hooks["figures"] == ()


def test_a_job_that_is_submitted_without_copies_has_none():
    c = ten_maps(may_copy=False)
    assert c.run(until_s=60.0).ended_s == {"j0": 50.0}
    assert copies(c) == []


def test_no_attempt_is_judged_before_its_time():
    c = ten_maps(**{"speculation.after_s": 30.0})
    assert copies(c) == []
    c.run(until_s=29.0)
    assert copies(c) == []
    c.run(until_s=60.0)
    assert [when_s for _, _, when_s in copies(c)] == [30.0]


@pytest.mark.parametrize(("every_s", "expected_s"), [(1.0, 30.0), (7.0, 31.0), (0.0, 30.0)])
def test_one_that_runs_alone_is_looked_at_although_nothing_happens(
    every_s: float, expected_s: float
):
    c = tiny_cluster(
        nodes=14,
        slots=1,
        options={**ON, "speculation.after_s": 30.0, "speculation.every_s": every_s},
    )
    stretched(c, *[1.0] * 8, 5.0, 1.0)
    c.submit("j0", maps=10, map_s=10)
    c.at(24.0, lambda: c.submit("j1", maps=1, map_s=1))  # looked at then, and 1 s later
    assert c.run().ended_s == {"j1": 25.0, "j0": expected_s + 10.0}
    assert copies(c) == [("j0.m8.1", "r0n11", expected_s)]


def test_it_looks_once_a_second_while_an_attempt_may_get_worse_and_else_sleeps():
    c = tiny_cluster(nodes=3, slots=1, options={**ON, "speculation.after_s": 30.0})
    c.submit("j0", maps=1, map_s=39.5)
    c.run()
    woken = [at_s for at_s, event in c.events if isinstance(event, TimerFired)]
    assert woken == [30.0 + second for second in range(11)]  # the last: set before the end


@pytest.mark.parametrize(("gap", "expected"), [(0.0, ["j0.m9.1"]), (0.2, []), (0.05, ["j0.m9.1"])])
def test_a_task_that_is_just_slower_than_most_has_no_copy_with_a_gap(
    gap: float, expected: list[str]
):
    """At 2 s nine maps are at 0.2 and one at 0.12, 0.072 less than their mean."""
    c = tiny_cluster(nodes=14, slots=1, options={**ON, "speculation.gap": gap})
    stretched(c, *[1.0] * 9, 1.6)
    c.submit("j0", maps=10, map_s=10)
    c.report_progress(every_s=0.5, until_s=2.0)
    c.run(until_s=9.0)
    assert [name for name, _, _ in copies(c)] == expected


def test_tasks_that_are_done_count_in_the_mean_that_a_gap_is_below():
    c = ten_maps(**{"speculation.gap": 0.7})
    # At 10 s eight are done, two are at 0.25 and 0.2: 0.6 below the mean, then less.
    c.run(until_s=60.0)
    assert copies(c) == []
    c = ten_maps(**{"speculation.gap": 0.6})
    c.run(until_s=60.0)
    assert [(name, at_s) for name, _, at_s in copies(c)] == [("j0.m8.1", 10.0)]


def test_equal_tasks_are_not_copied():
    c = tiny_cluster(nodes=14, slots=1, options=ON)
    c.submit("j0", maps=10, map_s=10)
    c.report_progress(every_s=0.5, until_s=20.0)
    c.run()
    assert copies(c) == []


@pytest.mark.parametrize(
    ("slow_node", "expected"), [(0.5, []), (0.25, [("j0.m3.1", "r0n0", 20.0)])]
)
def test_slow_nodes_get_no_copies(slow_node: float, expected: list[tuple[str, str, float]]):
    """Only r0n0, which took twice as long as the best two, has a slot for m3's copy."""
    options = {**ON, "speculation.after_s": 15.0, "speculation.slow_node": slow_node}
    c = tiny_cluster(nodes=4, slots=1, options=options)
    stretched(c, 2.0, 1.0, 1.0, 8.0)
    c.submit("j0", maps=4, map_s=10)
    c.submit("j1", maps=2, map_s=100)
    c.report_progress(every_s=0.5, until_s=100.0)
    c.run(until_s=60.0)
    assert copies(c) == expected


def test_readers_are_not_judged_while_they_wait_for_what_they_read():
    c = tiny_cluster(nodes=12, slots=1, options={**ON, "shuffle.slowstart": 0.0})
    stretched(c, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 30.0)
    c.submit("j0", maps=3, reduces=4, map_s=1, reduce_s=4)
    c.run(until_s=5.0)
    waiting = c.core.state.jobs[JobId("j0")].stages["r"].live
    assert len(waiting) == 4
    for when_s in (5.0, 7.0):  # by then it looks again
        c.run(until_s=when_s)
        for number, name in enumerate(waiting):
            share = 0.05 if number == 1 else 0.3
            c.feed(AttemptProgressed(attempt=name, progress=share))
    assert copies(c) == []


@pytest.mark.parametrize(
    ("numbers", "share", "expected"),
    [
        ([1.0, 2.0, 3.0, 4.0], 0.25, 2.0),
        ([1.0, 2.0, 3.0, 4.0], 0.0, 1.0),
        ([1.0, 2.0, 3.0, 4.0], 1.0, 4.0),
        ([7.0], 0.25, 7.0),
    ],
)
def test_a_percentile_has_its_share_below_it(numbers: list[float], share: float, expected: float):
    assert percentile(numbers, share) == expected
    assert sum(number < expected for number in numbers) <= share * len(numbers)


@pytest.mark.parametrize("name", ["cap", "slow_task", "slow_node", "after_s"])
def test_settings_are_checked(name: str):
    with pytest.raises(UsageError, match=rf"speculation\.{name} = -1"):
        SpeculationConfig(**{name: -1})


# On the simulator, under every scheduler ---------------------------------------------------------
SMALL = Topology(
    name="small",
    racks=RackShape(count=4, nodes=4, slots=2),
    links=Links(nic=1e9, uplink=2e9),
    compute=Compute(map_rate=1e7, reduce_rate=1e7),
)


def jobs() -> Workload:
    made = [
        job_of(
            WorkStage(name="m", files=(f"/{number}",), tasks=20, output_bytes=10**8),
            WorkStage(name="r", reads=("m",), tasks=4, output_bytes=10**7, task_s=5.0),
            name=f"job-{number}",
            submit_s=20.0 * number,
            files=(InputFile(path=f"/{number}", size_bytes=20 * 10**8, block_bytes=10**8),),
        )
        for number in range(6)
    ]
    return workload(*made)


class MostCopies:
    """The most copies that have held slots at one time, without duplicates of the policy's own."""

    def __init__(self) -> None:
        self.most = 0
        self.run: Simulation | None = None

    def write(self, at_s: float, event: Event, commands: Sequence[Command] = ()) -> None:
        self.count(event, commands)

    def count(self, event: Event, commands: Sequence[Command]) -> None:
        assert self.run is not None
        state = self.run.core.state
        own = getattr(state.policies.copies, "is_duplicated", lambda _: False)
        copies = [each for each in state.attempts.values() if each.copy and not own(each.task)]
        self.most = max(self.most, len(copies))


def mean_jct_s(scheduler: str, seed: int, *, on: bool, seen: MostCopies | None = None) -> float:
    config = ClusterConfig(
        topology=SMALL,
        scheduler=scheduler,
        seed=seed,
        scheduler_options={"speculation.on": on, "speculation.after_s": 5.0},
    )
    behaviour = Behaviour(stragglers=0.05, end_s=0.05, progress_s=2.0)
    log = seen or MostCopies()
    log.run = run = Simulation(config, jobs(), behaviour, (), log, recipe=recipe_named(scheduler))
    while run.jobs.ended < 6:
        run.step()
    records = run.core.records.values()
    assert all(record.ok for record in records)
    return sum(record.jct_s or 0.0 for record in records) / 6


def test_simulated_stragglers_are_copied_although_nothing_happens():
    options = {"speculation.on": True, "speculation.after_s": 20.0}
    config = ClusterConfig(topology=SMALL, scheduler="fair", scheduler_options=options)
    stage = WorkStage(name="m", tasks=20, output_bytes=0, task_s=10.0)
    run = Simulation(config, workload(job_of(stage)), Behaviour(progress_s=0.0))
    run.workers.slowness[NodeId("r0n0")] = 10.0
    run.run()
    record = run.core.records[JobId("j1")]
    assert (record.copies, record.copies_chosen, record.jct_s) == (2, 2, 30.0)


@pytest.mark.parametrize("scheduler", sorted(all_recipes()))
def test_jobs_with_stragglers_end_earlier_and_the_cap_is_kept(scheduler: str):
    seen = MostCopies()
    seeds = range(3)
    without_s = sum(mean_jct_s(scheduler, seed, on=False) for seed in seeds) / 3
    with_s = sum(mean_jct_s(scheduler, seed, on=True, seen=seen) for seed in seeds) / 3
    assert with_s < without_s
    assert 1 <= seen.most <= 3  # 10 % of 32 slots
