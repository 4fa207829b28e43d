"""Scheduling priorities of processes."""

import os

import pytest

from railyard.cluster.processes.family import fork
from railyard.cluster.processes.priority import (
    CARRIER,
    CLOCK,
    DECIDER,
    fall_back,
    go_ahead,
    priority,
    priority_of,
    take_priority,
)


def in_a_child(check):
    pid = fork(check)
    assert os.waitpid(pid, 0)[1] == 0


def test_priority_is_for_a_while_and_is_inherited_meanwhile():
    def child():
        before = priority_of(0)
        with priority(CARRIER) as taken:
            said = priority_of(0)
            assert said != "no priority" or not taken
            in_a_child(lambda: int(priority_of(0) != said))
        assert priority_of(0) == before

    in_a_child(child)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_the_clock_comes_before_those_who_carry():
    def rank_of(rank):
        assert take_priority(rank)
        assert priority_of(os.getpid()) == "real time"
        return os.sched_getparam(0).sched_priority

    def child():
        assert rank_of(CARRIER) < rank_of(DECIDER) < rank_of(CLOCK)

    in_a_child(child)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give it up")
def test_without_permission_there_is_none_and_nothing_breaks():
    def child():
        os.setuid(65534)
        assert not take_priority(CLOCK)
        with priority(CARRIER) as taken:
            assert not taken
        assert priority_of(0) == "no priority"

    in_a_child(child)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("niceness", [0, 15])
def test_whoever_went_ahead_falls_back_to_where_it_was(niceness):
    """A forked child falls back by itself, as often as it likes; its parent stays ahead."""

    def grandchild():
        for _ in range(2):
            fall_back()
            assert os.nice(0) == niceness

    def child():
        os.setpriority(os.PRIO_PROCESS, 0, niceness)
        fall_back()
        assert os.nice(0) == niceness
        go_ahead()
        assert os.nice(0) < niceness
        in_a_child(grandchild)
        assert os.nice(0) < niceness
        grandchild()

    in_a_child(child)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give it up")
def test_without_permission_nobody_goes_ahead_and_nobody_falls_back():
    def child():
        os.setpriority(os.PRIO_PROCESS, 0, 5)
        os.setuid(65534)
        go_ahead()
        assert os.nice(0) == 5
        fall_back()
        assert os.nice(0) == 5

    in_a_child(child)
