"""Rates kept up to date: groups one after the other, each max-min of what those before it leave.

A link's *level* is the service/s to which it holds a group's rows; a row's rate is the least level
on its path (Bertsekas and Gallager, Data Networks, 2nd edition, 6.5.2).  A link is *amiss* if its
rows send more than is left for them, or if it holds them back although something is left.  When
rows come or end, or a group before uses more or less, only links that are amiss get another level,
and those that this puts amiss, until none is.

Groups may share links in two passes: each from its queue's part, then all from what is left.  A
row's rate is then the sum of two, ``rows.parts``.

Where all flows are one group, trunks use nics before the nics' own rows.
"""

from __future__ import annotations

from math import inf

from railyard.netemu.kernel.rows import (
    LAST_DIGIT,
    ROUNDING,
    count_sent,
    end_flows,
    free_cell,
    instant_s,
    is_done,
    lacking,
    served_at,
    settle,
)
from railyard.netemu.kernel.state import (
    AT_ENDS,
    AT_GROUPS,
    EMPTIED,
    ENDED,
    NO_CELL,
    NO_END,
    NONE,
    NOT_KNOWN,
    SHORT,
    TRUNKED,
    Array,
    State,
)

#: A link carries what is left for it if it is exact to this share of its capacity.
_EXACT = 1e-13
#: Links get a new level at most so often for each pair of a group's links, before it is an error.
_TURNS = 4
#: So often nics get other levels as trunks leave them something else; then they are short.
_ROUNDS = 8


def serve_in_order(order: Array, share: Array, queue: Array, now_s: float, s: State) -> bool:
    """Bring rates up to date; returns whether they could be.

    With ``share``, each queue of groups has its share of all links first (``queue[place]``).
    """
    work = s.work
    if s.racks > 0:
        return serve_all(now_s, s)
    if len(share) == 0:
        for link in range(s.none):
            work.left[link] = work.capacity[link]
    elif not serve_queues(order, share, queue, now_s, s):
        return False
    for at in range(len(order)):
        if not serve(order[at], 1, now_s, s):
            return False
    for at in range(len(order)):
        if s.groups.next_s[order[at]] <= now_s:
            sum_up(order[at], now_s, s)
    return True


def serve_queues(order: Array, share: Array, queue: Array, now_s: float, s: State) -> bool:
    """Bring the first pass up to date, and have what queues leave of their shares left."""
    work, at = s.work, 0
    for link in range(s.none):
        work.unused[link] = 0.0
    while at < len(order):
        number = queue[at]
        for link in range(s.none):
            work.left[link] = work.capacity[link] * share[number]
        while at < len(order) and queue[at] == number:
            if not serve(order[at], 0, now_s, s):
                return False
            at += 1
        for link in range(s.none):
            work.unused[link] += work.left[link]
    for link in range(s.none):
        is_full = work.unused[link] <= work.capacity[link] * ROUNDING
        work.left[link] = 0.0 if is_full else work.unused[link]
    return True


def serve(group: int, part: int, now_s: float, s: State) -> bool:
    """Bring one pass of a group up to date, and take what it uses from ``work.left``."""
    cells, work = s.cells, s.work
    if not relevel(group, part, now_s, s):
        return False
    cell = s.groups.cell[group]
    while cell != NONE:
        link = cells.link[cell]
        rest = work.left[link] - cells.load[2 * cell + part]
        work.left[link] = rest if rest > work.capacity[link] * ROUNDING else 0.0
        cell = cells.next[cell]
    return True


def serve_all(now_s: float, s: State) -> bool:
    """Bring rates up to date where all flows are one group; returns whether they could be.

    If not, there may be nics that are short.
    """
    work, nics = s.work, s.nics
    work.counts[SHORT] = 0
    for link in range(s.none):
        work.left[link] = work.capacity[link]
    if work.counts[TRUNKED] > 0:
        for nic in range(len(nics.link)):
            if nics.used[nic] > 0.0:
                work.left[nics.link[nic]] = max(work.left[nics.link[nic]] - nics.used[nic], 0.0)
    for turn in range(_ROUNDS):
        if not relevel(0, 1, now_s, s):
            return False
        if work.counts[TRUNKED] == 0 or not take_from_nics(turn == _ROUNDS - 1, s):
            break
    if work.counts[SHORT] > 0:
        return False
    if s.groups.next_s[0] <= now_s:
        sum_up(0, now_s, s)
    return True


def take_from_nics(is_last: bool, s: State) -> bool:
    """Take what trunks use from nics, and note which are short; whether more turns are needed.

    ``is_last``: there are none, and nics that need them are short.
    """
    work, cells, nics, again = s.work, s.cells, s.nics, False
    note_rates(s)
    work.counts[SHORT] = 0
    for nic in range(len(nics.link)):
        nics.is_short[nic] = False
        if nics.many[nic] == 0:
            continue
        link, most = nics.link[nic], work.most[2 * nics.rack[nic] + (nic & 1)]
        capacity, cell = work.capacity[link], max(s.cell_of[link], NO_CELL)
        level, load = cells.level[2 * cell + 1], cells.load[2 * cell + 1]
        if level == inf and load + nics.many[nic] * most <= capacity:
            nics.used[nic], work.left[link] = 0.0, capacity  # whatever trunks use exactly
            continue
        used, most = used_of(nic, s)
        nics.used[nic], work.left[link] = used, max(capacity - used, 0.0)
        needs_turn = is_amiss(cell, 1, s)
        again = again or needs_turn
        if (needs_turn and is_last) or used > capacity * (1.0 + ROUNDING) or level < most:
            nics.is_short[nic] = True
            work.counts[SHORT] += 1
    return again and not is_last


def used_of(nic: int, s: State) -> tuple[float, float]:
    """Bytes/s of trunks on a nic, and the most that one flow of these has."""
    nics, work, rack, racks, used, most = s.nics, s.work, s.nics.rack[nic], s.racks, 0.0, 0.0
    first, step = (rack, racks) if nic & 1 else (rack * racks, 1)
    for far in range(racks - 1):
        many, rate = nics.to[nic * racks + far], work.rate[first + far * step]
        if many > 0:
            used += many * rate
            most = max(most, rate)
    return used, most


def note_rates(s: State) -> None:
    """Note the rates of trunks by route, and the most of each rack."""
    work, most, racks = s.work, s.work.most, s.racks
    for at in range(len(most)):
        most[at] = 0.0
    for near in range(racks - 1):
        for far in range(racks - 1):
            route = near * racks + far
            row = NONE if work.trunk[route] == NONE else s.lines.head[work.trunk[route]]
            work.rate[route] = rate = 0.0 if row == NONE else s.rows.rate[row]
            most[2 * near] = max(most[2 * near], rate)
            most[2 * far + 1] = max(most[2 * far + 1], rate)


def is_amiss(cell: int, part: int, s: State) -> bool:
    """Whether a link's rows send too much, or too little for being held back."""
    link = s.cells.link[cell]
    gap = s.cells.load[2 * cell + part] - s.work.left[link]
    exact = s.work.capacity[link] * _EXACT
    return gap > exact or (gap < -exact and s.cells.level[2 * cell + part] < inf)


def relevel(group: int, part: int, now_s: float, s: State) -> bool:
    """Give new levels to a group's links while any is amiss; returns whether that ended."""
    cells, work, most = s.cells, s.work, len(s.work.queue)
    many = first = links = 0
    cell = s.groups.cell[group]
    while cell != NONE:
        links += 1
        if cells.many[cell] > 0 and is_amiss(cell, part, s):
            work.queue[many], cells.is_queued[cell] = cell, True
            many += 1
        cell = cells.next[cell]
    if many > 0:
        s.groups.next_s[group] = now_s
    turns = _TURNS * (links + 1) * (links + 1)
    while many > 0:
        turns -= 1
        if turns < 0:
            return False
        cell = work.queue[first]
        first, many = first + 1 if first + 1 < most else 0, many - 1
        cells.is_queued[cell] = False
        if is_amiss(cell, part, s):
            before = cells.level[2 * cell + part]
            cells.level[2 * cell + part] = new_level(cell, part, s)
            many = pass_on(cell, part, before, first, many, now_s, s)
    return True


def new_level(cell: int, part: int, s: State) -> float:
    """The level at which a link's rows use all that is left of it; inf if other links hold them.

    ``work.other`` are the levels elsewhere that hold its rows.
    """
    work, left, many = s.work, s.work.left[s.cells.link[cell]], s.cells.many[cell]
    first = s.cells.begin[cell]
    used, weight, level = list_rows(cell, part, left, s)
    if left <= 0.0:
        return 0.0
    if used <= left * (1.0 + ROUNDING):
        return inf
    level, before = max(level, left / weight), -1.0
    while level > before * (1.0 + LAST_DIGIT):  # from below: too low as long as others hold some
        below = free = 0.0
        for at in range(many):
            if work.other[at] < level:
                below += work.other[at] * work.weights[first + at]
            else:
                free += work.weights[first + at]
        if free == 0.0:
            return inf
        before, level = level, max(level, (left - below) / free)
    return level


def list_rows(cell: int, part: int, left: float, s: State) -> tuple[float, float, float]:
    """List a link's rows, with what holds them elsewhere, for ``new_level``.

    Returns what they would use if this link held none, their weight, and the level of this link if
    it went on to hold those that it holds now: it is that or more.
    """
    cells, work, first = s.cells, s.work, s.cells.begin[cell]
    before, used, weight, held, free = cells.level[2 * cell + part], 0.0, 0.0, 0.0, 0.0
    for at in range(cells.many[cell]):
        elsewhere, path = inf, (first + at) << s.shift
        for there in range(path, path + s.longest):
            other = work.crossed[there]
            if other != cell:
                elsewhere = min(elsewhere, cells.level[2 * other + part])
        wanted = work.weights[first + at]
        work.other[at] = elsewhere
        if elsewhere < before:
            held += elsewhere * wanted
        else:
            free += wanted
        used += elsewhere * wanted
        weight += wanted
    return used, weight, (left - held) / free if free > 0.0 else 0.0


def pass_on(
    cell: int, part: int, before: float, first: int, many: int, now_s: float, s: State
) -> int:
    """Give a link's rows their rates, queue their other links; returns how many are queued.

    Up to ``before`` the link held them until now.
    """
    cells, work, most, begin = s.cells, s.work, len(s.work.queue), s.cells.begin[cell]
    load, level, is_known = 0.0, cells.level[2 * cell + part], cells.load[2 * cell + part] < inf
    for at in range(cells.many[cell]):
        rate, wanted = min(level, work.other[at]), work.weights[begin + at]
        load += rate * wanted
        if is_known and rate == min(before, work.other[at]):
            continue
        row = work.entries[begin + at] >> s.shift
        change = rate - s.rows.parts[2 * row + part]
        if change == 0.0:
            continue
        set_part(row, part, rate, now_s, s)
        for there in range(row << s.shift, (row << s.shift) + s.longest):
            other = s.rows.cell[there]
            if other != cell and other != NO_CELL:
                cells.load[2 * other + part] += change * wanted
                if not cells.is_queued[other]:
                    cells.is_queued[other] = True
                    place = first + many
                    work.queue[place if place < most else place - most] = other
                    many += 1
    cells.load[2 * cell + part] = load
    return many


def set_part(row: int, part: int, rate: float, now_s: float, s: State) -> None:
    """Give a row another rate in one of the passes."""
    rows = s.rows
    before, served = rows.rate[row], rows.served[row]
    settle(row, now_s, rows)
    rows.parts[2 * row + part] = rate
    rows.rate[row] = rows.parts[2 * row] + rows.parts[2 * row + 1]
    rows.due[2 * row] = NOT_KNOWN
    if rows.rate[row] < before:
        lacks, sent = lacking(row, rows), rows.served[row] - served
        if is_done(lacks, sent, rows.weight[row]):
            rows.served[row] = rows.needs[row]
    s.cells.is_dirty[rows.cell[row << s.shift]] = True


# Time --------------------------------------------------------------------------------------------
def sum_up(group: int, now_s: float, s: State) -> None:
    """Note when a group's first row ends, and how fast it sends in all; free its empty cells."""
    groups, cells = s.groups, s.cells
    rate, next_s, before, cell = 0.0, inf, NONE, groups.cell[group]
    while cell != NONE:
        after = cells.next[cell]
        if cells.many[cell] == 0:
            free_cell(cell, before, group, s)
        else:
            if cells.is_dirty[cell] or cells.first_s[cell] <= now_s:
                look_at(cell, now_s, s)
            next_s = min(next_s, cells.first_s[cell])
            rate += cells.rate[cell]
            before = cell
        cell = after
    count_sent(group, rate, now_s, groups)
    groups.next_s[group] = next_s


def look_at(cell: int, now_s: float, s: State) -> None:
    """Note when the first of the rows that begin on a link ends, and how fast these send."""
    rows, cells, first_s, rate = s.rows, s.cells, inf, 0.0
    for place in range(cells.begin[cell], cells.begin[cell] + cells.many[cell]):
        entry = s.work.entries[place]
        if (entry & s.mask) != 0:
            continue
        row = entry >> s.shift
        if rows.due[2 * row] == NOT_KNOWN:
            find_due(row, now_s, s)
        first_s = min(first_s, rows.due[2 * row])
        rate += rows.due[2 * row + 1]
    cells.first_s[cell], cells.rate[cell] = max(first_s, now_s), rate
    cells.is_dirty[cell] = False


def find_due(row: int, now_s: float, s: State) -> None:
    """Note when the first flow of a row ends, and how fast it sends."""
    rows, end_s = s.rows, inf
    lacks = lacking(row, rows)
    if lacks <= 0.0:
        end_s = now_s
    elif rows.rate[row] > 0.0:
        end_s = rows.since_s[row] + lacks / rows.rate[row]
    rows.due[2 * row], rows.due[2 * row + 1] = end_s, rows.rate[row] * rows.weight[row]


def end_due(group: int, at_s: float, slack_s: float, s: State) -> None:
    """End the flows of a group that are due then, or within ``slack_s`` after it."""
    rows, cells = s.rows, s.cells
    cell = s.groups.cell[group]
    while cell != NONE:
        at = cells.many[cell] if cells.first_s[cell] <= at_s + slack_s else 0
        while at > 0:  # from the last on, which takes the place of one that ends
            at -= 1
            entry = s.work.entries[cells.begin[cell] + at]
            if (entry & s.mask) != 0:
                continue
            row = entry >> s.shift
            needs, served = rows.needs[row], served_at(row, at_s, rows)
            enough = served + rows.rate[row] * slack_s + needs * LAST_DIGIT
            if needs <= enough:
                rows.served[row], rows.since_s[row] = max(served, needs), at_s
                end_flows(row, max(enough, needs * (1.0 + ROUNDING)), at_s, s)
        cell = cells.next[cell]


def end_all_due(order: Array, at_s: float, slack_s: float, s: State) -> None:
    """The same for all groups in order."""
    for at in range(len(order)):
        if s.groups.next_s[order[at]] <= at_s + slack_s:
            s.groups.next_s[order[at]] = at_s
            end_due(order[at], at_s, slack_s, s)


def first_event_s(now_s: float, order: Array, s: State) -> tuple[float, float]:
    """When the first flow ends, and when the first group has sent its limit."""
    groups, first_s, asks_s = s.groups, inf, inf
    for at in range(len(order)):
        group = order[at]
        first_s = min(first_s, groups.next_s[group])
        if groups.rate[group] > 0.0:
            lacks = groups.limit[group] - groups.sent[group]
            asks_s = min(asks_s, groups.since_s[group] + lacks / groups.rate[group])
    # later than now by the clock's last digit at least: at 1e9 s that is .1 microseconds
    return max(first_s, now_s), max(asks_s, now_s * (1.0 + 2.3e-16))


def count_all_sent(now_s: float, order: Array, s: State) -> None:
    """Bring up to now what groups have sent."""
    for at in range(len(order)):
        count_sent(order[at], s.groups.rate[order[at]], now_s, s.groups)


def run(
    span: tuple[float, float, float],
    ends_plan: int,
    order: Array,
    share: Array,
    queue: Array,
    s: State,
) -> tuple[float, int, bool]:
    """Go from event to event until then, or until the plan ends; see ``filling.run``.

    The plan also ends when a group has sent its limit.
    """
    now_s, until_s, together_s = span
    events = 0
    while True:
        end_s, ask_s = first_event_s(now_s, order, s)
        to_s = min(end_s, ask_s)
        if to_s == inf or to_s > until_s + instant_s(until_s):
            return until_s if until_s < inf else now_s, events, False
        now_s, before, emptied = min(to_s, until_s), s.work.counts[ENDED], s.work.counts[EMPTIED]
        is_last = until_s - now_s <= instant_s(until_s)
        # before a group's limit, a flow that ends a little later: it may lose its links now
        at_once_s = instant_s(now_s) if end_s <= ask_s or is_last else now_s * LAST_DIGIT
        end_all_due(order, now_s, max(at_once_s, together_s), s)
        events += 1
        is_over = ask_s <= now_s + instant_s(now_s)
        if s.work.counts[ENDED] == before and not is_over:
            return now_s, NO_END, True
        if is_last:
            return until_s, events, True
        if ends_plan == AT_GROUPS and s.work.counts[EMPTIED] > emptied:
            is_over = True
        if is_over or ends_plan == AT_ENDS:
            return now_s, events, True
        if not serve_in_order(order, share, queue, now_s, s):
            return now_s, NO_END if s.work.counts[SHORT] == 0 else events, True
