"""Flows join rows, send with them, and leave."""

from __future__ import annotations

from math import inf

from railyard.netemu.kernel.state import (
    EMPTIED,
    ENDED,
    ENTRIES,
    FREE_CELLS,
    FREED,
    NO_CELL,
    NONE,
    NOT_KNOWN,
    TRUNKED,
    Array,
    Groups,
    Rows,
    State,
)

#: Service and shares that differ by less than this share are equal: they differ by rounding.
ROUNDING = 1e-12
#: Sums of a few numbers are as exact as this.
LAST_DIGIT = 1e-15
#: Where less than this share of a sum is left after a subtraction, it is made anew: weights may
#: be 10**12 times as large as others, and the rounding of a large sum would stay in a small one.
KEEPS = 0.75
#: A row counts its service from 0 again when a flow joins of which that service is worth more
#: bytes than this: their last digit is 2**-9 bytes.  Flows of a small weight have had a large one.
SERVICE_BYTES_MAX = 2.0**43
#: A row has sent all if it lacks no more than this share of what it sent since its rate was set,
#: nor more than this many bytes: that rate may have been a small difference of large ones.
SAME_SHARE, SAME_BYTES = 1e-9, 0.1


def instant_s(at_s: float) -> float:
    """By how much two times near this one may differ and be the same instant, in seconds."""
    return max(1e-9, at_s * 1e-13)


def served_at(row: int, now_s: float, rows: Rows) -> float:
    """A row's service by now."""
    rate = rows.rate[row]
    return rows.served[row] + (rate * (now_s - rows.since_s[row]) if rate > 0.0 else 0.0)


def settle(row: int, now_s: float, rows: Rows) -> None:
    """Bring a row's service up to now."""
    rows.served[row] = served_at(row, now_s, rows)
    rows.since_s[row] = now_s


def note_left(row: int, now_s: float, rows: Rows) -> None:
    """Note what a row has left to send by now."""
    served = served_at(row, now_s, rows)
    rows.left[row] = max(rows.total[row] - served * rows.weight[row], 1e-6)


def sent_by(flow: int, now_s: float, s: State) -> float:
    """Bytes that a flow has sent by now."""
    flows, row = s.flows, s.flows.row[flow]
    if row == NONE:
        return flows.sent[flow]
    service = served_at(row, now_s, s.rows) - flows.joined[flow]
    return min(flows.sent[flow] + service * flows.weight[flow], flows.size[flow])


# Lists -------------------------------------------------------------------------------------------
def put_between(
    item: int, before: int, after: int, befores: Array, afters: Array, firsts: Array, of: int
) -> None:
    """Put an item of a list, which begins with ``firsts[of]``, between two; ``NONE``: at an end."""
    befores[item], afters[item] = before, after
    if before == NONE:
        firsts[of] = item
    else:
        afters[before] = item
    if after != NONE:
        befores[after] = item


def take_out(item: int, befores: Array, afters: Array, firsts: Array, of: int) -> None:
    """Take an item from a list, whose first item stands in ``firsts[of]``."""
    before, after = befores[item], afters[item]
    if before == NONE:
        firsts[of] = after
    else:
        afters[before] = after
    if after != NONE:
        befores[after] = before


# Joining -----------------------------------------------------------------------------------------
def join(flow: int, row: int, now_s: float, s: State) -> None:
    """Let a flow that sends nothing join a row."""
    flows, rows, first = s.flows, s.rows, row << s.shift
    weight = flows.weight[flow]
    if rows.flows[row] == 0:
        rows.served[row] = rows.rate[row] = rows.weight[row] = rows.total[row] = 0.0
        rows.parts[2 * row] = rows.parts[2 * row + 1] = 0.0
        rows.since_s[row], rows.first[row], rows.last[row] = now_s, NONE, NONE
        s.groups.rows[rows.group[row]] += 1
    else:
        settle(row, now_s, rows)
        if s.by_bytes and rows.served[row] > 0.0:
            weigh_anew(row, s)
        elif rows.served[row] * weight > SERVICE_BYTES_MAX:
            begin_anew(row, s)
    flows.row[flow], flows.joined[flow] = row, rows.served[row]
    needs = rows.served[row] + (flows.size[flow] - flows.sent[flow]) / weight
    flows.needs[flow] = needs
    put_in_order(flow, row, s)
    count_over_nics(flow, row, 1, s)
    rows.flows[row] += 1
    rows.weight[row] += weight
    rows.total[row] += weight * needs
    has_changed(row, s)
    if rows.flows[row] == 1:
        if s.listed == 0:
            line_up(row, now_s, s)
        else:
            enlist(row, s)
    if s.listed > 0:
        s.cells.is_dirty[rows.cell[first]] = True
    for entry in range(first, first + s.listed):
        cell = rows.cell[entry]
        if cell == NO_CELL:
            break
        s.cells.load[2 * cell] = s.cells.load[2 * cell + 1] = inf  # not known any more
        s.work.weights[rows.place[entry]] = rows.weight[row]


def count_over_nics(flow: int, row: int, more: int, s: State) -> None:
    """Count a flow that joins a row, or leaves it, on its nics, if the row is a trunk."""
    nics, flows, way = s.nics, s.flows, s.rows.way[row]
    if way == NONE or not s.lines.is_trunk[way]:
        return
    near, far = flows.route[flow] // s.racks, flows.route[flow] % s.racks
    for nic, rack in ((2 * flows.src[flow], far), (2 * flows.dst[flow] + 1, near)):
        if nics.link[nic] != s.none:
            nics.to[nic * s.racks + rack] += more
            nics.many[nic] += more
            s.work.counts[TRUNKED] += more
            if nics.many[nic] == 0:
                nics.used[nic] = 0.0


def put_in_order(flow: int, row: int, s: State) -> None:
    """Put a flow in its place among those of a row, which is mostly the last."""
    flows, rows = s.flows, s.rows
    before, after = rows.last[row], NONE
    while before != NONE and flows.needs[before] > flows.needs[flow]:
        before, after = flows.before[before], before
    put_between(flow, before, after, flows.before, flows.after, rows.first, row)
    if after == NONE:
        rows.last[row] = flow


def begin_anew(row: int, s: State) -> None:
    """Count the service of a row, which is as of now, from 0 again."""
    flows, rows = s.flows, s.rows
    flow, served = rows.first[row], rows.served[row]
    while flow != NONE:
        flows.joined[flow] -= served
        flows.needs[flow] -= served
        flow = flows.after[flow]
    rows.served[row] = 0.0
    sum_up_flows(row, s)


def weigh_anew(row: int, s: State) -> None:
    """Have a row's flows, of which all end at once, weigh what they have left; it is settled."""
    flows, rows = s.flows, s.rows
    flow, left = rows.first[row], 1.0 - rows.served[row]
    while flow != NONE:
        flows.sent[flow] = sent_by(flow, rows.since_s[row], s)
        flows.weight[flow] = max(flows.size[flow] - flows.sent[flow], 1e-6)
        flows.joined[flow], flows.needs[flow] = 0.0, 1.0
        flow = flows.after[flow]
    rows.served[row] = 0.0
    rows.rate[row] *= left
    sum_up_flows(row, s)


def sum_up_flows(row: int, s: State) -> None:
    """Make the sums over a row's flows anew."""
    flows, rows = s.flows, s.rows
    flow, weight, total = rows.first[row], 0.0, 0.0
    while flow != NONE:
        weight += flows.weight[flow]
        total += flows.weight[flow] * flows.needs[flow]
        flow = flows.after[flow]
    rows.weight[row], rows.total[row] = weight, total


def has_changed(row: int, s: State) -> None:
    """Note that when a row, which is settled, and its group end is not known any more."""
    first, group, s.rows.due[2 * row] = s.rows.first[row], s.rows.group[row], NOT_KNOWN
    s.rows.needs[row] = s.flows.needs[first] if first != NONE else inf
    s.groups.next_s[group] = s.groups.added_s[group] = -inf
    if s.by_bytes:
        note_left(row, s.rows.since_s[row], s.rows)


# Leaving -----------------------------------------------------------------------------------------
def leave(flow: int, now_s: float, s: State) -> None:
    """Let a flow leave its row before it has sent all."""
    row, flows, rows = s.flows.row[flow], s.flows, s.rows
    settle(row, now_s, rows)
    flows.sent[flow] = sent_by(flow, now_s, s)
    if flows.after[flow] == NONE:
        rows.last[row] = flows.before[flow]
    take_out(flow, flows.before, flows.after, rows.first, row)
    flows.row[flow] = NONE
    count_over_nics(flow, row, -1, s)
    rows.flows[row] -= 1
    has_less(row, flows.weight[flow], flows.weight[flow] * flows.needs[flow], now_s, s)


def end_flows(row: int, enough: float, at_s: float, s: State) -> None:
    """End the flows of a row that need no more service than this; it is settled."""
    flows, rows, work = s.flows, s.rows, s.work
    flow, weight, total = rows.first[row], 0.0, 0.0
    while flow != NONE and flows.needs[flow] <= enough:
        weight += flows.weight[flow]
        total += flows.weight[flow] * flows.needs[flow]
        flows.row[flow], flows.sent[flow], flows.end_s[flow] = NONE, flows.size[flow], at_s
        count_over_nics(flow, row, -1, s)
        rows.flows[row] -= 1
        work.ended[work.counts[ENDED]] = flow
        work.counts[ENDED] += 1
        flow = flows.after[flow]
    rows.first[row] = flow
    if flow == NONE:
        rows.last[row] = NONE
    else:
        flows.before[flow] = NONE
    has_less(row, weight, total, at_s, s)


def has_less(row: int, weight: float, total: float, now_s: float, s: State) -> None:
    """Take from a row's sums; without flows, it is freed."""
    rows, cells, first = s.rows, s.cells, row << s.shift
    before, total_before = rows.weight[row], rows.total[row]
    rows.weight[row] -= weight
    rows.total[row] -= total
    if rows.flows[row] == 0:
        rows.weight[row] = rows.total[row] = 0.0
    elif rows.weight[row] < before * KEEPS or rows.total[row] < total_before * KEEPS:
        sum_up_flows(row, s)
    less = before - rows.weight[row]
    has_changed(row, s)
    if s.listed > 0:
        cells.is_dirty[rows.cell[first]] = True
    for entry in range(first, first + s.listed):
        cell = rows.cell[entry]
        if cell == NO_CELL:
            break
        cells.load[2 * cell] -= rows.parts[2 * row] * less
        cells.load[2 * cell + 1] -= rows.parts[2 * row + 1] * less
        s.work.weights[rows.place[entry]] = rows.weight[row]
    if rows.flows[row] == 0:
        rows.rate[row] = rows.parts[2 * row] = rows.parts[2 * row + 1] = 0.0
        if s.listed == 0:
            step_out(row, now_s, s)
        else:
            delist(row, s)
        s.groups.rows[rows.group[row]] -= 1
        if s.groups.rows[rows.group[row]] == 0:
            count_sent(rows.group[row], 0.0, now_s, s.groups)
            s.work.counts[EMPTIED] += 1
        if rows.way[row] != NONE:  # those of circuits have numbers of their own
            s.work.freed[s.work.counts[FREED]] = row
            s.work.counts[FREED] += 1


# Cells -------------------------------------------------------------------------------------------
def enlist(row: int, s: State) -> None:
    """List a row in the cells of its links."""
    rows, cells, first = s.rows, s.cells, row << s.shift
    for entry in range(first, first + s.listed):
        link = rows.link[entry]
        if link == s.none:
            rows.cell[entry] = NO_CELL
            continue
        cell = s.cell_of[rows.group[row] * s.none + link]
        if cell == NONE:
            cell = new_cell(rows.group[row], link, s)
        if cells.many[cell] == cells.room[cell]:
            move(cell, 2 * cells.many[cell] + 2, s)
        rows.cell[entry], rows.place[entry] = cell, cells.begin[cell] + cells.many[cell]
        cells.many[cell] += 1
    for entry in range(first, first + s.listed):
        if rows.cell[entry] != NO_CELL:
            put_entry(entry, rows.place[entry], s)


def put_entry(entry: int, place: int, s: State) -> None:
    """List a row at this place, with what is read of it there."""
    rows, work, row = s.rows, s.work, entry >> s.shift
    work.entries[place], rows.place[entry], work.weights[place] = entry, place, rows.weight[row]
    for at in range(s.longest):
        work.crossed[(place << s.shift) + at] = rows.cell[(row << s.shift) + at]


def delist(row: int, s: State) -> None:
    """Take a row from its cells; the last one takes its place."""
    rows, cells, first = s.rows, s.cells, row << s.shift
    for entry in range(first, first + s.listed):
        cell = rows.cell[entry]
        if cell == NO_CELL:
            continue
        cells.many[cell] -= 1
        last = s.work.entries[cells.begin[cell] + cells.many[cell]]
        put_entry(last, rows.place[entry], s)
        if cells.many[cell] == 0:
            cells.load[2 * cell] = cells.load[2 * cell + 1] = 0.0
            cells.level[2 * cell] = cells.level[2 * cell + 1] = cells.first_s[cell] = inf


def move(cell: int, room: int, s: State) -> None:
    """Move a cell's entries to where there is so much room."""
    cells, entries, to = s.cells, s.work.entries, s.work.counts[ENTRIES]
    s.work.counts[ENTRIES] += room
    for at in range(cells.many[cell]):
        put_entry(entries[cells.begin[cell] + at], to + at, s)
    cells.begin[cell], cells.room[cell] = to, room


def pack(old: Array, s: State) -> None:
    """Move all entries from an array of ``old`` ones, without gaps but for each cell's room."""
    cells, to = s.cells, 0
    for group in range(len(s.groups.cell)):
        cell = s.groups.cell[group]
        while cell != NONE:
            for at in range(cells.many[cell]):
                put_entry(old[cells.begin[cell] + at], to + at, s)
            cells.begin[cell], cells.room[cell] = to, cells.many[cell]
            to += cells.many[cell]
            cell = cells.next[cell]
    for at in range(s.work.counts[FREE_CELLS]):
        cells.room[s.work.free_cells[at]] = 0
    s.work.counts[ENTRIES] = to


def new_cell(group: int, link: int, s: State) -> int:
    """A group's cell of a link, which has none; there is room for it."""
    cells, work = s.cells, s.work
    work.counts[FREE_CELLS] -= 1
    cell = work.free_cells[work.counts[FREE_CELLS]]
    cells.link[cell], cells.many[cell] = link, 0  # what it had room for, it still has
    cells.is_dirty[cell] = cells.is_queued[cell] = False
    cells.load[2 * cell] = cells.load[2 * cell + 1] = cells.rate[cell] = 0.0
    cells.level[2 * cell] = cells.level[2 * cell + 1] = cells.first_s[cell] = inf
    cells.next[cell], s.groups.cell[group] = s.groups.cell[group], cell
    s.cell_of[group * s.none + link] = cell
    return cell


def free_cell(cell: int, before: int, group: int, s: State) -> None:
    """Give back a cell without rows, which stands after ``before`` among those of its group."""
    cells, work = s.cells, s.work
    if before == NONE:
        s.groups.cell[group] = cells.next[cell]
    else:
        cells.next[before] = cells.next[cell]
    s.cell_of[group * s.none + cells.link[cell]] = NONE
    work.free_cells[work.counts[FREE_CELLS]] = cell
    work.counts[FREE_CELLS] += 1


# Lines -------------------------------------------------------------------------------------------
def key_of(row: int, now_s: float, s: State) -> float:
    """What the place of a row in its line goes by: its key, or the bytes that it has left."""
    rows = s.rows
    if s.has_keys:
        return rows.key[row]
    return (rows.needs[row] - served_at(row, now_s, rows)) * rows.weight[row]


def line_up(row: int, now_s: float, s: State) -> None:
    """Give a row its place in the line of its path."""
    rows, lines = s.rows, s.lines
    way, key = rows.way[row], key_of(row, now_s, s)
    before, after = NONE, lines.head[way]
    while after != NONE and key_of(after, now_s, s) <= key:
        before, after = after, rows.after[after]
    put_between(row, before, after, rows.before, rows.after, lines.head, way)
    if before == NONE:
        if after == NONE:
            link_line(way, NONE, s.work.line[lines.link[way << s.shift]], s)
        move_line(way, key, s)


def step_out(row: int, now_s: float, s: State) -> None:
    """Take a row from its line."""
    rows, way = s.rows, s.rows.way[row]
    take_out(row, rows.before, rows.after, s.lines.head, way)
    after = s.lines.head[way]
    if after == NONE:
        unlink_line(way, s)
    elif rows.before[row] == NONE:
        move_line(way, key_of(after, now_s, s), s)


def move_line(way: int, key: float, s: State) -> None:
    """Put a line where it belongs among those that begin on its first link, now that it has a key.

    Those that send may have a smaller key by now than is noted; they move in front of it later.
    """
    lines, before, after = s.lines, s.lines.before[way], s.lines.after[way]
    lines.key[way] = key
    while before != NONE and lines.key[before] > key:
        before, after = lines.before[before], before
    while after != NONE and lines.key[after] < key:
        before, after = after, lines.after[after]
    if before != lines.before[way]:
        unlink_line(way, s)
        link_line(way, before, after, s)


def link_line(way: int, before: int, after: int, s: State) -> None:
    """Put a line between two of those that begin on its first link."""
    lines, first = s.lines, s.lines.link[way << s.shift]
    put_between(way, before, after, lines.before, lines.after, s.work.line, first)


def unlink_line(way: int, s: State) -> None:
    """Take a line from those that begin on its first link."""
    lines = s.lines
    take_out(way, lines.before, lines.after, s.work.line, lines.link[way << s.shift])


def close_group(group: int, s: State) -> None:
    """Give back the cells of a group, which has no rows."""
    while s.groups.cell[group] != NONE:
        free_cell(s.groups.cell[group], NONE, group, s)
    s.groups.next_s[group] = inf


def count_sent(group: int, rate: float, now_s: float, groups: Groups) -> None:
    """Note what a group has sent by now, and that it sends at this rate from now on."""
    if now_s > groups.since_s[group]:
        groups.sent[group] += groups.rate[group] * (now_s - groups.since_s[group])
    groups.since_s[group], groups.rate[group] = now_s, rate


# Time --------------------------------------------------------------------------------------------
def is_done(lacks: float, sent: float, weight: float) -> bool:
    """Whether a row lacks rounding only; ``sent`` is its service since its rate was set."""
    return lacks <= sent * SAME_SHARE and lacks * weight <= SAME_BYTES


def lacking(row: int, rows: Rows) -> float:
    """Service that the first flow of a row needs, beside what the row had when it was settled."""
    return rows.needs[row] - rows.served[row]


def book(flow: int, now_s: float, s: State) -> float:
    """Count what a flow has sent since that was last done; returns what it has in all."""
    flows, work, by_now = s.flows, s.work, sent_by(flow, now_s, s)
    sent, flows.booked[flow] = by_now - flows.booked[flow], by_now
    work.carried[flows.route[flow]] += sent
    if flows.src[flow] != flows.dst[flow]:
        work.carried_out[flows.src[flow]] += sent
        work.carried_in[flows.dst[flow]] += sent
    return by_now


def book_all(going: Array, now_s: float, s: State) -> float:
    """``book`` for each of these flows; returns what they have sent together."""
    together = 0.0
    for at in range(len(going)):
        together += book(going[at], now_s, s)
    return together
