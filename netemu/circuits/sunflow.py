"""Sunflow: coflows get circuits in order, each unaware of later ones.

Source: Huang, Sun and Ng, Sunflow: Efficient Optical Circuit Scheduling for Coflows, CoNEXT 2016.
Within a coflow nothing is preempted, so a pair keeps its circuit until it is done; a coflow sees
ports that a later one holds as free, so later ones send in the gaps that earlier ones leave, and
lose their circuits when those want the port.

Sunflow reserves all of that ahead of time.  Here it is decided when a port is freed, which needs no
repair when flows come or ports fail, and is the same as long as it is known which gaps are too
short: a circuit that is to be set up is dark for δ, so in a gap of δ or less it would be cut before
it carries.  Such gaps are left alone, as by Sunflow's authors; a circuit that carries may use them.
So where circuits end within δ, the ports that coflows will take then, and those at the other ends,
are *booked*.  Where ports have several circuits, none is: another one can nearly always go on.

The order within a coflow is not published.  This one reproduces Fig. 2 of the Co-scheduler paper:
pairs whose circuit carries already, then by size, the largest first, then by distance (dst - src)
modulo racks, then by src.  A pair has at most one circuit.

An event costs what it changes: where no coflow is new, only pairs at ports that were freed can get
a circuit.  Arrays: ``circuits.arrays``.
"""

from __future__ import annotations

from math import inf

from railyard.netemu.circuits.arrays import (
    AHEAD,
    CHOICES,
    CUT,
    DELTA,
    ENDING,
    FIRST_BOOKED,
    FREE_PORTS,
    FREED,
    HELD,
    HOLDS,
    IN,
    LOOK_AGAIN,
    MASK,
    OUT,
    REFUSED,
    SHIFT,
    TAKEN,
    WAITS,
    Circuits,
)
from railyard.netemu.kernel.rows import instant_s, put_between, take_out
from railyard.netemu.kernel.state import NONE, Array


# Sets of racks -----------------------------------------------------------------------------------
def has(words: Array, at: int, rack: int) -> bool:
    """Whether a rack is in the set that begins at a word."""
    return (words[at + (rack >> SHIFT)] >> (rack & MASK)) & 1 == 1


def put(words: Array, at: int, rack: int, is_in: bool) -> None:
    """Add a rack to a set, or remove it."""
    if is_in:
        words[at + (rack >> SHIFT)] |= 1 << (rack & MASK)
    else:
        words[at + (rack >> SHIFT)] &= ~(1 << (rack & MASK))


def meet(some: Array, at: int, others: Array, there: int, words: int) -> bool:
    """Whether two sets have a rack in common."""
    for word in range(words):  # noqa: SIM110 (what is compiled makes no generators)
        if some[at + word] & others[there + word] != 0:
            return True
    return False


def copy(words: Array, into: Array) -> None:
    """Have a set of ports be another one."""
    for word in range(len(words)):
        into[word] = words[word]


# What waits and holds ----------------------------------------------------------------------------
def set_waits(pair: int, is_so: bool, c: Circuits) -> None:
    """Note that a pair waits, or does so no more."""
    coflows, words = c.coflows, c.words
    for side in range(2):
        place = 2 * c.pairs.coflow[pair] + side
        port, other = c.pairs.port[2 * pair + side], c.pairs.port[2 * pair + 1 - side]
        at = (place * c.racks + port) * words
        put(coflows.waits, at, other, is_so)
        put(coflows.ends, place * words, port, meet(coflows.waits, at, coflows.waits, at, words))


def hold(pair: int, c: Circuits) -> None:
    """Note that a pair has its ports."""
    pairs, held, coflow = c.pairs, c.coflows.held, c.pairs.coflow[pair]
    put_between(pair, NONE, held[coflow], pairs.before_held, pairs.next_held, held, coflow)
    for side in range(2):
        port = side * c.racks + pairs.port[2 * pair + side]
        c.ports.holder[holders(port, NONE, c)] = pair
        if c.ports.is_freed[port] and holders(port, NONE, c) == NONE:
            c.ports.is_freed[port] = False
            c.lists.counts[FREE_PORTS] -= 1


def release(pair: int, c: Circuits) -> None:
    """Note that a pair has its ports no more."""
    pairs, held = c.pairs, c.coflows.held
    take_out(pair, pairs.before_held, pairs.next_held, held, pairs.coflow[pair])
    for side in range(2):
        port = side * c.racks + pairs.port[2 * pair + side]
        c.ports.holder[holders(port, pair, c)] = NONE
        free_port(port, c)


def free_port(port: int, c: Circuits) -> None:
    """Note that a port was freed."""
    ports, counts = c.ports, c.lists.counts
    if not ports.is_freed[port]:
        ports.is_freed[port] = True
        counts[FREE_PORTS] += 1
        if not ports.is_listed[port]:
            ports.is_listed[port] = True
            c.lists.freed[counts[FREED]] = port
            counts[FREED] += 1


def holders(port: int, pair: int, c: Circuits) -> int:
    """The place of a pair among those that hold a port, or that of none; ``NONE``: it has none."""
    for at in range(port * c.wavelengths, (port + 1) * c.wavelengths):
        if c.ports.holder[at] == pair:
            return at
    return NONE


# A choice ----------------------------------------------------------------------------------------
def choose(now_s: float, order: Array, is_new_order: bool, c: Circuits) -> None:
    """Let coflows, in order, take ports: sets ``Lists.cut`` and ``Lists.taken``.

    Of fresh coflows all pairs that wait are looked at, of others those at ports that were freed;
    all are fresh where their order is new.
    """
    sets, coflows, counts = c.sets, c.coflows, c.lists.counts
    news = begin_choice(now_s, order, is_new_order, c)
    for place in range(len(order)):
        coflow = order[place]
        if news == 0 and counts[FREE_PORTS] == 0:
            break
        if c.wavelengths > 1 and counts[CUT] > 0:
            keep_after_all(coflow, c)
        pair = coflows.held[coflow]
        while pair != NONE:
            less(pair, sets.room, c)
            pair = c.pairs.next_held[pair]
        if coflows.is_fresh[coflow]:
            news -= 1
        if not may_take(coflow, c):
            continue
        many = look_at(coflow, now_s, c)
        if many > 0 and look_ahead(order, place, c):
            many = look_at(coflow, now_s, c)
        serve_first(coflow, many, now_s, c)
    end_choice(order, c)


def may_take(coflow: int, c: Circuits) -> bool:
    """Whether a coflow waits at a port out, and at one in, with a circuit to spare."""
    ends, room, words = c.coflows.ends, c.sets.room, c.words
    at = 2 * coflow * words
    return meet(ends, at, room, 0, words) and meet(ends, at + words, room, words, words)


def serve_first(coflow: int, many: int, now_s: float, c: Circuits) -> None:
    """Give circuits to a coflow's choices and those that follow at their ports, in order."""
    lists, sets = c.lists, c.sets
    while many > 0:
        first = 0
        for at in range(1, many):
            if comes_before(at, first, c):
                first = at
        pair, side = lists.choice[first], lists.side[first]
        src, dst = c.pairs.port[2 * pair], c.pairs.port[2 * pair + 1]
        is_open = has(sets.room, 0, src) and has(sets.room, c.words, dst)
        if is_open and c.pairs.state[pair] == WAITS:  # else it was found at its other port, too
            take(pair, c)
        port = src if side == OUT else dst
        if not look(coflow, side, port, now_s, sets.room, sets.booking, first, c):
            many -= 1
            lists.choice[first], lists.side[first] = lists.choice[many], lists.side[many]
            lists.is_dark[first] = lists.is_dark[many]


def begin_choice(now_s: float, order: Array, is_new_order: bool, c: Circuits) -> int:
    """Set up a choice; returns how many coflows are fresh."""
    lists, sets, coflows = c.lists, c.sets, c.coflows
    counts, times, soon_s, news = lists.counts, lists.times, now_s + instant_s(now_s), 0
    looks_again = times[LOOK_AGAIN] <= soon_s
    if looks_again or is_new_order:
        for port in range(2 * c.racks):
            if looks_again and has(sets.booked, port // c.racks * c.words, port % c.racks):
                free_port(port, c)
        copy(sets.nothing, sets.booked)
        times[LOOK_AGAIN] = inf
    for place in range(len(order)):
        if is_new_order:
            coflows.is_fresh[order[place]] = True
        news += 1 if coflows.is_fresh[order[place]] else 0
    copy(sets.works, sets.room)
    if c.wavelengths > 1:
        for port in range(2 * c.racks):
            c.ports.used[port] = 0
    counts[CUT] = counts[TAKEN] = counts[REFUSED] = counts[ENDING] = counts[AHEAD] = 0
    counts[CHOICES] += 1
    times[FIRST_BOOKED] = inf
    copy(sets.nothing, sets.booking)
    if c.wavelengths == 1 and times[DELTA] > 0.0:
        find_ending(soon_s, soon_s + times[DELTA], c)
    return news


def end_choice(order: Array, c: Circuits) -> None:
    """Note that all has been looked at, and when to look at booked ports again."""
    lists, sets, ports, counts = c.lists, c.sets, c.ports, c.lists.counts
    for at in range(counts[FREED]):
        ports.is_freed[lists.freed[at]] = ports.is_listed[lists.freed[at]] = False
    counts[FREED] = counts[FREE_PORTS] = 0
    for place in range(len(order)):
        c.coflows.is_fresh[order[place]] = False
    if counts[REFUSED] != 0:
        for word in range(2 * c.words):
            sets.booked[word] |= sets.booking[word]
        times = lists.times
        times[LOOK_AGAIN] = min(times[LOOK_AGAIN], times[FIRST_BOOKED])


def less(pair: int, room: Array, c: Circuits) -> None:
    """Take one circuit from ``room``."""
    for side in range(2):
        rack = c.pairs.port[2 * pair + side]
        if c.wavelengths > 1:
            c.ports.used[side * c.racks + rack] += 1
            if c.ports.used[side * c.racks + rack] < c.wavelengths:
                continue
        put(room, side * c.words, rack, False)


def look_at(coflow: int, now_s: float, c: Circuits) -> int:
    """Find the first pair that a coflow can have at each port; returns at how many there is one."""
    lists, sets, many = c.lists, c.sets, 0
    if c.coflows.is_fresh[coflow]:
        for src in range(c.racks):
            if look(coflow, OUT, src, now_s, sets.room, sets.booking, many, c):
                many += 1
        return many
    for at in range(lists.counts[FREED]):
        port = lists.freed[at]
        side = IN if port >= c.racks else OUT
        if c.ports.is_freed[port] and look(
            coflow, side, port - side * c.racks, now_s, sets.room, sets.booking, many, c
        ):
            many += 1
    return many


def look(
    coflow: int,
    side: int,
    port: int,
    now_s: float,
    room: Array,
    booked: Array,
    at: int,
    c: Circuits,
) -> bool:
    """Find the first pair that a coflow can have at a port, as choice ``at``; whether there is one.

    Where one of its ports is booked, only a circuit that carries already is worth taking.
    """
    pairs, lists, words = c.pairs, c.lists, c.words
    place = (2 * coflow + side) * c.racks + port
    if not has(room, side * words, port):
        return False
    if not meet(c.coflows.waits, place * words, room, (1 - side) * words, words):
        return False
    first = look_at_circuits(coflow, side, port, now_s, room, c)
    is_dark = first == NONE
    if is_dark:
        is_booked = has(booked, side * words, port)
        end = c.coflows.head[place]
        while end != NONE and first == NONE:
            other = pairs.port[end ^ 1]
            if pairs.state[end >> 1] == WAITS and has(room, (1 - side) * words, other):
                if is_booked or has(booked, (1 - side) * words, other):
                    lists.counts[REFUSED] = 1
                else:
                    first = end >> 1
            end = pairs.next[end]
        if first == NONE:
            return False
    lists.choice[at], lists.side[at], lists.is_dark[at] = first, side, is_dark
    return True


def look_at_circuits(
    coflow: int, side: int, port: int, now_s: float, room: Array, c: Circuits
) -> int:
    """A coflow's first pair whose circuit at a port carries, used by none before; or ``NONE``."""
    pairs, of, rank, first = c.pairs, c.of, c.coflows.rank, NONE
    place = (2 * coflow + side) * c.racks + port
    for number in range(port * c.wavelengths, (port + 1) * c.wavelengths):
        slot = number if side == OUT else of.into[number]
        if slot == NONE or of.peer[slot] == NONE or of.ready_s[slot] > now_s:
            continue
        other = of.peer[slot] if side == OUT else slot // c.wavelengths
        if not has(c.coflows.waits, place * c.words, other):
            continue
        if not has(room, (1 - side) * c.words, other):
            continue
        user = of.user[slot]
        before = user != NONE and rank[pairs.coflow[user]] <= rank[coflow]
        if before and c.wavelengths > 1:  # with one, the port would not be free
            continue
        end = c.coflows.head[place]
        while pairs.port[end ^ 1] != other:
            end = pairs.next[end]
        if first == NONE or is_before(end >> 1, False, first, False, c):
            first = end >> 1
    return first


def line_up(pair: int, c: Circuits) -> None:
    """Give a pair that begins to wait, or does so with another size, its places at its ports.

    Of a coflow's pairs at a port, those that wait stand in order; others stand anywhere.
    """
    pairs, first = c.pairs, c.coflows.head
    for end in range(2 * pair, 2 * pair + 2):
        of = place_of(end, c)
        take_out(end, pairs.before, pairs.next, first, of)
        before, after = NONE, first[of]
        while after != NONE and (
            pairs.state[after >> 1] != WAITS or is_before(after >> 1, False, pair, False, c)
        ):
            before, after = after, pairs.next[after]
        put_between(end, before, after, pairs.before, pairs.next, first, of)


def place_of(end: int, c: Circuits) -> int:
    """Where in arrays by coflow, side and rack an end of a pair, 2 * pair + side, stands."""
    return (2 * c.pairs.coflow[end >> 1] + (end & 1)) * c.racks + c.pairs.port[end]


def is_before(one: int, is_dark: bool, other: int, is_other_dark: bool, c: Circuits) -> bool:
    """Whether the first of two pairs of a coflow gets a circuit first."""
    pairs = c.pairs
    if is_dark != is_other_dark:
        return is_other_dark
    if pairs.size[one] != pairs.size[other]:
        return pairs.size[one] > pairs.size[other]
    if pairs.far[one] != pairs.far[other]:
        return pairs.far[one] < pairs.far[other]
    return pairs.port[2 * one] < pairs.port[2 * other]


def comes_before(at: int, other: int, c: Circuits) -> bool:
    """Whether a choice comes before another one."""
    choice, is_dark = c.lists.choice, c.lists.is_dark
    return is_before(choice[at], is_dark[at], choice[other], is_dark[other], c)


def take(pair: int, c: Circuits) -> None:
    """Give a pair its two ports."""
    counts = c.lists.counts
    make_room(pair, c)
    set_waits(pair, False, c)
    c.pairs.state[pair] = HOLDS
    counts[HELD] += 1
    c.pairs.since[pair] = counts[HELD]
    hold(pair, c)
    less(pair, c.sets.room, c)
    c.lists.taken[counts[TAKEN]] = pair
    counts[TAKEN] += 1


def make_room(pair: int, c: Circuits) -> None:
    """Cut the last coflow's last circuit where a pair's port is full."""
    for side in range(2):
        port = side * c.racks + c.pairs.port[2 * pair + side]
        if holders(port, NONE, c) == NONE:
            lost = last_holder(port, c)
            release(lost, c)
            c.lists.cut[c.lists.counts[CUT]] = lost
            c.lists.counts[CUT] += 1


def last_holder(port: int, c: Circuits) -> int:
    """Of the pairs that hold a full port, the last coflow's last."""
    holder, pairs, rank = c.ports.holder, c.pairs, c.coflows.rank
    last = holder[port * c.wavelengths]
    for at in range(port * c.wavelengths + 1, (port + 1) * c.wavelengths):
        pair = holder[at]
        more = rank[pairs.coflow[pair]] - rank[pairs.coflow[last]]
        if more > 0 or (more == 0 and pairs.since[pair] > pairs.since[last]):
            last = pair
    return last


def keep_after_all(coflow: int, c: Circuits) -> None:
    """Give a coflow that lost circuits back those that it can keep, the oldest first.

    That happens only where ports have several circuits: a pair may have been cut for two ports
    where one of them was enough.
    """
    lists, pairs, counts, many, kept = c.lists, c.pairs, c.lists.counts, 0, 0
    for at in range(counts[CUT]):
        pair = lists.cut[at]
        if pairs.coflow[pair] == coflow:
            lists.choice[many] = pair
            many += 1
        else:
            lists.cut[kept] = pair
            kept += 1
    counts[CUT] = kept
    while many > 0 and c.coflows.held[coflow] != NONE:
        pair = c.coflows.held[coflow]
        release(pair, c)
        lists.choice[many] = pair
        many += 1
    while many > 0:
        oldest = 0
        for at in range(1, many):
            if pairs.since[lists.choice[at]] < pairs.since[lists.choice[oldest]]:
                oldest = at
        pair = lists.choice[oldest]
        many -= 1
        lists.choice[oldest] = lists.choice[many]
        if can_have(pair, OUT, c) and can_have(pair, IN, c):
            make_room(pair, c)
            hold(pair, c)
        else:
            lists.cut[counts[CUT]] = pair
            counts[CUT] += 1


def can_have(pair: int, side: int, c: Circuits) -> bool:
    """Whether a pair's port has a circuit to spare, or one of a coflow that comes after its own."""
    port, rank = side * c.racks + c.pairs.port[2 * pair + side], c.coflows.rank
    if holders(port, NONE, c) != NONE:
        return True
    last = c.pairs.coflow[last_holder(port, c)]
    return rank[last] > rank[c.pairs.coflow[pair]]


# Gaps --------------------------------------------------------------------------------------------
def find_ending(after_s: float, until_s: float, c: Circuits) -> None:
    """Find the pairs that end after ``after_s`` and by ``until_s``, the first one first."""
    sets, lists, ends_s, many = c.sets, c.lists, c.pairs.ends_s, 0
    for src in range(c.racks):
        pair = c.ports.holder[src]
        if pair != NONE and after_s < ends_s[pair] <= until_s:
            at = many
            while at > 0 and ends_s[lists.ending[at - 1]] > ends_s[pair]:
                lists.ending[at] = lists.ending[at - 1]
                at -= 1
            lists.ending[at] = pair
            many += 1
    lists.counts[ENDING] = many
    if many > 0:
        copy(sets.works, sets.after)
        copy(sets.nothing, sets.soon)
        for at in range(many):
            put_both(lists.ending[at], sets.soon, True, c)


def put_both(pair: int, ports: Array, is_in: bool, c: Circuits) -> None:
    """Add the ports of a pair to a set, or remove them."""
    put(ports, 0, c.pairs.port[2 * pair], is_in)
    put(ports, c.words, c.pairs.port[2 * pair + 1], is_in)


def look_ahead(order: Array, until: int, c: Circuits) -> bool:
    """Book what the coflows before this place will take; whether they take any more ports."""
    sets, counts, ends, is_more = c.sets, c.lists.counts, c.coflows.ends, False
    if counts[ENDING] == 0:
        return False
    for place in range(counts[AHEAD], until):
        coflow = order[place]
        c.coflows.seen[coflow] = counts[CHOICES]
        pair = c.coflows.held[coflow]
        while pair != NONE:
            put_both(pair, sets.after, False, c)
            pair = c.pairs.next_held[pair]
        at = 2 * coflow * c.words
        if meet(ends, at, sets.soon, 0, c.words) or meet(
            ends, at + c.words, sets.soon, c.words, c.words
        ):
            is_more = book(coflow, c) or is_more
    counts[AHEAD] = max(counts[AHEAD], until)
    return is_more


def book(coflow: int, c: Circuits) -> bool:
    """Book the ports that a coflow will take as pairs of those so far end; whether it takes any."""
    sets, lists, pairs, is_more = c.sets, c.lists, c.pairs, False
    counts, times, ends, at = lists.counts, lists.times, c.coflows.ends, 2 * coflow * c.words
    copy(sets.after, sets.free)
    for number in range(counts[ENDING]):
        ended = lists.ending[number]
        src, dst = pairs.port[2 * ended], pairs.port[2 * ended + 1]
        if c.coflows.seen[pairs.coflow[ended]] != counts[CHOICES] or c.ports.holder[src] != ended:
            continue  # later ones' ports are its own already, if it wants them; or it was cut
        put_both(ended, sets.free, True, c)
        if not (has(ends, at, src) or has(ends, at + c.words, dst)):
            continue
        for word in range(2 * c.words):
            sets.free[word] &= ~sets.booking[word]
        ends_s, turns = pairs.ends_s[ended], 2
        while turns > 0:  # two ports are free
            turns -= 1
            many, last = 0, len(lists.choice) - 1
            for side in range(2):
                port = src if side == OUT else dst
                if look(coflow, side, port, ends_s, sets.free, sets.nothing, last - many, c):
                    many += 1
            if many == 0:
                break
            first = last - 1 if many == 2 and comes_before(last - 1, last, c) else last
            put_both(lists.choice[first], sets.free, False, c)
            put_both(lists.choice[first], sets.booking, True, c)
            times[FIRST_BOOKED] = min(times[FIRST_BOOKED], ends_s)
            is_more = True
    return is_more


# The policy --------------------------------------------------------------------------------------
