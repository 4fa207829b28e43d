"""The plan of each job of a mix: the steps to run, on a real cluster or in the simulator."""

from __future__ import annotations

from dataclasses import dataclass

from railyard.cluster.errors import UsageError
from railyard.cluster.topology import Topology
from railyard.jobs.mixes.mixes import Mix, MixJob
from railyard.jobs.samples.catalog import find
from railyard.jobs.samples.sample import Plan, Request, Step, default_reduces


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A job of a mix with its plan."""

    job: MixJob
    plan: Plan

    def steps(self) -> list[tuple[str, Step]]:
        """The steps of the job and the names that they run under, the first under the job's own."""
        own = self.job.name
        return [
            (own if number == 1 else f"{own}.{number}", step)
            for number, step in enumerate(self.plan.measured, start=1)
        ]


def plan_mix(mix: Mix, topology: Topology, seed: int, folder: str) -> tuple[Planned, ...]:
    """A plan for each job, with files below ``folder``; equal inputs are generated once.

    Raises ``UsageError`` with the job's name if its options are wrong.
    """
    return tuple(Planned(job=job, plan=_plan(job, topology, seed, folder)) for job in mix.jobs)


def _plan(job: MixJob, topology: Topology, seed: int, folder: str) -> Plan:
    try:
        stored_bytes = topology.stored_size(job.size_bytes)
        parts = -(-stored_bytes // topology.stored_block_bytes)
        # Jobs of a mix share the cluster: a reduce for two blocks.
        reduces = job.reduces or default_reduces(topology, parts // 2)
        plan = find(job.job).plan(
            Request(
                folder=f"{folder}/{job.name}",
                shared="" if job.own_input else f"{folder}/inputs",
                stored_bytes=stored_bytes,
                parts=parts,
                reduces=reduces,
                seed=seed,
                params=job.params,
                skew=job.skew,
                racks=topology.racks.count,
            )
        )
    except UsageError as error:
        raise UsageError(f"{job.name}: {error}") from None
    if plan.needs_input:
        raise UsageError(f"{job.name}: reads input: run it alone, with --input FILE")
    if job.skew is not None and not any(step.shares for step in plan.steps):
        raise UsageError(f"{job.name}: skew: it generates no input: need a job that does")
    return plan
