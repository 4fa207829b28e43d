"""What Corral's experiments have in common: workloads, topologies, settings.

But for when jobs come, nothing is set that a user of ``corral-7x30``, of the workloads and of the
schedulers does not get; what these leave open is said there, and by ``railyard schedulers
--settings``.  Reduces start at 5 % of the maps, as in the paper's Hadoop 2.4.

Left open there, chosen here with seeds 1 to 3, with the paper's numbers in view; other seeds are
reported:
* Jobs online come over 12 min (W1) and 15 min (W3), W2's over the hour of the paper.  So slots
  compute for about half of the time; over an hour W1's jobs hardly meet.
* Each query reads tables of its own: Corral "assumes that each job reads its own dataset" (7).
docs/reproduce.md has what came of other choices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from railyard.cluster.units import format_duration
from railyard.experiments.figures import (
    BETTER,
    WORSE,
    Coarser,
    Figure,
    Line,
    Paper,
    Published,
    Setup,
    against,
    fewer_jobs,
    reported,
)
from railyard.experiments.measures import (
    COMPUTE_TIME,
    CROSS_RACK,
    JCT_MEAN,
    JCT_MEDIAN,
    MAKESPAN,
    Job,
    Measure,
    WhichJobs,
    job_time_s,
    named,
    of_jobs,
    reduction,
    span_s,
)
from railyard.terminal.options import TextPairs

BASE = "capacity"
AGAINST = "Yarn-CS (capacity)"
CORRAL = ("corral",)
RIVALS = ("corral", "local-shuffle", "shufflewatcher")
BATCH = "arrivals=batch"


@dataclass(frozen=True)
class MapReduce:
    """A MapReduce workload of the paper."""

    name: str
    jobs: int
    window_s: float  #: over how long they come
    quick_grain: int  #: tasks made one in quick figures

    @property
    def online(self) -> str:
        """The option for jobs that come over time."""
        return f"window={self.window_s:g}s"

    @property
    def smaller(self) -> str:
        """Over what time its jobs come, for the reader."""
        return f"{self.name.upper()}: its jobs come over {format_duration(self.window_s)}"

    def testbed(self, quick: bool, tasks: int = 0) -> Coarser:
        """The paper's cluster with so many tasks made one; 0 = as many as usual."""
        usual = self.quick_grain if quick else 12
        return Coarser(topology="corral-7x30", tasks=tasks or usual, machines=6)

    def setup(self, quick: bool, *options: str) -> Setup:
        """Its jobs on the paper's cluster."""
        return setup(self.name, self.testbed(quick), f"jobs={self.jobs}", *options)


W1 = MapReduce("w1", 100, 720.0, 24)
W2 = MapReduce("w2", 400, 3600.0, 48)
W3 = MapReduce("w3", 200, 900.0, 48)
MAPREDUCE = (W1, W2, W3)


def setup(name: str, on: Coarser, *options: str) -> Setup:
    """A workload on a cluster that is as coarse as its tasks."""
    return Setup(
        workload=",".join([f"corral-{name}", f"grain={on.tasks}", *filter(None, options)]),
        topology=on.topology,
        scheduler=BASE,
        network=on.network(),
    )


PublishedBy = Mapping[tuple[str, str], Published]


def by_workload(
    quick: bool, measures: tuple[Measure, ...], online: bool, published: Mapping[str, PublishedBy]
) -> tuple[Line, ...]:
    """Corral's measures and its rivals' on each workload; quick online ones are W1's only."""
    return tuple(
        line
        for each in MAPREDUCE
        for line in against(
            BASE,
            CORRAL if quick and online and each is not W1 else RIVALS,
            measures,
            case=each.name.upper(),
            jobs=each.setup(quick, each.online if online else BATCH),
            published=published[each.name],
        )
    )


def smaller(quick: bool, *workloads: MapReduce, online: bool) -> tuple[str, ...]:
    """How figures of these workloads differ from the paper's."""
    times = [each.smaller for each in workloads if online and each is not W2]
    words = {each.testbed(quick).words(): each.name.upper() for each in reversed(workloads)}
    if len(words) == 1:
        return (*times, *next(iter(words)))
    finest = [f"{each.name.upper()}: {each.testbed(quick).words()[0]}" for each in workloads]
    return (*times, *finest, *workloads[0].testbed(quick).words()[1:])


# W1, W2 and W3, in batches and online: Fig. 6 to 9, section 6.2.


_REDUCE_TIME = reduction("reduce time, median job", of_jobs("reduce_s", "p50"), format_duration)


# Batch -------------------------------------------------------------------------------------------
def figure_6(quick: bool) -> Figure:
    """Makespans of batches."""
    makespan = MAKESPAN.title
    usual = {("corral", makespan): reported(10, 33), ("shufflewatcher", makespan): WORSE}
    published = {
        each.name: usual | {("local-shuffle", makespan): BETTER if each is W1 else WORSE}
        for each in MAPREDUCE
    }
    return Figure(
        title="makespan of a batch",
        where="Fig. 6, section 6.2.1",
        lines=by_workload(quick, (MAKESPAN,), False, published),
        scaled=smaller(quick, *MAPREDUCE, online=False),
        base=AGAINST,
    )


def figure_7(quick: bool) -> Figure:
    """What else is different in batches."""
    usual = {
        ("corral", CROSS_RACK.title): reported(20, 90),
        ("corral", COMPUTE_TIME.title): reported(0, 20),
    }
    published = {each.name: dict(usual) for each in MAPREDUCE}
    published["w1"]["corral", _REDUCE_TIME.title] = reported(40)
    return Figure(
        title="bytes across racks, compute hours and reduce time of a batch",
        where="Fig. 7, section 6.2.1",
        lines=by_workload(quick, (CROSS_RACK, COMPUTE_TIME, _REDUCE_TIME), False, published),
        scaled=smaller(quick, *MAPREDUCE, online=False),
        base=AGAINST,
    )


# Online ------------------------------------------------------------------------------------------
def figure_8(quick: bool) -> Figure:
    """Job times online."""
    usual = {
        ("corral", JCT_MEDIAN.title): reported(30, 56),
        ("corral", JCT_MEAN.title): reported(26, 36),
    }
    return Figure(
        title="job completion times online",
        where="Fig. 8, section 6.2.2",
        lines=by_workload(
            quick, (JCT_MEDIAN, JCT_MEAN), True, {each.name: usual for each in MAPREDUCE}
        ),
        scaled=smaller(quick, *MAPREDUCE, online=True),
        base=AGAINST,
    )


def _of_size(least: int, most: float, merged: int) -> WhichJobs:
    """Jobs of so many tasks, as there were before ``merged`` became one."""

    def which(job: Job) -> bool:
        tasks = (job["maps"] + job["reduces"]) * merged
        return bool(least <= tasks < most)

    return which


def figure_9(quick: bool) -> Figure:
    """Job times online, by size."""
    # Between the classes, since a job's last tasks of each stage may be less than a whole one.
    sizes = {"small": (0, 150), "medium": (150, 750), "large": (750, float("inf"))}
    lines: list[Line] = []
    for name, (least, most) in sizes.items():
        time = job_time_s("mean", _of_size(least, most, W1.testbed(quick).tasks))
        measure = reduction("JCT mean", time, format_duration)
        published = {("corral", "JCT mean"): reported(30, 36)}
        published["shufflewatcher", "JCT mean"] = WORSE if name == "large" else BETTER
        jobs = W1.setup(quick, W1.online)
        lines += against(BASE, RIVALS, (measure,), case=name, jobs=jobs, published=published)
    return Figure(
        title="job completion times online by size, W1",
        where="Fig. 9, section 6.2.2",
        lines=tuple(lines),
        scaled=smaller(quick, W1, online=True),
        base=AGAINST,
    )


# Queries, ad hoc jobs, and 2,000 machines: Fig. 10, 11 and 14.


#: Here a large job of W1 has up to 10,000 tasks (2): few jobs, and they should meet.
_LARGEST = "largest=10000"
_LARGE = "large jobs of W1 have up to 10,000 tasks"
_SIMULATION = Coarser(topology="corral-50x40", tasks=40, machines=10)


def _testbed(quick: bool) -> Coarser:
    return W1.testbed(quick, 48 if quick else 12)


# Other jobs --------------------------------------------------------------------------------------
def figure_10(quick: bool) -> Figure:
    """DAGs."""
    ad_hoc, window_s = (10, 180.0) if quick else (20, 360.0)
    queries = named("q")
    measures = (
        reduction("query time median", job_time_s("p50", queries), format_duration),
        reduction("query time mean", job_time_s("mean", queries), format_duration),
    )
    options = _LARGEST, f"ad_hoc={ad_hoc}", f"window={window_s:g}s"
    jobs = setup("tpch", _testbed(quick), "tables=own", *options)
    return Figure(
        title="15 queries like TPC-H's, beside a batch of W1",
        where="Fig. 10, section 6.3",
        lines=against(
            BASE,
            CORRAL,
            measures,
            case="queries",
            jobs=jobs,
            published={
                ("corral", "query time median"): reported(18.5),
                ("corral", "query time mean"): reported(21),
            },
        ),
        scaled=(
            f"queries come over {format_duration(window_s)}, beside {ad_hoc} jobs of W1",
            _LARGE,
            *_testbed(quick).words(),
        ),
        base=AGAINST,
    )


def figure_11(quick: bool) -> Figure:
    """Recurring and ad hoc jobs."""
    recurring, ad_hoc = (20, 10) if quick else (100, 50)
    window_s = 24.0 * recurring
    ours, others = named("w1-"), named("adhoc-")
    published = {
        "recurring, JCT mean": reported(33),
        "recurring, JCT median": reported(27),
        "ad hoc, JCT mean": reported(20),
        "ad hoc, JCT p90": reported(37),
        "ad hoc, makespan": reported(28),
    }
    quantities = (
        job_time_s("mean", ours),
        job_time_s("p50", ours),
        job_time_s("mean", others),
        job_time_s("p90", others),
        span_s(others),
    )
    measures = [
        reduction(title, quantity, format_duration)
        for title, quantity in zip(published, quantities, strict=True)
    ]
    options = (_LARGEST, f"jobs={recurring}", f"ad_hoc={ad_hoc}", f"window={window_s:g}s")
    return Figure(
        title="recurring jobs under Corral beside ad hoc ones, W1",
        where="Fig. 11, section 6.4",
        lines=against(
            BASE,
            CORRAL,
            measures,
            case="mix",
            jobs=setup("mix", _testbed(quick), *options),
            published={("corral", title): value for title, value in published.items()},
        ),
        scaled=(
            *([f"{recurring} recurring and {ad_hoc} ad hoc jobs, not 100 and 50"] if quick else []),
            f"recurring jobs come over {format_duration(window_s)}",
            _LARGE,
            *_testbed(quick).words(),
        ),
        base=AGAINST,
    )


# At scale ----------------------------------------------------------------------------------------
def figure_14(quick: bool) -> Figure:
    """Job and flow schedulers together, on 2,000 machines."""
    count = 20 if quick else 200
    window_s = 1.5 * count
    options = (_LARGEST, f"jobs={count}", f"window={window_s:g}s")
    jobs = setup("w1", _SIMULATION, *options)
    cases = (
        ("capacity + maxmin", "capacity + varys", reported(46)),
        ("capacity + varys", "corral + maxmin", reported(45)),
        ("corral + maxmin", "corral + varys", BETTER),
    )
    return Figure(
        title="job completion times with TCP (maxmin) and Varys, W1, median",
        where="Fig. 14, section 6.6",
        lines=tuple(
            line
            for base, rival, published in cases
            for line in against(
                base,
                (rival,),
                (JCT_MEDIAN, JCT_MEAN),
                case=f"against {base}",
                jobs=jobs,
                published={(rival, JCT_MEDIAN.title): published},
            )
        ),
        scaled=(
            *fewer_jobs(count, 200),
            f"jobs come over {format_duration(window_s)} instead of 15 min",
            _LARGE,
            *_SIMULATION.words(),
        ),
        base="the contender that is named at the left",
    )


# Background traffic and wrong predictions: Fig. 12 and 13, section 6.5.


# Sensitivity -------------------------------------------------------------------------------------
def figure_12(quick: bool) -> Figure:
    """Background traffic: "more than 2X" as it goes from 30 to 40 Gbps a rack."""
    lines: list[Line] = []
    for gbps, share in ((30, "0.5"), (35, "0.583"), (40, "0.667")):
        for words, measure in ((BATCH, MAKESPAN), (W1.online, JCT_MEAN)):
            jobs = W1.setup(quick, words)
            jobs = replace(jobs, network=(*jobs.network, ("background", share)))
            if gbps == 30:  # as it is otherwise: the same runs as other figures'
                jobs = W1.setup(quick, words)
            lines += against(BASE, CORRAL, (measure,), case=f"{gbps} Gbps", jobs=jobs)
    return Figure(
        title="background traffic, W1",
        where="Fig. 12, section 6.5 (40 Gbps: more than twice the gain at 30 Gbps)",
        lines=tuple(lines),
        scaled=smaller(quick, W1, online=True),
        base=AGAINST,
    )


def figure_13(quick: bool) -> Figure:
    """Predictions that are wrong."""
    batch, online = W1.setup(quick, BATCH), W1.setup(quick, W1.online)
    lines: list[Line] = []
    # An option "size_error" is the mean error, half of the most.  What is predicted is nothing to
    # Yarn-CS: the runs are those of the other figures.
    for most in (0, 25, 50):
        wrong = W1.setup(quick, BATCH, f"size_error={min(most / 200, 0.25):g}")
        case = f"sizes off up to {most} %"
        lines += _wrong(case, MAKESPAN, wrong, batch, reported(25, 35))
    late_by_s = W1.window_s / 15  # 4 min of an hour
    for share in (0, 25, 50):
        late = W1.setup(quick, W1.online, f"late={share / 100:g}", f"late_by={late_by_s:g}s")
        usual = online if share == 0 else late
        published = reported(40) if share == 0 else reported(25, 40)
        lines += _wrong(f"{share} % not on time", JCT_MEAN, usual, usual, published)
    return Figure(
        title="errors in predictions, W1",
        where="Fig. 13, section 6.5",
        lines=tuple(lines),
        scaled=(
            *smaller(quick, W1, online=True),
            f"jobs come up to {format_duration(late_by_s)} early or late, not 4 min",
        ),
        base=AGAINST,
    )


def _wrong(
    case: str, measure: Measure, own: Setup, base: Setup, published: Published
) -> tuple[Line, ...]:
    known = {("corral", measure.title): published}
    return against(BASE, CORRAL, (measure,), case=case, jobs=base, own=own, published=known)


# What Corral's paper leaves open: one choice at a time, and how far merged tasks are off.


#: {case: settings}; those of ``shuffle`` are Yarn-CS's, too.
_SETTINGS: dict[str, TextPairs] = {
    "as it is": (),
    "reduces start after all maps": (("shuffle.slowstart", "1"),),
    "idle slots of other racks are used": (("corral.work_conserving", "true"),),
    "half of Corral's slots may be reduces'": (("corral.reduce_share", "0.5"),),
    "a shuffle counts once a wave": (("corral.shuffle_in_waves", "true"),),
}
#: {case: options of the workload}
_JOBS = {
    "output written three times": ("output_replication=3",),
    "W1's jobs of up to 10,000 tasks": ("largest=10000",),
}
_SLOWER, _FASTER = 10e6, 40e6  #: a slot's rate, bytes/s
_EXACT_JOBS = 6


def choices(quick: bool) -> Figure:
    """W1's batch with one choice changed; if not quick W1 online, and W2's and W3's batch, too."""
    batch, online = W1.setup(quick, BATCH), W1.setup(quick, W1.online)
    lines: list[Line] = []
    for case, settings in _SETTINGS.items():
        both = case in ("as it is", "reduces start after all maps")
        lines += _makespan(f"W1: {case}", _set(batch, settings, both))
        if quick:
            continue
        lines += _times(f"W1: {case}", _set(online, settings, both))
        for each in (W2, W3):
            name = f"{each.name.upper()}: {case}"
            lines += _makespan(name, _set(each.setup(quick, BATCH), settings, both))
    for case, options in _JOBS.items():
        lines += _makespan(case, _same(W1.setup(quick, BATCH, *options)))
    for rate in (_SLOWER, _FASTER):
        case, on = f"slots of {rate / 1e6:.0f} MB/s", replace(W1.testbed(quick), rate=rate)
        jobs = f"jobs={W1.jobs}"
        lines += _makespan(case, _same(setup(W1.name, on, jobs, BATCH)))
        if not quick:
            lines += _times(case, _same(setup(W1.name, on, jobs, W1.online)))
    if not quick:
        lines += _times("W1 over 60 min", _same(W1.setup(quick, "window=3600s")))
    return Figure(
        title="one choice at a time",
        where="section 6.2",
        lines=tuple(lines),
        scaled=smaller(quick, *((W1,) if quick else (W1, W2, W3)), online=not quick),
        base=AGAINST,
    )


def coarsening(quick: bool) -> Figure:
    """What merging tasks changes; down to every task and flow of few jobs if not quick."""
    lines: list[Line] = []
    for grain in (48, 24) if quick else (48, 24, 12):
        on = W1.testbed(quick, grain)
        jobs = setup(W1.name, on, f"jobs={W1.jobs}", BATCH)
        lines += _makespan(f"{W1.jobs} jobs, {grain} tasks in 1", _same(jobs))
    for grain in () if quick else (48, 24, 12, 6, 1):
        on = Coarser(topology="corral-7x30", tasks=grain, machines=6 if grain > 1 else 1)
        jobs = setup(W1.name, on, f"jobs={_EXACT_JOBS}", BATCH)
        lines += _makespan(f"{_EXACT_JOBS} jobs, {grain} tasks in 1", _same(jobs))
    return Figure(
        title="tasks merged, W1",
        where="section 6.2.1",
        lines=tuple(lines),
        scaled=("100 jobs of W1, or 6 of them, in a batch",),
        base=AGAINST,
    )


_Pair = tuple[Setup, Setup]  #: Yarn-CS's, and Corral's


def _same(jobs: Setup) -> _Pair:
    return jobs, jobs


def _set(jobs: Setup, settings: TextPairs, both: bool) -> _Pair:
    own = jobs.with_settings(settings)
    return (own, own) if both else (jobs, own)


def _makespan(case: str, pair: _Pair) -> tuple[Line, ...]:
    base, own = pair
    return against(BASE, CORRAL, (MAKESPAN,), case=case, jobs=base, own=own)


def _times(case: str, pair: _Pair) -> tuple[Line, ...]:
    base, own = pair
    return against(BASE, CORRAL, (JCT_MEAN,), case=case, jobs=base, own=own)


# Corral's experiments: Fig. 6 to 14, and what the paper leaves open.
#
# Source: Jalaparti et al., Network-Aware Scheduling for Data-Parallel Jobs: Plan When You Can,
# SIGCOMM 2015, section 6.  Yarn-CS is ``capacity``.
#
# Not here: how Corral works (``resourcemanager.schedulers.corral``).  Open ``setups`` first.


PAPER = Paper(
    title="Corral (Jalaparti et al., SIGCOMM 2015)",
    figures={
        "fig6": figure_6,
        "fig7": figure_7,
        "fig8": figure_8,
        "fig9": figure_9,
        "fig10": figure_10,
        "fig11": figure_11,
        "fig12": figure_12,
        "fig13": figure_13,
        "fig14": figure_14,
        "choices": choices,
        "coarsening": coarsening,
    },
    seeds=7,
    quick_seeds=7,
    fewer_quick_seeds={
        **dict.fromkeys(("fig10", "fig11", "fig12", "fig13", "fig14"), 3),
        **dict.fromkeys(("choices", "coarsening"), 2),
    },
    first_seed=4,
)
