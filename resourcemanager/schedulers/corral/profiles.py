"""Job profiles: the sizes, numbers of tasks and rates that the planner knows before a job comes.

Source: Corral, section 4.3: a MapReduce job is <D^I, D^S, D^O, N^M, N^R> with the rates B_M and B_R
of earlier runs; each stage of a DAG is modelled as such a job.  All bytes are the model's.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from railyard.cluster.errors import UsageError, require
from railyard.cluster.topologies.tables import Compute
from railyard.jobs.workloads.model import WorkloadJob
from railyard.resourcemanager.interface.estimates import predicted_rate
from railyard.resourcemanager.interface.forecast import (
    PredictedJob,
    StageForecast,
    predicted_jobs,
)


class StageProfile(msgspec.Struct, frozen=True, kw_only=True):
    """A stage as a MapReduce job; without reduces it is maps only, and the other way round."""

    name: str = "mapreduce"
    reads: tuple[str, ...] = ()  #: the stages before it
    input_bytes: float = 0.0  #: D^I, read from the block store
    shuffle_bytes: float = 0.0  #: D^S, fetched by the reduces
    output_bytes: float = 0.0  #: D^O, written by the reduces
    maps: int = 0  #: N^M
    reduces: int = 0  #: N^R
    map_rate_bytes_per_s: float = 1.0  #: B_M, of a task's input
    reduce_rate_bytes_per_s: float = 1.0  #: B_R, of a task's output
    #: seconds of a task that do not depend on its bytes; not in the paper, where they are 0
    map_s: float = 0.0
    reduce_s: float = 0.0

    def __post_init__(self) -> None:
        for field in ("input_bytes", "shuffle_bytes", "output_bytes", "maps", "reduces"):
            require(getattr(self, field) >= 0, field, getattr(self, field), "a number >= 0")
        for field in ("map_rate_bytes_per_s", "reduce_rate_bytes_per_s"):
            require(getattr(self, field) > 0, field, getattr(self, field), "a rate above 0")
        for field in ("map_s", "reduce_s"):
            require(getattr(self, field) >= 0, field, getattr(self, field), "seconds >= 0")


class JobProfile(msgspec.Struct, frozen=True, kw_only=True):
    """A job to come: when it arrives, and its stages."""

    name: str
    arrive_s: float = 0.0  #: A_j
    stages: tuple[StageProfile, ...]  #: each after those that it reads

    def __post_init__(self) -> None:
        require(self.arrive_s >= 0, f"job {self.name}: arrive_s", self.arrive_s, "seconds >= 0")
        known: set[str] = set()
        for stage in self.stages:
            for read in stage.reads:
                if read not in known:
                    text = f"job {self.name}: stage {stage.name} reads {read}"
                    raise UsageError(f"{text}: need a stage listed before it")
            known.add(stage.name)

    @property
    def input_bytes(self) -> float:
        """D^I of the job: the bytes that it reads from the block store."""
        return sum(stage.input_bytes for stage in self.stages)


def predicted_profiles(jobs: Sequence[WorkloadJob], compute: Compute) -> list[JobProfile]:
    """The profiles of a workload's jobs as predicted; ad hoc ones have none."""
    return [predicted_profile(job, compute, 0.0) for job in predicted_jobs(jobs)]


def predicted_profile(job: PredictedJob, compute: Compute, now_s: float) -> JobProfile:
    """The profile of a job with a forecast; without a time in it, the job comes now.

    ``compute`` has the rates of tasks without their own.  A stage that reads other stages is one
    of reduces, any other one of maps.
    """
    forecast = job.forecast
    stages = tuple(
        _reduces(stage, compute) if stage.reads else _maps(stage, compute)
        for stage in forecast.stages
    )
    arrive_s = max(now_s, now_s if forecast.submit_s is None else forecast.submit_s)
    return JobProfile(name=job.job, arrive_s=arrive_s, stages=stages)


def _maps(stage: StageForecast, compute: Compute) -> StageProfile:
    return StageProfile(
        name=stage.name,
        input_bytes=stage.input_bytes,
        maps=stage.tasks,
        map_rate_bytes_per_s=predicted_rate(stage, compute),
        map_s=stage.task_s,
    )


def _reduces(stage: StageForecast, compute: Compute) -> StageProfile:
    """A forecast's rate of a reduce is of bytes fetched, the paper's of bytes written."""
    rate = predicted_rate(stage, compute)
    fetched, written = stage.input_bytes, stage.output_bytes
    has_rate = written > 0 and fetched > 0
    return StageProfile(
        name=stage.name,
        reads=stage.reads,
        shuffle_bytes=fetched,
        output_bytes=written if has_rate else 0,
        reduces=stage.tasks,
        reduce_rate_bytes_per_s=rate * written / fetched if has_rate else rate,
        reduce_s=stage.task_s + (0.0 if has_rate else fetched / stage.tasks / rate),
    )
