"""Latency response functions L_j(r): the seconds that a job takes on r racks, by its profile.

Source: Corral, section 4.3 (after Bazaar, SOCC 2011) and 4.5.  They are proxies for real latencies,
not forecasts.  A MapReduce job is <D^I, D^S, D^O, N^M, N^R> with the rates B_M and B_R of earlier
runs; each stage of a DAG is modelled as such a job.  All bytes are the model's.  Profiles come from
forecasts, or from earlier runs (section 2): the input of a job that comes at some time of the day
is predicted as the mean of the same job's on several previous days, on weekdays only or on weekends
only; shuffle and output are as predictable.

Left open there, chosen here:

* several tasks on a machine: waves of r k slots tasks; the shuffle's bytes of a machine, and so its
  time, stay as they are;
* bandwidth: B/V is what other traffic leaves of a rack's link to the core, for each machine;
* no oversubscription (V <= 1), where B - B/V is nothing: all bytes of a machine share its NIC;
* the waves' factor of the shuffle is left out unless ``in_waves``: D^core has all bytes of a
  machine, whatever the number of waves, so the printed formula counts them once a wave;
* racks that differ, such as sites behind wide-area links: each counts with the mean of them all;
* predictions from earlier runs: the last 10 days of their kind count; rates are averaged like
  sizes; a job that has never run on this kind of day is predicted from the other kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import msgspec
import numpy as np

from railyard.cluster.errors import UsageError, require
from railyard.cluster.inputfile import read_file
from railyard.cluster.topology import Topology
from railyard.cluster.topologyfile import Compute
from railyard.jobs.workloads.model import WorkloadJob
from railyard.netemu.model.arrays import Floats
from railyard.resourcemanager.interface.estimates import predicted_rate
from railyard.resourcemanager.interface.forecast import PredictedJob, StageForecast, predicted_jobs


# Profiles ----------------------------------------------------------------------------------------
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

    ``compute`` has the rates of tasks without their own.  A stage that reads others has reduces.
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


# Predictions from earlier runs --------------------------------------------------------------------
#: "several previous days"
DAYS = 10


class Run(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run of a recurring job, as measured."""

    job: str  #: of the recurring job: its runs share it
    day: int  #: 0 is a Monday
    profile: JobProfile  #: as measured; its ``arrive_s`` is the time of the day

    def __post_init__(self) -> None:
        require(self.day >= 0, f"run of {self.job}: day", self.day, "a whole number >= 0")


def predict(runs: Iterable[Run], job: str, day: int) -> JobProfile | None:
    """The profile of a job on a day, from earlier days; None if it never ran before ``day``.

    Runs with other stages than the last one do not count: the job's code has changed.
    """
    earlier = sorted((r for r in runs if r.job == job and r.day < day), key=lambda run: run.day)
    alike = [run for run in earlier if is_weekend(run.day) == is_weekend(day)] or earlier
    if not alike:
        return None
    shape = _shape(alike[-1].profile)
    counted = [run.profile for run in alike if _shape(run.profile) == shape][-DAYS:]
    columns = zip(*(profile.stages for profile in counted), strict=True)
    return JobProfile(
        name=job,
        arrive_s=_mean_of_runs([profile.arrive_s for profile in counted]),
        stages=tuple(_average(stages) for stages in columns),
    )


def is_weekend(day: int) -> bool:
    """Whether a day is on a weekend; day 0 is a Monday."""
    return day % 7 >= 5


def _shape(profile: JobProfile) -> list[tuple[str, tuple[str, ...]]]:
    return [(stage.name, stage.reads) for stage in profile.stages]


def _average(stages: Sequence[StageProfile]) -> StageProfile:
    """The mean of sizes, rates and times; numbers of tasks are rounded."""
    numbers = [field for field in StageProfile.__struct_fields__ if field not in ("name", "reads")]
    means = {field: _mean_of_runs([getattr(each, field) for each in stages]) for field in numbers}
    counts = {field: round(means[field]) for field in ("maps", "reduces")}
    return msgspec.structs.replace(stages[-1], **(means | counts))


def _mean_of_runs(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def load_runs(path: Path) -> list[Run]:
    """Read a file of runs; ``UsageError`` with the line that is wrong."""
    runs = []
    for number, line in enumerate(read_file(path).splitlines(), start=1):
        try:
            runs.append(msgspec.json.decode(line, type=Run))
        except (msgspec.DecodeError, RecursionError, UsageError) as error:
            raise UsageError(f"{path}:{number}: {error}") from None
    return runs


# Response functions -------------------------------------------------------------------------------
class PlanOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of the model."""

    #: α, in units of 1 / (a rack's bandwidth to the core); 0 = data may be out of balance
    imbalance: float = 1.0
    #: count all of a shuffle once for each wave of reduces, as 4.3 prints it
    shuffle_in_waves: bool = False
    slots: int = 0  #: tasks that a machine runs at once; 0 = as many as it has slots

    def __post_init__(self) -> None:
        require(self.imbalance >= 0, "imbalance", self.imbalance, "a number >= 0")
        require(self.slots >= 0, "slots", self.slots, "a whole number >= 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class RackCluster:
    """A cluster of racks that are all alike, as the response functions see it."""

    racks: int  #: R
    machines: int  #: k, in a rack
    slots: float = 1  #: tasks that a machine runs at once, in the mean
    nic_bytes_per_s: float  #: B
    core_bytes_per_s: float  #: B/V: a machine's part of its rack's link to the core

    @classmethod
    def of(cls, topology: Topology, slots: int = 0) -> RackCluster:
        """A topology's racks; those that differ count with their mean."""
        racks = topology.rack_list()
        nodes = [node for rack in racks for node in rack.nodes]
        parts = [min(r.uplink_bytes_per_s, r.downlink_bytes_per_s) / len(r.nodes) for r in racks]
        return cls(
            racks=len(racks),
            machines=max(1, round(len(nodes) / len(racks))),
            slots=slots or _mean([node.slots for node in nodes]),
            nic_bytes_per_s=_mean([node.nic_bytes_per_s for node in nodes]),
            core_bytes_per_s=_mean(parts),
        )


def _mean(values: Sequence[float]) -> float:
    """The mean; of equal values that value itself, without rounding."""
    return values[0] if len(set(values)) == 1 else fmean(values)


def waves(tasks: int, r: Floats, cluster: RackCluster) -> Floats:
    """w(r) = ceil(N / (r k)), times the slots of a machine: rounds in which N tasks run."""
    rounds: Floats = np.ceil(tasks / (r * (cluster.machines * cluster.slots)))
    return rounds


def map_s(stage: StageProfile, r: Floats, cluster: RackCluster) -> Floats:
    """l^map(r) = w^map(r) (D^I / N^M) / B_M."""
    if stage.maps == 0:
        return np.zeros_like(r)
    task_s = stage.input_bytes / stage.maps / stage.map_rate_bytes_per_s + stage.map_s
    return waves(stage.maps, r, cluster) * task_s


def reduce_s(stage: StageProfile, r: Floats, cluster: RackCluster) -> Floats:
    """l^reduce(r) = w^reduce(r) (D^O / N^R) / B_R."""
    if stage.reduces == 0:
        return np.zeros_like(r)
    task_s = stage.output_bytes / stage.reduces / stage.reduce_rate_bytes_per_s + stage.reduce_s
    return waves(stage.reduces, r, cluster) * task_s


def core_s(stage: StageProfile, r: Floats, cluster: RackCluster) -> Floats:
    """l^core(r) = D^core(r) / (B/V), where D^core = D^S/(r k) (r-1)/r of each machine."""
    return _crossing_bytes(stage, r, cluster) / cluster.core_bytes_per_s


def local_s(stage: StageProfile, r: Floats, cluster: RackCluster) -> Floats:
    """l^local(r) = D^local(r) / (B - B/V) (k-1)/k, where D^local = D^S/(r k) 1/r."""
    spare = cluster.nic_bytes_per_s - cluster.core_bytes_per_s
    return _staying_bytes(stage, r, cluster) / spare


def shuffle_s(
    stage: StageProfile, r: Floats, cluster: RackCluster, *, in_waves: bool = True
) -> Floats:
    """l^shuffle(r) = w^reduce(r) max(l^core(r), l^local(r))."""
    if stage.reduces == 0:
        return np.zeros_like(r)
    if cluster.core_bytes_per_s < cluster.nic_bytes_per_s:
        once = np.maximum(core_s(stage, r, cluster), local_s(stage, r, cluster))
    else:
        sent = _crossing_bytes(stage, r, cluster) + _staying_bytes(stage, r, cluster)
        once = sent / cluster.nic_bytes_per_s
    return waves(stage.reduces, r, cluster) * once if in_waves else once


def stage_s(
    stage: StageProfile, r: Floats, cluster: RackCluster, *, in_waves: bool = True
) -> Floats:
    """L_s(r) = l^map(r) + l^shuffle(r) + l^reduce(r)."""
    shuffled = shuffle_s(stage, r, cluster, in_waves=in_waves)
    return map_s(stage, r, cluster) + shuffled + reduce_s(stage, r, cluster)


def job_s(job: JobProfile, r: Floats, cluster: RackCluster, *, in_waves: bool = True) -> Floats:
    """L_j(r): the sum of L_s(r) over the critical path, which may be another for each r."""
    done: dict[str, Floats] = {}  #: {stage: seconds of the longest path that ends with it}
    for stage in job.stages:
        begun = np.maximum.reduce([np.zeros_like(r), *(done[read] for read in stage.reads)])
        done[stage.name] = begun + stage_s(stage, r, cluster, in_waves=in_waves)
    longest: Floats = np.maximum.reduce([np.zeros_like(r), *done.values()])
    return longest


def imbalance_s(job: JobProfile, r: Floats, cluster: RackCluster, imbalance: float = 1.0) -> Floats:
    """α D^I / r: about the seconds that the upload of a rack's part of the input takes."""
    alpha = imbalance / (cluster.core_bytes_per_s * cluster.machines)  # of a rack to the core
    return alpha * job.input_bytes / r


def _crossing_bytes(stage: StageProfile, r: Floats, cluster: RackCluster) -> Floats:
    """Bytes that each machine sends to other racks."""
    return stage.shuffle_bytes / (r * cluster.machines) * (r - 1) / r


def _staying_bytes(stage: StageProfile, r: Floats, cluster: RackCluster) -> Floats:
    """Bytes that each machine sends to others of its rack."""
    others = (cluster.machines - 1) / cluster.machines
    return stage.shuffle_bytes / (r * cluster.machines) / r * others
