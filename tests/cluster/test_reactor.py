"""tests.cluster.test_reactor."""

from __future__ import annotations

import math
import os
import select
import threading
import time

import pytest

from railyard.cluster.messaging.reactor import Alarm, Background, Reactor, now_s


def test_timers_fire_in_order_and_cancelled_ones_do_not():
    reactor, fired = Reactor(), []
    start_s = now_s()
    reactor.call_at(start_s + 0.02, lambda: fired.append("late"))
    reactor.call_at(start_s + 0.01, lambda: fired.append("early"))
    reactor.call_at(start_s + 0.015, lambda: fired.append("never")).cancel()
    assert reactor.run_until(lambda: len(fired) == 2, timeout_s=5)
    assert fired == ["early", "late"]
    assert now_s() >= start_s + 0.02


def test_no_timer_fires_before_its_time():
    reactor, late_s = Reactor(), []
    for delay_s in (0.0, 0.0003, 0.0012, 0.003, 0.011):
        due_s = now_s() + delay_s
        reactor.call_at(due_s, lambda due_s=due_s: late_s.append(now_s() - due_s))
    assert reactor.run_until(lambda: len(late_s) == 5, timeout_s=5)
    assert min(late_s) >= 0


def test_a_timer_set_by_a_timer_fires_too():
    reactor, fired = Reactor(), []
    reactor.call_later(0, lambda: reactor.call_later(0, lambda: fired.append(1)))
    assert reactor.run_until(lambda: bool(fired), timeout_s=5)


def test_repeated_calls_go_on_until_the_end():
    reactor, calls = Reactor(), []
    reactor.call_every(0.001, lambda: calls.append(1))
    assert reactor.run_until(lambda: len(calls) >= 5, timeout_s=5)


def test_run_until_gives_up_at_its_timeout():
    reactor = Reactor()
    start_s = now_s()
    assert not reactor.run_until(lambda: False, timeout_s=0.02)
    assert now_s() - start_s >= 0.02


def test_a_handler_is_called_while_there_is_something_to_read():
    reactor, got = Reactor(), []
    readable, writable = os.pipe()

    def read():
        got.append(os.read(readable, 1))
        if got[-1] == b"c":
            reactor.remove(readable)
            reactor.stop()

    reactor.add(readable, read)
    os.write(writable, b"abcd")
    reactor.run()
    assert got == [b"a", b"b", b"c"]
    os.close(readable)
    os.close(writable)


def test_run_until_gives_up_when_it_is_told_to_stop():
    reactor = Reactor()
    reactor.call_later(0.001, reactor.stop)
    assert not reactor.run_until(lambda: False, timeout_s=5)
    assert reactor.run_until(lambda: True)


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -math.inf, 1e308])
def test_a_time_that_no_clock_reaches_is_refused(seconds):
    reactor = Reactor()
    for plan in (reactor.call_at, reactor.call_later, reactor.call_every):
        with pytest.raises(ValueError, match=r"_s = .*need seconds"):
            plan(seconds, lambda: None)
    assert not reactor.run_until(lambda: False, timeout_s=0.01)  # none was kept


@pytest.mark.parametrize("period_s", [0, -1.0])
def test_what_repeats_needs_a_period(period_s):
    with pytest.raises(ValueError, match=r"period_s = .*need seconds > 0"):
        Reactor().call_every(period_s, lambda: None)


# The alarm's descriptor becomes readable in time; the reactor's tests cover waiting for it.


def rings(alarm, timeout_ms=0):
    poll = select.poll()
    poll.register(alarm.file, select.POLLIN)
    return bool(poll.poll(timeout_ms))


def test_it_can_be_read_from_its_time_on():
    alarm, when_s = Alarm(), time.monotonic() + 0.01
    assert not rings(alarm)
    alarm.set(when_s)
    assert rings(alarm, timeout_ms=5000)
    assert time.monotonic() >= when_s
    assert rings(alarm)


def test_another_time_counts_instead():
    alarm = Alarm()
    alarm.set(1.0)
    assert rings(alarm)
    alarm.set(time.monotonic() + 1000)
    assert not rings(alarm)
    alarm.set(-1.0)  # long past, but not never
    assert rings(alarm)
    alarm.set(math.inf)
    assert not rings(alarm)


@pytest.fixture
def loop():
    reactor = Reactor()
    background = Background(reactor, threads=2)
    yield reactor, background
    background.close()


def test_work_is_done_elsewhere_and_its_end_is_told_in_the_loop(loop):
    reactor, background = loop
    worked, ended = [], []
    for number in range(500):
        background.do(
            lambda number=number: worked.append((number, threading.get_ident())),
            lambda error, number=number: ended.append((number, threading.get_ident(), error)),
        )
    assert reactor.run_until(lambda: len(ended) == 500, timeout_s=20)
    assert sorted(number for number, _ in worked) == list(range(500))
    assert sorted(number for number, _, _ in ended) == list(range(500))
    assert {thread for _, thread, _ in ended} == {threading.get_ident()}
    assert threading.get_ident() not in {thread for _, thread in worked}
    assert {error for _, _, error in ended} == {None}


def test_the_loop_goes_on_meanwhile(loop):
    reactor, background = loop
    may_end, ended = threading.Event(), []
    background.do(may_end.wait, ended.append)
    reactor.call_later(0, may_end.set)  # would never come if the loop waited
    assert reactor.run_until(lambda: ended == [None], timeout_s=20)


def test_errors_of_the_system_are_told_and_others_are_raised(loop):
    reactor, background = loop
    ended = []

    def full():
        raise OSError(28, "No space left on device")

    def wrong():
        raise KeyError("a bug")

    background.do(full, ended.append)
    assert reactor.run_until(lambda: bool(ended), timeout_s=20)
    assert ended[0].errno == 28
    background.do(wrong, ended.append)
    with pytest.raises(KeyError, match="a bug"):
        reactor.run_until(lambda: False, timeout_s=20)


def test_nobody_is_told_after_the_end():
    reactor, ended = Reactor(), []
    background = Background(reactor, threads=1)
    background.do(lambda: None, ended.append)
    background.close()
    reactor.run_until(lambda: False, timeout_s=0.01)
    assert ended == []
