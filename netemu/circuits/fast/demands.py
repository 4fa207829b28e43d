"""What coflows have to send by circuits, compiled: pairs come, are counted, wait, and are done."""

from __future__ import annotations

import numpy as np

from railyard.netemu.circuits.fast import pipes
from railyard.netemu.circuits.fast.rows import (
    ATTACHED,
    COUNTED,
    DST,
    FIRST,
    FREE,
    FROM_S,
    INDEX,
    LAST,
    NEXT,
    NONE,
    PAIR_COLUMNS,
    RATE,
    REMATCH,
    REORDER,
    SIZE,
    SRC,
    PlaneRows,
)
from railyard.netemu.circuits.policies.fast.choosing import WAITS_NO_MORE, release, wait
from railyard.netemu.circuits.policies.fast.matrices import cell
from railyard.netemu.circuits.policies.fast.ports import IN, OUT, MatchState, Matrices
from railyard.netemu.schedulers.fast.loops.borrowing import borrows


@borrows
def add(index: int, src: int, dst: int, rows: PlaneRows, matrices: Matrices) -> int:
    """Add a pair, without flows so far; returns its row.  Matrices have a place for it."""
    rows.flags[FREE] -= 1
    pair = rows.free[rows.flags[FREE]]
    rows.pairs[pair, :PAIR_COLUMNS] = 0.0
    rows.pairs[pair, INDEX], rows.pairs[pair, SRC], rows.pairs[pair, DST] = index, src, dst
    rows.pairs[pair, FIRST] = rows.pairs[pair, LAST] = NONE
    rows.pair_count[index] += 1
    matrices.rows[cell(index, OUT, src, dst, matrices)] = pair
    return int(pair)


@borrows
def count(pair: int, size_bytes: float, rows: PlaneRows) -> None:
    """Note what a pair has left to send by circuits; 0: it needs none any more."""
    before = rows.pairs[pair, COUNTED]
    index, src, dst = _of(pair, rows)
    more = size_bytes - before
    rows.moved[index] = True
    rows.port_bytes[index, OUT, src] += more
    rows.port_bytes[index, IN, dst] += more
    rows.pairs[pair, COUNTED] = size_bytes
    if not (before and size_bytes):
        change = int(size_bytes > 0) - int(before > 0)
        rows.port_pairs[index, OUT, src] += change
        rows.port_pairs[index, IN, dst] += change


@borrows
def queue(pair: int, now_s: float, rows: PlaneRows, state: MatchState, matrices: Matrices) -> None:
    """Let a pair wait for a circuit, with what its flows have left to send."""
    pipes.settle(rows.pairs, pair, now_s)
    left_bytes, flow = 0.0, int(rows.pairs[pair, FIRST])
    while flow != NONE:
        left_bytes += rows.flows[flow, SIZE] - pipes.sent_bytes(rows.pairs, rows.flows, flow)
        flow = int(rows.flows[flow, NEXT])
    wait_with(pair, left_bytes, rows, state, matrices)
    rows.fresh[int(rows.pairs[pair, INDEX])] = True
    rows.flags[REORDER] = True


@borrows
def wait_with(
    pair: int, left_bytes: float, rows: PlaneRows, state: MatchState, matrices: Matrices
) -> None:
    """Let a pair wait for a circuit, with so many bytes left to send."""
    count(pair, left_bytes, rows)
    index, src, dst = _of(pair, rows)
    wait(index, src, dst, np.rint(left_bytes), state, matrices)


@borrows
def take_off(pair: int, rows: PlaneRows, state: MatchState, matrices: Matrices) -> None:
    """Forget a pair that has no flows any more: it has no circuit, and wants none."""
    index, src, dst = _of(pair, rows)
    if rows.serving[src] == pair:
        release(index, src, dst, state)
        let_go(src, rows)
        rows.flags[REMATCH] = True
    else:
        wait(index, src, dst, WAITS_NO_MORE, state, matrices)
    count(pair, 0.0, rows)
    matrices.rows[cell(index, OUT, src, dst, matrices)] = NONE
    rows.free[rows.flags[FREE]] = pair
    rows.flags[FREE] += 1
    rows.pair_count[index] -= 1
    if not rows.pair_count[index]:
        rows.fresh[index] = False
        rows.flags[REORDER] = True


@borrows
def let_go(src: int, rows: PlaneRows) -> None:
    """Note that no pair has a circuit from this rack."""
    rows.serving[src] = NONE
    rows.finish_s[src] = rows.due_s[src] = np.inf


@borrows
def refill(pair: int, now_s: float, rows: PlaneRows) -> None:
    """Note when a pair finishes whose flows have changed, if it has a circuit."""
    if not rows.pairs[pair, ATTACHED]:
        return
    src = int(rows.pairs[pair, SRC])
    finish_s = pipes.fill(rows.pairs, pair, now_s)
    if rows.serving[src] == pair:
        rows.finish_s[src], rows.due_s[src] = finish_s, np.inf


@borrows
def expect_end(
    pair: int, left_bytes: float, now_s: float, rows: PlaneRows, state: MatchState
) -> None:
    """Note when a pair that has a circuit will have sent all."""
    src, dst = int(rows.pairs[pair, SRC]), int(rows.pairs[pair, DST])
    begins_s = max(state.ready_s[src], now_s)
    state.ends_s[src] = begins_s + left_bytes / circuit_bytes_per_s(src, dst, rows)


@borrows
def circuit_bytes_per_s(src: int, dst: int, rows: PlaneRows) -> float:
    """Bytes/s of a circuit between two racks."""
    return float(min(rows.bytes_per_s[OUT, src], rows.bytes_per_s[IN, dst]))


@borrows
def rate_bytes_per_s(pair: int, now_s: float, rows: PlaneRows) -> float:
    """Bytes/s for each unit of weight of a pair."""
    return float(rows.pairs[pair, RATE]) if now_s >= rows.pairs[pair, FROM_S] else 0.0


@borrows
def _of(pair: int, rows: PlaneRows) -> tuple[int, int, int]:
    """A pair's coflow and racks."""
    pairs = rows.pairs
    return int(pairs[pair, INDEX]), int(pairs[pair, SRC]), int(pairs[pair, DST])
