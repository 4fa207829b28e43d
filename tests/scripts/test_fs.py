"""``railyard fs`` does what people know from shells and from HDFS."""

import os
import random

import pytest

from tests.fulldisk import files_of_at_most


@pytest.fixture
def store(railyard, tmp_path):
    """Runs an fs command in a local folder with one file."""
    railyard.ok("up", "--topology", "unlimited-2x2")
    (tmp_path / "one.txt").write_text("1")

    def fs(*arguments, stdin=None):
        done = railyard.run("fs", *arguments, cwd=tmp_path, stdin=stdin)
        return done.returncode, (done.stdout + done.stderr).strip()

    yield fs
    railyard.ok("down")


def test_a_folder_as_target_takes_things_in(store, tmp_path):
    assert store("mkdir", "/in", "/old") == (0, "")
    assert store("put", "one.txt", "/in") == (0, "/in/one.txt: 1 byte in 1 block")
    assert store("put", "one.txt", "/in/") == (2, "railyard: /in/one.txt: exists already")
    assert store("put", "-", "/in", stdin=b"2")[0] == 2
    assert store("mv", "/in/one.txt", "/old") == (0, "")
    assert store("mv", "/old", "/in") == (0, "")
    assert store("cat", "/in/old/one.txt") == (0, "1")
    (tmp_path / "here").mkdir()
    assert store("get", "/in/old", "here") == (0, "")
    assert (tmp_path / "here" / "old" / "one.txt").read_text() == "1"
    assert store("get", "/in/old/one.txt", "-") == (0, "1")


def test_names_of_any_bytes_are_shown_escaped(store, tmp_path):
    (tmp_path / "\udcff\x1b.txt").write_text("1")
    assert store("mkdir", "/in") == (0, "")
    name = r"/in/\xff\x1b.txt"
    assert store("put", "\udcff\x1b.txt", "/in") == (0, f"{name}: 1 byte in 1 block")
    assert store("put", "one.txt", "/in/\u202etxt.exe")[0] == 0
    assert r"/in/\u202etxt.exe" in store("ls", "/in")[1]
    assert store("ls", "/\udcff") == (2, r"railyard: /\xff: need a path that is UTF-8")


def test_what_fails_though_it_was_asked_for_rightly_exits_with_4(store, tmp_path):
    (tmp_path / "big").write_bytes(bytes(100_000))
    assert store("put", "big", "/big")[0] == 0
    with files_of_at_most(50_000):
        status, said = store("get", "/big", "back")
    assert (status, said.count("\n")) == (4, 0)
    assert "a file would be larger than the limit (ulimit -f)" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["big", "one.txt"]


def test_one_bad_path_does_not_keep_the_others_back(store):
    assert store("put", "-", "/a b/ü", stdin=b"2")[0] == 0
    assert store("cat", "/none", "/a b/ü") == (2, "2railyard: /none: no such file or folder")
    status, said = store("rm", "-r", "/none", "/a b", "/")
    assert status == 2
    assert said.splitlines() == [
        "railyard: /none: no such file or folder",
        "railyard: /: cannot be removed: need a path of what is in it",
    ]
    assert store("ls") == (0, "")


def test_a_file_that_is_damaged_while_it_is_read_is_no_success(store, railyard, tmp_path):
    data = random.Random(1).randbytes(40_000_000)  # two blocks
    (tmp_path / "big").write_bytes(data)
    assert store("put", "one.txt", "/")[0] == 0
    for path, how in [("/a", "overwritten"), ("/b", "cut short")]:
        assert store("put", "big", path)[0] == 0
        with railyard.start("fs", "cat", path) as reading:
            got = reading.stdout.buffer.read(1_000_000)
            for file in railyard.current().glob("nodes/*/blocks/b*"):
                change(file, how)
            got += reading.stdout.buffer.read()
            said = reading.stderr.read()
        assert reading.returncode == 1
        assert 1_000_000 <= len(got) < len(data)
        assert data.startswith(got)
        assert said.startswith(f"railyard: {path}: bytes {len(got)} to ")
        assert "wrong checksum" in said or "not that of a block" in said
        assert len(said.splitlines()) == 1
    assert store("cat", "/one.txt") == (0, "1")  # nobody died of it


def change(file, how):
    """Spoil the file of a block, but for short ones."""
    size = file.stat().st_size
    if size > 1000 and how == "cut short":
        os.truncate(file, size // 2)
    elif size > 1000:
        with file.open("r+b") as opened:
            opened.write(bytes(size - 1000))
