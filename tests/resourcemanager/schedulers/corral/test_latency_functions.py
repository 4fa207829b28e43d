"""Latency response functions, with numbers worked out by hand.

The cluster is the paper's (section 6.1): 7 racks of 30 machines at 10 Gbps, 60 Gbps to the core of
each, so V = 5 and a machine's part of the core is 2 Gbps.
"""

from __future__ import annotations

import dataclasses
import math

import msgspec
import numpy as np
import pytest

from railyard.cluster.errors import UsageError
from railyard.cluster.topology import load_topology
from railyard.resourcemanager.schedulers.corral.latency import (
    PlanOptions,
    RackCluster,
    core_s,
    imbalance_s,
    job_s,
    local_s,
    map_s,
    reduce_s,
    shuffle_s,
    stage_s,
)
from railyard.resourcemanager.schedulers.corral.profiles import JobProfile, StageProfile

GB, MB = 1e9, 1e6
CLUSTER = RackCluster(racks=7, machines=30, nic_bytes_per_s=1.25 * GB, core_bytes_per_s=0.25 * GB)
R = CLUSTER.all_widths()

#: 300 MB a map at 50 MB/s: 6 s; 300 MB a reduce at 100 MB/s: 3 s
JOB = StageProfile(
    input_bytes=36 * GB,
    shuffle_bytes=30 * GB,
    output_bytes=18 * GB,
    maps=120,
    reduces=60,
    map_rate_bytes_per_s=50 * MB,
    reduce_rate_bytes_per_s=100 * MB,
)


def test_maps_run_in_waves_of_a_task_a_machine():
    # ceil(120 / 30 r) = 4, 2, 2, 1, ... waves
    assert map_s(JOB, R, CLUSTER) == pytest.approx([24, 12, 12, 6, 6, 6, 6])


def test_reduces_run_in_waves_too():
    # ceil(60 / 30 r) = 2, 1, ... waves
    assert reduce_s(JOB, R, CLUSTER) == pytest.approx([6, 3, 3, 3, 3, 3, 3])


def test_the_core_takes_what_leaves_a_rack():
    # r = 2: each machine has 500 MB, sends half of them, 250 MB, at 250 MB/s
    # r = 4: of 250 MB it sends three quarters
    assert core_s(JOB, R, CLUSTER)[[0, 1, 3]] == pytest.approx([0, 1, 0.75])


def test_the_core_takes_what_the_sketch_says():
    """Section 3.3: (r-1) S V / (r^2 B), with B of the whole rack."""
    rack_bytes_per_s = 30 * 1.25 * GB
    sketch = (R - 1) * 30 * GB * 5 / (R**2 * rack_bytes_per_s)
    assert core_s(JOB, R, CLUSTER) == pytest.approx(sketch)


def test_a_rack_takes_what_stays_but_for_the_own_machine():
    # r = 1: 1 GB a machine, 29/30 of it to others, at 10 - 2 Gbps = 1 GB/s
    # r = 2: 500 MB a machine, half of them stay in the rack
    assert local_s(JOB, R, CLUSTER)[:2] == pytest.approx([29 / 30, 0.25 * 29 / 30])


def test_the_slower_of_both_counts_once_a_wave():
    # r = 1: two waves of the rack's 29/30 s; then one wave, and the core is slower
    assert shuffle_s(JOB, R, CLUSTER)[:2] == pytest.approx([2 * 29 / 30, 1])
    assert shuffle_s(JOB, R, CLUSTER, in_waves=False)[:2] == pytest.approx([29 / 30, 1])


def test_a_mapreduce_job_is_the_sum_of_its_stages():
    whole = stage_s(JOB, R, CLUSTER)
    assert whole[[0, 1, 3]] == pytest.approx([24 + 2 * 29 / 30 + 6, 12 + 1 + 3, 6 + 0.75 + 3])


def test_several_tasks_on_a_machine_take_fewer_waves():
    two = dataclasses.replace(CLUSTER, slots=2)
    # ceil(120 / 60 r) = 2, 1, ...; one wave of reduces throughout
    assert stage_s(JOB, R, two)[:2] == pytest.approx([12 + 29 / 30 + 3, 6 + 1 + 3])


def test_a_job_of_maps_only_shuffles_nothing():
    maps = StageProfile(input_bytes=36 * GB, maps=120, map_rate_bytes_per_s=50 * MB)
    assert stage_s(maps, R, CLUSTER) == pytest.approx(map_s(JOB, R, CLUSTER))


def test_what_a_task_takes_besides_its_bytes_counts_once_a_wave():
    slow = StageProfile(maps=120, reduces=60, map_s=1.0, reduce_s=10.0)
    assert stage_s(slow, R, CLUSTER)[:2] == pytest.approx([4 + 2 * 10, 2 + 10])


def test_without_oversubscription_all_share_the_machines_own_link():
    flat = RackCluster(racks=7, machines=30, nic_bytes_per_s=GB, core_bytes_per_s=GB)
    # r = 2: 250 MB to the other rack, 250 MB x 29/30 within
    assert shuffle_s(JOB, R, flat)[1] == pytest.approx(0.25 + 0.25 * 29 / 30)


def test_a_network_without_limits_takes_no_time():
    inf = RackCluster(racks=7, machines=30, nic_bytes_per_s=math.inf, core_bytes_per_s=math.inf)
    assert shuffle_s(JOB, R, inf).tolist() == [0.0] * 7
    job = JobProfile(name="j", stages=(JOB,))
    assert imbalance_s(job, R, inf).tolist() == [0.0] * 7


def test_a_dag_takes_its_critical_path():
    """Two sources, one of many short tasks, one of few long ones, and a sink that reads both."""
    wide = StageProfile(name="wide", maps=210, map_s=2.0)  # 7, 4, 3, 2, 2, 2, 1 waves
    long = StageProfile(name="long", maps=30, map_s=9.0)
    sink = StageProfile(name="sink", reads=("wide", "long"), reduces=30, reduce_s=1.0)
    job = JobProfile(name="dag", stages=(wide, long, sink))
    assert job_s(job, R, CLUSTER) == pytest.approx([14 + 1, 9 + 1, 9 + 1, 9 + 1, 10, 10, 10])


def test_a_dag_with_two_ends_takes_the_later_one():
    first = StageProfile(name="a", maps=1, map_s=1.0)
    ends = [
        StageProfile(name=n, reads=("a",), reduces=1, reduce_s=s)
        for n, s in (("b", 5.0), ("c", 2.0))
    ]
    assert job_s(JobProfile(name="j", stages=(first, *ends)), R, CLUSTER)[0] == pytest.approx(6)


def test_the_penalty_is_the_time_to_upload_a_racks_part():
    # 36 GB at 60 Gbps = 7.5 GB/s: 4.8 s, over r racks
    job = JobProfile(name="j", stages=(JOB,))
    assert imbalance_s(job, R, CLUSTER)[:2] == pytest.approx([4.8, 2.4])
    assert imbalance_s(job, R, CLUSTER, imbalance=0.0).tolist() == [0.0] * 7


def test_a_cluster_is_what_its_topology_leaves_to_us():
    paper = load_topology("corral-7x30", [("background", "0")])
    assert RackCluster.of(paper, slots=1) == CLUSTER
    busy = RackCluster.of(load_topology("corral-7x30"))  # half of the core is taken
    assert busy.core_bytes_per_s == pytest.approx(0.125 * GB)
    assert busy.slots == 8


def test_racks_that_differ_count_with_their_mean():
    topology = load_topology("tetrium-8")
    found = RackCluster.of(topology)
    assert (found.racks, found.machines) == (8, 1)
    assert found.slots == pytest.approx(topology.slots / 8)
    narrow = [min(r.uplink_bytes_per_s, r.downlink_bytes_per_s) for r in topology.rack_list()]
    assert found.core_bytes_per_s == pytest.approx(sum(narrow) / 8)


@pytest.mark.parametrize("field", ["imbalance", "slots"])
def test_options_are_checked(field):
    with pytest.raises(UsageError, match=f"{field} = -1: need"):
        PlanOptions(**{field: -1})


def test_latency_never_grows_from_two_racks_on():
    """As section 4.2 observed; from one rack to two it may, as the core is slower than a rack."""
    whole = stage_s(JOB, R, CLUSTER)
    assert (np.diff(whole[1:]) <= 1e-12).all()


def test_a_profile_refuses_a_stage_that_reads_a_later_one():
    late = (StageProfile(name="b", reads=("a",)), StageProfile(name="a"))
    with pytest.raises(UsageError, match="job j: stage b reads a: need a stage listed before it"):
        JobProfile(name="j", stages=late)


def test_a_profile_refuses_a_negative_size():
    with pytest.raises(UsageError, match="input_bytes = -1"):
        msgspec.convert({"input_bytes": -1.0}, StageProfile)
