"""The jobs that a request names: a workload of the simulator, or real jobs."""

from __future__ import annotations

from collections.abc import Sequence

from railyard.cluster.errors import UsageError
from railyard.cluster.topology import Topology
from railyard.jobs.mixes.mixes import MIX, Defaults, read_mix
from railyard.jobs.samples.catalog import CATALOG
from railyard.jobs.workloads.catalog import FAMILIES, unknown_workload, workload
from railyard.jobs.workloads.model import Workload
from railyard.scripts.clusters.request import JobsRequest
from railyard.scripts.running.fetched import fetched_inputs
from railyard.scripts.running.room import require_room_to_measure
from railyard.scripts.running.trial import planned
from railyard.scripts.simulating.room import require_memory_to_make


def is_simulators(word: str) -> bool:
    """Whether it is a workload that only the simulator has, such as "corral-w1,jobs=20"."""
    return _name(word) in FAMILIES


def require_known(word: str) -> None:
    """Raise ``UsageError``, with the nearest right name, for what is neither."""
    name = _name(word)
    if name.endswith((".py", ".toml")) or name in (MIX, *CATALOG, *FAMILIES):
        return
    raise unknown_workload(name, [MIX, *CATALOG, *FAMILIES])


def require_no_sizes(request: JobsRequest, word: str) -> None:
    """Raise ``UsageError`` for sizes that a workload of the simulator's has itself."""
    given = {
        "--size": request.size_bytes,
        "--reduces": request.reduces,
        "--input": request.inputs or None,
    }
    for option, value in given.items():
        if value is not None:
            raise UsageError(f"{option}: {word} says that itself: need none")


def simulators_workload(word: str, topology: Topology, seed: int) -> Workload:
    """A workload of the simulator's; raises ``UsageError`` if it needs more racks."""
    racks = topology.racks.count
    require_memory_to_make(word, seed)
    made = workload(word, seed, racks)
    if made.sites > racks:
        right = f"at least the {made.sites} sites of {made.name}"
        raise UsageError(f"topology {topology.name} has {racks} racks: need {right}")
    return made


def measured_jobs(
    words: Sequence[str], defaults: Defaults, topology: Topology, seed: int
) -> Workload:
    """Real jobs, which are run here, in this process, to measure their sizes."""
    from railyard.jobs.mixes.measured import measured_workload

    with fetched_inputs() as localized:
        mix = localized(read_mix(words, defaults, seed))
        require_room_to_measure(mix, topology)
        planned(mix, topology, seed)
        return measured_workload(mix, topology, seed)


def _name(word: str) -> str:
    return word.partition(",")[0].partition(":")[0]
