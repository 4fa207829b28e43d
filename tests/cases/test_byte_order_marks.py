"""Marks before a file's text, and files of another known format."""

import codecs
import json

import pytest

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
