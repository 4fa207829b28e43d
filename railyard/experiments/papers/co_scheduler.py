"""Co-scheduler's experiments: Fig. 5 to 10, the delta and W of its sections II and VI, its load.

Source: Li and Shen, Co-Scheduler: A Coflow-Aware Data-Parallel Job Scheduler in Hybrid
Electrical/Optical Datacenter Networks, IEEE/ACM Transactions on Networking, 2022, section V.
All systems go with Sunflow, as there.

One reading of section V is behind all figures, the defaults of workload ``co-scheduler``: why, is
in docs/reproduce-co-scheduler.md.  The main table is made of every task and flow; all others have
four tasks in one, and figure ``coarsening`` says what that changes.  With more in one, a block
would be large enough for a circuit.  A quick figure has an eighth of the jobs, of the largest
job's size and of the machines: a quarter of the racks, each with half of the machines and half of
what its links and circuits carry.  With fewer racks, Fair's shuffles would have elephants, and a
larger job would be the makespan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from railyard.experiments.figures import (
    BETTER,
    WORSE,
    Coarser,
    Figure,
    Known,
    Line,
    Measured,
    Paper,
    Setup,
    figure,
    lines,
    topology_named,
)
from railyard.experiments.measures import (
    CCT_MEAN,
    COMPUTING,
    JCT_MEAN,
    MAKESPAN,
    SLOTS_USED,
    Job,
    but,
    job_time_s,
    moved_bytes,
    of_jobs,
    plain,
    reduction,
)
from railyard.jobs.workloads.swim import HEAVY_BYTES
from railyard.runs.figures import Summary
from railyard.runs.traces import traces_folder
from railyard.terminal.options import TextPairs

_TRACE = "swim/FB-2009_samples_24_times_1hr_0.tsv"
_TOPOLOGY = "co-scheduler-60x10"
#: The baselines by the paper's names: "Corral is equivalent to Fair when there are not any
#: recurring jobs" is ``corral-fair``.
_OURS, _FAIR, _CORRAL = "co-scheduler", "fair", "corral-fair"
_BASES = {_FAIR: "Fair", _CORRAL: "Corral"}
_TIMES = (MAKESPAN, JCT_MEAN, CCT_MEAN)
#: Section V-B: what Co-scheduler takes off the baselines' makespan, mean JCT and mean CCT.
_REDUCTIONS = {_FAIR: (56.0, 61.0, 79.0), _CORRAL: (44.0, 43.0, 63.0)}
_ON_CIRCUITS = {_FAIR: 2.2, _CORRAL: 33.0, _OURS: 95.2}
#: As printed: uniform in 90 minutes, and any job of the trace.
_PRINTED = ("arrivals=uniform", "shuffle_min=0B", "size_max=0B")
#: Predicts shuffles by equation 10, as printed.
_EQUATION_10: TextPairs = (("co-scheduler.shuffle_bound", "false"),)
#: Reduces that start after all maps.
_LATE: TextPairs = (("shuffle.slowstart", "1"),)
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
_SETTINGS: dict[str, TextPairs] = {
    "eq. 10 as printed": _EQUATION_10,
    "to the letter of Algorithm 2": (("co-scheduler.hold_out_s", "0"),),
    "guidelines even if slower": (("co-scheduler.only_if_faster", "false"),),
}
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
        scheduler=_OURS,
        flow_scheduler="sunflow",
        network=_EIGHTH if quick else (),
    )


def _coarse(quick: bool, *options: str) -> Setup:
    """The same with four tasks in one, for figures with many runs."""
    setup = exact(quick, f"grain={_COARSER.tasks}", *options)
    own = setup.network  # of a quick figure, whose racks have fewer machines
    return replace(setup, network=_COARSER.network()).with_network(own)


# Numbers -----------------------------------------------------------------------------------------
def share_on_circuits(run: Summary) -> float | None:
    """Of what shuffles send between racks, in %; no other flow is an elephant."""
    crossing = sum(int(job["cross_rack_shuffle_bytes"]) for job in run["jobs"])
    return _percent(run, "ocs", crossing) if crossing else None


def core_used(run: Summary) -> float | None:
    """What racks send by packets, in % of what their links carry until the last job ends."""
    racks = topology_named(run["topology"]).rack_list()
    return _percent(run, "eps", sum(rack.uplink_bytes_per_s for rack in racks) * run["makespan_s"])


def circuits_used(run: Summary) -> float | None:
    """What circuits carry, in % of what they could until the last job ends."""
    topology = topology_named(run["topology"])
    assert topology.ocs is not None
    most = len(topology.rack_list()) * topology.ocs.port_bytes_per_s * run["makespan_s"]
    return _percent(run, "ocs", most)


def _percent(run: Summary, way: str, whole: float) -> float | None:
    carried = moved_bytes(way)(run)
    return None if carried is None else 100.0 * carried / whole


_SHARE_ON_CIRCUITS = plain("on circuits", share_on_circuits)
_LOADS = (
    SLOTS_USED,
    COMPUTING,
    plain("core used", core_used),
    plain("circuits used", circuits_used),
)


# Lines -------------------------------------------------------------------------------------------
def _reductions(
    case: str, base: str, jobs: Setup, own: Setup | None = None, *, known: bool = True
) -> list[Line]:
    """By how much less Co-scheduler's times are; ``known``: with the paper's numbers."""
    percents = _REDUCTIONS.get(base, ()) if known else ()
    measured = dict.fromkeys(_TIMES) | dict(zip(_TIMES, percents, strict=False))
    return lines(case, jobs, {_OURS: measured}, base=base, own=own)


def _against_both(
    prefix: str, jobs: Setup, own: Setup | None = None, *, known: bool = True
) -> Iterator[list[Line]]:
    for base, name in _BASES.items():
        yield _reductions(f"{prefix}against {name}", base, jobs, own, known=known)


def _on_circuits(case: str, jobs: Setup) -> list[Line]:
    return lines(case, jobs, dict.fromkeys(_ON_CIRCUITS, (_SHARE_ON_CIRCUITS,)))


def _published_on_circuits(jobs: Setup) -> list[Line]:
    known = {name: {_SHARE_ON_CIRCUITS: share} for name, share in _ON_CIRCUITS.items()}
    return lines("", jobs, known)


def _loads(jobs: Setup) -> Iterator[list[Line]]:
    """How busy slots, packet switches and circuits are."""
    for measure in _LOADS:
        yield lines("load", jobs, dict.fromkeys(_ON_CIRCUITS, (measure,)))


def _itself(case: str, own: Setup, base: Setup, changes: dict[str, Known]) -> Iterator[list[Line]]:
    """Each system against itself on another network."""
    for name, change in changes.items():
        measured = {name: dict.fromkeys((JCT_MEAN, CCT_MEAN), change)}
        yield lines(case, base, measured, base=name, own=own)


def _switch(key: str, values: Sequence[str], jobs: Setup) -> Iterator[list[Line]]:
    for value in values:
        other = jobs.with_network(((key, value),))
        yield from _itself(f"{key} {value}", other, jobs, {_OURS: None})
        yield lines(f"{key} {value}", other, {_OURS: (_SHARE_ON_CIRCUITS,)})


def _of_weight(setup: Setup) -> Iterator[list[Line]]:
    """Shuffle-heavy jobs (section II-B) and all others; the paper has no numbers of them."""

    def is_heavy(job: Job) -> bool:
        return int(job["shuffle_bytes"]) >= HEAVY_BYTES

    for name, which in (("shuffle-heavy", is_heavy), ("others", but(is_heavy))):
        job_time = reduction("JCT mean", job_time_s("mean", which))
        coflow_time = reduction("CCT mean", of_jobs("cct_s", "mean", which))
        measured = {_OURS: dict.fromkeys((job_time, coflow_time), BETTER)}
        for base, papers in _BASES.items():
            yield lines(f"{name}, against {papers}", setup, measured, base=base)


def _choices(quick: bool) -> Iterator[list[Line]]:
    """One choice at a time."""
    for case, options in _JOBS.items():
        jobs = _coarse(quick, *options)
        yield from _against_both(f"{case}, ", jobs)
        yield _on_circuits(case, jobs)
    jobs = _coarse(quick)
    for case, settings in _SETTINGS.items():
        yield from _against_both(f"{case}, ", jobs, jobs.with_settings(settings))
    late = jobs.with_settings(_LATE)
    yield _reductions("reduces after all maps, against Fair", _FAIR, late, jobs)


def _recurring(quick: bool) -> Iterator[list[Line]]:
    """The share of jobs that recur, against Fair, to which it does not matter."""
    for share in (0.0, 0.5, 1.0):
        options = () if share == 0.5 else (f"recurring={share:g}",)
        measured: Measured = {
            _CORRAL: dict.fromkeys(_TIMES, BETTER if share else 0),
            _OURS: dict.fromkeys(_TIMES, BETTER),
        }
        yield lines(f"{share:.0%} recurring", _coarse(quick, *options), measured, base=_FAIR)


def _errors(jobs: Setup) -> Iterator[list[Line]]:
    """Errors in the time that tasks are estimated to need still."""
    at_half = {_FAIR: (43.0, 51.0), _CORRAL: (18.0, 21.0)}
    for error in (0.0, 0.25, 0.5):
        options = (("co-scheduler.remaining_error", f"{error:g}"),) if error else ()
        for base, (makespan, job_time) in at_half.items():
            known = {MAKESPAN: makespan, JCT_MEAN: job_time}
            yield lines(
                f"{error:.0%} wrong, against {_BASES[base]}",
                jobs,
                {_OURS: known if error == 0.5 else tuple(known)},
                base=base,
                own=jobs.with_settings(options),
            )


def _figures(quick: bool) -> dict[str, Figure]:
    jobs, printed, coarse = exact(quick), exact(quick, *_PRINTED), _coarse(quick)
    fewer = (
        ("125 jobs of at most 500 GB, on 15 racks of 5 machines, links and circuits half as fast",)
        if quick
        else ()
    )
    scaled = ("all jobs come at once, instead of within 90 minutes", *fewer)
    coarsely = (*scaled, *_COARSER.words())
    exactly, sweep = partial(figure, scaled=scaled), partial(figure, scaled=coarsely)
    part = "co-scheduler:dp+ocas"
    return {
        "fig5a": exactly(
            "makespan, job and coflow completion times",
            "Fig. 5(a), section V-B",
            [
                *_against_both("", jobs),
                *([] if quick else [_reductions("against Corral in queues", "corral", jobs)]),
                *_against_both("eq. 10 as printed, ", jobs, jobs.with_settings(_EQUATION_10)),
            ],
        ),
        "fig5b": exactly(
            "share of shuffles on circuits",
            "Fig. 5(b), section V-B",
            [_published_on_circuits(jobs)],
        ),
        "fig6": figure(
            "shuffle-heavy jobs and others", "Fig. 6, section V-B", _of_weight(jobs), scaled
        ),
        "load": exactly("load", "section V-A", _loads(jobs)),
        "printed": figure(
            "uniform in 90 minutes, any job",
            "Fig. 5, section V-B",
            [*_against_both("", printed), _published_on_circuits(printed), *_loads(printed)],
            fewer,
        ),
        "choices": figure(
            "other choices",
            "section V-A",
            _choices(quick),
            (
                "recurring jobs' shuffles predicted by eq. 2, what the busiest rack carries",
                "reduces after all maps: Fair's, so that coflows begin when the last map has ended",
                *coarsely,
            ),
        ),
        "coarsening": exactly(
            "tasks merged",
            "section V",
            [
                group
                for case, setup in (("exact", jobs), ("four tasks in one", coarse))
                for group in (
                    *_against_both(f"{case}, ", setup, known=False),
                    _on_circuits(case, setup),
                )
            ],
        ),
        "fig7": sweep(
            "Co-scheduler's parts",
            "Fig. 7, section V-C",
            [
                lines(
                    "",
                    coarse,
                    {
                        part: {MAKESPAN: 16, JCT_MEAN: 21, CCT_MEAN: 25},
                        _OURS: dict.fromkeys(_TIMES, BETTER),
                    },
                    base="co-scheduler:ocas",
                )
            ],
            base="OCAS alone",
        ),
        "fig8": sweep(  # for which the paper has words only
            "oversubscription",
            "Fig. 8, section V-D",
            [
                group
                for ratio, change in (("3", BETTER), ("5", BETTER), ("20", WORSE))
                for group in _itself(
                    f"{ratio}:1",
                    coarse.with_network((("oversubscription", ratio),)),
                    coarse,
                    {_FAIR: change, _CORRAL: change, _OURS: 0},
                )
            ],
            base="the same scheduler at 10:1",
        ),
        "fig9": sweep("recurring jobs", "Fig. 9, section V-D", _recurring(quick), base="Fair"),
        "fig10": sweep("errors of T_rem", "Fig. 10, section V-D", _errors(coarse)),
        "delta": sweep(  # the paper has 10 ms only
            "delta",
            "section II-B",
            _switch("delta", ("10us", "1ms", "100ms"), coarse),
            base="Co-scheduler at 10 ms",
        ),
        "wavelengths": sweep(  # the paper leaves it as future work
            "wavelengths",
            "section VI",
            _switch("wavelengths", ("2", "4"), coarse),
            base="Co-scheduler with one",
        ),
    }


_ONE_SEED = (
    *("printed", "choices", "coarsening"),
    *("fig7", "fig8", "fig9", "fig10", "delta", "wavelengths"),
)
PAPER = Paper(
    title="Co-scheduler (Li and Shen, IEEE/ACM Transactions on Networking, 2022)",
    figures=_figures,
    seeds=7,
    quick_seeds=7,
    fewer_quick_seeds=dict.fromkeys(_ONE_SEED, 1),
    first_seed=4,  # 1 to 3 were used to choose the reading
)
