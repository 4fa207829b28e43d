"""A topology as coarse as the tasks of a workload: "grain=12" merges twelve tasks into one.

A rack keeps its slots x rate, its NICs and its link to the core: it has fewer and larger machines,
each with fewer and faster slots.  See ``jobs.workloads.coarse`` for the tasks.
"""

from __future__ import annotations

from railyard.cluster.overrides import SHORT, split_changes
from railyard.cluster.topology import Topology, load_topology
from railyard.cluster.units import format_count
from railyard.scripts.terminal.notices import notice
from railyard.scripts.terminal.options import TextPairs

#: Whoever changes any of these has made the topology as coarse as it should be.
_OWN = ("racks.nodes", "racks.slots", "links.nic", "storage.block", "compute.", "rack.")


def grain_of(workload: str) -> int:
    """How many tasks of a workload are merged into one; 1 = none are."""
    text = dict(split_changes(workload)[1]).get("grain", "1")
    return int(text) if text.isdecimal() else 1


def coarse_network(
    topology: Topology, tasks: int, machines: int, rate_bytes_per_s: float | None = None
) -> TextPairs:
    """The settings of a topology in which so many machines of a rack are one, and tasks, too.

    ``rate_bytes_per_s``: of a slot before that; None = the topology's.
    """
    racks, compute = topology.racks, topology.compute
    rates = rate_bytes_per_s or compute.map_rate, rate_bytes_per_s or compute.reduce_rate
    return (
        ("racks.nodes", str(racks.nodes // machines)),
        ("racks.slots", str(racks.slots * machines // tasks)),
        ("links.nic", _rate(topology.links.nic * machines)),
        ("storage.block", f"{topology.storage.block * tasks}B"),
        ("compute.map_rate", _rate(rates[0] * tasks)),
        ("compute.reduce_rate", _rate(rates[1] * tasks)),
    )


def topology_for(workload: str, name: str, network: TextPairs) -> Topology:
    """A topology with its changes, as coarse as the workload; says so on standard error.

    It stays as it is if the changes say how large machines and slots are, if racks differ, and if
    slots of whole machines can't be merged.
    """
    topology, tasks = load_topology(name, network), grain_of(workload)
    changed = [SHORT.get(key, key) for key, _ in network]
    if tasks == 1 or any(key.startswith(_OWN) for key in changed):
        return topology
    machines = _machines(topology, tasks)
    if machines is None:
        said = f"{topology.name} has no racks of machines whose slots can be merged so: kept as is"
        notice(f"grain={tasks}: {said}")
        return topology
    made = load_topology(name, (*coarse_network(topology, tasks, machines), *network))
    racks, before = made.racks, topology.racks
    slots = format_count(racks.slots, "slot")
    said = f"{racks.nodes} machines a rack with {slots} each, as fast together as "
    said += f"{before.nodes} with {before.slots}"
    notice(f"grain={tasks}: {tasks} tasks are one; {said}")
    return made


def _machines(topology: Topology, tasks: int) -> int | None:
    """The fewest machines of a rack whose slots are whole ones when tasks are merged."""
    racks = topology.racks
    if topology.rack:
        return None
    whole = (
        machines
        for machines in range(1, racks.nodes + 1)
        if racks.nodes % machines == 0 and racks.slots * machines % tasks == 0
    )
    return next(whole, None)


def _rate(bytes_per_s: float) -> str:
    return f"{bytes_per_s:.0f}B/s"
