"""Runs that would have too many flows become coarser by themselves.  Pure.

    coarse = coarsened(workload, topology, behaviour)      # None: it is small enough as it is
    Simulation(config, workload, coarse.behaviour)

A shuffle is a flow for nearly each pair of an output and a reader, so the flows of a workload grow
with the square of its jobs' sizes, while people ask for means that merged flows give as well.  How
far these are off is measured by ``scripts/bench simulator.coarse``.

Never here: how a run is coarser; see ``Behaviour``.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from railyard.cluster.topology import Topology
from railyard.cluster.units import format_duration, format_size
from railyard.jobs.workloads.model import Workload, WorkloadJob, WorkStage
from railyard.resourcemanager.core.shuffling.merging import LOOK_AFTER_S, flows_of_each
from railyard.simulator.nodes.behaviour import Behaviour
from railyard.simulator.nodes.jobwork import rate_of

#: With at most so many expected flows a run is not made coarser: it takes a few minutes.
FLOWS_MAX = 5_000_000


_PROGRESS_S = Behaviour().progress_s


@dataclass(frozen=True, kw_only=True)
class Coarseness:
    """Settings of ``Behaviour``, and how far off mean times were with them."""

    shuffle_flows: int
    output_block: int = 0
    together_s: float = 0.0
    progress_s: float = _PROGRESS_S
    #: by which mean times of jobs and of shuffles may be off, as shares of the exact ones: bounds
    #: of ``scripts/bench simulator.coarse``
    jct_off: float
    cct_off: float

    @property
    def settings(self) -> dict[str, float]:
        """The settings by name."""
        return {name: value for name, value in asdict(self).items() if not name.endswith("_off")}

    def applied_to(self, behaviour: Behaviour) -> Behaviour:
        """The behaviour, as coarse as this; another ``progress_s`` than the usual stays."""
        coarse = msgspec.structs.replace(behaviour, **self.settings)
        if behaviour.progress_s == _PROGRESS_S:
            return coarse
        return msgspec.structs.replace(coarse, progress_s=behaviour.progress_s)


#: From the least coarse on; the first with which a run has few enough flows is taken, or the last.
#: With ``together_s=0.5`` shuffles were 15 % too short, and no run was quicker.
LEVELS = (
    Coarseness(shuffle_flows=2000, jct_off=0.03, cct_off=0.1),
    Coarseness(
        shuffle_flows=500,
        output_block=2_000_000_000,
        together_s=0.1,
        progress_s=5.0,
        jct_off=0.08,
        cct_off=0.15,
    ),
)


@dataclass(frozen=True, kw_only=True)
class Coarse:
    """A run that was made coarser."""

    behaviour: Behaviour
    level: Coarseness
    exact_flows: int  #: expected of an exact run
    flows: int  #: expected of this one

    def as_row(self) -> dict[str, Any]:
        """What a summary says of it."""
        behaviour = self.behaviour
        return {
            "shuffle_flows": behaviour.shuffle_flows,
            "output_block_bytes": behaviour.output_block,
            "together_s": behaviour.together_s,
            "progress_s": behaviour.progress_s,
            "exact_flows": self.exact_flows,
            "off": {"jct_s": self.level.jct_off, "cct_s": self.level.cct_off},
        }

    def __str__(self) -> str:
        """One line: what is coarse, why, and how far off that is expected to be."""
        behaviour = self.behaviour
        how = [f"larger shuffles are merged to {behaviour.shuffle_flows} flows"]
        if behaviour.output_block:
            how.append(f"output has blocks of {format_size(behaviour.output_block)}")
        if behaviour.together_s:
            how.append(f"what ends within {format_duration(behaviour.together_s)} ends at once")
        level = self.level
        return (
            f"coarse, as about {self.exact_flows / 1e6:.0f} million flows would take long: "
            f"{', '.join(how)}; expected to be off by at most {level.jct_off:.0%} in mean job "
            f"times and {level.cct_off:.0%} in shuffle times (--exact: not coarse)"
        )


def coarsened(workload: Workload, topology: Topology, behaviour: Behaviour) -> Coarse | None:
    """A coarser behaviour for a run that would have too many flows; None for others.

    None, too, if the behaviour itself says how coarse the run is to be.
    """
    if behaviour.is_coarse:
        return None
    exact_flows = expected_flows(workload, topology, behaviour)
    if exact_flows <= FLOWS_MAX:
        return None
    for level in LEVELS:
        coarse = level.applied_to(behaviour)
        flows = expected_flows(workload, topology, coarse)
        if flows <= FLOWS_MAX:
            break
    return Coarse(behaviour=coarse, level=level, exact_flows=exact_flows, flows=flows)


def expected_flows(workload: Workload, topology: Topology, behaviour: Behaviour) -> int:
    """About how many flows a run has: reads of blocks, fetches, and writes.

    An upper bound but for what fails: nothing is beside those who read it, each output is fetched
    by itself, and a reader of a merged shuffle looks once a second while the outputs are made.
    """
    return sum(
        _reads(job)
        + sum(_fetches(job, stage, topology, behaviour) for stage in job.stages if stage.reads)
        + _writes(job, topology, behaviour)
        for job in workload.jobs
    )


def mean_fetches(workload: Workload) -> float:
    """How many fetches a stage that reads others has, on average: each task, each output."""
    many = [
        stage.tasks * sum(source.needed or source.tasks for source in _sources(job, stage))
        for job in workload.jobs
        for stage in job.stages
        if stage.reads
    ]
    return sum(many) / max(1, len(many))


# Inside ------------------------------------------------------------------------------------------
def _sources(job: WorkloadJob, reader: WorkStage) -> list[WorkStage]:
    return [stage for stage in job.stages if stage.name in reader.reads]


def _reads(job: WorkloadJob) -> int:
    blocks = {file.path: file.blocks for file in job.files}
    return sum(blocks[path] for stage in job.stages for path in stage.files)


def _fetches(job: WorkloadJob, reader: WorkStage, topology: Topology, behaviour: Behaviour) -> int:
    sources = _sources(job, reader)
    outputs = sum(source.needed or source.tasks for source in sources)
    merged = flows_of_each(reader.tasks, outputs, behaviour.shuffle_flows)
    if merged is None:
        return reader.tasks * outputs
    looks = 1 + sum(_seconds(job, source, topology) for source in sources) / LOOK_AFTER_S
    return round(reader.tasks * min(outputs, merged * looks))


def _seconds(job: WorkloadJob, stage: WorkStage, topology: Topology) -> float:
    """For how long a stage makes output, with all slots and all its input in place."""
    rate = rate_of(stage, topology.compute)
    task_s = stage.task_s + job.stage_input_bytes()[stage.name] / stage.tasks / rate
    return task_s * -(-stage.tasks // topology.slots)


def _writes(job: WorkloadJob, topology: Topology, behaviour: Behaviour) -> int:
    block_bytes = max(topology.storage.block, behaviour.output_block)
    replicas = job.output_replication or topology.storage.replication
    read = {name for stage in job.stages for name in stage.reads}
    return sum(
        stage.tasks * -(-stage.output_bytes // (stage.tasks * block_bytes)) * (replicas - 1)
        for stage in job.stages
        if stage.name not in read
    )
