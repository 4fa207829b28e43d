"""Many events in one call: rows that end, and the decision that follows, one after the other.

As long as no flow comes and no link changes, all that happens follows from the rates.  Each step
does what ``Fabric.advance`` and ``CompiledShortestFirst.decide`` do at one event.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from railyard.cluster.errors import InvariantError
from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.model.instants import CLOCK_ROUNDING, INSTANT_S
from railyard.netemu.model.rows import FINISH_S
from railyard.netemu.schedulers.fast.sjf.senders import COUNT, ENDS_S, ORDER, ROW, Senders
from railyard.netemu.schedulers.fast.sjf.serving import Links, pause, serve
from railyard.netemu.schedulers.fast.sjf.waiting import Waiting


class Span(NamedTuple):
    """The time for which steps may be made, in seconds."""

    begin_s: float
    before_s: float  #: only what happens before then
    together_s: float  #: rows that end this close together end at once


class Reached(NamedTuple):
    """How far it went."""

    now_s: float  #: when the last of the steps was
    steps: int
    sent_bytes: float  #: by all rows, from the first step to the last
    bytes_per_s: float  #: of all rows
    first_s: float  #: when the first row finishes
    ends_s: Floats  #: when rows ended
    rows: Numbers  #: those rows


@njit(cache=True)
def go_ahead(
    table: Floats,
    paths: Numbers,
    row_count: int,
    open_rows: int,
    senders: Senders,
    waiting: Waiting,
    links: Links,
    bytes_per_s: float,
    first_s: float,
    span: Span,
) -> tuple[Reached, Waiting]:
    """Make steps as long as the rows that are left keep their numbers.

    ``bytes_per_s`` and ``first_s`` are those of the last decision.  Returns the lists of rows that
    wait, too, which may be new ones.
    """
    facts, marks, order = senders.facts, senders.marks, senders.lists[ORDER]
    ends_s, ended = np.empty(row_count), np.empty(row_count, np.int64)
    now_s, steps, done, sent_bytes = span.begin_s, 0, 0, 0.0
    while bytes_per_s < np.inf:  # endless rates are only for an instant
        at_s, last = max(first_s, now_s), done
        if not at_s < span.before_s:
            break
        by_s = at_s + max(INSTANT_S, at_s * CLOCK_ROUNDING, span.together_s)
        for record in order[: senders.counts[COUNT]]:
            if facts[record, ENDS_S] <= by_s:
                ends_s[last], ended[last] = at_s, marks[record, ROW]
                last += 1
        if last == done:
            raise InvariantError("sjf: a step in which no row ends")
        if row_count > 2 * (open_rows - last):
            break
        for row in ended[done:last]:
            table[:, row] = 0.0
            table[FINISH_S, row] = np.inf
        sent_bytes += bytes_per_s * (at_s - now_s)
        now_s, steps, done = at_s, steps + 1, last
        paused, bytes_per_s, first_s = serve(
            table, paths, row_count, senders, waiting, links, now_s
        )
        if paused:
            waiting = pause(table, senders, waiting, paused, now_s)
    return (
        Reached(now_s, steps, sent_bytes, bytes_per_s, first_s, ends_s[:done], ended[:done]),
        waiting,
    )
