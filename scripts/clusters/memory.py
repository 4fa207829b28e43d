"""Checks that this machine's memory holds the processes of a cluster and of its attempts.

It is easy to ask for thousands of slots; each attempt in a slot is a process.  The figures are
those of TeraSort on hybrid-8x4 (proportional set sizes: what processes share counts once).
"""

from __future__ import annotations

from railyard.cluster.files.resources import Exhausted, free_memory_bytes
from railyard.cluster.files.runfolder import RunFolder
from railyard.cluster.topology import Topology
from railyard.cluster.units import format_count, format_size

#: ResourceManager, NameNode, network emulator and supervisor: 37 MiB.
_CENTRAL_BYTES = 40 * 10**6
#: NodeManager, DataNode, helper and a job's helper: 23 MiB.
_RACK_BYTES = 25 * 10**6
#: An attempt, 9.3 MiB, without its input.
_ATTEMPT_BYTES = 10 * 10**6


def require_memory(
    topology: Topology,
    what: str,
    tasks: int,
    up: RunFolder | None = None,
    *,
    reserves: bool = False,
) -> None:
    """Raise ``Exhausted`` if the processes of a run do not fit; ``tasks`` may run at once.

    With ``up`` the daemons are there already.  If the scheduler ``reserves``, attempts wait for
    slots with what they have read: there may be more of them than slots.
    """
    attempts = tasks if reserves else min(tasks, topology.slots)
    daemons_bytes = 0 if up is not None else memory_of_daemons(topology)
    each_bytes = _ATTEMPT_BYTES + topology.stored_block_bytes  # an attempt holds its block
    need_bytes, free_bytes = daemons_bytes + attempts * each_bytes, free_memory_bytes()
    if need_bytes <= free_bytes:
        return
    fit = max(0, free_bytes - daemons_bytes) // each_bytes
    processes = f"{format_count(attempts, 'attempt')} at once"
    if up is None:
        processes += f" and the daemons of {format_count(topology.racks.count, 'rack')}"
    takes = f"{processes} take about {format_size(need_bytes)} of memory"
    raise Exhausted(
        f"{what}: {takes}, but this machine has {format_size(free_bytes)} free: "
        f"need {_what_fits(topology, fit, up, reserves)}"
    )


def memory_of_daemons(topology: Topology) -> int:
    """Bytes that a cluster's daemons take."""
    return _CENTRAL_BYTES + topology.racks.count * _RACK_BYTES


def _what_fits(topology: Topology, attempts: int, up: RunFolder | None, reserves: bool) -> str:
    if not attempts and up is None:
        return "fewer racks, such as --network racks.count=4, or railyard simulate"
    fits = f"at most {attempts} at once: a smaller --size, fewer --reduces"
    slots = attempts // len(topology.nodes())
    if slots and up is None and not reserves:
        fits += f", or --network racks.slots={slots}"
    return fits
