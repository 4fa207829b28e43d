"""Whether disk and memory have room for what is asked for, before anything is made or started.

It is easy to ask for thousands of slots, each with a process.  Figures of processes are those of
TeraSort on hybrid-8x4 (proportional set sizes: what processes share counts once).  Input, shuffle
and output are counted in real bytes, with all their replicas; what a job makes of its input is not
known before, and is taken to be as much as the input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.cluster.errors import UsageError, printable
from railyard.cluster.machine import Exhausted, free_bytes, free_memory_bytes
from railyard.cluster.runfolder import RunFolder
from railyard.cluster.topology import Topology
from railyard.cluster.topologyfile import split_changes
from railyard.cluster.units import format_count, format_number, format_size, whole_number
from railyard.runs.home import home

if TYPE_CHECKING:
    from railyard.jobs.workloads.mixes import Mix, MixJob
    from railyard.jobs.workloads.model import Workload

#: ResourceManager, NameNode, network emulator and supervisor: 37 MiB.
_CENTRAL_BYTES = 40 * 10**6
#: NodeManager, DataNode, helper and a job's helper: 23 MiB.
_RACK_BYTES = 25 * 10**6
#: An attempt, 9.3 MiB, without its input.
_ATTEMPT_BYTES = 10 * 10**6
#: On the disk, for logs, journal, and whoever else uses it.
_RESERVE_BYTES = 8 * 10**6
#: What a job that is measured takes of memory for a byte of input: that, shuffle and output.
_MEASURED_TIMES = 3
#: Of a simulated task: itself, its block, its attempts, and what is remembered of them.  Measured:
#: 4.2 kB of TeraSort with 4 to 16 thousand maps, 3.7 kB of 100 jobs of corral-w1 (55 thousand).
_TASK_BYTES = 6_000
#: So many jobs are made without a check; of more, a few are made first.
_JOBS_MAX = 10_000
_FEW_JOBS = 1_000
_LETTERS_MAX = 80


# Memory ------------------------------------------------------------------------------------------
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
    daemons_bytes = 0 if up else _CENTRAL_BYTES + topology.racks.count * _RACK_BYTES
    each_bytes = _ATTEMPT_BYTES + topology.stored_block_bytes  # an attempt holds its block
    processes = f"{format_count(attempts, 'attempt')} at once"
    if up is None:
        processes += f" and the daemons of {format_count(topology.racks.count, 'rack')}"
    fit = max(0, free_memory_bytes() - daemons_bytes) // each_bytes
    right = f"at most {fit} at once: a smaller --size, fewer --reduces"
    slots = fit // len(topology.nodes())
    if not fit and up is None:
        right = "fewer racks, such as --network racks.count=4, or railyard simulate"
    elif slots and up is None and not reserves:
        right += f", or --network racks.slots={slots}"
    _require_memory(what, f"{processes} take", daemons_bytes + attempts * each_bytes, right)


def require_room_to_measure(mix: Mix, topology: Topology) -> None:
    """Raise ``Exhausted`` if the memory cannot hold the jobs' files while they are measured."""
    need_bytes = _MEASURED_TIMES * sum(_input_bytes(job, topology) for job in mix.jobs)
    has_bytes = free_memory_bytes()
    if need_bytes > has_bytes:
        takes = f"to measure its jobs in memory takes about {format_size(need_bytes)}"
        right = "need smaller sizes, or a workload that railyard workloads lists"
        what = printable(mix.name, _LETTERS_MAX)
        raise Exhausted(f"{what}: {takes}, but there is {format_size(has_bytes)} free: {right}")


def require_memory_for(made: Workload, runs: int = 1) -> None:
    """Raise ``Exhausted`` if memory cannot hold so many simulations of a workload at once."""
    _require_for_tasks(made.name, _tasks(made), len(made.jobs), runs)


def require_memory_to_make(text: str, seed: int) -> None:
    """The same for a workload of very many jobs, by what a few of them would take."""
    from railyard.jobs.workloads.catalog import workload

    base, changes = split_changes(text)
    many = whole_number(dict(changes).get("jobs", ""))
    if many is None or many <= _JOBS_MAX:
        return
    others = [f"{key}={value}" for key, value in changes if key != "jobs"]
    try:
        few = workload(",".join([base, *others, f"jobs={_FEW_JOBS}"]), seed)
    except UsageError:
        return  # the whole text gives the error
    _require_for_tasks(text, _tasks(few) * many // max(1, len(few.jobs)), many, 1)


def _tasks(made: Workload) -> int:
    return sum(stage.tasks for job in made.jobs for stage in job.stages)


def _require_for_tasks(name: str, tasks: int, jobs: int, runs: int) -> None:
    each = f" in each of {runs} simulations at once" if runs > 1 else ""
    less = "a smaller --size" if jobs == 1 else "fewer jobs"
    right = f"{less}, or larger blocks, such as --network storage.block=4GB"
    takes = f"{format_number(tasks)} tasks{each} take"
    _require_memory(name, takes, runs * tasks * _TASK_BYTES, right)


def _require_memory(what: str, takes: str, need_bytes: int, right: str) -> None:
    has_bytes = free_memory_bytes()
    if need_bytes > has_bytes:
        raise Exhausted(
            f"{printable(what, _LETTERS_MAX)}: {takes} about {format_size(need_bytes)} of memory, "
            f"but this machine has {format_size(has_bytes)} free: need {right}"
        )


# Disk --------------------------------------------------------------------------------------------
def require_room(
    up: RunFolder | None, topology: Topology, what: str, input_bytes: int, read_bytes: int
) -> None:
    """Raise ``UsageError`` if a cluster's disk cannot hold the jobs that were asked for.

    ``input_bytes`` are put into the block store first, ``read_bytes`` are what the jobs read: more
    where they share an input.  Both are stored bytes.
    """
    need_bytes = needed_bytes(topology, input_bytes, read_bytes)
    parts = f"input and output, each with {_copies(topology)} copies, and the shuffle"
    takes = f"takes about {format_size(need_bytes)} of real bytes ({parts})"
    right = "need a smaller size, or RAILYARD_HOME on a larger disk"
    _require_disk(up, printable(what, _LETTERS_MAX), takes, need_bytes, right)


def require_room_for_file(
    up: RunFolder, topology: Topology, what: str, size_bytes: int, replication: int = 0
) -> None:
    """Raise ``UsageError`` if a cluster's disk cannot hold a file of so many stored bytes."""
    copies = min(replication, len(topology.nodes())) or _copies(topology)
    need_bytes = copies * size_bytes + _RESERVE_BYTES
    takes = f"{format_size(size_bytes)} with {copies} copies take {format_size(need_bytes)}"
    right = "need a smaller file, --replication 1, or RAILYARD_HOME on a larger disk"
    _require_disk(up, what, takes, need_bytes, right)


def require_room_for_mix(
    up: RunFolder | None, mix: Mix, topology: Topology, *, reserves: bool = False
) -> None:
    """Raise if disk or memory cannot hold several jobs; inputs that are equal are made once."""
    from railyard.jobs.samples.catalog import find

    for name in dict.fromkeys(job.job for job in mix.jobs):
        find(name)  # a wrong name is reported first
    sized = [(job, _input_bytes(job, topology)) for job in mix.jobs]
    shared = {(job.inputs or job.job, size): size for job, size in sized if not job.own_input}
    own = sum(size for job, size in sized if job.own_input)
    read_bytes = sum(size for _, size in sized)
    require_room(up, topology, mix.name, sum(shared.values()) + own, read_bytes)
    tasks = 0
    for job, size in sized:
        blocks = -(-size // topology.stored_block_bytes)
        tasks += blocks + (job.reduces or blocks // 2)
    require_memory(topology, mix.name, tasks, up, reserves=reserves)


def needed_bytes(topology: Topology, input_bytes: int, read_bytes: int) -> int:
    """Estimate of the bytes that jobs take on the disk, reserve included."""
    shuffle_bytes = output_bytes = read_bytes
    return _copies(topology) * (input_bytes + output_bytes) + shuffle_bytes + _RESERVE_BYTES


def _copies(topology: Topology) -> int:
    return min(topology.storage.replication, len(topology.nodes()))


def _input_bytes(job: MixJob, topology: Topology) -> int:
    """Stored bytes of a job's input that is generated or copied."""
    from railyard.jobs.inputs import read_inputs

    if job.inputs:
        return sum(read_inputs(job.inputs, "/").sizes)
    return job.size_bytes // topology.scale


def _require_disk(up: RunFolder | None, what: str, takes: str, need_bytes: int, right: str) -> None:
    folder = home() if up is None else up.path
    has_bytes = free_bytes(folder)
    if need_bytes > has_bytes:
        has = f"but {folder} has {format_size(has_bytes)} free"
        raise UsageError(f"{what}: {takes}, {has}: {right}")
