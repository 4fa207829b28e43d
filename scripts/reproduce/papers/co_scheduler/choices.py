"""What Co-scheduler's paper leaves open: the load, the set-up as printed, and other choices."""

from __future__ import annotations

from railyard.scripts.reproduce.figures import Figure, Line, Setup, reported
from railyard.scripts.reproduce.measures import COMPUTING, SLOTS_USED
from railyard.scripts.reproduce.papers.co_scheduler.setups import (
    BASES,
    CIRCUITS_USED,
    CORE_USED,
    EQUATION_10,
    FAIR,
    ON_CIRCUITS,
    PRINTED,
    SHARE_ON_CIRCUITS,
    coarse,
    coarse_words,
    exact,
    exact_words,
    number,
    reductions,
)

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
