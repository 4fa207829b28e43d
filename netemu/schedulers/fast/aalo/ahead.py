"""Many events in one call: ends of rows, and coflows that move to other queues.

As long as no flow comes and no link changes, all that happens follows from the rates; so it is
computed here up to the next event that Python must see.  Each step does what ``Fabric.advance``,
``Queues`` and ``Sharing`` do at one event.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numba.typed import List

from railyard.cluster.errors import InvariantError
from railyard.netemu.model.arrays import Bools, Floats, Numbers
from railyard.netemu.model.instants import CLOCK_ROUNDING, INSTANT_S
from railyard.netemu.model.rows import FINISH_S, RATE, WEIGHT
from railyard.netemu.schedulers.fast.loops.borrowing import borrows
from railyard.netemu.schedulers.fast.loops.grouparrays import GroupRates
from railyard.netemu.schedulers.fast.loops.levelorder import (
    FOLLOWED,
    Changes,
    share_by_parts,
    share_in_order,
)
from railyard.netemu.schedulers.fast.loops.linklists import BLOCK, Memory, Work, end_row
from railyard.netemu.schedulers.reference.aalo import LIMITS_BYTES, QUEUES, ROUNDING_BYTES

#: So many steps follow each other at most, beside one for each queue and coflow, with no row's end.
_IDLE_MAX = 10_000
_LIMITS_BYTES: Floats = np.array(LIMITS_BYTES)


class Progress(NamedTuple):
    """How far each coflow is, by index."""

    queue: Numbers
    rank: Numbers  #: its place by arrival
    near_s: Floats  #: when it lacks only rounding to its queue's limit
    moves_s: Floats  #: when it moves to the next queue; inf: never at this rate
    sent_bytes: Floats  #: by all its flows, as of ``sent_s``
    sent_s: Floats
    open_rows: Numbers  #: rows that have a flow
    touched: Bools  #: whether any step so far has set its rates


class Ends(NamedTuple):
    """Rows that have ended, one after the other; with room for more."""

    at_s: Floats
    indices: Numbers  #: of their coflows
    rows: Numbers


class Span(NamedTuple):
    """The time for which steps may be made, in seconds."""

    begin_s: float
    before_s: float  #: only what happens before then
    together_s: float  #: rows that end this close together end at once


class Reached(NamedTuple):
    """How far it went."""

    steps: int
    ended: int  #: rows
    now_s: float  #: when the last of the steps was
    next_move_s: float  #: when the first coflow moves to its next queue


@njit(cache=True)
def go_ahead(
    span: Span,
    is_weighted: bool,
    order: Numbers,
    progress: Progress,
    ends: Ends,
    tables: List,
    paths: List,
    lists: List,
    changes: Changes,
    memory: Memory,
    rates: GroupRates,
    capacities: Floats,
    rounding: Floats,
    work: Work,
) -> Reached:
    """Make steps as long as they only end rows of coflows that go on, or move coflows on.

    ``order`` has the indices of all coflows as they are served, and is kept so.  ``changes``
    must note none.  Returns before the first event that it does not know how to handle.
    """
    now_s, steps, ended, idle = span.begin_s, 0, 0, 0
    while True:
        at_s = max(_next_s(order, rates.first_finish_s, progress.moves_s), now_s)
        if not at_s < span.before_s:
            break
        by_s = at_s + max(INSTANT_S, at_s * CLOCK_ROUNDING, span.together_s)
        due = _note_due(order, tables, lists, changes.counts, rates, progress, by_s, ends, ended)
        if due < 0:
            break
        _end(
            tables,
            paths,
            lists,
            changes,
            memory,
            rates.bytes_per_s,
            progress,
            at_s,
            ends,
            ended,
            ended + due,
        )
        ends.at_s[ended : ended + due] = at_s
        now_s, steps, ended = at_s, steps + 1, ended + due
        idle = 0 if due else idle + 1
        if idle > _IDLE_MAX + QUEUES * len(order):
            raise InvariantError("aalo: coflows move between queues without an end")
        _follow_queues(order, changes.changed, rates.bytes_per_s, progress, now_s)
        sent_at = rates.bytes_per_s.copy()
        if is_weighted:
            queue_ends, parts = _parts(order, progress.queue)
            touched = share_by_parts(
                order,
                FOLLOWED[0],
                queue_ends,
                parts,
                capacities,
                tables,
                paths,
                lists,
                changes,
                memory,
                rates,
                rounding,
                now_s,
                work,
            )
        else:
            touched = share_in_order(
                order,
                FOLLOWED[0],
                tables,
                paths,
                lists,
                changes,
                memory,
                rates,
                capacities.copy(),
                rounding,
                now_s,
                work,
            )
        _take_rates(order, rates, touched, sent_at, progress, now_s)
        changes.changed[:] = False
    return Reached(steps, ended, now_s, _first(order, progress.moves_s))


# Inside ----------------------------------------------------------------------------------------
@njit(cache=True)
def _next_s(order: Numbers, first_finish_s: Floats, moves_s: Floats) -> float:
    return min(_first(order, first_finish_s), _first(order, moves_s))


@njit(cache=True)
def _first(order: Numbers, times_s: Floats) -> float:
    """The first of these coflows' times; inf if none has one."""
    first_s = np.inf
    for index in order:
        first_s = min(first_s, times_s[index])
    return first_s


@njit(cache=True)
def _note_due(
    order: Numbers,
    tables: List,
    lists: List,
    counts: Numbers,
    rates: GroupRates,
    progress: Progress,
    by_s: float,
    ends: Ends,
    ended: int,
) -> int:
    """Note the rows that end by then, after those that have; returns how many they are.

    -1 if there is no room for them, or if a coflow ends or its rows get other numbers then.
    """
    due = 0
    for index in order:
        if rates.bytes_per_s[index] == np.inf:  # endless rates are only for an instant
            return -1
        if rates.first_finish_s[index] > by_s:
            continue
        finish_s, firsts, before = tables[index][FINISH_S], lists[index].firsts, due
        for block in range(-(-counts[index] // BLOCK)):
            if firsts[block] > by_s:
                continue
            begin = block * BLOCK
            for row in range(begin, min(begin + BLOCK, counts[index])):
                if finish_s[row] <= by_s:
                    if ended + due == len(ends.rows):
                        return -1
                    ends.indices[ended + due], ends.rows[ended + due] = index, row
                    due += 1
        rows = progress.open_rows[index] - (due - before)
        if rows == 0 or counts[index] > 2 * rows:
            return -1
    return due


@njit(cache=True)
def _end(
    tables: List,
    paths: List,
    lists: List,
    changes: Changes,
    memory: Memory,
    bytes_per_s: Floats,
    progress: Progress,
    now_s: float,
    ends: Ends,
    first: int,
    last: int,
) -> None:
    """Have these rows send nothing any more."""
    while first < last:
        index, begin = ends.indices[first], first
        while first < last and ends.indices[first] == index:
            first += 1
        changes.changed[index] = changes.only_ended[index] = True
        _count_sent(progress, index, bytes_per_s[index], now_s)
        progress.open_rows[index] -= first - begin
        freed, table, path, rows = bytes_per_s[index], tables[index], paths[index], lists[index]
        for place in range(begin, first):
            row = ends.rows[place]
            freed = _end_row(table, row, freed)
            end_row(path, row, rows, memory, index)
        bytes_per_s[index] = freed


@borrows
def _end_row(table: Floats, row: int, bytes_per_s: float) -> float:
    """Have a row send nothing; returns what is left of its coflow's ``bytes_per_s``."""
    freed = table[RATE, row] * table[WEIGHT, row]
    for column in range(len(table)):
        table[column, row] = 0.0
    table[FINISH_S, row] = np.inf
    left: float = max(bytes_per_s - freed, 0.0)
    return left


@njit(cache=True)
def _count_sent(progress: Progress, index: int, bytes_per_s: float, now_s: float) -> None:
    """Count what a coflow has sent at this rate until now."""
    passed_s = now_s - progress.sent_s[index]
    if passed_s > 0:
        progress.sent_bytes[index] += bytes_per_s * passed_s
        progress.sent_s[index] = now_s


@njit(cache=True)
def _sent_bytes(progress: Progress, index: int, bytes_per_s: float, now_s: float) -> float:
    """What a coflow that sends at this rate has sent by now."""
    passed_s, sent = now_s - progress.sent_s[index], progress.sent_bytes[index]
    by_now: float = sent + bytes_per_s * passed_s if passed_s > 0 else sent
    return by_now


@njit(cache=True)
def _follow_queues(
    order: Numbers, changed: Bools, bytes_per_s: Floats, progress: Progress, now_s: float
) -> None:
    """Have coflows that have reached their limits in their next queues; see ``Queues.update``."""
    queue, rank, moved = progress.queue, progress.rank, False
    for index in order:
        if changed[index] or progress.near_s[index] <= now_s:
            sent = _sent_bytes(progress, index, bytes_per_s[index], now_s) + ROUNDING_BYTES
            before, queue[index] = queue[index], np.searchsorted(_LIMITS_BYTES, sent, "right")
            moved |= queue[index] != before
    if not moved:
        return
    for number in range(1, len(order)):
        index, place = order[number], number
        while place > 0:
            other = order[place - 1]
            if (queue[other], rank[other]) < (queue[index], rank[index]):
                break
            order[place] = other
            place -= 1
        order[place] = index


@njit(cache=True)
def _parts(order: Numbers, queue: Numbers) -> tuple[Numbers, Floats]:
    """Up to where each queue has coflows in the order, and its share of the links."""
    queue_ends, parts, many = np.empty(QUEUES, np.int64), np.empty(QUEUES), 0
    for place in range(len(order)):
        if place + 1 == len(order) or queue[order[place + 1]] != queue[order[place]]:
            queue_ends[many], parts[many] = place + 1, QUEUES - queue[order[place]]
            many += 1
    return queue_ends[:many], parts[:many] / parts[:many].sum()


@njit(cache=True)
def _take_rates(
    order: Numbers,
    rates: GroupRates,
    touched_count: int,
    sent_at: Floats,
    progress: Progress,
    now_s: float,
) -> None:
    """Note when coflows with other rates move on, as ``Queues.take_rates`` does.

    ``sent_at`` are the bytes/s of each coflow until now.
    """
    for index in rates.touched[:touched_count]:
        _count_sent(progress, index, sent_at[index], now_s)
        progress.touched[index] = True
        progress.near_s[index] = now_s
    for index in order:
        if progress.near_s[index] > now_s:
            continue
        rate, queue = rates.bytes_per_s[index], progress.queue[index]
        if not 0 < rate < np.inf or queue == len(_LIMITS_BYTES):
            progress.near_s[index] = progress.moves_s[index] = np.inf
            continue
        sent = _sent_bytes(progress, index, rate, now_s)
        moves_s = now_s + (_LIMITS_BYTES[queue] - sent) / rate
        near_s = now_s + (_LIMITS_BYTES[queue] - ROUNDING_BYTES - sent) / rate
        progress.moves_s[index] = max(moves_s, np.nextafter(now_s, np.inf))
        progress.near_s[index] = max(near_s, now_s)
