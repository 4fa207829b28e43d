"""The coflow-benchmark format: correct files, and the errors of wrong ones."""

import pytest

from railyard.cluster.errors import UsageError
from railyard.jobs.workloads import coflow_trace
from railyard.jobs.workloads.traces.coflows import load_coflow_benchmark

FACEBOOK = "coflow-benchmark/FB2010-1Hr-150-0.txt"
SOUND = "4 2\n7 1500 2 0 1 2 2:3.0 3:1.5\n8 0 1 3 1 0:10\n"


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "trace.txt"
        path.write_text(text)
        return path

    return write


def test_coflows_come_in_order_of_arrival(write):
    trace = load_coflow_benchmark(write(SOUND))
    assert (trace.racks, trace.width) == (4, 5)
    late = trace.coflows[1]
    assert [coflow.name for coflow in trace.coflows] == ["8", "7"]
    assert (late.arrival_s, late.mappers) == (1.5, (0, 1))
    assert late.reducers == ((2, 3_000_000), (3, 1_500_000))
    assert late.size_bytes == 4_500_000
    assert [coflow.name for coflow in trace.first(1).coflows] == ["8"]


def test_a_reducer_s_bytes_are_spread_evenly_and_none_is_lost(write):
    [coflow] = load_coflow_benchmark(write("5 1\n1 0 3 0 1 1 1 4:1.0\n")).coflows
    assert list(coflow.flows()) == [(0, 4, 333_334), (1, 4, 333_333), (1, 4, 333_333)]


@pytest.mark.parametrize(
    ("was", "now", "message"),
    [
        ("4 2\n", "4\n", ":1: ends before the number of coflows: need more than 1 words"),
        ("4 2\n", "4 x\n", ":1: number of coflows = 'x': need a whole number >= 0"),
        ("4 2\n", "4 2 9\n", ":1: goes on with '9': need 2 words, by its own counts"),
        ("4 2\n", "4 3\n", ":1: 3 coflows, but 2 follow: need as many as there are"),
        ("7 1500 2", "7 1500 3", ":2: reducer '3:1.5': need rack:megabytes"),
        ("7 1500 2", "7 -1 2", ":2: arrival in ms = '-1': need a number >= 0"),
        ("7 1500 2", "7 1500 0", ":2: number of mappers = '0': need a whole number >= 1"),
        ("2 0 1 2", "2 0 4 2", ":2: mapper's rack = '4': need a port of 0 to 3"),
        ("2:3.0", "9:3.0", ":2: reducer '9:3.0': rack = '9': need a port of 0 to 3"),
        ("2:3.0", "2:x", ":2: reducer '2:x': need rack:megabytes, such as 4:27.0"),
        ("2:3.0", "2:nan", ":2: reducer '2:nan': need rack:megabytes, such as 4:27.0"),
        (" 3:1.5", "", ":2: ends before the reducer: need more than"),
        (" 3:1.5", " 3:1.5 3:2", ":2: goes on with '3:2': need"),
        ("8 0 1", "7 0 1", ":3: coflow 7 is there already: need an id of its own"),
        ("0:10", "0;10", ":3: reducer '0;10': need rack:megabytes"),
        (SOUND, "", ":1: ends before the number of ports: need more than 0 words"),
    ],
)
def test_a_malformed_line_is_reported_with_its_place_and_a_correction(write, was, now, message):
    assert was in SOUND
    path = write(SOUND.replace(was, now, 1))
    if (was, now) == ("7 1500 2", "7 1500 3"):  # the third mapper is then the number of reducers
        message = ":2: number of reducers = '2:3.0': need a whole number >= 1"
    with pytest.raises(UsageError) as error:
        load_coflow_benchmark(path)
    assert f"{path}{message}" in str(error.value)
    assert "\n" not in str(error.value)


def test_files_that_are_no_traces(tmp_path, write):
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        load_coflow_benchmark(tmp_path / "none.txt")
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        load_coflow_benchmark(tmp_path)
    path = write("")
    path.write_bytes(b"\xf7\xfe\x00")
    with pytest.raises(UsageError, match="is no coflow-benchmark trace"):
        load_coflow_benchmark(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("coflow-bench:x", 'unknown workload "coflow-bench": did you mean "coflow-benchmark"?'),
        ("coflow-benchmark", "need a file, as in coflow-benchmark:FILE"),
        ("coflow-benchmark:", "need a file, as in coflow-benchmark:FILE"),
    ],
)
def test_workloads_that_are_not_there(text, message):
    with pytest.raises(UsageError) as error:
        coflow_trace(text)
    assert message in str(error.value)


def test_facebook_s_trace_has_the_known_statistics(public_trace):
    trace = coflow_trace(f"coflow-benchmark:{public_trace(FACEBOOK)}")
    assert (trace.racks, len(trace.coflows), trace.width) == (150, 526, 706_397)
    total = sum(coflow.size_bytes for coflow in trace.coflows)
    assert total == sum(size for coflow in trace.coflows for _, _, size in coflow.flows())
    assert total == 35_533_534_000_000
