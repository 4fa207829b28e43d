"""Tables of arrays as compiled loops get them."""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
import pytest

from railyard.netemu.kernel.pointers import Pointers
from railyard.netemu.kernel.state import Flags, Ids, Reals


class Inner(NamedTuple):
    ids: Ids
    flags: Flags


class Outer(NamedTuple):
    many: int
    reals: Reals
    inner: Inner


def _table() -> Outer:
    inner = Inner(np.arange(3, dtype=np.int32), np.array([True, False, True]))
    return Outer(7, np.array([0.5, 1.5]), inner)


@numba.njit
def _double(table):
    for at in range(len(table.reals)):
        table.reals[at] *= 2.0
    for at in range(len(table.inner.ids)):
        if table.inner.flags[at]:
            table.inner.ids[at] += table.many
        table.inner.flags[at] = not table.inner.flags[at]


@numba.njit
def _read(table, at):
    return table.inner.ids[at]


def test_loops_read_and_write_a_tables_own_arrays() -> None:
    table = _table()
    _double(Pointers(table))
    assert table.reals.tolist() == [1.0, 3.0]
    assert table.inner.ids.tolist() == [7, 1, 9]
    assert table.inner.flags.tolist() == [False, True, False]


@pytest.mark.parametrize("at", [-1, 3])
def test_with_checks_there_is_no_place_beyond_an_array(at: int) -> None:
    with pytest.raises(IndexError, match="a place beyond an array of int32"):
        _read(Pointers(_table()), at)
