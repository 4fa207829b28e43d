"""The jobs that a request names: a workload of the simulator, or real jobs, planned or measured.

Users' modules are imported in a process of its own first: a module may end the process that imports
it (``os._exit``, a crash of a C library), and the command still reports it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from railyard.cluster.errors import UsageError
from railyard.cluster.processes import fork, how_it_ended
from railyard.cluster.topology import Topology
from railyard.jobs.samples.catalog import CATALOG
from railyard.jobs.workloads.catalog import FAMILIES, unknown_workload, workload
from railyard.jobs.workloads.mixes import (
    MIX,
    Defaults,
    Mix,
    Planned,
    StoredFiles,
    plan_mix,
    read_mix,
    user_files,
)
from railyard.jobs.workloads.model import Workload
from railyard.runs.files import fetched_inputs
from railyard.runs.requests import RunRequest
from railyard.runs.room import require_memory_to_make, require_room_to_measure

T = TypeVar("T")
_SURVIVED = b"."


def survived(files: Iterable[str], plan: Callable[[], T]) -> T:
    """What ``plan`` returns, which imports these users' files, if there are any.

    Raises ``UsageError`` if the process ends; other exceptions are raised as they are.
    """
    if names := ", ".join(files):
        _require_survivable(plan, names)
    return plan()


def planned(
    mix: Mix, topology: Topology, seed: int, folder: str = "/", store: StoredFiles | None = None
) -> tuple[Planned, ...]:
    """A plan for each job of a mix; raises ``UsageError`` as ``survived`` does."""
    files = user_files(job.job for job in mix.jobs)
    return survived(files, partial(plan_mix, mix, topology, seed, folder, store))


def _require_survivable(plan: Callable[[], object], names: str) -> None:
    readable, writable = os.pipe()

    def child() -> None:
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):  # the run that counts prints the same
            os.dup2(nothing, descriptor)
        sys.stdout = sys.stderr = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        try:
            plan()
        finally:
            os.write(writable, _SURVIVED)

    pid = fork(child)
    os.close(writable)
    with open(readable, "rb") as pipe:
        is_alive = pipe.read(1) == _SURVIVED
    _, status = os.waitpid(pid, 0)
    if not is_alive:
        how = how_it_ended(status)
        right = "a module that can be imported"
        raise UsageError(f"{names}: ends the process that imports it ({how}): need {right}")


def is_simulators(word: str) -> bool:
    """Whether it is a workload that only the simulator has, such as "corral-w1,jobs=20"."""
    return _name(word) in FAMILIES


def require_known(word: str) -> None:
    """Raise ``UsageError``, with the nearest right name, for what is neither."""
    name = _name(word)
    if name.endswith((".py", ".toml")) or name in (MIX, *CATALOG, *FAMILIES):
        return
    raise unknown_workload(name, [MIX, *CATALOG, *FAMILIES])


def require_no_sizes(request: RunRequest, word: str) -> None:
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
    from railyard.jobs.workloads.measurement import measured_workload

    with fetched_inputs() as localized:
        mix = localized(read_mix(words, defaults, seed))
        require_room_to_measure(mix, topology)
        planned(mix, topology, seed)
        return measured_workload(mix, topology, seed)


def _name(word: str) -> str:
    return word.partition(",")[0].partition(":")[0]
