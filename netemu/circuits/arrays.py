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
if it has the elephant threshold T_e left to send when flows come, or when a failed port
works again, until it has nothing left to send.  A port that fails sends its pairs by packets.

    arrays     what is known
    switch     circuits are set up, begin to carry, and are taken down
    pairs      flows come and go, pairs go by packets or by circuit, and time goes on
    policies   which pairs get circuits
    and ``fabric.optics`` does the same for the network around it: names, room, order

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
from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy as np

from railyard.netemu.kernel.state import (
    NONE,
    Flags,
    Ids,
    Reals,
    longer_table,
    table_of,
    with_longer,
)

OUT, IN = 0, 1
#: How a pair goes.
PACKETS, WAITS, HOLDS = range(3)
#: The bits of a rack's number that say which of a word's bits is its own, and how many these are.
MASK, SHIFT = 31, 5
#: Kinds of changes of circuits.
SET_UP, UP, DOWN = range(3)
#: So many changes are kept until somebody takes them.
CHANGES = 4096
#: So many numbers are noted of each, see ``Lists.change``.
FACTS = 5

Words: TypeAlias = Annotated[Any, np.int64, "each"]  #: bits, or numbers that only grow
SideIds: TypeAlias = Annotated[Any, np.int32, "sides"]
SideSets: TypeAlias = Annotated[Any, np.int64, "side words"]  #: for each side, a set of racks
PortIds: TypeAlias = Annotated[Any, np.int32, "ports"]
PortReals: TypeAlias = Annotated[Any, np.float64, "ports"]
PortSets: TypeAlias = Annotated[Any, np.int64, "port words"]  #: for each port, a set of racks
SlotIds: TypeAlias = Annotated[Any, np.int32, "slots"]
Counts: TypeAlias = Annotated[Any, np.int64, "counts"]
Times: TypeAlias = Annotated[Any, np.float64, "times"]
ChoiceIds: TypeAlias = Annotated[Any, np.int32, "choices"]
ChoiceFlags: TypeAlias = Annotated[Any, np.bool_, "choices"]
ChangeReals: TypeAlias = Annotated[Any, np.float64, "changes"]
ChangeFacts: TypeAlias = Annotated[Any, np.int64, "facts"]


class PairFlows(NamedTuple):
    """[flow]"""

    pair: Ids  #: NONE: it has nothing to send between racks
    next: Ids  #: of its pair
    before: Ids


class Nodes(NamedTuple):
    """[node]"""

    place_up: Ids  #: the place of a row among those of a slot is the sum of these of its ends
    place_down: Ids


class Pairs(NamedTuple):
    """[pair], and [2 * pair + side]"""

    coflow: Ids
    port: SideIds  #: [2 * pair + side]: racks
    far: Ids  #: racks from its source to its destination, counting up, modulo all
    state: Ids  #: see ``PACKETS``
    slot: Ids  #: of its circuit; NONE
    first: Ids  #: flow
    last: Ids
    counted: Reals  #: bytes left to send, as its coflow's sums have them
    size: Reals  #: the same, rounded, as of when it began to wait
    ends_s: Reals  #: when it will have sent all by its circuit, as far as is known
    since: Words  #: circuits are numbered as they are given
    is_new: Flags  #: whether its flows have changed since rates were set
    is_small: Flags  #: whether it is listed in ``Lists.small``
    is_grown: Flags
    next: SideIds  #: [2 * pair + side]: of those of its coflow's pairs at that port
    before: SideIds
    next_held: Ids  #: of the pairs of its coflow that hold circuits
    before_held: Ids


class Coflows(NamedTuple):
    """[coflow], [2 * coflow + side] and further"""

    pairs: Ids  #: how many it has
    by_circuit: Ids  #: how many of them wait or hold
    arrived_s: Reals  #: when the first of them came
    rank: Ids  #: place in the order
    urgency: Reals
    is_fresh: Flags  #: whether pairs have begun to wait since the last choice
    is_moved: Flags  #: whether its sums have changed since ``urgency`` was found
    seen: Ids  #: the last choice in which was found what it will take
    held: Ids  #: its first pair that holds
    head: PortIds  #: [.., rack]: 2 * its first pair there + side
    port_bytes: PortReals  #: [.., rack]: what pairs by circuit have left to send there, as counted
    port_pairs: PortIds  #: [.., rack]: how many these are
    waits: PortSets  #: [.., rack, word]: the other racks of pairs that wait there
    ends: SideSets  #: [.., word]: the racks at which pairs wait


class Ports(NamedTuple):
    """[side * racks + rack] and further"""

    bytes_per_s: Reals  #: of one of its circuits; 0: it has failed
    is_freed: Flags  #: whether it was freed since the last choice, and has a circuit to spare
    is_listed: Flags  #: whether it is in ``Lists.freed``
    used: Ids  #: circuits of the coflows so far in the order, where W is above 1
    holder: SlotIds  #: [.., W]: pairs; NONE


class Slots(NamedTuple):
    """[slot]: circuits"""

    peer: Ids  #: the rack it goes to; NONE: there is no circuit
    user: Ids  #: the pair that uses it; NONE
    ready_s: Reals
    dark_s: Reals  #: the same while it is dark; otherwise inf
    number: Words  #: circuits are numbered as they are set up
    into: Ids  #: [rack it goes to, W]: slots; NONE


class Sets(NamedTuple):
    """[side, word]: sets of ports"""

    works: Words  #: those that have not failed
    booked: Words  #: left free so far, as a coflow will want them within δ
    room: Words  #: those with a circuit to spare after the coflows so far in the order
    nothing: Words  #: never changed
    soon: Words  #: those of pairs that end within δ
    after: Words  #: ``room``, as far as has been looked ahead
    free: Words  #: the same, as pairs end
    booking: Words  #: those that the coflows so far will want within δ


class Lists(NamedTuple):
    """Pairs, ports and flows in lists; how long these are stands in ``counts``."""

    counts: Counts  #: see ``SMALL`` to ``CHOICES``
    times: Times  #: see ``DELTA`` and ``LOOK_AGAIN``
    free: Ids  #: pairs that can be had
    small: Ids  #: pairs by packets of which more is to be sent
    grown: Ids  #: pairs by circuit that have more, or less, to send
    flows: Ids  #: [flow]: those that are to go by packets
    cut: ChoiceIds  #: pairs that lose their circuits
    taken: ChoiceIds  #: pairs that get one
    freed: PortIds  #: ports that were freed since the last choice, side * racks + rack
    ending: SlotIds  #: pairs that end within δ, the first one first
    choice: ChoiceIds  #: pairs of one coflow that can have a circuit
    side: ChoiceIds  #: at which port each of them was found
    is_dark: ChoiceFlags  #: whether its circuit would not carry at once
    change_s: ChangeReals  #: what has happened to circuits
    change: ChangeFacts  #: [.., kind, rack out, rack in, coflow or NONE, number of the circuit]


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
    made = Circuits(
        racks,
        wavelengths,
        words,
        slots,
        first_link,
        first_row,
        rows,
        (racks + 1) ** 2,
        flows=table_of(PairFlows, 1),
        nodes=table_of(Nodes, nodes),
        pairs=table_of(Pairs, 1, sides=2),
        coflows=table_of(Coflows, 1, **_of_coflow(racks, words)),
        ports=table_of(Ports, 2 * racks, slots=wavelengths),
        of=table_of(Slots, slots),
        sets=table_of(Sets, 2 * words),
        lists=table_of(
            Lists,
            1,
            counts=FREE_PORTS + 1,
            times=FIRST_BOOKED + 1,
            choices=2 * (racks + slots),
            ports=2 * racks,
            slots=slots,
            changes=CHANGES + 8 * slots,
            facts=FACTS * (CHANGES + 8 * slots),
        ),
    )
    made.flows.pair[:] = made.coflows.head[:] = made.coflows.held[:] = made.ports.holder[:] = NONE
    made.of.peer[:] = made.of.user[:] = made.of.into[:] = NONE
    made.of.dark_s[:] = made.lists.times[:] = inf
    made.lists.times[DELTA] = delta_s
    made.lists.counts[FREE] = 1
    return made


def grown(c: Circuits, *, flows: int = 0, pairs: int = 0, coflows: int = 0) -> Circuits:
    """The same with room for so many, of pairs for so many more, if there is less."""
    lists, counts = c.lists, c.lists.counts
    if flows > len(c.flows.pair):
        before = len(c.flows.pair)
        c = c._replace(flows=longer_table(c.flows, flows))
        c.flows.pair[before:] = NONE
        lists = with_longer(lists, ("flows",), flows)
    if pairs > counts[FREE]:
        before = len(c.pairs.coflow)
        c = c._replace(pairs=longer_table(c.pairs, before + pairs, sides=2))
        new = np.arange(before, len(c.pairs.coflow))
        lists = with_longer(lists, ("free", "small", "grown"), before + pairs)
        lists.free[counts[FREE] : counts[FREE] + len(new)] = new[::-1]
        counts[FREE] += len(new)
    if coflows > len(c.coflows.pairs):
        before = len(c.coflows.pairs)
        c = c._replace(coflows=longer_table(c.coflows, coflows, **_of_coflow(c.racks, c.words)))
        c.coflows.held[before:] = c.coflows.head[2 * c.racks * before :] = NONE
    return c if lists is c.lists else c._replace(lists=lists)


def _of_coflow(racks: int, words: int) -> dict[str, int]:
    return {"ports": 2 * racks, "side words": 2 * words, "port words": 2 * racks * words}
