"""Corral's MapReduce workloads: W1, W2, W3, and its mix of recurring and ad hoc jobs.

Source: Jalaparti et al., SIGCOMM 2015, section 6.1 and Table 1; 6.2.1 (W2), 6.4 (mix), 6.6 (W1 in
the simulation: 200 jobs, uniform in 15 min).  In its testbed W1 has 100 jobs in 60 min, since 4 min
are 6.67 times the gap between two of them (6.5).

Left open there, chosen here.  All: a map reads up to 256 MB; by default all jobs recur; task rates
are the topology's; output is written once, where it is made, as "all job data transfers stay within
those racks" (1), which further replicas would not.  W1: a third of the jobs is small (5 to 50
tasks), a third medium (51 to 500) and a third large (1,000 to 2,000), log-uniform within each; the
selectivities of maps and reduces are independent; a reduce fetches as much as a map reads.  W2: the
jobs between the tiny ones and the two large ones read 200 MB to 200 GB and shuffle 1/4 to twice
that; a reduce fetches 1 GB.  W3: sizes are lognormal and correlated (0.9); the tasks are split into
maps and reduces in proportion to input and intermediate data; the output is 1/4 to all of the
intermediate data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from railyard.cluster.errors import require, require_count
from railyard.cluster.tomlfile import Duration, Size
from railyard.jobs.workloads.model import Statistic, Workload, WorkloadJob
from railyard.jobs.workloads.population import Arrivals, Population, Shape, dice, merged, populate
from railyard.jobs.workloads.shapes import (
    by_percentiles,
    correlated_ranks,
    log_uniform,
    map_reduce,
    strata,
)
from railyard.jobs.workloads.statistics import percentile, share, statistic

_PAPER = "Corral (Jalaparti et al., SIGCOMM 2015)"
_GB = 10**9
_MB = 10**6


class CorralOptions(Population, frozen=True, kw_only=True):
    """The common options of W1, W2 and W3."""

    jobs: int = 200  #: how many
    recurring: float = 1.0  #: share of the jobs that are predicted
    output_replication: int = 1  #: replicas of the jobs' output; 0 = the block store's default

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("jobs", self.jobs)


class W3Options(CorralOptions, frozen=True, kw_only=True):
    """W3, whose jobs have the input and the tasks of Table 1."""

    REFUSED: ClassVar[Mapping[str, str]] = {
        "block": "a map reads what Table 1's input and tasks make it",
        "largest": "Table 1 says how many tasks jobs have",
    }


class W2Options(CorralOptions, frozen=True, kw_only=True):
    """W2: 400 jobs, of which two are large."""

    REFUSED: ClassVar[Mapping[str, str]] = {"largest": "the two large jobs are the paper's"}

    jobs: int = 400  #: how many
    block: Size = 256_000_000  #: what a map reads

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.block >= 1, "block", self.block, "a size above 0")


class OfW1Options(CorralOptions, frozen=True, kw_only=True):
    """The options of workloads that have jobs of W1."""

    block: Size = 256_000_000  #: what a map reads, and a reduce fetches
    largest: int = 2000  #: most tasks of a job of W1

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("largest", self.largest, least=1001)
        require(self.block >= 1, "block", self.block, "a size above 0")


class W1Options(OfW1Options, frozen=True, kw_only=True):
    """W1 as in the paper's simulation."""

    window: Duration = 900.0  #: length of uniform arrivals


class MixOptions(OfW1Options, frozen=True, kw_only=True):
    """50 ad hoc jobs in a batch, 100 recurring ones over an hour."""

    jobs: int = 100  #: how many are planned for; the others are ad hoc
    ad_hoc: int = 50  #: size of the batch of W1

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("ad_hoc", self.ad_hoc, least=0)


# W1 ----------------------------------------------------------------------------------------------
#: (least, most) tasks of a job
_SMALL, _MEDIUM, _LARGE = (5, 50), (51, 500), (1000, 2000)


def w1(options: W1Options, seed: int) -> Workload:
    """Like Quantcast's workload, with varied job sizes and selectivities."""
    shapes = w1_shapes(options.jobs, options.block, seed, largest=options.largest)
    jobs = populate(shapes, options, seed)
    return Workload(
        name="corral-w1",
        source=f"{_PAPER}, section 6.1 (a)",
        jobs=jobs,
        statistics=_w1_statistics(jobs),
    )


def w1_shapes(
    count: int, block_bytes: int, seed: int, prefix: str = "w1", largest: int = _LARGE[1]
) -> list[Shape]:
    """Jobs of W1; ``prefix`` is that of their names, and changes the random numbers."""
    rng = dice(seed, prefix)
    kinds = rng.permutation(count) % 3
    sizes = (_SMALL, _MEDIUM, (_LARGE[0], largest))
    tasks = np.choose(kinds, [log_uniform(rng, *size, count) for size in sizes])
    # Leaves room for rounding to whole bytes within 4:1 to 1:4.
    to_shuffle, to_output = (log_uniform(rng, 0.251, 3.99, count) for _ in range(2))
    fill = rng.uniform(0.0, 1.0, count)  # how full each job's last block is
    shapes = []
    for at in range(count):
        wanted = round(tasks[at])
        maps = min(max(1, round(wanted / (1 + to_shuffle[at]))), wanted - 1)
        input_bytes = max(1, round((maps - 1 + fill[at]) * block_bytes))
        shuffle_bytes = round(input_bytes * to_shuffle[at])
        shapes.append(
            map_reduce(
                f"{prefix}-{at}",
                input_bytes=input_bytes,
                block_bytes=block_bytes,
                shuffle_bytes=shuffle_bytes,
                output_bytes=round(shuffle_bytes * to_output[at]),
                reduces=wanted - maps,
            )
        )
    return shapes


def _w1_statistics(jobs: tuple[WorkloadJob, ...]) -> tuple[Statistic, ...]:
    tasks = [job.tasks for job in jobs]
    ratios = [job.shuffle_bytes / job.input_bytes for job in jobs]
    ratios += [job.output_bytes / job.shuffle_bytes for job in jobs]
    odd = [50 < count <= 500 or count <= 50 or count >= 1000 for count in tasks]
    return (
        statistic("small jobs (<= 50 tasks)", "share", share([n <= 50 for n in tasks])),
        statistic("medium jobs (<= 500)", "share", share([50 < n <= 500 for n in tasks])),
        statistic("large jobs (>= 1000)", "share", share([n >= 1000 for n in tasks])),
        statistic("jobs of these sizes", "share", share(odd), 1.0, note="section 6.1"),
        statistic("selectivity, least", "", min(ratios), (0.25, 4.0), 0.01, "section 6.1"),
        statistic("selectivity, most", "", max(ratios), (0.25, 4.0), 0.01, "section 6.1"),
    )


# W2 ----------------------------------------------------------------------------------------------
_LARGE_INPUT_BYTES = 5_500 * _GB
_LARGE_SHUFFLE = 1.8  #: shuffle / input of a large job
_TINY = 0.9  #: share of tiny jobs
_W2_LEAST = 16  #: jobs, so that beside the tiny ones there are two


def w2(options: W2Options, seed: int) -> Workload:
    """Like SWIM's Yahoo workload: nearly all jobs are tiny, two are enormous."""
    require(options.jobs >= _W2_LEAST, "jobs", options.jobs, f"a whole number >= {_W2_LEAST}")
    count, rng = options.jobs, dice(seed, "w2")
    tiny = round(_TINY * count)
    middling = count - tiny - 2
    inputs = np.concatenate(
        (
            log_uniform(rng, 1e3, 200e6, tiny),
            log_uniform(rng, 200e6, 200e9, middling),
            np.full(2, _LARGE_INPUT_BYTES) * rng.uniform(0.98, 1.02, 2),
        )
    )
    shuffles = np.concatenate(
        (
            np.minimum(inputs[:tiny] * log_uniform(rng, 0.1, 2.0, tiny), 74.9e6),
            inputs[tiny : tiny + middling] * log_uniform(rng, 0.25, 2.0, middling),
            inputs[-2:] * _LARGE_SHUFFLE,
        )
    )
    outputs = shuffles * log_uniform(rng, 0.1, 1.0, count)
    shapes = []
    for number, at in enumerate(rng.permutation(count).tolist()):
        shuffle_bytes = round(shuffles[at])
        shapes.append(
            map_reduce(
                f"w2-{number}",
                input_bytes=round(inputs[at]),
                block_bytes=options.block,
                shuffle_bytes=shuffle_bytes,
                output_bytes=round(outputs[at]),
                reduces=-(-shuffle_bytes // _GB),
            )
        )
    jobs = populate(shapes, options, seed)
    source = f"{_PAPER}, sections 6.1 (b) and 6.2.1"
    return Workload(name="corral-w2", source=source, jobs=jobs, statistics=_w2_statistics(jobs))


def _w2_statistics(jobs: tuple[WorkloadJob, ...]) -> tuple[Statistic, ...]:
    large = sorted(jobs, key=lambda job: job.input_bytes)[-2:]
    tiny = [j.input_bytes < 200 * _MB and j.shuffle_bytes < 75 * _MB for j in jobs]
    more = [job.shuffle_bytes / job.input_bytes for job in large]
    where = "section 6.2.1"
    return (
        statistic("jobs", "", len(jobs), 400, note="section 6.1 (b)"),
        statistic("tiny (< 200 MB in, < 75 MB shuffle)", "share", share(tiny), 0.9, 0.02, where),
        statistic("large, least input", "bytes", large[0].input_bytes, 5.5e12, 0.02, where),
        statistic("large, most input", "bytes", large[1].input_bytes, 5.5e12, 0.02, where),
        statistic("large, shuffle / input", "", max(more), 1.8, 0.01, where),
    )


# W3 ----------------------------------------------------------------------------------------------
def w3(options: W3Options, seed: int) -> Workload:
    """Like Microsoft Cosmos' workload: the percentiles of Table 1."""
    count, rng = options.jobs, dice(seed, "w3")
    ranks = strata(rng, count)
    inputs = by_percentiles(ranks, 7.1 * _GB, 162.3 * _GB)
    shuffles = by_percentiles(correlated_ranks(rng, ranks, 0.9), 6 * _GB, 71.5 * _GB)
    tasks = by_percentiles(correlated_ranks(rng, ranks, 0.9), 180, 2060)
    to_output = log_uniform(rng, 0.25, 1.0, count)
    shapes = []
    for at in range(count):
        input_bytes, shuffle_bytes = round(inputs[at]), round(shuffles[at])
        wanted = max(2, round(tasks[at]))
        share_of_maps = input_bytes / (input_bytes + shuffle_bytes)
        maps = min(max(1, round(wanted * share_of_maps)), wanted - 1)
        shapes.append(
            map_reduce(
                f"w3-{at}",
                input_bytes=input_bytes,
                block_bytes=-(-input_bytes // maps),
                shuffle_bytes=shuffle_bytes,
                output_bytes=round(shuffle_bytes * to_output[at]),
                reduces=wanted - maps,
            )
        )
    jobs = populate(shapes, options, seed)
    return Workload(
        name="corral-w3",
        source=f"{_PAPER}, section 6.1 (c) and Table 1",
        jobs=jobs,
        statistics=_w3_statistics(jobs),
    )


def _w3_statistics(jobs: tuple[WorkloadJob, ...]) -> tuple[Statistic, ...]:
    tasks = [job.tasks for job in jobs]
    inputs = [job.input_bytes for job in jobs]
    shuffles = [job.shuffle_bytes for job in jobs]
    rows = (
        ("tasks", "", tasks, 180, 2060),
        ("input", "bytes", inputs, 7.1e9, 162.3e9),
        ("intermediate data", "bytes", shuffles, 6e9, 71.5e9),
    )
    return tuple(
        statistic(f"{name}, p{percent}", unit, percentile(values, percent), known, 0.08, "Table 1")
        for name, unit, values, *both in rows
        for percent, known in zip((50, 95), both, strict=True)
    )


# The mix -----------------------------------------------------------------------------------------
def mix(options: MixOptions, seed: int) -> Workload:
    """Recurring jobs over an hour and a batch of ad hoc jobs, all of W1."""
    ad_hoc = ad_hoc_batch(options.ad_hoc, options, seed)
    shapes = w1_shapes(options.jobs, options.block, seed, largest=options.largest)
    planned = populate(shapes, options, seed)
    jobs = merged(ad_hoc, planned)
    known = [job for job in jobs if job.recurrence is not None]
    late_s = [job.submit_s for job in known]
    return Workload(
        name="corral-mix",
        source=f"{_PAPER}, section 6.4",
        jobs=jobs,
        statistics=(
            statistic("recurring jobs", "", len(known), 100, note="section 6.4"),
            statistic("ad hoc jobs", "", len(jobs) - len(known), 50, note="section 6.4"),
            statistic(
                "last recurring job",
                "s",
                max(late_s, default=0.0),
                (0.0, 3600.0),
                note="section 6.4",
            ),
        ),
    )


def ad_hoc_batch(count: int, options: OfW1Options, seed: int) -> tuple[WorkloadJob, ...]:
    """Jobs of W1 that are not predicted, all submitted at once."""
    shapes = w1_shapes(count, options.block, seed, prefix="adhoc", largest=options.largest)
    batch: Arrivals = "batch"
    plain = Population(
        users=options.users,
        queues=options.queues,
        arrivals=batch,
        output_replication=options.output_replication,
    )
    return populate(shapes, plain, seed, label="adhoc-")
