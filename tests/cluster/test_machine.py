"""Errors about exhausted resources name the resource."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys

import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st

from railyard.benchmarks.fidelity.networks import priority, priority_of
from railyard.cluster.errors import UsageError
from railyard.cluster.machine import (
    CARRIER,
    CLOCK,
    DECIDER,
    AwakeClock,
    Exhausted,
    cause_of,
    exhausted,
    fall_back,
    free_bytes,
    go_ahead,
    is_full,
    is_running,
    take_priority,
    unusable,
)
from railyard.cluster.processes import fork


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "no space left on "),
        (errno.EDQUOT, "the quota is used up on "),
        (errno.EFBIG, r"a file would be larger than the limit \(ulimit -f\) on "),
    ],
)
def test_a_full_disk_is_named_by_where_it_is_mounted(tmp_path, number, words):
    error = OSError(number, os.strerror(number))
    assert is_full(error)
    path = tmp_path / "not" / "there"
    mount = tmp_path
    while not mount.is_mount():
        mount = mount.parent
    with pytest.raises(Exhausted, match=rf"it: {words}{mount} \(where {path} is\)$"):
        raise unusable("it", error, path)


def test_what_is_wrong_with_a_place_is_no_lack_of_room():
    error = PermissionError(errno.EACCES, "Permission denied")
    assert not is_full(error)
    assert cause_of(error, "/x") == "Permission denied"
    assert isinstance(unusable("/x", error, "/x"), UsageError)


@pytest.mark.parametrize(
    "error", [OSError(errno.EMFILE, "x"), zmq.ZMQError(errno.EMFILE, "x")], ids=["os", "zmq"]
)
def test_descriptors_that_have_run_out_are_told_with_their_limit(error):
    assert "too many open files: the limit is" in str(exhausted(error))


def test_other_errors_are_none_of_that():
    assert exhausted(OSError(errno.ENOENT, "x")) is None
    assert exhausted(ValueError("x")) is None


def test_free_room_is_known_before_a_folder_is_there(tmp_path):
    assert free_bytes(tmp_path / "a" / "b") > 0


# A clock that stands still while its owner is held up, and what the kernel says of processes.


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


# Scheduling priorities of processes.


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


# Collections in processes that a large parent has forked.


#: A parent with many objects freezes them; then there is garbage that two collections have not
#: found, as of what was in use meanwhile.  Says how many full collections there were since.
_GARBAGE = """
import gc
{freeze}

class Ring:
    def __init__(self):
        self.me = self

many = [[] for _ in range(200_000)]
freeze()
before = gc.get_stats()[2]["collections"]
in_use = []
for _ in range(400_000):
    in_use.append(Ring())
    if len(in_use) > 300:
        del in_use[0]
print(gc.get_stats()[2]["collections"] - before)
"""
_OURS = "from railyard.cluster.machine import freeze_objects as freeze"
_WITHOUT = """
def freeze():
    gc.collect()
    gc.freeze()
"""


def _full_collections(freeze):
    script = _GARBAGE.format(freeze=freeze)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="3.14 collects in increments")
def test_a_child_of_few_objects_collects_its_garbage_although_its_parent_has_many():
    assert _full_collections(_OURS) >= 2
    assert _full_collections(_WITHOUT) == 0, "or there is nothing to be done about it any more"
