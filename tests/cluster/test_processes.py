"""Forked children: their exit, and that they never return to their parent's code."""

import os
import resource
import sys

import pytest

from railyard.cluster.processes.family import allow_many_descriptors, fork, how_it_ended


def ending(main):
    """The end of a child that runs ``main``, in words."""
    test = os.getpid()
    try:
        pid = fork(main)
    finally:
        if os.getpid() != test:  # it must not go on with what its parent was doing
            os._exit(99)
    return how_it_ended(os.waitpid(pid, 0)[1])


def fill_stdout():
    """Leave words in the buffer of a stdout that has no room for them."""
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, 1)
    sys.stdout = os.fdopen(1, "w", buffering=2**16)
    print("words")


def fill_stderr():
    """Fail, with no room for the traceback."""
    os.dup2(os.open("/dev/full", os.O_WRONLY), 2)
    sys.stderr = os.fdopen(2, "w", buffering=1)
    raise ValueError("unheard of")


@pytest.mark.parametrize(
    ("main", "how"),
    [
        pytest.param(lambda: None, "exit 0", id="nothing returned"),
        pytest.param(lambda: 7, "exit 7", id="a status returned"),
        pytest.param(lambda: sys.exit(0), "exit 1", id="sys.exit"),
        pytest.param(lambda: os.kill(os.getpid(), 9), "signal 9 (SIGKILL)", id="a signal"),
        pytest.param(fill_stdout, "exit 1", id="no room for its last words"),
        pytest.param(fill_stderr, "exit 1", id="no room for its traceback"),
    ],
)
def test_a_forked_child_ends_and_nothing_else(main, how):
    assert ending(main) == how


def test_a_forked_child_tells_what_it_died_of(capfd):
    assert ending(lambda: 1 // 0) == "exit 1"
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_a_soft_limit_on_descriptors_is_raised():
    def few_then_many():
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
        allow_many_descriptors()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (min(hard, 2**16), hard)

    assert ending(few_then_many) == "exit 0"
