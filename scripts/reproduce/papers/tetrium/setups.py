"""What Tetrium's experiments run: its two loads, the jobs of both of its clusters, and 50 sites.

"as read" has what the paper says and what the workloads chose where it says nothing: there links
decide nearly alone, and slots are held by tasks that fetch.  In the paper slots do more than
bandwidth (6.4), so "waves" has slots that work at a twentieth of the rate and jobs that come
further apart: tasks queue for slots, in several waves, and links are free now and then.
In both, jobs of more stages are larger: the paper's order of jobs takes the number of stages left
"as a proxy for" the work that is left (4.1).
Left open there, chosen here: both loads' rates and gaps, for "waves" after three had been tried
on 8 sites, and how sizes follow stages, all with the paper's numbers in view:
docs/reproduce-tetrium.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from railyard.cluster.topology import load_topology
from railyard.scripts.reproduce.figures import Line, Setup
from railyard.scripts.reproduce.measures import COMPUTING, LINKS_USED, SLOTS_USED
from railyard.scripts.terminal.options import TextPairs
from railyard.simulator.nodes.behaviour import Behaviour

OURS, IN_PLACE, IRIDIUM = "tetrium", "in-place", "iridium"
_USE = (SLOTS_USED, COMPUTING, LINKS_USED)
#: Of 6.3: "we simulate a 50-site setting"; these many tasks become one, on slots as much faster.
_GRAIN = 10
_TRACED_QUICK = 24  #: jobs


@dataclass(frozen=True, kw_only=True)
class Load:
    """How busy sites are."""

    name: str
    slower: float  #: slots work at the topology's rate by this
    gap_s: dict[int, float]  #: {number of sites: mean time between two jobs}
    slots_by: int = 1  #: of 50 sites, slots by this
    words: str = ""


_AS_READ = Load(name="as read", slower=1, gap_s={8: 10, 30: 10, 50: 10})
WAVES = Load(
    name="waves",
    slower=20,
    gap_s={8: 40, 30: 10, 50: 5},
    slots_by=50,
    words="waves: slots work at a twentieth of the rate; jobs come 40 s apart on 8 sites, 10 s on "
    "30, 5 s on 50, which have a fiftieth of the slots",
)
LOADS = (_AS_READ, WAVES)
_SIZES_WORDS = "jobs of more stages are larger, as their number is to stand for the work (4.1)"


# Jobs --------------------------------------------------------------------------------------------
def queries(kind: str, sites: int, load: Load, quick: bool) -> Setup:
    """The jobs of the deployment (6.2)."""
    count = 12 if quick else 50
    return Setup(
        workload=f"tetrium-{kind},jobs={count},sites={sites},gap={load.gap_s[sites]:g}s",
        topology=f"tetrium-{sites}",
        scheduler=OURS,
        network=_rates(load.slower),
        behaviour=Behaviour(progress_s=0),
    )


def _rates(slower: float) -> TextPairs:
    """Of slots; section 2.2 has a map of 100 MB in 2 s, a reduce of as much in 1 s."""
    if slower == 1:
        return ()
    return tuple(
        (f"compute.{key}", f"{rate / slower:g}MB/s")
        for key, rate in (("map_rate", 50), ("reduce_rate", 100))
    )


def traced(load: Load, quick: bool, *options: str) -> Setup:
    """The jobs of the simulation (6.3), in coarse tasks."""
    count = _TRACED_QUICK if quick else 60
    own = (f"jobs={count}", f"gap={load.gap_s[50]:g}s", f"grain={_GRAIN}")
    return Setup(
        workload=",".join(("tetrium", *own, *options)),
        topology="tetrium-50",
        scheduler=OURS,
        network=fifty_sites(load, {}),
        behaviour=Behaviour(progress_s=0),
    )


def fifty_sites(load: Load, slots: dict[str, float], links: TextPairs = ()) -> TextPairs:
    """The 50 sites: coarse slots, of a load; ``slots`` of each site, if not the topology's."""
    racks = load_topology("tetrium-50").rack_list()
    own = {rack.id: slots.get(rack.id, rack.nodes[0].slots) for rack in racks}
    return (
        *((f"rack.{rack}.slots", str(_coarse(number, load))) for rack, number in own.items()),
        ("storage.block", f"{100 * _GRAIN}MB"),
        *_rates(load.slower / _GRAIN),
        *links,
    )


def _coarse(slots: float, load: Load) -> int:
    return max(1, round(slots / load.slots_by / _GRAIN))


def queries_words(quick: bool) -> tuple[str, ...]:
    """How the deployment differs from the paper's."""
    fewer = ("12 jobs instead of 50",) if quick else ()
    return (*fewer, _SIZES_WORDS, WAVES.words)


def traced_words(quick: bool) -> tuple[str, ...]:
    """How the simulation differs from the paper's."""
    return (
        f"{_TRACED_QUICK if quick else 60} jobs of our own, as the trace is not public",
        f"every {_GRAIN} tasks are one, that much larger, on slots that much faster",
        _SIZES_WORDS,
        WAVES.words,
    )


# Lines -------------------------------------------------------------------------------------------
def use(jobs: Setup, case: str, rivals: Sequence[str]) -> list[Line]:
    """How busy slots and links are."""
    return [
        Line(case=case, subject=rival, measure=measure, own=jobs.under(rival), base=None)
        for rival in rivals
        for measure in _USE
    ]
