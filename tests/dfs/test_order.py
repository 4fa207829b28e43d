from __future__ import annotations

import random
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.dfs import order as module
from railyard.dfs.order import Order

SPANS = [(0, 3), (3, 4), (4, 8)]
PLACES = range(8)
NAMES = [f"n{place}" for place in PLACES]
numbers = st.none() | st.integers(0, 3) | st.sampled_from([2**40, 2**70])
puts = st.dictionaries(st.sampled_from(NAMES), numbers, max_size=5)
takes = st.tuples(
    st.sampled_from(["take", "take_elsewhere", "take_beside"]), st.sampled_from(PLACES)
)


@pytest.mark.parametrize("few", [2, 50])  # names up to which each is put in by itself
@given(st.lists(numbers, min_size=8, max_size=8), st.lists(puts | takes, max_size=30))
def test_what_is_taken_is_what_a_look_at_all_finds_and_by_the_same_chance(few, values, steps):
    span_of = [span for span in SPANS for _ in range(*span)]
    taken: dict[str, int] = {}
    order = Order(NAMES, values, span_of, taken)
    dice, plain_dice = random.Random(1), random.Random(1)
    plain = list(values)
    for step in steps:
        if isinstance(step, dict):
            with patch.object(module, "_FEW", few):
                order.put(list(step), {name: place for place, name in enumerate(NAMES)}, step)
            for name, value in step.items():
                plain[NAMES.index(name)] = value
            continue
        kind, near = step
        there = {
            place: value
            for place, value in enumerate(plain)
            if value is not None
            and (kind == "take" or (span_of[place] == span_of[near]) == (kind == "take_beside"))
        }
        least = [place for place in there if there[place] == min(there.values())]
        arguments = () if kind == "take" else (near,)
        expected = plain_dice.choice(least) if least else None
        assert getattr(order, kind)(*arguments, dice.getrandbits) == expected
        if expected is not None:
            plain[expected] = None
            assert NAMES[expected] in taken
    assert order.is_empty == (plain == [None] * len(plain))
    free = [value for place, value in enumerate(plain) if value is not None and place not in (3, 5)]
    least = [NAMES[p] for p in PLACES if p not in (3, 5) and free and plain[p] == min(free)]
    assert list(order.smallest([SPANS[1]], [5])) == least
    assert dice.getstate() == plain_dice.getstate()
