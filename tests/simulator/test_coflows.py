"""Coflows alone in virtual time."""

import json
import math

import pytest

from railyard.cluster.errors import InvariantError, UsageError
from railyard.cluster.topology import load_topology
from railyard.jobs.workloads.traces.coflows import CoflowTrace, TraceCoflow
from railyard.netemu.messages import SetCapacity
from railyard.netemu.schedulers import FLOW_SCHEDULERS, flow_scheduler
from railyard.netemu.schedulers.maxmin import MaxMin
from railyard.oracles.orders import carry_out
from railyard.simulator.coflows import CoflowRun

MB = 10**6  #: 8 ms of a port of 1 Gbps


def coflow(name, arrival_s, mappers, reducers):
    megabytes = tuple((rack, size * MB) for rack, size in reducers)
    return TraceCoflow(name=name, arrival_s=arrival_s, mappers=tuple(mappers), reducers=megabytes)


def run(*coflows, scheduler="maxmin", topology="ports-150x1,racks.count=4"):
    racks = 4
    trace = CoflowTrace(name="t", racks=racks, coflows=coflows)
    done = CoflowRun(trace, load_topology(topology), flow_scheduler(scheduler))
    done.run()
    return done.summary()


def ccts_s(summary):
    return {job["id"]: pytest.approx(job["cct_s"]) for job in summary["jobs"]}


def test_a_coflow_alone_takes_what_its_busiest_port_needs():
    """Rack 2 gets 250 MB, rack 3 gets 500 MB, half of each from both senders."""
    summary = run(coflow("a", 5.0, [0, 1], [(2, 250), (3, 500)]))
    assert ccts_s(summary) == {"a": 4.0}
    assert summary["makespan_s"] == pytest.approx(4.0)
    assert summary["jobs"][0]["finished_s"] == pytest.approx(9.0)


def test_coflows_share_by_flows_under_maxmin():
    """Both leave rack 0: half each until b's 125 MB are sent at 3 s."""
    summary = run(coflow("a", 0.0, [0], [(1, 250)]), coflow("b", 1.0, [0], [(2, 125)]))
    assert ccts_s(summary) == {"a": 3.0, "b": 2.0}
    assert summary["cct_s"] == {
        "mean": pytest.approx(2.5),
        "p50": pytest.approx(2.5),
        "p95": pytest.approx(2.95),
        "p99": pytest.approx(2.99),
        "max": pytest.approx(3.0),
    }


def test_what_stays_in_a_rack_takes_no_time():
    summary = run(coflow("a", 2.0, [1], [(1, 500)]), coflow("b", 2.0, [1, 2], [(2, 250)]))
    assert ccts_s(summary) == {"a": 0.0, "b": 1.0}
    assert summary["bytes"] == {
        "local": 625 * MB,
        "rack": 0,
        "cross_rack": 125 * MB,
        "eps": 125 * MB,
        "ocs": 0,
        "wan": 0,
    }


def test_the_summary_has_the_format_of_all_runs():
    summary = run(coflow("a", 0.0, [0, 1], [(2, 10), (3, 10)]), coflow("b", 9.0, [0], [(3, 125)]))
    assert json.loads(json.dumps(summary)) == summary
    assert (summary["clock"], summary["flow_scheduler"]) == ("virtual", "maxmin")
    assert summary["flows"] == 5
    # 145 MB up and down, in 0.16 + 1.16 s... with 8 links of 125 MB/s
    assert summary["network_utilization"] == pytest.approx(290 / (8 * 125 * 1.16), rel=0.1)
    assert summary["jobs"][1]["maps"] == summary["jobs"][1]["reduces"] == 1


def test_a_rack_of_several_nodes_sends_with_all_of_them():
    """4 x 10 Gbps behind 40 Gbps: 5 GB to each of 4 readers need 4 s through the uplinks."""
    summary = run(coflow("a", 0.0, [0] * 4, [(1, 5000)] * 4), topology="flat-4x4,racks.count=4")
    assert ccts_s(summary) == {"a": 4.0}


@pytest.mark.parametrize("scheduler", sorted(FLOW_SCHEDULERS))
def test_any_flow_scheduler_lets_all_finish_and_none_too_early(scheduler):
    coflows = [
        coflow(str(n), 0.3 * (n // 2), [n % 4, (n + 1) % 4], [((n + 2) % 4, 40), (n % 4, 7)])
        for n in range(12)
    ]
    summary = run(*coflows, scheduler=scheduler)
    assert summary["cct_s"]["max"] < math.inf
    for job in summary["jobs"]:
        assert job["ok"]
        assert job["cct_s"] >= 0.32 * (1 - 1e-9)  # 40 MB into one port


def test_a_circuit_that_carries_is_kept_for_a_coflow_that_arrives_as_its_user_ends():
    """a needs 1.01 s; next goes on at once on its circuit, which other would have taken down."""
    summary = run(
        coflow("a", 0.0, [0], [(1, 125)]),
        coflow("other", 0.0, [0], [(2, 250)]),
        coflow("next", 1.01, [0], [(1, 25)]),
        scheduler="sunflow",
        topology="ports-150x1,racks.count=4,ocs.port_bytes_per_s=1Gbps,delta=10ms,elephant=1",
    )
    assert ccts_s(summary) == {"a": 1.01, "next": 0.2, "other": 3.22}


def test_a_topology_that_is_too_small_is_refused():
    with pytest.raises(UsageError, match="tetrium-8 has 8 racks: need at least the 9 racks of t"):
        CoflowRun(CoflowTrace(name="t", racks=9, coflows=()), load_topology("tetrium-8"), MaxMin())


def test_flows_that_never_finish_are_reported():
    trace = CoflowTrace(name="t", racks=4, coflows=(coflow("a", 0.0, [0], [(1, 1)]),))
    stuck = CoflowRun(trace, load_topology("ports-150x1,racks.count=4"), MaxMin())
    carry_out(stuck.fabric, SetCapacity(link="r0.up", bytes_per_s=0.0))
    with pytest.raises(InvariantError, match="maxmin never lets coflow a finish"):
        stuck.run()
