"""Rows that come and go."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from railyard.netemu.model.links import pack
from railyard.netemu.model.rows import RowTable

FILLER = 9


def test_short_paths_are_filled_up_and_longer_ones_make_room():
    table = RowTable(1, FILLER)
    table.append([pack([1, 2]), pack([3])])
    assert table.paths.T.tolist() == [[1, 2], [3, FILLER]]
    table.append([pack([4, 5, 6])])
    assert table.paths.T.tolist() == [[1, 2, FILLER], [3, FILLER, FILLER], [4, 5, 6]]
    table.set_paths(0, [pack([7]), pack([8])])
    assert table.paths.T.tolist() == [[7, FILLER, FILLER], [8, FILLER, FILLER], [4, 5, 6]]


@given(
    steps=st.lists(
        st.one_of(st.integers(1, 9), st.sets(st.integers(0, 30), min_size=1)), max_size=12
    )
)
def test_a_row_keeps_what_it_has(steps):
    """A number adds so many rows, a set drops those; what each has is checked against a list."""
    table, rows, named = RowTable(2, FILLER), [], 0
    for step in steps:
        if isinstance(step, int):
            table.append([pack([name % FILLER]) for name in range(named, named + step)])
            assert not table.column(1)[len(rows) :].any()
            table.column(0)[len(rows) :] = range(named, named + step)
            rows += range(named, named + step)
            named += step
        elif dropped := sorted(row for row in step if row < len(rows)):
            moved, places = table.drop(np.array(dropped))
            for row, place in zip(moved, places, strict=True):
                rows[place] = rows[row]
            del rows[table.count :]
        assert table.column(0).tolist() == rows
        assert table.paths[0].tolist() == [name % FILLER for name in rows]
