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

from dataclasses import replace
from functools import cache

from railyard.cluster.topology import Topology, load_topology
from railyard.scripts.reproduce.figures import Line, Published, Setup, against, reported
from railyard.scripts.reproduce.measures import (
    CCT_MEAN,
    JCT_MEAN,
    MAKESPAN,
    Measure,
    Quantity,
    Summary,
    moved_bytes,
    plain,
    show_percent,
)
from railyard.scripts.reproduce.smaller import Coarser
from railyard.scripts.simulating.fetch import traces_folder
from railyard.scripts.terminal.options import TextPairs

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
