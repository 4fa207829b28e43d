"""Kind IV: ends of lines, byte order marks and packed bytes, as programs write them."""

from __future__ import annotations

import bz2
import codecs
import gzip
import json
import lzma
import zlib

import pytest

from tests.streamed import failing, streamed, submitted

N_LINE = ["-inputformat", "org.apache.hadoop.mapred.lib.NLineInputFormat"]
OFFSETS = ["-D", "stream.map.input.ignoreKey=false"]
MARK = b"\xef\xbb\xbf"


def test_case_20_a_lone_cr_ends_a_line(hadoop):
    assert streamed(hadoop, b"one\rtwo\rthree", "-mapper", "cat") == b"one\ntwo\nthree\n"
    out = streamed(hadoop, b"one\rtwo\rthree", *OFFSETS, "-mapper", "cat")
    assert out == b"0\tone\n4\ttwo\n8\tthree\n"


def test_case_21_offsets_count_both_bytes_of_cr_lf(hadoop):
    two = ["-D", "mapreduce.input.lineinputformat.linespermap=2"]
    out = streamed(hadoop, b"ab\r\ncd\r\nef\r\n", *two, *N_LINE, "-mapper", "cat")
    assert out == b"0\tab\n4\tcd\n8\tef\n"


@pytest.mark.parametrize("reducer", ["NONE", "cat"])
def test_case_22_a_mapper_may_end_lines_with_cr_lf(hadoop, reducer):
    mapper = "awk '{ printf \"%s\\t1\\r\\n\", $0 }'"
    assert streamed(hadoop, b"a\nb\n", "-mapper", mapper, "-reducer", reducer) == b"a\t1\nb\t1\n"


def test_case_23_a_mark_at_the_beginning_is_not_read(hadoop):
    data = MARK + b"a\n" + MARK + b"b\n"
    assert streamed(hadoop, data, "-mapper", "cat") == b"a\n" + MARK + b"b\n"
    out = streamed(hadoop, data, *OFFSETS, "-mapper", "cat")
    assert out == b"0\ta\n5\t" + MARK + b"b\n"
    packed = gzip.compress(data)
    assert streamed(hadoop, packed, "-mapper", "cat", name="f.gz") == b"a\n" + MARK + b"b\n"


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("x.bz2", bz2.compress),
        ("x.gz", gzip.compress),
        ("x.deflate", zlib.compress),
        ("x.xz", lzma.compress),
    ],
)
def test_case_24_packed_input_is_read_as_its_text(hadoop, name, pack):
    packed = pack(b"one\n") + pack(b"two\n") if name != "x.deflate" else pack(b"one\ntwo\n")
    assert streamed(hadoop, packed, "-mapper", "cat", name=name) == b"one\ntwo\n"


@pytest.mark.parametrize("name", ["x.zst", "x.lz4", "x.snappy", "x.lzo"])
def test_case_24_what_cannot_be_unpacked_is_refused_at_submission(hadoop, name):
    errors = failing(hadoop, b"anything", "-mapper", "cat", name=name)
    assert name in errors
    assert "Running job" not in errors


def test_case_24_a_suffix_without_the_bytes_of_it_is_refused(hadoop):
    for name in ("plain.gz", "plain.bz2", "plain.xz", "plain.deflate"):
        errors = failing(hadoop, b"plain text\n", "-mapper", "cat", name=name)
        assert name in errors
        assert "Running job" not in errors
    packed = gzip.compress(b"text\n")
    assert streamed(hadoop, packed, "-mapper", "cat", name="without").startswith(packed[:2])


def test_case_25_cr_ends_lines_of_standard_error(hadoop):
    mapper = "sh -c 'printf \"\\r 50%%\\rreporter:counter:g,c,1\\n\" >&2'"
    _, status, errors = submitted(hadoop, b"x\n", "-mapper", mapper)
    assert status == 0, errors
    assert "\tg\n\t\tc=1\n" in errors


# Marks before a file's text, and files of another known format.


_MARK = codecs.BOM_UTF8
_COFLOWS = b"2 1\nA 0 1 0 1 1:50\n"
_SWIM = b"job0\t0\t0\t1000000\t0\t1000\njob1\t5\t5\t1000000\t2000000\t1000\n"
_SIZES = {"in": 700_000_000, "x": 300_000_000}
_TASK = {"name": "a", "id": "a", "inputFiles": ["in"], "outputFiles": ["x"]}
_FILES = [{"id": name, "sizeInBytes": size} for name, size in _SIZES.items()]
_WORKFLOW = json.dumps(
    {"name": "w", "workflow": {"specification": {"tasks": [_TASK], "files": _FILES}}}
).encode()
_TOPOLOGY = b"""\
name = "mine"
racks = {count = 2, nodes = 2}
links = {nic = "1Gbps", uplink = "1Gbps"}
"""
_JOBS = b'[[job]]\njob = "terasort"\nsize = "20MB"\n'
_FORMATS = {
    "coflow-benchmark": (_COFLOWS, "looks like a trace of coflows: need coflow-benchmark:"),
    "swim": (_SWIM, "looks like a SWIM trace: need swim:"),
    "wfcommons": (_WORKFLOW, "looks like a workflow in WfFormat: need wfcommons:"),
    "gzip": (b"\x1f\x8b\x08\x00\x00\x00\x00\x00", "looks like a file packed by gzip"),
    "jhist": (b'Avro-Json\n{"type":"record"}\n', "looks like a job history of Hadoop (.jhist)"),
    "spark": (
        b'{"Event":"SparkListenerLogStart","Spark Version":"3.5.0"}\n',
        "looks like an event log of Spark",
    ),
    "google": (
        b"0,,3418309,0,4155527081,0,70s3v5qRyCO,3,9,0.125,0.074,0.0004244,0\n",
        "looks like a table of Google's cluster trace",
    ),
    "alibaba": (
        b"M1,1.0,j_1,1,Terminated,86400,86420,100.0,0.39\n",
        "looks like a table of Alibaba's cluster trace",
    ),
}


def _simulated(railyard, tmp_path, *words):
    summary = tmp_path / "summary.json"
    assert railyard.call("simulate", *words, "--json", summary).returncode == 0
    made = json.loads(summary.read_text())
    return {key: value for key, value in made.items() if key in ("makespan_s", "cct_s", "jct_s")}


@pytest.mark.parametrize(
    ("kind", "text"),
    [("coflow-benchmark", _COFLOWS), ("swim", _SWIM), ("wfcommons", _WORKFLOW)],
)
def test_case_26_a_trace_with_a_mark_is_read_as_without(railyard, tmp_path, kind, text):
    plain, marked = tmp_path / "plain", tmp_path / "marked"
    plain.write_bytes(text)
    marked.write_bytes(_MARK + text)
    there = () if kind == "coflow-benchmark" else ("--topology", "flat-4x4")
    one, other = (
        _simulated(railyard, tmp_path, "--workload", f"{kind}:{file}", *there)
        for file in (plain, marked)
    )
    assert one
    assert one == other


def test_case_26_a_topology_and_a_mix_with_a_mark(railyard, tmp_path):
    topology, jobs = tmp_path / "mine.toml", tmp_path / "jobs.toml"
    topology.write_bytes(_MARK + _TOPOLOGY)
    jobs.write_bytes(_MARK + _JOBS)
    assert _simulated(railyard, tmp_path, "--workload", jobs, "--topology", topology)


def test_case_26_utf_16_says_so(railyard, tmp_path):
    trace, topology = tmp_path / "a.txt", tmp_path / "mine.toml"
    trace.write_text(_COFLOWS.decode(), encoding="utf-16")
    topology.write_text(_TOPOLOGY.decode(), encoding="utf-16")
    for words in (
        ("--workload", f"coflow-benchmark:{trace}"),
        ("--workload", "terasort", "--topology", topology),
    ):
        done = railyard.call("simulate", *words)
        assert done.returncode == 2
        [line] = done.stderr.splitlines()
        assert line.endswith("begins with the byte order mark of UTF-16: need UTF-8")


@pytest.mark.parametrize("kind", ["coflow-benchmark", "swim", "wfcommons"])
@pytest.mark.parametrize("given", _FORMATS)
def test_case_26_a_file_of_another_format_is_named(railyard, tmp_path, kind, given):
    text, right = _FORMATS[given]
    if given == kind:
        return
    file = tmp_path / "trace"
    file.write_bytes(text)
    done = railyard.call("simulate", "--workload", f"{kind}:{file}", "--scheduler", "fair")
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert right in line


# Kind VI: configuration files are XML, with all that XML has.


def conf(tmp_path, text):
    (tmp_path / "c.xml").write_text(f"<?xml version='1.0'?>\n{text}")
    return ["-conf", tmp_path / "c.xml"]


def parts(hadoop, at):
    listed, _ = hadoop.ok("hadoop", "fs", "-ls", "-C", f"{at}/out/part-*")
    return len(listed.splitlines())


def test_case_28_what_is_in_a_comment_is_not_set(hadoop, tmp_path):
    words = conf(
        tmp_path,
        "<configuration><!-- <property><name>mapreduce.job.reduces</name><value>3</value>"
        "</property> --></configuration>",
    )
    at, status, errors = submitted(hadoop, b"x\n", *words, "-mapper", "cat", "-reducer", "cat")
    assert status == 0, errors
    assert parts(hadoop, at) == 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("<property><value>v</value><name>my.key</name></property>", b"v"),
        ("<property><name> my.key </name><value><![CDATA[<v&>]]></value></property>", b"<v&>"),
        ("<property><name>my.key</name><value>a&amp;b &#x6771;</value></property>", "a&b 東"),
        ('<property name="my.key" value="v"/>', b"v"),
        (
            "<property><name>my.key</name><value>v</value><final>true</final></property>"
            "<property><name>my.key</name><value>w</value></property>",
            b"v",
        ),
        (
            "<property><name>my.key</name><value>${my.other}-${no.such}-${user.name}</value>"
            "</property><property><name>my.other</name><value>v</value></property>",
            b"v-${no.such}-ann",
        ),
        (
            "<property><name>my.key</name><!-- c --><value>v</value></property>"
            "<property><name>my.key</name></property>",
            b"v",
        ),
    ],
)
def test_case_28_a_value_is_what_xml_says(hadoop, tmp_path, text, value):
    words = conf(tmp_path, f"<configuration>{text}</configuration>")
    out = streamed(hadoop, b"x\n", *words, "-mapper", "printenv my_key")
    assert out.rstrip(b"\n") == (value if isinstance(value, bytes) else value.encode())


@pytest.mark.parametrize(
    "text",
    [
        "no XML",
        "<configuration><property></configuration>",
        "<other/>",
        '<configuration xmlns:xi="http://www.w3.org/2001/XInclude"><xi:include href="x"/>'
        "</configuration>",
        '<!DOCTYPE c [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><configuration>&b;</configuration>',
        '<!DOCTYPE c [<!ENTITY a SYSTEM "/etc/passwd">]><configuration>&a;</configuration>',
    ],
)
def test_case_28_what_is_no_configuration_is_said_in_a_line(hadoop, tmp_path, text):
    errors = failing(hadoop, b"x\n", *conf(tmp_path, text), "-mapper", "cat")
    assert "c.xml: " in errors
    assert len(errors.splitlines()) == 2  # the last one is "Streaming Command Failed!"


def test_case_29_a_default_in_a_comment_is_none(hadoop, tmp_path):
    hadoop.put(b"x\n", "/seen")
    address = hadoop.url.removeprefix("http://")
    one = "<property><name>fs.defaultFS</name><value>webhdfs://{}</value></property>"
    (tmp_path / "core-site.xml").write_text(
        f"<configuration><!-- {one.format('127.0.0.1:1')} -->{one.format(address)}</configuration>"
    )
    out, _ = hadoop.ok("hadoop", "--config", tmp_path, "fs", "-cat", "/seen")
    assert out == b"x\n"
    before = hadoop.environment
    hadoop.environment = before | {"HADOOP_CONF_DIR": str(tmp_path)}
    try:
        assert hadoop.get("/seen") == b"x\n"
    finally:
        hadoop.environment = before
