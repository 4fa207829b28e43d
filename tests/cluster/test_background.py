from __future__ import annotations

import threading

import pytest

from railyard.cluster.background import Background
from railyard.cluster.messaging.reactor import Reactor


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
