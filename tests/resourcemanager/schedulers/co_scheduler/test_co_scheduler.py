"""Co-scheduler in the core: where data, maps and reduces go, in which order, when they fetch."""

from __future__ import annotations

from collections import Counter

import pytest

from railyard.cluster.errors import UsageError
from railyard.cluster.ids import NodeId, RackId, rack_of
from railyard.cluster.topologies.tables import Ocs
from railyard.resourcemanager.interface.events import StagePlan
from railyard.resourcemanager.interface.forecast import Forecast, StageForecast
from railyard.resourcemanager.schedulers.co_scheduler.scheduler import first_line
from tests.harness import tiny_cluster
from tests.resourcemanager.schedulers.co_scheduler.hybridjobs import (
    BLOCK,
    GB,
    OCS,
    hybrid,
    planned,
    racks_of,
    store,
    terasort,
)
from tests.resourcemanager.test_rules_under_faults import random_scenario


# Data --------------------------------------------------------------------------------------------
def test_three_replicas_are_on_disjoint_pairs_of_racks():
    """10 GB: R_data = floor(sqrt(10 / 1.125)) = 2."""
    racks = planned(hybrid(), 10 * GB)
    assert [len(each) for each in racks] == [2, 2, 2]
    assert len({rack for each in racks for rack in each}) == 6


def test_data_of_a_job_that_can_use_no_circuits_goes_anywhere():
    assert planned(hybrid(), 1 * GB) == ()
    assert planned(hybrid(ocs=None), 10**15) == ()
    assert planned(hybrid("co-scheduler:ocas"), 10 * GB) == ()
    assert len(planned(hybrid("co-scheduler:dp+ocas"), 10 * GB)) == 3


def test_no_data_goes_to_a_rack_that_is_lost():
    c = hybrid()
    for node in range(4):
        c.lose(f"r3n{node}")
    for _ in range(20):
        assert "r3" not in [rack for each in planned(c, 10 * GB) for rack in each]


# The TeraSort of 10 GB, section III-A ------------------------------------------------------------
def test_maps_on_two_racks_then_reduces_on_few():
    c = hybrid()
    terasort(c)
    run = c.run()
    assert run.unfinished == []
    assert sorted(racks_of(run.nodes_of("j0.m")).values()) == [20, 20]
    # (10) and (5, 5) do not fit in racks of 4 slots; floor(5.12 / 1.125) = 4 has no whole numbers
    assert sorted(racks_of(run.nodes_of("j0.r")).values()) == [3, 3, 4]


def test_every_map_is_in_the_rack_of_its_input():
    c = hybrid()
    terasort(c)
    c.run()
    record = c.core.records["j0"]
    assert (record.locality.remote, record.locality.local + record.locality.rack) == (0, 40)


def test_all_flows_between_two_racks_are_an_elephant_together():
    c = hybrid()
    terasort(c)
    c.run()
    pairs: Counter[tuple[str, str]] = Counter()
    for _, flow in c.flows():
        pairs[rack_of(flow.src), rack_of(flow.dst)] += flow.size_bytes
    assert len(pairs) == 6
    assert min(pairs.values()) >= OCS.elephant_bytes


def test_reduces_wait_for_all_maps_and_fetches_for_all_reduces():
    c = hybrid()
    terasort(c)
    assert c.why_waiting("j0.r0") == "waits for all it reads: 0 of 40 tasks of m done"
    run = c.run()
    maps_end_s = 5.0  # 40 maps of 1 s on 8 slots
    assert min(when for _, when in run.launches("j0.r")) == maps_end_s
    assert min(when for when, _ in c.flows()) == max(when for _, when in run.launches("j0.r"))


def test_fetches_wait_for_the_last_reduce():
    """Of a rack's slots one is taken when the reduces come: all wait for it."""
    c = hybrid(racks=3, nodes=2)
    store(c, "in", 10, [["r0"], ["r1"], ["r2"]])
    c.submit("j9", maps=1, map_s=20)
    c.submit("j0", input="in", reduces=6, partition_bytes=BLOCK)
    run = c.run()
    launched = [when for _, when in run.launches("j0.r")]
    assert launched[-1] == 20.0
    assert launched[-2] < 20.0
    assert {when for when, _ in c.flows()} == {20.0}


def test_without_the_reduce_guideline_reduces_go_anywhere():
    c = hybrid("co-scheduler:dp+ocas")
    terasort(c)
    run = c.run()
    assert len(racks_of(run.nodes_of("j0.m"))) == 2
    assert sorted(racks_of(run.nodes_of("j0.r")).values()) == [1] * 6 + [2] * 2  # rack by rack


def test_without_guidelines_it_is_fair_with_a_late_start():
    c = hybrid("co-scheduler:ocas")
    store(c, "in", 40, [[f"r{rack}"] for rack in range(3)])
    c.submit("j0", input="in", reduces=10, partition_bytes=BLOCK // 10)
    run = c.run()
    assert len(racks_of(run.nodes_of("j0.m"))) == 8
    assert min(when for _, when in run.launches("j0.r")) == 2.0
    assert sorted(racks_of(run.nodes_of("j0.r")).values()) == [1] * 6 + [2] * 2  # rack by rack


# Algorithm 2 -------------------------------------------------------------------------------------
def test_the_order_of_a_users_tasks():
    """Lines 4 to 9, on a cluster with all slots taken by another pool as they come free."""
    c = tiny_cluster(
        racks=4,
        nodes=1,
        slots=5,
        scheduler="co-scheduler",
        ocs=Ocs(port_bytes_per_s=1e9, elephant_bytes=1000),
        options={"co-scheduler.min_slots.hog": 1000, "co-scheduler.hold_out_s": 0.0},
    )
    c.store("one", blocks=[["r1n0"]] * 6, block_bytes=1000)
    for job in ("j4", "j6"):  # heavy: their reduces have schedules
        c.submit(job, input="one", reduces=2, partition_bytes=500, map_s=1)
    c.submit("j2", maps=2, reduces=1, partition_bytes=1, map_s=1)  # light
    c.at(0.5, lambda: c.submit("j9", maps=1000, map_s=1000, queue="hog"))
    c.run(until_s=3.0)
    c.store("here", blocks=[["r0n0"]] * 6, block_bytes=1000)
    c.store("there", blocks=[["r1n0"]] * 6, block_bytes=1000)
    c.submit("j3", input="there", reduces=2)
    c.submit("j1", input="here", reduces=2)
    c.submit("j5", maps=1)
    guidelines = c.core.state.policies.tasks.guidelines
    schedules = {job: guidelines.jobs[job].reduces["r"] for job in ("j4", "j6")}
    for job, racks in (("j4", ["r0"]), ("j6", ["r3"])):
        schedules[job].groups = [(2, tuple(racks))]
    node = c.core.state.nodes[NodeId("r0n0")]
    jobs = list(c.core.state.policies.order.candidates(node, None))
    lines = [(job.id, int(first_line(guidelines.jobs[job.id], RackId("r0"))[0])) for job in jobs]
    assert lines[0][0] == "j9"
    assert lines[1:] == [("j4", 4), ("j1", 5), ("j2", 6), ("j5", 7), ("j6", 8), ("j3", 9)]
    some = [c.core.state.jobs[job] for job in ("j6", "j5", "j9", "j4", "j1")]
    asked = [job.id for job in c.core.state.policies.order.candidates(node, some)]
    assert asked == ["j9", "j4", "j1", "j5", "j6"]


def test_users_come_before_lines():
    """The user with the smaller share goes first, whatever its tasks are."""
    c = hybrid()
    c.submit("j0", maps=99, user="ann", map_s=5)
    c.run(until_s=1.0)
    c.submit("j1", maps=10, user="bob", map_s=5)
    terasort(c, "j2", user="ann")
    c.run(until_s=6.0)
    assert c.core.state.jobs["j1"].held == 10


# Graphs of stages --------------------------------------------------------------------------------
def test_every_communication_stage_of_a_graph_has_a_schedule():
    c = hybrid()
    store(c, "in", 20, planned(c, 20 * BLOCK))
    stages = (
        StagePlan(name="a", tasks=20, inputs=tuple(c._files["in"])),
        StagePlan(name="b", reads=("a",), tasks=6),
        StagePlan(name="c", reads=("b",), tasks=6),
    )
    durations = {"a": 1.0, "b": 1.0, "c": 1.0}
    c.submit("j0", stages=stages, durations=durations, partition_bytes=GB)
    run = c.run()
    assert run.unfinished == []
    for stage, racks in (("a", 2), ("b", 2), ("c", 2)):
        assert len(racks_of(run.nodes_of(f"j0.{stage}"))) == racks, stage


# Wavelengths -------------------------------------------------------------------------------------
def test_with_more_wavelengths_more_racks_may_take_a_group():
    c = hybrid(
        ocs=Ocs(
            port_bytes_per_s=12.5 * GB, delta_s=0.01, elephant_bytes=1_125_000_000, wavelengths=2
        )
    )
    terasort(c)
    c.run(until_s=5.0)
    guide = c.core.state.policies.tasks.guidelines.jobs["j0"].reduces["r"]
    assert [count for count, _ in guide.groups] == [4, 3, 3]
    assert [len(racks) for _, racks in guide.groups] == [2, 2, 2]
    run = c.run()
    assert sorted(racks_of(run.nodes_of("j0.r")).values()) == [3, 3, 4]


# Faults ------------------------------------------------------------------------------------------
def test_a_schedule_whose_rack_is_lost_is_made_anew():
    c = hybrid(options={"co-scheduler.hold_out_s": 1000.0})
    terasort(c, reduce_s=20)
    c.run(until_s=10.0)
    lost = next(iter(racks_of(c.run(until_s=10.0).nodes_of("j0.r"))))
    for node in range(4):
        c.lose(f"{lost}n{node}")
    run = c.run(until_s=500.0)
    assert run.unfinished == []


def test_a_schedule_whose_rack_has_too_few_slots_now_is_made_anew():
    """Reduces wait for three racks, held by another job; one of them loses its slots."""
    c = hybrid(options={"co-scheduler.hold_out_s": 1000.0})
    terasort(c, reduce_s=20)
    c.submit("j9", maps=200, map_s=7, user="b")
    c.run(until_s=5.0)
    reduces = c.core.state.policies.tasks.guidelines.jobs["j0"].reduces
    before = [racks for _, racks in reduces["r"].groups]
    assert len(before) == 3
    assert reduces["r"].stage.pending.count == 9
    free = next(rack for (rack,) in before if not reduces["r"].taken[rack])
    for node in range(4):
        c.set_slots(f"{free}n{node}", 0)
    after = [racks for _, racks in reduces["r"].groups]
    assert after
    assert (free,) not in after
    run = c.run(until_s=500.0)
    assert run.unfinished == []
    assert free not in racks_of(run.nodes_of("j0.r"))


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("scheduler", ["co-scheduler", "co-scheduler:dp+ocas"])
def test_rules_hold_under_faults_with_circuits(scheduler: str, seed: int):
    """Blocks are 100 bytes here: most jobs are shuffle-heavy."""
    c = random_scenario(
        scheduler, seed, Ocs(port_bytes_per_s=1e9, elephant_bytes=(20, 100, 300)[seed % 3])
    )
    run = c.run(until_s=3000.0)
    assert run.unfinished == []
    assert all(reason in ("", "killed by its user") for reason in run.ended.values())
    assert c.core.state.free == c.core.state.slots
    guidelines = c.core.state.policies.tasks.guidelines
    assert not guidelines.jobs
    assert not guidelines.releases.attempts


# Settings ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("option", "value", "error"),
    [
        ("sir", -1.0, "co-scheduler.sir = -1.0: need a number >= 0"),
        ("zone_factor", 0.9, "co-scheduler.zone_factor = 0.9: need at least 1"),
        ("hold_out_s", -1.0, "co-scheduler.hold_out_s = -1.0: need seconds >= 0"),
        ("remaining_error", 1.0, "co-scheduler.remaining_error = 1.0: need a share in"),
        ("guidelines", "some", 'co-scheduler.guidelines = \'some\': need "all" or "data" or'),
        ("weights.prod", 0.0, "co-scheduler.weights.prod = 0.0: need a number above 0"),
        ("patience_s", 1.0, 'unknown scheduler option "co-scheduler.patience_s"'),
    ],
)
def test_settings_are_checked(option: str, value: object, error: str):
    with pytest.raises(UsageError, match=error.replace("(", r"\(")):
        tiny_cluster(scheduler="co-scheduler", options={f"co-scheduler.{option}": value})


def test_attempts_without_progress_end_when_their_stage_is_estimated_to():
    """A forecast of 7 s a map; then done maps say 10."""
    c = tiny_cluster(racks=1, nodes=2, slots=1, scheduler="co-scheduler")
    maps = StageForecast(name="m", tasks=4, input_bytes=0, output_bytes=0, task_s=7.0)
    c.submit("j0", maps=4, map_s=10.0, forecast=Forecast(name="daily", stages=(maps,)))
    releases = c.core.state.policies.tasks.guidelines.releases
    c.run(until_s=2.0)
    assert releases.release_s(2.0)[0].tolist() == [5.0, 5.0]
    c.run(until_s=12.0)
    assert releases.release_s(12.0)[0].tolist() == [8.0, 8.0]
