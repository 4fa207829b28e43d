"""Writes that wait for room."""

import errno

import pytest

from railyard.cluster.files.resources import Exhausted
from railyard.nodemanager.patience import PAUSES_S, once_there_is_room


class Disk:
    """Full for so many writes."""

    def __init__(self, full_for, number=errno.ENOSPC):
        self._full_for = full_for
        self._number = number

    def write(self):
        self._full_for -= 1
        if self._full_for >= 0:
            raise OSError(self._number, "no")
        return "written"


@pytest.mark.parametrize("full_for", [0, 1, len(PAUSES_S)])
def test_room_is_waited_for_longer_and_longer(tmp_path, full_for):
    paused = []
    assert once_there_is_room(Disk(full_for).write, tmp_path, paused.append) == "written"
    assert paused == list(PAUSES_S[:full_for]) == sorted(paused)


def test_a_disk_that_stays_full_is_named(tmp_path):
    with pytest.raises(Exhausted, match=r"^no space left on /"):
        once_there_is_room(Disk(99).write, tmp_path, lambda _: None)


def test_what_does_not_pass_is_not_waited_for(tmp_path):
    with pytest.raises(OSError, match="no"):
        once_there_is_room(Disk(1, errno.EIO).write, tmp_path, pytest.fail)
