"""Kind VIII: rules of Hadoop that one notices when they are not kept."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile

from tests.streamed import failing, stored, streamed, submitted


def test_case_31_a_reduce_without_input_writes_nothing(hadoop):
    words = ["-numReduceTasks", "3", "-mapper", "cat", "-reducer", "wc -l"]
    at, status, errors = submitted(hadoop, b"k\t1\nk\t2\n", *words)
    assert status == 0, errors
    parts = [hadoop.get(f"{at}/out/part-0000{number}") for number in range(3)]
    assert sorted(part.strip() for part in parts) == [b"", b"", b"2"]


def test_case_32_cache_archives_are_the_stores_files(hadoop):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a", "in the archive\n")
    stored(hadoop, packed.getvalue(), "/cache/lib.zip")
    stored(hadoop, b"a file\n", "/cache/file")
    words = ["-cacheArchive", "/cache/lib.zip#lib", "-cacheFile", "/cache/file#one"]
    out = streamed(hadoop, b"x\n", *words, "-mapper", "cat lib/a one")
    assert out == b"in the archive\na file\n"
    errors = failing(hadoop, b"x\n", "-cacheFile", "/cache/no#one", "-mapper", "cat")
    assert "/cache/no" in errors


def link(archive, name, target):
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    archive.addfile(entry)


def test_case_33_links_to_the_outside_are_kept_as_links(hadoop, tmp_path):
    interpreter = os.path.realpath("/bin/sh")
    with tarfile.open(tmp_path / "venv.tar.gz", "w:gz") as archive:
        link(archive, "bin/sh", interpreter)
        link(archive, "lib64", "lib")
    words = ["-archives", f"{tmp_path}/venv.tar.gz#venv", "-mapper", "venv/bin/sh -c cat"]
    assert streamed(hadoop, b"x\n", *words) == b"x\n"


def test_case_33_nothing_is_written_through_them(hadoop, tmp_path):
    (tmp_path / "outside").mkdir()
    with tarfile.open(tmp_path / "bad.tar", "w") as archive:
        link(archive, "out", str(tmp_path / "outside"))
        entry = tarfile.TarInfo("out/written")
        entry.size = 1
        archive.addfile(entry, io.BytesIO(b"x"))
    words = ["-archives", f"{tmp_path}/bad.tar#bad", "-D", "mapreduce.map.maxattempts=1"]
    errors = failing(hadoop, b"x\n", *words, "-mapper", "cat")
    assert "out/written" in errors
    assert not list((tmp_path / "outside").iterdir())


def test_case_34_the_output_is_the_users(hadoop):
    before = hadoop.environment
    hadoop.environment = before | {"HADOOP_USER_NAME": "bob"}
    try:
        at, status, errors = submitted(hadoop, b"x\n", "-mapper", "cat", "-reducer", "cat")
    finally:
        hadoop.environment = before
    assert status == 0, errors
    out, _ = hadoop.ok("hadoop", "fs", "-stat", "%u", f"{at}/out", f"{at}/out/*")
    assert set(out.split()) == {b"bob"}
