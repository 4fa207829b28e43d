"""The matrices of what coflows' pairs have left to send: whatever comes and goes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.netemu.circuits.policies.fast import matrices as of
from railyard.netemu.circuits.policies.fast.ports import IN, NONE, OUT

#: The first test has the loops compiled if nobody has used them on this machine.
pytestmark = pytest.mark.timeout(400)

RACKS, COFLOWS = 5, 3

a_rack, a_coflow = st.integers(0, RACKS - 1), st.integers(0, COFLOWS)
some_pairs = st.lists(st.tuples(a_coflow, a_rack, a_rack), min_size=1, max_size=8)
some_steps = st.lists(st.one_of(some_pairs, a_coflow), max_size=12)


@given(some_steps)
@settings(max_examples=200, deadline=None)
def test_each_pair_keeps_its_bytes_and_its_row_until_its_coflow_is_forgotten(steps):
    matrices = of.with_coflows(of.new_matrices(RACKS, COFLOWS), 1)
    noted, last = {}, 0
    for step in steps:
        if isinstance(step, int):
            of.forget(step, matrices)
            noted = {pair: what for pair, what in noted.items() if pair[0] != step}
        else:
            matrices = of.reserve(np.array(step, dtype=float), matrices)
            for pair in step:
                last += 1
                noted[pair] = last
                of.put_left(*pair, float(last), matrices)
                matrices.rows[of.cell(pair[0], OUT, *pair[1:], matrices)] = last
        for index in range(COFLOWS + 1):
            for src in range(RACKS):
                for dst in range(RACKS):
                    found = of.find(index, src, dst, matrices)
                    assert found == noted.get((index, src, dst), NONE)
        for (index, src, dst), left in noted.items():
            for side in (OUT, IN):
                place = of.cell(index, side, src, dst, matrices)
                assert matrices.left_bytes[side, place] == left


def test_a_ports_pairs_are_beside_each_other():
    pairs = np.array([[0, src, dst] for src in range(2) for dst in range(3)], dtype=float)
    matrices = of.reserve(pairs, of.new_matrices(RACKS, 1))
    assert [of.cell(0, OUT, 1, dst, matrices) for dst in range(3)] == [3, 4, 5]
    assert [of.cell(0, IN, src, 2, matrices) for src in range(2)] == [4, 5]
