"""``railyard simulate`` as people type it."""

import json

import pytest


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "small.txt"
    path.write_text("3 2\n1 0 1 0 1 1:250\n2 1000 1 0 1 2:125\n")
    return f"coflow-benchmark:{path}"


def test_a_trace_gives_a_table_and_a_summary(railyard, trace, tmp_path):
    said = railyard.ok("simulate", "--workload", trace, "--json", tmp_path / "s.json")
    assert "small.txt: 2 coflows, 2 flows, 375 MB, on ports-150x1,racks.count=3" in said
    assert "maxmin" in said
    assert said.split("\n")[-2].split()[:6] == ["maxmin", "2.50", "2.50", "2.95", "2.99", "3.00"]
    summary = json.loads((tmp_path / "s.json").read_text())
    assert (summary["workload"], summary["clock"]) == (trace, "virtual")
    assert summary["cct_s"]["mean"] == pytest.approx(2.5)


def test_network_and_number_of_coflows_can_be_chosen(railyard, trace):
    said = railyard.ok(
        "simulate", "--workload", trace, "--first", "1",
        "--topology", "hybrid-8x4", "--network", "uplink=100Mbps",
    )  # fmt: skip
    assert "1 coflow, 1 flow, 250 MB, on hybrid-8x4,uplink=100Mbps" in said
    assert "20.0" in said.split()


def test_a_scheduler_of_circuits_without_any_is_reported(railyard, trace):
    words = "sunflow: ports-150x1,racks.count=3 has no optical switch: all goes by packets"
    assert (
        words in railyard.run("simulate", "--workload", trace, "--flow-scheduler", "sunflow").stderr
    )
    jobs = ("--workload", "joint,jobs=1", "--topology", "joint-16x6", "--flow-scheduler", "sunflow")
    assert "sunflow: joint-16x6 has no optical switch" in railyard.run("simulate", *jobs).stderr


def test_several_flow_schedulers_stand_in_one_table(railyard, trace, tmp_path):
    both = ("--flow-scheduler", "maxmin", "--flow-scheduler", "sjf")
    railyard.ok("simulate", "--workload", trace, *both, "--json", tmp_path / "s.json")
    rows = json.loads((tmp_path / "s.json").read_text())
    assert [row["flow_scheduler"] for row in rows] == ["maxmin", "sjf"]
    assert rows[0]["bytes"] == rows[1]["bytes"]


def test_schedulers_and_seeds_stand_in_one_table(railyard, tmp_path):
    said = railyard.ok(
        *("simulate", "--workload", "terasort", "--size", "500MB", "--topology", "flat-4x4"),
        *("--scheduler", "fair", "--scheduler", "delay", "--seeds", "2"),
        *("--json", tmp_path / "s.json"),
    )
    assert "simulated, seeds 1 to 2: means" in said
    rows = json.loads((tmp_path / "s.json").read_text())
    assert [(row["scheduler"], row["seeds"]) for row in rows] == [
        ("fair", [1, 2]),
        ("delay", [1, 2]),
    ]
