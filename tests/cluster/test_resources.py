"""Errors about exhausted resources name the resource."""

import errno
import os

import pytest
import zmq

from railyard.cluster.errors import UsageError
from railyard.cluster.files.resources import (
    Exhausted,
    cause_of,
    exhausted,
    free_bytes,
    is_full,
    unusable,
)


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
