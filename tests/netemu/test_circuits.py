"""Sunflow's choice of circuits, in exact time: the published example, and its bounds."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netemu.circuits import Ports, match


def coflow(maps, reduces):
    """Units from rack to rack: each map sends one to each reduce."""
    return {
        (src, dst): Fraction(m * r)
        for src, m in enumerate(maps)
        for dst, r in enumerate(reduces)
        if src != dst and m * r
    }


def lower_bound(flows, delta):
    """T(C), port by port."""
    load = {}
    for (src, dst), units in flows.items():
        for port in (("out", src), ("into", dst)):
            load[port] = load.get(port, 0) + units + delta
    return max(load.values())


def matrix(flows, racks):
    demand = np.zeros((racks, racks))
    for pair, units in flows.items():
        demand[pair] = float(units)
    return demand


def shares_a_port(pair, others):
    return any(pair[0] == other[0] or pair[1] == other[1] for other in others)


def send(left, ready, pairs, now, after):
    """Let time pass for one coflow; pairs that are done are dropped."""
    for p in pairs:
        left[p] -= max(Fraction(0), after - max(ready[p], now))
        if left[p] == 0:
            del left[p], ready[p]


def sunflow(coflows, racks, delta):
    """The ends of coflows that start at 0, by ascending T(C), at a unit a second, exactly."""
    order = sorted(range(len(coflows)), key=lambda k: (lower_bound(coflows[k], delta), k))
    left = [dict(coflows[k]) for k in order]
    ready = [{} for _ in order]  # {pair: when its circuit carries}
    up, ends, now = {}, {}, Fraction(0)
    ports = Ports([1] * racks, [1] * racks)
    while any(left):
        demands = [matrix(flows, racks) for flows in left]
        chosen = match(demands, [dict.fromkeys(pairs) for pairs in ready], up, ports)
        for k, pairs in enumerate(chosen):
            ready[k] = {p: ready[k].get(p, now if p in up else now + delta) for p in pairs}
        using = [pair for pairs in chosen for pair in pairs]
        for side in (0, 1):  # no port with two circuits
            assert len({pair[side] for pair in using}) == len(using)
        # a circuit stays up until one of its ports is wanted for another
        up = {p: None for p in up if p in using or not shares_a_port(p, using)}
        dues = [max(ready[k][p], now) + left[k][p] for k, pairs in enumerate(chosen) for p in pairs]
        dues += [at for pairs in ready for at in pairs.values() if at > now]
        after = min(dues)
        up |= {p: None for pairs in ready for p, at in pairs.items() if at <= after}
        for k, pairs in enumerate(chosen):
            send(left[k], ready[k], pairs, now, after)
            if not left[k]:
                ends.setdefault(order[k], after)
        now = after
    return [ends[k] for k in range(len(coflows))]


DELTAS = [Fraction(0), Fraction(1, 100), Fraction(1, 10), Fraction(1, 2)]


@pytest.mark.parametrize("delta", DELTAS, ids=str)
def test_co_scheduler_fig_2_case_1(delta):
    jobs = [coflow((3, 3, 3), (0, 2, 1)), coflow((5, 5, 5), (2, 0, 1))]
    assert [lower_bound(job, delta) for job in jobs] == [12 + 2 * delta, 20 + 2 * delta]
    assert sunflow(jobs, 3, delta) == [12 + 2 * delta, 20 + 3 * delta]


@pytest.mark.parametrize("delta", DELTAS, ids=str)
def test_co_scheduler_fig_2_case_2(delta):
    jobs = [coflow((3, 3, 3), (1, 1, 1)), coflow((5, 5, 5), (1, 1, 1))]
    assert [lower_bound(job, delta) for job in jobs] == [6 + 2 * delta, 10 + 2 * delta]
    assert sunflow(jobs, 3, delta) == [6 + 2 * delta, 16 + 3 * delta]


@given(
    units=st.lists(st.integers(0, 9), min_size=16, max_size=16).filter(any),
    delta=st.sampled_from(DELTAS),
)
def test_a_coflow_alone_ends_between_its_bound_and_twice_that(units, delta):
    flows = {(n // 4, n % 4): Fraction(size) for n, size in enumerate(units) if size}
    least = lower_bound(flows, delta)
    assert least <= sunflow([flows], 4, delta)[0] <= 2 * least


def test_each_port_carries_as_many_circuits_as_it_has_wavelengths():
    demand = matrix({(0, 1): 3, (0, 2): 2, (3, 1): 1}, 4)
    assert list(match([demand], [{}], {}, Ports([1] * 4, [1] * 4))[0]) == [(0, 1)]
    two = match([demand], [{}], {}, Ports([2] * 4, [2] * 4))[0]
    assert list(two) == [(0, 1), (0, 2), (3, 1)]


def test_a_port_that_failed_carries_none():
    demand = matrix({(0, 1): 3, (0, 2): 2}, 3)
    holds = {(0, 1): None}
    assert list(match([demand], [holds], holds, Ports([1, 1, 1], [1, 0, 1]))[0]) == [(0, 2)]


def test_the_first_coflow_takes_a_port_from_the_second():
    first, second = matrix({(0, 1): 1}, 3), matrix({(0, 2): 9, (2, 1): 4, (2, 0): 1}, 3)
    held = [{}, {(0, 2): None, (2, 1): None}]
    chosen = match([first, second], held, held[1], Ports([1] * 3, [1] * 3))
    assert [list(pairs) for pairs in chosen] == [[(0, 1)], [(2, 0)]]
