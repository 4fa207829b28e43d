"""An experiment of a paper as data: its runs, the numbers of each, and the published ones.

A figure has lines; each is a number of one ``Setup``, or of its comparison with another one.
``Coarser`` makes its topology smaller.  Nothing is run here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from railyard.cluster.errors import require
from railyard.cluster.topology import Topology
from railyard.experiments.measures import Measure, topology_named
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
        return _pair(self.scheduler, self.flow_scheduler)

    def under(self, contender: str) -> Setup:
        """The same jobs under "SCHEDULER" or "SCHEDULER + FLOWSCHEDULER"."""
        pair = _pair(contender, self.flow_scheduler)
        return replace(self, scheduler=pair.scheduler, flow_scheduler=pair.flow_scheduler)

    def with_settings(self, settings: TextPairs) -> Setup:
        """The same with other values for settings of its schedulers."""
        together = dict(self.scheduler_options) | dict(settings)
        return replace(self, scheduler_options=tuple(together.items()))


@cache
def _pair(contender: str, flow_scheduler: str | None) -> Pair:
    """A contender's pair; cached, as whoever looks names up looks for plugins."""
    scheduler, own = typed_pair(contender)
    return pair_of(scheduler, own or flow_scheduler)


@dataclass(frozen=True)
class Published:
    """A number of the paper, or a range; an infinite end is open."""

    least: float
    most: float

    def off_by(self, value: float) -> float:
        """How far a value lies outside the range; 0 within it."""
        return max(0.0, value - self.most) - max(0.0, self.least - value)


#: Without a number in the paper: a reduction, or none.
BETTER = Published(0.0, math.inf)
WORSE = Published(-math.inf, 0.0)
#: As figures are written: a number, the ends of a range, or None where the paper has nothing.
Known = Published | float | tuple[float, float] | None


def published(known: Known) -> Published | None:
    """The paper's number as a range."""
    if known is None or isinstance(known, Published):
        return known
    return Published(*known) if isinstance(known, tuple) else Published(known, known)


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

    @property
    def setups(self) -> list[Setup]:
        """What is run for it."""
        return [setup for setup in (self.own, self.base, self.alone) if setup is not None]


#: {contender: its measures, with the published numbers if the paper has some}
Measured = Mapping[str, Mapping[Measure, Known] | Sequence[Measure]]


def lines(
    case: str,
    jobs: Setup,
    measured: Measured,
    *,
    base: str | None = None,
    own: Setup | None = None,
    alone: Setup | None = None,
) -> list[Line]:
    """One case of a figure: each contender's measures, against the baseline's if there is one.

    All run ``jobs``, but the contenders ``own`` if that is given.  They are named "SCHEDULER" or
    "SCHEDULER + FLOWSCHEDULER"; words after a comma say how their ``own`` differs.
    """
    return [
        Line(
            case=case,
            subject=contender,
            measure=measure,
            own=(own or jobs).under(contender.partition(",")[0]),
            base=None if base is None else jobs.under(base),
            published=published(known),
            alone=alone,
        )
        for contender, measures in measured.items()
        for measure, known in (
            measures if isinstance(measures, Mapping) else dict.fromkeys(measures)
        ).items()
    ]


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
        return list(dict.fromkeys(setup for line in self.lines for setup in line.setups))

    def only(self, cases: Sequence[str]) -> Figure:
        """The lines of these cases, or all if there are none."""
        chosen = tuple(line for line in self.lines if not cases or line.case in cases)
        return replace(self, lines=chosen)

    def with_settings(self, settings: TextPairs) -> Figure:
        """The same with other settings of schedulers, which its differences mention."""
        if not settings:
            return self
        changed = tuple(
            replace(
                line,
                own=line.own.with_settings(settings),
                base=line.base and line.base.with_settings(settings),
                alone=line.alone and line.alone.with_settings(settings),
            )
            for line in self.lines
        )
        words = f"settings: {', '.join(f'{key}={value}' for key, value in settings)}"
        return replace(self, lines=changed, scaled=(*self.scaled, words))


# Smaller -----------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class Coarser:
    """A topology with fewer and larger machines and slots.

    Times stay the same, and so does what limits them: a rack's slots x rate, its link to the core
    and the bytes of jobs.  ``tasks`` tasks become one, that many times larger, on a slot that much
    faster; ``machines`` machines become one with their slots and NICs.  Raises ``UsageError`` if
    that leaves parts of machines or slots.
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

    def _topology(self) -> Topology:
        return topology_named(self.topology)
