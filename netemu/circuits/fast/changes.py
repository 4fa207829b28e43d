"""Flows that come, grow or are closed, compiled: what ``netemu.circuits.plane`` does of them."""

from __future__ import annotations

import numpy as np

from railyard.netemu.circuits.fast import demands, pipes
from railyard.netemu.circuits.fast.rows import (
    ATTACHED,
    COUNTED,
    FIRST,
    FLOW_WEIGHT,
    NONE,
    PAIR,
    REORDER,
    SENT_BEFORE,
    SEQUENCE,
    SIZE,
    SRC,
    PlaneRows,
)
from railyard.netemu.circuits.policies.fast.matrices import find
from railyard.netemu.circuits.policies.fast.ports import MatchState, Matrices
from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.schedulers.fast.loops.borrowing import borrows

#: Columns of flows that come: the index of their coflow, their racks, their row; then size, bytes
#: sent, weight and sequence.
COMING_COLUMNS = 8


@borrows
def take_in(
    coming: Floats,
    now_s: float,
    rows: PlaneRows,
    state: MatchState,
    matrices: Matrices,
    new: Numbers,
    grown: Numbers,
) -> int:
    """Take in flows that go by circuit, in the order in which they have come.

    New pairs wait from now on, and are written into ``new``; others have grown, and are written
    into ``grown``: returns how many.  The matrices have places for all.
    """
    news = many = 0
    for number in range(len(coming)):
        index, src = int(coming[number, 0]), int(coming[number, 1])
        dst, flow = int(coming[number, 2]), int(coming[number, 3])
        rows.flows[flow, SIZE], rows.flows[flow, SENT_BEFORE] = coming[number, 4], coming[number, 5]
        rows.flows[flow, FLOW_WEIGHT] = coming[number, 6]
        rows.flows[flow, SEQUENCE] = coming[number, 7]
        pair = find(index, src, dst, matrices)
        if pair == NONE:
            pair = demands.add(index, src, dst, rows, matrices)
            new[news] = pair
            news += 1
        elif rows.pairs[pair, COUNTED]:  # it was there before
            grown[many] = pair
            many += 1
        pipes.append(rows.pairs, rows.flows, pair, flow)
        if rows.pairs[pair, ATTACHED]:
            pipes.enter(rows.pairs, rows.flows, flow, now_s)
    for number in range(news):
        demands.queue(new[number], now_s, rows, state, matrices)
    return many


@borrows
def note_grown(
    grown: Numbers, now_s: float, rows: PlaneRows, state: MatchState, matrices: Matrices
) -> None:
    """Count pairs that have more, or less, to send."""
    for pair in grown:
        if rows.pairs[pair, FIRST] == NONE:
            continue  # it has ended since
        demands.refill(pair, now_s, rows)
        if rows.serving[int(rows.pairs[pair, SRC])] == pair:
            demands.count(pair, pipes.left_bytes(rows.pairs, pair, now_s), rows)
            demands.expect_end(pair, rows.pairs[pair, COUNTED], now_s, rows, state)
            rows.flags[REORDER] = True
        else:
            demands.queue(pair, now_s, rows, state, matrices)


@borrows
def leave(flow: int, now_s: float, rows: PlaneRows) -> float:
    """Let a flow send nothing for now; returns what it has sent."""
    pair = int(rows.flows[flow, PAIR])
    src = int(rows.pairs[pair, SRC])
    if rows.serving[src] == pair:
        rows.due_s[src] = np.inf  # it is not known until the others have got their share
    return pipes.leave(rows.pairs, rows.flows, flow, now_s)


@borrows
def enter_again(flow: int, size_bytes: float, sent: float, now_s: float, rows: PlaneRows) -> int:
    """Let a flow that has left send again; returns its pair."""
    pair = int(rows.flows[flow, PAIR])
    rows.flows[flow, SIZE], rows.flows[flow, SENT_BEFORE] = size_bytes, sent
    if rows.pairs[pair, ATTACHED]:
        pipes.enter(rows.pairs, rows.flows, flow, now_s)
    return pair


@borrows
def forget(
    flow: int,
    now_s: float,
    rows: PlaneRows,
    state: MatchState,
    matrices: Matrices,
) -> int:
    """Forget a flow that has left; returns its pair if that waits with fewer bytes now, or NONE."""
    pair = int(rows.flows[flow, PAIR])
    pipes.unlink(rows.pairs, rows.flows, flow)
    if rows.pairs[pair, FIRST] == NONE:
        demands.take_off(pair, rows, state, matrices)
        return NONE
    demands.refill(pair, now_s, rows)
    if rows.serving[int(rows.pairs[pair, SRC])] != pair:
        return pair
    if rows.flows[flow, SENT_BEFORE] < rows.flows[flow, SIZE]:
        left_bytes = pipes.left_bytes(rows.pairs, pair, now_s)
        demands.expect_end(pair, left_bytes, now_s, rows, state)
    return NONE
