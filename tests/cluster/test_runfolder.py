"""The run folder's records of processes, also on a full disk."""

from pathlib import Path

import pytest

from railyard.cluster.errors import UsageError
from railyard.cluster.files.runfolder import RunFolder


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path)


def test_a_full_disk_does_not_end_who_notes_a_process(folder, caplog):
    (folder.path / "processes.jsonl").symlink_to("/dev/full")
    folder.record_process("Attempt", "j1.m0.0", 17)
    assert "No space left on device" in caplog.text


def test_a_line_that_was_cut_short_is_left_out(folder):
    folder.record_process("Attempt", "j1.m0.0", 17)
    with open(folder.path / "processes.jsonl", "a") as file:
        file.write('{"role": "Att')
    folder.record_process("Attempt", "j1.m1.0", 18)
    assert [row["pid"] for row in folder.processes()] == [17, 18]


def test_a_place_that_is_no_utf8_is_refused():
    with pytest.raises(UsageError, match="need UTF-8; set RAILYARD_HOME to another folder"):
        RunFolder.create(Path("/tmp/\udcff"))
