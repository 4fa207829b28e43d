"""The alarm's descriptor becomes readable in time; the reactor's tests cover waiting for it."""

import math
import select
import time

from railyard.cluster.messaging.alarm import Alarm


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
