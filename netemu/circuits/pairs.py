"""Flows come and go, their pairs go by packets or by circuit, and time goes on; see ``arrays``."""

from __future__ import annotations

from math import floor, inf

from railyard.netemu.circuits.arrays import (
    ALONE,
    CHANGED,
    CHANGES,
    CHOICES,
    CUT,
    FLOWS,
    FREE,
    GROWN,
    HOLDS,
    LOOK_AGAIN,
    OUT,
    PACKETS,
    REMATCH,
    REORDER,
    SMALL,
    TAKEN,
    WAITS,
    Circuits,
)
from railyard.netemu.circuits.sunflow import choose, hold, line_up, place_of, release, set_waits
from railyard.netemu.circuits.switch import (
    begin_to_carry,
    circuit_bytes_per_s,
    connect,
    let_go,
    next_ready_s,
    spare,
)
from railyard.netemu.kernel.levels import end_due, serve_all
from railyard.netemu.kernel.rows import (
    book,
    instant_s,
    join,
    leave,
    put_between,
    sent_by,
    served_at,
    take_out,
)
from railyard.netemu.kernel.state import ENDED, NO_END, NONE, SHORT, Array, State

#: So many events follow each other at most in which no flow ends.
_IDLE_MAX = 100_000


# Flows come and go -------------------------------------------------------------------------------
def enter(coming: Array, crosses: Array, others: Array, now_s: float, s: State, c: Circuits) -> int:
    """Take in those of these new flows that have bytes for another rack.

    ``crosses``: [route], whether it is between racks.  Those of pairs that hold circuits join at
    once; ``sort_out`` must follow for the others.  Returns how many are not taken in: ``others``.
    """
    many = 0
    for at in range(len(coming)):
        flow = coming[at]
        if not crosses[s.flows.route[flow]] or s.flows.sent[flow] >= s.flows.size[flow]:
            others[many] = flow
            many += 1
            continue
        pair = find_pair(flow, now_s, s, c)
        flows, last = c.flows, c.pairs.last[pair]
        put_between(flow, last, NONE, flows.before, flows.next, c.pairs.first, pair)
        flows.pair[flow], c.pairs.last[pair] = pair, flow
        if c.pairs.state[pair] == PACKETS:
            note_once(pair, c.pairs.is_small, c.lists.small, SMALL, c)
        else:
            take_way(flow, True, s, c)
            note_once(pair, c.pairs.is_grown, c.lists.grown, GROWN, c)
            if c.pairs.slot[pair] != NONE:
                join_slot(flow, c.pairs.slot[pair], now_s, s, c)
    return many


def find_pair(flow: int, now_s: float, s: State, c: Circuits) -> int:
    """The pair that a flow belongs to; a new one, if there is none."""
    pairs, coflow, route = c.pairs, s.flows.coflow[flow], s.flows.route[flow] % c.packets
    src, dst = route // (c.racks + 1), route % (c.racks + 1)
    end = c.coflows.head[(2 * coflow + OUT) * c.racks + src]
    while end != NONE and pairs.port[end + 1] != dst:
        end = pairs.next[end]
    return end >> 1 if end != NONE else new_pair(coflow, src, dst, now_s, c)


def new_pair(coflow: int, src: int, dst: int, now_s: float, c: Circuits) -> int:
    """A pair without flows, which goes by packets; there is room for it."""
    pairs, counts = c.pairs, c.lists.counts
    counts[FREE] -= 1
    pair = c.lists.free[counts[FREE]]
    pairs.coflow[pair], pairs.state[pair], pairs.slot[pair] = coflow, PACKETS, NONE
    pairs.port[2 * pair], pairs.port[2 * pair + 1] = src, dst
    pairs.far[pair] = dst - src if dst >= src else dst - src + c.racks
    pairs.first[pair] = pairs.last[pair] = NONE
    pairs.counted[pair], pairs.ends_s[pair], pairs.is_new[pair] = 0.0, inf, False
    for end in range(2 * pair, 2 * pair + 2):
        first, of = c.coflows.head, place_of(end, c)
        put_between(end, NONE, first[of], pairs.before, pairs.next, first, of)
    if c.coflows.pairs[coflow] == 0:
        c.coflows.arrived_s[coflow], c.coflows.is_moved[coflow] = now_s, True
    c.coflows.pairs[coflow] += 1
    return pair


def forget(flow: int, now_s: float, s: State, c: Circuits) -> None:
    """Forget a flow that has nothing to send any more, or is closed; it is in no row."""
    flows, pairs, pair = c.flows, c.pairs, c.flows.pair[flow]
    if pair == NONE:
        return
    if flows.next[flow] == NONE:
        pairs.last[pair] = flows.before[flow]
    take_out(flow, flows.before, flows.next, pairs.first, pair)
    flows.pair[flow] = NONE
    if pairs.first[pair] == NONE:
        drop(pair, now_s, c)
    elif pairs.state[pair] == WAITS:
        note_once(pair, pairs.is_grown, c.lists.grown, GROWN, c)
    elif pairs.state[pair] == HOLDS:
        pairs.is_new[pair] = True
        if s.flows.sent[flow] < s.flows.size[flow]:
            expect_end(pair, left_bytes(pair, now_s, s, c), now_s, s, c)


def drop(pair: int, now_s: float, c: Circuits) -> None:
    """Forget a pair, which has no flows."""
    pairs, coflow = c.pairs, c.pairs.coflow[pair]
    if pairs.state[pair] != PACKETS:
        take_off(pair, now_s, c)
    for end in range(2 * pair, 2 * pair + 2):
        take_out(end, pairs.before, pairs.next, c.coflows.head, place_of(end, c))
    c.lists.free[c.lists.counts[FREE]] = pair
    c.lists.counts[FREE] += 1
    c.coflows.pairs[coflow] -= 1


def note_once(pair: int, is_noted: Array, noted: Array, many: int, c: Circuits) -> None:
    """Note that a pair has more, or less, to send: it is in a list of ``counts[many]`` then."""
    if not is_noted[pair]:
        is_noted[pair] = True
        noted[c.lists.counts[many]] = pair
        c.lists.counts[many] += 1


# By packets or by circuit ------------------------------------------------------------------------
def sort_out(elephant_bytes: float, now_s: float, s: State, c: Circuits) -> None:
    """Let pairs with so much to send wait for circuits; ``Lists.flows``: those to go by packets.

    Those are in no row.  Pairs by circuit that have more or less to send are counted anew.
    """
    counts, pairs = c.lists.counts, c.pairs
    counts[FLOWS] = 0
    for at in range(counts[SMALL]):
        pair = c.lists.small[at]
        pairs.is_small[pair] = False
        if pairs.first[pair] != NONE and pairs.state[pair] == PACKETS:  # else it has ended since
            choose_way(pair, elephant_bytes, now_s, s, c)
    counts[SMALL] = 0
    for at in range(counts[GROWN]):
        pair = c.lists.grown[at]
        pairs.is_grown[pair] = False
        if pairs.first[pair] == NONE or pairs.state[pair] == PACKETS:
            continue
        if pairs.state[pair] == WAITS:
            queue(pair, now_s, s, c)
        else:
            count(pair, left_bytes(pair, now_s, s, c), c)
            expect_end(pair, pairs.counted[pair], now_s, s, c)
            counts[REORDER] = 1
    counts[GROWN] = 0


def choose_way(pair: int, elephant_bytes: float, now_s: float, s: State, c: Circuits) -> None:
    """Let a pair that goes by packets wait for a circuit, or list its flows that are in no row."""
    pairs, counts, flow, left = c.pairs, c.lists.counts, c.pairs.first[pair], 0.0
    out, into = pairs.port[2 * pair], c.racks + pairs.port[2 * pair + 1]
    if c.ports.bytes_per_s[out] > 0.0 and c.ports.bytes_per_s[into] > 0.0:
        left = left_bytes(pair, now_s, s, c)
    by_circuit = left > 0.0 and left >= elephant_bytes
    while flow != NONE:
        is_sending = s.flows.row[flow] != NONE
        if by_circuit and is_sending:
            leave(flow, now_s, s)
        elif not (by_circuit or is_sending):
            c.lists.flows[counts[FLOWS]] = flow
            counts[FLOWS] += 1
        take_way(flow, by_circuit, s, c)
        flow = c.flows.next[flow]
    if by_circuit:
        c.coflows.by_circuit[pairs.coflow[pair]] += 1
        queue(pair, now_s, s, c)


def take_way(flow: int, by_circuit: bool, s: State, c: Circuits) -> None:
    """Have a flow, which is in no row or goes that way already, go by circuit or by packets."""
    if (s.flows.route[flow] >= c.packets) != by_circuit:
        book(flow, 0.0, s)  # it is in no row
        s.flows.route[flow] += c.packets if by_circuit else -c.packets


def queue(pair: int, now_s: float, s: State, c: Circuits) -> None:
    """Let a pair wait for a circuit, with what its flows have left to send."""
    count(pair, left_bytes(pair, now_s, s, c), c)
    wait(pair, c)
    c.coflows.is_fresh[c.pairs.coflow[pair]] = True
    c.lists.counts[REORDER] = 1


def wait(pair: int, c: Circuits) -> None:
    """Let a pair, which has been counted, wait for a circuit."""
    c.pairs.state[pair] = WAITS
    c.pairs.size[pair] = floor(c.pairs.counted[pair] + 0.5)  # equals must not differ by rounding
    line_up(pair, c)
    set_waits(pair, True, c)


def count(pair: int, size_bytes: float, c: Circuits) -> None:
    """Note what a pair has left to send by circuits; 0: it needs none any more."""
    coflow, before = c.pairs.coflow[pair], c.pairs.counted[pair]
    more = (1 if size_bytes > 0.0 else 0) - (1 if before > 0.0 else 0)
    for end in range(2 * pair, 2 * pair + 2):
        port = place_of(end, c)
        c.coflows.port_pairs[port] += more
        c.coflows.port_bytes[port] += size_bytes - before
        if c.coflows.port_pairs[port] == 0:
            c.coflows.port_bytes[port] = 0.0  # no rounding stays: a failed port would take forever
    c.pairs.counted[pair] = size_bytes
    c.coflows.is_moved[coflow] = True


def take_off(pair: int, now_s: float, c: Circuits) -> None:
    """Have a pair go by packets: it has no circuit, and wants none; its flows are in no row."""
    coflow = c.pairs.coflow[pair]
    if c.pairs.state[pair] == HOLDS:
        release(pair, c)
        let_go(pair, now_s, c)
        c.lists.counts[REMATCH] = 1
    else:
        set_waits(pair, False, c)
    c.pairs.state[pair] = PACKETS
    count(pair, 0.0, c)
    c.coflows.by_circuit[coflow] -= 1
    if c.coflows.by_circuit[coflow] == 0:
        c.coflows.is_fresh[coflow] = False
        c.lists.counts[REORDER] = 1


def left_bytes(pair: int, now_s: float, s: State, c: Circuits) -> float:
    """Bytes that a pair has left to send."""
    left, slot, flow = 0.0, c.pairs.slot[pair], c.pairs.first[pair]
    if slot != NONE:
        cell = s.cell_of[c.first_link + slot]
        if cell == NONE:
            return 0.0
        for place in range(s.cells.begin[cell], s.cells.begin[cell] + s.cells.many[cell]):
            row = s.work.entries[place] >> s.shift
            sent = served_at(row, now_s, s.rows) * s.rows.weight[row]
            left += max(s.rows.total[row] - sent, 0.0)
        return left
    while flow != NONE:
        left += s.flows.size[flow] - sent_by(flow, now_s, s)
        flow = c.flows.next[flow]
    return left


def count_holding(now_s: float, s: State, c: Circuits) -> None:
    """Note what the pairs that hold circuits have left to send."""
    for slot in range(c.slots):
        pair = c.of.user[slot]
        if pair != NONE:
            count(pair, left_bytes(pair, now_s, s, c), c)


def expect_ends(now_s: float, s: State, c: Circuits) -> None:
    """Note when the pairs that hold circuits will have sent all."""
    for slot in range(c.slots):
        pair = c.of.user[slot]
        if pair != NONE:
            expect_end(pair, left_bytes(pair, now_s, s, c), now_s, s, c)


def expect_end(pair: int, left: float, now_s: float, s: State, c: Circuits) -> None:
    """Note when a pair that holds a circuit will have sent so many bytes."""
    slot = c.pairs.slot[pair]
    rate = circuit_bytes_per_s(slot, c)
    if c.lists.counts[ALONE] == 0:  # other flows use the nodes' links
        sends = pair_bytes_per_s(slot, s, c)
        if sends > 0.0:
            rate = sends
        elif now_s - c.of.ready_s[slot] > instant_s(now_s) and not c.pairs.is_new[pair]:
            rate = 0.0  # a node's link is shut: no end is known
    c.pairs.ends_s[pair] = max(c.of.ready_s[slot], now_s) + left / rate if rate > 0.0 else inf


def pair_bytes_per_s(slot: int, s: State, c: Circuits) -> float:
    """Bytes/s of the rows on a slot."""
    rate, cell = 0.0, s.cell_of[c.first_link + slot]
    if cell != NONE:
        for place in range(s.cells.begin[cell], s.cells.begin[cell] + s.cells.many[cell]):
            row = s.work.entries[place] >> s.shift
            rate += s.rows.rate[row] * s.rows.weight[row]
    return rate


# Flows on circuits -------------------------------------------------------------------------------
def join_slot(flow: int, slot: int, now_s: float, s: State, c: Circuits) -> None:
    """Let a flow, which is in no row, send through a circuit, or wait there until it is ready."""
    rows, link = s.rows, s.nics.link
    up, down = link[2 * s.flows.src[flow]], link[2 * s.flows.dst[flow] + 1]
    row = c.first_row + slot * c.rows
    row += c.nodes.place_up[s.flows.src[flow]] + c.nodes.place_down[s.flows.dst[flow]]
    if rows.flows[row] == 0:
        rows.group[row], rows.way[row] = 0, NONE
        at, end = row << s.shift, (row << s.shift) + s.longest
        if up != s.none:
            rows.link[at] = up
            at += 1
        rows.link[at] = c.first_link + slot
        at += 1
        if down != s.none:
            rows.link[at] = down
            at += 1
        while at < end:
            rows.link[at] = s.none
            at += 1
    join(flow, row, now_s, s)
    c.pairs.is_new[c.flows.pair[flow]] = True


def attach(pair: int, now_s: float, s: State, c: Circuits) -> None:
    """Let a pair's flows send through its circuit."""
    flow, slot = c.pairs.first[pair], c.pairs.slot[pair]
    while flow != NONE:
        join_slot(flow, slot, now_s, s, c)
        flow = c.flows.next[flow]


def detach(pair: int, now_s: float, s: State, c: Circuits) -> None:
    """Let a pair's flows leave its circuit."""
    flow = c.pairs.last[pair]
    while flow != NONE:
        if s.flows.row[flow] != NONE:
            leave(flow, now_s, s)
        flow = c.flows.before[flow]


def attach_all(now_s: float, s: State, c: Circuits) -> None:
    """Attach all pairs that hold circuits, of which no flow is in a row."""
    for slot in range(c.slots):
        if c.of.user[slot] != NONE:
            attach(c.of.user[slot], now_s, s, c)


def leave_port(port: int, coflow: int, fails: bool, now_s: float, s: State, c: Circuits) -> None:
    """Let a coflow's pairs at a port that fails go by packets; list those, also if it works."""
    pairs, side = c.pairs, 1 if port >= c.racks else 0
    end = c.coflows.head[(2 * coflow + side) * c.racks + port % c.racks]
    while end != NONE:
        pair = end >> 1
        if fails and pairs.state[pair] != PACKETS:
            detach(pair, now_s, s, c)
            take_off(pair, now_s, c)
            note_once(pair, pairs.is_small, c.lists.small, SMALL, c)
        elif not fails and pairs.state[pair] == PACKETS:
            note_once(pair, pairs.is_small, c.lists.small, SMALL, c)
        end = pairs.next[end]


# Decisions ---------------------------------------------------------------------------------------
def has_to_choose(now_s: float, c: Circuits) -> bool:
    """Whether circuits are to be chosen anew."""
    counts = c.lists.counts
    looks_again = c.lists.times[LOOK_AGAIN] <= now_s + instant_s(now_s)
    return counts[REORDER] != 0 or counts[REMATCH] != 0 or looks_again


def change(now_s: float, s: State, c: Circuits) -> None:
    """Take the circuits of ``Lists.cut``, and set up those of ``Lists.taken``."""
    lists, counts = c.lists, c.lists.counts
    counts[REORDER] = counts[REMATCH] = 0
    for at in range(counts[CUT]):
        pair = lists.cut[at]
        detach(pair, now_s, s, c)
        let_go(pair, now_s, c)
        count(pair, left_bytes(pair, now_s, s, c), c)
        wait(pair, c)
    for at in range(counts[TAKEN]):  # spare circuits first: others may take them down
        is_last = counts[CUT] > 0 and c.wavelengths > 1
        lists.is_dark[at] = is_last and spare(lists.taken[at], c) == NONE
    for turn in range(2):
        for at in range(counts[TAKEN]):
            if lists.is_dark[at] == (turn == 1):
                pair = lists.taken[at]
                connect(pair, now_s, s, c)
                attach(pair, now_s, s, c)
                expect_end(pair, c.pairs.counted[pair], now_s, s, c)


def follow(now_s: float, wanted: Array, s: State, c: Circuits) -> None:
    """Have these pairs, which go by circuit, hold circuits, and no others."""
    lists, pairs, counts = c.lists, c.pairs, c.lists.counts
    counts[CUT] = counts[TAKEN] = 0
    counts[CHOICES] += 1
    for at in range(len(wanted)):
        pairs.since[wanted[at]] = counts[CHOICES]
    for slot in range(c.slots):
        pair = c.of.user[slot]
        if pair != NONE and pairs.since[pair] != counts[CHOICES]:
            release(pair, c)
            lists.cut[counts[CUT]] = pair
            counts[CUT] += 1
    for at in range(len(wanted)):
        pair = wanted[at]
        if pairs.state[pair] == WAITS:
            set_waits(pair, False, c)
            pairs.state[pair] = HOLDS
            hold(pair, c)
            lists.taken[counts[TAKEN]] = pair
            counts[TAKEN] += 1
    change(now_s, s, c)


def set_rates(now_s: float, order: Array, is_new_order: bool, s: State, c: Circuits) -> bool:
    """Choose circuits, if there is a reason to, and bring rates up to date, if that can be done."""
    if has_to_choose(now_s, c):
        if c.lists.counts[ALONE] == 0:
            expect_ends(now_s, s, c)
        choose(now_s, order, is_new_order, c)
        change(now_s, s, c)
    if not serve_all(now_s, s):
        return False
    for slot in range(c.slots):
        if c.of.user[slot] != NONE:
            c.pairs.is_new[c.of.user[slot]] = False
    return True


def next_event_s(now_s: float, ready_s: float, s: State, c: Circuits) -> float:
    """When a flow ends, circuits are to be chosen, or the first dark circuit carries."""
    return max(min(s.groups.next_s[0], c.lists.times[LOOK_AGAIN], ready_s), now_s)


def end_flows_due(now_s: float, slack_s: float, s: State, c: Circuits) -> bool:
    """End the flows that are due then, or within ``slack_s`` after it; whether there are any."""
    before = s.work.counts[ENDED]
    if s.groups.next_s[0] <= now_s + slack_s:
        s.groups.next_s[0] = now_s
        end_due(0, now_s, slack_s, s)
        for at in range(before, s.work.counts[ENDED]):
            forget(s.work.ended[at], now_s, s, c)
    return s.work.counts[ENDED] > before


def run(
    span: tuple[float, float, float], asks: bool, order: Array, s: State, c: Circuits
) -> tuple[float, int, bool]:
    """Go from event to event until then; see ``kernel.levels.run``.

    It also returns when coflows are to be put in order, with ``asks`` when circuits are to be
    chosen, and where the log is full.
    """
    now_s, until_s, together_s = span
    events = idle = 0
    while True:
        ready_s = next_ready_s(c)
        to_s = next_event_s(now_s, ready_s, s, c)
        if to_s == inf or to_s > until_s + instant_s(until_s):
            return until_s if until_s < inf else now_s, events, False
        now_s = min(to_s, until_s)
        slack_s = max(instant_s(now_s), together_s)
        is_due = ready_s <= now_s + slack_s or has_to_choose(now_s, c)
        if ready_s <= now_s:
            begin_to_carry(now_s, s, c)
        idle = 0 if end_flows_due(now_s, slack_s, s, c) else idle + 1
        events += 1
        if idle > _IDLE_MAX or (idle > 0 and not is_due):
            return now_s, NO_END, True
        if until_s - now_s <= instant_s(until_s):
            return until_s, events, True
        if c.lists.counts[REORDER] != 0 or (asks and has_to_choose(now_s, c)):
            return now_s, events, True
        if not set_rates(now_s, order, False, s, c):
            return now_s, NO_END if s.work.counts[SHORT] == 0 else events, True
        if c.lists.counts[CHANGED] > CHANGES:
            return now_s, events, True
