"""``sjf`` for crowds: what an event does not reach is left as it is.

``netemu.schedulers.sjf`` is the simple version, and decides the same.

Rows that send are a line, the shortest first, which is walked along at each decision.  Equals are
served together, as a *class*; if they are those of the last decision, and as much is left of their
links, they and what they leave stay as they are.  Rows that wait have a place in a list for each
link that they cross (see ``waiting``); they keep it, as they send nothing.  Each of them is longer
than those who filled one of its links.  So none has a turn before something is left of a link
at the place of the line where it was full last time; from there on that link's list counts.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from netemu.flowgroups import FlowGroup
from netemu.rowtable import RATE
from netemu.schedulers.base import Floats, Numbers, Traffic
from netemu.schedulers.compiled.line import (
    LEFT,
    LINKS,
    ROW,
    WAY,
    copy,
    enter,
    first_open,
    line_up,
    longer,
    serve_class,
)
from netemu.schedulers.compiled.rows import change_rate
from netemu.schedulers.compiled.waiting import (
    Waiting,
    first_of,
    insert,
    least_left,
    place_after,
    remove,
    with_room,
)
from netemu.schedulers.filling import Bools, rounding_of
from netemu.schedulers.sjf import SAME_BYTES, SAME_SHARE, ShortestFirst

#: How far ``_gather`` has come: turns in the line's order, and links of ``full``; how many links
#: are loose, and in which one's list the first row is (-1: there is none).
_TURN, _CHECKED, _LOOSE, _CHOSEN = range(4)


@njit(cache=True)
def serve(
    table: Floats,
    paths: Numbers,
    facts: Floats,
    marks: Numbers,
    order: Numbers,
    next_facts: Floats,
    next_marks: Numbers,
    waiting: Waiting,
    full_at: Floats,
    full: Numbers,
    many_full: int,
    left: Floats,
    rounding: Floats,
    now_s: float,
) -> tuple[Floats, Numbers, int, Waiting, int, float, float]:
    """Serve all rows, the shortest first; equals share in a max-min way.

    ``full`` are the links that were full at the end, in the order in which they became so;
    ``full_at`` tells what the last that used them had left then.  Both are brought up to date.

    Returns the line of those that send from now on (``facts``, ``marks`` and its length), those
    that wait, how many links are full, at how many bytes/s all rows send, and when the first one
    finishes.
    """
    bytes_per_s, first_s, total, classes = 0.0, np.inf, 0, 0
    paused = np.zeros(len(order), np.bool_)
    now_full, now_full_at = np.empty_like(full), np.full(len(left), np.inf)
    none_left = np.flatnonzero(left == 0)
    many_now_full = len(none_left)
    now_full[:many_now_full], now_full_at[none_left] = none_left, -1.0
    state, loose, at = np.array([0, 0, 0, -1]), np.empty_like(full), np.full(len(left), -1)
    while True:
        first = total
        next_facts, next_marks, total, longest = _gather(
            table,
            paths,
            facts,
            marks,
            order,
            paused,
            next_facts,
            next_marks,
            total,
            waiting,
            full_at,
            full[:many_full],
            loose,
            at,
            state,
            left,
            now_s,
        )
        if total == first:
            break
        sends, ends_s = serve_class(
            table, next_facts, next_marks, classes, first, total, left, rounding, now_s
        )
        bytes_per_s, first_s, classes = bytes_per_s + sends, min(first_s, ends_s), classes + 1
        for place in range(first, total):
            for column in range(WAY, next_marks.shape[1]):
                link = next_marks[place, column]
                if left[link] == 0 and now_full_at[link] == np.inf:
                    now_full[many_now_full], now_full_at[link] = link, longest
                    many_now_full += 1
    full[:], full_at[:] = now_full, now_full_at
    waiting = _pause(table, facts, marks, order[paused], waiting, now_s)
    return next_facts, next_marks, total, waiting, many_now_full, bytes_per_s, first_s


@njit(cache=True)
def _gather(
    table: Floats,
    paths: Numbers,
    facts: Floats,
    marks: Numbers,
    order: Numbers,
    paused: Bools,
    next_facts: Floats,
    next_marks: Numbers,
    total: int,
    waiting: Waiting,
    full_at: Floats,
    full: Numbers,
    loose: Numbers,
    at: Numbers,
    state: Numbers,
    left: Floats,
    now_s: float,
) -> tuple[Floats, Numbers, int, float]:
    """Add the next class to the next line, after its ``total`` rows.

    ``loose`` are links that are free beyond where they were full, and ``at`` where their lists have
    to go on; ``state`` tells how far this has come.  Returns the line, which may have more room
    than before, how many rows it has now, and what the last of them has left.
    """
    longest, most = -1.0, np.inf
    chosen = state[_CHOSEN]
    if chosen >= 0 and least_left(paths, waiting.rows[at[chosen]], left) == 0:
        _choose(waiting, table, paths, loose, at, state, left)
    while True:
        turn = first_open(marks, order, state[_TURN], left)
        paused[state[_TURN] : turn] = True
        state[_TURN] = turn
        mine = facts[order[turn], LEFT] if turn < len(order) else np.inf
        other = _chosen_bytes(waiting, at, state)
        if _loosen(waiting, full_at, full, min(mine, other, most), loose, at, state, left):
            _choose(waiting, table, paths, loose, at, state, left)
            other = _chosen_bytes(waiting, at, state)
        shortest = min(mine, other)
        if shortest == np.inf or shortest > most:
            return next_facts, next_marks, total, longest
        longest, most = shortest, shortest * (1 + SAME_SHARE) + SAME_BYTES
        if total == len(next_facts):
            next_facts, next_marks = longer(next_facts, next_marks)
        if mine <= other:
            copy(facts, marks, order[turn], next_facts, next_marks, total)
            state[_TURN] += 1
        else:
            row = waiting.rows[at[state[_CHOSEN]]]
            enter(table, paths, next_facts, next_marks, total, row, now_s)
            _take_out(waiting, paths, row, other, at)
            _choose(waiting, table, paths, loose, at, state, left)
        total += 1


@njit(cache=True)
def _chosen_bytes(waiting: Waiting, at: Numbers, state: Numbers) -> float:
    """What the shortest row that waits and can send has left; inf: there is none."""
    chosen = state[_CHOSEN]
    return waiting.keys[at[chosen]] if chosen >= 0 else np.inf


@njit(cache=True)
def _choose(
    waiting: Waiting,
    table: Floats,
    paths: Numbers,
    loose: Numbers,
    at: Numbers,
    state: Numbers,
    left: Floats,
) -> None:
    """Find that row."""
    state[_LOOSE], state[_CHOSEN] = first_of(waiting, table, paths, loose, at, state[_LOOSE], left)


@njit(cache=True)
def _loosen(
    waiting: Waiting,
    full_at: Floats,
    full: Numbers,
    before: float,
    loose: Numbers,
    at: Numbers,
    state: Numbers,
    left: Floats,
) -> bool:
    """Have those lists count whose links were full ``before`` so many bytes, and are not now.

    Returns whether there are such.
    """
    many: int = state[_LOOSE]
    while state[_CHECKED] < len(full) and full_at[full[state[_CHECKED]]] < before:
        link = full[state[_CHECKED]]
        state[_CHECKED] += 1
        if left[link] > 0:
            at[link] = place_after(waiting, link, full_at[link])
            loose[state[_LOOSE]] = link
            state[_LOOSE] += 1
    return bool(state[_LOOSE] > many)


@njit(cache=True)
def _take_out(waiting: Waiting, paths: Numbers, row: int, key: float, at: Numbers) -> None:
    """Let a row wait no more; lists go on behind where they are ``at``."""
    for position in range(len(paths)):
        link = paths[position, row]
        if link < len(at) - 1:
            gone = remove(waiting, link, key, row)
            if at[link] > gone:
                at[link] -= 1


@njit(cache=True)
def _pause(
    table: Floats,
    facts: Floats,
    marks: Numbers,
    paused: Numbers,
    waiting: Waiting,
    now_s: float,
) -> Waiting:
    """Let the rows at these places of the line wait; returns those that do."""
    none = len(waiting.sizes) - 1
    more = np.zeros(none + 1, np.int64)
    for place in paused:
        for link in marks[place, WAY:]:
            more[link] += 1
    more[none] = 0  # stands for no link
    if len(paused) > 0:
        waiting = with_room(waiting, more)
    for place in paused:
        row = marks[place, ROW]
        if table[RATE, row] > 0:
            change_rate(table, row, 0.0, now_s)
        for link in marks[place, WAY:]:
            if link < none:
                insert(waiting, link, facts[place, LEFT], row)
    return waiting


class CompiledShortestFirst(ShortestFirst):
    """Greedy by remaining bytes."""

    def __init__(self) -> None:
        super().__init__()
        self._layout = -1  #: of the rows that all of this is about
        self._count = 0  #: rows that there were
        # the line of those that send, and room for the next one
        self._line = self._spare = _no_line(0)
        self._length = 0
        self._waiting = _nobody(0)
        # the links that were full, see ``serve``
        self._full: Numbers = np.zeros(0, dtype=np.int64)
        self._full_at: Floats = np.zeros(0)
        self._many_full = 0

    def decide(self, traffic: Traffic) -> float:
        """Serve flows in the order of what they have left."""
        for group in traffic.groups:  # at most one
            assert isinstance(group, FlowGroup)
            self._serve(group, traffic)
        return np.inf

    # Inside --------------------------------------------------------------------------------------
    def _serve(self, group: FlowGroup, traffic: Traffic) -> None:
        table, paths = group.rows.whole
        whole, left, now_s = traffic.capacities, traffic.capacities.copy(), traffic.now_s
        if group.layout != self._layout or len(paths) != self._line[1].shape[1] - WAY:
            self._begin(group, len(left))
        many = group.rows.count
        facts, marks = self._with_room(self._length + many - self._count)
        order = line_up(table, paths, facts, marks, self._length, self._count, many, now_s)
        served = serve(
            table,
            paths,
            facts,
            marks,
            order,
            *self._spare,
            self._waiting,
            self._full_at,
            self._full,
            self._many_full,
            left,
            rounding_of(left),
            now_s,
        )
        line, sending, length, self._waiting, self._many_full, bytes_per_s, first_s = served
        self._line, self._spare = (line, sending), (facts, marks)
        self._count, self._length = many, length
        load = np.subtract(whole, left, out=np.zeros(len(left)), where=np.isfinite(whole))
        group.timed(bytes_per_s, first_s, load, sending[:length, ROW])

    def _begin(self, group: FlowGroup, links: int) -> None:
        """Know nothing but what rows there are."""
        self._layout, self._count, self._length = group.layout, 0, 0
        positions = len(group.rows.whole[1])
        self._line, self._spare = _no_line(positions), _no_line(positions)
        self._waiting = _nobody(links)
        self._full_at, self._full = np.full(links, np.inf), np.zeros(links, dtype=np.int64)
        self._many_full = 0

    def _with_room(self, length: int) -> tuple[Floats, Numbers]:
        """The line, with room for so many rows."""
        facts, marks = self._line
        more = length - len(facts)
        if more <= 0:
            return facts, marks
        more_marks = np.empty((more, marks.shape[1]), dtype=np.int64)
        more_facts = np.empty((more, facts.shape[1]))
        return np.concatenate([facts, more_facts]), np.concatenate([marks, more_marks])


def _no_line(positions: int) -> tuple[Floats, Numbers]:
    return (
        np.empty((64, LINKS + 2 * positions)),
        np.empty((64, WAY + positions), dtype=np.int64),
    )


def _nobody(links: int) -> Waiting:
    none = np.zeros(0, dtype=np.int64)
    begins, sizes = np.zeros(links + 1, dtype=np.int64), np.zeros(links, dtype=np.int64)
    return Waiting(np.zeros(0), none, begins, sizes)
