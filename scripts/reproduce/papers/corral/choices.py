"""What Corral's paper leaves open: one choice at a time, and how far merged tasks are off."""

from __future__ import annotations

from dataclasses import replace

from railyard.scripts.reproduce.figures import Figure, Line, Setup, against
from railyard.scripts.reproduce.measures import JCT_MEAN, MAKESPAN
from railyard.scripts.reproduce.papers.corral.setups import (
    AGAINST,
    BASE,
    BATCH,
    CORRAL,
    W1,
    W2,
    W3,
    setup,
    smaller,
)
from railyard.scripts.reproduce.smaller import Coarser
from railyard.scripts.terminal.options import TextPairs

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
