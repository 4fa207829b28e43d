"""Co-scheduler's experiments as set-ups: the jobs, how coarse they are, and the numbers compared.

Source: Li and Shen, section V.  One reading of it is behind all figures, the defaults of workload
``co-scheduler``: why, is in docs/reproduce-co-scheduler.md.  The main table is made of every task
and flow; all others have four tasks in one, and figure ``coarsening`` says what that changes.  With
more in one, a block would be large enough for a circuit.  A quick figure has an eighth of the jobs,
of the largest job's size and of the machines: a quarter of the racks, each with half of the
machines and half of what its links and circuits carry.  With fewer racks, Fair's shuffles would
have elephants, and a larger job would be the makespan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

from railyard.cluster.topology import Topology, load_topology
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
    reported,
)
from railyard.experiments.measures import (
    CCT_MEAN,
    COMPUTING,
    JCT_MEAN,
    MAKESPAN,
    SLOTS_USED,
    Job,
    Measure,
    Quantity,
    Summary,
    but,
    job_time_s,
    moved_bytes,
    of_jobs,
    plain,
    reduction,
    show_percent,
)
from railyard.jobs.workloads.swim import HEAVY_BYTES
from railyard.runs.traces import traces_folder
from railyard.terminal.options import TextPairs

_TRACE = "swim/FB-2009_samples_24_times_1hr_0.tsv"
_TOPOLOGY = "co-scheduler-60x10"
#: The baselines by the paper's names: "Corral is equivalent to Fair when there are not any
#: recurring jobs" is ``corral-fair``.
OURS, FAIR, CORRAL = "co-scheduler", "fair", "corral-fair"
BASES = {FAIR: "Fair", CORRAL: "Corral"}
TIMES = (MAKESPAN, JCT_MEAN, CCT_MEAN)
#: Section V-B: what Co-scheduler takes off the baselines' makespan, mean JCT and mean CCT.
REDUCTIONS = {FAIR: (56.0, 61.0, 79.0), CORRAL: (44.0, 43.0, 63.0)}
ON_CIRCUITS = {FAIR: 2.2, CORRAL: 33.0, OURS: 95.2}
#: As printed: uniform in 90 minutes, and any job of the trace.
PRINTED = ("arrivals=uniform", "shuffle_min=0B", "size_max=0B")
#: Predicts shuffles by equation 10, as printed.
EQUATION_10: TextPairs = (("co-scheduler.shuffle_bound", "false"),)
_COARSER = Coarser(topology=_TOPOLOGY, tasks=4)
_EIGHTH: TextPairs = (
    ("racks.count", "15"),
    ("racks.nodes", "5"),
    ("oversubscription", "10"),
    ("ocs.port_bytes_per_s", "50Gbps"),
)


# Jobs --------------------------------------------------------------------------------------------
def exact(quick: bool, *options: str) -> Setup:
    """The jobs of the reading, with other options; every task and flow."""
    few = {"jobs": "125", "size_max": "500GB"} if quick else {}
    asked = few | dict(option.split("=") for option in options)
    return Setup(
        workload=",".join(
            [f"co-scheduler:{traces_folder() / _TRACE}", *(f"{key}={asked[key]}" for key in asked)]
        ),
        topology=_TOPOLOGY,
        scheduler=OURS,
        flow_scheduler="sunflow",
        network=_EIGHTH if quick else (),
    )


def coarse(quick: bool, *options: str) -> Setup:
    """The same with four tasks in one, for figures with many runs."""
    setup = exact(quick, f"grain={_COARSER.tasks}", *options)
    own = dict(setup.network)  # of a quick figure, whose racks have fewer machines
    return replace(setup, network=tuple((dict(_COARSER.network()) | own).items()))


def exact_words(quick: bool) -> tuple[str, ...]:
    """How ``exact`` differs from the paper, as far as its text goes."""
    fewer = (
        ("125 jobs of at most 500 GB, on 15 racks of 5 machines, links and circuits half as fast",)
        if quick
        else ()
    )
    return ("all jobs come at once, instead of within 90 minutes", *fewer)


def coarse_words(quick: bool) -> tuple[str, ...]:
    """How ``coarse`` does."""
    return (*exact_words(quick), *_COARSER.words())


def with_network(setup: Setup, key: str, value: str) -> Setup:
    """The same on a network with another value."""
    return replace(setup, network=tuple({**dict(setup.network), key: value}.items()))


# Numbers -----------------------------------------------------------------------------------------
def share_on_circuits(run: Summary) -> float | None:
    """Of what shuffles send between racks, in %; no other flow is an elephant."""
    crossing = sum(int(job["cross_rack_shuffle_bytes"]) for job in run["jobs"])
    carried = moved_bytes("ocs")(run)
    return None if carried is None or not crossing else 100.0 * carried / crossing


def core_used(run: Summary) -> float | None:
    """What racks send by packets, in % of what their links carry until the last job ends."""
    racks = _topology(run["topology"]).rack_list()
    most = sum(rack.uplink_bytes_per_s for rack in racks) * run["makespan_s"]
    return _percent(moved_bytes("eps")(run), most)


def circuits_used(run: Summary) -> float | None:
    """What circuits carry, in % of what they could until the last job ends."""
    topology = _topology(run["topology"])
    assert topology.ocs is not None
    most = len(topology.rack_list()) * topology.ocs.port_bytes_per_s * run["makespan_s"]
    return _percent(moved_bytes("ocs")(run), most)


@cache
def _topology(name: str) -> Topology:
    return load_topology(name)


def _percent(part: float | None, whole: float) -> float | None:
    return None if part is None else 100.0 * part / whole


def _share(title: str, quantity: Quantity) -> Measure:
    return plain(title, "%", quantity, show_percent)


SHARE_ON_CIRCUITS = _share("on circuits", share_on_circuits)
CORE_USED = _share("core used", core_used)
CIRCUITS_USED = _share("circuits used", circuits_used)


# Lines -------------------------------------------------------------------------------------------
def reductions(
    base: str, setup: Setup, case: str, own: Setup | None = None, *, known: bool = True
) -> tuple[Line, ...]:
    """By how much less Co-scheduler's times are; ``known``: with the paper's numbers."""
    percents = REDUCTIONS.get(base, ()) if known else ()
    published = {
        (OURS, measure.title): reported(percent)
        for measure, percent in zip(TIMES, percents, strict=False)
    }
    return against(base, (OURS,), TIMES, case=case, jobs=setup, own=own, published=published)


def number(
    measure: Measure, scheduler: str, setup: Setup, case: str, published: Published | None = None
) -> Line:
    """A number of one scheduler's run."""
    return Line(
        case=case,
        subject=scheduler,
        measure=measure,
        own=setup.under(scheduler),
        base=None,
        published=published,
    )


# Fig. 5 and 6 of Co-scheduler's paper: the main table.


def _is_heavy(job: Job) -> bool:
    """Shuffle-heavy: section II-B."""
    return int(job["shuffle_bytes"]) >= HEAVY_BYTES


def figure_5a(quick: bool) -> Figure:
    """Makespan, mean JCT and mean CCT against both baselines, and with equation 10 as printed."""
    setup = exact(quick)
    literally = setup.with_settings(EQUATION_10)
    lines: list[Line] = []
    for base, name in BASES.items():
        lines += reductions(base, setup, f"against {name}")
    if not quick:
        lines += reductions("corral", setup, "against Corral in queues")
    for base, name in BASES.items():
        lines += reductions(base, setup, f"eq. 10 as printed, against {name}", literally)
    return Figure(
        title="makespan, job and coflow completion times",
        where="Fig. 5(a), section V-B",
        lines=tuple(lines),
        scaled=exact_words(quick),
    )


def figure_5b(quick: bool) -> Figure:
    """The share of shuffled bytes that circuits carry."""
    setup = exact(quick)
    return Figure(
        title="share of shuffles on circuits",
        where="Fig. 5(b), section V-B",
        lines=tuple(
            number(SHARE_ON_CIRCUITS, each, setup, "", reported(share))
            for each, share in ON_CIRCUITS.items()
        ),
        scaled=exact_words(quick),
    )


def figure_6(quick: bool) -> Figure:
    """Shuffle-heavy jobs and all others; the paper has no numbers, but all are improvements."""
    setup = exact(quick)
    lines: list[Line] = []
    for name, which in (("shuffle-heavy", _is_heavy), ("others", but(_is_heavy))):
        job_time = reduction("JCT mean", job_time_s("mean", which), format_duration)
        coflow_time = reduction("CCT mean", of_jobs("cct_s", "mean", which), format_duration)
        measures = (job_time, coflow_time)
        for base, papers in BASES.items():
            better = {(OURS, measure.title): BETTER for measure in measures}
            case = f"{name}, against {papers}"
            lines += against(base, (OURS,), measures, case=case, jobs=setup, published=better)
    return Figure(
        title="shuffle-heavy jobs and others",
        where="Fig. 6, section V-B",
        lines=tuple(lines),
        scaled=exact_words(quick),
    )


# What Co-scheduler's paper leaves open: the load, the set-up as printed, and other choices.


#: Other jobs: {case: options of the workload}
_JOBS = {
    "the reading": (),
    "within 55 s": ("arrivals=uniform", "window=55s"),
    "output three times": ("output_replication=3",),
    "20 MB/s a slot": ("map_rate=20MB/s", "reduce_rate=20MB/s"),
    "jobs that do not shuffle, too": ("shuffle_min=0B",),
    "jobs of 4 TB and more, too": ("size_max=0B",),
}
#: Other settings: {case: settings}
_SETTINGS = {
    "eq. 10 as printed": EQUATION_10,
    "to the letter of Algorithm 2": (("co-scheduler.hold_out_s", "0"),),
    "guidelines even if slower": (("co-scheduler.only_if_faster", "false"),),
}
_LATE = (("shuffle.slowstart", "1"),)


def load(quick: bool) -> Figure:
    """How busy slots, packet switches and circuits are."""
    return Figure(
        title="load",
        where="section V-A",
        lines=_loads(exact(quick)),
        scaled=exact_words(quick),
    )


def printed(quick: bool) -> Figure:
    """Fig. 5 with the jobs as the text has them, and how busy the cluster then is."""
    setup = exact(quick, *PRINTED)
    lines: list[Line] = []
    for base, name in BASES.items():
        lines += reductions(base, setup, f"against {name}")
    lines += [
        number(SHARE_ON_CIRCUITS, name, setup, "", reported(share))
        for name, share in ON_CIRCUITS.items()
    ]
    return Figure(
        title="uniform in 90 minutes, any job",
        where="Fig. 5, section V-B",
        lines=(*lines, *_loads(setup)),
        scaled=exact_words(quick)[1:],  # without that jobs come at once
    )


def _loads(setup: Setup) -> tuple[Line, ...]:
    measures = (SLOTS_USED, COMPUTING, CORE_USED, CIRCUITS_USED)
    return tuple(
        number(measure, each, setup, "load") for measure in measures for each in ON_CIRCUITS
    )


def choices(quick: bool) -> Figure:
    """One choice at a time."""
    lines: list[Line] = []
    for case, options in _JOBS.items():
        setup = coarse(quick, *options)
        for base, name in BASES.items():
            lines += reductions(base, setup, f"{case}, against {name}")
        lines += [number(SHARE_ON_CIRCUITS, each, setup, case) for each in ON_CIRCUITS]
    setup = coarse(quick)
    for case, settings in _SETTINGS.items():
        own = setup.with_settings(settings)
        for base, name in BASES.items():
            lines += reductions(base, setup, f"{case}, against {name}", own)
    late = setup.with_settings(_LATE)
    lines += reductions(FAIR, late, "reduces after all maps, against Fair", setup)
    return Figure(
        title="other choices",
        where="section V-A",
        lines=tuple(lines),
        scaled=(
            "recurring jobs' shuffles predicted by eq. 2, what the busiest rack carries",
            "reduces after all maps: Fair's, so that coflows begin when the last map has ended",
            *coarse_words(quick),
        ),
    )


def coarsening(quick: bool) -> Figure:
    """What four tasks in one change."""
    lines: list[Line] = []
    for case, setup in {"exact": exact(quick), "four tasks in one": coarse(quick)}.items():
        for base, name in BASES.items():
            lines += reductions(base, setup, f"{case}, against {name}", known=False)
        lines += [number(SHARE_ON_CIRCUITS, each, setup, case) for each in ON_CIRCUITS]
    return Figure(
        title="tasks merged",
        where="section V",
        lines=tuple(lines),
        scaled=exact_words(quick),
    )


# Fig. 7 to 10 of Co-scheduler's paper, the delay and the wavelengths of circuits: many runs.


_SAME = reported(0)


def figure_7(quick: bool) -> Figure:
    """Co-scheduler without some of its parts."""
    part = "co-scheduler:dp+ocas"
    published = {
        (part, measure.title): reported(percent)
        for measure, percent in zip(TIMES, (16, 21, 25), strict=True)
    } | {(OURS, measure.title): BETTER for measure in TIMES}
    lines = against(
        "co-scheduler:ocas", (part, OURS), TIMES, case="", jobs=coarse(quick), published=published
    )
    return Figure(
        title="Co-scheduler's parts",
        where="Fig. 7, section V-C",
        lines=lines,
        scaled=coarse_words(quick),
        base="OCAS alone",
    )


def figure_8(quick: bool) -> Figure:
    """Oversubscription: each system against itself at 10:1, for which the paper has words only."""
    setup = coarse(quick)
    lines: list[Line] = []
    for ratio, change in ((3, BETTER), (5, BETTER), (20, WORSE)):
        other = with_network(setup, "oversubscription", str(ratio))
        changes = {FAIR: change, CORRAL: change, OURS: _SAME}
        lines += _against_itself(other, setup, f"{ratio}:1", changes)
    return Figure(
        title="oversubscription",
        where="Fig. 8, section V-D",
        lines=tuple(lines),
        scaled=coarse_words(quick),
        base="the same scheduler at 10:1",
    )


def figure_9(quick: bool) -> Figure:
    """The share of jobs that recur, against Fair, to which it does not matter."""
    lines: list[Line] = []
    for share in (0.0, 0.5, 1.0):
        setup = coarse(quick, *(() if share == 0.5 else (f"recurring={share:g}",)))
        published = {(OURS, measure.title): BETTER for measure in TIMES}
        published |= {(CORRAL, measure.title): BETTER if share else _SAME for measure in TIMES}
        case = f"{share:.0%} recurring"
        lines += against(FAIR, (CORRAL, OURS), TIMES, case=case, jobs=setup, published=published)
    return Figure(
        title="recurring jobs",
        where="Fig. 9, section V-D",
        lines=tuple(lines),
        scaled=coarse_words(quick),
        base="Fair",
    )


def figure_10(quick: bool) -> Figure:
    """Errors in the time that tasks are estimated to need still."""
    setup = coarse(quick)
    lines: list[Line] = []
    at_half = {FAIR: (43.0, 51.0), CORRAL: (18.0, 21.0)}
    measures = (MAKESPAN, JCT_MEAN)
    for error in (0.0, 0.25, 0.5):
        options = (("co-scheduler.remaining_error", f"{error:g}"),) if error else ()
        for base, percents in at_half.items():
            lines += against(
                base,
                (OURS,),
                measures,
                case=f"{error:.0%} wrong, against {BASES[base]}",
                jobs=setup,
                own=replace(setup, scheduler_options=options),
                published={
                    (OURS, measure.title): reported(percent)
                    for measure, percent in zip(measures, percents, strict=True)
                    if error == 0.5
                },
            )
    return Figure(
        title="errors of T_rem",
        where="Fig. 10, section V-D",
        lines=tuple(lines),
        scaled=coarse_words(quick),
    )


def delta(quick: bool) -> Figure:
    """The reconfiguration delay; the paper has 10 ms only."""
    delays = ("10us", "1ms", "100ms")
    return _of_switch("delta", delays, "section II-B", "Co-scheduler at 10 ms", quick)


def wavelengths(quick: bool) -> Figure:
    """How many circuits a rack has at a time; the paper leaves it as future work."""
    return _of_switch("wavelengths", ("2", "4"), "section VI", "Co-scheduler with one", quick)


def _of_switch(key: str, values: Sequence[str], where: str, base: str, quick: bool) -> Figure:
    setup = coarse(quick)
    lines: list[Line] = []
    for value in values:
        other = with_network(setup, key, value)
        lines += _against_itself(other, setup, f"{key} {value}", {OURS: None})
        lines.append(number(SHARE_ON_CIRCUITS, OURS, other, f"{key} {value}"))
    return Figure(title=key, where=where, lines=tuple(lines), scaled=coarse_words(quick), base=base)


def _against_itself(
    own: Setup, base: Setup, case: str, published: Mapping[str, Published | None]
) -> list[Line]:
    lines: list[Line] = []
    for name, change in published.items():
        measures = (JCT_MEAN, CCT_MEAN)
        known = {(name, measure.title): change for measure in measures if change is not None}
        lines += against(name, (name,), measures, case=case, jobs=base, own=own, published=known)
    return lines


# Co-scheduler's experiments: Fig. 5 to 10, the delta and W of its sections II and VI, its load.
#
# Source: Li and Shen, Co-Scheduler: A Coflow-Aware Data-Parallel Job Scheduler in Hybrid
# Electrical/Optical Datacenter Networks, IEEE/ACM Transactions on Networking, 2022, section V.
# All systems go with Sunflow, as there.
#
# Not here: how Co-scheduler works (``resourcemanager.schedulers.co_scheduler``).
# Open ``setups`` first.


PAPER = Paper(
    title="Co-scheduler (Li and Shen, IEEE/ACM Transactions on Networking, 2022)",
    figures={
        "fig5a": figure_5a,
        "fig5b": figure_5b,
        "fig6": figure_6,
        "load": load,
        "printed": printed,
        "choices": choices,
        "coarsening": coarsening,
        "fig7": figure_7,
        "fig8": figure_8,
        "fig9": figure_9,
        "fig10": figure_10,
        "delta": delta,
        "wavelengths": wavelengths,
    },
    seeds=7,
    quick_seeds=7,
    fewer_quick_seeds=dict.fromkeys(
        (
            "printed",
            "choices",
            "coarsening",
            "fig7",
            "fig8",
            "fig9",
            "fig10",
            "delta",
            "wavelengths",
        ),
        1,
    ),
    first_seed=4,  # 1 to 3 were used to choose the reading
)
