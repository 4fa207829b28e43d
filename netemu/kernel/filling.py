"""Rates from what flows have left: groups one after the other, each of what those before it leave.

Within a group, rows share links in proportion to the bytes that they have left, max-min (Bertsekas
and Gallager, Data Networks, 2nd edition, 6.5.2): all rates rise equally per byte until a link is
full; rows that cross it stop there, and the others rise on.  Rows that stop at one link end at one
moment, so a group keeps its rates until one of its flows, or of those before it, comes or ends:
rates are set anew from the first group on that has changed.
"""

from __future__ import annotations

from math import inf

from railyard.netemu.kernel.rows import (
    LAST_DIGIT,
    ROUNDING,
    end_flows,
    instant_s,
    is_done,
    note_left,
    settle,
)
from railyard.netemu.kernel.state import (
    AT_ENDS,
    AT_GROUPS,
    EMPTIED,
    ENDED,
    NO_END,
    NONE,
    SENDING,
    SERVED,
    Array,
    State,
)

#: A link's sum of weights is made anew when this share of it is left: too many digits cancel.
_CANCELS = 1e-3


def serve_in_order(
    order: Array, least: bool, share: Array, queue: Array, now_s: float, s: State
) -> None:
    """Set the rates of all rows: of groups in this order.

    With ``least``, each group first gets what lets all of its rows end together (MADD); with
    ``share``, each queue of groups has its share of all links first (``queue[place in order]``).
    What these leave is handed out in the same order.
    """
    groups, work, is_plain = s.groups, s.work, not least and len(share) == 0
    kept = first_changed(order, s) if is_plain else 0
    stop_from(kept, now_s, 0.0, s)
    begin(1.0, s)
    if kept > 0:
        for link in range(s.none):
            work.left[link] = s.left_after[(kept - 1) * s.none + link]
    for place in range(kept, len(order)):
        groups.place[order[place]], groups.next_s[order[place]] = place, inf
    if least:
        for place in range(len(order)):
            serve_evenly(order[place], now_s, s)
    if len(share) > 0:
        serve_queues(order, share, queue, now_s, s)
    for place in range(kept, len(order)):
        groups.first[place] = work.counts[SENDING] if is_plain else 0
        serve(order[place], now_s, s)
        if is_plain:
            for link in range(s.none):
                s.left_after[place * s.none + link] = work.left[link]
    work.counts[SERVED] = len(order)


def first_changed(order: Array, s: State) -> int:
    """The first place where rates do not hold: a group has changed, or is another one."""
    groups = s.groups
    for place in range(min(len(order), s.work.counts[SERVED])):
        if groups.place[order[place]] != place or groups.next_s[order[place]] == -inf:
            return place
    return min(len(order), s.work.counts[SERVED])


def stop_from(place: int, at_s: float, slack_s: float, s: State) -> None:
    """Have groups from this place on send nothing, and be settled.

    Ends their flows that have sent all by then, or would have within ``slack_s`` after it.
    """
    rows, work = s.rows, s.work
    if place >= work.counts[SERVED]:
        return
    for at in range(s.groups.first[place], work.counts[SENDING]):
        row = work.sending[at]
        rate, before = rows.rate[row], rows.served[row]
        if rate <= 0.0:
            continue  # it has left
        settle(row, at_s, rows)
        rows.rate[row], served = 0.0, rows.served[row]
        enough = served + rate * slack_s + LAST_DIGIT  # all need a service of 1
        if enough >= 1.0 or is_done(1.0 - served, served - before, rows.weight[row]):
            rows.served[row] = max(served, 1.0)
            end_flows(row, max(enough, 1.0 + ROUNDING), at_s, s)
        else:
            rows.left[row] = max((1.0 - served) * rows.weight[row], 1e-6)
    work.counts[SENDING], work.counts[SERVED] = s.groups.first[place], place


def serve_queues(order: Array, share: Array, queue: Array, now_s: float, s: State) -> None:
    """Serve groups from their queues' shares, and have what these leave left."""
    work, at = s.work, 0
    for link in range(s.none):
        work.unused[link] = 0.0
    while at < len(order):
        number = queue[at]
        begin(share[number], s)
        while at < len(order) and queue[at] == number:
            serve(order[at], now_s, s)
            at += 1
        for link in range(s.none):
            work.unused[link] += work.left[link]
    for link in range(s.none):
        work.left[link] = work.unused[link]
        close_if_full(link, s)


def serve(group: int, now_s: float, s: State) -> None:
    """Let a group have what it can use."""
    many = choose(group, s)
    if many > 0:
        soonest(group, now_s, fill(many, now_s, s), s)


def soonest(group: int, now_s: float, share: float, s: State) -> None:
    """Note that a group's first row ends no later than at this share of what it has left per s."""
    if share > 0.0:
        s.groups.next_s[group] = min(s.groups.next_s[group], now_s + 1.0 / share)


def choose(group: int, s: State) -> int:
    """Have ``work.rows`` be the rows of a group that no full link stops; returns how many."""
    rows, cells, work, many = s.rows, s.cells, s.work, 0
    cell = s.groups.cell[group]
    while cell != NONE:
        if work.left[cells.link[cell]] > 0.0:
            for place in range(cells.begin[cell], cells.begin[cell] + cells.many[cell]):
                entry, least = work.entries[place], inf
                for there in range(entry + 1, entry + s.longest):
                    least = min(least, work.left[rows.link[there]])
                if least > 0.0:
                    row = entry >> s.shift
                    work.rows[many], work.wanted[many] = row, rows.left[row]
                    many += 1
        cell = cells.next[cell]
    return many


def serve_evenly(group: int, now_s: float, s: State) -> None:
    """Give a group the least rates with which all of it ends as soon as can be (MADD)."""
    rows, cells, work, first = s.rows, s.cells, s.work, group * s.none
    if s.groups.added_s[group] != now_s:
        add_up(group, now_s, s)
    slowest_s = slowest(group, work.left, s)
    if slowest_s <= 0.0 or slowest_s == inf:
        return
    cell = s.groups.cell[group]
    while cell != NONE:
        for place in range(cells.begin[cell], cells.begin[cell] + cells.many[cell]):
            row = work.entries[place] >> s.shift
            add_rate(row, rows.left[row] / slowest_s / rows.weight[row], now_s, s)
        cell = cells.next[cell]
    for link in range(s.none):
        if s.load[first + link] > 0.0:
            work.left[link] -= s.load[first + link] / slowest_s
            close_if_full(link, s)
    soonest(group, now_s, 1.0 / slowest_s, s)


def slowest(group: int, left: Array, s: State) -> float:
    """How long the slowest link takes for what a group has left to send; inf: one is full."""
    first, slowest_s = group * s.none, 0.0
    for link in range(s.none):
        load = s.load[first + link]
        if load > 0.0:
            slowest_s = max(slowest_s, load / left[link] if left[link] > 0.0 else inf)
    return slowest_s


def add_up(group: int, now_s: float, s: State) -> None:
    """Note what a group has left to send, in all and over each link; its rows have been noted."""
    rows, cells, groups, first, total = s.rows, s.cells, s.groups, group * s.none, 0.0
    for link in range(s.none):
        s.load[first + link] = 0.0
    cell = groups.cell[group]
    while cell != NONE:
        for place in range(cells.begin[cell], cells.begin[cell] + cells.many[cell]):
            entry = s.work.entries[place]
            if (entry & s.mask) != 0:
                continue  # it begins on another link
            left = rows.left[entry >> s.shift]
            total += left
            for there in range(entry, entry + s.longest):
                link = rows.link[there]
                if link == s.none:
                    break
                s.load[first + link] += left
        cell = cells.next[cell]
    groups.left[group], groups.added_s[group] = total, now_s


def look_at(groups: Array, left: Array, slowest_s: Array, now_s: float, s: State) -> None:
    """Set what each group has ``left`` to send, and how long it takes alone in the network."""
    cells, work = s.cells, s.work
    for at in range(work.counts[SENDING] if s.by_bytes else 0):
        note_left(work.sending[at], now_s, s.rows)
    for at in range(len(groups)):
        group = groups[at]
        cell = NONE if s.by_bytes else s.groups.cell[group]
        while cell != NONE:
            for place in range(cells.begin[cell], cells.begin[cell] + cells.many[cell]):
                note_left(work.entries[place] >> s.shift, now_s, s.rows)
            cell = cells.next[cell]
        if s.groups.added_s[group] != now_s:
            add_up(group, now_s, s)
        left[at], slowest_s[at] = s.groups.left[group], slowest(group, work.capacity, s)


# Water-filling -----------------------------------------------------------------------------------
def fill(many: int, now_s: float, s: State) -> float:
    """Share what is left among the first ``many`` of ``work.rows``, in proportion to ``wanted``.

    Returns the largest share of it that a row now gets.
    """
    work, largest, links = s.work, 0.0, count_rising(many, s)
    for at in range(links // 2 - 1, -1, -1):
        sift_down(work.queue, work.share, links, at)
    while links > 0:  # shares only grow: one that is out of date comes to the top too early
        link = work.queue[0]
        if work.rising[link] > 0:
            if work.load[link] < work.summed[link] * _CANCELS:
                work.load[link] = 0.0
                for at in range(work.begin[link], work.end[link]):
                    if not work.is_frozen[work.through[at]]:
                        work.load[link] += work.wanted[work.through[at]]
                work.summed[link] = work.load[link]
            share = work.left[link] / work.load[link]
            if share > work.share[0] * (1.0 + ROUNDING):
                work.share[0] = share
                sift_down(work.queue, work.share, links, 0)
                continue
            for at in range(work.begin[link], work.end[link]):
                chosen = work.through[at]
                if not work.is_frozen[chosen]:
                    largest = max(largest, freeze(chosen, share, now_s, s))
            work.left[link] = 0.0
        close_if_full(link, s)
        links -= 1
        work.queue[0], work.share[0] = work.queue[links], work.share[links]
        sift_down(work.queue, work.share, links, 0)
    return largest


def count_rising(many: int, s: State) -> int:
    """Set up which rows rise on each link, and each link's share; returns how many links rise.

    ``work.rising`` is 0 before, and is 0 again when all rows are frozen.
    """
    rows, work, links = s.rows, s.work, 0
    for chosen in range(many):
        work.is_frozen[chosen] = False
        first = work.rows[chosen] << s.shift
        for entry in range(first, first + s.longest):
            link = rows.link[entry]
            if link == s.none:
                break
            if work.rising[link] == 0:
                work.queue[links], work.load[link] = link, 0.0
                links += 1
            work.load[link] += work.wanted[chosen]
            work.rising[link] += 1
    at = 0
    for number in range(links):
        link = work.queue[number]
        work.begin[link] = work.end[link] = at
        at += work.rising[link]
        work.summed[link] = work.load[link]
        work.share[number] = work.left[link] / work.load[link]
    for chosen in range(many):
        first = work.rows[chosen] << s.shift
        for entry in range(first, first + s.longest):
            link = rows.link[entry]
            if link == s.none:
                break
            work.through[work.end[link]] = chosen
            work.end[link] += 1
    return links


def freeze(chosen: int, share: float, now_s: float, s: State) -> float:
    """Stop a row at this share, on all of its links; returns its share with what it had before."""
    rows, work = s.rows, s.work
    row, wanted = work.rows[chosen], work.wanted[chosen]
    work.is_frozen[chosen] = True
    before = rows.rate[row] * rows.weight[row] / wanted if rows.rate[row] > 0.0 else 0.0
    add_rate(row, share * wanted / rows.weight[row], now_s, s)
    for entry in range(row << s.shift, (row << s.shift) + s.longest):
        link = rows.link[entry]
        if link == s.none:
            break
        work.left[link] = max(work.left[link] - share * wanted, 0.0)
        work.load[link] -= wanted
        work.rising[link] -= 1
    return before + share


def sift_down(heap: Array, keys: Array, size: int, place: int) -> None:
    """Move an entry of a heap below those with smaller keys."""
    if place >= size:
        return
    item, key, child = heap[place], keys[place], 2 * place + 1
    while child < size:
        if child + 1 < size and keys[child + 1] < keys[child]:
            child += 1
        if keys[child] >= key:
            break
        heap[place], keys[place] = heap[child], keys[child]
        place, child = child, 2 * child + 1
    heap[place], keys[place] = item, key


# Links and rates ---------------------------------------------------------------------------------
def begin(share: float, s: State) -> None:
    """Have this share of all links left."""
    work = s.work
    for link in range(s.none):
        work.left[link] = work.capacity[link] * share
    work.left[s.none] = inf


def close_if_full(link: int, s: State) -> None:
    """Have nothing left of a link of which only rounding is left."""
    if s.work.left[link] <= s.work.capacity[link] * ROUNDING:
        s.work.left[link] = 0.0


def add_rate(row: int, more: float, now_s: float, s: State) -> None:
    """Have a row, which is settled, send faster."""
    if more > 0.0:
        if s.rows.rate[row] == 0.0:
            s.rows.since_s[row] = now_s
            s.work.sending[s.work.counts[SENDING]] = row
            s.work.counts[SENDING] += 1
        s.rows.rate[row] += more


# Time --------------------------------------------------------------------------------------------
def first_end_s(now_s: float, order: Array, s: State) -> float:
    """When the first flow ends."""
    first_s = inf
    for place in range(len(order)):
        first_s = min(first_s, s.groups.next_s[order[place]])
    return max(first_s, now_s)


def end_due(order: Array, at_s: float, slack_s: float, s: State) -> None:
    """End the flows that are due then, or within ``slack_s`` after it.

    Groups from the first one on that is due send nothing then.
    """
    for place in range(len(order)):
        if s.groups.next_s[order[place]] <= at_s + slack_s:
            stop_from(place, at_s, slack_s, s)
            return


def run(
    span: tuple[float, float, float],
    ends_plan: int,
    order: Array,
    least: bool,
    share: Array,
    queue: Array,
    s: State,
) -> tuple[float, int, bool]:
    """Go from event to event until then, or until the plan ends.

    The plan ends with the first end of a flow if ``ends_plan`` is ``AT_ENDS``, and when a group has
    nothing left to send if it is ``AT_GROUPS``.  ``span``: the time now, until when, and for how
    long flows that are due end together.  Returns the time, how many events there were, and whether
    rates are to be set anew: they are not after the last event.
    """
    now_s, until_s, together_s = span
    events = 0
    while True:
        to_s = first_end_s(now_s, order, s)
        if to_s == inf or to_s > until_s + instant_s(until_s):
            return until_s if until_s < inf else now_s, events, False
        now_s, before, emptied = min(to_s, until_s), s.work.counts[ENDED], s.work.counts[EMPTIED]
        end_due(order, now_s, max(instant_s(now_s), together_s), s)
        events += 1
        if s.work.counts[ENDED] == before:
            return now_s, NO_END, True
        if until_s - now_s <= instant_s(until_s):
            return until_s, events, True
        if ends_plan == AT_ENDS or (ends_plan == AT_GROUPS and s.work.counts[EMPTIED] > emptied):
            return now_s, events, True
        serve_in_order(order, least, share, queue, now_s, s)
