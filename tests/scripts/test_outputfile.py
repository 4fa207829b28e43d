"""Files that people asked for are there whole, or as they were."""

import json
from pathlib import Path

import pytest

from railyard.scripts.results.outputfile import NotWritten, naming, write_json, write_text
from tests.fulldisk import files_of_at_most, small_disk


def test_a_file_is_replaced_through_links_too(tmp_path):
    (tmp_path / "old").write_text("old")
    (tmp_path / "link").symlink_to("old")
    write_json({"a": 1}, tmp_path / "link")
    assert json.loads((tmp_path / "old").read_text()) == {"a": 1}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "old"]


def test_what_cannot_be_written_leaves_what_was_there(tmp_path):
    (tmp_path / "it").write_text("old")
    with files_of_at_most(1000), pytest.raises(NotWritten, match="it: cannot be written: a file w"):
        write_text("x" * 2000, tmp_path / "it")
    assert (tmp_path / "it").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["it"]


def test_a_full_disk_is_named(tmp_path):
    with small_disk(tmp_path / "d", 2**16) as disk:
        disk.fill()
        with pytest.raises(
            NotWritten, match=f"new: cannot be written: no space left on {disk.path}"
        ):
            write_text("x" * 5000, disk.path / "new")
        with pytest.raises(NotWritten, match="no space left on"), naming(disk.path / "new"):
            (disk.path / "more").write_text("x" * 5000)


def test_a_device_is_written_to_and_not_replaced():
    with pytest.raises(NotWritten, match="/dev/full: cannot be written: no space left on"):
        write_text("x", Path("/dev/full"))
