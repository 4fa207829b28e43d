"""What is found on the disks of a NodeManager that died."""

import os

import pytest

from railyard.cluster.files.runfolder import RunFolder
from railyard.nodemanager.attempt.localizing import localized_folder
from railyard.nodemanager.leftovers import find_leftovers
from railyard.nodemanager.mapoutput import output_path, write_output

NODES = ("r0n0", "r0n1")


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path)


def write(folder, attempt, node="r0n0", size=1000):
    path = output_path(folder, node, attempt)
    write_output(path, [[b"a" * size], [b"b" * size]])
    return path


def test_nothing_is_found_on_new_disks(folder):
    found = find_leftovers(folder, NODES)
    assert (found.outputs, found.jobs) == ({"r0n0": (), "r0n1": ()}, ())


def test_whole_output_is_found_and_what_was_being_written_is_removed(folder):
    for attempt, node in (("j1.m0.0", "r0n0"), ("j1.m3.1", "r0n1"), ("j2.m0.0", "r0n0")):
        write(folder, attempt, node)
    half = output_path(folder, "r0n0", "j1.m4.0").with_name("j1.m4.0.new")
    half.write_bytes(b"half of it")
    strange = output_path(folder, "r0n0", "j7.m0.0")
    (strange.parent / "folder").mkdir(parents=True)
    localized_folder(folder, "r0n1", "j5").mkdir(parents=True)
    found = find_leftovers(folder, NODES)
    assert found.outputs == {"r0n0": ("j1.m0.0", "j2.m0.0"), "r0n1": ("j1.m3.1",)}
    assert sorted(found.jobs) == ["j1", "j2", "j5", "j7"]
    assert not half.exists()
    assert list(strange.parent.iterdir()) == []


def damage(path, at):
    with open(path, "r+b") as file:
        file.seek(at, os.SEEK_SET if at >= 0 else os.SEEK_END)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))


@pytest.mark.parametrize("at", [5, 1500, -30, -12, -1])
def test_damaged_output_counts_as_lost(folder, at):
    write(folder, "j1.m0.0")
    damage(write(folder, "j1.m1.0"), at)
    assert find_leftovers(folder, NODES).outputs["r0n0"] == ("j1.m0.0",)


@pytest.mark.parametrize("length", [0, 10, 2000, 2050])
def test_output_that_was_cut_short_counts_as_lost(folder, length):
    os.truncate(write(folder, "j1.m0.0"), length)
    assert find_leftovers(folder, NODES).outputs["r0n0"] == ()


def test_so_much_is_checked_and_the_rest_when_it_is_read(folder):
    for number in range(4):
        damage(write(folder, f"j1.m{number}.0"), at=5)
    found = find_leftovers(folder, NODES, checked_bytes=4500).outputs["r0n0"]
    assert found == ("j1.m2.0", "j1.m3.0")


def test_output_of_another_attempt_under_its_name_counts_as_lost(folder):
    path = write(folder, "j1.m0.0")
    path.rename(path.with_name("j1.m1.0"))
    assert find_leftovers(folder, NODES).outputs["r0n0"] == ()
