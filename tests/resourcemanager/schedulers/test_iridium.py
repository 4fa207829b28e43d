"""In-Place: maps don't leave the sites that hold their input, unless these have no slots left."""

from __future__ import annotations

from collections import Counter

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from railyard.cluster.config import ClusterConfig
from railyard.cluster.topology import Topology
from railyard.cluster.topologyfile import Compute, Links, RackFigures, RackShape, Storage
from railyard.jobs.workloads.model import InputFile, Recurrence, Workload, WorkloadJob, WorkStage
from railyard.resourcemanager.driving.eventlog import EventLog, replay
from railyard.resourcemanager.interface.events import StagePlan, TaskInput
from railyard.resourcemanager.interface.forecast import forecast_of
from railyard.resourcemanager.schedulers import iridium
from railyard.resourcemanager.schedulers.shared.sites import Sites
from railyard.resourcemanager.schedulers.tetrium import exact
from railyard.resourcemanager.schedulers.tetrium.placement import Stage
from railyard.simulator.simulation import Simulation
from tests.harness import tiny_cluster

MB = 10**6


def sites_with_a_job(scheduler="in-place", *, at=("r0n0",), blocks=6):
    """Three sites of one node with two slots each, and a job whose maps take 20 s."""
    c = tiny_cluster(racks=3, nodes=1, slots=2, scheduler=scheduler)
    c.store("in", blocks=[[at[n % len(at)]] for n in range(blocks)], block_bytes=100 * MB)
    c.submit("j0", input="in", map_s=20.0)
    return c


def at_nodes(run):
    return Counter(run.nodes_of("j0.m"))


@pytest.mark.parametrize("scheduler", ["in-place", "iridium"])
def test_maps_wait_for_slots_at_their_site_however_long_others_are_free(scheduler):
    run = sites_with_a_job(scheduler).run()
    assert at_nodes(run) == {"r0n0": 6}
    assert [when for _, when in run.launches("j0.m")] == [0.0, 0.0, 20.0, 20.0, 40.0, 40.0]


def test_with_delay_they_leave_it_after_the_waits():
    run = sites_with_a_job("in-place:delay").run()
    assert at_nodes(run) == dict.fromkeys(("r0n0", "r1n0", "r2n0"), 2)
    assert {when for _, when in run.launches("j0.m")} == {0.0, 10.0}


def test_a_job_says_why_it_waits():
    c = sites_with_a_job()
    c.run(until_s=1.0)
    assert c.why_waiting("j0.m5") == "only slots at other sites are free"


@pytest.mark.parametrize("scheduler", ["in-place", "iridium"])
@pytest.mark.parametrize("left", [0, 1])
def test_maps_leave_a_site_only_if_it_has_no_slots_left(scheduler, left):
    c = sites_with_a_job(scheduler, at=("r0n0", "r1n0"))
    c.at(5.0, lambda: c.set_slots("r0n0", left))
    run = c.run()
    assert run.unfinished == []
    away = {task: when for task, node, when in run.placements if node == "r2n0"}
    assert away == ({"j0.m4": 5.0} if left == 0 else {})


def test_a_map_whose_input_is_in_two_sites_waits_for_the_one_that_has_slots():
    c = tiny_cluster(racks=3, nodes=1, slots=1, scheduler="in-place")
    c.store("in", blocks=[["r0n0", "r1n0"]] * 3)
    c.set_slots("r0n0", 0)
    c.submit("j0", input="in", map_s=2.0)
    assert at_nodes(c.run()) == {"r1n0": 3}


# Iridium's reduces go where the shuffle is shortest, whatever slots there are.


def sites(scheduler, *blocks_at, slots=2):
    """Three sites of one node each, and a job with so many blocks at each, and six reduces."""
    c = tiny_cluster(racks=3, nodes=1, slots=slots, scheduler=scheduler)
    c.flow_s = 0.1
    places = [[f"r{site}n0"] for site, count in enumerate(blocks_at) for _ in range(count)]
    c.store("in", blocks=places, block_bytes=100 * MB)
    c.submit("j0", input="in", reduces=6, map_s=2.0, partition_bytes=10 * MB, reduce_s=5.0)
    return c


def places(run, prefix):
    return Counter(run.nodes_of(prefix))


@pytest.mark.parametrize(("scheduler", "spread"), [("iridium", 1), ("tetrium", 3)])
def test_reduces_stay_with_the_data_even_if_they_wait_for_slots(scheduler, spread):
    c = sites(scheduler, 2, 0, 0)
    run = c.run()
    assert len(places(run, "j0.r")) == spread
    assert run.unfinished == []


def test_maps_run_where_their_input_is():
    assert places(sites("iridium", 2, 2, 2).run(), "j0.m") == {"r0n0": 2, "r1n0": 2, "r2n0": 2}


def test_even_data_has_even_reduces():
    assert places(sites("iridium", 2, 2, 2).run(), "j0.r") == {"r0n0": 2, "r1n0": 2, "r2n0": 2}


def test_reduces_of_a_site_that_lost_its_slots_run_elsewhere():
    c = sites("iridium", 2, 0, 0)
    c.at(3.0, lambda: c.set_slots("r0n0", 0))
    run = c.run()
    assert run.unfinished == []
    late = {node for task, node, when in run.placements if task.startswith("j0.r") and when >= 3.0}
    assert late
    assert "r0n0" not in late


def test_reduces_get_their_slots_while_maps_of_the_same_job_wait_for_theirs():
    """r2 has the maps that wait, r1 most of what the reduce reads, and slots that are free."""
    c = tiny_cluster(racks=3, nodes=1, slots=2, scheduler="iridium")
    c.flow_s = 0.1
    r0, r1, r2 = (TaskInput(input_bytes=100 * MB, nodes=(f"r{rack}n0",)) for rack in range(3))
    stages = (
        StagePlan(name="waits", tasks=8, inputs=(r2,) * 8),
        StagePlan(name="most", tasks=2, inputs=(r1,) * 2),
        StagePlan(name="late", tasks=1, inputs=(r0,)),
        StagePlan(name="next", reads=("most", "late"), tasks=1),
        StagePlan(name="last", reads=("waits", "next"), tasks=1),
    )
    durations = {"waits": 9.0, "most": 1.0, "late": 3.0, "next": 1.0, "last": 1.0}
    c.submit("j0", stages=stages, durations=durations)
    run = c.run()
    assert run.unfinished == []
    assert [(node, when) for task, node, when in run.placements if "next" in task] == [
        ("r1n0", 3.0)
    ]


@pytest.mark.parametrize("scheduler", ["iridium", "tetrium", "tetrium+iridium-tasks"])
def test_loops_are_loaded_before_the_cluster_is_ready(scheduler, monkeypatch):
    loaded = []
    monkeypatch.setattr(exact, "load_loops", lambda: loaded.append(scheduler))
    tiny_cluster(racks=2, nodes=1, slots=1, scheduler=scheduler)
    assert scheduler in loaded


# Iridium's data: before a predicted job comes, input leaves sites that hold its shuffle up.


def three_sites(*up, down=(100, 100, 100)):
    return Sites(np.full(3, 4.0), np.array(up, float), np.array(down, float))


def shuffle_s(sites, held):
    plan = exact.place_reduces(sites, Stage(np.asarray(held, float), work_s=0.0))
    return float("inf") if plan is None else plan.network_s


def after(held, steps, size):
    held = list(held)
    for source, target in steps:
        moved = min(size, held[source])
        held[source] -= moved
        held[target] += moved
    return held


def roomy(sites):
    return np.full((2, len(sites.slots)), np.inf)


def test_data_leaves_the_site_whose_slow_uplink_the_shuffle_waits_for():
    sites, held = three_sites(1, 10, 10, down=(1, 10, 10)), [100.0, 50.0, 50.0]
    assert shuffle_s(sites, held) == 50.0, (
        "half of r0's 100 bytes leave, and half of the others' come"
    )
    steps = list(iridium.better_places(sites, np.array(held), 5.0, roomy(sites)))
    assert {source for source, _ in steps[:20]} == {0}
    assert after(held, steps[:20], 5.0)[0] == 0.0
    assert sorted(after(held, steps, 5.0)) == [0, 0, 200], "only the network counts, not slots"


def test_even_sites_stay_as_they_are():
    sites = three_sites(10, 10, 10, down=(10, 10, 10))
    assert list(iridium.better_places(sites, np.full(3, 60.0), 3.0, roomy(sites))) == []


def test_no_more_moves_than_the_links_can_carry_in_time():
    sites = three_sites(1, 10, 10, down=(1, 10, 10))
    room = roomy(sites)
    room[0, 0] = 17.0
    held = np.array([100.0, 50.0, 50.0])
    assert len(list(iridium.better_places(sites, held, 5.0, room))) == 3
    room[1, 1] = 5.0
    steps = list(iridium.better_places(sites, held, 5.0, room))
    assert Counter(target for _, target in steps)[1] <= 1


numbers = st.integers(0, 100).map(float)
columns = st.lists(st.tuples(st.integers(0, 9), numbers, numbers, numbers), min_size=2, max_size=5)


@settings(max_examples=100, deadline=None)
@given(sites=columns, size=st.floats(1, 40), lag_s=st.floats(0, 20))
@example(sites=[(0, 9.0, 0.0, 25.0), (1, 0.0, 9.0, 1.0)], size=1.0, lag_s=0.0)
def test_each_step_makes_the_shuffle_shorter_and_fits_the_links(sites, size, lag_s):
    slots, up, down, held = map(np.array, zip(*sites, strict=True))
    place = Sites(slots.astype(float), up, down)
    if not held.any():
        return
    room = np.stack((up, down)) * lag_s
    steps = list(iridium.better_places(place, held, size, room))
    time_s, sent, now = shuffle_s(place, held), np.zeros((2, len(held))), list(held)
    for source, target in steps:
        moved = min(size, now[source])
        now = after(now, [(source, target)], size)
        sent[0, source] += moved
        sent[1, target] += moved
        assert shuffle_s(place, now) < time_s
        time_s = shuffle_s(place, now)
    assert (sent <= room + 1e-6).all()
    assert sum(now) == pytest.approx(float(held.sum()))
    assert min(now) >= -1e-9


# Whole runs --------------------------------------------------------------------------------------
def place():
    """Three sites; r0 has a slow uplink."""
    return Topology(
        name="t",
        racks=RackShape(count=3, nodes=1, slots=4),
        rack={"r0": RackFigures(uplink=10 * MB)},
        links=Links(nic=float("inf"), uplink=100 * MB, way="wan"),
        storage=Storage(block=100 * MB, replication=1),
        compute=Compute(map_rate=50 * MB, reduce_rate=100 * MB),
    )


def job(name="j", submit_s=60.0, recurring=True, path="/in", blocks=12):
    size = blocks * 100 * MB
    nodes = tuple((f"r{0 if at % 2 else 1 + at // 2 % 2}n0",) for at in range(blocks))
    file = InputFile(path=path, size_bytes=size, block_bytes=100 * MB, nodes=nodes)
    return WorkloadJob(
        name=name,
        user="u",
        queue="default",
        submit_s=submit_s,
        stages=(
            WorkStage(name="m", files=(path,), tasks=blocks, output_bytes=size),
            WorkStage(name="r", reads=("m",), tasks=6, output_bytes=0),
        ),
        files=(file,),
        recurrence=Recurrence(name=name, submit_s=submit_s) if recurring else None,
    )


def run_of(*jobs, log=None, **options):
    config = ClusterConfig(
        topology=place(),
        scheduler="iridium",
        scheduler_options={"iridium.move_data": True, **options},
    )
    events = EventLog(log, config) if log else None
    run = Simulation(config, Workload(name="w", jobs=jobs), log=events)
    run.run()
    if events:
        events.close()
    return run


def moved(run):
    return run.summary()["figures"].get("iridium", {}).get("blocks_moved")


def jct_s(run):
    [each] = run.summary()["jobs"]
    return each["jct_s"]


def test_a_predicted_job_finds_its_input_moved_and_is_done_sooner(tmp_path):
    log = tmp_path / "events.jsonl"
    run = run_of(job(), log=log)
    assert moved(run) > 0
    held = run.store.namenode.blocks.load
    assert held["r0n0"] < 6 * 100 * MB
    assert run.summary()["bytes"]["wan"] >= moved(run) * 100 * MB
    assert jct_s(run) < jct_s(run_of(job(), **{"iridium.move_data": False}))
    events = len(log.read_text().splitlines()) - 1
    assert sum(1 for _ in replay(log)) == events


def test_it_is_off_by_default():
    assert moved(run_of(job(), **{"iridium.move_data": False})) is None


def test_nothing_is_moved_for_a_job_that_nobody_predicted():
    assert moved(run_of(job(recurring=False))) == 0


def test_as_much_is_moved_as_there_is_time_for():
    assert moved(run_of(job(submit_s=11.0))) == 1
    assert moved(run_of(job(submit_s=21.0))) == 2
    assert moved(run_of(job(submit_s=5.0))) == 0, "a block takes 10 s"


def test_jobs_share_the_time_of_the_links():
    run = run_of(job(submit_s=11.0), job("k", submit_s=21.0, path="/k"))
    assert moved(run) == 2


def test_what_has_not_left_when_the_job_comes_early_stays():
    early = job(submit_s=1.5)
    late = Recurrence(name="j", submit_s=60.0)
    run = run_of(msgspec.structs.replace(early, recurrence=late))
    assert 0 < moved(run) < moved(run_of(job()))


def test_jobs_whose_maps_nobody_reads_need_no_moves():
    stages = job().stages
    for wanted, shuffled in ((stages[:1], False), (stages, True)):
        forecast = forecast_of(msgspec.structs.replace(job(), stages=wanted))
        assert iridium.shuffles(forecast) is shuffled
