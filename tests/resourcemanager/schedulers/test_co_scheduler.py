"""A cluster with circuits, and jobs on it, for tests of Co-scheduler."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from railyard.cluster.errors import UsageError
from railyard.cluster.ids import NodeId, RackId, rack_of
from railyard.cluster.messages import AttemptProgressed
from railyard.cluster.topologyfile import Ocs
from railyard.resourcemanager.interface.commands import PlaceData
from railyard.resourcemanager.interface.events import DataAnnounced, StagePlan
from railyard.resourcemanager.interface.forecast import Forecast, StageForecast
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.schedulers.co_scheduler.scheduler import LateStart, first_line
from railyard.resourcemanager.schedulers.fair import FairOrder
from tests.harness import TinyCluster, tiny_cluster
from tests.resourcemanager.test_rules_under_faults import random_scenario

MB, GB = 10**6, 10**9
BLOCK = 256 * MB
ALWAYS = {"co-scheduler.only_if_faster": False}
OCS = Ocs(port_bytes_per_s=12.5 * GB, delta_s=0.01, elephant_bytes=1_125_000_000)


def hybrid(scheduler: str = "co-scheduler", **more) -> TinyCluster:
    """The shape of hybrid-8x4: 8 racks of 4 nodes with a slot each, and circuits.

    Jobs follow their guidelines even where that takes longer, as on an idle cluster.
    """
    shape = {"racks": 8, "nodes": 4, "slots": 1, "ocs": OCS, "flow_s": 1.0} | more
    options = ALWAYS | shape.pop("options", {})
    return tiny_cluster(scheduler=scheduler, options=options, **shape)


def planned(c: TinyCluster, size_bytes: int, forecast: Forecast | None = None):
    """The racks for each replica of a job's input."""
    c.feed(DataAnnounced(path="/in", size_bytes=size_bytes, forecast=forecast))
    [plan] = c.led_to[-1]
    assert isinstance(plan, PlaceData)
    return plan.racks


def store(c: TinyCluster, name: str, blocks: int, racks) -> None:
    """A file; each replica is spread evenly over its racks."""
    nodes = len(c.topology.rack_list()[0].nodes)
    places = [
        [f"{each[at % len(each)]}n{at // len(each) % nodes}" for each in racks]
        for at in range(blocks)
    ]
    c.store(name, blocks=places, block_bytes=BLOCK)


def terasort(c: TinyCluster, job: str = "j0", blocks: int = 40, reduces: int = 10, **more) -> None:
    """Input as the scheduler wants it, and as much shuffle as input."""
    store(c, job, blocks, planned(c, blocks * BLOCK) or [["r0"], ["r1"], ["r2"]])
    c.submit(job, input=job, reduces=reduces, partition_bytes=BLOCK // reduces, **more)


def racks_of(nodes: list[str]) -> Counter[str]:
    return Counter(rack_of(NodeId(node)) for node in nodes)


def forecast(shuffle_gb: float, maps: int = 40, reduces: int = 10) -> Forecast:
    """A recurring MapReduce job."""
    size = int(shuffle_gb * GB)
    return Forecast(
        name="nightly",
        stages=(
            StageForecast(name="m", tasks=maps, input_bytes=maps * BLOCK, output_bytes=size),
            StageForecast(
                name="r", reads=("m",), tasks=reduces, input_bytes=size, output_bytes=size
            ),
        ),
    )


# Co-scheduler in the core: where data, maps and reduces go, in which order, when they fetch.


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
    assert not guidelines.releases._names, "attempts that hold slots"


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


# Co-scheduler: what it learns from a job while that runs, and from forecasts.


def test_a_job_whose_shuffle_turns_out_small_is_let_go():
    """SIR is 1 until a map has ended; then it is a thousandth, and the job is not shuffle-heavy."""
    c = hybrid()
    store(c, "in", 40, planned(c, 40 * BLOCK))
    c.submit("j0", input="in", reduces=10, partition_bytes=BLOCK // 10_000)
    run = c.run()
    first = [node for task, node, when in run.placements if task.startswith("j0.m") and when < 1]
    later = [node for task, node, when in run.placements if task.startswith("j0.m") and when >= 1]
    assert len(racks_of(first)) == 2
    assert len(racks_of(later)) == 8
    assert len(later) == 32


def test_a_recurring_job_gets_the_racks_that_its_forecast_asks_for():
    """A large input with a small shuffle is not shuffle-heavy, and the other way round."""
    c = hybrid()
    assert planned(c, 10 * GB, forecast(1.0)) == ()
    assert {len(each) for each in planned(c, 10 * GB, forecast(10.0))} == {2}
    assert {len(each) for each in planned(c, 1 * GB, forecast(10.0, maps=4))} == {1}


def test_guidelines_are_made_for_the_slots_that_racks_have_now():
    """40 maps fit on one rack of 4 nodes with 20 slots each."""
    c, stated = hybrid(), hybrid(slots=20)
    assert {len(each) for each in planned(c, 10 * GB, forecast(10.0))} == {2}
    for node in c.topology.nodes():
        c.set_slots(node.id, 20)
    for cluster in (c, stated):
        assert {len(each) for each in planned(cluster, 10 * GB, forecast(10.0))} == {1}


def test_reduces_of_a_recurring_job_go_by_its_zone():
    expected = forecast(10.24)
    c = hybrid()
    store(c, "in", 40, planned(c, 40 * BLOCK, expected))
    c.submit("j0", input="in", reduces=10, partition_bytes=BLOCK // 10, forecast=expected)
    run = c.run(until_s=5.5)
    guides = c.core.state.policies.tasks.guidelines.jobs["j0"]
    assert guides.predicted.map_racks == 2
    assert len(racks_of(run.nodes_of("j0.r"))) in guides.predicted.reduce_racks


def test_wrong_forecasts_can_be_had():
    found = {
        bool(planned(hybrid(seed=seed, forecast_error=0.5), GB, forecast(1.2))) for seed in range(9)
    }
    assert found == {True, False}  # 0.6 GB are too small, 1.8 GB are not


def test_wrong_remaining_times_can_be_had():
    """A map that has done a quarter in 5 s needs 15 s more."""

    def left_s(**settings) -> list[float]:
        c = hybrid(**settings)
        c.submit("j0", maps=32, map_s=20)
        for order in c.launched():
            report = AttemptProgressed(attempt=order.attempt, progress=0.25)
            c.at(5.0, lambda report=report: c.feed(report))
        c.run(until_s=5.0)
        return c.core.state.policies.tasks.guidelines.releases.release_s(5.0).ravel().tolist()

    assert set(left_s()) == {15.0}
    assert sorted(set(left_s(remaining_error=0.4))) == pytest.approx([9.0, 21.0])


# Co-scheduler: for how long a job lets slots pass that are off its guideline.


def input_on_r0(hold_out_s):
    """Two racks with a node each; both blocks of the file "in" are on the first."""
    ocs = Ocs(port_bytes_per_s=1e9, elephant_bytes=1000)
    options = ALWAYS | {"co-scheduler.hold_out_s": hold_out_s}
    c = tiny_cluster(racks=2, nodes=1, scheduler="co-scheduler", ocs=ocs, options=options)
    c.store("in", blocks=[["r0n0"], ["r0n0"]], block_bytes=1000)
    return c


def test_maps_hold_out_for_their_racks_and_then_take_any():
    c = input_on_r0(hold_out_s=7.0)
    c.occupy("r0n0")
    c.submit("j0", input="in", reduces=1, partition_bytes=1000)
    assert c.run(until_s=6.9).placements == []
    assert c.why_waiting("j0.m0") == "r1 is off its guideline"
    assert c.run(until_s=7.0).placements == [("j0.m0", "r1n0", 7.0)]


def test_to_the_letter_of_algorithm_2_no_slot_is_let_pass():
    c = input_on_r0(hold_out_s=0.0)
    c.submit("j0", input="in", reduces=1, partition_bytes=1000)
    assert {node for _, node, _ in c.run(until_s=0.5).placements} == {"r0n0", "r1n0"}


def test_a_job_holds_out_while_its_racks_slots_are_known_to_come_free():
    """Its rack's only slot runs a map of its own that has reported to need 100 s."""
    c = input_on_r0(hold_out_s=5.0)
    c.submit("j0", input="in", reduces=1, partition_bytes=1000, map_s=100)
    c.at(1.0, lambda: c.feed(AttemptProgressed(attempt="j0.m0.0", progress=0.01)))
    run = c.run(until_s=150.0)
    assert run.placements == [("j0.m0", "r0n0", 0.0), ("j0.m1", "r0n0", 100.0)]


def test_a_job_is_asked_again_if_an_older_wait_ended_while_no_slot_was_free():
    """Its maps would let r1's slot pass until 7 s, when others hold all slots; its reduce waits on.

    Rack r0, which its reduce is to run on, is taken for good at 2 s.
    """
    c = tiny_cluster(
        racks=2,
        nodes=1,
        scheduler="co-scheduler",
        ocs=Ocs(port_bytes_per_s=1e9, elephant_bytes=1000),
        options=ALWAYS | {"co-scheduler.min_slots.hog": 1000, "co-scheduler.hold_out_s": 7.0},
    )
    c.store("in", blocks=[["r0n0"], ["r0n0"]], block_bytes=1000)
    c.submit("j0", input="in", reduces=1, partition_bytes=1000, map_s=1)
    for at_s, job, map_s in ((1.5, "j1", 1), (1.5, "j2", 1000), (3.0, "j3", 5)):
        hog = partial(c.submit, job, maps=1, map_s=map_s, queue="hog")
        c.at(at_s, hog)
    run = c.run(until_s=100.0)
    assert run.placements == [
        ("j0.m0", "r0n0", 0.0),
        ("j0.m1", "r0n0", 1.0),
        ("j1.m0", "r1n0", 1.5),
        ("j2.m0", "r0n0", 2.0),
        ("j3.m0", "r1n0", 3.0),
        ("j0.r0", "r1n0", 9.5),
    ]


def test_alone_a_job_that_circuits_would_not_save_time_runs_anywhere_at_once():
    """10 GB take 1 s by packets and 0.4 s by two circuits, but two racks have 8 of the 32 slots.

    Its maps would run in five waves instead of two.
    """
    c = hybrid(options={"co-scheduler.only_if_faster": True})
    terasort(c, map_s=2.0)
    run = c.run()
    assert len([task for task, when in run.launches("j0.m") if when == 0.0]) == 32
    assert len(racks_of(run.nodes_of("j0.m"))) == 8
    assert run.unfinished == []


def test_among_many_jobs_the_same_job_keeps_to_its_racks():
    """By packets it would have a twentieth of the links, and of all slots a twentieth."""
    c = hybrid(options={"co-scheduler.only_if_faster": True})
    for number in range(1, 20):
        c.submit(f"j{number}", maps=1, map_s=100.0)
    terasort(c, map_s=2.0)
    assert len(racks_of(c.run(until_s=90.0).nodes_of("j0.m"))) == 2


def test_a_job_refuses_slots_no_longer_than_circuits_save():
    """Its shuffle of 2 GB takes 1 s by packets, over two links of 1 GB/s, and 2 ms by circuit."""
    ocs = Ocs(port_bytes_per_s=1e12, elephant_bytes=1000)
    c = tiny_cluster(racks=2, nodes=1, scheduler="co-scheduler", ocs=ocs)
    c.store("in", blocks=[["r0n0"]], block_bytes=2 * GB)
    c.occupy("r0n0")
    c.submit("j0", input="in", reduces=1, partition_bytes=2 * GB)
    assert c.run(until_s=1.1).placements == [("j0.m0", "r1n0", pytest.approx(0.998))]


# Shuffles that start late: fetches wait for all reduces to have slots, but not for ever.


LATE = Recipe(name="late", source="a test", order=FairOrder, shuffle=LateStart)


def fetch_times(c: TinyCluster, job: str) -> set[float]:
    return {when for when, flow in c.flows() if flow.flow.startswith(f"{job}.")}


def test_nothing_overlaps():
    c = tiny_cluster(nodes=4, scheduler=LATE, flow_s=2.0)
    c.submit("j0", maps=5, reduces=4, map_s=3)
    run = c.run()
    assert {when for _, when in run.launches("j0.r")} == {6.0}
    assert fetch_times(c, "j0") == {6.0}
    assert run.ended_s == {"j0": 6 + 2 + 1}


def test_a_stage_with_more_reduces_than_the_cluster_has_slots_begins_with_what_it_has():
    c = tiny_cluster(nodes=3, scheduler=LATE)
    c.submit("j0", maps=3, reduces=7)
    assert c.run().ended_s == {"j0": 1 + 3}


def test_stages_that_hold_each_others_slots_do_not_wait_for_ever():
    """Two jobs of 4 reduces on 4 slots: the one that lacks fewer begins at once."""
    c = tiny_cluster(nodes=4, scheduler=LATE, flow_s=1.0)
    for job in ("j0", "j1"):
        c.submit(job, maps=2, reduces=4, reduce_s=5)
    c.run(until_s=1.0)
    assert {job.id: job.held for job in c.core.state.jobs.values()} == {"j0": 3, "j1": 1}
    assert (fetch_times(c, "j0"), fetch_times(c, "j1")) == ({1.0}, set())
    run = c.run()
    assert run.unfinished == []
    assert max(run.ended_s.values()) < 20


def predicted(reduces: int, reduce_s: float) -> Forecast:
    maps = StageForecast(name="m", tasks=2, input_bytes=0, output_bytes=0)
    long = StageForecast(
        name="r", reads=("m",), tasks=reduces, input_bytes=0, output_bytes=0, task_s=reduce_s
    )
    return Forecast(name="daily", stages=(maps, long))


def test_a_stage_that_gets_no_more_slots_begins_after_a_while():
    """The other slot is taken for long."""
    c = tiny_cluster(nodes=3, scheduler=LATE, options={"shuffle.stall_s": 7.0})
    c.submit("j9", maps=1, map_s=1000)
    c.submit("j0", maps=2, reduces=3, reduce_s=5, forecast=predicted(3, reduce_s=100))
    c.run(until_s=100.0)
    assert fetch_times(c, "j0") == {1.0 + 7.0, 1.0 + 7.0 + 5.0}


@pytest.mark.parametrize("factor", [0.0, 1.0, 3.0])
def test_a_stage_waits_no_longer_than_a_reduce_should_run(factor):
    """The other slot is taken for long."""
    c = tiny_cluster(nodes=3, scheduler=LATE, options={"shuffle.stall_factor": factor})
    c.submit("j9", maps=1, map_s=1000)
    c.submit("j0", maps=2, reduces=3, reduce_s=5, forecast=predicted(3, reduce_s=5))
    c.run(until_s=100.0)
    assert min(fetch_times(c, "j0")) == pytest.approx(1.0 + factor * 5.0, abs=1e-3)


def test_settings_of_late_starts_are_checked():
    with pytest.raises(UsageError, match=r"shuffle.stall_factor = -1.0: need a number >= 0"):
        tiny_cluster(scheduler=LATE, options={"shuffle.stall_factor": -1.0})
    with pytest.raises(UsageError, match=r"shuffle.stall_s = 0.0: need seconds > 0"):
        tiny_cluster(scheduler=LATE, options={"shuffle.stall_s": 0.0})
