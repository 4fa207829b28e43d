"""Programs of a task, as real processes: bytes in, bytes out, and everything that may go wrong."""

from __future__ import annotations

import stat
import sys
import tarfile
import zipfile

import pytest

from railyard.cluster.ids import AttemptId
from railyard.jobs.taskio import BadInput, JobError, Program, ProgramFile
from railyard.nodemanager.attempt.localizing import Localizer
from railyard.nodemanager.attempt.programs import ProgramRunner

PIECE = b"x" * 65536


class Store:
    """A block store that is a folder."""

    def __init__(self, root):
        self.root = root
        self.read_files = []

    def status(self, path):
        return Status(path, (self.root / path[1:]).is_dir())

    def list(self, path):
        names = sorted(each.name for each in (self.root / path[1:]).iterdir())
        return [Status(f"{path}/{name}", False) for name in names]

    def read(self, path):
        self.read_files.append(path)
        yield (self.root / path[1:]).read_bytes()


class Status:
    def __init__(self, path, folder):
        self.path, self.folder = path, folder


@pytest.fixture
def store(tmp_path):
    (tmp_path / "store").mkdir()
    return Store(tmp_path / "store")


@pytest.fixture
def runner(tmp_path, store):
    (tmp_path / "attempt").mkdir()
    return new_runner(tmp_path, store, "attempt")


def new_runner(tmp_path, store, name):
    localizer = Localizer(tmp_path / "localized", lambda: store, lambda _: None)
    return ProgramRunner(AttemptId("j1.m0.0"), tmp_path / name, {}, localizer, lambda: None)


def run(runner, *words, data=(), on_line=lambda line: False, **options):
    program = Program(words=words, environment={"MINE": "yes"}, **options)
    return b"".join(runner.run(program, data, on_line))


def python(runner, code, **options):
    return run(runner, sys.executable, "-c", code, **options)


def test_bytes_go_through(runner):
    assert run(runner, "cat", data=[b"a\0\xff\n", b"b"]) == b"a\0\xff\nb"
    assert run(runner, "cat") == b""
    assert run(runner, "sh", "-c", "echo $MINE; pwd") == f"yes\n{runner._folder}\n".encode()


def test_it_may_write_much_before_it_reads(runner):
    code = (
        "import sys; w = sys.stdout.buffer.write; w(b'y' * 3_000_000);"
        "sys.stderr.write('e' * 300_000 + '\\n'); w(sys.stdin.buffer.read())"
    )
    heard = []
    made = python(runner, code, data=[PIECE] * 40, on_line=lambda line: not heard.append(line))
    assert made == b"y" * 3_000_000 + PIECE * 40
    assert sum(map(len, heard)) == 300_000


def test_it_need_not_read_all(runner):
    taken = []
    data = (taken.append(1) or PIECE for _ in range(1000))
    assert run(runner, "sh", "-c", "head -c 1; echo", data=data) == b"x\n"
    assert len(taken) < 1000


def test_its_status_counts(runner):
    with pytest.raises(JobError, match="sh: subprocess failed with code 3"):
        run(runner, "sh", "-c", "exit 3")
    with pytest.raises(JobError, match="subprocess failed with signal 9"):
        run(runner, "sh", "-c", "kill -9 $$")
    assert run(runner, "sh", "-c", "echo a; exit 3", status_counts=False) == b"a\n"
    with pytest.raises(JobError, match="cannot run program 'nosuch': No such file"):
        run(runner, "nosuch")


def test_a_child_that_stays_keeps_nobody_waiting(runner):
    """It has the pipes open, and is killed with its attempt; here by itself."""
    made = run(runner, "sh", "-c", "echo a; sleep 20 & echo $!")
    assert made.startswith(b"a\n")
    run(runner, "kill", made.split()[1].decode())


def test_a_program_that_does_nothing_fails_in_time(runner):
    with pytest.raises(JobError, match=r"neither read nor wrote anything for 0\.3 s"):
        run(runner, "sleep", "30", timeout_s=0.3)


def test_what_it_says_is_told_or_kept(runner, capfd):
    heard = []

    def on_line(line):
        heard.append(line)
        return line.startswith(b"reporter:")

    run(runner, "sh", "-c", "echo reporter:x >&2; echo plain >&2; printf end >&2", on_line=on_line)
    assert heard == [b"reporter:x", b"plain", b"end"]
    assert capfd.readouterr().err == "plain\nend\n"


def test_files_are_brought_once_and_can_be_run(tmp_path, store, runner):
    (store.root / "tool").write_text("#!/bin/sh\necho $1 from tool\n")
    (store.root / "folder").mkdir()
    (store.root / "folder" / "f").write_text("inside")
    with zipfile.ZipFile(store.root / "z.zip", "w") as archive:
        archive.writestr("in/a", "zipped")
    (store.root / "tool").chmod(0o755)
    with tarfile.open(store.root / "t.tgz", "w:gz") as archive:
        archive.add(store.root / "tool", "bin/tool")
    files = (
        ProgramFile(path="/tool", name="mine"),
        ProgramFile(path="/folder", name="folder"),
        ProgramFile(path="/z.zip", name="z", unpacked=True),
        ProgramFile(path="/t.tgz", name="t", unpacked=True),
    )
    assert run(runner, "mine", "hello", files=files) == b"hello from tool\n"
    assert run(runner, "cat", "z/in/a", "folder/f", files=files) == b"zippedinside"
    (tmp_path / "other").mkdir()
    other = new_runner(tmp_path, store, "other")
    assert run(other, "t/bin/tool", "x", files=files) == b"x from tool\n"
    assert store.read_files == ["/tool", "/folder/f", "/z.zip", "/t.tgz"]


def test_what_is_no_archive_is_refused(store, runner):
    (store.root / "bad.zip").write_text("no zip")
    (store.root / "some.txt").write_text("text")
    for name, why in (("bad.zip", "cannot be unpacked"), ("some.txt", "is no archive")):
        files = (ProgramFile(path=f"/{name}", name="x", unpacked=True),)
        with pytest.raises(BadInput, match=why):
            run(runner, "cat", files=files)
        runner._folder.rmdir()


def link(archive, name, target):
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = tarfile.SYMTYPE, str(target)
    archive.addfile(entry)


def test_links_of_archives_are_kept_and_nothing_is_written_through_them(tmp_path, store, runner):
    outside = tmp_path / "outside"
    outside.mkdir()
    with tarfile.open(store.root / "venv.tar.gz", "w:gz") as archive:
        link(archive, "bin/sh", "/bin/sh")
        link(archive, "lib64", "lib")
    with zipfile.ZipFile(store.root / "venv.zip", "w") as archive:
        entry = zipfile.ZipInfo("bin/sh")
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(entry, "/bin/sh")
    files = (
        ProgramFile(path="/venv.tar.gz", name="t", unpacked=True),
        ProgramFile(path="/venv.zip", name="z", unpacked=True),
    )
    assert run(runner, "t/bin/sh", "-c", "z/bin/sh -c 'readlink t/lib64'", files=files) == b"lib\n"
    with tarfile.open(store.root / "a.tar", "w") as archive:
        link(archive, "out", outside)
        archive.addfile(tarfile.TarInfo("out/file"))
    with tarfile.open(store.root / "b.tar", "w") as archive:
        link(archive, "file", outside / "file")
        archive.addfile(tarfile.TarInfo("file"))
    with tarfile.open(store.root / "c.tar", "w") as archive:
        link(archive, "out", outside)
        link(archive, "out/file", "/etc")
    with zipfile.ZipFile(store.root / "d.zip", "w") as archive:
        entry = zipfile.ZipInfo("out")
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(entry, str(outside))
        archive.writestr("out/file", "x")
    with tarfile.open(store.root / "e.tar", "w") as archive:
        archive.addfile(tarfile.TarInfo("../file"))
    for name in ("a.tar", "b.tar", "c.tar", "d.zip", "e.tar"):
        (tmp_path / name).mkdir()
        new = new_runner(tmp_path, store, name)
        files = (ProgramFile(path=f"/{name}", name="x", unpacked=True),)
        with pytest.raises(BadInput, match=r"would be (written through the link|extracted to)"):
            run(new, "cat", files=files)
    assert not list(outside.iterdir())
