"""Simulations: those that can't go on end, and say what waits for what."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.command_line import ROOT

TERASORT = ("--workload", "terasort,size=1GB", "--topology", "flat-4x4")
FAULT = ("--faults", "link:r1.up*0@0s")


@pytest.mark.parametrize("more", [(), ("--behaviour", "progress_s=0")], ids=["", "silent"])
def test_case_41_a_simulation_that_cannot_end_says_what_waits_for_which_link(railyard, more):
    done = railyard.call("simulate", *TERASORT, *FAULT, *more)
    assert done.returncode == 1
    [line] = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    assert "terasort: since 5.000 s nothing can change any more: j1.r0.0 fetches 125 MB" in line
    assert "over r1.up" in line
    assert "Traceback" not in done.stderr


def test_case_41_several_runs_end_too(railyard):
    among = ("--scheduler", "fair", "--scheduler", "corral", "--seeds", "2")
    done = railyard.call("simulate", *TERASORT, *FAULT, *among)
    assert done.returncode == 1
    for name in ("fair", "corral"):
        said = f"! {name}: not to be trusted: terasort failed: since "
        assert said in done.stdout
    assert "over r1.up" in done.stdout


def test_case_41_a_fault_with_an_end_is_waited_for(railyard):
    done = railyard.call("simulate", *TERASORT, "--faults", "link:r1.up*0@0s+5000s")
    assert done.returncode == 0
    assert "1 h 23 min" in done.stdout


def unequal_children() -> dict[str, Any]:
    """A parent that writes 1 MB for one child and 999 MB for the other."""
    tasks = [
        {"id": "p", "name": "p", "children": ["a", "b"], "outputFiles": ["small", "large"]},
        {"id": "a", "name": "a", "parents": ["p"], "inputFiles": ["small"]},
        {"id": "b", "name": "b", "parents": ["p"], "inputFiles": ["large"]},
    ]
    lists = {"parents": [], "children": [], "inputFiles": [], "outputFiles": []}
    files = [{"id": "small", "sizeInBytes": 10**6}, {"id": "large", "sizeInBytes": 999 * 10**6}]
    times = [{"id": task["id"], "runtimeInSeconds": 1.0} for task in tasks]
    return {
        "name": "unequal",
        "schemaVersion": "1.5",
        "workflow": {
            "specification": {"tasks": [lists | task for task in tasks], "files": files},
            "execution": {"makespanInSeconds": 10.0, "tasks": times},
        },
    }


def test_case_45_children_of_one_parent_fetch_the_mean_and_that_is_said(railyard, tmp_path):
    path = tmp_path / "w.json"
    path.write_text(json.dumps(unequal_children()))
    shown = railyard.call("workloads", "show", f"wfcommons:{path}")
    assert shown.returncode == 0, shown.stderr
    [line] = [line for line in shown.stdout.splitlines() if "fetched by another child" in line]
    assert line.split()[-1] == "50%"
    said = (ROOT / "docs" / "workloads.md").read_text(encoding="utf-8")
    assert "each child fetches the mean" in said


# The letters of a unit decide bytes or bits, wherever a rate or a size is read.


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


# What would be taken and change nothing is used, or refused by name.


_SIZES = {"in": 700_000_000, "x": 300_000_000}
_WORKFLOW = {
    "name": "w",
    "workflow": {
        "specification": {
            "tasks": [{"name": "a", "id": "a", "inputFiles": ["in"], "outputFiles": ["x"]}],
            "files": [{"id": name, "sizeInBytes": size} for name, size in _SIZES.items()],
        }
    },
}


def _refused(railyard, *words):
    done = railyard.call(*words)
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    return line


@pytest.mark.parametrize(
    ("options", "right"),
    [
        ("gap=100s", "gap: changes nothing here: need arrivals=poisson"),
        ("window=1h", "window: changes nothing here: need arrivals=uniform, poisson or trace"),
    ],
)
def test_case_19_an_option_that_another_switches_off(railyard, tmp_path, options, right):
    file = tmp_path / "w.json"
    file.write_text(json.dumps(_WORKFLOW))
    word = f"wfcommons:{file},jobs=3,{options}"
    assert right in _refused(railyard, "simulate", "--workload", word, "--topology", "flat-4x4")


def test_case_19_jobs_are_as_far_from_one_another_as_asked(railyard, tmp_path):
    file, summary = tmp_path / "w.json", tmp_path / "w-summary.json"
    file.write_text(json.dumps(_WORKFLOW))
    word = f"wfcommons:{file},jobs=40,arrivals=poisson,gap=100s"
    words = ("--workload", word, "--topology", "flat-4x4", "--json", summary)
    assert railyard.call("simulate", *words).returncode == 0
    lasted_s = json.loads(summary.read_text())["makespan_s"]
    assert 2000 < lasted_s < 6000, "about 40 gaps of 100 s"


def test_case_43_coflows_alone_have_no_options(railyard, tmp_path):
    trace = tmp_path / "a.txt"
    trace.write_text("2 1\nA 0 1 0 1 1:100\n")
    line = _refused(railyard, "simulate", "--workload", f"coflow-benchmark:{trace},jobs=1")
    assert "jobs=1: coflows alone have no options: need --first 1, or --scheduler" in line


@pytest.mark.parametrize(
    ("clock", "option", "needed"),
    [
        ("wall", ("--exact",), "virtual"),
        ("virtual", ("--strict",), "wall"),
        ("virtual", ("--durability", "safe"), "wall"),
    ],
)
def test_case_43_an_option_of_the_other_clock(railyard, clock, option, needed):
    line = _refused(railyard, "compare", "terasort", "--clock", clock, *option)
    assert f"{option[0]}: changes nothing here: need --clock {needed} or both" in line


def test_case_43_keys_of_tasks_for_coflows_alone(railyard, tmp_path):
    trace = tmp_path / "a.txt"
    trace.write_text("2 1\nA 0 1 0 1 1:100\n")
    options = ("--topology", "flat-4x4", "--network", "compute.map_rate=1MB/s")
    line = _refused(railyard, "simulate", "--workload", f"coflow-benchmark:{trace}", *options)
    assert "--network compute.map_rate: coflows alone have no tasks and files" in line


def test_case_44_a_rate_needs_its_unit(railyard, tmp_path):
    mine = tmp_path / "mine.toml"
    mine.write_text(
        'name = "mine"\n[racks]\ncount = 2\nnodes = 1\n[links]\nnic = 125000000\nuplink = "1Gbps"\n'
    )
    line = _refused(railyard, "simulate", "--workload", "terasort", "--topology", mine)
    assert "links.nic = 125000000: need a rate such as 10Gbps (bits), 200MB/s (bytes)" in line


# Pictures of runs that are out of the ordinary.


def test_case_46_jobs_of_no_time_are_drawn_without_a_warning(railyard, tmp_path):
    (tmp_path / "s.tsv").write_text("job0\t0\t0\t0\t0\t0\njob1\t1\t1\t0\t0\t0\n")
    words = ("--schedulers", "fair,delay", "--topology", "flat-4x4", "--clock", "virtual")
    workload = f"swim:{tmp_path / 's.tsv'},start=0s"
    done = railyard.run("compare", workload, *words, "--seeds", "2", "--out", tmp_path / "D")
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stdout + done.stderr
    assert (tmp_path / "D" / "plots" / "completion-times.svg").is_file()
