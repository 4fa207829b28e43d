"""What coflows' pairs that wait have left to send, in matrices; and which row each pair has.

The matrices are blocks of flat arrays (``ports.Matrices``), so that no loop needs lists of arrays:
numba counts references to each array that it gets from a list, which took a seventh of the time of
``sunflow``.  A coflow's block moves to the end when it gets too small.
"""

from __future__ import annotations

import numpy as np

from railyard.netemu.circuits.policies.fast.ports import IN, NONE, OUT, SIDES, Matrices, Small
from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.schedulers.fast.loops.borrowing import borrows
from railyard.netemu.schedulers.fast.loops.grouparrays import grown


def new_matrices(racks: int, coflows: int) -> Matrices:
    """Empty ones for so many coflows."""
    return Matrices(
        at=np.full((coflows, 2, racks), NONE, dtype=np.int32),
        used=np.zeros((coflows, 2), dtype=np.int64),
        begins=np.zeros(coflows, dtype=np.int64),
        sizes=np.zeros((coflows, 2), dtype=np.int64),
        left_bytes=np.empty((2, 0)),
        rows=np.empty(0, dtype=np.int64),
        end=np.zeros(1, dtype=np.int64),
    )


def with_coflows(matrices: Matrices, more: int) -> Matrices:
    """The same, with empty ones for ``more`` coflows."""
    places = np.full((more, *matrices.at.shape[1:]), NONE, dtype=np.int32)
    return matrices._replace(
        at=np.concatenate([matrices.at, places]),
        used=grown(matrices.used, more),
        begins=grown(matrices.begins, more),
        sizes=grown(matrices.sizes, more),
    )


def reserve(pairs: Floats, matrices: Matrices) -> Matrices:
    """The same, with a place for each of these pairs: [number, (index, src, dst, ...)]."""
    more = _use_racks(pairs, matrices.at, matrices.used, matrices.sizes)
    if matrices.end[0] + more > matrices.rows.size:
        matrices = _with_cells(matrices, more)
    if more:
        _widen(matrices)
    return matrices


def forget(index: int, matrices: Matrices) -> None:
    """Forget all pairs of a coflow, so that its index can be used again."""
    matrices.at[index] = NONE
    matrices.used[index] = matrices.sizes[index] = 0


@borrows
def find(index: int, src: int, dst: int, matrices: Matrices) -> int:
    """The row of a coflow's pair; NONE, if there is no such pair."""
    if matrices.at[index, OUT, src] == NONE or matrices.at[index, IN, dst] == NONE:
        return NONE
    return int(matrices.rows[cell(index, OUT, src, dst, matrices)])


@borrows
def cell(index: int, side: int, src: int, dst: int, matrices: Matrices) -> int:
    """Where a coflow's pair is in the matrix of this side."""
    at, size = matrices.at, matrices.sizes[index, 1 - side]
    row, column = at[index, OUT, src], at[index, IN, dst]
    place = row * size + column if side == OUT else column * size + row
    return int(matrices.begins[index] + place)


@borrows
def put_left(index: int, src: int, dst: int, size_bytes: float, matrices: Matrices) -> None:
    """Note what a pair has left to send."""
    for side in SIDES:
        matrices.left_bytes[side, cell(index, side, src, dst, matrices)] = size_bytes


# Inside ------------------------------------------------------------------------------------------
@borrows
def _use_racks(pairs: Floats, at: Small, used: Numbers, sizes: Numbers) -> int:
    """Have rows and columns for these pairs; returns how many cells more that takes."""
    for number in range(len(pairs)):
        index = int(pairs[number, 0])
        for side in SIDES:
            port = int(pairs[number, 1 + side])
            if at[index, side, port] == NONE:
                at[index, side, port] = used[index, side]
                used[index, side] += 1
    more, racks = 0, at.shape[2]
    for index in range(len(used)):
        if used[index, OUT] > sizes[index, OUT] or used[index, IN] > sizes[index, IN]:
            rows = _next_size(used[index, OUT], sizes[index, OUT], racks)
            more += rows * _next_size(used[index, IN], sizes[index, IN], racks)
    return more


@borrows
def _next_size(used: int, size: int, racks: int) -> int:
    """For how many ports there will be room; what grows once more will do so again."""
    if used <= size:
        return size
    return min(2 * used, racks) if size else used


@borrows
def _widen(matrices: Matrices) -> None:
    """Move coflows that use more ports than there is room for to the end, with room for them."""
    used, sizes, begins, racks = (
        matrices.used,
        matrices.sizes,
        matrices.begins,
        matrices.at.shape[2],
    )
    left_bytes, pair_rows = matrices.left_bytes, matrices.rows
    for index in range(len(used)):
        outs, ins = sizes[index, OUT], sizes[index, IN]
        if used[index, OUT] <= outs and used[index, IN] <= ins:
            continue
        rows = _next_size(used[index, OUT], outs, racks)
        columns = _next_size(used[index, IN], ins, racks)
        was, begin = begins[index], matrices.end[0]
        for place in range(begin, begin + rows * columns):
            pair_rows[place] = NONE
        for row in range(outs):
            for column in range(ins):
                before, now = was + row * ins + column, begin + row * columns + column
                pair_rows[now] = pair_rows[before]
                left_bytes[OUT, now] = left_bytes[OUT, before]
                before, now = was + column * outs + row, begin + column * rows + row
                left_bytes[IN, now] = left_bytes[IN, before]
        begins[index], sizes[index, OUT], sizes[index, IN] = begin, rows, columns
        matrices.end[0] = begin + rows * columns


def _with_cells(matrices: Matrices, more: int) -> Matrices:
    """The same, with room for so many cells more and as many again; blocks in a row."""
    many = matrices.sizes.prod(axis=1)
    begins, end = np.cumsum(many) - many, int(many.sum())
    room = 2 * (end + more)
    left_bytes, rows = np.empty((2, room)), np.empty(room, dtype=np.int64)
    for index in np.flatnonzero(many).tolist():
        now = slice(begins[index], begins[index] + many[index])
        before = slice(matrices.begins[index], matrices.begins[index] + many[index])
        left_bytes[:, now], rows[now] = matrices.left_bytes[:, before], matrices.rows[before]
    return matrices._replace(begins=begins, left_bytes=left_bytes, rows=rows, end=np.array([end]))
