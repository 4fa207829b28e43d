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


def sunflow(coflows, racks, delta, circuits=1):
    """The ends of coflows that start at 0, by ascending T(C), at a unit a second, exactly."""
    order = sorted(range(len(coflows)), key=lambda k: (lower_bound(coflows[k], delta), k))
    left = [dict(coflows[k]) for k in order]
    ready = [{} for _ in order]  # {pair: when its circuit carries}
    up, ends, now = {}, {}, Fraction(0)
    ports = Ports([circuits] * racks, [circuits] * racks)
    while any(left):
        demands = []
        for flows in left:
            demand = np.zeros((racks, racks))
            for pair, units in flows.items():
                demand[pair] = float(units)
            demands.append(demand)
        chosen = match(demands, [dict.fromkeys(pairs) for pairs in ready], up, ports)
        for k, pairs in enumerate(chosen):
            ready[k] = {p: ready[k].get(p, now if p in up else now + delta) for p in pairs}
        using = [pair for pairs in chosen for pair in pairs]
        for side in (0, 1):
            ends_used = [pair[side] for pair in using]
            assert all(ends_used.count(port) <= circuits for port in ends_used)
        # a circuit stays up until one of its ports is wanted for another
        up = {
            p: None
            for p in up
            if p in using or (circuits == 1 and all(p[0] != q[0] and p[1] != q[1] for q in using))
        }
        dues = [ready[k][p] + left[k][p] if ready[k][p] > now else now + left[k][p]
                for k, pairs in enumerate(chosen) for p in pairs]  # fmt: skip
        dues += [at for pairs in ready for at in pairs.values() if at > now]
        after = min(dues)
        for k, pairs in enumerate(chosen):
            for p in pairs:
                sent = max(Fraction(0), after - max(ready[k][p], now))
                left[k][p] -= sent
                if ready[k][p] <= after:
                    up[p] = None
                if left[k][p] == 0:
                    del left[k][p], ready[k][p]
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
