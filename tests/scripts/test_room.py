"""Sizes are held against the disk before anything is generated."""

import pytest

from railyard.cluster.errors import UsageError
from railyard.cluster.topology import load_topology
from railyard.jobs.mixes.mixes import Defaults, read_mix
from railyard.scripts.running import room

TOPOLOGY = load_topology("hybrid-8x4")  # 3 copies, scale 1000


@pytest.fixture
def disk(monkeypatch, tmp_path):
    """A disk with 100 MB free."""
    monkeypatch.setenv("RAILYARD_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(room, "free_bytes", lambda path: 100 * 10**6)
    return tmp_path / "home"


def test_input_and_output_count_with_their_copies_and_the_shuffle_once():
    assert room.needed_bytes(TOPOLOGY, 10, 20) == 3 * 10 + 20 + 3 * 20 + 8 * 10**6
    single = load_topology("unlimited-2x2,racks.count=1,racks.nodes=1")
    assert room.needed_bytes(single, 10, 10) == 10 + 10 + 10 + 8 * 10**6


def test_what_fits_is_no_matter(disk):
    room.require_room(None, TOPOLOGY, "terasort", 13 * 10**6, 13 * 10**6)
    assert not disk.exists()


def test_what_does_not_fit_is_reported_with_what_there_is(disk):
    with pytest.raises(
        UsageError, match=r"^terasort: takes about 106 MB of real bytes \(input"
    ) as e:
        room.require_room(None, TOPOLOGY, "terasort", 14 * 10**6, 14 * 10**6)
    assert f"but {disk} has 100 MB free: need a smaller size, or" in str(e.value)


@pytest.mark.parametrize(
    ("words", "fits"),
    [
        ("terasort,size=4GB,times=5", True),
        ("terasort,size=4GB,times=5,inputs=own", False),
        ("terasort,size=4GB,times=7", False),
    ],
)
def test_inputs_that_are_equal_count_once(disk, words, fits):
    mix = read_mix([words], Defaults(size_bytes=1), 1)
    if fits:
        room.require_room_for_mix(None, mix, TOPOLOGY)
    else:
        with pytest.raises(UsageError, match="takes about"):
            room.require_room_for_mix(None, mix, TOPOLOGY)
