"""A clock that stands still while its owner is held up, and what the kernel says of processes."""

import os
import signal
import subprocess

from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.processes.overload import AwakeClock, is_running


def test_time_beyond_two_periods_is_not_counted():
    clock = AwakeClock(100.0, period_s=0.5)
    assert [clock.at_s(now_s) for now_s in (100.5, 101.5, 106.5, 107.0)] == [
        100.5,
        101.5,
        102.5,
        103.0,
    ]
    assert clock.held_up_s == 4.0


@given(st.lists(st.floats(0, 10), min_size=1))
def test_it_never_goes_back_and_never_gains(gaps_s):
    clock, now_s, before_s = AwakeClock(0.0, period_s=1.0), 0.0, 0.0
    for gap_s in gaps_s:
        now_s += gap_s
        at_s = clock.at_s(now_s)
        assert before_s - 1e-9 <= at_s <= before_s + min(gap_s, 2.0) + 1e-9
        before_s = at_s


def test_a_process_that_is_stopped_or_gone_is_not_running():
    process = subprocess.Popen(["sleep", "60"])
    try:
        assert is_running(process.pid)
        os.kill(process.pid, signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        assert not is_running(process.pid)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # a zombie
        assert not is_running(process.pid)
    finally:
        process.kill()
        process.wait()
    assert not is_running(process.pid)
