"""Flows one by one: each gets all that its path gives, in the order of bytes left or of priority.

Each flow is a row of its own.  Rows of one path stand in *line*: the first takes all that the path
has, so that nothing is left for the others, unless they are its equals.  Lines that begin on one
link are in the order of their first rows; a heap of links says which line is next.
"""

from __future__ import annotations

from math import inf

from railyard.netemu.kernel.filling import add_rate, begin, fill, sift_down
from railyard.netemu.kernel.rows import (
    LAST_DIGIT,
    ROUNDING,
    SAME_BYTES,
    SAME_SHARE,
    end_flows,
    instant_s,
    is_done,
    key_of,
    lacking,
    line_up,
    move_line,
    served_at,
    settle,
    step_out,
)
from railyard.netemu.kernel.state import ENDED, NO_END, NONE, SENDING, State

#: Of a link that carries so much, this share is rounding.
_ROUNDING = 1e-9


def serve(keeps: bool, now_s: float, s: State) -> None:
    """Set rates.  With ``keeps``, rows keep what they have, and what is free goes to the first."""
    rows, work, kept = s.rows, s.work, 0
    for at in range(work.counts[SENDING]):  # those that left have no rate any more
        if rows.rate[work.sending[at]] > 0.0:
            work.sending[kept] = work.sending[at]
            kept += 1
    work.counts[SENDING] = kept
    if keeps:
        begin(1.0, s)
        hand_out(now_s, s)
    else:
        for at in range(kept):
            put_right(work.sending[at], now_s, s)
        stop_all(now_s, s)
        begin(1.0, s)
        serve_equals(now_s, s)


def put_right(row: int, now_s: float, s: State) -> None:
    """Put a row that has been served, and its line, where they belong: further in front."""
    before, key = s.rows.before[row], key_of(row, now_s, s)
    if before == NONE:
        move_line(s.rows.way[row], key, s)
    elif key < key_of(before, now_s, s):
        step_out(row, now_s, s)
        line_up(row, now_s, s)


# In order ----------------------------------------------------------------------------------------
def look(s: State) -> int:
    """Have ``work.heap`` be the links on which open lines begin, by key; returns how many."""
    work, many = s.work, 0
    for link in range(s.none):
        line = first_open(work.line[link], s) if work.left[link] > 0.0 else NONE
        if line != NONE:
            work.waiting[link] = line
            work.heap[many], work.heap_key[many] = link, s.lines.key[line]
            many += 1
    for at in range(many // 2 - 1, -1, -1):
        sift_down(work.heap, work.heap_key, many, at)
    return many


def look_on(many: int, s: State) -> int:
    """Have the first of ``work.heap`` go on to its next line; returns how many there are then."""
    work, link = s.work, s.work.heap[0]
    line = s.lines.after[work.waiting[link]] if work.left[link] > 0.0 else NONE
    line = first_open(line, s)
    if line == NONE:
        many -= 1
        work.heap[0], work.heap_key[0] = work.heap[many], work.heap_key[many]
    else:
        work.waiting[link], work.heap_key[0] = line, s.lines.key[line]
    sift_down(work.heap, work.heap_key, many, 0)
    return many


def first_open(line: int, s: State) -> int:
    """The first line from this one on that has no full link; ``NONE``: there is none."""
    while line != NONE and least_left(line, s) <= 0.0:
        line = s.lines.after[line]
    return line


def least_left(way: int, s: State) -> float:
    """What is left of a path; 0 if it has a full link."""
    least = inf  # no branch for each link: those would be mispredicted
    for entry in range(way << s.shift, (way << s.shift) + s.longest):
        least = min(least, s.work.left[s.lines.link[entry]])
    return least


def are_same(smaller: float, larger: float) -> bool:
    """Whether these many bytes are the same but for rounding."""
    return larger <= smaller * (1.0 + SAME_SHARE) + SAME_BYTES


def serve_equals(now_s: float, s: State) -> None:
    """Those with least left to send share what there is, by weight; then the next ones."""
    rows, work, waiting = s.rows, s.work, look(s)
    while waiting > 0:
        many, last = 0, work.heap_key[0]
        while waiting > 0 and are_same(last, work.heap_key[0]):
            line = work.waiting[work.heap[0]]
            row = s.lines.head[line] if least_left(line, s) > 0.0 else NONE
            while row != NONE and are_same(last, key_of_settled(row, s)):
                last = key_of_settled(row, s)
                work.rows[many], work.wanted[many] = row, rows.weight[row]
                many += 1
                row = rows.after[row]
            waiting = look_on(waiting, s)
        if many == 1:
            take_all(work.rows[0], least_left(rows.way[work.rows[0]], s), now_s, s)
        elif many > 1:
            fill(many, now_s, s)


def key_of_settled(row: int, s: State) -> float:
    """Bytes that the only flow of a row has left, as of when it was settled."""
    return lacking(row, s.rows) * s.rows.weight[row]


def take_all(row: int, bytes_per_s: float, now_s: float, s: State) -> None:
    """Give a row so much more of all links on its path."""
    rows, work = s.rows, s.work
    add_rate(row, bytes_per_s / rows.weight[row], now_s, s)
    for entry in range(row << s.shift, (row << s.shift) + s.longest):
        link = rows.link[entry]
        if link == s.none:
            break
        rest = work.left[link] - bytes_per_s
        work.left[link] = rest if rest > work.capacity[link] * 1e-12 else 0.0


def hand_out(now_s: float, s: State) -> None:
    """Take back what links have no more, then hand out what is free (Algorithm 2 of Joint)."""
    rows, work, is_over = s.rows, s.work, False
    for link in range(s.none):
        work.load[link] = 0.0
    for at in range(work.counts[SENDING]):
        row = work.sending[at]
        for entry in range(row << s.shift, (row << s.shift) + s.longest):
            work.load[rows.link[entry]] += rows.rate[row] * rows.weight[row]
    for link in range(s.none):
        work.left[link] -= work.load[link]
        # rounding must neither look like free bandwidth nor like a link that carries too much
        if abs(work.left[link]) <= _ROUNDING * work.load[link]:
            work.left[link] = 0.0
        is_over = is_over or work.left[link] < 0.0
    if is_over:
        take_back(now_s, s)
    waiting = look(s)
    while waiting > 0:
        line = work.waiting[work.heap[0]]
        left = least_left(line, s)
        if left > 0.0:
            row = s.lines.head[line]
            settle(row, now_s, rows)
            take_all(row, left, now_s, s)
        waiting = look_on(waiting, s)


def take_back(now_s: float, s: State) -> None:
    """Have the last rows give up what links carry too much."""
    rows, work = s.rows, s.work
    for _ in range(work.counts[SENDING]):
        last, less = NONE, 0.0
        for at in range(work.counts[SENDING]):
            row = work.sending[at]
            if rows.rate[row] > 0.0 and (last == NONE or rows.key[row] > rows.key[last]):
                over = min(rows.rate[row] * rows.weight[row], -least_left(rows.way[row], s))
                if over > 0.0:
                    last, less = row, over
        if last == NONE:
            return
        settle(last, now_s, rows)
        rows.rate[last] = max(rows.rate[last] - less / rows.weight[last], 0.0)
        for entry in range(last << s.shift, (last << s.shift) + s.longest):
            work.left[rows.link[entry]] += less
        if rows.rate[last] == 0.0:
            drop_from_sending(last, s)


def drop_from_sending(row: int, s: State) -> None:
    """Note that a row has no rate any more."""
    work = s.work
    for at in range(work.counts[SENDING]):
        if work.sending[at] == row:
            work.counts[SENDING] -= 1
            work.sending[at] = work.sending[work.counts[SENDING]]
            return


# Time --------------------------------------------------------------------------------------------
def stop_all(now_s: float, s: State) -> None:
    """Have no row send, and all of them settled; end flows that lack rounding only."""
    rows, work = s.rows, s.work
    for at in range(work.counts[SENDING]):
        row = work.sending[at]
        if rows.rate[row] > 0.0:  # others have left
            served = rows.served[row]
            settle(row, now_s, rows)
            rows.rate[row] = 0.0
            sent = rows.served[row] - served
            if is_done(lacking(row, rows), sent, rows.weight[row]):
                enough = max(rows.needs[row], rows.served[row])
                end_flows(row, enough * (1.0 + ROUNDING), now_s, s)
    work.counts[SENDING] = 0


def first_end_s(now_s: float, s: State) -> float:
    """When the first row that sends has sent what its first flow needs."""
    rows, work, first_s = s.rows, s.work, inf
    for at in range(work.counts[SENDING]):
        row = work.sending[at]
        lacks_s = lacking(row, rows) / rows.rate[row]
        first_s = min(first_s, rows.since_s[row] + lacks_s)
    return max(first_s, now_s)


def end_due(at_s: float, slack_s: float, s: State) -> None:
    """End the flows that are due then, or within ``slack_s`` after it."""
    rows, work, kept = s.rows, s.work, 0
    for at in range(work.counts[SENDING]):
        row, rate = work.sending[at], s.rows.rate[work.sending[at]]
        needs, served = rows.needs[row], served_at(row, at_s, rows)
        sent = served - rows.served[row]
        rows.served[row], rows.since_s[row] = served, at_s
        enough = served + rate * slack_s + needs * LAST_DIGIT
        if needs <= enough or is_done(needs - served, sent, rows.weight[row]):
            rows.served[row] = max(served, needs)
            end_flows(row, max(enough, needs * (1.0 + ROUNDING)), at_s, s)
            if rows.flows[row] == 0:
                continue
        work.sending[kept] = row
        kept += 1
    work.counts[SENDING] = kept


def run(span: tuple[float, float, float], keeps: bool, s: State) -> tuple[float, int, bool]:
    """Go from event to event until then; see ``filling.run``."""
    now_s, until_s, together_s = span
    events = 0
    while True:
        to_s = first_end_s(now_s, s)
        if to_s == inf or to_s > until_s + instant_s(until_s):
            return until_s if until_s < inf else now_s, events, False
        now_s, before = min(to_s, until_s), s.work.counts[ENDED]
        end_due(now_s, max(instant_s(now_s), together_s), s)
        events += 1
        if s.work.counts[ENDED] == before:
            return now_s, NO_END, True
        if until_s - now_s <= instant_s(until_s):
            return until_s, events, True
        serve(keeps, now_s, s)
