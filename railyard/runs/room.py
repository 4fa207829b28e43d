"""Checks that this machine's memory holds the processes of a cluster and of its attempts.

It is easy to ask for thousands of slots; each attempt in a slot is a process.  The figures are
those of TeraSort on hybrid-8x4 (proportional set sizes: what processes share counts once).
"""

from __future__ import annotations

from railyard.cluster.errors import UsageError, printable
from railyard.cluster.machine import Exhausted, free_bytes, free_memory_bytes
from railyard.cluster.runfolder import RunFolder
from railyard.cluster.topology import Topology
from railyard.cluster.topologyfile import split_changes
from railyard.cluster.units import format_count, format_number, format_size, whole_number
from railyard.jobs.inputs import read_inputs
from railyard.jobs.samples.catalog import find
from railyard.jobs.workloads.catalog import workload
from railyard.jobs.workloads.mixes import Mix, MixJob
from railyard.jobs.workloads.model import Workload
from railyard.runs.home import home

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


# Checks that disk and memory have room for the jobs, before a byte is generated.
#
# Input, shuffle and output are counted in real bytes, with all their replicas.  What a job makes of
# its input is not known before; it is taken to be as much as the input.


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


# Checks that memory holds simulations, before they begin, and before very many jobs are made.


#: Of a task: itself, its block, its attempts, and what is remembered of them.  Measured: 4.2 kB of
#: TeraSort with 4 to 16 thousand maps, 3.7 kB of 100 jobs of corral-w1 (55 thousand tasks).
_TASK_BYTES = 6_000
#: So many jobs are made without a look; of more, some are made first.
_JOBS_MAX = 10_000
_LOOKED_AT = 1_000
_LETTERS_MAX = 80


def require_memory_for(made: Workload, runs: int = 1) -> None:
    """Raise ``Exhausted`` if memory cannot hold so many runs of a workload at once."""
    tasks = sum(stage.tasks for job in made.jobs for stage in job.stages)
    _require(made.name, tasks, len(made.jobs), runs)


def require_memory_to_make(text: str, seed: int) -> None:
    """The same for a workload of very many jobs, by what a few of them would take."""
    base, changes = split_changes(text)
    many = whole_number(dict(changes).get("jobs", ""))
    if many is None or many <= _JOBS_MAX:
        return
    others = [f"{key}={value}" for key, value in changes if key != "jobs"]
    try:
        few = workload(",".join([base, *others, f"jobs={_LOOKED_AT}"]), seed)
    except UsageError:
        return  # the whole text gives the error
    tasks = sum(stage.tasks for job in few.jobs for stage in job.stages)
    _require(text, tasks * many // max(1, len(few.jobs)), many, 1)


def _require(name: str, tasks: int, jobs: int, runs: int) -> None:
    need_bytes, has_bytes = runs * tasks * _TASK_BYTES, free_memory_bytes()
    if need_bytes <= has_bytes:
        return
    each = f" in each of {runs} simulations at once" if runs > 1 else ""
    takes = f"{format_number(tasks)} tasks{each} take about {format_size(need_bytes)} of memory"
    less = "a smaller --size" if jobs == 1 else "fewer jobs"
    right = f"need {less}, or larger blocks, such as --network storage.block=4GB"
    raise Exhausted(
        f"{printable(name, _LETTERS_MAX)}: {takes}, "
        f"but this machine has {format_size(has_bytes)} free: {right}"
    )
