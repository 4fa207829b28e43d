"""Simulations of one seed that differ by chance, as emulations of one seed do."""

from __future__ import annotations

from railyard.cluster.config import ClusterConfig
from railyard.cluster.topology import load_topology
from railyard.jobs.workloads.catalog import workload
from railyard.simulator.cluster import Simulation
from railyard.simulator.nodes.behaviour import Behaviour


def test_chance_changes_computing_times_and_not_what_policies_draw():
    config = ClusterConfig(topology=load_topology("shadow-4x13"), scheduler="kmn", seed=7)
    jobs, varied = workload("shadow,app=terasort,input=1GB", 7), Behaviour(variance=0.2)
    runs = [Simulation(config, jobs, varied, chance=chance) for chance in (None, 7, 8)]
    drawn = [run.core.state.random.getstate() for run in runs]
    assert drawn[0] == drawn[1] == drawn[2]
    times_s = []
    for run in runs:
        run.run()
        times_s.append(run.summary()["makespan_s"])
    orders = [{node.id: node.position for node in run.core.state.nodes.values()} for run in runs]
    assert orders[0] == orders[1] == orders[2]
    assert times_s[0] == times_s[1] != times_s[2]
