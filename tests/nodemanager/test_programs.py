"""How a task reads its files, in what order its clock runs, and what failures say."""

from __future__ import annotations

import stat
import sys
import tarfile
import zipfile

import pytest

from railyard.cluster.ids import AttemptId
from railyard.cluster.messages import Split, TaskSpec
from railyard.cluster.topology import Topology
from railyard.cluster.topologyfile import Compute, Links, RackShape
from railyard.jobs.operators import checked_pairs
from railyard.jobs.taskio import BadInput, JobError, Program, ProgramFile
from railyard.nodemanager.attempt.main import BlockFile
from railyard.nodemanager.attempt.programs import WORK, Localizer, ProgramRunner
from railyard.nodemanager.attempt.umbilical import ComputeClock, paced_s
from railyard.nodemanager.limits import reason_of, tail_of, user_traceback

DATA = bytes(range(200))


class File:
    """A file of the block store, which notes how it is read."""

    stored_bytes = len(DATA)

    def __init__(self):
        self.reads = []
        self.waited_s = 0.0

    def read(self, offset, length):
        self.reads.append((offset, length))
        self.waited_s += 0.01
        return memoryview(DATA)[offset : offset + length]


@pytest.fixture
def file():
    return File()


def block_file(file, *splits, after_read=lambda: None):
    splits = [Split(path="/f", stored_offset=at, stored_length=length) for at, length in splits]
    return BlockFile(file, splits, ComputeClock(), lambda: None, after_read)


def test_a_split_is_read_once_as_a_whole(file):
    reader = block_file(file, (50, 100))
    for offset in range(50, 150, 10):
        assert reader.read(offset, 10) == DATA[offset : offset + 10]
    assert file.reads == [(50, 100)]


def test_it_is_told_once_when_a_split_has_been_read(file):
    read = []
    reader = block_file(file, (50, 100), after_read=lambda: read.append(list(file.reads)))
    assert read == []
    for offset in range(50, 150, 10):
        reader.read(offset, 10)
    assert read == [[(50, 100)]]  # not before it was there


def test_bytes_around_the_split_are_read_as_asked_for(file):
    reader = block_file(file, (50, 100))
    assert reader.read(49, 20) == DATA[49:69]
    assert reader.read(140, 20) == DATA[140:160]
    assert reader.read(190, 20) == DATA[190:]
    assert reader.read(200, 20) == b""
    assert file.reads == [(49, 1), (50, 100), (150, 10), (190, 10)]


def test_any_range_of_several_splits(file):
    for start in range(0, 200, 7):
        for length in (1, 20, 90, 300):
            reader = block_file(file, (10, 40), (60, 40), (150, 100))
            file.read = lambda offset, length: memoryview(DATA)[offset : offset + length]
            assert reader.read(start, length) == DATA[start : start + length]


def test_waiting_for_other_nodes_bytes_does_not_count_as_computing(file, monkeypatch):
    own_s = 0.0
    monkeypatch.setattr(
        "railyard.nodemanager.attempt.umbilical.now_s", lambda: own_s + file.waited_s
    )
    clock = ComputeClock()
    reader = BlockFile(file, [], clock, lambda: None, lambda: None)
    for offset in range(10):
        reader.read(offset, 1)
        own_s += 0.02
    assert file.waited_s == pytest.approx(0.1)
    assert clock.elapsed_s == pytest.approx(0.2)
    clock.restart()
    assert clock.elapsed_s == 0.0


def topology(mode):
    return Topology(
        name="t",
        scale=1000,
        racks=RackShape(count=1, nodes=1),
        links=Links(nic=1.0, uplink=1.0),
        compute=Compute(mode=mode, map_rate=2e6, reduce_rate=4e6),
    )


@pytest.mark.parametrize(
    ("mode", "reads", "expected_s"),
    [
        pytest.param("paced", (), 3.0, id="map"),
        pytest.param("paced", ("m",), 1.5, id="reduce"),
        pytest.param("real", (), 0.0, id="real"),
    ],
)
def test_pace_is_the_models_bytes_over_the_rate(mode, reads, expected_s):
    task = TaskSpec(stage="m", index=0, reads=reads)
    assert paced_s(topology(mode), task, stored_bytes=6000) == expected_s


def test_tail_is_of_whole_lines(tmp_path):
    file = tmp_path / "stderr"
    assert tail_of(file) == ""
    file.write_bytes(b"\xff short\n")
    assert tail_of(file) == "\ufffd short\n"
    file.write_text("".join(f"line {number}\n" for number in range(5000)))
    tail = tail_of(file)
    assert tail.endswith("line 4999\n")
    assert tail.startswith("line ")
    assert len(tail) <= 8192
    file.write_text("x" * 20000 + "\n")
    assert tail_of(file) == "x" * 8191 + "\n"


def test_reason_is_one_line():
    assert reason_of(KeyError("a")) == "KeyError: 'a'"
    assert reason_of(ValueError("\n  first\nsecond")) == "ValueError: first"
    assert reason_of(AssertionError()) == "AssertionError"
    assert reason_of(OSError("\x1b[31mred")) == "OSError: \\x1b[31mred"
    assert len(reason_of(ValueError("y" * 10**6))) < 400


def test_reason_of_an_error_that_cannot_tell():
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError

    assert reason_of(Mute()) == "Mute: (what it says cannot be shown)"


def test_an_error_of_ours_needs_a_traceback_only_if_it_came_through_the_users_lines():
    with pytest.raises(JobError) as raised:
        list(checked_pairs([1], len))
    assert "list(checked_pairs" in user_traceback(raised.value)
    raised.value.__traceback__ = raised.value.__traceback__.tb_next
    assert user_traceback(raised.value) == ""


# Programs of a task, as real processes: bytes in, bytes out, and everything that may go wrong.


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
    return ProgramRunner(AttemptId("j1.m0.0"), tmp_path / name / WORK, {}, localizer, lambda: None)


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
