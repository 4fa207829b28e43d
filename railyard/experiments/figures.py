"""An experiment of a paper as data: its runs, the numbers of each, and the published ones.

A figure has lines; each is a number of one ``Setup``, or of its comparison with another one.
Nothing is run here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from railyard.cluster.errors import require
from railyard.cluster.topology import Topology, load_topology
from railyard.experiments.measures import Measure
from railyard.runs.config import Pair, coarse_network, grain_of, pair_of, typed_pair
from railyard.simulator.behaviour import Behaviour
from railyard.terminal.options import TextPairs


@dataclass(frozen=True, kw_only=True)
class Setup:
    """A run without its seed.  Equal setups run once, however many figures need them."""

    workload: str  #: as ``railyard simulate --workload`` takes it
    topology: str
    scheduler: str
    flow_scheduler: str | None = None  #: None: the one that its scheduler goes with
    network: TextPairs = ()  #: changed settings of the topology
    #: settings of this scheduler, or of those that it is compared with
    scheduler_options: TextPairs = ()
    behaviour: Behaviour = field(default_factory=Behaviour)
    faults: str | None = None  #: as ``railyard simulate --faults`` takes them

    @property
    def coarse(self) -> str:
        """How its runs are coarser than one with every task and flow; "" = they are exact."""
        merged = grain_of(self.workload)
        tasks = [f"{merged} tasks in 1"] if merged > 1 else []
        return " and ".join(
            [*tasks, *(["blocks or ends merged"] if self.behaviour.is_coarse else [])]
        )

    @property
    def pair(self) -> Pair:
        """Its scheduler and flow scheduler; raises ``UsageError`` for what does not exist."""
        return pair_of(self.scheduler, self.flow_scheduler)

    def under(self, contender: str) -> Setup:
        """The same jobs under "SCHEDULER" or "SCHEDULER + FLOWSCHEDULER"."""
        scheduler, flows = typed_pair(contender)
        pair = pair_of(scheduler, flows or self.flow_scheduler)
        return replace(self, scheduler=pair.scheduler, flow_scheduler=pair.flow_scheduler)

    def with_settings(self, settings: TextPairs) -> Setup:
        """The same with other values for the settings that it has."""
        together = dict(self.scheduler_options) | dict(settings)
        return replace(self, scheduler_options=tuple(together.items()))


@dataclass(frozen=True, kw_only=True)
class Published:
    """A number of the paper, or a range; an infinite end is open."""

    least: float
    most: float

    def off_by(self, value: float) -> float:
        """How far a value lies outside the range; 0 within it."""
        return max(0.0, value - self.most) - max(0.0, self.least - value)


def reported(least: float, most: float | None = None) -> Published:
    """A number that the paper reports, or the ends of a range."""
    return Published(least=least, most=least if most is None else most)


#: Without a number in the paper: a reduction, or none.
BETTER = Published(least=0.0, most=math.inf)
WORSE = Published(least=-math.inf, most=0.0)


@dataclass(frozen=True, kw_only=True)
class Line:
    """One number of a figure."""

    case: str  #: "W1", or a value on the x-axis as in "background 67 %"
    subject: str  #: the schedulers with this number: "corral", "corral + varys"
    measure: Measure
    own: Setup
    base: Setup | None  #: the baseline, seed by seed; None = none
    published: Published | None = None  #: None: the paper has no such number
    #: the same jobs far apart, for measures of how much longer they take than alone
    alone: Setup | None = None


@dataclass(frozen=True, kw_only=True)
class Figure:
    """An experiment: lines under one title."""

    title: str
    where: str  #: "Fig. 6, section 6.2.1"
    lines: tuple[Line, ...]
    scaled: tuple[str, ...] = ()  #: how it differs from the paper's, such as by fewer jobs
    base: str = ""  #: what reductions are against, for the reader

    def setups(self) -> list[Setup]:
        """The setups of all lines, each once."""
        runs = (run for line in self.lines for run in (line.own, line.base, line.alone))
        return list(dict.fromkeys(run for run in runs if run is not None))

    def only(self, cases: Sequence[str]) -> Figure:
        """The lines of these cases, or all if there are none."""
        lines = tuple(line for line in self.lines if not cases or line.case in cases)
        return replace(self, lines=lines)

    def with_settings(self, settings: TextPairs) -> Figure:
        """The same with other settings of schedulers, which its differences mention."""
        lines = tuple(
            replace(
                line,
                own=line.own.with_settings(settings),
                base=line.base and line.base.with_settings(settings),
                alone=line.alone and line.alone.with_settings(settings),
            )
            for line in self.lines
        )
        words = [f"settings: {', '.join(f'{key}={value}' for key, value in settings)}"]
        return replace(self, lines=lines, scaled=(*self.scaled, *words)) if settings else self


@dataclass(frozen=True, kw_only=True)
class Paper:
    """A paper and its experiments."""

    title: str  #: "Jalaparti et al., SIGCOMM 2015"
    #: name on the command line -> makes the figure, or a quick version of it if True
    figures: Mapping[str, Callable[[bool], Figure]]
    seeds: int = 3  #: of each run, if nobody asks for another number
    quick_seeds: int = 2
    #: quick figures that have fewer seeds, as they need many runs: {name: how many}
    fewer_quick_seeds: Mapping[str, int] = field(default_factory=dict)
    #: those before it were used to choose what the paper leaves open, and are not reported
    first_seed: int = 1

    def seeds_of(self, quick: bool, figure: str) -> range:
        """The seeds of each run of a figure, unless others are asked for."""
        many = self.fewer_quick_seeds.get(figure, self.quick_seeds) if quick else self.seeds
        return range(self.first_seed, self.first_seed + many)


#: (contender, measure's title) -> the published number
PublishedBy = Mapping[tuple[str, str], Published]


def against(
    base: str,
    rivals: Sequence[str],
    measures: Sequence[Measure],
    *,
    case: str,
    jobs: Setup,
    own: Setup | None = None,
    published: PublishedBy | None = None,
) -> tuple[Line, ...]:
    """Each rival's measures against the baseline's; one case of a figure.

    All run ``jobs``, but rivals ``own`` if that is given.  Contenders are named "SCHEDULER" or
    "SCHEDULER + FLOWSCHEDULER".
    """
    known = published or {}
    return tuple(
        Line(
            case=case,
            subject=rival,
            measure=measure,
            own=(own or jobs).under(rival),
            base=jobs.under(base),
            published=known.get((rival, measure.title)),
        )
        for rival in rivals
        for measure in measures
    )


# Makes an experiment smaller: fewer jobs, coarser tasks, fewer machines; and says so.
#
# Times stay the same, and so does what limits them: a rack's slots x rate, its link to the core and
# the bytes of jobs.  ``tasks`` tasks become one, that many times larger, on a slot that much
# faster; ``machines`` machines become one with their slots and NICs.


@dataclass(frozen=True, kw_only=True)
class Coarser:
    """A topology with fewer and larger machines and slots.

    Raises ``UsageError`` if that leaves parts of machines or slots.
    """

    topology: str
    tasks: int = 1  #: how many become one; of the workload: its option "grain"
    machines: int = 1  #: how many become one, in each rack
    rate: float | None = None  #: of a slot before that, bytes/s; None = the topology's

    def __post_init__(self) -> None:
        racks = self._topology().racks
        wanted, what = racks.nodes / self.machines, f"{self.topology}: machines"
        require(wanted.is_integer(), what, self.machines, f"what divides {racks.nodes}")
        slots = racks.slots * self.machines / self.tasks
        what = f"{self.topology}: tasks"
        require(slots.is_integer(), what, self.tasks, f"what divides {racks.slots * self.machines}")

    def network(self) -> TextPairs:
        """The settings of the topology to change."""
        return coarse_network(self._topology(), self.tasks, self.machines, self.rate)

    def words(self) -> tuple[str, ...]:
        """How it differs from the paper's, a phrase for each difference."""
        racks, words = self._topology().racks, []
        if self.tasks > 1:
            words.append(
                f"every {self.tasks} tasks are one, that much larger, on slots that much faster"
            )
        if self.machines > 1:
            words.append(
                f"{racks.nodes // self.machines} machines a rack instead of {racks.nodes}, "
                "with the same slots and NICs in all"
            )
        return tuple(words)

    def _topology(self) -> Topology:
        return load_topology(self.topology)


def fewer_jobs(ours: int, papers: int) -> tuple[str, ...]:
    """The phrase for a number of jobs that differs from the paper's."""
    return () if ours == papers else (f"{ours} jobs instead of {papers}",)
