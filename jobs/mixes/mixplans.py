"""The plan of each job of a mix: the steps to run, on a real cluster or in the simulator."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from railyard.cluster.errors import UsageError
from railyard.cluster.topology import Topology
from railyard.jobs.mixes.given import STORE_PREFIX, Inputs, check_given, expanded, read_inputs
from railyard.jobs.mixes.mixes import Mix, MixJob
from railyard.jobs.samples.catalog import find
from railyard.jobs.samples.sample import Plan, Request, Step, default_reduces
from railyard.jobs.taskio import BadInput


class StoredFiles(Protocol):
    """The block store of the cluster that is up."""

    def blocks(self, path: str) -> int:
        """Number of blocks of a file or folder; ``UsageError`` if there is none."""

    def matching(self, pattern: str) -> Sequence[str]:
        """The paths of what matches a pattern, in order."""


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A job of a mix with its plan."""

    job: MixJob
    plan: Plan
    given: Inputs = field(default_factory=Inputs)  #: the user's files that it reads
    stored_bytes: int = 0  #: of its input, if that is to be generated or copied

    def steps(self) -> list[tuple[str, Step]]:
        """The steps of the job and the names that they run under, the first under the job's own."""
        own = self.job.name
        return [
            (own if number == 1 else f"{own}.{number}", step)
            for number, step in enumerate(self.plan.measured, start=1)
        ]


def plan_mix(
    mix: Mix, topology: Topology, seed: int, folder: str, store: StoredFiles | None = None
) -> tuple[Planned, ...]:
    """A plan for each job, with files below ``folder``; equal inputs are generated or copied once.

    ``store``: that of the cluster that is up; None if none is.  Raises ``UsageError`` with the
    job's name if its options are wrong, ``InputError`` for files that can't be read.
    """
    return tuple(_plan(job, topology, seed, folder, store) for job in mix.jobs)


def blocks_to_read(
    given: Inputs, stored_bytes: int, topology: Topology, store: StoredFiles | None
) -> int:
    """Number of blocks that a job reads: of given files, or of ``stored_bytes`` to be generated."""
    if given.stored and store is None:
        right = "railyard up starts one"
        raise UsageError(f"input {STORE_PREFIX}{given.stored[0]}: no cluster is up: {right}")
    stored = sum(map(store.blocks, given.stored)) if store is not None else 0
    sizes = given.sizes or ([] if given.stored else [stored_bytes])
    return stored + sum(-(-size // topology.stored_block_bytes) for size in sizes)


def _plan(
    job: MixJob, topology: Topology, seed: int, folder: str, store: StoredFiles | None
) -> Planned:
    try:
        own = f"{folder}/{job.name}"
        shared = f"{folder}/inputs"
        texts = expanded(job.inputs, None if store is None else store.matching)
        given = read_inputs(
            texts, f"{own}/input" if job.own_input else f"{shared}/{_digest(texts)}"
        )
        sizes = given.sizes
        stored_bytes = sum(sizes) if job.inputs else topology.stored_size(job.size_bytes)
        blocks = blocks_to_read(given, stored_bytes, topology, store)
        # Jobs of a mix share the cluster: a reduce for two blocks.
        reduces = job.reduces or default_reduces(topology, blocks // 2)
        plan = find(job.job).plan(
            Request(
                folder=own,
                input=given.path,
                inputs=given.named,
                shared="" if job.own_input else shared,
                stored_bytes=stored_bytes,
                parts=-(-stored_bytes // topology.stored_block_bytes),
                reduces=reduces,
                seed=seed,
                params=job.params,
                skew=job.skew,
                racks=topology.racks.count,
            )
        )
        check_given(job.job, given, plan, sizes)
    except (UsageError, BadInput) as error:
        raise UsageError(f"{job.name}: {error}") from None
    if job.skew is not None and not any(step.shares for step in plan.steps):
        raise UsageError(f"{job.name}: skew: it generates no input: need a job that does")
    return Planned(job=job, plan=plan, given=given, stored_bytes=stored_bytes)


def _digest(inputs: tuple[str, ...]) -> str:
    """A name for the folder of these inputs."""
    return f"given-{zlib.crc32(repr(inputs).encode('utf-8', 'surrogateescape')):08x}"
