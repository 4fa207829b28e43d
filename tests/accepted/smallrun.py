"""A small simulated run, of which an option is to change something: a sort that crosses racks."""

from railyard.cluster.topology import Topology
from railyard.jobs.workloads.catalog import sample_workload
from railyard.runs.config import cluster_config, pairs_of
from railyard.runs.simulation import VirtualRun, run_virtually
from railyard.simulator.behaviour import Behaviour

#: What runs are not compared by.
_NAMES = ("topology", "cpu_s", "scheduling_s")


def small_run(topology: Topology, faults: str = "", behaviour: Behaviour | None = None):
    """What the run says at its end."""
    [pair] = pairs_of(["fair"], [] if topology.ocs is None else ["sunflow"])
    config = cluster_config(topology, pair=pair)
    work = sample_workload("terasort", 2_000_000_000, topology.storage.block, 6)
    run = VirtualRun(config=config, workload=work, behaviour=behaviour, faults=faults or None)
    return {key: value for key, value in run_virtually(run).items() if key not in _NAMES}
