"""Corral's workloads: W1, W2, W3, its mix of recurring and ad hoc jobs, queries, recurring jobs.

Source: Jalaparti et al., SIGCOMM 2015, section 6.1 and Table 1; 6.2.1 (W2), 6.4 (mix), 6.6 (W1 in
the simulation: 200 jobs, uniform in 15 min).  In its testbed W1 has 100 jobs in 60 min, since 4 min
are 6.67 times the gap between two of them (6.5), and 20 % of a mean job's time: with our sizes and
rates that is so over a ``window`` of 8 min, for W3 of 6 min.

Left open there, chosen here.  All: a map reads up to 256 MB; by default all jobs recur; task rates
are the topology's; output is written once (``output_replication``), where it is made, as "all job
data transfers stay within those racks" (1), which further replicas would not.  Ad hoc jobs may have
a queue of their own (``ad_hoc_queue``): they get "otherwise idle" slots by 1, and what Yarn-CS
gives them by 6.4.  W1: a third of the jobs is small (5 to 50 tasks), a third medium (51 to 500) and
a third large (1,000 to 2,000), log-uniform within each; the selectivities of maps and reduces are
independent; a reduce fetches as much as a map reads.  W2: the jobs between the tiny ones and the
two large ones read 200 MB to 200 GB and shuffle 1/4 to twice that; a reduce fetches 1 GB.  W3:
sizes are lognormal and correlated (0.9); the tasks are split into maps and reduces in proportion to
input and intermediate data; the output is 1/4 to all of the intermediate data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Literal

import msgspec
import numpy as np

from railyard.cluster.errors import require
from railyard.cluster.inputfile import Duration, Size
from railyard.jobs.workloads.model import InputFile, Recurrence, Statistic, Workload, WorkloadJob
from railyard.jobs.workloads.population import Arrivals, Population, Shape, dice, merged, populate
from railyard.jobs.workloads.shapes import (
    StageNode,
    by_percentiles,
    correlated_ranks,
    log_uniform,
    map_reduce,
    stages_of,
    strata,
)
from railyard.jobs.workloads.statistics import mean, percentile, share, statistic

_GB = 10**9
_MB = 10**6


class CorralOptions(Population, frozen=True, kw_only=True):
    """The common options of W1, W2 and W3."""

    COUNTS: ClassVar = {"jobs": 1}

    jobs: int = 200  #: how many
    recurring: float = 1.0  #: share of the jobs that are predicted
    output_replication: int = 1  #: replicas of the jobs' output; 0 = the block store's default


class W3Options(CorralOptions, frozen=True, kw_only=True):
    """W3, whose jobs have the input and the tasks of Table 1."""

    REFUSED: ClassVar[Mapping[str, str]] = {
        "block": "a map reads what Table 1's input and tasks make it",
        "largest": "Table 1 says how many tasks jobs have",
    }


class W2Options(CorralOptions, frozen=True, kw_only=True):
    """W2: 400 jobs, of which two are large."""

    SIZES: ClassVar = ("block",)
    REFUSED: ClassVar[Mapping[str, str]] = {"largest": "the two large jobs are the paper's"}

    jobs: int = 400  #: how many
    block: Size = 256_000_000  #: what a map reads


class OfW1Options(CorralOptions, frozen=True, kw_only=True):
    """The options of workloads that have jobs of W1."""

    COUNTS: ClassVar = {"largest": 1001}
    SIZES: ClassVar = ("block",)

    block: Size = 256_000_000  #: what a map reads, and a reduce fetches
    largest: int = 2000  #: most tasks of a job of W1


class W1Options(OfW1Options, frozen=True, kw_only=True):
    """W1 as in the paper's simulation."""

    window: Duration = 900.0  #: length of uniform arrivals


class BesideAdHocOptions(OfW1Options, frozen=True, kw_only=True):
    """The options of workloads with a batch of ad hoc jobs of W1."""

    COUNTS: ClassVar = {"ad_hoc": 0}

    ad_hoc: int = 50  #: size of the batch of W1
    ad_hoc_queue: Literal["shared", "own"] = "shared"  #: "own": the batch is in queue "adhoc"

    def without_effect(self) -> dict[str, str]:
        off = super().without_effect()
        return off if self.ad_hoc else off | {"ad_hoc_queue": "ad_hoc above 0: there is no batch"}


class MixOptions(BesideAdHocOptions, frozen=True, kw_only=True):
    """50 ad hoc jobs in a batch, 100 recurring ones over an hour."""

    jobs: int = 100  #: how many are planned for; the others are ad hoc


# W1 ----------------------------------------------------------------------------------------------
def w1(options: W1Options, seed: int) -> Workload:
    """200 jobs, small, medium and large, selectivities 4:1 to 1:4."""
    jobs = populate(_w1_shapes(options.jobs, options, seed), options, seed)
    return Workload(name="corral-w1", jobs=jobs, statistics=_w1_statistics(jobs))


def _w1_shapes(count: int, options: OfW1Options, seed: int, prefix: str = "w1") -> Iterator[Shape]:
    """Jobs of W1; ``prefix`` is that of their names, and changes the random numbers."""
    rng, block_bytes = dice(seed, prefix), options.block
    kinds = rng.permutation(count) % 3
    sizes = (5, 50), (51, 500), (1000, options.largest)  # (least, most) tasks of a job
    tasks = np.choose(kinds, [log_uniform(rng, *size, count) for size in sizes])
    # Leaves room for rounding to whole bytes within 4:1 to 1:4.
    to_shuffle, to_output = (log_uniform(rng, 0.251, 3.99, count) for _ in range(2))
    fill = rng.uniform(0.0, 1.0, count)  # how full each job's last block is
    for at in range(count):
        wanted = round(tasks[at])
        maps = min(max(1, round(wanted / (1 + to_shuffle[at]))), wanted - 1)
        input_bytes = max(1, round((maps - 1 + fill[at]) * block_bytes))
        shuffle_bytes = round(input_bytes * to_shuffle[at])
        yield map_reduce(
            f"{prefix}-{at}",
            input_bytes=input_bytes,
            block_bytes=block_bytes,
            shuffle_bytes=shuffle_bytes,
            output_bytes=round(shuffle_bytes * to_output[at]),
            reduces=wanted - maps,
        )


def _w1_statistics(jobs: tuple[WorkloadJob, ...]) -> tuple[Statistic, ...]:
    tasks = [job.tasks for job in jobs]
    ratios = [job.shuffle_bytes / job.input_bytes for job in jobs]
    ratios += [job.output_bytes / job.shuffle_bytes for job in jobs]
    sized = [count <= 500 or count >= 1000 for count in tasks]
    return (
        statistic("small jobs (<= 50 tasks)", "share", share([n <= 50 for n in tasks])),
        statistic("medium jobs (<= 500)", "share", share([50 < n <= 500 for n in tasks])),
        statistic("large jobs (>= 1000)", "share", share([n >= 1000 for n in tasks])),
        statistic("jobs of these sizes", "share", share(sized), 1.0, note="section 6.1"),
        statistic("selectivity, least", "", min(ratios), (0.25, 4.0), 0.01, "section 6.1"),
        statistic("selectivity, most", "", max(ratios), (0.25, 4.0), 0.01, "section 6.1"),
    )


# W2 ----------------------------------------------------------------------------------------------
_LARGE_INPUT_BYTES = 5_500 * _GB
_LARGE_SHUFFLE = 1.8  #: shuffle / input of a large job
_TINY = 0.9  #: share of tiny jobs
_W2_LEAST = 16  #: jobs, so that beside the tiny ones there are two


def w2(options: W2Options, seed: int) -> Workload:
    """400 jobs like Yahoo's: 90 % tiny, two of 5.5 TB."""
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
    shapes = [
        map_reduce(
            f"w2-{number}",
            input_bytes=round(inputs[at]),
            block_bytes=options.block,
            shuffle_bytes=round(shuffles[at]),
            output_bytes=round(outputs[at]),
            reduces=-(-round(shuffles[at]) // _GB),
        )
        for number, at in enumerate(rng.permutation(count).tolist())
    ]
    jobs = populate(shapes, options, seed)
    return Workload(name="corral-w2", jobs=jobs, statistics=_w2_statistics(jobs))


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
    """200 jobs with Microsoft Cosmos' percentiles."""
    count, rng = options.jobs, dice(seed, "w3")
    ranks = strata(rng, count)
    inputs = by_percentiles(ranks, 7.1 * _GB, 162.3 * _GB)
    shuffles = by_percentiles(correlated_ranks(rng, ranks), 6 * _GB, 71.5 * _GB)
    tasks = by_percentiles(correlated_ranks(rng, ranks), 180, 2060)
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
    return Workload(name="corral-w3", jobs=jobs, statistics=_w3_statistics(jobs))


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
    """100 recurring jobs and 50 ad hoc ones of W1."""
    planned = populate(_w1_shapes(options.jobs, options, seed), options, seed)
    jobs = merged(_ad_hoc_batch(options, seed), planned)
    known = [job for job in jobs if job.recurrence is not None]
    last_s = max((job.submit_s for job in known), default=0.0)
    return Workload(
        name="corral-mix",
        jobs=jobs,
        statistics=(
            statistic("recurring jobs", "", len(known), 100, note="section 6.4"),
            statistic("ad hoc jobs", "", len(jobs) - len(known), 50, note="section 6.4"),
            statistic("last recurring job", "s", last_s, (0.0, 3600.0), note="section 6.4"),
        ),
    )


def _ad_hoc_batch(options: BesideAdHocOptions, seed: int) -> tuple[WorkloadJob, ...]:
    """Jobs of W1 that are not predicted, all submitted at once."""
    plain = Population(
        users=options.users,
        queues=options.queues,
        arrivals="batch",
        output_replication=options.output_replication,
    )
    shapes = _w1_shapes(options.ad_hoc, options, seed, "adhoc")
    jobs = populate(shapes, plain, seed, label="adhoc-")
    if options.ad_hoc_queue == "shared":
        return jobs
    return tuple(msgspec.structs.replace(job, queue="adhoc") for job in jobs)


# TPC-H -------------------------------------------------------------------------------------------
#: {initial: (table, its share of the database)}, by the specification's row counts and row lengths
_TABLES = {
    "l": ("lineitem", 0.698),
    "o": ("orders", 0.160),
    "ps": ("partsupp", 0.110),
    "c": ("customer", 0.023),
    "p": ("part", 0.0078),
    "s": ("supplier", 0.0012),
}
#: {query: initials of the tables that it reads}
_QUERIES = {
    1: "l", 2: "p s ps", 3: "c o l", 4: "o l", 5: "c o l s", 6: "l", 7: "s l o c",
    8: "p s l o c", 9: "p s l ps o", 10: "c o l", 11: "ps s", 12: "o l", 13: "c o",
    14: "l p", 15: "l s", 16: "ps p s", 17: "l p", 18: "c o l", 19: "l p",
    20: "s ps p l", 21: "s l o", 22: "c o",
}  # fmt: skip


class TpchOptions(BesideAdHocOptions, frozen=True, kw_only=True):
    """Section 6.3: 15 recurring Hive queries on 200 GB over 25 min, and a batch of jobs of W1.

    Left open there, chosen here: the 15 of the 22 queries (by seed) and the number of jobs of W1
    (20).  A query scans its tables whole, in blocks of 256 MB, and filters, which leaves 5 to 40 %
    (Hive's scans of ORC read less too).  It joins one table after the other, the largest first,
    each through a shuffle, which leaves 30 to 100 %.  Then it groups, which leaves 1 to 20 %, and
    sorts in one task, which leaves all.  A task fetches 256 MB.  The tables nation and region have
    a few kB, are shipped with a query, and are left out.  The queries share the database's files,
    or with ``tables=own`` each has its own.
    """

    jobs: int = 15  #: how many queries; the batch of W1 is beside them
    window: Duration = 1500.0  #: length of uniform arrivals
    database: Size = 200_000_000_000  #: bytes of all tables
    ad_hoc: int = 20  #: size of the batch of W1
    tables: Literal["shared", "own"] = "shared"  #: "own": each query has its own copy of the files

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.database >= 10**6, "database", self.database, "at least 1MB")

    def without_effect(self) -> dict[str, str]:
        """As of all workloads; queries have nothing of W1."""
        off = super().without_effect()
        return off if self.ad_hoc else off | {"largest": "ad_hoc above 0: there is no job of W1"}


def tpch(options: TpchOptions, seed: int) -> Workload:
    """15 queries like TPC-H's on 200 GB, beside a batch of W1."""
    rng = dice(seed, "tpch")
    shared = _database("/tpch", options)
    rounds = -(-options.jobs // len(_QUERIES))
    numbers = np.concatenate([rng.permutation(sorted(_QUERIES)) for _ in range(rounds)])
    shapes = []
    for at, number in enumerate(numbers[: options.jobs].tolist()):
        name = f"q{number}-{at}"
        tables = shared if options.tables == "shared" else _database(f"/tpch/{name}", options)
        read = [tables[initial] for initial in _QUERIES[number].split()]
        shapes.append(_query(name, read, options.block, rng))
    queries = populate(shapes, options, seed)
    last_s = max(job.submit_s for job in queries)
    size_bytes = sum(table.size_bytes for table in shared.values())
    return Workload(
        name="corral-tpch",
        jobs=merged(_ad_hoc_batch(options, seed), queries),
        statistics=(
            statistic("queries", "", len(queries), 15, note="section 6.3"),
            statistic("last query", "s", last_s, (0.0, 1500.0), note="section 6.3"),
            statistic("database", "bytes", size_bytes, 200e9, 0.001, "section 6.3"),
        ),
    )


def _database(folder: str, options: TpchOptions) -> dict[str, InputFile]:
    """{initial: table}"""
    return {
        initial: InputFile(
            path=f"{folder}/{name}",
            size_bytes=round(options.database * part),
            block_bytes=options.block,
        )
        for initial, (name, part) in _TABLES.items()
    }


def _query(name: str, read: list[InputFile], part_bytes: int, rng: np.random.Generator) -> Shape:
    """A query: scans, joins, a grouping and a sort."""
    read.sort(key=lambda table: -table.size_bytes)
    nodes = [StageNode((), float(rng.uniform(0.05, 0.4)), table) for table in read]
    left = 0
    for right in range(1, len(read)):
        nodes.append(StageNode((left, right), float(rng.uniform(0.3, 1.0))))
        left = len(nodes) - 1
    nodes.append(StageNode((left,), float(rng.uniform(0.01, 0.2))))
    nodes.append(StageNode((len(nodes) - 1,), 1.0, tasks=1))
    return Shape(name, stages_of(nodes, part_bytes), tuple(read))


# Jobs that recur every day -----------------------------------------------------------------------
_DAY_S = 86_400.0
_WARM_UP_DAYS = 14  #: history before the first submitted day
_NORMAL_MEAN_ABS = (2 / np.pi) ** 0.5  #: mean of a standard normal variable's absolute value
_DEVIATION = (np.pi / 2 - 1) ** 0.5  #: standard deviation of that value, relative to its mean


class RecurringOptions(Population, frozen=True, kw_only=True):
    """Section 2 and Fig. 1: twenty business-critical jobs, each at its time of the day.

    A day's input is predicted as the mean of the same job's input on earlier weekdays, or on
    earlier weekends.  The forecast is off by 6.5 % on average; shuffle and output are as
    predictable.  Left open there, chosen here: the number of earlier days (``history``, 10).  The
    first two weeks are history only and are not submitted.  A job's size is lognormal around its
    level, with the variance that gives the published error.  A weekend's level is 0.4 to 1.2 times
    that of weekdays.  Levels are 3 GB to 20 TB ("several gigabytes to tens of terabytes").
    Selectivities are those of W1, 1/4 to 4.
    """

    COUNTS: ClassVar = {"jobs": 1, "days": 1, "history": 1}
    SIZES: ClassVar = ("smallest", "block")

    jobs: int = 20  #: how many recur
    days: int = 1  #: number of days after the history
    history: int = 10  #: at most how many earlier days of the same kind are averaged
    largest: Size = 20_000_000_000_000  #: most input of a job on a usual day
    smallest: Size = 3_000_000_000  #: least input of a job on a usual day
    block: Size = 256_000_000  #: what a map reads, and a reduce fetches
    #: mean of |predicted / actual size - 1|, by which sizes differ from day to day
    size_error: float = 0.065
    arrivals: Arrivals = "trace"
    window: Duration = 0.0
    recurring: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        right = f"at least smallest, {self.smallest}"
        require(self.largest >= self.smallest, "largest", self.largest, right)

    def without_effect(self) -> dict[str, str]:
        """As of all workloads; errors come from the history, whether jobs are predicted or not."""
        off = super().without_effect()
        off.pop("size_error", None)
        if not self.size_error:
            off["history"] = "size_error above 0: all days are alike"
        return off


def is_weekend(day: int) -> bool:
    """Whether a day is a Saturday or a Sunday; day 0 is a Monday."""
    return day % 7 >= 5


def predict(sizes_bytes: Sequence[float], day: int, history: int) -> float:
    """The predicted size on ``day``: the mean of the last ``history`` earlier days of its kind."""
    kind = [size for at, size in enumerate(sizes_bytes[:day]) if is_weekend(at) == is_weekend(day)]
    return float(np.mean(kind[-history:]))


def recurring(options: RecurringOptions, seed: int) -> Workload:
    """20 jobs that recur each day, predicted from the days before."""
    rng = dice(seed, "history")
    levels = log_uniform(rng, options.smallest, options.largest, options.jobs)
    weekends = rng.uniform(0.4, 1.2, options.jobs)
    to_shuffle, to_output = (log_uniform(rng, 0.25, 4.0, options.jobs) for _ in range(2))
    times_s = rng.uniform(0.0, _DAY_S, options.jobs)
    # The difference of a day and the mean of n others has sqrt(1 + 1/n) times the noise of a day.
    noise = options.size_error / _NORMAL_MEAN_ABS / (1 + 1 / options.history) ** 0.5
    shapes: list[Shape] = []
    for number in range(options.jobs):
        days = range(_WARM_UP_DAYS + options.days)
        level = levels[number] * np.array([weekends[number] if is_weekend(d) else 1 for d in days])
        sizes = (level * np.exp(rng.normal(0.0, noise, len(days)))).tolist()
        for day in days[_WARM_UP_DAYS:]:
            shape = map_reduce(
                f"job{number}-day{day}",
                input_bytes=round(sizes[day]),
                block_bytes=options.block,
                shuffle_bytes=round(sizes[day] * to_shuffle[number]),
                output_bytes=round(sizes[day] * to_shuffle[number] * to_output[number]),
                reduces=max(1, round(level[day] * to_shuffle[number] / options.block)),
            )
            arrive_s = (day - _WARM_UP_DAYS) * _DAY_S + times_s[number]
            ratio = predict(sizes, day, options.history) / sizes[day]
            past = Recurrence(name=f"job{number}", day=day, size_ratio=ratio)
            shapes.append(shape._replace(arrive_s=arrive_s, past=past))
    jobs = populate(shapes, options, seed)
    ratios = [job.recurrence.size_ratio for job in jobs if job.recurrence is not None]
    off = mean([abs(ratio - 1) for ratio in ratios])
    chance = 4 * _DEVIATION / max(1, len(ratios)) ** 0.5  # 4 standard deviations
    error = statistic("error of predicted sizes", "share", off, 0.065, chance, "section 2")
    return Workload(name="corral-recurring", jobs=jobs, statistics=(error,))
