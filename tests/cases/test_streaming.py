"""Keys, separators, settings and counters of streaming jobs: what Hadoop's users found wrong."""

from __future__ import annotations

import io
import itertools
import os
import re
import tarfile
import zipfile

import pytest
import requests

from tests.streamed import failing, stored, streamed, submitted

COMPARES = (
    "-D",
    "mapreduce.job.output.key.comparator.class="
    "org.apache.hadoop.mapreduce.lib.partition.KeyFieldBasedComparator",
)
_NUMBERS = itertools.count()


@pytest.fixture
def job(hadoop):
    """Runs a job over some bytes; returns its output, all parts in order, and its log."""
    folder = f"/cases/streaming{next(_NUMBERS)}"
    numbers = itertools.count()
    hadoop.ok("hadoop", "fs", "-mkdir", "-p", folder)

    def run(data, *words, mapper="cat", reducer="cat"):
        number = next(numbers)
        hadoop.put(data, f"{folder}/in{number}")
        out = f"{folder}/out{number}"
        ends = ["-input", f"{folder}/in{number}", "-output", out]
        ends += ["-mapper", mapper, "-reducer", reducer]
        status, _, log = hadoop.run("hadoop", "jar", "x.jar", *words, *ends)
        assert "Traceback" not in log
        return hadoop.get(f"{out}/part-*") if status == 0 else None, log

    return run


@pytest.mark.parametrize("options", ["-nr -k2,2", "-k2,2 -nr"])
def test_case_02_a_lone_option_holds_for_each_key(job, options):
    two = ["-D", "stream.num.map.output.key.fields=2"]
    two += ["-D", f"mapreduce.partition.keycomparator.options={options}"]
    out, _ = job(b"a\t9\nb\t10\nc\t-1\nd\t100\n", *COMPARES, *two)
    assert out == b"d\t100\nb\t10\na\t9\nc\t-1\n"


def test_case_03_numbers_compare_exactly(job):
    numbers = b"9007199254740992\n1234567890123456788\n9007199254740993\n1234567890123456789\n"
    out, _ = job(numbers, *COMPARES, "-D", "mapreduce.partition.keycomparator.options=-k1,1nr")
    want = [1234567890123456789, 1234567890123456788, 9007199254740993, 9007199254740992]
    assert [int(line) for line in out.split()] == want


def test_case_04_a_missing_field_comes_first(job):
    two = ["-D", "stream.num.map.output.key.fields=2"]
    two += ["-D", "mapreduce.partition.keycomparator.options=-k2,2n"]
    out, _ = job(b"a\t-5\nb\nc\t3\n", *COMPARES, *two)
    assert out == b"b\na\t-5\nc\t3\n"


def test_case_05_the_separator_of_the_output(job):
    out, _ = job(b"x\t3\n", "-D", "mapreduce.output.textoutputformat.separator=,")
    assert out == b"x,3\n"


def test_case_06_the_separator_of_a_reducers_lines(job):
    colon = ["-D", "stream.reduce.output.field.separator=:"]
    assert job(b"x:3\n", *colon)[0] == b"x\t3\n"
    out, _ = job(b"x:3:4\n", *colon, "-D", "stream.num.reduce.output.key.fields=2")
    assert out == b"x:3\t4\n"


def test_case_07_lines_with_keys(job):
    words = ["-inputformat", "org.apache.hadoop.mapred.KeyValueTextInputFormat"]
    words += ["-D", "mapreduce.input.keyvaluelinerecordreader.key.value.separator=,"]
    assert job(b"1,x\n", *words)[0] == b"1\tx\n"


def test_case_08_records_with_another_end(job):
    out, log = job(b"a|b|c", "-D", "textinputformat.record.delimiter=|")
    assert out == b"a\nb\nc\n"
    assert "\t\tMap input records=3\n" in log


def test_case_09_another_word_before_counters(job):
    prefix = ["-D", "stream.stderr.reporter.prefix=rep:"]
    _, log = job(b"x\n", *prefix, mapper="sh -c 'echo rep:counter:g,c,1 >&2; cat'")
    assert "\tg\n\t\tc=1\n" in log


@pytest.mark.parametrize(
    "setting", ["stream.map.output=typedbytes", "stream.recordreader.class=StreamXmlRecordReader"]
)
def test_case_10_records_that_are_no_lines_are_refused(job, setting):
    out, log = job(b"x\n", "-D", setting)
    assert out is None
    assert f"-D {setting}: not supported: programs read and write" in log


def test_case_11_longer_lines_are_left_out(job):
    out, _ = job(b"ab\nabc\nabcd\n", "-D", "mapreduce.input.linerecordreader.line.maxlength=3")
    assert out == b"ab\nabc\n"


def test_case_12_variables_of_maps(job):
    out, _ = job(b"x\n", "-D", "mapreduce.map.env=FOO=bar", mapper="printenv FOO")
    assert out == b"bar\n"


def test_case_13_failures_that_do_not_count_are_refused(job):
    out, log = job(b"x\n", "-D", "mapreduce.map.failures.maxpercent=50")
    assert out is None
    assert "-D mapreduce.map.failures.maxpercent=50: not supported: a task that has failed" in log


def test_case_17_tags_reach_the_application(hadoop, job):
    _, log = job(b"x\n", "-D", "mapreduce.job.tags=Airflow,run-17")
    [application] = re.findall(r"Submitted application (application_\d+_\d+)", log)
    app = requests.get(f"{hadoop.url}/ws/v1/cluster/apps/{application}").json()["app"]
    assert app["applicationTags"] == "airflow,run-17"


@pytest.mark.parametrize("count", [10**16, 2**63 - 1, -(2**63)])
def test_case_27_counters_of_64_bits(job, count):
    _, log = job(b"x\n", mapper=f"sh -c 'echo reporter:counter:g,c,{count} >&2'")
    assert f"\tg\n\t\tc={count}\n" in log


@pytest.mark.parametrize("count", [2**63, -(2**63) - 1, 10**30])
def test_case_27_counters_beyond_are_wrong(job, count):
    once = ["-D", "mapreduce.map.maxattempts=1"]
    out, log = job(b"x\n", *once, mapper=f"sh -c 'echo reporter:counter:g,c,{count} >&2'")
    assert out is None
    assert f"counter g,c is {count}: need -2^63 to 2^63 - 1" in log


def test_case_27_sums_of_tasks_beyond_are_wrong(job):
    """Each of two maps counts a little more than half of it."""
    words = ["-D", "mapreduce.map.maxattempts=1", "-D", "mapreduce.job.maps=2"]
    count = f"sh -c 'echo reporter:counter:g,c,{2**62} >&2'"
    out, log = job(b"x\n" * 20, *words, mapper=count)
    assert out is None
    assert "counter g,c of the job's tasks: their sum passes what 64 bits hold" in log


def test_spilled_records_are_those_that_maps_write_for_reduces(job):
    words = ["-combiner", "uniq"]
    _, log = job(b"x\ny\nx\n", *words)
    assert "\t\tSpilled Records=2\n" in log
    assert "Spilled Records" not in job(b"x\n", reducer="NONE")[1]


# Kind VIII: rules of Hadoop that one notices when they are not kept.


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


# Kind VII: the words of a command, as Hadoop splits them.


LINE = b"x.1\ty.2\n"


def test_case_30_a_backslash_is_a_letter(hadoop):
    assert streamed(hadoop, LINE, "-mapper", r"tr \t \n") == b"x.1\ny.2\n"
    assert streamed(hadoop, LINE, "-mapper", r"sed s/\./-/g") == b"x-1\ty-2\n"


def test_case_30_quotes_hold_words_together(hadoop):
    mapper = "sh -c 'sed '\"'\"'s/x/it is/'\"'\"''"
    assert streamed(hadoop, LINE, "-mapper", mapper) == b"it is.1\ty.2\n"
    assert streamed(hadoop, LINE, "-mapper", 'sed "s/x/a \\n/"') == b"a \n.1\ty.2\n"


# Kind XI: a program that does not start, and what to do about it.


ONCE = ["-D", "mapreduce.map.maxattempts=1"]
#: {what the file begins with: what must be said}
SCRIPTS = {
    b"#!/usr/bin/python3\r\nprint(1)\r\n": ("/usr/bin/python3", "CR LF"),
    b"#!/usr/bin/env python3\r\nprint(1)\r\n": ("python3", "CR LF"),
    b"print(1)\n": ("#!",),
    b"\xef\xbb\xbf#!/usr/bin/python3\nprint(1)\n": ("byte order mark", "#!"),
    b"#!/usr/bin/no-such-python\nprint(1)\n": ("/usr/bin/no-such-python",),
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_case_42_a_first_line_that_is_wrong_is_named(hadoop, tmp_path, script):
    (tmp_path / "m.py").write_bytes(script)
    errors = failing(hadoop, b"x\n", *ONCE, "-files", "m.py", "-mapper", "m.py", cwd=tmp_path)
    for word in ("m.py", *SCRIPTS[script]):
        assert word in errors
    if b"no-such" not in script:  # which a node may have
        assert "Running job" not in errors


@pytest.mark.parametrize("script", SCRIPTS)
def test_case_42_of_a_file_of_the_store_the_attempt_says_it(hadoop, script):
    hadoop.run("hadoop", "fs", "-rm", "/scripts/m.py")
    stored(hadoop, script, "/scripts/m.py")
    errors = failing(hadoop, b"x\n", *ONCE, "-files", "hdfs:///scripts/m.py", "-mapper", "m.py")
    for word in ("m.py", *SCRIPTS[script]):
        assert word in errors


def test_case_42_a_file_that_was_not_shipped(hadoop, tmp_path):
    (tmp_path / "m.py").write_text("#!/bin/sh\ncat\n")
    for mapper in ("m.py", "python3 m.py"):
        errors = failing(hadoop, b"x\n", "-mapper", mapper, cwd=tmp_path)
        assert "-files m.py" in errors
        assert "Running job" not in errors
    errors = failing(hadoop, b"x\n", *ONCE, "-mapper", "no-such.py", cwd=tmp_path)
    assert "-files no-such.py" in errors


def test_case_42_a_shipped_file_has_no_folder(hadoop, tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "m.py").write_text("#!/bin/sh\ncat\n")
    words = ["-files", "d/m.py", "-mapper"]
    for mapper in ("d/m.py", "sh d/m.py"):
        errors = failing(hadoop, b"x\n", *words, mapper, cwd=tmp_path)
        assert "m.py, in the working folder" in errors
        assert "Running job" not in errors
    assert streamed(hadoop, b"x\n", *words, "m.py", cwd=tmp_path) == b"x\n"
    assert streamed(hadoop, b"x\n", *words, "./m.py", cwd=tmp_path) == b"x\n"
