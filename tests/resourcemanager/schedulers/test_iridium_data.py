"""Iridium's data: before a predicted job comes, input leaves sites that hold its shuffle up."""

from collections import Counter

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from railyard.cluster.config import ClusterConfig
from railyard.cluster.topologies.tables import Compute, Links, RackFigures, RackShape, Storage
from railyard.cluster.topology import Topology
from railyard.jobs.workloads.model import (
    InputFile,
    Recurrence,
    Workload,
    WorkloadJob,
    WorkStage,
)
from railyard.resourcemanager.driving.eventlog import EventLog, replay
from railyard.resourcemanager.interface.forecast import forecast_of
from railyard.resourcemanager.schedulers import iridium_data
from railyard.resourcemanager.schedulers.placement import exact
from railyard.resourcemanager.schedulers.placement.model import Sites, Stage
from railyard.simulator.cluster import Simulation

MB = 10**6


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
    steps = list(iridium_data.better_places(sites, np.array(held), 5.0, roomy(sites)))
    assert {source for source, _ in steps[:20]} == {0}
    assert after(held, steps[:20], 5.0)[0] == 0.0
    assert sorted(after(held, steps, 5.0)) == [0, 0, 200], "only the network counts, not slots"


def test_even_sites_stay_as_they_are():
    sites = three_sites(10, 10, 10, down=(10, 10, 10))
    assert list(iridium_data.better_places(sites, np.full(3, 60.0), 3.0, roomy(sites))) == []


def test_no_more_moves_than_the_links_can_carry_in_time():
    sites = three_sites(1, 10, 10, down=(1, 10, 10))
    room = roomy(sites)
    room[0, 0] = 17.0
    held = np.array([100.0, 50.0, 50.0])
    assert len(list(iridium_data.better_places(sites, held, 5.0, room))) == 3
    room[1, 1] = 5.0
    steps = list(iridium_data.better_places(sites, held, 5.0, room))
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
    steps = list(iridium_data.better_places(place, held, size, room))
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
    run = Simulation(config, Workload(name="w", source="", jobs=jobs), log=events)
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
        assert iridium_data.shuffles(forecast) is shuffled
