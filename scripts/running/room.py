"""Checks that disk and memory have room for the jobs, before a byte is generated.

Input, shuffle and output are counted in real bytes, with all their replicas.  What a job makes of
its input is not known before; it is taken to be as much as the input.
"""

from __future__ import annotations

from railyard.cluster.errors import UsageError
from railyard.cluster.files.resources import Exhausted, free_bytes, free_memory_bytes
from railyard.cluster.files.runfolder import RunFolder
from railyard.cluster.shown import printable
from railyard.cluster.topology import Topology
from railyard.cluster.units import format_size
from railyard.jobs.mixes.given import read_inputs
from railyard.jobs.mixes.mixes import Mix, MixJob
from railyard.jobs.samples.catalog import find
from railyard.scripts.clusters.home import home
from railyard.scripts.clusters.memory import require_memory

#: For logs, journal, and whoever else uses the disk.
_RESERVE_BYTES = 8 * 10**6
_SHOWN_LETTERS_MAX = 80
#: What a job that is measured takes of memory for a byte of input: that, shuffle and output.
_MEASURED_TIMES = 3


def require_room_for_mix(
    up: RunFolder | None, mix: Mix, topology: Topology, *, reserves: bool = False
) -> None:
    """The same for several jobs; equal inputs are made once."""
    for job in dict.fromkeys(job.job for job in mix.jobs):
        find(job)  # a wrong name is reported first
    sizes = [_input_bytes(job, topology) for job in mix.jobs]
    shared = {
        (job.inputs or job.job, size): size
        for job, size in zip(mix.jobs, sizes, strict=True)
        if not job.own_input
    }
    own = sum(size for job, size in zip(mix.jobs, sizes, strict=True) if job.own_input)
    require_room(up, topology, mix.name, sum(shared.values()) + own, sum(sizes))
    blocks = [-(-size // topology.stored_block_bytes) for size in sizes]
    reduces = [job.reduces or n // 2 for job, n in zip(mix.jobs, blocks, strict=True)]
    what = printable(mix.name, _SHOWN_LETTERS_MAX)
    require_memory(topology, what, sum(blocks) + sum(reduces), up, reserves=reserves)


def _input_bytes(job: MixJob, topology: Topology) -> int:
    """Stored bytes of a job's input that is generated or copied."""
    if job.inputs:
        return sum(read_inputs(job.inputs, "/").sizes)
    return job.size_bytes // topology.scale


def require_room(
    up: RunFolder | None, topology: Topology, what: str, input_bytes: int, read_bytes: int
) -> None:
    """Raise ``UsageError`` if a cluster's disk cannot hold the jobs that were asked for.

    ``input_bytes`` are put into the block store first, ``read_bytes`` are what the jobs read: more
    where they share an input.  Both are stored bytes.
    """
    folder = home() if up is None else up.path
    need_bytes, has_bytes = needed_bytes(topology, input_bytes, read_bytes), free_bytes(folder)
    if need_bytes > has_bytes:
        parts = f"input and output, each with {_copies(topology)} copies, and the shuffle"
        takes = f"takes about {format_size(need_bytes)} of real bytes ({parts})"
        right = "need a smaller size, or RAILYARD_HOME on a larger disk"
        raise UsageError(
            f"{printable(what, _SHOWN_LETTERS_MAX)}: {takes}, "
            f"but {folder} has {format_size(has_bytes)} free: {right}"
        )


def require_room_for_file(
    up: RunFolder, topology: Topology, what: str, size_bytes: int, replication: int = 0
) -> None:
    """Raise ``UsageError`` if a cluster's disk cannot hold a file of so many stored bytes."""
    copies = min(replication or topology.storage.replication, len(topology.nodes()))
    need_bytes, has_bytes = copies * size_bytes + _RESERVE_BYTES, free_bytes(up.path)
    if need_bytes > has_bytes:
        takes = f"{format_size(size_bytes)} with {copies} copies take {format_size(need_bytes)}"
        right = "need a smaller file, --replication 1, or RAILYARD_HOME on a larger disk"
        raise UsageError(
            f"{what}: {takes}, but {up.path} has {format_size(has_bytes)} free: {right}"
        )


def require_room_to_measure(mix: Mix, topology: Topology) -> None:
    """Raise ``Exhausted`` if the memory cannot hold the jobs' files while they are measured."""
    read_bytes = sum(_input_bytes(job, topology) for job in mix.jobs)
    need_bytes, has_bytes = _MEASURED_TIMES * read_bytes, free_memory_bytes()
    if need_bytes > has_bytes:
        takes = f"to measure its jobs in memory takes about {format_size(need_bytes)}"
        right = "need smaller sizes, or a workload that railyard workloads lists"
        what = printable(mix.name, _SHOWN_LETTERS_MAX)
        raise Exhausted(f"{what}: {takes}, but there is {format_size(has_bytes)} free: {right}")


def needed_bytes(topology: Topology, input_bytes: int, read_bytes: int) -> int:
    """Estimate of the bytes that jobs take on the disk, reserve included."""
    shuffle_bytes = output_bytes = read_bytes
    return _copies(topology) * (input_bytes + output_bytes) + shuffle_bytes + _RESERVE_BYTES


def _copies(topology: Topology) -> int:
    return min(topology.storage.replication, len(topology.nodes()))
