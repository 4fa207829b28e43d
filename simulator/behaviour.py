"""How long simulated tasks take: their work, and how nodes differ from ideal ones.

An attempt's deviation is drawn from the seed and the attempt's name alone.  So the same task is
equally slow under every scheduler, and a comparison shows the schedulers' differences only.

Runs that would have too many tasks become coarser by themselves:

    coarse = coarsened(workload, topology, behaviour)      # None: it is small enough as it is
    Simulation(config, coarse.workload, coarse.behaviour)

A job of hundreds of waves of maps takes about as long with fewer, larger maps.  How far that is off
is measured by ``scripts/bench simulator.coarse``.
"""

from __future__ import annotations

import math
import random
import zlib
from dataclasses import dataclass
from typing import Any

import msgspec

from railyard.cluster.errors import require
from railyard.cluster.ids import AttemptId
from railyard.cluster.inputfile import Duration, Size
from railyard.cluster.topology import Topology
from railyard.cluster.topologyfile import Compute
from railyard.cluster.units import format_number
from railyard.dfs.messages import BlockId
from railyard.jobs.workloads.model import Workload, WorkloadJob, WorkStage, in_waves, split_by


class Behaviour(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the simulated nodes; by default they are ideal.  Shares are from 0 to 1."""

    #: sigma of the lognormal distribution with mean 1 that multiplies the computing times
    variance: float = 0.0
    stragglers: float = 0.0  #: share of attempts that compute ``straggler_factor`` times as long
    straggler_factor: float = 5.0  #: by which their computing is longer
    failures: float = 0.0  #: share of attempts that fail, at a random point of their computing
    launch_s: Duration = 0.0  #: from the command to launch an attempt until it can read
    fetch_s: Duration = 0.0  #: from the last byte of a fetch or block until its end is reported
    end_s: Duration = 0.0  #: from the end of an attempt's work until the core learns of it
    #: seconds between progress reports, as of a NodeManager; 0 = attempts report only their end
    progress_s: Duration = 0.5
    #: attempts write their files in blocks of at least this many bytes; an approximation
    output_block: Size = 0
    #: flows that would end within this time after another end with it, and the ends of computing
    #: are rounded to multiples of it; an approximation too
    together_s: Duration = 0.0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value, right, holds = getattr(self, name), "a number >= 0", True
            if name in ("stragglers", "failures"):
                right, holds = "a share in [0, 1]", value <= 1
            elif name == "straggler_factor":
                right, holds = "a number >= 1", value >= 1
            require(holds and 0 <= value < math.inf, f"behaviour.{name}", value, right)

    def without_effect(self) -> dict[str, str]:
        """{key that the values of others switch off: what it needs}"""
        if not self.stragglers:
            return {"straggler_factor": "stragglers above 0"}
        return {} if self.straggler_factor > 1 else {"stragglers": "straggler_factor above 1"}

    @property
    def is_certain(self) -> bool:
        """Whether all attempts run without a random deviation."""
        return not (self.variance or self.stragglers or self.failures)

    @property
    def is_prompt(self) -> bool:
        """Whether attempts and fetches have no latencies."""
        return not (self.launch_s or self.fetch_s)

    @property
    def is_coarse(self) -> bool:
        """Whether blocks or ends are merged, which is an approximation."""
        return bool(self.output_block or self.together_s)


class Deviation(msgspec.Struct, frozen=True):
    """How one attempt deviates from the ideal."""

    stretch: float = 1.0  #: factor of its computing time
    fails_at: float | None = None  #: share of its computing after which it fails; None = never


NO_DEVIATION = Deviation()


def draw_deviation(attempt: AttemptId, behaviour: Behaviour, seed: int) -> Deviation:
    """The deviation of an attempt, drawn from the seed and its name."""
    if behaviour.is_certain:
        return NO_DEVIATION
    dice = random.Random(zlib.crc32(f"{seed} {attempt}".encode()))
    spread, straggles, fails, when = (dice.gauss(), dice.random(), dice.random(), dice.random())
    sigma = behaviour.variance
    stretch = math.exp(sigma * spread - sigma * sigma / 2)
    if straggles < behaviour.stragglers:
        stretch *= behaviour.straggler_factor
    return Deviation(stretch, when if fails < behaviour.failures else None)


# Coarser runs ------------------------------------------------------------------------------------
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
        """Its part of a summary."""
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

    None, too, if the behaviour itself sets how coarse the run is to be.  Tasks that take longer
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
        stage.tasks * sum(s.needed or s.tasks for s in job.stages if s.name in stage.reads)
        for job in workload.jobs
        for stage in job.stages
        if stage.reads
    ]


# Work --------------------------------------------------------------------------------------------
class StageWork:
    """The work of one stage's tasks.  All sizes are in the model's bytes."""

    def __init__(
        self,
        stage: WorkStage,
        reader: WorkStage | None,
        blocks: tuple[tuple[BlockId, int], ...],
        compute: Compute,
    ) -> None:
        self.reads = stage.reads
        self.task_s = stage.task_s
        self.rate_bytes_per_s = rate_of(stage, compute)
        self.blocks = blocks  #: each task's (block, bytes), if the stage reads files
        self._stretch = compute.stretch if compute.skew else None
        self._straggle = compute.straggle if compute.stragglers else None
        self._reader = reader  #: the first stage that fetches its output, if any
        shares = [size_bytes for _, size_bytes in blocks] if blocks else stage.weights
        #: each task's output: for readers to fetch, or written to a file
        self.output_bytes = (
            split_by(stage.output_bytes, shares) if shares else stage.parts(stage.output_bytes)
        )
        self._partitions: dict[int, tuple[int, ...]] = {}

    def computing_s(self, task: int, input_bytes: int) -> float:
        """Seconds for which a task computes over its input on an ideal node."""
        even_s = self.task_s + input_bytes / self.rate_bytes_per_s
        return even_s * self._stretch(task) if self._stretch else even_s

    def straggle(self, attempt: AttemptId, seed: int) -> float:
        """The factor of an attempt's computing time, see ``Compute.straggle``."""
        return self._straggle(attempt, seed) if self._straggle else 1.0

    def partition_bytes(self, task: int) -> tuple[int, ...]:
        """Bytes of a task's output for each reading task; equal outputs share a tuple."""
        if self._reader is None:
            return ()
        size_bytes = self.output_bytes[task]
        parts = self._partitions.get(size_bytes)
        if parts is None:
            parts = self._partitions[size_bytes] = tuple(self._reader.parts(size_bytes))
        return parts


def job_work(
    job: WorkloadJob, topology: Topology, blocks: dict[str, list[tuple[BlockId, int]]]
) -> dict[str, StageWork]:
    """The work of a job's stages, by their names; ``blocks``: {input file: its (block, bytes)}."""
    readers = {name: stage for stage in reversed(job.stages) for name in stage.reads}
    return {
        stage.name: StageWork(
            stage,
            readers.get(stage.name),
            tuple(block for path in stage.files for block in blocks[path]),
            topology.compute,
        )
        for stage in job.stages
    }


def rate_of(stage: WorkStage, compute: Compute) -> float:
    """Bytes/s at which a task computes: the stage's own rate, or the topology's."""
    if stage.rate_bytes_per_s is not None:
        return stage.rate_bytes_per_s
    if compute.mode == "real":
        return math.inf
    return compute.reduce_rate if stage.reads else compute.map_rate
