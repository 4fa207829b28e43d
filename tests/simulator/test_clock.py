"""The event heap: actions run by (time, priority, sequence)."""

from __future__ import annotations

import heapq
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.simulator.clock import EventHeap, EventPriority

#: Each action's time and priority, and the (delay, priority) of the actions that it plans itself.
PLANS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.5, 1.0, 2.5]),
        st.sampled_from(list(EventPriority)),
        st.lists(
            st.tuples(st.sampled_from([0.0, 0.5]), st.sampled_from(list(EventPriority))), max_size=3
        ),
    ),
    max_size=12,
)


class _Sorted:
    """The oracle: one heap of all planned actions in their total order."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.planned: list[tuple[float, int, int, str]] = []
        self.sequence = 0

    def plan(self, time_s: float, priority: EventPriority, name: str) -> None:
        self.sequence += 1
        heapq.heappush(self.planned, (max(time_s, self.now_s), priority, self.sequence, name))


class _Acting:
    """Plans actions in a heap, each of which notes its name and plans its own."""

    def __init__(self, plans) -> None:
        self.clock = EventHeap()
        self.done: list[tuple[float, str]] = []
        self._later = {str(number): plan[2] for number, plan in enumerate(plans)}
        for number, (time_s, priority, _) in enumerate(plans):
            self.clock.at(time_s, self.act, str(number), priority=priority)

    def act(self, name: str) -> None:
        self.done.append((self.clock.now_s, name))
        for number, (seconds, priority) in enumerate(self._later.get(name, ())):
            child = f"{name}.{number}"
            if priority != EventPriority.NODE_EVENT:
                self.clock.at(self.clock.now_s + seconds, self.act, child, priority=priority)
            elif number % 2:
                self.clock.after(seconds, self.act, child)
            else:
                self.clock.poll_after(seconds, self.act_all, [child])

    def act_all(self, names: list[str]) -> None:
        for name in names:
            self.act(name)


@given(PLANS)
def test_actions_run_in_one_total_order(plans):
    acting, oracle = _Acting(plans), _Sorted()
    clock, expected = acting.clock, []
    later = {str(number): plan[2] for number, plan in enumerate(plans)}
    for number, (time_s, priority, _) in enumerate(plans):
        oracle.plan(time_s, priority, str(number))
    while (due_s := clock.next_s()) < float("inf"):
        clock.now_s = due_s
        clock.run_due()
    while oracle.planned:
        oracle.now_s, _, _, name = heapq.heappop(oracle.planned)
        expected.append((oracle.now_s, name))
        for number, (seconds, priority) in enumerate(later.get(name, ())):
            oracle.plan(oracle.now_s + seconds, priority, f"{name}.{number}")
    assert acting.done == expected


def test_an_event_for_the_past_runs_now_after_those_that_are_due_already():
    clock, done = EventHeap(), []
    clock.at(1.0, done.append, "planned first")
    clock.now_s = 1.0
    clock.at(0.5, done.append, "for the past")
    clock.after(0.0, done.append, "at once")
    clock.run_due()
    assert done == ["planned first", "for the past", "at once"]
    assert clock.next_s() == float("inf")


@pytest.mark.parametrize("priority", [EventPriority.NODE_EVENT, EventPriority.TIMER])
@pytest.mark.parametrize("time_s", [math.nan, math.inf])
def test_an_infinite_time_is_refused(time_s, priority):
    heap = EventHeap()
    with pytest.raises(ValueError, match="need a finite time"):
        heap.at(time_s, lambda: None, priority=priority)
    assert heap.next_s() == math.inf
