"""The virtual clock: whatever is planned is done by (time, rank, sequence)."""

from __future__ import annotations

import heapq
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.simulator.heap import EventHeap, Rank

#: When an action is, how it ranks, and by how much later ones that it plans itself are.
PLANS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.5, 1.0, 2.5]),
        st.sampled_from(list(Rank)),
        st.lists(st.tuples(st.sampled_from([0.0, 0.5]), st.sampled_from(list(Rank))), max_size=3),
    ),
    max_size=12,
)


class _Sorted:
    """The oracle: one heap of all that is planned, in its total order."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.planned: list[tuple[float, int, int, str]] = []
        self.sequence = 0

    def plan(self, time_s: float, rank: Rank, name: str) -> None:
        self.sequence += 1
        heapq.heappush(self.planned, (max(time_s, self.now_s), rank, self.sequence, name))


@given(PLANS)
def test_what_is_planned_is_done_in_one_total_order(plans):
    clock, oracle = EventHeap(), _Sorted()
    done, expected = [], []
    later = {str(number): plan[2] for number, plan in enumerate(plans)}

    def act(name: str) -> None:
        done.append((clock.now_s, name))
        for number, (seconds, rank) in enumerate(later.get(name, ())):
            child = f"{name}.{number}"
            if rank == Rank.FACT:
                clock.after(seconds, act, child)
            else:
                clock.at(clock.now_s + seconds, act, child, rank=rank)

    for number, (time_s, rank, _) in enumerate(plans):
        clock.at(time_s, act, str(number), rank=rank)
        oracle.plan(time_s, rank, str(number))
    while (due_s := clock.next_s()) < float("inf"):
        clock.now_s = due_s
        clock.run_due()
    while oracle.planned:
        oracle.now_s, _, _, name = heapq.heappop(oracle.planned)
        expected.append((oracle.now_s, name))
        for number, (seconds, rank) in enumerate(later.get(name, ())):
            oracle.plan(oracle.now_s + seconds, rank, f"{name}.{number}")
    assert done == expected


def test_a_fact_for_the_past_is_done_now_after_those_that_are_due_already():
    clock, done = EventHeap(), []
    clock.at(1.0, done.append, "planned first")
    clock.now_s = 1.0
    clock.at(0.5, done.append, "for the past")
    clock.after(0.0, done.append, "at once")
    clock.run_due()
    assert done == ["planned first", "for the past", "at once"]
    assert clock.next_s() == float("inf")


@pytest.mark.parametrize("rank", [Rank.FACT, Rank.TIMER])
@pytest.mark.parametrize("time_s", [math.nan, math.inf])
def test_a_time_that_never_comes_is_refused(time_s, rank):
    heap = EventHeap()
    with pytest.raises(ValueError, match="need a time that comes"):
        heap.at(time_s, lambda: None, rank=rank)
    assert heap.next_s() == math.inf
