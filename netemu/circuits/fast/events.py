"""What ``netemu.circuits.plane`` does as time goes on, compiled: flows end, circuits change.

``run`` goes from event to event by itself, as long as nobody else has to be asked.
"""

from __future__ import annotations

import numpy as np

from railyard.cluster.errors import InvariantError
from railyard.netemu.circuits.fast import demands, pipes
from railyard.netemu.circuits.fast.rows import (
    ATTACHED,
    BYTES_PER_S,
    COUNTED,
    DST,
    FIRST,
    FROM_S,
    MEMBERS,
    NONE,
    REMATCH,
    REORDER,
    SRC,
    PlaneRows,
)
from railyard.netemu.circuits.policies.fast.choosing import CUT, TAKEN, choose
from railyard.netemu.circuits.policies.fast.matrices import find
from railyard.netemu.circuits.policies.fast.ports import MatchState, Matrices, Work
from railyard.netemu.model import instants
from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.schedulers.fast.loops.borrowing import borrows

#: So many events follow each other at most in which no flow ends.
_IDLE_MAX = 100_000
#: ``model.instants.instant_s``
instant_s = borrows(instants.instant_s)


@borrows
def run(
    now_s: float,
    before_s: float,
    together_s: float,
    delta_s: float,
    order: Numbers,
    is_new_order: bool,
    rows: PlaneRows,
    state: MatchState,
    matrices: Matrices,
    work: Work,
    ended: Numbers,
    ended_s: Floats,
) -> tuple[float, int, int]:
    """Decide now, and let flows end and decide again until just before then.

    Returns the time of the last event, how many events there were, and how many flows have ended:
    those in ``ended``, at ``ended_s``.  It stops before coflows must be put in order anew, and when
    ``ended`` might have no room for the flows that end next.
    """
    events = many = idle = 0
    while True:
        _decide(now_s, delta_s, order, is_new_order, rows, state, matrices, work)
        is_new_order = False
        next_s = max(now_s, min(_first(rows.due_s), rows.look_again_s[0]))
        if not next_s < before_s:
            break
        by_s = next_s + max(instant_s(next_s), together_s)
        if many + _most_due(by_s, rows) > len(ended):
            break
        now_s = next_s
        more = end_due(now_s, by_s, rows, state, matrices, ended[many:])
        for number in range(many, many + more):
            ended_s[number] = now_s
        many += more
        events += 1
        idle = 0 if more else idle + 1
        if idle > _IDLE_MAX:
            raise InvariantError("circuits: decided again and again, and no flow ends")
        if rows.flags[REORDER]:
            break
    return now_s, events, many


@borrows
def _decide(
    now_s: float,
    delta_s: float,
    order: Numbers,
    is_new_order: bool,
    rows: PlaneRows,
    state: MatchState,
    matrices: Matrices,
    work: Work,
) -> None:
    """Bring circuits, and the flows on them, up to now."""
    rounding_s = instant_s(now_s)
    looks_again = rows.look_again_s[0] <= now_s + rounding_s
    if rows.flags[REORDER] or rows.flags[REMATCH] or looks_again:
        if is_new_order:
            for index in order:
                rows.fresh[index] = True
            state.booked[:] = 0
        if is_new_order or looks_again:
            rows.look_again_s[0] = np.inf
        cuts, takes, look_again_s = choose(
            now_s, delta_s, rounding_s, looks_again, order, rows.fresh, state, matrices, work
        )
        rows.look_again_s[0] = min(rows.look_again_s[0], look_again_s)
        rows.fresh[:] = False
        rows.flags[REORDER] = rows.flags[REMATCH] = 0
        for number in range(cuts):
            _cut(int(rows.serving[work.found[CUT, number, 1]]), now_s, rows, state, matrices)
        for number in range(takes):
            taken = work.found[TAKEN, number]
            pair = find(taken[0], taken[1], taken[2], matrices)
            _attach(pair, now_s, rows, state)
    for src in range(len(rows.due_s)):
        rows.due_s[src] = rows.finish_s[src]


@borrows
def end_due(
    now_s: float,
    by_s: float,
    rows: PlaneRows,
    state: MatchState,
    matrices: Matrices,
    ended: Numbers,
) -> int:
    """Let the flows end that have sent all by then; writes them to ``ended``; returns how many."""
    many = 0
    for src in range(len(rows.due_s)):
        if rows.due_s[src] <= by_s:
            pair = int(rows.serving[src])
            many += pipes.take_due(rows.pairs, rows.flows, pair, now_s, by_s, ended[many:])
            if rows.pairs[pair, FIRST] == NONE:
                demands.take_off(pair, rows, state, matrices)
            else:
                demands.refill(pair, now_s, rows)
    return many


@borrows
def _first(times_s: Floats) -> float:
    """The first of these times."""
    first_s = np.inf
    for time_s in times_s:
        first_s = min(first_s, time_s)
    return first_s


@borrows
def count_serving(now_s: float, rows: PlaneRows) -> None:
    """Note what the pairs that have circuits have left to send."""
    for pair in rows.serving:
        if pair != NONE:
            demands.count(pair, pipes.left_bytes(rows.pairs, pair, now_s), rows)


@borrows
def _most_due(by_s: float, rows: PlaneRows) -> int:
    """How many flows there are, at most, that might end by then."""
    many = 0
    for src in range(len(rows.due_s)):
        if rows.due_s[src] <= by_s:
            many += int(rows.pairs[int(rows.serving[src]), MEMBERS])
    return many


@borrows
def _cut(pair: int, now_s: float, rows: PlaneRows, state: MatchState, matrices: Matrices) -> None:
    """Take a pair's circuit."""
    pipes.halt(rows.pairs, pair, now_s)
    demands.let_go(int(rows.pairs[pair, SRC]), rows)
    left_bytes = pipes.left_bytes(rows.pairs, pair, now_s)
    demands.wait_with(pair, left_bytes, rows, state, matrices)


@borrows
def _attach(pair: int, now_s: float, rows: PlaneRows, state: MatchState) -> None:
    """Let a pair send through the circuit that it has been given."""
    src, dst = int(rows.pairs[pair, SRC]), int(rows.pairs[pair, DST])
    rows.serving[src] = pair
    demands.expect_end(pair, rows.pairs[pair, COUNTED], now_s, rows, state)
    if not rows.pairs[pair, ATTACHED]:
        rows.pairs[pair, ATTACHED] = 1.0
        pipes.enter_all(rows.pairs, rows.flows, pair, now_s)
    rows.pairs[pair, BYTES_PER_S] = demands.circuit_bytes_per_s(src, dst, rows)
    rows.pairs[pair, FROM_S] = state.ready_s[src]
    demands.refill(pair, now_s, rows)
