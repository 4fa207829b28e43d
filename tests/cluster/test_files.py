"""Input files named by users, and those that would block a reader or exhaust its memory."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import msgspec
import pytest

from railyard.cluster import runfolder
from railyard.cluster.errors import UsageError
from railyard.cluster.inputfile import Rate, build, read_file, read_json, read_text_file, read_toml
from railyard.cluster.runfolder import RunFolder


def test_an_ordinary_file_is_read_through_links_too(tmp_path):
    (tmp_path / "it").write_bytes(b"bytes")
    (tmp_path / "link").symlink_to("it")
    assert read_file(tmp_path / "link") == b"bytes"


@pytest.mark.timeout(20)
def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(UsageError, match=r"pipe\.toml: is a pipe or a device: need an ordinary"):
        read_file(tmp_path / "pipe.toml")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/dev/zero", "/dev/zero: is a pipe or a device"),
        ("/", "/: cannot be read: Is a directory"),
        ("/none", "/none: cannot be read: No such file"),
        ("/no\0ne", r"/no.x00ne: cannot be read: embedded null byte"),
        ("/\udcff", r"/.xff: cannot be read: No such file"),
    ],
)
def test_what_is_no_file_is_told_in_a_line(path, why):
    with pytest.raises(UsageError, match=why) as error:
        read_file(path)
    assert str(error.value).isprintable()


def test_a_file_of_a_senseless_size_is_not_read(tmp_path):
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(UsageError, match=r"sparse: has 1.1 TB: need at most 1.07 GB"):
        read_file(tmp_path / "sparse")


def test_bytes_that_are_no_text(tmp_path):
    (tmp_path / "it").write_bytes(b"\xff")
    with pytest.raises(UsageError, match="it: is no trace: need text in UTF-8"):
        read_text_file(tmp_path / "it", "trace")


class Anything(msgspec.Struct):
    a: float = 0.0
    b: dict[str, float] = {}
    rate: Rate | None = None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("a = " + "[" * 10**5 + "]" * 10**5, "nested too deeply", id="lists"),
        pytest.param("a = " + "{a=" * 5000 + "1" + "}" * 5000, "nested too deeply", id="tables"),
        pytest.param("a = " + "9" * 5000, "a number of thousands of digits", id="digits"),
        pytest.param("a = 1" + "0" * 400, "Number out of range", id="more than a float holds"),
        pytest.param("a = inf", "a = inf: need a number of at most", id="infinity"),
        pytest.param("b.c = nan", "b.c = nan: need a number of at most", id="no number"),
    ],
)
def test_a_file_of_toml_that_nothing_can_bear(tmp_path, text, why):
    path = tmp_path / "it.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=why) as error:
        build(read_toml(path), Anything, str(path))
    assert str(error.value).startswith(f"{path}: ")
    assert len(str(error.value)) < len(str(path)) + 200


def test_a_rate_may_be_unlimited_all_the_same():
    assert build({"rate": float("inf")}, Anything, "it").rate == float("inf")


@pytest.mark.parametrize("text", ["[" * 10**5, "{", "9" * 5000])
def test_what_is_no_json(tmp_path, text):
    (tmp_path / "it.json").write_text(text)
    with pytest.raises(UsageError, match=r"it\.json: is no JSON: "):
        read_json(tmp_path / "it.json")


# Only folders that Railyard made and marked are removed, nothing that looks like one.


PURPOSE = "run folder"


@pytest.fixture
def own_folder(tmp_path):
    """A folder of ours with files in it."""
    path = tmp_path / "c-ours"
    path.mkdir(0o700)
    runfolder.mark_folder(path, PURPOSE)
    (path / "deep" / "er").mkdir(parents=True)
    (path / "deep" / "er" / "file").write_text("x")
    (path / "file").write_text("x")
    return path


def is_left(path):
    return not runfolder.remove_folder(path, PURPOSE) and path.exists()


def test_what_is_ours_is_removed(own_folder):
    assert runfolder.mark_of_folder(own_folder, PURPOSE).folder == "c-ours"
    assert runfolder.remove_folder(own_folder, PURPOSE)
    assert not own_folder.exists()
    assert runfolder.remove_folder(own_folder, PURPOSE)  # there is nothing to be done


def test_links_in_it_are_not_followed(own_folder, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "text").write_text("years")
    (own_folder / "link").symlink_to(tmp_path / "thesis")
    (own_folder / "deep" / "link").symlink_to(tmp_path / "thesis")
    assert runfolder.remove_folder(own_folder, PURPOSE)
    assert (tmp_path / "thesis" / "text").read_text() == "years"


def unmarked(own_folder):
    (own_folder / runfolder.MARK).unlink()


def broken_mark(own_folder):
    (own_folder / runfolder.MARK).write_bytes(b"\xff{")


def somebody_elses_json(own_folder):
    (own_folder / runfolder.MARK).write_text('{"made_by": "hand", "folder": "c-ours"}')


def linked_mark(own_folder):
    (own_folder / runfolder.MARK).rename(own_folder / "real")
    (own_folder / runfolder.MARK).symlink_to("real")


def fifo_for_a_mark(own_folder):
    (own_folder / runfolder.MARK).unlink()
    os.mkfifo(own_folder / runfolder.MARK)


def folder_for_a_mark(own_folder):
    (own_folder / runfolder.MARK).unlink()
    (own_folder / runfolder.MARK).mkdir()


def opened_to_others(own_folder):
    own_folder.chmod(0o750)


def another_inode(own_folder):
    mark = json.loads((own_folder / runfolder.MARK).read_text())
    (own_folder / runfolder.MARK).write_text(json.dumps(mark | {"inode": mark["inode"] + 1}))


@pytest.mark.parametrize(
    "change",
    [
        unmarked, broken_mark, somebody_elses_json, linked_mark, fifo_for_a_mark, folder_for_a_mark,
        opened_to_others, another_inode,
    ],
)  # fmt: skip
def test_what_does_not_bear_our_mark_is_left(own_folder, change):
    change(own_folder)
    assert runfolder.mark_of_folder(own_folder, PURPOSE) is None
    assert is_left(own_folder)
    assert (own_folder / "deep" / "er" / "file").exists()


def test_what_a_user_copied_or_moved_is_left(own_folder, tmp_path):
    copied, moved = tmp_path / "c-copied", tmp_path / "c-moved"
    shutil.copytree(own_folder, copied)
    own_folder.rename(moved)
    assert is_left(copied)
    assert is_left(moved)
    copied.rename(own_folder)
    assert is_left(own_folder)
    assert (own_folder / "file").exists()


def test_a_link_is_left_with_what_it_leads_to(own_folder, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "c-ours"
    link.symlink_to(own_folder)
    assert is_left(link)
    assert (own_folder / "file").exists()


def test_a_folder_for_something_else_is_left(own_folder):
    assert not runfolder.remove_folder(own_folder, "compiled loops")
    assert (own_folder / "file").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a folder away")
def test_another_users_folder_is_left(own_folder):
    os.chown(own_folder, 12345, -1)
    assert is_left(own_folder)


def test_what_cannot_be_removed_is_tried_again_later(own_folder, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", lambda *_, **__: None)
        assert is_left(own_folder)
    assert runfolder.remove_folder(own_folder, PURPOSE)


def test_a_folder_that_cannot_be_marked_is_not_left(tmp_path, monkeypatch):
    path = tmp_path / "c-ours"
    path.mkdir()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(runfolder, "open", full, raising=False)
    with pytest.raises(OSError, match="No space left"):
        runfolder.mark_folder(path, PURPOSE)
    assert not path.exists()


# The run folder's records of processes, also on a full disk.


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
