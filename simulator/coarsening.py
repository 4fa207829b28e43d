"""Runs that would have too many tasks become coarser by themselves.  Pure.

    coarse = coarsened(workload, topology, behaviour)      # None: it is small enough as it is
    Simulation(config, coarse.workload, coarse.behaviour)

A job of hundreds of waves of maps takes about as long with fewer, larger maps.  How far that is off
is measured by ``scripts/bench simulator.coarse``.

Never here: how a run is coarser; see ``Behaviour``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from railyard.cluster.topology import Topology
from railyard.cluster.units import format_number
from railyard.jobs.workloads.coarse import in_waves
from railyard.jobs.workloads.model import Workload, WorkloadJob, WorkStage
from railyard.simulator.nodes.behaviour import Behaviour

#: With at most so many tasks a run is not made coarser.
TASKS_MAX = 20_000
#: A stage of more waves of maps gets larger ones, if there are more tasks.
WAVES = 400
#: By how much mean times of jobs and of shuffles are then off at most, as shares, in 19 of 20
#: workloads: 95th percentiles of 41 that were drawn, rounded up (docs/decisions/every-flow.md).
OFF = {"jct_s": 0.03, "cct_s": 0.04}

_PROGRESS_S = Behaviour().progress_s


@dataclass(frozen=True, kw_only=True)
class Coarse:
    """A run that was made coarser."""

    workload: Workload
    behaviour: Behaviour
    exact_tasks: int  #: of an exact run
    tasks_in_one: int  #: of the stage of which most are one

    def as_row(self) -> dict[str, Any]:
        """What a summary says of it."""
        return {
            "output_block_bytes": self.behaviour.output_block,
            "progress_s": self.behaviour.progress_s,
            "tasks_in_one": self.tasks_in_one,
            "off": dict(OFF),
        }

    def __str__(self) -> str:
        """One line: what is coarse, why, and how far off such runs were."""
        return (
            f"coarse, as {format_number(self.exact_tasks)} tasks would take long: up to "
            f"{self.tasks_in_one} blocks are one, read and written; of 20 workloads that were "
            f"drawn, 19 were off by at most {OFF['jct_s']:.1%} in mean job times and "
            f"{OFF['cct_s']:.1%} in mean shuffle times (scripts/bench simulator.coarse); "
            "--exact: not coarse"
        )


def coarsened(workload: Workload, topology: Topology, behaviour: Behaviour) -> Coarse | None:
    """What to simulate instead of a run that would have too many tasks; None for others.

    None, too, if the behaviour itself says how coarse the run is to be.  Tasks that take longer
    by chance, or to start and end, are not merged: larger ones would do so less often.
    """
    is_ideal = behaviour.is_certain and behaviour.is_prompt
    if behaviour.is_coarse or not is_ideal or workload.tasks <= TASKS_MAX:
        return None
    larger, tasks_in_one = in_waves(workload, topology.slots, WAVES)
    if tasks_in_one == 1:
        return None
    return Coarse(
        workload=larger,
        behaviour=with_larger_tasks(behaviour, topology, tasks_in_one),
        exact_tasks=workload.tasks,
        tasks_in_one=tasks_in_one,
    )


def with_larger_tasks(behaviour: Behaviour, topology: Topology, tasks_in_one: int) -> Behaviour:
    """The behaviour with output blocks and reports as much larger, and as rare, as tasks are."""
    if tasks_in_one == 1:
        return behaviour
    usual = behaviour.progress_s == _PROGRESS_S
    return msgspec.structs.replace(
        behaviour,
        output_block=max(behaviour.output_block, tasks_in_one * topology.storage.block),
        progress_s=_PROGRESS_S * tasks_in_one if usual else behaviour.progress_s,
    )


def fetches(workload: Workload) -> list[int]:
    """How many fetches each stage that reads others has: each task, each output."""
    return [
        stage.tasks * sum(source.needed or source.tasks for source in _sources(job, stage))
        for job in workload.jobs
        for stage in job.stages
        if stage.reads
    ]


# Inside ------------------------------------------------------------------------------------------
def _sources(job: WorkloadJob, reader: WorkStage) -> list[WorkStage]:
    return [stage for stage in job.stages if stage.name in reader.reads]
