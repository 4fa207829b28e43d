"""Circuits as links: the arrays of rack pairs, ports and circuits that the loops work on.

For each rack's optical port out and each of its W wavelengths there is a link more, a *slot*; slots
have the numbers after the network's links.  A slot has no capacity until its circuit carries, at
``ready_s``, and then the smaller rate of its two ports: dark for δ is a capacity of 0 until then,
and a circuit that begins to carry is a change of a capacity, and an event.

What a coflow has to send from one rack to another is a *pair*.  It

    goes by packets   its flows are in rows like others, over the links of their route,
    waits             for a circuit: its flows are in no row, or
    holds             a circuit: its flows are in rows over [NIC up, slot, NIC down],

so that the loops in ``kernel.levels`` find all rates.  A pair goes by circuit, with all its flows,
if it has the elephant threshold T_e left to send when flows come or grow, or when a failed port
works again, until it has nothing left to send.  A port that fails sends its pairs by packets.

    arrays     what is known
    switch     circuits are set up, begin to carry, and are taken down
    pairs      flows come and go, pairs go by packets or by circuit, and time goes on
    policies   which pairs get circuits
    and ``fabric.optics`` does the same for the network around it: names, growth, order

What happens at one instant: flows end, and pairs without flows are forgotten (``pairs.forget``);
pairs that have come or grown wait, or are counted anew (``sort_out``); coflows are put in order if
bytes for circuits have come, or a coflow has none left (``fabric.optics``); the policy cuts
circuits and gives others (``choose``); those are set up and their flows are attached (``change``);
rates are set (``set_rates``).  ``pairs.run`` does all of that by itself from event to event, but
for the order of coflows and for policies that are not among the loops.

A rack is a number; ``side`` is ``OUT`` of a rack, or ``IN`` to one.  Sets of racks are bits of
words, 32 racks each.  Of a coflow's pairs at a port, those that wait stand in the order in which
they get circuits.  Rows on a slot have numbers of their own, one for each way between nodes with
limited links, so that none has to be looked for.
"""

from __future__ import annotations

from math import inf
from typing import Any, NamedTuple

import numpy as np

from railyard.netemu.kernel.state import NONE, Array

OUT, IN = 0, 1
#: How a pair goes.
PACKETS, WAITS, HOLDS = range(3)
#: The bits of a rack's number that say which of a word's bits is its own, and how many these are.
MASK, SHIFT = 31, 5
#: Kinds of changes of circuits.
SET_UP, UP, DOWN = range(3)
#: So many changes are kept until somebody takes them.
CHANGES = 4096


class PairFlows(NamedTuple):
    """[flow]"""

    pair: Array  #: NONE: it has nothing to send between racks
    next: Array  #: of its pair
    before: Array


class Nodes(NamedTuple):
    """[node]"""

    up: Array  #: its links, as far as they are limited, or ``none``
    down: Array
    place_up: Array  #: the place of a row among those of a slot is the sum of these of its ends
    place_down: Array


class Pairs(NamedTuple):
    """[pair], and [2 * pair + side]"""

    coflow: Array
    port: Array  #: [2 * pair + side]: racks
    far: Array  #: racks from its source to its destination, counting up, modulo all
    state: Array  #: see ``PACKETS``
    slot: Array  #: of its circuit; NONE
    first: Array  #: flow
    last: Array
    counted: Array  #: bytes left to send, as its coflow's sums have them
    size: Array  #: the same, rounded, as of when it began to wait
    ends_s: Array  #: when it will have sent all by its circuit, as far as is known
    since: Array  #: circuits are numbered as they are given
    is_new: Array  #: whether its flows have changed since rates were set
    is_small: Array  #: whether it is listed in ``Lists.small``
    is_grown: Array
    next: Array  #: [2 * pair + side]: of the pairs of its coflow at that port
    before: Array
    next_held: Array  #: of the pairs of its coflow that hold circuits
    before_held: Array


class Coflows(NamedTuple):
    """[coflow], [2 * coflow + side] and further"""

    pairs: Array  #: how many it has
    by_circuit: Array  #: how many of them wait or hold
    arrived_s: Array  #: when the first of them came
    rank: Array  #: place in the order
    urgency: Array
    is_fresh: Array  #: whether pairs have begun to wait since the last choice
    is_moved: Array  #: whether its sums have changed since ``urgency`` was found
    seen: Array  #: the last choice in which was found what it will take
    held: Array  #: its first pair that holds
    head: Array  #: [.., rack]: its first pair there
    port_bytes: Array  #: [.., rack]: what pairs by circuit have left to send there, as counted
    port_pairs: Array  #: [.., rack]: how many these are
    waits: Array  #: [.., rack, word]: the other racks of pairs that wait there
    ends: Array  #: [.., word]: the racks at which pairs wait


class Ports(NamedTuple):
    """[side * racks + rack] and further"""

    bytes_per_s: Array  #: of one of its circuits; 0: it has failed
    is_freed: Array  #: whether it was freed since the last choice, and has a circuit to spare
    is_listed: Array  #: whether it is in ``Lists.freed``
    used: Array  #: circuits of the coflows so far in the order, where W is above 1
    holder: Array  #: [.., W]: pairs; NONE


class Slots(NamedTuple):
    """[slot]: circuits"""

    peer: Array  #: the rack it goes to; NONE: there is no circuit
    user: Array  #: the pair that uses it; NONE
    ready_s: Array
    dark_s: Array  #: the same while it is dark; otherwise inf
    number: Array  #: circuits are numbered as they are set up
    into: Array  #: [rack it goes to, W]: slots; NONE


class Sets(NamedTuple):
    """[side, word]: sets of ports"""

    works: Array  #: those that have not failed
    booked: Array  #: left free so far, as a coflow will want them within δ
    room: Array  #: those with a circuit to spare after the coflows so far in the order
    nothing: Array  #: never changed
    soon: Array  #: those of pairs that end within δ
    after: Array  #: ``room``, as far as has been looked ahead
    free: Array  #: the same, as pairs end
    booking: Array  #: those that the coflows so far will want within δ


class Lists(NamedTuple):
    """Pairs, ports and flows in lists; how long these are stands in ``counts``."""

    counts: Array  #: see ``SMALL`` to ``CHOICES``
    times: Array  #: see ``DELTA`` and ``LOOK_AGAIN``
    free: Array  #: pairs that can be had
    small: Array  #: pairs by packets of which more is to be sent
    grown: Array  #: pairs by circuit that have more, or less, to send
    flows: Array  #: [flow]: those that are to go by packets
    cut: Array  #: pairs that lose their circuits
    taken: Array  #: pairs that get one
    freed: Array  #: ports that were freed since the last choice, side * racks + rack
    ending: Array  #: pairs that end within δ, the first one first
    choice: Array  #: pairs of one coflow that can have a circuit
    side: Array  #: at which port each of them was found
    is_dark: Array  #: whether its circuit would not carry at once
    change_s: Array  #: what has happened to circuits
    change: Array  #: [.., kind, rack out, rack in, coflow or NONE, number of the circuit]


class Circuits(NamedTuple):
    """All of it."""

    racks: int
    wavelengths: int
    words: int  #: of a set of racks
    slots: int  #: how many
    first_link: int  #: the link of the first slot
    first_row: int  #: the first row of the first slot
    rows: int  #: how many rows a slot has
    packets: int  #: how many routes there are by packets; those by circuit follow
    flows: PairFlows
    nodes: Nodes
    pairs: Pairs
    coflows: Coflows
    ports: Ports
    of: Slots
    sets: Sets
    lists: Lists


#: Places in ``Lists.counts``: lengths of lists; then whether coflows are to be put in order, and
#: circuits to be chosen; circuits made and given, and choices, so far; whether a coflow was refused
#: a booked port; whether nothing but circuits limits the flows on them; how many coflows in order
#: have been looked at for ports to book; the length of ``freed``, and how many of these are free.
SMALL, GROWN, FREE, FLOWS, CUT, TAKEN, ENDING, CHANGED = range(8)
REORDER, REMATCH, MADE, HELD, CHOICES, REFUSED, ALONE, AHEAD = range(8, 16)
FREED, FREE_PORTS = range(16, 18)
#: Places in ``Lists.times``: δ; when to choose again even if nothing happens; when the first of the
#: ports will be taken that coflows will want within δ.
DELTA, LOOK_AGAIN, FIRST_BOOKED = range(3)

_I, _F, _B, _L = np.int32, np.float64, np.bool_, np.int64


def new_circuits(
    racks: int,
    wavelengths: int,
    delta_s: float,
    first_link: int,
    first_row: int,
    rows: int,
    nodes: int,
) -> Circuits:
    """Arrays without flows and circuits, for ports that have failed."""
    words, slots = (racks + MASK) >> SHIFT, racks * wavelengths
    coflows: dict[str, Any] = dict.fromkeys(Coflows._fields, _I)
    coflows |= dict.fromkeys(("arrived_s", "urgency", "port_bytes"), _F)
    coflows |= dict.fromkeys(("is_fresh", "is_moved"), _B) | dict.fromkeys(("waits", "ends"), _L)
    wide = dict.fromkeys(("head", "port_bytes", "port_pairs"), 2 * racks)
    wide |= {"waits": 2 * racks * words, "ends": 2 * words}
    pairs: dict[str, Any] = dict.fromkeys(Pairs._fields, _I) | dict.fromkeys(
        ("counted", "size", "ends_s"), _F
    )
    pairs |= dict.fromkeys(("is_new", "is_small", "is_grown"), _B) | {"since": _L}
    both = dict.fromkeys(("port", "next", "before"), 2)
    most = 2 * racks * (wavelengths + 1)
    made = Circuits(
        racks,
        wavelengths,
        words,
        slots,
        first_link,
        first_row,
        rows,
        (racks + 1) ** 2,
        PairFlows(*(np.full(1, NONE, _I) for _ in PairFlows._fields)),
        Nodes(*(np.zeros(nodes, _I) for _ in Nodes._fields)),
        Pairs(**{name: np.zeros(both.get(name, 1), kind) for name, kind in pairs.items()}),
        Coflows(**{name: np.zeros(wide.get(name, 1), kind) for name, kind in coflows.items()}),
        Ports(
            bytes_per_s=np.zeros(2 * racks),
            is_freed=np.zeros(2 * racks, _B),
            is_listed=np.zeros(2 * racks, _B),
            used=np.zeros(2 * racks, _I),
            holder=np.full(2 * slots, NONE, _I),
        ),
        Slots(
            peer=np.full(slots, NONE, _I),
            user=np.full(slots, NONE, _I),
            ready_s=np.zeros(slots),
            dark_s=np.full(slots, inf),
            number=np.zeros(slots, _L),
            into=np.full(slots, NONE, _I),
        ),
        Sets(*(np.zeros(2 * words, _L) for _ in Sets._fields)),
        Lists(
            counts=np.zeros(18, _L),
            times=np.array([delta_s, inf, inf]),
            free=np.zeros(1, _I),
            small=np.zeros(1, _I),
            grown=np.zeros(1, _I),
            flows=np.zeros(1, _I),
            cut=np.zeros(most, _I),
            taken=np.zeros(most, _I),
            freed=np.zeros(2 * racks, _I),
            ending=np.zeros(slots, _I),
            choice=np.zeros(most, _I),
            side=np.zeros(most, _I),
            is_dark=np.zeros(most, _B),
            change_s=np.zeros(CHANGES + 8 * slots),
            change=np.zeros(5 * (CHANGES + 8 * slots), _L),
        ),
    )
    made.coflows.head[:] = made.coflows.held[:] = NONE
    made.lists.counts[FREE] = 1
    return made


def grown(c: Circuits, *, flows: int = 0, pairs: int = 0, coflows: int = 0) -> Circuits:
    """The same with room for so many, of pairs for so many more, if there is less."""
    made: dict[str, Any] = {}
    lists = c.lists
    if flows > len(c.flows.pair):
        before = len(c.flows.pair)
        made["flows"] = table = _longer(c.flows, flows)
        table.pair[before:] = NONE
        lists = lists._replace(flows=np.zeros(len(table.pair), _I))
    free = int(lists.counts[FREE])
    if pairs > free:
        before = len(c.pairs.coflow)
        made["pairs"] = table = _longer(c.pairs, before + pairs)
        many = len(table.coflow)
        longer = {name: np.zeros(many, _I) for name in ("free", "small", "grown")}
        for name, array in longer.items():
            array[:before] = getattr(lists, name)
        longer["free"][free : free + many - before] = np.arange(many - 1, before - 1, -1)
        lists.counts[FREE] = free + many - before
        lists = lists._replace(**longer)
    if coflows > len(c.coflows.pairs):
        before = len(c.coflows.pairs)
        made["coflows"] = table = _longer(c.coflows, coflows)
        table.held[before:] = NONE
        table.head[2 * c.racks * before :] = NONE
    if lists is not c.lists:
        made["lists"] = lists
    return c._replace(**made) if made else c


def _longer(table: Any, many: int) -> Any:
    """A table with room for that many, or for twice as many as it had."""
    before = len(table[0])
    many = max(many, 2 * before)
    made = [np.zeros(len(array) // before * many, array.dtype) for array in table]
    for array, longer in zip(table, made, strict=True):
        longer[: len(array)] = array
    return type(table)(*made)
