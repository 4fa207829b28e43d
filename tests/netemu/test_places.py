"""Places of flows in the order of priorities, as numbers."""

from __future__ import annotations

import random

import numpy as np

from railyard.netemu.schedulers.fast.afap.places import Places


def test_numbers_are_in_the_order_of_keys_whenever_they_come() -> None:
    rng, places, numbers = random.Random(3), Places(), np.zeros(2000)
    keys = rng.sample(range(10**6), 2000)
    first = 0
    while first < len(keys):
        rows = range(first, min(first + rng.randint(1, 60), len(keys)))
        places.add(sorted((keys[row], row) for row in rows), numbers)
        first = rows.stop
        assert np.array_equal(np.argsort(keys[:first]), np.argsort(numbers[:first]))


def test_where_no_number_is_left_between_two_all_are_numbered_anew() -> None:
    places, numbers = Places(), np.zeros(200)
    places.add([(0.0, 0), (1.0, 1)], numbers)
    for row in range(2, 200):
        places.add([(0.5**row, row)], numbers)  # each between the first and the one before
    assert numbers[0] == numbers.min()
    assert (np.diff(numbers[1:]) < 0).all()


def test_a_row_may_come_in_place_of_one_of_its_priority() -> None:
    places, numbers = Places(), np.zeros(5)
    places.add([(1.0, 0), (2.0, 1)], numbers)
    places.add([(0.5, 2), (1.0, 3), (2.0, 4)], numbers)
    assert np.argsort(numbers).tolist() in ([2, 3, 0, 4, 1], [2, 0, 3, 1, 4])
