"""Places of flows in the order of priorities, as numbers."""

from __future__ import annotations

import random

import numpy as np

from railyard.netemu.fabric.places import Key, Places


def key(priority: float, name: int) -> Key:
    return (priority,), f"f{name:06d}"


def test_numbers_are_in_the_order_of_keys_whenever_they_come() -> None:
    rng, places, numbers = random.Random(3), Places(lambda *_: True), np.zeros(2000)
    keys = rng.sample(range(10**6), 2000)
    first = 0
    while first < len(keys):
        flows = range(first, min(first + rng.randint(1, 60), len(keys)))
        places.add([(key(1.0, keys[flow]), flow) for flow in flows], numbers, flows.stop)
        first = flows.stop
        assert np.array_equal(np.argsort(keys[:first]), np.argsort(numbers[:first]))


def test_where_no_number_is_left_between_two_all_are_numbered_anew() -> None:
    places, numbers = Places(lambda *_: True), np.zeros(100)
    first = [(key(-1.0, 0), 0), (key(0.0, 1), 1), (key(1.0, 2), 2)]
    assert not places.add(first, numbers, 3)
    said = [places.add([(key(0.5**flow, flow), flow)], numbers, 100) for flow in range(3, 100)]
    assert any(said), "each is between the second and the one before"
    assert numbers[0] < numbers[1] == numbers[1:].min()
    assert (np.diff(numbers[2:]) < 0).all()


def test_numbers_of_flows_that_ended_are_not_given_to_those_that_took_theirs() -> None:
    open_flows: dict[int, Key] = {}
    places = Places(lambda known, flow: open_flows.get(flow) == known)
    rng, numbers = random.Random(5), np.zeros(20)
    for name in range(3000):
        flow = rng.randrange(20)  # the flow that had this number has ended
        open_flows[flow] = key(rng.choice([1.0, 2.0, 0.5**name]), name)
        places.add([(open_flows[flow], flow)], numbers, len(open_flows))
        inside = sorted(open_flows, key=lambda flow: open_flows[flow])
        assert (np.diff(numbers[inside]) > 0).all()
