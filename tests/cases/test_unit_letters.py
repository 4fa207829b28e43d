"""The letters of a unit decide bytes or bits, wherever a rate or a size is read."""

import json

import pytest

BYTES = ["12.5MBps", "12.5MB/s", "12500KBps", "12500kB/s", "0.0125GBps", "11.920928955078125MiBps"]
UNCLEAR = ["12.5MB/S", "12.5mbps", "12.5MBPS", "12.5mb/s", "12.5MB", "12.5M"]
BOTH = "need 12.5MB/s (bytes) or 12.5Mbps (bits): upper and lower case count"


def _cct_s(railyard, tmp_path, *options):
    """The completion time of 100 MB over the one link."""
    trace, summary = tmp_path / "a.txt", tmp_path / "a.json"
    trace.write_text("2 1\nA 0 1 0 1 1:100\n")
    words = ("--workload", f"coflow-benchmark:{trace}", *options, "--json", summary)
    assert railyard.call("simulate", *words).returncode == 0
    return json.loads(summary.read_text())["cct_s"]["mean"]


@pytest.mark.parametrize("rate", BYTES)
def test_case_01_a_capital_b_is_bytes(railyard, tmp_path, rate):
    assert _cct_s(railyard, tmp_path, "--network", f"r1.down={rate}") == pytest.approx(8.0)


@pytest.mark.parametrize("rate", ["12.5Mb/s", "12.5Mbps", "12500Kbps", "12.5Mbit/s"])
def test_case_01_a_small_b_is_bits(railyard, tmp_path, rate):
    assert _cct_s(railyard, tmp_path, "--network", f"r1.down={rate}") == pytest.approx(64.0)


def test_case_01_a_tenth_of_a_gigabyte_is_most_of_the_port(railyard, tmp_path):
    assert _cct_s(railyard, tmp_path, "--network", "r1.down=0.1GBps") == pytest.approx(1.0)


@pytest.mark.parametrize("rate", UNCLEAR)
def test_case_01_what_is_neither_exactly_is_refused_with_both(railyard, tmp_path, rate):
    trace = tmp_path / "a.txt"
    trace.write_text("2 1\nA 0 1 0 1 1:100\n")
    of = f"coflow-benchmark:{trace}"
    topology, made = tmp_path / "mine.toml", "[racks]\ncount = 2\nnodes = 1\n[links]\n"
    topology.write_text(f'name = "mine"\n{made}nic = "{rate}"\nuplink = "1Gbps"\n')
    for options in (
        ("--workload", of, "--network", f"r1.down={rate}"),
        ("--workload", "terasort", "--network", f"compute.map_rate={rate}"),
        ("--workload", of, "--topology", topology),
        ("--workload", f"swim:{trace},map_rate={rate}"),
    ):
        done = railyard.call("simulate", *options)
        assert done.returncode == 2
        [line] = done.stderr.splitlines()
        assert BOTH in line


@pytest.mark.parametrize(
    ("options", "right"),
    [
        pytest.param(("--size", "10Gb"), "10GB", id="--size"),
        pytest.param(("--network", "storage.block=64mb"), "64MB", id="topology"),
    ],
)
def test_case_01_a_size_in_bits_is_refused(railyard, options, right):
    done = railyard.call("simulate", "--workload", "terasort", *options)
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert f"need a size such as {right} (bytes)" in line


@pytest.mark.parametrize("job", ["terasort,size=10Gb", "mix,sizes=10Gb+1GB"])
def test_case_01_a_jobs_size_in_bits_is_refused(railyard, tmp_path, job):
    mix = tmp_path / "jobs.toml"
    mix.write_text('[[job]]\njob = "terasort"\nsize = "10Gb"\n')
    for word in (job, mix):
        done = railyard.call("simulate", "--workload", word)
        assert done.returncode == 2
        [line] = done.stderr.splitlines()
        assert "need a size such as 10GB (bytes)" in line


def test_case_01_a_cluster_that_is_up(hadoop):
    for rate in BYTES:
        done = hadoop.railyard.call("network", "set", "r1.up", rate)
        assert done.stdout.startswith("r1.up carries 100 Mbps")
    said = hadoop.railyard.ok("network", "set", "r1.up", "12.5Mb/s")
    assert said.startswith("r1.up carries 12.5 Mbps")
    for rate in UNCLEAR:
        done = hadoop.railyard.call("network", "set", "r1.up", rate)
        assert (done.returncode, BOTH in done.stderr) == (2, True)
    hadoop.railyard.ok("network", "set", "r1.up", "default")
