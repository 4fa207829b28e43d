"""Only folders that Railyard made and marked are removed, nothing that looks like one."""

import json
import os
import shutil

import pytest

from railyard.cluster.files import ownfolder

PURPOSE = "run folder"


@pytest.fixture
def folder(tmp_path):
    """A folder of ours with files in it."""
    path = tmp_path / "c-ours"
    path.mkdir(0o700)
    ownfolder.mark(path, PURPOSE)
    (path / "deep" / "er").mkdir(parents=True)
    (path / "deep" / "er" / "file").write_text("x")
    (path / "file").write_text("x")
    return path


def is_left(path):
    return not ownfolder.remove(path, PURPOSE) and path.exists()


def test_what_is_ours_is_removed(folder):
    assert ownfolder.mark_of(folder, PURPOSE).folder == "c-ours"
    assert ownfolder.remove(folder, PURPOSE)
    assert not folder.exists()
    assert ownfolder.remove(folder, PURPOSE)  # there is nothing to be done


def test_links_in_it_are_not_followed(folder, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "text").write_text("years")
    (folder / "link").symlink_to(tmp_path / "thesis")
    (folder / "deep" / "link").symlink_to(tmp_path / "thesis")
    assert ownfolder.remove(folder, PURPOSE)
    assert (tmp_path / "thesis" / "text").read_text() == "years"


def unmarked(folder):
    (folder / ownfolder.MARK).unlink()


def broken_mark(folder):
    (folder / ownfolder.MARK).write_bytes(b"\xff{")


def somebody_elses_json(folder):
    (folder / ownfolder.MARK).write_text('{"made_by": "hand", "folder": "c-ours"}')


def linked_mark(folder):
    (folder / ownfolder.MARK).rename(folder / "real")
    (folder / ownfolder.MARK).symlink_to("real")


def fifo_for_a_mark(folder):
    (folder / ownfolder.MARK).unlink()
    os.mkfifo(folder / ownfolder.MARK)


def folder_for_a_mark(folder):
    (folder / ownfolder.MARK).unlink()
    (folder / ownfolder.MARK).mkdir()


def opened_to_others(folder):
    folder.chmod(0o750)


def another_inode(folder):
    mark = json.loads((folder / ownfolder.MARK).read_text())
    (folder / ownfolder.MARK).write_text(json.dumps(mark | {"inode": mark["inode"] + 1}))


@pytest.mark.parametrize(
    "change",
    [
        unmarked, broken_mark, somebody_elses_json, linked_mark, fifo_for_a_mark, folder_for_a_mark,
        opened_to_others, another_inode,
    ],
)  # fmt: skip
def test_what_does_not_bear_our_mark_is_left(folder, change):
    change(folder)
    assert ownfolder.mark_of(folder, PURPOSE) is None
    assert is_left(folder)
    assert (folder / "deep" / "er" / "file").exists()


def test_what_a_user_copied_or_moved_is_left(folder, tmp_path):
    copied, moved = tmp_path / "c-copied", tmp_path / "c-moved"
    shutil.copytree(folder, copied)
    folder.rename(moved)
    assert is_left(copied)
    assert is_left(moved)
    copied.rename(folder)
    assert is_left(folder)
    assert (folder / "file").exists()


def test_a_link_is_left_with_what_it_leads_to(folder, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "c-ours"
    link.symlink_to(folder)
    assert is_left(link)
    assert (folder / "file").exists()


def test_a_folder_for_something_else_is_left(folder):
    assert not ownfolder.remove(folder, "compiled loops")
    assert (folder / "file").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a folder away")
def test_another_users_folder_is_left(folder):
    os.chown(folder, 12345, -1)
    assert is_left(folder)


def test_what_cannot_be_removed_is_tried_again_later(folder, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", lambda *_, **__: None)
        assert is_left(folder)
    assert ownfolder.remove(folder, PURPOSE)


def test_a_folder_that_cannot_be_marked_is_not_left(tmp_path, monkeypatch):
    path = tmp_path / "c-ours"
    path.mkdir()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ownfolder, "_write_mark", full)
    with pytest.raises(OSError, match="No space left"):
        ownfolder.mark(path, PURPOSE)
    assert not path.exists()
