"""Runs that would have too many tasks or flows become coarser by themselves.  Pure.

    coarse = coarsened(workload, topology, behaviour)      # None: it is small enough as it is
    Simulation(config, coarse.workload, coarse.behaviour)

A job of hundreds of waves of maps takes about as long with fewer, larger maps.  A shuffle is a flow
for nearly each pair of an output and a reader, so the flows of a workload grow with the square of
its jobs' sizes, while people ask for means that merged flows give as well.  How far these are off
is measured by ``scripts/bench simulator.coarse``.

Never here: how a run is coarser; see ``Behaviour``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from railyard.cluster.topology import Topology
from railyard.cluster.units import format_duration, format_number, format_size
from railyard.jobs.workloads.coarse import in_waves
from railyard.jobs.workloads.model import Workload, WorkloadJob, WorkStage
from railyard.resourcemanager.core.shuffling.merging import LOOK_AFTER_S, flows_of_each
from railyard.simulator.nodes.behaviour import Behaviour
from railyard.simulator.nodes.jobwork import rate_of

#: With at most so many expected flows a run is not made coarser: it takes a few minutes.
FLOWS_MAX = 5_000_000
#: The same of tasks.
TASKS_MAX = 20_000
#: A stage of more waves of maps gets larger ones, if there are more tasks.
WAVES = 400
#: By which mean times of jobs and of shuffles may then be off, as shares: the time of a single
#: job, which depends on where its reduces happen to go, was off by 7 % (decision 0137).
_WAVES_OFF = {"jct_s": 0.08, "cct_s": 0.02}

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
    Coarseness(shuffle_flows=2000, jct_off=0.07, cct_off=0.1),
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

    workload: Workload
    behaviour: Behaviour
    level: Coarseness | None  #: None: the flows are as many as they are
    exact_flows: int  #: expected of an exact run
    flows: int  #: expected of this one
    exact_tasks: int  #: of an exact run
    tasks_in_one: int = 1  #: of the stage of which most are one

    @property
    def off(self) -> dict[str, float]:
        """Shares by which mean times of jobs and of shuffles may be off."""
        off = dict.fromkeys(_WAVES_OFF, 0.0) if self.tasks_in_one == 1 else dict(_WAVES_OFF)
        if self.level is not None:
            off["jct_s"] += self.level.jct_off
            off["cct_s"] += self.level.cct_off
        return off

    def as_row(self) -> dict[str, Any]:
        """What a summary says of it."""
        behaviour = self.behaviour
        return {
            "shuffle_flows": behaviour.shuffle_flows,
            "output_block_bytes": behaviour.output_block,
            "together_s": behaviour.together_s,
            "progress_s": behaviour.progress_s,
            "exact_flows": self.exact_flows,
            "tasks_in_one": self.tasks_in_one,
            "off": self.off,
        }

    def __str__(self) -> str:
        """One line: what is coarse, why, and how far off that is expected to be."""
        why, how, off = [], [], self.off
        if self.tasks_in_one > 1:
            why.append(f"{format_number(self.exact_tasks)} tasks")
            how.append(f"up to {self.tasks_in_one} blocks are one, read and written")
        if self.level is not None:
            why.append(f"about {self.exact_flows / 1e6:.0f} million flows")
            how += self._merged()
        return (
            f"coarse, as {' and '.join(why)} would take long: {', '.join(how)}; expected to be off "
            f"by at most {off['jct_s']:.0%} in mean job times and {off['cct_s']:.0%} in shuffle "
            "times (--exact: not coarse)"
        )

    def _merged(self) -> Iterator[str]:
        behaviour = self.behaviour
        yield f"larger shuffles are merged to {behaviour.shuffle_flows} flows"
        if behaviour.output_block and self.tasks_in_one == 1:
            yield f"output has blocks of {format_size(behaviour.output_block)}"
        if behaviour.together_s:
            yield f"what ends within {format_duration(behaviour.together_s)} ends at once"


def coarsened(workload: Workload, topology: Topology, behaviour: Behaviour) -> Coarse | None:
    """What to simulate instead of a run that would have too many tasks or flows; None for others.

    None, too, if the behaviour itself says how coarse the run is to be.  Tasks that take longer
    by chance, or to start and end, are not merged: larger ones would do so less often.
    """
    if behaviour.is_coarse:
        return None
    exact_tasks, exact_flows = workload.tasks, expected_flows(workload, topology, behaviour)
    tasks_in_one = 1
    if exact_tasks > TASKS_MAX and behaviour.is_certain and behaviour.takes_rows:
        workload, tasks_in_one = in_waves(workload, topology.slots, WAVES)
    coarse = with_larger_tasks(behaviour, topology, tasks_in_one)
    flows, level = expected_flows(workload, topology, coarse), None
    for level in LEVELS if flows > FLOWS_MAX else ():
        coarse = with_larger_tasks(level.applied_to(behaviour), topology, tasks_in_one)
        flows = expected_flows(workload, topology, coarse)
        if flows <= FLOWS_MAX:
            break
    if level is None and tasks_in_one == 1:
        return None
    return Coarse(
        workload=workload,
        behaviour=coarse,
        level=level,
        exact_flows=exact_flows,
        flows=flows,
        exact_tasks=exact_tasks,
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
