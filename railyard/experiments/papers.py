"""The papers with reproducible experiments: ``tables/*.toml``, and how a table becomes figures.

A paper's file has everything that is its own: whose it is, seeds, set-ups, figures with the
published numbers, what is said of them.  A figure is made of ``Block``s: which set-up, what is
changed in it, which contenders, against which baseline, by which measures, and a table over which
all of that is repeated.  What is in braces is replaced by the value of that name.  What figures are
made of is in ``experiments.figures``, how they are run in ``experiments.reproduction``.
Open ``tables/joint.toml`` first.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from railyard.cluster.errors import unknown_name
from railyard.experiments.figures import (
    BETTER,
    WORSE,
    Coarser,
    Figure,
    Known,
    Line,
    Setup,
    WhichJobs,
    in_range,
    lines,
    measures_of,
    named,
    topology_named,
)
from railyard.runs.config import grain_of
from railyard.runs.traces import traces_folder
from railyard.simulator.behaviour import Behaviour

#: The names of the papers, as the command line has them; each has a file in ``tables``.
PAPERS = ("co-scheduler", "corral", "joint", "shadow", "tetrium")

Scalar = str | int | float
Values = Mapping[str, str]  #: what names in braces stand for


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of a file; a key that it does not have is refused."""


class Sites(_Table, frozen=True):
    """Settings for slots and links of each site; in all as many as the topology has."""

    merged: float  #: slots that become one; each site has one at least
    slots_zipf: str = ""  #: the exponent of the sites' shares; "" = the topology's slots
    links_zipf: str = ""  #: of their shares of all uplinks, both up and down; "" = its links
    links_apart: str = ""  #: "yes": its links are dealt to the sites in random order

    def slots(self, topology: str, values: Values) -> dict[str, str]:
        racks, exponent = topology_named(topology).rack_list(), self.slots_zipf.format_map(values)
        numbers: list[float] = [rack.nodes[0].slots for rack in racks]
        if exponent:
            numbers = [share * sum(numbers) for share in _zipf(float(exponent), len(racks))]
        return {
            f"rack.{rack.id}.slots": str(max(1, round(number / self.merged)))
            for rack, number in zip(racks, numbers, strict=True)
        }

    def links(self, topology: str, values: Values) -> dict[str, str]:
        racks, exponent = topology_named(topology).rack_list(), self.links_zipf.format_map(values)
        if self.links_apart.format_map(values):
            dealt = random.Random("links apart").sample(racks, len(racks))
            rates = [(other.uplink_bytes_per_s, other.downlink_bytes_per_s) for other in dealt]
        elif exponent:
            total = sum(rack.uplink_bytes_per_s for rack in racks)
            rates = [(share * total,) * 2 for share in _zipf(float(exponent), len(racks))]
        else:
            return {}
        return {
            f"rack.{rack.id}.{way}": f"{rate:.0f}B/s"
            for rack, both in zip(racks, rates, strict=True)
            for way, rate in zip(("uplink", "downlink"), both, strict=True)
        }


class Change(_Table, frozen=True):
    """What a run has else than another; of dictionaries, "" takes a key away."""

    workload: str = ""
    options: dict[str, Scalar] = {}  #: of the workload
    topology: str = ""
    scheduler: str = ""  #: of ``alone``; all other runs have those of their lines
    flow_scheduler: str = ""
    coarser: dict[str, Scalar] = {}  #: ``Coarser`` without its topology
    sites: Sites | None = None
    network: dict[str, Scalar] = {}  #: settings of the topology, over those of ``coarser``
    settings: dict[str, Scalar] = {}  #: of schedulers
    behaviour: dict[str, float] = {}
    faults: str = ""


class SetUp(Change, frozen=True):
    """Jobs on a topology."""

    like: str = ""  #: the set-up that it changes
    quick: Change | None = None  #: what it has else in quick figures


class Among(_Table, frozen=True):
    """The jobs that are measured."""

    named: str = ""  #: how their names begin
    by: Literal["", "tasks", "shuffle", "shuffle / input"] = ""  #: tasks: before some became one
    least: float = 0.0  #: of that
    below: float = math.inf

    def which(self, grain: int) -> WhichJobs:
        """Whether a job is one of them, where so many of its tasks are one."""
        if self.by:
            return in_range(self.by, self.least, self.below, grain)
        return named(self.named)


class Block(_Table, frozen=True):
    """Lines of a figure, for each row of ``each``; or blocks that have what is said here, too."""

    each: list[list[Scalar]] = []  #: names of values, then rows of them
    set: dict[str, Scalar] = {}  #: further values
    only: str | None = None  #: "whole" or "quick": left out of other figures
    case: str | None = None
    setup: str | None = None  #: whose jobs; its name
    base: str | None = None  #: the baseline; "" = none
    all: Change | None = None  #: changes of contenders and baseline
    own: Change | None = None  #: changes of contenders
    alone: Change | None = None  #: what makes jobs far apart, for slowdowns
    of: list[str] = []  #: contenders
    among: Among | None = None  #: which jobs are measured; None = all
    #: by their words; with the paper's numbers: itself, "10 to 33", "better", "worse", "-" = none
    measures: list[str] | dict[str, Scalar] = []
    lines: list[Block] = []  #: the blocks in it
    use: str = ""  #: the group that has them


class FigureTable(_Table, frozen=True):
    """A figure."""

    title: str
    where: str  #: "Fig. 6, section 6.2.1"
    lines: list[Block]
    base: str = ""  #: what reductions are against, for the reader
    scaled: list[str] = []  #: how it differs from the paper's; a list of words by its name
    size: str = "{part}"  #: how much smaller it is than the paper's; "" = as large


class Key(NamedTuple):
    """Which number it is."""

    figure: str  #: as ``railyard reproduce PAPER`` names it
    case: str
    subject: str  #: the scheduler, or the pair "corral + varys"
    measure: str  #: the measure's title


class Some(_Table, frozen=True):
    """Some rows: those of a figure with one of each of these, or with any where none is named."""

    figure: str
    why: str  #: the name of one of ``Rows.reasons``
    cases: list[str] = []
    of: list[str] = []
    measures: list[str] = []

    def has(self, key: Key) -> bool:
        named = (self.cases, key.case), (self.of, key.subject), (self.measures, key.measure)
        return key.figure == self.figure and all(not names or one in names for names, one in named)


class Rows(_Table, frozen=True):
    """What is said of a paper's published numbers beside ours."""

    summary: str = ""  #: what holds, what does not, and why
    chosen: list[str] = []  #: what was chosen with published numbers in view
    #: where we depart from the paper; each begins with a word in backticks that docstrings have
    departures: list[str] = []
    second_hand: list[str] = []  #: schedulers known from others' descriptions of them only
    #: other readings of the paper: figures, and what stands between commas in the names of cases
    other_figures: list[str] = []
    other_cases: list[str] = []
    constructed: list[Some] = []  #: rows that are true by construction
    differ: list[Some] = []  #: rows of which it is known why they differ
    reasons: dict[str, str] = {}

    def is_other(self, key: Key) -> bool:
        parts = key.case.split(", ")
        return key.figure in self.other_figures or any(each in parts for each in self.other_cases)

    def why(self, rows: Sequence[Some], key: Key) -> str:
        """The reason of those among which it is; "" if it is among none."""
        return next((self.reasons[some.why] for some in rows if some.has(key)), "")


class Elsewhere(_Table, frozen=True):
    """A number that is not made by ``railyard reproduce``."""

    what: str
    published: str
    by: str  #: what has it instead


class Paper(_Table, frozen=True):
    """A paper and its experiments."""

    title: str  #: "Jalaparti et al., SIGCOMM 2015"
    seeds: int = 3  #: of each run, if nobody asks for another number
    quick_seeds: int = 2
    #: those before it were used to choose what the paper leaves open, and are not reported
    first_seed: int = 1
    values: dict[str, Scalar | list[str]] = {}
    quick: dict[str, Scalar | list[str]] = {}  #: values that quick figures have else
    setup: dict[str, SetUp] = {}
    group: dict[str, list[Block]] = {}
    figure: dict[str, FigureTable] = {}
    rows: Rows = Rows()
    elsewhere: list[Elsewhere] = []

    def seeds_of(self, quick: bool) -> range:
        """The seeds of each run, unless others are asked for."""
        many = self.quick_seeds if quick else self.seeds
        return range(self.first_seed, self.first_seed + many)

    def figures(self, quick: bool) -> dict[str, Figure]:
        """All figures by their names on the command line, or quick versions of them."""
        expansion, made = _Expansion(self, quick), {}
        for name, table in self.figure.items():
            try:
                made[name] = expansion.figure(table)
            except LookupError as error:
                error.add_note(f"in figure {name} of {self.title}")
                raise
        return made


@cache
def paper(name: str) -> Paper:
    """The paper of that name; raises ``UsageError``."""
    if name not in PAPERS:
        raise unknown_name("paper", name, dict.fromkeys(PAPERS))
    file = Path(__file__).parent / "tables" / f"{name}.toml"
    return msgspec.toml.decode(file.read_bytes(), type=Paper)


# From tables to lines ----------------------------------------------------------------------------
class _Expansion:
    """A paper's figures, whole or quick."""

    def __init__(self, paper: Paper, quick: bool) -> None:
        every = (
            {"traces": str(traces_folder()), "part": ""}
            | paper.values
            | (paper.quick if quick else {})
        )
        self._paper, self._quick = paper, quick
        self._is_meant = {"": True, "quick": quick, "whole": not quick}
        self._words = {name: each for name, each in every.items() if isinstance(each, list)}
        given = {name: str(each) for name, each in every.items() if name not in self._words}
        self._values = _filled(given, given)

    def figure(self, table: FigureTable) -> Figure:
        start = dict.fromkeys(_NAMES, "") | self._values
        every = [line for block in table.lines for line in self._lines(block, Block(), start)]
        scaled = [
            words.format_map(self._values)
            for item in table.scaled
            for words in self._words.get(item.strip("{}"), [item])
        ]
        return Figure(
            title=table.title,
            where=table.where,
            base=table.base,
            lines=tuple(every),
            size=table.size.format_map(self._values),
            scaled=tuple(words for words in scaled if words),
        )

    def _lines(self, block: Block, around: Block, values: Values) -> Iterator[Line]:
        """A block's lines, with what holds around it."""
        block = _within(around, block)
        names, *rows = block.each or [[], []]  # without a table: one row without values
        own = [(name, value) for name in _NAMES if (value := getattr(block, name)) is not None]
        for row in rows:
            now = dict(values)
            for name, value in (*zip(names, row, strict=True), *block.set.items(), *own):
                now[str(name)] = str(value).format_map(now)
            if not self._is_meant[now["only"]]:
                continue
            inner = self._paper.group[block.use.format_map(now)] if block.use else block.lines
            for each in inner:
                yield from self._lines(each, block, now)
            if not inner:
                yield from self._own_lines(block, now)

    def _own_lines(self, block: Block, values: Values) -> list[Line]:
        """The lines of a block without others in it."""
        if not block.of or not block.measures:
            raise LookupError(f'case "{values["case"]}" has no contenders or no measures')
        jobs = _changed(self._set_up(values["setup"]), block.all)
        own = _as_setup(_changed(jobs, block.own), values)
        among = block.among or Among()
        among = msgspec.structs.replace(among, named=among.named.format_map(values))
        known = measures_of(among.which(grain_of(own.workload)))
        numbers = block.measures
        if not isinstance(numbers, dict):
            numbers = dict.fromkeys(numbers, "-")
        measured = {known[name]: _known(each) for name, each in _filled(numbers, values).items()}
        alone = None if block.alone is None else _as_setup(_changed(jobs, block.alone), values)
        found = lines(
            values["case"],
            _as_setup(jobs, values),
            {contender.format_map(values): measured for contender in block.of},
            base=values["base"] or None,
            own=own,
            alone=alone and alone.under(alone.scheduler),
        )
        return [replace(line, among=among) for line in found]

    def _set_up(self, name: str) -> Change:
        """A set-up with all that it is like."""
        change = self._paper.setup[name]
        before = self._set_up(change.like) if change.like else Change()
        return _changed(_changed(before, change), change.quick if self._quick else None)


#: What a block says of itself that is a value for the blocks in it, too.
_NAMES = ("base", "setup", "only", "case")


def _within(outer: Block, inner: Block) -> Block:
    """A block with what the one around it has, if it has no other."""
    return msgspec.structs.replace(
        inner,
        all=_changed(outer.all or Change(), inner.all),
        own=_changed(outer.own, inner.own) if outer.own else inner.own,
        alone=inner.alone or outer.alone,
        of=inner.of or outer.of,
        among=inner.among or outer.among,
        measures=inner.measures or outer.measures,
    )


def _changed(before: Change, after: Change | None) -> Change:
    """A set-up with a change; what neither has stays open."""
    if after is None:
        return before
    pairs = [(getattr(before, name), getattr(after, name)) for name in Change.__struct_fields__]
    return Change(*(old | new if isinstance(old, dict) else new or old for old, new in pairs))


def _filled(table: Mapping[str, Scalar], values: Values) -> dict[str, str]:
    """The table with values in place of their names."""
    return {name.format_map(values): str(value).format_map(values) for name, value in table.items()}


def _known(text: str) -> Known:
    """A number of a paper as it is written in tables."""
    if text in _KNOWN:
        return _KNOWN[text]
    ends = [msgspec.convert(end, int | float, strict=False) for end in text.split(" to ")]
    return (ends[0], ends[-1])


_KNOWN: dict[str, Known] = {"-": None, "better": BETTER, "worse": WORSE}


# From tables to set-ups --------------------------------------------------------------------------
def _as_setup(change: Change, values: Values) -> Setup:
    """What is run; its scheduler is chosen by ``Setup.under``."""

    def filled(table: Mapping[str, Scalar]) -> dict[str, str]:
        return {name: value for name, value in _filled(table, values).items() if value}

    topology = change.topology.format_map(values)
    network = filled(change.network)
    if change.coarser:
        given = filled(change.coarser) | {"topology": topology}
        network = dict(msgspec.convert(given, Coarser, strict=False).network()) | network
    if (sites := change.sites) is not None:
        network = sites.slots(topology, values) | network | sites.links(topology, values)
    options = [f"{name}={value}" for name, value in filled(change.options).items()]
    return Setup(
        workload=",".join([change.workload.format_map(values), *options]),
        topology=topology,
        scheduler=change.scheduler,
        flow_scheduler=change.flow_scheduler or None,
        network=tuple(network.items()),
        scheduler_options=tuple(filled(change.settings).items()),
        behaviour=msgspec.convert(change.behaviour, Behaviour),
        faults=change.faults.format_map(values) or None,
    )


@cache
def _zipf(exponent: float, sites: int) -> list[float]:
    """Each site's share, in random order."""
    weights = [rank**-exponent for rank in range(1, sites + 1)]
    random.Random("order of sites").shuffle(weights)
    return [weight / sum(weights) for weight in weights]
